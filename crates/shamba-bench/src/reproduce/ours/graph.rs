//! Facebook's mixed graph: lookups, updates and scans with sizes and key ranges as in production.
use super::{each, no_more_beside_compaction, others};
use crate::proc_io::PAGE;
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::{MEMORY, Measure};
use crate::reproduce::trial::KERNEL_READS;
use crate::workload::Sizes;
use shamba::MIN_MEMORY;

/// Pages of the files that were merged, per operation that is no write.
fn merged(found: &Found) -> f64 {
    found.per_lookup("compaction_bytes_read") / PAGE as f64
}

/// Pages of tables written, by flushes and merges, per operation that is no write.
fn written(found: &Found) -> f64 {
    let each = ["flush_bytes", "compaction_bytes_written"];
    let bytes: f64 = each.iter().map(|name| found.per_lookup(name)).sum();
    bytes / PAGE as f64
}

/// What is judged.
const JUDGED: [(&str, Measure); 2] = [
    ("pages that lookups read", Found::pages),
    ("pages read and written, merges included", |found| {
        found.pages() + merged(found) + written(found)
    }),
];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let all = [10.0, 40.0, 100.0];
    let budgets: &[f64] = lab.scale.pick(&[400.0], &all[..2], &all, &all);
    let base = |lab: &Lab<'_>, engine: &str| Base {
        keys: KeyKind::Sized(48),
        value: Sizes::GRAPH_VALUES,
        ..lab.base(engine)
    };
    let full = lab.metadata(&base(lab, STATE_OF_THE_ART))?;
    let mut table = Report::titled("The mixed graph");
    let mut claims = Vec::new();
    for &percent in budgets {
        let all = each(lab, |lab, engine| {
            let lookups = lab.lookups_in(base(lab, engine), percent, 1.0, Distribution::Graph)?;
            Ok(Trial {
                mix: Mix::graph(),
                ..lookups
            })
        })?;
        // The engine's least budget may be more.
        let percent = percent.max(MIN_MEMORY as f64 * 100.0 / full as f64);
        for (engine, found) in &all {
            table.add(row! {
                "budget %": percent,
                "engine": engine,
                "pages/op": found.pages() + merged(found),
                "of these by merges": merged(found),
                "pages written/op": written(found),
                "read calls/op, scans' too": found.per_lookup(KERNEL_READS),
                "lookup and scan us": found.read_us,
                "write us": found.write_us,
            });
        }
        let beside = format!(
            "beside the best of {} at {} %",
            others(lab),
            Cell::from(percent)
        );
        claims.extend(
            JUDGED.map(|(pages, of)| {
                no_more_beside_compaction(format!("{pages}, {beside}"), &all, of)
            }),
        );
    }
    let title = "Facebook's mixed graph";
    let panel = Panel::of_lines(title, &table, "engine", "budget %", "pages/op");
    let panel = Panel {
        y: "pages read by lookups and merges, per lookup or scan".to_owned(),
        ..panel.over(MEMORY).logarithmic()
    };
    Ok(Findings::of("", [table], [panel], claims))
}

#[cfg(test)]
mod tests {
    use super::super::rocksdb::tests::sides;
    use super::*;
    use crate::reproduce::Verdict::{Met, Missed};

    #[test]
    fn what_merges_read_and_write_counts() {
        for name in [
            "compaction_bytes_read",
            "flush_bytes",
            "compaction_bytes_written",
        ] {
            let judged = |ours: [u64; 2], theirs: [u64; 2]| {
                let both = [ours, theirs].map(|[pages, merged]| [pages, merged * PAGE]);
                let mut sides = sides(name, both);
                for (_, found) in &mut sides {
                    found.counts.insert("compactions".to_owned(), 1);
                }
                JUDGED.map(|(_, of)| no_more_beside_compaction(String::new(), &sides, of).verdict)
            };
            assert_eq!(judged([2, 0], [3, 0]), [Met, Met]);
            assert_eq!(judged([2, 2], [3, 0]), [Met, Missed]);
            assert_eq!(judged([4, 0], [3, 2]), [Missed, Met]);
        }
    }
}
