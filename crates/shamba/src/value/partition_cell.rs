//! What is known of one partition, in 14 bytes.
//!
//! Thread-safe: relaxed atomics, being hints.

use std::sync::atomic::{AtomicU8, AtomicU16, Ordering::Relaxed};

use shamba_model::expected_reads::{Prior, Visits};

use super::morris::MorrisCounter;
use super::view::TRACKED;

/// Counts are kept in units of 1 / SCALE visits: a single visit fades over twelve ticks, and
/// sixteen bits hold 8,191. With half of it that is eight ticks, with double counts end at 4,095.
/// Neither costs pages that could be measured.
pub(super) const SCALE: f32 = 8.0;

/// Who visited one partition, and what of it is resident.
#[derive(Debug, Default)]
pub(super) struct Cell {
    pub(super) empty: AtomicU16,
    pub(super) positive: AtomicU16,
    pub(super) scans: AtomicU16,
    /// The tick at which the counts were true.
    pub(super) tick: AtomicU16,
    /// Whether the index block is resident.
    pub(super) index: AtomicU8,
    /// The empty visits that false positives imply, as a [`MorrisCounter`].
    implied_empty: AtomicU8,
    /// Blocks or columns resident of each module that is tracked.
    pub(super) resident: [AtomicU8; TRACKED],
}

impl Cell {
    /// Nobody visited it, at a tick.
    pub(super) fn at(tick: u16) -> Cell {
        Cell {
            tick: AtomicU16::new(tick),
            ..Cell::default()
        }
    }

    /// A number from 0 to 1 that differs from visit to visit.
    pub(super) fn chance(&self) -> f32 {
        let counts = [&self.empty, &self.positive, &self.tick].map(|count| count.load(Relaxed));
        let mixed = counts.iter().fold(0u32, |mixed, count| {
            (mixed ^ u32::from(*count)).wrapping_mul(0x9e37_79b1)
        });
        (mixed >> 8) as f32 / (1u32 << 24) as f32
    }

    pub(super) fn implied_empty(&self) -> f32 {
        MorrisCounter(self.implied_empty.load(Relaxed)).get()
    }

    pub(super) fn set_implied_empty(&self, visits: f32) {
        let counter = MorrisCounter::of(visits, self.chance());
        self.implied_empty.store(counter.0, Relaxed);
    }

    pub(super) fn resident(&self) -> [u8; TRACKED] {
        std::array::from_fn(|number| {
            let resident = self.resident.get(number);
            resident.map_or(0, |resident| resident.load(Relaxed))
        })
    }

    pub(super) fn visits(&self) -> Visits {
        let visits = |count: &AtomicU16| f32::from(count.load(Relaxed)) / SCALE;
        Visits {
            empty: visits(&self.empty),
            positive: visits(&self.positive),
            scans: visits(&self.scans),
        }
    }
}

/// A [`Prior`] as the upper bits of its `f32`s: to within a two-hundredth.
#[derive(Debug, Default)]
pub(super) struct SharedPrior {
    mean: AtomicU16,
    spread: AtomicU16,
}

impl SharedPrior {
    pub(super) fn set(&self, prior: Prior) {
        let upper = |number: f32| (number.to_bits() >> 16) as u16;
        self.mean.store(upper(prior.mean), Relaxed);
        self.spread.store(upper(prior.spread), Relaxed);
    }

    pub(super) fn get(&self) -> Prior {
        let number = |upper: &AtomicU16| f32::from_bits(u32::from(upper.load(Relaxed)) << 16);
        Prior {
            mean: number(&self.mean),
            spread: number(&self.spread),
        }
    }
}

/// Adds so many visits.
pub(super) fn add(count: &AtomicU16, weight: u16) {
    let more = weight.saturating_mul(SCALE as u16);
    count.store(count.load(Relaxed).saturating_add(more), Relaxed);
}
