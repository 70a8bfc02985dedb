//! Range tombstones of a table that is written: they come beside its entries, and widen what it
//! says of its keys and numbers.

use super::TableBuilder;
use crate::base::fragment::{Fragment, last_before};
use crate::base::key::{EntryKind, Tag};
use crate::budget::most_of_ranges;
use crate::error::Result;

impl TableBuilder {
    /// The largest key so far: of entries, or the last one before the end of a range tombstone.
    pub(crate) fn largest(&self) -> &[u8] {
        self.last_key.as_slice().max(last_before(self.ranges.end()))
    }

    /// The smallest key so far.
    fn smallest(&self) -> &[u8] {
        let smallest = self.properties.smallest.as_slice();
        match (self.properties.entries, self.ranges.count()) {
            (_, 0) => smallest,
            (0, _) => self.ranges.first(),
            _ => smallest.min(self.ranges.first()),
        }
    }

    /// Bytes of the keys that the tree will know of the table.
    pub(crate) fn known_key_bytes(&self) -> u64 {
        (self.smallest().len() + self.largest().len()) as u64
    }

    /// Adds a fragment of range tombstones, which ends, behind those before. Entries may come
    /// before or after.
    pub(crate) fn add_range_tombstones(&mut self, fragment: &Fragment) {
        self.ranges.add(fragment);
        self.account();
    }

    /// Bytes of range tombstones at which the table ends.
    pub(super) fn most_of_ranges(&self) -> u64 {
        most_of_ranges(self.reservation.limit(), self.known_key_bytes())
    }

    /// How many fragments of range tombstones there are.
    pub(crate) fn range_tombstones(&self) -> u64 {
        self.ranges.count()
    }

    /// Gives a table of range tombstones alone an entry: the first key is deleted for itself, too.
    pub(super) fn fill_if_empty(&mut self) -> Result<()> {
        if self.properties.entries == 0
            && let Some((_, newest)) = self.ranges.seqs()
        {
            let first = self.ranges.first().to_vec();
            self.add(&first, Tag::new(newest, EntryKind::Delete), &[])?;
        }
        Ok(())
    }

    /// What the table says of its keys and numbers, once all entries are written.
    pub(super) fn bound_by_ranges(&mut self) {
        self.properties.largest = std::mem::take(&mut self.last_key);
        self.ranges.add_to(&mut self.properties);
    }
}
