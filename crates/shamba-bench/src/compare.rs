//! Engines side by side: with everything in memory, and then opened again under memory pressure.
//!
//! The same entries, the same durability (a log, not synced per write), no compression, caches
//! larger than the data. At the end the engine is closed, what lies on disk is measured, and it is
//! opened again with memory for 1 % of the data ([`PRESSURE`]) and asked for existing and absent
//! keys: in a process of its own, in a memory control group ([`container`]) where the system lets
//! us make one, its files forgotten by the system's cache; reads go past that cache where the
//! engine can (RocksDB and ours: for others it counts in the group). Each engine runs in a fresh
//! process and a fresh directory; engines alternate, and the medians of the repetitions are
//! compared. Every answer is checked.
//!
//! With [`Settings::workloads`] it does what `data_model` says instead.
mod compared;
mod data_model;

pub use compared::{Compared, dots, is_throughput, phases};
pub use data_model::{LargeReads, ShortScans, Workload, WorkloadCell};

use crate::cell::{self, Measurement};
use crate::container::{self, Container};
use crate::engine::{self, Engine, EngineConfig};
use crate::runner::{self, Amount, Data, Order, Summary};
use crate::workload::{KeyKind, KeySpace, Mix, ValueSpec};
use crate::{Error, Result, proc_io};
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

/// One engine, one thread count, all phases, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    settings: Settings,
    engine: String,
    threads: usize,
    /// Decides every random choice of this repetition.
    seed: u64,
}

/// The part of a [`Cell`] under pressure, in a process of its own.
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
        self.measure_by(|pressed| cell::measure(&pressed))
    }
}

impl Cell {
    fn measure_by(&self, press: impl FnOnce(Pressed) -> Result<Vec<Line>>) -> Result<Vec<Line>> {
        let dir = tempfile::TempDir::with_prefix_in("compare-", &self.settings.dir)?;
        let config = EngineConfig::in_memory(dir.path().to_owned());
        let engine = engine::open(&self.engine, &config)?;
        let data = self.data();
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
                    warm(engine.as_ref(), &data)?;
                }
                "scan" => runs = engine.runs(),
                _ => {}
            }
        }
        lines.push(Line::fact("peak memory, MiB", mib(proc_io::peak_memory())));
        lines.extend(runs.map(|runs| Line::fact(RUNS, runs as f64)));
        engine.flush()?;
        engine.wait_idle()?;
        drop(engine);
        // With what was still in memory.
        let written = proc_io::ProcessIo::now().write_bytes;
        lines.push(Line::fact("written, MiB", mib(written)));
        let size = proc_io::bytes_in(dir.path())?;
        lines.push(Line::fact("size on disk, MiB", mib(size)));
        lines.extend(self.under_pressure(dir.path(), &data, press)?);
        let engine = engine::open(&self.engine, &config)?;
        if engine.compact()? {
            warm(engine.as_ref(), &data)?;
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

    /// Has keys looked up with little memory.
    fn under_pressure(
        &self,
        database: &Path,
        data: &Data,
        press: impl FnOnce(Pressed) -> Result<Vec<Line>>,
    ) -> Result<Vec<Line>> {
        let entry = data.keys.key_len() + self.settings.value_size;
        let bytes = self.settings.entries * entry as u64;
        let memory = ((bytes as f64 * PRESSURE) as u64).max(shamba::MIN_MEMORY);
        container::forget_files(database)?;
        let limit = memory + container::ALLOWANCE;
        in_container(limit, |container| {
            press(Pressed {
                cell: self.clone(),
                database: database.to_owned(),
                memory,
                container,
            })
        })
    }

    fn phase(&self, engine: &dyn Engine, data: &Data, number: u64, name: &str) -> Result<Summary> {
        let (entries, reads) = (self.settings.entries, self.settings.reads);
        let amount = Amount {
            operations: match name {
                "overwrite" => entries,
                "seekrandom" => reads / 5,
                "scan" => reads / 500,
                _ => reads,
            },
            threads: self.threads,
            phase: number,
        };
        let untold = &AtomicU64::new(0);
        let outcome = match name {
            "fillrandom" => runner::fill(engine, data, Order::Random, self.threads, 1, untold)?,
            "readwhilewriting" => {
                let (mix, rate) = ("readrandom".parse()?, self.settings.write_rate);
                runner::run_while_writing(engine, data, &mix, amount, rate, untold)?.0
            }
            FIRST_READS => runner::run(engine, data, &"readrandom".parse()?, amount, untold)?,
            mix => runner::run(engine, data, &mix.parse()?, amount, untold)?,
        };
        Ok(outcome.summary())
    }
}

impl Measurement for Pressed {
    type Found = Vec<Line>;

    /// Opens the database again with little memory, and looks keys up.
    fn measure(&self) -> Result<Vec<Line>> {
        if let Some(group) = &self.container {
            container::enter(group)?;
        }
        let data = self.cell.data();
        let config = EngineConfig {
            memory: self.memory,
            direct_reads: true,
            metadata_resident: false,
            ..EngineConfig::in_memory(self.database.clone())
        };
        let start = Instant::now();
        let engine = engine::open(&self.cell.engine, &config)?;
        let opened = start.elapsed().as_secs_f64() * 1e3;
        let mut lines = vec![Line::fact("opening, ms", opened)];
        for (phase, workload) in (100..).step_by(2).zip(PRESSED) {
            let mix: Mix = workload.parse()?;
            let run = |phase| {
                let amount = Amount {
                    operations: self.cell.settings.reads / 20,
                    threads: self.cell.threads,
                    phase,
                };
                runner::run(engine.as_ref(), &data, &mix, amount, &AtomicU64::new(0))
            };
            run(phase)?;
            let before = proc_io::ProcessIo::now();
            let outcome = run(phase + 1)?;
            let io = proc_io::ProcessIo::now().since(&before);
            let pages = io.pages() / outcome.operations.max(1) as f64;
            let name = format!("{workload}{UNDER_PRESSURE}");
            lines.push(Line::fact(format!("{name}: pages/lookup"), pages));
            lines.push(Line::phase(name, &outcome.summary()));
        }
        Ok(lines)
    }
}

/// What a process found in a control group of so many bytes, where one can be made, and what the
/// limit was. That it took more is a result: [`KILLED`], and no line besides.
fn in_container(
    limit: u64,
    measure: impl FnOnce(Option<PathBuf>) -> Result<Vec<Line>>,
) -> Result<Vec<Line>> {
    let container = Container::new(limit);
    let measured = measure(container.as_ref().map(|group| group.dir().to_owned()));
    let (mut lines, killed) = match (measured, &container) {
        (Ok(lines), _) => (lines, false),
        (Err(Error::Killed(_)), Some(_)) => (Vec::new(), true),
        (Err(error), _) => return Err(error),
    };
    lines.push(Line::fact(KILLED, f64::from(killed)));
    lines.extend(container.map(|_| Line::fact(LIMIT, mib(limit))));
    Ok(lines)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Reads everything once, in key order, so that it lies in the engine's cache.
fn warm(engine: &dyn Engine, data: &Data) -> Result<()> {
    let seen = engine.scan(&[], usize::MAX, &mut |_, _| Ok(()))? as u64;
    let entries = data.keys.entries();
    if seen == entries {
        return Ok(());
    }
    Err(Error::WrongAnswer(format!(
        "a scan of everything found {seen} of {entries} entries"
    )))
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
    if !settings.workloads.is_empty() {
        return data_model::run(settings, note);
    }
    let mut cells = Vec::new();
    for repetition in 0..settings.repeat.max(1) {
        for &threads in &settings.threads {
            for engine in &settings.engines {
                let cell = Cell {
                    settings: settings.clone(),
                    engine: engine.clone(),
                    threads,
                    seed: settings.seed + repetition as u64,
                };
                let lines = cell::measure(&cell)?;
                note_rates(repetition, &cell, &lines, note);
                cells.push((cell, lines));
            }
        }
    }
    Ok(Compared {
        settings: settings.clone(),
        cells,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What was compared with these throughputs of a phase on one thread, by engine.
    pub(crate) fn compared(phase: &str, rates: &[(&str, f64)]) -> Compared {
        let settings = Settings {
            engines: rates
                .iter()
                .map(|(engine, _)| (*engine).to_owned())
                .collect(),
            workloads: Vec::new(),
            entries: 3000,
            value_size: 10,
            reads: 2000,
            threads: vec![1],
            repeat: 1,
            write_rate: 0,
            dir: PathBuf::new(),
            seed: 1,
        };
        let cells = rates.iter().map(|&(engine, value)| {
            let cell = Cell {
                settings: settings.clone(),
                engine: engine.to_owned(),
                threads: 1,
                seed: 1,
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
        let lines = cell.measure_by(|pressed| {
            // This process cannot leave a group again.
            let container = None;
            Pressed {
                container,
                ..pressed
            }
            .measure()
        });
        let lines = lines.unwrap();
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
        let killed = cell.measure_by(|_| Err(Error::Killed("by the system".into())));
        match fact(&lines, LIMIT) {
            Some(_) => {
                let killed = killed.unwrap();
                assert_eq!(fact(&killed, KILLED), Some(1.0));
                assert_eq!(throughputs(&killed), phases - PRESSED.len());
            }
            None => assert!(killed.is_err()),
        }
        let wrong = cell.measure_by(|_| Err(Error::Child("exit status: 1".into())));
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
