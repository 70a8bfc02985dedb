//! A database with its threads: what handles hold, and what closes it when the last one is gone.
//! Thread-safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::background;
use super::inner::DbInner;
use crate::error::{Holders, Result};

/// The database with its threads; handles hold it, and dropping it closes the database.
#[derive(Debug)]
pub(crate) struct DbShared {
    inner: DbInner,
    threads: Mutex<Vec<JoinHandle<()>>>,
    counts: Arc<HeldCounts>,
}

/// How many snapshots and iterators of a database are held.
#[derive(Debug, Default)]
pub(crate) struct HeldCounts {
    snapshots: AtomicUsize,
    iterators: AtomicUsize,
    closed: AtomicBool,
}

impl HeldCounts {
    /// A snapshot is held from now on.
    pub(super) fn add_snapshot(&self) {
        self.snapshots.fetch_add(1, Relaxed);
    }

    /// A snapshot is gone.
    pub(super) fn remove_snapshot(&self) {
        self.snapshots.fetch_sub(1, Relaxed);
    }

    /// An iterator is held from now on.
    pub(super) fn add_iterator(&self) {
        self.iterators.fetch_add(1, Relaxed);
    }

    /// An iterator is gone.
    pub(super) fn remove_iterator(&self) {
        self.iterators.fetch_sub(1, Relaxed);
    }

    /// Whether the database was closed, whatever is held of it.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// What so many handles of all kinds are.
    pub(super) fn of(&self, handles: usize) -> Holders {
        let snapshots = self.snapshots.load(Relaxed);
        let iterators = self.iterators.load(Relaxed);
        Holders {
            handles: handles.saturating_sub(snapshots + iterators),
            snapshots,
            iterators,
        }
    }
}

impl DbShared {
    /// Starts the threads of a database that is whole.
    pub(super) fn start(inner: DbInner) -> Result<Arc<Self>> {
        let mut threads = background::start(inner.background())?;
        threads.extend(inner.reload().start());
        Ok(Arc::new(DbShared {
            inner,
            threads: Mutex::new(threads),
            counts: Arc::default(),
        }))
    }

    #[inline]
    pub(super) fn inner(&self) -> &DbInner {
        &self.inner
    }

    /// What is held of it.
    pub(super) fn counts(&self) -> &Arc<HeldCounts> {
        &self.counts
    }

    /// Stops the threads, flushes what is in memory and lets go of the folder. Does nothing the
    /// second time.
    pub(super) fn close(&self) -> Result<()> {
        let shared = self.inner.shared();
        let mut threads = self.threads.lock();
        if shared.close() {
            return Ok(());
        }
        shared.stop_work(true);
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                let dir = shared.dir().display();
                log::error!("{dir}: a background thread panicked");
            }
        }
        self.inner.jobs().wait_for_end();
        let closed = self.close_files();
        self.counts.closed.store(true, Relaxed);
        self.inner.files().end_reads_and_unlock();
        closed
    }

    /// Everything in memory goes to tables; the logs and the manifest are sealed.
    fn close_files(&self) -> Result<()> {
        let files = self.inner.files();
        if self.inner.shared().options().read_only {
            files.forget_tables();
            return Ok(());
        }
        self.inner.background().flush_at_end()?;
        // What a keyspace that was dropped held of the logs was not flushed.
        self.inner.wal().drop_unneeded(&mut files.tree())?;
        files.remove_obsolete();
        files.keep_warm();
        files.forget_tables();
        files.seal()
    }
}

impl Drop for DbShared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            let dir = self.inner.shared().dir().display();
            log::error!("{dir}: closing: {error}");
        }
    }
}
