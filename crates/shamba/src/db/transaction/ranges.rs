//! Deleting ranges of keys in a transaction.

use std::sync::Arc;

use super::Transaction;
use super::own_ranges::OwnRanges;
use crate::base::fragment::last_before;
use crate::db::Keyspace;
use crate::db::iter::{IterOptions, KeyRange};
use crate::db::keyspaces::KeyspaceInner;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
#[cfg(doc)]
use crate::options::Isolation;

impl Transaction {
    /// Deletes every key of a range: see [`Db::delete_range`](crate::Db::delete_range). It does not
    /// depend on what others write there, but with [`Isolation::Snapshot`].
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::InvertedRange`] for a range that ends before it begins,
    /// [`Error::RangeEndTooLarge`].
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        let keyspace = self.default_keyspace().clone();
        self.push_range(&keyspace, &IterOptions::range(range))
    }

    /// [`Transaction::delete_range`] of a keyspace.
    ///
    /// # Errors
    /// As [`Transaction::delete_range`], and [`Error::WrongDatabase`].
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> Result<()> {
        let keyspace = self.of(keyspace)?;
        self.push_range(keyspace, &IterOptions::range(range))
    }

    fn push_range(&mut self, keyspace: &Arc<KeyspaceInner>, range: &IterOptions) -> Result<()> {
        let Some((start, end)) = range.ends()? else {
            return Ok(());
        };
        let inner = self.snapshot.shared().inner();
        let writes = inner.writes();
        writes.check_range(start.len().max(last_before(&end).len()))?;
        writes.check_batch(self.own.memory_with_range(&start, &end))?;
        let more = OwnRanges::bytes_of(&start, &end);
        let entry = (start.len() + end.len(), 0);
        let depends = self.depends.get_mut();
        depends.charge_with(&self.own, entry, more)?;
        let database = inner.shared().id();
        self.own.push_range((keyspace, database), &start, &end);
        Ok(())
    }
}
