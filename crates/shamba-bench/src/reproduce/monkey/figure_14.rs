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
    let (mut claims, mut nearly_meet) = (Vec::new(), Vec::new());
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
        // Lookups find their key: Monkey for these.
        let [even, _, best] = curves.each(|point| point.reads);
        let advantage = even.iter().zip(&best).map(|(even, best)| even - best);
        let advantage: Vec<f64> = advantage.collect();
        // Where nearly all is cached, reads are few, and which they are is chance.
        let error = |reads: &f64| 3.0 * (2.0 * reads / trees::count(lab) as f64).sqrt();
        let pairs = || advantage.iter().zip(&even);
        let above = pairs().filter(|(less, even)| **less < -error(even)).count();
        let clearly = pairs().filter(|(less, even)| **less > error(even)).count();
        let percent = format!("{:.0} %", cached * 100.0);
        let what = format!("Monkey reads less with a cache of {percent}");
        let seen = format!(
            "by more than three standard errors at {clearly} of {} points, more than uniform filters by as much at {above}; \
             {advantage:.4?} pages less a lookup",
            advantage.len(),
        );
        let claim = Claim::statement(what, "at every locality", seen, above == 0 && clearly > 0);
        claims.push(claim);
        if cached > 0.0 {
            let (first, last) = (advantage[0], advantage[advantage.len() - 1]);
            let what = format!(
                "pages that Monkey saves at the least and the most locality, cache of {percent}"
            );
            let seen = format!("{first:.4} and {last:.4}");
            let claim = Claim::statement(what, "the curves nearly meet", seen, last < first / 2.0);
            nearly_meet.push(claim);
        }
        for point in &curves.points {
            let mut row = row! { "cache %": cached * 100.0 };
            row.extend(curves.row("c", point));
            table.add(row);
        }
    }
    claims.extend(nearly_meet);
    let setting = trees::setting(lab);
    let panels = plot::of_report(&table, "cache %", "filters", "c", "reads");
    Ok(Findings::of(setting, [table], panels, claims))
}
