//! Time and prices of a cache.
//!
//! Time is counted in accesses to the cache, in *ticks*: four ticks halve every count of past
//! use, so that counts follow what is asked lately (the *window*). The price is what the memory in
//! the cache was lately worth at its margin. All fields are relaxed atomics: they are hints.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::sketch::Calibration;
use crate::fs::BlockKind;

/// Ticks in which counts halve.
pub(super) const TICKS_PER_HALF_LIFE: u32 = 4;

/// Accesses in which counts halve, at least and at most; between, in proportion to what is cached.
const HALF_LIFE: (u64, u64) = (1 << 10, 512 << 10);

/// A half-life is so many accesses per resident block.
const ACCESSES_PER_BLOCK: u64 = 32;

/// Ticks for which memory counts as short after something was evicted or refused.
const PRESSED_TICKS: u8 = 2 * TICKS_PER_HALF_LIFE as u8;

/// Accesses of which all count, whether memory is short or not.
const LEARNING: u64 = 1 << 20;

/// The weight of one victim in the price.
const PRICE_STEP: f32 = 1.0 / 32.0;

/// The weight of one reader of a filter block in the share of those who pass.
const PASSING_STEP: f32 = 1.0 / 8.0;

/// Which blocks leave a cache that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Eviction {
    /// Those that save the fewest expected storage reads per byte; a block that would save fewer
    /// than what it would push out does not come in. The default.
    #[default]
    ExpectedReads,
    /// The least recently used: data blocks and later filter modules before indexes and first
    /// filter modules. What other engines do, and the baseline of the papers.
    TwoPriorityLru,
}

/// What the blocks of one kind that lately were evicted or refused were worth.
#[derive(Debug, Default)]
struct Loss {
    /// Bits of an `f32`, as of the price.
    price: AtomicU32,
    /// The tick of the last of them.
    tick: AtomicU32,
}

/// The clock of one cache.
#[derive(Debug)]
pub(crate) struct Clock {
    accesses: AtomicU64,
    next_tick: AtomicU64,
    ticks: AtomicU32,
    blocks: AtomicU64,
    /// Bits of an `f32`: page reads per window and byte.
    price: AtomicU32,
    /// The same of what went or found no room, for data, index and filters. Decides nothing.
    losses: [Loss; 3],
    /// Ticks for which memory still counts as short; see [`PRESSED_TICKS`].
    pressed: AtomicU8,
    eviction: AtomicBool,
    /// Bits of an `f32`: of those who lately read filter blocks from storage, the share that passed.
    passing: AtomicU32,
    /// What counts of accesses to data pages mean.
    pub(super) calibration: Calibration,
}

impl Clock {
    /// Of a cache of so many shards.
    pub(super) fn new(shards: usize) -> Self {
        Clock {
            accesses: AtomicU64::new(0),
            next_tick: AtomicU64::new(HALF_LIFE.0 / u64::from(TICKS_PER_HALF_LIFE)),
            ticks: AtomicU32::new(0),
            blocks: AtomicU64::new(0),
            price: AtomicU32::new(0),
            losses: Default::default(),
            pressed: AtomicU8::new(0),
            eviction: AtomicBool::new(true),
            passing: AtomicU32::new(0.5f32.to_bits()),
            calibration: Calibration::new(shards),
        }
    }

    /// How blocks are evicted.
    #[inline]
    pub(crate) fn eviction(&self) -> Eviction {
        if self.eviction.load(Relaxed) {
            Eviction::ExpectedReads
        } else {
            Eviction::TwoPriorityLru
        }
    }

    pub(super) fn set_eviction(&self, eviction: Eviction) {
        self.eviction
            .store(eviction == Eviction::ExpectedReads, Relaxed);
    }

    /// Whether memory is short, so that what is seen of lookups matters.
    #[inline]
    pub(crate) fn pressed(&self) -> bool {
        self.pressed.load(Relaxed) > 0
    }

    /// Whether blocks may be held on to: while memory is plenty, and what they are worth does not
    /// depend on when they were used last.
    #[inline]
    pub(crate) fn may_hold(&self) -> bool {
        !self.pressed() && self.eviction() == Eviction::ExpectedReads
    }

    /// Whether every use counts, instead of a sample: while memory is short, and at first, when
    /// nothing is known that a sample could keep up to date.
    #[inline]
    pub(crate) fn counts_all(&self) -> bool {
        self.pressed() || self.accesses.load(Relaxed) < LEARNING
    }

    /// Ticks so far.
    #[inline]
    pub(super) fn ticks(&self) -> u32 {
        self.ticks.load(Relaxed)
    }

    /// The share of a window that has been seen. Counts of visits to partitions are of what was seen;
    /// what is expected of data pages is of a whole window, and must not count for more at first.
    pub(super) fn known(&self) -> f32 {
        let half_lives = (self.ticks() + 1) as f32 / TICKS_PER_HALF_LIFE as f32;
        1.0 - (-half_lives).exp2()
    }

    /// Counts accesses.
    #[inline]
    pub(crate) fn advance(&self, accesses: u64) {
        let now = self.accesses.fetch_add(accesses, Relaxed) + accesses;
        if now >= self.next_tick.load(Relaxed) {
            self.tick(now);
        }
    }

    #[cold]
    fn tick(&self, now: u64) {
        // Few blocks at first: the first windows are short.
        let length = self.half_life() / u64::from(TICKS_PER_HALF_LIFE);
        let due = self.next_tick.load(Relaxed);
        let turn = self
            .next_tick
            .compare_exchange(due, now + length, Relaxed, Relaxed);
        if now >= due && turn.is_ok() {
            self.ticks.fetch_add(1, Relaxed);
            let pressed = self.pressed.load(Relaxed);
            self.pressed.store(pressed.saturating_sub(1), Relaxed);
        }
    }

    /// A half-life as long as suits the blocks that are resident now, in accesses.
    fn half_life(&self) -> u64 {
        (self.blocks.load(Relaxed) * ACCESSES_PER_BLOCK).clamp(HALF_LIFE.0, HALF_LIFE.1)
    }

    /// The accesses in a window: the sum of what is left of each.
    pub(crate) fn window(&self) -> f64 {
        self.half_life() as f64 * std::f64::consts::LOG2_E
    }

    pub(super) fn count_blocks(&self, more: i64) {
        self.blocks.fetch_add(more as u64, Relaxed);
    }

    /// Of those who lately read filter blocks from storage, the share that passed.
    pub(super) fn passing(&self) -> f32 {
        f32::from_bits(self.passing.load(Relaxed))
    }

    /// Somebody read a filter block from storage, and passed it or not.
    pub(super) fn filter_was_read(&self, passed: bool) {
        let share = self.passing();
        let next = share + (f32::from(u8::from(passed)) - share) * PASSING_STEP;
        self.passing.store(next.to_bits(), Relaxed);
    }

    /// What a byte of the cache is worth at the margin, in page reads per window.
    #[inline]
    pub(crate) fn price(&self) -> f32 {
        f32::from_bits(self.price.load(Relaxed))
    }

    fn loss(&self, kind: BlockKind) -> &Loss {
        let [data, index, filter] = &self.losses;
        match kind {
            BlockKind::Index => index,
            BlockKind::Filter(_) => filter,
            _ => data,
        }
    }

    /// What a byte of the blocks of a kind that lately were evicted or refused was worth, in page
    /// reads per window; 0 when there were none.
    pub(crate) fn price_of_lost(&self, kind: BlockKind) -> f32 {
        let loss = self.loss(kind);
        let since = self.ticks().wrapping_sub(loss.tick.load(Relaxed));
        match since <= u32::from(PRESSED_TICKS) {
            true => f32::from_bits(loss.price.load(Relaxed)),
            false => 0.0,
        }
    }

    /// A byte worth so much was given up, or found no room.
    pub(super) fn sold(&self, density: f32) {
        if self.pressed.load(Relaxed) < PRESSED_TICKS {
            self.pressed.store(PRESSED_TICKS, Relaxed);
        }
        blend(&self.price, density);
    }

    /// A block of this kind or a part of it went or found no room, of which a byte was worth so
    /// much.
    pub(super) fn lost(&self, kind: BlockKind, density: f32) {
        let loss = self.loss(kind);
        blend(&loss.price, density);
        loss.tick.store(self.ticks(), Relaxed);
    }

    /// A byte was taken that nobody needed.
    pub(super) fn given(&self) {
        if self.price.load(Relaxed) != 0 {
            blend(&self.price, 0.0);
        }
    }
}

fn blend(price: &AtomicU32, density: f32) {
    let before = f32::from_bits(price.load(Relaxed));
    let next = before + (density - before) * PRICE_STEP;
    let next = if next < 1e-12 { 0.0 } else { next };
    price.store(next.to_bits(), Relaxed);
}
