//! The manifest: the log of version edits, which `CURRENT` names (`super::current`).
//!
//! Protocol: [`Manifest::read`], which looks without writing, and [`Manifest::begin`], then
//! [`Manifest::log_edit`] for each change, before anyone acts on it, and [`Manifest::seal`] at
//! closing. One thread at a time. The manifest holds the tree's state, so it can begin a new log
//! with a snapshot: at every open, and when the log has outgrown the state. Bytes: docs/format.md,
//! "Manifest".
//!
//! An edit counts once it is synced. A *mark* in a second log says so then: how far the first is
//! durable. So an edit that is damaged or gone, even when the manifest was cut off exactly where a
//! record ends, is told from one that was never written.
//!
//! After an error of `log_edit` that leaves the manifest [stopped](Manifest::is_stopped) nobody
//! knows whether the edit will be there after a restart. So no file it names may be removed,
//! neither those it adds nor those it drops, and the manifest takes no more edits. After any other
//! error the edit is not there: there was no room for it, say, and it can be tried again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::by_number::ByNumber;
use super::current::{CurrentManifest, NotSwitched, read_current, switch};
use super::edit::{EditPart, VersionEdit};
use super::files::{
    ManifestFiles, RECORD_BYTES, append, begin, is_plausible, last_mark, marks_name, number_in,
    remove, remove_files,
};
use super::obsolete::Obsolete;
use super::replay::{Replay, Wrong};
use super::set::TreeState;
use super::{Inconsistent, Version};
use crate::error::{Error, Result, is_out_of_files};
use crate::fs::{Access, Fs};
use crate::wal::{LogWriter, NeededLog, RecoveryMode, recover_logs};

/// A log is begun anew when it is longer than this and four times its first snapshot.
const ROLL_BYTES: u64 = 1 << 20;

/// What a manifest says.
#[derive(Debug)]
pub(crate) struct FoundManifest {
    /// The tree.
    pub(crate) state: TreeState,
    /// Its files.
    pub(crate) files: ByNumber,
    /// The manifest's name.
    pub(crate) name: String,
}

/// The manifest in use, and the state it describes.
#[derive(Debug)]
pub(crate) struct Manifest {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// None of one that is only looked at.
    files: Option<ManifestFiles>,
    state: TreeState,
    roll_at: u64,
    /// How often in a row, and why at last, a new log could not be begun.
    failed_rolls: Option<(u64, Error)>,
    /// The number of the manifest before, while `CURRENT` may name that one again after a power
    /// failure: the folder is yet to be synced. The two say the same.
    replaced: Option<u64>,
    obsolete: Arc<Obsolete>,
    failure: Option<Error>,
}

/// What became of an edit.
enum AppendResult {
    Yes,
    /// It is not there, and can be tried again.
    No(Error),
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
        found: Option<(TreeState, String)>,
        obsolete: &Arc<Obsolete>,
    ) -> Result<(Manifest, TreeState)> {
        let (mut state, old) = match found {
            Some((state, name)) => (state, Some(name)),
            None => (TreeState::default(), None),
        };
        // A file that was begun and never named by an edit keeps its number to itself.
        let mut next = state.next_file;
        let listed = fs.visit(dir, &mut |name, _| {
            let number = number_in(name).filter(|number| is_plausible(*number));
            next = next.max(number.map_or(0, |number| number.saturating_add(1)));
        });
        listed.map_err(|e| Error::io("list", dir, e))?;
        state.next_file = next;
        // Written whole, with its snapshot and mark durable, before `CURRENT` names it.
        let number = state.next_file;
        state.next_file = number.saturating_add(1);
        let files = begin(&**fs, dir, number, &state)?;
        switch(&**fs, dir, &files).map_err(|why| {
            if matches!(why, NotSwitched::Untouched(_)) {
                remove_files(&**fs, dir, number);
            }
            Error::from(why)
        })?;
        // Nobody reads the old one any more.
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
            files: Some(files),
            failed_rolls: None,
            replaced: None,
            state: state.clone(),
            obsolete: Arc::clone(obsolete),
            failure: None,
        };
        Ok((manifest, state))
    }

    /// The manifest of a database that is only looked at: holds the state, whose files are charged
    /// to `account`, and takes no edits.
    pub(crate) fn of_state(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        state: TreeState,
        account: &Arc<Obsolete>,
    ) -> Manifest {
        Manifest {
            fs: Arc::clone(fs),
            dir: dir.to_path_buf(),
            files: None,
            state,
            roll_at: u64::MAX,
            failed_rolls: None,
            replaced: None,
            obsolete: Arc::clone(account),
            failure: None,
        }
    }

    /// What changes when a writer goes on: the manifest's name, and how long it is. `None` when
    /// that cannot be found out.
    pub(crate) fn mark_of_change(fs: &dyn Fs, dir: &Path) -> Option<(String, u64)> {
        let name = read_current(fs, dir).ok()?.name;
        let len = fs.open(&dir.join(&name), Access::Buffered).ok()?.len();
        Some((name, len))
    }

    /// The files that nobody needs any more, and what the others are charged.
    pub(crate) fn obsolete(&self) -> &Arc<Obsolete> {
        &self.obsolete
    }

    /// Reads the state of a folder and the name of its manifest, and changes nothing. Its files are
    /// charged to `account`.
    ///
    /// # Errors
    /// `Corruption` when `CURRENT` is missing or damaged, when the log it names is missing, has a
    /// hole, ends before its marks say, or describes an impossible tree; `UnsupportedFormat`;
    /// `UnknownFeatures`; `Io`; `BudgetTooSmall`.
    pub(crate) fn read(fs: &dyn Fs, dir: &Path, account: &Arc<Obsolete>) -> Result<FoundManifest> {
        let CurrentManifest { name, info } = read_current(fs, dir)?;
        let path = dir.join(&name);
        let exists = fs
            .exists(&path)
            .map_err(|e| Error::io("look for", &path, e))?;
        if !exists {
            let what = "CURRENT names this manifest, but it is missing";
            return Err(Error::corruption(path, 0, what));
        }
        // First: a writer beside us may go on while the log is read.
        let durable = last_mark(fs, dir, info)?;
        let mut replay = Replay::new(RECORD_BYTES, account);
        let mut part = EditPart::Last;
        let mut records = 0u64;
        let mode = RecoveryMode::TolerateTornTail;
        let log = NeededLog {
            path: path.clone(),
            info: Some(info),
        };
        let read = recover_logs(fs, vec![log], mode, &mut |record| {
            // The log starts at position 0, so positions are offsets.
            let at = record.position;
            part = replay.take(record.payload).map_err(|wrong| match wrong {
                Wrong::Edit(e) => e.into_error(&path, at),
                Wrong::State(e) => inconsistent(&path, at, e),
            })?;
            if !replay.formatted {
                let what = "a manifest starts with its format";
                return Err(Error::corruption(&path, at, what));
            }
            records += 1;
            Ok(())
        })?;
        let ends = |what: String| Err(Error::corruption(&path, read.end, what));
        if records == 0 {
            let what = "the manifest holds no edit";
            return Err(Error::corruption(path, 0, what));
        }
        if replay.edits == 0 {
            return ends("the manifest ends within its snapshot".to_owned());
        }
        if read.end < durable {
            return ends(format!(
                "the manifest ends here, but was durable up to byte {durable}"
            ));
        }
        // A crash leaves that, but not where the end was durable.
        if part == EditPart::More && read.end == durable {
            return ends("the manifest ends within an edit".to_owned());
        }
        let (state, files) = replay.finish()?;
        for keyspace in state.keyspaces.values() {
            // No number appears twice: files were kept by number.
            let checked = keyspace.version.check_places();
            checked.map_err(|e| inconsistent(&path, 0, e))?;
        }
        Ok(FoundManifest { state, files, name })
    }

    /// Writes the manifest of a new folder that has the tables of a state and no logs, for a
    /// checkpoint. The folder's other files are durable before.
    pub(crate) fn write_new(fs: &dyn Fs, dir: &Path, mut state: TreeState) -> Result<()> {
        state.forget_logs();
        let number = state.next_file;
        state.next_file = number.saturating_add(1);
        let mut files = begin(fs, dir, number, &state)?;
        files.seal()?;
        switch(fs, dir, &files).map_err(Error::from)
    }

    /// Logs an edit and makes it durable; the state is then the one after it, and files it drops
    /// are marked obsolete. `next_file` gives the number of a new log, if one is begun.
    ///
    /// # Errors
    /// `Corruption` when the edit contradicts the state: nothing is written then. `Io` otherwise;
    /// the module's words say what that means, and [`Manifest::is_stopped`] which it is.
    pub(crate) fn log_edit(
        &mut self,
        edit: &VersionEdit,
        next_file: impl FnOnce() -> u64,
    ) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let Some(files) = &self.files else {
            return Err(Error::ReadOnly);
        };
        let change = self.state.after(edit);
        let change = change.map_err(|e| inconsistent(files.log.path(), files.log.len(), e))?;
        let added = edit.keyspaces.iter().flat_map(|change| &change.adds);
        let bytes = added.map(|added| added.file.memory()).sum();
        self.obsolete.charge(bytes);
        // Set for the time of the work, so that a panic in it counts as a failure too.
        self.failure = Some(Error::Panicked {
            op: "logging a version edit",
        });
        let logged = self.write(edit, next_file);
        // The edit is durable whatever becomes of its mark; that one fails the next edit.
        let marked = match (&logged, &mut self.files) {
            (Ok(AppendResult::Yes), Some(files)) => files.mark(),
            (Ok(_), _) => Ok(()),
            (Err(error), _) => Err(error.clone()),
        };
        self.failure = marked.err();
        if let AppendResult::No(error) = logged? {
            self.obsolete.release(bytes);
            return Err(error);
        }
        for file in self.state.files_dropped_by(edit) {
            file.mark_obsolete(&self.obsolete);
        }
        self.state.set(change);
        Ok(())
    }

    fn write(
        &mut self,
        edit: &VersionEdit,
        next_file: impl FnOnce() -> u64,
    ) -> Result<AppendResult> {
        if self.len() > self.roll_at {
            self.roll(next_file())?;
        }
        if let Some(old) = self.replaced {
            match self.fs.sync_dir(&self.dir) {
                Ok(()) => remove_files(&*self.fs, &self.dir, old),
                Err(e) if is_out_of_files(&e) => {
                    return Ok(AppendResult::No(Error::io("sync", &self.dir, e)));
                }
                Err(e) => return Err(Error::io("sync", &self.dir, e)),
            }
            self.replaced = None;
        }
        let Some(ManifestFiles { log, .. }) = &mut self.files else {
            return Ok(AppendResult::No(Error::ReadOnly));
        };
        let before = log.len();
        if let Err(error) = append(log, edit).and_then(|()| log.flush()) {
            // An error too where the log is stopped.
            log.cut_back(before)?;
            return Ok(AppendResult::No(error));
        }
        log.sync().map(|()| AppendResult::Yes)
    }

    /// Whether no edit is taken any more, because nobody knows what became of one.
    pub(crate) fn is_stopped(&self) -> bool {
        self.failure.is_some()
    }

    /// Begins a new log. When that fails before `CURRENT` is touched, the old one goes on, which
    /// holds all that the new one would, and it is tried again once the old one is a quarter
    /// longer.
    fn roll(&mut self, number: u64) -> Result<()> {
        self.state.next_file = self.state.next_file.max(number.saturating_add(1));
        let begun =
            begin(&*self.fs, &self.dir, number, &self.state).and_then(|files| {
                match switch(&*self.fs, &self.dir, &files) {
                    Ok(()) => Ok(Ok((files, false))),
                    Err(NotSwitched::Unsynced(_)) => Ok(Ok((files, true))),
                    Err(NotSwitched::Untouched(error)) => Err(error),
                    Err(NotSwitched::Unknown(error)) => Ok(Err(error)),
                }
            });
        match begun {
            Ok(begun) => {
                let (files, unsynced) = begun?;
                self.roll_at = roll_at(&files.log);
                self.failed_rolls = None;
                let old = self.files.replace(files).map(|old| old.number);
                if unsynced {
                    self.replaced = old;
                } else if let Some(old) = old {
                    remove_files(&*self.fs, &self.dir, old);
                }
            }
            Err(error) => {
                log::warn!("cannot begin a new manifest, going on with the old one: {error}");
                let len = self.len();
                self.roll_at = len.saturating_add((len / 4).max(ROLL_BYTES));
                let before = self.failed_rolls.as_ref().map_or(0, |(times, _)| *times);
                self.failed_rolls = Some((before + 1, error));
                remove_files(&*self.fs, &self.dir, number);
            }
        }
        Ok(())
    }

    /// Ends the log, at closing: damage anywhere in it is noticed from now on.
    pub(crate) fn seal(&mut self) -> Result<()> {
        self.files.as_mut().map_or(Ok(()), ManifestFiles::seal)
    }

    /// Takes no more edits: the folder may be another's from now on.
    pub(crate) fn end(&mut self) {
        self.failure.get_or_insert(Error::Closed);
    }

    /// Bytes of the log in use.
    pub(crate) fn len(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.log.len())
    }

    /// How often in a row, and why at last, a new log could not be begun in the place of one that
    /// has grown too long; `None` once it could.
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

    /// The number of the log in use.
    pub(crate) fn number(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.number)
    }

    /// The name of the log in use.
    #[cfg(test)]
    pub(crate) fn file_name(&self) -> &str {
        self.files.as_ref().map_or("", |files| &files.name)
    }
}

fn inconsistent(path: &Path, offset: u64, found: Inconsistent) -> Error {
    Error::corruption(path, offset, found.what)
}

fn roll_at(log: &LogWriter) -> u64 {
    log.len().saturating_mul(4).saturating_add(ROLL_BYTES)
}
