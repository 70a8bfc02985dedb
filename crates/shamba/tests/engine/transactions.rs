//! Transactions: what they see, what is a conflict and what is none, wherever the newer write lies
//! by then, and what they take of the budget.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Replay, Rng};
use shamba::fs::MemFs;
use shamba::{
    Append, Db, Durability, Error, Isolation, IterOptions, KeyspaceOptions, MemoryBudget, Options,
    Transaction, TransactionOptions, WriteOptions,
};

const SNAPSHOT: Isolation = Isolation::Snapshot;

fn open() -> Db {
    let options = Options::new().fs(Arc::new(MemFs::new()));
    options.background_threads(0).open("/db").unwrap()
}

fn snapshot_transaction(db: &Db) -> Transaction {
    db.transaction_with(TransactionOptions::new().isolation(SNAPSHOT))
}

fn text(value: Option<shamba::Value>) -> String {
    value.map_or("-".to_owned(), |value| {
        String::from_utf8(value.to_vec()).unwrap()
    })
}

/// The key that a commit was refused for.
fn conflict(done: Result<(), Error>) -> String {
    match done {
        Err(Error::Conflict { key, .. }) => String::from_utf8(key).unwrap(),
        done => panic!("{done:?}"),
    }
}

#[test]
fn a_transaction_sees_its_snapshot_and_its_own_writes() {
    let db = open();
    let users = db
        .open_keyspace("users", KeyspaceOptions::default())
        .unwrap();
    db.put("a", "1").unwrap();
    users.put("a", "u1").unwrap();
    let mut tx = db.transaction();
    db.put("a", "2").unwrap();
    db.put("b", "2").unwrap();
    assert_eq!(text(tx.get("a").unwrap()), "1");
    assert_eq!(text(tx.get_in(&users, "a").unwrap()), "u1");
    assert!(!tx.contains_key("b").unwrap());
    tx.put("b", "mine").unwrap();
    tx.put_in(&users, "b", "of users").unwrap();
    tx.delete_in(&users, "a").unwrap();
    assert_eq!(text(tx.get("b").unwrap()), "mine");
    assert!(tx.contains_key("b").unwrap() && !tx.contains_key_in(&users, "a").unwrap());
    let several = tx.multi_get(&["b", "a", "c"]).unwrap();
    let several: Vec<_> = several.into_iter().map(text).collect();
    assert_eq!(several, ["mine", "1", "-"]);
    let several = tx.multi_get_in(&users, &["b", "a"]).unwrap();
    let several: Vec<_> = several.into_iter().map(text).collect();
    assert_eq!(several, ["of users", "-"]);
    // Nobody else does, and it ends with nothing written.
    assert_eq!(text(db.get("b").unwrap()), "2");
    tx.rollback();
    assert_eq!(text(users.get("a").unwrap()), "u1");
    let other = open();
    let error = other.transaction().get_in(&users, "a").unwrap_err();
    assert!(matches!(error, Error::WrongDatabase { .. }), "{error:?}");
}

#[test]
fn what_was_read_and_then_written_by_others_is_a_conflict() {
    let db = open();
    let users = db
        .open_keyspace("users", KeyspaceOptions::default())
        .unwrap();
    db.put("a", "1").unwrap();
    db.put("m", "1").unwrap();
    type Read = fn(&Transaction, &shamba::Keyspace);
    let reads: [(&str, Read); 7] = [
        ("a value", |tx, _| drop(tx.get("a").unwrap())),
        ("whether it is there", |tx, _| drop(tx.contains_key("a"))),
        ("several", |tx, _| drop(tx.multi_get(&["x", "a"]).unwrap())),
        ("an absent key", |tx, _| drop(tx.get("absent").unwrap())),
        ("of a keyspace", |tx, users| {
            drop(tx.get_in(users, "a").unwrap())
        }),
        ("a range of nothing", |tx, _| {
            assert!(tx.range("b".."c").next().is_none())
        }),
        ("for update", |tx, _| drop(tx.get_for_update("a").unwrap())),
    ];
    let writes = ["a", "a", "a", "absent", "a", "bb", "a"];
    for ((what, read), key) in reads.iter().zip(writes) {
        // Where the newer write lies when it is looked for: in the memtable, in a new table, in one
        // that was merged; and not at all.
        for place in 0..4 {
            let mut tx = db.transaction();
            read(&tx, &users);
            tx.put("written", "by the transaction").unwrap();
            let keyspace = match *what {
                "of a keyspace" => users.clone(),
                _ => db.default_keyspace(),
            };
            match place {
                0 => db.put("other", "o").unwrap(),
                _ => keyspace.put(key, "newer").unwrap(),
            }
            if place > 1 {
                db.flush().unwrap();
            }
            if place > 2 {
                keyspace.compact_range(None, None).unwrap();
            }
            let done = tx.commit();
            if place == 0 {
                done.unwrap_or_else(|error| panic!("{what}: {error}"));
            } else {
                assert_eq!(conflict(done), key, "{what} at {place}");
            }
            keyspace.put(key, "1").unwrap();
            if ["absent", "bb"].contains(&key) {
                keyspace.delete(key).unwrap();
            }
        }
    }
    let stats = db.stats();
    assert_eq!(stats.counters.transactions, 7);
    assert_eq!(stats.counters.transaction_conflicts, 21);
}

#[test]
fn an_iterator_has_read_what_it_came_past_and_no_more() {
    let db = open();
    for key in ["b", "d", "f", "h"] {
        db.put(key, key).unwrap();
    }
    let keys = |tx: &Transaction, count: usize, back: bool| -> Vec<String> {
        let iter = tx.range("a".."z");
        let key =
            |entry: shamba::Result<(Vec<u8>, _)>| String::from_utf8(entry.unwrap().0).unwrap();
        if back {
            iter.rev().take(count).map(key).collect()
        } else {
            iter.take(count).map(key).collect()
        }
    };
    // What is read, what others write then, and whether that is a conflict.
    let cases = [
        (2, false, "a", true),
        (2, false, "c", true),
        (2, false, "d", true),
        (2, false, "e", false),
        (2, false, "0", false),
        (2, true, "e", false),
        (2, true, "f", true),
        (2, true, "y", true),
        (2, true, "z", false),
        (9, false, "y", true),
        (9, true, "a", true),
        (0, true, "d", false),
    ];
    for (count, back, key, conflicts) in cases {
        let mut tx = db.transaction();
        let before = db.get(key).unwrap();
        keys(&tx, count, back);
        tx.put("zz", "w").unwrap();
        db.put(key, "newer").unwrap();
        assert_eq!(tx.commit().is_err(), conflicts, "{count} {back} {key}");
        match before {
            Some(value) => db.put(key, value).unwrap(),
            None => db.delete(key).unwrap(),
        }
    }
    // Both ends, which meet.
    let tx = db.transaction();
    let mut iter = tx.range("a".."z");
    let mut met = Vec::new();
    while let Some(front) = iter.next() {
        met.push(front.unwrap().0);
        met.extend(iter.next_back().map(|back| back.unwrap().0));
    }
    assert_eq!(met, [b"b", b"h", b"d", b"f"]);
    assert!(iter.next_back().is_none());
}

#[test]
fn under_snapshot_isolation_only_what_is_written_or_read_for_update_conflicts() {
    let db = open();
    db.put("a", "1").unwrap();
    let begin = || {
        let tx = snapshot_transaction(&db);
        tx.get("a").unwrap();
        tx.iter().for_each(drop);
        tx
    };
    let mut tx = begin();
    tx.put("b", "mine").unwrap();
    db.put("a", "2").unwrap();
    tx.commit().unwrap();
    let mut tx = begin();
    tx.put("b", "mine").unwrap();
    db.put("b", "newer").unwrap();
    assert_eq!(conflict(tx.commit()), "b");
    let mut tx = begin();
    tx.get_for_update("a").unwrap();
    tx.put("b", "mine").unwrap();
    db.put("a", "newer").unwrap();
    assert_eq!(conflict(tx.commit()), "a");
    assert_eq!(text(db.get("b").unwrap()), "newer");
}

#[test]
fn what_only_reads_or_only_writes_has_no_conflict() {
    let db = open();
    db.put("a", "1").unwrap();
    let reader = db.transaction();
    reader.get("a").unwrap();
    let mut writer = db.transaction();
    writer.put("a", "blind").unwrap();
    db.put("a", "2").unwrap();
    reader.commit().unwrap();
    writer.commit().unwrap();
    assert_eq!(text(db.get("a").unwrap()), "blind");
}

#[test]
fn savepoints_are_a_stack() {
    let db = open();
    let users = db
        .open_keyspace("users", KeyspaceOptions::default())
        .unwrap();
    let mut tx = db.transaction();
    assert!(matches!(
        tx.rollback_to_savepoint(),
        Err(Error::NoSavepoint)
    ));
    tx.put("a", "1").unwrap();
    tx.put("gone", "1").unwrap();
    tx.set_savepoint();
    tx.put("a", "2").unwrap();
    tx.delete("gone").unwrap();
    tx.set_savepoint();
    tx.put_in(&users, "u", "3").unwrap();
    tx.put("a", "3").unwrap();
    tx.rollback_to_savepoint().unwrap();
    assert_eq!(text(tx.get("a").unwrap()), "2");
    assert_eq!(text(tx.get("gone").unwrap()), "-");
    assert_eq!(text(tx.get_in(&users, "u").unwrap()), "-");
    tx.rollback_to_savepoint().unwrap();
    assert_eq!(text(tx.get("a").unwrap()), "1");
    assert_eq!(text(tx.get("gone").unwrap()), "1");
    tx.set_savepoint();
    tx.put("a", "4").unwrap();
    tx.pop_savepoint().unwrap();
    assert!(matches!(tx.pop_savepoint(), Err(Error::NoSavepoint)));
    tx.commit().unwrap();
    let all: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(all, [b"a".to_vec(), b"gone".to_vec()]);
    assert_eq!(text(db.get("a").unwrap()), "4");
    assert!(users.is_empty().unwrap());
}

#[test]
fn a_commit_asks_nothing_for_what_was_taken_back() {
    let memory = MemoryBudget::bytes(64 << 20);
    let options = Options::new().fs(Arc::new(MemFs::new()));
    let options = options.memory(memory.clone()).background_threads(0);
    let db = options.open("/db").unwrap();
    for isolation in [Isolation::Serializable, SNAPSHOT] {
        let users = db.open_keyspace("users", KeyspaceOptions::default());
        let users = users.unwrap();
        let mut tx = db.transaction_with(TransactionOptions::new().isolation(isolation));
        tx.put("a", "1").unwrap();
        tx.set_savepoint();
        tx.put_in(&users, "u", "1").unwrap();
        tx.rollback_to_savepoint().unwrap();
        db.drop_keyspace("users").unwrap();
        tx.commit().unwrap();
    }
    let mut tx = db.transaction();
    tx.put("a", "2").unwrap();
    tx.set_savepoint();
    tx.put("b", vec![7; 1 << 20]).unwrap();
    tx.rollback_to_savepoint().unwrap();
    memory.set_limit(2 << 20).unwrap();
    assert!(db.transaction().put("b", vec![7; 1 << 20]).is_err());
    tx.commit().unwrap();
    assert_eq!(text(db.get("a").unwrap()), "2");
}

/// Savepoints at one place take as much memory as one.
#[test]
fn savepoints_at_one_place_are_as_many_as_were_set() {
    let db = open();
    let mut tx = db.transaction();
    tx.put("a", "1").unwrap();
    let many = 1 << 20;
    (0..many).for_each(|_| tx.set_savepoint());
    tx.put("a", "2").unwrap();
    tx.pop_savepoint().unwrap();
    (2..many).for_each(|_| tx.rollback_to_savepoint().unwrap());
    assert_eq!(text(tx.get("a").unwrap()), "1");
    tx.put("a", "3").unwrap();
    tx.rollback_to_savepoint().unwrap();
    assert_eq!(text(tx.get("a").unwrap()), "1");
    let none = tx.rollback_to_savepoint();
    assert!(matches!(none, Err(Error::NoSavepoint)), "{none:?}");
}

fn covers(range: &IterOptions, key: &[u8]) -> bool {
    let above = match &range.lower {
        Bound::Included(lower) => **lower <= *key,
        Bound::Excluded(lower) => **lower < *key,
        Bound::Unbounded => true,
    };
    let below = match &range.upper {
        Bound::Included(upper) => *key <= **upper,
        Bound::Excluded(upper) => *key < **upper,
        Bound::Unbounded => true,
    };
    above && below
}

/// Random writes over a random snapshot, iterated from both ends, beside a map.
#[test]
fn iterators_over_snapshot_and_own_writes_are_those_of_a_map() {
    for seed in 0..300 {
        let _replay = Replay(format!("seed {seed} of {}", line!()));
        let mut rng = Rng::new(seed);
        let db = open();
        let mut map = BTreeMap::new();
        let key = |rng: &mut Rng| vec![b'a' + rng.below(20) as u8; 1 + rng.below(2) as usize];
        for _ in 0..rng.below(30) {
            let key = key(&mut rng);
            db.put(&key, b"snapshot").unwrap();
            map.insert(key, b"snapshot".to_vec());
        }
        if rng.one_in(2) {
            db.flush().unwrap();
        }
        let mut tx = db.transaction();
        for _ in 0..rng.below(30) {
            let key = key(&mut rng);
            if rng.one_in(3) {
                tx.delete(&key).unwrap();
                map.remove(&key);
            } else {
                tx.put(&key, b"own").unwrap();
                map.insert(key, b"own".to_vec());
            }
        }
        for _ in 0..10 {
            let (from, to) = (key(&mut rng), key(&mut rng));
            let range = match rng.below(3) {
                0 => IterOptions::default(),
                1 => IterOptions::range(from..to),
                _ => IterOptions::prefix(from),
            };
            let wanted = map.iter().filter(|(key, _)| covers(&range, key));
            let wanted: Vec<_> = wanted.map(|(k, v)| (k.clone(), v.clone())).collect();
            let (mut front, mut back) = (Vec::new(), Vec::new());
            let mut iter = tx.iter_with(range);
            loop {
                let (end, ends) = match rng.below(2) {
                    0 => (iter.next(), &mut front),
                    _ => (iter.next_back(), &mut back),
                };
                match end {
                    Some(entry) => {
                        let (key, value) = entry.unwrap();
                        ends.push((key, value.to_vec()));
                    }
                    None => break,
                }
            }
            assert!(iter.next().is_none() && iter.next_back().is_none());
            front.extend(back.into_iter().rev());
            assert_eq!(front, wanted);
        }
        tx.commit().unwrap();
        let all: Vec<_> = db.iter().map(|entry| entry.unwrap()).collect();
        let all: Vec<_> = all.into_iter().map(|(k, v)| (k, v.to_vec())).collect();
        assert_eq!(all, map.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn updates_of_one_key_by_many_threads_are_all_there() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    let db = open();
    let number = |value: &[u8]| u64::from_be_bytes(value.try_into().unwrap());
    let next = |value: Option<&[u8]>| Some((value.map_or(0, number) + 1).to_be_bytes());
    let failed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, failed) = (&db, &failed);
            scope.spawn(move || {
                for _ in 0..EACH {
                    db.fetch_update("fetched", next).unwrap();
                    let add = |tx: &mut Transaction| {
                        let value = tx.get("transacted")?;
                        tx.put("transacted", next(value.as_deref()).unwrap())
                    };
                    db.transact(add).unwrap();
                    loop {
                        let now = db.get("swapped").unwrap();
                        let after = next(now.as_deref()).unwrap();
                        let done = db.compare_and_swap("swapped", now.as_deref(), Some(&after));
                        if done.unwrap().is_ok() {
                            break;
                        }
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    // Those who do not care come between.
                    db.put(format!("{thread}"), "x").unwrap();
                }
            });
        }
    });
    for key in ["fetched", "transacted", "swapped"] {
        let value = db.get(key).unwrap().unwrap();
        assert_eq!(number(&value), THREADS * EACH, "{key}");
    }
    // Removing is an update too.
    let before = db.fetch_update("fetched", |_| None::<&[u8]>).unwrap();
    assert!(before.is_some() && db.get("fetched").unwrap().is_none());
    let failed = db.compare_and_swap("fetched", Some(b"x"), None).unwrap();
    assert!(failed.unwrap_err().current.is_none());
}

#[test]
fn a_transaction_with_a_conflict_is_run_a_hundred_times_at_most() {
    for (conflicts, succeeds) in [(2, true), (u32::MAX, false)] {
        let db = open();
        let mut runs = 0;
        let done = db.transact(|tx| {
            runs += 1;
            let read = text(tx.get("a")?);
            if runs <= conflicts {
                db.put("a", runs.to_string())?;
            }
            tx.put("b", &read)?;
            Ok::<_, Error>(read)
        });
        let counters = db.stats().counters;
        if succeeds {
            // Each run begins from what there is by then.
            assert_eq!((done.unwrap().as_str(), runs), ("2", 3));
            assert_eq!(text(db.get("b").unwrap()), "2");
            assert_eq!(counters.transactions, 1);
            assert_eq!(counters.transaction_conflicts, 2);
        } else {
            assert_eq!((conflict(done.map(drop)).as_str(), runs), ("a", 100));
            assert!(db.get("b").unwrap().is_none());
            assert_eq!(counters.transactions, 0);
            assert_eq!(counters.transaction_conflicts, 100);
        }
    }
}

/// What a closure may fail with.
#[derive(Debug)]
enum Failure {
    Own(&'static str),
    OfEngine(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::OfEngine(error)
    }
}

#[test]
fn an_error_of_a_transactions_own_is_returned_and_nothing_is_written() {
    let db = open();
    let users = db.open_keyspace("users", KeyspaceOptions::default());
    let users = users.unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "1").unwrap();
        users.put(key, "1").unwrap();
    }
    let mut runs = 0;
    let done: Result<(), Failure> = db.transact(|tx| {
        runs += 1;
        tx.put("a", "2")?;
        tx.put("new", "2")?;
        tx.delete_range("b".."d")?;
        tx.put_in(&users, "a", "2")?;
        tx.delete_in(&users, "b")?;
        Err(Failure::Own("not enough"))
    });
    assert!(matches!(done, Err(Failure::Own("not enough"))), "{done:?}");
    assert_eq!(runs, 1);
    let all = |iter: shamba::Iter| -> Vec<(String, String)> {
        let entries = iter.map(|entry| entry.unwrap());
        let entries = entries.map(|(key, value)| (String::from_utf8(key).unwrap(), value));
        entries
            .map(|(key, value)| (key, text(Some(value))))
            .collect()
    };
    let before = ["a", "b", "c"].map(|key| (key.to_owned(), "1".to_owned()));
    assert_eq!(all(db.iter()), before);
    assert_eq!(all(users.iter()), before);
    // One of the engine comes as the closure makes it.
    let done = db.transact(|tx| Ok::<_, Failure>(tx.put(vec![0; 70_000], "1")?));
    let too_large = matches!(done, Err(Failure::OfEngine(Error::KeyTooLarge { .. })));
    assert!(too_large, "{done:?}");
    let counters = db.stats().counters;
    assert_eq!(
        (counters.transactions, counters.transaction_conflicts),
        (0, 0)
    );
}

/// What others write of what it only reads is a conflict with the one; of what it writes with both.
#[test]
fn transactions_are_run_with_the_isolation_and_the_durability_that_are_given() {
    for (isolation, conflicts) in [(SNAPSHOT, 1), (Isolation::Serializable, 2)] {
        let fs = MemFs::new();
        let options = Options::new().fs(Arc::new(fs.clone()));
        let options = options.durability(Durability::Buffered);
        let db = options.background_threads(0).open("/db").unwrap();
        let options = TransactionOptions::new().isolation(isolation);
        let mut runs = 0;
        let last: shamba::Result<u64> = db.transact_with(options, WriteOptions::synced(), |tx| {
            runs += 1;
            tx.get("read")?;
            tx.get("written")?;
            match runs {
                1 => db.put("written", "by others")?,
                2 => db.put("read", "by others")?,
                _ => {}
            }
            tx.put("written", runs.to_string())?;
            Ok(runs)
        });
        assert_eq!(last.unwrap(), conflicts + 1, "{isolation:?}");
        assert_eq!(db.stats().counters.transaction_conflicts, conflicts);
        for seed in 0..8 {
            let options = Options::new().fs(Arc::new(fs.crash_clone(seed)));
            let db = options.background_threads(0).open("/db").unwrap();
            let written = text(db.get("written").unwrap());
            assert_eq!(written, (conflicts + 1).to_string(), "{isolation:?}");
        }
    }
}

/// Money is moved between accounts by threads, with tables made meanwhile; every reader sees all of
/// it, and so does who opens the database after a crash.
#[test]
fn money_is_neither_made_nor_lost() {
    const ACCOUNTS: u64 = 20;
    const EACH: u64 = 100;
    let fs = MemFs::new();
    let open = || {
        let keyspace = KeyspaceOptions::new().write_buffer(64 << 10);
        let options = Options::new().fs(Arc::new(fs.clone())).keyspace(keyspace);
        options.open("/db").unwrap()
    };
    let db = open();
    let account = |number: u64| format!("account-{number:02}");
    let balance = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
    let stored = |balance: u64| [&balance.to_be_bytes()[..], &[0; 1000]].concat();
    for number in 0..ACCOUNTS {
        db.put(account(number), stored(EACH)).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let db = &db;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for _ in 0..300 {
                    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                    let amount = rng.below(EACH);
                    let transfer = |tx: &mut Transaction| -> shamba::Result<()> {
                        let (from, to) = (account(from), account(to));
                        let has = balance(&tx.get(&from)?.unwrap());
                        if from != to && has >= amount {
                            tx.put(&from, stored(has - amount))?;
                            let has = balance(&tx.get(&to)?.unwrap());
                            tx.put(&to, stored(has + amount))?;
                        }
                        Ok(())
                    };
                    db.transact(transfer).unwrap();
                    let sum = |tx: &mut Transaction| {
                        let all = tx.prefix("account-").map(|entry| Ok(balance(&entry?.1)));
                        let sum: shamba::Result<u64> = all.sum();
                        sum
                    };
                    assert_eq!(db.transact(sum).unwrap(), ACCOUNTS * EACH);
                }
            });
        }
    });
    assert!(db.stats().counters.flushes > 0);
    drop(db);
    let all = open()
        .iter()
        .map(|entry| balance(&entry.unwrap().1))
        .sum::<u64>();
    assert_eq!(all, ACCOUNTS * EACH);
}

#[test]
fn a_synced_commit_survives_and_one_cut_off_leaves_nothing() {
    let fs = MemFs::new();
    let open = |fs: &MemFs| {
        let options = Options::new()
            .fs(Arc::new(fs.clone()))
            .background_threads(0);
        options
            .durability(Durability::Buffered)
            .open("/db")
            .unwrap()
    };
    let db = open(&fs);
    let write = |synced: bool| {
        let mut tx = db.transaction();
        for key in ["a", "b", "c"] {
            tx.put(key, format!("{synced}")).unwrap();
        }
        let options = if synced {
            WriteOptions::synced()
        } else {
            WriteOptions::new()
        };
        tx.commit_with(options).unwrap();
    };
    write(true);
    let after_sync = fs.crash_clone(7);
    write(false);
    for (fs, least) in [(after_sync, "true"), (fs.crash_clone(8), "")] {
        let db = open(&fs);
        let all: Vec<_> = db.iter().map(|entry| entry.unwrap().1).collect();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|value| value == &all[0]), "{least}");
    }
}

#[test]
fn a_transaction_past_its_share_of_the_budget_is_refused_and_loses_nothing() {
    let memory = MemoryBudget::bytes(2 << 20);
    let options = Options::new().fs(Arc::new(MemFs::new()));
    let options = options.memory(memory.clone()).background_threads(0);
    let db = options.open("/db").unwrap();
    // What it writes.
    let mut tx = db.transaction();
    let value = [7; 1000];
    let mut written = 0u32;
    let error = loop {
        match tx.put(written.to_be_bytes(), value) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    let Error::TransactionTooLarge { len, max, needed } = error else {
        panic!("{error:?}")
    };
    assert!(len > max && needed > 2 << 20, "{len} {max} {needed}");
    assert!(u64::from(written) * 2000 > max, "{written}");
    assert!(memory.usage().budget.used >= u64::from(written) * 1000);
    // With the budget that it names it goes on.
    memory.set_limit(needed.max(4 << 20)).unwrap();
    tx.put(written.to_be_bytes(), value).unwrap();
    tx.commit().unwrap();
    assert_eq!(db.len().unwrap(), u64::from(written) + 1);
    // What it reads: keys, and ranges.
    memory.set_limit(2 << 20).unwrap();
    let tx = db.transaction();
    let mut read = 0u64;
    let error = loop {
        match tx.get([&read.to_be_bytes()[..], &[0; 200]].concat()) {
            Ok(_) => read += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, Error::TransactionTooLarge { .. }),
        "{error:?}"
    );
    assert!(read > 500, "{read}");
    let refused = db.transaction().get("a");
    assert!(
        matches!(refused, Err(Error::TransactionTooLarge { .. })),
        "{refused:?}"
    );
    drop(tx);
    db.transaction().get("a").unwrap();
    assert_eq!(memory.usage().budget.overdraft, 0);
}

/// Whoever was not refused a write is not refused the commit.
#[test]
fn a_commit_needs_no_memory_that_was_not_charged() {
    for isolation in [Isolation::Serializable, SNAPSHOT] {
        let memory = MemoryBudget::bytes(2 << 20);
        let options = Options::new().fs(Arc::new(MemFs::new()));
        let options = options.memory(memory.clone()).background_threads(0);
        let db = options.open("/db").unwrap();
        let users = db.open_keyspace("users", KeyspaceOptions::default());
        let users = users.unwrap();
        users.put("u", "1").unwrap();
        let options = TransactionOptions::new().isolation(isolation);
        let mut tx = db.transaction_with(options);
        assert_eq!(tx.range_in(&users, "a".."v").count(), 1);
        let mut written = 0u64;
        let refused = loop {
            if let Err(error) = tx.get_for_update([b'g', written as u8]) {
                break error;
            }
            match tx.put(written.to_be_bytes(), "") {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        let too_large = matches!(refused, Error::TransactionTooLarge { .. });
        assert!(too_large && written > 1000, "{refused:?} after {written}");
        // There is a table to be looked at.
        users.put("z", "1").unwrap();
        users.put("A", "1").unwrap();
        db.flush().unwrap();
        tx.commit().unwrap();
        assert_eq!(db.len().unwrap(), written);
        assert_eq!(memory.usage().budget.overdraft, 0);
    }
}

#[test]
fn sizes_are_refused_when_they_are_put() {
    let options = Options::new().fs(Arc::new(MemFs::new()));
    let options = options.merge_operator("default", Append);
    let db = options.background_threads(0).open("/db").unwrap();
    let mut tx = db.transaction();
    tx.put("a", "1").unwrap();
    let long = vec![0; 70_000];
    assert!(matches!(tx.put(&long, "x"), Err(Error::KeyTooLarge { .. })));
    assert!(matches!(tx.delete(&long), Err(Error::KeyTooLarge { .. })));
    let huge = vec![0; 65 << 20];
    assert!(matches!(
        tx.merge("b", &huge),
        Err(Error::ValueTooLarge { .. })
    ));
    // One of values is only where it is written.
    tx.put("b", &huge).unwrap();
    tx.commit().unwrap();
    assert_eq!(db.len().unwrap(), 2);
    let b = db.get_reader("b").unwrap().unwrap();
    assert_eq!(b.len(), 65 << 20);
}

#[test]
fn a_dropped_keyspace_and_a_closed_database_refuse() {
    let db = open();
    let users = db
        .open_keyspace("users", KeyspaceOptions::default())
        .unwrap();
    users.put("a", "1").unwrap();
    let mut tx = db.transaction();
    tx.get_in(&users, "a").unwrap();
    tx.put("a", "1").unwrap();
    db.drop_keyspace("users").unwrap();
    let done = tx.commit();
    assert!(
        matches!(done, Err(Error::KeyspaceDropped { .. })),
        "{done:?}"
    );
    let mut tx = db.transaction();
    tx.put("a", "1").unwrap();
    db.close().unwrap();
    assert!(matches!(tx.get("b"), Err(Error::Closed)));
    let done = tx.commit();
    assert!(matches!(done, Err(Error::Closed)), "{done:?}");
}

/// What a keyspace is emptied of while a transaction is open was read by it.
#[test]
fn clearing_is_a_conflict() {
    let db = open();
    db.put("a", "1").unwrap();
    let mut tx = db.transaction();
    tx.get("a").unwrap();
    tx.put("b", "1").unwrap();
    db.clear().unwrap();
    assert_eq!(conflict(tx.commit()), "a");
}
