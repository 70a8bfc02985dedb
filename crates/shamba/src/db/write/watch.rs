//! Commits that are under way. Each watches the keys that its transaction depends on until its turn
//! to write comes, so that a write which comes before it is noticed: without memory for what others
//! wrote, and without a look into the tree while others wait.
//!
//! Protocol: [`WritePath::watch`], then a look for what was written before that, then
//! [`WritePath::write_watched`], which writes nothing after a conflict. Who leads the writers shows
//! each batch to all who watch ([`Watches::admit`]) before it is logged, in the order of sequence
//! numbers. Thread-safe. Where nobody watches, a group pays one load.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::WritePath;
use super::key_set::KeySet;
use crate::db::batch::{BatchOps, WriteBatch};
use crate::error::{Error, Result};

/// The keys of a commit, and the first of them that others wrote since it watches.
#[derive(Debug)]
pub(super) struct WatchedKeys {
    keys: KeySet,
    hit: OnceLock<(u32, Box<[u8]>)>,
}

impl WatchedKeys {
    /// A batch is about to be written.
    fn see(&self, batch: &WriteBatch) {
        if self.hit.get().is_some() {
            return;
        }
        let mut ops = BatchOps(batch.rep()).flatten();
        if let Some(op) = ops.find(|op| self.keys.contains(op.keyspace, op.key)) {
            self.hit.get_or_init(|| (op.keyspace, op.key.into()));
        }
    }

    /// The conflict that was seen, if there was one.
    fn check(&self) -> Result<()> {
        match self.hit.get() {
            None => Ok(()),
            Some((keyspace, key)) => Err(Error::Conflict {
                keyspace: self.keys.name_of(*keyspace).to_owned(),
                key: key.to_vec(),
            }),
        }
    }
}

/// All commits that watch.
#[derive(Debug, Default)]
pub(super) struct Watches {
    count: AtomicUsize,
    list: Mutex<Vec<Arc<WatchedKeys>>>,
}

impl Watches {
    /// Whether a batch, which depends on what its watch says, may be written: each of a group is
    /// asked in order, by who leads the writers, and what may is taken as written.
    #[inline]
    pub(super) fn admit(&self, batch: &WriteBatch, own: Option<&Arc<WatchedKeys>>) -> Result<()> {
        // Whoever watches took the writer's lock after it was counted, and its holder asks.
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.show(batch, own)
    }

    #[cold]
    fn show(&self, batch: &WriteBatch, own: Option<&Arc<WatchedKeys>>) -> Result<()> {
        own.map_or(Ok(()), |own| own.check())?;
        for watch in &*self.list.lock() {
            if own.is_none_or(|own| !Arc::ptr_eq(own, watch)) {
                watch.see(batch);
            }
        }
        Ok(())
    }
}

/// A commit that watches, until it is dropped.
pub(in crate::db) struct Watching<'a> {
    watches: &'a Watches,
    watch: Arc<WatchedKeys>,
}

impl Watching<'_> {
    /// The keys watched.
    pub(in crate::db) fn keys(&self) -> &KeySet {
        &self.watch.keys
    }

    pub(super) fn watch(&self) -> &Arc<WatchedKeys> {
        &self.watch
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut list = self.watches.list.lock();
        list.retain(|watch| !Arc::ptr_eq(watch, &self.watch));
        self.watches.count.store(list.len(), Ordering::Relaxed);
    }
}

impl WritePath {
    /// Watches keys. All writes that are not noticed from now on are in memtables, and visible,
    /// when this returns.
    pub(in crate::db) fn watch(&self, mut keys: KeySet) -> Watching<'_> {
        keys.settle();
        let watch = Arc::new(WatchedKeys {
            keys,
            hit: OnceLock::new(),
        });
        let mut list = self.watches.list.lock();
        list.push(watch.clone());
        self.watches.count.store(list.len(), Ordering::Relaxed);
        drop(list);
        drop(self.memtables.lock());
        Watching {
            watches: &self.watches,
            watch,
        }
    }
}
