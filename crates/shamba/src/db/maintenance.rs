//! Background work: flushes first, then the most urgent compaction, then removing files nobody
//! uses. Threads run [`DbInner::step`] until the database closes; with no threads, writers do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::failing::Failing;
use super::filters::refit;
use super::flush::remove_quietly;
use super::keyspace::KeyspaceInner;
use super::write::Writer;
use super::{DbInner, Tree};
use crate::compaction::job::table_path;
use crate::compaction::{Manual, ManualRange, PickerOptions, Task, TaskKind, manual, pick};
use crate::error::{Error, Result};
use crate::metrics::Counter;
use crate::options::KeyspaceOptions;
use crate::table::Compression;

/// Bytes that an input of a merge holds: a page, the block in it, the cursor and the open table.
const INPUT_BYTES: u64 = 10 << 10;

/// The same where blocks are compressed, and so larger.
const COMPRESSED_INPUT_BYTES: u64 = 20 << 10;

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
        self.come_down()?;
        self.ask_designs();
        if self.flush_one()? {
            return Ok(Work::Done);
        }
        let Some((keyspace, task)) = self.pick() else {
            return Ok(match self.end_moves()? {
                true => Work::Done,
                false => Work::Nothing,
            });
        };
        self.run_task(&keyspace, &task)?;
        Ok(Work::Compacted)
    }

    /// Flushes a memtable that waits for it and has nobody who does; false when there is none.
    fn flush_one(&self) -> Result<bool> {
        let next = |keyspace: &Arc<KeyspaceInner>| {
            // Without threads who writes decides how often a flush that fails is tried.
            let rests = self.options.background_threads > 0 && keyspace.flushes.rests();
            let free = !rests && !keyspace.flushing.swap(true, Ordering::SeqCst);
            free.then(|| keyspace.clone())
        };
        while let Some(keyspace) = self.frozen.find(next) {
            let flushing = self.hold("flushing a memtable", || {
                keyspace.flushing.store(false, Ordering::Release);
            });
            let result = self.flush_oldest(&keyspace);
            self.took(&keyspace.flushes, &result);
            drop(flushing);
            if result? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Called within a merge: whether it may go on, once what waits to be flushed was, if no other thread
    /// is there to do it. Writers wait for flushes, and a merge may take minutes.
    pub(super) fn flush_on_the_way(&self) -> Result<()> {
        self.not_closing()?;
        let threads = self.options.background_threads as u64;
        let all_merge = self.compactions_running.load(Ordering::Relaxed) >= threads;
        if threads > 0 && all_merge {
            // What fails is tried again, and is no failure of the merge.
            while self.poison.load().is_none() && self.flush_one().unwrap_or(false) {}
        }
        Ok(())
    }

    /// Takes note of how background work ended.
    fn took<T>(&self, failing: &Failing, result: &Result<T>) {
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
        let all = self.all_keyspaces();
        all.iter().find_map(|keyspace| keyspace.compactions.stuck())
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
            self.come_down()?;
            self.ask_designs();
        }
        Ok(())
    }

    /// The inputs that a merge has memory for: of each it holds a block and what is read with it, of
    /// all together a sixteenth of the budget. Several merges may run.
    fn most_inputs(&self, options: &KeyspaceOptions) -> usize {
        let each = match options
            .compression
            .iter()
            .all(|of| *of == Compression::None)
        {
            true => INPUT_BYTES,
            false => COMPRESSED_INPUT_BYTES,
        };
        let inputs = self.options.memory.limit() / 16 / each;
        usize::try_from(inputs).unwrap_or(usize::MAX).max(2)
    }

    pub(crate) fn picker_options(&self, keyspace: &KeyspaceInner) -> PickerOptions {
        let options = keyspace.options();
        let limit = self.options.memory.limit();
        PickerOptions {
            flush_bytes: options.memtable_capacity(limit) as u64,
            most_inputs: self.most_inputs(&options),
            policy: options.merge_policy,
            size_ratio: options.size_ratio,
            buffer_bytes: options.write_buffer,
            level0_runs: options.level0_runs,
            oldest_snapshot: self
                .snapshots
                .boundaries(|| self.visible_seq())
                .first()
                .copied()
                .unwrap_or(0),
            moving: self.picker_move(keyspace),
            ..PickerOptions::default()
        }
    }

    /// The most urgent compaction, its files marked busy.
    fn pick(&self) -> Option<(Arc<KeyspaceInner>, Task)> {
        if self.compactions_paused.load(Ordering::Acquire) > 0 {
            return None;
        }
        let tree = self.tree.lock();
        let best = tree
            .keyspaces
            .values()
            .filter(|keyspace| !keyspace.compactions.rests())
            .filter_map(|keyspace| {
                let version = &keyspace.state.load().version;
                let task = pick(version, &self.picker_options(keyspace))?;
                Some((keyspace.clone(), refit(keyspace, version, task)))
            })
            .max_by(|a, b| a.1.score.total_cmp(&b.1.score))?;
        self.begin_task(&best.1).then_some(best)
    }

    /// Claims a task's files; the caller holds the tree lock, so no other task has them.
    fn begin_task(&self, task: &Task) -> bool {
        let claimed = task.try_claim();
        if claimed {
            self.compactions_running.fetch_add(1, Ordering::SeqCst);
        }
        claimed
    }

    /// Gives back a task's files.
    fn end_task(&self, task: &Task) {
        task.release();
        self.compactions_running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Runs a task whose files are marked busy.
    fn run_task(&self, keyspace: &KeyspaceInner, task: &Task) -> Result<()> {
        log::debug!("{}: {}: {task}", self.dir.display(), keyspace.name);
        let files = self.hold("compacting tables", || self.end_task(task));
        let result = match task.kind {
            TaskKind::TrivialMove => self.move_files(keyspace, task),
            TaskKind::Merge => self.merge_files(keyspace, task),
        };
        drop(files);
        self.took(&keyspace.compactions, &result);
        result
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

    /// Waits for `done`, doing the work itself when there are no threads.
    fn wait_until(&self, done: impl Fn() -> bool) -> Result<()> {
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
                if self.step()? || done() {
                    continue;
                }
                if !self.others_at_work() {
                    return Ok(());
                }
            }
            self.signal.wait_past(seen, Duration::from_millis(100));
        }
    }

    /// Whether no flush or compaction is due or running.
    pub(crate) fn nothing_due(&self) -> bool {
        let tree = self.tree.lock();
        self.compactions_running.load(Ordering::Acquire) == 0
            && tree.keyspaces.values().all(|keyspace| {
                let state = keyspace.state.load();
                state.frozen.is_empty()
                    && keyspace.moving.load().is_none()
                    && pick(&state.version, &self.picker_options(keyspace)).is_none()
            })
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

    /// Merges a key range down to the bottom, on the caller's thread, other compactions held off.
    pub(crate) fn compact_range(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        keyspace.check_alive()?;
        drop(self.flush_all()?);
        let _job = self.begin_job()?;
        self.compactions_paused.fetch_add(1, Ordering::AcqRel);
        let _paused = self.hold("compacting a range", || {
            self.compactions_paused.fetch_sub(1, Ordering::AcqRel);
        });
        let result = self.compact_paused(keyspace, from, to);
        // The space of what was merged is free when the call returns.
        self.remove_obsolete();
        result
    }

    fn compact_paused(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        self.wait_until(|| self.compactions_running.load(Ordering::Acquire) == 0)?;
        let range = ManualRange {
            from,
            to,
            max_seq: self.visible_seq(),
        };
        loop {
            self.check_writable()?;
            let task = {
                let tree = self.tree.lock();
                let version = keyspace.state.load().version.clone();
                let task = match manual(&version, range, &self.picker_options(keyspace)) {
                    Manual::Done => return Ok(()),
                    Manual::Task(task) => {
                        let task = refit(keyspace, &version, task);
                        self.begin_task(&task).then_some(task)
                    }
                    Manual::Busy => None,
                };
                drop(tree);
                task
            };
            match task {
                Some(task) => self.run_task(keyspace, &task)?,
                None => self
                    .signal
                    .wait_past(self.signal.now(), Duration::from_millis(10)),
            }
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
            while self.flush_oldest(keyspace)? {}
        }
        drop(writer);
        // What a keyspace that was dropped held of the logs was not flushed.
        self.drop_unneeded_logs(&mut self.tree.lock())?;
        self.remove_obsolete();
        self.forget_tables();
        let tree: &mut Tree = &mut self.tree.lock();
        self.write_hints(tree);
        tree.manifest.seal()
    }

    /// Drops what the cache holds of the tables; others may share it.
    fn forget_tables(&self) {
        let keyspaces = self.all_keyspaces();
        let states: Vec<_> = keyspaces
            .iter()
            .map(|keyspace| keyspace.state.load())
            .collect();
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
