//! Transactions, optimistic: reads are of one snapshot and of the transaction's own writes, writes
//! are gathered in memory, long values in files, and a commit writes them as one batch unless
//! others wrote meanwhile what the transaction depends on. No lock is held, and nothing is kept of
//! what others write: a commit looks in the tree for what is newer than its snapshot, and watches
//! its keys until its turn to write comes (`super::write`). So all that it read is as it was at
//! the moment of its batch, and transactions are as if each had run alone at that moment
//! (optimistic concurrency control with backward validation: Kung and Robinson, "On Optimistic
//! Methods for Concurrency Control", TODS 1981).
//!
//! A key that was absent, was written and deleted again is as it was, and no conflict.
//!
//! What a transaction holds is charged with what iterators hold, and refused past their share. A
//! transaction is for one thread at a time; reads of it may be shared.

mod commit;
mod dependencies;
mod iter;
mod long_values;
mod own_ranges;
mod own_writes;
mod ranges;
mod retry;
mod streams;

use std::sync::Arc;

use parking_lot::Mutex;

use super::iter::{IterOptions, KeyRange};
use super::keyspaces::KeyspaceInner;
use super::write::KeySet;
use super::{DbInner, DbShared, Keyspace, Snapshot, Value};
use crate::budget::Role;
use crate::error::{Error, Result};
use crate::options::{Isolation, TransactionOptions};
use dependencies::Dependencies;
pub use iter::TransactionIter;
use own_writes::{OwnBase, OwnEntry, OwnOperands, OwnWrites};
pub use retry::CompareAndSwapError;

/// Reads of one moment and writes of the next one, all or nothing.
///
/// It sees the database as it was when the transaction began, and its own writes.
/// [`commit`](Self::commit) writes them at once, or fails with [`Error::Conflict`] and writes
/// nothing, when others wrote meanwhile what it depends on ([`Isolation`]). Dropping it is a
/// rollback. Nobody waits for a transaction: others read and write as ever, and while it is open
/// compactions keep what it may read. Values too long for memory take storage from when they are
/// put, in checkpoints made meanwhile too.
///
/// ```
/// # fn main() -> shamba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = shamba::Options::new().open(dir.path())?;
/// db.put("ada", "7")?;
/// let mut tx = db.transaction();
/// let coins = tx.get("ada")?;
/// tx.put("bob", coins.unwrap())?;
/// tx.delete("ada")?;
/// assert!(tx.get("ada")?.is_none() && db.get("bob")?.is_none());
/// tx.commit()?;
/// assert_eq!(db.get("bob")?.as_deref(), Some(b"7".as_slice()));
/// # Ok(()) }
/// ```
///
/// [`Db::transact`](crate::Db::transact) runs one again after a conflict.
#[derive(Debug)]
pub struct Transaction {
    /// Dropped before what keeps the database open.
    own: OwnWrites,
    snapshot: Snapshot,
    isolation: Isolation,
    depends: Mutex<Dependencies>,
}

impl Transaction {
    pub(super) fn new(db: &Arc<DbShared>, options: TransactionOptions) -> Self {
        let budget = db.inner().shared().budget();
        Transaction {
            snapshot: Snapshot::new(db),
            isolation: options.isolation,
            own: OwnWrites::default(),
            depends: Mutex::new(Dependencies {
                keys: KeySet::default(),
                on_written: options.isolation == Isolation::Snapshot,
                memory: budget.open_account(Role::Iterators),
            }),
        }
    }

    fn inner(&self) -> &DbInner {
        self.snapshot.shared().inner()
    }

    fn default_keyspace(&self) -> &Arc<KeyspaceInner> {
        self.inner().default_keyspace()
    }

    fn of<'k>(&self, keyspace: &'k Keyspace) -> Result<&'k Arc<KeyspaceInner>> {
        keyspace.check_database(self.inner())?;
        Ok(keyspace.inner())
    }

    /// The value of a key of the default keyspace, as the transaction sees it.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get); [`Error::TransactionTooLarge`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(self.default_keyspace(), key.as_ref(), false)
    }

    /// [`Transaction::get`] for a keyspace.
    ///
    /// # Errors
    /// As there; [`Error::WrongDatabase`].
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(self.of(keyspace)?, key.as_ref(), false)
    }

    /// [`Transaction::get`] of a key that the commit depends on whatever the isolation: it is
    /// refused if others write it meanwhile. Nobody is kept from that.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(self.default_keyspace(), key.as_ref(), true)
    }

    /// [`Transaction::get_for_update`] for a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get_in`].
    pub fn get_for_update_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        self.read(self.of(keyspace)?, key.as_ref(), true)
    }

    /// Whether a key of the default keyspace has a value, as the transaction sees it; copies none.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    #[doc(alias = "exists")]
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains(self.default_keyspace(), key.as_ref())
    }

    /// [`Transaction::contains_key`] for a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get_in`].
    pub fn contains_key_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains(self.of(keyspace)?, key.as_ref())
    }

    /// The values of several keys of the default keyspace, in the order of the keys.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.read_several(self.default_keyspace(), keys)
    }

    /// [`Transaction::multi_get`] for a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::get_in`].
    pub fn multi_get_in<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        self.read_several(self.of(keyspace)?, keys)
    }

    /// Every key of the default keyspace and its value, as the transaction sees them, in the order
    /// of keys, from both ends. What it comes past, the transaction has read, and no more. Where it
    /// cannot be made or comes to what cannot be read, the error is what it yields last: one of
    /// [`Db::iter`](crate::Db::iter), or [`Error::TransactionTooLarge`].
    #[must_use]
    pub fn iter(&self) -> TransactionIter<'_> {
        self.iter_with(IterOptions::default())
    }

    /// The keys of a range, as [`Db::range`](crate::Db::range).
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> TransactionIter<'_> {
        self.iter_with(IterOptions::range(range))
    }

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionIter<'_> {
        self.iter_with(IterOptions::prefix(prefix))
    }

    /// The keys that the options cover.
    #[must_use]
    pub fn iter_with(&self, options: IterOptions) -> TransactionIter<'_> {
        TransactionIter::new(self, Ok(self.default_keyspace().clone()), options)
    }

    /// The keys of a keyspace that the options cover.
    #[must_use]
    pub fn iter_in(&self, keyspace: &Keyspace, options: IterOptions) -> TransactionIter<'_> {
        TransactionIter::new(self, self.of(keyspace).cloned(), options)
    }

    /// The keys of a range of a keyspace.
    #[must_use]
    pub fn range_in(&self, keyspace: &Keyspace, range: impl KeyRange) -> TransactionIter<'_> {
        self.iter_in(keyspace, IterOptions::range(range))
    }

    /// The keys of a keyspace that begin with `prefix`.
    #[must_use]
    pub fn prefix_in(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> TransactionIter<'_> {
        self.iter_in(keyspace, IterOptions::prefix(prefix))
    }

    /// Sets a key of the default keyspace, once the transaction is committed. A value longer than a
    /// sixteenth of the memory budget goes into a file of its own at once, as by
    /// [`Transaction::put_reader`].
    ///
    /// # Errors
    /// [`Error::KeyTooLarge`], [`Error::BatchTooLarge`] or [`Error::TransactionTooLarge`], and
    /// where a file is written those of [`Db::put`](crate::Db::put): the transaction is as it was
    /// before the call.
    #[doc(alias = "insert")]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let keyspace = self.default_keyspace().clone();
        self.push(&keyspace, key.as_ref(), Some(value.as_ref()))
    }

    /// [`Transaction::put`] for a keyspace.
    ///
    /// # Errors
    /// As there; [`Error::WrongDatabase`].
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let keyspace = self.of(keyspace)?;
        self.push(keyspace, key.as_ref(), Some(value.as_ref()))
    }

    /// Merges an operand into the value of a key of the default keyspace, once the transaction is
    /// committed: see [`Db::merge`](crate::Db::merge). If it is serializable, the commit depends on
    /// the key only if it is read, so that any number of transactions may merge into one; with
    /// snapshot isolation it depends on all keys that it writes.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::ValueTooLarge`], and [`Error::MergeOperator`] where the
    /// keyspace has none.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let keyspace = self.default_keyspace().clone();
        self.push_operand(&keyspace, key.as_ref(), operand.as_ref())
    }

    /// [`Transaction::merge`] for a keyspace.
    ///
    /// # Errors
    /// As there; [`Error::WrongDatabase`].
    pub fn merge_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let keyspace = self.of(keyspace)?;
        self.push_operand(keyspace, key.as_ref(), operand.as_ref())
    }

    /// Removes a key of the default keyspace, once the transaction is committed; one that does not
    /// exist is no error.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    #[doc(alias = "remove")]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let keyspace = self.default_keyspace().clone();
        self.push(&keyspace, key.as_ref(), None)
    }

    /// [`Transaction::delete`] for a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::put_in`].
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let keyspace = self.of(keyspace)?;
        self.push(keyspace, key.as_ref(), None)
    }

    /// Notes the present state of the writes, to go back to. Savepoints are a stack.
    pub fn set_savepoint(&mut self) {
        self.own.set_savepoint();
    }

    /// Takes back the writes since the savepoint that was set last, and removes it. What was read
    /// since is not unread: the commit depends on it.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`].
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        let done = self.own.rollback_to_savepoint();
        done.then_some(()).ok_or(Error::NoSavepoint)
    }

    /// Removes the savepoint that was set last, and keeps the writes since.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`].
    pub fn pop_savepoint(&mut self) -> Result<()> {
        let done = self.own.pop_savepoint();
        done.then_some(()).ok_or(Error::NoSavepoint)
    }

    /// Drops the transaction, of which nothing is written.
    pub fn rollback(self) {}

    /// Reads a key; `for_update` has the commit depend on it whatever the isolation.
    fn read(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        for_update: bool,
    ) -> Result<Option<Value>> {
        let below = || {
            let point = Some(self.snapshot.point());
            self.inner().reads().get(keyspace, key, point)
        };
        match self.own_or_depend(keyspace, key, for_update)? {
            Some(OwnEntry::Base(own)) => self.value_of(keyspace, key, own),
            Some(OwnEntry::Merged(own)) => {
                let below = if own.base.is_none() { below()? } else { None };
                self.merged(keyspace, key, &own, below.as_deref()).map(Some)
            }
            None => below(),
        }
    }

    fn contains(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) -> Result<bool> {
        // What it merged into a key is there whatever lies below.
        if let Some(own) = self.own.get(keyspace.id(), key) {
            return Ok(!own.is_deleted());
        }
        match self.own_or_depend(keyspace, key, false)? {
            Some(own) => Ok(!own.is_deleted()),
            None => {
                let point = Some(self.snapshot.point());
                self.inner().reads().contains_key(keyspace, key, point)
            }
        }
    }

    fn read_several<K: AsRef<[u8]>>(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        let mut values: Vec<Option<Value>> = keys.iter().map(|_| None).collect();
        let (mut others, mut places) = (Vec::new(), Vec::new());
        for (key, value) in keys.iter().zip(&mut values) {
            if self.own.get(keyspace.id(), key.as_ref()).is_some() {
                *value = self.read(keyspace, key.as_ref(), false)?;
            } else {
                self.own_or_depend(keyspace, key.as_ref(), false)?;
                others.push(key.as_ref());
                places.push(value);
            }
        }
        let point = Some(self.snapshot.point());
        let found = self.inner().reads().multi_get(keyspace, &others, point)?;
        for (place, value) in places.into_iter().zip(found) {
            *place = value;
        }
        Ok(values)
    }

    /// What the transaction itself wrote of a key; where that is nothing, the snapshot is to be
    /// read, and the commit depends on the key from now on.
    fn own_or_depend(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        for_update: bool,
    ) -> Result<Option<OwnEntry<'_>>> {
        let own = self.own.get(keyspace.id(), key);
        let reads_below = match &own {
            None => true,
            Some(OwnEntry::Merged(own)) => own.base.is_none(),
            Some(OwnEntry::Base(_)) => false,
        };
        let depends = self.isolation == Isolation::Serializable && reads_below;
        if depends || for_update {
            let mut depends = self.depends.lock();
            let more = KeySet::bytes_of_key(key);
            depends.charge(&self.own, more)?;
            depends.keys.add(keyspace, key);
        }
        Ok(own)
    }

    /// The commit depends on a range, in the place of one before.
    fn depend_on_range(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        at: &mut Option<usize>,
        range: IterOptions,
    ) -> Result<()> {
        let mut depends = self.depends.lock();
        let more = depends.keys.bytes_of_range(&range);
        depends.charge(&self.own, more)?;
        *at = Some(depends.keys.set_range(keyspace, *at, range));
        Ok(())
    }

    fn push(
        &mut self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let value_len = value.map_or(0, <[u8]>::len);
        match (self.make_room((key.len(), value_len), 0), value) {
            (Err(Error::ValueTooLarge { .. }), Some(mut value)) => {
                self.push_reader(keyspace, key, &mut value)
            }
            (room, value) => {
                self.own.push((keyspace, room?), key, value);
                Ok(())
            }
        }
    }

    fn push_operand(
        &mut self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        keyspace.operator()?;
        let database = self.make_room((key.len(), operand.len()), 0)?;
        self.own.push_operand((keyspace, database), key, operand);
        Ok(())
    }

    /// Has memory for an operation more, with a key and a value of so many bytes, and for so many
    /// bytes beside it; gives the number of the database.
    fn make_room(&mut self, (key, value): (usize, usize), more: usize) -> Result<u64> {
        let inner = self.snapshot.shared().inner();
        let writes = inner.writes();
        writes.check_sizes(key, value)?;
        writes.check_batch(self.own.memory_with(key, value))?;
        let depends = self.depends.get_mut();
        depends.charge_with(&self.own, (key, value), more)?;
        Ok(inner.shared().id())
    }

    /// The value of a key once operands of the transaction are merged into what is its own, or else
    /// into what is below.
    fn merged(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        own: &OwnOperands<'_>,
        below: Option<&[u8]>,
    ) -> Result<Value> {
        let in_pieces;
        let base = match own.base {
            None => below,
            Some(OwnBase::Value(value)) => Some(value),
            Some(base @ (OwnBase::InPieces(_) | OwnBase::Deleted)) => {
                in_pieces = self.held_value_of(keyspace, key, base)?;
                in_pieces.as_deref()
            }
        };
        let value = keyspace.operator()?.merge(key, base, &own.operands)?;
        Ok(Value::boxed(value.into()))
    }
}
