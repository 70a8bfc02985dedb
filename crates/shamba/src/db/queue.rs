//! Group commit: writers that come while a group is being written form the next one.
//!
//! One writer at a time leads. The others put their batches into the queue and sleep, not on the
//! writer's lock but on the queue, so that all whose batch was written wake together and have
//! their next batch queued while the group after theirs is synced. Thread-safe.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::batch::WriteBatch;
use crate::error::Result;
use crate::options::Durability;

/// The most a group's batches take together, in bytes, so that a leader does not serve for ever.
const GROUP_BYTES: usize = 1 << 20;

/// A batch waiting for a leader.
struct Pending {
    batch: WriteBatch,
    durability: Durability,
    outcome: Arc<Mutex<Option<Result<()>>>>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Pending>,
    /// Whether a writer leads, or is about to.
    led: bool,
}

/// The writers that wait.
#[derive(Default)]
pub(crate) struct CommitQueue {
    state: Mutex<State>,
    /// A leader stepped down.
    written: Condvar,
}

/// Makes room for the next leader, also when writing panics.
struct Leading<'a>(&'a CommitQueue);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.state.lock().led = false;
        self.0.written.notify_all();
    }
}

impl CommitQueue {
    /// Has `write` called with a group that holds this batch, by this thread or another; gives
    /// what it returned. No two calls of `write` overlap.
    pub(crate) fn commit(
        &self,
        batch: WriteBatch,
        durability: Durability,
        mut write: impl FnMut(&[(&WriteBatch, Durability)]) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        if !state.led && state.waiting.is_empty() {
            state.led = true;
            drop(state);
            let _leading = Leading(self);
            return write(&[(&batch, durability)]);
        }
        let outcome = Arc::new(Mutex::new(None));
        state.waiting.push(Pending {
            batch,
            durability,
            outcome: outcome.clone(),
        });
        while state.led {
            self.written.wait(&mut state);
            if let Some(result) = outcome.lock().take() {
                return result;
            }
        }
        state.led = true;
        drop(state);
        let _leading = Leading(self);
        loop {
            let group = self.take_group();
            let batches: Vec<_> = group
                .iter()
                .map(|waiting| (&waiting.batch, waiting.durability))
                .collect();
            let result = write(&batches);
            for waiting in &group {
                *waiting.outcome.lock() = Some(result.clone());
            }
            if let Some(result) = outcome.lock().take() {
                return result;
            }
        }
    }

    /// The oldest waiting batches up to [`GROUP_BYTES`].
    fn take_group(&self) -> Vec<Pending> {
        let mut state = self.state.lock();
        let mut bytes = 0;
        let fits = state.waiting.iter().take_while(|waiting| {
            let first = bytes == 0;
            bytes += waiting.batch.size();
            first || bytes <= GROUP_BYTES
        });
        let count = fits.count();
        let rest = state.waiting.split_off(count);
        std::mem::replace(&mut state.waiting, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_batch_is_written_once_and_never_two_groups_at_a_time() {
        let queue = CommitQueue::default();
        let (busy, batches, groups) = (Mutex::new(()), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (queue, busy, batches, groups) = (&queue, &busy, &batches, &groups);
                scope.spawn(move || {
                    for i in 0..200u32 {
                        let mut batch = WriteBatch::new();
                        batch.put([thread], i.to_le_bytes());
                        let written = queue.commit(batch, Durability::Buffered, |group| {
                            let _alone = busy.try_lock().expect("two groups at a time");
                            groups.fetch_add(1, Ordering::Relaxed);
                            batches.fetch_add(group.len(), Ordering::Relaxed);
                            std::thread::sleep(std::time::Duration::from_micros(50));
                            Ok(())
                        });
                        written.unwrap();
                    }
                });
            }
        });
        assert_eq!(batches.into_inner(), 1600);
        assert!(groups.into_inner() < 1200, "batches were not grouped");
    }
}
