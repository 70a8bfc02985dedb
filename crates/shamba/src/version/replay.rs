//! The state that a manifest's records give, one record after the other, within the memory budget.
//!
//! A snapshot is put in its place part by part, and no edit that follows is long, so that beside
//! the tree there are a record and a table of the files by number at a time. Files are charged as
//! they come. Where they need more than they may have ([`most_of_files`]), the tree is let go of,
//! and the rest is only counted, to say how much memory it would take.

use std::collections::HashMap;
use std::sync::Arc;

use super::Inconsistent;
use super::by_number::ByNumber;
use super::edit::{EditError, EditPart, VersionEdit};
use super::file_meta::{FileInfo, FileMeta};
use super::obsolete::Obsolete;
use super::set::TreeState;
use crate::budget::{Reservation, Role, least_limit_for_files, most_of_files};
use crate::error::Error;

/// Why a record cannot follow those before it.
pub(super) enum Wrong {
    Edit(EditError),
    State(Inconsistent),
}

/// A manifest being read.
pub(super) struct Replay {
    state: TreeState,
    files: ByNumber,
    /// The edit that goes on in the next record.
    edit: VersionEdit,
    /// Edits that are whole.
    pub(super) edits: u64,
    /// Whether a record said which format the manifest has.
    pub(super) formatted: bool,
    account: Arc<Obsolete>,
    /// What is charged for the files of the state.
    charged: u64,
    /// For `files` and a record.
    working: Reservation,
    too_many: Option<Counted>,
}

/// Files that there is no memory for.
#[derive(Default)]
struct Counted {
    /// The keyspace of each, and its bytes.
    files: HashMap<u64, (u32, u64)>,
}

impl Replay {
    /// Nothing read yet. `record` is how long a record may be, and the files are charged to
    /// `account`.
    pub(super) fn new(record: usize, account: &Arc<Obsolete>) -> Self {
        Replay {
            state: TreeState::default(),
            files: ByNumber::default(),
            edit: VersionEdit::default(),
            edits: 0,
            formatted: false,
            account: Arc::clone(account),
            charged: 0,
            working: account.budget().reserve(Role::Wal, 2 * record as u64),
            too_many: None,
        }
    }

    /// Takes a record, and tells whether its edit goes on.
    pub(super) fn take(&mut self, payload: &[u8]) -> Result<EditPart, Wrong> {
        let counting = self.too_many.is_some();
        let find = |number| {
            if counting {
                Some(FileMeta::new(&FileInfo {
                    number,
                    ..FileInfo::default()
                }))
            } else {
                self.files.get(number).cloned()
            }
        };
        let part = self.edit.decode_part(payload, find);
        let part = part.map_err(Wrong::Edit)?;
        self.formatted |= self.edit.format.is_some();
        if part == EditPart::Last || self.edits == 0 {
            let edit = std::mem::take(&mut self.edit);
            self.apply(&edit).map_err(Wrong::State)?;
            self.edits += u64::from(part == EditPart::Last);
        }
        Ok(part)
    }

    fn apply(&mut self, edit: &VersionEdit) -> Result<(), Inconsistent> {
        if let Some(counted) = &mut self.too_many {
            counted.follow(edit);
            return Ok(());
        }
        let memory = |files: &mut dyn Iterator<Item = &FileMeta>| files.map(FileMeta::memory).sum();
        let kept = edit.keyspaces.iter().filter(|change| !change.drop);
        let added = || kept.clone().flat_map(|change| &change.adds);
        let more: u64 = memory(&mut added().map(|added| &added.file));
        let dropped = self.state.files_dropped_by(edit);
        // Of one that is taken out and put in again there is what was added last.
        let replaced = added().filter_map(|added| self.files.get(added.file.number()));
        let gone: u64 = memory(&mut dropped.iter().chain(replaced));
        // First, so that a tree which fits is read whatever it was before. For the moment the files
        // of one edit are there beside what is charged.
        self.account.release(gone);
        self.charged -= gone.min(self.charged);
        let most = most_of_files(self.account.budget().limit());
        if !self.account.charge_within(more, most) {
            self.give_up().follow(edit);
            return Ok(());
        }
        self.charged += more;
        self.state.apply(edit)?;
        self.files.follow(edit, &dropped)?;
        let working = self.files.memory();
        if working > self.working.bytes() {
            self.working.resize(working);
        }
        Ok(())
    }

    /// Lets go of all files and counts from now on.
    fn give_up(&mut self) -> &mut Counted {
        let mut counted = Counted::default();
        for (&id, keyspace) in &self.state.keyspaces {
            for file in keyspace.version.all_files() {
                counted.files.insert(file.number(), (id, file.memory()));
            }
        }
        self.state = TreeState::default();
        self.files = ByNumber::default();
        self.account.release(std::mem::take(&mut self.charged));
        self.too_many.insert(counted)
    }

    /// The state, and its files by number.
    ///
    /// # Errors
    /// `BudgetTooSmall`.
    pub(super) fn finish(mut self) -> Result<(TreeState, ByNumber), Error> {
        if let Some(counted) = &self.too_many {
            let budget = self.account.budget();
            let own: u64 = counted.files.values().map(|file| file.1).sum();
            drop(std::mem::replace(
                &mut self.working,
                budget.open_account(Role::Wal),
            ));
            let bytes = own + budget.used_by(Role::Files);
            return Err(Error::BudgetTooSmall {
                limit: budget.limit(),
                needed: least_limit_for_files(bytes),
            });
        }
        // What was charged stays so: the files are their holders' from now on.
        self.charged = 0;
        self.files.hold(self.working);
        Ok((self.state, self.files))
    }
}

impl Counted {
    fn follow(&mut self, edit: &VersionEdit) {
        for change in &edit.keyspaces {
            for gone in &change.removes {
                self.files.remove(&gone.file.number());
            }
            for added in &change.adds {
                let file = (change.id, added.file.memory());
                self.files.insert(added.file.number(), file);
            }
            if change.drop {
                self.files.retain(|_, file| file.0 != change.id);
            }
        }
    }
}
