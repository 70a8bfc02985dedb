//! What a lookup's visit of a partition came to, as far as its filter goes. The partition's
//! statistics are told, so that memory goes to the columns that reject those who come.
//!
//! Reads the cache, and no storage.

use super::Get;
use crate::filter;
use crate::value::Outcome;

impl Get<'_> {
    /// Counts a visit that is over, for the partition: while memory is short each one, else a
    /// sample will do, in which it has a weight.
    #[inline]
    pub(crate) fn count_visit(&self, found: bool, weight: u64) {
        let stats = self.table.partition_stats();
        let visits = if stats.count_every_access() {
            1
        } else {
            weight as u16
        };
        if visits > 0 {
            self.record_outcome(found, visits);
        }
    }

    #[inline(never)]
    fn record_outcome(&self, found: bool, visits: u16) {
        let partition = self.state.partition as u32;
        let stats = self.table.partition_stats();
        stats.record(partition, self.outcome(found), visits);
    }

    fn outcome(&self, found: bool) -> Outcome {
        if found {
            Outcome::Found
        } else if !self.state.reads.as_valued() {
            // Up to a limit, lookups do without what is resident behind it.
            Outcome::Absent
        } else if self.state.passed && self.is_false_positive() {
            Outcome::FalsePositive
        } else {
            Outcome::Rejected
        }
    }

    /// Whether a visit that passed all that was in memory of the filter, of an absent key, would
    /// have been spared nothing by what is in memory now.
    #[cold]
    fn is_false_positive(&self) -> bool {
        let Some(by) = &self.state.rejected_by else {
            // One read of a block serves all lookups of a batch that wait for it, and is one's in
            // vain.
            let trace = self.trace();
            return trace.data.pages + trace.index.pages > 0;
        };
        // What was read from storage rejected it, and may have stayed.
        let plan = self.table.plan.modules.get(by.module);
        let here = plan.zip(self.table.blocks.peek(by.page));
        here.is_none_or(|(plan, block)| filter::columns(plan, &block) & by.columns == 0)
    }

    /// Counts a visit that the last column of a module's block rejected and no other of the block,
    /// if no other module in memory would have.
    #[cold]
    pub(super) fn count_if_sole_rejection(&mut self, module: usize) {
        let (table, partition) = (self.table, self.state.partition);
        if !table.partition_stats().needs_rejections() {
            return;
        }
        // Those before it let the visit pass.
        for (number, plan) in table.plan.modules.iter().enumerate().skip(module + 1) {
            let hash = filter::hash_of(plan, number, self.digest());
            let place = table.top.module(partition, number);
            let pages = place.map(|pages| filter::block_of(plan, table.plan.layout, hash, pages));
            let block = pages.and_then(|pages| table.blocks.peek(pages.start));
            if block.is_some_and(|block| !filter::may_contain(plan, &block, hash)) {
                return;
            }
        }
        if let Some(pages) = table.top.module(partition, module) {
            table
                .blocks
                .cache()
                .count_sole_rejection(&table.blocks.block_key(pages.start));
        }
    }
}
