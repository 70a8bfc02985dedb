//! Figure 7 (a to i): SHaMBa-prop, whose first modules always fit memory, as Figure 6.
use super::figure_6;
use super::pressure::{self, Point};
use crate::Result;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use shamba_model::{fpr, modular};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-7",
    title: "Modules proportional to memory",
    claim: "SHaMBa-prop sizes the first module so that those of all files fit memory. With 100 % of \
            memory or more it is the state of the art; below 50 % it beats SHaMBa-eq as well, most with \
            skipping.",
    seconds: 30.0,
    run,
};

const ENGINES: [&str; 5] = [
    STATE_OF_THE_ART,
    "shamba:shamba-prop+first={first}",
    "shamba:shamba-prop-p+first={first}",
    "shamba:shamba-prop-f+first={first}",
    "shamba",
];

/// Those of Figure 6 that these are set beside, in the same order.
const EQUAL: [&str; 4] = [
    STATE_OF_THE_ART,
    "shamba:shamba-eq",
    "shamba:shamba-eq-p",
    "shamba:shamba-eq-f",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let points = figure_6::measure(lab, &ENGINES)?;
    let equal = figure_6::measure(lab, &EQUAL)?;
    let mut claims = figure_6::beside_the_baseline(&ENGINES, &points);
    claims.extend(figure_6::skipping(&points));
    claims.extend(same_with_enough(&points));
    claims.extend((1..EQUAL.len()).map(|engine| beats_equal(&points, &equal, engine)));
    claims.extend(figure_6::equal_reads(&ENGINES, &points));
    Ok(figure_6::findings(lab, &ENGINES, &points, claims))
}

/// With enough memory there is one module: the very filters of the baseline.
fn same_with_enough(points: &[Point]) -> Option<Claim> {
    let enough = points.iter().filter(|p| p.percent >= 100.0);
    let apart = enough.map(|point| {
        let (own, baseline) = (point.pages(1), point.pages(0));
        ((own - baseline).abs(), point.place(), own, baseline)
    });
    let (far, place, own, baseline) = apart.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Claim::statement(
        "SHaMBa-prop reads what the state of the art reads from 100 % of memory on",
        "the same",
        format!("at most {far:.3} pages apart: {own:.3} and {baseline:.3} ({place})"),
        far <= 0.05 + 0.1 * baseline,
    ))
}

/// That modules sized by memory beat equal ones below half of it.
fn beats_equal(points: &[Point], equal: &[Point], engine: usize) -> Claim {
    let pairs = || {
        let pairs = points.iter().zip(equal);
        pairs.filter(|(point, _)| point.percent < 50.0)
    };
    let lost: Vec<_> = pairs()
        .filter(|(own, other)| own.pages(engine) > other.pages(engine) * pressure::EQUAL)
        .collect();
    let name = EQUAL[engine].trim_start_matches("shamba:shamba-eq");
    let claim = Claim::statement(
        format!("SHaMBa-prop{name} reads less than SHaMBa-eq{name} below 50 % of memory"),
        "in every panel",
        format!(
            "in {} of {} points",
            pairs().count() - lost.len(),
            pairs().count()
        ),
        lost.is_empty(),
    );
    let Some((own, other)) = lost.first() else {
        return claim;
    };
    claim.because(true, why(own, other, engine, &lost))
}

/// What makes the first modules fail where they are smallest.
fn why(own: &Point, other: &Point, engine: usize, lost: &[(&Point, &Point)]) -> String {
    let least = lost
        .iter()
        .filter(|(point, _)| point.percent == own.percent);
    let first = own.percent / 10.0;
    let hashes = modular::divide_hashes(7, &[first, 10.0 - first]).unwrap_or_default();
    let passing = hashes.first().and_then(|k| fpr::bloom(first, *k).ok());
    let held = own.found[engine]
        .resident
        .map_or(0, |resident| resident.filter);
    format!(
        "{} of these are at {} % of memory, where the first module has {first} of 10 bits per key: {:.0} % of \
         absent keys pass it, by the model, and the second module, of most of the filter, is read for \
         them; and of filters {:.0} % of the budget are in memory, since indexes, open tables and \
         buffers count in it ({}: {:.2} filter pages in {:.2} reads against {:.2} in {:.2})",
        least.count(),
        own.percent,
        passing.unwrap_or(f64::NAN) * 100.0,
        held as f64 * 100.0 / own.memory as f64,
        own.place(),
        own.found[engine].per_lookup("filter_pages"),
        own.found[engine].per_lookup("filter_reads"),
        other.found[engine].per_lookup("filter_pages"),
        other.found[engine].per_lookup("filter_reads"),
    )
}
