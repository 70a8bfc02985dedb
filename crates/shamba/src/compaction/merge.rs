//! The merge of several sorted sources into one cursor.
//!
//! A binary heap of the children that are valid, ordered by their present entries; a child given
//! earlier wins ties, but entries of one database never tie (tags differ). The heap holds what
//! decides most comparisons, since a child is slow to ask. Switching direction repositions the
//! other children around the present entry.
//!
//! A child may be deferred: it waits in front of entries that it has not read, of which only a
//! bound is known. While other children come first, nobody reads them. A merge is deferred when its
//! first child is. Single-threaded.

use std::cmp::Ordering;

use crate::base::fragment::{Cover, is_before};
use crate::base::iter::{Direction, InternalIterator};
use crate::base::key::{self, MAX_KEY_LEN, Tag};
use crate::error::{Error, Result};

const OUT_OF_ORDER: &str = "keys are not in their order";

/// Where a valid child stands.
#[derive(Debug, Clone, Copy)]
struct MergeHead {
    /// The first bytes of its key ([`key::prefix`]).
    prefix: u64,
    tag: Tag,
    waits: bool,
    /// Its number.
    child: usize,
}

impl MergeHead {
    #[inline]
    fn of(number: usize, child: &impl InternalIterator) -> Option<MergeHead> {
        if !child.valid() {
            return None;
        }
        Some(MergeHead {
            prefix: key::prefix(child.key()),
            tag: child.tag(),
            waits: child.is_deferred(),
            child: number,
        })
    }
}

/// A cursor over the union of its children.
pub(crate) struct MergeIter<I> {
    children: Vec<I>,
    /// The valid children; the first is the present one, the rest a heap below it.
    heap: Vec<MergeHead>,
    direction: Direction,
}

impl<I: InternalIterator> MergeIter<I> {
    /// What it takes for each child beside the child, in bytes.
    pub(crate) const CHILD_BYTES: usize = size_of::<MergeHead>();

    pub(crate) fn new(children: Vec<I>) -> Self {
        let heap = Vec::with_capacity(children.len());
        MergeIter {
            children,
            heap,
            direction: Direction::Forward,
        }
    }

    /// How many children there are.
    pub(crate) fn sources(&self) -> usize {
        self.children.len()
    }

    /// The number of the child the present entry comes from.
    pub(crate) fn source(&self) -> Option<usize> {
        self.heap.first().map(|head| head.child)
    }

    #[inline]
    fn current(&self) -> Option<&I> {
        self.children.get(self.heap.first()?.child)
    }

    /// Whether child `a` comes before child `b` in the present direction.
    #[inline]
    fn before(&self, a: &MergeHead, b: &MergeHead) -> bool {
        let order = match a.prefix.cmp(&b.prefix) {
            Ordering::Equal => self.compare(a, b),
            order => order,
        };
        let order = match self.direction {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        };
        order.then(a.child.cmp(&b.child)) == Ordering::Less
    }

    /// The order of two entries whose keys begin alike.
    fn compare(&self, a: &MergeHead, b: &MergeHead) -> Ordering {
        let key = |head: &MergeHead| self.children.get(head.child).map_or(&[][..], I::key);
        key::compare(key(a), a.tag, key(b), b.tag)
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            let Some(l) = self.heap.get(left) else {
                return;
            };
            let smallest = match self.heap.get(left + 1) {
                Some(r) if self.before(r, l) => left + 1,
                _ => left,
            };
            match (self.heap.get(smallest), self.heap.get(at)) {
                (Some(below), Some(above)) if self.before(below, above) => {
                    self.heap.swap(smallest, at)
                }
                _ => return,
            }
            at = smallest;
        }
    }

    fn rebuild(&mut self) {
        self.heap.clear();
        let children = self.children.iter().enumerate();
        self.heap
            .extend(children.filter_map(|(number, child)| MergeHead::of(number, child)));
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Applies a positioning call to every child, then orders them.
    pub(crate) fn position(
        &mut self,
        direction: Direction,
        mut call: impl FnMut(&mut I) -> Result<()>,
    ) -> Result<()> {
        self.direction = direction;
        self.heap.clear();
        for child in &mut self.children {
            call(child)?;
        }
        self.rebuild();
        Ok(())
    }

    /// Moves the present child by `step` and restores the order.
    #[inline]
    fn advance(&mut self, step: impl FnOnce(&mut I) -> Result<()>) -> Result<()> {
        let Some(top) = self.heap.first_mut() else {
            return Ok(());
        };
        let Some(child) = self.children.get_mut(top.child) else {
            return Ok(());
        };
        if let Err(error) = step(child) {
            self.heap.clear();
            return Err(error);
        }
        match MergeHead::of(top.child, child) {
            Some(head) => *top = head,
            None => drop(self.heap.swap_remove(0)),
        }
        self.sift_down(0);
        Ok(())
    }

    /// Moves the children from one on past what a range tombstone covers, which hides all they
    /// have of it.
    ///
    /// # Errors
    /// [`Error::Corruption`] too where one does not get past it: whoever tried again would do so
    /// for ever.
    pub(crate) fn skip_hidden(
        &mut self,
        first: usize,
        direction: Direction,
        cover: &Cover,
    ) -> Result<()> {
        let hidden = self.children.iter_mut().skip(first);
        for child in hidden.filter(|child| child.valid() && is_inside(*child, direction, cover)) {
            seek_past(child, direction, cover)?;
        }
        self.rebuild();
        Ok(())
    }

    /// Positions the children before one by `call`, and those from it on past what a range
    /// tombstone covers, which hides all they have of it.
    ///
    /// # Errors
    /// As [`Self::skip_hidden`].
    pub(crate) fn seek_around(
        &mut self,
        direction: Direction,
        (first, cover): (usize, &Cover),
        mut call: impl FnMut(&mut I) -> Result<()>,
    ) -> Result<()> {
        let mut number = 0;
        self.position(direction, |child| {
            let is_hidden = number >= first;
            number += 1;
            if is_hidden {
                seek_past(child, direction, cover)
            } else {
                call(child)
            }
        })
    }

    /// Until the first child is at an entry.
    fn settle_all(&mut self) -> Result<()> {
        while self.is_deferred() {
            self.materialize()?;
        }
        Ok(())
    }

    /// Turns around: every child but the present one is placed on the other side of the present
    /// entry.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        self.settle_all()?;
        let Some(top) = self.source() else {
            return Ok(());
        };
        let (key, tag) = match self.current() {
            Some(child) => (child.key().to_vec(), child.tag()),
            None => return Ok(()),
        };
        self.direction = direction;
        self.heap.clear();
        for (i, child) in self.children.iter_mut().enumerate() {
            if i == top {
                continue;
            }
            match direction {
                Direction::Forward => child.seek(&key, tag)?,
                Direction::Backward => child.seek_for_prev(&key, tag)?,
            }
        }
        self.rebuild();
        Ok(())
    }
}

/// Whether a child has not come past what a range tombstone covers.
fn is_inside(child: &impl InternalIterator, direction: Direction, cover: &Cover) -> bool {
    match direction {
        Direction::Forward => is_before(child.key(), &cover.end),
        Direction::Backward => child.key() >= cover.start.as_slice(),
    }
}

/// Moves a child past what a range tombstone covers.
fn seek_past(child: &mut impl InternalIterator, direction: Direction, cover: &Cover) -> Result<()> {
    match direction {
        Direction::Forward if cover.end.is_empty() => {
            child.seek(&[u8::MAX; MAX_KEY_LEN], Tag::OLDEST)?;
        }
        Direction::Forward => child.seek(&cover.end, Tag::NEWEST)?,
        Direction::Backward => child.seek_for_prev(&cover.start, Tag::NEWEST)?,
    }
    // What bounds a block may lie inside though its entries do not.
    while child.valid() && child.is_deferred() && is_inside(child, direction, cover) {
        child.materialize()?;
    }
    if child.valid() && is_inside(child, direction, cover) {
        return Err(Error::corruption(child.file(), 0, OUT_OF_ORDER));
    }
    Ok(())
}

impl<I: InternalIterator> InternalIterator for MergeIter<I> {
    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current().map_or(&[], |child| child.key())
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.heap.first().map_or(Tag::OLDEST, |head| head.tag)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().map_or(&[], |child| child.value())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.position(Direction::Forward, I::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.position(Direction::Backward, I::seek_to_last)
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.position(Direction::Forward, |child| child.seek(key, tag))
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.position(Direction::Backward, |child| child.seek_for_prev(key, tag))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            self.turn(Direction::Forward)?;
        }
        self.settle_all()?;
        self.advance(I::next)
    }

    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            self.turn(Direction::Backward)?;
        }
        self.settle_all()?;
        self.advance(I::prev)
    }

    #[inline]
    fn is_deferred(&self) -> bool {
        self.heap.first().is_some_and(|head| head.waits)
    }

    /// Settles the first child alone.
    fn materialize(&mut self) -> Result<()> {
        self.advance(I::materialize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{EntryKind, compare};
    use proptest::prelude::*;

    /// A cursor over a sorted vector.
    struct VecIter {
        entries: Vec<(Vec<u8>, Tag)>,
        at: Option<usize>,
    }

    impl VecIter {
        fn set(&mut self, at: Option<usize>) -> Result<()> {
            self.at = at.filter(|&i| i < self.entries.len());
            Ok(())
        }
        fn lower(&self, key: &[u8], tag: Tag) -> usize {
            self.entries
                .partition_point(|(k, t)| compare(k, *t, key, tag) == Ordering::Less)
        }
    }

    impl InternalIterator for VecIter {
        fn valid(&self) -> bool {
            self.at.is_some()
        }
        fn key(&self) -> &[u8] {
            self.at.map_or(&[], |i| &self.entries[i].0)
        }
        fn tag(&self) -> Tag {
            self.at.map_or(Tag::OLDEST, |i| self.entries[i].1)
        }
        fn value(&self) -> &[u8] {
            &[]
        }
        fn seek_to_first(&mut self) -> Result<()> {
            self.set(Some(0))
        }
        fn seek_to_last(&mut self) -> Result<()> {
            self.set(self.entries.len().checked_sub(1))
        }
        fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
            let at = self.lower(key, tag);
            self.set(Some(at))
        }
        fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
            let at = self
                .entries
                .partition_point(|(k, t)| compare(k, *t, key, tag) != Ordering::Greater);
            self.set(at.checked_sub(1))
        }
        fn next(&mut self) -> Result<()> {
            self.set(self.at.map(|i| i + 1))
        }
        fn prev(&mut self) -> Result<()> {
            self.set(self.at.and_then(|i| i.checked_sub(1)))
        }
    }

    /// A cursor that no search moves, as over entries whose order is damaged.
    struct Stuck;

    impl InternalIterator for Stuck {
        fn valid(&self) -> bool {
            true
        }
        fn key(&self) -> &[u8] {
            b"k"
        }
        fn tag(&self) -> Tag {
            Tag::new(1, EntryKind::Put)
        }
        fn value(&self) -> &[u8] {
            &[]
        }
        fn seek_to_first(&mut self) -> Result<()> {
            Ok(())
        }
        fn seek_to_last(&mut self) -> Result<()> {
            Ok(())
        }
        fn seek(&mut self, _: &[u8], _: Tag) -> Result<()> {
            Ok(())
        }
        fn seek_for_prev(&mut self, _: &[u8], _: Tag) -> Result<()> {
            Ok(())
        }
        fn next(&mut self) -> Result<()> {
            Ok(())
        }
        fn prev(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_does_not_get_past_a_range_tombstone_is_damaged() {
        let cover = Cover {
            seq: 2,
            hides_own: false,
            start: b"a".to_vec(),
            end: b"z".to_vec(),
        };
        for direction in [Direction::Forward, Direction::Backward] {
            let mut merge = MergeIter::new(vec![Stuck, Stuck]);
            merge.seek_to_first().unwrap();
            let skipped = merge.skip_hidden(1, direction, &cover);
            let error = skipped.unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{error}");
        }
    }

    proptest! {
        #[test]
        fn merges_like_one_sorted_list(
            entries in prop::collection::vec((0u8..20, 0usize..5), 0..60),
            moves in prop::collection::vec((0u8..6, 0u8..22, 0u64..70), 0..60),
        ) {
            let mut children: Vec<Vec<(Vec<u8>, Tag)>> = vec![Vec::new(); 5];
            let mut all = Vec::new();
            for (seq, (key, child)) in entries.iter().enumerate() {
                let entry = (vec![*key], Tag::new(seq as u64, EntryKind::Put));
                children[*child].push(entry.clone());
                all.push(entry);
            }
            let sort = |list: &mut Vec<(Vec<u8>, Tag)>| {
                list.sort_by(|a, b| compare(&a.0, a.1, &b.0, b.1));
            };
            children.iter_mut().for_each(sort);
            sort(&mut all);
            let children = children.into_iter();
            let children = children.map(|entries| VecIter { entries, at: None });
            let mut merged = MergeIter::new(children.collect());
            let mut model = VecIter { entries: all, at: None };
            for (what, key, seq) in moves {
                let (key, tag) = (vec![key], Tag::seek(seq));
                for cursor in [&mut merged as &mut dyn InternalIterator, &mut model] {
                    match what {
                        0 => cursor.seek_to_first()?,
                        1 => cursor.seek_to_last()?,
                        2 => cursor.seek(&key, tag)?,
                        3 => cursor.seek_for_prev(&key, tag)?,
                        4 => cursor.next()?,
                        _ => cursor.prev()?,
                    }
                }
                prop_assert_eq!(merged.valid(), model.valid());
                prop_assert_eq!((merged.key(), merged.tag()), (model.key(), model.tag()));
            }
        }
    }
}
