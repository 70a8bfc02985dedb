//! A cursor over what a memtable has for readers of one sequence number, which does not keep the
//! memtable.
//!
//! It copies entries, some at a time, and holds the memtable only meanwhile. So an iterator
//! that is left alone keeps no memory but its copies, which are charged. What it may see of the
//! memtable never changes: of each key the newest entry at or below the number, and going forward
//! what that needs if it is an operand, all of which are there when the view is made. (Going
//! backward, and going on in the other direction than that of the last search, what it needs is
//! not.) A memtable that is gone, since all of it is in tables now,
//! makes the view *lost*: whoever uses it must look there. Not shared between threads; see
//! [`InternalIterator`] for its protocol.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::Memtable;
use super::arena::Node;
use super::skiplist::SkipList;
use super::words::Words;
use crate::base::iter::InternalIterator;
use crate::base::key::{self, EntryKind, SeqNo, Tag};
use crate::budget::{Budget, Reservation, Role, memtable_copy};
use crate::error::Result;

/// Entries copied at first, after a search. With half of them a scan of ten copies three times,
/// with double of them a search for one key copies eight.
const FIRST: usize = 4;

/// So many times as many are copied each time, as long as the cursor goes on.
const GROWTH: usize = 4;

/// The most that are copied at a time: entries, and bytes of keys and values unless one has more.
/// With a quarter of them a long scan is a hundredth slower; four times as much is memory that many
/// iterators hold each.
const MOST: usize = 256;
const MOST_BYTES: u64 = 16 << 10;

/// A cursor over the entries of a memtable that readers of a sequence number see.
#[derive(Debug)]
pub(crate) struct MemtableView {
    memtable: Weak<Memtable>,
    seq: SeqNo,
    /// Set when the memtable is found gone; the views of one reader share it.
    lost: Arc<AtomicBool>,
    copies: Copies,
    /// Which of the copies the cursor is at.
    at: Option<usize>,
    /// Whether nothing lies before the first copy, and behind the last.
    ends: (bool, bool),
    /// How many entries are copied next.
    wanted: usize,
}

/// Copies of entries, ascending.
#[derive(Debug)]
struct Copies {
    bytes: Vec<u8>,
    entries: Vec<CopiedEntry>,
    memory: Reservation,
    budget: Arc<Budget>,
    /// How many may be added, and how many bytes if there is one already.
    room: (usize, usize),
    /// How many sources are merged with this one, itself included.
    sources: usize,
}

/// Where an entry's key and value lie: one behind the other.
#[derive(Debug, Clone, Copy)]
struct CopiedEntry {
    start: usize,
    key: usize,
    value: usize,
    tag: Tag,
}

impl CopiedEntry {
    fn key(&self) -> Range<usize> {
        self.start..self.start + self.key
    }

    fn value(&self) -> Range<usize> {
        let start = self.start + self.key;
        start..start + self.value
    }
}

impl Copies {
    fn key(&self, at: usize) -> &[u8] {
        let entry = self.entries.get(at);
        let key = entry.and_then(|entry| self.bytes.get(entry.key()));
        key.unwrap_or_default()
    }

    /// Makes room for so many others.
    fn clear(&mut self, wanted: usize) {
        self.entries.clear();
        self.bytes.clear();
        let most = MOST_BYTES.min(memtable_copy(self.budget.limit())) as usize;
        // What a large value left behind is not kept for small ones.
        if self.bytes.capacity() > 2 * most {
            self.bytes = Vec::new();
            self.memory.resize(self.memory());
        }
        self.room = (wanted, most);
    }

    fn tag(&self, at: usize) -> Tag {
        self.entries.get(at).map_or(Tag::OLDEST, |entry| entry.tag)
    }

    fn memory(&self) -> u64 {
        (self.bytes.capacity() + self.entries.capacity() * size_of::<CopiedEntry>()) as u64
    }

    /// Adds an entry if there is room for it; an error where there is no memory for a single one.
    fn push(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<bool> {
        let more = key.len() + value.len();
        let first = self.entries.is_empty();
        if !first && (self.entries.len() >= self.room.0 || self.bytes.len() + more > self.room.1) {
            return Ok(false);
        }
        match self.take_memory(more) {
            Err(refused) if first => return Err(refused),
            Err(_) => return Ok(false),
            Ok(()) => {}
        }
        self.entries.push(CopiedEntry {
            start: self.bytes.len(),
            key: key.len(),
            value: value.len(),
            tag,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(true)
    }

    /// Room for one entry more with so many bytes, charged; false where the budget has none.
    fn take_memory(&mut self, more: usize) -> Result<()> {
        let grown = |len: usize, more: usize, capacity: usize, least: usize| match len + more {
            fits if fits <= capacity => capacity,
            wanted => wanted.max(2 * capacity).max(least),
        };
        let bytes = grown(self.bytes.len(), more, self.bytes.capacity(), 256);
        let entries = grown(self.entries.len(), 1, self.entries.capacity(), FIRST);
        let total = (bytes + entries * size_of::<CopiedEntry>()) as u64;
        let held = self.memory.bytes();
        if total > held {
            self.memory.grow_iterator(total - held, self.sources)?;
        }
        self.bytes.reserve_exact(bytes - self.bytes.len());
        self.entries.reserve_exact(entries - self.entries.len());
        Ok(())
    }
}

impl MemtableView {
    /// A view at no entry, for readers of `seq`, that is merged with so many sources, itself
    /// included. Every entry at or below it that the memtable will ever have is in it.
    pub(super) fn new(
        memtable: &Arc<Memtable>,
        seq: SeqNo,
        budget: &Arc<Budget>,
        sources: usize,
        lost: &Arc<AtomicBool>,
    ) -> Self {
        MemtableView {
            memtable: Arc::downgrade(memtable),
            seq,
            lost: Arc::clone(lost),
            copies: Copies {
                bytes: Vec::new(),
                entries: Vec::new(),
                memory: budget.open_account(Role::Iterators),
                budget: Arc::clone(budget),
                room: (0, 0),
                sources,
            },
            at: None,
            ends: (false, false),
            wanted: FIRST,
        }
    }

    /// Looks into the memtable; `None` where there is nothing in it, or it is gone.
    fn look<T>(&mut self, into: impl FnOnce(&mut Self, &SkipList<Words>) -> T) -> Option<T> {
        let Some(memtable) = self.memtable.upgrade() else {
            self.lost.store(true, Ordering::Relaxed);
            self.at = None;
            return None;
        };
        memtable.list.get().map(|list| into(self, list))
    }

    /// Copies what follows from `node` on, and goes to the first of it.
    fn fill_forward(&mut self, list: &SkipList<Words>, mut node: Option<Node>) -> Result<()> {
        let arena = list.arena();
        self.at = None;
        self.copies.clear(self.wanted);
        self.ends = (false, false);
        while let Some(found) = node {
            let (key, tag) = (arena.key(found), arena.tag(found));
            if tag.seq() > self.seq {
                node = list.at_or_after(key, Tag::seek(self.seq));
                continue;
            }
            if !self.copies.push(key, tag, arena.value(found))? {
                break;
            }
            node = following(list, found);
        }
        self.ends.1 = node.is_none();
        self.at = (!self.copies.entries.is_empty()).then_some(0);
        Ok(())
    }

    /// Copies what comes before and at `node`, and goes to the last of it.
    fn fill_backward(&mut self, list: &SkipList<Words>, mut node: Option<Node>) -> Result<()> {
        let arena = list.arena();
        self.at = None;
        self.copies.clear(self.wanted);
        self.ends = (false, false);
        while let Some(found) = node {
            let key = arena.key(found);
            let visible = list.at_or_after(key, Tag::seek(self.seq));
            if let Some(visible) = visible.filter(|visible| arena.key(*visible) == key)
                && !self
                    .copies
                    .push(key, arena.tag(visible), arena.value(visible))?
            {
                break;
            }
            node = before_key(list, key);
        }
        self.ends.0 = node.is_none();
        self.copies.entries.reverse();
        self.at = self.copies.entries.len().checked_sub(1);
        Ok(())
    }

    /// The entry the cursor is at.
    #[inline]
    fn entry(&self) -> Option<&CopiedEntry> {
        self.copies.entries.get(self.at?)
    }
}

/// The entry seen next: behind those of a node's key, or of operands the one before.
fn following(list: &SkipList<Words>, node: Node) -> Option<Node> {
    match list.arena().tag(node).kind() {
        Some(EntryKind::Operand) => list.next(node),
        _ => after_key(list, node),
    }
}

/// The first entry behind all those of a node's key.
fn after_key(list: &SkipList<Words>, node: Node) -> Option<Node> {
    let arena = list.arena();
    let key = arena.key(node);
    let mut next = list.next(node);
    // Mostly there is no other; a key that was written very often is passed by a search.
    for _ in 0..FIRST {
        match next {
            Some(other) if arena.key(other) == key => next = list.next(other),
            other => return other,
        }
    }
    let mut next = list.at_or_after(key, Tag::OLDEST);
    while let Some(other) = next.filter(|other| arena.key(*other) == key) {
        next = list.next(other);
    }
    next
}

/// The last entry before all those of a key.
fn before_key(list: &SkipList<Words>, key: &[u8]) -> Option<Node> {
    let mut node = list.at_or_before(key, Tag::NEWEST);
    while let Some(other) = node.filter(|other| list.arena().key(*other) == key) {
        node = list.prev(other);
    }
    node
}

impl InternalIterator for MemtableView {
    #[inline]
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        let key = self
            .entry()
            .and_then(|entry| self.copies.bytes.get(entry.key()));
        key.unwrap_or_default()
    }

    #[inline]
    fn tag(&self) -> Tag {
        self.entry().map_or(Tag::OLDEST, |entry| entry.tag)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        let value = self
            .entry()
            .and_then(|entry| self.copies.bytes.get(entry.value()));
        value.unwrap_or_default()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        (self.at, self.wanted) = (None, FIRST);
        self.look(|view, list| view.fill_forward(list, list.first()))
            .unwrap_or(Ok(()))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        (self.at, self.wanted) = (None, FIRST);
        self.look(|view, list| view.fill_backward(list, list.last()))
            .unwrap_or(Ok(()))
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        (self.at, self.wanted) = (None, FIRST);
        let filled = self.look(|view, list| {
            let arena = list.arena();
            // What is seen of the key itself, unless that comes before the place looked for.
            let mut from = list.at_or_after(key, Tag::seek(view.seq));
            if let Some(node) = from
                && key::compare(arena.key(node), arena.tag(node), key, tag).is_lt()
            {
                from = after_key(list, node);
            }
            view.fill_forward(list, from)
        });
        filled.unwrap_or(Ok(()))
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        (self.at, self.wanted) = (None, FIRST);
        let filled = self.look(|view, list| {
            let arena = list.arena();
            let seen = list.at_or_after(key, Tag::seek(view.seq));
            let seen = seen.filter(|node| {
                let found = arena.key(*node);
                found == key && key::compare(found, arena.tag(*node), key, tag).is_le()
            });
            view.fill_backward(list, seen.or_else(|| before_key(list, key)))
        });
        filled.unwrap_or(Ok(()))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        if at + 1 < self.copies.entries.len() {
            self.at = Some(at + 1);
            return Ok(());
        }
        self.go_on(at, true)
    }

    fn prev(&mut self) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        if let Some(before) = at.checked_sub(1) {
            self.at = Some(before);
            return Ok(());
        }
        self.go_on(at, false)
    }
}

impl MemtableView {
    /// Goes on past the last copy, or before the first, which the cursor is at.
    fn go_on(&mut self, at: usize, forward: bool) -> Result<()> {
        let over = if forward { self.ends.1 } else { self.ends.0 };
        self.at = None;
        if over {
            return Ok(());
        }
        self.wanted = (self.wanted * GROWTH).min(MOST);
        let filled = self.look(|view, list| {
            // Found before the copies make room for others.
            let (key, tag) = (view.copies.key(at), view.copies.tag(at));
            if forward {
                let node = list.at_or_after(key, tag);
                let from = node.and_then(|node| following(list, node));
                view.fill_forward(list, from)
            } else {
                let from = before_key(list, key);
                view.fill_backward(list, from)
            }
        });
        filled.unwrap_or(Ok(()))
    }
}
