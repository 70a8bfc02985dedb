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

pub use large_values::LargeReads;
pub use short_scans::ShortScans;

use super::{Cell, Compared, Line, Settings, note_rates};
use crate::Result;
use crate::cell::{self, Measurement};
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

/// A [`Workload`] on one engine and so many threads, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct WorkloadCell {
    cell: Cell,
    workload: Workload,
}

impl Measurement for WorkloadCell {
    type Found = Vec<Line>;

    fn measure(&self) -> Result<Vec<Line>> {
        self.measure_by(|reads| cell::measure(&reads), |scans| cell::measure(&scans))
    }
}

impl WorkloadCell {
    fn measure_by(
        &self,
        look_up: impl FnOnce(LargeReads) -> Result<Vec<Line>>,
        scan: impl FnOnce(ShortScans) -> Result<Vec<Line>>,
    ) -> Result<Vec<Line>> {
        let dir = tempfile::TempDir::with_prefix_in("compare-", &self.cell.settings.dir)?;
        match self.workload {
            Workload::Counters => counters::measure(&self.cell, dir.path()),
            Workload::Transfers => transfers::measure(&self.cell, dir.path()),
            Workload::RangeDelete => range_delete::measure(&self.cell, dir.path()),
            Workload::Expiring => expiring::measure(&self.cell, dir.path()),
            Workload::LargeValues => large_values::measure(&self.cell, dir.path(), look_up),
            Workload::ShortScans => short_scans::measure(&self.cell, dir.path(), scan),
        }
    }
}

/// Opens the engine of a cell with everything in memory; `None` if it has nothing for the purpose.
fn open(cell: &Cell, dir: &Path, purpose: Purpose) -> Result<Option<Box<dyn DataModel>>> {
    data_model::open(
        &cell.engine,
        &EngineConfig::in_memory(dir.to_owned()),
        purpose,
    )
}

/// Runs the workloads of the settings on each engine in turn.
pub(super) fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Compared> {
    let mut cells = Vec::new();
    for repetition in 0..settings.repeat.max(1) {
        for &workload in &settings.workloads {
            for &threads in &settings.threads {
                for engine in &settings.engines {
                    let cell = Cell {
                        settings: settings.clone(),
                        engine: engine.clone(),
                        threads,
                        seed: settings.seed + repetition as u64,
                    };
                    let lines = cell::measure(&WorkloadCell {
                        cell: cell.clone(),
                        workload,
                    })?;
                    note_rates(repetition, &cell, &lines, note);
                    cells.push((cell, lines));
                }
            }
        }
    }
    Ok(Compared {
        settings: settings.clone(),
        cells,
    })
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
        let measured = WorkloadCell { cell, workload };
        // This process cannot leave a group again.
        measured.measure_by(
            |reads| reads.free().measure(),
            |scans| scans.free().measure(),
        )
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
