//! The slides' micro-benchmark: lookups with and without ElasticBF.
use super::common::{self, BITS, CLUSTERED, DEVICE, Pair, WORKLOADS, filter_kb};
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::{Distribution, Mix};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-micro-benchmark",
    title: "Lookups with and without ElasticBF",
    claim: "At the same filter memory ElasticBF more than doubles the throughput of lookups, more than \
            halves their latency and saves about 60 % of their reads.",
    seconds: 3.0,
    run,
};

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        "Lookups without and with ElasticBF",
        &[
            "workload",
            "existing",
            "reads without",
            "reads with",
            "false positives without",
            "false positives with",
            "us of device without",
            "us of device with",
            "times as fast",
            "filter KB in memory without",
            "filter KB in memory with",
        ],
    );
    let panel = |title: &str, y: &str| Panel {
        title: title.into(),
        x: "share of existing keys".into(),
        y: y.into(),
        ..Panel::default()
    };
    let mut panels = vec![
        panel("Throughput", "times that without ElasticBF"),
        panel("Reads", "part of those without ElasticBF"),
        panel("False positives", "part of those without ElasticBF"),
    ];
    let mut claims = Vec::new();
    for (name, distribution) in WORKLOADS {
        for panel in &mut panels {
            panel.series.push(Series::new(name));
        }
        for positive in [0.0, 0.5, 1.0] {
            let pair = Pair::lookups(lab, positive, distribution)?;
            let each = |name: &str| [&pair.without, &pair.with].map(|f| f.per_lookup(name));
            let [before, after] = each("false_positives");
            let times = [&pair.without, &pair.with].map(|found| found.device_us(DEVICE));
            table.push(vec![
                name.into(),
                positive.into(),
                pair.without.reads().into(),
                pair.with.reads().into(),
                before.into(),
                after.into(),
                times[0].into(),
                times[1].into(),
                pair.times_as_fast(DEVICE).into(),
                filter_kb(&pair.without).into(),
                filter_kb(&pair.with).into(),
            ]);
            let ratios = [
                pair.times_as_fast(DEVICE),
                pair.reads_left(),
                pair.false_positives_left(),
            ];
            for (panel, ratio) in panels.iter_mut().zip(ratios) {
                if let Some(line) = panel.series.last_mut() {
                    line.points.push((positive, ratio));
                }
            }
            if distribution == CLUSTERED {
                claims.extend(headline(&pair, positive));
            } else if positive == 0.0 {
                claims.push(elsewhere(&pair, name));
            }
        }
        lab.note(name);
    }
    let base = common::base(lab, common::WITH);
    let mix = Mix::lookups(0.0, Distribution::Uniform);
    let trial = common::trial(lab, &base, "shamba:elastic", common::MEMORY, mix)?;
    let slow = lab.measure(&trial)?;
    let (warm_up, measured) = lab.scale.lookups();
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "latency is what a PCIe SSD takes for the reads that were counted (60 us each, 1.3 us a page)",
        ),
        tables: vec![table],
        panels,
        claims,
        notes: vec![
            format!(
                "Units move after four lookups for each file. With the engine's default, epochs of at least \
                 2048 lookups, of which there are {} here, uniform lookups of absent keys read {:.3} times: in a \
                 tree of so few files hardly one goes unasked for two epochs, and no unit comes free.",
                (warm_up + measured) / 2048,
                slow.reads(),
            ),
            format!(
                "Accounting: {BITS} bits per key are enabled over all files in both, moved between files by \
             ElasticBF alone; what of them is in memory is what lookups asked for. The same budget covers \
             these, indexes and the cached data of both; the paper keeps filters outside its cache."
            ),
        ],
        ..Findings::default()
    })
}

/// The paper's numbers, where lookups cluster.
fn headline(pair: &Pair, positive: f64) -> Vec<Claim> {
    let found = pair.with.per_lookup("lookups_found");
    let cause = format!(
        "false positives save no more than they cost: {:.3} per lookup without and {:.3} with, beside the \
         {found:.2} keys that a lookup finds and reads unless they are in memory ({:.2} data reads with)",
        pair.without.per_lookup("false_positives"),
        pair.with.per_lookup("false_positives"),
        pair.with.per_lookup("data_reads"),
    );
    let place = format!("clustered, {positive} existing");
    vec![
        Claim::figure(
            format!("{place}: part of the false positives left"),
            0.4,
            pair.false_positives_left(),
        ),
        Claim::figure(
            format!("{place}: times the throughput"),
            2.0,
            pair.times_as_fast(DEVICE),
        )
        .because(true, cause.clone()),
        Claim::figure(
            format!("{place}: part of the reads left"),
            0.4,
            pair.reads_left(),
        )
        .because(true, cause),
    ]
}

/// Where they do not.
fn elsewhere(pair: &Pair, name: &str) -> Claim {
    Claim::statement(
        format!("{name}, no key existing: fewer reads with than without"),
        "fewer",
        format!("{:.3} and {:.3}", pair.with.reads(), pair.without.reads()),
        pair.reads_left() < 1.0,
    )
    .because(true, format!(
        "false positives: {:.2} of those without; filter reads per lookup {:.3} with and {:.3} without, data \
         reads {:.3} and {:.3}; units beyond two are asked in {:.4} of the lookups that ask the first",
        pair.false_positives_left(),
        pair.with.per_lookup("filter_reads"),
        pair.without.per_lookup("filter_reads"),
        pair.with.per_lookup("data_reads"),
        pair.without.per_lookup("data_reads"),
        pair.with.count("module_2_probed") as f64 / pair.with.count("module_0_probed").max(1) as f64,
    ))
}
