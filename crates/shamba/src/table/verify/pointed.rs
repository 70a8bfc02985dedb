//! Whether the values that a table's entries point to are in their value files.
//!
//! Looked up one by one, past the cache. Entries come in key order, and so do those of value files:
//! the index and data block last read of a file mostly have the next value, too, so that a value
//! file is read about once more. Such blocks are held of as many files as the budget has a share
//! for; where a table points to more of them, they are read again. One owner.

use std::sync::Arc;

use super::{DataBlock, IndexBlock, Table, label};
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::base::pointer::{ValuePointer, piece_key};
use crate::budget::{Budget, blocks_of_pointed};
use crate::error::Result;
use crate::fs::{BlockKind, Purpose};
use crate::table::block::Search;
use crate::table::format::Damage;
use crate::table::table_blocks::BlockRef;

/// Gives the table of a value file; none where nothing can be said of what it has.
type OpenValues<'a> = dyn FnMut(u64) -> Result<Option<Arc<Table>>> + 'a;

/// Where what entries point to is looked for.
pub(crate) struct PointedValues<'a> {
    open: &'a mut OpenValues<'a>,
    /// What was read last of each of some files; the last of them was asked last.
    held: Vec<HeldBlocks>,
    budget: Arc<Budget>,
}

/// What becomes of a look for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pointed {
    /// It is there, or may be: in a file of which nothing can be said.
    There,
    /// There is no value of that number and length.
    Missing,
}

/// What was read last of a value file.
struct HeldBlocks {
    file: u64,
    /// The index block of a partition.
    index: Option<(usize, BlockRef)>,
    /// The data block that begins at a page.
    data: Option<(u32, BlockRef)>,
}

impl HeldBlocks {
    fn bytes(&self) -> usize {
        let index = self.index.as_ref().map_or(0, |(_, index)| index.len());
        let data = self.data.as_ref().map_or(0, |(_, data)| data.len());
        size_of::<Self>() + index + data
    }

    /// The bytes of the value of a key that has this number, if the file has such a value.
    fn len_of(&mut self, table: &Table, key: &[u8], seq: SeqNo) -> Result<Option<u64>> {
        let blocks = &table.blocks;
        let partition = table.top.find(key);
        let Some(place) = table.top.get(partition) else {
            return Ok(None);
        };
        let index = match self.index.take() {
            Some((held, index)) if held == partition => index,
            _ => blocks.read_block(place.index(), label(BlockKind::Index, Purpose::Background))?,
        };
        let (_, index) = self.index.insert((partition, index));
        let damage = |damage| blocks.damage(place.index_page, damage);
        let index = IndexBlock::parse(index).map_err(damage)?;
        let mut number = index.find(key);
        loop {
            let pages = index.pages(number).map_err(damage)?;
            if pages.end > place.data_pages {
                return Err(damage(Damage("an index points past its data")));
            }
            let pages = place.first_page + pages.start..place.first_page + pages.end;
            let start = pages.start;
            // Of a block of several pages there is one value mostly, which nobody asks for twice.
            let keeps = pages.len() == 1;
            let data = match self.data.take() {
                Some((held, data)) if held == start => data,
                _ => blocks.read_block(pages, label(BlockKind::Data, Purpose::Background))?,
            };
            let found = DataBlock::parse(&data).and_then(|view| view.search(key, Tag::seek(seq)));
            let found = found.map_err(|damage| blocks.damage(start, damage))?;
            self.data = keeps.then_some((start, data));
            match found {
                Search::Found { tag, value } => {
                    let is_it = tag == Tag::new(seq, EntryKind::Put);
                    return Ok(is_it.then_some(value.len() as u64));
                }
                // Older entries of the key may be in the next block.
                Search::Continues if number + 1 < index.blocks() => number += 1,
                Search::Continues | Search::Absent => return Ok(None),
            }
        }
    }

    /// Whether the file has a value of this length in pieces, which is all that it has.
    fn has_pieces(&mut self, table: &Table, len: u64) -> Result<bool> {
        let (mut sum, mut each) = (0, None);
        for number in 0..=u32::MAX {
            let Some(piece) = self.len_of(table, &piece_key(number), 0)? else {
                break;
            };
            // Readers work out from the first one in which piece a byte is.
            let each = *each.get_or_insert(piece);
            if piece == 0 || piece > each || sum != u64::from(number) * each {
                return Ok(false);
            }
            sum += piece;
        }
        Ok(sum == len)
    }
}

impl<'a> PointedValues<'a> {
    pub(crate) fn new(budget: &Arc<Budget>, open: &'a mut OpenValues<'a>) -> Self {
        PointedValues {
            open,
            held: Vec::new(),
            budget: Arc::clone(budget),
        }
    }

    /// Looks for what an entry of a key points to.
    pub(super) fn look_for(&mut self, key: &[u8], pointer: ValuePointer) -> Result<Pointed> {
        let Some(table) = (self.open)(pointer.file)? else {
            return Ok(Pointed::There);
        };
        let place = self.held.iter().position(|of| of.file == pointer.file);
        let mut held = match place {
            Some(at) => self.held.remove(at),
            None => HeldBlocks {
                file: pointer.file,
                index: None,
                data: None,
            },
        };
        let there = if pointer.is_in_pieces() {
            held.has_pieces(&table, pointer.len)?
        } else {
            held.len_of(&table, key, pointer.seq)? == Some(pointer.len)
        };
        self.held.push(held);
        self.let_go();
        Ok(if there {
            Pointed::There
        } else {
            Pointed::Missing
        })
    }

    /// Keeps to the share of the budget: files asked longest ago go first.
    fn let_go(&mut self) {
        let most = blocks_of_pointed(self.budget.limit());
        let mut bytes: usize = self.held.iter().map(HeldBlocks::bytes).sum();
        let mut gone = 0;
        for held in &self.held {
            if bytes as u64 <= most {
                break;
            }
            bytes -= held.bytes();
            gone += 1;
        }
        self.held.drain(..gone);
    }
}
