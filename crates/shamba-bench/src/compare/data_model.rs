//! What of the data model lies beyond entries, engines side by side: counters, transfers, range
//! deletions, expiry, large values and short scans.
//!
//! Each [`Workload`] runs in a fresh process and a fresh directory, logged and not synced per
//! write, and with everything in memory except for large values and short scans. What it leaves is
//! checked against what the seed says, entry by entry: a lost or doubled write is an error, never a
//! rate. Sizes follow from the two of the comparison, entries and reads.
mod counters;
mod expiring;
mod large_values;
mod numbers;
mod range_delete;
mod short_scans;
mod transfers;

use super::{Cell, Line, Press, Pressed, warmed};
use crate::Result;
use crate::engine::EngineConfig;
use crate::engine::data_model::{self, DataModel, Purpose};
use std::path::Path;

/// What is done to the engines.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Increments of random counters by merge (fjall: in a transaction that reads and writes), then
    /// lookups of them.
    Counters,
    /// Serializable transactions that move an amount between two random accounts, of many and of
    /// few.
    Transfers,
    /// Scans before and after the middle half of the keys is deleted in one write.
    RangeDelete,
    /// Entries that live for two seconds, a scan past them once all have expired, and what a merge
    /// of everything leaves of them.
    Expiring,
    /// Overwrites and lookups of 16 KiB values with memory for a tenth of them.
    LargeValues,
    /// Scans of all that begins with eight bytes, half or all of them empty, with memory for 40 %
    /// of filters and indexes.
    ShortScans,
}

/// A [`Workload`] on the engine of a cell, in a new database.
pub(super) fn measure(
    workload: Workload,
    cell: &Cell,
    dir: &Path,
    press: Press<'_>,
) -> Result<Vec<Line>> {
    let on = |purpose, measure: &dyn Fn(&dyn DataModel) -> Result<Vec<Line>>| {
        let engine = open(cell, dir, purpose)?;
        engine.map_or(Ok(Vec::new()), |engine| measure(engine.as_ref()))
    };
    match workload {
        Workload::Counters => on(Purpose::Counters, &|engine| counters::measure(cell, engine)),
        Workload::Transfers => transfers::measure(cell, dir),
        Workload::RangeDelete => on(Purpose::Entries, &|engine| {
            range_delete::measure(cell, engine)
        }),
        Workload::Expiring => on(Purpose::Expiring, &|engine| {
            expiring::measure(cell, engine, dir)
        }),
        Workload::LargeValues => large_values::measure(cell, dir, press),
        Workload::ShortScans => short_scans::measure(cell, dir, press),
    }
}

/// The part of a [`Workload`] with little memory, of those that have one.
pub(super) fn pressed(workload: Workload, pressed: &Pressed) -> Result<Vec<Line>> {
    match workload {
        Workload::LargeValues => large_values::reads(pressed),
        Workload::ShortScans => short_scans::scans(pressed),
        _ => Ok(Vec::new()),
    }
}

/// Opens the engine of a cell with everything in memory; `None` if it has nothing for the purpose.
fn open(cell: &Cell, dir: &Path, purpose: Purpose) -> Result<Option<Box<dyn DataModel>>> {
    let config = EngineConfig::in_memory(dir.to_owned());
    data_model::open(&cell.engine, &config, purpose)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::compared;
    use crate::{Error, engine};
    use clap::ValueEnum as _;

    /// What a workload finds on this engine, of few entries on two threads.
    fn measured(engine: &str, workload: Workload) -> Result<Vec<Line>> {
        let dir = tempfile::tempdir().unwrap();
        let (mut cell, _) = compared("", &[(engine, 0.0)]).cells.remove(0);
        cell.settings.dir = dir.path().to_owned();
        cell.settings.entries = 20_000;
        cell.threads = 2;
        cell.workload = Some(workload);
        cell.measure_by(&Pressed::measure_here)
    }

    /// The checks at the end of each are part of it.
    #[test]
    fn every_workload_runs_on_each_engine_and_leaves_what_it_should() {
        for &workload in Workload::value_variants() {
            // One of them keeps nothing on disk, to be opened again.
            let kept = engine::available()
                .into_iter()
                .filter(|&name| name != "memory");
            for engine in kept {
                let lines = measured(engine, workload).unwrap();
                let rates = lines.iter().filter(|line| line.p99_us.is_some());
                assert!(rates.clone().all(|line| line.value > 0.0), "{lines:?}");
                if engine == "shamba" {
                    assert!(rates.count() >= 2, "{workload:?}: {lines:?}");
                }
            }
        }
    }

    #[test]
    fn an_engine_without_any_of_it_has_no_lines_and_an_unknown_one_is_an_error() {
        let entries = [
            Workload::Counters,
            Workload::Transfers,
            Workload::RangeDelete,
            Workload::Expiring,
        ];
        for workload in entries {
            assert_eq!(measured("memory", workload).unwrap(), []);
        }
        let unknown = measured("granite", Workload::Counters);
        assert!(matches!(unknown, Err(Error::UnknownEngine(_))));
    }

    #[test]
    fn rows_of_a_workload_stand_together_and_have_ratios() {
        let mut compared = compared("counter increments", &[("ours", 6.0), ("theirs", 4.0)]);
        compared.settings.workloads = vec![Workload::Counters];
        for (_, lines) in &mut compared.cells {
            lines.insert(0, Line::fact("conflicts/transfer", 2.0));
        }
        let table = compared.table();
        let names: Vec<String> = table.rows.iter().map(|row| row[0].to_string()).collect();
        assert_eq!(names, ["conflicts/transfer", "counter increments"]);
        let ratio = table.number(&table.rows[1], "ours / theirs");
        assert_eq!(ratio, Some(1.5));
    }
}
