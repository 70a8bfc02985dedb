//! Point lookups in one table: the one general read loop, which stops wherever it needs a read.
//!
//! A [`GetState`] is where a lookup stands: filter modules, then the index, then the data. Protocol:
//! `enter (poll give)* poll`. [`Table::poll`] goes on as far as resident blocks reach and answers, or
//! says which block it needs; [`Table::give`] takes that block, from whoever read it, and may
//! answer as well. [`Table::finish`] reads one block at a time; `together` reads those of many lookups
//! at once. A visit has one owner and holds no block.

use std::ops::Range;

use super::block::{DataBlock, Search};
use super::block_read::BlockRead;
use super::fetch::BlockRef;
use super::fill::Delivery;
use super::format::Damage;
use super::index::IndexBlock;
use super::lookup::{Lookup, LookupStats, TableGet, TableValue};
use super::outcome::Rejection;
use super::probed_columns::ProbedColumns;
use super::reader::Table;
use super::trace::LookupTrace;
use crate::base::key::Tag;
use crate::error::Result;
use crate::filter::{self, ModulePlan};
use crate::fs::BlockKind;
use crate::value::last_of;

/// Where a lookup stands in a table.
#[derive(Debug)]
pub(crate) struct GetState {
    pub(super) partition: usize,
    /// Modules below this are read where they are not resident.
    pub(super) limit: usize,
    /// The next filter module.
    module: usize,
    /// The one of those not wholly resident that is being read, where that is by worth.
    more: usize,
    /// Whether all that is in memory of the filter was asked and let it pass.
    pub(super) past: bool,
    /// What was read from storage and turned it away, if anything did.
    pub(super) rejected_by: Option<Rejection>,
    pub(super) probed: ProbedColumns,
    /// The data block wanted; its place is not known yet, or it is the one that may hold the key.
    number: Option<u32>,
    /// Where the data block lies, once the index has told.
    pub(super) location: Option<BlockLocation>,
    pub(super) trace: LookupTrace,
}

/// A data block's place.
#[derive(Debug)]
pub(super) struct BlockLocation {
    /// Its number in its partition.
    number: u32,
    /// Whether it is the partition's last.
    last: bool,
    /// Its pages in the file.
    pages: Range<u32>,
}

/// What a lookup in a table comes to.
#[derive(Debug)]
pub(crate) enum Poll {
    /// The table's answer.
    Answer(TableGet),
    /// A read.
    Read(BlockRead),
}

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

/// What a data block says.
enum BlockAnswer {
    Found { tag: Tag, value: Range<usize> },
    Absent,
    Next,
}

const UNKNOWN_KIND: Damage =
    Damage("an entry is of a kind this build does not know; a newer build may");

impl Table {
    /// Takes a visit to its end, reading one block after another.
    pub(crate) fn finish(
        &self,
        state: &mut GetState,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<TableGet> {
        loop {
            let need = match self.poll(state, lookup, stats)? {
                Poll::Answer(answer) => return Ok(answer),
                Poll::Read(need) => need,
            };
            if let Some(answer) = self.read_and_deliver(state, &need, lookup, stats)? {
                return Ok(answer);
            }
        }
    }

    /// Reads what a lookup needs.
    #[cold]
    fn read_and_deliver(
        &self,
        state: &mut GetState,
        need: &BlockRead,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<Option<TableGet>> {
        self.check_fits(&need.pages, need.kind)?;
        need.count(stats, &mut state.trace);
        let mut buf = self.source.home.io.acquire(need.bytes());
        let read = self.read_pages(&mut buf, need.around.start, need.tag());
        let mut answer = None;
        self.fill(need, read.map(|()| buf), |given| {
            if answer.is_none() {
                answer = self.deliver(state, lookup, given, stats)?;
            }
            Ok(Delivery {
                waiting: answer.is_none(),
                rejected_by: state.rejected_by.map_or(0, |by| by.columns),
            })
        })?;
        Ok(answer)
    }

    /// Begins a lookup. Modules below `limit` are read where they are not resident; those past it
    /// are asked only if they are. A lookup by worth asks all that is resident and then reads what
    /// is worth it.
    #[inline]
    pub(crate) fn enter(
        &self,
        lookup: &Lookup<'_>,
        limit: u8,
        stats: &mut LookupStats,
    ) -> GetState {
        stats.tables += 1;
        let partition = self.top.find(lookup.key());
        let inside = partition < self.top.len();
        lookup.enter_table(inside.then_some(partition as u32));
        if inside {
            stats.modules = stats.modules.max(self.plan.modules.len());
        }
        self.begin_at(partition, lookup, limit)
    }

    /// A lookup that begins in a partition, if there is one of that number.
    #[inline]
    pub(super) fn begin_at(&self, partition: usize, lookup: &Lookup<'_>, limit: u8) -> GetState {
        GetState {
            partition,
            limit: if lookup.by_worth() { 0 } else { limit.into() },
            module: 0,
            more: 0,
            past: false,
            rejected_by: None,
            probed: ProbedColumns::default(),
            number: None,
            location: None,
            trace: LookupTrace::default(),
        }
    }

    /// Goes on as far as resident blocks reach. Polled again without what it needs, it looks for it
    /// again.
    #[inline]
    pub(crate) fn poll(
        &self,
        state: &mut GetState,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<Poll> {
        let Some((partition, index_page)) = self
            .top
            .get(state.partition)
            .zip(self.top.index_page(state.partition))
        else {
            return Ok(Poll::Answer(TableGet::Absent));
        };
        while state.module < self.plan.modules.len() {
            match self.probe(state, lookup, stats) {
                Probe::Maybe => state.module += 1,
                Probe::Absent => return Ok(Poll::Answer(TableGet::Absent)),
                Probe::Read(need) => return Ok(Poll::Read(need)),
            }
        }
        state.past = true;
        while state.probed.incomplete
            && lookup.by_worth()
            && let Some((module, need)) = self.best_read(state, lookup, stats)
        {
            // It may have come along with another by now.
            let came = self.resident(need.pages.start).filter(|block| {
                let columns = filter::columns(module, block).count_ones();
                columns >= u32::from(module.columns)
            });
            let Some(block) = came else {
                return Ok(Poll::Read(need));
            };
            if let Some(answer) = self.probe_read(state, lookup, Some(&block), stats) {
                return Ok(Poll::Answer(answer));
            }
        }
        loop {
            let place = match &state.location {
                Some(place) => place,
                None => {
                    let Some(block) = self.resident(index_page) else {
                        let pages = index_page..index_page + partition.index_pages;
                        let need = BlockRead::new(pages, BlockKind::Index, state.partition);
                        return Ok(Poll::Read(need));
                    };
                    stats.index.hits += 1;
                    state.location.insert(self.locate(
                        state.partition,
                        state.number,
                        lookup,
                        &block,
                    )?)
                }
            };
            let Some(block) = self.resident(place.pages.start) else {
                let pages = place.pages.clone();
                let need = BlockRead::new(pages, BlockKind::Data, state.partition);
                return Ok(Poll::Read(need));
            };
            stats.data.hits += 1;
            match self.search(state, lookup, &block, stats)? {
                BlockAnswer::Found { tag, value } => {
                    let value = found_in(block, value);
                    return Ok(Poll::Answer(TableGet::Found { tag, value }));
                }
                BlockAnswer::Absent => return Ok(Poll::Answer(TableGet::Absent)),
                BlockAnswer::Next => {}
            }
        }
    }

    /// Takes the block needed; answers if that is enough to.
    pub(super) fn deliver(
        &self,
        state: &mut GetState,
        lookup: &Lookup<'_>,
        given: Fetched<'_>,
        stats: &mut LookupStats,
    ) -> Result<Option<TableGet>> {
        let block = match given {
            Fetched::Block(block) => block,
            Fetched::Filter(bytes) => {
                return Ok(self.probe_read(state, lookup, Some(bytes), stats));
            }
            Fetched::NoFilter => {
                stats.corrupt_filters += 1;
                return Ok(self.probe_read(state, lookup, None, stats));
            }
            Fetched::Index(bytes) => {
                state.location = Some(self.locate(state.partition, state.number, lookup, bytes)?);
                return Ok(None);
            }
        };
        if state.location.is_none() {
            state.location = Some(self.locate(state.partition, state.number, lookup, block)?);
            return Ok(None);
        }
        Ok(match self.search(state, lookup, block, stats)? {
            BlockAnswer::Found { tag, value } => Some(TableGet::Found {
                tag,
                value: match block {
                    BlockRef::Cached(block) => found_in(BlockRef::Cached(block.clone()), value),
                    passing => TableValue::Owned(passing.get(value).unwrap_or_default().into()),
                },
            }),
            BlockAnswer::Absent => Some(TableGet::Absent),
            BlockAnswer::Next => None,
        })
    }

    /// Asks the next filter module if it is resident, or to be read.
    #[inline]
    fn probe(&self, state: &mut GetState, lookup: &Lookup<'_>, stats: &mut LookupStats) -> Probe {
        let module = state.module;
        let place = self.top.module(state.partition, module);
        let (Some(plan), Some(pages)) = (self.plan.modules.get(module), place) else {
            return Probe::Maybe;
        };
        let hash = filter::hash_of(plan, module, lookup.digest(stats));
        let pages = filter::block_of(plan, self.plan.layout, hash, pages);
        let kind = BlockKind::Filter(module as u8);
        if let Some(block) = self.resident(pages.start) {
            stats.reads_of(kind).hits += 1;
            state.trace.hit(kind);
            let columns = filter::columns(plan, &block);
            let rejected_by = filter::rejecting_columns(plan, &block, hash);
            state
                .probed
                .note(module, columns.count_ones() as u8, plan.columns);
            if rejected_by == 0 {
                return Probe::Maybe;
            }
            stats.rule_out(module);
            if plan.columns > 1 && lookup.by_worth() && rejected_by == last_of(columns) {
                self.count_if_sole_rejection(state, module, lookup, stats);
            }
            Probe::Absent
        } else if module < state.limit {
            Probe::Read(BlockRead::new(pages, kind, state.partition))
        } else {
            state.probed.note(module, 0, plan.columns);
            Probe::Maybe
        }
    }

    /// The module that is most worth a read, of those not wholly resident. Everything resident was
    /// asked.
    #[cold]
    fn best_read(
        &self,
        state: &mut GetState,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Option<(&ModulePlan, BlockRead)> {
        let place = state.partition as u32;
        let probed = &state.probed.columns;
        let past_index = state.location.is_some();
        let module = self
            .partition_stats
            .best_to_read(place, probed, past_index)?;
        let plan = self.plan.modules.get(module)?;
        state.more = module;
        let pages = self.top.module(state.partition, module).unwrap_or(0..0);
        let hash = filter::hash_of(plan, module, lookup.digest(stats));
        let pages = filter::block_of(plan, self.plan.layout, hash, pages);
        let kind = BlockKind::Filter(module as u8);
        let mut need = BlockRead::new(pages, kind, state.partition);
        self.coalesce_neighbours(&mut need, module, probed, past_index);
        Some((plan, need))
    }

    /// Asks the filter block needed, if it is sound, and goes past it; answers if it says that the
    /// key is absent.
    fn probe_read(
        &self,
        state: &mut GetState,
        lookup: &Lookup<'_>,
        bytes: Option<&[u8]>,
        stats: &mut LookupStats,
    ) -> Option<TableGet> {
        let first = state.module < self.plan.modules.len();
        let module = if first { state.module } else { state.more };
        state.module += usize::from(first);
        let plan = self.plan.modules.get(module)?;
        let Some(bytes) = bytes else {
            // Of those read by worth, a damaged one is not to be tried again.
            let probed = if first { 0 } else { plan.columns };
            state.probed.note(module, probed, plan.columns);
            return None;
        };
        let hash = filter::hash_of(plan, module, lookup.digest(stats));
        let rejected_by = filter::rejecting_columns(plan, bytes, hash);
        if rejected_by != 0 {
            stats.rule_out(module);
            let pages = self.top.module(state.partition, module).unwrap_or(0..0);
            state.rejected_by = Some(Rejection {
                module,
                page: filter::block_of(plan, self.plan.layout, hash, pages).start,
                columns: rejected_by,
            });
            return Some(TableGet::Absent);
        }
        state.probed.note(module, plan.columns, plan.columns);
        None
    }

    /// The first so many modules were asked, all there is of them, and the key passed; `index` is the
    /// partition's index block, if that is what comes next.
    #[inline]
    pub(super) fn pass(
        &self,
        state: &mut GetState,
        modules: usize,
        index: Option<&[u8]>,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) {
        for (number, plan) in self.plan.modules.iter().enumerate().take(modules) {
            state.trace.hit(BlockKind::Filter(number as u8));
            state.probed.note(number, plan.columns, plan.columns);
        }
        state.module = modules;
        if let Some(index) = index {
            // What is wrong with the block, if anything, is found again, and told.
            state.location = self.locate(state.partition, None, lookup, index).ok();
            stats.index.hits += u64::from(state.location.is_some());
        }
    }

    /// Where data block `number` of a partition lies, or else the one that may hold the key.
    #[inline]
    fn locate(
        &self,
        partition: usize,
        number: Option<u32>,
        lookup: &Lookup<'_>,
        index: &[u8],
    ) -> Result<BlockLocation> {
        let place = self.top.get(partition).zip(self.top.index_page(partition));
        let Some((place, page)) = place else {
            return Err(self.damage(0, Damage("a partition is missing")));
        };
        let view = IndexBlock::parse(index).map_err(|d| self.damage(page, d))?;
        let number = number.unwrap_or_else(|| view.find(lookup.key()));
        let pages = view.pages(number).map_err(|d| self.damage(page, d))?;
        if pages.end > place.data_pages {
            return Err(self.damage(page, Damage("an index points past its data")));
        }
        Ok(BlockLocation {
            number,
            last: number + 1 == view.blocks(),
            pages: place.first_page + pages.start..place.first_page + pages.end,
        })
    }

    /// Looks in the data block; where the key's entries go on in the next one, that is wanted next.
    #[inline]
    fn search(
        &self,
        state: &mut GetState,
        lookup: &Lookup<'_>,
        block: &BlockRef,
        stats: &mut LookupStats,
    ) -> Result<BlockAnswer> {
        let Some(place) = state.location.take() else {
            return Ok(BlockAnswer::Absent);
        };
        let start = place.pages.start;
        let found = DataBlock::parse(block)
            .and_then(|view| view.search(lookup.key(), lookup.tag()))
            .map_err(|d| self.damage(start, d))?;
        match found {
            Search::Found { tag, .. } if tag.kind().is_none() => {
                Err(self.damage(start, UNKNOWN_KIND))
            }
            Search::Found { tag, .. } if lookup.key_only() => {
                Ok(BlockAnswer::Found { tag, value: 0..0 })
            }
            Search::Found { tag, value } => Ok(BlockAnswer::Found { tag, value }),
            Search::Continues if !place.last => {
                state.number = Some(place.number + 1);
                Ok(BlockAnswer::Next)
            }
            Search::Absent | Search::Continues => {
                state.trace.false_positive = true;
                let counts = stats.false_positives.iter_mut().zip(state.probed.columns);
                for (count, columns) in counts.take(self.plan.modules.len()) {
                    *count += u64::from(columns > 0);
                }
                Ok(BlockAnswer::Absent)
            }
        }
    }
}

/// What a filter module comes to.
enum Probe {
    Maybe,
    Absent,
    Read(BlockRead),
}

/// A value in a block that is resident; a copy of it otherwise.
#[inline]
fn found_in(block: BlockRef, range: Range<usize>) -> TableValue {
    match block {
        BlockRef::Cached(block) => TableValue::Shared { block, range },
        passing => TableValue::Owned(passing.get(range).unwrap_or_default().into()),
    }
}
