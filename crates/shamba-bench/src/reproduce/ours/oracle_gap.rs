//! How far the default policy is from the best that could be done with the same tree and memory.
use crate::oracle::Optimum;
use crate::pressure::{self, Cell, KeptTrials, Settings};
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::DISTRIBUTIONS;
use crate::store::Store;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (warm_up, measured) = lab.scale.lookups();
    let settings = Settings {
        store: Store::standard(
            &["shamba"],
            lab.home()?.to_owned(),
            lab.scale.entries(),
            lab.seed,
        ),
        budgets: lab.scale.pick(
            vec![400.0],
            vec![10.0, 40.0, 100.0],
            vec![10.0, 25.0, 40.0, 70.0, 100.0, 150.0],
            vec![10.0, 25.0, 40.0, 70.0, 100.0, 150.0],
        ),
        positives: vec![0.0, 0.5, 1.0],
        distributions: DISTRIBUTIONS.to_vec(),
        warm_up,
        measured,
        repeat: 1,
        kept: KeptTrials::default(),
        oracle: true,
    };
    let cells = pressure::measure(lab, &settings)?;
    let near = |cell: &Cell, of: fn(&Optimum) -> f64| {
        let least = cell.optimum.as_ref().map(of);
        least.is_some_and(|least| cell.pages() <= 1.1 * least)
    };
    let within = |of| {
        let near = cells.iter().filter(|cell| near(cell, of)).count();
        near as f64 / cells.len().max(1) as f64 * 100.0
    };
    let beyond = cells.iter().filter(|cell| !near(cell, |o| o.warm));
    let beyond: Vec<&Cell> = beyond.collect();
    let cold = |cell: &&&Cell| near(cell, |o| o.from_empty);
    let few = |cell: &&&Cell| cell.pages() * (measured as f64) < 100.0;
    let explained = beyond.iter().all(|cell| cold(&cell) || few(&cell));
    let cause = format!(
        "of the {} cells beyond, {} are within 10 % of what a run can reach that begins with empty memory, \
         and {} read fewer than 100 pages in all {measured} lookups",
        beyond.len(),
        beyond.iter().filter(cold).count(),
        beyond.iter().filter(few).count(),
    );
    let mut claims = Vec::new();
    let what = "% of cells within 10 % of the optimum with memory warm from the start";
    claims.push(
        Claim::goal_from(what, 40.0 / 54.0 * 100.0, within(|o| o.warm)).because(explained, cause),
    );
    let what = "% of cells within 10 % of the optimum of a run that begins with empty memory";
    let claim = Claim::goal_from(what, 40.0 / 54.0 * 100.0, within(|o| o.from_empty));
    claims.push(claim);
    let tables = [pressure::table(&cells)];
    Ok(Findings::of("", tables, pressure::panels(&cells), claims))
}
