//! The database under test: operations that are checked, and the pages they cost.
//!
//! One thread; it remembers the version of every entry.
use super::Settings;
use crate::store;
use crate::workload::{MAX_KEY, Permutation, Random, random};
use crate::{Error, Result};
use rand_xoshiro::rand_core::Rng;
use shamba::fs::{IoCounts, MeteredFs, OsFs, Purpose};
use shamba::{
    Advice, Db, Design, DeviceCosts, IterOptions, KeyspaceOptions, MemoryBudget, Options,
};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE: f64 = 4096.0;

/// Entries that a range lookup returns.
const RANGE: usize = 16;

pub(super) fn failed(source: shamba::Error) -> Error {
    Error::engine("shamba", source)
}

/// Shares of operations; the rest are updates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
    pub(super) empty: f64,
    pub(super) existing: f64,
    pub(super) ranges: f64,
}

/// A database under test and what is in it.
pub(super) struct Subject {
    pub(super) db: Db,
    fs: MeteredFs,
    data: crate::runner::Data,
    versions: Vec<u32>,
    random: Random,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

/// Pages so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pages {
    pub(super) read: f64,
    pub(super) written: f64,
}

impl Pages {
    pub(super) fn since(self, before: Pages) -> Pages {
        Pages {
            read: self.read - before.read,
            written: self.written - before.written,
        }
    }

    pub(super) fn all(self) -> f64 {
        self.read + self.written
    }
}

impl Subject {
    pub(super) fn open(dir: &Path, settings: &Settings, keyspace: KeyspaceOptions) -> Result<Self> {
        let fs = MeteredFs::new(Arc::new(OsFs::new()));
        let db = Options::new()
            .fs(Arc::new(fs.clone()))
            .memory(MemoryBudget::bytes(settings.memory))
            .background_threads(0)
            .keyspace(keyspace)
            // Pages are counted, so a page written is to weigh as much as one read.
            .device(DeviceCosts {
                read_seconds: 1e-4,
                write_cost: 1.0,
            })
            .open(dir)
            .map_err(failed)?;
        Ok(Subject {
            db,
            fs,
            data: store::data(settings.entries, settings.seed),
            versions: vec![0; settings.entries as usize],
            random: random(settings.seed, 1),
            value: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Loads every entry once, in random order, and waits.
    pub(super) fn load(&mut self) -> Result<()> {
        let entries = self.data.keys.entries();
        let order = Permutation::new(entries, self.data.seed);
        for index in 0..entries {
            self.put(order.apply(index), 0)?;
        }
        self.db.flush().map_err(failed)?;
        self.db.wait_for_compaction().map_err(failed)
    }

    fn put(&mut self, number: u64, version: u64) -> Result<()> {
        let mut buf = [0; MAX_KEY];
        self.data.values.write(number, version, &mut self.value);
        let key = self.data.keys.key(number, &mut buf);
        self.db.put(key, &self.value).map_err(failed)
    }

    fn version(&self, number: u64) -> u64 {
        self.versions.get(number as usize).map_or(0, |&v| v.into())
    }

    fn update(&mut self) -> Result<()> {
        let number = self.number();
        let version = self.version(number) + 1;
        if let Some(slot) = self.versions.get_mut(number as usize) {
            *slot = version as u32;
        }
        self.put(number, version)
    }

    fn number(&mut self) -> u64 {
        self.random.next_u64() % self.data.keys.entries()
    }

    fn check(&mut self, number: u64, found: Option<&[u8]>) -> Result<()> {
        let version = self.version(number);
        match found {
            Some(found) => {
                let values = &self.data.values;
                values.check(number, version, found, &mut self.scratch)
            }
            None => Err(Error::WrongAnswer(format!("entry {number} is missing"))),
        }
    }

    fn get(&mut self, exists: bool) -> Result<()> {
        let number = self.number();
        let mut buf = [0; MAX_KEY];
        let key = match exists {
            true => self.data.keys.key(number, &mut buf),
            false => self.data.keys.absent(number, &mut buf),
        };
        let found = self.db.get(key).map_err(failed)?;
        match exists {
            true => self.check(number, found.as_deref()),
            false if found.is_none() => Ok(()),
            false => Err(Error::WrongAnswer(format!("absent {number} was found"))),
        }
    }

    fn range(&mut self) -> Result<()> {
        let number = self.number();
        let mut buf = [0; MAX_KEY];
        let start = self.data.keys.key(number, &mut buf).to_vec();
        let options = IterOptions {
            lower: Bound::Included(start),
            ..IterOptions::default()
        };
        let mut iter = self.db.iter(options).map_err(failed)?;
        iter.seek_to_first().map_err(failed)?;
        for expected in (number..self.data.keys.entries()).take(RANGE) {
            if self.data.keys.number(iter.key()) != Some(expected) {
                return Err(Error::WrongAnswer(format!("a scan lacks entry {expected}")));
            }
            let value = iter.value().to_vec();
            self.check(expected, Some(&value))?;
            iter.next().map_err(failed)?;
        }
        Ok(())
    }

    /// Some operations of a mix; the time they took.
    pub(super) fn run(&mut self, shares: Shares, operations: u64) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..operations {
            let draw = self.random.next_u64() as f64 / u64::MAX as f64;
            if draw < shares.empty {
                self.get(false)?;
            } else if draw < shares.empty + shares.existing {
                self.get(true)?;
            } else if draw < shares.empty + shares.existing + shares.ranges {
                self.range()?;
            } else {
                self.update()?;
            }
        }
        Ok(start.elapsed())
    }

    /// Pages of tables so far: what lookups, scans and compactions read, what flushes and
    /// compactions wrote.
    pub(super) fn pages(&self) -> Pages {
        let counts: IoCounts = self.fs.counts();
        let purposes = [Purpose::Lookup, Purpose::Scan, Purpose::Background];
        let read = purposes.map(|purpose| counts.reads_for(purpose).pages as f64);
        let counters = self.db.stats().counters;
        let written = counters.flush_bytes + counters.compaction_bytes_written;
        Pages {
            read: read.iter().sum(),
            written: written as f64 / PAGE,
        }
    }

    pub(super) fn design(&self) -> Design {
        self.db.default_keyspace().design()
    }

    pub(super) fn advice(&self) -> Result<Option<Advice>> {
        self.db.advise().map_err(failed)
    }

    pub(super) fn move_to(&self, design: Design) -> Result<()> {
        self.db.redesign(design).map_err(failed)?;
        self.db.wait_for_compaction().map_err(failed)
    }
}
