//! What a scan of data in memory allocates, counted: a little for each run when it begins, nothing
//! for an entry.

#[path = "common/allocations.rs"]
mod counting;

use std::sync::Arc;

use shamba::fs::MemFs;
use shamba::{Cursor, Db, IterOptions, KeyspaceOptions, MemoryBudget, Options};

const KEYS: u64 = 30_000;
const RUNS: u64 = 3;

/// How often this thread allocates meanwhile.
fn allocations<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = counting::allocations();
    let done = work();
    (counting::allocations() - before, done)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Runs of one file, each with every third key.
fn filled() -> Db {
    let db = Options::new()
        .fs(Arc::new(MemFs::new()))
        .memory(MemoryBudget::bytes(256 << 20))
        .background_threads(0)
        .keyspace(
            KeyspaceOptions::new()
                .write_buffer(16 << 20)
                .target_file(64 << 20)
                .level0_runs(2 * RUNS as u32),
        )
        .open("/db")
        .unwrap();
    for run in 0..RUNS {
        for number in (run..KEYS).step_by(RUNS as usize) {
            db.put(key(number), [run as u8; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    let levels = &db.stats().keyspaces[0].levels;
    assert_eq!(
        levels.iter().map(|level| level.files).sum::<usize>(),
        RUNS as usize
    );
    db
}

fn walk(iter: &mut Cursor, from: u64, entries: u64) {
    iter.seek(key(from)).unwrap();
    for number in from..from + entries {
        assert_eq!(iter.key(), key(number));
        assert_eq!(iter.value(), [(number % RUNS) as u8; 100]);
        iter.next().unwrap();
    }
}

#[test]
fn a_scan_allocates_for_its_runs_and_for_no_entry() {
    let db = filled();
    // A walk brings data into memory, seeks bring indexes.
    let mut iter = db.cursor(IterOptions::default()).unwrap();
    walk(&mut iter, 0, KEYS);
    (0..KEYS)
        .step_by(100)
        .for_each(|from| walk(&mut iter, from, 1));
    drop(iter);
    for from in [100, 9_999, 20_000] {
        let (for_seek, mut iter) = allocations(|| {
            let mut iter = db.cursor(IterOptions::default()).unwrap();
            iter.seek(key(from)).unwrap();
            iter
        });
        // The list of sources and their order, and of each run a key and what bounds its block.
        assert!(for_seek <= 2 + 2 * RUNS, "{for_seek}");
        // The key that was left.
        let (for_steps, ()) = allocations(|| walk(&mut iter, from, 5_000));
        assert!(for_steps <= 1, "{for_steps}");
        let (again, ()) = allocations(|| walk(&mut iter, from / 2, 2_000));
        assert_eq!(again, 0);
    }
}

/// What a loop takes that wants pairs of its own: the key and the value of each.
#[test]
fn an_iterator_allocates_a_key_and_a_value_for_an_entry() {
    let db = filled();
    let all = || db.iter().map(|entry| entry.unwrap().1.len()).sum::<usize>();
    let bytes = all();
    let (count, again) = allocations(all);
    assert_eq!(bytes, again);
    let besides = count - 2 * KEYS;
    assert!(besides <= 4 + 3 * RUNS, "{besides} besides those");
    // From the back the cursor holds key and value itself, which grow once.
    let (count, ()) = allocations(|| assert_eq!(db.iter().rev().count() as u64, KEYS));
    let besides = count - 2 * KEYS;
    assert!(besides <= 8 + 6 * RUNS, "{besides} besides those");
}
