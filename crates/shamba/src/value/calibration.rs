//! What counts of the sketch of data pages mean, learnt from all shards of a cache. Thread-safe.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use shamba_model::expected_reads::{accesses_at_first, further_accesses};

/// Counts told apart in learning what a count means: 0 to 7, and all from 8 on, which few pages
/// have and which are valued in proportion. With half of it .3 % more is read where data pages fill
/// memory; double changes nothing.
pub(super) const CLASSES: usize = 9;

/// The weight of a half-life of all shards in what counts mean: about the last two count. With half
/// of it a cache that just opened learns more slowly, and reads .3 % more; with double it reads
/// .2 % less, and learns from the last half-life alone.
const LAST_HALF_LIFE: f32 = 0.5;

/// What counts turned out to mean lately, of all shards of a cache together: a page is in one of
/// them by chance. Relaxed atomics, being hints.
#[derive(Debug)]
pub(crate) struct Calibration {
    /// Bits of `f32`s: pages of each count in a shard, on average.
    pages: [AtomicU32; CLASSES],
    /// The accesses in a window that they met.
    met: [AtomicU32; CLASSES],
    /// The weight of a half-life of one shard in the averages.
    step: f32,
    /// What is expected at first of what was accessed once, of what the model would have it.
    first: f32,
    /// What is seen of one shard counts for so many, of keys: there are more of them than of pages,
    /// and what they turn out to be is known sooner.
    counts_for: f32,
}

/// What is expected at first of what was accessed once, of what the model would have it: of a page,
/// while memory fills for the first time. Pages come in for nothing then, and each takes the place
/// of four columns of filters, which only reads of their own bring back. With four times of it .5 %
/// more is read of uniform keys where memory suffices for all filters; with a quarter 6 % more
/// under skew where it suffices for a tenth.
const FIRST_OF_PAGES: f32 = 0.25;

/// The same of a key: there are more of them, and entries that come in for nothing take memory from
/// filters and indexes until it turns out. With four times of it 1 to 4 % more is read in the first
/// 60,000 uniform lookups, and up to a sixth less of skewed ones; later neither is felt.
const FIRST_OF_KEYS: f32 = 0.125;

impl Calibration {
    /// Nothing seen; of so many shards each counts for about two half-lives.
    pub(crate) fn new(shards: usize) -> Self {
        Calibration {
            pages: Default::default(),
            met: Default::default(),
            step: LAST_HALF_LIFE / shards.max(1) as f32,
            first: FIRST_OF_PAGES,
            counts_for: 1.0,
        }
    }

    /// The same, of keys and not of pages.
    pub(crate) fn of_keys(shards: usize) -> Self {
        Calibration {
            first: FIRST_OF_KEYS,
            counts_for: shards as f32,
            ..Calibration::new(shards)
        }
    }

    /// What was learned, to be kept over a restart.
    pub(super) fn learned(&self) -> impl Iterator<Item = f32> {
        let means = self.pages.iter().chain(&self.met);
        means.map(|mean| f32::from_bits(mean.load(Relaxed)))
    }

    /// Goes on from what was learned before; takes as much of it as [`Self::learned`] gave.
    pub(super) fn go_on_from(&self, learned: &mut impl Iterator<Item = f32>) {
        for (mean, before) in self.pages.iter().chain(&self.met).zip(learned) {
            mean.store(before.to_bits(), Relaxed);
        }
    }

    /// Adds what a shard saw in such a part of a half-life.
    pub(super) fn learn(&self, pages: [f32; CLASSES], met: [f32; CLASSES], part: f32) {
        let means = self.pages.iter().chain(&self.met);
        for (mean, seen) in means.zip(pages.into_iter().chain(met)) {
            let before = f32::from_bits(mean.load(Relaxed));
            let now = before + (seen - before) * self.step * part;
            mean.store(now.to_bits(), Relaxed);
        }
    }

    /// The accesses to expect in a window of what was not accessed at all in the last few, of which
    /// `expected` were before that was seen.
    pub(super) fn rate_of_none(&self, expected: f32) -> f32 {
        let [items, met] = [&self.pages, &self.met]
            .map(|[none, ..]| self.counts_for * f32::from_bits(none.load(Relaxed)));
        further_accesses(expected, items, met)
    }

    /// The accesses to expect in a window of a page of each count, which gathered for so many
    /// windows.
    pub(super) fn rates(&self, windows: f32) -> [f32; CLASSES] {
        let mut rates = [0.0; CLASSES];
        let mut fewer = None;
        let seen = self.pages.iter().zip(&self.met).enumerate().skip(1);
        for (rate, (count, (pages, met))) in rates.iter_mut().skip(1).zip(seen) {
            let [pages, met] =
                [pages, met].map(|mean| self.counts_for * f32::from_bits(mean.load(Relaxed)));
            let expected = accesses_at_first(count as f32, windows, fewer);
            let expected = if fewer.is_none() {
                self.first * expected
            } else {
                expected
            };
            *rate = further_accesses(expected, pages, met.max(0.0));
            fewer = Some(*rate);
        }
        rates
    }
}
