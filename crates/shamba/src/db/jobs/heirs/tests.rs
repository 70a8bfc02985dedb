//! Inheritance at work in a database.

use std::sync::Arc;

use crate::cache::MemoryBudget;
use crate::fs::MemFs;
use crate::options::{KeyspaceOptions, Options};
use crate::version::FileMeta;
use crate::{Db, Eviction};

const KEYS: u32 = 100_000;

fn options(fs: &MemFs, memory: u64) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(memory))
        .background_threads(0)
        .cache_entries(false)
        .keyspace(KeyspaceOptions {
            write_buffer: 64 << 10,
            target_file: 256 << 10,
            ..KeyspaceOptions::default()
        })
}

/// Even keys are there, odd ones are not.
fn key(number: u32) -> [u8; 8] {
    u64::from(number).to_be_bytes()
}

fn number(key: &[u8]) -> u32 {
    u64::from_be_bytes(key.try_into().unwrap()) as u32
}

/// A database with all keys in one run.
fn filled(options: Options) -> Db {
    let db = options.open("/db").unwrap();
    for i in 0..KEYS {
        let number = i * 7 % KEYS;
        db.put(key(number * 2), [number as u8; 16]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert!(files(&db).len() > 5);
    db
}

fn files(db: &Db) -> Vec<FileMeta> {
    let state = db.inner().default_keyspace().state();
    let mut files: Vec<_> = state.version.files().cloned().collect();
    files.sort_by(|a, b| a.smallest().cmp(b.smallest()));
    files
}

/// Empty and positive visits of the files that meet a range.
fn visits(files: &[FileMeta], from: &[u8], to: &[u8]) -> (f32, f32) {
    let mut sum = (0.0, 0.0);
    for file in files
        .iter()
        .filter(|f| *f.smallest() <= *to && *f.largest() >= *from)
    {
        for visits in file.slot().visits() {
            sum.0 += visits.empty;
            sum.1 += visits.positive;
        }
    }
    sum
}

/// Looks up four absent keys for each that is there, from a file. One lookup in eight is counted.
fn ask(db: &Db, file: &FileMeta, times: u32) {
    let (low, high) = (number(file.smallest()), number(file.largest()));
    for i in 0..times {
        let at = low + i.wrapping_mul(7919) % (high - low);
        let wanted = if i % 5 == 0 { at & !1 } else { at | 1 };
        assert_eq!(db.get(key(wanted)).unwrap().is_some(), i % 5 == 0);
    }
}

/// Writes a key of every file again, so that a merge rewrites all.
fn touch(db: &Db) {
    for file in files(db) {
        db.put(file.largest(), [9; 16]).unwrap();
    }
}

#[test]
fn new_files_are_as_hot_as_those_they_come_from() {
    for inherit in [true, false] {
        let options = options(&MemFs::new(), 4 << 20).inherit_statistics(inherit);
        let db = filled(options);
        let old = files(&db);
        let hot = old[3].clone();
        ask(&db, &hot, 8000);
        let all = (old[0].smallest(), old[old.len() - 1].largest());
        let before = visits(&old, all.0, all.1);
        assert!(before.0 > 500.0 && before.1 > 100.0, "{before:?}");
        touch(&db);
        db.compact_range(None, None).unwrap();
        let new = files(&db);
        assert!(
            new.iter()
                .all(|file| old.iter().all(|o| o.number() != file.number()))
        );
        let after = visits(&new, all.0, all.1);
        let hot = visits(&new, hot.smallest(), hot.largest());
        if !inherit {
            assert_eq!(after, (0.0, 0.0));
            continue;
        }
        // The windows go on meanwhile.
        for (after, before) in [(after.0, before.0), (after.1, before.1)] {
            assert!(
                after > before * 0.6 && after < before * 1.1,
                "{after} of {before}"
            );
        }
        // Where the files are cut decides how much goes to neighbours.
        assert!(
            hot.0 > after.0 * 0.9 && hot.1 > after.1 * 0.9,
            "{hot:?} of {after:?}"
        );
    }
}

#[test]
fn a_flushed_file_is_as_hot_as_those_below() {
    let db = filled(options(&MemFs::new(), 4 << 20));
    let old = files(&db);
    ask(&db, &old[3], 8000);
    let before = visits(&old, old[3].smallest(), old[3].largest());
    for part in [1, 3] {
        let (low, high) = (number(old[part].smallest()), number(old[part].largest()));
        db.put(key(low + 2), [1; 16]).unwrap();
        db.put(key(high - 2), [1; 16]).unwrap();
        db.flush().unwrap();
    }
    let flushed = |part: usize| {
        let mut new = files(&db);
        new.retain(|file| {
            file.entries() == 2 && number(file.smallest()) == number(old[part].smallest()) + 2
        });
        assert_eq!(new.len(), 1);
        new[0].slot().visits().first().copied().unwrap_or_default()
    };
    let (cold, hot) = (flushed(1), flushed(3));
    assert_eq!((cold.empty, cold.positive), (0.0, 0.0));
    let all = before.0 + before.1;
    assert!(
        hot.empty > all * 0.5 && hot.empty < all * 1.1,
        "{hot:?} of {all}"
    );
    assert!(hot.positive < 5.0, "{hot:?}");
}

/// Filter and index reads of the lookups right after a compaction.
fn reads_after_a_merge(inherit: bool, eviction: Eviction) -> (u64, u64) {
    let options = options(&MemFs::new(), 1 << 20)
        .inherit_statistics(inherit)
        .eviction(eviction);
    let db = filled(options);
    let ask = |salt: u32, times: u32| {
        for i in 0..times {
            let at = (i.wrapping_mul(2_654_435_761) ^ salt) % (KEYS * 2);
            let wanted = if i % 5 == 0 { at & !1 } else { at | 1 };
            assert_eq!(db.get(key(wanted)).unwrap().is_some(), i % 5 == 0);
        }
        let counters = db.stats().counters;
        (counters.filter_reads, counters.index_reads)
    };
    ask(1, 30_000);
    touch(&db);
    db.compact_range(None, None).unwrap();
    let before = ask(2, 0);
    let after = ask(3, 500);
    assert!(db.stats().memory.budget.overdraft == 0);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn lookups_after_a_merge_find_filters_and_indexes_in_memory() {
    let with = reads_after_a_merge(true, Eviction::ExpectedReads);
    let without = reads_after_a_merge(false, Eviction::ExpectedReads);
    let sum = |(filter, index): (u64, u64)| filter + index;
    assert!(sum(without) >= 40, "they are still there: {without:?}");
    assert!(sum(with) < sum(without) / 2, "{with:?}, {without:?}");
    assert!(with.0 < without.0, "{with:?}, {without:?}");
}

#[test]
fn heat_is_kept_over_a_restart_and_losing_it_changes_no_answer() {
    let fs = MemFs::new();
    let db = filled(options(&fs, 4 << 20));
    let old = files(&db);
    ask(&db, &old[3], 8000);
    db.close().unwrap();
    let before = visits(&old, old[3].smallest(), old[3].largest());
    assert!(before.0 > 500.0, "{before:?}");
    let hints = fs.read_file("/db/HINTS").unwrap();

    let same = |sum: (f32, f32)| (sum.0 - before.0).abs() < 1.0 && (sum.1 - before.1).abs() < 1.0;
    let db = options(&fs, 4 << 20).open("/db").unwrap();
    let reopened = files(&db);
    let hot = || visits(&reopened, old[3].smallest(), old[3].largest());
    assert!(same(hot()), "before it is opened: {:?}", hot());
    ask(&db, &reopened[3], 1);
    assert!(reopened[3].slot().partition_stats().is_some());
    let now = hot();
    assert!(
        now.0 > before.0 * 0.8 && now.1 > before.1 * 0.8,
        "{now:?} of {before:?}"
    );
    // What nobody asked since keeps its hint for the next time.
    db.close().unwrap();
    let db = options(&fs, 4 << 20).open("/db").unwrap();
    assert!(visits(&files(&db), old[3].smallest(), old[3].largest()).0 > before.0 * 0.8);
    db.close().unwrap();

    let mut flipped = hints.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x10;
    let damaged: [&[u8]; 5] = [
        &flipped,
        &hints[..hints.len() - 1],
        b"",
        b"shambaH1",
        &[0xff; 99],
    ];
    for bytes in damaged {
        fs.write_file("/db/HINTS", bytes).unwrap();
        let db = options(&fs, 4 << 20).open("/db").unwrap();
        let files = files(&db);
        assert_eq!(
            visits(&files, old[3].smallest(), old[3].largest()),
            (0.0, 0.0)
        );
        ask(&db, &files[3], 2000);
        db.close().unwrap();
    }
}
