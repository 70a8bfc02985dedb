//! The database: what callers hold, and what ties the other modules together.
//!
//! [`Db`] is a handle, cheap to clone and safe to share; the last one dropped closes the database.
//! Locks, in the order they may be taken: `writer` (who logs a group of writes), `applying` (who
//! applies one to memtables; see [`write`]), `tree` (the manifest and the installing of versions),
//! `closed_logs`, then short ones that hold nothing else (`limits`, `snapshots`, `queue`, `signal`).
//! Reads take none of them: they load a keyspace's
//! [`keyspace::ReadState`] and the visible sequence number.

mod advise;
mod batch;
mod checkpoint;
mod device;
mod failing;
mod filters;
mod flush;
mod folder;
mod group;
mod hints;
mod inspect;
mod iter;
mod jobs;
mod keyspace;
mod level_counters;
mod limits;
mod lineage;
mod logs;
mod maintenance;
mod merge;
mod multi_get;
mod open;
mod operations;
mod queue;
#[cfg(test)]
mod queue_tests;
mod read;
mod redesign;
mod room;
mod snapshot;
mod source;
mod stats;
mod sync;
mod value;
mod verify;
mod workload;
mod worth;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::{Condvar, Mutex};

pub use advise::{Advice, PricedDesign};
pub use batch::WriteBatch;
pub use device::DeviceCosts;
pub use inspect::FileLookups;
pub use iter::{Iter, IterOptions};
pub use keyspace::Keyspace;
pub use level_counters::{LevelLookups, ModuleLookups, ReadCounts};
pub use snapshot::Snapshot;
pub use stats::{KeyspaceStatistics, LevelStatistics, ResidentBytes, Statistics};
pub use value::Value;
pub use verify::VerifySummary;
pub use workload::WorkloadEstimate;
pub use worth::MarginalValue;

use crate::base::key::SeqNo;
use crate::error::{Error, Result};
use crate::fs::FileLock;
use crate::metrics::Metrics;
use crate::options::{Design, KeyspaceOptions, Options, WriteOptions};
use crate::table::TableCache;
use crate::version::{Manifest, Obsolete};
use group::WriteQueue;
use keyspace::KeyspaceInner;
use logs::ClosedLog;
use snapshot::SnapshotList;
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
    pub(crate) closed_logs: Mutex<Vec<ClosedLog>>,
    pub(crate) snapshots: SnapshotList,
    pub(crate) signal: Signal,
    pub(crate) default_keyspace: Arc<KeyspaceInner>,
    /// Why writes are stopped, once they are.
    pub(crate) poison: ArcSwapOption<Error>,
    /// Pieces of work on tables under way, on whatever thread.
    pub(crate) jobs: AtomicU64,
    /// Compactions running, and whether new ones may start.
    pub(crate) compactions_running: AtomicU64,
    pub(crate) compactions_paused: AtomicU64,
    /// Told to background jobs and waiting writers when the database closes.
    pub(crate) stop: AtomicBool,
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

/// An open database. Clones are handles to the same one; it closes when the last handle, keyspace,
/// snapshot and iterator is gone, or by [`Db::close`].
#[derive(Debug, Clone)]
pub struct Db {
    pub(crate) shared: Arc<DbShared>,
}

impl Db {
    /// Opens the database in a folder.
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        open::open(path.as_ref(), options)
    }

    fn inner(&self) -> &DbInner {
        &self.shared.inner
    }

    /// Sets a key of the default keyspace, with the database's durability.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner().write_one(
            batch::DEFAULT_KEYSPACE,
            key.as_ref(),
            Some(value.as_ref()),
            WriteOptions::default(),
        )
    }

    /// Removes a key of the default keyspace; one that does not exist is no error.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner().write_one(
            batch::DEFAULT_KEYSPACE,
            key.as_ref(),
            None,
            WriteOptions::default(),
        )
    }

    /// Applies a batch whole: readers and recovery see all of it or nothing.
    ///
    /// # Errors
    /// [`Error::KeyTooLarge`], [`Error::ValueTooLarge`], [`Error::WrongDatabase`] or
    /// [`Error::KeyspaceDropped`] when nothing was written; [`Error::Io`] when the log failed,
    /// after which, like every later write, [`Error::Poisoned`]; [`Error::Closed`].
    pub fn write(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.inner().write(batch, options)
    }

    /// The value of a key of the default keyspace, if it has one.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Corruption`] when a block it needs cannot be read;
    /// [`Error::Closed`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner()
            .get(&self.inner().default_keyspace, key.as_ref(), None)
    }

    /// The values of several keys of the default keyspace at one moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.inner()
            .multi_get(&self.inner().default_keyspace, keys, None)
    }

    /// [`Keyspace::advise`] for the default keyspace.
    ///
    /// # Errors
    /// As there.
    pub fn advise(&self) -> Result<Option<Advice>> {
        self.inner().advise(&self.inner().default_keyspace)
    }

    /// [`Keyspace::redesign`] of the default keyspace.
    ///
    /// # Errors
    /// As there.
    pub fn redesign(&self, design: Design) -> Result<()> {
        self.inner()
            .redesign(&self.inner().default_keyspace, &design)
    }

    /// An iterator over the default keyspace as it is now. It sees no later write.
    ///
    /// # Errors
    /// [`Error::Closed`]; its positioning calls report what cannot be read.
    pub fn iter(&self, options: IterOptions) -> Result<Iter> {
        Iter::new(&self.shared, &self.inner().default_keyspace, options, None)
    }

    /// The database as it is now, readable for as long as the snapshot is held.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.shared)
    }

    /// A handle to the default keyspace.
    #[must_use]
    pub fn default_keyspace(&self) -> Keyspace {
        Keyspace::new(self.shared.clone(), self.inner().default_keyspace.clone())
    }

    /// Opens a keyspace that exists.
    ///
    /// # Errors
    /// [`Error::KeyspaceNotFound`].
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let tree = self.inner().tree.lock();
        let found = tree
            .keyspaces
            .values()
            .find(|keyspace| keyspace.name == name);
        let inner = found.ok_or_else(|| Error::KeyspaceNotFound {
            name: name.to_owned(),
        })?;
        Ok(Keyspace::new(self.shared.clone(), inner.clone()))
    }

    /// Creates a keyspace. Its options are given again at the next open with
    /// [`Options::keyspace_options`], or else are those of the default keyspace.
    ///
    /// # Errors
    /// [`Error::KeyspaceExists`], [`Error::InvalidOption`], and those of [`Db::write`].
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let inner = self.inner().create_keyspace(name, options)?;
        Ok(Keyspace::new(self.shared.clone(), inner))
    }

    /// Removes a keyspace with everything in it. Handles to it give [`Error::KeyspaceDropped`]
    /// from then on; iterators already open go on.
    ///
    /// # Errors
    /// [`Error::KeyspaceNotFound`]; [`Error::InvalidOption`] for the default keyspace; those of
    /// [`Db::write`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.inner().drop_keyspace(name)
    }

    /// The names of all keyspaces.
    #[must_use]
    pub fn keyspaces(&self) -> Vec<String> {
        self.inner()
            .all_keyspaces()
            .iter()
            .map(|keyspace| keyspace.name.clone())
            .collect()
    }

    /// Writes every memtable to tables, and waits for it.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn flush(&self) -> Result<()> {
        self.inner().flush_all().map(drop)
    }

    /// Makes every write acknowledged so far durable, whatever durability it was written with
    /// except [`Durability::None`](crate::Durability::None).
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn sync(&self) -> Result<()> {
        self.inner().sync_log()
    }

    /// Waits until no flush or compaction is due or running.
    ///
    /// # Errors
    /// The failure that keeps work from being done.
    pub fn wait_for_compaction(&self) -> Result<()> {
        self.inner().wait_idle()
    }

    /// Merges everything between two keys (inclusive; `None` is unbounded) of the default keyspace
    /// down to one run, dropping what no reader can see.
    ///
    /// # Errors
    /// As [`Db::write`], and the failure of the compaction.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.inner()
            .compact_range(&self.inner().default_keyspace, from, to)
    }

    /// [`Db::compact_range`] in a keyspace.
    ///
    /// # Errors
    /// As [`Db::compact_range`].
    pub fn compact_range_in(
        &self,
        keyspace: &Keyspace,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        keyspace.check_database(self.inner())?;
        self.inner().compact_range(keyspace.inner(), from, to)
    }

    /// A copy of the database as it is now, in a folder that must not exist or be empty: tables
    /// are hard links where the file system allows, copies elsewhere.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] for a folder in use; those of [`Db::flush`]; [`Error::Io`].
    pub fn checkpoint(&self, destination: impl AsRef<Path>) -> Result<()> {
        self.inner().checkpoint(destination.as_ref())
    }

    /// About how many bytes of tables (not of memtables) the keys between two bounds (`from` inclusive,
    /// `to` exclusive) of the default keyspace take.
    #[must_use]
    pub fn approximate_size(&self, from: &[u8], to: &[u8]) -> u64 {
        self.inner()
            .approximate_size(&self.inner().default_keyspace, from, to)
    }

    /// Levels, files, memory by role and what more of it would be worth, counters. Reads nothing from
    /// storage; takes time in the number of blocks and of filter partitions in memory, and keeps no
    /// lookup waiting for longer than a look at one shard of the cache.
    #[must_use]
    pub fn stats(&self) -> Statistics {
        self.inner().statistics()
    }

    /// Reads every table through and checks every checksum and invariant.
    ///
    /// # Errors
    /// The first damage found.
    pub fn verify(&self) -> Result<VerifySummary> {
        self.inner().verify(&mut |_, _| {})
    }

    /// [`Db::verify`], telling tables checked and tables in all after each.
    ///
    /// # Errors
    /// The first damage found.
    pub fn verify_with_progress(
        &self,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<VerifySummary> {
        self.inner().verify(&mut progress)
    }

    /// Flushes, stops background work and lets go of the folder. Other handles get
    /// [`Error::Closed`] from then on.
    ///
    /// # Errors
    /// What kept the last flush from succeeding; what was logged is still there at the next open.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}
