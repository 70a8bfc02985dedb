//! The files of a tree by number, for as long as a manifest is read: its edits name files so. Edits that
//! are made later hold the files themselves.

use std::sync::Arc;

use hashbrown::HashTable;

use super::{FileMeta, Inconsistent, VersionEdit};

/// Files by number. Nine bytes for each place, of which between half and all are taken.
#[derive(Debug, Default)]
pub(super) struct ByNumber(HashTable<Arc<FileMeta>>);

/// Numbers follow each other, and the table takes low and high bits for different things.
fn hash(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

impl ByNumber {
    /// The file of a number.
    pub(super) fn get(&self, number: u64) -> Option<&Arc<FileMeta>> {
        self.0.find(hash(number), |file| file.number == number)
    }

    fn remove(&mut self, number: u64) {
        if let Ok(found) = self
            .0
            .find_entry(hash(number), |file| file.number == number)
        {
            found.remove();
        }
    }

    /// Takes note of an edit that was applied; `dropped` are the files that left the tree with it.
    pub(super) fn follow(
        &mut self,
        edit: &VersionEdit,
        dropped: &[Arc<FileMeta>],
    ) -> Result<(), Inconsistent> {
        dropped.iter().for_each(|file| self.remove(file.number));
        for change in edit.keyspaces.iter().filter(|change| !change.drop) {
            for gone in &change.removes {
                self.remove(gone.file.number);
            }
            for added in &change.adds {
                let number = added.file.number;
                if self.get(number).is_some() {
                    return Err(Inconsistent::new(format!("file {number} appears twice")));
                }
                let file = Arc::clone(&added.file);
                self.0
                    .insert_unique(hash(number), file, |file| hash(file.number));
            }
        }
        Ok(())
    }
}
