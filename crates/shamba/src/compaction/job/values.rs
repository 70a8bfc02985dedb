//! Values that a flush or merge takes out of its entries: they go to a value file, and the entries
//! point to them. What is mostly garbage of other value files is left behind on the way.
//!
//! Belongs to one job. The value files are a part of what the job installs, or are removed with it.

use std::sync::atomic::Ordering;

use super::{MergeOutput, NewTable, NewTables, begin_file, table_path};
use crate::base::clock::Moment;
use crate::base::expiring;
use crate::base::key::{EntryKind, Tag};
use crate::base::pointer::{ValuePointer, split};
use crate::budget::{Role, most_of_value};
use crate::error::Result;
use crate::table::{
    LookupTotals, TableBuildOptions, TableBuilder, TableCache, TableSummary, TableValue,
};
use crate::version::{AddedFile, FileInfo, FileMeta, VALUE_LEVEL, ValueFiles};

/// Which values go to value files, and where those are that entries point to.
#[derive(Clone)]
pub(crate) struct Separation<'a> {
    /// Values from so many bytes on go to a value file; none do otherwise.
    pub(crate) from: Option<u64>,
    /// Bytes at which another value file is begun.
    pub(crate) target_file: u64,
    /// What entries point to.
    pub(crate) values: ValueFiles,
    pub(crate) tables: &'a TableCache,
}

/// The value file that is being written.
struct CurrentFile {
    number: u64,
    builder: TableBuilder,
    bytes: u64,
}

/// Writes the value files of a job.
pub(super) struct ValueWriter<'o> {
    output: &'o MergeOutput<'o>,
    current: Option<CurrentFile>,
    /// An entry's stored value, while it is made.
    stored: Vec<u8>,
}

/// An entry's tag and stored value once its value lies where it is to lie.
pub(super) type Placed<'a> = (Tag, &'a [u8]);

impl<'o> ValueWriter<'o> {
    pub(super) fn new(output: &'o MergeOutput<'o>) -> Self {
        ValueWriter {
            output,
            current: None,
            stored: Vec::new(),
        }
    }

    /// Sees to it that the value of an entry lies where it is to lie; gives its tag and stored
    /// value then.
    pub(super) fn place<'a>(
        &'a mut self,
        key: &[u8],
        tag: Tag,
        stored: &'a [u8],
        done: &mut NewTables,
    ) -> Result<Placed<'a>> {
        let Some(kind) = tag.kind() else {
            return Ok((tag, stored));
        };
        let (expiry, rest) = split(kind, stored);
        if kind.is_pointer() {
            let pointer = ValuePointer::read(rest);
            let Some(value) = self.leaving(key, pointer)? else {
                return Ok((tag, stored));
            };
            return self.write(key, tag, (expiry, &value), done);
        }
        let is_value = matches!(kind, EntryKind::Put | EntryKind::Expiring);
        let from = self.output.separation.from;
        if is_value && from.is_some_and(|from| rest.len() as u64 >= from) {
            return self.write(key, tag, (expiry, rest), done);
        }
        Ok((tag, stored))
    }

    /// The value of a pointer, if it is to leave its file.
    fn leaving(&self, key: &[u8], pointer: ValuePointer) -> Result<Option<TableValue>> {
        let separation = &self.output.separation;
        let Some(held) = separation.values.get(pointer.file) else {
            return Ok(None);
        };
        // With one in pieces there is nothing else in its file.
        if !held.is_mostly_garbage() || pointer.is_in_pieces() {
            return Ok(None);
        }
        let mut totals = LookupTotals::default();
        let value = separation
            .tables
            .value_of(&held.file, key, pointer, &mut totals);
        value.map(Some)
    }

    fn write<'a>(
        &'a mut self,
        key: &[u8],
        tag: Tag,
        (expiry, value): (&[u8], &[u8]),
        done: &mut NewTables,
    ) -> Result<Placed<'a>> {
        let full = self.current.as_ref().is_some_and(|current| {
            let builder = &current.builder;
            builder.estimated_len() >= self.output.separation.target_file
                || builder.is_full_before(key)
        });
        if full {
            self.finish(done)?;
        }
        let current = match &mut self.current {
            Some(current) => current,
            none => none.insert(begin(self.output)?),
        };
        let pointer = ValuePointer {
            file: current.number,
            seq: tag.seq(),
            len: value.len() as u64,
        };
        let there = Tag::new(tag.seq(), EntryKind::Put);
        current.builder.add(key, there, value)?;
        current.bytes += pointer.len;
        self.stored.clear();
        self.stored.extend_from_slice(expiry);
        pointer.put(&mut self.stored);
        let kind = if expiry.is_empty() {
            EntryKind::Pointer
        } else {
            EntryKind::ExpiringPointer
        };
        Ok((Tag::new(tag.seq(), kind), &self.stored))
    }

    /// Ends the present value file.
    pub(super) fn finish(&mut self, done: &mut NewTables) -> Result<()> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let (number, output) = (current.number, self.output);
        let finished = current.builder.finish(output.sync);
        let pushed = finished.and_then(|summary| {
            let info = FileInfo {
                points_to: vec![(number, current.bytes)],
                ..NewTable::info_of(number, &summary)
            };
            done.push_values(NewTable {
                info,
                prepared: None,
            })
        });
        pushed.inspect_err(|_| {
            let _ = output.fs.remove(&table_path(output.dir, number));
        })
    }

    /// Gives the present value file up.
    pub(super) fn abandon(&mut self) {
        if let Some(current) = self.current.take() {
            let path = table_path(self.output.dir, current.number);
            let _ = self.output.fs.remove(&path);
        }
    }

    /// The value that an entry points to, for a filter or an operator; none of one that there may
    /// be no memory for, such as those in pieces.
    pub(super) fn load(&self, key: &[u8], tag: Tag, stored: &[u8]) -> Result<Option<TableValue>> {
        let Some(kind) = tag.kind().filter(|kind| kind.is_pointer()) else {
            return Ok(None);
        };
        let pointer = ValuePointer::read(split(kind, stored).1);
        let separation = &self.output.separation;
        let most = most_of_value(self.output.budget.limit());
        let Some(held) = separation.values.get(pointer.file) else {
            return Ok(None);
        };
        if pointer.is_in_pieces() || pointer.len > most {
            return Ok(None);
        }
        let mut totals = LookupTotals::default();
        let tables = separation.tables;
        let value = tables.value_of(&held.file, key, pointer, &mut totals);
        value.map(Some)
    }
}

impl NewTable {
    /// What the tree is told of a table, as far as its properties say it.
    pub(super) fn info_of(number: u64, summary: &TableSummary) -> FileInfo {
        let properties = &summary.properties;
        FileInfo {
            number,
            size: summary.len,
            entries: properties.entries,
            tombstones: properties.tombstones,
            smallest: properties.smallest.as_slice().into(),
            largest: properties.largest.as_slice().into(),
            min_seq: properties.min_seq,
            max_seq: properties.max_seq,
            filter_bytes: properties.filter_bytes,
            index_bytes: properties.index_bytes,
            salt: summary.salt,
            ..FileInfo::default()
        }
    }

    /// A value file as an edit adds it, which is the database's install of this number.
    pub(crate) fn as_value_file(&self, created: u64) -> AddedFile {
        AddedFile {
            level: VALUE_LEVEL,
            run: 0,
            file: FileMeta::new(&FileInfo {
                created,
                ..self.info.clone()
            }),
        }
    }
}

/// The bytes of a value that an entry points to, and the number of its file.
pub(super) fn pointed_to(tag: Tag, stored: &[u8]) -> Option<ValuePointer> {
    let kind = tag.kind().filter(|kind| kind.is_pointer())?;
    Some(ValuePointer::read(split(kind, stored).1))
}

/// When an entry expires, if it ever does.
pub(super) fn expiry_of(tag: Tag, stored: &[u8]) -> Option<Moment> {
    tag.kind().filter(|kind| kind.expires())?;
    expiring::split(stored).map(|(moment, _)| moment)
}

fn begin(output: &MergeOutput<'_>) -> Result<CurrentFile> {
    let number = output.next_file.fetch_add(1, Ordering::Relaxed);
    // Whoever comes knows that the key is there.
    let options = TableBuildOptions {
        filter: TableBuildOptions::default().filter,
        other_filter: None,
        scan_filter: None,
        keep: None,
        ..output.options.clone()
    };
    let memory = output.budget.reserve(Role::Compaction, 0);
    let builder = begin_file((output.fs, output.dir), number, &options, memory)?;
    Ok(CurrentFile {
        number,
        builder,
        bytes: 0,
    })
}
