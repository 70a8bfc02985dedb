//! Databases of very many tables: what the manifest says of each is inside the memory budget.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use shamba::fs::MemFs;
use shamba::{Db, Error, IterOptions, KeyspaceOptions, MemoryBudget, Options, Role};

const TABLES: u64 = 20_000;

/// Two of these make a table.
const PER_TABLE: u64 = 2;

fn key(number: u64) -> [u8; 64] {
    let mut key = [b'k'; 64];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u64) -> Vec<u8> {
    let mut state = number + 1;
    (0..2050)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

fn options(fs: &MemFs, memory: u64) -> Options {
    with_small_tables(Options::new().fs(Arc::new(fs.clone())), memory)
}

fn with_small_tables(options: Options, memory: u64) -> Options {
    let keyspace = KeyspaceOptions::new().target_file(4 << 10);
    options
        .background_threads(0)
        .memory(MemoryBudget::bytes(memory))
        .keyspace(keyspace)
}

fn used_by(db: &Db, role: Role) -> u64 {
    let stats = db.stats().memory.budget;
    let of_role = stats.by_role.iter().find(|(of, _)| *of == role);
    of_role.map_or(0, |(_, bytes)| *bytes)
}

fn within_budget(db: &Db) {
    let stats = db.stats().memory.budget;
    assert_eq!(stats.overdraft, 0, "{stats:?}");
}

/// What an open says it needs, which must be more than `memory`.
fn needed(fs: &MemFs, memory: u64) -> u64 {
    match options(fs, memory).open("/db") {
        Err(Error::BudgetTooSmall { limit, needed }) => {
            assert_eq!(limit, memory);
            assert!(needed > memory, "{needed} of {memory}");
            needed
        }
        other => panic!("{other:?}"),
    }
}

/// Writes what so many tables hold, in an order that is not the keys': flushes overlap, and are
/// merged into tables of the size asked for.
fn fill(db: &Db, tables: u64) {
    let entries = tables * PER_TABLE;
    for i in 0..entries {
        let number = i * 7919 % entries;
        db.put(key(number), value(number)).unwrap();
        if i == entries / 2 {
            db.flush().unwrap();
        }
    }
    db.compact_range(None, None).unwrap();
}

fn tables(db: &Db) -> u64 {
    let levels = &db.stats().keyspaces[0].levels;
    levels.iter().map(|level| level.files as u64).sum()
}

/// Fails where what is known of tables is not counted, or an open takes it whatever the budget.
#[test]
fn tables_by_the_thousand_are_known_within_the_budget() {
    let fs = MemFs::new();
    let db = options(&fs, 64 << 20).open("/db").unwrap();
    fill(&db, TABLES);
    let tables = tables(&db);
    assert!(tables >= TABLES, "{tables} tables");
    let known = used_by(&db, Role::Files);
    println!(
        "{tables} tables, {known} bytes charged: {} each",
        known / tables
    );
    assert!(
        known >= tables * (2 * 64 + 40) && known <= tables * 240,
        "{known}"
    );
    within_budget(&db);
    db.close().unwrap();

    let least = needed(&fs, 2 << 20);
    assert_eq!(needed(&fs, least - 8), least, "the same whatever was asked");
    let db = options(&fs, least).open("/db").unwrap();
    assert_eq!(used_by(&db, Role::Files), known);
    let numbers = (0..3000).map(|i| i * 7919 % (TABLES * PER_TABLE));
    for number in numbers {
        assert_eq!(
            db.get(key(number)).unwrap().as_deref(),
            Some(&*value(number))
        );
    }
    let mut iter = db.cursor(IterOptions::default()).unwrap();
    iter.seek(key(777)).unwrap();
    for number in 777..2000 {
        assert_eq!(
            (iter.key(), iter.value()),
            (&key(number)[..], &*value(number))
        );
        iter.next().unwrap();
    }
    within_budget(&db);
}

/// As many tables as a terabyte has in files of 4 MiB.
const QUARTER_OF_A_MILLION: u64 = 250_000;

/// Set in the process that opens the database: the folder it is in.
const FOLDER: &str = "SHAMBA_TABLES_IN";

/// Set where it is to be opened for reading only.
const READ_ONLY: &str = "SHAMBA_TABLES_READ_ONLY";

/// Takes a minute and 5 GiB of the folder for temporary files, which `TMPDIR` names:
/// `cargo test -p shamba --test many_tables -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute and gibibytes"]
fn a_quarter_of_a_million_tables_are_served_under_64_mib() {
    if let Some(dir) = std::env::var_os(FOLDER) {
        let dir = PathBuf::from(dir);
        return match std::env::var_os(READ_ONLY) {
            Some(_) => read(&dir),
            None => serve(&dir),
        };
    }
    let dir = tempfile::tempdir().unwrap();
    // Two memtables, of which one merge makes all tables.
    let options = with_small_tables(Options::new(), 16 << 30);
    let keyspace = KeyspaceOptions::new()
        .target_file(4 << 10)
        .write_buffer(2 << 30);
    let db = options.keyspace(keyspace);
    let db = db.open(dir.path().join("db")).unwrap();
    fill(&db, QUARTER_OF_A_MILLION);
    assert!(tables(&db) >= QUARTER_OF_A_MILLION);
    db.close().unwrap();
    // A process of its own for each open, whose memory is that of the open alone.
    let own = std::env::current_exe().unwrap();
    let name = "a_quarter_of_a_million_tables_are_served_under_64_mib";
    for mode in [Some("yes"), None] {
        let child = Command::new(&own)
            .args([name, "--exact", "--ignored", "--nocapture"])
            .env(FOLDER, dir.path())
            .envs(mode.map(|yes| (READ_ONLY, yes)))
            .status();
        assert!(child.unwrap().success());
    }
}

/// The most memory that the process ever had resident, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

const LIMIT: u64 = 64 << 20;

/// Opens the database to be read only, as the command does that reads a key.
fn read(dir: &Path) {
    let db = with_small_tables(Options::new(), LIMIT).read_only(true);
    let db = db.open(dir.join("db")).unwrap();
    assert_eq!(db.get(key(7)).unwrap().as_deref(), Some(&*value(7)));
    println!("open to be read, at most {} bytes resident", peak());
    assert!(peak() <= LIMIT + (8 << 20));
}

fn serve(dir: &Path) {
    let started = std::time::Instant::now();
    let db = with_small_tables(Options::new(), LIMIT);
    let db = db.open(dir.join("db")).unwrap();
    let after = started.elapsed();
    println!("open after {after:?}, at most {} bytes resident", peak());
    assert!(peak() <= LIMIT + (8 << 20));
    let entries = QUARTER_OF_A_MILLION * PER_TABLE;
    for number in (0..20_000).map(|i| i * 104_729 % entries) {
        let found = db.get(key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&*value(number)));
    }
    let mut iter = db.cursor(IterOptions::default()).unwrap();
    iter.seek(key(1000)).unwrap();
    for number in 1000..6000 {
        assert_eq!(
            (iter.key(), iter.value()),
            (&key(number)[..], &*value(number))
        );
        iter.next().unwrap();
    }
    drop(iter);
    for number in 0..1000 {
        db.put(key(number), value(number)).unwrap();
    }
    let usage = db.stats().memory.budget;
    println!(
        "{} tables, {usage:?}, at most {} bytes resident",
        tables(&db),
        peak()
    );
    assert_eq!(usage.overdraft, 0);
    assert!(peak() <= LIMIT + (8 << 20));
    // The level was made for more memory.
    let moved = db.stats().counters.trivial_moves;
    assert!(moved > QUARTER_OF_A_MILLION / 2, "{moved}");
}
