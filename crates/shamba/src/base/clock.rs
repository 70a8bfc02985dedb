//! What time it is, for entries that have a time to live. Thread-safe.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment: milliseconds since the Unix epoch.
pub(crate) type Moment = u64;

/// Later than any.
pub(crate) const NEVER: Moment = Moment::MAX;

/// Where a database gets the time from, by which entries expire. One that goes back makes entries
/// live longer; those that a merge found expired stay gone, and for snapshots all that had expired
/// by then.
pub trait Clock: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> SystemTime;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still until it is set, for tests. Clones are the same clock.
#[cfg(feature = "testing")]
#[derive(Debug, Clone, Default)]
pub struct ManualClock(std::sync::Arc<std::sync::atomic::AtomicU64>);

#[cfg(feature = "testing")]
impl ManualClock {
    /// A clock at the Unix epoch.
    #[must_use]
    pub fn new() -> Self {
        ManualClock::default()
    }

    /// Sets it forward.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(by, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(feature = "testing")]
impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}

/// The moment of a time; those before the epoch are at it.
pub(crate) fn moment_of(time: SystemTime) -> Moment {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(NEVER)
}

/// So much later; never, where that is later than can be said.
pub(crate) fn later(moment: Moment, by: Duration) -> Moment {
    let by = u64::try_from(by.as_millis()).unwrap_or(NEVER);
    moment.saturating_add(by)
}
