//! Mixes of operations under small budgets by the clock: engines beside each other, taking turns.
//!
//! Each measurement of a mix that writes works on a copy of the engine's database on this disk, by
//! direct I/O, with two threads that flush and compact. What the kernel read is of the whole
//! process, with compactions. An engine that leaves caching to the system (fjall, redb) gets a
//! memory control group of what the process of the first engine took at most and a MiB more. Keys
//! that the warm-up added the measured operations add again, so that of so many inserts some
//! overwrite, for every engine alike.
use crate::device::Device;
use crate::engine::{CACHED, family};
use crate::pressure::KeptTrials;
use crate::report::{Report, median};
use crate::reproduce::trial::{Found, KERNEL_PAGES, Trial};
use crate::reproduce::{Lab, Scale};
use crate::store::Store;
use crate::workload::Mix;
use crate::{Error, Result, row};

/// The grid.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines, the one to judge first, and their databases.
    #[command(flatten)]
    pub store: Store,
    /// Budgets in percent of RocksDB's filters and indexes.
    #[arg(long, value_delimiter = ',', default_value = "10,40")]
    pub budgets: Vec<f64>,
    /// Mixes that have a name.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f"
    )]
    pub mixes: Vec<String>,
    /// Operations before measuring.
    #[arg(long, default_value_t = 100_000)]
    pub warm_up: u64,
    /// Operations measured.
    #[arg(long, default_value_t = 100_000)]
    pub measured: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 3)]
    pub repeat: u64,
    /// Where measurements are kept.
    #[command(flatten)]
    pub kept: KeptTrials,
}

/// Allowed beside for what the system itself keeps of a group.
const MIB: u64 = 1 << 20;

fn is_cached(engine: &str) -> bool {
    CACHED.contains(&family(engine))
}

/// What the repetitions of an engine found; none where it was killed.
struct Row<'a> {
    engine: &'a str,
    found: Vec<Found>,
}

impl Row<'_> {
    fn median(&self, value: impl Fn(&Found) -> f64) -> Option<f64> {
        median(&self.found.iter().map(value).collect::<Vec<_>>())
    }

    fn per_second(&self) -> Option<f64> {
        self.median(|found| 1e6 / found.times.mean_us)
    }
}

/// A quotient of what may be unknown.
fn quotient(of: Option<f64>, by: Option<f64>) -> Option<f64> {
    of.zip(by).map(|(of, by)| of / by)
}

impl Settings {
    /// What all engines found in a place, taking turns.
    fn measure(&self, lab: &mut Lab<'_>, mix: &Mix, percent: f64) -> Result<Vec<Row<'_>>> {
        let row = |engine| Row {
            engine,
            found: Vec::new(),
        };
        let mut rows: Vec<Row<'_>> = self.store.engines.iter().map(|e| row(e)).collect();
        let memory = self.store.budget(percent);
        for repetition in 0..self.repeat.max(1) {
            // The first tells what others may have; these begin with another one each time.
            let others = rows.len().saturating_sub(1).max(1);
            let turn = |at: usize| match at {
                0 => 0,
                _ => 1 + (at - 1 + repetition as usize) % others,
            };
            let mut most = 0;
            for at in (0..rows.len()).map(turn) {
                let Some(row) = rows.get_mut(at) else {
                    continue;
                };
                let base = self.store.base(row.engine);
                let trial = Trial::lookups(base, memory, 1.0, mix.distribution)
                    .lasting((self.warm_up, self.measured))
                    .on(Device::Disk);
                let trial = Trial {
                    mix: mix.clone(),
                    seed: trial.seed + repetition,
                    contained: is_cached(row.engine).then_some(most + MIB),
                    ..trial
                };
                match lab.measure(&trial) {
                    Ok(found) => {
                        if at == 0 {
                            most = found.peak_own_memory;
                        }
                        row.found.push(found);
                    }
                    Err(Error::Killed(_)) if trial.contained.is_some() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(rows)
    }
}

/// Measures every place of the grid.
///
/// # Errors
/// Whatever the engines answer, wrong answers among it; a mix that has no such name.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    if settings.store.engines.first().is_some_and(|e| is_cached(e)) {
        let what = "fjall and redb get as much memory as the first engine took: name another first";
        return Err(Error::InvalidSetting(what.into()));
    }
    let passing = tempfile::tempdir()?;
    let file = settings.kept.file(passing.path())?;
    let mixes = settings.mixes.iter().map(|name| name.parse::<Mix>());
    let mixes = mixes.collect::<Result<Vec<_>>>()?;
    let (store, resume) = (&settings.store, settings.kept.resume);
    let mut lab = Lab::new(Scale::Paper, store.seed, &store.dir, file, resume, note)?;
    let mut report = Report::titled("Mixes of operations under small budgets");
    for (name, mix) in settings.mixes.iter().zip(&mixes) {
        for &percent in &settings.budgets {
            let rows = settings.measure(&mut lab, mix, percent)?;
            let first = rows.first().and_then(Row::per_second);
            for row in &rows {
                let per_operation =
                    |found: &Found, count: u64| count as f64 / found.times.operations.max(1) as f64;
                report.add(row! {
                    "mix": name.clone(),
                    "budget %": percent,
                    "engine": row.engine.to_owned(),
                    "operations/s": row.per_second(),
                    "first's operations/s / these": quotient(first, row.per_second()),
                    "p50 us": row.median(|found| found.times.p50_us),
                    "p99 us": row.median(|found| found.times.p99_us),
                    "pages read": row.median(|found| {
                        per_operation(found, found.count(KERNEL_PAGES))
                    }),
                    "peak MiB": row.median(|found| found.peak_own_memory as f64 / MIB as f64),
                    "repetitions": row.found.len() as f64,
                });
            }
            lab.note(format!("{name}, {percent} %"));
        }
    }
    Ok(report)
}
