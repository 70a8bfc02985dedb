//! What a lookup should read now, and what to read with it: pure functions over a
//! [`PartitionView`].

use shamba_model::expected_reads::{Missing, Neighbours, Partition, Visits};

use super::geometry::ModuleGeometry;
use super::rejections::ColumnEvidence;
use super::view::PartitionView;
use crate::fs::PAGE;

/// An index block that was read with a filter is expected to be of use within so many windows, if
/// at all: so few that it is read only where about every other visit needs one. Felt in the first
/// lookups of a cold database: half reads with 5 % more operations and 1 % fewer pages, double with
/// 12 % fewer operations and 3 % more pages. Once memory is full nothing is read so.
const INDEX_WINDOWS: f32 = 2.0;

/// What was counted in a smaller share of a window is taken for what is counted in this one. Memory
/// is hardly full before: with a thousandth not a read more or less was made where it was tried.
const LEAST_OBSERVED: f32 = 1.0 / 64.0;

impl PartitionView<'_> {
    /// The module of which a visitor should read more before it goes on, if any; it has passed so
    /// many columns of each module (`probed`), and may have seen the index block already
    /// (`past_index`). While memory is plenty, any that is missing.
    pub(super) fn best_to_read(&self, probed: &[u8], past_index: bool) -> Option<usize> {
        let mut now = self.met_by(self.expected, probed);
        // More of the empty visitors, or fewer, may pass what is resident than the model has it.
        now.pass *= self.observed_fpr() / self.fpr();
        if past_index {
            now.index_pages = 0.0;
        }
        let mut best = None;
        for (number, (module, columns)) in self.modules.iter().zip(probed).enumerate() {
            if *columns >= module.columns {
                continue;
            }
            if !self.under_pressure {
                return Some(number);
            }
            let saved = self.saved_by_reading(&now, number, *columns);
            if saved > 0.0 && best.is_none_or(|(_, most)| saved > most) {
                best = Some((number, saved));
            }
        }
        best.map(|(number, _)| number)
    }

    /// Page reads saved, net, by reading the columns of a module of which a visitor probed but
    /// `have`: now, and within a window by those that would stay resident. At first visits, and
    /// values with them, are of a part of a window only. What is read then saves as much later, and
    /// nobody reads it later: of the few who pass most of a filter nearly all find their key.
    fn saved_by_reading(&self, now: &Partition, number: usize, have: u8) -> f32 {
        let Some(module) = self.modules.get(number) else {
            return 0.0;
        };
        let pages = f32::from(module.pages);
        let net = now.saved_by_fetching(Missing {
            pass: module.fpr_without(have),
            pages,
        });
        let price = self.price * pages * PAGE as f32 / f32::from(module.columns);
        let mut gain = 0.0;
        for columns in have..module.columns {
            let value = self.value_of_column(number as u8, columns + 1, ColumnEvidence::UNKNOWN);
            if value <= price {
                break;
            }
            gain += value - price;
        }
        net + gain / self.observed.max(LEAST_OBSERVED)
    }

    /// While memory is plenty, the modules that are not all resident, a bit for each. All of them
    /// should be read with the first that is needed: they will be wanted and stay, and one
    /// operation reads all.
    pub(super) fn missing_modules(&self) -> Option<u16> {
        if self.under_pressure || !self.active {
            return None;
        }
        let missing = self.modules.iter().enumerate().filter(|(number, module)| {
            let all = u16::from(module.columns).max(module.blocks);
            let resident = self.resident.get(*number);
            resident.is_none_or(|resident| u16::from(*resident) < all)
        });
        Some(missing.fold(0, |bits, (number, _)| bits | 1 << number))
    }

    /// Whether a visitor who reads module `number`, having passed so many columns of each
    /// (`probed`), should read the index block, its neighbour on storage, with it.
    pub(super) fn coalesces_index(&self, probed: &[u8], number: usize) -> bool {
        let Some(module) = self.modules.get(number) else {
            return false;
        };
        let index_pages = self.missing_index_pages();
        if index_pages == 0.0 || !self.active {
            return false;
        }
        let rest = |(module, have): (&ModuleGeometry, &u8)| module.fpr_without(*have);
        // While memory is plenty a visitor reads all that is missing before the index.
        let mut missing = self.modules.iter().zip(probed).map(rest);
        let pass: f32 = if self.under_pressure {
            missing.nth(number).unwrap_or(1.0)
        } else {
            missing.product()
        };
        let visits = match self.visits {
            // While memory is plenty not all visits are counted: take one, as they go elsewhere.
            visits if !self.under_pressure && visits.no_lookups() => self.typical_visit(pass),
            visits => visits,
        };
        let saved = self.met_by(visits, probed).saved_by_joining(Neighbours {
            module: Missing {
                pass,
                pages: f32::from(module.pages),
            },
            index_pages,
            room: if self.under_pressure {
                self.price * index_pages * PAGE as f32
            } else {
                0.0
            },
            windows: INDEX_WINDOWS,
        });
        saved > 0.0
    }

    /// What one visit is like where nothing is known but how many lately passed the filter blocks
    /// they read, by a module that lets `pass` of the empty ones pass.
    fn typical_visit(&self, pass: f32) -> Visits {
        let positive = (self.passing - pass) / (1.0 - pass).max(0.01);
        let positive = positive.clamp(0.0, 1.0);
        Visits {
            empty: 1.0 - positive,
            positive,
            scans: 0.0,
        }
    }
}
