//! Figures 8 and 10: SHaMBa-eq by number of modules, all of which are read; and SHaMBa-eq-F, any
//! of whose modules may be skipped.
use super::modules::base;
use super::pressure::{self, Grid, Point};
use crate::Result;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const FIGURE_8: Experiment = Experiment {
    name: "shamba-figure-8",
    title: "Reads by number of modules",
    claim: "The smaller the modules the fewer the reads: seven are best, since memory is managed in \
            smaller parts.",
    seconds: 18.0,
    run: figure_8,
};

pub(super) const FIGURE_10: Experiment = Experiment {
    name: "shamba-figure-10",
    title: "Reads by number of modules, with skipping",
    claim: "When any module may be skipped the number of modules matters less than when all are read \
            (Figure 8).",
    seconds: 10.0,
    run: figure_10,
};

/// In 1, 2, 3 and 7 modules, all read; then with skipping.
const ENGINES: [&str; 8] = [
    STATE_OF_THE_ART,
    "shamba:shamba-eq+modules=2",
    "shamba:shamba-eq+modules=3",
    "shamba:shamba-eq+modules=7",
    "shamba:shamba-eq-f+modules=1+paper",
    "shamba:shamba-eq-f+modules=2+paper",
    "shamba:shamba-eq-f+modules=3+paper",
    "shamba:shamba-eq-f+modules=7+paper",
];

/// How many of them read all modules.
const ALL_READ: usize = 4;

fn figure_8(lab: &mut Lab<'_>) -> Result<Findings> {
    figure(lab, &ENGINES[..ALL_READ], |points| {
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

fn figure_10(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = figure(lab, &ENGINES, |points| {
        let all = spread(points, 0..ALL_READ);
        let skipped = spread(points, ALL_READ..ENGINES.len());
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
        panel.series.drain(..ALL_READ);
    }
    Ok(findings)
}

/// Uniform lookups over the budget, for each number of modules.
fn figure(
    lab: &mut Lab<'_>,
    engines: &[&str],
    claims: fn(&[Point]) -> Vec<Claim>,
) -> Result<Findings> {
    let grid = Grid {
        base,
        ..Grid::uniform(engines, pressure::short_budgets(lab.scale))
    };
    let points = pressure::measure(lab, &grid)?;
    let setting = pressure::setting_of(
        lab,
        &base(lab, engines[0]),
        "RAM disk, pages counted by the engine",
    );
    let claims = claims(&points);
    Ok(pressure::findings(setting, engines, &points, claims))
}

/// That pages fall from number to number of modules.
fn falling(points: &[&Point], what: &str) -> Claim {
    let pages = |point: &Point| -> Vec<f64> { (0..ALL_READ).map(|at| point.pages(at)).collect() };
    let rises: Vec<String> = points
        .iter()
        .filter(|point| !pages(point).is_sorted_by(|fewer, more| fewer > more))
        .map(|point| format!("{} {:.3?}", point.place(), pages(point)))
        .collect();
    Claim::everywhere(format!("{what} (1, 2, 3, 7 modules)"), points.len(), &rises)
}

/// How much the number of modules matters: for each point, the most over the least pages; the
/// geometric mean over points where memory is short.
fn spread(points: &[Point], engines: std::ops::Range<usize>) -> f64 {
    let short = points.iter().filter(|point| point.percent < 100.0);
    let logs: Vec<f64> = short
        .map(|point| {
            let pages = || engines.clone().map(|engine| point.pages(engine));
            (pages().fold(0.0, f64::max) / pages().fold(f64::INFINITY, f64::min)).ln()
        })
        .collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}
