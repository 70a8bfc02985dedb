//! Values that are written and read in pieces, so that one may be larger than memory: the way of
//! [`Db::put_reader`] and of [`ValueReader`].
//!
//! A value that is longer than a piece becomes a value file of its own, durable and in the tree
//! before the entry that points to it is logged ([`PendingValues`] keeps it there). A crash in
//! between leaves a file to which nothing points, which the next open takes out.
//!
//! [`PendingValues`]: super::keyspaces::PendingValues

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::keyspaces::KeyspaceInner;
use super::read::LocatedValue;
use super::visibility::SnapshotPoint;
use super::{Db, DbInner, DbShared, Keyspace, Snapshot};
use crate::budget::{AdmittedWork, piece_of_value};
use crate::compaction::job::PiecesWriter;
use crate::error::{Error, Result};
use crate::fs::PAGE;
use crate::options::WriteOptions;
use crate::table::{LookupTotals, TableValue, piece_len};
use crate::version::{Feature, FileMeta, KeyspaceEdit, VersionEdit};

/// About what is known of a value file takes, several times over.
const KNOWN_BYTES: u64 = 1 << 10;

/// What a value file takes in what is known of tables that point to it, twice while these are
/// merged.
const LISTED_BYTES: u64 = 32;

/// What a piece takes on its way: itself, as a block, encoded, and as pages.
const COPIES: u64 = 4;

/// Fills a buffer from a reader, as far as the reader goes.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let source = Arc::new(error);
                return Err(Error::ValueSource { source });
            }
        }
    }
    Ok(filled)
}

/// Sets a key of a keyspace to all that a reader gives.
fn put_reader(
    db: &DbInner,
    keyspace: &Arc<KeyspaceInner>,
    key: &[u8],
    from: &mut dyn Read,
    options: WriteOptions,
) -> Result<()> {
    keyspace.check_alive()?;
    let (shared, writes) = (db.shared(), db.writes());
    shared.check_writable()?;
    writes.check_sizes(key.len(), 0)?;
    let budget = shared.budget();
    let piece = piece_len(piece_of_value(shared.limit()) / PAGE as u64);
    let go_on = || shared.check_writable();
    let permit = budget.admit(AdmittedWork::LargeEntries, || COPIES * piece, go_on)?;
    let mut buffer = vec![0; usize::try_from(piece).unwrap_or(usize::MAX)];
    let mut filled = fill(from, &mut buffer)?;
    // What one piece holds goes the way of any value, for which others make room.
    if filled < buffer.len() {
        buffer.truncate(filled);
        drop(permit);
        return writes.write_one(keyspace, key, Some(&buffer), options);
    }
    // What is known of the file is in memory for as long as it is there.
    let files = keyspace.version().value_files().iter().len() as u64;
    let known = KNOWN_BYTES + files * LISTED_BYTES;
    db.files().check_room(known, 0)?;
    db.files().state_feature(Feature::ValueFiles)?;
    let (fs, dir) = (shared.fs(), shared.dir());
    let number = db.files().next_file().fetch_add(1, Ordering::Relaxed);
    let mut pieces = PiecesWriter::new(fs, dir, number, budget)?;
    while filled > 0 {
        let piece = buffer.get(..filled).unwrap_or_default();
        pieces.add(piece)?;
        filled = fill(from, &mut buffer)?;
    }
    let (table, pointer) = pieces.finish()?;
    drop((buffer, permit));
    // Then it is a part of the tree, to which something may point.
    db.files().sync_new(std::iter::once(&table))?;
    keyspace.pending_values().begin(number);
    let added = {
        let mut tree = db.files().tree();
        let edit = KeyspaceEdit {
            adds: vec![table.as_value_file(tree.manifest.state().next_created)],
            ..KeyspaceEdit::new(keyspace.id())
        };
        let added = match keyspace.check_alive() {
            Ok(()) => db.files().check_room(known, 0).and_then(|()| {
                let edit = VersionEdit::of_keyspace(edit);
                db.files().install(&mut tree, keyspace, edit)
            }),
            dropped => dropped,
        };
        added.inspect_err(|_| {
            db.files().remove_unlogged(&tree, std::iter::once(&table));
            keyspace.pending_values().give_up(number);
        })
    };
    added?;
    let written = writes.write_pointer((keyspace, shared.id()), key, pointer, options);
    match &written {
        Ok(()) => {
            // By now it is in a memtable, or in tables already.
            let state = keyspace.state();
            let in_memory = state.memtables().filter_map(|memtable| memtable.last_seq());
            let newest = in_memory.max().unwrap_or(0).max(keyspace.flushed_seq());
            keyspace.pending_values().written(number, newest);
        }
        // Where nobody knows what is in the log, the next open finds out.
        Err(_) if shared.is_poisoned() => {}
        Err(_) => {
            keyspace.pending_values().give_up(number);
            db.files().take_out_unused(keyspace);
            // Without threads nobody does before the next flush.
            db.files().remove_obsolete();
        }
    }
    written
}

impl Db {
    /// Sets a key of the default keyspace to all that a reader gives, however much that is: more
    /// than a small part of the memory budget goes into a file of its own as it comes, and never is
    /// in memory whole. Read it back with [`Db::get_reader`]. A value is there whole or, where the
    /// reader fails, not at all.
    ///
    /// While the reader is being read, other large puts of databases with this budget may wait.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use shamba::{MemoryBudget, Options};
    /// use std::io::{Read, copy, repeat, sink};
    /// let options = Options::new().memory(MemoryBudget::bytes(4 << 20));
    /// let db = options.open(dir.path())?;
    /// db.put_reader("film", repeat(7).take(64 << 20))?;
    /// let mut film = db.get_reader("film")?.expect("it was put");
    /// assert_eq!(copy(&mut film, &mut sink())?, 64 << 20);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`]; [`Error::ValueSource`] where the reader fails.
    pub fn put_reader(&self, key: impl AsRef<[u8]>, value: impl Read) -> Result<()> {
        self.put_reader_with(key, value, WriteOptions::default())
    }

    /// [`Db::put_reader`] with a durability, or a time to live, of its own.
    ///
    /// # Errors
    /// As [`Db::put_reader`].
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Read,
        options: WriteOptions,
    ) -> Result<()> {
        let keyspace = self.default_keyspace();
        keyspace.put_reader_with(key, value, options)
    }

    /// The value of a key of the default keyspace as it is now, to be read in pieces. Later writes
    /// do not change what it reads.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        self.default_keyspace().get_reader(key)
    }
}

impl Keyspace {
    /// Sets a key to all that a reader gives: see [`Db::put_reader`].
    ///
    /// # Errors
    /// As [`Db::put_reader`].
    pub fn put_reader(&self, key: impl AsRef<[u8]>, value: impl Read) -> Result<()> {
        self.put_reader_with(key, value, WriteOptions::default())
    }

    /// [`Keyspace::put_reader`] with a durability, or a time to live, of its own.
    ///
    /// # Errors
    /// As [`Db::put_reader`].
    pub fn put_reader_with(
        &self,
        key: impl AsRef<[u8]>,
        mut value: impl Read,
        options: WriteOptions,
    ) -> Result<()> {
        let inner = self.shared().inner();
        put_reader(inner, self.inner(), key.as_ref(), &mut value, options)
    }

    /// The value of a key as it is now, to be read in pieces: see [`Db::get_reader`].
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        ValueReader::find(self.shared(), self.inner(), key.as_ref(), None)
    }
}

impl Snapshot {
    /// The value of a key of the default keyspace then, to be read in pieces.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        let keyspace = self.shared().inner().default_keyspace();
        ValueReader::find(self.shared(), keyspace, key.as_ref(), Some(self.point()))
    }

    /// The value of a key of a keyspace then, to be read in pieces.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get_reader_in(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<ValueReader>> {
        keyspace.check_database(self.shared().inner())?;
        ValueReader::find(
            self.shared(),
            keyspace.inner(),
            key.as_ref(),
            Some(self.point()),
        )
    }
}

/// A value, to be read in pieces ([`Db::get_reader`]). What it reads stays on storage for as long
/// as it is held, whatever is written meanwhile; in memory it has a piece at most.
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
    fn find(
        db: &Arc<DbShared>,
        keyspace: &KeyspaceInner,
        key: &[u8],
        snapshot: Option<SnapshotPoint>,
    ) -> Result<Option<ValueReader>> {
        let reads = db.inner().reads();
        let Some(value) = reads.locate(keyspace, key, snapshot)? else {
            return Ok(None);
        };
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
        Ok(Some(reader))
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
