//! Many keyspaces of one database beside one: what a put takes, what creating and opening them
//! takes, and how fast several are written at once under a small budget. Each measurement is a
//! process of its own, those to compare alternate, and a new database is opened again and looked
//! into.
use crate::cell::{self, Measurement};
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::{Error, Result, row};
use shamba::{Db, Keyspace, KeyspaceOptions, MemoryBudget, Options};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a value; keys have 16.
const VALUE: usize = 100;

/// Entries looked up in a database that was opened again.
const LOOKED_UP: u64 = 1000;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Keyspaces that are compared with one.
    #[arg(long, default_value_t = 10_000)]
    pub keyspaces: u64,
    /// Entries put into them all together (keys of 16 bytes, values of 100), and into the one.
    #[arg(long, default_value_t = 500_000)]
    pub entries: u64,
    /// Memory budgets in MiB for that: the first is to hold all entries in memtables.
    #[arg(long, value_delimiter = ',', default_value = "256,64")]
    pub memory: Vec<u64>,
    /// Keyspaces that are written at once under little memory, and compared with one.
    #[arg(long, default_value_t = 16)]
    pub at_once: u64,
    /// Entries put into them.
    #[arg(long, default_value_t = 2_000_000)]
    pub at_once_entries: u64,
    /// The memory budget for that, in MiB.
    #[arg(long, default_value_t = 32)]
    pub at_once_memory: u64,
    /// Repetitions; medians are reported.
    #[arg(long, default_value_t = 5)]
    pub repeat: usize,
    /// Folder for the databases, which are removed afterwards.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
}

/// How a database that was filled ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum End {
    /// It is closed.
    Closed,
    /// Its process ends.
    Crashed,
    /// It is closed once nothing is left to compact.
    Settled,
}

/// One measurement.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    dir: PathBuf,
    /// Bytes.
    memory: u64,
    keyspaces: u64,
    entries: u64,
    /// To fill a new database; else one is opened.
    fill: Option<End>,
}

/// What a [`Cell`] measured.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// Creating the keyspaces, in seconds; or opening the database.
    begin: f64,
    /// Putting all entries.
    put: f64,
    /// From the first put until nothing is left to compact, or all is closed.
    end: f64,
    flushes: u64,
    /// Bytes that compactions wrote.
    merged: u64,
}

fn engine(error: shamba::Error) -> Error {
    Error::engine("shamba", error)
}

/// A number that looks random, different for each.
fn scattered(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn name(number: u64) -> String {
    format!("keyspace {number}")
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    let (front, back) = key.split_at_mut(8);
    front.copy_from_slice(&scattered(number).to_be_bytes());
    back.copy_from_slice(&number.to_be_bytes());
    key
}

impl Measurement for Cell {
    const NAME: &str = "keyspaces";
    type Found = Measured;

    fn measure(&self) -> Result<Measured> {
        match self.fill {
            Some(end) => self.fill(end),
            None => self.reopen(),
        }
    }
}

impl Cell {
    /// The keyspace of an entry.
    fn place(&self, number: u64) -> usize {
        (scattered(number.wrapping_add(1 << 40)) >> 32) as usize % self.keyspaces.max(1) as usize
    }

    fn open(&self) -> Result<Db> {
        let options = Options::new().memory(MemoryBudget::bytes(self.memory));
        options.open(&self.dir).map_err(engine)
    }

    fn fill(&self, end: End) -> Result<Measured> {
        let db = self.open()?;
        let start = Instant::now();
        let create = |i| db.create_keyspace(&name(i), KeyspaceOptions::default());
        let keyspaces: std::result::Result<Vec<Keyspace>, _> =
            (0..self.keyspaces).map(create).collect();
        let keyspaces = keyspaces.map_err(engine)?;
        let begin = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for number in 0..self.entries {
            let Some(keyspace) = keyspaces.get(self.place(number)) else {
                continue;
            };
            keyspace
                .put(key(number), [number as u8; VALUE])
                .map_err(engine)?;
        }
        let put = start.elapsed().as_secs_f64();
        if end == End::Settled {
            db.flush().map_err(engine)?;
            db.wait_for_compaction().map_err(engine)?;
        }
        let counters = db.stats().counters;
        match end {
            End::Crashed => {
                std::mem::forget(keyspaces);
                std::mem::forget(db);
            }
            End::Closed | End::Settled => {
                drop(keyspaces);
                db.close().map_err(engine)?;
            }
        }
        Ok(Measured {
            begin,
            put,
            end: start.elapsed().as_secs_f64(),
            flushes: counters.flushes,
            merged: counters.compaction_bytes_written,
        })
    }

    fn reopen(&self) -> Result<Measured> {
        let start = Instant::now();
        let db = self.open()?;
        let begin = start.elapsed().as_secs_f64();
        for number in (0..LOOKED_UP.min(self.entries)).map(|i| self.entries - 1 - i) {
            let keyspace = db.keyspace(&name(self.place(number) as u64));
            let found = keyspace
                .and_then(|keyspace| keyspace.get(key(number)))
                .map_err(engine)?;
            if found.as_deref() != Some(&[number as u8; VALUE][..]) {
                return Err(Error::WrongAnswer(format!("entry {number} is not there")));
            }
        }
        db.close().map_err(engine)?;
        Ok(Measured {
            begin,
            ..Measured::default()
        })
    }
}

/// The medians of what was measured of some keyspaces under a budget.
#[derive(Default)]
struct Found {
    filled: Vec<Measured>,
    closed: Vec<Measured>,
    opened_closed: Vec<Measured>,
    opened_crashed: Vec<Measured>,
}

fn middle(of: &[Measured], value: impl Fn(&Measured) -> f64) -> Option<f64> {
    median(&of.iter().map(value).collect::<Vec<_>>())
}

/// Fills a database in a folder of its own, and opens it again.
fn round(dir: &Path, cell: &Cell, end: End) -> Result<(Measured, Measured)> {
    let folder = tempfile::tempdir_in(dir)?;
    let mut cell = Cell {
        dir: folder.path().join("db"),
        fill: Some(end),
        ..cell.clone()
    };
    let filled = cell::measure(&cell)?;
    cell.fill = None;
    let opened = cell::measure(&cell)?;
    Ok((filled, opened))
}

/// Measures; gives the table of many keyspaces, and that of some written at once.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<(Report, Report)> {
    std::fs::create_dir_all(&settings.dir)?;
    let counts = [1, settings.keyspaces.max(1)];
    let mut progress = Progress::default();
    let repeat = settings.repeat.max(1);
    for _ in 0..repeat {
        for _ in &settings.memory {
            for count in counts {
                progress.expect(&format!("{count} keyspaces"));
                progress.expect(&format!("{count} keyspaces"));
            }
        }
        for count in [1, settings.at_once.max(1)] {
            progress.expect(&format!("{count} at once"));
        }
    }
    let cell = |count, entries, memory: u64| Cell {
        dir: PathBuf::new(),
        memory: memory << 20,
        keyspaces: count,
        entries,
        fill: None,
    };
    let mut many = Report::titled(format!(
        "{} entries of {} bytes, at random into keyspaces; WAL buffered; medians of {repeat}",
        settings.entries,
        VALUE + 16
    ));
    for &memory in &settings.memory {
        let mut found = counts.map(|_| Found::default());
        for _ in 0..repeat {
            for (count, found) in counts.into_iter().zip(&mut found) {
                let kind = format!("{count} keyspaces");
                for end in [End::Closed, End::Crashed] {
                    progress.start();
                    let (filled, opened) =
                        round(&settings.dir, &cell(count, settings.entries, memory), end)?;
                    found.filled.push(filled);
                    match end {
                        End::Crashed => found.opened_crashed.push(opened),
                        End::Closed | End::Settled => {
                            found.closed.push(filled);
                            found.opened_closed.push(opened);
                        }
                    }
                    note(format!(
                        "{} {kind}, {memory} MiB: {:.2} us a put, opened in {:.2} s",
                        progress.done(&kind),
                        filled.put * 1e6 / settings.entries as f64,
                        opened.begin,
                    ));
                }
            }
        }
        let put = |found: &Found| middle(&found.filled, |m| m.put);
        let [one, _] = &found;
        for (count, found) in counts.into_iter().zip(&found) {
            let ratio = put(found).zip(put(one)).map(|(many, one)| many / one);
            many.add(row! {
                "memory MiB": memory,
                "keyspaces": count,
                "create each us": middle(&found.filled, |m| m.begin * 1e6 / count as f64),
                "put us": middle(&found.filled, |m| m.put * 1e6 / settings.entries as f64),
                "put / one's": ratio,
                "flushes": middle(&found.filled, |m| m.flushes as f64),
                "close s": middle(&found.closed, |m| m.end - m.put),
                "open closed s": middle(&found.opened_closed, |m| m.begin),
                "open crashed s": middle(&found.opened_crashed, |m| m.begin),
            });
        }
    }
    let at_once = at_once(settings, &mut progress, &cell, note)?;
    Ok((many, at_once))
}

fn at_once(
    settings: &Settings,
    progress: &mut Progress,
    cell: &dyn Fn(u64, u64, u64) -> Cell,
    note: &mut dyn FnMut(String),
) -> Result<Report> {
    let entries = settings.at_once_entries;
    let mut report = Report::titled(format!(
        "{entries} entries of {} bytes, at random into keyspaces, under {} MiB",
        VALUE + 16,
        settings.at_once_memory
    ));
    let counts = [1, settings.at_once.max(1)];
    let mut found = counts.map(|_| Vec::new());
    for _ in 0..settings.repeat.max(1) {
        for (count, found) in counts.into_iter().zip(&mut found) {
            let kind = format!("{count} at once");
            progress.start();
            let one = cell(count, entries, settings.at_once_memory);
            let (filled, _) = round(&settings.dir, &one, End::Settled)?;
            note(format!(
                "{} {kind}: {:.0} entries/s, {:.0} until settled, {} flushes",
                progress.done(&kind),
                entries as f64 / filled.put,
                entries as f64 / filled.end,
                filled.flushes
            ));
            found.push(filled);
        }
    }
    let [one, _] = &found;
    let (one_put, one_end) = (middle(one, |m| m.put), middle(one, |m| m.end));
    for (count, found) in counts.into_iter().zip(&found) {
        let share = |one: Option<f64>, this: Option<f64>| {
            one.zip(this).map(|(one, this)| one / this * 100.0)
        };
        let (put, end) = (middle(found, |m| m.put), middle(found, |m| m.end));
        report.add(row! {
            "keyspaces": count,
            "entries/s": put.map(|put| entries as f64 / put),
            "of one's rate %": share(one_put, put),
            "until settled, entries/s": end.map(|end| entries as f64 / end),
            "of one's rate, settled %": share(one_end, end),
            "flushes": middle(found, |m| m.flushes as f64),
            "MB merged": middle(found, |m| m.merged as f64 / 1e6),
        });
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_keyspaces_get_alike_many() {
        let cell = Cell {
            dir: PathBuf::new(),
            memory: 0,
            keyspaces: 16,
            entries: 16_000,
            fill: None,
        };
        let mut counts = [0; 16];
        let mut keys = std::collections::HashSet::new();
        for number in 0..cell.entries {
            counts[cell.place(number)] += 1;
            assert!(keys.insert(key(number)));
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)));
    }

    #[test]
    fn what_was_put_is_found_again_and_what_was_not_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let cell = Cell {
            dir: folder.path().join("db"),
            memory: 8 << 20,
            keyspaces: 5,
            entries: 500,
            fill: Some(End::Settled),
        };
        let filled = cell.measure().unwrap();
        assert!(filled.flushes >= 5 && filled.end >= filled.put);
        let other = Cell { fill: None, ..cell };
        other.measure().unwrap();
        let more = Cell {
            entries: 501,
            ..other
        };
        assert!(matches!(more.measure(), Err(Error::WrongAnswer(_))));
    }
}
