//! Lookups while entries are overwritten: compaction makes new files, whose hotness is inherited.
use super::common::{self, CLUSTERED, MEMORY, Pair, WITH, WITHOUT};
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::{Mix, Operation};

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
    let mut table = Report::new(
        "Lookups among overwrites",
        &[
            "share of writes",
            "flushes",
            "compactions",
            "reads per lookup without",
            "reads per lookup with",
            "false positives per lookup without",
            "false positives per lookup with",
            "times as fast",
        ],
    );
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
        let mut of = |engine: &str| -> Result<_> {
            let mut trial = common::trial(lab, &base, engine, MEMORY, mix.clone())?;
            // So many that the buffer is flushed several times.
            trial.measured = lab.scale.pick(1_000, 30_000, 200_000, 600_000);
            lab.measure(&trial)
        };
        let pair = Pair {
            without: of(WITHOUT)?,
            with: of(WITH)?,
        };
        let each = |name: &str| [&pair.without, &pair.with].map(|f| f.per_lookup(name));
        let [before, after] = each("false_positives");
        table.push(vec![
            share.into(),
            (pair.with.count("flushes") as f64).into(),
            (pair.with.count("compactions") as f64).into(),
            pair.without.reads().into(),
            pair.with.reads().into(),
            before.into(),
            after.into(),
            pair.times_as_fast().into(),
        ]);
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
