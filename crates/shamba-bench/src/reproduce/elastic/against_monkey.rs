//! ElasticBF beside Monkey's allocation of the same filter memory.
use super::common::{self, DEVICE, MEMORY, WORKLOADS};
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::trial::Found;
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

/// Places of the first two.
const BOTH: [usize; 2] = [0, 1];

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
    // Of lookups for absent keys, by workload: those of existing keys are judged beside them.
    let mut in_vain: Vec<Vec<Found>> = Vec::new();
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
            let founds: Vec<Found> = founds.into_iter().map(|(_, found)| found).collect();
            claims.push(
                Claim::figure(
                    format!("{workload}, {positive} existing: times Monkey's throughput"),
                    PAPER[0],
                    times[1],
                )
                .because(
                    true,
                    match in_vain.get(at) {
                        None => reads(&founds),
                        Some(absent) => of_keys_there(absent, &founds),
                    },
                ),
            );
            if positive == 0.0 {
                in_vain.push(founds);
            }
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

/// What both read for absent keys.
fn reads(founds: &[Found]) -> String {
    let each = |name: &str| BOTH.map(|of| founds[of].per_lookup(name));
    let ([mread, eread], [mvain, evain], [munits, eunits]) = (
        each("data_reads"),
        each("false_positives"),
        each("filter_reads"),
    );
    format!(
        "no key is there, so that data is read in vain: {eread:.3} reads of data per lookup with ElasticBF against \
         {mread:.3}, of {evain:.3} false positives against {mvain:.3}, and {eunits:.3} of filters against {munits:.3}"
    )
}

/// How many of the reads are of keys that are there, which no filter saves. A false positive is
/// taken to cost what it does where all keys are absent, in `absent`: reads of data are of nothing
/// else there.
fn of_keys_there(absent: &[Found], founds: &[Found]) -> String {
    let each = |of: usize| {
        let vain = &absent[of];
        vain.per_lookup("data_reads") / vain.per_lookup("false_positives")
    };
    let [monkey, elastic] = BOTH.map(|of| founds[of].per_lookup("false_positives") * each(of));
    let [data, all] = [founds[0].per_lookup("data_reads"), founds[0].reads()];
    // Of what is in vain, so that the paper's least gain would come out.
    let needed = (1.0 - 1.0 / PAPER[0]) * all / monkey;
    let saved = (all - founds[1].reads()) / monkey;
    if !(saved.is_finite() && needed.is_finite()) {
        return reads(founds);
    }
    format!(
        "of Monkey's {all:.3} reads a lookup about {:.3} are of keys that are there, which no filter saves, and \
         {monkey:.3} are in vain (ElasticBF's: {elastic:.3}), if a false positive costs what it does where all keys are \
         absent. What ElasticBF saves is {:.0} % of those in vain; for {} times the throughput it would have to be \
         {:.0} %",
        data - monkey,
        saved * 100.0,
        PAPER[0],
        needed * 100.0
    )
}
