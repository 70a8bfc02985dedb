//! Checking a database through: every table, the versions' invariants. Goes on after damage, and says
//! of each damaged file what is wrong with it. An open database is checked beside reads and writes, from
//! any thread; one that is closed also for its logs and for tables that are missing or cut short, with
//! which it would not open.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::DbInner;
use super::open::{Logs, check_length, lengths, lock_folder, refuse_what_is_no_database};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::table::{TableCache, table_name};
use crate::version::{CURRENT, FileMeta, Manifest, Version};

/// Damaged files past this many are only counted.
const MAX_FILES: usize = 256;

/// Problems of a file past this many are only counted.
const MAX_PROBLEMS: usize = 8;

/// What a verification went through, and what it found.
#[derive(Debug, Clone, Default, serde::Serialize)]
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
    /// Problems found: all of them, listed below or not.
    pub problems: u64,
    /// Files with problems: all of them, listed below or not.
    pub damaged_files: u64,
    /// The damaged files, the first 256 of them.
    pub damaged: Vec<DamagedFile>,
    #[serde(skip)]
    first: Option<Error>,
}

/// A file that is damaged or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
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
    ) {
        let files = keyspaces.iter().map(|(_, version)| version.files().count());
        let (total, mut checked) = (files.sum(), 0);
        for (keyspace, version) in keyspaces {
            if let Err(found) = version.check() {
                let error = Error::corruption("MANIFEST", 0, found.to_string());
                self.note(Some(keyspace), "MANIFEST".to_owned(), &[error], 1);
            }
            for file in version.files() {
                self.tables += 1;
                self.bytes += file.size;
                let checking = before(file).and_then(|()| self.table(tables, file));
                match checking {
                    Ok((_, 0)) => {}
                    Ok((listed, count)) => {
                        self.note(Some(keyspace), table_name(file.number), &listed, count);
                    }
                    // One file that cannot be read says nothing of the others.
                    Err(error) => self.note(Some(keyspace), table_name(file.number), &[error], 1),
                }
                checked += 1;
                progress(checked, total);
            }
        }
    }

    /// The first problems of a table, and how many there are.
    fn table(&mut self, tables: &TableCache, file: &FileMeta) -> Result<(Vec<Error>, u64)> {
        let table = tables.get(file)?;
        let report = table.verify()?;
        self.blocks += report.blocks;
        self.entries += report.entries;
        Ok((report.problems, report.problem_count))
    }
}

impl DbInner {
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<VerifySummary> {
        self.check_open()?;
        let keyspaces = self.all_keyspaces();
        let versions: Vec<_> = (keyspaces.iter())
            .map(|keyspace| (&*keyspace.name, keyspace.state.load().version.clone()))
            .collect();
        let mut summary = VerifySummary::default();
        summary.tables(&self.tables, &versions, |_| Ok(()), progress);
        Ok(summary)
    }
}

impl Options {
    /// Checks the database in a folder that nobody has open: its manifest, every checksum and invariant
    /// of every table, its logs. Changes nothing, and goes on after damage, also after such as keeps a
    /// database from being opened; what is damaged is in the summary. `progress` is told tables checked
    /// and tables in all. [`Db::verify`](crate::Db::verify) checks the tables of an open database.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::UnsupportedFormat`] of `CURRENT` or the manifest, without which
    /// nobody knows what the tables are; [`Error::NotFound`], [`Error::NotADatabase`],
    /// [`Error::Locked`], [`Error::Io`], [`Error::InvalidOption`].
    pub fn verify(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<VerifySummary> {
        verify_closed(path.as_ref(), self, &mut progress)
    }
}

/// Checks the database of a folder that nobody has open, without opening it.
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
    let _lock = lock_folder(&**fs, dir)?;
    let (state, _) = Manifest::read(&**fs, dir)?;
    let entries = fs.list(dir).map_err(on("list"))?;
    let lengths = lengths(&entries);
    let tables = TableCache::new(
        fs.clone(),
        dir.to_path_buf(),
        options.memory.cache().clone(),
        options.memory.io_pool().clone(),
        options.memory.budget().clone(),
        options.open_files(),
    );
    let versions: Vec<_> = (state.keyspaces.values())
        .map(|keyspace| (&*keyspace.name, keyspace.version.clone()))
        .collect();
    let mut summary = VerifySummary::default();
    let length = |file: &FileMeta| check_length(dir, file, &lengths);
    summary.tables(&tables, &versions, length, progress);
    if let Err(error) = Logs::look(dir, &state, &entries, options) {
        let name = match &error {
            Error::Corruption { file, .. } => file.file_name(),
            Error::Io { path, .. } => path.file_name(),
            _ => None,
        };
        let name = name.unwrap_or_default().to_string_lossy().into_owned();
        summary.note(None, name, &[error], 1);
    }
    Ok(summary)
}
