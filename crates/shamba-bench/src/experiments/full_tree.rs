//! A tree exactly as Monkey's model has it, in memory, and lookups of many kinds in it beside what
//! the model says of them: for the figures of the paper. Full merges, one run in level 0 at most
//! under leveling, and as many flushes of one size as fill `L` levels for the first time,
//! `T^L - 1`, like a counter of `L` digits. One thread; answers are checked.
//!
//! The engine's level 0 is the model's level 1 where runs are tiered. Under leveling flushes come
//! to level 0 and go on at once to level 1, which is the model's.
mod written;

use crate::Result;
use crate::workload::Random;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use shamba_model::allocation::{Filter, uniform, water_filling};
use shamba_model::curve;
use shamba_model::tree::{MergePolicy, Tree};
use std::ops::Range;
use written::Written;

/// Bytes of a value with which five entries fill a page, and a seventh of the page is left over:
/// what the write buffer takes for its own. Under leveling entries are of this size, so that a
/// level's capacity in bytes is `T - 1` times a level above it and not `T`.
pub(crate) const WIDE: usize = 690;

/// Bytes of a page, and of a key.
const PAGE: usize = 4096;
const KEY: usize = 16;

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

impl Lookups {
    /// The share, the level or the number that it has.
    pub(crate) fn number(self) -> f64 {
        match self {
            Self::Mixed(share) | Self::Recent(share) => share,
            Self::Level(level) => level.into(),
            Self::Scan(entries) => entries as f64,
        }
    }

    /// The share that finds its key.
    fn positive(self) -> f64 {
        match self {
            Self::Mixed(positive) => positive,
            Self::Level(_) | Self::Recent(_) | Self::Scan(_) => 1.0,
        }
    }
}

/// A tree to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FullTree {
    pub(crate) policy: MergePolicy,
    pub(crate) size_ratio: u32,
    pub(crate) levels: u32,
    pub(crate) buffer_entries: u64,
    /// Bytes of a value under tiering; under leveling it has [`WIDE`].
    pub(crate) value: usize,
    pub(crate) bits_per_key: f64,
    pub(crate) filters: Filters,
    /// Share of the data that a cache holds; 0: next to nothing.
    pub(crate) cached: f64,
    pub(crate) seed: u64,
}

/// A kind of lookups in a tree, on average.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) tree: FullTree,
    pub(crate) kind: Lookups,
    /// How many lookups there were.
    pub(crate) count: u64,
    /// Filter bits per key that the tree really has.
    pub(crate) bits_per_key: f64,
    /// Times an entry was written by flushes and merges.
    pub(crate) writes: f64,
    /// Searches of a run: of the one with the key, and in vain. Each reads a page if it is in no
    /// cache. Of a scan the pages that it read.
    pub(crate) searches: f64,
    /// Searches in vain.
    pub(crate) in_vain: f64,
    /// Pages that were read.
    pub(crate) reads: f64,
    /// Searches by the model, for the filter memory that the tree has; of a scan its pages.
    pub(crate) model: f64,
}

impl FullTree {
    /// The model's tree. Its entries count those of a buffer that is about to be flushed.
    pub(crate) fn tree(&self) -> Result<Tree> {
        let full = f64::from(self.size_ratio).powi(self.levels as i32);
        let entries = self.buffer_entries as f64 * full;
        let tree = Tree::new(self.policy, self.size_ratio, self.levels, entries);
        Ok(tree?)
    }

    /// Entries on storage when the tree is full.
    pub(crate) fn entries(&self) -> u64 {
        self.buffer_entries * self.units(self.levels)
    }

    /// Buffers that the first so many levels hold.
    fn units(&self, levels: u32) -> u64 {
        u64::from(self.size_ratio).pow(levels) - 1
    }

    fn value(&self) -> usize {
        match self.policy {
            MergePolicy::Leveling => WIDE,
            _ => self.value,
        }
    }

    /// Entries that fill a page: what the block's restart points and heads take is left out.
    fn entries_in_page(&self) -> f64 {
        (PAGE / (self.value() + KEY)) as f64
    }

    /// The entries of a level, by the order in which they were written.
    fn level(&self, level: u32) -> Range<u64> {
        let from = |level| self.entries() - self.buffer_entries * self.units(level);
        from(level)..from(level - 1)
    }

    /// The newest entries, of which [`Lookups::Recent`] asks more often: from this one on.
    fn newest(&self, share: f64) -> u64 {
        let entries = self.entries();
        entries - ((entries as f64 * (1.0 - share)) as u64).clamp(1, entries)
    }

    /// The entry to look up, by the order in which they were written; `None`: an absent key.
    fn draw(&self, lookups: Lookups, random: &mut Random) -> Option<u64> {
        let entries = self.entries();
        let among = match lookups {
            Lookups::Mixed(positive) if random.random_bool(positive) => self.level(self.levels),
            Lookups::Mixed(_) => return None,
            Lookups::Level(level) => self.level(level),
            Lookups::Scan(_) => 0..entries,
            Lookups::Recent(share) => {
                let newest = self.newest(share);
                let is_new = newest == 0 || random.random_bool(share);
                if is_new { newest..entries } else { 0..newest }
            }
        };
        Some(random.random_range(among))
    }

    /// The share of lookups that find their key in a level.
    fn found(&self, lookups: Lookups, level: u32) -> f64 {
        match lookups {
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
        }
    }

    /// The filters that the model gives the levels for so many bits per key.
    fn filters(&self, tree: &Tree, bits_per_key: f64) -> Result<Vec<Filter>> {
        let curve = curve::Family::Bloom.curve()?;
        let bits = bits_per_key * self.entries() as f64;
        let filters = match self.filters {
            Filters::Uniform => uniform(&tree.filter_runs(0.0)?, bits, &curve),
            Filters::Zero => water_filling(&tree.filter_runs(0.0)?, bits, &curve),
            Filters::General(positive) => water_filling(&tree.filter_runs(positive)?, bits, &curve),
        };
        Ok(filters?)
    }

    /// Searches of a lookup by the model: Monkey, Eqs. 3, 9 and 13, level by level for keys that
    /// are elsewhere than on the last.
    fn model(&self, lookups: Lookups, bits_per_key: f64) -> Result<f64> {
        let tree = self.tree()?;
        if let Lookups::Scan(entries) = lookups {
            // Eq. 11: a page of each run, and those of the entries.
            return Ok(tree.all_runs() + entries as f64 / self.entries_in_page());
        }
        let (mut coming, mut searches) = (1.0, lookups.positive());
        for (level, filter) in (1..).zip(self.filters(&tree, bits_per_key)?) {
            let (runs, found) = (tree.runs(level), self.found(lookups, level));
            // Of a level's runs, the one with the key comes in the middle.
            let visits = (coming - found) * runs + found * (runs - 1.0) / 2.0;
            searches += visits * filter.rate;
            coming -= found;
        }
        Ok(searches)
    }

    /// Filter bits per key that the tree has when it is written.
    pub(crate) fn real_bits_per_key(&self) -> Result<f64> {
        Ok(Written::new(self)?.bits_per_key)
    }

    /// Writes the tree and looks up `count` times in each way.
    pub(crate) fn measure(&self, kinds: &[Lookups], count: u64) -> Result<Vec<Point>> {
        let mut written = Written::new(self)?;
        let warm = (count / 10).clamp(1, 20_000);
        written.make_room(self.cached, warm)?;
        // A cache is to hold what the lookups ask for.
        let warm = if self.cached > 0.0 { count } else { warm };
        let point = |&kind: &Lookups| {
            let (in_vain, reads) = match kind {
                // Scans take longer than lookups, and hardly differ from each other.
                Lookups::Scan(entries) => (0.0, written.scan(count.div_ceil(10), entries)?),
                _ => {
                    written.look_up(warm, |random| self.draw(kind, random))?;
                    written.look_up(count, |random| self.draw(kind, random))?
                }
            };
            Ok(Point {
                tree: *self,
                kind,
                count,
                bits_per_key: written.bits_per_key,
                writes: written.writes,
                searches: match kind {
                    Lookups::Scan(_) => reads,
                    _ => kind.positive() + in_vain,
                },
                in_vain,
                reads,
                model: self.model(kind, written.bits_per_key)?,
            })
        };
        kinds.iter().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shamba_model::merging;

    fn tree(policy: MergePolicy, size_ratio: u32, filters: Filters) -> FullTree {
        FullTree {
            policy,
            size_ratio,
            levels: 4,
            buffer_entries: 256,
            value: WIDE,
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
        let levels = (1..=4).map(|level| tree.level(level));
        let sum: u64 = levels.map(|level| level.end - level.start).sum();
        assert_eq!(sum, tree.entries());
        let recent = [0.5, 0.9].map(Lookups::Recent);
        for lookups in recent.into_iter().chain([Lookups::Level(2)]) {
            let shares: f64 = (1..=4).map(|level| tree.found(lookups, level)).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{lookups:?}: {shares}");
        }
        // Half of the lookups for half of the entries: uniform.
        let uniform = tree.found(Lookups::Recent(0.5), 4);
        assert!((uniform - 54.0 / 80.0).abs() < 0.01, "{uniform}");
    }

    /// Measured searches are near the model's for every kind of lookup and every way to divide
    /// memory. Writes are counted, not drawn: they are the model's but for what tables have beside
    /// entries.
    #[test]
    fn searches_and_writes_are_the_models() {
        for (policy, ratio) in [(MergePolicy::Tiering, 2), (MergePolicy::Leveling, 3)] {
            for filters in [Filters::Uniform, Filters::Zero, Filters::General(1.0)] {
                let [none, half] = [0.0, 0.5].map(Lookups::Mixed);
                let kinds = [none, half, Lookups::Level(3), Lookups::Recent(0.8)];
                let tree = tree(policy, ratio, filters);
                let writes = merging::engine(&tree.tree().unwrap()).all();
                for point in tree.measure(&kinds, 8_000).unwrap() {
                    let off = (point.searches - point.model).abs();
                    assert!(off < 0.06 + 0.1 * point.model, "{point:?}");
                    let off = (point.writes / writes - 1.0).abs();
                    assert!(off < 0.05, "{point:?}: {writes}");
                }
            }
        }
    }
}
