//! What should come along with a filter block that is read, of the same partition's filter and
//! index, which lie beside it.
//!
//! Thread-safe: reads the relaxed counts of a [`Heat`], which are hints.

use std::sync::atomic::Ordering::Relaxed;

use shamba_model::expected_reads::{Missing, Neighbours, Visits};

use super::{Heat, ModuleShape};
use crate::cache::clock::Eviction;
use crate::fs::PAGE;

/// An index block that came along is expected to be of use within so many windows, if at all: so few
/// that it comes only where about every other visit needs one.
const STAYS: f32 = 2.0;

impl Heat {
    /// Notes whether a visitor who read a filter block from storage went on past it.
    pub(crate) fn filter_was_read(&self, passed: bool) {
        self.clock.filter_was_read(passed);
    }

    /// What one visit is like where nothing is known but how many of those pass who read filter blocks
    /// lately, by a module that lets `pass` of the empty ones pass.
    fn likely_visit(&self, pass: f32) -> Visits {
        let positive = (self.clock.passing() - pass) / (1.0 - pass).max(0.01);
        let positive = positive.clamp(0.0, 1.0);
        Visits {
            empty: 1.0 - positive,
            positive,
            scans: 0.0,
        }
    }

    /// While memory is plenty, the modules of a partition that are not all resident, a bit for each.
    /// All of them should be read with the first that is needed: they will be wanted and stay,
    /// and one operation reads all.
    pub(crate) fn missing_modules(&self, partition: u32) -> Option<u16> {
        if self.clock.pressed() || self.clock.eviction() != Eviction::ExpectedReads {
            return None;
        }
        let place = self.place(partition)?;
        let missing = self
            .shapes
            .modules
            .iter()
            .enumerate()
            .filter(|(number, module)| {
                let all = u16::from(module.columns).max(module.blocks);
                let here = place.resident.get(*number);
                here.is_none_or(|here| u16::from(here.load(Relaxed)) < all)
            });
        Some(missing.fold(0, |bits, (number, _)| bits | 1 << number))
    }

    /// Whether a visitor who reads module `number`, of so many columns of each it has passed
    /// (`asked`), should read the index block, its neighbour on storage, with it.
    pub(crate) fn joins_index(&self, partition: u32, asked: &[u8], number: usize) -> bool {
        let place = self.place(partition);
        let (Some(place), Some(module)) = (place, self.shapes.modules.get(number)) else {
            return false;
        };
        let index_pages = self.absent_index(place);
        if index_pages == 0.0 || self.clock.eviction() != Eviction::ExpectedReads {
            return false;
        }
        let pressed = self.clock.pressed();
        let rest = |(module, have): (&ModuleShape, &u8)| {
            let missing = module.columns.saturating_sub(*have);
            module.fpr.powi(i32::from(missing))
        };
        // While memory is plenty a visitor reads all that is missing before the index.
        let mut missing = self.shapes.modules.iter().zip(asked).map(rest);
        let pass: f32 = match pressed {
            true => missing.nth(number).unwrap_or(1.0),
            false => missing.product(),
        };
        let visits = match self.visits(partition) {
            // While memory is plenty visits are not all counted: one is here, as they go elsewhere.
            visits if !pressed && visits.no_lookups() => self.likely_visit(pass),
            visits => visits,
        };
        let saved = self.met(place, visits, asked).saved_by_joining(Neighbours {
            module: Missing {
                pass,
                pages: f32::from(module.pages),
            },
            index_pages,
            room: match pressed {
                true => self.clock.price() * index_pages * PAGE as f32,
                false => 0.0,
            },
            windows: STAYS,
        });
        saved > 0.0
    }
}
