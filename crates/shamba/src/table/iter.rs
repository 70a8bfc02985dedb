//! Walks a table's entries in both directions.
//!
//! A [`TableIter`] holds at most one block: a cached one, or a private copy of one that is not.
//! When memory for that is refused, or cursors hold as many blocks as they may, it holds only the entry it is at (key, value) and fetches the
//! block again for each step: slower, and never over the budget by more than the entry. One owner.

mod held;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use super::block::{Cursor, DataBlock};
use super::fetch::label;
use super::format::Damage;
use super::index::IndexBlock;
use super::lookup::Reads;
use super::reader::Table;
use super::top::Partition;
use crate::base::iter::InternalIterator;
use crate::base::key::{self, Tag};
use crate::budget::{Budget, Reservation, Role};
use crate::error::Result;
use crate::fs::{BlockKind, Purpose};
use held::{Ahead, Held, Own};

/// How a table is walked.
#[derive(Debug, Clone)]
pub(crate) struct ScanOptions {
    /// On whose behalf.
    pub(crate) purpose: Purpose,
    /// Whether blocks read are offered to the cache.
    pub(crate) fill_cache: bool,
    /// The pages read at once when walking forward, if memory allows; 0 or 1 for none ahead.
    /// Blocks read ahead do not go to the cache.
    pub(crate) readahead_pages: u32,
    /// Where memory is reserved.
    pub(crate) budget: Arc<Budget>,
}

/// A cursor over a table.
pub(crate) struct TableIter {
    table: Arc<Table>,
    options: ScanOptions,
    cursor: Cursor,
    /// The partition and the block in it.
    partition: usize,
    block: u32,
    held: Held,
    own: Own,
    ahead: Ahead,
    value: Vec<u8>,
    memory: Reservation,
    reads: Reads,
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
            partition: 0,
            block: 0,
            held: Held::Entry,
            own: Own::default(),
            ahead: Ahead::default(),
            value: Vec::new(),
            reads: Reads::default(),
        }
    }
}

impl TableIter {
    /// Forgets the entry and the block.
    fn reset(&mut self) {
        self.cursor.clear();
        self.held = Held::Entry;
        self.value.clear();
    }

    fn place(&self) -> Option<Partition> {
        self.table.top.get(self.partition).copied()
    }

    /// Calls `view` with the present partition's index.
    fn with_index<T>(
        &mut self,
        view: impl FnOnce(&IndexBlock<'_>) -> Result<T, Damage>,
    ) -> Result<T> {
        let table = Arc::clone(&self.table);
        let place = self.place().zip(table.top.index_page(self.partition));
        let Some((place, page)) = place else {
            return Err(table.damage(0, Damage("a partition is missing")));
        };
        let tag = label(BlockKind::Index, self.options.purpose);
        let fill = self.options.fill_cache;
        if fill && self.options.purpose == Purpose::Scan {
            count_scan(&table, self.partition);
        }
        let pages = page..page + place.index_pages;
        let index = table.fetch(pages, self.partition, tag, fill, &mut self.reads)?;
        IndexBlock::parse(&index)
            .and_then(|index| view(&index))
            .map_err(|d| table.damage(page, d))
    }

    /// The pages of the present block. Where all blocks are of one page the index isn't needed.
    fn pages(&mut self) -> Result<Range<u32>> {
        let block = self.block;
        let Some(place) = self.place() else {
            return Ok(0..0);
        };
        let pages = if place.blocks == place.data_pages {
            block..block + 1
        } else {
            self.with_index(|index| index.pages(block))?
        };
        if pages.end > place.data_pages {
            let page = place.first_page;
            return Err(self
                .table
                .damage(page, Damage("an index points past its data")));
        }
        Ok(place.first_page + pages.start..place.first_page + pages.end)
    }

    /// Moves the cursor within the present block by `go`, fetching the block if it isn't held.
    fn within(
        &mut self,
        go: impl FnOnce(&mut Cursor, &DataBlock<'_>) -> Result<bool, Damage>,
    ) -> Result<bool> {
        let pages = if matches!(self.held, Held::Entry) {
            self.load()?
        } else {
            None
        };
        // Only a block that may not be kept is still in hand here.
        let (loose, start) = match pages {
            Some((block, start)) => (Some(block), start),
            None => (None, self.place().map_or(0, |place| place.first_page)),
        };
        let payload: &[u8] = match (&loose, &self.held) {
            (Some(block), _) | (None, Held::Cached(block, _)) => block,
            (None, _) => &self.own.bytes,
        };
        let table = &self.table;
        let valid = DataBlock::parse(payload)
            .and_then(|block| go(&mut self.cursor, &block))
            .map_err(|d| table.damage(start, d));
        let valid = match valid {
            Ok(valid) => valid,
            Err(error) => {
                self.reset();
                return Err(error);
            }
        };
        if let Some(block) = &loose {
            self.value.clear();
            let value = block.get(self.cursor.value()).unwrap_or_default();
            self.value.extend_from_slice(value);
            if self.value.capacity() > 4096 && self.value.len() < self.value.capacity() / 4 {
                self.value.shrink_to_fit();
            }
        }
        drop(loose);
        self.account();
        Ok(valid)
    }

    fn account(&mut self) {
        let bytes = size_of::<Self>() + self.cursor.memory() + self.value.capacity();
        if bytes as u64 != self.memory.bytes() {
            self.memory.resize(bytes as u64);
        }
    }

    /// To block `block` of partition `partition`, at no entry yet.
    fn go_to(&mut self, partition: usize, block: u32) {
        self.reset();
        self.partition = partition;
        self.block = block;
    }

    /// To the following block, at no entry yet; false at the end of the table.
    fn step_forward(&mut self) -> bool {
        let Some(place) = self.place() else {
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
            let blocks = self.table.top.get(partition).map_or(1, |p| p.blocks);
            self.go_to(partition, blocks.saturating_sub(1));
        } else {
            self.reset();
            return Ok(());
        }
        self.within(Cursor::last)?;
        Ok(())
    }

    fn seek_inner(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.go_to(self.table.top.find(key), 0);
        let Some(place) = self.place() else {
            return Ok(());
        };
        let block = self.with_index(|index| Ok((index.find(key), index.blocks())))?;
        if block.1 != place.blocks {
            let damage = Damage("an index does not have the blocks it should");
            return Err(self.table.damage(place.first_page, damage));
        }
        self.block = block.0;
        // More than once only where versions of the key fill blocks.
        while !self.within(|cursor, block| cursor.seek(block, key, tag))? {
            if !self.step_forward() {
                break;
            }
        }
        Ok(())
    }

    /// Leaves no half-made position behind an error.
    fn checked(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.reset();
        }
        result
    }
}

/// Of scans while memory is plenty one in so many counts, for as many.
const SAMPLED: u16 = 8;

/// Counts that a scan needed a partition's index.
fn count_scan(table: &Table, partition: usize) {
    thread_local! {
        static SCANS: Cell<u16> = const { Cell::new(0) };
    }
    let number = SCANS.get();
    SCANS.set(number.wrapping_add(1));
    let weight = match table.heat().counts_all() {
        true => 1,
        false if number.is_multiple_of(SAMPLED) => SAMPLED,
        false => return,
    };
    table.heat().record_scan(partition as u32, weight);
}

impl InternalIterator for TableIter {
    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    fn tag(&self) -> Tag {
        self.cursor.tag()
    }

    fn value(&self) -> &[u8] {
        let range = self.cursor.value();
        match &self.held {
            _ if !self.cursor.valid() => &[],
            Held::Entry => &self.value,
            Held::Cached(block, _) => block.get(range).unwrap_or_default(),
            Held::Own => self.own.bytes.get(range).unwrap_or_default(),
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
        let blocks = self.table.top.get(last).map_or(1, |p| p.blocks);
        self.go_to(last, blocks.saturating_sub(1));
        let result = self.within(Cursor::last).map(|_| ());
        self.checked(result)
    }

    fn seek(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        let result = self.seek_inner(key, tag);
        self.checked(result)
    }

    fn seek_for_prev(&mut self, key: &[u8], tag: Tag) -> Result<()> {
        self.seek(key, tag)?;
        if !self.valid() {
            return self.seek_to_last();
        }
        if key::compare(self.key(), self.tag(), key, tag).is_gt() {
            return self.prev();
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let result = match self.within(Cursor::next) {
            Ok(true) => Ok(()),
            Ok(false) => self.next_block(),
            Err(error) => Err(error),
        };
        self.checked(result)
    }

    fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let result = match self.within(Cursor::prev) {
            Ok(true) => Ok(()),
            Ok(false) => self.prev_block(),
            Err(error) => Err(error),
        };
        self.checked(result)
    }
}
