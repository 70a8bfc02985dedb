//! Facebook's mixed graph: lookups, updates and scans with sizes and key ranges as in production.
use super::{Side, beside_best, each, others};
use crate::proc_io::PAGE;
use crate::reproduce::claim::WHERE;
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::MEMORY;
use crate::reproduce::trial::KERNEL_READS;
use crate::workload::Sizes;
use shamba::MIN_MEMORY;

/// Pages of the files that were merged, per operation that is no write.
fn merged(found: &Found) -> f64 {
    found.per_lookup("compaction_bytes_read") / PAGE as f64
}

/// What lookups read, and merges.
fn read(found: &Found) -> f64 {
    found.pages() + merged(found)
}

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
            let given = found.count("user_bytes_written").max(1) as f64;
            table.add(row! {
                "budget %": percent,
                "engine": engine,
                "pages/op": read(found),
                "of these by merges": merged(found),
                "read calls/op, scans' too": found.per_lookup(KERNEL_READS),
                "lookup and scan us": found.read_us,
                "write us": found.write_us,
                "tables written, bytes per byte": found.table_bytes() as f64 / given,
            });
        }
        let what = format!(
            "pages beside the best of {} at {} %",
            others(lab),
            Cell::from(percent)
        );
        claims.push(no_more_read(what, &all));
    }
    let title = "Facebook's mixed graph";
    let panel = Panel::of_lines(title, &table, "engine", "budget %", "pages/op");
    let panel = Panel {
        y: "pages read by lookups and merges, per lookup or scan".to_owned(),
        ..panel.over(MEMORY).logarithmic()
    };
    Ok(Findings::of("", [table], [panel], claims))
}

/// That no more is read with our engine than with the best of the others, merges included; what
/// lookups alone read and the time are told.
fn no_more_read(what: String, sides: &[Side]) -> Claim {
    let mut claim = Claim::goal_to(what, 1.0, beside_best(sides, read));
    let alone = beside_best(sides, Found::pages);
    let time = beside_best(sides, |found| found.read_us);
    claim.measured += &format!(
        "; of lookups alone {alone:.3}; a lookup or scan takes {time:.2} times as long as with the quickest"
    );
    let ours = sides.first().map_or(f64::NAN, |(_, found)| merged(found));
    let place = format!(
        "{WHERE}lookups alone read no more; merges of ours read {ours:.2} pages an operation besides"
    );
    claim.because(alone <= 1.0, place)
}

#[cfg(test)]
mod tests {
    use super::super::rocksdb::tests::sides;
    use super::*;
    use crate::reproduce::Verdict::{Met, Missed};

    #[test]
    fn what_merges_read_counts() {
        let judged = |ours: [u64; 2], theirs: [u64; 2]| {
            let both = [ours, theirs].map(|[pages, merged]| [pages, merged * PAGE]);
            let claim = no_more_read(String::new(), &sides("compaction_bytes_read", both));
            (claim.verdict, claim.cause.is_some())
        };
        assert_eq!(judged([2, 0], [3, 0]), (Met, false));
        assert_eq!(judged([2, 2], [3, 0]), (Missed, true));
        assert_eq!(judged([4, 0], [3, 0]), (Missed, false));
        assert_eq!(judged([2, 2], [3, 2]), (Met, false));
    }
}
