//! Compaction: what to merge, and the merging.
//!
//! Pure pickers look at a version and choose ([`pick`], [`manual()`], and one file per policy):
//! they take no lock and do no I/O. The job merges and writes ([`MergeIter`], [`Retain`], [`job`]).
//! Claiming a task's files and installing the result is the `db` module's work.

mod bounded_iter;
mod collapse;
mod filtering;
mod forecast;
mod fragments;
mod inherit;
pub(crate) mod job;
mod lazy_leveling;
mod leveling;
mod manual;
mod merge;
mod paid_by_scans;
mod picker;
mod policy;
mod reclaim;
mod redesign_picker;
mod run_iter;
mod snapshot_stripes;
mod task;
mod tiering;

#[cfg(test)]
mod picker_tests;
#[cfg(test)]
mod simulation;

pub(crate) use bounded_iter::{BoundedIter, Forward};
pub use filtering::{CompactionDecision, CompactionFilter};
pub(crate) use filtering::{Filtered, Filtering};
pub(crate) use forecast::bytes_to_merge;
pub(crate) use fragments::{FragmentMerge, RunFragments, hidden_files};
pub(crate) use inherit::{Inheritance, Parents};
pub(crate) use manual::{Manual, ManualRange, manual};
pub(crate) use merge::MergeIter;
pub(crate) use picker::pick;
pub use policy::{Granularity, MergePolicy};
pub(crate) use policy::{Moving, PickerOptions};
pub(crate) use run_iter::{RunFiles, RunIter};
pub(crate) use snapshot_stripes::{Boundaries, Retain, Verdict};
pub(crate) use task::{KEYS_OF_INPUT, TargetRun, Task, TaskInput, TaskKind};
