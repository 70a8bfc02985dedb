//! Flushing: a frozen memtable becomes a run of level 0.
//!
//! One thread at a time flushes a keyspace, oldest memtable first, so that `flushed_seq` says that
//! everything up to it is in tables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use super::keyspace::{KeyspaceInner, ReadState};
use super::lineage::Lineage;
use super::{DbInner, Tree};
use crate::base::iter::InternalIterator;
use crate::base::key::SeqNo;
use crate::budget::{Role, give_back_free_pages, least_limit_for_files, most_of_files};
use crate::compaction::job::{MUCH, NewTable, Output, table_path, write_tables};
use crate::compaction::{Ancestry, Origin, Retain};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Counter;
use crate::table::TableSlot;
use crate::version::{AddedFile, FileInfo, FileMeta, KeyspaceEdit, Version, VersionEdit};

/// A table with a filter over all of its keys has one for so many bytes of the budget at most: a digest
/// and the filter's bits then take less than a tenth of it.
const BYTES_PER_KEY: u64 = 256;

/// About what is known of a table takes, without its keys, several times over.
const TABLE_BYTES: u64 = 1 << 10;

impl DbInner {
    pub(crate) fn output<'a>(
        &'a self,
        keyspace: &KeyspaceInner,
        level: usize,
        entries: u64,
        target_file: u64,
        origin: Origin<'_>,
    ) -> Output<'a> {
        Output {
            // A filter over a whole table is built of all its keys at once.
            target_keys: match keyspace.options().filter.partitioned {
                true => u64::MAX,
                false => self.options.memory.limit() / BYTES_PER_KEY,
            },
            fs: &self.options.fs,
            dir: &self.dir,
            budget: self.options.memory.budget(),
            next_file: &self.next_file,
            options: self.build_options(keyspace, level, entries, origin),
            target_file,
            on_the_way: Box::new(|| self.not_closing()),
        }
    }

    /// Whether work on tables may go on: not once the database closes.
    pub(super) fn not_closing(&self) -> Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    /// New tables as an edit adds them.
    pub(crate) fn adds(
        &self,
        tree: &Tree,
        level: usize,
        run: u64,
        tables: &[NewTable],
        (origin, lineage): (Origin<'_>, Option<&Lineage>),
    ) -> Vec<AddedFile> {
        let cache = self.options.memory.cache();
        let slots = lineage.map_or_else(Vec::new, |lineage| lineage.slots(tables, cache));
        let created = tree.manifest.state().next_created;
        let add = |(table, slot): (&NewTable, TableSlot)| {
            let info = FileInfo {
                created,
                ..table.info.clone()
            };
            let hotness = origin.hotness(&info.smallest, &info.largest);
            let file = FileMeta::with_slot(&info, slot);
            file.restore((0, 0), hotness, self.options.memory.budget());
            AddedFile {
                level: level as u32,
                run,
                file,
            }
        };
        let slots = slots
            .into_iter()
            .chain(std::iter::repeat_with(TableSlot::default));
        tables.iter().zip(slots).map(add).collect()
    }

    /// An error if what is known of tables may take no more memory. The flush is then tried again like one
    /// that fails on a full disk; merges go on, which make tables fewer.
    fn check_room_for_a_table(&self, memtable: &Arc<Memtable>) -> Result<()> {
        let mut iter = memtable.iter();
        let mut keys = 0;
        iter.seek_to_first()?;
        keys += iter.key().len();
        iter.seek_to_last()?;
        keys += iter.key().len();
        let limit = self.options.memory.limit();
        let known = self.options.memory.budget().used_by(Role::Files);
        let needed = known + keys as u64 + TABLE_BYTES;
        match needed <= most_of_files(limit) {
            true => Ok(()),
            false => Err(Error::BudgetTooSmall {
                limit,
                needed: least_limit_for_files(needed),
            }),
        }
    }

    /// After jobs that took much of the heap together for a while: `took` is [`NewTables::heap_took`].
    pub(super) fn settle_heap(&self, took: usize) {
        let before = self.heap_took.fetch_add(took, Ordering::Relaxed);
        if before + took >= MUCH {
            self.heap_took.store(0, Ordering::Relaxed);
            give_back_free_pages();
        }
    }

    /// Flushes the oldest frozen memtable of a keyspace. The caller holds its `flushing` flag.
    pub(crate) fn flush_oldest(&self, keyspace: &KeyspaceInner) -> Result<bool> {
        let Some(memtable) = keyspace.state.load().frozen.last().cloned() else {
            return Ok(false);
        };
        self.check_room_for_a_table(&memtable)?;
        let boundaries = self.snapshots.boundaries(|| self.visible_seq());
        let version = keyspace.state.load().version.clone();
        let bottom = version.is_empty();
        let origin = Origin::Flush(&version, keyspace.options().size_ratio);
        let mut output = self.output(keyspace, 0, memtable.len() as u64, u64::MAX, origin);
        let lineage = self.lineage_of_flush(&version, &memtable)?;
        drop(version);
        output.options.keep = lineage.as_ref().map(Lineage::keep);
        let mut tables = write_tables(
            &mut memtable.iter(),
            Retain::new(boundaries, bottom),
            &output,
        )?;
        let files = self.install_flush(keyspace, &memtable, &tables, lineage.as_ref())?;
        self.warm(&mut tables, &files);
        self.metrics.add_all(&[
            (Counter::flushes, 1),
            (
                Counter::flush_bytes,
                tables.iter().map(|table| table.info.size).sum(),
            ),
        ]);
        let took = tables.heap_took(0);
        drop((tables, files, lineage, output));
        self.settle_heap(took);
        Ok(true)
    }

    /// What is known of those below a memtable.
    fn lineage_of_flush(
        &self,
        version: &Version,
        memtable: &Arc<Memtable>,
    ) -> Result<Option<Lineage>> {
        if !self.options.inherit_heat || version.is_empty() {
            return Ok(None);
        }
        let mut entries = memtable.iter();
        entries.seek_to_first()?;
        let smallest = entries.key().to_vec();
        entries.seek_to_last()?;
        let range = (&*smallest, entries.key());
        let ancestry = Ancestry::of_flush(version, range, memtable.len() as u64);
        Ok(self.lineage(ancestry))
    }

    /// Makes the names of new tables durable, which are all the folder has, and takes the tree to
    /// install them in. `None` when the keyspace was dropped meanwhile: the tables are removed again.
    pub(crate) fn tree_for<'a>(
        &self,
        keyspace: &KeyspaceInner,
        tables: impl Iterator<Item = &'a NewTable> + Clone,
    ) -> Result<Option<MutexGuard<'_, Tree>>> {
        if tables.clone().next().is_some() {
            self.sync_folder().inspect_err(|error| {
                if error.is_shortage() {
                    self.remove_new(tables.clone());
                }
            })?;
        }
        let tree = self.tree.lock();
        if keyspace.dropped.load(Ordering::Acquire) {
            self.remove_new(tables);
            return Ok(None);
        }
        Ok(Some(tree))
    }

    fn install_flush(
        &self,
        keyspace: &KeyspaceInner,
        memtable: &Arc<Memtable>,
        tables: &[NewTable],
        lineage: Option<&Lineage>,
    ) -> Result<Vec<FileMeta>> {
        let Some(mut tree) = self.tree_for(keyspace, tables.iter())? else {
            keyspace.update(|state| without(state, memtable));
            return Ok(Vec::new());
        };
        // Another thread flushed it meanwhile: a second time would put it above newer tables.
        let oldest = keyspace.state.load().frozen.last().cloned();
        if oldest.is_none_or(|oldest| !Arc::ptr_eq(&oldest, memtable)) {
            self.remove_new(tables.iter());
            return Ok(Vec::new());
        }
        let flushed = memtable.last_seq().unwrap_or(0);
        let first_needed = self.first_needed_seq(&tree, Some(memtable));
        let (not_needed, end) = {
            let closed = self.closed_logs.lock();
            (closed.count_before(first_needed), closed.end_of(flushed))
        };
        // A batch over several keyspaces is whole after a crash only if its record is durable
        // before a part of it is in a table.
        if tree.keyspaces.len() > 1 {
            self.sync_closed_logs_to(not_needed, end)?;
        }
        let durable = self.closed_logs.lock().durable_without(not_needed);
        let run = self.next_run.fetch_add(1, Ordering::Relaxed);
        let version = keyspace.state.load().version.clone();
        let origin = Origin::Flush(&version, keyspace.options().size_ratio);
        let adds = self.adds(&tree, 0, run, tables, (origin, lineage));
        let files = adds.iter().map(|added| added.file.clone()).collect();
        let edit = KeyspaceEdit {
            id: keyspace.id,
            flushed_seq: Some(flushed),
            // With one keyspace a flush may overtake its log: what a power failure leaves then is the
            // state after the flush, so that nothing more than what is durable is to be found.
            reach: Some(end.min(durable)),
            adds,
            ..KeyspaceEdit::default()
        };
        let edit = VersionEdit {
            log_number: self.number_after(not_needed),
            logs_durable: Some(durable),
            ..VersionEdit::of_keyspace(edit)
        };
        let done = memtable.clone();
        self.install(&mut tree, keyspace, edit, Some(done))
            .inspect_err(|_| self.remove_unlogged(&tree, tables.iter()))?;
        keyspace.flushed_seq.store(flushed, Ordering::Release);
        self.remove_closed_logs(not_needed);
        Ok(files)
    }

    /// Logs an edit and swaps the keyspace's version; `flushed` leaves the frozen memtables in the
    /// same swap.
    pub(crate) fn install(
        &self,
        tree: &mut Tree,
        keyspace: &KeyspaceInner,
        edit: VersionEdit,
        flushed: Option<Arc<Memtable>>,
    ) -> Result<()> {
        self.log_edit(tree, edit)?;
        let version = tree.manifest.version(keyspace.id);
        let version = version.ok_or_else(|| Error::KeyspaceDropped {
            name: keyspace.name.clone(),
        })?;
        let publish = || {
            keyspace.update(|state| {
                let mut state = match &flushed {
                    Some(memtable) => without(state, memtable),
                    None => state.clone(),
                };
                state.version = version.clone();
                state
            });
        };
        keyspace.limits.publish(&version, publish);
        self.signal.notify();
        Ok(())
    }

    /// Logs an edit. A failure stops writes where the manifest's end is not known then, and where the edit
    /// contradicts it.
    pub(crate) fn log_edit(&self, tree: &mut Tree, mut edit: VersionEdit) -> Result<()> {
        edit.next_file = Some(self.next_file.load(Ordering::Relaxed));
        edit.last_seq = Some(self.visible_seq());
        edit.next_run = Some(self.next_run.load(Ordering::Relaxed));
        let next_file = || self.next_file.fetch_add(1, Ordering::Relaxed);
        let manifest = tree.manifest.number();
        if let Err(error) = tree.manifest.log_edit(&edit, next_file) {
            if tree.manifest.is_stopped() || error.is_corruption() {
                self.poison(&error);
            }
            return Err(error);
        }
        if tree.manifest.number() != manifest {
            self.write_hints(tree);
        }
        Ok(())
    }

    /// The first sequence number that no table may hold, once the memtable `flushed` is in one.
    fn first_needed_seq(&self, tree: &Tree, flushed: Option<&Arc<Memtable>>) -> SeqNo {
        // What is above the visible number is being applied to memtables this moment.
        let unseen = self.visible_seq() + 1;
        let oldest = |keyspace: &Arc<KeyspaceInner>| {
            let state = keyspace.state.load();
            let memtables = state.frozen.iter().rev().chain([&state.active]);
            let mut left = memtables
                .filter(|memtable| flushed.is_none_or(|flushed| !Arc::ptr_eq(flushed, memtable)));
            left.next()?.first_seq()
        };
        let held = tree.keyspaces.values().filter_map(oldest).min();
        held.map_or(unseen, |held| held.min(unseen))
    }

    /// The number after that of the oldest so many closed logs.
    fn number_after(&self, not_needed: usize) -> Option<u64> {
        let last = self.closed_logs.lock().number(not_needed.checked_sub(1)?)?;
        Some(last + 1)
    }

    /// Gives up the closed logs that every keyspace has flushed.
    pub(super) fn drop_unneeded_logs(&self, tree: &mut Tree) -> Result<()> {
        let first_needed = self.first_needed_seq(tree, None);
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
    fn remove_closed_logs(&self, count: usize) {
        let gone = self.closed_logs.lock().take(count);
        for log in gone {
            remove_quietly(self, &log.path);
        }
    }

    /// Removes new tables whose edit failed, unless it may be durable all the same: then they stay, and are
    /// orphans for the next open to remove if it is not.
    pub(super) fn remove_unlogged<'a>(
        &self,
        tree: &Tree,
        tables: impl Iterator<Item = &'a NewTable>,
    ) {
        if !tree.manifest.is_stopped() {
            self.remove_new(tables);
        }
    }

    pub(super) fn remove_new<'a>(&self, tables: impl Iterator<Item = &'a NewTable>) {
        for table in tables {
            remove_quietly(self, &table_path(&self.dir, table.info.number));
        }
    }
}

fn without(state: &ReadState, memtable: &Arc<Memtable>) -> ReadState {
    let frozen = state
        .frozen
        .iter()
        .filter(|other| !Arc::ptr_eq(other, memtable))
        .cloned()
        .collect();
    ReadState {
        active: state.active.clone(),
        frozen,
        version: state.version.clone(),
    }
}

/// Removes a file nothing refers to; what stays behind is removed by the next open.
/// Removes a file that nobody needs; false, and a warning, where that fails.
pub(crate) fn remove_quietly(db: &DbInner, path: &Path) -> bool {
    let removed = db.options.fs.remove(path);
    if let Err(error) = &removed {
        log::warn!("{}: cannot remove: {error}", path.display());
    }
    removed.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::fs::{Fs, MemFs};

    #[test]
    fn a_memtable_is_installed_once_whoever_flushes_it() {
        let fs = MemFs::new();
        let options = Options::new()
            .fs(Arc::new(fs.clone()))
            .background_threads(0);
        let db = options.open("/db").unwrap();
        db.put("a", "1").unwrap();
        let inner = db.inner();
        let keyspace = &inner.default_keyspace;
        let freeze = || {
            let mut writer = inner.writer.lock();
            inner.freeze(&mut writer, keyspace, 0).unwrap();
            keyspace.state.load().frozen.first().cloned().unwrap()
        };
        let older = freeze();
        // Two threads have written the same memtable to a table each.
        let tables = || {
            let version = Version::default();
            let output = inner.output(keyspace, 0, 1, u64::MAX, Origin::Flush(&version, 10));
            let retain = Retain::new(Vec::new(), true);
            write_tables(&mut older.iter(), retain, &output).unwrap()
        };
        let (first, second) = (tables(), tables());
        inner.install_flush(keyspace, &older, &first, None).unwrap();
        db.put("a", "2").unwrap();
        let newer = freeze();
        inner
            .install_flush(keyspace, &older, &second, None)
            .unwrap();
        let state = keyspace.state.load_full();
        let files: Vec<_> = state.version.files().map(|file| file.number()).collect();
        assert_eq!(files, [first[0].info.number]);
        assert!(
            !fs.exists(&table_path("/db".as_ref(), second[0].info.number))
                .unwrap()
        );
        assert!(state.frozen.iter().any(|held| Arc::ptr_eq(held, &newer)));
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    }
}
