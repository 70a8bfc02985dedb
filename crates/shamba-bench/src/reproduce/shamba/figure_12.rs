//! Figure 12: SHaMBa over Monkey's allocation of filter memory.
use super::pressure::{self, Grid, Point};
use crate::Result;
use crate::device::Device;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-12",
    title: "Modules over Monkey's filter memory",
    claim: "Monkey's large filters of small levels make it worse than the state of the art when memory \
            is very short. In two modules the reads of its empty lookups halve; for existing keys \
            skipping saves further ones.",
    seconds: 15.0,
    run,
};

const ENGINES: [&str; 5] = [
    STATE_OF_THE_ART,
    "shamba:state-of-the-art+monkey",
    "shamba:shamba-eq+monkey",
    "shamba:shamba-eq-p+monkey+paper",
    "shamba:shamba-eq-f+monkey+paper",
];

/// Monkey, without modules, among them.
const MONKEY: usize = 1;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let budgets = lab.scale.budgets();
    let grid = Grid {
        engines: &ENGINES,
        distributions: &[Distribution::Uniform],
        positives: &[0.0, 0.5, 1.0],
        budgets,
        device: Device::Ram,
        base: pressure::standard,
    };
    let points = pressure::measure(lab, &grid)?;
    let micros = |found: &Found| found.times.mean_us;
    let mut panels = pressure::panels_of(
        &ENGINES,
        &points,
        "microseconds per lookup on a RAM disk",
        micros,
    );
    panels.extend(pressure::panels(&ENGINES, &points));
    Ok(Findings {
        setting: pressure::setting(
            lab,
            "latency is this machine's with the database on a RAM disk",
        ),
        tables: vec![
            pressure::table_of("Microseconds per lookup", &ENGINES, &points, micros),
            pressure::table("Pages read per lookup", &ENGINES, &points),
            pressure::kinds(&ENGINES, &points),
        ],
        panels,
        claims: claims(&points),
        ..Findings::default()
    })
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let short: Vec<&Point> = points.iter().filter(|p| p.percent < 100.0).collect();
    let existing: Vec<&Point> = short.iter().copied().filter(|p| p.positive > 0.0).collect();
    let mut claims = Vec::new();
    let least = points.first().map_or(0.0, |point| point.percent);
    let mut empty = points
        .iter()
        .filter(|p| p.percent == least && p.positive == 0.0);
    if let Some(point) = empty.next() {
        claims.push(Claim::statement(
            format!(
                "Monkey reads more than the state of the art ({})",
                point.place()
            ),
            "yes",
            format!("{:.2} and {:.2} pages", point.pages(MONKEY), point.pages(0)),
            point.pages(MONKEY) > point.pages(0),
        ));
        let what = format!(
            "part of Monkey's reads that two modules leave ({})",
            point.place()
        );
        claims.push(Claim::figure(
            what,
            0.5,
            point.pages(2) / point.pages(MONKEY),
        ));
    }
    let micros = |point: &Point, engine: usize| point.found[engine].times.mean_us;
    let slower: Vec<String> = short
        .iter()
        .filter(|point| micros(point, 2) >= micros(point, MONKEY))
        .map(|point| {
            let (own, theirs) = (micros(point, 2), micros(point, MONKEY));
            format!("{} ({own:.1} us, {theirs:.1})", point.place())
        })
        .collect();
    let what = "two modules make Monkey's lookups faster with less than 100 % of memory";
    claims.push(Claim::everywhere(what, short.len(), &slower));
    let filter = |point: &Point, engine: usize| point.found[engine].per_lookup("filter_pages");
    for engine in [3, 4] {
        let more: Vec<String> = existing
            .iter()
            .filter(|point| filter(point, engine) >= filter(point, 2))
            .map(|point| {
                let (own, all) = (filter(point, engine), filter(point, 2));
                format!("{} ({own:.2} pages, {all:.2})", point.place())
            })
            .collect();
        let what = format!(
            "{}: fewer filter pages than without skipping where keys exist and memory is short",
            pressure::short(ENGINES[engine])
        );
        claims.push(Claim::everywhere(what, existing.len(), &more));
    }
    claims
}
