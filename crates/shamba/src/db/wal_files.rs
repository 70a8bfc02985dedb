//! The write-ahead logs of a running database: the one being written and the closed ones, until no
//! memtable needs them. The manifest names each from its creation until it is needed no more, so that
//! an open misses one that is gone. Called by the leader of a write group, except for
//! [`DbInner::sync_closed_logs`], which any thread may call.
//!
//! A failed append or sync leaves the log's tail unknown, so it stops writes for good; but not an append
//! for which there was no room, which is taken back, nor what was not even begun for want of files.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use super::flush::remove_quietly;
use super::keyspace::ReadState;
use super::write::Writer;
use super::{DbInner, Tree};
use crate::base::key::SeqNo;
use crate::error::{Error, Result};
use crate::metrics::Counter;
use crate::version::VersionEdit;
use crate::wal::{LOG_HEADER, LogStart, LogWriter, WholeLog};

/// Closed logs past this many are too many, however short they are: each is a file to keep, to look
/// at when the database is opened, and, until it is synced, to hold open. A keyspace that is hardly
/// written is flushed once in so many memtables of the others; with half of it tables of next to
/// nothing are twice as many, with double of it an open looks at twice as many logs.
const MAX_CLOSED_LOGS: usize = 64;

/// A log that takes no more records, until no memtable needs it.
pub(crate) struct ClosedLog {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    /// The position where it ends.
    end: u64,
    /// No record in it has a larger sequence number.
    pub(crate) max_seq: SeqNo,
    /// Held, with its memory, while the log is not known to be durable.
    pub(crate) unsynced: Option<LogWriter>,
}

/// The closed logs that memtables may need, oldest first.
pub(crate) struct ClosedLogs {
    logs: Vec<ClosedLog>,
    /// Where the last one ended, be it still here or not.
    end: u64,
}

impl ClosedLogs {
    /// None yet, of a history that has come to a position and is durable, or in tables, up to it.
    pub(super) fn beginning_at(end: u64) -> Self {
        ClosedLogs {
            logs: Vec::new(),
            end,
        }
    }

    /// Those of an earlier run, which are durable and about to be replayed.
    pub(super) fn of_earlier_run(logs: &[WholeLog]) -> Self {
        let mut closed = ClosedLogs::beginning_at(0);
        for WholeLog { path, info, end } in logs {
            closed.push(ClosedLog {
                number: info.number,
                path: path.clone(),
                len: end.saturating_sub(info.base),
                end: *end,
                // Of those that are not replayed nobody knows.
                max_seq: SeqNo::MAX,
                unsynced: None,
            });
        }
        closed
    }

    /// All before the log of a number was replayed, and came to a sequence number.
    pub(super) fn replayed_before(&mut self, number: u64, seq: SeqNo) {
        let replayed = self.logs.iter_mut().filter(|log| log.number < number);
        for log in replayed.filter(|log| log.max_seq == SeqNo::MAX) {
            log.max_seq = seq;
        }
    }

    fn push(&mut self, log: ClosedLog) {
        self.end = log.end;
        self.logs.push(log);
    }

    /// Where the log ends that holds a sequence number which is no longer in the present log.
    pub(super) fn end_of(&self, seq: SeqNo) -> u64 {
        let holds = self.logs.iter().find(|log| log.max_seq >= seq);
        holds.map_or(self.end, |log| log.end)
    }

    /// How many of the oldest hold nothing from a sequence number on.
    pub(super) fn count_before(&self, seq: SeqNo) -> usize {
        self.logs.iter().take_while(|log| log.max_seq < seq).count()
    }

    /// The number of a log.
    pub(super) fn number(&self, index: usize) -> Option<u64> {
        Some(self.logs.get(index)?.number)
    }

    /// Up to which position the logs are durable, if the oldest so many are not needed.
    pub(super) fn durable_without(&self, not_needed: usize) -> u64 {
        match self.logs.get(not_needed..).unwrap_or_default() {
            [] => self.end,
            needed => {
                let begins = |log: &ClosedLog| log.end.saturating_sub(log.len);
                let synced = needed.iter().take_while(|log| log.unsynced.is_none());
                synced
                    .last()
                    .map_or_else(|| needed.first().map_or(self.end, begins), |log| log.end)
            }
        }
    }

    /// Takes the oldest out.
    pub(super) fn take(&mut self, count: usize) -> Vec<ClosedLog> {
        let count = count.min(self.logs.len());
        self.logs.drain(..count).collect()
    }

    /// The last sequence number of the oldest, if they are too long together or too many.
    pub(super) fn oldest_to_give_up(&self, max_bytes: u64) -> Option<SeqNo> {
        let total: u64 = self.logs.iter().map(|log| log.len).sum();
        let too_many = self.logs.len() > MAX_CLOSED_LOGS || total > max_bytes;
        let oldest = self.logs.first().filter(|_| too_many)?;
        Some(oldest.max_seq)
    }
}

/// Bytes of a log's buffer under a budget.
pub(crate) fn log_buffer(limit: u64) -> usize {
    usize::try_from(limit / 64)
        .unwrap_or(usize::MAX)
        .min(64 << 10)
}

/// A number that no other log has: a copy of the database, or an earlier one in the folder, gives its logs the
/// same numbers.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    RandomState::new().hash_one((now, std::process::id()))
}

/// The path of a log file.
pub(crate) fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.wal"))
}

impl DbInner {
    pub(super) fn append(&self, writer: &mut Writer, seq: SeqNo, payload: &[u8]) -> Result<()> {
        if writer.log.is_none() {
            let number = self.next_file.fetch_add(1, Ordering::Relaxed);
            let path = log_path(&self.dir, number);
            let start = LogStart {
                buffer: log_buffer(self.options.memory.limit()),
                number,
                base: writer.position,
                synced: writer.synced,
                seed: fresh_seed(),
            };
            let create = || LogWriter::create(&*self.options.fs, &path, start);
            let log = self.with_files(create).inspect_err(|error| {
                self.forget_new_log(&path);
                if !error.is_shortage() {
                    self.poison(error);
                }
            })?;
            // From here on the log is missed when it is gone. Nothing is in it before that is durable.
            let edit = VersionEdit::of_new_log(log.info(), writer.synced);
            {
                let mut tree = self.tree.lock();
                self.log_edit(&mut tree, edit).inspect_err(|_| {
                    if !tree.manifest.is_stopped() {
                        self.forget_new_log(&path);
                    }
                })?;
            }
            writer.memory.resize(log.memory() as u64);
            writer.log = Some(log);
        }
        let Some(log) = writer.log.as_mut() else {
            return Err(Error::Closed);
        };
        let before = log.position();
        log.append(seq, &[payload])?;
        self.metrics
            .add(Counter::wal_bytes, log.position() - before);
        Ok(())
    }

    /// Removes a log that nobody needs and the manifest does not name.
    fn forget_new_log(&self, path: &Path) {
        if let Err(error) = self.options.fs.remove(path) {
            log::debug!("{}: cannot remove: {error}", path.display());
        }
    }

    /// Takes what a group logged out of the log again, which ended at `whole` before, or did not exist.
    /// Stops writes where that cannot be done.
    pub(super) fn take_back(&self, writer: &mut Writer, whole: Option<u64>, error: &Error) {
        let Some(log) = writer.log.as_mut() else {
            return;
        };
        if log.cut_back(whole.unwrap_or(LOG_HEADER as u64)).is_err() {
            self.poison(error);
        }
    }

    /// Does something that opens files; when there are none left, those of tables make room.
    pub(super) fn with_files<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            match work() {
                Err(error) if error.is_out_of_files() && self.tables.close_file() => {}
                done => return done,
            }
        }
    }

    /// Syncs the folder. Stops writes when that fails, for what a sync that failed left behind is not
    /// known, so that none is tried again; but not when the folder could not be opened.
    pub(super) fn sync_folder(&self) -> Result<()> {
        let sync = || {
            let synced = self.options.fs.sync_dir(&self.dir);
            synced.map_err(|e| Error::io("sync", &self.dir, e))
        };
        self.with_files(sync).inspect_err(|error| {
            if !error.is_shortage() {
                self.poison(error);
            }
        })
    }

    /// Syncs the closed logs that are not durable yet, oldest first.
    pub(crate) fn sync_closed_logs(&self) -> Result<()> {
        self.sync_closed_logs_to(0, u64::MAX)
    }

    /// The same, but for the oldest so many, and for those that end after a position.
    pub(super) fn sync_closed_logs_to(&self, not_needed: usize, end: u64) -> Result<()> {
        let mut closed = self.closed_logs.lock();
        let logs = closed.logs.iter_mut().skip(not_needed);
        for log in logs.take_while(|log| log.end <= end) {
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
            if let Err(error) = log.sync() {
                if log.is_stopped() {
                    self.poison(&error);
                }
                return Err(error);
            }
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
        if let Err(error) = log.flush() {
            if log.is_stopped() {
                self.poison(&error);
                return Err(error);
            }
            // Every group flushes, or takes back, what it logs: only a header can have found no room, of
            // a log that holds nothing and may as well stay.
            writer.log = Some(log);
            return Ok(());
        }
        log.release_buffer();
        writer.memory.resize(0);
        writer.position = log.position();
        self.closed_logs.lock().push(ClosedLog {
            number: log.number(),
            path: log_path(&self.dir, log.number()),
            len: log.len(),
            end: log.position(),
            max_seq: writer.last_seq,
            unsynced: Some(log),
        });
        Ok(())
    }

    /// The first sequence number that no table may hold, once the memtables that begin with the numbers
    /// `flushed` (ascending) are in tables.
    pub(super) fn first_needed_seq(&self, tree: &mut Tree, flushed: &[SeqNo]) -> SeqNo {
        // What is above the visible number is being applied to memtables this moment.
        let unseen = self.visible_seq() + 1;
        tree.unflushed.first(&tree.keyspaces, unseen, flushed)
    }

    /// The number after that of the oldest so many closed logs.
    pub(super) fn number_after(&self, not_needed: usize) -> Option<u64> {
        let last = self.closed_logs.lock().number(not_needed.checked_sub(1)?)?;
        Some(last + 1)
    }

    /// Gives up the closed logs that every keyspace has flushed.
    pub(super) fn drop_unneeded_logs(&self, tree: &mut Tree) -> Result<()> {
        let first_needed = self.first_needed_seq(tree, &[]);
        let not_needed = self.closed_logs.lock().count_before(first_needed);
        if let Some(number) = self.number_after(not_needed) {
            let durable = self.closed_logs.lock().durable_without(not_needed);
            self.log_edit(tree, VersionEdit::of_logs(number, durable))?;
            self.remove_closed_logs(not_needed);
        }
        Ok(())
    }

    /// Removes the files of the oldest closed logs, which the manifest names no more. The caller holds
    /// the tree lock since it counted them.
    pub(super) fn remove_closed_logs(&self, count: usize) {
        let gone = self.closed_logs.lock().take(count);
        for log in gone {
            remove_quietly(self, &log.path);
        }
    }

    /// When the closed logs are too long together or too many, freezes the memtables that keep the
    /// oldest one alive.
    pub(super) fn freeze_holders_of_old_logs(&self, writer: &mut Writer) {
        let max_bytes = self.options.max_wal_bytes;
        let oldest = self.closed_logs.lock().oldest_to_give_up(max_bytes);
        let Some(max_seq) = oldest else {
            return;
        };
        for keyspace in writer.keyspaces.values() {
            let holds = |state: &ReadState| {
                state
                    .active
                    .first_seq()
                    .is_some_and(|first| first <= max_seq)
            };
            if holds(&keyspace.state.load()) {
                self.freeze_active(keyspace, 0);
            }
        }
        self.signal.notify();
    }
}
