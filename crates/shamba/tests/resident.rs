//! What a process takes of the machine's memory while it uses the engine: no more than its budget,
//! 8 MiB for everything that does not grow (code, the standard library's and this test's own), and
//! 64 KiB a thread.
//!
//! Each row of work runs in a process of its own, since what one left behind in the allocator would
//! count for the next.
#![cfg(target_os = "linux")]

use std::io::Read;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use shamba::{Compression, Db, IterOptions, KeyspaceOptions, MemoryBudget, Options};

const BUDGET: u64 = 8 << 20;

/// Says to the child what to do.
const ROW: &str = "SHAMBA_RESIDENT_ROW";

const KEYS: u64 = 150_000;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u64, len: usize) -> Vec<u8> {
    let byte = |at: usize| match at % 3 {
        0 => mix(number + at as u64) as u8,
        _ => at as u8 % 7,
    };
    (0..len).map(byte).collect()
}

fn open(dir: &std::path::Path, compression: Compression) -> Db {
    let options = Options::new().memory(MemoryBudget::bytes(BUDGET));
    let keyspace = KeyspaceOptions::new().compression([compression]);
    options.keyspace(keyspace).open(dir).unwrap()
}

fn load(db: &Db) {
    for number in 0..KEYS {
        db.put(key(number), value(number, 100)).unwrap();
    }
    db.flush().unwrap();
}

fn gets(db: &Db, from: u64, count: u64) {
    for number in from..from + count {
        let wanted = mix(number) % KEYS;
        assert_eq!(
            db.get(key(wanted)).unwrap().unwrap(),
            value(wanted, 100)[..]
        );
    }
}

/// The child's work; gives the database, whose accounts are looked at.
fn work(row: &str, dir: &std::path::Path) -> Db {
    match row {
        "reads" => {
            let db = open(dir, Compression::None);
            load(&db);
            gets(&db, 0, 40_000);
            let keys: Vec<_> = (0..10_000).map(|n| key(mix(n) % KEYS)).collect();
            assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_some));
            let mut iterators: Vec<_> = (0..50)
                .map(|_| db.cursor(IterOptions::default()).unwrap())
                .collect();
            for (number, iterator) in iterators.iter_mut().enumerate() {
                iterator.seek(key(number as u64)).unwrap();
                (0..20).for_each(|_| iterator.next().unwrap());
            }
            drop(iterators);
            db
        }
        "threads" => {
            let db = open(dir, Compression::Zstd(3));
            load(&db);
            std::thread::scope(|scope| {
                for thread in 0..64 {
                    let db = &db;
                    scope.spawn(move || gets(db, thread * 500, 500));
                }
            });
            db
        }
        "values" => {
            let db = open(dir, Compression::None);
            let len = BUDGET as usize / 16;
            for number in 0..150 {
                db.put(key(number), value(number, len)).unwrap();
            }
            db.flush().unwrap();
            for number in 0..150 {
                let number = mix(number) % 150;
                assert!(db.get(key(number)).unwrap().unwrap() == value(number, len)[..]);
            }
            db
        }
        "pieces" => {
            let db = open(dir, Compression::None);
            for round in 0..3 {
                let film = std::io::repeat(round).take(64 << 20);
                db.put_reader("film", film).unwrap();
                let mut read = db.get_reader("film").unwrap().unwrap();
                let bytes = std::io::copy(&mut read, &mut std::io::sink()).unwrap();
                assert_eq!(bytes, 64 << 20);
                db.flush().unwrap();
            }
            db.compact_range(None, None).unwrap();
            db
        }
        "value files" => {
            let options = Options::new().memory(MemoryBudget::bytes(BUDGET));
            let keyspace = KeyspaceOptions::new()
                .value_files_from(1 << 10)
                .target_file(1 << 20)
                .compression([Compression::Zstd(3)]);
            let db = options.keyspace(keyspace).open(dir).unwrap();
            let len = |number| match number % 4 {
                0 => BUDGET as usize / 16,
                other => 3000 * other as usize,
            };
            for round in 0..4 {
                for number in 0..200 {
                    let value = value(number + round, len(number));
                    db.put(key(number), value).unwrap();
                }
            }
            db.flush().unwrap();
            db.compact_range(None, None).unwrap();
            for number in 0..200 {
                let wanted = value(number + 3, len(number));
                assert!(db.get(key(number)).unwrap().unwrap() == wanted[..]);
            }
            let all: shamba::Result<Vec<_>> = db.iter().map(|entry| entry.map(drop)).collect();
            assert_eq!(all.unwrap().len(), 200);
            assert!(db.stats().keyspaces[0].values.files > 0);
            db
        }
        other => panic!("{other}"),
    }
}

/// A number of this process's status.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    let number = line.trim_start_matches(':').split_whitespace().next();
    number.unwrap().parse().unwrap()
}

/// Not a test of its own: the process that a test measures.
#[test]
fn child() {
    let Ok(row) = std::env::var(ROW) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (done, resident, threads) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                resident.fetch_max(status("RssAnon") << 10, Relaxed);
                threads.fetch_max(status("Threads"), Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let db = work(&row, dir.path());
        resident.fetch_max(status("RssAnon") << 10, Relaxed);
        let memory = db.stats().memory.budget;
        done.store(true, Relaxed);
        assert!(memory.used <= BUDGET && memory.overdraft == 0, "{memory:?}");
    });
    println!(
        "resident {} {}",
        resident.into_inner(),
        threads.into_inner()
    );
}

fn stays_within_its_budget(row: &str) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(ROW, row)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&child.stderr)
    );
    let numbers = said
        .split_once("resident ")
        .unwrap()
        .1
        .lines()
        .next()
        .unwrap();
    let (resident, threads) = numbers.split_once(' ').unwrap();
    let (resident, threads): (u64, u64) = (resident.parse().unwrap(), threads.parse().unwrap());
    let bound = BUDGET + (8 << 20) + threads * (64 << 10);
    eprintln!(
        "{row}: {} KiB resident of {} KiB, {threads} threads",
        resident >> 10,
        bound >> 10
    );
    assert!(
        resident <= bound,
        "{row}: {resident} bytes are resident, of {bound}"
    );
}

#[test]
fn reading_in_every_way_stays_within_the_budget() {
    stays_within_its_budget("reads");
}

#[test]
fn many_threads_that_decompress_stay_within_the_budget() {
    stays_within_its_budget("threads");
}

#[test]
fn the_longest_values_stay_within_the_budget() {
    stays_within_its_budget("values");
}

#[test]
fn values_in_pieces_stay_within_the_budget() {
    stays_within_its_budget("pieces");
}

#[test]
fn values_in_files_of_their_own_stay_within_the_budget() {
    stays_within_its_budget("value files");
}
