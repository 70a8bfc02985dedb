//! The merge of several sorted sources into one cursor.
//!
//! A binary heap of the children that are valid, ordered by their present entries; a child given
//! earlier wins ties, but entries of one database never tie (tags differ). Switching direction
//! repositions the other children around the present entry. Children may wait in front of entries
//! they have not read, and so does the merge when one is first: as long as the others come first,
//! nobody reads them. Single-threaded.

use std::cmp::Ordering;

use crate::base::iter::{Direction, InternalIterator};
use crate::base::key::{Tag, compare};
use crate::error::Result;

/// A cursor over the union of its children.
pub(crate) struct MergeIter<I> {
    children: Vec<I>,
    /// Indices of valid children; the first is the present one, the rest a heap below it.
    heap: Vec<usize>,
    direction: Direction,
}

impl<I: InternalIterator> MergeIter<I> {
    pub(crate) fn new(children: Vec<I>) -> Self {
        let heap = Vec::with_capacity(children.len());
        MergeIter {
            children,
            heap,
            direction: Direction::Forward,
        }
    }

    /// The number of the child the present entry comes from.
    pub(crate) fn source(&self) -> Option<usize> {
        self.heap.first().copied()
    }

    fn current(&self) -> Option<&I> {
        self.children.get(*self.heap.first()?)
    }

    /// Whether child `a` comes before child `b` in the present direction.
    fn before(&self, a: usize, b: usize) -> bool {
        let (Some(x), Some(y)) = (self.children.get(a), self.children.get(b)) else {
            return false;
        };
        let order = compare(x.key(), x.tag(), y.key(), y.tag());
        let order = if self.direction == Direction::Forward {
            order
        } else {
            order.reverse()
        };
        order.then(a.cmp(&b)) == Ordering::Less
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            let Some(&l) = self.heap.get(left) else {
                return;
            };
            let smallest = match self.heap.get(left + 1) {
                Some(&r) if self.before(r, l) => left + 1,
                _ => left,
            };
            match (self.heap.get(smallest), self.heap.get(at)) {
                (Some(&child), Some(&parent)) if self.before(child, parent) => {
                    self.heap.swap(smallest, at)
                }
                _ => return,
            }
            at = smallest;
        }
    }

    fn rebuild(&mut self) {
        self.heap.clear();
        let valid = self
            .children
            .iter()
            .enumerate()
            .filter(|(_, child)| child.valid())
            .map(|(i, _)| i);
        self.heap.extend(valid);
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Applies a positioning call to every child, then orders them.
    fn position(
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
    fn advance(&mut self, step: impl FnOnce(&mut I) -> Result<()>) -> Result<()> {
        let Some(&top) = self.heap.first() else {
            return Ok(());
        };
        let Some(child) = self.children.get_mut(top) else {
            return Ok(());
        };
        if let Err(error) = step(child) {
            self.heap.clear();
            return Err(error);
        }
        if !child.valid() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    /// Until the first child is at an entry.
    fn settle_all(&mut self) -> Result<()> {
        while self.waits() {
            self.settle()?;
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

impl<I: InternalIterator> InternalIterator for MergeIter<I> {
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn key(&self) -> &[u8] {
        self.current().map_or(&[], |child| child.key())
    }

    fn tag(&self) -> Tag {
        self.current().map_or(Tag::OLDEST, |child| child.tag())
    }

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

    fn waits(&self) -> bool {
        self.current().is_some_and(I::waits)
    }

    /// Settles the first child alone.
    fn settle(&mut self) -> Result<()> {
        self.advance(I::settle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::EntryKind;
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
            let sort = |list: &mut Vec<(Vec<u8>, Tag)>| list.sort_by(|a, b| compare(&a.0, a.1, &b.0, b.1));
            children.iter_mut().for_each(sort);
            sort(&mut all);
            let mut merged = MergeIter::new(children.into_iter().map(|entries| VecIter { entries, at: None }).collect());
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
