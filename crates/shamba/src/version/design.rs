//! The design of a keyspace as the manifest keeps it (docs/format.md, "Version edits"): plain
//! numbers, of which the `db` module makes a design. Pure; decoding takes arbitrary bytes and never
//! panics.

use crate::base::coding::{put_varint, take_varint};

/// A design that was asked for, and how far the tree has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoredDesign {
    /// The merge policy's number.
    pub(crate) policy: u64,
    /// The size ratio.
    pub(crate) size_ratio: u64,
    /// The write buffer in bytes.
    pub(crate) write_buffer: u64,
    /// Filter bits in thousandths of a bit per key.
    pub(crate) millibits: u64,
    /// The install counter when it was asked for: files with a smaller one are of the design
    /// before.
    pub(crate) since: u64,
    /// Whether the tree has reached it.
    pub(crate) reached: bool,
    /// Whether files of before are to get other filters.
    pub(crate) rewrite_filters: bool,
}

impl StoredDesign {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for value in [
            self.policy,
            self.size_ratio,
            self.write_buffer,
            self.millibits,
            self.since,
            u64::from(self.reached) | u64::from(self.rewrite_filters) << 1,
        ] {
            put_varint(out, value);
        }
    }

    /// What follows in `input` is of newer builds, and taken for a hint that is not understood.
    pub(super) fn take(input: &mut &[u8]) -> Option<Self> {
        let mut design = StoredDesign {
            policy: take_varint(input)?,
            size_ratio: take_varint(input)?,
            write_buffer: take_varint(input)?,
            millibits: take_varint(input)?,
            since: take_varint(input)?,
            ..StoredDesign::default()
        };
        let flags = take_varint(input)?;
        design.reached = flags & 1 != 0;
        design.rewrite_filters = flags & 2 != 0;
        *input = &[];
        Some(design)
    }
}
