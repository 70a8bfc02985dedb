//! What is run again after a conflict: whole transactions, and updates of one key.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use super::Transaction;
use crate::db::keyspaces::KeyspaceInner;
use crate::db::{Db, DbShared, Keyspace, Value};
use crate::error::{Error, Result};
use crate::options::{TransactionOptions, WriteOptions};

/// A transaction is run so many times at most. With half of it a few more of those that meet at the
/// same keys fail; with twice of it callers hear of those that cannot succeed after seconds.
const MOST_RUNS: u32 = 100;

/// The longest wait between two runs. With half of it those that write for longer meet more often;
/// with twice of it the last of many waits in vain.
const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// Waits before the next run: twice as long as before, at most, and by chance, so that those that
/// met do not meet again.
fn back_off(runs: u32) {
    let most = Duration::from_micros(1 << runs.min(20)).min(LONGEST_WAIT);
    let random = RandomState::new().hash_one(runs) as u32;
    std::thread::sleep(most.mul_f64(f64::from(random) / f64::from(u32::MAX)));
}

/// The key had another value than was expected, and keeps it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the key has another value than was expected")]
#[non_exhaustive]
pub struct CompareAndSwapError {
    /// The value, if the key has one.
    pub current: Option<Value>,
}

impl Db {
    /// A transaction, serializable.
    #[doc(alias("begin", "begin_write", "write_tx"))]
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        self.transaction_with(TransactionOptions::default())
    }

    /// A transaction with options of its own.
    #[must_use]
    pub fn transaction_with(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(&self.shared, options)
    }

    /// Runs a transaction and commits it, and after a conflict runs it again from its beginning,
    /// after a wait that becomes longer: a hundred times at most. What else it does than read and
    /// write through the transaction it does as often, and values too long for memory are written
    /// to storage as often. After an error of its own it is rolled back.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// # db.put("ada", [7])?;
    /// let moved = db.transact(|tx| -> shamba::Result<u8> {
    ///     let coins = tx.get("ada")?.map_or(0, |coins| coins[0]);
    ///     tx.delete("ada")?;
    ///     tx.put("bob", [coins])?;
    ///     Ok(coins)
    /// })?;
    /// assert_eq!(moved, 7);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of `run`, and of [`Transaction::commit`]: [`Error::Conflict`] where the last run had
    /// one too.
    pub fn transact<T, E: From<Error>>(
        &self,
        run: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact_with(TransactionOptions::default(), WriteOptions::default(), run)
    }

    /// [`Db::transact`] with an isolation and a durability of its own.
    ///
    /// # Errors
    /// As there.
    pub fn transact_with<T, E: From<Error>>(
        &self,
        options: TransactionOptions,
        write: WriteOptions,
        run: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        run_until_committed(&self.shared, (options, write), MOST_RUNS, run)
    }

    /// [`Keyspace::compare_and_swap`] in the default keyspace.
    ///
    /// # Errors
    /// As there.
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<(), CompareAndSwapError>> {
        self.default_keyspace().compare_and_swap(key, expected, new)
    }

    /// [`Keyspace::fetch_update`] in the default keyspace.
    ///
    /// # Errors
    /// As there.
    pub fn fetch_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Value>> {
        self.default_keyspace().fetch_update(key, update)
    }
}

impl Keyspace {
    /// Sets a key to `new`, or removes it, if its value is the expected one; `None` stands for a
    /// key that has none.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// assert!(db.compare_and_swap("lock", None, Some(b"mine"))?.is_ok());
    /// let failed = db.compare_and_swap("lock", None, Some(b"yours"))?.unwrap_err();
    /// assert_eq!(failed.current.as_deref(), Some(b"mine".as_slice()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`] and [`Db::write`].
    #[doc(alias("compare_exchange", "cas"))]
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<(), CompareAndSwapError>> {
        until_written(self, |transaction, keyspace| {
            let current = transaction.read(keyspace, key.as_ref(), false)?;
            if current.as_deref() != expected {
                return Ok(Err(CompareAndSwapError { current }));
            }
            transaction.push(keyspace, key.as_ref(), new)?;
            Ok(Ok(()))
        })
    }

    /// Sets a key to what `update` makes of its value, or removes it; `None` stands for a key that
    /// has none. Gives the value before. `update` is called again where others wrote the key
    /// meanwhile.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// let next = |count: Option<&[u8]>| Some([count.map_or(0, |count| count[0]) + 1]);
    /// assert!(db.fetch_update("visitors", next)?.is_none());
    /// assert_eq!(db.fetch_update("visitors", next)?.as_deref(), Some([1].as_slice()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`] and [`Db::write`].
    #[doc(alias("update", "update_and_fetch", "read_modify_write"))]
    pub fn fetch_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Value>> {
        until_written(self, |transaction, keyspace| {
            let before = transaction.read(keyspace, key.as_ref(), false)?;
            let after = update(before.as_deref());
            let after = after.as_ref().map(AsRef::as_ref);
            transaction.push(keyspace, key.as_ref(), after)?;
            Ok(before)
        })
    }
}

/// Runs a transaction of one keyspace until it has no conflict: whoever has one with it has written
/// the key.
fn until_written<T>(
    keyspace: &Keyspace,
    mut run: impl FnMut(&mut Transaction, &Arc<KeyspaceInner>) -> Result<T>,
) -> Result<T> {
    let run = |transaction: &mut Transaction| run(transaction, keyspace.inner());
    run_until_committed(keyspace.shared(), Default::default(), u32::MAX, run)
}

/// Runs a transaction until it has no conflict, so many times at most.
fn run_until_committed<T, E: From<Error>>(
    db: &Arc<DbShared>,
    (options, write): (TransactionOptions, WriteOptions),
    most: u32,
    mut run: impl FnMut(&mut Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let mut runs = 1;
    loop {
        let mut transaction = Transaction::new(db, options);
        let value = run(&mut transaction)?;
        match transaction.commit_with(write) {
            Ok(()) => return Ok(value),
            Err(Error::Conflict { .. }) if runs < most => back_off(runs),
            Err(error) => return Err(error.into()),
        }
        runs += 1;
    }
}
