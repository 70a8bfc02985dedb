//! Handing on to new tables what is known of the tables they come from: the statistics of their
//! partitions, and those of their blocks that will be worth their room.
//!
//! Protocol of a flush or compaction: [`Heirs::of`] before it writes, its [`Heirs::keep`] in
//! the build options, [`Heirs::slots`] for the files of the edit, [`prepopulate`] once it is
//! installed. Where nobody reads nothing is handed on, and writing costs what it did, unless memory
//! is plenty: then all blocks are kept, and the tables stay open.

use std::sync::Arc;

use crate::budget::{Reservation, Role, prepopulation};
use crate::cache::{BlockCache, MemoryBudget};
use crate::compaction::Inheritance;
use crate::compaction::job::NewTable;
use crate::table::{Prepared, Prepopulation, TableCache, TableSlot};
use crate::version::FileMeta;

/// Those from whom new tables inherit.
#[derive(Debug)]
pub(super) struct Heirs {
    inheritance: Arc<Inheritance>,
    keep: Prepopulation,
    _held: Reservation,
}

impl Heirs {
    /// Prepares to hand on what is known of those from whom new tables will inherit; `None` where
    /// nobody reads and memory is not plenty.
    pub(super) fn of(inheritance: Inheritance, memory: &MemoryBudget) -> Option<Heirs> {
        let cache = memory.cache();
        let is_active = cache.policy().is_active();
        if inheritance.is_cold() && !(is_active && cache.has_room()) {
            return None;
        }
        let most = if is_active {
            prepopulation(memory.budget().working_limit())
        } else {
            // What is used is kept; what will be used has no say.
            0
        };
        let held = memory
            .budget()
            .reserve(Role::Compaction, inheritance.memory());
        let inheritance = Arc::new(inheritance);
        Some(Heirs {
            keep: Prepopulation::new(inheritance.clone(), cache, most),
            inheritance,
            _held: held,
        })
    }

    /// What tables may keep while they are written.
    pub(super) fn keep(&self) -> Prepopulation {
        self.keep.clone()
    }

    /// The slots of new tables, which are ascending and apart, in their order.
    pub(super) fn slots(&self, tables: &[NewTable], cache: &BlockCache) -> Vec<TableSlot> {
        let prepared = || {
            let tables = tables.iter();
            tables.map(|table| table.prepared.as_deref())
        };
        let spans: Vec<_> = prepared().flatten().flat_map(|p| p.spans()).collect();
        let mut visits = self.inheritance.inherited(&spans).into_iter();
        let slot = |prepared: Option<&Prepared>| {
            let Some(prepared) = prepared else {
                return TableSlot::default();
            };
            let count = prepared.spans().count();
            prepared.slot(cache, visits.by_ref().take(count))
        };
        prepared().map(slot).collect()
    }
}

/// Offers to the cache what was kept of tables that are installed now as these files. While memory
/// is plenty the tables are opened: their first lookups are not to read for that either.
pub(super) fn prepopulate(
    cache: &BlockCache,
    opened: &TableCache,
    tables: &mut [NewTable],
    files: &[FileMeta],
) {
    for (table, file) in tables.iter_mut().zip(files) {
        let Some(prepared) = &mut table.prepared else {
            continue;
        };
        prepared.prepopulate(cache, file.slot());
        if cache.policy().is_active() && cache.has_room() {
            opened.open_early(file);
        }
    }
}

#[cfg(test)]
mod tests;
