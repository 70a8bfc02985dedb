//! What a database tells of its data and of the lookups it has seen.
//!
//! [`Known`] is all that the rest of this crate learns of a database: its inputs stand for what
//! nobody gave, its measurements are only shown. A database keeps its design once that was changed,
//! but counts operations only while it is open: one that was opened to be asked has counted none.

use std::path::Path;

use serde::Serialize;
use shamba::{
    Counters, Design, Keyspace, KeyspaceStatistics, LevelStatistics, MergePolicy, Options,
    Statistics,
};
use shamba_model::cost::Workload;

use crate::error::Result;
use crate::inputs::Inputs;
use crate::value::{Number, Policy};

/// What was found out.
#[derive(Debug, Default)]
pub struct Known {
    /// Entries, their size, the filter bits written for them, and the design if the database keeps
    /// one.
    pub inputs: Inputs,
    /// Whether the filter bits are those of the design, there being no files that have any.
    pub bits_of_design: bool,
    /// Whether the tree has yet to reach the design.
    pub moving: bool,
    /// The operations that the database counted, if any.
    pub workload: Option<Workload>,
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
    /// 0 is that of flushed memtables.
    pub level: usize,
    /// Its sorted runs.
    pub runs: usize,
    /// Its entries, old versions and deletions included.
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
    /// How many there were.
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

/// Asks the database in `dir` about a keyspace, the default one if there is no name. It is opened
/// with memory of its own, a quarter of the container's: the memory that is to be tuned may be less
/// than any database can do with. It is only read, so that it may be open elsewhere.
///
/// What lookups find is not kept when a database closes; `look_up` may make some.
///
/// # Errors
/// The engine's, where the database or the keyspace cannot be read, and those of `look_up`.
pub fn ask<E: From<shamba::Error>>(
    dir: &Path,
    keyspace: Option<&str>,
    look_up: Option<impl FnOnce(&Keyspace) -> Result<(), E>>,
) -> Result<Known, E> {
    let db = Options::new()
        .create_if_missing(false)
        .read_only(true)
        .open(dir)?;
    let keyspace = match keyspace {
        None => db.default_keyspace(),
        Some(name) => db.keyspace(name)?,
    };
    let sampled = look_up.is_some();
    if let Some(look_up) = look_up {
        look_up(&keyspace)?;
    }
    let known = known_of(&db.stats(), keyspace.name(), sampled);
    drop(keyspace);
    db.close()?;
    Ok(known)
}

/// What the statistics tell of the keyspace `name`. Where lookups are `sampled` they are no
/// workload: they say how many are empty, and nothing of the rest.
fn known_of(stats: &Statistics, name: &str, sampled: bool) -> Known {
    let empty = empty_share(&stats.counters);
    let Some(keyspace) = stats.keyspaces.iter().find(|known| known.name == name) else {
        return Known {
            empty,
            ..Known::default()
        };
    };
    let mut known = Known {
        inputs: inputs_of(keyspace),
        moving: keyspace.moving,
        empty,
        measured: measured(keyspace, &stats.counters),
        ..Known::default()
    };
    known.bits_of_design = known.inputs.present_bits_per_key.is_none();
    known.inputs = known.inputs.over(design_inputs(&keyspace.design));
    // What was in the log counts as updates when it is replayed, and says nothing of use.
    let of_use = |workload: &Workload| workload.updates < 1.0;
    if let Some(workload) = keyspace.workload.model().filter(of_use)
        && !sampled
    {
        known.workload = Some(workload);
        let entries = keyspace.workload.entries_per_range;
        if entries > 0.0 {
            known.inputs.range_entries = Some(tenths(entries.min(keyspace.workload.entries)));
        }
    }
    known
}

fn design_inputs(design: &Design) -> Inputs {
    Inputs {
        present_merge_policy: Some(match design.merge_policy {
            MergePolicy::Tiering => Policy::Tiering,
            MergePolicy::LazyLeveling => Policy::LazyLeveling,
            _ => Policy::Leveling,
        }),
        present_size_ratio: Some(Number(f64::from(design.size_ratio))),
        present_write_buffer: Some(Number(design.write_buffer as f64)),
        present_bits_per_key: Some(Number(design.bits_per_key)),
        ..Inputs::default()
    }
}

fn tenths(number: f64) -> Number {
    Number((number * 10.0).round() / 10.0)
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
    if stored > 0.0 {
        inputs.entry_size = Some(tenths((data / stored).max(0.1)));
        inputs.present_bits_per_key = Some(tenths(filters * 8.0 / stored));
    } else if buffered > 0.0 {
        inputs.entry_size = Some(tenths(keyspace.memtable_bytes as f64 / buffered));
    }
    inputs
}

#[cfg(test)]
mod tests {
    use shamba::{Db, IterOptions, Options};

    use super::*;
    use crate::merged::UPDATES;
    use crate::problem::Problem;

    /// A new database of 100 keys.
    fn opened(dir: &Path) -> Db {
        let db = Options::new().open(dir).unwrap();
        for key in 0..100u8 {
            db.put([key], [key; 100]).unwrap();
        }
        db
    }

    fn known(db: &Db, sampled: bool) -> Known {
        known_of(&db.stats(), db.default_keyspace().name(), sampled)
    }

    #[test]
    fn counted_operations_are_the_workload() {
        let dir = tempfile::tempdir().unwrap();
        let db = opened(dir.path());
        // Updates alone may be those of a log.
        assert_eq!(known(&db, false).workload, None);
        for key in 0..150u8 {
            db.get([key]).unwrap();
        }
        for from in 0..50u8 {
            let mut range = db.cursor(IterOptions::default()).unwrap();
            range.seek([from]).unwrap();
            assert!(range.valid());
        }
        let workload = known(&db, false).workload.unwrap();
        for (got, want) in [
            (workload.empty_lookups, 50.0),
            (workload.existing_lookups, 100.0),
            (workload.range_lookups, 50.0),
            (workload.updates, 100.0),
        ] {
            // The first updates were looked at before, and have faded a little since.
            assert!((got - want / 300.0).abs() < 0.01, "{workload:?}");
        }
        // Of a sample only the share of empty lookups counts.
        let sampled = known(&db, true);
        assert_eq!(sampled.workload, None);
        assert_eq!(sampled.empty, Some(1.0 / 3.0));

        let problem = Problem::new(Inputs::default(), Some(known(&db, false))).unwrap();
        assert!((problem.request.workload.range_lookups - 1.0 / 6.0).abs() < 0.01);
        let told = problem.from_database.join("; ");
        assert!(told.contains(" % (of the operations"), "{told}");
        assert!(told.contains("range-entries 1 (of the range"), "{told}");
        let assumed = problem.assumed.join("; ");
        assert!(!assumed.contains("updates"), "{assumed}");
        // What is given comes before what was counted.
        let given = Inputs {
            updates: Some(Number(1.0)),
            ..Inputs::default()
        };
        let problem = Problem::new(given, Some(known(&db, false))).unwrap();
        assert_eq!(problem.request.workload.updates, 1.0);
    }

    /// What a crash leaves is replayed when the database is asked, and is nobody's operations.
    #[test]
    fn a_replayed_log_is_no_workload() {
        let (dir, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let db = opened(dir.path());
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), crashed.path().join(file.file_name())).unwrap();
        }
        drop(db);
        let no_lookups = None::<fn(&Keyspace) -> Result<()>>;
        let known = ask(crashed.path(), None, no_lookups).unwrap();
        assert_eq!(known.inputs.entries, Some(Number(100.0)));
        assert_eq!(known.workload, None);
        let problem = Problem::new(Inputs::default(), Some(known)).unwrap();
        assert_eq!(problem.request.workload.updates, UPDATES);
    }

    #[test]
    fn the_design_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let db = opened(dir.path());
        let before = known(&db, false);
        assert_eq!(before.inputs.present_size_ratio, Some(Number(10.0)));
        assert_eq!(before.inputs.present_bits_per_key, Some(Number(10.0)));
        let design = db.default_keyspace().design();
        let design = design.merge_policy(MergePolicy::Tiering).bits_per_key(5.5);
        db.redesign(design).unwrap();
        // No file says yet how many bits there are.
        let known = known(&db, false);
        assert_eq!(known.inputs.present_merge_policy, Some(Policy::Tiering));
        assert_eq!(known.inputs.present_size_ratio, Some(Number(10.0)));
        assert_eq!(known.inputs.present_bits_per_key, Some(Number(5.5)));
        assert!(known.bits_of_design);
    }
}
