//! What goes when room is needed: of a few random residents the part that is worth least.

use std::sync::Arc;

use shamba_model::expected_reads::after_rest;

use super::{ENTRY_OVERHEAD, Shard};
use crate::cache::stats::kind_at;
use crate::cache::{BLOCK_OVERHEAD, Block, Eviction, Priority};
use crate::fs::BlockKind;
use crate::value::{ColumnEvidence, MorrisCounter, PartitionStats, PolicyState, last_of};

/// How many residents an eviction compares: by expected reads, and by recency (which is cheap).
const SAMPLE: usize = 12;
const LRU_SAMPLE: usize = 16;

/// How many residents are moved with each eviction, where free slots take much memory.
const REPACKED: usize = 4;

/// In two-priority LRU, what everything of low priority is worth less than, and nothing else.
pub(in crate::cache) const LOW_PRIORITY: f32 = 1.0;

/// What a block is worth against what would have to go for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cache) enum Room {
    /// So many bytes were freed.
    Freed(u64),
    /// What would have to go is worth more.
    Dearer,
    /// Nothing can go.
    Held,
}

/// Whether nobody holds a block beside the cache, or lets go of it now; `partitions` is of its table.
fn is_free(block: &Block, partitions: Option<&PartitionStats>) -> bool {
    let unpin_all = |partitions: &PartitionStats| {
        partitions.unpin_all();
        block.is_unshared()
    };
    block.is_unshared() || partitions.is_some_and(unpin_all)
}

impl Shard {
    /// What a byte of the part of a block that would be dropped first is worth, and the columns
    /// left without it, when it is asked for now; `partitions` knows that of its partition. `len` is the
    /// block's length.
    pub(in crate::cache) fn density(
        &self,
        hash: u64,
        partitions: Option<(&Arc<PartitionStats>, u32, ColumnEvidence)>,
        kind: BlockKind,
        columns: u8,
        len: usize,
    ) -> (f32, u8) {
        match partitions {
            None => (self.data_density(hash, len, 0), 0),
            Some((partitions, partition, part)) => {
                let worth = partitions.value_of(partition, kind, columns, part);
                let bytes = match worth.columns_left {
                    0 => len + BLOCK_OVERHEAD,
                    _ => len / usize::from(columns.max(1)),
                };
                (worth.value / bytes as f32, worth.columns_left)
            }
        }
    }

    /// What a byte of a data block is worth that was last used so many accesses to this shard ago.
    fn data_density(&self, hash: u64, len: usize, rest: u32) -> f32 {
        let expected = after_rest(
            self.page_frequency.expected(hash),
            rest as f32 / self.window,
        );
        self.known * expected / (len + BLOCK_OVERHEAD) as f32
    }

    /// Drops parts of blocks until `bytes` bytes are free or none is left that nobody else holds;
    /// gives the bytes freed.
    pub(in crate::cache) fn evict(&mut self, bytes: u64, policy: &PolicyState) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            match self.make_room(f32::INFINITY, policy) {
                Room::Freed(more) => freed += more,
                Room::Dearer | Room::Held => break,
            }
        }
        freed
    }

    /// What a byte of what would go first is worth, or of two-priority LRU its place; infinite where
    /// nothing can go.
    pub(in crate::cache) fn least(&mut self, policy: &PolicyState) -> f32 {
        (self.choose_victim(policy)).map_or(f32::INFINITY, |(_, worth, _)| worth)
    }

    /// Drops the part of a block worth least in a sample, unless a byte of it is worth more than
    /// `density`.
    pub(in crate::cache) fn make_room(&mut self, density: f32, policy: &PolicyState) -> Room {
        let eviction = Eviction::of(policy);
        self.repack();
        let Some((at, worth, left)) = self.choose_victim(policy) else {
            return Room::Held;
        };
        if eviction == Eviction::ExpectedReads {
            policy.note_marginal(worth);
        }
        if worth > density {
            return Room::Dearer;
        }
        let Some(entry) = self.entries.get_mut(at) else {
            return Room::Held;
        };
        if let Some(stats) = self.kinds.get_mut(usize::from(entry.kind)) {
            stats.evictions += 1;
        }
        if eviction == Eviction::ExpectedReads {
            policy.note_evicted(kind_at(usize::from(entry.kind)), worth);
        }
        let (before, kind) = (entry.block.charge(), kind_at(usize::from(entry.kind)));
        if let Some(partitions) = &entry.partitions {
            let sole_rejections =
                partitions.note_eviction(entry.partition, kind, entry.sole_rejections.get());
            entry.sole_rejections = MorrisCounter::of(sole_rejections, 0.5);
        }
        if left > 0
            && let Some(partitions) = &entry.partitions
        {
            let columns = partitions.columns_in(&entry.block);
            let rest = partitions.keep_columns(&entry.block, columns & !last_of(columns));
            entry.block.shorten(&rest, left, ENTRY_OVERHEAD as u64);
            entry.columns = left;
            partitions.set_resident(entry.partition, kind, left, true);
            let freed = before.saturating_sub(entry.block.charge());
            if let Some(stats) = self.kinds.get_mut(usize::from(entry.kind)) {
                stats.bytes -= freed;
            }
            if freed > 0 {
                return Room::Freed(freed);
            }
        }
        self.remove_at(at, policy);
        Room::Freed(before)
    }

    /// Moves some blocks to where fewer free slots lie beside them, so that what goes leaves whole frames;
    /// false when none was moved.
    pub(in crate::cache) fn repack(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..REPACKED.min(self.entries.len()) {
            let at = self.draw() as usize % self.entries.len();
            let entry = self.entries.get_mut(at);
            if let Some(entry) =
                entry.filter(|entry| is_free(&entry.block, entry.partitions.as_deref()))
            {
                moved |= entry.block.repack();
            }
        }
        moved
    }

    /// The place, worth and remaining columns of what had best go.
    fn choose_victim(&mut self, policy: &PolicyState) -> Option<(usize, f32, u8)> {
        let (eviction, len) = (Eviction::of(policy), self.entries.len());
        let sample = match eviction {
            Eviction::ExpectedReads => SAMPLE,
            Eviction::TwoPriorityLru => LRU_SAMPLE,
        };
        let mut best = None;
        if len > sample {
            for _ in 0..sample {
                let at = self.draw() as usize % len;
                self.consider(at, eviction, &mut best);
            }
        }
        // A small shard is looked at as a whole, and so is one whose sample is all held: only then
        // is it known that nothing can go.
        if best.is_none() {
            for at in 0..len {
                self.consider(at, eviction, &mut best);
            }
        }
        best
    }

    fn consider(&self, at: usize, eviction: Eviction, best: &mut Option<(usize, f32, u8)>) {
        // The lock on the shard keeps a count of one from rising: the only reference is the entry's.
        let entry = self.entries.get(at);
        let Some(entry) = entry.filter(|entry| is_free(&entry.block, entry.partitions.as_deref()))
        else {
            return;
        };
        let rest = self.accesses.wrapping_sub(entry.used);
        let (worth, left) = match eviction {
            Eviction::ExpectedReads if entry.partitions.is_none() => (
                self.data_density(entry.key().hash64(), entry.block.len(), rest),
                0,
            ),
            Eviction::ExpectedReads => {
                let part = ColumnEvidence::Resident {
                    sole_rejections: entry.sole_rejections.get(),
                };
                let partitions = entry.partitions.as_ref();
                self.density(
                    entry.key().hash64(),
                    partitions.map(|partitions| (partitions, entry.partition, part)),
                    kind_at(usize::from(entry.kind)),
                    entry.columns,
                    entry.block.len(),
                )
            }
            Eviction::TwoPriorityLru => {
                let base = match entry.priority {
                    Priority::Low => 0.0,
                    Priority::High => LOW_PRIORITY,
                };
                (base + 1.0 / (rest as f32 + 2.0), 0)
            }
        };
        if best.is_none_or(|(_, least, _)| worth < least) {
            *best = Some((at, worth, left));
        }
    }
}
