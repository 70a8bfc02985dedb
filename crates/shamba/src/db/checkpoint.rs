//! Checkpoints: a consistent copy of the database in another folder, by hard links. Runs on the
//! caller's thread. When it returns, the copy is durable: first the folder's own name, then the
//! tables and their names, and last `CURRENT`, which makes it a database.

use std::io;
use std::path::Path;

use super::DbInner;
use crate::error::{Error, Result};
use crate::fs::{Access, AlignedBuf, BlockKind, Purpose, ReadTag, create_dir_durably};
use crate::version::Manifest;

/// Bytes copied at a time where a hard link is not possible.
const COPY: usize = 256 << 10;

impl DbInner {
    pub(crate) fn checkpoint(&self, destination: &Path) -> Result<()> {
        let fs = &self.options.fs;
        let on = |op: &'static str| move |e: io::Error| Error::io(op, destination, e);
        if fs.exists(destination).map_err(on("look for"))?
            && !fs.list(destination).map_err(on("list"))?.is_empty()
        {
            return Err(Error::AlreadyExists {
                path: destination.to_path_buf(),
            });
        }
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
