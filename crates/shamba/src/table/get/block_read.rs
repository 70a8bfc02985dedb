//! What a lookup must read: a block, and what of its partition's filter and index beside it had
//! better come along.
//!
//! Plain values; thread-safe as such.

use std::ops::Range;

use super::{Get, Trace};
use crate::budget::read_at_once;
use crate::cache::IoBuf;
use crate::fs::{BlockKind, PAGE, Purpose, ReadTag};
use crate::table::source::label;

/// The most pages that are read at once for one block of a filter.
const MOST_PAGES: usize = 8;

/// A block that a lookup cannot go on without.
#[derive(Debug, Clone)]
pub(crate) struct BlockRead {
    pub(super) pages: Range<u32>,
    pub(super) kind: BlockKind,
    pub(super) partition: usize,
    /// The pages to read: the block's, and those of its partition's filter and index beside it that
    /// should come along.
    pub(super) around: Range<u32>,
    /// Whether the last of them is the index block.
    pub(super) with_index: bool,
}

impl BlockRead {
    pub(super) fn new(pages: Range<u32>, kind: BlockKind, partition: usize) -> Self {
        BlockRead {
            around: pages.clone(),
            pages,
            kind,
            partition,
            with_index: false,
        }
    }

    /// The bytes to read.
    pub(super) fn bytes(&self) -> usize {
        self.around.len() * PAGE
    }

    pub(super) fn tag(&self) -> ReadTag {
        ReadTag {
            last: self.with_index.then_some(BlockKind::Index),
            ..label(self.kind, Purpose::Lookup)
        }
    }

    /// Counts the read: as one of the block that was needed, the pages by what they are.
    pub(super) fn count(&self, trace: &mut Trace) {
        let own = self.around.len() - usize::from(self.with_index);
        trace.read(self.kind, own);
        trace.index.pages += u32::from(self.with_index);
    }

    /// Counts that the cache did not keep what of index or filter was read: all of it, since the
    /// block that was needed is what takes the next lookup to storage again.
    pub(super) fn count_turned_away(&self, trace: &mut Trace) {
        if self.kind != BlockKind::Data {
            trace.turned_away += self.around.len() as u32;
        }
    }

    /// The bytes of some of the pages that were read.
    pub(super) fn part<'a>(&self, buf: &'a IoBuf, pages: &Range<u32>) -> &'a [u8] {
        let at = |page: u32| page.saturating_sub(self.around.start) as usize * PAGE;
        buf.get(at(pages.start)..at(pages.end)).unwrap_or_default()
    }
}

impl Get<'_> {
    /// Has blocks come along with one of filter module `module` that is to be read: of its
    /// partition's filter, whose last module comes first, and the index block behind it.
    pub(super) fn coalesce_neighbours(&self, need: &mut BlockRead, module: usize) {
        let table = self.table;
        let (stats, partition) = (table.partition_stats(), need.partition as u32);
        // Of short memory no more than the two pages for which there always is a buffer.
        let mut most = 2;
        if let Some(missing) = stats.missing_modules(partition) {
            let share = read_at_once(table.blocks.cache().budget().limit()) / PAGE as u64;
            most = usize::try_from(share).map_or(MOST_PAGES, |pages| pages.min(MOST_PAGES));
            let modules = 0..table.plan.modules.len();
            for number in modules.filter(|number| missing & (1 << number) > 0) {
                if let Some(pages) = table.top.module(need.partition, number) {
                    let around = &need.around;
                    let around = around.start.min(pages.start)..around.end.max(pages.end);
                    // Those that do not fit come when they are needed.
                    if around.len() <= most {
                        need.around = around;
                    }
                }
            }
        }
        // The index block, unless the lookup has been there.
        let place = table.top.get(need.partition);
        let probed = &self.state.probed.columns;
        let next = need.around.end..need.around.end + 1;
        if place.is_some_and(|place| place.index() == next)
            && self.state.location.is_none()
            && need.around.len() < most
            && stats.coalesces_index(partition, probed, module)
        {
            need.around.end += 1;
            need.with_index = true;
        }
    }
}
