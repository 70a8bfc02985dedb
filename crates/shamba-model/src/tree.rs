//! The shape of a tree: merge policy, size ratio, levels, and what is in each.
//!
//! After Dayan, Athanassoulis, Idreos, "Optimal Bloom Filters and Adaptive Merging for LSM-Trees"
//! (2018; Monkey), section 2, and for lazy leveling Dayan, Idreos, "Dostoevsky" (2018). Level 0 is
//! the write buffer, level 1 the first on storage, and the last holds most of the data. All bytes
//! and entries are worst cases: a full tree.

use crate::ModelError;
use crate::allocation::Run;

/// When runs are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum MergePolicy {
    /// One run a level; what arrives is merged with it at once.
    Leveling,
    /// Up to `T - 1` runs a level, merged when the `T`th arrives.
    Tiering,
    /// Tiering, with a last level of one run.
    LazyLeveling,
}

impl MergePolicy {
    /// All of them.
    pub const ALL: [MergePolicy; 3] = [
        MergePolicy::Leveling,
        MergePolicy::Tiering,
        MergePolicy::LazyLeveling,
    ];

    /// The most runs on a level above the last, and on the last.
    fn runs(self, size_ratio: u32) -> (f64, f64) {
        let tiered = f64::from(size_ratio) - 1.0;
        match self {
            MergePolicy::Leveling => (1.0, 1.0),
            MergePolicy::Tiering => (tiered, tiered),
            MergePolicy::LazyLeveling => (tiered, 1.0),
        }
    }
}

/// A full tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tree {
    policy: MergePolicy,
    size_ratio: u32,
    levels: u32,
    entries: f64,
}

/// The most levels a tree may have: more than any data needs.
pub const MAX_LEVELS: u32 = 64;

impl Tree {
    /// A tree of `entries` entries, old versions and tombstones included.
    ///
    /// # Errors
    /// A size ratio below 2; levels outside 1 to 64; entries that are not finite and above 0.
    pub fn new(
        policy: MergePolicy,
        size_ratio: u32,
        levels: u32,
        entries: f64,
    ) -> Result<Self, ModelError> {
        check_ratio(size_ratio)?;
        ModelError::check(
            (1..=MAX_LEVELS).contains(&levels),
            "levels",
            f64::from(levels),
            "between 1 and 64",
        )?;
        ModelError::above_zero("entries", entries)?;
        Ok(Tree {
            policy,
            size_ratio,
            levels,
            entries,
        })
    }

    /// The merge policy.
    #[must_use]
    pub fn policy(&self) -> MergePolicy {
        self.policy
    }

    /// The size ratio `T`.
    #[must_use]
    pub fn size_ratio(&self) -> u32 {
        self.size_ratio
    }

    /// The levels on storage, `L`.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// The entries of all levels and the buffer, `N`.
    #[must_use]
    pub fn entries(&self) -> f64 {
        self.entries
    }

    /// `T` as a real number.
    pub(crate) fn t(&self) -> f64 {
        f64::from(self.size_ratio)
    }

    /// The most runs on `level` (1 is the first): one, or `T - 1` where runs are tiered.
    #[must_use]
    pub fn runs(&self, level: u32) -> f64 {
        let (smaller, last) = self.policy.runs(self.size_ratio);
        if level < self.levels { smaller } else { last }
    }

    /// The most runs of all levels together: the seeks of a range lookup.
    #[must_use]
    pub fn all_runs(&self) -> f64 {
        f64::from(self.levels - 1) * self.runs(0) + self.runs(self.levels)
    }

    /// The most entries on `level`, in all its runs: `N (T-1)/T / T^(L-i)`. Monkey, section 4.1,
    /// above Eq. 4.
    #[must_use]
    pub fn entries_at(&self, level: u32) -> f64 {
        let below = f64::from(self.levels) - f64::from(level);
        self.entries * (1.0 - 1.0 / self.t()) / self.t().powf(below)
    }

    /// The runs of `level` that a point lookup comes to without finding its key there, if no filter
    /// holds it back and a share `positive` of lookups find their key, all on the last level: `k`
    /// runs on every level but the last; there `k - positive (k + 1) / 2`, since a lookup that
    /// finds its key goes through half the runs on average. The coefficients of the rates in
    /// Monkey, Eq. 13, where `positive` is `v / (v + 1)`.
    ///
    /// # Errors
    /// A share outside 0 to 1.
    pub fn empty_visits(&self, level: u32, positive: f64) -> Result<f64, ModelError> {
        ModelError::share("positive", positive)?;
        let runs = self.runs(level);
        let found = if level < self.levels { 0.0 } else { positive };
        Ok(runs - found * (runs + 1.0) / 2.0)
    }

    /// The levels from the first to the last, as runs to allocate filters to: the runs of a level
    /// are of one size and get the same filters, so that they count as one with the entries and the
    /// [`Self::empty_visits`] of them all.
    ///
    /// # Errors
    /// A share outside 0 to 1.
    pub fn filter_runs(&self, positive: f64) -> Result<Vec<Run>, ModelError> {
        let run = |level| {
            Ok(Run {
                entries: self.entries_at(level),
                weight: self.empty_visits(level, positive)?,
            })
        };
        (1..=self.levels).map(run).collect()
    }
}

fn check_ratio(size_ratio: u32) -> Result<(), ModelError> {
    let ratio = f64::from(size_ratio);
    ModelError::check(size_ratio >= 2, "size_ratio", ratio, "at least 2")
}

/// The capacity in bytes of a level of a tree: `buffer_bytes * size_ratio^level`, where level 0 is
/// the write buffer itself and level 1 the first on storage (Monkey, section 2, equation for the
/// capacity of a level). Saturates at `u64::MAX`.
///
/// # Errors
/// `buffer_bytes` of 0, or a `size_ratio` below 2.
pub fn level_capacity(buffer_bytes: u64, size_ratio: u32, level: u32) -> Result<u64, ModelError> {
    ModelError::check(
        buffer_bytes > 0,
        "buffer_bytes",
        buffer_bytes as f64,
        "at least 1",
    )?;
    check_ratio(size_ratio)?;
    Ok(buffer_bytes.saturating_mul(u64::from(size_ratio).saturating_pow(level)))
}

/// Rounding must not add a level to a tree that its data fill exactly.
const SLACK: f64 = 1e-9;

fn check_bytes(data_bytes: f64, buffer_bytes: f64) -> Result<(), ModelError> {
    ModelError::above_zero("data_bytes", data_bytes)?;
    ModelError::above_zero("buffer_bytes", buffer_bytes)
}

/// The levels that `data_bytes` bytes fill under a buffer of `buffer_bytes`:
/// `ceil(log_T(data / buffer * (T-1)/T))`, and 1 at least. Monkey, Eq. 1.
///
/// # Errors
/// Bytes that are not finite and above 0; a size ratio below 2; more than [`MAX_LEVELS`] levels.
///
/// ```
/// // Figure 7 of Monkey: 512 GiB, a buffer of 2 MiB, size ratio 4.
/// assert_eq!(shamba_model::tree::levels(2f64.powi(39), 2f64.powi(21), 4)?, 9);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn levels(data_bytes: f64, buffer_bytes: f64, size_ratio: u32) -> Result<u32, ModelError> {
    check_bytes(data_bytes, buffer_bytes)?;
    check_ratio(size_ratio)?;
    let t = f64::from(size_ratio);
    let levels = (data_bytes / buffer_bytes * (1.0 - 1.0 / t)).ln() / t.ln();
    let levels = (levels - SLACK).ceil().max(1.0);
    let most = f64::from(MAX_LEVELS);
    ModelError::check(levels <= most, "levels", levels, "at most 64")?;
    Ok(levels as u32)
}

/// The least buffer, in bytes, under which `data_bytes` fill no more than `levels` levels:
/// `data (T-1) / T^(L+1)`. Monkey, Eq. 1, for the buffer.
///
/// # Errors
/// Data that are not finite and above 0; a size ratio below 2.
pub fn buffer_for(data_bytes: f64, size_ratio: u32, levels: u32) -> Result<f64, ModelError> {
    ModelError::above_zero("data_bytes", data_bytes)?;
    check_ratio(size_ratio)?;
    let t = f64::from(size_ratio);
    Ok(data_bytes * (1.0 - 1.0 / t) / t.powf(f64::from(levels)))
}

/// The least size ratio, a real number of at least 2, with which `data_bytes` fill no more than
/// `levels` levels: `T = (data / buffer * (T-1)/T)^(1/L)`. Monkey, Eq. 1, for the ratio.
///
/// Algorithm 1 as printed tries `N^(1/L)` instead, which knows nothing of the buffer, and so gives
/// trees of other numbers of levels.
///
/// # Errors
/// Bytes that are not finite and above 0; no levels.
pub fn size_ratio_for(data_bytes: f64, buffer_bytes: f64, levels: u32) -> Result<f64, ModelError> {
    check_bytes(data_bytes, buffer_bytes)?;
    let levels = f64::from(levels);
    ModelError::check(levels >= 1.0, "levels", levels, "at least 1")?;
    let target = (data_bytes / buffer_bytes).ln();
    // Rises with T from 2 on: T^(L+1) / (T-1).
    let data = |t: f64| (levels + 1.0) * t.ln() - (t - 1.0).ln();
    let (mut low, mut high) = (2.0, 2.0);
    if data(low) >= target {
        return Ok(low);
    }
    while data(high) < target {
        high *= 2.0;
    }
    while high - low > 1e-13 * high {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if data(middle) < target {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(high)
}

/// The largest size ratio of use: data over buffer, with which a tree has one level and is a log
/// under tiering, a sorted array under leveling. Monkey, section 2, `T_lim`.
///
/// # Errors
/// Bytes that are not finite and above 0.
pub fn largest_size_ratio(data_bytes: f64, buffer_bytes: f64) -> Result<f64, ModelError> {
    check_bytes(data_bytes, buffer_bytes)?;
    Ok(data_bytes / buffer_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use MergePolicy::{LazyLeveling, Leveling, Tiering};

    #[test]
    fn levels_grow_by_the_ratio() {
        assert_eq!(level_capacity(4 << 20, 4, 0), Ok(4 << 20));
        assert_eq!(level_capacity(4 << 20, 4, 3), Ok(256 << 20));
        assert_eq!(level_capacity(1, 10, 40), Ok(u64::MAX));
        assert!(level_capacity(0, 4, 1).is_err());
        assert!(level_capacity(1, 1, 1).is_err());
    }

    /// The levels hold the data but for a part `T^-L` of them, the buffer's; the last holds
    /// `(T-1)/T` of them, each other a `T`th of the next.
    #[test]
    fn levels_hold_the_data() {
        for (t, levels) in [(2, 12), (4, 5), (10, 3), (1000, 1)] {
            let tree = Tree::new(Tiering, t, levels, 1e9).unwrap();
            let sum: f64 = (1..=levels).map(|level| tree.entries_at(level)).sum();
            let left = f64::from(t).powf(-f64::from(levels));
            assert!((sum / 1e9 - (1.0 - left)).abs() < 1e-12);
            for level in 1..levels {
                let ratio = tree.entries_at(level + 1) / tree.entries_at(level);
                assert!((ratio - f64::from(t)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn runs_are_those_of_the_policy() {
        let runs = |policy| {
            let tree = Tree::new(policy, 5, 3, 1e6).unwrap();
            let levels = [1, 2, 3].map(|level| tree.runs(level));
            (levels, tree.all_runs())
        };
        assert_eq!(runs(Leveling), ([1.0, 1.0, 1.0], 3.0));
        assert_eq!(runs(Tiering), ([4.0, 4.0, 4.0], 12.0));
        assert_eq!(runs(LazyLeveling), ([4.0, 4.0, 1.0], 9.0));
        // At size ratio 2 all policies are one.
        let visits = MergePolicy::ALL.map(|policy| {
            let tree = Tree::new(policy, 2, 7, 1e6).unwrap();
            tree.filter_runs(0.3).unwrap()
        });
        assert!(visits[0] == visits[1] && visits[1] == visits[2]);
    }

    /// The last level's coefficient in Monkey, Eq. 13: `1/(v+1)` under leveling, and under tiering
    /// `T - 1 - (T/2) v/(v+1)`.
    #[test]
    fn visits_in_vain_are_the_papers_coefficients() {
        for v in [0.0f64, 0.5, 4.0] {
            let positive = v / (v + 1.0);
            let leveled = Tree::new(Leveling, 6, 4, 1e6).unwrap();
            let tiered = Tree::new(Tiering, 6, 4, 1e6).unwrap();
            let last = |tree: Tree| tree.empty_visits(4, positive).unwrap();
            assert!((last(leveled) - 1.0 / (v + 1.0)).abs() < 1e-12);
            assert!((last(tiered) - (5.0 - 3.0 * positive)).abs() < 1e-12);
            assert_eq!(tiered.empty_visits(3, positive), Ok(5.0));
        }
    }

    /// The three forms of Eq. 1 agree.
    #[test]
    fn eq_1_solved_for_each_of_its_terms() {
        let data = 3.7e11;
        for t in [2, 3, 10, 77] {
            for levels in 1..=9 {
                let buffer = buffer_for(data, t, levels).unwrap();
                assert_eq!(super::levels(data, buffer, t), Ok(levels));
                assert_eq!(super::levels(data, buffer * 0.999, t), Ok(levels + 1));
                let ratio = size_ratio_for(data, buffer, levels).unwrap();
                assert!((ratio / f64::from(t) - 1.0).abs() < 1e-6, "{ratio} for {t}");
            }
        }
        // Data that fit the buffer still are a level some day.
        assert_eq!(super::levels(1.0, 100.0, 4), Ok(1));
        assert_eq!(size_ratio_for(100.0, 100.0, 1), Ok(2.0));
    }

    /// Correction: Algorithm 1 prints `T = N^(1/L)`. For 2^30 entries of 64 bytes under a buffer of
    /// 4 MiB and L = 3 that is 1024, with which the data fill two levels; Eq. 1 says 25.
    #[test]
    fn the_size_ratio_for_levels_knows_the_buffer() {
        let (entries, buffer) = (2f64.powi(30), 2f64.powi(22));
        let data = entries * 64.0;
        for levels in 2..=7 {
            let ratio = size_ratio_for(data, buffer, levels).unwrap().ceil() as u32;
            assert_eq!(super::levels(data, buffer, ratio), Ok(levels));
            assert!(super::levels(data, buffer, ratio - 1).unwrap() > levels);
            let printed = entries.powf(1.0 / f64::from(levels)).ceil() as u32;
            assert!(super::levels(data, buffer, printed).unwrap() < levels);
        }
        assert_eq!(size_ratio_for(data, buffer, 3).unwrap().round(), 25.0);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Tree::new(Leveling, 1, 3, 1.0).is_err());
        assert!(Tree::new(Leveling, 2, 0, 1.0).is_err());
        assert!(Tree::new(Leveling, 2, 65, 1.0).is_err());
        assert!(Tree::new(Leveling, 2, 3, 0.0).is_err());
        let tree = Tree::new(Leveling, 2, 3, 1.0).unwrap();
        assert!(tree.filter_runs(1.5).is_err());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(levels(bad, 1.0, 2).is_err());
            assert!(levels(1.0, bad, 2).is_err());
            assert!(buffer_for(bad, 2, 1).is_err());
            assert!(size_ratio_for(bad, 1.0, 1).is_err());
            assert!(largest_size_ratio(1.0, bad).is_err());
        }
        assert!(levels(1.0, 1.0, 1).is_err());
        assert!(levels(1e300, 1.0, 2).is_err());
        assert!(size_ratio_for(1.0, 1.0, 0).is_err());
    }
}
