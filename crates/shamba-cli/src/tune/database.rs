//! What an open database tells `tune` of its data and of the lookups it has seen.

use std::path::Path;

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
    opened.close()?;
    Ok(Known {
        inputs,
        empty: empty_share(&stats.counters),
    })
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
