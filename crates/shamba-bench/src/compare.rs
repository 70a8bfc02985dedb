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
use crate::cell::{self, Measurement};
use crate::container::{self, Container};
use crate::engine::{self, Engine, EngineConfig};
use crate::plot::Dots;
use crate::report::{Cell as ReportCell, Report, median};
use crate::runner::{self, Amount, Data, Summary};
use crate::workload::{KeyKind, KeySpace, MAX_KEY, ValueSpec, Workload};
use crate::{Error, Result, proc_io, row};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// The lines of the comparison, in the order they run.
pub const PHASES: [Workload; 8] = [
    Workload::FillRandom,
    Workload::Overwrite,
    Workload::ReadRandom,
    Workload::ReadMissing,
    Workload::SeekRandom,
    Workload::Scan,
    Workload::ReadWhileWriting,
    Workload::Ycsb('a'),
];

/// The memory of an engine under pressure, as a share of the bytes of keys and values.
pub const PRESSURE: f64 = 0.01;

/// What is done under pressure.
const PRESSED: [(Workload, &str); 2] = [
    (Workload::ReadRandom, "readrandom, memory 1 %"),
    (Workload::ReadMissing, "readmissing, memory 1 %"),
];

/// What is done at last with everything in memory and in one sorted run, by engines that can merge
/// theirs: what of the time of a scan or lookup several runs take.
const ONE_RUN: [(Workload, &str); 4] = [
    (Workload::ReadRandom, "readrandom, one run"),
    (Workload::ReadMissing, "readmissing, one run"),
    (Workload::SeekRandom, "seekrandom, one run"),
    (Workload::Scan, "scan, one run"),
];

/// The fact of what an engine's process could take under pressure, the system's cache included.
pub const LIMIT: &str = "memory limit under pressure, MiB";

/// The fact of an engine whose process was killed under pressure, in any repetition.
pub const KILLED: &str = "killed under pressure";

/// The fact of how many sorted runs scans merged and lookups asked.
pub const RUNS: &str = "runs on storage";

/// What to compare, and on how much.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Specifications of the engines; ratios are of the first to each other one.
    pub engines: Vec<String>,
    /// Entries of 16-byte keys and `value_size` bytes.
    pub entries: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// Lookups per reading phase (seeks: a fifth; under pressure: a twentieth; scans of 1000
    /// entries: a five-hundredth).
    pub reads: u64,
    /// Thread counts, each a run of its own.
    pub threads: Vec<usize>,
    /// Repetitions of which medians are taken.
    pub repeat: usize,
    /// Writes per second of the writer in readwhilewriting; 0: as fast as it can.
    pub write_rate: u64,
    /// Where the databases are put (and removed again).
    pub dir: PathBuf,
    /// Decides every random choice.
    pub seed: u64,
}

/// One engine, one thread count, all phases, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    engine: String,
    entries: u64,
    value_size: usize,
    reads: u64,
    threads: usize,
    write_rate: u64,
    dir: PathBuf,
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

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Compared {
    /// A row for each phase, or other fact, and number of threads; of repetitions the medians.
    pub medians: Report,
    /// The throughputs of which these are the medians.
    pub repetitions: Report,
}

/// What a [`Cell`] measured.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    phases: Vec<(String, Summary)>,
    /// What is no throughput, by name with the unit.
    facts: Vec<(String, f64)>,
}

impl Measurement for Cell {
    const NAME: &str = "compare";
    type Found = Measured;

    fn measure(&self) -> Result<Measured> {
        self.measure_by(|pressed| cell::measure(&pressed))
    }
}

impl Cell {
    fn measure_by(&self, press: impl FnOnce(Pressed) -> Result<Measured>) -> Result<Measured> {
        let dir = tempfile::Builder::new()
            .prefix("compare-")
            .tempdir_in(&self.dir)?;
        let config = EngineConfig::in_memory(dir.path().to_owned());
        let engine = engine::open(&self.engine, &config)?;
        let data = self.data();
        let mut phases = Vec::new();
        let mut runs = None;
        for (number, phase) in PHASES.iter().enumerate() {
            let summary = self.phase(engine.as_ref(), &data, number as u64, *phase)?;
            phases.push((phase.to_string(), summary));
            if *phase == Workload::Scan {
                runs = engine.runs();
            }
        }
        let mut facts = vec![("peak memory, MiB".to_owned(), mib(proc_io::peak_memory()))];
        facts.extend(runs.map(|runs| (RUNS.to_owned(), runs as f64)));
        engine.flush()?;
        engine.wait_idle()?;
        drop(engine);
        // With what was still in memory.
        let written = proc_io::ProcessIo::now().write_bytes;
        facts.push(("written, MiB".to_owned(), mib(written)));
        facts.push((
            "size on disk, MiB".to_owned(),
            mib(proc_io::bytes_in(dir.path())?),
        ));
        let pressed = self.under_pressure(dir.path(), &data, press)?;
        phases.extend(pressed.phases);
        facts.extend(pressed.facts);
        let engine = engine::open(&self.engine, &config)?;
        if engine.compact()? {
            warm(engine.as_ref(), &data)?;
            for (number, (workload, name)) in ONE_RUN.iter().enumerate() {
                let summary = self.phase(engine.as_ref(), &data, 200 + number as u64, *workload)?;
                phases.push(((*name).to_owned(), summary));
            }
        }
        Ok(Measured { phases, facts })
    }

    fn data(&self) -> Data {
        Data {
            keys: KeySpace::new(KeyKind::Plain, self.entries),
            values: ValueSpec::random(self.value_size),
            seed: self.seed,
            load_seed: self.seed,
        }
    }

    /// Has keys looked up with little memory.
    fn under_pressure(
        &self,
        database: &Path,
        data: &Data,
        press: impl FnOnce(Pressed) -> Result<Measured>,
    ) -> Result<Measured> {
        let bytes = self.entries * (data.keys.key_len() + self.value_size) as u64;
        let memory = ((bytes as f64 * PRESSURE) as u64).max(shamba::MIN_MEMORY);
        container::forget_files(database)?;
        let limit = memory + container::ALLOWANCE;
        let container = Container::new(limit);
        let measured = press(Pressed {
            cell: self.clone(),
            database: database.to_owned(),
            memory,
            container: container
                .as_ref()
                .map(|container| container.dir().to_owned()),
        });
        let (mut measured, killed) = match (measured, &container) {
            (Ok(measured), _) => (measured, false),
            // It took more than the limit: that is a result.
            (Err(Error::Killed(_)), Some(_)) => (Measured::default(), true),
            (Err(error), _) => return Err(error),
        };
        let facts = &mut measured.facts;
        facts.push((KILLED.to_owned(), f64::from(killed)));
        facts.extend(container.map(|_| (LIMIT.to_owned(), mib(limit))));
        Ok(measured)
    }

    fn phase(
        &self,
        engine: &dyn Engine,
        data: &Data,
        number: u64,
        phase: Workload,
    ) -> Result<Summary> {
        let amount = Amount {
            operations: match phase {
                Workload::FillRandom | Workload::Overwrite => self.entries,
                Workload::SeekRandom => self.reads / 5,
                Workload::Scan => self.reads / 500,
                _ => self.reads,
            },
            threads: self.threads,
            phase: number,
        };
        let progress = AtomicU64::new(0);
        let rate = self.write_rate;
        let outcome = runner::run_named(engine, data, phase, None, amount, rate, &progress)?;
        // Reads are measured on a tree at rest and a warm cache, for every engine alike.
        if phase == Workload::FillRandom {
            engine.wait_idle()?;
        } else if phase == Workload::Overwrite {
            engine.flush()?;
            engine.wait_idle()?;
            warm(engine, data)?;
        }
        Ok(outcome.summary())
    }
}

impl Measurement for Pressed {
    const NAME: &str = "compare-pressed";
    type Found = Measured;

    /// Opens the database again with little memory, and looks keys up.
    fn measure(&self) -> Result<Measured> {
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
        let mut measured = Measured::default();
        measured.facts.push(("opening, ms".to_owned(), opened));
        for (number, (workload, name)) in PRESSED.iter().enumerate() {
            let progress = AtomicU64::new(0);
            let run = |operations, phase| {
                let amount = Amount {
                    operations,
                    threads: self.cell.threads,
                    phase,
                };
                let engine = engine.as_ref();
                runner::run_named(engine, &data, *workload, None, amount, 0, &progress)
            };
            let (phase, reads) = (100 + 2 * number as u64, self.cell.reads / 20);
            run(reads, phase)?;
            let before = proc_io::ProcessIo::now();
            let outcome = run(reads, phase + 1)?;
            let io = proc_io::ProcessIo::now().since(&before);
            let pages = io.pages() / outcome.operations.max(1) as f64;
            let facts = &mut measured.facts;
            facts.push((format!("{name}: pages/lookup"), pages));
            let summary = outcome.summary();
            measured.phases.push(((*name).to_owned(), summary));
        }
        Ok(measured)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Reads everything once, in key order, so that it lies in the engine's cache.
fn warm(engine: &dyn Engine, data: &Data) -> Result<()> {
    let mut from = data.keys.key(0, &mut [0; MAX_KEY]).to_vec();
    let mut seen = 0;
    loop {
        let mut last = Vec::new();
        let found = engine.scan(&from, 10_000, &mut |key, _| {
            last.clear();
            last.extend_from_slice(key);
            Ok(())
        })?;
        seen += found as u64;
        if found < 10_000 {
            break;
        }
        last.push(0);
        from = last;
    }
    if seen == data.keys.entries() {
        return Ok(());
    }
    Err(Error::WrongAnswer(format!(
        "a scan of everything found {seen} of {} entries",
        data.keys.entries()
    )))
}

/// Runs the comparison. `note` gets a line about each finished cell.
pub fn run(settings: &Settings, mut note: impl FnMut(String)) -> Result<Compared> {
    std::fs::create_dir_all(&settings.dir)?;
    let mut results: Vec<(usize, usize, Measured)> = Vec::new();
    for repetition in 0..settings.repeat.max(1) {
        for &threads in &settings.threads {
            for (which, engine) in settings.engines.iter().enumerate() {
                let request = Cell {
                    engine: engine.clone(),
                    entries: settings.entries,
                    value_size: settings.value_size,
                    reads: settings.reads,
                    threads,
                    write_rate: settings.write_rate,
                    dir: settings.dir.clone(),
                    seed: settings.seed + repetition as u64,
                };
                let measured: Measured = cell::measure(&request)?;
                note(line(engine, threads, repetition, &measured));
                results.push((which, threads, measured));
            }
        }
    }
    Ok(Compared {
        medians: report(settings, &results),
        repetitions: repetitions(settings, &results),
    })
}

/// The throughputs of each repetition.
fn repetitions(settings: &Settings, results: &[(usize, usize, Measured)]) -> Report {
    let mut report = Report::new(
        "Throughputs of each repetition",
        &["phase", "threads", "engine", "op/s"],
    );
    for (which, threads, measured) in results {
        let engine = settings.engines.get(*which).cloned().unwrap_or_default();
        for (phase, summary) in &measured.phases {
            report.push(vec![
                phase.clone().into(),
                threads.to_string().into(),
                engine.clone().into(),
                summary.per_second.into(),
            ]);
        }
    }
    report
}

/// Ours over theirs; nothing where one is missing or theirs is zero.
fn ratio(ours: Option<f64>, theirs: Option<f64>) -> ReportCell {
    let both = ours.zip(theirs).filter(|(_, theirs)| *theirs > 0.0);
    both.map(|(ours, theirs)| ours / theirs).into()
}

fn line(engine: &str, threads: usize, repetition: usize, measured: &Measured) -> String {
    let rates: Vec<String> = measured
        .phases
        .iter()
        .map(|(phase, summary)| format!("{phase} {:.0}/s", summary.per_second))
        .collect();
    format!(
        "#{} {engine}, {threads} thread(s): {}",
        repetition + 1,
        rates.join(", ")
    )
}

/// A row of the comparison: for each engine a value and its 99th percentile, and how many times
/// the others' values the first engine's is.
fn compared(
    engines: &[String],
    name: &str,
    threads: usize,
    values: &[(Option<f64>, Option<f64>)],
) -> Vec<(String, ReportCell)> {
    let mut row = row! { "phase": name, "threads": threads.to_string() };
    for (engine, (value, tail)) in engines.iter().zip(values) {
        row.push((format!("{engine} op/s"), (*value).into()));
        row.push((format!("{engine} p99 us"), (*tail).into()));
    }
    let mut others = engines.iter().zip(values);
    if let Some((first, (ours, _))) = others.next() {
        for (engine, (value, _)) in others {
            row.push((format!("{first} / {engine}"), ratio(*ours, *value)));
        }
    }
    row
}

fn report(settings: &Settings, results: &[(usize, usize, Measured)]) -> Report {
    let mut report = Report::titled(format!(
        "{} entries of 16 B keys and {} B values, in memory if nothing else is said, median of {}; \
         op/s of engine time",
        settings.entries, settings.value_size, settings.repeat
    ));
    let engines = &settings.engines;
    for &threads in &settings.threads {
        let own = |which: usize, value: &dyn Fn(&Measured) -> Option<f64>| -> Vec<f64> {
            let own = results
                .iter()
                .filter(|(w, t, _)| *w == which && *t == threads);
            own.filter_map(|(.., measured)| value(measured)).collect()
        };
        let phases = PHASES.iter().map(ToString::to_string);
        let others = PRESSED.iter().chain(&ONE_RUN);
        for phase in phases.chain(others.map(|(_, name)| (*name).to_owned())) {
            let summary = |measured: &Measured, value: fn(&Summary) -> f64| {
                let found = measured.phases.iter().find(|(name, _)| *name == phase);
                found.map(|(_, summary)| value(summary))
            };
            let middle = |which, value| median(&own(which, &|m| summary(m, value)));
            let both = |which| (middle(which, |s| s.per_second), middle(which, |s| s.p99_us));
            let values: Vec<_> = (0..engines.len()).map(both).collect();
            report.add(compared(engines, &phase, threads, &values));
        }
        // One that was killed has fewer facts.
        let all = results.iter().filter(|(_, t, _)| *t == threads);
        let names = all.map(|(.., measured)| &measured.facts[..]);
        let names = names.max_by_key(|facts| facts.len()).unwrap_or_default();
        for (name, _) in names {
            let facts = |which| {
                own(which, &|measured| {
                    let found = measured.facts.iter().find(|(known, _)| known == name);
                    found.map(|(_, value)| *value)
                })
            };
            let value = |which| {
                if name == KILLED {
                    return facts(which).into_iter().max_by(f64::total_cmp);
                }
                median(&facts(which))
            };
            let values: Vec<_> = (0..engines.len())
                .map(|which| (value(which), None))
                .collect();
            report.add(compared(engines, name, threads, &values));
        }
    }
    report
}

/// Whether a row of the comparison is a throughput: those are named after a workload.
pub fn is_throughput(row: &[ReportCell]) -> bool {
    let others = PRESSED.iter().chain(&ONE_RUN).map(|(_, name)| *name);
    match row.first() {
        Some(ReportCell::Text(name)) => {
            others.clone().any(|other| other == name)
                || PHASES.iter().any(|phase| phase.to_string() == *name)
        }
        _ => false,
    }
}

/// The throughputs of a comparison as a dot plot.
pub fn dots(report: &Report) -> Dots {
    Dots::of_report(report, "op/s", |row| match row {
        [phase, threads, ..] if is_throughput(row) => {
            let plural = if threads.to_string() == "1" { "" } else { "s" };
            Some(format!("{phase}, {threads} thread{plural}"))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_phases_run_and_ratios_are_of_the_first_engine() {
        let dir = tempfile::tempdir().unwrap();
        let cell = Cell {
            engine: "shamba".into(),
            entries: 3000,
            value_size: 10,
            reads: 2000,
            threads: 2,
            write_rate: 0,
            dir: dir.path().to_owned(),
            seed: 1,
        };
        let measured = cell.measure_by(|pressed| {
            // This process cannot leave a group again.
            let container = None;
            Pressed {
                container,
                ..pressed
            }
            .measure()
        });
        let measured = measured.unwrap();
        let facts = measured.facts.len();
        let phases = PHASES.len() + PRESSED.len() + ONE_RUN.len();
        assert_eq!(measured.phases.len(), phases);
        let runs = measured.facts.iter().find(|(name, _)| name == RUNS);
        assert!(runs.is_some_and(|(_, runs)| *runs >= 1.0));
        assert!(measured.facts.iter().all(|(_, value)| *value >= 0.0));
        assert_eq!(measured.phases[2].1.operations, 2000);
        let fact = |measured: &Measured, wanted| {
            let found = measured.facts.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| *value)
        };
        assert_eq!(fact(&measured, KILLED), Some(0.0));
        // One that is killed for memory is told, and the rest measured all the same.
        let killed = cell.measure_by(|_| Err(Error::Killed("by the system".into())));
        match fact(&measured, LIMIT) {
            Some(_) => {
                let killed = killed.unwrap();
                assert_eq!(fact(&killed, KILLED), Some(1.0));
                assert_eq!(killed.phases.len(), phases - PRESSED.len());
            }
            None => assert!(killed.is_err()),
        }
        let wrong = cell.measure_by(|_| Err(Error::Child("exit status: 1".into())));
        assert!(wrong.is_err(), "any other failure is one");

        let mut slower = measured.clone();
        for (_, summary) in &mut slower.phases {
            summary.per_second /= 2.0;
        }
        let settings = Settings {
            engines: vec!["shamba".into(), "slower".into()],
            entries: 3000,
            value_size: 10,
            reads: 2000,
            threads: vec![2],
            repeat: 1,
            write_rate: 0,
            dir: dir.path().to_owned(),
            seed: 1,
        };
        let report = report(&settings, &[(0, 2, measured), (1, 2, slower)]);
        assert_eq!(report.rows.len() - phases, facts);
        for row in report.rows.iter().take(phases) {
            let crate::report::Cell::Number(ratio) = row[row.len() - 1] else {
                panic!("no ratio in {row:?}");
            };
            assert!((ratio - 2.0).abs() < 1e-9);
        }
    }
}
