//! Figure 6 (a to i): SHaMBa-eq beside one filter a table, over the budget, by distribution and
//! share of existing keys.
use super::pressure::{self, DISTRIBUTIONS, Grid, Point};
use crate::Result;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab, Scale};
use crate::workload::Distribution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-6",
    title: "Equal-sized modules under memory pressure",
    claim: "With less memory than filters and indexes take, SHaMBa-eq needs significantly fewer reads \
            per lookup than the state of the art, and with uniform lookups fewer with more than that as \
            well; skipping modules saves reads, the more keys exist the more. At one third of the \
            memory it reads what the state of the art reads (abstract).",
    seconds: 20.0,
    run,
};

pub(super) const ENGINES: [&str; 6] = [
    STATE_OF_THE_ART,
    "shamba:shamba-eq",
    "shamba:shamba-eq-p+paper",
    "shamba:shamba-eq-f+paper",
    "shamba:shamba-eq-f",
    "shamba",
];

/// The paper's systems among the engines, without the baseline: the last two are not its own.
pub(super) const PAPERS: std::ops::Range<usize> = 1..4;

/// The part of the memory with which SHaMBa reads as much as the state of the art (abstract).
const THIRD: f64 = 1.0 / 3.0;

/// The paper's skewed workloads by its own words (section 5.1): a standard deviation of 5 keys, and
/// a skew of 2.
const AS_WRITTEN: [Distribution; 2] = [Distribution::NormalKeys(5.0), Distribution::Zipf(2.0)];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let points = measure(lab, &ENGINES)?;
    let mut claims = beside_the_baseline(&ENGINES, &points, PAPERS);
    claims.push(more_than_enough(&points));
    claims.extend(skipping(&ENGINES, &points));
    claims.extend(equal_reads(&ENGINES, &points));
    claims.extend(goals(&ENGINES, &points));
    findings(lab, &ENGINES, &points, claims)
}

/// Between the least and the largest below 100 % the memory for equal reads is looked for.
fn budgets(scale: Scale) -> &'static [f64] {
    match scale {
        Scale::Quick => &[10.0, 20.0, 40.0, 100.0, 150.0],
        scale => scale.budgets(),
    }
}

/// All nine panels.
pub(super) fn measure(lab: &mut Lab<'_>, engines: &[&str]) -> Result<Vec<Point>> {
    let grid = Grid {
        distributions: &DISTRIBUTIONS,
        ..Grid::uniform(engines, budgets(lab.scale))
    };
    pressure::measure(lab, &grid)
}

/// What was measured in all nine panels, and beside it the paper's systems under its skewed
/// workloads as it writes them.
pub(super) fn findings(
    lab: &mut Lab<'_>,
    engines: &[&str],
    points: &[Point],
    claims: Vec<Claim>,
) -> Result<Findings> {
    let papers = &engines[..PAPERS.end];
    let grid = Grid {
        distributions: &AS_WRITTEN,
        positives: &[0.0, 0.5],
        ..Grid::uniform(papers, &budgets(lab.scale)[..2])
    };
    let written = pressure::measure(lab, &grid)?;
    let setting = pressure::setting(
        lab,
        "RAM disk, pages counted by the engine; skewed lookups are normal with a standard deviation of \
         5 % of the keys, about as wide as the paper's Figure 2, and Zipf with 0.99, that of YCSB; its text \
         (section 5.1) has a standard deviation of 5 keys and a skew of 2, which ask few keys at all: \
         these (normal-keys5, zipf2) are run as well, with the paper's systems, the two smallest \
         budgets and shares 0 and 0.5, so that they take little time",
    );
    let mut findings = pressure::findings(setting, engines, points, claims);
    let title = "Pages read per lookup, skew as the paper's text has it";
    findings
        .tables
        .push(pressure::table(title, papers, &written));
    findings.panels.extend(pressure::panels(papers, &written));
    let claims = PAPERS.map(|engine| fewer_as_written(engines, &written, engine));
    findings.claims.extend(claims);
    Ok(findings)
}

/// That an engine reads less under the skew of the paper's text as well.
fn fewer_as_written(engines: &[&str], written: &[Point], engine: usize) -> Claim {
    let short = pressure::short_of_memory(written);
    let name = pressure::short(engines[engine]);
    let what = format!("{name}: fewer reads with less than 100 %, skew of 5 keys and Zipf of 2");
    // A page in 100 lookups.
    let idle = |point: &&Point| point.pages(0).max(point.pages(engine)) < 0.01;
    let lost = pressure::not_fewer(&short, (engine, 0));
    pressure::fewer(&what, &short, engine).because(
        !lost.is_empty() && lost.iter().all(idle),
        "where it does not, both read next to nothing: the few keys that are asked stay in memory",
    )
}

/// For each of these engines, that it reads less wherever memory is short, and takes less time.
pub(super) fn beside_the_baseline(
    engines: &[&str],
    points: &[Point],
    which: std::ops::Range<usize>,
) -> Vec<Claim> {
    let short = pressure::short_of_memory(points);
    let of = |engine: usize| {
        let name = pressure::short(engines[engine]);
        let what = format!("{name}: fewer reads with less than 100 % of memory");
        let latency = format!("{name}: lower latency there (RAM disk, this machine's clock)");
        [
            pressure::fewer(&what, &short, engine),
            Claim::everywhere(latency, short.len(), &pressure::slower(&short, (engine, 0))),
        ]
    };
    which.flat_map(of).collect()
}

/// That modules help with more memory than filters and indexes take, too (section 5.1.1).
fn more_than_enough(points: &[Point]) -> Claim {
    let enough =
        |point: &&Point| point.percent > 100.0 && point.distribution == Distribution::Uniform;
    let enough: Vec<&Point> = points.iter().filter(enough).collect();
    pressure::fewer(
        "uniform: fewer reads with more than 100 % of memory as well",
        &enough,
        1,
    )
}

/// That skipping saves reads wherever memory is short and some keys exist.
pub(super) fn skipping(engines: &[&str], points: &[Point]) -> Vec<Claim> {
    let existing: Vec<&Point> = (points.iter())
        .filter(|point| point.percent < 100.0 && point.positive > 0.0)
        .collect();
    let of = |engine: usize| {
        let lost = pressure::lost(&existing, (engine, 1));
        let (own, all) = (
            pressure::short(engines[engine]),
            pressure::short(engines[1]),
        );
        let what = format!("{own} reads less than {all} where keys exist and memory is short");
        Claim::everywhere(what, existing.len(), &lost)
    };
    [2, 3].map(of).into()
}

/// The memory that full skipping needs to read what the baseline reads.
pub(super) fn equal_reads(engines: &[&str], points: &[Point]) -> Option<Claim> {
    const FULL: usize = 3;
    let (budget, part) = pressure::memory_for_equal_reads(points.iter(), FULL)?;
    let what = format!(
        "{}: part of the memory needed to read what the state of the art reads at {budget} %, on the \
         average over all panels",
        pressure::short(engines[FULL])
    );
    Some(Claim::figure(what, THIRD, part))
}

/// The same of the engines that are not the paper's: goals of this project.
pub(super) fn goals(engines: &[&str], points: &[Point]) -> Vec<Claim> {
    let short = pressure::short_of_memory(points);
    let of = |engine: usize| {
        let lost = pressure::lost(&short, (engine, 0));
        let name = pressure::short(engines[engine]);
        let name = if name.contains("-f") {
            format!("{name} with thresholds relative to the number of files")
        } else {
            name.to_owned()
        };
        let fewer = format!("{name}: fewer reads than one filter a file below 100 % of memory");
        let fewer = Claim::goal_everywhere(fewer, short.len(), &lost);
        let equal = pressure::memory_for_equal_reads(points.iter(), engine);
        let equal = equal.map(|(budget, part)| {
            let what = format!(
                "{name}: part of the memory for as many reads as one filter a file at {budget} %"
            );
            Claim::goal_to(what, THIRD, part)
        });
        [Some(fewer), equal].into_iter().flatten()
    };
    (PAPERS.end..engines.len()).flat_map(of).collect()
}
