//! The write-ahead logs of a running database: the one being written and the closed ones, until no
//! memtable needs them. The manifest names each from its creation until it is needed no more, so
//! that an open misses one that is gone.
//!
//! The log being written is an [`ActiveLog`], which belongs to whoever leads the writers; the
//! closed ones are [`WalFiles`]', which is thread-safe.
//!
//! A failed append or sync leaves the log's tail unknown, so it stops writes for good; but not an
//! append for which there was no room, which is taken back, nor what was not even begun for want of
//! files.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::base::key::SeqNo;
use crate::budget::{Budget, Reservation, Role, log_buffer};
use crate::db::context::DbContext;
use crate::db::files::{Files, Tree};
use crate::db::visibility::Visibility;
use crate::error::{Error, Result};
use crate::metrics::Counter;
use crate::version::{Feature, VersionEdit};
use crate::wal::{LOG_HEADER, LogStart, LogWriter, WholeLog};

/// Closed logs past this many are too many, however short they are: each is a file to keep, to look
/// at when the database is opened, and, until it is synced, to hold open. A keyspace that is hardly
/// written is flushed once in so many memtables of the others; with half of it tables of next to
/// nothing are twice as many, with double of it an open looks at twice as many logs.
const MAX_CLOSED_LOGS: usize = 64;

/// A log that takes no more records, until no memtable needs it.
pub(in crate::db) struct ClosedLog {
    pub(in crate::db) number: u64,
    pub(in crate::db) path: PathBuf,
    pub(in crate::db) len: u64,
    /// The position where it ends.
    end: u64,
    /// No record in it has a larger sequence number.
    pub(in crate::db) max_seq: SeqNo,
    /// Held, with its memory, while the log is not known to be durable.
    pub(in crate::db) unsynced: Option<LogWriter>,
}

/// The closed logs that memtables may need, oldest first.
pub(in crate::db) struct ClosedLogs {
    logs: Vec<ClosedLog>,
    /// Where the last one ended, be it still here or not.
    end: u64,
}

impl ClosedLogs {
    /// None yet, of a history that has come to a position and is durable, or in tables, up to it.
    pub(in crate::db) fn beginning_at(end: u64) -> Self {
        ClosedLogs {
            logs: Vec::new(),
            end,
        }
    }

    /// Those of an earlier run, which are durable and about to be replayed.
    pub(in crate::db) fn of_earlier_run(logs: &[WholeLog]) -> Self {
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
    pub(in crate::db) fn replayed_before(&mut self, number: u64, seq: SeqNo) {
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
    pub(in crate::db) fn end_of(&self, seq: SeqNo) -> u64 {
        let holds = self.logs.iter().find(|log| log.max_seq >= seq);
        holds.map_or(self.end, |log| log.end)
    }

    /// How many of the oldest hold nothing from a sequence number on.
    pub(in crate::db) fn count_before(&self, seq: SeqNo) -> usize {
        self.logs.iter().take_while(|log| log.max_seq < seq).count()
    }

    /// The number of a log.
    pub(in crate::db) fn number(&self, index: usize) -> Option<u64> {
        Some(self.logs.get(index)?.number)
    }

    /// Up to which position the logs are durable, if the oldest so many are not needed.
    pub(in crate::db) fn durable_without(&self, not_needed: usize) -> u64 {
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
    pub(in crate::db) fn take(&mut self, count: usize) -> Vec<ClosedLog> {
        let count = count.min(self.logs.len());
        self.logs.drain(..count).collect()
    }

    /// The last sequence number of the oldest, if they are too long together or too many.
    pub(in crate::db) fn oldest_to_give_up(&self, max_bytes: u64) -> Option<SeqNo> {
        let total: u64 = self.logs.iter().map(|log| log.len).sum();
        let too_many = self.logs.len() > MAX_CLOSED_LOGS || total > max_bytes;
        let oldest = self.logs.first().filter(|_| too_many)?;
        Some(oldest.max_seq)
    }
}

/// The log being written, and where the history of logs has come to.
pub(in crate::db) struct ActiveLog {
    log: Option<LogWriter>,
    /// The last sequence number given.
    last_seq: SeqNo,
    /// Where the next log begins, as a position in the database's history of logs.
    position: u64,
    /// Up to where the logs are durable.
    synced: u64,
    /// The memory of `log`.
    memory: Reservation,
}

impl ActiveLog {
    /// No log yet, of a history that has come to a number and a position.
    pub(in crate::db) fn beginning_at(
        last_seq: SeqNo,
        position: u64,
        budget: &Arc<Budget>,
    ) -> Self {
        ActiveLog {
            log: None,
            last_seq,
            position,
            synced: position,
            memory: budget.reserve(Role::Wal, 0),
        }
    }

    /// What an earlier run logged was replayed: it came to a position, and to a number.
    pub(in crate::db) fn replayed(&mut self, position: u64, seq: SeqNo) {
        // Not before what an earlier history had come to.
        self.position = self.position.max(position);
        self.synced = self.position;
        self.last_seq = self.last_seq.max(seq);
    }

    /// The last sequence number given.
    pub(in crate::db) fn last_seq(&self) -> SeqNo {
        self.last_seq
    }

    /// Numbers up to this one are given.
    pub(in crate::db) fn give(&mut self, last: SeqNo) {
        self.last_seq = last;
    }

    /// Where the next log begins.
    pub(in crate::db) fn position(&self) -> u64 {
        self.position
    }

    /// How long the log is, if there is one.
    pub(in crate::db) fn len(&self) -> Option<u64> {
        self.log.as_ref().map(LogWriter::len)
    }

    /// Hands what was appended to the system.
    pub(in crate::db) fn flush(&mut self) -> Result<()> {
        self.log.as_mut().map_or(Ok(()), LogWriter::flush)
    }
}

/// A number that no other log has: a copy of the database, or an earlier one in the folder, gives
/// its logs the same numbers.
fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    RandomState::new().hash_one((now, std::process::id()))
}

/// The path of a log file.
pub(in crate::db) fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.wal"))
}

/// See the module.
pub(in crate::db) struct WalFiles {
    shared: Arc<DbContext>,
    files: Arc<Files>,
    visibility: Arc<Visibility>,
    closed: Mutex<ClosedLogs>,
}

impl WalFiles {
    /// Of a history that has come to a position.
    pub(in crate::db) fn new(
        shared: &Arc<DbContext>,
        files: &Arc<Files>,
        visibility: &Arc<Visibility>,
        position: u64,
    ) -> Self {
        WalFiles {
            shared: shared.clone(),
            files: files.clone(),
            visibility: visibility.clone(),
            closed: Mutex::new(ClosedLogs::beginning_at(position)),
        }
    }

    /// Begins again with the logs of an earlier run, which are about to be replayed.
    pub(in crate::db) fn begin_with(&self, logs: &[WholeLog]) {
        *self.closed.lock() = ClosedLogs::of_earlier_run(logs);
    }

    /// Begins again without any, at a position.
    pub(in crate::db) fn begin_at(&self, position: u64) {
        *self.closed.lock() = ClosedLogs::beginning_at(position);
    }

    /// All before the log of a number was replayed, and came to a sequence number.
    pub(in crate::db) fn replayed_before(&self, number: u64, seq: SeqNo) {
        self.closed.lock().replayed_before(number, seq);
    }

    /// Appends a record to the log, which is begun if there is none.
    pub(in crate::db) fn append(
        &self,
        active: &mut ActiveLog,
        seq: SeqNo,
        payload: &[u8],
    ) -> Result<()> {
        if active.log.is_none() {
            let log = self.begin_log(active)?;
            active.memory.resize(log.memory() as u64);
            active.log = Some(log);
        }
        let Some(log) = active.log.as_mut() else {
            return Err(Error::Closed);
        };
        let before = log.position();
        log.append(seq, &[payload])?;
        let metrics = self.shared.metrics();
        metrics.add(Counter::wal_bytes, log.position() - before);
        Ok(())
    }

    /// Has the manifest say that the database uses a feature, before a log holds anything of it.
    pub(in crate::db) fn state_feature(&self, feature: Feature) -> Result<()> {
        self.files.state_feature(feature)
    }

    /// A new log, which the manifest names.
    fn begin_log(&self, active: &ActiveLog) -> Result<LogWriter> {
        let number = self.files.next_file().fetch_add(1, Ordering::Relaxed);
        let path = log_path(self.shared.dir(), number);
        let start = LogStart {
            buffer: log_buffer(
                self.shared.working_limit(),
                self.shared.budget().databases(),
            ),
            number,
            base: active.position,
            synced: active.synced,
            seed: fresh_seed(),
        };
        let create = || LogWriter::create(&**self.shared.fs(), &path, start);
        let log = self.files.with_files(create).inspect_err(|error| {
            self.forget_new_log(&path);
            if !error.is_shortage() {
                self.shared.poison(error);
            }
        })?;
        // From here on the log is missed when it is gone. Nothing is in it before that is durable.
        let edit = VersionEdit::of_new_log(log.info(), active.synced);
        let mut tree = self.files.tree();
        self.files.log_edit(&mut tree, edit).inspect_err(|_| {
            if !tree.manifest.is_stopped() {
                self.forget_new_log(&path);
            }
        })?;
        Ok(log)
    }

    /// Removes a log that nobody needs and the manifest does not name.
    fn forget_new_log(&self, path: &Path) {
        if let Err(error) = self.shared.fs().remove(path) {
            log::debug!("{}: cannot remove: {error}", path.display());
        }
    }

    /// Takes what a group logged out of the log again, which ended at `whole` before, or did not
    /// exist. Stops writes where that cannot be done.
    pub(in crate::db) fn take_back(
        &self,
        active: &mut ActiveLog,
        whole: Option<u64>,
        error: &Error,
    ) {
        let Some(log) = active.log.as_mut() else {
            return;
        };
        if log.cut_back(whole.unwrap_or(LOG_HEADER as u64)).is_err() {
            self.shared.poison(error);
        }
    }

    /// Syncs the closed logs that are not durable yet, oldest first, but for the oldest so many,
    /// and for those that end after a position.
    pub(in crate::db) fn sync_closed_to(&self, not_needed: usize, end: u64) -> Result<()> {
        let mut closed = self.closed.lock();
        let logs = closed.logs.iter_mut().skip(not_needed);
        for log in logs.take_while(|log| log.end <= end) {
            if let Some(unsynced) = log.unsynced.as_mut() {
                let synced = unsynced.sync();
                synced.inspect_err(|error| self.shared.poison(error))?;
                self.shared.metrics().add(Counter::wal_syncs, 1);
                log.unsynced = None;
            }
        }
        Ok(())
    }

    /// Syncs all logs.
    pub(in crate::db) fn sync(&self, active: &mut ActiveLog) -> Result<()> {
        self.sync_closed_to(0, u64::MAX)?;
        let Some(log) = active.log.as_mut() else {
            active.synced = active.position;
            return Ok(());
        };
        log.predecessors_synced();
        if let Err(error) = log.sync() {
            if log.is_stopped() {
                self.shared.poison(&error);
            }
            return Err(error);
        }
        self.shared.metrics().add(Counter::wal_syncs, 1);
        active.synced = log.synced();
        Ok(())
    }

    /// Moves the present log to the closed ones.
    pub(in crate::db) fn close_log(&self, active: &mut ActiveLog) -> Result<()> {
        let Some(mut log) = active.log.take() else {
            return Ok(());
        };
        if let Err(error) = log.flush() {
            if log.is_stopped() {
                self.shared.poison(&error);
                return Err(error);
            }
            // Every group flushes, or takes back, what it logs: only a header can have found no
            // room, of a log that holds nothing and may as well stay.
            active.log = Some(log);
            return Ok(());
        }
        log.release_buffer();
        active.memory.resize(0);
        active.position = log.position();
        // A batch of which a part may be in a table is whole in a log that was synced for it: what
        // the manifest says of the flush must hold recovery to that.
        let durable = log.synced() == log.position();
        self.closed.lock().push(ClosedLog {
            number: log.number(),
            path: log_path(self.shared.dir(), log.number()),
            len: log.len(),
            end: log.position(),
            max_seq: active.last_seq,
            unsynced: (!durable).then_some(log),
        });
        Ok(())
    }

    /// What a flush of memtables gives up of the logs: `firsts` and `lasts` are the memtables'
    /// first (ascending) and last sequence numbers.
    pub(in crate::db) fn after_flush(
        &self,
        tree: &mut Tree,
        firsts: &[SeqNo],
        lasts: impl Iterator<Item = SeqNo>,
    ) -> LogsAfterFlush {
        let first_needed = self.first_needed_seq(tree, firsts);
        let closed = self.closed.lock();
        LogsAfterFlush {
            not_needed: closed.count_before(first_needed),
            ends: lasts.map(|last| closed.end_of(last)).collect(),
        }
    }

    /// The first sequence number that no table may hold, once the memtables that begin with the
    /// numbers `flushed` (ascending) are in tables.
    fn first_needed_seq(&self, tree: &mut Tree, flushed: &[SeqNo]) -> SeqNo {
        // What is above the visible number is being applied to memtables this moment.
        tree.first_unflushed(self.visibility.newest() + 1, flushed)
    }

    /// Up to which position the logs are durable, without the oldest so many.
    pub(in crate::db) fn durable_without(&self, not_needed: usize) -> u64 {
        self.closed.lock().durable_without(not_needed)
    }

    /// The number after that of the oldest so many closed logs.
    pub(in crate::db) fn number_after(&self, not_needed: usize) -> Option<u64> {
        let last = self.closed.lock().number(not_needed.checked_sub(1)?)?;
        Some(last + 1)
    }

    /// Gives up the closed logs that every keyspace has flushed.
    pub(in crate::db) fn drop_unneeded(&self, tree: &mut Tree) -> Result<()> {
        let first_needed = self.first_needed_seq(tree, &[]);
        let not_needed = self.closed.lock().count_before(first_needed);
        if let Some(number) = self.number_after(not_needed) {
            let durable = self.durable_without(not_needed);
            let edit = VersionEdit::of_logs(number, durable);
            self.files.log_edit(tree, edit)?;
            self.remove_closed(not_needed);
        }
        Ok(())
    }

    /// Removes the files of the oldest closed logs, which the manifest names no more. The caller
    /// holds the tree lock since it counted them.
    pub(in crate::db) fn remove_closed(&self, count: usize) {
        let gone = self.closed.lock().take(count);
        for log in gone {
            self.shared.remove_quietly(&log.path);
        }
    }

    /// The last sequence number of the oldest closed log, if they are too long together or too
    /// many.
    pub(in crate::db) fn oldest_to_give_up(&self) -> Option<SeqNo> {
        let max_bytes = self.shared.options().max_wal_bytes;
        self.closed.lock().oldest_to_give_up(max_bytes)
    }
}

/// What is known of the closed logs for a flush.
pub(in crate::db) struct LogsAfterFlush {
    /// How many of the oldest nobody needs once it is installed.
    pub(in crate::db) not_needed: usize,
    /// Where the logs end that hold each memtable's last entry.
    pub(in crate::db) ends: Vec<u64>,
}
