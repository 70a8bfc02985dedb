//! A tree exactly as Monkey's model has it, in memory, to measure beside the model: full merges,
//! one run in level 0 at most under leveling, and as many flushes of one size as fill `L` levels
//! for the first time, `T^L - 1`, like a counter of `L` digits. Under leveling entries are of such
//! a size ([`WIDE`]) that pages waste what the write buffer takes for its own, so that a level's
//! capacity in bytes is `T - 1` times a level above it and not `T`; tiering counts runs, and
//! entries may be small.
//!
//! The engine's level 0 is the model's level 1 where runs are tiered. Under leveling flushes come
//! to level 0 and go on at once to level 1, which is the model's.
use crate::runner::Data;
use crate::workload::{KeyKind, KeySpace, MAX_KEY, Permutation, Random, ValueSpec, random};
use crate::{Error, Result};
use rand::RngExt as _;
use shamba::fs::{MemFs, MeteredFs, Purpose};
use shamba::{
    Counters, Db, Eviction, FilterAllocation, FilterFamily, FilterOptions, FilterPolicy,
    Granularity, IterOptions, KeyspaceOptions, LevelStatistics, MemoryBudget, MergePolicy, Options,
    Role,
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

/// By how much the table of a flush is larger than the write buffer: more than 1, less than
/// `T/(T-1)`.
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

fn failed(source: shamba::Error) -> Error {
    Error::engine("shamba", source)
}

impl Design {
    /// The model's tree. Its entries count those of a buffer that is about to be flushed.
    pub(super) fn tree(&self) -> Result<Tree> {
        let entries =
            self.buffer_entries as f64 * f64::from(self.size_ratio).powi(self.levels as i32);
        let tree = Tree::new(self.policy, self.size_ratio, self.levels, entries)?;
        Ok(tree)
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
        let runs = tree.filter_runs(positive)?;
        let divided = match self.filters {
            Filters::Uniform => uniform(&runs, bits, curve),
            Filters::Monkey | Filters::MonkeyExisting => water_filling(&runs, bits, curve),
        };
        Ok(divided?)
    }

    /// What the model says if filters have so many bits per key.
    pub(super) fn predict(&self, bits_per_key: f64, curve: &Curve) -> Result<Predicted> {
        let tree = self.tree()?;
        let filters = self.filters(&tree, bits_per_key, curve)?;
        let reads = |positive| cost::point_lookup(&tree, &filters, positive);
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

    /// The database, empty, its write buffer such that a level is full when it should be; filters
    /// are divided as `allocation` says, if it does. What it reads is counted.
    fn open(
        &self,
        memory: &MemoryBudget,
        allocation: Option<FilterAllocation>,
    ) -> Result<(Db, MeteredFs)> {
        let open = |write_buffer| {
            let mut keyspace = self.options(write_buffer);
            keyspace.filter.allocation = allocation.unwrap_or(keyspace.filter.allocation);
            let fs = MeteredFs::new(Arc::new(MemFs::new()));
            let db = Options::new()
                .fs(Arc::new(fs.clone()))
                .memory(memory.clone())
                .eviction(Eviction::TwoPriorityLru)
                .background_threads(0)
                .keyspace(keyspace)
                .open("db");
            Ok((db.map_err(failed)?, fs))
        };
        if self.policy != tree::MergePolicy::Leveling {
            return open(LOAD_MEMORY / 8);
        }
        // A table of two flushes less one of one: without what every table has but once.
        let (probe, _) = open(LOAD_MEMORY / 16)?;
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

    /// Writes the tree, all entries in a random order; filters are divided as `allocation` says, if
    /// it does.
    pub(super) fn load(&self, allocation: Option<FilterAllocation>) -> Result<Full> {
        let memory = MemoryBudget::bytes(LOAD_MEMORY);
        let (db, fs) = self.open(&memory, allocation)?;
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
        Ok(Full {
            bits_per_key: sum(|level| level.filter_bytes) * 8.0 / entries as f64,
            writes: written as f64 / sum(|level| level.bytes),
            bytes: sum(|level| level.bytes) as u64,
            random: random(self.seed, 1),
            db,
            fs,
            memory,
            held: None,
            data,
            order,
        })
    }

    /// Writes the tree and measures it with so many lookups of each kind, checking every answer.
    pub(super) fn measure(&self, empty: u64, existing: u64) -> Result<Measured> {
        let mut full = self.load(None)?;
        let entries = self.entries();
        let warm = (empty / 10).clamp(1, 20_000);
        full.make_room(ROOM, warm)?;
        full.look_up(warm, |_| None)?;
        let none = full.look_up(empty, |_| None)?;
        // The oldest entries are on the last level.
        let oldest = entries - entries / u64::from(self.size_ratio);
        let some = full.look_up(existing, |random| Some(random.random_range(0..oldest)))?;
        Ok(Measured {
            bits_per_key: full.bits_per_key,
            empty: none.data + none.others,
            false_positives: none.in_vain,
            searches: 1.0 + some.in_vain,
            existing: some.data + some.others,
            others: none.others.max(some.others),
            writes: full.writes,
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

/// A written tree.
pub(super) struct Full {
    /// Filter bits per key that it has.
    pub(super) bits_per_key: f64,
    /// Times an entry was written by flushes and merges.
    pub(super) writes: f64,
    /// Bytes of its tables.
    pub(super) bytes: u64,
    db: Db,
    fs: MeteredFs,
    memory: MemoryBudget,
    /// Memory that is to be no room for anything.
    held: Option<Box<dyn Send + Sync>>,
    data: Data,
    order: Permutation,
    random: Random,
}

/// What lookups did, each on average.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Reads of data.
    pub(super) data: f64,
    /// Reads of what should be in memory: filters and indexes.
    pub(super) others: f64,
    /// Searches in vain.
    pub(super) in_vain: f64,
}

impl Full {
    /// Filters and indexes come into memory; then there is room for them and so many bytes of data.
    /// What is left of the least budget is held.
    pub(super) fn make_room(&mut self, bytes: u64, warm_up: u64) -> Result<()> {
        self.look_up(warm_up, |_| None)?;
        // Where filters hardly err, absent keys alone bring no index.
        let entries = self.data.keys.entries();
        self.look_up(warm_up, |random| Some(random.random_range(0..entries)))?;
        let used = self.memory.usage().budget;
        let data = used.by_role.iter().filter(|(role, _)| *role == Role::Data);
        let rest = used.used - data.map(|(_, bytes)| bytes).sum::<u64>();
        let wanted = rest + bytes;
        let limit = wanted.max(shamba::MIN_MEMORY);
        self.memory.set_limit(limit).map_err(failed)?;
        self.held = self.memory.hold(limit - wanted);
        Ok(())
    }

    /// So many lookups, each of the entry that was written as the one `draw` says, the first being
    /// 0, or of an absent key. Every answer is checked.
    pub(super) fn look_up(
        &mut self,
        count: u64,
        mut draw: impl FnMut(&mut Random) -> Option<u64>,
    ) -> Result<Seen> {
        let before = self.counts();
        for _ in 0..count {
            let index = draw(&mut self.random);
            self.look(index)?;
        }
        let after = self.counts();
        let each = |at: usize| (after[at] - before[at]) as f64 / count.max(1) as f64;
        Ok(Seen {
            data: each(0),
            others: each(1),
            in_vain: each(2),
        })
    }

    /// Pages that a scan of so many entries reads, on average over so many scans from any entry on.
    pub(super) fn scan(&mut self, count: u64, entries: u64) -> Result<f64> {
        let pages = |fs: &MeteredFs| fs.counts().reads_for(Purpose::Scan).pages;
        let before = pages(&self.fs);
        let last = self.data.keys.entries().saturating_sub(entries).max(1);
        let mut buf = [0; MAX_KEY];
        for _ in 0..count {
            let first = self.random.random_range(0..last);
            let mut cursor = self.db.iter(IterOptions::default()).map_err(failed)?;
            cursor
                .seek(self.data.keys.key(first, &mut buf))
                .map_err(failed)?;
            for number in first..first + entries {
                if !cursor.valid() || self.data.keys.number(cursor.key()) != Some(number) {
                    return Err(Error::WrongAnswer(format!("a scan lacks entry {number}")));
                }
                self.data
                    .values
                    .check(number, 0, cursor.value(), &mut Vec::new())?;
                if number + 1 < first + entries {
                    cursor.next().map_err(failed)?;
                }
            }
        }
        Ok((pages(&self.fs) - before) as f64 / count.max(1) as f64)
    }

    fn look(&mut self, index: Option<u64>) -> Result<()> {
        let mut buf = [0; MAX_KEY];
        match index {
            None => {
                let number = self.random.random_range(0..self.data.keys.entries());
                // Never the same twice: filters answer a key alike each time.
                let mut key = self.data.keys.absent(number, &mut buf).to_vec();
                key.extend_from_slice(&self.random.random::<u64>().to_le_bytes());
                match self.db.get(key).map_err(failed)? {
                    None => Ok(()),
                    Some(_) => Err(Error::WrongAnswer(format!("absent key {number} found"))),
                }
            }
            Some(index) => {
                let number = self.order.apply(index);
                let key = self.data.keys.key(number, &mut buf);
                let found = self.db.get(key).map_err(failed)?;
                let missing = || Error::WrongAnswer(format!("entry {number} is missing"));
                let found = found.ok_or_else(missing)?;
                self.data.values.check(number, 0, &found, &mut Vec::new())
            }
        }
    }

    /// Reads of data, of filters and indexes, and searches in vain, so far.
    fn counts(&self) -> [u64; 3] {
        let stats = self.db.stats();
        let counters: &Counters = &stats.counters;
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        let in_vain = levels.map(|level| level.lookups.false_positives).sum();
        let others = counters.index_reads + counters.filter_reads;
        [counters.data_reads, others, in_vain]
    }
}
