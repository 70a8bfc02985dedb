//! Monkey's equations: the filters of a tree by the lookup cost they are to reach, the lookup cost
//! by the memory they get, and the thresholds between its cases.
//!
//! After Dayan, Athanassoulis, Idreos, "Optimal Bloom Filters and Adaptive Merging for LSM-Trees"
//! (2018), Eqs. 4 to 9, 13 to 20, 30 to 37 and 53 to 56, for Bloom filters of Eq. 2. `positive` is
//! the share of point lookups that find their key, `v / (v + 1)` in the paper's terms: 0 is
//! Monkey-zero (cost `R`), 1 the cost `V` of existing keys, anything between Monkey-general (cost
//! `Z`). Costs are expected page reads per point lookup, memory is in bits.
//!
//! The paper has each equation twice, for leveling and for tiering. They are one: a level's weight
//! is the number of its runs that lookups visit in vain ([`Tree::empty_visits`]), `k` on every
//! level but the last and `l` there, and the level's rate is in proportion to entries over weight.
//! Leveling is `k = 1`, `l = 1 / (v + 1)`, tiering `k = T - 1`, `l = T - 1 - (T/2) v / (v + 1)`,
//! and lazy leveling, which the paper does not have, `k = T - 1`, `l = 1 / (v + 1)` (at `v = 0` its
//! cost is Dostoevsky's).
//!
//! Two kinds of function are here: [`rates`], [`filter_bits`] and [`uniform_cost`] are exact for
//! any number of levels; [`point_lookup_cost`], [`unfiltered_levels`] and [`threshold_bits`] are
//! the paper's closed forms, in the limit of many levels. [`crate::cost`] uses neither but
//! [`crate::allocation`], which knows other families; tests hold all of them together.
//!
//! Corrected against the paper, each with a test: the number of levels without filters at a cost
//! under leveling (Eqs. 5 and 32), Eq. 17's second case, the bound of Eq. 18's last case, the
//! factor in Eqs. 19, 38 and 39, and the exponent in Eq. 56.

use crate::ModelError;
use crate::curve::LN2_SQUARED;
use crate::tree::Tree;

/// `k` and `l` of the module's text.
fn weights(tree: &Tree, positive: f64) -> Result<(f64, f64), ModelError> {
    let last = tree.empty_visits(tree.levels(), positive)?;
    Ok((tree.runs(0), last))
}

/// What lookups read whatever the filters say: the page with the key, and one of every run that has
/// no filter among the last `unfiltered` levels.
fn unfiltered_cost(tree: &Tree, positive: f64, unfiltered: u32) -> Result<f64, ModelError> {
    let (others, last) = weights(tree, positive)?;
    Ok(match unfiltered {
        0 => positive,
        more => positive + last + f64::from(more - 1) * others,
    })
}

/// The false-positive rates of the levels, from the first to the last, that reach a point lookup
/// cost of `cost` reads with the least memory. Monkey, Eqs. 30 to 33 (`positive` 0) and Eqs. 14 to
/// 17 in their form for finite `L`: with `u` last levels without filters,
/// `p_i = (cost - unfiltered) n_i / (w_i sum n_j)`, and `u` the least for which no rate is above 1.
///
/// In the limit of many levels and for lookups of absent keys,
/// `u = max(0, ceil(cost - T/(T-1)))` under leveling; Eqs. 5 and 32 print `floor(cost - 1)`, which
/// for `T` above 2 leaves rates above 1. (Under tiering it is `max(0, ceil((cost - T)/(T-1)))`,
/// which Eqs. 6 and 33 have as `floor((cost - 1)/(T-1))`.) Eq. 17 prints, for tiering and `u` above
/// 0, `v/(v+1)` subtracted from the cost where it must be `(T/2) v/(v+1)`.
///
/// # Errors
/// A share outside 0 to 1; a cost that is not above `positive`, or above that of no filters at all.
pub fn rates(tree: &Tree, positive: f64, cost: f64) -> Result<Vec<f64>, ModelError> {
    let most = unfiltered_cost(tree, positive, tree.levels())?;
    ModelError::check(
        cost > positive && cost <= most * (1.0 + 1e-12),
        "cost",
        cost,
        "above the share of positive lookups and at most the cost without filters",
    )?;
    let runs = tree.filter_runs(positive)?;
    let mut rates = vec![1.0; runs.len()];
    for unfiltered in 0..tree.levels() {
        let filtered = (tree.levels() - unfiltered) as usize;
        let (filtered, rates) = (&runs[..filtered], &mut rates[..filtered]);
        let left = cost - unfiltered_cost(tree, positive, unfiltered)?;
        let entries: f64 = filtered.iter().map(|run| run.entries).sum();
        // A level that no lookup comes to in vain needs no filter.
        let rate = |run: &crate::allocation::Run| left * run.entries / (run.weight * entries);
        if filtered.last().is_some_and(|last| rate(last) <= 1.0) {
            for (run, to) in filtered.iter().zip(rates) {
                *to = rate(run);
            }
            break;
        }
    }
    Ok(rates)
}

/// The bits of filters with the given rates, first level to last: `-1/ln^2 2 sum n_i ln p_i`.
/// Monkey, Eq. 4.
///
/// # Errors
/// As many rates as levels are needed; a rate that is not above 0 and at most 1.
pub fn filter_bits(tree: &Tree, rates: &[f64]) -> Result<f64, ModelError> {
    let (given, needed) = (rates.len(), tree.levels() as usize);
    ModelError::check(given == needed, "rates", given as f64, "one for each level")?;
    let mut bits = 0.0;
    for (level, &rate) in (1..=tree.levels()).zip(rates) {
        let ok = rate > 0.0 && rate <= 1.0;
        ModelError::check(ok, "rate", rate, "above 0 and at most 1")?;
        bits -= tree.entries_at(level) * rate.ln() / LN2_SQUARED;
    }
    Ok(bits)
}

/// The bits below which the best allocation has no filter on the last level:
/// `N/ln^2 2 (ln T/(T-1) + ln(k/l)/T)`. Monkey, `M_threshold` of Eq. 8 (`positive` 0, where it is
/// `N/ln^2 2 lnT/(T-1)` under leveling and tiering) and `M_threshold^L` of Eq. 18. Infinite where
/// lookups never come to the last level in vain.
///
/// # Errors
/// A share outside 0 to 1.
///
/// ```
/// use shamba_model::{monkey::threshold_bits, tree::{MergePolicy, Tree}};
/// // "The value is at most 1.44 [bits per entry] when T is equal to 2" (section 4.3).
/// let tree = Tree::new(MergePolicy::Leveling, 2, 9, 1.0)?;
/// assert!((threshold_bits(&tree, 0.0)? - 1.44).abs() < 0.01);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn threshold_bits(tree: &Tree, positive: f64) -> Result<f64, ModelError> {
    let (others, last) = weights(tree, positive)?;
    let t = tree.t();
    Ok(tree.entries() / LN2_SQUARED * (t.ln() / (t - 1.0) + (others / last).ln() / t))
}

/// The last levels that have no filters when `filter_bits` bits are allocated best. Monkey, Eqs. 8
/// and 37 (`positive` 0) and Eq. 18.
///
/// Eq. 18 prints `M_threshold^(L-1) / T^L` as the bound of its third case, below which all levels
/// are without filters; it is `M_threshold^(L-1) / T^(L-1)`, as its fourth case has it: between the
/// two its third case counts `L + 1` levels.
///
/// # Errors
/// A share outside 0 to 1; a number of bits that is negative or not finite.
pub fn unfiltered_levels(tree: &Tree, positive: f64, filter_bits: f64) -> Result<u32, ModelError> {
    ModelError::not_negative("filter_bits", filter_bits)?;
    if filter_bits >= threshold_bits(tree, positive)? {
        return Ok(0);
    }
    let t = tree.t();
    let second = tree.entries() / LN2_SQUARED * t.ln() / (t - 1.0) / t;
    let more = ((second / filter_bits).ln() / t.ln() - 1e-9)
        .ceil()
        .max(0.0);
    Ok((1.0 + more).min(f64::from(tree.levels())) as u32)
}

/// The least point lookup cost in reads for `filter_bits` bits of filters, in the limit of many
/// levels. Monkey, Eq. 7 (`positive` 0), Eqs. 19 and 20, and Eq. 9 (`positive` 1):
///
/// - with filters on all levels
///   `k^(1/T) l^((T-1)/T) T^(T/(T-1))/(T-1) e^(-M/N ln^2 2) + v/(v+1)`,
/// - with none on the last `u`
///   `k T^(T/(T-1))/(T-1) e^(-M/N ln^2 2 T^u)`, and one read of each visited run of those `u`
///   levels.
///
/// Where Eqs. 19, 38, 39 and Appendix J print `T/(T-1)`, it is `T^(T/(T-1))/(T-1)`, as in Eqs. 7
/// and
/// 26. With no filter at all there is nothing left to add to the reads of all runs, which the
///     closed
/// form does not know.
///
/// # Errors
/// A share outside 0 to 1; a number of bits that is negative or not finite.
pub fn point_lookup_cost(tree: &Tree, positive: f64, filter_bits: f64) -> Result<f64, ModelError> {
    let unfiltered = unfiltered_levels(tree, positive, filter_bits)?;
    let (others, last) = weights(tree, positive)?;
    let t = tree.t();
    let weight = match unfiltered {
        0 => others.powf(1.0 / t) * last.powf((t - 1.0) / t),
        all if all == tree.levels() => 0.0,
        _ => others,
    };
    let series = t.powf(t / (t - 1.0)) / (t - 1.0);
    let exponent = filter_bits / tree.entries() * LN2_SQUARED * t.powf(f64::from(unfiltered));
    Ok(weight * series * (-exponent).exp() + unfiltered_cost(tree, positive, unfiltered)?)
}

/// The point lookup cost in reads when `filter_bits` bits are divided uniformly: every filter has
/// the rate `e^(-M/N ln^2 2 / (1 - T^-L))`. Monkey, Eqs. 53 to 55, and 13 for `positive` above 0.
///
/// Eq. 56 prints the exponent without `1 - T^-L`, for many levels: it flatters Monkey where there
/// are few, by as much as the bits that the buffer's entries do not need.
///
/// # Errors
/// A share outside 0 to 1; a number of bits that is negative or not finite.
pub fn uniform_cost(tree: &Tree, positive: f64, filter_bits: f64) -> Result<f64, ModelError> {
    ModelError::not_negative("filter_bits", filter_bits)?;
    let most = unfiltered_cost(tree, positive, tree.levels())?;
    let stored = tree.entries() * (1.0 - tree.t().powf(-f64::from(tree.levels())));
    let rate = (-filter_bits / stored * LN2_SQUARED).exp();
    Ok(positive + (most - positive) * rate)
}

#[cfg(test)]
mod tests;
