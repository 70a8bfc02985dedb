//! Opens tables on demand and closes those not used lately.
//!
//! A [`TableSlot`] lives with the file it is for. [`TableCache::visit`] costs one atomic load while
//! the table is open. Opening takes one of a few locks, chosen by file number; the ring of open
//! tables has its own lock, taken only to open and to close. Tables in use stay usable when they
//! are closed here: their memory is given back when the last user lets go. When essential memory
//! finds no room anywhere else, tables that nobody uses are closed for it, and then what is known
//! of closed ones is forgotten. How many files are open, those of tables in use too, `files`
//! bounds. Thread-safe.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;

use super::files::OpenFiles;
use super::pinned::Opened;
use super::reader::Table;
use super::slot::{SlotState, TableFile, TableSlot};
use super::source::Home;
use super::stated::Stated;
use crate::base::interner::Interner;
use crate::base::pin_holder::PinHolder;
use crate::budget::{Budget, Reclaim, Role, open_tables};
use crate::cache::{BlockCache, IoPool};
use crate::error::{Error, Result};
use crate::fs::{DirEntry, Fs};
use crate::value::{PartitionStats, PolicyState};

/// Locks for opening.
const STRIPES: usize = 16;

/// Opens and closes tables.
pub(crate) struct TableCache {
    home: Arc<Home>,
    budget: Arc<Budget>,
    stripes: [Mutex<()>; STRIPES],
    open: Mutex<VecDeque<Weak<SlotState>>>,
    /// Pages that scans read from storage to find their place in a file.
    seek_pages: AtomicU64,
    /// Files whose table is closed and of which something is known all the same.
    closed: Mutex<VecDeque<Weak<SlotState>>>,
}

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
                home: Arc::new(Home {
                    files: OpenFiles::new(fs, dir, Arc::clone(&budget), max_open),
                    cache,
                    io,
                    plans: Interner::default(),
                }),
                budget,
                stripes: Default::default(),
                seek_pages: AtomicU64::new(0),
                open: Mutex::default(),
                closed: Mutex::default(),
            }
        })
    }

    /// What is known of the block cache as a whole.
    #[inline]
    pub(crate) fn policy(&self) -> &PolicyState {
        self.home.cache.policy()
    }

    /// Whether blocks may be pinned, and those that are may be used.
    #[inline]
    pub(crate) fn may_pin(&self) -> bool {
        self.policy().may_pin()
    }

    /// Counts accesses to blocks that did not go through the block cache.
    pub(crate) fn advance(&self, accesses: u64) {
        self.policy().advance(accesses);
    }

    /// Counts pages that a scan read from storage to find its place in a file.
    pub(crate) fn count_seek_pages(&self, slot: &TableSlot, pages: u32) {
        if slot.add_seek_pages(pages) {
            self.seek_pages.fetch_add(pages.into(), Ordering::Relaxed);
        }
    }

    /// How many there were, in whatever files.
    pub(crate) fn seek_pages(&self) -> u64 {
        self.seek_pages.load(Ordering::Relaxed)
    }

    /// Where the file of a table lies.
    pub(crate) fn path_of(&self, number: u64) -> PathBuf {
        self.home.files.path(number)
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(super) fn fs(&self) -> &dyn Fs {
        self.home.files.fs()
    }

    pub(super) fn io(&self) -> &Arc<IoPool> {
        &self.home.io
    }

    /// The table of a file, opened if it isn't.
    pub(crate) fn get(&self, file: &impl TableFile) -> Result<Arc<Table>> {
        match &*self.visit(file)? {
            Some(opened) => Ok(Arc::clone(opened.table())),
            None => Err(Error::Closed),
        }
    }

    /// The table of a file, opened if it isn't, for the time of the guard, which is never `None`;
    /// costs no reference count while it is open.
    #[inline(always)]
    pub(crate) fn visit(&self, file: &impl TableFile) -> Result<Guard<Option<Arc<Opened>>>> {
        let open = self.load(file.slot());
        if open.is_some() {
            return Ok(open);
        }
        let opened = self.open(file.number(), file.slot(), file.stated())?;
        Ok(Guard::from_inner(Some(opened)))
    }

    /// The table of an input of a merge, which is read from end to end and then removed: if it
    /// isn't open, nobody else gets it, and it is closed when it is dropped. So a merge of
    /// thousands of files takes the memory of a few.
    pub(crate) fn get_once(&self, file: &impl TableFile) -> Result<Arc<Table>> {
        if let Some(table) = file.slot().peek() {
            return Ok(table);
        }
        if self.home.files.is_shut() {
            return Err(Error::Closed);
        }
        self.close_surplus(1);
        // What is known of the file and what the cache has of it counts; nothing is added to it.
        let id = match file.slot().cache_id() {
            0 => self.home.cache.new_file_id(),
            id => id,
        };
        let partition_stats = ArcSwapOption::new(file.slot().partition_stats());
        self.open_file(file.number(), id, &partition_stats, file.stated())
    }

    /// A lookup of a sample came to a partition; pins what is in memory once enough of them found
    /// something not pinned.
    pub(crate) fn missed(&self, slot: &TableSlot, opened: &Opened, partition: Option<u32>) {
        let Some(partition) = partition else { return };
        if self.policy().is_active() && opened.counts_as_missed(partition as usize) {
            self.pin(slot, opened.table());
        }
    }

    #[cold]
    fn pin(&self, slot: &TableSlot, table: &Arc<Table>) {
        let Some(state) = slot.make(self.budget()) else {
            return;
        };
        let current = state.table.load_full();
        let of_table = |now: &&Arc<Opened>| Arc::ptr_eq(now.table(), table);
        let before = current.as_ref().filter(of_table);
        let Some(opened) = before.and_then(|before| before.pin_cached()) else {
            return;
        };
        state
            .table
            .compare_and_swap(&current, Some(Arc::new(opened)));
        // Only now: whoever lets go before finds nothing and must be told again.
        let holder: Arc<dyn PinHolder> = state;
        table
            .partition_stats()
            .set_pin_holder(Arc::downgrade(&holder));
    }

    /// The table of a file if it is open, for the time of the guard.
    #[inline]
    fn load(&self, slot: &TableSlot) -> Guard<Option<Arc<Opened>>> {
        let Some(inner) = slot.inner() else {
            return Guard::from_inner(None);
        };
        // A plain load first: a store by every reader would make the line travel.
        if !inner.used.load(Ordering::Relaxed) {
            inner.used.store(true, Ordering::Relaxed);
        }
        inner.table.load()
    }

    #[cold]
    fn open(&self, number: u64, slot: &TableSlot, stated: Stated<'_>) -> Result<Arc<Opened>> {
        let stripe = self.stripes.get((number % STRIPES as u64) as usize);
        let _turn = stripe.map(|stripe| stripe.lock());
        if let Some(opened) = slot.inner().and_then(|inner| inner.table.load_full()) {
            return Ok(opened);
        }
        if self.home.files.is_shut() {
            return Err(Error::Closed);
        }
        let Some(inner) = slot.make(&self.budget) else {
            // Opened for this once: there is no memory to remember where.
            let id = self.home.cache.new_file_id();
            let table = self.open_file(number, id, &ArcSwapOption::empty(), stated)?;
            return Ok(Arc::new(Opened::new(table)));
        };
        let mut cache_id = inner.cache_id.load(Ordering::Relaxed);
        if cache_id == 0 {
            cache_id = self.home.cache.new_file_id();
            inner.cache_id.store(cache_id, Ordering::Relaxed);
        }
        // First, so that no table that stays open has its file closed for this one.
        self.close_surplus(1);
        let table = self.open_file(number, cache_id, &inner.partition_stats, stated)?;
        if let Some(hint) = inner.hint.swap(None)
            && hint.visits.len() == table.partition_stats().len()
        {
            for (partition, visits) in (0..).zip(&hint.visits) {
                table.partition_stats().inherit(partition, *visits);
            }
        }
        inner.used.store(true, Ordering::Relaxed);
        let opened = Arc::new(Opened::new(table));
        inner.table.store(Some(Arc::clone(&opened)));
        self.open.lock().push_back(Arc::downgrade(&inner));
        self.close_surplus(0);
        Ok(opened)
    }

    /// Opens a table's file.
    fn open_file(
        &self,
        number: u64,
        cache_id: u64,
        partition_stats: &ArcSwapOption<PartitionStats>,
        stated: Stated<'_>,
    ) -> Result<Arc<Table>> {
        let file = self.home.files.open(number)?;
        let home = Arc::clone(&self.home);
        let table = Table::open(file, cache_id, home, partition_stats, Some(&stated))?;
        Ok(Arc::new(table))
    }

    /// Keeps the files of tables open, see [`OpenFiles::hold`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn hold(&self, numbers: &[u64]) -> Result<Option<Vec<DirEntry>>> {
        self.home.files.hold(numbers)
    }

    /// Closes the files that [`Self::hold`] keeps open; false if there are none.
    pub(crate) fn release_held(&self) -> bool {
        self.home.files.release_held()
    }

    /// Closes the file of a table, which is opened again when it is read; false if none is open.
    pub(crate) fn close_file(&self) -> bool {
        self.home.files.close_one()
    }

    /// Whether open tables take more than their part.
    fn over(&self, count: usize) -> bool {
        let held = self.budget.used_by(Role::Tables);
        count > self.home.files.most()
            || held > open_tables(self.budget.limit())
            || self.budget.used() > self.budget.limit()
    }

    /// Closes tables that were not used since the last turn (CLOCK), while there are too many, with
    /// so many more. The newest stays.
    fn close_surplus(&self, more: usize) {
        let mut open = self.open.lock();
        let mut turns = 2 * open.len();
        while open.len() > 1 && turns > 0 && self.over(open.len() + more) {
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

    fn close(&self, inner: &Arc<SlotState>) {
        inner.table.store(None);
        if !inner.listed.swap(true, Ordering::Relaxed) {
            self.closed.lock().push_back(Arc::downgrade(inner));
        }
    }

    /// Closes one table that nobody uses, but for the one opened last; false if there is none.
    fn close_idle(&self) -> bool {
        let mut open = self.open.lock();
        let mut turns = open.len().saturating_sub(1);
        while turns > 0 {
            turns -= 1;
            let Some(inner) = open.pop_front().and_then(|weak| weak.upgrade()) else {
                continue;
            };
            // Held by its slot and, for the moment, here; its table by itself.
            let idle = inner.table.load_full().is_none_or(|opened| {
                Arc::strong_count(&opened) <= 2 && Arc::strong_count(opened.table()) <= 1
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
            if inner.table.load().is_none() && inner.partition_stats.load().is_some() {
                drop(closed);
                // Its blocks know these statistics: a table opened anew would have others, and not
                // know that the blocks are there.
                self.home
                    .cache
                    .remove_file(inner.cache_id.load(Ordering::Relaxed));
                if inner.table.load().is_none() {
                    inner.partition_stats.store(None);
                }
                return true;
            }
        }
        false
    }

    /// Drops from the block cache what it holds of files that are deleted, by their names there; 0
    /// is none. The files' slots are gone.
    pub(crate) fn forget(&self, cache_ids: &HashSet<u64>) {
        if cache_ids.iter().any(|id| *id != 0) {
            self.forget_all(cache_ids);
            self.open.lock().retain(|weak| weak.strong_count() > 0);
        }
    }

    /// Opens a new table before anybody asks for it, if what is known of it stays and no other has
    /// to be closed for it. What fails here fails for who reads it.
    pub(crate) fn open_early(&self, file: &impl TableFile) {
        let open = self.open.lock().len();
        if file.slot().partition_stats().is_some() && !self.over(open + 1) {
            self.get(file).map_err(|error| log::warn!("{error}")).ok();
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
        self.home.files.shut();
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
            .field("files", &self.home.files)
            .finish_non_exhaustive()
    }
}
