//! A sound log in another's place is no answer: one of a copy of the database, or of an earlier one
//! in the same folder, which has the same number and holds other values.

use std::path::Path;
use std::sync::Arc;

use crate::common::{files_ending, small_options};
use shamba::fs::{Fs, MemFs};
use shamba::{Db, Durability, RecoveryMode, WriteOptions};

fn open(fs: &MemFs, dir: &str) -> Db {
    let options = small_options(Arc::new(fs.clone())).background_threads(0);
    options.open(dir).unwrap()
}

fn put(db: &Db, value: u8) {
    let options = WriteOptions::new().durability(Durability::Synced);
    db.put_with("key", [value; 60], options).unwrap();
}

/// Of two processes that are killed, the one's log in the place of the other's.
fn exchanged(fs: &MemFs, from: &str, to: &str) -> (MemFs, String) {
    let fs = fs.kill_clone();
    let logs = [from, to].map(|dir| files_ending(&fs, dir, ".wal"));
    let name = logs[0].last().expect("no log").clone();
    assert_eq!(logs[1].last(), Some(&name), "their numbers differ");
    let bytes = fs.read_file(Path::new(from).join(&name)).unwrap();
    let path = Path::new(to).join(&name);
    assert_ne!(bytes, fs.read_file(&path).unwrap());
    fs.write_file(&path, &bytes).unwrap();
    (fs, name)
}

/// No read gives what the database never held, and everything says which log is wrong.
fn assert_noticed(fs: &MemFs, dir: &str, name: &str) {
    for mode in [
        RecoveryMode::TolerateTornTail,
        RecoveryMode::PointInTime,
        RecoveryMode::AbsoluteConsistency,
        RecoveryMode::SkipDamaged,
    ] {
        let fs = fs.deep_clone();
        let options = small_options(Arc::new(fs)).recovery(mode);
        match options.open(dir) {
            Ok(db) => assert_ne!(
                db.get("key").unwrap().as_deref(),
                Some(&[3; 60][..]),
                "{mode:?}"
            ),
            Err(error) => {
                assert!(error.is_corruption(), "{mode:?}: {error}");
                assert!(error.to_string().contains(name), "{mode:?}: {error}");
            }
        }
    }
    let strict = small_options(Arc::new(fs.clone()));
    assert!(
        strict.clone().open(dir).is_err(),
        "what was synced is not there"
    );
    let report = strict.verify(dir, |_, _| {});
    assert!(report.is_err() || report.unwrap().damaged.iter().any(|file| file.file == name));
}

#[test]
fn a_log_of_a_copy_that_went_another_way_is_noticed() {
    let fs = MemFs::new();
    let db = open(&fs, "/db");
    put(&db, 1);
    db.flush().unwrap();
    db.checkpoint("/copy").unwrap();
    let mut both = vec![db, open(&fs, "/copy")];
    let newest = |dir| files_ending(&fs, dir, ".wal").pop();
    // To open a database takes a number, and to write and close it two more: whichever has taken
    // fewer is closed, and opened again once or twice.
    for opened in [1, 2].repeat(10) {
        put(&both[0], 2);
        put(&both[1], 3);
        let (db, copy) = (newest("/db"), newest("/copy"));
        if db == copy {
            break;
        }
        let behind = usize::from(copy < db);
        for _ in 0..opened {
            both.remove(behind).close().unwrap();
            both.insert(behind, open(&fs, ["/db", "/copy"][behind]));
        }
    }
    let (fs, name) = exchanged(&fs, "/copy", "/db");
    assert_noticed(&fs, "/db", &name);
}

#[test]
fn a_log_of_an_earlier_database_in_the_folder_is_noticed() {
    let [old, new] = [3, 2].map(|value| {
        let fs = MemFs::new();
        let db = open(&fs, "/db");
        put(&db, value);
        (fs, db)
    });
    let [old, new] = [&old.0, &new.0].map(MemFs::kill_clone);
    let name = files_ending(&old, "/db", ".wal").pop().expect("no log");
    let path = Path::new("/db").join(&name);
    assert!(new.read_file(&path).is_ok(), "their numbers differ");
    new.write_file(&path, &old.read_file(&path).unwrap())
        .unwrap();
    assert_noticed(&new, "/db", &name);
}

/// The manifest of a copy that has the same number and is longer is no manifest of this database:
/// nothing is removed because it does not name it.
#[test]
fn a_manifest_of_a_copy_or_of_another_database_is_noticed() {
    for unrelated in [false, true] {
        let fs = MemFs::new();
        let db = open(&fs, "/db");
        put(&db, 1);
        let copy = if unrelated {
            open(&fs, "/copy")
        } else {
            db.flush().unwrap();
            db.checkpoint("/copy").unwrap();
            open(&fs, "/copy")
        };
        let design = |size_ratio| copy.default_keyspace().design().size_ratio(size_ratio);
        (2..40).for_each(|ratio| copy.redesign(design(ratio)).unwrap());
        db.put("new", "value").unwrap();
        db.close().unwrap();
        copy.close().unwrap();
        let manifest = |dir: &str| {
            let mut names = fs.list(Path::new(dir)).unwrap().into_iter();
            let found = names.find(|entry| entry.name.starts_with("MANIFEST"));
            found.unwrap()
        };
        // Their numbers may differ; the name is what CURRENT says.
        let (own, other) = (manifest("/db"), manifest("/copy"));
        assert!(other.len > own.len, "its length would tell");
        let bytes = fs.read_file(Path::new("/copy").join(other.name)).unwrap();
        let path = Path::new("/db").join(&own.name);
        fs.write_file(&path, &bytes).unwrap();
        let tables = files_ending(&fs, "/db", ".sst");
        let options = small_options(Arc::new(fs.clone()));
        for options in [options.clone(), options.clone().read_only(true)] {
            let error = options.open("/db").unwrap_err();
            assert!(error.is_corruption(), "{error}");
            assert!(error.to_string().contains(&own.name), "{error}");
        }
        assert!(options.verify("/db", |_, _| {}).is_err());
        assert_eq!(files_ending(&fs, "/db", ".sst"), tables);
    }
}
