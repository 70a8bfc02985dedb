//! Merging into values without reading them.

use super::Db;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::options::WriteOptions;

impl Db {
    /// Merges an operand into the value of a key of the default keyspace, without reading it: what
    /// the value is then says the operator that was given to
    /// [`Options::merge_operator`](crate::Options::merge_operator).
    ///
    /// A write as any other: atomic, ordered with all others, and seen by those who read later. It
    /// takes no time to live, and what it is merged into keeps its own.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let options = shamba::Options::new().merge_operator("default", shamba::Increment);
    /// let db = options.open(dir.path())?;
    /// for _ in 0..3 {
    ///     db.merge("visits", 1i64.to_le_bytes())?;
    /// }
    /// assert_eq!(db.get("visits")?.as_deref(), Some(3i64.to_le_bytes().as_slice()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`]; [`Error::MergeOperator`] where the keyspace has none.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default())
    }

    /// [`Db::merge`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::merge`].
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let inner = self.inner();
        let keyspace = (inner.default_keyspace(), inner.shared().id());
        let (key, operand) = (key.as_ref(), operand.as_ref());
        inner.writes().merge_one(keyspace, key, operand, options)
    }
}
