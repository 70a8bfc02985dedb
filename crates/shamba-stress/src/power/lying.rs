//! A file system that says it synced and did not: of files whose names end so, or of folders. What
//! it shows is that the checks see a sync that is missing.

use std::io;
use std::path::Path;
use std::sync::Arc;

use shamba::fs::{Access, DirEntry, FileLock, Fs, ReadFile, WriteFile};

/// Whose syncs are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dropped {
    /// Write-ahead logs.
    Logs,
    /// Tables.
    Tables,
    /// Manifests.
    Manifests,
    /// `CURRENT.tmp`, before it is renamed.
    Current,
    /// Folders: creations, renames and removals.
    Folders,
}

impl Dropped {
    /// Every one.
    pub const ALL: [Dropped; 5] = [
        Dropped::Logs,
        Dropped::Tables,
        Dropped::Manifests,
        Dropped::Current,
        Dropped::Folders,
    ];

    fn is_of(self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match self {
            Dropped::Logs => name.ends_with(".wal"),
            Dropped::Tables => name.ends_with(".sst"),
            Dropped::Manifests => name.starts_with("MANIFEST-"),
            Dropped::Current => name == "CURRENT.tmp",
            Dropped::Folders => false,
        }
    }
}

/// Drops syncs of one kind.
#[derive(Debug)]
pub struct LyingFs {
    inner: Arc<dyn Fs>,
    dropped: Dropped,
}

impl LyingFs {
    pub fn new(inner: Arc<dyn Fs>, dropped: Dropped) -> Self {
        LyingFs { inner, dropped }
    }
}

#[derive(Debug)]
struct Unsynced(Box<dyn WriteFile>);

impl WriteFile for Unsynced {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn cut_back(&mut self, len: u64) -> io::Result<()> {
        self.0.cut_back(len)
    }

    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl Fs for LyingFs {
    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn WriteFile>> {
        let file = self.inner.create(path, access)?;
        let lies = self.dropped.is_of(path);
        Ok(if lies { Box::new(Unsynced(file)) } else { file })
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        self.inner.open(path, access)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let lies = self.dropped.is_of(path);
        if lies {
            Ok(())
        } else {
            self.inner.sync_file(path)
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let lies = self.dropped == Dropped::Folders;
        if lies {
            Ok(())
        } else {
            self.inner.sync_dir(dir)
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
}
