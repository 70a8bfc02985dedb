//! Figure 7: reads of an empty lookup over filter memory, Monkey's beside uniform filters'.
use super::trees::{self, Curves};
use crate::experiments::full_tree::FullTree;
use crate::reproduce::prelude::*;
use shamba_model::tree::{MergePolicy, Tree};

/// The paper's: 2^35 entries of 16 B, size ratio 4, a buffer of 2 MB, so that there are nine
/// levels.
const ENTRIES: f64 = (1u64 << 35) as f64;
const RATIO: u32 = 4;
const LEVELS: u32 = 9;

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled(
        "Reads of an empty lookup by Eqs. 7, 8 and 55; 2^35 entries, T = 4, 9 levels",
    );
    let mut panels = Vec::new();
    for policy in [MergePolicy::Leveling, MergePolicy::Tiering] {
        let tree = Tree::new(policy, RATIO, LEVELS, ENTRIES)?;
        let mut curve = Vec::new();
        for step in 0..=35 {
            let gigabytes = f64::from(step);
            let bits_per_key = gigabytes * 8e9 / ENTRIES;
            let [even, best] = trees::closed_forms(&tree, bits_per_key)?;
            table.add(row! {
                "filters GB": gigabytes,
                "bits per key": bits_per_key,
                "policy": trees::policy(policy),
                "uniform reads": even,
                "Monkey reads": best,
            });
            curve.push((gigabytes, [even, best]));
        }
        let title = format!("the paper's tree, {}", trees::policy(policy));
        let x = "memory of filters, GB";
        let y = "reads per empty lookup";
        panels.push(Panel::new(title, x, y, trees::model_lines(&curve)));
    }
    let measured = measured(lab)?;
    let [even_seen, best_seen, _] = measured.each(|point| point.in_vain);
    panels.push(measured.panel("measured, leveling", "searches per empty lookup", 1.0));
    let setting = trees::setting(lab);
    let mut claims = Vec::new();
    // Monkey's trees have a little more memory than those of uniform filters: beside what these do
    // with as much, by a straight line over the logarithm.
    let [even_bits, best_bits, _] = measured.each(|point| point.bits_per_key);
    let even_curve: Vec<(f64, f64)> = even_bits.into_iter().zip(even_seen).collect();
    let pairs = best_bits.iter().zip(&best_seen);
    let pairs: Vec<(f64, f64)> = pairs
        .filter_map(|(bits, best)| Some((*best, at_bits(&even_curve, *bits)?)))
        .collect();
    let lost = pairs.iter().filter(|(best, even)| best >= even).count();
    let what =
        "Monkey searches in vain less often than uniform filters of the same memory (measured)";
    claims.push(Claim::everywhere_but(what, pairs.len(), lost));
    claims.push(trees::near_model(
        "measured searches are the model's",
        &measured.points,
    ));
    let seen = measured.table("Searches of an empty lookup, measured beside the model");
    Ok(Findings::of(setting, [table, seen], panels, claims))
}

/// A falling curve at so many bits, between its points by a straight line over the logarithm;
/// nothing outside of them.
fn at_bits(curve: &[(f64, f64)], bits: f64) -> Option<f64> {
    let around = curve
        .windows(2)
        .find(|pair| pair[0].0 <= bits && bits <= pair[1].0)?;
    let ((x0, y0), (x1, y1)) = (around[0], around[1]);
    let part = (bits - x0) / (x1 - x0);
    let [y0, y1] = [y0, y1].map(|y| y.max(1e-9).ln());
    Some((y0 + (y1 - y0) * part).exp())
}

/// A leveled tree of size ratio 4 with more and more bits per key.
fn measured(lab: &mut Lab<'_>) -> Result<Curves> {
    let many: &[f64] = &[0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0];
    let quick = &[1.0, 2.0, 4.0, 6.0];
    let bits = lab.scale.pick(&many[4..5], quick, many, many);
    let default = FullTree {
        policy: MergePolicy::Leveling,
        size_ratio: RATIO,
        levels: lab.scale.pick(2, 4, 5, 5),
        buffer_entries: 128,
        ..trees::default(lab)
    };
    let trees = bits.iter().map(|&bits_per_key| FullTree {
        bits_per_key,
        ..default
    });
    let points = trees::sweep(lab, trees::measure, trees, &trees::TWO, &trees::EMPTY)?;
    Ok(Curves::by_bits(points))
}

#[cfg(test)]
mod tests {
    use super::at_bits;

    #[test]
    fn a_curve_is_read_between_its_points_only() {
        let curve = [(1.0, 1.0), (3.0, 0.01), (4.0, 0.0)];
        assert_eq!(at_bits(&curve, 2.0).map(|y| (y * 1e6).round()), Some(1e5));
        assert_eq!(at_bits(&curve, 1.0), Some(1.0));
        assert_eq!((at_bits(&curve, 0.5), at_bits(&curve, 4.5)), (None, None));
    }
}
