//! YCSB's core workloads A to F, with and without ElasticBF.
use super::common::{self, CLUSTERED, DEVICE, MEMORY, Pair};
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Mix;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-ycsb",
    title: "YCSB A to F",
    claim: "ElasticBF improves the read throughput of workloads that mostly read: B, C and D. \
            (That it does so in A and F, and that scans lose nothing, is asked besides.)",
    seconds: 4.0,
    run,
};

/// The workload of scans, for which no filter is asked.
const SCANS: char = 'e';

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = common::base(lab, common::WITH);
    let mut table = Report::new(
        "YCSB without and with ElasticBF",
        &[
            "keys",
            "workload",
            "reads per operation without",
            "reads per operation with",
            "false positives without",
            "false positives with",
            "us of a read without",
            "us of a read with",
            "times as fast",
        ],
    );
    let mut claims = Vec::new();
    let mut series = Vec::new();
    for (keys, clustered) in [("YCSB's", false), ("clustered", true)] {
        let mut line = Series::new(format!("{keys} distribution"));
        for (at, letter) in ('a'..='f').enumerate() {
            let mut mix = Mix::ycsb(letter)?;
            if clustered {
                mix.distribution = CLUSTERED;
            }
            let pair = Pair::measure(lab, &base, MEMORY, &mix)?;
            let each = |name: &str| [&pair.without, &pair.with].map(|f| f.per_lookup(name));
            let [before, after] = each("false_positives");
            // Scans read too, and no lookup counts that: their time is all there is.
            let (times, gain) = match letter {
                SCANS => {
                    let times = [pair.without.charged_us, pair.with.charged_us];
                    (times, times[0] / times[1])
                }
                _ => {
                    let times = [&pair.without, &pair.with].map(|found| found.device_us(DEVICE));
                    (times, pair.times_as_fast(DEVICE))
                }
            };
            table.push(vec![
                keys.into(),
                letter.to_uppercase().to_string().into(),
                pair.without.reads().into(),
                pair.with.reads().into(),
                before.into(),
                after.into(),
                times[0].into(),
                times[1].into(),
                gain.into(),
            ]);
            line.points.push(((at + 1) as f64, gain));
            claims.push(match letter {
                SCANS => Claim::statement(
                    format!("E, {keys} distribution: scans lose nothing"),
                    "yes",
                    format!("{gain:.2} times as fast"),
                    gain > 0.98,
                ),
                _ => improves(&pair, keys, letter),
            });
        }
        lab.note(format!("{keys} distribution"));
        series.push(line);
    }
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "YCSB's Zipf 0.99 scattered over the key range (D: the latest), and a clustered distribution \
             in its place; latency is what a PCIe SSD takes for the reads of lookups that were counted, of \
             E all that the device charged",
        ),
        tables: vec![table],
        panels: vec![Panel {
            title: "YCSB with ElasticBF".into(),
            x: "workload (1 is A, 6 is F)".into(),
            y: "read throughput, times that without".into(),
            series,
            ..Panel::default()
        }],
        claims,
        notes: vec![
            "All keys of YCSB's reads exist, so that each reads what it finds besides what false positives \
             make it read."
                .into(),
        ],
        ..Findings::default()
    })
}

fn improves(pair: &Pair, keys: &str, letter: char) -> Claim {
    let gain = pair.times_as_fast(DEVICE);
    let [data, filter, false_positives] = ["data_reads", "filter_reads", "false_positives"]
        .map(|name| [&pair.with, &pair.without].map(|found| found.per_lookup(name)));
    Claim::statement(
        format!(
            "{}, {keys} distribution: read throughput improves",
            letter.to_uppercase()
        ),
        "yes",
        format!("{gain:.2} times"),
        gain > 1.02,
    )
    .because(true, format!(
        "per lookup with and without: false positives {:.3} and {:.3}, data reads {:.3} and {:.3}, filter \
         reads {:.3} and {:.3}",
        false_positives[0], false_positives[1], data[0], data[1], filter[0], filter[1],
    ))
}
