//! A checkpoint that fails leaves nothing behind, and can be made again in the same folder.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{contents, small_options};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op, OsFs};
use shamba::{Db, Error};

/// A database in tables, its file system, and the faults to give it.
fn a_thousand_entries() -> (Db, MemFs, Faults) {
    let fs = MemFs::new();
    let faults = Faults::new();
    let options = small_options(Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone())));
    let db = options.open("/db").unwrap();
    for number in 0..1000u32 {
        db.put(number.to_be_bytes(), [1; 60]).unwrap();
    }
    db.flush().unwrap();
    (db, fs, faults)
}

/// Fails where a file that can have no other name is not copied.
#[test]
fn what_cannot_be_linked_is_copied() {
    const EPERM: i32 = 1;
    const EXDEV: i32 = 18;
    const EMLINK: i32 = 31;
    const EOPNOTSUPP: i32 = 95;
    for error in [EPERM, EXDEV, EMLINK, EOPNOTSUPP] {
        let (db, fs, faults) = a_thousand_entries();
        // Some of them: a file may have as many names as there is room for, and the next one none.
        let fault = Fault::new(Effect::Fail(FaultError::Os(error))).on(Op::Link);
        faults.add(fault.after(1).forever());
        db.checkpoint("/copy").unwrap();
        assert!(faults.fired() > 1, "{error}");
        db.close().unwrap();
        let copy = small_options(Arc::new(fs)).create_if_missing(false);
        let copy = copy.open("/copy").unwrap();
        assert!(copy.verify().unwrap().is_sound());
        assert_eq!(contents(&copy.default_keyspace()).unwrap().len(), 1000);
        copy.close().unwrap();
    }
}

#[test]
fn a_checkpoint_that_fails_anywhere_leaves_nothing_but_a_lock() {
    let (db, fs, faults) = a_thousand_entries();
    let to = Path::new("/copy");
    let mut failures = 0;
    for op in [
        Op::Create,
        Op::Append,
        Op::Sync,
        Op::Link,
        Op::Rename,
        Op::SyncDir,
    ] {
        for number in 0.. {
            let fault = Fault::new(Effect::Fail(FaultError::ENOSPC)).on(op);
            faults.clear();
            faults.reset_counts();
            faults.add(fault.after(number));
            let copied = db.checkpoint(to);
            if faults.fired() == 0 {
                copied.unwrap();
                break;
            }
            failures += 1;
            let error = copied.unwrap_err();
            assert!(
                matches!(&error, Error::Io { .. }),
                "{op:?} {number}: {error}"
            );
            if fs.exists(to).unwrap() {
                let left = fs.list(to).unwrap();
                let lock = left.iter().all(|entry| entry.name == "LOCK");
                assert!(lock, "{op:?} {number}: {left:?}");
            }
        }
        faults.clear();
        assert!(matches!(db.checkpoint(to), Err(Error::NotEmpty { .. })));
        let copy = small_options(Arc::new(fs.clone()));
        let copy = copy.create_if_missing(false).open(to).unwrap();
        assert_eq!(contents(&copy.default_keyspace()).unwrap().len(), 1000);
        copy.close().unwrap();
        for entry in fs.list(to).unwrap() {
            fs.remove(&to.join(entry.name)).unwrap();
        }
    }
    assert!(failures > 10, "only {failures} failures");
    db.verify().unwrap().check().unwrap();
    assert_eq!(contents(&db.default_keyspace()).unwrap().len(), 1000);
}

/// Files that others put into the folder meanwhile are not the checkpoint's to remove.
#[test]
fn a_failed_checkpoint_removes_nothing_of_others() {
    let fs = MemFs::new();
    let faults = Faults::new();
    let options = small_options(Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone())));
    let db = options.open("/db").unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    let other = fs.clone();
    faults.set_hook(Some(Arc::new(move |op, path: &Path| {
        if op == Op::Link && path.starts_with("/copy") {
            other.write_file("/copy/note", b"mine").unwrap();
        }
    })));
    faults.add(Fault::new(Effect::Fail(FaultError::EIO)).on(Op::Rename));
    db.checkpoint("/copy").unwrap_err();
    faults.set_hook(None);
    let left = fs.list(Path::new("/copy")).unwrap();
    let names: Vec<_> = left.into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["LOCK", "note"]);
}

/// Two checkpoints to one folder at once: one is whole, and the other is refused and harms nothing,
/// be it first while the other is under way or long before.
#[test]
fn of_two_checkpoints_to_one_folder_one_is_whole() {
    for meet_at in [Op::CreateDir, Op::Lock, Op::Link, Op::Create, Op::Rename] {
        let fs = MemFs::new();
        let faults = Faults::new();
        let faulty = FaultFs::new(Arc::new(fs.clone()), faults.clone());
        let db = small_options(Arc::new(faulty)).open("/db").unwrap();
        for number in 0..1000u32 {
            db.put(number.to_be_bytes(), [1; 60]).unwrap();
        }
        db.flush().unwrap();
        let second = Arc::new(Mutex::new(None));
        let (other, result) = (db.clone(), second.clone());
        let begun = AtomicBool::new(false);
        faults.set_hook(Some(Arc::new(move |op, path: &Path| {
            let there = path.starts_with("/copy");
            if op == meet_at && there && !begun.swap(true, Ordering::SeqCst) {
                *result.lock().unwrap() = Some(other.checkpoint("/copy"));
            }
        })));
        let first = db.checkpoint("/copy");
        faults.set_hook(None);
        let second = second.lock().unwrap().take().expect("never met");
        let refused = match (&first, &second) {
            (Ok(()), Err(error)) | (Err(error), Ok(())) => error,
            both => panic!("{meet_at:?}: {both:?}"),
        };
        assert!(
            matches!(refused, Error::Locked { .. } | Error::NotEmpty { .. }),
            "{meet_at:?}: {refused}"
        );
        let copy = small_options(Arc::new(fs.clone()));
        let copy = copy.create_if_missing(false).open("/copy").unwrap();
        copy.verify().unwrap().check().unwrap();
        assert_eq!(contents(&copy.default_keyspace()).unwrap().len(), 1000);
    }
}

/// The same with threads, on the system's files.
#[test]
fn checkpoints_race_for_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let options = || small_options(Arc::new(OsFs::new()));
    let db = options().open(dir.path().join("db")).unwrap();
    for number in 0..300u32 {
        db.put(number.to_be_bytes(), [1; 60]).unwrap();
    }
    db.flush().unwrap();
    for round in 0..30 {
        let to = dir.path().join(format!("copy{round}"));
        let results = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(|| db.checkpoint(&to)));
            threads.map(|thread| thread.join().unwrap())
        });
        let made = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(made, 1, "round {round}: {results:?}");
        let copy = options().create_if_missing(false).open(&to).unwrap();
        assert_eq!(contents(&copy.default_keyspace()).unwrap().len(), 300);
    }
}

#[test]
fn a_table_with_too_many_names_is_copied() {
    const EMLINK: i32 = 31;
    let fs = MemFs::new();
    let faults = Faults::new();
    let faulty = FaultFs::new(Arc::new(fs.clone()), faults.clone());
    let db = small_options(Arc::new(faulty)).open("/db").unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    let full = Fault::new(Effect::Fail(FaultError::Os(EMLINK))).on(Op::Link);
    faults.add(full.forever());
    db.checkpoint("/copy").unwrap();
    assert!(faults.fired() > 0);
    let copy = small_options(Arc::new(fs)).open("/copy").unwrap();
    assert_eq!(contents(&copy.default_keyspace()).unwrap().len(), 1);
}

/// A folder that one attempt made and could not make durable is made durable by the next.
#[test]
fn a_folder_that_is_left_of_a_failed_checkpoint_is_durable_after_the_next() {
    const EMFILE: FaultError = FaultError::Os(24);
    let copy = Path::new("/copies/monday/db");
    for nth in 0..4 {
        let (fs, faults) = (MemFs::new(), Faults::new());
        let wrapped = FaultFs::new(Arc::new(fs.clone()), faults.clone());
        let db = small_options(Arc::new(wrapped)).open("/db").unwrap();
        db.put("k", "v").unwrap();
        db.flush().unwrap();
        let fault = Fault::new(Effect::Fail(EMFILE)).on(Op::SyncDir);
        faults.add(fault.after(nth));
        db.checkpoint(copy).unwrap_err();
        db.checkpoint(copy).unwrap();
        for seed in 0..8 {
            let left = small_options(Arc::new(fs.crash_clone(seed)));
            let left = left.create_if_missing(false).open(copy).unwrap();
            assert_eq!(left.get("k").unwrap().as_deref(), Some(&b"v"[..]));
        }
    }
}
