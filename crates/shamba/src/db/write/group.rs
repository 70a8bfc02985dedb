//! Group commit: writers that come while another logs are logged together, with one append and one
//! sync.
//!
//! [`super::queue`] decides who leads; [`WritePath`] writes what a leader took, in two stages.
//! The lead goes on after the first, so that one group is logged while the one before it is
//! applied. A leader that finds the next in the queue asleep writes for it, at most
//! [`SERVED_ROUNDS`] times.
//!
//! A panic while leading stops writes with [`Error::Panicked`], and everybody who waits is told.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use parking_lot::MutexGuard;

use super::WritePath;
use super::queue::{Entered, Queue, QueuedJob};
use super::watch::WatchedKeys;
use crate::db::batch::WriteBatch;
use crate::db::buffers::Writer;
use crate::db::context::DbContext;
use crate::error::{Error, Result};
use crate::options::Durability;

/// The most a group's batches take together, in bytes, so that a leader does not serve for ever.
const GROUP_BYTES: usize = 1 << 20;

/// How many groups of others a leader writes after its own.
const SERVED_ROUNDS: usize = 8;

/// How often a waiting writer looks before it sleeps: a few microseconds, about two small writes.
const LOOKS: u32 = 100;

/// A batch, how durable it is to be, and what it depends on.
pub(super) struct WriteJob {
    pub(super) batch: WriteBatch,
    pub(super) durability: Durability,
    pub(super) watch: Option<Arc<WatchedKeys>>,
}

/// The writers that wait.
pub(super) type WriteQueue = Queue<WriteJob, Result<()>>;

type Waiter = QueuedJob<WriteJob, Result<()>>;

/// The queue of a database that opens.
pub(super) fn queue() -> WriteQueue {
    // On a single core, looking instead of sleeping would only keep the leader from running.
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    Queue::new(if cores > 1 { LOOKS } else { 0 })
}

/// A leader's turn. Ended by a panic, it lets the next lead, who finds that writes are stopped.
struct Turn<'a> {
    path: &'a WritePath,
    /// Groups begun.
    rounds: usize,
    /// Whether this group has let the next begin, and whether the caller is to write that one too.
    passed_on: bool,
    leads: bool,
}

impl<'a> Turn<'a> {
    fn new(path: &'a WritePath) -> Self {
        Turn {
            path,
            rounds: 0,
            passed_on: false,
            leads: true,
        }
    }

    /// Lets the next group begin, once for each group.
    fn pass_on(&mut self) {
        if !self.passed_on {
            self.passed_on = true;
            self.leads = self.path.queue.pass_on(self.rounds > SERVED_ROUNDS);
        }
    }

    fn write(
        &mut self,
        writer: MutexGuard<'_, Writer>,
        group: &[(&WriteBatch, Durability)],
    ) -> Result<()> {
        self.rounds += 1;
        self.passed_on = false;
        let path = self.path;
        let result = if group.is_empty() {
            drop(writer);
            Ok(())
        } else {
            path.write_group(writer, group, || self.pass_on())
        };
        self.pass_on();
        result
    }

    /// Writes a batch that was never queued.
    fn write_own(&mut self, own: &WriteJob) -> Result<()> {
        let writer = self.path.memtables.writer();
        let admitted = self.path.watches.admit(&own.batch, own.watch.as_ref());
        let group = [(&own.batch, own.durability)];
        let group = if admitted.is_ok() { &group[..] } else { &[] };
        let written = self.write(writer, group);
        admitted.and(written)
    }

    /// Writes what has gathered in the queue, and gives everyone the result.
    fn write_queued(&mut self) {
        let writer = self.path.memtables.writer();
        // Those who came while the lock was waited for are in the group too.
        let mut group = Group {
            path: self.path,
            waiters: self
                .path
                .queue
                .take_group(GROUP_BYTES.min(self.path.max_batch()), |job| {
                    job.batch.memory()
                }),
        };
        group.refuse_conflicts();
        let batches: Vec<_> = group
            .waiters
            .iter()
            .map(|waiter| (&waiter.job.batch, waiter.job.durability))
            .collect();
        let result = self.write(writer, &batches);
        group.finish(&result);
    }

    /// Writes for those who sleep, as long as the lead is not taken.
    fn serve(mut self) {
        while self.leads {
            self.write_queued();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.leads {
            self.path.queue.pass_on(true);
        }
    }
}

/// Waiters whose batches are being written; whatever happens, they are told.
struct Group<'a> {
    path: &'a WritePath,
    waiters: Vec<Arc<Waiter>>,
}

impl Group<'_> {
    /// Tells those that depend on what others wrote before them.
    fn refuse_conflicts(&mut self) {
        let watches = &self.path.watches;
        self.waiters.retain(|waiter| {
            let admitted = watches.admit(&waiter.job.batch, waiter.job.watch.as_ref());
            let is_admitted = admitted.is_ok();
            if !is_admitted {
                waiter.finish(admitted);
            }
            is_admitted
        });
    }

    fn finish(mut self, result: &Result<()>) {
        for waiter in self.waiters.drain(..) {
            waiter.finish(result.clone());
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        for waiter in self.waiters.drain(..) {
            waiter.finish(Err(self
                .path
                .shared
                .check_writable()
                .err()
                .unwrap_or(PANICKED)));
        }
    }
}

/// What stops writes after a panic.
const PANICKED: Error = Error::Panicked {
    op: "writing a batch",
};

impl WritePath {
    /// Writes a batch, alone or with others.
    pub(super) fn enqueue(&self, job: WriteJob) -> Result<()> {
        let waiter = match self.queue.enter(job) {
            Entered::Leader(own) => {
                let mut turn = Turn::new(self);
                let result = turn.write_own(&own);
                turn.serve();
                return result;
            }
            Entered::Follower(waiter) => waiter,
        };
        loop {
            if let Some(result) = waiter.wait(&self.queue) {
                return result;
            }
            let mut turn = Turn::new(self);
            turn.write_queued();
            turn.serve();
        }
    }

    /// Runs a part of a write, and stops writes if it panics. What the part changes must be behind
    /// locks that are let go only after this returns, so that nobody goes on with half of it.
    pub(super) fn poisoning<T>(&self, part: impl FnOnce() -> T) -> T {
        struct Guard<'a>(Option<&'a DbContext>);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                if let Some(shared) = self.0 {
                    shared.poison(&PANICKED);
                }
            }
        }
        let mut guard = Guard(Some(&self.shared));
        let done = part();
        guard.0 = None;
        done
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::db::Db;
    use crate::fs::{FaultFs, Faults, Fs, MemFs, Op};
    use crate::options::Options;

    fn open(fs: Arc<dyn Fs>) -> Db {
        Options::new()
            .fs(fs)
            .create_if_missing(true)
            .durability(Durability::Buffered)
            .open("/db")
            .unwrap()
    }

    fn stopped_by_a_panic(result: &Result<()>) -> bool {
        match result {
            Err(Error::Poisoned { cause }) => matches!(**cause, Error::Panicked { .. }),
            _ => false,
        }
    }

    #[test]
    fn a_leader_that_panics_stops_writes_and_releases_everyone() {
        const THREADS: usize = 4;
        let (fs, faults) = (MemFs::new(), Faults::new());
        let db = open(Arc::new(FaultFs::new(Arc::new(fs.clone()), faults.clone())));
        let appends = AtomicU64::new(0);
        faults.set_hook(Some(Arc::new(move |op, path| {
            if op == Op::Append
                && path.extension().is_some_and(|kind| kind == "wal")
                && appends.fetch_add(1, Ordering::SeqCst) == 100
            {
                // Time for the others to queue.
                std::thread::sleep(Duration::from_millis(20));
                panic!("on purpose");
            }
        })));
        let start = Barrier::new(THREADS);
        let ends: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (db, start) = (&db, &start);
                    scope.spawn(move || {
                        start.wait();
                        for written in 0u32.. {
                            let key = format!("{thread}-{written}");
                            match catch_unwind(AssertUnwindSafe(|| db.put(&key, b"v"))) {
                                Ok(Ok(())) => {}
                                end => return (written, end.ok()),
                            }
                        }
                        unreachable!("the writes never ended");
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        faults.set_hook(None);
        let panicked = ends.iter().filter(|(_, end)| end.is_none()).count();
        assert_eq!(panicked, 1, "{ends:?}");
        for end in ends.iter().filter_map(|(_, end)| end.as_ref()) {
            assert!(stopped_by_a_panic(end), "{end:?}");
        }
        assert!(stopped_by_a_panic(&db.put("later", b"v")));
        let all_there = |db: &Db| {
            for (thread, (written, _)) in ends.iter().enumerate() {
                for i in 0..*written {
                    assert!(db.get(format!("{thread}-{i}")).unwrap().is_some());
                }
            }
        };
        all_there(&db);
        assert!(db.close().is_err());
        all_there(&open(Arc::new(fs)));
    }

    #[test]
    fn a_group_after_one_that_was_half_applied_is_not_published() {
        let db = open(Arc::new(MemFs::new()));
        db.put("before", b"v").unwrap();
        let inner = db.inner();
        let visible = inner.visibility().newest();
        let applying = Barrier::new(2);
        std::thread::scope(|scope| {
            let half = scope.spawn(|| {
                let _stage = inner.memtables().applying().lock();
                applying.wait();
                inner.writes().poisoning(|| {
                    // The next group is in the log, or about to be.
                    while !inner.memtables().is_writer_locked() {
                        std::thread::yield_now();
                    }
                    panic!("on purpose");
                });
            });
            applying.wait();
            let result = db.put("after", b"v");
            assert!(stopped_by_a_panic(&result), "{result:?}");
            assert!(half.join().is_err());
        });
        assert_eq!(inner.visibility().newest(), visible);
        assert!(db.get("after").unwrap().is_none());
        assert!(db.get("before").unwrap().is_some());
    }
}
