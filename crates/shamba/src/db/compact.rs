//! Compactions on any thread: which is due, of all keyspaces the most urgent, and those of a key range that
//! somebody asks for. What is done then is in [`super::merge`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::due::DueWork;
use super::keyspace::KeyspaceInner;
use super::table_options::rebuild_if_misfit;
use super::{DbInner, Tree};
use crate::base::key::SeqNo;
use crate::budget::{Role, TableWork};
use crate::compaction::{
    Manual, ManualRange, PickerOptions, Task, TaskInput, TaskKind, manual, pick,
};
use crate::error::Result;
use crate::options::KeyspaceOptions;
use crate::table::Compression;
use crate::version::{FileMeta, Version};

/// Bytes that an input of a merge holds: a page, the block in it, the cursor and the open table.
const INPUT_BYTES: u64 = 10 << 10;

/// The same where blocks are compressed, and so larger.
const COMPRESSED_INPUT_BYTES: u64 = 20 << 10;

/// Bytes that an input of a merge holds where entries are not large.
fn input_bytes(options: &KeyspaceOptions) -> u64 {
    let compression = &options.compression;
    match compression.iter().all(|of| *of == Compression::None) {
        true => INPUT_BYTES,
        false => COMPRESSED_INPUT_BYTES,
    }
}

/// The most bytes that an input holds beside its key, whatever else takes memory: of a block that is larger
/// than `table::iter` calls essential it holds the present entry only, or not even that.
const MOST_HELD: u64 = 24 << 10;

/// Bytes that the lists take which are made of a task's tables while it runs, for each.
const TASK_BYTES: u64 = 64;

/// Whether a keyspace has files that hold dead entries which a snapshot still sees, or writes that are not
/// visible yet: they can go later, of which nobody tells.
fn may_reclaim_later(keyspace: &KeyspaceInner, version: &Version, oldest_snapshot: SeqNo) -> bool {
    let dead = |file: &FileMeta| {
        file.max_seq() > oldest_snapshot && (file.tombstones() > 0 || file.garbage() > 0)
    };
    keyspace.flushed_seq.load(Ordering::Acquire) > oldest_snapshot && version.files().any(dead)
}

impl DbInner {
    /// The inputs that a merge has memory for: of each it holds a block and what is read with it, of
    /// all together a sixteenth of the budget. Several merges may run.
    fn most_inputs(&self, options: &KeyspaceOptions) -> usize {
        let inputs = self.options.memory.limit() / 16 / input_bytes(options);
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
    pub(super) fn pick(&self) -> Option<(Arc<KeyspaceInner>, Task)> {
        if self.compactions_paused.load(Ordering::Acquire) > 0 {
            return None;
        }
        let tree = self.tree.lock();
        loop {
            self.look_for_due(&tree);
            let keyspace = self.due.most_urgent()?;
            let version = keyspace.state.load().version.clone();
            let task = pick(&version, &self.picker_options(&keyspace));
            // What it has beside this task, or instead, is seen at the next look.
            self.due.changed(&keyspace);
            if let Some(task) = task {
                let task = rebuild_if_misfit(&keyspace, &version, task);
                return self.begin_task(&task).then_some((keyspace, task));
            }
        }
    }

    /// Looks at the keyspaces of which something changed.
    pub(super) fn look_for_due(&self, tree: &Tree) {
        let limit = self.options.memory.limit();
        self.due
            .look(&tree.keyspaces, limit, |of| self.find_due(of));
    }

    /// Whether a keyspace has a compaction due.
    pub(super) fn find_due(&self, keyspace: &Arc<KeyspaceInner>) -> DueWork {
        if keyspace.check_alive().is_err() {
            return DueWork::Nothing;
        }
        let options = self.picker_options(keyspace);
        let version = keyspace.state.load().version.clone();
        let rests = keyspace.compactions.rests();
        match pick(&version, &options) {
            Some(task) if !rests => DueWork::Due(task.score),
            task if task.is_some() || options.moving.is_some() => DueWork::Later {
                due: task.is_some(),
            },
            _ if may_reclaim_later(keyspace, &version, options.oldest_snapshot) => {
                DueWork::Later { due: false }
            }
            _ => DueWork::Nothing,
        }
    }

    /// Claims a task's files; the caller holds the tree lock, so no other task has them.
    fn begin_task(&self, task: &Task) -> bool {
        let claimed = task.try_claim();
        if claimed {
            self.compactions_running.fetch_add(1, Ordering::SeqCst);
        }
        claimed
    }

    /// Gives back a task's files: the keyspace is looked at again before no task is said to run.
    fn end_task(&self, keyspace: &Arc<KeyspaceInner>, task: &Task) {
        task.release();
        self.due.changed(keyspace);
        self.compactions_running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Runs a task whose files are marked busy.
    pub(super) fn run_task(&self, keyspace: &Arc<KeyspaceInner>, task: Task) -> Result<()> {
        log::debug!("{}: {}: {task}", self.dir.display(), keyspace.name);
        let files = self.hold("compacting tables", || {
            self.end_task(keyspace, &task);
        });
        let budget = self.options.memory.budget();
        let listed = TASK_BYTES * task.files().count() as u64;
        let listed = budget.reserve(Role::Compaction, listed);
        let result = match task.kind {
            TaskKind::TrivialMove => self.move_files(keyspace, &task).map(|()| 0),
            TaskKind::Merge => self.merge_in_turn(keyspace, &task),
        };
        drop((files, listed));
        self.took(&keyspace.compactions, &result);
        match result {
            Ok(holes) => {
                let holes = holes + task.files().count();
                // Of files that are no more this was the last to hold what is known of them.
                drop(task);
                budget.left_holes(holes);
                Ok(())
            }
            Err(error) => {
                self.due.failed(keyspace);
                Err(error)
            }
        }
    }

    /// Merges once there is memory for it beside other merges; gives what the new tables left of holes in
    /// the heap.
    fn merge_in_turn(&self, keyspace: &Arc<KeyspaceInner>, task: &Task) -> Result<usize> {
        let options = keyspace.options();
        let input = input_bytes(&options);
        // Of each input a block of the usual size and a key; of large entries one at a time, with the block
        // that it fills.
        let entry = |file: &FileMeta| 2 * file.size() / file.entries().max(1);
        let key = |file: &FileMeta| file.smallest().len().max(file.largest().len()) as u64;
        let of_input = |of: &TaskInput| {
            let entries = of.files.iter().map(entry);
            let block = entries
                .max()
                .unwrap_or(0)
                .clamp(input, MOST_HELD.max(input));
            block + of.files.iter().map(key).max().unwrap_or(0)
        };
        let largest = task.files().map(entry).max().unwrap_or(0);
        let entries = task.files().map(FileMeta::entries).sum();
        let inputs = task.inputs.iter().map(of_input).sum::<u64>() + largest;
        let needed = inputs + self.output_memory(&options, task.output_level, entries);
        let budget = self.options.memory.budget();
        let _permit = budget.admit(TableWork::Merge, needed, || self.flush_on_the_way())?;
        self.merge_files(keyspace, task)
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
                        let task = rebuild_if_misfit(keyspace, &version, task);
                        self.begin_task(&task).then_some(task)
                    }
                    Manual::Busy => None,
                };
                drop(tree);
                task
            };
            match task {
                Some(task) => self.run_task(keyspace, task)?,
                None => self
                    .signal
                    .wait_past(self.signal.now(), Duration::from_millis(10)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use crate::budget::TableWork;
    use crate::fs::MemFs;
    use crate::{Db, MemoryBudget, Options};

    fn open() -> Db {
        let options = Options::new()
            .fs(Arc::new(MemFs::new()))
            .memory(MemoryBudget::bytes(1 << 20))
            .background_threads(0);
        options.open("/db").unwrap()
    }

    /// Does something that must wait while others have all the room there is for such work.
    fn waits_for_room(db: &Db, work: TableWork, act: impl Fn() + Sync) {
        let budget = Arc::clone(db.inner().options.memory.budget());
        let all = budget.limit();
        let others = budget.admit(work, all, || Ok::<_, ()>(())).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                act();
                done.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(150));
            assert!(!done.load(Ordering::SeqCst), "{work:?}: it did not wait");
            drop(others);
        });
        assert!(done.load(Ordering::SeqCst));
        // What it took of the room it gave back.
        budget.admit(work, all, || Err(())).unwrap();
    }

    #[test]
    fn flushes_and_merges_wait_for_room_beside_others() {
        let db = open();
        for round in 0..2u8 {
            db.put("key", [round]).unwrap();
            waits_for_room(&db, TableWork::Flush, || db.flush().unwrap());
        }
        assert_eq!(db.stats().counters.flushes, 2);
        let merge = || db.default_keyspace().compact_range(None, None).unwrap();
        waits_for_room(&db, TableWork::Merge, merge);
        assert_eq!(db.stats().counters.compactions, 1);
    }
}
