//! Whom a partition's filter turns away, as counted: the check on the model that has every column turn
//! half of the absent keys away.
//!
//! The model holds of keys that come once in a while. Of a key that is asked for again and again a column
//! turns away every visit or none: then two columns may do what twelve are thought to be needed for, or
//! let a thousand visits pass. So two things are counted: the visits that get by all that is in memory and
//! cost a read in vain, and those that the last column of a block, which would be the next to go, turned
//! away alone. Both are kept as the visits they would stand for if the model held, so that they need not
//! change where columns come and go: one visit that gets by ten columns stands for 2^10. The model is
//! believed until these refute it ([`unless_refuted`]).
//!
//! Thread-safe: relaxed counts of a [`Heat`], which are hints.

use std::sync::atomic::Ordering::Relaxed;

use shamba_model::expected_reads::{Missing, Partition, Visits, unless_refuted};

use super::super::clock::Eviction;
use super::{Cell, Heat, ModuleShape};
use crate::fs::BlockKind;

/// What became of a lookup in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The key was there.
    Found,
    /// It was not, and what is in memory turned it away, or had all that it asked for.
    Spared,
    /// It was not, and got by all of the filter that is in memory: pages were read that could have been
    /// spared.
    InVain,
    /// It was not; whether what is in memory would have let it pass is not known.
    Absent,
}

/// The part of a filter block whose worth is asked for: the last of its columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cache) enum Part {
    /// They are in memory; the visits for which those stand that it alone turned away.
    Resident { alone: f32 },
    /// Some of them would come. Whether the first of these turned away the visitor it was read for.
    Arriving { turned_away: bool },
}

/// The highest column of a set, which goes first.
pub(crate) const fn last_of(columns: u8) -> u8 {
    match columns.checked_ilog2() {
        Some(last) => 1 << last,
        None => 0,
    }
}

impl Heat {
    /// Whether it matters which columns turn visitors away: some columns may have to go.
    pub(crate) fn learns_of_columns(&self) -> bool {
        self.clock.pressed() && self.clock.eviction() == Eviction::ExpectedReads
    }

    /// The chance that an absent key passes all that is in memory of a filter, as the model has it.
    pub(super) fn pass(&self, place: &Cell) -> f32 {
        let modules = self.shapes.modules.iter().enumerate();
        let pass = modules.map(|(number, module)| self.pass_of(place, number, module));
        pass.product::<f32>().max(1e-9)
    }

    /// The part of a partition's empty visits that get by all that is in memory of its filter.
    pub(super) fn passing(&self, partition: u32, place: &Cell, visits: Visits) -> f32 {
        let pass = self.pass(place);
        if visits.empty <= 0.0 {
            return pass;
        }
        let seen = unless_refuted(visits.empty * pass, self.past(partition) * pass);
        (seen / visits.empty).min(1.0)
    }

    /// The module of a block, if it has columns and is tracked, with those of them in memory.
    fn columns_of(&self, place: &Cell, kind: BlockKind) -> Option<(&ModuleShape, u8)> {
        let BlockKind::Filter(number) = kind else {
            return None;
        };
        let module = self.shapes.modules.get(usize::from(number))?;
        let here = place.resident.get(usize::from(number))?;
        (module.columns > 1).then(|| (module, here.load(Relaxed)))
    }

    /// For how many empty visits one stands that the last column of a block in memory turned away alone.
    pub(in crate::cache) fn stands_for(&self, partition: u32, kind: BlockKind) -> f32 {
        let place = self.place(partition);
        let columns = place.and_then(|place| Some((place, self.columns_of(place, kind)?)));
        columns.map_or(0.0, |(place, (module, _))| {
            1.0 / alone(self.pass(place), module.fpr)
        })
    }

    /// The last column of a block goes, which alone turned away visits that stand for so many: they will
    /// get by from now on. Gives what to expect of the one that is the last then.
    pub(in crate::cache) fn last_goes(&self, partition: u32, kind: BlockKind, alone: f32) -> f32 {
        let place = self.place(partition);
        let Some((module, _)) = place.and_then(|place| self.columns_of(place, kind)) else {
            return 0.0;
        };
        let past = self.past(partition) * module.fpr + alone * (1.0 - module.fpr);
        self.set_past(partition, past);
        // Whoever gets by more often than the model has it gets by the column that is the last now.
        past.min(self.visits(partition).empty)
    }

    /// These columns of a block are about to be in memory (those there before among them), of which some
    /// turned away (`turned_away`) the visitor it was read for. Gives for how many visits those stand
    /// that the last of them will turn away alone.
    ///
    /// More visits in vain than the model expects are taken for visits of that visitor's key.
    pub(in crate::cache) fn arrive(
        &self,
        partition: u32,
        kind: BlockKind,
        columns: u8,
        turned_away: u8,
    ) -> f32 {
        let place = self.place(partition);
        let found = place.and_then(|place| Some((place, self.columns_of(place, kind)?)));
        let Some((place, (module, here))) = found else {
            return 0.0;
        };
        let more = (columns.count_ones() as i32 - i32::from(here)).max(0);
        let (empty, pass) = (self.visits(partition).empty, self.pass(place));
        let past = self.past(partition);
        let hot = unless_refuted(empty * pass, past * pass) - empty * pass;
        if more == 0 || turned_away == 0 || hot <= 0.0 {
            return past.min(empty);
        }
        let pass = (pass * module.fpr.powi(more)).max(1e-9);
        let past = match turned_away & columns {
            0 => empty + hot / pass,
            _ => empty,
        };
        self.set_past(partition, past);
        match turned_away & last_of(columns) {
            0 => empty,
            _ => empty + hot / alone(pass, module.fpr),
        }
    }

    /// The columns to keep of a whole block, if so many may stay: those that are in memory (`had`), those
    /// that turned away the visitor it was read for, the others.
    pub(in crate::cache) fn best_columns(
        &self,
        kind: BlockKind,
        count: u8,
        had: u8,
        turned_away: u8,
    ) -> u8 {
        let all = 1u8.checked_shl(self.columns(kind).into()).unwrap_or(0);
        let all = all.wrapping_sub(1);
        let (had, turned_away) = (had & all, turned_away & all & !had);
        let mut best = 0u8;
        for mut from in [had, turned_away, all & !had & !turned_away] {
            while from != 0 && best.count_ones() < count.into() {
                let first = from & from.wrapping_neg();
                best |= first;
                from &= !first;
            }
        }
        best
    }

    /// What the last of so many columns of a module is worth, as the visits counted have it; `None` of a
    /// module without columns, and where nobody came.
    pub(super) fn value_as_seen(
        &self,
        partition: u32,
        place: &Cell,
        others: &Partition,
        kind: BlockKind,
        columns: u8,
        part: Part,
    ) -> Option<f32> {
        let (module, here) = self.columns_of(place, kind)?;
        let (visits, fpr) = (others.visits, module.fpr);
        if visits.empty <= 0.0 || columns == 0 {
            return None;
        }
        let passing = self.passing(partition, place, visits);
        let (without, with) = match part {
            Part::Resident { alone: visitors } => {
                let share = alone(self.pass(place), fpr);
                let seen = unless_refuted(visits.empty * share, visitors * share);
                (passing + seen / visits.empty, passing)
            }
            Part::Arriving { turned_away } => {
                let before = columns.saturating_sub(here).saturating_sub(1);
                let hot = match turned_away {
                    true => (passing - self.pass(place)).max(0.0),
                    false => 0.0,
                };
                let cold = (passing - hot) * fpr.powi(before.into());
                let turned = if before == 0 { hot } else { 0.0 };
                (cold + turned, cold * fpr)
            }
        };
        let missing = Missing {
            pass: fpr.powi(module.columns.saturating_sub(columns).into()),
            pages: f32::from(module.pages),
        };
        let without = Partition {
            pass: without.min(1.0),
            ..*others
        };
        Some(without.value_of_part(with, missing))
    }
}

/// The share of empty visits that one column of `fpr` turns away alone, where all in memory let `pass` by.
fn alone(pass: f32, fpr: f32) -> f32 {
    (pass * (1.0 - fpr) / fpr).max(1e-9)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Clock, Shapes};
    use super::*;
    use crate::budget::Budget;

    const FIRST: BlockKind = BlockKind::Filter(0);

    /// A partition of two modules of four columns, with two in memory of the first, that 64 visits by
    /// absent keys came to.
    fn heat() -> Heat {
        let module = ModuleShape {
            fpr: 0.5,
            columns: 4,
            blocks: 1,
            pages: 1,
        };
        let (clock, budget) = (Arc::new(Clock::new(1)), Budget::new(1 << 20));
        let shapes = Shapes {
            modules: [module; 2].into(),
            columns: |_| 0,
            keep: |block, _| block.into(),
        };
        let heat = Heat::new(clock, &budget, 1, Arc::new(shapes), 1);
        heat.set_resident(0, FIRST, 2, true);
        for _ in 0..64 {
            heat.record(0, Outcome::Absent, 1);
        }
        heat
    }

    fn value(heat: &Heat, columns: u8, part: Part) -> f32 {
        heat.appraise(0, FIRST, columns, part).value
    }

    #[test]
    fn without_other_evidence_the_model_holds() {
        let heat = heat();
        assert!((heat.past(0) - 64.0).abs() < 20.0, "{}", heat.past(0));
        // 64 visits, a quarter of which pass; of a page each, since the index is absent of two.
        let last = value(&heat, 2, Part::Resident { alone: 64.0 });
        let next = |turned_away| value(&heat, 3, Part::Arriving { turned_away });
        assert!(last > 0.0 && next(false) > 0.0);
        assert_eq!(next(true), next(false));
        assert!((last / next(false) - 2.0).abs() < 0.5, "{last}");
    }

    #[test]
    fn a_column_that_turns_nobody_away_is_worth_nothing() {
        let heat = heat();
        assert_eq!(value(&heat, 2, Part::Resident { alone: 0.0 }), 0.0);
    }

    #[test]
    fn a_hot_key_that_passes_makes_the_column_that_turns_it_away_worth_its_visits() {
        let heat = heat();
        let next = |turned_away| value(&heat, 3, Part::Arriving { turned_away });
        let cold = next(true);
        for _ in 0..64 {
            heat.record(0, Outcome::InVain, 1);
        }
        let (hot, unknown) = (next(true), next(false));
        assert!(
            hot > 1.5 * unknown && unknown > 1.5 * cold,
            "{hot} {unknown} {cold}"
        );
        // It comes: the visits are its own from then on, and no longer in vain.
        let alone = heat.arrive(0, FIRST, 0b0111, 0b0100);
        heat.set_resident(0, FIRST, 3, true);
        assert!(heat.past(0) < 200.0, "{}", heat.past(0));
        let last = value(&heat, 3, Part::Resident { alone });
        assert!(last > hot / 2.0, "{last} {hot}");
        // It goes: they are in vain again.
        heat.last_goes(0, FIRST, alone);
        heat.set_resident(0, FIRST, 2, true);
        assert!(next(false) > 1.5 * cold);
    }

    #[test]
    fn what_is_here_stays_and_what_turned_a_visitor_away_comes_first() {
        let best = |count, had, turned_away| heat().best_columns(FIRST, count, had, turned_away);
        assert_eq!(best(2, 0, 0), 0b0011);
        assert_eq!(best(2, 0b0001, 0b1000), 0b1001);
        assert_eq!(best(3, 0b0001, 0b1000), 0b1011);
        assert_eq!(best(1, 0b0100, 0b1000), 0b0100);
        assert_eq!(best(4, 0b0001, 0b1000), 0b1111);
        assert_eq!(best(2, 0, 0b1111_1100), 0b1100);
        assert_eq!((last_of(0), last_of(0b0101)), (0, 0b0100));
    }
}
