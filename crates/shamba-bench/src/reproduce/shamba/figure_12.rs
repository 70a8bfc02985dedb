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
    "shamba:shamba-eq-p+monkey",
    "shamba:shamba-eq-f+monkey",
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
    let micros = |found: &Found| found.device_us(Device::SataSsd);
    let mut panels = pressure::panels_of(
        &ENGINES,
        &points,
        "microseconds of device per lookup",
        micros,
    );
    panels.extend(pressure::panels(&ENGINES, &points));
    Ok(Findings {
        setting: pressure::setting(
            lab,
            "latency is what a SATA SSD takes for the reads that were counted (90 us each, and 8 us a page)",
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
    let mut claims = Vec::new();
    let least = points.first().map_or(0.0, |point| point.percent);
    let at = |positive: f64| {
        let mut points = points.iter();
        points.find(|p| p.percent == least && p.positive == positive)
    };
    if let Some(point) = at(0.0) {
        let filter = |engine: usize| point.found[engine].per_lookup("filter_pages");
        claims.push(
            Claim::statement(
                format!(
                    "Monkey reads more than the state of the art ({})",
                    point.place()
                ),
                "yes",
                format!("{:.2} and {:.2} pages", point.pages(MONKEY), point.pages(0)),
                point.pages(MONKEY) > point.pages(0),
            )
            .because(true, format!(
                "it reads {:.2} filter pages per lookup, the state of the art {:.2}, and has {:.4} \
                 false positives to {:.4}",
                filter(MONKEY),
                filter(0),
                point.found[MONKEY].per_lookup("false_positives"),
                point.found[0].per_lookup("false_positives"),
            )),
        );
        claims.push(Claim::figure(
            format!(
                "part of Monkey's reads that two modules leave ({})",
                point.place()
            ),
            0.5,
            point.pages(2) / point.pages(MONKEY),
        ));
        let time = |engine: usize| point.found[engine].device_us(Device::SataSsd);
        claims.push(Claim::statement(
            format!(
                "two modules make Monkey's lookups faster ({})",
                point.place()
            ),
            "yes",
            format!("{:.0} and {:.0} us of device", time(2), time(MONKEY)),
            time(2) < time(MONKEY),
        ));
    }
    if let Some(point) = at(1.0) {
        claims.push(Claim::statement(
            format!("skipping saves reads of existing keys ({})", point.place()),
            "F < P < without",
            format!(
                "{:.2}, {:.2}, {:.2} pages",
                point.pages(4),
                point.pages(3),
                point.pages(2)
            ),
            point.pages(4) < point.pages(3) && point.pages(3) < point.pages(2),
        ));
    }
    for (engine, name) in ENGINES.iter().enumerate().skip(2) {
        let short: Vec<&Point> = points.iter().filter(|p| p.percent < 100.0).collect();
        let lost: Vec<&Point> = short
            .iter()
            .copied()
            .filter(|p| p.pages(engine) > p.pages(MONKEY))
            .collect();
        let places: Vec<String> = lost
            .iter()
            .map(|p| {
                let kind = |e: usize, kind: &str| p.found[e].per_lookup(kind);
                format!(
                    "{}: filter {:.2} against {:.2}, data {:.2} against {:.2}",
                    p.place(),
                    kind(engine, "filter_pages"),
                    kind(MONKEY, "filter_pages"),
                    kind(engine, "data_pages"),
                    kind(MONKEY, "data_pages"),
                )
            })
            .collect();
        claims.push(
            Claim::statement(
                format!(
                    "{}: fewer reads than Monkey with less than 100 % of memory",
                    pressure::short(name)
                ),
                "in every point",
                format!("in {} of {} points", short.len() - lost.len(), short.len()),
                lost.is_empty(),
            )
            .because(true, places.join("; ")),
        );
    }
    claims
}
