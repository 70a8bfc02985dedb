//! What range tombstones hide from an iterator, and how it gets past that without reading it. One
//! thread at a time.
//!
//! An entry is hidden by any newer tombstone over its key. Of a source, what is over a key is newer
//! than all that older sources have of the key, and mostly than all that it has itself. So where an
//! iterator is positioned at a hidden key, and once it has come past a few hidden entries, these
//! sources go to the end of what the tombstone covers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::Cursor;
use crate::base::fragment::{Cover, is_before, lesser_end, newest_seen};
use crate::base::iter::{Direction, InternalIterator};
use crate::base::key::SeqNo;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::table::TableCache;
use crate::version::{FileMeta, Run};

/// Hidden entries that are passed one by one before sources are searched anew. A search takes about
/// as long as so many. Not measured.
const FEW: usize = 8;

/// A source with range tombstones, by its number among those merged.
enum CoverSource {
    Memtable(Weak<Memtable>),
    Run(Arc<Run>),
}

/// The range tombstones that an iterator meets.
pub(super) struct RangeCovers {
    tables: Arc<TableCache>,
    sources: Vec<(usize, CoverSource)>,
    seq: SeqNo,
    lost: Option<Arc<AtomicBool>>,
    /// How many of the sources merged are memtables, which come first.
    memtables: usize,
    /// Hidden entries of memtables that were passed, and not told of yet.
    passed_in_memory: u64,
    /// What is over the keys around the one asked for last, if it was asked for, and the number of
    /// the first source of which it hides everything there, as of all after it.
    known: Option<(Cover, usize)>,
    /// The way on which nothing is hidden up to the end of that, if so.
    clear: Option<Direction>,
    /// Entries that it hid so far.
    passed: usize,
    /// The key at which sources went past what hides it last, since the iterator was positioned,
    /// and whither.
    skipped: Option<(Direction, Vec<u8>)>,
}

impl RangeCovers {
    /// Those of memtables and runs, by their numbers, for readers of a sequence number, if there
    /// are any.
    pub(super) fn new<'a>(
        tables: &Arc<TableCache>,
        (memtables, lost): (
            impl ExactSizeIterator<Item = (usize, &'a Arc<Memtable>)>,
            Option<&Arc<AtomicBool>>,
        ),
        runs: impl Iterator<Item = (usize, &'a Arc<Run>)>,
        seq: SeqNo,
    ) -> Option<Box<RangeCovers>> {
        let in_memory = memtables.len();
        let memtables = memtables.filter(|(_, memtable)| memtable.has_ranges());
        let memtables = memtables.map(|(at, memtable)| {
            let source = CoverSource::Memtable(Arc::downgrade(memtable));
            (at, source)
        });
        let runs = runs.filter(|(_, run)| run.sums().ranges > 0);
        let runs = runs.map(|(at, run)| (at, CoverSource::Run(run.clone())));
        let sources: Vec<_> = memtables.chain(runs).collect();
        (!sources.is_empty()).then(|| {
            Box::new(RangeCovers {
                tables: tables.clone(),
                sources,
                seq,
                lost: lost.cloned(),
                memtables: in_memory,
                passed_in_memory: 0,
                known: None,
                clear: None,
                passed: 0,
                skipped: None,
            })
        })
    }

    /// What it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        let keys = self.known.as_ref().map_or(0, |(cover, _)| {
            cover.start.capacity() + cover.end.capacity()
        });
        let keys = keys + self.skipped.as_ref().map_or(0, |(_, key)| key.capacity());
        size_of::<Self>() + self.sources.capacity() * size_of::<(usize, CoverSource)>() + keys
    }

    /// The iterator is positioned anew.
    pub(super) fn reset(&mut self) {
        self.skipped = None;
        self.clear = None;
    }

    /// Whether it is known that nothing hides a key, which lies further on in a direction than the
    /// one asked for last.
    #[inline]
    pub(super) fn is_clear(&self, key: &[u8], direction: Direction) -> bool {
        let known = self.known.as_ref();
        self.clear == Some(direction)
            && known.is_some_and(|(cover, _)| match direction {
                Direction::Forward => is_before(key, &cover.end),
                Direction::Backward => cover.start.as_slice() <= key,
            })
    }

    /// Whether sources are to go past what hides a key: only if it is further on than where they
    /// did so before. Where keys are not in their order, as damage with right checksums can have
    /// it, they would go to and fro for ever.
    fn skips_at(&mut self, key: &[u8], direction: Direction) -> bool {
        let is_further = match &self.skipped {
            Some((Direction::Forward, last)) if direction == Direction::Forward => key > last,
            Some((Direction::Backward, last)) if direction == Direction::Backward => key < last,
            _ => true,
        };
        if is_further {
            self.skipped = Some((direction, key.to_vec()));
        }
        is_further
    }

    /// What hides a key in all sources from one on: that source, and what is covered.
    pub(super) fn hiding(&mut self, key: &[u8]) -> Result<Option<(usize, &Cover)>> {
        let is_hidden = self.over(key)? > 0;
        let known = self.known.as_ref().filter(|_| is_hidden);
        Ok(known.map(|(cover, first)| (*first, cover)))
    }

    /// The newest tombstone over a key; 0 for none.
    fn over(&mut self, key: &[u8]) -> Result<SeqNo> {
        let is_around = |cover: &Cover| cover.start.as_slice() <= key && is_before(key, &cover.end);
        if let Some((cover, _)) = self.known.as_ref().filter(|(cover, _)| is_around(cover)) {
            return Ok(cover.seq);
        }
        (self.passed, self.clear) = (0, None);
        let mut all = (Cover::default(), 0);
        for (at, source) in &self.sources {
            let cover = match source {
                CoverSource::Memtable(memtable) => match memtable.upgrade() {
                    Some(memtable) => memtable.cover_of(key, self.seq),
                    // It is in tables by now.
                    None => {
                        if let Some(lost) = &self.lost {
                            lost.store(true, Ordering::Relaxed);
                        }
                        self.known = None;
                        return Ok(0);
                    }
                },
                CoverSource::Run(run) => cover_in(run, &self.tables, key, self.seq)?,
            };
            if cover.start > all.0.start {
                all.0.start = cover.start;
            }
            all.0.end = lesser_end(&all.0.end, &cover.end).to_vec();
            if cover.seq > all.0.seq {
                (all.0.seq, all.1) = (cover.seq, *at + usize::from(!cover.hides_own));
            }
        }
        let seq = all.0.seq;
        self.known = Some(all);
        Ok(seq)
    }
}

/// What is over a key in a run, for readers of a number.
fn cover_in(run: &Run, tables: &TableCache, key: &[u8], seq: SeqNo) -> Result<Cover> {
    let Some(file) = run.find(key) else {
        let next = run.file_at(run.lower_bound(key)).map(FileMeta::smallest);
        return Ok(Cover {
            start: key.to_vec(),
            end: next.unwrap_or_default().to_vec(),
            ..Cover::default()
        });
    };
    // Up to the largest key, which may be the key itself: nothing lies between it and the next.
    let nothing = |start: &[u8]| Cover {
        start: start.to_vec(),
        end: [file.largest(), &[0]].concat(),
        ..Cover::default()
    };
    if file.ranges() == 0 {
        return Ok(nothing(file.smallest()));
    }
    let table = tables.get(file)?;
    let Some(ranges) = table.ranges() else {
        return Ok(nothing(file.smallest()));
    };
    let before = ranges.at_or_before(key);
    if let Some(over) = before.as_ref().filter(|over| is_before(key, &over.end)) {
        return Ok(Cover {
            seq: newest_seen(over.seqs.iter().copied(), seq),
            // What is in its table is there for readers of other numbers.
            hides_own: false,
            start: over.start.clone(),
            end: over.end.clone(),
        });
    }
    let start = before.map(|before| before.end);
    let mut cover = nothing(start.as_deref().unwrap_or(file.smallest()));
    if let Some(after) = ranges.at_or_after(key) {
        cover.end = after.start;
    }
    Ok(cover)
}

impl Cursor {
    /// Whether the merge's entry is hidden by a range tombstone.
    pub(super) fn is_hidden(&mut self) -> Result<bool> {
        let Some(covers) = &mut self.covers else {
            return Ok(false);
        };
        Ok(self.merge.tag().seq() < covers.over(self.merge.key())?)
    }

    /// Goes past the merge's entry, or what it waits for, if a range tombstone hides it; false, and
    /// nothing changes, if none does or the range ends before it.
    #[cold]
    pub(super) fn pass_hidden(&mut self, direction: Direction) -> Result<bool> {
        let Some(covers) = &mut self.covers else {
            return Ok(false);
        };
        let key = self.merge.key();
        if direction == Direction::Forward && self.options.past_upper(key) {
            return Ok(false);
        }
        let over = covers.over(key)?;
        covers.clear = (over == 0).then_some(direction);
        let known = covers.known.as_ref().filter(|_| over > 0);
        let Some(first) = known.map(|(_, first)| *first) else {
            return Ok(false);
        };
        let source = self.merge.source().unwrap_or(0);
        let is_hidden = source >= first;
        let is_deferred = self.merge.is_deferred();
        if is_deferred && !is_hidden || !is_deferred && self.merge.tag().seq() >= over {
            return Ok(false);
        }
        if !is_deferred {
            covers.passed += 1;
        }
        let may_skip = is_deferred || is_hidden && covers.passed > FEW;
        if may_skip && covers.skips_at(key, direction) {
            if let Some((cover, _)) = &covers.known {
                self.merge.skip_hidden(first, direction, cover)?;
            }
        } else if is_deferred {
            return Ok(false);
        } else {
            covers.passed_in_memory += u64::from(source < covers.memtables);
            match direction {
                Direction::Forward => self.merge.next()?,
                Direction::Backward => self.merge.prev()?,
            }
        }
        Ok(true)
    }

    /// Tells of the hidden entries of memtables that it has passed, which are gone once they are
    /// flushed.
    pub(super) fn tell_of_passed(&mut self) {
        let Some(covers) = &mut self.covers else {
            return;
        };
        let passed = std::mem::take(&mut covers.passed_in_memory);
        if passed > 0 && self.keyspace.has_passed_deleted(passed) {
            let background = self.db.inner().background();
            background.work_after_deletions(&self.keyspace);
        }
    }
}
