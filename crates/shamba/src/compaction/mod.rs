//! Compaction: pure pickers decide what to merge ([`picker`] and one file per policy), the job
//! merges ([`merge`], [`retain`], [`job`]). Installing the result is the `db` module's work.

pub(crate) mod job;
pub(crate) mod lazy_leveling;
pub(crate) mod leveling;
pub(crate) mod merge;
pub(crate) mod picker;
pub(crate) mod retain;
pub(crate) mod run_iter;
pub(crate) mod tiering;
