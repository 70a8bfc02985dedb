//! What goes when room is needed: of a few random residents the part that ranks lowest. With the
//! shard locked.

use super::ranking::{Rank, Ranking};
use super::{ENTRY_OVERHEAD, Resident, Shard};
use crate::cache::Block;
use crate::cache::stats::kind_at;
use crate::value::{MorrisCounter, PartitionStats, PolicyState, last_of};

/// How many residents are moved with each eviction, where free slots take much memory. With half of
/// it as much is read; with double up to .7 % less, for twice the time under the shard's lock.
const REPACKED: usize = 4;

/// What became of making room.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cache) enum Evicted {
    /// So many bytes were freed.
    Freed(u64),
    /// What would have to go ranks higher.
    Outranked,
    /// Nothing can go.
    Held,
}

/// Whether nobody holds a block beside the cache, or lets go of it now; `partitions` is of its
/// table.
fn is_free(block: &Block, partitions: Option<&PartitionStats>) -> bool {
    let unpin_all = |partitions: &PartitionStats| {
        partitions.unpin_all();
        block.is_unshared()
    };
    block.is_unshared() || partitions.is_some_and(unpin_all)
}

impl Shard {
    /// Drops parts of blocks until `bytes` bytes are free or none is left that nobody else holds;
    /// gives the bytes freed.
    pub(in crate::cache) fn evict(
        &mut self,
        by: &dyn Ranking,
        bytes: u64,
        policy: &PolicyState,
    ) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            match self.make_room(by, f32::INFINITY, policy) {
                Evicted::Freed(more) => freed += more,
                Evicted::Outranked | Evicted::Held => break,
            }
        }
        freed
    }

    /// The rank of what would go first; infinite where nothing can go.
    pub(in crate::cache) fn least(&mut self, by: &dyn Ranking) -> f32 {
        let victim = self.choose_victim(by);
        victim.map_or(f32::INFINITY, |(_, rank)| rank.value)
    }

    /// Evicts the part of a block that ranks lowest in a sample, unless it ranks higher than
    /// `most`.
    pub(in crate::cache) fn make_room(
        &mut self,
        by: &dyn Ranking,
        most: f32,
        policy: &PolicyState,
    ) -> Evicted {
        self.repack();
        let Some((at, rank)) = self.choose_victim(by) else {
            return Evicted::Held;
        };
        // What goes, or would go, next says what memory is worth at the margin.
        policy.note_marginal(rank.value);
        if rank.value > most {
            return Evicted::Outranked;
        }
        let Some(entry) = self.entries.get_mut(at) else {
            return Evicted::Held;
        };
        if let Some(stats) = self.kinds.get_mut(usize::from(entry.kind)) {
            stats.evictions += 1;
        }
        policy.note_evicted(kind_at(usize::from(entry.kind)), rank.value);
        let (before, kind) = (entry.block.charge(), kind_at(usize::from(entry.kind)));
        if let Some(partitions) = &entry.partitions {
            let sole_rejections =
                partitions.note_eviction(entry.partition, kind, entry.sole_rejections.get());
            entry.sole_rejections = MorrisCounter::of(sole_rejections, 0.5);
        }
        // Of a filter one column goes at a time; its last one goes with the block.
        let left = rank.columns_left;
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
                return Evicted::Freed(freed);
            }
        }
        // Nothing is left of it, or what was cut off freed no slot.
        self.remove_at(at, policy);
        Evicted::Freed(before)
    }

    /// Moves some blocks to where fewer free slots lie beside them, so that what goes leaves whole
    /// frames; false when none was moved.
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

    /// The place and rank of what had best go.
    fn choose_victim(&mut self, by: &dyn Ranking) -> Option<(usize, Rank)> {
        let (sample, len) = (by.sample(), self.entries.len());
        let mut best = None;
        if len > sample {
            for _ in 0..sample {
                let at = self.draw() as usize % len;
                self.consider(at, by, &mut best);
            }
        }
        // A small shard is looked at as a whole, and so is one whose sample is all held: only then
        // is it known that nothing can go.
        if best.is_none() {
            for at in 0..len {
                self.consider(at, by, &mut best);
            }
        }
        best
    }

    fn consider(&self, at: usize, by: &dyn Ranking, best: &mut Option<(usize, Rank)>) {
        // The lock on the shard keeps a count of one from rising: the only reference is the
        // entry's.
        let entry = self.entries.get(at);
        let free = |entry: &&Resident| is_free(&entry.block, entry.partitions.as_deref());
        let Some(entry) = entry.filter(free) else {
            return;
        };
        let rank = by.rank(self, entry);
        if best.is_none_or(|(_, least)| rank.value < least.value) {
            *best = Some((at, rank));
        }
    }
}
