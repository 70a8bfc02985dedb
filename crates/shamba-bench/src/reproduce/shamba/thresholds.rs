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
    let halved = partial(engines).map(|(at, engine)| {
        let when = halved_at(at, points).map_or_else(String::new, |at| format!(" at {at}"));
        format!(
            "{engine} reads the first of its two modules and never the second{when}: with the printed threshold of 0.1 the \
             second of two equal modules is worth reading in no file (at most 0.083 is to be had; a test of the engine, \
             `the_printed_thresholds_never_read_a_second_module`, has it), and a larger one in few. So it is a filter of \
             fewer bits, but where the second is in memory already, and what is saved is saved by that."
        )
    });
    bare.chain(halved).collect()
}

/// The points from which a verdict follows on who skips the second module.
pub(super) const READ: &str = "where its second module is read";

/// The engines that skip the second module by the paper's thresholds, with their places.
fn partial<'a>(engines: &[&'a str]) -> impl Iterator<Item = (usize, &'a str)> {
    let skips = |engine: &&str| engine.contains("-p+") && engine.contains("+paper");
    let all = engines.iter().enumerate();
    all.filter(move |(_, engine)| skips(engine))
        .map(|(at, engine)| (at, short(engine)))
}

/// Whether an engine reads its second module at a point.
fn reads_second(point: &Point, engine: usize) -> bool {
    let found = point.found.get(engine);
    let fetched = found.and_then(|found| found.counts.get("module_1_fetched"));
    fetched.is_some_and(|fetched| *fetched > 0)
}

/// At how many of all points an engine never reads its second module, where that is not at all.
fn halved_at(engine: usize, points: &[Point]) -> Option<String> {
    let read = points.iter().filter(|point| reads_second(point, engine));
    let (read, all) = (read.count(), points.len());
    (read > 0).then(|| format!("{} of {all} points", all - read))
}

/// Of these points those from which a verdict follows on an engine, and what they are called where
/// they are not all: those at which its second module is read, of one that skips it and reads it at
/// most of these.
pub(super) fn judged<'a>(
    engines: &[&str],
    engine: usize,
    points: &[&'a Point],
) -> (Vec<&'a Point>, Option<&'static str>) {
    let skips = partial(engines).any(|(at, _)| at == engine);
    let read = points.iter().copied();
    let read: Vec<&Point> = read.filter(|point| reads_second(point, engine)).collect();
    if skips && 2 * read.len() > points.len() {
        (read, Some(READ))
    } else {
        (points.to_vec(), None)
    }
}

/// Says so in the measured part of these engines' claims as well, from which no verdict follows.
pub(super) fn without_verdicts(engines: &[&str], points: &[Point], claims: &mut [Claim]) {
    // What was counted, and what a test of the engine has.
    let bare = without_filters(engines, points).into_iter();
    let bare = bare.map(|(engine, seen)| {
        let does = "next to no module has utility enough to be fetched, so that what is saved is of filters that are not read";
        (engine, format!("; it {seen}"), does.to_owned())
    });
    let halved = partial(engines).filter_map(|(at, engine)| {
        let never = halved_at(at, points);
        if never.as_ref().is_some_and(|never| never.starts_with("0 ")) {
            return None;
        }
        let when = never.map_or_else(String::new, |never| format!(", at {never}"));
        let does = format!(
            "a second module is never fetched{when}, so that what is saved is of filters that are read by part"
        );
        Some((engine, String::new(), does))
    });
    for (engine, seen, does) in bare.chain(halved) {
        let reason = format!("with the thresholds that the paper prints {does}");
        let beside = [" than ", " with which "].map(|word| format!("{word}{engine} "));
        for claim in claims.iter_mut() {
            let rest = claim.what.strip_prefix(engine);
            let own = rest.is_some_and(|rest| rest.starts_with([' ', ':']));
            let other = beside.iter().any(|beside| claim.what.contains(beside));
            // There its second module is read.
            if !(own || other) || claim.is_goal() || claim.what.contains(READ) && seen.is_empty() {
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
    fn where_the_second_module_is_read_it_is_judged() {
        let engines = [
            ENGINES[0],
            "shamba:shamba-prop-p+paper+first={first}",
            "shamba:shamba-eq-p+paper",
        ];
        // The second engine reads its second module so often; the third never does.
        let points = |fetched: [u64; 2]| {
            fetched.map(|fetched| {
                let mut second = found("filter_pages", 1);
                second.counts.insert("module_1_fetched".into(), fetched);
                point([found("filter_pages", 1), second, found("filter_pages", 1)])
            })
        };
        let some = points([3, 0]);
        let judged_of = |engine, points: &[&Point]| {
            let (judged, place) = judged(&engines, engine, points);
            (judged.len(), place)
        };
        let [read, never] = [&some[0], &some[1]];
        assert_eq!(judged_of(1, &[read, never, read]), (2, Some(READ)));
        // Of half or fewer nothing follows.
        assert_eq!(judged_of(1, &[read, never]), (2, None));
        assert_eq!(judged_of(2, &[read, never, read]), (3, None));
        let whats = [
            format!("shamba-prop-p+paper: fewer reads {READ}"),
            "shamba-prop-p+paper: fewer reads".to_owned(),
            "shamba-prop reads less than shamba-eq-p+paper everywhere".to_owned(),
            "shamba-prop reads less than shamba-eq everywhere".to_owned(),
        ];
        let verdicts = |points: &[Point]| {
            let mut claims = whats
                .each_ref()
                .map(|what| Claim::everywhere_but(what.as_str(), 2, 1));
            without_verdicts(&engines, points, &mut claims);
            claims.map(|claim| claim.verdict)
        };
        use Verdict::{DoesNotHold, NotComparable};
        let [no, none] = [DoesNotHold, NotComparable];
        assert_eq!(verdicts(&some), [no, none, none, no]);
        assert_eq!(verdicts(&points([3, 3])), [no, no, none, no]);
    }

    #[test]
    fn who_never_reads_a_second_module_is_told() {
        let engines = [
            "shamba:shamba-eq",
            "shamba:shamba-eq-p+paper",
            "shamba:shamba-prop-p+paper+first={first}",
            "shamba:shamba-eq-f+paper",
        ];
        let mut read = found("filter_pages", 1);
        read.counts.insert("module_1_fetched".into(), 1);
        let all = |third: Found| {
            let mut point = point([(); 4].map(|()| found("filter_pages", 1)));
            point.found[2] = third;
            point
        };
        let points = [all(read), all(found("filter_pages", 1))];
        let told = notes(&engines, &points);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("never the second:"), "{told:?}");
        assert!(
            told[1].contains("never the second at 1 of 2 points"),
            "{told:?}"
        );
    }
}
