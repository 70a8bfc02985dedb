//! What SHaMBa-prop rests on: the first modules of all files always fit memory (sections 5.1.1 and
//! 5.3).
use super::pressure::{Point, kib, short, short_of_memory};
use crate::reproduce::Verdict;
use crate::reproduce::claim::WHERE;
use crate::reproduce::prelude::*;

/// The system that reads all modules: one that skips need not hold the first of all files.
const READS_ALL: &str = "shamba-prop";

/// The bits per key of a whole filter.
const BITS: f64 = 10.0;

/// What the paper says of a figure whose lead is the system's.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Said {
    /// That first modules always fit memory (section 5.1.1).
    AlwaysFit,
    /// That it is hard to have them fit, and that the system leads all the same (section 5.3).
    LeadsAllTheSame,
}

/// Says of claims about the system how little memory held of the first modules of so many entries,
/// where that was less than all of them wherever it was short; and that no verdict follows, where
/// the paper has them always fit.
pub(super) fn note(
    said: Said,
    entries: u64,
    engines: &[&str],
    points: &[Point],
    claims: &mut [Claim],
) {
    let Some(engine) = engines.iter().position(|engine| short(engine) == READS_ALL) else {
        return;
    };
    let part = |point: &&Point| {
        let bits = BITS * point.percent / 100.0;
        let first_kb = bits / 8.0 * entries as f64 / 1000.0;
        kib(&point.found[engine], |resident| resident.filter) / first_kb
    };
    let parts: Vec<f64> = short_of_memory(points).iter().map(part).collect();
    let (least, most) = (least_of(&parts), most_of(&parts));
    if most.is_nan() || most >= 1.0 {
        return;
    }
    let held = format!(
        "wherever memory was short, filters in it, of either module, came to {:.0} to {:.0} % of the first modules' bytes at \
         the end",
        least * 100.0,
        most * 100.0
    );
    for claim in claims {
        // Of its own lead: one that others have over it would hold the more.
        let own = claim.what.strip_prefix(READS_ALL);
        let of_it = own.is_some_and(|rest| rest.starts_with([' ', ':'])) && !claim.is_goal();
        *claim = match (claim.verdict, said) {
            (Verdict::NotComparable, _) => continue,
            _ if !of_it => continue,
            (_, Said::AlwaysFit) => claim.clone().without_verdict(format!(
                "the paper's first modules always fit memory (section 5.1.1); here the same budget is for all else as \
                 well: {held}"
            )),
            (Verdict::DoesNotHold, _) => claim.clone().because(true, format!("{WHERE}{held}")),
            _ => continue,
        };
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
        let beside = |said, filter: u64, lost: usize| {
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
            let mut claims = what.map(|what| Claim::everywhere_but(what, 1, lost));
            note(said, 8000, &engines, &points, &mut claims);
            claims.map(|claim| (claim.verdict, claim.cause.is_some()))
        };
        use Said::{AlwaysFit, LeadsAllTheSame};
        use Verdict::{DoesNotHold, Holds, NotComparable};
        let won = |said, filter| beside(said, filter, 0);
        let holds = (Holds, false);
        assert_eq!(won(AlwaysFit, 1000), [holds; 3]);
        assert_eq!(won(AlwaysFit, 900), [(NotComparable, true), holds, holds]);
        assert_eq!(won(LeadsAllTheSame, 900), [holds; 3]);
        let verdicts = |said, filter| beside(said, filter, 1);
        let lost = (DoesNotHold, false);
        assert_eq!(verdicts(AlwaysFit, 1000), [lost; 3]);
        assert_eq!(
            verdicts(AlwaysFit, 900),
            [(NotComparable, true), lost, lost]
        );
        assert_eq!(
            verdicts(LeadsAllTheSame, 900),
            [(DoesNotHold, true), lost, lost]
        );
    }
}
