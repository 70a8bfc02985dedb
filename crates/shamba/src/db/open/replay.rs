//! Applying what the logs hold beyond the tables: to tables, or, for a database that is only read, to
//! memtables that stay.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::judge::Logs;
use crate::base::key::Tag;
use crate::budget::Role;
use crate::db::DbInner;
use crate::db::batch::Ops;
use crate::db::flush::remove_quietly;
use crate::db::keyspace::KeyspaceInner;
use crate::db::logs::{ClosedLogs, log_path};
use crate::error::{Error, Result};
use crate::version::VersionEdit;
use crate::wal::{Record, Survey};

impl DbInner {
    /// Applies what the logs hold beyond the tables, flushes it, and removes the logs.
    pub(super) fn replay_logs(&self, logs: Logs) -> Result<()> {
        if let Some(needed) = logs.needed {
            let fs = &*self.options.fs;
            // Their names are durable since the manifest was begun.
            needed.sync(fs)?;
            *self.closed_logs.lock() = ClosedLogs::beginning_at(needed.end());
            let end = self.replay_survey(needed)?;
            let mut writer = self.lock_writer();
            // Not before what an earlier history had come to.
            writer.position = writer.position.max(end);
            writer.synced = writer.position;
            writer.last_seq = writer.last_seq.max(self.visible_seq());
            for keyspace in writer.keyspaces.values() {
                self.freeze_replayed(keyspace, 0);
                // Nobody asked for this now.
                keyspace.operations.forget_frozen();
            }
            self.flush_frozen()?;
            let end = writer.position;
            drop(writer);
            let mut tree = self.tree.lock();
            *self.closed_logs.lock() = ClosedLogs::beginning_at(end);
            self.log_edit(&mut tree, VersionEdit::of_logs(logs.next, end))?;
        }
        for log in &logs.all {
            remove_quietly(self, log);
        }
        Ok(())
    }

    /// Applies what the logs hold beyond the tables and keeps it in memory.
    pub(super) fn keep_logs(&self, logs: Logs) -> Result<()> {
        if let Some(needed) = logs.needed {
            self.replay_survey(needed)?;
            for keyspace in self.all_keyspaces() {
                // Nobody asked for this now.
                keyspace.operations.forget_frozen();
            }
        }
        Ok(())
    }

    /// Applies the records of logs; gives the position where they end.
    fn replay_survey(&self, needed: Survey) -> Result<u64> {
        let keyspaces = self.lock_writer().keyspaces.clone();
        let fs = &*self.options.fs;
        // The record in memory, as long as the longest so far.
        let mut held = self.options.memory.budget().reserve(Role::Wal, 0);
        let outcome = needed.replay(fs, &mut |record| {
            held.resize(held.bytes().max(record.payload.len() as u64));
            self.replay(&keyspaces, record)
        })?;
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

    fn replay(
        &self,
        keyspaces: &BTreeMap<u32, Arc<KeyspaceInner>>,
        record: Record<'_>,
    ) -> Result<()> {
        for (seq, op) in (record.first_seq..).zip(Ops(record.payload)) {
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
        }
        Ok(())
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
