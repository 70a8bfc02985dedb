//! Work on tables under way, on whatever thread: counted, so that closing can wait for it, and
//! giving back what it holds however it ends.
//!
//! Protocol: [`DbInner::begin_job`] before anything else, [`DbInner::hold`] for each thing taken.
//! A panic in the middle of work is a bug of which nobody knows what it left behind: it stops
//! writes with [`Error::Panicked`], so that whoever waits for the work is told instead of waiting
//! for ever, and what is on storage stays as it is until the next open.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::DbInner;
use crate::error::{Error, Result};

/// Stops writes when the thread begins to panic within its life.
struct Watch<'a> {
    db: &'a DbInner,
    /// What is being done, for the error.
    op: &'static str,
    /// Whether the thread was panicking before: the work is then part of somebody's clean-up.
    unwinding: bool,
}

impl<'a> Watch<'a> {
    fn new(db: &'a DbInner, op: &'static str) -> Self {
        Watch {
            db,
            op,
            unwinding: std::thread::panicking(),
        }
    }

    fn look(&self) {
        if std::thread::panicking() && !self.unwinding {
            self.db.poison(&Error::Panicked { op: self.op });
        }
    }
}

/// Work on tables under way; closing waits for it.
pub(crate) struct JobGuard<'a>(Watch<'a>);

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        self.0.look();
        let db = self.0.db;
        db.jobs.fetch_sub(1, Ordering::SeqCst);
        if db.closed.load(Ordering::SeqCst) {
            db.signal.notify();
        }
    }
}

/// Something a piece of work has taken. Dropped, it is given back, and those who wait look again.
pub(crate) struct PausedJobs<'a, F: FnMut()> {
    watch: Watch<'a>,
    give_back: F,
}

impl<F: FnMut()> Drop for PausedJobs<'_, F> {
    fn drop(&mut self) {
        // First, so that nobody takes it only to go on from an unknown state.
        self.watch.look();
        (self.give_back)();
        self.watch.db.signal.notify();
    }
}

impl DbInner {
    /// Says that work on tables begins; refused once the database closes.
    pub(super) fn begin_job(&self) -> Result<JobGuard<'_>> {
        self.jobs.fetch_add(1, Ordering::SeqCst);
        let job = JobGuard(Watch::new(self, "working on tables"));
        // After the count: either closing sees the job, or the job sees the closing.
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        Ok(job)
    }

    /// Takes note of something taken for the time of the work, and of how to give it back.
    pub(super) fn hold<F: FnMut()>(&self, op: &'static str, give_back: F) -> PausedJobs<'_, F> {
        PausedJobs {
            watch: Watch::new(self, op),
            give_back,
        }
    }

    /// Waits until no work on tables is under way, after `closed` was set.
    pub(crate) fn wait_for_jobs(&self) {
        loop {
            let seen = self.signal.now();
            if self.jobs.load(Ordering::SeqCst) == 0 {
                return;
            }
            self.signal.wait_past(seen, Duration::from_millis(100));
        }
    }
}
