//! ElasticBF beside Monkey's allocation of the same filter memory.
use super::common::{self, WORKLOADS, device_us, false_positives, filter_kb};
use super::pairs::{READ_DOMINANT, UNTOLD};
use crate::reproduce::prelude::*;

const MONKEY: &str = "shamba:state-of-the-art+monkey";

const ELASTIC: &str = "ElasticBF";

/// ElasticBF's units over Monkey's bits.
const OVER_MONKEY: &str = "ElasticBF over Monkey";

const ENGINES: [(&str, &str); 3] = [
    ("Monkey", MONKEY),
    (ELASTIC, common::WITH),
    (OVER_MONKEY, "shamba:elastic+epoch=1+monkey"),
];

/// The numbers of workloads in the plot.
const NUMBERS: &str = "1 uniform, 2 Zipf 0.99, 3 Zipf 1.2, 4 clustered";

/// Times Monkey's throughput.
const PAPER: (f64, f64) = (1.39, 2.20);

const TIMES: &str = "times Monkey's throughput";
const READS: &str = "reads, times Monkey's";
const KEYS: &str = "keys";
const FILTERS: &str = "filter memory, times Monkey's";

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Lookups beside Monkey");
    let mut panels = Vec::new();
    for positive in [0.0, 0.5] {
        for (at, (workload, distribution)) in WORKLOADS.into_iter().enumerate() {
            let mix = Mix::lookups(positive, distribution);
            let monkey = measure(lab, MONKEY, mix.clone())?;
            for (name, engine) in ENGINES {
                let found = measure(lab, engine, mix.clone())?;
                let time = device_us(&found);
                table.add(row! {
                    "workload": workload,
                    NUMBERS: at + 1,
                    "existing": positive,
                    "engine": name,
                    "tables asked per lookup": found.per_lookup("tables_probed"),
                    "reads per lookup": found.reads(),
                    "false positives per lookup": false_positives(&found),
                    "us of device model": time,
                    TIMES: device_us(&monkey) / time,
                    READS: found.reads() / monkey.reads(),
                    FILTERS: filter_kb(&found) / filter_kb(&monkey),
                });
            }
        }
        let own = table.rows_of("existing", positive);
        let title = format!("Beside Monkey, {positive} existing, device model");
        let panel = Panel::of_lines(title, &own, "engine", NUMBERS, TIMES);
        panels.push(panel.logarithmic().beside(PAPER));
    }
    let what =
        format!("{TIMES}, with none and half of the keys existing, device model, all workloads");
    let own = table.rows_of("engine", ELASTIC);
    let untold = format!(
        "{UNTOLD}; and ElasticBF's filters in memory have {:.2} to {:.2} times the bytes of Monkey's",
        own.least(FILTERS),
        own.most(FILTERS)
    );
    let over_monkey = table.rows_of("engine", OVER_MONKEY);
    let faster = Claim::range(what, PAPER, &own.numbers(TIMES)).without_verdict(untold);
    let ycsb = ycsb(lab)?;
    let what = "times Monkey's throughput, YCSB B, C and D, the skew YCSB's own and Zipf 1.2, device model";
    let mut skewed = Claim::up_to(what, 2.0, &ycsb.numbers(TIMES));
    skewed.measured += &format!("; {:.3} at least", ycsb.least(TIMES));
    for keys in ycsb.distinct(KEYS) {
        let most = ycsb.rows_of(KEYS, keys.clone()).most(TIMES);
        skewed.measured += &format!("; {keys} {most:.3} at most");
    }
    let untold = format!(
        "the slides have \"high skewness\" and no number of it; and ElasticBF's filters in memory have {:.2} to {:.2} times the \
         bytes of Monkey's",
        ycsb.least(FILTERS),
        ycsb.most(FILTERS)
    );
    let skewed = skewed.without_verdict(untold);
    let what = "reads of ElasticBF's units over Monkey's bits, over those of Monkey, in each of the lookup workloads";
    let both = Claim::goal_to(what, 1.0, over_monkey.most(READS));
    let more = over_monkey.numbers(FILTERS);
    let others = "Monkey's, and no workload of YCSB was run with it";
    let both = common::of_equal_memory(both, &more, others);
    let setting = common::setting(lab, &common::base(lab, MONKEY));
    let claims = [faster, skewed, both];
    Ok(Findings::of(setting, [table, ycsb], panels, claims))
}

/// The read-dominant workloads of YCSB, as they are and more skewed ("with high skewness").
fn ycsb(lab: &mut Lab<'_>) -> Result<Report> {
    let mut table = Report::titled("YCSB beside Monkey");
    for letter in READ_DOMINANT {
        let own = Mix::ycsb(letter)?;
        let skewed = Mix {
            distribution: Distribution::Zipf(1.2),
            ..own.clone()
        };
        for mix in [own, skewed] {
            let monkey = measure(lab, MONKEY, mix.clone())?;
            let elastic = measure(lab, common::WITH, mix.clone())?;
            table.add(row! {
                "workload": letter.to_ascii_uppercase().to_string(),
                KEYS: mix.distribution.name(),
                TIMES: device_us(&monkey) / device_us(&elastic),
                READS: elastic.reads() / monkey.reads(),
                FILTERS: filter_kb(&elastic) / filter_kb(&monkey),
            });
        }
    }
    Ok(table)
}

/// Operations on the engine's own standard database.
fn measure(lab: &mut Lab<'_>, engine: &str, mix: Mix) -> Result<Found> {
    common::measure(lab, &common::base(lab, engine), engine, mix)
}
