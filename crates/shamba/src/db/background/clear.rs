//! Emptying a keyspace at once: one edit of the manifest, whatever it holds.

use std::sync::Arc;

use super::Background;
use crate::budget::Role;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::Result;
use crate::version::{KeyspaceEdit, RemovedFile, Version, VersionEdit};

/// Bytes that the edit takes for each table.
const EDIT_BYTES: u64 = size_of::<RemovedFile>() as u64;

/// Whether a keyspace was emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::db) enum Cleared {
    /// It is empty, and durably so.
    Yes,
    /// A snapshot, cursor or iterator may still read what it holds.
    HeldByReaders,
}

impl Background {
    /// Empties a keyspace, unless a snapshot, cursor or iterator is there: with it readers of
    /// before would lose what they see. Writes wait meanwhile, also for compactions of it that are
    /// under way; others are held off.
    pub(in crate::db) fn clear_at_once(&self, keyspace: &Arc<KeyspaceInner>) -> Result<Cleared> {
        keyspace.check_alive()?;
        self.shared.check_writable()?;
        let _job = self.jobs.begin()?;
        let cleared = loop {
            // With the writer held, all that was written is in tables. It is taken first: whoever
            // has it may wait for a compaction.
            let writer = self.flush_all()?;
            let paused = self.compactor.pause();
            self.wait_until(|| !is_busy(&keyspace.version()))?;
            let mut tree = self.files.tree();
            keyspace.check_alive()?;
            let version = keyspace.version();
            // Somebody compacts a range, which is not held off.
            if is_busy(&version) {
                drop((tree, paused, writer));
                continue;
            }
            let edit_bytes = EDIT_BYTES * version.sums().files as u64;
            let budget = self.shared.budget();
            let _listed = budget.reserve_at_once(Role::Files, edit_bytes);
            let emptied = self.visibility.unless_held_above(None, || {
                let edit = VersionEdit::of_keyspace(removing_all(keyspace.id(), &version));
                let cache = self.shared.options().memory.cache();
                let _changing = cache.change_entries(keyspace.entries());
                self.files.install(&mut tree, keyspace, edit)
            });
            break match emptied {
                Some(emptied) => emptied.map(|()| Cleared::Yes)?,
                None => Cleared::HeldByReaders,
            };
        };
        self.files.remove_obsolete();
        Ok(cleared)
    }
}

fn is_busy(version: &Version) -> bool {
    version.files().any(|file| file.is_busy())
}

/// The edit that takes all files out of a keyspace.
fn removing_all(id: u32, version: &Version) -> KeyspaceEdit {
    let mut edit = KeyspaceEdit::new(id);
    for (level, run) in version.runs() {
        let files = run.files().iter();
        edit.removes.extend(files.map(|file| RemovedFile {
            level: level as u32,
            file: file.clone(),
        }));
    }
    edit
}
