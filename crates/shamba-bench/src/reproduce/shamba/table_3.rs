//! Table 3: the false-positive rate of a filter in 1, 2, 3 or 7 modules, and how many a lookup
//! asks.
use super::modules::{self, MODULES, failed};
use crate::device::Device;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::trial::Trial;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::Distribution;
use crate::{Result, row};
use shamba_model::fpr;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-table-3",
    title: "Modular filters are as accurate as whole ones",
    claim: "With 10 bits per key in 1, 2, 3 or 7 modules 0.825, 0.847, 0.887 and 0.830 % of absent keys \
            pass, where 0.819 % are expected; an empty lookup asks 1, 1.093, 1.251 and 1.997 modules.",
    seconds: 7.0,
    run,
};

/// False positives in percent and modules asked, as the paper has them.
const PAPER: [(f64, f64); 4] = [(0.825, 1.0), (0.847, 1.093), (0.887, 1.251), (0.830, 1.997)];

/// One table of them all.
const MEMORY: u64 = 256 << 20;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let entries = lab.scale.pick(20_000, 500_000, 500_000, 500_000);
    let lookups = lab.scale.pick(20_000, 500_000, 2_000_000, 2_000_000);
    let theory = fpr::bloom(10.0, 7).map_err(failed)? * 100.0;
    let mut table = Report::titled("False positives and modules asked by empty lookups");
    let mut rates = ["theory", "paper", "measured"].map(Series::new);
    let mut accesses = ["paper", "measured"].map(Series::new);
    let mut claims = Vec::new();
    for (count, (paper_rate, paper_asked)) in MODULES.into_iter().zip(PAPER) {
        let base = Base {
            write_buffer: 64 << 20,
            file_size: 64 << 20,
            ..Base::standard(&modules::equal(count), entries, lab.seed)
        };
        let trial = Trial {
            measured: lookups,
            device: Device::Ram,
            ..Trial::lookups(base, MEMORY, 0.0, Distribution::Uniform)
        };
        let found = lab.measure(&trial)?;
        let passed = found.count("false_positives") as f64;
        let asked_filters = passed + found.count("filter_negatives") as f64;
        let rate = passed * 100.0 / asked_filters.max(1.0);
        let asked = modules::asked(&found, count).iter().sum::<f64>();
        table.add(row! {
            "modules": count,
            "theory %": theory,
            "paper %": paper_rate,
            "measured %": rate,
            "paper, modules asked": paper_asked,
            "measured, modules asked": asked,
            "module size, % of the filter": 100.0 / count as f64,
        });
        for (series, value) in rates.iter_mut().zip([theory, paper_rate, rate]) {
            series.points.push((count as f64, value));
        }
        for (series, value) in accesses.iter_mut().zip([paper_asked, asked]) {
            series.points.push((count as f64, value));
        }
        let what = format!("false positives in {count} modules, %");
        claims.push(Claim::figure(what, paper_rate, rate));
        let what = format!("modules asked of {count} by an empty lookup");
        claims.push(Claim::figure(what, paper_asked, asked));
    }
    let panels = vec![
        Panel::new(
            "Absent keys that pass",
            "modules",
            "false positives, %",
            rates,
        ),
        Panel::new(
            "Modules asked",
            "modules",
            "modules asked by an empty lookup",
            accesses,
        ),
    ];
    Ok(Findings {
        setting: format!(
            "{entries} keys of 32 B, 10 bits each, filters in memory, {lookups} lookups of absent keys; \
             modules asked are counted for one lookup in eight."
        ),
        tables: vec![table],
        panels,
        claims,
        notes: vec![
            "The paper's 17 % for a module of seven is the seventh part, 14 %. The engine counts the \
             sixth and seventh module together; they are divided 2 to 1."
                .into(),
        ],
        ..Findings::default()
    })
}
