//! One bound over all the memory the engine uses, with accounts by role.
//!
//! A [`Budget`] is shared by everything that holds memory: memtables, the block cache, table
//! handles, iterators, compaction and I/O buffers, possibly of several databases. Memory is
//! reserved before it is allocated, and the [`Reservation`] lives next to it: dropping it gives the
//! bytes back. Reserving is lock-free while there is room. When there is none, the registered
//! [`Reclaim`]ers (the block cache first of all) are asked to free some; then optional memory is
//! refused ([`Budget::try_reserve`]), and essential memory waits a little for other threads to give
//! theirs back and else exceeds the limit, which is recorded as overdraft ([`Budget::reserve`]).
//!
//! Thread-safe. A caller must hold no lock that a reclaimer takes (cache shards, the I/O pool),
//! except with [`Budget::try_reserve_now`], which never asks reclaimers.

mod admission;
mod container;
mod eras;
mod heap;
mod ledger;
mod reservation;
mod role;
mod shares;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use admission::Admission;
use eras::Eras;
pub(crate) use ledger::Shortage;
use ledger::{Ledger, ShareShortage};
use parking_lot::{Mutex, RwLock};

pub(crate) use container::container_memory;
pub(crate) use eras::Begun;
use heap::Holes;
pub(crate) use heap::{
    LARGE, LONG_KEY, MANY, allocated, map_large_allocations, map_long_keys, shared,
};
pub(crate) use reservation::{Account, Permit, Pin, Reservation, Sharer};
pub use role::Role;
pub(crate) use shares::{
    blocks_of_pointed, come_down_to, copied_index, copy_buffer, easily_known, extra_buffers,
    flushed_together, frozen_together, further_readahead, held_files, idle_buffers, idle_frames,
    kept_for_next_block, keys_looked_up_together, keys_of_whole_filter, large_value,
    least_limit_for_batch, least_limit_for_block, least_limit_for_databases, least_limit_for_files,
    least_limit_for_key, least_limit_for_keyspaces, least_limit_for_meta,
    least_limit_for_range_end, least_limit_for_value, least_memtable_bytes, log_buffer,
    long_keys_of_table, loose_slots, many_of_files, max_memtable_bytes, measuring_buffer,
    memtable_copy, memtable_share, merge_inputs, merge_keys, merge_readahead, most_of_batch,
    most_of_block, most_of_files, most_of_index, most_of_key, most_of_keyspaces, most_of_meta,
    most_of_range_end, most_of_ranges, most_of_seen, most_of_value, new_tables, open_files,
    open_tables, partition_keys, piece_of_value, pinned_by_values, plenty_of_memory, prepopulation,
    read_at_once, reload_at_once, room_for_what_is_written, short_for_large_values,
    short_of_memory, snapshot_list, table_buffer,
};

/// The smallest memory budget accepted, in bytes: 1 MiB.
///
/// What does not shrink with the budget must fit it: 8 KiB to read pages into, a memtable of 4 to 8
/// KiB for each keyspace and 1 KiB of its own (4 KiB once it is read), about 16 KiB to write a
/// table, and for each run that is merged or iterated about 1.5 KiB, its present block, and its
/// present entry, of which the key may be a 64th of the budget long and the value a sixteenth. Of
/// merges as many work at once as such memory holds, of flushes too; several threads that read wait
/// for each other, half a second, or five while others go on. A batch may take three eighths of the
/// budget until it is in tables. A key (of all 65,535 bytes from 4 MiB on), a value or a batch that
/// was written under a larger budget is refused with
/// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall), which names the least that will do.
/// [`MemoryStats::overdraft`] says by how much the budget was passed, if it ever was.
///
/// Cached blocks, buffers and memtables lie in memory that the engine maps itself, so that what is
/// counted is what is resident: the process takes this budget, and a few MiB that do not grow with
/// data or budget (code, contexts to decompress Zstandard with, of 96 KiB, one for each processor
/// and at most sixteen). That is measured by `stress memory`: docs/promise.md has the table.
pub const MIN_MEMORY: u64 = 1 << 20;

/// Memory against its budget at one moment, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryStats {
    /// The most that may be used.
    pub limit: u64,
    /// Used now.
    pub used: u64,
    /// The most ever used at once.
    pub peak: u64,
    /// The most ever used above the limit. What was within an earlier, larger limit when it was
    /// taken does not count.
    pub overdraft: u64,
    /// Used now, by role.
    pub by_role: Vec<(Role, u64)>,
}

/// Holds memory that it can free on demand.
pub(crate) trait Reclaim: Send + Sync {
    /// Frees about `bytes` bytes of reservations, and says how many it freed (0: nothing can be
    /// freed now). Must not reserve from the budget.
    fn reclaim(&self, bytes: u64) -> u64;
}

/// Work that holds essential memory until it ends, and is let in only where all of it finds room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmittedWork {
    /// Flushes to tables, on the way of merges too: they wait for no merge.
    Flush,
    /// Merges of tables.
    Merge,
    /// Lookups of many keys together.
    Lookups,
    /// Copies of large entries on their way into the log.
    LargeEntries,
}

impl AdmittedWork {
    /// The bytes that all work of the kind may take, but for one that needs more alone.
    fn share(self, limit: u64) -> u64 {
        match self {
            AdmittedWork::Flush => shares::flushes(limit),
            AdmittedWork::Merge => shares::merges(limit),
            AdmittedWork::Lookups => shares::lookups(limit),
            AdmittedWork::LargeEntries => shares::large_entries(limit),
        }
    }
}

/// Essential memory that would go over the limit waits for what other threads hold for a moment:
/// blocks in use, entries being merged, memtables being flushed, which on a busy machine with a
/// slow disk are moments of a tenth of a second. The first pause is of [`PAUSE`], each later one
/// longer by it, until all together are of half a second. Pauses in which others took or gave
/// something do not count, up to [`MOST_STIRRED`] times as many. Half as often after each time that
/// it waited in vain: what one thread needs alone is not there after any wait.
const MOST_PAUSES: u32 = 64;
const MOST_STIRRED: u32 = 4;
const PAUSE: Duration = Duration::from_micros(250);

/// A bound on memory and the accounts under it.
pub(crate) struct Budget {
    ledger: Ledger<AtomicU64>,
    reclaimers: RwLock<Vec<Weak<dyn Reclaim>>>,
    /// How often essential memory waits now.
    patience: AtomicU32,
    flushes: Admission,
    merges: Admission,
    lookups: Admission,
    large_entries: Admission,
    holes: Holes,
    /// How many databases write under it.
    databases: AtomicU64,
    eras: Eras,
    /// Held while the limit changes.
    changing: Mutex<()>,
}

impl Budget {
    /// A budget of `limit` bytes, all of it free.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Budget {
            ledger: Ledger::new(limit),
            reclaimers: RwLock::new(Vec::new()),
            patience: AtomicU32::new(MOST_PAUSES),
            flushes: Admission::default(),
            merges: Admission::default(),
            lookups: Admission::default(),
            large_entries: Admission::default(),
            holes: Holes::default(),
            databases: AtomicU64::new(0),
            eras: Eras::default(),
            changing: Mutex::new(()),
        })
    }

    /// The same for a test of one thread, which would wait for nobody.
    #[cfg(test)]
    pub(crate) fn of_one_thread(limit: u64) -> Arc<Self> {
        let budget = Budget::new(limit);
        budget.patience.store(0, Relaxed);
        budget
    }

    /// Adds one who can free memory; reclaimers are asked in the order in which they came.
    pub(crate) fn add_reclaimer(&self, reclaimer: Weak<dyn Reclaim>) {
        let mut reclaimers = self.reclaimers.write();
        reclaimers.retain(|known| known.strong_count() > 0);
        reclaimers.push(reclaimer);
    }

    /// Reserves optional memory: never exceeds the limit; `None` when reclaimers cannot free
    /// enough.
    pub(crate) fn try_reserve(self: &Arc<Self>, role: Role, bytes: u64) -> Option<Reservation> {
        self.try_take(role, bytes)
            .then(|| Reservation::new(self, role, bytes))
    }

    /// [`Self::try_reserve`] without asking reclaimers.
    pub(crate) fn try_reserve_now(self: &Arc<Self>, role: Role, bytes: u64) -> Option<Reservation> {
        self.ledger.try_take(role, bytes).ok()?;
        Some(Reservation::new(self, role, bytes))
    }

    /// Reserves essential memory: what neither reclaimers nor, for a while ([`MOST_PAUSES`]), other
    /// threads free goes over the limit and is recorded as overdraft. Not under a lock that readers
    /// wait for, or that those who would free memory take.
    pub(crate) fn reserve(self: &Arc<Self>, role: Role, bytes: u64) -> Reservation {
        self.take(role, bytes);
        Reservation::new(self, role, bytes)
    }

    /// [`Self::reserve`] without waiting for other threads: for little, under any lock but those of
    /// reclaimers.
    pub(crate) fn reserve_at_once(self: &Arc<Self>, role: Role, bytes: u64) -> Reservation {
        self.take_at_once(role, bytes);
        Reservation::new(self, role, bytes)
    }

    /// [`Self::try_reserve`] where the role has at most `most` bytes then, all its reservations
    /// together.
    pub(crate) fn try_reserve_within(
        self: &Arc<Self>,
        role: Role,
        bytes: u64,
        most: u64,
    ) -> Option<Reservation> {
        self.try_take_within(role, bytes, most)
            .then(|| Reservation::new(self, role, bytes))
    }

    /// A reservation of what was taken before ([`Reservation::into_account`]).
    pub(crate) fn resume(self: &Arc<Self>, account: Account) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            account,
        }
    }

    /// A reservation of nothing, for what will be moved to it ([`Reservation::move_to`]).
    pub(crate) fn open_account(self: &Arc<Self>, role: Role) -> Reservation {
        Reservation::new(self, role, 0)
    }

    /// What memtables, readers and merges have shares of, in bytes: the limit, or less where what
    /// is known of files takes much of it.
    pub(crate) fn working_limit(&self) -> u64 {
        self.ledger.working_limit()
    }

    /// The most bytes that all iterators may hold.
    pub(crate) fn most_of_iterators(&self) -> u64 {
        self.ledger.most_of_iterators()
    }

    /// The least limit under which iterators may hold so many bytes more, beside all that is held
    /// now.
    fn least_limit_for_iterators(&self, more: u64) -> u64 {
        let iterators = self.used_by(Role::Iterators).saturating_add(more);
        shares::least_limit_for_iterators(iterators, self.ledger.files())
            .max(self.ledger.held().saturating_add(more))
    }

    /// The least limit under which memtables may take so many bytes.
    pub(crate) fn least_limit_for_memtables(&self, bytes: u64) -> u64 {
        shares::least_limit_for_memtables(bytes, self.ledger.files())
    }

    /// Changes the limit; reclaimers give way at once as far as they can. What was taken before
    /// under a larger limit is no overdraft, nor what is taken as essential memory within that
    /// limit while work goes on that began under it ([`Self::begin`]), or more than half of the new
    /// one is used for other things than cached blocks, or more of those is pinned than may be of
    /// the new one.
    pub(crate) fn set_limit(&self, limit: u64) {
        let _turn = self.changing.lock();
        if limit < self.limit() {
            let lower = |going_on| self.ledger.set_limit(limit, going_on);
            self.eras.turn(lower);
        } else {
            self.ledger.set_limit(limit, 0);
        }
        loop {
            let over = self.used().saturating_sub(limit);
            if over == 0 || self.reclaim(over) == 0 {
                return;
            }
        }
    }

    /// The right to hold so many bytes of memory that is charged already and could be reclaimed
    /// otherwise, for as long as the caller likes. What cannot do without memory would not find it,
    /// so all pins together have a share of the limit.
    pub(crate) fn try_pin(self: &Arc<Self>, bytes: u64) -> Option<Pin> {
        self.ledger.try_pin(bytes).then(|| Pin {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// Work begins that goes by the limit as it is from now on, until what is given is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Begun {
        self.eras.begin(self)
    }

    /// Lets in work that will hold about as many bytes of essential memory until it ends as `bytes`
    /// finds, once it has begun; waits until there is room beside other work of its kind, as long
    /// as `go_on` does not say otherwise. Takes nothing: what the work holds it reserves. Not under
    /// a lock that such work takes.
    pub(crate) fn admit<E>(
        self: &Arc<Self>,
        work: AdmittedWork,
        bytes: impl FnOnce() -> u64,
        go_on: impl Fn() -> Result<(), E>,
    ) -> Result<Permit, E> {
        let begun = self.begin();
        let bytes = bytes();
        let share = || work.share(self.working_limit());
        self.admission(work).enter(bytes, share, go_on)?;
        Ok(Permit { begun, work, bytes })
    }

    fn admission(&self, work: AdmittedWork) -> &Admission {
        match work {
            AdmittedWork::Flush => &self.flushes,
            AdmittedWork::Merge => &self.merges,
            AdmittedWork::Lookups => &self.lookups,
            AdmittedWork::LargeEntries => &self.large_entries,
        }
    }

    /// Counts a database that writes under this budget, until what is given is dropped.
    pub(crate) fn add_database(self: &Arc<Self>) -> Sharer {
        self.databases.fetch_add(1, Relaxed);
        Sharer(Arc::clone(self))
    }

    fn remove_database(&self) {
        self.databases.fetch_sub(1, Relaxed);
    }

    /// How many databases write under it.
    pub(crate) fn databases(&self) -> u64 {
        self.databases.load(Relaxed)
    }

    /// The limit in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.ledger.limit()
    }

    /// Bytes reserved now.
    pub(crate) fn used(&self) -> u64 {
        self.ledger.used()
    }

    /// Bytes reserved now for one role.
    pub(crate) fn used_by(&self, role: Role) -> u64 {
        self.ledger.used_by(role)
    }

    /// Bytes reserved now that do not give way as cached blocks do.
    pub(crate) fn kept(&self) -> u64 {
        self.ledger.kept(self.ledger.used())
    }

    /// After work on so many tables, which holds what it took of the heap no more: from time to
    /// time the free pages there go back to the system. Not under a lock that readers wait for.
    pub(crate) fn left_holes(&self, tables: usize) {
        self.holes.add(tables);
    }

    /// The most bytes ever reserved at once.
    pub(crate) fn peak(&self) -> u64 {
        self.ledger.peak()
    }

    /// The most bytes ever reserved above the limit.
    pub(crate) fn overdraft(&self) -> u64 {
        self.ledger.overdraft()
    }

    /// All accounts. Those of roles are read one by one, so under concurrent use their sum may
    /// differ from the total.
    pub(crate) fn stats(&self) -> MemoryStats {
        MemoryStats {
            limit: self.limit(),
            by_role: Role::ALL
                .into_iter()
                .map(|role| (role, self.used_by(role)))
                .collect(),
            used: self.used(),
            peak: self.peak(),
            overdraft: self.overdraft(),
        }
    }

    fn try_take(&self, role: Role, bytes: u64) -> bool {
        loop {
            match self.ledger.try_take(role, bytes) {
                Ok(()) => return true,
                // What was freed may be taken by others first; asking again goes on only while
                // something is being freed.
                Err(Shortage(short)) => {
                    if bytes > self.limit() || self.reclaim(short) == 0 {
                        return self.ledger.try_take(role, bytes).is_ok();
                    }
                }
            }
        }
    }

    fn try_take_within(&self, role: Role, bytes: u64, most: u64) -> bool {
        loop {
            match self.ledger.try_take_within(role, bytes, most) {
                Ok(()) => return true,
                Err(ShareShortage::OfShare) => return false,
                Err(ShareShortage::OfLimit(Shortage(short))) => {
                    if bytes > self.limit() || self.reclaim(short) == 0 {
                        return self.ledger.try_take_within(role, bytes, most).is_ok();
                    }
                }
            }
        }
    }

    fn take(&self, role: Role, bytes: u64) {
        if !self.take_waiting(role, bytes) {
            self.ledger.take(role, bytes);
        }
    }

    /// Takes bytes, if need be once others gave some back; false, with nothing taken, where that
    /// was waited for in vain and the limit would be passed.
    fn take_waiting(&self, role: Role, bytes: u64) -> bool {
        let patience = self.patience.load(Relaxed);
        let mut pauses = 0;
        let mut stirred = 0;
        let mut used = None;
        while let Err(Shortage(short)) = self.ledger.try_take(role, bytes) {
            if self.reclaim(short) > 0 {
                used = None;
                continue;
            }
            if bytes == 0 || self.ledger.take_within_bound(role, bytes) {
                return true;
            }
            if pauses == patience {
                self.patience.store(patience.div_ceil(2), Relaxed);
                return false;
            }
            let now = self.ledger.used();
            let changed = used.replace(now).is_some_and(|before| before != now);
            if changed && stirred < MOST_STIRRED * patience {
                stirred += 1
            } else {
                pauses += 1
            }
            std::thread::sleep(PAUSE * (pauses + stirred).min(MOST_PAUSES));
        }
        if pauses + stirred > 0 {
            self.patience.store(MOST_PAUSES, Relaxed);
        }
        true
    }

    fn take_at_once(&self, role: Role, bytes: u64) {
        while let Err(Shortage(short)) = self.ledger.try_take(role, bytes) {
            if self.reclaim(short) == 0 {
                return self.ledger.take(role, bytes);
            }
        }
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        let mut freed = 0;
        for reclaimer in self.reclaimers.read().iter() {
            if freed >= bytes {
                break;
            }
            if let Some(reclaimer) = reclaimer.upgrade() {
                freed += reclaimer.reclaim(bytes - freed);
            }
        }
        freed
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ledger.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frees reservations of 10 bytes, one at a time.
    struct Hoard(Mutex<Vec<Reservation>>);

    impl Reclaim for Hoard {
        fn reclaim(&self, bytes: u64) -> u64 {
            assert!(bytes > 0);
            self.0.lock().pop().map_or(0, |freed| freed.bytes())
        }
    }

    fn hoard(budget: &Arc<Budget>, count: usize) -> Arc<Hoard> {
        let held = (0..count)
            .map(|_| budget.try_reserve(Role::Data, 10).unwrap())
            .collect();
        let hoard = Arc::new(Hoard(Mutex::new(held)));
        budget.add_reclaimer(Arc::downgrade(&(Arc::clone(&hoard) as Arc<dyn Reclaim>)));
        hoard
    }

    #[test]
    fn a_reservation_keeps_its_role_and_bytes_in_a_word() {
        assert_eq!(size_of::<Reservation>(), 16);
        let budget = Budget::new(u64::MAX);
        for role in Role::ALL {
            let mut held = budget.reserve(role, (1 << 40) + 7);
            held.grow(5);
            let mut part = budget.open_account(role);
            held.move_to(&mut part, 1 << 39);
            assert_eq!((held.bytes(), part.bytes()), ((1 << 39) + 12, 1 << 39));
            assert_eq!(budget.used_by(role), (1 << 40) + 12);
            let mut other = budget.open_account(Role::Spare);
            part.move_to(&mut other, u64::MAX);
            assert_eq!((part.bytes(), other.bytes()), (0, 1 << 39));
            drop((held, part));
            assert_eq!(budget.used(), budget.used_by(Role::Spare));
            drop(other);
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn roles_are_listed_in_order_with_their_own_names() {
        for (i, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(role as usize, i);
        }
        let mut names = Role::ALL.map(Role::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Role::ALL.len());
    }

    /// Lets go of what it holds when it is asked for the third time, as another thread might, and
    /// does not say so.
    struct Other(Mutex<(u32, Option<Reservation>)>);

    impl Reclaim for Other {
        fn reclaim(&self, _bytes: u64) -> u64 {
            let mut held = self.0.lock();
            held.0 += 1;
            if held.0 == 3 {
                held.1 = None;
            }
            0
        }
    }

    #[test]
    fn essential_memory_waits_for_what_others_hold_for_a_moment() {
        let budget = Budget::new(100);
        let held = budget.reserve(Role::Iterators, 60);
        let other = Arc::new(Other(Mutex::new((0, Some(held)))));
        budget.add_reclaimer(Arc::downgrade(&(Arc::clone(&other) as Arc<dyn Reclaim>)));
        let essential = budget.reserve(Role::Compaction, 60);
        assert_eq!((essential.bytes(), budget.overdraft()), (60, 0));
        assert_eq!(other.0.lock().0, 3);
    }

    /// Stands for other threads whose memory is now more and now less, of whom one lets go in the
    /// end.
    struct Busy(
        Arc<Budget>,
        Mutex<(u32, Option<Reservation>, Option<Reservation>)>,
    );

    impl Reclaim for Busy {
        fn reclaim(&self, _bytes: u64) -> u64 {
            let mut held = self.1.lock();
            held.0 += 1;
            held.1 = None;
            held.1 = self.0.try_reserve_now(Role::Data, u64::from(held.0 % 7));
            if held.0 == MOST_PAUSES + 40 {
                held.2 = None;
            }
            assert!(held.0 < 1000, "waits for ever");
            0
        }
    }

    #[test]
    fn what_may_be_refused_waits_too_and_is_never_an_overdraft() {
        let budget = Budget::new(1000);
        let held = budget.reserve(Role::Memtable, 950);
        let mut list = budget.reserve(Role::Compaction, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                drop(held);
            });
            assert!(list.grow_waiting(100), "given back meanwhile");
        });
        let _held = budget.reserve(Role::Memtable, 850);
        assert!(!list.grow_waiting(100), "held for good");
        assert_eq!(
            (list.bytes(), budget.overdraft(), budget.used()),
            (100, 0, 950)
        );
    }

    #[test]
    fn essential_memory_waits_longer_while_others_go_on() {
        let budget = Budget::new(100);
        let held = budget.reserve(Role::Iterators, 60);
        let busy = Busy(Arc::clone(&budget), Mutex::new((0, None, Some(held))));
        let busy = Arc::new(busy);
        budget.add_reclaimer(Arc::downgrade(&(Arc::clone(&busy) as Arc<dyn Reclaim>)));
        let essential = budget.reserve(Role::Compaction, 60);
        assert_eq!((essential.bytes(), budget.overdraft()), (60, 0));
        // Whoever goes on and never lets go is not waited for for ever.
        budget.patience.store(5, Relaxed);
        let more = budget.reserve(Role::Compaction, 60);
        assert!(more.bytes() == 60 && budget.overdraft() > 0);
        let asked = busy.1.lock().0 - (MOST_PAUSES + 40);
        assert!((20..=30).contains(&asked), "{asked} times");
    }

    #[test]
    fn optional_memory_stops_at_the_limit() {
        let budget = Budget::new(100);
        let mut a = budget.try_reserve(Role::Data, 60).unwrap();
        assert!(budget.try_reserve(Role::Index, 41).is_none());
        let b = budget.try_reserve(Role::Index, 40).unwrap();
        assert!(!a.try_grow(1));
        assert!(budget.try_reserve(Role::Index, u64::MAX).is_none());
        a.shrink(10);
        assert!(a.try_grow(5));
        assert_eq!(a.bytes(), 55);
        assert_eq!((budget.used(), budget.peak()), (95, 100));
        let stats = budget.stats();
        assert_eq!(stats.by_role[Role::Data as usize], (Role::Data, 55));
        assert_eq!(stats.by_role[Role::Index as usize], (Role::Index, 40));
        drop((a, b));
        assert_eq!((budget.used(), budget.overdraft()), (0, 0));
    }

    #[test]
    fn a_share_bounds_a_role_within_the_limit() {
        let budget = Budget::new(100);
        let hoard = hoard(&budget, 5);
        let mut a = budget.reserve(Role::Memtable, 0);
        let mut b = budget.reserve(Role::Memtable, 0);
        assert!(a.try_grow_within(30, 60) && b.try_grow_within(20, 60));
        assert!(!a.try_grow_within(11, 60));
        assert_eq!(
            hoard.0.lock().len(),
            5,
            "nobody gives way to what is not let in"
        );
        assert!(a.try_grow_within(10, 60));
        assert_eq!(hoard.0.lock().len(), 4);
        assert_eq!((budget.used_by(Role::Memtable), budget.used()), (60, 100));
        assert!(!b.try_grow_within(50, 200), "the limit bounds all the same");
        assert_eq!((budget.peak(), budget.overdraft()), (100, 0));
    }

    #[test]
    fn essential_memory_reclaims_first_and_counts_the_rest() {
        let budget = Budget::new(100);
        let _hoard = hoard(&budget, 5);
        let mut a = budget.reserve(Role::Memtable, 90);
        assert_eq!((budget.used(), budget.used_by(Role::Data)), (100, 10));
        assert_eq!(budget.overdraft(), 0);
        a.resize(130);
        assert_eq!((budget.used(), budget.overdraft()), (130, 30));
        a.resize(20);
        assert_eq!((budget.used(), budget.overdraft()), (20, 30));
    }

    #[test]
    fn optional_memory_is_reclaimed_from_others() {
        let budget = Budget::new(100);
        let hoard = hoard(&budget, 10);
        assert!(budget.try_reserve_now(Role::Index, 1).is_none());
        assert!(budget.try_reserve(Role::Index, 101).is_none());
        assert_eq!(budget.used(), 100, "a hopeless request frees nothing");
        let _held = budget.try_reserve(Role::Index, 95).unwrap();
        assert_eq!(hoard.0.lock().len(), 0);
        assert!(budget.try_reserve(Role::Index, 6).is_none());
        assert_eq!(budget.peak(), 100);
    }

    #[test]
    fn what_is_cached_gives_way_and_nothing_else_does() {
        let budget = Budget::new(1 << 20);
        let cached = [Role::Data, Role::Entries, Role::Index, Role::FilterFirst];
        let cached = cached.map(|role| budget.try_reserve(role, 100).unwrap());
        assert_eq!((budget.used(), budget.kept()), (400, 0));
        let _held = [Role::Tables, Role::Memtable].map(|role| budget.reserve(role, 7));
        assert_eq!(budget.kept(), 14);
        drop(cached);
        assert_eq!((budget.used(), budget.kept()), (14, 14));
    }

    #[test]
    fn a_smaller_limit_is_come_down_to() {
        let budget = Budget::new(100);
        let hoard = hoard(&budget, 3);
        let mut held = budget.reserve(Role::Memtable, 60);
        budget.set_limit(50);
        assert_eq!(hoard.0.lock().len(), 0, "what can give way does at once");
        assert_eq!((budget.limit(), budget.used()), (50, 60));
        assert!(budget.try_reserve(Role::Data, 1).is_none());
        held.grow(40);
        assert_eq!(budget.overdraft(), 0, "the limit before still bounds");
        budget.set_limit(40);
        held.grow(7);
        assert_eq!(budget.overdraft(), 7);
        held.resize(40);
        held.grow(60);
        assert_eq!(budget.overdraft(), 7, "to the limit is not down yet");
        held.resize(20);
        held.grow(30);
        assert_eq!(budget.overdraft(), 10, "come down, the new limit bounds");
        budget.set_limit(1000);
        assert!(budget.try_reserve(Role::Data, 900).is_some());
        assert_eq!((budget.overdraft(), budget.peak()), (10, 950));
    }

    #[test]
    fn pins_stop_at_their_share() {
        let budget = Budget::new(100);
        let first = budget.try_pin(9).unwrap();
        assert!(budget.try_pin(8).is_none());
        let second = budget.try_pin(7).unwrap();
        drop(first);
        let third = budget.try_pin(9).unwrap();
        assert!(budget.try_pin(1).is_none());
        drop((second, third));
        assert!(budget.try_pin(16).is_some());
    }

    #[test]
    fn pins_of_a_larger_limit_are_come_down_from() {
        let budget = Budget::new(200);
        let _cached = budget.reserve(Role::Data, 30);
        let (kept, given_up) = (budget.try_pin(10).unwrap(), budget.try_pin(20).unwrap());
        budget.set_limit(100);
        let held = budget.reserve(Role::Iterators, 90);
        assert_eq!(budget.overdraft(), 0, "what is pinned cannot give way");
        drop(held);
        drop(given_up);
        let _held = budget.reserve(Role::Iterators, 90);
        assert_eq!(budget.overdraft(), 20, "pins are within their share again");
        drop(kept);
    }

    /// Work that began before takes as it was let in to; none that began since may.
    #[test]
    fn work_of_a_larger_limit_is_come_down_from() {
        let budget = Budget::of_one_thread(200);
        let admitted = budget.admit(AdmittedWork::Merge, || 150, || Ok::<_, ()>(()));
        let before = budget.begin();
        budget.set_limit(100);
        let since = budget.begin();
        drop(budget.reserve(Role::Compaction, 150));
        drop(admitted);
        drop(budget.reserve(Role::Compaction, 150));
        assert_eq!(budget.overdraft(), 0, "work of before goes on");
        drop(before);
        drop(budget.reserve(Role::Compaction, 150));
        assert_eq!(budget.overdraft(), 50, "it is over");
        budget.set_limit(80);
        budget.set_limit(120);
        drop(since);
        drop(budget.reserve(Role::Compaction, 150));
        assert_eq!(budget.overdraft(), 50, "at its highest");
    }

    #[test]
    fn work_takes_what_the_limit_let_it_while_that_changes() {
        let budget = Budget::of_one_thread(1000);
        let running = AtomicU32::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..4000 {
                        let _begun = budget.begin();
                        let most = budget.limit() / 2;
                        std::thread::yield_now();
                        drop(budget.reserve(Role::Compaction, most));
                    }
                    running.fetch_sub(1, Relaxed);
                });
            }
            while running.load(Relaxed) > 0 {
                for limit in [100, 1000] {
                    budget.set_limit(limit);
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!((budget.used(), budget.overdraft()), (0, 0));
    }

    #[test]
    fn threads_never_pass_the_limit_together() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for i in 0..4u64 {
                let budget = &budget;
                scope.spawn(move || {
                    for round in 0..5000u64 {
                        let bytes = (round * 7 + i * 131) % 500;
                        let held = budget.try_reserve(Role::ALL[i as usize], bytes);
                        assert!(budget.used() <= 1000);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!((budget.used(), budget.overdraft()), (0, 0));
        assert!(budget.peak() <= 1000);
    }
}
