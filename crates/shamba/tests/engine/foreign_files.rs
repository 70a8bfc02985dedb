//! Files in a database's folder that are not the engine's: whatever they are called, they are left
//! alone and keep the database from nothing.

use std::path::Path;
use std::sync::Arc;

use crate::common::{files_ending, small_options};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};
use shamba::{Db, Options};

const DIR: &str = "/db";

/// Names like the engine's, but not quite.
const NAMES: [&str; 12] = [
    "18446744073709551615.txt",
    "18446744073709551615.sst",
    "18446744073709551615.wal",
    "MANIFEST-18446744073709551615",
    "MANIFEST-000001.bak",
    "MARKS-1",
    "7.wal",
    "0000003.wal",
    "+00007.sst",
    "000001.sst.bak",
    "notes.tmp",
    "README",
];

fn options(fs: &MemFs) -> Options {
    small_options(Arc::new(fs.clone()))
}

fn fill(db: &Db, from: u32) {
    for number in from..from + 300 {
        db.put(number.to_be_bytes(), [7; 60]).unwrap();
    }
}

#[test]
fn names_like_the_engines_are_not_the_engines() {
    for killed in [false, true] {
        let fs = MemFs::new();
        let db = options(&fs).open(DIR).unwrap();
        fill(&db, 0);
        let fs = if killed {
            fs.kill_clone()
        } else {
            db.close().unwrap();
            fs
        };
        let path = |name: &str| Path::new(DIR).join(name);
        for name in NAMES {
            fs.write_file(path(name), b"").unwrap();
        }
        for round in 1..4 {
            assert!(options(&fs).read_only(true).open(DIR).is_ok());
            assert!(options(&fs).verify(DIR, |_, _| {}).unwrap().is_sound());
            let db = options(&fs).open(DIR).unwrap();
            fill(&db, 300 * round);
            db.flush().unwrap();
            for number in 0..300 * (round + 1) {
                assert!(db.get(number.to_be_bytes()).unwrap().is_some(), "{number}");
            }
            db.close().unwrap();
        }
        for name in NAMES {
            assert!(fs.exists(&path(name)).unwrap(), "{name} is gone");
        }
    }
}

/// What nobody needs goes before an open needs room itself.
#[test]
fn orphans_make_room_for_the_open_that_removes_them() {
    let fs = MemFs::new();
    let db = options(&fs).open(DIR).unwrap();
    fill(&db, 0);
    db.close().unwrap();
    let orphan = Path::new(DIR).join("999998.sst");
    fs.write_file(&orphan, &[7; 100_000]).unwrap();
    let tables = files_ending(&fs, DIR, ".sst").len();
    let faults = Faults::new();
    faults.add(
        Fault::new(Effect::Fail(FaultError::ENOSPC))
            .on(Op::Append)
            .forever(),
    );
    let full = FaultFs::new(Arc::new(fs.clone()), faults);
    assert!(small_options(Arc::new(full)).open(DIR).is_err());
    assert!(!fs.exists(&orphan).unwrap(), "it still takes the room");
    assert_eq!(files_ending(&fs, DIR, ".sst").len(), tables - 1);
    let db = options(&fs).open(DIR).unwrap();
    assert!(db.get(7u32.to_be_bytes()).unwrap().is_some());
}
