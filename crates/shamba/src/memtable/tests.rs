//! Tests of the memtable as a whole.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::base::iter::InternalIterator;
use crate::base::key::EntryKind;

type Place = (Vec<u8>, Reverse<Tag>);
type Model = BTreeMap<Place, Vec<u8>>;

/// Few keys, many of which share eight bytes or more.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0..4u8, 0..4),
        prop::collection::vec(0..3u8, 0..3)
            .prop_map(|tail| [b"sharedpre".as_slice(), &tail].concat()),
    ]
}

fn kind() -> impl Strategy<Value = EntryKind> {
    prop_oneof![Just(EntryKind::Put), Just(EntryKind::Delete)]
}

fn at(iter: &MemtableIter) -> Option<(Vec<u8>, Tag, Vec<u8>)> {
    iter.valid()
        .then(|| (iter.key().to_vec(), iter.tag(), iter.value().to_vec()))
}

fn of(entry: Option<(&Place, &Vec<u8>)>) -> Option<(Vec<u8>, Tag, Vec<u8>)> {
    entry.map(|((key, Reverse(tag)), value)| (key.clone(), *tag, value.clone()))
}

#[derive(Debug, Clone)]
enum Move {
    First,
    Last,
    Seek(Vec<u8>, u64),
    SeekForPrev(Vec<u8>, u64),
    Next,
    Prev,
}

fn movement() -> impl Strategy<Value = Move> {
    prop_oneof![
        Just(Move::First),
        Just(Move::Last),
        (key(), 0..60u64).prop_map(|(key, tag)| Move::Seek(key, tag)),
        (key(), 0..60u64).prop_map(|(key, tag)| Move::SeekForPrev(key, tag)),
        Just(Move::Next),
        Just(Move::Next),
        Just(Move::Prev),
        Just(Move::Prev),
    ]
}

/// Miri takes minutes for more: it walks over all of a region for each borrow of it.
const LESS: usize = if cfg!(miri) { 5 } else { 1 };

proptest! {
    #[test]
    fn a_memtable_answers_as_a_sorted_map(
        entries in prop::collection::vec(
            (key(), 1..60u64, kind(), prop::collection::vec(any::<u8>(), 0..30)), 0..120 / LESS),
        sorted in any::<bool>(),
        lookups in prop::collection::vec((key(), 0..60u64), 1..40 / LESS),
        moves in prop::collection::vec(movement(), 1..60 / LESS),
    ) {
        let budget = Budget::new(1 << 20);
        let bytes = entries.iter().map(|(key, _, _, value)| key.len() + value.len()).sum();
        let memtable = Arc::new(Memtable::new(&budget, Memtable::room_for(entries.len(), bytes)));
        prop_assert!(memtable.fits(entries.len(), bytes));
        let mut entries = entries;
        if sorted {
            entries.sort();
        }
        let mut model = Model::new();
        for (key, seq, kind, value) in &entries {
            let tag = Tag::new(*seq, *kind);
            prop_assert!(memtable.charge(1, key.len() + value.len(), u64::MAX));
            prop_assert!(memtable.insert(key, tag, value));
            model.entry((key.clone(), Reverse(tag))).or_insert(value.clone());
            prop_assert!(budget.used() >= memtable.bytes_used() as u64);
        }
        prop_assert_eq!(memtable.len(), model.len());
        prop_assert_eq!(memtable.first_seq(), model.keys().map(|(_, tag)| tag.0.seq()).min());
        prop_assert_eq!(memtable.last_seq(), model.keys().map(|(_, tag)| tag.0.seq()).max());

        for (key, snapshot) in &lookups {
            let expected = model
                .range((key.clone(), Reverse(Tag::seek(*snapshot)))..)
                .next()
                .filter(|((found, _), _)| found == key)
                .map(|((_, Reverse(tag)), value)| (*tag, value.as_slice()));
            prop_assert_eq!(memtable.get(key, *snapshot), expected);
        }

        let mut iter = memtable.iter();
        let mut expected: Option<(Vec<u8>, Tag, Vec<u8>)> = None;
        for movement in moves {
            let here = expected.clone().map(|(key, tag, _)| (key, Reverse(tag)));
            match movement {
                Move::First => {
                    iter.seek_to_first().unwrap();
                    expected = of(model.iter().next());
                }
                Move::Last => {
                    iter.seek_to_last().unwrap();
                    expected = of(model.iter().next_back());
                }
                Move::Seek(key, raw) => {
                    let tag = Tag::from_raw(raw);
                    iter.seek(&key, tag).unwrap();
                    expected = of(model.range((key, Reverse(tag))..).next());
                }
                Move::SeekForPrev(key, raw) => {
                    let tag = Tag::from_raw(raw);
                    iter.seek_for_prev(&key, tag).unwrap();
                    expected = of(model.range(..=(key, Reverse(tag))).next_back());
                }
                Move::Next => {
                    iter.next().unwrap();
                    expected = here.and_then(|here| {
                        let behind = (Bound::Excluded(here), Bound::Unbounded);
                        of(model.range(behind).next())
                    });
                }
                Move::Prev => {
                    iter.prev().unwrap();
                    expected = here.and_then(|here| of(model.range(..here).next_back()));
                }
            }
            prop_assert_eq!(at(&iter), expected.clone());
        }
        drop((iter, memtable));
        prop_assert_eq!(budget.used(), 0);
    }
}

#[test]
fn a_memtable_is_full_at_its_capacity_and_charges_no_more_than_it_holds() {
    let budget = Budget::new(1 << 30);
    let capacity = if cfg!(miri) { 1 << 13 } else { 1 << 20 };
    let memtable = Memtable::new(&budget, capacity);
    assert_eq!(budget.used(), 0, "an empty one takes nothing");
    let mut inserted = 0u64;
    while memtable.fits(1, 116) {
        let tag = Tag::new(inserted + 1, EntryKind::Put);
        assert!(memtable.charge(1, 116, u64::MAX));
        assert!(memtable.insert(&inserted.to_be_bytes(), tag, &[7; 108]));
        inserted += 1;
        let (used, charged) = (memtable.bytes_used() as u64, budget.used());
        assert!(
            used <= charged && charged <= used + used / 8 + 3 * PAGE as u64,
            "{used} {charged}"
        );
    }
    memtable.charge_anyway(2, 232);
    while memtable.insert(b"k", Tag::new(inserted + 1, EntryKind::Put), &[7; 108]) {
        inserted += 1;
    }
    assert_eq!(memtable.len() as u64, inserted);
    assert!(memtable.bytes_used() > capacity - 200);
    assert!(budget.used() <= (capacity + PAGE) as u64);
    memtable.trim();
    let used = memtable.bytes_used() as u64;
    assert!(budget.used() >= used && budget.used() <= used + PAGE as u64);
    drop(memtable);
    assert_eq!(budget.used(), 0);
}

#[test]
fn an_oversize_entry_fits_a_memtable_made_for_it() {
    let budget = Budget::new(1 << 30);
    let (len, capacity) = if cfg!(miri) {
        (5_000, 1 << 12)
    } else {
        (5 << 20, 1 << 16)
    };
    let value = vec![0xabu8; len];
    let small = Memtable::new(&budget, capacity);
    assert!(!small.fits(1, value.len() + 3));
    assert!(!small.insert(b"key", Tag::new(1, EntryKind::Put), &value));
    assert!(small.is_empty() && small.get(b"key", 9).is_none());
    assert_eq!(budget.used(), 0);
    let large = Memtable::new(&budget, Memtable::room_for(1, value.len() + 3));
    assert!(large.fits(1, value.len() + 3));
    assert!(large.charge(1, value.len() + 3, u64::MAX));
    assert!(large.insert(b"key", Tag::new(1, EntryKind::Put), &value));
    assert_eq!(
        large.get(b"key", 1),
        Some((Tag::new(1, EntryKind::Put), value.as_slice()))
    );
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn memtables_are_charged_no_more_than_their_share_together() {
    let budget = Budget::new(1 << 20);
    let tables: Vec<_> = (0..100).map(|_| Memtable::new(&budget, 1 << 18)).collect();
    let share = 40 * PAGE as u64;
    let mut refused = 0;
    for i in 0..10_000usize {
        let table = &tables[i * i % 100];
        let before = budget.used();
        if table.charge(1, 100, share) {
            assert!(table.insert(
                &i.to_be_bytes(),
                Tag::new(i as u64 + 1, EntryKind::Put),
                &[1; 92]
            ));
        } else {
            refused += 1;
            assert_eq!(budget.used(), before);
        }
        assert!(budget.used() <= share);
    }
    assert!(
        refused > 1000 && budget.used() > share - PAGE as u64,
        "{refused}"
    );
    tables[0].charge_anyway(1, 100_000);
    assert!(budget.used() > share);
    drop(tables);
    assert_eq!(budget.used(), 0);
}

#[test]
fn readers_run_beside_a_writer() {
    const COUNT: u64 = if cfg!(miri) { 40 } else { 20_000 };
    let budget = Budget::new(1 << 30);
    // Miri walks over all of a region for each borrow of it.
    let capacity = if cfg!(miri) { 6 << 10 } else { 4 << 20 };
    let memtable = Arc::new(Memtable::new(&budget, capacity));
    memtable.charge_anyway(COUNT as usize, COUNT as usize * 28);
    let key_of = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = memtable.writer();
            for i in 0..COUNT {
                let tag = Tag::new(i + 1, EntryKind::Put);
                assert!(writer.insert(&key_of(i), tag, &[i as u8; 20]));
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let len = memtable.len() as u64;
                    for i in (0..len).rev().take(50) {
                        let (tag, value) = memtable.get(&key_of(i), COUNT).unwrap();
                        assert_eq!((tag.seq(), value), (i + 1, [i as u8; 20].as_slice()));
                    }
                    let mut iter = memtable.iter();
                    iter.seek_to_first().unwrap();
                    let mut last = iter.key().to_vec();
                    for _ in 0..50 {
                        iter.next().unwrap();
                        if !iter.valid() {
                            break;
                        }
                        assert!(iter.key() > last.as_slice());
                        last = iter.key().to_vec();
                    }
                    if len == COUNT {
                        break;
                    }
                }
            });
        }
    });
}

/// Operands are what to do with a number, `[a, b]` for a * x + b: it matters in which order.
fn combine(older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
    let ([a, b], [c, d]) = (older, newer) else {
        return None;
    };
    let b = c.wrapping_mul(*b).wrapping_add(*d);
    Some(vec![c.wrapping_mul(*a), b])
}

/// What readers of a number see of a key, merged, with how many entries they came to; nothing where
/// one of them is no operand.
fn merged(memtable: &Memtable, key: &[u8], snapshot: u64) -> (Option<Vec<u8>>, usize) {
    let mut entries: Vec<_> = memtable.entries_of(key, snapshot, None).collect();
    let newest = memtable.find(key, snapshot).and_then(|(.., newest)| newest);
    let from_there: Vec<_> = memtable.entries_of(key, snapshot, newest).collect();
    assert_eq!(entries, from_there);
    let count = entries
        .iter()
        .position(|(tag, _)| tag.kind() != Some(EntryKind::Operand));
    entries.truncate(count.map_or(entries.len(), |base| base + 1));
    let mut value = Some(vec![1, 0]);
    for (tag, bytes) in entries.iter().rev() {
        value = match tag.kind() {
            Some(EntryKind::Operand) => value.and_then(|value| combine(&value, bytes)),
            Some(EntryKind::Put) => Some(bytes.to_vec()),
            _ => value,
        };
    }
    (value, entries.len())
}

fn insert_operation(
    memtable: &Memtable,
    combines: bool,
    seq: u64,
    (key, kind, value): (&[u8], u8, &[u8]),
) {
    memtable.charge_anyway(1, 64 + Memtable::RANGES_BYTES + memtable.boundary_bytes());
    let mut writer = memtable.writer();
    let inserted = match (kind, combines) {
        (0, _) => writer.insert(key, Tag::new(seq, EntryKind::Put), value),
        (1, _) => writer.insert(key, Tag::new(seq, EntryKind::Delete), &[]),
        (2, _) => writer.insert_range(key, &[3], seq),
        (_, true) => writer.insert_operand(key, Tag::new(seq, EntryKind::Operand), value, combine),
        (_, false) => writer.insert(key, Tag::new(seq, EntryKind::Operand), value),
    };
    assert!(inserted);
}

proptest! {
    /// Whether operands are combined as they are written or not, readers of each number see the
    /// same value. Some are no operands at all.
    #[test]
    fn operands_that_are_combined_as_they_are_written_come_to_the_same(
        operations in prop::collection::vec(
            (0..3u8, 0..40u8, prop::collection::vec(any::<u8>(), 2..=2), 0..12u8), 0..80 / LESS),
        with_ranges in any::<bool>(),
    ) {
        let budget = Budget::new(1 << 30);
        let [combined, plain] = [0; 2].map(|_| Memtable::new(&budget, 1 << 16));
        for (seq, (key, kind, value, odd)) in (1..).zip(&operations) {
            let kind = if *kind == 2 && !with_ranges { 3 } else { *kind };
            let value = if *odd == 0 { &[1, 2, 3][..] } else { value };
            let operation = (&[*key][..], kind, value);
            insert_operation(&combined, true, seq, operation);
            insert_operation(&plain, false, seq, operation);
        }
        for key in 0..3u8 {
            for snapshot in 0..=operations.len() as u64 {
                let (value, entries) = merged(&combined, &[key], snapshot);
                let (expected, all) = merged(&plain, &[key], snapshot);
                prop_assert_eq!(value, expected, "{} at {}", key, snapshot);
                prop_assert!(entries <= all);
            }
        }
    }
}

/// Fails where a lookup has to go through all operands of a key.
#[test]
fn operands_that_were_combined_are_one_entry() {
    let budget = Budget::new(1 << 30);
    let memtable = Memtable::new(&budget, 1 << 16);
    for seq in 1..=100 {
        insert_operation(&memtable, true, seq, (b"key", 9, &[1, 2]));
        insert_operation(&memtable, true, seq, (b"other", 9, &[1, 2]));
    }
    for seq in 1..=100u64 {
        let sum = (2 * seq) as u8;
        assert_eq!(merged(&memtable, b"key", seq), (Some(vec![1, sum]), 1));
    }
}
