//! YCSB's core workloads A to F, with and without ElasticBF.
use super::common::{self, Pair, device_us};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Mix;
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-ycsb",
    title: "YCSB A to F",
    claim: "ElasticBF improves read throughput under read-dominant workloads (B: 95 % read, C: 100 % read, D: 95 % read).",
    seconds: 2.0,
    run,
};

/// The workloads that mostly read, of which the slides speak.
pub(super) const READ_DOMINANT: [char; 3] = ['b', 'c', 'd'];

/// The workload of scans, for which no filter is asked.
const SCANS: char = 'e';

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = common::base(lab, common::WITH);
    let mut table = Report::titled("YCSB without and with ElasticBF");
    let mut line = Series::new("device model");
    // Of the workloads that the slides name, and of the others.
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for (at, letter) in ('a'..='f').enumerate() {
        let pair = Pair::measure(lab, &Mix::ycsb(letter)?)?;
        // Scans read too, and no lookup counts that: their time is all there is.
        let us = |found: &Found| match letter {
            SCANS => found.charged_us,
            _ => device_us(found),
        };
        let gain = us(&pair.without) / us(&pair.with);
        let workload = row! { "workload": letter.to_uppercase().to_string() };
        table.add([workload, pair.costs("reads per operation", us)].concat());
        line.points.push(((at + 1) as f64, gain));
        if READ_DOMINANT.contains(&letter) {
            named.push(gain);
        } else {
            others.push(gain);
        }
    }
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "YCSB's Zipf 0.99 scattered over the key range (D: the latest); times are a device model's alone: what a \
             PCIe SSD takes for the reads of lookups that were counted, of E all that it charged",
        ),
        tables: vec![table],
        panels: vec![Panel {
            title: "YCSB with ElasticBF".into(),
            x: "workload (1 is A, 6 is F)".into(),
            y: "read throughput, times that without".into(),
            series: vec![line],
            ..Panel::default()
        }],
        claims: vec![
            Claim::everywhere_but(
                "B, C and D (a point each): read throughput improves, device model",
                named.len(),
                named.iter().filter(|gain| **gain <= 1.0).count(),
            )
            .by_model(),
            Claim::goal_from(
                "A, E and F: times as fast as without, at least, device model",
                0.98,
                others.iter().copied().fold(f64::INFINITY, f64::min),
            ),
        ],
        notes: vec![
            "All keys of YCSB's reads exist, so that each reads what it finds besides what false positives \
             make it read."
                .into(),
        ],
        ..Findings::default()
    })
}
