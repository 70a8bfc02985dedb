//! What is found in a folder, and whether it can be right: for opens to write, opens to read, and
//! verification. Nothing here changes anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::budget::{least_limit_for_batch, most_of_batch};
use crate::db::buffers::log_path;
use crate::db::files::filenames::{FileKind, classify};
use crate::error::{Error, Result};
use crate::fs::{DirEntry, Fs};
use crate::options::Options;
use crate::version::{CURRENT, FileMeta, TreeState, was_in_use};
use crate::wal::{NeededLog, RecoveryMode, Survey};

/// Whether the folder holds a database; an error if the options refuse it.
pub(in crate::db) fn is_database(dir: &Path, options: &Options) -> Result<bool> {
    let current = options.fs.exists(&dir.join(CURRENT));
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

/// A folder without `CURRENT` becomes a database only if nothing in it says otherwise.
pub(in crate::db) fn refuse_what_is_no_database(dir: &Path, options: &Options) -> Result<()> {
    let entries = options
        .fs
        .list(dir)
        .map_err(|e| Error::io("list", dir, e))?;
    // An open that is cut off before CURRENT is in place leaves a manifest of nothing; a CURRENT
    // that was lost leaves more.
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
        return Err(Error::corruption(dir.join(CURRENT), 0, what));
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
pub(in crate::db) fn check_tables_exist(
    dir: &Path,
    state: &TreeState,
    entries: &[DirEntry],
) -> Result<()> {
    let lengths = lengths(entries);
    let tables = state.keyspaces.values();
    tables
        .flat_map(|keyspace| keyspace.version.all_files())
        .try_for_each(|file| check_length(dir, file, &lengths))
}

/// The files of a folder by name, with their lengths.
pub(in crate::db) fn lengths(entries: &[DirEntry]) -> BTreeMap<&str, u64> {
    let named = entries.iter().map(|entry| (entry.name.as_str(), entry.len));
    named.collect()
}

/// A table is there in its full length.
pub(in crate::db) fn check_length(
    dir: &Path,
    file: &FileMeta,
    lengths: &BTreeMap<&str, u64>,
) -> Result<()> {
    let name = crate::table::table_name(file.number());
    match lengths.get(name.as_str()) {
        None => {
            let what = "the manifest names this table, but it is missing";
            Err(Error::corruption(dir.join(name), 0, what))
        }
        Some(&len) if len != file.size() => {
            let size = file.size();
            let what = format!("the table is {len} bytes long, the manifest says {size}");
            Err(Error::corruption(dir.join(name), len.min(size), what))
        }
        Some(_) => Ok(()),
    }
}

/// Makes the logs in a folder durable, oldest first. What a process wrote before it died may be in
/// the system's cache alone: before anything made of a record is durable the record must be, or a
/// power failure leaves a part of its batch, or later batches without earlier ones. And what is
/// judged afterwards is what the medium holds ([`Fs::sync_file`]).
pub(super) fn sync_logs(fs: &dyn Fs, dir: &Path, entries: &[DirEntry]) -> Result<()> {
    let log = |entry: &DirEntry| match classify(&entry.name) {
        FileKind::Log(number) => Some(number),
        _ => None,
    };
    let logs: BTreeSet<u64> = entries.iter().filter_map(log).collect();
    logs.into_iter().try_for_each(|number| {
        let path = log_path(dir, number);
        let synced = fs.sync_file(&path);
        synced.map_err(|e| Error::io("sync", path, e))
    })
}

/// A record is in memory as a whole when it is applied.
fn check_longest(survey: &Survey, limit: u64) -> Result<()> {
    if survey.longest() <= most_of_batch(limit) {
        Ok(())
    } else {
        Err(Error::BudgetTooSmall {
            limit,
            needed: least_limit_for_batch(survey.longest()),
        })
    }
}

/// The logs of an earlier run, looked at and not yet applied.
#[derive(Debug, Default)]
pub(in crate::db) struct Logs {
    pub(super) all: Vec<PathBuf>,
    /// The number after the last one.
    pub(super) next: u64,
    /// Those not all in tables.
    pub(in crate::db) needed: Option<Survey>,
}

impl Logs {
    /// Looks at the logs that a state names, and for any that it does not.
    pub(in crate::db) fn look(
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
        let path = |number: &u64| log_path(dir, *number);
        // The manifest says which logs there must be.
        let named = state.logs.iter().map(|(&number, &info)| {
            let path = path(&number);
            let info = Some(info);
            (number, NeededLog { path, info })
        });
        let mut needed: BTreeMap<u64, NeededLog> = named.collect();
        // One that it does not name is of a copy, or of another history.
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
        // New logs have numbers behind all of these.
        let last = found.last_key_value().map(|(&number, _)| number);
        let last = last.max(needed.last_key_value().map(|(&number, _)| number));
        let survey = if needed.is_empty() {
            None
        } else {
            let logs = needed.into_values().collect();
            let reached = state.logs_reached();
            let look = if options.read_only {
                Survey::beside_a_writer
            } else {
                Survey::of
            };
            let survey = look(&*options.fs, logs, reached, options.recovery)?;
            check_longest(&survey, options.memory.limit())?;
            Some(survey)
        };
        Ok(Logs {
            all: found.keys().map(path).collect(),
            next: last.map_or(0, |last| last.saturating_add(1)),
            needed: survey,
        })
    }
}
