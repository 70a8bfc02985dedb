//! Reads the blocks that many lookups wait for at the same time.
//!
//! Lookups that wait for one block share one read of it, and it is offered to the cache once. As
//! many blocks are read together as there is memory for buffers: the first one waits its turn like
//! any read, each further one is asked for without waiting, so with little memory it is one block
//! after another. Nothing is opened and no lock is taken while more than one buffer is held.
//! Thread-safe; waiters belong to one thread.

use std::cmp::Reverse;
use std::sync::Arc;

use super::block_read::BlockRead;
use super::fill::{Delivery, Filling};
use super::lookup::{Lookup, TableGet};
use super::{Get, GetState, Poll};
use crate::cache::{BlockKey, IoBuf};
use crate::error::Result;
use crate::fs::{PAGE, ReadRequest};
use crate::table::reader::Table;
use crate::table::table_cache::TableCache;

/// A lookup that waits for a block of a table. It holds the table and nothing that is pinned of it:
/// when others need that memory, the table lets go of all at once.
pub(crate) struct PendingGet<'a> {
    table: Arc<Table>,
    state: GetState,
    lookup: Lookup<'a>,
    /// What it waits for.
    need: BlockRead,
    /// The table's answer, where the block brought it.
    answer: Option<TableGet>,
}

impl<'a> PendingGet<'a> {
    /// A lookup that came so far and needs a read.
    pub(crate) fn new(
        table: Arc<Table>,
        lookup: Lookup<'a>,
        state: GetState,
        need: BlockRead,
    ) -> Self {
        PendingGet {
            table,
            state,
            lookup,
            need,
            answer: None,
        }
    }

    /// The lookup, to go on with.
    pub(crate) fn get(&mut self) -> Get<'_> {
        Get::new(&self.table, None, &self.lookup, &mut self.state)
    }

    /// Goes on after what it needed was read: the table's answer, or none if another block is
    /// needed.
    pub(crate) fn poll(&mut self) -> Result<Option<TableGet>> {
        if let Some(answer) = self.answer.take() {
            return Ok(Some(self.get().or_tombstone(answer)));
        }
        match self.get().poll()? {
            Poll::Answer(answer) => Ok(Some(answer)),
            Poll::Read(need) => {
                self.need = need;
                Ok(None)
            }
        }
    }

    /// Bytes of the block that it waits for, with what comes along.
    pub(crate) fn bytes(&self) -> usize {
        self.need.bytes()
    }

    /// The key and snapshot, to be looked for in other tables.
    pub(crate) fn into_lookup(self) -> Lookup<'a> {
        self.lookup
    }

    /// The name of the block.
    fn block(&self) -> BlockKey {
        self.table.blocks.block_key(self.need.pages.start)
    }
}

/// A block being read, and how many wait for it.
struct SharedRead {
    buf: IoBuf,
    waiters: usize,
}

impl TableCache {
    /// Reads what lookups wait for and delivers it; changes their order. They go on with
    /// [`PendingGet::poll`]. Counts in `batches` how often blocks were read together. Any failure
    /// but a damaged filter ends all.
    pub(crate) fn read_for<'a, W: AsMut<PendingGet<'a>> + AsRef<PendingGet<'a>>>(
        &self,
        waiters: &mut [W],
        batches: &mut u64,
    ) -> Result<()> {
        // Of those who wait for a block, one who wants most of its neighbours too comes first.
        waiters.sort_unstable_by_key(|waiter| {
            let waiter = waiter.as_ref();
            (waiter.block(), Reverse(waiter.need.around.len()))
        });
        let mut rest = waiters;
        while !rest.is_empty() {
            // As many blocks as there are buffers for, and one always.
            let mut groups: Vec<SharedRead> = Vec::new();
            let mut taken = 0;
            for same in rest.chunk_by(|a, b| a.as_ref().block() == b.as_ref().block()) {
                let Some(first) = same.first().map(AsRef::as_ref) else {
                    break;
                };
                // A block that the budget could never hold is refused before a buffer is asked for.
                first
                    .table
                    .blocks
                    .check_fits(&first.need.pages, first.need.kind)?;
                let len = first.need.bytes();
                // Waiting for a buffer while holding another could be for ever: only for the first
                // one.
                let buf = if groups.is_empty() {
                    self.io().acquire(len)
                } else if let Some(buf) = self.io().try_acquire(len) {
                    buf
                } else {
                    break;
                };
                let waiters = same.len();
                taken += waiters;
                groups.push(SharedRead { buf, waiters });
            }
            let all = std::mem::take(&mut rest);
            let (now, later) = all.split_at_mut_checked(taken).unwrap_or_default();
            self.read_groups(now, groups, batches)?;
            rest = later;
        }
        Ok(())
    }

    /// Reads one block for each group of lookups that wait for it, and delivers it to them.
    fn read_groups<'a, W: AsMut<PendingGet<'a>> + AsRef<PendingGet<'a>>>(
        &self,
        waiters: &mut [W],
        mut groups: Vec<SharedRead>,
        batches: &mut u64,
    ) -> Result<()> {
        let mut at = 0;
        let firsts = groups.iter().filter_map(|group| {
            let first = waiters.get(at).map(AsRef::as_ref);
            at += group.waiters;
            first
        });
        // Open until all is read.
        let files =
            firsts.map(|PendingGet { table, need, .. }| Ok((table.blocks.source().file()?, need)));
        let files = files.collect::<Result<Vec<_>>>()?;
        let mut requests = Vec::with_capacity(groups.len());
        for (group, (file, need)) in groups.iter_mut().zip(&files) {
            let Some(open) = &**file else {
                continue;
            };
            requests.push(ReadRequest {
                file: &*open.file,
                offset: u64::from(need.around.start) * PAGE as u64,
                buf: &mut group.buf,
                tag: need.tag(),
                result: Ok(()),
            });
        }
        self.fs().read_many(&mut requests);
        *batches += 1;
        let results: Vec<_> = requests.into_iter().map(|read| read.result).collect();
        drop(files);
        // Each group gets its block, or the failure.
        let mut rest = waiters;
        for (group, result) in groups.into_iter().zip(results) {
            let all = std::mem::take(&mut rest);
            let (same, later) = all.split_at_mut_checked(group.waiters).unwrap_or_default();
            rest = later;
            let Some((first, others)) = same.split_first_mut() else {
                continue;
            };
            // One of them has read it; alone, the others would have found it in the cache.
            let waiter = first.as_ref();
            let (table, need) = (Arc::clone(&waiter.table), waiter.need.clone());
            let keeps = !waiter.lookup.in_passing();
            need.count(&mut first.as_mut().state.trace);
            for other in others {
                other.as_mut().state.trace.hit(need.kind);
            }
            // They go on with it one after another, and the cache is offered it once.
            let read = result.map_err(|e| table.blocks.source().read_error(need.around.start, e));
            let filling = Filling {
                table: &table,
                need: &need,
                keeps,
            };
            let kept = filling.fill(read.map(|()| group.buf), |fetched| {
                let mut delivery = Delivery::default();
                for waiter in same.iter_mut().map(AsMut::as_mut) {
                    if waiter.answer.is_none() {
                        waiter.answer = waiter.get().deliver(fetched)?;
                    }
                    delivery.add(&waiter.state, waiter.answer.as_ref());
                }
                Ok(delivery)
            })?;
            if !kept {
                for waiter in same.iter_mut().map(AsMut::as_mut) {
                    need.count_turned_away(&mut waiter.state.trace);
                }
            }
        }
        Ok(())
    }
}
