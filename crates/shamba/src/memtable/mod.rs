//! Memtables: the newest entries, sorted, in memory.
//!
//! An arena skiplist: entries' bytes in one buffer ([`arena`]), links in another ([`skiplist`]).
//! Both have a fixed capacity, allocated zeroed so that the system provides pages as they are
//! used, and charged to the budget in steps as they fill. One writer at a time inserts (the leader
//! of a write group, under its lock); readers take no lock. An entry is
//! `key length u32, value length u32, tag u64, key, value`.

mod arena;
mod skiplist;

use std::cmp::Ordering as Order;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::base::iter::InternalIterator;
use crate::base::key::{self, SeqNo, Tag};
use crate::budget::{Budget, Reservation, Role};
use crate::error::Result;
use arena::ByteArena;
use skiplist::{HEAD, MAX_HEIGHT, Node, Path, SkipList, Slot};

/// Bytes before an entry's key.
const ENTRY_HEADER: usize = 16;

/// Of four nodes of a height, one is taller.
const BRANCHING_BITS: u32 = 2;

type Links = SkipList<AtomicU32>;

/// The writer's own state.
#[derive(Debug)]
struct Writer {
    random: u64,
    /// The nodes before the place after the last insert, for ascending inserts.
    last: Path,
    memory: Reservation,
}

/// A sorted buffer of entries.
pub(crate) struct Memtable {
    bytes: ByteArena,
    links: Links,
    used_bytes: AtomicUsize,
    used_slots: AtomicUsize,
    entries: AtomicUsize,
    first_seq: AtomicU64,
    last_seq: AtomicU64,
    step: usize,
    writer: Mutex<Writer>,
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable")
            .field("entries", &self.len())
            .field("bytes", &self.bytes_used())
            .finish_non_exhaustive()
    }
}

/// The most slots a node takes, in bytes.
const MAX_NODE: usize = Links::node_slots(MAX_HEIGHT) * size_of::<u32>();

/// About the slots a node takes, in bytes: three and four thirds.
const MEAN_NODE: usize = 18;

impl Memtable {
    /// An empty memtable that takes about `capacity` bytes of entries and links.
    pub(crate) fn new(budget: &Arc<Budget>, capacity: usize) -> Self {
        // Small entries are mostly links, large ones mostly bytes: each side gets what it would
        // need if entries had 16 bytes of key and value.
        let slots = capacity * MEAN_NODE / (MEAN_NODE + ENTRY_HEADER + 16) / size_of::<u32>();
        let memory = budget.reserve(Role::Memtable, 0);
        Memtable {
            bytes: ByteArena::new(capacity.min(u32::MAX as usize)),
            links: Links::new(slots.max(MAX_NODE)),
            used_bytes: AtomicUsize::new(0),
            used_slots: AtomicUsize::new(Links::first_free()),
            entries: AtomicUsize::new(0),
            first_seq: AtomicU64::new(u64::MAX),
            last_seq: AtomicU64::new(0),
            step: (capacity / 16).clamp(1 << 10, 1 << 20),
            writer: Mutex::new(Writer {
                random: 0x9e37_79b9_7f4a_7c15,
                last: [HEAD; MAX_HEIGHT],
                memory,
            }),
        }
    }

    /// The capacity that surely takes `entries` entries of `bytes` bytes of keys and values.
    pub(crate) const fn room_for(entries: usize, bytes: usize) -> usize {
        bytes + entries * (ENTRY_HEADER + 4 * MAX_NODE)
    }

    /// Whether so many more entries, of so many bytes of keys and values, surely fit.
    #[inline]
    pub(crate) fn fits(&self, entries: usize, bytes: usize) -> bool {
        let used = self.used_bytes.load(Ordering::Relaxed);
        let slots = self.used_slots.load(Ordering::Relaxed);
        let all = used + slots * size_of::<u32>();
        used + bytes + entries * ENTRY_HEADER <= self.bytes.capacity()
            && slots + entries * Links::node_slots(MAX_HEIGHT) <= self.links.capacity()
            && (all + bytes + entries * (ENTRY_HEADER + MAX_NODE) <= self.bytes.capacity()
                || self.is_empty())
    }

    /// Adds an entry, which must fit ([`Memtable::fits`]); false, and nothing added, if it does
    /// not. Callers insert one at a time.
    pub(crate) fn insert(&self, key: &[u8], tag: Tag, value: &[u8]) -> bool {
        let mut writer = self.writer.lock();
        let writer = &mut *writer;
        let height = writer.height();
        let at = self.used_bytes.load(Ordering::Relaxed);
        let slot = self.used_slots.load(Ordering::Relaxed);
        let end = at + ENTRY_HEADER + key.len() + value.len();
        let slots_end = slot + Links::node_slots(height);
        if end > self.bytes.capacity() || slots_end > self.links.capacity() {
            return false;
        }
        let held = end + slots_end * size_of::<u32>();
        if held as u64 > writer.memory.bytes() {
            let more = held as u64 - writer.memory.bytes();
            writer.memory.grow(more.max(self.step as u64));
        }
        let mut header = [0; ENTRY_HEADER];
        let fields = (key.len() as u64) << 32 | value.len() as u64;
        let (lens, raw_tag) = header.split_at_mut(8);
        lens.copy_from_slice(&fields.to_le_bytes());
        raw_tag.copy_from_slice(&tag.to_raw().to_le_bytes());
        let written = self.bytes.push(at, &header)
            && self.bytes.push(at + ENTRY_HEADER, key)
            && self.bytes.push(at + ENTRY_HEADER + key.len(), value);
        if !written {
            return false;
        }
        let prefix = key::prefix(key);
        if !self.comes_after(writer.last[0], prefix, key, tag) {
            self.links.find(
                prefix,
                |entry| self.order(entry, key, tag),
                &mut writer.last,
            );
        }
        self.links
            .link(slot, height, at as u32, prefix, &mut writer.last);
        self.used_bytes.store(end, Ordering::Relaxed);
        self.used_slots.store(slots_end, Ordering::Relaxed);
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.first_seq.fetch_min(tag.seq(), Ordering::Release);
        self.last_seq.fetch_max(tag.seq(), Ordering::Release);
        true
    }

    /// Whether the place of an entry is just after `node`.
    fn comes_after(&self, node: Node, _prefix: u64, key: &[u8], tag: Tag) -> bool {
        let before = node == HEAD || self.order(self.links.entry(node), key, tag) == Order::Less;
        before
            && self
                .links
                .next(node, 0)
                .is_none_or(|next| self.order(self.links.entry(next), key, tag) == Order::Greater)
            && node != HEAD
    }

    /// An entry by its offset.
    #[inline]
    fn read(&self, entry: u32) -> Entry<'_> {
        let at = entry as usize;
        let header = self.bytes.get(at, at + ENTRY_HEADER);
        let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let lens = word(header.first_chunk());
        let tag = word(header.last_chunk());
        let key_end = at + ENTRY_HEADER + (lens >> 32) as usize;
        let end = key_end + (lens as u32) as usize;
        Entry {
            key: self.bytes.get(at + ENTRY_HEADER, key_end),
            tag: Tag::from_raw(tag),
            value: self.bytes.get(key_end, end),
        }
    }

    #[inline]
    fn order(&self, entry: u32, key: &[u8], tag: Tag) -> Order {
        let entry = self.read(entry);
        key::compare(entry.key, entry.tag, key, tag)
    }

    /// The first node at or after a place, and the last one before it.
    fn seek(&self, key: &[u8], tag: Tag) -> (Option<Node>, Node) {
        let mut path = [HEAD; MAX_HEIGHT];
        self.links.find(
            key::prefix(key),
            |entry| self.order(entry, key, tag),
            &mut path,
        );
        let [before, ..] = path;
        // A writer may link nodes in between meanwhile: pass over those before the place.
        let mut before = before;
        let mut next = self.links.next(before, 0);
        while let Some(node) =
            next.filter(|node| self.order(self.links.entry(*node), key, tag) == Order::Less)
        {
            before = node;
            next = self.links.next(node, 0);
        }
        (next, before)
    }

    /// The newest entry of a key at or before `snapshot`.
    pub(crate) fn get(&self, key: &[u8], snapshot: SeqNo) -> Option<(Tag, &[u8])> {
        if self.is_empty() {
            return None;
        }
        let entry = self.read(self.links.entry(self.seek(key, Tag::seek(snapshot)).0?));
        (entry.key == key).then_some((entry.tag, entry.value))
    }

    /// A cursor over the entries there are, and those that come.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter {
            memtable: self.clone(),
            node: None,
        }
    }

    /// Bytes of entries and links.
    pub(crate) fn bytes_used(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
            + self.used_slots.load(Ordering::Relaxed) * size_of::<u32>()
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest sequence number.
    pub(crate) fn first_seq(&self) -> Option<SeqNo> {
        let seq = self.first_seq.load(Ordering::Acquire);
        (seq != u64::MAX).then_some(seq)
    }

    /// The largest sequence number.
    pub(crate) fn last_seq(&self) -> Option<SeqNo> {
        self.first_seq()
            .map(|_| self.last_seq.load(Ordering::Acquire))
    }
}

impl Writer {
    /// A node's height: 1, and one more with a chance of a quarter each.
    fn height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let quarters = self.random.trailing_zeros() / BRANCHING_BITS;
        (1 + quarters as usize).min(MAX_HEIGHT)
    }
}

struct Entry<'a> {
    key: &'a [u8],
    tag: Tag,
    value: &'a [u8],
}

/// A cursor over a memtable; it keeps the memtable in memory.
#[derive(Debug)]
pub(crate) struct MemtableIter {
    memtable: Arc<Memtable>,
    node: Option<Node>,
}

impl MemtableIter {
    fn entry(&self) -> Option<Entry<'_>> {
        self.node
            .map(|node| self.memtable.read(self.memtable.links.entry(node)))
    }
}

fn not_head(node: Node) -> Option<Node> {
    (node != HEAD).then_some(node)
}

impl InternalIterator for MemtableIter {
    fn valid(&self) -> bool {
        self.node.is_some()
    }

    fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |entry| entry.key)
    }

    fn tag(&self) -> Tag {
        self.entry().map_or(Tag::OLDEST, |entry| entry.tag)
    }

    fn value(&self) -> &[u8] {
        self.entry().map_or(&[], |entry| entry.value)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.node = self.memtable.links.next(HEAD, 0);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.node = not_head(self.memtable.links.last());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.node = self.memtable.seek(key, tag).0;
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        let (at, before) = self.memtable.seek(key, tag);
        let exact = at.filter(|node| {
            self.memtable
                .order(self.memtable.links.entry(*node), key, tag)
                == Order::Equal
        });
        self.node = exact.or(not_head(before));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if let Some(node) = self.node {
            self.node = self.memtable.links.next(node, 0);
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if let Some(entry) = self.entry() {
            let (_, before) = self.memtable.seek(entry.key, entry.tag);
            self.node = not_head(before);
        }
        Ok(())
    }
}
