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
use crate::report::Report;
use crate::reproduce::Lab;
use crate::reproduce::trial::{Found, KERNEL_PAGES, Trial, median_of};
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

/// Operations in a second; nothing is known where the engine was killed in all repetitions.
fn per_second(found: &[Found]) -> Option<f64> {
    median_of(found, |found| 1e6 / found.times.mean_us)
}

/// A quotient of what may be unknown.
fn quotient(of: Option<f64>, by: Option<f64>) -> Option<f64> {
    of.zip(by).map(|(of, by)| of / by)
}

impl Settings {
    /// What the repetitions of each engine found in a place, the engines taking turns.
    fn measure(&self, lab: &mut Lab<'_>, mix: &Mix, percent: f64) -> Result<Vec<Vec<Found>>> {
        let engines = &self.store.engines;
        let mut all = vec![Vec::new(); engines.len()];
        let memory = self.store.budget(percent);
        for repetition in 0..self.repeat.max(1) {
            // The first tells what others may have; these begin with another one each time.
            let others = all.len().saturating_sub(1).max(1);
            let turns = (0..all.len()).map(|at| match at {
                0 => 0,
                _ => 1 + (at - 1 + repetition as usize) % others,
            });
            let mut most = 0;
            for at in turns {
                let base = self.store.base(&engines[at]);
                let trial = Trial::lookups(base, memory, 1.0, mix.distribution)
                    .lasting((self.warm_up, self.measured))
                    .on(Device::Disk);
                let trial = Trial {
                    mix: mix.clone(),
                    seed: trial.seed + repetition,
                    contained: is_cached(&engines[at]).then_some(most + MIB),
                    ..trial
                };
                match lab.measure(&trial) {
                    Ok(found) => {
                        if at == 0 {
                            most = found.peak_own_memory;
                        }
                        all[at].push(found);
                    }
                    Err(Error::Killed(_)) if trial.contained.is_some() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
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
    let mixes = settings.mixes.iter().map(|name| name.parse::<Mix>());
    let mixes = mixes.collect::<Result<Vec<_>>>()?;
    let mut lab = settings.kept.lab(&settings.store, passing.path(), note)?;
    let mut report = Report::titled("Mixes of operations under small budgets");
    for (name, mix) in settings.mixes.iter().zip(&mixes) {
        for &percent in &settings.budgets {
            let all = settings.measure(&mut lab, mix, percent)?;
            let first = all.first().and_then(|found| per_second(found));
            for (engine, found) in settings.store.engines.iter().zip(&all) {
                let median = |value: fn(&Found) -> f64| median_of(found, value);
                let pages = |found: &Found| {
                    found.count(KERNEL_PAGES) as f64 / found.times.operations.max(1) as f64
                };
                report.add(row! {
                    "mix": name,
                    "budget %": percent,
                    "engine": engine,
                    "operations/s": per_second(found),
                    "first's operations/s / these": quotient(first, per_second(found)),
                    "p50 us": median(|found| found.times.p50_us),
                    "p99 us": median(|found| found.times.p99_us),
                    "pages read": median(pages),
                    "peak MiB": median(|found| found.peak_own_memory as f64 / MIB as f64),
                    "repetitions": found.len() as f64,
                });
            }
            lab.note(format!("{name}, {percent} %"));
        }
    }
    Ok(report)
}
