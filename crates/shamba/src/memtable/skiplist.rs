//! The index of a memtable: a skiplist whose links and key prefixes live in one array of atomics.
//!
//! A node is a row of slots: `entry offset, prefix high, prefix low, next_0 … next_h-1`; links are
//! slot numbers, zero for none. Keys are compared by their eight-byte prefix first, which lies in
//! the node itself, so a search rarely touches the entries' bytes.
//!
//! One writer at a time; any number of readers, without locks. A node is filled before it is
//! linked by a release store at level 0; readers follow links by acquire loads. Generic over the
//! atomic, so that tests can run it under a scheduler of their own.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU32, Ordering};

/// The tallest tower.
pub(super) const MAX_HEIGHT: usize = 12;

/// Slots before a node's links.
const HEADER: usize = 3;

/// What the skiplist asks of an atomic.
pub(super) trait Slot: Send + Sync {
    fn zero() -> Self;
    fn zeroed(len: usize) -> Box<[Self]>
    where
        Self: Sized,
    {
        (0..len).map(|_| Self::zero()).collect()
    }
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
}

impl Slot for AtomicU32 {
    fn zero() -> Self {
        AtomicU32::new(0)
    }
    fn zeroed(len: usize) -> Box<[Self]> {
        // The system hands zeroed pages out untouched, and they stay so until they are used.
        bytemuck::allocation::zeroed_slice_box(len)
    }
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        AtomicU32::load(self, order)
    }
    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        AtomicU32::store(self, value, order);
    }
}

/// A node: the number of its first slot; zero is the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node(u32);

pub(super) const HEAD: Node = Node(0);

/// The nodes before a place, one for each level.
pub(super) type Path = [Node; MAX_HEIGHT];

/// The links; see the module's text.
pub(super) struct SkipList<S> {
    slots: Box<[S]>,
}

impl<S: Slot> SkipList<S> {
    /// Room for `slots` slots besides the head's.
    pub(super) fn new(slots: usize) -> Self {
        SkipList {
            slots: S::zeroed(slots + HEADER + MAX_HEIGHT),
        }
    }

    /// The slot after the head, where nodes begin.
    pub(super) const fn first_free() -> usize {
        HEADER + MAX_HEIGHT
    }

    /// Slots a node of this height takes.
    pub(super) const fn node_slots(height: usize) -> usize {
        HEADER + height
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.slots.get(at).map_or(0, |slot| slot.load(order))
    }

    fn store(&self, at: usize, value: u32, order: Ordering) {
        if let Some(slot) = self.slots.get(at) {
            slot.store(value, order);
        }
    }

    #[inline]
    pub(super) fn next(&self, node: Node, level: usize) -> Option<Node> {
        let next = self.load(node.0 as usize + HEADER + level, Ordering::Acquire);
        (next != 0).then_some(Node(next))
    }

    /// Where the node's entry begins.
    #[inline]
    pub(super) fn entry(&self, node: Node) -> u32 {
        self.load(node.0 as usize, Ordering::Relaxed)
    }

    #[inline]
    fn prefix(&self, node: Node) -> u64 {
        let at = node.0 as usize;
        u64::from(self.load(at + 1, Ordering::Relaxed)) << 32
            | u64::from(self.load(at + 2, Ordering::Relaxed))
    }

    /// Finds a place: for each level the last node whose entry is `before` it. `tie` orders an
    /// entry (by its offset) against the place when the prefixes are equal.
    #[inline]
    pub(super) fn find(&self, prefix: u64, mut tie: impl FnMut(u32) -> Order, path: &mut Path) {
        let mut node = HEAD;
        let mut passed = None;
        for (level, slot) in path.iter_mut().enumerate().rev() {
            while let Some(next) = self.next(node, level) {
                if passed == Some(next) {
                    break;
                }
                let order = self
                    .prefix(next)
                    .cmp(&prefix)
                    .then_with(|| tie(self.entry(next)));
                if order != Order::Less {
                    passed = Some(next);
                    break;
                }
                node = next;
            }
            *slot = node;
        }
    }

    /// The last node, or the head of an empty list.
    pub(super) fn last(&self) -> Node {
        let mut node = HEAD;
        for level in (0..MAX_HEIGHT).rev() {
            while let Some(next) = self.next(node, level) {
                node = next;
            }
        }
        node
    }

    /// Fills the node at slot `at` and links it after `path`. The writer only.
    pub(super) fn link(&self, at: usize, height: usize, entry: u32, prefix: u64, path: &mut Path) {
        let node = Node(at as u32);
        self.store(at, entry, Ordering::Relaxed);
        self.store(at + 1, (prefix >> 32) as u32, Ordering::Relaxed);
        self.store(at + 2, prefix as u32, Ordering::Relaxed);
        for (level, before) in path.iter().enumerate().take(height) {
            let next = self.next(*before, level).map_or(0, |next| next.0);
            self.store(at + HEADER + level, next, Ordering::Relaxed);
        }
        for (level, before) in path.iter_mut().enumerate().take(height) {
            self.store(
                before.0 as usize + HEADER + level,
                node.0,
                Ordering::Release,
            );
            *before = node;
        }
    }
}
