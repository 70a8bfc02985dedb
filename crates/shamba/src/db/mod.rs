//! The database: what callers hold, and the components it is made of.
//!
//! [`Db`] is a handle, cheap to clone and safe to share; the last one dropped closes the database.
//! The handles hold a [`DbShared`], which is a [`DbInner`] with its threads. Components know those
//! above them in this list, and none below:
//!
//! | component | what it owns |
//! |---|---|
//! | [`context::DbContext`] | options, folder, counters, whether the database is open and writes go on |
//! | [`visibility::Visibility`] | the newest visible sequence number, and those that snapshots hold |
//! | [`keyspaces::KeyspaceInner`] | one keyspace: read state, options, what is counted of it |
//! | [`files::Files`] | manifest, open tables, what of the tree changed |
//! | [`buffers::WalFiles`] | the write-ahead logs |
//! | [`buffers::Memtables`] | the writer's state, and which memtables wait to be flushed |
//! | [`jobs::Flusher`], [`jobs::Compactor`] | flushes and compactions, one at a time |
//! | [`tuning::Redesigner`], [`tuning::Advisor`] | a keyspace's design |
//! | [`background::Background`] | what is done next, and waiting for it |
//! | [`write::WritePath`], [`read::ReadPath`] | the ways of a put and of a get |
//! | [`Transaction`] | both ways together |
//!
//! Locks, in the order they may be taken: `writer` (who logs a group of writes), `applying` (who
//! applies one to memtables; see [`write`]), the [`files::Tree`] (the manifest and the installing
//! of versions), the closed logs, then short ones that hold nothing else (but see
//! [`visibility`]). Reads take none of them.

mod background;
mod batch;
mod buffers;
mod catalog;
mod checkpoint;
mod close;
mod context;
#[expect(
    clippy::module_inception,
    reason = "the file of the type that the folder is about"
)]
mod db;
mod files;
#[cfg(any(test, all(fuzzing, feature = "testing")))]
pub(crate) mod fuzzing;
mod in_pieces;
mod inner;
pub(crate) mod inspect;
mod iter;
mod jobs;
mod keyspace;
mod keyspaces;
mod open;
mod operands;
mod ranges;
mod read;
mod snapshot;
mod stats;
mod streams;
mod transaction;
mod tuning;
mod value_reader;
mod verify;
mod visibility;
mod write;

pub use batch::WriteBatch;
pub(crate) use close::DbShared;
pub use db::Db;
pub(crate) use inner::DbInner;
pub use iter::{Cursor, Iter, IterOptions, KeyRange};
pub use keyspace::Keyspace;
pub use keyspaces::level_counters::{LevelLookups, ModuleLookups, ReadCounts};
pub use keyspaces::workload::WorkloadEstimate;
pub use read::Value;
pub use snapshot::Snapshot;
pub use stats::{
    KeyspaceStatistics, LevelStatistics, MarginalValue, ResidentBytes, Statistics, ValueStatistics,
};
pub use transaction::{CompareAndSwapError, Transaction, TransactionIter};
pub use tuning::{Advice, PricedDesign};
pub use value_reader::ValueReader;
pub use verify::{DamagedFile, Problem, VerifySummary};
