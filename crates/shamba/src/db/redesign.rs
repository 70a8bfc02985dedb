//! Moving a keyspace to another design while it is read and written.
//!
//! A design is recorded in the manifest, then taken on: from that moment the pickers see a tree
//! that is out of shape and give the tasks that bring it into shape (`compaction/reshape.rs`). When
//! none is left, the manifest is told that the design is reached. A crash in between leaves a design
//! that is not reached, and the next open goes on. Thread-safe; what is written here is under the
//! `tree` lock.

use std::sync::Arc;

use super::DbInner;
use super::keyspace::KeyspaceInner;
use crate::compaction::{Moving, pick};
use crate::error::Result;
use crate::filter::{FileContext, choose};
use crate::options::{Design, KeyspaceOptions};
use crate::version::{KeyspaceEdit, StoredDesign, Version, VersionEdit};

/// Gives a keyspace that is being opened the design that was set while it ran.
pub(super) fn restore(keyspace: &KeyspaceInner, stored: Option<&StoredDesign>) {
    let Some(stored) = stored else { return };
    match Design::of_stored(stored) {
        Some(design) => keyspace.take_on(stored, &design),
        None => log::warn!(
            "keyspace {}: its design is of another build; the options are taken",
            keyspace.name
        ),
    }
}

impl DbInner {
    /// Records a design and takes it on.
    pub(crate) fn redesign(&self, keyspace: &Arc<KeyspaceInner>, design: &Design) -> Result<()> {
        design.validate()?;
        self.check_writable()?;
        let mut tree = self.tree.lock();
        keyspace.check_alive()?;
        let mut stored = design.stored(tree.manifest.state().next_created);
        let other_bits = keyspace.options().filter.bits_per_key != design.bits_per_key;
        let before = keyspace.moving.load();
        stored.rewrite_filters =
            other_bits || before.as_ref().is_some_and(|before| before.rewrite_filters);
        self.log_design(&mut tree, keyspace, stored)?;
        // As it is after a restart, to the last digit.
        let kept = Design::of_stored(&stored).unwrap_or(*design);
        keyspace.take_on(&stored, &kept);
        self.due.moves(keyspace);
        drop(tree);
        self.signal.notify();
        Ok(())
    }

    fn log_design(
        &self,
        tree: &mut super::Tree,
        keyspace: &KeyspaceInner,
        stored: StoredDesign,
    ) -> Result<()> {
        let edit = KeyspaceEdit {
            design: Some(stored),
            ..KeyspaceEdit::new(keyspace.id)
        };
        self.log_edit(tree, VersionEdit::of_keyspace(edit))
    }

    /// Whether a keyspace moves to another design.
    pub(super) fn is_moving(&self) -> bool {
        !self.due.moving().is_empty()
    }

    /// After some reads without threads: where nobody writes, readers look after the design, and
    /// take part in a move with a task each time. What fails is kept where a thread's failure would be.
    pub(super) fn after_reads(&self, keyspace: &KeyspaceInner) {
        if self.options.background_threads == 0 {
            self.ask_designs();
            if keyspace.moving.load().is_some()
                && let Err(error) = self.step()
            {
                log::warn!("{}: moving to a design: {error}", self.dir.display());
            }
        }
    }

    /// What pickers need to know of a keyspace's move.
    pub(super) fn picker_move(&self, keyspace: &KeyspaceInner) -> Option<Moving> {
        let stored = keyspace.moving.load_full()?;
        let mut moving = Moving {
            since: stored.since,
            bits: Vec::new(),
        };
        if stored.rewrite_filters {
            moving.bits = self.wanted_bits(&keyspace.state.load().version, &keyspace.options());
        }
        Some(moving)
    }

    /// The filter bits per key of new files by level; none where they go by more than the level: then
    /// tables get theirs when they are next written.
    pub(super) fn wanted_bits(&self, version: &Version, options: &KeyspaceOptions) -> Vec<f64> {
        if options.filter.allocation.rule().is_some() {
            return Vec::new();
        }
        let wish = options.filter_wish();
        let levels = version.levels().len().max(1) as u32;
        let bits = |level| {
            let context = FileContext {
                level,
                expected_entries: 1 << 20,
                bits_per_key: None,
            };
            f64::from(choose(&wish, &context).likeliest().millibits()) / 1000.0
        };
        (0..levels).map(bits).collect()
    }

    /// Ends the moves of keyspaces that have nothing left to do; whether there was one.
    pub(super) fn end_moves(&self) -> Result<bool> {
        let mut ended = false;
        for keyspace in self.due.moving() {
            let mut tree = self.tree.lock();
            let Some(stored) = keyspace.moving.load_full() else {
                continue;
            };
            let version = keyspace.state.load().version.clone();
            let busy = version.files().any(|file| file.is_busy());
            if keyspace.check_alive().is_err()
                || busy
                || pick(&version, &self.picker_options(&keyspace)).is_some()
            {
                continue;
            }
            let reached = StoredDesign {
                reached: true,
                ..*stored
            };
            self.log_design(&mut tree, &keyspace, reached)?;
            keyspace.moving.store(None);
            ended = true;
            self.signal.notify();
        }
        Ok(ended)
    }
}
