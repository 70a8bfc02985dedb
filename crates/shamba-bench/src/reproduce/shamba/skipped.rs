//! What skipping leaves out of the modules, by the share of keys that exist.
use super::pressure::{Point, filter_pages, short};
use crate::reproduce::prelude::*;

/// How much more of the filters may be left where more keys exist, and still not count as more.
const AS_MANY: f64 = 0.02;

/// Of fewer pages of filters in a run no part says anything.
const FEWEST_PAGES: f64 = 100.0;

/// That skipping leaves out more of the modules the more keys exist (section 5.1.1), at each budget
/// of each distribution.
pub(super) fn more_with_existing(
    engines: &[&str],
    points: &[&Point],
    (engine, own): (usize, &str),
) -> Claim {
    let left = |point: &Point| {
        let [own, all] = [engine, 1].map(|at| point.value(at, filter_pages));
        // Where none are read none can be left out.
        if all > 0.0 { own / all } else { 1.0 }
    };
    let at = |point: &Point| (point.distribution, point.percent);
    let few = |point: &&&Point| {
        let pages = point.value(1, filter_pages) * point.found[1].times.operations as f64;
        pages < FEWEST_PAGES
    };
    let mut lost = Vec::new();
    let (mut places, mut untold) = (0, 0);
    for first in points.iter().filter(|point| point.positive == 0.0) {
        let same = points.iter().filter(|point| at(point) == at(first));
        if same.clone().filter(few).count() > 0 {
            untold += 1;
            continue;
        }
        let parts: Vec<f64> = same.map(|point| left(point)).collect();
        places += 1;
        if !parts.is_sorted_by(|fewer, more| *more <= fewer + AS_MANY) {
            lost.push(format!("{} {parts:.3?}", first.place()));
        }
    }
    let all = short(engines[1]);
    let what = format!(
        "{own} reads the less of the filter pages of {all} the more keys exist (none, half, all; less than 100 % of memory; \
         within {AS_MANY} of all)"
    );
    let mut claim = Claim::everywhere(what, places, &lost);
    if untold > 0 {
        claim.measured += &format!(
            "; at {untold} more {all} reads fewer than {FEWEST_PAGES} pages of filters in all"
        );
    }
    // Of who reads none there is nothing to see.
    if points
        .iter()
        .all(|point| point.value(engine, filter_pages) == 0.0)
    {
        claim.measured = "-".to_owned();
    }
    claim
}

#[cfg(test)]
mod tests {
    use super::super::pressure::short_of_memory;
    use super::super::pressure::tests::{found, point};
    use super::*;
    use crate::reproduce::Verdict;

    #[test]
    fn skipping_is_to_leave_out_the_more_modules_the_more_keys_exist() {
        let engines = ["shamba", "shamba:shamba-eq", "shamba:shamba-eq-p"];
        let beside = |all, left: [u64; 3]| {
            let shares = [0.0, 0.5, 1.0].into_iter();
            let points = shares.zip(left).map(|(positive, pages)| Point {
                positive,
                ..point([0, all, pages].map(|pages| found("filter_pages", pages)))
            });
            let points: Vec<Point> = points.collect();
            let claim = more_with_existing(&engines, &short_of_memory(&points), (2, "shamba-eq-p"));
            (claim.verdict, claim.measured)
        };
        let verdict = |left| beside(100, left);
        assert_eq!(verdict([90, 60, 62]).0, Verdict::Holds);
        assert_eq!(verdict([90, 60, 63]).0, Verdict::DoesNotHold);
        let (lost, seen) = verdict([60, 90, 50]);
        assert_eq!(lost, Verdict::DoesNotHold);
        assert!(seen.starts_with("at 0 of 1 points"), "{seen}");
        let (_, seen) = beside(99, [60, 90, 50]);
        assert!(
            seen.contains("at 1 more shamba-eq reads fewer than 100 pages"),
            "{seen}"
        );
    }
}
