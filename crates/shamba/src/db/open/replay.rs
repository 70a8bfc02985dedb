//! Applying what the logs hold beyond the tables: to memtables that stay, or to tables where there
//! is no room, or where logs cannot be kept. Nobody else uses the database yet.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::judge::Logs;
use crate::base::fragment::last_before;
use crate::base::key::{MAX_SEQNO, SeqNo, Tag};
use crate::base::pointer::ValuePointer;
use crate::budget::{Role, least_limit_for_key, most_of_key};
use crate::db::DbInner;
use crate::db::batch::{BatchOps, OpKind};
use crate::db::buffers::{Entries, log_path};
use crate::db::keyspaces::KeyspaceInner;
use crate::db::read::pointer_in;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::version::VersionEdit;
use crate::wal::{Record, RecoveryMode, Survey};

/// Applies what the logs hold beyond the tables. Logs that are whole are kept beside the memtables
/// made of them, as if this run had written them; of others, and where they are too many or too
/// long, tables are made at once, so that nothing depends on them any more.
pub(super) fn replay_logs(db: &DbInner, logs: Logs) -> Result<()> {
    let wal = db.wal();
    let needed = logs.needed.as_ref();
    let whole = needed.and_then(Survey::whole_logs);
    if let Some(needed) = needed {
        match whole {
            None => wal.begin_at(needed.end()),
            Some(whole) => wal.begin_with(whole),
        }
        // What is in no table yet goes into memtables, and what these have no room for into tables.
        let end = LogReplay::new(db).all(needed)?;
        let mut writer = db.memtables().lock();
        writer.log.replayed(end, db.visibility().newest());
        if whole.is_none() || wal.oldest_to_give_up().is_some() {
            for keyspace in writer.keyspaces.values() {
                db.memtables().freeze_used(keyspace, 0);
            }
            db.flusher().flush_frozen()?;
        }
        // These updates are of the life before: they say nothing of what is done now.
        forget_updates(writer.keyspaces.values());
        let end = writer.log.position();
        drop(writer);
        let mut tree = db.files().tree();
        // Only now the manifest may give up logs, and say up to where the rest is durable.
        let edit = match whole {
            None => {
                wal.begin_at(end);
                VersionEdit::of_logs(logs.next, end)
            }
            Some(_) => VersionEdit {
                logs_durable: Some(end),
                ..VersionEdit::default()
            },
        };
        db.files().log_edit(&mut tree, edit)?;
        wal.drop_unneeded(&mut tree)?;
    }
    // Kept until now, or removed already when nobody needed them any more.
    let kept: HashSet<&PathBuf> = whole.into_iter().flatten().map(|log| &log.path).collect();
    for log in logs.all.iter().filter(|path| !kept.contains(path)) {
        db.shared().remove_quietly(log);
    }
    Ok(())
}

/// Applies what the logs hold beyond the tables and keeps it in memory.
pub(super) fn keep_logs(db: &DbInner, logs: Logs) -> Result<()> {
    if let Some(needed) = logs.needed {
        LogReplay::new(db).all(&needed)?;
        forget_updates(db.files().keyspaces().iter());
    }
    Ok(())
}

/// What was replayed nobody asked for now.
fn forget_updates<'a>(keyspaces: impl Iterator<Item = &'a Arc<KeyspaceInner>>) {
    for keyspace in keyspaces {
        let active = keyspace.state().active.len();
        keyspace.operations().forget_updates(active as u64);
    }
}

/// A replay that is under way.
struct LogReplay<'a> {
    db: &'a DbInner,
    keyspaces: BTreeMap<u32, Arc<KeyspaceInner>>,
    /// What was let go of since memory does not hold it, where nothing may be flushed: the bytes of
    /// memtables. The rest of the logs is gone through to say how much it would be.
    let_go: Cell<u64>,
}

impl<'a> LogReplay<'a> {
    fn new(db: &'a DbInner) -> Self {
        LogReplay {
            db,
            keyspaces: db.memtables().lock().keyspaces.clone(),
            let_go: Cell::new(0),
        }
    }

    /// Applies the records of logs; gives the position where they end.
    fn all(&self, needed: &Survey) -> Result<u64> {
        let (shared, wal) = (self.db.shared(), self.db.wal());
        // The record in memory, as long as the longest so far.
        let mut held = shared.budget().reserve(Role::Wal, 0);
        let (mut log, mut last_seq) = (0, 0);
        let outcome = needed.replay(&**shared.fs(), &mut |record| {
            if log != record.log {
                log = record.log;
                wal.replayed_before(log, last_seq);
            }
            held.resize(held.bytes().max(record.payload.len() as u64));
            last_seq = self.record(record)?;
            Ok(())
        })?;
        wal.replayed_before(u64::MAX, last_seq);
        if let Some(stop) = &outcome.stopped {
            log::warn!(
                "{}: the log ends early at byte {}: {}",
                stop.path.display(),
                stop.offset,
                stop.what
            );
        }
        match self.let_go.get() {
            0 => Ok(outcome.end),
            let_go => Err(self.exceeded(let_go)),
        }
    }

    /// Lets go of all memtables, to count what more there is in the logs; false where they hold
    /// nothing, so that the entry of `size` bytes has no room at all and is counted by itself.
    fn let_go(&self, size: usize) -> bool {
        let budget = self.db.shared().budget();
        let all = self.keyspaces.values();
        let freed: u64 = all.map(|of| of.let_go_of_memtables(budget, size)).sum();
        let counted = match freed {
            0 => Memtable::most_charged(1, size) as u64,
            freed => freed,
        };
        self.let_go.set(self.let_go.get().saturating_add(counted));
        freed > 0
    }

    /// The error that memory does not hold what the logs do: what was let go of, and what there is.
    fn exceeded(&self, let_go: u64) -> Error {
        let memtables = self.db.memtables();
        let all = memtables.taken().saturating_add(let_go);
        // Under a larger budget entries come together in other memtables, where their nodes have
        // other heights: of 8,000 small entries that makes less than a 500th.
        let all = all.saturating_add(all / 64);
        Error::LogsExceedMemory {
            max: memtables.share(),
            needed: self.db.shared().budget().least_limit_for_memtables(all),
        }
    }

    /// Applies a record; gives its last sequence number.
    fn record(&self, record: Record<'_>) -> Result<SeqNo> {
        let mut last = record.first_seq;
        for (seq, op) in (record.first_seq..).zip(BatchOps(record.payload)) {
            let malformed = || {
                let path = log_path(self.db.shared().dir(), record.log);
                let what = "a record's operations are malformed";
                Error::corruption(path, record.position, what)
            };
            // Of a greater number the order of entries would not be one.
            let op = op.filter(|_| seq <= MAX_SEQNO).ok_or_else(malformed)?;
            // A keyspace that was dropped since needs nothing of the log.
            if let Some(keyspace) = self.keyspaces.get(&op.keyspace)
                && seq > keyspace.flushed_seq()
            {
                self.check_key(op.key.len() as u64)?;
                let (key, value) = (op.key.len(), op.value.len());
                let insert = |memtable: &Memtable| match op.kind {
                    OpKind::Entry(kind) => memtable.insert(op.key, Tag::new(seq, kind), op.value),
                    OpKind::DeleteRange => memtable.writer().insert_range(op.key, op.value, seq),
                };
                let size = match op.kind {
                    OpKind::Entry(_) => key + value,
                    OpKind::DeleteRange => {
                        self.check_key(last_before(op.value).len() as u64)?;
                        let beside =
                            keyspace.state().active.boundary_bytes() + Memtable::RANGES_BYTES;
                        Memtable::room_for_range(key, value) + beside
                    }
                };
                // What it points to stays until it is in a table.
                let mut is_whole = true;
                if let OpKind::Entry(kind) = op.kind
                    && kind.is_pointer()
                {
                    let pointer = pointer_in(Tag::new(seq, kind), op.value);
                    let pending = keyspace.pending_values();
                    pending.begin(pointer.file, pointer.len);
                    pending.written(pointer.file, seq);
                    is_whole = self.has_value_file(keyspace, pointer, record.log)?;
                }
                if is_whole && self.make_room(keyspace, size)? && !insert(&keyspace.state().active)
                {
                    return Err(Error::ValueTooLarge {
                        len: op.value.len(),
                        max: self.db.writes().max_value(),
                        needed: None,
                    });
                }
            }
            // A flush in the middle of a record keeps what readers could see apart by number.
            self.db.visibility().publish_replayed(seq);
            last = seq;
        }
        Ok(last)
    }

    /// Whether the value file is there that an operation of a log points to. Who only reads may
    /// have seen the manifest before a writer added the file, and the log after, and looks again;
    /// where what is damaged is passed over, the operation is.
    fn has_value_file(
        &self,
        keyspace: &KeyspaceInner,
        pointer: ValuePointer,
        log: u64,
    ) -> Result<bool> {
        if keyspace.version().value_files().get(pointer.file).is_some() {
            return Ok(true);
        }
        let shared = self.db.shared();
        let path = log_path(shared.dir(), log);
        let file = pointer.file;
        let what =
            format!("a record points to value file {file}, which the manifest does not have");
        if shared.options().recovery == RecoveryMode::SkipDamaged && !shared.options().read_only {
            log::warn!("{}: {what}: passed over", path.display());
            return Ok(false);
        }
        Err(Error::corruption(path, 0, what))
    }

    /// Refuses a key that was written under a larger budget, if this one does not hold it.
    fn check_key(&self, len: u64) -> Result<()> {
        let limit = self.db.shared().limit();
        if len <= most_of_key(limit) {
            Ok(())
        } else {
            Err(Error::BudgetTooSmall {
                limit,
                needed: least_limit_for_key(len),
            })
        }
    }

    /// Makes room in a keyspace's active memtable for an entry of `size` bytes, and charges it,
    /// once the largest memtables of all were flushed if there is too little memory for it. Where
    /// nothing may be flushed they are let go of, and an entry that has no room even then is only
    /// counted: false.
    fn make_room(&self, keyspace: &Arc<KeyspaceInner>, size: usize) -> Result<bool> {
        let (memtables, flusher) = (self.db.memtables(), self.db.flusher());
        let read_only = self.db.shared().options().read_only;
        if !keyspace.state().active.fits(1, size) {
            memtables.freeze_used(keyspace, size);
            // What is only read stays in memory.
            while !read_only && flusher.flush_oldest(keyspace)? {}
        }
        let active = || keyspace.state().active.clone();
        let entry = Entries {
            count: 1,
            bytes: size,
        };
        while !memtables.charge(&active(), entry) {
            if read_only {
                if self.let_go(size) {
                    continue;
                }
                return Ok(false);
            }
            let largest = memtables.largest(&self.keyspaces);
            if largest.is_empty() {
                active().charge_anyway(1, size);
            }
            for keyspace in largest {
                memtables.freeze_used(&keyspace, size);
            }
            flusher.flush_frozen()?;
        }
        Ok(true)
    }
}
