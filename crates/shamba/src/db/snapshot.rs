//! Snapshots: what callers hold of a sequence number that compaction must keep readable.
//! Thread-safe; the last clone that is dropped lets go of the number.

use std::sync::Arc;

use super::keyspace::Keyspace;
use super::read::Value;
use super::{DbInner, DbShared};
use crate::base::key::SeqNo;
use crate::db::iter::{Iter, IterOptions};
use crate::error::Result;

/// The database as it was at one moment. While it is held, compactions keep the entries that were
/// visible then. It takes a few words of memory. Where the list of all snapshots would take more
/// than a 64th of the memory budget, compactions keep all entries from the first one not listed on.
#[derive(Debug)]
pub struct Snapshot {
    db: Arc<DbShared>,
    seq: SeqNo,
}

impl Snapshot {
    pub(crate) fn new(db: &Arc<DbShared>) -> Self {
        let seq = db.inner().visibility().acquire();
        Snapshot {
            db: db.clone(),
            seq,
        }
    }

    fn inner(&self) -> &DbInner {
        self.db.inner()
    }

    /// The value of a key of the default keyspace then.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let inner = self.inner();
        inner
            .reads()
            .get(inner.default_keyspace(), key.as_ref(), Some(self.seq))
    }

    /// The value of a key of a keyspace then.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        keyspace.check_database(self.inner())?;
        self.inner()
            .reads()
            .get(keyspace.inner(), key.as_ref(), Some(self.seq))
    }

    /// Whether a key of the default keyspace had a value then; copies none.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let inner = self.inner();
        inner
            .reads()
            .contains_key(inner.default_keyspace(), key.as_ref(), Some(self.seq))
    }

    /// Whether a key of a keyspace had a value then; copies none.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        keyspace.check_database(self.inner())?;
        self.inner()
            .reads()
            .contains_key(keyspace.inner(), key.as_ref(), Some(self.seq))
    }

    /// The values of several keys of the default keyspace then, in the order of the keys.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let inner = self.inner();
        inner
            .reads()
            .multi_get(inner.default_keyspace(), keys, Some(self.seq))
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
            .reads()
            .multi_get(keyspace.inner(), keys, Some(self.seq))
    }

    /// An iterator over the default keyspace as it was then.
    ///
    /// # Errors
    /// As [`Db::iter`](crate::Db::iter).
    pub fn iter(&self, options: IterOptions) -> Result<Iter> {
        Iter::new(
            &self.db,
            self.inner().default_keyspace(),
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
        self.inner().visibility().acquire_again(self.seq);
        Snapshot {
            db: self.db.clone(),
            seq: self.seq,
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner().visibility().release(self.seq);
        self.inner().shared().signal().notify();
    }
}
