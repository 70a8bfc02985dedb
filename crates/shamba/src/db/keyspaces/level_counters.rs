//! What lookups did in each level of a keyspace.
//!
//! Counters belong to the level at which a file was when the lookup came, wherever it goes later.
//! Storage reads and false positives are rare enough to be counted each; the rest is counted for a
//! sample of the lookups, by their weight. Written by the read path only, when a visit of a table
//! ends. Relaxed atomics, spread over a few padded shards by thread (one where memory is scarce); a
//! level's counters are allocated at the first visit of it, the list of levels at the first of any,
//! and charged to the budget. Hints: they change no answer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::budget::{Budget, Reservation, Role, allocated, most_of_seen};
use crate::metrics::CounterShard;
use crate::table::{Modules, Trace};

/// As many levels as compactions make; visits of deeper ones count in the last.
const LEVELS: usize = 12;

/// Filter modules told apart; further ones count in the last.
pub(in crate::db) const MODULES: usize = 6;

/// Most visits only count when they are of the sample, so that few shards will do.
const SHARDS: usize = 4;

/// Chances are added up in units of 1 / CHANCE.
const CHANCE: f32 = (1u32 << 20) as f32;

/// Storage reads of one kind of block by lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReadCounts {
    /// Reads.
    pub reads: u64,
    /// Pages of 4 KiB of these reads.
    pub pages: u64,
}

/// What lookups did in one level since the database was opened; a `multi_get` is a lookup of each
/// of its keys. The level is the one a file belonged to at the time.
///
/// What says *sampled* is counted for one lookup in eight of each thread, as eight: after a few
/// thousand lookups it is near the truth. What says *exact* counts each time.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelLookups {
    /// Times a lookup came to a table here and found its key, as value or tombstone. Sampled.
    pub found: u64,
    /// Times a lookup came to a table here that did not hold its key. Sampled.
    pub absent: u64,
    /// Times a lookup searched an index and data block here, from memory or storage, and its key
    /// was not there: a false positive of the filter, or no filter was probed (which
    /// [`Counters::false_positives`](crate::Counters) leaves out). Exact.
    pub false_positives: u64,
    /// The false positives that the false-positive model of the filters' families predicts for the
    /// `absent` lookups, given what each of them probed or would have probed: all modules that were
    /// to be read, and of the others those in memory. Sampled.
    pub predicted_false_positives: f64,
    /// Storage reads of data blocks. Exact.
    pub data: ReadCounts,
    /// Storage reads of index blocks. Exact.
    pub index: ReadCounts,
    /// Storage reads of filter blocks. Exact.
    pub filter: ReadCounts,
    /// The filter modules, in the order of probing; the sixth stands for all further ones.
    pub modules: Vec<ModuleLookups>,
}

/// What lookups did with a filter module of one level's tables since the database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ModuleLookups {
    /// Times a lookup probed what was in memory of it: all, or some of its columns. Sampled.
    pub probed: u64,
    /// Times it was read from storage and probed. Exact.
    pub fetched: u64,
    /// Times nothing of it was in memory and a lookup went on to index and data without it, since
    /// it was past the file's limit or not worth the read. Sampled.
    pub skipped: u64,
}

impl LevelLookups {
    /// The share of lookups of absent keys that were false positives: of the filters as they were
    /// used, the false-positive rate. 0 to 1; `None` while there were none.
    #[must_use]
    pub fn false_positive_rate(&self) -> Option<f64> {
        // The one is counted, the other sampled.
        self.share(self.false_positives as f64)
            .map(|share| share.min(1.0))
    }

    /// What [`Self::false_positive_rate`] should be by the model.
    #[must_use]
    pub fn predicted_false_positive_rate(&self) -> Option<f64> {
        self.share(self.predicted_false_positives)
    }

    fn share(&self, of: f64) -> Option<f64> {
        (self.absent > 0).then(|| of / self.absent as f64)
    }
}

/// The counters of one level and shard.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LevelShard {
    found: AtomicU64,
    absent: AtomicU64,
    false_positives: AtomicU64,
    chance: AtomicU64,
    data: [AtomicU64; 2],
    index: [AtomicU64; 2],
    filter: [AtomicU64; 2],
    probed: [AtomicU64; MODULES],
    fetched: [AtomicU64; MODULES],
    skipped: [AtomicU64; MODULES],
}

#[derive(Debug)]
struct LevelCells {
    /// A power of two.
    shards: Box<[LevelShard]>,
    _held: Reservation,
}

/// The levels of a keyspace that was looked into.
#[derive(Debug)]
struct Levels {
    levels: [OnceLock<Box<LevelCells>>; LEVELS],
    _held: Reservation,
}

/// The counters of a keyspace.
#[derive(Debug)]
pub(crate) struct LevelCounters {
    levels: OnceLock<Box<Levels>>,
    budget: Arc<Budget>,
}

#[inline]
fn add(counter: &AtomicU64, n: u64) {
    if n > 0 {
        counter.fetch_add(n, Relaxed);
    }
}

fn add_modules(counters: &[AtomicU64; MODULES], mut modules: Modules, weight: u64) {
    while modules != 0 {
        let module = modules.trailing_zeros() as usize;
        modules &= modules - 1;
        if let Some(counter) = counters.get(module.min(MODULES - 1)) {
            add(counter, weight);
        }
    }
}

impl LevelCounters {
    pub(in crate::db) fn new(budget: &Arc<Budget>) -> Self {
        LevelCounters {
            levels: OnceLock::new(),
            budget: Arc::clone(budget),
        }
    }

    fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let most = most_of_seen(self.budget.limit());
        self.budget
            .try_reserve_within(Role::Seen, bytes as u64, most)
    }

    /// Without memory for them nothing is counted.
    #[cold]
    fn make_levels(&self) -> Option<&Levels> {
        let held = self.reserve(allocated(size_of::<Levels>()))?;
        let made = || {
            Box::new(Levels {
                levels: Default::default(),
                _held: held,
            })
        };
        Some(self.levels.get_or_init(made))
    }

    #[cold]
    fn make<'a>(&self, level: &'a OnceLock<Box<LevelCells>>) -> Option<&'a LevelCells> {
        let held = self.reserve(size_of::<LevelCells>() + SHARDS * size_of::<LevelShard>())?;
        let made = || {
            Box::new(LevelCells {
                shards: (0..SHARDS).map(|_| LevelShard::default()).collect(),
                _held: held,
            })
        };
        Some(level.get_or_init(made))
    }

    /// Counts a visit of a table of `level` that is over: whether it found the key, or `None` if it
    /// failed. It weighs `weight` where it is of the sample, else nothing. `skipped` are the
    /// modules of which it probed nothing.
    #[inline]
    pub(in crate::db) fn record(
        &self,
        level: usize,
        found: Option<bool>,
        trace: &Trace,
        skipped: Modules,
        weight: u64,
    ) {
        let levels = match self.levels.get() {
            Some(levels) => Some(&**levels),
            None => self.make_levels(),
        };
        let Some(level) = levels.and_then(|of| of.levels.get(level.min(LEVELS - 1))) else {
            return;
        };
        let Some(cells) = level
            .get()
            .map(|cells| &**cells)
            .or_else(|| self.make(level))
        else {
            return;
        };
        let Some(shard) = cells
            .shards
            .get(CounterShard::of_thread().shard & (cells.shards.len() - 1))
        else {
            return;
        };
        // Reads are rare, and counted each.
        for (counters, trace) in [
            (&shard.data, trace.data),
            (&shard.index, trace.index),
            (&shard.filter, trace.filter),
        ] {
            let [reads, pages] = counters;
            add(reads, u64::from(trace.reads));
            add(pages, u64::from(trace.pages));
        }
        add_modules(&shard.fetched, trace.fetched, 1);
        add(&shard.false_positives, u64::from(trace.false_positive));
        // All else is counted for the sample, by its weight.
        let Some(found) = found.filter(|_| weight > 0) else {
            return;
        };
        add_modules(&shard.probed, trace.probed, weight);
        if found {
            add(&shard.found, weight);
        } else {
            add(&shard.absent, weight);
            add(&shard.chance, (trace.forecast * CHANCE) as u64 * weight);
        }
        if found || trace.false_positive {
            add_modules(&shard.skipped, skipped, weight);
        }
    }

    /// Levels that lookups came to, from 0.
    pub(in crate::db) fn levels(&self) -> usize {
        let asked = |level: &OnceLock<_>| level.get().is_some();
        let levels = self.levels.get().map(|of| &of.levels);
        let last = levels.and_then(|levels| levels.iter().rposition(asked));
        last.map_or(0, |at| at + 1)
    }

    /// A picture of the counters of a level.
    pub(in crate::db) fn snapshot(&self, level: usize) -> LevelLookups {
        let mut lookups = LevelLookups::default();
        let levels = self.levels.get().map(|of| &of.levels);
        let Some(level) = levels.and_then(|of| of.get(level)?.get()) else {
            return lookups;
        };
        let mut modules = [ModuleLookups::default(); MODULES];
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        for shard in &*level.shards {
            lookups.found += get(&shard.found);
            lookups.absent += get(&shard.absent);
            lookups.false_positives += get(&shard.false_positives);
            lookups.predicted_false_positives += get(&shard.chance) as f64 / f64::from(CHANCE);
            for (counts, [reads, pages]) in [
                (&mut lookups.data, &shard.data),
                (&mut lookups.index, &shard.index),
                (&mut lookups.filter, &shard.filter),
            ] {
                counts.reads += get(reads);
                counts.pages += get(pages);
            }
            let counters = shard.probed.iter().zip(&shard.fetched).zip(&shard.skipped);
            for (module, ((probed, fetched), skipped)) in modules.iter_mut().zip(counters) {
                module.probed += get(probed);
                module.fetched += get(fetched);
                module.skipped += get(skipped);
            }
        }
        let used = |module: &ModuleLookups| *module != ModuleLookups::default();
        let count = modules.iter().rposition(used).map_or(0, |last| last + 1);
        lookups.modules = modules.into_iter().take(count).collect();
        lookups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sampled_has_its_weight_and_what_is_exact_counts_each_time() {
        let budget = Budget::new(1 << 20);
        let counters = LevelCounters::new(&budget);
        assert_eq!((counters.levels(), budget.used()), (0, 0));
        let mut trace = Trace {
            fetched: 0b1000_0010,
            probed: 0b1,
            false_positive: true,
            forecast: 0.25,
            ..Trace::default()
        };
        (trace.filter.reads, trace.filter.pages) = (2, 3);
        (trace.data.reads, trace.data.pages) = (1, 1);
        for weight in [0, 8] {
            counters.record(1, Some(false), &trace, 0b100, weight);
        }
        let bytes = size_of::<LevelCells>() + SHARDS * size_of::<LevelShard>();
        let list = allocated(size_of::<Levels>());
        assert_eq!(budget.used_by(Role::Seen), (bytes + list) as u64);
        assert!(bytes <= 1200, "{bytes}");
        // A visit that failed did read, and came to no answer.
        trace.false_positive = false;
        counters.record(1, None, &trace, 0, 8);
        // One that a filter ended did without nothing.
        counters.record(1, Some(false), &Trace::default(), 0b100, 8);
        counters.record(1, Some(true), &Trace::default(), 0b100, 8);
        let level = counters.snapshot(1);
        assert_eq!(
            (level.found, level.absent, level.false_positives),
            (8, 16, 2)
        );
        assert_eq!(level.predicted_false_positives, 2.0);
        assert_eq!(level.false_positive_rate(), Some(0.125));
        let count = |reads, pages| ReadCounts { reads, pages };
        assert_eq!((level.filter, level.data), (count(6, 9), count(3, 3)));
        let of = |of: fn(&ModuleLookups) -> u64| level.modules.iter().map(of).collect::<Vec<_>>();
        assert_eq!(of(|module| module.probed), [8, 0, 0, 0, 0, 0]);
        // The eighth module counts in the sixth place.
        assert_eq!(of(|module| module.fetched), [0, 3, 0, 0, 0, 3]);
        assert_eq!(of(|module| module.skipped), [0, 0, 16, 0, 0, 0]);
        assert_eq!(counters.snapshot(0), LevelLookups::default());
        assert_eq!(counters.snapshot(0).false_positive_rate(), None);
        counters.record(99, Some(true), &Trace::default(), 0, 8);
        assert_eq!(
            (counters.levels(), counters.snapshot(LEVELS - 1).found),
            (LEVELS, 8)
        );
    }

    #[test]
    fn counts_of_all_threads_add_up() {
        let counters = LevelCounters::new(&Budget::new(1 << 20));
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| counters.record(0, Some(true), &Trace::default(), 0, 8));
            }
        });
        assert_eq!(counters.snapshot(0).found, 160);
    }
}
