//! The least that operations can cost under any design, with memory that keeps pages: what a tuner
//! can be held against. Pure.
//!
//! [`crate::search`] is no such bound. It looks for the best full tree, but knows no cache of data
//! pages: with one, small levels cost lookups and scans next to nothing, whatever the design, and
//! less is left to gain. This bound knows nothing of trees: entries lie somewhere in pages, memory
//! holds a part of them, and what is written is written once.

use crate::ModelError;
use crate::cost::{Environment, Workload};

/// Reads of a page that an operation takes at least, on average, where keys are drawn alike and
/// `memory_bytes` is all the memory there is.
///
/// At most a share `c = memory / (N E)` of the entries is in memory, so that an existing key is
/// read with probability `1 - c`. A range of `r = s N` entries lies in `1 + (r - 1) / B` pages at
/// least, were they all of one run, of which as many are in memory. An update is written once:
/// `phi / B`. Lookups of keys that do not exist may cost nothing. This project's own bound.
///
/// # Errors
/// An environment or workload outside its domain; memory that is not finite and at least 0.
///
/// ```
/// use shamba_model::{bound::least_cost, cost::*};
/// let environment = Environment {
///     entries: 1e6,
///     entry_bytes: 64.0,
///     device: Device {
///         page_bytes: 4096.0,
///         read_seconds: 1e-4,
///         write_cost: 0.5,
///         merge_read_cost: 1.0,
///     },
/// };
/// let workload = Workload {
///     empty_lookups: 0.0,
///     existing_lookups: 0.5,
///     range_lookups: 0.0,
///     updates: 0.5,
///     selectivity: 0.0,
/// };
/// let half = least_cost(&environment, &workload, 32e6)?;
/// assert!((half - (0.5 * 0.5 + 0.5 * 0.5 / 64.0)).abs() < 1e-12);
/// # Ok::<(), shamba_model::ModelError>(())
/// ```
pub fn least_cost(
    environment: &Environment,
    workload: &Workload,
    memory_bytes: f64,
) -> Result<f64, ModelError> {
    environment.check()?;
    workload.check()?;
    ModelError::not_negative("memory_bytes", memory_bytes)?;
    let per_page = environment.entries_per_page();
    let absent = (1.0 - memory_bytes / environment.data_bytes()).max(0.0);
    let range = (workload.selectivity * environment.entries).max(1.0);
    let range_pages = 1.0 + (range - 1.0) / per_page;
    let read = workload.existing_lookups + workload.range_lookups * range_pages;
    Ok(absent * read + workload.updates * environment.device.write_cost / per_page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{self, Allocation, Design, Device};
    use crate::curve::Curve;
    use crate::tree::MergePolicy;

    const ENVIRONMENT: Environment = Environment {
        entries: 1e6,
        entry_bytes: 64.0,
        device: Device {
            page_bytes: 4096.0,
            read_seconds: 1e-4,
            write_cost: 0.1,
            merge_read_cost: 0.2,
        },
    };

    fn workload(existing: f64, ranges: f64) -> Workload {
        Workload {
            empty_lookups: 0.0,
            existing_lookups: existing,
            range_lookups: ranges,
            updates: 1.0 - existing - ranges,
            selectivity: 16.0 / 1e6,
        }
    }

    /// Without a cache no full tree of the cost model comes below it.
    #[test]
    fn no_design_costs_less() {
        for (existing, ranges) in [(0.1, 0.0), (0.9, 0.0), (0.0, 0.1), (0.0, 0.9), (0.3, 0.3)] {
            let workload = workload(existing, ranges);
            let least = least_cost(&ENVIRONMENT, &workload, 0.0).unwrap();
            for policy in MergePolicy::ALL {
                for size_ratio in [2, 4, 10, 60] {
                    let design = Design {
                        policy,
                        size_ratio,
                        buffer_bytes: 1e6,
                        filter_bytes: 2e6,
                        allocation: Allocation::Monkey,
                    };
                    let costs =
                        cost::costs(&design, &ENVIRONMENT, &workload, &Curve::ideal()).unwrap();
                    assert!(
                        costs.average >= least,
                        "{policy:?} {size_ratio} {workload:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn memory_for_all_leaves_the_writes() {
        let cost = |memory| least_cost(&ENVIRONMENT, &workload(0.0, 0.5), memory).unwrap();
        assert!((cost(64e6) - 0.5 * 0.1 / 64.0).abs() < 1e-12);
        assert_eq!(cost(1e12), cost(64e6));
        // 16 entries of which a page holds 64.
        let reads = cost(0.0) - cost(64e6);
        assert!((reads - 0.5 * (1.0 + 15.0 / 64.0)).abs() < 1e-9, "{reads}");
        assert!(least_cost(&ENVIRONMENT, &workload(0.0, 0.5), f64::NAN).is_err());
    }
}
