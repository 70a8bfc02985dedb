//! Which visitors a partition's filter rejects, as counted: the check on the model that has every
//! column reject half of the absent keys.
//!
//! The model holds of keys that are asked for once in a while. Of a key that is asked for again and
//! again a column rejects every visit or none: then two columns may do what twelve are thought to
//! be needed for, or let a thousand visits pass. So two things are counted: false positives, the
//! visits that pass all that is resident and cost a read, and sole rejections, those that only the
//! last column of a block rejected, which would be the next to be evicted. Both are kept as the
//! number of empty visits they would stand for if the model held, so that they need not change
//! where columns come and go: one visit that passes ten columns stands for 2^10. The model is
//! believed until these refute it ([`unless_refuted`]).
//!
//! Pure functions over a [`PartitionView`].

use shamba_model::expected_reads::{Missing, Partition, unless_refuted};

use super::view::PartitionView;
use crate::fs::BlockKind;

/// What became of a lookup in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The key was there.
    Found,
    /// It was not, and what is resident rejected it, or had all that it asked for.
    Rejected,
    /// It was not, and passed all of the filter that is resident: pages were read that could have
    /// been spared.
    FalsePositive,
    /// It was not; whether what is resident would have let it pass is not known.
    Absent,
}

/// What is known of the last column of a filter block, whose value is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ColumnEvidence {
    /// It is resident, with so many sole rejections.
    Resident { sole_rejections: f32 },
    /// It would come, with others perhaps. Whether the first of these rejected the visitor that it
    /// was read for.
    Arriving { rejected_reader: bool },
}

impl ColumnEvidence {
    /// Of a column that would come, and of which nothing is known.
    pub(crate) const UNKNOWN: ColumnEvidence = ColumnEvidence::Arriving {
        rejected_reader: false,
    };
}

/// What is counted of a partition's filter and one of its blocks, as columns come or go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rejections {
    /// Empty visits implied by the false positives of the partition, if that changes.
    pub(super) implied_empty: Option<f32>,
    /// Empty visits implied by the sole rejections of the block's last column.
    pub(super) sole_rejections: f32,
}

/// The highest column of a set, which is evicted first.
pub(crate) const fn last_of(columns: u8) -> u8 {
    match columns.checked_ilog2() {
        Some(last) => 1 << last,
        None => 0,
    }
}

/// The columns to keep of a whole block of so many (`all`), if `count` may stay: those that are
/// resident already (`had`), then those that rejected the visitor it was read for, then the others.
pub(super) fn best_columns(all: u8, count: u8, had: u8, rejected_by: u8) -> u8 {
    let all = 1u8.checked_shl(all.into()).unwrap_or(0);
    let all = all.wrapping_sub(1);
    let (had, rejected_by) = (had & all, rejected_by & all & !had);
    let mut best = 0u8;
    for mut from in [had, rejected_by, all & !had & !rejected_by] {
        while from != 0 && best.count_ones() < count.into() {
            let first = from & from.wrapping_neg();
            best |= first;
            from &= !first;
        }
    }
    best
}

/// The share of empty visits that one column of `fpr` alone rejects, where all that is resident
/// lets `pass` by.
fn sole_share(pass: f32, fpr: f32) -> f32 {
    (pass * (1.0 - fpr) / fpr).max(1e-9)
}

impl PartitionView<'_> {
    /// The number of empty visits for which one sole rejection by a block's last column stands.
    pub(super) fn visits_per_sole_rejection(&self, kind: BlockKind) -> f32 {
        let columns = self.columns_of(kind);
        columns.map_or(0.0, |(module, _)| 1.0 / sole_share(self.fpr(), module.fpr))
    }

    /// After the last column of a block is evicted, which had so many sole rejections: those visits
    /// will pass from now on. `None` of a block without columns.
    pub(super) fn after_eviction(
        &self,
        kind: BlockKind,
        sole_rejections: f32,
    ) -> Option<Rejections> {
        let (module, _) = self.columns_of(kind)?;
        let implied_empty = self.implied_empty * module.fpr + sole_rejections * (1.0 - module.fpr);
        Some(Rejections {
            implied_empty: Some(implied_empty),
            // Whoever passes more often than the model has it passes the column that is the last
            // now.
            sole_rejections: implied_empty.min(self.visits.empty),
        })
    }

    /// After these columns of a block are resident (those there before among them), of which some
    /// rejected the visitor it was read for (`rejected_by`). `None` of a block without columns.
    ///
    /// More false positives than the model expects are taken for visits of that visitor's key.
    pub(super) fn after_insert(
        &self,
        kind: BlockKind,
        columns: u8,
        rejected_by: u8,
    ) -> Option<Rejections> {
        let (module, resident) = self.columns_of(kind)?;
        let more = (columns.count_ones() as i32 - i32::from(resident)).max(0);
        let (empty, fpr, past) = (self.visits.empty, self.fpr(), self.implied_empty);
        let hot = unless_refuted(empty * fpr, past * fpr) - empty * fpr;
        if more == 0 || rejected_by == 0 || hot <= 0.0 {
            return Some(Rejections {
                implied_empty: None,
                sole_rejections: past.min(empty),
            });
        }
        let fpr = (fpr * module.fpr.powi(more)).max(1e-9);
        Some(Rejections {
            implied_empty: Some(match rejected_by & columns {
                0 => empty + hot / fpr,
                _ => empty,
            }),
            sole_rejections: match rejected_by & last_of(columns) {
                0 => empty,
                _ => empty + hot / sole_share(fpr, module.fpr),
            },
        })
    }

    /// What the last of so many columns of a module is worth, as the visits counted have it; `None`
    /// of a module without columns, and where nobody came. `others` is the partition without that
    /// module.
    #[inline]
    pub(super) fn value_by_evidence(
        &self,
        others: &Partition,
        kind: BlockKind,
        columns: u8,
        evidence: ColumnEvidence,
    ) -> Option<f32> {
        let (module, resident) = self.columns_of(kind)?;
        let (empty, fpr) = (others.visits.empty, module.fpr);
        if empty <= 0.0 || columns == 0 {
            return None;
        }
        let passing = self.observed_fpr();
        let (without, with) = match evidence {
            ColumnEvidence::Resident { sole_rejections } => {
                let share = sole_share(self.fpr(), fpr);
                let counted = unless_refuted(empty * share, sole_rejections * share);
                (passing + counted / empty, passing)
            }
            ColumnEvidence::Arriving { rejected_reader } => {
                let before = columns.saturating_sub(resident).saturating_sub(1);
                let hot = if rejected_reader {
                    (passing - self.fpr()).max(0.0)
                } else {
                    0.0
                };
                let cold = (passing - hot) * module.fpr_of(before);
                let rejected = if before == 0 { hot } else { 0.0 };
                (cold + rejected, cold * fpr)
            }
        };
        let missing = Missing {
            pass: module.fpr_without(columns),
            pages: f32::from(module.pages),
        };
        let without = Partition {
            pass: without.min(1.0),
            ..*others
        };
        Some(without.value_of_part(with, missing))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{FilterGeometry, ModuleGeometry, PartitionStats, PolicyState};
    use super::*;
    use crate::budget::Budget;

    const FIRST: BlockKind = BlockKind::Filter(0);

    /// A partition of two modules of four columns, with two in memory of the first, that 64 visits
    /// by absent keys came to.
    fn stats() -> PartitionStats {
        let module = ModuleGeometry {
            fpr: 0.5,
            columns: 4,
            blocks: 1,
            pages: 1,
        };
        let (policy, budget) = (Arc::new(PolicyState::new(1)), Budget::new(1 << 20));
        let geometry = FilterGeometry::new([module; 2].into(), |_| 0, |block, _| block.into());
        let stats = PartitionStats::new(policy, &budget, 1, Arc::new(geometry), 1);
        stats.set_resident(0, FIRST, 2, true);
        for _ in 0..64 {
            stats.record(0, Outcome::Absent, 1);
        }
        stats
    }

    fn value(stats: &PartitionStats, columns: u8, evidence: ColumnEvidence) -> f32 {
        stats.value_of(0, FIRST, columns, evidence).value
    }

    #[test]
    fn without_other_evidence_the_model_holds() {
        let stats = stats();
        assert!(
            (stats.view(0).unwrap().implied_empty - 64.0).abs() < 20.0,
            "{}",
            stats.view(0).unwrap().implied_empty
        );
        // 64 visits, a quarter of which pass; of a page each, since the index is absent of two.
        let last = value(
            &stats,
            2,
            ColumnEvidence::Resident {
                sole_rejections: 64.0,
            },
        );
        let next = |rejected_reader| value(&stats, 3, ColumnEvidence::Arriving { rejected_reader });
        assert!(last > 0.0 && next(false) > 0.0);
        assert_eq!(next(true), next(false));
        assert!((last / next(false) - 2.0).abs() < 0.5, "{last}");
    }

    #[test]
    fn a_column_that_turns_nobody_away_is_worth_nothing() {
        let stats = stats();
        assert_eq!(
            value(
                &stats,
                2,
                ColumnEvidence::Resident {
                    sole_rejections: 0.0
                }
            ),
            0.0
        );
    }

    #[test]
    fn a_hot_key_that_passes_makes_the_column_that_turns_it_away_worth_its_visits() {
        let stats = stats();
        let next = |rejected_reader| value(&stats, 3, ColumnEvidence::Arriving { rejected_reader });
        let cold = next(true);
        for _ in 0..64 {
            stats.record(0, Outcome::FalsePositive, 1);
        }
        let (hot, unknown) = (next(true), next(false));
        assert!(
            hot > 1.5 * unknown && unknown > 1.5 * cold,
            "{hot} {unknown} {cold}"
        );
        // It comes: the visits are its own from then on, and no longer in vain.
        let sole_rejections = stats.note_insert(0, FIRST, 0b0111, 0b0100);
        stats.set_resident(0, FIRST, 3, true);
        assert!(
            stats.view(0).unwrap().implied_empty < 200.0,
            "{}",
            stats.view(0).unwrap().implied_empty
        );
        let last = value(&stats, 3, ColumnEvidence::Resident { sole_rejections });
        assert!(last > hot / 2.0, "{last} {hot}");
        // It goes: they are in vain again.
        stats.note_eviction(0, FIRST, sole_rejections);
        stats.set_resident(0, FIRST, 2, true);
        assert!(next(false) > 1.5 * cold);
    }

    #[test]
    fn what_is_here_stays_and_what_turned_a_visitor_away_comes_first() {
        let best = |count, had, rejected_by| stats().best_columns(FIRST, count, had, rejected_by);
        assert_eq!(best(2, 0, 0), 0b0011);
        assert_eq!(best(2, 0b0001, 0b1000), 0b1001);
        assert_eq!(best(3, 0b0001, 0b1000), 0b1011);
        assert_eq!(best(1, 0b0100, 0b1000), 0b0100);
        assert_eq!(best(4, 0b0001, 0b1000), 0b1111);
        assert_eq!(best(2, 0, 0b1111_1100), 0b1100);
        assert_eq!((last_of(0), last_of(0b0101)), (0, 0b0100));
    }
}
