//! What a lookup's visit of a partition came to, as far as its filter goes: what the partition's partition_stats is
//! told, so that memory goes to the columns that turn away those who come.
//!
//! Thread-safe; reads the cache, and no storage.

use super::get::GetState;
use super::lookup::{Lookup, LookupStats};
use super::reader::Table;
use crate::cache::BlockKey;
use crate::filter;
use crate::value::Outcome;

/// A filter block that turned a lookup away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rejection {
    pub(super) module: usize,
    /// Where the block starts.
    pub(super) page: u32,
    /// The columns that did, a bit for each; 1 of a block without columns.
    pub(super) columns: u8,
}

impl Table {
    /// What became of a visit that is over.
    #[inline]
    pub(crate) fn outcome(&self, state: &GetState, lookup: &Lookup<'_>, found: bool) -> Outcome {
        match found {
            true => Outcome::Found,
            false if !lookup.by_worth() => Outcome::Absent,
            false if state.past && self.is_false_positive(state) => Outcome::FalsePositive,
            false => Outcome::Rejected,
        }
    }

    /// Whether a visit that got by all that was in memory of the filter, of an absent key, would have
    /// been spared nothing by what is in memory now.
    #[cold]
    fn is_false_positive(&self, state: &GetState) -> bool {
        let trace = state.trace();
        let Some(by) = &state.rejected_by else {
            // One read of a block serves all lookups of a batch that wait for it, and is one's in vain.
            return trace.data.pages + trace.index.pages > 0;
        };
        // What was read from storage turned it away, and may have stayed.
        let plan = self.plan.modules.get(by.module);
        let here = plan.zip(self.peek(by.page));
        here.is_none_or(|(plan, block)| filter::columns(plan, &block) & by.columns == 0)
    }

    /// What became of a visit that what is pinned of the filter turned away.
    #[inline]
    pub(crate) fn outcome_of_pinned(&self, lookup: &Lookup<'_>) -> Outcome {
        match lookup.by_worth() {
            true => Outcome::Rejected,
            false => Outcome::Absent,
        }
    }

    /// Counts a visit that the last column of a module's block turned away and no other of the block, if
    /// no other module in memory would have.
    #[cold]
    pub(super) fn count_if_sole_rejection(
        &self,
        state: &GetState,
        module: usize,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) {
        if !self.partition_stats.needs_rejections() {
            return;
        }
        // Those before it let the visit pass.
        for (number, plan) in self.plan.modules.iter().enumerate().skip(module + 1) {
            let hash = filter::hash_of(plan, number, lookup.digest(stats));
            let place = self.top.module(state.partition, number);
            let pages = place.map(|pages| filter::block_of(plan, self.plan.layout, hash, pages));
            let block = pages.and_then(|pages| self.peek(pages.start));
            if block.is_some_and(|block| !filter::may_contain(plan, &block, hash)) {
                return;
            }
        }
        if let Some(pages) = self.top.module(state.partition, module) {
            self.cache().count_sole_rejection(&BlockKey {
                file: self.cache_id,
                page: pages.start,
            });
        }
    }
}
