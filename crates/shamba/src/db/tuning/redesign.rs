//! Moving a keyspace to another design while it is read and written.
//!
//! A design is recorded in the manifest, then taken on: from that moment the pickers see a tree
//! that is out of shape and give the tasks that bring it into shape
//! (`compaction/redesign_picker.rs`). When none is left, the manifest is told that the design is
//! reached. A crash in between leaves a design that is not reached, and the next open goes on.
//! Thread-safe; what is written here is written with the tree held.

use std::sync::Arc;

use crate::compaction::pick;
use crate::db::context::DbContext;
use crate::db::files::{Files, Tree};
use crate::db::jobs::Compactor;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::Result;
use crate::options::{Design, KeptOptions, KeyspaceOptions};
use crate::version::{KeyspaceEdit, StoredDesign, VersionEdit};

/// Gives a keyspace that is being opened the design that was set while it ran.
pub(in crate::db) fn restore(keyspace: &KeyspaceInner, stored: Option<&StoredDesign>) {
    let Some(stored) = stored else { return };
    match Design::of_stored(stored) {
        Some(design) => keyspace.take_on(stored, &design),
        None => log::warn!(
            "keyspace {}: its design is of another build; the options are taken",
            keyspace.name()
        ),
    }
}

/// A design as it is recorded when a keyspace is to move to it.
fn to_move(tree: &Tree, keyspace: &KeyspaceInner, design: &Design) -> StoredDesign {
    let mut stored = design.stored(tree.manifest.state().next_created);
    let other_bits = keyspace.options().filter.bits_per_key != design.bits_per_key;
    let before = keyspace.moving();
    stored.rewrite_filters = other_bits || before.is_some_and(|before| before.rewrite_filters);
    stored
}

/// See the module.
pub(in crate::db) struct Redesigner {
    shared: Arc<DbContext>,
    files: Arc<Files>,
    compactor: Arc<Compactor>,
}

impl Redesigner {
    pub(in crate::db) fn new(
        shared: &Arc<DbContext>,
        files: &Arc<Files>,
        compactor: &Arc<Compactor>,
    ) -> Self {
        Redesigner {
            shared: shared.clone(),
            files: files.clone(),
            compactor: compactor.clone(),
        }
    }

    /// Records a design and takes it on.
    pub(in crate::db) fn redesign(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        design: &Design,
    ) -> Result<()> {
        design.validate()?;
        self.shared.check_writable()?;
        let mut tree = self.files.tree();
        keyspace.check_alive()?;
        let stored = to_move(&tree, keyspace, design);
        self.log_design(&mut tree, keyspace, stored)?;
        self.begin_move(keyspace, &stored, design);
        drop(tree);
        self.shared.signal().notify();
        Ok(())
    }

    /// Records options and takes them on; where they are of another design, the tree moves to it.
    pub(in crate::db) fn alter(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        options: KeyspaceOptions,
    ) -> Result<()> {
        options.validate()?;
        let functions = &self.shared.options().prefix_functions;
        // A function that an open does without stays named.
        if options.prefix != keyspace.options().prefix {
            functions.check(&options)?;
        }
        self.shared.check_writable()?;
        let mut tree = self.files.tree();
        keyspace.check_alive()?;
        let design = options.design();
        let other = !design.is_kept_as(&keyspace.options().design());
        let stored = other.then(|| to_move(&tree, keyspace, &design));
        let edit = KeyspaceEdit {
            design: stored,
            options: Some(KeptOptions::encode(&options).into()),
            ..KeyspaceEdit::new(keyspace.id())
        };
        self.files
            .log_edit(&mut tree, VersionEdit::of_keyspace(edit))?;
        let scan_rule = functions.scan_rule(&options);
        keyspace.take_options(options);
        keyspace.set_scan_rule(scan_rule);
        if let Some(stored) = stored {
            self.begin_move(keyspace, &stored, &design);
        }
        drop(tree);
        self.shared.signal().notify();
        Ok(())
    }

    /// Takes on a design that is recorded.
    fn begin_move(&self, keyspace: &Arc<KeyspaceInner>, stored: &StoredDesign, design: &Design) {
        // As it is after a restart, to the last digit.
        let kept = Design::of_stored(stored).unwrap_or(*design);
        keyspace.take_on(stored, &kept);
        self.files.due().moves(keyspace);
    }

    fn log_design(
        &self,
        tree: &mut Tree,
        keyspace: &KeyspaceInner,
        stored: StoredDesign,
    ) -> Result<()> {
        let edit = KeyspaceEdit {
            design: Some(stored),
            ..KeyspaceEdit::new(keyspace.id())
        };
        self.files.log_edit(tree, VersionEdit::of_keyspace(edit))
    }

    /// Ends the moves of keyspaces that have nothing left to do; whether there was one.
    pub(in crate::db) fn end_moves(&self) -> Result<bool> {
        let mut ended = false;
        for keyspace in self.files.due().moving() {
            let mut tree = self.files.tree();
            let Some(stored) = keyspace.moving() else {
                continue;
            };
            let version = keyspace.version();
            let busy = version.files().any(|file| file.is_busy());
            if keyspace.check_alive().is_err()
                || busy
                || pick(&version, &self.compactor.picker_options(&keyspace)).is_some()
            {
                continue;
            }
            let reached = StoredDesign {
                reached: true,
                ..*stored
            };
            self.log_design(&mut tree, &keyspace, reached)?;
            keyspace.end_move();
            ended = true;
            self.shared.signal().notify();
        }
        Ok(ended)
    }
}
