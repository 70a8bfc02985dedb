//! What the files in a database's folder are, by their names (docs/format.md, "Files of a database"), and
//! whether its tables are all there. Changes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use super::hints::HINTS;
use crate::error::{Error, Result};
use crate::fs::{DirEntry, Fs};
use crate::table::table_name;
use crate::version::{ByNumber, FileMeta};

/// Locked by whoever has the database open.
pub(in crate::db) const LOCK: &str = "LOCK";

/// What a file's name says it is.
pub(in crate::db) enum FileKind {
    Table(u64),
    Log(u64),
    Manifest,
    Temporary,
    Hints,
    Other,
}

/// What a file of a database's folder is.
pub(in crate::db) fn classify(name: &str) -> FileKind {
    let numbered = |suffix: &str| name.strip_suffix(suffix).and_then(|stem| stem.parse().ok());
    if let Some(number) = numbered(".sst") {
        FileKind::Table(number)
    } else if let Some(number) = numbered(".wal") {
        FileKind::Log(number)
    } else if name.starts_with("MANIFEST-") || name.starts_with("MARKS-") {
        FileKind::Manifest
    } else if name == HINTS {
        FileKind::Hints
    } else if name.ends_with(".tmp") {
        FileKind::Temporary
    } else {
        FileKind::Other
    }
}

/// What is in a folder beside its tables, and which of these are not as they should be.
#[derive(Debug, Default)]
pub(in crate::db) struct Folder {
    pub(in crate::db) others: Vec<DirEntry>,
    /// How many tables of the tree are there.
    found: usize,
    /// The numbers of those of another length, and that.
    wrong: BTreeMap<u64, u64>,
}

/// Goes through the files of a folder. Only what is no table, or wrong with one, takes memory.
pub(in crate::db) fn look_at_files(fs: &dyn Fs, dir: &Path, files: &ByNumber) -> Result<Folder> {
    let mut folder = Folder::default();
    let listed = fs.visit(dir, &mut |name, len| {
        let FileKind::Table(number) = classify(name) else {
            let name = name.to_owned();
            folder.others.push(DirEntry { name, len });
            return;
        };
        if let Some(file) = files.get(number)
            && name == table_name(number)
        {
            folder.found += 1;
            if len != file.size() {
                folder.wrong.insert(number, len);
            }
        }
    });
    listed.map_err(|e| Error::io("list", dir, e))?;
    Ok(folder)
}

impl Folder {
    /// Every table of the tree is there in its full length.
    pub(in crate::db) fn check(&self, fs: &dyn Fs, dir: &Path, files: &ByNumber) -> Result<()> {
        if self.found == files.len() && self.wrong.is_empty() {
            return Ok(());
        }
        files
            .iter()
            .try_for_each(|file| self.check_file(fs, dir, file))
    }

    /// A table is there in its full length.
    fn check_file(&self, fs: &dyn Fs, dir: &Path, file: &FileMeta) -> Result<()> {
        let path = dir.join(table_name(file.number()));
        if let Some(&len) = self.wrong.get(&file.number()) {
            let size = file.size();
            let what = format!("the table is {len} bytes long, the manifest says {size}");
            return Err(Error::corruption(path, len.min(size), what));
        }
        match fs
            .exists(&path)
            .map_err(|e| Error::io("look for", &path, e))?
        {
            true => Ok(()),
            false => {
                let what = "the manifest names this table, but it is missing";
                Err(Error::corruption(path, 0, what))
            }
        }
    }
}
