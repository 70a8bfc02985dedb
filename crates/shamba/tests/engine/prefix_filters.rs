//! Filters of prefixes: scans within a prefix find what they find without, and read less.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{
    Map, Replay, Rng, Scarce, env_number, files_ending, on_every_core, pages_of_scans,
};
use shamba::fs::{MemFs, MeteredFs};
use shamba::{
    Append, Db, Error, FilterFamily, FilterOptions, IterOptions, KeyspaceOptions, MemoryBudget,
    Options, Prefix, WriteBatch,
};

const DIR: &str = "/db";

/// All up to the last delimiter: of a key each directory is a prefix.
fn directory(key: &[u8]) -> Option<usize> {
    let at = key.iter().rposition(|byte| *byte == b'/');
    at.map(|at| at + 1)
}

/// Says nothing that it should: other lengths of a key than of its beginnings, too long ones, and
/// of some it panics.
fn unruly(key: &[u8]) -> Option<usize> {
    assert!(key.len() != 5, "as it was told");
    match key.len() % 3 {
        0 => Some(key.len()),
        1 => Some(key.len() + 7),
        _ => Some(key.iter().map(|byte| usize::from(*byte % 8)).sum()),
    }
}

/// Panics of functions are expected here.
fn without_messages() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.to_string().contains("as it was told") {
                default(panic);
            }
        }));
    });
}

fn kinds() -> Vec<Prefix> {
    vec![
        Prefix::Fixed(2),
        Prefix::Fixed(5),
        Prefix::Delimiter(b'/'),
        Prefix::Function("directory".to_owned()),
        Prefix::Function("unruly".to_owned()),
    ]
}

fn options(fs: &MemFs) -> Options {
    without_messages();
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(2 << 20))
        .background_threads(0)
        .merge_operator("default", Append)
        .prefix_function("directory", directory)
        .prefix_function("unruly", unruly)
}

fn random_keyspace(rng: &mut Rng, prefix: Option<Prefix>) -> KeyspaceOptions {
    let options = crate::common::random_keyspace_options(rng);
    options.range_filter(None).prefix(prefix)
}

/// Keys of a few tenants and directories, some without any, so that many ranges are empty.
fn random_key(rng: &mut Rng) -> Vec<u8> {
    let tenant = rng.below(12);
    match rng.below(8) {
        0 => format!("{tenant}").into_bytes(),
        1 => vec![u8::MAX; rng.below(5) as usize],
        2 => [&b"x/"[..], &vec![b'l'; rng.below(300) as usize]].concat(),
        _ => format!("t{tenant:02}/{}/{:03}", rng.below(5), rng.below(40)).into_bytes(),
    }
}

fn random_bounds(rng: &mut Rng) -> IterOptions {
    let key = random_key(rng);
    if rng.one_in(2) {
        let len = rng.below(key.len() as u64 + 1) as usize;
        return IterOptions::prefix(&key[..len]);
    }
    let mut other = random_key(rng);
    if rng.one_in(2) {
        other = key.clone();
        other.truncate(rng.below(key.len() as u64 + 1) as usize);
        other.push(rng.below(256) as u8);
    }
    let (from, to) = (key.clone().min(other.clone()), key.max(other));
    let bound = |rng: &mut Rng, key: Vec<u8>| match rng.below(7) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Excluded(key),
        _ => Bound::Included(key),
    };
    let (lower, upper) = (bound(rng, from), bound(rng, to));
    IterOptions::default().lower(lower).upper(upper)
}

fn expected(map: &Map, bounds: &IterOptions) -> Vec<(Vec<u8>, Vec<u8>)> {
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

type Found = shamba::Result<Vec<(Vec<u8>, Vec<u8>)>>;

fn pairs<V: AsRef<[u8]>>(iter: impl Iterator<Item = shamba::Result<(Vec<u8>, V)>>) -> Found {
    iter.map(|entry| entry.map(|(key, value)| (key, value.as_ref().to_vec())))
        .collect()
}

/// The entries between two bounds forward, backward, from both ends, and from within.
fn check_scan(db: &Db, map: &Map, bounds: &IterOptions, rng: &mut Rng) {
    let expected = expected(map, bounds);
    let range = || (bounds.lower.clone(), bounds.upper.clone());
    assert_eq!(pairs(db.range(range())).unwrap(), expected, "{bounds:?}");
    let mut backward = pairs(db.range(range()).rev()).unwrap();
    backward.reverse();
    assert_eq!(backward, expected, "{bounds:?}, backward");
    let mut cursor = db.cursor(bounds.clone()).unwrap();
    for _ in 0..3 {
        let key = match expected.get(rng.below(expected.len() as u64 + 1) as usize) {
            Some((key, _)) => key.clone(),
            None => random_key(rng),
        };
        cursor.seek(&key).unwrap();
        let next = expected.iter().find(|(at, _)| *at >= key);
        assert_eq!(cursor.valid(), next.is_some(), "{key:?} in {bounds:?}");
        assert_eq!(cursor.key(), next.map_or(&[][..], |(key, _)| key));
        cursor.seek_for_prev(&key).unwrap();
        let before = expected.iter().rfind(|(at, _)| *at <= key);
        assert_eq!(cursor.valid(), before.is_some(), "{key:?} in {bounds:?}");
        assert_eq!(cursor.key(), before.map_or(&[][..], |(key, _)| key));
    }
}

/// Random operations on a database and a map: the same answers, whatever prefixes are.
fn run_history(seed: u64) {
    let _replay = Replay(format!(
        "SHAMBA_SEED={seed} cargo test -p shamba --features testing --test engine prefix_filters"
    ));
    let mut rng = Rng::new(seed);
    let kinds = kinds();
    let kind = kinds[seed as usize % kinds.len()].clone();
    let fs = MemFs::new();
    let keyspace = random_keyspace(&mut rng, Some(kind));
    let mut db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
    let mut map = Map::new();
    let mut snapshots = Vec::new();
    for _ in 0..260 {
        match rng.below(24) {
            0..10 => {
                let mut batch = WriteBatch::new();
                for _ in 0..rng.between(1, 40) {
                    let (key, value) = (random_key(&mut rng), rng.bytes(20));
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
            10 => {
                let key = random_key(&mut rng);
                let prefix = &key[..rng.between(0, key.len().min(4) as u64) as usize];
                if !prefix.is_empty() {
                    db.delete_prefix(prefix).unwrap();
                    map.retain(|key, _| !key.starts_with(prefix));
                }
            }
            11 => db.flush().unwrap(),
            12 => db.compact_range(None, None).unwrap(),
            13 => {
                snapshots.clear();
                db.clone().close().unwrap();
                // With the same, with others, with none, and with what is kept.
                let other = rng.pick(&kinds).clone();
                let prefix = [Some(other), None][rng.below(2) as usize].clone();
                let options = options(&fs);
                let options = match rng.below(3) {
                    0 => options,
                    _ => options.keyspace(random_keyspace(&mut rng, prefix)),
                };
                db = options.open(DIR).unwrap();
            }
            14 => snapshots.push((db.snapshot(), map.clone())),
            15 => {
                let bounds = random_bounds(&mut rng);
                let mut transaction = db.transaction();
                let mut own = map.clone();
                for _ in 0..rng.below(4) {
                    let (key, value) = (random_key(&mut rng), rng.bytes(10));
                    transaction.put(&key, &value).unwrap();
                    own.insert(key, value);
                }
                let range = (bounds.lower.clone(), bounds.upper.clone());
                let found = pairs(transaction.range(range.clone())).unwrap();
                assert_eq!(found, expected(&own, &bounds), "{bounds:?}");
                let mut found = pairs(transaction.range(range).rev()).unwrap();
                found.reverse();
                assert_eq!(found, expected(&own, &bounds), "{bounds:?}, backward");
            }
            16 if !snapshots.is_empty() => {
                let (snapshot, map) = rng.pick(&snapshots);
                let bounds = random_bounds(&mut rng.clone());
                let range = || (bounds.lower.clone(), bounds.upper.clone());
                let wanted = expected(map, &bounds);
                assert_eq!(
                    pairs(snapshot.range(range())).unwrap(),
                    wanted,
                    "{bounds:?}"
                );
            }
            _ => check_scan(&db, &map, &random_bounds(&mut rng), &mut rng),
        }
    }
    check_scan(&db, &map, &IterOptions::default(), &mut rng);
    db.verify().unwrap().check().unwrap();
}

#[test]
fn scans_find_what_a_map_has() {
    if let Some(seed) = env_number("SHAMBA_SEED") {
        return run_history(seed);
    }
    on_every_core(60, run_history);
}

/// Users in an order without a pattern: each has a few entries, in one run or another.
const USERS: u64 = 80_000;

fn user(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Several runs, each of other users, and the bytes of filters and indexes of them.
fn users(prefix: Option<Prefix>) -> MemFs {
    let fs = MemFs::new();
    // Runs that no merge makes one of.
    let keyspace = KeyspaceOptions::new()
        .write_buffer(64 << 20)
        .level0_runs(100)
        .level0_slowdown(200)
        .level0_stall(300)
        .merge_for_scans(false)
        .prefix(prefix);
    let options = options(&fs).memory(MemoryBudget::bytes(64 << 20));
    let db = options.keyspace(keyspace).open(DIR).unwrap();
    for run in 0..8 {
        let mut batch = WriteBatch::new();
        // Half of the users have nothing anywhere.
        for number in (run..USERS / 2).step_by(8) {
            for entry in 0..4u8 {
                let key = [&user(2 * number)[..], &[entry]].concat();
                batch.put(key, [7; 40]);
            }
        }
        db.write(batch).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    fs
}

/// Pages of all kinds that a short scan of a user without entries reads, with so much memory for
/// filters, indexes and data.
fn pages_of_empty_scans(
    fs: &MemFs,
    memory: u64,
    absent: impl Fn(u64) -> u64,
) -> (f64, shamba::Counters) {
    let fs = MeteredFs::new(Arc::new(fs.deep_clone()));
    let scarce = Scarce::leaving(memory);
    let db = options(&MemFs::new())
        .fs(Arc::new(fs.clone()))
        .memory(scarce.memory.clone())
        .open(DIR)
        .unwrap();
    let read = || pages_of_scans(&fs);
    let mut before = 0;
    for number in 0..16_000u64 {
        if number == 8_000 {
            before = read();
        }
        let mut found = db.prefix(user(2 * absent(number) + 1));
        if number % 2 == 0 {
            assert!(found.next().is_none());
        } else {
            assert!(found.next_back().is_none());
        }
    }
    let pages = (read() - before) as f64 / 8_000.0;
    (pages, db.stats().counters)
}

/// Any absent user.
fn any(number: u64) -> u64 {
    number.wrapping_mul(48_271) % (USERS / 2)
}

/// Of a filter's last column in memory it is known how many scans only that one turns away, whether
/// the filter has a module or two: where a few absent users are asked for again and again, few
/// columns do all there is to do. Without that nearly four times as much is read, 1.1 pages.
#[test]
fn columns_that_turn_hot_scans_away_stay() {
    let with = users(Some(Prefix::Fixed(8)));
    let hot = |number: u64| match number % 10 {
        0 => any(number),
        _ => any(number * number % 61),
    };
    let (pages, _) = pages_of_empty_scans(&with, 60 << 10, hot);
    assert!(pages < 0.6, "{pages} pages a scan");
}

#[test]
fn empty_scans_read_less_than_half_of_what_they_do_without() {
    let (without, with) = (users(None), users(Some(Prefix::Fixed(8))));
    let options = options(&without).read_only(true);
    let db = options.open(DIR).unwrap();
    let levels = &db.stats().keyspaces[0].levels;
    let bytes = |level: &shamba::LevelStatistics| level.filter_bytes + level.index_bytes;
    let memory = levels.iter().map(bytes).sum::<u64>() * 2 / 5;
    drop(db);
    // What is known of open tables, beside.
    let memory = memory + (48 << 10);
    let (before, none) = pages_of_empty_scans(&without, memory, any);
    let (now, counters) = pages_of_empty_scans(&with, memory, any);
    println!("{now} pages a scan, {before} without");
    assert!(now < before / 2.0, "{now} pages a scan, {before} without");
    assert_eq!(
        (none.scan_filter_probes, none.scan_filter_negatives),
        (0, 0)
    );
    assert!(
        counters.scan_filter_negatives > counters.scan_filter_probes / 2,
        "{counters:?}"
    );
    assert!(counters.scan_filter_pages > 0);
}

/// Of a table without the prefix of a scan the range tombstones count all the same.
#[test]
fn a_table_that_is_left_out_still_hides() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new()
        .level0_runs(10)
        .prefix(Prefix::Delimiter(b'/'));
    let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
    for number in 0..100 {
        db.put(format!("b/{number:03}"), "old").unwrap();
    }
    db.flush().unwrap();
    // Entries around the prefix, and a tombstone over half of it.
    db.put("a/1", "").unwrap();
    db.put("c/1", "").unwrap();
    db.delete_range("b/020".."b/070").unwrap();
    db.flush().unwrap();
    let before = db.stats().counters;
    assert_eq!(db.prefix("b/").count(), 50);
    assert_eq!(db.prefix("b/").rev().count(), 50);
    assert_eq!(db.range("b/020".."b/050").count(), 0);
    assert_eq!(db.prefix("b/1").count(), 0);
    assert_eq!(db.prefix("bb/").count(), 0);
    let after = db.stats().counters;
    assert!(after.scan_filter_negatives > before.scan_filter_negatives);
    assert!(after.scan_filter_probes > after.scan_filter_negatives);
}

#[test]
fn each_directory_of_a_path_is_a_prefix() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new().prefix(Prefix::Function("directory".to_owned()));
    let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
    db.put("a/b/c", "").unwrap();
    db.put("z/z/z", "").unwrap();
    db.flush().unwrap();
    let negatives = || db.stats().counters.scan_filter_negatives;
    for (prefix, count) in [("a/", 1), ("a/b/", 1), ("a/b/c", 1), ("z/z/", 1)] {
        assert_eq!(db.prefix(prefix).count(), count, "{prefix}");
        assert_eq!(negatives(), 0, "{prefix}");
    }
    for (number, prefix) in ["b/", "k/k/", "a/c/", "a/b/d/"].into_iter().enumerate() {
        assert_eq!(db.prefix(prefix).count(), 0, "{prefix}");
        assert_eq!(negatives(), number as u64 + 1, "{prefix}");
    }
    // What lies in no prefix asks nothing.
    let probes = db.stats().counters.scan_filter_probes;
    assert_eq!(db.prefix("m").count() + db.range("b".."y").count(), 0);
    assert_eq!(db.stats().counters.scan_filter_probes, probes);
}

/// A function by which every beginning of a key is a prefix, or of every other key: no filter of
/// so many is written, and what is written is right.
#[test]
fn a_function_of_very_many_prefixes_has_no_filter() {
    for every in [1, 2] {
        let fs = MemFs::new();
        let all = move |key: &[u8]| {
            let last = key.last().is_some_and(|byte| byte % every == 0);
            last.then_some(key.len())
        };
        let options = || options(&fs).prefix_function("all", all);
        let keyspace = KeyspaceOptions::new().prefix(Prefix::Function("all".to_owned()));
        let db = options().keyspace(keyspace).open(DIR).unwrap();
        let mut rng = Rng::new(3);
        let keys: BTreeSet<_> = (0..3_000).map(|_| rng.bytes(40)).collect();
        for key in &keys {
            db.put(key, "").unwrap();
        }
        db.compact_range(None, None).unwrap();
        for key in &keys {
            let len = rng.between(1, 40) as usize;
            let count = keys.iter().filter(|other| other.starts_with(&key[..len]));
            let found = pairs(db.prefix(&key[..len])).unwrap();
            assert_eq!(found.len(), count.count());
        }
        assert!(db.prefix([3, 4]).count() < 10);
        assert!(db.stats().counters.scan_filter_probes > 0);
        db.verify().unwrap().check().unwrap();
    }
}

fn fill(db: &Db) {
    for number in 0..200 {
        db.put(format!("t{:02}/{number:03}", 2 * (number % 40)), [7; 50])
            .unwrap();
    }
    db.flush().unwrap();
}

fn tenant(number: u64) -> String {
    format!("t{number:02}/")
}

#[test]
fn tables_of_another_definition_are_scanned_as_without() {
    let fs = MemFs::new();
    let fixed = KeyspaceOptions::new().prefix(Prefix::Fixed(4));
    let db = options(&fs).keyspace(fixed.clone()).open(DIR).unwrap();
    fill(&db);
    db.close().unwrap();
    for (prefix, asks) in [
        (Some(Prefix::Fixed(4)), true),
        (Some(Prefix::Fixed(3)), false),
        (Some(Prefix::Delimiter(b'/')), false),
        (Some(Prefix::Function("directory".to_owned())), false),
        (None, false),
    ] {
        let named = fixed.clone().prefix(prefix.clone());
        let db = options(&fs).keyspace(named).open(DIR).unwrap();
        for number in 1..78 {
            let count = if number % 2 == 0 { 5 } else { 0 };
            assert_eq!(db.prefix(tenant(number)).count(), count);
        }
        let counters = db.stats().counters;
        assert_eq!(counters.scan_filter_negatives > 0, asks, "{prefix:?}");
        assert_eq!(counters.scan_filter_probes > 0, asks, "{prefix:?}");
        drop(db);
        // What was named is kept.
        let db = options(&fs).open(DIR).unwrap();
        assert_eq!(db.default_keyspace().options().prefix, prefix);
        drop(db);
    }
    // Once a merge has written them they are of the new definition.
    let named = fixed.prefix(Prefix::Delimiter(b'/'));
    let db = options(&fs).keyspace(named).open(DIR).unwrap();
    db.put("t00/x", "").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.prefix(tenant(7)).count(), 0);
    assert_eq!(db.stats().counters.scan_filter_negatives, 1);
    db.alter_keyspace("default", KeyspaceOptions::new())
        .unwrap();
    assert_eq!(db.prefix(tenant(7)).count(), 0);
    assert_eq!(db.stats().counters.scan_filter_probes, 1);
}

#[test]
fn a_function_that_was_not_given_is_refused_by_name_where_it_is_named() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new().prefix(Prefix::Function("words".to_owned()));
    let is_refused = |result: shamba::Result<()>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert!(error.to_string().contains("words"), "{error}");
    };
    is_refused(options(&fs).keyspace(keyspace.clone()).open(DIR).map(drop));
    assert!(fs.files().is_empty());
    let db = options(&fs).open(DIR).unwrap();
    is_refused(db.create_keyspace("other", keyspace.clone()).map(drop));
    is_refused(db.alter_keyspace("default", keyspace.clone()));
    assert_eq!(db.keyspaces(), ["default"]);
    drop(db);
    // It is kept, and an open without it does without.
    let given = || options(&fs).prefix_function("words", directory);
    let db = given().keyspace(keyspace.clone()).open(DIR).unwrap();
    fill(&db);
    db.close().unwrap();
    for (options, asks) in [(options(&fs), false), (given(), true)] {
        let db = options.open(DIR).unwrap();
        assert_eq!(db.default_keyspace().options().prefix, keyspace.prefix);
        assert_eq!(db.prefix(tenant(7)).count(), 0);
        assert_eq!(db.prefix(tenant(8)).count(), 5);
        assert_eq!(db.stats().counters.scan_filter_probes > 0, asks);
        db.verify().unwrap().check().unwrap();
    }
    let named = [Prefix::Fixed(0), Prefix::Function(String::new())];
    for prefix in named {
        let refused = KeyspaceOptions::new().prefix(prefix).validate();
        assert!(matches!(refused, Err(Error::InvalidOption { .. })));
    }
}

/// The manifest names what is used, and no table has more than it says.
#[test]
fn nothing_is_written_where_no_prefix_is_named() {
    let mut sizes = Vec::new();
    for prefix in [None, Some(Prefix::Delimiter(b'/'))] {
        let fs = MemFs::new();
        let keyspace = KeyspaceOptions::new().prefix(prefix.clone());
        let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
        let names_it = || {
            let has = |path: PathBuf| {
                let bytes = fs.read_file(&path).unwrap();
                bytes.windows(14).any(|bytes| bytes == b"prefix filters")
            };
            fs.files().into_iter().any(has)
        };
        assert!(!names_it(), "nothing is written yet");
        fill(&db);
        assert_eq!(names_it(), prefix.is_some());
        let tables = files_ending(&fs, DIR, ".sst");
        let size = |name: &String| fs.read_file(PathBuf::from(DIR).join(name)).unwrap().len();
        sizes.push(tables.iter().map(size).sum::<usize>());
    }
    let pages = (sizes[1] - sizes[0]) / 4096;
    assert_eq!(pages, 2, "a page of each module of one partition");
}

/// Each byte of the filter of the only table: scans find what there is, and its other module alone
/// says what is not, if it has another.
#[test]
fn damage_to_the_filter_costs_reads_alone() {
    for (family, modules) in [(FilterFamily::Bloom, 1), (FilterFamily::Ribbon, 2)] {
        let fs = MemFs::new();
        let filter = FilterOptions::new().family(family).bits_per_key(0.0);
        let keyspace = KeyspaceOptions::new()
            .filter(filter)
            .prefix(Prefix::Delimiter(b'/'));
        let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
        fill(&db);
        db.close().unwrap();
        let name = files_ending(&fs, DIR, ".sst").remove(0);
        let path = PathBuf::from(DIR).join(name);
        let sound = fs.read_file(&path).unwrap();
        let pages = sound.len() / 4096;
        // Data blocks, the filter of prefixes, the index, the footer.
        let filter = (pages - 2 - modules) * 4096..(pages - 2) * 4096;
        for at in filter.step_by(97) {
            let fs = fs.deep_clone();
            let mut bytes = sound.clone();
            bytes[at] ^= 0x10;
            fs.write_file(&path, &bytes).unwrap();
            let db = options(&fs).open(DIR).unwrap();
            for number in 1..78 {
                let count = if number % 2 == 0 { 5 } else { 0 };
                assert_eq!(db.prefix(tenant(number)).count(), count);
                assert_eq!(db.prefix(tenant(number)).rev().count(), count);
            }
            let counters = db.stats().counters;
            assert_eq!(counters.scan_filter_negatives > 0, modules > 1, "{at}");
            assert!(counters.corrupt_filters > 0, "{at}");
            let damaged = db.verify().unwrap();
            assert!(damaged.check().is_err(), "{at}");
        }
    }
}

/// Of one module one scan in 256 would pass, 137 here.
#[test]
fn where_memory_holds_both_modules_next_to_no_scan_in_vain_passes() {
    let fs = MemFs::new();
    let keyspace = KeyspaceOptions::new().prefix(Prefix::Fixed(8));
    let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
    for number in 0..5000u64 {
        db.put((number * 8 + 3).to_be_bytes(), "v").unwrap();
    }
    db.flush().unwrap();
    for number in 0..40_000u64 {
        let is_there = number % 8 == 3;
        let count = db.prefix(number.to_be_bytes()).count();
        assert_eq!(count, usize::from(is_there));
    }
    let counters = db.stats().counters;
    let passed = counters.scan_filter_probes - counters.scan_filter_negatives;
    assert!((5000..5005).contains(&passed), "{passed}");
}

/// What a table says of a filter of prefixes is found, whatever is in memory, under each family of
/// filters and in both layouts.
#[test]
fn every_kind_of_filter_leaves_tables_out() {
    let mut seen = BTreeMap::new();
    for family in [
        FilterFamily::Bloom,
        FilterFamily::BlockedBloom,
        FilterFamily::Ribbon,
        FilterFamily::Auto,
    ] {
        for partitioned in [true, false] {
            let fs = MemFs::new();
            let filter = FilterOptions::new().family(family).partitioned(partitioned);
            let keyspace = KeyspaceOptions::new()
                .filter(filter)
                .prefix(Prefix::Fixed(8));
            let db = options(&fs).keyspace(keyspace).open(DIR).unwrap();
            let mut batch = WriteBatch::new();
            for number in 0..8_000 {
                batch.put([&user(2 * number)[..], b"-"].concat(), "value");
            }
            db.write(batch).unwrap();
            db.compact_range(None, None).unwrap();
            let there: BTreeSet<_> = (0..2_000).map(|number| user(2 * number)).collect();
            for user in &there {
                assert_eq!(db.prefix(user).count(), 1);
            }
            let before = db.stats().counters;
            for number in 0..2_000 {
                assert_eq!(db.prefix(user(2 * number + 1)).count(), 0);
            }
            let after = db.stats().counters;
            let negatives = after.scan_filter_negatives - before.scan_filter_negatives;
            assert_eq!(before.scan_filter_negatives, 0);
            seen.insert(format!("{family:?} {partitioned}"), negatives);
            db.verify().unwrap().check().unwrap();
        }
    }
    // Between one in 90 and one in 256 passes.
    assert!(
        seen.values().all(|negatives| *negatives > 1_940),
        "{seen:?}"
    );
}
