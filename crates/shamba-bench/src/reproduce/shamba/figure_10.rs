//! Figure 10: SHaMBa-eq-F by number of modules, any of which may be skipped.
use super::figure_8;
use super::modules::{self, spread};
use super::pressure::Point;
use crate::Result;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-10",
    title: "Reads by number of modules, with skipping",
    claim: "When any module may be skipped the number of modules matters less than when all are read \
            (Figure 8).",
    seconds: 10.0,
    run,
};

/// Those of Figure 8, then those with skipping, by thresholds relative to the number of files and
/// as they are printed.
const ENGINES: [&str; 11] = [
    figure_8::ENGINES[0],
    figure_8::ENGINES[1],
    figure_8::ENGINES[2],
    figure_8::ENGINES[3],
    "shamba:shamba-eq-f+modules=1",
    "shamba:shamba-eq-f+modules=2",
    "shamba:shamba-eq-f+modules=3",
    "shamba:shamba-eq-f+modules=7",
    "shamba:shamba-eq-f+modules=2+paper",
    "shamba:shamba-eq-f+modules=3+paper",
    "shamba:shamba-eq-f+modules=7+paper",
];

/// What is less by less than this is not less.
const MARGIN: f64 = 0.98;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut findings = modules::figure(lab, &ENGINES, |points| {
        let (all, skipped) = (spread(points, 1..4), spread(points, 5..8));
        let printed = spread(points, 8..11);
        let mut claims = vec![
            Claim::statement(
                "skipping by relative thresholds lessens what the number of modules does (2, 3, 7: most \
                 over least pages, mean where memory is short)",
                "yes",
                format!("{skipped:.2} times with skipping, {all:.2} without"),
                skipped < all * MARGIN,
            )
            .because(true, format!(
                "with the thresholds as they are printed it is {printed:.2} times: these skip most modules \
                 ({:.2} filter pages per lookup on the average, {:.2} by relative ones), so that their number \
                 cannot matter",
                filter_pages(points, 8..11),
                filter_pages(points, 5..8),
            )),
            Claim::statement(
                "skipping by the printed thresholds lessens it",
                "yes",
                format!("{printed:.2} times with skipping, {all:.2} without"),
                printed < all * MARGIN,
            )
            .because(true, where_most(points, 8..11)),
        ];
        for positive in [0.0, 0.5, 1.0] {
            let of: Vec<_> = points.iter().filter(|p| p.positive == positive).collect();
            let sum = |engine: usize| of.iter().map(|p| p.pages(engine)).sum::<f64>();
            let (with, without): (f64, f64) = ((5..8).map(sum).sum(), (1..4).map(sum).sum());
            claims.push(Claim::statement(
                format!("{positive} existing: skipping reads no more than reading all modules"),
                "yes",
                format!("{:.2} of the pages", with / without),
                with <= without * 1.02,
            ));
        }
        claims
    })?;
    // Those without skipping have a figure of their own.
    for panel in &mut findings.panels {
        panel.series.drain(..4);
    }
    Ok(findings)
}

/// Where these engines, of 2, 3, and 7 modules, differ most while memory is short, and by which
/// pages.
fn where_most(points: &[Point], engines: std::ops::Range<usize>) -> String {
    let short = points.iter().filter(|point| point.percent < 100.0);
    let by_spread = |point: &&Point| spread(std::slice::from_ref(*point), engines.clone());
    let Some(point) = short.max_by(|a, b| by_spread(a).total_cmp(&by_spread(b))) else {
        return String::new();
    };
    let each = |of: &dyn Fn(&Found) -> f64| {
        let found = point.found.get(engines.clone()).unwrap_or_default();
        let all: Vec<String> = found
            .iter()
            .map(|found| format!("{:.2}", of(found)))
            .collect();
        all.join(", ")
    };
    let filters = |found: &Found| {
        found
            .resident
            .as_ref()
            .map_or(0.0, |r| r.filter as f64 / 1e6)
    };
    format!(
        "most where {} (2, 3, 7 modules): what is skipped does not come into memory, which holds {} MB of \
         filters at the end, and lets keys pass: {} data pages per lookup are read beside {} of filters",
        point.place(),
        each(&filters),
        each(&|found| found.per_lookup("data_pages")),
        each(&|found| found.per_lookup("filter_pages")),
    )
}

/// Filter pages per lookup of some engines, where memory is short.
fn filter_pages(points: &[Point], engines: std::ops::Range<usize>) -> f64 {
    let short = points.iter().filter(|point| point.percent < 100.0);
    let found: Vec<f64> = short
        .flat_map(|point| point.found.get(engines.clone()).unwrap_or_default())
        .map(|found| found.per_lookup("filter_pages"))
        .collect();
    found.iter().sum::<f64>() / found.len().max(1) as f64
}
