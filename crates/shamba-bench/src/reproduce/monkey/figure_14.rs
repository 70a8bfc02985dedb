//! Figure 14: lookups with a block cache, by temporal locality.
use super::trees;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups, Seen};
use crate::plot::Panel;
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monkey-figure-14",
    title: "With a block cache",
    claim: "With a cache of 0, 20 or 40 % of the data Monkey keeps its advantage; as lookups are for ever newer \
            entries, which the cache holds, the two nearly meet, Monkey keeping a little.",
    seconds: 10.0,
    run,
};

/// Shares of the data in the cache.
const CACHES: [f64; 3] = [0.0, 0.2, 0.4];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let localities = lab.scale.pick(
        &[0.5, 0.9][..],
        &[0.5, 0.7, 0.9],
        &[0.5, 0.6, 0.7, 0.8, 0.9],
        &[0.5, 0.6, 0.7, 0.8, 0.9],
    );
    let kinds: Vec<Lookups> = localities
        .iter()
        .map(|&share| Lookups::Recent(share))
        .collect();
    let mut table = Report::titled(
        "Pages read by a lookup; a share c of lookups is for the newest 1 - c of the entries",
    );
    let (mut panels, mut claims) = (Vec::new(), Vec::new());
    let mut advantages = Vec::new();
    for cached in CACHES {
        let (mut series, mut all) = (Vec::new(), Vec::new());
        for filters in [Filters::Uniform, Filters::Zero, Filters::General(1.0)] {
            let tree = FullTree {
                cached,
                filters,
                ..trees::default(lab)
            };
            let seen = trees::equal(lab, tree, &kinds)?.lookups;
            for (&share, seen) in localities.iter().zip(&seen) {
                trees::add(&mut series, trees::name(filters), (share, seen.reads));
                table.add(row! {
                    "cache %": cached * 100.0,
                    "c": share,
                    "filters": trees::name(filters),
                    "reads": seen.reads,
                    "searches in vain": seen.in_vain,
                });
            }
            all.push(seen);
        }
        let pairs = || all[0].iter().zip(&all[1]);
        let advantage: Vec<f64> = pairs()
            .map(|(even, best)| even.reads - best.reads)
            .collect();
        // Where nearly all is cached, reads are few, and which they are is chance.
        let error = |seen: &Seen| 3.0 * (2.0 * seen.reads / trees::count(lab) as f64).sqrt();
        let below = pairs()
            .filter(|(even, best)| best.reads <= even.reads + error(even))
            .count();
        let clearly = pairs()
            .filter(|(even, best)| best.reads < even.reads - error(even))
            .count();
        let claim = Claim::statement(
            format!("Monkey reads less with a cache of {:.0} %", cached * 100.0),
            "at every locality",
            format!(
                "by more than three standard errors at {clearly} of {} points, more than uniform filters by as much at {}; \
                 {advantage:.4?} pages less a lookup",
                advantage.len(),
                advantage.len() - below
            ),
            below == advantage.len() && clearly > 0,
        );
        claims.push(claim);
        advantages.push(advantage);
        panels.push(Panel {
            title: format!("cache of {:.0} % of the data", cached * 100.0),
            x: "c: share of lookups for the newest 1 - c".into(),
            y: "pages read per lookup".into(),
            log_y: false,
            series,
        });
    }
    for (cached, advantage) in CACHES.iter().zip(&advantages).skip(1) {
        let (first, last) = (advantage[0], advantage[advantage.len() - 1]);
        claims.push(Claim::statement(
            format!(
                "pages that Monkey saves at the least and the most locality, cache of {:.0} %",
                cached * 100.0
            ),
            "the curves nearly meet",
            format!("{first:.4} and {last:.4}"),
            last < first / 2.0,
        ));
    }
    Ok(Findings {
        setting: format!(
            "{} The cache (two-priority LRU of 4 KiB blocks; the paper's are 16 KB) holds filters and indexes and \
             so much of the data; as many lookups warm it up as are measured.",
            trees::setting(lab)
        ),
        claims,
        tables: vec![table],
        panels,
        ..Findings::default()
    })
}
