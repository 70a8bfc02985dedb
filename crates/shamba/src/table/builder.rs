//! Writes a table: `add* finish`, in order, streaming. Bytes are specified in docs/format.md,
//! "Table files".
//!
//! Memory is one write buffer, one data block and one partition (a digest for each of its keys and
//! its index), all held by the reservation the caller gives. Nothing is read back.

mod ranges;
mod scan_filter;

use std::cmp::Ordering;
use std::path::PathBuf;

use super::block::{BlockBuilder, Cursor, DataBlock, MAX_SHARED_BLOCK};
use super::build_options::TableBuildOptions;
use super::compressor::Compressor;
use super::format::{self, Codec, Compression, Footer, PAGE_PAYLOAD};
use super::open_partition::OpenPartition;
use super::prepopulate::{Prepared, Prepopulator};
use super::properties::Properties;
use super::range_tombstones::RangeTombstonesBuilder;
use super::top_index::TopIndexBuilder;
use super::writer::PageWriter;
use crate::base::digest::KeyDigest;
use crate::base::key::{self, EntryKind, Tag};
use crate::budget::{Reservation, kept_for_next_block, most_of_index};
use crate::error::{Error, Result};
use crate::filter::{self, FilterWriter, Layout};
use crate::fs::{BlockKind, PAGE, WriteFile};
use scan_filter::ScanCollector;

/// Bytes of index that a partition may get at once, because what its separators had in common is
/// less with the next key: past them it ends before that key.
const MOST_BURST: usize = 4 * PAGE_PAYLOAD;

/// Bytes of properties beside keys, mostly, with the lengths before them and before the top-level
/// index.
const SMALL_PROPERTIES: usize = 512;

/// A finished table.
#[derive(Debug)]
pub(crate) struct TableSummary {
    /// The file's length in bytes.
    pub(crate) len: u64,
    /// What its checksums start from.
    pub(crate) salt: u32,
    /// What the table holds.
    pub(crate) properties: Properties,
    /// What is handed on to readers.
    pub(crate) prepared: Option<Prepared>,
}

/// Writes one table.
pub(crate) struct TableBuilder {
    options: TableBuildOptions,
    writer: PageWriter,
    reservation: Reservation,
    compressor: Compressor,
    /// Compressed size over raw size of late blocks.
    ratio: f32,
    block: BlockBuilder,
    payload: Vec<u8>,
    last_key: Vec<u8>,
    last_tag: Tag,
    partition: OpenPartition,
    /// Keys after which a partition closes.
    partition_target: usize,
    top: TopIndexBuilder,
    properties: Properties,
    ranges: RangeTombstonesBuilder,
    /// Mostly none.
    scan_filter: Option<Box<ScanCollector>>,
    /// Payload bytes of each filter module so far.
    module_bytes: Vec<u64>,
    keeper: Option<Prepopulator>,
}

impl TableBuilder {
    /// Starts a table in an empty file. `reservation` grows as needed and is given back on drop.
    pub(crate) fn new(
        file: Box<dyn WriteFile>,
        path: PathBuf,
        options: TableBuildOptions,
        reservation: Reservation,
    ) -> Self {
        let properties = Properties {
            filter: options.filter.clone(),
            compression: options.compression,
            restart_interval: options.restart_interval,
            level: options.level,
            created_by: env!("CARGO_PKG_VERSION").to_owned(),
            min_seq: u64::MAX,
            ..Properties::default()
        };
        TableBuilder {
            writer: PageWriter::new(file, path, options.write_buffer, options.salt),
            compressor: Compressor::new(options.compression),
            reservation,
            ratio: 0.7,
            block: BlockBuilder::new(options.restart_interval as usize),
            payload: Vec::new(),
            last_key: Vec::new(),
            last_tag: Tag::NEWEST,
            partition: OpenPartition::default(),
            partition_target: options.partition_target(),
            top: TopIndexBuilder::default(),
            properties,
            ranges: RangeTombstonesBuilder::default(),
            scan_filter: options.scan_filter.clone().map(ScanCollector::new),
            module_bytes: vec![0; options.filter.modules.len()],
            keeper: options.keep.clone().map(Prepopulator::new),
            options,
        }
    }

    /// About how many bytes of blocks there are so far, without the fixed end of a file: otherwise
    /// a small target would make a file of each entry.
    pub(crate) fn estimated_len(&self) -> u64 {
        let filter_bits =
            self.partition.digests.len() as u64 * u64::from(self.options.filter.millibits()) / 1000;
        let scan_filter = self.scan_filter.as_ref().map_or(0, |of| of.pending());
        let pending = self.block.len() as u64 + filter_bits / 8 + scan_filter;
        u64::from(self.writer.pages()) * PAGE as u64 + pending + self.ranges.len() as u64
    }

    /// Whether what the table would hold in memory when it is open, or the index of the partition,
    /// has grown so much that the table should end, or would with this key.
    pub(crate) fn is_full_before(&self, key: &[u8]) -> bool {
        let most = usize::try_from(most_of_index(self.reservation.limit())).unwrap_or(usize::MAX);
        let index = &self.partition.index;
        let whole = self.options.filter.layout == Layout::Whole;
        self.top.len() > most
            || self.ranges.len() as u64 > self.most_of_ranges()
            || whole && index.would_pass(most, key)
    }

    /// The keys so far.
    pub(crate) fn keys(&self) -> u64 {
        self.properties.keys
    }

    /// Adds an entry. Entries must come in the order of the tree, each once.
    pub(crate) fn add(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        let first = self.properties.entries == 0;
        let order = key::compare(&self.last_key, self.last_tag, key, tag);
        if !first && order != Ordering::Less {
            return Err(Error::corruption(
                self.writer.path(),
                u64::from(self.writer.pages()) * PAGE as u64,
                "the entries to be written are not in order; an input of this compaction is damaged",
            ));
        }
        let new_key = first || self.last_key != key;
        let mut close = new_key && (self.partition_overdue() || self.index_would_burst(key));
        while !close && !self.block.fits(key, tag, value, self.block_limit()) {
            close = new_key && self.partition_due();
            if !close {
                self.write_block(Some(key))?;
            }
        }
        if close {
            self.close_partition(Some(key))?;
        }
        self.block.add(key, tag, value);
        self.count(key, tag, value, new_key);
        Ok(())
    }

    fn count(&mut self, key: &[u8], tag: Tag, value: &[u8], new_key: bool) {
        let p = &mut self.properties;
        if p.entries == 0 {
            p.smallest = key.to_vec();
        }
        p.entries += 1;
        p.tombstones += u64::from(tag.kind() == Some(EntryKind::Delete));
        p.key_bytes += key.len() as u64;
        p.longest_key = p.longest_key.max(key.len() as u32);
        p.value_bytes += value.len() as u64;
        p.min_seq = p.min_seq.min(tag.seq());
        p.max_seq = p.max_seq.max(tag.seq());
        self.last_tag = tag;
        if new_key {
            p.keys += 1;
            self.partition.keys += 1;
            if !self.options.filter.modules.is_empty() {
                self.partition.digests.push(KeyDigest::of(key));
            }
            if let Some(scan_filter) = &mut self.scan_filter {
                scan_filter.add(&self.last_key, key);
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
    }

    /// Whether the partition should close here, where a data block ends anyway.
    fn partition_due(&mut self) -> bool {
        let blocks = self.partition.index.blocks() as usize + 1;
        let next = self.partition.keys.div_ceil(blocks);
        if self.partition.keys.saturating_add(next) > self.partition_target {
            return true;
        }
        if self.options.filter.layout == Layout::Whole {
            return false;
        }
        let held = self.partition.index.scratch() as u64;
        self.reservation.grow(held);
        let full = self.partition.index.is_longer_than(PAGE_PAYLOAD / 8 * 7);
        self.reservation.shrink(held);
        full
    }

    /// Whether the partition should close at once, at the cost of a data block that is not full.
    fn partition_overdue(&self) -> bool {
        self.partition.keys
            >= self
                .partition_target
                .saturating_add(self.partition_target / 16)
    }

    /// Whether the partition should close here because what its separators have in common ends:
    /// they are long, and each would be stored nearly whole.
    fn index_would_burst(&self, key: &[u8]) -> bool {
        self.options.filter.layout == Layout::Partitioned
            && self.partition.index.would_pass(MOST_BURST, key)
    }

    /// What a data block may hold before compression, so that it fills about a page after.
    fn block_limit(&self) -> usize {
        if self.options.compression == Compression::None {
            return PAGE_PAYLOAD;
        }
        let raw = PAGE_PAYLOAD as f32 * 0.97 / self.ratio.max(0.01);
        (raw as usize).clamp(PAGE_PAYLOAD, MAX_SHARED_BLOCK)
    }

    /// Writes one data block off the front of the gathered entries; where compression promised
    /// too much, some of them remain. `next` is the key that follows all of them.
    fn write_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        let mut payload = std::mem::take(&mut self.payload);
        let mut count = self.block.count();
        self.block.finish(&mut payload);
        let written = loop {
            let raw_pages = format::pages_for(payload.len());
            // Of one page nothing would be saved.
            let squeezed = (raw_pages > 1)
                .then(|| self.compressor.compress(&payload, &mut self.reservation))
                .flatten();
            let Some((codec, bytes)) = squeezed else {
                break self.writer.block(&payload, Codec::Raw)?;
            };
            let pages = format::pages_for(bytes.len());
            let ratio = bytes.len() as f32 / payload.len() as f32;
            // What blocks are compressed to says how many entries the next is to gather.
            self.ratio = (0.75 * self.ratio + 0.25 * ratio).max(ratio.min(1.0) * 0.9);
            if pages == 1 || count == 1 && pages < raw_pages {
                break self.writer.block(bytes, codec)?;
            }
            // One entry that compression saves no page of.
            if count == 1 {
                break self.writer.block(&payload, Codec::Raw)?;
            }
            // It does not fit a page: fewer entries, by the ratio seen, and a little less to be
            // sure.
            let keep = (count as f32 * PAGE_PAYLOAD as f32 / bytes.len() as f32 * 0.93) as usize;
            count = keep.clamp(1, count - 1);
            self.split(&mut payload, count)?;
        };
        self.payload = payload;
        if let Some(keeper) = &mut self.keeper {
            let page = self.writer.pages().saturating_sub(written);
            keeper.offer_data(page, &self.payload, &self.last_key, count);
        }
        self.partition.push(written);
        self.properties.data_blocks += 1;
        self.properties.data_bytes += u64::from(written) * PAGE as u64;
        self.separate_last(next)?;
        self.account();
        Ok(())
    }

    /// Notes what separates the block in `self.payload` from the entries after it.
    fn separate_last(&mut self, next: Option<&[u8]>) -> Result<()> {
        let (mut last, mut first) = (Cursor::default(), Cursor::default());
        let mut rest = Vec::new();
        let (last, next) = if self.block.count() == 0 {
            (self.block.last_key(), next)
        } else {
            let damage = |d: format::Damage| Error::corruption(self.writer.path(), 0, d.0);
            let block = DataBlock::parse(&self.payload).map_err(damage)?;
            last.last(&block).map_err(damage)?;
            self.block.peek(&mut rest);
            let remaining = DataBlock::parse(&rest).map_err(damage)?;
            first.first(&remaining).map_err(damage)?;
            (last.key(), Some(first.key()))
        };
        self.partition.separate(last, next);
        Ok(())
    }

    /// Leaves the first `count` entries in `payload` and puts those after them before the entries
    /// in the block builder.
    fn split(&mut self, payload: &mut Vec<u8>, count: usize) -> Result<()> {
        let interval = self.options.restart_interval as usize;
        let mut head = BlockBuilder::new(interval);
        let mut tail = BlockBuilder::new(interval);
        let mut later = Vec::new();
        let had_later = self.block.count() > 0;
        if had_later {
            self.block.finish(&mut later);
        }
        let path = self.writer.path();
        let damage = |d: format::Damage| Error::corruption(path, 0, d.0);
        let sources = std::iter::once(&*payload).chain(had_later.then_some(&later));
        for source in sources {
            let block = DataBlock::parse(source).map_err(damage)?;
            let mut cursor = Cursor::default();
            let mut valid = cursor.first(&block).map_err(damage)?;
            while valid {
                let target = if head.count() < count {
                    &mut head
                } else {
                    &mut tail
                };
                let value = source.get(cursor.value()).unwrap_or_default();
                target.add(cursor.key(), cursor.tag(), value);
                valid = cursor.next(&block).map_err(damage)?;
            }
        }
        head.finish(payload);
        self.block = tail;
        Ok(())
    }

    /// Writes the partition's last data blocks, its filter modules from the last to the first, and
    /// its index block.
    fn close_partition(&mut self, next: Option<&[u8]>) -> Result<()> {
        while self.block.count() > 0 {
            self.write_block(next)?;
        }
        // Modules for scans are behind those of keys, and so come first.
        let keys = self.options.filter.modules.len();
        let scan_filter = self.scan_filter.as_ref().map_or(0, |of| of.modules());
        let mut module_pages = vec![0; keys + scan_filter];
        self.write_scan_filter(module_pages.get_mut(keys..).unwrap_or_default())?;
        let plan = &self.options.filter;
        // The last partition ends at the largest key.
        let separator = if next.is_some() {
            &self.partition.separator
        } else {
            &self.last_key
        };
        if let Some(keeper) = &mut self.keeper {
            keeper.begin(
                &self.properties.smallest,
                separator,
                plan,
                self.partition.keys,
            );
        }
        // Modules from the last to the first, which so lies next to the index: one read brings
        // both.
        let held = FilterWriter::memory(plan, self.partition.digests.len(), PAGE_PAYLOAD) as u64;
        self.reservation.grow(held);
        let filter = FilterWriter::new(plan, &self.partition.digests, PAGE_PAYLOAD);
        for (i, (pages, total)) in (module_pages.iter_mut().zip(&mut self.module_bytes))
            .enumerate()
            .rev()
        {
            let module = filter.module(i);
            let start = self.writer.pages();
            for block in module.blocks() {
                if let Some(keeper) = &mut self.keeper {
                    keeper.offer(self.writer.pages(), BlockKind::Filter(i as u8), block);
                }
                self.writer.block(block, Codec::Raw)?;
            }
            *pages = self.writer.pages() - start;
            *total += module.len() as u64;
            self.properties.filter_bytes += module.len() as u64;
        }
        drop(filter);
        self.reservation.shrink(held);
        // Then the index, and the top index is told where all of it lies.
        let (data_pages, blocks) = (self.partition.index.pages(), self.partition.index.blocks());
        let held = self.partition.index.scratch() as u64;
        self.reservation.grow(held);
        self.partition.index.finish(&mut self.payload);
        self.reservation.shrink(held);
        self.properties.index_bytes += self.payload.len() as u64;
        if let Some(keeper) = &mut self.keeper {
            keeper.offer(self.writer.pages(), BlockKind::Index, &self.payload);
            keeper.end();
        }
        let index_pages = self.writer.block(&self.payload, Codec::Raw)?;
        self.top
            .push(separator, data_pages, blocks, &module_pages, index_pages);
        self.partition.clear();
        self.account();
        Ok(())
    }

    /// What single keys take that are kept beside blocks and indexes.
    fn keys_memory(&self) -> usize {
        self.last_key.capacity()
            + self.partition.separators()
            + self.properties.smallest.capacity()
            + self.properties.largest.capacity()
            + self.keeper.as_ref().map_or(0, Prepopulator::key_bytes)
    }

    /// Holds the reservation at what is in memory now.
    fn account(&mut self) {
        // What one large entry took is not kept for the next, nor what is much of a small budget.
        let limit = self.reservation.limit();
        let share = usize::try_from(kept_for_next_block(limit)).unwrap_or(usize::MAX);
        if self.payload.capacity() > MAX_SHARED_BLOCK.min(share) {
            self.payload = Vec::new();
        }
        self.compressor.keep(share.min(2 * MAX_SHARED_BLOCK), limit);
        let bytes = self.writer.memory()
            + self.compressor.memory()
            + self.block.memory()
            + self.payload.capacity()
            + self.partition.digests.capacity() * size_of::<KeyDigest>()
            + self.partition.index.memory()
            + self.top.memory()
            + self.ranges.memory()
            + self.scan_filter.as_ref().map_or(0, |of| of.memory())
            + self.keys_memory()
            + size_of::<Self>();
        self.reservation.resize(bytes as u64);
    }

    /// Completes the table and makes it durable; the latter, without `sync`, is left to the caller
    /// ([`Fs::sync_files`](crate::fs::Fs::sync_files)).
    pub(crate) fn finish(mut self, sync: bool) -> Result<TableSummary> {
        self.fill_if_empty()?;
        let first_entry = self.properties.smallest.clone();
        if self.properties.entries == 0 {
            self.properties.min_seq = 0;
        } else {
            self.close_partition(None)?;
            self.bound_by_ranges();
        }
        // Ribbon filters come to other bits than were asked for: what was written counts.
        let keys = self.properties.keys;
        for (module, &bytes) in self
            .properties
            .filter
            .modules
            .iter_mut()
            .zip(&self.module_bytes)
        {
            module.millibits = filter::written_millibits(module, bytes, keys);
        }
        self.properties.scan_filter = self.scan_filter.take().map(|of| of.stated());
        // What only more entries would need goes first.
        (self.block, self.payload) = (BlockBuilder::new(1), Vec::new());
        self.partition = OpenPartition::default();
        self.compressor = Compressor::new(self.options.compression);
        self.top.close();
        self.account();
        // As it is encoded, and among the pages that are written.
        let keys = self.properties.smallest.len() + self.properties.largest.len();
        let keys = keys + self.properties.ranges.len();
        let bytes = 2 * (keys + self.top.memory() + SMALL_PROPERTIES);
        self.reservation.grow(bytes as u64);
        let mut meta = Vec::with_capacity(bytes / 2);
        self.properties.encode_with_len(&mut meta);
        let top = meta.len();
        self.top.encode(&mut meta);
        let prepared = self.keeper.take().and_then(|keeper| {
            let modules = self.properties.modules();
            let (plan, smallest) = (&self.properties.filter, &first_entry);
            let top = meta.get(top..).unwrap_or_default();
            keeper.finish((top, modules), plan, self.writer.pages(), smallest)
        });
        // A small table says all of itself in its last page, which an open reads anyway.
        let mut footer = Footer {
            meta_page: self.writer.pages(),
            meta_pages: 0,
            inline_len: 0,
            salt: self.options.salt,
        };
        if meta.len() <= format::FOOTER_ROOM {
            footer.inline_len = meta.len() as u32;
            self.writer.finish(footer, &meta, sync)?;
        } else {
            footer.meta_pages = self.writer.block(&meta, Codec::Raw)?;
            self.writer.finish(footer, &[], sync)?;
        }
        Ok(TableSummary {
            len: u64::from(self.writer.pages()) * PAGE as u64,
            salt: self.options.salt,
            properties: self.properties,
            prepared,
        })
    }
}
