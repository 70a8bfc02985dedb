//! Checkpoints: a consistent copy of the database in another folder, by hard links. Runs on the
//! caller's thread; writes wait while it flushes, not while it links or copies. When it returns,
//! the copy is durable: first the folder's own name, then the tables and their names, and last
//! `CURRENT`, which makes it a database.
//!
//! The folder's `LOCK` is held meanwhile, so that of two checkpoints to one folder one goes on and
//! the other is refused, and nobody opens what is half made. If a checkpoint fails, it removes the
//! files that it made itself. `LOCK` stays: whoever removes it lets two others lock two files of
//! that name.

use std::io;
use std::path::Path;

use super::DbInner;
use super::files::filenames::{FileKind, LOCK, classify};
use super::open::lock_folder;
use crate::budget::{Reservation, Role, copy_buffer};
use crate::compaction::job::table_path;
use crate::error::{Error, Result};
use crate::fs::{Access, AlignedBuf, BlockKind, Fs, PAGE, Purpose, ReadTag, create_dir_durably};
use crate::version::{CURRENT, FileMeta, Manifest};

/// A checkpoint that is under way, and what it has made.
struct Checkpoint<'a> {
    db: &'a DbInner,
    destination: &'a Path,
    tables: Vec<u64>,
    /// What that list takes.
    listed: Option<Reservation>,
    /// Whether it began what makes the folder a database.
    manifest: bool,
}

/// An error if a folder holds anything but a lock, which a failed checkpoint leaves.
fn check_empty(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let entries = fs.list(dir).map_err(|e| Error::io("list", dir, e))?;
    if entries.iter().all(|entry| entry.name == LOCK) {
        Ok(())
    } else {
        Err(Error::NotEmpty {
            path: dir.to_path_buf(),
        })
    }
}

/// Makes a checkpoint of a database in a folder. See [`Db::checkpoint`](crate::Db::checkpoint).
pub(super) fn checkpoint(db: &DbInner, destination: &Path) -> Result<()> {
    db.shared().check_writable()?;
    let fs = &**db.shared().fs();
    let on = |op: &'static str| move |e: io::Error| Error::io(op, destination, e);
    if fs.exists(destination).map_err(on("look for"))? {
        // Before the lock, which leaves a file.
        check_empty(fs, destination)?;
    }
    create_dir_durably(fs, destination).map_err(on("create"))?;
    let _lock = lock_folder(fs, destination)?;
    // Again: another may have filled it before the lock was had.
    check_empty(fs, destination)?;
    let mut checkpoint = Checkpoint {
        db,
        destination,
        tables: Vec::new(),
        listed: None,
        manifest: false,
    };
    let made = checkpoint.make();
    if made.is_err() {
        checkpoint.remove_partial();
    }
    made
}

impl Checkpoint<'_> {
    fn make(&mut self) -> Result<()> {
        let destination = self.destination;
        let fs = self.db.shared().fs();
        // With writes held off, what is flushed is one moment of all keyspaces.
        let writes = self.db.background().flush_all()?;
        // Holding the state keeps its files on storage.
        let state = self.db.files().tree().manifest.state().clone();
        drop(writes);
        let versions = || state.keyspaces.values().map(|keyspace| &keyspace.version);
        let files = versions().map(|version| version.all_files().count()).sum();
        let budget = self.db.shared().budget();
        let listed = (files * size_of::<u64>()) as u64;
        self.listed = Some(budget.reserve(Role::Tables, listed));
        self.tables.reserve_exact(files);
        for number in versions().flat_map(|version| version.all_files().map(FileMeta::number)) {
            self.link_or_copy(number)?;
        }
        fs.sync_dir(destination)
            .map_err(|e| Error::io("sync", destination, e))?;
        self.manifest = true;
        Manifest::write_new(&**fs, destination, state)
    }

    /// Removes what a checkpoint that failed has made, as far as that can be done: first what makes
    /// the folder a database.
    fn remove_partial(self) {
        let destination = self.destination;
        let fs = self.db.shared().fs();
        let mut paths = Vec::new();
        if self.manifest {
            // Only who holds the lock makes such files, and there were none before.
            let entries = fs.list(destination).unwrap_or_default();
            let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
            names.retain(|name| {
                let kind = classify(name);
                matches!(kind, FileKind::Manifest | FileKind::Temporary) || name == CURRENT
            });
            names.sort_by_key(|name| name != CURRENT);
            paths.extend(names.into_iter().map(|name| destination.join(name)));
        }
        let tables = self.tables.iter();
        let tables = tables.map(|number| table_path(destination, *number));
        for path in paths.into_iter().chain(tables) {
            if let Err(error) = fs.remove(&path) {
                log::warn!("a failed checkpoint leaves {}: {error}", path.display());
            }
        }
    }

    fn link_or_copy(&mut self, number: u64) -> Result<()> {
        use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
        let from = &table_path(self.db.shared().dir(), number);
        let to = &table_path(self.destination, number);
        match self.db.shared().fs().hard_link(from, to) {
            Ok(()) => {
                self.tables.push(number);
                Ok(())
            }
            Err(e) => match e.kind() {
                // A file has room for so many names only (65,000 on ext4), and to a file system
                // without links they are not permitted.
                CrossesDevices | TooManyLinks | Unsupported | PermissionDenied => {
                    self.copy(number, from, to)
                }
                _ => Err(Error::io("link", to, e)),
            },
        }
    }

    fn copy(&mut self, number: u64, from: &Path, to: &Path) -> Result<()> {
        let fs = self.db.shared().fs();
        let source = fs
            .open(from, Access::Direct)
            .map_err(|e| Error::io("open", from, e))?;
        let mut target = fs
            .create(to, Access::Direct)
            .map_err(|e| Error::io("create", to, e))?;
        self.tables.push(number);
        let tag = ReadTag {
            kind: BlockKind::Footer,
            last: None,
            purpose: Purpose::Background,
        };
        let budget = self.db.shared().budget();
        let most = copy_buffer(budget.limit()) as usize / PAGE * PAGE;
        let most = most.max(PAGE);
        let _held = budget.reserve(Role::IoBuffers, most as u64);
        let mut buffer = AlignedBuf::zeroed(most);
        let mut offset = 0;
        while offset < source.len() {
            let len = usize::try_from(source.len() - offset)
                .unwrap_or(most)
                .min(most);
            buffer.set_len(len);
            source
                .read_exact_at(&mut buffer, offset, tag)
                .map_err(|e| Error::io("read", from, e))?;
            target
                .append(&buffer)
                .map_err(|e| Error::io("write", to, e))?;
            offset += len as u64;
        }
        target.sync().map_err(|e| Error::io("sync", to, e))
    }
}
