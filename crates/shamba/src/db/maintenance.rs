//! Background work: flushes first, then the most urgent compaction, then removing files nobody
//! uses. Threads run [`DbInner::step`] until the database closes; with no threads, writers do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::filters::refit;
use super::flush::remove_quietly;
use super::keyspace::KeyspaceInner;
use super::lineage::Lineage;
use super::write::Writer;
use super::{DbInner, Tree};
use crate::compaction::job::{NewTable, table_path, write_tables};
use crate::compaction::{
    Ancestry, Files, Manual, ManualRange, MergeIter, Origin, PickerOptions, Retain, RunIter,
    TargetRun, Task, TaskKind, manual, pick,
};
use crate::error::{Error, Result};
use crate::fs::{PAGE, Purpose};
use crate::memtable::Memtable;
use crate::metrics::Counter;
use crate::table::ScanOptions;
use crate::version::{FileMeta, KeyspaceEdit};

/// The most pages a merge reads at a time from each input.
const MAX_READAHEAD: u64 = 64;

/// Pages a merge of so many inputs reads at a time from each: all together a 64th of the budget, so
/// that what cannot do without memory finds some.
fn readahead_pages(limit: u64, inputs: usize) -> u32 {
    let pages = limit / 64 / PAGE as u64 / inputs.max(1) as u64;
    pages.clamp(1, MAX_READAHEAD) as u32
}

/// The least budget in which merges run beside each other, in bytes.
const TWO_MERGES: u64 = 512 << 10;

/// Failures in a row after which compactions stop being tried.
const MAX_FAILURES: u64 = 5;

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

impl DbInner {
    /// Whether another thread flushes or compacts right now.
    pub(crate) fn others_at_work(&self) -> bool {
        let flushing = |keyspace: &Arc<KeyspaceInner>| keyspace.flushing.load(Ordering::Acquire);
        self.compactions_running.load(Ordering::Acquire) > 0
            || self.all_keyspaces().iter().any(flushing)
    }

    /// Does one piece of background work; false when nothing is due.
    pub(crate) fn step(&self) -> Result<bool> {
        let _job = self.begin_job()?;
        self.remove_obsolete();
        self.end_epochs();
        if self.poison.load().is_some() {
            return Ok(false);
        }
        self.come_down()?;
        for keyspace in self.all_keyspaces() {
            if keyspace.state.load().frozen.is_empty()
                || keyspace.flushing.swap(true, Ordering::AcqRel)
            {
                continue;
            }
            let flushing = self.hold("flushing a memtable", || {
                keyspace.flushing.store(false, Ordering::Release);
            });
            let result = self.flush_oldest(&keyspace);
            if let Err(error) = &result
                && !matches!(error, Error::Closed)
            {
                self.metrics.add(Counter::background_errors, 1);
                self.poison(error);
            }
            drop(flushing);
            if result? {
                return Ok(true);
            }
        }
        let Some((keyspace, task)) = self.pick() else {
            return Ok(false);
        };
        self.run_task(&keyspace, &task)?;
        Ok(true)
    }

    /// With no threads: does what is due, as a thread would. Failures are kept where a thread's
    /// would be: the write that came before is done and stays so.
    pub(crate) fn work_inline(&self) {
        while let Ok(true) = self.step() {}
    }

    pub(crate) fn picker_options(&self, keyspace: &KeyspaceInner) -> PickerOptions {
        let options = &keyspace.options;
        PickerOptions {
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
            ..PickerOptions::default()
        }
    }

    /// The most urgent compaction, its files marked busy.
    fn pick(&self) -> Option<(Arc<KeyspaceInner>, Task)> {
        if self.compaction_error.load().is_some()
            || self.compactions_paused.load(Ordering::Acquire) > 0
        {
            return None;
        }
        let tree = self.tree.lock();
        // Two merges at a time would not find the memory that each cannot do without.
        if self.options.memory.limit() < TWO_MERGES
            && self.compactions_running.load(Ordering::Acquire) > 0
        {
            return None;
        }
        let best = tree
            .keyspaces
            .values()
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
        self.compactions_running
            .fetch_add(u64::from(claimed), Ordering::AcqRel);
        claimed
    }

    /// Runs a task whose files are marked busy.
    fn run_task(&self, keyspace: &KeyspaceInner, task: &Task) -> Result<()> {
        log::debug!("{}: {}: {task}", self.dir.display(), keyspace.name);
        let files = self.hold("compacting tables", || {
            task.release();
            self.compactions_running.fetch_sub(1, Ordering::AcqRel);
        });
        let result = match task.kind {
            TaskKind::TrivialMove => self.move_files(keyspace, task),
            TaskKind::Merge => self.merge_files(keyspace, task),
        };
        drop(files);
        match &result {
            Ok(()) => self.compaction_failures.store(0, Ordering::Relaxed),
            Err(Error::Closed) => {}
            Err(error) => {
                self.metrics.add(Counter::background_errors, 1);
                let failures = self.compaction_failures.fetch_add(1, Ordering::Relaxed) + 1;
                if error.is_corruption() || failures >= MAX_FAILURES {
                    log::error!("{}: compactions are stopped: {error}", self.dir.display());
                    self.compaction_error.store(Some(Arc::new(error.clone())));
                    self.signal.notify();
                }
            }
        }
        result
    }

    fn move_files(&self, keyspace: &KeyspaceInner, task: &Task) -> Result<()> {
        let mut tree = self.tree.lock();
        if keyspace.dropped.load(Ordering::Acquire) {
            return Ok(());
        }
        let moves = task.moves(self.output_run(task));
        let edit = KeyspaceEdit {
            id: keyspace.id,
            moves,
            ..KeyspaceEdit::default()
        };
        self.install(&mut tree, keyspace, edit, None)?;
        self.metrics
            .add(Counter::trivial_moves, task.files().count() as u64);
        Ok(())
    }

    fn output_run(&self, task: &Task) -> u64 {
        match task.output {
            TargetRun::Join(run) => run,
            TargetRun::New => self.next_run.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn merge_files(&self, keyspace: &KeyspaceInner, task: &Task) -> Result<()> {
        let boundaries = self.snapshots.boundaries(|| self.visible_seq());
        let entries = task.files().map(|file| file.entries).sum();
        let bytes_read = task.input_bytes();
        let scan = ScanOptions {
            purpose: Purpose::Background,
            fill_cache: false,
            readahead_pages: readahead_pages(self.options.memory.limit(), task.inputs.len()),
            budget: self.options.memory.budget().clone(),
        };
        let children = task
            .inputs
            .iter()
            .map(|input| {
                RunIter::new(
                    self.tables.clone(),
                    Files::Some(input.files.clone()),
                    scan.clone(),
                )
            })
            .collect();
        let mut merged = MergeIter::new(children);
        let mut output = self.output(
            keyspace,
            task.output_level,
            entries,
            keyspace.options.target_file,
            Origin::Merge(task),
        );
        let inherits = self.options.inherit_heat;
        let lineage = inherits.then(|| Ancestry::of_merge(task, &self.tables));
        let lineage = lineage.and_then(|ancestry| self.lineage(ancestry));
        output.options.keep = lineage.as_ref().map(Lineage::keep);
        let mut tables = write_tables(&mut merged, Retain::new(boundaries, task.bottom), &output)?;
        let written = tables.iter().map(|table| table.summary.len).sum();
        // As with a flush: after a failure the tables stay for the next open to judge.
        let files = self.install_merge(keyspace, task, &tables, lineage.as_ref())?;
        if lineage.is_some() {
            // What is in memory of the inputs makes room for what takes its place.
            let gone = task.files().map(|file| file.slot.cache_id());
            self.tables.forget_all(&gone.collect());
            self.warm(&mut tables, &files);
        }
        self.metrics.add_all(&[
            (Counter::compactions, 1),
            (Counter::compaction_bytes_read, bytes_read),
            (Counter::compaction_bytes_written, written),
        ]);
        Ok(())
    }

    fn install_merge(
        &self,
        keyspace: &KeyspaceInner,
        task: &Task,
        tables: &[NewTable],
        lineage: Option<&Lineage>,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let Some(mut tree) = self.tree_for(keyspace, tables)? else {
            return Ok(Vec::new());
        };
        let run = self.output_run(task);
        let origin = Origin::Merge(task);
        let adds = self.adds(&tree, task.output_level, run, tables, (origin, lineage));
        let files = adds.iter().map(|added| added.file.clone()).collect();
        let edit = KeyspaceEdit {
            id: keyspace.id,
            removes: task.removes(),
            adds,
            ..KeyspaceEdit::default()
        };
        self.install(&mut tree, keyspace, edit, None)?;
        Ok(files)
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
        for keyspace in keyspaces {
            if !keyspace.state.load().active.is_empty() {
                self.freeze(&mut writer, &keyspace, 0)?;
            }
        }
        self.wait_until(|| {
            self.all_keyspaces()
                .iter()
                .all(|keyspace| keyspace.state.load().frozen.is_empty())
        })?;
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
                    && pick(&state.version, &self.picker_options(keyspace)).is_none()
            })
    }

    pub(crate) fn wait_idle(&self) -> Result<()> {
        self.check_open()?;
        self.wait_until(|| self.compaction_error.load().is_some() || self.nothing_due())?;
        match &*self.compaction_error.load() {
            Some(error) => Err((**error).clone()),
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
        self.remove_obsolete();
        let keyspaces = self.all_keyspaces();
        let states: Vec<_> = keyspaces
            .iter()
            .map(|keyspace| keyspace.state.load())
            .collect();
        let files = states.iter().flat_map(|state| state.version.files());
        self.tables
            .forget_all(&files.map(|file| file.slot.cache_id()).collect());
        let tree: &mut Tree = &mut self.tree.lock();
        self.write_hints(tree);
        tree.manifest.seal()
    }

    fn freeze_for_close(&self, keyspace: &KeyspaceInner) {
        if keyspace.state.load().active.is_empty() {
            return;
        }
        keyspace.freeze_active(Memtable::new(self.options.memory.budget(), 4 << 10));
    }
}
