//! Carrying out compactions: files that move, files that are merged, and what a cut leaves.
//!
//! Runs on whatever thread took the task, whose files are marked busy; takes the tree only to
//! install the result. Thread-safe.

use std::sync::Arc;

use shamba_model::merging::shares_of_read_ahead;

use super::heirs::{Heirs, prepopulate};
use super::hidden::{end_after, hidden, removes, start_after};
use super::table_maker::TableMaker;
use crate::budget::merge_readahead;
use crate::compaction::job::{NewTables, write_tables};
use crate::compaction::{
    Boundaries, BoundedIter, CompactionFilter, Filtered, Filtering, FragmentMerge, Inheritance,
    MergeIter, Parents, Retain, RunFiles, RunFragments, RunIter, TargetRun, Task, TaskInput,
};
use crate::db::context::DbContext;
use crate::db::files::{Files, Tree};
use crate::db::keyspaces::KeyspaceInner;
use crate::db::visibility::Visibility;
use crate::error::Result;
use crate::fs::{PAGE, Purpose};
use crate::metrics::Counter;
use crate::table::ScanOptions;
use crate::version::{FileMeta, KeyspaceEdit, VersionEdit};

/// The tables that a cut merge leaves in the run of one of its inputs.
type RemainingParts<'a> = (&'a TaskInput, NewTables);

/// What a merge wrote, and the files that its range tombstones hide.
struct MergeResult<'a> {
    tables: &'a NewTables,
    rests: &'a [RemainingParts<'a>],
    hidden: &'a [FileMeta],
}

/// The most pages a merge reads at a time from an input.
const MAX_READAHEAD: u64 = 64;

/// Pages a merge reads at a time from each of inputs of so many bytes.
fn readahead_pages(limit: u64, inputs: &[u64]) -> Vec<u32> {
    let pages = (merge_readahead(limit) / PAGE as u64) as f64;
    let shares = shares_of_read_ahead(inputs).into_iter();
    let pages = shares.map(|share| ((pages * share) as u64).clamp(1, MAX_READAHEAD));
    pages.map(|pages| pages as u32).collect()
}

/// See the module.
pub(super) struct Merger {
    shared: Arc<DbContext>,
    files: Arc<Files>,
    visibility: Arc<Visibility>,
    maker: Arc<TableMaker>,
}

impl Merger {
    pub(super) fn new(
        (shared, visibility): (&Arc<DbContext>, &Arc<Visibility>),
        files: &Arc<Files>,
        maker: &Arc<TableMaker>,
    ) -> Self {
        Merger {
            shared: shared.clone(),
            files: files.clone(),
            visibility: visibility.clone(),
            maker: maker.clone(),
        }
    }

    pub(super) fn move_files(
        &self,
        tree: &mut Tree,
        keyspace: &Arc<KeyspaceInner>,
        task: &Task,
    ) -> Result<()> {
        if keyspace.is_dropped() {
            return Ok(());
        }
        let moves = task.moves(self.output_run(task));
        let edit = KeyspaceEdit {
            id: keyspace.id(),
            moves,
            ..KeyspaceEdit::default()
        };
        self.files
            .install(tree, keyspace, VersionEdit::of_keyspace(edit))?;
        self.shared
            .metrics()
            .add(Counter::trivial_moves, task.files().count() as u64);
        Ok(())
    }

    fn output_run(&self, task: &Task) -> u64 {
        match task.output {
            TargetRun::Join(run) => run,
            TargetRun::New => self.files.new_run(),
            // Not asked for.
            TargetRun::Keep => 0,
        }
    }

    /// Gives what the new tables left of holes in the heap ([`NewTables::holes`]).
    pub(super) fn merge(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        task: &Task,
        on_the_way: impl Fn() -> Result<()>,
    ) -> Result<usize> {
        let filters = &self.shared.options().compaction_filters;
        let filter = filters.of(keyspace.name());
        if filter.is_some()
            && let Some(holes) = self.merge_with(keyspace, task, &on_the_way, filter)?
        {
            return Ok(holes);
        }
        let merged = self.merge_with(keyspace, task, &on_the_way, None)?;
        Ok(merged.unwrap_or_default())
    }

    /// [`Self::merge`] with a filter; `None`, and nothing changes, where somebody who began to read
    /// meanwhile would see what the filter did.
    fn merge_with(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        task: &Task,
        on_the_way: &impl Fn() -> Result<()>,
        filter: Option<&dyn CompactionFilter>,
    ) -> Result<Option<usize>> {
        // Taken before anything is read: whoever registers later sees at least what is visible now.
        let now = self.shared.now().max(task.expired_to);
        let boundaries = self.visibility.boundaries(now);
        let entries = task.files().map(|file| file.entries()).sum();
        let bytes_read = task.input_bytes();
        let sizes = task.inputs.iter().map(|input| {
            let files = input.files.iter();
            files.map(|file| file.size()).sum()
        });
        // Larger inputs are read further ahead: that takes the fewest reads for the memory.
        let ahead = readahead_pages(self.shared.working_limit(), &sizes.collect::<Vec<_>>());
        let scan = ScanOptions {
            purpose: Purpose::Background,
            sources: task.inputs.len(),
            fill_cache: false,
            readahead_pages: 1,
            lazy: false,
            budget: self.shared.budget().clone(),
        };
        // Files of the inputs too that a range tombstone hides are not read.
        let fragments = self.fragments(&task.inputs, Vec::new(), Vec::new());
        let hidden = hidden(&keyspace.version(), fragments, &boundaries)?;
        let children = task
            .inputs
            .iter()
            .zip(ahead)
            .map(|(input, readahead_pages)| {
                let scan = ScanOptions {
                    readahead_pages,
                    ..scan.clone()
                };
                let files = RunFiles::Some(not_in(&input.files, &hidden));
                RunIter::new(self.files.tables().clone(), files, scan)
            })
            .collect();
        // A cut merge ends at a key; what its inputs hold behind it is written back to their runs
        // below.
        let cut = task.cut.as_deref();
        let mut merged = BoundedIter::up_to(MergeIter::new(children), cut);
        let target = self.maker.target_file(&keyspace.options());
        let (level, parents) = (task.output_level, Parents::Merge(task));
        let mut output = self
            .maker
            .output(keyspace, level, entries, target, parents)?;
        output.on_the_way = Box::new(on_the_way);
        output.filtering = filter.map(|filter| Filtering {
            keyspace: keyspace.name(),
            filter,
            budget: self.shared.budget(),
        });
        // What is known of the inputs goes over to the outputs, and tells which of their blocks to
        // keep in memory.
        let inherits = self.shared.options().inherit_statistics;
        let heirs = inherits.then(|| Inheritance::of_merge(task, self.files.tables()));
        let heirs =
            heirs.and_then(|inheritance| Heirs::of(inheritance, &self.shared.options().memory));
        output.options.keep = heirs.as_ref().map(Heirs::keep);
        let retain = Retain::new(boundaries.clone(), task.bottom);
        self.files.state_value_files(&output)?;
        let ranges = self.fragments(&task.inputs, Vec::new(), cut.map_or(Vec::new(), end_after));
        let mut tables = write_tables(&mut merged, ranges, retain, &output)?;
        let rests = match cut {
            Some(cut) => self.write_rests(keyspace, task, cut, &scan, (&boundaries, &hidden)),
            None => Ok(Vec::new()),
        };
        let rests = rests.inspect_err(|_| self.files.remove_new(tables.all()))?;
        // From here on the new tables are whole, and become a part of the tree or are removed.
        let all = rests
            .iter()
            .flat_map(|(_, tables)| tables.all())
            .chain(tables.all());
        let written = all.map(|table| table.info.size).sum();
        let expired = tables.expired() + rests.iter().map(|(_, rest)| rest.expired()).sum::<u64>();
        let filtered = tables.filtered();
        let unseen = (filtered != Filtered::default()).then_some(&boundaries);
        let result = MergeResult {
            tables: &tables,
            rests: &rests,
            hidden: &hidden,
        };
        let installed = self.install_merge(keyspace, task, result, heirs.as_ref(), unseen);
        let Some(files) = installed? else {
            return Ok(None);
        };
        if heirs.is_some() {
            // What is in memory of the inputs makes room for what takes its place.
            let gone = task.files().map(|file| file.slot().cache_id());
            self.files.tables().forget_all(&gone.collect());
            let cache = self.shared.options().memory.cache();
            prepopulate(cache, self.files.tables(), &mut tables, &files);
        }
        self.shared.metrics().add_all(&[
            (Counter::entries_expired, expired),
            (Counter::operands_collapsed, tables.collapsed()),
            (Counter::entries_removed_by_filter, filtered.removed),
            (Counter::entries_changed_by_filter, filtered.changed),
            (Counter::compactions, 1),
            (Counter::compaction_bytes_read, bytes_read),
            (Counter::compaction_bytes_written, written),
        ]);
        Ok(Some(tables.holes()))
    }

    /// Writes what the inputs of a cut merge hold of later keys into tables of their own, for the
    /// runs they are of. What a file still holds alone, nobody can have deleted since.
    fn write_rests<'a>(
        &self,
        keyspace: &KeyspaceInner,
        task: &'a Task,
        cut: &[u8],
        scan: &ScanOptions,
        (boundaries, hidden): (&Boundaries, &[FileMeta]),
    ) -> Result<Vec<RemainingParts<'a>>> {
        let mut rests: Vec<RemainingParts<'a>> = Vec::new();
        for input in &task.inputs {
            // Files of a run do not meet: one of them at most goes on after the key.
            let files = not_in(&input.files, hidden);
            let Some(file) = files.last().filter(|file| file.largest() > cut) else {
                continue;
            };
            let of_file = RunFragments::of(self.files.tables(), [file]);
            let ranges = of_file
                .map(|of_file| FragmentMerge::new(vec![of_file], start_after(cut), Vec::new()));
            let files = RunFiles::Some(vec![file.clone()]);
            let ahead = readahead_pages(self.shared.working_limit(), &[file.size()]);
            let scan = ScanOptions {
                readahead_pages: ahead.first().copied().unwrap_or(1),
                ..scan.clone()
            };
            // It is an input once more, alone, from the cut on.
            let rest = RunIter::new(self.files.tables().clone(), files, scan);
            let target = self.maker.target_file(&keyspace.options());
            let output = self.maker.output(
                keyspace,
                input.level,
                file.entries(),
                target,
                Parents::Merge(task),
            );
            let retain = Retain::new(boundaries.clone(), false);
            let mut rest = BoundedIter::after(rest, cut);
            match output.and_then(|output| write_tables(&mut rest, ranges, retain, &output)) {
                Ok(tables) => rests.push((input, tables)),
                Err(error) => {
                    self.files
                        .remove_new(rests.iter().flat_map(|(_, tables)| tables.all()));
                    return Err(error);
                }
            }
        }
        Ok(rests)
    }

    /// Makes what was written, of the merge and of what a cut left, a part of the tree. `None`, and
    /// it is gone, where it is to be `unseen` by whoever began to read since those boundaries were
    /// taken, and somebody did.
    fn install_merge(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        task: &Task,
        MergeResult {
            tables,
            rests,
            hidden,
        }: MergeResult<'_>,
        heirs: Option<&Heirs>,
        unseen: Option<&Boundaries>,
    ) -> Result<Option<Vec<FileMeta>>> {
        // First the names of the new tables are durable, then an edit may name them.
        let of_rests = || rests.iter().flat_map(|(_, tables)| tables.all());
        self.files.sync_new(tables.all().chain(of_rests()))?;
        let mut tree = self.files.tree();
        if keyspace.is_dropped() {
            self.files.remove_new(tables.all().chain(of_rests()));
            return Ok(Some(Vec::new()));
        }
        // What the manifest is told: the outputs, and what a cut left in the runs it came from.
        let run = self.output_run(task);
        let parents = || Parents::Merge(task);
        let place = (task.output_level, run);
        let from = (parents(), heirs);
        let mut adds = self.maker.adds(keyspace, &tree, place, tables, from);
        let files = adds.iter().map(|added| added.file.clone()).collect();
        for (input, tables) in rests {
            let place = (input.level, input.run);
            let from = (parents(), None);
            adds.extend(self.maker.adds(keyspace, &tree, place, tables, from));
            adds.extend(self.maker.value_files(&tree, tables.values()));
        }
        adds.extend(self.maker.value_files(&tree, tables.values()));
        let known = |files: &mut dyn Iterator<Item = u64>| files.sum();
        let added = known(&mut adds.iter().map(|added| added.file.memory()));
        let removed = known(&mut task.files().map(|file| file.memory()));
        let fits = self.files.check_room(added, removed);
        fits.inspect_err(|_| self.files.remove_new(tables.all().chain(of_rests())))?;
        let mut gone = removes(&keyspace.version(), hidden);
        let dropped = gone.len() as u64;
        gone.extend(task.removes());
        let edit = KeyspaceEdit {
            id: keyspace.id(),
            removes: gone,
            adds,
            ..KeyspaceEdit::default()
        };
        // What a filter changed shows to everybody at once, or to nobody.
        let install = || {
            self.files
                .install(&mut tree, keyspace, VersionEdit::of_keyspace(edit))
        };
        let installed = match unseen {
            None => Some(install()),
            // Whoever registers meanwhile waits, and sees what the cache has no more.
            Some(boundaries) => self.visibility.unless_held_above(boundaries.held_to, || {
                let cache = self.shared.options().memory.cache();
                let _changing = cache.change_entries(keyspace.entries());
                install()
            }),
        };
        let Some(installed) = installed else {
            self.files.remove_new(tables.all().chain(of_rests()));
            return Ok(None);
        };
        installed.inspect_err(|_| {
            self.files
                .remove_unlogged(&tree, tables.all().chain(of_rests()))
        })?;
        self.shared.metrics().add(Counter::tables_dropped, dropped);
        Ok(Some(files))
    }

    /// The range tombstones of a merge's inputs, from a key on and up to an end.
    fn fragments(&self, inputs: &[TaskInput], from: Vec<u8>, to: Vec<u8>) -> Option<FragmentMerge> {
        let tables = self.files.tables();
        let sources = inputs.iter();
        let sources = sources.filter_map(|input| RunFragments::of(tables, &input.files));
        let sources: Vec<_> = sources.collect();
        (!sources.is_empty()).then(|| FragmentMerge::new(sources, from, to))
    }
}

/// Files that are not among others.
fn not_in(files: &[FileMeta], others: &[FileMeta]) -> Vec<FileMeta> {
    let stays = |file: &&FileMeta| others.iter().all(|other| other.number() != file.number());
    files.iter().filter(stays).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_inputs_are_read_further_ahead() {
        let mib = 1 << 20;
        let ahead = readahead_pages(6 * mib, &[mib, mib, mib, mib, 36 * mib]);
        assert_eq!(ahead, [9, 9, 9, 9, 57]);
        assert_eq!(readahead_pages(mib, &[mib, 0]), [16, 1]);
        assert_eq!(readahead_pages(64 << 10, &[5, 5]), [1, 1]);
        assert_eq!(readahead_pages(1 << 40, &[mib]), [MAX_READAHEAD as u32]);
        assert!(readahead_pages(mib, &[]).is_empty());
    }
}
