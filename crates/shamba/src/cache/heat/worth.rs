//! What a block of a partition is worth in memory, and whether a visitor should read more of its filter.
//!
//! Thread-safe: reads the relaxed counts of a [`Heat`], which are hints.

use shamba_model::expected_reads::{Missing, Partition, Visits};

use super::{Cell, Heat, Part};
use crate::fs::{BlockKind, PAGE};

/// What a block, or the part of it that can be dropped first, is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cache) struct Worth {
    /// Page reads saved per window.
    pub(in crate::cache) value: f32,
    /// Columns that would be left without the part; 0: the part is the whole block.
    pub(in crate::cache) left: u8,
}

impl Heat {
    /// A partition as a visit meets it, but for module `except`; the best of the other modules
    /// that are missing is the one to read.
    fn partition(&self, place: &Cell, visits: Visits, except: Option<usize>) -> Partition {
        let mut partition = Partition {
            visits,
            pass: 1.0,
            missing: None,
            index_pages: self.absent_index(place),
        };
        for (number, module) in self.shapes.modules.iter().enumerate() {
            if Some(number) == except {
                continue;
            }
            let pass = self.pass_of(place, number, module);
            partition.pass *= pass;
            let whole = module.fpr.powi(i32::from(module.columns));
            let rest = whole / pass.max(1e-9);
            if rest < 0.9 && partition.missing.is_none_or(|best| rest < best.pass) {
                partition.missing = Some(Missing {
                    pass: rest,
                    pages: f32::from(module.pages),
                });
            }
        }
        partition
    }

    /// What a block would be worth that is not, or not wholly, in memory, or the last of so many columns.
    pub(super) fn worth_of_next(&self, partition: u32, kind: BlockKind, columns: u8) -> f32 {
        let part = Part::Arriving { turned_away: false };
        self.appraise(partition, kind, columns, part).value
    }

    /// What a block is worth; `columns` are those in it, of which `part` is the last.
    pub(in crate::cache) fn appraise(
        &self,
        partition: u32,
        kind: BlockKind,
        columns: u8,
        part: Part,
    ) -> Worth {
        let nothing = Worth {
            value: 0.0,
            left: 0,
        };
        let Some(place) = self.place(partition) else {
            return nothing;
        };
        let visits = self.expected(partition);
        match kind {
            BlockKind::Index => Worth {
                value: Partition {
                    pass: self.passing(partition, place, visits),
                    ..self.partition(place, visits, None)
                }
                .value_of_index(self.index_pages()),
                left: 0,
            },
            BlockKind::Filter(number) => Worth {
                value: self.value_of_column(partition, place, visits, number, columns, part),
                left: columns.saturating_sub(1),
            },
            _ => nothing,
        }
    }

    /// What the last of so many columns of a module is worth, or a block without columns.
    fn value_of_column(
        &self,
        partition: u32,
        place: &Cell,
        visits: Visits,
        number: u8,
        columns: u8,
        part: Part,
    ) -> f32 {
        let Some(module) = self.shapes.modules.get(usize::from(number)) else {
            return 0.0;
        };
        let mut others = self.partition(place, visits, Some(usize::from(number)));
        let kind = BlockKind::Filter(number);
        if let Some(value) = self.value_as_seen(partition, place, &others, kind, columns, part) {
            return value;
        }
        let share = 1.0 / f32::from(module.blocks.max(1));
        others.visits.empty *= share;
        others.visits.positive *= share;
        others.pass *= module.fpr.powi(i32::from(columns.saturating_sub(1)));
        let rest = module
            .fpr
            .powi(i32::from(module.columns.saturating_sub(columns)));
        others.value_of_filter(module.fpr, rest, f32::from(module.pages))
    }

    /// The module that a visitor should read more of before it goes on, if any; it has passed
    /// so many columns of each module (`asked`), and may have seen the index block (`past_index`)
    /// already. While there is room for all, any that is missing.
    pub(crate) fn best_to_read(
        &self,
        partition: u32,
        asked: &[u8],
        past_index: bool,
    ) -> Option<usize> {
        let place = self.place(partition)?;
        let modules = || self.shapes.modules.iter().zip(asked).enumerate();
        let visits = self.expected(partition);
        let mut now = self.met(place, visits, asked);
        // More of the empty visitors, or fewer, may pass what is in memory than the model has it.
        now.pass *= self.passing(partition, place, visits) / self.pass(place);
        if past_index {
            now.index_pages = 0.0;
        }
        let mut best = None;
        for (number, (module, columns)) in modules() {
            if *columns >= module.columns {
                continue;
            }
            if !self.clock.pressed() {
                return Some(number);
            }
            let saved = self.saved_by_reading(partition, place, &now, number, *columns);
            if saved > 0.0 && best.is_none_or(|(_, most)| saved > most) {
                best = Some((number, saved));
            }
        }
        best.map(|(number, _)| number)
    }

    /// A partition as a visitor met it who has passed so many columns of each module.
    pub(super) fn met(&self, place: &Cell, visits: Visits, asked: &[u8]) -> Partition {
        let passed = self.shapes.modules.iter().zip(asked);
        Partition {
            visits,
            pass: passed
                .map(|(module, columns)| module.fpr.powi(i32::from(*columns)))
                .product(),
            missing: None,
            index_pages: self.absent_index(place),
        }
    }

    /// Page reads saved, net, by reading the columns of a module of which a visitor asked but
    /// `have`: now, and within a window by those that would stay.
    fn saved_by_reading(
        &self,
        partition: u32,
        place: &Cell,
        now: &Partition,
        number: usize,
        have: u8,
    ) -> f32 {
        let Some(module) = self.shapes.modules.get(number) else {
            return 0.0;
        };
        let pages = f32::from(module.pages);
        let net = now.saved_by_fetching(Missing {
            pass: module
                .fpr
                .powi(i32::from(module.columns.saturating_sub(have))),
            pages,
        });
        let price = self.clock.price() * pages * PAGE as f32 / f32::from(module.columns);
        let mut gain = 0.0;
        for columns in have..module.columns {
            let (number, part) = (number as u8, Part::Arriving { turned_away: false });
            let value =
                self.value_of_column(partition, place, now.visits, number, columns + 1, part);
            if value <= price {
                break;
            }
            gain += value - price;
        }
        net + gain
    }
}
