//! Keys and ranges of keys that a commit depends on: plain data, with what it takes of memory.
//!
//! Protocol: [`KeySet::add`] and [`KeySet::set_range`] gather, then [`KeySet::settle`] makes it one
//! that can be asked ([`KeySet::contains`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::base::fragment::is_before;
use crate::db::iter::IterOptions;
use crate::db::keyspaces::KeyspaceInner;

/// What a key takes in a set beside its bytes: its place in a node that is half full, as where keys
/// come in order, and the least that is allocated.
const KEY_BYTES: usize = 73;

/// What a range takes beside the bytes of its bounds: two places, for the list grows to twice its
/// length, and what two allocations take of their own.
const RANGE_BYTES: usize = 2 * size_of::<IterOptions>() + 64;

/// What a keyspace takes beside its keys and ranges: its place in the map, a node for the first
/// key, and places for the first ranges.
const KEYSPACE_BYTES: usize = 416;

/// What may be held by a look for changes in ranges, which reads one table at a time: an iterator
/// at an entry of the usual size. It is charged with the first range.
const LOOK_BYTES: usize = 4 << 10;

/// Keys and ranges of keys, of any keyspaces.
#[derive(Debug, Default)]
pub(in crate::db) struct KeySet {
    keyspaces: BTreeMap<u32, KeysOf>,
    /// Of keys and ranges.
    bytes: usize,
    has_ranges: bool,
}

/// Keys and ranges of keys of a keyspace.
#[derive(Debug)]
pub(in crate::db) struct KeysOf {
    pub(in crate::db) keyspace: Arc<KeyspaceInner>,
    pub(in crate::db) points: BTreeSet<Box<[u8]>>,
    pub(in crate::db) ranges: Vec<IterOptions>,
}

impl KeySet {
    /// The most bytes that a key takes in a set.
    pub(in crate::db) fn bytes_of_key(key: &[u8]) -> usize {
        KEY_BYTES + key.len()
    }

    /// The most bytes that a range takes in the set.
    pub(in crate::db) fn bytes_of_range(&self, range: &IterOptions) -> usize {
        let look = if self.has_ranges { 0 } else { LOOK_BYTES };
        look + RANGE_BYTES + range.bound_bytes()
    }

    /// What was charged for looks for changes.
    pub(in crate::db) fn look_bytes(&self) -> usize {
        if self.has_ranges { LOOK_BYTES } else { 0 }
    }

    fn of(&mut self, keyspace: &Arc<KeyspaceInner>) -> &mut KeysOf {
        self.keyspaces
            .entry(keyspace.id())
            .or_insert_with(|| KeysOf {
                keyspace: keyspace.clone(),
                points: BTreeSet::new(),
                ranges: Vec::new(),
            })
    }

    /// Adds a key.
    pub(in crate::db) fn add(&mut self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) {
        let keys = self.of(keyspace);
        if !keys.points.contains(key) {
            keys.points.insert(key.into());
            self.bytes += KeySet::bytes_of_key(key);
        }
    }

    /// Adds a range, or puts it in the place of the one that `at` names; gives its name.
    pub(in crate::db) fn set_range(
        &mut self,
        keyspace: &Arc<KeyspaceInner>,
        at: Option<usize>,
        range: IterOptions,
    ) -> usize {
        let more = self.bytes_of_range(&range);
        self.has_ranges = true;
        let ranges = &mut self.of(keyspace).ranges;
        let known = at.and_then(|at| Some((at, ranges.get_mut(at)?)));
        let (at, less) = match known {
            Some((at, old)) => {
                let less = RANGE_BYTES + old.bound_bytes();
                *old = range;
                (at, less)
            }
            None => {
                ranges.push(range);
                (ranges.len() - 1, 0)
            }
        };
        self.bytes = self.bytes + more - less;
        at
    }

    /// What it takes, in bytes, with a keyspace more.
    pub(in crate::db) fn bytes(&self) -> usize {
        self.bytes + (self.keyspaces.len() + 1) * KEYSPACE_BYTES
    }

    /// Whether there is nothing in it.
    pub(in crate::db) fn is_empty(&self) -> bool {
        self.keyspaces.is_empty()
    }

    /// Each keyspace with its keys.
    pub(in crate::db) fn keyspaces(&self) -> impl Iterator<Item = &KeysOf> {
        self.keyspaces.values()
    }

    /// Makes one range of those that meet, and puts them in order: many are asked as fast as few,
    /// and each key once. The names of ranges are void then.
    pub(super) fn settle(&mut self) {
        for keys in self.keyspaces.values_mut() {
            settle(&mut keys.ranges);
        }
    }

    /// Whether a key is in the set, which was settled.
    pub(super) fn contains(&self, keyspace: u32, key: &[u8]) -> bool {
        let keys = self.keyspaces.get(&keyspace);
        keys.is_some_and(|keys| keys.points.contains(key) || is_covered(&keys.ranges, key))
    }

    /// A key of the set between two, the first included; an empty second is no end.
    pub(super) fn first_between(&self, keyspace: u32, start: &[u8], end: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keyspaces.get(&keyspace)?;
        let from = (Bound::Included(start), Bound::Unbounded);
        let mut points = keys.points.range::<[u8], _>(from);
        let point = points.next().filter(|point| is_before(point, end));
        let mut ranges = keys.ranges.iter();
        point
            .map(|point| point.to_vec())
            .or_else(|| ranges.find_map(|range| range.first_between(start, end)))
    }

    /// The name of a keyspace that has keys in it.
    pub(super) fn name_of(&self, keyspace: u32) -> &str {
        let keys = self.keyspaces.get(&keyspace);
        keys.map_or("", |keys| keys.keyspace.name())
    }
}

/// Where a range begins, in the order of keys.
fn begin(range: &IterOptions) -> Option<(&[u8], bool)> {
    match &range.lower {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key, false)),
        Bound::Excluded(key) => Some((key, true)),
    }
}

/// Where a range ends, in the order of keys.
fn end(range: &IterOptions) -> (bool, &[u8], bool) {
    match &range.upper {
        Bound::Unbounded => (true, &[], true),
        Bound::Included(key) => (false, key, true),
        Bound::Excluded(key) => (false, key, false),
    }
}

/// Whether no key lies between a range and one that begins no sooner, be there one or not.
fn meet(first: &IterOptions, second: &IterOptions) -> bool {
    let Some((key, is_after)) = begin(second) else {
        return true;
    };
    let ends_at = |upper: &Bound<Vec<u8>>| matches!(upper, Bound::Excluded(end) if end == key);
    !first.past_upper(key) || ends_at(&first.upper) && !is_after
}

/// Puts ranges in order, and makes one of those that meet.
fn settle(ranges: &mut Vec<IterOptions>) {
    ranges.sort_unstable_by(|a, b| begin(a).cmp(&begin(b)));
    ranges.dedup_by(|next, last| {
        let meet = meet(last, next);
        if meet && end(next) > end(last) {
            std::mem::swap(&mut last.upper, &mut next.upper);
        }
        meet
    });
}

/// Whether one of the ranges covers a key, which were settled.
fn is_covered(ranges: &[IterOptions], key: &[u8]) -> bool {
    let begun = ranges.partition_point(|range| !range.before_lower(key));
    let last = begun.checked_sub(1).and_then(|last| ranges.get(last));
    last.is_some_and(|range| range.covers(key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        let key = prop::collection::vec(0u8..6, 0..3);
        (0..7, key).prop_map(|(kind, key)| match kind {
            0 => Bound::Unbounded,
            1..4 => Bound::Included(key),
            _ => Bound::Excluded(key),
        })
    }

    proptest! {
        #[test]
        fn settled_ranges_cover_what_they_covered(
            bounds in prop::collection::vec((bound(), bound()), 0..8),
            keys in prop::collection::vec(prop::collection::vec(0u8..6, 0..3), 20),
        ) {
            let range = |(lower, upper)| IterOptions::default().lower(lower).upper(upper);
            let ranges: Vec<_> = bounds.into_iter().map(range).collect();
            let mut settled = ranges.clone();
            settle(&mut settled);
            for key in keys {
                let is_covered_before = ranges.iter().any(|range| range.covers(&key));
                prop_assert_eq!(is_covered(&settled, &key), is_covered_before, "{:?}", key);
            }
        }
    }

    #[test]
    fn ranges_that_meet_become_one() {
        let mut ranges = vec![IterOptions::range("m".."p"); 1000];
        ranges.extend((b'a'..b'k').map(|key| IterOptions::range([key]..[key + 1])));
        settle(&mut ranges);
        assert_eq!(
            ranges,
            [IterOptions::range("a".."k"), IterOptions::range("m".."p")]
        );
    }
}
