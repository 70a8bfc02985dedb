//! What a lookup did in one table, and what lookups did in all tables.
//!
//! A [`Trace`] is the one record of a visit: the counters of the table's level and, summed up in
//! [`LookupTotals`], those of the database are made of it.

use std::ops::AddAssign;

use super::Get;
use crate::filter::MAX_MODULES;
use crate::fs::BlockKind;

/// One bit for each filter module.
pub(crate) type Modules = u16;

const _: () = assert!(MAX_MODULES <= Modules::BITS as usize);

/// How blocks of one kind were come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reads {
    /// Blocks found in memory, or read for another lookup at the same time.
    pub(crate) hits: u32,
    /// Blocks read from storage.
    pub(crate) reads: u32,
    /// Pages of the blocks read from storage.
    pub(crate) pages: u32,
}

impl AddAssign for Reads {
    #[inline]
    fn add_assign(&mut self, other: Reads) {
        self.hits += other.hits;
        self.reads += other.reads;
        self.pages += other.pages;
    }
}

/// What a lookup did in a table.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Trace {
    pub(crate) data: Reads,
    pub(crate) index: Reads,
    pub(crate) filter: Reads,
    /// Pages of index and filter read that the cache did not keep: the next lookup of the same key
    /// would read them again.
    pub(crate) turned_away: u32,
    /// Blocks and modules among the hits that were pinned.
    pub(crate) pinned: u32,
    /// Key digests computed.
    pub(crate) hashes: u32,
    /// Filter blocks that were damaged and therefore ignored.
    pub(crate) corrupt_filters: u32,
    /// Modules read from storage. Each is read at most once in a visit.
    pub(crate) fetched: Modules,
    /// Modules of which something was in memory and was probed.
    pub(crate) probed: Modules,
    /// The module that ended the visit.
    pub(crate) rejected_by: Option<u8>,
    /// Index and data were searched, and the key was not there.
    pub(crate) false_positive: bool,
    /// A filter let that key pass: something of it was probed.
    pub(crate) filtered: bool,
    /// The chance that a key which is not there is searched for, where that was forecast.
    pub(crate) forecast: f32,
}

impl Trace {
    /// Whether the visit did what few do while memory is plenty: a read, or a false positive.
    #[inline]
    pub(crate) fn is_rare(&self) -> bool {
        self.false_positive || self.data.reads | self.index.reads | self.filter.reads > 0
    }

    /// Page reads that another visit for the same key would take, were neither the key nor its
    /// pages kept for it: of its data in any case, of index and filter what the cache did not keep.
    pub(crate) fn cost_of_repeating(&self) -> f32 {
        (self.data.hits + self.data.pages + self.turned_away) as f32
    }

    /// A block was in memory, or read for another lookup at the same time.
    #[inline]
    pub(super) fn hit(&mut self, kind: BlockKind) {
        match kind {
            BlockKind::Filter(module) => {
                self.probed |= bit(module.into());
                self.filter.hits += 1;
            }
            BlockKind::Index => self.index.hits += 1,
            _ => self.data.hits += 1,
        }
    }

    /// A block was read from storage.
    pub(super) fn read(&mut self, kind: BlockKind, pages: usize) {
        let reads = match kind {
            BlockKind::Filter(module) => {
                self.fetched |= bit(module.into());
                &mut self.filter
            }
            BlockKind::Index => &mut self.index,
            _ => &mut self.data,
        };
        reads.reads += 1;
        reads.pages += pages as u32;
    }

    /// A module ended the visit.
    #[inline]
    pub(super) fn reject(&mut self, module: usize) {
        self.rejected_by = Some(module as u8);
    }
}

/// What lookups did in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LookupTotals {
    /// Tables visited.
    pub(crate) tables: u64,
    /// Blocks found in memory.
    pub(crate) hits: u64,
    /// Key digests computed.
    pub(crate) hashes: u64,
    /// Visits that a filter ended.
    pub(crate) negatives: u64,
    /// Visits in which a filter let pass a key that was not there.
    pub(crate) false_positives: u64,
    /// Blocks read from storage, by kind.
    pub(crate) data: Reads,
    pub(crate) index: Reads,
    pub(crate) filter: Reads,
    /// Filter blocks that were damaged and therefore ignored.
    pub(crate) corrupt_filters: u64,
    /// Times that blocks were read together.
    pub(crate) batches: u64,
    /// Entries that the cache had by themselves, and had not.
    pub(crate) entry_hits: u64,
    pub(crate) entry_misses: u64,
}

impl LookupTotals {
    /// Adds a visit that is over.
    #[inline]
    pub(crate) fn add(&mut self, trace: &Trace) {
        self.tables += 1;
        self.hits += u64::from(trace.data.hits + trace.index.hits + trace.filter.hits);
        self.hashes += u64::from(trace.hashes);
        self.negatives += u64::from(trace.rejected_by.is_some());
        if trace.is_rare() {
            self.add_rare(trace);
        }
    }

    /// Adds what few visits do while memory is plenty.
    #[cold]
    fn add_rare(&mut self, trace: &Trace) {
        self.false_positives += u64::from(trace.false_positive && trace.filtered);
        self.corrupt_filters += u64::from(trace.corrupt_filters);
        self.data += trace.data;
        self.index += trace.index;
        self.filter += trace.filter;
    }

    /// Whether anything was read from storage.
    #[inline]
    pub(crate) fn has_reads(&self) -> bool {
        self.data.reads | self.index.reads | self.filter.reads > 0
    }
}

impl Get<'_> {
    /// What was done so far.
    #[inline]
    pub(crate) fn trace(&self) -> &Trace {
        &self.state.trace
    }

    /// Notes in a visit that was just begun how likely a key that is not there comes to be searched
    /// for, as the model has it.
    #[inline]
    pub(crate) fn forecast(&mut self) {
        let (partition, reads) = (self.state.partition as u32, self.state.reads);
        let stats = self.table.partition_stats();
        self.state.trace.forecast = stats.forecast_fpr(partition, reads.limit(), reads.as_valued());
    }

    /// The modules of which nothing was probed: of a visit that no filter ended, those it did
    /// without.
    pub(crate) fn skipped(&self) -> Modules {
        let modules = self.table.plan.modules.len();
        let probed = self.state.probed.columns.iter().take(modules).enumerate();
        let skipped = probed.filter(|(_, columns)| **columns == 0);
        skipped.fold(0, |skipped, (module, _)| skipped | bit(module))
    }
}

/// The bit of a module.
#[inline]
const fn bit(module: usize) -> Modules {
    // There are no more than `MAX_MODULES`.
    1u32.wrapping_shl(module as u32) as Modules
}
