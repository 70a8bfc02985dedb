//! SHaMBa: an embedded LSM-tree key-value engine for data that outgrows memory.
//!
//! One number bounds the memory the engine uses; under that number it needs few storage reads
//! per lookup. Keys and values are bytes, and keys are sorted as bytes.
//!
//! ```
//! use shamba::{IterOptions, MemoryBudget, Options, WriteBatch, WriteOptions};
//!
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("fruit");
//! let db = Options::new().memory(MemoryBudget::bytes(32 << 20)).open(path)?;
//!
//! db.put("apple", "red")?;
//! assert_eq!(db.get("apple")?.as_deref(), Some(b"red".as_slice()));
//!
//! // Several writes, applied whole or not at all; this one returns once it is on storage.
//! let mut batch = WriteBatch::new();
//! batch.put("banana", "yellow");
//! batch.put("cherry", "red");
//! batch.delete("apple");
//! db.write(batch, WriteOptions::synced())?;
//!
//! // A snapshot stays as it is, whatever is written later.
//! let before = db.snapshot();
//! db.put("cherry", "black")?;
//! assert_eq!(before.get("cherry")?.as_deref(), Some(b"red".as_slice()));
//!
//! // Many lookups at once: their storage reads overlap.
//! let found = db.multi_get(&["apple", "banana", "cherry"])?;
//! assert_eq!(found.iter().filter(|value| value.is_some()).count(), 2);
//!
//! // A range in key order; `rev()` goes backward, and `cursor` seeks.
//! for entry in db.range("b".."d") {
//!     let (key, value) = entry?;
//!     println!("{} is {}", key.escape_ascii(), value.escape_ascii());
//! }
//!
//! drop(before);
//! db.close()
//! # }
//! ```
//!
//! # Durability
//! A write is atomic, and what it survives is chosen for the database ([`Options::durability`]) or
//! for the write ([`WriteOptions`]): with [`Durability::Buffered`], the default, a crash of the
//! process; with [`Durability::Synced`] a crash of the machine. [`Db::sync`] makes everything
//! written so far survive one. After a failed write to the log the database takes no more writes
//! ([`Error::Poisoned`]) and goes on answering reads; but when there was no room for it, or no file
//! to open, that write gets [`Error::Io`], nothing of it is kept, and the next one may succeed.
//!
//! # Threads
//! [`Db`], [`Keyspace`] and [`Snapshot`] are `Send` and `Sync` and cheap to clone; calls may be
//! made from any number of threads. An [`Iter`] or [`Cursor`] is used by one thread at a time.
//! Flushes and compactions run on [`Options::background_threads`]; writers wait for them when they
//! fall far behind. Only one process at a time can have a database open to write to it, and any
//! number beside it to read ([`Options::read_only`]).
//!
//! # Memory
//! A [`MemoryBudget`] bounds memtables, cached blocks, open tables, iterators and buffers together.
//! Several databases can share it, and it can be changed while they run. When it is used up the
//! engine gets slower. What can never fit is refused, and the error names the least budget that
//! would do ([`Error::BudgetTooSmall`]): more tables, keyspaces or databases than it can know, and
//! what was written under a larger one. So are iterators beyond their share
//! ([`Error::IteratorsExhausted`]).
//!
//! A value may be lent from the cache, and then holds a block in memory for as long as the
//! [`Value`] is kept. [`Db::stats`] says where memory is and what more would be worth.
//!
//! # Cargo features
//! `testing`, off by default, adds instruments for tests and measurements, of this crate and of
//! programs that use it: in [`fs`] a file system in memory that can lose power (`MemFs`), one that
//! fails as it is told (`FaultFs`), one that counts and takes the time of a modelled device
//! (`MeteredFs`); and `MemoryBudget::hold`, which makes memory short. A program's tests get them by
//!
//! ```toml
//! [dev-dependencies]
//! shamba = { version = "0.1", features = ["testing"] }
//! ```
//!
//! None is for production: files in memory are outside of the [`MemoryBudget`], and gone with the
//! process. The engine reads and writes in the same way with the feature and without.
//!
//! # Where to go on
//! [`Options`] and [`KeyspaceOptions`] have the settings, each with its unit and default;
//! [`Db::create_keyspace`] gives a tree of its own behind the same log; [`Db::checkpoint`] makes a
//! consistent copy; [`Options::verify`] checks one; [`Keyspace::advise`] and [`Keyspace::redesign`]
//! fit the tree to its workload. `ARCHITECTURE.md` in the repository says how the parts fit
//! together.
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

/// The examples of the README are compiled with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod base;
mod budget;
mod cache;
mod compaction;
mod db;
mod error;
mod filter;
pub mod fs;
// Also by the feature, since `cargo fuzz` of a program that uses the engine sets `fuzzing` for it.
#[cfg(any(test, all(fuzzing, feature = "testing")))]
pub mod fuzzing;
mod memtable;
mod metrics;
mod options;
mod policy;
mod table;
mod value;
mod version;
mod wal;

pub use budget::{MIN_MEMORY, MemoryStats, Role};
pub use cache::{CacheStats, Eviction, KindStats, MemoryBudget, MemoryUsage};
pub use compaction::{Granularity, MergePolicy};
pub use db::{
    Advice, Cursor, DamagedFile, Db, Iter, IterOptions, KeyRange, Keyspace, KeyspaceStatistics,
    LevelLookups, LevelStatistics, MarginalValue, ModuleLookups, PricedDesign, Problem, ReadCounts,
    ResidentBytes, Snapshot, Statistics, Value, VerifySummary, WorkloadEstimate, WriteBatch,
};
pub use error::{Error, Result};
pub use filter::{FilterAllocation, ModuleSizes};
pub use metrics::Counters;
pub use options::{
    AutoDesign, Compression, Design, DeviceCosts, Durability, FilterFamily, FilterOptions,
    KeyspaceOptions, Options, Preset, WriteOptions,
};
pub use policy::{FilterPolicy, Skipping, Thresholds};
pub use shamba_model::cost::Costs;
pub use wal::RecoveryMode;

/// What the tree consists of, file by file and partition by partition: for tools that measure, such
/// as a comparison with the offline optimum. Callers of a database need none of it.
pub mod inspect {
    pub use crate::db::inspect::{FileLookups, file_lookups, filter_partitions};
    pub use crate::table::{FilterPartition, PartitionData, PartitionModule};
}
