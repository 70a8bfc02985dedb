//! Background work that fails or takes long, and what writers notice of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Map, Rng, contents, small_keyspace, small_options};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, MemFs, Op};
use shamba::{Db, Error, MemoryBudget, Options};

const DIR: &str = "/db";

/// How long something may take that must happen some time.
const PATIENCE: Duration = Duration::from_secs(120);

fn options(fs: &MemFs, faults: &Faults, threads: usize) -> Options {
    let fs = FaultFs::new(Arc::new(fs.clone()), faults.clone());
    small_options(Arc::new(fs)).background_threads(threads)
}

/// No table can be written any more.
fn fill_disk(faults: &Faults) {
    let full = Effect::Fail(FaultError::ENOSPC);
    faults.add(
        Fault::new(full)
            .on(Op::Append)
            .path_ending(".sst")
            .forever(),
    );
}

fn put(db: &Db, number: u64, model: &mut Map) -> Result<(), Error> {
    let key = format!("key{:05}", number * 7919 % 5003).into_bytes();
    let value = format!("{number}:{}", "v".repeat(60)).into_bytes();
    db.put(&key, &value)?;
    model.insert(key, value);
    Ok(())
}

/// Writes until one is refused; gives the next number.
fn until_refused(db: &Db, from: u64, model: &mut Map) -> u64 {
    for number in from..from + 100_000 {
        match put(db, number, model) {
            Ok(()) => {}
            Err(Error::Stalled { cause }) => {
                assert!(matches!(*cause, Error::Io { .. }), "{cause:?}");
                return number;
            }
            Err(error) => panic!("write {number}: {error:?}"),
        }
    }
    panic!("no write was refused");
}

fn a_full_disk_stops_writes_until_there_is_room(threads: usize) {
    let (fs, faults) = (MemFs::new(), Faults::new());
    let db = options(&fs, &faults, threads).open(DIR).unwrap();
    let mut model = Map::new();
    for number in 0..2000 {
        put(&db, number, &mut model).unwrap();
    }
    let limit = db.stats().memory.budget.limit;
    for round in 0..2 {
        fill_disk(&faults);
        let mut number = until_refused(&db, 2000 + round * 200_000, &mut model);
        let stats = db.stats();
        assert!(stats.flushes_stopped.is_some() && stats.writes_stopped.is_none());
        assert!(
            db.stats().memory.budget.used <= limit,
            "{:?}",
            db.stats().memory
        );
        assert!(db.flush().is_err());
        // What was acknowledged is there, the rest is not.
        assert!(contents(&db.default_keyspace()).unwrap() == model);
        faults.clear();
        let began = Instant::now();
        while put(&db, number, &mut model).is_err() {
            assert!(began.elapsed() < PATIENCE, "writes did not go on");
            std::thread::sleep(Duration::from_millis(10));
        }
        for _ in 0..2000 {
            number += 1;
            put(&db, number, &mut model).unwrap();
        }
        assert!(db.stats().flushes_stopped.is_none());
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
    }
    assert!(contents(&db.default_keyspace()).unwrap() == model);
    db.close().unwrap();
    let db = small_options(Arc::new(fs)).open(DIR).unwrap();
    assert!(contents(&db.default_keyspace()).unwrap() == model);
    db.verify().unwrap().check().unwrap();
}

#[test]
fn threads_go_on_once_a_full_disk_has_room() {
    a_full_disk_stops_writes_until_there_is_room(2);
}

#[test]
fn without_threads_the_next_write_goes_on_once_a_full_disk_has_room() {
    a_full_disk_stops_writes_until_there_is_room(0);
}

#[test]
fn damage_in_one_keyspace_leaves_the_compactions_of_others_alone() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    // Else merges have the damaged table in memory.
    let options = options(&fs, &faults, 1).inherit_statistics(false);
    let db = options.open(DIR).unwrap();
    let damaged = db.create_keyspace("damaged", small_keyspace()).unwrap();
    damaged.put(b"key00000", b"x").unwrap();
    db.flush().unwrap();
    let tables = fs
        .files()
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "sst"));
    let table = tables.max().unwrap();
    let mut bytes = fs.read_file(&table).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    fs.write_file(&table, &bytes).unwrap();
    let began = Instant::now();
    let mut number = 0u64;
    while db.stats().compactions_stopped.is_none() {
        assert!(began.elapsed() < PATIENCE, "the damage was not met");
        damaged
            .put(format!("key{:05}", number % 50), vec![b'v'; 100])
            .unwrap();
        number += 1;
    }
    let before = db.stats().counters.compactions;
    let mut model = Map::new();
    for number in 0..3000 {
        put(&db, number, &mut model).unwrap();
    }
    while db.stats().counters.compactions < before + 3 {
        assert!(began.elapsed() < PATIENCE, "others are not compacted");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(contents(&db.default_keyspace()).unwrap() == model);
    assert!(matches!(
        db.wait_for_compaction(),
        Err(Error::Corruption { .. })
    ));
}

/// While the only thread merges, whose reads take long, writers go on: it flushes on the way.
#[test]
fn a_long_merge_lets_memtables_be_flushed() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    // A merge of 20 runs and more, of many memtables each.
    let keyspace = small_keyspace()
        .write_buffer(64 << 10)
        .level0_runs(20)
        .level0_slowdown(500)
        .level0_stall(1000);
    let options = options(&fs, &faults, 1).memory(MemoryBudget::bytes(2 << 20));
    let db = options.keyspace(keyspace).open(DIR).unwrap();
    let mut model = Map::new();
    let (reads, written) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (seen, done) = (reads.clone(), written.clone());
    faults.set_hook(Some(Arc::new(move |op, path: &Path| {
        let in_background = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("shamba"));
        if op == Op::Read && in_background && path.extension().is_some_and(|e| e == "sst") {
            seen.fetch_add(1, Ordering::SeqCst);
            if !done.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    })));
    // Until a merge is on its way, and then some memtables more.
    let (mut number, mut within) = (0, 0);
    let before = db.stats().counters;
    while within < 4_000 {
        put(&db, number, &mut model).unwrap();
        number += 1;
        within += u64::from(reads.load(Ordering::SeqCst) > 0);
    }
    let after = db.stats().counters;
    written.store(true, Ordering::SeqCst);
    assert!(
        after.flushes >= before.flushes + 3,
        "{} flushes",
        after.flushes - before.flushes
    );
    assert_eq!(
        after.compactions, before.compactions,
        "the merge ended too soon to show anything"
    );
    db.wait_for_compaction().unwrap();
    assert!(contents(&db.default_keyspace()).unwrap() == model);
}

/// Another process opens, fills, and closes the new database between this one's first look at the
/// folder and its lock.
#[test]
fn who_opens_second_finds_what_the_first_wrote() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    let (first, once) = (fs.clone(), AtomicBool::new(false));
    faults.set_hook(Some(Arc::new(move |op, _: &Path| {
        if op == Op::Lock && !once.swap(true, Ordering::SeqCst) {
            let db = small_options(Arc::new(first.clone())).open(DIR).unwrap();
            db.put(b"key", b"value").unwrap();
            db.close().unwrap();
        }
    })));
    let db = options(&fs, &faults, 0).open(DIR).unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn who_wants_a_new_database_is_refused_one_that_came_meanwhile() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    let (first, once) = (fs.clone(), AtomicBool::new(false));
    faults.set_hook(Some(Arc::new(move |op, _: &Path| {
        if op == Op::Lock && !once.swap(true, Ordering::SeqCst) {
            small_options(Arc::new(first.clone()))
                .open(DIR)
                .unwrap()
                .close()
                .unwrap();
        }
    })));
    let opened = options(&fs, &faults, 0).error_if_exists(true).open(DIR);
    assert!(
        matches!(opened, Err(Error::AlreadyExists { .. })),
        "{opened:?}"
    );
}

/// Readers of a keyspace that is dropped are told so, and never that its keys are not there.
#[test]
fn a_keyspace_that_is_dropped_is_never_empty() {
    let db = small_options(Arc::new(MemFs::new())).open(DIR).unwrap();
    for round in 0..200 {
        let keyspace = db.create_keyspace("short-lived", small_keyspace()).unwrap();
        keyspace.put(b"key", b"value").unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let dropped = |error: &Error| matches!(error, Error::KeyspaceDropped { .. });
                loop {
                    let got = keyspace.get(b"key");
                    let many = keyspace.multi_get(&[b"key"]);
                    match (&got, &many) {
                        (Ok(found), Ok(all)) => {
                            assert!(found.is_some() && all[0].is_some(), "round {round}");
                        }
                        (Ok(found), Err(error)) => {
                            assert!(found.is_some() && dropped(error), "round {round}");
                            return;
                        }
                        (Err(error), _) => {
                            assert!(dropped(error), "{error:?}");
                            return;
                        }
                    }
                }
            });
            std::thread::yield_now();
            db.drop_keyspace("short-lived").unwrap();
            reader.join().unwrap();
        });
    }
}

/// Slowed down, a write takes as long as its bytes do, however they are cut into batches.
#[test]
fn writes_are_slowed_down_by_their_bytes() {
    let slept = |batch: usize| {
        let (fs, faults) = (MemFs::new(), Faults::new());
        let keyspace = small_keyspace().level0_slowdown(3).level0_stall(1000);
        let db = options(&fs, &faults, 1)
            .keyspace(keyspace)
            .open(DIR)
            .unwrap();
        // No merge succeeds.
        let fails = Fault::new(Effect::Fail(FaultError::EIO)).on(Op::Read);
        faults.add(fails.path_ending(".sst").forever());
        for _ in 0..4 {
            db.put(b"first", b"runs").unwrap();
            db.flush().unwrap();
        }
        let mut rng = Rng::new(1);
        for _ in 0..(64 << 10) / batch {
            let mut ops = shamba::WriteBatch::new();
            for _ in 0..batch / 64 {
                ops.put(rng.next().to_be_bytes(), [7; 48]);
            }
            db.write(ops).unwrap();
        }
        db.stats().counters.write_slowdown_micros
    };
    let (small, large) = (slept(64), slept(16 << 10));
    assert!(
        small < large * 3 && large < small * 3,
        "{small} and {large} us"
    );
}
