//! A sound table in another's place is no answer: files swapped, or a copy of another history put
//! back.

use std::path::Path;
use std::sync::Arc;

use crate::common::{contents, files_ending, small_keyspace, small_options};
use shamba::fs::MemFs;
use shamba::{Db, FilterPolicy};

const KEYS: u32 = 400;

fn open(fs: &MemFs, dir: &str) -> Db {
    let options = small_options(Arc::new(fs.clone())).background_threads(0);
    options.open(dir).unwrap()
}

/// Writes all keys with one value, as tables of their own.
fn write(db: &Db, value: u8) {
    for number in 0..KEYS {
        db.put(number.to_be_bytes(), [value; 60]).unwrap();
    }
    db.flush().unwrap();
}

fn lengths(fs: &MemFs, dir: &str) -> Vec<(String, usize)> {
    let names = files_ending(fs, dir, ".sst");
    let length = |name: String| {
        let len = fs.read_file(Path::new(dir).join(&name)).unwrap().len();
        (name, len)
    };
    names.into_iter().map(length).collect()
}

/// Two tables of one length.
fn equally_long(tables: &[(String, usize)]) -> [&str; 2] {
    let pair = tables.iter().enumerate().find_map(|(at, (name, len))| {
        let mut later = tables[at + 1..].iter();
        let other = later.find(|(_, other)| other == len)?;
        Some([name.as_str(), other.0.as_str()])
    });
    pair.expect("no two tables are equally long")
}

/// Every read gives the right value or says what is wrong, and a verification names just these
/// tables.
fn assert_noticed(fs: &MemFs, dir: &str, misplaced: &[&str], value: u8) {
    let found = small_options(Arc::new(fs.clone()))
        .verify(dir, |_, _| {})
        .unwrap();
    let names: Vec<&str> = found.damaged.iter().map(|file| &*file.file).collect();
    assert_eq!(names, misplaced);
    for file in &found.damaged {
        assert!(file.first[0].what.contains("manifest"), "{file:?}");
    }
    let db = open(fs, dir);
    let mut refused = 0;
    for number in 0..KEYS {
        match db.get(number.to_be_bytes()) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&[value; 60][..]), "{number}"),
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    assert!(
        contents(&db.default_keyspace())
            .unwrap_err()
            .is_corruption()
    );
    assert_eq!(
        db.verify().unwrap().damaged_files,
        misplaced.len() as u64,
        "of an open database"
    );
}

#[test]
fn swapped_tables_are_noticed() {
    let fs = MemFs::new();
    let db = open(&fs, "/db");
    write(&db, 1);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let tables = lengths(&fs, "/db");
    let pair = equally_long(&tables);
    let [a, b] = pair.map(|name| Path::new("/db").join(name));
    let bytes = [&a, &b].map(|path| fs.read_file(path).unwrap());
    fs.write_file(&a, &bytes[1]).unwrap();
    fs.write_file(&b, &bytes[0]).unwrap();
    assert_noticed(&fs, "/db", &pair, 1);
    fs.write_file(&a, &bytes[0]).unwrap();
    fs.write_file(&b, &bytes[1]).unwrap();
    let db = open(&fs, "/db");
    assert_eq!(
        contents(&db.default_keyspace()).unwrap().len(),
        KEYS as usize
    );
    db.verify().unwrap().check().unwrap();
}

/// A checkpoint goes on from the numbers of its database: the same name, keys, counts, sequence
/// numbers and length, and other values.
#[test]
fn a_table_of_the_same_number_from_another_history_is_noticed() {
    let fs = MemFs::new();
    let db = open(&fs, "/db");
    write(&db, 1);
    db.checkpoint("/copy").unwrap();
    let shared = files_ending(&fs, "/db", ".sst");
    let copy = open(&fs, "/copy");
    // The checkpoint's open took numbers, and so must the other's.
    db.close().unwrap();
    let db = open(&fs, "/db");
    for _ in 0..3 {
        write(&db, 2);
        write(&copy, 3);
    }
    db.close().unwrap();
    copy.close().unwrap();
    let both = lengths(&fs, "/copy");
    let newest = lengths(&fs, "/db")
        .into_iter()
        .rfind(|file| both.contains(file) && !shared.contains(&file.0))
        .expect("no table of the same name and length");
    let from = Path::new("/copy").join(&newest.0);
    let bytes = fs.read_file(from).unwrap();
    fs.write_file(Path::new("/db").join(&newest.0), &bytes)
        .unwrap();
    assert_noticed(&fs, "/db", &[&newest.0], 2);
}

/// Single pages of two tables swapped, at the same place of both, with all their checksums right:
/// each belongs to its table. Fails where a block's checksum does not start from what is the
/// table's own.
#[test]
fn blocks_of_another_table_are_noticed() {
    const PAGE: usize = 4096;
    let fs = MemFs::new();
    let open = || {
        let keyspace = small_keyspace()
            .write_buffer(64 << 10)
            .target_file(32 << 10)
            .filter_policy(FilterPolicy::All);
        let options = small_options(Arc::new(fs.clone())).keyspace(keyspace);
        options.open("/db").unwrap()
    };
    let db = open();
    let keys = 4 * KEYS;
    for number in 0..keys {
        db.put((2 * number).to_be_bytes(), [7; 60]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let tables = lengths(&fs, "/db");
    let names = equally_long(&tables);
    let pair = names.map(|name| Path::new("/db").join(name));
    let whole = pair.each_ref().map(|path| fs.read_file(path).unwrap());
    let pages = whole[0].len() / PAGE;
    // How many pages lookups and scans refuse, and how many they go on without: those of filters.
    let (mut of_gets, mut of_scans, mut of_filters) = (0, 0, 0);
    for page in 0..pages {
        let mut swapped = whole.clone();
        let [a, b] = &mut swapped;
        let place = page * PAGE..(page + 1) * PAGE;
        a[place.clone()].swap_with_slice(&mut b[place]);
        assert_ne!(swapped, whole);
        for (path, bytes) in pair.iter().zip(&swapped) {
            fs.write_file(path, bytes).unwrap();
        }
        let verified = small_options(Arc::new(fs.clone())).verify("/db", |_, _| {});
        let damaged = verified.unwrap().damaged;
        let named: Vec<&str> = damaged.iter().map(|file| &*file.file).collect();
        assert_eq!(named, names, "page {page}: {damaged:?}");
        let db = open();
        let mut refused = 0;
        for number in 0..2 * keys {
            let wanted = number.is_multiple_of(2).then_some(&[7; 60][..]);
            match db.get(number.to_be_bytes()) {
                Ok(found) => assert_eq!(found.as_deref(), wanted, "page {page}"),
                Err(error) => {
                    assert!(error.is_corruption(), "page {page}: {error}");
                    refused += 1;
                }
            }
        }
        let filters = db.stats().counters.corrupt_filters;
        of_filters += usize::from(filters > 0);
        of_gets += usize::from(refused > 0);
        match contents(&db.default_keyspace()) {
            Ok(all) => {
                assert_eq!(all.len(), keys as usize, "page {page}");
                assert!(all.values().all(|value| *value == [7; 60]));
            }
            Err(error) => {
                assert!(error.is_corruption(), "page {page}: {error}");
                of_scans += 1;
            }
        }
        drop(db);
    }
    println!(
        "{pages} pages: lookups refuse {of_gets} and do without {of_filters}, scans refuse {of_scans}"
    );
    assert_eq!(of_gets + of_filters, pages, "a page that nobody reads");
    // Scans need data blocks and the footer only.
    assert!(
        of_filters > 0 && of_scans * 2 > pages,
        "{of_scans} of {pages}"
    );
    for (path, bytes) in pair.iter().zip(&whole) {
        fs.write_file(path, bytes).unwrap();
    }
    assert_eq!(
        contents(&open().default_keyspace()).unwrap().len(),
        keys as usize
    );
}
