//! A block on its way into the cache, with what was tried to make room for it. One owner.

use std::borrow::Cow;

use super::Owner;

/// A block that comes in, or what is left of it.
pub(super) struct Incoming<'a> {
    pub(super) hash: u64,
    pub(super) owner: &'a Owner<'a>,
    whole: &'a [u8],
    pub(super) bytes: Cow<'a, [u8]>,
    /// Columns in `bytes`; 1 of a block without.
    pub(super) columns: u8,
    /// The columns that gave way, of a block of fewer columns that was there.
    pub(super) gone: Option<u8>,
    /// Whether it may take what ranks lower, as [`Replacement`](super::replacement::Replacement)
    /// has it.
    pub(super) admitted: bool,
    /// How often blocks were moved together for it.
    pub(super) packed: u32,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(hash: u64, owner: &'a Owner<'a>, whole: &'a [u8]) -> Self {
        let partitions = owner.partitions;
        Incoming {
            hash,
            owner,
            whole,
            bytes: Cow::Borrowed(whole),
            columns: partitions.map_or(1, |partitions| partitions.columns(owner.kind)),
            gone: None,
            admitted: false,
            packed: 0,
        }
    }

    /// Leaves so many columns of it, the best ones; says whether that leaves anything.
    pub(super) fn cut_down(&mut self, columns: u8) -> bool {
        let Some(partitions) = self.owner.partitions.filter(|_| columns > 0) else {
            return false;
        };
        let (had, rejected_by) = (self.gone.unwrap_or(0), self.owner.rejected_by);
        let best = partitions.best_columns(self.owner.kind, columns, had, rejected_by);
        self.bytes = Cow::Owned(partitions.keep_columns(self.whole, best));
        self.columns = columns;
        true
    }
}
