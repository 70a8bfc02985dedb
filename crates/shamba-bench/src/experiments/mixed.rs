//! Reads while the tree is written to and compacted: pages per lookup of the reading thread alone
//! (compaction reads in other threads), and write throughput, at the same small budget. Every cell
//! works on a copy of the loaded database.
use super::Target;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::runner::{self, Amount};
use crate::store::Store;
use crate::workload::{Distribution, Mix, Operation};
use crate::{Error, Result, cell, proc_io};
use std::sync::atomic::AtomicU64;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines and their databases.
    #[command(flatten)]
    pub store: Store,
    /// Budgets in percent of RocksDB's filters and indexes.
    #[arg(long, value_delimiter = ',', default_value = "25,100")]
    pub budgets: Vec<f64>,
    /// Of updates (half updates, half lookups, uniform), a, b and d (YCSB).
    #[arg(long, value_delimiter = ',', default_value = "updates,a,b,d")]
    pub workloads: Vec<String>,
    /// Operations before measuring.
    #[arg(long, default_value_t = 100_000)]
    pub warm_up: u64,
    /// Operations measured.
    #[arg(long, default_value_t = 200_000)]
    pub measured: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 1)]
    pub repeat: usize,
}

/// One engine, one budget, one workload.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    target: Target,
    workload: String,
    warm_up: u64,
    measured: u64,
}

/// What a [`Cell`] measured.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// Pages per lookup, read by the looking thread.
    pages: f64,
    /// Read operations per lookup.
    reads: f64,
    /// Mean microseconds of a lookup.
    lookup_us: f64,
    /// Writes per second of time inside them.
    writes_per_second: f64,
    /// Peak resident bytes of the process.
    peak_memory: u64,
}

fn mix(workload: &str) -> Result<Mix> {
    match workload {
        "updates" => Ok(Mix {
            shares: vec![(Operation::Read, 0.5), (Operation::Update, 0.5)],
            ..Mix::lookups(1.0, Distribution::Uniform)
        }),
        "a" | "b" | "d" => Mix::ycsb(workload.chars().next().unwrap_or('a')),
        _ => Err(Error::InvalidSetting(format!(
            "workload `{workload}` (updates, a, b or d)"
        ))),
    }
}

impl Cell {
    pub(crate) fn measure(&self) -> Result<Measured> {
        let engine = self.target.open(false)?;
        let data = self.target.data();
        let mix = mix(&self.workload)?;
        let progress = AtomicU64::new(0);
        let amount = |operations, phase| Amount {
            operations,
            threads: 1,
            phase,
        };
        runner::run(
            engine.as_ref(),
            &data,
            &mix,
            amount(self.warm_up, 1),
            &progress,
        )?;
        // One thread: the runner works in this one.
        let before = proc_io::ProcessIo::of_thread();
        let outcome = runner::run(
            engine.as_ref(),
            &data,
            &mix,
            amount(self.measured, 2),
            &progress,
        )?;
        let after = proc_io::ProcessIo::of_thread();
        let lookups = (outcome.operations - outcome.writes()).max(1) as f64;
        let (writing, looking) = outcome.split();
        Ok(Measured {
            pages: (after.pages() - before.pages()) / lookups,
            reads: (after.reads - before.reads) as f64 / lookups,
            lookup_us: looking.as_secs_f64() * 1e6 / lookups,
            writes_per_second: outcome.writes() as f64 / writing.as_secs_f64().max(1e-9),
            peak_memory: proc_io::peak_memory(),
        })
    }
}

/// Measures every cell, the engines alternating.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    for workload in &settings.workloads {
        mix(workload)?;
    }
    let mut report = Report::new(
        format!(
            "{} entries, {} operations beside compaction: reads of the looking thread per lookup",
            settings.store.entries, settings.measured
        ),
        &[
            "workload",
            "budget %",
            "engine",
            "pages",
            "reads",
            "lookup us",
            "writes/s",
            "peak MiB",
            "first's pages / these",
            "first's writes/s / these",
        ],
    );
    let mut progress = Progress::default();
    let cells = settings.workloads.len() * settings.budgets.len() * settings.repeat.max(1);
    for engine in &settings.store.engines {
        (0..cells).for_each(|_| progress.expect(engine));
    }
    for workload in &settings.workloads {
        for &percent in &settings.budgets {
            let mut found: Vec<Vec<Measured>> = vec![Vec::new(); settings.store.engines.len()];
            for repetition in 0..settings.repeat.max(1) as u64 {
                for (engine, found) in settings.store.engines.iter().zip(&mut found) {
                    let mut target =
                        Target::loaded(&settings.store, engine, percent, repetition, note)?;
                    progress.start();
                    let copy = settings.store.copy(engine, note)?;
                    target.dir = copy.path().to_owned();
                    let measured: Measured = cell::measure(&cell::Request::Mixed(Cell {
                        target,
                        workload: workload.clone(),
                        warm_up: settings.warm_up,
                        measured: settings.measured,
                    }))?;
                    note(format!(
                        "{} {workload}, {percent} %, {engine}: {:.3} pages",
                        progress.done(engine),
                        measured.pages
                    ));
                    found.push(measured);
                }
            }
            let of = |which: usize, value: fn(&Measured) -> f64| {
                let found = found.get(which)?;
                median(&found.iter().map(value).collect::<Vec<_>>())
            };
            for (which, engine) in settings.store.engines.iter().enumerate() {
                let ratio = |value: fn(&Measured) -> f64| {
                    let pair = of(0, value).zip(of(which, value));
                    pair.filter(|(_, theirs)| *theirs > 0.0)
                        .map(|(ours, theirs)| ours / theirs)
                };
                report.push(vec![
                    workload.clone().into(),
                    percent.into(),
                    engine.clone().into(),
                    of(which, |m| m.pages).into(),
                    of(which, |m| m.reads).into(),
                    of(which, |m| m.lookup_us).into(),
                    of(which, |m| m.writes_per_second).into(),
                    of(which, |m| m.peak_memory as f64 / f64::from(1 << 20)).into(),
                    ratio(|m| m.pages).into(),
                    ratio(|m| m.writes_per_second).into(),
                ]);
            }
        }
    }
    Ok(report)
}
