//! Instructions per lookup and per scan with everything resident, in user space and of this thread
//! only: from the processor's own counter (Linux), or, where the machine has none (many virtual
//! ones), counted by Valgrind if that is installed. Where there is neither, the experiment says so
//! and measures nothing.
use super::{Lookups, Target};
use crate::cell::{self, Measurement};
use crate::engine::Engine;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::runner::{self, Amount};
use crate::store::Store;
use crate::workload::{Distribution, Mix};
use crate::{Result, proc_io, row};
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
    /// Entries of scans to be measured as well, each from an existing key on: 1 for a seek.
    #[arg(long, value_delimiter = ',')]
    pub scans: Vec<usize>,
    /// Lookups before measuring: enough to read everything. (Before scans everything is scanned.)
    #[arg(long, default_value_t = 1_000_000)]
    pub warm_up: u64,
    /// Lookups measured, and entries of scans.
    #[arg(long, default_value_t = 200_000)]
    pub measured: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 3)]
    pub repeat: usize,
}

/// What is done over and over.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum Work {
    /// Lookups, of which this share is for existing keys.
    Lookups(f64),
    /// Scans of so many entries.
    Scans(usize),
}

/// One engine, one kind of work.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    target: Target,
    work: Work,
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

/// What a [`Cell`] measured, per lookup or scan.
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

/// One lookup or scan; how many entries there were, and the value of the first. Valgrind counts
/// what is done inside, by this name.
#[inline(never)]
fn counted_operation(
    engine: &dyn Engine,
    work: Work,
    key: &[u8],
    first: &mut Vec<u8>,
) -> Result<usize> {
    match work {
        Work::Lookups(_) => Ok(engine.get(key, first)?.into()),
        Work::Scans(entries) => {
            let mut seen = 0;
            engine.scan(key, entries, &mut |_, value| {
                if seen == 0 {
                    first.clear();
                    first.extend_from_slice(value);
                }
                seen += 1;
                Ok(())
            })
        }
    }
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
        let operations = cell.operations() as f64;
        if self == Counter::Processor {
            return cell::measure(&cell);
        }
        let folder = tempfile::tempdir()?;
        let counts = folder.path().join("counts");
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
            .arg("--toggle-collect=*counted_operation*")
            .arg(format!("--callgrind-out-file={}", counts.display()))
            .arg(std::env::current_exe()?);
        let measured: Measured = cell::measure_by(valgrind, &cell)?;
        let text = std::fs::read_to_string(counts)?;
        let summary = text.lines().find_map(|line| line.strip_prefix("summary: "));
        let counted: Option<f64> = summary.and_then(|count| count.trim().parse().ok());
        match counted {
            Some(counted) if counted > 0.0 => Ok(Measured {
                instructions: counted / operations,
                ..measured
            }),
            _ => Err(crate::Error::Child("valgrind counted nothing".into())),
        }
    }
}

impl Measurement for Cell {
    const NAME: &str = "cpu";
    type Found = Measured;

    /// The operations alone: keys are drawn before, answers checked after.
    fn measure(&self) -> Result<Measured> {
        let mut processor = match self.counter {
            Counter::Processor => Some(Processor::new()?),
            Counter::Valgrind => None,
        };
        let engine = self.target.open(true)?;
        let data = self.target.data();
        let positive = match self.work {
            Work::Lookups(positive) => {
                let mix = Mix::lookups(positive, Distribution::Uniform);
                let warm_up = Amount {
                    operations: self.warm_up,
                    threads: 1,
                    phase: 1,
                };
                runner::run(engine.as_ref(), &data, &mix, warm_up, &AtomicU64::new(0))?;
                positive
            }
            Work::Scans(_) => {
                engine.scan(&[], usize::MAX, &mut |_, _| Ok(()))?;
                1.0
            }
        };
        let entries = data.keys.entries();
        let mut lookups = Lookups::new(data, positive, Distribution::Uniform, 2)?;
        let mut value = Vec::new();
        let before = proc_io::ProcessIo::now();
        let mut time = std::time::Duration::ZERO;
        for _ in 0..self.operations() {
            let (number, key) = lookups.draw();
            let start = std::time::Instant::now();
            let mut work = || counted_operation(engine.as_ref(), self.work, &key, &mut value);
            let found = match &mut processor {
                Some(processor) => processor.count(work)??,
                None => work()?,
            };
            time += start.elapsed();
            lookups.check(number, (found > 0).then_some(value.as_slice()))?;
            let left = number.map_or(0, |number| (entries - number) as usize);
            if let Work::Scans(most) = self.work
                && found != most.min(left)
            {
                let what = format!("a scan of {most} entries found {found} of {left}");
                return Err(crate::Error::WrongAnswer(what));
            }
        }
        let io = proc_io::ProcessIo::now().since(&before);
        let operations = self.operations() as f64;
        Ok(Measured {
            instructions: match &mut processor {
                Some(processor) => processor.read()? as f64 / operations,
                None => 0.0,
            },
            pages: io.pages() / operations,
            us: time.as_secs_f64() * 1e6 / operations,
        })
    }
}

impl Cell {
    /// How often the work is done.
    fn operations(&self) -> u64 {
        match self.work {
            Work::Lookups(_) => self.measured.max(1),
            Work::Scans(entries) => (self.measured / entries.max(1) as u64).max(1),
        }
    }
}

/// Measures every cell, the engines alternating.
///
/// # Errors
/// Also where instructions cannot be counted.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let counter = Counter::find()?;
    let mut report = Report::titled(
        "Instructions per lookup or scan in user space, everything resident (pages tell whether it is)",
    );
    let lookups = settings.positives.iter().map(|share| Work::Lookups(*share));
    let scans = settings.scans.iter().map(|entries| Work::Scans(*entries));
    let works: Vec<Work> = lookups.chain(scans).collect();
    let (engines, repeat) = (&settings.store.engines, settings.repeat.max(1));
    let mut progress = Progress::default();
    for engine in engines {
        (0..works.len() * repeat).for_each(|_| progress.expect(engine));
    }
    for &work in &works {
        let (positive, entries) = match work {
            Work::Lookups(share) => (Some(share), None),
            Work::Scans(entries) => (None, Some(entries as f64)),
        };
        let mut found: Vec<Vec<Measured>> = vec![Vec::new(); engines.len()];
        for repetition in 0..repeat as u64 {
            for (engine, found) in engines.iter().zip(&mut found) {
                let mut target = Target::loaded(&settings.store, engine, 100.0, repetition, note)?;
                target.memory = 4 << 30;
                progress.start();
                found.push(counter.measure(Cell {
                    target,
                    work,
                    warm_up: settings.warm_up,
                    measured: settings.measured,
                    counter,
                })?);
                note(format!("{} {engine}, {work:?}", progress.done(engine)));
            }
        }
        let middle = |of: &[Measured], value: fn(&Measured) -> f64| {
            median(&of.iter().map(value).collect::<Vec<_>>())
        };
        let last = found
            .last()
            .and_then(|last| middle(last, |m| m.instructions));
        for (engine, found) in engines.iter().zip(&found) {
            let own = middle(found, |m| m.instructions);
            report.add(row! {
                "positive": positive,
                "entries of a scan": entries,
                "engine": engine.clone(),
                "instructions": own,
                "to the last": own.zip(last).map(|(own, last)| own / last),
                "pages": middle(found, |m| m.pages),
                "us with counting": middle(found, |m| m.us),
            });
        }
    }
    Ok(report)
}
