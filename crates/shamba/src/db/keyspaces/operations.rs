//! What is done with a keyspace: its operations by kind, and a picture of them that fades.
//!
//! Lookups count when they are over, iterators when they are dropped or positioned anew, and
//! updates are what memtables were given, so that a write counts nothing. Relaxed atomics, spread
//! over padded shards by thread. The fading picture is behind a lock that no operation takes:
//! whoever asks, and whoever ends an epoch, folds what was counted since into it. Hints: they
//! change no answer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::budget::{Budget, Reservation, Role, allocated, most_of_seen};
use crate::metrics::{CounterShard, SHARDS};

/// Positionings of iterators after which something may be looked at.
const RANGES: u64 = 256;

/// Operations after which what was done before counts half.
pub(crate) const HALF_LIFE: f64 = 8192.0;

/// Numbers of operations.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counts {
    /// Lookups that found nothing.
    pub(crate) empty: f64,
    /// Lookups that found a value.
    pub(crate) existing: f64,
    /// Positionings of iterators.
    pub(crate) ranges: f64,
    /// Moves of iterators to one entry more.
    pub(crate) steps: f64,
    /// Puts and deletes.
    pub(crate) updates: f64,
}

impl Counts {
    /// All operations: an iterator's moves belong to its range.
    pub(crate) fn operations(&self) -> f64 {
        self.empty + self.existing + self.ranges + self.updates
    }

    fn combine(self, other: Counts, with: impl Fn(f64, f64) -> f64) -> Counts {
        Counts {
            empty: with(self.empty, other.empty),
            existing: with(self.existing, other.existing),
            ranges: with(self.ranges, other.ranges),
            steps: with(self.steps, other.steps),
            updates: with(self.updates, other.updates),
        }
    }
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct OperationShard {
    lookups: AtomicU64,
    found: AtomicU64,
    ranges: AtomicU64,
    steps: AtomicU64,
}

#[derive(Debug, Default)]
struct Fading {
    seen: Counts,
    aged: Counts,
}

/// What threads count, and its memory.
#[derive(Debug)]
struct Shards {
    shards: [OperationShard; SHARDS],
    _held: Reservation,
}

/// The operations of a keyspace since it was opened.
#[derive(Debug)]
pub(crate) struct Operations {
    /// Made when it is first read, once there is memory for them.
    shards: OnceLock<Box<Shards>>,
    budget: Arc<Budget>,
    /// Entries of memtables that are no longer active, less those that came out of a log.
    frozen: AtomicU64,
    fading: Mutex<Fading>,
}

impl Operations {
    /// None yet.
    pub(in crate::db) fn new(budget: &Arc<Budget>) -> Self {
        Operations {
            shards: OnceLock::new(),
            budget: Arc::clone(budget),
            frozen: AtomicU64::new(0),
            fading: Mutex::default(),
        }
    }

    #[inline]
    fn shard(&self) -> Option<(&OperationShard, CounterShard)> {
        let place = CounterShard::of_thread();
        let shards = match self.shards.get() {
            Some(shards) => shards,
            None => self.make_shards()?,
        };
        Some((shards.shards.get(place.shard)?, place))
    }

    /// Without memory for them nothing is counted.
    #[cold]
    fn make_shards(&self) -> Option<&Shards> {
        let bytes = allocated(size_of::<Shards>()) as u64;
        let most = most_of_seen(self.budget.limit());
        let held = self.budget.try_reserve_within(Role::Seen, bytes, most)?;
        let made = || {
            Box::new(Shards {
                shards: Default::default(),
                _held: held,
            })
        };
        Some(self.shards.get_or_init(made))
    }

    /// Counts point lookups, and those of them that found a value.
    #[inline]
    pub(crate) fn add_lookups(&self, lookups: u64, found: u64) {
        if let Some((shard, place)) = self.shard() {
            place.add(&shard.lookups, lookups);
            if found > 0 {
                place.add(&shard.found, found);
            }
        }
    }

    /// Counts positionings and further moves of an iterator; true once in a while, for what is to
    /// be looked at every so often.
    pub(crate) fn add_ranges(&self, ranges: u64, steps: u64) -> bool {
        let Some((shard, place)) = self.shard() else {
            return false;
        };
        place.add(&shard.steps, steps);
        let before = shard.ranges.load(Relaxed);
        place.add(&shard.ranges, ranges);
        before / RANGES != (before + ranges) / RANGES
    }

    /// Counts the entries of a memtable that was active until now.
    pub(crate) fn add_frozen(&self, entries: u64) {
        self.frozen.fetch_add(entries, Relaxed);
    }

    /// Forgets the entries of all memtables, of the active one so many: they came out of a log, and
    /// nobody wrote them now.
    pub(crate) fn forget_updates(&self, active: u64) {
        self.frozen.store(0_u64.wrapping_sub(active), Relaxed);
    }

    /// All operations so far, given the entries of the active memtable.
    pub(crate) fn total(&self, active: u64) -> Counts {
        let mut total = Counts {
            // Of a keyspace that was dropped what came out of a log is no longer there.
            updates: self
                .frozen
                .load(Relaxed)
                .wrapping_add(active)
                .cast_signed()
                .max(0) as f64,
            ..Counts::default()
        };
        for shard in self.shards.get().iter().flat_map(|all| &all.shards) {
            let get = |counter: &AtomicU64| counter.load(Relaxed) as f64;
            let (lookups, found) = (get(&shard.lookups), get(&shard.found));
            // The two are read one after the other.
            total.empty += (lookups - found).max(0.0);
            total.existing += found.min(lookups);
            total.ranges += get(&shard.ranges);
            total.steps += get(&shard.steps);
        }
        total
    }

    /// The recent operations: each counts half after [`HALF_LIFE`] more. Those since the last call
    /// are taken as evenly mixed.
    pub(crate) fn of_late(&self, active: u64) -> Counts {
        let mut fading = self.fading.lock();
        let total = self.total(active);
        let new = total.combine(fading.seen, |now, then| (now - then).max(0.0));
        let elapsed = new.operations() / HALF_LIFE * std::f64::consts::LN_2;
        if elapsed > 0.0 {
            let keep = (-elapsed).exp();
            let weight = (1.0 - keep) / elapsed;
            fading.aged = fading
                .aged
                .combine(new, |old, new| old * keep + new * weight);
            fading.seen = total;
        }
        fading.aged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_late_follow_a_changed_workload() {
        let operations = Operations::new(&Budget::new(1 << 20));
        assert_eq!(operations.of_late(0), Counts::default());
        operations.add_lookups(1000, 300);
        operations.add_ranges(10, 200);
        operations.add_frozen(500);
        let late = operations.of_late(100);
        let of = |count: f64| count / late.operations();
        assert!((of(late.empty) - 700.0 / 1610.0).abs() < 1e-9);
        assert!((of(late.updates) - 600.0 / 1610.0).abs() < 1e-9);
        assert!((late.steps / late.ranges - 20.0).abs() < 1e-9);
        assert_eq!(operations.total(100).existing, 300.0);
        operations.forget_updates(100);
        assert_eq!(operations.total(100).updates, 0.0);
        assert_eq!(operations.total(0).updates, 0.0);
        operations.add_frozen(103);
        assert_eq!(operations.total(7).updates, 10.0);
        operations.forget_updates(0);
        operations.add_frozen(500);
        // Asking changes nothing.
        assert_eq!(operations.of_late(100), late);
        // Ten half-lives of lookups that find nothing, told in parts.
        for _ in 0..100 {
            operations.add_lookups(HALF_LIFE as u64 / 10, 0);
            operations.of_late(100);
        }
        let late = operations.of_late(100);
        assert!(late.empty / late.operations() > 0.99, "{late:?}");
        assert!(late.operations() < HALF_LIFE / std::f64::consts::LN_2 * 1.01);
    }
}
