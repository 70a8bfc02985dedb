//! How a block comes into the cache: the memory it takes, from what ranks lower, and which of its columns
//! are worth theirs.
//!
//! Thread-safe; no more than one shard is locked at a time.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::replacement::{Refused, replacement};
use super::shard::{ENTRY_OVERHEAD, Evicted, Shard};
use super::{BLOCK_OVERHEAD, Block, BlockCache, Owner, role_of};
use crate::budget::Role;

/// Shards a block looks at for room when its own has nothing that ranks lower.
const SHARDS_TRIED: usize = 8;

/// Memory is plenty while more than one in so many bytes of the budget is free.
const PLENTY_SHARE: u64 = 32;

/// How often blocks are moved together before anything goes for one that comes in.
const PACKED: u32 = 2;

/// A block that comes in, or what is left of it.
pub(super) struct Incoming<'a> {
    pub(super) hash: u64,
    pub(super) owner: &'a Owner<'a>,
    whole: &'a [u8],
    pub(super) bytes: Cow<'a, [u8]>,
    /// Columns in `bytes`; 1 of a block without.
    pub(super) columns: u8,
    /// The columns that gave way, of a block of fewer columns that was there.
    pub(super) gone: Option<u8>,
    /// Whether it may take what ranks lower, as [`Replacement`](super::replacement::Replacement) has it.
    pub(super) admitted: bool,
    packed: u32,
}

impl<'a> Incoming<'a> {
    fn new(hash: u64, owner: &'a Owner<'a>, whole: &'a [u8]) -> Self {
        let partitions = owner.partitions;
        Incoming {
            hash,
            owner,
            whole,
            bytes: Cow::Borrowed(whole),
            columns: partitions.map_or(1, |partitions| partitions.columns(owner.kind)),
            gone: None,
            admitted: false,
            packed: 0,
        }
    }

    /// Leaves so many columns of it, the best ones, if it has columns.
    pub(super) fn cut_down(&mut self, columns: u8) -> Result<(), Refused> {
        let partitions = self.owner.partitions.filter(|_| columns > 0);
        let partitions = partitions.ok_or(Refused)?;
        let (had, rejected_by) = (self.gone.unwrap_or(0), self.owner.rejected_by);
        let best = partitions.best_columns(self.owner.kind, columns, had, rejected_by);
        self.bytes = Cow::Owned(partitions.keep_columns(self.whole, best));
        self.columns = columns;
        Ok(())
    }
}

impl BlockCache {
    pub(super) fn try_insert(&self, hash: u64, owner: Owner<'_>, bytes: &[u8]) -> Option<Block> {
        let mut incoming = Incoming::new(hash, &owner, bytes);
        let inserted = self.insert_or_evict(&mut incoming);
        if let (Err(Refused), Some(_), Some(partitions)) =
            (&inserted, incoming.gone, owner.partitions)
        {
            // What was resident gave way to what found no room, unless somebody else brought it back.
            let shard = self.shard(hash).lock();
            if !shard.contains(hash, &owner.key) {
                partitions.set_resident(owner.partition, owner.kind, 0, false);
            }
        }
        inserted.ok()
    }

    /// [`Self::try_insert`], but that columns which gave way count as resident.
    fn insert_or_evict(&self, incoming: &mut Incoming<'_>) -> Result<Block, Refused> {
        let (hash, owner) = (incoming.hash, incoming.owner);
        let role = role_of(owner.kind);
        loop {
            let mut shard = self.shard(hash).lock();
            match shard.get_raced(hash, &owner.key, incoming.columns, &self.policy) {
                Ok(block) => return Ok(block),
                Err(fewer) => incoming.gone = incoming.gone.max(fewer),
            }
            if (incoming.bytes.len() + BLOCK_OVERHEAD) as u64 > self.budget.limit() {
                return Err(Refused);
            }
            let admitted = replacement(&self.policy).admit(self, shard, incoming)?;
            let Some(locked) = admitted else { continue };
            shard = locked;
            let mut free = true;
            loop {
                let block = (&*incoming.bytes, incoming.columns);
                let extra = ENTRY_OVERHEAD as u64;
                let wanted = match self.store.block(role, block, extra, None) {
                    Ok(block) => {
                        // A slot that others left is not memory that nobody needs.
                        if free && self.shortage(self.budget.limit() / PLENTY_SHARE) == 0 {
                            self.policy.note_free();
                        }
                        let columns = incoming.columns;
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
                if incoming.packed < PACKED && shard.repack() {
                    incoming.packed += 1;
                    continue;
                }
                let room = replacement(&self.policy).make_room(self, shard, incoming, wanted)?;
                let Some(locked) = room else { break };
                shard = locked;
            }
        }
    }

    /// Frees up to `bytes` bytes in other shards than one that has nothing ranked lower than `most`:
    /// blocks are few where they are large, and shards differ. Says whether any came free.
    pub(super) fn take_elsewhere(&self, most: f32, bytes: u64) -> bool {
        let mut freed = 0;
        if most > self.policy.price() {
            let first = self.next_victim.fetch_add(SHARDS_TRIED, Ordering::Relaxed);
            for at in first..first + SHARDS_TRIED.min(self.shards.len()) {
                let Some(shard) = self.shards.get(at & (self.shards.len() - 1)) else {
                    break;
                };
                let mut shard = shard.lock();
                while freed < bytes {
                    match shard.make_room(most, &self.policy) {
                        Evicted::Freed(more) => freed += more,
                        Evicted::Outranked | Evicted::Held => break,
                    }
                }
            }
        }
        freed > 0
    }

    /// Whether some other shard has something that ranks no higher.
    pub(super) fn is_cheaper_elsewhere(&self, rank: f32) -> bool {
        let tried = SHARDS_TRIED.min(self.shards.len());
        let first = self.next_victim.fetch_add(tried, Ordering::Relaxed);
        let shard = |at: usize| self.shards.get(at & (self.shards.len() - 1));
        let cheaper = |shard: &Mutex<Shard>| shard.lock().least(&self.policy) <= rank;
        rank > self.policy.price()
            && (first..first + tried).any(|at| shard(at).is_some_and(cheaper))
    }

    /// How many bytes the budget lacks for so many more.
    pub(super) fn shortage(&self, bytes: u64) -> u64 {
        (self.budget.used().saturating_add(bytes)).saturating_sub(self.budget.limit())
    }
}
