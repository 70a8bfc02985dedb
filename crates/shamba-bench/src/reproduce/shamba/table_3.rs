//! Table 3: the false-positive rate of a filter in 1, 2, 3 or 7 modules, and how many a lookup
//! asks.
use super::modules::{self, MODULES};
use crate::Result;
use crate::device::Device;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::trial::Trial;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::Distribution;
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
    let failed = |error: shamba_model::ModelError| crate::Error::InvalidSetting(error.to_string());
    let theory = fpr::bloom(10.0, 7).map_err(failed)? * 100.0;
    let mut table = Report::new(
        "False positives and modules asked by empty lookups",
        &[
            "modules",
            "theory %",
            "paper %",
            "measured %",
            "paper, modules asked",
            "measured, modules asked",
            "module size, % of the filter",
        ],
    );
    let mut rates = [
        Series::new("theory"),
        Series::new("paper"),
        Series::new("measured"),
    ];
    let mut accesses = [Series::new("paper"), Series::new("measured")];
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
        table.push(vec![
            (count as f64).into(),
            theory.into(),
            paper_rate.into(),
            rate.into(),
            paper_asked.into(),
            asked.into(),
            (100.0 / count as f64).into(),
        ]);
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
    let panel = |title: &str, y: &str, series: Vec<Series>| Panel {
        title: title.into(),
        x: "modules".into(),
        y: y.into(),
        series,
        ..Panel::default()
    };
    Ok(Findings {
        setting: format!(
            "{entries} keys of 32 B, 10 bits each, filters in memory, {lookups} lookups of absent keys; \
             modules asked are counted for one lookup in eight."
        ),
        tables: vec![table],
        panels: vec![
            panel("Absent keys that pass", "false positives, %", rates.into()),
            panel("Modules asked", "modules asked by an empty lookup", accesses.into()),
        ],
        claims,
        notes: vec![
            "The paper's 17 % for a module of seven is the seventh part, 14 %. The engine counts the \
             sixth and seventh module together; they are divided 2 to 1."
                .into(),
        ],
        ..Findings::default()
    })
}
