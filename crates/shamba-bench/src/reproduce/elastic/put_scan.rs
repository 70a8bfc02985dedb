//! What ElasticBF costs writes and range scans.
use super::common::{self, CLUSTERED, MEMORY};
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::{Distribution, Mix, Operation};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-put-scan",
    title: "Writes and scans",
    claim: "The impact on PUT and SCAN is negligible.",
    seconds: 15.0,
    run,
};

/// What may be lost where something is negligible.
const NEGLIGIBLE: f64 = 0.1;

/// One filter a file; ElasticBF's files without moving units; and ElasticBF.
const ENGINES: [(&str, &str); 3] = [
    ("one filter a file", STATE_OF_THE_ART),
    ("units that stay", common::WITHOUT),
    ("ElasticBF", common::WITH),
];

/// Value sizes (the slides' is 1 KB).
const VALUES: [usize; 2] = [32, 992];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        "Writes and scans without and with ElasticBF",
        &[
            "entry bytes",
            "engine",
            "bytes written per byte put, load",
            "bytes written per byte put, overwrites",
            "us of device of a put",
            "us of device of a scan",
        ],
    );
    let mut claims = Vec::new();
    let mut series = ENGINES.map(|(name, _)| Series::new(name));
    // The larger entries are written over and over: too slow for a test.
    let values = lab
        .scale
        .pick(&VALUES[..1], &VALUES[..], &VALUES[..], &VALUES[..]);
    for &value in values {
        let mut found = Vec::new();
        for ((name, engine), line) in ENGINES.into_iter().zip(&mut series) {
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
            let scan = Mix::only(Operation::Scan, CLUSTERED);
            let trial = common::trial(lab, &base, engine, MEMORY, scan)?;
            let scans = lab.measure(&trial)?;
            let written = amplification(&puts);
            table.push(vec![
                ((value + 32) as f64).into(),
                name.into(),
                load.into(),
                written.into(),
                puts.charged_us.into(),
                scans.charged_us.into(),
            ]);
            line.points.push(((value + 32) as f64, load));
            found.push((load, written, scans.charged_us));
        }
        let [
            (load, written, _),
            (_, _, scan),
            (load_with, written_with, scan_with),
        ] = found[..]
        else {
            continue;
        };
        let entry = value + 32;
        claims.push(negligible(
            entry,
            "bytes written by a load",
            load_with / load,
            value,
        ));
        claims.push(negligible(
            entry,
            "bytes written by overwrites",
            written_with / written,
            value,
        ));
        claims.push(Claim::statement(
            format!(
                "entries of {entry} B: time of a scan, with over without ElasticBF, the same files"
            ),
            "negligible",
            format!("{:.3}", scan_with / scan),
            scan_with <= scan * (1.0 + NEGLIGIBLE),
        ));
    }
    let base = common::base(lab, STATE_OF_THE_ART);
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "one filter a file beside ElasticBF's units; puts are uniform overwrites, scans of 1 to 100 \
             entries clustered; times are what a modelled PCIe SSD charged",
        ),
        tables: vec![table],
        panels: vec![Panel {
            title: "Bytes written by a load".into(),
            x: "bytes of an entry".into(),
            y: "bytes written per byte put".into(),
            series: series.into(),
            ..Panel::default()
        }],
        claims,
        notes: vec![
            "Scans are compared over the same files: the trees of other filters differ by a compaction or two, \
             and with them what a scan reads."
                .into(),
        ],
        ..Findings::default()
    })
}

/// Bytes of tables written for each byte put.
fn amplification(found: &Found) -> f64 {
    found.table_bytes() as f64 / found.count("user_bytes_written").max(1) as f64
}

fn negligible(entry: usize, what: &str, ratio: f64, value: usize) -> Claim {
    let bits = common::BITS;
    Claim::statement(
        format!("entries of {entry} B: {what}, with over without ElasticBF"),
        "negligible",
        format!("{ratio:.3}"),
        ratio <= 1.0 + NEGLIGIBLE,
    )
    .because(
        true,
        format!(
            "all units are written, {} bits per key for {bits}: {:.1} % of an entry more",
            bits * 2.0,
            bits / 8.0 * 100.0 / (value as f64 + 32.0)
        ),
    )
}
