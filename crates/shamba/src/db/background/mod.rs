//! Background work: flushes first, then the most urgent compaction, then removing files nobody
//! uses; and waiting for it. Threads run [`Background::step`] until the database closes; with no
//! threads, whoever writes or waits does, and scans do what they have paid for.
//!
//! Thread-safe. Who waits holds no lock but the writer's.

mod clear;
pub(super) mod reload;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::buffers::{Memtables, Writer};
use super::context::DbContext;
use super::files::Files;
use super::jobs::{Compactor, Flusher, Jobs, RangeStep};
use super::keyspaces::KeyspaceInner;
use super::keyspaces::filter_limits::end_epoch;
use super::tuning::{Advisor, Redesigner};
use super::visibility::Visibility;
use crate::compaction::ManualRange;
use crate::error::{Error, Result};
use crate::metrics::Counter;
pub(super) use clear::Cleared;

/// How long one who waits sleeps at most before it looks again, though nobody woke it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// What [`Background::step`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Nothing was due.
    Nothing,
    /// A compaction.
    Compacted,
    /// Something else.
    Done,
}

/// What became of [`Background::step_beside_others`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stepped {
    /// Work was done.
    Done,
    /// Others are at work, or were a moment ago.
    Others,
    /// There is no work, for anybody.
    Nothing,
}

/// See the module.
pub(super) struct Background {
    shared: Arc<DbContext>,
    visibility: Arc<Visibility>,
    files: Arc<Files>,
    memtables: Arc<Memtables>,
    jobs: Arc<Jobs>,
    flusher: Arc<Flusher>,
    compactor: Arc<Compactor>,
    redesigner: Arc<Redesigner>,
    advisor: Arc<Advisor>,
    /// Whether the epoch of some keyspace is over.
    epoch_over: AtomicBool,
    /// What the signal said when work was last looked for and none was due.
    idle_at: AtomicU64,
}

/// Starts the background threads.
pub(super) fn start(background: &Arc<Background>) -> Result<Vec<JoinHandle<()>>> {
    let shared = &background.shared;
    (0..shared.options().background_threads)
        .map(|i| {
            let worker = background.clone();
            std::thread::Builder::new()
                .name(format!("shamba-{i}"))
                .spawn(move || worker.run())
                .map_err(|e| Error::io("start a thread for", shared.dir(), e))
        })
        .collect()
}

impl Background {
    pub(super) fn new(
        (shared, visibility): (&Arc<DbContext>, &Arc<Visibility>),
        (files, memtables): (&Arc<Files>, &Arc<Memtables>),
        (jobs, flusher, compactor): (&Arc<Jobs>, &Arc<Flusher>, &Arc<Compactor>),
        (redesigner, advisor): (&Arc<Redesigner>, &Arc<Advisor>),
    ) -> Self {
        Background {
            shared: shared.clone(),
            visibility: visibility.clone(),
            files: files.clone(),
            memtables: memtables.clone(),
            jobs: jobs.clone(),
            flusher: flusher.clone(),
            compactor: compactor.clone(),
            redesigner: redesigner.clone(),
            advisor: advisor.clone(),
            epoch_over: AtomicBool::new(false),
            idle_at: AtomicU64::new(u64::MAX),
        }
    }

    /// What a thread does.
    fn run(&self) {
        let signal = self.shared.signal();
        while !self.shared.is_stopping() {
            let seen = signal.now();
            match self.step() {
                Ok(true) => {}
                Ok(false) => signal.wait_past(seen, Duration::from_secs(1)),
                Err(Error::Closed) => return,
                Err(error) => {
                    let dir = self.shared.dir().display();
                    log::warn!("{dir}: background work failed: {error}");
                    // A failure that goes on must not keep a core busy.
                    signal.wait_past(signal.now(), Duration::from_millis(50));
                }
            }
        }
    }

    /// Does one piece of background work; false when nothing is due.
    pub(super) fn step(&self) -> Result<bool> {
        Ok(self.work_once()? != Work::Nothing)
    }

    fn work_once(&self) -> Result<Work> {
        let _job = self.jobs.begin()?;
        self.files.remove_obsolete();
        self.end_epochs();
        if self.shared.is_poisoned() {
            return Ok(Work::Nothing);
        }
        self.memtables.shrink_to_budget()?;
        self.advisor.ask_designs();
        if self.flusher.flush_some()? {
            return Ok(Work::Done);
        }
        if self.compactor.compact_once()? {
            return Ok(Work::Compacted);
        }
        Ok(if self.redesigner.end_moves()? {
            Work::Done
        } else {
            Work::Nothing
        })
    }

    /// The part of the work that may be due without a sign of it.
    fn tidy_up(&self) -> Result<()> {
        let _job = self.jobs.begin()?;
        self.files.remove_obsolete();
        if !self.shared.is_poisoned() {
            self.memtables.shrink_to_budget()?;
            self.advisor.ask_designs();
        }
        Ok(())
    }

    /// With no threads: does what is due, as a thread would. Failures are kept where a thread's
    /// would be: the write that came before is done and stays so.
    ///
    /// While a keyspace moves to another design, a write does one compaction at most: the move is
    /// paid for by many.
    ///
    /// Where nothing was due before and nothing has changed since, no keyspace is looked at.
    pub(super) fn work_inline(&self) {
        loop {
            let seen = self.shared.signal().now();
            let looked = self.idle_at.load(Ordering::Relaxed) == seen;
            if looked && (self.tidy_up().is_err() || self.shared.signal().now() == seen) {
                return;
            }
            match self.work_once() {
                Ok(Work::Done) => {}
                Ok(Work::Compacted) if !self.is_moving() => {}
                // What failed is tried again when its time has come, of which nobody tells.
                Ok(Work::Nothing) if self.compactor.stuck().is_none() => {
                    self.idle_at.store(seen, Ordering::Relaxed);
                    return;
                }
                Ok(Work::Compacted | Work::Nothing) | Err(_) => return,
            }
        }
    }

    /// After some reads: where nobody writes, readers look after the design, and take part in a
    /// move with a task each time. What fails is kept where a thread's failure would be.
    pub(super) fn work_after_reads(&self, keyspace: &KeyspaceInner) {
        if self.shared.has_threads() {
            return;
        }
        self.advisor.ask_designs();
        if keyspace.moving().is_some()
            && let Err(error) = self.step()
        {
            let dir = self.shared.dir().display();
            log::warn!("{dir}: moving to a design: {error}");
        }
    }

    /// After some scans, which may have paid for a merge. Without threads the caller does it, a
    /// task each time.
    pub(super) fn work_after_scans(&self, keyspace: &Arc<KeyspaceInner>) {
        let (shared, pages) = (&self.shared, self.files.tables().seek_pages());
        if !shared.options().read_only && keyspace.scans_may_have_paid(pages) {
            self.files.due().changed(keyspace);
            shared.signal().notify();
            if !shared.has_threads()
                && let Err(error) = self.step()
            {
                let dir = shared.dir().display();
                log::warn!("{dir}: merging for scans: {error}");
            }
        }
        self.work_after_reads(keyspace);
    }

    /// After scans that went past many deleted entries of a keyspace's memtables: they are flushed,
    /// which rids them of these. Without threads the caller does it.
    pub(super) fn work_after_deletions(&self, keyspace: &Arc<KeyspaceInner>) {
        let flush = || {
            self.shared.check_writable()?;
            keyspace.check_alive()?;
            if self.memtables.freeze_idle(keyspace)? && !self.shared.has_threads() {
                self.step()?;
            }
            Ok::<(), Error>(())
        };
        if let Err(error) = flush() {
            let dir = self.shared.dir().display();
            log::warn!("{dir}: flushing deleted entries: {error}");
        }
    }

    /// A keyspace's epoch is over: a thread ends it, or, without threads, the caller.
    pub(super) fn epoch_is_over(&self, keyspace: &KeyspaceInner) {
        if self.shared.has_threads() {
            self.epoch_over.store(true, Ordering::Relaxed);
            self.shared.signal().notify();
        } else {
            end_epoch(keyspace);
            self.work_after_reads(keyspace);
        }
    }

    /// Ends the epochs that are over.
    fn end_epochs(&self) {
        if !self.epoch_over.swap(false, Ordering::Relaxed) {
            return;
        }
        for keyspace in self.files.keyspaces() {
            if !end_epoch(&keyspace) {
                self.epoch_over.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether a keyspace moves to another design.
    fn is_moving(&self) -> bool {
        !self.files.due().moving().is_empty()
    }

    /// Whether another thread flushes or compacts right now.
    fn others_at_work(&self) -> bool {
        let flushes = |keyspace: &Arc<KeyspaceInner>| keyspace.is_flushing().then_some(());
        self.compactor.is_running() || self.memtables.frozen().find(flushes).is_some()
    }

    /// Does a piece of work, where there are no threads. Others may have some when there is none
    /// for this one, and be done with it, or with a part of it, at any moment: that there is
    /// nothing to wait for is certain only where nobody was at work before and nothing happened
    /// since the signal was `seen`.
    fn step_beside_others(&self, seen: u64) -> Result<Stepped> {
        let others = self.others_at_work();
        if self.step()? {
            return Ok(Stepped::Done);
        }
        let nothing = !others && !self.others_at_work() && self.shared.signal().now() == seen;
        Ok(if nothing {
            Stepped::Nothing
        } else {
            Stepped::Others
        })
    }

    /// Whether no flush or compaction is due or running.
    pub(super) fn nothing_due(&self) -> bool {
        self.memtables.frozen().is_empty() && self.no_merge_due()
    }

    /// Whether no compaction is due or running.
    pub(super) fn no_merge_due(&self) -> bool {
        let tree = self.files.tree();
        if self.compactor.is_running() {
            return false;
        }
        self.compactor.look_for_due(&tree);
        self.files.due().nothing() && !self.is_moving()
    }

    /// Waits for `done`, doing the work itself when there are no threads: then until none is left
    /// at most.
    fn wait_until(&self, done: impl Fn() -> bool) -> Result<()> {
        loop {
            let seen = self.shared.signal().now();
            if done() {
                return Ok(());
            }
            self.shared.check_writable()?;
            if self.shared.has_threads()
                && let Some(error) = self.memtables.stuck_flush()
            {
                return Err((*error).clone());
            }
            if !self.shared.has_threads() {
                let stepped = self.step_beside_others(seen)?;
                if stepped == Stepped::Done || done() {
                    continue;
                }
                if stepped == Stepped::Nothing {
                    return self.shared.check_writable();
                }
            }
            self.shared.signal().wait_past(seen, LONGEST_SLEEP);
        }
    }

    /// Waits until no flush or compaction is due or running. Compactions that rest after failures
    /// are tried anew first; after that their failure is the answer.
    pub(super) fn wait_idle(&self) -> Result<()> {
        self.shared.check_open()?;
        if self.shared.options().read_only {
            return Ok(());
        }
        // What made them fail may have ended: the disk has room again, or the budget was made
        // larger.
        self.compactor.try_anew();
        self.wait_until(|| self.compactor.stuck().is_some() || self.nothing_due())?;
        match self.compactor.stuck() {
            Some(error) => Err((*error).clone()),
            None => Ok(()),
        }
    }

    /// For a write: waits until `ready`, doing the work itself when there are no threads. Gives up
    /// with the reason when writes are stopped for good.
    pub(super) fn wait_for_room(&self, ready: impl Fn() -> bool) -> Result<()> {
        let (shared, started) = (&self.shared, Instant::now());
        shared.metrics().add(Counter::write_stalls, 1);
        let result = loop {
            let seen = shared.signal().now();
            if ready() {
                break Ok(());
            }
            if let Err(error) = shared.check_writable() {
                break Err(error);
            }
            if !shared.has_threads() {
                match self.step_beside_others(seen) {
                    Ok(Stepped::Done) => continue,
                    // And still no room: what is held is held by readers.
                    Ok(Stepped::Nothing) => break Ok(()),
                    Ok(Stepped::Others) => {}
                    Err(Error::Closed) => break Err(Error::Closed),
                    // Tried again, until it counts as stuck.
                    Err(_) => continue,
                }
            }
            shared.signal().wait_past(seen, LONGEST_SLEEP);
        };
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        shared.metrics().add(Counter::write_stall_micros, micros);
        result
    }

    /// Closes the log and replaces the active memtable by an empty one that takes an entry of
    /// `size` bytes; waits while two of the keyspace wait to be flushed.
    pub(super) fn freeze(
        &self,
        writer: &mut Writer,
        keyspace: &Arc<KeyspaceInner>,
        size: usize,
    ) -> Result<()> {
        self.memtables.freeze(writer, keyspace, size)?;
        // Two memtables waiting is the most: a third would only hide that flushes lag.
        let few = || keyspace.state().frozen.len() <= 2;
        if few() {
            return Ok(());
        }
        // Of any keyspace: what keeps another's from being flushed may keep this one from being
        // tried.
        self.wait_for_room(|| few() || self.memtables.stuck_flush().is_some())
    }

    /// Freezes every memtable that holds anything and waits until all are flushed. Writes are held
    /// off until the guard is dropped.
    pub(super) fn flush_all(&self) -> Result<MutexGuard<'_, Writer>> {
        self.shared.check_writable()?;
        let mut writer = self.memtables.lock();
        let keyspaces: Vec<_> = writer.keyspaces.values().cloned().collect();
        for keyspace in &keyspaces {
            // Who asks for it may have mended what made it fail.
            keyspace.flushes().forget();
            if !keyspace.state().active.is_empty() {
                self.freeze(&mut writer, keyspace, 0)?;
            }
            // A small budget has no room for a second memtable of each keyspace at once.
            if self.memtables.over_share() {
                self.wait_until(|| keyspace.state().frozen.is_empty())?;
            }
        }
        self.wait_until(|| self.memtables.frozen().is_empty())?;
        Ok(writer)
    }

    /// Everything in memory goes to tables, and what that makes unused is gone when it returns.
    pub(super) fn flush(&self) -> Result<()> {
        drop(self.flush_all()?);
        // A close that has begun does it too.
        if let Ok(_job) = self.jobs.begin() {
            self.files.remove_obsolete();
        }
        Ok(())
    }

    /// Merges a key range down to the bottom, on the caller's thread, other compactions held off.
    pub(super) fn compact_range(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        keyspace.check_alive()?;
        drop(self.flush_all()?);
        let _job = self.jobs.begin()?;
        let _paused = self.compactor.pause();
        let result = self.compact_paused(keyspace, from, to);
        // The space of what was merged is free when the call returns.
        self.files.remove_obsolete();
        result
    }

    fn compact_paused(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        self.wait_until(|| !self.compactor.is_running())?;
        let range = ManualRange {
            from,
            to,
            max_seq: self.visibility.newest(),
            rewrite_before: self.compactor.rewrite_before(keyspace),
        };
        loop {
            self.shared.check_writable()?;
            match self.compactor.compact_range_once(keyspace, range)? {
                RangeStep::Ended => return Ok(()),
                RangeStep::Done => {}
                RangeStep::Busy => {
                    let signal = self.shared.signal();
                    signal.wait_past(signal.now(), Duration::from_millis(10));
                }
            }
        }
    }

    /// The last work of a database that closes: waits for what is under way, then everything in
    /// memory goes to tables. Needs no thread.
    pub(super) fn flush_at_end(&self) -> Result<()> {
        // The closing itself must not stop the flush.
        self.shared.stop_work(false);
        let mut writer = self.memtables.lock();
        if let Some(cause) = &*self.shared.poisoned_by() {
            return Err(Error::Poisoned {
                cause: cause.clone(),
            });
        }
        self.memtables.freeze_all(&mut writer)?;
        self.flusher.flush_frozen()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::fs::MemFs;
    use crate::{MemoryBudget, Options};

    /// Another thread flushes the older of two memtables, is done with it just after this one saw
    /// that there is nothing for it to flush, and does not go on.
    #[test]
    fn what_another_thread_leaves_is_waited_for() {
        let options = Options::new()
            .fs(Arc::new(MemFs::new()))
            .memory(MemoryBudget::bytes(1 << 20))
            .background_threads(0);
        let db = options.open("/db").unwrap();
        let inner = db.inner();
        let keyspace = inner.files().keyspaces().remove(0);
        for value in ["old", "new"] {
            db.put("key", value).unwrap();
            inner.memtables().freeze_active(&keyspace, 0);
        }
        assert!(keyspace.claim_flushes());
        let asked = Cell::new(0);
        let waited = inner.background().wait_until(|| {
            asked.set(asked.get() + 1);
            if asked.get() == 2 {
                assert!(inner.flusher().flush_oldest(&keyspace).unwrap());
                keyspace.release_flushes();
                inner.shared().signal().notify();
            }
            inner.memtables().frozen().is_empty()
        });
        waited.unwrap();
        assert!(inner.memtables().frozen().is_empty(), "a memtable was left");
        assert!(asked.get() >= 2);
    }
}
