//! A database's folder is free again as soon as its database is closed.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shamba::{Error, Options};

/// A process that is being started has, until it executes its program, a copy of every descriptor
/// of the one that starts it, that of `LOCK` too.
#[test]
fn a_closed_database_opens_again_while_other_threads_start_processes() {
    const OPENS: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let (done, started) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut locked = 0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    Command::new("/bin/true").status().unwrap();
                    started.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..OPENS {
            let options = Options::new().create_if_missing(true).background_threads(0);
            match options.open(dir.path()) {
                Ok(db) => db.close().unwrap(),
                Err(Error::Locked { .. }) => locked += 1,
                Err(error) => panic!("{error}"),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(started.load(Ordering::Relaxed) > 0);
    assert_eq!(locked, 0, "of {OPENS} opens found the folder locked");
}
