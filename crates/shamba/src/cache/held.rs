//! Names of what the cache holds, as they are kept over a restart. Plain values.

use super::entries::HeldEntry;
use crate::fs::BlockKind;

/// A block in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WarmBlock {
    /// The file, as the cache names it; where it is kept, its number.
    pub(crate) file: u64,
    /// The page at which the block starts.
    pub(crate) page: u32,
    /// Its length in memory.
    pub(crate) bytes: u32,
    pub(crate) partition: u32,
    pub(crate) kind: BlockKind,
    /// How many columns are left of it; 1 of a block without.
    pub(crate) columns: u8,
    /// How often it was asked for lately, of data.
    pub(crate) count: u8,
}

/// One of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Held<'a> {
    Block(WarmBlock),
    Entry(HeldEntry<'a>),
}
