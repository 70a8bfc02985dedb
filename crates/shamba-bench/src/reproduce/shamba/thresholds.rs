//! What skipping is with the thresholds that the paper prints: some systems read no filter, others
//! never a second module.
use super::pressure::{Measure, Point, filter_pages, short, short_of_memory, those};
use crate::reproduce::Verdict;
use crate::reproduce::prelude::*;

/// Counts the second modules that were read.
const SECOND: &str = "module_1_fetched";

/// The engines with the paper's thresholds of a kind, and at how many of the points they read
/// nothing.
fn reading_none<'a>(
    engines: &[&'a str],
    kind: &str,
    points: &[&Point],
    of: Measure,
) -> Vec<(&'a str, usize)> {
    let all = engines.iter().enumerate();
    let own = all.filter(|(_, engine)| engine.contains("+paper") && engine.contains(kind));
    let told = own.map(|(at, engine)| {
        let none = |point: &&&Point| point.value(at, of) == 0.0;
        (short(engine), points.iter().filter(none).count())
    });
    told.collect()
}

/// Second modules a lookup that are more than a few while memory fills.
const MORE_THAN_FEW: f64 = 0.01;

/// The points at which an engine reads second modules, more than a few.
pub(super) fn with_second<'a>(points: &[&'a Point], engine: usize) -> Vec<&'a Point> {
    let modules = |point: &Point| point.value(engine, |found| found.per_lookup(SECOND));
    let fetched = |point: &&Point| modules(point) >= MORE_THAN_FEW;
    points.iter().copied().filter(fetched).collect()
}

/// The engines that read no filters at most points, and at how many.
pub(super) fn without_filters<'a>(engines: &[&'a str], points: &[Point]) -> Vec<(&'a str, usize)> {
    let mut told = reading_none(engines, "", &those(points, |_| true), filter_pages);
    told.retain(|(_, none)| 2 * none > points.len());
    told
}

/// Says so in the measured part of these engines' claims as well, from which no verdict follows.
pub(super) fn without_verdicts(engines: &[&str], points: &[Point], claims: &mut [Claim]) {
    let all = points.len();
    let bare = without_filters(engines, points).into_iter();
    let bare = bare.map(|(engine, none)| {
        let does = "next to no module has utility enough to be fetched, so that what is saved is of filters that are not read";
        let seen = format!("; it reads no page of a filter at {none} of {all} points");
        (engine, seen, does.to_owned())
    });
    // What was counted, and what a test of the engine has. From 100 % on there may be no second.
    let short = short_of_memory(points);
    let halved = reading_none(engines, "-p+", &short, |found| found.per_lookup(SECOND)).into_iter();
    let halved = halved.filter(|(_, never)| *never > 0);
    let halved = halved.map(|(engine, never)| {
        let equal = if engine.contains("-eq") {
            " (one of equal ones has a utility of at most 0.083, and 0.1 is asked for)"
        } else {
            ""
        };
        let does = format!(
            "a second module is never fetched at {never} of {} points with less than 100 % of memory{equal}, so that what is \
             saved is of filters that are read by part",
            short.len()
        );
        (engine, String::new(), does)
    });
    for (engine, seen, does) in bare.chain(halved) {
        let reason = format!("with the thresholds that the paper prints {does}");
        let beside = [" than ", " with which "].map(|word| format!("{word}{engine} "));
        for claim in claims.iter_mut() {
            let rest = claim.what.strip_prefix(engine);
            let own = rest.is_some_and(|rest| rest.starts_with([' ', ':']));
            let other = beside.iter().any(|beside| claim.what.contains(beside));
            if !(own || other) || claim.is_goal() {
                continue;
            }
            // What has no verdict for another reason keeps that.
            let reason = match &claim.cause {
                Some(first) if claim.verdict == Verdict::NotComparable => {
                    format!("{first}; and {reason}, by {engine}")
                }
                _ => reason.clone(),
            };
            *claim = claim.clone().without_verdict(reason);
            if own {
                claim.measured += &seen;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pressure::tests::{found, point};
    use super::*;
    use crate::reproduce::Verdict;

    const ENGINES: [&str; 2] = ["shamba:shamba-eq", "shamba:shamba-eq-f+paper"];

    /// Points at which both read so many pages of filters.
    fn points<const N: usize>(pages: [[u64; 2]; N]) -> [Point; N] {
        pages.map(|both| point(both.map(|pages| found("filter_pages", pages))))
    }

    #[test]
    fn claims_of_who_reads_no_filters_say_so() {
        let claim = |what: &str| Claim::at_each(what, [true]);
        let mut claims = [
            claim("shamba-eq: fewer"),
            claim("shamba-eq-f+paper: fewer"),
            claim("shamba-eq-f+paper reads less"),
            claim("shamba-eq-f+papers: fewer"),
        ];
        without_verdicts(&ENGINES, &points([[1, 0]]), &mut claims);
        let told = claims.map(|claim| {
            let told = claim.measured.contains("it reads no page of a filter");
            (told, claim.verdict == Verdict::NotComparable)
        });
        let [so, not] = [true, false].map(|it| (it, it));
        assert_eq!(told, [not, so, so, not]);
        let first = claim("shamba-eq-f+paper: fewer").without_verdict("for another reason");
        let mut claims = [first];
        without_verdicts(&ENGINES, &points([[1, 0]]), &mut claims);
        let cause = claims[0].cause.as_deref().unwrap_or_default();
        assert!(
            cause.starts_with("for another reason; and with the thresholds"),
            "{cause}"
        );
    }

    #[test]
    fn who_reads_its_second_module_everywhere_is_judged() {
        let engines = [ENGINES[0], "shamba:shamba-prop-p+paper+first={first}"];
        // The last reads its second module so often; with all memory there is none.
        let verdicts = |[once, again]: [u64; 2]| {
            let points = [(10.0, once), (40.0, again), (100.0, 0)].map(|(percent, fetched)| {
                let mut second = found("filter_pages", 1);
                second.counts.insert(SECOND.into(), fetched);
                Point {
                    percent,
                    ..point([found("filter_pages", 1), second])
                }
            });
            let whats = [
                "shamba-prop-p+paper: fewer reads",
                "shamba-eq reads less than shamba-prop-p+paper everywhere",
                "shamba-eq reads less than shamba-prop everywhere",
            ];
            let mut claims = whats.map(|what| Claim::at_each(what, [true, false]));
            without_verdicts(&engines, &points, &mut claims);
            claims.map(|claim| claim.verdict)
        };
        use Verdict::{DoesNotHold, NotComparable};
        assert_eq!(verdicts([3, 3]), [DoesNotHold; 3]);
        assert_eq!(
            verdicts([3, 0]),
            [NotComparable, NotComparable, DoesNotHold]
        );
    }
}
