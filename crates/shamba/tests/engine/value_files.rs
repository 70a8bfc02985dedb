//! Values in files of their own: that readers see no difference, what merges write, and that space
//! comes back.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::Rng;
use shamba::fs::{
    BlockKind, Effect, Fault, FaultError, FaultFs, Faults, Fs as _, MemFs, MeteredFs, Op,
};
use shamba::{
    Append, CompactionDecision, CompactionFilter, Db, Error, Isolation, IterOptions,
    KeyspaceOptions, ManualClock, MemoryBudget, MergePolicy, Options, Prefix, RecoveryMode, Role,
    Transaction, TransactionOptions, Value, ValueStatistics, WriteBatch, WriteOptions,
};

const KIB: usize = 1 << 10;

fn keyspace() -> KeyspaceOptions {
    KeyspaceOptions::new()
        .write_buffer(64 << 10)
        .target_file(64 << 10)
        .value_files_from(KIB as u64)
}

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(8 << 20))
        .background_threads(0)
        .keyspace(keyspace())
}

fn open(fs: &MemFs) -> Db {
    options(fs).open("/db").unwrap()
}

fn key(number: u64) -> String {
    format!("key {number:06}")
}

/// A value that tells which it is.
fn value(number: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(number);
    (0..len).map(|_| rng.below(256) as u8).collect()
}

fn values(db: &Db) -> ValueStatistics {
    db.stats().keyspaces[0].values
}

fn check(db: &Db, model: &BTreeMap<String, Vec<u8>>) {
    let entries = |iter: &mut dyn Iterator<Item = shamba::Result<(Vec<u8>, Value)>>| {
        iter.map(|entry| entry.unwrap())
            .map(|(key, value)| (key, value.into_vec()))
            .collect::<Vec<_>>()
    };
    let mut expected: Vec<_> = (model.iter())
        .map(|(key, value)| (key.clone().into_bytes(), value.clone()))
        .collect();
    assert!(entries(&mut db.iter()) == expected);
    expected.reverse();
    assert!(entries(&mut db.iter().rev()) == expected);
    for (key, value) in model {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{key}");
        assert!(db.contains_key(key).unwrap());
    }
    let keys: Vec<_> = model.keys().collect();
    let found = db.multi_get(&keys).unwrap();
    for (found, value) in found.iter().zip(model.values()) {
        assert_eq!(found.as_deref(), Some(&value[..]));
    }
}

#[test]
fn values_are_read_from_wherever_they_lie() {
    let mut fs = MemFs::new();
    let mut db = open(&fs);
    let mut model = BTreeMap::new();
    for round in 0..6 {
        for number in 0..40 {
            let len = [10, 1023, 1024, 5000, 20_000][(number + round) as usize % 5];
            let value = value(round * 1000 + number, len);
            db.put(key(number), &value).unwrap();
            model.insert(key(number), value);
        }
        check(&db, &model);
        match round {
            1 => db.flush().unwrap(),
            2 => db.compact_range(None, None).unwrap(),
            3 => {
                drop(db);
                db = open(&fs);
            }
            4 => {
                fs = fs.kill_clone();
                db = open(&fs);
            }
            _ => {}
        }
        check(&db, &model);
        db.verify().unwrap().check().unwrap();
    }
    assert!(values(&db).files > 0);
    // Keys alone read no value.
    let pages = |options: IterOptions| {
        let meter = MeteredFs::new(Arc::new(fs.clone()));
        let db = self::options(&fs).fs(Arc::new(meter.clone()));
        let db = db.read_only(true).open("/db").unwrap();
        let before = meter.counts().reads_of(BlockKind::Data).pages;
        let keys = db.iter_with(options.clone()).map(|entry| entry.unwrap());
        assert!(
            keys.map(|(key, _)| key)
                .eq(model.keys().map(|key| key.as_bytes()))
        );
        let back = db.iter_with(options).rev().map(|entry| entry.unwrap().0);
        assert!(back.eq(model.keys().rev().map(|key| key.as_bytes())));
        meter.counts().reads_of(BlockKind::Data).pages - before
    };
    let (all, keys) = (
        pages(IterOptions::default()),
        pages(IterOptions::default().keys_only(true)),
    );
    assert!(keys * 5 < all, "{keys} of {all}");
    // Without the option they are as readable, and new ones lie in the tree.
    drop(db);
    let plain = options(&fs).keyspace(keyspace().value_files_from(None));
    let db = plain.open("/db").unwrap();
    check(&db, &model);
}

/// While values are overwritten for long, and nobody asks for a compaction, garbage is bounded in
/// space, and what is written for it in work (ARCHITECTURE.md): each byte of values is written as
/// it comes and at most once for each that is given back.
fn check_that_garbage_is_bounded(policy: MergePolicy) {
    let fs = MemFs::new();
    // What files have beside their entries counts for little.
    let larger = keyspace().write_buffer(256 << 10).target_file(256 << 10);
    let larger = larger.merge_policy(policy);
    let db = options(&fs).keyspace(larger).open("/db").unwrap();
    let mut rng = Rng::new(6);
    // Two pages, with what is beside a value.
    let (keys, len) = (200, 8 * KIB - 300);
    let mut put = 0;
    for round in 0..6000 {
        let number = rng.below(keys);
        db.put(key(number), value(round, len)).unwrap();
        put += len as u64;
        // Short ones lie in the tables.
        db.put(format!("short {:05}", rng.below(3000)), [7; 60])
            .unwrap();
        if round < 1000 || round % 50 > 0 {
            continue;
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        let (stats, found) = (db.stats(), values(&db));
        let levels = stats.keyspaces[0].levels.iter();
        let tables: u64 = levels.map(|level| level.bytes).sum();
        let live = found.value_bytes - found.garbage_bytes;
        // Level 0 points to what was put since it was merged last.
        let most = live + tables + 64 * len as u64;
        assert!(
            found.garbage_bytes <= most,
            "{round}: {found:?}, {tables} of tables"
        );
    }
    let counters = db.stats().counters;
    let written = counters.flush_bytes + counters.compaction_bytes_written;
    let found = values(&db);
    let given_back = put - found.value_bytes;
    let short = 6000 * 100;
    // Values, what was written again of them, tables for it; and entries, merged some times.
    let most = put + 2 * given_back + 12 * short;
    eprintln!(
        "{put} put, {written} written, {given_back} given back, at most {most}: {counters:?}"
    );
    assert!(
        written <= most,
        "{written} written of {put}, {given_back} given back"
    );
}

#[test]
fn garbage_is_bounded_in_space_and_work_as_it_comes() {
    check_that_garbage_is_bounded(MergePolicy::default());
}

#[test]
fn garbage_is_bounded_as_much_with_tiering() {
    check_that_garbage_is_bounded(MergePolicy::Tiering);
}

#[test]
fn garbage_is_bounded_as_much_with_lazy_leveling() {
    check_that_garbage_is_bounded(MergePolicy::LazyLeveling);
}

/// A database with a table that no merge comes to any more and that points to values among garbage:
/// all but the last eighth were written over, by short ones, in tables before it.
fn pointing_to_values_among_garbage(values: u64, len: usize) -> Db {
    const EACH: u64 = 40;
    let fs = MemFs::new();
    // All are in one value file.
    let db = options(&fs).memory(MemoryBudget::bytes(64 << 20));
    let db = db.keyspace(keyspace().write_buffer(4 << 20));
    let db = db.open("/db").unwrap();
    for number in 0..values * EACH {
        match number % EACH {
            0 => db.put(key(number), value(number, len)).unwrap(),
            _ => db.put(key(number), [7; 400]).unwrap(),
        }
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(self::values(&db).files, 1);
    let written_over = (values - values / 8) * EACH;
    for number in (0..written_over).step_by(EACH as usize) {
        db.put(key(number), "short").unwrap();
    }
    db.flush().unwrap();
    let last = key(written_over - EACH);
    db.compact_range(None, Some(last.as_bytes())).unwrap();
    db.wait_for_compaction().unwrap();
    for number in (written_over..values * EACH).step_by(EACH as usize) {
        let read = db.get(key(number)).unwrap();
        assert_eq!(read.as_deref(), Some(&value(number, len)[..]));
    }
    db
}

/// Space comes back of what tables point to that nothing is written to any more.
#[test]
fn garbage_is_given_back_that_no_merge_comes_to() {
    let found = values(&pointing_to_values_among_garbage(24, 8 * KIB));
    let live = 3 * 8 * KIB as u64;
    assert!((live..3 * live).contains(&found.value_bytes), "{found:?}");
    assert!(found.garbage_bytes <= found.value_bytes / 2, "{found:?}");
}

/// Not where more would be written for it than comes back.
#[test]
fn garbage_is_left_that_is_less_than_the_table_that_points_there() {
    let found = values(&pointing_to_values_among_garbage(14, KIB));
    assert!(found.garbage_bytes > found.value_bytes / 2, "{found:?}");
}

/// What merges write does not grow with values, and space comes back.
#[test]
fn garbage_is_given_back_and_values_are_not_merged() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut model = BTreeMap::new();
    let mut rng = Rng::new(5);
    let (keys, len) = (200, 8 * KIB);
    for round in 0..3000 {
        let number = rng.below(keys);
        let value = value(round, len);
        db.put(key(number), &value).unwrap();
        model.insert(key(number), value);
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    check(&db, &model);
    let (live, stats) = (model.len() as u64 * len as u64, values(&db));
    eprintln!("{stats:?} of {live}, {:?}", db.stats().counters);
    assert!(stats.garbage_bytes <= stats.value_bytes / 2, "{stats:?}");
    assert!(stats.value_bytes <= 2 * live, "{stats:?} of {live}");
    drop(db);
    let files = fs.list("/db".as_ref()).unwrap();
    let bytes: u64 = files.iter().map(|file| file.len).sum();
    assert!(bytes < 3 * live, "{bytes} of {live}");
}

/// A reader of so many bytes, of which each tells where it is.
struct Stream {
    at: u64,
    len: u64,
    /// Fails there.
    fails_at: u64,
}

fn stream(len: u64) -> Stream {
    Stream {
        at: 0,
        len,
        fails_at: u64::MAX,
    }
}

fn byte_at(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.fails_at {
            return Err(io::Error::other("the source is gone"));
        }
        // Readers give as much as they like.
        let bytes = (self.len - self.at).min(into.len() as u64).min(10_007) as usize;
        for byte in &mut into[..bytes] {
            *byte = byte_at(self.at);
            self.at += 1;
        }
        Ok(bytes)
    }
}

fn check_stream(mut reader: impl Read, from: u64, len: u64) {
    let mut buffer = vec![0; 30_011];
    let mut at = from;
    loop {
        let bytes = reader.read(&mut buffer).unwrap();
        if bytes == 0 {
            break;
        }
        for byte in &buffer[..bytes] {
            assert_eq!(*byte, byte_at(at), "at {at}");
            at += 1;
        }
    }
    assert_eq!(at, len);
}

fn tables(fs: &MemFs) -> usize {
    crate::common::files_ending(fs, "/db", ".sst").len()
}

#[test]
fn a_value_larger_than_memory_is_put_and_read_under_4_mib() {
    let fs = MemFs::new();
    let budget = MemoryBudget::bytes(4 << 20);
    let options = |fs: &MemFs| {
        Options::new()
            .fs(Arc::new(fs.clone()))
            .memory(budget.clone())
            .background_threads(0)
    };
    let len = 64 << 20;
    let db = options(&fs).open("/db").unwrap();
    db.put("before", "1").unwrap();
    db.put_reader("film", stream(len)).unwrap();
    db.put("gone", "2").unwrap();
    let check = |db: &Db| {
        let reader = db.get_reader("film").unwrap().unwrap();
        assert_eq!(reader.len(), len);
        check_stream(reader, 0, len);
        assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
        assert!(db.contains_key("film").unwrap());
        db.verify().unwrap().check().unwrap();
    };
    check(&db);
    // In the log, in a table, and at the bottom.
    let crashed = fs.kill_clone();
    check(&options(&crashed).open("/db").unwrap());
    db.flush().unwrap();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    let stats = db.stats();
    assert_eq!(stats.keyspaces[0].values.value_bytes, len);
    // Pieces fill pages.
    let bytes = stats.keyspaces[0].values.bytes;
    assert!(bytes < len + len / 40, "{bytes} of {len}");
    assert_eq!(stats.keyspaces[0].values.garbage_bytes, 0);
    let memory = stats.memory.budget;
    assert!(
        memory.peak <= memory.limit && memory.overdraft == 0,
        "{memory:?}"
    );
    // An iterator has no room for it, which it finds out before it is read; its key it has.
    let scanned: Vec<_> = db.iter().collect();
    assert_eq!(scanned.len(), 2);
    assert!(
        matches!(scanned[1], Err(Error::IteratorsExhausted { .. })),
        "{scanned:?}"
    );
    let keys = IterOptions::default().keys_only(true);
    assert_eq!(db.iter_with(keys.clone()).rev().count(), 3);
    assert_eq!(db.transaction().iter_with(keys).count(), 3);
    let memory = db.stats().memory.budget;
    assert!(
        memory.peak <= memory.limit && memory.overdraft == 0,
        "{memory:?}"
    );
    // Bytes are had from anywhere, for about as much as is read.
    let pages = db.stats().counters.data_pages;
    let mut reader = db.get_reader("film").unwrap().unwrap();
    reader.seek(SeekFrom::End(-1000)).unwrap();
    check_stream(&mut reader, len - 1000, len);
    assert_eq!(reader.read(&mut [0; 10]).unwrap(), 0);
    reader.seek(SeekFrom::Start(5)).unwrap();
    let mut few = [0; 4];
    reader.read_exact(&mut few).unwrap();
    assert_eq!(few, [5, 6, 7, 8].map(byte_at));
    assert!(reader.seek(SeekFrom::Current(-10)).is_err());
    assert!(db.stats().counters.data_pages - pages < 30);
    // What a reader or snapshot sees stays as it was.
    let snapshot = db.snapshot();
    db.put_reader("film", stream(100_000)).unwrap();
    db.delete("before").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    check_stream(reader, 9, len);
    check_stream(snapshot.get_reader("film").unwrap().unwrap(), 0, len);
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    check_stream(db.get_reader("film").unwrap().unwrap(), 0, 100_000);
    assert_eq!(values(&db).value_bytes, 100_000);
    drop(db);
    assert!(tables(&fs) <= 3);
}

/// 4 MiB: values of more than 256 KiB are not written whole, and iterators have 1 MiB.
/// What is held of a database that was closed reads nothing more, and says so.
#[test]
fn a_reader_of_a_value_ends_with_its_database() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put_reader("long", stream(1 << 20)).unwrap();
    let mut reader = db.get_reader("long").unwrap().unwrap();
    let mut piece = [0; 1000];
    reader.read_exact(&mut piece).unwrap();
    assert_eq!(piece[999], byte_at(999));
    db.close().unwrap();
    let mut rest = Vec::new();
    let error = reader.read_to_end(&mut rest).unwrap_err();
    let is_closed = error.get_ref().and_then(|inner| inner.downcast_ref());
    assert!(matches!(is_closed, Some(Error::Closed)), "{error:?}");
    drop(reader);
    check_stream(open(&fs).get_reader("long").unwrap().unwrap(), 0, 1 << 20);
}

fn under_4_mib(fs: Arc<dyn shamba::fs::Fs>) -> Options {
    Options::new()
        .fs(fs)
        .memory(MemoryBudget::bytes(4 << 20))
        .background_threads(0)
        .merge_operator("default", Append)
}

/// Long values of two keyspaces, one key twice, beside short ones and a deletion.
fn batch_of_long_values(db: &Db) -> WriteBatch {
    let films = db.keyspace("films").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("first", value(1, 300 * KIB));
    batch.put_in(&films, "first", value(2, 1500 * KIB));
    batch.put("short", "1");
    batch.delete("gone");
    batch.put("first", value(3, 400 * KIB));
    batch.merge("list", "b");
    batch
}

/// The same as a transaction, in which more was written that is taken back.
fn transaction_of_long_values(db: &Db) -> shamba::Result<Transaction> {
    let films = db.keyspace("films").unwrap();
    let mut transaction = db.transaction();
    transaction.put("first", value(1, 300 * KIB))?;
    transaction.put_reader_in(&films, "first", &value(2, 1500 * KIB)[..])?;
    transaction.set_savepoint();
    transaction.put_in(&films, "first", value(4, 600 * KIB))?;
    transaction.rollback_to_savepoint()?;
    transaction.put("short", "1")?;
    transaction.delete("gone")?;
    transaction.put("first", value(3, 400 * KIB))?;
    transaction.merge("list", "b")?;
    Ok(transaction)
}

fn write_batch(db: &Db, options: WriteOptions) -> shamba::Result<()> {
    db.write_with(batch_of_long_values(db), options)
}

fn commit_transaction(db: &Db, options: WriteOptions) -> shamba::Result<()> {
    transaction_of_long_values(db)?.commit_with(options)
}

/// Whether all of the batch is there, which part of it never is alone.
fn is_written(db: &Db) -> bool {
    let get = |key: &str| db.get(key).unwrap().map(Value::into_vec);
    let film = db.keyspace("films").unwrap().get("first").unwrap();
    let (written, before) = (get("short").is_some(), Some(b"0".to_vec()));
    let gone = if written { None } else { before.clone() };
    assert!(get("gone") == gone);
    let (first, list) = if written {
        (Some(value(3, 400 * KIB)), Some(b"ab".to_vec()))
    } else {
        (before, Some(b"a".to_vec()))
    };
    assert!(get("first") == first && get("list") == list);
    assert!(film.map(Value::into_vec) == written.then(|| value(2, 1500 * KIB)));
    written
}

fn before_long_values(fs: Arc<dyn shamba::fs::Fs>) -> Db {
    let db = under_4_mib(fs).open("/db").unwrap();
    db.create_keyspace("films", KeyspaceOptions::new()).unwrap();
    for key in ["first", "gone"] {
        db.put(key, "0").unwrap();
    }
    db.merge("list", "a").unwrap();
    db.flush().unwrap();
    db
}

#[test]
fn a_batch_with_long_values_is_there_whole_or_not_at_all() {
    assert!(fail_at_every_operation(write_batch) > 30);
}

#[test]
fn a_transaction_with_long_values_is_there_whole_or_not_at_all() {
    assert!(fail_at_every_operation(commit_transaction) > 30);
}

/// Has a write of long values fail at each of its operations on storage; how often it did and more
/// could be written.
fn fail_at_every_operation(write: fn(&Db, WriteOptions) -> shamba::Result<()>) -> usize {
    let mut failures = 0;
    for op in [Op::Append, Op::Create, Op::Sync, Op::SyncDir] {
        for after in 0..1000 {
            let (fs, faults) = (MemFs::new(), Faults::new());
            let faulty = FaultFs::new(Arc::new(fs.clone()), faults.clone());
            let db = before_long_values(Arc::new(faulty));
            let before = tables(&fs);
            let fault = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(op);
            faults.add(fault.after(after));
            let written = write(&db, WriteOptions::synced());
            assert!(written.is_ok() || faults.fired() > 0, "{written:?}");
            // What a sync failed for stops writes, and then nobody knows.
            if written.is_ok() || db.stats().writes_stopped.is_none() {
                assert_eq!(is_written(&db), written.is_ok());
            }
            if written.is_err() && db.stats().writes_stopped.is_none() {
                assert_eq!(tables(&fs), before, "files are left, {op:?} {after}");
                failures += 1;
                write(&db, WriteOptions::default()).unwrap();
                assert!(is_written(&db));
            }
            let crashed = under_4_mib(Arc::new(fs.crash_clone(after)));
            let crashed = crashed.open("/db").unwrap();
            assert!(is_written(&crashed) || written.is_err());
            crashed.verify().unwrap().check().unwrap();
            if faults.fired() == 0 {
                break;
            }
        }
    }
    failures
}

#[test]
fn a_transaction_reads_its_long_values_and_leaves_no_file_unless_it_is_committed() {
    let fs = MemFs::new();
    let db = before_long_values(Arc::new(fs.clone()));
    let (long, other) = (value(1, 300 * KIB), value(2, 400 * KIB));
    let before = tables(&fs);
    let reads = |tx: &Transaction, wanted: &[u8]| {
        assert!(*tx.get("first").unwrap().unwrap() == *wanted);
        assert!(
            *tx.multi_get(&["gone", "first"]).unwrap()[1]
                .as_deref()
                .unwrap()
                == *wanted
        );
        assert!(tx.contains_key("first").unwrap());
        let mut pieces = Vec::new();
        let reader = tx.get_reader("first").unwrap();
        reader.unwrap().read_to_end(&mut pieces).unwrap();
        assert!(pieces == wanted);
        let forward = tx.iter().map(|entry| entry.unwrap());
        let mut all: Vec<_> = forward
            .map(|(key, value)| (key, value.into_vec()))
            .collect();
        assert!(all[0] == (b"first".to_vec(), wanted.to_vec()));
        let backward = tx.iter().rev().map(|entry| entry.unwrap());
        let backward = backward.map(|(key, value)| (key, value.into_vec()));
        all.reverse();
        assert!(all == backward.collect::<Vec<_>>());
        let keys = tx.iter_with(IterOptions::default().keys_only(true));
        assert_eq!(keys.count(), 3);
    };
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let mut tx = db.transaction_with(TransactionOptions::new().isolation(isolation));
        tx.put("first", &long).unwrap();
        assert!(tables(&fs) > before);
        reads(&tx, &long);
        tx.set_savepoint();
        tx.put_reader("first", &other[..]).unwrap();
        reads(&tx, &other);
        tx.rollback_to_savepoint().unwrap();
        reads(&tx, &long);
        // What is merged into it, it is merged into.
        tx.merge("first", "and more").unwrap();
        reads(&tx, &[&long[..], b"and more"].concat());
        // What others read, flush and merge meanwhile does not concern it.
        assert_eq!(db.get("first").unwrap().as_deref(), Some(&b"0"[..]));
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        reads(&tx, &[&long[..], b"and more"].concat());
        drop(tx);
        assert_eq!(
            (tables(&fs), values(&db).files),
            (before, 0),
            "{isolation:?}"
        );
    }
    // Nor does one whose writes are taken back, and many of them hold no more than one.
    let films = db.keyspace("films").unwrap();
    let mut tx = db.transaction();
    tx.put_in(&films, "kept", &long).unwrap();
    for _ in 0..5 {
        tx.set_savepoint();
        tx.put_in(&films, "second", &long).unwrap();
        tx.rollback_to_savepoint().unwrap();
        assert_eq!(tables(&fs), before + 1);
    }
    tx.delete_in(&films, "kept").unwrap();
    tx.put("short", "1").unwrap();
    tx.rollback();
    assert_eq!(tables(&fs), before);
    let mut tx = db.transaction();
    tx.set_savepoint();
    tx.put_in(&films, "second", &long).unwrap();
    tx.rollback_to_savepoint().unwrap();
    tx.put("short", "1").unwrap();
    tx.commit().unwrap();
    db.delete("short").unwrap();
    assert_eq!(tables(&fs), before);
    // An iterator gives what one of the database would.
    let mut tx = db.transaction();
    tx.put_reader("first", stream(20 << 20)).unwrap();
    let given = tx.iter().next().unwrap();
    assert!(matches!(given, Err(Error::IteratorsExhausted { .. })));
    check_stream(tx.get_reader("first").unwrap().unwrap(), 0, 20 << 20);
    drop(tx);
    assert_eq!(tables(&fs), before);
    // One that has a conflict leaves none either.
    let mut tx = db.transaction();
    tx.get("first").unwrap();
    tx.put("first", &long).unwrap();
    db.put("first", "0").unwrap();
    assert!(matches!(tx.commit(), Err(Error::Conflict { .. })));
    assert_eq!((tables(&fs), values(&db).files), (before, 0));
    // Nor one that outlives its database, once this is opened again.
    let mut tx = db.transaction();
    tx.put("first", &long).unwrap();
    let reader = tx.get_reader("first").unwrap();
    db.close().unwrap();
    drop(tx);
    assert!(reader.unwrap().read_to_end(&mut Vec::new()).is_err());
    let db = under_4_mib(Arc::new(fs.clone())).open("/db").unwrap();
    db.verify().unwrap().check().unwrap();
    assert_eq!(values(&db).files, 0);
    // One that is committed does, and a reader outlives it.
    let mut tx = db.transaction();
    tx.put_reader("film", stream(20 << 20)).unwrap();
    let mine = tx.get_reader("film").unwrap().unwrap();
    tx.commit().unwrap();
    check_stream(mine, 0, 20 << 20);
    check_stream(db.get_reader("film").unwrap().unwrap(), 0, 20 << 20);
    let memory = db.stats().memory.budget;
    assert!(memory.overdraft == 0, "{memory:?}");
}

/// What is short enough when it is put may be too long when it is committed.
#[test]
fn a_transaction_is_committed_under_a_smaller_budget() {
    let memory = MemoryBudget::bytes(16 << 20);
    let options = under_4_mib(Arc::new(MemFs::new())).memory(memory.clone());
    let db = options.open("/db").unwrap();
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        memory.set_limit(16 << 20).unwrap();
        let mut tx = db.transaction_with(TransactionOptions::new().isolation(isolation));
        tx.get("read").unwrap();
        tx.put("a", value(1, 300 * KIB)).unwrap();
        tx.put("b", value(2, 400 * KIB)).unwrap();
        tx.put("c", value(3, 100)).unwrap();
        assert_eq!(values(&db).files, 0, "they are short");
        memory.set_limit(4 << 20).unwrap();
        tx.commit().unwrap();
        let expected = [(1, 300 * KIB), (2, 400 * KIB), (3, 100)];
        for (key, (number, len)) in ["a", "b", "c"].into_iter().zip(expected) {
            assert!(*db.get(key).unwrap().unwrap() == value(number, len));
        }
        assert!(values(&db).files > 0);
        db.delete_range(..).unwrap();
        db.compact_range(None, None).unwrap();
    }
}

#[test]
fn a_long_value_is_swapped_and_updated() {
    let db = before_long_values(Arc::new(MemFs::new()));
    let (long, longer) = (value(1, 300 * KIB), value(2, 400 * KIB));
    let swapped = db.compare_and_swap("first", Some(b"0"), Some(&long));
    assert!(swapped.unwrap().is_ok());
    let before = db.fetch_update("first", |value| {
        assert!(value.unwrap() == long);
        Some(&longer)
    });
    assert!(*before.unwrap().unwrap() == *long);
    assert!(*db.get("first").unwrap().unwrap() == *longer);
}

#[test]
fn long_values_are_put_and_read_as_others() {
    let fs = MemFs::new();
    let mut db = before_long_values(Arc::new(fs.clone()));
    db.write(batch_of_long_values(&db)).unwrap();
    db.put("second", value(4, 700 * KIB)).unwrap();
    let long = value(5, 5 * KIB * KIB);
    let films = db.keyspace("films").unwrap();
    films.put("second", &long).unwrap();
    drop(films);
    let expected = [
        ("first", value(3, 400 * KIB)),
        ("list", b"ab".to_vec()),
        ("second", value(4, 700 * KIB)),
        ("short", b"1".to_vec()),
    ];
    let expected: BTreeMap<_, _> = (expected.into_iter())
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    for step in 0..4 {
        match step {
            0 => {}
            1 => db.flush().unwrap(),
            2 => {
                drop(db);
                db = under_4_mib(Arc::new(fs.clone())).open("/db").unwrap();
            }
            _ => db.compact_range(None, None).unwrap(),
        }
        check(&db, &expected);
        let films = db.keyspace("films").unwrap();
        assert!(*films.get("second").unwrap().unwrap() == *long);
        // One that an iterator has no room for it has in pieces, as it was when it began.
        let mut cursor = films
            .cursor(IterOptions::default().keys_only(true))
            .unwrap();
        cursor.seek_to_last().unwrap();
        films.put("second", "short").unwrap();
        let read = |cursor: &shamba::Cursor| {
            let mut read = Vec::new();
            let reader = cursor.value_reader().unwrap();
            reader.unwrap().read_to_end(&mut read).unwrap();
            read
        };
        assert!(read(&cursor) == long);
        cursor.prev().unwrap();
        assert!(cursor.key() == b"first" && read(&cursor) == value(2, 1500 * KIB));
        cursor.prev().unwrap();
        assert!(cursor.value_reader().unwrap().is_none());
        drop(cursor);
        films.put("second", &long).unwrap();
        db.verify().unwrap().check().unwrap();
    }
    // Operands are not put into files, and keep a batch out that has one.
    let mut batch = WriteBatch::new();
    batch.put("first", value(6, 300 * KIB));
    batch.merge("list", value(7, 300 * KIB));
    let files = tables(&fs);
    let refused = db.write(batch).unwrap_err();
    assert!(matches!(refused, Error::ValueTooLarge { max, .. } if max == 256 * KIB));
    assert_eq!(tables(&fs), files);
    check(&db, &expected);
    let memory = db.stats().memory.budget;
    assert!(memory.overdraft == 0, "{memory:?}");
}

/// A memtable of pointers takes long to fill, and files of values written over stay until then.
#[test]
fn long_values_that_are_written_over_leave_before_the_memtable_is_full() {
    for threads in [0, 1] {
        let fs = MemFs::new();
        let options = under_4_mib(Arc::new(fs.clone())).background_threads(threads);
        let db = options.open("/db").unwrap();
        // Four memtables of half a MiB, and what is being written.
        let (long, much) = (value(1, 300 * KIB), 2 * KIB * KIB);
        let mut most = 0;
        for _ in 0..60 {
            db.put("key", &long).unwrap();
            most = most.max(values(&db).value_bytes);
        }
        assert!(db.stats().counters.flushes > 2);
        assert!(most as usize <= 3 * much, "{most} with {threads} threads");
        assert!(*db.get("key").unwrap().unwrap() == *long);
        drop(db);
        let db = under_4_mib(Arc::new(fs)).open("/db").unwrap();
        assert!(*db.get("key").unwrap().unwrap() == *long);
    }
}

/// Without threads the writer does what a long value makes due, the removal of files included.
#[test]
fn files_that_a_long_value_makes_unused_are_gone_when_it_is_written() {
    let fs = MemFs::new();
    let small = keyspace().write_buffer(8 * KIB as u64).level0_runs(1);
    let db = under_4_mib(Arc::new(fs.clone())).keyspace(small);
    let db = db.open("/db").unwrap();
    for round in 0..10 {
        db.put(key(round), value(round, 100)).unwrap();
        db.put("key", value(round, 300 * KIB)).unwrap();
        let of = &db.stats().keyspaces[0];
        let in_levels: usize = of.levels.iter().map(|level| level.files).sum();
        assert_eq!(tables(&fs), in_levels + of.values.files, "{round}");
    }
    assert!(db.stats().counters.compactions > 5);
}

#[test]
fn a_budget_raised_while_a_batch_is_streamed_mixes_up_no_values() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    let memory = MemoryBudget::bytes(1 << 20);
    let faulty = FaultFs::new(Arc::new(fs.clone()), faults.clone());
    let options = under_4_mib(Arc::new(faulty)).memory(memory.clone());
    let db = options.open("/db").unwrap();
    let raised = memory.clone();
    faults.set_hook(Some(Arc::new(move |op, _: &std::path::Path| {
        if op == Op::Create {
            // Pieces are longer from now on than the values are.
            raised.set_limit(256 << 20).unwrap();
        }
    })));
    // The first is longer than a piece, the next ones are not any more, and the last is.
    let lens = [70_000, 70_000, 80_000, 300_000];
    let mut batch = WriteBatch::new();
    for (number, len) in (0..).zip(lens) {
        batch.put(key(number), value(number, len));
    }
    db.write(batch).unwrap();
    faults.set_hook(None);
    assert_eq!(values(&db).files, 2, "the others were written whole");
    for (number, len) in (0..).zip(lens) {
        assert!(*db.get(key(number)).unwrap().unwrap() == *value(number, len));
    }
}

#[test]
fn a_batch_that_is_too_large_writes_no_file() {
    let fs = MemFs::new();
    let db = under_4_mib(Arc::new(fs.clone())).open("/db").unwrap();
    let before = tables(&fs);
    let mut batch = WriteBatch::new();
    batch.put("long", value(1, 300 * KIB));
    for number in 0..2000 {
        batch.put(key(number), [1; KIB]);
    }
    let before_it = db.stats().counters;
    let refused = db.write(batch).unwrap_err();
    assert!(
        matches!(refused, Error::BatchTooLarge { .. }),
        "{refused:?}"
    );
    assert_eq!(tables(&fs), before);
    assert_eq!(db.stats().counters.flushes, before_it.flushes);
    // As much of long values as one likes.
    let mut batch = WriteBatch::new();
    for number in 0..12 {
        batch.put(key(number), value(number, 300 * KIB));
    }
    assert!(batch.memory() > 3 << 20);
    db.write(batch).unwrap();
    assert!(*db.get(key(11)).unwrap().unwrap() == *value(11, 300 * KIB));
    let mut batch = WriteBatch::new();
    batch.put("a", value(1, 300 * KIB));
    batch.put("b", vec![0; (64 << 20) + 1]);
    let refused = db.write(batch).unwrap_err();
    assert!(matches!(refused, Error::ValueTooLarge { max, .. } if max == 64 << 20));
    assert!(db.get("a").unwrap().is_none());
    assert_eq!(db.stats().memory.budget.overdraft, 0);
}

#[test]
fn a_value_whose_source_fails_leaves_nothing() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put("key", "old").unwrap();
    db.flush().unwrap();
    let before = tables(&fs);
    for fails_at in [0, 100, 40_000, 1_000_000] {
        let source = Stream {
            fails_at,
            ..stream(2_000_000)
        };
        let failed = db.put_reader("key", source).unwrap_err();
        assert!(matches!(failed, Error::ValueSource { .. }), "{failed}");
        assert!(failed.to_string().contains("the source is gone"));
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"old"[..]));
        assert_eq!(tables(&fs), before);
    }
    // Few bytes, or none, are a value as any other.
    for len in [0, 1, 4000, 32_000, 32 << 10, (32 << 10) + 1] {
        db.put_reader("key", stream(len)).unwrap();
        check_stream(db.get_reader("key").unwrap().unwrap(), 0, len);
        assert_eq!(db.get("key").unwrap().unwrap().len() as u64, len);
        assert_eq!(db.iter().count(), 1);
    }
    assert!(db.get_reader("other").unwrap().is_none());
}

#[test]
fn files_that_nothing_points_to_go_and_no_others() {
    let fs = MemFs::new();
    let mut db = open(&fs);
    let len = 50_000;
    // Written over in the memtable: the file goes with the flush.
    for round in 0..4 {
        db.put_reader("key", stream(len + round)).unwrap();
    }
    assert_eq!(values(&db).files, 4);
    db.flush().unwrap();
    assert_eq!(values(&db).files, 1);
    check_stream(db.get_reader("key").unwrap().unwrap(), 0, len + 3);
    // Deleted, with all of a range, by a cleared or dropped keyspace.
    db.put_reader("other", stream(len)).unwrap();
    db.delete("key").unwrap();
    db.delete_range("o".."p").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(values(&db).files, 0);
    let keyspace = db.create_keyspace("films", KeyspaceOptions::new()).unwrap();
    keyspace.put_reader("a", stream(len)).unwrap();
    keyspace.clear().unwrap();
    assert!(keyspace.get_reader("a").unwrap().is_none());
    let cleared = open(&fs.kill_clone());
    assert!(cleared.keyspace("films").unwrap().is_empty().unwrap());
    assert_eq!(
        cleared
            .stats()
            .keyspaces
            .iter()
            .map(|of| of.values.files)
            .sum::<usize>(),
        0
    );
    keyspace.put_reader("a", stream(len)).unwrap();
    check_stream(keyspace.get_reader("a").unwrap().unwrap(), 0, len);
    db.drop_keyspace("films").unwrap();
    drop(keyspace);
    db.flush().unwrap();
    assert_eq!(db.stats().keyspaces.len(), 1);
    // Of what a crash left only what is in the log.
    db.put_reader("key", stream(len)).unwrap();
    for _ in 0..3 {
        drop(db);
        db = open(&fs);
        check_stream(db.get_reader("key").unwrap().unwrap(), 0, len);
    }
    db.put("a", "b").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    check_stream(db.get_reader("key").unwrap().unwrap(), 0, len);
    assert_eq!(values(&db).files, 1);
    drop(db);
    assert!(tables(&fs) <= 3, "{}", tables(&fs));
}

/// Files of the tree, largest first: of those here value files are the largest.
fn largest_table(fs: &MemFs) -> PathBuf {
    let tables = fs.files().into_iter();
    let tables = tables.filter(|path| path.extension().is_some_and(|end| end == "sst"));
    let len = |path: &PathBuf| fs.read_file(path).unwrap().len();
    tables.max_by_key(len).unwrap()
}

#[test]
fn a_damaged_value_file_is_named_and_nothing_panics() {
    for in_pieces in [false, true] {
        let fs = MemFs::new();
        let db = open(&fs);
        let len = 100 * KIB as u64;
        if in_pieces {
            db.put_reader("key", stream(len)).unwrap();
        } else {
            db.put("key", vec![7; len as usize]).unwrap();
        }
        db.put("short", "1").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let path = largest_table(&fs);
        let whole = fs.read_file(&path).unwrap();
        for at in (0..whole.len()).step_by(1013) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs.write_file(&path, &bytes).unwrap();
            let verified = options(&fs).verify("/db", |_, _| {}).unwrap();
            let damaged = &verified.damaged[0];
            assert!(path.ends_with(&damaged.file), "{damaged:?}");
            let Ok(db) = options(&fs).open("/db") else {
                continue;
            };
            assert_eq!(db.get("short").unwrap().as_deref(), Some(&b"1"[..]));
            let read = db.get("key");
            match db.get_reader("key") {
                Ok(reader) => {
                    let mut out = Vec::new();
                    let through = reader.unwrap().read_to_end(&mut out);
                    assert_eq!(through.is_err(), read.is_err());
                }
                Err(error) => assert!(error.is_corruption() && read.is_err(), "{error}"),
            }
            match read {
                // What is not needed for it was damaged.
                Ok(value) => assert_eq!(value.unwrap().len() as u64, len),
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    assert!(db.iter().any(|entry| entry.is_err()));
                    assert!(db.multi_get(&["short", "key"]).is_err());
                    // Merges keep what they cannot read.
                    let _ = db.compact_range(None, None);
                    assert!(db.get("key").is_err());
                }
            }
        }
        // Gone or cut, it is missed when the database is opened.
        fs.write_file(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(options(&fs).open("/db").unwrap_err().is_corruption());
        fs.remove(&path).unwrap();
        assert!(options(&fs).open("/db").unwrap_err().is_corruption());
        fs.write_file(&path, &whole).unwrap();
        options(&fs)
            .open("/db")
            .unwrap()
            .verify()
            .unwrap()
            .check()
            .unwrap();
    }
}

/// Writes the checksum of a table's first block, which is a page, anew (docs/format.md, "Blocks").
fn seal_first_block(bytes: &mut [u8]) {
    let salt = bytes.len() - 20;
    let seed = crc32c::crc32c_append(crc32c::crc32c(&bytes[salt..salt + 4]), &[0; 4]);
    let sum = crc32c::crc32c_append(seed, &bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_verification_finds_what_points_to_no_value() {
    let fs = MemFs::new();
    let db = open(&fs);
    // Who saw the time before keeps their numbers apart.
    let before = db.snapshot();
    // What points to them has two bytes each for the length.
    let lens = [9000, 12_000];
    for (key, len) in ["a", "b"].iter().zip(lens) {
        db.put(key, value(1, len)).unwrap();
    }
    db.put("short", "1").unwrap();
    db.flush().unwrap();
    drop(before);
    db.close().unwrap();
    let sound = options(&fs).verify("/db", |_, _| {}).unwrap();
    sound.check().unwrap();
    let values = largest_table(&fs);
    let tree = fs
        .files()
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "sst") && *path != values);
    let tree = tree.unwrap();
    let whole = fs.read_file(&tree).unwrap();
    let [a, b] = lens.map(|len| {
        let varint = [len as u8 | 0x80, (len >> 7) as u8];
        whole.windows(2).position(|bytes| bytes == varint).unwrap()
    });
    // Before the length is the sequence number. What is pointed to in all stays the same.
    for bytes in [0..2, -1..0, -1..2] {
        let mut forged = whole.clone();
        for by in bytes.clone() {
            let of = |at: usize| at.checked_add_signed(by).unwrap();
            forged.swap(of(a), of(b));
        }
        seal_first_block(&mut forged);
        assert!(forged != whole);
        fs.write_file(&tree, &forged).unwrap();
        let closed = options(&fs).verify("/db", |_, _| {}).unwrap();
        let db = open(&fs);
        assert!(db.get("a").unwrap_err().is_corruption());
        assert_eq!(db.get("short").unwrap().as_deref(), Some(&b"1"[..]));
        for found in [closed, db.verify().unwrap()] {
            let damaged = &found.damaged;
            assert_eq!(
                (found.problems, damaged.len()),
                (2, 1),
                "{bytes:?} {damaged:?}"
            );
            assert!(tree.ends_with(&damaged[0].file), "{damaged:?}");
            for problem in &damaged[0].first {
                assert_eq!(problem.offset, Some(0));
                assert!(problem.what.contains("points to a value"), "{problem:?}");
            }
        }
    }
}

/// To look for what is pointed to takes no more reads than all value files do, also where each
/// table points to several.
#[test]
fn a_verification_reads_value_files_about_twice() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut rng = Rng::new(9);
    for round in 0..600 {
        let len = *rng.pick(&[1500, 3000, 9000]);
        db.put(key(rng.below(400)), value(round, len)).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    let files = values(&db);
    assert!(files.files > 5, "{files:?}");
    db.close().unwrap();
    let all: u64 = (fs.list("/db".as_ref()).unwrap().iter())
        .filter(|file| file.name.ends_with(".sst"))
        .map(|file| file.len)
        .sum();
    let meter = MeteredFs::new(Arc::new(fs.clone()));
    let db = options(&fs)
        .fs(Arc::new(meter.clone()))
        .open("/db")
        .unwrap();
    let before = meter.counts().all_reads().bytes;
    db.verify().unwrap().check().unwrap();
    let read = meter.counts().all_reads().bytes - before;
    eprintln!("{read} of {all}, of these {files:?}");
    assert!(read < all + files.bytes, "{read} of {all}, {files:?}");
    let memory = db.stats().memory.budget;
    assert_eq!(memory.overdraft, 0);
}

#[test]
fn checkpoints_have_their_value_files_and_expired_values_go() {
    let fs = MemFs::new();
    let clock = ManualClock::new();
    let options = || options(&fs).clock(Arc::new(clock.clone()));
    let db = options().open("/db").unwrap();
    let hour = WriteOptions::new().ttl(Duration::from_secs(3600));
    for number in 0..20 {
        let value = value(number, 3000);
        let of = if number % 2 == 0 {
            hour
        } else {
            WriteOptions::new()
        };
        db.put_with(key(number), value, of).unwrap();
    }
    db.put_reader_with("film", stream(100_000), hour).unwrap();
    db.put_reader("other film", stream(100_000)).unwrap();
    db.checkpoint("/copy").unwrap();
    db.compact_range(None, None).unwrap();
    clock.advance(Duration::from_secs(3601));
    assert_eq!(db.iter().count(), 11);
    assert!(db.get_reader("film").unwrap().is_none());
    assert!(db.get(key(0)).unwrap().is_none());
    db.compact_range(None, None).unwrap();
    let left = values(&db);
    // The film is gone; of the short ones not more than half are.
    assert_eq!((left.value_bytes, left.garbage_bytes), (160_000, 30_000));
    db.verify().unwrap().check().unwrap();
    let copy = options().open("/copy").unwrap();
    copy.verify().unwrap().check().unwrap();
    assert_eq!(
        copy.get(key(1)).unwrap().unwrap().into_vec(),
        value(1, 3000)
    );
    check_stream(copy.get_reader("other film").unwrap().unwrap(), 0, 100_000);
}

/// Filters are asked about values wherever these lie.
struct Halves;

impl CompactionFilter for Halves {
    fn decide(&self, _key: &[u8], value: &[u8]) -> CompactionDecision {
        match value.first() {
            Some(b'k') | None => CompactionDecision::Keep,
            Some(b'r') => CompactionDecision::Remove,
            Some(_) => CompactionDecision::Change(vec![b'k'; value.len() / 2]),
        }
    }
}

#[test]
fn compaction_filters_and_operators_see_values_of_value_files() {
    let fs = MemFs::new();
    let open = |filtered: bool| {
        let options = options(&fs).merge_operator("default", Append);
        let options = if filtered {
            options.compaction_filter("default", Halves)
        } else {
            options
        };
        options.open("/db").unwrap()
    };
    let db = open(false);
    for (key, first) in [("a", b'k'), ("b", b'r'), ("c", b'x')] {
        db.put(key, vec![first; 4000]).unwrap();
    }
    db.flush().unwrap();
    assert!(values(&db).files > 0);
    db.merge("a", "more").unwrap();
    let wanted = [vec![b'k'; 4000], b"more".to_vec()].concat();
    assert_eq!(db.get("a").unwrap().unwrap().into_vec(), wanted);
    assert_eq!(db.iter().next().unwrap().unwrap().1.into_vec(), wanted);
    assert_eq!(
        db.iter().rev().last().unwrap().unwrap().1.into_vec(),
        wanted
    );
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap().into_vec(), wanted);
    // The operand is a part of the value by now.
    assert_eq!(db.stats().counters.operands_collapsed, 1);
    // One in pieces is not for filters, and neither for operators while it is written.
    db.put_reader("film", stream(200_000)).unwrap();
    db.put_reader("film 2", stream(200_000)).unwrap();
    db.merge("film 2", "end").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(true);
    db.compact_range(None, None).unwrap();
    check_stream(db.get_reader("film").unwrap().unwrap(), 0, 200_000);
    assert!(db.get("film 2").unwrap().unwrap().ends_with(b"end"));
    db.delete_range("film"..).unwrap();
    assert!(db.get("b").unwrap().is_none());
    assert_eq!(db.get("c").unwrap().unwrap().into_vec(), vec![b'k'; 2000]);
    assert_eq!(db.get("a").unwrap().unwrap().into_vec(), wanted);
    db.verify().unwrap().check().unwrap();
}

/// Whatever operation of storage fails on the way of a value in pieces, the key has its old value
/// or the new one, whole, and what is left behind goes.
#[test]
fn a_value_in_pieces_is_there_whole_or_not_at_all_whatever_fails() {
    let len = 100_000;
    for error in [FaultError::ENOSPC, FaultError::EIO] {
        for after in 0.. {
            let (fs, faults) = (MemFs::new(), Faults::new());
            let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone()));
            let db = options(&fs).fs(faulty).open("/db").unwrap();
            db.put("key", "old").unwrap();
            faults.add(Fault::new(Effect::Fail(error)).after(after));
            let put = db.put_reader_with("key", stream(len), WriteOptions::synced());
            if faults.fired() == 0 {
                put.unwrap();
                break;
            }
            faults.clear();
            let is_new = |db: &Db| {
                let reader = db.get_reader("key").unwrap().unwrap();
                let is_new = reader.len() == len;
                if is_new {
                    check_stream(reader, 0, len);
                } else {
                    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"old"[..]));
                }
                is_new
            };
            assert!(is_new(&db) || put.is_err(), "{after}");
            // It can be tried again, unless nobody knows what a sync left behind.
            if !is_new(&db) {
                match db.put_reader("key", stream(len)) {
                    Ok(()) => assert!(is_new(&db), "{after}"),
                    Err(Error::Poisoned { .. }) => {}
                    Err(error) => panic!("{after}: {error}"),
                }
            }
            drop(db);
            let db = open(&fs.kill_clone());
            assert!(is_new(&db) || put.is_err(), "{after}");
            db.put("other", "1").unwrap();
            db.flush().unwrap();
            db.compact_range(None, None).unwrap();
            db.verify().unwrap().check().unwrap();
            let held = values(&db);
            let wanted = if is_new(&db) { (1, 0) } else { (0, 0) };
            assert_eq!((held.files, held.garbage_bytes), wanted, "{after}");
        }
    }
}

/// Readers, writers in pieces and merges at the same time.
#[test]
fn values_in_pieces_are_written_and_read_by_many_threads() {
    let fs = MemFs::new();
    let options = options(&fs).background_threads(2);
    let db = options.open("/db").unwrap();
    let lens = [40_000, 70_000, 150_000, 500];
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..40 {
                    let key = key(round % 5);
                    let len = lens[(thread + round) as usize % 4];
                    db.put_reader(&key, stream(len)).unwrap();
                    if let Some(reader) = db.get_reader(&key).unwrap() {
                        let len = reader.len();
                        assert!(lens.contains(&len));
                        check_stream(reader, 0, len);
                    }
                    if round % 8 == thread {
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.verify().unwrap().check().unwrap();
    let held = values(&db);
    assert!(held.files <= 5 && held.garbage_bytes == 0, "{held:?}");
    let memory = db.stats().memory.budget;
    assert!(memory.overdraft == 0, "{memory:?}");
}

/// Ends the writer, also where a check fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Who only reads, beside one that writes in pieces, finds a whole value at every moment: the
/// manifest that it read may be older than the log.
#[test]
fn readers_beside_a_writer_see_whole_values() {
    let fs = MemFs::new();
    let db = options(&fs).background_threads(2).open("/db").unwrap();
    db.put_reader("key", stream(40_000)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                db.put_reader("key", stream(33_000 + round % 1000)).unwrap();
                if round % 7 == 0 {
                    db.flush().unwrap();
                }
            }
        });
        let end = Done(&done);
        let mut opened = 0;
        for _ in 0..150 {
            let view = match options(&fs).read_only(true).open("/db") {
                Ok(view) => view,
                // Where both share a core, a writer that never rests may come in between each time
                // that a long manifest is read.
                Err(Error::Outdated { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            opened += 1;
            for _ in 0..2 {
                let reader = view.get_reader("key").unwrap().unwrap();
                let len = reader.len();
                check_stream(reader, 0, len);
            }
        }
        drop(end);
        assert!(opened > 0);
    });
}

/// What is known of value files is in memory: where there is no room for more, one that would come
/// is refused, and what there is can be opened and read.
#[test]
fn more_value_files_than_there_is_room_for_are_refused() {
    let fs = MemFs::new();
    let least = || options(&fs).memory(MemoryBudget::bytes(1 << 20));
    let db = least().open("/db").unwrap();
    let mut put = 0;
    let refused = loop {
        match db.put_reader(key(put), stream(5000)) {
            Ok(()) => put += 1,
            Err(error) => break error,
        }
        assert!(put < 20_000);
    };
    assert!(matches!(refused, Error::BudgetTooSmall { .. }), "{refused}");
    assert!(put > 500, "{put}");
    db.put("short", "1").unwrap();
    drop(db);
    let db = least().open("/db").unwrap();
    for number in [0, put / 2, put - 1] {
        check_stream(db.get_reader(key(number)).unwrap().unwrap(), 0, 5000);
    }
    // Fewer of them make room.
    db.delete_range(key(0)..key(put / 2)).unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.put_reader("more", stream(5000)).unwrap();
    let memory = db.stats().memory.budget;
    assert!(memory.overdraft == 0, "{memory:?}");
}

/// What was written of a value in pieces that was not put, on storage and in what is known of
/// files, is given back at once: so often that there would be no room for it otherwise.
#[test]
fn space_of_a_value_that_was_not_put_comes_back_at_once() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone()));
    let options = options(&fs).fs(faulty).memory(MemoryBudget::bytes(1 << 20));
    let db = options.open("/db").unwrap();
    db.put("key", "old").unwrap();
    db.flush().unwrap();
    let len = 9000;
    // Whose log, or keyspace, or source ends before the value.
    let refused_by_log = || {
        let full = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(Op::Append);
        faults.add(full.path_ending(".wal"));
        let refused = db.put_reader("key", stream(len));
        assert_eq!(faults.fired(), 1);
        faults.clear();
        faults.reset_counts();
        refused
    };
    let dropped_meanwhile = || {
        let keyspace = db.create_keyspace("films", self::keyspace()).unwrap();
        let drops = DropsKeyspace {
            db: &db,
            source: stream(len),
        };
        keyspace.put_reader("key", drops)
    };
    let failed = || {
        let source = Stream {
            fails_at: len / 2,
            ..stream(len)
        };
        db.put_reader("key", source)
    };
    let ways: [&dyn Fn() -> shamba::Result<()>; 3] = [&refused_by_log, &dropped_meanwhile, &failed];
    for (number, put) in ways.into_iter().enumerate() {
        let known = || {
            let mut roles = db.stats().memory.budget.by_role.into_iter();
            roles.find(|(role, _)| *role == Role::Files)
        };
        let before = (tables(&fs), known(), values(&db));
        // Of fewer value files there is no room for another.
        for round in 0..1500 {
            let refused = put().unwrap_err();
            assert!(
                !matches!(refused, Error::BudgetTooSmall { .. }),
                "{number} {round}: {refused}"
            );
            let after = (tables(&fs), known(), values(&db));
            assert_eq!(after, before, "{number} {round}: {refused}");
        }
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"old"[..]));
        let overdraft = db.stats().memory.budget.overdraft;
        assert_eq!(overdraft, 0, "{number}");
    }
    db.put_reader("key", stream(len)).unwrap();
    check_stream(db.get_reader("key").unwrap().unwrap(), 0, len);
    db.verify().unwrap().check().unwrap();
}

/// A source at whose end a keyspace is dropped.
struct DropsKeyspace<'a> {
    db: &'a Db,
    source: Stream,
}

impl Read for DropsKeyspace<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.read(into)?;
        if bytes == 0 && self.db.keyspace("films").is_ok() {
            self.db.drop_keyspace("films").unwrap();
        }
        Ok(bytes)
    }
}

/// The only log, with the number of the value file changed to which its last operation points, and
/// all checksums right (docs/format.md, "Logs").
fn point_elsewhere(fs: &MemFs, file: u8, elsewhere: u8) {
    let logs = crate::common::files_ending(fs, "/db", ".wal");
    let path = PathBuf::from("/db").join(logs.last().unwrap());
    let mut log = fs.read_file(&path).unwrap();
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let salt = word(&log, 12);
    let base = u64::from_le_bytes(log[24..32].try_into().unwrap());
    let mut last = 44..44;
    while last.end + 28 < log.len() && word(&log, last.end) > 0 {
        last = last.end..last.end + 28 + word(&log, last.end) as usize;
    }
    let position = base + last.start as u64;
    let record = &mut log[last];
    // Kind, keyspace, key, and the length of what points to the value.
    let payload = &mut record[28..];
    assert_eq!(payload[..6], *b"\x05\x00\x03key");
    assert_eq!(payload[7], file);
    payload[7] = elsewhere;
    let sum = crc32c::crc32c_append(salt, payload);
    record[4..8].copy_from_slice(&sum.to_le_bytes());
    let sum = crc32c::crc32c_append(salt, &position.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &record[..24]);
    record[24..28].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(log == fs.read_file(&path).unwrap(), file == elsewhere);
    fs.write_file(&path, &log).unwrap();
}

#[test]
fn a_log_that_points_to_no_value_file_is_damaged() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put("other", "1").unwrap();
    db.put_reader("key", stream(100_000)).unwrap();
    let whole = fs.kill_clone();
    drop(db);
    let name = largest_table(&whole);
    let file: u8 = name.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    // The file itself, and one that there is not: so that it is the pointer that is missed.
    for (elsewhere, is_sound) in [(file, true), (file + 50, false)] {
        let fs = whole.kill_clone();
        point_elsewhere(&fs, file, elsewhere);
        for read_only in [true, false] {
            match options(&fs).read_only(read_only).open("/db") {
                Ok(db) => {
                    assert!(is_sound);
                    check_stream(db.get_reader("key").unwrap().unwrap(), 0, 100_000);
                }
                Err(Error::Corruption { file, what, .. }) => {
                    assert!(!is_sound, "{what}");
                    assert!(file.extension().is_some_and(|end| end == "wal"), "{file:?}");
                    assert!(what.contains("points to value file"), "{what}");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    // Where damage is passed over, that operation is, and no other.
    let fs = whole.kill_clone();
    point_elsewhere(&fs, file, file + 50);
    let options = options(&fs).recovery(RecoveryMode::SkipDamaged);
    let db = options.open("/db").unwrap();
    assert!(db.get("key").unwrap().is_none());
    assert_eq!(db.get("other").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(values(&db).files, 0);
    db.verify().unwrap().check().unwrap();
}

/// Whether manifests name the feature.
fn names_value_files(fs: &MemFs) -> bool {
    let name = b"value files";
    let manifests = fs.files().into_iter().filter(|path| {
        let file = path.file_name().unwrap().to_string_lossy();
        file.starts_with("MANIFEST-")
    });
    let mut bytes = manifests.map(|path| fs.read_file(path).unwrap());
    bytes.any(|bytes| bytes.windows(name.len()).any(|window| window == name))
}

/// A keyspace whose options ask for value files is all that it takes for the manifest to name them,
/// before a flush writes the first.
#[test]
fn the_feature_is_named_where_options_ask_for_value_files() {
    let (fs, faults) = (MemFs::new(), Faults::new());
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone()));
    let plain = options(&fs).keyspace(keyspace().value_files_from(None));
    let db = plain.fs(faulty).open("/db").unwrap();
    db.put("long", vec![1; 100 * KIB]).unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    let films = db.create_keyspace("films", keyspace()).unwrap();
    films.put("long", vec![1; 100 * KIB]).unwrap();
    assert!(!names_value_files(&fs));
    // Where no file can be created, the first flush comes as far as to that.
    let full = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(Op::Create);
    faults.add(full.path_ending(".sst").forever());
    assert!(db.flush().is_err());
    assert!(names_value_files(&fs.crash_clone(1)));
    assert_eq!(db.stats().keyspaces[1].values.files, 0);
    faults.clear();
    db.flush().unwrap();
    assert_eq!(db.stats().keyspaces[1].values.files, 1);
}

/// Nobody looks for prefixes in value files: they have no filter of them, whoever writes them.
#[test]
fn value_files_have_no_filters_of_prefixes() {
    let fs = MemFs::new();
    let prefix = Prefix::Fixed(4);
    let options = options(&fs).keyspace(keyspace().prefix(prefix));
    let db = options.open("/db").unwrap();
    for number in 0..100 {
        db.put(key(number), value(number, 2000)).unwrap();
    }
    db.put_reader("film", stream(100_000)).unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    let files = values(&db).files;
    assert!(files > 1);
    drop(db);
    // What a table says of its prefixes begins with the rule's name.
    let says = |path: &PathBuf| {
        let bytes = fs.read_file(path).unwrap();
        bytes.windows(7).any(|window| window == b"fixed 4")
    };
    let tables = fs.files().into_iter();
    let tables = tables.filter(|path| path.extension().is_some_and(|end| end == "sst"));
    let (with, without): (Vec<_>, Vec<_>) = tables.partition(says);
    assert_eq!(without.len(), files);
    assert!(!with.is_empty());
}

/// Values that many keys point to are read together, in as many rounds as one of them takes, and
/// each block once.
#[test]
fn lookups_of_many_keys_read_values_together() {
    let fs = MemFs::new();
    let db = open(&fs);
    let len = |number: u64| [1200, 3000, 9000][number as usize % 3];
    for number in 0..150 {
        db.put(key(number), value(number, len(number))).unwrap();
    }
    db.put_reader("film", stream(100_000)).unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert!(values(&db).files > 5);
    db.close().unwrap();
    let meter = MeteredFs::new(Arc::new(fs.clone()));
    let db = options(&fs).fs(Arc::new(meter.clone()));
    let db = db.open("/db").unwrap();
    let mut keys: Vec<_> = (0..150).map(key).collect();
    keys.extend(["film".to_owned(), key(7), "nobody".to_owned()]);
    // What is read from now on is of values.
    for key in &keys {
        db.contains_key(key).unwrap();
    }
    let (before, counted) = (meter.counts(), db.stats().counters);
    let found = db.multi_get(&keys).unwrap();
    let (did, counters) = (meter.counts() - before, db.stats().counters);
    for (number, found) in (0..150).zip(&found) {
        let wanted = value(number, len(number));
        assert_eq!(found.as_deref(), Some(&wanted[..]), "{number}");
    }
    let [film, again, nobody] = &found[150..] else {
        panic!("{}", found.len());
    };
    check_stream(film.as_deref().unwrap(), 0, 100_000);
    assert_eq!(again.as_deref(), found[7].as_deref());
    assert!(nobody.is_none());
    // Indexes, then data, of half a megabyte at a time; of the film each piece by itself.
    let (batches, reads) = (did.batches, did.reads_of(BlockKind::Data).reads);
    assert!((1..=6).contains(&batches), "{batches} of {reads}");
    assert!(reads > 100, "{reads}");
    assert_eq!(counters.read_batches - counted.read_batches, batches);
    assert_eq!(counters.data_reads - counted.data_reads, reads);
    assert!(db.multi_get(&["nobody", "film"]).unwrap()[1].is_some());
    assert_eq!(db.stats().memory.budget.overdraft, 0);
}

/// Values of an open transaction wait for its commit, not for flushes.
#[test]
fn long_values_of_an_open_transaction_have_nothing_flushed() {
    let db = under_4_mib(Arc::new(MemFs::new())).open("/db").unwrap();
    let mut tx = db.transaction();
    tx.put_reader("film", stream(64 << 20)).unwrap();
    for number in 0..4 {
        db.put(key(number), value(number, 300 * KIB)).unwrap();
    }
    assert_eq!(db.stats().counters.flushes, 0);
    tx.commit().unwrap();
    db.put(key(4), value(4, 300 * KIB)).unwrap();
    assert!(db.stats().counters.flushes > 0);
    check_stream(db.get_reader("film").unwrap().unwrap(), 0, 64 << 20);
}
