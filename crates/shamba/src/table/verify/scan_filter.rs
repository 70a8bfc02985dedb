//! Checks a table's filter for scans: every block's checksum, and that it has every key of ranges,
//! or every prefix, if the table says all of what its prefixes are. What a function says of keys is
//! not known here.

use super::Verifier;
use crate::base::digest::KeyDigest;
use crate::base::key::common_prefix;
use crate::error::Result;
use crate::filter::{self, ScanRule};
use crate::fs::BlockKind;
use crate::table::stated_scan_filter::{ScanFilter, StatedScanFilter};
use crate::table::table_blocks::BlockRef;

/// What was seen of what the filter is of.
pub(super) struct SeenScanFilter {
    rule: Option<ScanRule>,
    /// The partition's block of a filter of ranges, if that is sound, its page, and whether a key
    /// is missing in it.
    ranges: Option<(BlockRef, u32, bool)>,
    /// Of the partition.
    digests: Vec<KeyDigest>,
    /// Whether no key of the partition was seen.
    is_first: bool,
    members: u64,
    bytes: u64,
}

impl SeenScanFilter {
    pub(super) fn of(filter: &ScanFilter) -> Self {
        SeenScanFilter {
            rule: ScanRule::named(&filter.rule),
            ranges: None,
            digests: Vec::new(),
            is_first: true,
            members: 0,
            bytes: 0,
        }
    }

    /// A key that is not the one before, which was `last`.
    pub(super) fn key(&mut self, last: &[u8], key: &[u8]) {
        let rule = match &self.rule {
            Some(ScanRule::Prefixes(rule)) => rule,
            Some(ScanRule::Ranges { .. }) => {
                if let Some((block, _, is_missing)) = &mut self.ranges {
                    self.members += u64::from(filter::has_ranges(block));
                    *is_missing |= !filter::range_may_hold(block, key, key);
                }
                return;
            }
            None => return,
        };
        let shared = if std::mem::take(&mut self.is_first) {
            0
        } else {
            common_prefix(last, key)
        };
        let digests = &mut self.digests;
        rule.each_longer(key, shared, |prefix| digests.push(KeyDigest::of(prefix)));
    }

    pub(super) fn memory(&self) -> usize {
        self.digests.capacity() * size_of::<KeyDigest>()
    }

    /// What the table should say of them, as far as that is known.
    pub(super) fn stated(self, stated: StatedScanFilter) -> StatedScanFilter {
        StatedScanFilter {
            members: match self.rule {
                Some(_) => self.members,
                None => stated.members,
            },
            bytes: self.bytes,
            ..stated
        }
    }
}

impl Verifier<'_, '_> {
    /// Before the entries of a partition are seen: its block of a filter of ranges.
    pub(super) fn ranges(&mut self, partition: usize) -> Result<()> {
        let table = self.table;
        let is_of_ranges =
            |seen: &SeenScanFilter| matches!(seen.rule, Some(ScanRule::Ranges { .. }));
        if !self.scan_filter.as_ref().is_some_and(is_of_ranges) {
            return Ok(());
        }
        let pages = table.top.module(partition, table.plan.modules.len());
        let pages = pages.unwrap_or(0..0);
        let start = pages.start;
        let block = self.read(pages, BlockKind::Filter(0))?;
        if let Some(seen) = &mut self.scan_filter {
            seen.bytes += block.as_ref().map_or(0, |block| block.len() as u64);
            seen.ranges = block.map(|block| (block, start, false));
        }
        Ok(())
    }

    /// Checks the filter of a partition whose entries were seen.
    pub(super) fn scan_filter(&mut self, partition: usize) -> Result<()> {
        let table = self.table;
        let (Some(filter), Some(mut seen)) =
            (table.scan_filter.as_deref(), self.scan_filter.take())
        else {
            return Ok(());
        };
        if let Some((_, start, true)) = seen.ranges.take() {
            let what = "a filter of ranges does not contain a key of its partition";
            self.problem(start, what);
        }
        // Its blocks were read before.
        let of_prefixes = !matches!(seen.rule, Some(ScanRule::Ranges { .. }));
        let modules = filter.plan.modules.iter().filter(|_| of_prefixes);
        for (number, module) in modules.enumerate() {
            let place = table.plan.modules.len() + number;
            let pages = table.top.module(partition, place).unwrap_or(0..0);
            let (blocks, size) =
                filter::division(module, filter.plan.layout, pages.end - pages.start);
            for block in 0..u32::from(blocks) {
                // Of each block, whether it has the digests that belong to it.
                let start = pages.start + block * u32::from(size);
                let kind = BlockKind::Filter(number as u8);
                let Some(block) = self.read(start..start + u32::from(size), kind)? else {
                    continue;
                };
                seen.bytes += block.len() as u64;
                let is_missing = seen.digests.iter().any(|digest| {
                    let hash = filter::hash_of(module, number, *digest);
                    let place = filter::block_of(module, filter.plan.layout, hash, pages.clone());
                    place.start == start && !filter::may_contain(module, &block, hash)
                });
                if is_missing {
                    self.problem(start, "a filter does not contain a prefix of its partition");
                }
            }
        }
        seen.members += seen.digests.len() as u64;
        seen.digests.clear();
        seen.is_first = true;
        self.scan_filter = Some(seen);
        Ok(())
    }
}
