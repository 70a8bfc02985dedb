//! What the default policy knows of one cache as a whole: its time, the price of its memory, and
//! whether lookups pass the filters they read.
//!
//! Thread-safe: relaxed atomics, being hints.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::calibration::Calibration;
use super::decay::{Decay, TICKS_PER_HALF_LIFE};
use super::price::Price;
use crate::fs::BlockKind;

/// Accesses at first of which all count, whether memory is short or not: two of the longest
/// half-lives, so that memory that fills has counts to go by. Only felt in caches that fill more
/// slowly than that: with half of it, which leaves them a sample of one in eight, they read .5 %
/// more; with double .6 % less, and lookups are slower for longer while memory is plenty.
const LEARNING: u64 = 1 << 20;

/// The weight of one reader of a filter block in the share of those who pass. It is asked for
/// partitions nobody was counted in, so it must follow quickly: over the last eight or so. Felt in
/// the first lookups of a cold database: half reads with 1 % more operations, double with 2 % fewer
/// and half a percent more pages.
const PASSING_STEP: f32 = 1.0 / 8.0;

/// After so many ticks all of a window has been observed, but for one in 65,000.
const MOST_TICKS_KEPT: u32 = 16 * TICKS_PER_HALF_LIFE;

/// No count of blocks or uses that was learned is larger.
const MOST_LEARNED: f32 = 1e9;

/// That share before anyone read one: as likely as not.
const PASSING_AT_FIRST: f32 = 0.5;

/// What the policy knows of one cache.
#[derive(Debug)]
pub(crate) struct PolicyState {
    decay: Decay,
    shards: f32,
    price: Price,
    /// Whether value decides what is resident and what is read.
    active: AtomicBool,
    /// Bits of an `f32`: of those who lately read filter blocks from storage, the share that
    /// passed.
    passing: AtomicU32,
    /// What counts of accesses to data pages mean, and of lookups of keys.
    pub(crate) pages: Calibration,
    pub(crate) keys: Calibration,
    /// What counts of uses of entries in memory mean.
    pub(crate) uses: Calibration,
}

/// Time stands still. See [`PolicyState::pause`].
pub(crate) struct PausedTime<'a>(&'a Decay);

impl Drop for PausedTime<'_> {
    fn drop(&mut self) {
        self.0.go_on();
    }
}

impl PolicyState {
    /// Of a cache of so many shards.
    pub(crate) fn new(shards: usize) -> Self {
        PolicyState {
            decay: Decay::new(),
            shards: shards.max(1) as f32,
            price: Price::default(),
            active: AtomicBool::new(true),
            passing: AtomicU32::new(PASSING_AT_FIRST.to_bits()),
            pages: Calibration::new(shards),
            keys: Calibration::of_keys(shards),
            uses: Calibration::of_keys(shards),
        }
    }

    /// Whether value decides what is resident and what is read.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Has value decide, or something else.
    pub(crate) fn set_active(&self, active: bool) {
        self.active.store(active, Relaxed);
    }

    /// Whether memory is short, so that statistics of lookups matter: whether something was evicted
    /// or refused in the last two half-lives.
    #[inline]
    pub(crate) fn under_pressure(&self) -> bool {
        self.price.under_pressure()
    }

    /// Whether blocks may be pinned: while memory is plenty, and what they are worth does not
    /// depend on when they were used last.
    #[inline]
    pub(crate) fn may_pin(&self) -> bool {
        !self.under_pressure() && self.is_active()
    }

    /// Whether every access counts, instead of a sample: while memory is short, and at first, when
    /// there is nothing yet that a sample could keep up to date.
    #[inline]
    pub(crate) fn count_every_access(&self) -> bool {
        self.under_pressure() || self.decay.accesses() < LEARNING
    }

    /// What was learned, as numbers from 0 on: to be kept over a restart.
    pub(crate) fn learned(&self) -> Vec<f32> {
        let ticks = self.decay.all_ticks().min(MOST_TICKS_KEPT) as f32;
        let price = if self.under_pressure() {
            self.price()
        } else {
            0.0
        };
        let calibrations = [&self.pages, &self.keys, &self.uses].map(Calibration::learned);
        let blocks = self.decay.blocks() as f32;
        let head = [ticks, blocks, price, self.passing()].into_iter();
        head.chain(calibrations.into_iter().flatten()).collect()
    }

    /// Goes on from what was learned before a restart; false where it is no such thing, or
    /// something was learned meanwhile.
    pub(crate) fn go_on_from(&self, learned: &[f32]) -> bool {
        // Averages that come to nothing may end below it.
        let sound = |number: &f32| number.abs() <= MOST_LEARNED;
        let fresh = self.decay.accesses() == 0 && self.decay.all_ticks() == 0;
        let [ticks, blocks, price, passing, rest @ ..] = learned else {
            return false;
        };
        if !fresh || learned.len() != self.learned().len() || !learned.iter().all(sound) {
            return false;
        }
        let ticks = (*ticks as u32).min(MOST_TICKS_KEPT);
        self.decay.begin_after(ticks, *blocks as u64);
        self.price.begin_at(*price);
        self.passing
            .store(passing.clamp(0.0, 1.0).to_bits(), Relaxed);
        let mut rest = rest.iter().map(|number| number.max(0.0));
        for calibration in [&self.pages, &self.keys, &self.uses] {
            calibration.go_on_from(&mut rest);
        }
        true
    }

    /// Whether so much was accessed that what is known is of this time, and not of before.
    pub(crate) fn is_settled(&self) -> bool {
        self.decay.is_settled()
    }

    /// Has time stand still until the guard is dropped: accesses meanwhile are not only of those
    /// who look something up.
    pub(crate) fn pause(&self) -> PausedTime<'_> {
        self.decay.pause();
        PausedTime(&self.decay)
    }

    /// Ticks so far.
    #[inline]
    pub(crate) fn ticks(&self) -> u32 {
        self.decay.ticks()
    }

    /// The share of a window that has been observed. Visits to partitions are of what was observed
    /// of a window, and so is the price; what is expected of data pages is of a whole one, and must
    /// not count for more at first.
    pub(crate) fn observed_fraction(&self) -> f32 {
        self.decay.observed_fraction()
    }

    /// Has a share of a window be observed until time goes on.
    #[cfg(test)]
    pub(crate) fn set_observed(&self, share: f32) {
        self.decay.set_observed(share);
    }

    /// Counts accesses.
    #[inline]
    pub(crate) fn advance(&self, accesses: u64) {
        if self.decay.advance(accesses) {
            self.price.tick();
        }
    }

    /// Accesses so far.
    pub(crate) fn accesses(&self) -> u64 {
        self.decay.accesses()
    }

    /// The page reads that a byte of memory would save with each access; 0 where memory is not
    /// short, or nobody knows.
    pub(crate) fn reads_of_a_byte(&self) -> f64 {
        if self.is_active() && self.under_pressure() {
            f64::from(self.price()) / self.window()
        } else {
            0.0
        }
    }

    /// The accesses in a window: the sum of what is left of each.
    pub(crate) fn window(&self) -> f64 {
        self.decay.window()
    }

    /// The accesses of a shard in a half-life, about.
    pub(crate) fn half_life_of_shard(&self) -> f32 {
        self.window() as f32 / std::f32::consts::LOG2_E / self.shards
    }

    /// Notes that so many blocks became resident, or went.
    pub(crate) fn count_blocks(&self, more: i64) {
        self.decay.count_blocks(more);
    }

    /// Of those who lately read filter blocks from storage, the share that passed.
    pub(super) fn passing(&self) -> f32 {
        f32::from_bits(self.passing.load(Relaxed))
    }

    /// Somebody read a filter block from storage, and passed it or not.
    pub(super) fn note_filter_read(&self, passed: bool) {
        let share = self.passing();
        let next = share + (f32::from(u8::from(passed)) - share) * PASSING_STEP;
        self.passing.store(next.to_bits(), Relaxed);
    }

    /// What a byte of the cache is worth at the margin, in page reads per window.
    #[inline]
    pub(crate) fn price(&self) -> f32 {
        self.price.marginal()
    }

    /// What a byte of the blocks of a kind that lately were evicted or refused was worth, in page
    /// reads per window; 0 when there were none.
    pub(crate) fn price_of_evicted(&self, kind: BlockKind) -> f32 {
        self.price.of_evicted(kind, self.ticks())
    }

    /// A byte worth so much was evicted, or found no room. Without meaning unless value decides.
    pub(crate) fn note_marginal(&self, density: f32) {
        if self.is_active() {
            self.price.note_marginal(density);
        }
    }

    /// A block of this kind, or a part of it, was evicted or found no room; a byte of it was worth
    /// so much. Without meaning unless value decides.
    pub(crate) fn note_evicted(&self, kind: BlockKind, density: f32) {
        if self.is_active() {
            self.price.note_evicted(kind, density, self.ticks());
        }
    }

    /// A byte was taken that nobody needed.
    pub(crate) fn note_free(&self) {
        self.price.note_free();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_goes_on_unless_it_makes_no_sense_or_is_too_late() {
        let before = PolicyState::new(2);
        before.count_blocks(1000);
        before.advance(1 << 16);
        before.note_marginal(0.5);
        let learned = before.learned();
        // An average that came to nothing may have ended below it.
        let below = |at: usize| {
            let mut learned = learned.clone();
            learned[at] = -0.25;
            learned
        };
        let after = PolicyState::new(2);
        assert!(after.go_on_from(&below(learned.len() - 1)));
        assert!(after.under_pressure() && after.price() == before.price());
        assert_eq!(after.window(), before.window());
        assert!(!after.go_on_from(&learned), "it goes on from one time only");
        for wrong in [f32::NAN, f32::INFINITY, 1e30] {
            for at in 0..learned.len() {
                let mut wrong_one = learned.clone();
                wrong_one[at] = wrong;
                assert!(
                    !PolicyState::new(2).go_on_from(&wrong_one),
                    "{wrong} at {at}"
                );
            }
        }
        assert!(!PolicyState::new(2).go_on_from(&learned[1..]));
    }
}
