//! Snapshots: sequence numbers that compaction must keep readable.

use std::sync::Arc;

use parking_lot::Mutex;

use super::keyspace::Keyspace;
use super::value::Value;
use super::{DbInner, DbShared};
use crate::base::key::SeqNo;
use crate::db::iter::{Iter, IterOptions};
use crate::error::Result;

/// The sequence numbers held, ascending, with how many hold each. (They are few, and most new ones come
/// last.)
#[derive(Debug, Default)]
pub(crate) struct SnapshotList(Mutex<Vec<(SeqNo, usize)>>);

impl SnapshotList {
    /// Registers the number `visible` gives. It is read under the list's lock, so a boundary list
    /// taken later either holds it or starts at or above it.
    pub(crate) fn acquire(&self, visible: impl FnOnce() -> SeqNo) -> SeqNo {
        let mut list = self.0.lock();
        let seq = visible();
        hold(&mut list, seq);
        seq
    }

    /// Registers a number that is held already.
    pub(crate) fn acquire_again(&self, seq: SeqNo) {
        hold(&mut self.0.lock(), seq);
    }

    pub(crate) fn release(&self, seq: SeqNo) {
        let mut list = self.0.lock();
        let Ok(at) = list.binary_search_by_key(&seq, |held| held.0) else {
            return;
        };
        if let Some((_, count)) = list.get_mut(at) {
            *count -= 1;
            if *count == 0 {
                list.remove(at);
            }
        }
    }

    /// Every number a reader may use from now on is one of these or above the last.
    pub(crate) fn boundaries(&self, visible: impl FnOnce() -> SeqNo) -> Vec<SeqNo> {
        let list = self.0.lock();
        let mut all: Vec<SeqNo> = list.iter().map(|held| held.0).collect();
        all.push(visible());
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().iter().map(|held| held.1).sum()
    }
}

fn hold(list: &mut Vec<(SeqNo, usize)>, seq: SeqNo) {
    match list.binary_search_by_key(&seq, |held| held.0) {
        Ok(at) => {
            if let Some((_, count)) = list.get_mut(at) {
                *count += 1;
            }
        }
        Err(at) => list.insert(at, (seq, 1)),
    }
}

/// The database as it was at one moment. Holding it keeps the entries visible then from being
/// dropped by compaction; it costs no memory otherwise.
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
