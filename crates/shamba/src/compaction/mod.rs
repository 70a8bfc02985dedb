//! Compaction: choosing which files to merge, and merging them.
//!
//! The pickers are pure: a [`crate::version::Version`] and options in, a task out; they take no
//! lock and do no I/O. The database calls them under the lock that guards installing edits, claims
//! the task's files, and runs the task without the lock.

mod lazy_leveling;
mod leveling;
mod manual;
mod picker;
mod reclaim;
mod tiering;

#[cfg(test)]
mod picker_tests;
#[cfg(test)]
mod simulation;

pub(crate) use manual::{Manual, ManualRange, manual};
pub use picker::{Granularity, MergePolicy};
pub(crate) use picker::{PickerOptions, TargetRun, Task, TaskInput, TaskKind, pick};
