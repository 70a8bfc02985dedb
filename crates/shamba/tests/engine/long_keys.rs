//! Keys as long as the budget allows, which begin alike: what is known of them, and what tables,
//! merges and iterators hold of them, stays within the budget. What was written under a larger one
//! is refused with the budget that it needs, and lost nothing.

use std::sync::Arc;

use shamba::fs::MemFs;
use shamba::{Db, Error, IterOptions, KeyspaceOptions, MIN_MEMORY, MemoryBudget, Options, Result};

const DIR: &str = "/db";

fn options(fs: &MemFs, memory: &MemoryBudget) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(memory.clone())
        .background_threads(2)
}

/// The number of entries, forwards and backwards, in order.
fn scan(db: &Db) -> Result<[usize; 2]> {
    let mut counts = [0; 2];
    for (back, count) in [false, true].into_iter().zip(&mut counts) {
        let mut iter = db.cursor(IterOptions::default())?;
        let mut last: Option<Vec<u8>> = None;
        if back {
            iter.seek_to_last()?
        } else {
            iter.seek_to_first()?
        }
        while iter.valid() {
            let key = iter.key();
            assert!(last.is_none_or(|last| (*last < *key) != back));
            last = Some(key.to_vec());
            *count += 1;
            if back { iter.prev()? } else { iter.next()? }
        }
    }
    Ok(counts)
}

/// Writes, merges and reads `count` keys that differ in their last bytes only, under so many MiB.
#[track_caller]
fn all_stay_within(mib: u64, len: usize, value: usize, count: usize, target_file: u64) {
    let fs = MemFs::new();
    let memory = MemoryBudget::bytes(mib << 20);
    let keyspace = KeyspaceOptions::new().target_file(target_file);
    let db = options(&fs, &memory).keyspace(keyspace).open(DIR).unwrap();
    let beginning = "p".repeat(len - 8);
    let key = |number: usize| format!("{beginning}{number:08}");
    for number in 0..count {
        let number = number * 7919 % count;
        db.put(key(number), vec![number as u8; value]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let within = |when: &str| {
        let overdraft = memory.usage().budget.overdraft;
        assert_eq!(overdraft, 0, "{when}: {:?}", memory.usage().budget);
    };
    within("written");
    db.compact_range(None, None).unwrap();
    within("merged");
    assert_eq!(scan(&db).unwrap(), [count; 2]);
    within("scanned");
    for number in (0..count).step_by(17) {
        let found = db.get(key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&*vec![number as u8; value]));
        assert!(db.get(key(number) + "x").unwrap().is_none());
    }
    within("looked up");
    db.close().unwrap();
    let db = options(&fs, &memory).open(DIR).unwrap();
    assert_eq!(scan(&db).unwrap(), [count; 2]);
    within("read again");
}

/// Fails where tables keep each separator whole, or the tree many tables of few such keys.
#[test]
fn small_tables_of_keys_that_begin_alike_stay_within_the_budget() {
    all_stay_within(1, 8000, 100, 600, 4096);
    all_stay_within(16, 4000, 100, 4000, 4096);
}

#[test]
fn large_tables_of_keys_that_begin_alike_stay_within_the_budget() {
    let target_file = KeyspaceOptions::default().target_file;
    all_stay_within(1, 8000, 100, 600, target_file);
    all_stay_within(64, 65_500, 1000, 600, target_file);
}

/// A table of which each partition has a family of keys of its own, of which a partition's
/// separators share nothing with those of others.
#[test]
fn families_of_long_keys_stay_within_the_budget() {
    let fs = MemFs::new();
    let memory = MemoryBudget::bytes(4 << 20);
    let db = options(&fs, &memory).open(DIR).unwrap();
    let key = |number: usize| {
        let family = [b'a' + (number / 40) as u8].repeat(9000);
        [&*family, format!("{number:08}").as_bytes()].concat()
    };
    for number in 0..800 {
        db.put(key(number * 7919 % 800), b"value").unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert_eq!(scan(&db).unwrap(), [800; 2]);
    for number in 0..800 {
        assert!(db.get(key(number)).unwrap().is_some(), "{number}");
    }
    let summary = db.verify().unwrap();
    assert!(summary.is_sound(), "{summary:?}");
    assert_eq!(memory.usage().budget.overdraft, 0);
}

#[test]
fn a_key_may_take_a_64th_of_the_budget() {
    for (memory, longest) in [
        (MIN_MEMORY, 16 << 10),
        (2 << 20, 32 << 10),
        (4 << 20, 65_535),
        (64 << 20, 65_535),
    ] {
        let fs = MemFs::new();
        let memory = MemoryBudget::bytes(memory);
        let db = options(&fs, &memory).open(DIR).unwrap();
        let key = vec![b'k'; longest];
        db.put(&key, b"v").unwrap();
        db.flush().unwrap();
        assert!(db.get(&key).unwrap().is_some());
        let error = db.put(vec![b'k'; longest + 1], b"v").unwrap_err();
        assert!(
            matches!(
                error,
                Error::KeyTooLarge { len, max, .. } if len == longest + 1 && max == longest
            ),
            "{error:?}"
        );
        assert_eq!(memory.usage().budget.overdraft, 0);
    }
}

/// The limit that an error says will do.
#[track_caller]
fn needed<T: std::fmt::Debug>(result: Result<T>) -> u64 {
    match result {
        Err(Error::BudgetTooSmall { needed, .. }) => needed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn longer_keys_of_a_larger_budget_are_refused_with_the_budget_they_need() {
    let fs = MemFs::new();
    let large = MemoryBudget::bytes(64 << 20);
    let small = MemoryBudget::bytes(MIN_MEMORY);
    let long = [vec![b'k'; 40_000], b"1".to_vec()].concat();
    let enough = 64 * long.len() as u64;
    // In the log.
    let db = options(&fs, &large).open(DIR).unwrap();
    db.put(&long, b"1").unwrap();
    db.put(b"a", b"2").unwrap();
    db.put(b"z", b"2").unwrap();
    db.close().unwrap();
    let opened = options(&fs, &small).open(DIR);
    if let Ok(db) = opened {
        // Closing may have flushed it.
        assert_eq!(needed(db.get(&long)), enough);
        drop(db);
    } else {
        assert_eq!(needed(opened.map(drop)), enough);
    }
    // In a table, between short ones, so that the table must say so.
    let db = options(&fs, &large).open(DIR).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = options(&fs, &small).open(DIR).unwrap();
    assert_eq!(needed(db.get(&long)), enough);
    assert_eq!(needed(scan(&db)), enough);
    assert_eq!(small.usage().budget.overdraft, 0);
    small.set_limit(enough).unwrap();
    assert_eq!(db.get(&long).unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(scan(&db).unwrap(), [3; 2]);
}
