//! Builds the blocks of a partition's filter.
//!
//! Protocol: hold [`FilterWriter::memory`] bytes, then [`FilterWriter::new`] with the partition's
//! digests, then [`FilterWriter::module`] for the modules in any order. The equations behind
//! ribbon columns are solved once, in `new`, for all ribbon modules; Bloom modules are built one
//! at a time.

use super::banding::{self, Solution};
use super::plan::{Family, FilterPlan, Layout, ModulePlan};
use super::{ModuleShape, blocked, bloom, hash_of, locate, ribbon};
use crate::base::digest::KeyDigest;

/// Builds the modules of one partition.
#[derive(Debug)]
pub(crate) struct FilterWriter<'a> {
    plan: &'a FilterPlan,
    digests: &'a [KeyDigest],
    page_payload: usize,
    /// The columns of all ribbon modules, if there are any.
    columns: Option<Solution>,
}

/// The blocks of one module, all equally long.
#[derive(Debug)]
pub(crate) struct ModuleBlocks {
    bytes: Box<[u8]>,
    block_len: usize,
}

impl ModuleBlocks {
    /// The blocks, in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.block_len.max(1))
    }

    /// Bytes of all blocks.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> FilterWriter<'a> {
    /// The most memory that building and holding the modules of `keys` keys takes, one module
    /// held at a time, in bytes.
    pub(crate) fn memory(plan: &FilterPlan, keys: usize, page_payload: usize) -> usize {
        let columns = plan.columns_before(plan.modules.len());
        let column_len = column_len(plan, keys, page_payload);
        let banding = match columns {
            0 => 0,
            _ => banding::memory(keys, column_len, columns),
        };
        let module = |module: &ModulePlan| match module.family {
            Family::Ribbon => usize::from(module.columns) * column_len + ribbon::HEADER,
            _ => ModuleShape::of(module, plan.layout, keys, page_payload).len(),
        };
        let module = plan.modules.iter().map(module).max().unwrap_or(0);
        banding.max(columns * column_len + module)
    }

    /// Starts on the modules of a plan over the keys of these digests, where a page of the
    /// partitioned layout holds `page_payload` bytes.
    pub(crate) fn new(plan: &'a FilterPlan, digests: &'a [KeyDigest], page_payload: usize) -> Self {
        let columns = plan.columns_before(plan.modules.len());
        let ribbon = plan.modules.iter().position(|m| m.family == Family::Ribbon);
        let columns = ribbon.and_then(|number| {
            let module = plan.modules.get(number)?;
            let hashes = digests
                .iter()
                .map(|digest| hash_of(module, number, *digest));
            let column_len = column_len(plan, digests.len(), page_payload);
            Some(banding::solve(hashes, column_len, columns))
        });
        FilterWriter {
            plan,
            digests,
            page_payload,
            columns,
        }
    }

    /// Builds a module; none of that number has no blocks.
    pub(crate) fn module(&self, number: usize) -> ModuleBlocks {
        let Some(module) = self.plan.modules.get(number) else {
            return ModuleBlocks {
                bytes: Box::default(),
                block_len: 1,
            };
        };
        if let (Family::Ribbon, Some(solution)) = (module.family, &self.columns) {
            let first = self.plan.columns_before(number);
            let bytes = ribbon::block(solution, first, usize::from(module.columns));
            return ModuleBlocks {
                block_len: bytes.len(),
                bytes,
            };
        }
        let shape = ModuleShape::of(
            module,
            self.plan.layout,
            self.digests.len(),
            self.page_payload,
        );
        let mut bytes = vec![0; shape.len()].into_boxed_slice();
        for digest in self.digests {
            let hash = hash_of(module, number, *digest);
            let start = locate(hash, shape.blocks) as usize * shape.block_len;
            let Some(block) = bytes.get_mut(start..start + shape.block_len) else {
                continue;
            };
            match module.family {
                Family::Blocked => blocked::add(block, hash, module.hashes),
                _ => bloom::add(block, hash, module.hashes),
            }
        }
        ModuleBlocks {
            bytes,
            block_len: shape.block_len,
        }
    }
}

/// Bytes of the columns over `keys` keys: in the partitioned layout such that the largest ribbon
/// module stays in a page, if it nearly would.
fn column_len(plan: &FilterPlan, keys: usize, page_payload: usize) -> usize {
    let keys = keys as u64;
    let slots = match plan.layout {
        Layout::Whole => shamba_model::ribbon::slots(keys),
        Layout::Partitioned => {
            let most = plan.modules.iter().map(|module| module.columns).max();
            let room = page_slots(most.unwrap_or(1), page_payload);
            shamba_model::ribbon::slots_within(keys, room as u64)
        }
    };
    usize::try_from(slots.div_ceil(8)).unwrap_or(usize::MAX / 64)
}

/// Slots of a page of so many columns, each of which takes its part of the page with a header of
/// its own: as it does in memory, where it may be kept alone.
pub(super) fn page_slots(columns: u8, page_payload: usize) -> usize {
    let each = page_payload / usize::from(columns.max(1));
    each.saturating_sub(ribbon::HEADER) * 8
}
