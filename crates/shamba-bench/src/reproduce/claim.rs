//! What a paper claims, beside what was measured, and the verdict that follows. Pure functions.
use crate::plot::{Dots, Series};
use std::fmt;

/// A number counts as the paper's if it falls short of it by no more than this share.
const NEAR: f64 = 0.1;

/// What became of a claim.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Not shown here.
    NotReproduced,
    /// As the paper has it.
    Reproduced,
    /// More than the paper has it.
    Surpassed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReproduced => "not reproduced",
            Self::Reproduced => "reproduced",
            Self::Surpassed => "surpassed",
        })
    }
}

/// A claim and what was measured of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Claim {
    /// What is claimed, with the unit of its number.
    pub what: String,
    /// The paper's number, or what it says.
    pub paper: String,
    /// What was measured.
    pub measured: String,
    /// Both as numbers, where both are: finite ones.
    #[serde(default)]
    pub numbers: Option<(f64, f64)>,
    /// What follows.
    pub verdict: Verdict,
    /// Why it was not reproduced, where that was found out.
    pub cause: Option<String>,
}

impl Claim {
    /// The more the better: reproduced from a tenth below `paper` on, surpassed from a tenth above.
    pub fn at_least(what: impl Into<String>, paper: f64, measured: f64) -> Self {
        Self::number(what, paper, measured, measured / paper)
    }

    /// The less the better: reproduced up to a tenth above `paper`, surpassed from a tenth below.
    pub fn at_most(what: impl Into<String>, paper: f64, measured: f64) -> Self {
        Self::number(what, paper, measured, paper / measured)
    }

    /// Neither is better: reproduced if it differs from `paper` by at most the share `within`.
    pub fn near(what: impl Into<String>, paper: f64, measured: f64, within: f64) -> Self {
        let near = (measured - paper).abs() <= within * paper.abs();
        Self {
            verdict: reproduced(near),
            ..Self::number(what, paper, measured, 1.0)
        }
    }

    /// Something that is so or is not; `measured` says what was seen.
    pub fn holds(
        what: impl Into<String>,
        paper: impl Into<String>,
        measured: impl Into<String>,
        holds: bool,
    ) -> Self {
        Self {
            what: what.into(),
            paper: paper.into(),
            measured: measured.into(),
            numbers: None,
            verdict: reproduced(holds),
            cause: None,
        }
    }

    /// More than the paper has is no better: it counts as reproduced.
    #[must_use]
    pub fn no_better(mut self) -> Self {
        self.verdict = self.verdict.min(Verdict::Reproduced);
        self
    }

    /// Why, if it was not reproduced: what was found out, no guess.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        if self.verdict == Verdict::NotReproduced {
            self.cause = Some(cause.into());
        }
        self
    }

    fn number(what: impl Into<String>, paper: f64, measured: f64, better: f64) -> Self {
        // What is no number (nothing over nothing) shows nothing.
        let verdict = match better {
            _ if better >= 1.0 + NEAR => Verdict::Surpassed,
            _ if better >= 1.0 - NEAR => Verdict::Reproduced,
            _ => Verdict::NotReproduced,
        };
        Self {
            what: what.into(),
            paper: crate::report::Cell::Number(paper).to_string(),
            measured: crate::report::Cell::Number(measured).to_string(),
            numbers: (paper.is_finite() && measured.is_finite()).then_some((paper, measured)),
            verdict,
            cause: None,
        }
    }
}

fn reproduced(so: bool) -> Verdict {
    if so {
        Verdict::Reproduced
    } else {
        Verdict::NotReproduced
    }
}

/// The verdict over all claims: one that was not reproduced decides, else one that was surpassed.
pub fn overall(claims: &[Claim]) -> Option<Verdict> {
    let all = || claims.iter().map(|claim| claim.verdict);
    match all().min() {
        Some(Verdict::NotReproduced) => Some(Verdict::NotReproduced),
        _ => all().max(),
    }
}

/// The numbers claimed, by `whom`, and the measured ones: a row for each claim in which both are
/// above 0.
pub fn beside_the_paper(claims: &[Claim], whom: &str) -> Option<Dots> {
    let both = |claim: &&Claim| matches!(claim.numbers, Some((a, b)) if a > 0.0 && b > 0.0);
    let claims: Vec<&Claim> = claims.iter().filter(both).collect();
    let series = |name: &str, of: fn((f64, f64)) -> f64| {
        let numbers = claims.iter().filter_map(|claim| claim.numbers).enumerate();
        Series {
            points: numbers.map(|(row, both)| (of(both), row as f64)).collect(),
            ..Series::new(name)
        }
    };
    (!claims.is_empty()).then(|| Dots {
        title: "Numbers claimed and measured".to_owned(),
        x: "number of the claim, in its unit".to_owned(),
        rows: claims.iter().map(|claim| claim.what.clone()).collect(),
        series: vec![
            series(whom, |both| both.0),
            series("measured", |both| both.1),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_beside_the_paper_s() {
        let claims = [
            Claim::holds("order", "yes", "yes", true),
            Claim::at_least("gain", 2.0, 4.0),
            Claim::at_least("gain over nothing", 2.0, f64::INFINITY),
            Claim::at_most("reads", 1.0, 0.0),
            Claim::near("rate", 3.0, 0.5, 0.1),
        ];
        let dots = beside_the_paper(&claims, "paper").unwrap();
        assert_eq!(dots.rows, ["gain", "rate"]);
        assert_eq!(dots.series[0].points, [(2.0, 0.0), (3.0, 1.0)]);
        assert_eq!(dots.series[1].points, [(4.0, 0.0), (0.5, 1.0)]);
        assert!(beside_the_paper(&claims[..1], "paper").is_none());
    }

    #[test]
    fn verdicts_follow_from_numbers() {
        for (measured, verdict) in [
            (2.0, Verdict::Reproduced),
            (1.81, Verdict::Reproduced),
            (2.3, Verdict::Surpassed),
            (1.7, Verdict::NotReproduced),
            (f64::NAN, Verdict::NotReproduced),
        ] {
            assert_eq!(Claim::at_least("", 2.0, measured).verdict, verdict);
        }
        assert_eq!(Claim::at_most("", 2.0, 1.0).verdict, Verdict::Surpassed);
        assert_eq!(Claim::at_most("", 2.0, 2.1).verdict, Verdict::Reproduced);
        assert_eq!(Claim::at_most("", 2.0, 3.0).verdict, Verdict::NotReproduced);
        assert_eq!(Claim::at_most("", 2.0, 0.0).verdict, Verdict::Surpassed);
        assert_eq!(Claim::near("", 2.0, 2.1, 0.1).verdict, Verdict::Reproduced);
        let more = |measured| Claim::at_least("", 2.0, measured).no_better().verdict;
        assert_eq!(more(3.0), Verdict::Reproduced);
        assert_eq!(more(1.0), Verdict::NotReproduced);
        assert_eq!(
            Claim::near("", 2.0, 2.3, 0.1).verdict,
            Verdict::NotReproduced
        );
    }

    #[test]
    fn a_cause_belongs_to_what_was_not_reproduced() {
        let cause = |claim: Claim| claim.because("the disk").cause;
        assert_eq!(cause(Claim::at_least("", 1.0, 1.0)), None);
        let not = Claim::holds("", "yes", "no", false);
        assert_eq!(cause(not).as_deref(), Some("the disk"));
    }

    #[test]
    fn one_claim_that_fails_decides() {
        let claim = |measured| Claim::at_least("", 1.0, measured);
        let over = |all: &[f64]| overall(&all.iter().map(|m| claim(*m)).collect::<Vec<_>>());
        assert_eq!(over(&[]), None);
        assert_eq!(over(&[1.0, 1.0]), Some(Verdict::Reproduced));
        assert_eq!(over(&[1.0, 2.0]), Some(Verdict::Surpassed));
        assert_eq!(over(&[1.0, 2.0, 0.1]), Some(Verdict::NotReproduced));
    }
}
