//! Facebook's mixed graph: lookups, updates and scans with sizes and key ranges as in production.
use super::{beside_best, each};
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::{MEMORY, short};
use crate::workload::Sizes;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let engines = lab.engines.clone();
    let budgets: &[f64] = lab.scale.pick(
        &[400.0],
        &[10.0, 40.0],
        &[10.0, 40.0, 100.0],
        &[10.0, 40.0, 100.0],
    );
    let mut table = Report::titled("The mixed graph");
    let mut claims = Vec::new();
    for &percent in budgets {
        let all = each(lab, &engines, |lab, engine| {
            let base = Base {
                keys: KeyKind::Sized(48),
                value: Sizes::GRAPH_VALUES,
                ..lab.base(engine)
            };
            let lookups = lab.lookups_in(base, percent, 1.0, Distribution::Graph)?;
            Ok(Trial {
                mix: Mix::graph(),
                ..lookups
            })
        })?;
        for (engine, found) in engines.iter().zip(&all) {
            let given = found.count("user_bytes_written").max(1) as f64;
            table.add(row! {
                "budget %": percent,
                "engine": short(engine),
                "pages/op": found.pages(),
                "lookup and scan us": found.read_us,
                "write us": found.write_us,
                "tables written, bytes per byte": found.table_bytes() as f64 / given,
            });
        }
        claims.push(Claim::goal_to(
            format!("pages beside the best of the papers' systems at {percent} %"),
            1.0,
            beside_best(&all),
        ));
    }
    let mut panels = plot::of_report(&table, "", "engine", "budget %", "pages/op");
    for panel in &mut panels {
        panel.title = "Facebook's mixed graph".into();
        panel.x = MEMORY.into();
        panel.y = "pages read per lookup or scan".into();
        panel.log_y = true;
    }
    Ok(Findings::of("", [table], panels, claims))
}
