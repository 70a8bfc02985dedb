//! The memtable's memory: one region of 32-bit words, mapped as a whole and filled from the front
//! with nodes. Its pages become resident as they are first written, and are the system's again when
//! the arena goes ([`Pages`]).
//!
//! A node is named by the index `n` of its first word after its links:
//!
//! ```text
//! n-1-level  the next node at `level`, 0 for none      (the only words written more than once)
//! n, n+1     the key's prefix (base::key::prefix), high word first
//! n+2        length of the value
//! n+3, n+4   the tag, low word first
//! n+5 ..     u16 length of the key, key, value, zeros up to a word
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
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::base::key::{Tag, prefix};
use crate::base::pages::Pages;

/// The most levels a node is linked at.
pub(super) const MAX_HEIGHT: usize = 12;

/// The most words a region has, so that every index fits a word with room for arithmetic.
const MAX_WORDS: usize = 1 << 31;

const WORD: usize = 4;
const VALUE_LEN: usize = 2;
const TAG: usize = 3;
const PAYLOAD: usize = 5;
const KEY_LEN_BYTES: usize = 2;

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

    fn index(self) -> usize {
        self.0.get() as usize
    }
}

/// Words of memory, zero at first.
#[derive(Debug)]
pub(super) struct Words(Pages<AtomicU32>);

impl Words {
    #[inline]
    fn at(&self, at: usize) -> &AtomicU32 {
        #[expect(
            clippy::indexing_slicing,
            reason = "nodes lie within the region; a load for each step of each search"
        )]
        &self.0[at]
    }

    #[inline]
    fn load(&self, at: usize) -> u32 {
        self.at(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, at: usize, value: u32) {
        self.at(at).store(value, Ordering::Relaxed);
    }

    /// Writes the concatenation of byte strings from the start of a word on.
    fn store_bytes(&self, mut at: usize, parts: [&[u8]; 3]) {
        let mut word = [0u8; WORD];
        let mut filled = 0;
        for part in parts {
            let mut rest = part;
            while let Some((to, &from)) = word.get_mut(filled).zip(rest.first()) {
                if filled == 0 {
                    let (chunks, tail) = rest.as_chunks::<WORD>();
                    for chunk in chunks {
                        self.store(at, u32::from_ne_bytes(*chunk));
                        at += 1;
                    }
                    rest = tail;
                    for (to, from) in word.iter_mut().zip(rest) {
                        *to = *from;
                        filled += 1;
                    }
                    break;
                }
                *to = from;
                filled += 1;
                rest = rest.get(1..).unwrap_or_default();
                if filled == WORD {
                    self.store(at, u32::from_ne_bytes(word));
                    at += 1;
                    word = [0; WORD];
                    filled = 0;
                }
            }
        }
        if filled > 0 {
            self.store(at, u32::from_ne_bytes(word));
        }
    }

    /// `len` bytes from byte `start` of the region on.
    ///
    /// # Safety
    /// The words they lie in must not be written for as long as the slice lives, and earlier writes
    /// must have happened before this call.
    #[inline]
    unsafe fn bytes(&self, start: usize, len: usize) -> &[u8] {
        let (first, last) = (start / WORD, (start + len).div_ceil(WORD));
        let Some(words) = self.0.get(first..last) else {
            debug_assert!(
                false,
                "bytes {start}..{} of {} words",
                start + len,
                self.0.len()
            );
            return &[];
        };
        let base = words.as_ptr().cast::<u8>();
        // SAFETY: `start % WORD + len` is at most the length of `words` in bytes, atomics may be
        // read as the bytes they consist of, and the caller vouches that nothing writes them.
        unsafe { std::slice::from_raw_parts(base.add(start % WORD), len) }
    }
}

/// Where links are loaded and stored: the region itself, or a stand-in that a schedule checker
/// watches.
pub(super) trait Links: Send + Sync {
    /// Links for a region of `words` words, all zero.
    fn zeroed(words: usize) -> Self;
    /// The region that nodes' other words are in.
    fn words(&self) -> &Words;
    /// The link at a word, with all that was written before it was stored.
    fn load_acquire(&self, at: usize) -> u32;
    /// Stores a link, making all written before visible with it.
    fn store_release(&self, at: usize, value: u32);
}

impl Links for Words {
    fn zeroed(words: usize) -> Self {
        Words(Pages::zeroed(words))
    }

    #[inline]
    fn words(&self) -> &Words {
        self
    }

    #[inline]
    fn load_acquire(&self, at: usize) -> u32 {
        self.at(at).load(Ordering::Acquire)
    }

    #[inline]
    fn store_release(&self, at: usize, value: u32) {
        self.at(at).store(value, Ordering::Release);
    }
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
    pub(super) fn push(&self, height: usize, key: &[u8], tag: Tag, value: &[u8]) -> Option<Node> {
        let key_len = u16::try_from(key.len()).ok()?;
        let value_len = u32::try_from(value.len()).ok()?;
        let payload = (KEY_LEN_BYTES + key.len() + value.len()).div_ceil(WORD);
        let size = height + PAYLOAD + payload;
        let start = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let end = used.checked_add(size)?;
                (end <= self.len).then_some(end)
            })
            .ok()?;
        let at = start + height;
        let prefix = prefix(key);
        let raw = tag.to_raw();
        let words = self.links.words();
        words.store(at, (prefix >> 32) as u32);
        words.store(at + 1, prefix as u32);
        words.store(at + VALUE_LEN, value_len);
        words.store(at + TAG, raw as u32);
        words.store(at + TAG + 1, (raw >> 32) as u32);
        words.store_bytes(at + PAYLOAD, [&key_len.to_ne_bytes(), key, value]);
        NonZeroU32::new(u32::try_from(at).ok()?).map(Node)
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
        let len = self.links.words().load(node.index() + VALUE_LEN);
        self.payload(node, self.key_len(node), len as usize)
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
                 prop::collection::vec(any::<u8>(), 0..40)), 0..60 / LESS),
            capacity in 0..4000 / LESS,
        ) {
            let arena = Arena::<Words>::new(capacity);
            let mut used = HEAD_BYTES;
            let mut pushed = Vec::new();
            for (height, seq, key, value) in &entries {
                let tag = Tag::new(u64::from(*seq) << 20, EntryKind::Put);
                let payload = (2 + key.len() + value.len()).div_ceil(WORD) * WORD;
                let size = (height + PAYLOAD) * WORD + payload;
                let node = arena.push(*height, key, tag, value);
                prop_assert_eq!(node.is_some(), used + size <= arena.len * WORD);
                if let Some(node) = node {
                    used += size;
                    pushed.push((node, key, tag, value));
                }
                prop_assert_eq!(arena.used(), used);
            }
            for (node, key, tag, value) in pushed {
                prop_assert_eq!(arena.key(node), key.as_slice());
                prop_assert_eq!(arena.value(node), value.as_slice());
                prop_assert_eq!(arena.tag(node), tag);
                prop_assert_eq!(arena.prefix(node), prefix(key));
                prop_assert_eq!(arena.next(node, 0), None);
            }
        }
    }
}
