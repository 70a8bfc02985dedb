//! Uses that a budget has no room for: each is refused with an error that says so, or gets slower;
//! the budget is not passed, and what was written can be opened under the budget it was written
//! with.

use std::sync::Arc;

use crate::common::small_options;
use shamba::fs::MemFs;
use shamba::{Db, Error, IterOptions, KeyspaceOptions, MemoryBudget, Options, Role, WriteBatch};

const DIR: &str = "/db";
const MIB: u64 = 1 << 20;

fn overdraft(budget: &MemoryBudget) -> u64 {
    budget.usage().budget.overdraft
}

fn used_by(budget: &MemoryBudget, role: Role) -> u64 {
    let by_role = budget.usage().budget.by_role;
    let found = by_role.into_iter().find(|(of, _)| *of == role);
    found.map_or(0, |(_, bytes)| bytes)
}

/// Merges make many tables of few, until no more can be known of. What was acknowledged opens again
/// under the same budget.
#[test]
fn tables_without_number_are_refused_before_the_database_cannot_be_opened() {
    for threads in [0, 1] {
        let fs = MemFs::new();
        let open = || {
            let budget = MemoryBudget::bytes(MIB);
            let options = Options::new()
                .fs(Arc::new(fs.clone()))
                .memory(budget.clone())
                .background_threads(threads)
                .keyspace(KeyspaceOptions::new().target_file(4 << 10));
            (budget, options.open(DIR).unwrap())
        };
        let key = |number: u32| format!("{:0200}", number * 7919 % 5000);
        let (budget, db) = open();
        let mut written = Vec::new();
        for number in 0..5000 {
            match db.put(key(number), [7; 1000]) {
                Ok(()) => written.push(number),
                Err(Error::Stalled { cause }) => {
                    assert!(matches!(*cause, Error::BudgetTooSmall { .. }), "{cause}");
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(written.len() > 1000, "{}", written.len());
        // Each may fail, and none makes it worse.
        let _ = db.flush();
        let _ = db.compact_range(None, None);
        assert_eq!(overdraft(&budget), 0);
        let _ = db.close();
        let (budget, db) = open();
        for number in written {
            assert!(db.get(key(number)).unwrap().is_some(), "{number}");
        }
        assert_eq!(overdraft(&budget), 0);
    }
}

#[test]
fn keyspaces_without_number_are_refused() {
    let fs = MemFs::new();
    let open = |limit| {
        let budget = MemoryBudget::bytes(limit);
        let options = small_options(Arc::new(fs.clone())).memory(budget.clone());
        (budget, options.open(DIR))
    };
    let (budget, db) = open(2 * MIB);
    let db = db.unwrap();
    let mut made = 0;
    let refused = loop {
        match db.create_keyspace(&format!("{made}"), KeyspaceOptions::default()) {
            Ok(keyspace) => keyspace.put("key", format!("{made}")).unwrap(),
            Err(error) => break error,
        }
        made += 1;
    };
    let Error::BudgetTooSmall { limit, needed } = refused else {
        panic!("{refused}");
    };
    assert!(limit == 2 * MIB && needed > limit && made > 200, "{made}");
    // Each is counted as far as there is memory, and read whether or not.
    let all = |db: &Db| {
        for number in 0..made {
            let keyspace = db.keyspace(&format!("{number}")).unwrap();
            let value = keyspace.get("key").unwrap().unwrap();
            assert_eq!(*value, *number.to_string().as_bytes());
        }
    };
    all(&db);
    assert_eq!(overdraft(&budget), 0);
    db.close().unwrap();
    let (budget, db) = open(2 * MIB);
    all(&db.unwrap());
    assert_eq!(overdraft(&budget), 0);
    let (_, db) = open(MIB);
    assert!(matches!(db, Err(Error::BudgetTooSmall { .. })));
}

#[test]
fn snapshots_without_number_keep_entries_and_no_memory() {
    let budget = MemoryBudget::bytes(MIB);
    let options = small_options(Arc::new(MemFs::new())).memory(budget.clone());
    let db = options.open(DIR).unwrap();
    let mut held = Vec::new();
    for number in 0..30_000u32 {
        db.put((number % 50).to_be_bytes(), number.to_be_bytes())
            .unwrap();
        held.push(db.snapshot());
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(overdraft(&budget), 0);
    let check = |number: usize| {
        for key in (0..50).take(number + 1) {
            let newest = (0..=number).rev().find(|at| at % 50 == key).unwrap();
            let value = held[number].get((key as u32).to_be_bytes()).unwrap();
            let value = value.expect("a snapshot lost its entry");
            assert_eq!(*value, (newest as u32).to_be_bytes(), "{number} {key}");
        }
    };
    (0..30_000).step_by(997).for_each(check);
    check(29_999);
    drop(held);
    // What nobody can see any more goes.
    db.compact_range(None, None).unwrap();
    let entries: u64 = db.stats().keyspaces[0]
        .levels
        .iter()
        .map(|level| level.entries)
        .sum();
    assert_eq!(entries, 50);
}

/// Databases that share a budget flush for each other.
#[test]
fn many_databases_under_one_budget_keep_within_it() {
    for threads in [0, 1] {
        let budget = MemoryBudget::bytes(2 * MIB);
        let databases: Vec<Db> = (0..16)
            .map(|number| {
                let options = Options::new()
                    .fs(Arc::new(MemFs::new()))
                    .memory(budget.clone())
                    .background_threads(threads);
                options.open(format!("/{number}")).unwrap()
            })
            .collect();
        for number in 0..20_000u32 {
            let db = &databases[number as usize * 7 % 16];
            db.put(number.to_be_bytes(), [7; 300]).unwrap();
        }
        assert_eq!(overdraft(&budget), 0, "{threads} threads");
        for number in (0..20_000u32).step_by(101) {
            let db = &databases[number as usize * 7 % 16];
            assert!(db.get(number.to_be_bytes()).unwrap().is_some());
        }
    }
}

#[test]
fn the_bounds_of_iterators_are_charged() {
    let budget = MemoryBudget::bytes(MIB);
    let options = small_options(Arc::new(MemFs::new())).memory(budget.clone());
    let db = options.open(DIR).unwrap();
    db.put("key", "value").unwrap();
    let bound = vec![b'z'; 30_000];
    let before = used_by(&budget, Role::Iterators);
    let iter = db.cursor(IterOptions::range(..bound.clone())).unwrap();
    assert!(used_by(&budget, Role::Iterators) >= before + 30_000);
    drop(iter);
    let many: Vec<_> = (0..100)
        .map_while(|_| db.cursor(IterOptions::range(..bound.clone())).ok())
        .collect();
    assert!(many.len() < 20, "{}", many.len());
    assert_eq!(overdraft(&budget), 0);
    let mut batch = WriteBatch::new();
    batch.put("other", "value");
    db.write(batch).unwrap();
}

#[test]
fn databases_without_number_are_refused() {
    let budget = MemoryBudget::bytes(MIB);
    let mut open = Vec::new();
    let refused = loop {
        let options = small_options(Arc::new(MemFs::new())).memory(budget.clone());
        match options.open(DIR) {
            Ok(db) => open.push(db),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::BudgetTooSmall { needed, .. } if needed > MIB));
    assert_eq!(open.len(), 32);
    open.pop().unwrap().close().unwrap();
    let again = small_options(Arc::new(MemFs::new())).memory(budget.clone());
    again.open(DIR).unwrap();
    for (number, db) in open.iter().enumerate() {
        db.put("key", format!("{number}")).unwrap();
    }
    assert_eq!(overdraft(&budget), 0);
}

/// Many threads that each look many keys up at once wait for each other, not for memory.
#[test]
fn batches_of_lookups_from_many_threads_have_a_share() {
    let budget = MemoryBudget::bytes(MIB);
    let options = small_options(Arc::new(MemFs::new())).memory(budget.clone());
    let db = options.open(DIR).unwrap();
    for number in 0..20_000u32 {
        db.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..32u32 {
            let (db, budget) = (&db, &budget);
            scope.spawn(move || {
                for round in 0..20 {
                    let key = |i: u32| (i * 611 + thread * 97 + round * 13) % 40_000;
                    let keys: Vec<_> = (0..300).map(|i| key(i).to_be_bytes()).collect();
                    let found = db.multi_get(&keys).unwrap();
                    for (i, value) in (0..300).zip(found) {
                        assert_eq!(value.is_some(), key(i) < 20_000);
                    }
                    // A window is 32 KiB, and the list of all keys 7 KiB; two windows go on at
                    // once.
                    let held = used_by(budget, Role::Iterators);
                    assert!(held <= 2 * (32 << 10) + 32 * (8 << 10), "{held}");
                }
            });
        }
    });
    assert_eq!(overdraft(&budget), 0);
    assert_eq!(used_by(&budget, Role::Iterators), 0);
}

/// Handles of keyspaces that were dropped take memory, and so do iterators over them, which keep
/// what they were: new keyspaces are refused in time, nothing is charged above the budget, and the
/// others are written as before.
#[test]
fn what_is_held_of_dropped_keyspaces_stays_within_the_budget() {
    for (limit, with_iterators) in [(1, false), (1, true), (16, false), (16, true)] {
        let memory = MemoryBudget::bytes(limit << 20);
        let options = Options::new().fs(Arc::new(MemFs::new()));
        let db = options.memory(memory.clone()).open("/db").unwrap();
        let (mut handles, mut iterators, mut refused) = (Vec::new(), Vec::new(), 0);
        for number in 0..limit * 2_000 {
            let name = format!("k{number}");
            let keyspace = match db.create_keyspace(&name, KeyspaceOptions::default()) {
                Ok(keyspace) => keyspace,
                Err(Error::BudgetTooSmall { .. }) => {
                    refused += 1;
                    break;
                }
                Err(error) => panic!("{error}"),
            };
            keyspace.put("a", "b").unwrap();
            if with_iterators {
                match keyspace.cursor(IterOptions::default()) {
                    Ok(iter) => iterators.push(iter),
                    Err(Error::IteratorsExhausted { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            } else {
                handles.push(keyspace);
            }
            db.drop_keyspace(&name).unwrap();
            if refused > 0 {
                break;
            }
        }
        assert!(refused > 0, "{limit} MiB");
        for number in 0..3_000u32 {
            db.put(number.to_be_bytes(), [1; 1_000]).unwrap();
        }
        db.flush().unwrap();
        let used = memory.usage().budget;
        assert_eq!(used.overdraft, 0, "{limit} MiB, {with_iterators}: {used:?}");
        drop((handles, iterators));
        db.create_keyspace("again", KeyspaceOptions::default())
            .unwrap();
        db.close().unwrap();
    }
}
