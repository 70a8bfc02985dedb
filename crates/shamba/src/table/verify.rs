//! Checks everything a table promises: every block's checksum, the order of entries, separators,
//! filters that contain every key, properties that are true.
//!
//! Reads the whole file past the cache, block by block; holds an index block, a block that it looks
//! at and one partition's digests, reserved from the cache's budget. What it looks at of value
//! files beside is in `pointed`.

mod pointed;
mod scan_filter;

use std::collections::BTreeMap;
use std::ops::Range;

use super::block::{Cursor, DataBlock};
use super::format::Damage;
use super::index::IndexBlock;
use super::properties::Properties;
use super::reader::Table;
use super::source::label;
use super::table_blocks::BlockRef;
use super::top_index::PartitionEntry;
use crate::base::digest::KeyDigest;
use crate::base::key::{self, EntryKind, Tag};
use crate::base::pointer::{ValuePointer, split};
use crate::budget::Role;
use crate::error::{Error, Result};
use crate::filter;
use crate::fs::{BlockKind, PAGE, Purpose};
use pointed::Pointed;
pub(crate) use pointed::PointedValues;
use scan_filter::SeenScanFilter;

/// Problems past this many are only counted.
const MAX_PROBLEMS: usize = 32;

/// What a check found.
#[derive(Debug, Clone, Default)]
pub(crate) struct VerifyReport {
    /// Blocks read.
    pub(crate) blocks: u64,
    /// Entries read.
    pub(crate) entries: u64,
    /// The first problems, each a [`Error::Corruption`].
    pub(crate) problems: Vec<Error>,
    /// All problems.
    pub(crate) problem_count: u64,
    /// Operands among the entries.
    pub(crate) operands: u64,
    /// Bytes of values that its entries point to, by value file.
    pub(crate) points_to: BTreeMap<u64, u64>,
    /// Bytes of its own values.
    pub(crate) value_bytes: u64,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub(crate) fn is_sound(&self) -> bool {
        self.problem_count == 0
    }
}

struct Verifier<'a, 'v> {
    table: &'a Table,
    /// Where what its entries point to is looked for.
    pointed: Option<&'a mut PointedValues<'v>>,
    report: VerifyReport,
    seen: Properties,
    last_key: Vec<u8>,
    last_tag: Option<Tag>,
    digests: Vec<KeyDigest>,
    scan_filter: Option<SeenScanFilter>,
}

impl Table {
    /// Checks the whole table, and whether what it points to is in `pointed`. Damage is in the
    /// report; an error says that a file cannot be read.
    pub(crate) fn verify(&self, pointed: Option<&mut PointedValues<'_>>) -> Result<VerifyReport> {
        let mut verifier = Verifier {
            table: self,
            pointed,
            report: VerifyReport::default(),
            seen: Properties {
                min_seq: u64::MAX,
                ..Properties::default()
            },
            last_key: Vec::new(),
            last_tag: None,
            digests: Vec::new(),
            scan_filter: self.scan_filter.as_deref().map(SeenScanFilter::of),
        };
        let mut memory = self.blocks.cache().budget().reserve(Role::Compaction, 0);
        for partition in 0..self.top.len() {
            verifier.ranges(partition)?;
            verifier.partition(partition)?;
            // Of the last keys, the smallest, and the separators around a block.
            let keys = 4 * verifier.last_key.capacity() as u64;
            let scan_filter = verifier
                .scan_filter
                .as_ref()
                .map_or(0, |seen| seen.memory());
            let digests = verifier.digests.capacity() * 8 + scan_filter;
            memory.resize(digests as u64 + PAGE as u64 + keys);
            verifier.filters(partition)?;
            verifier.scan_filter(partition)?;
            verifier.digests.clear();
        }
        verifier.report.value_bytes = verifier.seen.value_bytes;
        verifier.properties()?;
        Ok(verifier.report)
    }
}

impl Verifier<'_, '_> {
    fn problem(&mut self, page: u32, what: &'static str) {
        let error = self.table.blocks.damage(page, Damage(what));
        self.error(error);
    }

    fn error(&mut self, error: Error) {
        self.report.problem_count += 1;
        if self.report.problems.len() < MAX_PROBLEMS {
            self.report.problems.push(error);
        }
    }

    /// Reads a block; `None` when it is damaged, which is noted.
    fn read(&mut self, pages: Range<u32>, kind: BlockKind) -> Result<Option<BlockRef>> {
        self.report.blocks += 1;
        let tag = label(kind, Purpose::Background);
        match self.table.blocks.read_block(pages, tag) {
            Ok(block) => Ok(Some(block)),
            Err(error) if error.is_corruption() => {
                self.error(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn partition(&mut self, number: usize) -> Result<()> {
        let Some(place) = self.table.top.get(number) else {
            return Ok(());
        };
        let page = place.index_page;
        let Some(index) = self.read(place.index(), BlockKind::Index)? else {
            return Ok(());
        };
        self.seen.index_bytes += index.len() as u64;
        let Ok(index) = IndexBlock::parse(&index) else {
            self.problem(page, "an index block is malformed");
            return Ok(());
        };
        if index.blocks() != place.blocks {
            self.problem(page, "an index does not have the blocks it should");
        }
        let mut next_page = 0;
        for block in 0..index.blocks() {
            match index.pages(block) {
                Ok(pages) if pages.start == next_page && pages.end <= place.data_pages => {
                    next_page = pages.end;
                    self.block(number, &place, &index, block, pages)?;
                }
                _ => {
                    self.problem(page, "an index does not point to its data");
                    return Ok(());
                }
            }
        }
        if next_page != place.data_pages {
            self.problem(page, "an index does not point to all of its data");
        }
        Ok(())
    }

    fn block(
        &mut self,
        partition: usize,
        place: &PartitionEntry,
        index: &IndexBlock<'_>,
        block: u32,
        pages: Range<u32>,
    ) -> Result<()> {
        let start = place.first_page + pages.start;
        let range = start..place.first_page + pages.end;
        self.seen.data_blocks += 1;
        self.seen.data_bytes += u64::from(range.end - range.start) * PAGE as u64;
        let Some(payload) = self.read(range, BlockKind::Data)? else {
            return Ok(());
        };
        let mut separators = [None, None];
        if let Some(before) = block.checked_sub(1) {
            index.separator(before, separators[0].insert(Vec::new()));
        }
        if block + 1 < index.blocks() {
            index.separator(block, separators[1].insert(Vec::new()));
        }
        let mut cursor = Cursor::default();
        let mut step = DataBlock::parse(&payload)
            .and_then(|view| cursor.first(&view).map(|valid| (view, valid)));
        while let Ok((view, true)) = step {
            let value = payload.get(cursor.value()).unwrap_or_default();
            if let Some(problem) = self.entry(partition, (&cursor, value), &separators) {
                self.problem(start, problem);
            }
            self.follow(start, &cursor, value)?;
            step = cursor.next(&view).map(|valid| (view, valid));
        }
        if let Err(damage) = step {
            self.problem(start, damage.0);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        partition: usize,
        (cursor, value): (&Cursor, &[u8]),
        [low, high]: &[Option<Vec<u8>>; 2],
    ) -> Option<&'static str> {
        let (entry, tag) = (cursor.key(), cursor.tag());
        let ordered = self
            .last_tag
            .is_none_or(|last_tag| key::compare(&self.last_key, last_tag, entry, tag).is_lt());
        let new_key = self.last_tag.is_none() || self.last_key != entry;
        let here = self.table.top.find(entry) == partition;
        self.report.entries += 1;
        self.report.operands += u64::from(tag.kind() == Some(EntryKind::Operand));
        // What the table states of itself is counted anew, and compared at the end.
        let seen = &mut self.seen;
        if seen.entries == 0 {
            seen.smallest = entry.to_vec();
        }
        seen.entries += 1;
        seen.keys += u64::from(new_key);
        seen.tombstones += u64::from(tag.kind() == Some(EntryKind::Delete));
        seen.key_bytes += entry.len() as u64;
        seen.longest_key = seen.longest_key.max(entry.len() as u32);
        seen.value_bytes += value.len() as u64;
        seen.min_seq = seen.min_seq.min(tag.seq());
        seen.max_seq = seen.max_seq.max(tag.seq());
        if new_key && !self.table.plan.modules.is_empty() {
            self.digests.push(KeyDigest::of(entry));
        }
        let pointer = pointer_of(tag, value);
        if let Some(Some(pointer)) = pointer {
            let sum = self.report.points_to.entry(pointer.file).or_default();
            *sum = sum.saturating_add(pointer.len);
        }
        if let Some(scan_filter) = self.scan_filter.as_mut().filter(|_| new_key) {
            scan_filter.key(&self.last_key, entry);
        }
        // Entries of the key before may go on in this block.
        let from = low
            .as_ref()
            .is_none_or(|low| low.as_slice() <= entry || !new_key);
        let inside = here && from && high.as_ref().is_none_or(|high| entry < high.as_slice());
        // The next entry is compared with this one.
        self.last_key.clear();
        self.last_key.extend_from_slice(entry);
        self.last_tag = Some(tag);
        if !ordered {
            Some("entries are not in order")
        } else if !inside {
            Some("an entry is on the wrong side of a separator")
        } else if pointer == Some(None) {
            Some("what points to a value is malformed")
        } else {
            None
        }
    }

    /// Looks whether what an entry points to is there.
    fn follow(&mut self, page: u32, cursor: &Cursor, value: &[u8]) -> Result<()> {
        let Some(Some(pointer)) = pointer_of(cursor.tag(), value) else {
            return Ok(());
        };
        let Some(pointed) = self.pointed.as_deref_mut() else {
            return Ok(());
        };
        match pointed.look_for(cursor.key(), pointer) {
            Ok(Pointed::There) => {}
            Ok(Pointed::Missing) => {
                let what = format!(
                    "an entry points to a value that value file {} does not have",
                    pointer.file
                );
                let path = self.table.blocks.source().path();
                let at = u64::from(page) * PAGE as u64;
                self.error(Error::corruption(path, at, what));
            }
            // Of the value file.
            Err(error) if error.is_corruption() => self.error(error),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn filters(&mut self, partition: usize) -> Result<()> {
        let table = self.table;
        for (number, module) in table.plan.modules.iter().enumerate() {
            let Some(pages) = table.top.module(partition, number) else {
                continue;
            };
            let layout = table.plan.layout;
            let all = pages.end - pages.start;
            let count = filter::blocks_in(module, layout, all);
            let size = all / count.max(1);
            for i in 0..count {
                let start = pages.start + i * size;
                let kind = BlockKind::Filter(number as u8);
                let Some(block) = self.read(start..start + size, kind)? else {
                    continue;
                };
                self.seen.filter_bytes += block.len() as u64;
                let missing = self.digests.iter().any(|digest| {
                    let hash = filter::hash_of(module, number, *digest);
                    let place = filter::block_of(module, layout, hash, pages.clone());
                    place.start == start && !filter::may_contain(module, &block, hash)
                });
                if missing {
                    self.problem(start, "a filter does not contain a key of its partition");
                }
            }
        }
        Ok(())
    }

    fn properties(&mut self) -> Result<()> {
        let stated = match self.table.properties() {
            Ok(stated) => stated,
            Err(error) if error.is_corruption() => {
                self.error(error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if !self.report.is_sound() {
            return Ok(());
        }
        let mut seen = std::mem::take(&mut self.seen);
        if seen.entries == 0 {
            seen.min_seq = 0;
        }
        seen.largest = std::mem::take(&mut self.last_key);
        if let Some(ranges) = self.table.ranges() {
            ranges.add_to(&mut seen);
        }
        let scan_filter = self.scan_filter.take().zip(stated.scan_filter.clone());
        let stored = Properties {
            filter: stated.filter.clone(),
            scan_filter: scan_filter.map(|(seen, stated)| seen.stated(stated)),
            compression: stated.compression,
            restart_interval: stated.restart_interval,
            level: stated.level,
            created_by: stated.created_by.clone(),
            ..seen
        };
        if stored != stated {
            self.problem(0, "the properties do not say what the table holds");
        }
        Ok(())
    }
}

/// The pointer of an entry that has one: none where its bytes are malformed.
fn pointer_of(tag: Tag, value: &[u8]) -> Option<Option<ValuePointer>> {
    let kind = tag.kind().filter(|kind| kind.is_pointer())?;
    Some(ValuePointer::parse(split(kind, value).1))
}
