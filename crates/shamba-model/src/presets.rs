//! The default designs of mainstream stores, to be set beside what the search finds.
//!
//! Table 4 of Dayan, Athanassoulis, Idreos, "Optimal Bloom Filters and Adaptive Merging for
//! LSM-Trees" (2018; Monkey), explained in its Appendix K: values of that time, as printed, in the
//! paper's terms. All allocate filters uniformly.

use crate::ModelError;
use crate::cost::{Allocation, Design, Environment};
use crate::tree::MergePolicy;

/// A store's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Preset {
    /// The store.
    pub name: &'static str,
    /// When runs are merged.
    pub policy: MergePolicy,
    /// The size ratio.
    pub size_ratio: u32,
    /// Filter bits per entry.
    pub bits_per_key: f64,
    /// Bytes of the write buffer; `None` where the table gives none (Cassandra's grows with the
    /// heap).
    pub buffer_bytes: Option<f64>,
}

const MIB: f64 = 1024.0 * 1024.0;

/// LevelDB, RocksDB, Cassandra, HBase and Accumulo, in the table's order.
pub const ALL: [Preset; 5] = [
    Preset {
        name: "LevelDB",
        policy: MergePolicy::Leveling,
        size_ratio: 10,
        bits_per_key: 10.0,
        buffer_bytes: Some(2.0 * MIB),
    },
    Preset {
        name: "RocksDB",
        policy: MergePolicy::Leveling,
        size_ratio: 10,
        bits_per_key: 10.0,
        buffer_bytes: Some(64.0 * MIB),
    },
    Preset {
        name: "Cassandra",
        policy: MergePolicy::Tiering,
        size_ratio: 4,
        bits_per_key: 10.0,
        buffer_bytes: None,
    },
    Preset {
        name: "HBase",
        policy: MergePolicy::Leveling,
        size_ratio: 2,
        bits_per_key: 10.0,
        buffer_bytes: Some(128.0 * MIB),
    },
    Preset {
        name: "Accumulo",
        policy: MergePolicy::Leveling,
        size_ratio: 4,
        bits_per_key: 11.0,
        buffer_bytes: Some(1024.0 * MIB),
    },
];

impl Preset {
    /// The store's design for an environment: its own, with filters for all entries, and
    /// `other_buffer` bytes of buffer where it has none of its own.
    ///
    /// # Errors
    /// An environment outside its domain; data so small that the size ratio is above data over
    /// buffer; a buffer below a page.
    pub fn design(
        &self,
        environment: &Environment,
        other_buffer: f64,
    ) -> Result<Design, ModelError> {
        let design = Design {
            policy: self.policy,
            size_ratio: self.size_ratio,
            buffer_bytes: self.buffer_bytes.unwrap_or(other_buffer),
            filter_bytes: self.bits_per_key / 8.0 * environment.entries,
            allocation: Allocation::Uniform,
        };
        design.tree(environment)?;
        Ok(design)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Device, Workload, costs};
    use crate::curve::Curve;
    use crate::search::{Bounds, Knobs, Request, search};

    /// Figure 1: none of them is on the curve that can be reached with its own memory.
    #[test]
    fn defaults_are_not_the_best_use_of_their_memory() {
        let environment = Environment {
            entries: 1e9,
            entry_bytes: 128.0,
            device: Device {
                page_bytes: 4096.0,
                read_seconds: 1e-4,
                write_cost: 1.0,
                merge_read_cost: 1.0,
            },
        };
        let workload = Workload {
            empty_lookups: 0.5,
            existing_lookups: 0.0,
            range_lookups: 0.0,
            updates: 0.5,
            selectivity: 0.0,
        };
        let ideal = Curve::ideal();
        for preset in ALL {
            let design = preset.design(&environment, 32.0 * MIB).unwrap();
            assert_eq!(design.allocation, Allocation::Uniform);
            let own = costs(&design, &environment, &workload, &ideal).unwrap();
            let request = Request {
                environment,
                workload,
                memory_bytes: design.buffer_bytes + design.filter_bytes,
                knobs: Knobs::default(),
                bounds: Bounds {
                    point_lookup: Some(own.point_lookup),
                    update: Some(own.update),
                },
            };
            let found = search(&request, &ideal).unwrap();
            let gain = own.average / found.costs.average;
            assert!(gain > 1.1, "{}: {gain}", preset.name);
        }
    }

    #[test]
    fn data_too_small_for_a_preset_are_refused() {
        let environment = Environment {
            entries: 1e5,
            entry_bytes: 100.0,
            device: Device {
                page_bytes: 4096.0,
                read_seconds: 1e-4,
                write_cost: 1.0,
                merge_read_cost: 1.0,
            },
        };
        let error = ALL[1].design(&environment, MIB).unwrap_err().to_string();
        assert!(error.starts_with("size_ratio is 10"), "{error}");
    }
}
