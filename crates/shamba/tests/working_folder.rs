//! A process that goes to another folder while a database is open. One test: the folder is the
//! process's.

use std::env::{current_dir, set_current_dir};

use shamba::{Durability, Options};

/// Opened by a relative path, a database stays where it was; what lies in a folder of the same name
/// elsewhere is not touched.
#[test]
fn a_database_stays_where_it_was_opened() {
    let home = tempfile::tempdir().unwrap();
    let (here, there) = (home.path().join("here"), home.path().join("there"));
    for dir in [&here, &there] {
        std::fs::create_dir(dir).unwrap();
    }
    let before = current_dir().unwrap();
    let options = || Options::new().durability(Durability::Synced);
    let of = |name: &str, number: u32| [name.as_bytes(), &number.to_be_bytes()].concat();
    let fill = |db: &shamba::Db, name: &str, numbers: std::ops::Range<u32>| {
        for number in numbers {
            db.put(of(name, number), name).unwrap();
        }
    };

    set_current_dir(&there).unwrap();
    let db = options().open("db").unwrap();
    fill(&db, "there", 0..500);
    db.flush().unwrap();
    db.close().unwrap();

    set_current_dir(&here).unwrap();
    let db = options().open("db").unwrap();
    assert!(db.path().is_absolute());
    fill(&db, "here", 0..250);
    db.flush().unwrap();
    set_current_dir(&there).unwrap();
    fill(&db, "here", 250..500);
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.checkpoint("copy").unwrap();
    db.close().unwrap();

    for (dir, name) in [
        (here.join("db"), "here"),
        (there.join("db"), "there"),
        (there.join("copy"), "here"),
    ] {
        let db = options().create_if_missing(false).open(&dir).unwrap();
        assert!(db.verify().unwrap().is_sound(), "{}", dir.display());
        for number in 0..500 {
            let value = db.get(of(name, number)).unwrap();
            assert_eq!(value.as_deref(), Some(name.as_bytes()), "{name} {number}");
        }
        db.close().unwrap();
    }
    set_current_dir(before).unwrap();
}
