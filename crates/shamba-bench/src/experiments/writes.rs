//! Pages per lookup while entries are overwritten, beside lookups alone: before, in the same tree,
//! and after, in the tree that the writes have left.
//!
//! Pages of lookups are those that the engine counts for them: what flushes and compactions read is
//! not among them. Memtables, and what flushes and compactions work with, take memory that lookups
//! alone have for blocks: of an engine that tells what it caches, lookups alone are measured once
//! more with as much less.
use super::Target;
use super::grid::Grid;
use crate::cell::{self, Measurement};
use crate::engine::{self, Engine};
use crate::report::Report;
use crate::runner::{self, Amount};
use crate::store;
use crate::workload::{Mix, Operation};
use crate::{Error, Result, row};
use shamba::MIN_MEMORY;

/// What to measure; each cell works on a copy of the engine's database.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("positives", |positives| positives.default_value("0.5")))]
pub struct Settings {
    /// The grid.
    #[command(flatten)]
    pub grid: Grid,
    /// Shares of operations that overwrite an entry of that distribution.
    #[arg(long, value_delimiter = ',', default_value = "0.05,0.2,0.5")]
    pub writes: Vec<f64>,
    /// Lookups measured in each of three phases, after as many that are not.
    #[arg(long, default_value_t = 100_000)]
    pub measured: u64,
}

/// One engine in one place of the grid.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    /// Its lookups.
    target: Target,
    /// The share of operations that write; with 0 lookups alone are all that is measured.
    writes: f64,
}

/// Parts of the phase with writes, after each of which it is asked what is cached.
const PARTS: u64 = 32;

/// What came out: of each phase pages per lookup.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Phases {
    before: f64,
    mixed: f64,
    after: f64,
    /// Bytes of blocks in memory after the lookups alone, and on the average beside writes, from
    /// engines that tell.
    cached: Option<[u64; 2]>,
    /// Sorted runs before and after.
    runs: [Option<u64>; 2],
    /// Bytes of tables that flushes and compactions wrote.
    written: u64,
    flushes: u64,
}

/// Bytes of blocks in memory, from engines that tell.
fn cached(engine: &dyn Engine) -> Option<u64> {
    let resident = engine.resident()?;
    Some(resident.data + resident.index + resident.filter)
}

/// What lookups read.
fn pages(engine: &dyn Engine) -> u64 {
    let counts = engine.counts();
    let of = |kind| counts.get(&format!("{kind}_pages")).copied().unwrap_or(0);
    ["data", "index", "filter"].map(of).iter().sum()
}

impl Measurement for Cell {
    type Found = Phases;

    fn measure(&self) -> Result<Phases> {
        let copy = store::copy(&self.target.dir)?;
        let trial = &self.target.trial;
        let config = trial.base.config(copy.path().to_owned(), trial.memory);
        engine::forget(copy.path())?;
        let engine = engine::open(&trial.engine, &config)?;
        let engine = engine.as_ref();
        let data = self.target.data();
        let mut mixed = trial.mix.clone();
        for (_, share) in &mut mixed.shares {
            *share *= 1.0 - self.writes;
        }
        mixed.shares.push((Operation::Update, self.writes));
        // So many lookups of a mix; how many pages each read.
        let mut phase = 0;
        let mut run = |mix: &Mix, lookups: u64| -> Result<f64> {
            phase += 1;
            let operations = (lookups as f64 / (1.0 - mix.share(Operation::Update))) as u64;
            let before = pages(engine);
            let amount = Amount::new(operations, 1, phase);
            let outcome = runner::measure(engine, &data, mix, amount)?;
            let lookups = outcome.operations - outcome.writes();
            Ok((pages(engine) - before) as f64 / lookups.max(1) as f64)
        };
        run(&trial.mix, trial.warm_up)?;
        let before = run(&trial.mix, trial.measured)?;
        let (runs, cached_alone) = (engine.runs(), cached(engine));
        if self.writes == 0.0 {
            return Ok(Phases {
                before,
                ..Phases::default()
            });
        }
        run(&mixed, trial.measured)?;
        let (mut beside, mut cached_beside) = (0.0, Some(0));
        for _ in 0..PARTS {
            beside += run(&mixed, trial.measured / PARTS)? / PARTS as f64;
            cached_beside = cached_beside
                .zip(cached(engine))
                .map(|(all, own)| all + own);
        }
        engine.flush()?;
        engine.wait_idle()?;
        run(&trial.mix, trial.measured)?;
        let after = run(&trial.mix, trial.measured)?;
        let counts = engine.counts();
        let count = |name| counts.get(name).copied().unwrap_or(0);
        Ok(Phases {
            before,
            mixed: beside,
            after,
            cached: cached_alone
                .zip(cached_beside)
                .map(|(alone, all)| [alone, all / PARTS]),
            runs: [runs, engine.runs()],
            written: count("flush_bytes") + count("compaction_bytes_written"),
            flushes: count("flushes"),
        })
    }
}

/// Measures every cell, each in a process of its own.
///
/// # Errors
/// Whatever the engines answer, wrong answers among it.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let sound = |share: &f64| (0.0..1.0).contains(share);
    if !settings.writes.iter().all(sound) {
        let what = "--writes are shares from 0 to less than 1: some lookups are left";
        return Err(Error::InvalidSetting(what.into()));
    }
    let mut report = Report::titled("Pages per lookup while entries are overwritten");
    let grid = &settings.grid;
    for place in grid.places() {
        for engine in &grid.store.engines {
            for &writes in &settings.writes {
                let target = grid.target(engine, place, settings.measured, note)?;
                let mut less = target.clone();
                let found = cell::measure(&Cell { target, writes })?;
                // Lookups alone in the memory that writes leave for blocks.
                let left = match found.cached {
                    Some([alone, beside]) => {
                        let taken = alone.saturating_sub(beside);
                        less.trial.memory = less.trial.memory.saturating_sub(taken).max(MIN_MEMORY);
                        let (target, writes) = (less, 0.0);
                        Some((taken, cell::measure(&Cell { target, writes })?.before))
                    }
                    None => None,
                };
                let row = row! {
                    "writes": writes,
                    "lookups alone": found.before,
                    "with writes": found.mixed,
                    "alone, afterwards": found.after,
                    "to before": found.mixed / found.before,
                    "to afterwards": found.mixed / found.after,
                    "MiB that writes took of the cache": left.map(|(taken, _)| {
                        taken as f64 / f64::from(1 << 20)
                    }),
                    "alone, without those": left.map(|(_, pages)| pages),
                    "to alone, without those": left.map(|(_, pages)| found.mixed / pages),
                    "runs": found.runs[0].map(|runs| runs as f64),
                    "runs afterwards": found.runs[1].map(|runs| runs as f64),
                    "flushes": found.flushes as f64,
                    "MiB written": found.written as f64 / f64::from(1 << 20),
                };
                report.add(place.row(engine, row));
                let (workload, percent) = (place.workload(), place.percent);
                note(format!("{workload}, {percent} %, {writes} writes"));
            }
        }
    }
    Ok(report)
}
