//! Making room for writes: new memtables, waiting for flushes, slowing down while compactions lag.
//!
//! For the leader of a write group, under the `writer` lock; what freezes memtables needs the
//! `applying` lock too, or [`DbInner::lock_writer`], so that nobody fills what is frozen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::DbInner;
use super::batch::WriteBatch;
use super::keyspace::KeyspaceInner;
use super::maintenance::Stepped;
use super::write::Writer;
use crate::budget::Role;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Counter;
use crate::options::{Durability, KeyspaceOptions};

/// Bytes of batches that writes which are slowed down may log in a second.
const SLOWED_RATE: f64 = (16 << 20) as f64;

/// Memtables that take this part of the memtables' share together are flushed at once when memory is
/// short. All keyspaces are looked through once for each such part, and one log is closed. With half of it
/// both happen twice as often; twice of it is memory that is not written to while it is flushed.
const BATCH_SHARE: u64 = 8;

/// Writes sleep so long at least: shorter sleeps are not kept.
const LEAST_SLEEP: Duration = Duration::from_millis(1);

impl KeyspaceOptions {
    /// The memtable's size under a budget: an eighth of it at most, so that the one filling and
    /// those being flushed leave more than half for everything else.
    pub(crate) fn memtable_capacity(&self, limit: u64) -> usize {
        usize::try_from(self.write_buffer.min(max_memtable_bytes(limit))).unwrap_or(usize::MAX)
    }
}

/// The size of the largest memtable under a budget.
pub(super) fn max_memtable_bytes(limit: u64) -> u64 {
    limit / 8
}

/// What is left to those who read and merge entries of the largest size, where the budget is small: two of
/// the least budget's.
const LEFT_BY_MEMTABLES: u64 = 128 << 10;

/// The bytes that all memtables may take before writers wait for flushes: half of the budget, but for a
/// constant that only small budgets feel.
pub(super) fn memtable_share(limit: u64) -> u64 {
    limit / 2 - LEFT_BY_MEMTABLES.min(limit / 8)
}

impl DbInner {
    /// The bytes that all memtables may take.
    pub(super) fn memtable_share(&self) -> u64 {
        memtable_share(self.options.memory.limit())
    }

    /// Whether memtables take more than their share: the budget was made smaller.
    pub(super) fn memtables_over_share(&self) -> bool {
        self.memtables_taken() > self.memtable_share()
    }

    /// What memtables take, those of other databases under this budget too.
    fn memtables_taken(&self) -> u64 {
        self.options.memory.budget().used_by(Role::Memtable)
    }

    /// Whether the largest memtables are to be flushed, before all together have taken their share and
    /// writers must wait.
    pub(super) fn crowded(&self, writer: &Writer) -> bool {
        let share = self.memtable_share();
        let taken = self.memtables_taken();
        taken > share / 4 * 3
            && taken > writer.not_ours.saturating_add(share / BATCH_SHARE)
            && self.frozen.is_empty()
    }

    /// The keyspaces whose active memtables are to be flushed when memory is short: the largest, as many
    /// as take a part of the share together that is worth their tables. None when all of this database
    /// take less than that: then it is others who have the memory, and flushing ours would only make many
    /// small tables.
    pub(super) fn largest_memtables(
        &self,
        keyspaces: &BTreeMap<u32, Arc<KeyspaceInner>>,
    ) -> Vec<Arc<KeyspaceInner>> {
        let charged = |keyspace: &Arc<KeyspaceInner>| keyspace.state.load().active.charged() as u64;
        let (mut sum, mut most) = (0, 0);
        for bytes in keyspaces.values().map(charged) {
            sum += bytes;
            most = bytes.max(most);
        }
        let batch = self.memtable_share() / BATCH_SHARE;
        let mut left = match sum < batch {
            true => 0,
            false => batch,
        };
        // Those at least half as large as the largest.
        let large = keyspaces
            .values()
            .filter(|keyspace| charged(keyspace) > most / 2);
        large
            .take_while(|keyspace| {
                let more = left > 0;
                left = left.saturating_sub(charged(keyspace));
                more
            })
            .cloned()
            .collect()
    }

    /// Freezes the largest memtables; false when that would not help.
    fn freeze_largest(&self, writer: &mut Writer, size: usize) -> Result<bool> {
        let largest = self.largest_memtables(&writer.keyspaces);
        if largest.is_empty() {
            writer.not_ours = self.memtables_taken();
            return Ok(false);
        }
        writer.not_ours = 0;
        self.close_log(writer)?;
        for keyspace in &largest {
            self.freeze_active(keyspace, size);
        }
        self.signal.notify();
        self.freeze_holders_of_old_logs(writer);
        Ok(true)
    }

    /// Freezes the largest memtables, or all, however small, where that makes room for a group that takes so
    /// many bytes, and these are many; false when it would not help.
    fn freeze_for(&self, writer: &mut Writer, bytes: u64) -> Result<bool> {
        let (share, taken) = (self.memtable_share(), self.memtables_taken());
        let grown = taken > writer.not_ours.saturating_add(share / BATCH_SHARE);
        if grown && self.freeze_largest(writer, 0)? {
            return Ok(true);
        }
        if bytes <= share / BATCH_SHARE {
            return Ok(false);
        }
        let keyspaces = writer.keyspaces.values();
        let full = keyspaces.filter(|keyspace| !keyspace.state.load().active.is_empty());
        let full: Vec<_> = full.cloned().collect();
        let ours = |keyspace: &Arc<KeyspaceInner>| keyspace.state.load().active.charged() as u64;
        let ours: u64 = full.iter().map(ours).sum();
        if full.is_empty() || taken.saturating_sub(ours).saturating_add(bytes) > share {
            return Ok(false);
        }
        self.close_log(writer)?;
        for keyspace in &full {
            self.freeze_active(keyspace, 0);
        }
        self.signal.notify();
        Ok(true)
    }

    /// Replaces a keyspace's active memtable by an empty one that takes an entry of `size` bytes; the
    /// old one waits to be flushed if there is anything in it.
    pub(super) fn freeze_active(&self, keyspace: &Arc<KeyspaceInner>, size: usize) {
        keyspace.freeze_active(keyspace.fresh_memtable(self.options.memory.budget(), size));
        self.frozen.add(keyspace);
    }

    /// The size of a memtable under the budget of this moment, which may have changed since one was
    /// made.
    fn capacity_now(&self, keyspace: &KeyspaceInner, memtable: &Memtable) -> usize {
        let limit = self.options.memory.limit();
        let capacity = keyspace.options().memtable_capacity(limit);
        capacity.min(memtable.capacity())
    }

    /// Whether `more` bytes would make a memtable larger than one made now would be.
    pub(super) fn exceeds_capacity(
        &self,
        keyspace: &KeyspaceInner,
        memtable: &Memtable,
        more: usize,
    ) -> bool {
        let most = self.capacity_now(keyspace, memtable);
        most < memtable.capacity() && !memtable.is_empty() && memtable.bytes_used() + more > most
    }

    /// Freezes the largest memtables if the budget was made so much smaller that memtables take more
    /// than their share, and nobody writes who would do it.
    pub(super) fn shrink_to_budget(&self) -> Result<()> {
        if !self.memtables_over_share() || !self.frozen.is_empty() {
            return Ok(());
        }
        let Some(mut writer) = self.writer.try_lock() else {
            return Ok(());
        };
        let Some(_applying) = self.applying.try_lock() else {
            return Ok(());
        };
        self.freeze_largest(&mut writer, 0).map(drop)
    }

    /// Refuses a write of so many bytes while flushes keep failing, and slows it down, or makes it wait,
    /// while level 0 of a keyspace it goes to has too many runs. Nothing of it is logged yet.
    pub(super) fn throttle(
        &self,
        writer: &mut Writer,
        group: &[(&WriteBatch, Durability)],
        bytes: u64,
    ) -> Result<()> {
        if self.stuck_flush().is_some() && self.options.background_threads == 0 {
            // Nobody else tries it again.
            let _ = self.step();
        }
        if let Some(cause) = self.stuck_flush() {
            return Err(Error::Stalled { cause });
        }
        let mut slow = false;
        let mut before = None;
        for id in group
            .iter()
            .flat_map(|(batch, _)| batch.keyspaces_written())
        {
            if before.replace(id) == Some(id) {
                continue;
            }
            let Some(keyspace) = writer.keyspaces.get(&id) else {
                continue;
            };
            let runs = || keyspace.state.load().version.runs_of(0).len() as u32;
            let limits = || keyspace.options().level0_limits();
            let (slowdown, stall) = limits();
            if runs() >= stall {
                if keyspace.compactions.stuck().is_some() && self.options.background_threads == 0 {
                    // Nobody else tries it again.
                    let _ = self.step();
                }
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

    /// Waits until memtables have room for a group that takes so many bytes, so that what is logged has a
    /// place. Refuses it where flushes fail that would make room; nothing of it is logged yet.
    pub(super) fn wait_for_memtables(&self, writer: &mut Writer, bytes: u64) -> Result<()> {
        let room = || self.memtables_taken().saturating_add(bytes) <= self.memtable_share();
        while !room() {
            // Nobody may fill what is frozen: the group before this one is applied first.
            drop(self.applying.lock());
            if self.frozen.is_empty() && !room() && !self.freeze_for(writer, bytes)? {
                // Others have the memory: to wait for them might be for ever.
                return Ok(());
            }
            let flushed = || room() || self.frozen.is_empty();
            self.wait_for_room(|| flushed() || self.stuck_flush().is_some())?;
            if let Some(cause) = self.stuck_flush().filter(|_| !room()) {
                return Err(Error::Stalled { cause });
            }
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

    /// Gives `keyspace` an active memtable with room for an entry of `size` bytes, which is charged,
    /// waiting for flushes while memtables have their share.
    pub(super) fn make_room(
        &self,
        writer: &mut Writer,
        keyspace: &Arc<KeyspaceInner>,
        size: usize,
    ) -> Result<()> {
        let active = || keyspace.state.load().active.clone();
        let charged = || active().charge(1, size, self.memtable_share());
        if !active().fits(1, size) || self.exceeds_capacity(keyspace, &active(), size) {
            self.freeze(writer, keyspace, size)?;
        } else if self.crowded(writer) {
            self.freeze_largest(writer, size)?;
        }
        while !charged() {
            // What is flushed by now is looked at anew, for nothing else would wake us.
            if self.frozen.is_empty() && !charged() && !self.freeze_largest(writer, size)? {
                // Others have the memory, or readers; to wait for them might be for ever.
                active().charge_anyway(1, size);
                continue;
            }
            let room = || charged() || self.frozen.is_empty();
            self.wait_for_room(|| room() || self.stuck_flush().is_some())?;
            if self.stuck_flush().is_some() && !charged() {
                // The write is logged; those after it are refused.
                active().charge_anyway(1, size);
            }
        }
        Ok(())
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
            self.freeze_active(keyspace, size);
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
            self.signal.wait_past(seen, Duration::from_millis(100));
        };
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.metrics.add(Counter::write_stall_micros, micros);
        result
    }
}
