//! The store under test: operations that are checked, and the pages they cost.
//!
//! One thread; it remembers the version of every entry. Our engine counts pages where it asks for
//! them, in the mode without threads; another engine's are those that the kernel counts for this
//! process, which must do nothing else meanwhile. Logs are left out: the other engine writes none,
//! ours are not counted.
use super::Settings;
use crate::device::Device;
use crate::engine::{self, Engine, EngineConfig};
use crate::proc_io::ProcessIo;
use crate::runner::Data;
use crate::workload::{KeyKind, KeySpace, MAX_KEY, Permutation, Random, ValueSpec, random};
use crate::{Error, Result};
use rand_xoshiro::rand_core::Rng;
use shamba::fs::{BlockKind, Charge, IoCounts, MeteredFs, Purpose};
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

/// Pages that a merge reads at once, about.
const MERGE_PAGES: f64 = 16.0;

/// What a page costs where nothing else is stated: 100 us read or written, however it is asked for.
const FLAT: f64 = 1e5;

/// Nanoseconds that storage takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    /// For a read.
    read: f64,
    /// For each page of it.
    read_page: f64,
    /// For a page written in a long sequence.
    write_page: f64,
}

impl Latency {
    pub(super) fn of(device: Device) -> Self {
        match device.model() {
            Some(model) => Latency {
                read: model.read as f64,
                read_page: model.read_page as f64,
                write_page: model.write_page as f64,
            },
            None => Latency {
                read: 0.0,
                read_page: FLAT,
                write_page: FLAT,
            },
        }
    }

    /// The same, as the engine takes it.
    fn costs(&self) -> DeviceCosts {
        let random = self.read + self.read_page;
        DeviceCosts {
            read_seconds: random / 1e9,
            write_cost: self.write_page / random,
            merge_read_cost: (self.read / MERGE_PAGES + self.read_page) / random,
        }
    }

    /// Seconds that some pages take.
    pub(super) fn seconds(&self, pages: &Pages) -> f64 {
        let reads = pages.reads * self.read + pages.read * self.read_page;
        (reads + pages.written * self.write_page) / 1e9
    }
}

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

/// What is under test.
enum Store {
    Shamba { db: Db, fs: MeteredFs },
    Other(Box<dyn Engine>),
}

/// A store under test and what is in it.
pub(super) struct Subject {
    store: Store,
    data: Data,
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
    /// Requests of the pages read.
    pub(super) reads: f64,
    /// Of the pages read, those that merges read.
    pub(super) merging: f64,
    /// Of the pages read, index pages that lookups and scans read; `None` where they are not told
    /// apart.
    pub(super) index: Option<f64>,
}

impl Pages {
    pub(super) fn since(self, before: Pages) -> Pages {
        Pages {
            read: self.read - before.read,
            written: self.written - before.written,
            reads: self.reads - before.reads,
            merging: self.merging - before.merging,
            index: self.index.zip(before.index).map(|(now, then)| now - then),
        }
    }

    pub(super) fn all(self) -> f64 {
        self.read + self.written
    }
}

fn no_design() -> Error {
    Error::InvalidSetting("only this engine has designs".into())
}

impl Subject {
    fn with(store: Store, settings: &Settings) -> Self {
        Subject {
            store,
            data: Data {
                keys: KeySpace::new(KeyKind::Spread, settings.entries),
                values: ValueSpec::random(settings.value),
                seed: settings.seed,
                load_seed: settings.seed,
            },
            versions: vec![0; settings.entries as usize],
            random: random(settings.seed, 1),
            value: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn open(dir: &Path, settings: &Settings, keyspace: KeyspaceOptions) -> Result<Self> {
        let fs = settings.device.fs(Charge::Virtual);
        let db = Options::new()
            .fs(Arc::new(fs.clone()))
            .memory(MemoryBudget::bytes(settings.memory))
            .background_threads(0)
            .keyspace(keyspace)
            .device(Latency::of(settings.device).costs())
            .open(dir)
            .map_err(failed)?;
        Ok(Self::with(Store::Shamba { db, fs }, settings))
    }

    /// Another engine, of the default design.
    pub(super) fn open_other(name: &str, dir: &Path, settings: &Settings) -> Result<Self> {
        let config = EngineConfig {
            memory: settings.memory,
            write_buffer: settings.write_buffer,
            file_size: settings.write_buffer,
            direct_reads: true,
            metadata_resident: false,
            wal: false,
            ..EngineConfig::in_memory(dir.to_owned())
        };
        Ok(Self::with(
            Store::Other(engine::open(name, &config)?),
            settings,
        ))
    }

    fn db(&self) -> Result<&Db> {
        match &self.store {
            Store::Shamba { db, .. } => Ok(db),
            Store::Other(_) => Err(no_design()),
        }
    }

    pub(super) fn checkpoint(&self, to: &Path) -> Result<()> {
        self.db()?.checkpoint(to).map_err(failed)
    }

    /// Loads every entry once, in random order, and waits.
    pub(super) fn load(&mut self) -> Result<()> {
        let entries = self.data.keys.entries();
        let order = Permutation::new(entries, self.data.seed);
        for index in 0..entries {
            self.put(order.apply(index), 0)?;
        }
        self.settle()
    }

    /// Flushes, and waits for merges.
    pub(super) fn settle(&self) -> Result<()> {
        match &self.store {
            Store::Shamba { db, .. } => {
                db.flush().map_err(failed)?;
                db.wait_for_compaction().map_err(failed)
            }
            Store::Other(engine) => {
                engine.flush()?;
                engine.wait_idle()
            }
        }
    }

    fn put(&mut self, number: u64, version: u64) -> Result<()> {
        let mut buf = [0; MAX_KEY];
        self.data.values.write(number, version, &mut self.value);
        let key = self.data.keys.key(number, &mut buf);
        match &self.store {
            Store::Shamba { db, .. } => db.put(key, &self.value).map_err(failed),
            Store::Other(engine) => engine.put(key, &self.value),
        }
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
        let key = if exists {
            self.data.keys.key(number, &mut buf)
        } else {
            self.data.keys.absent(number, &mut buf)
        };
        let found = match &self.store {
            Store::Shamba { db, .. } => db.get(key).map_err(failed)?.map(|value| value.to_vec()),
            Store::Other(engine) => {
                let mut value = Vec::new();
                engine.get(key, &mut value)?.then_some(value)
            }
        };
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
        let mut found = Vec::with_capacity(RANGE);
        match &self.store {
            Store::Shamba { db, .. } => {
                let options = IterOptions {
                    lower: Bound::Included(start),
                    ..IterOptions::default()
                };
                let mut iter = db.iter(options).map_err(failed)?;
                iter.seek_to_first().map_err(failed)?;
                while iter.valid() {
                    let number = self.data.keys.number(iter.key());
                    found.push((number, iter.value().to_vec()));
                    if found.len() == RANGE {
                        break;
                    }
                    iter.next().map_err(failed)?;
                }
            }
            Store::Other(engine) => {
                let keys = &self.data.keys;
                engine.scan(&start, RANGE, &mut |key, value| {
                    found.push((keys.number(key), value.to_vec()));
                    Ok(())
                })?;
            }
        }
        let expected = (number..self.data.keys.entries()).take(RANGE);
        if !found
            .iter()
            .map(|(number, _)| *number)
            .eq(expected.map(Some))
        {
            return Err(Error::WrongAnswer(format!("a scan from entry {number}")));
        }
        for (number, value) in found {
            self.check(number.unwrap_or_default(), Some(&value))?;
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

    /// Pages of tables so far: what lookups, scans and merges read, what flushes and merges wrote.
    pub(super) fn pages(&self) -> Pages {
        let Store::Shamba { db, fs } = &self.store else {
            // Lookups and scans run in this thread, flushes and merges in its own.
            let (io, own) = (ProcessIo::now(), ProcessIo::of_thread());
            return Pages {
                read: io.pages(),
                written: io.write_bytes as f64 / PAGE,
                reads: io.reads as f64,
                merging: io.pages() - own.pages(),
                index: None,
            };
        };
        let counts: IoCounts = fs.counts();
        let purposes = [Purpose::Lookup, Purpose::Scan, Purpose::Background];
        let read = purposes.map(|purpose| counts.reads_for(purpose));
        let counters = db.stats().counters;
        let written = counters.flush_bytes + counters.compaction_bytes_written;
        Pages {
            read: read.iter().map(|count| count.pages as f64).sum(),
            written: written as f64 / PAGE,
            reads: read.iter().map(|count| count.reads as f64).sum(),
            merging: counts.reads_for(Purpose::Background).pages as f64,
            index: Some(
                [Purpose::Lookup, Purpose::Scan]
                    .map(|purpose| counts.reads(BlockKind::Index, purpose).pages as f64)
                    .iter()
                    .sum(),
            ),
        }
    }

    /// The design, and whether it is moved to.
    pub(super) fn design(&self) -> Result<(Design, bool)> {
        let keyspace = self.db()?.default_keyspace();
        Ok((keyspace.design(), keyspace.is_moving()))
    }

    pub(super) fn advice(&self) -> Result<Option<Advice>> {
        self.db()?.advise().map_err(failed)
    }

    pub(super) fn move_to(&self, design: Design) -> Result<()> {
        let db = self.db()?;
        db.redesign(design).map_err(failed)?;
        db.wait_for_compaction().map_err(failed)
    }
}
