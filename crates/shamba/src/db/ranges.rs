//! Deleting ranges of keys.

use super::batch::{DEFAULT_KEYSPACE, WriteBatch};
use super::iter::{IterOptions, KeyRange};
use super::{Db, Keyspace};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::options::WriteOptions;

impl Db {
    /// Deletes every key of a range of the default keyspace, in one operation: its time and its
    /// bytes do not depend on how many keys there are.
    ///
    /// A write as any other: atomic, ordered with all others, and seen by those who read later;
    /// snapshots see what they saw. What was deleted goes from storage as compactions come to it;
    /// tables that have nothing else go at once, without being read, when the deletion itself is
    /// flushed to a table ([`Db::flush`]) and no snapshot sees them. A deletion takes longer, and
    /// more memory, for each one since the last flush that begins or ends in its range, of which
    /// there are some thousands at most. [`Db::clear`] deletes all of a keyspace.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// for day in ["2026-11-01", "2026-11-02", "2026-12-01"] {
    ///     db.put(day, "log")?;
    /// }
    /// db.delete_range("2026-11".."2026-12")?;
    /// assert_eq!(db.len()?, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`]; [`Error::InvertedRange`] for a range that ends before it begins,
    /// [`Error::RangeEndTooLarge`]. One that has no key deletes nothing.
    #[doc(alias = "remove_range")]
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// [`Db::delete_range`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_range_with(&self, range: impl KeyRange, options: WriteOptions) -> Result<()> {
        let inner = self.inner();
        let keyspace = (inner.default_keyspace(), inner.shared().id());
        let range = IterOptions::range(range);
        inner.writes().delete_range(keyspace, &range, options)
    }

    /// Deletes every key of the default keyspace that begins with `prefix`: a
    /// [`Db::delete_range`].
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let inner = self.inner();
        let keyspace = (inner.default_keyspace(), inner.shared().id());
        let (range, options) = (IterOptions::prefix(prefix), WriteOptions::default());
        inner.writes().delete_range(keyspace, &range, options)
    }
}

impl Keyspace {
    /// Deletes every key of a range: see [`Db::delete_range`].
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// [`Keyspace::delete_range`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_range_with(&self, range: impl KeyRange, options: WriteOptions) -> Result<()> {
        self.delete_all_of(&IterOptions::range(range), options)
    }

    /// Deletes every key that begins with `prefix`: see [`Db::delete_range`].
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_all_of(&IterOptions::prefix(prefix), WriteOptions::default())
    }

    fn delete_all_of(&self, range: &IterOptions, options: WriteOptions) -> Result<()> {
        self.inner().check_alive()?;
        let keyspace = (self.inner(), self.database_id());
        self.db().writes().delete_range(keyspace, range, options)
    }
}

impl WriteBatch {
    /// Deletes every key of a range of the default keyspace: see [`Db::delete_range`]. What the
    /// batch puts into the range afterwards stays.
    ///
    /// # Errors
    /// [`Error::InvertedRange`] for a range that ends before it begins; the batch is as it was. One
    /// that begins or ends with too long a key is refused when the batch is written.
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        if let Some((start, end)) = IterOptions::range(range).ends()? {
            self.push_range(DEFAULT_KEYSPACE, &start, &end);
        }
        Ok(())
    }

    /// Deletes every key of a range of a keyspace: see [`WriteBatch::delete_range`].
    ///
    /// # Errors
    /// As [`WriteBatch::delete_range`].
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> Result<()> {
        if let Some((start, end)) = IterOptions::range(range).ends()? {
            self.bind(keyspace.inner(), keyspace.database_id());
            self.push_range(keyspace.id(), &start, &end);
        }
        Ok(())
    }
}
