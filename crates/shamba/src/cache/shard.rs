//! One shard of the block cache: a table from keys to a dense array of resident blocks.
//!
//! Not thread-safe by itself; the cache keeps each shard under a mutex. A hit adds one to a counter
//! in the block's entry and moves nothing. Eviction looks at a few random residents and drops the
//! one with the least keep-value that nobody else holds.

use std::sync::Arc;

use hashbrown::HashTable;

use super::stats::{KIND_COUNT, KindStats, kind_index};
use super::value::{Priority, USE, keep_value};
use super::{Block, BlockKey};
use crate::fs::BlockKind;

/// How many residents an eviction compares.
const SAMPLE: usize = 8;

/// Uses and ages are halved each time a shard saw this many accesses per resident block, so that
/// the value of a block follows its recent use.
const HALVING_PERIOD: u32 = 8;

/// What is known of a resident block.
#[derive(Debug)]
struct Entry {
    key: BlockKey,
    block: Arc<Block>,
    /// The shard's clock when the block came in; moved forward when uses are halved.
    born: u32,
    /// In units of 1 / [`USE`].
    uses: u16,
    kind: u8,
    priority: Priority,
}

/// Bytes of a shard's own memory for each resident block: its entry with the array's spare room,
/// and its slot in a table between 7/16 and 7/8 full.
pub(super) const ENTRY_OVERHEAD: usize =
    size_of::<Entry>() + size_of::<Entry>() / 8 + (size_of::<u32>() + 1) * 2;

/// A part of the cache.
#[derive(Debug)]
pub(super) struct Shard {
    table: HashTable<u32>,
    entries: Vec<Entry>,
    clock: u32,
    next_halving: u32,
    random: u64,
    kinds: [KindStats; KIND_COUNT],
}

impl Shard {
    /// An empty shard; `seed` starts its random choices.
    pub(super) fn new(seed: u64) -> Self {
        Shard {
            table: HashTable::new(),
            entries: Vec::new(),
            clock: 0,
            next_halving: HALVING_PERIOD,
            random: seed | 1,
            kinds: [KindStats::default(); KIND_COUNT],
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

    /// A resident block; counts as a use.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: &BlockKey) -> Option<Arc<Block>> {
        let at = self.find(hash, key)?;
        let entry = self.entries.get_mut(at)?;
        entry.uses = entry.uses.saturating_add(USE);
        let block = Arc::clone(&entry.block);
        let kind = usize::from(entry.kind);
        if let Some(stats) = self.kinds.get_mut(kind) {
            stats.hits += 1;
        }
        self.advance();
        Some(block)
    }

    /// A resident block that a reader fetched in vain, because another did so at the same time.
    pub(super) fn get_raced(&mut self, hash: u64, key: &BlockKey) -> Option<Arc<Block>> {
        let at = self.find(hash, key)?;
        let entry = self.entries.get_mut(at)?;
        entry.uses = entry.uses.saturating_add(USE);
        Some(Arc::clone(&entry.block))
    }

    /// Adds a block whose key is not resident.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: BlockKey,
        kind: BlockKind,
        priority: Priority,
        block: Arc<Block>,
    ) {
        let kind = kind_index(kind);
        if let Some(stats) = self.kinds.get_mut(kind) {
            stats.inserts += 1;
            stats.blocks += 1;
            stats.bytes += block.charge();
        }
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(self.entries.len() / 8 + 4);
        }
        let at = self.entries.len() as u32;
        self.entries.push(Entry {
            key,
            block,
            born: self.clock,
            uses: 0,
            kind: kind as u8,
            priority,
        });
        let entries = &self.entries;
        self.table.insert_unique(hash, at, |&i| {
            entries
                .get(i as usize)
                .map_or(0, |entry| entry.key.hash64())
        });
        self.advance();
    }

    /// Counts a block that was fetched from storage.
    pub(super) fn count_miss(&mut self, kind: BlockKind) {
        if let Some(stats) = self.kinds.get_mut(kind_index(kind)) {
            stats.misses += 1;
        }
    }

    /// Counts a block that found no room.
    pub(super) fn count_refused(&mut self, kind: BlockKind) {
        if let Some(stats) = self.kinds.get_mut(kind_index(kind)) {
            stats.refused += 1;
        }
    }

    /// Drops blocks until `bytes` bytes are free of them or none is left that nobody else holds;
    /// gives the bytes freed.
    pub(super) fn evict(&mut self, bytes: u64) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            let Some(victim) = self.choose_victim() else {
                break;
            };
            if let Some(entry) = self.remove_at(victim) {
                freed += entry.block.charge();
                if let Some(stats) = self.kinds.get_mut(usize::from(entry.kind)) {
                    stats.evictions += 1;
                }
            }
        }
        freed
    }

    /// Drops every block of a file; blocks that are held elsewhere live on there.
    pub(super) fn remove_files(&mut self, gone: &impl Fn(u64) -> bool) {
        // Backwards, since a removal moves the last entry into the gap.
        for at in (0..self.entries.len()).rev() {
            if self.entries.get(at).is_some_and(|e| gone(e.key.file)) {
                self.remove_at(at);
            }
        }
    }

    fn find(&self, hash: u64, key: &BlockKey) -> Option<usize> {
        self.table
            .find(hash, |&i| {
                self.entries
                    .get(i as usize)
                    .is_some_and(|entry| entry.key == *key)
            })
            .map(|&i| i as usize)
    }

    fn remove_at(&mut self, at: usize) -> Option<Entry> {
        let last = self.entries.len().checked_sub(1)?;
        let gone = self.entries.get(at)?.key.hash64();
        if let Ok(slot) = self.table.find_entry(gone, |&i| i as usize == at) {
            slot.remove();
        }
        if at != last {
            let moved = self.entries.get(last)?.key.hash64();
            if let Some(slot) = self.table.find_mut(moved, |&i| i as usize == last) {
                *slot = at as u32;
            }
        }
        let entry = self.entries.swap_remove(at);
        if let Some(stats) = self.kinds.get_mut(usize::from(entry.kind)) {
            stats.blocks -= 1;
            stats.bytes -= entry.block.charge();
        }
        Some(entry)
    }

    fn choose_victim(&mut self) -> Option<usize> {
        let len = self.entries.len();
        let mut best = None;
        if len > SAMPLE {
            for _ in 0..SAMPLE {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                let at = (self.random >> 32) as usize % len;
                self.consider(at, &mut best);
            }
        }
        // A small shard is looked at as a whole, and so is one whose sample is all held: only then
        // is it known that nothing can go.
        if best.is_none() {
            for at in 0..len {
                self.consider(at, &mut best);
            }
        }
        best.map(|(_, at)| at)
    }

    fn consider(&self, at: usize, best: &mut Option<(f32, usize)>) {
        // The lock on the shard keeps a count of one from rising: the only reference is the entry's.
        let Some(entry) = self
            .entries
            .get(at)
            .filter(|entry| Arc::strong_count(&entry.block) == 1)
        else {
            return;
        };
        let age = self.clock.wrapping_sub(entry.born);
        let charge = u32::try_from(entry.block.charge()).unwrap_or(u32::MAX);
        let value = keep_value(entry.priority, entry.uses, age, charge);
        if best.is_none_or(|(least, _)| value < least) {
            *best = Some((value, at));
        }
    }

    /// Moves the clock, and now and then halves uses and ages alike.
    #[inline]
    fn advance(&mut self) {
        self.clock = self.clock.wrapping_add(1);
        if self.clock == self.next_halving {
            self.halve();
        }
    }

    #[cold]
    fn halve(&mut self) {
        for entry in &mut self.entries {
            entry.uses /= 2;
            let age = self.clock.wrapping_sub(entry.born);
            entry.born = self.clock.wrapping_sub(age / 2);
        }
        let period = (self.entries.len() as u32).saturating_mul(HALVING_PERIOD);
        self.next_halving = self
            .clock
            .wrapping_add(period.clamp(HALVING_PERIOD, 1 << 24));
    }
}
