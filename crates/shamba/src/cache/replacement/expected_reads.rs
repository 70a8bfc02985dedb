//! Evicts what saves the fewest expected storage reads per byte.

use parking_lot::MutexGuard;

use super::{Decision, Replacement};
use crate::budget::short_of_memory;
use crate::cache::entries::EntryView;
use crate::cache::incoming::Incoming;
use crate::cache::shard::{Evicted, MOST_COMPARED, Rank, Ranking, Resident, Shard};
use crate::cache::stats::kind_at;
use crate::cache::{BLOCK_OVERHEAD, BlockCache};
use crate::value::{ColumnEvidence, PartValue};

/// How many residents an eviction compares. The least of twelve is among the lowest sixth of all
/// nine times in ten. With half of it 1 % more is read where data pages are most of what is
/// evicted; with double 1 % less, for twice the time under the shard's lock.
const SAMPLE: usize = 12;

const _: () = assert!(SAMPLE <= MOST_COMPARED);

/// See [`Eviction::ExpectedReads`](super::Eviction::ExpectedReads).
pub(super) struct ByExpectedReads;

/// The rank of a part of a block of so many columns and bytes.
fn rank_of(part: PartValue, columns: u8, len: usize) -> Rank {
    let bytes = match part.columns_left {
        0 => len + BLOCK_OVERHEAD,
        _ => len / usize::from(columns.max(1)),
    };
    Rank {
        value: part.value / bytes as f32,
        columns_left: part.columns_left,
    }
}

/// The rank of a data block, last used so many accesses to this shard ago.
fn rank_of_data(shard: &Shard, hash: u64, len: usize, rest: u32) -> Rank {
    let value = shard.value_of_page(hash, rest);
    Rank {
        value: value / (len + BLOCK_OVERHEAD) as f32,
        columns_left: 0,
    }
}

/// What a byte is worth of the part of a block that comes in which would go first.
fn rank_of_incoming(shard: &Shard, incoming: &Incoming<'_>) -> Rank {
    let (owner, columns, len) = (incoming.owner, incoming.columns, incoming.bytes.len());
    let Some(partitions) = owner.partitions else {
        return rank_of_data(shard, incoming.hash, len, 0);
    };
    let evidence = ColumnEvidence::Arriving {
        rejected_reader: owner.rejected_by & !incoming.gone.unwrap_or(0) != 0,
    };
    let part = partitions.value_of(owner.partition, owner.kind, columns, evidence);
    rank_of(part, columns, len)
}

impl Incoming<'_> {
    /// Notes that a block ranked so is worth less than what is there, and leaves the columns of it
    /// that may be worth more.
    fn outranked<'a>(&mut self, cache: &BlockCache, rank: Rank) -> Decision<'a> {
        cache.policy.note_evicted(self.owner.kind, rank.value);
        if self.cut_down(rank.columns_left) {
            Decision::Again
        } else {
            Decision::Refused
        }
    }
}

impl Ranking for ByExpectedReads {
    fn sample(&self) -> usize {
        SAMPLE
    }

    fn rank(&self, shard: &Shard, resident: &Resident) -> Rank {
        let (hash, len) = (resident.key().hash64(), resident.block.len());
        let Some(partitions) = &resident.partitions else {
            let rest = shard.accesses.wrapping_sub(resident.used);
            return rank_of_data(shard, hash, len, rest);
        };
        let evidence = ColumnEvidence::Resident {
            sole_rejections: resident.sole_rejections.get(),
        };
        let kind = kind_at(usize::from(resident.kind));
        let part = partitions.value_of(resident.partition, kind, resident.columns, evidence);
        rank_of(part, resident.columns, len)
    }

    fn rank_of_entry(&self, shard: &Shard, entry: &EntryView<'_>) -> f32 {
        let rest = shard.accesses.wrapping_sub(entry.used);
        let entries = &shard.entries;
        let expected = entries.rates.expected(entry.uses);
        let expected = shard.observed_of_entries() * entries.frequency.at_rest(expected, rest);
        expected * entry.saves() / entry.bytes() as f32
    }
}

impl Replacement for ByExpectedReads {
    /// Free slots were left by others that had to go: they are for what is worth more than what is
    /// still there, or what is worth little would keep frames from being free again.
    fn admit<'a>(
        &self,
        cache: &'a BlockCache,
        mut shard: MutexGuard<'a, Shard>,
        incoming: &mut Incoming<'_>,
    ) -> Decision<'a> {
        let short = || cache.shortage(short_of_memory(cache.budget.limit()));
        if incoming.admitted || short() <= cache.store.loose() {
            return Decision::GoOn(shard);
        }
        let rank = rank_of_incoming(&shard, incoming);
        let least = shard.least(self);
        if least.is_finite() {
            cache.policy.note_marginal(least);
        }
        drop(shard);
        // Where nothing can go the slot decides.
        incoming.admitted = least <= rank.value
            || least.is_infinite()
            || cache.is_cheaper_elsewhere(self, rank.value);
        if incoming.admitted {
            Decision::Again
        } else {
            incoming.outranked(cache, rank)
        }
    }

    fn make_room<'a>(
        &self,
        cache: &'a BlockCache,
        mut shard: MutexGuard<'a, Shard>,
        incoming: &mut Incoming<'_>,
        wanted: u64,
    ) -> Decision<'a> {
        let rank = rank_of_incoming(&shard, incoming);
        if matches!(
            shard.make_room(self, rank.value, &cache.policy),
            Evicted::Freed(_)
        ) {
            return Decision::GoOn(shard);
        }
        drop(shard);
        let shortage = cache.shortage(wanted).max(1);
        if cache.take_elsewhere(self, rank.value, shortage) {
            Decision::Again
        } else {
            incoming.outranked(cache, rank)
        }
    }
}
