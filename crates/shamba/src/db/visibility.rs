//! Which sequence numbers readers may see: the newest one, and those that snapshots and iterators
//! hold, which compaction must keep readable.
//!
//! Thread-safe. The list's lock holds nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::base::key::SeqNo;
use crate::budget::{Budget, Reservation, Role};

/// See the module.
#[derive(Debug)]
pub(super) struct Visibility {
    visible: AtomicU64,
    registered: Mutex<Registered>,
}

/// The sequence numbers held, ascending, with how many hold each. (They are few, and most new ones
/// come last.)
#[derive(Debug)]
struct Registered {
    list: Vec<(SeqNo, usize)>,
    memory: Reservation,
}

/// What a snapshot takes: its place in the list, and its number in the lists that two merges make.
const HELD_BYTES: usize = size_of::<(SeqNo, usize)>() + 4 * size_of::<SeqNo>();

/// Places that are kept when they are free: most scans then need no allocation for theirs.
const KEPT: usize = 16;

impl Visibility {
    /// Of a database that has come to a number.
    pub(super) fn new(visible: SeqNo, budget: &Arc<Budget>) -> Self {
        Visibility {
            visible: AtomicU64::new(visible),
            registered: Mutex::new(Registered {
                list: Vec::new(),
                memory: budget.open_account(Role::Tables),
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
    pub(super) fn acquire(&self) -> SeqNo {
        let mut registered = self.registered.lock();
        let seq = self.newest();
        registered.add(seq);
        seq
    }

    /// Registers a number that is held already.
    pub(super) fn acquire_again(&self, seq: SeqNo) {
        self.registered.lock().add(seq);
    }

    pub(super) fn release(&self, seq: SeqNo) {
        self.registered.lock().remove(seq);
    }

    /// Every number a reader may use from now on is one of these or above the last.
    pub(super) fn boundaries(&self) -> Vec<SeqNo> {
        let registered = self.registered.lock();
        let mut all: Vec<SeqNo> = registered.list.iter().map(|held| held.0).collect();
        all.push(self.newest());
        all
    }

    /// The oldest number that a reader may use from now on.
    pub(super) fn oldest(&self) -> SeqNo {
        let registered = self.registered.lock();
        let oldest = registered.list.first().map(|held| held.0);
        oldest.unwrap_or_else(|| self.newest())
    }

    /// How many hold a number.
    pub(super) fn held(&self) -> usize {
        let registered = self.registered.lock();
        registered.list.iter().map(|held| held.1).sum()
    }
}

impl Registered {
    fn add(&mut self, seq: SeqNo) {
        match self.list.binary_search_by_key(&seq, |held| held.0) {
            Ok(at) => {
                if let Some((_, count)) = self.list.get_mut(at) {
                    *count += 1;
                }
            }
            Err(at) => self.list.insert(at, (seq, 1)),
        }
        let wanted = (self.list.capacity() * HELD_BYTES) as u64;
        let more = wanted.saturating_sub(self.memory.bytes());
        if more > 0 {
            self.memory.grow_at_once(more);
        }
    }

    fn remove(&mut self, seq: SeqNo) {
        let Ok(at) = self.list.binary_search_by_key(&seq, |held| held.0) else {
            return;
        };
        if let Some((_, count)) = self.list.get_mut(at) {
            *count -= 1;
            if *count == 0 {
                self.list.remove(at);
            }
        }
        if self.list.capacity() > KEPT && self.list.len() < self.list.capacity() / 4 {
            self.list.shrink_to(KEPT.max(self.list.len() * 2));
            let less = (self.list.capacity() * HELD_BYTES) as u64;
            self.memory.shrink(self.memory.bytes() - less);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_charged_while_they_are_held() {
        let budget = Budget::new(1 << 20);
        let list = Visibility::new(0, &budget);
        for seq in 0..1000 {
            list.publish(seq);
            assert_eq!(list.acquire(), seq);
            list.acquire_again(seq);
        }
        assert_eq!(list.held(), 2000);
        let charged = budget.used_by(Role::Tables);
        let words = 1000 * HELD_BYTES as u64;
        assert!((words..=2 * words).contains(&charged), "{charged}");
        for seq in (0..1000).chain(0..1000) {
            list.release(seq);
        }
        assert_eq!(list.held(), 0);
        let kept = (KEPT * HELD_BYTES) as u64;
        assert_eq!(budget.used(), kept);
    }
}
