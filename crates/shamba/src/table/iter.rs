//! Walks a table's entries in both directions.
//!
//! A [`TableIter`] holds at most one block: a cached one, or a private copy when it reads ahead.
//! When memory for that is refused, or cursors hold as many blocks as they may, it holds only the entry it is at (key, value) and fetches the
//! block again for each step: slower, and never over the budget by more than the entry. One owner.

use std::ops::Range;
use std::sync::Arc;

use super::block::{Cursor, DataBlock};
use super::fetch::{BlockRef, label};
use super::format::{self, Damage};
use super::index::IndexBlock;
use super::lookup::Reads;
use super::reader::Table;
use super::top::Partition;
use crate::base::iter::InternalIterator;
use crate::base::key::{self, Tag};
use crate::budget::{Budget, Pin, Reservation, Role};
use crate::error::Result;
use crate::fs::{AlignedBuf, BlockKind, PAGE, Purpose};

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

/// The block the cursor is in, as far as it is held.
enum Held {
    /// Nothing but the entry: its value is in `TableIter::value`.
    Entry,
    /// In the cache, which cannot drop it meanwhile.
    Cached(BlockRef, #[expect(dead_code, reason = "held")] Pin),
    /// In `TableIter::own`.
    Own,
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
    /// A private copy of a block's payload, with its memory.
    own: Vec<u8>,
    own_memory: Option<Reservation>,
    ahead: Ahead,
    value: Vec<u8>,
    memory: Reservation,
    reads: Reads,
}

/// Pages read ahead.
#[derive(Default)]
struct Ahead {
    pages: AlignedBuf,
    first: u32,
    memory: Option<Reservation>,
}

impl Ahead {
    fn get(&self, pages: &Range<u32>) -> Option<&[u8]> {
        let start = pages.start.checked_sub(self.first)? as usize * PAGE;
        let end = pages.end.checked_sub(self.first)? as usize * PAGE;
        self.pages.get(start..end)
    }
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
            own: Vec::new(),
            own_memory: None,
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
            (None, _) => &self.own,
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

    /// Gets the present block and holds it if memory allows; else gives it, with its first page,
    /// for the moment.
    fn load(&mut self) -> Result<Option<(BlockRef, u32)>> {
        let pages = self.pages()?;
        let start = pages.start;
        let tag = label(BlockKind::Data, self.options.purpose);
        let ahead = self.options.readahead_pages > 1;
        if ahead || !self.options.fill_cache {
            if let Some(block) = self.table.resident(start) {
                self.reads.hits += 1;
                return Ok(self.hold(block, start));
            }
            if self.load_own(&pages)? {
                self.held = Held::Own;
                return Ok(None);
            }
        }
        let fill = self.options.fill_cache;
        let partition = self.partition;
        let block = self
            .table
            .fetch(pages, partition, tag, fill, &mut self.reads)?;
        Ok(self.hold(block, start))
    }

    /// Holds a block if it is cached and may be kept from the others; else gives it back.
    fn hold(&mut self, block: BlockRef, start: u32) -> Option<(BlockRef, u32)> {
        let pin = match &block {
            BlockRef::Cached(cached) => self.options.budget.try_pin(cached.len() as u64),
            _ => None,
        };
        let Some(pin) = pin else {
            return Some((block, start));
        };
        self.held = Held::Cached(block, pin);
        None
    }

    /// Gets a block into `own`, reading ahead where it pays; false when there is no memory for it.
    fn load_own(&mut self, pages: &Range<u32>) -> Result<bool> {
        if self.ahead.get(pages).is_none() && !self.read_ahead(pages)? {
            return Ok(false);
        }
        let Some(bytes) = self.ahead.get(pages) else {
            return Ok(false);
        };
        self.own.clear();
        let (salt, table) = (self.table.salt, &self.table);
        format::read_block_into(bytes, salt, pages.start, &mut self.own)
            .map_err(|d| table.damage(pages.start, d))?;
        let wanted = self.own.capacity() as u64;
        let memory = self
            .own_memory
            .get_or_insert_with(|| self.options.budget.reserve(Role::Compaction, 0));
        let more = wanted.saturating_sub(memory.bytes());
        if more > 0 && !(spare(&self.options.budget, more) && memory.try_grow(more)) {
            self.own = Vec::new();
            self.own_memory = None;
            return Ok(false);
        }
        memory.resize(wanted);
        Ok(true)
    }

    /// Reads the pages of a block and as many after it as memory allows.
    fn read_ahead(&mut self, pages: &Range<u32>) -> Result<bool> {
        let Some(place) = self.place() else {
            return Ok(false);
        };
        let needed = pages.end - pages.start;
        let left = (place.first_page + place.data_pages).saturating_sub(pages.start);
        let mut count = self.options.readahead_pages.min(left).max(needed);
        let held = self.ahead.memory.as_ref().map_or(0, Reservation::bytes);
        let unit = PAGE as u64;
        if u64::from(count) * unit > held {
            self.ahead = Ahead::default();
            loop {
                let bytes = u64::from(count) * unit;
                self.ahead.memory = spare(&self.options.budget, bytes)
                    .then(|| self.options.budget.try_reserve(Role::Compaction, bytes))
                    .flatten();
                if self.ahead.memory.is_some() {
                    break;
                }
                if count == needed {
                    return Ok(false);
                }
                count = (count / 4).max(needed);
            }
        }
        self.ahead.first = pages.start;
        self.ahead.pages.set_len(count as usize * PAGE);
        let tag = label(BlockKind::Data, self.options.purpose);
        self.reads.reads += 1;
        self.reads.pages += u64::from(count);
        let read = self
            .table
            .read_pages(&mut self.ahead.pages, pages.start, tag);
        if let Err(error) = read {
            self.ahead.pages.clear();
            return Err(error);
        }
        Ok(true)
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

/// Whether a merge may take so much more to read ahead. Nobody can take that back while the merge
/// runs, so all merges together have a share of the budget, and what they cannot do without comes
/// out of the rest.
fn spare(budget: &Budget, bytes: u64) -> bool {
    budget.used_by(Role::Compaction) + bytes <= budget.limit() / 8
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
            Held::Own => self.own.get(range).unwrap_or_default(),
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
