//! Trees of many size ratios and both merge policies, written and asked: the curve of lookup cost
//! against update cost that Figures 8 and 13 (C, D) draw.
use super::trees;
use crate::Result;
use crate::experiments::full_lookups::{Filters, FullTree, Lookups, Measured, Seen};
use crate::reproduce::Lab;
use shamba_model::tree::MergePolicy;

/// Bytes of an entry, of which five fill a page.
pub(super) const ENTRIES_PER_PAGE: f64 = 5.0;

/// The largest size ratio of leveling that a tree of the model's shape can be written with.
pub(super) const MOST_LEVELED: u32 = 16;

/// Entries of a buffer, of which leveling can make such a tree.
pub(super) const BUFFER: u64 = 64;

/// A point of the curve.
pub(super) struct Point {
    pub(super) policy: MergePolicy,
    pub(super) size_ratio: u32,
    /// Pages that an update is worth in flushes and merges: each written once and, but for flushes,
    /// read once.
    pub(super) update: f64,
    /// Searches in vain of an empty lookup with uniform filters, measured and by the model.
    pub(super) uniform: (f64, f64),
    /// The same with Monkey's, of as much memory.
    pub(super) monkey: (f64, f64),
}

/// Pages of an update: each written once and, but for flushes, read once.
pub(super) fn update(measured: &Measured) -> f64 {
    (2.0 * measured.writes - 1.0) / ENTRIES_PER_PAGE
}

/// Measures the curve, the most update-friendly point first.
pub(super) fn measure(lab: &mut Lab<'_>) -> Result<Vec<Point>> {
    use MergePolicy::{Leveling, Tiering};
    // About as many buffers for each: 2^4, 2^8, 2^12.
    let (power, ratios): (u32, &[u32]) = lab.scale.pick(
        (4, &[2, 4]),
        (8, &[2, 3, 4, 6, 8, 16]),
        (10, &[2, 4, 6, 10, 32]),
        (12, &[2, 4, 8, 16, 64]),
    );
    let mut designs: Vec<(MergePolicy, u32)> =
        ratios.iter().rev().map(|&ratio| (Tiering, ratio)).collect();
    // Leveling with larger ones: the tables' own pages are more than a level's slack.
    let ratios = ratios.iter().filter(|ratio| **ratio <= MOST_LEVELED);
    designs.extend(ratios.skip(1).map(|&ratio| (Leveling, ratio)));
    let mut points = Vec::new();
    for (policy, size_ratio) in designs {
        let levels = f64::from(power) / f64::from(size_ratio).log2();
        let tree = FullTree {
            policy,
            size_ratio,
            levels: (levels.round() as u32).max(1),
            buffer_entries: BUFFER,
            // As under leveling: five entries fill a page.
            value: 690,
            filters: Filters::Zero,
            ..trees::default(lab)
        };
        let kinds = [Lookups::Mixed(0.0)];
        let monkey = trees::measure(lab, tree, &kinds)?;
        let even = FullTree {
            bits_per_key: monkey.bits_per_key,
            filters: Filters::Uniform,
            ..tree
        };
        let even = trees::measure(lab, even, &kinds)?;
        let of = |seen: &[Seen]| (seen[0].in_vain, seen[0].model);
        points.push(Point {
            policy,
            size_ratio,
            update: update(&monkey),
            uniform: of(&even.lookups),
            monkey: of(&monkey.lookups),
        });
        lab.note(format!("{}, T = {size_ratio}", trees::policy(policy)));
    }
    Ok(points)
}

/// The largest share of lookup cost that Monkey's filters save at one point, and where that is.
pub(super) fn largest_saving(points: &[Point]) -> f64 {
    let saved = points.iter().map(|p| 1.0 - p.monkey.0 / p.uniform.0);
    saved.fold(f64::MIN, f64::max)
}

/// The largest share of update cost that can be had for what uniform filters cost in lookups: from
/// each point with uniform filters to the cheapest point with Monkey's that looks up no dearer; as
/// measured, or with the model's lookups.
pub(super) fn largest_trade(points: &[Point], by_model: bool) -> f64 {
    let lookups = |(measured, model): (f64, f64)| if by_model { model } else { measured };
    let saving = |from: &Point| {
        let cheap = points
            .iter()
            .filter(|to| lookups(to.monkey) <= lookups(from.uniform) * 1.02);
        let least = cheap.map(|to| to.update).fold(f64::INFINITY, f64::min);
        1.0 - least / from.update
    };
    points.iter().map(saving).fold(f64::MIN, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_saved_are_traded_for_updates() {
        let point = |update, uniform, monkey| Point {
            policy: MergePolicy::Leveling,
            size_ratio: 2,
            update,
            uniform: (uniform, 0.0),
            monkey: (monkey, 0.0),
        };
        let points = [
            point(1.0, 8.0, 4.0),
            point(2.0, 4.0, 1.0),
            point(4.0, 2.0, 0.9),
        ];
        assert_eq!(largest_saving(&points), 0.75);
        // From the second to the first at equal lookups, and from the third to the second.
        assert_eq!(largest_trade(&points, false), 0.5);
    }
}
