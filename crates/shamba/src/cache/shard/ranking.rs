//! How residents of a shard are compared.

use super::{EntryView, Resident, Shard};

/// The place of a block among others: of two, the lower one goes first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cache) struct Rank {
    /// By expected reads, what a byte of the part is worth that would be evicted first.
    pub(in crate::cache) value: f32,
    /// Columns left without that part; 0: the part is the whole block.
    pub(in crate::cache) columns_left: u8,
}

/// The most residents that an eviction compares.
pub(in crate::cache) const MOST_COMPARED: usize = 16;

/// Ranks residents. Stateless and thread-safe.
pub(in crate::cache) trait Ranking: Sync {
    /// How many residents an eviction compares: [`MOST_COMPARED`] at most.
    fn sample(&self) -> usize;

    /// The rank of a resident block.
    fn rank(&self, shard: &Shard, resident: &Resident) -> Rank;

    /// The same of an entry.
    fn rank_of_entry(&self, shard: &Shard, entry: &EntryView<'_>) -> f32;
}
