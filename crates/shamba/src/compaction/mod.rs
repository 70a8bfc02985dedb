//! Compaction: what to merge, and the merging.
//!
//! Pure pickers look at a version and choose ([`pick`], [`manual`], and one file per policy); the
//! job merges and writes ([`MergeIter`], [`Retain`], [`job`]). Installing the result is the `db`
//! module's work.

pub(crate) mod job;
mod lazy_leveling;
mod leveling;
mod manual;
mod merge;
mod picker;
mod reclaim;
mod retain;
mod run_iter;
mod tiering;

pub(crate) use manual::{Manual, ManualRange, manual};
pub(crate) use merge::MergeIter;
pub use picker::{Granularity, MergePolicy};
pub(crate) use picker::{PickerOptions, TargetRun, Task, TaskKind, pick};
pub(crate) use retain::{Retain, Verdict};
pub(crate) use run_iter::RunIter;
