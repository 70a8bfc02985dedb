//! Walks a table's entries in both directions.
//!
//! A [`TableIter`] holds at most one block: a cached one, or a private copy of one that is not.
//! When memory for that is refused, or cursors hold as many blocks as they may, it holds only the
//! entry it is at (key, value) and fetches the block again for each step, but for the last: slower,
//! and never over the budget by more than the entry. One owner.
//!
//! Of an input of a merge not even a large value is held where memory is short: the cursor waits at
//! its entry, of which key and tag are known, until the merge reaches it. So a merge holds one
//! such value at a time.
//!
//! A lazy cursor that leaves a block waits in front of the next one until it is settled. Meanwhile
//! the separator between them, which is known without a read, bounds what comes: who stops before
//! it, or finds enough elsewhere, does without that block.

mod block_holder;
mod deferred;

use std::ops::Range;
use std::sync::Arc;

use super::block::{Cursor, DataBlock};
use super::format::Damage;
use super::index::IndexBlock;
use super::reader::Table;
use super::source::label;
use super::table_blocks::BlockRef;
use super::top_index::PartitionEntry;
use crate::base::iter::{Direction, InternalIterator};
use crate::base::key::{self, Tag};
use crate::base::sample;
use crate::budget::{Budget, Reservation, Role};
use crate::error::{Error, Result};
use crate::fs::{BlockKind, Purpose};
use block_holder::{Ahead, HeldBlock, HeldIndex, Own};

/// How a table is walked.
#[derive(Debug, Clone)]
pub(crate) struct ScanOptions {
    /// On whose behalf.
    pub(crate) purpose: Purpose,
    /// How many sources are merged with this one, itself included.
    pub(crate) sources: usize,
    /// Whether blocks read are offered to the cache.
    pub(crate) fill_cache: bool,
    /// The pages read at once when walking forward, if memory allows; 0 or 1 for none ahead.
    /// Blocks read ahead do not go to the cache.
    pub(crate) readahead_pages: u32,
    /// Whether the cursor waits in front of blocks and tables that it has not read
    /// ([`InternalIterator::is_deferred`]).
    pub(crate) lazy: bool,
    /// Where memory is reserved.
    pub(crate) budget: Arc<Budget>,
}

/// A cursor over a table.
pub(crate) struct TableIter {
    table: Arc<Table>,
    options: ScanOptions,
    cursor: Cursor,
    /// The partition, its place if there is one, and the block in it.
    partition: usize,
    place: Option<PartitionEntry>,
    block: u32,
    held: HeldBlock,
    own: Own,
    ahead: Ahead,
    value: Vec<u8>,
    /// Where only the entry is held: whether it is its block's first, and whether its last.
    edges: (bool, bool),
    /// Set where not even the entry's value is held.
    value_waits: bool,
    /// The index of a partition that the cache does not have, for a merge whose blocks are of
    /// several pages: else it would be read again for each of them.
    index: Option<HeldIndex>,
    /// Set while the cursor waits in front of its block, which is not read: where it is going.
    waits: Option<Direction>,
    /// While the cursor waits, what bounds that block. Else the separator after the present block,
    /// or before it, as `fence` says.
    bound: Vec<u8>,
    fence: Option<Direction>,
    /// Pages of blocks that were read from storage since this was asked last.
    pages_read: u32,
    memory: Reservation,
}

impl Table {
    /// A cursor over the table's entries, not positioned yet.
    pub(crate) fn iter(self: &Arc<Self>, options: ScanOptions) -> TableIter {
        TableIter {
            memory: options
                .budget
                .reserve(Role::Iterators, size_of::<TableIter>() as u64),
            table: Arc::clone(self),
            options,
            cursor: Cursor::default(),
            partition: usize::MAX,
            place: None,
            block: 0,
            held: HeldBlock::Entry,
            own: Own::default(),
            ahead: Ahead::default(),
            value: Vec::new(),
            edges: (false, false),
            value_waits: false,
            index: None,
            waits: None,
            bound: Vec::new(),
            fence: None,
            pages_read: 0,
        }
    }
}

impl TableIter {
    /// Forgets the entry and the block.
    fn reset(&mut self) {
        self.cursor.clear();
        self.held = HeldBlock::Entry;
        self.edges = (false, false);
        self.value_waits = false;
        self.value.clear();
        self.waits = None;
        self.fence = None;
    }

    /// Calls `view` with the present partition's index, and whether it stays in memory.
    fn with_index<T>(
        &mut self,
        view: impl FnOnce(&IndexBlock<'_>, bool) -> Result<T, Damage>,
    ) -> Result<T> {
        let table = Arc::clone(&self.table);
        let Some(place) = self.place else {
            return Err(table.blocks.damage(0, Damage("a partition is missing")));
        };
        let tag = label(BlockKind::Index, self.options.purpose);
        let fill = self.options.fill_cache;
        if fill && self.options.purpose == Purpose::Scan {
            count_scan(&table, self.partition);
        }
        let damage = |d| table.blocks.damage(place.index_page, d);
        let held = (self.index.as_ref()).filter(|held| held.partition == self.partition);
        if let Some(held) = held {
            let index = IndexBlock::parse(&held.bytes);
            return index.and_then(|index| view(&index, true)).map_err(damage);
        }
        self.index = None;
        let index = (table.blocks).fetch(place.index(), self.partition, tag, fill)?;
        let stays = matches!(index, BlockRef::Cached(_));
        let seen = IndexBlock::parse(&index).and_then(|index| view(&index, stays));
        self.hold_index(&index);
        seen.map_err(damage)
    }

    /// The pages of the present block. Where all blocks are of one page the index isn't needed.
    fn pages(&mut self) -> Result<Range<u32>> {
        let block = self.block;
        let Some(place) = self.place else {
            return Ok(0..0);
        };
        let pages = if place.blocks == place.data_pages {
            block..block + 1
        } else {
            self.with_index(|index, _| index.pages(block))?
        };
        if pages.end > place.data_pages {
            let page = place.first_page;
            return Err(self
                .table
                .blocks
                .damage(page, Damage("an index points past its data")));
        }
        Ok(place.first_page + pages.start..place.first_page + pages.end)
    }

    /// Moves the cursor within the present block by `go`, fetching the block if it isn't held.
    fn within(
        &mut self,
        go: impl FnOnce(&mut Cursor, &DataBlock<'_>) -> Result<bool, Damage>,
    ) -> Result<bool> {
        self.within_or(true, go)
    }

    /// The same; where the block is not held and `may_wait`, a large value may not be either.
    fn within_or(
        &mut self,
        may_wait: bool,
        go: impl FnOnce(&mut Cursor, &DataBlock<'_>) -> Result<bool, Damage>,
    ) -> Result<bool> {
        self.value_waits = false;
        if matches!(self.held, HeldBlock::Entry)
            && let Some((block, start)) = self.load()?
        {
            return self.within_loose(block, start, may_wait, go);
        }
        let payload = payload(&self.held, &self.own).unwrap_or_default();
        let moved = DataBlock::parse(payload).and_then(|block| go(&mut self.cursor, &block));
        let moved = moved.map_err(|damage| {
            let start = self.place.map_or(0, |place| place.first_page);
            self.broken(start, damage)
        })?;
        self.account()?;
        Ok(moved)
    }

    /// The same in a block that may not be kept, but for its entry.
    fn within_loose(
        &mut self,
        block: BlockRef,
        start: u32,
        may_wait: bool,
        go: impl FnOnce(&mut Cursor, &DataBlock<'_>) -> Result<bool, Damage>,
    ) -> Result<bool> {
        let moved = DataBlock::parse(&block).and_then(|block| {
            let moved = go(&mut self.cursor, &block)?;
            let last = moved && self.cursor.is_last(&block);
            self.edges = (self.cursor.is_first(), last);
            Ok(moved)
        });
        let moved = moved.map_err(|damage| self.broken(start, damage))?;
        self.value.clear();
        let value = block.get(self.cursor.value()).unwrap_or_default();
        self.value_waits = moved && may_wait && self.lets_wait(value.len());
        if !self.value_waits {
            self.value.extend_from_slice(value);
        }
        // What follows may wait for memory, for which nobody is to wait who needs the block's.
        drop(block);
        if self.value.capacity() > 4096 && self.value.len() < self.value.capacity() / 4 {
            self.value.shrink_to_fit();
        }
        self.account()?;
        Ok(moved)
    }

    /// The error for a block that is damaged; the cursor is then nowhere.
    #[cold]
    fn broken(&mut self, page: u32, damage: Damage) -> Error {
        self.reset();
        self.table.blocks.damage(page, damage)
    }

    /// To block `block` of partition `partition`, at no entry yet.
    fn go_to(&mut self, partition: usize, block: u32) {
        self.reset();
        if partition != self.partition {
            self.place = self.table.top.get(partition);
        }
        self.partition = partition;
        self.block = block;
    }

    /// To the following block, at no entry yet; false at the end of the table.
    fn step_forward(&mut self) -> bool {
        let Some(place) = self.place else {
            self.reset();
            return false;
        };
        if self.block + 1 < place.blocks {
            self.go_to(self.partition, self.block + 1);
        } else {
            self.go_to(self.partition + 1, 0);
        }
        self.partition < self.table.top.len()
    }

    /// To the first entry of the next block.
    fn next_block(&mut self) -> Result<()> {
        while self.step_forward() {
            if self.within(Cursor::first)? {
                break;
            }
        }
        Ok(())
    }

    /// To the last entry of the previous block.
    fn prev_block(&mut self) -> Result<()> {
        if let Some(block) = self.block.checked_sub(1) {
            self.go_to(self.partition, block);
        } else if let Some(partition) = self.partition.checked_sub(1) {
            self.go_to(partition, self.last_block(partition));
        } else {
            self.reset();
            return Ok(());
        }
        self.within(Cursor::last)?;
        Ok(())
    }

    fn seek_inner(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        if !self.find_block(key, Direction::Forward)? {
            return Ok(());
        }
        let mut found = self.within(|cursor, block| cursor.seek(block, key, tag))?;
        // Versions of the key may fill blocks.
        while self.cursor.continues() && self.step_forward() {
            found = self.within(|cursor, block| cursor.seek(block, key, tag))?;
        }
        if !found && self.place.is_some() {
            self.leave(Direction::Forward)?;
        }
        Ok(())
    }

    fn seek_for_prev_inner(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        if !self.find_block(key, Direction::Backward)? {
            return self.seek_to_last();
        }
        let found = self.within(|cursor, block| cursor.seek_for_prev(block, key, tag))?;
        if !self.cursor.continues() {
            return if found {
                Ok(())
            } else {
                self.leave(Direction::Backward)
            };
        }
        self.seek_inner(key, tag)?;
        self.materialize()?;
        if !self.valid() {
            return self.seek_to_last();
        }
        if key::compare(self.key(), self.tag(), key, tag).is_gt() {
            return self.prev();
        }
        Ok(())
    }

    /// To the following entry of the block that is held, if it is as simple as that; else nothing
    /// changes and the answer is false.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let Some(payload) = payload(&self.held, &self.own) else {
            return Ok(false);
        };
        let moved = self.waits.is_none() && self.cursor.advance(payload);
        if moved {
            self.account()?;
        }
        Ok(moved)
    }

    /// To the neighbour of the present entry.
    fn step(&mut self, direction: Direction) -> Result<()> {
        if self.is_deferred() {
            self.materialize()?;
        }
        if !self.valid() {
            return Ok(());
        }
        let at_edge = match direction {
            Direction::Forward => self.edges.1,
            Direction::Backward => self.edges.0,
        };
        if matches!(self.held, HeldBlock::Entry) && at_edge {
            return self.leave(direction);
        }
        let lazy = self.options.lazy;
        let mut ended = false;
        let found = self.within(|cursor, block| {
            ended = lazy
                && match direction {
                    Direction::Forward => cursor.is_last(block),
                    Direction::Backward => cursor.is_first(),
                };
            match direction {
                // The key is still of use.
                _ if ended => Ok(true),
                Direction::Forward => cursor.next(block),
                Direction::Backward => cursor.prev(block),
            }
        })?;
        if found && !ended {
            return Ok(());
        }
        self.leave(direction)
    }

    /// Leaves no half-made position behind an error.
    fn checked(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.reset();
        }
        result
    }
}

/// The payload of the present block, if it is held.
#[inline]
fn payload<'a>(held: &'a HeldBlock, own: &'a Own) -> Option<&'a [u8]> {
    match held {
        HeldBlock::Entry => None,
        HeldBlock::Cached(block, _) => Some(block),
        HeldBlock::Own => Some(&own.bytes),
    }
}

/// Counts that a scan needed a partition's index: every one, or a sample while memory is plenty.
fn count_scan(table: &Table, partition: usize) {
    let weight = if table.partition_stats().count_every_access() {
        1
    } else {
        sample::weight_of_scan() as u16
    };
    if weight > 0 {
        table
            .partition_stats()
            .record_scan(partition as u32, weight);
    }
}

impl InternalIterator for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.waits.is_some() || self.cursor.valid()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self.waits {
            Some(_) => &self.bound,
            None => self.cursor.key(),
        }
    }

    #[inline]
    fn tag(&self) -> Tag {
        match self.waits {
            Some(direction) => direction.first_tag(),
            None => self.cursor.tag(),
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match payload(&self.held, &self.own) {
            _ if !self.cursor.valid() => &[],
            Some(payload) => payload.get(self.cursor.value()).unwrap_or_default(),
            None => &self.value,
        }
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.go_to(0, 0);
        if self.table.top.len() == 0 {
            return Ok(());
        }
        let result = self.within(Cursor::first).map(|_| ());
        self.checked(result)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.table.top.len().checked_sub(1) else {
            self.reset();
            return Ok(());
        };
        self.go_to(last, self.last_block(last));
        let result = self.within(Cursor::last).map(|_| ());
        self.checked(result)
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        let result = self.seek_inner(key, tag);
        self.checked(result)
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        let result = self.seek_for_prev_inner(key, tag);
        self.checked(result)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.advance()? {
            return Ok(());
        }
        let result = self.step(Direction::Forward);
        self.checked(result)
    }

    fn prev(&mut self) -> Result<()> {
        let result = self.step(Direction::Backward);
        self.checked(result)
    }

    #[inline]
    fn is_deferred(&self) -> bool {
        self.waits.is_some() || self.value_waits
    }

    fn materialize(&mut self) -> Result<()> {
        let result = if self.value_waits {
            self.within_or(false, |_, _| Ok(true)).map(drop)
        } else {
            self.settle_inner()
        };
        self.checked(result)
    }
}
