//! What skipping is with the thresholds that the paper prints: some systems read no filter, others
//! never a second module.
use super::pressure::{Point, filter_pages, short};
use crate::reproduce::Verdict;
use crate::reproduce::prelude::*;

/// What is to be noted of engines with the paper's thresholds: those that read no filter at most
/// points, so that what they read says nothing of modules, and those that skip partially, which
/// read the first of two equal modules alone.
pub(super) fn notes(engines: &[&str], points: &[Point]) -> Vec<String> {
    let bare = without_filters(engines, points).into_iter().map(|(engine, seen)| {
        format!(
            "{engine} {seen}: next to no module is worth as much as the paper's thresholds ask for, and what is saved is \
             saved by fetching none; what is in memory already is asked."
        )
    });
    let halved = partial(engines).map(|(engine, when)| {
        format!(
            "{engine} reads the first of its two modules and never the second{when}: with the printed threshold of 0.1 the \
             second of two equal modules is worth reading in no file (at most 0.083 is to be had; a test of the engine, \
             `the_printed_thresholds_never_read_a_second_module`, has it). So it is a filter of half the bits, but where \
             the second is in memory already, and what is saved is saved by that."
        )
    });
    bare.chain(halved).collect()
}

/// Where of modules that are as large as memory allows the second is no larger than the first, and
/// where it is.
const FROM_HALF: &str = " from 50 % of memory on, where it is no larger than the first";
pub(super) const BELOW_HALF: &str = "below 50 % of memory";

/// The engines that skip the second module by the paper's thresholds, and where that is said of
/// them.
fn partial<'a>(engines: &[&'a str]) -> impl Iterator<Item = (&'a str, &'static str)> {
    let skips = |engine: &&&str| engine.contains("-p+") && engine.contains("+paper");
    engines.iter().filter(skips).map(|engine| {
        // Its modules are as large as memory allows.
        let proportional = engine.contains("shamba-prop");
        let when = if proportional { FROM_HALF } else { "" };
        (short(engine), when)
    })
}

/// Of these points those from which a verdict follows on an engine, and what they are called where
/// they are not all: those at which its second module is read.
pub(super) fn judged<'a>(
    engine: &str,
    points: &[&'a Point],
) -> (Vec<&'a Point>, Option<&'static str>) {
    let halved = partial(&[engine]).any(|(_, when)| when == FROM_HALF);
    let judged = points.iter().copied();
    let judged = judged.filter(|point| !halved || point.percent < 50.0);
    (judged.collect(), halved.then_some(BELOW_HALF))
}

/// Says so in the measured part of these engines' claims as well, from which no verdict follows.
pub(super) fn without_verdicts(engines: &[&str], points: &[Point], claims: &mut [Claim]) {
    // What was counted, and what a test of the engine has.
    let bare = without_filters(engines, points).into_iter();
    let bare = bare.map(|(engine, seen)| {
        let does = "next to no module has utility enough to be fetched, so that what is saved is of filters that are not read";
        (engine, format!("; it {seen}"), does.to_owned())
    });
    let halved = partial(engines).map(|(engine, when)| {
        let does = format!(
            "a second module is never fetched, so that what is saved is of filters that are read by half{when}"
        );
        (engine, String::new(), does)
    });
    let all_below_half = points.iter().all(|point| point.percent < 50.0);
    for (engine, seen, does) in bare.chain(halved) {
        for claim in claims.iter_mut() {
            let rest = claim.what.strip_prefix(engine);
            let of_it = rest.is_some_and(|rest| rest.starts_with([' ', ':']));
            // There its second module is the larger one, and is read.
            let elsewhere =
                does.ends_with(FROM_HALF) && (all_below_half || claim.what.contains(BELOW_HALF));
            if of_it && !elsewhere {
                let mut reason = format!("with the thresholds that the paper prints {does}");
                // What has no verdict for another reason keeps that.
                if claim.verdict == Verdict::NotComparable
                    && let Some(first) = &claim.cause
                {
                    reason = format!("{first}; and {reason}");
                }
                *claim = claim.clone().without_verdict(reason);
                claim.measured += &seen;
            }
        }
    }
}

/// The engines with the paper's thresholds that read no filters at most points, and at how many.
pub(super) fn without_filters<'a>(engines: &[&'a str], points: &[Point]) -> Vec<(&'a str, String)> {
    let told = engines.iter().enumerate().filter_map(|(at, engine)| {
        let bare = |point: &&Point| point.value(at, filter_pages) == 0.0;
        let (without, all) = (points.iter().filter(bare).count(), points.len());
        let skips = engine.contains("+paper") && 2 * without > all;
        let seen = format!("reads no page of a filter at {without} of {all} points");
        skips.then(|| (short(engine), seen))
    });
    told.collect()
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
    fn who_reads_no_filters_is_told() {
        let told = |pages| notes(&ENGINES, &points::<3>(pages));
        let one = told([[1, 0], [0, 0], [0, 1]]);
        assert!(
            one[0].starts_with("shamba-eq-f+paper reads no page of a filter at 2 of 3 points"),
            "{one:?}"
        );
        assert_eq!((one.len(), told([[0, 0], [0, 1], [0, 1]]).len()), (1, 0));
    }

    #[test]
    fn claims_of_who_reads_no_filters_say_so() {
        let claim = |what: &str| Claim::everywhere_but(what, 1, 0);
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
    fn where_the_second_module_is_the_larger_one_it_is_read_and_judged() {
        let engines = [ENGINES[0], "shamba:shamba-prop-p+paper+first={first}"];
        let up_to = |percent: f64, pages| {
            let mut points = points::<2>([pages; 2]);
            points[1].percent = percent;
            points
        };
        let claim = |place: &str| {
            Claim::everywhere_but(format!("shamba-prop-p+paper reads less {place}"), 1, 1)
        };
        let mut claims = [claim(BELOW_HALF), claim("with less than 100 %")];
        // What was measured below half alone is judged, whatever the words.
        without_verdicts(&engines, &up_to(25.0, [1, 1]), &mut claims);
        let verdicts = claims.each_ref().map(|claim| claim.verdict);
        assert_eq!(verdicts, [Verdict::DoesNotHold; 2]);
        without_verdicts(&engines, &up_to(75.0, [1, 1]), &mut claims);
        let verdicts = claims.each_ref().map(|claim| claim.verdict);
        assert_eq!(verdicts, [Verdict::DoesNotHold, Verdict::NotComparable]);
        // Who reads no filters is not judged there either.
        without_verdicts(&engines, &up_to(75.0, [1, 0]), &mut claims);
        assert_eq!(claims[0].verdict, Verdict::NotComparable);
    }

    #[test]
    fn who_never_reads_a_second_module_is_told() {
        let engines = [
            "shamba:shamba-eq",
            "shamba:shamba-eq-p+paper",
            "shamba:shamba-prop-p+paper+first={first}",
            "shamba:shamba-eq-f+paper",
        ];
        let told = notes(&engines, &[]);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].contains("from 50 % of memory on"), "{told:?}");
    }
}
