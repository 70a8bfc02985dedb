//! Filter memory divided over the tree: the sum that was asked for, fewer false positives for it,
//! as many as the model says, and the same answers whatever it is combined with.

mod common;

use std::sync::Arc;

use common::{Replay, Rng};
use shamba::fs::MemFs;
use shamba::{
    Db, FilterAllocation, FilterFamily, FilterOptions, FilterPolicy, Granularity, KeyspaceOptions,
    LevelStatistics, MemoryBudget, MergePolicy, Options, Preset,
};
use shamba_model::allocation::{Run, false_positive_reads, uniform, water_filling};
use shamba_model::curve;

const FILES: MergePolicy = MergePolicy::Leveling {
    granularity: Granularity::File,
};
const LEVELS: MergePolicy = MergePolicy::Leveling {
    granularity: Granularity::Level,
};

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn open(keyspace: KeyspaceOptions) -> Db {
    Options::new()
        .fs(Arc::new(MemFs::new()))
        .background_threads(0)
        .memory(MemoryBudget::bytes(64 << 20))
        .keyspace(keyspace)
        .open("/db")
        .unwrap()
}

fn small(merge_policy: MergePolicy, size_ratio: u32, filter: FilterOptions) -> KeyspaceOptions {
    KeyspaceOptions::new()
        .merge_policy(merge_policy)
        .size_ratio(size_ratio)
        .write_buffer(64 << 10)
        .target_file(64 << 10)
        .level0_runs(1)
        .filter(filter)
        .filter_policy(FilterPolicy::All)
}

fn bloom(bits_per_key: f64, allocation: FilterAllocation) -> FilterOptions {
    FilterOptions::new()
        .family(FilterFamily::Bloom)
        .bits_per_key(bits_per_key)
        .allocation(allocation)
}

/// The key of a number: even ones, in no order, by a bijection of 40 bits.
fn mixed(number: u64) -> [u8; 8] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & ((1 << 40) - 1);
    key(mixed << 1)
}

fn put(db: &Db, numbers: std::ops::Range<u64>) {
    for number in numbers {
        db.put(mixed(number), [number as u8; 16]).unwrap();
    }
}

fn levels(db: &Db) -> Vec<LevelStatistics> {
    db.stats().keyspaces[0].levels.clone()
}

/// Filter bits per key of the whole tree.
fn bits(db: &Db) -> f64 {
    let levels = levels(db);
    let entries: u64 = levels.iter().map(|level| level.entries).sum();
    let bytes: u64 = levels.iter().map(|level| level.filter_bytes).sum();
    bytes as f64 * 8.0 / entries as f64
}

/// Writes as many entries as make several levels, and gives the filter memory at many moments, as
/// parts of the memory asked for.
fn course(keyspace: KeyspaceOptions) -> Vec<f64> {
    let asked = keyspace.filter.bits_per_key;
    let db = open(keyspace);
    let mut course = Vec::new();
    for part in 0..40 {
        put(&db, part * 5000..(part + 1) * 5000);
        if part >= 4 {
            course.push(bits(&db) / asked);
        }
    }
    course
}

/// The memory of all filters is what was asked for: on average while the tree grows within a tenth,
/// and at any moment within 2 bits per key, most of which is the time just after a merge has
/// emptied the upper levels, which are to have more bits than the last.
#[test]
fn filter_memory_is_the_total_asked_for() {
    let general = FilterAllocation::MonkeyGeneral {
        existing_per_empty: 4.0,
    };
    for (policy, ratio, family) in [
        (FILES, 4, FilterFamily::Bloom),
        (FILES, 10, FilterFamily::Auto),
        (LEVELS, 2, FilterFamily::BlockedBloom),
        (LEVELS, 4, FilterFamily::Ribbon),
        (MergePolicy::Tiering, 4, FilterFamily::Ribbon),
        (MergePolicy::LazyLeveling, 4, FilterFamily::Bloom),
    ] {
        for (asked, allocation) in [(5.0, FilterAllocation::Monkey), (12.0, general)] {
            let filter = bloom(asked, allocation).family(family);
            let case = format!("{policy:?} {ratio} {filter:?}");
            let course = course(small(policy, ratio, filter));
            let mean = course.iter().sum::<f64>() / course.len() as f64;
            assert!((mean - 1.0).abs() < 0.1, "{case}: {mean}, {course:?}");
            let far = course.iter().map(|part| (part - 1.0).abs() * asked);
            assert!(far.fold(0.0, f64::max) < 2.0, "{case}: {course:?}");
        }
    }
}

/// What is written in the order of its keys is moved from level to level; its filters are those of
/// the last level all the same.
#[test]
fn tables_that_move_down_get_the_filters_of_their_level() {
    for (policy, family) in [
        (FILES, FilterFamily::Bloom),
        (LEVELS, FilterFamily::Auto),
        (MergePolicy::Tiering, FilterFamily::Bloom),
        (MergePolicy::LazyLeveling, FilterFamily::Ribbon),
    ] {
        let filter = bloom(6.0, FilterAllocation::Monkey).family(family);
        let db = open(small(policy, 10, filter));
        for number in 0..150_000 {
            db.put(key(number), [7; 16]).unwrap();
        }
        db.flush().unwrap();
        let (bits, levels) = (bits(&db), levels(&db));
        assert!(db.stats().counters.trivial_moves > 0);
        assert!(
            (bits / 6.0 - 1.0).abs() < 0.25,
            "{policy:?}: {bits} in {levels:?}"
        );
        // Flushed tables have many more.
        let first = levels.iter().find(|level| level.entries > 0).unwrap();
        assert!(first.bits_per_key > bits + 3.0, "{policy:?}: {levels:?}");
        for number in (0..150_000).step_by(7) {
            assert!(db.get(key(number)).unwrap().is_some());
        }
    }
}

/// An absent key among those that [`put`] writes.
fn absent(rng: &mut Rng) -> [u8; 8] {
    key(rng.below(1 << 40) << 1 | 1)
}

/// Searches in vain per lookup of absent keys, by level from 0.
fn false_positives(db: &Db, lookups: u64, seed: u64) -> Vec<f64> {
    let counts = |db: &Db| -> Vec<u64> {
        let levels = levels(db);
        levels
            .iter()
            .map(|level| level.lookups.false_positives)
            .collect()
    };
    let before = counts(db);
    let mut rng = Rng::new(seed);
    for _ in 0..lookups {
        assert!(db.get(absent(&mut rng)).unwrap().is_none());
    }
    let after = counts(db);
    let since = |(at, after): (usize, &u64)| after - before.get(at).copied().unwrap_or(0);
    let per_lookup = |pair| since(pair) as f64 / lookups as f64;
    after.iter().enumerate().map(per_lookup).collect()
}

/// Whether no run of a level is more than a tenth larger than another.
fn has_equal_runs(db: &Db, level: usize) -> bool {
    let mut runs = std::collections::BTreeMap::new();
    for file in shamba::inspect::file_lookups(db) {
        if file.level == level {
            *runs.entry(file.run).or_insert(0) += file.entries;
        }
    }
    let (least, most) = (runs.values().min(), runs.values().max());
    most.zip(least)
        .is_none_or(|(most, least)| most * 10 <= least * 11)
}

/// At the same memory lookups of absent keys err less: measured, as often in each level as the
/// model says of the bits there, and in all within a tenth of what the best division of that memory
/// over the runs would give. Fails where the allocation does nothing.
#[test]
fn fewer_false_positives_at_equal_memory_and_as_many_as_the_model_says() {
    const LOOKUPS: u64 = 200_000;
    const SEED: u64 = 7;
    let _replay = Replay(format!("the seed is {SEED}"));
    let curve = curve::Family::Bloom.curve().unwrap();
    for (policy, ratio) in [(FILES, 4), (LEVELS, 4), (MergePolicy::Tiering, 3)] {
        let mut outcomes = Vec::new();
        for allocation in [FilterAllocation::Uniform, FilterAllocation::Monkey] {
            let case = format!("{policy:?}, {allocation:?}");
            let db = open(small(policy, ratio, bloom(5.0, allocation)));
            put(&db, 0..160_000);
            db.flush().unwrap();
            let seen = false_positives(&db, LOOKUPS, SEED);
            let levels: Vec<_> = levels(&db);
            let levels: Vec<_> = levels.iter().filter(|level| level.entries > 0).collect();
            // Where merges take single files a run does not reach over all keys.
            let runs: Vec<Run> = levels
                .iter()
                .map(|level| Run {
                    entries: level.entries as f64,
                    weight: level.lookups.absent as f64 / LOOKUPS as f64,
                })
                .collect();
            for (level, run) in levels.iter().zip(&runs) {
                // Runs of other sizes have other bits than the level on average.
                if !has_equal_runs(&db, level.level) {
                    continue;
                }
                let want = run.weight * curve.rate(level.bits_per_key).unwrap();
                let got = seen[level.level];
                // A twelfth, and what chance adds or takes.
                let chance = 4.0 * (want / LOOKUPS as f64).sqrt();
                let off = (got - want).abs();
                assert!(
                    off < want / 12.0 + chance,
                    "{case}, {}: {got}, {want}",
                    level.level
                );
            }
            let bytes: u64 = levels.iter().map(|level| level.filter_bytes).sum();
            let filters = match allocation {
                FilterAllocation::Uniform => uniform(&runs, bytes as f64 * 8.0, &curve),
                _ => water_filling(&runs, bytes as f64 * 8.0, &curve),
            };
            let model = false_positive_reads(&runs, &filters.unwrap()).unwrap();
            let sum: f64 = seen.iter().sum();
            assert!((sum / model - 1.0).abs() < 0.1, "{case}: {sum} and {model}");
            outcomes.push((sum, bits(&db)));
        }
        let [uniform, monkey] = outcomes[..] else {
            unreachable!();
        };
        let case = format!("{policy:?}: {uniform:?}, {monkey:?}");
        assert!(monkey.1 < 1.05 * uniform.1, "{case}");
        assert!(monkey.0 < 0.75 * uniform.0, "{case}");
    }
}

/// Lookups that find their key seldom visit the oldest run in vain: told that all are such, bits go
/// to the runs above it. Fails where the ratio of existing to absent keys does nothing.
#[test]
fn bits_go_above_the_last_run_when_lookups_find_their_keys() {
    const SEED: u64 = 5;
    let _replay = Replay(format!("the seed is {SEED}"));
    let general = FilterAllocation::MonkeyGeneral {
        existing_per_empty: 20.0,
    };
    let outcomes = [FilterAllocation::Monkey, general].map(|allocation| {
        let db = open(small(LEVELS, 4, bloom(5.0, allocation)));
        put(&db, 0..60_000);
        db.flush().unwrap();
        let mut rng = Rng::new(SEED);
        for _ in 0..60_000 {
            let number = rng.below(60_000);
            assert!(db.get(mixed(number)).unwrap().is_some());
        }
        let levels = levels(&db);
        let in_vain: u64 = levels.iter().map(|l| l.lookups.false_positives).sum();
        (in_vain, bits(&db))
    });
    let [monkey, general] = outcomes;
    let case = format!("{monkey:?} and {general:?}");
    assert!(general.1 < 1.1 * monkey.1, "{case}");
    assert!(general.0 * 2 < monkey.0, "{case}");
}

/// Lookups all in a sixteenth of the keys: bits go there. Fails where measured visits do nothing.
#[test]
fn bits_go_to_the_keys_that_are_asked_for() {
    const SEED: u64 = 3;
    let _replay = Replay(format!("the seed is {SEED}"));
    let hot = |db: &Db, lookups: u64, seed: u64| {
        let before: u64 = levels(db).iter().map(|l| l.lookups.false_positives).sum();
        let mut rng = Rng::new(seed);
        for _ in 0..lookups {
            let number = rng.below(1 << 36) << 1 | 1;
            assert!(db.get(key(number)).unwrap().is_none());
        }
        let after: u64 = levels(db).iter().map(|l| l.lookups.false_positives).sum();
        (after - before) as f64 / lookups as f64
    };
    let outcomes = [FilterAllocation::Monkey, FilterAllocation::Measured].map(|allocation| {
        let options = small(FILES, 4, bloom(5.0, allocation)).epoch_lookups(512);
        let db = open(options);
        put(&db, 0..40_000);
        for part in 8..32 {
            hot(&db, 10_000, SEED + part);
            put(&db, part * 5000..(part + 1) * 5000);
        }
        (hot(&db, 100_000, SEED), bits(&db))
    });
    let [monkey, measured] = outcomes;
    let case = format!("{monkey:?} and {measured:?}");
    assert!(measured.1 < 1.1 * monkey.1, "{case}");
    assert!(measured.0 < 0.6 * monkey.0, "{case}");
}

/// Whatever allocation is combined with, answers are those of the entries.
#[test]
fn every_combination_gives_the_same_answers() {
    const SEED: u64 = 11;
    let _replay = Replay(format!("the seed is {SEED}"));
    let allocations = [
        FilterAllocation::Uniform,
        FilterAllocation::Monkey,
        FilterAllocation::MonkeyGeneral {
            existing_per_empty: 2.0,
        },
        FilterAllocation::Measured,
    ];
    for allocation in allocations {
        for modules in [1, 3] {
            for family in [
                FilterFamily::Bloom,
                FilterFamily::Ribbon,
                FilterFamily::Auto,
            ] {
                for preset in [Preset::Elastic, Preset::Default] {
                    let base = small(FILES, 3, FilterOptions::default())
                        .preset(preset)
                        .epoch_lookups(256);
                    let filter = (base.filter.clone())
                        .family(family)
                        .modules(modules)
                        .bits_per_key(3.0)
                        .allocation(allocation);
                    let base = base.write_buffer(16 << 10).target_file(16 << 10);
                    let db = open(base.filter(filter));
                    let mut rng = Rng::new(SEED);
                    let mut there = std::collections::BTreeMap::new();
                    for step in 0..12_000u64 {
                        let number = rng.below(9000);
                        if rng.one_in(6) {
                            db.delete(key(number)).unwrap();
                            there.remove(&number);
                        } else {
                            db.put(key(number), step.to_be_bytes()).unwrap();
                            there.insert(number, step);
                        }
                        let asked = rng.below(12_000);
                        let found = db.get(key(asked)).unwrap();
                        let wanted = there.get(&asked).map(|step| step.to_be_bytes());
                        assert_eq!(
                            found.as_deref(),
                            wanted.as_ref().map(|value| &value[..]),
                            "{allocation:?}, {modules} modules, {family:?}, {preset}"
                        );
                    }
                    assert!(levels(&db).len() > 2);
                }
            }
        }
    }
}

#[test]
fn nonsense_is_refused() {
    for existing_per_empty in [-1.0, f64::NAN, f64::INFINITY] {
        let allocation = FilterAllocation::MonkeyGeneral { existing_per_empty };
        let error = small(FILES, 4, bloom(5.0, allocation)).validate();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("filter.allocation"), "{error}");
    }
}
