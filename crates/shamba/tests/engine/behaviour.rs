//! What the engine promises beyond right answers: durability as asked, work not done twice, space
//! given back, memory shared, statistics that count what they say.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use crate::common::{Map, Rng, Scarce, contents, files_ending, small_keyspace, small_options};
use shamba::fs::{
    BlockKind, Charge, DeviceModel, Effect, Fault, FaultFs, Faults, MemFs, MeteredFs, Op, Purpose,
};
use shamba::{
    Append, Db, Durability, Error, FilterFamily, FilterOptions, FilterPolicy, IterOptions,
    KeyspaceOptions, KeyspaceStatistics, MemoryBudget, MergePolicy, Options, Role, WriteBatch,
    WriteOptions,
};

const DIR: &str = "/db";

fn default_statistics(db: &Db) -> KeyspaceStatistics {
    db.stats()
        .keyspaces
        .into_iter()
        .find(|keyspace| keyspace.name == "default")
        .unwrap()
}

/// Entries that a scan of the default keyspace sees, none of which may fail.
fn scanned(db: &Db) -> usize {
    db.iter().map(Result::unwrap).count()
}

fn entries(db: &Db) -> u64 {
    default_statistics(db)
        .levels
        .iter()
        .map(|level| level.entries)
        .sum()
}

fn put(db: &Db, key: &str, durability: Durability) {
    let mut batch = WriteBatch::new();
    batch.put(key, b"v");
    db.write_with(batch, WriteOptions::new().durability(durability))
        .unwrap();
}

// Durability.

#[test]
fn each_durability_survives_what_it_promises() {
    let fs = MemFs::new();
    let options = || small_options(Arc::new(MemFs::new())).memory(MemoryBudget::bytes(4 << 20));
    let db = options().fs(Arc::new(fs.clone())).open(DIR).unwrap();
    put(&db, "synced", Durability::Synced);
    put(&db, "buffered", Durability::Buffered);
    put(&db, "none", Durability::None);
    // The process is killed: what the operating system has stays.
    let killed = options().fs(Arc::new(fs.deep_clone())).open(DIR).unwrap();
    assert!(killed.get("synced").unwrap().is_some() && killed.get("buffered").unwrap().is_some());
    assert!(
        killed.get("none").unwrap().is_none(),
        "a write without log was logged"
    );
    // The machine loses power.
    let mut buffered_lost = false;
    for seed in 0..50 {
        let crashed = options()
            .fs(Arc::new(fs.crash_clone(seed)))
            .open(DIR)
            .unwrap();
        assert!(crashed.get("synced").unwrap().is_some(), "seed {seed}");
        buffered_lost |= crashed.get("buffered").unwrap().is_none();
    }
    assert!(buffered_lost, "a buffered write was synced");
    // Until it is made durable after the fact.
    db.sync().unwrap();
    for seed in 0..20 {
        let crashed = options()
            .fs(Arc::new(fs.crash_clone(seed)))
            .open(DIR)
            .unwrap();
        assert!(crashed.get("buffered").unwrap().is_some(), "seed {seed}");
    }
    db.flush().unwrap();
    for seed in 0..20 {
        let crashed = options()
            .fs(Arc::new(fs.crash_clone(seed)))
            .open(DIR)
            .unwrap();
        assert!(crashed.get("none").unwrap().is_some(), "seed {seed}");
    }
}

#[test]
fn the_databases_durability_holds_for_writes_that_say_none() {
    let fs = MemFs::new();
    let options = |fs: MemFs| small_options(Arc::new(fs)).durability(Durability::Synced);
    let db = options(fs.clone()).open(DIR).unwrap();
    db.put(b"k", b"v").unwrap();
    for seed in 0..20 {
        let crashed = options(fs.crash_clone(seed)).open(DIR).unwrap();
        assert!(crashed.get(b"k").unwrap().is_some(), "seed {seed}");
    }
}

#[test]
fn writers_that_wait_together_share_a_sync() {
    let device = DeviceModel {
        read: 0,
        parallel: 1,
        read_page: 0,
        write: 0,
        write_page: 0,
        sync: 2_000_000,
    };
    let fs = MemFs::new();
    let slow = MeteredFs::with_device(Arc::new(fs.clone()), device, Charge::Real);
    let db = small_options(Arc::new(slow))
        .memory(MemoryBudget::bytes(16 << 20))
        .open(DIR)
        .unwrap();
    let (threads, writes) = (8, 40);
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (db, barrier) = (&db, &barrier);
            scope.spawn(move || {
                barrier.wait();
                (0..writes).for_each(|i| put(db, &format!("{thread}/{i}"), Durability::Synced));
            });
        }
    });
    let counters = db.stats().counters;
    let total = (threads * writes) as u64;
    assert_eq!(counters.batches, total);
    assert!(
        counters.wal_syncs * 2 < total,
        "{} syncs for {total} writes",
        counters.wal_syncs
    );
    assert!(counters.write_groups * 2 < total);
    let crashed = small_options(Arc::new(fs.crash_clone(1)))
        .open(DIR)
        .unwrap();
    assert_eq!(
        contents(&crashed.default_keyspace()).unwrap().len() as u64,
        total
    );
}

#[test]
fn a_failed_sync_stops_writes_and_not_reads() {
    let fs = MemFs::new();
    let faults = Faults::new();
    let db = small_options(Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone())))
        .open(DIR)
        .unwrap();
    put(&db, "before", Durability::Synced);
    faults.add(Fault::new(Effect::Fail(shamba::fs::FaultError::EIO)).on(Op::Sync));
    assert!(
        db.write_with(one("during"), WriteOptions::synced())
            .is_err()
    );
    let after = db
        .write_with(one("after"), WriteOptions::synced())
        .unwrap_err();
    assert!(matches!(after, shamba::Error::Poisoned { .. }), "{after:?}");
    assert!(db.stats().writes_stopped.is_some());
    assert!(db.get("before").unwrap().is_some());
    assert!(db.get("during").unwrap().is_none() && db.get("after").unwrap().is_none());
    assert_eq!(scanned(&db), 1);
    drop(db);
    let db = small_options(Arc::new(fs)).open(DIR).unwrap();
    assert!(db.get("before").unwrap().is_some() && db.get("after").unwrap().is_none());
    put(&db, "again", Durability::Synced);
}

fn one(key: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, b"v");
    batch
}

// The tree.

#[test]
fn a_sequential_load_moves_files_and_rewrites_nothing() {
    for threads in [0, 2] {
        let db = small_options(Arc::new(MemFs::new()))
            .background_threads(threads)
            .open(DIR)
            .unwrap();
        for i in 0..20_000u32 {
            db.put(i.to_be_bytes(), [7; 40]).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        let counters = db.stats().counters;
        assert_eq!(
            counters.compaction_bytes_written, 0,
            "with {threads} threads: {counters:?}"
        );
        assert!(counters.trivial_moves > 10);
        let levels = default_statistics(&db).levels;
        assert!(
            levels.iter().filter(|level| level.files > 0).count() >= 2,
            "{levels:?}"
        );
        assert_eq!(contents(&db.default_keyspace()).unwrap().len(), 20_000);
    }
}

#[test]
fn space_is_given_back_when_everything_is_deleted() {
    for policy in [
        MergePolicy::default(),
        MergePolicy::Tiering,
        MergePolicy::LazyLeveling,
    ] {
        let fs = MemFs::new();
        let keyspace = small_keyspace().merge_policy(policy);
        let db = small_options(Arc::new(fs.clone()))
            .keyspace(keyspace)
            .open(DIR)
            .unwrap();
        for i in 0..5000u32 {
            db.put(i.to_be_bytes(), [7; 100]).unwrap();
        }
        db.flush().unwrap();
        let full = fs.total_bytes();
        for i in 0..5000u32 {
            db.delete(i.to_be_bytes()).unwrap();
        }
        db.compact_range(None, None).unwrap();
        assert_eq!(entries(&db), 0, "{policy:?}: tombstones are left");
        assert!(
            files_ending(&fs, DIR, ".sst").is_empty(),
            "{policy:?}: {:?}",
            files_ending(&fs, DIR, ".sst")
        );
        assert!(
            fs.total_bytes() * 20 < full,
            "{policy:?}: {} of {full} bytes are left",
            fs.total_bytes()
        );
    }
}

#[test]
fn overwritten_values_are_dropped_unless_a_snapshot_sees_them() {
    let db = small_options(Arc::new(MemFs::new())).open(DIR).unwrap();
    let write = |round: u8| (0..200u32).for_each(|i| db.put(i.to_be_bytes(), [round; 20]).unwrap());
    write(1);
    let first = db.snapshot();
    write(2);
    write(3);
    let third = first.clone();
    drop(third);
    db.compact_range(None, None).unwrap();
    assert_eq!(
        entries(&db),
        400,
        "the snapshot's and the newest version are kept, nothing else"
    );
    (0..200u32).for_each(|i| assert_eq!(*first.get(i.to_be_bytes()).unwrap().unwrap(), [1; 20]));
    (0..200u32).for_each(|i| db.delete(i.to_be_bytes()).unwrap());
    db.compact_range(None, None).unwrap();
    assert_eq!(first.iter().map(Result::unwrap).count(), 200);
    assert_eq!(scanned(&db), 0);
    drop(first);
    db.compact_range(None, None).unwrap();
    assert_eq!(entries(&db), 0, "what only the snapshot saw is still there");
}

#[test]
fn files_nobody_uses_are_removed_and_those_in_use_are_not() {
    let fs = MemFs::new();
    let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    let mut rng = Rng::new(3);
    let mut model = Map::new();
    let mut all_seen = BTreeSet::new();
    for round in 0..30 {
        for _ in 0..200 {
            let key = rng.below(3000).to_be_bytes();
            let value = rng.bytes(50);
            db.put(key, &value).unwrap();
            model.insert(key.to_vec(), value);
        }
        let mut iter = db.cursor(IterOptions::default()).unwrap();
        iter.seek_to_first().unwrap();
        db.flush().unwrap();
        if round % 5 == 4 {
            db.compact_range(None, None).unwrap();
        }
        let mut seen = Map::new();
        while iter.valid() {
            seen.insert(iter.key().to_vec(), iter.value().to_vec());
            iter.next().unwrap();
        }
        assert!(seen == model);
        all_seen.extend(files_ending(&fs, DIR, ".sst"));
    }
    db.compact_range(None, None).unwrap();
    db.wait_for_compaction().unwrap();
    db.put(b"a write so that work without threads is done", b"")
        .unwrap();
    let live: usize = default_statistics(&db)
        .levels
        .iter()
        .map(|level| level.files)
        .sum();
    assert_eq!(files_ending(&fs, DIR, ".sst").len(), live);
    assert!(all_seen.len() > 4 * live);
    assert!(
        files_ending(&fs, DIR, ".wal").len() <= 2,
        "{:?}",
        files_ending(&fs, DIR, ".wal")
    );
    db.verify().unwrap().check().unwrap();
}

#[test]
fn orphans_of_a_crash_are_removed_at_the_next_open() {
    let fs = MemFs::new();
    let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    (0..500u32).for_each(|i| db.put(i.to_be_bytes(), [1; 50]).unwrap());
    db.close().unwrap();
    let whole = files_ending(&fs, DIR, ".sst");
    for orphan in ["/db/999999.sst", "/db/HINTS.tmp", "/db/MANIFEST-999998"] {
        fs.write_file(orphan, b"half a file").unwrap();
    }
    let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    assert_eq!(files_ending(&fs, DIR, ".sst"), whole);
    assert!(files_ending(&fs, DIR, ".tmp").is_empty());
    assert!(files_ending(&fs, DIR, "999998").is_empty());
    assert_eq!(contents(&db.default_keyspace()).unwrap().len(), 500);
}

#[test]
fn values_of_64_mib_work_under_a_large_budget() {
    let fs = MemFs::new();
    let options = || {
        Options::new()
            .fs(Arc::new(fs.clone()))
            .memory(MemoryBudget::bytes(1 << 30))
            .background_threads(0)
    };
    let value = Rng::new(5).bytes(64 << 20);
    let db = options().open(DIR).unwrap();
    db.put(b"large", &value).unwrap();
    db.put(b"small", b"v").unwrap();
    assert!(
        db.get(b"large").unwrap().as_deref() == Some(value.as_slice()),
        "from the memtable"
    );
    db.flush().unwrap();
    assert!(
        db.get(b"large").unwrap().as_deref() == Some(value.as_slice()),
        "from a table"
    );
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let db = options().open(DIR).unwrap();
    assert!(
        contents(&db.default_keyspace()).unwrap()[&b"large"[..]] == value,
        "by a scan"
    );
    assert_eq!(db.get(b"small").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(db.stats().memory.budget.overdraft, 0);
}

// Iterators and copies.

#[test]
fn iterators_keep_to_their_bounds_and_prefixes() {
    let db = small_options(Arc::new(MemFs::new())).open(DIR).unwrap();
    let keys: [&[u8]; 8] = [
        b"",
        b"a",
        b"ab",
        b"ab\xff",
        b"ab\xff\xff",
        b"ac",
        b"b",
        b"\xff\xff",
    ];
    keys.iter().for_each(|key| db.put(key, b"v").unwrap());
    for flushed in [false, true] {
        let list = |options: IterOptions| -> Vec<Vec<u8>> {
            let forward: Vec<_> = db
                .iter_with(options.clone())
                .map(|pair| pair.unwrap().0)
                .collect();
            let mut iter = db.cursor(options).unwrap();
            let mut backward = Vec::new();
            iter.seek_to_last().unwrap();
            while iter.valid() {
                backward.push(iter.key().to_vec());
                iter.prev().unwrap();
            }
            backward.reverse();
            assert_eq!(forward, backward);
            forward
        };
        assert_eq!(list(IterOptions::default()), keys);
        assert_eq!(list(IterOptions::prefix("ab")), keys[2..5]);
        assert_eq!(list(IterOptions::prefix("ab\u{0}")), keys[..0]);
        assert_eq!(list(IterOptions::prefix(b"ab\xff")), keys[3..5]);
        assert_eq!(list(IterOptions::prefix(b"\xff")), keys[7..]);
        assert_eq!(list(IterOptions::prefix(b"")), keys);
        assert_eq!(
            list(IterOptions::range(b"ab".to_vec()..b"b".to_vec())),
            keys[2..6]
        );
        assert_eq!(
            list(IterOptions::range(b"ab".to_vec()..=b"b".to_vec())),
            keys[2..7]
        );
        assert_eq!(
            list(IterOptions::range(b"b".to_vec()..b"a".to_vec())),
            keys[..0]
        );
        let (lower, upper) = (
            std::ops::Bound::Excluded(b"ab".to_vec()),
            std::ops::Bound::Unbounded,
        );
        assert_eq!(
            list(IterOptions::default().lower(lower).upper(upper)),
            keys[3..]
        );
        if !flushed {
            db.flush().unwrap();
        }
    }
}

#[test]
fn a_checkpoint_and_its_source_go_separate_ways() {
    let fs = MemFs::new();
    let open = |dir: &str| small_options(Arc::new(fs.clone())).open(dir).unwrap();
    let db = open(DIR);
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    (0..2000u32).for_each(|i| db.put(i.to_be_bytes(), [1; 50]).unwrap());
    other.put(b"k", b"v").unwrap();
    let before = fs.total_bytes();
    db.checkpoint("/copy").unwrap();
    assert!(
        fs.total_bytes() < before + before / 4 + 8192,
        "the tables were copied, not linked"
    );
    // The source changes everything; the copy is as it was.
    (0..2000u32).for_each(|i| db.put(i.to_be_bytes(), [2; 50]).unwrap());
    db.drop_keyspace("other").unwrap();
    db.compact_range(None, None).unwrap();
    let copy = open("/copy");
    let whole: Map = (0..2000u32)
        .map(|i| (i.to_be_bytes().to_vec(), vec![1; 50]))
        .collect();
    assert!(contents(&copy.default_keyspace()).unwrap() == whole);
    assert_eq!(
        copy.keyspace("other")
            .unwrap()
            .get(b"k")
            .unwrap()
            .as_deref(),
        Some(&b"v"[..])
    );
    // The copy is emptied; the source is as it was.
    (0..2000u32).for_each(|i| copy.delete(i.to_be_bytes()).unwrap());
    copy.compact_range(None, None).unwrap();
    copy.close().unwrap();
    assert_eq!(contents(&db.default_keyspace()).unwrap().len(), 2000);
    db.verify().unwrap().check().unwrap();
    db.close().unwrap();
    assert_eq!(contents(&open(DIR).default_keyspace()).unwrap().len(), 2000);
    // A crash right after a checkpoint keeps it.
    let db = open(DIR);
    db.checkpoint("/copy2").unwrap();
    for seed in 0..20 {
        let crashed = fs.crash_clone(seed);
        let copy = small_options(Arc::new(crashed))
            .create_if_missing(false)
            .open("/copy2")
            .unwrap();
        assert_eq!(contents(&copy.default_keyspace()).unwrap().len(), 2000);
    }
}

// Memory.

#[test]
fn databases_that_share_a_budget_stay_within_it_together() {
    let budget = MemoryBudget::bytes(2 << 20);
    let tables = |usage: &shamba::MemoryUsage| {
        let of_tables = |(role, _): &&(shamba::Role, u64)| role.name() == "tables";
        usage
            .budget
            .by_role
            .iter()
            .find(of_tables)
            .map(|(_, bytes)| *bytes)
    };
    let open = || {
        let keyspace = small_keyspace().write_buffer(1 << 20);
        small_options(Arc::new(MemFs::new()))
            .memory(budget.clone())
            .keyspace(keyspace)
            .background_threads(1)
    };
    let databases: Vec<Db> = (0..4).map(|_| open().open(DIR).unwrap()).collect();
    std::thread::scope(|scope| {
        for (number, db) in databases.iter().enumerate() {
            scope.spawn(move || {
                let mut rng = Rng::new(number as u64);
                for i in 0..8000u32 {
                    db.put(rng.below(5000).to_be_bytes(), [i as u8; 200])
                        .unwrap();
                    db.get(rng.below(10_000).to_be_bytes()).unwrap();
                }
                assert!(scanned(db) > 3000);
            });
        }
    });
    for db in &databases {
        let memory = db.stats().memory.budget;
        assert_eq!(memory.limit, 2 << 20);
        assert!(
            memory.used <= memory.limit && memory.overdraft == 0,
            "{memory:?}"
        );
        assert!(memory.peak > 1 << 20, "{memory:?}");
    }
    drop(databases);
    // Cached blocks nobody will ask for again go when their room is wanted; all else is gone.
    // The cache keeps its counters of accesses.
    assert!(tables(&budget.usage()) <= Some(64 << 10));
    let left = budget.usage().budget;
    for (role, bytes) in &left.by_role {
        let stays = ["data", "index", "filter", "io", "tables", "spare"]
            .iter()
            .any(|kept| role.name().starts_with(kept));
        assert!(
            stays || *bytes == 0,
            "closed databases hold {}: {left:?}",
            role.name()
        );
    }
}

#[test]
fn values_and_iterators_held_stay_right_under_almost_no_memory() {
    let options =
        small_options(Arc::new(MemFs::new())).memory(MemoryBudget::bytes(shamba::MIN_MEMORY));
    let db = options.open(DIR).unwrap();
    (0..5000u32).for_each(|i| db.put(i.to_be_bytes(), [i as u8; 800]).unwrap());
    db.flush().unwrap();
    let held: Vec<_> = (0..200u32)
        .map(|i| db.get((i * 25).to_be_bytes()).unwrap().unwrap())
        .collect();
    let mut iter = db.cursor(IterOptions::default()).unwrap();
    iter.seek(2500u32.to_be_bytes()).unwrap();
    for i in 0..5000u32 {
        assert_eq!(*db.get(i.to_be_bytes()).unwrap().unwrap(), [i as u8; 800]);
    }
    db.compact_range(None, None).unwrap();
    for (i, value) in held.iter().enumerate() {
        assert_eq!(**value, [(i * 25) as u8; 800]);
    }
    for i in 2500..5000u32 {
        assert_eq!(
            (iter.key(), iter.value()),
            (&i.to_be_bytes()[..], &[i as u8; 800][..])
        );
        iter.next().unwrap();
    }
    assert!(!iter.valid());
}

/// Iterators that are left alone keep what they saw, and no memtable of those days: one alone keeps
/// one, for which there is room, so that there are several.
#[test]
fn iterators_held_under_many_writes_let_nothing_grow() {
    let memory = MemoryBudget::bytes(4 << 20);
    let options = small_options(Arc::new(MemFs::new())).memory(memory.clone());
    let keyspace = KeyspaceOptions::new().write_buffer(1 << 20);
    let db = options.keyspace(keyspace).open(DIR).unwrap();
    let key = |number: u32| (number.wrapping_mul(2_654_435_761) % 3000).to_be_bytes();
    let put = |number: u32, value: u32| {
        let written = db.put(number.to_be_bytes(), value.to_be_bytes());
        written.unwrap();
    };
    (0..3000).for_each(|number| put(number, 0));
    let mut held = Vec::new();
    let mut peaks = Vec::new();
    for round in 1..=8 {
        // A key that shows the moment.
        put(1000, round);
        let mut idle = db.cursor(IterOptions::default()).unwrap();
        idle.seek(1000u32.to_be_bytes()).unwrap();
        held.push((idle, round));
        let (mut used, mut memtables) = (0, 0);
        for number in 0..30_000 {
            let key = key(round * 30_000 + number);
            if key != 1000u32.to_be_bytes() {
                db.put(key, number.to_be_bytes()).unwrap();
            }
            if number % 100 == 0 {
                let usage = memory.usage().budget;
                used = used.max(usage.used);
                let mut roles = usage.by_role.iter();
                let of_memtables = roles.find(|(role, _)| *role == Role::Memtable);
                memtables = memtables.max(of_memtables.unwrap().1);
            }
        }
        peaks.push((used, memtables));
    }
    let within = |(used, memtables): &(u64, u64)| *used <= 4 << 20 && *memtables <= 3 << 19;
    assert!(peaks.iter().all(within), "{peaks:?}");
    // What each was opened at is what it sees.
    for (idle, round) in &mut held {
        assert_eq!(idle.value(), round.to_be_bytes());
        for number in 1000..3000u32 {
            assert_eq!(idle.key(), number.to_be_bytes());
            idle.next().unwrap();
        }
        assert!(!idle.valid());
    }
}

#[test]
fn a_budget_beyond_all_measure_takes_nothing_that_is_not_used() {
    for limit in [1 << 40, u64::MAX / 2, u64::MAX] {
        let memory = MemoryBudget::bytes(limit);
        let options = small_options(Arc::new(MemFs::new())).memory(memory.clone());
        let options = options.keyspace(KeyspaceOptions::default());
        let db = options.open(DIR).unwrap();
        let used = memory.usage().budget.used;
        assert!(used < 8 << 20, "{used} bytes of {limit} for nothing");
        db.put("k", vec![7; 1 << 20]).unwrap();
        db.compact_range(None, None).unwrap();
        assert_eq!(db.get("k").unwrap().unwrap().len(), 1 << 20);
        assert_eq!(scanned(&db), 1);
        assert!(memory.usage().budget.peak < 32 << 20);
        assert!(
            memory
                .usage()
                .cache
                .kind(shamba::fs::BlockKind::Data)
                .blocks
                <= 1
        );
    }
}

#[test]
fn a_budget_made_smaller_is_come_down_to_and_fails_nothing() {
    for threads in [0, 2] {
        let memory = MemoryBudget::bytes(32 << 20);
        let options = small_options(Arc::new(MemFs::new())).memory(memory.clone());
        let keyspace = small_keyspace().write_buffer(64 << 20);
        let options = options.keyspace(keyspace).background_threads(threads);
        let options = options.merge_operator("default", Append);
        let db = options.open(DIR).unwrap();
        let long = vec![7; 800 << 10];
        db.put("long", &long).unwrap();
        (0..3000u32).for_each(|i| db.put(i.to_be_bytes(), [i as u8; 800]).unwrap());
        db.flush().unwrap();
        assert_eq!(scanned(&db), 3001);
        (0..2000u32).for_each(|i| db.put(i.to_be_bytes(), [1; 800]).unwrap());
        let before = memory.usage().budget.used;
        memory.set_limit(1 << 20).unwrap();
        let after = memory.usage().budget;
        assert!(
            before > 4 << 20 && after.used < before,
            "{before}: {after:?}"
        );
        db.put("short", "1").unwrap();
        let too_long = db.transaction().merge("long", vec![8; 65 << 10]);
        let too_long = too_long.unwrap_err();
        assert!(matches!(too_long, Error::ValueTooLarge { max: 65536, .. }));
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        let after = memory.usage().budget;
        assert!(after.used <= 1 << 20, "{after:?}");
        // What was stored before is longer than anything that could be now.
        assert_eq!(*db.get("long").unwrap().unwrap(), *long);
        db.compact_range(None, None).unwrap();
        assert_eq!(*db.get("long").unwrap().unwrap(), *long);
        memory.set_limit(32 << 20).unwrap();
        db.put("long", &long[1..]).unwrap();
        assert_eq!(scanned(&db), 3002);
        let usage = memory.usage().budget;
        assert!(usage.peak <= 32 << 20, "{usage:?}");
    }
}

#[test]
fn memtables_come_down_to_a_smaller_budget_without_a_write() {
    let memory = MemoryBudget::bytes(32 << 20);
    let options = small_options(Arc::new(MemFs::new())).memory(memory.clone());
    let options = options.keyspace(KeyspaceOptions::default());
    let db = options.background_threads(1).open(DIR).unwrap();
    (0..2500u32).for_each(|i| db.put(i.to_be_bytes(), [1; 800]).unwrap());
    memory.set_limit(1 << 20).unwrap();
    let started = std::time::Instant::now();
    while memory.usage().budget.used > 1 << 20 {
        assert!(started.elapsed().as_secs() < 30, "{:?}", memory.usage());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn empty_memtables_take_nothing_under_any_budget() {
    for by_writing in [false, true] {
        let memory = MemoryBudget::bytes(64 << 20);
        let options = small_options(Arc::new(MemFs::new())).memory(memory.clone());
        let options = options.keyspace(KeyspaceOptions::default());
        let db = options.background_threads(0).open(DIR).unwrap();
        let other = db
            .create_keyspace("other", KeyspaceOptions::default())
            .unwrap();
        let of_memtables = || memory.usage().budget.by_role[0];
        assert_eq!(of_memtables(), (shamba::Role::Memtable, 0));
        memory.set_limit(shamba::MIN_MEMORY).unwrap();
        if by_writing {
            db.put(b"k", [1; 2000]).unwrap();
            assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&[1; 2000][..]));
            assert_eq!(of_memtables().1, 4096);
        }
        let usage = memory.usage().budget;
        assert!(usage.used <= usage.limit, "{usage:?}");
        other.put(b"k", [2; 2000]).unwrap();
        assert_eq!(other.get(b"k").unwrap().as_deref(), Some(&[2; 2000][..]));
    }
}

#[test]
fn a_filter_policy_changes_what_lookups_read_until_the_database_closes() {
    let fs: Arc<dyn shamba::fs::Fs> = Arc::new(MemFs::new());
    let scarce = Scarce::leaving(64 << 10);
    let open = || {
        let keyspace = KeyspaceOptions::new().filter_policy(shamba::FilterPolicy::All);
        // Nothing stays in memory, so that every lookup reads.
        let options = small_options(fs.clone()).memory(scarce.memory.clone());
        options.keyspace(keyspace).open(DIR).unwrap()
    };
    let filter_reads = |db: &shamba::Db| {
        let before = db.stats().counters.filter_reads;
        for i in (0..4000u32).step_by(7) {
            assert!(db.get((2 * i).to_be_bytes()).unwrap().is_some());
        }
        db.stats().counters.filter_reads - before
    };
    let db = open();
    (0..4000u32).for_each(|i| db.put((2 * i).to_be_bytes(), [1; 100]).unwrap());
    db.compact_range(None, None).unwrap();
    let all = filter_reads(&db);
    let keyspace = db.keyspace("default").unwrap();
    let bad = shamba::FilterPolicy::Elastic {
        initial_units: 0,
        lifetime: 0,
    };
    assert!(keyspace.set_filter_policy(bad).is_err());
    keyspace
        .set_filter_policy(shamba::FilterPolicy::ExpectedReads)
        .unwrap();
    // Lookups that find their key learn that its filter is not worth a read.
    filter_reads(&db);
    let by_worth = filter_reads(&db);
    assert!(by_worth * 4 < all, "{by_worth} of {all}");
    drop(keyspace);
    db.close().unwrap();
    assert!(filter_reads(&open()) * 2 > all);
}

// Waiting.

#[test]
fn slowdowns_come_before_stalls_and_both_are_counted() {
    let device = DeviceModel {
        read: 0,
        parallel: 1,
        read_page: 0,
        write: 3_000_000,
        write_page: 0,
        sync: 3_000_000,
    };
    let slow = MeteredFs::with_device(Arc::new(MemFs::new()), device, Charge::Real);
    let keyspace = small_keyspace()
        .write_buffer(4 << 10)
        .level0_runs(1)
        .level0_slowdown(2)
        .level0_stall(4)
        .target_file(4 << 10);
    let db = small_options(Arc::new(slow))
        .keyspace(keyspace)
        .background_threads(1)
        .open(DIR)
        .unwrap();
    let mut slowdowns_before_stalls = None;
    for i in 0..20_000u32 {
        let mut batch = WriteBatch::new();
        batch.put(i.wrapping_mul(2_654_435_761).to_be_bytes(), [1; 100]);
        db.write_with(batch, WriteOptions::new().durability(Durability::None))
            .unwrap();
        let counters = db.stats().counters;
        if counters.write_stalls > 0 && slowdowns_before_stalls.is_none() {
            slowdowns_before_stalls = Some(counters.write_slowdowns);
        }
        if counters.write_stalls > 2 && counters.write_slowdowns > 0 {
            break;
        }
    }
    let counters = db.stats().counters;
    // 104 bytes and more at 16 MiB/s are 6 us; less than a millisecond of it is not slept yet.
    assert!(
        counters.write_slowdowns > 0
            && counters.write_slowdown_micros + 1000 >= counters.write_slowdowns * 6,
        "{counters:?}"
    );
    assert!(
        counters.write_stalls > 0 && counters.write_stall_micros > 0,
        "{counters:?}"
    );
}

#[test]
fn reads_go_on_while_a_compaction_runs() {
    let device = DeviceModel {
        read: 0,
        parallel: 1,
        read_page: 0,
        write: 1_000_000,
        write_page: 0,
        sync: 1_000_000,
    };
    let slow = MeteredFs::with_device(Arc::new(MemFs::new()), device, Charge::Real);
    let db = small_options(Arc::new(slow))
        .background_threads(1)
        .memory(MemoryBudget::bytes(16 << 20))
        .open(DIR)
        .unwrap();
    for i in 0..3000u32 {
        db.put(i.to_be_bytes(), [1; 50]).unwrap();
    }
    let done = AtomicBool::new(false);
    let mut reads = 0u32;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            db.compact_range(None, None).unwrap();
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            assert!(db.get((reads % 3000).to_be_bytes()).unwrap().is_some());
            reads += 1;
        }
    });
    assert!(
        reads > 3000,
        "only {reads} reads were made during a compaction"
    );
}

// Filters and counts.

/// A tree of several runs under a memory that caches little, read through a meter.
fn metered(filter: FilterOptions, hash_sharing: bool) -> (Db, MeteredFs) {
    metered_with(filter, FilterPolicy::default(), hash_sharing)
}

fn metered_with(
    filter: FilterOptions,
    filter_policy: FilterPolicy,
    hash_sharing: bool,
) -> (Db, MeteredFs) {
    let meter = MeteredFs::new(Arc::new(MemFs::new()));
    let keyspace = small_keyspace()
        .merge_policy(MergePolicy::Tiering)
        .size_ratio(4)
        .filter(filter)
        .filter_policy(filter_policy);
    let db = small_options(Arc::new(meter.clone()))
        .memory(MemoryBudget::bytes(shamba::MIN_MEMORY))
        .keyspace(keyspace)
        .hash_sharing(hash_sharing)
        .open(DIR)
        .unwrap();
    let mut rng = Rng::new(11);
    for _ in 0..20_000 {
        // Even keys exist.
        let key = rng.below(1 << 30) * 2;
        db.put(key.to_be_bytes(), [1; 200]).unwrap();
    }
    db.flush().unwrap();
    let runs: usize = default_statistics(&db)
        .levels
        .iter()
        .map(|level| level.runs)
        .sum();
    assert!(runs >= 3, "only {runs} runs");
    (db, meter)
}

fn look_up_absent(db: &Db, lookups: u64) {
    let mut rng = Rng::new(12);
    for _ in 0..lookups {
        let key = rng.below(1 << 30) * 2 + 1;
        assert!(db.get(key.to_be_bytes()).unwrap().is_none());
    }
}

#[test]
fn filters_save_reads_for_absent_keys() {
    for family in [
        FilterFamily::Bloom,
        FilterFamily::BlockedBloom,
        FilterFamily::Ribbon,
    ] {
        for partitioned in [true, false] {
            let data_reads = |bits_per_key| {
                let (db, meter) = metered_with(
                    FilterOptions::new()
                        .family(family)
                        .bits_per_key(bits_per_key)
                        .partitioned(partitioned),
                    FilterPolicy::All,
                    true,
                );
                let before = meter.counts();
                look_up_absent(&db, 2000);
                let counts = meter.counts() - before;
                let counters = db.stats().counters;
                if bits_per_key > 0.0 {
                    assert!(counters.filter_negatives > 0);
                    let rate = counters.false_positives as f64 / counters.tables_probed as f64;
                    // The theory has 0.15 at 4 bits and 0.001 at 14; blocks of a cache line are
                    // worse.
                    let most = if bits_per_key < 10.0 { 0.25 } else { 0.01 };
                    assert!(
                        rate < most,
                        "{family:?}: {rate} false positives a table at {bits_per_key} bits"
                    );
                } else {
                    assert_eq!(counters.filter_negatives, 0);
                }
                counts.reads(BlockKind::Data, Purpose::Lookup).reads as f64 / 2000.0
            };
            let (without, few, many) = (data_reads(0.0), data_reads(4.0), data_reads(14.0));
            assert!(
                without > 1.0,
                "{without} data reads a lookup without filters"
            );
            assert!(
                few < without / 2.0 && many < few / 2.0,
                "{family:?} partitioned {partitioned}: {without} {few} {many}"
            );
            assert!(
                many < 0.1,
                "{family:?} partitioned {partitioned}: {many} data reads a lookup at 14 bits"
            );
        }
    }
}

#[test]
fn a_lookup_hashes_its_key_once_with_hash_sharing_and_once_a_table_without() {
    let filter = || FilterOptions::new().bits_per_key(10.0);
    let (shared, _) = metered(filter(), true);
    look_up_absent(&shared, 1000);
    let counters = shared.stats().counters;
    assert_eq!(
        (counters.lookups, counters.keys_hashed),
        (1000, 1000),
        "{counters:?}"
    );
    assert!(counters.tables_probed > 2000);
    let (each, _) = metered(filter(), false);
    look_up_absent(&each, 1000);
    let counters = each.stats().counters;
    // And once for the cache's entries, while memory is short.
    let hashed = counters.tables_probed + counters.entry_misses;
    assert_eq!(counters.keys_hashed, hashed, "{counters:?}");
}

#[test]
fn counters_of_reads_agree_with_what_storage_saw() {
    for partitioned in [true, false] {
        let (db, meter) = metered(FilterOptions::new().partitioned(partitioned), true);
        let before = (meter.counts(), db.stats().counters);
        let mut rng = Rng::new(13);
        for _ in 0..3000 {
            db.get(rng.below(1 << 30).to_be_bytes()).unwrap();
        }
        let storage = meter.counts() - before.0;
        let after = db.stats().counters;
        let seen = |kind| storage.reads(kind, Purpose::Lookup);
        let counted = [
            (
                after.data_reads - before.1.data_reads,
                after.data_pages - before.1.data_pages,
            ),
            (
                after.index_reads - before.1.index_reads,
                after.index_pages - before.1.index_pages,
            ),
            (
                after.filter_reads - before.1.filter_reads,
                after.filter_pages - before.1.filter_pages,
            ),
        ];
        let filters = (0..16).map(|module| seen(BlockKind::Filter(module)));
        let filters = filters.fold((0, 0), |sum, seen| (sum.0 + seen.reads, sum.1 + seen.pages));
        let of = |kind| (seen(kind).reads, seen(kind).pages);
        assert_eq!(
            [of(BlockKind::Data), of(BlockKind::Index), filters],
            counted,
            "partitioned {partitioned}"
        );
        assert!(
            filters.0 > 0,
            "everything was cached: the test shows nothing"
        );
        assert!(after.cache_hits > before.1.cache_hits);
    }
}

#[test]
fn statistics_describe_the_tree() {
    let db = small_options(Arc::new(MemFs::new())).open(DIR).unwrap();
    (0..3000u32).for_each(|i| {
        db.put(i.wrapping_mul(2_654_435_761).to_be_bytes(), [1; 50])
            .unwrap()
    });
    db.compact_range(None, None).unwrap();
    let stats = db.stats();
    assert_eq!(stats.counters.entries_written, 3000);
    assert_eq!(stats.counters.user_bytes_written, 3000 * 54);
    let levels = &stats.keyspaces[0].levels;
    assert_eq!(levels.iter().map(|level| level.entries).sum::<u64>(), 3000);
    assert_eq!(levels.iter().map(|level| level.runs).sum::<usize>(), 1);
    let bottom = levels.iter().find(|level| level.entries > 0).unwrap();
    assert!((9.0..16.0).contains(&bottom.bits_per_key), "{bottom:?}");
    assert!(bottom.bytes > 3000 * 54);
    let verified = db.verify().unwrap();
    assert!(verified.is_sound(), "{verified:?}");
    assert_eq!(
        (verified.entries, verified.tables),
        (3000, bottom.files as u64)
    );
    assert_eq!(db.approximate_size(&[], &[u8::MAX; 5]), bottom.bytes);
    let half = db.approximate_size(&[], &(u32::MAX / 2).to_be_bytes());
    assert!(
        (bottom.bytes / 3..bottom.bytes * 2 / 3).contains(&half),
        "{half} of {}",
        bottom.bytes
    );
    assert!(
        serde_json::to_string(&stats)
            .unwrap()
            .contains("\"entries\":3000")
    );
}

// Threads.

#[test]
fn threads_see_whole_batches_and_their_own_writes() {
    let fs = MemFs::new();
    let options = small_options(Arc::new(fs))
        .background_threads(2)
        .memory(MemoryBudget::bytes(2 << 20));
    let db = options.open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Writers: each sets its pair of keys, one in each keyspace, to the same number.
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                let (db, other) = (&db, &other);
                scope.spawn(move || {
                    for number in 0..3000u64 {
                        let key = ((writer << 32) | (number % 100)).to_be_bytes();
                        let mut batch = WriteBatch::new();
                        batch.put(key, number.to_be_bytes());
                        batch.put_in(other, key, number.to_be_bytes());
                        db.write(batch).unwrap();
                        assert_eq!(*db.get(key).unwrap().unwrap(), number.to_be_bytes());
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let (db, other, stop) = (&db, &other, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(1);
                let mut last = [0u64; 300];
                while !stop.load(Ordering::SeqCst) {
                    let snapshot = db.snapshot();
                    let first = snapshot.iter();
                    let second = snapshot.iter_in(other, IterOptions::default());
                    let pairs = first
                        .map(|pair| pair.unwrap())
                        .zip(second.map(|pair| pair.unwrap()));
                    assert!(
                        pairs.into_iter().all(|(first, second)| first == second),
                        "half a batch was seen"
                    );
                    // Numbers of a key only grow.
                    for _ in 0..100 {
                        let id = rng.below(300);
                        let key = (((id / 100) << 32) | (id % 100)).to_be_bytes();
                        let number = db
                            .get(key)
                            .unwrap()
                            .map_or(0, |value| u64::from_be_bytes((*value).try_into().unwrap()));
                        assert!(number >= last[id as usize], "an older value came back");
                        last[id as usize] = number;
                    }
                }
            });
        }
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(scanned(&db), 300);
    db.wait_for_compaction().unwrap();
    let memory = db.stats().memory.budget;
    assert_eq!(memory.overdraft, 0, "{memory:?}");
    db.verify().unwrap().check().unwrap();
}

/// Stops whoever first makes a table from now on. Gives where that is told, and where to let it go.
fn gate(faults: &Faults) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (reached, at_gate) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    let once = Mutex::new(Some((reached, opened)));
    faults.set_hook(Some(Arc::new(move |op, path: &Path| {
        if op == Op::Create && path.extension().is_some_and(|ext| ext == "sst") {
            let taken = once.lock().unwrap().take();
            if let Some((reached, opened)) = taken {
                reached.send(()).unwrap();
                opened.recv().unwrap();
            }
        }
    })));
    (at_gate, open)
}

/// Long enough for a call that does not wait for the gate to return.
const A_WHILE: Duration = Duration::from_millis(100);

#[test]
fn closing_waits_for_a_compaction_on_a_callers_thread() {
    let fs = MemFs::new();
    let faults = Faults::new();
    let faulty = FaultFs::new(Arc::new(fs.clone()), faults.clone());
    let db = small_options(Arc::new(faulty)).open(DIR).unwrap();
    (0..500u32).for_each(|i| db.put(i.to_be_bytes(), [1; 100]).unwrap());
    db.wait_for_compaction().unwrap();
    // Lies in the middle of the others, so that they have to be merged.
    db.put(250u32.to_be_bytes(), [2; 100]).unwrap();
    db.flush().unwrap();
    let (at_gate, open) = gate(&faults);
    let events = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| db.compact_range(None, None));
        at_gate.recv().unwrap();
        let closing = scope.spawn(|| {
            db.clone().close().unwrap();
            events.lock().unwrap().push("closed");
        });
        while !matches!(db.get(b"x"), Err(Error::Closed)) {
            std::thread::yield_now();
        }
        std::thread::sleep(A_WHILE);
        events.lock().unwrap().push("let go");
        open.send(()).unwrap();
        let compacted = compacting.join().unwrap();
        assert!(
            matches!(compacted, Ok(()) | Err(Error::Closed)),
            "{compacted:?}"
        );
        closing.join().unwrap();
    });
    assert_eq!(*events.lock().unwrap(), ["let go", "closed"]);
    let db = small_options(Arc::new(fs)).open(DIR).unwrap();
    assert_eq!(contents(&db.default_keyspace()).unwrap().len(), 500);
    db.verify().unwrap().check().unwrap();
}

#[test]
fn without_threads_a_flush_or_checkpoint_waits_for_the_flush_of_another_caller() {
    type Call = fn(&Db) -> shamba::Result<()>;
    let calls: [(&str, Call); 2] = [
        ("flush", Db::flush),
        ("checkpoint", |db| db.checkpoint("/copy")),
    ];
    for (name, call) in calls {
        let fs = MemFs::new();
        let faults = Faults::new();
        let faulty = FaultFs::new(Arc::new(fs.clone()), faults.clone());
        let db = small_options(Arc::new(faulty)).open(DIR).unwrap();
        let (at_gate, open) = gate(&faults);
        let events = Mutex::new(Vec::new());
        let put = AtomicU32::new(0);
        std::thread::scope(|scope| {
            // Writers flush themselves; this one is stopped in the middle.
            scope.spawn(|| {
                for i in 0..300u32 {
                    put.store(i, Ordering::SeqCst);
                    db.put(i.to_be_bytes(), [1; 100]).unwrap();
                }
            });
            at_gate.recv().unwrap();
            let before = put.load(Ordering::SeqCst);
            let calling = scope.spawn(|| {
                call(&db).unwrap();
                events.lock().unwrap().push("done");
            });
            std::thread::sleep(A_WHILE);
            events.lock().unwrap().push("let go");
            open.send(()).unwrap();
            calling.join().unwrap();
            assert!(before > 0);
            if name == "checkpoint" {
                let copy = small_options(Arc::new(fs.clone())).open("/copy").unwrap();
                for i in 0..before {
                    assert!(copy.get(i.to_be_bytes()).unwrap().is_some(), "{i}");
                }
            }
        });
        assert_eq!(*events.lock().unwrap(), ["let go", "done"], "{name}");
        assert_eq!(contents(&db.default_keyspace()).unwrap().len(), 300);
        db.verify().unwrap().check().unwrap();
    }
}

#[test]
fn a_database_closes_at_any_time_without_waiting_long() {
    for round in 0..10u64 {
        let fs = MemFs::new();
        let db = small_options(Arc::new(fs.clone()))
            .background_threads(2)
            .open(DIR)
            .unwrap();
        let mut rng = Rng::new(round);
        for i in 0..rng.between(100, 5000) {
            db.put(i.wrapping_mul(0x9e37_79b9).to_be_bytes(), [1; 60])
                .unwrap();
        }
        let written = db.stats().counters.entries_written;
        let started = std::time::Instant::now();
        if round % 2 == 0 {
            db.close().unwrap();
        } else {
            drop(db);
        }
        assert!(started.elapsed() < Duration::from_secs(10));
        let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
        assert_eq!(
            contents(&db.default_keyspace()).unwrap().len() as u64,
            written
        );
        let logs = files_ending(&fs, Path::new(DIR), ".wal");
        assert!(
            logs.is_empty(),
            "a clean close leaves nothing to replay: {logs:?}"
        );
    }
}

fn assert_shareable<T: Send + Sync + Clone>() {}

#[test]
fn handles_can_be_shared() {
    assert_shareable::<Db>();
    assert_shareable::<shamba::Keyspace>();
    assert_shareable::<shamba::Snapshot>();
    assert_shareable::<shamba::Value>();
    assert_shareable::<MemoryBudget>();
}
