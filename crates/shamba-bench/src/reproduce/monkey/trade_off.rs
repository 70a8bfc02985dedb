//! Trees of many size ratios and both merge policies, written and asked: the curve of lookup cost
//! against update cost that Figures 8 and 13 (C, D) draw.
use super::trees::{self, Curves};
use crate::experiments::full_tree::{Filters, FullTree, Lookups, Point, WIDE};
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::curves::crossing;
use shamba_model::merging;
use shamba_model::tree::MergePolicy::{Leveling, Tiering};

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

/// Times that an entry is written by the model: in the engine's tree, and in the paper's.
pub(super) fn model_writes(point: &Point) -> Result<[f64; 2]> {
    let tree = point.tree.tree()?;
    Ok([merging::engine(&tree).all(), merging::eq_10(&tree).all()])
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
        let [engine, paper] = model_writes(point)?;
        let mut row = row! {
            "policy": trees::policy(point.tree.policy),
            "T": point.tree.size_ratio,
            "writes per entry": point.writes,
            "writes, model": engine,
            "writes, Eq. 10": paper,
        };
        row.extend(curves.row(curves.x, point));
        table.add(row);
    }
    Ok(table)
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
    savings.fold(f64::MIN, f64::max)
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
