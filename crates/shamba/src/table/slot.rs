//! Where a file's open table is kept, and what is known of the file while it is closed.
//!
//! Thread-safe. Filled and emptied by the [`TableCache`](super::TableCache).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use shamba_model::expected_reads::Visits;

use super::pinned::Opened;
use super::reader::Table;
use super::stated::Stated;
use crate::base::once_arc::OnceArc;
use crate::base::pin_holder::PinHolder;
use crate::budget::{Budget, Reservation, Role, most_of_seen, shared};
use crate::value::PartitionStats;

/// A file of the tree, as the tables' cache knows it.
pub(crate) trait TableFile {
    /// Its number, which is its name.
    fn number(&self) -> u64;
    /// Where its open table is kept.
    fn slot(&self) -> &TableSlot;
    /// What the manifest says of it. Asked for when the table is opened, not when it is used.
    fn stated(&self) -> Stated<'_>;
}

/// What was known of a file's partitions when the database closed.
#[derive(Debug)]
pub(crate) struct Hint {
    /// Of each partition.
    pub(crate) visits: Box<[Visits]>,
    /// The memory it takes.
    pub(crate) _held: Reservation,
}

/// Where a file's open table is kept, if it is open. Takes a word, and memory of its own from the
/// first time that the file is opened.
#[derive(Debug, Default)]
pub(crate) struct TableSlot(OnceArc<SlotState>);

#[derive(Debug)]
pub(super) struct SlotState {
    pub(super) table: ArcSwapOption<Opened>,
    pub(super) used: AtomicBool,
    /// The file's name in the block cache, kept when the table is closed; 0 before the first time.
    pub(super) cache_id: AtomicU64,
    /// What is known of its partitions, kept when the table is closed, while there is memory.
    pub(super) partition_stats: ArcSwapOption<PartitionStats>,
    /// Whether it is among the table cache's closed ones.
    pub(super) listed: AtomicBool,
    /// Pages that scans read from storage to find their place in the file.
    seek_pages: AtomicU32,
    /// What the statistics of its partitions start with.
    pub(super) hint: ArcSwapOption<Hint>,
    _held: Reservation,
}

const STATE_BYTES: u64 = shared(size_of::<SlotState>()) as u64;

impl SlotState {
    /// That of a file that was never opened; none once so many are remembered as may be.
    fn new(budget: &Arc<Budget>) -> Option<SlotState> {
        let most = most_of_seen(budget.limit());
        let fits = budget.used_by(Role::Seen) + STATE_BYTES <= most;
        // Of the share it is certain: without it every lookup would open the table.
        fits.then(|| SlotState {
            table: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
            cache_id: AtomicU64::new(0),
            partition_stats: ArcSwapOption::empty(),
            listed: AtomicBool::new(false),
            seek_pages: AtomicU32::new(0),
            hint: ArcSwapOption::empty(),
            _held: budget.reserve(Role::Seen, STATE_BYTES),
        })
    }
}

impl TableSlot {
    #[inline]
    pub(super) fn inner(&self) -> Option<&SlotState> {
        self.0.get()
    }

    /// The slot's memory, if there is any to be had.
    pub(super) fn make(&self, budget: &Arc<Budget>) -> Option<Arc<SlotState>> {
        if self.0.get().is_none() {
            self.0.get_or_set(Arc::new(SlotState::new(budget)?));
        }
        self.0.to_arc()
    }

    /// The file's name in the block cache; 0 if it was never opened.
    pub(crate) fn cache_id(&self) -> u64 {
        let id = |inner: &SlotState| inner.cache_id.load(Ordering::Relaxed);
        self.inner().map_or(0, id)
    }

    /// The slot of a file that was never opened and has statistics all the same; an empty one where
    /// memory is short.
    pub(super) fn with_partition_stats(
        cache_id: u64,
        partition_stats: Arc<PartitionStats>,
        budget: &Arc<Budget>,
    ) -> Self {
        let Some(inner) = SlotState::new(budget) else {
            return TableSlot::default();
        };
        inner.cache_id.store(cache_id, Ordering::Relaxed);
        inner.partition_stats.store(Some(partition_stats));
        TableSlot(OnceArc::from(Arc::new(inner)))
    }

    /// Keeps what was known of the partitions of a file that is not open yet, until it is, while
    /// there is memory.
    pub(crate) fn set_hint(&self, hint: Hint, budget: &Arc<Budget>) {
        if let Some(inner) = self.make(budget) {
            inner.hint.store(Some(Arc::new(hint)));
        }
    }

    /// Whether something was known of the file that waits for its opening.
    pub(crate) fn is_hinted(&self) -> bool {
        self.inner()
            .is_some_and(|inner| inner.hint.load().is_some())
    }

    /// What is known of each partition's visits, whether the file was opened or not.
    pub(crate) fn visits(&self) -> Vec<Visits> {
        let Some(inner) = self.inner() else {
            return Vec::new();
        };
        match (&self.partition_stats(), &*inner.hint.load()) {
            (Some(partition_stats), _) => (0..partition_stats.len())
                .map(|i| partition_stats.visits(i as u32))
                .collect(),
            (None, Some(hint)) => hint.visits.to_vec(),
            (None, None) => Vec::new(),
        }
    }

    /// The visits of all partitions together; `None` where nothing is kept of them.
    pub(crate) fn all_visits(&self) -> Option<Visits> {
        let inner = self.inner()?;
        if let Some(partition_stats) = &*inner.partition_stats.load() {
            return Some(partition_stats.all_visits());
        }
        let hint = inner.hint.load();
        let add = |mut sum: Visits, more: &Visits| {
            sum += *more;
            sum
        };
        let visits = &hint.as_ref()?.visits;
        Some(visits.iter().fold(Visits::default(), add))
    }

    /// Whether a lookup was counted since this was asked last.
    pub(crate) fn take_accessed(&self) -> bool {
        let inner = self.inner();
        inner.is_some_and(|inner| {
            let stats = inner.partition_stats.load();
            stats.as_ref().is_some_and(|stats| stats.take_accessed())
        })
    }

    /// Counts pages that a scan read from storage to find its place in the file; false where there
    /// is no memory to.
    pub(super) fn add_seek_pages(&self, pages: u32) -> bool {
        let add = |inner: &SlotState| inner.seek_pages.fetch_add(pages, Ordering::Relaxed);
        self.inner().map(add).is_some()
    }

    /// Has so many of them counted.
    #[cfg(test)]
    pub(crate) fn set_seek_pages(&self, pages: u32, budget: &Arc<Budget>) {
        let state = self.make(budget).unwrap();
        state.seek_pages.store(pages, Ordering::Relaxed);
    }

    /// How many of them there were, as far as it is known.
    pub(crate) fn seek_pages(&self) -> u32 {
        let pages = |inner: &SlotState| inner.seek_pages.load(Ordering::Relaxed);
        self.inner().map_or(0, pages)
    }

    /// What is known of the file's partitions.
    pub(crate) fn partition_stats(&self) -> Option<Arc<PartitionStats>> {
        self.inner()?.partition_stats.load_full()
    }

    /// The table if it is open, without opening it.
    pub(crate) fn peek(&self) -> Option<Arc<Table>> {
        let opened = self.inner()?.table.load();
        opened.as_ref().map(|opened| Arc::clone(opened.table()))
    }
}

impl PinHolder for SlotState {
    fn unpin_all(&self) {
        let current = self.table.load_full();
        if let Some(opened) = current.as_ref().filter(|opened| opened.pinned().is_some()) {
            let bare = Opened::new(Arc::clone(opened.table()));
            self.table.compare_and_swap(&current, Some(Arc::new(bare)));
        }
    }
}
