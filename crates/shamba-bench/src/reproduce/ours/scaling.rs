//! Reads per lookup as the data grow and memory does not.
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::shamba::pressure::short;
use crate::reproduce::trial::Trial;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::Distribution;
use shamba::MIN_MEMORY;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ours-scaling",
    title: "The data grow and memory does not",
    claim: "With the same memory and ever more data, the default policy reads fewer pages per lookup than \
            the papers' systems at every size, and more slowly more.",
    seconds: 20.0,
    run,
};

const ENGINES: [&str; 4] = [
    "shamba",
    "shamba:partitioned",
    "shamba:shamba-eq-f",
    STATE_OF_THE_ART,
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let steps: Vec<u64> = (0..lab.scale.pick(2, 4, 5, 5))
        .map(|step| lab.scale.entries() >> step)
        .collect();
    let (warm_up, measured) = lab.scale.lookups();
    // Enough for the filters and indexes of the smallest.
    let smallest = steps.last().copied().unwrap_or(1);
    let least = Base {
        entries: smallest,
        ..lab.base("shamba")
    };
    let memory = lab.metadata(&least)?.max(MIN_MEMORY);
    let mut table = Report::new(
        "Pages read per lookup",
        &[
            "entries",
            "memory, bytes per entry",
            "existing",
            "engine",
            "pages",
        ],
    );
    let mut panels = Vec::new();
    let mut ratios: Vec<(u64, f64)> = Vec::new();
    for positive in [0.0, 0.5] {
        let mut series: Vec<Series> = ENGINES.iter().map(|e| Series::new(short(e))).collect();
        for &entries in steps.iter().rev() {
            let mut pages = Vec::new();
            for (engine, series) in ENGINES.iter().zip(&mut series) {
                let base = Base {
                    entries,
                    ..lab.base(engine)
                };
                let trial = Trial {
                    warm_up,
                    measured,
                    ..Trial::lookups(base, memory, positive, Distribution::Uniform)
                };
                let found = lab.measure(&trial)?.pages();
                pages.push(found);
                series.points.push((entries as f64 / 1e3, found));
                table.push(vec![
                    (entries as f64).into(),
                    (memory as f64 / entries as f64).into(),
                    positive.into(),
                    short(engine).into(),
                    found.into(),
                ]);
            }
            let best = pages[1..].iter().fold(f64::INFINITY, |a, b| a.min(*b));
            ratios.push((entries, pages[0] / best));
        }
        panels.push(Panel {
            title: format!("{positive} existing, memory {} KiB", memory >> 10),
            x: "entries, thousands".into(),
            y: "pages read per lookup".into(),
            log_y: false,
            series,
        });
    }
    let worst = ratios
        .iter()
        .fold(0.0, |worst: f64, (_, ratio)| worst.max(*ratio));
    Ok(Findings {
        setting: format!(
            "Entries of 64 B, uniform lookups, {warm_up} + {measured}, memory for the filters and indexes of \
             {smallest} entries; RAM disk."
        ),
        tables: vec![table],
        panels,
        claims: vec![Claim::goal_to(
            "pages beside the best of the papers' systems, at the worst size",
            1.0,
            worst,
        )],
        ..Findings::default()
    })
}
