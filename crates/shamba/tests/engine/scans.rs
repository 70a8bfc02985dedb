//! How many pages scans read: of data each page once, of indexes hardly any.

use std::sync::Arc;

use crate::common::Scarce;
use shamba::fs::{BlockKind, MemFs, MeteredFs, Purpose};
use shamba::{Db, IterOptions, KeyspaceOptions, MemoryBudget, Options, WriteBatch};

const DIR: &str = "/db";
const KEYS: u64 = 60_000;

/// Entries that a short scan returns.
const RANGE: u64 = 16;

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'-'; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The numbers below `KEYS` in some order without a pattern.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(48_271) % KEYS
}

fn options(fs: MeteredFs, memory: u64) -> Options {
    options_with(fs, MemoryBudget::bytes(memory))
}

fn options_with(fs: MeteredFs, memory: MemoryBudget) -> Options {
    Options::new()
        .fs(Arc::new(fs))
        .memory(memory)
        .background_threads(0)
        .keyspace(
            KeyspaceOptions::new()
                .write_buffer(64 << 10)
                .target_file(256 << 10),
        )
}

fn write(db: &Db, numbers: impl Iterator<Item = u64>, value: &[u8]) {
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.put(key(number), value);
        if batch.len() == 100 {
            let full = std::mem::take(&mut batch);
            db.write(full).unwrap();
        }
    }
    db.write(batch).unwrap();
}

/// One run of all keys.
fn one_run() -> MemFs {
    let fs = MemFs::new();
    let metered = MeteredFs::new(Arc::new(fs.clone()));
    let db = options(metered, 64 << 20).open(DIR).unwrap();
    write(&db, (0..KEYS).map(scattered), &[7; 40]);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    fs
}

/// A copy, with nothing in memory.
fn cold(fs: &MemFs, memory: u64) -> (Db, MeteredFs) {
    cold_with(fs, MemoryBudget::bytes(memory))
}

fn cold_with(fs: &MemFs, memory: MemoryBudget) -> (Db, MeteredFs) {
    let fs = MeteredFs::new(Arc::new(fs.deep_clone()));
    (options_with(fs.clone(), memory).open(DIR).unwrap(), fs)
}

/// Data and index pages that scans read so far.
fn scanned(fs: &MeteredFs) -> [u64; 2] {
    let counts = fs.counts();
    [BlockKind::Data, BlockKind::Index].map(|kind| counts.reads(kind, Purpose::Scan).pages)
}

fn since(fs: &MeteredFs, before: [u64; 2]) -> [f64; 2] {
    let now = scanned(fs);
    [0, 1].map(|kind| (now[kind] - before[kind]) as f64)
}

/// The first entries from `from` on.
fn scan(db: &Db, from: u64, options: IterOptions) {
    let mut iter = db.cursor(options).unwrap();
    iter.seek(key(from)).unwrap();
    for number in from..(from + RANGE).min(KEYS) {
        assert_eq!(iter.key(), key(number));
        if number + 1 < from + RANGE {
            iter.next().unwrap();
        }
    }
}

/// 3.6 MB of data with 0.5 MB free: most pages are not worth their room in the cache.
#[test]
fn short_scans_read_a_page_of_data_and_no_index() {
    let scarce = Scarce::leaving(512 << 10);
    let (db, fs) = cold_with(&one_run(), scarce.memory.clone());
    let mut before = scanned(&fs);
    for number in 0..6000 {
        if number == 3000 {
            before = scanned(&fs);
        }
        scan(&db, scattered(number), IterOptions::default());
    }
    let [data, index] = since(&fs, before).map(|pages| pages / 3000.0);
    // A quarter of them go over the end of a page.
    assert!(data < 1.3, "{data} data pages a scan");
    assert!(index < 0.05, "{index} index pages a scan");
}

/// One run of all keys, a newer one of every hundredth with values of which a page holds three, and
/// one of the last keys.
fn three_runs() -> MemFs {
    let fs = one_run();
    let metered = MeteredFs::new(Arc::new(fs.clone()));
    let db = options(metered, 8 << 20).open(DIR).unwrap();
    let large = (0..KEYS / 100).map(|number| 100 * number);
    write(&db, large, &[8; 1300]);
    db.flush().unwrap();
    write(&db, KEYS - 50..KEYS, &[9; 40]);
    db.flush().unwrap();
    db.close().unwrap();
    fs
}

/// Data pages that it takes to look at `numbers` one after another, up or down, of nothing in
/// memory. With bounds, the iterator finds their end as well.
fn pages_of(fs: &MemFs, numbers: &[u64], bounded: bool) -> f64 {
    let (db, fs) = cold(fs, 8 << 20);
    let before = scanned(&fs);
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
        return 0.0;
    };
    let (least, most) = (first.min(last), first.max(last));
    let mut iter = if bounded {
        db.cursor(IterOptions::range(key(least).to_vec()..=key(most).to_vec()))
    } else {
        db.cursor(IterOptions::default())
    }
    .unwrap();
    if first <= last {
        iter.seek(key(first)).unwrap()
    } else {
        iter.seek_for_prev(key(first)).unwrap()
    }
    for &number in numbers {
        assert_eq!(iter.key(), key(number));
        match first <= last {
            _ if number == last && !bounded => {}
            true => iter.next().unwrap(),
            false => iter.prev().unwrap(),
        }
    }
    assert_eq!(iter.valid(), !bounded);
    drop(iter);
    since(&fs, before)[0]
}

/// Wherever it begins and ends, a scan of ten entries reads the one page of each run that the first
/// may be in, and one more at the end of a page of small entries. Runs of which it reaches nothing
/// are not read, nor pages behind its bound.
#[test]
fn pages_that_a_scan_does_not_reach_are_not_read() {
    let fs = three_runs();
    for from in (1000..1300).step_by(7) {
        let forward: Vec<u64> = (from..from + 10).collect();
        let backward: Vec<u64> = forward.iter().rev().copied().collect();
        for numbers in [forward, backward] {
            // A large entry among them may lie behind the page at which the scan begins.
            let large = numbers.iter().filter(|number| *number % 100 == 0).count() as f64;
            for bounded in [false, true] {
                let pages = pages_of(&fs, &numbers, bounded);
                assert!(pages <= 3.0 + large, "{pages} pages for {numbers:?}");
            }
        }
    }
}

/// Data pages a scan among as many updates, of 3.6 MB of data under 1.5 MB.
fn data_among_updates(fs: &MemFs, inherit: bool) -> f64 {
    let fs = MeteredFs::new(Arc::new(fs.deep_clone()));
    let options = options(fs.clone(), 3 << 19).inherit_statistics(inherit);
    let db = options.open(DIR).unwrap();
    let mut before = scanned(&fs);
    for number in 0..24_000 {
        if number == 12_000 {
            before = scanned(&fs);
        }
        db.put(key(scattered(7 * number + 1)), [8; 40]).unwrap();
        scan(&db, scattered(number), IterOptions::default());
    }
    since(&fs, before)[0] / 12_000.0
}

/// Flushes and merges write small levels over and over; what scans will read of them stays in
/// memory.
#[test]
fn pages_of_new_tables_need_not_be_read_back() {
    let fs = one_run();
    let [with, without] = [true, false].map(|inherit| data_among_updates(&fs, inherit));
    assert!(with < 0.9 * without, "{with} with, {without} without");
}
