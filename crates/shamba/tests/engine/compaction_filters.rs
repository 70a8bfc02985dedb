//! Compaction filters: what they decide is seen wherever an entry lies, by whoever begins to read
//! later, and by no snapshot, iterator or transaction that is open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Replay, Rng};
use parking_lot::Mutex;
use shamba::fs::MemFs;
use shamba::{
    CompactionDecision, CompactionFilter, Db, Error, KeyspaceOptions, ManualClock, MemoryBudget,
    Options, Snapshot, WriteOptions,
};

fn options(fs: &MemFs) -> Options {
    let options = Options::new().fs(Arc::new(fs.clone()));
    let options = options.memory(MemoryBudget::bytes(4 << 20));
    options.background_threads(0)
}

/// Drops values that say so, and makes others short.
fn by_value(_key: &[u8], value: &[u8]) -> CompactionDecision {
    match value {
        b"drop" => CompactionDecision::Remove,
        [b'l', b'o', b'n', b'g', rest @ ..] => CompactionDecision::Change(rest.to_vec()),
        _ => CompactionDecision::Keep,
    }
}

fn open_with(fs: &MemFs, filter: impl CompactionFilter + 'static) -> Db {
    let options = options(fs).compaction_filter("default", filter);
    options.open("/db").unwrap()
}

fn text(value: &[u8]) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

fn get(db: &Db, key: &str) -> Option<String> {
    let found = db.get(key).unwrap().map(|value| text(&value));
    assert_eq!(db.contains_key(key).unwrap(), found.is_some());
    found
}

fn all(db: &Db) -> Vec<(String, String)> {
    let entries = db.iter().map(|entry| entry.unwrap());
    entries
        .map(|(key, value)| (text(&key), text(&value)))
        .collect()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn entries_are_removed_changed_and_kept() {
    let fs = MemFs::new();
    let db = open_with(&fs, by_value);
    // What is older below what is removed stays gone, whatever level it lies in.
    db.put("a", "below").unwrap();
    db.put("c", "below").unwrap();
    db.compact_range(None, None).unwrap();
    for (key, value) in [("a", "drop"), ("b", "longer"), ("c", "keep"), ("d", "drop")] {
        db.put(key, value).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(
        get(&db, "a").as_deref(),
        Some("drop"),
        "flushes ask about none"
    );
    db.compact_range(None, None).unwrap();
    let left = vec![pair("b", "er"), pair("c", "keep")];
    assert_eq!(all(&db), left);
    assert_eq!(
        (get(&db, "a"), get(&db, "b").as_deref()),
        (None, Some("er"))
    );
    let counters = db.stats().counters;
    let counted = (
        counters.entries_removed_by_filter,
        counters.entries_changed_by_filter,
    );
    assert_eq!(counted, (2, 1));
    db.verify().unwrap().check().unwrap();
    db.close().unwrap();
    // Not kept: without it nothing is asked.
    let db = options(&fs).open("/db").unwrap();
    db.put("e", "drop").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(
        db.stats().keyspaces[0]
            .levels
            .iter()
            .map(|level| level.entries)
            .sum::<u64>(),
        3
    );
    assert_eq!(get(&db, "e").as_deref(), Some("drop"));
}

#[test]
fn compacting_a_range_asks_about_what_is_at_the_bottom_already_and_once() {
    let fs = MemFs::new();
    let db = options(&fs).open("/db").unwrap();
    for number in 0..2000 {
        let value = if number % 2 == 0 { "drop" } else { "keep" };
        db.put(format!("{number:04}"), value).unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let counting = {
        let asked = asked.clone();
        move |key: &[u8], value: &[u8]| {
            asked.fetch_add(1, Ordering::SeqCst);
            by_value(key, value)
        }
    };
    let db = open_with(&fs, counting);
    db.compact_range(None, None).unwrap();
    assert_eq!((all(&db).len(), asked.load(Ordering::SeqCst)), (1000, 2000));
}

#[test]
fn each_keyspace_has_its_own() {
    let fs = MemFs::new();
    let all_of_it = |_: &[u8], _: &[u8]| CompactionDecision::Remove;
    let options = options(&fs).compaction_filter("sessions", all_of_it);
    let db = options.open("/db").unwrap();
    let sessions = db
        .create_keyspace("sessions", KeyspaceOptions::default())
        .unwrap();
    db.put("key", "value").unwrap();
    sessions.put("key", "value").unwrap();
    db.compact_range(None, None).unwrap();
    sessions.compact_range(None, None).unwrap();
    assert_eq!(get(&db, "key").as_deref(), Some("value"));
    assert_eq!(sessions.get("key").unwrap(), None);
}

#[test]
fn what_a_snapshot_iterator_or_transaction_may_see_is_not_asked_about() {
    let fs = MemFs::new();
    let db = open_with(&fs, by_value);
    db.put("a", "drop").unwrap();
    db.flush().unwrap();
    let (snapshot, mut iter) = (db.snapshot(), db.iter());
    let transaction = db.transaction();
    db.put("b", "drop").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(all(&db), [pair("a", "drop")]);
    assert_eq!(snapshot.get("a").unwrap().as_deref(), Some(&b"drop"[..]));
    assert_eq!(transaction.get("a").unwrap().as_deref(), Some(&b"drop"[..]));
    assert!(iter.next().is_some());
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    assert_eq!(get(&db, "a").as_deref(), Some("drop"));
    drop((iter, transaction));
    db.compact_range(None, None).unwrap();
    assert_eq!(all(&db), []);
}

/// The merge that had removed it is done again without the filter.
#[test]
fn a_snapshot_taken_while_a_merge_goes_on_sees_the_same_before_and_after() {
    let fs = MemFs::new();
    let database: Arc<Mutex<Option<Db>>> = Arc::default();
    let taken: Arc<Mutex<Option<Snapshot>>> = Arc::default();
    let armed = Arc::new(AtomicBool::new(false));
    let filter = {
        let (database, taken, armed) = (database.clone(), taken.clone(), armed.clone());
        move |key: &[u8], value: &[u8]| {
            if armed.swap(false, Ordering::SeqCst) {
                let snapshot = database.lock().as_ref().map(Db::snapshot);
                *taken.lock() = snapshot;
            }
            by_value(key, value)
        }
    };
    let db = open_with(&fs, filter);
    *database.lock() = Some(db.clone());
    for key in ["a", "b", "c"] {
        db.put(key, "drop").unwrap();
    }
    armed.store(true, Ordering::SeqCst);
    db.compact_range(None, None).unwrap();
    let snapshot = taken.lock().take().expect("it was asked");
    assert_eq!(snapshot.iter().count(), 3);
    assert_eq!(all(&db).len(), 3, "not even half of it");
    assert_eq!(db.stats().counters.entries_removed_by_filter, 0);
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    assert_eq!(all(&db), []);
    db.verify().unwrap().check().unwrap();
    // What the refused merge wrote is gone.
    let levels = &db.stats().keyspaces[0].levels;
    let tables: usize = levels.iter().map(|level| level.files).sum();
    let files = crate::common::files_ending(&fs, "/db", ".sst");
    assert_eq!(files.len(), tables);
    *database.lock() = None;
}

#[test]
fn a_filter_that_panics_or_makes_too_much_changes_nothing() {
    for too_long in [false, true] {
        let fs = MemFs::new();
        let bad = Arc::new(AtomicBool::new(true));
        let filter = {
            let bad = bad.clone();
            move |key: &[u8], value: &[u8]| {
                if key == b"c" && bad.load(Ordering::SeqCst) {
                    assert!(too_long, "a filter's own panic");
                    return CompactionDecision::Change(vec![0; 1 << 20]);
                }
                by_value(key, value)
            }
        };
        let db = open_with(&fs, filter);
        for key in ["a", "b", "c"] {
            db.put(key, "drop").unwrap();
        }
        let error = db.compact_range(None, None).unwrap_err();
        match error {
            Error::CompactionFilterPanicked { keyspace, key } => {
                assert!(!too_long && keyspace == "default" && key == b"c");
            }
            Error::ValueTooLarge { len, needed, .. } => {
                assert!(
                    too_long && len == 1 << 20 && needed == Some(16 << 20),
                    "{needed:?}"
                );
            }
            error => panic!("{error}"),
        }
        assert_eq!(all(&db).len(), 3);
        db.put("d", "goes on").unwrap();
        db.verify().unwrap().check().unwrap();
        bad.store(false, Ordering::SeqCst);
        db.compact_range(None, None).unwrap();
        assert_eq!(all(&db), [pair("d", "goes on")]);
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    }
}

#[test]
fn a_changed_entry_keeps_its_time() {
    let (fs, clock) = (MemFs::new(), ManualClock::new());
    let options = options(&fs).clock(Arc::new(clock.clone()));
    let db = options
        .compaction_filter("default", by_value)
        .open("/db")
        .unwrap();
    let minute = WriteOptions::new().ttl(Duration::from_secs(60));
    db.put_with("a", "long life", minute).unwrap();
    db.put_with("b", "drop", minute).unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(all(&db), [pair("a", " life")]);
    clock.advance(Duration::from_secs(61));
    assert_eq!(all(&db), []);
}

/// What the cache has by itself of a key goes with what a filter decides about it.
#[test]
fn hot_keys_are_seen_as_the_filter_leaves_them() {
    let fs = MemFs::new();
    let on = Arc::new(AtomicBool::new(false));
    let filter = {
        let on = on.clone();
        move |_: &[u8], value: &[u8]| match (on.load(Ordering::SeqCst), value.first()) {
            (true, Some(0)) => CompactionDecision::Remove,
            (true, Some(1)) => CompactionDecision::Change(vec![9; 5]),
            _ => CompactionDecision::Keep,
        }
    };
    let options = options(&fs).memory(MemoryBudget::bytes(1 << 20));
    let db = options
        .compaction_filter("default", filter)
        .open("/db")
        .unwrap();
    let key = |number: u32| format!("{:06}", number * 7919 % 30_000);
    for number in 0..30_000u32 {
        db.put(key(number), vec![(number % 3) as u8; 100]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    for round in 0..60_000u32 {
        let number = round * 31 % 300 * 97;
        let value = db.get(key(number)).unwrap().unwrap();
        assert_eq!(value[0], (number % 3) as u8);
    }
    assert!(db.stats().counters.entry_hits > 1000, "none by itself");
    on.store(true, Ordering::SeqCst);
    db.compact_range(None, None).unwrap();
    for round in 0..900u32 {
        let number = round * 31 % 300 * 97;
        let value = db.get(key(number)).unwrap();
        let expected = match number % 3 {
            0 => None,
            1 => Some(vec![9; 5]),
            _ => Some(vec![2; 100]),
        };
        assert_eq!(value.map(|value| value.into_vec()), expected, "{number}");
    }
}

/// Threads that write, read at snapshots again and again, and compact: nothing a snapshot sees ever
/// changes, and what is there is what was written or what the filter makes of it.
#[test]
fn snapshots_repeat_their_reads_while_filters_work() {
    let seed = 36;
    let _replay = Replay(format!("seed {seed}"));
    let fs = MemFs::new();
    let options = options(&fs).background_threads(2);
    let options = options.keyspace(KeyspaceOptions::new().write_buffer(32 << 10));
    let db = options
        .compaction_filter("default", by_value)
        .open("/db")
        .unwrap();
    let values = ["drop", "keep", "longest"];
    let key = |number: u64| format!("{number:03}");
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let db = db.clone();
            scope.spawn(move || {
                let mut rng = Rng::new(seed + thread);
                for step in 0..1500 {
                    let number = rng.below(300);
                    match rng.below(20) {
                        0 => {
                            let snapshot = db.snapshot();
                            let read = |_| -> BTreeMap<_, _> {
                                let entries = snapshot.iter().map(|entry| entry.unwrap());
                                entries.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
                            };
                            let [first, again] = [0, 1].map(|look| {
                                let seen = read(look);
                                std::thread::yield_now();
                                seen
                            });
                            assert_eq!(first, again, "seed {seed}");
                        }
                        1 if step % 8 == 0 => db.compact_range(None, None).unwrap(),
                        2 => db.delete(key(number)).unwrap(),
                        _ => db.put(key(number), values[rng.below(3) as usize]).unwrap(),
                    }
                }
            });
        }
    });
    db.wait_for_compaction().unwrap();
    db.compact_range(None, None).unwrap();
    for (_, value) in all(&db) {
        assert!(value == "keep" || value == "est", "{value}");
    }
    let counters = db.stats().counters;
    assert!(counters.entries_removed_by_filter > 0 && counters.entries_changed_by_filter > 0);
    assert_eq!(db.stats().memory.budget.overdraft, 0);
    db.verify().unwrap().check().unwrap();
}
