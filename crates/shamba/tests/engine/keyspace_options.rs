//! Options of keyspaces are kept with them, and change only when somebody says so.

use std::sync::Arc;

use crate::common::{Rng, random_keyspace_options, small_keyspace};
use shamba::fs::{Effect, Fault, FaultError, FaultFs, Faults, Fs, MemFs};
use shamba::{
    Compression, Db, Error, FilterFamily, FilterOptions, KeyspaceOptions, MergePolicy, Options,
};

const DIR: &str = "/db";

fn plain(fs: &MemFs) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .background_threads(0)
}

fn open(fs: &MemFs) -> Db {
    plain(fs).open(DIR).unwrap()
}

/// Options that no default has.
fn own() -> KeyspaceOptions {
    small_keyspace()
        .merge_policy(MergePolicy::Tiering)
        .compression([Compression::None, Compression::Zstd(3)])
        .filter(
            FilterOptions::new()
                .family(FilterFamily::Ribbon)
                .bits_per_key(7.3),
        )
}

#[test]
fn options_that_are_not_named_are_as_they_were() {
    let fs = MemFs::new();
    let db = plain(&fs).keyspace(own()).open(DIR).unwrap();
    let other = own().size_ratio(9);
    db.create_keyspace("other", other.clone()).unwrap();
    db.close().unwrap();
    for round in 0..3 {
        let db = open(&fs);
        assert_eq!(db.default_keyspace().options(), own(), "round {round}");
        assert_eq!(db.keyspace("other").unwrap().options(), other);
        db.close().unwrap();
    }
    // A copy has them too, and so has who only reads.
    let db = open(&fs);
    db.checkpoint("/copy").unwrap();
    db.close().unwrap();
    let copy = plain(&fs).read_only(true).open("/copy").unwrap();
    assert_eq!(copy.default_keyspace().options(), own());
    assert_eq!(copy.keyspace("other").unwrap().options(), other);
}

#[test]
fn what_an_open_names_is_kept_from_then_on() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.create_keyspace("other", own()).unwrap();
    db.close().unwrap();
    // To be read only: for this open, and nothing is written.
    let before = fs.list(DIR.as_ref()).unwrap();
    let named = plain(&fs).keyspace_options("other", small_keyspace());
    let db = named.clone().read_only(true).open(DIR).unwrap();
    assert_eq!(db.keyspace("other").unwrap().options(), small_keyspace());
    db.close().unwrap();
    assert_eq!(fs.list(DIR.as_ref()).unwrap(), before);
    assert_eq!(open(&fs).keyspace("other").unwrap().options(), own());
    named.open(DIR).unwrap().close().unwrap();
    let db = open(&fs);
    assert_eq!(db.keyspace("other").unwrap().options(), small_keyspace());
    assert_eq!(db.default_keyspace().options(), KeyspaceOptions::default());
}

#[test]
fn altered_options_are_used_and_kept() {
    let fs = MemFs::new();
    let db = plain(&fs).keyspace(small_keyspace()).open(DIR).unwrap();
    let loose = small_keyspace().target_file(1 << 20);
    let keyspace = db.create_keyspace("text", loose.clone()).unwrap();
    let put_all = || {
        for i in 0..3000u32 {
            let key = i.wrapping_mul(0x9e37_79b9).to_be_bytes();
            keyspace.put(key, [b'a'; 100]).unwrap();
        }
        keyspace.compact_range(None, None).unwrap();
        keyspace.size_on_disk()
    };
    let large = put_all();
    let smaller = loose.compression([Compression::Lz4]);
    db.alter_keyspace("text", smaller.clone()).unwrap();
    assert_eq!(keyspace.options(), smaller);
    let small = put_all();
    assert!(small * 2 < large, "{small} bytes after {large}");
    // Another design is moved to.
    let tiered = smaller.merge_policy(MergePolicy::Tiering).size_ratio(4);
    db.alter_keyspace("text", tiered.clone()).unwrap();
    assert!(keyspace.is_moving());
    db.wait_for_compaction().unwrap();
    assert!(!keyspace.is_moving());
    drop(keyspace);
    db.close().unwrap();
    let db = open(&fs);
    assert_eq!(db.keyspace("text").unwrap().options(), tiered);
    // A design of its own that was asked for last is in them.
    let design = tiered.design().size_ratio(7);
    db.keyspace("text").unwrap().redesign(design).unwrap();
    db.close().unwrap();
    let kept = open(&fs).keyspace("text").unwrap().options();
    assert_eq!(kept, tiered.with_design(&design));
}

#[test]
fn what_cannot_be_altered_says_so_and_leaves_all_as_it_was() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.create_keyspace("a", own()).unwrap();
    let wrong = own().size_ratio(1);
    let error = db.alter_keyspace("a", wrong).unwrap_err();
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    let error = db.alter_keyspace("b", own()).unwrap_err();
    assert!(matches!(error, Error::KeyspaceNotFound { .. }), "{error}");
    assert_eq!(db.keyspace("a").unwrap().options(), own());
    db.close().unwrap();
    let db = plain(&fs).read_only(true).open(DIR).unwrap();
    let error = db.alter_keyspace("a", own()).unwrap_err();
    assert!(matches!(error, Error::ReadOnly), "{error}");
}

#[test]
fn an_edit_that_fails_changes_no_options() {
    let faults = Faults::new();
    let fs = FaultFs::new(Arc::new(MemFs::new()), faults.clone());
    let options = Options::new().fs(Arc::new(fs)).background_threads(0);
    let db = options.open(DIR).unwrap();
    db.create_keyspace("a", own()).unwrap();
    faults.add(
        Fault::new(Effect::Fail(FaultError::EIO))
            .path_ending("MANIFEST-000001")
            .forever(),
    );
    db.alter_keyspace("a", small_keyspace()).unwrap_err();
    assert_eq!(db.keyspace("a").unwrap().options(), own());
}

#[test]
fn a_keyspace_is_created_once_whoever_comes_first() {
    let db = open(&MemFs::new());
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = (2..10)
            .map(|size_ratio| {
                let db = &db;
                scope.spawn(move || {
                    let options = own().size_ratio(size_ratio);
                    let keyspace = db.open_keyspace("shared", options).unwrap();
                    keyspace.put(size_ratio.to_be_bytes(), "here").unwrap();
                    keyspace.options()
                })
            })
            .collect();
        let made = threads.into_iter().map(|thread| thread.join().unwrap());
        made.collect::<Vec<_>>()
    });
    assert!(made.iter().all(|options| *options == made[0]), "{made:?}");
    assert_eq!(db.keyspace("shared").unwrap().len().unwrap(), 8);
    assert_eq!(db.keyspaces().len(), 2);
    // One that is there can be opened where nothing may be created.
    let error = db.open_keyspace("", own()).unwrap_err();
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
}

#[test]
fn any_options_are_kept() {
    for seed in 0..200 {
        let fs = MemFs::new();
        let mut rng = Rng::new(seed);
        let options = random_keyspace_options(&mut rng);
        let db = open(&fs);
        db.create_keyspace("x", options.clone()).unwrap();
        db.close().unwrap();
        let kept = open(&fs).keyspace("x").unwrap().options();
        assert_eq!(kept, options, "seed {seed}");
    }
}

#[test]
fn an_open_that_names_another_design_moves_as_altering_does() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.create_keyspace("a", small_keyspace()).unwrap();
    db.alter_keyspace("a", small_keyspace().size_ratio(6))
        .unwrap();
    db.close().unwrap();
    let named = small_keyspace().size_ratio(4).level0_runs(3);
    let options = plain(&fs).keyspace_options("a", named.clone());
    let db = options.clone().open(DIR).unwrap();
    assert_eq!(db.keyspace("a").unwrap().options(), named);
    db.close().unwrap();
    assert_eq!(open(&fs).keyspace("a").unwrap().options(), named);
    // What was asked for by itself stays.
    let db = open(&fs);
    let keyspace = db.keyspace("a").unwrap();
    keyspace.redesign(keyspace.design().size_ratio(9)).unwrap();
    drop(keyspace);
    db.close().unwrap();
    let db = options.open(DIR).unwrap();
    assert_eq!(db.keyspace("a").unwrap().options(), named.size_ratio(9));
}

#[test]
fn the_same_options_again_change_nothing() {
    let fs = MemFs::new();
    let db = open(&fs);
    let keyspace = db.create_keyspace("a", small_keyspace()).unwrap();
    let filter = FilterOptions::default().bits_per_key(10.0 / 3.0);
    let options = small_keyspace().filter(filter);
    db.alter_keyspace("a", options.clone()).unwrap();
    db.wait_for_compaction().unwrap();
    for _ in 0..2 {
        assert!(!keyspace.is_moving());
        db.alter_keyspace("a", options.clone()).unwrap();
        assert_eq!(keyspace.options(), options);
    }
    assert!(!keyspace.is_moving());
    drop(keyspace);
    db.close().unwrap();
    assert_eq!(open(&fs).keyspace("a").unwrap().options(), options);
}
