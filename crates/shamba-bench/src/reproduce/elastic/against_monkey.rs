//! ElasticBF beside Monkey's allocation of the same filter memory.
use super::common::{self, MEMORY, WORKLOADS, device_us, false_positives};
use super::ycsb::READ_DOMINANT;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Mix;
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "elasticbf-against-monkey",
    title: "ElasticBF beside Monkey",
    claim: "Monkey: coarse-grained scheme (even BF allocation in each level) w/o dynamical adjustment. ElasticBF further \
            increases the throughput to 1.39x - 2.20x (micro-benchmark), and up to ~2x under read-dominant workloads with \
            high skewness (YCSB).",
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
    let mut table = Report::titled("Lookups beside Monkey");
    let mut panels = Vec::new();
    let mut claims = Vec::new();
    // Of ElasticBF over Monkey beside Monkey, the reads.
    let mut left = Vec::new();
    for positive in [0.0, 0.5] {
        let mut speeds = Vec::new();
        let mut series = vec![
            Series::new("ElasticBF"),
            Series::new("ElasticBF over Monkey"),
        ];
        for (at, (workload, distribution)) in WORKLOADS.into_iter().enumerate() {
            let mut founds: Vec<Found> = Vec::new();
            for (name, engine) in ENGINES {
                let found = measure(lab, engine, Mix::lookups(positive, distribution))?;
                let time = device_us(&found);
                let monkey = founds.first().map_or(time, device_us);
                table.add(row! {
                    "workload": workload,
                    "existing": positive,
                    "engine": name,
                    "tables asked per lookup": found.per_lookup("tables_probed"),
                    "reads per lookup": found.reads(),
                    "false positives per lookup": false_positives(&found),
                    "us of device model": time,
                    "times Monkey's throughput": monkey / time,
                });
                founds.push(found);
            }
            let times = |of: usize| device_us(&founds[0]) / device_us(&founds[of]);
            for (line, of) in series.iter_mut().zip([1, 2]) {
                line.points.push(((at + 1) as f64, times(of)));
            }
            speeds.push(times(1));
            left.push(founds[2].reads() / founds[0].reads());
        }
        claims.push(
            Claim::range(
                format!(
                    "times Monkey's throughput, {positive} existing, device model, all workloads"
                ),
                (PAPER[0], PAPER[1]),
                &speeds,
            )
            .by_model(),
        );
        for (bound, name) in PAPER.into_iter().zip(["paper, from", "paper, to"]) {
            series.push(Series {
                name: name.into(),
                points: vec![(1.0, bound), (WORKLOADS.len() as f64, bound)],
            });
        }
        panels.push(Panel {
            title: format!("Beside Monkey, {positive} existing"),
            x: "1 uniform, 2 Zipf 0.99, 3 Zipf 1.2, 4 clustered".into(),
            y: "times Monkey's throughput, device model".into(),
            log_y: true,
            series,
        });
    }
    let mut ycsb = Vec::new();
    for letter in READ_DOMINANT {
        let mut time =
            |engine| -> Result<f64> { Ok(device_us(&measure(lab, engine, Mix::ycsb(letter)?)?)) };
        ycsb.push(time(MONKEY)? / time(common::WITH)?);
    }
    claims.push(
        Claim::up_to(
            "times Monkey's throughput, YCSB B, C and D, device model",
            2.0,
            &ycsb,
        )
        .by_model(),
    );
    claims.push(Claim::goal_to(
        "reads of ElasticBF's units over Monkey's bits, over those of Monkey, under any workload",
        1.0,
        left.into_iter().fold(f64::MIN, f64::max),
    ));
    let base = common::base(lab, MONKEY);
    Ok(Findings {
        setting: common::setting(
            lab,
            &base,
            "Monkey has the same bits per key over all files; times are a device model's alone: what a PCIe \
             SSD takes for the reads that were counted",
        ),
        tables: vec![table],
        panels,
        claims,
        ..Findings::default()
    })
}

/// Operations on the engine's own standard database.
fn measure(lab: &mut Lab<'_>, engine: &str, mix: Mix) -> Result<Found> {
    let base = common::base(lab, engine);
    let trial = common::trial(lab, &base, engine, MEMORY, mix)?;
    lab.measure(&trial)
}
