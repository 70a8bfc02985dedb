//! The manifest: the log of version edits, and `CURRENT`, which names it.
//!
//! Protocol: [`Manifest::read`], which looks without writing, and [`Manifest::begin`], then
//! [`Manifest::log_edit`] for each change, before anyone acts on it, and [`Manifest::seal`] at
//! closing. One thread at a time. The manifest holds the tree's state, so it can begin a new log
//! with a snapshot: at every open, and when the log has outgrown the state. Bytes: docs/format.md,
//! "Manifest".
//!
//! This file is long because the protocol of two logs and `CURRENT` is one: what reading trusts is
//! what writing did just before.
//!
//! An edit counts once it is synced. A *mark* in a second log says so then: how far the first is
//! durable. So an edit that is damaged or gone, even when the manifest was cut off exactly where a
//! record ends, is told from one that was never written.
//!
//! After an error of `log_edit` nobody knows whether the edit will be there after a restart. So no
//! file it names may be removed, neither those it adds nor those it drops, and the manifest takes
//! no more edits.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::by_number::ByNumber;
use super::edit::{FORMAT, Part, VersionEdit};
use super::file_meta::Obsolete;
use super::set::TreeState;
use super::{Inconsistent, Version};
use crate::base::checksum::checksum;
use crate::error::{Error, Result};
use crate::fs::{Access, BlockKind, Fs, Purpose, ReadTag};
use crate::wal::{LOG_HEADER, LogStart, LogWriter, RECORD_HEADER, RecoveryMode, recover_logs};

/// The file that names the manifest in use.
pub(crate) const CURRENT: &str = "CURRENT";

const CURRENT_TMP: &str = "CURRENT.tmp";

/// A log is begun anew when it is longer than this and four times its first snapshot.
const ROLL_BYTES: u64 = 1 << 20;

/// About how long the records of a long edit are, in bytes: so much memory writing and reading one
/// takes. With half of it a snapshot takes twice as many headers of 28 bytes, and with double of it
/// the part of a small budget that an open passes it by is twice as large.
const RECORD_BYTES: usize = 64 << 10;

/// `CURRENT` is one line; what is longer is something else.
const MAX_CURRENT: u64 = 256;

/// What opening found.
pub(crate) type RecoveredState = TreeState;

/// The manifest in use, and the state it describes.
#[derive(Debug)]
pub(crate) struct Manifest {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    files: Files,
    state: TreeState,
    roll_at: u64,
    /// How often in a row, and why at last, a new log could not be begun.
    failed_rolls: Option<(u64, Error)>,
    obsolete: Arc<Obsolete>,
    failure: Option<Error>,
}

/// A manifest's own two logs.
#[derive(Debug)]
struct Files {
    number: u64,
    name: String,
    log: LogWriter,
    /// How far `log` is durable.
    marks: LogWriter,
}

/// The name of a manifest's marks.
fn marks_name(number: u64) -> String {
    format!("MARKS-{number:06}")
}

/// The name of a manifest.
pub(crate) fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// Whether a file, in a folder without `CURRENT`, is of a manifest that was in use: longer than an open
/// leaves it that was cut off before it made the folder a database.
pub(crate) fn was_in_use(name: &str, len: u64) -> bool {
    let Some(number) = number_in(name).filter(|number| name == manifest_name(*number)) else {
        return false;
    };
    let begun = TreeState {
        next_file: number.saturating_add(1),
        ..TreeState::default()
    };
    let mut left = LOG_HEADER as u64;
    let Ok(()) = begun.snapshot().encode_parts(RECORD_BYTES, &mut |part| {
        left += (RECORD_HEADER + part.len()) as u64;
        Ok::<_, Infallible>(())
    });
    len > left
}

/// The number in the name of a manifest, table or log.
fn number_in(name: &str) -> Option<u64> {
    let prefixed = ["MANIFEST-", "MARKS-"];
    let stem = match prefixed.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        Some(number) => number,
        None => name.split_once('.')?.0,
    };
    stem.parse().ok()
}

impl Manifest {
    /// Begins a manifest in a folder: with the state and in the place of the one that
    /// [`Manifest::read`] found, or the folder's first. Files that edits drop from now on go to
    /// `obsolete`. Every name in the folder is durable afterwards.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn begin(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        found: Option<(RecoveredState, String)>,
        obsolete: &Arc<Obsolete>,
    ) -> Result<(Manifest, RecoveredState)> {
        let (mut state, old) = match found {
            Some((state, name)) => (state, Some(name)),
            None => (TreeState::default(), None),
        };
        // A file that was begun and never named by an edit keeps its number to itself.
        for entry in fs.list(dir).map_err(|e| Error::io("list", dir, e))? {
            let next = number_in(&entry.name).map_or(0, |number| number.saturating_add(1));
            state.next_file = state.next_file.max(next);
        }
        let number = state.next_file;
        state.next_file = number.saturating_add(1);
        let files = begin(&**fs, dir, number, &state.snapshot())?;
        switch(&**fs, dir, &files.name)?;
        if let Some(old) = old {
            remove(&**fs, &dir.join(&old));
            if let Some(number) = number_in(&old) {
                remove(&**fs, &dir.join(marks_name(number)));
            }
        }
        let manifest = Manifest {
            fs: Arc::clone(fs),
            dir: dir.to_path_buf(),
            roll_at: roll_at(&files.log),
            files,
            failed_rolls: None,
            state: state.clone(),
            obsolete: Arc::clone(obsolete),
            failure: None,
        };
        Ok((manifest, state))
    }

    /// Reads the state of a folder and the name of its manifest, and changes nothing.
    ///
    /// # Errors
    /// `Corruption` when `CURRENT` is missing or damaged, when the log it names is missing, has a
    /// hole, ends before its marks say, or describes an impossible tree; `UnsupportedFormat`; `Io`.
    pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<(RecoveredState, String)> {
        let name = read_current(fs, dir)?;
        let path = dir.join(&name);
        let exists = fs
            .exists(&path)
            .map_err(|e| Error::io("look for", &path, e))?;
        if !exists {
            let what = "CURRENT names this manifest, but it is missing";
            return Err(Error::corruption(path, 0, what));
        }
        let mut state = TreeState::default();
        let mut files = ByNumber::default();
        let mut edit = VersionEdit::default();
        let mut part = Part::Last;
        let (mut records, mut edits) = (0u64, 0u64);
        let mode = RecoveryMode::TolerateTornTail;
        let read = recover_logs(fs, std::slice::from_ref(&path), mode, &mut |record| {
            // The log starts at position 0, so positions are offsets.
            let at = record.position;
            part = edit
                .decode_part(record.payload, |number| files.get(number).cloned())
                .map_err(|e| e.into_error(&path, at))?;
            if records == 0 && edit.format.is_none() {
                let what = "a manifest starts with its format";
                return Err(Error::corruption(&path, at, what));
            }
            records += 1;
            if part == Part::Last {
                let whole = std::mem::take(&mut edit);
                let dropped = state.files_dropped_by(&whole);
                state
                    .apply(&whole)
                    .and_then(|()| files.follow(&whole, &dropped))
                    .map_err(|e| inconsistent(&path, at, e))?;
                edits += 1;
            }
            Ok(())
        })?;
        let ends = |what: String| Err(Error::corruption(&path, read.end, what));
        if records == 0 {
            let what = "the manifest holds no edit";
            return Err(Error::corruption(path, 0, what));
        }
        if edits == 0 {
            return ends("the manifest ends within its snapshot".to_owned());
        }
        let durable = number_in(&name).map_or(Ok(0), |number| last_mark(fs, dir, number))?;
        if read.end < durable {
            return ends(format!(
                "the manifest ends here, but was durable up to byte {durable}"
            ));
        }
        // A crash leaves that, but not where the end was durable.
        if part == Part::More && read.end == durable {
            return ends("the manifest ends within an edit".to_owned());
        }
        for keyspace in state.keyspaces.values() {
            let checked = keyspace.version.check();
            checked.map_err(|e| inconsistent(&path, 0, e))?;
        }
        Ok((state, name))
    }

    /// Writes the manifest of a new folder that has the tables of a state and no logs, for a checkpoint.
    /// The folder's other files are durable before.
    pub(crate) fn write_new(fs: &dyn Fs, dir: &Path, mut state: TreeState) -> Result<()> {
        state.forget_logs();
        let number = state.next_file;
        state.next_file = number.saturating_add(1);
        let mut files = begin(fs, dir, number, &state.snapshot())?;
        files.seal()?;
        switch(fs, dir, &files.name)
    }

    /// Logs an edit and makes it durable; the state is then the one after it, and files it drops
    /// are marked obsolete. `next_file` gives the number of a new log, if one is begun.
    ///
    /// # Errors
    /// `Corruption` when the edit contradicts the state: nothing is written then. `Io` otherwise;
    /// the module's words say what that means.
    pub(crate) fn log_edit(
        &mut self,
        edit: &VersionEdit,
        next_file: impl FnOnce() -> u64,
    ) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let change = self.state.after(edit);
        let change =
            change.map_err(|e| inconsistent(self.files.log.path(), self.files.log.len(), e))?;
        // Set for the time of the work, so that a panic in it counts as a failure too.
        self.failure = Some(Error::Panicked {
            op: "logging a version edit",
        });
        let written = self.write(edit, next_file);
        // The edit is durable whatever becomes of its mark; that one fails the next edit.
        let marked = written.clone().and_then(|()| self.files.mark());
        self.failure = marked.err();
        written?;
        for file in self.state.files_dropped_by(edit) {
            file.mark_obsolete(&self.obsolete);
        }
        self.state.set(change);
        Ok(())
    }

    fn write(&mut self, edit: &VersionEdit, next_file: impl FnOnce() -> u64) -> Result<()> {
        if self.files.log.len() > self.roll_at {
            self.roll(next_file())?;
        }
        append(&mut self.files.log, edit)?;
        self.files.log.sync()
    }

    /// Begins a new log. When that fails before `CURRENT` is touched, the old one goes on, which holds
    /// all that the new one would, and it is tried again once the old one is a quarter longer.
    fn roll(&mut self, number: u64) -> Result<()> {
        let mut snapshot = self.state.snapshot();
        snapshot.next_file = Some(self.state.next_file.max(number.saturating_add(1)));
        match begin(&*self.fs, &self.dir, number, &snapshot) {
            Ok(files) => {
                switch(&*self.fs, &self.dir, &files.name)?;
                let old = std::mem::replace(&mut self.files, files);
                self.roll_at = roll_at(&self.files.log);
                self.failed_rolls = None;
                self.remove_files(old.number);
            }
            Err(error) => {
                log::warn!("cannot begin a new manifest, going on with the old one: {error}");
                let len = self.files.log.len();
                self.roll_at = len.saturating_add((len / 4).max(ROLL_BYTES));
                let before = self.failed_rolls.as_ref().map_or(0, |(times, _)| *times);
                self.failed_rolls = Some((before + 1, error));
                self.remove_files(number);
            }
        }
        Ok(())
    }

    fn remove_files(&self, number: u64) {
        remove(&*self.fs, &self.dir.join(manifest_name(number)));
        remove(&*self.fs, &self.dir.join(marks_name(number)));
    }

    /// Ends the log, at closing: damage anywhere in it is noticed from now on.
    pub(crate) fn seal(&mut self) -> Result<()> {
        self.files.seal()
    }

    /// Bytes of the log in use.
    pub(crate) fn len(&self) -> u64 {
        self.files.log.len()
    }

    /// How often in a row, and why at last, a new log could not be begun in the place of one that has
    /// grown too long; `None` once it could.
    pub(crate) fn failed_rolls(&self) -> Option<&(u64, Error)> {
        self.failed_rolls.as_ref()
    }

    /// The state after every edit logged.
    pub(crate) fn state(&self) -> &TreeState {
        &self.state
    }

    /// A keyspace's version after every edit logged.
    pub(crate) fn version(&self, keyspace: u32) -> Option<Arc<Version>> {
        let found = self.state.keyspaces.get(&keyspace)?;
        Some(Arc::clone(&found.version))
    }

    /// Whether a file is of the manifest in use; every other manifest in the folder is an orphan.
    pub(crate) fn owns(&self, name: &str) -> bool {
        name == self.files.name || name == marks_name(self.files.number)
    }

    /// The number of the log in use.
    pub(crate) fn number(&self) -> u64 {
        self.files.number
    }

    /// The name of the log in use.
    #[cfg(test)]
    pub(crate) fn file_name(&self) -> &str {
        &self.files.name
    }
}

fn inconsistent(path: &Path, offset: u64, found: Inconsistent) -> Error {
    Error::corruption(path, offset, found.what)
}

fn roll_at(log: &LogWriter) -> u64 {
    log.len().saturating_mul(4).saturating_add(ROLL_BYTES)
}

impl Files {
    /// Notes how far the log is durable.
    fn mark(&mut self) -> Result<()> {
        let synced = self.log.synced().to_le_bytes();
        self.marks.append(0, &[&synced])?;
        self.marks.flush()
    }

    /// Ends the log and its marks, durably.
    fn seal(&mut self) -> Result<()> {
        self.log.seal()?;
        self.marks.seal()
    }
}

/// Up to where a manifest was durable, as far as its marks are there and sound.
fn last_mark(fs: &dyn Fs, dir: &Path, number: u64) -> Result<u64> {
    let path = dir.join(marks_name(number));
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
    // Each mark holds whatever became of the others.
    recover_logs(fs, &[path], RecoveryMode::SkipDamaged, &mut |record| {
        if let Ok(synced) = record.payload.try_into()
            && record.log == number
        {
            last = last.max(u64::from_le_bytes(synced));
        }
        Ok(())
    })?;
    Ok(last)
}

/// Appends an edit, in as many records as it takes.
fn append(log: &mut LogWriter, edit: &VersionEdit) -> Result<()> {
    edit.encode_parts(RECORD_BYTES, &mut |part| log.append(0, &[part]).map(drop))
}

/// Writes a log that starts with a snapshot, durably with its mark.
fn begin(fs: &dyn Fs, dir: &Path, number: u64, snapshot: &VersionEdit) -> Result<Files> {
    let name = manifest_name(number);
    let start = LogStart {
        buffer: 4 << 10,
        number,
        base: 0,
        synced: 0,
        seed: seed(),
    };
    let mut log = LogWriter::create(fs, &dir.join(&name), start)?;
    append(&mut log, snapshot)?;
    log.sync()?;
    let mut files = Files {
        number,
        name,
        log,
        marks: LogWriter::create(fs, &dir.join(marks_name(number)), start)?,
    };
    files.mark()?;
    files.marks.sync()?;
    Ok(files)
}

/// Anything that differs between databases, also between one and its successor in its place.
fn seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

/// Makes `CURRENT` name a manifest.
fn switch(fs: &dyn Fs, dir: &Path, name: &str) -> Result<()> {
    let tmp = dir.join(CURRENT_TMP);
    let path = dir.join(CURRENT);
    let mut file = fs
        .create(&tmp, Access::Buffered)
        .map_err(|e| Error::io("create", &tmp, e))?;
    file.append(current_line(name).as_bytes())
        .map_err(|e| Error::io("write", &tmp, e))?;
    file.sync().map_err(|e| Error::io("sync", &tmp, e))?;
    drop(file);
    fs.rename(&tmp, &path)
        .map_err(|e| Error::io("rename", &tmp, e))?;
    fs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))
}

fn current_line(name: &str) -> String {
    let text = format!("shamba {FORMAT} {name}");
    format!("{text} {:08x}\n", checksum(0, text.as_bytes()))
}

/// The manifest's name from `CURRENT`.
fn read_current(fs: &dyn Fs, dir: &Path) -> Result<String> {
    let path = dir.join(CURRENT);
    let exists = fs
        .exists(&path)
        .map_err(|e| Error::io("look for", &path, e))?;
    if !exists {
        let what = "the file is missing; it names the manifest in use";
        return Err(Error::corruption(path, 0, what));
    }
    let file = fs
        .open(&path, Access::Buffered)
        .map_err(|e| Error::io("open", &path, e))?;
    let corrupt = |what| Err(Error::corruption(&path, 0, what));
    if file.len() > MAX_CURRENT {
        return corrupt("the file is longer than any CURRENT");
    }
    let mut bytes = vec![0; file.len() as usize];
    let tag = ReadTag {
        kind: BlockKind::Log,
        last: None,
        purpose: Purpose::Background,
    };
    file.read_exact_at(&mut bytes, 0, tag)
        .map_err(|e| Error::io("read", &path, e))?;
    let fields = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.strip_suffix('\n'))
        .and_then(|line| line.rsplit_once(' '))
        .filter(|(text, sum)| *sum == format!("{:08x}", checksum(0, text.as_bytes())))
        .and_then(|(text, _)| text.strip_prefix("shamba "))
        .and_then(|text| text.split_once(' '));
    let Some((format, name)) = fields else {
        return corrupt("the line does not match its checksum");
    };
    match format.parse::<u32>() {
        Ok(found) if found != FORMAT => Err(Error::UnsupportedFormat {
            file: path,
            found,
            supported: FORMAT,
        }),
        Ok(_) if number_in(name).is_some_and(|number| name == manifest_name(number)) => {
            Ok(name.to_owned())
        }
        _ => corrupt("the line does not name a manifest"),
    }
}

/// Removes a file nothing needs; what stays behind is an orphan.
fn remove(fs: &dyn Fs, path: &Path) {
    if let Err(error) = fs.remove(path) {
        log::debug!("cannot remove {}: {error}", path.display());
    }
}
