//! A hot spot that jumps to another part of the key range.
use super::store;
use crate::Result;
use crate::experiments::hot_spot::{self, Settings};
use crate::report::Cell;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ours-moving-hot-spot",
    title: "A hot spot that moves",
    claim: "Within 50,000 lookups of a jump the pages per lookup are within 15 % of the settled value, and \
            in no window of 10,000 lookups 30 % above those of two-priority LRU.",
    seconds: 25.0,
    run,
};

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let store = store(lab, &["shamba", "shamba:default+lru"]);
    let settings = Settings {
        budget: lab.scale.pick(400.0, 10.0, 10.0, 10.0),
        positive: 0.5,
        deviation: 0.05,
        jump: 0.5,
        lookups: lab.scale.pick(2_000, 60_000, 150_000, 150_000),
        window: lab.scale.pick(100, 1000, 1000, 1000),
    };
    let (table, windows, panels) = hot_spot::run(&store, &settings, &mut |line| lab.note(line))?;
    let number = |row: usize, name: &str| {
        let column = table.columns.iter().position(|column| *column == name);
        match column.and_then(|column| table.rows.get(row)?.get(column)) {
            Some(Cell::Number(number)) => *number,
            _ => f64::NAN,
        }
    };
    let claims = vec![
        Claim::goal_to(
            "lookups until within 15 % of the settled value",
            50_000.0,
            number(0, "lookups to within 15 %"),
        ),
        Claim::goal_to(
            "pages in the worst window, times those of LRU",
            1.3,
            number(0, "worst to the last engine"),
        ),
    ];
    Ok(Findings {
        setting: format!(
            "{} entries of 64 B, a normal distribution with a deviation of 5 % of the key range that jumps by \
             half of it after {} lookups, half of the keys exist, memory {} % of filters and indexes; direct \
             I/O on this disk.",
            lab.scale.entries(),
            settings.lookups,
            settings.budget
        ),
        tables: vec![table, windows],
        panels,
        claims,
        ..Findings::default()
    })
}
