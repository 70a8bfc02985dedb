//! Compaction: what to merge, and the merging.
//!
//! Pure pickers look at a version and choose ([`pick`], [`manual`], and one file per policy): they
//! take no lock and do no I/O. The job merges and writes ([`MergeIter`], [`Retain`], [`job`]).
//! Claiming a task's files and installing the result is the `db` module's work.

pub(crate) mod job;
mod lazy_leveling;
mod leveling;
pub(crate) mod manual;
pub(crate) mod picker;
mod reclaim;
mod retain;
mod run_iter;
mod tiering;

#[cfg(test)]
mod picker_tests;
#[cfg(test)]
mod simulation;
