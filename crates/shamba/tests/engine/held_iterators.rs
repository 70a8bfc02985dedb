//! Iterators and snapshots that are held: they keep no memtable and pass no budget, whatever is
//! written meanwhile, and their answers never change.

use std::sync::Arc;

use shamba::fs::MemFs;
use shamba::{
    Cursor, Db, Error, IterOptions, KeyspaceOptions, MIN_MEMORY, MemoryBudget, Options, Role,
};

fn open(memory: u64, threads: usize) -> Db {
    let options = Options::new()
        .fs(Arc::new(MemFs::new()))
        .background_threads(threads)
        .memory(MemoryBudget::bytes(memory));
    options.open("/db").unwrap()
}

/// Keys are written in turn, each time with how many writes there were before.
const KEYS: u64 = 20_000;

fn key(number: u64) -> [u8; 8] {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
}

fn put(db: &Db, write: u64) {
    db.put(key(write % KEYS), write.to_be_bytes()).unwrap();
}

/// The keys in their order, with their numbers.
fn sorted() -> Vec<([u8; 8], u64)> {
    let mut keys: Vec<_> = (0..KEYS).map(|number| (key(number), number)).collect();
    keys.sort_unstable();
    keys
}

/// What a key had when there had been so many writes, at least one for each key.
fn value_at(number: u64, writes: u64) -> u64 {
    let last = writes - 1;
    last - (last % KEYS + KEYS - number) % KEYS
}

/// An iterator, and how many writes there had been when it was made.
struct Held {
    iter: Cursor,
    writes: u64,
    /// Where it is among the sorted keys.
    at: usize,
}

impl Held {
    fn new(db: &Db, writes: u64, at: usize, keys: &[([u8; 8], u64)]) -> Result<Held, Error> {
        let mut iter = db.cursor(IterOptions::default())?;
        iter.seek(keys[at].0)?;
        Ok(Held { iter, writes, at })
    }

    fn check(&self, keys: &[([u8; 8], u64)]) {
        let (key, number) = keys[self.at];
        let value = value_at(number, self.writes).to_be_bytes();
        assert_eq!((self.iter.key(), self.iter.value()), (&key[..], &value[..]));
    }

    /// Goes over some entries in both directions, and over all of them in the end.
    fn walk(mut self, keys: &[([u8; 8], u64)]) {
        self.check(keys);
        for _ in 0..300 {
            self.iter.next().unwrap();
            self.at += 1;
            self.check(keys);
        }
        for _ in 0..600 {
            self.iter.prev().unwrap();
            self.at -= 1;
            self.check(keys);
        }
        self.iter.seek_to_first().unwrap();
        for at in 0..keys.len() {
            self.at = at;
            self.check(keys);
            self.iter.next().unwrap();
        }
        assert!(!self.iter.valid());
    }
}

fn within_budget(db: &Db) {
    let usage = db.stats().memory.budget;
    assert_eq!(usage.overdraft, 0, "{usage:?}");
}

fn memtables(db: &Db) -> u64 {
    let roles = db.stats().memory.budget.by_role;
    let memtables = roles.iter().find(|(role, _)| *role == Role::Memtable);
    memtables.unwrap().1
}

/// Fails where an iterator keeps the memtables that it saw: each of these would keep another one.
fn held_under_writes(memory: u64, threads: usize, writes: u64, iterators: u64) {
    let db = open(memory, threads);
    let keys = sorted();
    (0..KEYS).for_each(|write| put(&db, write));
    let (mut held, mut most) = (Vec::new(), 0);
    for write in KEYS..KEYS + writes {
        if (write - KEYS).is_multiple_of(writes / iterators) {
            let at = 1000 + held.len() * 700;
            match Held::new(&db, write, at, &keys) {
                Ok(new) => held.push(new),
                // While merges have many inputs.
                Err(Error::IteratorsExhausted { .. }) if !held.is_empty() => {}
                Err(other) => panic!("{other}"),
            }
        }
        put(&db, write);
        if write % 500 == 0 {
            most = most.max(memtables(&db));
        }
    }
    let (usage, held_now) = (db.stats().memory.budget, held.len());
    println!("{writes} writes, {held_now} iterators, {most} of {memory} in memtables: {usage:?}");
    assert!(most > memory / 16, "memtables were looked at");
    assert!(most <= memory / 2, "{most} bytes in memtables");
    within_budget(&db);
    assert!(held.len() as u64 > iterators / 2);
    held.into_iter().for_each(|held| held.walk(&keys));
    within_budget(&db);
}

#[test]
fn iterators_keep_no_memtable_while_a_million_entries_are_written() {
    // One alone keeps one memtable, for which there is room: it would not tell.
    held_under_writes(2 << 20, 0, 1_000_000, 16);
}

#[test]
fn iterators_made_at_many_moments_keep_no_memtable() {
    for (memory, threads) in [(MIN_MEMORY, 0), (4 << 20, 2)] {
        held_under_writes(memory, threads, 200_000, 12);
    }
}

/// Fails where what iterators hold is taken whatever the budget has left.
#[test]
fn two_hundred_iterators_and_snapshots_are_within_the_least_budget_or_refused() {
    for (threads, value) in [(0, 20), (0, 3000)] {
        let db = open(MIN_MEMORY, threads);
        let keys = sorted();
        let put = |write: u64| {
            let mut value = vec![0; value];
            value[..8].copy_from_slice(&write.to_be_bytes());
            db.put(key(write % KEYS), value).unwrap();
        };
        (0..KEYS).for_each(put);
        let (mut held, mut snapshots, mut refused) = (Vec::new(), Vec::new(), 0);
        for round in 0..200 {
            let writes = KEYS + 20 * round;
            let at = 100 * round as usize % keys.len();
            let made = || -> Result<_, Error> {
                let snapshot = db.snapshot();
                let mut iter = snapshot.cursor(IterOptions::default())?;
                iter.seek(keys[at].0)?;
                iter.next()?;
                Ok((snapshot, iter))
            };
            match made() {
                Ok((snapshot, iter)) => {
                    snapshots.push((snapshot, writes));
                    held.push((iter, writes, at + 1));
                }
                Err(Error::IteratorsExhausted { limit, .. }) => {
                    assert_eq!(limit, MIN_MEMORY);
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
            (writes..writes + 20).for_each(put);
            within_budget(&db);
        }
        println!(
            "{threads} threads, values of {value}: {} held, {refused} refused",
            held.len()
        );
        assert!(held.len() >= 5);
        let right = |got: &[u8], number: u64, writes: u64| {
            assert_eq!(got[..8], value_at(number, writes).to_be_bytes());
        };
        for (snapshot, writes) in snapshots.iter().step_by(3) {
            let (key, number) = keys[(*writes * 31) as usize % keys.len()];
            right(&snapshot.get(key).unwrap().unwrap(), number, *writes);
        }
        // Those that are held go on as far as there is memory, and are never wrong.
        for (iter, writes, at) in &mut held {
            for _ in 0..50 {
                if !iter.valid() {
                    break;
                }
                assert_eq!(iter.key(), keys[*at].0);
                right(iter.value(), keys[*at].1, *writes);
                match iter.next() {
                    Ok(()) => *at += 1,
                    Err(Error::IteratorsExhausted { .. }) => assert!(!iter.valid()),
                    Err(other) => panic!("{other}"),
                }
            }
        }
        held.truncate(1);
        // There is room for another again.
        let mut iter = db.cursor(IterOptions::default()).unwrap();
        iter.seek_to_first().unwrap();
        assert_eq!(iter.key(), keys[0].0);
        within_budget(&db);
    }
}

/// The budget that the error names is enough for what was refused: for another iterator beside the
/// many that are held, and for entries that are large for the budget in a tree of many runs.
#[test]
fn the_budget_named_to_a_refused_iterator_is_enough() {
    for (value, runs) in [(20, 1), (20, 6), (3_000, 4), (200_000, 1), (200_000, 6)] {
        let memory = MemoryBudget::bytes(32 << 20);
        let options = Options::new()
            .fs(Arc::new(MemFs::new()))
            .background_threads(0)
            .keyspace(KeyspaceOptions::new().level0_runs(20))
            .memory(memory.clone());
        let db = options.open("/db").unwrap();
        // Some entries are left in memory, with each run's as large.
        for run in 0..=runs {
            for number in 0..60u64 {
                db.put(key(number), vec![run; value]).unwrap();
            }
            if run < runs {
                db.flush().unwrap();
            }
        }
        memory.set_limit(MIN_MEMORY).unwrap();
        db.flush().unwrap();
        let (mut held, mut refused) = (Vec::new(), 0);
        let found = |cursor: &Cursor| assert_eq!(cursor.value(), vec![runs; value]);
        while refused < 8 {
            let go = || {
                let mut cursor = db.cursor(IterOptions::default())?;
                cursor.seek(key(31))?;
                found(&cursor);
                cursor.prev()?;
                found(&cursor);
                cursor.next()?;
                cursor.next()?;
                Ok(cursor)
            };
            let cursor = match go() {
                Ok(cursor) => cursor,
                Err(Error::IteratorsExhausted { limit, needed }) => {
                    assert!(
                        limit == memory.limit() && needed > limit,
                        "{needed} {limit}"
                    );
                    refused += 1;
                    memory.set_limit(needed).unwrap();
                    go().unwrap()
                }
                Err(other) => panic!("{other}"),
            };
            found(&cursor);
            held.push(cursor);
        }
        println!(
            "values of {value} in {runs} runs: {} under {}",
            held.len(),
            memory.limit()
        );
        within_budget(&db);
    }
}

/// Fails where reading or writing an entry takes memory that others have.
#[test]
fn the_largest_values_stay_within_the_budget_on_many_threads() {
    for memory in [MIN_MEMORY, 16 << 20] {
        for threads in [0, 2] {
            let db = open(memory, threads);
            let len = (memory / 16) as usize;
            let rounds = if memory == MIN_MEMORY { 120 } else { 24 };
            std::thread::scope(|scope| {
                for thread in 0..4u64 {
                    let db = &db;
                    scope.spawn(move || {
                        let value = |number: u64| vec![(number * 7 + thread) as u8; len];
                        let key = |number: u64| [thread as u8, (number % 40) as u8];
                        for number in 0..rounds {
                            db.put(key(number), value(number)).unwrap();
                            let back = number / 2;
                            let latest = (0..=number).rev().find(|n| n % 40 == back % 40);
                            let found = db.get(key(back)).unwrap().unwrap();
                            assert_eq!(found[..], value(latest.unwrap())[..]);
                            drop(found);
                            if number % 8 == 0 {
                                let sought =
                                    db.cursor(IterOptions::default()).and_then(|mut iter| {
                                        iter.seek(key(back))?;
                                        Ok(iter)
                                    });
                                match sought {
                                    Ok(iter) => assert_eq!(iter.key(), key(back)),
                                    Err(Error::IteratorsExhausted { .. }) => {}
                                    Err(other) => panic!("{other}"),
                                }
                            }
                        }
                    });
                }
            });
            let usage = db.stats().memory.budget;
            println!("{memory} bytes, {threads} threads: {usage:?}");
            assert_eq!(usage.overdraft, 0, "{usage:?}");
        }
    }
}

/// Fails where each input of a merge holds the value that it is at.
#[test]
fn a_merge_holds_one_large_value_at_a_time() {
    let memory = MemoryBudget::bytes(MIN_MEMORY);
    let len = (MIN_MEMORY / 16) as usize;
    let keyspace = KeyspaceOptions::new().level0_runs(8).write_buffer(64 << 10);
    let options = Options::new()
        .fs(Arc::new(MemFs::new()))
        .background_threads(0)
        .keyspace(keyspace)
        .memory(memory.clone());
    let db = options.open("/db").unwrap();
    let runs = 6;
    let value = |run: u8, key: u8| vec![run * 16 + key; len - usize::from(run)];
    for run in 0..runs {
        for key in 0..4 {
            db.put([key, run % 2], value(run, key)).unwrap();
        }
        db.flush().unwrap();
    }
    let level0 = db.stats().keyspaces[0].levels[0].runs;
    assert!(level0 >= 5, "{level0} runs");
    // What is left is the third that lookups and writes cannot do without, and some.
    let held = memory.hold(MIN_MEMORY / 2).unwrap();
    db.compact_range(None, None).unwrap();
    let usage = db.stats().memory.budget;
    assert_eq!(usage.overdraft, 0, "{usage:?}");
    drop(held);
    for key in 0..4 {
        for parity in 0..2 {
            let found = db.get([key, parity]).unwrap().unwrap();
            assert_eq!(found[..], value(runs - 2 + parity, key)[..]);
        }
    }
}
