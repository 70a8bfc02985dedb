//! Opens tables on demand and closes those not used lately.
//!
//! A [`TableSlot`] lives with the file it is for. [`TableCache::get`] costs one atomic load while
//! the table is open. Opening takes one of a few locks, chosen by file number; the ring of open
//! tables has its own lock, taken only to open and to close. Tables in use stay usable when they
//! are closed here: their memory is given back when the last user lets go. When essential memory
//! finds no room anywhere else, tables that nobody uses are closed for it, and then what is known
//! of closed ones is forgotten; when the process has too many files open they are closed too.
//! Thread-safe.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use shamba_model::expected_reads::Visits;

use super::pinned::Opened;
use super::reader::Table;
use super::source::Home;
use super::stated::{Stated, TableFile};
use crate::budget::{Budget, Reclaim, Reservation, Role};
use crate::cache::{BlockCache, Clock, Heat, Interner, IoPool};
use crate::error::{Error, Result, is_out_of_files};
use crate::fs::{Access, DirEntry, Fs, OPEN_FILE, ReadFile};

/// Locks for opening.
const STRIPES: usize = 16;

/// Open tables may take this part of the budget before others are closed.
const SHARE: u64 = 4;

/// The name of a table file.
pub(crate) fn table_name(number: u64) -> String {
    format!("{number:06}.sst")
}

/// What was known of a file's partitions when the database closed.
#[derive(Debug)]
pub(crate) struct Hint {
    /// Of each partition.
    pub(crate) visits: Box<[Visits]>,
    /// The memory it takes.
    pub(crate) _held: Reservation,
}

/// Where a file's open table is kept, if it is open.
#[derive(Debug, Default)]
pub(crate) struct TableSlot(pub(super) Arc<Inner>);

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) table: ArcSwapOption<Opened>,
    used: AtomicBool,
    /// The file's name in the block cache, kept when the table is closed; 0 before the first time.
    cache_id: AtomicU64,
    /// What is known of its partitions, kept when the table is closed, while there is memory.
    heat: ArcSwapOption<Heat>,
    /// Whether it is among [`TableCache::closed`].
    listed: AtomicBool,
    /// What the heat is to start with.
    hint: Mutex<Option<Hint>>,
}

impl TableSlot {
    /// The file's name in the block cache; 0 if it was never opened.
    pub(crate) fn cache_id(&self) -> u64 {
        self.0.cache_id.load(Ordering::Relaxed)
    }

    /// The slot of a file that was never opened and has heat all the same.
    pub(super) fn with_heat(cache_id: u64, heat: Arc<Heat>) -> Self {
        TableSlot(Arc::new(Inner {
            cache_id: AtomicU64::new(cache_id),
            heat: ArcSwapOption::new(Some(heat)),
            ..Inner::default()
        }))
    }

    /// Keeps what was known of the partitions of a file that is not open yet, until it is.
    pub(crate) fn set_hint(&self, hint: Hint) {
        *self.0.hint.lock() = Some(hint);
    }

    /// Whether something was known of the file that waits for its opening.
    pub(crate) fn is_hinted(&self) -> bool {
        self.0.hint.lock().is_some()
    }

    /// What is known of each partition's visits, whether the file was opened or not.
    pub(crate) fn visits(&self) -> Vec<Visits> {
        match (&self.heat(), &*self.0.hint.lock()) {
            (Some(heat), _) => (0..heat.len()).map(|i| heat.visits(i as u32)).collect(),
            (None, Some(hint)) => hint.visits.to_vec(),
            (None, None) => Vec::new(),
        }
    }

    /// What is known of the file's partitions.
    pub(crate) fn heat(&self) -> Option<Arc<Heat>> {
        self.0.heat.load_full()
    }

    /// The table if it is open, without opening it.
    pub(crate) fn peek(&self) -> Option<Arc<Table>> {
        let opened = self.0.table.load();
        opened.as_ref().map(|opened| Arc::clone(&opened.table))
    }
}

/// Opens and closes tables.
pub(crate) struct TableCache {
    fs: Arc<dyn Fs>,
    home: Arc<Home>,
    budget: Arc<Budget>,
    max_open: usize,
    stripes: [Mutex<()>; STRIPES],
    open: Mutex<VecDeque<Weak<Inner>>>,
    /// Files whose table is closed and of which something is known all the same.
    closed: Mutex<VecDeque<Weak<Inner>>>,
    /// Whether nothing is opened any more.
    shut: AtomicBool,
    /// Files that stay open whether their tables are or not. There for a database that is only read.
    held: Mutex<Option<Held>>,
}

/// Files by their tables' numbers.
#[derive(Default)]
struct Held {
    files: HashMap<u64, Arc<dyn ReadFile>>,
    _memory: Option<Reservation>,
}

/// What a file that is held takes, in bytes, with its entry in the map.
const HELD_FILE: usize = OPEN_FILE + 56;

/// Files that are held may take this part of the budget.
const HELD_SHARE: u64 = 16;

impl TableCache {
    /// A cache for the tables of one folder, of at most `max_open` open files.
    pub(crate) fn new(
        fs: Arc<dyn Fs>,
        dir: PathBuf,
        cache: Arc<BlockCache>,
        io: Arc<IoPool>,
        budget: Arc<Budget>,
        max_open: usize,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            budget.add_reclaimer(Weak::clone(this) as Weak<dyn Reclaim>);
            TableCache {
                fs,
                home: Arc::new(Home {
                    dir,
                    cache,
                    io,
                    plans: Interner::default(),
                }),
                budget,
                max_open: max_open.max(1),
                stripes: Default::default(),
                open: Mutex::default(),
                closed: Mutex::default(),
                shut: AtomicBool::new(false),
                held: Mutex::default(),
            }
        })
    }

    /// The clock of the block cache.
    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        self.home.cache.clock()
    }

    /// The memory budget, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.budget.limit()
    }

    pub(super) fn fs(&self) -> &dyn Fs {
        &*self.fs
    }

    pub(super) fn io(&self) -> &Arc<IoPool> {
        &self.home.io
    }

    /// Where a table file lies.
    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.home.path(number)
    }

    /// The table of a file, opened if it isn't.
    #[inline]
    pub(crate) fn get(&self, file: &impl TableFile) -> Result<Arc<Table>> {
        match &*self.load(file.slot()) {
            Some(opened) => Ok(Arc::clone(&opened.table)),
            None => self.open(file.number(), file.slot(), file.stated()),
        }
    }

    /// The table of a file if it is open, for the time of the guard; costs no reference count.
    #[inline]
    pub(crate) fn load(&self, slot: &TableSlot) -> Guard<Option<Arc<Opened>>> {
        // A plain load first: a store by every reader would make the line travel.
        if !slot.0.used.load(Ordering::Relaxed) {
            slot.0.used.store(true, Ordering::Relaxed);
        }
        slot.0.table.load()
    }

    #[cold]
    fn open(&self, number: u64, slot: &TableSlot, stated: Stated<'_>) -> Result<Arc<Table>> {
        let stripe = self.stripes.get((number % STRIPES as u64) as usize);
        let _turn = stripe.map(|stripe| stripe.lock());
        if let Some(table) = slot.peek() {
            return Ok(table);
        }
        if self.shut.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        let mut cache_id = slot.0.cache_id.load(Ordering::Relaxed);
        if cache_id == 0 {
            cache_id = self.home.cache.new_file_id();
            slot.0.cache_id.store(cache_id, Ordering::Relaxed);
        }
        let file = self.open_file(number)?;
        let home = Arc::clone(&self.home);
        let table = Table::open(file, number, cache_id, home, &slot.0.heat, Some(&stated))?;
        let table = Arc::new(table);
        if let Some(hint) = slot.0.hint.lock().take()
            && hint.visits.len() == table.heat().len()
        {
            for (partition, visits) in (0..).zip(&hint.visits) {
                table.heat().inherit(partition, *visits);
            }
        }
        slot.0.used.store(true, Ordering::Relaxed);
        let opened = Opened::new(Arc::clone(&table));
        slot.0.table.store(Some(Arc::new(opened)));
        self.open.lock().push_back(Arc::downgrade(&slot.0));
        self.close_surplus();
        Ok(table)
    }

    fn open_file(&self, number: u64) -> Result<Arc<dyn ReadFile>> {
        let held = |held: &Held| held.files.get(&number).cloned();
        if let Some(file) = self.held.lock().as_ref().and_then(held) {
            return Ok(file);
        }
        let path = self.path(number);
        loop {
            match self.fs.open(&path, Access::Direct) {
                Ok(file) => return Ok(file),
                // Others may have taken the files that the limit at open counted on.
                Err(e) if is_out_of_files(&e) && self.close_idle() => {}
                // An open that began before that.
                Err(_) if self.shut.load(Ordering::Acquire) => return Err(Error::Closed),
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    return Err(match self.held.lock().is_some() {
                        true => Error::Outdated { file: path },
                        false => Error::corruption(path, 0, "the table file is missing"),
                    });
                }
                Err(e) => return Err(Error::io("open", &path, e)),
            }
        }
    }

    /// For a database that is only read, of whose tables a writer may remove some: keeps the files of all
    /// open, if so many may be and there is memory for it; gives them with their lengths then. From now on
    /// a file that is missing is [`Error::Outdated`].
    ///
    /// # Errors
    /// `Outdated` when one is missing already; `Io`.
    pub(crate) fn hold(&self, numbers: &[u64]) -> Result<Option<Vec<DirEntry>>> {
        *self.held.lock() = Some(Held::default());
        let bytes = (numbers.len() * HELD_FILE) as u64;
        if numbers.len() > self.max_open || bytes > self.budget.limit() / HELD_SHARE {
            return Ok(None);
        }
        let mut entries = Vec::with_capacity(numbers.len());
        let mut held = Held {
            files: HashMap::with_capacity(numbers.len()),
            _memory: Some(self.budget.reserve(Role::Tables, bytes)),
        };
        for &number in numbers {
            let file = match self.open_file(number) {
                Ok(file) => file,
                // Better all files for those that are needed.
                Err(error) if error.is_out_of_files() => return Ok(None),
                Err(error) => return Err(error),
            };
            entries.push(DirEntry {
                name: table_name(number),
                len: file.len(),
            });
            held.files.insert(number, file);
        }
        *self.held.lock() = Some(held);
        Ok(Some(entries))
    }

    /// Whether open tables take more than their part.
    fn over(&self, count: usize) -> bool {
        let held = self.budget.used_by(Role::Tables);
        count > self.max_open
            || held > self.budget.limit() / SHARE
            || self.budget.used() > self.budget.limit()
    }

    /// Closes tables that were not used since the last turn (CLOCK), while there are too many.
    /// The newest stays.
    fn close_surplus(&self) {
        let mut open = self.open.lock();
        let mut turns = 2 * open.len();
        while open.len() > 1 && turns > 0 && self.over(open.len()) {
            turns -= 1;
            let Some(inner) = open.pop_front().and_then(|weak| weak.upgrade()) else {
                continue;
            };
            if turns > 0 && inner.used.swap(false, Ordering::Relaxed) {
                open.push_back(Arc::downgrade(&inner));
            } else {
                self.close(&inner);
            }
        }
    }

    fn close(&self, inner: &Arc<Inner>) {
        inner.table.store(None);
        if !inner.listed.swap(true, Ordering::Relaxed) {
            self.closed.lock().push_back(Arc::downgrade(inner));
        }
    }

    /// Closes one table that nobody uses, but for the one opened last; false if there is none.
    pub(crate) fn close_idle(&self) -> bool {
        let mut open = self.open.lock();
        let mut turns = open.len().saturating_sub(1);
        while turns > 0 {
            turns -= 1;
            let Some(inner) = open.pop_front().and_then(|weak| weak.upgrade()) else {
                continue;
            };
            // Held by its slot and, for the moment, here; its table by itself.
            let idle = inner.table.load_full().is_none_or(|opened| {
                Arc::strong_count(&opened) <= 2 && Arc::strong_count(&opened.table) <= 1
            });
            if idle {
                self.close(&inner);
                return true;
            }
            open.push_back(Arc::downgrade(&inner));
        }
        false
    }

    /// Forgets what is known of one closed table, and with it what the cache has of the file;
    /// false if there is none.
    fn forget_closed(&self) -> bool {
        let mut closed = self.closed.lock();
        while let Some(weak) = closed.pop_front() {
            let Some(inner) = weak.upgrade() else {
                continue;
            };
            inner.listed.store(false, Ordering::Relaxed);
            if inner.table.load().is_none() && inner.heat.load().is_some() {
                drop(closed);
                // Its blocks know the heat: a table opened anew would not know that they are there.
                self.home
                    .cache
                    .remove_file(inner.cache_id.load(Ordering::Relaxed));
                if inner.table.load().is_none() {
                    inner.heat.store(None);
                }
                return true;
            }
        }
        false
    }

    /// Drops from the block cache what it holds of a file that is deleted, by its name there. The
    /// file's slot is gone.
    pub(crate) fn forget(&self, cache_id: u64) {
        if cache_id != 0 {
            self.home.cache.remove_file(cache_id);
            self.open.lock().retain(|weak| weak.strong_count() > 0);
        }
    }

    /// Drops from the block cache what it holds of the files with these names there: the database
    /// closes, others may share the cache.
    pub(crate) fn forget_all(&self, cache_ids: &HashSet<u64>) {
        self.home
            .cache
            .remove_files(|file| cache_ids.contains(&file));
    }

    /// Opens no table from now on: the database is closed, and files may be anybody's.
    pub(crate) fn shut(&self) {
        self.shut.store(true, Ordering::Release);
    }

    /// How many tables are open.
    pub(crate) fn open_count(&self) -> usize {
        let open = self.open.lock();
        open.iter()
            .filter(|weak| weak.upgrade().is_some_and(|i| i.table.load().is_some()))
            .count()
    }
}

impl Reclaim for TableCache {
    fn reclaim(&self, bytes: u64) -> u64 {
        let before = self.budget.used();
        let freed = || before.saturating_sub(self.budget.used());
        while freed() < bytes && (self.close_idle() || self.forget_closed()) {}
        freed()
    }
}

impl std::fmt::Debug for TableCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCache")
            .field("dir", &self.home.dir)
            .finish_non_exhaustive()
    }
}
