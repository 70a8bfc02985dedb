//! Statistics for people: what is on storage, in memory, and what was done. Nothing is decided by
//! them.

mod display;
mod marginal_value;

use std::collections::HashMap;
use std::sync::Arc;

use super::DbInner;
use super::keyspaces::KeyspaceInner;
use super::keyspaces::level_counters::{LevelLookups, MODULES};
use super::keyspaces::workload::WorkloadEstimate;
use crate::base::clock::Moment;
use crate::cache::MemoryUsage;
use crate::error::{Error, Result};
use crate::fs::{BlockKind, PAGE};
use crate::metrics::Counters;
use crate::options::Design;
use crate::version::{Level, Version};
pub use marginal_value::MarginalValue;

/// A picture of the database. Shown by `{}` it is a few lines for people.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Statistics {
    /// The keyspaces.
    pub keyspaces: Vec<KeyspaceStatistics>,
    /// Memory of the budget (shared budgets count all their databases).
    pub memory: MemoryUsage,
    /// What one more page of memory would be worth; `None` with
    /// [`Eviction::TwoPriorityLru`](crate::Eviction), where nobody knows.
    pub marginal_value: Option<MarginalValue>,
    /// Counts since the database was opened.
    pub counters: Counters,
    /// Snapshots and iterators held.
    pub snapshots: usize,
    /// Tables open.
    pub open_tables: usize,
    /// Whether writes are refused for good, and why.
    pub writes_stopped: Option<String>,
    /// Whether flushes keep failing, and why. They are tried again; until one succeeds, writes are
    /// refused.
    pub flushes_stopped: Option<String>,
    /// Whether a keyspace's compactions keep failing, and why. They are tried again.
    pub compactions_stopped: Option<String>,
    /// Bytes of the manifest in use.
    pub manifest_bytes: u64,
    /// Whether no new manifest can be begun in the place of one that has grown long, how often in a
    /// row that failed, and why. The old one goes on, and it is tried again.
    pub manifest_stopped: Option<String>,
}

/// A picture of one keyspace.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KeyspaceStatistics {
    /// Its name.
    pub name: String,
    /// Its design, or the one it moves to.
    pub design: Design,
    /// Whether the tree has yet to reach it.
    pub moving: bool,
    /// What is known of its data and its operations.
    pub workload: WorkloadEstimate,
    /// Bytes of the memtables.
    pub memtable_bytes: u64,
    /// Entries of the memtables.
    pub memtable_entries: u64,
    /// Memtables waiting to be flushed.
    pub frozen_memtables: usize,
    /// Its levels from the newest.
    pub levels: Vec<LevelStatistics>,
    /// Its value files.
    pub values: ValueStatistics,
}

/// A picture of a keyspace's value files
/// ([`value_files_from`](crate::KeyspaceOptions::value_files_from)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ValueStatistics {
    /// Files.
    pub files: usize,
    /// Bytes of files.
    pub bytes: u64,
    /// Bytes of the values in them, before compression.
    pub value_bytes: u64,
    /// How many of these no table points to: more than half of a file are given back by merges
    /// that rewrite what points to the others.
    pub garbage_bytes: u64,
}

/// A picture of one level.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LevelStatistics {
    /// Its number; 0 holds flushed memtables.
    pub level: usize,
    /// Sorted runs.
    pub runs: usize,
    /// Files.
    pub files: usize,
    /// Bytes of files.
    pub bytes: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Fragments of range tombstones.
    pub range_tombstones: u64,
    /// Operands of merge operators that no merge has made values of, but for those of tables which
    /// builds before 0.1.0 wrote: these are not counted.
    pub operands: u64,
    /// Files that have entries with a time to live.
    pub expiring_files: usize,
    /// Those of them in which entries have expired: no reader sees these, and they go when a merge
    /// comes to them, or once all have expired.
    pub expired_files: usize,
    /// Bytes of filter blocks.
    pub filter_bytes: u64,
    /// Bytes of index blocks.
    pub index_bytes: u64,
    /// The same for each page of data, and so for each data block, as nearly all are one page.
    pub index_bytes_per_page: f64,
    /// Filter bits written for each entry.
    pub bits_per_key: f64,
    /// What is in the block cache of the files here.
    pub resident: ResidentBytes,
    /// Filter bits in the block cache for each entry.
    pub resident_bits_per_key: f64,
    /// What lookups did in this level since the database was opened.
    pub lookups: LevelLookups,
}

/// Bytes in the block cache at one moment: the blocks themselves, without what keeping them costs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ResidentBytes {
    /// Of data blocks, decompressed.
    pub data: u64,
    /// Of index blocks.
    pub index: u64,
    /// Of filter blocks and the columns that are there of blocks of columns.
    pub filter: u64,
    /// The same by module, in the order of probing; the sixth stands for all further ones.
    pub modules: Vec<u64>,
}

impl ResidentBytes {
    fn add(&mut self, kind: BlockKind, bytes: u64) {
        match kind {
            BlockKind::Data => self.data += bytes,
            BlockKind::Index => self.index += bytes,
            BlockKind::Filter(module) => {
                let module = usize::from(module).min(MODULES - 1);
                if self.modules.len() <= module {
                    self.modules.resize(module + 1, 0);
                }
                if let Some(sum) = self.modules.get_mut(module) {
                    *sum += bytes;
                }
                self.filter += bytes;
            }
            BlockKind::Footer | BlockKind::Log => {}
        }
    }
}

pub(in crate::db) fn statistics(db: &DbInner) -> Statistics {
    let reason =
        |error: &Option<Arc<crate::error::Error>>| error.as_ref().map(|error| error.to_string());
    let mut keyspaces: Vec<_> = db
        .files()
        .keyspaces()
        .iter()
        .map(|keyspace| keyspace_statistics(keyspace, db.shared().now()))
        .collect();
    add_residents(db, &mut keyspaces);
    let poisoned = db.shared().poisoned_by().clone();
    // One that is only read is refused writes without a reason.
    let poisoned = poisoned.filter(|_| !db.shared().options().read_only);
    let counters = db.shared().metrics().snapshot();
    let (manifest_bytes, manifest_stopped) = {
        let manifest = &db.files().tree().manifest;
        let failed = manifest.failed_rolls();
        let failed = failed.map(|(times, error)| format!("{error} ({times} times in a row)"));
        (manifest.len(), failed)
    };
    Statistics {
        keyspaces: keyspaces
            .into_iter()
            .map(|(keyspace, _)| keyspace)
            .collect(),
        marginal_value: MarginalValue::of(db.files(), &counters),
        counters,
        memory: db.shared().options().memory.usage(),
        snapshots: db.visibility().held(),
        open_tables: db.files().tables().open_count(),
        writes_stopped: reason(&poisoned),
        flushes_stopped: reason(&db.memtables().stuck_flush()),
        compactions_stopped: reason(&db.compactor().stuck()),
        manifest_bytes,
        manifest_stopped,
    }
}

/// Adds what is in the cache to the levels of its files.
fn add_residents(db: &DbInner, keyspaces: &mut [(KeyspaceStatistics, Arc<Version>)]) {
    let mut levels: Vec<&mut LevelStatistics> = Vec::new();
    let mut level_of = HashMap::new();
    for (keyspace, version) in keyspaces {
        let first = levels.len();
        levels.extend(&mut keyspace.levels);
        for (level, run) in version.runs() {
            let files = run.files().iter().map(|file| file.slot().cache_id());
            // A file that was never opened has no blocks there.
            level_of.extend(files.filter(|id| *id != 0).map(|id| (id, first + level)));
        }
    }
    db.shared()
        .options()
        .memory
        .cache()
        .each_resident(|file, kind, bytes| {
            let level = level_of.get(&file).and_then(|at| levels.get_mut(*at));
            if let Some(level) = level {
                level.resident.add(kind, bytes);
            }
        });
    for level in levels {
        level.resident_bits_per_key = bits_per_key(level.resident.filter, level.entries);
    }
}

pub(in crate::db) fn approximate_size(
    db: &DbInner,
    keyspace: &KeyspaceInner,
    from: &[u8],
    to: &[u8],
) -> u64 {
    let state = keyspace.state();
    let mut total = 0;
    for file in state.version.files() {
        if to <= file.smallest() || from > file.largest() || from >= to {
            continue;
        }
        let bytes = if from <= file.smallest() && to > file.largest() {
            file.size()
        } else if let Ok(table) = db.files().tables().get(file) {
            table.offset_of(to).saturating_sub(table.offset_of(from))
        } else {
            continue;
        };
        // Of the values that it points to as much as of its entries.
        let values: u64 = file.pointed_to().map(|(_, bytes)| bytes).sum();
        let part = bytes as f64 / file.size().max(1) as f64;
        total += bytes + (values as f64 * part) as u64;
    }
    total
}

/// About how many keys a keyspace holds: what was written, less two for each deletion.
pub(in crate::db) fn approximate_len(keyspace: &KeyspaceInner) -> u64 {
    let state = keyspace.state();
    let sums = state.version.sums();
    let in_memory: u64 = state.memtables().map(|of| of.len() as u64).sum();
    (sums.entries + in_memory).saturating_sub(2 * sums.tombstones)
}

/// The bytes of a database's files.
pub(in crate::db) fn size_on_disk(db: &DbInner) -> Result<u64> {
    let (dir, mut total) = (db.shared().dir(), 0);
    let visited = db.shared().fs().visit(dir, &mut |_, len| total += len);
    visited.map_err(|e| Error::io("list", dir, e))?;
    Ok(total)
}

fn bits_per_key(bytes: u64, entries: u64) -> f64 {
    match entries {
        0 => 0.0,
        entries => bytes as f64 * 8.0 / entries as f64,
    }
}

fn level_statistics(
    keyspace: &KeyspaceInner,
    number: usize,
    level: &Level,
    now: Moment,
) -> LevelStatistics {
    let files = level.runs().iter().flat_map(|run| run.files());
    let expiring = files.map(|file| file.expiry());
    let expiring = expiring.filter(|expiry| expiry.first > 0);
    let (expiring_files, expired_files) = expiring.fold((0, 0), |(all, expired), expiry| {
        (all + 1, expired + usize::from(expiry.first <= now))
    });
    let sums = level.sums();
    let (entries, filter_bytes) = (sums.entries, sums.filter_bytes);
    let metadata = filter_bytes.saturating_add(sums.index_bytes);
    let data_pages = sums.size.saturating_sub(metadata) / PAGE as u64;
    LevelStatistics {
        level: number,
        runs: level.runs().len(),
        files: sums.files,
        bytes: sums.size,
        entries,
        tombstones: sums.tombstones,
        range_tombstones: sums.ranges,
        operands: sums.operands,
        expiring_files,
        expired_files,
        filter_bytes,
        index_bytes: sums.index_bytes,
        index_bytes_per_page: sums.index_bytes as f64 / data_pages.max(1) as f64,
        bits_per_key: bits_per_key(filter_bytes, entries),
        resident: ResidentBytes::default(),
        resident_bits_per_key: 0.0,
        lookups: keyspace.level_counters().snapshot(number),
    }
}

fn value_statistics(version: &Version) -> ValueStatistics {
    let mut sums = ValueStatistics::default();
    for held in version.value_files().iter() {
        sums.files += 1;
        sums.bytes += held.file.size();
        sums.value_bytes += held.bytes();
        sums.garbage_bytes += held.garbage();
    }
    sums
}

/// A keyspace's statistics at a moment but for what is in the cache, and the version they are of.
fn keyspace_statistics(
    keyspace: &KeyspaceInner,
    now: Moment,
) -> (KeyspaceStatistics, Arc<Version>) {
    let state = keyspace.state();
    let memtables = || state.memtables();
    let present = state.version.levels();
    // Levels that are empty now may have been probed.
    let count = present.len().max(keyspace.level_counters().levels());
    let none = Level::default();
    let levels = (0..count).map(|number| {
        let level = present.get(number).unwrap_or(&none);
        level_statistics(keyspace, number, level, now)
    });
    let statistics = KeyspaceStatistics {
        name: keyspace.name().to_owned(),
        design: keyspace.options().design(),
        moving: keyspace.moving().is_some(),
        workload: WorkloadEstimate::of(keyspace),
        memtable_bytes: memtables()
            .map(|memtable| memtable.bytes_used() as u64)
            .sum(),
        memtable_entries: memtables().map(|memtable| memtable.len() as u64).sum(),
        frozen_memtables: state.frozen.len(),
        levels: levels.collect(),
        values: value_statistics(&state.version),
    };
    (statistics, Arc::clone(&state.version))
}
