//! Lookups of a key whose newest entry points into a value file.

use super::{Found, PointReader, ReadPath, Value};
use crate::base::expiring;
use crate::base::key::Tag;
use crate::base::pointer::{ValuePointer, split};
use crate::db::keyspaces::KeyspaceInner;
use crate::db::visibility::SnapshotPoint;
use crate::error::{Error, Result};
use crate::table::{LookupTotals, TableCache, TableValue};
use crate::version::{FileMeta, ValueFiles};

/// The value that an entry of a key points to, in one of a version's value files.
///
/// # Errors
/// [`Error::Corruption`] where there is no such file or value, and those of reading.
pub(in crate::db) fn pointed(
    tables: &TableCache,
    values: &ValueFiles,
    (key, pointer): (&[u8], ValuePointer),
    totals: &mut LookupTotals,
) -> Result<TableValue> {
    match values.get(pointer.file) {
        Some(held) => tables.value_of(&held.file, key, pointer, totals),
        None => Err(no_file(tables, pointer)),
    }
}

/// Appends the pieces of the value that an entry points to.
///
/// # Errors
/// As [`pointed`].
pub(in crate::db) fn gather(
    tables: &TableCache,
    values: &ValueFiles,
    pointer: ValuePointer,
    totals: &mut LookupTotals,
    into: &mut Vec<u8>,
) -> Result<()> {
    match values.get(pointer.file) {
        Some(held) => tables.gather(&held.file, pointer, totals, into),
        None => Err(no_file(tables, pointer)),
    }
}

#[cold]
pub(super) fn no_file(tables: &TableCache, pointer: ValuePointer) -> Error {
    let what = "an entry points to this value file, which the manifest does not have";
    Error::corruption(tables.path_of(pointer.file), 0, what)
}

/// A value, or where it is to be read in pieces.
pub(in crate::db) enum LocatedValue {
    Here(Value),
    InPieces {
        file: FileMeta,
        pointer: ValuePointer,
    },
}

impl ReadPath {
    /// The value of a key, of one in pieces where these are.
    pub(in crate::db) fn locate(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        snapshot: Option<SnapshotPoint>,
    ) -> Result<Option<LocatedValue>> {
        self.read(keyspace, snapshot, 1, |reader| {
            let found = reader.find(key).and_then(|found| {
                let found = match found {
                    Some(Found::Operand) => Some(reader.find_merged(key)?),
                    Some(Found::Pointer) if reader.pointer.get().is_in_pieces() => {
                        return reader.pieces().map(Some);
                    }
                    Some(Found::Pointer) => Some(reader.find_pointed(key)?),
                    found => found,
                };
                Ok(found.and_then(Found::into_value).map(LocatedValue::Here))
            });
            (u64::from(matches!(found, Ok(Some(_)))), found)
        })
    }

    /// Where the pieces of a value are to which no entry of the tree points yet.
    pub(in crate::db) fn locate_pointed(
        &self,
        keyspace: &KeyspaceInner,
        pointer: ValuePointer,
    ) -> Result<LocatedValue> {
        self.read(keyspace, None, 1, |reader| {
            reader.pointer.set(pointer);
            (1, reader.pieces())
        })
    }

    /// The value of a key to which no entry of the tree points yet.
    pub(in crate::db) fn get_pointed(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        pointer: ValuePointer,
    ) -> Result<Value> {
        self.read(keyspace, None, 1, |reader| {
            reader.pointer.set(pointer);
            (1, reader.pointed_value(key))
        })
    }

    /// Counts what a lookup read after it was counted.
    pub(in crate::db) fn count_more(&self, totals: &LookupTotals) {
        self.count_reads(0, 0, totals);
    }
}

impl PointReader<'_> {
    /// What an entry that points to a value is at the moment.
    #[cold]
    pub(super) fn pointer_of<V>(&self, tag: Tag, stored: &[u8]) -> Found<V> {
        let expires = tag.kind().is_some_and(|kind| kind.expires());
        let pointer = if expires {
            expiring::at(stored, self.time())
        } else {
            Some(stored)
        };
        let Some(pointer) = pointer else {
            return Found::Tombstone;
        };
        self.pointer.set(ValuePointer::read(pointer));
        Found::Pointer
    }

    /// The same of an entry of a table.
    #[cold]
    pub(super) fn pointer_in_table(&self, tag: Tag, stored: TableValue) -> Found {
        self.pointer_of(tag, &stored)
    }

    /// The value of a key to which the pointer leads that was found last.
    #[cold]
    pub(super) fn find_pointed(&mut self, key: &[u8]) -> Result<Found> {
        self.pointed_value(key).map(Found::Value)
    }

    /// Where the pieces are of the value to which the pointer leads that was found last.
    fn pieces(&self) -> Result<LocatedValue> {
        let pointer = self.pointer.get();
        let held = self.state.version.value_files().get(pointer.file);
        let held = held.ok_or_else(|| no_file(&self.path.tables, pointer))?;
        let file = held.file.clone();
        Ok(LocatedValue::InPieces { file, pointer })
    }

    fn pointed_value(&mut self, key: &[u8]) -> Result<Value> {
        let pointer = self.pointer.get();
        let values = self.state.version.value_files();
        let tables = &self.path.tables;
        let value = pointed(tables, values, (key, pointer), &mut self.totals)?;
        Ok(Value::in_table(value))
    }
}

/// The pointer of an entry, behind the moment when it expires if it does.
pub(in crate::db) fn pointer_in(tag: Tag, stored: &[u8]) -> ValuePointer {
    let pointer = |kind| ValuePointer::read(split(kind, stored).1);
    tag.kind().map_or(ValuePointer::NOWHERE, pointer)
}
