//! What was just written is in memory, as long as there is room for it: nobody has to read it back.

mod common;

use std::sync::Arc;

use common::{Rng, scattered_key as key};
use shamba::fs::{MemFs, MeteredFs};
use shamba::{Db, KeyspaceOptions, MemoryBudget, Options};

const DIR: &str = "/db";
const KEYS: u64 = 60_000;

fn keyspace() -> KeyspaceOptions {
    KeyspaceOptions::new()
        .write_buffer(256 << 10)
        .target_file(256 << 10)
}

/// A database of several levels, filled in random order and written over here and there.
fn filled(fs: &MeteredFs, options: impl Fn(Options) -> Options, memory: u64, long: &str) -> Db {
    let with = Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(memory))
        .background_threads(0)
        .keyspace(keyspace());
    let db = options(with).open(DIR).unwrap();
    let mut rng = Rng::new(9);
    for number in 0..KEYS {
        let number = number * 7_919 % KEYS;
        db.put(long_key(long, number), [number as u8; 40]).unwrap();
        if rng.one_in(5) {
            let again = rng.below(number + 1);
            db.put(long_key(long, again), [again as u8; 40]).unwrap();
        }
    }
    db.flush().unwrap();
    db
}

fn long_key(long: &str, number: u64) -> Vec<u8> {
    [long.as_bytes(), &key(2 * number)].concat()
}

/// Reads of storage by a lookup of each key, and of as many that are not there.
fn reads(db: &Db, fs: &MeteredFs, long: &str) -> u64 {
    let before = fs.counts();
    for number in 0..KEYS {
        assert!(db.get(long_key(long, number)).unwrap().is_some());
        let absent = [long.as_bytes(), &key(2 * number + 1)].concat();
        assert!(db.get(absent).unwrap().is_none());
    }
    (fs.counts() - before).all_reads().reads
}

#[test]
fn what_fits_is_read_from_memory_from_the_first_lookup_on() {
    // Keys that are long and begin alike have an index of another kind.
    let long = "of a keyspace with keys that are long and begin alike/".repeat(20);
    for (long, memory) in [("", 64 << 20), (&*long, 256 << 20)] {
        let fs = MeteredFs::new(Arc::new(MemFs::new()));
        let db = filled(&fs, |options| options, memory, long);
        assert!(db.stats().keyspaces[0].levels.len() > 1);
        assert_eq!(reads(&db, &fs, long), 0);
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    }
}

#[test]
fn what_does_not_fit_is_within_the_budget_and_nothing_is_kept_where_that_is_switched_off() {
    for (memory, inherit) in [(2 << 20, true), (64 << 20, false)] {
        let fs = MeteredFs::new(Arc::new(MemFs::new()));
        let db = filled(
            &fs,
            |options| options.inherit_statistics(inherit),
            memory,
            "",
        );
        assert!(reads(&db, &fs, "") > 0);
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    }
}
