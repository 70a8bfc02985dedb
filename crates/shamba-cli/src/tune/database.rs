//! What an open database tells `tune` of its data and of the lookups it has seen.
//!
//! [`Known`] is all that the rest of `tune` learns of a database: its inputs stand for what nobody
//! gave, its measurements are only shown. What the engine learns to measure of itself joins here.

use std::path::Path;

use serde::Serialize;
use shamba::{Counters, KeyspaceStatistics, LevelStatistics};

use super::inputs::Inputs;
use super::value::Number;
use crate::args::Global;
use crate::failure::Failure;
use crate::open::{Access, EngineArgs, open};
use crate::stats::look_up;

/// What was found out.
#[derive(Debug, Default)]
pub struct Known {
    /// Entries, their size and the filter bits written for them.
    pub inputs: Inputs,
    /// The share of point lookups whose key did not exist, if any were made.
    pub empty: Option<f64>,
    /// What the model's predictions can be set beside.
    pub measured: Measured,
}

/// What was measured in a keyspace.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Measured {
    /// Entries in memtables.
    pub buffered: u64,
    /// From level 0, of flushed memtables, to the last that holds any.
    pub levels: Vec<MeasuredLevel>,
    /// What the lookups since the database was opened did, if there were any.
    pub lookups: Option<MeasuredLookups>,
}

/// A level as it is.
#[derive(Debug, Clone, Serialize)]
pub struct MeasuredLevel {
    pub level: usize,
    pub runs: usize,
    pub entries: u64,
    /// Of files: entries, filters and index.
    pub bytes: u64,
    /// Filter bits written for each entry.
    pub bits_per_key: f64,
    /// The share of visits for absent keys that searched in vain.
    pub false_positive_rate: Option<f64>,
    /// The same as the model predicts it for the filters that are there.
    pub predicted_false_positive_rate: Option<f64>,
}

/// What lookups did.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MeasuredLookups {
    pub lookups: u64,
    /// The share of them that found their key.
    pub positive: f64,
    /// Tables whose data a lookup searched, from memory or storage: what the model counts as reads.
    pub searched: f64,
    /// Storage reads of data blocks for each lookup; the cache saved the others.
    pub data_reads: f64,
    /// Of index blocks, which the model takes to be in memory.
    pub index_reads: f64,
    /// Of filter blocks, which the model takes to be in memory.
    pub filter_reads: f64,
}

/// Asks the database in `dir`. It is opened with memory of its own: `--memory` is what is to be
/// tuned, and may be less than any database can do with. What lookups find is not kept when a
/// database closes; a file of `keys` makes some.
pub fn ask(global: &Global, dir: &Path, keys: Option<&Path>) -> Result<Known, Failure> {
    let global = Global {
        memory: None,
        keyspace: global.keyspace.clone(),
        quiet: global.quiet,
    };
    let opened = open(&global, dir, Access::Read, &EngineArgs::default())?;
    if let Some(path) = keys {
        look_up(&opened.keyspace, path, global.quiet)?;
    }
    let stats = opened.db.stats();
    let name = opened.keyspace.name();
    let known = stats.keyspaces.iter().find(|known| known.name == name);
    let inputs = known.map(inputs_of).unwrap_or_default();
    let measured = known.map(|known| measured(known, &stats.counters));
    opened.close()?;
    Ok(Known {
        inputs,
        empty: empty_share(&stats.counters),
        measured: measured.unwrap_or_default(),
    })
}

fn measured(keyspace: &KeyspaceStatistics, counters: &Counters) -> Measured {
    let used = |level: &LevelStatistics| level.entries > 0;
    let deepest = keyspace.levels.iter().rposition(used);
    let levels = keyspace.levels.iter().take(deepest.map_or(0, |at| at + 1));
    let levels = levels.map(|level| MeasuredLevel {
        level: level.level,
        runs: level.runs,
        entries: level.entries,
        bytes: level.bytes,
        bits_per_key: level.bits_per_key,
        false_positive_rate: level.lookups.false_positive_rate(),
        predicted_false_positive_rate: level.lookups.predicted_false_positive_rate(),
    });
    let in_vain = |level: &LevelStatistics| level.lookups.false_positives;
    let in_vain: u64 = keyspace.levels.iter().map(in_vain).sum();
    let lookups = counters.lookups as f64;
    let each = |count: u64| count as f64 / lookups;
    Measured {
        buffered: keyspace.memtable_entries,
        levels: levels.collect(),
        lookups: (lookups > 0.0).then(|| MeasuredLookups {
            lookups: counters.lookups,
            positive: each(counters.lookups_found),
            searched: each(counters.lookups_found + in_vain),
            data_reads: each(counters.data_reads),
            index_reads: each(counters.index_reads),
            filter_reads: each(counters.filter_reads),
        }),
    }
}

/// The share of lookups whose key was not there, if there were any.
fn empty_share(counters: &Counters) -> Option<f64> {
    let absent = counters.lookups.saturating_sub(counters.lookups_found) as f64;
    (counters.lookups > 0).then(|| absent / counters.lookups as f64)
}

fn inputs_of(keyspace: &KeyspaceStatistics) -> Inputs {
    let sum = |of: fn(&LevelStatistics) -> u64| keyspace.levels.iter().map(of).sum::<u64>() as f64;
    let stored = sum(|level| level.entries);
    let filters = sum(|level| level.filter_bytes);
    let data = sum(|level| level.bytes) - filters - sum(|level| level.index_bytes);
    let buffered = keyspace.memtable_entries as f64;
    let mut inputs = Inputs {
        entries: Some(Number(stored + buffered)),
        ..Inputs::default()
    };
    let tenths = |number: f64| Some(Number((number * 10.0).round() / 10.0));
    if stored > 0.0 {
        inputs.entry_size = tenths((data / stored).max(0.1));
        inputs.present_bits_per_key = tenths(filters * 8.0 / stored);
    } else if buffered > 0.0 {
        inputs.entry_size = tenths(keyspace.memtable_bytes as f64 / buffered);
    }
    inputs
}
