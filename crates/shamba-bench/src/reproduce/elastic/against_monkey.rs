//! ElasticBF beside Monkey's allocation of the same filter memory.
use super::common::{self, DEVICE, MEMORY, WORKLOADS};
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Mix;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-against-monkey",
    title: "ElasticBF beside Monkey",
    claim: "Monkey gives all files of a level the same bits and never changes them: ElasticBF has 1.39 to \
            2.20 times its throughput, most with high skew.",
    seconds: 8.0,
    run,
};

const MONKEY: &str = "shamba:state-of-the-art+monkey";

/// Monkey, ElasticBF, and ElasticBF's units over Monkey's bits.
const ENGINES: [(&str, &str); 3] = [
    ("Monkey", MONKEY),
    ("ElasticBF", common::WITH),
    ("ElasticBF over Monkey", "shamba:elastic+epoch=1+monkey"),
];

/// Times Monkey's throughput.
const PAPER: [f64; 2] = [1.39, 2.20];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        "Lookups beside Monkey",
        &[
            "workload",
            "existing",
            "engine",
            "tables asked per lookup",
            "reads per lookup",
            "false positives per lookup",
            "us of device",
            "times Monkey's throughput",
        ],
    );
    let mut panels = Vec::new();
    let mut claims = Vec::new();
    for positive in [0.0, 0.5] {
        let mut series = vec![
            Series::new("ElasticBF"),
            Series::new("ElasticBF over Monkey"),
        ];
        for (at, (workload, distribution)) in WORKLOADS.into_iter().enumerate() {
            let mut founds = Vec::new();
            for (name, engine) in ENGINES {
                let base = common::base(lab, engine);
                let mix = Mix::lookups(positive, distribution);
                let trial = common::trial(lab, &base, engine, MEMORY, mix)?;
                let found = lab.measure(&trial)?;
                let time = found.device_us(DEVICE);
                let monkey = founds.first().map_or(time, |first: &(f64, _)| first.0);
                table.push(vec![
                    workload.into(),
                    positive.into(),
                    name.into(),
                    found.per_lookup("tables_probed").into(),
                    found.reads().into(),
                    found.per_lookup("false_positives").into(),
                    time.into(),
                    (monkey / time).into(),
                ]);
                founds.push((time, found));
            }
            let times: Vec<f64> = founds.iter().map(|(time, _)| founds[0].0 / time).collect();
            for (line, times) in series.iter_mut().zip(&times[1..]) {
                line.points.push(((at + 1) as f64, *times));
            }
            let rate = |of: usize, name: &str| founds[of].1.per_lookup(name);
            claims.push(
                Claim::at_least(
                    format!("{workload}, {positive} existing: times Monkey's throughput"),
                    PAPER[0],
                    times[1],
                )
                .because(format!(
                    "per lookup with ElasticBF and Monkey: false positives {:.3} and {:.3}, filter reads \
                     {:.3} and {:.3}, data reads {:.3} and {:.3}, keys found {:.2}",
                    rate(1, "false_positives"),
                    rate(0, "false_positives"),
                    rate(1, "filter_reads"),
                    rate(0, "filter_reads"),
                    rate(1, "data_reads"),
                    rate(0, "data_reads"),
                    rate(1, "lookups_found"),
                )),
            );
        }
        for (bound, name) in PAPER.into_iter().zip(["paper, from", "paper, to"]) {
            series.push(Series {
                name: name.into(),
                points: vec![(1.0, bound), (WORKLOADS.len() as f64, bound)],
            });
        }
        panels.push(Panel {
            title: format!("Beside Monkey, {positive} existing"),
            x: "1 uniform, 2 Zipf 0.99, 3 Zipf 1.2, 4 clustered".into(),
            y: "times Monkey's throughput".into(),
            log_y: true,
            series,
        });
    }
    let base = common::base(lab, MONKEY);
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "Monkey has the same bits per key over all files; latency is what a PCIe SSD takes for the \
             reads that were counted",
        ),
        tables: vec![table],
        panels,
        claims,
        ..Findings::default()
    })
}
