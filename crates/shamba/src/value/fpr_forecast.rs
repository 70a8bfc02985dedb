//! How likely absent keys are to pass a partition's filter as it is resident now, for statistics
//! only: nothing here decides anything. Pure functions over a [`PartitionView`].

use super::geometry::fpr_of_whole;
use super::view::PartitionView;
use crate::fs::{BlockKind, PAGE};

/// No filter has more modules: a limit of the format (`filter::MAX_MODULES`), nothing to tune.
const MODULES: usize = 16;

/// What a byte is worth of the index block and of the part of a filter that are worth most of those
/// not resident, in page reads per window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct AbsentValue {
    pub(crate) index: f32,
    pub(crate) filter: f32,
}

impl AbsentValue {
    /// The greater of each.
    pub(crate) fn max(self, other: AbsentValue) -> AbsentValue {
        AbsentValue {
            index: self.index.max(other.index),
            filter: self.filter.max(other.filter),
        }
    }
}

impl PartitionView<'_> {
    /// What of the partition is not resident and worth most, where `blocks` says how many blocks a
    /// module has in it: the last partition may have fewer than the others. Modules that are not
    /// tracked are left out.
    pub(super) fn best_absent(&self, blocks: impl Fn(u8) -> u16) -> AbsentValue {
        let mut best = AbsentValue::default();
        let density =
            |kind, columns, pages: f32| self.value_of_next(kind, columns) / (pages * PAGE as f32);
        if !self.index_resident {
            best.index = density(BlockKind::Index, 0, self.index_pages).max(0.0);
        }
        let modules = (0..).zip(self.modules).zip(self.resident);
        for ((number, module), resident) in modules {
            let (columns, pages) = match module.columns {
                0 | 1 if u16::from(resident) < blocks(number) => (1, f32::from(module.pages)),
                all if resident < all && all > 1 => {
                    (resident + 1, f32::from(module.pages) / f32::from(all))
                }
                _ => continue,
            };
            let density = density(BlockKind::Filter(number), columns, pages);
            best.filter = best.filter.max(density);
        }
        best
    }

    /// The chance that a key which the partition does not hold passes all that a lookup will probe:
    /// modules below `limit`, read where they are absent; of the others what is resident; and,
    /// where value decides (`by_value`), what [`Self::best_to_read`] would have it read.
    ///
    /// Exact by the families' rates but for two things: of modules that are not tracked what is
    /// resident counts as absent, and of a module of several blocks in a partition the one probed
    /// is resident or not, by chance.
    pub(super) fn forecast_fpr(&self, limit: usize, by_value: bool) -> f32 {
        if by_value && !self.under_pressure {
            return fpr_of_whole(self.modules);
        }
        let mut probed = [0; MODULES];
        let mut pass = 1.0;
        for ((number, module), probed) in self.modules.iter().enumerate().zip(&mut probed) {
            let resident = self.resident.get(number).copied().unwrap_or(0);
            // Some columns in memory are probed instead of all on storage.
            let read = number < limit && (module.columns <= 1 || resident == 0);
            *probed = match module.columns {
                columns if read => columns,
                0 | 1 => u8::from(u16::from(resident) >= module.blocks),
                _ => resident,
            };
            pass *= if read {
                module.fpr_of(module.columns)
            } else {
                self.fpr_of(number)
            };
        }
        while by_value && let Some(number) = self.best_to_read(&probed, false) {
            let (Some(module), Some(probed)) = (self.modules.get(number), probed.get_mut(number))
            else {
                break;
            };
            let before = self.fpr_of(number);
            pass *= module.fpr_of(module.columns) / before.max(f32::MIN_POSITIVE);
            *probed = module.columns;
        }
        pass.min(1.0)
    }
}
