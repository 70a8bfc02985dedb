//! Applying what the logs hold beyond the tables, to memtables that stay, and to tables where they cannot.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::judge::Logs;
use crate::base::key::{SeqNo, Tag};
use crate::budget::Role;
use crate::db::DbInner;
use crate::db::batch::BatchOps;
use crate::db::flush::remove_quietly;
use crate::db::keyspace::KeyspaceInner;
use crate::db::wal_files::{ClosedLogs, log_path};
use crate::error::{Error, Result};
use crate::version::VersionEdit;
use crate::wal::{Record, Survey};

impl DbInner {
    /// Applies what the logs hold beyond the tables. Logs that are whole are kept beside the memtables made of
    /// them, as if this run had written them; of others, and where they are too many or too long, tables are
    /// made at once, so that nothing depends on them any more.
    pub(super) fn replay_logs(&self, logs: Logs) -> Result<()> {
        let needed = logs.needed.as_ref();
        let whole = needed.and_then(Survey::whole_logs);
        if let Some(needed) = needed {
            *self.closed_logs.lock() = match whole {
                None => ClosedLogs::beginning_at(needed.end()),
                Some(whole) => ClosedLogs::of_earlier_run(whole),
            };
            let end = self.replay_survey(needed)?;
            let mut writer = self.lock_writer();
            // Not before what an earlier history had come to.
            writer.position = writer.position.max(end);
            writer.synced = writer.position;
            writer.last_seq = writer.last_seq.max(self.visible_seq());
            let most = self.options.max_wal_bytes;
            let give_up = self.closed_logs.lock().oldest_to_give_up(most).is_some();
            if whole.is_none() || give_up {
                for keyspace in writer.keyspaces.values() {
                    self.freeze_replayed(keyspace, 0);
                }
                self.flush_frozen()?;
            }
            forget_updates(writer.keyspaces.values());
            let end = writer.position;
            drop(writer);
            let mut tree = self.tree.lock();
            let edit = match whole {
                None => {
                    *self.closed_logs.lock() = ClosedLogs::beginning_at(end);
                    VersionEdit::of_logs(logs.next, end)
                }
                Some(_) => VersionEdit {
                    logs_durable: Some(end),
                    ..VersionEdit::default()
                },
            };
            self.log_edit(&mut tree, edit)?;
            self.drop_unneeded_logs(&mut tree)?;
        }
        // Kept until now, or removed already when nobody needed them any more.
        let kept: HashSet<&PathBuf> = whole.into_iter().flatten().map(|log| &log.path).collect();
        for log in logs.all.iter().filter(|path| !kept.contains(path)) {
            remove_quietly(self, log);
        }
        Ok(())
    }

    /// Applies what the logs hold beyond the tables and keeps it in memory.
    pub(super) fn keep_logs(&self, logs: Logs) -> Result<()> {
        if let Some(needed) = logs.needed {
            self.replay_survey(&needed)?;
            forget_updates(self.all_keyspaces().iter());
        }
        Ok(())
    }

    /// Applies the records of logs; gives the position where they end.
    fn replay_survey(&self, needed: &Survey) -> Result<u64> {
        let keyspaces = self.lock_writer().keyspaces.clone();
        let fs = &*self.options.fs;
        // The record in memory, as long as the longest so far.
        let mut held = self.options.memory.budget().reserve(Role::Wal, 0);
        let (mut log, mut last_seq) = (0, 0);
        let outcome = needed.replay(fs, &mut |record| {
            if log != record.log {
                log = record.log;
                self.closed_logs.lock().replayed_before(log, last_seq);
            }
            held.resize(held.bytes().max(record.payload.len() as u64));
            last_seq = self.replay(&keyspaces, record)?;
            Ok(())
        })?;
        self.closed_logs.lock().replayed_before(u64::MAX, last_seq);
        if let Some(stop) = &outcome.stopped {
            log::warn!(
                "{}: the log ends early at byte {}: {}",
                stop.path.display(),
                stop.offset,
                stop.what
            );
        }
        Ok(outcome.end)
    }

    /// Applies a record; gives its last sequence number.
    fn replay(
        &self,
        keyspaces: &BTreeMap<u32, Arc<KeyspaceInner>>,
        record: Record<'_>,
    ) -> Result<SeqNo> {
        let mut last = record.first_seq;
        for (seq, op) in (record.first_seq..).zip(BatchOps(record.payload)) {
            let malformed = || {
                Error::corruption(
                    log_path(&self.dir, record.log),
                    record.position,
                    "a record's operations are malformed",
                )
            };
            let op = op.ok_or_else(malformed)?;
            // A keyspace that was dropped since needs nothing of the log.
            if let Some(keyspace) = keyspaces.get(&op.keyspace)
                && seq > keyspace.flushed_seq.load(Ordering::Acquire)
            {
                let size = op.key.len() + op.value.len();
                if !keyspace.state.load().active.fits(1, size) {
                    self.freeze_replayed(keyspace, size);
                    // What is only read stays in memory.
                    while !self.options.read_only && self.flush_oldest(keyspace)? {}
                }
                self.charge_replayed(keyspace, keyspaces, size)?;
                let tag = Tag::new(seq, op.kind);
                if !keyspace.state.load().active.insert(op.key, tag, op.value) {
                    let max = self.max_value();
                    return Err(Error::ValueTooLarge {
                        len: op.value.len(),
                        max,
                    });
                }
            }
            // A flush in the middle of a record keeps what readers could see apart by number.
            self.visible.fetch_max(seq, Ordering::AcqRel);
            last = seq;
        }
        Ok(last)
    }

    fn freeze_replayed(&self, keyspace: &Arc<KeyspaceInner>, size: usize) {
        let active = keyspace.state.load().active.clone();
        if !active.is_empty() || !active.fits(1, size) {
            self.freeze_active(keyspace, size);
        }
    }

    /// Charges an entry of `size` bytes of a keyspace, once the largest memtables of all were flushed if
    /// there is too little memory for it.
    fn charge_replayed(
        &self,
        keyspace: &KeyspaceInner,
        keyspaces: &BTreeMap<u32, Arc<KeyspaceInner>>,
        size: usize,
    ) -> Result<()> {
        let active = || keyspace.state.load().active.clone();
        while !active().charge(1, size, self.memtable_share()) {
            if self.options.read_only {
                return Err(Error::LogsExceedMemory {
                    max: self.memtable_share(),
                });
            }
            let largest = self.largest_memtables(keyspaces);
            if largest.is_empty() {
                active().charge_anyway(1, size);
            }
            for keyspace in largest {
                self.freeze_replayed(&keyspace, size);
            }
            self.flush_frozen()?;
        }
        Ok(())
    }
}

/// What was replayed nobody asked for now.
fn forget_updates<'a>(keyspaces: impl Iterator<Item = &'a Arc<KeyspaceInner>>) {
    for keyspace in keyspaces {
        let active = keyspace.state.load().active.len();
        keyspace.operations.forget_updates(active as u64);
    }
}
