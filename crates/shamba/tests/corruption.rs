//! Damage to single bytes: of every file of a database, each byte changed in turn. Opening,
//! looking up, scanning and verifying then give a typed error or exactly the right answers.
//!
//! `SHAMBA_FULL` changes every byte of every file; otherwise of tables every 7th, and of the rest
//! every one.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use common::{Map, Rng, contents, full_run, on_every_core, small_keyspace};
use shamba::fs::MemFs;
use shamba::{
    Compression, Db, Error, FilterFamily, FilterOptions, IterOptions, KeyspaceOptions, ManualClock,
    MemoryBudget, Options, Result, WriteBatch, WriteOptions,
};

const DIR: &str = "/db";

/// A database, what is in it, and what was before each of the writes in its log.
struct Sample {
    name: &'static str,
    fs: MemFs,
    keyspace: KeyspaceOptions,
    contents: Map,
    /// Oldest first.
    before: Vec<Map>,
}

fn options(keyspace: &KeyspaceOptions, fs: MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs))
        .memory(MemoryBudget::bytes(4 << 20))
        .clock(Arc::new(ManualClock::new()))
        .background_threads(0)
        .create_if_missing(false)
        .keyspace(keyspace.clone())
}

/// Tables on several levels, tombstones, entries with a time to live, a value of several pages, and
/// a log that is not empty.
fn sample(name: &'static str, keyspace: KeyspaceOptions) -> Sample {
    let fs = MemFs::new();
    let db = options(&keyspace, fs.clone())
        .create_if_missing(true)
        .open(DIR)
        .unwrap();
    let mut rng = Rng::new(7);
    let mut contents = Map::new();
    let mut before = Vec::new();
    for i in 0..420u32 {
        let key = format!("key{:04}", rng.below(300)).into_bytes();
        let len = if i == 100 {
            9000
        } else {
            rng.below(90) as usize
        };
        let value = rng.bytes(len);
        let mut batch = WriteBatch::new();
        before.push(contents.clone());
        if i % 7 == 6 {
            batch.delete(&key);
            contents.remove(&key);
        } else if i % 5 == 4 {
            batch.put_until(&key, &value, UNIX_EPOCH + Duration::from_millis(i.into()));
            contents.insert(key, value);
        } else if i % 11 == 10 {
            batch.put_until(&key, &value, UNIX_EPOCH);
            contents.remove(&key);
        } else {
            batch.put(&key, &value);
            contents.insert(key, value);
        }
        db.write_with(batch, WriteOptions::synced()).unwrap();
        if i == 200 {
            db.compact_range(None, None).unwrap();
        }
        if i == 400 {
            db.flush().unwrap();
            before.clear();
        }
    }
    let stats = db.stats();
    assert!(
        stats.keyspaces[0]
            .levels
            .iter()
            .map(|level| level.files)
            .sum::<usize>()
            >= 2
    );
    assert!(stats.keyspaces[0].memtable_entries > 0);
    let fs = fs.deep_clone();
    Sample {
        name,
        fs,
        keyspace,
        contents,
        before,
    }
}

fn samples() -> Vec<Sample> {
    let filter = |family, partitioned| {
        FilterOptions::new()
            .family(family)
            .bits_per_key(10.0)
            .partitioned(partitioned)
    };
    vec![
        sample("partitioned", small_keyspace()),
        sample(
            "whole",
            small_keyspace()
                .filter(filter(FilterFamily::BlockedBloom, false))
                .compression([Compression::Lz4, Compression::Zstd(3)]),
        ),
        sample(
            "ribbon",
            small_keyspace().filter(filter(FilterFamily::Ribbon, true).modules(2)),
        ),
    ]
}

/// What a damaged database gave.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Detected,
    Harmless,
}

fn typed(error: &Error) -> bool {
    matches!(
        error,
        Error::Corruption { .. }
            | Error::UnsupportedFormat { .. }
            | Error::NotADatabase { .. }
            | Error::Poisoned { .. }
            | Error::Stalled { .. }
    )
}

/// Reads everything in every way; answers must be those of one of `allowed`.
fn examine(sample: &Sample, fs: MemFs, allowed: &[&Map], what: &str) -> Outcome {
    let mut outcome = Outcome::Harmless;
    let mut see = |error: Error| {
        assert!(typed(&error), "{what}: {error:?}");
        outcome = Outcome::Detected;
    };
    let db = match options(&sample.keyspace, fs).open(DIR) {
        Ok(db) => db,
        Err(error) => {
            see(error);
            return outcome;
        }
    };
    // Which of the states it is must be the same for all answers.
    let mut possible: Vec<&Map> = allowed.to_vec();
    for round in 0..2 {
        for i in 0..300 {
            let key = format!("key{i:04}").into_bytes();
            match db.get(&key) {
                Ok(got) => {
                    possible.retain(|map| map.get(&key).map(Vec::as_slice) == got.as_deref())
                }
                Err(error) => see(error),
            }
            assert!(
                !possible.is_empty(),
                "{what}, round {round}: a wrong answer for key{i:04}"
            );
        }
        match contents(&db.default_keyspace()) {
            Ok(got) => possible.retain(|map| **map == got),
            Err(error) => see(error),
        }
        assert!(
            !possible.is_empty(),
            "{what}, round {round}: a scan gives something else"
        );
        match backward(&db) {
            Ok(got) => possible.retain(|map| **map == got),
            Err(error) => see(error),
        }
        assert!(
            !possible.is_empty(),
            "{what}, round {round}: a backward scan gives something else"
        );
        if round == 0 {
            // Merging must not turn damage into answers.
            db.verify()
                .and_then(|found| found.check())
                .unwrap_or_else(&mut see);
            db.compact_range(None, None).unwrap_or_else(&mut see);
        }
    }
    outcome
}

fn backward(db: &Db) -> Result<Map> {
    let mut iter = db.cursor(IterOptions::default())?;
    let mut map = Map::new();
    iter.seek_to_last()?;
    while iter.valid() {
        map.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.prev()?;
    }
    Ok(map)
}

/// Examines the sample with a file replaced by what `damage` makes of it. In a log, as many of the
/// last writes as `tail` may be missing.
fn damaged(
    sample: &Sample,
    path: &Path,
    what: &str,
    tail: usize,
    damage: impl FnOnce(&mut Vec<u8>),
) -> Outcome {
    let fs = sample.fs.deep_clone();
    let mut bytes = fs.read_file(path).unwrap();
    damage(&mut bytes);
    fs.write_file(path, &bytes).unwrap();
    let mut allowed = vec![&sample.contents];
    if is_log(path) {
        allowed.extend(sample.before.iter().rev().take(tail));
    }
    examine(
        sample,
        fs,
        &allowed,
        &format!("{}: {what} of {}", sample.name, path.display()),
    )
}

fn files(sample: &Sample) -> Vec<PathBuf> {
    let files: Vec<_> = sample
        .fs
        .files()
        .into_iter()
        .filter(|path| !path.ends_with("LOCK"))
        .collect();
    for wanted in ["CURRENT", "MANIFEST", ".sst", ".wal"] {
        assert!(
            files
                .iter()
                .any(|path| path.to_string_lossy().contains(wanted)),
            "no {wanted} in {files:?}"
        );
    }
    files
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "sst")
}

fn is_manifest(path: &Path) -> bool {
    path.to_string_lossy().contains("MANIFEST")
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "wal")
}

#[test]
fn a_changed_byte_anywhere_is_detected_or_harmless() {
    let samples = samples();
    let mut cases = Vec::new();
    for sample in &samples {
        for path in files(sample) {
            let step = if full_run() || !is_table(&path) { 1 } else { 7 };
            let len = sample.fs.read_file(&path).unwrap().len();
            cases.extend(
                (0..len)
                    .step_by(step)
                    .map(|byte| (sample, path.clone(), byte)),
            );
        }
    }
    let detected = std::sync::atomic::AtomicUsize::new(0);
    on_every_core(cases.len() as u64, |number| {
        let (sample, path, byte) = &cases[number as usize];
        // One bit, another at each byte; of every eighth byte all bits. Of the last record in a
        // log nothing later says that it was durable: it may go.
        let mask = if byte % 8 == 7 {
            0xff
        } else {
            1 << (byte * 5 % 8)
        };
        let outcome = damaged(
            sample,
            path,
            &format!("byte {byte} changed by {mask:#x}"),
            1,
            |bytes| bytes[*byte] ^= mask,
        );
        detected.fetch_add(
            usize::from(outcome == Outcome::Detected),
            std::sync::atomic::Ordering::Relaxed,
        );
    });
    let detected = detected.into_inner();
    assert!(
        detected * 10 > cases.len() * 8,
        "of {} changes only {detected} were noticed",
        cases.len()
    );
}

#[test]
fn a_file_cut_short_or_longer_is_detected_or_harmless() {
    for sample in &samples() {
        for path in files(sample) {
            let len = sample.fs.read_file(&path).unwrap().len();
            let mut rng = Rng::new(len as u64);
            let mut cuts = vec![0, 1, len / 2, len - 1, len.saturating_sub(4096)];
            cuts.extend((0..40).map(|_| rng.below(len as u64) as usize));
            for cut in cuts {
                // The same holds of a log.
                let any = usize::MAX;
                let outcome = damaged(sample, &path, &format!("cut at {cut}"), any, |bytes| {
                    bytes.truncate(cut)
                });
                let cut_is_known = is_table(&path) || is_manifest(&path);
                assert!(
                    !cut_is_known || outcome == Outcome::Detected,
                    "{} cut at {cut} of {len}",
                    path.display()
                );
            }
            for more in [1, 100, 4096] {
                damaged(sample, &path, &format!("{more} more bytes"), 0, |bytes| {
                    bytes.extend(vec![0x5a; more])
                });
            }
        }
    }
}

#[test]
fn a_manifest_cut_off_at_any_byte_is_detected() {
    for sample in samples() {
        for closed in [false, true] {
            if closed {
                let db = options(&sample.keyspace, sample.fs.clone()).open(DIR);
                db.unwrap().close().unwrap();
            }
            let mut files = sample.fs.files().into_iter();
            let path = files.find(|path| is_manifest(path));
            let path = path.unwrap();
            let len = sample.fs.read_file(&path).unwrap().len();
            // The seal carries nothing.
            let seal = if closed { 28 } else { 0 };
            for cut in 0..len - seal {
                let fs = sample.fs.deep_clone();
                let bytes = fs.read_file(&path).unwrap();
                fs.write_file(&path, &bytes[..cut]).unwrap();
                let opened = options(&sample.keyspace, fs).open(DIR);
                let error = opened.expect_err(&format!("cut at {cut} of {len}"));
                assert!(error.is_corruption(), "cut at {cut}: {error}");
            }
        }
    }
}

#[test]
fn a_missing_or_swapped_table_is_detected() {
    for sample in &samples() {
        let tables: Vec<_> = files(sample)
            .into_iter()
            .filter(|path| is_table(path))
            .collect();
        assert!(tables.len() >= 2);
        let fs = sample.fs.deep_clone();
        shamba::fs::Fs::remove(&fs, &tables[0]).unwrap();
        let missing = examine(sample, fs, &[&sample.contents], "a table missing");
        assert_eq!(missing, Outcome::Detected);

        let fs = sample.fs.deep_clone();
        let (first, second) = (
            fs.read_file(&tables[0]).unwrap(),
            fs.read_file(&tables[1]).unwrap(),
        );
        assert_ne!(first, second);
        fs.write_file(&tables[0], &second).unwrap();
        fs.write_file(&tables[1], &first).unwrap();
        let swapped = examine(sample, fs, &[&sample.contents], "tables swapped");
        assert_eq!(swapped, Outcome::Detected);
    }
}
