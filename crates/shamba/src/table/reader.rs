//! An open table: point lookups by the one general read loop (filter modules, index, data).
//!
//! `Sync` and immutable; shared as `Arc<Table>`. Resident are the filter plan and the top-level
//! index, charged to `Role::Tables`; everything else comes through the cache.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::block::{DataBlock, Search};
use super::fetch::{BlockRef, label};
use super::format::Damage;
use super::index::IndexBlock;
use super::lookup::{Lookup, LookupStats, Reads, TableGet, TableValue};
use super::properties::Properties;
use super::source::Source;
use super::top::Top;
use crate::base::coding::take_bytes;
use crate::budget::{Reservation, Role};
use crate::cache::{BlockCache, Heat, IoPool, ModuleShape};
use crate::error::Result;
use crate::filter::{self, FilterPlan, MAX_MODULES};
use crate::fs::{BlockKind, PAGE, Purpose, ReadFile};

/// What an open table is charged over what it holds: the file handle and the cache of handles.
const OVERHEAD: usize = 256;

/// An open table.
pub(crate) struct Table {
    pub(super) source: Source,
    pub(super) cache_id: u64,
    pub(super) cache: Arc<BlockCache>,
    pub(super) salt: u32,
    pub(super) plan: FilterPlan,
    pub(super) top: Top,
    pub(super) heat: Arc<Heat>,
    _held: Reservation,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("path", &self.source.path)
            .field("partitions", &self.top.len())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Opens a table: one page read, or two reads where the table is large. `cache_id` names the
    /// file in the cache: one of [`BlockCache::new_file_id`], and the same when it is opened again.
    /// `heat` is what is known of its partitions from the time when it was open before.
    pub(crate) fn open(
        file: Arc<dyn ReadFile>,
        path: PathBuf,
        cache_id: u64,
        cache: Arc<BlockCache>,
        io: Arc<IoPool>,
        heat: &OnceLock<Arc<Heat>>,
    ) -> Result<Table> {
        let source = Source {
            file,
            path: path.into_boxed_path(),
            io,
        };
        let (footer, meta, pages) = source.read_meta()?;
        let damage = |d| source.damage(footer.meta_page, d);
        let (properties, top) = split_meta(&meta).map_err(damage)?;
        let mut plan = properties.filter;
        plan.modules.shrink_to_fit();
        let top = Top::decode(top, plan.modules.len(), pages).map_err(damage)?;
        let heat = heat.get_or_init(|| Arc::new(new_heat(&cache, &plan, &top)));
        let mut table = Table {
            source,
            cache_id,
            salt: footer.salt,
            plan,
            top,
            heat: Arc::clone(heat),
            _held: cache.budget().reserve(Role::Tables, 0),
            cache,
        };
        let bytes = table.memory() as u64;
        table._held.grow(bytes);
        Ok(table)
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>()
            + OVERHEAD
            + self.source.path.as_os_str().len()
            + self.top.memory()
            + size_of_val(self.plan.modules.as_slice())
    }

    /// What the open table is charged, in bytes.
    #[cfg(test)]
    pub(super) fn charge(&self) -> u64 {
        self._held.bytes()
    }

    /// The filter's modules.
    pub(crate) fn plan(&self) -> &FilterPlan {
        &self.plan
    }

    /// The table's properties, read from storage again.
    pub(crate) fn properties(&self) -> Result<Properties> {
        let (footer, meta, _) = self.source.read_meta()?;
        let (properties, _) = split_meta(&meta).map_err(|d| self.damage(footer.meta_page, d))?;
        Ok(properties)
    }

    /// About how many bytes of the file lie before `key`: exact to a partition.
    pub(crate) fn offset_of(&self, key: &[u8]) -> u64 {
        let page = match self.top.get(self.top.find(key)) {
            Some(partition) => partition.first_page,
            None => (self.source.file.len() / PAGE as u64) as u32,
        };
        u64::from(page) * PAGE as u64
    }

    /// What is known of the table's partitions.
    pub(crate) fn heat(&self) -> &Heat {
        &self.heat
    }

    /// Looks a key up. Modules below `limit` are read where they are not resident; those past it
    /// are asked only if they are. A lookup by worth asks all that is resident and then reads what
    /// is worth it.
    pub(crate) fn get(
        &self,
        lookup: &Lookup<'_>,
        limit: u8,
        stats: &mut LookupStats,
    ) -> Result<TableGet> {
        stats.tables += 1;
        let partition = self.top.find(lookup.key());
        let inside = partition < self.top.len();
        lookup.enter_table(inside.then_some(partition as u32));
        if !inside {
            return Ok(TableGet::Absent);
        }
        let limit = if lookup.by_worth() { 0 } else { limit };
        let mut asked = Asked::default();
        stats.modules = stats.modules.max(self.plan.modules.len());
        for module in 0..self.plan.modules.len() {
            let read = module < usize::from(limit);
            if !self.probe(partition, module, lookup, read, &mut asked, stats)? {
                return Ok(TableGet::Absent);
            }
        }
        if lookup.by_worth()
            && asked.incomplete
            && !self.probe_more(partition, lookup, &mut asked, stats)?
        {
            return Ok(TableGet::Absent);
        }
        let found = self.search(partition, lookup, stats)?;
        if matches!(found, TableGet::Absent) {
            let counts = stats.false_positives.iter_mut().zip(asked.columns);
            for (count, columns) in counts.take(self.plan.modules.len()) {
                *count += u64::from(columns > 0);
            }
        }
        Ok(found)
    }

    /// Asks one filter module if it is resident or to be `read`; false when it says that the key
    /// is absent.
    #[inline]
    fn probe(
        &self,
        partition: usize,
        module: usize,
        lookup: &Lookup<'_>,
        read: bool,
        asked: &mut Asked,
        stats: &mut LookupStats,
    ) -> Result<bool> {
        let place = self.top.module(partition, module);
        let (Some(plan), Some(pages)) = (self.plan.modules.get(module), place) else {
            return Ok(true);
        };
        let hash = filter::hash_of(plan, module, lookup.digest(stats));
        let pages = filter::block_of(plan, self.plan.layout, hash, pages);
        let mut unlisted = Default::default();
        let reads = stats.filter.get_mut(module).unwrap_or(&mut unlisted);
        let (columns, maybe) = if let Some(block) = self.resident(pages.start) {
            reads.hits += 1;
            let columns = filter::columns(plan, &block).count_ones() as u8;
            (columns, filter::may_contain(plan, &block, hash))
        } else if read {
            let tag = label(BlockKind::Filter(module as u8), Purpose::Lookup);
            let ask = |block: &[u8]| filter::may_contain(plan, block, hash);
            match self.read_filter(pages, partition, tag, reads, ask) {
                Ok(maybe) => (plan.columns, maybe),
                Err(error) if error.is_corruption() => {
                    log::warn!("a filter is ignored: {error}");
                    stats.corrupt_filters += 1;
                    (0, true)
                }
                Err(error) => return Err(error),
            }
        } else {
            (0, true)
        };
        if !maybe && let Some(count) = stats.negatives.get_mut(module) {
            *count += 1;
        }
        if let Some(slot) = asked.columns.get_mut(module) {
            *slot = columns;
        }
        asked.incomplete |= columns < plan.columns;
        Ok(maybe)
    }

    /// Reads, one after another, the modules that are not wholly resident and worth a read; false
    /// when one says that the key is absent. Everything resident was asked.
    #[cold]
    fn probe_more(
        &self,
        partition: usize,
        lookup: &Lookup<'_>,
        asked: &mut Asked,
        stats: &mut LookupStats,
    ) -> Result<bool> {
        while let Some(module) = self.heat.best_to_read(partition as u32, &asked.columns) {
            let Some(plan) = self.plan.modules.get(module) else {
                break;
            };
            let pages = self.top.module(partition, module).unwrap_or(0..0);
            let hash = filter::hash_of(plan, module, lookup.digest(stats));
            let pages = filter::block_of(plan, self.plan.layout, hash, pages);
            let tag = label(BlockKind::Filter(module as u8), Purpose::Lookup);
            let mut unlisted = Default::default();
            let reads = stats.filter.get_mut(module).unwrap_or(&mut unlisted);
            let ask = |block: &[u8]| filter::may_contain(plan, block, hash);
            match self.read_filter(pages, partition, tag, reads, ask) {
                Ok(true) => {}
                Ok(false) => {
                    if let Some(count) = stats.negatives.get_mut(module) {
                        *count += 1;
                    }
                    return Ok(false);
                }
                Err(error) if error.is_corruption() => {
                    log::warn!("a filter is ignored: {error}");
                    stats.corrupt_filters += 1;
                }
                Err(error) => return Err(error),
            }
            // Damaged or not, it is not to be read again.
            if let Some(slot) = asked.columns.get_mut(module) {
                *slot = plan.columns;
            }
        }
        Ok(true)
    }

    /// Looks in the index and then in the data. Holds one block at a time.
    fn search(
        &self,
        partition: usize,
        lookup: &Lookup<'_>,
        stats: &mut LookupStats,
    ) -> Result<TableGet> {
        let mut number = None;
        loop {
            let place = self.place(partition, number, lookup.key(), &mut stats.index)?;
            let start = place.pages.start;
            let tag = label(BlockKind::Data, Purpose::Lookup);
            let block = self.fetch(place.pages, partition, tag, true, &mut stats.data)?;
            let found = DataBlock::parse(&block)
                .and_then(|view| view.search(lookup.key(), lookup.tag()))
                .map_err(|d| self.damage(start, d))?;
            match found {
                Search::Found { tag, value } => {
                    if tag.kind().is_none() {
                        return Err(self.damage(start, UNKNOWN_KIND));
                    }
                    let value = match block {
                        BlockRef::Cached(block) => TableValue::Shared {
                            block,
                            range: value,
                        },
                        passing => TableValue::Owned(passing.get(value).unwrap_or_default().into()),
                    };
                    return Ok(TableGet::Found { tag, value });
                }
                Search::Continues if !place.last => number = Some(place.number + 1),
                Search::Absent | Search::Continues => {
                    return Ok(TableGet::Absent);
                }
            }
        }
    }

    /// Where data block `number` of a partition lies, or else the one that may hold `key`.
    #[inline]
    fn place(
        &self,
        partition: usize,
        number: Option<u32>,
        key: &[u8],
        reads: &mut Reads,
    ) -> Result<Place> {
        let place = self.top.get(partition).zip(self.top.index_page(partition));
        let Some((place, page)) = place else {
            return Err(self.damage(0, Damage("a partition is missing")));
        };
        let tag = label(BlockKind::Index, Purpose::Lookup);
        let index = self.fetch(page..page + place.index_pages, partition, tag, true, reads)?;
        let view = IndexBlock::parse(&index).map_err(|d| self.damage(page, d))?;
        let number = number.unwrap_or_else(|| view.find(key));
        let pages = view.pages(number).map_err(|d| self.damage(page, d))?;
        if pages.end > place.data_pages {
            return Err(self.damage(page, Damage("an index points past its data")));
        }
        Ok(Place {
            number,
            last: number + 1 == view.blocks(),
            pages: place.first_page + pages.start..place.first_page + pages.end,
        })
    }
}

/// What of a filter a lookup asked.
#[derive(Default)]
struct Asked {
    /// Columns asked of each module; 1 for a module that has none.
    columns: [u8; MAX_MODULES],
    /// Whether something was not asked.
    incomplete: bool,
}

/// A data block's place.
struct Place {
    /// Its number in its partition.
    number: u32,
    /// Whether it is the partition's last.
    last: bool,
    /// Its pages in the file.
    pages: Range<u32>,
}

const UNKNOWN_KIND: Damage =
    Damage("an entry is of a kind this build does not know; a newer build may");

pub(super) fn new_heat(cache: &BlockCache, plan: &FilterPlan, top: &Top) -> Heat {
    let pages = |number| top.module(0, number).map_or(1, |pages| pages.len() as u32);
    let shape = |(number, module)| {
        let (blocks, pages) = filter::division(module, plan.layout, pages(number));
        ModuleShape {
            fpr: filter::column_fpr(module),
            columns: module.columns,
            blocks,
            pages,
        }
    };
    Heat::new(
        Arc::clone(cache.clock()),
        cache.budget(),
        top.len(),
        plan.modules.iter().enumerate().map(shape).collect(),
        top.get(0).map_or(1, |partition| partition.index_pages),
        filter::keep_columns,
    )
}

fn split_meta(meta: &[u8]) -> Result<(Properties, &[u8]), Damage> {
    let mut input = meta;
    let properties = take_bytes(&mut input).ok_or(Damage("the properties end early"))?;
    Ok((Properties::decode(properties)?, input))
}
