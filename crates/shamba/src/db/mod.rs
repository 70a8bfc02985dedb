//! The database: what callers hold, and what ties the other modules together.
//!
//! [`Db`] is a handle, cheap to clone and safe to share; the last one dropped closes the database.
//! Locks, in the order they may be taken: `writer` (who logs a group of writes), `applying` (who
//! applies one to memtables; see [`write`]), `tree` (the manifest and the installing of versions),
//! `closed_logs`, then short ones that hold nothing else (`limits`, `snapshots`, `queue`, `frozen`,
//! `signal`).
//! Reads take none of them: they load a keyspace's
//! [`keyspace::ReadState`] and the visible sequence number.

mod advise;
mod batch;
mod catalog;
mod checkpoint;
mod compact;
mod device;
mod due;
mod filenames;
mod filter_limits;
mod flush;
mod frozen;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod group;
mod handle;
mod hints;
mod inspect;
mod iter;
mod iter_sources;
mod job_guard;
mod keyspace;
mod level_counters;
mod lineage;
mod maintenance;
mod marginal_value;
mod merge;
mod multi_get;
mod open;
mod operations;
mod queue;
#[cfg(test)]
mod queue_tests;
mod read;
mod redesign;
mod retry;
mod snapshot;
mod stall;
mod stats;
mod sync;
mod table_options;
mod unflushed;
mod value;
mod verify;
mod wal_files;
mod workload;
mod write;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::{Condvar, Mutex};

pub use advise::{Advice, PricedDesign};
pub use batch::WriteBatch;
pub use device::DeviceCosts;
pub use handle::Db;
pub use inspect::FileLookups;
pub use iter::{Iter, IterOptions, KeyRange};
pub use keyspace::Keyspace;
pub use level_counters::{LevelLookups, ModuleLookups, ReadCounts};
pub use marginal_value::MarginalValue;
pub use snapshot::Snapshot;
pub use stats::{KeyspaceStatistics, LevelStatistics, ResidentBytes, Statistics};
pub use value::Value;
pub use verify::{DamagedFile, Problem, VerifySummary};
pub use workload::WorkloadEstimate;

use crate::base::key::SeqNo;
use crate::error::{Error, Result};
use crate::fs::FileLock;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::table::TableCache;
use crate::version::{Manifest, Obsolete};
use due::DueList;
use frozen::FrozenList;
use group::WriteQueue;
use keyspace::KeyspaceInner;
use snapshot::SnapshotList;
use unflushed::Unflushed;
use wal_files::ClosedLogs;
use write::Writer;

/// Wakes those who wait for a change of state: writers for room, threads for work, callers for
/// quiet. Take `now` first, look at the state, then `wait_past`: a change in between is not missed.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    epoch: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn now(&self) -> u64 {
        *self.epoch.lock()
    }

    pub(crate) fn notify(&self) {
        *self.epoch.lock() += 1;
        self.changed.notify_all();
    }

    pub(crate) fn wait_past(&self, seen: u64, at_most: Duration) {
        let mut epoch = self.epoch.lock();
        if *epoch == seen {
            self.changed.wait_for(&mut epoch, at_most);
        }
    }
}

/// What the installing of versions needs, behind one lock.
pub(crate) struct Tree {
    pub(crate) manifest: Manifest,
    pub(crate) keyspaces: BTreeMap<u32, Arc<KeyspaceInner>>,
    unflushed: Unflushed,
}

impl Tree {
    /// The keyspace of a name.
    pub(crate) fn keyspace_named(&self, name: &str) -> Option<&Arc<KeyspaceInner>> {
        let id = self.manifest.state().keyspace_named(name)?;
        self.keyspaces.get(&id)
    }
}

/// The database proper; threads and handles share it.
pub(crate) struct DbInner {
    /// Unique in this process.
    pub(crate) id: u64,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) tables: Arc<TableCache>,
    pub(crate) obsolete: Arc<Obsolete>,
    pub(crate) metrics: Metrics,
    pub(crate) visible: AtomicU64,
    pub(crate) next_file: AtomicU64,
    pub(crate) next_run: AtomicU64,
    pub(crate) queue: WriteQueue,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) applying: Mutex<()>,
    pub(crate) tree: Mutex<Tree>,
    pub(crate) closed_logs: Mutex<ClosedLogs>,
    pub(crate) frozen: FrozenList,
    due: DueList,
    pub(crate) snapshots: SnapshotList,
    pub(crate) signal: Signal,
    pub(crate) default_keyspace: Arc<KeyspaceInner>,
    /// Why writes are stopped, once they are: for a database that is only read, from the outset.
    pub(crate) poison: ArcSwapOption<Error>,
    /// Pieces of work on tables under way, on whatever thread.
    pub(crate) jobs: AtomicU64,
    /// Compactions running, and whether new ones may start.
    pub(crate) compactions_running: AtomicU64,
    pub(crate) compactions_paused: AtomicU64,
    /// Told to background jobs and waiting writers when the database closes.
    pub(crate) stop: AtomicBool,
    /// Whether the epoch of some keyspace is over.
    pub(crate) epoch_over: AtomicBool,
    /// Whether some keyspace chooses its design itself.
    pub(crate) asks_designs: AtomicBool,
    /// What `signal` said when work was last looked for and none was due.
    pub(crate) idle_at: AtomicU64,
    pub(crate) closed: AtomicBool,
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
    /// What the storage's operations cost, once it was measured.
    pub(crate) device: Mutex<Option<DeviceCosts>>,
}

impl std::fmt::Debug for DbInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db")
            .field("dir", &self.dir)
            .field("visible", &self.visible_seq())
            .finish_non_exhaustive()
    }
}

impl DbInner {
    /// The newest sequence number readers may see.
    pub(crate) fn visible_seq(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        match &*self.poison.load() {
            Some(cause) if matches!(**cause, Error::ReadOnly) => Err(Error::ReadOnly),
            Some(cause) => Err(Error::Poisoned {
                cause: cause.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Stops writes for good and wakes whoever waits.
    pub(crate) fn poison(&self, cause: &Error) {
        if self.poison.load().is_none() && !matches!(cause, Error::Poisoned { .. } | Error::Closed)
        {
            log::error!("{}: writes are stopped: {cause}", self.dir.display());
            self.poison.store(Some(Arc::new(cause.clone())));
        }
        self.signal.notify();
    }

    /// Has every later read refused, those of iterators and of lookups under way too, before others may
    /// change the folder.
    fn end_reads(&self) {
        for keyspace in self.all_keyspaces() {
            keyspace.update(Clone::clone);
        }
        self.tables.shut();
    }

    /// The keyspaces at this moment.
    pub(crate) fn all_keyspaces(&self) -> Vec<Arc<KeyspaceInner>> {
        self.tree.lock().keyspaces.values().cloned().collect()
    }
}

/// The database with its threads; handles hold it, and dropping it closes the database.
#[derive(Debug)]
pub(crate) struct DbShared {
    pub(crate) inner: Arc<DbInner>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl DbShared {
    /// Stops the threads, flushes what is in memory and lets go of the folder. Does nothing the
    /// second time.
    fn close(&self) -> Result<()> {
        let inner = &self.inner;
        let mut threads = self.threads.lock();
        if inner.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        inner.stop.store(true, Ordering::Release);
        inner.signal.notify();
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                log::error!("{}: a background thread panicked", inner.dir.display());
            }
        }
        inner.wait_for_jobs();
        let flushed = inner.close_files();
        inner.end_reads();
        *inner.lock.lock() = None;
        flushed
    }
}

impl Drop for DbShared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            log::error!("{}: closing: {error}", self.inner.dir.display());
        }
    }
}
