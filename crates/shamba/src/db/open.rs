//! Opening: lock, manifest, logs, orphans, threads. To be read only: [`read_only`].
//!
//! First the logs are made durable, for the process that wrote them may have died before it synced
//! them. Then everything is looked at and judged, so that an open that is refused leaves the folder as
//! it was. What the logs hold beyond the tables is replayed into memtables, and the logs are kept until
//! those are flushed, as those of a running database are (`replay`).

mod judge;
mod read_only;
mod replay;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::batch::DEFAULT_KEYSPACE;
use super::due::DueList;
use super::filenames::{FileKind, LOCK, classify, look_at_files};
use super::keyspace::KeyspaceInner;
use super::snapshot::SnapshotList;
use super::wal_files::ClosedLogs;
use super::write::{Writer, next_database_id};
use super::{Db, DbInner, DbShared, Signal, Tree, maintenance};
use crate::budget::Role;
use crate::error::{Error, Result};
use crate::fs::{FileLock, Fs, create_dir_durably};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::table::TableCache;
use crate::version::{ByNumber, Manifest, Obsolete, VersionEdit};
pub(super) use judge::{Logs, check_length, lengths, refuse_what_is_no_database};
use judge::{is_database, sync_logs};
pub(super) use read_only::{hold_tables, settled};

/// Files that are removed between two looks into the folder: with names of 32 bytes, 64 KiB.
const ORPHANS_AT_ONCE: usize = 1024;

/// The name of the default keyspace.
const DEFAULT_NAME: &str = "default";

pub(crate) fn open(dir: &Path, options: Options) -> Result<Db> {
    options.validate()?;
    if options.read_only {
        return read_only::open(dir, &options);
    }
    let fs = options.fs.clone();
    let on = |op: &'static str| move |e: io::Error| Error::io(op, dir, e);
    if !fs.exists(dir).map_err(on("look for"))? {
        if !options.create_if_missing {
            return Err(Error::NotFound {
                path: dir.to_path_buf(),
            });
        }
        create_dir_durably(&*fs, dir).map_err(on("create"))?;
    }
    // Before the lock, which leaves a file.
    is_database(dir, &options)?;
    let lock = lock_folder(&*fs, dir)?;

    let obsolete = Obsolete::new(options.memory.budget());
    let mut found = None;
    // Again: another process may have opened and closed it before the lock was had.
    if is_database(dir, &options)? {
        found = Some(Manifest::read(&*fs, dir, &obsolete)?);
    }
    let logs = match &found {
        Some(found) => {
            let folder = look_at_files(&*fs, dir, &found.files)?;
            folder.check(&*fs, dir, &found.files)?;
            sync_logs(&*fs, dir, &folder.others)?;
            Logs::look(dir, &found.state, &folder.others, &options)?
        }
        None => Logs::default(),
    };
    if found.is_none() {
        // Again: an open before this one may have made it, and failed before its name was durable.
        create_dir_durably(&*fs, dir).map_err(on("create"))?;
    }
    let (found, files) = match found {
        Some(found) => (Some((found.state, found.name)), found.files),
        None => (None, ByNumber::default()),
    };
    // From here on the folder changes.
    let (mut manifest, recovered) = Manifest::begin(&fs, dir, found, &obsolete)?;
    let next_file = AtomicU64::new(recovered.next_file);
    if !manifest.state().keyspaces.contains_key(&DEFAULT_KEYSPACE) {
        manifest.log_edit(
            &VersionEdit::create_keyspace(DEFAULT_KEYSPACE, DEFAULT_NAME),
            || next_file.fetch_add(1, Ordering::Relaxed),
        )?;
    }
    let tables = tables_of(dir, &options);
    let mut inner = assemble(dir, options, manifest, next_file, tables)?;
    inner.lock = Mutex::new(Some(lock));
    let inner = Arc::new(inner);
    inner.remove_orphans(&files)?;
    let count = files.len();
    drop(files);
    inner.replay_logs(logs)?;
    inner.options.memory.budget().left_holes(count);
    let threads = maintenance::start(&inner)?;
    Ok(Db {
        shared: Arc::new(DbShared {
            inner,
            threads: Mutex::new(threads),
        }),
    })
}

/// What opens the tables of a folder.
pub(super) fn tables_of(dir: &Path, options: &Options) -> Arc<TableCache> {
    TableCache::new(
        options.fs.clone(),
        dir.to_path_buf(),
        options.memory.cache().clone(),
        options.memory.io_pool().clone(),
        options.memory.budget().clone(),
        options.open_files(),
    )
}

/// A database with the tables of a manifest, without what is in its logs.
fn assemble(
    dir: &Path,
    options: Options,
    manifest: Manifest,
    next_file: AtomicU64,
    tables: Arc<TableCache>,
) -> Result<DbInner> {
    let recovered = manifest.state().clone();
    let obsolete = Arc::clone(manifest.obsolete());
    let reached = recovered.logs_reached();
    let position = reached.durable.max(reached.in_tables);
    let budget = options.memory.budget().clone();
    if let Some(eviction) = options.eviction {
        options.memory.set_eviction(eviction);
    }
    let mut hints = super::hints::read(&*options.fs, dir, options.inherit_heat, &budget);
    let mut keyspaces = BTreeMap::new();
    for (id, found) in recovered.keyspaces {
        let own = options
            .keyspace_options
            .get(&*found.name)
            .unwrap_or(&options.default_keyspace)
            .clone();
        own.validate()?;
        super::hints::give(&mut hints, &found.version, &budget);
        let (version, flushed) = (found.version, found.flushed_seq);
        let keyspace =
            KeyspaceInner::new(id, found.name.to_string(), own, version, flushed, &budget);
        super::redesign::restore(&keyspace, found.design.as_ref());
        keyspaces.insert(id, Arc::new(keyspace));
    }
    let tree = Tree {
        manifest,
        keyspaces,
        unflushed: Default::default(),
    };
    let Some(default_keyspace) = tree.keyspaces.get(&DEFAULT_KEYSPACE).cloned() else {
        return Err(Error::corruption(
            dir.join("CURRENT"),
            0,
            "the manifest lacks the default keyspace",
        ));
    };
    let mut options_of_all = tree.keyspaces.values().map(|keyspace| keyspace.options());
    let asks_designs = options_of_all.any(|options| options.auto_design.is_some());
    let due = DueList::default();
    let all = tree.keyspaces.values();
    all.filter(|keyspace| keyspace.moving.load().is_some())
        .for_each(|keyspace| due.moves(keyspace));
    let writer = Writer {
        log: None,
        last_seq: recovered.last_seq,
        keyspaces: tree.keyspaces.clone(),
        position,
        synced: position,
        memory: budget.reserve(Role::Wal, 0),
        not_ours: 0,
        slowed: Duration::ZERO,
        on_its_way: Default::default(),
    };
    Ok(DbInner {
        id: next_database_id(),
        dir: dir.to_path_buf(),
        tables,
        obsolete,
        metrics: Metrics::new(),
        visible: AtomicU64::new(recovered.last_seq),
        next_file,
        next_run: AtomicU64::new(recovered.next_run),
        queue: super::group::queue(),
        writer: Mutex::new(writer),
        applying: Mutex::new(()),
        tree: Mutex::new(tree),
        closed_logs: Mutex::new(ClosedLogs::beginning_at(position)),
        frozen: Default::default(),
        due,
        snapshots: SnapshotList::new(options.memory.budget()),
        signal: Signal::default(),
        default_keyspace,
        poison: ArcSwapOption::empty(),
        jobs: AtomicU64::new(0),
        compactions_running: AtomicU64::new(0),
        compactions_paused: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        epoch_over: AtomicBool::new(false),
        asks_designs: AtomicBool::new(asks_designs),
        idle_at: AtomicU64::new(u64::MAX),
        closed: AtomicBool::new(false),
        lock: Mutex::new(None),
        device: Mutex::new(None),
        options,
    })
}

/// Keeps everybody else out of a database's folder.
pub(super) fn lock_folder(fs: &dyn Fs, dir: &Path) -> Result<Box<dyn FileLock>> {
    fs.lock(&dir.join(LOCK)).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked {
            path: dir.to_path_buf(),
        },
        _ => Error::io("lock", dir, e),
    })
}

impl DbInner {
    /// Removes what an earlier run began and no version holds; `files` are those that one does.
    fn remove_orphans(&self, files: &ByNumber) -> Result<()> {
        let tree = self.tree.lock();
        let is_orphan = |name: &str| match classify(name) {
            FileKind::Table(number) => files.get(number).is_none(),
            FileKind::Manifest => !tree.manifest.owns(name),
            FileKind::Temporary => true,
            FileKind::Log(_) | FileKind::Hints | FileKind::Other => false,
        };
        // Some at a time: nobody knows how many there are.
        loop {
            let mut orphans = Vec::new();
            let listed = self.options.fs.visit(&self.dir, &mut |name, _| {
                if orphans.len() < ORPHANS_AT_ONCE && is_orphan(name) {
                    orphans.push(name.to_owned());
                }
            });
            listed.map_err(|e| Error::io("list", &self.dir, e))?;
            let mut removed = 0;
            for name in &orphans {
                removed += usize::from(super::flush::remove_quietly(self, &self.dir.join(name)));
            }
            if orphans.len() < ORPHANS_AT_ONCE || removed == 0 {
                return Ok(());
            }
        }
    }
}
