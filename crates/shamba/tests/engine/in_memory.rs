//! Lookups while memory is plenty: what they cost, counted, and that what they hold on to gives
//! way.

use std::sync::atomic::{AtomicBool, Ordering};

use shamba::fs::MemFs;
use shamba::{Db, Eviction, KeyspaceOptions, MIN_MEMORY, MemoryBudget, Options, Role};

const KEYS: u64 = 60_000;

const PLENTY: u64 = 64 << 20;

/// Even numbers are there, odd ones are not.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u64) -> [u8; 24] {
    [number as u8; 24]
}

/// A database of three levels, and its memory.
fn filled(eviction: Eviction) -> (Db, MemoryBudget) {
    let memory = MemoryBudget::bytes(PLENTY);
    let db = Options::new()
        .fs(std::sync::Arc::new(MemFs::new()))
        .memory(memory.clone())
        .eviction(eviction)
        .background_threads(0)
        .keyspace(
            KeyspaceOptions::new()
                .write_buffer(64 << 10)
                .target_file(256 << 10)
                .size_ratio(4),
        )
        .open("/db")
        .unwrap();
    for i in 0..KEYS {
        // The order of insertion is not that of the keys.
        let number = i * 7919 % KEYS * 2;
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    (db, memory)
}

fn look_up(db: &Db, number: u64) {
    let found = db.get(key(number)).unwrap();
    let want = number.is_multiple_of(2).then(|| value(number));
    assert_eq!(found.as_deref(), want.as_ref().map(|v| &v[..]), "{number}");
}

/// Reads everything, and then often enough that what is in memory is held on to.
fn warm(db: &Db) {
    for round in 0..4 {
        (0..2 * KEYS).for_each(|i| look_up(db, (i * 5 + round) % (2 * KEYS)));
    }
}

/// Times that lookups asked the block cache, took one of its locks and counted a reference.
fn cache_lookups(memory: &MemoryBudget) -> u64 {
    memory.usage().cache.total().hits
}

#[test]
fn a_lookup_in_memory_asks_the_cache_for_its_data_page_only() {
    let (db, memory) = filled(Eviction::ExpectedReads);
    warm(&db);
    for existing in [false, true] {
        let before = (db.stats().counters, cache_lookups(&memory));
        for i in 0..KEYS {
            look_up(&db, i * 2 + u64::from(!existing));
        }
        let counters = db.stats().counters;
        let asked = cache_lookups(&memory) - before.1;
        let since = |of: fn(&shamba::Counters) -> u64| of(&counters) - of(&before.0);
        // A page is asked for where the key is, or a filter let it pass in vain; and a block or two
        // may be held by no table yet.
        let pages = since(|c| c.lookups_found) + since(|c| c.false_positives);
        assert!(
            asked >= pages && asked - pages < KEYS / 1000,
            "{asked} for {pages} pages"
        );
        assert_eq!(since(|c| c.lookups_found), KEYS * u64::from(existing));
        // They are counted as found in memory all the same, as are the filters asked; a few keys
        // lie between the tables of all levels and are not hashed.
        let tables = since(|c| c.tables_probed);
        assert!(tables > KEYS && since(|c| c.cache_hits) >= tables + asked / 2);
        assert!(since(|c| c.keys_hashed) <= KEYS);
        let reads = since(|c| c.data_reads + c.index_reads + c.filter_reads);
        assert!(reads < KEYS / 1000, "{reads}");
        // The third module of the last level is in memory too: two let one in 256 pass.
        let in_vain = since(|c| c.false_positives);
        assert!(in_vain < tables / 1000, "{in_vain} of {tables}");
    }
    // Where recency decides, every use must be told.
    let (db, memory) = filled(Eviction::TwoPriorityLru);
    warm(&db);
    let before = (db.stats().counters, cache_lookups(&memory));
    (0..KEYS).for_each(|i| look_up(&db, i * 2 + 1));
    let counters = db.stats().counters;
    let asked = cache_lookups(&memory) - before.1;
    assert!(asked >= counters.tables_probed - before.0.tables_probed);
    assert_eq!(asked, counters.cache_hits - before.0.cache_hits);
}

#[test]
fn what_is_held_on_to_gives_way_at_once() {
    let (db, memory) = filled(Eviction::ExpectedReads);
    warm(&db);
    let held = memory.usage();
    let small = MIN_MEMORY;
    assert!(held.budget.used > 2 * small);
    memory.set_limit(small).unwrap();
    let used = memory.usage().budget.used;
    assert!(used <= small, "{used} of {small}");
    (0..KEYS).for_each(|i| look_up(&db, i * 3 % (2 * KEYS)));
    let used = memory.usage().budget.used;
    assert!(used <= small, "{used} of {small}");
    // And comes back.
    memory.set_limit(PLENTY).unwrap();
    for _ in 0..8 {
        warm(&db);
    }
    let before = cache_lookups(&memory);
    (0..KEYS).for_each(|i| look_up(&db, i * 2 + 1));
    let asked = cache_lookups(&memory) - before;
    assert!(asked < KEYS / 10, "{asked}");
}

#[test]
fn answers_stay_while_memory_comes_and_goes_and_the_tree_changes() {
    let (db, memory) = filled(Eviction::ExpectedReads);
    warm(&db);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut number = thread;
                while !done.load(Ordering::Relaxed) {
                    number = (number * 5 + 7) % (2 * KEYS);
                    look_up(db, number);
                }
            });
        }
        for round in 0..30u64 {
            let limit = if round.is_multiple_of(2) {
                MIN_MEMORY
            } else {
                PLENTY
            };
            memory.set_limit(limit).unwrap();
            for i in 0..500 {
                let number = (round * 500 + i) * 7919 % KEYS * 2;
                db.put(key(number), value(number)).unwrap();
            }
            if round % 3 == 2 {
                db.flush().unwrap();
            }
            for i in 0..2000 {
                look_up(&db, (round + i * 11) % (2 * KEYS));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    memory.set_limit(PLENTY).unwrap();
    db.compact_range(None, None).unwrap();
    warm(&db);
    db.close().unwrap();
    // Nothing is held on to by what is gone: the cache is empty.
    assert_eq!(memory.usage().cache.total().bytes, 0);
    // As many read buffers are kept as threads happened to read with at once, and some free pages
    // for the next blocks; beside them there are the cache's counters of accesses.
    let usage = memory.usage().budget;
    let held = usage
        .by_role
        .iter()
        .filter(|(role, _)| !matches!(role, Role::IoBuffers | Role::Spare));
    let held: u64 = held.map(|(_, bytes)| bytes).sum();
    assert!(held < 16 << 10, "{usage:?}");
    assert!(usage.used - held <= PLENTY / 64, "{usage:?}");
}
