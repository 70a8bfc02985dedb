//! Table 1: what an empty lookup reads when filters and indexes do not fit in memory.
use super::pressure::LOW_SKEW;
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-table-1",
    title: "The cost of an empty lookup under memory pressure",
    claim: "With one Bloom filter a file and an LRU cache, an empty lookup of the low-skewed workload \
            reads 12 KB when memory holds all filters and indexes, and 23.2 times that with a tenth of \
            it (7.3 times with 40 %, 1.4 times with 70 %).",
    seconds: 6.0,
    run,
};

/// Budgets in percent of filters and indexes, and reads in KB as the paper has them.
const PAPER: [(f64, f64); 4] = [(10.0, 279.0), (40.0, 88.0), (70.0, 17.0), (100.0, 12.0)];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        "Bytes read by an empty lookup (KB)",
        &[
            "budget %",
            "paper KB",
            "uniform KB",
            "low skew KB",
            "our default, uniform KB",
            "our default, low skew KB",
        ],
    );
    let lines = [
        (
            "one filter a file, uniform",
            STATE_OF_THE_ART,
            Distribution::Uniform,
        ),
        ("one filter a file, low skew", STATE_OF_THE_ART, LOW_SKEW),
        ("our default, uniform", "shamba", Distribution::Uniform),
        ("our default, low skew", "shamba", LOW_SKEW),
    ];
    let mut series = vec![Series::new("paper")];
    series.extend(lines.map(|(name, ..)| Series::new(name)));
    for (percent, paper) in PAPER {
        let mut row = vec![percent.into(), paper.into()];
        series[0].points.push((percent, paper));
        for (at, (_, engine, distribution)) in lines.into_iter().enumerate() {
            let trial = lab.lookups(engine, percent, 0.0, distribution)?;
            let kb = lab.measure(&trial)?.pages() * 4.096;
            row.push(kb.into());
            series[at + 1].points.push((percent, kb));
        }
        table.push(row);
    }
    let read = |line: usize| series[line].points.iter().map(|p| p.1).collect::<Vec<_>>();
    let (uniform, skewed, ours) = (read(1), read(2), read(3));
    let enough = skewed.len() - 1;
    let base = lab.base(STATE_OF_THE_ART);
    let least = lab.budgets(&base, &[0.0])?[0];
    let mut claims: Vec<Claim> = PAPER[..enough]
        .iter()
        .zip([23.2, 7.3, 1.4])
        .zip(&skewed)
        .map(|(((percent, _), paper), read)| {
            let what = format!("times as much is read with {percent} % of memory as with 100 %");
            let claim = Claim::figure(what, paper, read / skewed[enough]);
            if *percent < least {
                claim.without_verdict(format!("the least memory is {least} % at this scale"))
            } else {
                claim
            }
        })
        .collect();
    claims.push(Claim::figure(
        "KB read with 100 % of memory",
        PAPER[enough].1,
        skewed[enough],
    ));
    let lost: Vec<String> = PAPER
        .iter()
        .zip(ours.iter().zip(&uniform))
        .filter(|(_, (ours, theirs))| ours >= theirs)
        .map(|((percent, _), (ours, theirs))| format!("{percent} % ({ours:.1} KB, {theirs:.1})"))
        .collect();
    claims.push(Claim::goal_everywhere(
        "our default reads less than one filter a file, uniform",
        PAPER.len(),
        &lost,
    ));
    Ok(Findings {
        setting: super::pressure::setting(
            lab,
            "RAM disk; bytes are pages of 4 KiB that the engine counted",
        ),
        claims,
        tables: vec![table],
        panels: vec![Panel {
            title: "Empty lookups".into(),
            x: "memory, % of filters and indexes".into(),
            y: "KB read per lookup".into(),
            log_y: true,
            series,
        }],
        notes: vec![
            "The paper's files are 4 MB with filters of 80 KB at every scale; ours are smaller below \
             the scale `paper`, and what a lookup reads of a filter that is not in memory with them."
                .into(),
            "The claims are of low skew, the workload of the paper's table; how wide that is it does not say."
                .into(),
        ],
        ..Findings::default()
    })
}
