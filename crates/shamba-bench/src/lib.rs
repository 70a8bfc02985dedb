//! Workloads, measurement and side-by-side comparison for the SHaMBa engine.
//!
//! [`workload`] makes keys, values and operation mixes from a seed; [`engine`] is what every
//! engine under test looks like, with adapters; [`runner`] drives one workload against one engine
//! and checks every answer; [`proc_io`] asks the kernel what was really read; [`report`] prints.
//! [`compare`] and [`pressure`] are the two experiments built from these.
//!
//! Competing engines are behind the features `rocksdb` and `fjall`, never built by default.
#![deny(missing_docs)]

pub mod cell;
pub mod compare;
pub mod engine;
mod error;
pub mod pressure;
pub mod proc_io;
pub mod report;
pub mod runner;
pub mod workload;

pub use error::{Error, Result};
