//! Facebook's mixed graph: lookups, updates and scans with sizes and key ranges as in production.
use super::{each, no_more_pages, others};
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::MEMORY;
use crate::workload::Sizes;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let all = [10.0, 40.0, 100.0];
    let budgets: &[f64] = lab.scale.pick(&[400.0], &all[..2], &all, &all);
    let mut table = Report::titled("The mixed graph");
    let mut claims = Vec::new();
    for &percent in budgets {
        let all = each(lab, |lab, engine| {
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
        for (engine, found) in &all {
            let given = found.count("user_bytes_written").max(1) as f64;
            table.add(row! {
                "budget %": percent,
                "engine": engine,
                "pages/op": found.pages(),
                "lookup and scan us": found.read_us,
                "write us": found.write_us,
                "tables written, bytes per byte": found.table_bytes() as f64 / given,
            });
        }
        let others = others(lab);
        let what = format!("pages beside the best of {others} at {percent} %");
        claims.push(no_more_pages(what, &all));
    }
    let title = "Facebook's mixed graph";
    let panel = Panel::of_lines(title, &table, "engine", "budget %", "pages/op");
    let panel = Panel {
        y: "pages read per lookup or scan".to_owned(),
        ..panel.over(MEMORY).logarithmic()
    };
    Ok(Findings::of("", [table], [panel], claims))
}
