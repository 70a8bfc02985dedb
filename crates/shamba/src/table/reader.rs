//! An open table: point lookups by the one general read loop (filter modules, index, data).
//!
//! `Sync` and immutable; shared as `Arc<Table>`. Resident are the filter plan and the top-level
//! index, charged to `Role::Tables`; everything else comes through the cache.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::block::{DataBlock, Search};
use super::fetch::{BlockRef, label};
use super::format::{self, Damage, FORMAT_VERSION, Footer, FooterError};
use super::index::IndexBlock;
use super::lookup::{Lookup, LookupStats, Reads, TableGet, TableValue};
use super::properties::Properties;
use super::top::Top;
use crate::base::coding::take_bytes;
use crate::budget::{Reservation, Role};
use crate::cache::{BlockCache, IoPool};
use crate::error::{Error, Result};
use crate::filter::{self, FilterPlan};
use crate::fs::{BlockKind, PAGE, Purpose, ReadFile};

/// What an open table is charged over what it holds: the file handle and the cache of handles.
const OVERHEAD: usize = 256;

/// An open table.
pub(crate) struct Table {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) path: Box<Path>,
    pub(super) cache_id: u64,
    pub(super) cache: Arc<BlockCache>,
    pub(super) io: Arc<IoPool>,
    pub(super) salt: u32,
    pub(super) plan: FilterPlan,
    pub(super) top: Top,
    _held: Reservation,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("path", &self.path)
            .field("partitions", &self.top.len())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Opens a table: one page read, or two reads where the table is large. `cache_id` names the
    /// file in the cache: one of [`BlockCache::new_file_id`], and the same when it is opened again.
    pub(crate) fn open(
        file: Arc<dyn ReadFile>,
        path: PathBuf,
        cache_id: u64,
        cache: Arc<BlockCache>,
        io: Arc<IoPool>,
    ) -> Result<Table> {
        let held = cache.budget().reserve(Role::Tables, 0);
        let mut table = Table {
            file,
            path: path.into_boxed_path(),
            cache_id,
            cache,
            io,
            salt: 0,
            plan: FilterPlan::none(filter::Layout::Partitioned),
            top: Top::default(),
            _held: held,
        };
        let (footer, meta, pages) = table.read_meta()?;
        table.salt = footer.salt;
        let damage = |d| table.damage(footer.meta_page, d);
        let (properties, top) = split_meta(&meta).map_err(damage)?;
        let modules = properties.filter.modules.len();
        table.top = Top::decode(top, modules, pages).map_err(damage)?;
        table.plan = properties.filter;
        table.plan.modules.shrink_to_fit();
        let bytes = table.memory() as u64;
        table._held.grow(bytes);
        Ok(table)
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
            + OVERHEAD
            + self.path.as_os_str().len()
            + self.top.memory()
            + size_of_val(self.plan.modules.as_slice())
    }

    /// What the open table is charged, in bytes.
    #[cfg(test)]
    pub(super) fn charge(&self) -> u64 {
        self._held.bytes()
    }

    /// The footer, the bytes of properties and top-level index, and the pages of all partitions.
    fn read_meta(&self) -> Result<(Footer, Box<[u8]>, u32)> {
        let len = self.file.len();
        let pages = u32::try_from(len / PAGE as u64).unwrap_or(0);
        let truncated = Damage("the length is not one of a table; the file may be truncated");
        let last = pages
            .checked_sub(1)
            .filter(|_| len.is_multiple_of(PAGE as u64))
            .ok_or_else(|| self.damage(0, truncated))?;
        let tag = label(BlockKind::Footer, Purpose::Background);
        let mut buf = self.io.acquire(PAGE);
        self.read_pages(&mut buf, last, tag)?;
        let (footer, inline) = Footer::open(&buf).map_err(|error| match error {
            FooterError::Damage(d) => self.damage(last, d),
            FooterError::Version(found) => Error::UnsupportedFormat {
                file: self.path.to_path_buf(),
                found,
                supported: FORMAT_VERSION,
            },
        })?;
        if footer.meta_page.checked_add(footer.meta_pages) != Some(last) {
            return Err(self.damage(last, truncated));
        }
        if footer.meta_pages == 0 {
            return Ok((footer, inline.into(), last));
        }
        drop(buf);
        let range = footer.meta_page..last;
        let mut buf = self.io.acquire(footer.meta_pages as usize * PAGE);
        self.read_pages(&mut buf, range.start, tag)?;
        let meta = format::read_block(&buf, footer.salt, range.start)
            .map_err(|d| self.damage(range.start, d))?;
        Ok((footer, meta, range.start))
    }

    /// The filter's modules.
    pub(crate) fn plan(&self) -> &FilterPlan {
        &self.plan
    }

    /// The table's properties, read from storage again.
    pub(crate) fn properties(&self) -> Result<Properties> {
        let (footer, meta, _) = self.read_meta()?;
        let (properties, _) = split_meta(&meta).map_err(|d| self.damage(footer.meta_page, d))?;
        Ok(properties)
    }

    /// About how many bytes of the file lie before `key`: exact to a partition.
    pub(crate) fn offset_of(&self, key: &[u8]) -> u64 {
        let page = match self.top.get(self.top.find(key)) {
            Some(partition) => partition.first_page,
            None => (self.file.len() / PAGE as u64) as u32,
        };
        u64::from(page) * PAGE as u64
    }

    /// Looks a key up. Modules below `limit` are read where they are not resident; those past it
    /// are asked only if they are.
    pub(crate) fn get(
        &self,
        lookup: &Lookup<'_>,
        limit: u8,
        stats: &mut LookupStats,
    ) -> Result<TableGet> {
        stats.tables += 1;
        lookup.enter_table();
        let partition = self.top.find(lookup.key());
        if partition >= self.top.len() {
            return Ok(TableGet::Absent);
        }
        let mut passed = 0u32;
        stats.modules = stats.modules.max(self.plan.modules.len());
        for module in 0..self.plan.modules.len() {
            match self.probe(partition, module, lookup, limit, stats)? {
                Some(true) => passed |= 1 << module,
                Some(false) => {
                    if let Some(count) = stats.negatives.get_mut(module) {
                        *count += 1;
                    }
                    return Ok(TableGet::Absent);
                }
                None => {}
            }
        }
        let found = self.search(partition, lookup, stats)?;
        if matches!(found, TableGet::Absent) {
            for (module, count) in stats
                .false_positives
                .iter_mut()
                .take(self.plan.modules.len())
                .enumerate()
            {
                *count += u64::from(passed >> module & 1);
            }
        }
        Ok(found)
    }

    /// Asks one filter module; `None` when it was not to be read, or cannot be.
    #[inline]
    fn probe(
        &self,
        partition: usize,
        module: usize,
        lookup: &Lookup<'_>,
        limit: u8,
        stats: &mut LookupStats,
    ) -> Result<Option<bool>> {
        let place = self.top.module(partition, module);
        let (Some(plan), Some(pages)) = (self.plan.modules.get(module), place) else {
            return Ok(None);
        };
        let hash = lookup.digest(stats).remix(module as u32);
        let pages = match self.plan.layout {
            filter::Layout::Whole => pages,
            filter::Layout::Partitioned => {
                let page = pages.start + filter::locate(hash, pages.end - pages.start);
                page..page + 1
            }
        };
        let mut unlisted = Default::default();
        let reads = stats.filter.get_mut(module).unwrap_or(&mut unlisted);
        let block = if module < usize::from(limit) {
            let tag = label(BlockKind::Filter(module as u8), Purpose::Lookup);
            match self.fetch(pages, tag, true, reads) {
                Ok(block) => Some(block),
                Err(error) if error.is_corruption() => {
                    log::warn!("a filter is ignored: {error}");
                    stats.corrupt_filters += 1;
                    None
                }
                Err(error) => return Err(error),
            }
        } else {
            let block = self.resident(pages.start);
            reads.hits += u64::from(block.is_some());
            block
        };
        Ok(block.map(|block| filter::may_contain(plan, &block, hash)))
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
            let block = self.fetch(place.pages, tag, true, &mut stats.data)?;
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
        let index = self.fetch(page..page + place.index_pages, tag, true, reads)?;
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

fn split_meta(meta: &[u8]) -> Result<(Properties, &[u8]), Damage> {
    let mut input = meta;
    let properties = take_bytes(&mut input).ok_or(Damage("the properties end early"))?;
    Ok((Properties::decode(properties)?, input))
}
