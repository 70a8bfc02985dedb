//! Cursors and iterators of callers: user keys and their newest visible values, forward and
//! backward.
//!
//! An iterator reads at a registered sequence number, so nothing it may need is dropped. When the
//! keyspace's read state has changed, the next move first takes the new one and finds its place
//! again. One thread at a time.
//!
//! An iterator that is left alone keeps the files of the runs it saw last on storage, and in memory
//! a block of each at most and copies of a few entries of memtables ([`MemtableView`]); no
//! memtable. What it holds is charged, and all iterators have a share of the budget: past it they
//! are refused.
//!
//! [`MemtableView`]: crate::memtable::MemtableView
//!
//! Closing the database changes every read state, so that an iterator that outlives it finds out at
//! its next move, and a move in use pays nothing for it.

mod both_ends;
mod covers;
mod iter_options;
mod merged;
mod pointed;
mod sources;
mod visible;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::DbShared;
use super::keyspaces::KeyspaceInner;
use super::visibility::SnapshotPoint;
use crate::base::clock::Moment;
use crate::base::iter::InternalIterator;
use crate::base::key::{SeqNo, Tag};
use crate::budget::{Reservation, Role};
use crate::compaction::MergeIter;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::filter::FilteredScan;
use crate::metrics::Counter;
use crate::version::ValueFiles;
pub use both_ends::Iter;
use covers::RangeCovers;
pub use iter_options::{IterOptions, KeyRange};
use sources::{IterSource, IterSources, count_filtered_scan, sources};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Not at an entry.
    Nowhere,
    /// The merge is at the present entry.
    Forward,
    /// The merge is before all entries of the present key; key and value are held.
    Backward,
    /// Operands were merged: the merge is behind the newest entry of the present key; key and value
    /// are held.
    Merged,
    /// The merge is at the present entry, which points to the value; that is held.
    Pointed,
}

/// A place among the keys of a keyspace at one moment. Position it with a `seek` call, then read
/// `key` and `value` without a copy while it is [`valid`](Cursor::valid). It is no [`Iterator`]:
/// that is [`Iter`].
///
/// ```
/// # fn main() -> shamba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = shamba::Options::new().open(dir.path())?;
/// use shamba::IterOptions;
/// for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
///     db.put(key, value)?;
/// }
/// let mut cursor = db.cursor(IterOptions::default())?;
/// cursor.seek(b"b")?;
/// assert_eq!((cursor.key(), cursor.value()), (b"b".as_slice(), b"2".as_slice()));
/// cursor.prev()?;
/// assert_eq!(cursor.key(), b"a");
/// # Ok(()) }
/// ```
pub struct Cursor {
    db: Arc<DbShared>,
    keyspace: Arc<KeyspaceInner>,
    options: IterOptions,
    seq: SeqNo,
    held: SnapshotPoint,
    /// The moment it reads at: of a snapshot, else when it first comes to what expires.
    time: Option<Moment>,
    generation: u64,
    merge: MergeIter<IterSource>,
    /// What `merge` takes, and what is kept for it of the version, in bytes.
    source_bytes: u64,
    /// Whether one of them found its memtable gone, whose entries are in a table by now.
    lost: Option<Arc<AtomicBool>>,
    /// Mostly none.
    covers: Option<Box<RangeCovers>>,
    /// What entries point to.
    values: ValueFiles,
    /// What it asks filters, if the keyspace has filters for scans.
    asks: Option<Arc<FilteredScan>>,
    place: Position,
    /// Going forward, bytes before the value that say when it expires.
    expiry: usize,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Where a step backward began.
    before: Vec<u8>,
    memory: Reservation,
    /// Positionings and further moves not counted yet.
    uncounted: (u64, u64),
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor")
            .field("place", &self.place)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Cursor {
    pub(in crate::db) fn new(
        db: &Arc<DbShared>,
        keyspace: &Arc<KeyspaceInner>,
        options: IterOptions,
        snapshot: Option<SnapshotPoint>,
    ) -> Result<Cursor> {
        let inner = db.inner();
        inner.shared().check_open()?;
        let held = match snapshot {
            Some(point) => {
                inner.visibility().acquire_again(point);
                point
            }
            None => inner.visibility().acquire(),
        };
        let seq = held.seq;
        inner.shared().metrics().add(Counter::iterators, 1);
        // Before the state is loaded, which a dropping of the keyspace would empty.
        keyspace.add_iterator();
        db.counts().add_iterator();
        let generation = keyspace.generation();
        // What tables of the state need not be read for.
        let asks = keyspace.filtered_scan(&options.lower, &options.upper);
        let IterSources {
            merge,
            bytes,
            lost,
            covers,
            values,
        } = sources(
            db,
            &keyspace.state(),
            seq,
            options.fill_cache,
            asks.as_ref(),
        );
        // What all of that takes is charged once it is there.
        let memory = inner.shared().budget().open_account(Role::Iterators);
        let mut iter = Cursor {
            db: db.clone(),
            keyspace: keyspace.clone(),
            options,
            seq,
            held,
            time: snapshot.map(|point| point.time),
            generation,
            merge,
            source_bytes: bytes,
            lost,
            covers,
            values,
            asks,
            place: Position::Nowhere,
            expiry: 0,
            key: Vec::new(),
            value: Vec::new(),
            before: Vec::new(),
            memory,
            uncounted: (0, 0),
        };
        // Once the state is loaded: that of a keyspace being dropped is emptied after it says so.
        keyspace.check_alive()?;
        iter.account()?;
        Ok(iter)
    }

    /// How many entries there are, all of which it goes through.
    pub(crate) fn count_entries(mut self) -> Result<u64> {
        let mut count = 0;
        self.seek_to_first()?;
        while self.valid() {
            count += 1;
            self.next()?;
        }
        Ok(count)
    }

    /// The moment it reads at.
    #[cold]
    fn time(&mut self) -> Moment {
        let now = || self.db.inner().shared().now();
        *self.time.get_or_insert_with(now)
    }

    /// Whether the iterator is at an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.place != Position::Nowhere
    }

    /// The present key; empty when not valid.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self.place {
            Position::Nowhere => &[],
            Position::Forward | Position::Pointed => self.merge.key(),
            Position::Backward | Position::Merged => &self.key,
        }
    }

    /// The present value; empty when not valid.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match self.place {
            _ if self.options.keys_only => &[],
            Position::Nowhere => &[],
            Position::Forward if self.expiry == 0 => self.merge.value(),
            Position::Forward => self.merge.value().get(self.expiry..).unwrap_or_default(),
            Position::Backward | Position::Merged | Position::Pointed => &self.value,
        }
    }

    /// To the first key.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`] or [`Error::Closed`]; [`Error::IteratorsExhausted`]
    /// where there is no memory for the entry. The iterator is then not valid and may be positioned
    /// again.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.begin_range();
        self.until_found(|iter| {
            match iter.options.lower.clone() {
                Bound::Unbounded => iter.merge.seek_to_first()?,
                Bound::Included(lower) => iter.seek_from(&lower, Tag::NEWEST)?,
                Bound::Excluded(lower) => iter.seek_after(&lower)?,
            }
            iter.settle_forward()
        })
    }

    /// To the last key.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.begin_range();
        self.until_found(|iter| {
            match iter.options.upper.clone() {
                Bound::Unbounded => iter.merge.seek_to_last()?,
                Bound::Included(upper) => iter.seek_back_from(&upper)?,
                Bound::Excluded(upper) => iter.seek_before(&upper)?,
            }
            iter.settle_backward()
        })
    }

    /// To the first key at or after `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.options.before_lower(key) {
            return self.seek_to_first();
        }
        self.begin_range();
        self.until_found(|iter| {
            iter.seek_from(key, Tag::seek(iter.seq))?;
            iter.settle_forward()
        })
    }

    /// To the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.options.past_upper(key) {
            return self.seek_to_last();
        }
        self.begin_range();
        self.until_found(|iter| {
            iter.seek_back_from(key)?;
            iter.settle_backward()
        })
    }

    /// To the following key. Does nothing when not valid.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    #[allow(
        clippy::should_implement_trait,
        reason = "the field's name for moving a cursor"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.uncounted.1 += u64::from(self.valid());
        if !matches!(self.place, Position::Forward | Position::Pointed) || self.stale() {
            return self.next_anew();
        }
        self.key.clear();
        self.key.extend_from_slice(self.merge.key());
        self.place = Position::Nowhere;
        self.merge.next()?;
        self.settle_forward_past_key()?;
        if self.is_lost() {
            return self.seek_past_key();
        }
        Ok(())
    }

    /// [`Cursor::next`] from where the merge is not at the present entry, or is no longer to be
    /// used.
    #[cold]
    fn next_anew(&mut self) -> Result<()> {
        match self.place {
            Position::Nowhere => return Ok(()),
            Position::Merged if !self.stale() => {
                self.place = Position::Nowhere;
                self.settle_forward_past_key()?;
                if !self.is_lost() {
                    return Ok(());
                }
            }
            Position::Forward | Position::Pointed => {
                self.key.clear();
                self.key.extend_from_slice(self.merge.key());
            }
            Position::Backward | Position::Merged => {}
        }
        self.seek_past_key()
    }

    /// To the first entry after `self.key`. Where it is lost on the way, all up to the key has been
    /// passed.
    #[cold]
    fn seek_past_key(&mut self) -> Result<()> {
        self.until_found(|iter| {
            let key = std::mem::take(&mut iter.key);
            let moved = iter.merge.seek(&key, Tag::OLDEST);
            iter.key = key;
            moved?;
            iter.settle_forward_past_key()
        })
    }

    /// To the preceding key. Does nothing when not valid.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        self.uncounted.1 += u64::from(self.valid());
        let from = self.place;
        if from == Position::Nowhere {
            return Ok(());
        }
        let mut before = std::mem::take(&mut self.before);
        before.clear();
        before.extend_from_slice(self.key());
        let moved = self.step_backward(from, &before);
        self.before = before;
        moved
    }

    fn step_backward(&mut self, from: Position, before: &[u8]) -> Result<()> {
        if from == Position::Backward && !self.stale() {
            self.place = Position::Nowhere;
            self.settle_backward()?;
            if !self.is_lost() {
                return self.check_before(before);
            }
        }
        self.until_found(|iter| {
            iter.seek_before(before)?;
            iter.settle_backward()
        })?;
        self.check_before(before)
    }

    /// Moves to a new position by `go`, in the present read state; once more, where a memtable was
    /// gone when its turn came.
    fn until_found(&mut self, mut go: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        loop {
            self.prepare()?;
            go(self)?;
            if !self.is_lost() {
                return Ok(());
            }
        }
    }

    fn is_lost(&self) -> bool {
        let lost = self.lost.as_ref();
        lost.is_some_and(|lost| lost.load(Ordering::Relaxed))
    }

    fn stale(&self) -> bool {
        self.keyspace.generation() != self.generation
    }

    fn begin_range(&mut self) {
        self.count();
        self.uncounted.0 = 1;
    }

    fn count(&mut self) {
        self.tell_of_passed();
        if let Some(asks) = &self.asks {
            count_filtered_scan(asks, self.db.inner().shared().metrics());
        }
        let (ranges, steps) = std::mem::take(&mut self.uncounted);
        if ranges + steps > 0 && self.keyspace.operations().add_ranges(ranges, steps) {
            let background = self.db.inner().background();
            background.work_after_scans(&self.keyspace);
        }
    }

    /// Before a new position: lets go of the old place, and of a read state that was replaced.
    fn prepare(&mut self) -> Result<()> {
        self.place = Position::Nowhere;
        if let Some(covers) = &mut self.covers {
            covers.reset();
        }
        let (renewed, dropped) = (self.stale() || self.is_lost(), self.keyspace.is_dropped());
        if renewed || dropped {
            // Closing changes every read state but that of a dropped keyspace; the old one's files
            // may be gone.
            self.db.inner().shared().check_open()?;
        }
        if renewed {
            let generation = self.keyspace.generation();
            let state = self.keyspace.state();
            // That of a keyspace that was dropped is empty; the old one goes on.
            let state = match self.keyspace.is_dropped() {
                false => Some(Arc::clone(&state)),
                true if self.is_lost() => self.keyspace.last_state(),
                true => None,
            };
            if let Some(state) = state {
                self.generation = generation;
                let fill = self.options.fill_cache;
                let asks = self.asks.as_ref();
                let sources = sources(&self.db, &state, self.seq, fill, asks);
                (self.merge, self.source_bytes) = (sources.merge, sources.bytes);
                (self.lost, self.covers) = (sources.lost, sources.covers);
                self.values = sources.values;
            }
        }
        self.account()
    }

    /// Brings the reservation to what the iterator holds; where that is refused the iterator is
    /// nowhere.
    fn account(&mut self) -> Result<()> {
        let own = [&self.key, &self.value, &self.before].map(Vec::capacity);
        let covers = self.covers.as_ref().map_or(0, |covers| covers.memory());
        let covers = covers + self.asks.as_ref().map_or(0, |asks| asks.memory());
        let own = own.iter().sum::<usize>() + self.options.bound_bytes() + covers;
        let held = self.source_bytes + (size_of::<Cursor>() + own) as u64;
        let now = self.memory.bytes();
        if held <= now {
            self.memory.shrink(now - held);
            return Ok(());
        }
        let sources = self.merge.sources();
        self.memory
            .grow_iterator(held - now, sources)
            .inspect_err(|_| {
                self.place = Position::Nowhere;
                (self.key, self.value, self.before) = Default::default();
            })
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.count();
        self.keyspace.remove_iterator();
        self.db.counts().remove_iterator();
        self.db.inner().visibility().release(self.held);
    }
}
