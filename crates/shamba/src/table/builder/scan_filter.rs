//! What a table's filter for scans is to be made of while the table is written: of the partition
//! that is open the digest of each prefix, once, or its keys. Protocol: `(add* write)*`, where
//! `write` is of a partition. One owner.

use std::sync::Arc;

use super::TableBuilder;
use crate::base::digest::KeyDigest;
use crate::base::key::common_prefix;
use crate::error::Result;
use crate::filter::{self, FilterPlan, FilterWriter, LONGEST_PREFIX, RangeKeys, ScanRule};
use crate::table::build_options::ScanFilterOptions;
use crate::table::format::{Codec, PAGE_PAYLOAD};
use crate::table::stated_scan_filter::StatedScanFilter;

/// A partition with more prefixes for each of its keys has no filter of them: fixed lengths and
/// delimiters have one at most, paths a few, and no function of the caller's is to take memory
/// without end. Twice of it takes twice the memory at most.
const MOST_PER_KEY: usize = 4;

/// See the module.
pub(super) struct ScanCollector {
    rule: Arc<ScanRule>,
    plan: FilterPlan,
    /// Of the prefixes of the partition.
    digests: Vec<KeyDigest>,
    /// Of a filter of ranges, the partition's keys.
    ranges: RangeKeys,
    /// Keys of the partition.
    keys: usize,
    /// Whether the partition has too many of them.
    is_too_many: bool,
    /// Prefixes, or keys, of all partitions that are written.
    members: u64,
    /// Payload bytes of each module so far.
    module_bytes: Vec<u64>,
}

impl ScanCollector {
    pub(super) fn new(options: ScanFilterOptions) -> Box<Self> {
        Box::new(ScanCollector {
            rule: options.rule,
            module_bytes: vec![0; options.plan.modules.len()],
            plan: options.plan,
            digests: Vec::new(),
            ranges: RangeKeys::default(),
            keys: 0,
            is_too_many: false,
            members: 0,
        })
    }

    /// Adds a key that is not the one before, which was `last`.
    pub(super) fn add(&mut self, last: &[u8], key: &[u8]) {
        // What neighbours have in common is known of the first of them.
        let shared = match self.keys {
            0 => 0,
            _ => common_prefix(last, key),
        };
        self.keys += 1;
        let rule = match &*self.rule {
            ScanRule::Prefixes(rule) => rule,
            ScanRule::Ranges { .. } => return self.ranges.add(shared, key),
        };
        if self.is_too_many {
            return;
        }
        let digests = &mut self.digests;
        rule.each_longer(key, shared, |prefix| digests.push(KeyDigest::of(prefix)));
        // The first keys have more than those behind them, which share some.
        if self.digests.len() > MOST_PER_KEY * (self.keys + LONGEST_PREFIX) {
            self.is_too_many = true;
            self.digests = Vec::new();
        }
    }

    /// Modules of its filter.
    pub(super) fn modules(&self) -> usize {
        self.plan.modules.len()
    }

    /// About the bytes of filter that are not written.
    pub(super) fn pending(&self) -> u64 {
        let members = self.digests.len().max(self.ranges.len());
        members as u64 * u64::from(self.plan.millibits()) / 8000
    }

    pub(super) fn memory(&self) -> usize {
        let digests = self.digests.capacity() * size_of::<KeyDigest>();
        size_of::<Self>() + digests + self.ranges.memory()
    }

    /// What the table says of them.
    pub(super) fn stated(mut self) -> StatedScanFilter {
        let modules = self.plan.modules.iter_mut().zip(&self.module_bytes);
        for (module, &bytes) in modules {
            module.millibits = filter::written_millibits(module, bytes, self.members);
        }
        StatedScanFilter {
            rule: self.rule.name().to_owned(),
            members: self.members,
            bytes: self.module_bytes.iter().sum(),
            plan: self.plan,
        }
    }
}

impl TableBuilder {
    /// Writes the partition's filter for scans, the last module first, and notes the pages of
    /// each. Not kept for the cache: the first scan that wants it reads it.
    pub(super) fn write_scan_filter(&mut self, module_pages: &mut [u32]) -> Result<()> {
        let Some(collector) = self.scan_filter.as_deref_mut() else {
            return Ok(());
        };
        collector.keys = 0;
        if let ScanRule::Ranges { millibits } = *collector.rule {
            return self.write_ranges(module_pages, millibits);
        }
        let count = collector.digests.len();
        if std::mem::take(&mut collector.is_too_many) {
            let modules = collector.plan.modules.iter().zip(module_pages);
            for ((module, pages), total) in modules.zip(&mut collector.module_bytes).rev() {
                let block = filter::blank_block(module);
                *pages = self.writer.block(block, Codec::Raw)?;
                *total += block.len() as u64;
            }
            return Ok(());
        }
        let held = FilterWriter::memory(&collector.plan, count, PAGE_PAYLOAD) as u64;
        self.reservation.grow(held);
        let filter = FilterWriter::new(&collector.plan, &collector.digests, PAGE_PAYLOAD);
        let modules = module_pages.iter_mut().zip(&mut collector.module_bytes);
        for (number, (pages, total)) in modules.enumerate().rev() {
            let module = filter.module(number);
            let start = self.writer.pages();
            for block in module.blocks() {
                self.writer.block(block, Codec::Raw)?;
            }
            *pages = self.writer.pages() - start;
            *total += module.len() as u64;
        }
        drop(filter);
        self.reservation.shrink(held);
        collector.members += count as u64;
        collector.digests.clear();
        Ok(())
    }

    /// The same of a filter of ranges, which has one module.
    fn write_ranges(&mut self, module_pages: &mut [u32], millibits: u32) -> Result<()> {
        let Some(collector) = self.scan_filter.as_deref_mut() else {
            return Ok(());
        };
        let held = collector.ranges.building(millibits) as u64;
        self.reservation.grow(held);
        let block = filter::range_block(&collector.ranges, millibits);
        for (pages, total) in module_pages.iter_mut().zip(&mut collector.module_bytes) {
            *pages = self.writer.block(&block, Codec::Raw)?;
            *total += block.len() as u64;
        }
        self.reservation.shrink(held);
        collector.members += collector.ranges.len() as u64;
        collector.ranges.clear();
        Ok(())
    }
}
