//! One shard of the block cache: a table from keys to a dense array of resident blocks.
//!
//! Not thread-safe by itself; the cache keeps each shard under a mutex. A hit moves nothing.
//! Eviction looks at a few random residents and drops the one that is worth least and that nobody
//! else holds; of a block of columns it drops one column.

mod evict;
mod ranking;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hashbrown::HashTable;

use super::entries::{EntryView, HotEntries, SlotAt, SlotSize};
use super::priority::Priority;
use super::stats::{KIND_COUNT, KindStats, kind_at, kind_index, pages_held};
use super::{Block, BlockKey, Held, Owner, WarmBlock};
use crate::budget::Reservation;
use crate::fs::BlockKind;
use crate::value::{
    MorrisCounter, PageFrequency, PartitionStats, PolicyState, counters_for, left_after,
    observed_of_entries,
};

pub(super) use evict::Evicted;
pub(super) use ranking::{MOST_COMPARED, Rank, Ranking};

/// While memory is plenty, one in so many uses of data pages counts, for as many. Half is twice the
/// work, double half of it; once memory is full neither is felt.
const SAMPLED: u8 = 4;

/// The cache's policy is told of so many accesses at once, so that shards do not fight for its
/// counters: an eighth of the shortest tick. Half tells twice as often, double is that much later;
/// neither is felt.
const REPORT: u32 = 32;

/// What a shard has of a block that was read though another reader may have brought it meanwhile.
pub(super) enum Raced {
    /// All that is wanted of it.
    Resident(Block),
    /// Nothing, now: columns that it had of the block are gone, if it had some.
    Absent { gone: Option<u8> },
}

/// How far what a shard holds was shown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HeldPlace {
    /// The next of its blocks.
    block: usize,
    /// The entry shown last.
    entry: Option<SlotAt>,
}

/// What is known of a resident block.
#[derive(Debug)]
pub(super) struct Resident {
    /// The key: the file and the page.
    pub(super) file: u64,
    pub(super) page: u32,
    /// The partition the block belongs to.
    pub(super) partition: u32,
    pub(super) block: Block,
    /// Who knows what the block is worth; none for data.
    pub(super) partitions: Option<Arc<PartitionStats>>,
    /// The shard's policy at the last use.
    pub(super) used: u32,
    pub(super) kind: u8,
    pub(super) priority: Priority,
    pub(super) columns: u8,
    /// Visits that only its last column rejected, as the number the model would need; it fades.
    pub(super) sole_rejections: MorrisCounter,
}

impl Resident {
    pub(super) fn key(&self) -> BlockKey {
        BlockKey {
            file: self.file,
            page: self.page,
        }
    }
}

/// As how many blocks one counts in the length of windows.
fn counted(priority: Priority) -> i64 {
    i64::from(priority != Priority::Unasked)
}

/// The hash of an entry's key.
fn hash_at(entries: &[Resident], at: usize) -> u64 {
    entries.get(at).map_or(0, |entry| entry.key().hash64())
}

/// Counters are given back from so many times on as suit what is resident. With less a shard could
/// halve them and double them again in turn; with more memory that was taken back stays theirs.
const COUNTERS_KEPT: u64 = 2;

/// The list of entries grows by one in so many.
const SPARE: usize = 16;

/// Bytes of a shard's own memory for each resident block: its entry with the array's spare room,
/// and its slot in a table between 7/16 and 7/8 full.
pub(super) const ENTRY_OVERHEAD: usize =
    size_of::<Resident>() + size_of::<Resident>() / SPARE + (size_of::<u32>() + 1) * 2;

/// A part of the cache.
#[derive(Debug)]
pub(super) struct Shard {
    table: HashTable<u32>,
    residents: Vec<Resident>,
    /// Accesses so far.
    pub(super) accesses: u32,
    /// The share of a window that had been observed when these were told last.
    observed: f32,
    random: u64,
    kinds: [KindStats; KIND_COUNT],
    pub(super) page_frequency: PageFrequency,
    pub(super) entries: HotEntries,
    /// The tick up to which the counts of the filters' blocks have faded.
    faded: u32,
    /// For the counters of `page_frequency`.
    held: Option<Reservation>,
}

impl Shard {
    /// An empty shard; `seed` starts its random choices.
    /// Entries are counted in `entries`.
    pub(super) fn new(seed: u64, entries: &Arc<AtomicU64>) -> Self {
        Shard {
            table: HashTable::new(),
            residents: Vec::new(),
            accesses: 0,
            observed: 0.0,
            random: seed | 1,
            kinds: [KindStats::default(); KIND_COUNT],
            page_frequency: PageFrequency::new(),
            entries: HotEntries::new(entries.clone()),
            held: None,
            faded: 0,
        }
    }

    /// The counters of each kind of block.
    pub(super) fn kinds(&self) -> &[KindStats; KIND_COUNT] {
        &self.kinds
    }

    /// What is charged for all blocks that are resident.
    pub(super) fn bytes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.bytes).sum()
    }

    /// Whether a block is resident, without counting as a use.
    pub(super) fn contains(&self, hash: u64, key: &BlockKey) -> bool {
        self.find(hash, key).is_some()
    }

    /// Shows what is here, what a byte of each is worth, and how many it has, from a place on;
    /// gives the place after the first that `see` says is enough.
    pub(super) fn each_held(
        &self,
        by: &dyn Ranking,
        from: HeldPlace,
        see: &mut dyn FnMut(f32, u64, Held<'_>) -> bool,
    ) -> Option<HeldPlace> {
        for (at, resident) in self.residents.iter().enumerate().skip(from.block) {
            let (kind, hash) = (kind_at(resident.kind.into()), resident.key().hash64());
            let count = match kind {
                BlockKind::Data => self.page_frequency.count(hash),
                _ => 0,
            };
            let held = WarmBlock {
                file: resident.file,
                page: resident.page,
                bytes: resident.block.len() as u32,
                partition: resident.partition,
                kind,
                columns: resident.columns,
                count,
            };
            let worth = by.rank(self, resident).value;
            if !see(worth, resident.block.charge(), Held::Block(held)) {
                let block = at + 1;
                return Some(HeldPlace { block, ..from });
            }
        }
        for (at, entry) in self.entries.each(from.entry) {
            let (worth, bytes) = (by.rank_of_entry(self, &entry), entry.bytes() as u64);
            if !see(worth, bytes, Held::Entry(entry.held())) {
                return Some(HeldPlace {
                    block: usize::MAX,
                    entry: Some(at),
                });
            }
        }
        None
    }

    /// Goes on with what the cache's policy learned before a restart.
    pub(super) fn go_on(&mut self, policy: &PolicyState) {
        self.page_frequency.go_on(&policy.pages);
        self.entries.frequency.go_on(&policy.keys);
        self.observed = policy.observed_fraction();
        self.entries.rates.go_on(&policy.uses);
    }

    /// The file, kind and bytes of every resident block.
    pub(super) fn resident_blocks(&self) -> impl Iterator<Item = (u64, BlockKind, u64)> + '_ {
        self.residents.iter().map(|entry| {
            let kind = kind_at(usize::from(entry.kind));
            (entry.file, kind, entry.block.len() as u64)
        })
    }

    /// A resident block; counts as a use.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &BlockKey, policy: &PolicyState) -> Option<Block> {
        let at = self.find(hash, key)?;
        let now = self.advance(policy);
        let entry = self.residents.get_mut(at)?;
        entry.used = now;
        if entry.priority == Priority::Unasked {
            entry.priority = Priority::Low;
            policy.count_blocks(counted(Priority::Low));
        }
        if entry.partitions.is_none() {
            entry.block.touch();
        }
        let block = entry.block.clone();
        let (kind, partitions) = (usize::from(entry.kind), entry.partitions.is_some());
        if let Some(stats) = self.kinds.get_mut(kind) {
            stats.hits += 1;
        }
        if !partitions {
            // While there is room for all a sample will do.
            if policy.count_every_access() {
                self.page_frequency.record(hash, 1);
            } else if self.draw().is_multiple_of(u64::from(SAMPLED)) {
                self.page_frequency.record(hash, SAMPLED);
            }
        }
        Some(block)
    }

    /// A resident block that a reader fetched for nothing, because another did so at the same time,
    /// if it has at least so many columns. One of fewer goes, since what was read replaces it:
    /// gives its columns, which count as resident for now.
    pub(super) fn get_raced(
        &mut self,
        hash: u64,
        key: &BlockKey,
        columns: u8,
        policy: &PolicyState,
    ) -> Raced {
        let at = self.find(hash, key).unwrap_or(usize::MAX);
        let Some(entry) = self.residents.get(at) else {
            return Raced::Absent { gone: None };
        };
        if entry.columns >= columns {
            return Raced::Resident(entry.block.clone());
        }
        let partitions = entry.partitions.as_ref();
        let had = partitions.map_or(0, |partitions| partitions.columns_in(&entry.block));
        self.take_out(at, policy);
        Raced::Absent { gone: Some(had) }
    }

    /// Counts a visit that only the last column of a block rejected, if the block is resident.
    pub(super) fn rejected_by(&mut self, hash: u64, key: &BlockKey) {
        let chance = self.chance();
        let at = self.find(hash, key).unwrap_or(usize::MAX);
        if let Some(entry) = self.residents.get_mut(at)
            && let Some(partitions) = &entry.partitions
        {
            let more =
                partitions.visits_per_sole_rejection(entry.partition, kind_at(entry.kind.into()));
            entry.sole_rejections = MorrisCounter::of(entry.sole_rejections.get() + more, chance);
        }
    }

    /// Adds a block whose key is not resident.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        owner: &Owner<'_>,
        columns: u8,
        block: Block,
        policy: &PolicyState,
    ) {
        let kind = kind_index(owner.kind);
        if let Some(stats) = self.kinds.get_mut(kind) {
            stats.inserts += 1;
            stats.blocks += 1;
            stats.bytes += block.charge();
        }
        // Grown by little: doubling would take as much memory again as all entries have.
        if self.residents.len() == self.residents.capacity() {
            self.residents
                .reserve_exact(self.residents.len() / SPARE + 1);
        }
        let at = self.residents.len() as u32;
        // Its partition is told: what is resident of a filter decides what the next column is
        // worth.
        let mut sole_rejections = 0.0;
        if let Some(partitions) = owner.partitions {
            let (partition, kind) = (owner.partition, owner.kind);
            sole_rejections = partitions.note_insert(
                partition,
                kind,
                partitions.columns_in(&block),
                owner.rejected_by,
            );
            partitions.set_resident(partition, kind, columns, true);
        }
        policy.count_blocks(counted(owner.priority));
        self.residents.push(Resident {
            file: owner.key.file,
            page: owner.key.page,
            block,
            partitions: owner.partitions.cloned(),
            partition: owner.partition,
            used: self.accesses,
            kind: kind as u8,
            priority: owner.priority,
            columns,
            sole_rejections: MorrisCounter::of(sole_rejections, 0.5),
        });
        let entries = &self.residents;
        self.table
            .insert_unique(hash, at, |&i| hash_at(entries, i as usize));
    }

    /// The bytes of as many counters of accesses as suit what is resident, if there are too few.
    pub(super) fn wants_counters(&self) -> Option<u64> {
        let accesses = |kind: &KindStats| kind.hits + kind.misses;
        let data = (self.kinds.get(kind_index(BlockKind::Data))).map_or(0, accesses);
        let all = self.kinds.iter().map(accesses).sum();
        let more = (self.page_frequency).wants_more(pages_held(&self.kinds), data, all);
        more.then_some(2 * self.page_frequency.len() as u64)
    }

    /// Doubles the counters, which `held` is for.
    pub(super) fn grow_counters(&mut self, held: Reservation) {
        self.page_frequency.double();
        self.held = Some(held);
    }

    /// Gives back what is too much for the blocks that are left.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink(self.bytes());
        self.residents.shrink_to_fit();
        let entries = &self.residents;
        self.table.shrink_to_fit(|&i| hash_at(entries, i as usize));
        let most = COUNTERS_KEPT * counters_for(pages_held(&self.kinds));
        while self.page_frequency.len() as u64 > most && self.page_frequency.fold() {
            if let Some(held) = &mut self.held {
                held.resize(self.page_frequency.len() as u64);
            }
        }
    }

    /// Counts a block that was fetched from storage.
    pub(super) fn count_miss(&mut self, hash: u64, kind: BlockKind, policy: &PolicyState) {
        if let Some(stats) = self.kinds.get_mut(kind_index(kind)) {
            stats.misses += 1;
        }
        self.advance(policy);
        if kind == BlockKind::Data {
            self.page_frequency.record(hash, 1);
        }
    }

    /// Counts a block that found no room.
    pub(super) fn count_refused(&mut self, kind: BlockKind) {
        if let Some(stats) = self.kinds.get_mut(kind_index(kind)) {
            stats.refused += 1;
        }
    }

    /// Drops every block of a file; blocks that are held elsewhere live on there.
    pub(super) fn remove_files(&mut self, gone: &impl Fn(u64) -> bool, policy: &PolicyState) {
        // Backwards, since a removal moves the last entry into the gap.
        for at in (0..self.residents.len()).rev() {
            if self.residents.get(at).is_some_and(|e| gone(e.file)) {
                self.remove_at(at, policy);
            }
        }
    }

    /// What a data page is worth that was used last so many accesses to this shard ago, in page
    /// reads per window: as much of what is expected as was observed of a window, of which the
    /// counts are that say what parts of filters and indexes are worth.
    pub(super) fn value_of_page(&self, hash: u64, rest: u32) -> f32 {
        self.observed * self.page_frequency.value_of(hash, rest)
    }

    /// The share that counts of what is expected of entries.
    pub(super) fn observed_of_entries(&self) -> f32 {
        observed_of_entries(self.observed)
    }

    /// Counts an access, and tells the cache's policy now and then.
    #[inline]
    pub(super) fn advance(&mut self, policy: &PolicyState) -> u32 {
        self.accesses = self.accesses.wrapping_add(1);
        if self.accesses.is_multiple_of(REPORT) {
            policy.advance(u64::from(REPORT));
            (self.page_frequency).advance(self.accesses, policy, &policy.pages);
            self.observed = policy.observed_fraction();
            if self.entries.advance(self.accesses, policy) {
                self.entries.fold_counters(self.bytes());
            }
            // While memory is plenty nobody counts.
            if policy.ticks() != self.faded && policy.under_pressure() {
                self.fade(policy);
            }
        }
        self.accesses
    }

    /// Lets the counts of the filters' blocks fade by the ticks that are over.
    #[cold]
    fn fade(&mut self, policy: &PolicyState) {
        let ticks = policy.ticks().wrapping_sub(self.faded);
        self.faded = policy.ticks();
        let left = left_after(ticks as f32);
        for at in 0..self.residents.len() {
            let sole_rejections = self
                .residents
                .get(at)
                .map_or(0.0, |entry| entry.sole_rejections.get());
            if sole_rejections > 0.0 {
                let faded = MorrisCounter::of(sole_rejections * left, self.chance());
                if let Some(entry) = self.residents.get_mut(at) {
                    entry.sole_rejections = faded;
                }
            }
        }
    }

    fn find(&self, hash: u64, key: &BlockKey) -> Option<usize> {
        self.table
            .find(hash, |&i| {
                self.residents
                    .get(i as usize)
                    .is_some_and(|entry| entry.key() == *key)
            })
            .map(|&i| i as usize)
    }

    fn remove_at(&mut self, at: usize, policy: &PolicyState) {
        if let Some(entry) = self.residents.get(at)
            && let Some(partitions) = &entry.partitions
        {
            partitions.set_resident(entry.partition, kind_at(entry.kind.into()), 0, false);
        }
        self.take_out(at, policy);
    }

    fn take_out(&mut self, at: usize, policy: &PolicyState) {
        let Some(gone) = self.residents.get(at).map(|entry| entry.key().hash64()) else {
            return;
        };
        let last = self.residents.len() - 1;
        if let Ok(slot) = self.table.find_entry(gone, |&i| i as usize == at) {
            slot.remove();
        }
        if at != last {
            let moved = hash_at(&self.residents, last);
            if let Some(slot) = self.table.find_mut(moved, |&i| i as usize == last) {
                *slot = at as u32;
            }
        }
        let entry = self.residents.swap_remove(at);
        policy.count_blocks(-counted(entry.priority));
        if let Some(stats) = self.kinds.get_mut(usize::from(entry.kind)) {
            stats.blocks -= 1;
            stats.bytes -= entry.block.charge();
        }
    }

    /// A random number.
    #[inline]
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 32
    }

    /// A random number below another; 0 below none.
    fn draw_below(&mut self, len: usize) -> usize {
        (self.draw() as u32).checked_rem(len as u32).unwrap_or(0) as usize
    }

    /// A random number from 0 to 1.
    fn chance(&mut self) -> f32 {
        self.draw() as f32 / (1u64 << 32) as f32
    }
}
