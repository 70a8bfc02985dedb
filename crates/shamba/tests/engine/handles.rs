//! The calls of `Db`, `Keyspace` and `Snapshot` that stand beside each other do the same, each to
//! its keyspace and at its moment.

use std::path::Path;
use std::sync::Arc;

use crate::common::{small_keyspace, small_options};
use shamba::fs::MemFs;
use shamba::{Cursor, Db, Durability, Error, IterOptions, Keyspace, WriteOptions};

const DIR: &str = "/db";

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(2_654_435_761).to_be_bytes()
}

/// A database whose default keyspace has the even numbers below 2000, and another the odd ones.
fn two_keyspaces() -> (Db, Keyspace) {
    let db = small_options(Arc::new(MemFs::new())).open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    for number in 0..1000 {
        db.put(key(2 * number), [2; 40]).unwrap();
        other.put(key(2 * number + 1), [1; 40]).unwrap();
    }
    (db, other)
}

#[test]
fn snapshots_answer_for_every_keyspace_as_of_their_moment() {
    let (db, other) = two_keyspaces();
    let then = db.snapshot();
    for number in 0..2000 {
        db.delete(key(number)).unwrap();
        other.put(key(number), b"new").unwrap();
    }
    let keys: Vec<_> = (0..2000).map(key).collect();
    // In memory in part, and then all in one run.
    for merged in [false, true] {
        if merged {
            db.compact_range(None, None).unwrap();
            other.compact_range(None, None).unwrap();
        }
        let of_default = then.multi_get(&keys).unwrap();
        let of_other = then.multi_get_in(&other, &keys).unwrap();
        for number in 0..2000u32 {
            let (even, at) = (number.is_multiple_of(2), number as usize);
            let wanted = even.then_some(&[2; 40][..]);
            assert_eq!(of_default[at].as_deref(), wanted);
            assert_eq!(then.get(keys[at]).unwrap().as_deref(), wanted);
            assert_eq!(then.contains_key(keys[at]).unwrap(), even);
            let wanted = (!even).then_some(&[1; 40][..]);
            assert_eq!(of_other[at].as_deref(), wanted);
            assert_eq!(then.contains_key_in(&other, keys[at]).unwrap(), !even);
            assert!(!db.contains_key(keys[at]).unwrap());
            assert!(other.contains_key(keys[at]).unwrap());
        }
    }
    let counters = db.stats().counters;
    assert_eq!(
        counters.lookups,
        2 * 2000 * 7,
        "every lookup counts, and none twice"
    );
}

#[test]
fn a_keyspace_is_compacted_and_measured_by_its_own_handle() {
    let (db, other) = two_keyspaces();
    let levels = |name: &str| {
        let stats = db.stats();
        let found = stats.keyspaces.iter().find(|it| it.name == name);
        let levels = &found.unwrap().levels;
        (
            levels.iter().map(|level| level.runs).sum::<usize>(),
            levels.iter().map(|level| level.bytes).sum::<u64>(),
        )
    };
    assert!(
        levels("default").0 > 1 && levels("other").0 > 1,
        "nothing to merge"
    );
    other.compact_range(None, None).unwrap();
    let (runs, bytes) = levels("other");
    assert!(runs == 1 && levels("default").0 > 1, "{runs}");
    assert_eq!(other.approximate_size(b"", &[u8::MAX; 5]), bytes);
    let half = other.approximate_size(b"", &[128]);
    assert!(
        (bytes / 4..bytes * 3 / 4).contains(&half),
        "{half} of {bytes}"
    );
    let all = [b"".as_slice(), &[u8::MAX; 5]];
    assert_eq!(
        db.approximate_size(all[0], all[1]),
        db.default_keyspace().approximate_size(all[0], all[1])
    );
    assert_eq!(db.path(), Path::new(DIR));
    let mut iter = db.cursor(IterOptions::range(key(2)..)).unwrap();
    iter.seek_to_first().unwrap();
    assert_eq!(iter.key(), key(2));
}

/// Single writes are as durable as each asks, whatever the database's default.
#[test]
fn single_writes_have_a_durability_of_their_own() {
    let fs = MemFs::new();
    let options = small_options(Arc::new(fs.clone())).durability(Durability::Buffered);
    let db = options.open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    let synced = WriteOptions::synced();
    db.put_with("a", "1", synced).unwrap();
    db.put_with("b", "1", synced).unwrap();
    db.delete_with("a", synced).unwrap();
    other.put_with("c", "1", synced).unwrap();
    other.put_with("d", "1", synced).unwrap();
    other.delete_with("c", synced).unwrap();
    let before = db.stats().counters.wal_syncs;
    db.put("e", "1").unwrap();
    other.put("e", "1").unwrap();
    assert_eq!(db.stats().counters.wal_syncs, before, "nobody asked for it");
    for seed in 0..20 {
        let crashed = Arc::new(fs.crash_clone(seed));
        let db = small_options(crashed).open(DIR).unwrap();
        let other = db.keyspace("other").unwrap();
        assert!(!db.contains_key("a").unwrap() && db.contains_key("b").unwrap());
        assert!(!other.contains_key("c").unwrap() && other.contains_key("d").unwrap());
    }
}

/// An iterator that outlives its database says that it is closed, whatever became of the files
/// since.
#[test]
fn iterators_that_outlive_a_database_say_that_it_is_closed() {
    type Move = fn(&mut Cursor) -> shamba::Result<()>;
    let moves: [Move; 6] = [
        |iter| iter.next(),
        |iter| iter.prev(),
        |iter| iter.seek(key(7)),
        |iter| iter.seek_for_prev(key(7)),
        Cursor::seek_to_first,
        Cursor::seek_to_last,
    ];
    let fs = Arc::new(MemFs::new());
    let db = small_options(fs.clone()).open(DIR).unwrap();
    for number in 0..2000 {
        db.put(key(number), [2; 40]).unwrap();
    }
    let snapshot = db.snapshot();
    let mut iterators: Vec<Cursor> = moves
        .iter()
        .map(|_| {
            let mut iter = db.cursor(IterOptions::default()).unwrap();
            iter.seek(key(0)).unwrap();
            iter
        })
        .collect();
    let never_positioned = db.iter();
    db.close().unwrap();
    // The tables that they have yet to come to are gone.
    let after = small_options(fs).open(DIR).unwrap();
    after.compact_range(None, None).unwrap();
    let closed = |outcome: shamba::Result<()>| {
        assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    };
    for (iter, go) in iterators.iter_mut().zip(moves) {
        assert_eq!(iter.key(), key(0), "what it lent out stays");
        closed(go(iter));
        assert!(!iter.valid());
        closed(iter.seek_to_first());
    }
    let pairs: Vec<_> = never_positioned.collect();
    assert_eq!(pairs.len(), 1);
    closed(pairs.into_iter().next().unwrap().map(drop));
    closed(snapshot.get(key(0)).map(drop));
}
