//! What a table's partitions consist of, in terms of memory and reads: for measurements only.
//!
//! Reads every block of a partition past the cache; holds one partition's keys, which are charged
//! to nobody. Stateless.

use super::block::{Cursor, DataBlock};
use super::format::Damage;
use super::index::IndexBlock;
use super::reader::Table;
use super::source::label;
use crate::cache::charge;
use crate::error::Result;
use crate::filter;
use crate::fs::{BlockKind, Purpose};

/// A partition of a table's filter and index, with its data pages.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterPartition {
    /// Its sorted run; 0 is the one a lookup visits first.
    pub run: usize,
    /// The number of its file.
    pub file: u64,
    /// The modules of its filter, in the order of probing.
    pub modules: Vec<PartitionModule>,
    /// Bytes that the resident index block is charged.
    pub index_bytes: u64,
    /// Pages of the index block.
    pub index_pages: u32,
    /// Its data blocks, ascending.
    pub data: Vec<PartitionData>,
}

/// A filter module of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionModule {
    /// Columns that memory can hold one without the other. None: it says nothing of any key.
    pub columns: u8,
    /// Bytes that each resident column is charged.
    pub column_bytes: u64,
    /// Bytes that the module is charged beside, while any column is resident.
    pub block_bytes: u64,
    /// The share of absent keys that a column lets pass.
    pub false_positive: f64,
    /// Pages that a lookup reads to ask all columns.
    pub pages: u32,
}

/// A data block of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionData {
    /// Bytes that the resident block is charged.
    pub bytes: u64,
    /// Pages of the block.
    pub pages: u32,
    /// Its keys, ascending, each once.
    pub keys: Vec<Vec<u8>>,
}

impl Table {
    /// What the open table is charged, without what is known of its partitions.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.memory() as u64
    }

    /// The number of partitions.
    pub(crate) fn partitions(&self) -> usize {
        self.top.len()
    }

    /// A partition below [`Table::partitions`] of the table in file `file` of run `run`.
    pub(crate) fn inspect(
        &self,
        partition: usize,
        run: usize,
        file: u64,
    ) -> Result<FilterPartition> {
        let Some(place) = self.top.get(partition) else {
            return Err(self.blocks.damage(0, Damage("a partition is missing")));
        };
        let page = place.index_page;
        let tag = label(BlockKind::Index, Purpose::Background);
        let index = self.blocks.read_block(place.index(), tag)?;
        let view = IndexBlock::parse(&index).map_err(|d| self.blocks.damage(page, d))?;
        let mut data = Vec::with_capacity(view.blocks() as usize);
        for block in 0..view.blocks() {
            let pages = view.pages(block).map_err(|d| self.blocks.damage(page, d))?;
            let (start, count) = (place.first_page + pages.start, pages.end - pages.start);
            data.push(PartitionData::of(self, start, count)?);
        }
        Ok(FilterPartition {
            run,
            file,
            modules: (0..self.plan.modules.len())
                .map(|number| PartitionModule::of(self, partition, number))
                .collect::<Result<_>>()?,
            index_bytes: charge(index.len()),
            index_pages: place.index_pages,
            data,
        })
    }
}

impl PartitionData {
    /// The block of so many pages from `start` on.
    fn of(table: &Table, start: u32, pages: u32) -> Result<PartitionData> {
        let tag = label(BlockKind::Data, Purpose::Background);
        let payload = table.blocks.read_block(start..start + pages, tag)?;
        let damage = |d| table.blocks.damage(start, d);
        let view = DataBlock::parse(&payload).map_err(damage)?;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut cursor = Cursor::default();
        let mut valid = cursor.first(&view).map_err(damage)?;
        while valid {
            if keys.last().is_none_or(|last| last != cursor.key()) {
                keys.push(cursor.key().to_vec());
            }
            valid = cursor.next(&view).map_err(damage)?;
        }
        Ok(PartitionData {
            bytes: charge(payload.len()),
            pages,
            keys,
        })
    }
}

impl PartitionModule {
    /// A module of several blocks, of which a lookup probes one, is one column of them all: what a
    /// part of the blocks costs and saves is that part of all, if all are probed alike.
    fn of(table: &Table, partition: usize, number: usize) -> Result<PartitionModule> {
        let place = table.top.module(partition, number);
        let Some((plan, pages)) = table.plan.modules.get(number).zip(place) else {
            return Err(table.blocks.damage(0, Damage("a partition is missing")));
        };
        let tag = label(BlockKind::Filter(number as u8), Purpose::Background);
        let all = pages.end - pages.start;
        let each = all / filter::blocks_in(plan, table.plan.layout, all).max(1);
        let (mut bytes, mut beside, mut columns) = (0, 0, plan.columns);
        for start in pages.step_by(each.max(1) as usize) {
            let block = table.blocks.read_block(start..start + each, tag)?;
            columns = columns.min(filter::columns(plan, &block).count_ones() as u8);
            bytes += block.len() as u64;
            beside += charge(block.len()) - block.len() as u64;
        }
        Ok(PartitionModule {
            columns,
            column_bytes: bytes / u64::from(columns.max(1)),
            block_bytes: beside,
            false_positive: f64::from(filter::column_fpr(plan)),
            pages: each,
        })
    }
}
