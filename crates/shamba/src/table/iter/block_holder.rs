//! What a cursor over a table holds of it: the present block, and pages read ahead.
//!
//! A block that is in the cache is held there. One that the cache has no room for, or that is not
//! to go there, is copied where memory allows. All that cursors hold against reclaiming is pinned,
//! and merges have a share of their own for reading ahead. An input of a merge always holds its
//! block, if that is of the usual size ([`ESSENTIAL_BLOCK`]): a merge has no more inputs than its
//! memory holds blocks. Past these only the present entry is kept, and its block is read again for
//! the next, unless the entry is the block's last; of a large entry not even its value, if memory
//! is short, until the merge reaches it. One owner.

use std::ops::Range;

use super::TableIter;
use crate::budget::{
    Budget, Pin, Reservation, Role, copied_index, further_readahead, large_value,
    short_for_large_values,
};
use crate::error::Result;
use crate::fs::{AlignedBuf, BlockKind, PAGE, Purpose};
use crate::table::source::label;
use crate::table::table_blocks::BlockRef;

/// The most bytes of a block that a merge holds of each input whatever else takes memory: on
/// storage, and decompressed. `DbInner::most_inputs` counts with them.
const ESSENTIAL_BLOCK: u64 = 2 * PAGE as u64;
const ESSENTIAL_PAYLOAD: u64 = 16 << 10;

/// The block the cursor is in, as far as it is held.
pub(super) enum HeldBlock {
    /// Nothing but the entry: its value is in `TableIter::value`.
    Entry,
    /// In the cache, which cannot drop it meanwhile.
    Cached(BlockRef, #[expect(dead_code, reason = "held")] Pin),
    /// In `TableIter::own`.
    Own,
}

/// A private copy of a block's payload, with its memory.
#[derive(Default)]
pub(super) struct Own {
    pub(super) bytes: Vec<u8>,
    memory: Option<Reservation>,
    /// None of what is read ahead, which has a share of its own.
    pin: Option<Pin>,
}

/// Pages read ahead.
#[derive(Default)]
pub(super) struct Ahead {
    pages: AlignedBuf,
    first: u32,
    memory: Option<Reservation>,
    /// The limit under which the memory was taken.
    limit: u64,
}

/// A partition's index, and its memory.
pub(super) struct HeldIndex {
    pub(super) partition: usize,
    pub(super) bytes: Vec<u8>,
    _memory: Reservation,
}

impl Ahead {
    fn get(&self, pages: &Range<u32>) -> Option<&[u8]> {
        let start = pages.start.checked_sub(self.first)? as usize * PAGE;
        let end = pages.end.checked_sub(self.first)? as usize * PAGE;
        self.pages.get(start..end)
    }
}

impl TableIter {
    /// Pages of blocks that were read from storage since this was asked last; what was read ahead
    /// of them does not count.
    pub(crate) fn take_pages_read(&mut self) -> u32 {
        std::mem::take(&mut self.pages_read)
    }

    /// Gets the present block and holds it if memory allows; else gives it, with its first page,
    /// for the moment.
    pub(super) fn load(&mut self) -> Result<Option<(BlockRef, u32)>> {
        let pages = self.pages()?;
        let start = pages.start;
        let tag = label(BlockKind::Data, self.options.purpose);
        let (ahead, fill) = (self.options.readahead_pages > 1, self.options.fill_cache);
        let blocks = &self.table.blocks;
        if let Some(block) = blocks.resident_for(start, tag.purpose) {
            return Ok(self.hold(block, start));
        }
        if (ahead || !fill) && self.load_own(&pages)? {
            self.held = HeldBlock::Own;
            return Ok(None);
        }
        self.pages_read += pages.len() as u32;
        let block = (self.table.blocks).read(pages, self.partition, tag, fill)?;
        Ok(self.hold(block, start))
    }

    /// Holds a block: in the cache if it is there, else a copy of it. Gives it back where cursors
    /// hold too much.
    fn hold(&mut self, block: BlockRef, start: u32) -> Option<(BlockRef, u32)> {
        let BlockRef::Cached(cached) = &block else {
            if !self.copy(&block) {
                return Some((block, start));
            }
            self.held = HeldBlock::Own;
            return None;
        };
        self.own = Own::default();
        let Some(pin) = self.options.budget.try_pin(cached.keeps()) else {
            return Some((block, start));
        };
        self.held = HeldBlock::Cached(block, pin);
        None
    }

    /// Keeps the present partition's index for a merge, if it is small and memory allows.
    pub(super) fn hold_index(&mut self, index: &[u8]) {
        let budget = &self.options.budget;
        let small = index.len() as u64 <= copied_index(budget.limit());
        if self.options.purpose == Purpose::Background && small {
            let memory = budget.try_reserve(Role::Compaction, index.len() as u64);
            self.index = memory.map(|memory| HeldIndex {
                partition: self.partition,
                bytes: index.to_vec(),
                _memory: memory,
            });
        }
    }

    /// Whether a value of so many bytes, of an input of a merge, is left until the merge reaches
    /// it: it is large, and what cannot do without memory would not find
    /// [much](short_for_large_values).
    pub(super) fn lets_wait(&self, bytes: usize) -> bool {
        let (budget, bytes) = (&self.options.budget, bytes as u64);
        let limit = budget.limit();
        let free = || limit.saturating_sub(budget.kept() + bytes);
        self.options.purpose == Purpose::Background
            && bytes > large_value(limit).max(PAGE as u64)
            && free() < short_for_large_values(limit)
    }

    /// Copies a block that was read: without it each step would read it again.
    fn copy(&mut self, block: &[u8]) -> bool {
        self.own = Own::default();
        let (budget, bytes) = (&self.options.budget, block.len() as u64);
        if self.options.purpose == Purpose::Background {
            // What merges may hold is for reading ahead; the rest of what they take they need.
            return false;
        }
        let Some(pin) = budget.try_pin(bytes) else {
            return false;
        };
        let Some(memory) = budget.try_reserve(Role::Iterators, bytes) else {
            return false;
        };
        self.own = Own {
            bytes: block.to_vec(),
            memory: Some(memory),
            pin: Some(pin),
        };
        true
    }

    /// Gets a block into `own`, reading ahead where it pays; false when there is no memory for it.
    fn load_own(&mut self, pages: &Range<u32>) -> Result<bool> {
        let limit = self.options.budget.limit();
        if limit < self.ahead.limit {
            self.ahead = Ahead::default();
            self.own = Own::default();
        }
        self.ahead.limit = limit;
        if self.ahead.get(pages).is_none() {
            if !self.read_ahead(pages)? {
                return Ok(false);
            }
            self.pages_read += pages.len() as u32;
        }
        let Some(bytes) = self.ahead.get(pages) else {
            return Ok(false);
        };
        if self.own.pin.is_some() {
            self.own = Own::default();
        }
        self.own.bytes.clear();
        let blocks = &self.table.blocks;
        blocks.decode_into(bytes, pages.start, &mut self.own.bytes)?;
        let wanted = self.own.bytes.capacity() as u64;
        let memory = self
            .own
            .memory
            .get_or_insert_with(|| self.options.budget.reserve(Role::Compaction, 0));
        let more = wanted.saturating_sub(memory.bytes());
        if more > 0 && !(spare(&self.options.budget, more) && memory.try_grow(more)) {
            let essential = self.options.purpose == Purpose::Background;
            if !essential || wanted > ESSENTIAL_PAYLOAD {
                self.own = Own::default();
                return Ok(false);
            }
            memory.grow(more);
        }
        memory.resize(wanted);
        Ok(true)
    }

    /// Reads the pages of a block and as many after it as memory allows.
    fn read_ahead(&mut self, pages: &Range<u32>) -> Result<bool> {
        let Some(place) = self.place else {
            return Ok(false);
        };
        let needed = pages.end - pages.start;
        let left = (place.first_page + place.data_pages).saturating_sub(pages.start);
        // Whole blocks, if the next are as long as this one: half a block would be read again.
        let whole = |count: u32| (count / needed.max(1)).max(1) * needed;
        let mut count = whole(self.options.readahead_pages.min(left));
        let held = self.ahead.memory.as_ref().map_or(0, Reservation::bytes);
        let unit = PAGE as u64;
        // More than the buffer has: less and less is asked for, down to the one block.
        if u64::from(count) * unit > held {
            self.ahead = Ahead {
                limit: self.ahead.limit,
                ..Ahead::default()
            };
            loop {
                let bytes = u64::from(count) * unit;
                // With room for the block itself, which would be read again without.
                let own = u64::from(needed) * unit;
                self.ahead.memory = spare(&self.options.budget, bytes + own)
                    .then(|| self.options.budget.try_reserve(Role::Compaction, bytes))
                    .flatten();
                if self.ahead.memory.is_some() {
                    break;
                }
                if count == needed {
                    // A merge cannot go on without its block; a scan of a caller holds its entry
                    // only.
                    let essential = self.options.purpose == Purpose::Background;
                    if !essential || bytes > ESSENTIAL_BLOCK {
                        return Ok(false);
                    }
                    let memory = self.options.budget.reserve(Role::Compaction, bytes);
                    self.ahead.memory = Some(memory);
                    break;
                }
                count = whole(count / 4);
            }
        }
        // After an error nothing of it counts as read.
        self.ahead.first = pages.start;
        self.ahead.pages.set_len(count as usize * PAGE);
        let tag = label(BlockKind::Data, self.options.purpose);
        let read = self
            .table
            .blocks
            .read_pages(&mut self.ahead.pages, pages.start, tag);
        if let Err(error) = read {
            self.ahead.pages.clear();
            return Err(error);
        }
        Ok(true)
    }

    fn memory(&self) -> u64 {
        let own = self.cursor.memory() + self.value.capacity() + self.bound.capacity();
        (size_of::<Self>() + own) as u64
    }

    /// Brings the reservation to what the cursor holds. A caller's is refused what iterators may
    /// not have all together, and is nowhere then.
    #[inline]
    pub(super) fn account(&mut self) -> Result<()> {
        let bytes = self.memory();
        if bytes == self.memory.bytes() {
            return Ok(());
        }
        self.account_anew(bytes)
    }

    fn account_anew(&mut self, bytes: u64) -> Result<()> {
        let more = bytes.saturating_sub(self.memory.bytes());
        if more > 0
            && self.options.purpose == Purpose::Scan
            && let Err(refused) = self.memory.grow_iterator(more, self.options.sources)
        {
            self.reset();
            (self.cursor, self.value, self.bound) = Default::default();
            self.memory.resize(self.memory());
            return Err(refused);
        }
        self.memory.resize(bytes);
        Ok(())
    }
}

/// Whether a merge may take so much more to read ahead. Nobody can take that back while the merge
/// runs, so all merges together have a share of the budget, and what they cannot do without comes
/// out of the rest.
fn spare(budget: &Budget, bytes: u64) -> bool {
    budget.used_by(Role::Compaction) + bytes <= further_readahead(budget.limit())
}
