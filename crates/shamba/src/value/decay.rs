//! Time of a cache, and how counts of past use fade with it.
//!
//! Time is counted in accesses to the cache, in *ticks*: four ticks halve every count of past use,
//! so that counts follow recent use (the *window*). Thread-safe: relaxed atomics, being hints.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Ticks in a half-life, in which counts halve. At four a count is at most 19 % too high before the
/// next tick. With half of it that is 41 %; with double 9 %, and counts are aged twice as often.
/// Neither costs pages that could be measured (docs/policy.md, as all of these).
pub(crate) const TICKS_PER_HALF_LIFE: u32 = 4;

/// The shortest and the longest half-life, in accesses; between these, in proportion to the number
/// of resident blocks. The shortest is felt before 32 blocks are resident: neither half nor double
/// of it changes what the first 3,000 lookups read. The longest is felt above 16,384 blocks: with
/// half of it a cache of 370 MB reads 6 % more, with double 1 % less, and follows a change more
/// slowly.
const HALF_LIFE: (u64, u64) = (1 << 10, 512 << 10);

/// A half-life is so many accesses per resident block: a block that is used as often as the average
/// has been used 32 times in it, so that its count says more than chance does. With half of it 1 to
/// 2 % more is read where nothing changes, with double 1 % less. But after a hot spot has moved, it
/// takes 2,000 lookups with half of it, 6,000 as it is and 12,000 with double until hardly more is
/// read than before.
const ACCESSES_PER_BLOCK: u64 = 32;

/// From this share on a window counts as observed, until a tick finds less: right after one .916 is
/// left of whole ones, and 1.09 right before the next.
const ALL_OBSERVED: f32 = 0.9;

/// For so many ticks after opening, two half-lives, windows are as long as they were before.
const TICKS_AS_BEFORE: u32 = 2 * TICKS_PER_HALF_LIFE;

/// The time of one cache.
#[derive(Debug)]
pub(super) struct Decay {
    accesses: AtomicU64,
    next_tick: AtomicU64,
    /// Accesses when the last tick ended, and what was left then of all of them.
    last_tick: AtomicU64,
    left: AtomicU64,
    ticks: AtomicU32,
    /// Bits of an `f32`: the share of a window that has been observed.
    observed: AtomicU32,
    /// Ticks that went by before the database was opened, as far as is known, and the blocks that
    /// were resident then.
    before: AtomicU32,
    blocks_before: AtomicU64,
    /// For how many time stands still.
    paused: AtomicU32,
    blocks: AtomicU64,
}

impl Decay {
    pub(super) fn new() -> Self {
        Decay {
            accesses: AtomicU64::new(0),
            next_tick: AtomicU64::new(HALF_LIFE.0 / u64::from(TICKS_PER_HALF_LIFE)),
            last_tick: AtomicU64::new(0),
            left: AtomicU64::new(0),
            ticks: AtomicU32::new(0),
            observed: AtomicU32::new(0),
            before: AtomicU32::new(0),
            blocks_before: AtomicU64::new(0),
            paused: AtomicU32::new(0),
            blocks: AtomicU64::new(0),
        }
    }

    /// Ticks so far.
    #[inline]
    pub(super) fn ticks(&self) -> u32 {
        self.ticks.load(Relaxed)
    }

    /// Accesses so far.
    #[inline]
    pub(super) fn accesses(&self) -> u64 {
        self.accesses.load(Relaxed)
    }

    /// The share of a window that has been observed: what is left of all accesses, of those in a
    /// window. Not how many ticks went by: the first are short, and windows grow as blocks come in.
    #[inline]
    pub(super) fn observed_fraction(&self) -> f32 {
        f32::from_bits(self.observed.load(Relaxed))
    }

    /// Notes what has been observed, of which so much is since the last tick.
    #[cold]
    fn observe(&self, since: u64) {
        let left = self.left.load(Relaxed) + since;
        let share = (left as f64 / self.window()) as f32;
        self.set_observed(if share < ALL_OBSERVED { share } else { 1.0 });
    }

    pub(super) fn set_observed(&self, share: f32) {
        self.observed.store(share.to_bits(), Relaxed);
    }

    /// Ticks so far, with those before the database was opened.
    pub(super) fn all_ticks(&self) -> u32 {
        self.ticks().saturating_add(self.before.load(Relaxed))
    }

    /// So many ticks went by before the first, at the end with so many blocks.
    pub(super) fn begin_after(&self, ticks: u32, blocks: u64) {
        self.before.store(ticks, Relaxed);
        self.blocks_before.store(blocks, Relaxed);
        self.next_tick.store(self.tick_length(), Relaxed);
        let left = self.window() * f64::from(1.0 - left_after(ticks as f32));
        self.left.store(left as u64, Relaxed);
        self.observe(0);
    }

    /// The blocks that are resident, as far as the length of windows goes: at first those that are
    /// expected to come back, or what is known of the time before would fade at once.
    pub(super) fn blocks(&self) -> u64 {
        let blocks = self.blocks.load(Relaxed);
        if self.is_settled() {
            blocks
        } else {
            blocks.max(self.blocks_before.load(Relaxed))
        }
    }

    /// Whether it is no longer as it was at first.
    pub(super) fn is_settled(&self) -> bool {
        self.ticks() >= TICKS_AS_BEFORE
    }

    /// Has time stand still for one more.
    pub(super) fn pause(&self) {
        self.paused.fetch_add(1, Relaxed);
    }

    /// Has it go on for one of them.
    pub(super) fn go_on(&self) {
        self.paused.fetch_sub(1, Relaxed);
    }

    /// Counts accesses; says whether a tick has ended with them.
    #[inline]
    pub(super) fn advance(&self, accesses: u64) -> bool {
        if self.paused.load(Relaxed) > 0 {
            return false;
        }
        let now = self.accesses.fetch_add(accesses, Relaxed) + accesses;
        let ended = now >= self.next_tick.load(Relaxed) && self.tick(now);
        if self.observed_fraction() < 1.0 {
            self.observe(now.saturating_sub(self.last_tick.load(Relaxed)));
        }
        ended
    }

    #[cold]
    fn tick(&self, now: u64) -> bool {
        // Few blocks at first: the first windows are short.
        let due = self.next_tick.load(Relaxed);
        let turn = self
            .next_tick
            .compare_exchange(due, now + self.tick_length(), Relaxed, Relaxed);
        let ended = now >= due && turn.is_ok();
        if ended {
            self.ticks.fetch_add(1, Relaxed);
            let since = now.saturating_sub(self.last_tick.swap(now, Relaxed));
            let left = (self.left.load(Relaxed) + since) as f32 * left_after(1.0);
            self.left.store(left as u64, Relaxed);
            self.observe(0);
        }
        ended
    }

    fn tick_length(&self) -> u64 {
        self.half_life() / u64::from(TICKS_PER_HALF_LIFE)
    }

    /// A half-life as long as suits the blocks that are resident now, in accesses.
    fn half_life(&self) -> u64 {
        (self.blocks().saturating_mul(ACCESSES_PER_BLOCK)).clamp(HALF_LIFE.0, HALF_LIFE.1)
    }

    /// The accesses in a window: the sum of what is left of each.
    pub(super) fn window(&self) -> f64 {
        self.half_life() as f64 * std::f64::consts::LOG2_E
    }

    /// Notes that so many blocks came, or went.
    pub(super) fn count_blocks(&self, more: i64) {
        self.blocks.fetch_add(more as u64, Relaxed);
    }
}

/// What is left of a count after so many ticks.
pub(crate) fn left_after(ticks: f32) -> f32 {
    (-ticks / TICKS_PER_HALF_LIFE as f32).exp2()
}

/// A count of which the share `left` is left. It is rounded up or down by chance (of the tick and
/// the count): small counts that were always rounded down would fade sooner than large ones.
pub(super) fn faded(count: u16, left: f32, tick: u16) -> u16 {
    let chance = (tick ^ count.rotate_left(8)).wrapping_mul(0x9e37) >> 8;
    (f32::from(count) * left + f32::from(chance) / 256.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advance(decay: &Decay, accesses: u64) {
        (0..accesses / 32).for_each(|_| {
            decay.advance(32);
        });
    }

    #[test]
    fn a_window_is_observed_by_accesses_however_many_ticks_went_by() {
        let decay = Decay::new();
        // The first ticks are short: two went by when the blocks come in.
        advance(&decay, 512);
        assert_eq!(decay.ticks(), 2);
        decay.count_blocks(3000);
        advance(&decay, 32);
        assert!(decay.observed_fraction() < 600.0 / decay.window() as f32);
        advance(&decay, 96_000);
        let half_life = decay.observed_fraction();
        assert!((0.4..0.6).contains(&half_life), "{half_life}");
        advance(&decay, 960_000);
        assert!(decay.observed_fraction() > 0.9);
        // As many blocks again: windows are twice as long, as the next tick notes.
        decay.count_blocks(3000);
        let ticks = decay.ticks();
        while decay.ticks() == ticks {
            advance(&decay, 32);
        }
        let twice = decay.observed_fraction();
        assert!((0.45..0.55).contains(&twice), "{twice}");
        decay.count_blocks(-5900);
        advance(&decay, 32);
        assert_eq!(decay.observed_fraction(), 1.0);
    }

    #[test]
    fn what_was_observed_before_counts_by_its_ticks() {
        let decay = Decay::new();
        decay.begin_after(2 * TICKS_PER_HALF_LIFE, 3000);
        let before = decay.observed_fraction();
        assert!((before - 0.75).abs() < 0.001, "{before}");
    }
}
