//! Commits that are under way. Each watches the keys that its transaction depends on until its turn
//! to write comes, so that a write which comes before it is noticed: without memory for what others
//! wrote, and without a look into the tree while others wait.
//!
//! Protocol: [`WritePath::watch`], then a look for what was written before that, then
//! [`WritePath::write_watched`], which writes nothing after a conflict. Who leads the writers shows
//! each batch to all who watch ([`Watches::admit`]) before it is logged, in the order of sequence
//! numbers. Thread-safe. Where nobody watches, a group pays one load.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::WritePath;
use crate::db::batch::{BatchOps, WriteBatch};
use crate::db::iter::IterOptions;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::{Error, Result};

/// What a key takes in a set beside its bytes: its place in a node that is half full, as where keys
/// come in order, and the least that is allocated.
const KEY_BYTES: usize = 73;

/// What a range takes beside the bytes of its bounds: two places, for the list grows to twice its
/// length, and what two allocations take of their own.
const RANGE_BYTES: usize = 2 * size_of::<IterOptions>() + 64;

/// What a keyspace takes beside its keys and ranges: its place in the map, a node for the first
/// key, and places for the first ranges.
const KEYSPACE_BYTES: usize = 416;

/// What may be held by a look for changes in ranges, which reads one table at a time: an iterator
/// at an entry of the usual size. It is charged with the first range.
const LOOK_BYTES: usize = 4 << 10;

/// Keys and ranges of keys, of any keyspaces.
#[derive(Debug, Default)]
pub(in crate::db) struct KeySet {
    keyspaces: BTreeMap<u32, KeysOf>,
    /// Of keys and ranges.
    bytes: usize,
    has_ranges: bool,
}

/// Keys and ranges of keys of a keyspace.
#[derive(Debug)]
pub(in crate::db) struct KeysOf {
    pub(in crate::db) keyspace: Arc<KeyspaceInner>,
    pub(in crate::db) points: BTreeSet<Box<[u8]>>,
    pub(in crate::db) ranges: Vec<IterOptions>,
}

impl KeySet {
    /// The most bytes that a key takes in a set.
    pub(in crate::db) fn bytes_of_key(key: &[u8]) -> usize {
        KEY_BYTES + key.len()
    }

    /// The most bytes that a range takes in the set.
    pub(in crate::db) fn bytes_of_range(&self, range: &IterOptions) -> usize {
        let look = if self.has_ranges { 0 } else { LOOK_BYTES };
        look + RANGE_BYTES + range.bound_bytes()
    }

    /// What was charged for looks for changes.
    pub(in crate::db) fn look_bytes(&self) -> usize {
        if self.has_ranges { LOOK_BYTES } else { 0 }
    }

    fn of(&mut self, keyspace: &Arc<KeyspaceInner>) -> &mut KeysOf {
        self.keyspaces
            .entry(keyspace.id())
            .or_insert_with(|| KeysOf {
                keyspace: keyspace.clone(),
                points: BTreeSet::new(),
                ranges: Vec::new(),
            })
    }

    /// Adds a key.
    pub(in crate::db) fn add(&mut self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) {
        let keys = self.of(keyspace);
        if !keys.points.contains(key) {
            keys.points.insert(key.into());
            self.bytes += KeySet::bytes_of_key(key);
        }
    }

    /// Adds a range, or puts it in the place of the one that `at` names; gives its name.
    pub(in crate::db) fn set_range(
        &mut self,
        keyspace: &Arc<KeyspaceInner>,
        at: Option<usize>,
        range: IterOptions,
    ) -> usize {
        let more = self.bytes_of_range(&range);
        self.has_ranges = true;
        let ranges = &mut self.of(keyspace).ranges;
        let known = at.and_then(|at| Some((at, ranges.get_mut(at)?)));
        let (at, less) = match known {
            Some((at, old)) => {
                let less = RANGE_BYTES + old.bound_bytes();
                *old = range;
                (at, less)
            }
            None => {
                ranges.push(range);
                (ranges.len() - 1, 0)
            }
        };
        self.bytes = self.bytes + more - less;
        at
    }

    /// What it takes, in bytes, with a keyspace more.
    pub(in crate::db) fn bytes(&self) -> usize {
        self.bytes + (self.keyspaces.len() + 1) * KEYSPACE_BYTES
    }

    /// Whether there is nothing in it.
    pub(in crate::db) fn is_empty(&self) -> bool {
        self.keyspaces.is_empty()
    }

    /// Each keyspace with its keys.
    pub(in crate::db) fn keyspaces(&self) -> impl Iterator<Item = &KeysOf> {
        self.keyspaces.values()
    }

    fn contains(&self, keyspace: u32, key: &[u8]) -> bool {
        self.keyspaces.get(&keyspace).is_some_and(|keys| {
            keys.points.contains(key) || keys.ranges.iter().any(|range| range.covers(key))
        })
    }

    fn name_of(&self, keyspace: u32) -> &str {
        let keys = self.keyspaces.get(&keyspace);
        keys.map_or("", |keys| keys.keyspace.name())
    }
}

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
    pub(in crate::db) fn watch(&self, keys: KeySet) -> Watching<'_> {
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
