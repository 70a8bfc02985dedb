//! Figure 2: where in the key range lookups fall, and which part of the files gets them.
use super::pressure::{HIGH_SKEW, LOW_SKEW};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::files::{self, cumulative, files_with};
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::{Chooser, Distribution, random};
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-2",
    title: "Which files lookups ask",
    claim: "Even if every key is asked for alike, four fifths of the accesses go to 44-46 % of the \
            files, since those of upper levels are asked more; with two normal distributions they go \
            to 14 % and 8 %.",
    seconds: 12.0,
    run,
};

/// Workloads, and the percentage of files that gets four fifths of their accesses, from and to.
const LINES: [(&str, Distribution, (f64, f64)); 3] = [
    ("uniform", Distribution::Uniform, (44.0, 46.0)),
    ("low skew", LOW_SKEW, (14.0, 14.0)),
    ("high skew", HIGH_SKEW, (8.0, 8.0)),
];

/// Slices of the key range in the first panel.
const SLICES: usize = 100;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = files::base(lab, STATE_OF_THE_ART);
    let mut table = Report::titled("Files that get 80 % of the accesses");
    let mut claims = Vec::new();
    let (mut domain, mut access) = (Vec::new(), Vec::new());
    for (name, distribution, paper) in LINES {
        let found = files::measure(lab, base.clone(), 0.0, distribution)?;
        let shares = files::shares(&files::below_level_0(&found.files));
        let all = files::shares(&found.files);
        let measured = files_with(&shares, 0.8);
        table.add(row! {
            "workload": name,
            "files": shares.len(),
            "paper, % of files": paper.1,
            "measured, % of files": measured,
            "with level 0, % of files": files_with(&all, 0.8),
        });
        let what = format!("{name}: % of the files that get four fifths of the accesses");
        let claim = Claim::range(what, paper, &[measured]);
        claims.push(if distribution == Distribution::Uniform {
            claim
        } else {
            claim.without_verdict(
                "the paper does not say how wide its normal distributions are, and the share follows \
                 from the width",
            )
        });
        let slices = over_keys(lab, distribution, base.entries)?;
        domain.push(Series::of(name, slices));
        access.push(Series::of(name, cumulative(&shares)));
    }
    access.push(Series::of("four fifths", [(0.0, 0.8), (100.0, 0.8)]));
    let panels = vec![
        Panel::new(
            "Lookups over the key range",
            "key range, %",
            "share of lookups, %",
            domain,
        ),
        Panel::new(
            "Accesses over files",
            "files, the most asked first, %",
            "share of accesses",
            access,
        ),
    ];
    Ok(Findings {
        setting: super::pressure::setting_of(
            lab,
            &base,
            "empty lookups, 150 % of memory; accesses of files counted by the engine for one lookup \
             in eight, those of the warm-up as well; level 0 left out",
        ),
        tables: vec![table],
        panels,
        claims,
        notes: vec![
            "The paper's first workload, YCSB's uniform one, is the uniform one here. It does not say how wide its \
             normal ones are (section 5 has one of five keys, which would fall into one file): 0.08 and 0.05 of the key range \
             were taken."
                .into(),
            "Every lookup asks all files of level 0, which here holds buffers until there are several; the \
             paper's tree merges a buffer at once."
                .into(),
        ],
        ..Findings::default()
    })
}

/// The share of lookups, in percent, in each slice of the key range.
fn over_keys(lab: &Lab<'_>, distribution: Distribution, entries: u64) -> Result<Vec<(f64, f64)>> {
    let draws = lab.scale.pick(10_000, 100_000, 300_000, 1_000_000);
    let mut chooser = Chooser::new(distribution, entries, lab.seed)?;
    let mut random = random(lab.seed, 1);
    let mut counts = vec![0u64; SLICES];
    for _ in 0..draws {
        let number = chooser.draw(&mut random);
        counts[(number as u128 * SLICES as u128 / u128::from(entries.max(1))) as usize] += 1;
    }
    let share = |count: u64| count as f64 * 100.0 / draws as f64;
    let slices = counts.into_iter().enumerate();
    Ok(slices
        .map(|(at, count)| (at as f64, share(count)))
        .collect())
}
