//! Memtables give memory back to lookups that need it more, and only then.

use std::sync::Arc;

use crate::common::{Rng, scattered_key as key};
use shamba::fs::MemFs;
use shamba::{Db, KeyspaceOptions, MemoryBudget, Options};

const KEYS: u64 = 200_000;
const WRITES: u64 = 10_000;

/// A database that memory of so many bytes is little or much for, and that was looked up in.
fn read_database(memory: u64) -> (Db, Rng) {
    let keyspace = KeyspaceOptions::new()
        .write_buffer(256 << 10)
        .target_file(1 << 20);
    let options = Options::new()
        .fs(Arc::new(MemFs::new()))
        .memory(MemoryBudget::bytes(memory))
        .background_threads(0)
        .keyspace(keyspace);
    let db = options.open("/db").unwrap();
    for number in 0..KEYS {
        let number = number * 7_919 % KEYS;
        db.put(key(2 * number), [number as u8; 48]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let mut rng = Rng::new(3);
    look_up(&db, &mut rng, 100_000);
    (db, rng)
}

/// Looks up keys of which half exist.
fn look_up(db: &Db, rng: &mut Rng, lookups: u64) {
    for _ in 0..lookups {
        let number = rng.below(2 * KEYS);
        let found = db.get(key(number)).unwrap();
        assert_eq!(found.is_some(), number.is_multiple_of(2));
    }
}

/// Overwrites entries with so many lookups beside each; flushes.
fn flushes(memory: u64, lookups: u64) -> u64 {
    let (db, mut rng) = read_database(memory);
    let before = db.stats().counters.flushes;
    for _ in 0..WRITES {
        let number = rng.below(KEYS);
        db.put(key(2 * number), [1; 48]).unwrap();
        look_up(&db, &mut rng, lookups);
    }
    assert_eq!(db.stats().memory.budget.overdraft, 0);
    db.stats().counters.flushes - before
}

#[test]
fn memtables_are_flushed_sooner_where_lookups_need_the_memory() {
    let little = 1 << 20;
    let (alone, beside) = (flushes(little, 0), flushes(little, 40));
    assert!(alone > 0 && beside > 2 * alone, "{beside} against {alone}");
    // By time, not by size alone: with fewer lookups a memtable gathers more.
    let fewer = flushes(little, 16);
    assert!(fewer < beside * 3 / 4, "{fewer} against {beside}");
    let much = 64 << 20;
    let (alone, beside) = (flushes(much, 0), flushes(much, 40));
    assert!(alone > 0 && beside == alone, "{beside} against {alone}");
}
