//! A full tree in memory, and lookups in it that are counted and checked.
use super::{Filters, FullTree, PAGE};
use crate::runner::Data;
use crate::workload::{KeyKind, KeySpace, MAX_KEY, Permutation, Random, ValueSpec, random};
use crate::{Error, Result};
use rand::RngExt as _;
use shamba::fs::{MemFs, MeteredFs, Purpose};
use shamba::{
    Db, Eviction, FilterAllocation, FilterFamily, FilterOptions, FilterPolicy, Granularity,
    IterOptions, KeyspaceOptions, LevelStatistics, MemoryBudget, MergePolicy, Options, Role,
};
use shamba_model::tree;
use std::sync::Arc;

/// Bytes of budget while the tree is written.
const LOAD_MEMORY: u64 = 256 << 20;

/// Bytes of cache where there is to be none: what a lookup needs for itself.
const ROOM: u64 = 64 << 10;

/// By how much the pages of a flush are larger than the write buffer: more than 1, less than
/// `T/(T-1)`, indexes and filters being some more.
const OVER: f64 = 1.02;

/// Existing lookups for each empty one, where all are to be existing.
const ALL_EXISTING: f64 = 1e9;

/// A written tree.
pub(super) struct Written {
    /// Filter bits per key that it has.
    pub(super) bits_per_key: f64,
    /// Times an entry was written by flushes and merges.
    pub(super) writes: f64,
    /// Bytes of its tables.
    bytes: f64,
    db: Db,
    fs: MeteredFs,
    memory: MemoryBudget,
    /// Memory that is to be no room for anything.
    held: Option<Box<dyn Send + Sync>>,
    data: Data,
    order: Permutation,
    random: Random,
}

/// The database, empty. What it reads is counted.
fn open(tree: &FullTree, memory: &MemoryBudget) -> Result<(Db, MeteredFs)> {
    let filter = FilterOptions::new()
        .family(FilterFamily::Bloom)
        .bits_per_key(tree.bits_per_key)
        .allocation(match tree.filters {
            Filters::Uniform => FilterAllocation::Uniform,
            Filters::Zero => FilterAllocation::Monkey,
            Filters::General(positive) => FilterAllocation::MonkeyGeneral {
                existing_per_empty: (positive / (1.0 - positive)).min(ALL_EXISTING),
            },
        });
    let keyspace = KeyspaceOptions::new()
        .merge_policy(match tree.policy {
            tree::MergePolicy::Leveling => MergePolicy::Leveling {
                granularity: Granularity::Level,
            },
            tree::MergePolicy::Tiering => MergePolicy::Tiering,
            tree::MergePolicy::LazyLeveling => MergePolicy::LazyLeveling,
        })
        .size_ratio(tree.size_ratio)
        .write_buffer(write_buffer(tree))
        .level0_runs(1)
        .target_file(1 << 40)
        .filter(filter)
        .filter_policy(FilterPolicy::All);
    let fs = MeteredFs::new(Arc::new(MemFs::new()));
    let db = Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(memory.clone())
        .eviction(Eviction::TwoPriorityLru)
        .background_threads(0)
        .keyspace(keyspace)
        .open("db");
    Ok((db?, fs))
}

/// Bytes of a write buffer with which a level is full when it should be.
fn write_buffer(tree: &FullTree) -> u64 {
    match tree.policy {
        tree::MergePolicy::Leveling => {
            let pages = tree.buffer_entries as f64 / tree.entries_in_page();
            (pages * PAGE as f64 / OVER) as u64
        }
        _ => LOAD_MEMORY / 8,
    }
}

impl Written {
    /// Writes the tree, all entries in a random order.
    pub(super) fn new(tree: &FullTree) -> Result<Self> {
        let memory = MemoryBudget::bytes(LOAD_MEMORY);
        let (db, fs) = open(tree, &memory)?;
        let entries = tree.entries();
        let data = Data::new(
            KeySpace::new(KeyKind::Plain, entries),
            ValueSpec::random(tree.value()),
            tree.seed,
        );
        let order = Permutation::new(entries, tree.seed);
        let (mut buf, mut value) = ([0; MAX_KEY], Vec::new());
        for index in 0..entries {
            let number = order.apply(index);
            data.values.write(number, &mut value);
            db.put(data.keys.key(number, &mut buf), &value)?;
            if (index + 1) % tree.buffer_entries == 0 {
                db.flush()?;
                db.wait_for_compaction()?;
            }
        }
        let stats = db.stats();
        let levels = &stats.keyspaces[0].levels;
        check_shape(&tree.tree()?, levels)?;
        let sum = |of: fn(&LevelStatistics) -> u64| levels.iter().map(of).sum::<u64>() as f64;
        let bytes = sum(|level| level.bytes);
        let written = stats.counters.flush_bytes + stats.counters.compaction_bytes_written;
        Ok(Self {
            bits_per_key: sum(|level| level.filter_bytes) * 8.0 / entries as f64,
            writes: written as f64 / bytes,
            bytes,
            random: random(tree.seed, 1),
            db,
            fs,
            memory,
            held: None,
            data,
            order,
        })
    }

    /// Filters and indexes come into memory; then there is room for them and a share of the data.
    /// What is left of the least budget is held.
    pub(super) fn make_room(&mut self, share: f64, warm_up: u64) -> Result<()> {
        self.look_up(warm_up, |_| None)?;
        // Where filters hardly err, absent keys alone bring no index.
        let entries = self.data.keys.entries();
        self.look_up(warm_up, |random| Some(random.random_range(0..entries)))?;
        let used = self.memory.usage().budget;
        let data = used.by_role.iter().filter(|(role, _)| *role == Role::Data);
        let rest = used.used - data.map(|(_, bytes)| bytes).sum::<u64>();
        let wanted = rest + ((self.bytes * share) as u64).max(ROOM);
        let limit = wanted.max(shamba::MIN_MEMORY);
        self.memory.set_limit(limit)?;
        self.held = self.memory.hold(limit - wanted);
        Ok(())
    }

    /// So many lookups, each of the entry that was written as the one `draw` says, the first being
    /// 0, or of an absent key: searches in vain and pages read of one, on average. Every answer is
    /// checked.
    pub(super) fn look_up(
        &mut self,
        count: u64,
        mut draw: impl FnMut(&mut Random) -> Option<u64>,
    ) -> Result<(f64, f64)> {
        let before = self.counts();
        for _ in 0..count {
            let index = draw(&mut self.random);
            self.look(index)?;
        }
        let after = self.counts();
        let each = |before, after| (after - before) as f64 / count.max(1) as f64;
        Ok((each(before.0, after.0), each(before.1, after.1)))
    }

    /// Pages that a scan of so many entries reads, on average over so many scans from any entry on.
    pub(super) fn scan(&mut self, count: u64, entries: u64) -> Result<f64> {
        let pages = |fs: &MeteredFs| fs.counts().reads_for(Purpose::Scan).pages;
        let before = pages(&self.fs);
        let (keys, values) = (&self.data.keys, &self.data.values);
        let last = keys.entries().saturating_sub(entries).max(1);
        for _ in 0..count {
            let first = self.random.random_range(0..last);
            let mut cursor = self.db.cursor(IterOptions::default())?;
            cursor.seek(keys.key(first, &mut [0; MAX_KEY]))?;
            for number in first..first + entries {
                if !cursor.valid() || keys.number(cursor.key()) != Some(number) {
                    return Err(Error::WrongAnswer(format!("a scan lacks entry {number}")));
                }
                values.check(number, cursor.value(), &mut Vec::new())?;
                if number + 1 < first + entries {
                    cursor.next()?;
                }
            }
        }
        Ok((pages(&self.fs) - before) as f64 / count.max(1) as f64)
    }

    fn look(&mut self, index: Option<u64>) -> Result<()> {
        let mut buf = [0; MAX_KEY];
        let Some(index) = index else {
            let number = self.random.random_range(0..self.data.keys.entries());
            // Never the same twice: filters answer a key alike each time.
            let mut key = self.data.keys.absent(number, &mut buf).to_vec();
            key.extend_from_slice(&self.random.random::<u64>().to_le_bytes());
            return match self.db.get(key)? {
                None => Ok(()),
                Some(_) => Err(Error::WrongAnswer(format!("absent key {number} found"))),
            };
        };
        let number = self.order.apply(index);
        let found = self.db.get(self.data.keys.key(number, &mut buf));
        let missing = || Error::WrongAnswer(format!("entry {number} is missing"));
        let found = found?.ok_or_else(missing)?;
        self.data.values.check(number, &found, &mut Vec::new())
    }

    /// Searches in vain and pages read, so far.
    fn counts(&self) -> (u64, u64) {
        let stats = self.db.stats();
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        let reads = &stats.counters;
        (
            levels.map(|level| level.lookups.false_positives).sum(),
            reads.data_reads + reads.index_reads + reads.filter_reads,
        )
    }
}

/// Fails unless the levels have the model's runs.
fn check_shape(tree: &tree::Tree, levels: &[LevelStatistics]) -> Result<()> {
    let wanted =
        (1..=tree.levels()).map(|level| (tree.runs(level), tree.entries_at(level).round()));
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
