//! Engines side by side: with everything in memory, and then opened again under memory pressure.
//!
//! The same entries, the same durability (a log, not synced per write; redb has none, and commits
//! what is not durable), no compression, caches larger than the data. At the end the engine is
//! closed, what lies on disk is measured, and it is opened again with memory for 1 % of the data
//! ([`PRESSURE`]) and asked for existing and absent keys: in a process of its own, in a memory
//! control group ([`container`]) where the system lets us make one, its files forgotten by the
//! system's cache; reads go past that cache where the engine can (RocksDB and ours: for others it
//! counts in the group). Each engine runs in a fresh process and a fresh directory; engines
//! alternate, and the medians of the repetitions are compared. Every answer is checked.
//!
//! With [`Settings::workloads`] it does what `data_model` says instead.
mod compared;
mod data_model;

pub use compared::{Compared, dots, is_throughput, phases};
pub use data_model::Workload;

use crate::cell::{self, Measurement};
use crate::container::{self, Container};
use crate::engine::{self, Engine, EngineConfig};
use crate::proc_io::{self, ProcessIo};
use crate::runner::{self, Amount, Data, Outcome, Summary};
use crate::workload::{KeyKind, KeySpace, ValueSpec};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Lookups after the fill, before anything was read: [`warm`] comes after.
const FIRST_READS: &str = "firstreads";

/// What is done with everything in memory, in this order: a fill, and [`Mix`]es by their names.
const PHASES: [&str; 9] = [
    "fillrandom",
    FIRST_READS,
    "overwrite",
    "readrandom",
    "readmissing",
    "seekrandom",
    "scan",
    "readwhilewriting",
    "ycsb-a",
];

/// What is done under pressure, and how the names of these phases end.
const PRESSED: [&str; 2] = ["readrandom", "readmissing"];
const UNDER_PRESSURE: &str = ", memory 1 %";

/// What is done at last with everything in memory and in one sorted run, by engines that can merge
/// theirs: what of the time of a scan or lookup several runs take.
const ONE_RUN: [&str; 4] = ["readrandom", "readmissing", "seekrandom", "scan"];

/// How the names of these phases end.
pub const IN_ONE_RUN: &str = ", one run";

/// The memory of an engine under pressure, as a share of the bytes of keys and values.
pub const PRESSURE: f64 = 0.01;

/// The fact of what an engine's process could take under pressure, the system's cache included.
pub const LIMIT: &str = "memory limit under pressure, MiB";

/// The fact of an engine whose process was killed under pressure, in any repetition.
pub const KILLED: &str = "killed under pressure";

/// The fact of how many sorted runs scans merged and lookups asked.
pub const RUNS: &str = "runs on storage";

/// The most memory that its process had.
pub const PEAK: &str = "peak memory, MiB";

/// What to compare, and on how much.
#[derive(Clone, Debug, clap::Args, serde::Serialize, serde::Deserialize)]
pub struct Settings {
    /// Engines, the one to judge first.
    #[arg(long, value_delimiter = ',', required = true)]
    pub engines: Vec<String>,
    /// Instead of entries in memory and under pressure: more of the data model. Counters and
    /// accounts are a fiftieth of the entries, large values a 250th; transfers are a fifth of the
    /// reads, lookups of large values and short scans a twentieth.
    #[arg(long, value_delimiter = ',')]
    pub workloads: Vec<Workload>,
    /// Entries.
    #[arg(long, default_value_t = 5_000_000)]
    pub entries: u64,
    /// Bytes of a value (keys have 16).
    #[arg(long, default_value_t = 100)]
    pub value_size: usize,
    /// Lookups of each reading phase; seeks are a fifth, lookups under pressure a twentieth, scans
    /// of 1000 entries a five-hundredth of it.
    #[arg(long, default_value_t = 1_000_000)]
    pub reads: u64,
    /// Thread counts.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    pub threads: Vec<usize>,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 3)]
    pub repeat: usize,
    /// Writes per second beside the reads of readwhilewriting, 0 for no limit.
    #[arg(long, default_value_t = 20_000)]
    pub write_rate: u64,
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// One engine, one thread count, all phases or a workload, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    settings: Settings,
    engine: String,
    threads: usize,
    /// Decides every random choice of this repetition.
    seed: u64,
    /// What is measured instead of the phases.
    workload: Option<Workload>,
}

/// The part of a [`Cell`] with little memory, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Pressed {
    cell: Cell,
    /// The database.
    database: PathBuf,
    /// Bytes of the budget.
    memory: u64,
    /// The control group to enter.
    container: Option<PathBuf>,
}

/// Has the part with little memory measured.
type Press<'a> = &'a dyn Fn(Pressed) -> Result<Vec<Line>>;

/// What a [`Cell`] measured of one phase, or another fact.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Line {
    /// The phase; of a fact what it is, with its unit.
    pub name: String,
    /// Operations per second; of a fact the value.
    pub value: f64,
    /// 99th percentile, microseconds; of phases only.
    pub p99_us: Option<f64>,
}

impl Line {
    fn phase(name: impl Into<String>, summary: &Summary) -> Self {
        Self {
            name: name.into(),
            value: summary.per_second,
            p99_us: Some(summary.p99_us),
        }
    }

    fn fact(name: impl Into<String>, value: f64) -> Self {
        Self {
            name: name.into(),
            value,
            p99_us: None,
        }
    }
}

impl Measurement for Cell {
    type Found = Vec<Line>;

    fn measure(&self) -> Result<Vec<Line>> {
        self.measure_by(&|pressed| cell::measure(&pressed))
    }
}

impl Cell {
    fn measure_by(&self, press: Press<'_>) -> Result<Vec<Line>> {
        let dir = tempfile::TempDir::with_prefix_in("compare-", &self.settings.dir)?;
        match self.workload {
            Some(workload) => data_model::measure(workload, self, dir.path(), press),
            None => self.phases(dir.path(), press),
        }
    }

    fn phases(&self, dir: &Path, press: Press<'_>) -> Result<Vec<Line>> {
        let config = EngineConfig::in_memory(dir.to_owned());
        let engine = engine::open(&self.engine, &config)?;
        let data = self.data();
        let warm = |engine: &dyn Engine| runner::check_all(engine, &data, &(0..0));
        let (mut lines, mut runs) = (Vec::new(), None);
        for (number, name) in (0..).zip(PHASES) {
            let summary = self.phase(engine.as_ref(), &data, number, name)?;
            lines.push(Line::phase(name, &summary));
            // Reads are measured on a tree at rest and a warm cache, for every engine alike.
            match name {
                "fillrandom" => engine.wait_idle()?,
                "overwrite" => {
                    engine.flush()?;
                    engine.wait_idle()?;
                    warm(engine.as_ref())?;
                }
                "scan" => runs = engine.runs(),
                _ => {}
            }
        }
        lines.push(Line::fact(PEAK, mib(proc_io::peak_memory())));
        lines.extend(runs.map(|runs| Line::fact(RUNS, runs as f64)));
        engine.flush()?;
        engine.wait_idle()?;
        drop(engine);
        // With what was still in memory.
        let written = ProcessIo::now().write_bytes;
        lines.push(Line::fact("written, MiB", mib(written)));
        let size = proc_io::bytes_in(dir)?;
        lines.push(Line::fact("size on disk, MiB", mib(size)));
        let entry = data.keys.key_len() + self.settings.value_size;
        let bytes = self.settings.entries * entry as u64;
        lines.extend(self.pressed(dir, (bytes as f64 * PRESSURE) as u64, press)?);
        let engine = engine::open(&self.engine, &config)?;
        if engine.compact()? {
            warm(engine.as_ref())?;
            for (number, name) in (200..).zip(ONE_RUN) {
                let summary = self.phase(engine.as_ref(), &data, number, name)?;
                lines.push(Line::phase(format!("{name}{IN_ONE_RUN}"), &summary));
            }
        }
        Ok(lines)
    }

    fn data(&self) -> Data {
        Data::new(
            KeySpace::new(KeyKind::Plain, self.settings.entries),
            ValueSpec::random(self.settings.value_size),
            self.seed,
        )
    }

    /// So many operations of a mix that has a name; a phase repeats no other's choices.
    fn run(
        &self,
        engine: &dyn Engine,
        data: &Data,
        mix: &str,
        (operations, phase): (u64, u64),
    ) -> Result<Outcome> {
        let amount = Amount::new(operations, self.threads, phase);
        runner::measure(engine, data, &mix.parse()?, amount)
    }

    fn phase(&self, engine: &dyn Engine, data: &Data, number: u64, name: &str) -> Result<Summary> {
        let (entries, reads) = (self.settings.entries, self.settings.reads);
        let operations = match name {
            "overwrite" => entries,
            "seekrandom" => reads / 5,
            "scan" => reads / 500,
            _ => reads,
        };
        let outcome = match name {
            "fillrandom" => runner::load(engine, data, self.threads, 1)?,
            "readwhilewriting" => {
                let (mix, rate) = ("readrandom".parse()?, self.settings.write_rate);
                let amount = Amount::new(operations, self.threads, number);
                let untold = AtomicU64::new(0);
                runner::run_while_writing(engine, data, &mix, amount, rate, &untold)?.0
            }
            FIRST_READS => self.run(engine, data, "readrandom", (operations, number))?,
            mix => self.run(engine, data, mix, (operations, number))?,
        };
        Ok(outcome.summary())
    }

    /// What is found with so much memory, or the least that a database can be opened with, in a
    /// control group where one can be made, and what its limit was. That the process took more is a
    /// result: [`KILLED`], and no line besides.
    fn pressed(&self, database: &Path, memory: u64, press: Press<'_>) -> Result<Vec<Line>> {
        container::forget_files(database)?;
        let memory = memory.max(shamba::MIN_MEMORY);
        let limit = memory + container::ALLOWANCE;
        let container = Container::new(limit);
        let measured = press(Pressed {
            cell: self.clone(),
            database: database.to_owned(),
            memory,
            container: container.as_ref().map(|group| group.dir().to_owned()),
        });
        let (mut lines, killed) = match (measured, &container) {
            (Ok(lines), _) => (lines, false),
            (Err(Error::Killed(_)), Some(_)) => (Vec::new(), true),
            (Err(error), _) => return Err(error),
        };
        lines.push(Line::fact(KILLED, f64::from(killed)));
        lines.extend(container.map(|_| Line::fact(LIMIT, mib(limit))));
        Ok(lines)
    }
}

impl Measurement for Pressed {
    type Found = Vec<Line>;

    fn measure(&self) -> Result<Vec<Line>> {
        if let Some(group) = &self.container {
            container::enter(group)?;
        }
        match self.cell.workload {
            Some(workload) => data_model::pressed(workload, self),
            None => self.look_up(),
        }
    }
}

impl Pressed {
    /// Opens the database again with little memory, and looks keys up.
    fn look_up(&self) -> Result<Vec<Line>> {
        let (cell, data) = (&self.cell, self.cell.data());
        let config = EngineConfig {
            memory: self.memory,
            direct_reads: true,
            metadata_resident: false,
            ..EngineConfig::in_memory(self.database.clone())
        };
        let start = Instant::now();
        let engine = engine::open(&cell.engine, &config)?;
        let opened = start.elapsed().as_secs_f64() * 1e3;
        let mut lines = vec![Line::fact("opening, ms", opened)];
        let lookups = cell.settings.reads / 20;
        for (phase, mix) in (100..).step_by(2).zip(PRESSED) {
            let name = format!("{mix}{UNDER_PRESSURE}");
            let pages = format!("{name}: pages/lookup");
            lines.extend(warmed(name, pages, phase, |phase| {
                cell.run(engine.as_ref(), &data, mix, (lookups, phase))
            })?);
        }
        Ok(lines)
    }
}

/// Runs a phase to warm the cache, and then the next one: its rate, and the pages that an operation
/// of it reads.
fn warmed(
    name: impl Into<String>,
    pages: impl Into<String>,
    phase: u64,
    run: impl Fn(u64) -> Result<Outcome>,
) -> Result<[Line; 2]> {
    run(phase)?;
    let (outcome, io) = ProcessIo::during(|| run(phase + 1))?;
    let each = io.pages() / outcome.operations.max(1) as f64;
    Ok([
        Line::phase(name, &outcome.summary()),
        Line::fact(pages, each),
    ])
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Says what a cell measured.
fn note_rates(repetition: usize, cell: &Cell, lines: &[Line], note: &mut dyn FnMut(String)) {
    let phases = lines.iter().filter(|line| line.p99_us.is_some());
    let rates = phases.map(|line| format!("{} {:.0}/s", line.name, line.value));
    let rates = rates.collect::<Vec<_>>().join(", ");
    let (number, engine, threads) = (repetition + 1, &cell.engine, cell.threads);
    note(format!("#{number} {engine}, {threads} thread(s): {rates}"));
}

/// Runs the comparison. `note` gets a line about each finished cell.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Compared> {
    std::fs::create_dir_all(&settings.dir)?;
    let workloads: Vec<Option<Workload>> = match settings.workloads.as_slice() {
        [] => vec![None],
        workloads => workloads.iter().copied().map(Some).collect(),
    };
    let mut cells = Vec::new();
    for repetition in 0..settings.repeat.max(1) {
        for &workload in &workloads {
            for &threads in &settings.threads {
                for engine in &settings.engines {
                    let cell = Cell {
                        settings: settings.clone(),
                        engine: engine.clone(),
                        threads,
                        seed: settings.seed + repetition as u64,
                        workload,
                    };
                    let lines = cell::measure(&cell)?;
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
impl Pressed {
    /// Measures in this process, which could not leave a group again.
    fn measure_here(self) -> Result<Vec<Line>> {
        let container = None;
        Self { container, ..self }.measure()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::experiments::settings;

    /// What was compared with these throughputs of a phase on one thread, by engine.
    pub(crate) fn compared(phase: &str, rates: &[(&str, f64)]) -> Compared {
        let engines: Vec<&str> = rates.iter().map(|(engine, _)| *engine).collect();
        let settings: Settings = settings(&format!(
            "--engines {} --entries 3000 --value-size 10 --reads 2000 --threads 1 --repeat 1 \
             --write-rate 0",
            engines.join(",")
        ));
        let cells = rates.iter().map(|&(engine, value)| {
            let cell = Cell {
                settings: settings.clone(),
                engine: engine.to_owned(),
                threads: 1,
                seed: 1,
                workload: None,
            };
            let line = Line {
                p99_us: Some(1.0),
                ..Line::fact(phase, value)
            };
            (cell, vec![line])
        });
        Compared {
            cells: cells.collect(),
            settings,
        }
    }

    #[test]
    fn all_phases_run() {
        let dir = tempfile::tempdir().unwrap();
        let (mut cell, _) = compared("", &[("shamba", 0.0)]).cells.remove(0);
        cell.settings.dir = dir.path().to_owned();
        cell.threads = 2;
        let lines = cell.measure_by(&Pressed::measure_here).unwrap();
        let throughputs =
            |lines: &[Line]| lines.iter().filter(|line| line.p99_us.is_some()).count();
        let phases = PHASES.len() + PRESSED.len() + ONE_RUN.len();
        assert_eq!(throughputs(&lines), phases);
        assert!(lines.iter().all(|line| line.value >= 0.0));
        let fact = |lines: &[Line], wanted| {
            let found = lines.iter().find(|line| line.name == wanted);
            found.map(|line| line.value)
        };
        assert!(fact(&lines, RUNS).is_some_and(|runs| runs >= 1.0));
        assert_eq!(fact(&lines, KILLED), Some(0.0));
        // One that is killed for memory is told, and the rest measured all the same.
        let killed = cell.measure_by(&|_| Err(Error::Killed("by the system".into())));
        match fact(&lines, LIMIT) {
            Some(_) => {
                let killed = killed.unwrap();
                assert_eq!(fact(&killed, KILLED), Some(1.0));
                assert_eq!(throughputs(&killed), phases - PRESSED.len());
            }
            None => assert!(killed.is_err()),
        }
        let wrong = cell.measure_by(&|_| Err(Error::Child("exit status: 1".into())));
        assert!(wrong.is_err(), "any other failure is one");
    }

    #[test]
    fn ratios_are_of_the_first_engine_and_facts_come_last() {
        let mut compared = compared("ycsb-a", &[("ours", 10.0), ("theirs", 5.0), ("none", 0.0)]);
        for (killed, (_, lines)) in compared.cells.iter_mut().enumerate() {
            lines.insert(0, Line::fact(KILLED, killed as f64));
        }
        let table = compared.table();
        let text = table.to_csv().unwrap();
        assert!(text.contains("ours / theirs,ours / none\n"));
        assert!(text.contains("\nycsb-a,1,10,1,5,1,0,1,2,\n"));
        assert!(text.ends_with("\nkilled under pressure,1,0,,1,,2,,0,0\n"));
        assert_eq!(table.rows.len(), phases().len() + 1);
        assert_eq!(compared.repetitions().rows.len(), 3);
        assert_eq!(dots(&table).rows[8], "ycsb-a, 1 thread");
    }
}
