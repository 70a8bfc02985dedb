//! What is to be expected of lookups as the partitions are now, for statistics only: nothing here
//! decides anything.

use std::sync::atomic::Ordering::Relaxed;

use super::{Heat, ModuleShape};
use crate::cache::stats::FILTER_MODULES;
use crate::fs::{BlockKind, PAGE};

/// What a byte is worth of the index block and of the part of a filter that are worth most of those
/// not resident, in page reads per window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Absent {
    pub(crate) index: f32,
    pub(crate) filter: f32,
}

impl Heat {
    /// What of the table is not resident and worth most, where `blocks` says how many blocks a
    /// module has in a partition: the last one may have fewer than the others. Modules that are not
    /// tracked are left out. Takes time in the number of partitions.
    pub(crate) fn best_absent(&self, blocks: impl Fn(u32, u8) -> u16) -> Absent {
        let mut best = Absent::default();
        for (partition, place) in (0..).map_while(|at| Some((at, self.place(at)?))) {
            let density = |kind, columns, pages: f32| {
                self.worth_of_next(partition, kind, columns) / (pages * PAGE as f32)
            };
            if place.index.load(Relaxed) == 0 {
                let density = density(BlockKind::Index, 0, self.index_pages());
                best.index = best.index.max(density);
            }
            let modules = (0..).zip(&*self.shapes.modules).zip(&place.resident);
            for ((number, module), here) in modules {
                let here = here.load(Relaxed);
                let (columns, pages) = match module.columns {
                    0 | 1 if u16::from(here) < blocks(partition, number) => {
                        (1, f32::from(module.pages))
                    }
                    all if here < all && all > 1 => {
                        (here + 1, f32::from(module.pages) / f32::from(all))
                    }
                    _ => continue,
                };
                let density = density(BlockKind::Filter(number), columns, pages);
                best.filter = best.filter.max(density);
            }
        }
        best
    }

    /// The chance that a key which a partition does not hold passes all that a lookup will ask:
    /// modules below `limit`, read where they are absent; of the others what is resident; and, by
    /// worth, what [`Heat::best_to_read`] would have it read. 0 outside all partitions.
    ///
    /// Exact by the families' rates but for two things: of modules that are not tracked what is
    /// resident counts as absent, and of a module of several blocks in a partition the one asked
    /// is resident or not, by chance.
    pub(crate) fn chance_to_pass(&self, partition: u32, limit: usize, by_worth: bool) -> f32 {
        let Some(place) = self.place(partition) else {
            return 0.0;
        };
        if by_worth && !self.clock.pressed() {
            // All of it is read where it is absent.
            let whole = |module: &ModuleShape| module.fpr.powi(i32::from(module.columns));
            return self
                .shapes
                .modules
                .iter()
                .map(whole)
                .product::<f32>()
                .min(1.0);
        }
        let mut asked = [0; FILTER_MODULES];
        let mut pass = 1.0;
        for ((number, module), asked) in self.shapes.modules.iter().enumerate().zip(&mut asked) {
            let here = place
                .resident
                .get(number)
                .map_or(0, |here| here.load(Relaxed));
            // Some columns in memory are asked instead of all on storage.
            let read = number < limit && (module.columns <= 1 || here == 0);
            *asked = match module.columns {
                columns if read => columns,
                0 | 1 => u8::from(u16::from(here) >= module.blocks),
                _ => here,
            };
            pass *= match read {
                true => module.fpr.powi(i32::from(module.columns)),
                false => self.pass_of(place, number, module),
            };
        }
        while by_worth && let Some(number) = self.best_to_read(partition, &asked, false) {
            let (Some(module), Some(asked)) =
                (self.shapes.modules.get(number), asked.get_mut(number))
            else {
                break;
            };
            let before = self.pass_of(place, number, module);
            pass *= module.fpr.powi(i32::from(module.columns)) / before.max(f32::MIN_POSITIVE);
            *asked = module.columns;
        }
        pass.min(1.0)
    }
}
