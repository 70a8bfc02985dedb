//! The files of a tree by number, for as long as a manifest is read: its edits name files so; and
//! while the files in the folder are compared with it. Edits that are made later hold the files
//! themselves.

use hashbrown::HashTable;

use super::{FileMeta, Inconsistent, VersionEdit};
use crate::budget::Reservation;

/// Parts that the files are spread over. Those of a quarter of a million files take 74 KB each,
/// which the C library's heap gives back when they are gone; after an allocation of 128 KiB and
/// more it keeps as many bytes and more at its end, for good. With half as many parts they are
/// twice as large, with twice as many an open of few files has twice as many empty ones.
const PARTS: usize = 64;

/// Files by number. Nine bytes for each place, of which between half and all are taken.
#[derive(Debug)]
pub(crate) struct ByNumber {
    parts: [HashTable<FileMeta>; PARTS],
    /// What it is charged, once that is not another's business.
    held: Option<Reservation>,
}

impl Default for ByNumber {
    fn default() -> Self {
        ByNumber {
            parts: std::array::from_fn(|_| HashTable::new()),
            held: None,
        }
    }
}

/// Numbers follow each other, and the table takes low and high bits for different things.
fn hash(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// The part of a hash: of bits between those that the table takes.
fn part_of(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

impl ByNumber {
    /// The file of a number.
    pub(crate) fn get(&self, number: u64) -> Option<&FileMeta> {
        let hash = hash(number);
        let part = self.parts.get(part_of(hash))?;
        part.find(hash, |file| file.number() == number)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }

    /// All files, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FileMeta> {
        self.parts.iter().flatten()
    }

    /// The bytes it takes at most, while it grows too.
    pub(super) fn memory(&self) -> u64 {
        const PLACE: usize = size_of::<FileMeta>() + 1;
        // One place in eight stays free, and one of four; what it grows from is half as large.
        let places = |part: &HashTable<FileMeta>| (part.capacity() * 8).div_ceil(7);
        let places: usize = self.parts.iter().map(places).sum();
        (places * PLACE / 2 * 3) as u64
    }

    /// Keeps the memory that it is charged.
    pub(super) fn hold(&mut self, memory: Reservation) {
        self.held = Some(memory);
    }

    fn remove(&mut self, number: u64) {
        let hash = hash(number);
        let part = self.parts.get_mut(part_of(hash));
        if let Some(Ok(found)) =
            part.map(|part| part.find_entry(hash, |file| file.number() == number))
        {
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
                let hash_of = |file: &FileMeta| hash(file.number());
                let file = added.file.clone();
                if let Some(part) = self.parts.get_mut(part_of(hash(number))) {
                    part.insert_unique(hash(number), file, hash_of);
                }
            }
        }
        Ok(())
    }
}
