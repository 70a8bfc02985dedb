//! What a decision is made from: one partition at one moment, as plain data.

use shamba_model::expected_reads::{Missing, Partition, Visits, unless_refuted};

use super::geometry::ModuleGeometry;
use crate::fs::BlockKind;

/// Modules whose resident columns or blocks are known; of later ones nothing counts as resident. A
/// byte for each in each partition. The default filter has three, in some tables four
/// (`FileContext::page_columns`); with half of it the third would never count as resident, double
/// is four bytes more for each partition.
pub(crate) const TRACKED: usize = 4;

/// A module counts as missing if what is missing of it lets fewer of the absent keys pass than
/// this: else there is nothing to read. One column less lets half pass, so that for columns any
/// number from 0.5 to 1 says the same; it is felt by Bloom modules of less than a bit per key.
const LETS_ALL_PASS: f32 = 0.9;

/// A partition at one moment: its filter, who visits it, what of it is resident, and the price of
/// memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionView<'a> {
    pub(super) modules: &'a [ModuleGeometry],
    /// Visits counted in the present window.
    pub(super) visits: Visits,
    /// Visits to expect in the next one.
    pub(super) expected: Visits,
    /// The number of empty visits for which those stand that passed all that is resident of the
    /// filter: each for one over the chance that the model gives it.
    pub(super) implied_empty: f32,
    /// Columns resident of each module, or blocks of one without columns.
    pub(super) resident: [u8; TRACKED],
    /// The chance that what is resident of each module lets an absent key pass, as the model has
    /// it.
    pub(super) fprs: [f32; TRACKED],
    pub(super) index_resident: bool,
    /// Pages of the index block.
    pub(super) index_pages: f32,
    /// What a byte of memory is worth at the margin, in page reads per window.
    pub(super) price: f32,
    pub(super) under_pressure: bool,
    /// Whether value decides what is resident and what is read.
    pub(super) active: bool,
    /// Of those who lately read filter blocks from storage, the share that passed.
    pub(super) passing: f32,
    /// The share of a window that counts, and with them values and the price, are of.
    pub(super) observed: f32,
}

impl PartitionView<'_> {
    /// The chance that what is resident of a module lets an absent key pass, as the model has it.
    #[inline]
    pub(super) fn fpr_of(&self, number: usize) -> f32 {
        self.fprs.get(number).copied().unwrap_or(1.0)
    }

    /// The chance that an absent key passes all that is resident of the filter, as the model has
    /// it.
    #[inline]
    pub(super) fn fpr(&self) -> f32 {
        fpr_of_all(self.fprs)
    }

    /// The part of the empty visits to expect that pass all that is resident of the filter: what
    /// the model says, unless the visits counted refute it.
    #[inline]
    pub(super) fn observed_fpr(&self) -> f32 {
        let (fpr, empty) = (self.fpr(), self.expected.empty);
        if empty <= 0.0 {
            return fpr;
        }
        let counted = unless_refuted(empty * fpr, self.implied_empty * fpr);
        (counted / empty).min(1.0)
    }

    /// Pages to read for the index block; 0 if it is resident.
    pub(super) fn missing_index_pages(&self) -> f32 {
        if self.index_resident {
            0.0
        } else {
            self.index_pages
        }
    }

    /// The module of a block, if it has columns and is tracked, with how many of them are resident.
    pub(super) fn columns_of(&self, kind: BlockKind) -> Option<(&ModuleGeometry, u8)> {
        let BlockKind::Filter(number) = kind else {
            return None;
        };
        let module = self.modules.get(usize::from(number))?;
        let resident = *self.resident.get(usize::from(number))?;
        (module.columns > 1).then_some((module, resident))
    }

    /// The partition as the model sees it, without module `except`: the best of the other modules
    /// that are missing is the one to read.
    #[inline]
    pub(super) fn modelled(&self, except: Option<usize>) -> Partition {
        let mut partition = Partition {
            visits: self.expected,
            pass: 1.0,
            missing: None,
            index_pages: self.missing_index_pages(),
        };
        for (number, module) in self.modules.iter().enumerate() {
            if Some(number) == except {
                continue;
            }
            let fpr = self.fpr_of(number);
            partition.pass *= fpr;
            let rest = module.fpr_of(module.columns) / fpr.max(1e-9);
            if rest < LETS_ALL_PASS && partition.missing.is_none_or(|best| rest < best.pass) {
                partition.missing = Some(Missing {
                    pass: rest,
                    pages: f32::from(module.pages),
                });
            }
        }
        partition
    }

    /// The partition as one visitor met it, who has passed so many columns of each module
    /// (`probed`).
    pub(super) fn met_by(&self, visits: Visits, probed: &[u8]) -> Partition {
        let passed = self.modules.iter().zip(probed);
        Partition {
            visits,
            pass: passed
                .map(|(module, columns)| module.fpr_of(*columns))
                .product(),
            missing: None,
            index_pages: self.missing_index_pages(),
        }
    }
}

/// The chance that what is resident of each module lets an absent key pass, as the model has it.
#[inline]
pub(super) fn resident_fprs(
    modules: &[ModuleGeometry],
    resident: &[u8; TRACKED],
) -> [f32; TRACKED] {
    let mut fprs = [1.0; TRACKED];
    for ((fpr, module), resident) in fprs.iter_mut().zip(modules).zip(resident) {
        *fpr = match module.columns {
            0 | 1 => {
                let share = (f32::from(*resident) / f32::from(module.blocks.max(1))).min(1.0);
                1.0 - share * (1.0 - module.fpr)
            }
            _ => module.fpr_of(*resident),
        };
    }
    fprs
}

/// The chance that an absent key passes what these let pass each.
#[inline]
pub(super) fn fpr_of_all(fprs: [f32; TRACKED]) -> f32 {
    fprs.into_iter().product::<f32>().max(1e-9)
}
