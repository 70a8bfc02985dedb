//! A database that is opened to be read only: nothing is written and nothing locked, whatever is in
//! the folder and whoever writes to it meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Map, all_contents, contents, files_ending, small_keyspace, small_options};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};
use shamba::{
    Db, Durability, Error, IterOptions, MIN_MEMORY, MemoryBudget, Options, Result, WriteBatch,
    WriteOptions,
};

const DIR: &str = "/db";
/// What a file system that is mounted so answers to every change.
const EROFS: FaultError = FaultError::Os(30);

/// Everything that changes something, or asks for the right to.
const CHANGES: [Op; 10] = [
    Op::Create,
    Op::Append,
    Op::CutBack,
    Op::Sync,
    Op::SyncDir,
    Op::Rename,
    Op::Remove,
    Op::Link,
    Op::CreateDir,
    Op::Lock,
];

/// Options to read a folder of a file system that takes no change; the control counts those tried.
fn unwritable(fs: &MemFs, error: FaultError) -> (Options, Faults) {
    let faults = Faults::new();
    for op in CHANGES {
        faults.add(Fault::new(Effect::Fail(error)).on(op).forever());
    }
    let fs = FaultFs::new(Arc::new(fs.clone()), faults.clone());
    (small_options(Arc::new(fs)).read_only(true), faults)
}

fn reader(fs: &MemFs) -> Options {
    small_options(Arc::new(fs.clone())).read_only(true)
}

/// Each file with its bytes.
fn disk(fs: &MemFs) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs.files().into_iter();
    files
        .map(|path| (path.clone(), fs.read_file(&path).unwrap()))
        .collect()
}

/// A database of three keyspaces whose process was killed: most in tables, some in logs only.
fn killed() -> (MemFs, BTreeMap<String, Map>) {
    let fs = MemFs::new();
    let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    let gone = db.create_keyspace("gone", small_keyspace()).unwrap();
    for number in 0..900u32 {
        let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
        let mut batch = WriteBatch::new();
        batch.put(key, [1; 60]);
        batch.put_in(&other, key, number.to_string());
        batch.delete((number / 2).wrapping_mul(2_654_435_761).to_be_bytes());
        batch.put_in(&gone, key, [3; 9]);
        db.write(batch).unwrap();
    }
    db.drop_keyspace("gone").unwrap();
    for number in 0..20u32 {
        db.put(format!("late {number}"), [4; 20]).unwrap();
    }
    let fs_killed = fs.kill_clone();
    let all = all_contents(&db).unwrap();
    assert!(!files_ending(&fs_killed, DIR, ".sst").is_empty());
    (fs_killed, all)
}

#[test]
fn everything_can_be_read_and_nothing_is_written() {
    let (fs, wanted) = killed();
    // A record that was being written.
    let logs = files_ending(&fs, DIR, ".wal");
    let last = Path::new(DIR).join(logs.last().unwrap());
    let mut torn = fs.read_file(&last).unwrap();
    torn.extend_from_slice(&[7; 40]);
    fs.write_file(&last, &torn).unwrap();
    let before = disk(&fs);
    for error in [EROFS, FaultError::ENOSPC, FaultError::Os(13)] {
        let (options, faults) = unwritable(&fs, error);
        let db = options.open(DIR).unwrap();
        // Several at once, of this process or others.
        let again = unwritable(&fs, error).0.open(DIR).unwrap();
        for db in [&db, &again] {
            assert!(all_contents(db).unwrap() == wanted);
        }
        let of_default = &wanted["default"];
        let keys: Vec<_> = of_default.keys().cloned().collect();
        let found = db.multi_get(&keys).unwrap();
        for ((key, value), found) in of_default.iter().zip(found) {
            assert_eq!(found.as_deref(), Some(&value[..]));
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
            assert!(db.contains_key(key).unwrap());
        }
        let mut iter = db.cursor(IterOptions::default()).unwrap();
        iter.seek_to_last().unwrap();
        assert_eq!(iter.key(), keys.last().unwrap());
        assert!(db.snapshot().get("late 3").unwrap().is_some());
        let stats = db.stats();
        assert_eq!((stats.writes_stopped, stats.counters.flushes), (None, 0));
        db.verify().unwrap().check().unwrap();
        db.wait_for_compaction().unwrap();
        refuses_changes(&db);
        db.close().unwrap();
        drop((iter, again));
        let found = unwritable(&fs, error).0.verify(DIR, |_, _| ()).unwrap();
        found.check().unwrap();
        assert_eq!(faults.fired(), 0, "a change was tried");
        assert!(disk(&fs) == before);
    }
    // And then as if nobody had been there.
    let db = small_options(Arc::new(fs)).open(DIR).unwrap();
    assert!(all_contents(&db).unwrap() == wanted);
}

fn refuses_changes(db: &Db) {
    let refused = |outcome: Result<()>| {
        assert!(matches!(outcome, Err(Error::ReadOnly)), "{outcome:?}");
    };
    let keyspace = db.default_keyspace();
    refused(db.put("k", "v"));
    // What is too large is refused for the same reason: a smaller one would not do.
    refused(db.put("k", vec![0; 16 << 20]));
    refused(db.delete("late 3"));
    refused(keyspace.put_with("k", "v", WriteOptions::new().durability(Durability::None)));
    refused(db.flush());
    refused(db.sync());
    refused(db.compact_range(None, None));
    refused(db.create_keyspace("new", small_keyspace()).map(drop));
    refused(db.drop_keyspace("other"));
    refused(keyspace.redesign(keyspace.design()));
    refused(db.checkpoint("/copy"));
    assert!(db.get("late 3").unwrap().is_some());
}

#[test]
fn what_is_no_database_stays_none() {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("/empty")).unwrap();
    for dir in ["/empty", "/missing"] {
        let (options, faults) = unwritable(&fs, EROFS);
        let opened = options.open(dir);
        assert!(matches!(opened, Err(Error::NotFound { .. })), "{opened:?}");
        assert_eq!(faults.fired(), 0);
    }
    assert!(!fs.exists(Path::new("/missing")).unwrap() && fs.files().is_empty());
    let both = reader(&fs).error_if_exists(true).open("/empty");
    assert!(matches!(
        both,
        Err(Error::InvalidOption {
            option: "error_if_exists",
            ..
        })
    ));
    // A creation that was cut off wherever it may be.
    let faults = Faults::new();
    let whole = FaultFs::new(Arc::new(MemFs::new()), faults.clone());
    drop(small_options(Arc::new(whole)).open(DIR).unwrap());
    for nth in 0..faults.total() {
        let (fs, faults) = (MemFs::new(), Faults::new());
        faults.add(
            Fault::new(Effect::Fail(FaultError::EIO))
                .after(nth)
                .forever(),
        );
        let cut = FaultFs::new(Arc::new(fs.clone()), faults);
        if let Ok(db) = small_options(Arc::new(cut)).open(DIR) {
            drop(db);
        }
        let before = disk(&fs);
        match reader(&fs).open(DIR) {
            Ok(db) => assert!(contents(&db.default_keyspace()).unwrap().is_empty()),
            Err(Error::NotFound { .. }) => {}
            Err(error) => panic!("{nth}: {error:?}"),
        }
        assert!(disk(&fs) == before);
    }
}

#[test]
fn damage_is_told_as_to_a_writer() {
    let (fs, _) = killed();
    let tables = files_ending(&fs, DIR, ".sst");
    let logs = files_ending(&fs, DIR, ".wal");
    for name in [&tables[0], &logs[0]] {
        let fs = fs.deep_clone();
        fs.remove(&Path::new(DIR).join(name)).unwrap();
        let error = reader(&fs).open(DIR).unwrap_err().to_string();
        let found = reader(&fs).verify(DIR, |_, _| ()).unwrap();
        assert_eq!(found.damaged_files, 1, "{found:?}");
        assert_eq!(found.damaged[0].file, *name);
        let of_writer = small_options(Arc::new(fs)).open(DIR).unwrap_err();
        assert_eq!(error, of_writer.to_string());
    }
}

#[test]
fn logs_that_memory_does_not_hold_are_refused() {
    let fs = MemFs::new();
    let large = || MemoryBudget::bytes(64 << 20);
    let options = Options::new().fs(Arc::new(fs.clone())).memory(large());
    let db = options.open(DIR).unwrap();
    for number in 0..4000u32 {
        db.put(number.to_be_bytes(), [5; 500]).unwrap();
    }
    let fs = fs.kill_clone();
    assert!(files_ending(&fs, DIR, ".sst").is_empty());
    let opened = reader(&fs).open(DIR);
    let Err(Error::LogsExceedMemory { max, needed }) = opened else {
        panic!("{opened:?}");
    };
    // What memtables may take of the least budget.
    assert_eq!(max, 384 << 10);
    let memory = MemoryBudget::bytes(needed);
    let db = reader(&fs).memory(memory.clone()).open(DIR).unwrap();
    assert_eq!(contents(&db.default_keyspace()).unwrap().len(), 4000);
    assert!(memory.usage().budget.used <= needed);
    // Read through without keeping it.
    let found = reader(&fs).verify(DIR, |_, _| ()).unwrap();
    assert_eq!((found.entries, found.unflushed_operations), (0, 4000));
}

/// What the error of logs that are too long names is enough, and little more than that: with many
/// small entries and few large ones, in one keyspace and in several, beside tables.
#[test]
fn the_budget_named_for_long_logs_is_enough_and_little_more() {
    for (keyspaces, entries, value) in [(1u32, 60_000u32, 0), (7, 4_000, 300), (2, 12, 700_000)] {
        let fs = MemFs::new();
        let memory = MemoryBudget::bytes(256 << 20);
        let options = Options::new().fs(Arc::new(fs.clone())).memory(memory);
        let db = options.open(DIR).unwrap();
        let made = (0..keyspaces).map(|number| {
            let (name, options) = (format!("k{number}"), small_keyspace());
            db.create_keyspace(&name, options.write_buffer(8 << 20))
        });
        let made: Vec<_> = made.collect::<Result<_>>().unwrap();
        for number in 0..2000u32 {
            made[0].put(number.to_le_bytes(), [1; 100]).unwrap();
        }
        db.flush().unwrap();
        for number in 0..entries {
            let keyspace = &made[number as usize % made.len()];
            keyspace.put(number.to_le_bytes(), vec![2; value]).unwrap();
        }
        let fs = fs.kill_clone();
        let open = |bytes| {
            let reader = Options::new().fs(Arc::new(fs.clone())).read_only(true);
            reader.memory(MemoryBudget::bytes(bytes)).open(DIR)
        };
        // Large values are refused for a reason of their own under the least.
        let least = if value > 1000 { 2 << 20 } else { MIN_MEMORY };
        for first in [least, 2 * least] {
            let refused = open(first);
            let Err(Error::LogsExceedMemory { needed, .. }) = refused else {
                panic!("{keyspaces}, {value}, {first}: {refused:?}");
            };
            let db = open(needed).unwrap();
            let all = db.keyspaces().into_iter();
            let count = all.map(|name| db.keyspace(&name).unwrap().len().unwrap());
            let count: u64 = count.sum();
            let overwritten = (0..entries.min(2000)).filter(|number| number % keyspaces == 0);
            assert_eq!(
                count,
                u64::from(2000 + entries) - overwritten.count() as u64
            );
            let usage = db.stats().memory.budget;
            assert!(usage.overdraft == 0 && usage.used <= needed, "{usage:?}");
            println!("{keyspaces} keyspaces, values of {value}: {needed} under {first}");
            let little_less = open(needed / 10 * 9);
            let refused = little_less.unwrap_err();
            assert!(
                matches!(refused, Error::LogsExceedMemory { .. }),
                "{refused}"
            );
        }
    }
}

/// Ends the writer, also where a check fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One that writes, flushes and merges all the time, and others that open what it writes: each sees
/// a moment between its beginning and its end, and goes on seeing it.
#[test]
fn readers_beside_a_writer_see_one_moment_each() {
    const VIEWS: u64 = 240;
    // On a machine with other work a writer gets many turns for each of a reader's, who looks for
    // some seconds and not for ever: so it waits, and the database stays small.
    const WRITES_A_VIEW: u64 = 100;
    const KEPT: u64 = 400;
    const KEPT_OTHER: u64 = 600;
    let fs = MemFs::new();
    let writer = small_options(Arc::new(fs.clone())).background_threads(2);
    let db = writer
        .memory(MemoryBudget::bytes(2 << 20))
        .open(DIR)
        .unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    let (written, viewed) = (AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    // Number i is written, and what was so long before it removed; in one batch over two keyspaces.
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let mut kept = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                let mut batch = WriteBatch::new();
                batch.put(key(number), number.to_be_bytes());
                batch.put_in(&other, key(number), number.to_be_bytes().repeat(6));
                if number >= KEPT {
                    batch.delete(key(number - KEPT));
                }
                if number >= KEPT_OTHER {
                    batch.delete_in(&other, key(number - KEPT_OTHER));
                }
                db.write(batch).unwrap();
                written.store(number + 1, Ordering::SeqCst);
                // Some flushes for each look, not hundreds.
                std::thread::sleep(Duration::from_micros(200));
                if number % 500 == 499 {
                    db.compact_range(None, None).unwrap();
                }
                let ahead = || viewed.load(Ordering::SeqCst) < number / WRITES_A_VIEW;
                while ahead() && !done.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if done.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        let end = Done(&done);
        for view_number in 1..=VIEWS {
            let acknowledged = written.load(Ordering::SeqCst);
            // Enough to hold the files of all tables, also of a writer that merges late.
            let reader = reader(&fs).memory(MemoryBudget::bytes(64 << 20));
            let view = reader.clone().open(DIR).unwrap();
            let begun = written.load(Ordering::SeqCst) + 1;
            let of_other = contents(&view.keyspace("other").unwrap()).unwrap();
            let number = |value: &Vec<u8>| u64::from_be_bytes(value[..8].try_into().unwrap());
            let count = of_other
                .values()
                .map(number)
                .max()
                .map_or(0, |last| last + 1);
            assert!(
                (acknowledged..=begun).contains(&count),
                "{acknowledged}..={begun}: {count}"
            );
            assert_eq!(of_other.len() as u64, count.min(KEPT_OTHER));
            let wanted: Map = (count.saturating_sub(KEPT)..count)
                .map(|number| (key(number).to_vec(), number.to_be_bytes().to_vec()))
                .collect();
            let check = |view: &Db| assert!(contents(&view.default_keyspace()).unwrap() == wanted);
            check(&view);
            let found = reader.verify(DIR, |_, _| ()).unwrap();
            assert!(found.is_sound(), "{found:?}");
            viewed.store(view_number, Ordering::SeqCst);
            // Some stay open, while the writer removes what they see.
            if view_number % 24 == 0 {
                kept.push((view, wanted));
            }
        }
        drop(end);
    });
    for (view, wanted) in &kept {
        assert!(contents(&view.default_keyspace()).unwrap() == *wanted);
        for (key, value) in wanted.iter().step_by(7) {
            assert_eq!(view.get(key).unwrap().as_deref(), Some(&value[..]));
        }
    }
    db.close().unwrap();
}

/// Of more tables than may be open, one that is opened late may be gone: that is said.
#[test]
fn tables_that_a_writer_removed_make_a_view_outdated() {
    let fs = MemFs::new();
    let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    for number in 0..6000u32 {
        db.put(number.wrapping_mul(2_654_435_761).to_be_bytes(), [1; 60])
            .unwrap();
    }
    db.flush().unwrap();
    assert!(files_ending(&fs, DIR, ".sst").len() > 40);
    let few = reader(&fs).max_open_files(16).open(DIR).unwrap();
    let all = reader(&fs).open(DIR).unwrap();
    let wanted = contents(&db.default_keyspace()).unwrap();
    db.compact_range(None, None).unwrap();
    assert!(contents(&all.default_keyspace()).unwrap() == wanted);
    let outdated = contents(&few.default_keyspace());
    assert!(
        matches!(outdated, Err(Error::Outdated { .. })),
        "{outdated:?}"
    );
    let again = reader(&fs).max_open_files(16).open(DIR).unwrap();
    assert!(contents(&again.default_keyspace()).unwrap() == wanted);
}
