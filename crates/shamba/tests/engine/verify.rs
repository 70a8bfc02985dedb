//! A verification goes to the end, and says of each damaged file what is wrong with it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::common::{files_ending, small_keyspace, small_options};
use shamba::fs::{Fs, MemFs};
use shamba::{Db, Error, MemoryBudget, Role};

const DIR: &str = "/db";

/// A database of many tables in two keyspaces, closed.
fn filled() -> MemFs {
    let fs = MemFs::new();
    let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    for number in 0..1500u32 {
        let key = number.wrapping_mul(2_654_435_761).to_be_bytes();
        db.put(key, [1; 60]).unwrap();
        other.put(key, [2; 60]).unwrap();
    }
    db.close().unwrap();
    fs
}

fn open(fs: &MemFs) -> Db {
    small_options(Arc::new(fs.clone())).open(DIR).unwrap()
}

fn damage(fs: &MemFs, name: &str, how: impl FnOnce(&mut Vec<u8>)) {
    let path = Path::new(DIR).join(name);
    let mut bytes = fs.read_file(&path).unwrap();
    how(&mut bytes);
    fs.write_file(&path, &bytes).unwrap();
}

#[test]
fn all_damage_is_found_and_told_file_by_file() {
    let fs = filled();
    let db = open(&fs);
    let sound = db.verify().unwrap();
    assert!(sound.is_sound() && sound.damaged.is_empty());
    sound.check().unwrap();
    let tables = files_ending(&fs, DIR, ".sst");
    assert_eq!(sound.tables, tables.len() as u64);
    assert!(tables.len() > 8);
    db.close().unwrap();

    // One with its first block damaged, one with every page, one cut short, one of another's bytes,
    // one that is gone.
    let name = |number: usize| tables[number].as_str();
    damage(&fs, name(0), |bytes| bytes[100] ^= 1);
    damage(&fs, name(2), |bytes| {
        let last = bytes.len() - 4096;
        (50..last).step_by(4096).for_each(|at| bytes[at] ^= 1);
    });
    damage(&fs, name(3), |bytes| bytes.truncate(4096));
    let copy = fs.read_file(Path::new(DIR).join(name(5))).unwrap();
    damage(&fs, name(4), |bytes| *bytes = copy);
    fs.remove(&Path::new(DIR).join(name(7))).unwrap();

    // A missing table keeps the database from opening, but not from being looked at.
    let options = || small_options(Arc::new(fs.clone()));
    assert!(options().open(DIR).unwrap_err().is_corruption());
    let before = fs.files();
    let mut told = Vec::new();
    let found = options()
        .verify(DIR, |done, total| told.push((done, total)))
        .unwrap();
    assert_eq!(fs.files(), before);
    let all = tables.len();
    assert_eq!(told, (1..=all).map(|done| (done, all)).collect::<Vec<_>>());
    assert_eq!((found.tables, found.damaged_files), (sound.tables, 5));
    assert!(found.entries < sound.entries && found.entries > 0);
    let names: BTreeSet<&str> = found.damaged.iter().map(|file| &*file.file).collect();
    assert_eq!(names, [0, 2, 3, 4, 7].map(name).into());
    let of = |number: usize| {
        let mut files = found.damaged.iter();
        files.find(|file| file.file == name(number)).unwrap()
    };
    assert_eq!(of(0).first[0].offset, Some(0));
    assert!(of(0).first[0].what.contains("checksum"), "{:?}", of(0));
    assert!(of(2).problems > 1, "{:?}", of(2));
    assert!(of(3).first[0].what.contains("bytes long"), "{:?}", of(3));
    assert!(of(4).first[0].what.contains("manifest"), "{:?}", of(4));
    assert!(of(7).first[0].what.contains("missing"), "{:?}", of(7));
    let sum: u64 = found.damaged.iter().map(|file| file.problems).sum();
    assert_eq!(found.problems, sum);
    for file in &found.damaged {
        assert!(file.first.len() as u64 <= file.problems && file.first.len() <= 8);
        let keyspace = file.keyspace.as_deref().unwrap();
        assert!(["default", "other"].contains(&keyspace));
    }
    let error = found.check().unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let json = serde_json::to_string(&found).unwrap();
    assert!(json.contains(name(7)), "{json}");
}

/// Fails where the names and lengths of a folder's files are held beside the budget.
#[test]
fn what_a_verification_lists_is_charged() {
    let fs = filled();
    let tables = files_ending(&fs, DIR, ".sst").len() as u64;
    let memory = MemoryBudget::bytes(1 << 20);
    let options = small_options(Arc::new(fs)).memory(memory.clone());
    let listed = || {
        let by_role = memory.usage().budget.by_role;
        let listed = by_role.iter().find(|(role, _)| *role == Role::Tables);
        listed.unwrap().1
    };
    let mut least = u64::MAX;
    let found = options.verify(DIR, |_, _| least = least.min(listed()));
    assert!(found.unwrap().is_sound());
    assert!(least >= 100 * tables, "{least} bytes for {tables} tables");
    assert_eq!((listed(), memory.usage().budget.overdraft), (0, 0));
}

/// What a damaged file is for decides what to do about it.
#[test]
fn a_damaged_manifest_says_that_nothing_can_be_verified() {
    let fs = filled();
    let files = fs.files();
    let manifest = files
        .iter()
        .find(|path| path.to_string_lossy().contains("MANIFEST"));
    let name = manifest.unwrap().file_name().unwrap().to_str().unwrap();
    damage(&fs, name, |bytes| bytes[30] ^= 1);
    let error = small_options(Arc::new(fs.clone()))
        .verify(DIR, |_, _| panic!("a table was looked at"))
        .unwrap_err();
    let opened = small_options(Arc::new(fs)).open(DIR).unwrap_err();
    assert_eq!(error.to_string(), opened.to_string());
    assert!(matches!(&error, Error::Corruption { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(name) && text.contains("which tables make up the database"),
        "{text}"
    );
    assert!(!text.contains("verify"), "{text}");
}

/// An open database is checked too, as far as its tables go.
#[test]
fn an_open_database_tells_its_damage_and_goes_on() {
    let fs = filled();
    let db = open(&fs);
    let tables = files_ending(&fs, DIR, ".sst");
    for number in [1, 6] {
        damage(&fs, &tables[number], |bytes| bytes[100] ^= 1);
    }
    let mut told = 0;
    let found = db.verify_with_progress(|_, _| told += 1).unwrap();
    assert_eq!((told, found.damaged_files), (tables.len(), 2));
    let names: Vec<_> = found.damaged.iter().map(|file| &file.file).collect();
    assert!(names.contains(&&tables[1]) && names.contains(&&tables[6]));
    assert!(found.check().is_err());
    let locked = small_options(Arc::new(fs.clone())).verify(DIR, |_, _| ());
    assert!(matches!(locked, Err(Error::Locked { .. })), "{locked:?}");
}

#[test]
fn a_damaged_log_is_told_beside_the_tables() {
    let fs = filled();
    let db = open(&fs);
    for number in 0..20u32 {
        let synced = shamba::WriteOptions::synced();
        db.put_with(number.to_be_bytes(), [3; 30], synced).unwrap();
    }
    let killed = fs.kill_clone();
    drop(db);
    let logs = files_ending(&killed, DIR, ".wal");
    damage(&killed, logs.last().unwrap(), |bytes| bytes[60] ^= 1);
    let found = small_options(Arc::new(killed)).verify(DIR, |_, _| ());
    let found = found.unwrap();
    assert_eq!(found.damaged_files, 1, "{found:?}");
    let damaged = &found.damaged[0];
    assert_eq!(
        (&damaged.file, &damaged.keyspace),
        (logs.last().unwrap(), &None)
    );
    let nothing = small_options(Arc::new(MemFs::new())).verify("/none", |_, _| ());
    assert!(
        matches!(nothing, Err(Error::NotFound { .. })),
        "{nothing:?}"
    );
}

/// What is in no table yet is read and counted as well.
#[test]
fn logs_are_read_and_counted() {
    let fs = MemFs::new();
    let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
    let other = db.create_keyspace("other", small_keyspace()).unwrap();
    let mut batch = shamba::WriteBatch::new();
    for number in 0..30u32 {
        batch.put(number.to_be_bytes(), [1; 60]);
        batch.delete_in(&other, number.to_be_bytes());
    }
    db.write(batch).unwrap();
    let killed = fs.kill_clone();
    let options = |fs: &MemFs| small_options(Arc::new(fs.clone()));
    for options in [options(&killed), options(&killed).read_only(true)] {
        let found = options.verify(DIR, |_, _| ()).unwrap();
        found.check().unwrap();
        assert_eq!((found.tables, found.entries, found.logs), (0, 0, 1));
        assert_eq!((found.log_operations, found.unflushed_operations), (60, 60));
        assert!(found.log_bytes > 30 * 64);
    }
    // What of a log is in tables already is told apart; a table keeps no delete of nothing.
    db.flush().unwrap();
    db.put("later", "1").unwrap();
    let found = options(&fs.kill_clone()).verify(DIR, |_, _| ()).unwrap();
    assert_eq!((found.entries, found.unflushed_operations), (30, 1));
    drop((db, other));
    let found = options(&fs).verify(DIR, |_, _| ()).unwrap();
    assert_eq!(
        (found.logs, found.log_operations, found.entries),
        (0, 0, 31)
    );
    // Of a log that is damaged, what can be read.
    let logs = files_ending(&killed, DIR, ".wal");
    damage(&killed, logs.last().unwrap(), |bytes| {
        let more = bytes.clone();
        bytes.extend_from_slice(&more);
    });
    let found = options(&killed).recovery(shamba::RecoveryMode::AbsoluteConsistency);
    let found = found.verify(DIR, |_, _| ()).unwrap();
    assert_eq!((found.problems, found.log_operations), (1, 60), "{found:?}");
}
