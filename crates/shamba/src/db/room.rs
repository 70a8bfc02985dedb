//! Making room for writes: new memtables, waiting for flushes, slowing down while compactions lag.
//!
//! For the leader of a write group, under the `writer` lock; what freezes memtables needs the
//! `applying` lock too, or [`DbInner::lock_writer`], so that nobody fills what is frozen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::DbInner;
use super::keyspace::KeyspaceInner;
use super::write::Writer;
use crate::budget::{Role, SMALL_MEMORY};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Counter;
use crate::options::KeyspaceOptions;

/// Bytes of batches that writes which are slowed down may log in a second.
const SLOWED_RATE: f64 = (16 << 20) as f64;

/// Writes sleep so long at least: shorter sleeps are not kept.
const LEAST_SLEEP: Duration = Duration::from_millis(1);

impl KeyspaceOptions {
    /// The memtable's size under a budget: an eighth of it at most, so that the one filling and
    /// those being flushed leave more than half for everything else.
    pub(crate) fn memtable_capacity(&self, limit: u64) -> usize {
        usize::try_from(self.write_buffer.min(memtable_most(limit))).unwrap_or(usize::MAX)
    }
}

/// The size of the largest memtable under a budget.
pub(super) fn memtable_most(limit: u64) -> u64 {
    (limit / 8).max(8 << 10)
}

/// The bytes that all memtables may take before writers wait for flushes: half of the budget. Of a
/// very small one a quarter: pages, an open table and a merge's buffers take what they take.
pub(super) fn memtable_share(limit: u64) -> u64 {
    match limit < SMALL_MEMORY {
        true => limit / 4,
        false => limit / 2,
    }
}

impl DbInner {
    /// Whether `more` bytes would take the memtables past their share of the budget.
    pub(super) fn memtables_over_quota(&self, more: usize) -> bool {
        let budget = self.options.memory.budget();
        budget.used_by(Role::Memtable) + more as u64 > memtable_share(budget.limit())
    }

    /// The size of a memtable under the budget of this moment, which may have changed since one was
    /// made.
    fn capacity_now(&self, keyspace: &KeyspaceInner, memtable: &Memtable) -> usize {
        let limit = self.options.memory.limit();
        let capacity = keyspace.options().memtable_capacity(limit);
        capacity.min(memtable.capacity())
    }

    /// Whether `more` bytes would make a memtable larger than one made now would be.
    pub(super) fn outgrown(
        &self,
        keyspace: &KeyspaceInner,
        memtable: &Memtable,
        more: usize,
    ) -> bool {
        let most = self.capacity_now(keyspace, memtable);
        most < memtable.capacity() && !memtable.is_empty() && memtable.bytes_used() + more > most
    }

    /// Whether flushing a memtable gives back enough to be worth a table.
    pub(super) fn worth_flushing(&self, keyspace: &KeyspaceInner, memtable: &Memtable) -> bool {
        memtable.bytes_used() * 4 >= self.capacity_now(keyspace, memtable)
    }

    /// Gives keyspaces whose empty memtable was made under a larger budget one that suits the present
    /// one: even an empty memtable has its first pages charged.
    pub(super) fn shrink_empty_memtables(&self, writer: &Writer) {
        let budget = self.options.memory.budget();
        for keyspace in writer.keyspaces.values() {
            let active = keyspace.state.load().active.clone();
            if active.is_empty() && self.capacity_now(keyspace, &active) < active.capacity() {
                keyspace.freeze_active(keyspace.fresh_memtable(budget, 0));
            }
        }
    }

    /// Freezes the largest memtable if the budget was made so much smaller that memtables take more
    /// than their share, and nobody writes who would do it.
    pub(super) fn come_down(&self) -> Result<()> {
        let budget = self.options.memory.budget();
        if budget.used() <= budget.limit() || !self.memtables_over_quota(0) {
            return Ok(());
        }
        let Some(mut writer) = self.writer.try_lock() else {
            return Ok(());
        };
        let Some(_applying) = self.applying.try_lock() else {
            return Ok(());
        };
        self.shrink_empty_memtables(&writer);
        let active = |keyspace: &Arc<KeyspaceInner>| keyspace.state.load().active.clone();
        let keyspaces = writer.keyspaces.values();
        let largest = keyspaces.max_by_key(|keyspace| active(keyspace).bytes_used());
        match largest.cloned() {
            Some(keyspace)
                if !self.frozen_anywhere(&writer)
                    && self.worth_flushing(&keyspace, &active(&keyspace)) =>
            {
                self.freeze(&mut writer, &keyspace, 0)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a write of so many bytes while flushes keep failing, and slows it down, or makes it wait,
    /// while level 0 has too many runs. Nothing of it is logged yet.
    pub(super) fn throttle(&self, writer: &mut Writer, bytes: u64) -> Result<()> {
        if self.flush_is_stuck(writer) && self.options.background_threads == 0 {
            // Nobody else tries it again.
            let _ = self.step();
        }
        let mut slow = false;
        for keyspace in writer.keyspaces.values() {
            if let Some(cause) = keyspace.flushes.stuck() {
                return Err(Error::Stalled { cause });
            }
            let runs = || keyspace.state.load().version.runs_of(0).len() as u32;
            let limits = || keyspace.options().level0_limits();
            let (slowdown, stall) = limits();
            if runs() >= stall {
                // More runs than that may be what the merge policy wants.
                let room = || runs() < limits().1 || self.nothing_due();
                let stuck = || keyspace.compactions.stuck();
                self.wait_for_room(|| room() || stuck().is_some())?;
                if let Some(cause) = stuck().filter(|_| !room()) {
                    return Err(Error::Stalled { cause });
                }
            }
            slow |= runs() >= slowdown;
        }
        if slow && self.options.background_threads > 0 {
            self.slow_down(writer, bytes);
        }
        Ok(())
    }

    /// Makes a write take as long as its bytes do at [`SLOWED_RATE`].
    fn slow_down(&self, writer: &mut Writer, bytes: u64) {
        writer.slowed += Duration::from_secs_f64(bytes as f64 / SLOWED_RATE);
        let sleep = match writer.slowed >= LEAST_SLEEP {
            true => std::mem::take(&mut writer.slowed),
            false => Duration::ZERO,
        };
        std::thread::sleep(sleep);
        let micros = u64::try_from(sleep.as_micros()).unwrap_or(u64::MAX);
        self.metrics.add_all(&[
            (Counter::write_slowdowns, 1),
            (Counter::write_slowdown_micros, micros),
        ]);
    }

    fn flush_is_stuck(&self, writer: &Writer) -> bool {
        let mut keyspaces = writer.keyspaces.values();
        keyspaces.any(|keyspace| keyspace.flushes.stuck().is_some())
    }

    /// Gives `keyspace` an active memtable with room for an entry of `size` bytes, waiting for
    /// flushes while memtables take more than their share.
    pub(super) fn make_room(
        &self,
        writer: &mut Writer,
        keyspace: &Arc<KeyspaceInner>,
        size: usize,
    ) -> Result<()> {
        if self.memtables_over_quota(size) {
            self.shrink_empty_memtables(writer);
        }
        let active = keyspace.state.load().active.clone();
        if !active.fits(1, size) || self.outgrown(keyspace, &active, size) {
            self.freeze(writer, keyspace, size)?;
        }
        drop(active);
        while self.memtables_over_quota(size) {
            if !self.frozen_anywhere(writer) {
                let largest = writer
                    .keyspaces
                    .values()
                    .max_by_key(|keyspace| keyspace.state.load().active.bytes_used());
                match largest.cloned() {
                    Some(largest)
                        if self.worth_flushing(&largest, &largest.state.load().active) =>
                    {
                        self.freeze(writer, &largest, size)?
                    }
                    // What is left is held by readers; waiting would be for ever.
                    _ => break,
                }
            }
            let before = self.frozen_count(writer);
            if before == 0 {
                // Flushed already; what it freed is looked at anew, for nothing else would wake us.
                continue;
            }
            let room = || self.frozen_count(writer) < before || !self.memtables_over_quota(size);
            self.wait_for_room(|| room() || self.flush_is_stuck(writer))?;
            if self.flush_is_stuck(writer) && !room() {
                // The write is logged; those after it are refused.
                break;
            }
        }
        Ok(())
    }

    fn frozen_count(&self, writer: &Writer) -> usize {
        writer
            .keyspaces
            .values()
            .map(|keyspace| keyspace.state.load().frozen.len())
            .sum()
    }

    fn frozen_anywhere(&self, writer: &Writer) -> bool {
        self.frozen_count(writer) > 0
    }

    /// Closes the log and replaces the active memtable by an empty one that takes an entry of
    /// `size` bytes.
    pub(crate) fn freeze(
        &self,
        writer: &mut Writer,
        keyspace: &Arc<KeyspaceInner>,
        size: usize,
    ) -> Result<()> {
        self.close_log(writer)?;
        if !keyspace.state.load().active.is_empty() || !keyspace.state.load().active.fits(1, size) {
            keyspace.freeze_active(keyspace.fresh_memtable(self.options.memory.budget(), size));
        }
        self.signal.notify();
        self.freeze_holders_of_old_logs(writer);
        // Two memtables waiting is the most: a third would only hide that flushes lag.
        if keyspace.state.load().frozen.len() > 2 {
            self.wait_for_room(|| {
                keyspace.state.load().frozen.len() <= 2 || keyspace.flushes.stuck().is_some()
            })?;
        }
        Ok(())
    }

    /// Waits until `ready`, doing the work itself when there are no threads. Gives up with the
    /// reason when writes are stopped for good.
    fn wait_for_room(&self, ready: impl Fn() -> bool) -> Result<()> {
        let started = Instant::now();
        self.metrics.add(Counter::write_stalls, 1);
        let result = loop {
            let seen = self.signal.now();
            if ready() {
                break Ok(());
            }
            if let Err(error) = self.check_writable() {
                break Err(error);
            }
            if self.options.background_threads == 0 {
                match self.step() {
                    Ok(true) => continue,
                    // Nothing to do and still no room: what is held is held by readers.
                    Ok(false) if !self.others_at_work() => break Ok(()),
                    Ok(false) => {}
                    Err(Error::Closed) => break Err(Error::Closed),
                    // Tried again, until it counts as stuck.
                    Err(_) => continue,
                }
            }
            self.signal.wait_past(seen, Duration::from_millis(100));
        };
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.metrics.add(Counter::write_stall_micros, micros);
        result
    }
}
