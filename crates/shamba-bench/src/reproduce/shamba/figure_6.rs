//! Figure 6 (a to i): SHaMBa-eq beside one filter a table, over the budget, by distribution and
//! share of existing keys.
use super::pressure::{self, DISTRIBUTIONS, Grid, Point};
use crate::Result;
use crate::device::Device;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab, Scale};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-6",
    title: "Equal-sized modules under memory pressure",
    claim: "With less memory than filters and indexes take, SHaMBa-eq needs significantly fewer reads \
            per lookup than the state of the art, most for empty lookups; skipping modules helps the \
            more keys exist. At one third of the memory it reads what the state of the art reads.",
    seconds: 20.0,
    run,
};

const ENGINES: [&str; 5] = [
    STATE_OF_THE_ART,
    "shamba:shamba-eq",
    "shamba:shamba-eq-p",
    "shamba:shamba-eq-f",
    "shamba",
];

/// The part of the memory with which SHaMBa reads as much as the state of the art (abstract).
const THIRD: f64 = 1.0 / 3.0;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let points = measure(lab, &ENGINES)?;
    let mut claims = beside_the_baseline(&ENGINES, &points);
    claims.extend(skipping(&points));
    claims.extend(equal_reads(&ENGINES, &points));
    Ok(findings(lab, &ENGINES, &points, claims))
}

/// All nine panels.
pub(super) fn measure(lab: &mut Lab<'_>, engines: &[&str]) -> Result<Vec<Point>> {
    // Between the least and the largest below 100 % where the memory for equal reads is looked for.
    let budgets = match lab.scale {
        Scale::Quick => &[10.0, 20.0, 40.0, 100.0],
        scale => scale.budgets(),
    };
    let grid = Grid {
        engines,
        distributions: &DISTRIBUTIONS,
        positives: &[0.0, 0.5, 1.0],
        budgets,
        device: Device::Ram,
        base: pressure::standard,
    };
    pressure::measure(lab, &grid)
}

/// What was measured in all nine panels.
pub(super) fn findings(
    lab: &Lab<'_>,
    engines: &[&str],
    points: &[Point],
    claims: Vec<Claim>,
) -> Findings {
    Findings {
        setting: pressure::setting(lab, "RAM disk, pages counted by the engine"),
        tables: vec![
            pressure::table("Pages read per lookup", engines, points),
            pressure::kinds(engines, points),
        ],
        panels: pressure::panels(engines, points),
        claims,
        ..Findings::default()
    }
}

/// For each engine, that it reads less wherever memory is short.
pub(super) fn beside_the_baseline(engines: &[&str], points: &[Point]) -> Vec<Claim> {
    let short: Vec<&Point> = points.iter().filter(|p| p.percent < 100.0).collect();
    let each = engines.iter().enumerate().skip(1);
    each.map(|(engine, name)| {
        let name = pressure::short(name);
        let what = format!("{name}: fewer reads with less than 100 % of memory");
        pressure::fewer(&what, &short, engine)
    })
    .collect()
}

/// That skipping helps where keys exist.
pub(super) fn skipping(points: &[Point]) -> Option<Claim> {
    let least = points.first()?.percent;
    let point = points
        .iter()
        .find(|p| p.percent == least && p.positive == 1.0)?;
    let (all, partial, full) = (point.pages(1), point.pages(2), point.pages(3));
    Some(Claim::statement(
        format!("skipping modules saves reads ({})", point.place()),
        "F < P < without",
        format!("{full:.2}, {partial:.2}, {all:.2} pages"),
        full < partial && partial < all,
    ))
}

/// The memory that full skipping and our default need to read what the baseline reads.
pub(super) fn equal_reads(engines: &[&str], points: &[Point]) -> Vec<Claim> {
    let each = engines.iter().enumerate().skip(3);
    each.filter_map(|(engine, name)| {
        let (budget, part) = pressure::memory_for_equal_reads(points.iter(), engine)?;
        let name = pressure::short(name);
        let what = format!(
            "{name}: part of the memory needed to read what the state of the art reads at {budget} %, \
             on the average over all panels"
        );
        Some(Claim::figure(what, THIRD, part).because(true, by_share(points, engine)))
    })
    .collect()
}

/// That part for each share of existing keys, and of what pages of the engine are near there.
fn by_share(points: &[Point], engine: usize) -> String {
    let mut shares: Vec<f64> = points.iter().map(|point| point.positive).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    let of = |share: &f64| {
        let own = points.iter().filter(move |point| point.positive == *share);
        let (budget, part) = pressure::memory_for_equal_reads(own.clone(), engine)?;
        let near = |point: &&Point| point.percent <= budget * part;
        let at = own.clone().filter(near).map(|point| point.percent);
        let at = at.fold(0.0, f64::max);
        let found = || {
            let there = own.clone().filter(|point| point.percent == at);
            there.filter_map(|point| point.found.get(engine))
        };
        let sum = |value: fn(&Found) -> f64| found().map(value).sum::<f64>();
        let filters = sum(|found| found.per_lookup("filter_pages")) / sum(Found::pages);
        Some(format!(
            "{part:.2} where {:.0} % of keys exist ({:.0} % of its pages at {at} % of memory are of filters)",
            share * 100.0,
            filters * 100.0,
        ))
    };
    let parts: Vec<String> = shares.iter().filter_map(of).collect();
    format!(
        "what skipping saves depends on existing keys: {}",
        parts.join(", ")
    )
}
