//! Table 1: what an empty lookup reads when filters and indexes do not fit in memory.
use crate::Result;
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-table-1",
    title: "The cost of an empty lookup under memory pressure",
    claim: "With one Bloom filter a file and an LRU cache, an empty lookup reads 12 KB when memory \
            holds all filters and indexes, and 23.2 times that with a tenth of it (7.3 times with \
            40 %, 1.4 times with 70 %).",
    seconds: 5.0,
    run,
};

/// Budgets in percent of filters and indexes, and reads in KB as the paper has them.
const PAPER: [(f64, f64); 4] = [(10.0, 279.0), (40.0, 88.0), (70.0, 17.0), (100.0, 12.0)];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        "Bytes read by an empty lookup (KB)",
        &["budget %", "paper KB", "measured KB", "shamba's default KB"],
    );
    let mut measured = Vec::new();
    for (percent, paper) in PAPER {
        let mut kib = |engine: &str| -> Result<f64> {
            let trial = lab.lookups(engine, percent, 0.0, Distribution::Uniform)?;
            Ok(lab.measure(&trial)?.pages() * 4.096)
        };
        let (plain, ours) = (kib(STATE_OF_THE_ART)?, kib("shamba")?);
        measured.push(plain);
        table.push(vec![
            percent.into(),
            paper.into(),
            plain.into(),
            ours.into(),
        ]);
    }
    let growth = measured[0] / measured[3];
    Ok(Findings {
        setting: super::pressure::setting(
            lab,
            "RAM disk; bytes are pages of 4 KiB that the engine counted",
        ),
        claims: vec![
            Claim::at_least(
                "times as much is read with 10 % of memory as with 100 %",
                23.2,
                growth,
            ),
            Claim::holds(
                "reads grow whenever memory shrinks",
                "yes",
                format!("{measured:.1?} KB"),
                measured.is_sorted_by(|a, b| a > b),
            ),
        ],
        tables: vec![table],
        ..Findings::default()
    })
}
