//! What files need of Unix. Functions over the standard library and system calls, callable from any
//! thread; [`super::windows`] has the same.

use std::fs::{DirEntry, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::fs::FileLock;

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
const O_DIRECT: i32 = 0;

pub(super) fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}

/// Opens past the page cache; `InvalidInput` where that is not to be had.
pub(super) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<File> {
    if O_DIRECT == 0 {
        return Err(ErrorKind::InvalidInput.into());
    }
    options.clone().custom_flags(O_DIRECT).open(path)
}

/// Turns direct I/O off for a file.
pub(super) fn give_up_direct(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    let cleared = rustix::fs::OFlags::from_bits_retain(flags.bits() & !O_DIRECT.cast_unsigned());
    Ok(rustix::fs::fcntl_setfl(file, cleared)?)
}

/// What the system itself says of that.
#[cfg(test)]
pub(super) fn is_direct(file: &File) -> bool {
    let flags = rustix::fs::fcntl_getfl(file).unwrap();
    flags.bits() & O_DIRECT.cast_unsigned() != 0
}

/// Where an open file lies, if the system says so.
pub(super) fn path_of(file: &File) -> PathBuf {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::read_link(link).unwrap_or_default()
}

pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buf, offset)
}

pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

pub(super) fn metadata_of(entry: &DirEntry) -> io::Result<Metadata> {
    entry.metadata()
}

/// Whether an error is what file systems without hard links answer.
pub(super) fn has_no_links(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::PERM.raw_os_error())
}

pub(super) fn open_to_sync(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Has a file read from the medium again, where a file system takes advice.
pub(super) fn forget_cached(file: &File) {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    let _ = file;
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

pub(super) fn open_file_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Locks a file, creating it; `WouldBlock` while another has it.
pub(super) fn lock(path: &Path) -> io::Result<AdvisoryLock> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let file = options.open(path)?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(AdvisoryLock { file }),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Err(ErrorKind::WouldBlock.into()),
            Err(e) => return Err(e.into()),
        }
    }
}

#[derive(Debug)]
pub(super) struct AdvisoryLock {
    file: File,
}

impl FileLock for AdvisoryLock {}

impl Drop for AdvisoryLock {
    /// Unlocks, where closing alone would not do: a process that another thread is starting has a
    /// copy of the descriptor until it executes its program, and the lock would last as long as
    /// that copy.
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::flock(&self.file, FlockOperation::Unlock) {
            log::warn!("cannot unlock a database's folder: {error}");
        }
    }
}
