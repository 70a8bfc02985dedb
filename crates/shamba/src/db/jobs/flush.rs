//! Flushing: frozen memtables become runs of level 0, small ones of several keyspaces together.
//!
//! One thread at a time flushes a keyspace, oldest memtable first, so that its `flushed_seq` says
//! that everything up to it is in tables. Thread-safe.

use std::sync::Arc;

use super::heirs::{Heirs, prepopulate};
use super::hidden::{end_after, hidden, removes};
use super::job_guard::Jobs;
use super::table_maker::{KEYS_OF_TABLE, LONG_KEY, TableMaker};
use crate::base::fragment::Fragments;
use crate::base::iter::InternalIterator;
use crate::base::key::SeqNo;
use crate::budget::{AdmittedWork, flushed_together, most_of_key};
use crate::compaction::job::{NewTable, NewTables, table_path, write_tables};
use crate::compaction::{FragmentMerge, Inheritance, KEYS_OF_INPUT, Parents, Retain};
use crate::db::buffers::{Memtables, WalFiles};
use crate::db::context::DbContext;
use crate::db::files::{Files, Tree};
use crate::db::keyspaces::KeyspaceInner;
use crate::db::visibility::Visibility;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Counter;
use crate::version::{FileMeta, KeyspaceEdit, Version, VersionEdit};

/// About what is known of a table takes, without its keys, several times over.
const TABLE_BYTES: u64 = 1 << 10;

/// Keys that a merge of two tables into one holds, and the open tables of a lookup meanwhile.
const KEYS_OF_MERGE: usize = (2 * KEYS_OF_INPUT + KEYS_OF_TABLE) as usize;

/// A memtable that was written to tables, which are not in the tree yet.
struct Written {
    keyspace: Arc<KeyspaceInner>,
    memtable: Arc<Memtable>,
    tables: NewTables,
    heirs: Option<Heirs>,
    /// Files that its range tombstones hide.
    hidden: Vec<FileMeta>,
}

impl Written {
    /// The sequence number of its last entry.
    fn last_seq(&self) -> SeqNo {
        self.memtable.last_seq().unwrap_or(0)
    }
}

/// The new tables of several flushes.
fn tables_of(all: &[Written]) -> impl Iterator<Item = &NewTable> + Clone {
    all.iter().flat_map(|written| written.tables.all())
}

/// See the module.
pub(in crate::db) struct Flusher {
    shared: Arc<DbContext>,
    files: Arc<Files>,
    wal: Arc<WalFiles>,
    memtables: Arc<Memtables>,
    visibility: Arc<Visibility>,
    jobs: Arc<Jobs>,
    maker: Arc<TableMaker>,
}

impl Flusher {
    pub(in crate::db) fn new(
        (shared, visibility): (&Arc<DbContext>, &Arc<Visibility>),
        files: &Arc<Files>,
        (wal, memtables): (&Arc<WalFiles>, &Arc<Memtables>),
        (jobs, maker): (&Arc<Jobs>, &Arc<TableMaker>),
    ) -> Self {
        Flusher {
            shared: shared.clone(),
            files: files.clone(),
            wal: wal.clone(),
            memtables: memtables.clone(),
            visibility: visibility.clone(),
            jobs: jobs.clone(),
            maker: maker.clone(),
        }
    }

    /// Flushes memtables that wait for it and have nobody who does, small ones together; false when
    /// there is none.
    pub(in crate::db) fn flush_some(&self) -> Result<bool> {
        let claim = |keyspace: &Arc<KeyspaceInner>| {
            // Without threads who writes decides how often a flush that fails is tried.
            let rests = self.shared.has_threads() && keyspace.flushes().rests();
            !rests && keyspace.claim_flushes()
        };
        loop {
            let group = self
                .memtables
                .frozen()
                .group(flushed_together(self.shared.limit()), claim);
            if group.is_empty() {
                return Ok(false);
            }
            let flushing = self.jobs.hold("flushing memtables", || {
                group.iter().for_each(|keyspace| keyspace.release_flushes());
            });
            let result = self.flush_together(&group);
            drop(flushing);
            if result? {
                return Ok(true);
            }
        }
    }

    /// Flushes every frozen memtable, where no thread does.
    pub(in crate::db) fn flush_frozen(&self) -> Result<()> {
        loop {
            let group = self
                .memtables
                .frozen()
                .group(flushed_together(self.shared.limit()), |_| true);
            if group.is_empty() {
                return Ok(());
            }
            self.flush_together(&group)?;
        }
    }

    /// Flushes the oldest frozen memtable of a keyspace. The caller has claimed its flushes,
    /// or is an open, beside which nobody works.
    pub(in crate::db) fn flush_oldest(&self, keyspace: &Arc<KeyspaceInner>) -> Result<bool> {
        let written = self.write_oldest(keyspace, true)?;
        let found = written.is_some();
        self.install(written.into_iter().collect())?;
        Ok(found)
    }

    /// Flushes the oldest memtable of each of some keyspaces, as far as that goes before there is a
    /// shortage. Gives the last failure.
    fn flush_together(&self, group: &[Arc<KeyspaceInner>]) -> Result<bool> {
        let mut written = Vec::with_capacity(group.len());
        let mut failed = Ok(());
        // Of several the syncs go on at the same time.
        let alone = group.len() == 1;
        for keyspace in group {
            match self.write_oldest(keyspace, alone) {
                Ok(of_one) => written.extend(of_one),
                Err(error) => {
                    // What one has no room for others have neither; else it is its own affair.
                    let of_all = error.is_shortage();
                    failed = Err(error);
                    self.jobs.note(keyspace.flushes(), &failed);
                    if of_all {
                        break;
                    }
                }
            }
        }
        let keyspaces: Vec<_> = written.iter().map(|of| Arc::clone(&of.keyspace)).collect();
        let synced = if alone {
            Ok(())
        } else {
            self.sync_written(&written)
        };
        let installed = synced.and_then(|()| self.install(written));
        for keyspace in &keyspaces {
            self.jobs.note(keyspace.flushes(), &installed);
        }
        installed.and(failed).map(|()| !keyspaces.is_empty())
    }

    /// Writes the oldest frozen memtable of a keyspace to tables, which nobody sees before they are
    /// installed. Without `sync` they are not durable yet ([`Self::sync_written`]).
    fn write_oldest(&self, keyspace: &Arc<KeyspaceInner>, sync: bool) -> Result<Option<Written>> {
        let Some(memtable) = keyspace.state().frozen.last().cloned() else {
            return Ok(None);
        };
        self.check_room_for_a_table(&memtable)?;
        let entries = memtable.len() as u64;
        // What an entry takes as a block, encoded and on its way out, where entries are large.
        let entry = 3 * memtable.charged() as u64 / entries.max(1);
        let options = keyspace.options();
        let bytes = || {
            // Whose keys are as long as entries are, at most.
            let key = (entry / 3).min(most_of_key(self.shared.limit())) as usize;
            let ranges = if memtable.has_ranges() {
                self.maker.ranges_memory(key) + memtable.fragment_bytes() as u64
            } else {
                0
            };
            entry + ranges + self.maker.memory(&options, 0, entries, key)
        };
        let budget = self.shared.budget();
        // Whatever happens meanwhile: closing flushes too.
        let _permit = budget.admit(AdmittedWork::Flush, bytes, || Ok::<_, Error>(()))?;
        let boundaries = self.visibility.boundaries(self.shared.now());
        let version = keyspace.version();
        let bottom = version.is_empty();
        let ranges = || range_tombstones(&memtable, &version);
        let hidden = hidden(&version, ranges()?, &boundaries)?;
        let ranges = ranges()?;
        let parents = Parents::Flush(&version);
        let mut output =
            self.maker
                .output(keyspace, 0, memtable.len() as u64, u64::MAX, parents)?;
        let heirs = self.heirs_of_flush(&version, &memtable)?;
        drop(version);
        output.options.keep = heirs.as_ref().map(Heirs::keep);
        output.sync = sync;
        let retain = Retain::new(boundaries, bottom);
        self.files.state_value_files(&output)?;
        let tables = write_tables(&mut memtable.iter(), ranges, retain, &output)?;
        drop(output);
        Ok(Some(Written {
            keyspace: Arc::clone(keyspace),
            memtable,
            tables,
            heirs,
            hidden,
        }))
    }

    /// What is known of those below a memtable.
    fn heirs_of_flush(&self, version: &Version, memtable: &Arc<Memtable>) -> Result<Option<Heirs>> {
        if !self.shared.options().inherit_statistics {
            return Ok(None);
        }
        let mut entries = memtable.iter();
        entries.seek_to_first()?;
        if !entries.valid() {
            return Ok(None);
        }
        let smallest = entries.key().to_vec();
        entries.seek_to_last()?;
        let range = (&*smallest, entries.key());
        let inheritance = Inheritance::of_flush(version, range, memtable.len() as u64);
        Ok(Heirs::of(inheritance, &self.shared.options().memory))
    }

    /// An error if what is known of tables may take no more memory. The flush is then tried again
    /// like one that fails on a full disk; merges go on, which make tables fewer.
    fn check_room_for_a_table(&self, memtable: &Arc<Memtable>) -> Result<()> {
        let mut iter = memtable.iter();
        let mut keys = 0;
        iter.seek_to_first()?;
        keys += iter.key().len();
        let first = keys;
        iter.seek_to_last()?;
        keys += iter.key().len();
        // Beside long keys that are known there must be memory to merge them in.
        let longer = first.max(keys - first);
        let merged = if longer > LONG_KEY {
            KEYS_OF_MERGE * longer
        } else {
            0
        };
        self.files
            .check_room((keys + merged) as u64 + TABLE_BYTES, 0)
    }

    /// Makes tables durable that were written without that. After an error none of them is left.
    fn sync_written(&self, all: &[Written]) -> Result<()> {
        let paths: Vec<_> = tables_of(all)
            .map(|table| table_path(self.shared.dir(), table.info.number))
            .collect();
        let results = self.shared.fs().sync_files(&paths);
        let failed = paths
            .into_iter()
            .zip(results)
            .find_map(|(path, result)| Some((path, result.err()?)));
        match failed {
            None => Ok(()),
            Some((path, error)) => {
                self.files.remove_new(tables_of(all));
                Err(Error::io("sync", path, error))
            }
        }
    }

    /// Installs what was flushed, of a keyspace at most one memtable, with one sync of the folder
    /// and one edit. After an error none of it is in the tree.
    fn install(&self, all: Vec<Written>) -> Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        self.files.sync_new(tables_of(&all))?;
        let mut tree = self.files.tree();
        let mut live = self.still_wanted(all);
        if live.is_empty() {
            return Ok(());
        }
        let mut firsts: Vec<SeqNo> = live
            .iter()
            .filter_map(|of| of.memtable.first_seq())
            .collect();
        firsts.sort_unstable();
        let lasts = live.iter().map(Written::last_seq);
        let logs = self.wal.after_flush(&mut tree, &firsts, lasts);
        // A batch over several keyspaces is whole after a crash only if its record is durable
        // before a part of it is in a table.
        if tree.keyspaces().len() > 1 {
            let end = logs.ends.iter().copied().max().unwrap_or(0);
            self.wal.sync_closed_to(logs.not_needed, end)?;
        }
        let durable = self.wal.durable_without(logs.not_needed);
        let edits = live.iter().zip(logs.ends);
        let edits = edits.map(|(written, end)| self.edit_of(&tree, written, end.min(durable)));
        let edit = VersionEdit {
            log_number: self.wal.number_after(logs.not_needed),
            logs_durable: Some(durable),
            keyspaces: edits.collect(),
            ..VersionEdit::default()
        };
        let dropped = edit
            .keyspaces
            .iter()
            .map(|edit| edit.removes.len())
            .sum::<usize>();
        let files = edit.keyspaces.iter().map(|edit| &edit.adds);
        let files: Vec<Vec<FileMeta>> = files
            .map(|adds| adds.iter().map(|added| added.file.clone()).collect())
            .collect();
        let logged = self.files.log_edit(&mut tree, edit);
        logged.inspect_err(|_| self.files.remove_unlogged(&tree, tables_of(&live)))?;
        // Before anyone sees that they are flushed.
        let bytes = tables_of(&live).map(|table| table.info.size).sum();
        let expired = live.iter().map(|of| of.tables.expired()).sum();
        let collapsed = live.iter().map(|of| of.tables.collapsed()).sum();
        self.shared.metrics().add_all(&[
            (Counter::entries_expired, expired),
            (Counter::operands_collapsed, collapsed),
            (Counter::flushes, live.len() as u64),
            (Counter::flush_bytes, bytes),
            (Counter::tables_dropped, dropped as u64),
        ]);
        for written in &live {
            let memtable = Some(&written.memtable);
            self.files.show(&tree, &written.keyspace, memtable)?;
            written.keyspace.set_flushed_seq(written.last_seq());
        }
        self.shared.signal().notify();
        self.wal.remove_closed(logs.not_needed);
        drop(tree);
        let cache = self.shared.options().memory.cache();
        for (written, files) in live.iter_mut().zip(files) {
            prepopulate(cache, self.files.tables(), &mut written.tables, &files);
        }
        let holes = live.iter().map(|of| of.tables.holes()).sum();
        drop(live);
        self.shared.budget().left_holes(holes);
        Ok(())
    }

    /// Those whose memtable is still the oldest of its keyspace; the tables of the others are
    /// removed. The caller holds the tree, so that no other is installed meanwhile.
    fn still_wanted(&self, all: Vec<Written>) -> Vec<Written> {
        let mut live = Vec::with_capacity(all.len());
        for written in all {
            let keyspace = &written.keyspace;
            let oldest = keyspace.state().frozen.last().cloned();
            if keyspace.is_dropped() {
                self.files.remove_new(written.tables.all());
                keyspace.update(|state| state.without(&written.memtable));
            } else if oldest.is_none_or(|oldest| !Arc::ptr_eq(&oldest, &written.memtable)) {
                // Another thread flushed it meanwhile: a second time would put it above newer
                // tables.
                self.files.remove_new(written.tables.all());
            } else {
                live.push(written);
            }
        }
        live
    }

    /// What the manifest is told of a flush, whose entries end at a position of the logs.
    fn edit_of(&self, tree: &Tree, written: &Written, end: u64) -> KeyspaceEdit {
        let keyspace = &written.keyspace;
        let run = self.files.new_run();
        let version = keyspace.version();
        let parents = Parents::Flush(&version);
        let from = (parents, written.heirs.as_ref());
        let tables = &written.tables;
        let mut adds = self.maker.adds(keyspace, tree, (0, run), tables, from);
        adds.extend(self.maker.value_files(tree, tables.values()));
        KeyspaceEdit {
            flushed_seq: Some(written.last_seq()),
            // With one keyspace a flush may overtake its log: what a power failure leaves then is
            // the state after the flush, so that nothing more than what is durable is to be found.
            reach: Some(end),
            removes: removes(&version, &written.hidden),
            adds,
            ..KeyspaceEdit::new(keyspace.id())
        }
    }
}

/// The range tombstones of a memtable that is to be flushed. They end with the largest key of the
/// tables and of the memtable: nothing older lies behind it.
fn range_tombstones(memtable: &Arc<Memtable>, version: &Version) -> Result<Option<FragmentMerge>> {
    if !memtable.has_ranges() {
        return Ok(None);
    }
    let mut entries = memtable.iter();
    entries.seek_to_last()?;
    let last = entries.valid().then(|| entries.key());
    let Some(largest) = version.largest().max(last) else {
        return Ok(None);
    };
    let sources: Vec<Box<dyn Fragments>> = vec![Box::new(memtable.fragments())];
    let (from, to) = (Vec::new(), end_after(largest));
    Ok(Some(FragmentMerge::new(sources, from, to)))
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
        let keyspace = inner.default_keyspace();
        let freeze = || {
            let mut writer = inner.memtables().writer();
            inner.background().freeze(&mut writer, keyspace, 0).unwrap();
            keyspace.state().frozen.first().cloned().unwrap()
        };
        freeze();
        // Two threads have written the same memtable to a table each.
        let written = || {
            inner
                .flusher()
                .write_oldest(keyspace, true)
                .unwrap()
                .unwrap()
        };
        let (first, second) = (written(), written());
        let numbers = [&first, &second].map(|written| written.tables[0].info.number);
        inner.flusher().install(vec![first]).unwrap();
        db.put("a", "2").unwrap();
        let newer = freeze();
        inner.flusher().install(vec![second]).unwrap();
        let state = keyspace.state();
        let files: Vec<_> = state.version.files().map(|file| file.number()).collect();
        assert_eq!(files, [numbers[0]]);
        assert!(!fs.exists(&table_path("/db".as_ref(), numbers[1])).unwrap());
        assert!(state.frozen.iter().any(|held| Arc::ptr_eq(held, &newer)));
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    }
}
