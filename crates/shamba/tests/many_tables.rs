//! Databases of very many tables: what the manifest says of each is inside the memory budget.

use std::sync::Arc;

use shamba::fs::MemFs;
use shamba::{Db, Error, IterOptions, KeyspaceOptions, MemoryBudget, Options, Role};

const TABLES: u64 = 20_000;

/// Two of these make a table.
const PER_TABLE: u64 = 2;

fn key(number: u64) -> [u8; 64] {
    let mut key = [b'k'; 64];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u64) -> Vec<u8> {
    let mut state = number + 1;
    (0..2050)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

fn options(fs: &MemFs, memory: u64) -> Options {
    let keyspace = KeyspaceOptions {
        target_file: 4 << 10,
        ..KeyspaceOptions::default()
    };
    Options::new()
        .fs(Arc::new(fs.clone()))
        .background_threads(0)
        .memory(MemoryBudget::bytes(memory))
        .keyspace(keyspace)
}

fn used_by(db: &Db, role: Role) -> u64 {
    let stats = db.stats().memory.budget;
    let of_role = stats.by_role.iter().find(|(of, _)| *of == role);
    of_role.map_or(0, |(_, bytes)| *bytes)
}

fn within_budget(db: &Db) {
    let stats = db.stats().memory.budget;
    assert_eq!(stats.overdraft, 0, "{stats:?}");
}

/// What an open says it needs, which must be more than `memory`.
fn needed(fs: &MemFs, memory: u64) -> u64 {
    match options(fs, memory).open("/db") {
        Err(Error::BudgetTooSmall { limit, needed }) => {
            assert_eq!(limit, memory);
            assert!(needed > memory, "{needed} of {memory}");
            needed
        }
        other => panic!("{other:?}"),
    }
}

/// Fails where what is known of tables is not counted, or an open takes it whatever the budget.
#[test]
fn tables_by_the_thousand_are_known_within_the_budget() {
    let fs = MemFs::new();
    let db = options(&fs, 64 << 20).open("/db").unwrap();
    // In an order that is not the keys': flushes overlap, and are merged into tables of the size asked for.
    for number in (0..TABLES * PER_TABLE).map(|i| i * 7919 % (TABLES * PER_TABLE)) {
        db.put(key(number), value(number)).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let levels = &db.stats().keyspaces[0].levels;
    let tables: u64 = levels.iter().map(|level| level.files as u64).sum();
    assert!(tables >= TABLES, "{tables} tables");
    let known = used_by(&db, Role::Files);
    println!(
        "{tables} tables, {known} bytes charged: {} each",
        known / tables
    );
    assert!(
        known >= tables * (2 * 64 + 40) && known <= tables * 240,
        "{known}"
    );
    within_budget(&db);
    db.close().unwrap();

    let least = needed(&fs, 2 << 20);
    assert_eq!(needed(&fs, least - 8), least, "the same whatever was asked");
    let db = options(&fs, least).open("/db").unwrap();
    assert_eq!(used_by(&db, Role::Files), known);
    let numbers = (0..3000).map(|i| i * 7919 % (TABLES * PER_TABLE));
    for number in numbers {
        assert_eq!(
            db.get(key(number)).unwrap().as_deref(),
            Some(&*value(number))
        );
    }
    let mut iter = db.iter(IterOptions::default()).unwrap();
    iter.seek(key(777)).unwrap();
    for number in 777..2000 {
        assert_eq!(
            (iter.key(), iter.value()),
            (&key(number)[..], &*value(number))
        );
        iter.next().unwrap();
    }
    within_budget(&db);
}
