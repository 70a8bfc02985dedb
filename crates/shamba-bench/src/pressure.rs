//! Reads per lookup when memory is short: the standard setting of the SHaMBa paper.
//!
//! Entries of 64 B are loaded in random order once per engine and layout; then, for every budget
//! and share of existing keys, the database is reopened in a fresh process with that budget,
//! warmed up and measured with one thread. Pages and read operations come from the kernel
//! (`/proc/self/io`), which counts every engine alike, and beside them the engine's own counters.
//! Every answer is checked.
use crate::engine::{self, EngineConfig, ReadCounters};
use crate::report::{Report, median};
use crate::runner::{self, Amount, Data, Order, Summary};
use crate::workload::{Distribution, KeyKind, KeySpace, Mix, ValueSpec};
use crate::{Error, Result, cell, proc_io};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Entries of the standard setting.
pub const STANDARD_ENTRIES: u64 = 16_000_000;

/// 100 % of the budget at [`STANDARD_ENTRIES`]: RocksDB's full filters and indexes at 10 bits per
/// key, in bytes.
pub const STANDARD_METADATA: u64 = 24_886_719;

/// Bytes of a value: with the 32-byte key an entry has 64.
const VALUE_SIZE: usize = 32;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Specifications of the engines.
    pub engines: Vec<String>,
    /// Entries of 64 B.
    pub entries: u64,
    /// Budgets in percent of the metadata size.
    pub budgets: Vec<f64>,
    /// Shares of lookups that ask for existing keys.
    pub positives: Vec<f64>,
    /// How lookups spread.
    pub distribution: Distribution,
    /// Lookups before measuring.
    pub warm_up: u64,
    /// Lookups measured.
    pub measured: u64,
    /// Repetitions of which medians are taken.
    pub repeat: usize,
    /// Where databases are kept, one folder each.
    pub dir: PathBuf,
    /// Decides every random choice.
    pub seed: u64,
}

impl Settings {
    /// The bytes of `percent` of the metadata size at this number of entries.
    pub fn budget(&self, percent: f64) -> u64 {
        let full = STANDARD_METADATA as f64 * self.entries as f64 / STANDARD_ENTRIES as f64;
        (full * percent / 100.0) as u64
    }
}

fn data(entries: u64, seed: u64) -> Data {
    Data {
        keys: KeySpace::new(KeyKind::Spread, entries),
        values: ValueSpec::random(VALUE_SIZE),
        seed,
    }
}

/// Loads a database, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Load {
    engine: String,
    entries: u64,
    dir: PathBuf,
    seed: u64,
}

/// Memory for loading: enough for any engine's buffers, little beside the data.
const LOAD_MEMORY: u64 = 64 << 20;

impl Load {
    pub(crate) fn run(&self) -> Result<Summary> {
        std::fs::create_dir_all(&self.dir)?;
        let config = EngineConfig::standard(self.dir.clone(), LOAD_MEMORY);
        let engine = engine::open(&self.engine, &config)?;
        let data = data(self.entries, self.seed);
        let progress = AtomicU64::new(0);
        let finished = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut waited = 0;
                while finished.load(Ordering::Relaxed) == 0 {
                    std::thread::sleep(Duration::from_millis(100));
                    waited += 1;
                    if waited % 100 == 0 {
                        let done = progress.load(Ordering::Relaxed).min(self.entries);
                        eprintln!("  {}: {done} of {} loaded", self.engine, self.entries);
                    }
                }
            });
            let outcome = runner::fill(engine.as_ref(), &data, Order::Random, 1, 100, &progress)
                .and_then(|outcome| {
                    engine.flush()?;
                    engine.wait_idle()?;
                    Ok(outcome)
                });
            finished.store(1, Ordering::Relaxed);
            outcome
        })
        .map(|outcome| outcome.summary())
    }
}

/// One engine, one budget, one share of existing keys.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    engine: String,
    entries: u64,
    budget: u64,
    positive: f64,
    distribution: Distribution,
    warm_up: u64,
    measured: u64,
    dir: PathBuf,
    load_seed: u64,
    seed: u64,
}

/// What a [`Cell`] measured.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// Times.
    pub lookups: Summary,
    /// Pages of 4096 bytes per lookup, from the kernel.
    pub pages: f64,
    /// Read operations per lookup, from the kernel.
    pub reads: f64,
    /// The engine's own counters over the measured lookups.
    pub counters: Option<ReadCounters>,
    /// Sorted runs a lookup may visit.
    pub runs: Option<u64>,
    /// Bytes the engine says it uses.
    pub memory: Option<u64>,
    /// Peak resident bytes of the process.
    pub peak_memory: u64,
}

impl Cell {
    pub(crate) fn measure(&self) -> Result<Measured> {
        let config = EngineConfig {
            read_only: true,
            counters: true,
            ..EngineConfig::standard(self.dir.clone(), self.budget)
        };
        let engine = engine::open(&self.engine, &config)?;
        let engine = engine.as_ref();
        let mut data = data(self.entries, self.load_seed);
        data.seed = self.seed;
        let mix = Mix::lookups(self.positive, self.distribution);
        let progress = AtomicU64::new(0);
        let amount = |operations, phase| Amount {
            operations,
            threads: 1,
            phase,
        };
        runner::run(engine, &data, &mix, amount(self.warm_up, 1), &progress)?;
        let counters = engine.read_counters();
        let before = proc_io::ProcessIo::now();
        let outcome = runner::run(engine, &data, &mix, amount(self.measured, 2), &progress)?;
        let io = proc_io::ProcessIo::now().since(&before);
        let lookups = outcome.operations.max(1) as f64;
        Ok(Measured {
            lookups: outcome.summary(),
            pages: io.pages() / lookups,
            reads: io.reads as f64 / lookups,
            counters: engine
                .read_counters()
                .map(|now| now.since(&counters.unwrap_or_default())),
            runs: engine.runs(),
            memory: engine.memory(),
            peak_memory: proc_io::peak_memory(),
        })
    }
}

/// Loads what is not loaded yet, then measures every cell, the engines alternating. `note` gets a
/// line about each step.
pub fn run(settings: &Settings, mut note: impl FnMut(String)) -> Result<Report> {
    let mut dirs = Vec::new();
    for engine in &settings.engines {
        dirs.push(loaded(settings, engine, &mut note)?);
    }
    let mut report = Report::new(
        format!(
            "{} entries of 64 B, {} lookups: pages and reads per lookup from the kernel",
            settings.entries,
            settings.distribution.name()
        ),
        &[
            "engine",
            "positive",
            "budget %",
            "budget bytes",
            "runs",
            "pages",
            "reads",
            "data",
            "index",
            "filter",
            "mean us",
            "p50 us",
            "p99 us",
            "engine MiB",
            "peak MiB",
        ],
    );
    for &positive in &settings.positives {
        for &percent in &settings.budgets {
            let mut cells: Vec<Vec<Measured>> = vec![Vec::new(); settings.engines.len()];
            for repetition in 0..settings.repeat.max(1) {
                for ((engine, dir), cell) in settings.engines.iter().zip(&dirs).zip(&mut cells) {
                    let request = cell::Request::Pressure(Cell {
                        engine: engine.clone(),
                        entries: settings.entries,
                        budget: settings.budget(percent),
                        positive,
                        distribution: settings.distribution,
                        warm_up: settings.warm_up,
                        measured: settings.measured,
                        dir: dir.clone(),
                        load_seed: settings.seed,
                        seed: settings.seed + 1 + repetition as u64,
                    });
                    let measured: Measured = cell::measure(&request)?;
                    note(format!(
                        "{engine}, positive {positive}, {percent} %: {:.3} pages, {:.1} us",
                        measured.pages, measured.lookups.mean_us
                    ));
                    cell.push(measured);
                }
            }
            for (engine, cell) in settings.engines.iter().zip(&cells) {
                push(&mut report, settings, engine, positive, percent, cell);
            }
        }
    }
    Ok(report)
}

fn push(
    report: &mut Report,
    settings: &Settings,
    engine: &str,
    positive: f64,
    percent: f64,
    cell: &[Measured],
) {
    let of = |value: &dyn Fn(&Measured) -> Option<f64>| {
        median(&cell.iter().filter_map(value).collect::<Vec<_>>())
    };
    let counted = |value: fn(&ReadCounters) -> u64| {
        of(&|m| {
            let lookups = m.lookups.operations.max(1) as f64;
            m.counters.as_ref().map(|c| value(c) as f64 / lookups)
        })
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    report.push(vec![
        engine.into(),
        positive.into(),
        percent.into(),
        (settings.budget(percent) as f64).into(),
        of(&|m| m.runs.map(|runs| runs as f64)).into(),
        of(&|m| Some(m.pages)).into(),
        of(&|m| Some(m.reads)).into(),
        counted(|c| c.data).into(),
        counted(|c| c.index).into(),
        counted(|c| c.filter).into(),
        of(&|m| Some(m.lookups.mean_us)).into(),
        of(&|m| Some(m.lookups.p50_us)).into(),
        of(&|m| Some(m.lookups.p99_us)).into(),
        of(&|m| m.memory.map(mib)).into(),
        of(&|m| Some(mib(m.peak_memory))).into(),
    ]);
}

/// The folder of the engine's database, loaded if it was not.
fn loaded(settings: &Settings, engine: &str, note: &mut impl FnMut(String)) -> Result<PathBuf> {
    let name = format!(
        "{}-{}-{}",
        engine::layout(engine)?,
        settings.entries,
        settings.seed
    );
    let dir = settings.dir.join(name);
    // The mark lies beside the database: an engine may refuse a folder with a stranger in it.
    let mark = dir.with_extension("loaded");
    if mark.exists() {
        return Ok(dir);
    }
    note(format!("loading {}", dir.display()));
    remove(&dir)?;
    let summary: Summary = cell::measure(&cell::Request::Load(Load {
        engine: engine.to_owned(),
        entries: settings.entries,
        dir: dir.clone(),
        seed: settings.seed,
    }))?;
    if summary.operations != settings.entries {
        return Err(Error::Child(format!(
            "{} of {} entries loaded",
            summary.operations, settings.entries
        )));
    }
    std::fs::write(&mark, serde_json::to_vec(&summary)?)?;
    note(format!("loaded in {:.0} s", summary.seconds));
    Ok(dir)
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
