//! What the budget is charged for open tables and cached blocks is what they take: of the
//! allocator, and of the memory that the engine maps itself.
#![cfg(target_os = "linux")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shamba::{Append, Db, KeyspaceOptions, MemoryBudget, Options, Transaction};

/// Bytes that the allocator has given and not got back.
static LIVE: AtomicU64 = AtomicU64::new(0);

/// What an allocation takes of a heap: glibc's chunks have a header of a word, are multiples of
/// two, and are no less than four.
fn chunk(layout: Layout) -> u64 {
    let bytes = layout.size() as u64 + 8;
    bytes.next_multiple_of(16).max(32)
}

/// The system's allocator, counting.
struct Counting;

// SAFETY: everything is handed on to the system's allocator; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait demands of the caller.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(chunk(layout), Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait demands of the caller.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(chunk(layout), Relaxed);
        // SAFETY: the caller's promises are the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEYS: u64 = 200_000;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Resident bytes of the mappings that are kept from having huge pages, as only the engine's own
/// are.
fn mapped() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut all, mut resident) = (0, 0);
    for line in text.lines() {
        if let Some(size) = line.strip_prefix("Rss:") {
            resident = size.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            all += resident * u64::from(flags.split_whitespace().any(|flag| flag == "nh"));
        }
    }
    all
}

/// What `work` makes the heap, the engine's mappings and the budget give, in bytes.
fn taken(db: &Db, work: impl FnOnce()) -> (u64, u64, u64) {
    let charged = || db.stats().memory.budget.used;
    let before = (charged(), LIVE.load(Relaxed), mapped());
    work();
    let heap = LIVE.load(Relaxed) - before.1;
    (heap, mapped() - before.2, charged() - before.0)
}

/// What is allocated is counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Fails where open tables keep more than they are charged: the budget would be passed unseen; and
/// where they are charged more than they keep, which blocks could use.
#[test]
fn open_tables_and_cached_blocks_are_charged_what_they_take() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options::new()
            .memory(MemoryBudget::bytes(64 << 20))
            .background_threads(0)
            .keyspace(
                KeyspaceOptions::new()
                    .write_buffer(64 << 10)
                    .target_file(64 << 10),
            );
        options.open(dir.path()).unwrap()
    };
    let db = open();
    for number in 0..KEYS {
        db.put(key(2 * number), [7; 100]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.close().unwrap();

    let db = open();
    let absent = || {
        for number in (0..KEYS).step_by(100) {
            assert!(db.get(key(2 * number + 1)).unwrap().is_none());
        }
    };
    let present = || {
        for number in (0..KEYS).step_by(100) {
            assert!(db.get(key(2 * number)).unwrap().is_some());
        }
    };
    // Tables with filters, of which half is what the tables themselves take; then mostly data.
    let works: [(&str, &dyn Fn()); 2] = [("tables", &absent), ("data", &present)];
    for (what, work) in works {
        let (heap, mapped, charged) = taken(&db, work);
        let case = format!("{what}: {heap} bytes and {mapped} mapped, {charged} charged");
        let all = heap + mapped;
        assert!(all > 500_000 && mapped > 100_000, "{case}");
        // Lists of free slots are short and do not grow with what is cached.
        let lists = 10 << 10;
        assert!(
            all <= charged + lists && charged <= all + all / 50,
            "{case}"
        );
    }
    assert!(db.stats().open_tables > 200);
}

/// Each keyspace with a table of its own, which was read: what is known of it, too.
#[test]
fn keyspaces_are_charged_what_they_take() {
    let _alone = ALONE.lock();
    const COUNT: u64 = 400;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new()
        .memory(MemoryBudget::bytes(64 << 20))
        .background_threads(0);
    let db = options.open(dir.path()).unwrap();
    let name = |number| format!("keyspace-{number:06}");
    let create = || {
        for number in 0..COUNT {
            db.create_keyspace(&name(number), KeyspaceOptions::default())
                .unwrap();
        }
    };
    let fill = || {
        for number in 0..COUNT {
            db.keyspace(&name(number))
                .unwrap()
                .put("key", "value")
                .unwrap();
        }
        db.flush().unwrap();
    };
    let read = || {
        for number in 0..COUNT {
            let keyspace = db.keyspace(&name(number)).unwrap();
            for key in ["key", "other", "key"].repeat(8) {
                keyspace.get(key).unwrap();
            }
        }
    };
    let works: [(&str, &dyn Fn()); 3] = [("create", &create), ("fill", &fill), ("read", &read)];
    let mut sum = (0, 0);
    for (what, work) in works {
        let (heap, mapped, charged) = taken(&db, work);
        sum = (sum.0 + (heap + mapped) / COUNT, sum.1 + charged / COUNT);
        let (all, charged) = sum;
        let case = format!("{what}: {all} bytes each, {charged} charged");
        assert!(all <= charged && charged <= 2 * all, "{case}");
    }
}

/// Iterators that are held while the tree of many tables changes under them: each keeps a version,
/// of which the next one shares all but what changed.
#[test]
fn what_iterators_keep_of_versions_is_charged() {
    let _alone = ALONE.lock();
    const TABLES: u64 = 1_500;
    const HELD: u64 = 200;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new()
        .memory(MemoryBudget::bytes(64 << 20))
        .background_threads(0)
        // The blocks that are kept of new tables come and go with these.
        .inherit_statistics(false)
        .keyspace(
            KeyspaceOptions::new()
                .write_buffer(1 << 20)
                .target_file(4 << 10)
                .level0_runs(1)
                .size_ratio(1_000),
        );
    let db = options.open(dir.path()).unwrap();
    // Twice over all keys, so that a merge cuts them into tables.
    for pass in 0..2 {
        for number in 0..TABLES * 2 {
            db.put(key(number * 8 + 4 * pass), [3; 1_000]).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    let files: usize = db.stats().keyspaces[0]
        .levels
        .iter()
        .map(|level| level.files)
        .sum();
    assert!(files > 1_000, "{files}");
    let change = |round: u64| {
        let at = (round * 7_919) % (TABLES * 4);
        db.put(key(at * 4 + 1), b"x").unwrap();
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
    };
    // What a change leaves behind without anybody who holds what was.
    let (heap, mapped, charged) = taken(&db, || (0..HELD).for_each(change));
    let slack = (heap + mapped).saturating_sub(charged);
    let mut held = Vec::new();
    let (heap, mapped, charged) = taken(&db, || {
        for round in HELD..2 * HELD {
            change(round);
            held.push(db.cursor(shamba::IterOptions::default()).unwrap());
        }
    });
    let all = heap + mapped;
    let case = format!("{all} bytes, {charged} charged, {slack} without iterators");
    assert!(all > HELD * 4_000, "{case}: nothing is kept");
    assert!(all <= charged + slack + (16 << 10), "{case}");
}

/// What a transaction holds is charged: keys in whatever order they come, ranges, and few keys of
/// each of many keyspaces.
#[test]
fn what_transactions_hold_is_charged() {
    let _alone = ALONE.lock().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let db = Options::new()
        .memory(MemoryBudget::bytes(1 << 30))
        .background_threads(0)
        .merge_operator("default", Append)
        .open(temporary.path().join("db"))
        .unwrap();
    let keyspaces: Vec<_> = (0..2000)
        .map(|number| {
            let name = format!("keyspace-{number}");
            db.create_keyspace(&name, KeyspaceOptions::new()).unwrap()
        })
        .collect();
    let scattered = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    type Work<'a> = &'a dyn Fn(&mut Transaction, u64);
    let cases: [(&str, u64, Work); 10] = [
        ("reads in order", 100_000, &|tx, i| {
            drop(tx.get(key(i)).unwrap())
        }),
        ("reads", 100_000, &|tx, i| {
            drop(tx.get(scattered(i)).unwrap())
        }),
        ("ranges", 20_000, &|tx, i| {
            assert!(tx.range(key(i)..key(i + 1)).next().is_none())
        }),
        ("writes in order", 100_000, &|tx, i| {
            tx.put(key(i), "v").unwrap()
        }),
        ("writes", 100_000, &|tx, i| {
            tx.put(scattered(i), "v").unwrap()
        }),
        ("merges", 50_000, &|tx, i| tx.merge(key(i), "v").unwrap()),
        ("merges into few", 50_000, &|tx, i| {
            tx.merge(key(i % 100), "v").unwrap()
        }),
        ("savepoints", 20_000, &|tx, i| {
            tx.set_savepoint();
            tx.put(key(i), "v").unwrap();
        }),
        ("reads of keyspaces", 2000, &|tx, i| {
            drop(tx.get_in(&keyspaces[i as usize], "k").unwrap())
        }),
        ("writes of keyspaces", 2000, &|tx, i| {
            tx.put_in(&keyspaces[i as usize], "k", "v").unwrap()
        }),
    ];
    for (what, count, work) in cases {
        let mut transaction = db.transaction();
        let (heap, _, charged) = taken(&db, || {
            (0..count).for_each(|number| work(&mut transaction, number));
        });
        let case = format!("{what}: {heap} bytes, {charged} charged");
        assert!(heap <= charged && charged < heap * 3 / 2, "{case}");
    }
}
