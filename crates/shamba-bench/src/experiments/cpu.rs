//! Instructions per lookup and per scan with everything resident, and per put into a memtable, in
//! user space and of one thread only. Valgrind counts them, the same on every machine and at every
//! run; where it is not installed, the experiment says so and measures nothing.
pub(crate) mod puts;

use super::Target;
use crate::cell::{self, Measurement};
use crate::device::Device;
use crate::engine::Engine;
use crate::report::{self, Report};
use crate::reproduce::trial::Trial;
use crate::runner::{self, Amount};
use crate::store::{Base, Store};
use crate::workload::Distribution;
use crate::{Error, Result, proc_io, row};
use clap::builder::ArgPredicate;
use puts::Puts;
use std::process::Command;
use std::sync::atomic::AtomicU64;

/// Everything is resident in so many bytes.
const MEMORY: u64 = 4 << 30;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Engines and their databases; a million entries are plenty here.
    #[command(flatten)]
    pub store: Store,
    /// Shares of lookups for existing keys; none, if nothing is said, where puts are measured.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0,0.5,1",
        default_value_if("puts", ArgPredicate::IsPresent, None)
    )]
    pub positives: Vec<f64>,
    /// Entries of scans to be measured as well, each from an existing key on: 1 for a seek.
    #[arg(long, value_delimiter = ',')]
    pub scans: Vec<usize>,
    /// Puts to be measured, each of a new key into the memtable of a new database, which never
    /// fills. Engines other than shamba have the first two.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub puts: Vec<Puts>,
    /// Lookups before measuring: enough to read everything. (Before scans everything is scanned.)
    #[arg(long, default_value_t = 1_000_000)]
    pub warm_up: u64,
    /// Lookups measured, entries of scans, and puts.
    #[arg(long, default_value_t = 200_000)]
    pub measured: u64,
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

impl Measurement for Cell {
    /// Pages read per operation: 0 where everything is resident.
    type Found = f64;

    /// The operations alone are counted: keys are drawn before, answers checked after.
    fn measure(&self) -> Result<f64> {
        let engine = self.target.open()?;
        let engine = engine.as_ref();
        let trial = &self.target.trial;
        match self.work {
            Work::Lookups(_) => {
                let warm_up = Amount::alone(trial.warm_up, 1);
                let (data, progress) = (self.target.data(), AtomicU64::new(0));
                runner::run(engine, &data, &trial.mix, warm_up, &progress)?;
            }
            Work::Scans(_) => {
                engine.scan(&[], usize::MAX, &mut |_, _| Ok(()))?;
            }
        }
        let mut lookups = self.target.lookups(2)?;
        let mut value = Vec::new();
        let before = proc_io::ProcessIo::now();
        for _ in 0..trial.measured {
            let (number, key) = lookups.draw();
            let found = counted_operation(engine, self.work, &key, &mut value)?;
            lookups.check(number, (found > 0).then_some(value.as_slice()))?;
            let left = number.map_or(0, |number| (trial.base.entries - number) as usize);
            if let Work::Scans(most) = self.work
                && found != most.min(left)
            {
                let what = format!("a scan of {most} entries found {found} of {left}");
                return Err(Error::WrongAnswer(what));
            }
        }
        let io = proc_io::ProcessIo::now().since(&before);
        Ok(io.pages() / trial.measured as f64)
    }
}

/// Measures so many operations in a process of its own, under Valgrind: instructions of one, and
/// what was found.
fn counted<M: Measurement>(cell: &M, operations: u64) -> Result<(f64, M::Found)> {
    let folder = tempfile::tempdir()?;
    let counts = folder.path().join("counts");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .arg("--toggle-collect=*counted_operation*")
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe()?);
    let found = cell::measure_by(valgrind, cell)?;
    let text = std::fs::read_to_string(counts)?;
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: "));
    let counted: Option<f64> = summary.and_then(|count| count.trim().parse().ok());
    match counted {
        Some(counted) if counted > 0.0 => Ok((counted / operations as f64, found)),
        _ => Err(Error::Child("valgrind counted nothing".into())),
    }
}

/// Measures every cell.
///
/// # Errors
/// Also where instructions cannot be counted.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let version = Command::new("valgrind").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        let what = "Valgrind, which counts instructions, is not installed; nothing was measured";
        return Err(Error::InvalidSetting(what.into()));
    }
    let mut report = Report::titled(
        "Instructions per lookup, scan or put in user space, everything resident (pages tell whether it is)",
    );
    let lookups = settings.positives.iter().map(|share| Work::Lookups(*share));
    let scans = settings.scans.iter().map(|entries| Work::Scans(*entries));
    for work in lookups.chain(scans) {
        let (positive, entries) = match work {
            Work::Lookups(share) => (Some(share), None),
            Work::Scans(entries) => (None, Some(entries)),
        };
        let each = |engine: &String| read(settings, engine, work, note);
        let found = settings.store.engines.iter().map(each);
        let found = found.collect::<Result<Vec<_>>>()?;
        let last = found.last().map_or(f64::NAN, |(last, _)| *last);
        for (engine, (instructions, pages)) in settings.store.engines.iter().zip(found) {
            report.add(row! {
                "positive": positive,
                "entries of a scan": entries.map(|entries| entries as f64),
                "puts": report::Cell::Missing,
                "engine": engine.clone(),
                "instructions": instructions,
                "to the last": instructions / last,
                "pages": pages,
            });
        }
    }
    for &puts in &settings.puts {
        let each = |engine: &String| put(settings, engine, puts, note);
        let found = settings.store.engines.iter().map(each);
        let found = found.collect::<Result<Vec<_>>>()?;
        let last = found.last().copied().unwrap_or(f64::NAN);
        for (engine, instructions) in settings.store.engines.iter().zip(found) {
            report.add(row! {
                "positive": None,
                "entries of a scan": None,
                "puts": puts.name(),
                "engine": engine.clone(),
                "instructions": instructions,
                "to the last": instructions / last,
                "pages": None,
            });
        }
    }
    Ok(report)
}

/// Instructions and pages of a lookup or scan.
fn read(
    settings: &Settings,
    engine: &str,
    work: Work,
    note: &mut dyn FnMut(String),
) -> Result<(f64, f64)> {
    let (positive, entries) = match work {
        Work::Lookups(share) => (share, 1),
        Work::Scans(entries) => (1.0, entries.max(1) as u64),
    };
    let base = settings.store.base(engine);
    let measured = (settings.measured / entries).max(1);
    let trial = Trial {
        warm_up: settings.warm_up,
        measured,
        device: Device::Disk,
        ..Trial::lookups(base, MEMORY, positive, Distribution::Uniform)
    };
    let dir = settings.store.loaded(engine, note)?;
    let target = Target { trial, dir };
    let found = counted(&Cell { target, work }, measured)?;
    note(format!("{engine}, {work:?}"));
    Ok(found)
}

/// Instructions of a put.
fn put(settings: &Settings, engine: &str, puts: Puts, note: &mut dyn FnMut(String)) -> Result<f64> {
    let store = &settings.store;
    std::fs::create_dir_all(&store.dir)?;
    let folder = tempfile::TempDir::with_prefix_in("puts-", &store.dir)?;
    let base = Base {
        entries: settings.measured.max(1),
        ..store.base(engine)
    };
    let entries = base.entries;
    let dir = folder.path().join("database");
    let (instructions, ()) = counted(&puts::Cell { base, puts, dir }, entries)?;
    note(format!("{engine}, {} puts", puts.name()));
    Ok(instructions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn puts_alone_ask_for_no_lookups() {
        let asked = |more: &[&str]| {
            let given = ["cpu", "--engines", "shamba", "--dir", "databases"];
            let settings = Arguments::parse_from(given.iter().chain(more)).settings;
            (settings.positives, settings.puts)
        };
        assert_eq!(asked(&[]), (vec![0.0, 0.5, 1.0], vec![]));
        let both = vec![Puts::Plain, Puts::Ttl];
        assert_eq!(asked(&["--puts", "plain,ttl"]), (vec![], both.clone()));
        let all = ["--puts", "plain,ttl", "--positives", "0.5"];
        assert_eq!(asked(&all), (vec![0.5], both));
    }
}
