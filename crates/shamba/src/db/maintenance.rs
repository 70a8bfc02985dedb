//! Background work: flushes first, then the most urgent compaction, then removing files nobody
//! uses. Threads run [`DbInner::step`] until the database closes; with no threads, writers do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::flush::remove_quietly;
use super::keyspace::KeyspaceInner;
use super::retry::Failing;
use super::write::Writer;
use super::{DbInner, Tree};
use crate::compaction::job::table_path;
use crate::error::{Error, Result};
use crate::metrics::Counter;

/// Bytes of memtables that are flushed together at most. A table is synced in a fraction of a millisecond,
/// in which hundreds of KiB are written: of larger memtables more would gain nothing.
const MOST_TOGETHER: u64 = 1 << 20;

/// What [`DbInner::step`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Nothing was due.
    Nothing,
    /// A compaction.
    Compacted,
    /// Something else.
    Done,
}

/// What became of [`DbInner::step_beside_others`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stepped {
    /// Work was done.
    Done,
    /// Others are at work, or were a moment ago.
    Others,
    /// There is no work, for anybody.
    Nothing,
}

/// Starts the background threads.
pub(crate) fn start(db: &Arc<DbInner>) -> Result<Vec<JoinHandle<()>>> {
    (0..db.options.background_threads)
        .map(|i| {
            let worker = db.clone();
            std::thread::Builder::new()
                .name(format!("shamba-{i}"))
                .spawn(move || work(&worker))
                .map_err(|e| Error::io("start a thread for", &db.dir, e))
        })
        .collect()
}

fn work(db: &DbInner) {
    while !db.stop.load(Ordering::Acquire) {
        let seen = db.signal.now();
        match db.step() {
            Ok(true) => {}
            Ok(false) => db.signal.wait_past(seen, Duration::from_secs(1)),
            Err(Error::Closed) => return,
            Err(error) => {
                log::warn!("{}: background work failed: {error}", db.dir.display());
                // A failure that goes on must not keep a core busy.
                db.signal
                    .wait_past(db.signal.now(), Duration::from_millis(50));
            }
        }
    }
}

fn is_flushing(keyspace: &Arc<KeyspaceInner>) -> bool {
    keyspace.flushing.load(Ordering::SeqCst)
}

impl DbInner {
    /// Whether another thread flushes or compacts right now.
    pub(crate) fn others_at_work(&self) -> bool {
        self.compactions_running.load(Ordering::Acquire) > 0
            || self
                .frozen
                .find(|keyspace| is_flushing(keyspace).then_some(()))
                .is_some()
    }

    /// Does a piece of work, where there are no threads. Others may have some when there is none for this one,
    /// and be done with it, or with a part of it, at any moment: that there is nothing to wait for is certain
    /// only where nobody was at work before and nothing happened since the signal was `seen`.
    pub(super) fn step_beside_others(&self, seen: u64) -> Result<Stepped> {
        let others = self.others_at_work();
        if self.step()? {
            return Ok(Stepped::Done);
        }
        let nothing = !others && !self.others_at_work() && self.signal.now() == seen;
        Ok(match nothing {
            true => Stepped::Nothing,
            false => Stepped::Others,
        })
    }

    /// Does one piece of background work; false when nothing is due.
    pub(crate) fn step(&self) -> Result<bool> {
        Ok(self.work_once()? != Work::Nothing)
    }

    fn work_once(&self) -> Result<Work> {
        let _job = self.begin_job()?;
        self.remove_obsolete();
        self.end_epochs();
        if self.poison.load().is_some() {
            return Ok(Work::Nothing);
        }
        self.shrink_to_budget()?;
        self.ask_designs();
        if self.flush_some()? {
            return Ok(Work::Done);
        }
        let Some((keyspace, task)) = self.pick() else {
            return Ok(match self.end_moves()? {
                true => Work::Done,
                false => Work::Nothing,
            });
        };
        self.run_task(&keyspace, task)?;
        Ok(Work::Compacted)
    }

    /// Flushes memtables that wait for it and have nobody who does, small ones together; false when there
    /// is none.
    fn flush_some(&self) -> Result<bool> {
        let claim = |keyspace: &Arc<KeyspaceInner>| {
            // Without threads who writes decides how often a flush that fails is tried.
            let rests = self.options.background_threads > 0 && keyspace.flushes.rests();
            !rests && !keyspace.flushing.swap(true, Ordering::SeqCst)
        };
        loop {
            let group = self.frozen.group(self.flushed_together(), claim);
            if group.is_empty() {
                return Ok(false);
            }
            let flushing = self.hold("flushing memtables", || {
                for keyspace in &group {
                    keyspace.flushing.store(false, Ordering::Release);
                }
            });
            let result = self.flush_together(&group);
            drop(flushing);
            if result? {
                return Ok(true);
            }
        }
    }

    /// Flushes the oldest memtable of each of some keyspaces, as far as that goes before one fails.
    fn flush_together(&self, group: &[Arc<KeyspaceInner>]) -> Result<bool> {
        let mut written = Vec::with_capacity(group.len());
        let mut failed = Ok(());
        // Of several the syncs go on at the same time.
        let alone = group.len() == 1;
        for keyspace in group {
            match self.write_oldest(keyspace, alone) {
                Ok(of_one) => written.extend(of_one),
                Err(error) => {
                    failed = Err(error);
                    self.took(&keyspace.flushes, &failed);
                    break;
                }
            }
        }
        let keyspaces: Vec<_> = written.iter().map(|of| Arc::clone(of.keyspace())).collect();
        let synced = if alone {
            Ok(())
        } else {
            self.sync_written(&written)
        };
        let installed = synced.and_then(|()| self.install_flushes(written));
        for keyspace in &keyspaces {
            self.took(&keyspace.flushes, &installed);
        }
        installed.and(failed).map(|()| !keyspaces.is_empty())
    }

    /// Flushes every frozen memtable, where no thread does.
    pub(super) fn flush_frozen(&self) -> Result<()> {
        loop {
            let group = self.frozen.group(self.flushed_together(), |_| true);
            if group.is_empty() {
                return Ok(());
            }
            self.flush_together(&group)?;
        }
    }

    /// The bytes of memtables that are flushed together: what is flushed is given back late.
    fn flushed_together(&self) -> u64 {
        (self.options.memory.limit() / 256).min(MOST_TOGETHER)
    }

    /// Called within a merge: whether it may go on, once what waits to be flushed was, if no other thread
    /// is there to do it. Writers wait for flushes, and a merge may take minutes.
    pub(super) fn flush_on_the_way(&self) -> Result<()> {
        self.not_closing()?;
        let threads = self.options.background_threads as u64;
        let all_merge = self.compactions_running.load(Ordering::Relaxed) >= threads;
        if threads > 0 && all_merge {
            // What fails is tried again, and is no failure of the merge.
            while self.poison.load().is_none() && self.flush_some().unwrap_or(false) {}
        }
        Ok(())
    }

    /// Takes note of how background work ended.
    pub(super) fn took<T>(&self, failing: &Failing, result: &Result<T>) {
        match result {
            Ok(_) => failing.forget(),
            Err(Error::Closed) => {}
            Err(error) => {
                self.metrics.add(Counter::background_errors, 1);
                if error.is_out_of_files() {
                    // One for the next time.
                    self.tables.close_file();
                }
                if failing.failed(error) {
                    let dir = self.dir.display();
                    log::error!("{dir}: flushes or compactions keep failing: {error}");
                }
                self.signal.notify();
            }
        }
    }

    /// Why flushes of some keyspace keep failing, if they do.
    pub(super) fn stuck_flush(&self) -> Option<Arc<Error>> {
        self.frozen.find(|keyspace| keyspace.flushes.stuck())
    }

    /// Why compactions of some keyspace keep failing, if they do.
    pub(super) fn stuck_compaction(&self) -> Option<Arc<Error>> {
        self.due.of_failing(|keyspace| keyspace.compactions.stuck())
    }

    /// With no threads: does what is due, as a thread would. Failures are kept where a thread's
    /// would be: the write that came before is done and stays so.
    ///
    /// While a keyspace moves to another design, a write does one compaction at most: the move is
    /// paid for by many.
    ///
    /// Where nothing was due before and nothing has changed since, no keyspace is looked at.
    pub(crate) fn work_inline(&self) {
        loop {
            let seen = self.signal.now();
            let looked = self.idle_at.load(Ordering::Relaxed) == seen;
            if looked && (self.tidy_up().is_err() || self.signal.now() == seen) {
                return;
            }
            match self.work_once() {
                Ok(Work::Done) => {}
                Ok(Work::Compacted) if !self.is_moving() => {}
                // What failed is tried again when its time has come, of which nobody tells.
                Ok(Work::Nothing) if self.stuck_compaction().is_none() => {
                    self.idle_at.store(seen, Ordering::Relaxed);
                    return;
                }
                Ok(Work::Compacted | Work::Nothing) | Err(_) => return,
            }
        }
    }

    /// The part of the work that may be due without a sign of it.
    fn tidy_up(&self) -> Result<()> {
        let _job = self.begin_job()?;
        self.remove_obsolete();
        if self.poison.load().is_none() {
            self.shrink_to_budget()?;
            self.ask_designs();
        }
        Ok(())
    }

    /// Removes the files of tables that no version holds any more.
    pub(crate) fn remove_obsolete(&self) {
        for (number, cache_id) in self.obsolete.take() {
            self.tables.forget(cache_id);
            remove_quietly(self, &table_path(&self.dir, number));
        }
    }

    /// Freezes every memtable that holds anything and waits until all are flushed. Writes are held
    /// off until the guard is dropped.
    pub(crate) fn flush_all(&self) -> Result<MutexGuard<'_, Writer>> {
        self.check_writable()?;
        let mut writer = self.lock_writer();
        let keyspaces: Vec<_> = writer.keyspaces.values().cloned().collect();
        let flushed = |keyspace: &Arc<KeyspaceInner>| keyspace.state.load().frozen.is_empty();
        for keyspace in &keyspaces {
            // Who asks for it may have mended what made it fail.
            keyspace.flushes.forget();
            if !keyspace.state.load().active.is_empty() {
                self.freeze(&mut writer, keyspace, 0)?;
            }
            // A small budget has no room for a second memtable of each keyspace at once.
            if self.memtables_over_share() {
                self.wait_until(|| flushed(keyspace))?;
            }
        }
        self.wait_until(|| self.frozen.is_empty())?;
        Ok(writer)
    }

    /// Waits for `done`, doing the work itself when there are no threads: then until none is left at most.
    pub(super) fn wait_until(&self, done: impl Fn() -> bool) -> Result<()> {
        loop {
            let seen = self.signal.now();
            if done() {
                return Ok(());
            }
            self.check_writable()?;
            if self.options.background_threads > 0
                && let Some(error) = self.stuck_flush()
            {
                return Err((*error).clone());
            }
            if self.options.background_threads == 0 {
                let stepped = self.step_beside_others(seen)?;
                if stepped == Stepped::Done || done() {
                    continue;
                }
                if stepped == Stepped::Nothing {
                    return self.check_writable();
                }
            }
            self.signal.wait_past(seen, Duration::from_millis(100));
        }
    }

    /// Whether no flush or compaction is due or running.
    pub(crate) fn nothing_due(&self) -> bool {
        let tree = self.tree.lock();
        if self.compactions_running.load(Ordering::Acquire) > 0 || !self.frozen.is_empty() {
            return false;
        }
        self.look_for_due(&tree);
        self.due.nothing() && !self.is_moving()
    }

    pub(crate) fn wait_idle(&self) -> Result<()> {
        self.check_open()?;
        if self.options.read_only {
            return Ok(());
        }
        self.wait_until(|| self.stuck_compaction().is_some() || self.nothing_due())?;
        match self.stuck_compaction() {
            Some(error) => Err((*error).clone()),
            None => Ok(()),
        }
    }

    /// The last work of a database that closes: everything in memory goes to tables, the logs and
    /// the manifest are sealed. Needs no thread.
    pub(crate) fn close_files(&self) -> Result<()> {
        if self.options.read_only {
            self.forget_tables();
            return Ok(());
        }
        // The closing itself must not stop the flush.
        self.stop.store(false, Ordering::Release);
        let mut writer = self.lock_writer();
        if let Some(cause) = &*self.poison.load() {
            return Err(Error::Poisoned {
                cause: cause.clone(),
            });
        }
        self.close_log(&mut writer)?;
        for keyspace in writer.keyspaces.values() {
            self.freeze_for_close(keyspace);
        }
        self.flush_frozen()?;
        drop(writer);
        // What a keyspace that was dropped held of the logs was not flushed.
        self.drop_unneeded_logs(&mut self.tree.lock())?;
        self.remove_obsolete();
        self.forget_tables();
        let tree: &mut Tree = &mut self.tree.lock();
        self.write_hints(tree);
        tree.manifest.seal()
    }

    /// Drops what the cache holds of the tables; others may share it. Where memory does not hold a list of
    /// them, their blocks go as others are read.
    fn forget_tables(&self) {
        let keyspaces = self.all_keyspaces();
        let states: Vec<_> = keyspaces
            .iter()
            .map(|keyspace| keyspace.state.load())
            .collect();
        let lists = keyspaces.iter().zip(&states);
        let listed: Option<Vec<_>> = lists
            .map(|(keyspace, state)| keyspace.list_of(&state.version))
            .collect();
        if listed.is_none() {
            return;
        }
        let files = states.iter().flat_map(|state| state.version.files());
        self.tables
            .forget_all(&files.map(|file| file.slot().cache_id()).collect());
    }

    fn freeze_for_close(&self, keyspace: &Arc<KeyspaceInner>) {
        if !keyspace.state.load().active.is_empty() {
            self.freeze_active(keyspace, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::fs::MemFs;
    use crate::{MemoryBudget, Options};

    /// Another thread flushes the older of two memtables, is done with it just after this one saw that there
    /// is nothing for it to flush, and does not go on.
    #[test]
    fn what_another_thread_leaves_is_waited_for() {
        let options = Options::new()
            .fs(Arc::new(MemFs::new()))
            .memory(MemoryBudget::bytes(1 << 20))
            .background_threads(0);
        let db = options.open("/db").unwrap();
        let inner = db.inner();
        let keyspace = inner.all_keyspaces().remove(0);
        for value in ["old", "new"] {
            db.put("key", value).unwrap();
            inner.freeze_active(&keyspace, 0);
        }
        keyspace.flushing.store(true, Ordering::SeqCst);
        let asked = Cell::new(0);
        let waited = inner.wait_until(|| {
            asked.set(asked.get() + 1);
            if asked.get() == 2 {
                assert!(inner.flush_oldest(&keyspace).unwrap());
                keyspace.flushing.store(false, Ordering::SeqCst);
                inner.signal.notify();
            }
            inner.frozen.is_empty()
        });
        waited.unwrap();
        assert!(inner.frozen.is_empty(), "a memtable was left");
        assert!(asked.get() >= 2);
    }
}
