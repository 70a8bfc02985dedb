//! Checking a database through: every table, the versions' invariants. Goes on after damage, and
//! says of each damaged file what is wrong with it. An open database is checked beside reads and
//! writes, from any thread; one in a folder, which need not be open, also for its logs and for
//! tables that are missing or cut short, with which it would not open.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::batch::BatchOps;
use super::buffers::log_path;
use super::files::filenames::{FileKind, classify};
use super::open::{
    Logs, check_length, hold_tables, lengths, lock_folder, refuse_what_is_no_database, settled,
    tables_of,
};
use super::{DbInner, open};
use crate::budget::{Reservation, Role};
use crate::error::{Error, Result};
use crate::fs::DirEntry;
use crate::options::Options;
use crate::table::{PointedValues, Table, TableCache, table_name};
use crate::version::{CURRENT, FileMeta, FoundManifest, Manifest, Obsolete, TreeState, Version};
use crate::wal::{Record, RecoveryMode};

/// Damaged files past this many are only counted.
const MAX_FILES: usize = 256;

/// Problems of a file past this many are only counted.
const MAX_PROBLEMS: usize = 8;

/// What a verification went through, and what it found.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[must_use = "the damage that was found is in here; `check` makes an error of it"]
pub struct VerifySummary {
    /// Tables looked at, damaged ones included.
    pub tables: u64,
    /// Blocks whose checksum was checked.
    pub blocks: u64,
    /// Entries read.
    pub entries: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Write-ahead logs that are still needed. None of a database that is open: what they hold is
    /// in its memory.
    pub logs: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Operations (puts and deletes) that were read in them.
    pub log_operations: u64,
    /// How many of these are in no table yet, so that they are not among `entries`.
    pub unflushed_operations: u64,
    /// Problems found: all of them, listed below or not.
    pub problems: u64,
    /// Files with problems: all of them, listed below or not.
    pub damaged_files: u64,
    /// The damaged files, the first 256 of them.
    pub damaged: Vec<DamagedFile>,
    #[cfg_attr(feature = "serde", serde(skip))]
    first: Option<Error>,
}

/// A file that is damaged or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DamagedFile {
    /// Its name in the database's folder.
    pub file: String,
    /// The keyspace that a table is of.
    pub keyspace: Option<String>,
    /// How many problems it has.
    pub problems: u64,
    /// The first of them, at most 8.
    pub first: Vec<Problem>,
}

/// Something that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Problem {
    /// Where it was noticed, in bytes from the start of the file, if it has a place.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl Problem {
    fn of(error: &Error) -> Self {
        match error {
            Error::Corruption { offset, what, .. } => Problem {
                offset: Some(*offset),
                what: what.clone(),
            },
            other => Problem {
                offset: None,
                what: other.to_string(),
            },
        }
    }
}

impl VerifySummary {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems == 0
    }

    /// The first problem as an error.
    ///
    /// # Errors
    /// [`Error::Corruption`], or whatever kept a file from being read; none if all is sound.
    pub fn check(&self) -> Result<()> {
        self.first.clone().map_or(Ok(()), Err)
    }

    /// Notes that a file has problems; `listed` are the first of so many.
    fn note(&mut self, keyspace: Option<&str>, file: String, listed: &[Error], problems: u64) {
        self.problems += problems;
        self.damaged_files += 1;
        if self.first.is_none() {
            self.first = listed.first().cloned();
        }
        if self.damaged.len() < MAX_FILES {
            self.damaged.push(DamagedFile {
                file,
                keyspace: keyspace.map(str::to_owned),
                problems,
                first: listed.iter().take(MAX_PROBLEMS).map(Problem::of).collect(),
            });
        }
    }

    /// Checks every table of some keyspaces, after what `before` says of it, and their versions.
    fn tables(
        &mut self,
        tables: &TableCache,
        keyspaces: &[(&str, Arc<Version>)],
        before: impl Fn(&FileMeta) -> Result<()>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<()> {
        let files = keyspaces
            .iter()
            .map(|(_, version)| version.all_files().count());
        let (total, mut checked) = (files.sum(), 0);
        for (keyspace, version) in keyspaces {
            if let Err(found) = version.check() {
                let error = Error::corruption("MANIFEST", 0, found.to_string());
                self.note(Some(keyspace), "MANIFEST".to_owned(), &[error], 1);
            }
            // Value files first: what is wrong with one is not said again of all that point there.
            let values = version.value_files();
            let mut wrong = BTreeSet::new();
            for file in values.iter().map(|held| &held.file).chain(version.files()) {
                self.tables += 1;
                self.bytes += file.size();
                let mut open = |number| match values.get(number) {
                    Some(held) if !wrong.contains(&number) => tables.get(&held.file).map(Some),
                    _ => Ok(None),
                };
                let checking = before(file).and_then(|()| self.table(tables, file, &mut open));
                if !matches!(checking, Ok((_, 0))) && values.get(file.number()).is_some() {
                    wrong.insert(file.number());
                }
                match checking {
                    // A writer that is beside us needs it no more.
                    Err(Error::Outdated { .. }) => {
                        self.tables -= 1;
                        self.bytes -= file.size();
                    }
                    Ok((_, 0)) => {}
                    Ok((listed, count)) => {
                        self.note(Some(keyspace), table_name(file.number()), &listed, count);
                    }
                    // That says nothing of the file.
                    Err(error @ Error::BudgetTooSmall { .. }) => return Err(error),
                    // One file that cannot be read says nothing of the others.
                    Err(error) => self.note(Some(keyspace), table_name(file.number()), &[error], 1),
                }
                checked += 1;
                progress(checked, total);
            }
        }
        Ok(())
    }

    /// Counts what the logs of a folder hold, and notes what is wrong with them.
    fn logs(&mut self, dir: &Path, found: &Looked, options: &Options) {
        let state = &found.state;
        for entry in &found.entries {
            if matches!(classify(&entry.name), FileKind::Log(number) if number >= state.log_number)
            {
                self.logs += 1;
                self.log_bytes += entry.len;
            }
        }
        let logs = found.logs.as_ref().map_err(Clone::clone);
        let mut counts = (0, 0);
        let counted = logs.and_then(|logs| {
            let Some(survey) = &logs.needed else {
                return Ok(());
            };
            let count = &mut |record: Record<'_>| count_operations(dir, state, record, &mut counts);
            survey.replay(&*options.fs, count).map(drop)
        });
        if let Err(error) = counted {
            self.note(None, file_name(&error), &[error], 1);
            // What can be read all the same.
            counts = (0, 0);
            let options = options.clone().recovery(RecoveryMode::SkipDamaged);
            let logs = Logs::look(dir, state, &found.entries, &options);
            if let Some(survey) = logs.ok().and_then(|logs| logs.needed) {
                let count = &mut |record: Record<'_>| {
                    // What is wrong was noted.
                    let _ = count_operations(dir, state, record, &mut counts);
                    Ok(())
                };
                let _ = survey.replay(&*options.fs, count);
            }
        }
        (self.log_operations, self.unflushed_operations) = counts;
    }

    /// The first problems of a table, and how many there are.
    fn table(
        &mut self,
        tables: &TableCache,
        file: &FileMeta,
        open: &mut dyn FnMut(u64) -> Result<Option<Arc<Table>>>,
    ) -> Result<(Vec<Error>, u64)> {
        let table = tables.get(file)?;
        let mut report = table.verify(Some(&mut PointedValues::new(tables.budget(), open)))?;
        self.blocks += report.blocks;
        self.entries += report.entries;
        let stated: BTreeMap<u64, u64> = file.pointed_to().collect();
        let is_sound = report.is_sound();
        let seen = if stated.contains_key(&file.number()) {
            BTreeMap::from([(file.number(), report.value_bytes)])
        } else {
            std::mem::take(&mut report.points_to)
        };
        // Builds before did not count operands.
        if is_sound && ![0, report.operands].contains(&file.operands()) {
            let what = "its operands are not as many as the manifest says";
            let name = table_name(file.number());
            report.problems.push(Error::corruption(name, 0, what));
            report.problem_count += 1;
        }
        if is_sound && seen != stated {
            let what = "its values are not those that the manifest says";
            let name = table_name(file.number());
            report.problems.push(Error::corruption(name, 0, what));
            report.problem_count += 1;
        }
        Ok((report.problems, report.problem_count))
    }
}

/// Checks the tables of an open database. See [`Db::verify`](crate::Db::verify).
pub(super) fn verify(
    db: &DbInner,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<VerifySummary> {
    db.shared().check_open()?;
    let keyspaces = db.files().keyspaces();
    let versions: Vec<_> = (keyspaces.iter())
        .map(|keyspace| (keyspace.name(), keyspace.version()))
        .collect();
    let files = versions
        .iter()
        .map(|(_, version)| version.sums().files)
        .max();
    // A version's tables by number.
    let listed = (files.unwrap_or(0) * size_of::<u64>()) as u64;
    let _listed = db.shared().budget().reserve(Role::Tables, listed);
    let mut summary = VerifySummary::default();
    summary.tables(db.files().tables(), &versions, |_| Ok(()), progress)?;
    Ok(summary)
}

/// What a verification finds in a folder.
struct Looked {
    state: TreeState,
    entries: Vec<DirEntry>,
    tables: Arc<TableCache>,
    logs: Result<Logs>,
    /// What the tables of the state are charged, and lists of them and of the folder.
    _account: (Arc<Obsolete>, Reservation),
    /// Whether all tables were there in their full length.
    strictly: bool,
}

/// Bytes that a table takes in lists of names, lengths and numbers while a folder is verified.
const LISTED_BYTES: u64 = 128;

/// Looks at a folder; `strictly` gives damage to logs and missing tables as errors.
fn look(dir: &Path, options: &Options, tables: Arc<TableCache>, strictly: bool) -> Result<Looked> {
    let fs = &options.fs;
    let account = Obsolete::new(options.memory.budget());
    let FoundManifest { state, files, .. } = Manifest::read(&**fs, dir, &account)?;
    let listed = LISTED_BYTES * files.len() as u64;
    let listed = options.memory.budget().reserve(Role::Tables, listed);
    drop(files);
    let (entries, logs);
    if strictly {
        entries = hold_tables(dir, options, &tables, &state)?;
        logs = Ok(Logs::look(dir, &state, &entries, options)?);
    } else {
        entries = fs.list(dir).map_err(|e| Error::io("list", dir, e))?;
        logs = Logs::look(dir, &state, &entries, options);
    }
    Ok(Looked {
        state,
        entries,
        tables,
        logs,
        _account: (account, listed),
        strictly,
    })
}

/// The name of the file that an error is about.
fn file_name(error: &Error) -> String {
    let name = match error {
        Error::Corruption { file, .. } => file.file_name(),
        Error::Io { path, .. } => path.file_name(),
        _ => None,
    };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Adds the operations of a record to those counted, in all and in no table.
fn count_operations(
    dir: &Path,
    state: &TreeState,
    record: Record<'_>,
    (all, unflushed): &mut (u64, u64),
) -> Result<()> {
    for (seq, op) in (record.first_seq..).zip(BatchOps(record.payload)) {
        let op = op.ok_or_else(|| {
            let what = "a record's operations are malformed";
            Error::corruption(log_path(dir, record.log), record.position, what)
        })?;
        let keyspace = state.keyspaces.get(&op.keyspace);
        *all += 1;
        *unflushed += u64::from(keyspace.is_some_and(|keyspace| seq > keyspace.flushed_seq));
    }
    Ok(())
}

impl Options {
    /// Checks the database in a folder: its manifest, every checksum and invariant of every table,
    /// its logs. Changes nothing, and goes on after damage, also after such as keeps a database
    /// from being opened; what is damaged is in the summary. `progress` is told tables checked and
    /// tables in all. Nobody may have the database open, unless with
    /// [`read_only`](Options::read_only): then nothing is locked, not even a `LOCK` file made, and
    /// the state of one moment is checked beside whoever writes. [`Db::verify`](crate::Db::verify)
    /// checks the tables of an open database.
    ///
    /// # Errors
    /// [`Error::Corruption`], [`Error::UnsupportedFormat`] or [`Error::UnknownFeatures`] of
    /// `CURRENT` or the manifest, without which nobody knows what the tables are;
    /// [`Error::NotFound`], [`Error::NotADatabase`], [`Error::Locked`], [`Error::Io`],
    /// [`Error::InvalidOption`]; [`Error::BudgetTooSmall`] where a value or a batch is there that
    /// was written under a much larger budget.
    pub fn verify(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<VerifySummary> {
        verify_closed(&open::absolute(self, path.as_ref())?, self, &mut progress)
    }
}

/// Checks the database of a folder without opening it.
fn verify_closed(
    dir: &Path,
    options: &Options,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<VerifySummary> {
    options.validate()?;
    let fs = &options.fs;
    let on = |op: &'static str| move |e: io::Error| Error::io(op, dir, e);
    if !fs.exists(&dir.join(CURRENT)).map_err(on("look into"))? {
        if fs.exists(dir).map_err(on("look for"))? {
            refuse_what_is_no_database(dir, &options.clone().create_if_missing(false))?;
        }
        return Err(Error::NotFound {
            path: dir.to_path_buf(),
        });
    }
    let (_lock, found) = if !options.read_only {
        let lock = lock_folder(&**fs, dir)?;
        let found = look(dir, options, tables_of(dir, options), false)?;
        (Some(lock), found)
    } else {
        // What only a writer beside us has caused passes; what stays is damage.
        let tables = tables_of(dir, options);
        let found = settled(&**fs, dir, || look(dir, options, Arc::clone(&tables), true));
        let found = match found {
            Ok(found) => found,
            Err(unsettled) if unsettled.beside_writer => return Err(unsettled.error),
            Err(_) => look(dir, options, tables_of(dir, options), false)?,
        };
        (None, found)
    };
    let lengths = lengths(&found.entries);
    let versions: Vec<_> = (found.state.keyspaces.values())
        .map(|keyspace| (&*keyspace.name, keyspace.version.clone()))
        .collect();
    let mut summary = VerifySummary::default();
    let length = |file: &FileMeta| {
        if found.strictly {
            // Checked; a writer may have removed it since.
            Ok(())
        } else {
            check_length(dir, file, &lengths)
        }
    };
    summary.tables(&found.tables, &versions, length, progress)?;
    if let Err(error @ Error::BudgetTooSmall { .. }) = &found.logs {
        return Err(error.clone());
    }
    summary.logs(dir, &found, options);
    Ok(summary)
}
