//! Checkpoints: a consistent copy of the database in another folder, by hard links. Runs on the
//! caller's thread; writes wait while it flushes, not while it links or copies. When it returns, the
//! copy is durable: first the folder's own name, then the tables and their names, and last `CURRENT`,
//! which makes it a database. If it fails, what it made in the folder is removed again.

use std::io;
use std::path::Path;

use super::DbInner;
use super::folder::{FileKind, classify};
use crate::error::{Error, Result};
use crate::fs::{Access, AlignedBuf, BlockKind, Purpose, ReadTag, create_dir_durably};
use crate::version::{CURRENT, Manifest};

/// Bytes copied at a time where a hard link is not possible.
const COPY: usize = 256 << 10;

impl DbInner {
    pub(crate) fn checkpoint(&self, destination: &Path) -> Result<()> {
        let fs = &self.options.fs;
        let on = |op: &'static str| move |e: io::Error| Error::io(op, destination, e);
        if fs.exists(destination).map_err(on("look for"))?
            && !fs.list(destination).map_err(on("list"))?.is_empty()
        {
            return Err(Error::NotEmpty {
                path: destination.to_path_buf(),
            });
        }
        let copied = self.copy_to(destination);
        if copied.is_err() {
            self.remove_partial(destination);
        }
        copied
    }

    fn copy_to(&self, destination: &Path) -> Result<()> {
        let fs = &self.options.fs;
        let on = |op: &'static str| move |e: io::Error| Error::io(op, destination, e);
        create_dir_durably(&**fs, destination).map_err(on("create"))?;
        // With writes held off, what is flushed is one moment of all keyspaces.
        let writes = self.flush_all()?;
        // Holding the state keeps its files on storage.
        let state = self.tree.lock().manifest.state().clone();
        drop(writes);
        for keyspace in state.keyspaces.values() {
            for file in keyspace.version.files() {
                let name = crate::compaction::job::table_path(Path::new(""), file.number);
                self.link_or_copy(&self.dir.join(&name), &destination.join(&name))?;
            }
        }
        fs.sync_dir(destination).map_err(on("sync"))?;
        Manifest::write_new(&**fs, destination, &state.snapshot())
    }

    /// Removes what a checkpoint that failed has made in a folder that was empty, as far as that can
    /// be done: first what makes the folder a database. Files of other names are somebody else's.
    fn remove_partial(&self, destination: &Path) {
        let fs = &self.options.fs;
        let mut names: Vec<String> = match fs.list(destination) {
            Ok(entries) => entries.into_iter().map(|entry| entry.name).collect(),
            Err(_) => return,
        };
        let ours = |name: &str| match classify(name) {
            FileKind::Table(_) | FileKind::Manifest | FileKind::Temporary => true,
            _ => name == CURRENT,
        };
        names.retain(|name| ours(name));
        names.sort_by_key(|name| name != CURRENT);
        for name in names {
            let path = destination.join(name);
            if let Err(error) = fs.remove(&path) {
                log::warn!("a failed checkpoint leaves {}: {error}", path.display());
            }
        }
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        match self.options.fs.hard_link(from, to) {
            Ok(()) => Ok(()),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::CrossesDevices | io::ErrorKind::Unsupported
                ) =>
            {
                self.copy(from, to)
            }
            Err(e) => Err(Error::io("link", to, e)),
        }
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let fs = &self.options.fs;
        let source = fs
            .open(from, Access::Direct)
            .map_err(|e| Error::io("open", from, e))?;
        let mut target = fs
            .create(to, Access::Direct)
            .map_err(|e| Error::io("create", to, e))?;
        let tag = ReadTag {
            kind: BlockKind::Footer,
            last: None,
            purpose: Purpose::Background,
        };
        let mut buffer = AlignedBuf::zeroed(COPY);
        let mut offset = 0;
        while offset < source.len() {
            let len = usize::try_from(source.len() - offset)
                .unwrap_or(COPY)
                .min(COPY);
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
