//! The write-ahead logs of a running database: the one being written and the closed ones, until no
//! memtable needs them. Called by the leader of a write group, except for
//! [`DbInner::sync_closed_logs`], which any thread may call.
//!
//! A failed append or sync leaves the log's tail unknown, so it stops writes for good.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::DbInner;
use super::keyspace::ReadState;
use super::write::Writer;
use crate::base::checksum::checksum;
use crate::base::key::SeqNo;
use crate::error::{Error, Result};
use crate::metrics::Counter;
use crate::wal::{LogStart, LogWriter};

/// A log that takes no more records, until no memtable needs it.
pub(crate) struct ClosedLog {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    /// No record in it has a larger sequence number.
    pub(crate) max_seq: SeqNo,
    /// Held, with its memory, while the log is not known to be durable.
    pub(crate) unsynced: Option<LogWriter>,
}

/// Bytes of a log's buffer under a budget.
pub(crate) fn log_buffer(limit: u64) -> usize {
    usize::try_from(limit / 64)
        .unwrap_or(usize::MAX)
        .clamp(1 << 10, 64 << 10)
}

/// The path of a log file.
pub(crate) fn log_path(dir: &std::path::Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.wal"))
}

impl DbInner {
    pub(super) fn append(&self, writer: &mut Writer, seq: SeqNo, payload: &[u8]) -> Result<()> {
        if writer.log.is_none() {
            let number = self.next_file.fetch_add(1, Ordering::Relaxed);
            let path = log_path(&self.dir, number);
            let seed = checksum(0, self.dir.as_os_str().as_encoded_bytes()).into();
            let start = LogStart {
                buffer: log_buffer(self.options.memory.limit()),
                number,
                base: writer.position,
                synced: writer.synced,
                seed,
            };
            let log = LogWriter::create(&*self.options.fs, &path, start)
                .inspect_err(|error| self.poison(error))?;
            writer.memory.resize(log.memory() as u64);
            writer.log = Some(log);
        }
        let Some(log) = writer.log.as_mut() else {
            return Err(Error::Closed);
        };
        let before = log.position();
        log.append(seq, &[payload])
            .inspect_err(|error| self.poison(error))?;
        self.metrics
            .add(Counter::wal_bytes, log.position() - before);
        Ok(())
    }

    /// Syncs the closed logs that are not durable yet, oldest first.
    pub(crate) fn sync_closed_logs(&self) -> Result<()> {
        for log in self.closed_logs.lock().iter_mut() {
            if let Some(unsynced) = log.unsynced.as_mut() {
                unsynced.sync().inspect_err(|error| self.poison(error))?;
                self.metrics.add(Counter::wal_syncs, 1);
                log.unsynced = None;
            }
        }
        Ok(())
    }

    pub(super) fn sync_logs(&self, writer: &mut Writer) -> Result<()> {
        self.sync_closed_logs()?;
        if let Some(log) = writer.log.as_mut() {
            log.predecessors_synced();
            log.sync().inspect_err(|error| self.poison(error))?;
            self.metrics.add(Counter::wal_syncs, 1);
            writer.synced = log.synced();
        } else {
            writer.synced = writer.position;
        }
        Ok(())
    }

    pub(crate) fn sync_log(&self) -> Result<()> {
        self.check_writable()?;
        self.sync_logs(&mut self.lock_writer())
    }

    /// Moves the present log to the closed ones.
    pub(crate) fn close_log(&self, writer: &mut Writer) -> Result<()> {
        let Some(mut log) = writer.log.take() else {
            return Ok(());
        };
        log.flush().inspect_err(|error| self.poison(error))?;
        log.release_buffer();
        writer.memory.resize(0);
        writer.position = log.position();
        self.closed_logs.lock().push(ClosedLog {
            number: log.number(),
            path: log_path(&self.dir, log.number()),
            len: log.len(),
            max_seq: writer.last_seq,
            unsynced: Some(log),
        });
        Ok(())
    }

    /// When the closed logs have grown past their bound, freezes the memtables that keep the
    /// oldest one alive.
    pub(super) fn freeze_holders_of_old_logs(&self, writer: &mut Writer) {
        let logs = self.closed_logs.lock();
        let total: u64 = logs.iter().map(|log| log.len).sum();
        let Some(oldest) = logs.first().filter(|_| total > self.options.max_wal_bytes) else {
            return;
        };
        let max_seq = oldest.max_seq;
        drop(logs);
        for keyspace in writer.keyspaces.values() {
            let holds = |state: &ReadState| {
                state
                    .active
                    .first_seq()
                    .is_some_and(|first| first <= max_seq)
            };
            if holds(&keyspace.state.load()) {
                keyspace.freeze_active(keyspace.fresh_memtable(self.options.memory.budget(), 0));
            }
        }
        self.signal.notify();
    }
}
