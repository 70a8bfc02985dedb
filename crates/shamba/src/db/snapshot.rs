//! Snapshots: sequence numbers that compaction must keep readable.

use std::sync::Arc;

use parking_lot::Mutex;

use super::keyspace::Keyspace;
use super::value::Value;
use super::{DbInner, DbShared};
use crate::base::key::SeqNo;
use crate::budget::{Budget, Reservation, Role};
use crate::db::iter::{Iter, IterOptions};
use crate::error::Result;

/// The sequence numbers held, ascending, with how many hold each. (They are few, and most new ones come
/// last.)
#[derive(Debug)]
pub(crate) struct SnapshotList(Mutex<Registered>);

#[derive(Debug)]
struct Registered {
    list: Vec<(SeqNo, usize)>,
    memory: Reservation,
}

/// What a snapshot takes: its place in the list, and its number in the lists that two merges make.
const HELD_BYTES: usize = size_of::<(SeqNo, usize)>() + 4 * size_of::<SeqNo>();

/// Places that are kept when they are free: most scans then need no allocation for theirs.
const KEPT: usize = 16;

impl SnapshotList {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        SnapshotList(Mutex::new(Registered {
            list: Vec::new(),
            memory: budget.open_account(Role::Tables),
        }))
    }

    /// Registers the number `visible` gives. It is read under the list's lock, so a boundary list
    /// taken later either holds it or starts at or above it.
    pub(crate) fn acquire(&self, visible: impl FnOnce() -> SeqNo) -> SeqNo {
        let mut registered = self.0.lock();
        let seq = visible();
        registered.add(seq);
        seq
    }

    /// Registers a number that is held already.
    pub(crate) fn acquire_again(&self, seq: SeqNo) {
        self.0.lock().add(seq);
    }

    pub(crate) fn release(&self, seq: SeqNo) {
        self.0.lock().remove(seq);
    }

    /// Every number a reader may use from now on is one of these or above the last.
    pub(crate) fn boundaries(&self, visible: impl FnOnce() -> SeqNo) -> Vec<SeqNo> {
        let registered = self.0.lock();
        let mut all: Vec<SeqNo> = registered.list.iter().map(|held| held.0).collect();
        all.push(visible());
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().list.iter().map(|held| held.1).sum()
    }
}

impl Registered {
    fn add(&mut self, seq: SeqNo) {
        match self.list.binary_search_by_key(&seq, |held| held.0) {
            Ok(at) => {
                if let Some((_, count)) = self.list.get_mut(at) {
                    *count += 1;
                }
            }
            Err(at) => self.list.insert(at, (seq, 1)),
        }
        let wanted = (self.list.capacity() * HELD_BYTES) as u64;
        let more = wanted.saturating_sub(self.memory.bytes());
        if more > 0 {
            self.memory.grow_at_once(more);
        }
    }

    fn remove(&mut self, seq: SeqNo) {
        let Ok(at) = self.list.binary_search_by_key(&seq, |held| held.0) else {
            return;
        };
        if let Some((_, count)) = self.list.get_mut(at) {
            *count -= 1;
            if *count == 0 {
                self.list.remove(at);
            }
        }
        if self.list.capacity() > KEPT && self.list.len() < self.list.capacity() / 4 {
            self.list.shrink_to(KEPT.max(self.list.len() * 2));
            let less = (self.list.capacity() * HELD_BYTES) as u64;
            self.memory.shrink(self.memory.bytes() - less);
        }
    }
}

/// The database as it was at one moment. Holding it keeps the entries visible then from being
/// dropped by compaction; it takes a few words of memory otherwise.
#[derive(Debug)]
pub struct Snapshot {
    db: Arc<DbShared>,
    seq: SeqNo,
}

impl Snapshot {
    pub(crate) fn new(db: &Arc<DbShared>) -> Self {
        let seq = db.inner.snapshots.acquire(|| db.inner.visible_seq());
        Snapshot {
            db: db.clone(),
            seq,
        }
    }

    fn inner(&self) -> &DbInner {
        &self.db.inner
    }

    /// The value of a key of the default keyspace then.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let inner = self.inner();
        inner.get(&inner.default_keyspace, key.as_ref(), Some(self.seq))
    }

    /// The value of a key of a keyspace then.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        keyspace.check_database(self.inner())?;
        self.inner()
            .get(keyspace.inner(), key.as_ref(), Some(self.seq))
    }

    /// Whether a key of the default keyspace had a value then; copies none.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let inner = self.inner();
        inner.contains_key(&inner.default_keyspace, key.as_ref(), Some(self.seq))
    }

    /// Whether a key of a keyspace had a value then; copies none.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        keyspace.check_database(self.inner())?;
        self.inner()
            .contains_key(keyspace.inner(), key.as_ref(), Some(self.seq))
    }

    /// The values of several keys of the default keyspace then, in the order of the keys.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let inner = self.inner();
        inner.multi_get(&inner.default_keyspace, keys, Some(self.seq))
    }

    /// The values of several keys of a keyspace then, in the order of the keys.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn multi_get_in<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        keyspace.check_database(self.inner())?;
        self.inner()
            .multi_get(keyspace.inner(), keys, Some(self.seq))
    }

    /// An iterator over the default keyspace as it was then.
    ///
    /// # Errors
    /// As [`Db::iter`](crate::Db::iter).
    pub fn iter(&self, options: IterOptions) -> Result<Iter> {
        Iter::new(
            &self.db,
            &self.inner().default_keyspace,
            options,
            Some(self.seq),
        )
    }

    /// An iterator over a keyspace as it was then.
    ///
    /// # Errors
    /// As [`Db::iter`](crate::Db::iter).
    pub fn iter_in(&self, keyspace: &Keyspace, options: IterOptions) -> Result<Iter> {
        keyspace.check_database(self.inner())?;
        Iter::new(&self.db, keyspace.inner(), options, Some(self.seq))
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        self.inner().snapshots.acquire_again(self.seq);
        Snapshot {
            db: self.db.clone(),
            seq: self.seq,
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner().snapshots.release(self.seq);
        self.inner().signal.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_charged_while_they_are_held() {
        let budget = Budget::new(1 << 20);
        let list = SnapshotList::new(&budget);
        for seq in 0..1000 {
            assert_eq!(list.acquire(|| seq), seq);
            list.acquire_again(seq);
        }
        assert_eq!(list.len(), 2000);
        let charged = budget.used_by(Role::Tables);
        let words = 1000 * HELD_BYTES as u64;
        assert!((words..=2 * words).contains(&charged), "{charged}");
        for seq in (0..1000).chain(0..1000) {
            list.release(seq);
        }
        assert_eq!(list.len(), 0);
        let kept = (KEPT * HELD_BYTES) as u64;
        assert_eq!(budget.used(), kept);
    }
}
