//! Tables: immutable sorted files of entries, with their indexes and filters (docs/format.md,
//! "Table files").
//!
//! A [`TableBuilder`] writes one (`add* finish`), streaming: it holds at most one partition's
//! digests and index. A [`Table`](reader::Table) reads one: a [`Get`] is a lookup
//! in it, `iter` walks, `verify` checks. Every data, index and filter byte comes through the block
//! cache; only the top-level index is resident with an open table. A [`TableCache`] opens tables on
//! demand and closes those not used lately. Tables are `Sync` and immutable; builders and
//! iterators have one owner.

mod block;
mod build_options;
mod builder;
mod compressor;
mod files;
mod format;
#[cfg(any(test, all(fuzzing, feature = "testing")))]
pub(crate) mod fuzzing;
mod get;
mod index;
mod inspect;
mod iter;
mod open_partition;
mod packed_ints;
mod pinned;
mod pointed;
mod prepopulate;
mod properties;
mod range_tombstones;
mod reader;
mod reload;
mod scan_filter;
mod slot;
mod source;
mod stated;
mod stated_scan_filter;
mod table_blocks;
mod table_cache;
mod top_index;
mod verify;
mod writer;
#[cfg(feature = "zstd")]
mod zstd_contexts;
mod zstd_encoder;

pub(crate) use build_options::{ScanFilterOptions, TableBuildOptions};
pub(crate) use builder::{TableBuilder, TableSummary};
pub(crate) use compressor::compressor_bytes;
pub(crate) use files::table_name;
pub use format::Compression;
pub(crate) use format::PAGE_PAYLOAD;
pub(crate) use get::{
    Get, GetState, Lookup, LookupTotals, ModuleReads, Modules, PendingGet, Poll, TableGet,
    TableValue, Trace,
};
pub use inspect::{FilterPartition, PartitionData, PartitionModule};
pub(crate) use iter::{ScanOptions, TableIter};
pub(crate) use pinned::Opened;
pub(crate) use pointed::{WantedValue, piece_len};
pub(crate) use prepopulate::{InheritedVisits, KeySpan, Prepared, Prepopulation};
pub(crate) use reader::Table;
pub(crate) use scan_filter::{ScanAnswer, ScanVisit};
pub(crate) use slot::{Hint, TableFile, TableSlot};
pub(crate) use stated::Stated;
pub(crate) use table_cache::TableCache;
pub(crate) use verify::PointedValues;

#[cfg(test)]
mod tests;
