//! The filter of new tables, as it is asked for: plain data.

use super::KeyspaceOptions;
use crate::filter::{Families, Family, FilterAllocation, Layout, ModuleSizes, PlanOptions};

/// Filter families that can be chosen for new tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FilterFamily {
    /// Standard Bloom filter: fewer false positives for its bits than a blocked one.
    Bloom,
    /// Bloom filter blocked by cache line: one cache miss a probe, more false positives.
    BlockedBloom,
    /// Ribbon columns: as many as the bits come to, each halving the false positives for 1.03 bits
    /// per key (a Bloom filter takes 1.44). Several times slower to build. For data that is
    /// rarely rewritten.
    Ribbon,
    /// By level: Bloom filters of 16 bits per key in flushed files, which are soon written again,
    /// twelve ribbon columns below, in modules of a page, mostly three, of which memory holds
    /// those that are worth it. Modules are without effect, and bits per key (unless 0) too while
    /// their allocation is uniform. The default.
    #[default]
    Auto,
}

/// The filter written into new tables.
///
/// Default: by level, ribbon columns in the deep ones and Bloom filters above, partitioned.
///
/// ```
/// use shamba::{FilterFamily, FilterOptions, KeyspaceOptions};
/// let filter = FilterOptions::new().family(FilterFamily::Ribbon).modules(2);
/// KeyspaceOptions::new().filter(filter).validate().unwrap();
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct FilterOptions {
    /// Filter family.
    pub family: FilterFamily,
    /// Bits per key over all modules, 0 to 64. Zero writes no filter. Default 10. More bits cost
    /// memory and save reads for absent keys.
    pub bits_per_key: f64,
    /// How the bits are divided over the tables of the tree. Default: each table has the same.
    pub allocation: FilterAllocation,
    /// Modules that the bits are spread over, each stored, cached and probed separately, 1 to 16.
    /// Default 1. With more, a lookup under little memory reads less of a filter. Each should have
    /// at least a page in a file, or in a partition (`shamba_model::modular::most_modules`). A
    /// ribbon module has at most eight columns: more bits make more modules.
    pub modules: u8,
    /// How large the modules are. Default equal.
    pub module_sizes: ModuleSizes,
    /// Whether filter and index are cut into pages by key range, each read and cached alone
    /// (true, the default), or are one block for each table (false: the baseline of the papers).
    pub partitioned: bool,
}

impl Default for FilterOptions {
    fn default() -> Self {
        FilterOptions {
            family: FilterFamily::Auto,
            bits_per_key: 10.0,
            allocation: FilterAllocation::Uniform,
            modules: 1,
            module_sizes: ModuleSizes::Equal,
            partitioned: true,
        }
    }
}

impl FilterOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// As the planner takes them.
    fn wish(&self) -> PlanOptions {
        PlanOptions {
            families: match self.family {
                FilterFamily::Bloom => Families::Same(Family::Bloom),
                FilterFamily::BlockedBloom => Families::Same(Family::Blocked),
                FilterFamily::Ribbon => Families::Same(Family::Ribbon),
                FilterFamily::Auto => Families::ByLevel,
            },
            bits_per_key: self.bits_per_key,
            modules: self.modules,
            sizes: self.module_sizes,
            layout: if self.partitioned {
                Layout::Partitioned
            } else {
                Layout::Whole
            },
        }
    }
}

impl KeyspaceOptions {
    /// The filter options as the planner takes them.
    pub(crate) fn filter_wish(&self) -> PlanOptions {
        self.filter.wish()
    }
}
