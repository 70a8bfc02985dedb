//! Which tables make up each keyspace, and how that survives a restart.
//!
//! A [`Version`] is an immutable picture of one keyspace: levels of runs of files. Readers hold it
//! by `Arc` and need no lock. It changes by applying an edit, which gives a new version that shares
//! with the old one all that the edit does not touch, down to the leaves of runs (some hundred
//! files each). [`VersionEdit`]s are logged in the manifest before the new version is published;
//! [`Manifest`] owns the log and the state it describes, and is used by one thread at a time (the
//! database holds it behind its own lock). The bytes are specified in `docs/format.md`, "Manifest".

mod by_number;
mod current;
mod design;
mod edit;
mod expiry;
mod feature;
mod file_meta;
mod files;
#[cfg(any(test, all(fuzzing, feature = "testing")))]
pub(crate) mod fuzzing;
mod level;
mod manifest;
mod obsolete;
mod replay;
mod run;
mod set;
mod sums;
mod tree;
mod value_files;

#[cfg(test)]
mod manifest_tests;

pub(crate) use by_number::ByNumber;
pub(crate) use current::CURRENT;
pub(crate) use design::StoredDesign;
pub(crate) use edit::{
    AddedFile, KeyspaceEdit, MAX_LEVELS, MovedFile, RemovedFile, VALUE_LEVEL, VersionEdit,
};
pub(crate) use expiry::Expiry;
pub(crate) use feature::Feature;
pub(crate) use file_meta::{FileInfo, FileMeta};
pub(crate) use files::{number_in, was_in_use};
pub(crate) use level::Level;
pub(crate) use manifest::{FoundManifest, Manifest};
pub(crate) use obsolete::Obsolete;
pub(crate) use run::Run;
pub(crate) use set::{KeyspaceState, TreeState};
pub(crate) use sums::Sums;
pub(crate) use tree::Version;
pub(crate) use value_files::{ValueFile, ValueFiles};

/// A version or edit that contradicts itself or the version it is applied to. The manifest turns
/// it into a corruption error, which names the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Inconsistent {
    /// What is wrong.
    pub(crate) what: String,
}

impl Inconsistent {
    /// An inconsistency.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Inconsistent { what: what.into() }
    }
}
