//! What scans ask filters: what a keyspace's tables have filters for scans of ([`ScanRule`]), and
//! what one scan asks for ([`FilteredScan`]). Pure, but for the counts of a scan, which are relaxed
//! atomics. Thread-safe.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::choose::Families;
use super::plan::{Family, FilterPlan, Layout, ModulePlan};
use super::prefix::{PrefixRule, prefix_plan};
use super::range;
use crate::base::digest::KeyDigest;

/// The name of the rule of ranges, which says no more: bits per key are the table's.
const RANGES: &str = "ranges";

/// What a filter for scans is of.
#[derive(Debug)]
pub(crate) enum ScanRule {
    /// The prefixes of keys.
    Prefixes(PrefixRule),
    /// Keys, in so many thousandths of bits each.
    Ranges {
        /// Of new filters.
        millibits: u32,
    },
}

impl ScanRule {
    /// The rule of a name, if that says all of it.
    pub(crate) fn named(name: &str) -> Option<ScanRule> {
        if name == RANGES {
            return Some(ScanRule::Ranges { millibits: 0 });
        }
        PrefixRule::named(name).map(ScanRule::Prefixes)
    }

    /// Its name, by which tables say what their filters are of.
    pub(crate) fn name(&self) -> &str {
        match self {
            ScanRule::Prefixes(rule) => rule.name(),
            ScanRule::Ranges { .. } => RANGES,
        }
    }

    /// Whether filters under this name have modules of a family.
    pub(crate) fn has_family(name: &str, family: Family) -> bool {
        (name == RANGES) == (family == Family::Range)
    }

    /// The filter for scans of tables that have key filters of these families in this layout.
    pub(crate) fn plan(&self, families: Families, layout: Layout) -> FilterPlan {
        match self {
            ScanRule::Prefixes(_) => prefix_plan(families, layout),
            ScanRule::Ranges { millibits } => FilterPlan {
                layout,
                modules: vec![ModulePlan::range(range::columns_of(*millibits), *millibits)],
            },
        }
    }
}

/// What a scan asks filters for, and what became of asking tables.
#[derive(Debug)]
pub(crate) struct FilteredScan {
    rule: Arc<ScanRule>,
    /// The least key of the scan, or one before all of them.
    start: Box<[u8]>,
    wanted: Wanted,
    counts: ScanCounts,
}

/// Which keys may be of the scan, from its start on.
#[derive(Debug)]
enum Wanted {
    /// Those with the prefix that it lies in: so many bytes of its start.
    Prefix { len: usize, digest: KeyDigest },
    /// Those up to a key.
    Range { end: Box<[u8]> },
}

/// What scans did with filters.
#[derive(Debug, Default)]
pub(crate) struct ScanCounts {
    /// Tables whose filter was asked.
    pub(crate) probes: AtomicU64,
    /// Tables of these that were left out.
    pub(crate) negatives: AtomicU64,
    /// Pages of filters read from storage.
    pub(crate) pages: AtomicU64,
    /// Filter blocks that were damaged and therefore ignored.
    pub(crate) damaged: AtomicU64,
}

impl ScanCounts {
    /// The counts since they were taken last: probes, negatives, pages, damaged blocks.
    pub(crate) fn take(&self) -> [u64; 4] {
        let all = [&self.probes, &self.negatives, &self.pages, &self.damaged];
        all.map(|count| count.swap(0, Relaxed))
    }
}

impl FilteredScan {
    /// That of the keys between two bounds, if filters by the rule can be asked for it.
    pub(crate) fn of(
        rule: &Arc<ScanRule>,
        lower: &Bound<Vec<u8>>,
        upper: &Bound<Vec<u8>>,
    ) -> Option<FilteredScan> {
        let (Bound::Included(start) | Bound::Excluded(start)) = lower else {
            return None;
        };
        let wanted = match (&**rule, upper) {
            (ScanRule::Prefixes(rule), _) => {
                let prefix = rule.of_range(lower, upper)?;
                Wanted::Prefix {
                    len: prefix.len(),
                    digest: KeyDigest::of(prefix),
                }
            }
            (ScanRule::Ranges { .. }, Bound::Unbounded) => return None,
            (ScanRule::Ranges { .. }, Bound::Included(end) | Bound::Excluded(end)) => {
                Wanted::Range {
                    end: end.as_slice().into(),
                }
            }
        };
        Some(FilteredScan {
            rule: Arc::clone(rule),
            start: start.as_slice().into(),
            wanted,
            counts: ScanCounts::default(),
        })
    }

    /// The name of what a table's filter must be of to be asked.
    pub(crate) fn rule(&self) -> &str {
        self.rule.name()
    }

    /// The least key of the scan, or one before all of them.
    pub(crate) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Whether a key may be of the scan, wherever it is asked from.
    pub(crate) fn is_of(&self, key: &[u8]) -> bool {
        match &self.wanted {
            Wanted::Prefix { len, .. } => {
                let prefix = self.start.get(..*len);
                prefix.is_some_and(|prefix| key.starts_with(prefix))
            }
            Wanted::Range { end } => *self.start <= *key && *key <= **end,
        }
    }

    /// Whether a scan that looks for its place at a key wants all that the filter is asked for: at
    /// one of its ends, and not within.
    pub(crate) fn is_whole_from(&self, key: &[u8]) -> bool {
        match &self.wanted {
            Wanted::Prefix { .. } => true,
            Wanted::Range { end } => *key <= *self.start || **end <= *key,
        }
    }

    /// Whether it asks for all that the filter is asked for: where it finds nothing, the filter
    /// should have said so.
    pub(crate) fn is_whole(&self) -> bool {
        match &self.wanted {
            Wanted::Prefix { len, .. } => self.start.len() == *len,
            Wanted::Range { .. } => true,
        }
    }

    /// The pages of the block to be asked, of the pages of a module in one partition.
    pub(crate) fn block_of(
        &self,
        module: &ModulePlan,
        number: usize,
        layout: Layout,
        pages: Range<u32>,
    ) -> Range<u32> {
        match &self.wanted {
            Wanted::Prefix { digest, .. } => {
                let hash = super::hash_of(module, number, *digest);
                super::block_of(module, layout, hash, pages)
            }
            Wanted::Range { .. } => pages,
        }
    }

    /// Which of the block's columns say that it has nothing that the scan asks for.
    pub(crate) fn rejecting_columns(&self, module: &ModulePlan, number: usize, block: &[u8]) -> u8 {
        match &self.wanted {
            Wanted::Prefix { digest, .. } => {
                let hash = super::hash_of(module, number, *digest);
                super::rejecting_columns(module, block, hash)
            }
            Wanted::Range { end } => range::rejecting_columns(block, &self.start, end),
        }
    }

    /// What became of asking tables.
    pub(crate) fn counts(&self) -> &ScanCounts {
        &self.counts
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        let end = match &self.wanted {
            Wanted::Prefix { .. } => 0,
            Wanted::Range { end } => end.len(),
        };
        size_of::<Self>() + self.start.len() + end
    }
}
