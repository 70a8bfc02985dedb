//! Filters of ranges: scans between two bounds find what they find without, and read less.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::{
    Map, Replay, Rng, Scarce, env_number, files_ending, on_every_core, pages_of_scans,
};
use shamba::fs::{MemFs, MeteredFs};
use shamba::{
    Append, Compression, Db, Error, FilterOptions, IterOptions, KeyspaceOptions, MemoryBudget,
    Options, Prefix, WriteBatch,
};

const DIR: &str = "/db";

fn options(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(2 << 20))
        .background_threads(0)
        .merge_operator("default", Append)
}

/// Keys of a kind, or of all: numbers, users and times, words that begin alike, long ones.
fn random_key(rng: &mut Rng, kind: u64) -> Vec<u8> {
    let number = rng.below(3000);
    let kind = if kind < 7 { kind } else { rng.below(7) };
    match kind {
        0 => (number << 20).to_be_bytes().to_vec(),
        1 | 2 => [(number % 20).to_be_bytes(), number.to_be_bytes()].concat(),
        3 => format!("key {number:04}").into_bytes(),
        4 => [&[b'l'; 80][..], &number.to_be_bytes(), &[7; 70]].concat(),
        5 => vec![[0, 1, 254, 255][rng.below(4) as usize]; rng.below(5) as usize],
        _ => [
            b"a long beginning of all of these ",
            &number.to_le_bytes()[..],
        ]
        .concat(),
    }
}

/// Mostly short ranges, with and without keys.
fn random_bounds(rng: &mut Rng, kind: u64) -> IterOptions {
    let key = random_key(rng, kind);
    let other = match rng.below(4) {
        0 => random_key(rng, kind),
        1 => [&key[..], b"\xff"].concat(),
        2 => {
            let mut other = key.clone();
            if let Some(last) = other.last_mut() {
                *last = last.wrapping_add(rng.below(4) as u8);
            }
            other
        }
        _ => key[..rng.below(key.len() as u64 + 1) as usize].to_vec(),
    };
    let (from, to) = (key.clone().min(other.clone()), key.max(other));
    let bound = |rng: &mut Rng, key: Vec<u8>| match rng.below(9) {
        0 => Bound::Unbounded,
        1..4 => Bound::Excluded(key),
        _ => Bound::Included(key),
    };
    let (lower, upper) = (bound(rng, from), bound(rng, to));
    IterOptions::default().lower(lower).upper(upper)
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn expected(map: &Map, bounds: &IterOptions) -> Entries {
    let range = (bounds.lower.clone(), bounds.upper.clone());
    if let (Bound::Excluded(a), Bound::Excluded(b)) = &range
        && a == b
    {
        return Vec::new();
    }
    let found = map.range::<Vec<u8>, _>(range);
    found
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn pairs<V: AsRef<[u8]>>(iter: impl Iterator<Item = shamba::Result<(Vec<u8>, V)>>) -> Entries {
    let pairs = iter.map(|entry| {
        let (key, value) = entry.unwrap();
        (key, value.as_ref().to_vec())
    });
    pairs.collect()
}

/// The entries between two bounds forward, backward, and from within.
fn check_scan(db: &Db, map: &Map, bounds: &IterOptions, (rng, kind): (&mut Rng, u64)) {
    let expected = expected(map, bounds);
    let range = || (bounds.lower.clone(), bounds.upper.clone());
    assert_eq!(pairs(db.range(range())), expected, "{bounds:?}");
    let mut backward = pairs(db.range(range()).rev());
    backward.reverse();
    assert_eq!(backward, expected, "{bounds:?}, backward");
    let mut cursor = db.cursor(bounds.clone()).unwrap();
    for _ in 0..2 {
        let key = match expected.get(rng.below(expected.len() as u64 + 1) as usize) {
            Some((key, _)) => key.clone(),
            None => random_key(rng, kind),
        };
        cursor.seek(&key).unwrap();
        let next = expected.iter().find(|(at, _)| *at >= key);
        assert_eq!(cursor.key(), next.map_or(&[][..], |(key, _)| key));
        cursor.seek_for_prev(&key).unwrap();
        let before = expected.iter().rfind(|(at, _)| *at <= key);
        assert_eq!(cursor.key(), before.map_or(&[][..], |(key, _)| key));
    }
}

/// Random operations on a database and a map: the same answers.
fn run_history(seed: u64) -> u64 {
    let _replay = Replay(format!(
        "SHAMBA_SEED={seed} cargo test -p shamba --features testing --test engine range_filters"
    ));
    let mut rng = Rng::new(seed);
    let (kind, mut left_out) = (seed % 8, 0);
    let fs = MemFs::new();
    let keyspace = |rng: &mut Rng, bits| {
        let options = crate::common::random_keyspace_options(rng);
        options.prefix(None).range_filter(bits)
    };
    let bits = *rng.pick(&[4.0, 8.0, 10.0, 32.0]);
    let first = keyspace(&mut rng, Some(bits));
    let mut db = options(&fs).keyspace(first).open(DIR).unwrap();
    let mut map = Map::new();
    let mut snapshots = Vec::new();
    for _ in 0..220 {
        match rng.below(20) {
            0..8 => {
                let mut batch = WriteBatch::new();
                for _ in 0..rng.between(1, 60) {
                    let (key, value) = (random_key(&mut rng, kind), rng.bytes(20));
                    match rng.below(6) {
                        0 => {
                            batch.delete(&key);
                            map.remove(&key);
                        }
                        1 => {
                            batch.merge(&key, &value);
                            map.entry(key).or_default().extend(value);
                        }
                        _ => {
                            batch.put(&key, &value);
                            map.insert(key, value);
                        }
                    }
                }
                db.write(batch).unwrap();
            }
            8 => {
                let (a, b) = (random_key(&mut rng, kind), random_key(&mut rng, kind));
                let (from, to) = (a.clone().min(b.clone()), a.max(b));
                if from < to {
                    db.delete_range(&from[..]..&to[..]).unwrap();
                    map.retain(|key, _| *key < from || *key >= to);
                }
            }
            9 => db.flush().unwrap(),
            10 => db.compact_range(None, None).unwrap(),
            11 => {
                snapshots.clear();
                left_out += db.stats().counters.scan_filter_negatives;
                db.clone().close().unwrap();
                // With other bits, with none, and with what is kept.
                let options = options(&fs);
                let options = match rng.below(3) {
                    0 => options,
                    n => options.keyspace(keyspace(&mut rng, (n == 1).then_some(6.0))),
                };
                db = options.open(DIR).unwrap();
            }
            12 => snapshots.push((db.snapshot(), map.clone())),
            13 if !snapshots.is_empty() => {
                let (snapshot, map) = rng.pick(&snapshots);
                let bounds = random_bounds(&mut rng.clone(), kind);
                let range = (bounds.lower.clone(), bounds.upper.clone());
                assert_eq!(pairs(snapshot.range(range)), expected(map, &bounds));
            }
            _ => {
                let bounds = random_bounds(&mut rng, kind);
                check_scan(&db, &map, &bounds, (&mut rng, kind));
            }
        }
    }
    check_scan(&db, &map, &IterOptions::default(), (&mut rng, kind));
    let left_out = left_out + db.stats().counters.scan_filter_negatives;
    db.verify().unwrap().check().unwrap();
    left_out
}

#[test]
fn scans_find_what_a_map_has() {
    if let Some(seed) = env_number("SHAMBA_SEED") {
        run_history(seed);
        return;
    }
    let left_out = [const { AtomicU64::new(0) }; 8];
    on_every_core(64, |seed| {
        left_out[seed as usize % 8].fetch_add(run_history(seed), Relaxed);
    });
    // Of each kind of keys but those that are very few, and of their mixture.
    let left_out = left_out.map(AtomicU64::into_inner);
    let few = left_out.iter().filter(|tables| **tables < 20).count();
    assert!(few <= 1, "{left_out:?}");
}

/// Numbers in an order without a pattern, of which some are keys.
const NUMBERS: u64 = 320_000;

fn number(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Eight runs, each of other keys, one of two numbers in one of them.
fn runs(bits: Option<f64>) -> MemFs {
    let fs = MemFs::new();
    // Runs that no merge makes one of.
    let keyspace = KeyspaceOptions::new()
        .write_buffer(64 << 20)
        .level0_runs(100)
        .level0_slowdown(200)
        .level0_stall(300)
        .merge_for_scans(false)
        .range_filter(bits);
    let options = options(&fs).memory(MemoryBudget::bytes(64 << 20));
    let db = options.keyspace(keyspace).open(DIR).unwrap();
    for run in 0..8 {
        let mut batch = WriteBatch::new();
        for at in (run..NUMBERS / 2).step_by(8) {
            batch.put(number(2 * at).to_be_bytes(), [7; 40]);
        }
        db.write(batch).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    fs
}

/// Pages of all kinds that a scan of a short range without a key reads, with so much memory for
/// filters, indexes and data: of 8,000 from an empty cache on, and of as many more.
fn pages_of_empty_scans(fs: &MemFs, memory: u64) -> ([f64; 2], shamba::Counters) {
    let fs = MeteredFs::new(Arc::new(fs.deep_clone()));
    let scarce = Scarce::leaving(memory);
    let db = options(&MemFs::new())
        .fs(Arc::new(fs.clone()))
        .memory(scarce.memory.clone())
        .open(DIR)
        .unwrap();
    let read = || pages_of_scans(&fs);
    let mut first = 0;
    for scan in 0..16_000u64 {
        if scan == 8_000 {
            first = read();
        }
        // A 64th of what lies between two keys of a run on average.
        let from = number(2 * (scan.wrapping_mul(48_271) % (NUMBERS / 2)) + 1);
        let range = from.to_be_bytes()..from.saturating_add(1 << 42).to_be_bytes();
        let mut found = db.range(range);
        let entry = if scan % 2 == 0 {
            found.next()
        } else {
            found.next_back()
        };
        assert!(entry.is_none());
    }
    let pages = [first, read() - first].map(|pages| pages as f64 / 8_000.0);
    (pages, db.stats().counters)
}

#[test]
fn empty_scans_read_less_than_a_quarter_of_what_they_do_without() {
    let (without, with) = (runs(None), runs(Some(10.0)));
    let db = options(&without).read_only(true).open(DIR).unwrap();
    let levels = &db.stats().keyspaces[0].levels;
    let bytes = |level: &shamba::LevelStatistics| level.filter_bytes + level.index_bytes;
    let memory = levels.iter().map(bytes).sum::<u64>() * 2 / 5;
    drop(db);
    // What is known of open tables, beside.
    let memory = memory + (48 << 10);
    let (before, none) = pages_of_empty_scans(&without, memory);
    assert!(
        (7.9..9.0).contains(&before[1]),
        "{before:?} pages a scan without"
    );
    // At first, and of the next 8,000; a few bytes more or less decide nothing.
    let around = (-4..=4).map(|more: i64| memory.saturating_add_signed(more << 10));
    let all: Vec<_> = around
        .map(|memory| pages_of_empty_scans(&with, memory))
        .collect();
    let each: Vec<_> = all.iter().map(|(pages, _)| pages).collect();
    for pages in &each {
        let few = (pages.iter().zip(before)).all(|(now, before)| *now < before / 4.0);
        assert!(few, "{each:?}, {before:?} without");
    }
    assert_eq!(none.scan_filter_probes, 0);
    for (_, counters) in all {
        assert!(counters.scan_filter_negatives > counters.scan_filter_probes / 2);
        assert!(counters.scan_filter_pages > 0);
    }
}

/// Of a table that is left out the range tombstones count all the same.
#[test]
fn a_table_that_is_left_out_still_hides() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new().range_filter(16.0);
    let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
    let key = |at: u64| (at << 32).to_be_bytes();
    for at in 0..1000 {
        db.put(key(at), "old").unwrap();
    }
    db.compact_range(None, None).unwrap();
    for at in [0, 500, 999] {
        db.put(key(at), "new").unwrap();
    }
    db.delete_range(key(100)..key(200)).unwrap();
    db.flush().unwrap();
    assert_eq!(db.range(key(150)..key(160)).count(), 0);
    assert_eq!(db.range(key(150)..key(160)).rev().count(), 0);
    assert_eq!(db.range(key(195)..key(205)).count(), 5);
    assert_eq!(db.range(key(90)..=key(100)).count(), 10);
    assert!(db.stats().counters.scan_filter_negatives > 0);
}

fn fill(db: &Db) {
    let mut batch = WriteBatch::new();
    for at in 0..500u64 {
        batch.put((at << 20).to_be_bytes(), "value");
    }
    db.write(batch).unwrap();
    db.flush().unwrap();
}

/// The manifest names what is used, and no table has more than it says.
#[test]
fn nothing_is_written_where_no_ranges_are_asked_for() {
    let mut sizes = Vec::new();
    for bits in [None, Some(10.0)] {
        let fs = MemFs::new();
        let keyspace = KeyspaceOptions::new()
            .range_filter(bits)
            .value_files_from(1 << 10);
        let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
        let names_it = || {
            let has = |path: PathBuf| {
                let bytes = fs.read_file(&path).unwrap();
                bytes.windows(13).any(|bytes| bytes == b"range filters")
            };
            fs.files().into_iter().any(has)
        };
        assert!(!names_it(), "nothing is written yet");
        fill(&db);
        assert_eq!(names_it(), bits.is_some());
        let tables = files_ending(&fs, DIR, ".sst");
        let size = |name: &String| fs.read_file(PathBuf::from(DIR).join(name)).unwrap().len();
        sizes.push(tables.iter().map(size).sum::<usize>());
        // Value files have none.
        db.put("long", [0; 2000]).unwrap();
        db.flush().unwrap();
        assert_eq!(db.stats().keyspaces[0].values.files, 1);
        db.verify().unwrap().check().unwrap();
    }
    assert_eq!(sizes[1], sizes[0] + 4096, "a page of one partition");
}

/// A changed byte of the filter is noticed and the filter ignored.
#[test]
fn damage_to_the_filter_costs_reads_alone() {
    let fs = MemFs::new();
    let filter = FilterOptions::new().bits_per_key(0.0);
    let keyspace = KeyspaceOptions::new().filter(filter).range_filter(10.0);
    let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
    fill(&db);
    db.close().unwrap();
    let name = files_ending(&fs, DIR, ".sst").remove(0);
    let path = PathBuf::from(DIR).join(name);
    let sound = fs.read_file(&path).unwrap();
    let pages = sound.len() / 4096;
    // Data blocks, the filter of ranges, the index, the footer.
    let filter = (pages - 3) * 4096..(pages - 2) * 4096;
    for at in filter.step_by(97) {
        let fs = fs.deep_clone();
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        fs.write_file(&path, &bytes).unwrap();
        let db = options(&fs).open(DIR).unwrap();
        for at in 0..100u64 {
            let from = (at << 19).to_be_bytes();
            let range = || from..((at << 19) + 3).to_be_bytes();
            let count = usize::from(at % 2 == 0);
            assert_eq!(db.range(range()).count(), count);
            assert_eq!(db.range(range()).rev().count(), count);
        }
        let counters = db.stats().counters;
        assert_eq!(counters.scan_filter_negatives, 0, "{at}");
        assert!(counters.corrupt_filters > 0, "{at}");
        assert!(db.verify().unwrap().check().is_err(), "{at}");
    }
}

/// In both layouts, compressed or not, with key filters or without.
#[test]
fn short_ranges_leave_tables_out_in_every_layout() {
    let mut seen = BTreeMap::new();
    for partitioned in [true, false] {
        for bits in [0.0, 10.0] {
            let fs = MemFs::new();
            let filter = FilterOptions::new()
                .bits_per_key(bits)
                .partitioned(partitioned);
            let keyspace = KeyspaceOptions::new()
                .filter(filter)
                .compression([Compression::Lz4])
                .range_filter(10.0);
            let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
            for at in 0..20_000 {
                db.put(number(2 * at).to_be_bytes(), "value").unwrap();
            }
            db.compact_range(None, None).unwrap();
            let range = |at: u64| {
                let from = number(at);
                from.to_be_bytes()..=from.saturating_add(1 << 40).to_be_bytes()
            };
            for at in 0..2_000 {
                assert_eq!(db.range(range(2 * at)).count(), 1);
            }
            let before = db.stats().counters;
            for at in 0..2_000 {
                assert_eq!(db.range(range(2 * at + 1)).count(), 0);
            }
            let after = db.stats().counters;
            assert_eq!(before.scan_filter_negatives, 0);
            let negatives = after.scan_filter_negatives - before.scan_filter_negatives;
            seen.insert(format!("{partitioned} {bits}"), negatives);
            db.verify().unwrap().check().unwrap();
        }
    }
    // One in 256 passes, or two and a half times as many at most.
    assert!(
        seen.values().all(|negatives| *negatives > 1_980),
        "{seen:?}"
    );
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let fs = MemFs::new();
    for bits in [0.0, 3.9, 32.1, f64::NAN, f64::INFINITY, -1.0] {
        let keyspace = KeyspaceOptions::new().range_filter(bits);
        let refused = options(&fs).keyspace(keyspace).open(DIR);
        assert!(matches!(
            refused,
            Err(Error::InvalidOption {
                option: "range_filter",
                ..
            })
        ));
    }
    let both = KeyspaceOptions::new()
        .range_filter(10.0)
        .prefix(Prefix::Fixed(1));
    let refused = options(&fs).keyspace(both).open(DIR).unwrap_err();
    assert!(refused.to_string().contains("not both"), "{refused}");
    assert!(fs.files().is_empty());
}
