//! The range tombstones of a memtable: what covers each key, for readers of each number.
//!
//! A second skip list has an entry for each *boundary*, a key where a tombstone begins or ends, and
//! each tombstone that changed what covers the keys from there to the next boundary: boundary,
//! sequence number of the change, and the tombstone that covers them since (0 for none). A reader
//! goes to the last boundary at or before a key that its number sees. So a tombstone adds an entry
//! at its ends and at each boundary between them, all with its own number: nobody sees part of it,
//! and readers take no lock, as in the list of entries.
//!
//! Tombstones come in the order of their numbers, by who holds the right to insert. Many that cover
//! the same keys take room in the square of their number: the memtable fills, and is flushed.
//!
//! Mostly nothing is written any more where a range was deleted. What is leaves a mark, so that
//! iterators go past a range without marks in one step, and not entry by entry
//! ([`Cover::hides_own`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Memtable;
use super::arena::{HEAD_BYTES, MAX_NODE_OVERHEAD, Node};
use super::skiplist::{Inserted, SkipList, Splice};
use super::words::Words;
use crate::base::fragment::{Cover, Fragment, Fragments, is_before};
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::error::Result;

/// With so many boundaries a memtable is full: a tombstone changes what covers all of those in its
/// range, and a reader of an older number goes past newer ones one by one, some milliseconds at
/// most. With half of it memtables are flushed after half as many deletions, with twice of it both
/// take twice as long.
const MOST_BOUNDARIES: usize = 4096;

/// Bytes of the number of a tombstone, an entry's value.
const COVER_BYTES: usize = size_of::<SeqNo>();

/// How many marks there are, which boundaries share. With half of them ranges that are written to
/// again have twice as many others gone through entry by entry; each takes eight bytes.
const MARKS: usize = 16;

/// The range tombstones of a memtable.
#[derive(Debug)]
pub(super) struct RangeList {
    list: SkipList<Words>,
    splice: Mutex<Splice>,
    /// The oldest tombstone.
    first_seq: AtomicU64,
    tombstones: AtomicUsize,
    boundaries: AtomicUsize,
    /// What an entry at each of the boundaries takes at most.
    boundary_bytes: AtomicUsize,
    /// Marks of entries of `list`, by [`Self::mark_of`]: the newest entry of the memtable that was
    /// written where such a one says what covers the key.
    written: [AtomicU64; MARKS],
}

impl RangeList {
    /// No tombstones, with room for so many bytes.
    pub(super) fn new(capacity: usize) -> Self {
        RangeList {
            list: SkipList::new(capacity),
            splice: Mutex::new(Splice::new(0x9e37_79b9_7f4a_7c15)),
            first_seq: AtomicU64::new(SeqNo::MAX),
            tombstones: AtomicUsize::new(0),
            boundaries: AtomicUsize::new(0),
            boundary_bytes: AtomicUsize::new(0),
            written: [const { AtomicU64::new(0) }; MARKS],
        }
    }

    /// The bytes that a tombstone takes at most beside [`Self::boundary_bytes`].
    pub(super) const fn room_for(start: usize, end: usize) -> usize {
        2 * (MAX_NODE_OVERHEAD + COVER_BYTES) + start + end
    }

    /// The bytes that a tombstone over all boundaries takes beside its own.
    pub(super) fn boundary_bytes(&self) -> usize {
        self.boundary_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that going through its fragments takes: of the tombstones over one, since
    /// when each is, and their numbers in the fragment, sorted, and as they are merged and written.
    pub(super) fn fragment_bytes(&self) -> usize {
        self.tombstones.load(Ordering::Relaxed) * 10 * size_of::<SeqNo>()
    }

    /// Whether there are so many boundaries that another memtable is to go on.
    pub(super) fn is_crowded(&self) -> bool {
        self.boundaries.load(Ordering::Relaxed) >= MOST_BOUNDARIES
    }

    /// The bytes of entries.
    pub(super) fn used(&self) -> usize {
        self.list.arena().used() - HEAD_BYTES
    }

    /// Adds a tombstone that is newer than all before, by who may insert; false where there is no
    /// room.
    pub(super) fn insert(&self, start: &[u8], end: &[u8], seq: SeqNo) -> bool {
        let mut splice = self.splice.lock();
        self.first_seq.fetch_min(seq, Ordering::Relaxed);
        self.tombstones.fetch_add(1, Ordering::Relaxed);
        let mut add = |key: &[u8], cover: SeqNo| {
            let tag = Tag::new(seq, EntryKind::Put);
            self.list
                .insert(&mut splice, key, tag, &cover.to_le_bytes(), None)
                != Inserted::Full
        };
        let arena = self.list.arena();
        let mut fits = true;
        // From the end on all stays as it was.
        if !end.is_empty() && !self.is_boundary(end) {
            let before = self.newest_at(end, seq);
            self.count_boundary(end);
            fits &= add(end, before.map_or(0, |node| self.cover(node)));
            // What was written there is newer than that tombstone still.
            if let Some((before, node)) = before.zip(self.seen_of(end, seq)) {
                let written = self.mark_of(before).load(Ordering::Relaxed);
                self.mark_of(node).fetch_max(written, Ordering::Relaxed);
            }
        }
        let mut next = self.after(start);
        while let Some(node) = next.filter(|node| fits && is_before(arena.key(*node), end)) {
            let boundary = arena.key(node);
            fits &= add(boundary, seq);
            next = self.after(boundary);
        }
        if !self.is_boundary(start) {
            self.count_boundary(start);
        }
        fits && add(start, seq)
    }

    /// An entry of the memtable was written, newer than all there is: groups are applied one after
    /// another, in the order of their numbers, and logs are replayed so. Whoever sees it sees its
    /// mark, since its number is published afterwards.
    pub(super) fn note_written(&self, key: &[u8], seq: SeqNo) {
        let at = self.newest_at(key, seq);
        if let Some(node) = at.filter(|node| self.cover(*node) > 0) {
            self.mark_of(node).fetch_max(seq, Ordering::Relaxed);
        }
    }

    fn mark_of(&self, node: Node) -> &AtomicU64 {
        let spread = (node.index() as u32).wrapping_mul(0x9e37_79b1) >> 16;
        let [first, ..] = &self.written;
        self.written.get(spread as usize % MARKS).unwrap_or(first)
    }

    fn count_boundary(&self, key: &[u8]) {
        let bytes = MAX_NODE_OVERHEAD + COVER_BYTES + key.len();
        self.boundary_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.boundaries.fetch_add(1, Ordering::Relaxed);
    }

    fn is_boundary(&self, key: &[u8]) -> bool {
        let node = self.list.at_or_after(key, Tag::NEWEST);
        node.is_some_and(|node| self.list.arena().key(node) == key)
    }

    /// The first entry of the boundary after a key.
    fn after(&self, key: &[u8]) -> Option<Node> {
        self.list.at_or_after(key, Tag::OLDEST)
    }

    fn cover(&self, node: Node) -> SeqNo {
        let value = self.list.arena().value(node);
        value
            .first_chunk()
            .map_or(0, |seq| SeqNo::from_le_bytes(*seq))
    }

    /// What readers of a number have of a boundary, if they see it.
    fn seen_of(&self, boundary: &[u8], snapshot: SeqNo) -> Option<Node> {
        let seen = self.list.at_or_after(boundary, Tag::seek(snapshot));
        seen.filter(|seen| self.list.arena().key(*seen) == boundary)
    }

    /// What they have of the last boundary at or before a key that they see.
    fn newest_at(&self, key: &[u8], snapshot: SeqNo) -> Option<Node> {
        if snapshot < self.first_seq.load(Ordering::Relaxed) {
            return None;
        }
        let mut last = self.list.at_or_before(key, Tag::OLDEST);
        while let Some(node) = last {
            let boundary = self.list.arena().key(node);
            let seen = self.seen_of(boundary, snapshot);
            if seen.is_some() {
                return seen;
            }
            // Of later numbers alone.
            last = self.list.at_or_before(boundary, Tag::NEWEST);
        }
        None
    }

    /// The first boundary after a key that readers of a number see.
    fn next_seen(&self, key: &[u8], snapshot: SeqNo) -> Option<Node> {
        if snapshot < self.first_seq.load(Ordering::Relaxed) {
            return None;
        }
        let mut next = self.after(key);
        while let Some(node) = next {
            let boundary = self.list.arena().key(node);
            if self.seen_of(boundary, snapshot).is_some() {
                return next;
            }
            next = self.after(boundary);
        }
        None
    }

    /// The newest tombstone over a key that readers of a number see; 0 for none.
    pub(super) fn newest_over(&self, key: &[u8], snapshot: SeqNo) -> SeqNo {
        self.newest_at(key, snapshot)
            .map_or(0, |node| self.cover(node))
    }

    /// The same, and the keys around of which it is true.
    pub(super) fn cover_of(&self, key: &[u8], snapshot: SeqNo) -> Cover {
        let arena = self.list.arena();
        let seen = self.newest_at(key, snapshot);
        let seq = seen.map_or(0, |node| self.cover(node));
        let is_older = |node| self.mark_of(node).load(Ordering::Relaxed) <= seq;
        Cover {
            seq,
            hides_own: seq > 0 && seen.is_some_and(is_older),
            start: seen.map_or_else(Vec::new, |node| arena.key(node).to_vec()),
            end: self
                .next_seen(key, snapshot)
                .map_or_else(Vec::new, |node| arena.key(node).to_vec()),
        }
    }
}

/// The fragments of a memtable into which nothing is inserted any more.
pub(crate) struct MemtableFragments {
    memtable: Arc<Memtable>,
    /// The first entry of the boundary that comes next.
    next: Option<Node>,
    /// The boundary gone past last, and what covers the keys from there on: from which number on,
    /// and by which tombstone.
    start: Vec<u8>,
    covers: Vec<(SeqNo, SeqNo)>,
}

impl MemtableFragments {
    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        let ranges = memtable.ranges.get();
        let next = ranges.and_then(|ranges| ranges.list.first());
        MemtableFragments {
            memtable,
            next,
            start: Vec::new(),
            covers: Vec::new(),
        }
    }

    /// Goes past the next boundary: what covered the keys before it holds for numbers from before
    /// it was one.
    fn step(&mut self) {
        let Some(ranges) = self.memtable.ranges.get() else {
            return;
        };
        let arena = ranges.list.arena();
        let Some(node) = self.next else { return };
        let boundary = arena.key(node);
        let mut at = Some(node);
        let mut covers = Vec::new();
        while let Some(node) = at.filter(|node| arena.key(*node) == boundary) {
            covers.push((arena.tag(node).seq(), ranges.cover(node)));
            at = ranges.list.next(node);
        }
        let first = covers.last().map_or(SeqNo::MAX, |(since, _)| *since);
        covers.extend(self.covers.iter().filter(|(since, _)| *since < first));
        self.covers = covers;
        self.start = boundary.to_vec();
        self.next = at;
    }

    /// The key of the next boundary.
    fn end(&self) -> Option<&[u8]> {
        let ranges = self.memtable.ranges.get()?;
        self.next.map(|node| ranges.list.arena().key(node))
    }
}

impl Fragments for MemtableFragments {
    fn at_or_after(&mut self, key: &[u8]) -> Result<Option<Fragment>> {
        while self.end().is_some_and(|end| end <= key) {
            self.step();
        }
        loop {
            let mut seqs: Vec<SeqNo> = self.covers.iter().map(|(_, seq)| *seq).collect();
            seqs.retain(|seq| *seq > 0);
            seqs.sort_unstable_by(|a, b| b.cmp(a));
            seqs.dedup();
            let end = self.end();
            if !seqs.is_empty() {
                return Ok(Some(Fragment {
                    start: self.start.clone(),
                    end: end.map_or_else(Vec::new, <[u8]>::to_vec),
                    seqs,
                }));
            }
            if end.is_none() {
                return Ok(None);
            }
            self.step();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::fragment::newest_seen;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..4, 0..3)
    }

    proptest! {
        /// Marks are shared, so that a range may be said to have something newer that has not.
        #[test]
        fn a_range_that_hides_its_own_has_nothing_newer(
            operations in prop::collection::vec((key(), prop::option::of(key())), 0..40),
            keys in prop::collection::vec(key(), 16),
        ) {
            let budget = crate::budget::Budget::new(1 << 30);
            let memtable = Arc::new(Memtable::new(&budget, 1 << 20));
            memtable.charge_anyway(1, 1 << 20);
            let mut written = Vec::new();
            for (seq, (key, end)) in (1..).zip(operations) {
                match end {
                    Some(end) if is_before(&key, &end) => {
                        prop_assert!(memtable.writer().insert_range(&key, &end, seq));
                    }
                    Some(_) => {}
                    None => {
                        let tag = Tag::new(seq, EntryKind::Put);
                        prop_assert!(memtable.insert(&key, tag, b"v"));
                        written.push((key, seq));
                    }
                }
            }
            for (key, snapshot) in keys.iter().flat_map(|key| (0..45).map(move |seq| (key, seq))) {
                let cover = memtable.cover_of(key, snapshot);
                prop_assert!(!cover.hides_own || cover.seq > 0);
                let newer = written.iter().any(|(key, seq)| {
                    cover.start <= *key
                        && is_before(key, &cover.end)
                        && (cover.seq + 1..=snapshot).contains(seq)
                });
                prop_assert!(!(newer && cover.hides_own), "{:?} at {}", cover, snapshot);
            }
        }

        #[test]
        fn readers_of_each_number_see_the_newest_tombstone_over_a_key(
            ranges in prop::collection::vec((key(), key()), 0..14),
            keys in prop::collection::vec(key(), 16),
        ) {
            let budget = crate::budget::Budget::new(1 << 30);
            let memtable = Arc::new(Memtable::new(&budget, 1 << 20));
            let mut tombstones = Vec::new();
            for (number, (start, end)) in ranges.into_iter().enumerate() {
                let seq = 10 * number as SeqNo + 10;
                if !is_before(&start, &end) {
                    continue;
                }
                let room = Memtable::room_for_range(start.len(), end.len());
                let room = Memtable::RANGES_BYTES + room;
                prop_assert!(memtable.charge(1, room + memtable.boundary_bytes(), u64::MAX));
                let used = memtable.bytes_used();
                let most = room + memtable.boundary_bytes();
                prop_assert!(memtable.writer().insert_range(&start, &end, seq));
                prop_assert!(memtable.bytes_used() - used <= most);
                tombstones.push((start, end, seq));
            }
            let newest = |key: &[u8], snapshot| {
                let over = tombstones.iter().rev();
                let mut over = over.filter(|(start, end, seq)| {
                    **start <= *key && is_before(key, end) && *seq <= snapshot
                });
                over.next().map_or(0, |(.., seq)| *seq)
            };
            let list = memtable.ranges.get();
            for key in &keys {
                for snapshot in (0..170).step_by(5) {
                    let expected = newest(key, snapshot);
                    let cover = list.map_or_else(Cover::default, |list| {
                        list.cover_of(key, snapshot)
                    });
                    prop_assert_eq!(cover.seq, expected);
                    prop_assert!(cover.start <= *key && is_before(key, &cover.end));
                    for other in &keys {
                        if cover.start <= *other && is_before(other, &cover.end) {
                            prop_assert_eq!(newest(other, snapshot), expected);
                        }
                    }
                    let all: Vec<_> = memtable.entries_of(key, snapshot, None).collect();
                    prop_assert_eq!(all.len(), usize::from(expected > 0));
                    let found = memtable.get(key, snapshot);
                    prop_assert_eq!(found.map_or(0, |(tag, _)| tag.seq()), expected);
                }
            }
            // Nothing was written since.
            for key in &keys {
                let cover = list.map_or_else(Cover::default, |list| list.cover_of(key, 165));
                prop_assert_eq!(cover.hides_own, cover.seq > 0);
            }
            // Fragments say the same, in order.
            let mut sorted = keys.clone();
            sorted.sort();
            let mut fragments = memtable.fragments();
            for key in &sorted {
                let found = fragments.at_or_after(key)?;
                if let Some(found) = &found {
                    prop_assert!(is_before(key, &found.end));
                    prop_assert!(found.seqs.is_sorted_by(|a, b| a > b));
                }
                let covers = |found: &&Fragment| found.start <= *key;
                for snapshot in (0..170).step_by(5) {
                    let seqs = found.as_ref().filter(covers).map(|found| found.seqs.clone());
                    let seen = newest_seen(seqs.unwrap_or_default(), snapshot);
                    prop_assert_eq!(seen, newest(key, snapshot), "{:?}", found);
                }
            }
        }
    }
}
