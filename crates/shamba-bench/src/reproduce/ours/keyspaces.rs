//! Many keyspaces of one database beside one: what a put takes, what creating and opening them
//! takes, and how fast several are written at once under a small budget. Each measurement is a
//! process of its own, and a new database is opened again and looked into.
use crate::cell::{self, Measurement};
use crate::reproduce::prelude::*;
use crate::workload::mix;
use shamba::{Db, Keyspace, KeyspaceOptions, MemoryBudget, Options};
use std::path::PathBuf;
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
    (u128::from(mix(number)) << 64 | u128::from(number)).to_be_bytes()
}

impl Work {
    /// The keyspace of an entry.
    fn place(&self, number: u64) -> usize {
        (mix(number.wrapping_add(1 << 40)) >> 32) as usize % self.keyspaces.max(1) as usize
    }

    /// Fills a database in a folder of its own, and opens it again, in processes of their own.
    fn measured(self, lab: &mut Lab<'_>) -> Result<Measured> {
        lab.measured("keyspaces", &self, |lab| {
            let folder = lab.scratch()?;
            let cell = |fill| Cell {
                dir: folder.path().join("db"),
                work: self,
                fill,
            };
            let filled: Measured = cell::measure(&cell(true))?;
            lab.note(format!("{self:?}"));
            let open = cell::measure(&cell(false))?.open;
            Ok(Measured { open, ..filled })
        })
    }
}

impl Measurement for Cell {
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
        let mut keyspaces: Vec<Keyspace> = Vec::new();
        for number in 0..self.work.keyspaces {
            keyspaces.push(db.create_keyspace(&name(number), KeyspaceOptions::default())?);
        }
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

/// Puts into many keyspaces beside one, and into some at once beside one.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let counts = [1, lab.scale.tiny_or(20, 10_000)];
    let entries = lab.scale.pick(2_000, 200_000, 200_000, 500_000);
    let title = |entries| format!("{entries} entries of {} bytes, at random", VALUE + 16);
    let mut many = Report::titled(title(entries));
    for memory in MEMORY {
        let mut into_one = None;
        for keyspaces in counts {
            let work = |end| Work {
                keyspaces,
                entries,
                memory,
                end,
            };
            let closed = work(End::Closed).measured(lab)?;
            let crashed = work(End::Crashed).measured(lab)?;
            // Both are filled alike.
            let mean = |of: fn(&Measured) -> f64| (of(&closed) + of(&crashed)) / 2.0;
            let put = mean(|m| m.put);
            many.add(row! {
                "memory MiB": memory,
                "keyspaces": keyspaces,
                "create each us": mean(|m| m.create) * 1e6 / keyspaces as f64,
                "put us": put * 1e6 / entries as f64,
                PUT: put / *into_one.get_or_insert(put),
                "flushes": mean(|m| m.flushes as f64),
                "close s": closed.end - closed.put,
                "open closed s": closed.open,
                "open crashed s": crashed.open,
            });
        }
    }
    let (some, times, memory) = AT_ONCE;
    let work = |keyspaces| Work {
        keyspaces,
        entries: entries * times,
        memory,
        end: End::Settled,
    };
    let one = work(1).measured(lab)?;
    let both = [(1, one), (some, work(some).measured(lab)?)];
    let entries = entries * times;
    let title = format!("{}; under {memory} MiB", title(entries));
    let at_once = Report::of(title, both, |(keyspaces, seen)| {
        row! {
            "keyspaces": keyspaces,
            "entries/s": entries as f64 / seen.put,
            "of one's rate %": one.put / seen.put * 100.0,
            "until settled, entries/s": entries as f64 / seen.end,
            "of one's rate, settled %": one.end / seen.end * 100.0,
            "flushes": seen.flushes,
            "MB merged": seen.merged as f64 / 1e6,
        }
    });
    let opens = ["open closed s", "open crashed s"].map(|column| many.most(column));
    let panel = Panel::of_lines("Puts", &many, "memory MiB", "keyspaces", "put us");
    let what = "time of a put over that into one keyspace, at most";
    let claims = [
        Claim::goal_to("seconds of an open, at most", 2.0, most_of(&opens)),
        Claim::goal_to(what, 2.0, many.most(PUT)),
    ];
    let tables = [many, at_once];
    Ok(Findings::of("", tables, [panel.logarithmic()], claims))
}

const PUT: &str = "put / one's";

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
