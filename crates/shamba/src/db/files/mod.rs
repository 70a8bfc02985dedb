//! The files of a database's folder and the tree made of its tables: the manifest, what it says of
//! each keyspace, and the table files that come and go with its edits.
//!
//! [`Files`] logs every edit ([`Files::log_edit`]) and shows readers what it made of a keyspace
//! ([`Files::show`]). New tables become a part of the tree in this order: the tables are durable,
//! then their names ([`Files::sync_new`]), then the edit, then readers see them; what fails before
//! the edit leaves files that nobody names, which the next open removes. Thread-safe; whoever edits
//! holds the [`Tree`], which is taken after the locks of writers.

pub(super) mod due;
pub(super) mod filenames;
pub(super) mod hints;
mod unflushed;
mod values;
pub(super) mod warm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::context::DbContext;
use super::keyspaces::KeyspaceInner;
use super::visibility::Visibility;
use crate::base::key::{EntryKind, MAX_SEQNO, SeqNo};
use crate::budget::{Role, least_limit_for_files, most_of_files};
use crate::cache::{CachedValue, IsGone};
use crate::compaction::job::{NewTable, table_path};
use crate::error::{Error, Result};
use crate::fs::FileLock;
use crate::memtable::Memtable;
use crate::table::TableCache;
use crate::version::{Feature, Manifest, Obsolete, VersionEdit};
use due::DueList;
use unflushed::Unflushed;
use warm::WarmFile;

/// What the manifest says, and the keyspaces it says it of.
pub(super) struct Tree {
    pub(super) manifest: Manifest,
    keyspaces: BTreeMap<u32, Arc<KeyspaceInner>>,
    unflushed: Unflushed,
}

impl Tree {
    pub(super) fn new(manifest: Manifest, keyspaces: BTreeMap<u32, Arc<KeyspaceInner>>) -> Self {
        Tree {
            manifest,
            keyspaces,
            unflushed: Unflushed::default(),
        }
    }

    /// The keyspaces by number.
    pub(super) fn keyspaces(&self) -> &BTreeMap<u32, Arc<KeyspaceInner>> {
        &self.keyspaces
    }

    /// The keyspace of a name.
    pub(super) fn keyspace_named(&self, name: &str) -> Option<&Arc<KeyspaceInner>> {
        let id = self.manifest.state().keyspace_named(name)?;
        self.keyspaces.get(&id)
    }

    /// Adds a keyspace that the manifest has.
    pub(super) fn add_keyspace(&mut self, keyspace: &Arc<KeyspaceInner>) {
        self.keyspaces.insert(keyspace.id(), keyspace.clone());
    }

    /// Removes a keyspace that the manifest has no more.
    pub(super) fn remove_keyspace(&mut self, keyspace: &KeyspaceInner) {
        self.keyspaces.remove(&keyspace.id());
        self.unflushed.dropped(keyspace);
    }

    /// The first sequence number that no table may hold, once the memtables that begin with the
    /// numbers `flushed` (ascending) are in tables; what has `unseen` or more may be on its way
    /// into a memtable this moment.
    pub(super) fn first_unflushed(&mut self, unseen: SeqNo, flushed: &[SeqNo]) -> SeqNo {
        self.unflushed.first(&self.keyspaces, unseen, flushed)
    }

    /// Keyspaces looked at for that, to be counted in tests.
    #[cfg(test)]
    pub(super) fn unflushed_looks(&self) -> u64 {
        self.unflushed.looks
    }
}

/// A longer file of hints is something else, and none is written.
const HINTS_MAX_BYTES: u64 = 64 << 20;

/// See the module.
pub(super) struct Files {
    shared: Arc<DbContext>,
    visibility: Arc<Visibility>,
    tables: Arc<TableCache>,
    obsolete: Arc<Obsolete>,
    next_file: AtomicU64,
    next_run: AtomicU64,
    /// Bits of features that the manifest is known to name, to be asked without the tree's lock.
    stated: AtomicU64,
    tree: Mutex<Tree>,
    due: DueList,
    /// Keeps other processes out.
    lock: Mutex<Option<Box<dyn FileLock>>>,
    /// What memory held before, until it is read back.
    warm: Mutex<Option<WarmFile>>,
    /// Whether it was, as far as it is worth it, or there was nothing.
    reloaded: AtomicBool,
    /// Whether the logs that were found are replayed.
    replayed: AtomicBool,
}

impl Files {
    pub(super) fn new(
        shared: &Arc<DbContext>,
        visibility: &Arc<Visibility>,
        tables: Arc<TableCache>,
        (next_file, next_run): (AtomicU64, u64),
        tree: Tree,
    ) -> Self {
        let due = DueList::default();
        let all = tree.keyspaces.values();
        all.filter(|keyspace| keyspace.moving().is_some())
            .for_each(|keyspace| due.moves(keyspace));
        Files {
            shared: shared.clone(),
            visibility: visibility.clone(),
            tables,
            obsolete: Arc::clone(tree.manifest.obsolete()),
            next_file,
            next_run: AtomicU64::new(next_run),
            stated: AtomicU64::new(0),
            tree: Mutex::new(tree),
            due,
            lock: Mutex::new(None),
            warm: Mutex::new(None),
            reloaded: AtomicBool::new(true),
            replayed: AtomicBool::new(false),
        }
    }

    /// Holds a lock on the folder until the database is closed.
    pub(super) fn hold(&self, lock: Box<dyn FileLock>) {
        *self.lock.lock() = Some(lock);
    }

    /// Goes on with what was known of memory before the database was closed, if there are threads
    /// to read it back.
    pub(super) fn go_on_from(&self, warm: Option<(WarmFile, Vec<f32>)>) {
        self.reloaded.store(warm.is_none(), Ordering::Release);
        if let Some((warm, learned)) = warm
            && self.shared.has_threads()
        {
            self.shared.options().memory.cache().go_on_from(&learned);
            *self.warm.lock() = Some(warm);
        }
    }

    /// Memory holds all that it did before that is worth it.
    pub(super) fn set_reloaded(&self) {
        self.reloaded.store(true, Ordering::Release);
    }

    /// Takes what is to be read back into memory, the first time.
    pub(super) fn take_warm(&self) -> Option<WarmFile> {
        self.warm.lock().take()
    }

    /// The open tables.
    #[inline]
    pub(super) fn tables(&self) -> &Arc<TableCache> {
        &self.tables
    }

    pub(super) fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock()
    }

    /// The keyspaces of which something changed, and those with compactions due.
    pub(super) fn due(&self) -> &DueList {
        &self.due
    }

    /// The keyspaces at this moment.
    pub(super) fn keyspaces(&self) -> Vec<Arc<KeyspaceInner>> {
        self.tree.lock().keyspaces.values().cloned().collect()
    }

    /// The number of the next file.
    pub(super) fn next_file(&self) -> &AtomicU64 {
        &self.next_file
    }

    /// A number for a new run.
    pub(super) fn new_run(&self) -> u64 {
        self.next_run.fetch_add(1, Ordering::Relaxed)
    }

    /// Does something that opens files; when there are none left, those of tables make room.
    pub(super) fn with_files<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            match work() {
                Err(error) if error.is_out_of_files() && self.tables.close_file() => {}
                done => return done,
            }
        }
    }

    /// Syncs the folder. Stops writes when that fails, for what a sync that failed left behind is
    /// not known, so that none is tried again; but not when the folder could not be opened.
    fn sync_folder(&self) -> Result<()> {
        let dir = self.shared.dir();
        let sync = || {
            let synced = self.shared.fs().sync_dir(dir);
            synced.map_err(|e| Error::io("sync", dir, e))
        };
        self.with_files(sync).inspect_err(|error| {
            if !error.is_shortage() {
                self.shared.poison(error);
            }
        })
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

    /// An error if what is known of tables would take more memory than it may with so many bytes
    /// more, and so many less: the work is then tried again like such as fails on a full disk.
    pub(super) fn check_room(&self, added: u64, removed: u64) -> Result<()> {
        let more = added.saturating_sub(removed);
        let limit = self.shared.limit();
        let needed = self.shared.budget().used_by(Role::Files) + more;
        if more == 0 || needed <= most_of_files(limit) {
            Ok(())
        } else {
            Err(Error::BudgetTooSmall {
                limit,
                needed: least_limit_for_files(needed),
            })
        }
    }

    /// Logs an edit. A failure stops writes where the manifest's end is not known then, and where
    /// the edit contradicts it.
    pub(super) fn log_edit(&self, tree: &mut Tree, mut edit: VersionEdit) -> Result<()> {
        edit.next_file = Some(self.next_file.load(Ordering::Relaxed));
        edit.last_seq = Some(self.visibility.newest());
        edit.next_run = Some(self.next_run.load(Ordering::Relaxed));
        self.take_out_values(tree, &mut edit)?;
        let next_file = || self.next_file.fetch_add(1, Ordering::Relaxed);
        let manifest = tree.manifest.number();
        if let Err(error) = tree.manifest.log_edit(&edit, next_file) {
            if tree.manifest.is_stopped() || error.is_corruption() {
                self.shared.poison(&error);
            }
            return Err(error);
        }
        if tree.manifest.number() != manifest {
            hints::write(&self.shared, tree);
        }
        Ok(())
    }

    /// Has the manifest say that the database uses a feature, if it does not yet, before anything
    /// of it is written.
    pub(super) fn state_feature(&self, feature: Feature) -> Result<()> {
        if self.stated.load(Ordering::Relaxed) & feature.bit() != 0 {
            return Ok(());
        }
        let tree: &mut Tree = &mut self.tree.lock();
        if !tree.manifest.state().features.contains(&feature) {
            self.log_edit(tree, VersionEdit::of_feature(feature))?;
        }
        self.stated.fetch_or(feature.bit(), Ordering::Relaxed);
        Ok(())
    }

    /// Logs an edit of a keyspace and shows readers what it makes of it.
    pub(super) fn install(
        &self,
        tree: &mut Tree,
        keyspace: &Arc<KeyspaceInner>,
        edit: VersionEdit,
    ) -> Result<()> {
        self.log_edit(tree, edit)?;
        self.show(tree, keyspace, None)?;
        self.shared.signal().notify();
        Ok(())
    }

    /// Shows readers the version of a keyspace that the manifest has; `flushed` leaves the frozen
    /// memtables in the same swap.
    pub(super) fn show(
        &self,
        tree: &Tree,
        keyspace: &Arc<KeyspaceInner>,
        flushed: Option<&Arc<Memtable>>,
    ) -> Result<()> {
        let version = tree.manifest.version(keyspace.id());
        let version = version.ok_or_else(|| Error::KeyspaceDropped {
            name: keyspace.name().to_owned(),
        })?;
        keyspace.charge_tree(&version);
        let publish = || {
            keyspace.update(|state| {
                let mut state = match flushed {
                    Some(memtable) => state.without(memtable),
                    None => state.clone(),
                };
                state.version = version.clone();
                state
            });
        };
        if let Some(memtable) = flushed {
            self.update_entries(keyspace, memtable);
        }
        keyspace.limits().publish(&version, publish);
        self.due.changed(keyspace);
        Ok(())
    }

    /// Brings what is cached of keys up to date with a memtable that goes over into tables.
    fn update_entries(&self, keyspace: &KeyspaceInner, memtable: &Arc<Memtable>) {
        let cache = self.shared.options().memory.cache();
        let newest = memtable.last_seq().unwrap_or(0);
        let over = |key: &[u8]| memtable.cover_of(key, MAX_SEQNO).seq;
        let is_deleted = |key: &[u8]| over(key) > 0;
        let gone = memtable.has_ranges().then_some(&is_deleted as IsGone<'_>);
        cache.update_entries(keyspace.entries(), newest, gone, |update| {
            memtable.each_newest(|key, tag, value| {
                update(
                    key,
                    match tag.kind() {
                        _ if gone.is_some() && over(key) > tag.seq() => CachedValue::None,
                        Some(EntryKind::Put) => CachedValue::Value(value),
                        Some(EntryKind::Delete) => CachedValue::None,
                        Some(
                            EntryKind::Expiring
                            | EntryKind::Operand
                            | EntryKind::Pointer
                            | EntryKind::ExpiringPointer,
                        )
                        | None => CachedValue::Unknown,
                    },
                );
            });
        });
    }

    /// Removes new tables whose edit failed, unless it may be durable all the same: then they stay,
    /// and are orphans for the next open to remove if it is not.
    pub(super) fn remove_unlogged<'a>(
        &self,
        tree: &Tree,
        tables: impl Iterator<Item = &'a NewTable>,
    ) {
        if !tree.manifest.is_stopped() {
            self.remove_new(tables);
        }
    }

    /// Removes new tables that become no part of the tree.
    pub(super) fn remove_new<'a>(&self, tables: impl Iterator<Item = &'a NewTable>) {
        for table in tables {
            let path = table_path(self.shared.dir(), table.info.number);
            self.shared.remove_quietly(&path);
        }
    }

    /// Removes the files of tables that no version holds any more.
    pub(super) fn remove_obsolete(&self) {
        let gone = self.obsolete.take();
        self.tables
            .forget(&gone.iter().map(|(_, id)| *id).collect());
        for (number, _) in gone {
            let path = table_path(self.shared.dir(), number);
            self.shared.remove_quietly(&path);
        }
    }

    /// Drops what the cache holds of the tables; others may share it. Where memory does not hold a
    /// list of them, their blocks go as others are read.
    pub(super) fn forget_tables(&self) {
        let keyspaces = self.keyspaces();
        let states: Vec<_> = keyspaces.iter().map(|keyspace| keyspace.state()).collect();
        let lists = keyspaces.iter().zip(&states);
        let listed: Option<Vec<_>> = lists
            .map(|(keyspace, state)| keyspace.list_of(&state.version))
            .collect();
        if listed.is_none() {
            return;
        }
        let files = states.iter().flat_map(|state| state.version.all_files());
        self.tables
            .forget_all(&files.map(|file| file.slot().cache_id()).collect());
    }

    /// Keeps what memory holds of the tables for the next time that the database is open; what was
    /// kept before, if that did not come back and the database was hardly used since.
    pub(super) fn keep_warm(&self) {
        let policy = self.shared.options().memory.cache().policy();
        if self.reloaded.load(Ordering::Acquire) || policy.is_settled() {
            warm::write(&self.shared, &self.tree.lock());
        }
    }

    /// Seals the manifest, the last thing that a database writes.
    pub(super) fn seal(&self) -> Result<()> {
        let tree: &mut Tree = &mut self.tree.lock();
        hints::write(&self.shared, tree);
        tree.manifest.seal()
    }

    /// Has every later read refused, those of iterators and of lookups under way too, and lets
    /// others change the folder.
    pub(super) fn end_reads_and_unlock(&self) {
        for keyspace in self.keyspaces() {
            keyspace.update(Clone::clone);
        }
        let keyspaces = self.keyspaces();
        let cache = self.shared.options().memory.cache();
        cache.end_entries(keyspaces.iter().map(|keyspace| keyspace.entries()));
        cache.shrink();
        self.tables.shut();
        // Whoever waits for the tree with an edit must not write into what is another's by then.
        self.tree.lock().manifest.end();
        *self.lock.lock() = None;
    }
}
