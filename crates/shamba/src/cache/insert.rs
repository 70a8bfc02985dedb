//! How a block comes into the cache: the memory it takes, from what ranks lower, and which of its
//! columns are worth theirs.
//!
//! Thread-safe; no more than one shard is locked at a time.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::incoming::Incoming;
use super::replacement::{Decision, replacement};
use super::shard::{ENTRY_OVERHEAD, Evicted, Raced, Ranking, Shard};
use super::{BLOCK_OVERHEAD, Block, BlockCache, Owner, WarmBlock, role_of};
use crate::budget::{Role, Shortage, loose_slots, plenty_of_memory};
use crate::fs::BlockKind;

/// Shards a block looks at for room when its own has nothing that ranks lower: where blocks are
/// large, as filters of whole tables are, a shard has three or four. With partitions neither half
/// nor double is felt.
const SHARDS_TRIED: usize = 8;

/// How often blocks are moved together before anything goes for one that comes in. For lookups
/// neither half nor double is felt, and half takes a twentieth fewer instructions; of scans with
/// filters of ranges some read twice as much with half.
const PACKED: u32 = 2;

impl BlockCache {
    /// Offers a block that was there before a restart, with so many columns, and, of data, counted
    /// so often ([`WarmBlock`]).
    pub(crate) fn bring_back(&self, owner: Owner<'_>, bytes: &[u8], was: &WarmBlock) -> bool {
        let hash = owner.key.hash64();
        if owner.kind == BlockKind::Data {
            let mut shard = self.shard(hash).lock();
            shard.page_frequency.raise(hash, was.count);
        }
        let mut incoming = Incoming::new(hash, &owner, bytes);
        if was.columns < incoming.columns && !incoming.cut_down(was.columns) {
            return false;
        }
        self.insert_incoming(&mut incoming).is_some()
    }

    pub(super) fn try_insert(&self, hash: u64, owner: Owner<'_>, bytes: &[u8]) -> Option<Block> {
        self.insert_incoming(&mut Incoming::new(hash, &owner, bytes))
    }

    fn insert_incoming(&self, incoming: &mut Incoming<'_>) -> Option<Block> {
        let inserted = self.insert_or_evict(incoming);
        let (hash, owner) = (incoming.hash, incoming.owner);
        if let (None, Some(_), Some(partitions)) = (&inserted, incoming.gone, owner.partitions) {
            // What was resident gave way to what found no room, unless somebody else brought it
            // back.
            let shard = self.shard(hash).lock();
            if !shard.contains(hash, &owner.key) {
                partitions.set_resident(owner.partition, owner.kind, 0, false);
            }
        }
        inserted
    }

    /// [`Self::try_insert`], but that columns which gave way count as resident.
    fn insert_or_evict(&self, incoming: &mut Incoming<'_>) -> Option<Block> {
        let (hash, owner) = (incoming.hash, incoming.owner);
        let role = role_of(owner.kind);
        loop {
            let mut shard = self.shard(hash).lock();
            match shard.get_raced(hash, &owner.key, incoming.columns, &self.policy) {
                Raced::Resident(block) => return Some(block),
                Raced::Absent { gone } => incoming.gone = incoming.gone.max(gone),
            }
            if (incoming.bytes.len() + BLOCK_OVERHEAD) as u64 > self.budget.limit() {
                return None;
            }
            // Free memory may be what others had to give up: then it is not for just any block.
            shard = match replacement(&self.policy).admit(self, shard, incoming) {
                Decision::GoOn(shard) => shard,
                Decision::Again => continue,
                Decision::Refused => return None,
            };
            let mut free = true;
            loop {
                let block = (&*incoming.bytes, incoming.columns);
                let extra = ENTRY_OVERHEAD as u64;
                let wanted = match self.store.block(role, block, extra, None) {
                    Ok(block) => {
                        // A slot that others left is not memory that nobody needs.
                        if free && self.shortage(plenty_of_memory(self.budget.limit())) == 0 {
                            self.policy.note_free();
                        }
                        let columns = incoming.columns;
                        shard.insert(hash, owner, columns, block.clone(), &self.policy);
                        if let Some(bytes) = shard.wants_counters()
                            && let Some(held) = self.budget.try_reserve_now(Role::Tables, bytes)
                        {
                            shard.grow_counters(held);
                        }
                        return Some(block);
                    }
                    Err(Shortage(wanted)) => wanted,
                };
                free = false;
                if self.shortage(wanted) == 0 {
                    continue;
                }
                if incoming.packed < PACKED && shard.repack() {
                    incoming.packed += 1;
                    continue;
                }
                // What others left between blocks is for as many columns as fit there: to make
                // room for more, others would lose theirs.
                if let Some(columns) = self.columns_that_fit(incoming)
                    && incoming.cut_down(columns)
                {
                    continue;
                }
                // Memory is short: something that ranks lower goes, or this block comes in with
                // fewer columns, or not at all.
                shard = match replacement(&self.policy).make_room(self, shard, incoming, wanted) {
                    Decision::GoOn(shard) => shard,
                    Decision::Again => break,
                    Decision::Refused => return None,
                };
            }
        }
    }

    /// Of the columns of a block as many as have room between others, if not all of them have,
    /// where much memory is free there: half of them at least, and as many as gave way for it.
    /// Whole blocks alone come in where recency decides.
    fn columns_that_fit(&self, incoming: &Incoming<'_>) -> Option<u8> {
        let much = || self.store.loose() > loose_slots(self.budget.limit());
        if !self.policy.is_active() || !much() {
            return None;
        }
        let (all, len) = (incoming.columns, incoming.bytes.len());
        let fits = |columns: &u8| {
            let len = len * usize::from(*columns) / usize::from(all);
            self.store.has_slots(len, *columns)
        };
        let gone = incoming.gone.unwrap_or(0).count_ones() as u8;
        let most = (all.div_ceil(2).max(gone)..=all).rev().find(fits);
        most.filter(|columns| *columns < all)
    }

    /// Frees up to `bytes` bytes in other shards than one that has nothing ranked lower than
    /// `most`: blocks are few where they are large, and shards differ. Says whether any came free.
    pub(super) fn take_elsewhere(&self, by: &dyn Ranking, most: f32, bytes: u64) -> bool {
        let mut freed = 0;
        if most > self.policy.price() {
            let first = self.next_victim.fetch_add(SHARDS_TRIED, Ordering::Relaxed);
            for at in first..first + SHARDS_TRIED.min(self.shards.len()) {
                let Some(shard) = self.shards.get(at & (self.shards.len() - 1)) else {
                    break;
                };
                let mut shard = shard.lock();
                while freed < bytes {
                    match shard.make_room(by, most, &self.policy) {
                        Evicted::Freed(more) => freed += more,
                        Evicted::Outranked | Evicted::Held => break,
                    }
                }
            }
        }
        freed > 0
    }

    /// Whether some other shard has something that ranks no higher.
    pub(super) fn is_cheaper_elsewhere(&self, by: &dyn Ranking, rank: f32) -> bool {
        let tried = SHARDS_TRIED.min(self.shards.len());
        let first = self.next_victim.fetch_add(tried, Ordering::Relaxed);
        let shard = |at: usize| self.shards.get(at & (self.shards.len() - 1));
        let cheaper = |shard: &Mutex<Shard>| shard.lock().least(by) <= rank;
        rank > self.policy.price()
            && (first..first + tried).any(|at| shard(at).is_some_and(cheaper))
    }

    /// How many bytes the budget lacks for so many more.
    pub(super) fn shortage(&self, bytes: u64) -> u64 {
        (self.budget.used().saturating_add(bytes)).saturating_sub(self.budget.limit())
    }
}
