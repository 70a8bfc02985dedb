//! Reads per lookup as the data grow and memory does not.
use super::{beside_best, each, others};
use crate::reproduce::prelude::*;
use shamba::MIN_MEMORY;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let steps = 0..lab.scale.pick(2, 4, 5, 5);
    let steps: Vec<u64> = steps.map(|step| lab.scale.entries() >> step).collect();
    let (warm_up, measured) = lab.scale.lookups();
    // Enough for the filters and indexes of the smallest.
    let smallest = steps.last().copied().unwrap_or(1);
    let least = Base {
        entries: smallest,
        ..lab.base("shamba")
    };
    let memory = lab.metadata(&least)?.max(MIN_MEMORY);
    let mut table = Report::titled("Pages read per lookup");
    let mut panels = Vec::new();
    let mut worst = 0.0_f64;
    for positive in [0.0, 0.5] {
        let mut series: Vec<Series> = Vec::new();
        for &entries in steps.iter().rev() {
            let all = each(lab, |lab, engine| {
                let base = Base {
                    entries,
                    ..lab.base(engine)
                };
                let trial = Trial::lookups(base, memory, positive, Distribution::Uniform);
                Ok(Trial {
                    seed: lab.lookup_seed(),
                    ..trial.lasting((warm_up, measured))
                })
            })?;
            for (engine, found) in &all {
                plot::add(&mut series, engine, (entries as f64 / 1e3, found.pages()));
                table.add(row! {
                    "entries": entries,
                    "memory, bytes per entry": memory as f64 / entries as f64,
                    "existing": positive,
                    "engine": engine,
                    "pages": found.pages(),
                });
            }
            worst = worst.max(beside_best(&all, Found::pages));
        }
        let title = format!("{positive} existing, memory {} KiB", memory >> 10);
        let y = "pages read per lookup";
        panels.push(Panel::new(title, "entries, thousands", y, series));
    }
    let setting = format!(
        "Entries of 64 B, uniform lookups, {warm_up} + {measured}, memory for the filters and indexes of \
         {smallest} entries; RAM disk."
    );
    let what = format!(
        "pages beside the best of {}, at the worst size",
        others(lab)
    );
    let claim = Claim::goal_to(what, 1.0, worst);
    Ok(Findings::of(setting, [table], panels, [claim]))
}
