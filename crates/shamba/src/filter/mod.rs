//! Filters as lists of modules.
//!
//! A [`FilterPlan`] lists the modules of a table's filter; each module is stored, cached, probed
//! and skipped by itself; of a ribbon module memory may hold any part of the columns
//! ([`keep_columns`]). This module turns key digests into the modules' blocks ([`FilterWriter`])
//! and answers whether a block may contain a key ([`may_contain`]). Bytes are specified in
//! docs/format.md, "Filter modules". Everything here is pure; nothing does I/O.
//!
//! Protocol of a probe: [`hash_of`] the module, [`block_of`] that hash, then [`may_contain`]. No
//! caller asks a module for its family. A module of which all blocks are in memory can be parsed
//! once and for all ([`Parsed`]).

mod banding;
mod blocked;
mod bloom;
mod choose;
#[cfg(any(test, all(fuzzing, feature = "testing")))]
pub(crate) mod fuzzing;
mod parsed;
mod plan;
mod prefix;
mod range;
mod ribbon;
mod scan;
mod writer;

use std::ops::Range;

use shamba_model::fpr;

use crate::base::digest::KeyDigest;

#[cfg(test)]
pub(crate) use choose::plan;
pub(crate) use choose::{BlockRoom, Families, FileContext, PlanOptions, choose, curve};
pub use choose::{FilterAllocation, ModuleSizes};
pub(crate) use parsed::{Memo, Parsed};
pub(crate) use plan::{Family, FilterPlan, Layout, MAX_MODULES, ModulePlan, PlanError};
pub use prefix::Prefix;
pub(crate) use prefix::{LONGEST_PREFIX, PrefixFunction, PrefixRule, blank_block};
pub use range::RangeFilter;
pub(crate) use range::{
    RangeKeys, build as range_block, columns as range_columns, has_ranges,
    may_hold as range_may_hold, shrink as keep_range_columns,
};
pub(crate) use scan::{FilteredScan, ScanRule};
pub(crate) use writer::FilterWriter;

/// Successive probes multiply the hash by this odd constant (the golden ratio in 64 bits).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maps a hash evenly to `0..n` by its high bits.
#[inline]
const fn fast_range(hash: u64, n: u64) -> u64 {
    ((hash as u128 * n as u128) >> 64) as u64
}

/// The number that digests are remixed with for ribbon columns: that of no module, so that they
/// are independent of Bloom modules, and the same for all, so that one elimination serves them.
const RIBBON_REMIX: u32 = 256;

/// How a Bloom module's bytes are divided into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModuleShape {
    /// The number of blocks: 1 in the whole layout.
    pub(crate) blocks: u32,
    /// The length of each block, in bytes.
    pub(crate) block_len: usize,
}

impl ModuleShape {
    /// The shape of a module over `keys` keys, where a block of the partitioned layout holds at
    /// most `page_payload` bytes.
    pub(crate) fn of(
        module: &ModulePlan,
        layout: Layout,
        keys: usize,
        page_payload: usize,
    ) -> ModuleShape {
        let bits = (keys as u64).saturating_mul(u64::from(module.millibits)) / 1000;
        let granule = module.family.granule();
        let len = usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX / 2);
        let page = (page_payload - page_payload % granule).max(granule);
        let blocks = match layout {
            Layout::Whole => 1,
            Layout::Partitioned => len.div_ceil(page).max(1),
        };
        let block_len = len.div_ceil(blocks).max(1).next_multiple_of(granule);
        ModuleShape {
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            block_len,
        }
    }

    /// The length of the whole module, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.block_len * self.blocks as usize
    }
}

/// How many keys fill `pages` blocks of `page_payload` bytes as full as they get.
pub(crate) fn keys_filling(module: &ModulePlan, pages: u32, page_payload: usize) -> usize {
    if module.family == Family::Ribbon {
        let slots = writer::page_slots(module.columns, page_payload * pages as usize);
        let keys = shamba_model::ribbon::keys_for(slots as u64);
        return usize::try_from(keys).unwrap_or(usize::MAX);
    }
    let granule = module.family.granule();
    let bits = (page_payload - page_payload % granule) as u64 * 8 * u64::from(pages);
    usize::try_from(bits * 1000 / u64::from(module.millibits.max(1))).unwrap_or(usize::MAX)
}

/// Bits per key, in thousandths, of a module of `bytes` bytes over `keys` keys, as a table's
/// properties state them: as planned, where the plan decides them.
pub(crate) fn written_millibits(module: &ModulePlan, bytes: u64, keys: u64) -> u32 {
    match module.family {
        Family::Bloom | Family::Blocked | Family::Range => module.millibits,
        Family::Ribbon => {
            let millibits = u128::from(bytes) * 8000 / u128::from(keys.max(1));
            u32::try_from(millibits).unwrap_or(u32::MAX).max(1)
        }
    }
}

/// The hash that a module knows a key by.
#[inline]
pub(crate) fn hash_of(module: &ModulePlan, number: usize, digest: KeyDigest) -> u64 {
    digest.remix(match module.family {
        Family::Bloom | Family::Blocked => number as u32,
        Family::Ribbon | Family::Range => RIBBON_REMIX,
    })
}

/// The block of a hash, out of several.
#[inline]
const fn locate(hash: u64, blocks: u32) -> u32 {
    fast_range(hash, blocks as u64) as u32
}

/// How many blocks a module of `pages` pages in one partition has.
#[inline]
pub(crate) const fn blocks_in(module: &ModulePlan, layout: Layout, pages: u32) -> u32 {
    match (layout, module.family) {
        (Layout::Whole, _) | (_, Family::Ribbon | Family::Range) => 1,
        (Layout::Partitioned, _) => pages,
    }
}

/// The pages of the block that a hash belongs to, of the pages of a module in one partition.
#[inline]
pub(crate) fn block_of(
    module: &ModulePlan,
    layout: Layout,
    hash: u64,
    pages: Range<u32>,
) -> Range<u32> {
    let count = blocks_in(module, layout, pages.end - pages.start);
    if count <= 1 {
        return pages;
    }
    let page = pages.start + locate(hash, count);
    page..page + 1
}

/// How many blocks a module of `pages` pages in one partition has, and how many pages each.
pub(crate) fn division(module: &ModulePlan, layout: Layout, pages: u32) -> (u16, u16) {
    let blocks = blocks_in(module, layout, pages).max(1);
    let limit = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    (limit(blocks), limit(pages / blocks))
}

/// The chance that one column of a module, or a module without columns, lets an absent key pass.
pub(crate) fn column_fpr(module: &ModulePlan) -> f32 {
    let bits = f64::from(module.millibits) / 1000.0;
    let hashes = u32::from(module.hashes);
    let fpr = match module.family {
        Family::Bloom => fpr::bloom(bits, hashes),
        Family::Blocked => fpr::blocked(bits, hashes, fpr::LINE_BITS),
        Family::Ribbon => fpr::ribbon(1),
        Family::Range => return range::column_fpr(module.columns, module.millibits),
    };
    fpr.map_or(1.0, |fpr| fpr as f32)
}

/// Whether a block may contain the key of this hash. A block too short to be of its family may
/// contain everything, and so may one without columns.
#[inline]
pub(crate) fn may_contain(module: &ModulePlan, block: &[u8], hash: u64) -> bool {
    rejecting_columns(module, block, hash) == 0
}

/// Which of the block's columns say that it does not contain the key of this hash, a bit for each
/// as of [`columns`]; 0 if it may contain the key.
#[inline]
pub(crate) fn rejecting_columns(module: &ModulePlan, block: &[u8], hash: u64) -> u8 {
    match module.family {
        Family::Bloom => u8::from(!bloom::may_contain(block, hash, module.hashes)),
        Family::Blocked => u8::from(!blocked::may_contain(block, hash, module.hashes)),
        Family::Ribbon => ribbon::rejecting_columns(block, hash),
        // It knows no hashes.
        Family::Range => 0,
    }
}

/// Which of its module's columns a block has; a Bloom block is one column. None if a ribbon block
/// is not sound.
#[inline]
pub(crate) fn columns(module: &ModulePlan, block: &[u8]) -> u8 {
    match module.family {
        Family::Bloom | Family::Blocked => u8::from(!block.is_empty()),
        Family::Range => range::columns(block),
        Family::Ribbon => ribbon::columns(block),
    }
}

/// The block with only those of its columns that are in `keep`.
#[cfg(test)]
pub(crate) fn shrink(module: &ModulePlan, block: &[u8], keep: u8) -> Box<[u8]> {
    match module.family {
        Family::Bloom | Family::Blocked if keep & 1 == 0 => Box::default(),
        Family::Bloom | Family::Blocked => block.into(),
        Family::Range => range::shrink(block, keep).into(),
        Family::Ribbon => ribbon::shrink(block, keep).into(),
    }
}

/// [`columns`] of a block of ribbon columns.
pub(crate) fn ribbon_columns(block: &[u8]) -> u8 {
    ribbon::columns(block)
}

/// A block of ribbon columns cut down to those in `keep`. Every block that comes of it can be
/// probed, and says less; without columns it may contain everything.
pub(crate) fn keep_columns(block: &[u8], keep: u8) -> Vec<u8> {
    ribbon::shrink(block, keep)
}

#[cfg(test)]
mod measured_tests;
#[cfg(test)]
mod ribbon_tests;
#[cfg(test)]
mod tests;
