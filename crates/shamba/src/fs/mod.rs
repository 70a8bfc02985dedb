//! The only door to storage.
//!
//! [`Fs`] is the file system as the engine needs it: create, read at an offset, append, sync,
//! rename, remove, link, list, lock. The engine's own is the operating system with direct I/O
//! ([`OsFs`]). With the feature `testing` there are others, for tests and measurements: memory with
//! simulated crashes (`MemFs`), and wrappers that inject faults (`FaultFs`) or count and delay
//! operations (`MeteredFs`).
//!
//! What the engine assumes of the medium: `sync` makes every byte appended so far durable, and
//! `sync_file` every byte of a file, whoever wrote it;
//! `sync_dir` makes creations, renames, links and removals in a folder durable; `rename` replaces
//! its target atomically; nothing else survives a crash for certain, and unsynced bytes may
//! survive in any subset of pages.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod batch;
mod buf;
#[cfg(test)]
mod conformance;
mod container;
#[cfg(feature = "testing")]
mod device;
#[cfg(feature = "testing")]
mod fault;
#[cfg(feature = "testing")]
mod mem;
#[cfg(feature = "testing")]
mod metered;
mod os;
mod raw_read;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
mod uring;

pub use buf::AlignedBuf;
pub(crate) use container::read_small;
#[cfg(feature = "testing")]
pub use device::DeviceModel;
#[cfg(feature = "testing")]
pub use fault::{Effect, Fault, FaultError, FaultFs, Faults, Hook, Op};
#[cfg(feature = "testing")]
pub use mem::MemFs;
#[cfg(feature = "testing")]
pub use metered::{Charge, IoCounts, MeteredFs, ReadCount};
pub(crate) use os::OPEN_FILE;
pub use os::OsFs;

/// Pages: the unit of alignment for direct I/O and for table blocks, in bytes.
pub const PAGE: usize = 4096;

/// How a file will be used, which decides whether the page cache of the system is bypassed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Page-aligned reads and writes that should bypass the system's page cache (tables).
    Direct,
    /// Small appends and sequential reads through the system's page cache (logs, manifests).
    Buffered,
}

/// What a read brings in, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BlockKind {
    /// A table's data block.
    Data,
    /// A table's index block.
    Index,
    /// Filter module number i (0 to 15).
    Filter(u8),
    /// A table's footer, properties and top-level index, read when it is opened.
    Footer,
    /// A log or manifest.
    Log,
}

/// On whose behalf a read is made, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// A point lookup.
    Lookup,
    /// An iterator of a caller.
    Scan,
    /// Flush, compaction, verification, recovery.
    Background,
}

/// A label on a read, so that wrappers can count and delay by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadTag {
    /// What is read.
    pub kind: BlockKind,
    /// What the last page is, where two neighbours are read with one operation. The operation
    /// counts for `kind`, the page for this.
    pub last: Option<BlockKind>,
    /// For whom.
    pub purpose: Purpose,
}

/// One of several reads that are asked for together.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// What to read from.
    pub file: &'a dyn ReadFile,
    /// Where to begin, in bytes.
    pub offset: u64,
    /// What to fill.
    pub buf: &'a mut [u8],
    /// What it brings in, and for whom.
    pub tag: ReadTag,
    /// How it went, as [`ReadFile::read_exact_at`] would say; `Ok` before it was tried.
    pub result: io::Result<()>,
}

impl ReadRequest<'_> {
    /// Carries the read out by itself.
    pub fn read(&mut self) {
        self.result = self.file.read_exact_at(self.buf, self.offset, self.tag);
    }
}

/// A folder's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The file's name, without its folder.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

/// A file system.
pub trait Fs: Debug + Send + Sync + 'static {
    /// Creates a file for appending; one that exists is emptied.
    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn WriteFile>>;
    /// Opens a file for reading.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>>;
    /// The files (not folders) in a folder, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Shows each file (not folder) in a folder, in no particular order: its name and its length in
    /// bytes. What `visit` does must not use the file system. Takes the memory of [`Fs::list`]
    /// unless implemented.
    fn visit(&self, dir: &Path, visit: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        let entries = self.list(dir)?;
        entries
            .iter()
            .for_each(|entry| visit(&entry.name, entry.len));
        Ok(())
    }
    /// Whether a file or folder is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Creates a folder and those above it; one that exists is left alone.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file, replacing the target if there is one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name; an error of kind `CrossesDevices` or `Unsupported` where the
    /// file system cannot.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes durable what is in a file, whoever wrote it: also what another process wrote before it
    /// died. What is read of it afterwards comes from the medium, where the system can be told so.
    /// The file's name is not part of that, see [`Fs::sync_dir`].
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// [`Fs::sync_file`] of several files, at the same time where that can be done; a result for
    /// each, and all are done on return. One after another unless implemented.
    fn sync_files(&self, paths: &[PathBuf]) -> Vec<io::Result<()>> {
        paths.iter().map(|path| self.sync_file(path)).collect()
    }
    /// Makes creations, renames, links and removals in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on a file, creating it, until the guard is dropped; an error of
    /// kind `WouldBlock` when another holder has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;
    /// The path that means the same wherever the process goes to later. A database keeps this one
    /// of its folder. The path itself unless implemented, for file systems without a present
    /// folder.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// How many files the process may have open, if that is bounded. Unbounded unless implemented.
    fn open_file_limit(&self) -> Option<u64> {
        None
    }
    /// Carries out several reads, at the same time where that can be done; each gets a result of
    /// its own, and all are done on return. Files of other file systems are read all the same. One
    /// after another unless implemented.
    fn read_many(&self, reads: &mut [ReadRequest<'_>]) {
        reads.iter_mut().for_each(ReadRequest::read);
    }
}

/// Whether a folder is not one that this process may sync, ever.
fn cannot_sync(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    let kinds = [
        InvalidInput,
        PermissionDenied,
        ReadOnlyFilesystem,
        Unsupported,
    ];
    kinds.contains(&error.kind())
}

/// Creates a folder and those above it, durably: each one's name is durable in the folder above.
/// Also of those that are there, which an attempt may have made that failed before it came to that.
pub(crate) fn create_dir_durably(fs: &dyn Fs, dir: &Path) -> io::Result<()> {
    let folders = dir.ancestors().filter(|dir| !dir.as_os_str().is_empty());
    let made = folders.map(|folder| Ok((folder, !fs.exists(folder)?)));
    let made = made.collect::<io::Result<Vec<_>>>()?;
    fs.create_dir_all(dir)?;
    for (folder, made) in made.into_iter().rev() {
        let Some(above) = folder.parent() else {
            continue;
        };
        match fs.sync_dir(above) {
            // One that is there may lie where nobody lets us sync, and then we have not made it.
            Err(e) if !made && cannot_sync(&e) => {}
            synced => synced?,
        }
    }
    fs.sync_dir(dir)
}

/// A lock held until it is dropped.
pub trait FileLock: Debug + Send + Sync {}

/// A file open for reading at any offset, from any thread. `Any`, so that [`Fs::read_many`] knows
/// its own files.
pub trait ReadFile: Any + Debug + Send + Sync {
    /// Fills `buf` from `offset`; `UnexpectedEof` when the file ends before.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64, tag: ReadTag) -> io::Result<()>;
    /// The file's length in bytes when it was opened.
    fn len(&self) -> u64;
    /// Whether the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A file being written from start to end by one thread.
pub trait WriteFile: Debug + Send {
    /// Appends bytes. After an error the file's contents past what was appended before are unknown.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything appended durable. After an error nothing may be assumed of bytes appended
    /// since the last sync that succeeded, and calling again does not help.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file back to its first `len` bytes, no more than were appended, durably: also after
    /// an append that failed, and appends go on from there. Not after a sync that failed. An error
    /// leaves the file as after a failed append; of kind `Unsupported` where a file system cannot,
    /// which is so unless implemented.
    fn cut_back(&mut self, len: u64) -> io::Result<()> {
        let _ = len;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Bytes appended so far.
    fn len(&self) -> u64;
    /// Whether nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
