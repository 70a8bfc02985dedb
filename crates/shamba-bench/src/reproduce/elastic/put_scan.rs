//! What ElasticBF costs writes.
use super::common::{self, MEMORY};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::{Distribution, Mix, Operation};
use crate::{Result, plot, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-put-scan",
    title: "Writes and scans",
    claim: "PUT and SCAN performance: negligible impact.",
    seconds: 9.0,
    run,
};

/// With over without, at most, where an impact is negligible: the slides give no number.
const NEGLIGIBLE: f64 = 1.1;

/// Without: one filter a file. And with.
const ENGINES: [(&str, &str); 2] = [
    ("one filter a file", STATE_OF_THE_ART),
    ("ElasticBF", common::WITH),
];

/// Value sizes (the slides' is 1 KB).
const VALUES: [usize; 2] = [32, 992];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Writes without and with ElasticBF");
    let mut claims = Vec::new();
    // The larger entries are written over and over: too slow for a test.
    let values = lab
        .scale
        .pick(&VALUES[..1], &VALUES[..], &VALUES[..], &VALUES[..]);
    for &value in values {
        let mut found = Vec::new();
        for (name, engine) in ENGINES {
            let base = crate::store::Base {
                value: value.into(),
                entries: lab.scale.entries() * 64 / (value as u64 + 32),
                ..common::base(lab, engine)
            };
            let loaded = lab.loaded(&base)?.facts.counts;
            let count = |name: &str| loaded.get(name).copied().unwrap_or(0) as f64;
            let load = (count("flush_bytes") + count("compaction_bytes_written"))
                / count("user_bytes_written").max(1.0);
            let put = Mix::only(Operation::Update, Distribution::Uniform);
            let mut trial = common::trial(lab, &base, engine, MEMORY, put)?;
            // As many as fill the write buffer several times.
            let puts = lab.scale.pick(500, 50_000, 400_000, 1_000_000);
            trial.measured = puts * 64 / (value as u64 + 32);
            let puts = lab.measure(&trial)?;
            let written = amplification(&puts);
            table.add(row! {
                "entry bytes": value + 32,
                "engine": name,
                "bytes written per byte put, load": load,
                "bytes written per byte put, overwrites": written,
                "us of a put, device model and processor": puts.write_us,
            });
            found.push([load, written, puts.write_us]);
        }
        let entry = value + 32;
        let ratio = |at: usize| found[1][at] / found[0][at];
        claims.push(
            Claim::statement(
                format!("entries of {entry} B: time of a PUT, device model and processor, with over without ElasticBF (up to {NEGLIGIBLE})"),
                "negligible impact",
                format!("{:.3}", ratio(2)),
                ratio(2) <= NEGLIGIBLE,
            )
            .by_model(),
        );
        for (what, at) in [("a load", 0), ("overwrites", 1)] {
            claims.push(Claim::goal_to(
                format!(
                    "entries of {entry} B: bytes written by {what}, with over without ElasticBF"
                ),
                NEGLIGIBLE,
                ratio(at),
            ));
        }
    }
    claims.push(Claim::not_comparable(
        "time of a SCAN",
        "negligible impact",
        "a scan asks no filter, so that of the same files nothing could differ; trees with other filters differ by a \
         compaction or two, and with them what a scan reads",
    ));
    let base = common::base(lab, STATE_OF_THE_ART);
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "one filter a file beside ElasticBF's units; puts are uniform overwrites; their time holds what a \
             modelled PCIe SSD charged",
        ),
        panels: plot::of_report(
            &table,
            "Bytes written by a load",
            "engine",
            "entry bytes",
            "bytes written per byte put, load",
        ),
        tables: vec![table],
        claims,
        ..Findings::default()
    })
}

/// Bytes of tables written for each byte put.
fn amplification(found: &Found) -> f64 {
    found.table_bytes() as f64 / found.count("user_bytes_written").max(1) as f64
}
