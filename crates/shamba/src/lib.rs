//! SHaMBa: an embedded LSM-tree key-value engine for data that outgrows memory.
//!
//! One number bounds the memory the engine uses; under that number it needs few storage reads
//! per lookup. `ARCHITECTURE.md` in the repository says how the parts fit together.
#![deny(missing_docs)]
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

mod base;
mod budget;
mod cache;
mod compaction;
mod db;
mod error;
mod filter;
pub mod fs;
mod memtable;
mod metrics;
mod options;
mod policy;
mod table;
mod version;
mod wal;

pub use budget::{MIN_MEMORY, MemoryStats, Role};
pub use cache::{CacheStats, Eviction, KindStats, MemoryBudget, MemoryUsage};
pub use compaction::{Granularity, MergePolicy};
#[doc(hidden)]
pub use db::FileLookups;
pub use db::{
    Advice, DamagedFile, Db, DeviceCosts, Iter, IterOptions, KeyRange, Keyspace,
    KeyspaceStatistics, LevelLookups, LevelStatistics, MarginalValue, ModuleLookups, PricedDesign,
    Problem, ReadCounts, ResidentBytes, Snapshot, Statistics, Value, VerifySummary,
    WorkloadEstimate, WriteBatch,
};
pub use error::{Error, Result};
pub use filter::{FilterAllocation, ModuleSizes};
pub use metrics::Counters;
pub use options::{
    AutoDesign, Compression, Design, Durability, FilterFamily, FilterOptions, KeyspaceOptions,
    Options, Preset, WriteOptions,
};
pub use policy::{FilterPolicy, Skipping, Thresholds};
pub use shamba_model::cost::Costs;
#[doc(hidden)]
pub use table::{FilterPartition, PartitionData, PartitionModule};
pub use wal::RecoveryMode;
