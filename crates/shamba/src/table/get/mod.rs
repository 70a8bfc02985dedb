//! A point lookup in one table.
//!
//! A [`Get`] takes a lookup through a table: the filter's modules in order, the index, the data. It
//! has one loop, [`Get::poll`], which takes each block from what is pinned of the table, else from
//! the cache, else says which read it needs; and one record of what it did, its [`Trace`].
//!
//! Protocol: `GetState::new Get::new (poll deliver)* poll`. [`Get::finish`] reads one block after
//! another; `batch_read` reads the blocks that many lookups wait for, and drives each by the same
//! two calls. Between two reads a lookup is a [`GetState`]: plain data, which holds no block and no
//! table. Whoever began a visit reads its trace when it is over, whether it came to an answer or
//! failed.
//!
//! A `Get` belongs to one thread. No lock is held across a read. Nobody here knows a policy: what
//! may be read of a filter is said by [`ModuleReads`], what a read is worth by the partition's
//! statistics.

mod batch_read;
mod block_read;
mod fill;
mod lookup;
mod outcome;
mod probe;
mod search;
mod trace;

use self::block_read::BlockRead;
use self::probe::{Probe, ProbedColumns, Rejection};
use self::search::BlockLocation;
use super::pinned::Pinned;
use super::reader::Table;
use crate::base::digest::KeyDigest;
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::error::Result;

pub(crate) use batch_read::PendingGet;
pub(crate) use lookup::{Lookup, TableGet, TableValue};
#[cfg(test)]
pub(crate) use trace::Reads;
pub(crate) use trace::{LookupTotals, Modules, Trace};

/// Which modules of a table's filter a lookup reads where they are not in memory. What is in memory
/// is probed in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModuleReads {
    /// The first so many.
    UpTo(u8),
    /// Those that are expected to save reads, once all that is in memory let the key pass.
    AsValued,
}

impl ModuleReads {
    /// Modules below this are read in their turn.
    fn limit(self) -> usize {
        match self {
            ModuleReads::UpTo(limit) => limit.into(),
            ModuleReads::AsValued => 0,
        }
    }

    /// Whether what a read is worth decides.
    #[inline]
    fn as_valued(self) -> bool {
        self == ModuleReads::AsValued
    }
}

/// A lookup in a table.
#[derive(Debug)]
pub(crate) struct Get<'a> {
    table: &'a Table,
    pinned: Option<&'a Pinned>,
    lookup: &'a Lookup<'a>,
    state: &'a mut GetState,
}

/// Where a lookup stands in a table, and what it did there.
#[derive(Debug)]
pub(crate) struct GetState {
    /// The partition of the key; past the last one if the key is in none.
    partition: usize,
    reads: ModuleReads,
    /// The next filter module.
    module: usize,
    /// The module that is being read for its value, of those that are not wholly in memory.
    valued: usize,
    /// Whether all that is in memory of the filter was probed and let the key pass.
    passed: bool,
    /// What was read of the filter from storage and rejected the key, if anything did.
    rejected_by: Option<Rejection>,
    probed: ProbedColumns,
    /// The data block wanted; if none, the one that may hold the key.
    block: Option<u32>,
    /// Where the data block lies, once the index has told.
    location: Option<BlockLocation>,
    /// The newest range tombstone over the key that its reader sees; 0 for none.
    deleted_at: SeqNo,
    trace: Trace,
}

impl GetState {
    /// A lookup at the entrance of a table.
    #[inline]
    pub(crate) fn new(table: &Table, lookup: &Lookup<'_>, reads: ModuleReads) -> GetState {
        lookup.enter_table();
        GetState {
            partition: table.top.find(lookup.key()),
            reads,
            module: 0,
            valued: 0,
            passed: false,
            rejected_by: None,
            probed: ProbedColumns::default(),
            block: None,
            location: None,
            deleted_at: table.ranges.as_deref().map_or(0, |ranges| {
                ranges.newest_over(lookup.key(), lookup.tag().seq())
            }),
            trace: Trace::default(),
        }
    }
}

/// How far a lookup came.
#[derive(Debug)]
pub(crate) enum Poll {
    /// The table's answer.
    Answer(TableGet),
    /// It needs a read.
    Read(BlockRead),
}

impl<'a> Get<'a> {
    /// A lookup that goes on from a state, with what may be used of the table's pinned blocks.
    #[inline]
    pub(crate) fn new(
        table: &'a Table,
        pinned: Option<&'a Pinned>,
        lookup: &'a Lookup<'a>,
        state: &'a mut GetState,
    ) -> Self {
        Get {
            table,
            pinned,
            lookup,
            state,
        }
    }

    /// Goes on to the end, reading one block after another.
    #[inline(always)]
    pub(crate) fn finish(&mut self) -> Result<TableGet> {
        loop {
            let need = match self.poll()? {
                Poll::Answer(answer) => return Ok(answer),
                Poll::Read(need) => need,
            };
            if let Some(answer) = self.read(&need)? {
                return Ok(self.or_tombstone(answer));
            }
        }
    }

    /// Goes on as far as memory reaches. Polled again without what it needs, it looks for it again.
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Result<Poll> {
        if self.state.deleted_at != 0 {
            return self.poll_deleted();
        }
        self.poll_entries()
    }

    /// The same, where a range tombstone is over the key: entries that are newer win.
    #[cold]
    fn poll_deleted(&mut self) -> Result<Poll> {
        let deleted_at = self.state.deleted_at;
        let ranges = self.table.ranges.as_deref();
        if ranges.is_some_and(|ranges| ranges.hides_all(deleted_at)) {
            return Ok(Poll::Answer(deleted(deleted_at)));
        }
        Ok(match self.poll_entries()? {
            Poll::Answer(answer) => Poll::Answer(self.or_tombstone(answer)),
            needs => needs,
        })
    }

    /// What entries say, unless the range tombstone over the key is newer.
    #[inline]
    pub(super) fn or_tombstone(&self, answer: TableGet) -> TableGet {
        let deleted_at = self.state.deleted_at;
        match &answer {
            _ if deleted_at == 0 => answer,
            TableGet::Found { tag, .. } if tag.seq() > deleted_at => answer,
            TableGet::Found { .. } | TableGet::Absent => deleted(deleted_at),
        }
    }

    #[inline(always)]
    fn poll_entries(&mut self) -> Result<Poll> {
        if self.state.partition >= self.table.top.len() {
            return Ok(Poll::Answer(TableGet::Absent));
        }
        match self.probe_filter() {
            Probe::Maybe => self.search(),
            Probe::Absent => Ok(Poll::Answer(TableGet::Absent)),
            Probe::Read(need) => Ok(Poll::Read(need)),
        }
    }

    /// The partition of the key, if it is in the range of one.
    pub(crate) fn partition(&self) -> Option<u32> {
        let inside = self.state.partition < self.table.top.len();
        inside.then_some(self.state.partition as u32)
    }

    /// The key's digest, which is computed once for all tables where hashes are shared.
    #[inline]
    fn digest(&mut self) -> KeyDigest {
        self.lookup.digest(&mut self.state.trace.hashes)
    }
}

/// A deletion of this number.
fn deleted(seq: SeqNo) -> TableGet {
    TableGet::Found {
        tag: Tag::new(seq, EntryKind::Delete),
        value: TableValue::Owned(Box::default()),
    }
}
