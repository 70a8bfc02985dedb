//! Figure 6 (a to i): SHaMBa-eq beside one filter a table, over the budget, by distribution and share of
//! existing keys.
use super::pressure::{self, DISTRIBUTIONS, Point};
use crate::Result;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-6",
    title: "Equal-sized modules under memory pressure",
    claim: "With less memory than filters and indexes take, SHaMBa-eq needs significantly fewer reads \
            per lookup than the state of the art, most for empty lookups; skipping modules helps the \
            more keys exist. At one third of the memory it reads what the state of the art reads.",
    seconds: 120.0,
    run,
};

const ENGINES: [&str; 5] = [
    STATE_OF_THE_ART,
    "shamba:shamba-eq",
    "shamba:shamba-eq-p",
    "shamba:shamba-eq-f",
    "shamba",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let budgets = lab.scale.budgets();
    let points = pressure::measure(lab, &ENGINES, &DISTRIBUTIONS, &[0.0, 0.5, 1.0], budgets)?;
    let short = |points: &&Point| points.percent < 100.0;
    let fewer = |engine: usize| {
        let under = || points.iter().filter(short);
        let won = under().filter(|p| p.pages[engine] < p.pages[0]).count();
        (won, under().count())
    };
    let at_10 = |positive: f64| {
        points
            .iter()
            .find(|p| p.percent == 10.0 && p.positive == positive)
    };
    let mut claims = Vec::new();
    for (engine, name) in ENGINES.iter().enumerate().skip(1) {
        let (won, of) = fewer(engine);
        claims.push(Claim::holds(
            format!(
                "{}: fewer reads with less than 100 % of memory",
                pressure::short(name)
            ),
            "in every panel",
            format!("in {won} of {of} points"),
            won == of,
        ));
    }
    if let Some(point) = at_10(1.0) {
        claims.push(Claim::holds(
            "skipping reads fewer modules where keys exist (uniform, all existing, 10 %)",
            "eq-f < eq-p < eq",
            format!(
                "{:.2}, {:.2}, {:.2}",
                point.pages[3], point.pages[2], point.pages[1]
            ),
            point.pages[3] <= point.pages[2] && point.pages[2] <= point.pages[1],
        ));
    }
    Ok(Findings {
        setting: pressure::setting(lab, "RAM disk, pages counted by the engine"),
        tables: vec![pressure::table("Pages read per lookup", &ENGINES, &points)],
        panels: pressure::panels(&ENGINES, &points),
        claims,
        notes: Vec::new(),
    })
}
