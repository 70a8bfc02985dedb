//! A database with its threads: what handles hold, and what closes it when the last one is gone.
//! Thread-safe.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::background;
use super::inner::DbInner;
use crate::error::Result;

/// The database with its threads; handles hold it, and dropping it closes the database.
#[derive(Debug)]
pub(crate) struct DbShared {
    inner: DbInner,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl DbShared {
    /// Starts the threads of a database that is whole.
    pub(super) fn start(inner: DbInner) -> Result<Arc<Self>> {
        let threads = background::start(inner.background())?;
        Ok(Arc::new(DbShared {
            inner,
            threads: Mutex::new(threads),
        }))
    }

    #[inline]
    pub(super) fn inner(&self) -> &DbInner {
        &self.inner
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
