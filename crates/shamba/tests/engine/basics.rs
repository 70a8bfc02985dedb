//! What everybody expects of an ordered map: its ends, its length, emptying it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{contents, small_keyspace, small_options};
use shamba::fs::MemFs;
use shamba::{Db, Durability, Keyspace, Options, WriteOptions};

const DIR: &str = "/db";

fn options(fs: &MemFs) -> Options {
    small_options(Arc::new(fs.clone()))
}

fn fill(keyspace: &Keyspace, from: u32, to: u32) {
    for i in from..to {
        keyspace.put(i.to_be_bytes(), [7; 50]).unwrap();
    }
}

#[test]
fn ends_and_length_are_those_of_the_keyspace() {
    let db = options(&MemFs::new()).open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    assert!(db.is_empty().unwrap() && other.is_empty().unwrap());
    assert_eq!(
        (db.len().unwrap(), db.first_key_value().unwrap()),
        (0, None)
    );
    fill(&db.default_keyspace(), 0, 2000);
    fill(&other, 5, 7);
    let snapshot = db.snapshot();
    db.delete(0u32.to_be_bytes()).unwrap();
    db.delete(1999u32.to_be_bytes()).unwrap();
    let first = |entry: shamba::Result<Option<(Vec<u8>, shamba::Value)>>| entry.unwrap().unwrap().0;
    assert_eq!(first(db.first_key_value()), 1u32.to_be_bytes());
    assert_eq!(first(db.last_key_value()), 1998u32.to_be_bytes());
    assert_eq!(first(other.first_key_value()), 5u32.to_be_bytes());
    assert_eq!(first(other.last_key_value()), 6u32.to_be_bytes());
    assert_eq!(first(snapshot.first_key_value()), 0u32.to_be_bytes());
    assert_eq!(first(snapshot.last_key_value()), 1999u32.to_be_bytes());
    let lens = (
        db.len(),
        other.len(),
        snapshot.len(),
        snapshot.len_in(&other),
    );
    let lens = (
        lens.0.unwrap(),
        lens.1.unwrap(),
        lens.2.unwrap(),
        lens.3.unwrap(),
    );
    assert_eq!(lens, (1998, 2, 2000, 2));
    assert!(!snapshot.is_empty().unwrap());
    drop(snapshot);
    // Without reading, and exact once all is merged.
    db.compact_range(None, None).unwrap();
    assert_eq!(db.approximate_len(), 1998);
    assert_eq!(other.approximate_len(), 2);
    let on_disk = db.size_on_disk().unwrap();
    let tables = db.default_keyspace().size_on_disk() + other.size_on_disk();
    assert!(
        tables > 50 * 1998 && on_disk > tables,
        "{tables} of {on_disk}"
    );
}

/// How many entries were written.
fn written(db: &Db) -> u64 {
    db.stats().counters.entries_written
}

#[test]
fn a_cleared_keyspace_is_empty_for_good() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    fill(&db.default_keyspace(), 0, 2000);
    fill(&other, 0, 2000);
    let before = written(&db);
    other.clear().unwrap();
    assert_eq!(written(&db), before, "it was written key by key");
    assert!(other.is_empty().unwrap() && other.size_on_disk() == 0);
    assert_eq!(db.len().unwrap(), 2000);
    // What comes later stays; what was cleared is gone at once for who loses power, too.
    let crashed = fs.crash_clone(1);
    let again = options(&crashed).open(DIR).unwrap();
    assert!(again.keyspace("other").unwrap().is_empty().unwrap());
    drop(again);
    other
        .put_with("later", "1", WriteOptions::synced())
        .unwrap();
    let crashed = fs.crash_clone(1);
    let again = options(&crashed).open(DIR).unwrap();
    assert_eq!(again.keyspace("other").unwrap().len().unwrap(), 1);
    assert_eq!(again.len().unwrap(), 2000);
    db.clear().unwrap();
    assert!(db.is_empty().unwrap());
    assert_eq!(other.len().unwrap(), 1);
    db.verify().unwrap().check().unwrap();
    drop(other);
    db.close().unwrap();
    let db = options(&fs).open(DIR).unwrap();
    assert!(db.is_empty().unwrap());
    assert_eq!(db.keyspace("other").unwrap().len().unwrap(), 1);
}

#[test]
fn who_reads_sees_what_was_there_before_it_was_cleared() {
    let db = options(&MemFs::new()).open(DIR).unwrap();
    fill(&db.default_keyspace(), 0, 2000);
    let snapshot = db.snapshot();
    let mut iter = db.iter();
    iter.next().unwrap().unwrap();
    db.clear().unwrap();
    assert!(db.is_empty().unwrap());
    db.compact_range(None, None).unwrap();
    assert_eq!(snapshot.len().unwrap(), 2000);
    let rest: Vec<_> = iter.map(|entry| entry.unwrap()).collect();
    assert_eq!(rest.len(), 1999);
    drop(snapshot);
    db.clear().unwrap();
    assert_eq!(db.default_keyspace().size_on_disk(), 0);
}

/// Clearing beside writers, readers and compactions: what was acknowledged before is gone, and what
/// is acknowledged after it is there.
#[test]
fn clearing_beside_others_loses_nothing_of_theirs() {
    let fs = MemFs::new();
    let db = options(&fs).background_threads(2).open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, stop) = (&db, &stop);
        let writer = scope.spawn(move || {
            let mut written = 0u32;
            while !stop.load(Ordering::Relaxed) {
                db.put(written.to_be_bytes(), [1; 40]).unwrap();
                written += 1;
            }
            written
        });
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let snapshot = db.snapshot();
                let (one, two) = (snapshot.len().unwrap(), snapshot.len().unwrap());
                assert_eq!(one, two, "a snapshot changed");
            }
        });
        for round in 0..60u32 {
            fill(&other, 0, 100);
            other.clear().unwrap();
            assert!(other.is_empty().unwrap(), "round {round}");
            fill(&other, 1000, 1010);
            if round % 8 == 0 {
                other.compact_range(None, None).unwrap();
            }
            assert_eq!(other.len().unwrap(), 10, "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        assert_eq!(db.len().unwrap(), u64::from(written));
    });
    drop(other);
    db.close().unwrap();
    let db = options(&fs)
        .durability(Durability::Buffered)
        .open(DIR)
        .unwrap();
    let other = db.keyspace("other").unwrap();
    assert_eq!(contents(&other).unwrap().len(), 10);
}

/// Writers that wait for compactions hold what clearing needs.
#[test]
fn clearing_beside_stalled_writers_comes_to_an_end() {
    let stalls_soon = small_keyspace()
        .level0_runs(2)
        .level0_slowdown(2)
        .level0_stall(3);
    let options = options(&MemFs::new())
        .keyspace(stalls_soon)
        .background_threads(1);
    let db = options.open(DIR).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2u32 {
                let (db, stop) = (&db, &stop);
                scope.spawn(move || {
                    for number in (writer..).step_by(2) {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
                        db.put(key, [7; 100]).unwrap();
                    }
                });
            }
            for _ in 0..25 {
                db.clear().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        done.send(()).unwrap();
    });
    let waited = ended.recv_timeout(std::time::Duration::from_secs(120));
    assert!(waited.is_ok(), "writers and clearing wait for each other");
}
