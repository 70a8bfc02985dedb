//! What one lookup did in one table, for the statistics of the table's level.
//!
//! A [`LookupTrace`] is part of a lookup's [`GetState`](super::get::GetState) and has its owner; whoever
//! began the visit reads it when the visit is over, whether it came to an answer or failed.

use super::get::GetState;
use super::lookup::Lookup;
use super::reader::Table;
use crate::filter::MAX_MODULES;
use crate::fs::BlockKind;

/// One bit for each filter module.
pub(crate) type Modules = u16;

const _: () = assert!(MAX_MODULES <= Modules::BITS as usize);

/// Storage reads of one kind of block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TracedReads {
    pub(crate) reads: u32,
    pub(crate) pages: u32,
}

/// What a lookup did in a table.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct LookupTrace {
    pub(crate) data: TracedReads,
    pub(crate) index: TracedReads,
    pub(crate) filter: TracedReads,
    /// Modules read from storage. Each is read at most once in a visit.
    pub(crate) fetched: Modules,
    /// Modules of which something was in memory and was asked.
    pub(crate) probed: Modules,
    /// Index and data were searched, and the key was not there.
    pub(crate) false_positive: bool,
    /// The chance that a key which is not there comes as far as that, where it was asked for.
    pub(crate) chance: f32,
}

impl LookupTrace {
    /// Whether the visit did what few do while memory is plenty: a read, or a search in vain.
    #[inline]
    pub(crate) fn is_rare(&self) -> bool {
        self.false_positive || self.data.reads | self.index.reads | self.filter.reads > 0
    }

    /// A block was read from storage.
    pub(super) fn read(&mut self, kind: BlockKind, pages: usize) {
        let trace = match kind {
            BlockKind::Filter(module) => {
                self.fetched |= bit(module.into());
                &mut self.filter
            }
            BlockKind::Index => &mut self.index,
            _ => &mut self.data,
        };
        trace.reads += 1;
        trace.pages += pages as u32;
    }

    /// A block was in memory, or read for another lookup at the same time.
    #[inline]
    pub(super) fn hit(&mut self, kind: BlockKind) {
        if let BlockKind::Filter(module) = kind {
            self.probed |= bit(module.into());
        }
    }
}

impl GetState {
    /// Blocks of filter and index used, of a visit that has just begun with what is pinned.
    pub(crate) fn held(&self) -> u64 {
        u64::from(self.trace.probed.count_ones()) + u64::from(self.location.is_some())
    }

    /// What was done so far.
    #[inline]
    pub(crate) fn trace(&self) -> &LookupTrace {
        &self.trace
    }
}

impl Table {
    /// Notes in a visit that was just begun how likely a key that is not there comes to be searched
    /// for in vain, as the model has it.
    pub(crate) fn predict(&self, state: &mut GetState, lookup: &Lookup<'_>) {
        let partition = state.partition as u32;
        state.trace.chance =
            self.partition_stats
                .forecast_fpr(partition, state.limit, lookup.by_worth());
    }

    /// The modules of which a visit asked nothing: of one that no filter ended, those it did without.
    pub(crate) fn skipped(&self, state: &GetState) -> Modules {
        let modules = self.plan.modules.len();
        let probed = state.probed.columns.iter().take(modules).enumerate();
        let skipped = probed.filter(|(_, columns)| **columns == 0);
        skipped.fold(0, |skipped, (module, _)| skipped | bit(module))
    }
}

/// The bit of a module.
#[inline]
const fn bit(module: usize) -> Modules {
    if module < MAX_MODULES { 1 << module } else { 0 }
}
