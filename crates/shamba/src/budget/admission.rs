//! How many merges, and how many flushes, work at once: as many as memory holds.
//!
//! What such work cannot do without is held until it ends. Two merges that each wait for what the
//! other holds would wait for ever, so a merge is let in only where all of it finds room beside the
//! others, and one always is. A weighted semaphore, first come first served; permits are bytes.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// What is let in together.
#[derive(Debug, Default)]
pub(super) struct Admission {
    line: Mutex<Line>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    /// Bytes of all that is in.
    inside: u64,
    /// The number of the next ticket.
    next: u64,
    /// The tickets of those who wait, in order.
    waiting: VecDeque<u64>,
}

/// A place in the line, until it is dropped: however the wait ends.
struct Ticket<'a> {
    admission: &'a Admission,
    number: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut line = self.admission.line.lock();
        line.waiting.retain(|waits| *waits != self.number);
        drop(line);
        // The next may fit too, or be the first now.
        self.admission.left.notify_all();
    }
}

/// How long who waits goes without asking whether it still should, and what the share is.
const ASK_AGAIN: Duration = Duration::from_millis(50);

impl Admission {
    /// Waits until `bytes` are at most `share()` together with those inside, or nobody is inside.
    /// Asks `go_on` meanwhile, now and then, and gives up with its error.
    pub(super) fn enter<E>(
        &self,
        bytes: u64,
        share: impl Fn() -> u64,
        go_on: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let ticket = self.line_up();
        let mut line = self.line.lock();
        loop {
            let first = line.waiting.front() == Some(&ticket.number);
            let fits = line.inside == 0 || line.inside.saturating_add(bytes) <= share();
            if first && fits {
                line.inside = line.inside.saturating_add(bytes);
                return Ok(());
            }
            if self.left.wait_for(&mut line, ASK_AGAIN).timed_out()
                && let Err(error) = MutexGuard::unlocked(&mut line, &go_on)
            {
                return Err(error);
            }
        }
    }

    fn line_up(&self) -> Ticket<'_> {
        let mut line = self.line.lock();
        let number = line.next;
        line.next += 1;
        line.waiting.push_back(number);
        Ticket {
            admission: self,
            number,
        }
    }

    pub(super) fn leave(&self, bytes: u64) {
        let mut line = self.line.lock();
        line.inside = line.inside.saturating_sub(bytes);
        drop(line);
        self.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;

    #[test]
    fn no_more_are_in_than_fit() {
        let (admission, inside) = (Admission::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for i in 0..8u64 {
                let (admission, inside) = (&admission, &inside);
                scope.spawn(move || {
                    for round in 0..300 {
                        let bytes = 1 + (i * 37 + round * 11) % 120;
                        admission.enter(bytes, || 100, || Ok::<_, ()>(())).unwrap();
                        let now = inside.fetch_add(bytes, SeqCst) + bytes;
                        assert!(now <= 100 || now == bytes, "{now} with one of {bytes}");
                        std::thread::yield_now();
                        inside.fetch_sub(bytes, SeqCst);
                        admission.leave(bytes);
                    }
                });
            }
        });
        let line = admission.line.lock();
        assert_eq!((line.inside, line.waiting.len()), (0, 0));
    }

    /// Enters, or is sent away at the first look that finds no room.
    fn enter(admission: &Admission, bytes: u64) -> bool {
        admission.enter(bytes, || 100, || Err(())).is_ok()
    }

    #[test]
    fn as_many_are_in_as_fit_and_one_always() {
        let admission = Admission::default();
        assert!(enter(&admission, 40) && enter(&admission, 60));
        assert!(!enter(&admission, 1));
        admission.leave(40);
        assert!(!enter(&admission, 41) && enter(&admission, 40));
        admission.leave(40);
        admission.leave(60);
        assert!(enter(&admission, 1000), "larger than the share, and alone");
        assert!(!enter(&admission, 1));
    }

    #[test]
    fn nobody_passes_the_first_in_line() {
        let admission = Admission::default();
        assert!(enter(&admission, 80));
        let waits = AtomicU64::new(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let go_on = || (waits.load(SeqCst) == 1).then_some(()).ok_or(());
                assert_eq!(admission.enter(50, || 100, go_on), Err(()));
            });
            while admission.line.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            assert!(!enter(&admission, 10), "it would fit, and came later");
            waits.store(0, SeqCst);
        });
        assert!(enter(&admission, 10), "who gave up bars nobody");
    }

    #[test]
    fn who_panics_bars_nobody() {
        let admission = Admission::default();
        assert!(enter(&admission, 80));
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let go_on = || -> Result<(), ()> { panic!("in a flush on the way") };
            admission.enter(80, || 100, go_on)
        }));
        assert!(panics.is_err());
        admission.leave(80);
        assert!(enter(&admission, 80));
    }
}
