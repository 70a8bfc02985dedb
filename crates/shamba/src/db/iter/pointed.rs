//! Values of an iterator that lie in value files. One thread at a time.

use super::{Cursor, Position};
use crate::base::iter::InternalIterator;
use crate::base::key::{EntryKind, Tag};
use crate::base::pointer::ValuePointer;
use crate::budget::{Reservation, Role};
use crate::db::read::{pointed, pointer_in};
use crate::error::Result;
use crate::table::{LookupTotals, TableValue};

impl Cursor {
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
        let loaded = self.load(self.merge.key(), tag, self.merge.value());
        let (value, held) = loaded.inspect_err(|_| self.place = Position::Nowhere)?;
        self.value.clear();
        self.value.extend_from_slice(&value);
        drop((value, held));
        self.place = Position::Pointed;
        self.account()
    }

    /// The same of `self.key`, where the pointer was taken for the value.
    #[cold]
    pub(super) fn load_backward(&mut self) -> Result<()> {
        if self.options.keys_only {
            return Ok(());
        }
        let pointer = Tag::new(0, EntryKind::Pointer);
        let (value, _held) = self.load(&self.key, pointer, &self.value)?;
        self.value.clear();
        self.value.extend_from_slice(&value);
        Ok(())
    }
}
