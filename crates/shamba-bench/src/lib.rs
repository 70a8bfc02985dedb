//! Workloads, measurement and side-by-side comparison for the SHaMBa engine.
//!
//! [`workload`] makes keys, values and operation mixes from a seed; [`engine`] is what every engine
//! under test looks like, with adapters; [`runner`] drives one workload against one engine and
//! checks every answer; [`proc_io`] asks the kernel what was really read; [`report`] prints.
//! [`store`] keeps loaded databases, [`plot`] draws. [`compare`] and [`experiments`] are built from
//! these; [`oracle`] is the optimum to compare with; [`trace`] saves operations and replays them;
//! [`device`] says where databases lie. [`reproduce`] runs every experiment of the papers, and
//! judges; [`pressure`] is a grid of its trials.
//!
//! Competing engines are behind the features `rocksdb`, `fjall` and `redb` (a B-tree, pure Rust,
//! stable and maintained), never built by default:
//!
//! ```text
//! cargo run --release -p shamba-bench --features rocksdb,fjall -- \
//!     compare --engines shamba,rocksdb:hyper,fjall --table compare.csv
//! cargo run --release -p shamba-bench --features rocksdb -- \
//!     pressure --engines shamba,rocksdb:bloom-partitioned --dir DATABASES --table pressure.csv
//! ```
//!
//! RocksDB compiles for ten minutes; the variables `ROCKSDB_LIB_DIR` (a folder with a
//! `librocksdb.a` of the same version) and `ROCKSDB_STATIC=1` avoid compiling it again.
#![deny(missing_docs)]

pub mod cell;
pub mod compare;
pub mod container;
pub mod device;
pub mod engine;
mod error;
pub mod experiments;
pub mod oracle;
pub mod plot;
pub mod pressure;
pub mod proc_io;
pub mod provenance;
pub mod report;
pub mod reproduce;
pub mod runner;
pub mod store;
pub mod trace;
pub mod workload;

pub use error::{Error, Result};
