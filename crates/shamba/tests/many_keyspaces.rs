//! Many keyspaces under one budget: their memtables stay within their share together, a write looks
//! at its own keyspace only, and keyspaces that are written at once do not become many small
//! tables. Bytes, allocations and flushes are counted, nothing is timed.

#[path = "common/allocations.rs"]
mod counting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};
use shamba::{Db, Keyspace, KeyspaceOptions, MemoryBudget, Options, Role};

const MIB: u64 = 1 << 20;

fn open(memory: &MemoryBudget, threads: usize) -> Db {
    Options::new()
        .fs(Arc::new(MemFs::new()))
        .memory(memory.clone())
        .background_threads(threads)
        .open("/db")
        .unwrap()
}

fn keyspaces(db: &Db, count: usize) -> Vec<Keyspace> {
    let create = |i| {
        db.create_keyspace(&format!("keyspace {i}"), KeyspaceOptions::default())
            .unwrap()
    };
    (0..count).map(create).collect()
}

/// What memtables are charged under a budget.
fn memtables(memory: &MemoryBudget) -> u64 {
    let roles = memory.usage().budget.by_role;
    let (_, bytes) = roles.iter().find(|(of, _)| *of == Role::Memtable).unwrap();
    *bytes
}

/// Writes to random keyspaces, and checks at every so many puts what memtables are charged.
fn fill(limit: u64, count: usize, threads: usize, seed: u64) {
    let memory = MemoryBudget::bytes(limit);
    let db = open(&memory, threads);
    let all = keyspaces(&db, count);
    assert_eq!(memtables(&memory), 0, "empty keyspaces take nothing");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut most = 0;
    let mut written = 0;
    for put in 0..20_000u64 {
        let keyspace = &all[random.next_u64() as usize % count];
        let len = match random.next_u64() % 50 {
            0 => random.next_u64() % (limit / 256),
            _ => random.next_u64() % 200,
        };
        keyspace
            .put(
                random.next_u64().to_be_bytes(),
                vec![put as u8; len as usize],
            )
            .unwrap();
        written += len;
        if put % 16 == 0 {
            most = most.max(memtables(&memory));
        }
    }
    let memory = memory.usage().budget;
    let of =
        format!("{count} keyspaces, {limit} bytes, {threads} threads, seed {seed}: {memory:?}");
    assert!(written > limit / 2, "more than memtables may take: {of}");
    // Of what is left beside what is known of keyspaces and tables.
    let known = memory.by_role.iter().find(|(of, _)| *of == Role::Files);
    let left = limit - known.unwrap().1;
    assert!(most > left / 4, "memory is used: {most} of {of}");
    assert!(most <= limit / 2, "{most} by memtables of {of}");
    assert_eq!(memory.overdraft, 0, "{of}");
}

#[test]
fn memtables_of_200_and_500_keyspaces_stay_within_their_share() {
    for (i, threads) in [0, 2].into_iter().enumerate() {
        let seed = 0x5eed + i as u64;
        fill(2 * MIB, 200, threads, seed);
        fill(8 * MIB, 200, threads, seed + 10);
        fill(4 * MIB, 500, threads, seed + 20);
    }
}

#[test]
fn databases_under_one_budget_share_what_memtables_may_take() {
    let memory = MemoryBudget::bytes(4 * MIB);
    let (idle, busy) = (open(&memory, 0), open(&memory, 0));
    let all = keyspaces(&idle, 16);
    // One database has taken what it may before the other is written to.
    for put in 0..40_000u64 {
        all[put as usize % 16]
            .put(put.to_be_bytes(), [1; 100])
            .unwrap();
    }
    for put in 0..40_000u64 {
        busy.put(put.to_be_bytes(), [2; 100]).unwrap();
        if put % 16 == 0 {
            let taken = memtables(&memory);
            // What a database needs at least, it gets.
            assert!(taken <= 2 * MIB + 2 * MIB / 8, "{taken}");
        }
    }
    assert_eq!(memory.usage().budget.overdraft, 0);
    let flushes = busy.stats().counters.flushes;
    assert!(flushes < 50, "{flushes} flushes of 5 MB");
}

/// Allocations of each of some puts, among so many keyspaces.
fn allocations_per_put(count: usize) -> f64 {
    const PUTS: u64 = 2_000;
    let db = open(&MemoryBudget::bytes(64 * MIB), 0);
    let all = keyspaces(&db, count);
    let before = counting::allocations();
    for put in 0..PUTS {
        let place = put.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        all[place as usize % count]
            .put(put.to_be_bytes(), [7; 100])
            .unwrap();
    }
    (counting::allocations() - before) as f64 / PUTS as f64
}

#[test]
fn a_put_looks_at_its_own_keyspace_only() {
    let (one, many) = (allocations_per_put(1), allocations_per_put(1_000));
    // Beyond the batch, the first put of each keyspace makes its memtable.
    assert!(
        many <= one + 1.0,
        "{one} allocations a put of one keyspace, {many} of 1,000"
    );
}

/// Allocations for so many records of a log that are replayed among so many keyspaces.
fn allocations_of_a_replay(keyspaces: usize, records: u64) -> u64 {
    let fs = MemFs::new();
    let open = |fs: &MemFs| {
        Options::new()
            .fs(Arc::new(fs.clone()))
            .memory(MemoryBudget::bytes(64 * MIB))
            .background_threads(0)
            .open("/db")
            .unwrap()
    };
    let db = open(&fs);
    let all = self::keyspaces(&db, keyspaces);
    // Whatever is done once for each keyspace that has anything is done.
    for keyspace in &all {
        keyspace.put("key", "value").unwrap();
    }
    for put in 0..records {
        db.put(put.to_be_bytes(), [7; 20]).unwrap();
    }
    let killed = fs.kill_clone();
    let before = counting::allocations();
    let db = open(&killed);
    let allocations = counting::allocations() - before;
    assert_eq!(db.stats().counters.flushes, 0);
    assert!(db.get((records - 1).to_be_bytes()).unwrap().is_some());
    allocations
}

/// Fails where the map of keyspaces, or their names, are copied for each record.
#[test]
fn a_record_that_is_replayed_costs_no_more_among_many_keyspaces() {
    const RECORDS: u64 = 2_000;
    for keyspaces in [200, 1] {
        let [few, many] = [1, 2].map(|times| allocations_of_a_replay(keyspaces, times * RECORDS));
        let each = (many.saturating_sub(few)) as f64 / RECORDS as f64;
        println!("{keyspaces} keyspaces: {each} allocations for each record more");
        assert!(
            each < 0.1,
            "{each} allocations a record of {keyspaces} keyspaces"
        );
    }
}

/// What the puts of a hundred bytes cost, written to so many keyspaces in turn.
#[derive(Debug)]
struct Cost {
    allocations: f64,
    allocated: f64,
    written: f64,
    read: f64,
}

fn cost_of_a_put(limit: u64, count: usize) -> Cost {
    const PUTS: u64 = 300_000;
    let db = open(&MemoryBudget::bytes(limit), 0);
    let all = keyspaces(&db, count);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(32);
    let before = (counting::allocations(), counting::allocated());
    for put in 0..PUTS as usize {
        all[put % count]
            .put(random.next_u64().to_be_bytes(), [3; 100])
            .unwrap();
    }
    let each = |count: u64| count as f64 / PUTS as f64;
    let counters = db.stats().counters;
    let cost = Cost {
        allocations: each(counting::allocations() - before.0),
        allocated: each(counting::allocated() - before.1),
        written: each(counters.flush_bytes + counters.compaction_bytes_written),
        read: each(counters.compaction_bytes_read),
    };
    println!("{limit} bytes, {count} keyspaces: {cost:.2?}");
    cost
}

/// Sixteen keyspaces written at once keep 70 % of one keyspace's rate, by what a put costs with all
/// flushes and merges: memory taken, and bytes read and written. Fails where a put looks at all
/// keyspaces, replaces memtables that hold nothing, or makes many small tables, which are merged
/// again and again.
#[test]
fn a_put_to_one_of_sixteen_keyspaces_costs_as_one_to_a_single_keyspace() {
    for limit in [32 * MIB, 4 * MIB] {
        let (one, sixteen) = (cost_of_a_put(limit, 1), cost_of_a_put(limit, 16));
        let costs: [fn(&Cost) -> f64; 4] = [
            |cost| cost.allocations,
            |cost| cost.allocated,
            |cost| cost.written,
            |cost| cost.read,
        ];
        for cost in costs {
            assert!(
                cost(&sixteen) * 0.7 <= cost(&one),
                "{limit} bytes: {one:.2?} of one keyspace, {sixteen:.2?} of sixteen"
            );
        }
    }
}

/// What flushes and compactions did with as many bytes, written to so many keyspaces in turn.
struct Work {
    flushes: u64,
    flushed: u64,
    compacted: u64,
}

fn write_in_turn(count: usize) -> Work {
    let memory = MemoryBudget::bytes(4 * MIB);
    let db = open(&memory, 0);
    let all = keyspaces(&db, count);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(16);
    for put in 0..200_000usize {
        all[put % count]
            .put(random.next_u64().to_be_bytes(), [3; 100])
            .unwrap();
    }
    let stats = db.stats();
    assert_eq!(memory.usage().budget.overdraft, 0);
    Work {
        flushes: stats.counters.flushes,
        flushed: stats.counters.flush_bytes,
        compacted: stats.counters.compaction_bytes_written,
    }
}

#[test]
fn sixteen_keyspaces_written_at_once_are_flushed_in_large_pieces() {
    let (one, sixteen) = (write_in_turn(1), write_in_turn(16));
    let amplification = |work: &Work| (work.flushed + work.compacted) as f64 / work.flushed as f64;
    println!(
        "one: {} flushes, amplification {:.2}; sixteen: {}, {:.2}",
        one.flushes,
        amplification(&one),
        sixteen.flushes,
        amplification(&sixteen)
    );
    // One keyspace's memtable is an eighth of the budget; of sixteen each has a twentieth when it
    // is flushed, the largest of three eighths of the budget together.
    assert!(
        sixteen.flushes <= one.flushes * 4,
        "{} and {}",
        one.flushes,
        sixteen.flushes
    );
    assert!(amplification(&sixteen) <= amplification(&one) * 1.1);
}

/// With few entries in each of many keyspaces, what a flush costs beside its table is shared.
#[test]
fn small_memtables_are_flushed_together() {
    const COUNT: usize = 300;
    let (fs, faults) = (MemFs::new(), Faults::new());
    let open = || {
        Options::new()
            .fs(Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone())))
            .memory(MemoryBudget::bytes(64 * MIB))
            .background_threads(0)
            .open("/db")
            .unwrap()
    };
    let counts = Arc::new([const { AtomicU64::new(0) }; 3]);
    let counting = counts.clone();
    faults.set_hook(Some(Arc::new(move |op, path| {
        let name = path.to_string_lossy();
        let which = match op {
            Op::SyncDir => 0,
            Op::Sync if name.contains("MANIFEST") => 1,
            Op::Sync if name.ends_with(".sst") => 2,
            _ => return,
        };
        counting[which].fetch_add(1, Ordering::Relaxed);
    })));
    let taken = || {
        counts
            .each_ref()
            .map(|count| count.swap(0, Ordering::Relaxed))
    };
    let db = open();
    let all = keyspaces(&db, COUNT);
    let fill = |value: u8| {
        for (i, keyspace) in all.iter().enumerate() {
            keyspace.put(i.to_be_bytes(), [value; 100]).unwrap();
        }
    };
    let check = |what: &str| {
        let [folder, manifest, tables] = taken();
        println!(
            "{what}: {folder} syncs of the folder, {manifest} of the manifest, {tables} tables"
        );
        assert_eq!(tables, COUNT as u64, "{what}");
        assert!(folder <= 12 && manifest <= 12, "{what}");
    };
    fill(1);
    taken();
    db.flush().unwrap();
    check("flush");
    fill(2);
    taken();
    drop(all);
    db.close().unwrap();
    check("close");
    let db = open();
    for i in 0..COUNT {
        let keyspace = db.keyspace(&format!("keyspace {i}")).unwrap();
        let found = keyspace.get(i.to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(&[2; 100][..]));
    }
}

/// The tables of several keyspaces are synced together: where one cannot be, none of them is left,
/// and the next flush writes all of them.
#[test]
fn a_sync_that_fails_among_several_leaves_no_table() {
    const COUNT: usize = 12;
    let (fs, faults) = (MemFs::new(), Faults::new());
    let open = |fs: Arc<dyn Fs>| {
        Options::new()
            .fs(fs)
            .memory(MemoryBudget::bytes(64 * MIB))
            .background_threads(0)
            .open("/db")
            .unwrap()
    };
    let db = open(Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone())));
    let all = keyspaces(&db, COUNT);
    let tables = || {
        let files = fs.list("/db".as_ref()).unwrap();
        files
            .iter()
            .filter(|file| file.name.ends_with(".sst"))
            .count()
    };
    for keyspace in &all {
        keyspace.put("key", "value").unwrap();
    }
    for (round, after) in [0, 5, COUNT as u64 - 1].into_iter().enumerate() {
        let fault = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(Op::Sync);
        faults.add(fault.path_ending(".sst").after(after));
        db.flush().unwrap_err();
        assert_eq!((faults.fired(), tables()), (round as u64 + 1, 0), "{after}");
        faults.clear();
    }
    db.flush().unwrap();
    assert_eq!(tables(), COUNT);
    let db = open(Arc::new(fs.crash_clone(7)));
    for i in 0..COUNT {
        let keyspace = db.keyspace(&format!("keyspace {i}")).unwrap();
        assert_eq!(keyspace.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}
