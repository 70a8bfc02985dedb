//! Dividing memory among the filters of runs of any sizes.
//!
//! A run is what has one filter: a file, a sorted run, or all runs of one size taken together. Its
//! *weight* is how often a lookup comes to it in vain: the data reads per lookup that it would cost
//! without a filter. With filters of rates `p_i` lookups read `sum w_i p_i` pages in vain (Monkey,
//! Eq. 3, for weights of 1). The least sum for a number of bits is had by [`water_filling`]; for
//! the closed form of Eq. 2 it is `p_i = min(1, c n_i / w_i)`, for any other [`Curve`] every filter
//! has the bits whose last one saves as much as the last bit of any other filter does. That saving
//! is the allocation's [`price`], and one number suffices to give a new run its bits
//! ([`bits_at_price`]) without dividing memory anew.
//!
//! Monkey's own way to allocate for runs of any sizes, Algorithms 2 to 4, moves ever smaller
//! amounts between all pairs of runs. It approaches what is computed here; as printed it also
//! returns the sum that it began with.

use crate::ModelError;
use crate::curve::{Curve, LN2_SQUARED};

/// A run, as far as its filter is concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Its entries; above 0.
    pub entries: f64,
    /// Pages that a lookup would read of it in vain if it had no filter, or anything in proportion
    /// to them, such as the *measured empty visits* of the same time for all runs. At least 0.
    pub weight: f64,
}

/// The filter of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Filter {
    /// Bits for each entry of the run; 0 for no filter.
    pub bits_per_key: f64,
    /// The false-positive rate.
    pub rate: f64,
}

fn check(runs: &[Run], bits: f64) -> Result<(), ModelError> {
    ModelError::check(!runs.is_empty(), "runs", 0.0, "at least 1")?;
    for run in runs {
        ModelError::above_zero("entries", run.entries)?;
        ModelError::not_negative("weight", run.weight)?;
    }
    ModelError::not_negative("bits", bits)
}

/// The same bits per key for every run, as stores have it by default: `bits / sum n_i`. The
/// baseline of Monkey, Eqs. 53 and 54.
///
/// # Errors
/// No runs; entries that are not above 0; a negative weight or number of bits.
pub fn uniform(runs: &[Run], bits: f64, curve: &Curve) -> Result<Vec<Filter>, ModelError> {
    check(runs, bits)?;
    let entries: f64 = runs.iter().map(|run| run.entries).sum();
    let bits_per_key = (bits / entries).min(curve.most_bits());
    let rate = curve.rate_at(bits_per_key);
    Ok(vec![Filter { bits_per_key, rate }; runs.len()])
}

/// The filters of `bits` bits together for which [`false_positive_reads`] is least. Bits are left
/// over only when every filter that is of any use has all the bits its curve knows a use for.
///
/// Solves the problem of Monkey's Appendices A and B (Eqs. 30 to 33, Algorithms 2 to 4) for runs of
/// any sizes and weights; with the visits that runs saw in vain as weights, it is the allocation by
/// measured visits.
///
/// # Errors
/// No runs; entries that are not above 0; a negative weight or number of bits.
///
/// ```
/// use shamba_model::{allocation::{Run, water_filling}, curve::Curve};
/// let run = |entries| Run { entries, weight: 1.0 };
/// let filters = water_filling(&[run(1e6), run(1e7)], 5.5e7, &Curve::ideal())?;
/// // Ten times the entries, ten times the rate.
/// assert!((filters[1].rate / filters[0].rate - 10.0).abs() < 1e-9);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn water_filling(runs: &[Run], bits: f64, curve: &Curve) -> Result<Vec<Filter>, ModelError> {
    check(runs, bits)?;
    let price = find_price(runs, bits, curve);
    let filter = |run: &Run| {
        let bits_per_key = price.bits_per_key(run, curve);
        let rate = curve.rate_at(bits_per_key);
        Filter { bits_per_key, rate }
    };
    Ok(runs.iter().map(filter).collect())
}

/// What the last bit saves in [`water_filling`], in reads per lookup per bit (or empty visits saved
/// per bit, if those are the weights): the price of a bit. When bits are left over it is one at
/// which all that is of use is bought; 0 only if no run has any weight.
///
/// # Errors
/// No runs; entries that are not above 0; a negative weight or number of bits.
pub fn price(runs: &[Run], bits: f64, curve: &Curve) -> Result<f64, ModelError> {
    check(runs, bits)?;
    Ok(find_price(runs, bits, curve).low)
}

/// The bits per key of one run when a bit has the given [`price`]: what [`water_filling`] would
/// give it if it were among the runs that the price was found for. How a compaction gives an output
/// its bits, knowing the price and the output's expected empty visits.
///
/// # Errors
/// A run outside its domain; a price that is not finite and above 0.
pub fn bits_at_price(run: &Run, price: f64, curve: &Curve) -> Result<f64, ModelError> {
    check(&[*run], 0.0)?;
    ModelError::above_zero("price", price)?;
    Ok(at_price(run, price, curve))
}

/// Pages read in vain per lookup: `sum w_i p_i`. Monkey, Eq. 3.
///
/// # Errors
/// As many filters as runs are needed; a weight that is negative; a rate outside 0 to 1.
pub fn false_positive_reads(runs: &[Run], filters: &[Filter]) -> Result<f64, ModelError> {
    let (given, needed) = (filters.len(), runs.len());
    ModelError::check(given == needed, "filters", given as f64, "one for each run")?;
    let mut sum = 0.0;
    for (run, filter) in runs.iter().zip(filters) {
        ModelError::not_negative("weight", run.weight)?;
        ModelError::share("rate", filter.rate)?;
        sum += run.weight * filter.rate;
    }
    Ok(sum)
}

/// Two prices next to each other, and how far memory reaches from the bits bought at the higher to
/// those bought at the lower. They differ only where a curve has straight segments: at the price of
/// a segment's slope any part of it is as good as any other.
struct Price {
    low: f64,
    high: f64,
    part: f64,
}

impl Price {
    fn bits_per_key(&self, run: &Run, curve: &Curve) -> f64 {
        let most = at_price(run, self.low, curve);
        if self.part >= 1.0 {
            return most;
        }
        let least = at_price(run, self.high, curve);
        least + self.part * (most - least)
    }
}

fn at_price(run: &Run, price: f64, curve: &Curve) -> f64 {
    if run.weight == 0.0 {
        0.0
    } else {
        curve.bits_at(price * run.entries / run.weight)
    }
}

fn find_price(runs: &[Run], bits: f64, curve: &Curve) -> Price {
    let exact = |price| Price {
        low: price,
        high: price,
        part: 1.0,
    };
    if curve.is_ideal() {
        return exact(ideal_price(runs, bits));
    }
    let weighted = || runs.iter().filter(|run| run.weight > 0.0);
    let demand = |price| -> f64 {
        let bits = weighted().map(|run| run.entries * at_price(run, price, curve));
        bits.sum()
    };
    // Between these all is decided: above the one nothing is bought, below the other everything.
    let worth = |slope: f64| weighted().map(move |run| slope * run.weight / run.entries);
    let mut high = worth(curve.steepest()).fold(0.0, f64::max) * (1.0 + 1e-9);
    let mut low = worth(curve.flattest()).fold(f64::INFINITY, f64::min) * (1.0 - 1e-9);
    if high == 0.0 || demand(low) <= bits {
        return exact(if high == 0.0 { 0.0 } else { low });
    }
    // A price wrong by one part in 10^9 costs one part in 10^18 of the sum, for what is bought in
    // between is worth about its price.
    while high / low > 1.0 + 1e-9 {
        let middle = (low * high).sqrt();
        if demand(middle) > bits {
            low = middle;
        } else {
            high = middle;
        }
    }
    let (least, most) = (demand(high), demand(low));
    Price {
        low,
        high,
        part: ((bits - least) / (most - least)).clamp(0.0, 1.0),
    }
}

/// `c ln^2 2` of `p_i = min(1, c n_i / w_i)`, found exactly: runs lose their filters in the order
/// of `n_i / w_i` until no rate is above 1.
fn ideal_price(runs: &[Run], bits: f64) -> f64 {
    let mut ordered: Vec<(f64, f64)> = runs
        .iter()
        .filter(|run| run.weight > 0.0)
        .map(|run| (run.entries, (run.entries / run.weight).ln()))
        .collect();
    ordered.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
    let (mut entries, mut logs, mut price) = (0.0, 0.0, 0.0);
    for (n, log) in ordered {
        // This run has a filter if its rate is below 1 beside the filters of those before it. For
        // the first alone it is, but for rounding where there are no bits.
        entries += n;
        logs += n * log;
        // sum n_i ln(c n_i / w_i) = -bits ln^2 2
        let c = (-bits * LN2_SQUARED - logs) / entries;
        if c + log > 0.0 && price > 0.0 {
            break;
        }
        price = (c.exp() * LN2_SQUARED).max(f64::MIN_POSITIVE);
    }
    price
}

#[cfg(test)]
mod tests;
