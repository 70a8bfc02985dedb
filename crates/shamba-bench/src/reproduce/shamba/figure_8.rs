//! Figure 8: SHaMBa-eq by number of modules, all of which are read.
use super::modules::{self, spread};
use super::pressure::{self, Point};
use crate::Result;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-8",
    title: "Reads by number of modules",
    claim: "The smaller the modules the fewer the reads: seven are best, since memory is managed in \
            smaller parts.",
    seconds: 18.0,
    run,
};

pub(super) const ENGINES: [&str; 4] = [
    "shamba:state-of-the-art",
    "shamba:shamba-eq+modules=2",
    "shamba:shamba-eq+modules=3",
    "shamba:shamba-eq+modules=7",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    modules::figure(lab, &ENGINES, |points| {
        let short: Vec<&Point> = points.iter().filter(|p| p.percent < 100.0).collect();
        let (empty, existing): (Vec<&Point>, Vec<&Point>) =
            short.iter().partition(|point| point.positive == 0.0);
        let mut claims = vec![
            falling(&empty, "empty lookups: the more modules the fewer reads"),
            falling(
                &existing,
                "lookups of which half or all find a key: the same",
            ),
        ];
        claims.push(pressure::fewer(
            "seven modules read less than one",
            &short,
            3,
        ));
        claims.push(Claim::holds(
            "the number of modules matters (most over least pages, mean where memory is short)",
            "yes",
            format!("{:.2} times", spread(points, 0..4)),
            spread(points, 0..4) > 1.1,
        ));
        claims
    })
}

/// That pages fall from number to number of modules.
fn falling(points: &[&Point], what: &str) -> Claim {
    let pages = |point: &Point| {
        (0..ENGINES.len())
            .map(|e| point.pages(e))
            .collect::<Vec<_>>()
    };
    let rising: Vec<String> = points
        .iter()
        .filter(|point| !pages(point).is_sorted_by(|a, b| a >= b))
        .map(|point| {
            let filter = (point.found.iter()).map(|found| found.per_lookup("filter_pages"));
            format!(
                "{}: {:.2?} pages for 1, 2, 3, 7 modules, of them filter {:.2?}",
                point.place(),
                pages(point),
                filter.collect::<Vec<_>>()
            )
        })
        .collect();
    Claim::holds(
        what,
        "1 > 2 > 3 > 7 modules",
        format!(
            "in {} of {} points",
            points.len() - rising.len(),
            points.len()
        ),
        rising.is_empty(),
    )
    .because(rising.join("; "))
}
