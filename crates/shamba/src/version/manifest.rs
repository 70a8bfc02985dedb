//! The manifest: a log of version edits, and the file `CURRENT` that names it (docs/format.md,
//! "Manifest").
//!
//! [`Manifest`] holds the whole tree's state ([`TreeState`]). `log_edit` checks an edit against
//! it, makes the edit durable and only then takes the new state on. Every open begins a new
//! manifest with one edit that holds everything, and so does one that has grown long. One owner,
//! behind the database's `tree` lock.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FORMAT, TreeState, VersionEdit};
use crate::base::checksum::checksum;
use crate::error::{Error, Result};
use crate::fs::{Access, BlockKind, Fs, Purpose, ReadTag};
use crate::wal::{LogStart, LogWriter, RecoveryMode, recover_logs};

/// The file that names the manifest.
const CURRENT: &str = "CURRENT";

/// A manifest is replaced when it is this long beyond four times its first edit.
const SLACK: u64 = 1 << 20;

/// The log of edits, and the state they add up to.
#[derive(Debug)]
pub(crate) struct Manifest {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    state: TreeState,
    log: LogWriter,
    first_edit: u64,
}

/// The name of a manifest.
fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

impl Manifest {
    /// Recovers the state of the database in `dir`, or starts from nothing where there is none,
    /// and begins a new manifest.
    pub(crate) fn open(fs: &Arc<dyn Fs>, dir: &Path, fresh: bool) -> Result<Manifest> {
        let state = if fresh {
            TreeState::default()
        } else {
            recover(fs, dir)?
        };
        Manifest::begin(fs, dir, state)
    }

    /// Writes a database's state to a folder that has no manifest yet.
    pub(crate) fn write_new(fs: &Arc<dyn Fs>, dir: &Path, state: TreeState) -> Result<()> {
        Manifest::begin(fs, dir, state)?.seal()
    }

    fn begin(fs: &Arc<dyn Fs>, dir: &Path, mut state: TreeState) -> Result<Manifest> {
        let number = state.next_file;
        state.next_file += 1;
        let mut snapshot = state.snapshot();
        snapshot.format = Some(FORMAT);
        let path = dir.join(manifest_name(number));
        let seed = checksum(0, dir.as_os_str().as_encoded_bytes()).into();
        let mut log = LogWriter::create(
            &**fs,
            &path,
            LogStart {
                number,
                base: 0,
                synced: 0,
                seed,
            },
        )?;
        log_durably(&mut log, &snapshot, state.next_file)?;
        let first_edit = log.len();
        fs.sync_dir(dir).map_err(|e| Error::io("sync", dir, e))?;
        set_current(fs, dir, number)?;
        Ok(Manifest {
            fs: fs.clone(),
            dir: dir.to_path_buf(),
            state,
            log,
            first_edit,
        })
    }

    /// The state all edits so far add up to.
    pub(crate) fn state(&self) -> &TreeState {
        &self.state
    }

    /// Applies an edit: checked, durable, then taken on. After an error the state is as it was;
    /// whether the edit is on storage is unknown unless the error was that it does not apply.
    pub(crate) fn log_edit(&mut self, edit: &VersionEdit) -> Result<()> {
        let state = self
            .state
            .apply(edit)
            .map_err(|e| self.inconsistent(&e.to_string()))?;
        if self.log.len() > 4 * self.first_edit + SLACK {
            return self.replace(state);
        }
        log_durably(&mut self.log, edit, state.next_file)?;
        self.state = state;
        Ok(())
    }

    fn inconsistent(&self, what: &str) -> Error {
        Error::corruption(
            self.dir.join(self.file_name()),
            self.log.len(),
            format!("an edit does not apply: {what}"),
        )
    }

    /// Goes on in a new manifest.
    fn replace(&mut self, state: TreeState) -> Result<()> {
        let old = self.dir.join(self.file_name());
        let mut next = Manifest::begin(&self.fs, &self.dir, state)?;
        std::mem::swap(self, &mut next);
        if let Err(error) = self.fs.remove(&old) {
            log::warn!("{}: cannot remove: {error}", old.display());
        }
        Ok(())
    }

    /// The manifest's name in its folder.
    pub(crate) fn file_name(&self) -> String {
        manifest_name(self.log.number())
    }

    /// Takes no more edits.
    pub(crate) fn seal(&mut self) -> Result<()> {
        self.log.seal()
    }
}

/// Logs an edit and syncs. A small record follows that need not be durable itself: it states up to
/// where the log was, so that later damage to the edit is not taken for a torn tail.
fn log_durably(log: &mut LogWriter, edit: &VersionEdit, next_file: u64) -> Result<()> {
    log.append(0, &[&edit.encode()])?;
    log.sync()?;
    let marker = VersionEdit {
        next_file: Some(next_file),
        ..VersionEdit::default()
    };
    log.append(0, &[&marker.encode()])?;
    log.flush()
}

/// Points `CURRENT` at a manifest, atomically.
fn set_current(fs: &Arc<dyn Fs>, dir: &Path, number: u64) -> Result<()> {
    let current = dir.join(CURRENT);
    let temporary = dir.join("CURRENT.tmp");
    let on = |op: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |e: io::Error| Error::io(op, path, e)
    };
    let stated = format!("shamba {FORMAT} {}", manifest_name(number));
    let line = format!("{stated} {:08x}\n", checksum(0, stated.as_bytes()));
    let mut file = fs
        .create(&temporary, Access::Buffered)
        .map_err(on("create", &temporary))?;
    file.append(line.as_bytes())
        .map_err(on("write", &temporary))?;
    file.sync().map_err(on("sync", &temporary))?;
    drop(file);
    fs.rename(&temporary, &current)
        .map_err(on("rename", &current))?;
    fs.sync_dir(dir).map_err(on("sync", dir))
}

/// The manifest that `CURRENT` names.
fn read_current(fs: &Arc<dyn Fs>, dir: &Path) -> Result<PathBuf> {
    let path = dir.join(CURRENT);
    let file = fs
        .open(&path, Access::Buffered)
        .map_err(|e| Error::io("open", &path, e))?;
    let len = usize::try_from(file.len()).unwrap_or(usize::MAX);
    if len > 256 {
        return Err(Error::corruption(
            path,
            256,
            "the file is too long to name a manifest",
        ));
    }
    let mut bytes = vec![0; len];
    let tag = ReadTag {
        kind: BlockKind::Log,
        purpose: Purpose::Background,
    };
    file.read_exact_at(&mut bytes, 0, tag)
        .map_err(|e| Error::io("read", &path, e))?;
    let malformed = |what: &str| Error::corruption(&path, 0, what);
    let text = str::from_utf8(&bytes).map_err(|_| malformed("it is not text"))?;
    let line = text
        .strip_suffix('\n')
        .ok_or_else(|| malformed("its line is cut off"))?;
    let (stated, sum) = line
        .rsplit_once(' ')
        .ok_or_else(|| malformed("it names no manifest"))?;
    if format!("{:08x}", checksum(0, stated.as_bytes())) != sum {
        return Err(malformed("its checksum does not match"));
    }
    let mut words = stated.split(' ');
    let (Some("shamba"), Some(format), Some(name), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(malformed(
            "it does not have the form `shamba FORMAT MANIFEST CHECKSUM`",
        ));
    };
    let found = format
        .parse()
        .map_err(|_| malformed("its format version is no number"))?;
    if found > FORMAT {
        return Err(Error::UnsupportedFormat {
            file: path,
            found,
            supported: FORMAT,
        });
    }
    let manifest = dir.join(name);
    if !name.starts_with("MANIFEST-")
        || !fs
            .exists(&manifest)
            .map_err(|e| Error::io("look for", &manifest, e))?
    {
        return Err(Error::corruption(
            manifest,
            0,
            "CURRENT names this manifest, but it is missing",
        ));
    }
    Ok(manifest)
}

fn recover(fs: &Arc<dyn Fs>, dir: &Path) -> Result<TreeState> {
    let path = read_current(fs, dir)?;
    let mut state = TreeState::default();
    let mut edits = 0u64;
    recover_logs(
        &**fs,
        std::slice::from_ref(&path),
        RecoveryMode::TolerateTornTail,
        &mut |record| {
            let edit = VersionEdit::decode(record.payload)
                .map_err(|e| e.into_error(&path, record.position))?;
            if edits == 0 && edit.format.is_none() {
                return Err(Error::corruption(
                    &path,
                    record.position,
                    "the first edit does not state the format",
                ));
            }
            if let Some(found) = edit.format.filter(|&found| found > FORMAT) {
                return Err(Error::UnsupportedFormat {
                    file: path.clone(),
                    found,
                    supported: FORMAT,
                });
            }
            state = state.apply(&edit).map_err(|e| {
                Error::corruption(
                    &path,
                    record.position,
                    format!("an edit does not apply: {e}"),
                )
            })?;
            edits += 1;
            Ok(())
        },
    )?;
    if edits == 0 {
        return Err(Error::corruption(path, 0, "the manifest holds no edit"));
    }
    let number = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_prefix("MANIFEST-"));
    let number: u64 = number.and_then(|number| number.parse().ok()).unwrap_or(0);
    state.next_file = state.next_file.max(number + 1);
    for (id, keyspace) in &state.keyspaces {
        keyspace
            .version
            .check()
            .map_err(|e| Error::corruption(&path, 0, format!("keyspace {id}: {e}")))?;
    }
    Ok(state)
}
