//! What memory is worth now: statistics for people, that decide nothing.

use crate::db::files::Files;
use crate::fs::{BlockKind, PAGE};
use crate::metrics::Counters;
use crate::value::AbsentValue;

/// What one more page of 4 KiB of memory would be worth, by what it would hold.
///
/// The unit of all values is page reads saved per access to the cache. An access is a block or an
/// entry that a lookup looks for there, or a block that an iterator does, found or not. Times
/// `accesses_per_lookup` it is page reads saved per lookup.
///
/// The cache decides by these estimates, so they follow recent accesses. They are 0 while memory is
/// not `short`: all that is used fits in. They are too low where most blocks are accessed less than
/// once in a window (about 23 accesses per resident block), since what was not accessed lately
/// counts as worth nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MarginalValue {
    /// Whether the cache evicted or refused anything within about its last two half-lives (each 16
    /// accesses per resident block).
    pub short: bool,
    /// What the cache's memory is worth at its margin, of whatever kind: the mean of what lately
    /// was evicted, or would have been for a block that was refused, and of nothing for a block
    /// that found room. It is the price by which the cache decides.
    pub cache: f64,
    /// A page of data blocks: the mean of those that lately were evicted or refused; 0 when none
    /// were.
    pub data: f64,
    /// The same of index blocks.
    pub index: f64,
    /// The same of filter blocks and columns.
    pub filter: f64,
    /// A page of the index block that is worth most of those not in memory, of the tables that this
    /// database has open. It may be worth more than `cache` and yet not worth the read that would
    /// bring it in.
    pub best_absent_index: f64,
    /// The same of filter blocks and columns.
    pub best_absent_filter: f64,
    /// Blocks and entries that a lookup of this database asked the cache for, on average since it
    /// was opened; 0 before the first.
    pub accesses_per_lookup: f64,
}

impl MarginalValue {
    /// `None` where blocks leave by age and nobody knows what they are worth.
    pub(super) fn of(files: &Files, counters: &Counters) -> Option<MarginalValue> {
        let policy = files.tables().policy();
        if !policy.is_active() {
            return None;
        }
        let accesses = counters.cache_hits
            + counters.data_reads
            + counters.index_reads
            + counters.filter_reads
            + counters.entry_hits
            + counters.entry_misses;
        let mut value = MarginalValue {
            accesses_per_lookup: match counters.lookups {
                0 => 0.0,
                lookups => accesses as f64 / lookups as f64,
            },
            ..MarginalValue::default()
        };
        if !policy.under_pressure() {
            return Some(value);
        }
        let mut absent = AbsentValue::default();
        for keyspace in files.keyspaces() {
            for file in keyspace.state().version.files() {
                if let Some(table) = file.slot().peek() {
                    absent = absent.max(table.best_absent());
                }
            }
        }
        let page = |density: f32| f64::from(density) * PAGE as f64 / policy.window();
        value.short = true;
        value.cache = page(policy.price());
        value.data = page(policy.price_of_evicted(BlockKind::Data));
        value.index = page(policy.price_of_evicted(BlockKind::Index));
        value.filter = page(policy.price_of_evicted(BlockKind::Filter(0)));
        value.best_absent_index = page(absent.index);
        value.best_absent_filter = page(absent.filter);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::fs::MemFs;
    use crate::value::AbsentValue;
    use crate::{
        FilterFamily, FilterOptions, FilterPolicy, KeyspaceOptions, MemoryBudget, Options,
    };

    /// Also where the last partition of a table has fewer filter blocks than the others.
    #[test]
    fn what_is_resident_is_not_missed() {
        for family in [FilterFamily::Bloom, FilterFamily::Ribbon] {
            let keyspace = KeyspaceOptions {
                filter: FilterOptions {
                    family,
                    bits_per_key: 16.0,
                    ..FilterOptions::default()
                },
                // One block at a time.
                filter_policy: FilterPolicy::All,
                ..KeyspaceOptions::default()
            };
            let db = Options::new()
                .fs(Arc::new(MemFs::new()))
                .memory(MemoryBudget::bytes(64 << 20))
                // Else all is in memory from the start.
                .inherit_statistics(false)
                .keyspace(keyspace)
                .open("/db")
                .unwrap();
            let key = |number: u32| u64::from(number).to_be_bytes();
            for number in 0..20_000 {
                db.put(key(number), [1; 20]).unwrap();
            }
            db.flush().unwrap();
            let best = || {
                let state = db.inner().default_keyspace().state();
                let file = state.version.files().next().unwrap();
                file.slot().peek().unwrap().best_absent()
            };
            for number in 0..20_000 {
                // The first of two lookups is the one that the sample has.
                let long = [&key(number)[..], b"x"].concat();
                assert!(db.get(long).unwrap().is_none());
                db.get(key(number)).unwrap().unwrap();
                if number == 0 {
                    let best = best();
                    // Of the filter of the first partition not all blocks were read.
                    assert!(
                        family == FilterFamily::Ribbon || best.filter > 0.0,
                        "{best:?}"
                    );
                }
            }
            assert_eq!(best(), AbsentValue::default());
        }
    }
}
