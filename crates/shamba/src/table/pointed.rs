//! Values of value files: tables of the values that entries of other tables point to. A value is an
//! entry under the key of what points to it; or *pieces*, entries under their numbers, that are all
//! that its file has.
//!
//! Thread-safe, as [`TableCache`] is.

mod together;

use std::io;

use super::format::PAGE_PAYLOAD;
use super::get::{Get, GetState, Lookup, LookupTotals, ModuleReads, TableGet, TableValue};
use super::slot::TableFile;
use super::table_cache::TableCache;
use crate::base::key::{EntryKind, SeqNo, Tag};
use crate::base::pointer::{ValuePointer, piece_key};
use crate::base::sample;
use crate::error::{Error, Result};
pub(crate) use together::WantedValue;

/// What a block of one piece has beside it, at most: its key, lengths and restart points.
const BESIDE_PIECE: u64 = 48;

/// The length of pieces that fill blocks of so many pages.
pub(crate) fn piece_len(pages: u64) -> u64 {
    (pages * PAGE_PAYLOAD as u64).saturating_sub(BESIDE_PIECE)
}

const NO_VALUE: &str = "an entry points to a value that this value file does not have";

impl TableCache {
    /// A value, whole.
    ///
    /// # Errors
    /// [`Error::Corruption`] where the file has no such value, and those of reading.
    pub(crate) fn value_of(
        &self,
        file: &impl TableFile,
        key: &[u8],
        pointer: ValuePointer,
        totals: &mut LookupTotals,
    ) -> Result<TableValue> {
        if pointer.is_in_pieces() {
            return self.gathered(file, pointer, totals);
        }
        let value = self.entry_of(file, key, pointer.seq, totals)?;
        self.checked(file, Some(value), pointer)
    }

    /// A value, if it is as long as what points to it says.
    fn checked(
        &self,
        file: &impl TableFile,
        value: Option<TableValue>,
        pointer: ValuePointer,
    ) -> Result<TableValue> {
        let whole = value.filter(|value| value.len() as u64 == pointer.len);
        whole.ok_or_else(|| self.no_value(file))
    }

    /// The pieces of a value, together.
    #[cold]
    fn gathered(
        &self,
        file: &impl TableFile,
        pointer: ValuePointer,
        totals: &mut LookupTotals,
    ) -> Result<TableValue> {
        let mut value = Vec::new();
        self.gather(file, pointer, totals, &mut value)?;
        Ok(TableValue::Owned(value.into()))
    }

    /// Appends the pieces of a value to an empty buffer, which takes no more than the value.
    ///
    /// # Errors
    /// As [`Self::value_of`].
    #[cold]
    pub(crate) fn gather(
        &self,
        file: &impl TableFile,
        pointer: ValuePointer,
        totals: &mut LookupTotals,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let len = usize::try_from(pointer.len).unwrap_or(usize::MAX);
        let reserved = value.try_reserve_exact(len);
        reserved.map_err(|_| {
            let lacking = io::Error::from(io::ErrorKind::OutOfMemory);
            Error::io("read all of", self.path_of(file.number()), lacking)
        })?;
        for number in 0..u32::MAX {
            if value.len() >= len {
                break;
            }
            let piece = self.piece(file, number, totals)?;
            if piece.len() > len - value.len() {
                return Err(self.no_value(file));
            }
            value.extend_from_slice(&piece);
        }
        if value.len() == len {
            Ok(())
        } else {
            Err(self.no_value(file))
        }
    }

    /// A piece of the value that a file has in pieces.
    ///
    /// # Errors
    /// As [`Self::value_of`].
    pub(crate) fn piece(
        &self,
        file: &impl TableFile,
        number: u32,
        totals: &mut LookupTotals,
    ) -> Result<TableValue> {
        self.entry_of(file, &piece_key(number), 0, totals)
    }

    /// The value of the entry of a key that has this number.
    fn entry_of(
        &self,
        file: &impl TableFile,
        key: &[u8],
        seq: SeqNo,
        totals: &mut LookupTotals,
    ) -> Result<TableValue> {
        let opened = self.visit(file)?;
        let opened = opened.as_deref().ok_or(Error::Closed)?;
        let lookup = Lookup::new(key, seq, true);
        let mut state = GetState::new(opened.table(), &lookup, ModuleReads::UpTo(0));
        let pinned = opened.pinned().filter(|_| self.may_pin());
        let mut get = Get::new(opened.table(), pinned, &lookup, &mut state);
        let weight = sample::weight();
        if weight > 0 && self.may_pin() {
            self.missed(file.slot(), opened, get.partition());
        }
        let answer = get.finish();
        totals.add(get.trace());
        let value = entry_in(answer?, seq).ok_or_else(|| self.no_value(file))?;
        get.count_visit(true, weight);
        Ok(value)
    }

    fn no_value(&self, file: &impl TableFile) -> Error {
        Error::corruption(self.path_of(file.number()), 0, NO_VALUE)
    }
}

/// The value of the entry that has this number, if that is what a value file answers.
fn entry_in(answer: TableGet, seq: SeqNo) -> Option<TableValue> {
    match answer {
        TableGet::Found { tag, value } => (tag == Tag::new(seq, EntryKind::Put)).then_some(value),
        TableGet::Absent => None,
    }
}
