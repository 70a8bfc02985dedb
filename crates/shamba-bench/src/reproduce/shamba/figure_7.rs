//! Figure 7 (a to i): SHaMBa-prop, whose first modules always fit memory, as Figure 6.
use super::figure_6;
use super::pressure::{self, Point};
use crate::Result;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-7",
    title: "Modules proportional to memory",
    claim: "SHaMBa-prop sizes the first module so that those of all files fit memory. With 100 % of \
            memory or more it is the state of the art; below 50 % it beats SHaMBa-eq as well, most with \
            skipping.",
    seconds: 30.0,
    run,
};

const ENGINES: [&str; 6] = [
    STATE_OF_THE_ART,
    "shamba:shamba-prop+first={first}",
    "shamba:shamba-prop-p+paper+first={first}",
    "shamba:shamba-prop-f+paper+first={first}",
    "shamba:shamba-prop-f+first={first}",
    "shamba",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let points = figure_6::measure(lab, &ENGINES)?;
    let equal = figure_6::measure(lab, &figure_6::ENGINES[..figure_6::PAPERS.end])?;
    let mut claims = figure_6::beside_the_baseline(&ENGINES, &points, figure_6::PAPERS);
    claims.extend(figure_6::skipping(&ENGINES, &points));
    claims.push(same_with_enough(&points));
    claims.extend(figure_6::PAPERS.map(|engine| beats_equal(&points, &equal, engine)));
    claims.extend(figure_6::goals(&ENGINES, &points));
    figure_6::findings(lab, &ENGINES, &points, claims)
}

/// With enough memory there is one module: the very filters of the baseline.
fn same_with_enough(points: &[Point]) -> Claim {
    let enough: Vec<&Point> = points.iter().filter(|p| p.percent >= 100.0).collect();
    let apart = |point: &&Point| (point.pages(1) - point.pages(0)).abs() > 0.1 * point.pages(0);
    let apart: Vec<&Point> = enough.iter().copied().filter(apart).collect();
    Claim::everywhere(
        "SHaMBa-prop reads what the state of the art reads from 100 % of memory on (within a tenth)",
        enough.len(),
        &pressure::places(&apart, (1, 0)),
    )
}

/// That modules sized by memory beat equal ones, those of Figure 6 in the same order, below half of
/// it.
fn beats_equal(points: &[Point], equal: &[Point], engine: usize) -> Claim {
    let pairs = || {
        let pairs = points.iter().zip(equal);
        pairs.filter(|(point, _)| point.percent < 50.0)
    };
    let lost: Vec<String> = pairs()
        .map(|(own, other)| (own, own.pages(engine), other.pages(engine)))
        .filter(|(_, own, other)| own >= other)
        .map(|(point, own, other)| format!("{} ({own:.3}, {other:.3})", point.place()))
        .collect();
    let (own, other) = (
        pressure::short(ENGINES[engine]),
        pressure::short(figure_6::ENGINES[engine]),
    );
    let what = format!("{own} reads less than {other} below 50 % of memory");
    Claim::everywhere(what, pairs().count(), &lost)
}
