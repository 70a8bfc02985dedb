//! The memtable's memory: one region of 32-bit words, mapped as a whole and filled from the front
//! with nodes. Its pages become resident as they are first written, and are the system's again when
//! the arena goes ([`Pages`]).
//!
//! A node is named by the index `n` of its first word after its links:
//!
//! ```text
//! n-1-level  the next node at `level`, 0 for none      (the only words written more than once)
//! n, n+1     the key's prefix (base::key::prefix), high word first
//! n+2        length of the value; the highest bit says that there is a sum
//! n+3, n+4   the tag, low word first
//! n+5 ..     u16 length of the key, key, value, the sum's bytes, zeros up to a word
//! then       of a sum: the oldest operand in it, 0 where nothing older of the key follows that
//! ```
//!
//! Thread-safe. Nodes are written by [`Arena::push`] into words that nothing refers to yet, become
//! reachable for others by [`Arena::link`] (a release store), are reached by [`Arena::next`] (an
//! acquire load), and apart from their links never change again. That is what allows handing out
//! their bytes as plain slices, the one thing done here by `unsafe`.
#![expect(
    unsafe_code,
    reason = "entry bytes are handed out as slices of a region that others append to"
)]

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::words::{Links, WORD};
use crate::base::key::{Tag, prefix};

/// The most levels a node is linked at.
pub(super) const MAX_HEIGHT: usize = 12;

/// The most words a region has, so that every index fits a word with room for arithmetic.
const MAX_WORDS: usize = 1 << 31;

const VALUE_LEN: usize = 2;
const TAG: usize = 3;
const PAYLOAD: usize = 5;
const KEY_LEN_BYTES: usize = 2;

/// The bit of a value's length that says that there is a sum: no value is as long.
const SUMMED: u32 = 1 << 31;

/// The words taken by the list's head, a node without an entry.
const HEAD_WORDS: usize = MAX_HEIGHT;

/// Bytes taken by the list's head.
pub(super) const HEAD_BYTES: usize = HEAD_WORDS * WORD;

/// The most bytes a node takes besides its key and value.
pub(super) const MAX_NODE_OVERHEAD: usize =
    (MAX_HEIGHT + PAYLOAD) * WORD + KEY_LEN_BYTES + (WORD - 1);

/// A node of the arena that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node(NonZeroU32);

impl Node {
    /// The head of the list, which comes before every entry and has none itself.
    pub(super) const HEAD: Node = match NonZeroU32::new(HEAD_WORDS as u32) {
        Some(index) => Node(index),
        None => unreachable!(),
    };

    /// Which word of the arena it is named by.
    pub(super) fn index(self) -> usize {
        self.0.get() as usize
    }
}

/// What an operand and those before it come to: all of them down to the oldest, which follow the
/// node at the lowest level.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperandSum<'a> {
    /// As many bytes as the operand has.
    pub(super) bytes: &'a [u8],
    /// None where the list has nothing older of the key: a lookup need not go there, which may be
    /// far away.
    pub(super) oldest: Option<Node>,
}

/// The longest sum that is kept: most are numbers.
pub(super) const MOST_SUM: usize = 16;

/// Whether a node of so many levels may have a sum of so many bytes: a node of the most levels
/// without one takes as much.
const fn has_room_for_sum(height: usize, bytes: usize) -> bool {
    (height + 1) * WORD + bytes <= MAX_HEIGHT * WORD
}

/// A region and how much of it is taken.
#[derive(Debug)]
pub(super) struct Arena<L> {
    links: L,
    /// Words in the region.
    len: usize,
    /// Words taken from the front.
    used: AtomicUsize,
}

impl<L: Links> Arena<L> {
    /// A region of `bytes` bytes (at most 8 GiB) besides the head.
    pub(super) fn new(bytes: usize) -> Self {
        let len = (bytes.div_ceil(WORD).saturating_add(HEAD_WORDS)).min(MAX_WORDS);
        Arena {
            links: L::zeroed(len),
            len,
            used: AtomicUsize::new(HEAD_WORDS),
        }
    }

    /// Bytes taken.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed) * WORD
    }

    /// Writes a node linked nowhere yet, to be linked at `height` levels; `None` when it does not
    /// fit.
    #[inline]
    pub(super) fn push(&self, height: usize, key: &[u8], tag: Tag, value: &[u8]) -> Option<Node> {
        let key_len = u16::try_from(key.len()).ok()?;
        let value_len = u32::try_from(value.len()).ok()?;
        let payload = (KEY_LEN_BYTES + key.len() + value.len()).div_ceil(WORD);
        let at = self.take(height, PAYLOAD + payload)?;
        self.store_head(at, key, tag, value_len);
        let words = self.links.words();
        words.store_bytes(at + PAYLOAD, [&key_len.to_ne_bytes(), key, value]);
        NonZeroU32::new(u32::try_from(at).ok()?).map(Node)
    }

    /// The same of an operand with a sum, which is left out where that would make the node longer
    /// than one may be.
    pub(super) fn push_summed(
        &self,
        height: usize,
        key: &[u8],
        tag: Tag,
        operand: &[u8],
        sum: OperandSum<'_>,
    ) -> Option<Node> {
        let len = sum.bytes.len();
        if len != operand.len() || !has_room_for_sum(height, len) {
            return self.push(height, key, tag, operand);
        }
        let key_len = u16::try_from(key.len()).ok()?;
        let payload = (KEY_LEN_BYTES + key.len() + 2 * len).div_ceil(WORD);
        let at = self.take(height, PAYLOAD + payload + 1)?;
        self.store_head(at, key, tag, len as u32 | SUMMED);
        let words = self.links.words();
        let parts = [&key_len.to_ne_bytes(), key, operand, sum.bytes];
        words.store_bytes(at + PAYLOAD, parts);
        let oldest = sum.oldest.map_or(0, |oldest| oldest.0.get());
        words.store(at + PAYLOAD + payload, oldest);
        NonZeroU32::new(u32::try_from(at).ok()?).map(Node)
    }

    /// Takes room for a node of so many levels, and of so many words behind its links: where these
    /// begin.
    #[inline(always)]
    fn take(&self, height: usize, words: usize) -> Option<usize> {
        let size = height + words;
        let start = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let end = used.checked_add(size)?;
                (end <= self.len).then_some(end)
            })
            .ok()?;
        Some(start + height)
    }

    #[inline(always)]
    fn store_head(&self, at: usize, key: &[u8], tag: Tag, value_len: u32) {
        let prefix = prefix(key);
        let raw = tag.to_raw();
        let words = self.links.words();
        words.store(at, (prefix >> 32) as u32);
        words.store(at + 1, prefix as u32);
        words.store(at + VALUE_LEN, value_len);
        words.store(at + TAG, raw as u32);
        words.store(at + TAG + 1, (raw >> 32) as u32);
    }

    /// The node after `node` at `level`, one of the levels `node` is linked at.
    #[inline]
    pub(super) fn next(&self, node: Node, level: usize) -> Option<Node> {
        NonZeroU32::new(self.links.load_acquire(node.index() - 1 - level)).map(Node)
    }

    /// Makes `next` the node after `node` at `level`, one of the levels `node` is linked at.
    #[inline]
    pub(super) fn link(&self, node: Node, level: usize, next: Option<Node>) {
        let next = next.map_or(0, |next| next.0.get());
        self.links.store_release(node.index() - 1 - level, next);
    }

    /// The prefix of a node's key.
    #[inline]
    pub(super) fn prefix(&self, node: Node) -> u64 {
        let words = self.links.words();
        u64::from(words.load(node.index())) << 32 | u64::from(words.load(node.index() + 1))
    }

    /// A node's tag.
    #[inline]
    pub(super) fn tag(&self, node: Node) -> Tag {
        let words = self.links.words();
        let low = u64::from(words.load(node.index() + TAG));
        Tag::from_raw(u64::from(words.load(node.index() + TAG + 1)) << 32 | low)
    }

    /// A node's key.
    #[inline]
    pub(super) fn key(&self, node: Node) -> &[u8] {
        self.payload(node, 0, self.key_len(node))
    }

    /// A node's value.
    #[inline]
    pub(super) fn value(&self, node: Node) -> &[u8] {
        self.payload(node, self.key_len(node), self.value_len(node).0)
    }

    /// What a node's operand and those before it come to, if that is known.
    #[inline]
    pub(super) fn sum(&self, node: Node) -> Option<OperandSum<'_>> {
        let (len, is_summed) = self.value_len(node);
        if !is_summed {
            return None;
        }
        let start = self.key_len(node) + len;
        let payload = (KEY_LEN_BYTES + start + len).div_ceil(WORD);
        let oldest = (self.links.words()).load(node.index() + PAYLOAD + payload);
        Some(OperandSum {
            bytes: self.payload(node, start, len),
            oldest: NonZeroU32::new(oldest).map(Node),
        })
    }

    /// The length of a node's value, and whether there is a sum.
    #[inline]
    fn value_len(&self, node: Node) -> (usize, bool) {
        let len = self.links.words().load(node.index() + VALUE_LEN);
        ((len & !SUMMED) as usize, len & SUMMED != 0)
    }

    fn key_len(&self, node: Node) -> usize {
        let word = self.links.words().load(node.index() + PAYLOAD);
        let [a, b, _, _] = word.to_ne_bytes();
        usize::from(u16::from_ne_bytes([a, b]))
    }

    /// Bytes of a node's payload, from `start` bytes after the key's length on.
    #[inline]
    fn payload(&self, node: Node, start: usize, len: usize) -> &[u8] {
        let at = (node.index() + PAYLOAD) * WORD + KEY_LEN_BYTES;
        // SAFETY: a `Node` comes from `push`, or through links that only ever hold nodes of `push`;
        // `push` wrote the payload within the region before the node could be linked, into words
        // it alone had claimed, and nothing writes a payload again. A reader that came through a
        // link saw the release store of `link` by the acquire load of `next`.
        unsafe { self.links.words().bytes(at + start, len) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Words;
    use super::*;
    use crate::base::key::EntryKind;
    use proptest::prelude::*;

    /// Miri takes minutes for more.
    const LESS: usize = if cfg!(miri) { 5 } else { 1 };

    proptest! {
        #[test]
        fn nodes_hold_what_was_pushed_and_bytes_are_counted_exactly(
            entries in prop::collection::vec(
                (1..=MAX_HEIGHT, any::<u32>(), prop::collection::vec(any::<u8>(), 0..20),
                 prop::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..60 / LESS),
            capacity in 0..4000 / LESS,
        ) {
            let arena = Arena::<Words>::new(capacity);
            let mut used = HEAD_BYTES;
            let mut pushed: Vec<(Node, _, _, _, _)> = Vec::new();
            for (height, seq, key, value, summed) in &entries {
                let tag = Tag::new(u64::from(*seq) << 20, EntryKind::Put);
                let bytes: Vec<u8> = value.iter().map(|byte| !byte).collect();
                let oldest = pushed.last().filter(|_| *summed).map(|(node, ..)| *node);
                let oldest = oldest.filter(|_| seq % 2 == 0);
                let sum = (*summed).then_some(OperandSum { bytes: &bytes, oldest });
                let node = match sum {
                    Some(sum) => arena.push_summed(*height, key, tag, value, sum),
                    None => arena.push(*height, key, tag, value),
                };
                // As long as a node of the most levels has none.
                let kept = sum.filter(|_| 4 * height + value.len() <= 44);
                let kept = kept.map(|sum| (sum.bytes.to_vec(), sum.oldest));
                let both = value.len() * (1 + usize::from(kept.is_some()));
                let payload = (2 + key.len() + both).div_ceil(WORD) * WORD;
                let own = if kept.is_some() { WORD } else { 0 };
                let size = (height + PAYLOAD) * WORD + payload + own;
                prop_assert!(size <= MAX_NODE_OVERHEAD + key.len() + value.len());
                prop_assert_eq!(node.is_some(), used + size <= arena.len * WORD);
                if let Some(node) = node {
                    used += size;
                    pushed.push((node, key, tag, value, kept));
                }
                prop_assert_eq!(arena.used(), used);
            }
            for (node, key, tag, value, kept) in pushed {
                prop_assert_eq!(arena.key(node), key.as_slice());
                prop_assert_eq!(arena.value(node), value.as_slice());
                let sum = arena.sum(node);
                prop_assert_eq!(sum.map(|sum| (sum.bytes.to_vec(), sum.oldest)), kept);
                prop_assert_eq!(arena.tag(node), tag);
                prop_assert_eq!(arena.prefix(node), prefix(key));
                prop_assert_eq!(arena.next(node, 0), None);
            }
        }
    }
}
