//! Reads per lookup when memory is short: the standard setting of the SHaMBa paper.
//!
//! Entries of 64 B are loaded in random order once per engine and layout; then, for every
//! distribution, share of existing keys and budget, the database is reopened in a fresh process
//! with that budget, warmed up and measured with one thread, the engines alternating. Pages and
//! read operations come from the kernel (`/proc/self/io`), which counts every engine alike, and
//! beside them the engine's own counters. Every answer is checked. Each measured cell becomes a
//! [`Row`] at once, so that a run can be resumed.
use crate::cell::{self, Measurement};
use crate::engine::{self, EngineConfig, ReadCounters};
use crate::progress::Progress;
use crate::provenance::Build;
use crate::record::{self, Row};
use crate::runner::{self, Amount, Summary};
use crate::store::{self, Store};
use crate::workload::{Distribution, Mix};
use crate::{Result, oracle, proc_io};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// The grid.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines and their databases.
    #[command(flatten)]
    pub store: Store,
    /// Budgets in percent of RocksDB's filters and indexes.
    #[arg(long, value_delimiter = ',', default_value = "10,25,40,70,100,150")]
    pub budgets: Vec<f64>,
    /// Shares of lookups for existing keys.
    #[arg(long, value_delimiter = ',', default_value = "0,0.5,1")]
    pub positives: Vec<f64>,
    /// Of `uniform`, `zipf[THETA]`, `normal[SHARE]`, `normal-keys[KEYS]` and `latest`.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "uniform,normal0.05,zipf0.99"
    )]
    pub distributions: Vec<Distribution>,
    /// Lookups before measuring.
    #[arg(long, default_value_t = 60_000)]
    pub warm_up: u64,
    /// Lookups measured.
    #[arg(long, default_value_t = 30_000)]
    pub measured: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 1)]
    pub repeat: usize,
    /// Append each measured cell to this CSV file.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Skip cells that the CSV file already has.
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Also compute the offline optimum, for engines that tell their tree.
    #[arg(long)]
    pub oracle: bool,
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

impl Measurement for Cell {
    const NAME: &str = "pressure";
    type Found = Measured;

    fn measure(&self) -> Result<Measured> {
        let config = EngineConfig {
            read_only: true,
            counters: true,
            ..EngineConfig::standard(self.dir.clone(), self.budget)
        };
        // What an engine learned in another cell must neither help nor hinder.
        engine::forget(&self.dir)?;
        let engine = engine::open(&self.engine, &config)?;
        let engine = engine.as_ref();
        let mut data = store::data(self.entries, self.load_seed);
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

impl Measured {
    fn row(self, place: Row) -> Row {
        let lookups = self.lookups.operations.max(1) as f64;
        let each = |value: fn(&ReadCounters) -> u64| {
            let counters = self.counters.as_ref();
            counters.map(|counters| value(counters) as f64 / lookups)
        };
        Row {
            pages: self.pages,
            reads: Some(self.reads),
            data: each(|c| c.data),
            index: each(|c| c.index),
            filter: each(|c| c.filter),
            runs: self.runs,
            mean_us: Some(self.lookups.mean_us),
            p50_us: Some(self.lookups.p50_us),
            p99_us: Some(self.lookups.p99_us),
            engine_bytes: self.memory,
            peak_bytes: Some(self.peak_memory),
            ..place
        }
    }
}

impl Settings {
    /// The grid's places in the order they are measured, without results.
    fn places(&self) -> Vec<(Distribution, Row)> {
        let mut places = Vec::new();
        for &distribution in &self.distributions {
            for &positive in &self.positives {
                for &budget_percent in &self.budgets {
                    for repetition in 0..self.repeat.max(1) as u64 {
                        places.extend(self.store.engines.iter().map(|engine| {
                            let row = Row {
                                engine: engine.clone(),
                                distribution: distribution.name(),
                                positive,
                                budget_percent,
                                budget_bytes: self.store.budget(budget_percent),
                                entries: self.store.entries,
                                warm_up: self.warm_up,
                                measured: self.measured,
                                seed: self.store.seed + 1 + repetition,
                                ..Row::default()
                            };
                            (distribution, row)
                        }));
                    }
                }
            }
        }
        places
    }

    /// Adds a row, to the file as well.
    pub(crate) fn keep(&self, rows: &mut Vec<Row>, row: Row) -> Result<()> {
        let row = row.of(Build::running());
        if let Some(out) = &self.out {
            record::append(out, &row)?;
        }
        rows.push(row);
        Ok(())
    }

    /// The rows of an earlier run to go on from.
    fn before(&self) -> Result<Vec<Row>> {
        match &self.out {
            Some(out) if self.resume => {
                let rows = record::read(out)?;
                match rows.iter().find(|row| !row.is_of(Build::running())) {
                    None => Ok(rows),
                    Some(other) => Err(crate::Error::InvalidSetting(format!(
                        "{} was measured by another build (commit {}): go on with that one, or \
                         write to another file",
                        out.display(),
                        if other.commit.is_empty() {
                            "unknown"
                        } else {
                            &other.commit
                        }
                    ))),
                }
            }
            Some(out) if out.exists() => Err(crate::Error::InvalidSetting(format!(
                "{} exists: add --resume to go on with it",
                out.display()
            ))),
            _ => Ok(Vec::new()),
        }
    }
}

/// Loads what is not loaded yet, then measures every cell, the engines alternating. `note` gets a
/// line about each step. Returns the rows, those of the resumed file included.
///
/// # Errors
/// Also, after all other cells, if a cell failed or got a wrong answer: it has no row.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Vec<Row>> {
    let mut rows = settings.before()?;
    let mut places = settings.places();
    places.retain(|(_, place)| !rows.iter().any(|row| row.same_cell(place)));
    let mut failures = Vec::new();
    let mut progress = Progress::default();
    for (_, place) in &places {
        progress.expect(&place.engine);
    }
    for (distribution, place) in places {
        let engine = place.engine.clone();
        let dir = settings.store.loaded(&engine, note)?;
        progress.start();
        let request = Cell {
            engine: engine.clone(),
            entries: place.entries,
            budget: place.budget_bytes,
            positive: place.positive,
            distribution,
            warm_up: place.warm_up,
            measured: place.measured,
            dir,
            load_seed: settings.store.seed,
            seed: place.seed,
        };
        // One cell that fails does not cost a long run its others; the run still fails at its end.
        let row = match cell::measure(&request) {
            Ok(measured) => measured.row(place),
            Err(error) => {
                failures.push(error.to_string());
                note(format!("{} {engine}: {error}", progress.done(&engine)));
                continue;
            }
        };
        note(format!(
            "{} {engine}, {}, positive {}, {} %: {:.3} pages, {:.1} us",
            progress.done(&engine),
            row.distribution,
            row.positive,
            row.budget_percent,
            row.pages,
            row.mean_us.unwrap_or_default(),
        ));
        settings.keep(&mut rows, row)?;
    }
    if settings.oracle {
        oracle::grid(settings, &mut rows, note)?;
    }
    match failures.first() {
        None => Ok(rows),
        Some(first) => Err(crate::Error::Child(format!(
            "{} cells failed, the first so: {first}",
            failures.len()
        ))),
    }
}
