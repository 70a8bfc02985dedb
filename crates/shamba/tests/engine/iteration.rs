//! Iterators as maps of the standard library have them: ranges and prefixes, from both ends, each
//! entry once, at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Rng, small_keyspace};
use shamba::fs::MemFs;
use shamba::{Db, Error, Iter, IterOptions, MemoryBudget, Options};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn open() -> Db {
    Options::new()
        .fs(Arc::new(MemFs::new()))
        .memory(MemoryBudget::bytes(4 << 20))
        .background_threads(0)
        .keyspace(small_keyspace())
        .open("/db")
        .unwrap()
}

fn filled() -> Db {
    let db = open();
    for (key, value) in [("a", "1"), ("ab", "2"), ("b", "3"), ("c", "4")] {
        db.put(key, value).unwrap();
    }
    db
}

fn keys(iter: impl Iterator<Item = <Iter as Iterator>::Item>) -> Vec<String> {
    iter.map(|entry| String::from_utf8(entry.unwrap().0).unwrap())
        .collect()
}

#[test]
fn ranges_and_prefixes_of_databases_keyspaces_and_snapshots() {
    let db = filled();
    assert_eq!(keys(db.iter()), ["a", "ab", "b", "c"]);
    assert_eq!(keys(db.range("ab"..)), ["ab", "b", "c"]);
    assert_eq!(keys(db.range(b"a"..=b"b").rev()), ["b", "ab", "a"]);
    assert_eq!(keys(db.prefix("a").rev()), ["ab", "a"]);
    assert_eq!(keys(db.range("b".."b")), [""; 0]);
    let before = db.snapshot();
    db.put("d", "5").unwrap();
    let other = db.default_keyspace();
    assert_eq!(keys(other.iter()).len(), 5);
    assert_eq!(keys(other.range("c"..)), ["c", "d"]);
    assert_eq!(keys(other.prefix("d")), ["d"]);
    assert_eq!(keys(before.range("c"..)), ["c"]);
    assert_eq!(keys(before.prefix("d")), [""; 0]);
    assert_eq!(keys(before.iter().rev()), ["c", "b", "ab", "a"]);
    let all = IterOptions::default();
    assert_eq!(keys(before.iter_in(&other, all)).len(), 4);
    assert_eq!(keys(before.range_in(&other, "b"..)), ["b", "c"]);
    assert_eq!(keys(before.prefix_in(&other, "a")), ["a", "ab"]);
    assert!(!before.is_empty_in(&other).unwrap());
    let value = db.range("c"..).next().unwrap().unwrap().1;
    assert_eq!(&*value, b"4");
}

/// What was got wrong with cursors that were iterators too: nothing is skipped after a seek, since
/// a cursor is no iterator, and a loop over one entry at a time compiles.
#[test]
#[expect(
    clippy::while_let_on_iterator,
    reason = "that it compiles is what is tested"
)]
fn a_loop_over_single_entries_sees_each() {
    let db = filled();
    let (mut iter, mut seen) = (db.range("ab"..), Vec::new());
    while let Some(entry) = iter.next() {
        seen.push(entry.unwrap().0);
    }
    assert_eq!(seen, [b"ab".to_vec(), b"b".to_vec(), b"c".to_vec()]);
    assert!(iter.next().is_none() && iter.next_back().is_none());
}

#[test]
fn both_ends_meet_whatever_was_written_meanwhile() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let db = open();
        let mut map = BTreeMap::new();
        let write = |rng: &mut Rng, map: &mut BTreeMap<Vec<u8>, Vec<u8>>| {
            let (key, value) = (rng.below(300).to_be_bytes(), rng.below(9).to_be_bytes());
            if rng.one_in(4) {
                db.delete(key).unwrap();
                map.remove(&key[..]);
            } else {
                db.put(key, value).unwrap();
                map.insert(key.to_vec(), value.to_vec());
            }
        };
        (0..rng.below(500)).for_each(|_| write(&mut rng, &mut map));
        let (from, to) = (rng.below(300), rng.below(300));
        let (from, to) = (from.min(to).to_be_bytes(), from.max(to).to_be_bytes());
        let expected: Pairs = (map.range(from.to_vec()..to.to_vec()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let (mut model, mut iter) = (expected.iter(), db.range(from..to));
        loop {
            if rng.one_in(3) {
                write(&mut rng, &mut map);
            }
            if rng.one_in(20) {
                db.flush().unwrap();
            }
            let (wanted, got) = if rng.one_in(2) {
                (model.next(), iter.next())
            } else {
                (model.next_back(), iter.next_back())
            };
            let got = got.map(|entry| entry.map(|(key, value)| (key, value.into_vec())).unwrap());
            assert_eq!(got.as_ref(), wanted, "seed {seed}");
            if wanted.is_none() {
                break;
            }
        }
        assert!(iter.next().is_none() && iter.next_back().is_none());
    }
}

#[test]
fn what_cannot_be_made_is_told_once() {
    let db = filled();
    let (iter, mut late) = (db.iter(), db.iter());
    late.next().unwrap().unwrap();
    let handle = db.default_keyspace();
    db.close().unwrap();
    for mut iter in [iter, late, handle.iter()] {
        let first = iter.next();
        assert!(matches!(first, Some(Err(Error::Closed))), "{first:?}");
        assert!(iter.next().is_none() && iter.next_back().is_none());
    }
}
