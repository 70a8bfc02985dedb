//! What the files in a database's folder are, by their names (docs/format.md, "Files of a
//! database"), and whether its tables are all there. Changes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use super::hints::HINTS;
use super::warm::WARM;
use crate::error::{Error, Result};
use crate::fs::{DirEntry, Fs};
use crate::table::table_name;
use crate::version::{ByNumber, FileMeta, number_in};

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

/// What a file of a database's folder is. What is not named exactly as the engine names its files
/// is not the engine's.
pub(in crate::db) fn classify(name: &str) -> FileKind {
    match number_in(name) {
        Some(_) if name.starts_with('M') => FileKind::Manifest,
        Some(number) if name.ends_with(".sst") => FileKind::Table(number),
        Some(number) => FileKind::Log(number),
        None if name == HINTS || name == WARM => FileKind::Hints,
        None if TEMPORARY.contains(&name) => FileKind::Temporary,
        None => FileKind::Other,
    }
}

/// Files that are replaced, or measured with, and are of no use when they are found.
const TEMPORARY: [&str; 4] = ["CURRENT.tmp", "HINTS.tmp", "WARM.tmp", "DEVICE.tmp"];

/// Files that are removed between two looks into the folder: with names of 32 bytes, 64 KiB.
const ORPHANS_AT_ONCE: usize = 1024;

/// Removes what an earlier run began and no version holds; `files` are those that one does, and
/// `manifest` is in use.
pub(in crate::db) fn remove_orphans(
    fs: &dyn Fs,
    dir: &Path,
    files: &ByNumber,
    manifest: Option<&str>,
) -> Result<()> {
    let in_use = manifest.and_then(number_in);
    let is_orphan = |name: &str| match classify(name) {
        FileKind::Table(number) => files.get(number).is_none(),
        FileKind::Manifest => number_in(name) != in_use,
        FileKind::Temporary => true,
        FileKind::Log(_) | FileKind::Hints | FileKind::Other => false,
    };
    // Some at a time: nobody knows how many there are.
    loop {
        let mut orphans = Vec::new();
        let listed = fs.visit(dir, &mut |name, _| {
            if orphans.len() < ORPHANS_AT_ONCE && is_orphan(name) {
                orphans.push(dir.join(name));
            }
        });
        listed.map_err(|e| Error::io("list", dir, e))?;
        let mut removed = 0;
        for path in &orphans {
            match fs.remove(path) {
                Ok(()) => removed += 1,
                Err(error) => log::warn!("{}: cannot remove: {error}", path.display()),
            }
        }
        if orphans.len() < ORPHANS_AT_ONCE || removed == 0 {
            return Ok(());
        }
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
        if fs
            .exists(&path)
            .map_err(|e| Error::io("look for", &path, e))?
        {
            Ok(())
        } else {
            let what = "the manifest names this table, but it is missing";
            Err(Error::corruption(path, 0, what))
        }
    }
}
