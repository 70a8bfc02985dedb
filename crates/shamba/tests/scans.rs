//! How many pages scans read: of data each page once, of indexes hardly any.

use std::sync::Arc;

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
    Options::new()
        .fs(Arc::new(fs))
        .memory(MemoryBudget::bytes(memory))
        .background_threads(0)
        .keyspace(KeyspaceOptions {
            write_buffer: 64 << 10,
            target_file: 256 << 10,
            ..KeyspaceOptions::default()
        })
}

fn write(db: &Db, numbers: impl Iterator<Item = u64>, value: &[u8]) {
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.put(key(number), value);
        if batch.len() == 100 {
            let full = std::mem::take(&mut batch);
            db.write(full, Default::default()).unwrap();
        }
    }
    db.write(batch, Default::default()).unwrap();
}

/// One run of all keys, with values of `value` bytes, opened anew.
fn one_run(value: usize, memory: u64) -> (Db, MeteredFs) {
    let fs = MeteredFs::new(Arc::new(MemFs::new()));
    let db = options(fs.clone(), 64 << 20).open(DIR).unwrap();
    write(&db, (0..KEYS).map(scattered), &vec![7; value]);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    (options(fs.clone(), memory).open(DIR).unwrap(), fs)
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
    let mut iter = db.iter(options).unwrap();
    iter.seek(key(from)).unwrap();
    for number in from..(from + RANGE).min(KEYS) {
        assert_eq!(iter.key(), key(number));
        if number + 1 < from + RANGE {
            iter.next().unwrap();
        }
    }
}

/// 3.6 MB of data under 0.5 MB: most pages are not worth their room in the cache.
#[test]
fn short_scans_read_a_page_of_data_and_no_index() {
    let (db, fs) = one_run(40, 512 << 10);
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
