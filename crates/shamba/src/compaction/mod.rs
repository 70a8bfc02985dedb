//! Compaction: choosing which files to merge, and merging them.
//!
//! The pickers are pure: a [`crate::version::Version`] and options in, a task out; they take no
//! lock and do no I/O. The database calls them under the lock that guards installing edits, claims
//! the task's files, and runs the task without the lock.

mod lazy_leveling;
mod leveling;
pub(crate) mod manual;
pub(crate) mod picker;
mod reclaim;
mod tiering;

#[cfg(test)]
mod picker_tests;
#[cfg(test)]
mod simulation;
