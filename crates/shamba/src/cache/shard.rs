//! One shard of the block cache: a table from keys to a dense array of resident blocks.
//!
//! Not thread-safe by itself; the cache keeps each shard under a mutex. A hit moves nothing.
//! Eviction looks at a few random residents and drops the one that is worth least and that nobody
//! else holds; of a block of columns it drops one column.

use std::sync::Arc;

use hashbrown::HashTable;
use shamba_model::expected_reads::after_rest;

use super::clock::{Clock, Eviction, TICKS_PER_HALF_LIFE};
use super::heat::Heat;
use super::holder::is_free;
use super::sketch::{self, Sketch};
use super::stats::{KIND_COUNT, KindStats, kind_at, kind_index};
use super::{BLOCK_OVERHEAD, Block, BlockKey, Owner, Priority};
use crate::budget::Reservation;
use crate::fs::BlockKind;

/// How many residents an eviction compares: by expected reads, and by recency (which is cheap).
const SAMPLE: usize = 8;
const LRU_SAMPLE: usize = 16;

/// In two-priority LRU, what everything of low priority is worth less than, and nothing else.
pub(super) const LOW_PRIORITY: f32 = 1.0;

/// While memory is plenty, one in so many uses of data pages counts, for as many.
const SAMPLED: u8 = 4;

/// The cache's clock is told of so many accesses at once.
const REPORT: u32 = 32;

/// What is known of a resident block.
#[derive(Debug)]
struct Entry {
    /// The key: the file and the page.
    file: u64,
    page: u32,
    /// The partition the block belongs to.
    partition: u32,
    block: Block,
    /// Who knows what the block is worth; none for data.
    heat: Option<Arc<Heat>>,
    /// The shard's clock at the last use.
    used: u32,
    kind: u8,
    priority: Priority,
    columns: u8,
}

impl Entry {
    fn key(&self) -> BlockKey {
        BlockKey {
            file: self.file,
            page: self.page,
        }
    }
}

/// The hash of an entry's key.
fn hash_at(entries: &[Entry], at: usize) -> u64 {
    entries.get(at).map_or(0, |entry| entry.key().hash64())
}

/// Bytes of a shard's own memory for each resident block: its entry with the array's spare room,
/// and its slot in a table between 7/16 and 7/8 full.
pub(super) const ENTRY_OVERHEAD: usize =
    size_of::<Entry>() + size_of::<Entry>() / 8 + (size_of::<u32>() + 1) * 2;

/// What a block is worth against what would have to go for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Room {
    /// So many bytes were freed.
    Freed(u64),
    /// What would have to go is worth more.
    Dearer,
    /// Nothing can go.
    Held,
}

/// A part of the cache.
#[derive(Debug)]
pub(super) struct Shard {
    table: HashTable<u32>,
    entries: Vec<Entry>,
    /// Accesses so far.
    clock: u32,
    random: u64,
    kinds: [KindStats; KIND_COUNT],
    pub(super) sketch: Sketch,
    /// The tick at which the sketch was last halved.
    halved: u32,
    /// Accesses to this shard when that was, in a window (infinite at first), and [`Clock::known`].
    began: u32,
    window: f32,
    known: f32,
    /// For the sketch.
    held: Option<Reservation>,
}

impl Shard {
    /// An empty shard; `seed` starts its random choices.
    pub(super) fn new(seed: u64) -> Self {
        Shard {
            table: HashTable::new(),
            entries: Vec::new(),
            clock: 0,
            random: seed | 1,
            kinds: [KindStats::default(); KIND_COUNT],
            sketch: Sketch::new(),
            held: None,
            halved: 0,
            began: 0,
            window: f32::INFINITY,
            known: 0.0,
        }
    }

    /// The counters of each kind of block.
    pub(super) fn kinds(&self) -> &[KindStats; KIND_COUNT] {
        &self.kinds
    }

    /// Whether a block is resident, without counting as a use.
    #[cfg(test)]
    pub(super) fn contains(&self, hash: u64, key: &BlockKey) -> bool {
        self.find(hash, key).is_some()
    }

    /// The file, kind and bytes of every resident block.
    pub(super) fn residents(&self) -> impl Iterator<Item = (u64, BlockKind, u64)> + '_ {
        self.entries.iter().map(|entry| {
            let kind = kind_at(usize::from(entry.kind));
            (entry.file, kind, entry.block.len() as u64)
        })
    }

    /// A resident block; counts as a use.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &BlockKey, clock: &Clock) -> Option<Block> {
        let at = self.find(hash, key)?;
        let now = self.advance(clock);
        let entry = self.entries.get_mut(at)?;
        entry.used = now;
        if entry.heat.is_none() {
            entry.block.touch();
        }
        let block = entry.block.clone();
        let (kind, heat) = (usize::from(entry.kind), entry.heat.is_some());
        if let Some(stats) = self.kinds.get_mut(kind) {
            stats.hits += 1;
        }
        if !heat {
            // While there is room for all a sample will do.
            if clock.counts_all() {
                self.sketch.record(hash, 1);
            } else if self.draw().is_multiple_of(u64::from(SAMPLED)) {
                self.sketch.record(hash, SAMPLED);
            }
        }
        Some(block)
    }

    /// A resident block that a reader fetched in vain, because another did so at the same time, if
    /// it has at least so many columns. One of fewer goes, since what was read replaces it.
    pub(super) fn get_raced(
        &mut self,
        hash: u64,
        key: &BlockKey,
        columns: u8,
        clock: &Clock,
    ) -> Option<Block> {
        let at = self.find(hash, key)?;
        let entry = self.entries.get_mut(at)?;
        if entry.columns >= columns {
            return Some(entry.block.clone());
        }
        self.remove_at(at, clock);
        None
    }

    /// Adds a block whose key is not resident.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        owner: &Owner<'_>,
        columns: u8,
        block: Block,
        clock: &Clock,
    ) {
        let kind = kind_index(owner.kind);
        if let Some(stats) = self.kinds.get_mut(kind) {
            stats.inserts += 1;
            stats.blocks += 1;
            stats.bytes += block.charge();
        }
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(self.entries.len() / 8 + 4);
        }
        let at = self.entries.len() as u32;
        if let Some(heat) = owner.heat {
            heat.set_resident(owner.partition, owner.kind, columns, true);
        }
        clock.count_blocks(1);
        self.entries.push(Entry {
            file: owner.key.file,
            page: owner.key.page,
            block,
            heat: owner.heat.cloned(),
            partition: owner.partition,
            used: self.clock,
            kind: kind as u8,
            priority: owner.priority,
            columns,
        });
        let entries = &self.entries;
        self.table
            .insert_unique(hash, at, |&i| hash_at(entries, i as usize));
    }

    /// The bytes of as many counters of accesses as suit what is resident, if there are too few.
    pub(super) fn wants_counters(&self) -> Option<u64> {
        let more = self.sketch.wants_more(&self.kinds);
        more.then_some(2 * self.sketch.len() as u64)
    }

    /// Doubles the counters, which `held` is for.
    pub(super) fn grow_counters(&mut self, held: Reservation) {
        self.sketch.double();
        self.held = Some(held);
    }

    /// Gives back what is too much for the blocks that are left.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
        let entries = &self.entries;
        self.table.shrink_to_fit(|&i| hash_at(entries, i as usize));
        let most = 2 * sketch::counters_for(&self.kinds);
        while self.sketch.len() as u64 > most && self.sketch.fold() {
            if let Some(held) = &mut self.held {
                held.resize(self.sketch.len() as u64);
            }
        }
    }

    /// Counts a block that was fetched from storage.
    pub(super) fn count_miss(&mut self, hash: u64, kind: BlockKind, clock: &Clock) {
        if let Some(stats) = self.kinds.get_mut(kind_index(kind)) {
            stats.misses += 1;
        }
        self.advance(clock);
        if kind == BlockKind::Data {
            self.sketch.record(hash, 1);
        }
    }

    /// Counts a block that found no room.
    pub(super) fn count_refused(&mut self, kind: BlockKind) {
        if let Some(stats) = self.kinds.get_mut(kind_index(kind)) {
            stats.refused += 1;
        }
    }

    /// What a byte of the part of a block that would be dropped first is worth, and the columns
    /// left without it, when it is asked for now. `len` is the block's length.
    pub(super) fn density(
        &self,
        hash: u64,
        heat: Option<&Arc<Heat>>,
        partition: u32,
        kind: BlockKind,
        columns: u8,
        len: usize,
    ) -> (f32, u8) {
        match heat {
            None => (self.data_density(hash, len, 0), 0),
            Some(heat) => {
                let worth = heat.appraise(partition, kind, columns);
                let bytes = match worth.left {
                    0 => len + BLOCK_OVERHEAD,
                    _ => len / usize::from(columns.max(1)),
                };
                (worth.value / bytes as f32, worth.left)
            }
        }
    }

    /// What a byte of a data block is worth that was last used so many accesses to this shard ago.
    fn data_density(&self, hash: u64, len: usize, rest: u32) -> f32 {
        let expected = after_rest(self.sketch.expected(hash), rest as f32 / self.window);
        self.known * expected / (len + BLOCK_OVERHEAD) as f32
    }

    /// Drops parts of blocks until `bytes` bytes are free or none is left that nobody else holds;
    /// gives the bytes freed.
    pub(super) fn evict(&mut self, bytes: u64, clock: &Clock) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            match self.make_room(f32::INFINITY, clock) {
                Room::Freed(more) => freed += more,
                Room::Dearer | Room::Held => break,
            }
        }
        freed
    }

    /// What a byte of what would go first is worth, or of two-priority LRU its place; infinite where
    /// nothing can go.
    pub(super) fn least(&mut self, clock: &Clock) -> f32 {
        (self.choose_victim(clock)).map_or(f32::INFINITY, |(_, worth, _)| worth)
    }

    /// Drops the part of a block worth least in a sample, unless a byte of it is worth more than
    /// `density`.
    pub(super) fn make_room(&mut self, density: f32, clock: &Clock) -> Room {
        let eviction = clock.eviction();
        let Some((at, worth, left)) = self.choose_victim(clock) else {
            return Room::Held;
        };
        if eviction == Eviction::ExpectedReads {
            clock.sold(worth);
        }
        if worth > density {
            return Room::Dearer;
        }
        let Some(entry) = self.entries.get_mut(at) else {
            return Room::Held;
        };
        if let Some(stats) = self.kinds.get_mut(usize::from(entry.kind)) {
            stats.evictions += 1;
        }
        if eviction == Eviction::ExpectedReads {
            clock.lost(kind_at(usize::from(entry.kind)), worth);
        }
        let before = entry.block.charge();
        if left > 0
            && let Some(heat) = &entry.heat
        {
            let rest = heat.shrink(&entry.block, left);
            entry.block.replace(&rest);
            entry.columns = left;
            heat.set_resident(
                entry.partition,
                kind_at(usize::from(entry.kind)),
                left,
                true,
            );
            let freed = before.saturating_sub(entry.block.charge());
            if let Some(stats) = self.kinds.get_mut(usize::from(entry.kind)) {
                stats.bytes -= freed;
            }
            if freed > 0 {
                return Room::Freed(freed);
            }
        }
        self.remove_at(at, clock);
        Room::Freed(before)
    }

    /// Drops every block of a file; blocks that are held elsewhere live on there.
    pub(super) fn remove_files(&mut self, gone: &impl Fn(u64) -> bool, clock: &Clock) {
        // Backwards, since a removal moves the last entry into the gap.
        for at in (0..self.entries.len()).rev() {
            if self.entries.get(at).is_some_and(|e| gone(e.file)) {
                self.remove_at(at, clock);
            }
        }
    }

    /// Counts an access, and tells the cache's clock now and then.
    #[inline]
    fn advance(&mut self, clock: &Clock) -> u32 {
        self.clock = self.clock.wrapping_add(1);
        if self.clock.is_multiple_of(REPORT) {
            clock.advance(u64::from(REPORT));
            self.known = clock.known();
            if clock.ticks().wrapping_sub(self.halved) >= TICKS_PER_HALF_LIFE {
                self.halve(clock);
            }
        }
        self.clock
    }

    /// Ends the half-lives that are over.
    #[cold]
    fn halve(&mut self, clock: &Clock) {
        let half_lives = clock.ticks().wrapping_sub(self.halved) / TICKS_PER_HALF_LIFE;
        let accesses = self.clock.wrapping_sub(self.began) as f32 / half_lives.max(1) as f32;
        (self.window, self.began) = (sketch::WINDOW * accesses, self.clock);
        for _ in 0..half_lives.min(8) {
            self.sketch.end_half_life(&clock.calibration);
        }
        self.halved = self.halved.wrapping_add(half_lives * TICKS_PER_HALF_LIFE);
    }

    fn find(&self, hash: u64, key: &BlockKey) -> Option<usize> {
        self.table
            .find(hash, |&i| {
                self.entries
                    .get(i as usize)
                    .is_some_and(|entry| entry.key() == *key)
            })
            .map(|&i| i as usize)
    }

    fn remove_at(&mut self, at: usize, clock: &Clock) {
        let Some(gone) = self.entries.get(at).map(|entry| entry.key().hash64()) else {
            return;
        };
        let last = self.entries.len() - 1;
        if let Ok(slot) = self.table.find_entry(gone, |&i| i as usize == at) {
            slot.remove();
        }
        if at != last {
            let moved = hash_at(&self.entries, last);
            if let Some(slot) = self.table.find_mut(moved, |&i| i as usize == last) {
                *slot = at as u32;
            }
        }
        let entry = self.entries.swap_remove(at);
        if let Some(heat) = &entry.heat {
            heat.set_resident(entry.partition, kind_at(usize::from(entry.kind)), 0, false);
        }
        clock.count_blocks(-1);
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

    /// The place, worth and remaining columns of what had best go.
    fn choose_victim(&mut self, clock: &Clock) -> Option<(usize, f32, u8)> {
        let (eviction, len) = (clock.eviction(), self.entries.len());
        let sample = match eviction {
            Eviction::ExpectedReads => SAMPLE,
            Eviction::TwoPriorityLru => LRU_SAMPLE,
        };
        let mut best = None;
        if len > sample {
            for _ in 0..sample {
                let at = self.draw() as usize % len;
                self.consider(at, eviction, &mut best);
            }
        }
        // A small shard is looked at as a whole, and so is one whose sample is all held: only then
        // is it known that nothing can go.
        if best.is_none() {
            for at in 0..len {
                self.consider(at, eviction, &mut best);
            }
        }
        best
    }

    fn consider(&self, at: usize, eviction: Eviction, best: &mut Option<(usize, f32, u8)>) {
        // The lock on the shard keeps a count of one from rising: the only reference is the entry's.
        let entry = self.entries.get(at);
        let Some(entry) = entry.filter(|entry| is_free(&entry.block, entry.heat.as_deref())) else {
            return;
        };
        let rest = self.clock.wrapping_sub(entry.used);
        let (worth, left) = match eviction {
            Eviction::ExpectedReads if entry.heat.is_none() => (
                self.data_density(entry.key().hash64(), entry.block.len(), rest),
                0,
            ),
            Eviction::ExpectedReads => self.density(
                entry.key().hash64(),
                entry.heat.as_ref(),
                entry.partition,
                kind_at(usize::from(entry.kind)),
                entry.columns,
                entry.block.len(),
            ),
            Eviction::TwoPriorityLru => {
                let base = match entry.priority {
                    Priority::Low => 0.0,
                    Priority::High => LOW_PRIORITY,
                };
                (base + 1.0 / (rest as f32 + 2.0), 0)
            }
        };
        if best.is_none_or(|(_, least, _)| worth < least) {
            *best = Some((at, worth, left));
        }
    }
}
