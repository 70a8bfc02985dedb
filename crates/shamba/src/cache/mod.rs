//! The block cache: every data, index and filter byte that is read passes through it.
//!
//! [`BlockCache`] is sharded by key; a hit takes one shard's mutex for a table lookup and a
//! counter. [`Eviction`] decides what stays: what saves most expected reads (as [`PartitionStats`]
//! and the counts of accesses to data pages tell them), or what was used last. Resident blocks are
//! charged to the budget; a block that is evicted or removed while someone holds it stays charged
//! until the last holder lets go. The cache is the budget's reclaimer: it grows into whatever is
//! free and shrinks when others need memory. An insert may be refused, or only some columns of a
//! block may be kept; the reader uses the bytes it has.
//!
//! Protocol: `get`; on `None` read the block, check it, and offer it with `insert`, which counts
//! the miss. Thread-safe. Lock order: a shard's mutex is innermost, and while it is held the budget
//! is asked only in the way that never comes back to the cache ([`Budget::try_reserve_now`]).
//!
//! [`IoPool`] lends the aligned scratch buffers that pages are read into. They and the blocks lie
//! in memory that a [`Store`] maps.

mod entries;
mod held;
mod incoming;
mod insert;
mod io_pool;
mod memory;
mod priority;
mod replacement;
mod shard;
mod stats;
mod store;
mod warm;

use std::fmt;
#[cfg(feature = "testing")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::base::interner::Interner;
use crate::budget::{Budget, Reclaim, Role, loose_slots, room_for_what_is_written};
use crate::fs::BlockKind;
use crate::value::{FilterGeometry, PartitionStats, PolicyState};
pub(crate) use entries::{
    CachedEntry, CachedValue, Candidate, EntrySpace, Epoch, HeldEntry, IsGone, SpaceId,
};
pub(crate) use held::{Held, WarmBlock};
use shard::{Raced, Shard};

pub(crate) use io_pool::{IoBuf, IoPool};
pub(crate) use memory::check_limit;
pub use memory::{MemoryBudget, MemoryUsage};
pub(crate) use priority::Priority;
pub use replacement::Eviction;
use replacement::replacement;
pub use stats::{CacheStats, KindStats};
pub(crate) use store::{Block, Store};
pub(crate) use warm::HeldVisitor;

/// The name of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockKey {
    /// The open file, as named by [`BlockCache::new_file_id`].
    pub(crate) file: u64,
    /// The page at which the block starts.
    pub(crate) page: u32,
}

impl BlockKey {
    /// A hash whose bits are all well mixed: shards and tables use different ones.
    #[inline]
    pub(super) fn hash64(&self) -> u64 {
        let mut z = self
            .file
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(u64::from(self.page));
        z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        z ^ (z >> 32)
    }
}

/// What a block that is offered to the cache is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) key: BlockKey,
    pub(crate) kind: BlockKind,
    pub(crate) priority: Priority,
    /// Who knows what the block is worth; none for data.
    pub(crate) partitions: Option<&'a Arc<PartitionStats>>,
    /// The partition it belongs to.
    pub(crate) partition: u32,
    /// Of a block of columns that was read for a lookup, those that turned its key away, a bit for
    /// each; otherwise of no meaning.
    pub(crate) rejected_by: u8,
}

/// How often blocks are moved together before some go for others' memory, who waits for it up to 30
/// microseconds longer. What went would be read again, of a filter a column with each read: while
/// half of all operations write, with none of it 1.75 pages are read by a lookup that reads 1.60 as
/// it is (10 % of memory, uniform, half exist); with a fifth of it 1.66, with five times 1.57.
const GATHERED: usize = 100;

/// After so many times in a row that nothing was moved, little can be.
const IN_VAIN: usize = 10;

/// What a resident block is charged over its length, in bytes: its header, and the shard's
/// bookkeeping. To that comes what is left of the memory that it lies in, of a block of a page
/// hardly anything.
pub(crate) const BLOCK_OVERHEAD: usize = store::HEADER + shard::ENTRY_OVERHEAD;

/// What a resident block of so many bytes is charged.
pub(crate) const fn charge(len: usize) -> u64 {
    store::memory_of(len) + shard::ENTRY_OVERHEAD as u64
}

/// A cache of blocks within a memory budget.
pub(crate) struct BlockCache {
    budget: Arc<Budget>,
    store: Arc<Store>,
    policy: Arc<PolicyState>,
    shards: Box<[Mutex<Shard>]>,
    /// The shard at which the next eviction on behalf of others starts.
    next_victim: AtomicUsize,
    next_file: AtomicU64,
    /// The number of the next keyspace, and how many entries there are of all of them.
    next_space: AtomicU32,
    entries: Arc<AtomicU64>,
    #[cfg(feature = "testing")]
    eager: AtomicBool,
    /// The shapes of filter modules that tables have in common.
    pub(crate) shapes: Interner<FilterGeometry>,
}

impl BlockCache {
    /// An empty cache of `shards` shards (rounded up to a power of two), registered as the
    /// budget's reclaimer.
    pub(crate) fn new(store: Arc<Store>, shards: usize) -> Arc<Self> {
        let budget = Arc::clone(store.budget());
        let count = shards.max(1).next_power_of_two() as u64;
        let entries = Arc::new(AtomicU64::new(0));
        let shard = |i: u64| {
            let seed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Mutex::new(Shard::new(seed, &entries))
        };
        Arc::new_cyclic(|this: &Weak<Self>| {
            budget.add_reclaimer(Weak::clone(this) as Weak<dyn Reclaim>);
            BlockCache {
                shards: (0..count).map(shard).collect(),
                next_space: AtomicU32::new(0),
                entries: entries.clone(),
                #[cfg(feature = "testing")]
                eager: AtomicBool::new(false),
                budget,
                store,
                policy: Arc::new(PolicyState::new(count as usize)),
                next_victim: AtomicUsize::new(0),
                shapes: Interner::default(),
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
    pub(crate) fn get(&self, key: &BlockKey) -> Option<Block> {
        let hash = key.hash64();
        self.shard(hash).lock().get(hash, key, &self.policy)
    }

    /// A resident block; does not count as a use.
    pub(crate) fn peek(&self, key: &BlockKey) -> Option<Block> {
        let hash = key.hash64();
        let mut shard = self.shard(hash).lock();
        match shard.get_raced(hash, key, 0, &self.policy) {
            Raced::Resident(block) => Some(block),
            Raced::Absent { .. } => None,
        }
    }

    /// Counts a visit that the last column of a block rejected, and nothing else in memory of
    /// its partition's filter.
    pub(crate) fn count_sole_rejection(&self, key: &BlockKey) {
        let hash = key.hash64();
        self.shard(hash).lock().rejected_by(hash, key);
    }

    /// Whether a block is resident; does not count as a use.
    #[cfg(test)]
    pub(crate) fn contains(&self, key: &BlockKey) -> bool {
        let hash = key.hash64();
        self.shard(hash).lock().contains(hash, key)
    }

    /// Makes a block resident that was just read. Gives the block to use, which is another's when
    /// that one came first, or nothing when there is no room: all memory is in use for other
    /// things, for blocks that are held, or for blocks that are worth more. Of a block of columns
    /// only those become resident that are worth their room.
    pub(crate) fn insert(&self, owner: Owner<'_>, bytes: &[u8]) -> Option<Block> {
        let hash = owner.key.hash64();
        let shard = self.shard(hash);
        shard.lock().count_miss(hash, owner.kind, &self.policy);
        let inserted = self.try_insert(hash, owner, bytes);
        if inserted.is_none() {
            shard.lock().count_refused(owner.kind);
        }
        inserted
    }

    /// Offers a block that nobody asked for: [`Self::insert`] that counts no miss and no refusal.
    pub(crate) fn offer(&self, owner: Owner<'_>, bytes: &[u8]) -> bool {
        self.try_insert(owner.key.hash64(), owner, bytes).is_some()
    }

    /// Takes a data block for one that was read as often as it is expected to be, per window: one
    /// that nobody could ask for so far, since its table is new.
    pub(crate) fn expect_reads(&self, key: &BlockKey, reads: f32) {
        let hash = key.hash64();
        self.shard(hash).lock().page_frequency.suppose(hash, reads);
    }

    /// Whether so much memory is free that what is written stays there though nobody asked for it.
    pub(crate) fn has_room(&self) -> bool {
        let shortage = self.shortage(room_for_what_is_written(self.budget.limit()));
        // Free frames are a part of what is spare.
        shortage == 0
            || shortage <= self.budget.used_by(Role::Spare) && shortage <= self.store.idle()
    }

    /// Drops every block of a file, when it is deleted. Takes time in the number of all residents.
    pub(crate) fn remove_file(&self, file: u64) {
        self.remove_files(|other| other == file);
    }

    /// Drops every block of the files that `gone` names. Takes time in the number of all residents.
    pub(crate) fn remove_files(&self, gone: impl Fn(u64) -> bool) {
        for shard in &self.shards {
            shard.lock().remove_files(&gone, &self.policy);
        }
    }

    /// The counters, shard by shard: under concurrent use they are not of one moment.
    pub(crate) fn stats(&self) -> CacheStats {
        let mut stats = CacheStats::default();
        for shard in &self.shards {
            let shard = shard.lock();
            stats.add(shard.kinds());
            stats.entries.add(&shard.entries.stats);
        }
        stats
    }

    /// Shows the file, kind and bytes of every resident block, without its overhead. Takes time in
    /// the number of all residents, and locks one shard at a time.
    pub(crate) fn each_resident(&self, mut see: impl FnMut(u64, BlockKind, u64)) {
        for shard in &self.shards {
            for (file, kind, bytes) in shard.lock().resident_blocks() {
                see(file, kind, bytes);
            }
        }
    }

    /// The cache's policy.
    pub(crate) fn policy(&self) -> &Arc<PolicyState> {
        &self.policy
    }

    /// Decides how blocks are evicted from now on.
    pub(crate) fn set_eviction(&self, eviction: Eviction) {
        eviction.choose(&self.policy);
    }

    /// Gives back what the shards hold beside their blocks, after the blocks gave way.
    pub(crate) fn shrink(&self) {
        for shard in &self.shards {
            shard.lock().shrink();
        }
        self.store.trim();
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

    /// The next shard that is to give something.
    fn next_shard(&self) -> Option<&Mutex<Shard>> {
        let next = self.next_victim.fetch_add(1, Ordering::Relaxed);
        self.shards.get(next & (self.shards.len() - 1))
    }

    /// Moves blocks together, where free slots between them take much memory, until so many bytes
    /// of frames are free; gives these back and says how many bytes that were.
    fn gather(&self, bytes: u64) -> u64 {
        let few = loose_slots(self.budget.limit());
        let mut in_vain = 0;
        for _ in 0..GATHERED {
            if self.store.loose() <= few || self.store.idle() >= bytes || in_vain == IN_VAIN {
                break;
            }
            let moved = self.next_shard().is_some_and(|shard| shard.lock().repack());
            in_vain = if moved { 0 } else { in_vain + 1 };
        }
        self.store.reclaim(bytes)
    }
}

impl Reclaim for BlockCache {
    /// Takes what is free between blocks, then an equal part from each shard, starting where the
    /// last call ended: first what ranks no higher than what went lately did on average, and only
    /// where nothing such is left, anything. In a small cache shards differ: one has nothing but
    /// the columns of filters that save most, and another pages of data.
    ///
    /// Scans of short ranges under the least budgets read 1.1 to 1.4 pages so, 1.1 to 2.4 with half
    /// of that rank as the bound, 1.6 to 3.3 with double, and 5.2 to 5.8 where the shards give in
    /// turn whatever they have (`tests/engine/range_filters.rs`, in random order, 80,000 scans).
    fn reclaim(&self, bytes: u64) -> u64 {
        let part = bytes.div_ceil(self.shards.len() as u64).max(1);
        let by = replacement(&self.policy);
        let mut freed = self.gather(bytes);
        for most in [self.policy.price(), f32::INFINITY] {
            loop {
                let before = freed;
                for _ in 0..self.shards.len() {
                    if freed >= bytes {
                        return freed;
                    }
                    if let Some(shard) = self.next_shard() {
                        let part = part.min(bytes - freed);
                        freed += shard.lock().evict(by, part, most, &self.policy);
                    }
                }
                if freed == before {
                    break;
                }
            }
        }
        freed
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
