//! What is held for a moment only is charged at that moment: records that are replayed, a copy's
//! buffer, what a batch of lookups keeps of its keys. Budgets that are never overdrawn do not show
//! a charge that is missing, so each test looks at a role's account in the middle of the work.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{small_keyspace, small_options};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, MemFs, Op};
use shamba::{
    Clock, Db, Error, FilterPolicy, MemoryBudget, Options, Role, WriteBatch, WriteOptions,
};

const DIR: &str = "/db";

/// What a role is charged.
fn charged(memory: &MemoryBudget, role: Role) -> u64 {
    let roles = memory.usage().budget.by_role;
    roles.iter().find(|(of, _)| *of == role).unwrap().1
}

/// The most that a role is charged while operations of a kind begin on files that end so, in
/// `work`.
fn peak(
    (memory, role): (&MemoryBudget, Role),
    (faults, op, ending): (&Faults, Op, &'static str),
    work: impl FnOnce(),
) -> u64 {
    let (most, looks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (of, seen, account) = (most.clone(), looks.clone(), memory.clone());
    faults.set_hook(Some(Arc::new(move |what, path: &Path| {
        if what == op && path.to_string_lossy().ends_with(ending) {
            of.fetch_max(charged(&account, role), Relaxed);
            seen.fetch_add(1, Relaxed);
        }
    })));
    work();
    faults.set_hook(None);
    assert!(looks.load(Relaxed) > 0, "no {op:?} of {ending}");
    most.load(Relaxed)
}

fn faulty(fs: &MemFs) -> (Arc<FaultFs>, Faults) {
    let faults = Faults::new();
    let fs = FaultFs::new(Arc::new(fs.clone()), faults.clone());
    (Arc::new(fs), faults)
}

/// What logs are charged when the part after a first record of so many bytes is read.
fn charged_for_replaying(first: usize) -> u64 {
    let fs = MemFs::new();
    let options = |fs: Arc<dyn shamba::fs::Fs>, memory: &MemoryBudget| {
        let options = Options::new().fs(fs).background_threads(0);
        options.memory(memory.clone())
    };
    let memory = MemoryBudget::bytes(16 << 20);
    let db = options(Arc::new(fs.clone()), &memory).open(DIR).unwrap();
    db.put("first", vec![1; first]).unwrap();
    // More than is read of a log at a time.
    for number in 0..2_000u32 {
        db.put(number.to_be_bytes(), [2; 100]).unwrap();
    }
    let killed = fs.kill_clone();
    drop(db);
    let (fs, faults) = faulty(&killed);
    let memory = MemoryBudget::bytes(16 << 20);
    peak((&memory, Role::Wal), (&faults, Op::Read, ".wal"), || {
        let db = options(fs, &memory).open(DIR).unwrap();
        assert_eq!(db.get("first").unwrap().unwrap().len(), first);
    })
}

#[test]
fn the_record_that_is_replayed_is_charged() {
    let (small, large) = (charged_for_replaying(100), charged_for_replaying(700_000));
    assert!(
        small < 700_000 && large >= 700_000,
        "{small} with a small record, {large} with a large one"
    );
}

#[test]
fn the_buffer_that_a_checkpoint_copies_with_is_charged() {
    const BUFFER: u64 = 256 << 10;
    let fs = MemFs::new();
    let (faulty, faults) = faulty(&fs);
    let memory = MemoryBudget::bytes(8 << 20);
    let options = small_options(faulty).memory(memory.clone());
    let db = options.open(DIR).unwrap();
    for number in 0..1000u32 {
        db.put(number.to_be_bytes(), [1; 60]).unwrap();
    }
    db.flush().unwrap();
    let idle = charged(&memory, Role::IoBuffers);
    let links = Fault::new(Effect::Fail(FaultError::Os(18))).on(Op::Link);
    faults.add(links.forever());
    let copying = peak(
        (&memory, Role::IoBuffers),
        (&faults, Op::Append, ".sst"),
        || db.checkpoint("/copy").unwrap(),
    );
    assert!(faults.fired() > 0, "nothing was copied");
    assert!(copying >= idle + BUFFER, "{idle} idle, {copying} copying");
    assert_eq!(charged(&memory, Role::IoBuffers), idle, "and given back");
}

/// What iterators and lookups are charged while so many keys, none of which is in memory, are
/// looked up.
fn charged_for_looking_up(db: &Db, memory: &MemoryBudget, faults: &Faults, keys: u32) -> u64 {
    let keys: Vec<_> = (0..keys).map(|key| (key * 40).to_be_bytes()).collect();
    peak(
        (memory, Role::Iterators),
        (faults, Op::Read, ".sst"),
        || assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_some)),
    )
}

#[test]
fn what_a_batch_of_lookups_keeps_of_its_keys_is_charged() {
    const KEYS: u32 = 200;
    /// The state of a lookup that waits for a block is no smaller.
    const EACH: u64 = 512;
    let fs = MemFs::new();
    let options = |fs: Arc<dyn shamba::fs::Fs>, memory: &MemoryBudget| {
        let keyspace = small_keyspace().filter_policy(FilterPolicy::All);
        let options = small_options(fs).keyspace(keyspace);
        options.memory(memory.clone())
    };
    let memory = MemoryBudget::bytes(16 << 20);
    let db = options(Arc::new(fs.clone()), &memory).open(DIR).unwrap();
    for number in 0..40 * KEYS {
        db.put(number.to_be_bytes(), [1; 60]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let of = |keys| {
        let (fs, faults) = faulty(&fs);
        let memory = MemoryBudget::bytes(16 << 20);
        let db = options(fs, &memory).open(DIR).unwrap();
        let most = charged_for_looking_up(&db, &memory, &faults, keys);
        assert_eq!(charged(&memory, Role::Iterators), 0, "and given back");
        most
    };
    let (one, many) = (of(1), of(KEYS));
    assert!(
        many >= one + EACH * u64::from(KEYS - 1),
        "{one} for a key, {many} for {KEYS}"
    );
}

/// Threads that all put one large value of the caller's copy it a few at a time, and each copy is
/// charged.
#[test]
fn large_entries_on_their_way_are_charged_and_few() {
    const LARGEST: usize = 1 << 20;
    let fs = MemFs::new();
    let (faulty, faults) = faulty(&fs);
    let memory = MemoryBudget::bytes(16 << 20);
    let options = Options::new().fs(faulty).memory(memory.clone());
    let options = options.merge_operator("default", shamba::Append);
    let db = options.open(DIR).unwrap();
    let value = vec![7; LARGEST];
    let idle = charged(&memory, Role::Wal);
    let on_their_way = peak((&memory, Role::Wal), (&faults, Op::Append, ".wal"), || {
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let (db, value) = (&db, &value);
                scope.spawn(move || {
                    for number in 0..4 {
                        let key = (thread << 8 | number).to_be_bytes();
                        db.put(key, value).unwrap();
                    }
                });
            }
        });
    });
    // One that fills the share is alone on its way.
    let one = LARGEST as u64;
    assert!(
        (idle + one..idle + 2 * one).contains(&on_their_way),
        "{on_their_way}, {idle} idle"
    );
    assert_eq!(memory.usage().budget.overdraft, 0);
    for thread in 0..8u32 {
        for number in 0..4 {
            let key = (thread << 8 | number).to_be_bytes();
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        }
    }
    // What is too large is refused without waiting or a copy.
    let error = db.transaction().merge("key", vec![7; 2 * LARGEST]);
    let error = error.unwrap_err();
    assert!(
        matches!(error, shamba::Error::ValueTooLarge { .. }),
        "{error}"
    );
}

/// A clock that notes what the log is charged, and how often it is asked.
#[derive(Debug)]
struct ChargeClock {
    memory: MemoryBudget,
    charged: AtomicU64,
    asked: AtomicU64,
}

impl Clock for ChargeClock {
    fn now(&self) -> SystemTime {
        let charged = charged(&self.memory, Role::Wal);
        self.charged.fetch_max(charged, Relaxed);
        self.asked.fetch_add(1, Relaxed);
        UNIX_EPOCH
    }
}

/// The caller's batch is there beside it until it is made.
#[test]
fn the_copy_of_a_batch_that_gets_a_time_to_live_is_charged() {
    let memory = MemoryBudget::bytes(16 << 20);
    let clock = Arc::new(ChargeClock {
        memory: memory.clone(),
        charged: AtomicU64::new(0),
        asked: AtomicU64::new(0),
    });
    let options = Options::new()
        .fs(Arc::new(MemFs::new()))
        .clock(clock.clone());
    let options = options.memory(memory.clone()).background_threads(0);
    let db = options.open(DIR).unwrap();
    let (mut batch, mut larger) = (WriteBatch::new(), WriteBatch::new());
    for number in 0..2_000u32 {
        batch.put(number.to_be_bytes(), [7; 1000]);
    }
    for number in 0..8_000u32 {
        larger.put(number.to_be_bytes(), [7; 1000]);
    }
    db.put("first", "v").unwrap();
    let idle = charged(&memory, Role::Wal);
    let for_a_minute = WriteOptions::new().ttl(Duration::from_secs(60));
    db.write_with(batch, for_a_minute).unwrap();
    let copied = clock.charged.load(Relaxed) - idle;
    assert!((2_000_000..2_500_000).contains(&copied), "{copied}");
    assert_eq!(charged(&memory, Role::Wal), idle);
    assert_eq!(db.len().unwrap(), 2_001);
    // What is too large is not copied.
    let asked = clock.asked.load(Relaxed);
    let refused = db.write_with(larger, for_a_minute).unwrap_err();
    assert!(matches!(refused, Error::BatchTooLarge { .. }), "{refused}");
    assert_eq!(clock.asked.load(Relaxed), asked);
}
