//! The memtable: the entries written last, sorted, in memory of a fixed capacity.
//!
//! A [`Memtable`] is a skip list in one region of memory, which is mapped for the first entry: an
//! empty one takes nothing. What the entries fill is charged to the budget before they are
//! inserted, by pages. Thread-safe: readers take no lock and may run during writes; writers take a
//! mutex for as long as they hold a [`MemtableWriter`]. A reader sees every entry whose insertion
//! ended before it began; entries being inserted meanwhile may or may not be seen, which is why
//! readers ask for a sequence number that is published only after the insertion.
//!
//! Protocol: `fits` before a batch; if false, make a new memtable of a capacity of at least
//! [`Memtable::room_for`] the batch. Then `charge`; if false, others must be flushed first. A batch
//! that fits and is charged is inserted without fail. Once nothing more will be inserted, `trim`.

mod arena;
mod iter;
mod ranges;
mod skiplist;
mod view;
mod words;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use crate::base::fragment::Cover;
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::base::pages::PAGE;
use crate::budget::{Budget, Reservation, Role};
use arena::{HEAD_BYTES, MAX_NODE_OVERHEAD, MOST_SUM, Node};
use ranges::RangeList;
use skiplist::{Inserted, SkipList, Splice};
use words::Words;

pub(crate) use iter::MemtableIter;
pub(crate) use ranges::MemtableFragments;
pub(crate) use view::MemtableView;

/// The most that is charged ahead of what is filled, in bytes: less often than for each page, since
/// the cache may have to give way.
const LONGEST_STEP: usize = 64 << 10;

/// The share of what is charged that is charged ahead.
const STEP_SHARE: usize = 8;

/// Where an entry is in the memtable that was asked for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryPlace(Node);

/// An entry's tag and value, and where it is.
pub(crate) type NewestEntry<'a> = (Tag, &'a [u8], Option<EntryPlace>);

/// Sorted entries in memory.
#[derive(Debug)]
pub(crate) struct Memtable {
    /// Made for the first entry.
    list: OnceLock<SkipList<Words>>,
    /// Made for the first range tombstone.
    ranges: OnceLock<Box<RangeList>>,
    capacity: usize,
    writer: Mutex<Splice>,
    memory: Mutex<Reservation>,
    /// The bytes of `memory`, to be looked at without the lock.
    charged: AtomicUsize,
    entries: AtomicUsize,
    /// The least and the greatest sequence number; the least is greater while there is none.
    first_seq: AtomicU64,
    last_seq: AtomicU64,
}

impl Memtable {
    /// An empty memtable with `capacity` bytes for entries (see [`Self::room_for`]; at most 8 GiB).
    pub(crate) fn new(budget: &Arc<Budget>, capacity: usize) -> Self {
        Memtable {
            list: OnceLock::new(),
            ranges: OnceLock::new(),
            capacity,
            writer: Mutex::new(Splice::new(0x853c_49e6_748f_ea9b)),
            memory: Mutex::new(budget.reserve(Role::Memtable, 0)),
            charged: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            first_seq: AtomicU64::new(SeqNo::MAX),
            last_seq: AtomicU64::new(0),
        }
    }

    /// The most bytes that `entries` entries take whose keys and values have `bytes` bytes
    /// together. A memtable of this capacity holds them.
    pub(crate) const fn room_for(entries: usize, bytes: usize) -> usize {
        entries
            .saturating_mul(MAX_NODE_OVERHEAD)
            .saturating_add(bytes)
    }

    /// The bytes that range tombstones take beside their own, once there is one.
    pub(crate) const RANGES_BYTES: usize = HEAD_BYTES + PAGE;

    /// The bytes that a range tombstone with ends of such lengths takes at most, as the key and
    /// value of one entry, beside [`Self::boundary_bytes`].
    pub(crate) const fn room_for_range(start: usize, end: usize) -> usize {
        RangeList::room_for(start, end)
    }

    /// The bytes that a range tombstone takes at most for those that are there.
    pub(crate) fn boundary_bytes(&self) -> usize {
        self.ranges
            .get()
            .map_or(0, |ranges| ranges.boundary_bytes())
    }

    /// The most that is charged for so many entries where they are alone.
    pub(crate) fn most_charged(entries: usize, bytes: usize) -> usize {
        let filled = HEAD_BYTES.saturating_add(Self::room_for(entries, bytes));
        filled.next_multiple_of(PAGE)
    }

    /// Whether so many more entries with so many bytes of keys and values certainly fit.
    pub(crate) fn fits(&self, extra_entries: usize, extra_key_value_bytes: usize) -> bool {
        if self.ranges.get().is_some_and(|ranges| ranges.is_crowded()) {
            return false;
        }
        let free = self.capacity.saturating_sub(self.bytes_used());
        Self::room_for(extra_entries, extra_key_value_bytes) <= free
    }

    /// Charges what so many more entries with so many bytes of keys and values may fill. False, and
    /// nothing changes, where the memtables under this budget would be charged more than `most`
    /// bytes together, or the budget has no more.
    pub(crate) fn charge(&self, entries: usize, bytes: usize, most: u64) -> bool {
        let end = self.end_after(entries, bytes);
        if end <= self.charged() {
            return true;
        }
        let mut memory = self.memory.lock();
        let charged = self.charged();
        let least = end.next_multiple_of(PAGE);
        let step = (charged / STEP_SHARE).clamp(PAGE, LONGEST_STEP);
        let ahead = (charged + step).next_multiple_of(PAGE);
        let whole = self.region().next_multiple_of(PAGE);
        let taken = [ahead.min(whole).max(least), least]
            .into_iter()
            .any(|target| {
                let more = target.saturating_sub(charged) as u64;
                memory.try_grow_within(more, most)
            });
        self.charged
            .store(memory.bytes() as usize, Ordering::Relaxed);
        taken
    }

    /// [`Self::charge`] whatever others are charged.
    pub(crate) fn charge_anyway(&self, entries: usize, bytes: usize) {
        let end = self.end_after(entries, bytes).next_multiple_of(PAGE);
        let mut memory = self.memory.lock();
        if end > self.charged() {
            memory.resize(end as u64);
            self.charged.store(end, Ordering::Relaxed);
        }
    }

    /// Gives back what is charged and not filled. Nothing may be inserted afterwards.
    pub(crate) fn trim(&self) {
        let mut memory = self.memory.lock();
        let filled = self
            .end_after(0, 0)
            .next_multiple_of(PAGE)
            .min(self.charged());
        memory.resize(filled as u64);
        self.charged.store(filled, Ordering::Relaxed);
    }

    /// How many bytes from the start of the region are filled once so much more is inserted.
    fn end_after(&self, entries: usize, bytes: usize) -> usize {
        let more = Self::room_for(entries, bytes);
        match self.bytes_used() {
            0 if more == 0 => 0,
            used => (HEAD_BYTES + used)
                .saturating_add(more)
                .saturating_add(self.second_region())
                .min(self.region()),
        }
    }

    /// What a region of range tombstones takes of its own, and pages that are not full.
    fn second_region(&self) -> usize {
        if self.ranges.get().is_some() {
            Self::RANGES_BYTES
        } else {
            0
        }
    }

    /// The bytes of the regions: their heads and the capacity.
    fn region(&self) -> usize {
        let region = self.capacity.saturating_add(HEAD_BYTES);
        region.saturating_add(self.second_region())
    }

    /// The right to insert, held by one at a time; waits for the present holder.
    pub(crate) fn writer(&self) -> MemtableWriter<'_> {
        MemtableWriter {
            memtable: self,
            splice: self.writer.lock(),
        }
    }

    /// Inserts one entry; see [`MemtableWriter::insert`].
    pub(crate) fn insert(&self, key: &[u8], tag: Tag, value: &[u8]) -> bool {
        self.writer().insert(key, tag, value)
    }

    /// The newest entry of a key whose sequence number is at most `snapshot`: a tombstone where a
    /// range tombstone over it is newer.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], snapshot: SeqNo) -> Option<(Tag, &[u8])> {
        let found = self.find(key, snapshot);
        found.map(|(tag, value, _)| (tag, value))
    }

    /// The same, and where it is, unless ranges were deleted.
    #[inline(always)]
    pub(crate) fn find(&self, key: &[u8], snapshot: SeqNo) -> Option<NewestEntry<'_>> {
        let found = self.newest_entry(key, snapshot);
        match self.ranges.get() {
            None => found,
            Some(ranges) => {
                let found = found.map(|(tag, value, _)| (tag, value));
                let found = or_tombstone(found, ranges.newest_over(key, snapshot));
                found.map(|(tag, value)| (tag, value, None))
            }
        }
    }

    #[inline(always)]
    fn newest_entry(&self, key: &[u8], snapshot: SeqNo) -> Option<NewestEntry<'_>> {
        let list = self.list.get()?;
        let node = list.at_or_after(key, Tag::seek(snapshot))?;
        let arena = list.arena();
        let place = Some(EntryPlace(node));
        (arena.key(node) == key).then(|| (arena.tag(node), arena.value(node), place))
    }

    /// The entries of a key whose sequence number is at most `snapshot`, newest first, to the first
    /// that a range tombstone hides: a tombstone in its place. Operands that were combined as they
    /// were written ([`MemtableWriter::insert_operand`]) are one, with the newest one's tag.
    /// `newest` is where [`Self::find`] found the first of them, if it did.
    pub(crate) fn entries_of<'a>(
        &'a self,
        key: &'a [u8],
        snapshot: SeqNo,
        newest: Option<EntryPlace>,
    ) -> impl Iterator<Item = (Tag, &'a [u8])> {
        let list = self.list.get();
        let search = || list.and_then(|list| list.at_or_after(key, Tag::seek(snapshot)));
        let mut next = newest.map_or_else(search, |EntryPlace(node)| Some(node));
        let ranges = self.ranges.get();
        let mut over = ranges.map_or(0, |ranges| ranges.newest_over(key, snapshot));
        std::iter::from_fn(move || {
            let entry = list.zip(next).and_then(|(list, node)| {
                let arena = list.arena();
                let is_next = arena.key(node) == key && arena.tag(node).seq() > over;
                // Where a range was deleted, operands that were combined may be in part older.
                let sum = arena.sum(node).filter(|_| over == 0);
                let last = sum.map_or(Some(node), |sum| sum.oldest);
                next = last.and_then(|last| list.next(last)).filter(|_| is_next);
                let value = || sum.map_or_else(|| arena.value(node), |sum| sum.bytes);
                is_next.then(|| (arena.tag(node), value()))
            });
            let hidden = || (over > 0).then(|| (Tag::new(over, EntryKind::Delete), &[][..]));
            let entry = entry.or_else(hidden);
            if entry.is_none_or(|(tag, _)| tag.seq() == over) {
                (next, over) = (None, 0);
            }
            entry
        })
    }

    /// Whether there are range tombstones.
    pub(crate) fn has_ranges(&self) -> bool {
        self.ranges.get().is_some()
    }

    /// What covers a key, for readers of a number.
    pub(crate) fn cover_of(&self, key: &[u8], snapshot: SeqNo) -> Cover {
        let ranges = self.ranges.get();
        ranges.map_or_else(Cover::default, |ranges| ranges.cover_of(key, snapshot))
    }

    /// The most bytes that [`Self::fragments`] take on the way, beside keys.
    pub(crate) fn fragment_bytes(&self) -> usize {
        let ranges = self.ranges.get();
        ranges.map_or(0, |ranges| ranges.fragment_bytes())
    }

    /// The range tombstones, once nothing is inserted any more.
    pub(crate) fn fragments(self: &Arc<Self>) -> MemtableFragments {
        MemtableFragments::new(Arc::clone(self))
    }

    /// A cursor over all entries; it also sees those inserted while it is in use.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter::new(Arc::clone(self))
    }

    /// A cursor over what readers of a sequence number see, one of so many `sources`, which does
    /// not keep the memtable: see [`MemtableView`], which sets `lost`. `None` where they see
    /// nothing.
    pub(crate) fn view(
        self: &Arc<Self>,
        seq: SeqNo,
        budget: &Arc<Budget>,
        sources: usize,
        lost: &mut Option<Arc<AtomicBool>>,
    ) -> Option<MemtableView> {
        let sees = self.first_seq().is_some_and(|first| first <= seq);
        sees.then(|| MemtableView::new(self, seq, budget, sources, lost.get_or_insert_default()))
    }

    /// How many entries it holds, range tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.entries.load(Ordering::Acquire)
    }

    /// Whether it holds no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes taken by entries and their bookkeeping, exactly.
    pub(crate) fn bytes_used(&self) -> usize {
        let used = |list: &SkipList<Words>| list.arena().used() - HEAD_BYTES;
        let ranges = self.ranges.get().map_or(0, |ranges| ranges.used());
        self.list.get().map_or(0, used) + ranges
    }

    /// The bytes charged for it.
    pub(crate) fn charged(&self) -> usize {
        self.charged.load(Ordering::Relaxed)
    }

    /// The bytes there are for entries and their bookkeeping.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The least sequence number of its entries.
    pub(crate) fn first_seq(&self) -> Option<SeqNo> {
        (!self.is_empty()).then(|| self.first_seq.load(Ordering::Relaxed))
    }

    /// The greatest sequence number of its entries.
    pub(crate) fn last_seq(&self) -> Option<SeqNo> {
        (!self.is_empty()).then(|| self.last_seq.load(Ordering::Relaxed))
    }

    /// Shows the newest entry of each key, in their order.
    pub(crate) fn each_newest(&self, mut see: impl FnMut(&[u8], Tag, &[u8])) {
        let Some(list) = self.list.get() else {
            return;
        };
        let arena = list.arena();
        let (mut at, mut last) = (list.first(), None);
        while let Some(node) = at {
            let key = arena.key(node);
            if last != Some(key) {
                see(key, arena.tag(node), arena.value(node));
            }
            last = Some(key);
            at = list.next(node);
        }
    }
}

/// The right to insert into a memtable.
#[derive(Debug)]
pub(crate) struct MemtableWriter<'a> {
    memtable: &'a Memtable,
    splice: MutexGuard<'a, Splice>,
}

impl<'a> MemtableWriter<'a> {
    /// Inserts an entry that was charged; false when there is no room (never after
    /// [`Memtable::fits`] said so). An entry that is there already, by key and tag, stays as it is.
    #[must_use]
    pub(crate) fn insert(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> bool {
        let list = self.list();
        let inserted = list.insert(&mut self.splice, key, tag, value, None);
        self.inserted(inserted, key, tag)
    }

    /// The same of an operand, newer than all of its key, of which nothing older comes later,
    /// where operands are combined as they are written (`combine` says what two come to, the older
    /// first): with it what it and those right before it come to, if that is short and as long as
    /// the operand, so that a lookup need not go to each of them.
    #[must_use]
    pub(crate) fn insert_operand(
        &mut self,
        key: &[u8],
        tag: Tag,
        operand: &[u8],
        combine: impl Fn(&[u8], &[u8]) -> Option<Vec<u8>>,
    ) -> bool {
        if operand.len() > MOST_SUM {
            return self.insert(key, tag, operand);
        }
        let list = self.list();
        let inserted = list.insert(&mut self.splice, key, tag, operand, Some(&combine));
        self.inserted(inserted, key, tag)
    }

    #[inline]
    fn list(&self) -> &'a SkipList<Words> {
        let memtable = self.memtable;
        memtable
            .list
            .get_or_init(|| SkipList::new(memtable.capacity))
    }

    /// Counts what was inserted; false when there was no room.
    #[inline]
    fn inserted(&self, inserted: Inserted, key: &[u8], tag: Tag) -> bool {
        let memtable = self.memtable;
        debug_assert!(
            memtable.end_after(0, 0) <= memtable.charged(),
            "{} bytes filled of {} charged",
            memtable.end_after(0, 0),
            memtable.charged()
        );
        match inserted {
            Inserted::Yes => {
                if let Some(ranges) = memtable.ranges.get() {
                    ranges.note_written(key, tag.seq());
                }
                self.count(tag.seq());
                true
            }
            Inserted::Duplicate => true,
            Inserted::Full => false,
        }
    }

    /// Inserts a range tombstone that was charged, from `start` to `end` (empty for no end), newer
    /// than all before; false when there is no room.
    #[must_use]
    pub(crate) fn insert_range(&mut self, start: &[u8], end: &[u8], seq: SeqNo) -> bool {
        let memtable = self.memtable;
        let new = || Box::new(RangeList::new(memtable.capacity));
        let inserted = memtable.ranges.get_or_init(new).insert(start, end, seq);
        if inserted {
            self.count(seq);
        }
        inserted
    }

    fn count(&self, seq: SeqNo) {
        let memtable = self.memtable;
        memtable.first_seq.fetch_min(seq, Ordering::Relaxed);
        memtable.last_seq.fetch_max(seq, Ordering::Relaxed);
        memtable.entries.fetch_add(1, Ordering::Release);
    }
}

/// An entry of a key, or the tombstone that a range tombstone of this number (0 for none) is for
/// the key, whichever is newer.
#[cold]
fn or_tombstone(found: Option<(Tag, &[u8])>, over: SeqNo) -> Option<(Tag, &[u8])> {
    let is_newer = found.is_some_and(|(tag, _)| tag.seq() > over);
    if over == 0 || is_newer {
        found
    } else {
        Some((Tag::new(over, EntryKind::Delete), &[]))
    }
}

const _: () = assert!(HEAD_BYTES < PAGE);

#[cfg(test)]
mod tests;
