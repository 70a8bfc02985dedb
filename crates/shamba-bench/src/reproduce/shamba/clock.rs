//! What is said of the times of two engines: of points at which they do not read the same, timed in
//! one session. Pure functions.
use super::pressure::{ALL, Measure, Point, less, micros, not_less, places};
use crate::reproduce::claim::{TOLERANCE, WHERE};
use crate::reproduce::prelude::*;

/// Why no verdict follows from the times of two engines.
const READ_ALIKE: &str =
    "at every point both read the same within a tenth, where times say nothing of filters";
const TIMED_ELSEWHERE: &str = "the baseline was timed in another session";

/// The points at which a number of two engines differs by more than a tenth.
fn apart<'a>(points: &[&'a Point], (a, b): (usize, usize), of: &[Measure]) -> Vec<&'a Point> {
    let differs = |point: &Point, of: Measure| {
        let (a, b) = (point.value(a, of), point.value(b, of));
        a.max(b) > (1.0 + TOLERANCE) * a.min(b)
    };
    let points = points.iter().copied();
    let apart = points.filter(|point| of.iter().any(|of| differs(point, *of)));
    apart.collect()
}

/// The points at which two engines do not read the same: where they do, times say nothing of
/// filters.
fn read_apart<'a>(points: &[&'a Point], pair: (usize, usize)) -> Vec<&'a Point> {
    apart(points, pair, &[Found::pages, Found::reads])
}

/// Those of them at which the times are told apart.
pub(super) fn told_apart<'a>(points: &[&'a Point], pair: (usize, usize)) -> Vec<&'a Point> {
    apart(&read_apart(points, pair), pair, &[micros])
}

/// A claim of the times of two engines, of the points at which they do not read the same; how many
/// are left out is told. No verdict follows where none is left, or of times of two sessions.
pub(super) fn by_the_clock(
    points: &[&Point],
    pair: (usize, usize),
    claim: impl FnOnce(&[&Point]) -> Claim,
) -> Claim {
    let judged = read_apart(points, pair);
    let mut claim = claim(&judged);
    let out = points.len() - judged.len();
    if out > 0 {
        claim.measured +=
            &format!("; {out} more are left out, where both read the same within a tenth");
    }
    let elsewhere = |engine: usize, point: &Point| point.found[engine].timed_elsewhere;
    let mut sessions = points
        .iter()
        .map(|point| [pair.0, pair.1].map(|at| elsewhere(at, point)));
    let claim = claim.unless(out > 0 && judged.is_empty(), READ_ALIKE);
    claim.unless(sessions.any(|[own, other]| own != other), TIMED_ELSEWHERE)
}

/// That an engine is quicker by the clock than another, wherever their times are told apart; and if
/// it is slower only where it reads more, that it does.
pub(super) fn quicker(what: &str, points: &[&Point], pair: (usize, usize)) -> Claim {
    by_the_clock(points, pair, |points| {
        quicker_where_told(what, points, pair)
    })
}

fn quicker_where_told(what: &str, points: &[&Point], pair: (usize, usize)) -> Claim {
    let told = told_apart(points, pair);
    let mut claim = less(what, &told, pair, micros);
    let alike = points.len() - told.len();
    if alike > 0 {
        claim.measured += &format!("; at {alike} more they differ by less than a tenth");
    }
    let alike = "at every point the times differ by less than a tenth";
    let slower = not_less(&told, pair, micros, ALL);
    let fewer = not_less(&slower, (pair.1, pair.0), Found::pages, ALL).is_empty();
    let place = format!(
        "{WHERE}it reads more pages too at each of these points: {}",
        places(&slower, pair, Found::pages).join("; ")
    );
    let claim = claim.because(fewer, place);
    claim.unless(told.is_empty(), alike)
}

#[cfg(test)]
mod tests {
    use super::super::pressure::tests::timed;
    use super::super::pressure::those;
    use super::*;

    #[test]
    fn times_within_a_tenth_are_no_points() {
        // The words and the verdict of the times of both, of which the first reads less.
        let verdict = |times: &[[f64; 2]]| {
            let points = times
                .iter()
                .map(|[own, other]| timed([(*own, 1), (*other, 2)]));
            let points: Vec<Point> = points.collect();
            let claim = quicker("", &those(&points, |_| true), (0, 1));
            (claim.verdict, claim.measured)
        };
        use crate::reproduce::Verdict::{DoesNotHold, Holds, NotComparable};
        let (holds, seen) = verdict(&[[8.0, 10.0], [10.5, 10.0]]);
        assert_eq!(holds, Holds);
        assert_eq!(
            seen,
            "at 1 of 1 points; at 1 more they differ by less than a tenth"
        );
        assert_eq!(verdict(&[[8.0, 10.0], [11.5, 10.0]]).0, DoesNotHold);
        assert_eq!(verdict(&[[9.5, 10.0], [10.5, 10.0]]).0, NotComparable);
        // Slower where it reads more, or less.
        let placed = |own| {
            let points = [timed([(9.0, own), (1.0, 2)])];
            quicker("", &those(&points, |_| true), (0, 1))
                .cause
                .is_some()
        };
        assert!(placed(3) && !placed(1));
    }

    #[test]
    fn where_both_read_the_same_or_were_timed_apart_the_clock_says_nothing() {
        use crate::reproduce::Verdict::{DoesNotHold, Holds, NotComparable};
        let judged = |points: &[Point]| quicker("", &those(points, |_| true), (0, 1));
        let (quick, slow) = ([(5.0, 10), (9.0, 20)], [(9.0, 10), (5.0, 20)]);
        // It is quicker, or slower, where it reads half; and where it reads a tenth more.
        let alike = |micros| timed([(micros, 22), (7.0, 20)]);
        let claim = judged(&[timed(quick), alike(9.0)]);
        let seen = "at 1 of 1 points; 1 more are left out, where both read the same within a tenth";
        assert_eq!((claim.verdict, &*claim.measured), (Holds, seen));
        assert_eq!(judged(&[timed(slow), alike(5.0)]).verdict, DoesNotHold);
        for micros in [5.0, 9.0] {
            assert_eq!(judged(&[alike(micros)]).verdict, NotComparable);
            let more = timed([(micros, 23), (7.0, 20)]);
            let verdict = if micros < 7.0 { Holds } else { DoesNotHold };
            assert_eq!(judged(&[more]).verdict, verdict);
        }
        // As many pages in more operations are not the same.
        let mut operations = timed([(9.0, 20), (7.0, 20)]);
        operations.found[0]
            .counts
            .insert("data_reads".to_owned(), 2);
        operations.found[1]
            .counts
            .insert("data_reads".to_owned(), 1);
        assert_eq!(judged(&[operations]).verdict, DoesNotHold);
        for both in [[true, false], [false, true], [true, true]] {
            let mut point = timed(quick);
            for (found, elsewhere) in point.found.iter_mut().zip(both) {
                found.timed_elsewhere = elsewhere;
            }
            let claim = judged(&[point, timed(quick)]);
            let verdict = if both[0] == both[1] {
                Holds
            } else {
                NotComparable
            };
            assert_eq!(claim.verdict, verdict);
        }
    }
}
