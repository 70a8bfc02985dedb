//! Point lookups in one table: the one general read loop, which stops wherever it needs a read.
//!
//! A [`Visit`] is where a lookup stands: filter modules, then the index, then the data. Protocol:
//! `enter (poll give)* poll`. [`Table::poll`] goes on as far as resident blocks reach and answers, or
//! says which block it needs; [`Table::give`] takes that block, from whoever read it, and may
//! answer as well. [`Table::finish`] reads one block at a time; `together` reads those of many lookups
//! at once. A visit has one owner and holds no block.

use std::ops::Range;

use super::arrive::Heard;
use super::block::{DataBlock, Search};
use super::fetch::BlockRef;
use super::format::Damage;
use super::index::IndexBlock;
use super::lookup::{Lookup, LookupStats, TableGet, TableValue};
use super::need::Need;
use super::outcome::Rejection;
use super::reader::Table;
use super::tally::Tally;
use crate::base::key::Tag;
use crate::error::Result;
use crate::filter::{self, MAX_MODULES, ModulePlan};
use crate::fs::BlockKind;
use crate::value::last_of;

/// Where a lookup stands in a table.
#[derive(Debug)]
pub(crate) struct Visit {
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
    pub(super) asked: Asked,
    /// The data block wanted; its place is not known yet, or it is the one that may hold the key.
    number: Option<u32>,
    /// Where the data block lies, once the index has told.
    pub(super) place: Option<Place>,
    pub(super) tally: Tally,
}

/// What of a filter a lookup asked.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Columns asked of each module; 1 for a module that has none.
    pub(super) columns: [u8; MAX_MODULES],
    /// Whether something was not asked.
    incomplete: bool,
}

/// A data block's place.
#[derive(Debug)]
pub(super) struct Place {
    /// Its number in its partition.
    number: u32,
    /// Whether it is the partition's last.
    last: bool,
    /// Its pages in the file.
    pages: Range<u32>,
}

/// What a lookup in a table comes to.
#[derive(Debug)]
pub(crate) enum Step {
    /// The table's answer.
    Answer(TableGet),
    /// A read.
    Read(Need),
}

/// What was read for a lookup.
#[derive(Debug, Clone, Copy)]
pub(super) enum Given<'a> {
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
enum Says {
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
        visit: &mut Visit,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<TableGet> {
        loop {
            let need = match self.poll(visit, lookup, stats)? {
                Step::Answer(answer) => return Ok(answer),
                Step::Read(need) => need,
            };
            if let Some(answer) = self.get_on(visit, &need, lookup, stats)? {
                return Ok(answer);
            }
        }
    }

    /// Reads what a lookup needs.
    #[cold]
    fn get_on(
        &self,
        visit: &mut Visit,
        need: &Need,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<Option<TableGet>> {
        self.check_fits(&need.pages, need.kind)?;
        need.count(stats, &mut visit.tally);
        let mut buf = self.source.home.io.acquire(need.bytes());
        let read = self.read_pages(&mut buf, need.around.start, need.tag());
        let mut answer = None;
        self.arrive(need, read.map(|()| buf), |given| {
            if answer.is_none() {
                answer = self.give(visit, lookup, given, stats)?;
            }
            Ok(Heard {
                waiting: answer.is_none(),
                rejected_by: visit.rejected_by.map_or(0, |by| by.columns),
            })
        })?;
        Ok(answer)
    }

    /// Begins a lookup. Modules below `limit` are read where they are not resident; those past it
    /// are asked only if they are. A lookup by worth asks all that is resident and then reads what
    /// is worth it.
    #[inline]
    pub(crate) fn enter(&self, lookup: &Lookup<'_>, limit: u8, stats: &mut LookupStats) -> Visit {
        stats.tables += 1;
        let partition = self.top.find(lookup.key());
        let inside = partition < self.top.len();
        lookup.enter_table(inside.then_some(partition as u32));
        if inside {
            stats.modules = stats.modules.max(self.plan.modules.len());
        }
        self.visit(partition, lookup, limit)
    }

    /// A lookup that begins in a partition, if there is one of that number.
    #[inline]
    pub(super) fn visit(&self, partition: usize, lookup: &Lookup<'_>, limit: u8) -> Visit {
        Visit {
            partition,
            limit: if lookup.by_worth() { 0 } else { limit.into() },
            module: 0,
            more: 0,
            past: false,
            rejected_by: None,
            asked: Asked::default(),
            number: None,
            place: None,
            tally: Tally::default(),
        }
    }

    /// Goes on as far as resident blocks reach. Asked again without what it needs, it looks for it
    /// again.
    #[inline]
    pub(crate) fn poll(
        &self,
        visit: &mut Visit,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<Step> {
        let Some((partition, index_page)) = self
            .top
            .get(visit.partition)
            .zip(self.top.index_page(visit.partition))
        else {
            return Ok(Step::Answer(TableGet::Absent));
        };
        while visit.module < self.plan.modules.len() {
            match self.probe(visit, lookup, stats) {
                Probe::Maybe => visit.module += 1,
                Probe::Absent => return Ok(Step::Answer(TableGet::Absent)),
                Probe::Read(need) => return Ok(Step::Read(need)),
            }
        }
        visit.past = true;
        while visit.asked.incomplete
            && lookup.by_worth()
            && let Some((module, need)) = self.worth(visit, lookup, stats)
        {
            // It may have come along with another by now.
            let came = self.resident(need.pages.start).filter(|block| {
                let columns = filter::columns(module, block).count_ones();
                columns >= u32::from(module.columns)
            });
            let Some(block) = came else {
                return Ok(Step::Read(need));
            };
            if let Some(answer) = self.filtered(visit, lookup, Some(&block), stats) {
                return Ok(Step::Answer(answer));
            }
        }
        loop {
            let place = match &visit.place {
                Some(place) => place,
                None => {
                    let Some(block) = self.resident(index_page) else {
                        let pages = index_page..index_page + partition.index_pages;
                        let need = Need::new(pages, BlockKind::Index, visit.partition);
                        return Ok(Step::Read(need));
                    };
                    stats.index.hits += 1;
                    visit
                        .place
                        .insert(self.place(visit.partition, visit.number, lookup, &block)?)
                }
            };
            let Some(block) = self.resident(place.pages.start) else {
                let pages = place.pages.clone();
                let need = Need::new(pages, BlockKind::Data, visit.partition);
                return Ok(Step::Read(need));
            };
            stats.data.hits += 1;
            match self.search(visit, lookup, &block, stats)? {
                Says::Found { tag, value } => {
                    let value = found_in(block, value);
                    return Ok(Step::Answer(TableGet::Found { tag, value }));
                }
                Says::Absent => return Ok(Step::Answer(TableGet::Absent)),
                Says::Next => {}
            }
        }
    }

    /// Takes the block needed; answers if that is enough to.
    pub(super) fn give(
        &self,
        visit: &mut Visit,
        lookup: &Lookup<'_>,
        given: Given<'_>,
        stats: &mut LookupStats,
    ) -> Result<Option<TableGet>> {
        let block = match given {
            Given::Block(block) => block,
            Given::Filter(bytes) => {
                return Ok(self.filtered(visit, lookup, Some(bytes), stats));
            }
            Given::NoFilter => {
                stats.corrupt_filters += 1;
                return Ok(self.filtered(visit, lookup, None, stats));
            }
            Given::Index(bytes) => {
                visit.place = Some(self.place(visit.partition, visit.number, lookup, bytes)?);
                return Ok(None);
            }
        };
        if visit.place.is_none() {
            visit.place = Some(self.place(visit.partition, visit.number, lookup, block)?);
            return Ok(None);
        }
        Ok(match self.search(visit, lookup, block, stats)? {
            Says::Found { tag, value } => Some(TableGet::Found {
                tag,
                value: match block {
                    BlockRef::Cached(block) => found_in(BlockRef::Cached(block.clone()), value),
                    passing => TableValue::Owned(passing.get(value).unwrap_or_default().into()),
                },
            }),
            Says::Absent => Some(TableGet::Absent),
            Says::Next => None,
        })
    }

    /// Asks the next filter module if it is resident, or to be read.
    #[inline]
    fn probe(&self, visit: &mut Visit, lookup: &Lookup<'_>, stats: &mut LookupStats) -> Probe {
        let module = visit.module;
        let place = self.top.module(visit.partition, module);
        let (Some(plan), Some(pages)) = (self.plan.modules.get(module), place) else {
            return Probe::Maybe;
        };
        let hash = filter::hash_of(plan, module, lookup.digest(stats));
        let pages = filter::block_of(plan, self.plan.layout, hash, pages);
        let kind = BlockKind::Filter(module as u8);
        if let Some(block) = self.resident(pages.start) {
            stats.reads_of(kind).hits += 1;
            visit.tally.hit(kind);
            let columns = filter::columns(plan, &block);
            let rejected_by = filter::rejecting_columns(plan, &block, hash);
            visit
                .asked
                .note(module, columns.count_ones() as u8, plan.columns);
            if rejected_by == 0 {
                return Probe::Maybe;
            }
            stats.rule_out(module);
            if plan.columns > 1 && lookup.by_worth() && rejected_by == last_of(columns) {
                self.count_alone(visit, module, lookup, stats);
            }
            Probe::Absent
        } else if module < visit.limit {
            Probe::Read(Need::new(pages, kind, visit.partition))
        } else {
            visit.asked.note(module, 0, plan.columns);
            Probe::Maybe
        }
    }

    /// The module that is most worth a read, of those not wholly resident. Everything resident was
    /// asked.
    #[cold]
    fn worth(
        &self,
        visit: &mut Visit,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Option<(&ModulePlan, Need)> {
        let place = visit.partition as u32;
        let asked = &visit.asked.columns;
        let past_index = visit.place.is_some();
        let module = self
            .partition_stats
            .best_to_read(place, asked, past_index)?;
        let plan = self.plan.modules.get(module)?;
        visit.more = module;
        let pages = self.top.module(visit.partition, module).unwrap_or(0..0);
        let hash = filter::hash_of(plan, module, lookup.digest(stats));
        let pages = filter::block_of(plan, self.plan.layout, hash, pages);
        let kind = BlockKind::Filter(module as u8);
        let mut need = Need::new(pages, kind, visit.partition);
        self.bring_along(&mut need, module, asked, past_index);
        Some((plan, need))
    }

    /// Asks the filter block needed, if it is sound, and goes past it; answers if it says that the
    /// key is absent.
    fn filtered(
        &self,
        visit: &mut Visit,
        lookup: &Lookup<'_>,
        bytes: Option<&[u8]>,
        stats: &mut LookupStats,
    ) -> Option<TableGet> {
        let first = visit.module < self.plan.modules.len();
        let module = if first { visit.module } else { visit.more };
        visit.module += usize::from(first);
        let plan = self.plan.modules.get(module)?;
        let Some(bytes) = bytes else {
            // Of those read by worth, a damaged one is not to be tried again.
            let asked = if first { 0 } else { plan.columns };
            visit.asked.note(module, asked, plan.columns);
            return None;
        };
        let hash = filter::hash_of(plan, module, lookup.digest(stats));
        let rejected_by = filter::rejecting_columns(plan, bytes, hash);
        if rejected_by != 0 {
            stats.rule_out(module);
            let pages = self.top.module(visit.partition, module).unwrap_or(0..0);
            visit.rejected_by = Some(Rejection {
                module,
                page: filter::block_of(plan, self.plan.layout, hash, pages).start,
                columns: rejected_by,
            });
            return Some(TableGet::Absent);
        }
        visit.asked.note(module, plan.columns, plan.columns);
        None
    }

    /// The first so many modules were asked, all there is of them, and the key passed; `index` is the
    /// partition's index block, if that is what comes next.
    #[inline]
    pub(super) fn pass(
        &self,
        visit: &mut Visit,
        modules: usize,
        index: Option<&[u8]>,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) {
        for (number, plan) in self.plan.modules.iter().enumerate().take(modules) {
            visit.tally.hit(BlockKind::Filter(number as u8));
            visit.asked.note(number, plan.columns, plan.columns);
        }
        visit.module = modules;
        if let Some(index) = index {
            // What is wrong with the block, if anything, is found again, and told.
            visit.place = self.place(visit.partition, None, lookup, index).ok();
            stats.index.hits += u64::from(visit.place.is_some());
        }
    }

    /// Where data block `number` of a partition lies, or else the one that may hold the key.
    #[inline]
    fn place(
        &self,
        partition: usize,
        number: Option<u32>,
        lookup: &Lookup<'_>,
        index: &[u8],
    ) -> Result<Place> {
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
        Ok(Place {
            number,
            last: number + 1 == view.blocks(),
            pages: place.first_page + pages.start..place.first_page + pages.end,
        })
    }

    /// Looks in the data block; where the key's entries go on in the next one, that is wanted next.
    #[inline]
    fn search(
        &self,
        visit: &mut Visit,
        lookup: &Lookup<'_>,
        block: &BlockRef,
        stats: &mut LookupStats,
    ) -> Result<Says> {
        let Some(place) = visit.place.take() else {
            return Ok(Says::Absent);
        };
        let start = place.pages.start;
        let found = DataBlock::parse(block)
            .and_then(|view| view.search(lookup.key(), lookup.tag()))
            .map_err(|d| self.damage(start, d))?;
        match found {
            Search::Found { tag, .. } if tag.kind().is_none() => {
                Err(self.damage(start, UNKNOWN_KIND))
            }
            Search::Found { tag, .. } if lookup.key_only() => Ok(Says::Found { tag, value: 0..0 }),
            Search::Found { tag, value } => Ok(Says::Found { tag, value }),
            Search::Continues if !place.last => {
                visit.number = Some(place.number + 1);
                Ok(Says::Next)
            }
            Search::Absent | Search::Continues => {
                visit.tally.in_vain = true;
                let counts = stats.false_positives.iter_mut().zip(visit.asked.columns);
                for (count, columns) in counts.take(self.plan.modules.len()) {
                    *count += u64::from(columns > 0);
                }
                Ok(Says::Absent)
            }
        }
    }
}

/// What a filter module comes to.
enum Probe {
    Maybe,
    Absent,
    Read(Need),
}

impl Asked {
    /// So many columns of a module were asked, out of all it has.
    #[inline]
    fn note(&mut self, module: usize, columns: u8, all: u8) {
        if let Some(slot) = self.columns.get_mut(module) {
            *slot = columns;
        }
        self.incomplete |= columns < all;
    }
}

/// A value in a block that is resident; a copy of it otherwise.
#[inline]
fn found_in(block: BlockRef, range: Range<usize>) -> TableValue {
    match block {
        BlockRef::Cached(block) => TableValue::Shared { block, range },
        passing => TableValue::Owned(passing.get(range).unwrap_or_default().into()),
    }
}
