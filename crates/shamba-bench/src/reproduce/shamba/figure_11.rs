//! Figure 11: SHaMBa over partitioned indexes and filters, where memory is very short.
use super::figure_6::beside_the_baseline;
use super::pressure::{self, Grid};
use crate::Result;
use crate::device::Device;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-11",
    title: "Modules of partitioned filters",
    claim: "With 5 to 35 % of memory SHaMBa over partitioned indexes and filters reads less than these \
            alone; full skipping is the best of its variants.",
    seconds: 20.0,
    run,
};

const ENGINES: [&str; 5] = [
    "shamba:partitioned",
    "shamba:shamba-eq+partitioned",
    "shamba:shamba-eq-p+partitioned",
    "shamba:shamba-eq-f+partitioned",
    "shamba",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let scale = lab.scale;
    let budgets: &[f64] = match scale.pick(0, 1, 2, 2) {
        0 => &[35.0],
        1 => &[5.0, 15.0, 35.0],
        _ => &[5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0],
    };
    let grid = Grid {
        engines: &ENGINES,
        distributions: &[Distribution::Uniform],
        positives: &[0.0, 0.5, 1.0],
        budgets,
        device: Device::Ram,
        base: pressure::standard,
    };
    let points = pressure::measure(lab, &grid)?;
    let mut claims = beside_the_baseline(&ENGINES, &points);
    let pages = |engine: usize| {
        let sum = |name| {
            points
                .iter()
                .map(|p| p.found[engine].count(name))
                .sum::<u64>() as f64
        };
        sum("filter_pages") / sum("filter_reads")
    };
    for claim in &mut claims {
        if let Some(cause) = &mut claim.cause {
            *cause += &format!(
                ". A filter read is {:.2} pages without modules and {:.2} with two: both need one page, and an \
                 existing key two of them; the paper's unmodular partitions are read as three",
                pages(0),
                pages(1)
            );
        }
    }
    let worse: Vec<String> = points
        .iter()
        .filter(|p| p.pages(3) > p.pages(1).min(p.pages(2)) * 1.05)
        .map(|p| {
            let filter = |engine: usize| p.found[engine].per_lookup("filter_pages");
            let data = |engine: usize| p.found[engine].per_lookup("data_pages");
            format!(
                "{}: F {:.2} pages ({:.2} filter, {:.2} data), P {:.2} ({:.2}, {:.2}), without {:.2} \
                 ({:.2}, {:.2})",
                p.place(),
                p.pages(3),
                filter(3),
                data(3),
                p.pages(2),
                filter(2),
                data(2),
                p.pages(1),
                filter(1),
                data(1),
            )
        })
        .collect();
    claims.push(
        Claim::statement(
            "full skipping reads least of SHaMBa's variants (within 5 %)",
            "in every point",
            format!(
                "in {} of {} points",
                points.len() - worse.len(),
                points.len()
            ),
            worse.is_empty(),
        )
        .because(true, worse.join("; ")),
    );
    Ok(Findings {
        setting: pressure::setting(
            lab,
            "filters and indexes cut into pages; RAM disk, pages counted by the engine",
        ),
        tables: vec![
            pressure::table("Pages read per lookup", &ENGINES, &points),
            pressure::kinds(&ENGINES, &points),
        ],
        panels: pressure::panels(&ENGINES, &points),
        claims,
        notes: vec![
            "The paper's partitions have a filter of three pages, which is read whole; a filter of this \
             engine is local to pages, so that a lookup reads one page of it whether it is in modules \
             or not."
                .into(),
        ],
        ..Findings::default()
    })
}
