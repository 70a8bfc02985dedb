//! The price of memory: what a byte of the cache was worth lately at its margin, in page reads per
//! window, and whether memory is short.
//!
//! Thread-safe: relaxed atomics, being hints.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use super::decay::TICKS_PER_HALF_LIFE;
use crate::fs::BlockKind;

/// Ticks for which memory counts as short after something was evicted or refused: two half-lives,
/// after which a quarter is left of what was counted then. A full cache is never without, so that
/// neither half nor double is felt in it. One at the edge would go back and forth sooner, one whose
/// budget was raised would fill later.
const PRESSURE_TICKS: u8 = 2 * TICKS_PER_HALF_LIFE as u8;

/// The weight of one victim in the price: an average over the last 32 or so, since victims are the
/// least of random samples and differ by a factor of two. Half is slow to follow a changed budget,
/// double follows single victims; of pages neither costs any that could be measured.
const PRICE_STEP: f32 = 1.0 / 32.0;

/// A lower price is none: the average must come to an end. This is a page read per window for a
/// terabyte; anything about as small says the same.
const NO_PRICE: f32 = 1e-12;

/// What the blocks of one kind that lately were evicted or refused were worth.
#[derive(Debug, Default)]
struct Evicted {
    /// Bits of an `f32`, as of the price.
    price: AtomicU32,
    /// The tick of the last of them.
    tick: AtomicU32,
}

/// Prices of one cache.
#[derive(Debug, Default)]
pub(super) struct Price {
    /// Bits of an `f32`: page reads per window and byte.
    marginal: AtomicU32,
    /// The same of what went or found no room, for data, index and filters. Decides nothing.
    evicted: [Evicted; 3],
    /// Ticks for which memory still counts as short.
    pressure: AtomicU8,
}

impl Price {
    /// Whether something was evicted or refused in the last two half-lives.
    #[inline]
    pub(super) fn under_pressure(&self) -> bool {
        self.pressure.load(Relaxed) > 0
    }

    /// A tick has ended.
    pub(super) fn tick(&self) {
        let pressure = self.pressure.load(Relaxed);
        self.pressure.store(pressure.saturating_sub(1), Relaxed);
    }

    /// What a byte of the cache is worth at the margin, in page reads per window.
    #[inline]
    pub(super) fn marginal(&self) -> f32 {
        f32::from_bits(self.marginal.load(Relaxed))
    }

    /// What a byte was worth before the database was opened, if memory was short then.
    pub(super) fn begin_at(&self, marginal: f32) {
        if marginal > 0.0 {
            self.marginal.store(marginal.to_bits(), Relaxed);
            self.pressure.store(PRESSURE_TICKS, Relaxed);
        }
    }

    fn of(&self, kind: BlockKind) -> &Evicted {
        let [data, index, filter] = &self.evicted;
        match kind {
            BlockKind::Index => index,
            BlockKind::Filter(_) => filter,
            _ => data,
        }
    }

    /// What a byte of the blocks of a kind was worth that were evicted or refused in the last two
    /// half-lives before tick `now`; 0 when there were none.
    pub(super) fn of_evicted(&self, kind: BlockKind, now: u32) -> f32 {
        let evicted = self.of(kind);
        let since = now.wrapping_sub(evicted.tick.load(Relaxed));
        if since <= u32::from(PRESSURE_TICKS) {
            f32::from_bits(evicted.price.load(Relaxed))
        } else {
            0.0
        }
    }

    /// A byte worth so much was evicted, or found no room.
    pub(super) fn note_marginal(&self, density: f32) {
        if self.pressure.load(Relaxed) < PRESSURE_TICKS {
            self.pressure.store(PRESSURE_TICKS, Relaxed);
        }
        blend(&self.marginal, density);
    }

    /// A block of this kind, or a part of it, was evicted or found no room at tick `now`; a byte of
    /// it was worth so much.
    pub(super) fn note_evicted(&self, kind: BlockKind, density: f32, now: u32) {
        let evicted = self.of(kind);
        blend(&evicted.price, density);
        evicted.tick.store(now, Relaxed);
    }

    /// A byte was taken that nobody needed.
    pub(super) fn note_free(&self) {
        if self.marginal.load(Relaxed) != 0 {
            blend(&self.marginal, 0.0);
        }
    }
}

fn blend(price: &AtomicU32, density: f32) {
    let before = f32::from_bits(price.load(Relaxed));
    let next = before + (density - before) * PRICE_STEP;
    let next = if next < NO_PRICE { 0.0 } else { next };
    price.store(next.to_bits(), Relaxed);
}
