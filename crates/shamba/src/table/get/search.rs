//! Looks for a key in a partition's index and in the data block that may hold it.

use std::ops::Range;

use super::block_read::BlockRead;
use super::lookup::{TableGet, TableValue};
use super::{Get, Poll};
use crate::base::expiring::EXPIRY_BYTES;
use crate::base::key::Tag;
use crate::error::Result;
use crate::fs::BlockKind;
use crate::table::block::{BAD_KIND, DataBlock, Search};
use crate::table::format::Damage;
use crate::table::index::IndexBlock;
use crate::table::table_blocks::BlockRef;

/// A data block's place.
#[derive(Debug)]
pub(super) struct BlockLocation {
    /// Its number in its partition.
    block: u32,
    /// Whether it is the partition's last.
    last: bool,
    /// Its pages in the file.
    pages: Range<u32>,
}

/// What a data block says.
enum BlockAnswer {
    Found { tag: Tag, value: Range<usize> },
    Absent,
    Next,
}

impl Get<'_> {
    /// Searches the index and the data, as far as they are in memory.
    pub(super) fn search(&mut self) -> Result<Poll> {
        loop {
            let pages = match &self.state.location {
                Some(location) => location.pages.clone(),
                None => match self.search_index()? {
                    Some(need) => return Ok(Poll::Read(need)),
                    None => continue,
                },
            };
            let Some(block) = self.table.blocks.resident(pages.start) else {
                let need = BlockRead::new(pages, BlockKind::Data, self.state.partition);
                return Ok(Poll::Read(need));
            };
            self.state.trace.hit(BlockKind::Data);
            match self.search_data(&block)? {
                BlockAnswer::Found { tag, value } => {
                    let value = value_in(block, value);
                    return Ok(Poll::Answer(TableGet::Found { tag, value }));
                }
                BlockAnswer::Absent => return Ok(Poll::Answer(TableGet::Absent)),
                BlockAnswer::Next => {}
            }
        }
    }

    /// Asks the index where the data block lies; says what to read if the index is not in memory.
    #[inline]
    fn search_index(&mut self) -> Result<Option<BlockRead>> {
        let (table, partition) = (self.table, self.state.partition);
        if let Some(index) = self.pinned.and_then(|pinned| pinned.index(partition)) {
            self.state.trace.pinned += 1;
            self.state.trace.hit(BlockKind::Index);
            return self.locate(index).map(|()| None);
        }
        let Some(place) = table.top.get(partition) else {
            return Err(table.blocks.damage(0, MISSING_PARTITION));
        };
        let Some(index) = table.blocks.resident(place.index_page) else {
            let need = BlockRead::new(place.index(), BlockKind::Index, partition);
            return Ok(Some(need));
        };
        self.state.trace.hit(BlockKind::Index);
        self.locate(&index).map(|()| None)
    }

    /// Notes where the data block wanted lies, or else the one that may hold the key.
    #[inline]
    pub(super) fn locate(&mut self, index: &[u8]) -> Result<()> {
        let (table, partition) = (self.table, self.state.partition);
        let Some(data) = table.top.data(partition) else {
            return Err(table.blocks.damage(0, MISSING_PARTITION));
        };
        // Where the index lies is of use only if it is damaged.
        let damage = |damage| {
            let page = table.top.get(partition).map_or(0, |place| place.index_page);
            table.blocks.damage(page, damage)
        };
        let view = IndexBlock::parse(index).map_err(damage)?;
        let wanted = self.state.block;
        let block = wanted.unwrap_or_else(|| view.find(self.lookup.key()));
        let pages = view.pages(block).map_err(damage)?;
        if pages.end > data.end - data.start {
            return Err(damage(Damage("an index points past its data")));
        }
        self.state.location = Some(BlockLocation {
            block,
            last: block + 1 == view.blocks(),
            pages: data.start + pages.start..data.start + pages.end,
        });
        Ok(())
    }

    /// Searches an index or data block that was read.
    pub(super) fn search_fetched(&mut self, block: &BlockRef) -> Result<Option<TableGet>> {
        if self.state.location.is_none() {
            return self.locate(block).map(|()| None);
        }
        Ok(match self.search_data(block)? {
            BlockAnswer::Found { tag, value } => Some(TableGet::Found {
                tag,
                value: match block {
                    BlockRef::Cached(block) => value_in(BlockRef::Cached(block.clone()), value),
                    passing => TableValue::Owned(passing.get(value).unwrap_or_default().into()),
                },
            }),
            BlockAnswer::Absent => Some(TableGet::Absent),
            BlockAnswer::Next => None,
        })
    }

    /// Searches the data block; where the key's entries go on in the next one, that is wanted next.
    #[inline]
    fn search_data(&mut self, block: &BlockRef) -> Result<BlockAnswer> {
        let (table, lookup) = (self.table, self.lookup);
        let state = &mut *self.state;
        let Some(place) = state.location.take() else {
            return Ok(BlockAnswer::Absent);
        };
        let start = place.pages.start;
        let found = DataBlock::parse(block)
            .and_then(|view| view.search(lookup.key(), lookup.tag()))
            .map_err(|d| table.blocks.damage(start, d))?;
        match found {
            Search::Found { tag, value } if !tag.allows(value.len()) => {
                Err(table.blocks.damage(start, BAD_KIND))
            }
            Search::Found { tag, value } if lookup.leaves_out(value.len()) => {
                // Whether there is a value is asked all the same.
                let value = match tag.kind() {
                    Some(kind) if kind.expires() => value.start..value.start + EXPIRY_BYTES,
                    _ => 0..0,
                };
                Ok(BlockAnswer::Found { tag, value })
            }
            Search::Found { tag, value } => Ok(BlockAnswer::Found { tag, value }),
            Search::Continues if !place.last => {
                state.block = Some(place.block + 1);
                Ok(BlockAnswer::Next)
            }
            Search::Absent | Search::Continues => {
                state.trace.false_positive = true;
                state.trace.filtered = state.probed.any();
                Ok(BlockAnswer::Absent)
            }
        }
    }
}

const MISSING_PARTITION: Damage = Damage("a partition is missing");

/// A value in a block that is resident; a copy of it otherwise.
#[inline]
fn value_in(block: BlockRef, range: Range<usize>) -> TableValue {
    match block {
        BlockRef::Cached(block) => TableValue::Shared { block, range },
        passing => TableValue::Owned(passing.get(range).unwrap_or_default().into()),
    }
}
