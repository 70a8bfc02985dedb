//! Reads of operands while others write, flush and compact: no key is passed over, and every
//! reader sees whole batches.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Rng, small_keyspace, small_options};
use shamba::fs::MemFs;
use shamba::{
    Append, CompactionDecision, Db, Increment, IterOptions, MemoryBudget, MergeError,
    MergeOperator, Options, WriteBatch,
};

/// Appends; once, while operands are gathered, the memtable that they lie in is flushed.
#[derive(Clone, Default)]
struct FlushedMeanwhile(Arc<Mutex<Option<Db>>>);

impl MergeOperator for FlushedMeanwhile {
    fn name(&self) -> &str {
        "flushed meanwhile"
    }

    fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        Append.merge(key, base, operands)
    }

    fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let db = self.0.lock().unwrap().take();
        if let Some(db) = db {
            let flush = move || db.flush().unwrap();
            std::thread::spawn(flush).join().unwrap();
        }
        Some([older, newer].concat())
    }
}

#[test]
fn a_memtable_that_goes_among_operands_hides_no_key() {
    for backward in [false, true] {
        let hook = FlushedMeanwhile::default();
        let options = Options::new().fs(Arc::new(MemFs::new()));
        let options = options.memory(MemoryBudget::bytes(4 << 20));
        let options = options.background_threads(0);
        let options = options.merge_operator("default", hook.clone());
        let db = options.open("/db").unwrap();
        db.put("a", "A").unwrap();
        for _ in 0..50 {
            db.merge("b", "x").unwrap();
        }
        db.put("c", "C").unwrap();
        let mut cursor = db.cursor(IterOptions::default()).unwrap();
        if backward {
            cursor.seek_to_last().unwrap();
        } else {
            cursor.seek_to_first().unwrap();
        }
        *hook.0.lock().unwrap() = Some(db.clone());
        if backward {
            cursor.prev().unwrap();
        } else {
            cursor.next().unwrap();
        }
        assert!(hook.0.lock().unwrap().is_none(), "no flush");
        assert_eq!((cursor.key(), cursor.value().len()), (&b"b"[..], 50));
    }
}

/// What is too large to be merged leaves nothing that is written again and again.
#[test]
fn large_operands_over_deletions_are_compacted_once() {
    for threads in [0, 2] {
        let options = small_options(Arc::new(MemFs::new())).background_threads(threads);
        let db = options
            .merge_operator("default", Append)
            .open("/db")
            .unwrap();
        db.delete("key").unwrap();
        for _ in 0..3 {
            db.merge("key", vec![1; 65_500]).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        db.wait_for_compaction().unwrap();
        let compactions = db.stats().counters.compactions;
        assert!(compactions < 20, "{compactions}");
        assert!(db.contains_key("key").unwrap());
    }
}

const KEYS: usize = 20;

fn key(number: usize) -> String {
    format!("key{number:03}")
}

fn number(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().unwrap())
}

/// All counters by one way of reading, in the order of their keys.
fn counters(db: &Db, how: u64, rng: &mut Rng) -> Vec<i64> {
    let forward = || db.prefix("key").map(|entry| number(&entry.unwrap().1));
    match how {
        0 => vec![
            number(
                &db.get(key(rng.below(KEYS as u64) as usize))
                    .unwrap()
                    .unwrap()
            );
            KEYS
        ],
        1 => {
            let keys: Vec<String> = (0..KEYS).map(key).collect();
            let found = db.multi_get(&keys).unwrap();
            found
                .into_iter()
                .map(|value| number(&value.unwrap()))
                .collect()
        }
        2 => forward().collect(),
        3 => {
            let backward = db
                .prefix("key")
                .rev()
                .map(|entry| number(&entry.unwrap().1));
            let mut all: Vec<i64> = backward.collect();
            all.reverse();
            all
        }
        4 => {
            let snapshot = db.snapshot();
            let before = number(&snapshot.get(key(3)).unwrap().unwrap());
            std::thread::yield_now();
            let all: Vec<i64> = snapshot
                .prefix("key")
                .map(|entry| number(&entry.unwrap().1))
                .collect();
            assert_eq!(all[3], before);
            all
        }
        _ => {
            let mut cursor = db.cursor(IterOptions::prefix("key")).unwrap();
            cursor.seek_to_first().unwrap();
            let mut at = 0;
            let first = number(cursor.value());
            for _ in 0..40 {
                if rng.one_in(2) {
                    cursor.next().unwrap();
                    at += 1;
                } else {
                    cursor.prev().unwrap();
                    at -= 1;
                }
                match usize::try_from(at) {
                    Ok(at) if at < KEYS => {
                        assert_eq!(cursor.key(), key(at).as_bytes());
                        assert_eq!(number(cursor.value()), first);
                    }
                    _ => {
                        assert!(!cursor.valid());
                        break;
                    }
                }
            }
            vec![first; KEYS]
        }
    }
}

#[test]
fn readers_of_all_kinds_see_whole_batches() {
    let options = small_options(Arc::new(MemFs::new())).background_threads(2);
    let options = options
        .memory(MemoryBudget::bytes(2 << 20))
        .keyspace(small_keyspace());
    let keep = |_: &[u8], _: &[u8]| CompactionDecision::Keep;
    let options = options.compaction_filter("default", keep);
    let db = options
        .merge_operator("default", Increment)
        .open("/db")
        .unwrap();
    (0..KEYS).for_each(|at| db.put(key(at), 0i64.to_le_bytes()).unwrap());
    let (written, begun) = (AtomicI64::new(0), AtomicI64::new(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (db, written, begun, done) = (&db, &written, &begun, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(reader + 7);
                while !done.load(Ordering::SeqCst) {
                    let least = written.load(Ordering::SeqCst);
                    let how = rng.below(6);
                    let all = counters(db, how, &mut rng);
                    let most = begun.load(Ordering::SeqCst);
                    assert_eq!(all.len(), KEYS, "{how}");
                    for value in &all {
                        assert_eq!(*value, all[0], "{how}");
                        assert!((least..=most).contains(value), "{how}: {value}");
                    }
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(5);
        for count in 1.. {
            begun.store(count, Ordering::SeqCst);
            let mut batch = WriteBatch::new();
            for at in 0..KEYS {
                if (count as usize + at).is_multiple_of(97) {
                    batch.delete(key(at));
                    batch.put(key(at), (count - 1).to_le_bytes());
                }
                batch.merge(key(at), 1i64.to_le_bytes());
            }
            db.write(batch).unwrap();
            written.store(count, Ordering::SeqCst);
            if Instant::now() > end {
                break;
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(db.stats().memory.budget.overdraft, 0);
}

/// Gathering many operands takes about as long for each as gathering few, in a memtable and in a
/// table: nothing is copied for each of them again.
#[test]
fn many_operands_of_a_key_are_read() {
    for (combines, count) in [(false, 20_000u32), (true, 100_000)] {
        let options = Options::new().fs(Arc::new(MemFs::new()));
        let options = options.memory(MemoryBudget::bytes(64 << 20));
        let operator = crate::common::story::Story { combines };
        let db = options
            .merge_operator("default", operator)
            .open("/db")
            .unwrap();
        let held = db.snapshot();
        for part in 0..count {
            db.merge("key", part.to_le_bytes()).unwrap();
        }
        let expected = 1 + 4 * count as usize;
        for flushed in [false, true] {
            if flushed {
                db.flush().unwrap();
            }
            let read = |found: Option<shamba::Value>| found.unwrap().len();
            assert_eq!(read(db.get("key").unwrap()), expected);
            let (_, value) = db.iter().next().unwrap().unwrap();
            assert_eq!(value.len(), expected, "{combines} {flushed}");
        }
        drop(held);
    }
}
