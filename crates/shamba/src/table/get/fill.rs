//! What becomes of a block that lookups needed and somebody read: it is checked, delivered to them
//! and offered to the cache, and so are the blocks of its partition's filter and index that came
//! along.
//!
//! The buffer read into belongs to the caller's thread.

use super::block_read::BlockRead;
use super::lookup::TableGet;
use super::{Get, GetState};
use crate::cache::{IoBuf, Owner};
use crate::error::Result;
use crate::filter;
use crate::fs::BlockKind;
use crate::table::reader::Table;
use crate::table::table_blocks::BlockRef;

/// What was read for a lookup.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fetched<'a> {
    /// A whole filter block.
    Filter(&'a [u8]),
    /// A filter block is damaged, so it is as if there were none.
    NoFilter,
    /// An index or data block.
    Block(&'a BlockRef),
    /// The index block, which came with a filter block.
    Index(&'a [u8]),
}

/// What became of those to whom a block was delivered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Delivery {
    /// Whether any of them has no answer yet.
    pub(super) waiting: bool,
    /// The columns of a filter block that rejected any of them.
    pub(super) rejected_by: u8,
}

impl Delivery {
    /// Adds one that the block was delivered to, and its answer.
    pub(super) fn add(&mut self, state: &GetState, answer: Option<&TableGet>) {
        self.waiting |= answer.is_none();
        self.rejected_by |= state.rejected_by.map_or(0, |by| by.columns);
    }
}

impl Get<'_> {
    /// Reads what the lookup needs, and goes on with it.
    #[cold]
    pub(super) fn read(&mut self, need: &BlockRead) -> Result<Option<TableGet>> {
        let table = self.table;
        table.blocks.check_fits(&need.pages, need.kind)?;
        need.count(&mut self.state.trace);
        let mut buf = table.blocks.buffer(need.bytes());
        let read = table
            .blocks
            .read_pages(&mut buf, need.around.start, need.tag());
        let mut answer = None;
        let filling = Filling {
            table,
            need,
            keeps: !self.lookup.in_passing(),
        };
        let kept = filling.fill(read.map(|()| buf), |fetched| {
            if answer.is_none() {
                answer = self.deliver(fetched)?;
            }
            let mut delivery = Delivery::default();
            delivery.add(self.state, answer.as_ref());
            Ok(delivery)
        })?;
        if !kept {
            need.count_turned_away(&mut self.state.trace);
        }
        Ok(answer)
    }

    /// Takes what was read; answers if that is enough to.
    pub(super) fn deliver(&mut self, fetched: Fetched<'_>) -> Result<Option<TableGet>> {
        match fetched {
            Fetched::Filter(bytes) => Ok(self.probe_fetched(Some(bytes))),
            Fetched::NoFilter => {
                self.state.trace.corrupt_filters += 1;
                Ok(self.probe_fetched(None))
            }
            Fetched::Index(bytes) => self.locate(bytes).map(|()| None),
            Fetched::Block(block) => self.search_fetched(block),
        }
    }
}

/// A table's block that was read, and what came along.
pub(super) struct Filling<'a> {
    pub(super) table: &'a Table,
    pub(super) need: &'a BlockRead,
    /// Whether what was read is offered to the cache.
    pub(super) keeps: bool,
}

impl Filling<'_> {
    /// Delivers what was read, or the failure, to those who need it, and offers it to the cache. A
    /// damaged filter is ignored. Says whether the cache kept what would serve the same lookups.
    pub(super) fn fill(
        &self,
        read: Result<IoBuf>,
        mut deliver: impl FnMut(Fetched<'_>) -> Result<Delivery>,
    ) -> Result<bool> {
        let (table, need) = (self.table, self.need);
        let start = need.pages.start;
        // Without index or data there is no answer: damage is an error.
        if !matches!(need.kind, BlockKind::Filter(_)) {
            let read = table.blocks.open_raw(read?, start)?;
            let block = table
                .blocks
                .admit(read, need.partition, need.kind, self.keeps)?;
            deliver(Fetched::Block(&block))?;
            return Ok(matches!(block, BlockRef::Cached(_)));
        }
        let (mut waiting, mut kept) = (true, false);
        let filter = |buf: &IoBuf| {
            let bytes = table
                .blocks
                .payload_in(need.part(buf, &need.pages), start)?;
            // Probed before it is offered: the cache may keep only a part of it. Refused, the bytes
            // have served all the same.
            let delivery = deliver(Fetched::Filter(&bytes))?;
            waiting = delivery.waiting;
            table.partition_stats().note_filter_read(waiting);
            let owner = Owner {
                rejected_by: delivery.rejected_by,
                ..table.blocks.owner(start, need.partition, need.kind)
            };
            let block = self
                .keeps
                .then(|| table.blocks.cache().insert(owner, &bytes));
            kept = block
                .flatten()
                .is_some_and(|block| self.serves(&block, delivery.rejected_by));
            Ok(())
        };
        match read.as_ref().map_err(Clone::clone).and_then(filter) {
            Ok(()) => {}
            // A damaged filter is done without: it only costs reads.
            Err(error) if error.is_corruption() => {
                log::warn!("a filter is ignored: {error}");
                waiting = deliver(Fetched::NoFilter)?.waiting;
            }
            Err(error) => return Err(error),
        }
        // What came along is offered, and the index delivered to who goes on to it.
        let Ok(buf) = read else { return Ok(kept) };
        if self.keeps {
            self.offer_others(&buf);
        }
        if need.with_index {
            self.fill_index(&buf, waiting, deliver)?;
        }
        Ok(kept)
    }

    /// Whether what is kept of a filter block has one of the columns that rejected a key, or else
    /// all that the block has.
    fn serves(&self, kept: &[u8], rejected_by: u8) -> bool {
        let BlockKind::Filter(module) = self.need.kind else {
            return false;
        };
        let plan = self.table.plan.modules.get(usize::from(module));
        plan.is_some_and(|plan| {
            let columns = filter::columns(plan, kept);
            match rejected_by {
                0 => columns.count_ones() >= u32::from(plan.columns),
                rejected_by => columns & rejected_by > 0,
            }
        })
    }

    /// Offers the filter blocks that came along, if they are sound: else damage is for those who
    /// need them.
    fn offer_others(&self, buf: &IoBuf) {
        let (table, need) = (self.table, self.need);
        for (number, plan) in table.plan.modules.iter().enumerate() {
            let pages = table.top.module(need.partition, number).unwrap_or(0..0);
            let (_, each) = filter::division(plan, table.plan.layout, pages.end - pages.start);
            for start in pages.step_by(usize::from(each.max(1))) {
                let pages = start..start + u32::from(each);
                let inside = need.around.start <= start && pages.end <= need.around.end;
                if !inside || start == need.pages.start {
                    continue;
                }
                if let Ok(bytes) = table.blocks.payload_in(need.part(buf, &pages), start) {
                    let kind = BlockKind::Filter(number as u8);
                    table
                        .blocks
                        .offer_unasked(start, need.partition, kind, &bytes);
                }
            }
        }
    }

    /// Goes on with the index block that was read with a filter block.
    fn fill_index(
        &self,
        buf: &IoBuf,
        waiting: bool,
        mut deliver: impl FnMut(Fetched<'_>) -> Result<Delivery>,
    ) -> Result<()> {
        let (table, need) = (self.table, self.need);
        let page = need.around.end - 1;
        let index = table
            .blocks
            .payload_in(need.part(buf, &(page..page + 1)), page);
        if !waiting {
            // Nobody asked for it: damage is for those who do.
            if let Ok(bytes) = index
                && self.keeps
            {
                table
                    .blocks
                    .offer_unasked(page, need.partition, BlockKind::Index, &bytes);
            }
            return Ok(());
        }
        let bytes = index?;
        deliver(Fetched::Index(&bytes))?;
        if self.keeps {
            table
                .blocks
                .offer(page, need.partition, BlockKind::Index, &bytes);
        }
        Ok(())
    }
}
