//! What the block cache counts, by kind of block. Each shard counts under its own lock.

use crate::fs::{BlockKind, PAGE};

/// How many filter modules are told apart.
pub(super) const FILTER_MODULES: usize = 16;

/// How many kinds are told apart.
pub(super) const KIND_COUNT: usize = 4 + FILTER_MODULES;

/// A kind's place in an array of [`KIND_COUNT`].
pub(super) const fn kind_index(kind: BlockKind) -> usize {
    match kind {
        BlockKind::Data => 0,
        BlockKind::Index => 1,
        BlockKind::Footer => 2,
        BlockKind::Log => 3,
        BlockKind::Filter(module) => {
            let module = module as usize;
            4 + if module < FILTER_MODULES {
                module
            } else {
                FILTER_MODULES - 1
            }
        }
    }
}

/// The kind at a place.
pub(super) const fn kind_at(index: usize) -> BlockKind {
    match index {
        0 => BlockKind::Data,
        1 => BlockKind::Index,
        2 => BlockKind::Footer,
        3 => BlockKind::Log,
        module => BlockKind::Filter((module - 4) as u8),
    }
}

/// The cache's counters for one kind of block. Those of events count from the cache's creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KindStats {
    /// Lookups that found the block in the cache. Filters and indexes that an open table holds on
    /// to while memory is plenty are not asked of the cache, and do not count here.
    pub hits: u64,
    /// Blocks fetched from storage because they were not resident.
    pub misses: u64,
    /// Blocks that became resident.
    pub inserts: u64,
    /// Blocks dropped to make room.
    pub evictions: u64,
    /// Fetched blocks for which there was no room.
    pub refused: u64,
    /// Blocks resident now.
    pub blocks: u64,
    /// Memory charged for the blocks resident now, in bytes.
    pub bytes: u64,
}

/// The data pages that are resident, or could be instead of other blocks. Data blocks may be
/// smaller than a page; other blocks are parts of pages for the most part.
pub(super) fn pages_held(kinds: &[KindStats; KIND_COUNT]) -> u64 {
    let bytes: u64 = kinds.iter().map(|kind| kind.bytes).sum();
    let data = kinds.get(kind_index(BlockKind::Data));
    data.map_or(0, |data| data.blocks).max(bytes / PAGE as u64)
}

impl KindStats {
    pub(super) fn add(&mut self, other: &KindStats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.inserts += other.inserts;
        self.evictions += other.evictions;
        self.refused += other.refused;
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

/// The cache's counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheStats {
    kinds: [KindStats; KIND_COUNT],
    pub(super) entries: KindStats,
}

#[cfg(feature = "serde")]
impl serde::Serialize for CacheStats {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = |kind| match kind {
            BlockKind::Filter(module) => format!("filter_{module}"),
            kind => format!("{kind:?}").to_lowercase(),
        };
        let kinds = self.kinds().map(|(kind, stats)| (name(kind), stats));
        let entries = ("entries".to_owned(), self.entries);
        serializer.collect_map(kinds.chain(std::iter::once(entries)))
    }
}

impl CacheStats {
    /// The counters of one kind of block.
    #[must_use]
    pub fn kind(&self, kind: BlockKind) -> KindStats {
        self.kinds
            .get(kind_index(kind))
            .copied()
            .unwrap_or_default()
    }

    /// The counters of entries that are cached by themselves, keys without a value among them:
    /// hits are lookups that needed no table. Misses are not counted.
    #[must_use]
    pub fn entries(&self) -> KindStats {
        self.entries
    }

    /// The counters of every kind that was ever fetched.
    pub fn kinds(&self) -> impl Iterator<Item = (BlockKind, KindStats)> + '_ {
        self.kinds
            .iter()
            .enumerate()
            .filter(|(_, stats)| **stats != KindStats::default())
            .map(|(index, stats)| (kind_at(index), *stats))
    }

    /// The counters of all kinds together.
    #[must_use]
    pub fn total(&self) -> KindStats {
        let mut total = KindStats::default();
        for stats in &self.kinds {
            total.add(stats);
        }
        total
    }

    /// Adds a shard's counters.
    pub(super) fn add(&mut self, kinds: &[KindStats; KIND_COUNT]) {
        for (sum, stats) in self.kinds.iter_mut().zip(kinds) {
            sum.add(stats);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_place_of_its_own() {
        for index in 0..KIND_COUNT {
            assert_eq!(kind_index(kind_at(index)), index);
        }
        assert_eq!(kind_index(BlockKind::Filter(200)), KIND_COUNT - 1);
    }
}
