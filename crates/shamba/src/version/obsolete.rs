//! The files of a tree that nobody needs any more, and the memory of those that somebody does.
//!
//! A file that left the tree comes here when its last holder lets go, and maintenance deletes it.
//! So a file that anyone can still read is never deleted, and is charged for as long. Thread-safe.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::budget::{Budget, Reservation, Role};

/// The numbers of files that can be deleted, and the memory of those that cannot: what the tree's
/// files are charged. Any thread may add; maintenance takes.
#[derive(Debug)]
pub(crate) struct Obsolete {
    /// Each file's number and its name in the block cache.
    files: Mutex<Vec<(u64, u64)>>,
    budget: Arc<Budget>,
    memory: Mutex<Reservation>,
}

impl Obsolete {
    /// An empty list, for a tree without files.
    pub(crate) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Obsolete {
            files: Mutex::default(),
            budget: Arc::clone(budget),
            memory: Mutex::new(budget.open_account(Role::Files)),
        })
    }

    /// The budget that files are charged to.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Charges files that enter the tree.
    pub(crate) fn charge(&self, bytes: u64) {
        let mut more = self.budget.reserve_at_once(Role::Files, bytes);
        more.move_to(&mut self.memory.lock(), bytes);
    }

    /// The same, where all files of trees under this budget have at most `most` bytes then; else
    /// nothing is charged, and the answer is false.
    pub(super) fn charge_within(&self, bytes: u64, most: u64) -> bool {
        let fits = self.budget.used_by(Role::Files) + bytes <= most;
        if fits {
            self.charge(bytes);
        }
        fits
    }

    /// Files left the tree, and the last holders let go of them.
    pub(super) fn release(&self, bytes: u64) {
        self.memory.lock().shrink(bytes);
    }

    /// Adds a file.
    pub(crate) fn push(&self, number: u64, cache_id: u64) {
        self.files.lock().push((number, cache_id));
    }

    /// Takes all files added so far.
    pub(crate) fn take(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut *self.files.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_meta::{FileInfo, FileMeta};
    use super::*;

    fn file(number: u64) -> FileMeta {
        FileMeta::new(&FileInfo {
            number,
            ..FileInfo::default()
        })
    }

    #[test]
    fn an_obsolete_file_is_listed_when_its_last_holder_lets_go() {
        let budget = Budget::new(1 << 20);
        let list = Obsolete::new(&budget);
        let (live, dead) = (file(1), file(2));
        list.charge(live.memory() + dead.memory());
        let charged = live.memory();
        let holder = dead.clone();
        dead.mark_obsolete(&list);
        drop((live, dead));
        assert_eq!(list.take(), []);
        assert!(budget.used_by(Role::Files) >= 2 * charged);
        drop(holder);
        assert_eq!(budget.used_by(Role::Files), charged);
        assert_eq!(list.take(), [(2, 0)]);
        assert_eq!(list.take(), []);
    }
}
