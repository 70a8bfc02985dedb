//! Policies at work in a database: statistics, controllers, inheritance and the read path together.

use std::sync::Arc;

use crate::budget::{MIN_MEMORY, Role};
use crate::cache::MemoryBudget;
use crate::filter::FilterAllocation;
use crate::fs::MemFs;
use crate::options::{FilterFamily, FilterOptions, KeyspaceOptions, Options};
use crate::policy::{EVERY_MODULE, FilterPolicy, Skipping, Thresholds};
use crate::value::Hotness;
use crate::version::FileMeta;
use crate::{Db, Preset};

const KEYS: u32 = 12_000;

/// A threshold between what a file is worth that all lookups probe and none finds its key in, and
/// one hardly probed.
const THRESHOLDS: Thresholds = Thresholds::Absolute {
    first: 0.2,
    later: 0.02,
};

const FULL: FilterPolicy = FilterPolicy::Utility {
    skipping: Skipping::Full,
    thresholds: THRESHOLDS,
};

const PARTIAL: FilterPolicy = FilterPolicy::Utility {
    skipping: Skipping::Partial,
    thresholds: THRESHOLDS,
};

fn options(fs: &MemFs, policy: FilterPolicy, modules: u8) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(MIN_MEMORY))
        .background_threads(0)
        .keyspace(KeyspaceOptions {
            write_buffer: 32 << 10,
            target_file: 32 << 10,
            level0_runs: 2,
            filter: FilterOptions {
                family: FilterFamily::Bloom,
                modules,
                partitioned: false,
                ..FilterOptions::default()
            },
            filter_policy: policy,
            epoch_lookups: 256,
            ..KeyspaceOptions::default()
        })
}

/// Even keys are there, odd ones are not.
fn key(number: u32) -> [u8; 8] {
    u64::from(number).to_be_bytes()
}

/// A database with all keys in one run.
fn filled(options: Options) -> Db {
    filled_with(options, KEYS)
}

fn filled_with(options: Options, keys: u32) -> Db {
    let db = options.open("/db").unwrap();
    for number in 0..keys {
        // In an order that is not the keys'.
        let number = number * 7 % keys;
        db.put(key(number * 2), [number as u8; 40]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    assert!(files(&db).len() > 10);
    db
}

fn number(key: &[u8]) -> u32 {
    u64::from_be_bytes(key.try_into().unwrap()) as u32
}

fn files(db: &Db) -> Vec<FileMeta> {
    let state = db.inner().default_keyspace().state();
    let mut files: Vec<_> = state.version.files().cloned().collect();
    files.sort_by(|a, b| a.smallest().cmp(b.smallest()));
    files
}

fn limits(db: &Db) -> Vec<u8> {
    files(db).iter().map(|file| file.module_limit()).collect()
}

/// Looks keys up that lie in a file and are not there.
fn ask_in_vain(db: &Db, file: &FileMeta, times: u32) {
    let (low, high) = (number(file.smallest()), number(file.largest()));
    for i in 0..times {
        let missing = (low + i * 37 % (high - low)) | 1;
        assert_eq!(db.get(key(missing)).unwrap().as_deref(), None);
    }
}

/// Looks up keys that are there, all alike.
fn ask_for_all(db: &Db, times: u32) {
    for i in 0..times {
        let found = db.get(key(i * 5003 % KEYS * 2)).unwrap();
        assert_eq!(found.unwrap().len(), 40);
    }
}

/// Filter reads once the policy has settled, with filters larger than the whole budget.
fn filter_reads_for_keys_that_exist(policy: FilterPolicy) -> u64 {
    let options = options(&MemFs::new(), policy, 2);
    let mut keyspace = options.default_keyspace.clone().unwrap();
    keyspace.filter.bits_per_key = 60.0;
    let memory = MemoryBudget::bytes(MIN_MEMORY);
    let held = memory.budget().reserve(Role::Iterators, 3 * MIN_MEMORY / 4);
    let db = filled_with(options.keyspace(keyspace).memory(memory), 4 * KEYS);
    let ask = || {
        for i in 0..6_000 {
            let found = db.get(key(i * 5003 % (4 * KEYS) * 2)).unwrap();
            assert_eq!(found.unwrap().len(), 40);
        }
        db.stats().counters.filter_reads
    };
    let before = ask();
    let reads = ask() - before;
    drop(held);
    reads
}

/// Every change of the tree asks for the rates of all files, under the lock that installs it.
#[test]
fn rates_of_many_modules_are_worked_out_once_and_only_for_who_asks() {
    for (policy, asks) in [(FULL, true), (FilterPolicy::ExpectedReads, false)] {
        let options = options(&MemFs::new(), policy, 16);
        let mut keyspace = options.default_keyspace.clone().unwrap();
        keyspace.target_file = 4 << 10;
        keyspace.filter.family = FilterFamily::BlockedBloom;
        keyspace.filter.allocation = FilterAllocation::Monkey;
        let db = filled_with(options.keyspace(keyspace), KEYS);
        let files = files(&db).len();
        assert!(files > 50, "{files} files");
        let limits = db.inner().default_keyspace().limits();
        let decider = limits.decider.lock();
        let rates = decider.rates.as_ref().map(|known| known.rates.worked_out());
        let (worked_out, different) = rates.unwrap_or_default();
        assert_eq!(worked_out > 0, asks);
        assert_eq!(worked_out, different, "each once");
        assert!(different <= files, "{different} rates for {files} files");
    }
}

#[test]
fn utility_saves_filter_reads_for_keys_that_exist() {
    let all = filter_reads_for_keys_that_exist(FilterPolicy::All);
    let partial = filter_reads_for_keys_that_exist(PARTIAL);
    let full = filter_reads_for_keys_that_exist(FULL);
    assert!(all > 1000, "the cache holds all filters: {all} reads");
    assert!(partial < all * 3 / 4, "P: {partial}, all: {all}");
    assert!(full < partial / 4, "F: {full}, P: {partial}");
}

#[test]
fn utility_reads_the_modules_of_files_asked_in_vain() {
    for (policy, least) in [(FULL, 0), (PARTIAL, 1)] {
        let db = filled(options(&MemFs::new(), policy, 2));
        assert!(limits(&db).iter().all(|&limit| limit == EVERY_MODULE));
        let files = files(&db);
        ask_in_vain(&db, &files[4], 3000);
        let limits = limits(&db);
        assert_eq!(limits[4], EVERY_MODULE);
        let mut others = limits.iter().enumerate().filter(|(file, _)| *file != 4);
        assert!(others.all(|(_, limit)| *limit == least), "{limits:?}");
    }
}

#[test]
fn no_module_is_withheld_without_a_policy_that_does() {
    for policy in [FilterPolicy::All, FilterPolicy::ExpectedReads] {
        let db = filled(options(&MemFs::new(), policy, 2));
        ask_for_all(&db, 2000);
        assert!(limits(&db).iter().all(|&limit| limit == EVERY_MODULE));
        // Nobody went through the files, but what lookups saw is there for a policy that does.
        let file = files(&db).remove(0);
        let hotness = hotness(&db, &file);
        let share = 1.0 / files(&db).len() as f64;
        assert!(
            (0.5..2.0).contains(&(hotness.access / share)) && hotness.positive == 1.0,
            "{hotness:?}: {share} of all lookups asked it"
        );
        db.default_keyspace().set_filter_policy(FULL).unwrap();
        assert_eq!(file.module_limit(), 0, "asked seldom, and not in vain");
    }
}

/// Also where another was set meanwhile, for as long as the database is open.
#[test]
fn altering_brings_the_policy_of_the_options_back() {
    let db = filled(options(&MemFs::new(), FilterPolicy::ExpectedReads, 2));
    let keyspace = db.default_keyspace();
    let sets_limits = || keyspace.inner().limits().sets_limits();
    assert!(!sets_limits());
    keyspace.set_filter_policy(FULL).unwrap();
    assert!(sets_limits());
    db.alter_keyspace("default", keyspace.options()).unwrap();
    assert!(!sets_limits());
}

fn hotness(db: &Db, file: &FileMeta) -> Hotness {
    let keyspace = db.inner().default_keyspace();
    let lookups = keyspace.limits().recent_lookups(&keyspace.version());
    Hotness::of(file.visits().unwrap(), lookups)
}

fn total(limits: &[u8]) -> usize {
    limits.iter().map(|&limit| usize::from(limit)).sum()
}

#[test]
fn elastic_moves_units_to_the_files_asked() {
    let policy = FilterPolicy::Elastic {
        initial_units: 2,
        lifetime: 2,
    };
    let db = filled(options(&MemFs::new(), policy, 4));
    let files = files(&db);
    assert_eq!(limits(&db), vec![2; files.len()]);
    for hot in [3, 7] {
        ask_in_vain(&db, &files[hot], 4000);
        let limits = limits(&db);
        assert_eq!(limits[hot], 4, "file {hot}: {limits:?}");
        assert_eq!(total(&limits), 2 * files.len(), "{limits:?}");
        assert!(limits.iter().any(|&limit| limit < 2), "{limits:?}");
    }
}

#[test]
fn a_flushed_or_merged_file_has_its_limit_at_once() {
    let fs = MemFs::new();
    let db = filled(options(&fs, FULL, 2));
    let old = files(&db);
    let hot = old[4].clone();
    ask_in_vain(&db, &hot, 3000);
    // A flush above the hot file, and one above a cold one.
    db.put(hot.smallest(), [1; 40]).unwrap();
    db.flush().unwrap();
    db.put(old[8].smallest(), [1; 40]).unwrap();
    db.flush().unwrap();
    let limit_of = |file: &FileMeta| file.module_limit();
    let flushed = |smallest: &[u8]| {
        let mut found = files(&db);
        found.retain(|file| *file.smallest() == *smallest && file.entries() == 1);
        limit_of(&found[0])
    };
    assert_eq!(flushed(hot.smallest()), EVERY_MODULE);
    assert_eq!(flushed(old[8].smallest()), 0);
    // All files anew, with no lookup before the limits are looked at.
    for file in &old {
        db.put(file.largest(), [2; 40]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    let middle = key(u32::midpoint(number(hot.smallest()), number(hot.largest())));
    let check = |db: &Db| {
        let new = files(db);
        let (mut hot_files, mut cold_files) = (0, 0);
        for file in &new {
            assert!(old.iter().all(|old| old.number() != file.number()));
            if *file.smallest() <= middle[..] && *file.largest() >= middle[..] {
                assert_eq!(limit_of(file), EVERY_MODULE);
                hot_files += 1;
            } else if *file.largest() < *hot.smallest() || *file.smallest() > *hot.largest() {
                assert_eq!(limit_of(file), 0, "{:?}", file.visits());
                cold_files += 1;
            }
        }
        assert!(
            hot_files == 1 && cold_files > 5,
            "{hot_files}, {cold_files}"
        );
    };
    check(&db);
    // And so it is in the next life.
    db.close().unwrap();
    check(&options(&fs, FULL, 2).open("/db").unwrap());
}

#[test]
fn threads_end_epochs_too() {
    let db = filled(options(&MemFs::new(), FULL, 2).background_threads(1));
    let files = files(&db);
    let mut rounds = 0;
    while limits(&db)[9] != 0 {
        ask_in_vain(&db, &files[4], 256);
        rounds += 1;
        assert!(rounds < 10_000, "no thread ended an epoch");
        std::thread::yield_now();
    }
}

#[test]
fn every_preset_answers_alike() {
    for preset in Preset::ALL {
        let fs = MemFs::new();
        let named = options(&fs, FilterPolicy::All, 1).default_keyspace;
        let mut keyspace = named.unwrap();
        keyspace = keyspace.preset(preset);
        let db = filled(options(&fs, FilterPolicy::All, 1).keyspace(keyspace));
        ask_for_all(&db, 1500);
        let files = files(&db);
        ask_in_vain(&db, &files[2], 1500);
        ask_for_all(&db, 500);
    }
}
