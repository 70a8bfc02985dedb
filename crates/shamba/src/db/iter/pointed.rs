//! Values of an iterator that lie in value files. One thread at a time.

use super::{Cursor, Position};
use crate::base::iter::InternalIterator;
use crate::base::key::Tag;
use crate::base::pointer::ValuePointer;
use crate::budget::{Reservation, Role};
use crate::db::read::{gather, pointed, pointer_in};
use crate::db::value_reader::ValueReader;
use crate::db::visibility::SnapshotPoint;
use crate::error::Result;
use crate::table::{LookupTotals, TableValue};

impl Cursor {
    /// The present value, to be read in pieces: of one that is larger than what iterators may hold,
    /// where this is an iterator of [keys only](crate::IterOptions::keys_only). None when not
    /// valid.
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get).
    pub fn value_reader(&self) -> Result<Option<ValueReader>> {
        if !self.valid() {
            return Ok(None);
        }
        let time = self.time.unwrap_or_else(|| self.db.inner().shared().now());
        let point = SnapshotPoint { time, ..self.held };
        ValueReader::find(&self.db, &self.keyspace, self.key(), Some(point))
    }

    /// The value that an entry points to, and what is held for it and for a copy.
    pub(super) fn load(
        &self,
        key: &[u8],
        tag: Tag,
        stored: &[u8],
    ) -> Result<(TableValue, Reservation)> {
        self.load_pointed(key, pointer_in(tag, stored))
    }

    fn load_pointed(&self, key: &[u8], pointer: ValuePointer) -> Result<(TableValue, Reservation)> {
        let inner = self.db.inner();
        // Before it is read: there may be no memory for it.
        let mut held = inner.shared().budget().open_account(Role::Iterators);
        let copies = if pointer.is_in_pieces() { 2 } else { 1 };
        held.grow_iterator(pointer.len.saturating_mul(copies), self.merge.sources())?;
        let mut totals = LookupTotals::default();
        let tables = inner.files().tables();
        // What scans read is not counted among lookups.
        let value = pointed(tables, &self.values, (key, pointer), &mut totals)?;
        Ok((value, held))
    }

    /// At the entry of the merge, which points to a value: with that.
    #[cold]
    pub(super) fn load_forward(&mut self, tag: Tag) -> Result<()> {
        if self.options.keys_only {
            self.place = Position::Pointed;
            return Ok(());
        }
        let pointer = pointer_in(tag, self.merge.value());
        let loaded = if pointer.is_in_pieces() {
            self.load_pieces(pointer)
        } else {
            let loaded = self.load_pointed(self.merge.key(), pointer);
            loaded.map(|(value, _held)| replace(&mut self.value, &value))
        };
        loaded.inspect_err(|_| self.place = Position::Nowhere)?;
        self.place = Position::Pointed;
        self.account()
    }

    /// The same of `self.key`, where the pointer was taken for the value.
    #[cold]
    pub(super) fn load_backward(&mut self) -> Result<()> {
        if self.options.keys_only {
            return Ok(());
        }
        let pointer = ValuePointer::read(&self.value);
        if pointer.is_in_pieces() {
            return self.load_pieces(pointer);
        }
        let (value, _held) = self.load_pointed(&self.key, pointer)?;
        replace(&mut self.value, &value);
        Ok(())
    }

    /// Reads the pieces of a value to where it is kept: of one of them at most there is a copy.
    fn load_pieces(&mut self, pointer: ValuePointer) -> Result<()> {
        self.account()?;
        let len = usize::try_from(pointer.len).unwrap_or(usize::MAX);
        if let Some(more) = len.checked_sub(self.value.capacity()) {
            // Before it is read: there may be no memory for it.
            let sources = self.merge.sources();
            self.memory.grow_iterator(more as u64, sources)?;
            self.value = Vec::new();
        }
        let inner = self.db.inner();
        let mut totals = LookupTotals::default();
        let (tables, values) = (inner.files().tables(), &self.values);
        self.value.clear();
        gather(tables, values, pointer, &mut totals, &mut self.value)
    }
}

fn replace(value: &mut Vec<u8>, by: &[u8]) {
    value.clear();
    value.extend_from_slice(by);
}
