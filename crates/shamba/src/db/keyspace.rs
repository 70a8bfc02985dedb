//! Keyspaces (column families): trees of their own behind one log and one memory budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};

use parking_lot::Mutex;

use super::advise::{Advice, AutoState};
use super::filter_limits::Limits;
use super::iter::{Iter, IterOptions};
use super::level_counters::LevelCounters;
use super::operations::Operations;
use super::retry::Failing;
use super::value::Value;
use super::{DbInner, DbShared};
use crate::budget::{Budget, Reservation, Role, shared};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::options::{Design, KeyspaceOptions, WriteOptions};
use crate::policy::FilterPolicy;
use crate::version::{StoredDesign, Version};

/// What a reader needs, swapped as a whole: readers load it without a lock.
#[derive(Debug, Clone)]
pub(crate) struct ReadState {
    /// Takes new writes.
    pub(crate) active: Arc<Memtable>,
    /// Full memtables waiting to be flushed, newest first.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

/// A keyspace inside the database.
#[derive(Debug)]
pub(crate) struct KeyspaceInner {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Replaced as a whole when the keyspace is redesigned.
    options: ArcSwap<KeyspaceOptions>,
    /// The design that the tree moves to, until it is reached.
    pub(crate) moving: ArcSwapOption<StoredDesign>,
    pub(crate) state: ArcSwap<ReadState>,
    /// Rises with every change of `state`, when it is over, so that iterators notice cheaply.
    pub(crate) generation: AtomicU64,
    /// Rises with every change of `state`, before it begins: while it is equal to `generation` there
    /// is none.
    changes: AtomicU64,
    pub(crate) dropped: AtomicBool,
    /// How many iterators there are; and once it is dropped, for as long as there is one, what it was: what
    /// its memtables held will not be in tables.
    iterated: Mutex<(usize, Option<Arc<ReadState>>)>,
    /// Whether a thread is flushing: flushes of one keyspace keep their order.
    pub(crate) flushing: AtomicBool,
    /// Whether it is in the list of those with frozen memtables, which alone looks at this.
    pub(super) listed: AtomicBool,
    /// Everything up to this sequence number is in tables; recovery skips it.
    pub(crate) flushed_seq: AtomicU64,
    /// Flushes and compactions that fail.
    pub(super) flushes: Failing,
    pub(super) compactions: Failing,
    /// Which filter modules lookups may read.
    pub(crate) limits: Limits,
    /// What lookups did in each level.
    pub(crate) level_counters: LevelCounters,
    /// What is done with it.
    pub(crate) operations: Operations,
    /// What the automatic choice of a design remembers.
    pub(super) auto: Mutex<AutoState>,
    held: Reservation,
}

/// What a list that is made of all tables for a while takes for each: a few words.
const LISTED_BYTES: u64 = 64;

/// What a keyspace takes beside what its memtables, tables and counters are charged: itself, its options, its
/// read state, and a version of few levels.
const KEYSPACE_BYTES: usize =
    shared(size_of::<KeyspaceInner>()) + shared(size_of::<KeyspaceOptions>()) + 512;

impl KeyspaceInner {
    pub(crate) fn new(
        id: u32,
        name: String,
        options: KeyspaceOptions,
        version: Arc<Version>,
        flushed_seq: u64,
        budget: &Arc<Budget>,
    ) -> Self {
        let active = Arc::new(Memtable::new(
            budget,
            options.memtable_capacity(budget.limit()),
        ));
        let limits = Limits::new(&options, &version, budget);
        KeyspaceInner {
            id,
            name,
            options: ArcSwap::from_pointee(options),
            moving: ArcSwapOption::empty(),
            state: ArcSwap::from_pointee(ReadState {
                active,
                frozen: Vec::new(),
                version,
            }),
            generation: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
            iterated: Mutex::default(),
            flushing: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            flushed_seq: AtomicU64::new(flushed_seq),
            flushes: Failing::default(),
            compactions: Failing::default(),
            limits,
            level_counters: LevelCounters::new(budget),
            operations: Operations::new(budget),
            auto: Mutex::new(AutoState::default()),
            held: budget.reserve_at_once(Role::Tables, KEYSPACE_BYTES as u64),
        }
    }

    /// Memory for a list of the tables of a version, a few words for each, while it is gone through; `None`
    /// where there is none left for it.
    pub(super) fn list_of(&self, version: &Version) -> Option<Reservation> {
        self.held
            .try_beside(LISTED_BYTES * version.sums().files as u64)
    }

    /// The options of this moment.
    #[inline]
    pub(crate) fn options(&self) -> Guard<Arc<KeyspaceOptions>> {
        self.options.load()
    }

    /// Takes on a design that the manifest has; it is moved to unless it was reached.
    pub(super) fn take_on(&self, stored: &StoredDesign, design: &Design) {
        let options = KeyspaceOptions::clone(&self.options()).with_design(design);
        self.limits.set_wish(options.filter_wish());
        self.options.store(Arc::new(options));
        let moving = (!stored.reached).then(|| Arc::new(*stored));
        self.moving.store(moving);
    }

    /// Replaces the read state by what `change` makes of it.
    pub(crate) fn update(&self, change: impl Fn(&ReadState) -> ReadState) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.state.rcu(|state| change(state));
        self.generation.fetch_add(1, Ordering::SeqCst);
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
        self.iterated.lock().1.clone()
    }

    /// Empties the state of a keyspace that was dropped, but for the iterators there are.
    pub(super) fn empty(&self, fresh: ReadState) {
        let mut iterated = self.iterated.lock();
        if iterated.0 > 0 {
            iterated.1 = Some(self.state.load_full());
        }
        drop(iterated);
        self.update(|_| fresh.clone());
    }

    /// Whether no change of `state` began since `generation` was what is given, and none was going on
    /// then.
    #[inline]
    pub(super) fn is_unchanged_since(&self, generation: u64) -> bool {
        self.changes.load(Ordering::SeqCst) == generation
    }

    /// An empty memtable of the size that suits the budget, with room for an entry of `size` bytes.
    pub(crate) fn fresh_memtable(&self, budget: &Arc<Budget>, size: usize) -> Memtable {
        let capacity = self.options().memtable_capacity(budget.limit());
        Memtable::new(budget, capacity.max(Memtable::room_for(1, size)))
    }

    /// Puts a fresh memtable in the place of the active one, which waits to be flushed if there is
    /// anything in it. See [`DbInner::freeze_active`].
    pub(super) fn freeze_active(&self, fresh: Memtable) {
        let fresh = Arc::new(fresh);
        let full = self.state.load().active.clone();
        self.operations.add_frozen(full.len() as u64);
        full.trim();
        self.update(|state| {
            let mut frozen = Vec::with_capacity(state.frozen.len() + 1);
            if !state.active.is_empty() {
                frozen.push(state.active.clone());
            }
            frozen.extend(state.frozen.iter().cloned());
            ReadState {
                active: fresh.clone(),
                frozen,
                version: state.version.clone(),
            }
        });
    }

    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::KeyspaceDropped {
                name: self.name.clone(),
            });
        }
        Ok(())
    }
}

/// A handle to a keyspace. Cheap to clone; it keeps the database open.
#[derive(Debug, Clone)]
pub struct Keyspace {
    db: Arc<DbShared>,
    inner: Arc<KeyspaceInner>,
}

impl Keyspace {
    pub(crate) fn new(db: Arc<DbShared>, inner: Arc<KeyspaceInner>) -> Self {
        Keyspace { db, inner }
    }

    pub(crate) fn inner(&self) -> &Arc<KeyspaceInner> {
        &self.inner
    }

    pub(crate) fn id(&self) -> u32 {
        self.inner.id
    }

    pub(crate) fn database_id(&self) -> u64 {
        self.db.inner.id
    }

    pub(crate) fn check_database(&self, db: &DbInner) -> Result<()> {
        if self.db.inner.id == db.id {
            Ok(())
        } else {
            Err(Error::WrongDatabase { what: "keyspace" })
        }
    }

    /// The keyspace's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Sets a key, with the database's durability.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// [`Keyspace::put`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.inner.check_alive()?;
        let (key, value) = (key.as_ref(), Some(value.as_ref()));
        self.db.inner.write_one(self.inner.id, key, value, options)
    }

    /// Removes a key; one that does not exist is no error.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// [`Keyspace::delete`] with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write).
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.inner.check_alive()?;
        self.db
            .inner
            .write_one(self.inner.id, key.as_ref(), None, options)
    }

    /// The value of a key, if it has one.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.db.inner.get(&self.inner, key.as_ref(), None)
    }

    /// Whether a key has a value. Reads what [`Keyspace::get`] reads, and copies no value.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.db.inner.contains_key(&self.inner, key.as_ref(), None)
    }

    /// The values of several keys at one moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.db.inner.multi_get(&self.inner, keys, None)
    }

    /// Merges everything between two keys (inclusive; `None` is unbounded) down to one run, dropping
    /// what no reader can see.
    ///
    /// # Errors
    /// As [`Db::write`](crate::Db::write), and the failure of the compaction.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.db.inner.compact_range(&self.inner, from, to)
    }

    /// About how many bytes of tables (not of memtables) the keys between two bounds take, `from`
    /// inclusive, `to` exclusive.
    #[must_use]
    pub fn approximate_size(&self, from: &[u8], to: &[u8]) -> u64 {
        self.db.inner.approximate_size(&self.inner, from, to)
    }

    /// Changes which filter modules lookups read, from the next lookup on and until the database is
    /// closed: opening it takes the policy of the options again. What was counted so far is kept.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// use shamba::FilterPolicy;
    /// db.keyspace("default")?.set_filter_policy(FilterPolicy::All)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`] or [`Error::KeyspaceDropped`].
    pub fn set_filter_policy(&self, policy: FilterPolicy) -> Result<()> {
        policy.validate()?;
        self.inner.check_alive()?;
        let present = || self.inner.state.load().version.clone();
        self.inner.limits.set_policy(policy, present);
        Ok(())
    }

    /// The design that the keyspace has, or is moving to.
    #[must_use]
    pub fn design(&self) -> Design {
        self.inner.options().design()
    }

    /// Whether the tree has yet to reach the design that was asked for last.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.inner.moving.load().is_some()
    }

    /// The present design beside the best one for the data, the recent operations and the device,
    /// with predicted costs. `None` while it is not known: before a thousand operations, or while the
    /// data are less than four write buffers. The first call measures the device, unless
    /// [`Options::device`](crate::Options::device) states what it costs: it writes and removes 4 MiB.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::KeyspaceDropped`], [`Error::Io`] of the measurement, and
    /// [`Error::InvalidOption`] for a present design outside the model's domain.
    pub fn advise(&self) -> Result<Option<Advice>> {
        self.db.inner.advise(&self.inner)
    }

    /// Gives the keyspace another design, to which it moves by ordinary compactions while reads and
    /// writes go on. Returns once the design is recorded: from then on it is that of every open,
    /// whatever the options say, until this is called again. A move that was cut off goes on at the
    /// next open. [`Db::wait_for_compaction`](crate::Db::wait_for_compaction) waits for its end.
    ///
    /// Files that were written before get the new filters when they are next merged, at the latest
    /// by the move itself, which rewrites those whose filters are clearly not what is wanted.
    ///
    /// ```
    /// # fn main() -> shamba::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = shamba::Options::new().open(dir.path())?;
    /// use shamba::{Design, MergePolicy};
    /// let keyspace = db.default_keyspace();
    /// let tiered = Design { merge_policy: MergePolicy::Tiering, size_ratio: 4, ..keyspace.design() };
    /// keyspace.redesign(tiered)?;
    /// db.wait_for_compaction()?;
    /// assert!(keyspace.design() == tiered && !keyspace.is_moving());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`], [`Error::KeyspaceDropped`], and those of
    /// [`Db::write`](crate::Db::write).
    pub fn redesign(&self, design: Design) -> Result<()> {
        self.db.inner.redesign(&self.inner, &design)
    }

    /// An iterator over the keyspace as it is now.
    ///
    /// # Errors
    /// As [`Db::iter`](crate::Db::iter).
    pub fn iter(&self, options: IterOptions) -> Result<Iter> {
        Iter::new(&self.db, &self.inner, options, None)
    }
}
