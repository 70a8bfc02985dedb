//! Table 1: what an empty lookup reads when filters and indexes do not fit in memory.
use super::pressure::{LOW_SKEW, MEMORY};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;
use crate::{Result, row};

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
    let mut table = Report::titled("Bytes read by an empty lookup (KB)");
    let lines = [
        (STATE_OF_THE_ART, Distribution::Uniform),
        (STATE_OF_THE_ART, LOW_SKEW),
        ("shamba", Distribution::Uniform),
        ("shamba", LOW_SKEW),
    ];
    let mut series = [
        "paper",
        "one filter a file, uniform",
        "one filter a file, low skew",
        "our default, uniform",
        "our default, low skew",
    ]
    .map(Series::new);
    for (percent, paper) in PAPER {
        let mut kb = [0.0; 4];
        for (kb, (engine, distribution)) in kb.iter_mut().zip(lines) {
            let trial = lab.lookups(engine, percent, 0.0, distribution)?;
            *kb = lab.measure(&trial)?.pages() * 4.096;
        }
        table.add(row! {
            "budget %": percent,
            "paper KB": paper,
            "uniform KB": kb[0],
            "low skew KB": kb[1],
            "our default, uniform KB": kb[2],
            "our default, low skew KB": kb[3],
        });
        let all = std::iter::once(paper).chain(kb);
        for (series, kb) in series.iter_mut().zip(all) {
            series.points.push((percent, kb));
        }
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
        panels: vec![
            Panel::new("Empty lookups", MEMORY, "KB read per lookup", series).logarithmic(),
        ],
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
