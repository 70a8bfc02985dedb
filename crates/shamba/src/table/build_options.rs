//! How a table is to be written: plain data.

use std::sync::Arc;

use super::format::{Compression, PAGE_PAYLOAD};
use super::prepopulate::Prepopulation;
use crate::filter::{self, FilterPlan, Layout, ScanRule};

/// What a table has a filter for scans of, and in which modules.
#[derive(Debug, Clone)]
pub(crate) struct ScanFilterOptions {
    /// What it is of.
    pub(crate) rule: Arc<ScanRule>,
    /// The filter's modules.
    pub(crate) plan: FilterPlan,
}

/// How a table is to be written.
#[derive(Debug, Clone)]
pub(crate) struct TableBuildOptions {
    /// The filter's modules; its layout is the index's layout too.
    pub(crate) filter: FilterPlan,
    /// The filter that this share of the tables has instead; whose, their writer decides.
    pub(crate) other_filter: Option<(FilterPlan, f64)>,
    /// The filter for scans, if there is to be one.
    pub(crate) scan_filter: Option<ScanFilterOptions>,
    /// How data blocks are compressed.
    pub(crate) compression: Compression,
    /// Every this many entries a data block stores a key whole.
    pub(crate) restart_interval: u32,
    /// About how many keys a partition has; the builder takes the nearest number that fills whole
    /// filter pages.
    pub(crate) partition_keys: u32,
    /// The level the table is written for: a hint to readers of its properties.
    pub(crate) level: u32,
    /// Drawn anew for each table, so that neither blocks nor tables are taken for another's.
    pub(crate) salt: u32,
    /// Bytes gathered before a write, 4 to 128 KiB.
    pub(crate) write_buffer: usize,
    /// What may be kept for the cache; none where nobody is expected to read.
    pub(crate) keep: Option<Prepopulation>,
}

impl Default for TableBuildOptions {
    fn default() -> Self {
        TableBuildOptions {
            filter: FilterPlan::none(Layout::Partitioned),
            other_filter: None,
            scan_filter: None,
            compression: Compression::None,
            restart_interval: 8,
            partition_keys: 8000,
            level: 0,
            salt: 0,
            write_buffer: 128 << 10,
            keep: None,
        }
    }
}

impl TableBuildOptions {
    /// The number of keys nearest to the one wanted that fills the pages of the first module; the
    /// one wanted where filters have no say.
    pub(super) fn partition_target(&self) -> usize {
        let wanted = self.partition_keys.max(1) as usize;
        let page = match (self.filter.layout, self.filter.modules.first()) {
            (Layout::Whole, _) => return usize::MAX,
            (Layout::Partitioned, None) => return wanted,
            (Layout::Partitioned, Some(module)) => filter::keys_filling(module, 1, PAGE_PAYLOAD),
        };
        let pages = (wanted + page / 2) / page.max(1);
        match (pages, self.filter.modules.first()) {
            (1.., Some(module)) => filter::keys_filling(module, pages as u32, PAGE_PAYLOAD),
            _ => wanted,
        }
    }
}
