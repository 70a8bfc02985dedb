//! How a lazy cursor waits in front of a block that it has not read, and what is known of that
//! block meanwhile: the separator on this side of it.
//!
//! The separator is asked of the index if that is in memory. One that is not is read for a seek and
//! then gone: the separator is noted then, for the first block that is left. Between partitions it
//! is in the top-level index. Where nothing else is known, the entry that was left bounds what
//! comes, or the key sought. One owner.

use super::TableIter;
use crate::base::iter::Direction;
use crate::error::Result;
use crate::table::block::Cursor;
use crate::table::format::Damage;
use crate::table::index::IndexBlock;

impl TableIter {
    /// Going on from the present block, whose entries are all behind: in front of the neighbour if
    /// lazy, else to its entry.
    pub(super) fn leave(&mut self, direction: Direction) -> Result<()> {
        if !self.options.lazy {
            return match direction {
                Direction::Forward => self.next_block(),
                Direction::Backward => self.prev_block(),
            };
        }
        self.find_bound(direction);
        let (partition, block) = (self.partition, self.block);
        let to = match (direction, self.place) {
            (Direction::Forward, Some(place)) if block + 1 < place.blocks => {
                Some((partition, block + 1))
            }
            (Direction::Forward, _) => Some((partition + 1, 0)),
            (Direction::Backward, _) if block > 0 => Some((partition, block - 1)),
            (Direction::Backward, _) => partition
                .checked_sub(1)
                .map(|before| (before, self.last_block(before))),
        };
        match to.filter(|(partition, _)| *partition < self.table.top.len()) {
            Some((partition, block)) => {
                self.go_to(partition, block);
                self.waits = Some(direction);
                self.account()?;
            }
            None => self.reset(),
        }
        Ok(())
    }

    /// Puts into `bound` what is known, without a read, of the entries that follow the present
    /// block.
    fn find_bound(&mut self, direction: Direction) {
        let (top, block) = (&self.table.top, self.block);
        let last = self.place.map_or(0, |place| place.blocks.saturating_sub(1));
        // Separators have the number of the block before them.
        let within = match direction {
            Direction::Forward => (block < last).then_some(block),
            Direction::Backward => block.checked_sub(1),
        };
        let Some(number) = within else {
            let before = match direction {
                Direction::Forward => Some(self.partition),
                Direction::Backward => self.partition.checked_sub(1),
            };
            self.bound.clear();
            if let Some(before) = before {
                top.separator(before, &mut self.bound);
            }
            return;
        };
        if self.fence == Some(direction) {
            return;
        }
        let page = self.place.map(|place| place.index_page);
        let index = page.and_then(|page| self.table.blocks.peek(page));
        let known = index.and_then(|index| {
            let index = IndexBlock::parse(&index).ok()?;
            if number + 1 >= index.blocks() {
                return None;
            }
            self.bound.clear();
            index.separator(number, &mut self.bound);
            bound_of(&mut self.bound);
            Some(())
        });
        if known.is_none() && self.cursor.valid() {
            // Not before the entry that was the last; without one, not before the key sought.
            set(&mut self.bound, self.cursor.key());
        }
    }

    pub(super) fn last_block(&self, partition: usize) -> u32 {
        let place = self.table.top.get(partition);
        place.map_or(0, |place| place.blocks.saturating_sub(1))
    }

    /// To the block that may hold `key`, at no entry yet; false past the end. Notes the separator
    /// that comes next in a direction if it could not be asked for again.
    pub(super) fn find_block(&mut self, key: &[u8], direction: Direction) -> Result<bool> {
        self.go_to(self.table.top.find(key), 0);
        let Some(place) = self.place else {
            return Ok(false);
        };
        let lazy = self.options.lazy;
        let mut bound = std::mem::take(&mut self.bound);
        let found = self.with_index(|index, stays| {
            let block = index.find(key);
            let next = match direction {
                Direction::Forward => (block + 1 < index.blocks()).then_some(block),
                Direction::Backward => block.checked_sub(1),
            };
            let next = next.filter(|_| lazy && !stays);
            if let Some(next) = next {
                bound.clear();
                index.separator(next, &mut bound);
                bound_of(&mut bound);
            } else if lazy {
                set(&mut bound, key);
            }
            Ok((block, next.is_some(), index.blocks()))
        });
        self.bound = bound;
        let (block, fence, blocks) = found?;
        if blocks != place.blocks {
            let damage = Damage("an index does not have the blocks it should");
            return Err(self.table.blocks.damage(place.first_page, damage));
        }
        self.block = block;
        self.fence = fence.then_some(direction);
        Ok(true)
    }

    pub(super) fn settle_inner(&mut self) -> Result<()> {
        let Some(direction) = self.waits.take() else {
            return Ok(());
        };
        let found = match direction {
            Direction::Forward => self.within(Cursor::first)?,
            Direction::Backward => self.within(Cursor::last)?,
        };
        match (found, direction) {
            (true, _) => Ok(()),
            (false, Direction::Forward) => self.next_block(),
            (false, Direction::Backward) => self.prev_block(),
        }
    }

    /// Where a cursor that waits is going.
    pub(crate) fn going(&self) -> Direction {
        self.waits.unwrap_or(Direction::Forward)
    }
}

/// Makes a separator what bounds the entries on either side. Where versions of a key are on both
/// it is that key and a byte 0: that key then. No separator ends with 0 elsewhere but as the
/// shortest key after the one before it.
fn bound_of(separator: &mut Vec<u8>) {
    if separator.last() == Some(&0) {
        separator.pop();
    }
}

fn set(to: &mut Vec<u8>, bytes: &[u8]) {
    to.clear();
    to.extend_from_slice(bytes);
}
