//! Tables: immutable sorted files of entries, with their indexes and filters (docs/format.md,
//! "Table files").
//!
//! A [`TableBuilder`] writes one (`add* finish`), streaming: it holds at most one partition's
//! digests and index. A [`Table`](reader::Table) reads one: `enter` and `finish` for lookups,
//! `iter` for walks, `verify` for checks. Every data, index and filter byte comes through the block
//! cache; only the top-level index is resident with an open table. A [`TableCache`] opens tables on
//! demand and closes those not used lately. Tables are `Sync` and immutable; builders and
//! iterators have one owner.

mod arrive;
mod block;
mod builder;
mod fetch;
mod files;
mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod index;
mod inspect;
mod iter;
mod keep;
mod lookup;
mod narrow;
mod need;
mod outcome;
mod pinned;
mod properties;
mod reader;
mod source;
mod stated;
mod table_cache;
mod tally;
mod together;
mod top;
mod verify;
mod visit;
mod writer;
mod zstd_contexts;

pub(crate) use builder::{TableBuildOptions, TableBuilder};
pub use format::Compression;
pub(crate) use format::compressor_bytes;
pub use inspect::{FilterPartition, PartitionData, PartitionModule};
pub(crate) use iter::{ScanOptions, TableIter};
pub(crate) use keep::{Expect, Keep, Prepared, Span};
pub(crate) use lookup::{Lookup, LookupStats, TableGet, TableValue};
pub(crate) use pinned::{Opened, RuledOut};
pub(crate) use reader::Table;
pub(crate) use stated::{Stated, TableFile};
pub(crate) use table_cache::{Hint, TableCache, TableSlot, table_name};
pub(crate) use tally::{Modules, Tally};
pub(crate) use together::Waiter;
pub(crate) use visit::{Step, Visit};

#[cfg(test)]
mod tests;
