//! Hash sharing, counted: a lookup hashes its key exactly once, whatever the number of levels, runs
//! and filter modules, whatever the filters' family and layout, alone or in a batch; without
//! sharing exactly once for each table it asks. Each lookup is counted by itself, not on average.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{Rng, Scarce, small_keyspace};
use shamba::fs::{Fs, MemFs};
use shamba::{
    Db, Eviction, FilterFamily, FilterOptions, FilterPolicy, Granularity, KeyspaceOptions,
    MemoryBudget, MergePolicy, Options, WriteBatch,
};

const DIR: &str = "/db";
const SEED: u64 = 21;

/// Bits enough for seven ribbon modules of two columns.
const BITS: f64 = 14.5;

/// The shapes of tree: how runs are merged, how many entries, and the least runs and levels wanted.
struct Shape {
    name: &'static str,
    keyspace: KeyspaceOptions,
    entries: u64,
    runs: usize,
    levels: usize,
}

fn shapes() -> [Shape; 3] {
    let keyspace = |merge_policy, size_ratio| {
        small_keyspace()
            .merge_policy(merge_policy)
            .size_ratio(size_ratio)
            .level0_runs(1)
            .write_buffer(4 << 10)
    };
    let leveling = MergePolicy::Leveling {
        granularity: Granularity::File,
    };
    [
        Shape {
            name: "one table",
            keyspace: keyspace(leveling, 2),
            entries: 40,
            runs: 1,
            levels: 1,
        },
        Shape {
            name: "many levels",
            keyspace: keyspace(leveling, 2),
            entries: 4500,
            runs: 5,
            levels: 5,
        },
        Shape {
            name: "many runs",
            keyspace: keyspace(MergePolicy::Tiering, 6),
            entries: 1500,
            runs: 8,
            levels: 2,
        },
    ]
}

fn open(fs: &MemFs, shape: &Shape, filter: &FilterOptions, sharing: bool) -> Db {
    let keyspace = shape.keyspace.clone().filter(filter.clone());
    Options::new()
        .fs(Arc::new(fs.clone()) as Arc<dyn Fs>)
        .memory(MemoryBudget::bytes(8 << 20))
        .background_threads(0)
        .hash_sharing(sharing)
        .keyspace(keyspace)
        .open(DIR)
        .unwrap()
}

/// A database on storage, nothing of it in a memtable. Returns its even keys.
fn filled(fs: &MemFs, shape: &Shape, filter: &FilterOptions) -> Vec<u64> {
    let db = open(fs, shape, filter, true);
    let mut rng = Rng::new(SEED);
    let mut keys = BTreeSet::new();
    while keys.len() < shape.entries as usize {
        let key = rng.below(1 << 40) * 2;
        keys.insert(key);
        db.put(key.to_be_bytes(), [7; 40]).unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let levels = db.stats().keyspaces[0].levels.clone();
    let runs: usize = levels.iter().map(|level| level.runs).sum();
    let deep = levels.iter().filter(|level| level.runs > 0).count();
    assert!(
        runs >= shape.runs && deep >= shape.levels,
        "{}: {runs} runs in {deep} levels",
        shape.name
    );
    db.close().unwrap();
    keys.into_iter().collect()
}

/// Keys of which half exist.
fn asked_for(keys: &[u64]) -> Vec<[u8; 8]> {
    let step = (keys.len() / 25).max(1);
    let some = keys.iter().step_by(step);
    some.flat_map(|key| [key.to_be_bytes(), (key + 1).to_be_bytes()])
        .collect()
}

/// Hashes made and tables asked so far.
fn counted(db: &Db) -> (u64, u64) {
    let counters = db.stats().counters;
    (counters.keys_hashed, counters.tables_probed)
}

fn since(now: (u64, u64), then: (u64, u64)) -> (u64, u64) {
    (now.0 - then.0, now.1 - then.1)
}

/// Looks keys up one by one and then together, and counts the hashes. Returns the most tables that
/// a lookup asked.
fn check(db: &Db, keys: &[[u8; 8]], sharing: bool, what: &str) -> u64 {
    let due = |tables: u64| if sharing { tables.min(1) } else { tables };
    let (mut most, mut all) = (0, (0, 0));
    for key in keys {
        let before = counted(db);
        let found = db.get(key).unwrap().is_some();
        assert_eq!(found, key[7] % 2 == 0, "{what}: {key:?}");
        let (hashes, tables) = since(counted(db), before);
        assert_eq!(
            hashes,
            due(tables),
            "{what}: {hashes} hashes in one lookup of {tables} tables"
        );
        most = most.max(tables);
        all = (all.0 + hashes, all.1 + tables);
    }
    for batch in [keys.len(), 7] {
        let before = counted(db);
        for keys in keys.chunks(batch) {
            db.multi_get(keys).unwrap();
        }
        let together = since(counted(db), before);
        assert_eq!(together, all, "{what}: multi_get of {batch} keys");
    }
    most
}

#[test]
fn one_hash_whatever_the_tree_and_the_filters_and_one_a_table_without_sharing() {
    use FilterFamily::{Auto, BlockedBloom, Bloom, Ribbon};
    let families = [Bloom, BlockedBloom, Ribbon].map(|family| [1, 7].map(|n| (family, n)));
    for shape in shapes() {
        for &(family, modules) in families.as_flattened().iter().chain(&[(Auto, 1)]) {
            for partitioned in [true, false] {
                let filter = FilterOptions::new()
                    .family(family)
                    .modules(modules)
                    .partitioned(partitioned)
                    .bits_per_key(BITS);
                let fs = MemFs::new();
                let keys = asked_for(&filled(&fs, &shape, &filter));
                for sharing in [true, false] {
                    let what = format!(
                        "{}, {family:?}, {modules} modules, partitioned {partitioned}, \
                         sharing {sharing}",
                        shape.name
                    );
                    let db = open(&fs, &shape, &filter, sharing);
                    let most = check(&db, &keys, sharing, &what);
                    // Small runs do not span all keys.
                    let enough = most * 3 > shape.runs as u64 * 2;
                    assert!(enough, "{what}: at most {most} tables");
                    db.close().unwrap();
                }
            }
        }
    }
}

/// Which modules are read, and what is kept in memory, changes nothing.
#[test]
fn one_hash_whatever_the_policy_and_the_memory() {
    let [_, shape, _] = shapes();
    let filter = FilterOptions::new()
        .family(FilterFamily::Ribbon)
        .modules(3)
        .bits_per_key(BITS);
    let fs = MemFs::new();
    let keys = asked_for(&filled(&fs, &shape, &filter));
    let policies = [
        FilterPolicy::All,
        FilterPolicy::ExpectedReads,
        FilterPolicy::Elastic {
            initial_units: 1,
            lifetime: 2,
        },
    ];
    let (scarce, plenty) = (Scarce::leaving(64 << 10), MemoryBudget::bytes(8 << 20));
    for filter_policy in policies {
        for eviction in [Eviction::ExpectedReads, Eviction::TwoPriorityLru] {
            for (memory, little) in [(&scarce.memory, true), (&plenty, false)] {
                for sharing in [true, false] {
                    let what = format!("{filter_policy:?}, {eviction:?}, little memory: {little}");
                    let keyspace = shape
                        .keyspace
                        .clone()
                        .filter(filter.clone())
                        .filter_policy(filter_policy);
                    let db = Options::new()
                        .fs(Arc::new(fs.clone()))
                        .memory(memory.clone())
                        .eviction(eviction)
                        .background_threads(0)
                        .hash_sharing(sharing)
                        .cache_entries(false)
                        .keyspace(keyspace)
                        .open(DIR)
                        .unwrap();
                    check(&db, &keys, sharing, &what);
                    db.close().unwrap();
                }
            }
        }
    }
}

#[test]
fn what_memtables_answer_is_not_hashed() {
    let [_, shape, _] = shapes();
    let filter = FilterOptions::default();
    let fs = MemFs::new();
    filled(&fs, &shape, &filter);
    for sharing in [true, false] {
        let db = open(&fs, &shape, &filter, sharing);
        let mut batch = WriteBatch::new();
        batch.put(b"new", b"value");
        batch.delete(b"old");
        db.write(batch).unwrap();
        assert!(db.get(b"new").unwrap().is_some());
        assert!(db.get(b"old").unwrap().is_none());
        assert_eq!(counted(&db), (0, 0));
        db.close().unwrap();
    }
}
