//! Who writes next: a queue of jobs of which one thread at a time, the leader, does everybody's.
//!
//! Protocol: [`Queue::enter`] makes a thread the leader or gives it a place to [`QueuedJob::wait`].
//! A leader takes jobs by [`Queue::take_group`], does them and tells each [`QueuedJob::finish`].
//! When the next may begin it calls [`Queue::pass_on`]; as long as that says that it still leads,
//! it goes on taking groups. A thread that waits and is told to lead finds its own job first in the
//! group.
//!
//! The lead goes to a thread that is awake. Waking one takes longer than doing its job, and nobody
//! would write meanwhile; so jobs of sleepers are done by whoever leads, up to a limit, and the
//! sleepers wake to find them done (flat combining: Hendler, Incze, Shavit and Tzafrir, "Flat
//! Combining and the Synchronization-Parallelism Tradeoff", SPAA 2010).
//!
//! Thread-safe. The locks and atomics are those of `super::sync`, so that tests can put a schedule
//! checker's in their place.

use std::collections::VecDeque;

use super::sync::{Arc, AtomicU8, Condvar, Mutex, Ordering, spin_loop};

/// What one who waits is to do.
const WATCH: u8 = 0;
const SLEEP: u8 = 1;
const LEAD: u8 = 2;
const DONE: u8 = 3;

/// Jobs that wait for a leader.
pub(crate) struct Queue<J, R> {
    state: Mutex<QueueState<J, R>>,
    looks: u32,
}

struct QueueState<J, R> {
    /// Whether someone leads; whoever waits will be told what to do.
    led: bool,
    waiting: VecDeque<Arc<QueuedJob<J, R>>>,
}

/// A job in the queue.
pub(crate) struct QueuedJob<J, R> {
    pub(crate) job: J,
    turn: AtomicU8,
    result: Mutex<Option<R>>,
    told: Condvar,
}

/// What a thread is that brought a job.
pub(crate) enum Entered<J, R> {
    /// It leads, and does its job itself.
    Leader(J),
    /// It waits until somebody did its job, or tells it to lead.
    Follower(Arc<QueuedJob<J, R>>),
}

impl<J, R> QueuedJob<J, R> {
    /// Waits for the job's result; `None` says to lead.
    pub(crate) fn wait(&self, queue: &Queue<J, R>) -> Option<R> {
        for _ in 0..queue.looks {
            if self.turn.load(Ordering::Acquire) != WATCH {
                break;
            }
            spin_loop();
        }
        let mut result = self.result.lock();
        let slept = self
            .turn
            .compare_exchange(WATCH, SLEEP, Ordering::AcqRel, Ordering::Acquire);
        if slept.is_ok() {
            while self.turn.load(Ordering::Acquire) == SLEEP {
                result = self.told.wait(result);
            }
        }
        // Present exactly if the job is done.
        result.take()
    }

    /// Gives the job's result to the one who waits for it.
    pub(crate) fn finish(&self, result: R) {
        *self.result.lock() = Some(result);
        self.tell(DONE);
    }

    fn tell(&self, turn: u8) {
        if self.turn.swap(turn, Ordering::AcqRel) == SLEEP {
            // Not between its look at `turn` and its sleep.
            drop(self.result.lock());
            self.told.notify_one();
        }
    }

    /// Makes the one who waits the leader if it is awake.
    fn lead_if_awake(&self) -> bool {
        self.turn
            .compare_exchange(WATCH, LEAD, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl<J, R> Queue<J, R> {
    /// An empty queue. One who waits looks `looks` times before it sleeps.
    pub(crate) fn new(looks: u32) -> Self {
        Queue {
            state: Mutex::new(QueueState {
                led: false,
                waiting: VecDeque::new(),
            }),
            looks,
        }
    }

    /// How many wait.
    #[cfg(test)]
    #[allow(dead_code, reason = "asked in one of two builds of this file")]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Leads if nobody does, else queues the job.
    pub(crate) fn enter(&self, job: J) -> Entered<J, R> {
        let mut state = self.state.lock();
        if !state.led {
            state.led = true;
            return Entered::Leader(job);
        }
        let place = Arc::new(QueuedJob {
            job,
            turn: AtomicU8::new(WATCH),
            result: Mutex::new(None),
            told: Condvar::new(),
        });
        state.waiting.push_back(place.clone());
        Entered::Follower(place)
    }

    /// For the leader: the oldest jobs up to `limit` together, at least one if any waits.
    pub(crate) fn take_group(
        &self,
        limit: usize,
        size: impl Fn(&J) -> usize,
    ) -> Vec<Arc<QueuedJob<J, R>>> {
        let mut state = self.state.lock();
        let mut total = 0;
        let mut group = Vec::with_capacity(state.waiting.len());
        while let Some(first) = state.waiting.front() {
            total += size(&first.job);
            if !group.is_empty() && total > limit {
                break;
            }
            group.extend(state.waiting.pop_front());
        }
        group
    }

    /// For the leader: lets the first who waits lead if it is awake, or anyway when `must`. Says
    /// whether the caller still leads, having jobs of sleepers to do.
    pub(crate) fn pass_on(&self, must: bool) -> bool {
        let mut state = self.state.lock();
        match state.waiting.front() {
            None => {
                state.led = false;
                false
            }
            Some(next) if must => {
                next.tell(LEAD);
                false
            }
            Some(next) => !next.lead_if_awake(),
        }
    }
}
