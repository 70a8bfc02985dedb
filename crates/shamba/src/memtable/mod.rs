//! The memtable: the entries written last, sorted, in memory of a fixed capacity.
//!
//! A [`Memtable`] is a skip list in one region of memory, whose pages are charged to the budget in
//! steps as entries fill them. Thread-safe: readers take no lock and may run during writes; writers
//! take a mutex for as long as they hold a [`MemtableWriter`]. A reader sees every entry whose
//! insertion ended before it began; entries being inserted meanwhile may or may not be seen, which
//! is why readers ask for a sequence number that is published only after the insertion.
//!
//! Protocol: `fits` before a batch; if false, make a new memtable of a capacity of at least
//! [`Memtable::room_for`] the batch. A batch that fits is inserted without fail.

mod arena;
mod iter;
mod skiplist;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::base::key::{SeqNo, Tag};
use crate::budget::{Budget, Reservation, Role};
use arena::{HEAD_BYTES, MAX_NODE_OVERHEAD, Words};
use skiplist::{Inserted, SkipList, Splice};

pub(crate) use iter::MemtableIter;

/// Memory is charged in this many steps up to the capacity.
const CHARGE_STEPS: usize = 64;

/// The unit in which the system hands out memory, in bytes.
const MEMORY_PAGE: usize = 4096;

/// Sorted entries in memory.
#[derive(Debug)]
pub(crate) struct Memtable {
    list: SkipList<Words>,
    writer: Mutex<WriterState>,
    entries: AtomicUsize,
    /// The least and the greatest sequence number; the least is greater while there is none.
    first_seq: AtomicU64,
    last_seq: AtomicU64,
}

#[derive(Debug)]
struct WriterState {
    splice: Splice,
    reservation: Reservation,
}

impl Memtable {
    /// An empty memtable with `capacity` bytes for entries (see [`Self::room_for`]; at most 8 GiB).
    pub(crate) fn new(budget: &Arc<Budget>, capacity: usize) -> Self {
        let list = SkipList::new(capacity);
        let first = charge_step(list.arena().capacity());
        Memtable {
            writer: Mutex::new(WriterState {
                splice: Splice::new(0x853c_49e6_748f_ea9b),
                reservation: budget.reserve(Role::Memtable, first as u64),
            }),
            list,
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

    /// Whether so many more entries with so many bytes of keys and values certainly fit.
    pub(crate) fn fits(&self, extra_entries: usize, extra_key_value_bytes: usize) -> bool {
        let free = self.list.arena().capacity() - self.bytes_used();
        Self::room_for(extra_entries, extra_key_value_bytes) <= free
    }

    /// The right to insert, held by one at a time; waits for the present holder.
    pub(crate) fn writer(&self) -> MemtableWriter<'_> {
        MemtableWriter {
            memtable: self,
            state: self.writer.lock(),
        }
    }

    /// Inserts one entry; see [`MemtableWriter::insert`].
    pub(crate) fn insert(&self, key: &[u8], tag: Tag, value: &[u8]) -> bool {
        self.writer().insert(key, tag, value)
    }

    /// The newest entry of a key whose sequence number is at most `snapshot`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], snapshot: SeqNo) -> Option<(Tag, &[u8])> {
        self.list.first()?;
        let node = self.list.at_or_after(key, Tag::seek(snapshot))?;
        let arena = self.list.arena();
        (arena.key(node) == key).then(|| (arena.tag(node), arena.value(node)))
    }

    /// A cursor over all entries; it also sees those inserted while it is in use.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIter {
        MemtableIter::new(Arc::clone(self))
    }

    /// How many entries it holds.
    pub(crate) fn len(&self) -> usize {
        self.entries.load(Ordering::Acquire)
    }

    /// Whether it holds no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes taken by entries and their bookkeeping, exactly.
    pub(crate) fn bytes_used(&self) -> usize {
        self.list.arena().used()
    }

    /// The bytes there are for entries and their bookkeeping.
    pub(crate) fn capacity(&self) -> usize {
        self.list.arena().capacity()
    }

    /// The least sequence number of its entries.
    pub(crate) fn first_seq(&self) -> Option<SeqNo> {
        (!self.is_empty()).then(|| self.first_seq.load(Ordering::Relaxed))
    }

    /// The greatest sequence number of its entries.
    pub(crate) fn last_seq(&self) -> Option<SeqNo> {
        (!self.is_empty()).then(|| self.last_seq.load(Ordering::Relaxed))
    }
}

/// The right to insert into a memtable.
#[derive(Debug)]
pub(crate) struct MemtableWriter<'a> {
    memtable: &'a Memtable,
    state: MutexGuard<'a, WriterState>,
}

impl MemtableWriter<'_> {
    /// Inserts an entry; false when there is no room (never after [`Memtable::fits`] said so). An
    /// entry that is there already, by key and tag, stays as it is.
    #[must_use]
    pub(crate) fn insert(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> bool {
        let memtable = self.memtable;
        let state = &mut *self.state;
        let end = memtable
            .bytes_used()
            .saturating_add(Memtable::room_for(1, key.len() + value.len()))
            .min(memtable.capacity());
        let charged = state.reservation.bytes();
        if end as u64 > charged {
            let step = charge_step(memtable.capacity()) as u64;
            let whole = memtable.capacity().next_multiple_of(MEMORY_PAGE) as u64;
            let target = charged + (end as u64 - charged).next_multiple_of(step);
            state.reservation.grow(target.min(whole) - charged);
        }
        match memtable.list.insert(&mut state.splice, key, tag, value) {
            Inserted::Yes => {
                memtable.first_seq.fetch_min(tag.seq(), Ordering::Relaxed);
                memtable.last_seq.fetch_max(tag.seq(), Ordering::Relaxed);
                memtable.entries.fetch_add(1, Ordering::Release);
                true
            }
            Inserted::Duplicate => true,
            Inserted::Full => false,
        }
    }
}

/// The bytes charged at a time for a region of `capacity` bytes.
fn charge_step(capacity: usize) -> usize {
    (capacity / CHARGE_STEPS)
        .next_multiple_of(MEMORY_PAGE)
        .max(MEMORY_PAGE)
}

const _: () = assert!(HEAD_BYTES < MEMORY_PAGE);

#[cfg(test)]
mod tests;
