//! The files of a tree by number, for as long as a manifest is read: its edits name files so; and while the
//! files in the folder are compared with it. Edits that are made later hold the files themselves.

use hashbrown::HashTable;

use super::{FileMeta, Inconsistent, VersionEdit};
use crate::budget::Reservation;

/// Files by number. Nine bytes for each place, of which between half and all are taken.
#[derive(Debug, Default)]
pub(crate) struct ByNumber {
    files: HashTable<FileMeta>,
    /// What it is charged, once that is not another's business.
    held: Option<Reservation>,
}

/// Numbers follow each other, and the table takes low and high bits for different things.
fn hash(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

impl ByNumber {
    /// The file of a number.
    pub(crate) fn get(&self, number: u64) -> Option<&FileMeta> {
        self.files
            .find(hash(number), |file| file.number() == number)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// All files, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FileMeta> {
        self.files.iter()
    }

    /// The bytes it takes at most, while it grows too.
    pub(super) fn memory(&self) -> u64 {
        const PLACE: usize = size_of::<FileMeta>() + 1;
        // One place in eight stays free; what it grows from is half as large.
        let places = self.files.capacity() / 7 * 8;
        (places * PLACE / 2 * 3) as u64
    }

    /// Keeps the memory that it is charged.
    pub(super) fn hold(&mut self, memory: Reservation) {
        self.held = Some(memory);
    }

    fn remove(&mut self, number: u64) {
        let place = self
            .files
            .find_entry(hash(number), |file| file.number() == number);
        if let Ok(found) = place {
            found.remove();
        }
    }

    /// Takes note of an edit that was applied; `dropped` are the files that left the tree with it.
    pub(super) fn follow(
        &mut self,
        edit: &VersionEdit,
        dropped: &[FileMeta],
    ) -> Result<(), Inconsistent> {
        dropped.iter().for_each(|file| self.remove(file.number()));
        for change in edit.keyspaces.iter().filter(|change| !change.drop) {
            for gone in &change.removes {
                self.remove(gone.file.number());
            }
            for added in &change.adds {
                let number = added.file.number();
                if self.get(number).is_some() {
                    return Err(Inconsistent::new(format!("file {number} appears twice")));
                }
                let file = added.file.clone();
                self.files
                    .insert_unique(hash(number), file, |file| hash(file.number()));
            }
        }
        Ok(())
    }
}
