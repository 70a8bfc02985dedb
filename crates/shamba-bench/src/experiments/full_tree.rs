//! A tree exactly as Monkey's model has it, in memory, to measure beside the model: full merges, one
//! run in level 0 at most under leveling, and as many flushes of one size as fill `L` levels for the
//! first time, `T^L - 1`, like a counter of `L` digits. Under leveling entries are of such a size
//! ([`WIDE`]) that pages waste what the write buffer takes for its own, so that a level's capacity in
//! bytes is `T - 1` times a level above it and not `T`; tiering counts runs, and entries may be small.
//!
//! The engine's level 0 is the model's level 1 where runs are tiered. Under leveling flushes come to
//! level 0 and go on at once to level 1, which is the model's.
use crate::runner::Data;
use crate::workload::{KeyKind, KeySpace, MAX_KEY, Permutation, Random, ValueSpec, random};
use crate::{Error, Result};
use rand::RngExt as _;
use shamba::fs::MemFs;
use shamba::{
    Counters, Db, Eviction, FilterAllocation, FilterFamily, FilterOptions, FilterPolicy,
    Granularity, KeyspaceOptions, LevelStatistics, MemoryBudget, MergePolicy, Options, Role,
};
use shamba_model::allocation::{Filter, uniform, water_filling};
use shamba_model::cost;
use shamba_model::curve::Curve;
use shamba_model::merging;
use shamba_model::tree::{self, Tree};
use std::sync::Arc;

/// Bytes of a value with which five entries fill a page, and a seventh of the page is left over.
pub(super) const WIDE: usize = 690;

/// Bytes of budget while the tree is written.
const LOAD_MEMORY: u64 = 256 << 20;

/// Bytes of budget for data pages, and for what a lookup needs for itself, while it is measured.
const ROOM: u64 = 64 << 10;

/// By how much the table of a flush is larger than the write buffer: more than 1, less than `T/(T-1)`.
const OVER: f64 = 1.03;

/// How filter memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filters {
    /// The same bits per key everywhere.
    Uniform,
    /// Best for lookups of absent keys.
    Monkey,
    /// Best for lookups of keys of the last level.
    MonkeyExisting,
}

/// What [`FilterAllocation::MonkeyGeneral`] takes for lookups that all find their key.
const ALL_EXISTING: f64 = 1e9;

/// The design of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Design {
    pub(super) policy: tree::MergePolicy,
    pub(super) size_ratio: u32,
    pub(super) levels: u32,
    pub(super) bits_per_key: f64,
    pub(super) filters: Filters,
    pub(super) buffer_entries: u64,
    /// Bytes of a value; [`WIDE`] under leveling.
    pub(super) value: usize,
    pub(super) seed: u64,
}

/// What was measured of a tree.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Filter bits per key that the tree has.
    pub(super) bits_per_key: f64,
    /// Reads per lookup of an absent key.
    pub(super) empty: f64,
    /// Searches in vain per lookup of an absent key: its reads, but for pages that were in memory.
    pub(super) false_positives: f64,
    /// Reads per lookup of a key of the last level.
    pub(super) existing: f64,
    /// The same of a key of the last level: its own page, and searches in vain.
    pub(super) searches: f64,
    /// Reads per lookup of what should be in memory: filters and indexes.
    pub(super) others: f64,
    /// Times an entry was written by flushes and merges.
    pub(super) writes: f64,
}

/// What the model says of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predicted {
    /// Reads per lookup of an absent key: `R`.
    pub(super) empty: f64,
    /// Reads per lookup of a key of the last level: `V`.
    pub(super) existing: f64,
    /// Times an entry is written in the engine's tree.
    pub(super) writes: f64,
    /// The same in the paper's tree: Monkey, Eq. 10.
    pub(super) paper_writes: f64,
}

fn failed(source: impl std::fmt::Display) -> Error {
    Error::engine("shamba", source)
}

impl Design {
    /// The model's tree. Its entries count those of a buffer that is about to be flushed.
    pub(super) fn tree(&self) -> Result<Tree> {
        let entries =
            self.buffer_entries as f64 * f64::from(self.size_ratio).powi(self.levels as i32);
        Tree::new(self.policy, self.size_ratio, self.levels, entries).map_err(failed)
    }

    /// Entries on storage when the tree is full.
    pub(super) fn entries(&self) -> u64 {
        self.buffer_entries * (u64::from(self.size_ratio).pow(self.levels) - 1)
    }

    fn filters(&self, tree: &Tree, bits_per_key: f64, curve: &Curve) -> Result<Vec<Filter>> {
        let bits = bits_per_key * self.entries() as f64;
        let positive = match self.filters {
            Filters::Uniform | Filters::Monkey => 0.0,
            Filters::MonkeyExisting => 1.0,
        };
        let runs = tree.filter_runs(positive).map_err(failed)?;
        let divided = match self.filters {
            Filters::Uniform => uniform(&runs, bits, curve),
            Filters::Monkey | Filters::MonkeyExisting => water_filling(&runs, bits, curve),
        };
        divided.map_err(failed)
    }

    /// What the model says if filters have so many bits per key.
    pub(super) fn predict(&self, bits_per_key: f64, curve: &Curve) -> Result<Predicted> {
        let tree = self.tree()?;
        let filters = self.filters(&tree, bits_per_key, curve)?;
        let reads = |positive| cost::point_lookup(&tree, &filters, positive).map_err(failed);
        Ok(Predicted {
            empty: reads(0.0)?,
            existing: reads(1.0)?,
            writes: merging::engine(&tree).all(),
            paper_writes: merging::eq_10(&tree).all(),
        })
    }

    fn options(&self, write_buffer: u64) -> KeyspaceOptions {
        KeyspaceOptions {
            merge_policy: match self.policy {
                tree::MergePolicy::Leveling => MergePolicy::Leveling {
                    granularity: Granularity::Level,
                },
                tree::MergePolicy::Tiering => MergePolicy::Tiering,
                tree::MergePolicy::LazyLeveling => MergePolicy::LazyLeveling,
            },
            size_ratio: self.size_ratio,
            write_buffer,
            level0_runs: 1,
            target_file: 1 << 40,
            filter: FilterOptions {
                family: FilterFamily::Bloom,
                bits_per_key: self.bits_per_key,
                allocation: match self.filters {
                    Filters::Uniform => FilterAllocation::Uniform,
                    Filters::Monkey => FilterAllocation::Monkey,
                    Filters::MonkeyExisting => FilterAllocation::MonkeyGeneral {
                        existing_per_empty: ALL_EXISTING,
                    },
                },
                ..FilterOptions::default()
            },
            filter_policy: FilterPolicy::All,
            ..KeyspaceOptions::default()
        }
    }

    /// The database, empty, its write buffer such that a level is full when it should be.
    fn open(&self, memory: &MemoryBudget) -> Result<Db> {
        let open = |write_buffer| {
            Options::new()
                .fs(Arc::new(MemFs::new()))
                .memory(memory.clone())
                .eviction(Eviction::TwoPriorityLru)
                .background_threads(0)
                .keyspace(self.options(write_buffer))
                .open("db")
                .map_err(failed)
        };
        if self.policy != tree::MergePolicy::Leveling {
            return open(LOAD_MEMORY / 8);
        }
        // A table of two flushes less one of one: without what every table has but once.
        let probe = open(LOAD_MEMORY / 16)?;
        let mut bytes = [0; 2];
        let keys = KeySpace::new(KeyKind::Plain, 3 * self.buffer_entries);
        for (number, times) in [(0, 1), (self.buffer_entries, 2)] {
            for number in number..number + times * self.buffer_entries {
                probe
                    .put(keys.key(number, &mut [0; MAX_KEY]), vec![0; self.value])
                    .map_err(failed)?;
            }
            let before = probe.stats().counters.flush_bytes;
            probe.flush().map_err(failed)?;
            bytes[times as usize - 1] = probe.stats().counters.flush_bytes - before;
        }
        open(((bytes[1] - bytes[0]) as f64 / OVER) as u64)
    }

    /// Writes the tree and measures it with so many lookups of each kind, checking every answer.
    pub(super) fn measure(&self, empty: u64, existing: u64) -> Result<Measured> {
        let memory = MemoryBudget::bytes(LOAD_MEMORY);
        let db = self.open(&memory)?;
        let entries = self.entries();
        let data = Data {
            keys: KeySpace::new(KeyKind::Plain, entries),
            values: ValueSpec::random(self.value),
            seed: self.seed,
            load_seed: self.seed,
        };
        let order = Permutation::new(entries, self.seed);
        let (mut buf, mut value) = ([0; MAX_KEY], Vec::new());
        for index in 0..entries {
            let number = order.apply(index);
            data.values.write(number, 0, &mut value);
            db.put(data.keys.key(number, &mut buf), &value)
                .map_err(failed)?;
            if (index + 1) % self.buffer_entries == 0 {
                db.flush().map_err(failed)?;
                db.wait_for_compaction().map_err(failed)?;
            }
        }
        let stats = db.stats();
        let levels = &stats.keyspaces[0].levels;
        self.check_shape(levels)?;
        let sum = |of: fn(&LevelStatistics) -> u64| levels.iter().map(of).sum::<u64>() as f64;
        let written = stats.counters.flush_bytes + stats.counters.compaction_bytes_written;
        let mut random = random(self.seed, 1);
        let mut scratch = Vec::new();
        let mut look = |random: &mut Random, last: Option<u64>| -> Result<()> {
            match last {
                None => {
                    let number = random.random_range(0..entries);
                    // Never the same twice: filters answer a key alike each time.
                    let mut key = data.keys.absent(number, &mut buf).to_vec();
                    key.extend_from_slice(&random.random::<u64>().to_le_bytes());
                    match db.get(key).map_err(failed)? {
                        None => Ok(()),
                        Some(_) => Err(Error::WrongAnswer(format!("absent key {number} found"))),
                    }
                }
                Some(oldest) => {
                    let number = order.apply(random.random_range(0..oldest));
                    let found = db.get(data.keys.key(number, &mut buf)).map_err(failed)?;
                    let missing = || Error::WrongAnswer(format!("entry {number} is missing"));
                    let found = found.ok_or_else(missing)?;
                    data.values.check(number, 0, &found, &mut scratch)
                }
            }
        };
        // The oldest entries are on the last level.
        let oldest = entries - entries / u64::from(self.size_ratio);
        let reads = |counters: &Counters| {
            let others = counters.index_reads + counters.filter_reads;
            [counters.data_reads, others]
        };
        let mut phase = |last: Option<u64>, count: u64| -> Result<[f64; 2]> {
            let before = reads(&db.stats().counters);
            for _ in 0..count {
                look(&mut random, last)?;
            }
            let after = reads(&db.stats().counters);
            Ok([0, 1].map(|kind| (after[kind] - before[kind]) as f64 / count as f64))
        };
        // Filters and indexes come into memory; then there is room for them and a few pages of data.
        let warm = (empty / 10).clamp(1, 20_000);
        phase(None, warm)?;
        // Where filters hardly err, absent keys alone bring no index.
        phase(Some(entries), warm)?;
        let used = memory.usage().budget;
        let data = used.by_role.iter().filter(|(role, _)| *role == Role::Data);
        let rest = used.used - data.map(|(_, bytes)| bytes).sum::<u64>();
        memory.set_limit(rest + ROOM).map_err(failed)?;
        phase(None, warm)?;
        let in_vain = || -> u64 {
            let stats = db.stats();
            let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
            levels.map(|level| level.lookups.false_positives).sum()
        };
        let at_first = in_vain();
        let none = phase(None, empty)?;
        let between = in_vain();
        let some = phase(Some(oldest), existing)?;
        let false_positives = (between - at_first) as f64 / empty as f64;
        let searches = 1.0 + (in_vain() - between) as f64 / existing as f64;
        Ok(Measured {
            bits_per_key: sum(|level| level.filter_bytes) * 8.0 / entries as f64,
            empty: none[0] + none[1],
            false_positives,
            searches,
            existing: some[0] + some[1],
            others: none[1].max(some[1]),
            writes: written as f64 / sum(|level| level.bytes),
        })
    }

    /// Fails unless the tree has the model's runs.
    fn check_shape(&self, levels: &[LevelStatistics]) -> Result<()> {
        let tree = self.tree()?;
        let wanted =
            (1..=self.levels).map(|level| (tree.runs(level), tree.entries_at(level).round()));
        let present = levels.iter().filter(|level| level.entries > 0);
        let found = present.map(|level| (level.runs as f64, level.entries as f64));
        let (wanted, found): (Vec<_>, Vec<_>) = (wanted.collect(), found.collect());
        if wanted == found {
            return Ok(());
        }
        Err(Error::InvalidSetting(format!(
            "the tree has runs and entries {found:?}, the model {wanted:?}"
        )))
    }
}
