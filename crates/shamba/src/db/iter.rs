//! Iterators of callers: user keys and their newest visible values, forward and backward.
//!
//! An iterator reads at a registered sequence number, so nothing it may need is dropped. It holds
//! memtables and tables only between moves: when the keyspace's read state has changed, the next
//! move first takes the new one and finds its place again, so an iterator in use keeps neither
//! replaced memtables in memory nor removed files on storage. One thread at a time.
//!
//! An iterator that is left alone between moves keeps what it saw last. Nobody else can take it
//! away: `key` and `value` lend out bytes of the memtable or block itself, so another thread would
//! have to lock each of those calls, or the iterator to copy each entry it comes to. Memtables held
//! so are counted, and writers do not wait for them.
//!
//! Closing the database changes every read state, so that an iterator that outlives it finds out at
//! its next move, and a move in use pays nothing for it.

mod cover;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::DbShared;
use super::keyspace::KeyspaceInner;
use super::source::{Source, sources};
use crate::base::iter::InternalIterator;
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::budget::{Reservation, Role};
use crate::compaction::MergeIter;
use crate::error::Result;
use crate::metrics::Counter;
pub use cover::{IterOptions, KeyRange};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not at an entry.
    Nowhere,
    /// The merge is at the present entry.
    Forward,
    /// The merge is before all entries of the present key; key and value are held.
    Backward,
}

/// A cursor over the keys of a keyspace at one moment. Position it with a `seek` call, then read
/// `key` and `value` while it is [`valid`](Iter::valid). As a Rust [`Iterator`] it yields owned
/// pairs, from the first key if it was not positioned.
///
/// ```
/// # fn main() -> shamba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = shamba::Options::new().open(dir.path())?;
/// use shamba::IterOptions;
/// for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
///     db.put(key, value)?;
/// }
/// let mut iter = db.iter(IterOptions::default())?;
/// iter.seek(b"b")?;
/// assert_eq!((iter.key(), iter.value()), (b"b".as_slice(), b"2".as_slice()));
/// iter.prev()?;
/// assert_eq!(iter.key(), b"a");
/// # Ok(()) }
/// ```
pub struct Iter {
    db: Arc<DbShared>,
    keyspace: Arc<KeyspaceInner>,
    options: IterOptions,
    seq: SeqNo,
    generation: u64,
    merge: MergeIter<Source>,
    /// How many sources `merge` has.
    sources: usize,
    place: Place,
    positioned: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    memory: Reservation,
    /// Positionings and further moves not counted yet.
    uncounted: (u64, u64),
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("place", &self.place)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// What one source takes, in bytes, without what it holds of a table.
const SOURCE_BYTES: u64 = (size_of::<Source>() + MergeIter::<Source>::CHILD_BYTES) as u64;

impl Iter {
    pub(crate) fn new(
        db: &Arc<DbShared>,
        keyspace: &Arc<KeyspaceInner>,
        options: IterOptions,
        snapshot: Option<SeqNo>,
    ) -> Result<Iter> {
        db.inner.check_open()?;
        let inner = &db.inner;
        let seq = match snapshot {
            Some(seq) => {
                inner.snapshots.acquire_again(seq);
                seq
            }
            None => inner.snapshots.acquire(|| inner.visible_seq()),
        };
        inner.metrics.add(Counter::iterators, 1);
        let generation = keyspace.generation.load(Ordering::Acquire);
        let (merge, sources) = sources(db, &keyspace.state.load(), options.fill_cache);
        let memory = inner
            .options
            .memory
            .budget()
            .reserve(Role::Iterators, sources as u64 * SOURCE_BYTES);
        let iter = Iter {
            db: db.clone(),
            keyspace: keyspace.clone(),
            options,
            seq,
            generation,
            merge,
            sources,
            place: Place::Nowhere,
            positioned: false,
            key: Vec::new(),
            value: Vec::new(),
            memory,
            uncounted: (0, 0),
        };
        // Once the state is loaded: that of a keyspace being dropped is emptied after it says so.
        keyspace.check_alive()?;
        Ok(iter)
    }

    /// Whether the iterator is at an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.place != Place::Nowhere
    }

    /// The present key; empty when not valid.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self.place {
            Place::Nowhere => &[],
            Place::Forward => self.merge.key(),
            Place::Backward => &self.key,
        }
    }

    /// The present value; empty when not valid.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match self.place {
            Place::Nowhere => &[],
            Place::Forward => self.merge.value(),
            Place::Backward => &self.value,
        }
    }

    /// To the first key.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) or [`Error::Corruption`](crate::Error::Corruption); the
    /// iterator is then not valid and may be positioned again. [`Error::Closed`](crate::Error::Closed)
    /// once the database was closed.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin_range()?;
        match self.options.lower.clone() {
            Bound::Unbounded => self.merge.seek_to_first()?,
            Bound::Included(lower) => self.merge.seek(&lower, Tag::NEWEST)?,
            Bound::Excluded(lower) => self.seek_after(&lower)?,
        }
        self.settle_forward()
    }

    /// To the last key.
    ///
    /// # Errors
    /// As [`Iter::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin_range()?;
        match self.options.upper.clone() {
            Bound::Unbounded => self.merge.seek_to_last()?,
            Bound::Included(upper) => self.merge.seek_for_prev(&upper, Tag::OLDEST)?,
            Bound::Excluded(upper) => self.seek_before(&upper)?,
        }
        self.settle_backward()
    }

    /// To the first key at or after `key`.
    ///
    /// # Errors
    /// As [`Iter::seek_to_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.options.before_lower(key) {
            return self.seek_to_first();
        }
        self.begin_range()?;
        self.merge.seek(key, Tag::seek(self.seq))?;
        self.settle_forward()
    }

    /// To the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Iter::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.options.past_upper(key) {
            return self.seek_to_last();
        }
        self.begin_range()?;
        self.merge.seek_for_prev(key, Tag::OLDEST)?;
        self.settle_backward()
    }

    /// To the following key. Does nothing when not valid. (Named as cursors are; the
    /// [`Iterator`] of the same name yields owned pairs.)
    ///
    /// # Errors
    /// As [`Iter::seek_to_first`].
    #[allow(
        clippy::should_implement_trait,
        reason = "the field's name for moving a cursor"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.uncounted.1 += u64::from(self.valid());
        match self.place {
            Place::Nowhere => return Ok(()),
            Place::Forward if !self.stale() => {
                self.key.clear();
                self.key.extend_from_slice(self.merge.key());
                self.place = Place::Nowhere;
                self.merge.next()?;
                return self.settle_forward_past_key();
            }
            Place::Forward => {
                self.key.clear();
                self.key.extend_from_slice(self.merge.key());
            }
            Place::Backward => {}
        }
        self.prepare()?;
        let key = std::mem::take(&mut self.key);
        let moved = self.merge.seek(&key, Tag::OLDEST);
        self.key = key;
        moved?;
        self.settle_forward_past_key()
    }

    /// To the preceding key. Does nothing when not valid.
    ///
    /// # Errors
    /// As [`Iter::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        self.uncounted.1 += u64::from(self.valid());
        match self.place {
            Place::Nowhere => return Ok(()),
            Place::Backward if !self.stale() => {
                self.place = Place::Nowhere;
                return self.settle_backward();
            }
            Place::Backward => {}
            Place::Forward => {
                self.key.clear();
                self.key.extend_from_slice(self.merge.key());
            }
        }
        self.prepare()?;
        let key = std::mem::take(&mut self.key);
        self.seek_before(&key)?;
        self.settle_backward()
    }

    fn stale(&self) -> bool {
        self.keyspace.generation.load(Ordering::Acquire) != self.generation
    }

    fn begin_range(&mut self) -> Result<()> {
        self.count();
        self.uncounted.0 = 1;
        self.prepare()
    }

    fn count(&mut self) {
        let (ranges, steps) = std::mem::take(&mut self.uncounted);
        if ranges + steps > 0 && self.keyspace.operations.add_ranges(ranges, steps) {
            self.db.inner.after_reads(&self.keyspace);
        }
    }

    /// Before a new position: lets go of the old place, and of a read state that was replaced.
    fn prepare(&mut self) -> Result<()> {
        self.place = Place::Nowhere;
        self.positioned = true;
        if self.stale() {
            // Which changes every read state; the old one's files may be gone.
            self.db.inner.check_open()?;
            let generation = self.keyspace.generation.load(Ordering::Acquire);
            let state = self.keyspace.state.load();
            // That of a keyspace that was dropped is empty; the old one goes on.
            if !self.keyspace.dropped.load(Ordering::Acquire) {
                self.generation = generation;
                (self.merge, self.sources) = sources(&self.db, &state, self.options.fill_cache);
            }
        }
        self.account();
        Ok(())
    }

    /// Brings the reservation to what the iterator holds.
    fn account(&mut self) {
        let held = self.sources as u64 * SOURCE_BYTES
            + (self.key.capacity() + self.value.capacity()) as u64;
        if held != self.memory.bytes() {
            self.memory.resize(held);
        }
    }

    /// To the first entry of a key greater than `key`.
    fn seek_after(&mut self, key: &[u8]) -> Result<()> {
        self.merge.seek(key, Tag::OLDEST)?;
        while self.merge.valid() && self.merge.key() == key {
            match self.merge.waits() {
                true => self.merge.settle()?,
                false => self.merge.next()?,
            }
        }
        Ok(())
    }

    /// To the last entry of a key less than `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.merge.seek_for_prev(key, Tag::NEWEST)?;
        while self.merge.valid() && self.merge.key() == key {
            match self.merge.waits() {
                true => self.merge.settle()?,
                false => self.merge.prev()?,
            }
        }
        Ok(())
    }

    /// From the merge's place on, to the first visible value.
    fn settle_forward(&mut self) -> Result<()> {
        self.skip_forward(false)
    }

    /// The same, passing over what remains of the key in `self.key`.
    fn settle_forward_past_key(&mut self) -> Result<()> {
        self.skip_forward(true)
    }

    fn skip_forward(&mut self, mut hidden: bool) -> Result<()> {
        while self.merge.valid() {
            let tag = self.merge.tag();
            let key = self.merge.key();
            // Of what was not read yet no entry comes before `key`.
            if self.options.past_upper(key) {
                return Ok(());
            }
            if self.merge.waits() {
                self.merge.settle()?;
                continue;
            }
            if hidden && key == self.key.as_slice() {
                self.merge.next()?;
                continue;
            }
            if tag.seq() <= self.seq {
                if tag.kind() == Some(EntryKind::Put) {
                    self.place = Place::Forward;
                    return Ok(());
                }
                self.key.clear();
                self.key.extend_from_slice(self.merge.key());
                hidden = true;
            }
            self.merge.next()?;
        }
        Ok(())
    }

    /// From the merge's place back, to the last key with a visible value; leaves the merge before
    /// all entries of that key.
    fn settle_backward(&mut self) -> Result<()> {
        while self.merge.valid() {
            if self.options.before_lower(self.merge.key()) {
                return Ok(());
            }
            if self.merge.waits() {
                self.merge.settle()?;
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            let mut visible = false;
            // Entries of a key come oldest first here; the last one at or below our number counts.
            while self.merge.valid() && self.merge.key() == self.key.as_slice() {
                if self.merge.waits() {
                    self.merge.settle()?;
                    continue;
                }
                let tag = self.merge.tag();
                if tag.seq() <= self.seq {
                    visible = tag.kind() == Some(EntryKind::Put);
                    if visible {
                        self.value.clear();
                        self.value.extend_from_slice(self.merge.value());
                    }
                }
                self.merge.prev()?;
            }
            if visible {
                self.place = Place::Backward;
                self.account();
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.count();
        self.db.inner.snapshots.release(self.seq);
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = if self.positioned {
            Iter::next(self)
        } else {
            self.seek_to_first()
        };
        if let Err(error) = moved {
            return Some(Err(error));
        }
        self.valid()
            .then(|| Ok((self.key().to_vec(), self.value().to_vec())))
    }
}
