//! Figures 6 to 8 and 10 to 12: pages read over the budget. Each is described by a [`Figure`], and
//! what is claimed of it.
use super::clock::{quicker, told_apart};
use super::modules::{self, ALL_READ};
use super::pressure::{self, DISTRIBUTIONS, Grid, Measure, Point, short, short_of_memory};
use super::pressure::{ALL, SIGNIFICANTLY_LESS, fewer, less, micros, not_less};
use super::pressure::{significantly_less, those};
use super::{curves, first_modules, skipped, thresholds};
use crate::reproduce::prelude::*;
use std::ops::Range;

/// What a figure shows, for every share of existing keys.
pub(super) struct Figure {
    distributions: &'static [Distribution],
    budgets: fn(Scale) -> &'static [f64],
    base: fn(&Lab<'_>, &str) -> Base,
    /// What is drawn, and the name of its axis.
    drawn: &'static [(&'static str, Measure)],
    /// Whether the paper's systems are measured under the skew of its text as well.
    as_written: bool,
    /// What is claimed of the engines, which `experiments.toml` has; the last points are those of
    /// the skew of the paper's text.
    claims: Claims,
}

type Claims = fn(&[&str], &[Point], &[Point]) -> Vec<Claim>;

/// What most figures have.
const UNIFORM: Figure = Figure {
    distributions: &[Distribution::Uniform],
    budgets: pressure::short_budgets,
    base: pressure::standard,
    drawn: &[("pages read per lookup", Found::pages)],
    as_written: false,
    claims: |_, _, _| Vec::new(),
};

pub(super) const EQUAL: Figure = Figure {
    distributions: &DISTRIBUTIONS,
    // Between the least and the largest below 100 % the memory for equal reads is looked for.
    budgets: |scale| match scale {
        Scale::Quick => &[10.0, 20.0, 40.0, 100.0, 150.0],
        scale => scale.budgets(),
    },
    as_written: true,
    claims: |engines, points, written| {
        let mut claims = beside_the_baseline(engines, points, written);
        // Section 5.1.1.
        let enough = those(points, |point| {
            point.percent > 100.0 && point.distribution == Distribution::Uniform
        });
        let what = "uniform: fewer reads with more than 100 % of memory as well";
        claims.push(fewer(what, &enough, 1, ALL));
        claims.extend(skipping(engines, points, written));
        claims.extend(equal_reads(engines, points));
        claims.extend(goals(engines, points));
        claims
    },
    ..UNIFORM
};

pub(super) const PROPORTIONAL: Figure = Figure {
    claims: |engines, points, written| {
        let mut claims = beside_the_baseline(engines, points, written);
        claims.extend(skipping(engines, points, written));
        claims.extend(with_second_modules(engines, points, written));
        // Beside the equal modules of Figure 6, in the same order.
        let below_half = those(points, |point| point.percent < 50.0);
        claims.extend(PAPERS.map(|engine| {
            let equal = OURS + engine;
            let [own, other] = [engine, equal].map(|at| short(engines[at]));
            let what = format!("{own} reads less than {other} {BELOW_HALF}");
            less(what, &below_half, (engine, equal), Found::pages)
        }));
        // Section 5.1.1: the one with less memory, the other with more. At half both have the same
        // modules, and from 100 % on the one is the baseline: those points are of Figure 6.
        let from_half = those(points, |point| {
            point.percent > 50.0 && point.percent < 100.0
        });
        let (own, equal) = (PAPERS.start, OURS + 1);
        let worse = from_half
            .iter()
            .filter(|point| point.pages(equal) > point.pages(own));
        let worse = worse.map(|point| point.with(&[equal, own], Found::pages));
        let worse: Vec<String> = worse.collect();
        let [equal, own] = [equal, own].map(|at| short(engines[at]));
        let what = format!(
            "{equal} reads no more than {own} with more than 50 % of memory, where the paper selects it (with 50 % both \
             have the same modules, and with 100 % and more {own} one filter a file)"
        );
        claims.push(Claim::everywhere(what, from_half.len(), &worse));
        claims
    },
    ..EQUAL
};

/// The paper's systems among the engines of Figures 6 and 7, without the baseline; the last of them
/// once more, its thresholds relative to the number of files; and our default.
const PAPERS: Range<usize> = 1..4;
const RELATIVE: usize = 4;
const OURS: usize = 5;

/// Where the second of modules that are as large as memory allows is the larger one.
const BELOW_HALF: &str = "below 50 % of memory";

/// The part of the memory with which SHaMBa reads as much as the state of the art (abstract).
const THIRD: f64 = 1.0 / 3.0;

/// The paper's skewed workloads by its own words (section 5.1): a standard deviation of 5 keys, and
/// a skew of 2.
const AS_WRITTEN: [Distribution; 2] = [Distribution::NormalKeys(5.0), Distribution::Zipf(2.0)];

/// In 1, 2, 3 and 7 modules, all read; then with skipping.
pub(super) const SKIPPED_MODULES: Figure = Figure {
    base: modules::base,
    claims: |engines, points, _| {
        let all = modules::spread(points, 0..ALL_READ);
        let skipped = modules::spread(points, ALL_READ..engines.len());
        let what = "skipping lessens what the number of modules does (most over least pages of 1, 2, 3, 7 \
                    modules, mean where memory is short)";
        let seen = format!("{skipped:.2} times with skipping, {all:.2} without");
        let claim = Claim::statement(what, "yes", seen, skipped < all);
        // Of the four that skip.
        let bare = thresholds::without_filters(engines, points).len();
        vec![claim.unless(
            bare > 1,
            "with the paper's thresholds half of the systems with skipping, or more, read no filters, of however many \
             modules",
        )]
    },
    ..UNIFORM
};

pub(super) const ALL_MODULES: Figure = Figure {
    claims: |_, points, _| {
        let (empty, existing): (Vec<&Point>, Vec<&Point>) =
            (short_of_memory(points).into_iter()).partition(|point| point.positive == 0.0);
        let existing_keys =
            "lookups of which half or all find a key (the paper names no share of them): the same";
        vec![
            modules::falling(&empty, "empty lookups: the more modules the fewer reads"),
            modules::falling(&existing, existing_keys),
        ]
    },
    ..SKIPPED_MODULES
};

/// Why no verdict follows from modules of partitioned filters.
const ONE_PAGE: &str = "the paper has modules where a filter is more than a page (section 2), and its partitions' filters have \
                        three, read whole; a lookup here reads one page of a partition's filter, in modules or not, so that \
                        what modules save there is saved by the baseline";

pub(super) const PARTITIONED: Figure = Figure {
    budgets: |scale| match scale {
        Scale::Tiny => &[35.0],
        Scale::Quick => &[5.0, 15.0, 35.0],
        _ => &[5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0],
    },
    claims: |engines, points, _| {
        let all = those(points, |_| true);
        let own = |at: usize| {
            let what = format!("{}: fewer reads", short(engines[at]));
            fewer(what, &all, at, ALL).without_verdict(ONE_PAGE)
        };
        let mut claims: Vec<Claim> = (1..4).map(own).collect();
        let least = |point: &&&Point| point.pages(3) < point.pages(1).min(point.pages(2));
        let worse = all.iter().filter(|point| !least(point));
        let worse = worse.map(|point| point.with(&[3, 2, 1], Found::pages));
        let worse: Vec<String> = worse.collect();
        let what = "full skipping reads least of SHaMBa's variants (full, partial, none)";
        claims.push(Claim::everywhere(what, points.len(), &worse).without_verdict(ONE_PAGE));
        let what = "our default: fewer reads than partitioned indexes and filters";
        claims.push(less(what, &all, (4, 0), Found::pages).as_goal());
        claims
    },
    ..UNIFORM
};

pub(super) const OVER_MONKEY: Figure = Figure {
    drawn: &[
        ("microseconds per lookup on a RAM disk", micros),
        ("pages read per lookup", Found::pages),
    ],
    claims: over_monkey,
    ..UNIFORM
};

impl Figure {
    pub(super) fn run(&self, lab: &mut Lab<'_>) -> Result<Findings> {
        // The first is the baseline.
        let (engines, base) = (&lab.engines.clone()[..], self.base);
        let budgets = (self.budgets)(lab.scale);
        let grid = Grid {
            distributions: self.distributions,
            base,
            ..Grid::uniform(engines, budgets)
        };
        let points = pressure::measure(lab, &grid)?;
        let setting = pressure::setting_of(lab, &base(lab, engines[0]));
        let papers = &engines[..engines.len().min(PAPERS.end)];
        let mut written = Vec::new();
        if self.as_written {
            let grid = Grid {
                distributions: &AS_WRITTEN,
                positives: &[0.0, 0.5],
                ..Grid::uniform(papers, &budgets[..2])
            };
            written = pressure::measure(lab, &grid)?;
        }
        let mut claims = (self.claims)(engines, &points, &written);
        thresholds::without_verdicts(engines, &points, &mut claims);
        let of = (lab.scale.entries(), lab.metadata(&base(lab, engines[0]))?);
        if let Some(told) = first_modules::told(of, engines, &points) {
            first_modules::without_verdicts(&told, &mut claims);
        }
        let drawn = self.drawn.iter();
        let panels = drawn.flat_map(|(y, of)| pressure::panels_of(engines, &points, y, *of));
        let mut findings = Findings {
            panels: panels.collect(),
            ..pressure::findings(setting, engines, &points, claims)
        };
        if self.as_written {
            let title = "Pages read per lookup, skew as the paper's text has it";
            let table = pressure::table(title, papers, &written);
            findings.tables.push(table);
            findings.panels.extend(pressure::panels(papers, &written));
        }
        Ok(findings)
    }
}

/// An engine's name, with what is another reading of the paper's.
fn name_of(engines: &[&str], engine: usize) -> String {
    match short(engines[engine]) {
        name if engine == RELATIVE => {
            format!("{name} (our thresholds, relative to the number of files)")
        }
        name => name.to_owned(),
    }
}

/// For each of the paper's systems, that it reads less wherever memory is short, and takes less
/// time.
fn beside_the_baseline(engines: &[&str], points: &[Point], written: &[Point]) -> Vec<Claim> {
    let of = |engine: usize| {
        let name = name_of(engines, engine);
        let short = short_by_skew(engine, points, written);
        let (points, place) = (&short.judged[..], &short.place);
        let what =
            format!("{name}: more than a tenth fewer reads (\"significantly\", our limit) {place}");
        let latency = format!("{name}: lower latency {place} (RAM disk, this machine's clock)");
        let pair = (engine, 0);
        let mut fewer = fewer(what, points, engine, SIGNIFICANTLY_LESS);
        let lost = |points: &[&Point], of| not_less(points, pair, of, SIGNIFICANTLY_LESS).len();
        fewer.measured += &format!(
            "; in read operations (of a page or several) at {} of {}",
            points.len() - lost(points, Found::reads),
            points.len()
        );
        let told = told_apart(&short.skewed, pair);
        let slower = not_less(&told, pair, micros, ALL).len();
        let lost = lost(&short.skewed, Found::pages);
        let both = [
            short.with_told(fewer, &short.skewed, lost),
            short.with_told(quicker(&latency, points, pair), &told, slower),
        ];
        both.map(|claim| of_the_paper(claim, engine))
    };
    (PAPERS.start..=RELATIVE).flat_map(of).collect()
}

/// The claim, as a goal of ours where the thresholds are.
fn of_the_paper(claim: Claim, engine: usize) -> Claim {
    if engine == RELATIVE {
        claim.as_goal()
    } else {
        claim
    }
}

/// The points of an engine at which memory is short.
struct Short<'a> {
    judged: Vec<&'a Point>,
    /// What they are called.
    place: String,
    /// Those of our skewed workloads, which are told.
    skewed: Vec<&'a Point>,
    /// Those of the text's skew, judged or not.
    written: Vec<&'a Point>,
}

/// Judged are uniform lookups and the skewed ones of the paper's text, where the baseline reads at
/// all. Our thresholds were not measured with these: of them our skewed ones are judged, with less
/// than half of the memory, since the paper sees the benefits at smaller caches (section 5.1.1).
fn short_by_skew<'a>(engine: usize, points: &'a [Point], written: &'a [Point]) -> Short<'a> {
    let uniform = |point: &&Point| point.distribution == Distribution::Uniform;
    let (mut judged, skewed): (Vec<_>, Vec<_>) =
        short_of_memory(points).into_iter().partition(uniform);
    let (written, place) = if engine == RELATIVE {
        judged.extend(skewed.iter().filter(|point| point.percent < 50.0));
        let place = "with less than 100 % of memory (under our skew with less than 50 %)";
        (Vec::new(), place.to_owned())
    } else {
        let place = format!(
            "with less than 100 % of memory, uniform, and with a skew of 5 keys and Zipf of 2 with {:?} %",
            pressure::budgets(written)
        );
        (short_of_memory(written), place)
    };
    judged.extend(written.iter().filter(|point| point.pages(0) > 0.0));
    Short {
        judged,
        place,
        skewed,
        written,
    }
}

impl Short<'_> {
    /// A claim of what is judged, with at how many of our skewed points, or those of them whose
    /// times are told apart, it is so, and of the text's at how many the baseline reads nothing.
    fn with_told(&self, mut claim: Claim, skewed: &[&Point], lost: usize) -> Claim {
        let (so, all) = (skewed.len() - lost, skewed.len());
        claim.measured += &format!("; under our skew with less than 100 %: at {so} of {all}");
        if !self.written.is_empty() {
            let unread = AS_WRITTEN.map(|skew| {
                let of_it = |point: &&&Point| point.distribution == skew;
                let own = self.written.iter().filter(of_it);
                let none = own.clone().filter(|point| point.pages(0) == 0.0).count();
                format!("{none} of {} of {}", own.count(), skew.name())
            });
            let unread = joined(unread);
            claim.measured += &format!("; the baseline reads nothing at {unread}");
        }
        claim
    }
}

/// That skipping saves reads wherever memory is short: of lookups that find nothing as of others
/// (section 5.1.1).
fn skipping(engines: &[&str], points: &[Point], written: &[Point]) -> Vec<Claim> {
    let of = |engine: usize| {
        let (own, all) = (name_of(engines, engine), short(engines[1]));
        let apart = short_by_skew(engine, points, written);
        let (judged, place) = (&apart.judged, &apart.place);
        let what = format!(
            "{own} reads more than a tenth less (\"significantly\", our limit) than {all} {place}"
        );
        let pair = (engine, 1);
        let claim = significantly_less(what, judged, pair, Found::pages);
        let lost = not_less(&apart.skewed, pair, Found::pages, SIGNIFICANTLY_LESS);
        let told = apart.with_told(claim, &apart.skewed, lost.len());
        of_the_paper(told, engine)
    };
    let every = short_of_memory(points);
    let with_existing = (2..=RELATIVE).map(|engine| {
        let claim =
            skipped::more_with_existing(engines, &every, (engine, &name_of(engines, engine)));
        of_the_paper(claim, engine)
    });
    (2..=RELATIVE).map(of).chain(with_existing).collect()
}

/// Of partial skipping what is judged of it where it does fetch a second module, which with the
/// printed thresholds it does at few points.
fn with_second_modules(engines: &[&str], points: &[Point], written: &[Point]) -> Vec<Claim> {
    let own = PAPERS.start + 1;
    let apart = short_by_skew(own, points, written);
    let judged = thresholds::with_second(&apart.judged, own);
    let beside = [0, 1].map(|other| {
        let [name, other_name] = [own, other].map(|at| short(engines[at]));
        let what = format!(
            "where a second module is fetched, by a lookup in 100 or more, {name}: more than a tenth fewer reads \
             (\"significantly\", our limit) than {other_name} {}",
            apart.place
        );
        significantly_less(what, &judged, (own, other), Found::pages)
    });
    let some = !judged.is_empty() && judged.len() < apart.judged.len();
    beside.into_iter().filter(|_| some).collect()
}

/// The part of the memory that the paper's systems need to read what the baseline reads with half
/// of the memory or more.
fn equal_reads(engines: &[&str], points: &[Point]) -> Vec<Claim> {
    let part = |engine: usize, percent: f64| {
        let part = curves::memory_for_reads_at(points.iter(), engine, percent);
        part.unwrap_or(f64::NAN)
    };
    let mut budgets = pressure::budgets(points);
    budgets.retain(|percent| (50.0..=100.0).contains(percent));
    let reason = "the abstract says neither which of its systems it speaks of nor beside how much memory, nor whether \
                  an I/O is a page or a read of several, and what follows hangs on all three";
    let each = (PAPERS.start..=RELATIVE).map(|engine| {
        let parts = budgets.iter().map(|percent| part(engine, *percent));
        let parts: Vec<f64> = parts.collect();
        let name = name_of(engines, engine);
        if engine == RELATIVE {
            let what = format!(
                "{name}: part of the memory for as many reads as one filter a file at {budgets:?} %, at most"
            );
            return Claim::goal_to(what, THIRD, most_of(&parts));
        }
        let what = format!(
            "part of the memory with which {name} reads what one filter a file reads with {budgets:?} % of it, on the \
             average of pages over all panels"
        );
        let mut claim = Claim::range(what, (THIRD, THIRD), &parts).without_verdict(reason);
        let each = budgets.iter().zip(&parts);
        let each = each.map(|(percent, part)| format!("{part:.3}{}", at_most(points, percent * part)));
        claim.measured += &format!("; in this order {}", joined(each));
        claim
    });
    each.collect()
}

/// What is said of a budget that is the least measured.
fn at_most(points: &[Point], budget: f64) -> &'static str {
    let less = points.iter().any(|point| point.percent < budget);
    if less {
        ""
    } else {
        " (at most: less was not measured)"
    }
}

/// The same of our default: goals of this project.
fn goals(engines: &[&str], points: &[Point]) -> Vec<Claim> {
    let (engine, name) = (OURS, short(engines[OURS]));
    let what = format!("{name}: fewer reads than one filter a file below 100 % of memory");
    let short = short_of_memory(points);
    let mut claims = vec![less(what, &short, (engine, 0), Found::pages).as_goal()];
    if let Some(budget) = pressure::largest_short(points)
        && let Some(part) = curves::memory_for_reads_at(points.iter(), engine, budget)
    {
        let what = format!(
            "{name}: part of the memory for as many reads as one filter a file at {budget} %"
        );
        let mut claim = Claim::goal_to(what, THIRD, part);
        claim.measured += at_most(points, budget * part);
        claims.push(claim);
    }
    claims
}

fn over_monkey(_: &[&str], points: &[Point], _: &[Point]) -> Vec<Claim> {
    // Without modules, and in two that are both read.
    const MONKEY: usize = 1;
    const MODULES: usize = 2;
    let mut claims = Vec::new();
    // Empty lookups with the least memory.
    let least = points.first().map_or(0.0, |point| point.percent);
    let scarce = |point: &&Point| point.percent == least && point.positive == 0.0;
    if let Some(point) = points.iter().find(scarce) {
        let [plain, monkey] = [0, MONKEY].map(|engine| point.pages(engine));
        let place = point.place();
        let what = format!("Monkey reads more than the state of the art ({place})");
        let seen = format!("{monkey:.2} and {plain:.2} pages");
        claims.push(Claim::statement(what, "yes", seen, monkey > plain));
    }
    // The paper names no budget: all at which memory is short.
    let pressed = short_of_memory(points);
    let empty = pressed.iter().filter(|point| point.positive == 0.0);
    let left: Vec<f64> = empty
        .map(|point| point.pages(MODULES) / point.pages(MONKEY))
        .collect();
    let what = "part of Monkey's reads that two modules leave (empty lookups, every budget below 100 %; less is better)";
    let mut halved = Claim::range(what, (0.5, 0.5), &left);
    // The paper speaks of extreme pressure.
    if let Some(least) = left.first() {
        halved.measured += &format!("; with the least memory {least:.3}");
    }
    claims.push(halved);
    let what = "two modules make Monkey's lookups faster with less than 100 % of memory";
    claims.push(quicker(what, &short_of_memory(points), (MODULES, MONKEY)));
    claims
}

#[cfg(test)]
mod tests {
    use super::super::pressure::HIGH_SKEW;
    use super::super::pressure::tests::{found, point};
    use super::*;

    #[test]
    fn the_paper_s_skew_is_judged_where_the_baseline_reads_and_ours_told() {
        let at = |distribution, percent, pages| Point {
            distribution,
            percent,
            ..point([(); 6].map(|()| found("kernel_pages", pages)))
        };
        let uniform = at(Distribution::Uniform, 75.0, 1);
        let points = [uniform, at(HIGH_SKEW, 25.0, 1), at(HIGH_SKEW, 75.0, 1)];
        let written = [at(AS_WRITTEN[0], 25.0, 0), at(AS_WRITTEN[1], 25.0, 1)];
        let judged = |engine| {
            let short = short_by_skew(engine, &points, &written);
            let judged = short.judged.iter().map(|point| point.distribution);
            (judged.collect::<Vec<_>>(), short.skewed.len())
        };
        let uniform = Distribution::Uniform;
        assert_eq!(judged(PAPERS.start), (vec![uniform, AS_WRITTEN[1]], 2));
        assert_eq!(judged(RELATIVE), (vec![uniform, HIGH_SKEW], 2));
        let told = |engine| {
            let short = short_by_skew(engine, &points, &written);
            let claim = Claim::everywhere("", 2, &[]);
            short.with_told(claim, &short.skewed, 1).measured
        };
        let text = "at 2 of 2 points; under our skew with less than 100 %: at 1 of 2";
        let unread = "; the baseline reads nothing at 1 of 1 of normal-keys5, 0 of 1 of zipf2";
        assert_eq!(told(PAPERS.start), format!("{text}{unread}"));
        assert_eq!(told(RELATIVE), text);
    }
}
