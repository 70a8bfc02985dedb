//! Want of space, of files or of memory that passes: what met it gives a typed error and leaves
//! nothing behind, the next write goes on, and background work is tried again. Nothing acknowledged
//! is lost, and of what was refused nothing comes back. `SHAMBA_SEED` tries one case.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::history::{EXPIRES, Write, fits_transaction, to_batch, to_transaction};
use crate::common::story::{Story, told};
use crate::common::{
    Map, Replay, contents, env_number, files_ending, on_every_core, small_keyspace, small_options,
};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};
use shamba::{
    Db, Durability, Error, KeyspaceOptions, ManualClock, Options, RecoveryMode, WriteOptions,
};

const DIR: &str = "/db";
/// The process, or the system, has too many files open.
const EMFILE: FaultError = FaultError::Os(24);
const ENFILE: FaultError = FaultError::Os(23);
/// A quota is used up.
const EDQUOT: FaultError = FaultError::Os(122);

/// How long something may take that must happen some time.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is scarce, and where.
const SHORTAGES: [(FaultError, Op, &str); 16] = [
    (FaultError::ENOSPC, Op::Append, ".wal"),
    (EDQUOT, Op::Append, ".wal"),
    (FaultError::ENOSPC, Op::Create, ".wal"),
    (EMFILE, Op::Create, ".wal"),
    (ENFILE, Op::Create, ".wal"),
    (EMFILE, Op::SyncDir, "db"),
    (ENFILE, Op::SyncDir, "db"),
    (FaultError::ENOSPC, Op::Append, "MANIFEST-000001"),
    (FaultError::ENOSPC, Op::Append, "MARKS-000001"),
    (FaultError::ENOSPC, Op::Append, ".sst"),
    (FaultError::ENOSPC, Op::Create, ".sst"),
    (EMFILE, Op::Create, ".sst"),
    (EMFILE, Op::Open, ".sst"),
    (FaultError::ENOSPC, Op::Append, ""),
    (FaultError::ENOSPC, Op::Create, ""),
    (EMFILE, Op::Create, ""),
];

/// Where nothing expires: the clock stands still.
fn options_on(fs: impl Fs + 'static) -> Options {
    small_options(Arc::new(fs))
        .clock(Arc::new(ManualClock::new()))
        .merge_operator("default", Story { combines: true })
        .keyspace(small_keyspace().value_files_from(16 << 10))
}

fn options(fs: &MemFs, faults: &Faults, threads: usize) -> Options {
    let fs = FaultFs::new(Arc::new(fs.clone()), faults.clone());
    options_on(fs).background_threads(threads)
}

/// The key of a part of a batch.
fn key(number: u64, part: u64) -> Vec<u8> {
    format!("{:05}-{part}", number * 7919 % 100_003).into_bytes()
}

/// Writes a batch of a few keys, none of which is written again, alone or as a transaction; notes
/// whether it was acknowledged. Some are merged into or have a time to live; some batches also
/// delete all of one that was before, as a range.
fn write(db: &Db, number: u64, durability: Durability, kept: &mut Map, refused: &mut Vec<Vec<u8>>) {
    let mut batch = Vec::new();
    let mut entries = Map::new();
    // Some records pass the log's buffer by.
    let len = if number % 17 == 3 { 20_000 } else { 90 };
    for part in 0..1 + number % 3 {
        let value = vec![number as u8; len];
        let (write, value) = match (number + part) % 5 {
            0 => (Write::Merge(value.clone()), told(None, [&value[..]])),
            1 => {
                let value = [EXPIRES.as_bytes(), &value].concat();
                (Write::Put(value.clone()), value)
            }
            _ => (Write::Put(value.clone()), value),
        };
        batch.push(("default", key(number, part), write));
        entries.insert(key(number, part), value);
    }
    let before = number.checked_sub(5).filter(|_| number % 7 == 6);
    if let Some(before) = before {
        let range = Write::DeleteRange(key(before, 9));
        batch.push(("default", key(before, 0), range));
    }
    let options = WriteOptions::new().durability(Some(durability));
    let written = if number % 4 == 1 && fits_transaction(&batch) {
        to_transaction(db, &batch).and_then(|transaction| transaction.commit_with(options))
    } else {
        db.write_with(to_batch(db, &batch).unwrap(), options)
    };
    match written {
        Ok(()) => {
            kept.append(&mut entries);
            if let Some(before) = before {
                kept.retain(|at, _| !(key(before, 0)..key(before, 9)).contains(at));
            }
        }
        Err(Error::Io { .. } | Error::Stalled { .. }) => refused.extend(entries.into_keys()),
        Err(error) => panic!("write {number}: {error:?}"),
    }
}

fn check(db: &Db, kept: &Map, refused: &[Vec<u8>]) {
    for key in refused {
        assert_eq!(db.get(key).unwrap(), None, "{:?}", key.escape_ascii());
    }
    assert!(contents(&db.default_keyspace()).unwrap() == *kept);
}

/// One shortage, met at every so many operations of its kind, for a while each.
fn survive(case: u64) {
    let (error, op, path) = SHORTAGES[(case / 4) as usize % SHORTAGES.len()];
    let threads = if case.is_multiple_of(2) { 0 } else { 2 };
    let durability = match case / 2 % 2 {
        0 => Durability::Buffered,
        _ => Durability::Synced,
    };
    let _replay = Replay(format!(
        "SHAMBA_SEED={case} cargo test -p shamba --test engine shortage: {error:?} at {op:?} of *{path}, \
         {threads} threads, {durability:?}"
    ));
    let (fs, faults) = (MemFs::new(), Faults::new());
    let db = options(&fs, &faults, threads).open(DIR).unwrap();
    let (mut kept, mut refused) = (Map::new(), Vec::new());
    let (mut number, mut met) = (0, 0);
    for (skip, times) in [(0, 1), (1, 1), (2, 3), (0, 7), (5, 2), (0, 40)] {
        let fault = Fault::new(Effect::Fail(error)).on(op).path_ending(path);
        faults.add(fault.after(skip).times(times));
        for _ in 0..60 {
            write(&db, number, durability, &mut kept, &mut refused);
            number += 1;
        }
        met += faults.fired();
        faults.clear();
        faults.reset_counts();
        // By itself, without being asked to.
        let began = Instant::now();
        loop {
            let before = refused.len();
            write(&db, number, durability, &mut kept, &mut refused);
            number += 1;
            if refused.len() == before {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "writes never went on");
            std::thread::sleep(Duration::from_millis(5));
        }
        check(&db, &kept, &refused);
    }
    assert!(met > 5, "met {met} times only");
    // As a killed process leaves it, and a power failure.
    let mut left = vec![(fs.kill_clone(), RecoveryMode::AbsoluteConsistency)];
    if durability == Durability::Synced {
        let crashed = (0..3).map(|seed| fs.crash_clone(case * 3 + seed));
        left.extend(crashed.map(|fs| (fs, RecoveryMode::TolerateTornTail)));
    }
    for (fs, mode) in left {
        let db = options_on(fs).recovery(mode).open(DIR).unwrap();
        check(&db, &kept, &refused);
        db.verify().unwrap().check().unwrap();
    }
    let began = Instant::now();
    // One that failed rests for a while.
    while let Err(error) = db.wait_for_compaction() {
        assert!(began.elapsed() < PATIENCE, "{error}");
        std::thread::sleep(Duration::from_millis(20));
        write(&db, number, durability, &mut kept, &mut refused);
        number += 1;
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    check(&db, &kept, &refused);
    let stats = db.stats();
    assert!(stats.counters.operands_collapsed > 0 && stats.keyspaces[0].values.files > 0);
    db.close().unwrap();
    // Nothing that was begun lies about.
    let tables = files_ending(&fs, DIR, ".sst").len();
    assert_eq!(files_ending(&fs, DIR, ".wal"), Vec::<String>::new());
    assert_eq!(files_ending(&fs, DIR, ".tmp"), Vec::<String>::new());
    let db = options(&fs, &faults, 0).open(DIR).unwrap();
    let stats = db.stats();
    let [keyspace] = &stats.keyspaces[..] else {
        panic!("one keyspace");
    };
    let files = keyspace.levels.iter().map(|level| level.files);
    assert_eq!(files.sum::<usize>() + keyspace.values.files, tables);
    check(&db, &kept, &refused);
}

#[test]
fn writes_go_on_when_what_was_scarce_is_there_again() {
    if let Some(case) = env_number("SHAMBA_SEED") {
        return survive(case);
    }
    on_every_core(4 * SHORTAGES.len() as u64, survive);
}

/// A log's record that stays torn, because even cutting it off fails, still stops writes.
#[test]
fn what_cannot_be_cut_off_stops_writes() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    let db = options(&fs, &faults, 0).open(DIR).unwrap();
    db.put("before", "1").unwrap();
    let at = |op| Fault::new(Effect::Fail(FaultError::ENOSPC)).on(op);
    faults.add(at(Op::Append).path_ending(".wal"));
    faults.add(at(Op::CutBack));
    assert!(matches!(db.put("torn", "1"), Err(Error::Io { .. })));
    assert!(matches!(db.put("after", "1"), Err(Error::Poisoned { .. })));
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get("torn").unwrap(), None);
    let db = options_on(fs.kill_clone()).open(DIR).unwrap();
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
}

/// A sync that failed is not tried again, whatever it says was scarce.
#[test]
fn a_sync_without_room_stops_writes() {
    for (op, path) in [
        (Op::Sync, ".wal"),
        (Op::SyncDir, ""),
        (Op::Sync, "MANIFEST-000001"),
    ] {
        let (fs, faults) = (MemFs::new(), Faults::new());
        let db = options(&fs, &faults, 0).open(DIR).unwrap();
        let full = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(op);
        faults.add(full.path_ending(path));
        let synced = WriteOptions::synced();
        assert!(matches!(
            db.put_with("a", "1", synced),
            Err(Error::Io { .. })
        ));
        let after = db.put("b", "1");
        assert!(
            matches!(after, Err(Error::Poisoned { .. })),
            "{op:?}: {after:?}"
        );
    }
}

/// An open that finds no room leaves the folder as it was, however often it is tried.
#[test]
fn opens_without_room_leave_nothing_behind() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    let db = options(&fs, &faults, 0).open(DIR).unwrap();
    let mut kept = Map::new();
    for number in 0..50 {
        write(
            &db,
            number,
            Durability::Buffered,
            &mut kept,
            &mut Vec::new(),
        );
    }
    let whole = fs.kill_clone();
    // Of a log that is torn tables are made.
    let torn = whole.deep_clone();
    let log = Path::new(DIR).join(files_ending(&torn, DIR, ".wal").remove(0));
    let mut bytes = torn.read_file(&log).unwrap();
    bytes.push(7);
    torn.write_file(&log, &bytes).unwrap();
    for (disk, least) in [(whole, 8), (torn, 12)] {
        opens_without_room(&disk, &kept, least);
    }
}

fn opens_without_room(disk: &MemFs, kept: &Map, least: u32) {
    let names = |fs: &MemFs| {
        let mut names = fs.list(Path::new(DIR)).unwrap();
        names.sort_by(|a, b| a.name.cmp(&b.name));
        names
    };
    let before = names(disk);
    let mut refused = 0;
    for op in [Op::Append, Op::Create] {
        for (nth, path) in (0..12).flat_map(|nth| [(nth, ""), (nth, "CURRENT.tmp")]) {
            let fault = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(op);
            let faults = Faults::new();
            faults.add(fault.after(nth).path_ending(path).forever());
            let disk = disk.deep_clone();
            let opened = options(&disk, &faults, 0).open(DIR);
            let Err(error) = opened else { continue };
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
            refused += 1;
            if nth < 3 {
                assert_eq!(names(&disk), before, "{op:?} {nth} {path}");
            }
            // As many as one that succeeded leaves, and the tables made of the log.
            let count = |suffix: &str| files_ending(&disk, DIR, suffix).len();
            let manifests = names(&disk)
                .iter()
                .filter(|e| e.name.contains("MANIFEST"))
                .count();
            assert_eq!((manifests, count(".tmp")), (1, 0), "{op:?} {nth} {path}");
            let db = options_on(disk).open(DIR).unwrap();
            assert!(contents(&db.default_keyspace()).unwrap() == *kept);
        }
    }
    assert!(refused >= least, "{refused}");
}

/// The folder of a new database is durable when the database is, also if an open before failed at
/// that.
#[test]
fn a_folder_that_a_failed_open_made_is_durable() {
    let dir = Path::new("/deep/below/db");
    for nth in 0..8 {
        let (fs, faults) = (MemFs::new(), Faults::new());
        faults.add(Fault::new(Effect::Fail(EMFILE)).on(Op::SyncDir).after(nth));
        // Where it comes at last it fails a write, not the open.
        let opened = options(&fs, &faults, 0).open(dir);
        let db = opened.or_else(|_| options(&fs, &faults, 0).open(dir));
        let db = db.unwrap();
        while db.put_with("k", "v", WriteOptions::synced()).is_err() {}
        for seed in 0..8 {
            let db = options_on(fs.crash_clone(seed)).open(dir);
            let db = db.unwrap();
            assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]), "{nth}");
        }
    }
}

/// Two keyspaces, of which one alone is tried: who waits for the other is told all the same.
#[test]
fn a_flush_that_fails_for_one_keyspace_ends_for_another() {
    for (nth, effect) in [FaultError::ENOSPC, FaultError::EIO]
        .into_iter()
        .enumerate()
    {
        let (fs, faults) = (MemFs::new(), Faults::new());
        let db = options(&fs, &faults, 0).open(DIR).unwrap();
        let other = db
            .create_keyspace("other", KeyspaceOptions::default())
            .unwrap();
        faults.add(
            Fault::new(Effect::Fail(effect))
                .on(Op::Create)
                .path_ending(".sst")
                .forever(),
        );
        let mut tried = 0;
        for round in 0..8u8 {
            if db.put("a", [round]).is_err() || other.put("a", [round]).is_err() {
                break;
            }
            let before = faults.total();
            assert!(db.flush().is_err(), "{nth} {round}");
            tried = faults.total() - before;
            assert!(tried < 1000, "{nth} {round}: {tried} operations");
        }
        assert!(tried > 0);
        faults.clear();
        db.flush().unwrap();
        let last = other.get("a").unwrap().unwrap();
        db.close().unwrap();
        let db = options_on(fs).open(DIR).unwrap();
        assert_eq!(
            db.keyspace("other").unwrap().get("a").unwrap().unwrap(),
            last
        );
    }
}
