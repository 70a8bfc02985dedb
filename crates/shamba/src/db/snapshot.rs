//! Snapshots: what callers hold of a sequence number that compaction must keep readable.
//! Thread-safe; the last clone that is dropped lets go of the number.

use std::sync::Arc;

use super::keyspace::Keyspace;
use super::read::Value;
use super::visibility::SnapshotPoint;
use super::{DbInner, DbShared};
use crate::db::iter::{Cursor, Iter, IterOptions, KeyRange};
use crate::error::Result;

/// The database as it was at one moment: what expires later is there. While it is held, compactions
/// keep the entries that were visible then. It takes a few words of memory. Where the list of all
/// snapshots would take more than a 64th of the memory budget, compactions keep all entries from
/// the first one not listed on.
#[derive(Debug)]
pub struct Snapshot {
    db: Arc<DbShared>,
    point: SnapshotPoint,
}

impl Snapshot {
    pub(crate) fn new(db: &Arc<DbShared>) -> Self {
        let inner = db.inner();
        let point = inner.visibility().acquire_at(inner.shared().now());
        db.counts().add_snapshot();
        Snapshot {
            db: db.clone(),
            point,
        }
    }

    fn inner(&self) -> &DbInner {
        self.db.inner()
    }

    pub(super) fn shared(&self) -> &Arc<DbShared> {
        &self.db
    }

    /// What it reads at.
    pub(super) fn point(&self) -> SnapshotPoint {
        self.point
    }

    /// The value of a key of the default keyspace then.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let inner = self.inner();
        inner
            .reads()
            .get(inner.default_keyspace(), key.as_ref(), Some(self.point))
    }

    /// The value of a key of a keyspace then.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        keyspace.check_database(self.inner())?;
        self.inner()
            .reads()
            .get(keyspace.inner(), key.as_ref(), Some(self.point))
    }

    /// Whether a key of the default keyspace had a value then; copies none.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let inner = self.inner();
        inner
            .reads()
            .contains_key(inner.default_keyspace(), key.as_ref(), Some(self.point))
    }

    /// Whether a key of a keyspace had a value then; copies none.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        keyspace.check_database(self.inner())?;
        self.inner()
            .reads()
            .contains_key(keyspace.inner(), key.as_ref(), Some(self.point))
    }

    /// The smallest key of the default keyspace then and its value, if there was any.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().next().transpose()
    }

    /// The largest key of the default keyspace then and its value, if there was any.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter().next_back().transpose()
    }

    /// Whether the default keyspace held no key then.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn is_empty(&self) -> Result<bool> {
        self.first_key_value().map(|first| first.is_none())
    }

    /// How many keys the default keyspace held then: exact, and read from all of it.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn len(&self) -> Result<u64> {
        self.cursor(IterOptions::default().fill_cache(false).keys_only(true))?
            .count_entries()
    }

    /// [`Snapshot::first_key_value`] for a keyspace.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn first_key_value_in(&self, keyspace: &Keyspace) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter_in(keyspace, IterOptions::default())
            .next()
            .transpose()
    }

    /// [`Snapshot::last_key_value`] for a keyspace.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn last_key_value_in(&self, keyspace: &Keyspace) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter_in(keyspace, IterOptions::default())
            .next_back()
            .transpose()
    }

    /// [`Snapshot::is_empty`] for a keyspace.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn is_empty_in(&self, keyspace: &Keyspace) -> Result<bool> {
        self.first_key_value_in(keyspace)
            .map(|first| first.is_none())
    }

    /// [`Snapshot::len`] for a keyspace.
    ///
    /// # Errors
    /// Those of [`Db::iter`](crate::Db::iter).
    pub fn len_in(&self, keyspace: &Keyspace) -> Result<u64> {
        let options = IterOptions::default().fill_cache(false).keys_only(true);
        self.cursor_in(keyspace, options)?.count_entries()
    }

    /// The values of several keys of the default keyspace then, in the order of the keys.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let inner = self.inner();
        inner
            .reads()
            .multi_get(inner.default_keyspace(), keys, Some(self.point))
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
            .multi_get(keyspace.inner(), keys, Some(self.point))
    }

    /// Every key of the default keyspace as it was then, and its value, in the order of keys.
    /// Errors are those of [`Db::iter`](crate::Db::iter).
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.iter_with(IterOptions::default())
    }

    /// The keys of a range, as [`Db::range`](crate::Db::range).
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Iter {
        self.iter_with(IterOptions::range(range))
    }

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.iter_with(IterOptions::prefix(prefix))
    }

    /// The keys that the options cover.
    #[must_use]
    pub fn iter_with(&self, options: IterOptions) -> Iter {
        Iter::new(self.cursor(options))
    }

    /// A cursor over the default keyspace as it was then, to seek and to go both ways.
    ///
    /// # Errors
    /// As [`Db::cursor`](crate::Db::cursor).
    pub fn cursor(&self, options: IterOptions) -> Result<Cursor> {
        Cursor::new(
            &self.db,
            self.inner().default_keyspace(),
            options,
            Some(self.point),
        )
    }

    /// What the options cover of a keyspace as it was then. Errors are those of
    /// [`Db::iter`](crate::Db::iter).
    #[must_use]
    pub fn iter_in(&self, keyspace: &Keyspace, options: IterOptions) -> Iter {
        Iter::new(self.cursor_in(keyspace, options))
    }

    /// The keys of a range of a keyspace, as [`Db::range`](crate::Db::range).
    #[must_use]
    pub fn range_in(&self, keyspace: &Keyspace, range: impl KeyRange) -> Iter {
        self.iter_in(keyspace, IterOptions::range(range))
    }

    /// The keys of a keyspace that begin with `prefix`.
    #[must_use]
    pub fn prefix_in(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        self.iter_in(keyspace, IterOptions::prefix(prefix))
    }

    /// A cursor over a keyspace as it was then.
    ///
    /// # Errors
    /// As [`Db::cursor`](crate::Db::cursor).
    pub fn cursor_in(&self, keyspace: &Keyspace, options: IterOptions) -> Result<Cursor> {
        keyspace.check_database(self.inner())?;
        Cursor::new(&self.db, keyspace.inner(), options, Some(self.point))
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        self.inner().visibility().acquire_again(self.point);
        self.db.counts().add_snapshot();
        Snapshot {
            db: self.db.clone(),
            point: self.point,
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let inner = self.inner();
        inner.visibility().release(self.point);
        self.db.counts().remove_snapshot();
        // Whoever finds something to do later for a snapshot's sake looks again after this, or is
        // seen here. Threads are not woken for nothing: a transaction is a snapshot too.
        let signal = inner.shared().signal();
        signal.note();
        if inner.files().due().has_later() {
            signal.notify();
        }
    }
}
