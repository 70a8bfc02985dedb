//! Figure 10: SHaMBa-eq-F by number of modules, any of which may be skipped.
use super::figure_8;
use super::modules::{self, spread};
use crate::Result;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-10",
    title: "Reads by number of modules, with skipping",
    claim: "When any module may be skipped the number of modules matters less than when all are read \
            (Figure 8).",
    seconds: 10.0,
    run,
};

/// Those of Figure 8, then those with skipping.
const ENGINES: [&str; 8] = [
    figure_8::ENGINES[0],
    figure_8::ENGINES[1],
    figure_8::ENGINES[2],
    figure_8::ENGINES[3],
    "shamba:shamba-eq-f+modules=1+paper",
    "shamba:shamba-eq-f+modules=2+paper",
    "shamba:shamba-eq-f+modules=3+paper",
    "shamba:shamba-eq-f+modules=7+paper",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = modules::figure(lab, &ENGINES, |points| {
        let (all, skipped) = (spread(points, 0..4), spread(points, 4..8));
        vec![Claim::statement(
            "skipping lessens what the number of modules does (most over least pages of 1, 2, 3, 7 \
             modules, mean where memory is short)",
            "yes",
            format!("{skipped:.2} times with skipping, {all:.2} without"),
            skipped < all,
        )]
    })?;
    // Those without skipping have a figure of their own.
    for panel in &mut findings.panels {
        panel.series.drain(..4);
    }
    Ok(findings)
}
