//! Evicts what was least recently used, blocks of low priority first.

use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use super::{Decision, Replacement};
use crate::budget::Reclaim;
use crate::cache::BlockCache;
use crate::cache::entries::EntryView;
use crate::cache::incoming::Incoming;
use crate::cache::priority::Priority;
use crate::cache::shard::{Evicted, MOST_COMPARED, Rank, Ranking, Resident, Shard};

/// How many residents an eviction compares, which is cheap: the least of sixteen is nearly the
/// least recently used. With half of it up to 1 % more is read, with double up to .6 % less.
const SAMPLE: usize = 16;

const _: () = assert!(SAMPLE <= MOST_COMPARED);

/// Everything of low priority ranks lower than this, and nothing else: recency is from 0 to 1/2.
/// Any number from 1/2 on says the same.
const LOW_PRIORITY: f32 = 1.0;

/// See [`Eviction::TwoPriorityLru`](super::Eviction::TwoPriorityLru).
pub(super) struct ByRecency;

impl Ranking for ByRecency {
    fn sample(&self) -> usize {
        SAMPLE
    }

    fn rank(&self, shard: &Shard, resident: &Resident) -> Rank {
        let rest = shard.accesses.wrapping_sub(resident.used);
        let base = match resident.priority {
            Priority::Unasked | Priority::Low => 0.0,
            Priority::High => LOW_PRIORITY,
        };
        Rank {
            value: base + 1.0 / (rest as f32 + 2.0),
            columns_left: 0,
        }
    }

    /// None comes in: what is there is of another time.
    fn rank_of_entry(&self, _: &Shard, _: &EntryView<'_>) -> f32 {
        0.0
    }
}

impl Replacement for ByRecency {
    /// What comes was just used.
    fn admit<'a>(
        &self,
        _: &'a BlockCache,
        shard: MutexGuard<'a, Shard>,
        _: &mut Incoming<'_>,
    ) -> Decision<'a> {
        Decision::GoOn(shard)
    }

    fn make_room<'a>(
        &self,
        cache: &'a BlockCache,
        shard: MutexGuard<'a, Shard>,
        incoming: &mut Incoming<'_>,
        wanted: u64,
    ) -> Decision<'a> {
        drop(shard);
        // High priority goes once no shard that was looked at has anything of low priority.
        let most = if incoming.admitted {
            f32::INFINITY
        } else {
            LOW_PRIORITY
        };
        let room = evict_older(cache, incoming.hash, most);
        let shortage = cache.shortage(wanted).max(1);
        if matches!(room, Evicted::Freed(_)) || cache.take_elsewhere(self, most, shortage) {
            return Decision::Again;
        }
        match room {
            Evicted::Outranked => incoming.admitted = true,
            _ if cache.reclaim(shortage) == 0 => return Decision::Refused,
            _ => {}
        }
        Decision::Again
    }
}

/// Evicts a block of this shard or of another one, the longer unused of two, unless it ranks higher
/// than `most`. Sizes differ: a shard that took room from itself alone would lose a large block to
/// a small one, leave the rest to shards that grow, and soon have nothing but what was used last.
fn evict_older(cache: &BlockCache, hash: u64, most: f32) -> Evicted {
    let own = cache.shard(hash);
    let at = cache.next_victim.fetch_add(1, Ordering::Relaxed);
    let other = (cache.shards.get(at & (cache.shards.len() - 1)))
        .filter(|other| !std::ptr::eq(*other, own));
    let elsewhere = other.map_or(f32::INFINITY, |other| other.lock().least(&ByRecency));
    let room = own
        .lock()
        .make_room(&ByRecency, most.min(elsewhere), &cache.policy);
    match (room, other) {
        (Evicted::Outranked | Evicted::Held, Some(other)) if elsewhere <= most => {
            other.lock().make_room(&ByRecency, most, &cache.policy)
        }
        _ => room,
    }
}
