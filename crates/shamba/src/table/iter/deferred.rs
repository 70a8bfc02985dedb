//! How a lazy cursor waits in front of a block that it has not read, and what is known of that
//! block meanwhile: the separator on this side of it.
//!
//! The separator is noted from the index at a seek, which needs the index anyway, for the first
//! block that is left; later it is asked of the index if that is in memory. Between partitions it
//! is in the top-level index. Where nothing else is known, the entry that was left bounds what
//! comes. One owner.

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
        let to = match (direction, self.place()) {
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
        let last = self.last_block(self.partition);
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
        let index = top
            .index_page(self.partition)
            .and_then(|page| self.table.blocks.resident(page));
        let known = index.and_then(|index| {
            let index = IndexBlock::parse(&index).ok()?;
            self.bound.clear();
            (number + 1 < index.blocks()).then(|| index.separator(number, &mut self.bound))?;
            bound_of(&mut self.bound);
            Some(())
        });
        if known.is_none() {
            // Not before the entry that was the last.
            set(&mut self.bound, self.cursor.key());
        }
    }

    pub(super) fn last_block(&self, partition: usize) -> u32 {
        let place = self.table.top.get(partition);
        place.map_or(0, |place| place.blocks.saturating_sub(1))
    }

    /// To the block that may hold `key`, at no entry yet, and notes the separator that comes next
    /// in a direction. Says whether entries of the key may go on in the block after; `None` past
    /// the end.
    pub(super) fn find_block(&mut self, key: &[u8], direction: Direction) -> Result<Option<bool>> {
        self.go_to(self.table.top.find(key), 0);
        let Some(place) = self.place() else {
            return Ok(None);
        };
        let lazy = self.options.lazy;
        let mut bound = std::mem::take(&mut self.bound);
        let found = self.with_index(|index| {
            let block = index.find(key);
            let last = block + 1 >= index.blocks();
            bound.clear();
            if !last {
                index.separator(block, &mut bound);
            }
            // That key with a byte 0 more where versions of it are in both blocks.
            let goes_on = !last && bound.split_last() == Some((&0, key));
            let fence = match direction {
                Direction::Forward => lazy && !last,
                Direction::Backward => lazy && block > 0,
            };
            if direction == Direction::Backward && fence {
                bound.clear();
                index.separator(block - 1, &mut bound);
            }
            bound_of(&mut bound);
            Ok((block, goes_on, fence, index.blocks()))
        });
        self.bound = bound;
        let (block, goes_on, fence, blocks) = found?;
        if blocks != place.blocks {
            let damage = Damage("an index does not have the blocks it should");
            return Err(self.table.blocks.damage(place.first_page, damage));
        }
        self.block = block;
        self.fence = fence.then_some(direction);
        Ok(Some(goes_on))
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
