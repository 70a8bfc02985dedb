//! SHaMBa: an embedded LSM-tree key-value engine for data that outgrows memory.
//!
//! One number bounds the memory the engine uses; under that number it needs few storage reads
//! per lookup. Keys and values are bytes, and keys are sorted as bytes (so write numbers in them
//! with `to_be_bytes`).
//!
//! This page is a tour; the types it names have the details.
//!
//! # Open, put, get
//! [`Options`] say how a database is opened, and [`Options::open`] gives a [`Db`]: a handle, `Send`
//! and `Sync`, cheap to clone.
//!
//! ```
//! use shamba::{MemoryBudget, Options};
//!
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("fruit");
//! let db = Options::new().memory(MemoryBudget::bytes(32 << 20)).open(path)?;
//!
//! db.put("apple", "red")?;
//! assert_eq!(db.get("apple")?.as_deref(), Some(b"red".as_slice()));
//! db.delete("apple")?;
//! assert!(db.get("apple")?.is_none());
//!
//! // Many lookups at once: their storage reads overlap.
//! db.put("banana", "yellow")?;
//! let found = db.multi_get(&["apple", "banana"])?;
//! assert!(found[0].is_none() && found[1].is_some());
//!
//! db.close()
//! # }
//! ```
//!
//! # Batches and durability
//! Several writes in a [`WriteBatch`] are applied whole or not at all, also across keyspaces. What
//! a write survives is chosen for the database ([`Options::durability`]) or for the write
//! ([`WriteOptions`]): with [`Durability::Buffered`], the default, a crash of the process; with
//! [`Durability::Synced`] a crash of the machine. [`Db::sync`] makes everything written so far
//! survive one.
//!
//! The reads that led to a batch are not part of it: for that there are transactions.
//!
//! ```
//! use shamba::{Options, WriteBatch, WriteOptions};
//!
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = Options::new().open(dir.path())?;
//! let mut batch = WriteBatch::new();
//! batch.put("banana", "yellow");
//! batch.put("cherry", "red");
//! batch.delete("apple");
//! // Returns once it is on storage.
//! db.write_with(batch, WriteOptions::synced())?;
//! # Ok(()) }
//! ```
//!
//! After a failed write to the log the database takes no more writes ([`Error::Poisoned`]) and goes
//! on answering reads; but when there was no room for it, or no file to open, that write gets
//! [`Error::Io`], nothing of it is kept, and the next one may succeed.
//!
//! # Merging without reading
//! [`Db::merge`] writes an operand; what the value of the key is with it says a [`MergeOperator`],
//! given to [`Options::merge_operator`] and kept with the keyspace: [`Increment`], [`Minimum`],
//! [`Maximum`], [`Append`], JSON merge patches with the feature `json`, or a program's own. Reads
//! ask it, and flushes and compactions collapse what all readers see alike.
//!
//! # Deleting ranges
//! [`Db::delete_range`] and [`Db::delete_prefix`] delete all keys of a range in one operation, also
//! in a [`WriteBatch`] or a [`Transaction`]. Reads do not come past what was deleted, and tables
//! that have nothing else are removed without being read.
//!
//! # Compaction filters
//! [`Options::compaction_filter`] has compactions ask a function of the program's what becomes of
//! the entries that they merge: kept, removed, or given another value ([`CompactionFilter`]). No
//! open snapshot, transaction or iterator sees what it decides.
//!
//! # Time to live
//! What is written with [`WriteOptions::ttl`], into a keyspace with [`KeyspaceOptions::ttl`] or by
//! [`WriteBatch::put_until`] is gone for every read from its time on, by the clock of
//! [`Options::clock`], and what it overwrote does not come back. A snapshot sees it as of its own
//! time. Flushes and compactions drop it.
//!
//! ```
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = shamba::Options::new().open(dir.path())?;
//! use std::time::Duration;
//! let for_an_hour = shamba::WriteOptions::new().ttl(Duration::from_secs(3600));
//! db.put_with("session/17", "open", for_an_hour)?;
//! assert!(db.contains_key("session/17")?);
//! # Ok(()) }
//! ```
//!
//! # Transactions
//! A [`Transaction`] reads at one moment, its own writes included, and writes all at once when it
//! is committed. Nobody is locked out meanwhile: a commit fails with [`Error::Conflict`], and
//! writes nothing, where others wrote what it read, keys and ranges that were empty included
//! ([`Isolation::Serializable`], the default), or what it writes ([`Isolation::Snapshot`]).
//! [`Db::transact`] then runs it again. [`Db::compare_and_swap`] and [`Db::fetch_update`] are such
//! transactions of one key.
//!
//! ```
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = shamba::Options::new().open(dir.path())?;
//! // The next number of a list, which nobody else gets.
//! let number = db.transact(|tx| -> shamba::Result<u32> {
//!     let last = tx.prefix("list/").next_back().transpose()?;
//!     let last = last.and_then(|(key, _)| Some(u32::from_be_bytes(*key.last_chunk()?)));
//!     let next = last.map_or(0, |last| last + 1);
//!     tx.put([&b"list/"[..], &next.to_be_bytes()].concat(), "an entry")?;
//!     Ok(next)
//! })?;
//! assert_eq!(number, 0);
//! # Ok(()) }
//! ```
//!
//! # Keyspaces
//! A [`Keyspace`] is a tree of its own with [`KeyspaceOptions`] of its own, behind the same log and
//! the same memory budget. [`Db::put`] and the like are those of the default keyspace.
//!
//! ```
//! use shamba::{KeyspaceOptions, MergePolicy, Options, WriteBatch, WriteOptions};
//!
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = Options::new().open(dir.path())?;
//! let options = KeyspaceOptions::new().merge_policy(MergePolicy::Tiering).size_ratio(4);
//! // The keyspace of this name, which is created with these options if there is none.
//! let events = db.open_keyspace("events", options)?;
//! events.put("2026-11-22", "picked")?;
//!
//! let mut batch = WriteBatch::new();
//! batch.put("cherry", "black");
//! batch.put_in(&events, "2026-11-23", "ripened");
//! db.write(batch)?;
//!
//! // Its options are kept with it, and changed by `alter_keyspace`.
//! assert_eq!(db.keyspace("events")?.options().size_ratio, 4);
//! # Ok(()) }
//! ```
//!
//! # Iteration
//! [`Db::iter`], [`Db::range`] and [`Db::prefix`] give entries in the order of keys; `rev()` goes
//! backward. A [`Cursor`] seeks, and lends keys and values without a copy. [`IterOptions`] say what
//! either covers, and whether what a long scan reads should leave the cache to others.
//!
//! ```
//! use shamba::{IterOptions, Options};
//!
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = Options::new().open(dir.path())?;
//! for fruit in ["apple", "banana", "cherry"] {
//!     db.put(fruit, "ripe")?;
//! }
//! for entry in db.range("b".."d") {
//!     let (key, value) = entry?;
//!     println!("{} is {}", key.escape_ascii(), value.escape_ascii());
//! }
//! let last = db.iter().rev().next().transpose()?;
//! assert_eq!(last.map(|(key, _)| key.to_vec()), Some(b"cherry".to_vec()));
//!
//! let mut cursor = db.cursor(IterOptions::prefix("b").fill_cache(false))?;
//! cursor.seek_to_first()?;
//! assert!(cursor.valid() && cursor.key() == b"banana");
//! # Ok(()) }
//! ```
//!
//! # Snapshots
//! A [`Snapshot`] stays as it is, whatever is written later. An iterator is one too.
//!
//! ```
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = shamba::Options::new().open(dir.path())?;
//! db.put("cherry", "red")?;
//! let before = db.snapshot();
//! db.put("cherry", "black")?;
//! assert_eq!(before.get("cherry")?.as_deref(), Some(b"red".as_slice()));
//!
//! // Of a keyspace, a prefix or a range.
//! let fruit = db.default_keyspace();
//! let all = before.iter_in(&fruit, shamba::IterOptions::prefix("ch"));
//! assert_eq!(all.count(), 1);
//! # Ok(()) }
//! ```
//!
//! # The memory budget
//! A [`MemoryBudget`] bounds memtables, cached blocks, open tables, iterators and buffers together.
//! Several databases can share it, and it can be changed while they run. When it is used up the
//! engine gets slower. What can never fit is refused, and the error names the least budget that
//! would do ([`Error::BudgetTooSmall`]): more tables, keyspaces or databases than it can know, and
//! what was written under a larger one. So are iterators beyond their share
//! ([`Error::IteratorsExhausted`]).
//!
//! ```
//! use shamba::{MemoryBudget, Options};
//!
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let (fruit, trees) = (dir.path().join("fruit"), dir.path().join("trees"));
//! let memory = MemoryBudget::bytes(32 << 20);
//! let fruit = Options::new().memory(memory.clone()).open(fruit)?;
//! let trees = Options::new().memory(memory.clone()).open(trees)?;
//! memory.set_limit(16 << 20)?;
//! # drop((fruit, trees));
//! # Ok(()) }
//! ```
//!
//! A value may be lent from the cache, and then holds a block in memory for as long as the
//! [`Value`] is kept.
//!
//! # Statistics
//! [`Db::stats`] says what lookups read and found, where memory is and what more of it would be
//! worth, level by level. It may be called at any time, and changes nothing. Printed by `{}` it is
//! a few lines, by `{:#?}` all there is, with the feature `serde` also as JSON.
//!
//! ```
//! # fn main() -> shamba::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = shamba::Options::new().open(dir.path())?;
//! db.get("apple")?;
//! let stats = db.stats();
//! assert_eq!((stats.counters.lookups, stats.counters.lookups_found), (1, 0));
//! for (role, bytes) in &stats.memory.budget.by_role {
//!     println!("{role:?}: {bytes} bytes");
//! }
//! # Ok(()) }
//! ```
//!
//! [`Keyspace::advise`] prices the tree against what it is used for, and [`Keyspace::redesign`]
//! moves it to another shape while it runs; [`KeyspaceOptions::auto_design`] does both by itself.
//!
//! # Threads and processes
//! [`Db`], [`Keyspace`] and [`Snapshot`] may be used by any number of threads. An [`Iter`], a
//! [`Cursor`] and a [`Transaction`] that writes are used by one thread at a time. Flushes and
//! compactions run on [`Options::background_threads`]; writers wait for them when they fall far
//! behind. Only one process at a time can have a database open to write to it, and any number
//! beside it to read ([`Options::read_only`]). A handle, snapshot or iterator that was forgotten
//! keeps a database open until [`Db::close`]; [`Error::Locked`] names it. Where there is async
//! code, calls belong on threads that may block.
//!
//! # Copies and checks
//! [`Db::checkpoint`] makes a consistent copy by hard links; [`Db::verify`] and [`Options::verify`]
//! read everything and say what is damaged. Bytes from storage never make the engine panic: what is
//! wrong with them is [`Error::Corruption`], with file and place.
//!
//! # Cargo features
//! | feature | default | what it gives |
//! |---|---|---|
//! | `zstd` | on | [`Compression::Zstd`]; needs a C compiler |
//! | `lz4` | on | [`Compression::Lz4`] |
//! | `serde` | on | `Serialize` of statistics, and `Deserialize` too of options |
//! | `io-uring` | on | reads made together go through an io_uring (Linux), else through threads |
//! | `json` | off | `JsonMergePatch`, the merge operator of JSON merge patches |
//! | `testing` | off | instruments for tests and measurements |
//!
//! A build that lacks a compression refuses options that ask for it ([`Error::InvalidOption`]), and
//! gives [`Error::MissingFeature`] where a table has it. The README has the number of crates that
//! each feature brings.
//!
//! `testing` adds instruments for tests and measurements, of this crate and of programs that use
//! it: in [`fs`] a file system in memory that can lose power (`MemFs`), one that fails as it is
//! told (`FaultFs`), one that counts and takes the time of a modelled device (`MeteredFs`); and
//! `MemoryBudget::hold`, which makes memory short. A program's tests get them by
//!
//! ```toml
//! [dev-dependencies]
//! shamba = { version = "0.1", features = ["testing"] }
//! ```
//!
//! None is for production: files in memory are outside of the [`MemoryBudget`], and gone with the
//! process. The engine reads and writes in the same way with the feature and without.
//!
//! # Names elsewhere
//! | here | fjall 3 | redb | rust-rocksdb |
//! |---|---|---|---|
//! | [`Db`] | `Database` | `Database` | `DB` |
//! | [`Keyspace`], [`Db::open_keyspace`] | `Keyspace`, `keyspace` | `open_table` | `create_cf` |
//! | [`Db::drop_keyspace`] | `delete_keyspace` | `delete_table` | `drop_cf` |
//! | [`Db::put`], [`Db::delete`] | `insert`, `remove` | `insert`, `remove` | `put`, `delete` |
//! | [`Db::get`], [`Db::multi_get`] | `get` | `get` | `get`, `multi_get` |
//! | [`Db::first_key_value`] | the same | `first` | `seek_to_first` |
//! | [`Db::len`], [`Db::approximate_len`] | the same | `len` | `rocksdb.estimate-num-keys` |
//! | [`Db::clear`] | `clear` | `delete_table` | `delete_range_cf` |
//! | [`Db::range`], [`Db::prefix`] | the same | `range` | `set_iterate_range` |
//! | [`Cursor`] | | | `raw_iterator` |
//! | [`KeyspaceOptions::prefix`] | | | `set_prefix_extractor` |
//! | [`KeyspaceOptions::range_filter`] | | | |
//! | [`Db::merge`], [`Options::merge_operator`] | | | `merge`, `set_merge_operator` |
//! | [`Options::compaction_filter`] | | | `set_compaction_filter` |
//! | [`WriteBatch`], [`Db::write`] | `batch`, `commit` | | `WriteBatch`, `write` |
//! | [`Db::write_with`] | `durability` | `set_durability` | `write_opt` |
//! | [`Db::transact`] | `write_tx` | `begin_write` | `OptimisticTransactionDB` |
//! | [`Db::fetch_update`] | `update_fetch` | | |
//! | [`Db::snapshot`] | `snapshot` | `begin_read` | `snapshot` |
//! | [`Db::sync`], [`WriteOptions::synced`] | `persist` | `Durability` | `flush_wal`, `set_sync` |
//! | [`Db::checkpoint`] | | | `create_checkpoint` |
//! | [`Db::size_on_disk`] | `disk_space` | `stats` | `rocksdb.total-sst-files-size` |
//!
//! # Limits
//! | what | at most |
//! |---|---|
//! | a key | 65,535 bytes, and a 64th of the budget |
//! | a value | any; past a sixteenth of the budget, and 64 MiB, in a file of its own |
//! | a value in a batch | 64 MiB |
//! | an operand | 64 MiB, and a sixteenth of the budget |
//! | what a [`CompactionFilter`] changes a value to | the same; it sees none in pieces |
//! | filters for scans of a keyspace | of prefixes or of ranges, not both |
//! | a batch | 256 MiB in memory ([`WriteBatch::memory`]), and three eighths of the budget |
//! | a transaction | a batch; and with what it read, and all iterators, a quarter of the budget |
//! | the budget | from [`MIN_MEMORY`] on |
//!
//! Options and errors are `#[non_exhaustive]`: options are set by the methods of their names, so
//! that programs compile as well with a version that has more of them.
//!
//! `ARCHITECTURE.md` in the repository says how the parts fit together.
#![cfg_attr(docsrs, feature(doc_cfg))]
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
#[doc = include_str!("../README.md")]
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
mod operator;
mod options;
mod ordered;
mod policy;
mod table;
mod value;
mod version;
mod wal;

#[cfg(feature = "testing")]
pub use base::clock::ManualClock;
pub use base::clock::{Clock, SystemClock};
pub use base::size::parse_size;
pub use budget::{MIN_MEMORY, MemoryStats, Role};
pub use cache::{CacheStats, Eviction, KindStats, MemoryBudget, MemoryUsage};
pub use compaction::{CompactionDecision, CompactionFilter, Granularity, MergePolicy};
pub use db::{
    Advice, CompareAndSwapError, Cursor, DamagedFile, Db, Iter, IterOptions, KeyRange, Keyspace,
    KeyspaceStatistics, LevelLookups, LevelStatistics, MarginalValue, ModuleLookups, PricedDesign,
    Problem, ReadCounts, ResidentBytes, Snapshot, Statistics, Transaction, TransactionIter, Value,
    ValueReader, ValueStatistics, VerifySummary, WorkloadEstimate, WriteBatch,
};
pub use error::{Error, Holders, Result};
pub use filter::{FilterAllocation, ModuleSizes, Prefix};
pub use metrics::Counters;
#[cfg(feature = "json")]
pub use operator::JsonMergePatch;
pub use operator::{Append, Increment, Maximum, MergeError, MergeOperator, Minimum};
pub use options::{
    AutoDesign, Compression, Design, DeviceCosts, Durability, FilterFamily, FilterOptions,
    Isolation, KeyspaceOptions, Options, Preset, TransactionOptions, WriteOptions,
};
pub use policy::{FilterPolicy, Skipping, Thresholds};
pub use shamba_model::cost::Costs;
pub use wal::RecoveryMode;

/// What the tree consists of, file by file and partition by partition: for tools that measure, such
/// as a comparison with the offline optimum. Callers of a database need none of it.
pub mod inspect {
    pub use crate::db::inspect::{FileLookups, file_lookups, filter_partitions};
    pub use crate::filter::RangeFilter;
    pub use crate::table::{FilterPartition, PartitionData, PartitionModule};
}
