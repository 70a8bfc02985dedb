//! Group commit: writers that come while another writes are written together, with one append and
//! one sync.
//!
//! Whoever finds no leader leads, with its own batch alone and nothing allocated. Others queue and
//! wait. A leader that is done makes the first of the queue the next one, which takes what has
//! gathered; those whose batch was written wake with the result.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::DbInner;
use super::batch::WriteBatch;
use crate::error::Result;
use crate::options::Durability;

/// The most a group's batches take together, in bytes, so that a leader does not serve for ever.
const GROUP_BYTES: usize = 1 << 20;

/// The writers that wait.
#[derive(Default)]
pub(crate) struct WriteQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// Whether someone leads; whoever waits will be told what to do.
    led: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

struct Waiter {
    batch: WriteBatch,
    durability: Durability,
    turn: Mutex<Turn>,
    told: Condvar,
}

enum Turn {
    Wait,
    Lead,
    Done(Result<()>),
}

impl Waiter {
    fn tell(&self, turn: Turn) {
        *self.turn.lock() = turn;
        self.told.notify_one();
    }

    /// Waits for a result; `None` says to lead.
    fn wait(&self) -> Option<Result<()>> {
        let mut turn = self.turn.lock();
        loop {
            match std::mem::replace(&mut *turn, Turn::Wait) {
                Turn::Wait => self.told.wait(&mut turn),
                Turn::Lead => return None,
                Turn::Done(result) => return Some(result),
            }
        }
    }
}

impl WriteQueue {
    /// Leads if nobody does, else queues the batch. Gives the batch back to a leader.
    fn enter(&self, batch: WriteBatch, durability: Durability) -> Result<WriteBatch, Arc<Waiter>> {
        let mut queue = self.0.lock();
        if !queue.led {
            queue.led = true;
            return Ok(batch);
        }
        let waiter = Arc::new(Waiter {
            batch,
            durability,
            turn: Mutex::new(Turn::Wait),
            told: Condvar::new(),
        });
        queue.waiting.push_back(waiter.clone());
        Err(waiter)
    }

    /// The oldest waiters up to [`GROUP_BYTES`], at least one.
    fn take_group(&self) -> Vec<Arc<Waiter>> {
        let mut queue = self.0.lock();
        let mut bytes = 0;
        let mut group = Vec::with_capacity(queue.waiting.len());
        while let Some(first) = queue.waiting.front() {
            bytes += first.batch.size();
            if !group.is_empty() && bytes > GROUP_BYTES {
                break;
            }
            group.extend(queue.waiting.pop_front());
        }
        group
    }

    /// Ends a leader's turn: the first who waits is next.
    fn leave(&self) {
        let mut queue = self.0.lock();
        match queue.waiting.front() {
            Some(next) => next.tell(Turn::Lead),
            None => queue.led = false,
        }
    }
}

impl DbInner {
    /// Writes a batch, alone or with others.
    pub(super) fn enqueue(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        let waiter = match self.queue.enter(batch, durability) {
            Ok(batch) => {
                let result = self.write_group(&mut self.writer.lock(), &[(&batch, durability)]);
                self.queue.leave();
                return result;
            }
            Err(waiter) => waiter,
        };
        if let Some(result) = waiter.wait() {
            return result;
        }
        // Those who come while the lock is waited for are in the group too.
        let mut writer = self.writer.lock();
        let group = self.queue.take_group();
        let batches: Vec<_> = group
            .iter()
            .map(|waiter| (&waiter.batch, waiter.durability))
            .collect();
        let result = self.write_group(&mut writer, &batches);
        drop(writer);
        self.queue.leave();
        for other in group.iter().filter(|other| !Arc::ptr_eq(other, &waiter)) {
            other.tell(Turn::Done(result.clone()));
        }
        result
    }
}
