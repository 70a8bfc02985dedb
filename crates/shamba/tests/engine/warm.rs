//! What was just written is in memory, as long as there is room for it: nobody has to read it back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Rng, scattered_key as key};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, MeteredFs, Op};
use shamba::{Db, KeyspaceOptions, MemoryBudget, Options};

const DIR: &str = "/db";
const KEYS: u64 = 60_000;

fn keyspace() -> KeyspaceOptions {
    KeyspaceOptions::new()
        .write_buffer(256 << 10)
        .target_file(256 << 10)
}

/// A database of several levels, filled in random order and written over here and there.
fn filled(fs: &MeteredFs, options: impl Fn(Options) -> Options, memory: u64, long: &str) -> Db {
    let with = Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(memory))
        .background_threads(0)
        .keyspace(keyspace());
    let db = options(with).open(DIR).unwrap();
    let mut rng = Rng::new(9);
    for number in 0..KEYS {
        let number = number * 7_919 % KEYS;
        db.put(long_key(long, number), [number as u8; 40]).unwrap();
        if rng.one_in(5) {
            let again = rng.below(number + 1);
            db.put(long_key(long, again), [again as u8; 40]).unwrap();
        }
    }
    db.flush().unwrap();
    db
}

fn long_key(long: &str, number: u64) -> Vec<u8> {
    [long.as_bytes(), &key(2 * number)].concat()
}

/// Reads of storage by a lookup of each key, and of as many that are not there.
fn reads(db: &Db, fs: &MeteredFs, long: &str) -> u64 {
    let before = fs.counts();
    for number in 0..KEYS {
        assert!(db.get(long_key(long, number)).unwrap().is_some());
        let absent = [long.as_bytes(), &key(2 * number + 1)].concat();
        assert!(db.get(absent).unwrap().is_none());
    }
    (fs.counts() - before).all_reads().reads
}

#[test]
fn what_fits_is_read_from_memory_from_the_first_lookup_on() {
    // Keys that are long and begin alike have an index of another kind.
    let long = "of a keyspace with keys that are long and begin alike/".repeat(20);
    for (long, memory) in [("", 64 << 20), (&*long, 256 << 20)] {
        let fs = MeteredFs::new(Arc::new(MemFs::new()));
        let db = filled(&fs, |options| options, memory, long);
        assert!(db.stats().keyspaces[0].levels.len() > 1);
        assert_eq!(reads(&db, &fs, long), 0);
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    }
}

#[test]
fn what_does_not_fit_is_within_the_budget_and_nothing_is_kept_where_that_is_switched_off() {
    for (memory, inherit) in [(2 << 20, true), (64 << 20, false)] {
        let fs = MeteredFs::new(Arc::new(MemFs::new()));
        let db = filled(
            &fs,
            |options| options.inherit_statistics(inherit),
            memory,
            "",
        );
        assert!(reads(&db, &fs, "") > 0);
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    }
}

/// Options for a reopened database, with a thread that reads back.
fn reopening(fs: &MeteredFs, memory: u64) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(memory))
        .background_threads(1)
        .keyspace(keyspace())
}

/// Waits until what memory held before is back.
fn wait_for_reload(db: &Db) {
    let begun = Instant::now();
    while db.stats().counters.reloads == 0 {
        assert!(begun.elapsed() < Duration::from_secs(120), "it goes on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_was_asked_for_is_in_memory_again_after_opening() {
    for inherit in [true, false] {
        let fs = MeteredFs::new(Arc::new(MemFs::new()));
        let options = |options: Options| options.inherit_statistics(inherit);
        let db = filled(&fs, options, 64 << 20, "");
        reads(&db, &fs, "");
        db.close().unwrap();
        let db = options(reopening(&fs, 64 << 20)).open(DIR).unwrap();
        if !inherit {
            assert!(reads(&db, &fs, "") > 0);
            assert_eq!(db.stats().counters.reloads, 0);
            continue;
        }
        wait_for_reload(&db);
        let counters = db.stats().counters;
        assert!(counters.reloaded_blocks > 800, "{counters:?}");
        // Filters and index of a partition lie beside one another, and so does data that is hot.
        let read = fs.counts().all_reads().reads;
        assert!(counters.reload_pages >= counters.reloaded_blocks);
        // What was asked for long ago only may be left out.
        let again = reads(&db, &fs, "");
        assert!(again < 10, "{again} reads after {read}");
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    }
}

/// Lookups of which most are of a few keys, scattered over all; every second key does not exist.
/// Gives the storage reads of each.
fn skewed(db: &Db, fs: &MeteredFs, rng: &mut Rng, lookups: u64) -> f64 {
    let before = fs.counts();
    for _ in 0..lookups {
        let bits = rng.below(16);
        let number = rng.below(KEYS >> bits.min(15)) * 7_919 % KEYS;
        let found = db.get(key(2 * number)).unwrap();
        assert!(found.is_some());
        assert!(db.get(key(2 * number + 1)).unwrap().is_none());
    }
    (fs.counts() - before).all_reads().reads as f64 / (2 * lookups) as f64
}

#[test]
fn under_little_memory_it_is_soon_as_good_as_before() {
    const MEMORY: u64 = 3 << 19;
    let after_reopening = |kept: &[&str]| {
        let mem = Arc::new(MemFs::new());
        let fs = MeteredFs::new(mem.clone());
        drop(filled(&fs, |options| options, MEMORY, ""));
        let mut rng = Rng::new(5);
        let db = reopening(&fs, MEMORY).open(DIR).unwrap();
        skewed(&db, &fs, &mut rng, 150_000);
        let steady = skewed(&db, &fs, &mut rng, 20_000);
        assert!(db.stats().memory.cache.entries().blocks > 0);
        db.close().unwrap();
        for name in ["HINTS", "WARM"] {
            if !kept.contains(&name) {
                mem.remove(format!("{DIR}/{name}").as_ref()).unwrap();
            }
        }
        let db = reopening(&fs, MEMORY).open(DIR).unwrap();
        if kept.contains(&"WARM") {
            wait_for_reload(&db);
            let counters = db.stats().counters;
            assert!(counters.reloaded_entries > 0, "{counters:?}");
        }
        let first = skewed(&db, &fs, &mut rng, 2_500);
        assert_eq!(db.stats().memory.budget.overdraft, 0);
        (steady, first)
    };
    let (steady, warm) = after_reopening(&["HINTS", "WARM"]);
    let (_, visits_only) = after_reopening(&["HINTS"]);
    println!("steady {steady}, warm {warm}, cold {visits_only}");
    assert!(warm < 1.15 * steady, "{warm} after {steady}");
    assert!(visits_only > 1.2 * warm, "{visits_only} after {steady}");
}

#[test]
fn whatever_it_says_answers_stay_the_same() {
    let mem = Arc::new(MemFs::new());
    let fs = MeteredFs::new(mem.clone());
    drop(filled(&fs, |options| options, 2 << 20, ""));
    let mut rng = Rng::new(7);
    let db = reopening(&fs, 2 << 20).open(DIR).unwrap();
    skewed(&db, &fs, &mut rng, 50_000);
    db.close().unwrap();
    let sound = mem.read_file("/db/WARM").unwrap();
    assert!(sound.len() > 1000);
    for case in 0..40 {
        let mut bytes = sound.clone();
        match case {
            0 => bytes.clear(),
            1 => bytes.truncate(20),
            _ => {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << rng.below(8);
                if case % 2 == 0 {
                    bytes.truncate(at + 1);
                }
            }
        }
        mem.write_file("/db/WARM", &bytes).unwrap();
        let db = reopening(&fs, 2 << 20).open(DIR).unwrap();
        // What was deleted and written since is not what memory held.
        let (gone, new) = (rng.below(KEYS), rng.below(KEYS));
        db.delete(key(2 * gone)).unwrap();
        db.put(key(2 * new + 1), b"new").unwrap();
        if case % 3 == 0 {
            db.flush().unwrap();
        }
        for _ in 0..3 {
            assert!(db.get(key(2 * gone)).unwrap().is_none(), "case {case}");
            let found = db.get(key(2 * new + 1)).unwrap();
            assert_eq!(found.as_deref(), Some(&b"new"[..]), "case {case}");
            std::thread::sleep(Duration::from_millis(2));
        }
        db.put(key(2 * gone), [gone as u8; 40]).unwrap();
        db.delete(key(2 * new + 1)).unwrap();
        skewed(&db, &fs, &mut rng, 200);
        db.close().unwrap();
    }
}

/// A frame with a right checksum.
fn frame(body: &[u8]) -> Vec<u8> {
    let sum = crc32c::crc32c(body).to_le_bytes();
    [&(body.len() as u32).to_le_bytes()[..], &sum, body].concat()
}

/// A database that was read under little memory; its file system, and what memory held.
fn read_and_closed() -> (Arc<MemFs>, MeteredFs, Vec<u8>) {
    let mem = Arc::new(MemFs::new());
    let fs = MeteredFs::new(mem.clone());
    drop(filled(&fs, |options| options, 2 << 20, ""));
    let db = reopening(&fs, 2 << 20).open(DIR).unwrap();
    skewed(&db, &fs, &mut Rng::new(3), 50_000);
    db.close().unwrap();
    let warm = mem.read_file("/db/WARM").unwrap();
    (mem, fs, warm)
}

#[test]
fn what_is_forged_takes_no_memory_and_learns_nothing() {
    let (mem, fs, sound) = read_and_closed();
    let long = |number: u64| format!("long{number}");
    let db = reopening(&fs, 8 << 20).open(DIR).unwrap();
    for number in 0..8 {
        db.put(long(number), vec![number as u8; 300 << 10]).unwrap();
    }
    db.close().unwrap();
    let learned = u32::from_le_bytes(sound[8..12].try_into().unwrap()) as usize;
    let (head, frames) = sound.split_at(16 + learned);
    let numbers = &head[16..];
    // Entries whose values are long by now, and blocks of any place that claim to be of any length.
    let mut entries = Vec::new();
    for number in 0..8 {
        entries.extend([0, 0, 0xff, 5]);
        entries.extend(long(number).bytes());
    }
    let mut blocks = Vec::new();
    for file in 0..100 {
        for kind in [1, 2, 3, 200] {
            blocks.extend([kind, file, file % 7, 0, 0xff, 0xff, 0x7f, 9]);
        }
    }
    let of = |number: f32| number.to_le_bytes().repeat(learned / 4);
    let forged = [
        [&frame(&of(1e30)), frames].concat(),
        [&frame(&of(f32::NAN)), frames].concat(),
        [&frame(&of(9e8)), frames].concat(),
        [frame(numbers), frame(&entries)].concat(),
        [frame(numbers), frame(&blocks)].concat(),
        [frame(numbers), frame(&[0; 1 << 20])].concat(),
    ];
    for (case, forged) in forged.iter().enumerate() {
        let bytes = [b"shambaW1", &forged[..]].concat();
        mem.write_file("/db/WARM", &bytes).unwrap();
        let db = reopening(&fs, 8 << 20).open(DIR).unwrap();
        wait_for_reload(&db);
        let used = db.stats().memory.budget;
        assert_eq!(used.overdraft, 0, "case {case}");
        // Nothing of the long values is in memory, nor was it.
        assert!(case < 3 || used.peak < 1 << 20, "case {case}: {used:?}");
        let value = db.get(long(3)).unwrap();
        assert_eq!(value.as_deref(), Some(&[3; 300 << 10][..]), "case {case}");
        skewed(&db, &fs, &mut Rng::new(case as u64), 2_000);
        db.close().unwrap();
    }
}

#[test]
fn a_short_session_leaves_the_list_and_entries_stay_away_where_they_are_not_wanted() {
    let (mem, fs, sound) = read_and_closed();
    for threads in [0, 1] {
        let options = reopening(&fs, 2 << 20).background_threads(threads);
        options.open(DIR).unwrap().close().unwrap();
        let kept = mem.read_file("/db/WARM").unwrap();
        assert!(
            kept.len() > sound.len() / 2,
            "{} of {}",
            kept.len(),
            sound.len()
        );
    }
    let options = reopening(&fs, 2 << 20).cache_entries(false);
    let db = options.open(DIR).unwrap();
    wait_for_reload(&db);
    let counters = db.stats().counters;
    assert!(counters.reloaded_blocks > 0 && counters.reloaded_entries == 0);
}

/// It ends with the first read that fails, whoever looks up meets the disk as it is, and what the
/// list names is brought back the next time.
#[test]
fn a_disk_that_fails_ends_it_and_the_list_stays() {
    let faults = Faults::new();
    let below = FaultFs::new(Arc::new(MemFs::new()), faults.clone());
    let fs = MeteredFs::new(Arc::new(below));
    let db = filled(&fs, |options| options, 64 << 20, "");
    reads(&db, &fs, "");
    db.close().unwrap();
    for passing in [0, 5, 50] {
        let fault = Fault::new(Effect::Fail(FaultError::EIO)).on(Op::Read);
        faults.add(fault.path_ending(".sst").after(passing).forever());
        let before = faults.fired();
        let db = reopening(&fs, 64 << 20).open(DIR).unwrap();
        let begun = Instant::now();
        while faults.fired() == before {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "nothing is read"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        db.close().unwrap();
        let failed = faults.fired() - before;
        assert!(failed <= 2, "{failed} reads failed");
        faults.clear();
    }
    let db = reopening(&fs, 64 << 20).open(DIR).unwrap();
    wait_for_reload(&db);
    let again = reads(&db, &fs, "");
    assert!(again < 10, "{again}");
}
