//! Statistics: what is on storage, in memory, and what was done.

use serde::Serialize;

use super::DbInner;
use super::keyspace::KeyspaceInner;
use crate::cache::MemoryUsage;
use crate::metrics::Counters;

/// A picture of the database.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The keyspaces.
    pub keyspaces: Vec<KeyspaceStatistics>,
    /// Memory of the budget (shared budgets count all their databases).
    pub memory: MemoryUsage,
    /// Counts since the database was opened.
    pub counters: Counters,
    /// Snapshots and iterators held.
    pub snapshots: usize,
    /// Tables open.
    pub open_tables: usize,
    /// Whether writes are stopped, and why.
    pub writes_stopped: Option<String>,
    /// Whether compactions are stopped, and why.
    pub compactions_stopped: Option<String>,
}

/// A picture of one keyspace.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct KeyspaceStatistics {
    /// Its name.
    pub name: String,
    /// Bytes of the memtables.
    pub memtable_bytes: u64,
    /// Entries of the memtables.
    pub memtable_entries: u64,
    /// Memtables waiting to be flushed.
    pub frozen_memtables: usize,
    /// Its levels from the newest.
    pub levels: Vec<LevelStatistics>,
}

/// A picture of one level.
#[derive(Debug, Clone, Serialize)]
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
    /// Bytes of filter blocks.
    pub filter_bytes: u64,
    /// Bytes of index blocks.
    pub index_bytes: u64,
    /// Filter bits written for each entry.
    pub bits_per_key: f64,
    /// Times a lookup asked a table here.
    pub probes: u64,
    /// Times it held the key.
    pub positives: u64,
}

impl DbInner {
    pub(crate) fn statistics(&self) -> Statistics {
        let reason = |error: &Option<std::sync::Arc<crate::error::Error>>| {
            error.as_ref().map(|error| error.to_string())
        };
        Statistics {
            keyspaces: self
                .all_keyspaces()
                .iter()
                .map(|keyspace| keyspace_statistics(keyspace))
                .collect(),
            memory: self.options.memory.usage(),
            counters: self.metrics.snapshot(),
            snapshots: self.snapshots.len(),
            open_tables: self.tables.open_count(),
            writes_stopped: reason(&self.poison.load()),
            compactions_stopped: reason(&self.compaction_error.load()),
        }
    }

    pub(crate) fn approximate_size(&self, keyspace: &KeyspaceInner, from: &[u8], to: &[u8]) -> u64 {
        let state = keyspace.state.load();
        let mut total = 0;
        for file in state.version.files() {
            if to <= &*file.smallest || from > &*file.largest || from >= to {
                continue;
            }
            if from <= &*file.smallest && to > &*file.largest {
                total += file.size;
            } else if let Ok(table) = self.tables.get(file.number, &file.slot) {
                total += table.offset_of(to).saturating_sub(table.offset_of(from));
            }
        }
        total
    }
}

fn keyspace_statistics(keyspace: &KeyspaceInner) -> KeyspaceStatistics {
    let state = keyspace.state.load();
    let memtables = || std::iter::once(&state.active).chain(&state.frozen);
    let levels = state
        .version
        .levels()
        .iter()
        .enumerate()
        .map(|(number, level)| {
            let sum = |of: fn(&crate::version::FileMeta) -> u64| {
                level.files().map(|file| of(file)).sum::<u64>()
            };
            let entries = level.entries();
            let filter_bytes = sum(|file| file.filter_bytes);
            LevelStatistics {
                level: number,
                runs: level.runs().len(),
                files: level.files().count(),
                bytes: level.size(),
                entries,
                tombstones: sum(|file| file.tombstones),
                filter_bytes,
                index_bytes: sum(|file| file.index_bytes),
                bits_per_key: if entries == 0 {
                    0.0
                } else {
                    filter_bytes as f64 * 8.0 / entries as f64
                },
                probes: sum(|file| file.stats.probes()),
                positives: sum(|file| file.stats.positives()),
            }
        });
    KeyspaceStatistics {
        name: keyspace.name.clone(),
        memtable_bytes: memtables()
            .map(|memtable| memtable.bytes_used() as u64)
            .sum(),
        memtable_entries: memtables().map(|memtable| memtable.len() as u64).sum(),
        frozen_memtables: state.frozen.len(),
        levels: levels.collect(),
    }
}
