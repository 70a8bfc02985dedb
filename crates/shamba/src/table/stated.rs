//! What the tree says of a table's file, and whether a table that is opened is that one.
//!
//! A file may hold a sound table that is not the one written under its name: two files swapped, or
//! an old copy put back. Its checksums are right, so only what the manifest says tells. A table's
//! salt is drawn anew for each table, and every block's checksum starts from it: where the salt is
//! right, no block is another table's. The rest guards against two tables that drew the same salt.
//! Pure.

use super::format::{Damage, Footer};
use super::properties::Properties;
use crate::base::key::SeqNo;

/// What the manifest says of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stated<'a> {
    /// The file's length in bytes.
    pub(crate) size: u64,
    pub(crate) salt: u32,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) smallest: &'a [u8],
    pub(crate) largest: &'a [u8],
    pub(crate) min_seq: SeqNo,
    pub(crate) max_seq: SeqNo,
    /// Fragments of range tombstones.
    pub(crate) ranges: u64,
}

impl Stated<'_> {
    /// Compares it with what an opened file says of itself; no byte is read for this.
    pub(super) fn check(
        &self,
        size: u64,
        footer: &Footer,
        properties: &Properties,
        [smallest, largest]: [&[u8]; 2],
        ranges: u64,
    ) -> Result<(), Damage> {
        let found = Stated {
            size,
            salt: footer.salt,
            entries: properties.entries,
            tombstones: properties.tombstones,
            smallest,
            largest,
            min_seq: properties.min_seq,
            max_seq: properties.max_seq,
            ranges,
        };
        if *self == found {
            Ok(())
        } else {
            Err(Damage(
                "the table is not the one the manifest describes; files may have been swapped, or an old copy put back",
            ))
        }
    }
}
