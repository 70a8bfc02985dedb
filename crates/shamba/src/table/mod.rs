//! Tables: immutable sorted files of entries, with their indexes and filters (docs/format.md,
//! "Table files").
//!
//! A [`TableBuilder`] writes one (`add* finish`), streaming: it holds at most one partition's
//! digests and index. A [`Table`](reader::Table) reads one: `enter` and `finish` for lookups,
//! `iter` for walks, `verify` for checks. Every data, index and filter byte comes through the block
//! cache; only the top-level index is resident with an open table. A [`TableCache`] opens tables on
//! demand and closes those not used lately. Tables are `Sync` and immutable; builders and
//! iterators have one owner.

mod batch_read;
mod block;
mod block_read;
mod build_options;
mod builder;
mod fetch;
mod files;
mod fill;
mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod get;
mod index;
mod inspect;
mod iter;
mod lookup;
mod outcome;
mod packed_ints;
mod pinned;
mod prepopulate;
mod probed_columns;
mod properties;
mod reader;
mod source;
mod stated;
mod table_cache;
mod top_index;
mod trace;
mod verify;
mod writer;
mod zstd_contexts;

pub(crate) use batch_read::PendingGet;
pub(crate) use build_options::TableBuildOptions;
pub(crate) use builder::TableBuilder;
pub use format::Compression;
pub(crate) use format::compressor_bytes;
pub(crate) use get::{GetState, Poll};
pub use inspect::{FilterPartition, PartitionData, PartitionModule};
pub(crate) use iter::{ScanOptions, TableIter};
pub(crate) use lookup::{Lookup, LookupStats, TableGet, TableValue};
pub(crate) use pinned::{Opened, RuledOut};
pub(crate) use prepopulate::{Expect, KeySpan, Prepared, Prepopulation};
pub(crate) use reader::Table;
pub(crate) use stated::{Stated, TableFile};
pub(crate) use table_cache::{Hint, TableCache, TableSlot, table_name};
pub(crate) use trace::{LookupTrace, Modules};

#[cfg(test)]
mod tests;
