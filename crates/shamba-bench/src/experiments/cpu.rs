//! Instructions per lookup with everything resident, in user space and of this thread only: from the
//! processor's own counter (Linux), or, where the machine has none (many virtual ones), counted by
//! Valgrind if that is installed. Where there is neither, the experiment says so and measures nothing.
use super::{Lookups, Target};
use crate::engine::Engine;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::runner::{self, Amount};
use crate::store::Store;
use crate::workload::{Distribution, Mix};
use crate::{Result, cell, proc_io};
use std::process::Command;
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
    counter: Counter,
}

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Counter {
    Processor,
    Valgrind,
}

/// What a [`Cell`] measured, per lookup.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// 0 where somebody else counts.
    instructions: f64,
    pages: f64,
    us: f64,
}

/// The processor's counter.
#[cfg(target_os = "linux")]
struct Processor(perf_event::Counter);

#[cfg(target_os = "linux")]
impl Processor {
    fn new() -> Result<Self> {
        let mut builder = perf_event::Builder::new(perf_event::events::Hardware::INSTRUCTIONS);
        builder.exclude_kernel(true).exclude_hv(true);
        Ok(Self(builder.build()?))
    }

    fn count<T>(&mut self, work: impl FnOnce() -> T) -> Result<T> {
        self.0.enable()?;
        let done = work();
        self.0.disable()?;
        Ok(done)
    }

    fn read(&mut self) -> Result<u64> {
        Ok(self.0.read()?)
    }
}

/// There is none that we know to read.
#[cfg(not(target_os = "linux"))]
struct Processor;

#[cfg(not(target_os = "linux"))]
impl Processor {
    fn new() -> Result<Self> {
        Err(crate::Error::InvalidSetting(
            "the processor counts instructions for us on Linux only".into(),
        ))
    }

    fn count<T>(&mut self, work: impl FnOnce() -> T) -> Result<T> {
        Ok(work())
    }

    fn read(&mut self) -> Result<u64> {
        Ok(0)
    }
}

/// One lookup. Valgrind counts what is done inside, by this name.
#[inline(never)]
fn counted_lookup(engine: &dyn Engine, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
    engine.get(key, value)
}

impl Counter {
    /// One that this machine has.
    fn find() -> Result<Self> {
        let Err(processor) = Processor::new() else {
            return Ok(Counter::Processor);
        };
        match Command::new("valgrind").arg("--version").output() {
            Ok(output) if output.status.success() => Ok(Counter::Valgrind),
            _ => Err(crate::Error::InvalidSetting(format!(
                "this processor does not count instructions for us ({processor}), and Valgrind, which \
                 would, is not installed; nothing was measured"
            ))),
        }
    }

    /// Measures a cell in a process of its own.
    fn measure(self, cell: Cell) -> Result<Measured> {
        let lookups = cell.measured.max(1) as f64;
        let request = cell::Request::Cpu(cell);
        if self == Counter::Processor {
            return cell::measure(&request);
        }
        let folder = tempfile::tempdir()?;
        let counts = folder.path().join("counts");
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
            .arg("--toggle-collect=*counted_lookup*")
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(std::env::current_exe()?);
        let measured: Measured = cell::measure_by(valgrind, &request)?;
        let text = std::fs::read_to_string(counts)?;
        let summary = text.lines().find_map(|line| line.strip_prefix("summary: "));
        let counted: Option<f64> = summary.and_then(|count| count.trim().parse().ok());
        match counted {
            Some(counted) if counted > 0.0 => Ok(Measured {
                instructions: counted / lookups,
                ..measured
            }),
            _ => Err(crate::Error::Child("valgrind counted nothing".into())),
        }
    }
}

impl Cell {
    /// The lookups alone: keys are drawn before, answers checked after.
    pub(crate) fn measure(&self) -> Result<Measured> {
        let mut processor = match self.counter {
            Counter::Processor => Some(Processor::new()?),
            Counter::Valgrind => None,
        };
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
            let mut lookup = || counted_lookup(engine.as_ref(), &key, &mut value);
            let found = match &mut processor {
                Some(processor) => processor.count(lookup)??,
                None => lookup()?,
            };
            time += start.elapsed();
            lookups.check(number, found.then_some(value.as_slice()))?;
        }
        let io = proc_io::ProcessIo::now().since(&before);
        let lookups = self.measured.max(1) as f64;
        Ok(Measured {
            instructions: match &mut processor {
                Some(processor) => processor.read()? as f64 / lookups,
                None => 0.0,
            },
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
    let counter = Counter::find()?;
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
                found.push(counter.measure(Cell {
                    target,
                    positive,
                    warm_up: settings.warm_up,
                    measured: settings.measured,
                    counter,
                })?);
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
