//! What each idea of the default policy gives, one after the other.
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::{self, Grid, Point};

/// Engines, each with one idea more, and the idea. Indexes are encoded alike in all.
const STEPS: [(&str, &str); 5] = [
    ("shamba:partitioned", "Bloom filters of 10 bits, LRU"),
    ("shamba:partitioned+ribbon", "ribbon filters of 10 bits"),
    (
        "shamba:partitioned+ribbon+bits=12",
        "ribbon filters of 12 bits",
    ),
    (
        "shamba:default+lru",
        "filters in columns, as many bits as pay",
    ),
    ("shamba", "eviction and reads by expected reads"),
];

/// The column of how many times fewer pages the last step reads than the first.
pub(in crate::reproduce) const ALL_STEPS: &str = "all steps together, times fewer";

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let engines = STEPS.map(|(engine, _)| engine);
    let distributions = [Distribution::Uniform, Distribution::Zipf(0.99)];
    let grid = Grid {
        engines: &engines,
        distributions: &distributions,
        positives: &[0.0, 0.5, 1.0],
        budgets: lab.scale.budgets(),
        device: Device::Ram,
        base: pressure::standard,
    };
    let points = pressure::measure(lab, &grid)?;
    let mut panels = pressure::panels(&engines, &points);
    for panel in &mut panels {
        for (series, (_, idea)) in panel.series.iter_mut().zip(STEPS) {
            series.name = idea.to_owned();
        }
    }
    let setting = pressure::setting(lab);
    let claims = claims(&points);
    let tables = [factors(&points), pressure::kinds(&engines, &points)];
    Ok(Findings::of(setting, tables, panels, claims))
}

/// Pages of the first step, and how many times fewer each step reads than the one before.
fn factors(points: &[Point]) -> Report {
    let title = "Times fewer pages than the step before";
    Report::of(title, points, |point| {
        let mut row = point.row();
        row.push((format!("pages with {}", STEPS[0].1), point.pages(0).into()));
        for (at, (_, idea)) in STEPS.iter().enumerate().skip(1) {
            let times = point.pages(at - 1) / point.pages(at);
            row.push((idea.to_string(), times.into()));
        }
        let last = point.pages(STEPS.len() - 1);
        row.extend(row! { "pages of the last": last, ALL_STEPS: point.pages(0) / last });
        row
    })
}

/// That each step reads fewer pages than the one before, where memory is short.
fn claims(points: &[Point]) -> Vec<Claim> {
    let all: Vec<&Point> = points
        .iter()
        .filter(|point| point.percent < 100.0)
        .collect();
    let steps = STEPS.iter().enumerate().skip(1);
    steps
        .map(|(at, (_, idea))| {
            let what = format!("{idea}: fewer pages than the step before");
            pressure::less(what, &all, (at, at - 1), Found::pages).as_goal()
        })
        .collect()
}
