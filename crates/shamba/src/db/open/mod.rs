//! Opening: lock, manifest, logs, orphans, threads. To be read only: [`read_only`].
//!
//! First the logs are made durable, for the process that wrote them may have died before it synced
//! them. Then everything is looked at and judged, so that an open that is refused leaves the folder
//! as it was. What the logs hold beyond the tables is replayed into memtables, and the logs are
//! kept until those are flushed, as those of a running database are (`replay`).

mod in_process;
mod judge;
mod read_only;
mod replay;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::batch::DEFAULT_KEYSPACE;
use super::buffers::{ActiveLog, Writer};
use super::context::DbContext;
use super::files::filenames::{LOCK, look_at_files, remove_orphans};
use super::files::warm::WarmFile;
use super::files::{Files, Tree, hints};
use super::keyspaces::{AllKeyspaces, KeyspaceInner};
use super::tuning::restore;
use super::visibility::Visibility;
use super::{DbInner, DbShared};
use crate::budget::least_limit_for_databases;
use crate::error::{Error, Result};
use crate::fs::{FileLock, Fs, create_dir_durably};
use crate::operator::Operator;
use crate::options::{Design, KeptOptions, KeyspaceOptions, Options};
use crate::table::TableCache;
use crate::version::{
    ByNumber, CURRENT, KeyspaceEdit, KeyspaceState, Manifest, Obsolete, StoredDesign, TreeState,
    VersionEdit,
};
pub(super) use judge::{Logs, check_length, lengths, refuse_what_is_no_database};
use judge::{is_database, sync_logs};
pub(super) use read_only::{hold_tables, settled};

/// The name of the default keyspace.
const DEFAULT_NAME: &str = "default";

/// The path of a folder that stays the same when the process goes to another folder.
///
/// # Errors
/// [`Error::Io`] for an empty path, and where the present folder is gone.
pub(super) fn absolute(options: &Options, path: &Path) -> Result<PathBuf> {
    let absolute = options.fs.absolute(path);
    absolute.map_err(|e| Error::io("find", path, e))
}

pub(super) fn open(dir: &Path, options: Options) -> Result<Arc<DbShared>> {
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
            for keyspace in found.state.keyspaces.values() {
                let kept = keyspace.operator.as_deref();
                options.merge_operators.of(&keyspace.name, kept)?;
            }
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
    // From here on the folder changes. What nobody needs goes first: there may be no room for a
    // manifest without.
    let name = found.as_ref().map(|(_, name)| name.as_str());
    remove_orphans(&*fs, dir, &files, name)?;
    let (mut manifest, recovered) = Manifest::begin(&fs, dir, found, &obsolete)?;
    let next_file = AtomicU64::new(recovered.next_file);
    if let Some(edit) = edit_of_options(manifest.state(), &options)? {
        manifest.log_edit(&edit, || next_file.fetch_add(1, Ordering::Relaxed))?;
    }
    let tables = tables_of(dir, &options);
    let inner = assemble(dir, options, manifest, next_file, tables)?;
    inner.files().hold(lock);
    let count = files.len();
    drop(files);
    replay::replay_logs(&inner, logs)?;
    inner.files().set_replayed();
    inner.shared().budget().left_holes(count);
    let db = DbShared::start(inner)?;
    in_process::add(dir, &db);
    Ok(db)
}

/// The options that an open names for a keyspace, if it does.
fn named<'a>(options: &'a Options, id: u32, name: &str) -> Option<&'a KeyspaceOptions> {
    let own = options.keyspace_options.get(name);
    let default = options.default_keyspace.as_ref();
    own.or(default.filter(|_| id == DEFAULT_KEYSPACE))
}

/// What the manifest has yet to be told of the keyspaces' options and operators: those of the
/// default keyspace, where there is none yet, and those that the open names and that are not kept.
fn edit_of_options(state: &TreeState, options: &Options) -> Result<Option<VersionEdit>> {
    let operators = &options.merge_operators;
    if !state.keyspaces.contains_key(&DEFAULT_KEYSPACE) {
        let named = named(options, DEFAULT_KEYSPACE, DEFAULT_NAME).cloned();
        let kept = KeptOptions::encode(&named.unwrap_or_default());
        let operator = operators.of(DEFAULT_NAME, None)?;
        let operator = operator.as_ref().map(Operator::name);
        let id = DEFAULT_KEYSPACE;
        let create = VersionEdit::create_keyspace_of(id, DEFAULT_NAME, kept, operator);
        return Ok(Some(create));
    }
    let mut keyspaces = Vec::new();
    for (&id, keyspace) in &state.keyspaces {
        let mut edit = KeyspaceEdit::new(id);
        if let Some(named) = named(options, id, &keyspace.name) {
            let kept = KeptOptions::encode(named);
            if keyspace.options.as_deref() != Some(&*kept) {
                edit.options = Some(kept.into());
                edit.design = design_of_named(state, keyspace, named);
            }
        }
        if keyspace.operator.is_none() {
            let operator = operators.of(&keyspace.name, None)?;
            edit.operator = operator.map(|operator| operator.name().into());
        }
        if edit.options.is_some() || edit.operator.is_some() {
            keyspaces.push(edit);
        }
    }
    Ok((!keyspaces.is_empty()).then(|| VersionEdit::of_keyspaces(keyspaces)))
}

/// The design that a keyspace moves to since an open names another: where the one that is stored is
/// that of the kept options (`Db::alter_keyspace`), which go. One that was asked for by itself
/// (`Keyspace::redesign`) stays.
fn design_of_named(
    state: &TreeState,
    keyspace: &KeyspaceState,
    named: &KeyspaceOptions,
) -> Option<StoredDesign> {
    let stored = Design::of_stored(keyspace.design.as_ref()?)?;
    let kept = KeptOptions::decode(keyspace.options.as_deref()?)?;
    let own = named.design();
    let replaced = kept.options.design().is_kept_as(&stored) && !own.is_kept_as(&stored);
    replaced.then(|| StoredDesign {
        rewrite_filters: own.bits_per_key != stored.bits_per_key,
        ..own.stored(state.next_created)
    })
}

/// The options of a keyspace: those that the open names, or else those kept with it. Databases of
/// before these were kept have those of the default keyspace, or the defaults.
fn options_of(
    dir: &Path,
    options: &Options,
    (id, keyspace): (u32, &KeyspaceState),
) -> Result<KeyspaceOptions> {
    if let Some(named) = named(options, id, &keyspace.name) {
        return Ok(named.clone());
    }
    let Some(kept) = &keyspace.options else {
        return Ok(options.default_keyspace.clone().unwrap_or_default());
    };
    let name = &keyspace.name;
    let kept = KeptOptions::decode(kept).ok_or_else(|| {
        let what = format!("the options of keyspace {name} in the manifest");
        Error::corruption(dir.join(CURRENT), 0, what)
    })?;
    if !kept.unknown.is_empty() {
        let unknown = &kept.unknown;
        log::warn!("keyspace {name}: options {unknown:?} are of another build and left out");
    }
    // They say nothing of how to read: they keep nobody from opening.
    if let Err(error) = kept.options.validate() {
        log::warn!(
            "keyspace {name}: its options are of another build, the defaults taken: {error}"
        );
        return Ok(KeyspaceOptions::default());
    }
    Ok(kept.options)
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
    let budget = options.memory.budget().clone();
    if let Some(eviction) = options.eviction {
        options.memory.set_eviction(eviction);
    }
    let (last_seq, next_run) = (recovered.last_seq, recovered.next_run);
    let reached = recovered.logs_reached();
    let position = reached.durable.max(reached.in_tables);
    // What the budget could never hold is refused.
    let all_keyspaces = AllKeyspaces::default();
    all_keyspaces.check(recovered.keyspaces.len(), budget.limit())?;
    let needed = least_limit_for_databases(budget.databases() + 1);
    if needed > budget.limit() {
        let limit = budget.limit();
        return Err(Error::BudgetTooSmall { limit, needed });
    }
    // Each keyspace with its options, what the manifest says of it, and what is remembered of
    // its files' visits.
    let mut hints = hints::read(&*options.fs, dir, options.inherit_statistics, &budget);
    let is_wanted = options.inherit_statistics && options.memory.cache().policy().is_active();
    let warm = is_wanted.then(|| WarmFile::look(&*options.fs, dir, &budget));
    let warm = warm.flatten();
    let mut keyspaces = BTreeMap::new();
    for (id, found) in recovered.keyspaces {
        let operators = &options.merge_operators;
        let operator = operators.of(&found.name, found.operator.as_deref())?;
        let own = options_of(dir, &options, (id, &found))?;
        hints::give(&mut hints, &found.version, &budget);
        // One that is kept may need a function that this open does without.
        let scan_rule = options.prefix_functions.scan_rule(&own);
        let (version, flushed) = (found.version, found.flushed_seq);
        let (name, memory) = (found.name.to_string(), all_keyspaces.reserve(&budget));
        let cache = options.memory.cache();
        let keyspace = KeyspaceInner::new(id, name, own, version, flushed, memory, cache);
        restore(&keyspace, found.design.as_ref());
        keyspace.set_operator(operator);
        keyspace.set_scan_rule(scan_rule);
        keyspaces.insert(id, Arc::new(keyspace));
    }
    let Some(default_keyspace) = keyspaces.get(&DEFAULT_KEYSPACE).cloned() else {
        return Err(Error::corruption(
            dir.join(CURRENT),
            0,
            "the manifest lacks the default keyspace",
        ));
    };
    // Then the components. Writes go on behind all that is in logs and tables.
    let mut all = keyspaces.values().map(|keyspace| keyspace.options());
    let asks_designs = all.any(|options| options.auto_design.is_some());
    let log = ActiveLog::beginning_at(last_seq, position, &budget);
    let writer = Writer::new(log, keyspaces.clone());
    let shared = DbContext::new(dir, options, all_keyspaces);
    let visibility = Arc::new(Visibility::new(last_seq, &budget));
    let tree = Tree::new(manifest, keyspaces);
    let numbers = (next_file, next_run);
    let files = Files::new(&shared, &visibility, tables, numbers, tree);
    files.go_on_from(warm);
    let context = (shared, visibility);
    let inner = DbInner::new(context, files, (position, writer), default_keyspace);
    // Who reads only changes no design.
    if asks_designs && !inner.shared().options().read_only {
        inner.advisor().begin_to_ask();
    }
    Ok(inner)
}

/// Keeps everybody else out of a database's folder.
pub(super) fn lock_folder(fs: &dyn Fs, dir: &Path) -> Result<Box<dyn FileLock>> {
    fs.lock(&dir.join(LOCK)).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked {
            path: dir.to_path_buf(),
            holders: in_process::holders(dir),
        },
        _ => Error::io("lock", dir, e),
    })
}
