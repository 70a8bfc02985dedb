//! How far the default policy is from the best that could be done with the same tree and memory.
use crate::pressure::{self, Settings};
use crate::reproduce::shamba::pressure::DISTRIBUTIONS;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Store;
use crate::summary::{self, Sides};
use crate::{Result, record};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ours-oracle-gap",
    title: "The distance to the offline optimum",
    claim: "Within 10 % of the offline optimum for the same tree, lookups and budget in three quarters of \
            the cells (40 of 54 in the full grid).",
    seconds: 60.0,
    run,
};

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (warm_up, measured) = lab.scale.lookups();
    let settings = Settings {
        store: Store {
            engines: vec!["shamba".to_owned()],
            dir: lab.home().to_owned(),
            entries: lab.scale.entries(),
            seed: lab.seed,
        },
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
        out: None,
        resume: false,
        oracle: true,
    };
    let rows = pressure::run(&settings, &mut |line| lab.note(line))?;
    let pages = |kind: &str, row: &record::Row| {
        let name = format!("{kind} {}", row.engine);
        let at = |other: &&record::Row| other.engine == name && other.same_place(row);
        rows.iter().find(at).map(|other| other.pages)
    };
    let ours: Vec<&record::Row> = rows.iter().filter(|row| row.engine == "shamba").collect();
    let near =
        |kind: &str, row: &record::Row| pages(kind, row).is_some_and(|p| row.pages <= 1.1 * p);
    let within = |kind: &str| {
        let cells = ours.iter().filter(|row| near(kind, row)).count();
        cells as f64 / ours.len().max(1) as f64 * 100.0
    };
    let beyond = || ours.iter().filter(|row| !near(record::ORACLE, row));
    let few = |row: &&&record::Row| row.pages * (measured as f64) < 100.0;
    let explained = beyond().all(|row| near(record::FROM_EMPTY, row) || few(&row));
    let cause = format!(
        "of the {} cells beyond, {} are within 10 % of what a run can reach that begins with empty memory, \
         and {} read fewer than 100 pages in all {measured} lookups",
        beyond().count(),
        beyond().filter(|row| near(record::FROM_EMPTY, row)).count(),
        beyond().filter(few).count(),
    );
    let sides = Sides {
        ours: "shamba".to_owned(),
        theirs: "oracle".to_owned(),
    };
    Ok(Findings {
        setting: format!(
            "The standard setting of the SHaMBa paper with {} entries and files of 4 MiB, {warm_up} + \
             {measured} lookups, direct I/O on this disk; the optimum by shamba_model::oracle.",
            lab.scale.entries()
        ),
        claims: vec![
            Claim::goal_from(
                "% of cells within 10 % of the optimum with memory warm from the start",
                40.0 / 54.0 * 100.0,
                within(record::ORACLE),
            )
            .because(explained, cause),
            Claim::goal_from(
                "% of cells within 10 % of the optimum of a run that begins with empty memory",
                40.0 / 54.0 * 100.0,
                within(record::FROM_EMPTY),
            ),
        ],
        tables: vec![summary::versus(&rows, &sides)],
        panels: summary::panels(&rows),
        ..Findings::default()
    })
}
