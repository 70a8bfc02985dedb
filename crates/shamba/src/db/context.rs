//! What every component of a database needs of the whole: where it lies, its options, its counters,
//! whether it is open and whether writes go on.
//!
//! Thread-safe. Components hold it by [`Arc`]; it knows none of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::{Condvar, Mutex};

use super::keyspaces::AllKeyspaces;
use crate::base::clock::{self, Moment};
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::metrics::Metrics;
use crate::options::Options;

/// Wakes those who wait for a change of state: writers for room, threads for work, callers for
/// quiet. Take `now` first, look at the state, then `wait_past`: a change in between is not missed.
#[derive(Debug, Default)]
pub(super) struct Signal {
    epoch: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    pub(super) fn now(&self) -> u64 {
        *self.epoch.lock()
    }

    pub(super) fn notify(&self) {
        *self.epoch.lock() += 1;
        self.changed.notify_all();
    }

    /// Something changed that nobody who sleeps waits for; who is about to sleep looks again.
    pub(super) fn note(&self) {
        *self.epoch.lock() += 1;
    }

    pub(super) fn wait_past(&self, seen: u64, at_most: Duration) {
        let mut epoch = self.epoch.lock();
        if *epoch == seen {
            self.changed.wait_for(&mut epoch, at_most);
        }
    }
}

/// See the module.
pub(super) struct DbContext {
    /// Unique in this process.
    id: u64,
    dir: PathBuf,
    options: Options,
    metrics: Metrics,
    signal: Signal,
    keyspaces: AllKeyspaces,
    /// Why writes are stopped, once they are: for a database that is only read, from the outset.
    poison: ArcSwapOption<Error>,
    /// Told to background work and waiting writers when the database closes.
    stop: AtomicBool,
    closed: AtomicBool,
}

impl std::fmt::Debug for DbContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DbContext")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl DbContext {
    /// Of a database that opens; `keyspaces` has the memory of its keyspaces.
    pub(super) fn new(dir: &Path, options: Options, keyspaces: AllKeyspaces) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let stopped = options.read_only.then(|| Arc::new(Error::ReadOnly));
        Arc::new(DbContext {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            dir: dir.to_path_buf(),
            options,
            metrics: Metrics::new(),
            signal: Signal::default(),
            keyspaces,
            poison: ArcSwapOption::new(stopped),
            stop: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    /// Tells databases of this process apart.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The folder.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    #[inline]
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn fs(&self) -> &Arc<dyn Fs> {
        &self.options.fs
    }

    #[inline]
    pub(super) fn budget(&self) -> &Arc<Budget> {
        self.options.memory.budget()
    }

    /// What keyspaces take.
    pub(super) fn keyspaces(&self) -> &AllKeyspaces {
        &self.keyspaces
    }

    /// The moment it is.
    pub(super) fn now(&self) -> Moment {
        clock::moment_of(self.options.clock.now())
    }

    /// The memory budget's limit at this moment, in bytes.
    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.options.memory.limit()
    }

    /// What the limit leaves beside what is known of files, in bytes.
    pub(super) fn working_limit(&self) -> u64 {
        self.budget().working_limit()
    }

    /// Whether background threads do the work; without them, writers do.
    #[inline]
    pub(super) fn has_threads(&self) -> bool {
        self.options.background_threads > 0
    }

    #[inline]
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) fn signal(&self) -> &Signal {
        &self.signal
    }

    #[inline]
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Whether the database closes, or is closed.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes the database to callers; whether it was closed before.
    pub(super) fn close(&self) -> bool {
        self.closed.swap(true, Ordering::SeqCst)
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        match &*self.poison.load() {
            Some(cause) if matches!(**cause, Error::ReadOnly) => Err(Error::ReadOnly),
            Some(cause) => Err(Error::Poisoned {
                cause: cause.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Why writes are stopped for good, if they are.
    pub(super) fn poisoned_by(&self) -> Guard<Option<Arc<Error>>> {
        self.poison.load()
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.poison.load().is_some()
    }

    /// Stops writes for good and wakes whoever waits.
    pub(super) fn poison(&self, cause: &Error) {
        if !self.is_poisoned() && !matches!(cause, Error::Poisoned { .. } | Error::Closed) {
            log::error!("{}: writes are stopped: {cause}", self.dir.display());
            self.poison.store(Some(Arc::new(cause.clone())));
        }
        self.signal.notify();
    }

    /// Tells background work to end, or, `false`, that the last of it may go on.
    pub(super) fn stop_work(&self, stop: bool) {
        self.stop.store(stop, Ordering::Release);
        self.signal.notify();
    }

    /// Whether background work is to end.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether work on tables may go on: not once the database closes.
    pub(super) fn check_not_stopping(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Removes a file that nobody needs; false, and a warning, where that fails.
    pub(super) fn remove_quietly(&self, path: &Path) -> bool {
        let removed = self.options.fs.remove(path);
        if let Err(error) = &removed {
            log::warn!("{}: cannot remove: {error}", path.display());
        }
        removed.is_ok()
    }
}
