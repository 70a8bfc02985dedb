//! An open table. Point lookups are in `get`, walks in `iter`, checks in `verify`.
//!
//! `Sync` and immutable; shared as `Arc<Table>`. Resident are the filter plan, the top-level index
//! and range tombstones, charged to `Role::Tables`; everything else comes through the cache.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::files::{FILE_BYTES, FileHandle};
use super::properties::Properties;
use super::range_tombstones::RangeTombstones;
use super::source::{Home, OpenedMeta, TableSource};
use super::stated::Stated;
use super::stated_scan_filter::ScanFilter;
use super::table_blocks::TableBlocks;
use super::top_index::TopIndex;
use crate::base::interner::unpaid_bytes;
use crate::budget::{Reservation, Role, allocated, shared};
use crate::cache::BlockCache;
use crate::error::Result;
use crate::filter::{self, Family, FilterPlan, ModulePlan};
use crate::fs::PAGE;
use crate::value::{AbsentValue, FilterGeometry, ModuleGeometry, PartitionStats};

/// What an open table is charged over what it holds: its file, and two places in the ring of open
/// tables, which grows by doubling.
const OVERHEAD: usize = FILE_BYTES + 2 * size_of::<usize>();

/// What takes up an open table where it is kept: as much as `pinned::Opened`.
pub(super) const OPENED_BYTES: usize = 48;

/// Modules of these shapes, and how the cache cuts them.
pub(super) fn shapes(
    plan: &FilterPlan,
    modules: impl Iterator<Item = ModuleGeometry>,
) -> Arc<FilterGeometry> {
    let modules = modules.collect();
    let is_of_ranges = |module: &ModulePlan| module.family == Family::Range;
    Arc::new(if plan.modules.iter().any(is_of_ranges) {
        let (columns, keep) = (filter::range_columns, filter::keep_range_columns);
        FilterGeometry::new(modules, columns, keep).of_families(Family::Range as u8)
    } else {
        FilterGeometry::new(modules, filter::ribbon_columns, filter::keep_columns)
    })
}

/// An open table.
pub(crate) struct Table {
    pub(super) blocks: TableBlocks,
    /// The same for most tables.
    pub(super) plan: Arc<FilterPlan>,
    pub(super) top: TopIndex,
    /// Mostly none.
    pub(super) ranges: Option<Box<RangeTombstones>>,
    /// Mostly none.
    pub(super) scan_filter: Option<Box<ScanFilter>>,
    _held: Reservation,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("path", &self.blocks.source().path())
            .field("partitions", &self.top.len())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Opens a table: one page read, or two reads where the table is large. `cache_id`
    /// names the file in the cache: one of [`BlockCache::new_file_id`], and the same when it is
    /// opened again.
    /// `partition_stats` is what is known of its partitions from the time when it was open before.
    /// `stated` is what the tree says of the table, if it is of a tree.
    pub(super) fn open(
        handle: Arc<FileHandle>,
        cache_id: u64,
        home: Arc<Home>,
        partition_stats: &ArcSwapOption<PartitionStats>,
        stated: Option<&Stated<'_>>,
    ) -> Result<Table> {
        let source = TableSource { handle, home };
        let cache = Arc::clone(&source.home.cache);
        let mut held = cache.budget().reserve(Role::Tables, 0);
        let meta = source.open_meta(stated, &mut held)?;
        let OpenedMeta {
            footer,
            plan,
            top,
            ranges,
            scan_filter,
        } = meta;
        // One thread at a time opens a file.
        let partition_stats = partition_stats.load_full().unwrap_or_else(|| {
            let fresh = Arc::new(new_partition_stats(&cache, &plan, &top));
            partition_stats.store(Some(Arc::clone(&fresh)));
            fresh
        });
        if let Some(scan_filter) = &scan_filter {
            partition_stats.set_scan_filter(|| {
                let keys = plan.modules.len();
                Arc::new(stats_of_modules(&cache, &scan_filter.plan, (&top, keys)))
            });
        }
        let mut table = Table {
            blocks: TableBlocks::new(source, cache_id, footer.salt, partition_stats),
            plan,
            top,
            ranges,
            scan_filter,
            _held: held,
        };
        let plan = &table.plan;
        let plan_bytes = size_of::<FilterPlan>() + size_of_val(&*plan.modules);
        let bytes = table.memory() + unpaid_bytes(plan, plan_bytes);
        table._held.resize(bytes as u64);
        Ok(table)
    }

    pub(super) fn memory(&self) -> usize {
        let top = allocated(self.top.memory());
        let ranges = self.ranges.as_deref();
        let ranges = ranges.map_or(0, RangeTombstones::memory);
        let scan_filter = self.scan_filter.as_deref().map_or(0, ScanFilter::memory);
        shared(size_of::<Self>()) + OPENED_BYTES + top + ranges + scan_filter + OVERHEAD
    }

    /// What the open table is charged, in bytes.
    #[cfg(test)]
    pub(super) fn charge(&self) -> u64 {
        self._held.bytes()
    }

    /// The range tombstones, if there are any.
    pub(crate) fn ranges(&self) -> Option<&RangeTombstones> {
        self.ranges.as_deref()
    }

    /// The filter's modules.
    pub(crate) fn plan(&self) -> &FilterPlan {
        &self.plan
    }

    /// The table's properties, read from storage again.
    pub(crate) fn properties(&self) -> Result<Properties> {
        let meta = self.blocks.source().read_meta()?;
        let properties = meta
            .parts()
            .and_then(|(bytes, _)| Properties::decode(bytes));
        properties.map_err(|d| self.blocks.damage(meta.footer.meta_page, d))
    }

    /// About how many bytes of the file lie before `key`: exact to a partition.
    pub(crate) fn offset_of(&self, key: &[u8]) -> u64 {
        let page = match self.top.get(self.top.find(key)) {
            Some(partition) => partition.first_page,
            None => (self.blocks.source().handle.len() / PAGE as u64) as u32,
        };
        u64::from(page) * PAGE as u64
    }

    /// What of the table's index and filter is not in memory and worth most.
    pub(crate) fn best_absent(&self) -> AbsentValue {
        self.partition_stats().best_absent(|partition, number| {
            let module = self.plan.modules.get(usize::from(number));
            let pages = self.top.module(partition as usize, number.into());
            module.zip(pages).map_or(0, |(module, pages)| {
                filter::division(module, self.plan.layout, pages.len() as u32).0
            })
        })
    }

    /// What is known of the table's partitions.
    #[inline]
    pub(crate) fn partition_stats(&self) -> &PartitionStats {
        self.blocks.partition_stats()
    }
}

pub(super) fn new_partition_stats(
    cache: &BlockCache,
    plan: &FilterPlan,
    top: &TopIndex,
) -> PartitionStats {
    stats_of_modules(cache, plan, (top, 0))
}

/// The statistics of partitions for a filter whose modules are those from `first` on.
fn stats_of_modules(
    cache: &BlockCache,
    plan: &FilterPlan,
    (top, first): (&TopIndex, usize),
) -> PartitionStats {
    let pages = |number| (top.module(0, first + number)).map_or(1, |pages| pages.len() as u32);
    let shape = |(number, module)| {
        let (blocks, pages) = filter::division(module, plan.layout, pages(number));
        ModuleGeometry {
            fpr: filter::column_fpr(module),
            columns: module.columns,
            blocks,
            pages,
        }
    };
    let shapes = shapes(plan, plan.modules.iter().enumerate().map(shape));
    PartitionStats::new(
        Arc::clone(cache.policy()),
        cache.budget(),
        top.len(),
        cache.shapes.share(shapes),
        top.get(0).map_or(1, |partition| partition.index_pages),
    )
}
