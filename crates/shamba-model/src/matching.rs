//! With how many bits per key Monkey's filters do the work of uniform ones.
//!
//! After Dayan, Athanassoulis, Idreos, "Optimal Bloom Filters and Adaptive Merging for LSM-Trees"
//! (2018; Monkey), section 5, "Monkey Needs Less Main Memory": about 6 bits do the work of 10 for
//! lookups of absent keys and about 4 for those of existing ones, in a tree of nine levels (1 GiB
//! of 1 KiB entries, a buffer of 1 MiB, T = 2), read off curves of latency. In reads the paper's
//! own equations say otherwise of absent keys: uniform filters cost `L` times the rate, Monkey's
//! the factor `T^(T/(T-1))/(T-1)` (Eqs. 7 and 56), so that they are equal `ln(L / factor) / ln^2 2`
//! bits apart: 1.7 of 10 at nine levels, and four at 28. For existing keys the
//! last level needs no filter, and 4.2 bits are enough.

use crate::ModelError;
use crate::allocation::{false_positive_reads, uniform, water_filling};
use crate::curve::Curve;
use crate::tree::Tree;

/// Bits per key with which water-filling for lookups of which a share `positive` find their key
/// (all on the last level) has as few reads in vain as uniform filters of `uniform_bits` per key.
/// At most `uniform_bits`; for a tree of one level just that, unless keys need no filter there.
///
/// # Errors
/// A share outside 0 to 1; bits that are negative or not finite.
///
/// ```
/// use shamba_model::{curve::Curve, matching::bits, tree::{MergePolicy, Tree}};
/// let tree = Tree::new(MergePolicy::Leveling, 2, 9, 2f64.powi(20))?;
/// let absent = bits(&tree, 0.0, 10.0, &Curve::ideal())?;
/// let existing = bits(&tree, 1.0, 10.0, &Curve::ideal())?;
/// assert!((8.2..8.3).contains(&absent) && (4.2..4.3).contains(&existing));
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn bits(
    tree: &Tree,
    positive: f64,
    uniform_bits: f64,
    curve: &Curve,
) -> Result<f64, ModelError> {
    ModelError::not_negative("uniform_bits", uniform_bits)?;
    let runs = tree.filter_runs(positive)?;
    let stored: f64 = runs.iter().map(|run| run.entries).sum();
    let goal = false_positive_reads(&runs, &uniform(&runs, uniform_bits * stored, curve)?)?;
    let (mut few, mut enough) = (0.0, uniform_bits);
    for _ in 0..60 {
        let middle = (few + enough) / 2.0;
        let filters = water_filling(&runs, middle * stored, curve)?;
        // Equal costs of equal filters may differ in the last digits.
        if false_positive_reads(&runs, &filters)? <= goal * (1.0 + 1e-9) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    Ok(enough)
}

/// The number of levels, like those of `tree`, from which on `bits_per_key` do the work of
/// `uniform_bits`; `None` if [`crate::tree::MAX_LEVELS`] are too few. (With keys that exist, few
/// bits do in two levels too, where one needs no filter: what counts is that they go on to.)
///
/// # Errors
/// A share outside 0 to 1; bits that are negative or not finite.
pub fn levels(
    tree: &Tree,
    positive: f64,
    bits_per_key: f64,
    uniform_bits: f64,
    curve: &Curve,
) -> Result<Option<u32>, ModelError> {
    ModelError::not_negative("bits_per_key", bits_per_key)?;
    let mut enough = None;
    for levels in (2..=crate::tree::MAX_LEVELS).rev() {
        let tree = Tree::new(tree.policy(), tree.size_ratio(), levels, tree.entries())?;
        let runs = tree.filter_runs(positive)?;
        let stored: f64 = runs.iter().map(|run| run.entries).sum();
        let monkey = water_filling(&runs, bits_per_key * stored, curve)?;
        let even = uniform(&runs, uniform_bits * stored, curve)?;
        if false_positive_reads(&runs, &monkey)?
            > false_positive_reads(&runs, &even)? * (1.0 + 1e-9)
        {
            break;
        }
        enough = Some(levels);
    }
    Ok(enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::LN2_SQUARED;
    use crate::tree::MergePolicy::{self, Leveling, Tiering};

    fn tree(policy: MergePolicy, t: u32, levels: u32) -> Tree {
        Tree::new(policy, t, levels, 1e9).unwrap()
    }

    /// The paper's setting: 8.3 bits by its own equations, and 6 only with three times its levels.
    #[test]
    fn six_bits_need_more_levels_than_the_paper_had() {
        let ideal = Curve::ideal();
        let paper = tree(Leveling, 2, 9);
        // Eqs. 7 and 56, with T^(T/(T-1))/(T-1) = 4: `10 - ln(9/4) / ln^2 2`.
        let many_levels = 10.0 - (9.0f64 / 4.0).ln() / LN2_SQUARED;
        let absent = bits(&paper, 0.0, 10.0, &ideal).unwrap();
        assert!((absent - many_levels).abs() < 0.1, "{absent}");
        let existing = bits(&paper, 1.0, 10.0, &ideal).unwrap();
        assert!((existing - 4.24).abs() < 0.05, "{existing}");
        for (policy, ratio, wanted) in [
            (Leveling, 2, 28),
            (Leveling, 4, 15),
            (Tiering, 4, 15),
            (Leveling, 10, 10),
        ] {
            let like = tree(policy, ratio, 2);
            let levels = levels(&like, 0.0, 6.0, 10.0, &ideal).unwrap();
            assert_eq!(levels, Some(wanted), "{policy:?} {ratio}");
        }
        // Four bits for existing keys from twelve levels on, and in two, but not between.
        let four = levels(&tree(Leveling, 2, 2), 1.0, 4.0, 10.0, &ideal).unwrap();
        assert_eq!(four, Some(12));
        let bits_of = |levels| bits(&tree(Leveling, 2, levels), 1.0, 10.0, &ideal).unwrap();
        assert!(bits_of(2) < 4.0 && bits_of(5) > 4.4);
    }

    /// The bits found are those at which the costs meet, for real families too.
    #[test]
    fn costs_meet_at_the_bits_found() {
        let curve = crate::curve::Family::Bloom.curve().unwrap();
        for curve in [Curve::ideal(), curve] {
            for (policy, ratio, levels) in [(Leveling, 2, 12), (Tiering, 4, 5), (Leveling, 10, 3)] {
                for positive in [0.0, 0.5, 1.0] {
                    let tree = tree(policy, ratio, levels);
                    let found = bits(&tree, positive, 10.0, &curve).unwrap();
                    let runs = tree.filter_runs(positive).unwrap();
                    let stored: f64 = runs.iter().map(|run| run.entries).sum();
                    let monkey = water_filling(&runs, found * stored, &curve).unwrap();
                    let even = uniform(&runs, 10.0 * stored, &curve).unwrap();
                    let ratio = false_positive_reads(&runs, &monkey).unwrap()
                        / false_positive_reads(&runs, &even).unwrap();
                    assert!((ratio - 1.0).abs() < 1e-4, "{ratio} at {found} bits");
                }
            }
        }
        let one = tree(Leveling, 2, 1);
        let same = bits(&one, 0.0, 10.0, &Curve::ideal()).unwrap();
        assert!((same - 10.0).abs() < 1e-6, "{same}");
        assert_eq!(levels(&one, 0.0, 1.0, 30.0, &Curve::ideal()).unwrap(), None);
        assert!(bits(&one, 0.0, -1.0, &Curve::ideal()).is_err());
    }
}
