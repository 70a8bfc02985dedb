//! Background work that fails: what failed, and when it is tried again.
//!
//! A flush or merge that fails leaves nothing but files to remove, so it can be tried again, for
//! ever: a full disk may have room later. Those who wait for it are told once it failed
//! [`FAILURES`] times in a row; the first success ends that. Thread-safe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::error::Error;

/// Failures in a row after which those who wait are told.
const FAILURES: u32 = 5;

/// How long work rests after so many failures, doubled with each more, and at most.
const REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(10);

/// How long it rests where stored bytes are damaged, which may be found only after reading many.
const REST_OF_DAMAGE: Duration = Duration::from_secs(600);

/// The failures of one kind of work on one keyspace.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    rest: Mutex<Backoff>,
    /// The last failure, once those who wait are to be told.
    stuck: ArcSwapOption<Error>,
}

#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Failing {
    /// Takes note of a failure; whether those who wait are told from now on. Of damage, and of what
    /// this build cannot read, they are told at once: it stays.
    pub(in crate::db) fn failed(&self, error: &Error) -> bool {
        let mut rest = self.rest.lock();
        rest.failures += 1;
        let length = match rest.failures.checked_sub(FAILURES) {
            _ if error.is_for_good() => Some(REST_OF_DAMAGE),
            more => more.map(|more| REST.saturating_mul(1 << more.min(16)).min(LONGEST_REST)),
        };
        if let Some(length) = length {
            rest.until = Some(Instant::now() + length);
            return self.stuck.swap(Some(Arc::new(error.clone()))).is_none();
        }
        false
    }

    /// Takes note of a success, or has the work tried anew at once.
    pub(in crate::db) fn forget(&self) {
        let mut rest = self.rest.lock();
        if rest.failures > 0 {
            *rest = Backoff::default();
            self.stuck.store(None);
        }
    }

    /// Whether it rests after failures.
    pub(in crate::db) fn rests(&self) -> bool {
        let until = self.rest.lock().until;
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether it failed since it last succeeded.
    pub(in crate::db) fn fails(&self) -> bool {
        self.rest.lock().failures > 0
    }

    /// Why it is stuck, if it is.
    pub(in crate::db) fn stuck(&self) -> Option<Arc<Error>> {
        self.stuck.load_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Error {
        Error::io(
            "write",
            "000007.sst",
            std::io::ErrorKind::StorageFull.into(),
        )
    }

    #[test]
    fn a_few_failures_are_nothing_and_a_success_ends_many() {
        let failing = Failing::default();
        for _ in 1..FAILURES {
            assert!(!failing.failed(&full()));
            assert!(failing.stuck().is_none() && !failing.rests());
        }
        assert!(failing.failed(&full()) && !failing.failed(&full()));
        assert!(failing.stuck().is_some() && failing.rests());
        failing.forget();
        assert!(failing.stuck().is_none() && !failing.rests());
        assert!(
            !failing.failed(&full()) && failing.stuck().is_none(),
            "anew"
        );
    }

    #[test]
    fn damage_is_told_at_once_and_rests_are_bounded() {
        let failing = Failing::default();
        assert!(failing.failed(&Error::corruption("000007.sst", 0, "a checksum")));
        assert!(failing.stuck().is_some() && failing.rests());
        assert!((0..100).all(|_| !failing.failed(&full())));
        let until = failing.rest.lock().until.unwrap();
        assert!(until <= Instant::now() + LONGEST_REST);
    }
}
