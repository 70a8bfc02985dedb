//! The locks and atomics of the write queue, in one place so that its tests can put those of a
//! schedule checker there. Thread-safe as what they wrap.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::Arc;
pub(super) use std::sync::atomic::{AtomicU8, Ordering};

pub(super) use parking_lot::{Mutex, MutexGuard};

/// A condition variable that takes and gives back the guard.
#[derive(Debug)]
pub(super) struct Condvar(parking_lot::Condvar);

impl Condvar {
    pub(super) fn new() -> Self {
        Condvar(parking_lot::Condvar::new())
    }

    pub(super) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }

    pub(super) fn notify_one(&self) {
        self.0.notify_one();
    }
}
