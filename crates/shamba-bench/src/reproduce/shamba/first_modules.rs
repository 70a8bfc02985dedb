//! What SHaMBa-prop rests on: the first modules of all files always fit memory (section 5.1.1).
use super::pressure::{Point, kib, short, short_of_memory};
use crate::reproduce::Verdict;
use crate::reproduce::prelude::*;

/// The system that reads all modules: one that skips need not hold the first of all files.
const READS_ALL: &str = "shamba-prop";

/// The bits per key of a whole filter.
const BITS: f64 = 10.0;

/// KB of a file's filter and of its index in the paper (Table 5).
const PAPERS: (f64, f64) = (80.0, 32.0);

/// How much of the budget first modules are, and how little of them memory held, where with uniform
/// lookups, which ask for all of them, that was never all. `full` are the bytes that so many
/// entries' filters and indexes take.
pub(super) fn told(
    (entries, full): (u64, u64),
    engines: &[&str],
    points: &[Point],
) -> Option<String> {
    let engine = engines
        .iter()
        .position(|engine| short(engine) == READS_ALL)?;
    // With less memory first modules are less in proportion, and so the same part of it.
    let filters = BITS / 8.0 * entries as f64;
    let held = |point: &Point| {
        let first_kb = filters * point.percent / 100.0 / 1000.0;
        kib(&point.found[engine], |resident| resident.filter) / first_kb * 100.0
    };
    let asks_all = |point: &&Point| point.distribution == Distribution::Uniform;
    let short = short_of_memory(points).into_iter().filter(asks_all);
    let held: Vec<f64> = short.map(held).collect();
    let (least, most) = (least_of(&held), most_of(&held));
    let (filter, index) = PAPERS;
    let papers = filter / (filter + index) * 100.0;
    let ours = filters / full as f64 * 100.0;
    (most < 100.0).then(|| {
        format!(
            "the paper's first modules always fit memory (section 5.1.1): they have as many percent of the bits as memory has \
             of filters and indexes, which is {papers:.0} % of it beside the paper's indexes (Table 5) and {ours:.0} % beside \
             those here; with uniform lookups memory held {least:.0} to {most:.0} % of their bytes at the end, in filters of \
             either module"
        )
    })
}

/// That no verdict follows on the system's own lead: one that others have over it would hold the
/// more.
pub(super) fn without_verdicts(told: &str, claims: &mut [Claim]) {
    for claim in claims {
        let own = claim.what.strip_prefix(READS_ALL);
        let of_it = own.is_some_and(|rest| rest.starts_with([' ', ':'])) && !claim.is_goal();
        if of_it && claim.verdict != Verdict::NotComparable {
            *claim = claim.clone().without_verdict(told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pressure::tests::{found, point};
    use super::*;
    use crate::engine::Resident;

    #[test]
    fn what_is_said_where_first_modules_do_not_fit() {
        let engines = [
            "shamba:state-of-the-art",
            "shamba:shamba-prop+first={first}",
        ];
        // 10 % of memory: a bit for each of 8,000 entries is 1,000 bytes.
        let beside = |filter: u64, lost: bool| {
            let mut prop = found("filter_pages", 1);
            prop.resident = Some(Resident {
                filter,
                ..Resident::default()
            });
            let points = [point([found("filter_pages", 1), prop])];
            let what = [
                "shamba-prop: fewer reads",
                "shamba-prop-p: fewer reads",
                "shamba-eq reads no more than shamba-prop",
            ];
            let mut claims = what.map(|what| Claim::at_each(what, [!lost]));
            if let Some(told) = told((8000, 12_500), &engines, &points) {
                without_verdicts(&told, &mut claims);
            }
            claims
        };
        use Verdict::{DoesNotHold, Holds, NotComparable};
        let verdicts = |filter, lost| beside(filter, lost).map(|claim| claim.verdict);
        assert_eq!(verdicts(1000, false), [Holds; 3]);
        assert_eq!(verdicts(1000, true), [DoesNotHold; 3]);
        assert_eq!(verdicts(900, false), [NotComparable, Holds, Holds]);
        let lost = [NotComparable, DoesNotHold, DoesNotHold];
        assert_eq!(verdicts(900, true), lost);
        let told = beside(900, true)[0].explanation().unwrap();
        let parts = "71 % of it beside the paper's indexes (Table 5) and 80 % beside those here";
        assert!(told.contains(parts) && told.contains("90 %"), "{told}");
    }
}
