//! Figure 14: lookups with a block cache, by temporal locality.
use super::trees::{self, Curves};
use crate::experiments::full_tree::{FullTree, Lookups};
use crate::reproduce::prelude::*;

/// Shares of the data in the cache.
const CACHES: [f64; 3] = [0.0, 0.2, 0.4];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let many: &[f64] = &[0.5, 0.6, 0.7, 0.8, 0.9];
    let localities = lab
        .scale
        .pick(&[0.5, 0.9][..], &[0.5, 0.7, 0.9], many, many);
    let kinds: Vec<Lookups> = localities.iter().copied().map(Lookups::Recent).collect();
    let mut table = Report::titled(
        "Pages read by a lookup; a share c of lookups is for the newest 1 - c of the entries",
    );
    let mut claims = Vec::new();
    for cached in CACHES {
        let tree = FullTree {
            cached,
            ..trees::default(lab)
        };
        let points = trees::sweep(lab, trees::equal, [tree], &trees::THREE, &kinds)?;
        let curves = Curves {
            x: "c: share of lookups for the newest 1 - c",
            at: |point| point.kind.number(),
            points,
        };
        let [even, zero, general] = curves.each(|point| point.reads);
        // The paper's Monkey is for absent keys, and these lookups find theirs: both.
        for (name, best) in [
            ("Monkey", zero),
            ("Monkey for lookups that find their key", general),
        ] {
            claims.extend(advantage(
                &format!("{name}, cache of {:.0} %", cached * 100.0),
                (&even, &best),
                trees::count(lab),
                cached > 0.0,
            ));
        }
        for point in &curves.points {
            let mut row = row! { "cache %": cached * 100.0 };
            row.extend(curves.row("c", point));
            table.add(row);
        }
    }
    let setting = trees::setting(lab);
    let panels = plot::of_report(&table, "cache %", "filters", "c", "reads");
    Ok(Findings::of(setting, [table], panels, claims))
}

/// What is claimed of the reads of `lookups` lookups with uniform filters and with Monkey's.
fn advantage(
    name: &str,
    (even, best): (&[f64], &[f64]),
    lookups: u64,
    is_cached: bool,
) -> Vec<Claim> {
    let advantage = even.iter().zip(best).map(|(even, best)| even - best);
    let advantage: Vec<f64> = advantage.collect();
    // Where nearly all is cached, reads are few, and which they are is chance.
    let error = |reads: &f64| 3.0 * (2.0 * reads / lookups as f64).sqrt();
    let pairs = || advantage.iter().zip(even);
    let above = pairs().filter(|(less, even)| **less < -error(even)).count();
    let clearly = pairs().filter(|(less, even)| **less > error(even)).count();
    let seen = format!(
        "by more than three standard errors at {clearly} of {} points, more than uniform filters by as much at {above}; \
         {advantage:.4?} pages less a lookup",
        advantage.len(),
    );
    let what = format!("{name}: fewer reads than uniform filters");
    let claim = Claim::statement(what, "at every locality", seen, above == 0);
    let unclear = "at some localities the difference is within three standard errors";
    let mut claims = vec![claim.unless(above == 0 && clearly < advantage.len(), unclear)];
    if is_cached {
        let (first, last) = (advantage[0], advantage[advantage.len() - 1]);
        let what = format!(
            "{name}: pages saved at the least and the most locality (nearly: less than half, our limit)"
        );
        let seen = format!("{first:.4} and {last:.4}");
        let holds = last.abs() < first / 2.0;
        claims.push(Claim::statement(
            what,
            "the curves nearly meet",
            seen,
            holds,
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Verdict;

    #[test]
    fn an_advantage_is_one_everywhere_and_what_is_left_is_small() {
        let verdicts = |best: &[f64]| {
            let claims = advantage("", (&[1.0, 0.5], best), 100_000, true);
            claims.iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        use Verdict::{DoesNotHold, Holds, NotComparable};
        assert_eq!(verdicts(&[0.6, 0.45]), [Holds; 2]);
        assert_eq!(verdicts(&[0.6, 0.55]), [DoesNotHold, Holds]);
        assert_eq!(verdicts(&[0.6, 0.2]), [Holds, DoesNotHold]);
        assert_eq!(verdicts(&[0.6, 0.499]), [NotComparable, Holds]);
    }
}
