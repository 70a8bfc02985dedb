//! What goes when room is needed: of a few random residents the part that ranks lowest. With the
//! shard locked.

use super::ranking::{MOST_COMPARED, Rank, Ranking};
use super::{ENTRY_OVERHEAD, Resident, Shard, SlotAt, SlotSize};
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

/// How many entries of a size are compared for each that goes with others, until a group is free.
const ENTRIES_COMPARED: usize = 4;

/// What had best go.
enum Victim {
    Block(usize, Rank),
    Entry(SlotAt, f32),
}

impl Victim {
    fn rank(&self) -> f32 {
        match self {
            Victim::Block(_, rank) => rank.value,
            Victim::Entry(_, rank) => *rank,
        }
    }
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

/// Reads a block's header for nothing but that it comes near: those of some blocks drawn by chance
/// lie far away each, and all come in the time of one.
#[inline]
fn bring_near(block: &Block) {
    std::hint::black_box(block.is_unshared());
}

impl Shard {
    /// Drops parts of blocks and entries until `bytes` bytes are free or none is left that nobody
    /// else holds and that ranks no higher than `most`; gives the bytes freed.
    pub(in crate::cache) fn evict(
        &mut self,
        by: &dyn Ranking,
        bytes: u64,
        most: f32,
        policy: &PolicyState,
    ) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            match self.make_room(by, most, policy) {
                Evicted::Freed(more) => freed += more,
                Evicted::Outranked | Evicted::Held => break,
            }
        }
        freed
    }

    /// The rank of what would go first; infinite where nothing can go.
    pub(in crate::cache) fn least(&mut self, by: &dyn Ranking) -> f32 {
        let victim = self.choose_victim(by);
        victim.map_or(f32::INFINITY, |victim| victim.rank())
    }

    /// Evicts what ranks lowest in a sample, a part of a block or a group of entries, unless it
    /// ranks higher than `most`.
    pub(in crate::cache) fn make_room(
        &mut self,
        by: &dyn Ranking,
        most: f32,
        policy: &PolicyState,
    ) -> Evicted {
        match self.choose_below(by, most, policy) {
            Ok(Victim::Block(at, rank)) => self.evict_part(at, rank, policy),
            Ok(Victim::Entry(at, _)) => self.evict_group(by, at, most, policy),
            Err(none) => none,
        }
    }

    /// Makes room for an entry: evicts what ranks lowest in a sample, a part of a block or one
    /// entry, unless it ranks higher than `most`.
    pub(in crate::cache) fn make_slot(
        &mut self,
        by: &dyn Ranking,
        most: f32,
        policy: &PolicyState,
    ) -> Evicted {
        match self.choose_below(by, most, policy) {
            Ok(Victim::Block(at, rank)) => self.evict_part(at, rank, policy),
            Ok(Victim::Entry(at, _)) => {
                self.evict_entry(at);
                self.entries.drop_empty_group(at.size(), policy);
                Evicted::Freed(at.size().bytes() as u64)
            }
            Err(none) => none,
        }
    }

    /// What is to go, if anything can that ranks no higher than `most`. Before, blocks are moved
    /// together.
    fn choose_below(
        &mut self,
        by: &dyn Ranking,
        most: f32,
        policy: &PolicyState,
    ) -> Result<Victim, Evicted> {
        self.repack();
        let victim = self.choose_victim(by).ok_or(Evicted::Held)?;
        // What goes, or would go, next says what memory is worth at the margin.
        policy.note_marginal(victim.rank());
        if victim.rank() > most {
            return Err(Evicted::Outranked);
        }
        Ok(victim)
    }

    fn evict_entry(&mut self, at: SlotAt) {
        if let Some((hash, uses)) = self.entries.uses_at(at) {
            // It may come again.
            let expected = self.entries.rates.expected(uses);
            self.entries.frequency.suppose(hash, expected);
            self.entries.remove(at, hash);
            self.entries.stats.evictions += 1;
        }
    }

    /// Evicts an entry and others of its size that rank no higher than `most`, until a group is
    /// free.
    fn evict_group(
        &mut self,
        by: &dyn Ranking,
        mut at: SlotAt,
        most: f32,
        policy: &PolicyState,
    ) -> Evicted {
        let size = at.size();
        loop {
            self.evict_entry(at);
            if let Some(freed) = self.entries.drop_empty_group(size, policy) {
                return Evicted::Freed(freed);
            }
            match self.choose_entry(by, Some(size), ENTRIES_COMPARED) {
                Some((next, rank)) if rank <= most => at = next,
                _ => return Evicted::Outranked,
            }
        }
    }

    /// The place and rank of the entry, of a size or of any, that ranks lowest of a few.
    fn choose_entry(
        &mut self,
        by: &dyn Ranking,
        size: Option<SlotSize>,
        sample: usize,
    ) -> Option<(SlotAt, f32)> {
        let len = self.entries.count(size);
        let mut best = None;
        for drawn in 0..sample.min(len) {
            let number = if len > sample {
                self.draw_below(len)
            } else {
                drawn
            };
            let Some((at, entry)) = self.entries.draw(size, number) else {
                continue;
            };
            let rank = by.rank_of_entry(self, &entry);
            if best.is_none_or(|(_, least)| rank < least) {
                best = Some((at, rank));
            }
        }
        best
    }

    /// Evicts the part of a block that ranks lowest.
    fn evict_part(&mut self, at: usize, rank: Rank, policy: &PolicyState) -> Evicted {
        let Some(entry) = self.residents.get_mut(at) else {
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
                // Elsewhere there may be room for what is left: then those that were cut off have
                // its slots beside them.
                entry.block.repack();
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
        let len = self.residents.len();
        let drawn: [(usize, usize); REPACKED] =
            std::array::from_fn(|_| (self.draw_below(len), self.draw() as usize));
        for (at, group) in drawn {
            if let Some(entry) = self.residents.get(at) {
                bring_near(&entry.block);
            }
            if let Some(group) = self.entries.group(group) {
                bring_near(group);
            }
        }
        let mut moved = false;
        for (at, group) in drawn {
            let entry = self.residents.get_mut(at);
            if let Some(entry) =
                entry.filter(|entry| is_free(&entry.block, entry.partitions.as_deref()))
            {
                moved |= entry.block.repack();
            }
            moved |= self.entries.group(group).is_some_and(Block::repack);
        }
        moved
    }

    /// What had best go.
    fn choose_victim(&mut self, by: &dyn Ranking) -> Option<Victim> {
        let block = self.choose_block(by);
        let entry = self.choose_entry(by, None, by.sample());
        match (block, entry) {
            (Some((_, block)), Some((at, entry))) if entry < block.value => {
                Some(Victim::Entry(at, entry))
            }
            (Some((at, rank)), _) => Some(Victim::Block(at, rank)),
            (None, entry) => entry.map(|(at, rank)| Victim::Entry(at, rank)),
        }
    }

    /// The place and rank of the block of which a part had best go.
    fn choose_block(&mut self, by: &dyn Ranking) -> Option<(usize, Rank)> {
        let (sample, len) = (by.sample(), self.residents.len());
        let mut best = None;
        if len > sample {
            let mut drawn = [0; MOST_COMPARED];
            let (drawn, _) = drawn.split_at_mut(sample.min(MOST_COMPARED));
            drawn.fill_with(|| self.draw_below(len));
            for entry in drawn.iter().filter_map(|at| self.residents.get(*at)) {
                bring_near(&entry.block);
            }
            for at in drawn {
                self.consider(*at, by, &mut best);
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
        let entry = self.residents.get(at);
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
