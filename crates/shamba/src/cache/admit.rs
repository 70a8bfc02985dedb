//! How a block comes into the cache: the memory it takes, from what is worth less, and which of its
//! columns are worth theirs.
//!
//! Thread-safe; no more than one shard is locked at a time.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::shard::{ENTRY_OVERHEAD, LOW_PRIORITY, Room, Shard};
use super::{BLOCK_OVERHEAD, Block, BlockCache, Eviction, Owner, role_of};
use crate::budget::{Reclaim, Role};
use crate::value::ColumnEvidence;

/// Shards a block looks at for room when its own has nothing that is worth less.
const SHARDS_TRIED: usize = 8;

/// Memory is plenty while more than one in so many bytes of the budget is free, and short while less than
/// one in so many is.
const PLENTY_SHARE: u64 = 32;
const SHORT_SHARE: u64 = 256;

/// How often blocks are moved together before anything goes for one that comes in.
const PACKED: u32 = 2;

/// What a byte of a block that comes in is worth, of so many columns and bytes, and the columns that may be
/// left of it where it is too little.
fn density_of(
    shard: &Shard,
    hash: u64,
    owner: &Owner<'_>,
    gone: Option<u8>,
    (columns, len): (u8, usize),
) -> (f32, u8) {
    let rejected_reader = owner.rejected_by & !gone.unwrap_or(0) != 0;
    let part = ColumnEvidence::Arriving { rejected_reader };
    let partitions = owner
        .partitions
        .map(|partitions| (partitions, owner.partition, part));
    shard.density(hash, partitions, owner.kind, columns, len)
}

/// The best so many columns of a block; `None` where it has none that may be left.
fn best_part(owner: &Owner<'_>, whole: &[u8], left: u8, gone: Option<u8>) -> Option<Vec<u8>> {
    let partitions = owner.partitions.filter(|_| left > 0)?;
    let best = partitions.best_columns(owner.kind, left, gone.unwrap_or(0), owner.rejected_by);
    Some(partitions.keep_columns(whole, best))
}

impl BlockCache {
    pub(super) fn try_insert(&self, hash: u64, owner: Owner<'_>, bytes: &[u8]) -> Option<Block> {
        let inserted = self.admit(hash, &owner, bytes);
        if let (Err(Some(_)), Some(partitions)) = (&inserted, owner.partitions) {
            // What was resident gave way to what found no room, unless somebody else brought it back.
            let shard = self.shard(hash).lock();
            if !shard.contains(hash, &owner.key) {
                partitions.set_resident(owner.partition, owner.kind, 0, false);
            }
        }
        inserted.ok()
    }

    /// [`Self::try_insert`]; where nothing comes in gives the columns that gave way, of a block of fewer
    /// columns that was there. They count as resident until then.
    fn admit(&self, hash: u64, owner: &Owner<'_>, whole: &[u8]) -> Result<Block, Option<u8>> {
        let mut bytes = Cow::Borrowed(whole);
        let role = role_of(owner.kind);
        let mut columns = owner
            .partitions
            .map_or(1, |partitions| partitions.columns(owner.kind));
        // For two-priority LRU: no shard looked at has anything of low priority.
        let mut anyway = false;
        let mut gone = None;
        let mut packed = 0;
        let mut worth_it = false;
        loop {
            let mut shard = self.shard(hash).lock();
            match shard.get_raced(hash, &owner.key, columns, &self.policy) {
                Ok(block) => return Ok(block),
                Err(fewer) => gone = gone.max(fewer),
            }
            if (bytes.len() + BLOCK_OVERHEAD) as u64 > self.budget.limit() {
                return Err(gone);
            }
            // Free slots are what others left who had to go: they are for who is worth more than those that
            // are still there, or what is worth little would keep frames from being free again.
            if !worth_it
                && self.policy.is_active()
                && self.shortage(self.budget.limit() / SHORT_SHARE) > self.store.loose()
            {
                let (density, left) = density_of(&shard, hash, owner, gone, (columns, bytes.len()));
                let least = shard.least(&self.policy);
                if least.is_finite() {
                    self.policy.note_marginal(least);
                }
                drop(shard);
                // Where nothing can go the slot decides.
                worth_it =
                    least <= density || least.is_infinite() || self.is_cheaper_elsewhere(density);
                if !worth_it {
                    self.policy.note_evicted(owner.kind, density);
                    bytes = Cow::Owned(best_part(owner, whole, left, gone).ok_or(gone)?);
                    columns = left;
                }
                continue;
            }
            let mut free = true;
            loop {
                let extra = ENTRY_OVERHEAD as u64;
                let wanted = match self.store.block(role, (&bytes, columns), extra, None) {
                    Ok(block) => {
                        // A slot that others left is not memory that nobody needs.
                        if free && self.shortage(self.budget.limit() / PLENTY_SHARE) == 0 {
                            self.policy.note_free();
                        }
                        shard.insert(hash, owner, columns, block.clone(), &self.policy);
                        if let Some(bytes) = shard.wants_counters()
                            && let Some(held) = self.budget.try_reserve_now(Role::Tables, bytes)
                        {
                            shard.grow_counters(held);
                        }
                        return Ok(block);
                    }
                    Err(wanted) => wanted,
                };
                free = false;
                if self.shortage(wanted) == 0 {
                    continue;
                }
                if packed < PACKED && shard.repack() {
                    packed += 1;
                    continue;
                }
                let eviction = Eviction::of(&self.policy);
                let (density, left) = match eviction {
                    Eviction::TwoPriorityLru if anyway => (f32::INFINITY, 0),
                    Eviction::TwoPriorityLru => (LOW_PRIORITY, 0),
                    Eviction::ExpectedReads => {
                        density_of(&shard, hash, owner, gone, (columns, bytes.len()))
                    }
                };
                let room = match eviction {
                    Eviction::ExpectedReads => {
                        let room = shard.make_room(density, &self.policy);
                        if matches!(room, Room::Freed(_)) {
                            continue;
                        }
                        drop(shard);
                        room
                    }
                    Eviction::TwoPriorityLru => {
                        drop(shard);
                        let room = self.drop_older(hash, density);
                        if matches!(room, Room::Freed(_)) {
                            break;
                        }
                        room
                    }
                };
                let shortage = self.shortage(wanted).max(1);
                if self.take_elsewhere(density, shortage) {
                    break;
                }
                match (eviction, room) {
                    (Eviction::ExpectedReads, _) => {
                        self.policy.note_evicted(owner.kind, density);
                        bytes = Cow::Owned(best_part(owner, whole, left, gone).ok_or(gone)?);
                        columns = left;
                    }
                    (Eviction::TwoPriorityLru, Room::Dearer) => anyway = true,
                    (Eviction::TwoPriorityLru, _) => {
                        if self.reclaim(shortage) == 0 {
                            return Err(gone);
                        }
                    }
                }
                break;
            }
        }
    }

    /// For two-priority LRU: drops a block of this shard or of another one, the longer unused of two.
    /// Sizes differ: a shard that took room from itself sole_rejections would lose a large block to a small one,
    /// leave the rest to shards that grow, and soon have nothing but what was used last.
    fn drop_older(&self, hash: u64, density: f32) -> Room {
        let own = self.shard(hash);
        let at = self.next_victim.fetch_add(1, Ordering::Relaxed);
        let other = (self.shards.get(at & (self.shards.len() - 1)))
            .filter(|other| !std::ptr::eq(*other, own));
        let elsewhere = other.map_or(f32::INFINITY, |other| other.lock().least(&self.policy));
        let room = own.lock().make_room(density.min(elsewhere), &self.policy);
        match (room, other) {
            (Room::Dearer | Room::Held, Some(other)) if elsewhere <= density => {
                other.lock().make_room(density, &self.policy)
            }
            _ => room,
        }
    }

    /// Frees up to `bytes` bytes in other shards than one that has nothing worth less than
    /// `density`: blocks are few where they are large, and shards differ. Says whether any came free.
    fn take_elsewhere(&self, density: f32, bytes: u64) -> bool {
        let mut freed = 0;
        if density > self.policy.price() {
            let first = self.next_victim.fetch_add(SHARDS_TRIED, Ordering::Relaxed);
            for at in first..first + SHARDS_TRIED.min(self.shards.len()) {
                let Some(shard) = self.shards.get(at & (self.shards.len() - 1)) else {
                    break;
                };
                let mut shard = shard.lock();
                while freed < bytes {
                    match shard.make_room(density, &self.policy) {
                        Room::Freed(more) => freed += more,
                        Room::Dearer | Room::Held => break,
                    }
                }
            }
        }
        freed > 0
    }

    /// Whether some other shard has something of which a byte is worth no more.
    fn is_cheaper_elsewhere(&self, density: f32) -> bool {
        let tried = SHARDS_TRIED.min(self.shards.len());
        let first = self.next_victim.fetch_add(tried, Ordering::Relaxed);
        let shard = |at: usize| self.shards.get(at & (self.shards.len() - 1));
        let cheaper = |shard: &Mutex<Shard>| shard.lock().least(&self.policy) <= density;
        density > self.policy.price()
            && (first..first + tried).any(|at| shard(at).is_some_and(cheaper))
    }

    fn shortage(&self, bytes: u64) -> u64 {
        (self.budget.used().saturating_add(bytes)).saturating_sub(self.budget.limit())
    }
}
