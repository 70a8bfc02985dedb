//! The block cache: every data, index and filter byte that is read passes through it.
//!
//! [`BlockCache`] is sharded by key; a hit takes one shard's mutex for a table lookup and a
//! counter. Resident blocks are charged to the budget; a block that is evicted or removed while
//! someone holds it stays charged until the last holder lets go. The cache is the budget's reclaimer:
//! it grows into whatever is free and shrinks when others need memory. An insert may be refused;
//! the reader then uses the bytes it has and drops them.
//!
//! Protocol: `get`; on `None` read the block, check it, and offer it with `insert`, which counts
//! the miss. Thread-safe. Lock order: a shard's mutex is innermost, and while it is held the budget is asked
//! only in the way that never comes back to the cache ([`Budget::try_reserve_now`]).
//!
//! [`IoPool`] lends the aligned scratch buffers that pages are read into.

mod io_pool;
mod memory;
mod shard;
mod stats;
mod value;

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::budget::{Budget, Reclaim, Reservation, Role};
use crate::fs::BlockKind;
use shard::Shard;

pub(crate) use io_pool::{IoBuf, IoPool};
pub use memory::{MemoryBudget, MemoryUsage};
pub use stats::{CacheStats, KindStats};
pub(crate) use value::Priority;

/// The name of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockKey {
    /// The open file, as named by [`BlockCache::new_file_id`].
    pub(crate) file: u64,
    /// The page at which the block starts.
    pub(crate) page: u32,
    /// A part of the block: 0 for the whole of it.
    pub(crate) part: u8,
}

impl BlockKey {
    /// A hash whose bits are all well mixed: shards and tables use different ones.
    #[inline]
    fn hash64(&self) -> u64 {
        let place = u64::from(self.page) << 8 | u64::from(self.part);
        let mut z = self
            .file
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(place);
        z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        z ^ (z >> 32)
    }
}

/// The bytes of a block, charged to the budget as long as they live.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Box<[u8]>,
    reservation: Reservation,
}

/// What a resident block is charged over its length, in bytes: its header with reference counts,
/// the allocator's header and rounding of two allocations, and the shard's bookkeeping.
pub(crate) const BLOCK_OVERHEAD: usize =
    size_of::<Block>() + 2 * size_of::<usize>() + 2 * 16 + shard::ENTRY_OVERHEAD;

impl Block {
    /// What the block is charged, in bytes.
    fn charge(&self) -> u64 {
        self.reservation.bytes()
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A cache of blocks within a memory budget.
pub(crate) struct BlockCache {
    budget: Arc<Budget>,
    shards: Box<[Mutex<Shard>]>,
    /// The shard at which the next eviction on behalf of others starts.
    next_victim: AtomicUsize,
    next_file: AtomicU64,
}

impl BlockCache {
    /// An empty cache of `shards` shards (rounded up to a power of two), registered as the
    /// budget's reclaimer.
    pub(crate) fn new(budget: Arc<Budget>, shards: usize) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            budget.add_reclaimer(Weak::clone(this) as Weak<dyn Reclaim>);
            BlockCache {
                shards: (0..shards.max(1).next_power_of_two() as u64)
                    .map(|i| Mutex::new(Shard::new((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))))
                    .collect(),
                budget,
                next_victim: AtomicUsize::new(0),
                next_file: AtomicU64::new(1),
            }
        })
    }

    /// How many shards suit a budget and a number of threads: enough that threads seldom meet, few
    /// enough that eviction has some choice in each.
    pub(crate) fn shards_for(limit: u64, threads: usize) -> usize {
        const BYTES_PER_SHARD: u64 = 256 << 10;
        let by_size = usize::try_from(limit / BYTES_PER_SHARD).unwrap_or(usize::MAX);
        by_size
            .min(threads.saturating_mul(16))
            .clamp(1, 1024)
            .next_power_of_two()
    }

    /// A number for an open file, never given before by this cache.
    pub(crate) fn new_file_id(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// A resident block; counts as a use of it.
    #[inline]
    pub(crate) fn get(&self, key: &BlockKey) -> Option<Arc<Block>> {
        let hash = key.hash64();
        self.shard(hash).lock().get(hash, key)
    }

    /// Whether a block is resident; does not count as a use.
    #[cfg(test)]
    pub(crate) fn contains(&self, key: &BlockKey) -> bool {
        let hash = key.hash64();
        self.shard(hash).lock().contains(hash, key)
    }

    /// Makes a block resident that was just read. Gives the block to use, which is another's when
    /// that one came first, or the bytes back when there is no room for them: all memory is in use
    /// for other things, or for blocks that are held.
    pub(crate) fn insert(
        &self,
        key: BlockKey,
        kind: BlockKind,
        priority: Priority,
        bytes: Box<[u8]>,
    ) -> Result<Arc<Block>, Box<[u8]>> {
        let hash = key.hash64();
        let role = role_of(kind);
        let charge = (bytes.len() + BLOCK_OVERHEAD) as u64;
        self.shard(hash).lock().count_miss(kind);
        loop {
            let mut shard = self.shard(hash).lock();
            if let Some(block) = shard.get_raced(hash, &key) {
                return Ok(block);
            }
            let mut reserved = self.budget.try_reserve_now(role, charge);
            while reserved.is_none() && charge <= self.budget.limit() {
                let short = self.shortage(charge);
                if short > 0 && shard.evict(short) == 0 {
                    break;
                }
                reserved = self.budget.try_reserve_now(role, charge);
            }
            if let Some(reservation) = reserved {
                let block = Arc::new(Block { bytes, reservation });
                shard.insert(hash, key, kind, priority, Arc::clone(&block));
                return Ok(block);
            }
            drop(shard);
            let hopeless = charge > self.budget.limit();
            if hopeless || self.reclaim(self.shortage(charge).max(1)) == 0 {
                self.shard(hash).lock().count_refused(kind);
                return Err(bytes);
            }
        }
    }

    /// Drops every block of a file, when it is deleted. Takes time in the number of all residents.
    pub(crate) fn remove_file(&self, file: u64) {
        self.remove_files(|other| other == file);
    }

    /// Drops every block of the files that `gone` names. Takes time in the number of all residents.
    pub(crate) fn remove_files(&self, gone: impl Fn(u64) -> bool) {
        for shard in &self.shards {
            shard.lock().remove_files(&gone);
        }
    }

    /// The counters, shard by shard: under concurrent use they are not of one moment.
    pub(crate) fn stats(&self) -> CacheStats {
        let mut stats = CacheStats::default();
        for shard in &self.shards {
            stats.add(shard.lock().kinds());
        }
        stats
    }

    /// The budget the blocks are charged to.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the number of shards is a power of two"
    )]
    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // Hash tables use the lowest bits and the highest seven.
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)]
    }

    fn shortage(&self, bytes: u64) -> u64 {
        (self.budget.used().saturating_add(bytes)).saturating_sub(self.budget.limit())
    }
}

impl Reclaim for BlockCache {
    /// Takes an equal part from each shard, starting where the last call ended.
    fn reclaim(&self, bytes: u64) -> u64 {
        let count = self.shards.len();
        let part = bytes.div_ceil(count as u64).max(1);
        let mut freed = 0;
        loop {
            let before = freed;
            for _ in 0..count {
                if freed >= bytes {
                    return freed;
                }
                let at = self.next_victim.fetch_add(1, Ordering::Relaxed) & (count - 1);
                if let Some(shard) = self.shards.get(at) {
                    freed += shard.lock().evict(part.min(bytes - freed));
                }
            }
            if freed == before {
                return freed;
            }
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("shards", &self.shards.len())
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

const fn role_of(kind: BlockKind) -> Role {
    match kind {
        BlockKind::Data | BlockKind::Log => Role::Data,
        BlockKind::Index => Role::Index,
        BlockKind::Filter(0) => Role::FilterFirst,
        BlockKind::Filter(_) => Role::FilterRest,
        BlockKind::Footer => Role::Tables,
    }
}

#[cfg(test)]
mod tests;
