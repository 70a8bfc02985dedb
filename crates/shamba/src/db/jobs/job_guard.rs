//! Work on tables under way, on whatever thread: counted, so that closing can wait for it, and
//! giving back what it holds however it ends.
//!
//! Protocol: [`Jobs::begin`] before anything else, [`Jobs::hold`] for each thing taken,
//! [`Jobs::note`] of how it ended. A panic in the middle of work is a bug of which nobody knows
//! what it left behind: it stops writes with [`Error::Panicked`], so that whoever waits for the
//! work is told instead of waiting for ever, and what is on storage stays as it is until the next
//! open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::db::context::DbContext;
use crate::db::files::Files;
use crate::db::keyspaces::Failing;
use crate::error::{Error, Result};
use crate::metrics::Counter;

/// Stops writes when the thread begins to panic within its life.
struct Watch<'a> {
    shared: &'a DbContext,
    /// What is being done, for the error.
    op: &'static str,
    /// Whether the thread was panicking before: the work is then part of somebody's clean-up.
    unwinding: bool,
}

impl<'a> Watch<'a> {
    fn new(shared: &'a DbContext, op: &'static str) -> Self {
        Watch {
            shared,
            op,
            unwinding: std::thread::panicking(),
        }
    }

    fn look(&self) {
        if std::thread::panicking() && !self.unwinding {
            self.shared.poison(&Error::Panicked { op: self.op });
        }
    }
}

/// Work on tables under way; closing waits for it.
pub(in crate::db) struct JobGuard<'a> {
    jobs: &'a Jobs,
    watch: Watch<'a>,
}

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        self.watch.look();
        self.jobs.running.fetch_sub(1, Ordering::SeqCst);
        if self.watch.shared.is_closed() {
            self.watch.shared.signal().notify();
        }
    }
}

/// Something a piece of work has taken. Dropped, it is given back, and those who wait look again.
pub(in crate::db) struct Held<'a, F: FnMut()> {
    watch: Watch<'a>,
    give_back: F,
}

impl<F: FnMut()> Drop for Held<'_, F> {
    fn drop(&mut self) {
        // First, so that nobody takes it only to go on from an unknown state.
        self.watch.look();
        (self.give_back)();
        self.watch.shared.signal().notify();
    }
}

/// The work on tables under way.
pub(in crate::db) struct Jobs {
    shared: Arc<DbContext>,
    files: Arc<Files>,
    running: AtomicU64,
}

impl Jobs {
    pub(in crate::db) fn new(shared: &Arc<DbContext>, files: &Arc<Files>) -> Self {
        Jobs {
            shared: shared.clone(),
            files: files.clone(),
            running: AtomicU64::new(0),
        }
    }

    /// Says that work on tables begins; refused once the database closes.
    pub(in crate::db) fn begin(&self) -> Result<JobGuard<'_>> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let job = JobGuard {
            jobs: self,
            watch: Watch::new(&self.shared, "working on tables"),
        };
        // After the count: either closing sees the job, or the job sees the closing.
        self.shared.check_open().map(|()| job)
    }

    /// Takes note of something taken for the time of the work, and of how to give it back.
    pub(super) fn hold<F: FnMut()>(&self, op: &'static str, give_back: F) -> Held<'_, F> {
        Held {
            watch: Watch::new(&self.shared, op),
            give_back,
        }
    }

    /// Takes note of how work ended.
    pub(super) fn note<T>(&self, failing: &Failing, result: &Result<T>) {
        match result {
            Ok(_) => failing.forget(),
            Err(Error::Closed) => {}
            Err(error) => {
                self.shared.metrics().add(Counter::background_errors, 1);
                if error.is_out_of_files() {
                    // One for the next time.
                    self.files.tables().close_file();
                }
                if failing.failed(error) {
                    let dir = self.shared.dir().display();
                    log::error!("{dir}: flushes or compactions keep failing: {error}");
                }
                self.shared.signal().notify();
            }
        }
    }

    /// Waits until no work on tables is under way, after the database was closed.
    pub(in crate::db) fn wait_for_end(&self) {
        loop {
            let seen = self.shared.signal().now();
            if self.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            self.shared
                .signal()
                .wait_past(seen, Duration::from_millis(100));
        }
    }
}
