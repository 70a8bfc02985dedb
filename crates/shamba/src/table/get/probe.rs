//! Probes a partition's filter: each module from what is pinned, from the cache, or from what was
//! read.

use super::block_read::BlockRead;
use super::lookup::TableGet;
use super::{Get, ModuleReads};
use crate::cache::Block;
use crate::filter::{self, MAX_MODULES, Memo, ModulePlan, Parsed};
use crate::fs::BlockKind;
use crate::value::last_of;

/// What of a filter a lookup probed.
#[derive(Debug, Default)]
pub(super) struct ProbedColumns {
    /// Columns probed of each module; 1 for a module that has none.
    pub(super) columns: [u8; MAX_MODULES],
    /// Whether something was not probed.
    incomplete: bool,
}

impl ProbedColumns {
    /// So many columns of a module were probed, out of all it has.
    #[inline]
    fn note(&mut self, module: usize, columns: u8, all: u8) {
        if let Some(slot) = self.columns.get_mut(module) {
            *slot = columns;
        }
        self.incomplete |= columns < all;
    }

    /// Whether anything was probed.
    pub(super) fn any(&self) -> bool {
        self.columns != [0; MAX_MODULES]
    }
}

/// A filter block that was read from storage and rejected the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rejection {
    pub(super) module: usize,
    /// Where the block starts.
    pub(super) page: u32,
    /// The columns that did, a bit for each; 1 of a block without columns.
    pub(super) columns: u8,
}

/// What the filter, or a module of it, says.
pub(super) enum Probe {
    /// The key may be there.
    Maybe,
    /// It is not.
    Absent,
    /// Something must be read first.
    Read(BlockRead),
}

impl<'a> Get<'a> {
    /// Probes the modules that were not probed yet.
    #[inline(always)]
    pub(super) fn probe_filter(&mut self) -> Probe {
        let modules = &*self.table.plan.modules;
        let first = self.state.partition * modules.len();
        let mut memo = Memo::default();
        while let Some(plan) = modules.get(self.state.module) {
            let pinned = (self.pinned).and_then(|pinned| pinned.filter(first + self.state.module));
            let said = match pinned {
                Some(parsed) => self.probe_pinned(plan, parsed, &mut memo),
                None => self.probe_cached(plan),
            };
            match said {
                Probe::Maybe => self.state.module += 1,
                said => return said,
            }
        }
        self.state.passed = true;
        // All that is in memory lets the key pass. Is it worth while to read what is not?
        if self.state.probed.incomplete && self.state.reads == ModuleReads::AsValued {
            return self.probe_valued();
        }
        Probe::Maybe
    }

    /// Probes the next module, which is pinned: all there is of it.
    #[inline(always)]
    fn probe_pinned(
        &mut self,
        plan: &ModulePlan,
        parsed: &Parsed<Block>,
        memo: &mut Memo,
    ) -> Probe {
        let module = self.state.module;
        self.state.trace.hit(BlockKind::Filter(module as u8));
        self.state.trace.pinned += 1;
        if parsed.may_contain(plan, self.digest(), memo) {
            (self.state.probed).note(module, plan.columns, plan.columns);
            return Probe::Maybe;
        }
        self.state.trace.reject(module);
        Probe::Absent
    }

    /// Probes the next module if the cache has something of it; else it is read, or done without.
    #[inline]
    fn probe_cached(&mut self, plan: &ModulePlan) -> Probe {
        let (table, module) = (self.table, self.state.module);
        let Some(pages) = table.top.module(self.state.partition, module) else {
            return Probe::Maybe;
        };
        let hash = filter::hash_of(plan, module, self.digest());
        let pages = filter::block_of(plan, table.plan.layout, hash, pages);
        let kind = BlockKind::Filter(module as u8);
        let Some(block) = table.blocks.resident(pages.start) else {
            if module < self.state.reads.limit() {
                return Probe::Read(BlockRead::new(pages, kind, self.state.partition));
            }
            self.state.probed.note(module, 0, plan.columns);
            return Probe::Maybe;
        };
        self.state.trace.hit(kind);
        let columns = filter::columns(plan, &block);
        let rejected_by = filter::rejecting_columns(plan, &block, hash);
        let count = columns.count_ones() as u8;
        self.state.probed.note(module, count, plan.columns);
        if rejected_by == 0 {
            return Probe::Maybe;
        }
        self.state.trace.reject(module);
        if plan.columns > 1 && self.state.reads.as_valued() && rejected_by == last_of(columns) {
            self.count_if_sole_rejection(module);
        }
        Probe::Absent
    }

    /// Probes what is worth a read of those modules that are not wholly in memory.
    #[cold]
    fn probe_valued(&mut self) -> Probe {
        while self.state.probed.incomplete
            && let Some((plan, need)) = self.best_read()
        {
            // It may have come with another read by now.
            let came = self
                .table
                .blocks
                .resident(need.pages.start)
                .filter(|block| {
                    let columns = filter::columns(plan, block).count_ones();
                    columns >= u32::from(plan.columns)
                });
            let Some(block) = came else {
                return Probe::Read(need);
            };
            if self.probe_fetched(Some(&block)).is_some() {
                return Probe::Absent;
            }
        }
        Probe::Maybe
    }

    /// The module that is most worth a read, of those not wholly in memory, and what to read with
    /// it. Everything in memory was probed.
    fn best_read(&mut self) -> Option<(&'a ModulePlan, BlockRead)> {
        let (table, partition) = (self.table, self.state.partition);
        let module = table.partition_stats().best_to_read(
            partition as u32,
            &self.state.probed.columns,
            self.state.location.is_some(),
        )?;
        let plan = table.plan.modules.get(module)?;
        self.state.valued = module;
        let hash = filter::hash_of(plan, module, self.digest());
        let pages = table.top.module(partition, module).unwrap_or(0..0);
        let pages = filter::block_of(plan, table.plan.layout, hash, pages);
        let mut need = BlockRead::new(pages, BlockKind::Filter(module as u8), partition);
        self.coalesce_neighbours(&mut need, module);
        Some((plan, need))
    }

    /// Probes the filter block needed, if it is sound, and goes past it; answers if it says that
    /// the key is absent.
    pub(super) fn probe_fetched(&mut self, bytes: Option<&[u8]>) -> Option<TableGet> {
        let table = self.table;
        let state = &mut *self.state;
        let in_turn = state.module < table.plan.modules.len();
        let module = if in_turn { state.module } else { state.valued };
        state.module += usize::from(in_turn);
        let plan = table.plan.modules.get(module)?;
        let Some(bytes) = bytes else {
            // Of those read for their value, a damaged one is not to be tried again.
            let probed = if in_turn { 0 } else { plan.columns };
            state.probed.note(module, probed, plan.columns);
            return None;
        };
        let hash = filter::hash_of(plan, module, self.digest());
        let rejected_by = filter::rejecting_columns(plan, bytes, hash);
        let state = &mut *self.state;
        if rejected_by == 0 {
            state.probed.note(module, plan.columns, plan.columns);
            return None;
        }
        state.trace.reject(module);
        let pages = table.top.module(state.partition, module).unwrap_or(0..0);
        state.rejected_by = Some(Rejection {
            module,
            page: filter::block_of(plan, table.plan.layout, hash, pages).start,
            columns: rejected_by,
        });
        Some(TableGet::Absent)
    }
}
