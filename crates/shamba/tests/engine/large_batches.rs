//! Batches and values against the budget: what is accepted can be read again, after a crash too,
//! under the budget it was written under, which is not passed. What was written under a larger one
//! is refused with the budget that it needs, and lost nothing.

use std::sync::Arc;

use crate::common::files_ending;
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};
use shamba::{Db, Error, IterOptions, MIN_MEMORY, MemoryBudget, Options, Result, WriteBatch};

const DIR: &str = "/db";

fn options(fs: impl Fs, memory: u64, threads: usize) -> Options {
    Options::new()
        .fs(Arc::new(fs))
        .memory(MemoryBudget::bytes(memory))
        .background_threads(threads)
}

/// A batch of entries of `len` bytes that takes about `bytes` bytes.
fn batch(number: u64, len: usize, bytes: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for part in 0.. {
        if part > 0 && batch.size() + batch.len() * 64 >= bytes {
            break;
        }
        batch.put(format!("{number:08}-{part:08}"), vec![number as u8; len]);
    }
    batch
}

/// The most that the budget lets a batch take.
fn most(db: &Db) -> usize {
    let huge = batch(0, 1000, 300 << 20 >> 3);
    match db.write(huge) {
        Err(Error::BatchTooLarge { len, max, .. }) => {
            assert!(len > max);
            max
        }
        other => panic!("{other:?}"),
    }
}

/// How many entries there are, in order.
fn entries(db: &Db) -> Result<usize> {
    let mut iter = db.cursor(IterOptions::default())?;
    let mut count = 0;
    iter.seek_to_first()?;
    while iter.valid() {
        count += 1;
        iter.next()?;
    }
    Ok(count)
}

fn count(db: &Db) -> usize {
    entries(db).unwrap()
}

fn assert_within(db: &Db) {
    let usage = db.stats().memory.budget;
    assert_eq!(usage.overdraft, 0, "{usage:?}");
    assert!(usage.peak <= usage.limit, "{usage:?}");
}

#[test]
fn the_largest_batches_are_read_again_under_the_same_budget() {
    for (memory, len, threads) in [
        (MIN_MEMORY, 4, 0),
        (MIN_MEMORY, 100, 2),
        (MIN_MEMORY, 30_000, 0),
        (8 << 20, 1000, 2),
    ] {
        let fs = MemFs::new();
        let db = options(fs.clone(), memory, threads).open(DIR).unwrap();
        let most = most(&db);
        assert_eq!(most as u64, memory / 8 * 3);
        let mut written = 0;
        for number in 0..12 {
            let batch = batch(number, len, most * 9 / 10);
            written += batch.len();
            db.write(batch).unwrap();
            assert_within(&db);
            // Killed now, all of it is in the logs or in tables.
            let killed = fs.kill_clone();
            let db = options(killed, memory, 0).open(DIR).unwrap();
            assert_eq!(count(&db), written);
            assert_within(&db);
        }
        db.close().unwrap();
    }
}

/// What was logged has a place: nothing is logged for which memtables have no room and no table can
/// be made.
#[test]
fn a_full_disk_refuses_batches_before_memory_is_short() {
    for (threads, len, bytes) in [
        (0, 500, 200 << 10),
        (2, 500, 200 << 10),
        (0, 100, 0),
        (2, 100, 0),
        (2, 4, 100 << 10),
        (2, 30_000, 100 << 10),
    ] {
        let (fs, faults) = (MemFs::new(), Faults::new());
        let faulty = FaultFs::new(Arc::new(fs.clone()), faults.clone());
        let db = options(faulty, MIN_MEMORY, threads).open(DIR).unwrap();
        let full = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(Op::Create);
        faults.add(full.path_ending(".sst").forever());
        let mut written = 0;
        let mut refused = 0;
        for number in 0.. {
            if refused == 30 {
                break;
            }
            let batch = batch(number, len, bytes);
            let entries = batch.len();
            match db.write(batch) {
                Ok(()) => written += entries,
                Err(Error::Stalled { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            assert_within(&db);
        }
        assert!(written > 0);
        // Read as it is, on the full disk, by another process under the same budget.
        let killed = fs.kill_clone();
        let reading = options(killed, MIN_MEMORY, 0).read_only(true);
        let reader = reading.open(DIR);
        let reader = reader.unwrap_or_else(|e| panic!("{threads} {len} {bytes}: {e}"));
        assert_eq!(count(&reader), written);
        assert_within(&reader);
        faults.clear();
        let again = batch(99_999_999, len, bytes);
        let entries = again.len();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while let Err(error) = db.write(again.clone()) {
            assert!(matches!(error, Error::Stalled { .. }), "{error}");
            assert!(std::time::Instant::now() < deadline, "{error}");
        }
        assert_eq!(count(&db), written + entries);
        assert_within(&db);
    }
}

/// The budget that an error names.
fn needed<T>(result: Result<T>) -> u64 {
    match result {
        Err(Error::BudgetTooSmall { limit, needed }) => {
            assert_eq!(limit, MIN_MEMORY);
            needed
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[test]
fn values_of_a_larger_budget_name_the_budget_they_need() {
    let value = vec![7; 2 << 20];
    for compressed in [false, true] {
        let fs = MemFs::new();
        let db = options(fs.clone(), 64 << 20, 0).open(DIR).unwrap();
        let value = if compressed {
            value.clone()
        } else {
            // Nothing to compress.
            crate::common::Rng::new(1).bytes(value.len())
        };
        db.put("large", &value).unwrap();
        db.put("small", b"here").unwrap();
        // In the log.
        let killed = fs.kill_clone();
        let least = needed(options(killed.clone(), MIN_MEMORY, 0).open(DIR));
        let verified = options(killed.clone(), MIN_MEMORY, 0).verify(DIR, |_, _| {});
        assert_eq!(needed(verified), least);
        assert!(least <= 10 << 20, "{least}");
        let reopened = options(killed, least, 0).open(DIR).unwrap();
        assert_eq!(reopened.get("large").unwrap().as_deref(), Some(&*value));
        // In a table.
        db.close().unwrap();
        assert!(files_ending(&fs, DIR, ".wal").is_empty());
        let memory = MemoryBudget::bytes(MIN_MEMORY);
        let small = options(fs.clone(), MIN_MEMORY, 0).memory(memory.clone());
        let db = small.open(DIR).unwrap();
        assert_eq!(db.get("small").unwrap().as_deref(), Some(&b"here"[..]));
        let least = needed(db.get("large"));
        assert_eq!(needed(db.multi_get(&["large"])), least);
        assert!(entries(&db).is_err());
        // It copies blocks.
        let for_verify = needed(db.verify());
        assert!(for_verify >= least);
        assert_within(&db);
        memory.set_limit(least).unwrap();
        assert_eq!(db.get("large").unwrap().as_deref(), Some(&*value));
        assert_within(&db);
        memory.set_limit(for_verify).unwrap();
        db.verify().unwrap().check().unwrap();
        assert_within(&db);
        memory.set_limit(10 * least).unwrap();
        assert_eq!(count(&db), 2);
        assert_within(&db);
    }
}

/// A budget that is too small for the values that are there stops merges, and writes with them;
/// with a larger one all goes on.
#[test]
fn writes_go_on_once_the_budget_holds_the_values_again() {
    for threads in [0, 2] {
        let fs = MemFs::new();
        let db = options(fs.clone(), 16 << 20, threads).open(DIR).unwrap();
        for number in 0..40u32 {
            let value = crate::common::Rng::new(number.into()).bytes(1 << 20);
            db.put(format!("{:02}", number * 7 % 20), value).unwrap();
        }
        db.close().unwrap();
        let memory = MemoryBudget::bytes(MIN_MEMORY);
        let small = options(fs.clone(), MIN_MEMORY, threads).memory(memory.clone());
        let db = small.open(DIR).unwrap();
        let refused = (0..30_000u32).find_map(|number| {
            let key = format!("{:02}-{number:08}", number % 20);
            db.put(key, [1; 400]).err()
        });
        if let Some(error) = &refused {
            assert!(matches!(error, Error::Stalled { .. }), "{error}");
        }
        assert!(refused.is_some() || threads > 0, "never refused");
        assert_within(&db);
        memory.set_limit(16 << 20).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while let Err(error) = db.put("again", b"value") {
            assert!(matches!(error, Error::Stalled { .. }), "{error}");
            assert!(std::time::Instant::now() < deadline, "{error}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        db.wait_for_compaction().unwrap();
        db.verify().unwrap().check().unwrap();
    }
}

/// What was let in has its place though the budget is made smaller once it is logged.
#[test]
fn a_smaller_budget_meanwhile_is_no_overdraft() {
    for threads in [0, 2] {
        let (memory, faults) = (MemoryBudget::bytes(32 << 20), Faults::new());
        let faulty = FaultFs::new(Arc::new(MemFs::new()), faults.clone());
        let options = options(faulty, MIN_MEMORY, threads).memory(memory.clone());
        let db = options.open(DIR).unwrap();
        for round in 0..3 {
            memory.set_limit(32 << 20).unwrap();
            let smaller = memory.clone();
            faults.set_hook(Some(Arc::new(move |op, path| {
                if op == Op::Append && path.extension().is_some_and(|of| of == "wal") {
                    smaller.set_limit(MIN_MEMORY).unwrap();
                }
            })));
            db.write(batch(round, 2 << 20, 0)).unwrap();
            assert_eq!(memory.limit(), MIN_MEMORY);
            faults.set_hook(None);
            db.flush().unwrap();
        }
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
        let usage = loop {
            let usage = db.stats().memory.budget;
            // A background thread may have what it flushed a moment longer.
            if usage.used <= usage.limit || std::time::Instant::now() > deadline {
                break usage;
            }
            std::thread::yield_now();
        };
        assert!(
            usage.overdraft == 0 && usage.used <= usage.limit,
            "{usage:?}"
        );
    }
}

/// Where another database's memtables have the memory, small writes make no table each.
#[test]
fn memtables_of_others_make_no_small_tables_of_ours() {
    let memory = MemoryBudget::bytes(64 << 20);
    let open = |dir: &str| {
        let options = options(MemFs::new(), MIN_MEMORY, 0).memory(memory.clone());
        options.open(dir).unwrap()
    };
    let (idle, db) = (open("/idle"), open(DIR));
    for number in 0..25_000u32 {
        idle.put(number.to_be_bytes(), [1; 1000]).unwrap();
    }
    memory.set_limit(16 << 20).unwrap();
    for number in 0..2000u32 {
        db.put(number.to_be_bytes(), [1; 100]).unwrap();
    }
    let flushes = db.stats().counters.flushes;
    assert!(flushes <= 4, "{flushes} flushes");
}
