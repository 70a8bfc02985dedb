//! A closed database has let go of its folder, which may be another's by then: whatever waited for
//! a lock meanwhile writes nothing into it any more.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::small_options;
use shamba::fs::{Fs, MemFs};
use shamba::{Db, Error, IterOptions, KeyspaceOptions};

const DIR: &str = "/db";

/// Makes and drops a keyspace until the database is closed.
fn make_and_drop(db: &Db, name: &str) {
    loop {
        let made = db.create_keyspace(name, KeyspaceOptions::default());
        let done = match made {
            Err(Error::KeyspaceExists { .. }) => db.drop_keyspace(name),
            made => made.map(drop),
        };
        match done {
            Ok(()) => {}
            Err(Error::Closed) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Moves the default keyspace from one design to another until the database is closed.
fn redesign(db: &Db) {
    for size_ratio in (2..10).cycle() {
        let design = db.default_keyspace().design().size_ratio(size_ratio);
        match db.redesign(design) {
            Ok(()) => {}
            Err(Error::Closed) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn files(fs: &MemFs) -> BTreeMap<String, Vec<u8>> {
    let dir = Path::new(DIR);
    let names = fs.list(dir).unwrap().into_iter().map(|entry| entry.name);
    names
        .map(|name| (name.clone(), fs.read_file(dir.join(name)).unwrap()))
        .collect()
}

#[test]
fn edits_that_come_after_closing_write_nothing() {
    for life in 0..150 {
        let fs = MemFs::new();
        let db = small_options(Arc::new(fs.clone())).open(DIR).unwrap();
        let (closed, now) = std::thread::scope(|scope| {
            for thread in 0..8 {
                let db = db.clone();
                scope.spawn(move || make_and_drop(&db, &format!("{thread}")));
            }
            let moving = db.clone();
            scope.spawn(move || redesign(&moving));
            std::thread::sleep(Duration::from_millis(life % 5));
            db.clone().close().unwrap();
            let closed = files(&fs);
            std::thread::sleep(Duration::from_millis(2));
            (closed, files(&fs))
        });
        let changed = |files: &BTreeMap<_, Vec<u8>>| -> Vec<(String, usize)> {
            let all = files.iter();
            all.map(|(name, bytes): (&String, _)| (name.clone(), bytes.len()))
                .collect()
        };
        assert!(
            closed == now,
            "life {life}: {:?} became {:?}",
            changed(&closed),
            changed(&now)
        );
        assert!(closed == files(&fs), "life {life}: changed later");
    }
}

/// An iterator over a keyspace that was dropped goes on while the database is open, and not after.
#[test]
fn an_iterator_over_a_dropped_keyspace_ends_with_the_database() {
    let db = small_options(Arc::new(MemFs::new())).open(DIR).unwrap();
    let keyspace = db
        .create_keyspace("short-lived", KeyspaceOptions::default())
        .unwrap();
    for number in 0..2_000u32 {
        keyspace.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    let mut iter = keyspace.cursor(IterOptions::default()).unwrap();
    iter.seek_to_first().unwrap();
    db.flush().unwrap();
    db.drop_keyspace("short-lived").unwrap();
    iter.seek_to_first().unwrap();
    assert!(iter.valid());
    db.close().unwrap();
    let sought = iter.seek_to_first();
    assert!(matches!(sought, Err(Error::Closed)), "{sought:?}");
}
