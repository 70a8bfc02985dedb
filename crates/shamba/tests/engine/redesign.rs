//! Changing the design of a keyspace while it is read and written.

use std::sync::Arc;

use crate::common::{Map, Rng, contents, small_keyspace, small_options};
use shamba::fs::MemFs;
use shamba::{
    Db, Design, FilterFamily, FilterOptions, Granularity, KeyspaceOptions, LevelStatistics,
    MergePolicy, Options,
};

const DIR: &str = "/db";

const LEVELING: MergePolicy = MergePolicy::Leveling {
    granularity: Granularity::File,
};

fn design(merge_policy: MergePolicy, size_ratio: u32, write_buffer: u64) -> Design {
    Design::default()
        .merge_policy(merge_policy)
        .size_ratio(size_ratio)
        .write_buffer(write_buffer)
        .bits_per_key(10.0)
}

fn options(fs: &MemFs, design: &Design) -> Options {
    let keyspace = small_keyspace().filter(FilterOptions::new().family(FilterFamily::Bloom));
    small_options(Arc::new(fs.clone())).keyspace(keyspace.with_design(design))
}

fn levels(db: &Db) -> Vec<LevelStatistics> {
    let stats = db.stats();
    let levels = stats.keyspaces.into_iter().flat_map(|ks| ks.levels);
    levels.filter(|level| level.files > 0).collect()
}

/// Writes a random key, and gives the bytes that compactions read in that write.
fn put(db: &Db, rng: &mut Rng, model: &mut Map) -> u64 {
    let before = db.stats().counters.compaction_bytes_read;
    let key = format!("key{:05}", rng.below(3000)).into_bytes();
    let value = rng.bytes(60);
    db.put(&key, &value).unwrap();
    model.insert(key, value);
    db.stats().counters.compaction_bytes_read - before
}

/// The shape that a design asks for, of a tree at rest.
fn check_shape(db: &Db, name: &str) {
    let design = db.default_keyspace().design();
    let levels = levels(db);
    let last = levels.last().map_or(0, |level| level.level);
    for level in levels.iter().filter(|level| level.level > 0) {
        let most = match design.merge_policy {
            MergePolicy::Leveling { .. } => 1,
            MergePolicy::LazyLeveling if level.level == last => 1,
            _ => design.size_ratio as usize - 1,
        };
        assert!(level.runs <= most, "{name}: {level:?}");
        if matches!(design.merge_policy, MergePolicy::Leveling { .. }) {
            let capacity =
                design.write_buffer * u64::from(design.size_ratio).pow(level.level as u32);
            assert!(level.bytes <= capacity, "{name}: {level:?}");
        }
    }
}

#[test]
fn a_design_is_remembered_and_wins_over_options() {
    let fs = MemFs::new();
    let (first, second) = (
        design(LEVELING, 4, 8 << 10),
        design(MergePolicy::Tiering, 3, 16 << 10),
    );
    let db = options(&fs, &first).open(DIR).unwrap();
    let keyspace = db.default_keyspace();
    assert_eq!(keyspace.design(), first);
    assert!(!keyspace.is_moving());
    for wrong in [
        second.size_ratio(1),
        second.write_buffer(1),
        second.bits_per_key(65.0),
    ] {
        assert!(keyspace.redesign(wrong).is_err());
        assert_eq!(keyspace.design(), first);
    }
    db.redesign(second).unwrap();
    assert_eq!(keyspace.design(), second);
    assert!(keyspace.is_moving());
    drop(keyspace);
    db.wait_for_compaction().unwrap();
    assert!(!db.default_keyspace().is_moving());
    drop(db);
    // Twice, since each open writes the manifest anew.
    for _ in 0..2 {
        let db = options(&fs, &first).open(DIR).unwrap();
        assert_eq!(db.default_keyspace().design(), second);
        assert!(!db.default_keyspace().is_moving());
    }
    // Another keyspace has its own.
    let db = options(&fs, &first).open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    assert_eq!(other.design(), small_keyspace().design());
    db.redesign(first).unwrap();
    assert_eq!(db.default_keyspace().design(), first);
    assert_eq!(other.design(), small_keyspace().design());
}

#[test]
fn a_move_that_was_cut_off_goes_on_at_the_next_open() {
    let fs = MemFs::new();
    let (first, second) = (
        design(MergePolicy::Tiering, 6, 4 << 10),
        design(LEVELING, 3, 4 << 10),
    );
    let (mut rng, mut model) = (Rng::new(3), Map::new());
    let db = options(&fs, &first).open(DIR).unwrap();
    for _ in 0..4000 {
        put(&db, &mut rng, &mut model);
    }
    db.wait_for_compaction().unwrap();
    db.redesign(second).unwrap();
    for _ in 0..3 {
        put(&db, &mut rng, &mut model);
    }
    assert!(db.default_keyspace().is_moving());
    db.sync().unwrap();
    let crashed = fs.crash_clone(5);
    drop(db);
    let db = options(&crashed, &first).open(DIR).unwrap();
    assert_eq!(db.default_keyspace().design(), second);
    assert!(db.default_keyspace().is_moving());
    db.wait_for_compaction().unwrap();
    assert!(!db.default_keyspace().is_moving());
    check_shape(&db, "after the crash");
    assert_eq!(contents(&db.default_keyspace()).unwrap(), model);
    db.verify().unwrap().check().unwrap();
}

/// With the work done in the writes, what a write waits for is counted in bytes, the same at every
/// run.
#[test]
fn moves_keep_answers_and_no_write_waits_for_more_than_a_usual_compaction() {
    let designs = [
        design(LEVELING, 2, 8 << 10),
        design(LEVELING, 8, 8 << 10),
        design(LEVELING, 4, 32 << 10),
        design(MergePolicy::Tiering, 8, 4 << 10),
        design(MergePolicy::Tiering, 3, 8 << 10),
        design(MergePolicy::LazyLeveling, 5, 8 << 10),
    ];
    let usual = designs.map(|design| {
        let (mut rng, mut model) = (Rng::new(1), Map::new());
        let db = options(&MemFs::new(), &design).open(DIR).unwrap();
        (0..6000).map(|_| put(&db, &mut rng, &mut model)).max()
    });
    for (from, before) in designs.iter().zip(usual) {
        for (to, after) in designs.iter().zip(usual) {
            let name = format!("{from:?} to {to:?}");
            let (mut rng, mut model) = (Rng::new(2), Map::new());
            let db = options(&MemFs::new(), from).open(DIR).unwrap();
            for _ in 0..4000 {
                put(&db, &mut rng, &mut model);
            }
            let keyspace = db.default_keyspace();
            db.redesign(*to).unwrap();
            let mut largest = 0;
            for number in 0.. {
                assert!(number < 20_000, "{name}: no end");
                largest = largest.max(put(&db, &mut rng, &mut model));
                let (key, value) = model.iter().nth(number % model.len()).unwrap();
                assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{name}");
                if !keyspace.is_moving() {
                    break;
                }
            }
            let bound = before.max(after).unwrap();
            assert!(
                largest <= bound * 3 / 2,
                "{name}: {largest} bytes in one write, {bound} usually"
            );
            db.wait_for_compaction().unwrap();
            check_shape(&db, &name);
            assert!(contents(&keyspace).unwrap() == model, "{name}");
            db.verify().unwrap().check().unwrap();
        }
    }
}

#[test]
fn filters_get_the_bits_of_the_new_design() {
    let (mut rng, mut model) = (Rng::new(4), Map::new());
    let first = design(LEVELING, 4, 64 << 10);
    let fs = MemFs::new();
    let mut given = options(&fs, &first);
    given = given.keyspace(
        KeyspaceOptions::default()
            .with_design(&first)
            .target_file(1 << 20)
            .filter(FilterOptions::new().family(FilterFamily::Bloom)),
    );
    let db = given.open(DIR).unwrap();
    let mut key = 0u64;
    for _ in 0..60_000 {
        key += 1;
        db.put(rng.next().to_be_bytes(), key.to_be_bytes()).unwrap();
    }
    put(&db, &mut rng, &mut model);
    db.compact_range(None, None).unwrap();
    let bits = |db: &Db| {
        let levels = levels(db);
        let sum = |of: fn(&LevelStatistics) -> u64| levels.iter().map(of).sum::<u64>() as f64;
        sum(|level| level.filter_bytes) * 8.0 / sum(|level| level.entries)
    };
    assert!((9.5..12.0).contains(&bits(&db)), "{}", bits(&db));
    for wanted in [4.0, 16.0] {
        db.redesign(first.bits_per_key(wanted)).unwrap();
        db.wait_for_compaction().unwrap();
        let found = bits(&db);
        // The pages of each partition's filter are filled up.
        assert!((wanted * 0.95..wanted * 1.7).contains(&found), "{found}");
        // And no more than once.
        let written = db.stats().counters.compaction_bytes_written;
        db.wait_for_compaction().unwrap();
        assert_eq!(db.stats().counters.compaction_bytes_written, written);
    }
}

#[test]
fn what_is_known_of_the_workload_is_what_was_done() {
    let fs = MemFs::new();
    let db = options(&fs, &design(LEVELING, 4, 8 << 10))
        .open(DIR)
        .unwrap();
    let nothing = db.stats().keyspaces[0].workload;
    assert_eq!((nothing.entries, nothing.operations), (0.0, 0.0));
    assert_eq!(nothing.model(), None);
    let (mut rng, mut model) = (Rng::new(6), Map::new());
    for _ in 0..1000 {
        put(&db, &mut rng, &mut model);
    }
    let keys: Vec<_> = model.keys().cloned().collect();
    for (number, key) in keys.iter().cycle().take(2000).enumerate() {
        // Half of them come together, every fourth is not there.
        let absent = [key, &b"-"[..]].concat();
        let key = if number % 4 == 0 { &absent } else { key };
        match number % 2 {
            0 => assert_eq!(db.get(key).unwrap().is_some(), number % 4 != 0),
            _ => drop(db.multi_get(&[key]).unwrap()),
        }
    }
    for _ in 0..1000 {
        let mut iter = db.cursor(shamba::IterOptions::default()).unwrap();
        iter.seek(rng.pick(&keys)).unwrap();
        for _ in 0..9 {
            iter.next().unwrap();
        }
    }
    let stats = db.stats();
    let known = stats.keyspaces[0].workload;
    assert_eq!(stats.keyspaces[0].design, design(LEVELING, 4, 8 << 10));
    // What was done first has begun to fade.
    let close = |found: f64, wanted: f64| {
        assert!(
            (found / wanted - 1.0).abs() < 0.25,
            "{found}, not {wanted}: {known:?}"
        );
    };
    close(known.updates, 0.25);
    close(known.empty_lookups, 0.125);
    close(known.existing_lookups, 0.375);
    close(known.range_lookups, 0.25);
    close(known.entries_per_range, 10.0);
    assert_eq!(known.key_bytes, Some(8.0));
    assert!(known.entries >= model.len() as f64 && known.entries <= 1000.0);
    assert!((68.0..260.0).contains(&known.entry_bytes), "{known:?}");
    let modelled = known.model().unwrap();
    close(modelled.selectivity, 10.0 / known.entries);
    let sum = modelled.point_lookups() + modelled.range_lookups + modelled.updates;
    assert!((sum - 1.0).abs() < 1e-9);
}

/// All key ranges alike, then only the first of them.
#[test]
fn the_hottest_tenth_of_key_ranges_shows_skew() {
    let fs = MemFs::new();
    let db = options(&fs, &design(LEVELING, 4, 64 << 10))
        .cache_entries(false)
        .open(DIR)
        .unwrap();
    let count = 40_000u64;
    let key = |number: u64| (number * 7919 % count).to_be_bytes();
    for number in 0..count {
        db.put(key(number), [7; 20]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let share = || db.stats().keyspaces[0].workload.hottest_tenth;
    assert_eq!(share(), None);
    let look = |range: u64| {
        let mut rng = Rng::new(9);
        for _ in 0..40_000 {
            db.get((rng.below(range)).to_be_bytes()).unwrap().unwrap();
        }
    };
    look(count);
    let even = share().unwrap();
    assert!((0.09..0.25).contains(&even), "{even}");
    look(count / 20);
    look(count / 20);
    let skewed = share().unwrap();
    assert!(skewed > 0.6, "{skewed}");
}
