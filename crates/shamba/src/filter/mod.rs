//! Filters as lists of modules.
//!
//! A [`FilterPlan`] lists the modules of a table's filter; each module is stored, cached, probed
//! and skipped by itself. This module turns key digests into the modules' blocks
//! ([`ModuleWriter`]) and answers whether a block may contain a digest ([`may_contain`]). Bytes are
//! specified in docs/format.md, "Filter modules". Everything here is pure; nothing does I/O.
//!
//! Protocol: `ModuleShape::of`, `ModuleWriter::new`, `add` for each digest remixed by the module's
//! number, then `blocks`. A probe takes block number [`locate`] of the same hash.

mod blocked;
mod bloom;
mod plan;

use std::ops::Range;

use crate::base::digest::KeyDigest;

pub(crate) use plan::{
    Family, FileContext, FilterOptions, FilterPlan, Layout, MAX_MODULES, ModulePlan, PlanError,
    plan,
};

/// Successive probes multiply the hash by this odd constant (the golden ratio in 64 bits).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maps a hash evenly to `0..n` by its high bits.
#[inline]
const fn fast_range(hash: u64, n: u64) -> u64 {
    ((hash as u128 * n as u128) >> 64) as u64
}

/// How a module's bytes are divided into blocks.
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
    let granule = module.family.granule();
    let bits = (page_payload - page_payload % granule) as u64 * 8 * u64::from(pages);
    usize::try_from(bits * 1000 / u64::from(module.millibits.max(1))).unwrap_or(usize::MAX)
}

/// The block of a module that a hash belongs to.
#[inline]
pub(crate) const fn locate(hash: u64, blocks: u32) -> u32 {
    fast_range(hash, blocks as u64) as u32
}

/// The hash that a module knows a key by.
#[inline]
pub(crate) fn hash_of(_module: &ModulePlan, number: usize, digest: KeyDigest) -> u64 {
    digest.remix(number as u32)
}

/// The pages of the block that a hash belongs to, of the pages of a module in one partition.
#[inline]
pub(crate) fn block_of(
    _module: &ModulePlan,
    layout: Layout,
    hash: u64,
    pages: Range<u32>,
) -> Range<u32> {
    match layout {
        Layout::Whole => pages,
        Layout::Partitioned => {
            let page = pages.start + locate(hash, pages.end - pages.start);
            page..page + 1
        }
    }
}

/// Whether a block may contain the key of this hash. A block too short to be of its family may
/// contain everything.
#[inline]
pub(crate) fn may_contain(module: &ModulePlan, block: &[u8], hash: u64) -> bool {
    match module.family {
        Family::Bloom => bloom::may_contain(block, hash, module.hashes),
        Family::Blocked => blocked::may_contain(block, hash, module.hashes),
    }
}

/// Builds one module.
#[derive(Debug)]
pub(crate) struct ModuleWriter {
    plan: ModulePlan,
    shape: ModuleShape,
    bits: Vec<u8>,
}

impl ModuleWriter {
    /// An empty module of a shape; holds `shape.len()` bytes.
    pub(crate) fn new(plan: ModulePlan, shape: ModuleShape) -> Self {
        ModuleWriter {
            plan,
            shape,
            bits: vec![0; shape.len()],
        }
    }

    /// Adds a key by its digest, remixed with the module's number.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        let start = locate(hash, self.shape.blocks) as usize * self.shape.block_len;
        let Some(block) = self.bits.get_mut(start..start + self.shape.block_len) else {
            return;
        };
        match self.plan.family {
            Family::Bloom => bloom::add(block, hash, self.plan.hashes),
            Family::Blocked => blocked::add(block, hash, self.plan.hashes),
        }
    }

    /// The module's blocks, in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.bits.chunks(self.shape.block_len)
    }
}

#[cfg(test)]
mod tests;
