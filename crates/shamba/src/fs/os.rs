//! The operating system's files, past its page cache where asked.
//!
//! Files opened with [`Access::Direct`] use direct I/O. A request that is aligned (memory, length
//! and offset all multiples of [`PAGE`]) goes straight to the device; any other goes through an
//! aligned buffer of at most 64 KiB that lives only as long as it is needed. Where a file system
//! refuses direct I/O, at opening or at the first request, the file goes on through the system's
//! page cache: [`OsFs::direct_io_refused`] says so, and a warning is logged once.
//!
//! Reads asked for together go through an io_uring, or else to a few threads (see `batch`). What
//! systems do each in its own way is in `unix` and `windows`, which have the same functions. Where
//! there is no direct I/O (Windows, macOS) every file goes through the page cache.
//!
//! Thread-safe: `OsFs` is a handle to share or clone; a read file is used from any thread.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
mod write;

use std::any::Any;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

#[cfg(unix)]
use self::unix as system;
#[cfg(windows)]
use self::windows as system;
use self::write::OsWrite;
use super::batch::{self, Readers};
use super::buf::{AlignedBuf, is_aligned};
use super::raw_read::RawRead;
use super::{Access, DirEntry, FileLock, Fs, PAGE, ReadFile, ReadRequest, ReadTag, WriteFile};

/// The most a file's bounce buffer holds, in bytes.
const BOUNCE: usize = 64 << 10;

/// Threads that sync files at the same time, and the stack of each.
const SYNCS_AT_ONCE: usize = 8;
const SYNC_STACK: usize = 64 << 10;

/// The file system of the operating system.
#[derive(Debug, Clone, Default)]
pub struct OsFs {
    refusal: Arc<Refusal>,
    readers: Arc<Readers>,
    /// Tables go through the page cache as well.
    buffered: bool,
}

/// Whether direct I/O was refused; shared with the open files, which may learn it later.
#[derive(Debug, Default)]
struct Refusal(AtomicBool);

impl Refusal {
    fn note(&self, path: &Path) {
        if !self.0.swap(true, Ordering::Relaxed) {
            log::warn!(
                "the file system of {} refuses direct I/O; reads and writes go through the system's page cache, outside the memory budget",
                path.display()
            );
        }
    }
}

impl OsFs {
    /// A handle to the system's files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether some file asked for with [`Access::Direct`] had to go through the page cache.
    #[must_use]
    pub fn direct_io_refused(&self) -> bool {
        self.refusal.0.load(Ordering::Relaxed)
    }

    /// A handle that reads with threads where it would use an io_uring: for systems where that is
    /// allowed but not wanted. Other handles are not changed.
    #[must_use]
    pub fn without_io_uring(self) -> Self {
        OsFs {
            readers: Arc::new(Readers::without_rings()),
            ..self
        }
    }

    /// A handle that reads and writes tables through the system's page cache, outside the memory
    /// budget: files that are cached there are read as from a RAM disk. Other handles are not
    /// changed.
    #[must_use]
    pub fn without_direct_io(self) -> Self {
        OsFs {
            buffered: true,
            ..self
        }
    }

    /// Whether reads asked for together are made by threads: the system has no io_uring or does
    /// not allow it (known from the first such reads on), or it is not wanted.
    #[must_use]
    pub fn reads_with_threads(&self) -> bool {
        self.readers.by_threads()
    }

    fn open_with(
        &self,
        path: &Path,
        access: Access,
        options: &mut OpenOptions,
    ) -> io::Result<OsHandle> {
        let mut direct = false;
        let file = match access {
            Access::Direct if self.buffered => system::open(options, path)?,
            Access::Direct => match system::open_direct(options, path) {
                Ok(file) => {
                    direct = true;
                    file
                }
                Err(e) if e.kind() == ErrorKind::InvalidInput => {
                    self.refusal.note(path);
                    system::open(options, path)?
                }
                Err(e) => return Err(e),
            },
            Access::Buffered => system::open(options, path)?,
        };
        Ok(OsHandle {
            file,
            direct: AtomicBool::new(direct),
            refusal: Arc::clone(&self.refusal),
        })
    }
}

/// An open file that may lose its direct flag on the way. Many stay open: it does not keep its
/// path.
#[derive(Debug)]
struct OsHandle {
    file: File,
    direct: AtomicBool,
    refusal: Arc<Refusal>,
}

impl OsHandle {
    fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Turns direct I/O off for this file after the system refused a request.
    fn give_up_direct(&self) -> io::Result<()> {
        system::give_up_direct(&self.file)?;
        self.direct.store(false, Ordering::Relaxed);
        self.refusal.note(&system::path_of(&self.file));
        Ok(())
    }

    /// One positioned request, again when interrupted, and without direct I/O when that is refused.
    fn once(&self, mut request: impl FnMut(&File) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match request(&self.file) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::InvalidInput && self.is_direct() => {
                    self.give_up_direct()?;
                }
                result => return result,
            }
        }
    }

    /// Reads until `buf` is full or the file ends; gives the count. With direct I/O everything
    /// given must be aligned.
    fn read_full(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        let mut ended_at = None;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let count = self.once(|file| system::read_at(file, rest, offset + done as u64))?;
            let total = done + count;
            if count == 0 {
                break;
            }
            if self.is_direct() && !total.is_multiple_of(PAGE) {
                // The end of the file, or a read cut short: a second look from the page's start
                // tells which.
                if ended_at == Some(total) {
                    return Ok(total);
                }
                ended_at = Some(total);
                done = total - total % PAGE;
            } else {
                done = total;
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`. With direct I/O everything given must be aligned.
    fn write_full(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        let mut stuck = false;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let mut count = self.once(|file| system::write_at(file, rest, offset + done as u64))?;
            if self.is_direct() {
                count -= count % PAGE;
            }
            if count == 0 && stuck {
                return Err(ErrorKind::WriteZero.into());
            }
            stuck = count == 0;
            done += count;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct OsRead {
    handle: OsHandle,
    len: u64,
}

/// What a table's open file takes, in bytes.
pub(crate) const OPEN_FILE: usize = size_of::<OsRead>();

impl OsRead {
    /// Serves a request that is not aligned through an aligned buffer, a piece at a time.
    fn read_bounced(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut bounce = AlignedBuf::new();
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let skip = (at % PAGE as u64) as usize;
            bounce.set_len((skip + rest.len()).next_multiple_of(PAGE).min(BOUNCE));
            let count = self.handle.read_full(&mut bounce, at - skip as u64)?;
            let got = bounce.get(skip..count).unwrap_or_default();
            let n = got.len().min(rest.len());
            match (rest.get_mut(..n), got.get(..n)) {
                (Some(to), Some(from)) if n > 0 => to.copy_from_slice(from),
                _ => return Err(ErrorKind::UnexpectedEof.into()),
            }
            done += n;
        }
        Ok(())
    }
}

/// Whether direct I/O takes a read as it is.
fn page_aligned(buf: &[u8], offset: u64) -> bool {
    is_aligned(buf) && offset.is_multiple_of(PAGE as u64)
}

/// A read as a ring takes it; none for what must go another way.
fn raw_read<'a>(request: &'a mut ReadRequest<'_>) -> Option<RawRead<'a>> {
    let file = (request.file as &dyn Any).downcast_ref::<OsRead>()?;
    let fits = page_aligned(request.buf, request.offset) || !file.handle.is_direct();
    if !fits || beyond_all_files(request.buf, request.offset) {
        return None;
    }
    Some(RawRead {
        file: &file.handle.file,
        offset: request.offset,
        buf: request.buf,
        done: None,
    })
}

/// Whether a read lies where no file can be.
fn beyond_all_files(buf: &[u8], offset: u64) -> bool {
    let end = offset.checked_add(buf.len() as u64);
    end.is_none_or(|end| end > i64::MAX as u64 - PAGE as u64)
}

impl ReadFile for OsRead {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64, _tag: ReadTag) -> io::Result<()> {
        if beyond_all_files(buf, offset) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if self.handle.is_direct() && !page_aligned(buf, offset) {
            return self.read_bounced(buf, offset);
        }
        if self.handle.read_full(buf, offset)? < buf.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl Fs for OsFs {
    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn WriteFile>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let handle = self.open_with(path, access, &mut options)?;
        Ok(Box::new(OsWrite::new(handle)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        let handle = self.open_with(path, access, OpenOptions::new().read(true))?;
        let meta = handle.file.metadata()?;
        if meta.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        Ok(Arc::new(OsRead {
            handle,
            len: meta.len(),
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        self.visit(dir, &mut |name, len| {
            let name = name.to_owned();
            entries.push(DirEntry { name, len });
        })?;
        Ok(entries)
    }

    fn visit(&self, dir: &Path, visit: &mut dyn FnMut(&str, u64)) -> io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let meta = match system::metadata_of(&entry) {
                Ok(meta) => meta,
                // Removed since the folder was read.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            if meta.is_file() {
                visit(&entry.file_name().to_string_lossy(), meta.len());
            }
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to).map_err(|e| {
            if system::has_no_links(&e) {
                io::Error::new(ErrorKind::Unsupported, e)
            } else {
                e
            }
        })
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let file = system::open_to_sync(path)?;
        file.sync_all()?;
        // Where a sync failed before, Linux told that process alone, and goes on showing what it
        // could not write: so that what is read from here on is what the disk holds.
        system::forget_cached(&file);
        Ok(())
    }

    /// By several threads: what one sync waits for is nearly all of it for those beside it too.
    fn sync_files(&self, paths: &[PathBuf]) -> Vec<io::Result<()>> {
        let next = AtomicUsize::new(0);
        let results: Vec<OnceLock<io::Result<()>>> =
            paths.iter().map(|_| OnceLock::new()).collect();
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((path, result)) = paths.get(at).zip(results.get(at)) else {
                    return;
                };
                // Nobody else has the number.
                let _ = result.set(system::open_to_sync(path).and_then(|file| file.sync_all()));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..paths.len().min(SYNCS_AT_ONCE) {
                let thread = std::thread::Builder::new().stack_size(SYNC_STACK);
                // Without it there is one fewer.
                let _ = thread.spawn_scoped(scope, work);
            }
            work();
        });
        let done = |result: OnceLock<io::Result<()>>| {
            // A thread that panics takes this one with it, so that each has a result here.
            let missing = || Err(io::Error::other("the file was not synced"));
            result.into_inner().unwrap_or_else(missing)
        };
        results.into_iter().map(done).collect()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // The current folder has an empty name when it is some file's parent.
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        system::sync_dir(dir)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }

    fn open_file_limit(&self) -> Option<u64> {
        system::open_file_limit()
    }

    fn read_many(&self, reads: &mut [ReadRequest<'_>]) {
        if let [read] = reads {
            return read.read();
        }
        let mut raw = Vec::with_capacity(reads.len());
        let mut whole = vec![false; reads.len()];
        let mut numbers = Vec::with_capacity(reads.len());
        for (number, read) in reads.iter_mut().enumerate() {
            if let Some(read) = raw_read(read) {
                raw.push(read);
                numbers.push(number);
            }
        }
        if !self.readers.read_by_ring(&mut raw) {
            drop(raw);
            return batch::by_threads(reads, ReadRequest::read);
        }
        for (read, number) in raw.iter().zip(numbers) {
            if let (Some(Ok(count)), Some(whole)) = (&read.done, whole.get_mut(number)) {
                *whole = *count == read.buf.len();
            }
        }
        drop(raw);
        // What was cut short or failed is tried again in the ordinary way, which knows what to do
        // about it.
        for (read, whole) in reads.iter_mut().zip(whole) {
            if whole {
                read.result = Ok(());
            } else {
                read.read();
            }
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        Ok(Box::new(system::lock(path)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::conformance::TAG;

    /// What a file holds is the same either way (`conformance`); the flag is what differs.
    #[test]
    fn tables_can_go_through_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let fs = OsFs::new().without_direct_io();
        let handle = fs
            .open_with(
                &path,
                Access::Direct,
                OpenOptions::new().write(true).create(true),
            )
            .unwrap();
        assert!(!handle.is_direct() && !system::is_direct(&handle.file));
    }

    /// Reads any aligned and unaligned range of a directly written file.
    #[test]
    fn direct_files_serve_any_range() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let fs = OsFs::new();
        let bytes: Vec<u8> = (0..200_003u32).map(|i| (i * 31 % 251) as u8).collect();
        let mut file = fs.create(&path, Access::Direct).unwrap();
        let mut aligned = AlignedBuf::new();
        aligned.extend_from_slice(&bytes[..8192]);
        file.append(&aligned).unwrap();
        let refused = fs.direct_io_refused();
        file.append(&bytes[8192..8200]).unwrap();
        file.sync().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 8200);
        file.append(&bytes[8200..]).unwrap();
        assert_eq!(file.len(), bytes.len() as u64);
        file.sync().unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let read = fs.open(&path, Access::Direct).unwrap();
        for (offset, len) in [
            (0, 4096),
            (4096, 1),
            (1, 4095),
            (4095, 2),
            (10, 150_000),
            (199_000, 1003),
            (0, 200_003),
            (200_003, 0),
        ] {
            let mut buf = vec![0; len];
            read.read_exact_at(&mut buf, offset as u64, TAG).unwrap();
            assert_eq!(buf, bytes[offset..offset + len], "{offset}+{len}");
            let mut buf = AlignedBuf::zeroed(len);
            read.read_exact_at(&mut buf, offset as u64, TAG).unwrap();
            assert_eq!(buf[..], bytes[offset..offset + len], "{offset}+{len}");
        }
        let mut buf = AlignedBuf::zeroed(4096);
        for offset in [196_608, 196_000, 200_003, 204_800, 1 << 40, u64::MAX] {
            let error = read.read_exact_at(&mut buf, offset, TAG).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{offset}");
        }
        assert_eq!(fs.direct_io_refused(), refused, "no request was misaligned");
    }

    #[test]
    fn a_dropped_direct_file_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let mut file = OsFs::new().create(&path, Access::Direct).unwrap();
        file.append(&[5; 5000]).unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), vec![5; 5000]);
    }

    /// Shared memory file systems take direct I/O only since Linux 6.6; on either side the answer
    /// must be the same bytes.
    #[test]
    fn refusal_falls_back_to_the_page_cache() {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
            return;
        };
        let path = dir.path().join("t");
        let fs = OsFs::new();
        let mut file = fs.create(&path, Access::Direct).unwrap();
        file.append(&[6; 5000]).unwrap();
        file.sync().unwrap();
        let read = fs.open(&path, Access::Direct).unwrap();
        let mut buf = AlignedBuf::zeroed(4096);
        read.read_exact_at(&mut buf, 0, TAG).unwrap();
        assert_eq!(buf[..], [6; 4096]);
    }

    /// A misaligned request on a file that believes it may do direct I/O is what a file system
    /// with stricter rules looks like.
    #[cfg(target_os = "linux")]
    #[test]
    fn refusal_at_the_first_request_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, [9; 9000]).unwrap();
        let fs = OsFs::new();
        let handle = fs
            .open_with(&path, Access::Direct, OpenOptions::new().read(true))
            .unwrap();
        let mut buf = [0; 100];
        assert_eq!(handle.read_full(&mut buf, 3).unwrap(), 100);
        assert_eq!(buf, [9; 100]);
        assert!(!handle.is_direct());
        assert!(fs.direct_io_refused());
    }
}
