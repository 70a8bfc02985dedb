//! Which sequence numbers readers may see: the newest one, and those that snapshots and iterators
//! hold, which compaction must keep readable.
//!
//! Thread-safe. The list's lock holds nothing else, but for [`Visibility::unless_held_above`]:
//! while a keyspace is emptied, or a merge installed in which a filter changed something, with the
//! tree held, who begins to read at a number waits for an edit of the manifest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::base::clock::{Moment, NEVER};
use crate::base::key::SeqNo;
use crate::budget::{Budget, Reservation, Role, snapshot_list};
use crate::compaction::Boundaries;

/// What a snapshot reads at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::db) struct SnapshotPoint {
    pub(super) seq: SeqNo,
    /// When it was taken: what expires later is there for it. Never for an iterator, from which
    /// what expires meanwhile may be taken.
    pub(super) time: Moment,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Visibility {
    visible: AtomicU64,
    registered: Mutex<Registered>,
}

/// The sequence numbers held, ascending, and by time. (They are few, and most new ones come last.)
#[derive(Debug)]
struct Registered {
    list: Vec<HeldPoint>,
    memory: Reservation,
    /// Holders of what found no place in the list, by the oldest number and the earliest time: none
    /// of them is in it, and none comes into it while there is such a holder.
    unlisted: Option<HeldPoint>,
    /// The latest moment up to which a flush or merge may drop what has expired: none is taken at
    /// an earlier one, though the clock was asked before or went back.
    dropped_to: Moment,
}

/// What somebody holds.
#[derive(Debug, Clone, Copy)]
struct HeldPoint {
    point: SnapshotPoint,
    /// How many do.
    count: usize,
}

/// What a snapshot takes: its place in the list, and its number in the lists that two merges make.
const HELD_BYTES: usize = size_of::<HeldPoint>() + 4 * size_of::<SeqNo>();

/// Places there are at least, once there was a snapshot, and that are kept when they are free: most
/// scans then need no allocation for theirs.
const KEPT: usize = 16;

impl Visibility {
    /// Of a database that has come to a number.
    pub(super) fn new(visible: SeqNo, budget: &Arc<Budget>) -> Self {
        Visibility {
            visible: AtomicU64::new(visible),
            registered: Mutex::new(Registered {
                list: Vec::new(),
                memory: budget.open_account(Role::Tables),
                unlisted: None,
                dropped_to: 0,
            }),
        }
    }

    /// The newest sequence number readers may see.
    #[inline]
    pub(super) fn newest(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    /// Readers may see everything up to a number, which is above all before.
    pub(super) fn publish(&self, seq: SeqNo) {
        self.visible.store(seq, Ordering::Release);
    }

    /// The same, of a number that may be below others.
    pub(super) fn publish_replayed(&self, seq: SeqNo) {
        self.visible.fetch_max(seq, Ordering::AcqRel);
    }

    /// Registers the newest number. It is read under the list's lock, so a boundary list taken
    /// later either holds it or starts at or above it.
    pub(super) fn acquire(&self) -> SnapshotPoint {
        self.acquire_at(NEVER)
    }

    /// The same for a snapshot that is taken at a moment, or later where more is being dropped.
    pub(super) fn acquire_at(&self, time: Moment) -> SnapshotPoint {
        let mut registered = self.registered.lock();
        let seq = self.newest();
        let time = time.max(registered.dropped_to);
        let point = SnapshotPoint { seq, time };
        registered.add(point);
        point
    }

    /// Registers what is held already.
    pub(super) fn acquire_again(&self, point: SnapshotPoint) {
        self.registered.lock().add(point);
    }

    pub(super) fn release(&self, point: SnapshotPoint) {
        self.registered.lock().remove(point);
    }

    /// Every number a reader may use from now, a moment, on is one of these or above the last. For
    /// a flush or merge, which may drop what they say.
    pub(super) fn boundaries(&self, now: Moment) -> Boundaries {
        let mut registered = self.registered.lock();
        let expired_to = registered.expired_to(now);
        registered.dropped_to = registered.dropped_to.max(expired_to);
        let mut each: Vec<SeqNo> = registered.list.iter().map(|held| held.point.seq).collect();
        let held_to = registered.held_to();
        each.push(self.newest());
        Boundaries {
            each,
            held_to,
            dense_from: registered.unlisted.map(|held| held.point.seq),
            expired_to,
        }
    }

    /// What expires up to this moment has expired for every reader there is now or will be.
    pub(super) fn expired_to(&self, now: Moment) -> Moment {
        self.registered.lock().expired_to(now)
    }

    /// The oldest number that a reader may use from now on.
    pub(super) fn oldest(&self) -> SeqNo {
        let registered = self.registered.lock();
        let listed = registered.list.first();
        let held = listed.into_iter().chain(&registered.unlisted);
        let oldest = held.map(|held| held.point.seq).min();
        oldest.unwrap_or_else(|| self.newest())
    }

    /// Does something while nobody holds a number above one, or any, and nobody gets one; `None`
    /// where somebody does. It must ask nothing of this list.
    pub(super) fn unless_held_above<T>(
        &self,
        known: Option<SeqNo>,
        act: impl FnOnce() -> T,
    ) -> Option<T> {
        let registered = self.registered.lock();
        (registered.held_to() <= known).then(act)
    }

    /// How many hold a number.
    pub(super) fn held(&self) -> usize {
        let registered = self.registered.lock();
        let held = registered.list.iter().chain(&registered.unlisted);
        held.map(|held| held.count).sum()
    }
}

impl Registered {
    fn add(&mut self, point: SnapshotPoint) {
        let at = match self.list.binary_search_by_key(&point, |held| held.point) {
            Ok(at) => {
                if let Some(held) = self.list.get_mut(at) {
                    held.count += 1;
                }
                return;
            }
            Err(at) => at,
        };
        if let Some(HeldPoint { point: held, count }) = &mut self.unlisted {
            held.seq = held.seq.min(point.seq);
            held.time = held.time.min(point.time);
            *count += 1;
        } else if self.has_place() {
            self.list.insert(at, HeldPoint { point, count: 1 });
        } else {
            self.unlisted = Some(HeldPoint { point, count: 1 });
        }
    }

    /// The newest number that is held: above all where it is not known.
    fn held_to(&self) -> Option<SeqNo> {
        let unlisted = self.unlisted.map(|_| SeqNo::MAX);
        unlisted.or_else(|| Some(self.list.last()?.point.seq))
    }

    fn expired_to(&self, now: Moment) -> Moment {
        let held = self.list.iter().chain(&self.unlisted);
        held.map(|held| held.point.time).fold(now, Moment::min)
    }

    /// Whether the list has a place more, or memory for some.
    fn has_place(&mut self) -> bool {
        if self.list.len() < self.list.capacity() {
            return true;
        }
        let capacity = (self.list.capacity() * 2).max(KEPT);
        let bytes = (capacity * HELD_BYTES) as u64;
        let more = bytes.saturating_sub(self.memory.bytes());
        let allowed = self.list.capacity() == 0 || bytes <= snapshot_list(self.memory.limit());
        if !allowed || !self.memory.try_grow(more) {
            return false;
        }
        self.list.reserve_exact(capacity - self.list.len());
        true
    }

    fn remove(&mut self, point: SnapshotPoint) {
        let Ok(at) = self.list.binary_search_by_key(&point, |held| held.point) else {
            // The oldest of those that are left is not known: its number stays until the last is
            // gone.
            self.unlisted = self.unlisted.and_then(|held| {
                let count = held.count.checked_sub(1).filter(|left| *left > 0)?;
                Some(HeldPoint { count, ..held })
            });
            return;
        };
        if let Some(held) = self.list.get_mut(at) {
            held.count -= 1;
            if held.count == 0 {
                self.list.remove(at);
            }
        }
        if self.list.capacity() > KEPT && self.list.len() < self.list.capacity() / 4 {
            self.list.shrink_to(KEPT.max(self.list.len() * 2));
            let bytes = (self.list.capacity() * HELD_BYTES) as u64;
            self.memory
                .shrink(self.memory.bytes().saturating_sub(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it drops is gone by the time that it is installed, whatever the clock says meanwhile.
    #[test]
    fn no_snapshot_is_taken_at_a_time_of_which_a_merge_drops_something() {
        let visibility = Visibility::new(1, &Budget::new(1 << 20));
        let held = visibility.acquire_at(7);
        assert_eq!((held.time, visibility.boundaries(10).expired_to), (7, 7));
        visibility.release(held);
        assert_eq!(visibility.boundaries(10).expired_to, 10);
        // The clock was asked before, or went back.
        assert_eq!(visibility.acquire_at(8).time, 10);
        assert_eq!(visibility.acquire_at(11).time, 11);
        assert_eq!(visibility.boundaries(20).expired_to, 10);
    }

    #[test]
    fn snapshots_are_charged_while_they_are_held() {
        let budget = Budget::new(16 << 20);
        let list = Visibility::new(0, &budget);
        for seq in 0..1000 {
            list.publish(seq);
            let point = SnapshotPoint { seq, time: NEVER };
            assert_eq!(list.acquire(), point);
            list.acquire_again(point);
        }
        assert_eq!(list.held(), 2000);
        let charged = budget.used_by(Role::Tables);
        let words = 1000 * HELD_BYTES as u64;
        assert!((words..=2 * words).contains(&charged), "{charged}");
        for seq in (0..1000).chain(0..1000) {
            list.release(SnapshotPoint { seq, time: NEVER });
        }
        assert_eq!(list.held(), 0);
        let kept = (KEPT * HELD_BYTES) as u64;
        assert_eq!(budget.used(), kept);
    }

    /// Who holds more numbers than memory has a list for keeps more entries, not more memory.
    #[test]
    fn snapshots_without_number_take_no_more_than_their_share() {
        let budget = Budget::new(1 << 20);
        let visibility = Visibility::new(0, &budget);
        let hold = |seq| {
            visibility.publish(seq);
            assert_eq!(visibility.acquire().seq, seq);
        };
        (1..=100_000).for_each(hold);
        assert_eq!(visibility.held(), 100_000);
        assert!(budget.used() <= snapshot_list(1 << 20));
        assert_eq!(budget.stats().overdraft, 0);
        let boundaries = visibility.boundaries(0);
        let dense = boundaries.dense_from.unwrap();
        assert!(boundaries.each.starts_with(&[1, 2, 3]));
        assert_eq!(boundaries.each.len() as u64, dense);
        let point = |seq| SnapshotPoint { seq, time: NEVER };
        visibility.acquire_again(point(dense + 7));
        (1..dense).for_each(|seq| visibility.release(point(seq)));
        assert_eq!(visibility.oldest(), dense);
        (dense..=100_000).for_each(|seq| visibility.release(point(seq)));
        assert_eq!((visibility.held(), visibility.oldest()), (1, dense));
        visibility.release(point(dense + 7));
        assert_eq!((visibility.held(), visibility.oldest()), (0, 100_000));
        hold(100_001);
        assert_eq!(visibility.boundaries(0).dense_from, None);
    }
}
