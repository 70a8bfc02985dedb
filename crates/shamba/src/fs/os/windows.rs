//! What files need of Windows. Functions over the standard library, callable from any thread;
//! `unix` has the same. Every file goes through the system's page cache, outside the memory budget:
//! files opened past it could not be opened so again for a range that is not aligned.

use std::fs::{DirEntry, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::fs::FileLock;

/// Another has the file open and shares it with nobody (`ERROR_SHARING_VIOLATION`).
const SHARED_WITH_NOBODY: i32 = 32;

/// A file system does not know a function: here hard links (`ERROR_INVALID_FUNCTION`).
const NO_SUCH_FUNCTION: i32 = 1;

/// Opens a file. A folder is no file, and Windows says only that it may not be opened.
pub(super) fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path).map_err(|error| {
        if error.kind() == ErrorKind::PermissionDenied && path.is_dir() {
            ErrorKind::IsADirectory.into()
        } else {
            error
        }
    })
}

/// There is no direct I/O.
pub(super) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let _ = (options, path);
    Err(ErrorKind::InvalidInput.into())
}

/// Never asked for, since no file is direct.
pub(super) fn give_up_direct(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) fn is_direct(_file: &File) -> bool {
    false
}

/// Not known; who opens a file names it.
pub(super) fn path_of(_file: &File) -> PathBuf {
    PathBuf::new()
}

/// Reads at an offset. The offset is part of the request, so that threads read one file at the same
/// time; that the file's own position moves as well matters to nobody, since nobody uses it.
pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buf, offset)
}

/// Writes at an offset; as for [`read_at`].
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

/// Of the file and not of the folder's entry, which learns a file's length only when it is closed.
pub(super) fn metadata_of(entry: &DirEntry) -> io::Result<Metadata> {
    std::fs::metadata(entry.path())
}

/// Whether an error is what file systems without hard links answer.
pub(super) fn has_no_links(error: &io::Error) -> bool {
    error.raw_os_error() == Some(NO_SUCH_FUNCTION)
}

/// Windows syncs only through a handle that may write.
pub(super) fn open_to_sync(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true), path)
}

/// Windows takes no such advice.
pub(super) fn forget_cached(_file: &File) {}

/// Nothing to do but to see that the folder is there. Windows has no sync of a folder; its file
/// systems log changes of names, in the order in which they were made.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    std::fs::metadata(dir).map(drop)
}

/// Handles are bounded by memory alone.
pub(super) fn open_file_limit() -> Option<u64> {
    None
}

/// Opens a file, creating it, and shares it with nobody; `WouldBlock` while another has it.
pub(super) fn lock(path: &Path) -> io::Result<UnsharedLock> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    match options.share_mode(0).open(path) {
        Ok(file) => Ok(UnsharedLock { _file: file }),
        Err(e) if e.raw_os_error() == Some(SHARED_WITH_NOBODY) => Err(ErrorKind::WouldBlock.into()),
        Err(e) => Err(e),
    }
}

/// Held by having the file open: a process that is started gets no copy of it.
#[derive(Debug)]
pub(super) struct UnsharedLock {
    _file: File,
}

impl FileLock for UnsharedLock {}
