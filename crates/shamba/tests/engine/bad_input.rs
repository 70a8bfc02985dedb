//! What callers and folders can get wrong: each a clear, typed error, and nothing lost by it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Rng, contents, files_ending, small_keyspace, small_options};
use shamba::fs::{Access, Fs, MemFs, OsFs};
use shamba::{
    Append, Compression, Db, Error, FilterOptions, IterOptions, KeyspaceOptions, MIN_MEMORY,
    MemoryBudget, ModuleSizes, Options, WriteBatch, WriteOptions,
};

const DIR: &str = "/db";

fn options(fs: &MemFs) -> Options {
    small_options(Arc::new(fs.clone()))
}

/// A database with tables and a log, closed or as a killed process leaves it.
fn filled(closed: bool) -> MemFs {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    fill(&db);
    if closed {
        db.close().unwrap();
        return fs;
    }
    fs.deep_clone()
}

fn fill(db: &Db) {
    for i in 0..300u32 {
        db.put(format!("key{i:04}"), vec![b'v'; 64]).unwrap();
    }
    db.flush().unwrap();
    db.put(b"last", b"in the log").unwrap();
}

fn assert_whole(fs: &MemFs) {
    let db = options(fs).open(DIR).unwrap();
    assert_eq!(contents(&db.default_keyspace()).unwrap().len(), 301);
    assert_eq!(
        db.get(b"last").unwrap().as_deref(),
        Some(&b"in the log"[..])
    );
    db.verify().unwrap().check().unwrap();
}

/// The error of an open that must fail; the message must name the path or the option.
fn refused(options: Options, dir: impl AsRef<Path>) -> Error {
    match options.open(dir) {
        Ok(_) => panic!("the open succeeded"),
        Err(error) => error,
    }
}

fn change(fs: &MemFs, path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs.read_file(path).unwrap();
    how(&mut bytes);
    fs.write_file(path, &bytes).unwrap();
}

fn find(fs: &MemFs, part: &str) -> PathBuf {
    let found = fs
        .files()
        .into_iter()
        .find(|path| path.to_string_lossy().contains(part));
    found.unwrap_or_else(|| panic!("no {part} in {:?}", fs.files()))
}

#[test]
fn a_missing_folder_is_not_found_and_not_made() {
    let fs = MemFs::new();
    let error = refused(options(&fs).create_if_missing(false), "/nowhere");
    assert!(
        matches!(&error, Error::NotFound { path } if path == Path::new("/nowhere")),
        "{error:?}"
    );
    assert!(error.to_string().contains("/nowhere"));
    assert!(!fs.exists(Path::new("/nowhere")).unwrap());
    options(&fs).open("/nowhere").unwrap();
}

#[test]
fn an_empty_folder_becomes_a_database_only_when_asked() {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("/empty")).unwrap();
    let error = refused(options(&fs).create_if_missing(false), "/empty");
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    options(&fs).open("/empty").unwrap();
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("/photos")).unwrap();
    fs.write_file("/photos/holiday.jpg", b"...").unwrap();
    for create in [false, true] {
        let error = refused(options(&fs).create_if_missing(create), "/photos");
        assert!(matches!(error, Error::NotADatabase { .. }), "{error:?}");
    }
    assert_eq!(fs.files(), [PathBuf::from("/photos/holiday.jpg")]);
}

#[test]
fn a_file_in_place_of_the_folder_is_an_error() {
    let fs = MemFs::new();
    fs.write_file("/file", b"...").unwrap();
    let error = refused(options(&fs), "/file");
    assert!(
        matches!(error, Error::Io { .. } | Error::NotADatabase { .. }),
        "{error:?}"
    );
    assert_eq!(fs.read_file("/file").unwrap(), b"...");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"...").unwrap();
    let error = refused(small_options(Arc::new(OsFs::new())), &file);
    assert!(
        matches!(error, Error::Io { .. } | Error::NotADatabase { .. }),
        "{error:?}"
    );
}

#[test]
fn a_database_that_must_be_new_is_refused() {
    let fs = filled(true);
    let error = refused(options(&fs).error_if_exists(true), DIR);
    assert!(matches!(error, Error::AlreadyExists { .. }), "{error:?}");
    assert_whole(&fs);
}

#[test]
fn a_database_in_use_is_locked_until_it_is_closed() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    fill(&db);
    let error = refused(options(&fs), DIR);
    assert!(matches!(error, Error::Locked { .. }), "{error:?}");
    db.put(b"still", b"here").unwrap();
    db.delete(b"still").unwrap();
    let clone = db.clone();
    drop(db);
    assert!(matches!(refused(options(&fs), DIR), Error::Locked { .. }));
    drop(clone);
    assert_whole(&fs);
}

/// What was forgotten is named by its kind, and only while it keeps the database open.
#[test]
fn a_database_kept_open_by_what_was_forgotten_says_by_what() {
    let folder = tempfile::tempdir().unwrap();
    let open = || small_options(Arc::new(OsFs::new())).open(folder.path());
    let held = || match open() {
        Err(error @ Error::Locked { holders, .. }) => (
            holders.unwrap(),
            error.to_string().replace("handles", "handle"),
        ),
        other => panic!("{other:?}"),
    };
    let db = open().unwrap();
    fill(&db);
    let keyspace = db.default_keyspace();
    let (holders, text) = held();
    assert_eq!(
        (holders.handles, holders.snapshots, holders.iterators),
        (2, 0, 0)
    );
    assert!(
        text.contains("this process, which holds 2 database or keyspace handle;"),
        "{text}"
    );
    drop(keyspace);
    let (snapshot, mut iter) = (db.snapshot(), db.iter());
    let (again, cursor) = (snapshot.clone(), db.cursor(IterOptions::default()).unwrap());
    let _ = (iter.next(), iter.next_back());
    drop(db);
    let (holders, _) = held();
    assert_eq!(
        (holders.handles, holders.snapshots, holders.iterators),
        (0, 2, 3)
    );
    drop((snapshot, iter));
    let (_, text) = held();
    assert!(
        text.contains("this process, which holds 1 snapshot, 1 iterator; drop"),
        "{text}"
    );
    drop(again);
    let (_, text) = held();
    assert!(
        text.contains("this process, which holds 1 iterator; drop"),
        "{text}"
    );
    drop(cursor);
    // One that was closed is not kept open by what is left of it.
    let db = open().unwrap();
    let _left = db.snapshot();
    db.close().unwrap();
    let db = open().unwrap();
    let (holders, _) = held();
    assert_eq!(
        (holders.handles, holders.snapshots, holders.iterators),
        (1, 0, 0)
    );
    drop(db);
}

#[test]
fn a_database_in_use_is_locked_on_a_real_folder_too() {
    let folder = tempfile::tempdir().unwrap();
    let open = || small_options(Arc::new(OsFs::new())).open(folder.path());
    let db = open().unwrap();
    fill(&db);
    assert!(matches!(open(), Err(Error::Locked { .. })));
    db.close().unwrap();
    assert_eq!(
        contents(&open().unwrap().default_keyspace()).unwrap().len(),
        301
    );
}

#[test]
fn a_refused_open_changes_nothing() {
    let newer = |bytes: &mut Vec<u8>| {
        // The version, and the checksum over the header's other bytes.
        bytes[8..12].copy_from_slice(&7u32.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..40]);
        bytes[40..44].copy_from_slice(&sum.to_le_bytes());
    };
    let damage = |bytes: &mut Vec<u8>| bytes[20] ^= 1;
    let shorter = |bytes: &mut Vec<u8>| bytes.truncate(4096);
    type How<'a> = &'a dyn Fn(&mut Vec<u8>);
    let cases: [(&str, &str, How<'_>); 4] = [
        ("a newer log", ".wal", &newer),
        ("a newer manifest", "MANIFEST-", &newer),
        ("a damaged log", ".wal", &damage),
        ("a shorter table", ".sst", &shorter),
    ];
    for (what, part, how) in cases {
        let fs = filled(false);
        let whole = fs.deep_clone();
        let path = find(&fs, part);
        change(&fs, &path, how);
        // Left by an open that was cut off; the next one that succeeds removes them.
        fs.write_file("/db/999998.sst", b"orphan").unwrap();
        fs.write_file("/db/CURRENT.tmp", b"orphan").unwrap();
        let all = |fs: &MemFs| -> Vec<_> {
            let files = fs.files().into_iter();
            files
                .map(|path| (fs.read_file(&path).unwrap(), path))
                .collect()
        };
        let before = all(&fs);
        let error = refused(options(&fs), "/db");
        if what.contains("newer") {
            assert!(
                matches!(
                    &error,
                    Error::UnsupportedFormat { file, found: 7, supported: 1 } if *file == path
                ),
                "{what}: {error}"
            )
        } else {
            assert!(error.is_corruption(), "{what}: {error}")
        }
        assert!(all(&fs) == before, "{what}: the folder changed");
        assert_whole(&whole);
    }
}

#[test]
fn a_newer_table_is_refused() {
    let fs = filled(true);
    let path = find(&fs, ".sst");
    let original = fs.read_file(&path).unwrap();
    change(&fs, &path, |bytes| {
        // The footer page ends in: version u32, checksum of the page before it u32, magic u64.
        let end = bytes.len();
        let page = end - 4096;
        bytes[end - 16..end - 12].copy_from_slice(&9u32.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[page..end - 12]);
        bytes[end - 12..end - 8].copy_from_slice(&crc.to_le_bytes());
    });
    // Whether the table is opened with the database or at the first read is the engine's choice.
    let error = match options(&fs).open(DIR) {
        Err(error) => error,
        Ok(db) => db.verify().unwrap().check().unwrap_err(),
    };
    assert!(
        matches!(&error, Error::UnsupportedFormat { found: 9, .. }),
        "{error:?}"
    );
    fs.write_file(&path, &original).unwrap();
    assert_whole(&fs);
}

#[test]
fn a_missing_manifest_is_corruption_and_nothing_is_removed() {
    for part in ["MANIFEST-", "CURRENT"] {
        let fs = filled(true);
        let path = find(&fs, part);
        let bytes = fs.read_file(&path).unwrap();
        fs.remove(&path).unwrap();
        let before = fs.files();
        let error = refused(options(&fs), DIR);
        assert!(error.is_corruption(), "{part}: {error:?}");
        assert!(error.to_string().contains(part), "{error}");
        let after: Vec<_> = fs
            .files()
            .into_iter()
            .filter(|file| !file.ends_with("LOCK"))
            .collect();
        assert!(
            before
                .iter()
                .filter(|file| !file.ends_with("LOCK"))
                .all(|file| after.contains(file)),
            "{after:?}"
        );
        fs.write_file(&path, &bytes).unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn a_corrupt_manifest_is_corruption_and_nothing_is_removed() {
    for part in ["MANIFEST-", "CURRENT"] {
        for garbage in [&b""[..], b"\n", b"nonsense\n", &[0; 5000]] {
            let fs = filled(true);
            let path = find(&fs, part);
            let bytes = fs.read_file(&path).unwrap();
            fs.write_file(&path, garbage).unwrap();
            let tables = files_ending(&fs, DIR, ".sst");
            let error = refused(options(&fs), DIR);
            assert!(error.is_corruption(), "{part} {garbage:?}: {error:?}");
            assert_eq!(files_ending(&fs, DIR, ".sst"), tables);
            fs.write_file(&path, &bytes).unwrap();
            assert_whole(&fs);
        }
    }
}

#[test]
fn a_truncated_table_is_corruption_that_names_it() {
    for keep in [0, 1, 4095, 4096] {
        let fs = filled(true);
        let path = find(&fs, ".sst");
        let bytes = fs.read_file(&path).unwrap();
        assert!(bytes.len() > 4096);
        change(&fs, &path, |bytes| bytes.truncate(keep));
        let error = refused(options(&fs), DIR);
        assert!(
            matches!(&error, Error::Corruption { file, .. } if *file == path),
            "{error:?}"
        );
        fs.write_file(&path, &bytes).unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn options_that_make_no_sense_are_named() {
    let keyspace = small_keyspace;
    let bad_keyspaces: Vec<(&str, KeyspaceOptions)> = vec![
        ("size_ratio", keyspace().size_ratio(1)),
        ("size_ratio", keyspace().size_ratio(1001)),
        ("write_buffer", keyspace().write_buffer(0)),
        ("write_buffer", keyspace().write_buffer(u64::MAX)),
        ("level0_runs", keyspace().level0_runs(0)),
        (
            "level0_slowdown",
            keyspace().level0_runs(9).level0_slowdown(3),
        ),
        (
            "level0_stall",
            keyspace().level0_stall(20).level0_slowdown(20),
        ),
        ("target_file", keyspace().target_file(1)),
        ("restart_interval", keyspace().restart_interval(0)),
        ("compression", keyspace().compression([])),
        (
            "compression",
            keyspace().compression([Compression::None; 65]),
        ),
        (
            "compression",
            keyspace().compression([Compression::Zstd(77)]),
        ),
        ("filter.bits_per_key", bits(-1.0)),
        ("filter.bits_per_key", bits(f64::NAN)),
        ("filter.bits_per_key", bits(f64::INFINITY)),
        (
            "filter.modules",
            keyspace().filter(FilterOptions::new().modules(17)),
        ),
        (
            "filter.module_sizes",
            keyspace().filter(
                FilterOptions::new().module_sizes(ModuleSizes::Proportional {
                    first_bits_per_key: f64::NAN,
                }),
            ),
        ),
    ];
    let fs = MemFs::new();
    let db = options(&fs).open("/good").unwrap();
    for (name, keyspace) in &bad_keyspaces {
        for bad in [
            options(&fs).keyspace(keyspace.clone()),
            options(&fs).keyspace_options("x", keyspace.clone()),
        ] {
            let error = refused(bad, DIR);
            assert!(
                matches!(&error, Error::InvalidOption { option, .. } if option == name),
                "{name}: {error:?}"
            );
            assert!(error.to_string().contains(name));
        }
        let error = db.create_keyspace("x", keyspace.clone()).unwrap_err();
        assert!(
            matches!(&error, Error::InvalidOption { option, .. } if option == name),
            "{name}: {error:?}"
        );
    }
    let memory = |bytes| options(&fs).memory(MemoryBudget::bytes(bytes));
    let least = refused(memory(MIN_MEMORY - 1), DIR).to_string();
    assert!(least.contains("the least is 1 MiB"), "{least}");
    let bad_options = [
        ("memory", memory(MIN_MEMORY - 1)),
        ("memory", memory(100)),
        ("background_threads", options(&fs).background_threads(1000)),
        ("max_open_files", options(&fs).max_open_files(0)),
        ("max_wal_bytes", options(&fs).max_wal_bytes(0)),
    ];
    for (name, bad) in bad_options {
        let error = refused(bad, DIR);
        assert!(
            matches!(&error, Error::InvalidOption { option, .. } if *option == name),
            "{name}: {error:?}"
        );
    }
    assert!(
        !fs.exists(Path::new(DIR)).unwrap(),
        "a refused open left a folder"
    );
    assert_eq!(db.keyspaces(), ["default"]);
}

fn bits(bits_per_key: f64) -> KeyspaceOptions {
    small_keyspace().filter(FilterOptions::new().bits_per_key(bits_per_key))
}

#[test]
fn names_of_keyspaces_are_checked() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    for name in [String::new(), "x".repeat(256)] {
        let error = db.create_keyspace(&name, small_keyspace()).unwrap_err();
        assert!(
            matches!(error, Error::InvalidOption { option: "name", .. }),
            "{error:?}"
        );
    }
    db.create_keyspace(&"x".repeat(255), small_keyspace())
        .unwrap();
    assert!(matches!(
        db.create_keyspace("default", small_keyspace()),
        Err(Error::KeyspaceExists { .. })
    ));
    assert!(matches!(
        db.drop_keyspace("default"),
        Err(Error::InvalidOption { .. })
    ));
    assert!(matches!(
        db.drop_keyspace("none"),
        Err(Error::KeyspaceNotFound { .. })
    ));
    assert!(matches!(
        db.keyspace("none"),
        Err(Error::KeyspaceNotFound { .. })
    ));
}

#[test]
fn keys_too_large_are_refused_and_values_go_into_files() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    fill(&db);
    // A 64th of the budget of 1 MiB.
    let longest = vec![b'k'; 16 << 10];
    db.put(&longest, b"v").unwrap();
    assert!(db.get(&longest).unwrap().is_some());
    db.delete(&longest).unwrap();
    let error = db.put(vec![b'k'; (16 << 10) + 1], b"v").unwrap_err();
    assert!(
        matches!(
            error,
            Error::KeyTooLarge {
                len: 16_385,
                max: 16_384,
                ..
            }
        ),
        "{error:?}"
    );
    // A sixteenth of the budget of 1 MiB.
    let max = 64 << 10;
    let mut rng = Rng::new(1);
    let largest = rng.bytes(max);
    db.put(b"large", &largest).unwrap();
    assert_eq!(
        db.get(b"large").unwrap().as_deref(),
        Some(largest.as_slice())
    );
    db.delete(b"large").unwrap();
    let files = |db: &Db| db.stats().keyspaces[0].values.files;
    assert_eq!(files(&db), 0);
    db.put(b"large", vec![0; max + 1]).unwrap();
    assert_eq!(files(&db), 1);
    assert_eq!(
        db.get(b"large").unwrap().as_deref(),
        Some(&vec![0; max + 1][..])
    );
    db.delete(b"large").unwrap();

    let mut batch = WriteBatch::new();
    batch.put(b"small", b"v");
    batch.put(b"large", vec![0; max + 1]);
    batch.put(&longest, b"v");
    batch.put(vec![b'k'; (16 << 10) + 1], b"v");
    assert!(matches!(db.write(batch), Err(Error::KeyTooLarge { .. })));
    assert!(db.get(b"small").unwrap().is_none());
    assert_eq!(db.stats().memory.budget.overdraft, 0);
    // A key that cannot exist is absent, not an error.
    assert!(db.get(vec![b'k'; 70_000]).unwrap().is_none());
    db.close().unwrap();
    assert_whole(&fs);
}

/// Operands have the bounds of values; empty ones, and the empty key, are as good as others.
#[test]
fn operands_are_as_large_as_values() {
    let (fs, max) = (MemFs::new(), 64 << 10);
    let options = || options(&fs).merge_operator("default", Append);
    let db = options().open(DIR).unwrap();
    let refused = |error: Error| {
        assert!(
            matches!(
                error,
                Error::ValueTooLarge { len, max: most, .. } if len == max + 1 && most == max
            ),
            "{error:?}"
        );
    };
    let too_large = vec![b'x'; max + 1];
    refused(db.merge("k", &too_large).unwrap_err());
    refused(db.default_keyspace().merge("k", &too_large).unwrap_err());
    refused(db.transaction().merge("k", &too_large).unwrap_err());
    let mut batch = WriteBatch::new();
    batch.merge("small", "v");
    batch.merge("k", &too_large);
    refused(db.write(batch).unwrap_err());
    let error = db.merge(vec![b'k'; (16 << 10) + 1], "v").unwrap_err();
    assert!(matches!(error, Error::KeyTooLarge { .. }), "{error:?}");
    assert!(db.is_empty().unwrap());

    let largest = Rng::new(1).bytes(max);
    let longest = vec![b'k'; 16 << 10];
    db.merge("large", &largest).unwrap();
    db.merge("large", "").unwrap();
    db.merge("large", "z").unwrap();
    db.merge("nothing", "").unwrap();
    db.merge("nothing", "").unwrap();
    db.merge("", "").unwrap();
    db.merge("", "a").unwrap();
    db.merge(&longest, "b").unwrap();
    let whole = [&largest[..], b"z"].concat();
    let check = |db: &Db| {
        let expected: [(&[u8], &[u8]); 4] = [
            (b"", b"a"),
            (&longest, b"b"),
            (b"large", &whole),
            (b"nothing", b""),
        ];
        for (key, value) in expected {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(value));
        }
        let entries = expected.map(|(key, value)| (key.to_vec(), value.to_vec()));
        let entries = entries.into_iter().collect();
        assert!(contents(&db.default_keyspace()).unwrap() == entries);
        assert_eq!(db.stats().memory.budget.overdraft, 0);
    };
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    db.close().unwrap();
    let db = options().open(DIR).unwrap();
    check(&db);
    db.verify().unwrap().check().unwrap();
}

/// What is too large for the budget is written once that is as large as the error names; what is
/// too large for any is told so.
#[test]
fn the_budget_named_for_what_is_too_large_is_enough() {
    let key = |len| vec![b'k'; len];
    let of_batch = |entries: u32| {
        let mut batch = WriteBatch::new();
        (0..entries).for_each(|number| batch.put(number.to_be_bytes(), [1; 5000]));
        batch
    };
    type Write<'a> = &'a dyn Fn(&Db) -> shamba::Result<()>;
    let writes: [Write<'_>; 4] = [
        &|db| db.put(key(16_385), "v"),
        &|db| db.put(key(65_535), "v"),
        &|db| {
            let mut transaction = db.transaction();
            transaction.merge("k", vec![1; (1 << 20) + 7])?;
            transaction.commit()
        },
        &|db| db.write(of_batch(400)),
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let memory = MemoryBudget::bytes(1 << 20);
        let options = options(&MemFs::new()).memory(memory.clone());
        let options = options.merge_operator("default", Append);
        let db = options.open(DIR).unwrap();
        let error = write(&db).unwrap_err();
        let (Error::KeyTooLarge { needed, .. }
        | Error::ValueTooLarge { needed, .. }
        | Error::BatchTooLarge { needed, .. }) = error
        else {
            panic!("{error}");
        };
        let needed = needed.unwrap();
        let advice = format!(", or raise the budget to {needed} bytes");
        assert!(error.to_string().ends_with(&advice), "{error}");
        memory.set_limit(needed - 16).unwrap();
        assert!(write(&db).is_err(), "{number}: {needed} is the least");
        memory.set_limit(needed).unwrap();
        write(&db).unwrap();
        assert_eq!(memory.usage().budget.overdraft, 0);
    }
    let options = options(&MemFs::new()).merge_operator("default", Append);
    let db = options.open(DIR).unwrap();
    for error in [
        db.put(key(65_536), "v").unwrap_err(),
        db.transaction()
            .merge("k", vec![1; (64 << 20) + 1])
            .unwrap_err(),
    ] {
        assert!(!error.to_string().contains("raise"), "{error}");
    }
}

#[test]
fn operands_are_a_share_of_the_budget_long_and_64_mib_at_most() {
    for (memory, max) in [(1 << 20, 64 << 10), (2 << 30, 64 << 20)] {
        let fs = MemFs::new();
        let options = options(&fs).memory(MemoryBudget::bytes(memory));
        let options = options.merge_operator("default", Append);
        let db = options.open(DIR).unwrap();
        let error = db.merge(b"k", vec![0; max + 1]).unwrap_err();
        assert!(
            matches!(error, Error::ValueTooLarge { max: most, .. } if most == max),
            "{error:?}"
        );
        // Writing 64 MiB shows nothing more.
        if max < 1 << 20 {
            db.merge(b"k", vec![1; max]).unwrap();
            assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&vec![1; max][..]));
        }
        // Values are as long as they are, alone and in transactions.
        let long = vec![2; max + 1];
        db.put(b"k", &long).unwrap();
        let mut transaction = db.transaction();
        transaction.put(b"l", &long).unwrap();
        transaction.commit().unwrap();
        for key in ["k", "l"] {
            assert_eq!(db.get_reader(key).unwrap().unwrap().len(), max as u64 + 1);
        }
    }
}

#[test]
fn keyspaces_and_snapshots_of_another_database_are_refused() {
    let (first, second) = (MemFs::new(), MemFs::new());
    let (first, second) = (
        options(&first).open(DIR).unwrap(),
        options(&second).open(DIR).unwrap(),
    );
    first.put(b"k", b"first").unwrap();
    second.put(b"k", b"second").unwrap();
    let foreign = first.default_keyspace();

    let mut batch = WriteBatch::new();
    batch.put_in(&foreign, b"k", b"v");
    let error = second.write(batch).unwrap_err();
    assert!(
        matches!(error, Error::WrongDatabase { what: "keyspace" }),
        "{error:?}"
    );

    let mut mixed = WriteBatch::new();
    mixed.put_in(&second.default_keyspace(), b"k", b"v");
    mixed.put_in(&foreign, b"k", b"v");
    for db in [&first, &second] {
        let error = db.write(mixed.clone()).unwrap_err();
        assert!(matches!(error, Error::WrongDatabase { .. }), "{error:?}");
    }
    assert!(matches!(
        second.compact_range_in(&foreign, None, None),
        Err(Error::WrongDatabase { .. })
    ));
    assert!(matches!(
        second.snapshot().get_in(&foreign, b"k"),
        Err(Error::WrongDatabase { .. })
    ));
    assert!(matches!(
        second.snapshot().multi_get_in(&foreign, &[b"k"]),
        Err(Error::WrongDatabase { .. })
    ));
    assert!(matches!(
        second.snapshot().contains_key_in(&foreign, b"k"),
        Err(Error::WrongDatabase { .. })
    ));
    assert!(matches!(
        second
            .snapshot()
            .cursor_in(&foreign, IterOptions::default()),
        Err(Error::WrongDatabase { .. })
    ));
    assert_eq!(first.get(b"k").unwrap().as_deref(), Some(&b"first"[..]));
    assert_eq!(second.get(b"k").unwrap().as_deref(), Some(&b"second"[..]));
}

#[test]
fn a_dropped_keyspace_is_gone_for_its_handles_and_harms_no_other_write() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    let gone = db.create_keyspace("gone", small_keyspace()).unwrap();
    gone.put(b"k", b"v").unwrap();
    let snapshot = db.snapshot();
    let mut iter = gone.cursor(IterOptions::default()).unwrap();
    db.drop_keyspace("gone").unwrap();

    let dropped =
        |error: Error| matches!(&error, Error::KeyspaceDropped { name } if name == "gone");
    assert!(dropped(gone.get(b"k").unwrap_err()));
    assert!(dropped(gone.put(b"k", b"v").unwrap_err()));
    assert!(dropped(gone.multi_get(&[b"k"]).unwrap_err()));
    assert!(dropped(gone.contains_key(b"k").unwrap_err()));
    assert!(dropped(gone.compact_range(None, None).unwrap_err()));
    assert!(dropped(
        gone.put_with(b"k", b"v", WriteOptions::synced())
            .unwrap_err()
    ));
    assert!(dropped(snapshot.multi_get_in(&gone, &[b"k"]).unwrap_err()));
    assert!(dropped(gone.cursor(IterOptions::default()).unwrap_err()));
    assert!(dropped(snapshot.get_in(&gone, b"k").unwrap_err()));
    assert!(dropped(db.compact_range_in(&gone, None, None).unwrap_err()));
    iter.seek_to_first().unwrap();
    assert_eq!((iter.key(), iter.value()), (&b"k"[..], &b"v"[..]));

    let mut batch = WriteBatch::new();
    batch.put(b"other", b"v");
    batch.put_in(&gone, b"k", b"v");
    assert!(dropped(db.write(batch).unwrap_err()));
    assert!(db.get(b"other").unwrap().is_none());
    db.put(b"other", b"v").unwrap();
    // A keyspace of the same name is another one.
    let again = db.create_keyspace("gone", small_keyspace()).unwrap();
    assert!(again.get(b"k").unwrap().is_none());
    assert!(dropped(gone.get(b"k").unwrap_err()));
}

#[test]
fn after_a_close_every_call_says_so() {
    let fs = MemFs::new();
    let options = || options(&fs).merge_operator("default", Append);
    let db = options().open(DIR).unwrap();
    fill(&db);
    let other = db.clone();
    let keyspace = db.default_keyspace();
    let snapshot = db.snapshot();
    let mut begun = db.transaction();
    begun.put(b"k", b"v").unwrap();
    let reading = db.transaction();
    db.close().unwrap();

    let mut batch = WriteBatch::new();
    batch.put(b"k", b"v");
    let lives = WriteOptions::new().ttl(Duration::from_secs(1));
    let add = |value: Option<&[u8]>| Some([value.unwrap_or_default(), b"+"].concat());
    let results: Vec<(&str, shamba::Result<()>)> = vec![
        ("merge", other.merge(b"k", b"v")),
        ("put_with", other.put_with(b"k", b"v", lives)),
        ("put_reader", other.put_reader(b"k", &b"v"[..])),
        ("get_reader", other.get_reader(b"k").map(drop)),
        ("delete_range", other.delete_range(..)),
        (
            "compare_and_swap",
            other.compare_and_swap(b"k", None, Some(b"v")).map(drop),
        ),
        ("fetch_update", other.fetch_update(b"k", add).map(drop)),
        ("transact", other.transact(|tx| tx.put(b"k", b"v"))),
        ("commit", begun.commit()),
        ("transaction get", reading.get(b"k").map(drop)),
        ("keyspace merge", keyspace.merge(b"k", b"v")),
        ("get", other.get(b"k").map(drop)),
        ("put", other.put(b"k", b"v")),
        ("delete", other.delete(b"k")),
        ("write", other.write(batch)),
        ("multi_get", other.multi_get(&[b"k"]).map(drop)),
        ("contains_key", other.contains_key(b"k").map(drop)),
        ("snapshot multi_get", snapshot.multi_get(&[b"k"]).map(drop)),
        ("iter", other.cursor(IterOptions::default()).map(drop)),
        ("flush", other.flush()),
        ("sync", other.sync()),
        ("compact_range", other.compact_range(None, None)),
        ("wait_for_compaction", other.wait_for_compaction()),
        ("checkpoint", other.checkpoint("/copy")),
        ("verify", other.verify().map(drop)),
        (
            "create_keyspace",
            other.create_keyspace("x", small_keyspace()).map(drop),
        ),
        ("drop_keyspace", other.drop_keyspace("x")),
        ("keyspace get", keyspace.get(b"k").map(drop)),
        ("keyspace put", keyspace.put(b"k", b"v")),
        ("snapshot get", snapshot.get(b"k").map(drop)),
        (
            "snapshot iter",
            snapshot.cursor(IterOptions::default()).map(drop),
        ),
    ];
    for (name, result) in results {
        assert!(matches!(result, Err(Error::Closed)), "{name}: {result:?}");
    }
    other.close().unwrap();
    // The folder is free, though handles are still held.
    assert_whole(&fs);
    drop((keyspace, snapshot));
    assert_whole(&fs);
}

#[test]
fn a_checkpoint_into_a_folder_in_use_is_refused() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    fill(&db);
    fs.create_dir_all(Path::new("/used")).unwrap();
    fs.write_file("/used/file", b"...").unwrap();
    for used in ["/used", DIR] {
        let error = db.checkpoint(used).unwrap_err();
        assert!(matches!(error, Error::NotEmpty { .. }), "{error:?}");
        assert!(error.to_string().contains(used), "{error}");
    }
    assert_eq!(fs.read_file("/used/file").unwrap(), b"...");
    db.close().unwrap();
    assert_whole(&fs);
}

#[test]
fn files_of_others_in_the_folder_stay() {
    let fs = filled(true);
    let note = Path::new("/db/README");
    let mut file = fs.create(note, Access::Buffered).unwrap();
    file.append(b"mine").unwrap();
    drop(file);
    assert_whole(&fs);
    assert_eq!(fs.read_file(note).unwrap(), b"mine");
}
