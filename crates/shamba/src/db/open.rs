//! Opening: lock, manifest, logs, orphans, threads.
//!
//! First everything is looked at and judged, so that an open that is refused leaves the folder as
//! it was. Then the logs are made durable, for the process that wrote them may have died before it
//! synced them. What they hold beyond the tables is replayed into memtables and flushed before the
//! open returns, so that from then on nothing depends on the old logs, which are removed.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use super::batch::{DEFAULT_KEYSPACE, Ops};
use super::folder::{FileKind, LOCK, classify};
use super::keyspace::KeyspaceInner;
use super::logs::ClosedLogs;
use super::snapshot::SnapshotList;
use super::write::{Writer, next_database_id};
use super::{Db, DbInner, DbShared, Signal, Tree, maintenance};
use crate::base::key::Tag;
use crate::budget::Role;
use crate::error::{Error, Result};
use crate::fs::{DirEntry, FileLock, Fs, create_dir_durably};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::table::TableCache;
use crate::version::{FileMeta, Manifest, Obsolete, TreeState, VersionEdit, was_in_use};
use crate::wal::{LogInfo, NeededLog, Record, RecoveryMode, Survey};

/// The name of the default keyspace.
const DEFAULT_NAME: &str = "default";

pub(crate) fn open(dir: &Path, options: Options) -> Result<Db> {
    options.validate()?;
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

    let obsolete = Arc::new(Obsolete::default());
    let mut found = None;
    // Again: another process may have opened and closed it before the lock was had.
    if is_database(dir, &options)? {
        found = Some(Manifest::read(&*fs, dir)?);
    }
    let entries = fs.list(dir).map_err(on("list"))?;
    let logs = match &found {
        Some((state, _)) => {
            check_tables_exist(dir, state, &entries)?;
            Logs::look(dir, state, &entries, &options)?
        }
        None => Logs::default(),
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
    let recovered = manifest.state().clone();
    let reached = recovered.logs_reached();
    let position = reached.durable.max(reached.in_tables);
    let budget = options.memory.budget().clone();
    if let Some(eviction) = options.eviction {
        options.memory.set_eviction(eviction);
    }
    let mut hints = super::hints::read(&*fs, dir, options.inherit_heat);
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
    let tables = TableCache::new(
        options.fs.clone(),
        dir.to_path_buf(),
        options.memory.cache().clone(),
        options.memory.io_pool().clone(),
        budget.clone(),
        options.open_files(),
    );
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
    let inner = Arc::new(DbInner {
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
        snapshots: SnapshotList::default(),
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
        lock: Mutex::new(Some(lock)),
        device: Mutex::new(None),
        options,
    });
    inner.remove_orphans()?;
    inner.replay_logs(logs)?;
    let threads = maintenance::start(&inner)?;
    Ok(Db {
        shared: Arc::new(DbShared {
            inner,
            threads: Mutex::new(threads),
        }),
    })
}

/// Whether the folder holds a database; an error if the options refuse it.
fn is_database(dir: &Path, options: &Options) -> Result<bool> {
    let current = options.fs.exists(&dir.join("CURRENT"));
    let exists = current.map_err(|e| Error::io("look into", dir, e))?;
    if !exists {
        refuse_what_is_no_database(dir, options)?;
    } else if options.error_if_exists {
        return Err(Error::AlreadyExists {
            path: dir.to_path_buf(),
        });
    }
    Ok(exists)
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

/// A folder without `CURRENT` becomes a database only if nothing in it says otherwise.
pub(super) fn refuse_what_is_no_database(dir: &Path, options: &Options) -> Result<()> {
    let entries = options
        .fs
        .list(dir)
        .map_err(|e| Error::io("list", dir, e))?;
    // An open that is cut off before CURRENT is in place leaves a manifest of nothing; a CURRENT that
    // was lost leaves more.
    let of_a_database = |entry: &&DirEntry| match classify(&entry.name) {
        FileKind::Table(_) | FileKind::Log(_) | FileKind::Hints => true,
        FileKind::Manifest => was_in_use(&entry.name, entry.len),
        FileKind::Temporary | FileKind::Other => false,
    };
    if let Some(left) = entries.iter().find(of_a_database) {
        let what = format!(
            "the file is missing, but {} of a database is there; only an empty folder becomes a new one",
            left.name
        );
        return Err(Error::corruption(dir.join("CURRENT"), 0, what));
    }
    let foreign = entries
        .iter()
        .any(|entry| entry.name != "LOCK" && matches!(classify(&entry.name), FileKind::Other));
    if foreign {
        return Err(Error::NotADatabase {
            path: dir.to_path_buf(),
        });
    }
    if !options.create_if_missing {
        return Err(Error::NotFound {
            path: dir.to_path_buf(),
        });
    }
    Ok(())
}

/// Every table of the state is there in its full length.
fn check_tables_exist(dir: &Path, state: &TreeState, entries: &[DirEntry]) -> Result<()> {
    let lengths = lengths(entries);
    let tables = state.keyspaces.values();
    tables
        .flat_map(|keyspace| keyspace.version.files())
        .try_for_each(|file| check_length(dir, file, &lengths))
}

/// The files of a folder by name, with their lengths.
pub(super) fn lengths(entries: &[DirEntry]) -> BTreeMap<&str, u64> {
    let named = entries.iter().map(|entry| (entry.name.as_str(), entry.len));
    named.collect()
}

/// A table is there in its full length.
pub(super) fn check_length(
    dir: &Path,
    file: &FileMeta,
    lengths: &BTreeMap<&str, u64>,
) -> Result<()> {
    let name = crate::table::table_name(file.number);
    match lengths.get(name.as_str()) {
        None => {
            let what = "the manifest names this table, but it is missing";
            Err(Error::corruption(dir.join(name), 0, what))
        }
        Some(&len) if len != file.size => {
            let size = file.size;
            let what = format!("the table is {len} bytes long, the manifest says {size}");
            Err(Error::corruption(dir.join(name), len.min(size), what))
        }
        Some(_) => Ok(()),
    }
}

/// The logs of an earlier run, looked at and not yet applied.
#[derive(Debug, Default)]
pub(super) struct Logs {
    all: Vec<PathBuf>,
    /// The number after the last one.
    next: u64,
    /// Those not all in tables.
    needed: Option<Survey>,
}

impl Logs {
    /// Looks at the logs that a state names, and for any that it does not.
    pub(super) fn look(
        dir: &Path,
        state: &TreeState,
        entries: &[DirEntry],
        options: &Options,
    ) -> Result<Self> {
        let log = |entry: &DirEntry| match classify(&entry.name) {
            FileKind::Log(number) => Some((number, entry.len)),
            _ => None,
        };
        let found: BTreeMap<u64, u64> = entries.iter().filter_map(log).collect();
        let path = |number: &u64| super::logs::log_path(dir, *number);
        let named = state.logs.iter().map(|(&number, &base)| {
            let info = Some(LogInfo { number, base });
            (
                number,
                NeededLog {
                    path: path(&number),
                    info,
                },
            )
        });
        let mut needed: BTreeMap<u64, NeededLog> = named.collect();
        for (&number, &len) in found.range(state.log_number..) {
            // One that was created and not yet named is empty.
            if len == 0 || needed.contains_key(&number) {
                continue;
            }
            if options.recovery != RecoveryMode::SkipDamaged {
                let what = "the manifest does not name this log";
                return Err(Error::corruption(path(&number), 0, what));
            }
            let (path, info) = (path(&number), None);
            needed.insert(number, NeededLog { path, info });
        }
        let last = found.last_key_value().map(|(&number, _)| number);
        let last = last.max(needed.last_key_value().map(|(&number, _)| number));
        let survey = match needed.is_empty() {
            true => None,
            false => {
                let logs = needed.into_values().collect();
                let reached = state.logs_reached();
                Some(Survey::of(&*options.fs, logs, reached, options.recovery)?)
            }
        };
        Ok(Logs {
            all: found.keys().map(path).collect(),
            next: last.map_or(0, |last| last.saturating_add(1)),
            needed: survey,
        })
    }
}

impl DbInner {
    /// Removes what an earlier run began and no version holds.
    fn remove_orphans(&self) -> Result<()> {
        let entries = self.options.fs.list(&self.dir);
        let entries = entries.map_err(|e| Error::io("list", &self.dir, e))?;
        let mut live = HashSet::new();
        for keyspace in self.all_keyspaces() {
            live.extend(
                keyspace
                    .state
                    .load()
                    .version
                    .files()
                    .map(|file| file.number),
            );
        }
        let tree = self.tree.lock();
        for entry in entries {
            let orphan = match classify(&entry.name) {
                FileKind::Table(number) => !live.contains(&number),
                FileKind::Manifest => !tree.manifest.owns(&entry.name),
                FileKind::Temporary => true,
                FileKind::Log(_) | FileKind::Hints | FileKind::Other => false,
            };
            if orphan {
                super::flush::remove_quietly(self, &self.dir.join(&entry.name));
            }
        }
        Ok(())
    }

    /// Applies what the logs hold beyond the tables, flushes it, and removes the logs.
    fn replay_logs(&self, logs: Logs) -> Result<()> {
        if let Some(needed) = logs.needed {
            let fs = &*self.options.fs;
            // Their names are durable since the manifest was begun.
            needed.sync(fs)?;
            *self.closed_logs.lock() = ClosedLogs::beginning_at(needed.end());
            let keyspaces = self.lock_writer().keyspaces.clone();
            let outcome = needed.replay(fs, &mut |record| self.replay(&keyspaces, record))?;
            if let Some(stop) = &outcome.stopped {
                log::warn!(
                    "{}: the log ends early at byte {}: {}",
                    stop.path.display(),
                    stop.offset,
                    stop.what
                );
            }
            let mut writer = self.lock_writer();
            // Not before what an earlier history had come to.
            writer.position = writer.position.max(outcome.end);
            writer.synced = writer.position;
            writer.last_seq = writer.last_seq.max(self.visible_seq());
            for keyspace in writer.keyspaces.values() {
                self.freeze_replayed(keyspace, 0);
                // Nobody asked for this now.
                keyspace.operations.forget_frozen();
                while self.flush_oldest(keyspace)? {}
            }
            let end = writer.position;
            drop(writer);
            let mut tree = self.tree.lock();
            *self.closed_logs.lock() = ClosedLogs::beginning_at(end);
            self.log_edit(&mut tree, VersionEdit::of_logs(logs.next, end))?;
        }
        for log in &logs.all {
            super::flush::remove_quietly(self, log);
        }
        Ok(())
    }

    fn replay(
        &self,
        keyspaces: &BTreeMap<u32, Arc<KeyspaceInner>>,
        record: Record<'_>,
    ) -> Result<()> {
        for (seq, op) in (record.first_seq..).zip(Ops(record.payload)) {
            let malformed = || {
                Error::corruption(
                    super::logs::log_path(&self.dir, record.log),
                    record.position,
                    "a record's operations are malformed",
                )
            };
            let op = op.ok_or_else(malformed)?;
            // A keyspace that was dropped since needs nothing of the log.
            if let Some(keyspace) = keyspaces.get(&op.keyspace)
                && seq > keyspace.flushed_seq.load(Ordering::Acquire)
            {
                let size = op.key.len() + op.value.len();
                if !keyspace.state.load().active.fits(1, size) {
                    self.freeze_replayed(keyspace, size);
                    while self.flush_oldest(keyspace)? {}
                }
                self.charge_replayed(keyspace, keyspaces, size)?;
                let tag = Tag::new(seq, op.kind);
                if !keyspace.state.load().active.insert(op.key, tag, op.value) {
                    let max = self.max_value();
                    return Err(Error::ValueTooLarge {
                        len: op.value.len(),
                        max,
                    });
                }
            }
            // A flush in the middle of a record keeps what readers could see apart by number.
            self.visible.fetch_max(seq, Ordering::AcqRel);
        }
        Ok(())
    }

    fn freeze_replayed(&self, keyspace: &Arc<KeyspaceInner>, size: usize) {
        let active = keyspace.state.load().active.clone();
        if !active.is_empty() || !active.fits(1, size) {
            self.freeze_active(keyspace, size);
        }
    }

    /// Charges an entry of `size` bytes of a keyspace, once the largest memtables of all were flushed if
    /// there is too little memory for it.
    fn charge_replayed(
        &self,
        keyspace: &KeyspaceInner,
        keyspaces: &BTreeMap<u32, Arc<KeyspaceInner>>,
        size: usize,
    ) -> Result<()> {
        let active = || keyspace.state.load().active.clone();
        while !active().charge(1, size, self.memtable_share()) {
            let largest = self.largest_memtables(keyspaces);
            if largest.is_empty() {
                active().charge_anyway(1, size);
            }
            for keyspace in largest {
                self.freeze_replayed(&keyspace, size);
                while self.flush_oldest(&keyspace)? {}
            }
        }
        Ok(())
    }
}
