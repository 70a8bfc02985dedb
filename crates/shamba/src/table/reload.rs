//! Reads blocks back that were in memory before the database was closed: several of a file in one
//! read where they lie close together, and several files at once.
//!
//! What is asked for is a hint: what no block of the table is, is damaged, large or has no room is
//! left out. Thread-safe; holds scratch buffers, and while it does it waits for nothing.

use std::ops::Range;
use std::sync::Arc;

use super::format::{is_as_long_as_it_says, pages_for};
use super::reader::Table;
use super::slot::TableFile;
use super::source::label;
use super::table_cache::TableCache;
use crate::budget::{Role, reload_at_once};
use crate::cache::{IoBuf, WarmBlock};
use crate::error::{Error, Result};
use crate::filter;
use crate::fs::{BlockKind, PAGE, Purpose, ReadRequest};

/// Blocks are read together if so many pages or fewer lie between them: to read these takes about
/// as long as another read.
const GAP: u32 = 4;

/// Bytes read at once at most, in several reads if need be: those of lookups wait beside them. With
/// half of it what was in memory is back later; with more, lookups meanwhile take longer.
const MOST_BYTES: usize = 64 << 10;

/// Reads gathered at most.
const READS: usize = 16;

/// A read of blocks that lie close together.
struct NearBlocks<'a> {
    table: Arc<Table>,
    pages: Range<u32>,
    /// Where each lies, and what it is.
    blocks: Vec<(Range<u32>, &'a WarmBlock)>,
}

impl NearBlocks<'_> {
    /// Whether a block lies so close to the end that it is read with what is there, if that is no
    /// more than so many pages then.
    fn takes(&self, table: &Arc<Table>, pages: &Range<u32>, most: usize) -> bool {
        let near = pages.start >= self.pages.end && pages.start - self.pages.end <= GAP;
        let len = (self.pages.start..pages.end).len();
        near && len <= most && Arc::ptr_eq(table, &self.table)
    }
}

impl TableCache {
    /// Reads blocks of files back, each in the file beside it, those of one file one after the
    /// other by their pages. Gives how many are in memory again, and the pages that were read.
    ///
    /// # Errors
    /// The first read that fails ends it; so does `go_on`, which is asked before each.
    pub(crate) fn reload<F: TableFile>(
        &self,
        blocks: &[(F, WarmBlock)],
        go_on: impl Fn() -> Result<()>,
    ) -> Result<(u64, u64)> {
        let most = (reload_at_once(self.budget().limit()) as usize).min(MOST_BYTES);
        let mut done = (0, 0);
        let mut runs: Vec<NearBlocks<'_>> = Vec::new();
        for same in blocks.chunk_by(|(a, _), (b, _)| a.number() == b.number()) {
            let Some((file, _)) = same.first() else {
                continue;
            };
            let table = match self.get(file) {
                Ok(table) => table,
                // For who needs it.
                Err(error) if error.is_corruption() => continue,
                Err(error) => return Err(error),
            };
            for (_, block) in same {
                let Some(pages) = table.place_of(block) else {
                    continue;
                };
                let last = runs.last_mut();
                match last.filter(|run| run.takes(&table, &pages, most / PAGE)) {
                    Some(run) => {
                        run.pages.end = pages.end;
                        run.blocks.push((pages, block));
                    }
                    None => {
                        if runs.len() == READS {
                            let now = std::mem::take(&mut runs);
                            self.read_runs(now, most, &go_on, &mut done)?;
                        }
                        runs.push(NearBlocks {
                            table: Arc::clone(&table),
                            pages: pages.clone(),
                            blocks: vec![(pages, block)],
                        });
                    }
                }
            }
        }
        self.read_runs(runs, most, &go_on, &mut done)?;
        Ok(done)
    }

    /// Makes reads, as many at once as there are buffers for, of so many bytes at most.
    fn read_runs(
        &self,
        runs: Vec<NearBlocks<'_>>,
        most: usize,
        go_on: &impl Fn() -> Result<()>,
        done: &mut (u64, u64),
    ) -> Result<()> {
        let mut runs = runs.into_iter().peekable();
        while runs.peek().is_some() {
            let mut now: Vec<(NearBlocks<'_>, IoBuf)> = Vec::new();
            let mut held = 0;
            while let Some(len) = runs.peek().map(|run| run.pages.len() * PAGE) {
                // To wait for a buffer while holding another could be for ever.
                let buf = if now.is_empty() {
                    Some(self.io().acquire(len))
                } else {
                    (held + len <= most)
                        .then(|| self.io().try_acquire(len))
                        .flatten()
                };
                held += len;
                let Some(next) = buf.and_then(|buf| Some((runs.next()?, buf))) else {
                    break;
                };
                now.push(next);
            }
            go_on()?;
            self.read_at_once(now, done)?;
        }
        Ok(())
    }

    fn read_at_once(
        &self,
        mut now: Vec<(NearBlocks<'_>, IoBuf)>,
        done: &mut (u64, u64),
    ) -> Result<()> {
        let files: Vec<_> = now
            .iter()
            .map(|(run, _)| run.table.blocks.source().file())
            .collect();
        let mut requests = Vec::new();
        for ((run, buf), file) in now.iter_mut().zip(&files) {
            let kind = run
                .blocks
                .first()
                .map_or(BlockKind::Data, |(_, block)| block.kind);
            let open = file.as_ref().map_err(Clone::clone)?;
            let open = open.as_deref().ok_or(Error::Closed)?;
            requests.push(ReadRequest {
                file: &*open.file,
                offset: u64::from(run.pages.start) * PAGE as u64,
                buf: &mut *buf,
                tag: label(kind, Purpose::Background),
                result: Ok(()),
            });
        }
        self.fs().read_many(&mut requests);
        let results: Vec<_> = requests.into_iter().map(|read| read.result).collect();
        drop(files);
        for ((run, buf), result) in now.into_iter().zip(results) {
            let source = run.table.blocks.source();
            result.map_err(|error| source.read_error(run.pages.start, error))?;
            done.1 += run.pages.len() as u64;
            for (pages, block) in &run.blocks {
                let at = |page: u32| (page - run.pages.start) as usize * PAGE;
                let bytes = buf.get(at(pages.start)..at(pages.end));
                let back = bytes.is_some_and(|bytes| run.table.bring_back(bytes, block));
                done.0 += u64::from(back);
            }
        }
        Ok(())
    }
}

impl Table {
    /// The pages of a block that was in memory, or, of data, the pages that it takes at most;
    /// `None` where the table has no such block, or memory has it.
    fn place_of(&self, block: &WarmBlock) -> Option<Range<u32>> {
        let number = block.partition as usize;
        let place = self.top.get(number)?;
        let pages = match block.kind {
            BlockKind::Index => place.index(),
            BlockKind::Filter(module) => {
                let plan = self.plan.modules.get(usize::from(module))?;
                let all = self.top.module(number, module.into())?;
                let (_, each) = filter::division(plan, self.plan.layout, all.len() as u32);
                let each = u32::from(each.max(1));
                let end = block.page.checked_add(each)?;
                let whole = block.page.checked_sub(all.start)?.is_multiple_of(each);
                (whole && end <= all.end).then_some(block.page..end)?
            }
            BlockKind::Data => {
                let all = place.first_page..place.first_page + place.data_pages;
                // Larger ones would take others' memory while they are decompressed.
                let most = reload_at_once(self.blocks.cache().budget().limit());
                let fits = u64::from(block.bytes) <= most;
                let pages = u32::try_from(pages_for(block.bytes as usize)).ok()?;
                let end = block.page.checked_add(pages)?.min(all.end);
                (fits && all.contains(&block.page)).then_some(block.page..end)?
            }
            _ => return None,
        };
        let is_there = pages.start == block.page && !pages.is_empty();
        (is_there && self.blocks.peek(pages.start).is_none()).then_some(pages)
    }

    /// Offers a block that was read to the cache; says whether it is there.
    fn bring_back(&self, pages: &[u8], block: &WarmBlock) -> bool {
        let blocks = &self.blocks;
        // What was compressed takes fewer pages than it has bytes in memory.
        let whole = pages.len() / PAGE;
        let least = if block.kind == BlockKind::Data {
            1
        } else {
            whole
        };
        let mut lengths = (least..=whole).rev();
        let payload = lengths.find_map(|length| {
            let pages = pages
                .get(..length * PAGE)
                .filter(|pages| is_as_long_as_it_says(pages))?;
            // Before it is decompressed: it is as long as it was, and there is memory for it.
            let decoded = blocks.decoded_len(pages, block.page)?;
            let is_it = block.kind != BlockKind::Data || decoded.in_memory == block.bytes as usize;
            let budget = blocks.cache().budget();
            let held = budget.try_reserve(Role::IoBuffers, decoded.allocated as u64);
            let held = held.filter(|_| is_it)?;
            Some((blocks.payload_in(pages, block.page).ok()?, held))
        });
        let owner = blocks.owner(block.page, block.partition as usize, block.kind);
        payload.is_some_and(|(bytes, _held)| blocks.cache().bring_back(owner, &bytes, block))
    }
}
