//! Figure 8: SHaMBa-eq by number of modules, all of which are read.
use super::modules;
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
        let short = pressure::short_of_memory(points);
        let (empty, existing): (Vec<&Point>, Vec<&Point>) =
            short.iter().partition(|point| point.positive == 0.0);
        vec![
            falling(&empty, "empty lookups: the more modules the fewer reads"),
            falling(
                &existing,
                "lookups of which half or all find a key: the same",
            ),
        ]
    })
}

/// That pages fall from number to number of modules.
fn falling(points: &[&Point], what: &str) -> Claim {
    let pages =
        |point: &Point| -> Vec<f64> { (0..ENGINES.len()).map(|at| point.pages(at)).collect() };
    let rises: Vec<String> = points
        .iter()
        .filter(|point| !pages(point).is_sorted_by(|fewer, more| fewer > more))
        .map(|point| format!("{} {:.3?}", point.place(), pages(point)))
        .collect();
    Claim::everywhere(format!("{what} (1, 2, 3, 7 modules)"), points.len(), &rises)
}
