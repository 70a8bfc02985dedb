//! A checkpoint that fails leaves nothing behind, and can be made again in the same folder.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{contents, small_options};
use shamba::Error;
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs, Op};

#[test]
fn a_checkpoint_that_fails_anywhere_leaves_an_empty_folder() {
    let fs = MemFs::new();
    let faults = Faults::new();
    let options = small_options(Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone())));
    let db = options.open("/db").unwrap();
    for number in 0..1000u32 {
        db.put(number.to_be_bytes(), [1; 60]).unwrap();
    }
    db.flush().unwrap();
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
                assert!(left.is_empty(), "{op:?} {number}: {left:?}");
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
    assert_eq!(names, ["note"]);
}
