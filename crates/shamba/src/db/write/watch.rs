//! Commits that are under way. Each watches the keys that its transaction depends on until its turn
//! to write comes, so that a write which comes before it is noticed: without memory for what others
//! wrote, and without a look into the tree while others wait.
//!
//! Protocol: [`WritePath::watch`], then a look for what was written before that, then
//! [`WritePath::write_watched`], which writes nothing after a conflict. Who leads the writers shows
//! each batch to all who watch before it is logged ([`Watches::admit`]), in the order of sequence
//! numbers, and once more when nobody else applies a group ([`Watches::show`]): to those who came
//! while it was logged and perhaps synced, for which they do not wait. Thread-safe. Where nobody
//! watches, a group pays two loads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::key_set::KeySet;
use super::{WritePath, lock_soon};
use crate::db::batch::{BatchOp, BatchOps, OpKind, WriteBatch};
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
        let hit = |op: BatchOp<'_>| {
            let key = match op.kind {
                OpKind::Entry(_) => {
                    let contains = self.keys.contains(op.keyspace, op.key);
                    contains.then(|| op.key.to_vec())
                }
                OpKind::DeleteRange => self.keys.first_between(op.keyspace, op.key, op.value),
            };
            Some((op.keyspace, key?.into_boxed_slice()))
        };
        if let Some(hit) = ops.find_map(hit) {
            self.hit.get_or_init(|| hit);
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
        own.map_or(Ok(()), |own| own.check())?;
        self.show([batch], own);
        Ok(())
    }

    /// Shows batches to all who watch, but for one.
    #[inline]
    pub(super) fn show<'a>(
        &self,
        batches: impl IntoIterator<Item = &'a WriteBatch>,
        own: Option<&Arc<WatchedKeys>>,
    ) {
        // Whoever watches took the lock under which groups are applied after it was counted: it
        // sees what a holder writes who does not see it.
        if self.count.load(Ordering::Relaxed) > 0 {
            batches.into_iter().for_each(|batch| self.see(batch, own));
        }
    }

    #[cold]
    fn see(&self, batch: &WriteBatch, own: Option<&Arc<WatchedKeys>>) {
        for watch in &*self.list.lock() {
            if own.is_none_or(|own| !Arc::ptr_eq(own, watch)) {
                watch.see(batch);
            }
        }
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
        drop(lock_soon(self.memtables.applying()));
        Watching {
            watches: &self.watches,
            watch,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use crate::db::iter::IterOptions;
    use crate::db::{Db, Transaction};
    use crate::fs::{FaultFs, Faults, MemFs, Op};
    use crate::options::{Options, WriteOptions};

    use super::*;

    /// A range that is deleted while a commit watches is a conflict with each key of it.
    #[test]
    fn ranges_that_others_delete_are_seen() {
        let options = Options::new().fs(Arc::new(MemFs::new()));
        let db = options.background_threads(0).open("/db").unwrap();
        let inner = db.inner();
        let keyspace = inner.default_keyspace();
        let hit = |range: IterOptions| {
            let mut keys = KeySet::default();
            keys.add(keyspace, b"point");
            keys.set_range(keyspace, None, IterOptions::range("r1".."r5"));
            let watching = inner.writes().watch(keys);
            db.delete_range((range.lower, range.upper)).unwrap();
            match watching.watch().check() {
                Err(Error::Conflict { key, .. }) => Some(String::from_utf8(key).unwrap()),
                other => other.map(|()| None).unwrap(),
            }
        };
        let hit = |range| hit(range).unwrap_or_default();
        assert_eq!(hit(IterOptions::range("a".."z")), "point");
        assert_eq!(hit(IterOptions::range("q".."r3")), "r1");
        assert_eq!(hit(IterOptions::range("r2".."z")), "r2");
        assert_eq!(hit(IterOptions::range("r5"..)), "");
        assert_eq!(hit(IterOptions::range(.."point")), "");
        assert_eq!(hit(IterOptions::range(..)), "point");
    }

    /// Transactions that read something wait for no sync of others: they are queued while it is
    /// made, and share the next one.
    #[test]
    fn commits_are_queued_while_others_sync() {
        const COMMITS: usize = 3;
        let faults = Faults::new();
        let fs = FaultFs::new(Arc::new(MemFs::new()), faults.clone());
        let options = Options::new().fs(Arc::new(fs)).background_threads(0);
        let db = options.open("/db").unwrap();
        let (syncs, queued) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let hook = {
            let (db, syncs, queued) = (db.clone(), syncs.clone(), queued.clone());
            move |op: Op, path: &std::path::Path| {
                let of_log = path.extension().is_some_and(|kind| kind == "wal");
                if op == Op::Sync && of_log && syncs.fetch_add(1, Ordering::SeqCst) == 0 {
                    let writes = db.inner().writes();
                    let given_up = Instant::now() + Duration::from_secs(20);
                    while writes.queue.waiting() < COMMITS && Instant::now() < given_up {
                        std::thread::yield_now();
                    }
                    queued.store(writes.queue.waiting() == COMMITS, Ordering::SeqCst);
                }
            }
        };
        let commit = |number: usize, db: &Db| {
            let mut tx: Transaction = db.transaction();
            tx.get(format!("read {number}")).unwrap();
            tx.put(format!("written {number}"), "x").unwrap();
            tx.commit_with(WriteOptions::synced()).unwrap();
        };
        faults.set_hook(Some(Arc::new(hook)));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| db.put_with("first", "x", WriteOptions::synced()));
            while syncs.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            for number in 0..COMMITS {
                let db = &db;
                scope.spawn(move || commit(number, db));
            }
            first.join().unwrap().unwrap();
        });
        faults.set_hook(None);
        assert!(queued.load(Ordering::SeqCst));
        assert_eq!(syncs.load(Ordering::SeqCst), 2);
        assert_eq!(db.len().unwrap(), 1 + COMMITS as u64);
    }
}
