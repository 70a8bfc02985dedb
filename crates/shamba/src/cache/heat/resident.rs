//! What of each partition is resident.
//!
//! Thread-safe: relaxed counts of a [`Heat`], which are hints.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::{Heat, ModuleShape, TRACKED};
use crate::fs::BlockKind;

/// What of one partition is resident.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// Whether the index block is resident.
    pub(super) index: &'a AtomicU8,
    /// Blocks or columns resident of each module that is tracked.
    pub(super) resident: &'a [AtomicU8],
}

/// Counts of each partition: of its index block and of the modules that are tracked.
#[inline]
pub(super) fn counts(modules: &[ModuleShape]) -> usize {
    1 + modules.len().min(TRACKED)
}

impl Heat {
    /// What of a partition is resident, if there is such a partition.
    #[inline]
    pub(super) fn place(&self, partition: u32) -> Option<Place<'_>> {
        let (at, each) = (partition as usize, counts(&self.modules));
        let resident = self.resident.get(at * each..(at + 1) * each)?;
        let (index, resident) = resident.split_first()?;
        Some(Place { index, resident })
    }

    /// Takes back what [`Self::suppose_kept`] supposed.
    pub(crate) fn suppose_nothing(&self, partition: u32) {
        if let Some(place) = self.place(partition) {
            place.index.store(0, Relaxed);
            place
                .resident
                .iter()
                .for_each(|count| count.store(0, Relaxed));
        }
    }

    /// The chance that what is resident of module `number` lets an absent key pass.
    pub(super) fn pass_of(&self, place: Place<'_>, number: usize, module: &ModuleShape) -> f32 {
        let Some(resident) = place.resident.get(number) else {
            return 1.0;
        };
        let resident = resident.load(Relaxed);
        if module.columns > 1 {
            module.fpr.powi(i32::from(resident))
        } else {
            let share = (f32::from(resident) / f32::from(module.blocks.max(1))).min(1.0);
            1.0 - share * (1.0 - module.fpr)
        }
    }

    pub(super) fn absent_index(&self, place: Place<'_>) -> f32 {
        if place.index.load(Relaxed) == 0 {
            self.index_pages
        } else {
            0.0
        }
    }

    /// Notes that a block came or went, or how many columns are there now.
    pub(in crate::cache) fn set_resident(
        &self,
        partition: u32,
        kind: BlockKind,
        columns: u8,
        here: bool,
    ) {
        let Some(place) = self.place(partition) else {
            return;
        };
        match kind {
            BlockKind::Index => place.index.store(u8::from(here), Relaxed),
            BlockKind::Filter(number) => {
                let number = usize::from(number);
                let (Some(resident), Some(module)) =
                    (place.resident.get(number), self.modules.get(number))
                else {
                    return;
                };
                if module.columns > 1 {
                    resident.store(if here { columns } else { 0 }, Relaxed);
                } else {
                    let count = resident.load(Relaxed);
                    let count = if here {
                        count.saturating_add(1)
                    } else {
                        count.saturating_sub(1)
                    };
                    resident.store(count, Relaxed);
                }
            }
            _ => {}
        }
    }
}
