//! How far the default policy is from the best that could be done with the same tree and memory.
use crate::experiments::grid::{Grid, Place};
use crate::oracle::Optimum;
use crate::pressure::{self, Cell, KeptTrials, Settings};
use crate::reproduce::claim::WHERE;
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::HIGH_SKEW;
use crate::store::{Store, VALUE_SIZE};
use std::path::PathBuf;

/// Percent of the cells in which the default policy should be near the optimum.
const AIM: f64 = 75.0;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (warm_up, measured) = lab.scale.lookups();
    let all = [10.0, 25.0, 40.0, 70.0, 100.0, 150.0];
    let budgets: &[f64] = lab.scale.pick(&[400.0], &[10.0, 40.0, 100.0], &all, &all);
    let settings = Settings {
        grid: Grid {
            store: Store {
                engines: vec!["shamba".to_owned()],
                dir: PathBuf::new(),
                entries: lab.scale.entries(),
                value_size: VALUE_SIZE,
                full_budget: None,
                seed: lab.seed,
            },
            budgets: budgets.to_vec(),
            positives: vec![0.0, 0.5, 1.0],
            distributions: vec![Distribution::Uniform, HIGH_SKEW],
            warm_up,
        },
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
    let absent = beyond.iter().filter(|cell| cell.place.positive == 0.0);
    let cause = format!(
        "of the {} cells beyond, {} are of absent keys alone, {} are within 10 % of what a run can reach that begins with \
         empty memory, and {} read fewer than 100 pages in all {measured} lookups",
        beyond.len(),
        absent.count(),
        beyond.iter().filter(cold).count(),
        beyond.iter().filter(few).count(),
    );
    let cause = if explained {
        cause
    } else {
        format!("{WHERE}{cause}")
    };
    let what = "% of cells within 10 % of the optimum with memory warm from the start";
    let warm = Claim::goal_from(what, AIM, within(|o| o.warm)).because(true, cause);
    let what = "% of cells within 10 % of the optimum of a run that begins with empty memory";
    let empty = Claim::goal_from(what, AIM, within(|o| o.from_empty));
    let (tables, panels) = ([pressure::table(&cells)], pressure::panels(&cells));
    let below = |cell: &&Cell| {
        cell.optimum
            .as_ref()
            .is_some_and(|o| cell.pages() < o.from_empty)
    };
    let below = joined(cells.iter().filter(below).map(|cell| {
        let (Place { percent, .. }, workload) = (cell.place, cell.place.workload());
        format!("{workload}, {percent} % of memory")
    }));
    let mut notes = Vec::new();
    if !below.is_empty() {
        notes.push(format!(
            "Below the optimum of a run that begins with empty memory, which bounds what keeps the same all along: {below}."
        ));
    }
    Ok(Findings::of("", tables, panels, [warm, empty]).noting(notes))
}
