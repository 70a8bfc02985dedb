//! What of each partition is resident.
//!
//! Thread-safe: relaxed counts of a [`Heat`], which are hints.

use std::sync::atomic::Ordering::Relaxed;

use super::super::rough::Rough;
use super::{Cell, Heat, ModuleShape};
use crate::fs::BlockKind;

impl Cell {
    /// A number from 0 to 1 that differs from visit to visit.
    fn chance(&self) -> f32 {
        let counts = [&self.empty, &self.positive, &self.tick].map(|count| count.load(Relaxed));
        let mixed = counts.iter().fold(0u32, |mixed, count| {
            (mixed ^ u32::from(*count)).wrapping_mul(0x9e37_79b1)
        });
        (mixed >> 8) as f32 / (1u32 << 24) as f32
    }
}

impl Heat {
    /// What is known of a partition, if there is such a partition.
    #[inline]
    pub(super) fn place(&self, partition: u32) -> Option<&Cell> {
        self.cells.get(partition as usize)
    }

    /// The empty visits for which those stand that got by what is resident of a partition's filter.
    pub(super) fn past(&self, partition: u32) -> f32 {
        let place = self.place(partition);
        place.map_or(0.0, |place| Rough(place.past.load(Relaxed)).get())
    }

    pub(super) fn set_past(&self, partition: u32, past: f32) {
        if let Some(place) = self.place(partition) {
            let past = Rough::of(past, place.chance());
            place.past.store(past.0, Relaxed);
        }
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
    pub(super) fn pass_of(&self, place: &Cell, number: usize, module: &ModuleShape) -> f32 {
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

    pub(super) fn absent_index(&self, place: &Cell) -> f32 {
        if place.index.load(Relaxed) == 0 {
            self.index_pages()
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
                    (place.resident.get(number), self.shapes.modules.get(number))
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
