//! Flushing: a frozen memtable becomes a run of level 0.
//!
//! One thread at a time flushes a keyspace, oldest memtable first, so that `flushed_seq` says that
//! everything up to it is in tables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::keyspace::{KeyspaceInner, ReadState};
use super::lineage::Lineage;
use super::table_options::table_buffer;
use super::{DbInner, Tree};
use crate::base::iter::InternalIterator;
use crate::base::key::SeqNo;
use crate::budget::{Role, TableWork, least_limit_for_files, most_of_files};
use crate::compaction::job::{MergeOutput, NewTable, NewTables, table_path, write_tables};
use crate::compaction::{Ancestry, Origin, Retain};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Counter;
use crate::options::KeyspaceOptions;
use crate::table::{TableSlot, compressor_bytes};
use crate::version::{AddedFile, FileInfo, FileMeta, KeyspaceEdit, Version, VersionEdit};

/// A table with a filter over all of its keys has one for so many bytes of the budget at most: a digest
/// and the filter's bits then take less than a tenth of it.
const BYTES_PER_KEY: u64 = 256;

/// What the digest of a key takes, and its bits in the filter while they are written.
const KEY_BYTES: u64 = 16;

/// What writing tables takes beside filters over whole tables and the buffer of what is written.
const OUTPUT_BYTES: u64 = 40 << 10;

/// About what is known of a table takes, without its keys, several times over.
const TABLE_BYTES: u64 = 1 << 10;

/// A memtable that was written to tables, which are not in the tree yet.
pub(super) struct Written {
    keyspace: Arc<KeyspaceInner>,
    memtable: Arc<Memtable>,
    tables: NewTables,
    lineage: Option<Lineage>,
}

impl Written {
    pub(super) fn keyspace(&self) -> &Arc<KeyspaceInner> {
        &self.keyspace
    }
}

impl DbInner {
    pub(crate) fn output<'a>(
        &'a self,
        keyspace: &KeyspaceInner,
        level: usize,
        entries: u64,
        target_file: u64,
        origin: Origin<'_>,
    ) -> MergeOutput<'a> {
        MergeOutput {
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
            sync: true,
            on_the_way: Box::new(|| self.not_closing()),
        }
    }

    /// About the essential memory that writing so many entries to tables of a level takes: blocks being
    /// filled and compressed, the keys and filters of a partition or of a whole table.
    pub(super) fn output_memory(
        &self,
        options: &KeyspaceOptions,
        level: usize,
        entries: u64,
    ) -> u64 {
        let limit = self.options.memory.limit();
        let keys = match options.filter.partitioned {
            true => 0,
            false => entries.min(limit / BYTES_PER_KEY),
        };
        let compressor = compressor_bytes(options.compression_at(level), limit);
        OUTPUT_BYTES + table_buffer(limit) + compressor + keys * KEY_BYTES
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

    /// Flushes the oldest frozen memtable of a keyspace. The caller holds its `flushing` flag, or is an open,
    /// beside which nobody works.
    pub(crate) fn flush_oldest(&self, keyspace: &Arc<KeyspaceInner>) -> Result<bool> {
        let written = self.write_oldest(keyspace, true)?;
        let found = written.is_some();
        self.install_flushes(written.into_iter().collect())?;
        Ok(found)
    }

    /// Writes the oldest frozen memtable of a keyspace to tables, which nobody sees before they are
    /// installed. Without `sync` they are not durable yet ([`Self::sync_written`]).
    pub(super) fn write_oldest(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        sync: bool,
    ) -> Result<Option<Written>> {
        let Some(memtable) = keyspace.state.load().frozen.last().cloned() else {
            return Ok(None);
        };
        self.check_room_for_a_table(&memtable)?;
        let entries = memtable.len() as u64;
        // What an entry takes as a block, encoded and on its way out, where entries are large.
        let entry = 3 * memtable.charged() as u64 / entries.max(1);
        let bytes = entry + self.output_memory(&keyspace.options(), 0, entries);
        let budget = self.options.memory.budget();
        // Whatever happens meanwhile: closing flushes too.
        let _permit = budget.admit(TableWork::Flush, bytes, || Ok::<_, Error>(()))?;
        let boundaries = self.snapshots.boundaries(|| self.visible_seq());
        let version = keyspace.state.load().version.clone();
        let bottom = version.is_empty();
        let origin = Origin::Flush(&version, keyspace.options().size_ratio);
        let mut output = self.output(keyspace, 0, memtable.len() as u64, u64::MAX, origin);
        let lineage = self.lineage_of_flush(&version, &memtable)?;
        drop(version);
        output.options.keep = lineage.as_ref().map(Lineage::keep);
        output.sync = sync;
        let retain = Retain::new(boundaries, bottom);
        let tables = write_tables(&mut memtable.iter(), retain, &output)?;
        drop(output);
        Ok(Some(Written {
            keyspace: Arc::clone(keyspace),
            memtable,
            tables,
            lineage,
        }))
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

    /// Makes tables durable that were written without that. After an error none of them is left.
    pub(super) fn sync_written(&self, all: &[Written]) -> Result<()> {
        let tables = || all.iter().flat_map(|written| written.tables.iter());
        let paths: Vec<_> = tables()
            .map(|table| table_path(&self.dir, table.info.number))
            .collect();
        let results = self.options.fs.sync_files(&paths);
        let failed = paths
            .into_iter()
            .zip(results)
            .find_map(|(path, result)| Some((path, result.err()?)));
        match failed {
            None => Ok(()),
            Some((path, error)) => {
                self.remove_new(tables());
                Err(Error::io("sync", path, error))
            }
        }
    }

    /// Makes the names of new tables durable, which are all the folder has.
    pub(super) fn sync_new<'a>(
        &self,
        tables: impl Iterator<Item = &'a NewTable> + Clone,
    ) -> Result<()> {
        if tables.clone().next().is_none() {
            return Ok(());
        }
        self.sync_folder().inspect_err(|error| {
            if error.is_shortage() {
                self.remove_new(tables.clone());
            }
        })
    }

    /// Installs what was flushed, of a keyspace at most one memtable, with one sync of the folder and one
    /// edit. After an error none of it is in the tree.
    pub(super) fn install_flushes(&self, all: Vec<Written>) -> Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        self.sync_new(all.iter().flat_map(|written| written.tables.iter()))?;
        let mut tree = self.tree.lock();
        let mut live: Vec<Written> = Vec::with_capacity(all.len());
        for written in all {
            let keyspace = &written.keyspace;
            let oldest = keyspace.state.load().frozen.last().cloned();
            if keyspace.dropped.load(Ordering::Acquire) {
                self.remove_new(written.tables.iter());
                keyspace.update(|state| without(state, &written.memtable));
            } else if oldest.is_none_or(|oldest| !Arc::ptr_eq(&oldest, &written.memtable)) {
                // Another thread flushed it meanwhile: a second time would put it above newer tables.
                self.remove_new(written.tables.iter());
            } else {
                live.push(written);
            }
        }
        if live.is_empty() {
            return Ok(());
        }
        let memtables = || live.iter().map(|written| &written.memtable);
        let mut firsts: Vec<SeqNo> = memtables().filter_map(|of| of.first_seq()).collect();
        firsts.sort_unstable();
        let first_needed = self.first_needed_seq(&mut tree, &firsts);
        let (not_needed, ends) = {
            let closed = self.closed_logs.lock();
            let end = |memtable: &Arc<Memtable>| closed.end_of(memtable.last_seq().unwrap_or(0));
            let ends: Vec<u64> = memtables().map(end).collect();
            (closed.count_before(first_needed), ends)
        };
        // A batch over several keyspaces is whole after a crash only if its record is durable
        // before a part of it is in a table.
        if tree.keyspaces.len() > 1 {
            self.sync_closed_logs_to(not_needed, ends.iter().copied().max().unwrap_or(0))?;
        }
        let durable = self.closed_logs.lock().durable_without(not_needed);
        let edits = live.iter().zip(ends).map(|(written, end)| {
            let keyspace = &written.keyspace;
            let run = self.next_run.fetch_add(1, Ordering::Relaxed);
            let version = keyspace.state.load().version.clone();
            let origin = Origin::Flush(&version, keyspace.options().size_ratio);
            let from = (origin, written.lineage.as_ref());
            KeyspaceEdit {
                flushed_seq: Some(written.memtable.last_seq().unwrap_or(0)),
                // With one keyspace a flush may overtake its log: what a power failure leaves then is the
                // state after the flush, so that nothing more than what is durable is to be found.
                reach: Some(end.min(durable)),
                adds: self.adds(&tree, 0, run, &written.tables, from),
                ..KeyspaceEdit::new(keyspace.id)
            }
        });
        let edit = VersionEdit {
            log_number: self.number_after(not_needed),
            logs_durable: Some(durable),
            keyspaces: edits.collect(),
            ..VersionEdit::default()
        };
        let files = edit.keyspaces.iter().map(|edit| &edit.adds);
        let files: Vec<Vec<FileMeta>> = files
            .map(|adds| adds.iter().map(|added| added.file.clone()).collect())
            .collect();
        let all_tables = live.iter().flat_map(|written| written.tables.iter());
        self.log_edit(&mut tree, edit)
            .inspect_err(|_| self.remove_unlogged(&tree, all_tables))?;
        // Before anyone sees that they are flushed.
        let tables = live.iter().flat_map(|written| written.tables.iter());
        self.metrics.add_all(&[
            (Counter::flushes, live.len() as u64),
            (
                Counter::flush_bytes,
                tables.map(|table| table.info.size).sum(),
            ),
        ]);
        for written in &live {
            self.show(&tree, &written.keyspace, Some(&written.memtable))?;
            let flushed = written.memtable.last_seq().unwrap_or(0);
            written
                .keyspace
                .flushed_seq
                .store(flushed, Ordering::Release);
        }
        self.signal.notify();
        self.remove_closed_logs(not_needed);
        drop(tree);
        for (written, files) in live.iter_mut().zip(files) {
            self.warm(&mut written.tables, &files);
        }
        let holes = live.iter().map(|of| of.tables.holes()).sum();
        drop(live);
        self.options.memory.budget().left_holes(holes);
        Ok(())
    }

    /// Logs an edit of a keyspace and swaps its version.
    pub(crate) fn install(
        &self,
        tree: &mut Tree,
        keyspace: &Arc<KeyspaceInner>,
        edit: VersionEdit,
    ) -> Result<()> {
        self.log_edit(tree, edit)?;
        self.show(tree, keyspace, None)?;
        self.signal.notify();
        Ok(())
    }

    /// Shows readers the version of a keyspace that the manifest has; `flushed` leaves the frozen memtables
    /// in the same swap.
    fn show(
        &self,
        tree: &Tree,
        keyspace: &Arc<KeyspaceInner>,
        flushed: Option<&Arc<Memtable>>,
    ) -> Result<()> {
        let version = tree.manifest.version(keyspace.id);
        let version = version.ok_or_else(|| Error::KeyspaceDropped {
            name: keyspace.name.clone(),
        })?;
        let publish = || {
            keyspace.update(|state| {
                let mut state = match flushed {
                    Some(memtable) => without(state, memtable),
                    None => state.clone(),
                };
                state.version = version.clone();
                state
            });
        };
        keyspace.limits.publish(&version, publish);
        self.due.changed(keyspace);
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
        freeze();
        // Two threads have written the same memtable to a table each.
        let written = || inner.write_oldest(keyspace, true).unwrap().unwrap();
        let (first, second) = (written(), written());
        let numbers = [&first, &second].map(|written| written.tables[0].info.number);
        inner.install_flushes(vec![first]).unwrap();
        db.put("a", "2").unwrap();
        let newer = freeze();
        inner.install_flushes(vec![second]).unwrap();
        let state = keyspace.state.load_full();
        let files: Vec<_> = state.version.files().map(|file| file.number()).collect();
        assert_eq!(files, [numbers[0]]);
        assert!(!fs.exists(&table_path("/db".as_ref(), numbers[1])).unwrap());
        assert!(state.frozen.iter().any(|held| Arc::ptr_eq(held, &newer)));
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    }
}
