//! The slides' Figure 2: how unevenly files are asked, by workload.
use super::common::{self, WITHOUT, WORKLOADS};
use crate::reproduce::files::{cumulative, files_with, shares};
use crate::reproduce::prelude::*;

const HOT: &str = "% of accesses to the most asked tenth";

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = common::base(lab, common::WITH);
    let mut table = Report::titled("Accesses of files");
    let mut lines = Vec::new();
    let latest = ("latest", Distribution::Latest);
    for (name, distribution) in WORKLOADS.into_iter().chain([latest]) {
        let mix = Mix::lookups(0.5, distribution);
        let mut trial = common::trial(lab, &base, WITHOUT, common::MEMORY, mix)?;
        trial.files = true;
        let shares = shares(&lab.measure(&trial)?.files);
        let sum = |part: &[f64]| part.iter().sum::<f64>() * 100.0;
        let (tenth, half) = (shares.len().div_ceil(10), shares.len() / 2);
        let (hot, cold) = (sum(&shares[..tenth]), sum(&shares[half..]));
        table.add(row! {
            "workload": name,
            "files": shares.len(),
            HOT: hot,
            "% of accesses to the least asked half": cold,
            "% of files with 80 % of accesses": files_with(&shares, 0.8),
        });
        lines.push(Series::of(name, cumulative(&shares)));
    }
    let what = "accesses that the most asked tenth of the files gets, by workload in the order of the table";
    let tenths = table.numbers(HOT).into_iter();
    let seen = joined(tenths.map(|tenth| format!("{tenth:.0} %")));
    let reason = "the slides have curves without numbers; that a level has more files than the one above it makes them \
                  uneven by itself, as the uniform workload shows";
    let claim = Claim::told(what, "uneven", seen, reason);
    let x = "files, the most asked first, %";
    let panel = Panel::new("Accesses over files", x, "share of accesses", lines);
    let setting = common::setting(lab, &base);
    Ok(Findings::of(setting, [table], [panel], [claim]))
}
