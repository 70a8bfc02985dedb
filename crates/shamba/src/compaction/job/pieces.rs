//! Writes a value in pieces, as they come, into a value file of its own.
//!
//! Belongs to one thread. Until its file is finished it is removed when this is dropped.

use std::path::Path;
use std::sync::Arc;

use super::{NewTable, begin_file, table_path};
use crate::base::key::{EntryKind, Tag};
use crate::base::pointer::{ValuePointer, piece_key};
use crate::budget::{Budget, Role, table_buffer};
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::table::{TableBuildOptions, TableBuilder};
use crate::version::FileInfo;

/// A value that is being written.
pub(crate) struct PiecesWriter<'a> {
    fs: &'a Arc<dyn Fs>,
    dir: &'a Path,
    number: u64,
    /// None once the file is finished.
    builder: Option<TableBuilder>,
    pieces: u32,
    len: u64,
}

impl<'a> PiecesWriter<'a> {
    /// Begins a value file of this number.
    pub(crate) fn new(
        fs: &'a Arc<dyn Fs>,
        dir: &'a Path,
        number: u64,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let options = TableBuildOptions {
            write_buffer: table_buffer(budget.limit()) as usize,
            ..TableBuildOptions::default()
        };
        let memory = budget.reserve(Role::Wal, 0);
        let builder = begin_file((fs, dir), number, &options, memory)?;
        Ok(PiecesWriter {
            fs,
            dir,
            number,
            builder: Some(builder),
            pieces: 0,
            len: 0,
        })
    }

    /// Adds a piece: all but the last are of one length.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Result<()> {
        let Some(builder) = &mut self.builder else {
            return Ok(());
        };
        let tag = Tag::new(0, EntryKind::Put);
        builder.add(&piece_key(self.pieces), tag, piece)?;
        self.len += piece.len() as u64;
        let next = self.pieces.checked_add(1);
        self.pieces = next.ok_or_else(|| Error::ValueTooLarge {
            len: usize::try_from(self.len).unwrap_or(usize::MAX),
            max: usize::try_from(self.len).unwrap_or(usize::MAX),
            needed: None,
        })?;
        Ok(())
    }

    /// Makes the file durable; gives what the tree is told of it, and what points to the value.
    pub(crate) fn finish(mut self) -> Result<(NewTable, ValuePointer)> {
        let Some(builder) = self.builder.take() else {
            return Err(Error::Closed);
        };
        let finished = builder.finish(true).inspect_err(|_| {
            let _ = self.fs.remove(&table_path(self.dir, self.number));
        });
        let summary = finished?;
        let info = FileInfo {
            points_to: vec![(self.number, self.len)],
            ..NewTable::info_of(self.number, &summary)
        };
        let table = NewTable {
            info,
            prepared: None,
        };
        Ok((table, ValuePointer::in_pieces(self.number, self.len)))
    }
}

impl Drop for PiecesWriter<'_> {
    fn drop(&mut self) {
        if self.builder.take().is_some() {
            let _ = self.fs.remove(&table_path(self.dir, self.number));
        }
    }
}
