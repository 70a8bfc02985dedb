//! Instructions per lookup with everything resident, from the processor's own counter, in user
//! space and this thread only. Linux; where the machine has no such counter (many virtual ones) the
//! experiment says so and measures nothing.
use super::{Lookups, Target};
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::runner::{self, Amount};
use crate::store::Store;
use crate::workload::{Distribution, Mix};
use crate::{Result, cell, proc_io};
use std::sync::atomic::AtomicU64;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines and their databases; a million entries are plenty here.
    #[command(flatten)]
    pub store: Store,
    /// Shares of lookups for existing keys.
    #[arg(long, value_delimiter = ',', default_value = "0,0.5,1")]
    pub positives: Vec<f64>,
    /// Lookups before measuring: enough to read everything.
    #[arg(long, default_value_t = 1_000_000)]
    pub warm_up: u64,
    /// Lookups measured.
    #[arg(long, default_value_t = 200_000)]
    pub measured: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 3)]
    pub repeat: usize,
}

/// One engine, one share of existing keys.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    target: Target,
    positive: f64,
    warm_up: u64,
    measured: u64,
}

/// What a [`Cell`] measured, per lookup.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    instructions: f64,
    pages: f64,
    us: f64,
}

#[cfg(target_os = "linux")]
fn counter() -> Result<perf_event::Counter> {
    let mut builder = perf_event::Builder::new(perf_event::events::Hardware::INSTRUCTIONS);
    builder.exclude_kernel(true).exclude_hv(true);
    builder.build().map_err(|source| {
        crate::Error::InvalidSetting(format!(
            "this machine does not count instructions for us ({source}); nothing was measured"
        ))
    })
}

impl Cell {
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn measure(&self) -> Result<Measured> {
        Err(crate::Error::InvalidSetting(
            "instructions are counted on Linux only".into(),
        ))
    }

    /// The lookups alone: keys are drawn before, answers checked after.
    #[cfg(target_os = "linux")]
    pub(crate) fn measure(&self) -> Result<Measured> {
        let mut counter = counter()?;
        let engine = self.target.open(true)?;
        let data = self.target.data();
        let mix = Mix::lookups(self.positive, Distribution::Uniform);
        let warm_up = Amount {
            operations: self.warm_up,
            threads: 1,
            phase: 1,
        };
        runner::run(engine.as_ref(), &data, &mix, warm_up, &AtomicU64::new(0))?;
        let mut lookups = Lookups::new(data, self.positive, Distribution::Uniform, 2)?;
        let mut value = Vec::new();
        let before = proc_io::ProcessIo::now();
        let mut time = std::time::Duration::ZERO;
        for _ in 0..self.measured {
            let (number, key) = lookups.draw();
            let start = std::time::Instant::now();
            counter.enable()?;
            let found = engine.get(&key, &mut value)?;
            counter.disable()?;
            time += start.elapsed();
            lookups.check(number, found.then_some(value.as_slice()))?;
        }
        let io = proc_io::ProcessIo::now().since(&before);
        let lookups = self.measured.max(1) as f64;
        Ok(Measured {
            instructions: counter.read()? as f64 / lookups,
            pages: io.pages() / lookups,
            us: time.as_secs_f64() * 1e6 / lookups,
        })
    }
}

/// Measures every cell, the engines alternating.
///
/// # Errors
/// Also where instructions cannot be counted.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    #[cfg(target_os = "linux")]
    drop(counter()?);
    let mut report = Report::new(
        "Instructions per lookup in user space, everything resident (pages tell whether it is)",
        &[
            "positive",
            "engine",
            "instructions",
            "to the last",
            "pages",
            "us with counting",
        ],
    );
    let mut progress = Progress::default();
    for engine in &settings.store.engines {
        let cells = settings.positives.len() * settings.repeat.max(1);
        (0..cells).for_each(|_| progress.expect(engine));
    }
    for &positive in &settings.positives {
        let mut found: Vec<Vec<Measured>> = vec![Vec::new(); settings.store.engines.len()];
        for repetition in 0..settings.repeat.max(1) as u64 {
            for (engine, found) in settings.store.engines.iter().zip(&mut found) {
                let mut target = Target::loaded(&settings.store, engine, 100.0, repetition, note)?;
                target.memory = 4 << 30;
                progress.start();
                found.push(cell::measure(&cell::Request::Cpu(Cell {
                    target,
                    positive,
                    warm_up: settings.warm_up,
                    measured: settings.measured,
                }))?);
                note(format!(
                    "{} {engine}, positive {positive}",
                    progress.done(engine)
                ));
            }
        }
        let of = |which: usize, value: fn(&Measured) -> f64| {
            median(&found.get(which)?.iter().map(value).collect::<Vec<_>>())
        };
        let last = of(settings.store.engines.len() - 1, |m| m.instructions);
        for (which, engine) in settings.store.engines.iter().enumerate() {
            let own = of(which, |m| m.instructions);
            report.push(vec![
                positive.into(),
                engine.clone().into(),
                own.into(),
                own.zip(last).map(|(own, last)| own / last).into(),
                of(which, |m| m.pages).into(),
                of(which, |m| m.us).into(),
            ]);
        }
    }
    Ok(report)
}
