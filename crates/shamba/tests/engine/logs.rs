//! The write-ahead logs of a database: how many are kept, and that none is lost, damaged or
//! exchanged without notice, whatever tables hold already.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::small_keyspace;
use shamba::fs::{Fs, MemFs};
use shamba::{
    Db, Durability, Error, KeyspaceOptions, MemoryBudget, Options, RecoveryMode, Result,
    WriteBatch, WriteOptions,
};

const DIR: &str = "/db";

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(8 << 20))
        .background_threads(0)
        .keyspace(small_keyspace())
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "wal")
}

/// The logs in the folder, oldest first.
fn logs(fs: &MemFs) -> Vec<PathBuf> {
    let mut logs = fs.files();
    logs.retain(|path| is_log(path));
    logs.sort();
    logs
}

#[test]
fn a_keyspace_that_is_hardly_written_keeps_few_logs() {
    for threads in [0, 1] {
        let fs = MemFs::new();
        let db = options(&fs).background_threads(threads).open(DIR).unwrap();
        // One whose number comes before the busy one's and one after.
        let idle = db.create_keyspace("idle", small_keyspace()).unwrap();
        idle.put("k", "v").unwrap();
        db.put("k", "v").unwrap();
        let busy = db.create_keyspace("busy", small_keyspace()).unwrap();
        let late = db.create_keyspace("late", small_keyspace()).unwrap();
        late.put("k", "v").unwrap();
        let mut most = 0;
        for i in 0..12_000u32 {
            busy.put(format!("{:05}", i % 997), [7; 400]).unwrap();
            most = most.max(logs(&fs).len());
        }
        // 64 closed ones, the one being written, and with a thread those that wait for it.
        assert!(most <= 64 + 8, "{threads} threads: {most} logs");
        assert!(db.stats().counters.flushes > 200);
        for keyspace in [&idle, &late, &db.default_keyspace()] {
            assert_eq!(keyspace.get("k").unwrap().as_deref(), Some(&b"v"[..]));
        }
        db.close().unwrap();
        assert_eq!(logs(&fs), [] as [PathBuf; 0]);
    }
}

fn with(durability: Durability) -> WriteOptions {
    WriteOptions::new().durability(durability)
}

/// A database that was killed: batches `0..batches`, each over two keyspaces, some of them in
/// tables.
struct Killed {
    fs: MemFs,
    batches: u32,
}

/// The default keyspace is flushed every few batches. The other one keeps all in its memtable, so
/// that every log is needed.
fn killed(durability: Durability, logs_wanted: usize, after_the_last_flush: u32) -> Killed {
    let fs = MemFs::new();
    let large = KeyspaceOptions::new().write_buffer(1 << 20);
    let db = options(&fs).open(DIR).unwrap();
    let other = db.create_keyspace("other", large).unwrap();
    let mut batches = 0u32;
    let mut left = after_the_last_flush;
    while left > 0 {
        let mut batch = WriteBatch::new();
        let number = batches.to_be_bytes();
        batch.put(number, [7; 200]);
        batch.put_in(&other, number, [8; 20]);
        batch.put("last", number);
        batch.put_in(&other, "last", number);
        db.write_with(batch, with(durability)).unwrap();
        batches += 1;
        if logs(&fs).len() >= logs_wanted && db.stats().counters.flushes as usize >= logs_wanted {
            left -= 1;
        }
    }
    Killed {
        fs: fs.kill_clone(),
        batches,
    }
}

fn recovering(fs: &MemFs, mode: RecoveryMode) -> Result<Db> {
    options(fs)
        .recovery(mode)
        .create_if_missing(false)
        .open(DIR)
}

/// How many batches a database holds, if it holds whole ones from the first on and nothing else.
fn whole_batches(db: &Db) -> Option<u32> {
    let other = db.keyspace("other").unwrap();
    let last = |found: Option<shamba::Value>| match found.as_deref() {
        Some(number) => u32::from_be_bytes(number.try_into().unwrap()) + 1,
        None => 0,
    };
    let count = last(db.get("last").unwrap());
    let same = last(other.get("last").unwrap()) == count
        && (0..count + 50).all(|i| {
            let number = i.to_be_bytes();
            let there = (db.get(number).unwrap(), other.get(number).unwrap());
            (there.0.is_some(), there.1.is_some()) == (i < count, i < count)
        });
    same.then_some(count)
}

fn file_of(error: &Error) -> PathBuf {
    match error {
        Error::Corruption { file, .. } => file.clone(),
        other => panic!("{other:?}"),
    }
}

const STRICT: [RecoveryMode; 2] = [
    RecoveryMode::TolerateTornTail,
    RecoveryMode::AbsoluteConsistency,
];

#[test]
fn what_is_whole_is_recovered_in_every_mode() {
    for durability in [Durability::Buffered, Durability::Synced] {
        let killed = killed(durability, 4, 5);
        for mode in STRICT.into_iter().chain([RecoveryMode::PointInTime]) {
            let db = recovering(&killed.fs.kill_clone(), mode).unwrap();
            assert_eq!(whole_batches(&db), Some(killed.batches), "{mode:?}");
        }
    }
}

/// After a kill the logs are kept, and the memtables made of them: an open writes no table, however
/// many keyspaces there are, and is killed and opened again without loss.
#[test]
fn an_open_after_a_kill_writes_no_tables() {
    let mut fs = MemFs::new();
    let name = |number: u32| format!("k{number:03}");
    let rounds = 5u32;
    for round in 0..rounds {
        let db = options(&fs).open(DIR).unwrap();
        assert_eq!(db.stats().counters.flushes, 0, "round {round}");
        assert_eq!(logs(&fs).len(), round as usize);
        for number in 0..100 {
            let create = || db.create_keyspace(&name(number), small_keyspace()).unwrap();
            let keyspace = db.keyspace(&name(number)).unwrap_or_else(|_| create());
            let before = keyspace.get("last").unwrap();
            let known = before.map(|value| u32::from_be_bytes(value[..].try_into().unwrap()));
            assert_eq!(known, round.checked_sub(1));
            keyspace.put("last", round.to_be_bytes()).unwrap();
            keyspace.put(round.to_be_bytes(), [7; 20]).unwrap();
        }
        fs = fs.kill_clone();
    }
    assert!(
        !fs.files()
            .iter()
            .any(|path| path.extension() == Some("sst".as_ref()))
    );
    let db = options(&fs).open(DIR).unwrap();
    let keyspaces = db.stats().keyspaces;
    let operations = keyspaces
        .iter()
        .map(|keyspace| keyspace.workload.operations);
    assert_eq!(
        operations.sum::<f64>(),
        0.0,
        "nobody wrote now what was replayed"
    );
    db.close().unwrap();
    assert_eq!(logs(&fs), [] as [PathBuf; 0]);
    let db = options(&fs).open(DIR).unwrap();
    for number in 0..100 {
        let keyspace = db.keyspace(&name(number)).unwrap();
        let last = (rounds - 1).to_be_bytes();
        assert_eq!(keyspace.get("last").unwrap().as_deref(), Some(&last[..]));
        assert!((0..rounds).all(|round| keyspace.get(round.to_be_bytes()).unwrap().is_some()));
    }
}

/// What an earlier open kept of the logs is given up like any log: when nobody needs it, and when
/// there are too many.
#[test]
fn logs_of_earlier_runs_do_not_pile_up() {
    let mut fs = MemFs::new();
    let mut flushes = 0;
    for run in 0..150u32 {
        let db = options(&fs).open(DIR).unwrap();
        flushes += db.stats().counters.flushes;
        assert!(logs(&fs).len() <= 64 + 1, "run {run}");
        db.put(run.to_be_bytes(), "v").unwrap();
        if run == 30 {
            db.flush().unwrap();
            assert_eq!(logs(&fs), [] as [PathBuf; 0], "all is in tables");
        }
        fs = fs.kill_clone();
    }
    assert!((1..=2).contains(&flushes), "{flushes}");
    let db = options(&fs).open(DIR).unwrap();
    assert!((0..150u32).all(|run| db.get(run.to_be_bytes()).unwrap().is_some()));
}

/// A log that was cut off where a record ends looks whole, and is not where it is known to have
/// been longer: nothing may follow it.
#[test]
fn a_log_that_was_longer_is_given_up_at_once() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    for number in 0..10u32 {
        db.put(number.to_be_bytes(), "v").unwrap();
    }
    // The open after this takes note of how far it reached.
    let fs = fs.kill_clone();
    let fs = {
        let _db = options(&fs).open(DIR).unwrap();
        fs.kill_clone()
    };
    let log = logs(&fs).remove(0);
    let bytes = fs.read_file(&log).unwrap();
    // Behind a header of 44 bytes.
    let record = (bytes.len() - 44) / 10;
    fs.write_file(&log, &bytes[..bytes.len() - record]).unwrap();
    let refused = options(&fs).open(DIR).unwrap_err();
    assert!(refused.is_corruption(), "{refused}");
    let db = recovering(&fs, RecoveryMode::PointInTime).unwrap();
    db.put("later", "v").unwrap();
    let fs = fs.kill_clone();
    let db = options(&fs).open(DIR).unwrap();
    let there = |number: &u32| db.get(number.to_be_bytes()).unwrap().is_some();
    assert!((0..10).filter(there).eq(0..9));
    assert!(db.get("later").unwrap().is_some());
}

/// A log whose end is torn off is not read again behind later ones: what was in it is in tables at
/// once.
#[test]
fn a_torn_log_is_given_up_at_once() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    for number in 0..10u32 {
        db.put(number.to_be_bytes(), "v").unwrap();
    }
    let fs = fs.kill_clone();
    let log = logs(&fs).remove(0);
    let bytes = fs.read_file(&log).unwrap();
    fs.write_file(&log, &bytes[..bytes.len() - 1]).unwrap();
    let db = options(&fs).open(DIR).unwrap();
    assert_eq!((logs(&fs), db.stats().counters.flushes), (vec![], 1));
    let there = |number: &u32| db.get(number.to_be_bytes()).unwrap().is_some();
    assert!((0..10).filter(there).eq(0..9));
}

#[test]
fn a_missing_log_is_noticed() {
    for durability in [Durability::Buffered, Durability::Synced] {
        let killed = killed(durability, 4, 5);
        let all = logs(&killed.fs);
        assert!(all.len() >= 4, "{all:?}");
        for lost in &all {
            let fs = killed.fs.kill_clone();
            fs.remove(lost).unwrap();
            let what = format!("{durability:?}, {} missing", lost.display());
            for mode in STRICT {
                let error = recovering(&fs, mode).expect_err(&what);
                assert_eq!(&file_of(&error), lost, "{what}, {mode:?}: {error}");
                assert!(error.to_string().contains("missing"), "{what}: {error}");
            }
            let found = options(&fs).verify(DIR, |_, _| {}).unwrap();
            assert!(!found.is_sound(), "{what}");
            assert_eq!(
                found.damaged[0].file,
                lost.file_name().unwrap().to_str().unwrap()
            );
            // Nothing was changed by those who refused.
            let db = recovering(&fs, RecoveryMode::SkipDamaged).unwrap();
            assert!(db.get("last").unwrap().is_some());
        }
        let fs = killed.fs.kill_clone();
        all.iter().for_each(|log| fs.remove(log).unwrap());
        for mode in STRICT.into_iter().chain([RecoveryMode::PointInTime]) {
            let error = recovering(&fs, mode).unwrap_err();
            assert_eq!(file_of(&error), all[0], "{error}");
        }
    }
}

#[test]
fn the_first_and_only_log_is_missed() {
    for durability in [Durability::Buffered, Durability::Synced] {
        let fs = MemFs::new();
        let db = options(&fs).open(DIR).unwrap();
        db.put_with("k", "v", with(durability)).unwrap();
        let killed = fs.kill_clone();
        drop(db);
        killed.remove(&logs(&killed)[0]).unwrap();
        let error = recovering(&killed, RecoveryMode::default()).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    }
}

#[test]
fn a_log_in_the_place_of_another_is_noticed() {
    let killed = killed(Durability::Buffered, 4, 5);
    let all = logs(&killed.fs);
    for (a, b) in [(0, 1), (1, 2), (2, all.len() - 1)] {
        let fs = killed.fs.kill_clone();
        let bytes = [&all[a], &all[b]].map(|log| fs.read_file(log).unwrap());
        fs.write_file(&all[a], &bytes[1]).unwrap();
        fs.write_file(&all[b], &bytes[0]).unwrap();
        for mode in STRICT {
            let error = recovering(&fs, mode).unwrap_err();
            assert_eq!(file_of(&error), all[a], "{error}");
        }
    }
    // One that nobody named.
    let fs = killed.fs.kill_clone();
    let bytes = fs.read_file(&all[0]).unwrap();
    fs.write_file(Path::new(DIR).join("000999.wal"), &bytes)
        .unwrap();
    let error = recovering(&fs, RecoveryMode::default()).unwrap_err();
    assert!(error.to_string().contains("does not name"), "{error}");
}

#[test]
fn a_point_in_time_is_one_that_was() {
    // In each file of logs a byte every so often; and each log missing.
    for durability in [Durability::Buffered, Durability::Synced] {
        let killed = killed(durability, 3, 12);
        let (mut refused, mut recovered) = (0, 0);
        for log in logs(&killed.fs) {
            let sound = killed.fs.read_file(&log).unwrap();
            for at in (0..=sound.len()).step_by(211).chain([sound.len()]) {
                let fs = killed.fs.kill_clone();
                if at == sound.len() {
                    fs.remove(&log).unwrap()
                } else {
                    let mut bytes = sound.clone();
                    bytes[at] ^= 0x10;
                    fs.write_file(&log, &bytes).unwrap();
                }
                match recovering(&fs, RecoveryMode::PointInTime) {
                    Ok(db) => {
                        let count = whole_batches(&db);
                        let what = format!("{}, damaged at {at}", log.display());
                        assert!(count.is_some(), "{what}: a state that never was");
                        assert!(count < Some(killed.batches), "{what}");
                        recovered += 1;
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains("no moment before this"), "{text}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 10 && recovered > 3, "{refused}, {recovered}");
    }
}

#[test]
fn damage_to_the_last_log_before_what_tables_hold_is_noticed() {
    // The flush that made the last log a closed one was the last that was done: nothing in a later
    // record says that this one was durable.
    let killed = killed(Durability::Buffered, 1, 1);
    let all = logs(&killed.fs);
    assert_eq!(all.len(), 1, "{all:?}");
    let sound = killed.fs.read_file(&all[0]).unwrap();
    for at in (0..sound.len()).step_by(61) {
        let fs = killed.fs.kill_clone();
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        fs.write_file(&all[0], &bytes).unwrap();
        for mode in STRICT {
            let error = recovering(&fs, mode).expect_err(&format!("damaged at {at}"));
            assert_eq!(file_of(&error), all[0], "{error}");
        }
        // Cut off where a record ends, or anywhere else.
        fs.write_file(&all[0], &sound[..at]).unwrap();
        for mode in STRICT {
            recovering(&fs, mode).expect_err(&format!("cut off at {at}"));
        }
    }
}

/// A batch of which a part is in a table is whole after damage of any log, or there is an error: in
/// no mode but `SkipDamaged` is half of it found. The log was synced for it, and the manifest says
/// so.
#[test]
fn half_a_batch_is_never_found() {
    const KEYS: u32 = 10;
    let options = |fs: &MemFs| {
        let options = Options::new().fs(Arc::new(fs.clone()));
        let keyspace = KeyspaceOptions::new().write_buffer(8 << 10);
        let options = options.memory(MemoryBudget::bytes(4 << 20));
        options.background_threads(0).keyspace(keyspace)
    };
    let fs = MemFs::new();
    let db = options(&fs).open("/db").unwrap();
    let (mut opened, mut refused) = (0, 0);
    for version in 0..40u32 {
        let mut batch = WriteBatch::new();
        for key in 0..KEYS {
            let mut value = version.to_be_bytes().to_vec();
            value.resize(200 + (version as usize * 13) % 90, 1);
            batch.put(key.to_be_bytes(), value);
        }
        db.write(batch).unwrap();
        let killed = fs.kill_clone();
        for log in logs(&killed) {
            let bytes = killed.read_file(&log).unwrap();
            for mode in [RecoveryMode::TolerateTornTail, RecoveryMode::PointInTime] {
                for cut in [false, true] {
                    let fs = killed.deep_clone();
                    let mut bytes = bytes.clone();
                    if cut {
                        bytes.truncate(bytes.len() - 1);
                    } else {
                        let middle = bytes.len() / 2;
                        bytes[middle] ^= 1;
                    }
                    fs.write_file(&log, &bytes).unwrap();
                    let Ok(db) = options(&fs).recovery(mode).open("/db") else {
                        refused += 1;
                        continue;
                    };
                    opened += 1;
                    let version_of = |key: u32| {
                        let value = db.get(key.to_be_bytes()).unwrap();
                        value.map(|value| value.get(..4).unwrap().to_vec())
                    };
                    let found: Vec<_> = (0..KEYS).map(version_of).collect();
                    assert!(
                        found.windows(2).all(|pair| pair[0] == pair[1]),
                        "after batch {version}, {mode:?}, {}, cut: {cut}: {found:?}",
                        log.display()
                    );
                }
            }
        }
    }
    // Both happen, or the damage misses what this is about.
    assert!(
        opened > 20 && refused > 20,
        "{opened} opened, {refused} refused"
    );
}

fn files_beginning(fs: &MemFs, with: &str) -> Vec<PathBuf> {
    let mut files = fs.files();
    files.retain(|file| {
        file.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(with))
    });
    files
}

#[test]
fn a_lost_current_makes_no_new_database() {
    let fs = MemFs::new();
    let current = Path::new(DIR).join("CURRENT");
    let lost_with = |also: Option<&str>, what: &str| {
        let fs = fs.kill_clone();
        fs.remove(&current).unwrap();
        for file in also.map_or(vec![], |also| files_beginning(&fs, also)) {
            fs.remove(&file).unwrap();
        }
        // Of tables and logs there is none.
        let count = |ext: &str| {
            let files = fs.files().into_iter();
            files
                .filter(|file| file.extension().is_some_and(|found| found == ext))
                .count()
        };
        assert_eq!((count("sst"), count("wal")), (0, 0), "{what}");
        for _ in 0..2 {
            let error = options(&fs).open(DIR).expect_err(what);
            assert_eq!(file_of(&error), current, "{what}: {error}");
            assert!(error.to_string().contains("is there"), "{what}: {error}");
        }
        let error = options(&fs).verify(DIR, |_, _| {}).expect_err(what);
        assert_eq!(file_of(&error), current, "{what}: {error}");
    };
    let lost = |what: &str| {
        for also in [None, Some("MANIFEST-"), Some("MARKS-")] {
            lost_with(also, what);
        }
    };
    let db = options(&fs).open(DIR).unwrap();
    lost("open");
    db.create_keyspace("other", small_keyspace()).unwrap();
    lost("with another keyspace");
    db.close().unwrap();
    lost("closed");
    options(&fs).open(DIR).unwrap().close().unwrap();
    lost("closed again");
}

#[test]
fn positions_go_on_when_no_log_is_left() {
    // A damage that lies before what an earlier life knew to be durable must not be taken for one
    // behind it.
    let fs = MemFs::new();
    for life in 0..3 {
        let db = options(&fs).open(DIR).unwrap();
        let other = db
            .keyspace("other")
            .or_else(|_| db.create_keyspace("other", small_keyspace()));
        let other = other.unwrap();
        for i in 0..100u32 {
            let mut batch = WriteBatch::new();
            batch.put(i.to_be_bytes(), [life; 50]);
            batch.put_in(&other, i.to_be_bytes(), [life; 50]);
            db.write_with(batch, WriteOptions::synced()).unwrap();
        }
        match life {
            0 => db.close().unwrap(),
            1 => drop(db),
            _ => {
                let killed = fs.kill_clone();
                drop(db);
                let db = recovering(&killed, RecoveryMode::AbsoluteConsistency).unwrap();
                for i in 0..100u32 {
                    let found = db.get(i.to_be_bytes()).unwrap();
                    assert_eq!(found.as_deref(), Some(&[life; 50][..]));
                }
            }
        }
    }
}
