//! Entries that the cache has by themselves: they save the reads of hot keys, and nobody ever reads
//! from them what is not the newest.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Rng, scattered_key as key};
use shamba::{Db, Eviction, Keyspace, Value, WriteBatch};

/// Filters and data of so many take several times the least budget.
const KEYS: u64 = 400_000;
const HOT: u64 = 200;

/// Even numbers have keys; the hot ones are scattered.
fn hot(number: u64) -> [u8; 16] {
    key(2 * (number * 1_999 % KEYS))
}

/// A key that is asked for as often and is not there.
fn missing(number: u64) -> [u8; 16] {
    key(2 * (number * 1_997 % KEYS) + 1)
}

fn opened(eviction: Eviction) -> Db {
    crate::common::scarce_run(KEYS, |options| options.eviction(eviction))
}

/// Lookups, every other one of a hot key; checks answers by `check`.
fn look_up(db: &Db, rng: &mut Rng, lookups: u32, check: impl Fn(u64, Option<Value>)) {
    for _ in 0..lookups {
        let number = rng.below(HOT);
        check(number, db.get(hot(number)).unwrap());
        db.get(key(2 * rng.below(KEYS))).unwrap();
        db.get(missing(number)).unwrap();
    }
}

/// The same until most hot keys are entries.
fn warm(db: &Db) {
    look_up(db, &mut Rng::new(1), 40_000, |_, value| {
        assert!(value.is_some());
    });
    let entries = db.stats().memory.cache.entries();
    assert!(entries.blocks > HOT / 2, "{entries:?}");
}

fn hits(db: &Db) -> u64 {
    db.stats().memory.cache.entries().hits
}

#[test]
fn entries_save_the_reads_of_hot_keys() {
    let pages = |eviction| {
        let db = opened(eviction);
        let read = |lookups| {
            look_up(&db, &mut Rng::new(1), lookups, |_, value| {
                assert!(value.is_some());
            });
            let counters = db.stats().counters;
            // Once for what the cache has of it and for all tables.
            assert!(counters.keys_hashed <= counters.lookups, "{counters:?}");
            counters.data_pages + counters.index_pages + counters.filter_pages
        };
        let (before, after) = (read(40_000), read(20_000));
        let stats = db.stats().memory;
        assert_eq!(stats.budget.overdraft, 0);
        ((after - before) as f64 / 20_000.0, stats.cache.entries())
    };
    // 1.5 of which about 1 is for the cold key.
    let (own, entries) = pages(Eviction::ExpectedReads);
    assert!(entries.hits > 20_000, "{entries:?}");
    let (lru, none) = pages(Eviction::TwoPriorityLru);
    assert_eq!((none.hits, none.inserts), (0, 0));
    assert!(own < 0.7 * lru, "{own} {lru}");
}

#[test]
fn what_is_written_is_what_is_read() {
    let db = opened(Eviction::ExpectedReads);
    warm(&db);
    let before: Vec<_> = (0..HOT).map(|n| db.get(hot(n)).unwrap()).collect();
    let snapshot = db.snapshot();
    // A third is written, a third deleted; of the missing a third comes.
    let mut batch = WriteBatch::new();
    for number in 0..HOT {
        match number % 3 {
            0 => batch.put(hot(number), format!("new {number}")),
            1 => batch.delete(hot(number)),
            _ => batch.put(missing(number), "came"),
        };
    }
    db.write(batch).unwrap();
    let check = |db: &Db| {
        let keys: Vec<_> = (0..HOT).map(hot).collect();
        let together = db.multi_get(&keys).unwrap();
        for number in 0..HOT {
            let old = &before[number as usize];
            let want = match number % 3 {
                0 => Some(format!("new {number}").into_bytes()),
                1 => None,
                _ => old.as_deref().map(<[u8]>::to_vec),
            };
            let got = db.get(hot(number)).unwrap();
            assert_eq!(got.as_deref(), want.as_deref(), "{number}");
            assert_eq!(together[number as usize], got, "{number}");
            assert_eq!(db.contains_key(hot(number)).unwrap(), want.is_some());
            let came = db.get(missing(number)).unwrap();
            assert_eq!(came.is_some(), number % 3 == 2, "{number}");
            // A snapshot of before reads past all of it.
            assert_eq!(snapshot.get(hot(number)).unwrap(), *old, "{number}");
            assert!(snapshot.get(missing(number)).unwrap().is_none());
        }
    };
    check(&db);
    db.flush().unwrap();
    let hits_before = hits(&db);
    check(&db);
    // What was in memory is up to date there, and need not be read again.
    assert!(hits(&db) > hits_before + HOT, "{}", hits(&db) - hits_before);
    db.compact_range(None, None).unwrap();
    check(&db);
}

#[test]
fn a_keyspace_that_is_emptied_or_dropped_leaves_nothing() {
    let db = opened(Eviction::ExpectedReads);
    let fill = |keyspace: &Keyspace, value: &str| {
        for number in 0..HOT {
            keyspace.put(hot(number), value).unwrap();
        }
        db.flush().unwrap();
    };
    let ask = |keyspace: &Keyspace, want: Option<&str>| {
        let mut rng = Rng::new(3);
        for _ in 0..10_000 {
            let number = rng.below(HOT);
            let got = keyspace.get(hot(number)).unwrap();
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{number}");
            db.get(key(2 * rng.below(KEYS))).unwrap();
        }
    };
    warm(&db);
    let other = db.open_keyspace("other", Default::default()).unwrap();
    fill(&other, "first");
    let before = hits(&db);
    ask(&other, Some("first"));
    assert!(hits(&db) > before + 1000);
    other.clear().unwrap();
    ask(&other, None);
    fill(&other, "second");
    ask(&other, Some("second"));
    drop(other);
    db.drop_keyspace("other").unwrap();
    let other = db.open_keyspace("other", Default::default()).unwrap();
    ask(&other, None);
    fill(&other, "third");
    ask(&other, Some("third"));
    // Keys of the same bytes are in the other keyspace with other values.
    look_up(&db, &mut Rng::new(4), 1000, |_, value| {
        assert_ne!(value.as_deref(), Some(&b"third"[..]));
    });
    let entries = db.stats().memory.cache.entries().blocks;
    db.close().unwrap();
    assert!(entries > 0);
}

/// Who reads many keys at one point sees all of them as of one write, and no older one later.
#[test]
fn readers_beside_flushes_see_writes_whole_and_in_order() {
    const TOGETHER: u64 = 16;
    const WRITES: u64 = 400;
    let db = opened(Eviction::ExpectedReads);
    warm(&db);
    let write = |value: u64| {
        let mut batch = WriteBatch::new();
        for number in 0..TOGETHER {
            batch.put(hot(number), value.to_be_bytes());
        }
        db.write(batch).unwrap();
    };
    write(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers = [5, 6].map(|seed| {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                let keys: Vec<_> = (0..TOGETHER).map(hot).collect();
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = rng.one_in(4).then(|| db.snapshot());
                    let seen: Vec<u64> = match &snapshot {
                        None => {
                            let values = db.multi_get(&keys).unwrap();
                            values.into_iter().map(number_of).collect()
                        }
                        Some(snapshot) => {
                            let get = |key| number_of(snapshot.get(key).unwrap());
                            keys.iter().map(get).collect()
                        }
                    };
                    assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?}");
                    assert!(seen[0] >= last, "{} after {last}", seen[0]);
                    last = seen[0];
                    let one = number_of(db.get(keys[rng.below(TOGETHER) as usize]).unwrap());
                    assert!(one >= last, "{one} after {last}");
                    last = one;
                    db.get(key(2 * rng.below(KEYS))).unwrap();
                }
            })
        });
        let mut rng = Rng::new(7);
        for value in 1..=WRITES {
            write(value);
            if rng.one_in(2) {
                db.flush().unwrap();
            }
            if rng.one_in(50) {
                db.compact_range(None, None).unwrap();
            }
            look_up(&db, &mut rng, 20, |_, _| {});
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert!(hits(&db) > 0);
}

fn number_of(value: Option<Value>) -> u64 {
    let bytes = value.unwrap().as_ref().try_into().unwrap();
    u64::from_be_bytes(bytes)
}
