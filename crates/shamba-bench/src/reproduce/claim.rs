//! What a paper claims, or what we aim at, beside what was measured, and the verdict that follows.
//! Pure functions.
//!
//! A verb for each form that a claim takes: a figure, a range, "up to", "at least", a statement,
//! one that is to hold at every point, and the goals of our own. A figure is compared on both
//! sides: to exceed it is as little the paper's result as to fall short of it, and whether more is
//! better stands in the claim's own words.

use crate::plot::{Dots, Series};
use crate::report::{Cell, joined};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The upper end of a range that has none.
pub(super) const UNBOUNDED: f64 = f64::MAX;

/// A number is within a paper's figure or range if it misses it by no more than this share.
pub(super) const TOLERANCE: f64 = 0.1;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// More than a tenth below the paper's figure or range.
    Below,
    /// The paper's figure or range, give or take a tenth.
    Within,
    /// More than a tenth above it.
    Above,
    /// What the paper states was seen here.
    Holds,
    /// It was not.
    DoesNotHold,
    /// A model gave the numbers, no experiment.
    ModelOnly,
    /// Nothing that was measured can be set beside it.
    NotComparable,
    /// A goal of our own, reached.
    Met,
    /// A goal of our own, not reached.
    Missed,
}

impl Verdict {
    /// All of them and their names, in the order in which they are counted.
    pub const ALL: [(Verdict, &str); 9] = [
        (Verdict::Above, "above"),
        (Verdict::Within, "within"),
        (Verdict::Below, "below"),
        (Verdict::Holds, "holds"),
        (Verdict::DoesNotHold, "does not hold"),
        (Verdict::ModelOnly, "model only"),
        (Verdict::NotComparable, "not comparable"),
        (Verdict::Met, "met"),
        (Verdict::Missed, "missed"),
    ];

    /// Whether it is about a goal of our own; else it is about a paper's claim.
    pub fn is_of_goal(self) -> bool {
        matches!(self, Verdict::Met | Verdict::Missed)
    }

    /// Whether it differs from what was claimed or aimed at, so that a reader wants to know why.
    pub fn differs(self) -> bool {
        use Verdict::{Above, Below, DoesNotHold, Missed};
        matches!(self, Above | Below | DoesNotHold | Missed)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = Verdict::ALL.iter().find(|(verdict, _)| verdict == self);
        f.write_str(own.map_or("", |(_, name)| name))
    }
}

/// A claim and what was measured of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// What is claimed, with the unit of its number.
    pub what: String,
    /// The paper's number, or what it says; of a goal, what is aimed at.
    pub claimed: String,
    /// What was measured.
    pub measured: String,
    /// The ends of the paper's range, or a limit aimed at, and of what was measured, where all are
    /// finite.
    #[serde(default)]
    pub ranges: Option<[(f64, f64); 2]>,
    /// What follows.
    pub verdict: Verdict,
    /// Of what a model alone gave, the verdict that would follow if it had been measured.
    #[serde(default)]
    pub by_model: Option<Verdict>,
    /// Why it differs, where a check of that cause ran in the same run and held; of what cannot be
    /// compared, why not.
    pub cause: Option<String>,
    /// The verdict with each seed, where they are not the same.
    #[serde(default)]
    pub by_seed: Vec<Verdict>,
}

impl Claim {
    /// A figure of the paper.
    pub fn figure(what: impl Into<String>, paper: f64, measured: f64) -> Self {
        Self::range(what, (paper, paper), &[measured])
    }

    /// "Up to" a figure: the most that was measured over the same axis.
    pub fn up_to(what: impl Into<String>, paper: f64, measured: &[f64]) -> Self {
        Self::figure(what, paper, most_of(measured))
    }

    /// "At least" a figure, or "more than" it: the least that was measured over the same axis. More
    /// is what was claimed, so that it is within.
    pub fn from_on(what: impl Into<String>, paper: f64, measured: &[f64]) -> Self {
        let least = least_of(measured);
        Self {
            claimed: format!("at least {}", number(paper)),
            measured: number(least),
            ..Self::range(what, (paper, UNBOUNDED), &[least])
        }
    }

    /// A range of the paper beside the range of what was measured: within it if both ends are,
    /// below if the lower end is below the paper's, above if the upper end is above it.
    pub fn range(what: impl Into<String>, (from, to): (f64, f64), measured: &[f64]) -> Self {
        let (least, most) = (least_of(measured), most_of(measured));
        let verdict = beside((from, to), (least, most));
        Self {
            ranges: finite([(from, to), (least, most)]),
            ..Self::new(what, ends(from, to), ends(least, most), verdict)
        }
    }

    /// The same claim with another range measured, of several: the verdict is its own, if one
    /// follows from ranges.
    pub(super) fn with_range(mut self, (least, most): (f64, f64)) -> Self {
        if let Some([claimed, measured]) = &mut self.ranges {
            // What is told beside the numbers stays.
            let (_, beside_them) = numbers_and_rest(&self.measured);
            self.measured = ends(least, most) + beside_them;
            *measured = (least, most);
            let verdict = beside(*claimed, *measured);
            let of = self.by_model.as_mut().unwrap_or(&mut self.verdict);
            if matches!(of, Verdict::Below | Verdict::Within | Verdict::Above) {
                *of = verdict;
            }
        }
        self
    }

    /// Says more of the numbers that were measured, before what is told beside them.
    pub(super) fn say_of_numbers(&mut self, more: &str) {
        let (numbers, rest) = numbers_and_rest(&self.measured);
        self.measured = format!("{numbers} ({more}){rest}");
    }

    /// What is claimed and what was measured, where both are one number.
    pub fn numbers(&self) -> Option<(f64, f64)> {
        let [(from, to), (least, most)] = self.ranges?;
        (from == to && least == most).then_some((from, least))
    }

    /// Something that the paper states and that is so or is not; `measured` says what was seen.
    pub fn statement(
        what: impl Into<String>,
        paper: impl Into<String>,
        measured: impl Into<String>,
        holds: bool,
    ) -> Self {
        let verdict = if holds {
            Verdict::Holds
        } else {
            Verdict::DoesNotHold
        };
        Self::new(what, paper, measured, verdict)
    }

    /// Something that the paper states of every point, of so many: those at which it was not so are
    /// named. Of no points it does not hold.
    pub fn everywhere(what: impl Into<String>, points: usize, lost: &[String]) -> Self {
        Self::statement(
            what,
            "at every point",
            all_but(points, lost),
            lost.is_empty() && points > 0,
        )
    }

    /// The same of whether it is so at each point, where points need no names.
    pub fn at_each(what: impl Into<String>, so: impl IntoIterator<Item = bool>) -> Self {
        let so: Vec<bool> = so.into_iter().collect();
        let points = so.len();
        let at = so.into_iter().filter(|so| *so).count();
        let seen = format!("at {at} of {points} points");
        Self::statement(what, "at every point", seen, at == points && points > 0)
    }

    /// The same as a goal of our own, which is reached or not; what cannot be compared stays so.
    #[must_use]
    pub fn as_goal(mut self) -> Self {
        self.verdict = match self.verdict {
            Verdict::Holds => Verdict::Met,
            Verdict::NotComparable => Verdict::NotComparable,
            _ => Verdict::Missed,
        };
        self
    }

    /// A goal of our own: at least so much.
    pub fn goal_from(what: impl Into<String>, least: f64, measured: f64) -> Self {
        Self::limit(what, "at least", least, measured, measured >= least)
    }

    /// A goal of our own: at most so much.
    pub fn goal_to(what: impl Into<String>, most: f64, measured: f64) -> Self {
        Self::limit(what, "at most", most, measured, measured <= most)
    }

    fn limit(what: impl Into<String>, side: &str, aim: f64, measured: f64, met: bool) -> Self {
        let claimed = format!("{side} {}", number(aim));
        Self {
            ranges: finite([(aim, aim), (measured, measured)]),
            ..Self::statement(what, claimed, number(measured), met).as_goal()
        }
    }

    /// A claim of the paper that nothing measured here can be set beside, and why not; what was
    /// measured all the same is told.
    pub fn told(
        what: impl Into<String>,
        paper: impl Into<String>,
        measured: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::new(what, paper, measured, Verdict::NotComparable).without_verdict(reason)
    }

    /// What was measured cannot be set beside what is claimed, and why not.
    #[must_use]
    pub fn without_verdict(mut self, reason: impl Into<String>) -> Self {
        self.verdict = Verdict::NotComparable;
        self.cause = Some(reason.into());
        self
    }

    /// The same where it is so.
    #[must_use]
    pub fn unless(self, so: bool, reason: impl Into<String>) -> Self {
        if so {
            self.without_verdict(reason)
        } else {
            self
        }
    }

    /// The numbers are a model's: whether the model agrees with the paper is told, and no verdict
    /// follows from it.
    #[must_use]
    pub fn by_model(mut self) -> Self {
        if self.verdict != Verdict::NotComparable {
            self.by_model = Some(self.verdict);
            self.verdict = Verdict::ModelOnly;
        }
        self
    }

    /// What follows, of a model or not.
    pub(super) fn follows(&self) -> Verdict {
        self.by_model.unwrap_or(self.verdict)
    }

    /// Whether it is a goal of our own, reached or not, by a model or measured.
    pub fn is_goal(&self) -> bool {
        self.follows().is_of_goal()
    }

    /// The verdict in words, with what a model has.
    pub fn in_words(&self) -> String {
        match self.by_model {
            Some(model) => format!("{} ({model})", self.verdict),
            None => self.verdict.to_string(),
        }
    }

    /// The same, with the verdict of each seed where these differ.
    pub fn in_words_by_seed(&self) -> String {
        let seeds = self.seeds();
        self.in_words() + &seeds.map_or(String::new(), |seeds| format!(" (by seed {seeds})"))
    }

    /// The verdicts of the seeds, where they differ.
    fn seeds(&self) -> Option<String> {
        let seeds = joined(self.by_seed.iter().map(Verdict::to_string));
        (!seeds.is_empty()).then_some(seeds)
    }

    /// Why it differs from what was claimed: where `checked` in this run, and found so.
    #[must_use]
    pub fn because(mut self, checked: bool, cause: impl Into<String>) -> Self {
        if checked && self.follows().differs() {
            self.cause = Some(cause.into());
        }
        self
    }

    /// What is to be said of why: nothing of what agrees, and that it is not explained of what does
    /// not, where no cause was found.
    pub fn explanation(&self) -> Option<String> {
        let why = match &self.cause {
            Some(reason) if self.verdict == Verdict::NotComparable => Some(reason.clone()),
            Some(place) if place.starts_with(WHERE) => Some(place.clone()),
            Some(cause) => Some(format!("Cause: {cause}")),
            None => self
                .follows()
                .differs()
                .then(|| "Not explained.".to_owned()),
        };
        let seeds = self.seeds();
        let seeds = seeds.map(|seeds| format!("It changes with the seed: {seeds}."));
        let both: Vec<String> = seeds.into_iter().chain(why).collect();
        (!both.is_empty()).then(|| both.join(" "))
    }

    fn new(
        what: impl Into<String>,
        claimed: impl Into<String>,
        measured: impl Into<String>,
        verdict: Verdict,
    ) -> Self {
        Self {
            what: what.into(),
            claimed: claimed.into(),
            measured: measured.into(),
            ranges: None,
            verdict,
            by_model: None,
            cause: None,
            by_seed: Vec::new(),
        }
    }
}

/// The numbers that were measured, and what is told beside them.
pub(super) fn numbers_and_rest(measured: &str) -> (&str, &str) {
    measured.split_at(measured.find(';').unwrap_or(measured.len()))
}

/// What is said of where a difference lies begins so: it is no cause.
pub(super) const WHERE: &str = "Where: ";

/// What follows from a range of the paper and one that was measured; what is no number falls short.
fn beside((from, to): (f64, f64), (least, most): (f64, f64)) -> Verdict {
    let slack = |end: f64| TOLERANCE * end.abs();
    if least.is_nan() || least < from - slack(from) {
        Verdict::Below
    } else if to < UNBOUNDED && most > to + slack(to) {
        Verdict::Above
    } else {
        Verdict::Within
    }
}

/// A claim whose numbers are a model's.
pub(super) fn by_model(claim: Claim) -> Claim {
    claim.by_model()
}

/// At how many points something is so, and where not: the first few of those.
fn all_but(points: usize, lost: &[String]) -> String {
    const NAMED: usize = 6;
    let so = points.saturating_sub(lost.len());
    let named = lost[..lost.len().min(NAMED)].join("; ");
    let more = lost.len().saturating_sub(NAMED);
    match (lost.len(), more) {
        (0, _) => format!("at {so} of {points} points"),
        (_, 0) => format!("at {so} of {points} points; not at: {named}"),
        _ => format!("at {so} of {points} points; not at: {named}; and {more} more"),
    }
}

/// A number as it is shown.
pub(super) fn number(value: f64) -> String {
    Cell::Number(value).to_string()
}

/// Ranges whose ends are finite.
fn finite(ranges: [(f64, f64); 2]) -> Option<[(f64, f64); 2]> {
    let ends = ranges.iter().flat_map(|(from, to)| [from, to]);
    ends.into_iter()
        .all(|end| end.is_finite())
        .then_some(ranges)
}

/// The ends of a range, or the one number that it is.
fn ends(from: f64, to: f64) -> String {
    let (from, to) = (number(from), number(to));
    if from == to {
        from
    } else {
        format!("{from} to {to}")
    }
}

/// The least; no number of none, or where one is none.
pub fn least_of(values: &[f64]) -> f64 {
    extreme(values, f64::min)
}

/// The most; no number of none, or where one is none.
pub fn most_of(values: &[f64]) -> f64 {
    extreme(values, f64::max)
}

fn extreme(values: &[f64], of: fn(f64, f64) -> f64) -> f64 {
    if values.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    values.iter().copied().reduce(of).unwrap_or(f64::NAN)
}

/// How many claims have which verdict, in words: `2 within, 1 below`; `no claim` of none.
pub fn in_words(claims: &[Claim]) -> String {
    let count = |verdict| {
        claims
            .iter()
            .filter(|claim| claim.verdict == verdict)
            .count()
    };
    let counts = Verdict::ALL.map(|(verdict, name)| (count(verdict), name));
    let met = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = met.map(|(count, name)| format!("{count} {name}")).collect();
    match words[..] {
        [] => "no claim".to_owned(),
        _ => words.join(", "),
    }
}

/// The numbers claimed and the measured ones: a row for each claim in which both are above 0.
pub fn beside_the_claimed(claims: &[Claim]) -> Option<Dots> {
    let both = |claim: &Claim| claim.numbers().filter(|(a, b)| *a > 0.0 && *b > 0.0);
    let claims = claims
        .iter()
        .filter_map(|claim| Some((claim, both(claim)?)));
    let claims: Vec<(&Claim, (f64, f64))> = claims.collect();
    let series = |name: &str, of: fn((f64, f64)) -> f64| {
        let rows = claims.iter().enumerate();
        Series::of(name, rows.map(|(row, (_, both))| (of(*both), row as f64)))
    };
    (!claims.is_empty()).then(|| Dots {
        title: "Numbers claimed and measured".to_owned(),
        x: "number of the claim, in its unit".to_owned(),
        rows: claims.iter().map(|(claim, _)| claim.what.clone()).collect(),
        series: vec![
            series("claimed", |both| both.0),
            series("measured", |both| both.1),
        ],
        ..Dots::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: f64 = f64::NAN;

    #[test]
    fn numbers_are_drawn_beside_the_paper_s() {
        let claims = [
            Claim::statement("order", "yes", "yes", true),
            Claim::figure("gain", 2.0, 4.0),
            Claim::figure("gain over nothing", 2.0, f64::INFINITY),
            Claim::figure("reads", 1.0, 0.0),
            Claim::goal_to("rate", 3.0, 0.5),
        ];
        let dots = beside_the_claimed(&claims).unwrap();
        assert_eq!(dots.rows, ["gain", "rate"]);
        assert_eq!(dots.series[0].points, [(2.0, 0.0), (3.0, 1.0)]);
        assert_eq!(dots.series[1].points, [(4.0, 0.0), (0.5, 1.0)]);
        assert!(beside_the_claimed(&claims[..1]).is_none());
    }

    #[test]
    fn a_figure_is_compared_on_both_sides() {
        use Verdict::{Above, Below, Within};
        for (measured, verdict) in [
            (2.0, Within),
            (1.8, Within),
            (1.79, Below),
            (2.2, Within),
            (2.21, Above),
            (f64::INFINITY, Above),
            (0.0, Below),
            (NONE, Below),
        ] {
            let claim = Claim::figure("", 2.0, measured);
            assert_eq!(claim.verdict, verdict, "{measured}");
        }
        // The tenth is of its size, also below nothing.
        assert_eq!(Claim::figure("", -2.0, -2.1).verdict, Within);
        assert_eq!(Claim::figure("", -2.0, -2.3).verdict, Below);
        assert_eq!(Claim::figure("", -2.0, -1.7).verdict, Above);
        assert_eq!(Claim::figure("", 0.0, 0.01).verdict, Above);
    }

    #[test]
    fn up_to_is_the_most_and_from_on_the_least_of_what_was_measured() {
        use Verdict::{Above, Below, Within};
        let up_to = |measured: &[f64]| Claim::up_to("", 2.0, measured).verdict;
        assert_eq!(up_to(&[0.5, 2.1, 1.0]), Within);
        assert_eq!(up_to(&[0.5, 1.7]), Below);
        assert_eq!(up_to(&[0.5, 2.3]), Above);
        assert_eq!(up_to(&[2.0, NONE]), Below);
        assert_eq!(up_to(&[]), Below);
        let from_on = |measured: &[f64]| Claim::from_on("", 2.0, measured).verdict;
        assert_eq!(from_on(&[1.9, 7.0]), Within);
        assert_eq!(from_on(&[1.7, 7.0]), Below);
        assert_eq!(from_on(&[2.3, 7.0]), Within);
        let claim = Claim::from_on("", 2.0, &[7.0, 2.5]);
        let median = claim.clone().with_range((1.5, 1.5));
        assert_eq!(
            (&*claim.claimed, &*claim.measured),
            ("at least 2.00", "2.50")
        );
        assert_eq!((&*median.measured, median.verdict), ("1.50", Below));
        assert_eq!(from_on(&[NONE, 2.0]), Below);
    }

    #[test]
    fn a_range_is_compared_with_a_range() {
        use Verdict::{Above, Below, Within};
        let range = |measured: &[f64]| Claim::range("", (1.4, 2.2), measured).verdict;
        assert_eq!(range(&[1.4, 2.2]), Within);
        assert_eq!(range(&[1.3, 2.4]), Within);
        assert_eq!(range(&[1.7]), Within);
        assert_eq!(range(&[1.2, 1.9]), Below);
        assert_eq!(range(&[1.5, 2.5]), Above);
        // Who falls short somewhere does not exceed it, whatever is elsewhere.
        assert_eq!(range(&[1.2, 2.5]), Below);
        assert_eq!(range(&[]), Below);
        let claim = Claim::range("", (1.4, 2.2), &[1.5, 2.0]);
        assert_eq!(
            (&*claim.claimed, &*claim.measured),
            ("1.40 to 2.20", "1.50 to 2.00")
        );
        assert_eq!(claim.ranges, Some([(1.4, 2.2), (1.5, 2.0)]));
        assert_eq!(Claim::range("", (1.4, 2.2), &[NONE]).ranges, None);
    }

    #[test]
    fn a_statement_holds_or_does_not() {
        let so = |holds| Claim::statement("", "yes", "", holds).verdict;
        assert_eq!(so(true), Verdict::Holds);
        assert_eq!(so(false), Verdict::DoesNotHold);
        let lost = |count: usize| vec!["uniform, 10 %".to_owned(); count];
        let everywhere = |points, count| Claim::everywhere("", points, &lost(count));
        assert_eq!(everywhere(3, 0).verdict, Verdict::Holds);
        assert_eq!(everywhere(3, 1).verdict, Verdict::DoesNotHold);
        assert_eq!(
            everywhere(3, 1).measured,
            "at 2 of 3 points; not at: uniform, 10 %"
        );
        assert!(everywhere(9, 8).measured.ends_with("and 2 more"));
        assert_eq!(everywhere(0, 0).verdict, Verdict::DoesNotHold);
        let each = |so: &[bool]| Claim::at_each("", so.iter().copied());
        assert_eq!(each(&[true; 3]).verdict, Verdict::Holds);
        assert_eq!(each(&[true, false, true]).verdict, Verdict::DoesNotHold);
        assert_eq!(each(&[]).verdict, Verdict::DoesNotHold);
        assert_eq!(each(&[true, false, true]).measured, "at 2 of 3 points");
        let goal = |points, count| everywhere(points, count).as_goal().verdict;
        assert_eq!(
            [goal(3, 0), goal(3, 1), goal(0, 0)],
            [Verdict::Met, Verdict::Missed, Verdict::Missed]
        );
    }

    #[test]
    fn a_goal_has_one_side_and_no_tolerance() {
        use Verdict::{Met, Missed};
        let (from, to) = (
            |measured| Claim::goal_from("", 2.0, measured).verdict,
            |measured| Claim::goal_to("", 2.0, measured).verdict,
        );
        assert_eq!(
            [from(2.0), from(9.0), from(1.99), from(NONE)],
            [Met, Met, Missed, Missed]
        );
        assert_eq!(
            [to(2.0), to(0.0), to(2.01), to(NONE)],
            [Met, Met, Missed, Missed]
        );
        let goal = |met| Claim::statement("", "", "", met).as_goal().verdict;
        assert_eq!([goal(true), goal(false)], [Met, Missed]);
        let none = Claim::told("", "", "", "two sessions").as_goal();
        assert_eq!(none.verdict, Verdict::NotComparable);
        let goals = Verdict::ALL
            .into_iter()
            .filter(|(verdict, _)| verdict.is_of_goal());
        assert!(goals.map(|(verdict, _)| verdict).eq([Met, Missed]));
    }

    #[test]
    fn a_model_s_number_and_what_cannot_be_compared_show_nothing() {
        let claim = Claim::figure("", 2.0, 2.0).by_model();
        assert_eq!(claim.verdict, Verdict::ModelOnly);
        assert_eq!(claim.in_words(), "model only (within)");
        let claim = Claim::figure("", 2.0, 9.0).by_model();
        assert_eq!(claim.in_words(), "model only (above)");
        assert_eq!(claim.explanation().as_deref(), Some("Not explained."));
        let claim = claim.because(true, "another curve");
        assert_eq!(claim.explanation().as_deref(), Some("Cause: another curve"));
        let claim = claim.with_range((2.0, 2.1));
        assert_eq!(
            (claim.verdict, claim.follows(), &*claim.measured),
            (Verdict::ModelOnly, Verdict::Within, "2.00 to 2.10")
        );
        let none = Claim::told("", "", "-", "no device").by_model();
        assert_eq!(none.verdict, Verdict::NotComparable);
        let claim = Claim::told("", "4x", "-", "it gives no time");
        assert_eq!(claim.verdict, Verdict::NotComparable);
        assert_eq!(claim.explanation().as_deref(), Some("it gives no time"));
        let claim = Claim::figure("", 2.0, 2.0).without_verdict("another load");
        assert_eq!(claim.verdict, Verdict::NotComparable);
        assert_eq!(
            claim.because(true, "no").explanation().as_deref(),
            Some("another load")
        );
    }

    #[test]
    fn a_cause_belongs_to_what_differs_and_was_checked() {
        let said = |claim: Claim, checked| claim.because(checked, "the disk").explanation();
        assert_eq!(said(Claim::figure("", 1.0, 1.0), true), None);
        for claim in [
            Claim::statement("", "yes", "no", false),
            Claim::figure("", 1.0, 2.0),
            Claim::figure("", 1.0, 0.5),
            Claim::goal_to("", 1.0, 2.0),
        ] {
            let (checked, not) = (said(claim.clone(), true), said(claim, false));
            assert_eq!(checked.as_deref(), Some("Cause: the disk"));
            assert_eq!(not.as_deref(), Some("Not explained."));
        }
    }

    #[test]
    fn verdicts_are_counted_by_kind() {
        let claims = [
            Claim::figure("", 1.0, 1.0),
            Claim::figure("", 1.0, 0.1),
            Claim::figure("", 1.0, 1.1),
            Claim::goal_to("", 1.0, 2.0),
        ];
        assert_eq!(in_words(&claims), "2 within, 1 below, 1 missed");
        assert_eq!(in_words(&[]), "no claim");
    }
}
