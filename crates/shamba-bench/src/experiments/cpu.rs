//! Instructions per lookup and per scan, with everything resident or in a budget, and per put into
//! a memtable, in user space and of one thread only. Valgrind counts them, the same on every
//! machine and at every run; where it is not installed, the experiment says so and measures
//! nothing.
pub(crate) mod puts;

use super::{Target, named};
use crate::cell::{self, Measurement};
use crate::device::Device;
use crate::engine::Engine;
use crate::proc_io::ProcessIo;
use crate::report::Cell::Missing;
use crate::report::Report;
use crate::reproduce::trial::Trial;
use crate::runner::{self, Amount};
use crate::store::{Base, Store};
use crate::workload::Distribution;
use crate::{Error, Result, row};
use clap::builder::ArgPredicate;
use puts::Puts;
use std::process::Command;

/// Everything is resident in so many bytes, where no budget is said.
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
    /// Memory for lookups and scans, in percent of RocksDB's filters and indexes; everything is
    /// resident where nothing is said.
    #[arg(long)]
    pub budget: Option<f64>,
    /// Lookups before measuring: enough to read everything. (Before scans everything is scanned.)
    #[arg(long, default_value_t = 1_000_000)]
    pub warm_up: u64,
    /// Lookups measured, entries of scans, and puts.
    #[arg(long, default_value_t = 200_000)]
    pub measured: u64,
}

impl Settings {
    /// Bytes for lookups and scans.
    fn memory(&self) -> u64 {
        (self.budget).map_or(MEMORY, |percent| self.store.budget(percent))
    }
}

/// What is done over and over.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
enum Work {
    /// Lookups, of which this share is for existing keys.
    Lookups(f64),
    /// Scans of so many entries.
    Scans(usize),
}

/// What is counted.
#[derive(Clone, Copy)]
enum Kind {
    Read(Work),
    Put(Puts),
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
                let warm_up = Amount::new(trial.warm_up, 1, 1);
                runner::measure(engine, &self.target.data(), &trial.mix, warm_up)?;
            }
            Work::Scans(_) => {
                engine.scan(&[], usize::MAX, &mut |_, _| Ok(()))?;
            }
        }
        let mut lookups = self.target.lookups(2)?;
        let mut value = Vec::new();
        let before = ProcessIo::now();
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
        let io = ProcessIo::now().since(&before);
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
        "Instructions per lookup, scan or put in user space (pages tell whether everything is resident)",
    );
    let lookups = settings
        .positives
        .iter()
        .map(|share| Kind::Read(Work::Lookups(*share)));
    let scans = settings
        .scans
        .iter()
        .map(|entries| Kind::Read(Work::Scans(*entries)));
    let puts = settings.puts.iter().map(|puts| Kind::Put(*puts));
    for kind in lookups.chain(scans).chain(puts) {
        let mut found = Vec::new();
        for engine in &settings.store.engines {
            found.push(match kind {
                Kind::Read(work) => read(settings, engine, work, note)?,
                Kind::Put(puts) => (put(settings, engine, puts, note)?, None),
            });
        }
        let last = found.last().map_or(f64::NAN, |(last, _)| *last);
        for (engine, (instructions, pages)) in settings.store.engines.iter().zip(found) {
            let (positive, entries, puts) = match kind {
                Kind::Read(Work::Lookups(share)) => (Some(share), None, Missing),
                Kind::Read(Work::Scans(entries)) => (None, Some(entries as f64), Missing),
                Kind::Put(puts) => (None, None, named(&puts).into()),
            };
            report.add(row! {
                "positive": positive,
                "entries of a scan": entries,
                "puts": puts,
                "engine": engine,
                "instructions": instructions,
                "to the last": instructions / last,
                "pages": pages,
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
) -> Result<(f64, Option<f64>)> {
    let (positive, entries) = match work {
        Work::Lookups(share) => (share, 1),
        Work::Scans(entries) => (1.0, entries.max(1) as u64),
    };
    let measured = (settings.measured / entries).max(1);
    let base = settings.store.base(engine);
    let trial = Trial::lookups(base, settings.memory(), positive, Distribution::Uniform)
        .lasting((settings.warm_up, measured))
        .on(Device::Disk);
    let dir = settings.store.loaded(engine, note)?;
    let target = Target { trial, dir };
    let (instructions, pages) = counted(&Cell { target, work }, measured)?;
    note(format!("{engine}, {work:?}"));
    Ok((instructions, Some(pages)))
}

/// Instructions of a put.
fn put(settings: &Settings, engine: &str, puts: Puts, note: &mut dyn FnMut(String)) -> Result<f64> {
    let store = &settings.store;
    std::fs::create_dir_all(&store.dir)?;
    let folder = tempfile::TempDir::with_prefix_in("puts-", &store.dir)?;
    let entries = settings.measured.max(1);
    let base = Base {
        entries,
        ..store.base(engine)
    };
    let dir = folder.path().join("database");
    let (instructions, ()) = counted(&puts::Cell { base, puts, dir }, entries)?;
    note(format!("{engine}, {} puts", named(&puts)));
    Ok(instructions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::settings;

    #[test]
    fn everything_is_resident_unless_a_budget_is_said() {
        let memory = |more: &str| {
            let given = "--engines shamba --dir databases --full-budget 40000000";
            let settings: Settings = settings(&format!("{given} {more}"));
            settings.memory()
        };
        assert_eq!([memory(""), memory("--budget 25")], [MEMORY, 10_000_000]);
    }

    #[test]
    fn puts_alone_ask_for_no_lookups() {
        let asked = |more: &str| {
            let given = format!("--engines shamba --dir databases {more}");
            let settings: Settings = settings(&given);
            (settings.positives, settings.puts)
        };
        assert_eq!(asked(""), (vec![0.0, 0.5, 1.0], vec![]));
        let both = vec![Puts::Plain, Puts::Ttl];
        assert_eq!(asked("--puts plain,ttl"), (vec![], both.clone()));
        assert_eq!(asked("--puts plain,ttl --positives 0.5"), (vec![0.5], both));
    }
}
