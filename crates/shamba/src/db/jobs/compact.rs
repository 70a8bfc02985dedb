//! Compactions on any thread: which is due, of all keyspaces the most urgent, and those of a key
//! range that somebody asks for. What is done then is in [`super::merge`]. Thread-safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::MutexGuard;

use super::flush::Flusher;
use super::job_guard::{Held, Jobs};
use super::merge::Merger;
use super::table_maker::TableMaker;
use super::table_options::rebuild_if_misfit;
use crate::base::key::SeqNo;
use crate::budget::{AdmittedWork, Role, many_of_files, merge_inputs, merge_keys};
use crate::compaction::{
    KEYS_OF_INPUT, Manual, ManualRange, Moving, PickerOptions, Task, TaskInput, TaskKind, manual,
    pick,
};
use crate::db::context::DbContext;
use crate::db::files::due::DueWork;
use crate::db::files::{Files, Tree};
use crate::db::keyspaces::KeyspaceInner;
use crate::db::visibility::Visibility;
use crate::error::{Error, Result};
use crate::filter::{FileContext, choose};
use crate::options::KeyspaceOptions;
use crate::table::{Compression, PAGE_PAYLOAD};
use crate::version::{FileMeta, Version};

/// Bytes that an input of a merge holds: a page, the block in it, the cursor and the open table.
const INPUT_BYTES: u64 = 10 << 10;

/// The same where blocks are compressed, and so larger.
const COMPRESSED_INPUT_BYTES: u64 = 20 << 10;

/// Bytes that an input of a merge holds where entries are not large.
fn input_bytes(options: &KeyspaceOptions) -> u64 {
    let compression = &options.compression;
    if compression.iter().all(|of| *of == Compression::None) {
        INPUT_BYTES
    } else {
        COMPRESSED_INPUT_BYTES
    }
}

/// The most bytes that an input holds beside its key, whatever else takes memory: of a block that
/// is larger than `table::iter` calls essential it holds the present entry only, or not even that.
const MOST_HELD: u64 = 24 << 10;

/// Bytes that the lists take which are made of a task's tables while it runs, for each.
const TASK_BYTES: u64 = 64;

/// Whether a keyspace has files that hold dead entries which a snapshot still sees, or entries that
/// expire, or writes that are not visible yet: they can go later, of which nobody tells.
fn may_reclaim_later(keyspace: &KeyspaceInner, version: &Version, oldest_snapshot: SeqNo) -> bool {
    let dead = |file: &FileMeta| {
        let dead = [file.tombstones(), file.garbage(), file.ranges()];
        file.max_seq() > oldest_snapshot && dead.iter().any(|count| *count > 0)
    };
    let expires = |file: &FileMeta| file.expiry().last > 0;
    keyspace.flushed_seq() > oldest_snapshot && version.files().any(dead)
        || version.files().any(expires)
}

/// What came of a step of compacting a range.
pub(in crate::db) enum RangeStep {
    /// It was done; another may follow.
    Done,
    /// There is none left.
    Ended,
    /// It waits for tasks under way.
    Busy,
}

/// See the module.
pub(in crate::db) struct Compactor {
    shared: Arc<DbContext>,
    files: Arc<Files>,
    visibility: Arc<Visibility>,
    jobs: Arc<Jobs>,
    maker: Arc<TableMaker>,
    flusher: Arc<Flusher>,
    merger: Merger,
    /// Compactions under way.
    running: AtomicU64,
    /// How many keep new ones from beginning.
    paused: AtomicU64,
}

impl Compactor {
    pub(in crate::db) fn new(
        (shared, visibility): (&Arc<DbContext>, &Arc<Visibility>),
        files: &Arc<Files>,
        (jobs, maker): (&Arc<Jobs>, &Arc<TableMaker>),
        flusher: &Arc<Flusher>,
    ) -> Self {
        Compactor {
            shared: shared.clone(),
            files: files.clone(),
            visibility: visibility.clone(),
            jobs: jobs.clone(),
            maker: maker.clone(),
            flusher: flusher.clone(),
            merger: Merger::new((shared, visibility), files, maker),
            running: AtomicU64::new(0),
            paused: AtomicU64::new(0),
        }
    }

    /// Whether a compaction is under way.
    pub(in crate::db) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Keeps new compactions from beginning, but for those of [`Self::compact_range_once`], until
    /// what is given is dropped.
    pub(in crate::db) fn pause(&self) -> Held<'_, impl FnMut()> {
        self.paused.fetch_add(1, Ordering::AcqRel);
        self.jobs.hold("compacting a range", || {
            self.paused.fetch_sub(1, Ordering::AcqRel);
        })
    }

    /// Why compactions of some keyspace keep failing, if they do.
    pub(in crate::db) fn stuck(&self) -> Option<Arc<Error>> {
        self.files
            .due()
            .of_failing(|keyspace| keyspace.compactions().stuck())
    }

    /// Has compactions that keep failing tried anew at once, but for those that found damage: it
    /// stays.
    pub(in crate::db) fn try_anew(&self) {
        self.files.due().of_failing(|keyspace| {
            let compactions = keyspace.compactions();
            if compactions.stuck().is_some_and(|e| !e.is_for_good()) {
                compactions.forget();
            }
            None::<()>
        });
        self.shared.signal().notify();
    }

    /// Does the most urgent compaction; false when none is due.
    pub(in crate::db) fn compact_once(&self) -> Result<bool> {
        if self.paused.load(Ordering::Acquire) > 0 {
            return Ok(false);
        }
        let tree = self.files.tree();
        let Some((keyspace, task)) = self.pick(&tree) else {
            return Ok(false);
        };
        self.run_task(tree, &keyspace, task)?;
        Ok(true)
    }

    /// The most urgent compaction, its files marked busy.
    fn pick(&self, tree: &Tree) -> Option<(Arc<KeyspaceInner>, Task)> {
        loop {
            self.look_for_due(tree);
            let keyspace = self.files.due().most_urgent()?;
            let version = keyspace.version();
            let task = pick(&version, &self.picker_options(&keyspace));
            // What it has beside this task, or instead, is seen at the next look.
            self.files.due().changed(&keyspace);
            if let Some(task) = task {
                let task = rebuild_if_misfit(&keyspace, &version, task);
                return self.begin_task(&task).then_some((keyspace, task));
            }
        }
    }

    /// Looks at the keyspaces of which something changed.
    pub(in crate::db) fn look_for_due(&self, tree: &Tree) {
        let limit = self.shared.limit();
        self.files
            .due()
            .look(tree.keyspaces(), limit, |of| self.find_due(of));
    }

    /// Whether a keyspace has a compaction due.
    pub(in crate::db) fn find_due(&self, keyspace: &Arc<KeyspaceInner>) -> DueWork {
        if keyspace.check_alive().is_err() {
            return DueWork::Nothing;
        }
        let options = self.picker_options(keyspace);
        let version = keyspace.version();
        let rests = keyspace.compactions().rests();
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

    /// The number of the next file, where a filter is to be asked about all there is.
    pub(in crate::db) fn rewrite_before(&self, keyspace: &KeyspaceInner) -> u64 {
        let filters = &self.shared.options().compaction_filters;
        let filter = filters.of(keyspace.name());
        filter.map_or(0, |_| self.files.next_file().load(Ordering::Relaxed))
    }

    /// Does the next step of merging a key range down to the bottom.
    pub(in crate::db) fn compact_range_once(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        range: ManualRange<'_>,
    ) -> Result<RangeStep> {
        let tree = self.files.tree();
        let version = keyspace.version();
        match manual(&version, range, &self.picker_options(keyspace)) {
            Manual::Done => Ok(RangeStep::Ended),
            Manual::Task(task) => {
                let task = rebuild_if_misfit(keyspace, &version, task);
                if self.begin_task(&task) {
                    self.run_task(tree, keyspace, task)?;
                    Ok(RangeStep::Done)
                } else {
                    Ok(RangeStep::Busy)
                }
            }
            Manual::Busy => Ok(RangeStep::Busy),
        }
    }

    /// Claims a task's files; the caller holds the tree lock, so no other task has them.
    fn begin_task(&self, task: &Task) -> bool {
        let claimed = task.try_claim();
        if claimed {
            self.running.fetch_add(1, Ordering::SeqCst);
        }
        claimed
    }

    /// Gives back a task's files: the keyspace is looked at again before no task is said to run.
    fn end_task(&self, keyspace: &Arc<KeyspaceInner>, task: &Task) {
        task.release();
        self.files.due().changed(keyspace);
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Runs a task whose files are marked busy, under the lock it was picked under. A move is
    /// installed before that is given back: pickers count on no move being under way (see
    /// `compaction::task`).
    fn run_task(
        &self,
        mut tree: MutexGuard<'_, Tree>,
        keyspace: &Arc<KeyspaceInner>,
        task: Task,
    ) -> Result<()> {
        log::debug!(
            "{}: {}: {task}",
            self.shared.dir().display(),
            keyspace.name()
        );
        let files = self.jobs.hold("compacting tables", || {
            self.end_task(keyspace, &task);
        });
        let budget = self.shared.budget();
        let bytes = TASK_BYTES * task.files().count() as u64;
        let (listed, result) = match task.kind {
            TaskKind::TrivialMove => {
                let listed = budget.reserve_at_once(Role::Compaction, bytes);
                let moved = self.merger.move_files(&mut tree, keyspace, &task);
                drop(tree);
                (listed, moved.map(|()| 0))
            }
            TaskKind::Merge => {
                drop(tree);
                let listed = budget.reserve(Role::Compaction, bytes);
                (listed, self.merge_in_turn(keyspace, &task))
            }
        };
        drop((files, listed));
        self.jobs.note(keyspace.compactions(), &result);
        match result {
            Ok(holes) => {
                let holes = holes + task.files().count();
                // Of files that are no more this was the last to hold what is known of them.
                drop(task);
                budget.left_holes(holes);
                Ok(())
            }
            Err(error) => {
                self.files.due().failed(keyspace);
                Err(error)
            }
        }
    }

    /// Merges once there is memory for it beside other merges; gives what the new tables left of
    /// holes in the heap.
    fn merge_in_turn(&self, keyspace: &Arc<KeyspaceInner>, task: &Task) -> Result<usize> {
        let options = keyspace.options();
        let input = input_bytes(&options);
        // Of each input a block of the usual size and a key; of large entries one at a time, with
        // the block that it fills.
        let entry = |file: &FileMeta| {
            let values: u64 = file.pointed_to().map(|(_, bytes)| bytes).sum();
            2 * file.size().max(values) / file.entries().max(1)
        };
        let of_input = |of: &TaskInput| {
            let entries = of.files.iter().map(entry);
            let block = entries
                .max()
                .unwrap_or(0)
                .clamp(input, MOST_HELD.max(input));
            let key = of.files.iter().map(FileMeta::longer_key).max();
            block + KEYS_OF_INPUT * key.unwrap_or(0) as u64
        };
        let largest = task.files().map(entry).max().unwrap_or(0);
        let entries = task.files().map(FileMeta::entries).sum();
        let inputs = task.inputs.iter().map(of_input).sum::<u64>() + largest;
        let key = task.files().map(FileMeta::longer_key).max().unwrap_or(0);
        let maker = &self.maker;
        // Fragments of each input, and what covers the keys from one to the next.
        let ranges = if task.files().any(|file| file.ranges() > 0) {
            maker.ranges_memory(key) + task.inputs.len() as u64 * 4 * key as u64
        } else {
            0
        };
        let needed = || inputs + ranges + maker.memory(&options, task.output_level, entries, key);
        let budget = self.shared.budget();
        let _permit = budget.admit(AdmittedWork::Merge, needed, || self.flush_on_the_way())?;
        self.merger
            .merge(keyspace, task, || self.flush_on_the_way())
    }

    /// Called within a merge: whether it may go on, once what waits to be flushed was, if no other
    /// thread is there to do it. Writers wait for flushes, and a merge may take minutes.
    fn flush_on_the_way(&self) -> Result<()> {
        self.shared.check_not_stopping()?;
        let threads = self.shared.options().background_threads as u64;
        let all_merge = self.running.load(Ordering::Relaxed) >= threads;
        if threads > 0 && all_merge {
            // What fails is tried again, and is no failure of the merge.
            while !self.shared.is_poisoned() && self.flusher.flush_some().unwrap_or(false) {}
        }
        Ok(())
    }

    /// The inputs that a merge has memory for: of each it holds a block and what is read with it,
    /// of all together a sixteenth of the budget. Several merges may run.
    fn most_inputs(&self, options: &KeyspaceOptions) -> usize {
        let inputs = merge_inputs(self.shared.working_limit()) / input_bytes(options);
        usize::try_from(inputs).unwrap_or(usize::MAX).max(2)
    }

    pub(in crate::db) fn picker_options(&self, keyspace: &KeyspaceInner) -> PickerOptions {
        let options = keyspace.options();
        let limit = self.shared.working_limit();
        PickerOptions {
            flush_bytes: options.memtable_capacity(limit) as u64,
            most_inputs: self.most_inputs(&options),
            merge_keys: merge_keys(limit),
            page_cost: self.page_cost(),
            merge_for_scans: options.merge_for_scans,
            too_many_files: self.shared.budget().used_by(Role::Files) > many_of_files(limit),
            policy: options.merge_policy,
            size_ratio: options.size_ratio,
            buffer_bytes: options.write_buffer,
            level0_runs: options.level0_runs,
            oldest_snapshot: self.visibility.oldest(),
            expired_to: self.visibility.expired_to(self.shared.now()),
            moving: self.picker_move(keyspace),
            ..PickerOptions::default()
        }
    }

    /// What a merge pays for a page: as the options state it, or a read and a write.
    fn page_cost(&self) -> f64 {
        let stated = self.shared.options().device;
        let cost = stated.map(|device| device.merge_read_cost + device.write_cost);
        cost.unwrap_or(PickerOptions::default().page_cost)
    }

    /// What pickers need to know of a keyspace's move.
    fn picker_move(&self, keyspace: &KeyspaceInner) -> Option<Moving> {
        let stored = keyspace.moving()?;
        let mut moving = Moving {
            since: stored.since,
            bits: Vec::new(),
        };
        if stored.rewrite_filters {
            moving.bits = self.wanted_bits(&keyspace.state().version, &keyspace.options());
        }
        Some(moving)
    }

    /// The filter bits per key of new files by level; none where they go by more than the level:
    /// then tables get theirs when they are next written.
    pub(in crate::db) fn wanted_bits(
        &self,
        version: &Version,
        options: &KeyspaceOptions,
    ) -> Vec<f64> {
        if options.filter.allocation.rule().is_some() {
            return Vec::new();
        }
        let wish = options.filter_wish();
        let levels = version.levels().len().max(1) as u32;
        let bits = |level| {
            let context = FileContext {
                level,
                keys: 1 << 20,
                partition_keys: u32::MAX,
                page: PAGE_PAYLOAD,
                bits_per_key: None,
            };
            f64::from(choose(&wish, &context).likeliest().millibits()) / 1000.0
        };
        (0..levels).map(bits).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use crate::budget::AdmittedWork;
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
    fn waits_for_room(db: &Db, work: AdmittedWork, act: impl Fn() + Sync) {
        let budget = Arc::clone(db.inner().shared().budget());
        let all = budget.limit();
        let others = budget.admit(work, || all, || Ok::<_, ()>(())).unwrap();
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
        budget.admit(work, || all, || Err(())).unwrap();
    }

    #[test]
    fn flushes_and_merges_wait_for_room_beside_others() {
        let db = open();
        for round in 0..2u8 {
            db.put("key", [round]).unwrap();
            waits_for_room(&db, AdmittedWork::Flush, || db.flush().unwrap());
        }
        assert_eq!(db.stats().counters.flushes, 2);
        let merge = || db.default_keyspace().compact_range(None, None).unwrap();
        waits_for_room(&db, AdmittedWork::Merge, merge);
        assert_eq!(db.stats().counters.compactions, 1);
    }
}
