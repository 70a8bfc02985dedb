//! What statistics say of the levels: counts that add up, memory that is there, predictions that
//! come true.

use std::sync::Arc;

use crate::common::{Rng, Scarce};
use shamba::fs::MemFs;
use shamba::{
    Counters, Db, FilterFamily, FilterOptions, FilterPolicy, KeyspaceOptions, LevelStatistics,
    MarginalValue, MemoryBudget, Options, Preset, Skipping, Statistics, Thresholds,
};

const KEYS: u64 = 60_000;
/// So many that the least budget is little for them.
const MANY: u64 = 4 * KEYS;
const PLENTY: u64 = 64 << 20;
/// Left of the budget: a tenth of the data, or less than filters, indexes and hot data.
const LITTLE: u64 = 256 << 10;
/// Less than the filters.
const LESS: u64 = 128 << 10;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A key that is not there and hardly ever asked for twice.
fn absent(rng: &mut Rng, keys: u64) -> Vec<u8> {
    [key(rng.below(2 * keys)), key(rng.next())].concat()
}

/// Even numbers are there, odd ones are not; every eighth of the even ones is in a newer level too.
/// It is written with plenty of memory, and then opened with the one asked for.
fn open(memory: &MemoryBudget, keyspace: &KeyspaceOptions) -> Db {
    open_with(Options::new(), memory, keyspace, KEYS)
}

fn open_with(options: Options, memory: &MemoryBudget, keyspace: &KeyspaceOptions, keys: u64) -> Db {
    let keyspace = keyspace
        .clone()
        .write_buffer(4 << 20)
        .target_file(512 << 10)
        .level0_runs(4)
        .epoch_lookups(1000);
    let options = options
        .fs(Arc::new(MemFs::new()))
        .background_threads(0)
        .keyspace(keyspace);
    let filling = options.clone().memory(MemoryBudget::bytes(PLENTY));
    let db = filling.open("/db").unwrap();
    let put = |number: u64| db.put(key(number * 2), [number as u8; 32]).unwrap();
    (0..keys).map(|i| i * 7919 % keys).for_each(put);
    db.compact_range(None, None).unwrap();
    for part in 0..2 {
        (0..keys).skip(part).step_by(16).for_each(put);
        db.flush().unwrap();
    }
    db.close().unwrap();
    options.memory(memory.clone()).open("/db").unwrap()
}

/// Looks up `count` random keys, by ones and by many, of which `existing` in four are there.
fn look_up(db: &Db, rng: &mut Rng, count: u64, existing: u64) {
    look_up_among(db, rng, count, existing, KEYS);
}

fn look_up_among(db: &Db, rng: &mut Rng, count: u64, existing: u64, keys: u64) {
    let mut random = || {
        if rng.below(4) < existing {
            (key(rng.below(keys) * 2).to_vec(), true)
        } else {
            (absent(rng, keys), false)
        }
    };
    for _ in 0..count / 64 {
        for _ in 0..48 {
            let (key, there) = random();
            assert_eq!(db.get(key).unwrap().is_some(), there);
        }
        let keys: Vec<_> = (0..16).map(|_| random().0).collect();
        db.multi_get(&keys).unwrap();
    }
}

fn levels(stats: &Statistics) -> &[LevelStatistics] {
    &stats.keyspaces[0].levels
}

/// The levels' reads add up to the database's.
fn assert_sums(stats: &Statistics) {
    let Counters {
        data_reads,
        data_pages,
        index_reads,
        index_pages,
        filter_reads,
        filter_pages,
        ..
    } = stats.counters;
    let mut sums = [0; 6];
    for level in levels(stats) {
        let lookups = &level.lookups;
        let counts = [lookups.data, lookups.index, lookups.filter];
        let counts = counts.iter().flat_map(|count| [count.reads, count.pages]);
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
        let fetched: u64 = lookups.modules.iter().map(|module| module.fetched).sum();
        assert_eq!(fetched, lookups.filter.reads, "level {}", level.level);
    }
    let all = [
        data_reads,
        data_pages,
        index_reads,
        index_pages,
        filter_reads,
        filter_pages,
    ];
    assert_eq!(sums, all);
}

fn settings() -> Vec<(&'static str, KeyspaceOptions)> {
    let with = |family, modules, partitioned, filter_policy| {
        KeyspaceOptions::new()
            .filter(
                FilterOptions::new()
                    .family(family)
                    .bits_per_key(20.0)
                    .modules(modules)
                    .partitioned(partitioned),
            )
            .filter_policy(filter_policy)
    };
    let utility = FilterPolicy::Utility {
        skipping: Skipping::Partial,
        thresholds: Thresholds::RELATIVE,
    };
    let worth = FilterPolicy::ExpectedReads;
    vec![
        ("default", KeyspaceOptions::default()),
        ("ribbon", with(FilterFamily::Ribbon, 2, true, worth)),
        ("bloom by worth", with(FilterFamily::Bloom, 2, true, worth)),
        ("all", with(FilterFamily::Bloom, 1, true, FilterPolicy::All)),
        ("whole", with(FilterFamily::BlockedBloom, 2, false, utility)),
        (
            "elastic",
            KeyspaceOptions::default().preset(Preset::Elastic),
        ),
        ("seven", with(FilterFamily::Bloom, 7, false, worth)),
    ]
}

#[test]
fn reads_of_the_levels_add_up_to_those_of_the_database() {
    for (name, keyspace) in settings() {
        println!("{name}");
        let scarce = Scarce::leaving(LITTLE);
        let db = open(&scarce.memory, &keyspace);
        look_up(&db, &mut Rng::new(1), 20_000, 2);
        let stats = db.stats();
        assert_sums(&stats);
        let asked: Vec<_> = levels(&stats)
            .iter()
            .filter(|level| level.lookups.data.reads > 0)
            .map(|level| (level.level, level.runs))
            .collect();
        assert!(asked.len() >= 2 && asked[0] == (0, 2), "{asked:?}");
        // What was counted stays with the level when its files are gone.
        db.compact_range(None, None).unwrap();
        let after = db.stats();
        assert_eq!(levels(&after)[0].files, 0);
        assert_eq!(levels(&after)[0].lookups, levels(&stats)[0].lookups);
        assert_sums(&after);
    }
}

/// Asks for every key and for one beside it, so that all blocks have been needed.
/// What a person is shown is what the fields say.
#[test]
fn statistics_are_shown_in_a_few_lines() {
    let options = Options::new().fs(Arc::new(MemFs::new()));
    let db = options.memory("32M".parse().unwrap()).open("/db").unwrap();
    for number in 0..1000 {
        db.put(key(number), [1; 100]).unwrap();
    }
    db.flush().unwrap();
    db.put(key(1000), [1]).unwrap();
    let before = db.stats().to_string();
    for number in 0..10 {
        db.get(key(995 + number)).unwrap();
    }
    let snapshot = db.snapshot();
    let stats = db.stats();
    let shown = stats.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    println!("{shown}");
    let [keyspace, memory, lookups, held] = lines[..] else {
        panic!("{lines:?}");
    };
    let start = "keyspace `default`: 1001 entries: 1000 in 1 tables of 1 levels (";
    assert!(
        keyspace.starts_with(start) && keyspace.contains("1 in memory ("),
        "{keyspace}"
    );
    assert!(
        memory.contains(" of 32.0 MiB, ") && memory.contains(" memtable "),
        "{memory}"
    );
    let reads = stats.counters.data_reads;
    assert!(lookups.starts_with("lookups: 10, 6 found, 0."), "{lookups}");
    assert!(
        lookups.contains(&format!("({reads} of data, ")),
        "{lookups}"
    );
    assert_eq!(held, "held: 1 snapshots and iterators; 1 tables open");
    drop(snapshot);
    let lookups = before.lines().nth(2).unwrap();
    assert_eq!(
        lookups,
        "lookups: 0, 0 found (0 of data, 0 of indexes, 0 of filters)"
    );
}

fn touch_everything(db: &Db) {
    for number in 0..2 * KEYS {
        let found = db.get(key(number)).unwrap();
        assert_eq!(found.is_some(), number.is_multiple_of(2));
    }
}

#[test]
fn with_plenty_of_memory_all_that_is_written_is_resident_and_nothing_is_skipped() {
    for (name, keyspace) in settings() {
        println!("{name}");
        if let FilterPolicy::Elastic { .. } = keyspace.filter_policy {
            // It leaves units on storage whatever the memory.
            continue;
        }
        let db = open(&MemoryBudget::bytes(PLENTY), &keyspace);
        for level in levels(&db.stats()) {
            assert_eq!(level.resident.filter, 0);
        }
        touch_everything(&db);
        let stats = db.stats();
        let mut cached = 0;
        for level in levels(&stats).iter().filter(|level| level.files > 0) {
            assert_eq!(level.resident.filter, level.filter_bytes);
            assert_eq!(level.resident_bits_per_key, level.bits_per_key);
            assert_eq!(level.resident.index, level.index_bytes);
            assert_eq!(
                level.resident.modules.iter().sum::<u64>(),
                level.resident.filter
            );
            let blocks = level.bytes - level.filter_bytes - level.index_bytes;
            let each = level.index_bytes as f64 / (blocks as f64 / 4096.0);
            assert!(
                (level.index_bytes_per_page / each - 1.0).abs() < 0.01,
                "{level:?}"
            );
            assert!(level.resident.data > blocks * 8 / 10, "{level:?}");
            assert!(level.resident.data < blocks, "{level:?}");
            cached += level.resident.data + level.resident.index + level.resident.filter;
            let lookups = &level.lookups;
            assert!(!lookups.modules.is_empty(), "{level:?}");
            for module in &lookups.modules {
                assert!(module.probed > 0 && module.skipped == 0, "{level:?}");
            }
            // Each block was read once.
            assert!(lookups.filter.reads > 0 && lookups.filter.reads < level.filter_bytes / 100);
            assert_eq!(
                lookups.filter.reads,
                lookups.modules.iter().map(|m| m.fetched).sum::<u64>()
            );
        }
        assert!(cached <= stats.memory.cache.total().bytes);
        let value = stats.marginal_value.unwrap();
        assert!(!value.short);
        assert_eq!(
            [value.cache, value.data, value.index, value.filter],
            [0.0; 4]
        );
        assert_eq!(value.best_absent_filter + value.best_absent_index, 0.0);
        assert!(value.accesses_per_lookup > 1.0, "{value:?}");
        assert_sums(&stats);
    }
}

#[test]
fn with_little_memory_less_is_resident_some_is_skipped_and_a_page_more_is_worth_something() {
    for (name, keyspace) in settings() {
        let scarce = Scarce::leaving(4 * LESS);
        let db = open_with(Options::new(), &scarce.memory, &keyspace, MANY);
        look_up_among(&db, &mut Rng::new(2), 40_000, 2, MANY);
        let stats = db.stats();
        println!("{name}: {:#?}", stats.marginal_value);
        let deepest = levels(&stats)
            .iter()
            .rfind(|level| level.files > 0)
            .unwrap();
        assert!(
            deepest.resident_bits_per_key < deepest.bits_per_key * 0.95,
            "{deepest:?}"
        );
        let skipped: u64 = levels(&stats)
            .iter()
            .flat_map(|level| &level.lookups.modules)
            .map(|module| module.skipped)
            .sum();
        let all = keyspace.filter_policy == FilterPolicy::All;
        assert_eq!(skipped > 0, !all, "{name}: {skipped}");
        let value = stats.marginal_value.unwrap();
        assert!(value.short && value.cache > 0.0 && value.data > 0.0);
        // A page is not worth more than what all of memory could save.
        let lookups = stats.counters.lookups as f64;
        let reads = (stats.counters.data_reads
            + stats.counters.index_reads
            + stats.counters.filter_reads) as f64
            / lookups;
        let per_lookup = value.cache * value.accesses_per_lookup;
        println!("{per_lookup} of {reads} reads");
        assert!(per_lookup < reads && per_lookup * 1000.0 > reads / 1000.0);
    }
}

/// The value is what it says: with a page more there are about so many reads fewer. Uniform lookups
/// of existing keys, all of whose index and filter are in memory, save one read in so many pages.
#[test]
fn the_value_of_a_page_is_about_what_more_memory_saves() {
    let reads = |memory: u64| {
        let db = open(&MemoryBudget::bytes(memory), &KeyspaceOptions::default());
        let mut rng = Rng::new(3);
        look_up(&db, &mut rng, 60_000, 4);
        let before = db.stats().counters;
        look_up(&db, &mut rng, 60_000, 4);
        let stats = db.stats();
        let counters = stats.counters;
        let reads = |c: &Counters| (c.data_reads + c.index_reads + c.filter_reads) as f64;
        let lookups = (counters.lookups - before.lookups) as f64;
        let each = (reads(&counters) - reads(&before)) / lookups;
        (each, stats.marginal_value.unwrap())
    };
    let (few, more) = (1 << 20, 3 << 20 >> 1);
    let (many_reads, value) = reads(few);
    let (fewer_reads, later) = reads(more);
    let measured = (many_reads - fewer_reads) / ((more - few) / 4096) as f64;
    let estimate = |value: &MarginalValue| value.cache * value.accesses_per_lookup;
    println!(
        "measured {measured:.2e}, estimated {:.2e} and {:.2e}; {many_reads} and {fewer_reads} reads",
        estimate(&value),
        estimate(&later)
    );
    for value in [&value, &later] {
        let estimate = estimate(value);
        assert!(
            estimate > measured / 3.0 && estimate < measured * 3.0,
            "{value:?}"
        );
    }
}

/// Which memory is worth most depends on who comes.
#[test]
fn keys_that_are_not_there_make_filters_worth_more_and_keys_that_are_data() {
    let keyspace = KeyspaceOptions::new()
        .filter(
            FilterOptions::new()
                .family(FilterFamily::Bloom)
                .bits_per_key(60.0),
        )
        .filter_policy(FilterPolicy::All);
    let value = |existing| {
        let scarce = Scarce::leaving(3 * LITTLE / 2);
        let db = open(&scarce.memory, &keyspace);
        look_up(&db, &mut Rng::new(6), 60_000, existing);
        db.stats().marginal_value.unwrap()
    };
    let (none, all) = (value(0), value(4));
    println!("{none:#?} {all:#?}");
    assert!(none.filter > none.data * 2.0, "{none:?}");
    // Filters of the levels above turn away keys that are there, too.
    let case = format!("{all:?} and {none:?}");
    assert!(all.data > none.data * 2.0, "{case}");
    assert!(
        all.data * none.filter > 2.0 * none.data * all.filter,
        "{case}"
    );
}

#[test]
fn false_positives_come_as_often_as_the_model_says() {
    for (name, keyspace) in settings() {
        let [plenty, little] = [PLENTY, 4 * LITTLE].map(MemoryBudget::bytes);
        for (memory, bits, keys) in [(&plenty, 5.0, KEYS), (&little, 20.0, MANY)] {
            let keyspace = keyspace
                .clone()
                .filter(keyspace.filter.clone().bits_per_key(bits));
            let db = open_with(Options::new(), memory, &keyspace, keys);
            look_up_among(&db, &mut Rng::new(4), 200_000, 1, keys);
            for level in levels(&db.stats()).iter().filter(|level| level.files > 0) {
                let lookups = &level.lookups;
                let (measured, predicted) = (
                    lookups.false_positives as f64,
                    lookups.predicted_false_positives,
                );
                println!(
                    "{name} at {bits} bits, level {}: {measured} of {}, predicted {predicted:.0}",
                    level.level, lookups.absent,
                );
                assert!(lookups.absent > 10_000);
                // Small Bloom filters are a little larger than planned.
                let tolerance = 0.12 * predicted + 4.0 * predicted.sqrt() + 4.0;
                assert!((measured - predicted).abs() < tolerance);
                let rate = lookups.false_positive_rate().unwrap();
                assert!((rate * lookups.absent as f64 - measured).abs() < 1.0);
            }
        }
    }
}

#[test]
fn without_prices_nobody_knows_what_memory_is_worth() {
    for preset in [Preset::StateOfTheArt, Preset::ShambaEqP, Preset::Elastic] {
        let keyspace = KeyspaceOptions::default().preset(preset);
        let options = Options::new().preset(preset);
        let scarce = Scarce::leaving(LITTLE);
        let db = open_with(options, &scarce.memory, &keyspace, KEYS);
        look_up(&db, &mut Rng::new(5), 10_000, 2);
        let stats = db.stats();
        assert_eq!(stats.marginal_value, None);
        assert_sums(&stats);
        assert!(levels(&stats).iter().any(|level| level.resident.filter > 0));
    }
}
