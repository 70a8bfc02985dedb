//! How many merges, and how many flushes, work at once: as many as memory holds.
//!
//! What such work cannot do without is held until it ends. Two merges that each wait for what the other holds
//! would wait for ever, so a merge is let in only where all of it finds room beside the others, and one
//! always is. A weighted semaphore, first come first served; permits are bytes.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// What is let in together.
#[derive(Debug, Default)]
pub(super) struct Admission {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of all that is in.
    inside: u64,
    next: u64,
    waiting: VecDeque<u64>,
}

/// A place in the queue.
struct Place<'a> {
    admission: &'a Admission,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.admission.state.lock();
        state.waiting.retain(|waits| *waits != self.number);
        drop(state);
        self.admission.left.notify_all();
    }
}

/// How long who waits goes without asking whether it still should, and what the share is.
const ASK_AGAIN: Duration = Duration::from_millis(50);

impl Admission {
    /// Waits until `bytes` are at most `share()` together with those inside, or nobody is inside. Asks
    /// `go_on` meanwhile, now and then, and gives up with its error.
    pub(super) fn enter<E>(
        &self,
        bytes: u64,
        share: impl Fn() -> u64,
        go_on: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        drop(state);
        // However it ends, also by a panic of `go_on`: the next may fit too, or be the first now.
        let _place = Place {
            admission: self,
            number,
        };
        let mut state = self.state.lock();
        loop {
            let first = state.waiting.front() == Some(&number);
            let fits = state.inside == 0 || state.inside.saturating_add(bytes) <= share();
            if first && fits {
                state.inside = state.inside.saturating_add(bytes);
                return Ok(());
            }
            if self.left.wait_for(&mut state, ASK_AGAIN).timed_out()
                && let Err(error) = MutexGuard::unlocked(&mut state, &go_on)
            {
                return Err(error);
            }
        }
    }

    pub(super) fn leave(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.inside = state.inside.saturating_sub(bytes);
        drop(state);
        self.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::*;

    #[test]
    fn as_many_are_in_as_fit_and_one_always() {
        let (admission, inside, most) =
            (Admission::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for i in 0..8u64 {
                let (admission, inside, most) = (&admission, &inside, &most);
                scope.spawn(move || {
                    for round in 0..300 {
                        let bytes = 1 + (i * 37 + round * 11) % 120;
                        admission.enter(bytes, || 100, || Ok::<_, ()>(())).unwrap();
                        let now = inside.fetch_add(bytes, SeqCst) + bytes;
                        assert!(now <= 100 || now == bytes, "{now} with one of {bytes}");
                        most.fetch_max(now.min(100), SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(bytes, SeqCst);
                        admission.leave(bytes);
                    }
                });
            }
        });
        assert!(most.load(SeqCst) > 60, "{most:?}");
        assert_eq!(admission.state.lock().inside, 0);
    }

    #[test]
    fn who_may_not_go_on_leaves_the_queue() {
        let admission = Admission::default();
        let enter = |go_on| admission.enter(80, || 100, || go_on);
        assert_eq!(enter(Ok(())), Ok(()));
        assert_eq!(enter(Err("closed")), Err("closed"));
        admission.leave(80);
        assert_eq!(enter(Err("closed")), Ok(()), "there is room");
        assert!(admission.state.lock().waiting.is_empty());
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let go_on = || -> Result<(), ()> { panic!("in a flush on the way") };
            admission.enter(80, || 100, go_on)
        }));
        assert!(panics.is_err());
        admission.leave(80);
        assert_eq!(enter(Err("closed")), Ok(()), "who panicked bars nobody");
    }
}
