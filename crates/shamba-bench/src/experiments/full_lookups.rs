//! Lookups of many kinds in one tree that is exactly as Monkey's model has it (`full_tree`), beside
//! what the model says of them: for the figures of the paper. One thread; answers are checked.
use super::full_tree;
use crate::Result;
use crate::workload::Random;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use shamba::FilterAllocation;
use shamba_model::allocation::{Filter, uniform, water_filling};
use shamba_model::curve;
use shamba_model::tree::{self, MergePolicy};
use std::ops::Range;

/// Existing lookups for each empty one, where all are to be existing.
const ALL: f64 = 1e9;

/// How filter memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Filters {
    /// The same bits per key everywhere.
    Uniform,
    /// Monkey's for lookups of absent keys.
    Zero,
    /// Monkey's for lookups of which this share finds its key on the last level.
    General(f64),
}

/// What is looked up, or scanned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Lookups {
    /// A share of entries of the last level, and absent keys.
    Mixed(f64),
    /// Entries of this level, 1 being the first.
    Level(u32),
    /// Scans of so many entries from any key on.
    Scan(u64),
    /// All entries, a share of the lookups for the newest: share `c` goes to the newest `1 - c`.
    Recent(f64),
}

/// A tree to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FullTree {
    pub(crate) policy: MergePolicy,
    pub(crate) size_ratio: u32,
    pub(crate) levels: u32,
    pub(crate) buffer_entries: u64,
    /// Bytes of a value.
    pub(crate) value: usize,
    pub(crate) bits_per_key: f64,
    pub(crate) filters: Filters,
    /// Share of the data that a cache holds; 0: next to nothing.
    pub(crate) cached: f64,
    pub(crate) seed: u64,
}

/// What was measured of a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Filter bits per key it really has.
    pub(crate) bits_per_key: f64,
    /// Times an entry was written.
    pub(crate) writes: f64,
    /// For each kind of lookup.
    pub(crate) lookups: Vec<Seen>,
}

/// A kind of lookup, on average.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Searches of a run: of the one with the key, and in vain. Each reads a page if it is in no
    /// cache.
    pub(crate) searches: f64,
    /// Searches in vain.
    pub(crate) in_vain: f64,
    /// Pages that were read.
    pub(crate) reads: f64,
    /// Searches by the model, for the filter memory that the tree has; of a scan its pages.
    pub(crate) model: f64,
}

/// Bytes of a page, and of a key.
const PAGE: usize = 4096;
const KEY: usize = 16;

/// Bytes of cache where there is to be none: what a lookup needs for itself.
const ROOM: u64 = 64 << 10;

impl Lookups {
    /// The share that finds its key.
    pub(crate) fn positive(self) -> f64 {
        match self {
            Self::Mixed(positive) => positive,
            Self::Level(_) | Self::Recent(_) | Self::Scan(_) => 1.0,
        }
    }
}

impl FullTree {
    fn design(&self) -> full_tree::Design {
        full_tree::Design {
            policy: self.policy,
            size_ratio: self.size_ratio,
            levels: self.levels,
            bits_per_key: self.bits_per_key,
            // The allocation is given apart.
            filters: full_tree::Filters::Uniform,
            buffer_entries: self.buffer_entries,
            value: match self.policy {
                MergePolicy::Leveling => full_tree::WIDE,
                _ => self.value,
            },
            seed: self.seed,
        }
    }

    fn allocation(&self) -> FilterAllocation {
        match self.filters {
            Filters::Uniform => FilterAllocation::Uniform,
            Filters::Zero => FilterAllocation::Monkey,
            Filters::General(positive) => FilterAllocation::MonkeyGeneral {
                existing_per_empty: (positive / (1.0 - positive)).min(ALL),
            },
        }
    }

    /// Entries that fill a page: what the block's restart points and heads take is left out.
    fn entries_per_page(&self) -> f64 {
        let entry = self.design().value + KEY;
        (PAGE / entry) as f64
    }

    /// Entries on storage.
    pub(crate) fn entries(&self) -> u64 {
        self.design().entries()
    }

    /// The entries of a level, by the order in which they were written.
    fn level(&self, level: u32) -> Range<u64> {
        let above = |level: u32| u64::from(self.size_ratio).pow(level) - 1;
        let from = |level| self.entries() - self.buffer_entries * above(level);
        from(level)..from(level - 1)
    }

    /// The newest entries, of which [`Lookups::Recent`] asks more often: from this one on.
    fn newest(&self, share: f64) -> u64 {
        let entries = self.entries();
        entries - ((entries as f64 * (1.0 - share)) as u64).clamp(1, entries)
    }

    fn draw(&self, lookups: Lookups, random: &mut Random) -> Option<u64> {
        let entries = self.entries();
        let within = |range: Range<u64>, random: &mut Random| Some(random.random_range(range));
        match lookups {
            Lookups::Mixed(positive) => {
                if random.random_bool(positive) {
                    within(self.level(self.levels), random)
                } else {
                    None
                }
            }
            Lookups::Level(level) => within(self.level(level), random),
            Lookups::Scan(_) => within(0..entries, random),
            Lookups::Recent(share) => {
                let newest = self.newest(share);
                if newest == 0 || random.random_bool(share) {
                    within(newest..entries, random)
                } else {
                    within(0..newest, random)
                }
            }
        }
    }

    /// The share of lookups that find their key in each level, the first first.
    fn found(&self, lookups: Lookups) -> Vec<f64> {
        let levels = 1..=self.levels;
        let of = |level: u32| match lookups {
            Lookups::Mixed(positive) if level == self.levels => positive,
            Lookups::Level(own) if level == own => 1.0,
            Lookups::Recent(share) => {
                let (entries, newest) = (self.entries(), self.newest(share));
                let range = self.level(level);
                let new = range.end.max(newest) - range.start.max(newest);
                let old = range.end.min(newest) - range.start.min(newest);
                let old_share = if newest == 0 { 0.0 } else { 1.0 - share };
                new as f64 * (1.0 - old_share) / (entries - newest) as f64
                    + old as f64 * old_share / newest.max(1) as f64
            }
            _ => 0.0,
        };
        levels.map(of).collect()
    }

    /// The filters that the model gives the levels for so many bits per key.
    fn filters(&self, tree: &tree::Tree, bits_per_key: f64) -> Result<Vec<Filter>> {
        let curve = curve::Family::Bloom.curve()?;
        let bits = bits_per_key * self.entries() as f64;
        let runs = |positive| tree.filter_runs(positive);
        let filters = match self.filters {
            Filters::Uniform => uniform(&runs(0.0)?, bits, &curve),
            Filters::Zero => water_filling(&runs(0.0)?, bits, &curve),
            Filters::General(positive) => water_filling(&runs(positive)?, bits, &curve),
        };
        Ok(filters?)
    }

    /// Searches of a lookup by the model: Monkey, Eqs. 3, 9 and 13, level by level for keys that
    /// are elsewhere than on the last.
    pub(crate) fn model(&self, lookups: Lookups, bits_per_key: f64) -> Result<f64> {
        let tree = self.design().tree()?;
        if let Lookups::Scan(entries) = lookups {
            // Eq. 11: a page of each run, and those of the entries.
            return Ok(tree.all_runs() + entries as f64 / self.entries_per_page());
        }
        let filters = self.filters(&tree, bits_per_key)?;
        let (mut coming, mut searches) = (1.0, lookups.positive());
        for ((level, filter), found) in (1..).zip(&filters).zip(self.found(lookups)) {
            // Of a level's runs, the one with the key comes in the middle.
            let visits =
                (coming - found) * tree.runs(level) + found * (tree.runs(level) - 1.0) / 2.0;
            searches += visits * filter.rate;
            coming -= found;
        }
        Ok(searches)
    }

    /// Writes the tree and looks up `count` times in each way.
    pub(crate) fn measure(&self, lookups: &[Lookups], count: u64) -> Result<Measured> {
        let mut full = self.design().load(Some(self.allocation()))?;
        let warm = (count / 10).clamp(1, 20_000);
        let room = (full.bytes as f64 * self.cached) as u64;
        full.make_room(room.max(ROOM), warm)?;
        let mut all = Vec::new();
        for &kind in lookups {
            if let Lookups::Scan(entries) = kind {
                // Scans take longer than lookups, and hardly differ from each other.
                let pages = full.scan(count.div_ceil(10), entries)?;
                all.push(Seen {
                    searches: self.design().tree()?.all_runs(),
                    in_vain: 0.0,
                    reads: pages,
                    model: self.model(kind, full.bits_per_key)?,
                });
                continue;
            }
            // A cache is to hold what the lookups ask for.
            let warm = if self.cached > 0.0 { count } else { warm };
            full.look_up(warm, |random| self.draw(kind, random))?;
            let seen = full.look_up(count, |random| self.draw(kind, random))?;
            all.push(Seen {
                searches: kind.positive() + seen.in_vain,
                in_vain: seen.in_vain,
                reads: seen.data + seen.others,
                model: self.model(kind, full.bits_per_key)?,
            });
        }
        Ok(Measured {
            bits_per_key: full.bits_per_key,
            writes: full.writes,
            lookups: all,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(policy: MergePolicy, size_ratio: u32, filters: Filters) -> FullTree {
        FullTree {
            policy,
            size_ratio,
            levels: 4,
            buffer_entries: 64,
            value: 40,
            bits_per_key: 4.0,
            filters,
            cached: 0.0,
            seed: 1,
        }
    }

    #[test]
    fn levels_hold_all_entries_the_newest_first() {
        let tree = tree(MergePolicy::Tiering, 3, Filters::Uniform);
        assert_eq!(tree.level(4).start, 0);
        assert_eq!(tree.level(1).end, tree.entries());
        let sum: u64 = (1..=4)
            .map(|l| tree.level(l).end - tree.level(l).start)
            .sum();
        assert_eq!(sum, tree.entries());
        for lookups in [
            Lookups::Recent(0.5),
            Lookups::Recent(0.9),
            Lookups::Level(2),
        ] {
            let shares: f64 = tree.found(lookups).iter().sum();
            assert!((shares - 1.0).abs() < 1e-9, "{lookups:?}: {shares}");
        }
        // Half of the lookups for half of the entries: uniform.
        let uniform = tree.found(Lookups::Recent(0.5));
        assert!((uniform[3] - 54.0 / 80.0).abs() < 0.01, "{uniform:?}");
    }

    /// Measured searches are near the model's for every kind of lookup and every way to divide
    /// memory.
    #[test]
    fn searches_are_the_models() {
        for (policy, ratio) in [(MergePolicy::Tiering, 2), (MergePolicy::Leveling, 3)] {
            for filters in [Filters::Uniform, Filters::Zero, Filters::General(1.0)] {
                let kinds = [
                    Lookups::Mixed(0.0),
                    Lookups::Mixed(0.5),
                    Lookups::Level(3),
                    Lookups::Recent(0.8),
                ];
                let tree = tree(policy, ratio, filters);
                let measured = tree.measure(&kinds, 8_000).unwrap();
                for (kind, seen) in kinds.iter().zip(&measured.lookups) {
                    let off = (seen.searches - seen.model).abs();
                    assert!(
                        off < 0.06 + 0.1 * seen.model,
                        "{policy:?} {filters:?} {kind:?}: {seen:?}"
                    );
                }
            }
        }
    }
}
