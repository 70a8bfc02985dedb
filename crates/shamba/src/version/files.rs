//! The two logs of a manifest, their names and their beginnings: `MANIFEST-NNNNNN` holds the edits,
//! and `MARKS-NNNNNN` how far the first is durable. Bytes: docs/format.md, "Manifest".

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::edit::{EditPart, VersionEdit};
use super::set::TreeState;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::wal::{
    LOG_HEADER, LogInfo, LogStart, LogWriter, NeededLog, RECORD_HEADER, RecoveryMode, recover_logs,
};

/// About how long the records of a long edit are, in bytes: so much memory writing and reading one
/// takes. With half of it a snapshot takes twice as many headers of 28 bytes, and with double of it
/// the part of a small budget that an open passes it by is twice as large.
pub(super) const RECORD_BYTES: usize = 64 << 10;

/// A manifest's own two logs.
#[derive(Debug)]
pub(super) struct ManifestFiles {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) log: LogWriter,
    /// How far `log` is durable.
    pub(super) marks: LogWriter,
}

/// The name of a manifest's marks.
pub(super) fn marks_name(number: u64) -> String {
    format!("MARKS-{number:06}")
}

/// The name of a manifest.
pub(super) fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// The payload of a mark, in bytes.
const MARK: usize = 8;

/// Whether a file, in a folder without `CURRENT`, is a manifest that was in use or its marks:
/// longer than an open leaves it that was cut off before it made the folder a database.
pub(crate) fn was_in_use(name: &str, len: u64) -> bool {
    let Some(number) = number_in(name) else {
        return false;
    };
    if name == marks_name(number) {
        return len > (LOG_HEADER + RECORD_HEADER + MARK) as u64;
    }
    if name != manifest_name(number) {
        return false;
    }
    let begun = TreeState {
        next_file: number.saturating_add(1),
        ..TreeState::default()
    };
    let mut left = LOG_HEADER as u64;
    let Ok(()) = begun.encode_parts(RECORD_BYTES, &mut |part| {
        left += (RECORD_HEADER + part.len()) as u64;
        Ok::<_, Infallible>(())
    });
    len > left
}

/// Numbers are below this. No database makes so many files; a file of another's making may have any
/// number in its name.
const MOST_FILES: u64 = 1 << 62;

/// Whether the next file may have a number above this one, so that there is no end to them.
pub(super) fn is_plausible(number: u64) -> bool {
    number < MOST_FILES / 2
}

/// The number in the name of a manifest, its marks, a table or a log, written as such names are.
pub(crate) fn number_in(name: &str) -> Option<u64> {
    let (before, after) = match name.split_once('-') {
        Some(("MANIFEST" | "MARKS", number)) => (number, None),
        Some(_) => return None,
        None => {
            let (number, kind) = name.split_once('.')?;
            (number, Some(kind))
        }
    };
    if !matches!(after, None | Some("sst" | "wal")) {
        return None;
    }
    let number = before.parse().ok().filter(|number| *number < MOST_FILES)?;
    (before == format!("{number:06}")).then_some(number)
}

impl ManifestFiles {
    /// Notes how far the log is durable. Where there is no room for it the next one says it as
    /// well.
    pub(super) fn mark(&mut self) -> Result<()> {
        let before = self.marks.len();
        let Err(error) = self.try_mark() else {
            return Ok(());
        };
        // An error too where the log is stopped.
        self.marks.cut_back(before)?;
        log::warn!("a mark of the manifest is left to the next: {error}");
        Ok(())
    }

    fn try_mark(&mut self) -> Result<()> {
        let synced = self.log.synced().to_le_bytes();
        self.marks.append(0, &[&synced])?;
        self.marks.flush()
    }

    /// Ends the log and its marks, durably.
    pub(super) fn seal(&mut self) -> Result<()> {
        self.log.seal()?;
        self.marks.seal()
    }
}

/// Up to where a manifest was durable, as far as its marks are there and sound.
pub(super) fn last_mark(fs: &dyn Fs, dir: &Path, info: LogInfo) -> Result<u64> {
    let path = dir.join(marks_name(info.number));
    let exists = fs
        .exists(&path)
        .map_err(|e| Error::io("look for", &path, e))?;
    if !exists {
        log::warn!(
            "{} is missing; it says how long the manifest was",
            path.display()
        );
        return Ok(0);
    }
    let mut last = 0;
    // Each mark holds whatever became of the others; those of another manifest say nothing of this
    // one.
    let marks = NeededLog {
        path,
        info: Some(info),
    };
    recover_logs(fs, vec![marks], RecoveryMode::SkipDamaged, &mut |record| {
        if let Ok(synced) = record.payload.try_into() {
            last = last.max(u64::from_le_bytes(synced));
        }
        Ok(())
    })?;
    Ok(last)
}

/// Appends an edit, in as many records as it takes.
pub(super) fn append(log: &mut LogWriter, edit: &VersionEdit) -> Result<()> {
    edit.encode_parts(RECORD_BYTES, EditPart::Last, &mut |part| {
        log.append(0, &[part]).map(drop)
    })
}

/// Writes a log that starts with a snapshot, durably with its mark; leaves nothing when that fails.
pub(super) fn begin(
    fs: &dyn Fs,
    dir: &Path,
    number: u64,
    state: &TreeState,
) -> Result<ManifestFiles> {
    begin_files(fs, dir, number, state).inspect_err(|_| remove_files(fs, dir, number))
}

fn begin_files(fs: &dyn Fs, dir: &Path, number: u64, state: &TreeState) -> Result<ManifestFiles> {
    let name = manifest_name(number);
    let start = LogStart {
        buffer: 4 << 10,
        number,
        base: 0,
        synced: 0,
        seed: seed(),
    };
    let mut log = LogWriter::create(fs, &dir.join(&name), start)?;
    state.encode_parts(RECORD_BYTES, &mut |part| log.append(0, &[part]).map(drop))?;
    log.sync()?;
    let mut files = ManifestFiles {
        number,
        name,
        log,
        marks: LogWriter::create(fs, &dir.join(marks_name(number)), start)?,
    };
    files.try_mark()?;
    files.marks.sync()?;
    Ok(files)
}

/// Anything that differs between databases, also between one and its successor in its place.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_nanos());
    RandomState::new().hash_one((now, std::process::id()))
}

/// Removes the logs of a manifest that is not in use.
pub(super) fn remove_files(fs: &dyn Fs, dir: &Path, number: u64) {
    remove(fs, &dir.join(manifest_name(number)));
    remove(fs, &dir.join(marks_name(number)));
}

/// Removes a file nothing needs; what stays behind is an orphan.
pub(super) fn remove(fs: &dyn Fs, path: &Path) {
    if let Err(error) = fs.remove(path) {
        log::debug!("cannot remove {}: {error}", path.display());
    }
}
