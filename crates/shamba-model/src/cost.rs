//! What a design of a tree costs in an environment under a workload.
//!
//! After Dayan, Athanassoulis, Idreos, "Optimal Bloom Filters and Adaptive Merging for LSM-Trees"
//! (2018; Monkey), sections 4.2, 4.4 and 4.5, with lazy leveling after Dayan, Idreos, "Dostoevsky"
//! (2018). All costs are expected *reads* of one page each in the worst case for the tree: it is
//! full, keys are looked up at random, existing ones are on the last level, and no update replaces
//! another before the last level. A written page counts as [`Device::write_cost`] reads.
//!
//! Lookup costs are those of the filters that the levels really get ([`filters`]), for any family's
//! curve, any memory and few levels too; with [`Curve::ideal`] and many levels they are the closed
//! forms of [`crate::monkey`].

use crate::ModelError;
use crate::allocation::{Filter, Run, false_positive_reads, uniform, water_filling};
use crate::curve::Curve;
use crate::merging;
use crate::tree::{self, MergePolicy, Tree};

/// A storage device.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Device {
    /// Bytes in a page, what one read brings.
    pub page_bytes: f64,
    /// Seconds that the read of a page takes: the paper's Omega.
    pub read_seconds: f64,
    /// What the write of a page costs, in reads of a page: the paper's phi. At least 0.
    pub write_cost: f64,
    /// What the read of a page costs a merge, which reads in long sequences, in reads of a page at
    /// random. At least 0; 1 by default, as in the paper, whose devices have no quicker way.
    #[cfg_attr(feature = "serde", serde(default = "one"))]
    pub merge_read_cost: f64,
}

#[cfg(feature = "serde")]
fn one() -> f64 {
    1.0
}

/// Data and the device they are on.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Environment {
    /// Entries in the tree, old versions and tombstones included: `N`.
    pub entries: f64,
    /// Bytes of an entry: `E`.
    pub entry_bytes: f64,
    /// The device.
    pub device: Device,
}

impl Environment {
    /// Bytes of all entries: `N E`.
    #[must_use]
    pub fn data_bytes(&self) -> f64 {
        self.entries * self.entry_bytes
    }

    /// Entries in a page: `B`. Below 1 for entries longer than a page.
    #[must_use]
    pub fn entries_per_page(&self) -> f64 {
        self.device.page_bytes / self.entry_bytes
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        ModelError::above_zero("entries", self.entries)?;
        ModelError::above_zero("entry_bytes", self.entry_bytes)?;
        ModelError::above_zero("page_bytes", self.device.page_bytes)?;
        ModelError::above_zero("read_seconds", self.device.read_seconds)?;
        ModelError::not_negative("write_cost", self.device.write_cost)?;
        ModelError::not_negative("merge_read_cost", self.device.merge_read_cost)
    }
}

/// The operations, by their shares of all operations.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Workload {
    /// Point lookups of keys that do not exist: the paper's `z / (v + 1)`.
    pub empty_lookups: f64,
    /// Point lookups of keys that exist: the paper's `z v / (v + 1)`.
    pub existing_lookups: f64,
    /// Range lookups: the paper's `q`.
    pub range_lookups: f64,
    /// Insertions, updates and deletions: the paper's `w`.
    pub updates: f64,
    /// The share of all entries that a range lookup returns: the paper's `s`.
    pub selectivity: f64,
}

impl Workload {
    /// Point lookups: the paper's `z`.
    #[must_use]
    pub fn point_lookups(&self) -> f64 {
        self.empty_lookups + self.existing_lookups
    }

    /// The share of point lookups whose key exists: the paper's `v / (v + 1)`. 0 where there are
    /// none.
    #[must_use]
    pub fn positive(&self) -> f64 {
        let lookups = self.point_lookups();
        if lookups > 0.0 {
            (self.existing_lookups / lookups).min(1.0)
        } else {
            0.0
        }
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let shares = [
            ("empty_lookups", self.empty_lookups),
            ("existing_lookups", self.existing_lookups),
            ("range_lookups", self.range_lookups),
            ("updates", self.updates),
        ];
        let mut sum = 0.0;
        for (name, share) in shares {
            ModelError::share(name, share)?;
            sum += share;
        }
        let ok = (sum - 1.0f64).abs() <= 1e-6;
        ModelError::check(ok, "the sum of the workload's shares", sum, "1")?;
        ModelError::share("selectivity", self.selectivity)
    }
}

/// How the memory for filters is divided among the levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Allocation {
    /// The same bits per key everywhere: the state of the art.
    Uniform,
    /// Least reads for lookups of absent keys, whatever the lookups are.
    MonkeyZero,
    /// Least reads for the lookups there are.
    #[default]
    Monkey,
}

/// All that may be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Design {
    /// When runs are merged.
    pub policy: MergePolicy,
    /// By how much a level is larger than the one above: `T`, from 2 to data over buffer.
    pub size_ratio: u32,
    /// Bytes of the write buffer; a page at least.
    pub buffer_bytes: f64,
    /// Bytes of all filters together.
    pub filter_bytes: f64,
    /// How they are divided.
    pub allocation: Allocation,
}

impl Design {
    /// The full tree of this design, with the levels of [`tree::levels`].
    ///
    /// # Errors
    /// An environment or a design outside its domain: a buffer below a page, a size ratio below 2
    /// or above data over buffer.
    pub fn tree(&self, environment: &Environment) -> Result<Tree, ModelError> {
        environment.check()?;
        let page = environment.device.page_bytes;
        ModelError::check(
            self.buffer_bytes.is_finite() && self.buffer_bytes >= page,
            "buffer_bytes",
            self.buffer_bytes,
            "finite and at least a page",
        )?;
        ModelError::not_negative("filter_bytes", self.filter_bytes)?;
        let data = environment.data_bytes();
        let most = tree::largest_size_ratio(data, self.buffer_bytes)?.max(2.0);
        let ratio = f64::from(self.size_ratio);
        ModelError::check(
            ratio >= 2.0 && ratio <= most * (1.0 + 1e-9),
            "size_ratio",
            ratio,
            "from 2 to the data's bytes over the buffer's",
        )?;
        let levels = tree::levels(data, self.buffer_bytes, self.size_ratio)?;
        Tree::new(self.policy, self.size_ratio, levels, environment.entries)
    }
}

/// What operations cost, in reads, and what that makes of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Costs {
    /// Levels on storage: `L`.
    pub levels: u32,
    /// The last levels that have no filters.
    pub unfiltered_levels: u32,
    /// Reads for a key that does not exist: `R`.
    pub empty_lookup: f64,
    /// Reads for a key that exists: `V`.
    pub existing_lookup: f64,
    /// Reads of a point lookup of the workload: `Z`.
    pub point_lookup: f64,
    /// Reads of a range lookup: `Q`.
    pub range_lookup: f64,
    /// Reads, and writes in reads, that an update is worth in flushes and merges: the paper's `W`,
    /// for the engine's tree ([`update`]).
    pub update: f64,
    /// Reads of an operation of the workload: the paper's theta.
    pub average: f64,
    /// Operations per second, one at a time: the paper's tau.
    pub throughput: f64,
}

/// The filters of a design's levels, from the first level to the last.
///
/// # Errors
/// A design, environment or workload outside its domain.
pub fn filters(
    design: &Design,
    environment: &Environment,
    workload: &Workload,
    curve: &Curve,
) -> Result<Vec<Filter>, ModelError> {
    workload.check()?;
    let tree = design.tree(environment)?;
    allocate(&tree, design, workload.positive(), curve)
}

fn allocate(
    tree: &Tree,
    design: &Design,
    positive: f64,
    curve: &Curve,
) -> Result<Vec<Filter>, ModelError> {
    let bits = design.filter_bytes * 8.0;
    match design.allocation {
        Allocation::Uniform => uniform(&tree.filter_runs(0.0)?, bits, curve),
        Allocation::MonkeyZero => water_filling(&tree.filter_runs(0.0)?, bits, curve),
        Allocation::Monkey => water_filling(&tree.filter_runs(positive)?, bits, curve),
    }
}

/// The costs of a design.
///
/// # Errors
/// A design, environment or workload outside its domain.
///
/// ```
/// use shamba_model::{cost::*, curve::Curve, tree::MergePolicy};
/// let environment = Environment {
///     entries: 1e9,
///     entry_bytes: 128.0,
///     device: Device {
///         page_bytes: 4096.0,
///         read_seconds: 58e-6,
///         write_cost: 1.0,
///         merge_read_cost: 1.0,
///     },
/// };
/// let workload = Workload {
///     empty_lookups: 0.25,
///     existing_lookups: 0.25,
///     range_lookups: 0.0,
///     updates: 0.5,
///     selectivity: 0.0,
/// };
/// let design = Design {
///     policy: MergePolicy::Leveling,
///     size_ratio: 10,
///     buffer_bytes: 64e6,
///     filter_bytes: 1.25e9,
///     allocation: Allocation::Uniform,
/// };
/// let before = costs(&design, &environment, &workload, &Curve::ideal())?;
/// let monkey = Design { allocation: Allocation::Monkey, ..design };
/// let after = costs(&monkey, &environment, &workload, &Curve::ideal())?;
/// assert!(after.point_lookup < before.point_lookup);
/// assert_eq!(after.update, before.update);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn costs(
    design: &Design,
    environment: &Environment,
    workload: &Workload,
    curve: &Curve,
) -> Result<Costs, ModelError> {
    workload.check()?;
    let tree = design.tree(environment)?;
    let positive = workload.positive();
    let filters = allocate(&tree, design, positive, curve)?;
    let empty_lookup = point_lookup(&tree, &filters, 0.0)?;
    let existing_lookup = point_lookup(&tree, &filters, 1.0)?;
    let point_lookup = existing_lookup * positive + empty_lookup * (1.0 - positive);
    let range_lookup = range_lookup(&tree, environment, workload.selectivity)?;
    let update = update(&tree, environment)?;
    let average = workload.point_lookups() * point_lookup
        + workload.range_lookups * range_lookup
        + workload.updates * update;
    let without = filters.iter().rev().take_while(|f| f.bits_per_key == 0.0);
    Ok(Costs {
        levels: tree.levels(),
        unfiltered_levels: without.count() as u32,
        empty_lookup,
        existing_lookup,
        point_lookup,
        range_lookup,
        update,
        average,
        throughput: (1.0 / (average * environment.device.read_seconds)).min(f64::MAX),
    })
}

/// Reads of a point lookup that finds its key with probability `positive`: the key's own page, and
/// a page of every run visited in vain whose filter errs. Monkey, Eq. 3 (`positive` 0: `R`), Eq. 9
/// (1: `V`) and Eq. 13 (`Z`).
///
/// Under tiering Eq. 9 is for a key in the oldest run; here, as in Eq. 13, it is in any run of the
/// last level.
///
/// # Errors
/// Not one filter for each level; a share outside 0 to 1.
pub fn point_lookup(tree: &Tree, filters: &[Filter], positive: f64) -> Result<f64, ModelError> {
    let runs: Vec<Run> = tree.filter_runs(positive)?;
    Ok(positive + false_positive_reads(&runs, filters)?)
}

/// Reads of a range lookup that returns a share `selectivity` of all entries: one seek for each
/// run, and `s N/B` pages. Monkey, Eq. 11.
///
/// # Errors
/// A share outside 0 to 1; an environment outside its domain.
pub fn range_lookup(
    tree: &Tree,
    environment: &Environment,
    selectivity: f64,
) -> Result<f64, ModelError> {
    environment.check()?;
    ModelError::share("selectivity", selectivity)?;
    Ok(tree.all_runs() + selectivity * environment.entries / environment.entries_per_page())
}

/// Reads, and writes in reads, that an entry takes until it is at rest on the last level: as the
/// engine writes it, [`merging::engine`]. Monkey's Eq. 10, for a tree whose buffers are merged as
/// they are flushed, is [`merging::eq_10`].
///
/// # Errors
/// An environment outside its domain.
pub fn update(tree: &Tree, environment: &Environment) -> Result<f64, ModelError> {
    merging::engine(tree).cost(environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monkey;
    use MergePolicy::{LazyLeveling, Leveling, Tiering};

    /// Figure 7 of Monkey: 2^35 entries of 16 bytes, T = 4, a buffer of 2 MiB; 4 KiB pages.
    fn figure_7() -> Environment {
        Environment {
            entries: 2f64.powi(35),
            entry_bytes: 16.0,
            device: Device {
                page_bytes: 4096.0,
                read_seconds: 1e-4,
                write_cost: 2.0,
                merge_read_cost: 1.0,
            },
        }
    }

    fn workload(empty: f64, existing: f64, range: f64, updates: f64) -> Workload {
        Workload {
            empty_lookups: empty,
            existing_lookups: existing,
            range_lookups: range,
            updates,
            selectivity: 1e-9,
        }
    }

    fn design(policy: MergePolicy, bits_per_key: f64) -> Design {
        Design {
            policy,
            size_ratio: 4,
            buffer_bytes: 2f64.powi(21),
            filter_bytes: bits_per_key / 8.0 * figure_7().entries,
            allocation: Allocation::Monkey,
        }
    }

    fn close(got: f64, want: f64, tolerance: f64) {
        let off = (got / want - 1.0).abs();
        assert!(off <= tolerance, "got {got}, want {want}");
    }

    /// Costs by filters are the closed forms, above the threshold and below it.
    #[test]
    fn costs_are_those_of_the_equations() {
        let environment = figure_7();
        for policy in MergePolicy::ALL {
            for bits_per_key in [0.3, 0.9, 5.0, 10.0] {
                let design = design(policy, bits_per_key);
                let tree = design.tree(&environment).unwrap();
                assert_eq!(tree.levels(), 9);
                let bits = design.filter_bytes * 8.0;
                for existing in [0.0, 0.4, 0.8] {
                    let workload = workload(0.8 - existing, existing, 0.1, 0.1);
                    let positive = existing / 0.8;
                    let ideal = Curve::ideal();
                    let costs = costs(&design, &environment, &workload, &ideal).unwrap();
                    let closed = monkey::point_lookup_cost(&tree, positive, bits).unwrap();
                    close(costs.point_lookup, closed, 0.01);
                    let unfiltered = monkey::unfiltered_levels(&tree, positive, bits).unwrap();
                    assert_eq!(costs.unfiltered_levels, unfiltered);
                    let uniform = Design {
                        allocation: Allocation::Uniform,
                        ..design
                    };
                    let even = super::costs(&uniform, &environment, &workload, &ideal).unwrap();
                    let closed = monkey::uniform_cost(&tree, positive, bits).unwrap();
                    close(even.point_lookup, closed, 1e-9);
                    let theta =
                        0.8 * costs.point_lookup + 0.1 * costs.range_lookup + 0.1 * costs.update;
                    close(costs.average, theta, 1e-12);
                    close(costs.throughput, 1.0 / (theta * 1e-4), 1e-12);
                }
            }
        }
    }

    /// Eqs. 10 and 11, with 256 entries in a page: L = 9, T = 4, phi = 2.
    #[test]
    fn updates_and_ranges() {
        let environment = figure_7();
        let of = |policy| {
            let tree = design(policy, 1.0).tree(&environment).unwrap();
            let paper = merging::eq_10(&tree).cost(&environment).unwrap();
            (paper, range_lookup(&tree, &environment, 1e-9).unwrap())
        };
        let scanned = 1e-9 * 2f64.powi(35) / 256.0;
        let want = |merges: f64, runs: f64| (merges * 3.0 / 256.0, runs + scanned);
        assert_eq!(of(Leveling), want(9.0 * 1.5, 9.0));
        assert_eq!(of(Tiering), want(9.0 * 0.75, 27.0));
        assert_eq!(of(LazyLeveling), want(8.0 * 0.75 + 1.5, 25.0));
        // A flush reads nothing; here a quarter of the runs of level 0 are moved on.
        let engine = |policy| {
            let tree = design(policy, 1.0).tree(&environment).unwrap();
            update(&tree, &environment).unwrap() * 256.0
        };
        close(engine(Leveling), 2.0 + (9.0 * 1.5 - 0.25) * 3.0, 1e-4);
        close(engine(Tiering), 2.0 + (8.0 - 1.0 / 3.0) * 3.0, 1e-4);
    }

    /// "When T is set to 2, tiering and leveling behave identically" (section 4.2): in all that is
    /// read. (In writes they do in the paper's tree, not in the engine's.)
    #[test]
    fn at_ratio_two_policies_read_alike() {
        let all = MergePolicy::ALL.map(|policy| {
            let design = Design {
                size_ratio: 2,
                ..design(policy, 3.0)
            };
            let workload = workload(0.3, 0.5, 0.2, 0.0);
            let costs = costs(&design, &figure_7(), &workload, &Curve::ideal());
            Costs {
                update: 0.0,
                ..costs.unwrap()
            }
        });
        assert!(all[0] == all[1] && all[1] == all[2]);
    }

    /// Monkey-zero takes no notice of existing keys, Monkey-general does; both read no more than
    /// uniform filters. For existing keys alone the last level gets no filter.
    #[test]
    fn allocations_differ_where_keys_exist() {
        let cost = |allocation, existing| {
            let design = Design {
                allocation,
                ..design(Leveling, 4.0)
            };
            let workload = workload(1.0 - existing, existing, 0.0, 0.0);
            costs(&design, &figure_7(), &workload, &Curve::ideal()).unwrap()
        };
        for existing in [0.0, 0.5, 1.0] {
            let [even, zero, general] = [
                Allocation::Uniform,
                Allocation::MonkeyZero,
                Allocation::Monkey,
            ]
            .map(|allocation| cost(allocation, existing).point_lookup);
            assert!(general <= zero && zero < even);
            assert_eq!(general < zero, existing > 0.0);
        }
        assert_eq!(cost(Allocation::Monkey, 1.0).unfiltered_levels, 1);
        assert_eq!(cost(Allocation::MonkeyZero, 1.0).unfiltered_levels, 0);
    }

    /// "Monkey removes this contention" (section 4.3, Figure 9): the buffer's size changes lookups
    /// by less than 1 %, while those with uniform filters fall with every level less.
    #[test]
    fn lookups_do_not_depend_on_the_buffer() {
        let cost = |allocation, doublings| {
            let design = Design {
                allocation,
                buffer_bytes: 2f64.powi(16 + doublings),
                ..design(Leveling, 5.0)
            };
            let workload = workload(1.0, 0.0, 0.0, 0.0);
            let costs = costs(&design, &figure_7(), &workload, &Curve::ideal());
            costs.unwrap().empty_lookup
        };
        for doublings in [2, 4, 8, 12] {
            close(
                cost(Allocation::Monkey, doublings),
                cost(Allocation::Monkey, 0),
                0.01,
            );
        }
        let fall = cost(Allocation::Uniform, 0) / cost(Allocation::Uniform, 12);
        assert!(fall > 1.8, "{fall}");
    }

    #[test]
    fn designs_are_read_and_written_as_json() {
        let design = design(LazyLeveling, 3.0);
        let text = serde_json::to_string(&design).unwrap();
        assert!(text.contains(r#""policy":"lazy-leveling""#), "{text}");
        assert!(text.contains(r#""allocation":"monkey""#), "{text}");
        assert_eq!(serde_json::from_str::<Design>(&text).unwrap(), design);
        let text = serde_json::to_string(&figure_7()).unwrap();
        let back: Environment = serde_json::from_str(&text).unwrap();
        assert_eq!(back, figure_7());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |change: fn(&mut Design, &mut Environment, &mut Workload)| {
            let (mut design, mut environment) = (design(Leveling, 3.0), figure_7());
            let mut workload = workload(0.25, 0.25, 0.25, 0.25);
            change(&mut design, &mut environment, &mut workload);
            costs(&design, &environment, &workload, &Curve::ideal())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(|_, e, _| e.entries = 0.0),
            "entries is 0, but must be finite and above 0"
        );
        assert_eq!(
            refused(|_, _, w| w.updates = 0.1),
            "the sum of the workload's shares is 0.85, but must be 1"
        );
        assert_eq!(
            refused(|d, _, _| d.buffer_bytes = 4095.0),
            "buffer_bytes is 4095, but must be finite and at least a page"
        );
        assert_eq!(
            refused(|d, _, _| d.size_ratio = 1),
            "size_ratio is 1, but must be from 2 to the data's bytes over the buffer's"
        );
        assert!(refused(|d, _, _| d.size_ratio = 1 << 19).starts_with("size_ratio"));
        assert!(refused(|d, _, _| d.filter_bytes = -1.0).starts_with("filter_bytes"));
        assert!(refused(|_, e, _| e.entry_bytes = f64::NAN).starts_with("entry_bytes"));
        assert!(refused(|_, e, _| e.device.page_bytes = 0.0).starts_with("page_bytes"));
        assert!(refused(|_, e, _| e.device.read_seconds = 0.0).starts_with("read_seconds"));
        assert!(refused(|_, e, _| e.device.write_cost = -1.0).starts_with("write_cost"));
        let merges = refused(|_, e, _| e.device.merge_read_cost = f64::NAN);
        assert!(merges.starts_with("merge_read_cost"));
        assert!(refused(|_, _, w| w.selectivity = 2.0).starts_with("selectivity"));
        assert!(refused(|_, _, w| w.updates = -0.25).starts_with("updates"));
    }
}
