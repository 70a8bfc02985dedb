//! Writes of values that may be too long to be written whole. One that is longer than a piece
//! becomes a value file of its own ([`file`]), to which an entry points.

mod file;

use std::io::Read;
use std::sync::Arc;

use super::DbInner;
use super::batch::{BatchOp, BatchOps, OpKind, WriteBatch};
use super::keyspaces::KeyspaceInner;
use crate::base::clock::Moment;
use crate::base::expiring;
use crate::base::key::{EntryKind, MAX_VALUE_LEN};
use crate::base::pointer::MAX_POINTER_LEN;
use crate::budget::{MIN_MEMORY, most_of_value};
use crate::error::{Error, Result};
use crate::options::WriteOptions;
pub(super) use file::{Streamed, UnpointedFile, stream};

/// Sets a key of a keyspace to all that a reader gives.
pub(super) fn put_reader(
    db: &DbInner,
    keyspace: &Arc<KeyspaceInner>,
    key: &[u8],
    from: &mut dyn Read,
    options: WriteOptions,
) -> Result<()> {
    let writes = db.writes();
    writes.check_sizes(key.len(), 0)?;
    match stream(db, keyspace, from)? {
        // What one piece holds goes the way of any value, for which others make room.
        Streamed::Short(value) => writes.write_one(keyspace, key, Some(&value), options),
        Streamed::File(file) => {
            let of = (keyspace, db.shared().id());
            let written = writes.write_pointer(of, key, file.pointer, options);
            file.settle(db, &written);
            written
        }
    }
}

/// Sets a key of a keyspace, in pieces where the value is too long to be written whole.
#[inline]
pub(super) fn put(
    db: &DbInner,
    keyspace: &Arc<KeyspaceInner>,
    key: &[u8],
    value: &[u8],
    options: WriteOptions,
) -> Result<()> {
    if value.len() as u64 <= most_of_value(MIN_MEMORY) {
        return db.writes().write_one(keyspace, key, Some(value), options);
    }
    put_long(db, keyspace, key, value, options)
}

/// The same of one that is not short under every budget.
#[cold]
fn put_long(
    db: &DbInner,
    keyspace: &Arc<KeyspaceInner>,
    key: &[u8],
    value: &[u8],
    options: WriteOptions,
) -> Result<()> {
    match db.writes().write_one(keyspace, key, Some(value), options) {
        Err(Error::ValueTooLarge { .. }) => put_reader(db, keyspace, key, &mut &*value, options),
        written => written,
    }
}

/// Writes a batch, of which values that are too long to be written whole go into files of their own
/// before it.
pub(super) fn write(db: &DbInner, batch: WriteBatch, options: WriteOptions) -> Result<()> {
    write_by(db, batch, |batch| db.writes().write(batch, options))
}

/// The same, by a way of its own.
pub(super) fn write_by(
    db: &DbInner,
    batch: WriteBatch,
    write: impl FnOnce(WriteBatch) -> Result<()>,
) -> Result<()> {
    if batch.max_value() <= db.writes().max_value() {
        return write(batch);
    }
    let mut files = Vec::new();
    let pointing = point_to_files(db, &batch, &mut files);
    drop(batch);
    let written = pointing.and_then(write);
    for file in files {
        file.settle(db, &written);
    }
    written
}

/// The same batch, but for entries that point to the long values of it, each in a file.
#[cold]
fn point_to_files(
    db: &DbInner,
    batch: &WriteBatch,
    files: &mut Vec<UnpointedFile>,
) -> Result<WriteBatch> {
    let most = db.writes().max_value();
    let kept = check(db, batch, most)?;
    let mut pointers = Vec::new();
    for op in BatchOps(batch.rep()).flatten() {
        if let Some((value, _)) = long_value(&op, most) {
            let keyspace = batch.keyspace(op.keyspace);
            let keyspace = keyspace.unwrap_or(db.default_keyspace());
            pointers.push(match stream(db, keyspace, &mut &*value)? {
                Streamed::File(file) => {
                    let pointer = file.pointer;
                    files.push(file);
                    Some(pointer)
                }
                // The budget was raised meanwhile: it may be written whole.
                Streamed::Short(_) => None,
            });
        }
    }
    // Not while they were streamed, which is let in as this is.
    let _copied = db.writes().hold_copy(kept as u64)?;
    let mut pointing = batch.without_operations(kept);
    let mut pointers = pointers.into_iter();
    for op in BatchOps(batch.rep()).flatten() {
        let long = long_value(&op, most).map(|(_, until)| (pointers.next().flatten(), until));
        match long {
            Some((Some(pointer), until)) => {
                pointing.push_pointer(op.keyspace, op.key, pointer, until);
            }
            Some((None, _)) | None => pointing.push_op(&op),
        }
    }
    Ok(pointing)
}

/// Whether a batch may be written once its values longer than `most` are in files; the bytes of its
/// operations then.
fn check(db: &DbInner, batch: &WriteBatch, most: usize) -> Result<usize> {
    let writes = db.writes();
    if batch.max_value() > MAX_VALUE_LEN {
        return Err(Error::ValueTooLarge {
            len: batch.max_value(),
            max: MAX_VALUE_LEN,
            needed: None,
        });
    }
    let (mut kept, mut longest) = (batch.size(), 0);
    for op in BatchOps(batch.rep()).flatten() {
        if let Some((value, _)) = long_value(&op, most) {
            kept = kept - value.len() + MAX_POINTER_LEN;
        } else if put_value(&op).is_none() {
            longest = longest.max(op.value.len());
        }
    }
    writes.check_batch_of(batch, longest)?;
    writes.check_batch(batch.memory_at(kept))?;
    Ok(kept)
}

/// The value that an operation puts, and until when, if it is longer than `most`.
fn long_value<'a>(op: &BatchOp<'a>, most: usize) -> Option<(&'a [u8], Option<Moment>)> {
    put_value(op).filter(|(value, _)| value.len() > most)
}

/// The value that an operation puts, and until when.
fn put_value<'a>(op: &BatchOp<'a>) -> Option<(&'a [u8], Option<Moment>)> {
    match op.kind {
        OpKind::Entry(EntryKind::Put) => Some((op.value, None)),
        OpKind::Entry(EntryKind::Expiring) => {
            expiring::split(op.value).map(|(until, value)| (value, Some(until)))
        }
        _ => None,
    }
}
