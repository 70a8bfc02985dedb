//! Deletions of ranges of keys: what readers see of them, what goes from storage, and what they
//! cost those who read past them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{
    Replay, Rng, env_number, on_every_core, random_design, random_keyspace_options, random_options,
};
use shamba::fs::{BlockKind, Fs, MemFs, MeteredFs, Purpose};
use shamba::{
    CompactionDecision, Db, Error, Increment, IterOptions, KeyspaceOptions, MemoryBudget, Options,
    WriteBatch,
};

fn options(fs: &MemFs) -> Options {
    let keyspace = KeyspaceOptions::new()
        .write_buffer(64 << 10)
        .target_file(64 << 10);
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(8 << 20))
        .background_threads(0)
        .keyspace(keyspace)
}

fn open(fs: &MemFs) -> Db {
    options(fs).open("/db").unwrap()
}

fn key(number: u64) -> String {
    format!("key {number:06}")
}

fn keys(db: &Db) -> Vec<String> {
    let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
    let forward: Vec<_> = db.iter().map(|entry| text(entry.unwrap().0)).collect();
    let mut backward: Vec<_> = db
        .iter()
        .rev()
        .map(|entry| text(entry.unwrap().0))
        .collect();
    backward.reverse();
    assert_eq!(forward, backward);
    for key in &forward {
        assert!(db.get(key).unwrap().is_some());
    }
    forward
}

fn fill(db: &Db, numbers: impl Iterator<Item = u64>) {
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.put(key(number), [7; 100]);
        if batch.len() >= 64 {
            db.write(std::mem::take(&mut batch)).unwrap();
        }
    }
    db.write(batch).unwrap();
}

/// Entries in memtables, in tables of several levels, and after a crash.
fn wherever_they_lie(write: impl Fn(&Db), check: impl Fn(&Db)) {
    for flushes in [false, true] {
        for compacts in [false, true] {
            let fs = MemFs::new();
            let db = open(&fs);
            write(&db);
            if flushes {
                db.flush().unwrap();
            }
            if compacts {
                db.compact_range(None, None).unwrap();
            }
            check(&db);
            db.verify().unwrap().check().unwrap();
            let crashed = open(&fs.kill_clone());
            check(&crashed);
            db.close().unwrap();
            check(&open(&fs));
        }
    }
}

#[test]
fn every_key_of_a_range_is_gone_and_no_other() {
    let write = |db: &Db| {
        for letter in b'a'..=b'z' {
            db.put([letter], "old").unwrap();
            if letter % 5 == 0 {
                db.flush().unwrap();
            }
        }
        db.delete_range("c".."f").unwrap();
        db.delete_range("x"..).unwrap();
        db.delete_range(..="a").unwrap();
        db.put("d", "new").unwrap();
        db.delete_prefix("m").unwrap();
        // Nothing is in them.
        db.delete_range("k".."k").unwrap();
        db.delete_range(.."").unwrap();
    };
    let check = |db: &Db| {
        let left = "bdfghijklnopqrstuvw".chars().map(String::from);
        let left: Vec<_> = left.collect();
        assert_eq!(keys(db), left);
        assert_eq!(db.get("d").unwrap().as_deref(), Some(&b"new"[..]));
        for gone in ["a", "c", "e", "m", "x", "zz"] {
            assert!(db.get(gone).unwrap().is_none() && !db.contains_key(gone).unwrap());
        }
        let found = db.multi_get(&["c", "d", "e", "f", "z"]).unwrap();
        let there: Vec<_> = found.iter().map(Option::is_some).collect();
        assert_eq!(there, [false, true, false, true, false]);
        assert_eq!(db.len().unwrap(), 19);
        let (first, last) = (db.first_key_value().unwrap(), db.last_key_value().unwrap());
        assert_eq!(
            (&*first.unwrap().0, &*last.unwrap().0),
            (&b"b"[..], &b"w"[..])
        );
    };
    wherever_they_lie(write, check);
}

#[test]
fn snapshots_see_what_they_saw() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..1000);
    db.flush().unwrap();
    let before = db.snapshot();
    let mut cursor = db.cursor(IterOptions::default()).unwrap();
    cursor.seek_to_first().unwrap();
    db.delete_range(key(100)..key(900)).unwrap();
    let between = db.snapshot();
    fill(&db, 200..300);
    for _ in 0..3 {
        assert_eq!(before.iter().count(), 1000);
        assert_eq!(between.iter().rev().count(), 200);
        assert_eq!(db.iter().count(), 300);
        assert!(before.get(key(500)).unwrap().is_some());
        assert!(between.get(key(250)).unwrap().is_none());
        assert!(db.get(key(250)).unwrap().is_some());
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
    }
    let mut seen = 1;
    while cursor.valid() {
        cursor.next().unwrap();
        seen += u64::from(cursor.valid());
    }
    assert_eq!(seen, 1000);
    drop((before, between, cursor));
    db.compact_range(None, None).unwrap();
    assert_eq!(keys(&db).len(), 300);
    db.verify().unwrap().check().unwrap();
}

#[test]
fn a_batch_deletes_ranges_in_its_order() {
    let write = |db: &Db| {
        fill(db, 0..20);
        let mut batch = WriteBatch::new();
        batch.put(key(5), "before");
        batch.delete_range(key(3)..key(8)).unwrap();
        batch.put(key(6), "between");
        batch.delete_range(key(6)..=key(12)).unwrap();
        batch.put(key(7), "after");
        let size = batch.size();
        let inverted = batch.delete_range(key(9)..key(2));
        assert!(matches!(inverted, Err(Error::InvertedRange { .. })));
        assert_eq!((batch.len(), batch.size()), (5, size));
        db.write(batch).unwrap();
    };
    let check = |db: &Db| {
        let left = [0, 1, 2, 7, 13, 14, 15, 16, 17, 18, 19].map(key);
        assert_eq!(keys(db), left);
    };
    wherever_they_lie(write, check);
}

/// Pages of data and of indexes read by scans and lookups.
fn pages_read(meter: &MeteredFs) -> u64 {
    let kinds = [BlockKind::Data, BlockKind::Index];
    let purposes = [Purpose::Scan, Purpose::Lookup];
    let reads = kinds
        .iter()
        .flat_map(|kind| purposes.map(|purpose| (*kind, purpose)));
    let counts = meter.counts();
    reads
        .map(|(kind, purpose)| counts.reads(kind, purpose).pages)
        .sum()
}

/// How many tables there are, and their entries and bytes.
fn tables(db: &Db) -> (usize, u64, u64) {
    let stats = db.stats();
    let levels = || stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    (
        levels().map(|level| level.files).sum(),
        levels().map(|level| level.entries).sum(),
        levels().map(|level| level.bytes).sum(),
    )
}

#[test]
fn tables_that_hold_nothing_else_go_without_being_read() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..20_000);
    db.compact_range(None, None).unwrap();
    let before = db.stats();
    let (files, _, bytes) = tables(&db);
    assert!(files > 20);
    let snapshot = db.snapshot();
    db.delete_range(key(1000)..key(19_000)).unwrap();
    db.flush().unwrap();
    assert_eq!(
        db.stats().counters.tables_dropped,
        0,
        "a snapshot reads them"
    );
    assert_eq!(snapshot.iter().count(), 20_000);
    drop(snapshot);
    db.delete_range(key(1000)..key(19_000)).unwrap();
    db.flush().unwrap();
    // Their space is free when that returns.
    let on_disk = fs.list("/db".as_ref()).unwrap();
    let on_disk = on_disk.iter().filter(|file| file.name.ends_with(".sst"));
    assert_eq!(on_disk.count(), tables(&db).0);
    let after = db.stats();
    assert_eq!(
        after.counters.compaction_bytes_read,
        before.counters.compaction_bytes_read
    );
    assert!(after.counters.tables_dropped as usize > files * 8 / 10);
    let (left, _, size) = tables(&db);
    assert!(left < files / 4 && size < bytes / 4, "{left} of {files}");
    assert_eq!(keys(&db).len(), 2000);
    // The rest, and the deletions themselves, go with what is merged.
    db.compact_range(None, None).unwrap();
    assert_eq!(keys(&db).len(), 2000);
    assert!(tables(&db).1 <= 2000);
    db.verify().unwrap().check().unwrap();
}

#[test]
fn scans_get_past_what_a_range_deleted_without_reading_it() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new()
        .write_buffer(1 << 20)
        .target_file(8 << 20);
    open(&fs).close().unwrap();
    let reopened = |budget: u64| {
        let meter = MeteredFs::new(Arc::new(fs.clone()));
        let options = options(&fs).memory(MemoryBudget::bytes(budget));
        let options = options.keyspace(keyspace.clone());
        let db = options.fs(Arc::new(meter.clone())).open("/db").unwrap();
        (meter, db)
    };
    let (_, db) = reopened(8 << 20);
    fill(&db, 0..20_000);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    for flushes in [false, true] {
        for backward in [false, true] {
            let (meter, db) = reopened(1 << 20);
            let scan = |db: &Db| {
                let entries = db.iter();
                if backward {
                    entries.rev().count()
                } else {
                    entries.count()
                }
            };
            let read = pages_read(&meter);
            let there = scan(&db);
            let all = pages_read(&meter) - read;
            if there == 20_000 {
                assert!(all > 400, "{all} pages");
                db.delete_range(key(2000)..key(18_000)).unwrap();
            }
            if flushes {
                db.flush().unwrap();
            }
            let read = pages_read(&meter);
            assert_eq!(scan(&db), 4000);
            let few = pages_read(&meter) - read;
            assert!(
                few < 180,
                "{few} pages, flushed: {flushes}, backward: {backward}"
            );
        }
    }
}

/// A seek to a deleted key looks for what comes behind the range, and not for the key.
#[test]
fn seeks_to_deleted_keys_read_what_lies_behind_the_range() {
    let fs = MemFs::new();
    let db = options(&fs).memory(MemoryBudget::bytes(8 << 20));
    let db = db.open("/db").unwrap();
    fill(&db, 0..20_000);
    db.compact_range(None, None).unwrap();
    db.delete_range(key(2000)..key(18_000)).unwrap();
    // Newer than the range: found in it.
    db.put(key(9000), "new").unwrap();
    db.close().unwrap();
    for flushes in [false, true] {
        let meter = MeteredFs::new(Arc::new(fs.clone()));
        let options = options(&fs).memory(MemoryBudget::bytes(1 << 20));
        let db = options.fs(Arc::new(meter.clone())).open("/db").unwrap();
        if flushes {
            db.flush().unwrap();
        }
        let mut read = 0;
        for (round, number) in (2000..18_000).step_by(160).enumerate() {
            if round == 1 {
                read = pages_read(&meter);
            }
            let mut cursor = db.cursor(IterOptions::default()).unwrap();
            let after = if number <= 9000 { 9000 } else { 18_000 };
            cursor.seek(key(number)).unwrap();
            assert_eq!(cursor.key(), key(after).as_bytes());
            let before = if number < 9000 { 1999 } else { 9000 };
            cursor.seek_for_prev(key(number)).unwrap();
            assert_eq!(cursor.key(), key(before).as_bytes());
            let first = db.range(key(number)..).next().unwrap().unwrap();
            assert_eq!(first.0, key(after).as_bytes());
            let last = db.range(..key(number)).next_back().unwrap().unwrap();
            assert_eq!(
                last.0,
                key(if number <= 9000 { 1999 } else { 9000 }).as_bytes()
            );
        }
        let read = pages_read(&meter) - read;
        assert!(read < 20, "{read} pages of 99 rounds, flushed: {flushes}");
    }
}

/// In a memtable too, as long as nothing is written there again: by scans in both directions, seeks
/// and snapshots of then. (Of entries that are passed a quarter of a million have it flushed.)
#[test]
fn scans_get_past_what_a_range_deleted_in_memory_without_coming_to_it() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new().write_buffer(4 << 20);
    let db = options(&fs).memory(MemoryBudget::bytes(64 << 20));
    let db = db.keyspace(keyspace).open("/db").unwrap();
    fill(&db, 0..10_000);
    db.delete_range(key(1000)..key(9000)).unwrap();
    let snapshot = db.snapshot();
    // Beside the range, and what is deleted with it once more.
    fill(&db, 500..1000);
    db.put(key(5000), "new").unwrap();
    db.delete_range(key(1000)..key(9000)).unwrap();
    for _ in 0..100 {
        assert_eq!(db.len().unwrap(), 2000);
        assert_eq!(db.iter().rev().count(), 2000);
        for number in [1000, 4500, 8999] {
            let first = db.range(key(number)..).next().unwrap().unwrap();
            assert_eq!(first.0, key(9000).as_bytes());
            let last = db.range(..=key(number)).next_back().unwrap().unwrap();
            assert_eq!(last.0, key(999).as_bytes());
        }
    }
    assert_eq!(db.stats().counters.flushes, 0);
    // What is written there again is found.
    db.put(key(2000), "new").unwrap();
    assert_eq!(db.len().unwrap(), 2001);
    assert_eq!(db.iter().rev().count(), 2001);
    assert_eq!(
        db.range(key(1000)..).next().unwrap().unwrap().0,
        key(2000).as_bytes()
    );
    assert_eq!(snapshot.iter().count(), 2000);
}

/// A memtable that has a range tombstone and what it deleted is flushed once scans have gone past
/// that again and again: not before, and not for what they do not come to.
#[test]
fn scans_have_deleted_entries_flushed_that_they_come_past() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new().write_buffer(4 << 20);
    let db = options(&fs).memory(MemoryBudget::bytes(64 << 20));
    let db = db.keyspace(keyspace).open("/db").unwrap();
    fill(&db, 0..10_000);
    db.delete_range(key(1000)..key(9000)).unwrap();
    db.put(key(5000), "new").unwrap();
    let flushes = || db.stats().counters.flushes;
    let seek = |number: u64, found: u64| {
        let mut cursor = db.cursor(IterOptions::default()).unwrap();
        cursor.seek(key(number)).unwrap();
        assert_eq!(cursor.key(), key(found).as_bytes());
    };
    for _ in 0..1000 {
        seek(500, 500);
        seek(9500, 9500);
    }
    // 4,000 entries each time: a quarter of a million after 66.
    let mut before = 0;
    while flushes() == 0 {
        seek(1000, 5000);
        before += 1;
        assert!(before < 100, "nothing is flushed");
    }
    assert!(before > 50, "{before} scans");
    assert_eq!(db.stats().counters.flushes, 1);
    for _ in 0..200 {
        seek(1000, 5000);
        seek(5001, 9000);
    }
    assert_eq!(flushes(), 1);
    assert_eq!(keys(&db).len(), 2001);
}

#[test]
fn a_lookup_of_what_a_range_deleted_reads_nothing() {
    let fs = MemFs::new();
    let meter = MeteredFs::new(Arc::new(fs.clone()));
    let options = options(&fs).memory(MemoryBudget::bytes(1 << 20));
    let db = options.fs(Arc::new(meter.clone())).open("/db").unwrap();
    fill(&db, 0..20_000);
    db.compact_range(None, None).unwrap();
    // For whom what was deleted is kept, and so is what deleted it.
    let _snapshot = db.snapshot();
    db.delete_range(key(10)..key(4990)).unwrap();
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    db.get(key(5)).unwrap().unwrap();
    let read = pages_read(&meter);
    for number in 10..4990 {
        assert!(db.get(key(number)).unwrap().is_none());
    }
    assert_eq!(pages_read(&meter), read);
}

#[test]
fn cached_entries_do_not_outlive_their_range() {
    let fs = MemFs::new();
    let memory = MemoryBudget::bytes(1 << 20);
    memory.always_keep_entries();
    let db = options(&fs).memory(memory).open("/db").unwrap();
    fill(&db, 0..20_000);
    db.compact_range(None, None).unwrap();
    let hot = || (0..20_000).step_by(100);
    for _ in 0..20 {
        for number in hot() {
            assert!(db.get(key(number)).unwrap().is_some());
        }
    }
    assert!(db.stats().counters.entry_hits > 0);
    db.delete_range(key(5000)..key(15_000)).unwrap();
    db.put(key(6000), "new").unwrap();
    db.flush().unwrap();
    for number in hot() {
        let there = !(5000..15_000).contains(&number) || number == 6000;
        assert_eq!(db.get(key(number)).unwrap().is_some(), there, "{number}");
    }
}

/// Each deletion overlaps all before it.
#[test]
fn many_ranges_that_overlap_stay_within_memory() {
    let fs = MemFs::new();
    let memory = MemoryBudget::bytes(1 << 20);
    let db = options(&fs).memory(memory.clone()).open("/db").unwrap();
    let mut batch = WriteBatch::new();
    for number in 0..4000 {
        db.put(key(number), [1; 50]).unwrap();
        db.delete_range(..key(number)).unwrap();
        batch.put(key(number + 10_000), "b");
        batch
            .delete_range(key(10_000)..key(number + 10_000))
            .unwrap();
        if batch.len() >= 200 {
            db.write(std::mem::take(&mut batch)).unwrap();
        }
        let usage = memory.usage().budget;
        assert!(
            usage.overdraft == 0 && usage.used <= usage.limit,
            "{usage:?}"
        );
    }
    db.write(batch).unwrap();
    let left = keys(&db);
    assert_eq!(left, [key(3999), key(13_999)], "{}", left.len());
    let fs = fs.kill_clone();
    let db = options(&fs).memory(MemoryBudget::bytes(1 << 20));
    let db = db.open("/db").unwrap();
    assert_eq!(keys(&db), [key(3999), key(13_999)]);
}

/// More ranges than an open table is to hold are in several tables.
#[test]
fn many_ranges_are_divided_among_tables() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, (0..30_000).step_by(2));
    db.compact_range(None, None).unwrap();
    // What readers of snapshots still see keeps them from being dropped at once.
    let snapshot = db.snapshot();
    let mut rng = Rng::new(7);
    let mut there = vec![true; 30_000];
    for first in (0..30_000).step_by(6) {
        let last = first + rng.between(1, 6);
        db.delete_range(key(first)..key(last)).unwrap();
        there[first as usize..(last as usize).min(30_000)].fill(false);
    }
    let left = (0..30_000).step_by(2);
    let left = left.filter(|number| there[*number as usize]);
    let left: Vec<_> = left.map(key).collect();
    assert_eq!(keys(&db), left);
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    assert_eq!(keys(&db), left);
    assert_eq!(snapshot.iter().count(), 15_000);
    db.verify().unwrap().check().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(snapshot.iter().count(), 15_000);
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    assert_eq!(keys(&db), left);
    assert_eq!(
        tables(&db).1,
        left.len() as u64,
        "{:?}",
        db.stats().keyspaces[0].levels
    );
    db.verify().unwrap().check().unwrap();
}

#[test]
fn operands_are_merged_into_nothing_once_a_range_deleted_what_was_there() {
    let fs = MemFs::new();
    let open = |fs: &MemFs| {
        let options = options(fs).merge_operator("default", Increment);
        options.open("/db").unwrap()
    };
    let db = open(&fs);
    let add = |db: &Db, number: i64| db.merge("k", number.to_le_bytes()).unwrap();
    let is = |db: &Db, number: i64| {
        let expected = number.to_le_bytes();
        assert_eq!(db.get("k").unwrap().as_deref(), Some(&expected[..]));
        let (_, value) = db.iter().next().unwrap().unwrap();
        assert_eq!(*value, expected);
        let (_, value) = db.iter().next_back().unwrap().unwrap();
        assert_eq!(*value, expected);
    };
    for flushes in 0..8 {
        for amount in 1..6 {
            add(&db, amount);
        }
        let step = |bit: i32| {
            if flushes >> bit & 1 == 1 {
                db.flush().unwrap();
            }
        };
        step(0);
        let before = db.snapshot();
        db.delete_range("a".."z").unwrap();
        step(1);
        assert!(db.get("k").unwrap().is_none());
        for amount in 1..6 {
            add(&db, amount * 100);
        }
        step(2);
        is(&db, 1500);
        assert!(before.get("k").unwrap().is_some());
        drop(before);
        db.compact_range(None, None).unwrap();
        is(&db, 1500);
        is(&open(&fs.kill_clone()), 1500);
        db.delete("k").unwrap();
    }
}

#[test]
fn a_filter_is_not_asked_about_what_a_range_deleted() {
    let fs = MemFs::new();
    let filter = |key: &[u8], _: &[u8]| {
        assert!(key < b"c", "{}", key.escape_ascii());
        CompactionDecision::Keep
    };
    let db = options(&fs).compaction_filter("default", filter);
    let db = db.open("/db").unwrap();
    for key in ["a", "b", "c", "d"] {
        db.put(key, "v").unwrap();
    }
    db.flush().unwrap();
    db.delete_range("c"..).unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(keys(&db), ["a", "b"]);
}

#[test]
fn transactions_see_and_depend_on_deleted_ranges() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..10);
    let mut tx = db.transaction();
    tx.delete_range(key(2)..key(7)).unwrap();
    tx.put(key(4), "own").unwrap();
    assert!(tx.get(key(3)).unwrap().is_none() && tx.get(key(4)).unwrap().is_some());
    assert_eq!(tx.iter().count(), 6);
    assert_eq!(tx.iter().rev().count(), 6);
    tx.set_savepoint();
    tx.delete_range(..key(1)).unwrap();
    assert!(tx.get(key(0)).unwrap().is_none() && tx.get(key(3)).unwrap().is_none());
    assert_eq!(tx.iter().count(), 5);
    tx.delete_range(..).unwrap();
    assert_eq!(tx.iter().count(), 0);
    tx.rollback_to_savepoint().unwrap();
    assert_eq!(tx.iter().count(), 6);
    drop(tx);
    let mut tx = db.transaction();
    tx.delete_range(key(2)..key(7)).unwrap();
    tx.put(key(4), "own").unwrap();
    assert!(tx.get(key(3)).unwrap().is_none());
    // Nobody else's reads: it reads nothing that others write.
    fill(&db, 2..4);
    tx.commit().unwrap();
    assert_eq!(keys(&db), [0, 1, 4, 7, 8, 9].map(key));
    // Who read a key, a range or nothing of it depends on that.
    let conflict = |read: &dyn Fn(&shamba::Transaction), expected: Option<u64>| {
        let mut tx = db.transaction();
        read(&tx);
        tx.put("written", "x").unwrap();
        db.delete_range(key(6)..key(8)).unwrap();
        match (tx.commit(), expected) {
            (Ok(()), None) => {}
            (Err(Error::Conflict { key: at, .. }), Some(number)) => {
                assert_eq!(at, key(number).into_bytes());
            }
            (done, expected) => panic!("{done:?} against {expected:?}"),
        }
        fill(&db, 7..8);
    };
    conflict(&|tx| drop(tx.get(key(7)).unwrap()), Some(7));
    // What was flushed since is looked for in tables.
    let in_tables = |read: &dyn Fn(&shamba::Transaction)| {
        let mut tx = db.transaction();
        read(&tx);
        tx.put("written", "x").unwrap();
        let _kept = db.snapshot();
        db.delete_range(key(6)..key(8)).unwrap();
        db.flush().unwrap();
        assert!(matches!(tx.commit(), Err(Error::Conflict { .. })));
        fill(&db, 7..8);
    };
    in_tables(&|tx| assert_eq!(tx.range(key(7)..key(9)).count(), 2));
    in_tables(&|tx| drop(tx.get(key(7)).unwrap()));
    conflict(&|tx| drop(tx.get(key(8)).unwrap()), None);
    conflict(
        &|tx| assert_eq!(tx.range(key(7)..key(9)).count(), 2),
        Some(7),
    );
    conflict(&|tx| assert_eq!(tx.range(..key(6)).count(), 3), None);
}

#[test]
fn misuse_is_a_typed_error_and_loses_nothing() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..10);
    let inverted = db.delete_range("z".."a");
    assert!(matches!(&inverted, Err(Error::InvertedRange { start, end })
        if start == b"z" && end == b"a"));
    let text = inverted.unwrap_err().to_string();
    assert!(
        text.contains("begins at key z and ends before it, at a"),
        "{text}"
    );
    let keyspace = db.default_keyspace();
    assert!(keyspace.delete_range("b"..="a").is_err());
    let mut tx = db.transaction();
    assert!(matches!(
        tx.delete_range("b".."a"),
        Err(Error::InvertedRange { .. })
    ));
    tx.commit().unwrap();
    let long = "k".repeat(70_000);
    let too_long = db.delete_range("a"..&*long);
    assert!(
        matches!(too_long, Err(Error::RangeEndTooLarge { .. })),
        "{too_long:?}"
    );
    for end in [&*long, "k".repeat(65_536).as_str()] {
        let mut batch = WriteBatch::new();
        batch.put("before", "v");
        batch.delete_range("a"..end).unwrap();
        let refused = db.write(batch);
        assert!(
            matches!(refused, Err(Error::RangeEndTooLarge { .. })),
            "{refused:?}"
        );
        let mut tx = db.transaction();
        let refused = tx.delete_range("a"..end);
        assert!(
            matches!(refused, Err(Error::RangeEndTooLarge { .. })),
            "{refused:?}"
        );
    }
    let other = open(&MemFs::new());
    let mut batch = WriteBatch::new();
    batch
        .delete_range_in(&other.default_keyspace(), ..key(5))
        .unwrap();
    assert!(matches!(db.write(batch), Err(Error::WrongDatabase { .. })));
    db.create_keyspace("gone", KeyspaceOptions::new()).unwrap();
    let gone = db.keyspace("gone").unwrap();
    db.drop_keyspace("gone").unwrap();
    let dropped = gone.delete_range(..);
    assert!(
        matches!(dropped, Err(Error::KeyspaceDropped { .. })),
        "{dropped:?}"
    );
    assert_eq!(keys(&db).len(), 10);
    let handle = db.default_keyspace();
    db.close().unwrap();
    assert!(matches!(handle.delete_range("a".."b"), Err(Error::Closed)));
}

/// A cursor, the keys that it goes through, and the place of the one it is at.
struct HeldCursor {
    cursor: shamba::Cursor,
    keys: Vec<String>,
    at: Option<usize>,
}

impl HeldCursor {
    fn new(db: &Db, there: &BTreeSet<String>) -> HeldCursor {
        HeldCursor {
            cursor: db.cursor(IterOptions::default()).unwrap(),
            keys: there.iter().cloned().collect(),
            at: None,
        }
    }

    /// A few moves, mostly in one direction.
    fn walk(&mut self, rng: &mut Rng) {
        let forward = rng.one_in(2);
        for _ in 0..rng.below(12) {
            let (count, place) = (self.keys.len(), self.at);
            match (place, forward != rng.one_in(5)) {
                _ if rng.one_in(6) => {
                    let to = key(rng.below(400));
                    let before = self.keys.partition_point(|key| *key < to);
                    self.cursor.seek(&to).unwrap();
                    self.at = Some(before).filter(|at| *at < count);
                }
                (Some(at), true) => {
                    self.cursor.next().unwrap();
                    self.at = Some(at + 1).filter(|at| *at < count);
                }
                (Some(at), false) => {
                    self.cursor.prev().unwrap();
                    self.at = at.checked_sub(1);
                }
                (None, true) => {
                    self.cursor.seek_to_first().unwrap();
                    self.at = (count > 0).then_some(0);
                }
                (None, false) => {
                    self.cursor.seek_to_last().unwrap();
                    self.at = count.checked_sub(1);
                }
            }
            let expected = self.at.map(|at| self.keys[at].as_bytes());
            assert_eq!(self.cursor.valid().then(|| self.cursor.key()), expected);
        }
    }
}

/// Against a set of keys: with flushes, merges of parts and of all, other designs, snapshots, and
/// cursors that outlive what they were made of.
#[test]
fn random_ranges_delete_what_lies_in_them() {
    on_every_core(env_number("SHAMBA_CASES").unwrap_or(120), |seed| {
        let _replay = Replay(format!("seed {seed} of random_ranges"));
        let mut rng = Rng::new(seed);
        let fs = MemFs::new();
        let open = |rng: &mut Rng| {
            let keyspace = random_keyspace_options(rng);
            let keyspace = keyspace.write_buffer(8 << 10).target_file(8 << 10);
            let options = random_options(rng, Arc::new(fs.clone()));
            let options = options.memory(MemoryBudget::bytes(1 << 20));
            let options = options.keyspace(keyspace).background_threads(0);
            options.open("/db").unwrap()
        };
        let mut db = open(&mut rng);
        let mut there = BTreeSet::new();
        let mut held = Vec::new();
        let mut cursors = Vec::new();
        for _ in 0..400 {
            let number = rng.below(400);
            match rng.below(16) {
                0..5 => {
                    for number in number..number + rng.below(30) {
                        db.put(key(number), rng.bytes(200)).unwrap();
                        there.insert(key(number));
                    }
                }
                5..8 => {
                    let width = if rng.one_in(6) { 400 } else { 40 };
                    let end = number + rng.below(width);
                    db.delete_range(key(number)..key(end)).unwrap();
                    there.retain(|at| !(key(number)..key(end)).contains(at));
                }
                8 => db.flush().unwrap(),
                9 => {
                    let end = key(number + rng.below(100)).into_bytes();
                    let from = key(number).into_bytes();
                    db.compact_range(Some(&from), Some(&end)).unwrap();
                }
                10 if held.len() < 3 => held.push((db.snapshot(), there.clone())),
                10 => drop(held.swap_remove(rng.below(3) as usize)),
                11 if cursors.len() < 3 => cursors.push(HeldCursor::new(&db, &there)),
                11 => drop(cursors.swap_remove(rng.below(3) as usize)),
                12 | 13 => cursors.iter_mut().for_each(|held| held.walk(&mut rng)),
                14 => db.redesign(random_design(&mut rng)).unwrap(),
                _ if rng.one_in(6) => {
                    held.clear();
                    cursors.clear();
                    db.close().unwrap();
                    db = open(&mut rng);
                }
                _ => db.wait_for_compaction().unwrap(),
            }
            if rng.one_in(8) {
                assert!(keys(&db).iter().eq(&there));
                for (snapshot, then) in &held {
                    let seen = snapshot.iter().map(|entry| entry.unwrap().0);
                    assert!(seen.eq(then.iter().map(|key| key.as_bytes().to_vec())));
                }
            }
        }
        held.clear();
        cursors.clear();
        assert!(keys(&db).iter().eq(&there));
        db.verify().unwrap().check().unwrap();
        // Nothing is left of what deleted them.
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        db.compact_range(None, None).unwrap();
        let levels = &db.stats().keyspaces[0].levels;
        assert!(levels.iter().all(|level| level.range_tombstones == 0));
        assert!(keys(&db).iter().eq(&there));
    });
}

/// A range without an end is over the longest keys that there may be, which ranges do not end with
/// under a small budget.
#[test]
fn ranges_are_over_the_longest_keys_and_end_with_shorter_ones() {
    for mebibytes in [1, 16] {
        let fs = MemFs::new();
        let open = |fs: &MemFs| {
            let options = options(fs).memory(MemoryBudget::bytes(mebibytes << 20));
            options.open("/db").unwrap()
        };
        let db = open(&fs);
        let long = vec![b'k'; ((mebibytes << 20) / 64).min(65_535) as usize];
        let check = |db: &Db| {
            assert!(db.get(&long).unwrap().is_none() && db.get("a").unwrap().is_some());
            assert_eq!(keys(db), ["a"]);
        };
        let behind = [&long[..], &[0]].concat();
        type Delete<'a> = &'a dyn Fn() -> shamba::Result<()>;
        let deletions: [(Delete<'_>, bool); 5] = [
            (&|| db.delete_range("b"..), true),
            (&|| db.delete_range(&b"b"[..]..=&long[..]), mebibytes == 16),
            (&|| db.delete_range(&b"b"[..]..&behind[..]), mebibytes == 16),
            (&|| db.delete_prefix(&long), mebibytes == 16),
            (&|| db.delete_range(&long[..]..), mebibytes == 16),
        ];
        for (delete, is_allowed) in deletions {
            db.put("a", "v").unwrap();
            db.put(&long, "v").unwrap();
            db.flush().unwrap();
            // For whom the entry is kept, and what deleted it.
            let snapshot = db.snapshot();
            let done = delete();
            if !is_allowed {
                assert!(
                    matches!(done, Err(Error::RangeEndTooLarge { len, max, needed })
                    if len == long.len() && max == 4096 && needed == Some(len as u64 * 256))
                );
                continue;
            }
            done.unwrap();
            for _ in 0..3 {
                check(&db);
                check(&open(&fs.kill_clone()));
                assert_eq!(snapshot.iter().count(), 2);
                db.flush().unwrap();
                db.compact_range(None, None).unwrap();
            }
            db.verify().unwrap().check().unwrap();
        }
        let too_long = vec![b'k'; 65_537];
        let refused = db.delete_range(..&too_long[..]);
        assert!(
            matches!(refused, Err(Error::RangeEndTooLarge { .. })),
            "{refused:?}"
        );
    }
}

/// Readers of older numbers go past what is newer; so a memtable has not very many ranges.
#[test]
fn a_memtable_of_many_ranges_is_flushed() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new().write_buffer(64 << 20);
    let options = options(&fs).memory(MemoryBudget::bytes(256 << 20));
    let db = options.keyspace(keyspace).open("/db").unwrap();
    fill(&db, 0..1000);
    let snapshot = db.snapshot();
    for number in 0..10_000 {
        db.delete_range(key(2 * number)..key(2 * number + 1))
            .unwrap();
    }
    let flushes = db.stats().counters.flushes;
    assert!((4..=8).contains(&flushes), "{flushes}");
    assert_eq!(snapshot.iter().count(), 1000);
    assert_eq!(snapshot.iter().rev().count(), 1000);
    assert_eq!(keys(&db).len(), 500);
}

/// Ranges between long keys, of which snapshots keep many.
#[test]
fn ranges_of_long_keys_stay_within_memory() {
    let sizes = [(1, 1000), (1, 4000), (4, 16_000), (8, 32_000)];
    for ((mebibytes, len), nested) in sizes
        .iter()
        .flat_map(|size| [(*size, false), (*size, true)])
    {
        let fs = MemFs::new();
        let memory = MemoryBudget::bytes(mebibytes << 20);
        let db = options(&fs).memory(memory.clone()).open("/db").unwrap();
        let long = |number: u64| {
            let mut long = vec![b'k'; len];
            let short = key(number).into_bytes();
            long[..short.len()].copy_from_slice(&short);
            long
        };
        let mut there = BTreeSet::new();
        let mut held = Vec::new();
        for number in 1..100 {
            db.put(long(number), "v").unwrap();
            there.insert(long(number));
            let end = if nested {
                number
            } else {
                number / 2 + 1 + number % 3
            };
            let (from, to) = (long(number / 2), long(end));
            db.delete_range(&from..&to).unwrap();
            there.retain(|key| *key < from || *key >= to);
            let every = if nested { 5 } else { 40 };
            if number % every == 0 {
                held.push((db.snapshot(), there.clone()));
            }
            let usage = memory.usage().budget;
            let within = usage.overdraft == 0 && usage.used <= usage.limit;
            assert!(within, "{number} of {mebibytes} MiB, {len}: {usage:?}");
        }
        let seen = |iter: shamba::Iter| iter.map(|entry| entry.unwrap().0).collect::<Vec<_>>();
        for _ in 0..2 {
            assert!(seen(db.iter()).iter().eq(&there));
            let backward = db.iter().rev().map(|entry| entry.unwrap().0);
            assert!(backward.eq(there.iter().rev().cloned()));
            for (snapshot, then) in &held {
                assert!(seen(snapshot.iter()).iter().eq(then));
            }
            db.flush().unwrap();
            db.wait_for_compaction().unwrap();
        }
        drop(held);
        db.compact_range(None, None).unwrap();
        assert!(seen(db.iter()).iter().eq(&there));
        assert_eq!(memory.usage().budget.overdraft, 0);
    }
}
