//! Lookups while entries are overwritten: compaction makes new files, whose hotness is inherited.
use super::common::{self, CLUSTERED, MEMORY, Pair, WITH, WITHOUT, false_positives};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::{Mix, Operation};
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-mixed",
    title: "Lookups among writes",
    claim: "Mixed workload: still remarkable improvement.",
    seconds: 3.0,
    run,
};

/// Shares of overwrites.
const WRITES: [f64; 4] = [0.0, 0.1, 0.3, 0.5];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = common::base(lab, common::WITH);
    let mut table = Report::titled("Lookups among overwrites");
    let mut series = vec![
        Series::new("throughput, device model"),
        Series::new("false positives left"),
    ];
    let mut saved = Vec::new();
    for share in WRITES {
        let mix = Mix {
            shares: vec![
                (Operation::Update, share),
                (Operation::ReadMissing, 1.0 - share),
            ],
            ..Mix::lookups(0.0, CLUSTERED)
        };
        let pair = Pair::of([WITHOUT, WITH], |engine| {
            let mut trial = common::trial(lab, &base, engine, MEMORY, mix.clone())?;
            // So many that the buffer is flushed several times.
            trial.measured = lab.scale.pick(1_000, 30_000, 200_000, 600_000);
            lab.measure(&trial)
        })?;
        table.add(
            [
                row! {
                    "share of writes": share,
                    "flushes": pair.with.count("flushes"),
                    "compactions": pair.with.count("compactions"),
                },
                pair.both("reads per lookup", Found::reads),
                pair.both("false positives per lookup", false_positives),
                row! { "times as fast": pair.times_as_fast() },
            ]
            .concat(),
        );
        series[0].points.push((share, pair.times_as_fast()));
        series[1].points.push((share, pair.false_positives_left()));
        saved.push((1.0 - pair.reads_left()) * 100.0);
    }
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "clustered lookups of absent keys among clustered overwrites; times are a device model's alone: what a \
             PCIe SSD takes for the reads of lookups that were counted",
        ),
        tables: vec![table],
        panels: vec![Panel {
            title: "Lookups among overwrites".into(),
            x: "share of writes".into(),
            y: "times that without ElasticBF".into(),
            series,
            ..Panel::default()
        }],
        claims: vec![Claim::statement(
            format!(
                "I/Os of lookups saved with {WRITES:?} of writes, % (nine tenths of what is saved without any)"
            ),
            "still remarkable improvement",
            format!("{saved:.0?}"),
            saved[0] > 0.0 && saved.iter().all(|saving| *saving >= 0.9 * saved[0]),
        )],
        ..Findings::default()
    })
}
