//! What the least budgets cost in time: imports, scans over many runs of level 0, and a compaction
//! of many small tables whose filters have many modules. Each measurement is a process of its own,
//! those to compare alternate.
use crate::cell::{self, Measurement};
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::{Error, Result, row};
use shamba::{
    Db, FilterAllocation, FilterFamily, FilterOptions, IterOptions, KeyspaceOptions, MemoryBudget,
    Options,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A budget that limits nothing here, in MiB.
const NO_LIMIT: u64 = 1024;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Entries of imports and scans, of about 110 bytes.
    #[arg(long, default_value_t = 200_000)]
    pub entries: u64,
    /// Memory budgets of imports, in MiB; each is compared with none that limits (1 GiB).
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    pub memory: Vec<u64>,
    /// Runs in level 0 for scans, under the first of these budgets and under none that limits.
    #[arg(long, default_value_t = 40)]
    pub runs: u64,
    /// Entries of the small tables to compact.
    #[arg(long, default_value_t = 3_900)]
    pub compacted: u64,
    /// Modules of their blocked filters, compared with one.
    #[arg(long, default_value_t = 16)]
    pub modules: u8,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 5)]
    pub repeat: usize,
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
enum Work {
    /// Puts entries, in the order of their keys or in another.
    Import { ascending: bool },
    /// Makes so many runs of level 0, to be scanned.
    Prepare { runs: u64 },
    /// Goes over all entries, twice.
    Scan,
    /// Merges small tables with filters of so many modules.
    Compact { modules: u8 },
}

/// One measurement.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    dir: PathBuf,
    /// MiB.
    memory: u64,
    entries: u64,
    work: Work,
}

/// What a [`Cell`] measured.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// Until the last put, the end of the first scan or of the compaction, in seconds.
    first: f64,
    /// Until all is in tables and closed, or the end of the second scan alone.
    second: f64,
    /// Until nothing is left to compact.
    settled: f64,
    flushes: u64,
    /// Bytes that compactions read and wrote.
    read: u64,
    written: u64,
}

fn engine(error: shamba::Error) -> Error {
    Error::engine("shamba", error)
}

/// The key of an entry: those of numbers in a row are in order, or far from one another.
fn key(number: u64, ascending: bool) -> [u8; 8] {
    if ascending {
        number
    } else {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    .to_be_bytes()
}

/// Bytes that do not compress.
fn value(number: u64) -> [u8; 102] {
    let mut value = [0; 102];
    for (word, bytes) in (1..).zip(value.chunks_mut(8)) {
        let word = key(number.wrapping_add(word << 32), false);
        bytes.copy_from_slice(word.get(..bytes.len()).unwrap_or_default());
    }
    value
}

impl Measurement for Cell {
    const NAME: &str = "small-budgets";
    type Found = Measured;

    fn measure(&self) -> Result<Measured> {
        let held_back = KeyspaceOptions {
            level0_runs: 1000,
            level0_slowdown: 2000,
            level0_stall: 3000,
            ..KeyspaceOptions::default()
        };
        match self.work {
            Work::Import { ascending } => self.import(ascending),
            Work::Prepare { runs } => self.prepare(held_back, runs),
            Work::Scan => self.scan(held_back),
            Work::Compact { modules } => self.compact(modules),
        }
    }
}

impl Cell {
    fn open(&self, keyspace: KeyspaceOptions) -> Result<Db> {
        let options = Options::new().memory(MemoryBudget::bytes(self.memory << 20));
        options.keyspace(keyspace).open(&self.dir).map_err(engine)
    }

    fn import(&self, ascending: bool) -> Result<Measured> {
        let db = self.open(KeyspaceOptions::default())?;
        let start = Instant::now();
        for number in 0..self.entries {
            db.put(key(number, ascending), value(number))
                .map_err(engine)?;
        }
        let first = start.elapsed().as_secs_f64();
        db.flush().map_err(engine)?;
        let second = start.elapsed().as_secs_f64();
        db.wait_for_compaction().map_err(engine)?;
        let settled = start.elapsed().as_secs_f64();
        let counters = db.stats().counters;
        db.close().map_err(engine)?;
        Ok(Measured {
            first,
            second,
            settled,
            flushes: counters.flushes,
            read: counters.compaction_bytes_read,
            written: counters.compaction_bytes_written,
        })
    }

    fn prepare(&self, keyspace: KeyspaceOptions, runs: u64) -> Result<Measured> {
        let db = self.open(keyspace)?;
        for run in 0..runs {
            for number in (run..self.entries).step_by(runs.max(1) as usize) {
                db.put(key(number, true), value(number)).map_err(engine)?;
            }
            db.flush().map_err(engine)?;
        }
        let stats = db.stats();
        let levels = stats.keyspaces.iter().flat_map(|of| &of.levels);
        let found: usize = levels.map(|level| level.runs).sum();
        if found as u64 != runs {
            return Err(Error::WrongAnswer(format!("{found} runs, not {runs}")));
        }
        db.close().map_err(engine)?;
        Ok(Measured::default())
    }

    fn scan(&self, keyspace: KeyspaceOptions) -> Result<Measured> {
        let db = self.open(keyspace)?;
        let once = || -> Result<f64> {
            let start = Instant::now();
            let mut iter = db.iter(IterOptions::default()).map_err(engine)?;
            let mut seen = 0;
            iter.seek_to_first().map_err(engine)?;
            while iter.valid() {
                if iter.key() != key(seen, true) || iter.value() != value(seen) {
                    return Err(Error::WrongAnswer(format!("entry {seen} is another")));
                }
                seen += 1;
                iter.next().map_err(engine)?;
            }
            if seen == self.entries {
                Ok(start.elapsed().as_secs_f64())
            } else {
                Err(Error::WrongAnswer(format!("{seen} entries scanned")))
            }
        };
        let (first, second) = (once()?, once()?);
        db.close().map_err(engine)?;
        Ok(Measured {
            first,
            second,
            ..Measured::default()
        })
    }

    fn compact(&self, modules: u8) -> Result<Measured> {
        let db = self.open(KeyspaceOptions {
            write_buffer: 4 << 10,
            target_file: 4 << 10,
            filter: FilterOptions {
                family: FilterFamily::BlockedBloom,
                bits_per_key: 16.0,
                modules,
                allocation: FilterAllocation::Monkey,
                ..FilterOptions::default()
            },
            ..KeyspaceOptions::default()
        })?;
        for number in 0..self.entries {
            db.put(key(number, false), value(number)).map_err(engine)?;
        }
        let start = Instant::now();
        db.compact_range(None, None).map_err(engine)?;
        let first = start.elapsed().as_secs_f64();
        db.close().map_err(engine)?;
        Ok(Measured {
            first,
            ..Measured::default()
        })
    }
}

/// What was measured of each work under each budget in MiB.
struct Rounds<'a> {
    settings: &'a Settings,
    found: HashMap<(Work, u64), Vec<Measured>>,
}

impl Rounds<'_> {
    fn middle(&self, of: (Work, u64), value: impl Fn(&Measured) -> f64) -> Option<f64> {
        let found = self.found.get(&of)?;
        median(&found.iter().map(value).collect::<Vec<_>>())
    }

    /// A middle to that of another work without a limit.
    fn ratio(&self, of: (Work, u64), other: Work, value: impl Fn(&Measured) -> f64) -> Option<f64> {
        Some(self.middle(of, &value)? / self.middle((other, NO_LIMIT), &value)?)
    }
}

/// Measures; gives the table of imports, and that of scans and of the compaction.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<(Report, Report)> {
    std::fs::create_dir_all(&settings.dir)?;
    let imports = [true, false].map(|ascending| Work::Import { ascending });
    let compacts = [1, settings.modules].map(|modules| Work::Compact { modules });
    let limits: Vec<u64> = settings.memory.iter().copied().chain([NO_LIMIT]).collect();
    let least = settings.memory.first().copied().unwrap_or(1);
    let scanned = [least, NO_LIMIT];
    // All that is measured in turn, again and again.
    let imported = imports
        .iter()
        .flat_map(|&work| limits.iter().map(move |&memory| (work, memory)));
    let others = scanned.map(|memory| (Work::Scan, memory));
    let compacted = compacts.map(|work| (work, NO_LIMIT));
    let round: Vec<(Work, u64)> = imported.chain(others).chain(compacted).collect();
    let kind = |(work, memory): (Work, u64)| format!("{work:?}, {memory} MiB");
    let mut progress = Progress::default();
    let repeat = settings.repeat.max(1);
    for _ in 0..repeat {
        round.iter().for_each(|&of| progress.expect(&kind(of)));
    }
    let measure = |dir: &Path, (work, memory): (Work, u64)| -> Result<Measured> {
        cell::measure(&Cell {
            dir: dir.join("db"),
            memory,
            entries: match work {
                Work::Compact { .. } => settings.compacted,
                _ => settings.entries,
            },
            work,
        })
    };
    let prepared = tempfile::tempdir_in(&settings.dir)?;
    let runs = settings.runs;
    measure(prepared.path(), (Work::Prepare { runs }, NO_LIMIT))?;
    let mut rounds = Rounds {
        settings,
        found: HashMap::new(),
    };
    for _ in 0..repeat {
        for &of in &round {
            progress.start();
            // Whatever writes has a folder of its own.
            let new = tempfile::tempdir_in(&settings.dir)?;
            let folder = if of.0 == Work::Scan { &prepared } else { &new };
            let measured = measure(folder.path(), of)?;
            note(format!(
                "{} {}: {:.2} s, {:.2} s",
                progress.done(&kind(of)),
                kind(of),
                measured.first,
                measured.second
            ));
            rounds.found.entry(of).or_default().push(measured);
        }
    }
    Ok((
        table_of_imports(&rounds, imports, &limits),
        table_of_others(&rounds, scanned, compacts),
    ))
}

fn table_of_imports(rounds: &Rounds<'_>, imports: [Work; 2], limits: &[u64]) -> Report {
    let mut report = Report::titled(format!(
        "Importing {} entries of 110 bytes; times to those without a limit; medians of {}",
        rounds.settings.entries,
        rounds.settings.repeat.max(1)
    ));
    for work in imports {
        let order = match work {
            Work::Import { ascending: true } => "in order",
            _ => "at random",
        };
        for &memory in limits {
            let of = (work, memory);
            let this = |value: fn(&Measured) -> f64| rounds.middle(of, value);
            let ratio = |value: fn(&Measured) -> f64| rounds.ratio(of, work, value);
            let amplified = this(|m| m.read as f64 / m.written.max(1) as f64);
            report.add(row! {
                "keys come": order,
                "memory MiB": memory,
                "put s": this(|m| m.first),
                "ratio": ratio(|m| m.first),
                "in tables s": this(|m| m.second),
                "ratio in tables": ratio(|m| m.second),
                "settled s": this(|m| m.settled),
                "flushes": this(|m| m.flushes as f64),
                "MB merged": this(|m| m.written as f64 / 1e6),
                "read / written": amplified.filter(|ratio| *ratio > 0.0),
            });
        }
    }
    report
}

fn table_of_others(rounds: &Rounds<'_>, scanned: [u64; 2], compacts: [Work; 2]) -> Report {
    let settings = rounds.settings;
    let mut report = Report::titled(format!(
        "Scans of {} entries in {} runs of level 0, and compact_range of {} entries in small tables",
        settings.entries, settings.runs, settings.compacted
    ));
    let [one, _] = compacts;
    let scans = scanned.map(|memory| ("scan".to_owned(), (Work::Scan, memory), Work::Scan));
    let compacts = compacts.map(|work| {
        let name = match work {
            Work::Compact { modules: 1 } => "compact_range, 1 module".to_owned(),
            Work::Compact { modules } => format!("compact_range, {modules} modules"),
            _ => String::new(),
        };
        (name, (work, NO_LIMIT), one)
    });
    for (name, of, other) in scans.into_iter().chain(compacts) {
        let middle = |value: fn(&Measured) -> f64| rounds.middle(of, value);
        let ratio = |value: fn(&Measured) -> f64| rounds.ratio(of, other, value);
        // Only scans are made twice.
        let again = |found: Option<f64>| found.filter(|_| of.0 == Work::Scan);
        report.add(row! {
            "work": name,
            "memory MiB": of.1,
            "s": middle(|m| m.first),
            "ratio": ratio(|m| m.first),
            "again s": again(middle(|m| m.second)),
            "ratio again": again(ratio(|m| m.second)),
        });
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_is_done_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let cell = |name: &str, entries, work| Cell {
            dir: folder.path().join(name),
            memory: 4,
            entries,
            work,
        };
        let imported = cell("a", 2000, Work::Import { ascending: false });
        assert!(imported.measure().unwrap().flushes > 0);
        for work in [Work::Prepare { runs: 10 }, Work::Scan] {
            cell("b", 200, work).measure().unwrap();
        }
        let wrong = cell("b", 201, Work::Scan).measure();
        assert!(matches!(wrong, Err(Error::WrongAnswer(_))));
        let compacted = cell("c", 100, Work::Compact { modules: 16 });
        compacted.measure().unwrap();
    }

    #[test]
    fn values_differ_and_do_not_repeat() {
        assert_ne!(value(1), value(2));
        assert_ne!(value(1)[..8], value(1)[8..16]);
    }
}
