//! One keyspace: what readers see of it, its options, and what is counted of it.
//!
//! A [`KeyspaceInner`] is shared by all components of the database; each of its parts says who
//! changes it. Thread-safe.

pub(super) mod filter_limits;
pub(super) mod level_counters;
mod memory;
pub(super) mod operations;
mod passed_deleted;
mod pending_values;
mod read_state;
mod retry;
pub(super) mod workload;

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use parking_lot::Mutex;

use crate::base::clock::{NEVER, later};
use crate::base::key::SeqNo;
use crate::budget::{Budget, Reservation};
use crate::cache::{BlockCache, EntrySpace};
use crate::error::{Error, Result};
use crate::filter::{FilteredScan, ScanRule};
use crate::memtable::Memtable;
use crate::operator::Operator;
use crate::options::{Design, KeyspaceOptions};
use crate::version::{StoredDesign, Version};
use filter_limits::Limits;
use level_counters::LevelCounters;
pub(super) use memory::AllKeyspaces;
use memory::{KeyspaceMemory, LastState};
use operations::Operations;
use passed_deleted::PassedDeleted;
pub(super) use pending_values::PendingValues;
pub(super) use read_state::ReadState;
use read_state::ReadStateCell;
pub(super) use retry::Failing;

/// A keyspace inside the database.
#[derive(Debug)]
pub(crate) struct KeyspaceInner {
    id: u32,
    name: String,
    /// Replaced as a whole when the keyspace is redesigned.
    options: ArcSwap<KeyspaceOptions>,
    /// Their time to live, which every write asks for.
    ttl_millis: AtomicU64,
    /// The design that the tree moves to, until it is reached.
    moving: ArcSwapOption<StoredDesign>,
    state: ReadStateCell,
    dropped: AtomicBool,
    /// How many iterators there are; and once it is dropped, for as long as there is one, what it
    /// was: what its memtables held will not be in tables.
    iterated: Mutex<(usize, Option<LastState>)>,
    /// Whether a thread is flushing: flushes of one keyspace keep their order.
    flushing: AtomicBool,
    /// Whether it is in the list of those with frozen memtables.
    listed_frozen: AtomicBool,
    /// Everything up to this sequence number is in tables; recovery skips it.
    flushed_seq: AtomicU64,
    entries: EntrySpace,
    operator: OnceLock<Operator>,
    /// Value files that only memtables point to.
    pending_values: PendingValues,
    /// What its tables have filters for scans of; none where its options name a function that was
    /// not given.
    scan_rule: ArcSwapOption<ScanRule>,
    flushes: Failing,
    compactions: Failing,
    limits: Limits,
    /// Accesses to the cache when the active memtable was last known to be empty.
    gathers_since: AtomicU64,
    /// Pages read by scans when it was last looked whether they have paid for a merge.
    seek_pages_seen: AtomicU64,
    passed_deleted: PassedDeleted,
    level_counters: LevelCounters,
    operations: Operations,
    asked_designs: Mutex<AskedDesigns>,
    memory: KeyspaceMemory,
}

/// What the automatic choice of a keyspace's design remembers.
#[derive(Debug, Default)]
pub(super) struct AskedDesigns {
    /// Operations at which it asks next.
    pub(super) next: f64,
    /// Answers in a row that were for a move.
    pub(super) agreed: u32,
}

/// Pages read by scans between two looks for merges that they have paid for, at most: as many as a
/// merge of a file of 64 MiB costs. With half of it a tree of 100,000 files is looked through twice
/// as often; with twice of it merges come later than they need. Neither was measured.
const MOST_BETWEEN: u64 = 32 << 10;

/// What a list that is made of all tables for a while takes for each: a few words.
const LISTED_BYTES: u64 = 64;

/// The time to live of entries by the options.
fn millis_of(options: &KeyspaceOptions) -> u64 {
    options.ttl.map_or(NEVER, |ttl| later(0, ttl))
}

impl KeyspaceInner {
    /// `memory` is that of [`AllKeyspaces::reserve`], `cache` the one that its tables use.
    pub(super) fn new(
        id: u32,
        name: String,
        options: KeyspaceOptions,
        version: Arc<Version>,
        flushed_seq: u64,
        memory: KeyspaceMemory,
        cache: &BlockCache,
    ) -> Self {
        let budget = memory.held.budget();
        let active = Arc::new(Memtable::new(
            budget,
            options.memtable_capacity(budget.working_limit()),
        ));
        memory.charge_tree(&version);
        let limits = Limits::new(&options, &version, budget, cache.policy());
        let (level_counters, operations) = (LevelCounters::new(budget), Operations::new(budget));
        KeyspaceInner {
            id,
            name,
            ttl_millis: AtomicU64::new(millis_of(&options)),
            options: ArcSwap::from_pointee(options),
            moving: ArcSwapOption::empty(),
            state: ReadStateCell::new(ReadState {
                active,
                frozen: Vec::new(),
                version,
            }),
            dropped: AtomicBool::new(false),
            iterated: Mutex::default(),
            flushing: AtomicBool::new(false),
            listed_frozen: AtomicBool::new(false),
            flushed_seq: AtomicU64::new(flushed_seq),
            entries: cache.entry_space(flushed_seq),
            operator: OnceLock::new(),
            pending_values: PendingValues::default(),
            scan_rule: ArcSwapOption::empty(),
            flushes: Failing::default(),
            compactions: Failing::default(),
            limits,
            gathers_since: AtomicU64::new(0),
            seek_pages_seen: AtomicU64::new(0),
            passed_deleted: PassedDeleted::default(),
            level_counters,
            operations,
            asked_designs: Mutex::default(),
            memory,
        }
    }

    #[inline]
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether entries that are written without a time to live have one all the same.
    #[inline]
    pub(super) fn gives_ttl(&self) -> bool {
        self.ttl_millis.load(Ordering::Relaxed) != NEVER
    }

    /// How long entries live that are written without a time to live.
    #[inline]
    pub(super) fn ttl(&self) -> Option<Duration> {
        let millis = self.ttl_millis.load(Ordering::Relaxed);
        (millis != NEVER).then(|| Duration::from_millis(millis))
    }

    /// By which operands are merged.
    pub(super) fn operator(&self) -> Result<&Operator> {
        self.operator.get().ok_or_else(|| Error::MergeOperator {
            keyspace: self.name.clone(),
            wanted: None,
            given: None,
        })
    }

    /// By which operands are combined as they are written, if they are.
    pub(super) fn operator_at_writes(&self) -> Option<&Operator> {
        (self.operator.get()).filter(|operator| operator.combines_at_writes())
    }

    /// Gives it its operator, before anybody reads.
    pub(super) fn set_operator(&self, operator: Option<Operator>) {
        let _ = operator.map(|operator| self.operator.set(operator));
    }

    /// What its tables have filters for scans of, if they have any.
    pub(super) fn scan_rule(&self) -> Option<Arc<ScanRule>> {
        self.scan_rule.load_full()
    }

    /// What a scan between two bounds asks filters, if it can ask them.
    #[inline]
    pub(super) fn filtered_scan(
        &self,
        lower: &Bound<Vec<u8>>,
        upper: &Bound<Vec<u8>>,
    ) -> Option<Arc<FilteredScan>> {
        let rule = self.scan_rule.load();
        FilteredScan::of(rule.as_ref()?, lower, upper).map(Arc::new)
    }

    /// Gives it what its tables have filters for scans of.
    pub(super) fn set_scan_rule(&self, rule: Option<Arc<ScanRule>>) {
        self.scan_rule.store(rule);
    }

    /// The options of this moment.
    #[inline]
    pub(super) fn options(&self) -> Guard<Arc<KeyspaceOptions>> {
        self.options.load()
    }

    /// What readers see at this moment.
    #[inline]
    pub(super) fn state(&self) -> Guard<Arc<ReadState>> {
        self.state.load()
    }

    /// The version of this moment.
    pub(super) fn version(&self) -> Arc<Version> {
        self.state.load().version.clone()
    }

    /// How often the read state was changed.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.state.generation()
    }

    /// A read state and a visible sequence number that belong together.
    #[inline]
    pub(super) fn read_point(&self, visible: impl Fn() -> SeqNo) -> (Guard<Arc<ReadState>>, SeqNo) {
        self.state.read_point(visible)
    }

    /// For what is cached of its entries.
    #[inline]
    pub(super) fn entries(&self) -> &EntrySpace {
        &self.entries
    }

    /// Replaces the read state by what `change` makes of it.
    pub(super) fn update(&self, change: impl Fn(&ReadState) -> ReadState) {
        self.state.update(change);
    }

    /// An empty memtable of the size that suits the budget, with room for an entry of `size` bytes.
    fn fresh_memtable(&self, budget: &Arc<Budget>, size: usize) -> Memtable {
        let capacity = self.options().memtable_capacity(budget.working_limit());
        Memtable::new(budget, capacity.max(Memtable::room_for(1, size)))
    }

    /// Accesses to the cache when the active memtable was last known to be empty.
    pub(super) fn gathers_since(&self) -> u64 {
        self.gathers_since.load(Ordering::Relaxed)
    }

    /// The active memtable is empty, after so many accesses to the cache.
    pub(super) fn begin_to_gather(&self, accesses: u64) {
        self.gathers_since.store(accesses, Ordering::Relaxed);
    }

    /// Puts a fresh memtable, which takes an entry of `size` bytes, in the place of the active one,
    /// which waits to be flushed if there is anything in it. For whoever keeps the list of those
    /// with frozen memtables.
    pub(super) fn freeze_active(&self, budget: &Arc<Budget>, size: usize) {
        let fresh = Arc::new(self.fresh_memtable(budget, size));
        let full = self.state.load().active.clone();
        self.operations.add_frozen(full.len() as u64);
        full.trim();
        self.state.freeze_active(&fresh);
        self.passed_deleted.begin_anew();
    }

    /// Counts deleted entries of memtables that a scan went past. Whether there are so many that
    /// the active memtable is to be flushed, which rids it of them.
    pub(super) fn has_passed_deleted(&self, entries: u64) -> bool {
        let state = self.state();
        let enough = self.passed_deleted.add(entries, state.active.len() as u64);
        enough && state.frozen.is_empty()
    }

    /// Lets go of all memtables, for an open that is refused, and takes an empty one with room for
    /// an entry of `size` bytes; what they were charged.
    pub(super) fn let_go_of_memtables(&self, budget: &Arc<Budget>, size: usize) -> u64 {
        let state = Guard::into_inner(self.state.load());
        let charged = state.memtables().map(|of| of.charged() as u64).sum();
        let fresh = Arc::new(self.fresh_memtable(budget, size));
        self.state.update(|state| ReadState {
            active: fresh.clone(),
            frozen: Vec::new(),
            version: state.version.clone(),
        });
        charged
    }

    /// Notes whether it is in the list of those with frozen memtables; whether it was.
    pub(super) fn list_frozen(&self, listed: bool) -> bool {
        self.listed_frozen.swap(listed, Ordering::Relaxed)
    }

    /// Claims its flushes for this thread; false where another has them.
    pub(super) fn claim_flushes(&self) -> bool {
        !self.flushing.swap(true, Ordering::SeqCst)
    }

    /// Gives its flushes up.
    pub(super) fn release_flushes(&self) {
        self.flushing.store(false, Ordering::Release);
    }

    /// Whether a thread has claimed its flushes.
    pub(super) fn is_flushing(&self) -> bool {
        self.flushing.load(Ordering::SeqCst)
    }

    /// Everything up to this sequence number is in tables.
    pub(super) fn flushed_seq(&self) -> SeqNo {
        self.flushed_seq.load(Ordering::Acquire)
    }

    /// Everything up to a sequence number is in tables now.
    pub(super) fn set_flushed_seq(&self, seq: SeqNo) {
        self.flushed_seq.store(seq, Ordering::Release);
    }

    /// Flushes that fail.
    pub(super) fn flushes(&self) -> &Failing {
        &self.flushes
    }

    /// Value files that only memtables point to.
    pub(super) fn pending_values(&self) -> &PendingValues {
        &self.pending_values
    }

    /// Compactions that fail.
    pub(super) fn compactions(&self) -> &Failing {
        &self.compactions
    }

    /// Whether it is time to look for a merge that scans have paid for, where those of all
    /// keyspaces have read so many pages to find their place. To look takes time in the number of
    /// files, so it is once in as many pages, up to [`MOST_BETWEEN`].
    pub(super) fn scans_may_have_paid(&self, seek_pages: u64) -> bool {
        let seen = self.seek_pages_seen.load(Ordering::Relaxed);
        let more = seek_pages.saturating_sub(seen);
        if more == 0 || !self.options().merge_for_scans || self.check_alive().is_err() {
            return false;
        }
        let version = self.version();
        let files = version.runs().map(|(_, run)| run.files().len() as u64);
        let enough = more >= files.sum::<u64>().min(MOST_BETWEEN);
        if enough {
            self.seek_pages_seen.store(seek_pages, Ordering::Relaxed);
        }
        enough
    }

    /// Which filter modules lookups may read.
    #[inline]
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What lookups did in each level.
    #[inline]
    pub(super) fn level_counters(&self) -> &LevelCounters {
        &self.level_counters
    }

    /// What is done with it.
    #[inline]
    pub(super) fn operations(&self) -> &Operations {
        &self.operations
    }

    /// What the automatic choice of a design remembers.
    pub(super) fn asked_designs(&self) -> &Mutex<AskedDesigns> {
        &self.asked_designs
    }

    /// Charges what comes with the tables of a version that readers are to see.
    pub(super) fn charge_tree(&self, version: &Version) {
        self.memory.charge_tree(version);
    }

    /// Memory for a list of the tables of a version, a few words for each, while it is gone
    /// through;
    /// `None` where there is none left for it.
    pub(super) fn list_of(&self, version: &Version) -> Option<Reservation> {
        self.memory
            .held
            .try_beside(LISTED_BYTES * version.sums().files as u64)
    }

    /// The design that the tree moves to, until it is reached.
    pub(super) fn moving(&self) -> Option<Arc<StoredDesign>> {
        self.moving.load_full()
    }

    /// The tree has the design it moved to.
    pub(super) fn end_move(&self) {
        self.moving.store(None);
    }

    /// Takes on a design that the manifest has; it is moved to unless it was reached.
    pub(super) fn take_on(&self, stored: &StoredDesign, design: &Design) {
        let mut options = KeyspaceOptions::clone(&self.options());
        // Filter bits are kept in thousandths.
        if !options.design().is_kept_as(design) {
            options = options.with_design(design);
        }
        self.limits.set_options(&options);
        self.options.store(Arc::new(options));
        let moving = (!stored.reached).then(|| Arc::new(*stored));
        self.moving.store(moving);
    }

    /// Takes on options that the manifest has: new tables are made by them.
    pub(super) fn take_options(&self, options: KeyspaceOptions) {
        let policy = options.filter_policy;
        self.limits.set_options(&options);
        self.ttl_millis
            .store(millis_of(&options), Ordering::Relaxed);
        self.options.store(Arc::new(options));
        self.limits.set_policy(policy, || self.version());
    }

    /// Counts an iterator.
    pub(super) fn add_iterator(&self) {
        self.iterated.lock().0 += 1;
    }

    /// An iterator is gone.
    pub(super) fn remove_iterator(&self) {
        let mut iterated = self.iterated.lock();
        iterated.0 -= 1;
        if iterated.0 == 0 {
            iterated.1 = None;
        }
    }

    /// What a keyspace that was dropped was before, for the iterators there are.
    pub(super) fn last_state(&self) -> Option<Arc<ReadState>> {
        let iterated = self.iterated.lock();
        iterated.1.as_ref().map(|last| last.state.clone())
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn check_alive(&self) -> Result<()> {
        if !self.is_dropped() {
            Ok(())
        } else {
            Err(Error::KeyspaceDropped {
                name: self.name.clone(),
            })
        }
    }

    /// Drops it, once the manifest has dropped it: its state becomes empty, but for the iterators
    /// there are.
    pub(super) fn drop_contents(&self, budget: &Arc<Budget>) {
        self.dropped.store(true, Ordering::Release);
        let mut iterated = self.iterated.lock();
        if iterated.0 > 0 {
            let state = Guard::into_inner(self.state.load());
            iterated.1 = Some(LastState::new(state, &self.memory));
        }
        drop(iterated);
        let fresh = Arc::new(Memtable::new(budget, 4 << 10));
        self.state.update(|_| ReadState {
            active: fresh.clone(),
            frozen: Vec::new(),
            version: Arc::default(),
        });
    }
}
