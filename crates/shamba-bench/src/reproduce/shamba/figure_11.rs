//! Figure 11: SHaMBa over partitioned indexes and filters, where memory is very short.
use super::pressure::{self, Grid, Point};
use crate::Result;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-11",
    title: "Modules of partitioned filters",
    claim: "With 5 to 35 % of memory SHaMBa over partitioned indexes and filters reads less than these \
            alone; full skipping is the best of its variants.",
    seconds: 20.0,
    run,
};

const ENGINES: [&str; 5] = [
    "shamba:partitioned",
    "shamba:shamba-eq+partitioned",
    "shamba:shamba-eq-p+partitioned+paper",
    "shamba:shamba-eq-f+partitioned+paper",
    "shamba",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let scale = lab.scale;
    let budgets: &[f64] = match scale.pick(0, 1, 2, 2) {
        0 => &[35.0],
        1 => &[5.0, 15.0, 35.0],
        _ => &[5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0],
    };
    let points = pressure::measure(lab, &Grid::uniform(&ENGINES, budgets))?;
    let all: Vec<&Point> = points.iter().collect();
    let mut claims: Vec<Claim> = (1..4)
        .map(|engine| {
            let name = pressure::short(ENGINES[engine]);
            pressure::fewer(&format!("{name}: fewer reads"), &all, engine)
        })
        .collect();
    let worse: Vec<String> = points
        .iter()
        .filter(|p| p.pages(3) >= p.pages(1).min(p.pages(2)))
        .map(|p| {
            let [full, partial, without] = [3, 2, 1].map(|engine| p.pages(engine));
            format!("{} ({full:.3}, {partial:.3}, {without:.3})", p.place())
        })
        .collect();
    let what = "full skipping reads least of SHaMBa's variants (full, partial, none)";
    claims.push(Claim::everywhere(what, points.len(), &worse));
    let lost = pressure::lost(&all, (4, 0));
    let what = "our default: fewer reads than partitioned indexes and filters";
    claims.push(Claim::goal_everywhere(what, points.len(), &lost));
    let setting = pressure::setting(
        lab,
        "filters and indexes cut into pages; RAM disk, pages counted by the engine",
    );
    Ok(Findings {
        notes: vec![
            "The paper's partitions have a filter of three pages, which is read whole; a filter of this \
             engine is local to pages, so that a lookup reads one page of it whether it is in modules \
             or not."
                .into(),
        ],
        ..pressure::findings(setting, &ENGINES, &points, claims)
    })
}
