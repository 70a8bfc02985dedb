//! One shard of the block cache: a table from keys to a dense array of resident blocks.
//!
//! Not thread-safe by itself; the cache keeps each shard under a mutex. A hit moves nothing.
//! Eviction looks at a few random residents and drops the one that is worth least and that nobody
//! else holds; of a block of columns it drops one column.

mod evict;

use std::sync::Arc;

use hashbrown::HashTable;

use super::clock::{Clock, TICKS_PER_HALF_LIFE};
use super::heat::Heat;
use super::rough::Rough;
use super::sketch::{self, Sketch};
use super::stats::{KIND_COUNT, KindStats, kind_at, kind_index};
use super::{Block, BlockKey, Owner, Priority};
use crate::budget::Reservation;
use crate::fs::BlockKind;

pub(super) use evict::{LOW_PRIORITY, Room};

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
    /// The visits for which those stand that the last column turned away alone; it fades.
    alone: Rough,
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

/// The list of entries grows by one in so many.
const SPARE: usize = 16;

/// Bytes of a shard's own memory for each resident block: its entry with the array's spare room,
/// and its slot in a table between 7/16 and 7/8 full.
pub(super) const ENTRY_OVERHEAD: usize =
    size_of::<Entry>() + size_of::<Entry>() / SPARE + (size_of::<u32>() + 1) * 2;

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
    /// The tick up to which the counts of the filters' blocks have faded.
    faded: u32,
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
            faded: 0,
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
    /// it has at least so many columns. One of fewer goes, since what was read replaces it: gives its
    /// columns, which count as resident for now.
    pub(super) fn get_raced(
        &mut self,
        hash: u64,
        key: &BlockKey,
        columns: u8,
        clock: &Clock,
    ) -> Result<Block, Option<u8>> {
        let at = self.find(hash, key).unwrap_or(usize::MAX);
        let Some(entry) = self.entries.get(at) else {
            return Err(None);
        };
        if entry.columns >= columns {
            return Ok(entry.block.clone());
        }
        let heat = entry.heat.as_ref();
        let had = heat.map_or(0, |heat| heat.columns_in(&entry.block));
        self.take_out(at, clock);
        Err(Some(had))
    }

    /// Counts a visit that the last column of a block turned away alone, if it is resident.
    pub(super) fn turned_away(&mut self, hash: u64, key: &BlockKey) {
        let chance = self.chance();
        let at = self.find(hash, key).unwrap_or(usize::MAX);
        if let Some(entry) = self.entries.get_mut(at)
            && let Some(heat) = &entry.heat
        {
            let more = heat.stands_for(entry.partition, kind_at(entry.kind.into()));
            entry.alone = Rough::of(entry.alone.get() + more, chance);
        }
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
            self.entries.reserve_exact(self.entries.len() / SPARE + 1);
        }
        let at = self.entries.len() as u32;
        let mut alone = 0.0;
        if let Some(heat) = owner.heat {
            let (partition, kind) = (owner.partition, owner.kind);
            alone = heat.arrive(partition, kind, heat.columns_in(&block), owner.turned_away);
            heat.set_resident(partition, kind, columns, true);
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
            alone: Rough::of(alone, 0.5),
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
            // While memory is plenty nobody counts.
            if clock.ticks() != self.faded && clock.pressed() {
                self.fade(clock);
            }
            if clock.ticks().wrapping_sub(self.halved) >= TICKS_PER_HALF_LIFE {
                self.halve(clock);
            }
        }
        self.clock
    }

    /// Lets the counts of the filters' blocks fade by the ticks that are over.
    #[cold]
    fn fade(&mut self, clock: &Clock) {
        let ticks = clock.ticks().wrapping_sub(self.faded);
        self.faded = clock.ticks();
        let left = (-(ticks as f32) / TICKS_PER_HALF_LIFE as f32).exp2();
        for at in 0..self.entries.len() {
            let alone = self.entries.get(at).map_or(0.0, |entry| entry.alone.get());
            if alone > 0.0 {
                let faded = Rough::of(alone * left, self.chance());
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.alone = faded;
                }
            }
        }
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
        if let Some(entry) = self.entries.get(at)
            && let Some(heat) = &entry.heat
        {
            heat.set_resident(entry.partition, kind_at(entry.kind.into()), 0, false);
        }
        self.take_out(at, clock);
    }

    fn take_out(&mut self, at: usize, clock: &Clock) {
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

    /// A random number from 0 to 1.
    fn chance(&mut self) -> f32 {
        self.draw() as f32 / (1u64 << 32) as f32
    }
}
