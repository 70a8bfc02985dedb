//! A partition's first filter module and its index block lie next to each other, and a lookup reads
//! both with one operation where that pays: by single lookups, by lookups of many keys, and not
//! where the index would come along in vain.

use std::sync::Arc;

use crate::common::{Scarce, scattered_key as key};
use shamba::fs::{BlockKind, IoCounts, MemFs, MeteredFs, Purpose};
use shamba::{
    Counters, Db, Eviction, FilterFamily, FilterOptions, FilterPolicy, KeyspaceOptions, MIN_MEMORY,
    MemoryBudget, Options,
};

const DIR: &str = "/db";
const KEYS: u64 = 300_000;

/// Four columns: the first module is the whole filter, and of a page.
fn keyspace(filter_policy: FilterPolicy) -> KeyspaceOptions {
    KeyspaceOptions::new()
        .filter(
            FilterOptions::new()
                .family(FilterFamily::Ribbon)
                .bits_per_key(4.2),
        )
        .filter_policy(filter_policy)
}

/// One run, of about forty partitions if it has all keys.
fn stored(keys: u64) -> MemFs {
    stored_with(keyspace(FilterPolicy::ExpectedReads), keys)
}

fn stored_with(keyspace: KeyspaceOptions, keys: u64) -> MemFs {
    let fs = MemFs::new();
    let options = Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(64 << 20))
        .background_threads(0)
        .keyspace(keyspace);
    let db = options.open(DIR).unwrap();
    crate::common::fill_one_run(db, keys);
    fs
}

fn cold(fs: &MemFs, policy: FilterPolicy, eviction: Eviction, memory: u64) -> (Db, MeteredFs) {
    cold_with(fs, keyspace(policy), eviction, &MemoryBudget::bytes(memory))
}

fn cold_with(
    fs: &MemFs,
    keyspace: KeyspaceOptions,
    eviction: Eviction,
    memory: &MemoryBudget,
) -> (Db, MeteredFs) {
    let fs = MeteredFs::new(Arc::new(fs.deep_clone()));
    let options = Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(memory.clone())
        .background_threads(0)
        .eviction(eviction)
        .keyspace(keyspace);
    (options.open(DIR).unwrap(), fs)
}

fn cold_by_worth(fs: &MemFs, memory: u64) -> (Db, MeteredFs) {
    let policy = FilterPolicy::ExpectedReads;
    cold(fs, policy, Eviction::ExpectedReads, memory)
}

fn lookup_reads(counts: IoCounts) -> [(u64, u64); 3] {
    [BlockKind::Filter(0), BlockKind::Index, BlockKind::Data].map(|kind| {
        let count = counts.reads(kind, Purpose::Lookup);
        (count.reads, count.pages)
    })
}

/// Operations and pages as the engine counts them.
fn counted(now: Counters, before: Counters) -> [(u64, u64); 3] {
    [
        (
            now.filter_reads - before.filter_reads,
            now.filter_pages - before.filter_pages,
        ),
        (
            now.index_reads - before.index_reads,
            now.index_pages - before.index_pages,
        ),
        (
            now.data_reads - before.data_reads,
            now.data_pages - before.data_pages,
        ),
    ]
}

#[test]
fn a_key_in_a_cold_partition_is_found_with_two_reads() {
    let (db, fs) = cold_by_worth(&stored(KEYS), 32 << 20);
    let before = fs.counts();
    assert!(db.get(key(2000)).unwrap().is_some());
    let reads = lookup_reads(fs.counts() - before);
    assert_eq!(
        reads,
        [(1, 1), (0, 1), (1, 1)],
        "filter and index, then data"
    );
    assert_eq!(counted(db.stats().counters, Counters::default()), reads);
    // Both stay: another key of the partition takes no more than its data.
    let before = fs.counts();
    let near = (0..KEYS).map(|i| key(2 * i)).min_by_key(|near| {
        let place = |key: &[u8; 16]| u64::from_be_bytes(key[..8].try_into().unwrap());
        let distance = place(near).abs_diff(place(&key(2000)));
        if distance == 0 { u64::MAX } else { distance }
    });
    assert!(db.get(near.unwrap()).unwrap().is_some());
    let [filter, index, _] = lookup_reads(fs.counts() - before);
    assert_eq!((filter, index), ((0, 0), (0, 0)));
}

#[test]
fn keys_asked_for_together_share_the_joint_reads() {
    let (db, fs) = cold_by_worth(&stored(KEYS), 32 << 20);
    let keys: Vec<_> = (0..4000).map(|i| key(i * 149 % (2 * KEYS))).collect();
    let before = fs.counts();
    let values = db.multi_get(&keys).unwrap();
    for (number, value) in values.iter().enumerate() {
        assert_eq!(value.is_some(), number % 2 == 0, "{number}");
    }
    let [filter, index, _] = lookup_reads(fs.counts() - before);
    assert!(filter.0 > 20 && filter.0 < 60, "{filter:?}");
    assert_eq!(filter.0, filter.1);
    assert_eq!(index, (0, filter.1), "every index came with its filter");
}

#[test]
fn absent_keys_bring_no_index_in_vain_where_memory_is_short() {
    let scarce = Scarce::leaving(64 << 10);
    let keyspace = keyspace(FilterPolicy::ExpectedReads);
    let eviction = Eviction::ExpectedReads;
    let (db, fs) = cold_with(&stored(KEYS), keyspace, eviction, &scarce.memory);
    let ask = |from: u64| {
        for number in from..from + 30_000 {
            assert!(db.get(key(2 * (number * 31 % KEYS) + 1)).unwrap().is_none());
        }
    };
    ask(0);
    let (before, counters) = (fs.counts(), db.stats().counters);
    ask(30_000);
    let [filter, index, data] = lookup_reads(fs.counts() - before);
    assert_eq!(
        counted(db.stats().counters, counters),
        [filter, index, data]
    );
    assert!(filter.1 > 300, "memory is not short: {filter:?}");
    // One in sixteen passes the filter. What comes with a filter counts no operation.
    let in_vain = index.1 - index.0;
    let all = filter.1 + index.1 + data.1;
    assert!(in_vain * 200 <= all, "{filter:?} {index:?} {data:?}");
}

#[test]
fn absent_keys_learn_before_long_that_cold_indexes_are_not_needed() {
    let (db, fs) = cold_by_worth(&stored(KEYS), 32 << 20);
    let before = fs.counts();
    for number in 0..2000 {
        assert!(
            db.get(key(2 * (number * 149 % KEYS) + 1))
                .unwrap()
                .is_none()
        );
    }
    let [filter, index, _] = lookup_reads(fs.counts() - before);
    assert!(filter.1 >= 35, "{filter:?}");
    let in_vain = index.1 - index.0;
    assert!(in_vain <= 15, "{in_vain} of {filter:?}, {index:?}");
}

#[test]
fn the_baselines_read_one_block_at_a_time() {
    let fs = stored(10_000);
    for (policy, eviction) in [
        (FilterPolicy::All, Eviction::ExpectedReads),
        (FilterPolicy::All, Eviction::TwoPriorityLru),
        (FilterPolicy::ExpectedReads, Eviction::TwoPriorityLru),
    ] {
        let (db, fs) = cold(&fs, policy, eviction, 32 << 20);
        let before = fs.counts();
        assert!(db.get(key(2000)).unwrap().is_some());
        let reads = lookup_reads(fs.counts() - before);
        assert_eq!(reads, [(1, 1), (1, 1), (1, 1)], "{policy:?} {eviction:?}");
    }
}

#[test]
fn damage_of_either_block_harms_only_who_needs_it() {
    let keys = 10_000;
    let fs = stored(keys);
    let (db, metered) = cold_by_worth(&fs, 32 << 20);
    let absent = (0..keys)
        .map(|i| key(2 * i + 1))
        .find(|absent| {
            let before = db.stats().counters;
            assert!(db.get(absent).unwrap().is_none());
            let [filter, index, data] = counted(db.stats().counters, before);
            (filter, index, data) == ((1, 1), (0, 1), (0, 0))
        })
        .expect("some key that a joint read tells to be absent");
    drop((db, metered));
    for table in crate::common::files_ending(&fs, DIR, ".sst") {
        let path = std::path::Path::new(DIR).join(table);
        let bytes = fs.read_file(&path).unwrap();
        // Every page but the footer is damaged in turn; a lookup of the absent key fails for none.
        let pages = bytes.len() / 4096 - 1;
        let mut harmed = 0;
        for page in 0..pages {
            let mut bad = bytes.clone();
            bad[page * 4096 + 50] ^= 1;
            let damaged = fs.deep_clone();
            damaged.write_file(&path, &bad).unwrap();
            let (db, _) = cold_by_worth(&damaged, 32 << 20);
            match db.get(absent) {
                Ok(value) => assert!(value.is_none()),
                Err(error) => {
                    assert!(error.is_corruption());
                    harmed += 1;
                }
            }
        }
        assert_eq!(harmed, 0, "the filter alone tells");
    }
}

/// Three modules of four columns each, as levels below the first have by default.
#[test]
fn while_memory_is_plenty_all_of_a_filter_that_fits_a_buffer_comes_with_one_read() {
    let modules = |policy| {
        keyspace(policy).filter(
            FilterOptions::new()
                .family(FilterFamily::Ribbon)
                .bits_per_key(21.0)
                .modules(5),
        )
    };
    let fs = stored_with(modules(FilterPolicy::ExpectedReads), KEYS);
    let open = |policy, memory| {
        let memory = MemoryBudget::bytes(memory);
        cold_with(&fs, modules(policy), Eviction::ExpectedReads, &memory)
    };
    // A buffer is a sixty-fourth of the budget.
    for (memory, together) in [(32 << 20, 5), (MIN_MEMORY, 4)] {
        let (db, fs_of_db) = open(FilterPolicy::ExpectedReads, memory);
        let before = fs_of_db.counts();
        for number in 0..20_000 {
            let absent = key(2 * (number * 149 % KEYS) + 1);
            assert!(db.get(absent).unwrap().is_none());
        }
        let counts = fs_of_db.counts() - before;
        let filter = |module| counts.reads(BlockKind::Filter(module), Purpose::Lookup);
        let first = filter(0);
        assert!(first.reads >= 35 && first.pages == together * first.reads);
        for module in 1..together as u8 {
            assert_eq!(filter(module).reads, 0, "it came with the first");
        }
    }
    // One block at a time where papers' baselines are measured.
    let (db, fs_of_db) = open(FilterPolicy::All, 32 << 20);
    let before = fs_of_db.counts();
    assert!(db.get(key(2000)).unwrap().is_some());
    let counts = fs_of_db.counts() - before;
    for module in 0..5 {
        let count = counts.reads(BlockKind::Filter(module), Purpose::Lookup);
        assert_eq!((count.reads, count.pages), (1, 1));
    }
}

/// The first lookups find memory plenty, however little it is; what they read still fits.
#[test]
fn of_a_small_budget_no_large_buffer_is_taken() {
    let keyspace = KeyspaceOptions::new()
        .filter(
            FilterOptions::new()
                .family(FilterFamily::Bloom)
                .bits_per_key(16.0),
        )
        .filter_policy(FilterPolicy::ExpectedReads);
    let fs = stored_with(keyspace.clone(), 20_000);
    for (memory, most) in [(MIN_MEMORY, 4), (32 << 20, 8)] {
        let memory = MemoryBudget::bytes(memory);
        let (db, fs) = cold_with(&fs, keyspace.clone(), Eviction::ExpectedReads, &memory);
        let before = fs.counts();
        assert!(db.get(key(2001)).unwrap().is_none());
        let [(reads, pages), ..] = lookup_reads(fs.counts() - before);
        assert_eq!(reads, 1);
        assert!(pages <= most && pages * 4 > most, "{pages} pages at once");
    }
}
