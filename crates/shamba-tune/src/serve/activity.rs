//! Whether anybody still uses the server.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Requests now, and when the last one ended.
#[derive(Debug)]
pub(super) struct Activity {
    started: Instant,
    /// Requests being answered.
    busy: AtomicUsize,
    /// Milliseconds from `started` to the last answer.
    last_answer: AtomicU64,
}

/// Lives as long as a request is being answered, or until its client has gone.
#[derive(Debug)]
pub(super) struct Busy<'a>(&'a Activity);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let since = self.0.started.elapsed().as_millis();
        let since = since.try_into().unwrap_or(u64::MAX);
        self.0.last_answer.store(since, Relaxed);
        self.0.busy.fetch_sub(1, Relaxed);
    }
}

impl Activity {
    pub(super) fn new() -> Self {
        Activity {
            started: Instant::now(),
            busy: AtomicUsize::new(0),
            last_answer: AtomicU64::new(0),
        }
    }

    /// A request has come.
    pub(super) fn busy(&self) -> Busy<'_> {
        self.busy.fetch_add(1, Relaxed);
        Busy(self)
    }

    /// Returns once nothing was asked for `idle`.
    pub(super) async fn silence(&self, idle: Duration) {
        loop {
            let last = Duration::from_millis(self.last_answer.load(Relaxed));
            let silent = match self.busy.load(Relaxed) {
                0 => self.started.elapsed().saturating_sub(last),
                _ => Duration::ZERO,
            };
            match idle.checked_sub(silent) {
                Some(left) if !left.is_zero() => sleep(left).await,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    /// However long a request takes, it is no silence.
    #[test]
    fn a_request_is_no_silence() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let activity = Activity::new();
            let (short, idle) = (Duration::from_millis(50), Duration::from_millis(1));
            let busy = activity.busy();
            let other = activity.busy();
            drop(other);
            assert!(timeout(short, activity.silence(idle)).await.is_err());
            drop(busy);
            let long = Duration::from_secs(60);
            assert!(timeout(long, activity.silence(idle)).await.is_ok());
        });
    }
}
