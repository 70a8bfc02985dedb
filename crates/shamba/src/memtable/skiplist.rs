//! A skip list over the arena: one writer at a time, readers that take no lock.
//!
//! Readers may run at any time in any thread, and see a list that is sorted and complete up to
//! some moment during their search. Inserting needs a [`Splice`], of which there must be only one
//! for a list; the memtable keeps it under a mutex. Nodes are never moved or removed.

use std::cmp::Ordering;
use std::sync::atomic::{self, AtomicUsize};

use super::arena::{Arena, MAX_HEIGHT, Node, OperandSum};
use super::words::Links;
use crate::base::key::{EntryKind, Tag, compare, prefix};

/// What two operands come to, the older first.
pub(super) type Combine<'a> = &'a dyn Fn(&[u8], &[u8]) -> Option<Vec<u8>>;

/// What became of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inserted {
    /// The entry is in the list.
    Yes,
    /// An entry with the same key and tag was there already; nothing changed.
    Duplicate,
    /// There is no room; nothing changed.
    Full,
}

/// The writer's place: the neighbours of the last insertion at each level. The next insertion
/// starts there if it goes between them, so that sequential loads search nothing.
#[derive(Debug)]
pub(super) struct Splice {
    neighbours: [(Node, Option<Node>); MAX_HEIGHT],
    random: u64,
}

impl Splice {
    /// The splice of an empty list; `seed` starts its random heights.
    pub(super) fn new(seed: u64) -> Self {
        Splice {
            neighbours: [(Node::HEAD, None); MAX_HEIGHT],
            random: seed | 1,
        }
    }

    /// One level, and each further one with a chance of a quarter.
    fn height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let levels = (self.random >> 8).trailing_zeros() as usize / 2;
        (1 + levels).min(MAX_HEIGHT)
    }
}

/// A place in the order of entries.
struct SeekTarget<'a> {
    prefix: u64,
    key: &'a [u8],
    tag: Tag,
}

/// The neighbours of a target.
struct Bounds {
    /// The last node before the target, perhaps the head.
    before: Node,
    /// The first node at or after it.
    at_or_after: Option<Node>,
    /// Whether that one is at the target.
    exact: bool,
}

/// A sorted list of entries.
#[derive(Debug)]
pub(super) struct SkipList<L> {
    arena: Arena<L>,
    /// The levels in use. A reader that sees a new level before its links finds it empty.
    height: AtomicUsize,
}

impl<L: Links> SkipList<L> {
    /// An empty list with room for `bytes` bytes of nodes.
    pub(super) fn new(bytes: usize) -> Self {
        SkipList {
            arena: Arena::new(bytes),
            height: AtomicUsize::new(1),
        }
    }

    /// The memory entries are in.
    pub(super) fn arena(&self) -> &Arena<L> {
        &self.arena
    }

    /// Adds an entry; `combine`, of an operand, what it and those of its key right before it come
    /// to with it. `splice` must be the list's only one.
    pub(super) fn insert(
        &self,
        splice: &mut Splice,
        key: &[u8],
        tag: Tag,
        value: &[u8],
        combine: Option<Combine<'_>>,
    ) -> Inserted {
        let target = SeekTarget::new(key, tag);
        if !self.fits_between(splice, &target) {
            let bounds = self.search(&target, |level, before, after| {
                if let Some(neighbours) = splice.neighbours.get_mut(level) {
                    *neighbours = (before, after);
                }
            });
            if bounds.exact {
                return Inserted::Duplicate;
            }
        }
        let height = splice.height();
        let pushed = match combine {
            None => self.arena.push(height, key, tag, value),
            Some(combine) => self.push_operand(splice, height, (key, tag, value), combine),
        };
        let Some(node) = pushed else {
            return Inserted::Full;
        };
        for (level, neighbours) in splice.neighbours.iter_mut().enumerate().take(height) {
            let (before, after) = *neighbours;
            self.arena.link(node, level, after);
            self.arena.link(before, level, Some(node));
            neighbours.0 = node;
        }
        if height > self.height.load(atomic::Ordering::Relaxed) {
            self.height.store(height, atomic::Ordering::Relaxed);
        }
        Inserted::Yes
    }

    /// Writes an operand that goes where the splice is.
    #[cold]
    fn push_operand(
        &self,
        splice: &Splice,
        height: usize,
        (key, tag, operand): (&[u8], Tag, &[u8]),
        combine: Combine<'_>,
    ) -> Option<Node> {
        let [(_, before), ..] = splice.neighbours;
        let before = before.filter(|before| {
            self.arena.tag(*before).kind() == Some(EntryKind::Operand)
                && self.arena.key(*before) == key
        });
        let both = before.and_then(|node| {
            let sum = self.arena.sum(node);
            let older = sum.map_or_else(|| self.arena.value(node), |sum| sum.bytes);
            // Nothing older of a key comes later.
            let is_last = || (self.next(node)).is_none_or(|older| self.arena.key(older) != key);
            let oldest = match sum {
                Some(sum) => sum.oldest,
                None => (!is_last()).then_some(node),
            };
            Some((combine(older, operand)?, oldest))
        });
        match &both {
            Some((bytes, oldest)) => {
                let sum = OperandSum {
                    bytes,
                    oldest: *oldest,
                };
                self.arena.push_summed(height, key, tag, operand, sum)
            }
            None => self.arena.push(height, key, tag, operand),
        }
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<Node> {
        self.arena.next(Node::HEAD, 0)
    }

    /// The last entry.
    pub(super) fn last(&self) -> Option<Node> {
        let mut node = Node::HEAD;
        for level in (0..self.height.load(atomic::Ordering::Relaxed)).rev() {
            while let Some(next) = self.arena.next(node, level) {
                node = next;
            }
        }
        (node != Node::HEAD).then_some(node)
    }

    /// The entry after one of this list.
    pub(super) fn next(&self, node: Node) -> Option<Node> {
        self.arena.next(node, 0)
    }

    /// The entry before one of this list.
    pub(super) fn prev(&self, node: Node) -> Option<Node> {
        let target = SeekTarget {
            prefix: self.arena.prefix(node),
            key: self.arena.key(node),
            tag: self.arena.tag(node),
        };
        let before = self.search(&target, |_, _, _| {}).before;
        (before != Node::HEAD).then_some(before)
    }

    /// The first entry at or after a place.
    pub(super) fn at_or_after(&self, key: &[u8], tag: Tag) -> Option<Node> {
        self.search(&SeekTarget::new(key, tag), |_, _, _| {})
            .at_or_after
    }

    /// The last entry at or before a place.
    pub(super) fn at_or_before(&self, key: &[u8], tag: Tag) -> Option<Node> {
        let bounds = self.search(&SeekTarget::new(key, tag), |_, _, _| {});
        if bounds.exact {
            bounds.at_or_after
        } else {
            (bounds.before != Node::HEAD).then_some(bounds.before)
        }
    }

    /// Descends to a target, telling its neighbours at each level from the highest in use.
    #[inline]
    fn search(
        &self,
        target: &SeekTarget<'_>,
        mut neighbours: impl FnMut(usize, Node, Option<Node>),
    ) -> Bounds {
        let mut bounds = Bounds {
            before: Node::HEAD,
            at_or_after: None,
            exact: false,
        };
        for level in (0..self.height.load(atomic::Ordering::Relaxed)).rev() {
            // The node that ended the search a level above need not be compared again.
            while let Some(next) = self.arena.next(bounds.before, level)
                && Some(next) != bounds.at_or_after
            {
                match self.compare(next, target) {
                    Ordering::Less => bounds.before = next,
                    order => {
                        bounds.at_or_after = Some(next);
                        bounds.exact = order == Ordering::Equal;
                        break;
                    }
                }
            }
            neighbours(level, bounds.before, bounds.at_or_after);
        }
        bounds
    }

    fn fits_between(&self, splice: &Splice, target: &SeekTarget<'_>) -> bool {
        let [(before, after), ..] = splice.neighbours;
        (before == Node::HEAD || self.compare(before, target) == Ordering::Less)
            && after.is_none_or(|after| self.compare(after, target) == Ordering::Greater)
    }

    #[inline]
    fn compare(&self, node: Node, target: &SeekTarget<'_>) -> Ordering {
        match self.arena.prefix(node).cmp(&target.prefix) {
            Ordering::Equal => compare(
                self.arena.key(node),
                self.arena.tag(node),
                target.key,
                target.tag,
            ),
            order => order,
        }
    }
}

impl<'a> SeekTarget<'a> {
    fn new(key: &'a [u8], tag: Tag) -> Self {
        SeekTarget {
            prefix: prefix(key),
            key,
            tag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Words;
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::AtomicU32;
    use shuttle::thread;

    /// Links whose every load and store may be interleaved with other threads by the checker.
    struct CheckedLinks {
        links: Vec<AtomicU32>,
        words: Words,
    }

    impl Links for CheckedLinks {
        fn zeroed(words: usize) -> Self {
            CheckedLinks {
                links: (0..words).map(|_| AtomicU32::new(0)).collect(),
                words: Words::zeroed(words),
            }
        }
        fn words(&self) -> &Words {
            &self.words
        }
        fn load_acquire(&self, at: usize) -> u32 {
            self.links[at].load(atomic::Ordering::SeqCst)
        }
        fn store_release(&self, at: usize, value: u32) {
            self.links[at].store(value, atomic::Ordering::SeqCst);
        }
    }

    type Checked = SkipList<CheckedLinks>;

    /// Keys in an order that exercises both the splice and the search.
    const KEYS: [&[u8]; 7] = [b"m", b"n", b"b", b"sharedpre1", b"sharedpre0", b"", b"z"];

    fn value_of(i: usize) -> Vec<u8> {
        vec![i as u8 + 1; i * 3]
    }

    fn tag_of(i: usize) -> Tag {
        Tag::new(i as u64 + 1, EntryKind::Put)
    }

    /// Checks an entry to be whole, and gives its number in the order of insertion.
    fn check(list: &Checked, node: Node) -> usize {
        let seq = list.arena().tag(node).seq() as usize;
        assert!((1..=KEYS.len()).contains(&seq), "sequence number {seq}");
        assert_eq!(list.arena().key(node), KEYS[seq - 1]);
        assert_eq!(list.arena().value(node), value_of(seq - 1));
        seq
    }

    fn scan(list: &Checked) -> Vec<usize> {
        let mut seen: Vec<usize> = Vec::new();
        let mut at = list.first();
        while let Some(node) = at {
            let seq = check(list, node);
            if let Some(&last) = seen.last() {
                assert!(KEYS[last - 1] < KEYS[seq - 1], "sorted");
            }
            seen.push(seq);
            at = list.next(node);
        }
        seen
    }

    fn write_and_read(seed: u64) {
        let list = Arc::new(Checked::new(1000));
        let published = Arc::new(AtomicU32::new(0));
        let writer = {
            let (list, published) = (Arc::clone(&list), Arc::clone(&published));
            thread::spawn(move || {
                let mut splice = Splice::new(seed);
                for (i, key) in KEYS.iter().enumerate() {
                    let inserted = list.insert(&mut splice, key, tag_of(i), &value_of(i), None);
                    assert_eq!(inserted, Inserted::Yes);
                    published.store(i as u32 + 1, atomic::Ordering::SeqCst);
                }
            })
        };
        let reader = {
            let (list, published) = (Arc::clone(&list), Arc::clone(&published));
            thread::spawn(move || {
                let before = published.load(atomic::Ordering::SeqCst) as usize;
                let seen = scan(&list);
                for seq in 1..=before {
                    assert!(
                        seen.contains(&seq),
                        "entry {seq} of {before} published is missing"
                    );
                }
            })
        };
        for _ in 0..2 {
            let before = published.load(atomic::Ordering::SeqCst) as usize;
            for (i, key) in KEYS.iter().enumerate() {
                let found = list.at_or_after(key, tag_of(i));
                let found = found.map(|node| check(&list, node));
                assert!(i >= before || found == Some(i + 1), "published entry {i}");
                if let Some(prev) = list.at_or_before(key, Tag::NEWEST) {
                    assert!(KEYS[check(&list, prev) - 1] < *key);
                }
            }
            if let Some(last) = list.last() {
                check(&list, last);
                if let Some(prev) = list.prev(last) {
                    assert!(list.arena().key(prev) < list.arena().key(last));
                }
            }
        }
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(scan(&list), [6, 3, 1, 2, 5, 4, 7]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "the schedule checker switches stacks")]
    fn readers_see_whole_sorted_entries_in_random_schedules() {
        // Seeds whose lists have two and three levels as well as one.
        shuttle::check_random(|| write_and_read(3), 1000);
        shuttle::check_random(|| write_and_read(0x1234_5678_9abc_def1), 1000);
        shuttle::check_pct(|| write_and_read(77), 1000, 3);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn heights_fall_off_by_a_quarter() {
        let mut splice = Splice::new(42);
        let mut counts = [0usize; MAX_HEIGHT + 1];
        for _ in 0..100_000 {
            counts[splice.height()] += 1;
        }
        assert!((74_000..76_000).contains(&counts[1]), "{counts:?}");
        assert!((18_000..19_500).contains(&counts[2]), "{counts:?}");
        assert!(counts[7..].iter().sum::<usize>() > 0, "{counts:?}");
    }
}
