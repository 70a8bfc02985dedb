//! How hot a file is: its partitions' visits, summed up, as a share of the lookups of its keyspace.
//!
//! A file's statistics are nothing but that sum, so they age and are inherited as partitions'
//! visits are, and nobody records them apart. What a new file inherits fades while what is measured
//! grows: at its birth only the former counts, after some half-lives only the latter (SHaMBa,
//! Eq. 12, whose weight of the measured part is 1 - 2^(-age / half-life) here). Lookups of the
//! keyspace fade alike ([`RecentLookups`]). Hints only. Thread-safe: relaxed atomics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shamba_model::expected_reads::Visits;

use super::decay::{TICKS_PER_HALF_LIFE, left_after};

/// How often a file is asked, and how often it has the key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hotness {
    /// The share of its keyspace's lookups that ask the file, 0 to 1.
    pub(crate) access: f64,
    /// The share of those that find their key in it, 0 to 1.
    pub(crate) positive: f64,
}

impl Hotness {
    /// That of a file with these visits, where so many lookups of its keyspace still count.
    pub(crate) fn of(visits: Visits, lookups: f64) -> Hotness {
        let asked = lookups_among(visits);
        if asked <= 0.0 {
            return Hotness {
                access: 0.0,
                positive: 0.0,
            };
        }
        Hotness {
            access: asked / lookups.max(asked),
            positive: f64::from(visits.positive) / asked,
        }
    }
}

/// The visits that are lookups.
pub(crate) fn lookups_among(visits: Visits) -> f64 {
    f64::from(visits.empty + visits.positive)
}

/// The lookups of a keyspace that still count, where those of a half-life ago count half. They are
/// told some at a time, at the ends of epochs.
#[derive(Debug, Default)]
pub(crate) struct RecentLookups {
    /// The tick at which they were so many, and the bits of that number as an `f32`.
    told: AtomicU64,
}

impl RecentLookups {
    /// As many as count at a tick.
    pub(crate) fn at(&self, tick: u32) -> f64 {
        let (then, lookups) = unpack(self.told.load(Relaxed));
        f64::from(lookups * left_after(tick.wrapping_sub(then) as f32))
    }

    /// Tells of so many more by a tick, which came evenly since lookups were told of last.
    pub(crate) fn add(&self, more: u64, tick: u32) {
        let added = |told| {
            let (then, lookups) = unpack(told);
            let ticks = tick.wrapping_sub(then) as f32;
            let lookups = lookups * left_after(ticks) + more as f32 * mean_left(ticks);
            Some(u64::from(tick) << 32 | u64::from(lookups.to_bits()))
        };
        // Always changed: the function never says no.
        let _ = self.told.fetch_update(Relaxed, Relaxed, added);
    }
}

fn unpack(told: u64) -> (u32, f32) {
    ((told >> 32) as u32, f32::from_bits(told as u32))
}

/// What is left on average of a count that came evenly over so many ticks, up to now.
fn mean_left(ticks: f32) -> f32 {
    let half_lives = ticks / TICKS_PER_HALF_LIFE as f32;
    let decay = half_lives * std::f32::consts::LN_2;
    if decay < 1e-3 {
        // Nothing has faded yet, and the quotient below would be of two numbers close to 0.
        return 1.0;
    }
    (1.0 - left_after(ticks)) / decay
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::Budget;
    use crate::value::{FilterGeometry, Outcome, PartitionStats, PolicyState};

    fn visits(empty: f32, positive: f32) -> Visits {
        Visits {
            empty,
            positive,
            scans: 1000.0,
        }
    }

    #[test]
    fn hotness_is_of_lookups_and_of_no_scans() {
        let hotness = Hotness::of(visits(30.0, 10.0), 160.0);
        assert_eq!((hotness.access, hotness.positive), (0.25, 0.25));
        let never = Hotness::of(visits(0.0, 0.0), 160.0);
        assert_eq!((never.access, never.positive), (0.0, 0.0));
        assert_eq!(Hotness::of(visits(1.0, 0.0), 0.0).access, 1.0);
    }

    #[test]
    fn lookups_fade_as_visits_do() {
        let recent = RecentLookups::default();
        recent.add(1000, 0);
        assert_eq!(recent.at(0), 1000.0);
        assert!((recent.at(TICKS_PER_HALF_LIFE) - 500.0).abs() < 1e-3);
        // As many in each tick come to as many as a window holds, told of often or seldom.
        for every in [1, 10] {
            let recent = RecentLookups::default();
            for tick in (every..=400).step_by(every as usize) {
                recent.add(100 * u64::from(every), tick);
            }
            let window = f64::from(TICKS_PER_HALF_LIFE) * std::f64::consts::LOG2_E;
            let share = recent.at(400) / (100.0 * window);
            assert!((share - 1.0).abs() < 0.01, "{share} of a window");
        }
    }

    /// A file that inherits more than comes to it is as hot as it inherited at first, then cools
    /// down half in a half-life, and at last is as hot as what is measured.
    #[test]
    fn a_new_file_is_as_hot_as_it_inherited_and_an_old_one_as_it_was_measured() {
        let policy = Arc::new(PolicyState::new(1));
        let geometry = Arc::new(FilterGeometry::new(
            [].into(),
            |_| 0,
            |block, _| block.into(),
        ));
        let budget = Budget::new(1 << 20);
        let stats = PartitionStats::new(Arc::clone(&policy), &budget, 2, geometry, 1);
        let recent = RecentLookups::default();
        let hotness = || Hotness::of(stats.all_visits(), recent.at(policy.ticks()));
        // Each lookup is one access of the cache; of ten one asks the file, in vain.
        let mut asked = 0;
        let mut lookups = |of_ticks: u32| {
            let until = policy.ticks() + of_ticks;
            let mut told = 0;
            while policy.ticks() < until {
                policy.advance(1);
                asked += 1;
                told += 1;
                if asked % 10 == 0 {
                    stats.record(u32::from(asked % 20 == 0), Outcome::Rejected, 1);
                }
            }
            recent.add(told, policy.ticks());
        };
        lookups(40 * TICKS_PER_HALF_LIFE);
        let window = recent.at(policy.ticks());
        for partition in 0..2 {
            let half = window as f32 * 0.45;
            stats.inherit(
                partition,
                Visits {
                    scans: 0.0,
                    ..visits(half / 2.0, half / 2.0)
                },
            );
        }
        let mut hot = vec![hotness()];
        for _ in 0..3 {
            lookups(TICKS_PER_HALF_LIFE);
            hot.push(hotness());
        }
        lookups(20 * TICKS_PER_HALF_LIFE);
        let old = hotness();
        for (age, (hot, want)) in (0..).zip(hot.iter().zip([0.9, 0.5, 0.3, 0.2])) {
            assert!(
                (hot.access - want).abs() < 0.03,
                "{age} half-lives: {hot:?}"
            );
        }
        assert!((hot[0].positive - 0.5).abs() < 0.01, "{:?}", hot[0]);
        assert!(
            (old.access - 0.1).abs() < 0.01 && old.positive < 0.01,
            "{old:?}"
        );
    }
}
