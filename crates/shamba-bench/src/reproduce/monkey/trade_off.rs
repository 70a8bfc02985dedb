//! Trees of many size ratios and both merge policies, written and asked: the curve of lookup cost
//! against update cost, from a log to a sorted array, that Figures 8 and 13 (C, D) draw.
use super::trees::{self, Curves};
use crate::experiments::full_tree::{Filters, FullTree, Lookups, Point, WIDE};
use crate::reproduce::claim::TOLERANCE;
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::curves::crossing;
use shamba_model::cost::Allocation;
use shamba_model::curve::Curve;
use shamba_model::tree::MergePolicy::{Leveling, Tiering};
use shamba_model::{merging, trade_off};

/// Entries of [`WIDE`] values that fill a page.
pub(super) const ENTRIES_PER_PAGE: f64 = 5.0;

/// The largest size ratio of leveling that a tree of the model's shape can be written with.
pub(super) const MOST_LEVELED: u32 = 16;

/// Entries of a buffer, of which leveling can make such a tree.
pub(super) const BUFFER: u64 = 64;

/// Pages that an update is worth in flushes and merges: each written once and, but for flushes,
/// read once.
pub(super) fn update(point: &Point) -> f64 {
    (2.0 * point.writes - 1.0) / ENTRIES_PER_PAGE
}

/// Measures the curve, the most update-friendly point first: lookups of absent keys, and of
/// existing ones.
pub(super) fn measure(lab: &mut Lab<'_>) -> Result<[Curves; 2]> {
    // About as many buffers for each: 2^4, 2^8, 2^12.
    let (power, ratios): (u32, &[u32]) = lab.scale.pick(
        (4, &[2, 4]),
        (8, &[2, 3, 4, 6, 8, 16]),
        (10, &[2, 4, 6, 10, 32]),
        (12, &[2, 4, 8, 16, 64]),
    );
    let mut designs: Vec<_> = ratios.iter().rev().map(|&ratio| (Tiering, ratio)).collect();
    // Leveling with larger ones: the tables' own pages are more than a level's slack.
    let ratios = ratios.iter().filter(|ratio| **ratio <= MOST_LEVELED);
    designs.extend(ratios.skip(1).map(|&ratio| (Leveling, ratio)));
    let kinds = [Lookups::Mixed(0.0), Lookups::Mixed(1.0)];
    let mut curves = kinds.map(|_| Curves {
        x: "pages read and written per update",
        at: update,
        points: Vec::new(),
    });
    for (policy, size_ratio) in designs {
        let levels = f64::from(power) / f64::from(size_ratio).log2();
        let tree = FullTree {
            policy,
            size_ratio,
            levels: (levels.round() as u32).max(1),
            buffer_entries: BUFFER,
            value: WIDE,
            filters: Filters::Zero,
            ..trees::default(lab)
        };
        let best = trees::measure(lab, tree, &kinds)?;
        let even = FullTree {
            bits_per_key: best[0].bits_per_key,
            filters: Filters::Uniform,
            ..tree
        };
        let even = trees::measure(lab, even, &kinds)?;
        for (curve, both) in curves.iter_mut().zip(even.into_iter().zip(best)) {
            curve.points.extend([both.0, both.1]);
        }
        lab.note(format!("{}, T = {size_ratio}", trees::policy(policy)));
    }
    Ok(curves)
}

/// A row for each tree.
pub(super) fn table(title: &str, curves: &Curves) -> Result<Report> {
    let mut table = Report::titled(title);
    for point in &curves.points {
        // By the model: in the engine's tree, and in the paper's.
        let tree = point.tree.tree()?;
        let design = row! {
            "policy": trees::policy(point.tree.policy),
            "T": point.tree.size_ratio,
            "writes per entry": point.writes,
            "writes, model": merging::engine(&tree).all(),
            "writes, Eq. 10": merging::eq_10(&tree).all(),
        };
        table.add([design, curves.row(curves.x, point)].concat());
    }
    Ok(table)
}

/// The model's curve: 2^27 entries of 128 B, a buffer of 8 MB, 5 bits per key.
fn by_model(allocation: Allocation) -> Result<Vec<trade_off::Point>> {
    let entries = f64::from(1u32 << 27);
    let environment = trees::environment(entries, 128.0);
    let workload = trees::workload(0.5, 0.0);
    let design = trees::leveled(2, 8e6, entries * trees::BITS / 8.0, allocation);
    let (policies, curve) = ([Tiering, Leveling], Curve::ideal());
    let points = trade_off::trade_off(&design, &policies, &environment, &workload, &curve);
    Ok(points?)
}

pub(super) fn figure_8(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut model = Report::titled(
        "Reads of an empty lookup and cost of an update by the model; 2^27 entries of 128 B",
    );
    let mut lines = Vec::new();
    let even = by_model(Allocation::Uniform)?;
    let best = by_model(Allocation::Monkey)?;
    for (even, best) in even.iter().zip(&best) {
        let (update, policy) = (best.costs.update, trees::policy(best.design.policy));
        let (even, reads) = (even.costs.empty_lookup, best.costs.empty_lookup);
        let x = update.log10();
        plot::add(&mut lines, &format!("uniform, {policy}"), (x, even));
        plot::add(&mut lines, &format!("Monkey, {policy}"), (x, reads));
        model.add(row! {
            "policy": policy,
            "T": best.design.size_ratio,
            "levels": best.costs.levels,
            "update pages": update,
            "uniform reads": even,
            "Monkey reads": reads,
        });
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let [empty, existing] = measure(lab)?;
    let tables = [
        model,
        table("Lookups of absent keys, and updates, measured", &empty)?,
        table("Lookups of existing keys, and updates, measured", &existing)?,
    ];
    let [even, best, _] = empty.each(|point| point.in_vain);
    let fewer = even.iter().zip(&best);
    let fewer = fewer.map(|(even, best)| *best <= (1.0 - TOLERANCE) * even);
    let what = "Monkey has more than a tenth fewer searches in vain (\"significantly\", our limit) in every tree measured";
    let fewer = Claim::at_each(what, fewer);
    let what = "measured searches for absent and for existing keys are the model's";
    let near = trees::near_model(what, empty.points.iter().chain(&existing.points));
    let writes = tables[1].points("writes, model", "writes per entry");
    let writes = writes.into_iter();
    let off = writes.map(|(model, seen)| (seen / model - 1.0).abs());
    let what =
        "times that an entry is written, at most so far from the model's of the engine's tree, %";
    let off = Claim::goal_to(what, 15.0, most_of(&off.collect::<Vec<_>>()) * 100.0);
    let (x, y) = ("pages per update, power of ten", "reads per empty lookup");
    let title = "measured, from tiering to leveling";
    let panels = [
        Panel::new("by the model", x, y, lines),
        empty.panel(title, "searches per empty lookup", 1.0),
    ];
    let (panels, claims) = (panels.map(Panel::logarithmic), [fewer, near, off]);
    Ok(Findings::of(trees::setting(lab), tables, panels, claims))
}

/// The largest share of update cost that can be had for what uniform filters cost in lookups: from
/// each point with uniform filters to where the curve with Monkey's, which falls as updates cost
/// more, looks up no dearer.
pub(super) fn largest_trade(curves: &Curves) -> f64 {
    let [from, to, _] = curves.each(|point| point.in_vain);
    let [from_updates, to_updates, _] = curves.each(update);
    let mut curve: Vec<(f64, f64)> = to_updates.into_iter().zip(to).collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    let saving = |(lookups, updates): (&f64, &f64)| {
        let reached = crossing(&curve, *lookups);
        1.0 - reached.unwrap_or(f64::INFINITY) / updates
    };
    let savings = from.iter().zip(&from_updates).map(saving);
    most_of(&savings.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_saved_are_traded_for_updates() {
        let points = [(1.0, 8.0, 4.0), (2.0, 4.0, 1.0), (4.0, 2.0, 0.9)];
        let both = |(update, even, best): (f64, f64, f64)| {
            let point = |filters, searches| Point {
                writes: (update * ENTRIES_PER_PAGE + 1.0) / 2.0,
                ..trees::tests::point(filters, searches, 0.0)
            };
            [point(Filters::Uniform, even), point(Filters::Zero, best)]
        };
        let curves = Curves {
            x: "",
            at: update,
            points: points.into_iter().flat_map(both).collect(),
        };
        // From the last, 2 searches at 4 updates, to where the other curve has 2: half-way between
        // 4 at 1 and 1 at 2, over the logarithm.
        assert_eq!(largest_trade(&curves), 1.0 - 1.5 / 4.0);
    }
}
