//! A value in a file of its own: durable and in the tree before the entry that points to it is
//! logged ([`PendingValues`] keeps it there). A crash in between leaves a file to which nothing
//! points, which the next open takes out.
//!
//! [`PendingValues`]: crate::db::keyspaces::PendingValues

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::pointer::ValuePointer;
use crate::budget::{AdmittedWork, max_memtable_bytes, piece_of_value};
use crate::compaction::job::PiecesWriter;
use crate::db::DbInner;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::{Error, Result};
use crate::fs::PAGE;
use crate::table::piece_len;
use crate::version::{Feature, KeyspaceEdit, VersionEdit};

/// About what is known of a value file takes, several times over.
const KNOWN_BYTES: u64 = 1 << 10;

/// What a value file takes in what is known of tables that point to it, twice while these are
/// merged.
const LISTED_BYTES: u64 = 32;

/// What a piece takes on its way: itself, as a block, encoded, and as pages.
const COPIES: u64 = 4;

/// Memtables' worth of values whose pointers wait for a flush, per keyspace. With half of it there
/// are twice as many small runs at level 0, with double of it values that were written over take
/// twice as much storage.
const WAITING: u64 = 4;

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

/// What a reader gave.
pub(in crate::db) enum Streamed {
    /// Less than a piece.
    Short(Vec<u8>),
    /// More: a file.
    File(UnpointedFile),
}

/// A value file to which no entry points yet.
#[must_use = "it is kept until it is settled"]
#[derive(Debug)]
pub(in crate::db) struct UnpointedFile {
    keyspace: Arc<KeyspaceInner>,
    number: u64,
    pub(in crate::db) pointer: ValuePointer,
}

/// Takes all that a reader gives for a key of a keyspace.
pub(in crate::db) fn stream(
    db: &DbInner,
    keyspace: &Arc<KeyspaceInner>,
    from: &mut dyn Read,
) -> Result<Streamed> {
    keyspace.check_alive()?;
    let shared = db.shared();
    shared.check_writable()?;
    let budget = shared.budget();
    let piece = piece_len(piece_of_value(shared.limit()) / PAGE as u64);
    let go_on = || shared.check_writable();
    let permit = budget.admit(AdmittedWork::LargeEntries, || COPIES * piece, go_on)?;
    let mut buffer = vec![0; usize::try_from(piece).unwrap_or(usize::MAX)];
    let mut filled = fill(from, &mut buffer)?;
    if filled < buffer.len() {
        buffer.truncate(filled);
        return Ok(Streamed::Short(buffer));
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
    keyspace.pending_values().begin(number, pointer.len);
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
    Ok(Streamed::File(UnpointedFile {
        keyspace: Arc::clone(keyspace),
        number,
        pointer,
    }))
}

impl UnpointedFile {
    /// Has the memtable flushed once what it points to is much: of values written over the files
    /// stay until then, and a memtable of pointers takes long to fill.
    fn flush_if_much_waits(&self, db: &DbInner) {
        let keyspace = &self.keyspace;
        let buffer = keyspace.options().write_buffer;
        let much = WAITING * buffer.min(max_memtable_bytes(db.shared().limit()));
        let waiting = keyspace.pending_values().bytes();
        if waiting <= much {
            return;
        }
        let mut writer = db.memtables().lock();
        // Where flushes lag it waits for them, as memtables do.
        let lag = waiting > 2 * much;
        let is_due = {
            let state = keyspace.state();
            (state.frozen.is_empty() || lag) && !state.active.is_empty()
        };
        // No state is held here: files that it names could not be removed.
        if is_due {
            // Whatever keeps it from being flushed, the value is written; later writes are told.
            let _ = db.background().freeze(&mut writer, keyspace, 0);
            drop(writer);
            if !db.shared().has_threads() {
                db.background().work_inline();
            }
        }
    }

    /// The entry that points to it was written, or was not: then the file goes.
    pub(in crate::db) fn settle(self, db: &DbInner, written: &Result<()>) {
        match written {
            Ok(()) => {
                // By now it is in a memtable, or in tables already.
                let in_memory = {
                    let state = self.keyspace.state();
                    let newest = state.memtables().filter_map(|memtable| memtable.last_seq());
                    newest.max().unwrap_or(0)
                };
                let newest = in_memory.max(self.keyspace.flushed_seq());
                self.keyspace.pending_values().written(self.number, newest);
                self.flush_if_much_waits(db);
            }
            Err(_) => self.give_up(db),
        }
    }

    /// No entry is to point to it: it goes.
    fn give_up(self, db: &DbInner) {
        UnpointedFile::give_up_all(std::iter::once(self), db);
    }

    /// No entry is to point to them: they go, with an edit for each keyspace. Where nobody knows
    /// what is in the log, and once the database is closed, the next open finds out.
    pub(in crate::db) fn give_up_all(files: impl Iterator<Item = Self>, db: &DbInner) {
        if db.shared().check_writable().is_err() {
            return;
        }
        let mut keyspaces: Vec<Arc<KeyspaceInner>> = Vec::new();
        for file in files {
            file.keyspace.pending_values().give_up(file.number);
            if keyspaces
                .iter()
                .all(|known| known.id() != file.keyspace.id())
            {
                keyspaces.push(file.keyspace);
            }
        }
        for keyspace in &keyspaces {
            db.files().take_out_unused(keyspace);
        }
        // Without threads nobody does before the next flush.
        db.files().remove_obsolete();
    }
}
