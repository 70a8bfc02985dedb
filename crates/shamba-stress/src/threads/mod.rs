//! Many threads on one database, reads and writes of every kind, options drawn anew at each open,
//! a memory budget that changes while they run. Every answer is judged exactly (`ledger.rs`).
//! Entries that have a time to live outlive the case: they are stored and merged in another way,
//! and answers are the same.
//!
//! Keys come in groups of `GROUP` with a prefix of their own, so that filters of prefixes and of
//! ranges, which keyspaces have by their options, are asked by scans that lie in one.

mod ledger;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shamba::fs::{Fs, MemFs, OsFs};
use shamba::{Append, Db, DeviceCosts, Durability, Error, MemoryBudget, Value};

use crate::common::{Rng, random_keyspace_options, random_options};
use crate::{Kind, Tally};
use ledger::{KeyId, Ledger};
use worker::Worker;

/// The keyspaces that all threads use.
const NAMES: [&str; 3] = ["default", "users", "posts"];

/// How many keys begin alike, up to the delimiter.
const GROUP: u32 = 16;

/// Budgets that the databases of a case are opened under, or changed to.
const BUDGETS: [&[u64]; 2] = [
    &[1 << 20, 1 << 20, 2 << 20, 8 << 20, 32 << 20],
    &[8 << 20, 32 << 20],
];

/// What writes of a case ask for: all of them are logged, or some, or none.
const LOGGED: &[Option<Durability>] = &[
    None,
    None,
    Some(Durability::Buffered),
    Some(Durability::Synced),
];
const MIXED: &[Option<Durability>] = &[
    None,
    None,
    None,
    Some(Durability::None),
    Some(Durability::Buffered),
    Some(Durability::Synced),
];
const UNLOGGED: &[Option<Durability>] = &[Some(Durability::None)];

/// Many threads, with reads and writes of every kind.
#[derive(Debug, Default)]
pub struct Threads;

/// What the threads of a case share.
struct Shared {
    ledger: Ledger,
    /// Keys of each shared keyspace.
    keys: u32,
    /// Batches, and values that are not to be long, are no longer than the least of them allows.
    budgets: &'static [u64],
    /// The budget changes all the time, and not now and then.
    restless: bool,
    /// What writes of this case ask for: one of these each.
    durabilities: &'static [Option<Durability>],
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// A thread failed, and the others need not go on.
    stop: AtomicBool,
    /// Iterators that were refused for want of memory.
    refused: AtomicU64,
}

/// How all keys of a group begin.
fn group_prefix(group: u32) -> String {
    format!("{group:03}/")
}

/// How a key begins, and none other.
fn key_stem(number: u32) -> Vec<u8> {
    format!("{}{:02}", group_prefix(number / GROUP), number % GROUP).into_bytes()
}

/// A key of the shared keyspaces: most are short; some are long, and longer than the next.
fn key_bytes(number: u32) -> Vec<u8> {
    let mut key = key_stem(number);
    match number % 16 {
        1 => key.extend([b'L'; 300]),
        2 => key.extend([0, 0xff]),
        _ => {}
    }
    key
}

/// The number of a key.
fn key_number(key: &[u8]) -> u32 {
    let stem = key.get(..6).and_then(|stem| std::str::from_utf8(stem).ok());
    let number = stem.and_then(|stem| {
        let (group, place) = stem.split_once('/')?;
        Some(group.parse::<u32>().ok()? * GROUP + place.parse::<u32>().ok()?)
    });
    let number = number.unwrap_or_else(|| panic!("nobody wrote the key {key:?}"));
    assert_eq!(key_bytes(number), key, "nobody wrote this key");
    number
}

impl Shared {
    /// Whether what was acknowledged is in a log or a table.
    fn logged(&self) -> bool {
        !self.durabilities.contains(&Some(Durability::None))
    }

    /// What an iterator gave, or nothing where iterators hold all the memory that they may.
    fn unless_refused<T>(&self, result: shamba::Result<T>) -> Option<T> {
        match result {
            Err(Error::IteratorsExhausted { limit, .. }) => {
                assert!(limit < 32 << 20, "an iterator refused under {limit} bytes");
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
            other => Some(other.unwrap()),
        }
    }

    /// Judges a stretch of a keyspace that was read in order: the entries seen, and that no others
    /// are there between the first key and the last.
    fn judge_stretch(
        &self,
        view: &mut ledger::View<'_>,
        keyspace: usize,
        keys: std::ops::Range<u32>,
        entries: &[(u32, Vec<u8>)],
        how: &str,
    ) {
        let ascend = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
        assert!(ascend, "{how}: keys do not ascend");
        let mut entries = entries.iter().peekable();
        for number in keys {
            let key: KeyId = (keyspace, number);
            let found = entries.next_if(|entry| entry.0 == number);
            view.judge(key, found.map(|entry| entry.1.as_slice()), how);
        }
        assert!(entries.next().is_none(), "{how}: a key beyond the range");
    }

    /// Judges everything in the shared keyspaces of a database, at one moment.
    fn judge_all(&self, view: &mut ledger::View<'_>, db: &Db, how: &str) {
        for (number, name) in NAMES.iter().enumerate() {
            let keyspace = db.keyspace(name).unwrap();
            let Some(entries) = self.unless_refused(entries(keyspace.iter())) else {
                // Runs with large values by the dozen, and a small budget.
                for key in 0..self.keys {
                    let got = keyspace.get(key_bytes(key)).unwrap();
                    view.judge((number, key), got.as_deref(), how);
                }
                continue;
            };
            self.judge_stretch(view, number, 0..self.keys, &entries, how);
        }
    }
}

/// All entries, with the numbers of their keys.
fn entries(
    iter: impl Iterator<Item = shamba::Result<(Vec<u8>, Value)>>,
) -> shamba::Result<Vec<(u32, Vec<u8>)>> {
    iter.map(|entry| entry.map(|(key, value)| (key_number(&key), value.into_vec())))
        .collect()
}

/// Nothing was ever taken over the limit.
fn within_budget(memory: &MemoryBudget) {
    let usage = memory.usage().budget;
    assert_eq!(usage.overdraft, 0, "the budget was passed: {usage:?}");
}

/// Stops the other threads when this one panics.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Opens the database, with operators for keyspaces that threads will make for themselves.
fn open(rng: &mut Rng, shared: &Shared, memory: &MemoryBudget, private: &[String]) -> Db {
    let mut options = random_options(rng, shared.fs.clone())
        .memory(memory.clone())
        .background_threads(rng.between(0, 3) as usize)
        .device(DeviceCosts::new(1e-4).write_cost(0.5).merge_read_cost(0.5));
    for name in &NAMES[1..] {
        options = options.keyspace_options(name, random_keyspace_options(rng));
    }
    for name in private {
        options = options.merge_operator(name, Append);
    }
    let db = options.open(&shared.dir).unwrap();
    for name in &NAMES[1..] {
        if db.keyspace(name).is_err() {
            db.create_keyspace(name, random_keyspace_options(rng))
                .unwrap();
        }
    }
    db
}

impl Kind for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn in_parallel(&self) -> bool {
        false
    }

    fn case(&self, seed: u64, tally: &Tally) {
        let mut rng = Rng::new(seed);
        let threads = rng.between(2, 8) as usize;
        let folder = tempfile::tempdir().unwrap();
        let (fs, dir): (Arc<dyn Fs>, &Path) = if rng.one_in(3) {
            (Arc::new(OsFs::new()), folder.path())
        } else {
            (Arc::new(MemFs::new()), Path::new("/"))
        };
        let keys: u32 = *rng.pick(&[40, 400, 3000]);
        let shared = Shared {
            // Of the first keyspace neighbours have different owners; of the others groups, and
            // stretches that are long, have one.
            ledger: Ledger::new(threads, vec![1, GROUP, keys.div_ceil(threads as u32)]),
            keys,
            budgets: BUDGETS[usize::from(rng.one_in(4))],
            restless: rng.one_in(4),
            durabilities: [LOGGED, MIXED, MIXED, UNLOGGED][rng.below(4) as usize],
            fs,
            dir: dir.join("db"),
            stop: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        };
        for life in 0..rng.between(1, 4) {
            let memory = MemoryBudget::bytes(*rng.pick(shared.budgets));
            let private = (0..threads).map(|number| format!("private-{life}-{number}"));
            let private: Vec<String> = private.collect();
            let db = open(&mut rng, &shared, &memory, &private);
            shared.judge_all(&mut shared.ledger.view(), &db, "after an open");
            let operations = rng.between(50, 600);
            std::thread::scope(|scope| {
                let mut running = Vec::new();
                for (number, name) in private.into_iter().enumerate() {
                    let rng = Rng::new(rng.next());
                    let (shared, db, memory) = (&shared, &db, &memory);
                    running.push(scope.spawn(move || {
                        let _alarm = Alarm(&shared.stop);
                        Worker::new(shared, db, memory, rng, number, name).run(operations);
                    }));
                }
                for thread in running {
                    if let Err(panic) = thread.join() {
                        std::panic::resume_unwind(panic);
                    }
                }
            });
            tally.add("operations", operations * threads as u64);
            shared.judge_all(&mut shared.ledger.view(), &db, "once all is written");
            db.verify().unwrap().check().unwrap();
            within_budget(&memory);
            if rng.one_in(4) {
                // The end of a process that closes nothing; what was not logged may be lost.
                db.flush().unwrap();
                drop(db);
            } else {
                db.close().unwrap();
            }
            within_budget(&memory);
        }
        tally.add("iterators refused", shared.refused.into_inner());
    }
}
