//! The files of open tables: no more than so many at a time, whoever holds the tables.
//!
//! A table in use cannot be closed: iterators and merges hold one for each run. Its file can,
//! between two reads, and is opened again at the next. So a [`FileHandle`] knows its file's length
//! and whether it is open; [`OpenFiles::open`] makes one, and a [`Source`](super::source::Source)
//! reads through it. A file that is being read stays open until that is done. Which file is closed
//! when there are too many is chosen by CLOCK. Thread-safe; a read costs an atomic load and no lock
//! while its file is open.

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;

use crate::budget::{Budget, Reservation, Role, held_files, open_files, shared};
use crate::error::{Error, Result, is_out_of_files};
use crate::fs::{Access, DirEntry, Fs, OPEN_FILE, ReadFile};

/// The name of a table file.
pub(crate) fn table_name(number: u64) -> String {
    format!("{number:06}.sst")
}

/// A table's file, open or not.
#[derive(Debug)]
pub(super) struct FileHandle {
    number: u64,
    len: u64,
    open: ArcSwapOption<OpenFile>,
    used: AtomicBool,
}

impl FileHandle {
    /// The table's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The file's length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

/// A file while it is open, counted.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: Arc<dyn ReadFile>,
    count: Arc<AtomicUsize>,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What an open file takes, in bytes: the system's file, its handle, and two places in the ring,
/// which grows by doubling.
pub(super) const FILE_BYTES: usize = shared(OPEN_FILE)
    + shared(size_of::<FileHandle>())
    + shared(size_of::<OpenFile>())
    + 2 * size_of::<usize>();

/// What a file that is held takes, in bytes, with its entry in the map.
const HELD_BYTES: usize = OPEN_FILE + 56;

/// So many files may always be open, which is half a MiB.
const ALWAYS: usize = 256;

/// The files of a folder's tables.
pub(crate) struct OpenFiles {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    budget: Arc<Budget>,
    most: usize,
    /// How many are open, those that are being opened included.
    count: Arc<AtomicUsize>,
    /// Those that may be closed, and some that were.
    ring: Mutex<VecDeque<Weak<FileHandle>>>,
    /// Whether nothing is opened any more.
    shut: AtomicBool,
    /// Files that stay open whether their tables are or not. There for a database that is only
    /// read.
    held: Mutex<Option<HeldFiles>>,
}

/// Files by their tables' numbers.
#[derive(Default)]
struct HeldFiles {
    files: HashMap<u64, Arc<dyn ReadFile>>,
    _memory: Option<Reservation>,
}

impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFiles")
            .field("dir", &self.dir)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl OpenFiles {
    /// The files of a folder's tables, of which so many may be open, and fewer under a small
    /// budget.
    pub(super) fn new(fs: Arc<dyn Fs>, dir: PathBuf, budget: Arc<Budget>, most: usize) -> Self {
        OpenFiles {
            fs,
            dir,
            budget,
            most: most.max(1),
            count: Arc::default(),
            ring: Mutex::default(),
            shut: AtomicBool::new(false),
            held: Mutex::default(),
        }
    }

    /// Where a table file lies.
    pub(super) fn path(&self, number: u64) -> PathBuf {
        self.dir.join(table_name(number))
    }

    /// How many tables may be open.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// How many files may be open. A table whose file is closed stays as it is.
    fn most_files(&self) -> usize {
        let part = open_files(self.budget.limit());
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        self.most.min(part.max(ALWAYS))
    }

    pub(super) fn fs(&self) -> &dyn Fs {
        &*self.fs
    }

    /// Opens nothing from now on.
    pub(super) fn shut(&self) {
        self.shut.store(true, Ordering::Release);
    }

    /// Whether nothing is opened any more.
    pub(super) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Acquire)
    }

    /// Opens the file of a table.
    pub(super) fn open(&self, number: u64) -> Result<Arc<FileHandle>> {
        let open = self.open_counted(number)?;
        let handle = Arc::new(FileHandle {
            number,
            len: open.file.len(),
            open: ArcSwapOption::new(Some(Arc::new(open))),
            used: AtomicBool::new(true),
        });
        self.list(&handle);
        Ok(handle)
    }

    /// A table's handle of a file that was opened elsewhere.
    #[cfg(any(test, all(fuzzing, feature = "testing")))]
    pub(super) fn adopt(&self, number: u64, file: Arc<dyn ReadFile>) -> Arc<FileHandle> {
        self.count.fetch_add(1, Ordering::AcqRel);
        let count = Arc::clone(&self.count);
        Arc::new(FileHandle {
            number,
            len: file.len(),
            open: ArcSwapOption::from_pointee(OpenFile { file, count }),
            used: AtomicBool::new(true),
        })
    }

    /// The file, opened if it is not, and open for the time of the guard at least.
    #[inline]
    pub(super) fn get(&self, handle: &Arc<FileHandle>) -> Result<Guard<Option<Arc<OpenFile>>>> {
        // A plain load first: a store by every reader would make the line travel.
        if !handle.used.load(Ordering::Relaxed) {
            handle.used.store(true, Ordering::Relaxed);
        }
        let open = handle.open.load();
        match &*open {
            Some(_) => Ok(open),
            None => self.open_again(handle),
        }
    }

    #[cold]
    fn open_again(&self, handle: &Arc<FileHandle>) -> Result<Guard<Option<Arc<OpenFile>>>> {
        if self.is_shut() {
            return Err(Error::Closed);
        }
        let open = self.open_counted(handle.number)?;
        if open.file.len() != handle.len {
            let what = "the table's file is another one than before";
            return Err(Error::corruption(self.path(handle.number), 0, what));
        }
        let open = Some(Arc::new(open));
        handle.open.store(open.clone());
        self.list(handle);
        Ok(Guard::from_inner(open))
    }

    /// Makes a handle one of those whose file may be closed.
    fn list(&self, handle: &Arc<FileHandle>) {
        let mut ring = self.ring.lock();
        // Those of tables that were closed are not taken out one by one.
        if ring.len() > 2 * self.count.load(Ordering::Acquire) + 16 {
            ring.retain(|handle| {
                let handle = handle.upgrade();
                handle.is_some_and(|handle| handle.open.load().is_some())
            });
        }
        ring.push_back(Arc::downgrade(handle));
    }

    /// Opens a file, once others were closed for it.
    fn open_counted(&self, number: u64) -> Result<OpenFile> {
        let before = self.count.fetch_add(1, Ordering::AcqRel);
        for _ in self.most_files()..=before {
            self.close_one();
        }
        let count = Arc::clone(&self.count);
        self.open_file(number)
            .inspect_err(|_| {
                count.fetch_sub(1, Ordering::AcqRel);
            })
            .map(|file| OpenFile {
                file,
                count: Arc::clone(&count),
            })
    }

    fn open_file(&self, number: u64) -> Result<Arc<dyn ReadFile>> {
        let held = |held: &HeldFiles| held.files.get(&number).cloned();
        if let Some(file) = self.held.lock().as_ref().and_then(held) {
            return Ok(file);
        }
        let path = self.path(number);
        loop {
            match self.fs.open(&path, Access::Direct) {
                Ok(file) => return Ok(file),
                // Others may have taken the files that the limit counted on.
                Err(e) if is_out_of_files(&e) && self.close_one() => {}
                // An open that began before that.
                Err(_) if self.is_shut() => return Err(Error::Closed),
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    return Err(if self.held.lock().is_some() {
                        Error::Outdated { file: path }
                    } else {
                        Error::corruption(path, 0, "the table file is missing")
                    });
                }
                Err(e) => return Err(Error::io("open", &path, e)),
            }
        }
    }

    /// Closes a file that was not read lately; false if none is open.
    pub(super) fn close_one(&self) -> bool {
        let mut ring = self.ring.lock();
        // Whoever was used gets another turn, once.
        let mut turns = 2 * ring.len();
        while let Some(handle) = ring.pop_front() {
            turns = turns.saturating_sub(1);
            let Some(handle) = handle.upgrade() else {
                continue;
            };
            if turns > 0 && handle.used.swap(false, Ordering::Relaxed) {
                ring.push_back(Arc::downgrade(&handle));
            } else if handle.open.swap(None).is_some() {
                return true;
            }
        }
        false
    }

    /// Closes the files that [`Self::hold`] keeps open; false if there are none.
    pub(super) fn release_held(&self) -> bool {
        let mut held = self.held.lock();
        let none = held.as_ref().is_none_or(|held| held.files.is_empty());
        if !none {
            *held = Some(HeldFiles::default());
        }
        !none
    }

    /// For a database that is only read, of whose tables a writer may remove some: keeps the files
    /// of all open, if so many may be and there is memory for it; gives them with their lengths
    /// then. From now on a file that is missing is [`Error::Outdated`].
    ///
    /// Called again, it opens only those that it does not hold, also after an error: so it comes to
    /// an end beside a writer that removes tables faster than all of them are opened.
    ///
    /// # Errors
    /// `Outdated` when one is missing already; `Io`.
    pub(super) fn hold(&self, numbers: &[u64]) -> Result<Option<Vec<DirEntry>>> {
        let before = self.held.lock().replace(HeldFiles::default());
        let bytes = (numbers.len() * HELD_BYTES) as u64;
        if numbers.len() > self.most_files() || bytes > held_files(self.budget.limit()) {
            return Ok(None);
        }
        let mut before = before.unwrap_or_default();
        let mut held = HeldFiles {
            files: HashMap::with_capacity(numbers.len()),
            _memory: Some(self.budget.reserve(Role::Tables, bytes)),
        };
        let mut result = Ok(());
        for &number in numbers {
            let file = match before.files.remove(&number) {
                Some(file) => Ok(file),
                None if result.is_ok() => self.open_file(number),
                None => continue,
            };
            match file {
                Ok(file) => drop(held.files.insert(number, file)),
                Err(error) => result = Err(error),
            }
        }
        drop(before);
        let entry = |(&number, file): (&u64, &Arc<dyn ReadFile>)| DirEntry {
            name: table_name(number),
            len: file.len(),
        };
        let entries = held.files.iter().map(entry).collect();
        match result {
            // Better all files for those that are needed.
            Err(error) if error.is_out_of_files() => Ok(None),
            result => {
                *self.held.lock() = Some(held);
                result.map(|()| Some(entries))
            }
        }
    }
}
