//! What the least budgets cost in time: imports, scans over many runs of level 0, and a compaction
//! of many small tables whose filters have many modules. Each measurement is a process of its own,
//! those to compare alternate.
use super::rounds::Rounds;
use crate::cell::{self, Measurement};
use crate::report::Report;
use crate::{Error, Result, row};
use shamba::{
    Db, FilterAllocation, FilterFamily, FilterOptions, IterOptions, KeyspaceOptions, MemoryBudget,
    Options,
};
use std::path::PathBuf;
use std::time::Instant;
use tempfile::TempDir;

/// A budget that limits nothing here, in MiB.
const NO_LIMIT: u64 = 1024;

/// Budgets of imports in MiB; scans are under the first, and both are compared with no limit.
const MEMORY: [u64; 4] = [1, 2, 4, 8];

/// Runs of level 0 to scan.
const RUNS: u64 = 40;

/// Entries of the small tables to compact.
const COMPACTED: u64 = 3_900;

/// Modules of their blocked filters, compared with one.
const MODULES: u8 = 16;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Entries of imports and scans, of about 110 bytes.
    #[arg(long, default_value_t = 200_000)]
    pub entries: u64,
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
    /// Makes [`RUNS`] runs of level 0, to be scanned.
    Prepare,
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
        match self.work {
            Work::Import { ascending } => self.import(ascending),
            Work::Prepare => self.prepare(),
            Work::Scan => self.scan(),
            Work::Compact { modules } => self.compact(modules),
        }
    }
}

impl Cell {
    fn open(&self, keyspace: KeyspaceOptions) -> Result<Db> {
        let options = Options::new().memory(MemoryBudget::bytes(self.memory << 20));
        Ok(options.keyspace(keyspace).open(&self.dir)?)
    }

    /// With so many runs allowed in level 0 that none is merged.
    fn open_without_merges(&self) -> Result<Db> {
        self.open(
            KeyspaceOptions::new()
                .level0_runs(1000)
                .level0_slowdown(2000)
                .level0_stall(3000),
        )
    }

    fn import(&self, ascending: bool) -> Result<Measured> {
        let db = self.open(KeyspaceOptions::default())?;
        let start = Instant::now();
        for number in 0..self.entries {
            db.put(key(number, ascending), value(number))?;
        }
        let first = start.elapsed().as_secs_f64();
        db.flush()?;
        let second = start.elapsed().as_secs_f64();
        db.wait_for_compaction()?;
        let settled = start.elapsed().as_secs_f64();
        let counters = db.stats().counters;
        db.close()?;
        Ok(Measured {
            first,
            second,
            settled,
            flushes: counters.flushes,
            read: counters.compaction_bytes_read,
            written: counters.compaction_bytes_written,
        })
    }

    fn prepare(&self) -> Result<Measured> {
        let db = self.open_without_merges()?;
        for run in 0..RUNS {
            for number in (run..self.entries).step_by(RUNS as usize) {
                db.put(key(number, true), value(number))?;
            }
            db.flush()?;
        }
        let stats = db.stats();
        let levels = stats.keyspaces.iter().flat_map(|of| &of.levels);
        let found: usize = levels.map(|level| level.runs).sum();
        if found as u64 != RUNS {
            return Err(Error::WrongAnswer(format!("{found} runs, not {RUNS}")));
        }
        db.close()?;
        Ok(Measured::default())
    }

    fn scan(&self) -> Result<Measured> {
        let db = self.open_without_merges()?;
        let once = || -> Result<f64> {
            let start = Instant::now();
            let mut iter = db.cursor(IterOptions::default())?;
            let mut seen = 0;
            iter.seek_to_first()?;
            while iter.valid() {
                if iter.key() != key(seen, true) || iter.value() != value(seen) {
                    return Err(Error::WrongAnswer(format!("entry {seen} is another")));
                }
                seen += 1;
                iter.next()?;
            }
            if seen == self.entries {
                Ok(start.elapsed().as_secs_f64())
            } else {
                Err(Error::WrongAnswer(format!("{seen} entries scanned")))
            }
        };
        let (first, second) = (once()?, once()?);
        db.close()?;
        Ok(Measured {
            first,
            second,
            ..Measured::default()
        })
    }

    fn compact(&self, modules: u8) -> Result<Measured> {
        let db = self.open(
            KeyspaceOptions::new()
                .write_buffer(4 << 10)
                .target_file(4 << 10)
                .filter(
                    FilterOptions::new()
                        .family(FilterFamily::BlockedBloom)
                        .bits_per_key(16.0)
                        .modules(modules)
                        .allocation(FilterAllocation::Monkey),
                ),
        )?;
        for number in 0..self.entries {
            db.put(key(number, false), value(number))?;
        }
        let start = Instant::now();
        db.compact_range(None, None)?;
        let first = start.elapsed().as_secs_f64();
        db.close()?;
        Ok(Measured {
            first,
            ..Measured::default()
        })
    }
}

/// A work under a budget in MiB.
type Task = (Work, u64);

/// Measures; gives the table of imports, and that of scans and of the compaction.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Vec<Report>> {
    std::fs::create_dir_all(&settings.dir)?;
    let imports = [true, false].map(|ascending| Work::Import { ascending });
    let limits = [MEMORY.as_slice(), &[NO_LIMIT]].concat();
    let imports: Vec<Task> = imports
        .iter()
        .flat_map(|&work| limits.iter().map(move |&memory| (work, memory)))
        .collect();
    let [one, many] = [1, MODULES].map(|modules| (Work::Compact { modules }, NO_LIMIT));
    let [least, unlimited] = [MEMORY[0], NO_LIMIT].map(|memory| (Work::Scan, memory));
    // Each beside what its time is compared with.
    let others = [
        ("scan".to_owned(), least, unlimited),
        ("scan".to_owned(), unlimited, unlimited),
        ("compact_range, 1 module".to_owned(), one, one),
        (format!("compact_range, {MODULES} modules"), many, one),
    ];
    let cell = |folder: &TempDir, (work, memory)| Cell {
        dir: folder.path().join("db"),
        memory,
        entries: match work {
            Work::Compact { .. } => COMPACTED,
            _ => settings.entries,
        },
        work,
    };
    // All scan the same database; whatever writes has a new one.
    let prepared = tempfile::tempdir_in(&settings.dir)?;
    cell::measure(&cell(&prepared, (Work::Prepare, NO_LIMIT)))?;
    let all: Vec<Task> = imports
        .iter()
        .copied()
        .chain(others.iter().map(|(_, task, _)| *task))
        .collect();
    let rounds = Rounds::measure(&all, settings.repeat, note, |task, _, _| {
        if task.0 == Work::Scan {
            return cell::measure(&cell(&prepared, task));
        }
        cell::measure(&cell(&tempfile::tempdir_in(&settings.dir)?, task))
    })?;
    let title = format!(
        "Importing {} entries of 110 bytes; times to those without a limit; medians of {}",
        settings.entries,
        settings.repeat.max(1)
    );
    let imports = Report::of(title, imports, |task| {
        let of = |value: fn(&Measured) -> f64| rounds.median(&[task], value);
        let ratio =
            |value: fn(&Measured) -> f64| rounds.ratio(&[task], &[(task.0, NO_LIMIT)], value);
        let ascending = task.0 == Work::Import { ascending: true };
        let amplified = of(|m| m.read as f64 / m.written.max(1) as f64);
        row! {
            "keys come": if ascending { "in order" } else { "at random" },
            "memory MiB": task.1,
            "put s": of(|m| m.first),
            "ratio": ratio(|m| m.first),
            "in tables s": of(|m| m.second),
            "ratio in tables": ratio(|m| m.second),
            "settled s": of(|m| m.settled),
            "flushes": of(|m| m.flushes as f64),
            "MB merged": of(|m| m.written as f64 / 1e6),
            "read / written": amplified.filter(|ratio| *ratio > 0.0),
        }
    });
    let title = format!(
        "Scans of {} entries in {RUNS} runs of level 0, and compact_range of {COMPACTED} entries in \
         small tables",
        settings.entries
    );
    let others = Report::of(title, others, |(name, task, to)| {
        // Only scans are made twice.
        let again = |found: Option<f64>| found.filter(|_| task.0 == Work::Scan);
        row! {
            "work": name,
            "memory MiB": task.1,
            "s": rounds.median(&[task], |m| m.first),
            "ratio": rounds.ratio(&[task], &[to], |m| m.first),
            "again s": again(rounds.median(&[task], |m| m.second)),
            "ratio again": again(rounds.ratio(&[task], &[to], |m| m.second)),
        }
    });
    Ok(vec![imports, others])
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
        for work in [Work::Prepare, Work::Scan] {
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
