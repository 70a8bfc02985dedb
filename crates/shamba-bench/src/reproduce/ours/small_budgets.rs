//! What the least budgets cost in time: imports, scans over many runs of level 0, and a compaction
//! of many small tables whose filters have many modules. Each measurement is a process of its own.
use crate::cell::{self, Measurement};
use crate::reproduce::prelude::*;
use shamba::{
    Db, FilterAllocation, FilterFamily, FilterOptions, IterOptions, KeyspaceOptions, MemoryBudget,
    Options,
};
use std::path::PathBuf;
use std::time::Instant;

/// A budget that limits nothing here, in MiB.
const NO_LIMIT: u64 = 1024;

/// Budgets of imports in MiB; scans are under the first, and both are compared with no limit.
const MEMORY: [(u64, f64); 4] = [(1, 3.0), (2, 2.0), (4, 1.5), (8, 1.3)];

/// Runs of level 0 to scan.
const RUNS: u64 = 40;

/// Entries of the small tables to compact.
const COMPACTED: u64 = 3_900;

/// Modules of their blocked filters, compared with one.
const MODULES: u8 = 16;

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
    let factor = if ascending { 1 } else { 0x9e37_79b9_7f4a_7c15 };
    number.wrapping_mul(factor).to_be_bytes()
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
        let keyspace = KeyspaceOptions::new().level0_runs(1000);
        self.open(keyspace.level0_slowdown(2000).level0_stall(3000))
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
            if seen != self.entries {
                return Err(Error::WrongAnswer(format!("{seen} entries scanned")));
            }
            Ok(start.elapsed().as_secs_f64())
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
        let filter = FilterOptions::new()
            .family(FilterFamily::BlockedBloom)
            .bits_per_key(16.0)
            .modules(modules)
            .allocation(FilterAllocation::Monkey);
        let keyspace = KeyspaceOptions::new().write_buffer(4 << 10);
        let db = self.open(keyspace.target_file(4 << 10).filter(filter))?;
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

/// Imports, scans and compactions under small budgets beside those that nothing limits.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let entries = lab.scale.tiny_or(2_000, 200_000);
    // Each in a database of its own; a scan is of what was prepared.
    let mut measure = |work, memory| -> Result<Measured> {
        let entries = match work {
            Work::Compact { .. } => COMPACTED,
            _ => entries,
        };
        lab.measured("small budget", &(work, memory, entries), |lab| {
            lab.note(format!("{work:?}, {memory} MiB"));
            let folder = lab.scratch()?;
            let cell = |work, memory| Cell {
                dir: folder.path().join("db"),
                memory,
                entries,
                work,
            };
            if work == Work::Scan {
                cell::measure(&cell(Work::Prepare, NO_LIMIT))?;
            }
            cell::measure(&cell(work, memory))
        })
    };
    let mut imports = Report::titled(format!("Importing {entries} entries of 110 bytes"));
    for (order, ascending) in [("in order", true), ("at random", false)] {
        let work = Work::Import { ascending };
        let unlimited = measure(work, NO_LIMIT)?;
        for (memory, _) in MEMORY.into_iter().chain([(NO_LIMIT, 1.0)]) {
            let seen = match memory {
                NO_LIMIT => unlimited,
                _ => measure(work, memory)?,
            };
            let amplified = seen.read as f64 / seen.written.max(1) as f64;
            imports.add(row! {
                "keys come": order,
                "memory MiB": memory,
                "put s": seen.first,
                "ratio": seen.first / unlimited.first,
                "in tables s": seen.second,
                "ratio in tables": seen.second / unlimited.second,
                "settled s": seen.settled,
                "flushes": seen.flushes,
                "MB merged": seen.written as f64 / 1e6,
                "read / written": Some(amplified).filter(|ratio| *ratio > 0.0),
            });
        }
    }
    let least = MEMORY[0].0;
    let (pressed, free) = (measure(Work::Scan, least)?, measure(Work::Scan, NO_LIMIT)?);
    let one = measure(Work::Compact { modules: 1 }, NO_LIMIT)?;
    let many = measure(Work::Compact { modules: MODULES }, NO_LIMIT)?;
    let one_module = "compact_range, 1 module".to_owned();
    let many_modules = format!("compact_range, {MODULES} modules");
    let others = [
        ("scan".to_owned(), least, pressed, free),
        ("scan".to_owned(), NO_LIMIT, free, free),
        (one_module, NO_LIMIT, one, one),
        (many_modules, NO_LIMIT, many, one),
    ];
    let title = format!(
        "Scans of {entries} entries in {RUNS} runs of level 0, and compact_range of {COMPACTED} \
         entries in small tables"
    );
    let others = Report::of(title, others, |(name, memory, seen, to)| {
        let again = |seconds: f64| (seen.second > 0.0).then_some(seconds);
        row! {
            "work": name,
            "memory MiB": memory,
            "s": seen.first,
            "ratio": seen.first / to.first,
            "again s": again(seen.second),
            "ratio again": again(seen.second / to.second),
        }
    });
    let claims = MEMORY.map(|(memory, aim)| {
        let own = imports.rows_of("memory MiB", memory);
        let ratios = ["ratio", "ratio in tables"].map(|column| own.most(column));
        let what =
            format!("time of an import under {memory} MiB over that without a limit, at most");
        Claim::goal_to(what, aim, most_of(&ratios))
    });
    let panel = Panel::of_lines("Imports", &imports, "keys come", "memory MiB", "ratio");
    let setting = format!("Ratios are to a budget of {NO_LIMIT} MiB, which limits nothing.");
    Ok(Findings::of(setting, [imports, others], [panel], claims))
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
