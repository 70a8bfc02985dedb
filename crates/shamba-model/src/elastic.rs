//! ElasticBF's account of filter units: what they save, and when one should change hands.
//!
//! After Zhang, Li, Guo, Li, Xu, "ElasticBF: Fine-grained and Elastic Bloom Filter Towards
//! Efficient Read for LSM-tree-based KV Stores" (HotStorage 2018), and its longer form "ElasticBF:
//! Elastic Bloom filter management with locality awareness". A segment's filter is a list of
//! *units*, each a filter over all its keys, of which some are enabled. *Frequency* is a segment's
//! share of accesses, in any unit that is the same for all segments.

use crate::ModelError;

fn frequency(value: f64) -> Result<(), ModelError> {
    ModelError::check(
        value.is_finite() && value >= 0.0,
        "frequency",
        value,
        "finite and at least 0",
    )
}

fn rate(value: f64) -> Result<(), ModelError> {
    ModelError::check(
        (0.0..=1.0).contains(&value),
        "rate",
        value,
        "between 0 and 1",
    )
}

/// The reads that false positives are expected to cost: `E[extra I/O] = sum f_i r_i` over segments
/// of frequency `f_i` and false-positive rate `r_i`, in reads per access.
///
/// # Errors
/// A frequency that is negative or not finite; a rate outside 0 to 1.
pub fn expected_extra_io(
    segments: impl IntoIterator<Item = (f64, f64)>,
) -> Result<f64, ModelError> {
    segments.into_iter().try_fold(0.0, |sum, (f, r)| {
        frequency(f)?;
        rate(r)?;
        Ok(sum + f * r)
    })
}

/// A segment whose number of enabled units would change by one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The segment's access frequency.
    pub frequency: f64,
    /// Its false-positive rate now.
    pub rate: f64,
    /// Its false-positive rate with one unit more, or one less.
    pub rate_after: f64,
}

impl Change {
    /// By how much the segment's part of [`expected_extra_io`] changes, in reads per access.
    ///
    /// # Errors
    /// A frequency that is negative or not finite; a rate outside 0 to 1.
    pub fn extra_io(&self) -> Result<f64, ModelError> {
        let after = expected_extra_io([(self.frequency, self.rate_after)])?;
        Ok(after - expected_extra_io([(self.frequency, self.rate)])?)
    }
}

/// Whether moving one unit from one segment to another lowers [`expected_extra_io`]: the only
/// adjustments that ElasticBF makes ("adjust Bloom filters only when the expected number of I/Os
/// caused by false positives can be reduced").
///
/// # Errors
/// As [`Change::extra_io`].
///
/// ```
/// use shamba_model::elastic::{Change, lowers_extra_io};
/// let hot = Change { frequency: 0.9, rate: 0.1, rate_after: 0.01 };
/// let cold = Change { frequency: 0.1, rate: 0.1, rate_after: 1.0 };
/// assert!(!lowers_extra_io(&hot, &cold)?, "0.081 saved, 0.09 lost");
/// let colder = Change { frequency: 0.05, ..cold };
/// assert!(lowers_extra_io(&hot, &colder)?);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn lowers_extra_io(upgraded: &Change, downgraded: &Change) -> Result<bool, ModelError> {
    Ok(upgraded.extra_io()? + downgraded.extra_io()? < 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fpr;

    #[test]
    fn extra_io_is_the_sum() {
        let sum = expected_extra_io([(0.5, 0.1), (0.25, 0.2), (0.25, 1.0)]).unwrap();
        assert!((sum - 0.35).abs() < 1e-12);
        assert_eq!(expected_extra_io([]), Ok(0.0));
    }

    /// The slides' rationale, separability: units of `b_i` bits are one filter of their sum.
    #[test]
    fn units_are_as_good_as_one_filter_of_their_bits() {
        let unit = 0.6185f64;
        let parts = fpr::product(&[unit.powi(3), unit.powi(4), unit.powi(3)]).unwrap();
        assert!((parts - unit.powi(10)).abs() < 1e-12);
    }

    /// Brute force: whatever greedy moves do from an even split, they end no worse than they began
    /// and no single move is left that helps.
    #[test]
    fn moves_that_lower_extra_io_lower_it() {
        let frequencies = [0.6, 0.2, 0.1, 0.06, 0.04];
        let r = |units: i32| 0.15f64.powi(units);
        let total = |units: &[i32; 5]| {
            expected_extra_io(frequencies.iter().zip(units).map(|(&f, &u)| (f, r(u)))).unwrap()
        };
        let mut units = [2; 5];
        let mut cost = total(&units);
        let mut moves = 0;
        loop {
            let before = moves;
            for to in 0..5 {
                for from in 0..5 {
                    let change = |at: usize, by: i32| Change {
                        frequency: frequencies[at],
                        rate: r(units[at]),
                        rate_after: r(units[at] + by),
                    };
                    if to == from || units[from] == 0 || units[to] == 6 {
                        continue;
                    }
                    let lowers = lowers_extra_io(&change(to, 1), &change(from, -1)).unwrap();
                    let mut moved = units;
                    moved[to] += 1;
                    moved[from] -= 1;
                    assert_eq!(lowers, total(&moved) < cost, "{units:?} {from} to {to}");
                    if lowers {
                        (units, cost) = (moved, total(&moved));
                        moves += 1;
                    }
                }
            }
            if moves == before {
                break;
            }
        }
        assert!(moves > 0 && units[0] > 2 && units[4] < 2, "{units:?}");
        assert_eq!(units.iter().sum::<i32>(), 10);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(expected_extra_io([(bad, 0.5)]).is_err());
            assert!(expected_extra_io([(0.5, bad)]).is_err());
        }
        assert!(expected_extra_io([(0.5, 1.5)]).is_err());
    }
}
