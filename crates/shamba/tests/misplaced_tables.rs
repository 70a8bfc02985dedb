//! A sound table in another's place is no answer: files swapped, or a copy of another history put back.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{contents, files_ending, small_options};
use shamba::Db;
use shamba::fs::MemFs;

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

/// Every read gives the right value or says what is wrong, and a verification names just these tables.
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
    let pair = tables.iter().enumerate().find_map(|(at, (name, len))| {
        let mut later = tables[at + 1..].iter();
        let other = later.find(|(_, other)| other == len)?;
        Some([name.as_str(), other.0.as_str()])
    });
    let pair = pair.expect("no two tables are equally long");
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

/// A checkpoint goes on from the numbers of its database: the same name, keys, counts, sequence numbers
/// and length, and other values.
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
