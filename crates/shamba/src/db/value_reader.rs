//! A value that is read in pieces, so that it may be larger than memory.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::keyspaces::KeyspaceInner;
use super::read::LocatedValue;
use super::visibility::SnapshotPoint;
use super::{DbShared, Value};
use crate::error::Result;
use crate::table::{LookupTotals, TableValue};
use crate::version::FileMeta;

/// A value, to be read in pieces ([`Db::get_reader`](crate::Db::get_reader)). What it reads stays
/// on storage for as long as it is held, whatever is written meanwhile; in memory it has a piece at
/// most.
pub struct ValueReader {
    db: Arc<DbShared>,
    value: LocatedValue,
    /// Where the next byte is read.
    at: u64,
    /// The piece read last, and its number.
    piece: Option<(u32, TableValue)>,
    /// The bytes of each piece but the last.
    piece_len: u64,
}

impl std::fmt::Debug for ValueReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueReader")
            .field("len", &self.len())
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl ValueReader {
    pub(super) fn find(
        db: &Arc<DbShared>,
        keyspace: &KeyspaceInner,
        key: &[u8],
        snapshot: Option<SnapshotPoint>,
    ) -> Result<Option<ValueReader>> {
        let reads = db.inner().reads();
        let value = reads.locate(keyspace, key, snapshot)?;
        value.map(|value| ValueReader::new(db, value)).transpose()
    }

    /// Reads a value that is in memory.
    pub(super) fn whole(db: &Arc<DbShared>, value: Value) -> Result<ValueReader> {
        ValueReader::new(db, LocatedValue::Here(value))
    }

    pub(super) fn new(db: &Arc<DbShared>, value: LocatedValue) -> Result<ValueReader> {
        let mut reader = ValueReader {
            db: Arc::clone(db),
            value,
            at: 0,
            piece: None,
            piece_len: u64::MAX,
        };
        if let LocatedValue::InPieces { file, .. } = &reader.value {
            let first = reader.read_piece(file, 0)?;
            reader.piece_len = first.len().max(1) as u64;
            reader.piece = Some((0, first));
        }
        Ok(reader)
    }

    /// The bytes of the value.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.value {
            LocatedValue::Here(value) => value.len() as u64,
            LocatedValue::InPieces { pointer, .. } => pointer.len,
        }
    }

    /// Whether the value has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read_piece(&self, file: &FileMeta, number: u32) -> Result<TableValue> {
        let inner = self.db.inner();
        inner.shared().check_open()?;
        let mut totals = LookupTotals::default();
        let piece = inner.files().tables().piece(file, number, &mut totals);
        inner.reads().count_more(&totals);
        piece
    }

    /// What of the value is in memory from the present place on, and is not empty before its end.
    fn rest(&mut self) -> Result<&[u8]> {
        let number = u32::try_from(self.at / self.piece_len).unwrap_or(u32::MAX);
        let from = usize::try_from(self.at % self.piece_len).unwrap_or(usize::MAX);
        let file = match &self.value {
            LocatedValue::Here(value) => return Ok(value.get(from..).unwrap_or_default()),
            LocatedValue::InPieces { file, pointer } if self.at < pointer.len => file,
            LocatedValue::InPieces { .. } => return Ok(&[]),
        };
        if self.piece.as_ref().is_none_or(|(held, _)| *held != number) {
            // The one before goes first: of two there may be no room.
            let file = file.clone();
            self.piece = None;
            self.piece = Some((number, self.read_piece(&file, number)?));
        }
        let piece = self.piece.as_ref().map(|(_, piece)| piece);
        Ok(piece
            .and_then(|piece| piece.get(from..))
            .unwrap_or_default())
    }
}

impl Read for ValueReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (len, at) = (self.len(), self.at);
        let rest = self.rest().map_err(io::Error::other)?;
        if rest.is_empty() && at < len && !into.is_empty() {
            let what = "a value ends before its length";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        let left = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
        let bytes = rest.len().min(into.len()).min(left);
        if let (Some(to), Some(from)) = (into.get_mut(..bytes), rest.get(..bytes)) {
            to.copy_from_slice(from);
        }
        self.at += bytes as u64;
        Ok(bytes)
    }
}

impl Seek for ValueReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "before the value begins");
        self.at = at.ok_or_else(before)?;
        Ok(self.at)
    }
}
