//! Many keyspaces of one database beside one: what a put takes, what creating and opening them
//! takes, and how fast several are written at once under a small budget. Each measurement is a
//! process of its own, those to compare alternate, and a new database is opened again and looked
//! into.
use super::rounds::Rounds;
use crate::cell::{self, Measurement};
use crate::report::Report;
use crate::workload::mix;
use crate::{Error, Result, row};
use shamba::{Db, Keyspace, KeyspaceOptions, MemoryBudget, Options};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a value; keys have 16.
const VALUE: usize = 100;

/// Entries looked up in a database that was opened again.
const LOOKED_UP: u64 = 1000;

/// Memory budgets for many keyspaces, in MiB: the first holds all entries in memtables.
const MEMORY: [u64; 2] = [256, 64];

/// Keyspaces that are written at once and compared with one, how many times the entries that they
/// get, and the memory budget in MiB.
const AT_ONCE: (u64, u64, u64) = (16, 4, 32);

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Keyspaces that are compared with one.
    #[arg(long, default_value_t = 10_000)]
    pub keyspaces: u64,
    /// Entries put into them all together (keys of 16 bytes, values of 100), and into the one; four
    /// times as many into some keyspaces that are written at once.
    #[arg(long, default_value_t = 500_000)]
    pub entries: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 5)]
    pub repeat: usize,
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
}

/// How a database that was filled ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
enum End {
    /// It is closed.
    Closed,
    /// Its process ends.
    Crashed,
    /// It is closed once nothing is left to compact.
    Settled,
}

/// A database to fill and to open again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
struct Work {
    keyspaces: u64,
    entries: u64,
    /// MiB.
    memory: u64,
    end: End,
}

/// One measurement.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    dir: PathBuf,
    work: Work,
    /// Else it is there and opened again.
    fill: bool,
}

/// What was measured of a database.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// Creating the keyspaces, in seconds.
    create: f64,
    /// Putting all entries.
    put: f64,
    /// From the first put until nothing is left to compact, or all is closed.
    end: f64,
    /// Opening it again.
    open: f64,
    flushes: u64,
    /// Bytes that compactions wrote.
    merged: u64,
}

fn name(number: u64) -> String {
    format!("keyspace {number}")
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    let (front, back) = key.split_at_mut(8);
    front.copy_from_slice(&mix(number).to_be_bytes());
    back.copy_from_slice(&number.to_be_bytes());
    key
}

impl Work {
    /// The keyspace of an entry.
    fn place(&self, number: u64) -> usize {
        (mix(number.wrapping_add(1 << 40)) >> 32) as usize % self.keyspaces.max(1) as usize
    }

    /// Fills a database in a folder of its own, and opens it again, in processes of their own.
    fn measure(self, dir: &Path) -> Result<Measured> {
        let folder = tempfile::tempdir_in(dir)?;
        let cell = |fill| Cell {
            dir: folder.path().join("db"),
            work: self,
            fill,
        };
        let filled = cell::measure(&cell(true))?;
        Ok(Measured {
            open: cell::measure(&cell(false))?.open,
            ..filled
        })
    }
}

impl Measurement for Cell {
    const NAME: &str = "keyspaces";
    type Found = Measured;

    fn measure(&self) -> Result<Measured> {
        let start = Instant::now();
        let options = Options::new().memory(MemoryBudget::bytes(self.work.memory << 20));
        let db = options.open(&self.dir)?;
        if self.fill {
            return self.fill(db);
        }
        let open = start.elapsed().as_secs_f64();
        let entries = self.work.entries;
        for number in (0..LOOKED_UP.min(entries)).map(|i| entries - 1 - i) {
            let keyspace = db.keyspace(&name(self.work.place(number) as u64))?;
            if keyspace.get(key(number))?.as_deref() != Some(&[number as u8; VALUE][..]) {
                return Err(Error::WrongAnswer(format!("entry {number} is not there")));
            }
        }
        db.close()?;
        Ok(Measured {
            open,
            ..Measured::default()
        })
    }
}

impl Cell {
    fn fill(&self, db: Db) -> Result<Measured> {
        let start = Instant::now();
        let create = |i| db.create_keyspace(&name(i), KeyspaceOptions::default());
        let keyspaces: std::result::Result<Vec<Keyspace>, _> =
            (0..self.work.keyspaces).map(create).collect();
        let keyspaces = keyspaces?;
        let create = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for number in 0..self.work.entries {
            let keyspace = &keyspaces[self.work.place(number)];
            keyspace.put(key(number), [number as u8; VALUE])?;
        }
        let put = start.elapsed().as_secs_f64();
        if self.work.end == End::Settled {
            db.flush()?;
            db.wait_for_compaction()?;
        }
        let counters = db.stats().counters;
        if self.work.end == End::Crashed {
            std::mem::forget(keyspaces);
            std::mem::forget(db);
        } else {
            drop(keyspaces);
            db.close()?;
        }
        Ok(Measured {
            create,
            put,
            end: start.elapsed().as_secs_f64(),
            flushes: counters.flushes,
            merged: counters.compaction_bytes_written,
            open: 0.0,
        })
    }
}

/// Measures; gives the table of many keyspaces, and that of some written at once.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Vec<Report>> {
    std::fs::create_dir_all(&settings.dir)?;
    let work = |memory, keyspaces, end| Work {
        keyspaces,
        entries: settings.entries,
        memory,
        end,
    };
    let ends = |memory, count| [End::Closed, End::Crashed].map(|end| work(memory, count, end));
    let counts = [1, settings.keyspaces.max(1)];
    let many: Vec<[Work; 2]> = MEMORY
        .iter()
        .flat_map(|&memory| counts.map(|count| ends(memory, count)))
        .collect();
    let (some, times, memory) = AT_ONCE;
    let at_once = [1, some].map(|count| Work {
        entries: settings.entries * times,
        ..work(memory, count, End::Settled)
    });
    let all = [many.as_flattened(), &at_once].concat();
    let rounds = Rounds::measure(&all, settings.repeat, note, |work, _, _| {
        work.measure(&settings.dir)
    })?;
    let title = |entries| {
        format!(
            "{entries} entries of {} bytes, at random into keyspaces; WAL buffered; medians of {}",
            VALUE + 16,
            settings.repeat.max(1)
        )
    };
    let many = Report::of(title(settings.entries), many, |both @ [closed, crashed]| {
        let of = |value: fn(&Measured) -> f64| rounds.median(&both, value);
        let (closed_only, each) = ([closed], closed.keyspaces as f64);
        row! {
            "memory MiB": closed.memory,
            "keyspaces": closed.keyspaces,
            "create each us": of(|m| m.create).map(|s| s * 1e6 / each),
            "put us": of(|m| m.put).map(|s| s * 1e6 / settings.entries as f64),
            "put / one's": rounds.ratio(&both, &ends(closed.memory, 1), |m| m.put),
            "flushes": of(|m| m.flushes as f64),
            "close s": rounds.median(&closed_only, |m| m.end - m.put),
            "open closed s": rounds.median(&closed_only, |m| m.open),
            "open crashed s": rounds.median(&[crashed], |m| m.open),
        }
    });
    let one = [at_once[0]];
    let title = format!("{}; under {memory} MiB", title(one[0].entries));
    let at_once = Report::of(title, at_once, |work| {
        let of = |value: fn(&Measured) -> f64| rounds.median(&[work], value);
        let rate = |seconds: Option<f64>| seconds.map(|s| work.entries as f64 / s);
        let share = |value: fn(&Measured) -> f64| {
            let ratio = rounds.ratio(&one, &[work], value);
            ratio.map(|ratio| ratio * 100.0)
        };
        row! {
            "keyspaces": work.keyspaces,
            "entries/s": rate(of(|m| m.put)),
            "of one's rate %": share(|m| m.put),
            "until settled, entries/s": rate(of(|m| m.end)),
            "of one's rate, settled %": share(|m| m.end),
            "flushes": of(|m| m.flushes as f64),
            "MB merged": of(|m| m.merged as f64 / 1e6),
        }
    });
    Ok(vec![many, at_once])
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work {
        keyspaces: 16,
        entries: 16_000,
        memory: 8,
        end: End::Settled,
    };

    #[test]
    fn keys_differ_and_keyspaces_get_alike_many() {
        let mut counts = [0; 16];
        let mut keys = std::collections::HashSet::new();
        for number in 0..WORK.entries {
            counts[WORK.place(number)] += 1;
            assert!(keys.insert(key(number)));
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)));
    }

    #[test]
    fn what_was_put_is_found_again_and_what_was_not_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let cell = |entries, fill| Cell {
            dir: folder.path().join("db"),
            work: Work {
                keyspaces: 5,
                entries,
                ..WORK
            },
            fill,
        };
        let filled = cell(500, true).measure().unwrap();
        assert!(filled.flushes >= 5 && filled.end >= filled.put);
        cell(500, false).measure().unwrap();
        let more = cell(501, false).measure();
        assert!(matches!(more, Err(Error::WrongAnswer(_))));
    }
}
