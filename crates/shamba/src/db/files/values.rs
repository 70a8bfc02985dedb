//! The value files of the tree: when they come, the manifest says that there are such; to which
//! nothing points any more leave it. Thread-safe, as [`Files`] is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Files, Tree};
use crate::compaction::job::MergeOutput;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::{Error, Result};
use crate::version::{Feature, KeyspaceEdit, RemovedFile, VALUE_LEVEL, VersionEdit};

impl Files {
    /// Has the manifest say that there are value files, before a job may write any.
    pub(in crate::db) fn state_value_files(&self, output: &MergeOutput<'_>) -> Result<()> {
        match output.separation.from {
            Some(_) => self.state_feature(Feature::ValueFiles),
            None => Ok(()),
        }
    }

    /// Has an edit take out the value files to which nothing points after it.
    pub(super) fn take_out_values(&self, tree: &Tree, edit: &mut VersionEdit) -> Result<()> {
        for change in edit.keyspaces.iter_mut().filter(|change| !change.drop) {
            let version = tree.manifest.version(change.id);
            let (Some(version), Some(keyspace)) = (version, tree.keyspaces.get(&change.id)) else {
                continue;
            };
            let values = version.value_files();
            let pending = keyspace.pending_values();
            pending.flushed(keyspace.flushed_seq());
            let flushed = change.flushed_seq.unwrap_or(0);
            let flushed = flushed.max(keyspace.flushed_seq());
            // What logs point to is known once they are replayed.
            let replayed = self.replayed.load(Ordering::Acquire);
            let was_pointed_to = |number| values.get(number).is_some_and(|held| held.live > 0);
            let is_held =
                |number| !(replayed || was_pointed_to(number)) || pending.holds(number, flushed);
            let left = values.left_by(change, is_held);
            let left = left.map_err(|wrong| Error::corruption("MANIFEST", 0, wrong.to_string()))?;
            let gone = left.into_iter().map(|file| RemovedFile {
                level: VALUE_LEVEL,
                file,
            });
            change.removes.extend(gone);
        }
        Ok(())
    }

    /// All that logs point to is in memtables or tables: what nothing points to leaves.
    pub(in crate::db) fn set_replayed(&self) {
        self.replayed.store(true, Ordering::Release);
        self.keyspaces()
            .iter()
            .for_each(|keyspace| self.take_out_unused(keyspace));
    }

    /// Has the value files of a keyspace leave to which nothing points, if there are any; else, or
    /// where that fails, the next edit has them leave.
    pub(in crate::db) fn take_out_unused(&self, keyspace: &Arc<KeyspaceInner>) {
        let mut tree = self.tree.lock();
        let version = keyspace.version();
        let pending = keyspace.pending_values();
        let flushed = keyspace.flushed_seq();
        let mut unused = version.value_files().iter().filter(|held| held.live == 0);
        if unused.any(|held| !pending.holds(held.file.number(), flushed)) {
            let edit = VersionEdit::of_keyspace(KeyspaceEdit::new(keyspace.id()));
            if let Err(error) = self.install(&mut tree, keyspace, edit) {
                log::warn!("value files that are not needed stay for now: {error}");
            }
        }
    }
}
