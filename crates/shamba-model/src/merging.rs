//! How often an entry is written: in the paper's tree and in the engine's.
//!
//! After Dayan, Athanassoulis, Idreos, "Optimal Bloom Filters and Adaptive Merging for LSM-Trees"
//! (2018; Monkey), Eq. 10, and for lazy leveling Dayan, Idreos, "Dostoevsky" (2018). The paper
//! merges the write buffer into level 1 as it is flushed, and data that arrive on a level that they
//! fill straight on into the next. An engine that writes and merges at the same time cannot:
//! writers would wait for the merge. Ours writes each buffer as a run of its own first, in level 0.
//! So it writes
//!
//! - *under leveling* each entry once more, but that a run which comes to an empty level 1 is moved
//!   there and not written: one of `T` runs. A merge takes the levels that it fills along, as the
//!   paper's does: `i` units come to rest by writing 1, then 2, up to `T - 1` of them, `T (T-1)/2`
//!   for every `T` that arrive;
//! - *under tiering* each entry once on every level that it comes to, the one that it fills
//!   included (the `T`th run is written before all `T` are merged). Level 0 is the model's level 1:
//!   what it saves in merging the buffer it pays in writing it;
//! - *under lazy leveling* the same on all levels but the last, which is leveled.
//!
//! The sums are over a tree that fills for the first time: of `T^L - 1` buffers, `T^(L-i+1) - 1`
//! units of `T^(i-1)` buffers come to level `i`. That makes the last level cheaper, which has not
//! been merged on: by `1/(T-1)` of a write under tiering. What was not merged yet is in no level's
//! account.
//!
//! Merges are of whole levels. No update replaces another before the last level, so that merges
//! read what they write.

use crate::ModelError;
use crate::cost::Environment;
use crate::tree::{MergePolicy, Tree};

/// Of memory for reading ahead, the parts that inputs of these sizes had best get, which add up to
/// 1 (all 0 for no data). A merge of `s_i` bytes each, `a_i` of them at a time, takes
/// `sum s_i / a_i` reads: fewest, for one sum of `a_i`, where these are as the square roots of
/// `s_i` (by Lagrange's method).
#[must_use]
pub fn shares_of_read_ahead(sizes: &[u64]) -> Vec<f64> {
    let roots = sizes.iter().map(|size| (*size as f64).sqrt());
    let all = roots.clone().sum::<f64>().max(f64::MIN_POSITIVE);
    roots.map(|root| root / all).collect()
}

/// Times that an entry is written, by what writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Writes {
    /// By flushes, which read nothing.
    pub flushes: f64,
    /// By merges, which read it as well.
    pub merges: f64,
}

impl Writes {
    /// By both: the write amplification.
    #[must_use]
    pub fn all(&self) -> f64 {
        self.flushes + self.merges
    }

    /// What they cost an entry in reads of a page, a written page counting as
    /// [`crate::cost::Device::write_cost`] reads: Monkey, Eq. 10, with `phi / B` for a flush and
    /// `(1 + phi) / B` for a merge, or less where merges read pages cheaper than lookups
    /// ([`crate::cost::Device::merge_read_cost`]).
    ///
    /// # Errors
    /// An environment outside its domain.
    pub fn cost(&self, environment: &Environment) -> Result<f64, ModelError> {
        environment.check()?;
        let (phi, read) = (
            environment.device.write_cost,
            environment.device.merge_read_cost,
        );
        let pages = self.flushes * phi + self.merges * (read + phi);
        Ok(pages / environment.entries_per_page())
    }
}

/// The paper's tree. It takes part in `(T-1)/2` merges on a leveled level, in `(T-1)/T` on a tiered
/// one; flushes are merges too. Monkey, Eq. 10; for lazy leveling `L - 1` tiered levels and one
/// leveled (Dostoevsky).
#[must_use]
pub fn eq_10(tree: &Tree) -> Writes {
    let t = tree.t();
    let (leveled, tiered) = ((t - 1.0) / 2.0, (t - 1.0) / t);
    let above = f64::from(tree.levels() - 1);
    let merges = match tree.policy() {
        MergePolicy::Leveling => (above + 1.0) * leveled,
        MergePolicy::Tiering => (above + 1.0) * tiered,
        MergePolicy::LazyLeveling => above * tiered + leveled,
    };
    Writes {
        flushes: 0.0,
        merges,
    }
}

/// The engine's tree: see the [module](self). For `L` levels, with `e = T^-L`:
///
/// - leveling: a flush, and `(L (T-1)/2 - 1/T) / (1 - e)` merges;
/// - tiering: a flush, and `L - 1 + L e / (1 - e) - 1/(T-1)` merges, and 0 at `L = 1`;
/// - lazy leveling: a flush, and `(L - 1 + (T-1)/2) / (1 - e) - 1 - (T^(L-1) - 1) e / ((T-1) (1 -
///   e))`; at `L = 1` it is leveling.
#[must_use]
pub fn engine(tree: &Tree) -> Writes {
    let (t, levels) = (tree.t(), f64::from(tree.levels()));
    let leveled = (t - 1.0) / 2.0;
    let empty = t.powf(-levels);
    let full = 1.0 - empty;
    let merges = match tree.policy() {
        MergePolicy::LazyLeveling if tree.levels() > 1 => {
            let missing = (1.0 / t - empty) / (t - 1.0);
            (levels - 1.0 + leveled - missing) / full - 1.0
        }
        MergePolicy::Leveling | MergePolicy::LazyLeveling => (levels * leveled - 1.0 / t) / full,
        MergePolicy::Tiering => levels - 1.0 + levels * empty / full - 1.0 / (t - 1.0),
    };
    Writes {
        flushes: 1.0,
        merges: merges.max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Device;
    use MergePolicy::{LazyLeveling, Leveling, Tiering};

    fn tree(policy: MergePolicy, size_ratio: u32, levels: u32) -> Tree {
        Tree::new(policy, size_ratio, levels, 1e6).unwrap()
    }

    /// Buffers written by merges until a tree of `levels` is full for the first time, run by run,
    /// knowing nothing of sums: a flush is a run of 1 in level 0, and what is too much goes on.
    fn simulated(policy: MergePolicy, ratio: u64, levels: usize) -> f64 {
        let flushes = ratio.pow(levels as u32) - 1;
        // Runs by level, the first of which is the engine's level 0 where runs are tiered, else 1.
        let mut runs: Vec<Vec<u64>> = vec![Vec::new(); levels];
        let mut merged = 0;
        for _ in 0..flushes {
            if policy == Leveling || levels == 1 && policy == LazyLeveling {
                // All levels without room go into the first that has some.
                let held = |runs: &[Vec<u64>], at: usize| runs[at].iter().sum::<u64>();
                let room = |at: &usize| held(&runs, *at) < (ratio - 1) * ratio.pow(*at as u32);
                let at = (0..levels).find(room).unwrap();
                let carried: u64 = 1 + (0..=at).map(|at| held(&runs, at)).sum::<u64>();
                runs[..=at].iter_mut().for_each(Vec::clear);
                runs[at].push(carried);
                merged += if carried > 1 { carried } else { 0 };
                continue;
            }
            runs[0].push(1);
            let mut at = 0;
            while runs[at].len() as u64 == ratio {
                let mut carried: u64 = runs[at].drain(..).sum();
                at += 1;
                if policy == LazyLeveling && at + 1 == levels {
                    carried += runs[at].drain(..).sum::<u64>();
                }
                runs[at].push(carried);
                merged += carried;
            }
        }
        merged as f64 / flushes as f64
    }

    #[test]
    fn sums_are_those_of_trees_that_fill_run_by_run() {
        for policy in MergePolicy::ALL {
            for ratio in [2u32, 3, 4, 7, 10] {
                for levels in 1..=5 {
                    let (got, want) = (
                        engine(&tree(policy, ratio, levels)).merges,
                        simulated(policy, u64::from(ratio), levels as usize),
                    );
                    let off = (got - want).abs();
                    assert!(
                        off < 1e-9 * want.max(1.0),
                        "{policy:?} T={ratio} L={levels}: got {got}, want {want}"
                    );
                }
            }
        }
    }

    /// What the engine writes more than the paper's tree: under leveling at most a write, under
    /// tiering at most `L/T`.
    #[test]
    fn an_engine_writes_more_than_the_paper_by_its_first_run() {
        for (ratio, levels) in [(2, 7), (4, 5), (10, 3), (100, 2)] {
            let t = f64::from(ratio);
            let more = |policy| {
                let tree = tree(policy, ratio, levels);
                engine(&tree).all() - eq_10(&tree).all()
            };
            assert!((more(Leveling) - (1.0 - 1.0 / t)).abs() < 0.06);
            let tiering = f64::from(levels) / t - 1.0 / (t - 1.0);
            assert!((more(Tiering) - tiering).abs() < 0.06, "{}", more(Tiering));
        }
    }

    /// At a size ratio of 2 the paper's policies are one; the engine's tiering is not leveling.
    #[test]
    fn at_ratio_two_only_the_papers_policies_are_one() {
        let all = |of: fn(&Tree) -> Writes| MergePolicy::ALL.map(|p| of(&tree(p, 2, 6)).all());
        let paper = all(eq_10);
        assert!(paper.iter().all(|writes| *writes == 3.0));
        let [leveling, tiering, lazy] = all(engine);
        assert!((lazy - tiering).abs() < 1e-9 && tiering > 1.4 * leveling);
    }

    /// A flush reads nothing: 4 entries in a page, a write as dear as two reads.
    #[test]
    fn costs_count_what_merges_read() {
        let environment = Environment {
            entries: 1e6,
            entry_bytes: 1024.0,
            device: Device {
                page_bytes: 4096.0,
                read_seconds: 1e-4,
                write_cost: 2.0,
                merge_read_cost: 1.0,
            },
        };
        let writes = Writes {
            flushes: 1.0,
            merges: 3.0,
        };
        assert_eq!(writes.cost(&environment).unwrap(), (2.0 + 9.0) / 4.0);
        let mut sequential = environment;
        sequential.device.merge_read_cost = 0.5;
        assert_eq!(writes.cost(&sequential).unwrap(), (2.0 + 7.5) / 4.0);
        let wrong = Environment {
            entry_bytes: 0.0,
            ..environment
        };
        assert!(writes.cost(&wrong).is_err());
    }

    /// The largest trees there are stay finite.
    #[test]
    fn deep_and_wide_trees_have_numbers() {
        for (ratio, levels) in [(u32::MAX, 64), (2, 64), (u32::MAX, 1), (2, 1)] {
            for policy in MergePolicy::ALL {
                let writes = engine(&tree(policy, ratio, levels));
                assert!(
                    writes.all().is_finite() && writes.merges >= 0.0,
                    "{writes:?}"
                );
            }
        }
    }
}
