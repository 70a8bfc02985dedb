//! Making room for writes: waiting for flushes, slowing down while compactions lag, refusing what
//! has no place.
//!
//! For the leader of a write group, under the writer's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::budget::{Role, many_of_files};
use crate::db::background::Background;
use crate::db::batch::WriteBatch;
use crate::db::buffers::{Entries, Memtables, Writer};
use crate::db::context::DbContext;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::{Error, Result};
use crate::metrics::Counter;
use crate::options::Durability;

/// Bytes of batches that writes which are slowed down may log in a second.
const SLOWED_RATE: f64 = (16 << 20) as f64;

/// Writes sleep so long at least: shorter sleeps are not kept.
const LEAST_SLEEP: Duration = Duration::from_millis(1);

/// A write waits for memory that other databases have in pauses of this length, three seconds at
/// most.
const PAUSE: Duration = Duration::from_millis(5);
const MOST_PAUSES: u32 = 600;

/// See the module.
pub(super) struct Stalls {
    shared: Arc<DbContext>,
    memtables: Arc<Memtables>,
    background: Arc<Background>,
    /// How many pauses a write waits for others.
    patience: AtomicU32,
}

impl Stalls {
    pub(super) fn new(
        shared: &Arc<DbContext>,
        memtables: &Arc<Memtables>,
        background: &Arc<Background>,
    ) -> Self {
        Stalls {
            shared: shared.clone(),
            memtables: memtables.clone(),
            background: background.clone(),
            patience: AtomicU32::new(MOST_PAUSES),
        }
    }

    /// Refuses a write of so many bytes while flushes keep failing, and slows it down, or makes it
    /// wait, while level 0 of a keyspace it goes to has too many runs. Nothing of it is logged yet.
    pub(super) fn throttle(
        &self,
        writer: &mut Writer,
        group: &[(&WriteBatch, Durability)],
        bytes: u64,
    ) -> Result<()> {
        if self.memtables.stuck_flush().is_some() {
            self.try_again();
        }
        if let Some(cause) = self.memtables.stuck_flush() {
            return Err(Error::Stalled { cause });
        }
        let mut slow = false;
        let mut before = None;
        let batches = group.iter().map(|(batch, _)| batch);
        for id in batches.flat_map(|batch| batch.keyspaces_written()) {
            if before.replace(id) == Some(id) {
                continue;
            }
            if let Some(keyspace) = writer.keyspaces.get(&id) {
                slow |= self.wait_for_level0(keyspace)?;
            }
        }
        if slow && self.shared.has_threads() {
            self.slow_down(writer, bytes);
        }
        Ok(())
    }

    /// Waits while level 0 of a keyspace has too many runs; whether it has many.
    fn wait_for_level0(&self, keyspace: &KeyspaceInner) -> Result<bool> {
        let runs = || keyspace.state().version.runs_of(0).len() as u32;
        let limits = || keyspace.options().level0_limits();
        let (slowdown, stall) = limits();
        let mut now = runs();
        if now >= stall || self.files_crowd(keyspace, now) {
            let stuck = || keyspace.compactions().stuck();
            if stuck().is_some() {
                self.try_again();
            }
            // More runs than that may be what the merge policy wants.
            let few = || runs() < limits().1 && !self.files_crowd(keyspace, runs());
            let room = || few() || self.background.nothing_due();
            // Where flushes fail nothing may be due to make runs fewer.
            let stuck_flush = || {
                let stuck = self.memtables.stuck_flush();
                stuck.filter(|_| self.background.no_merge_due())
            };
            let stuck = || stuck().or_else(stuck_flush);
            self.background
                .wait_for_room(|| room() || stuck().is_some())?;
            if let Some(cause) = stuck().filter(|_| !room()) {
                return Err(Error::Stalled { cause });
            }
            now = runs();
        }
        Ok(now >= slowdown)
    }

    /// Whether level 0 with so many runs has too many because what is known of tables takes much of
    /// the budget: flushes, each of which adds a table, would be refused soon, and merges make
    /// tables fewer.
    fn files_crowd(&self, keyspace: &KeyspaceInner, runs: u32) -> bool {
        runs > 1
            && runs >= 2 * keyspace.options().level0_runs
            && self.shared.budget().used_by(Role::Files) > many_of_files(self.shared.limit())
    }

    /// Does a piece of work that failed before, where nobody else tries it again.
    fn try_again(&self) {
        if !self.shared.has_threads() {
            let _ = self.background.step();
        }
    }

    /// Makes a write take as long as its bytes do at [`SLOWED_RATE`].
    fn slow_down(&self, writer: &mut Writer, bytes: u64) {
        writer.slowed += Duration::from_secs_f64(bytes as f64 / SLOWED_RATE);
        let sleep = if writer.slowed >= LEAST_SLEEP {
            std::mem::take(&mut writer.slowed)
        } else {
            Duration::ZERO
        };
        std::thread::sleep(sleep);
        let micros = u64::try_from(sleep.as_micros()).unwrap_or(u64::MAX);
        self.shared.metrics().add_all(&[
            (Counter::write_slowdowns, 1),
            (Counter::write_slowdown_micros, micros),
        ]);
    }

    /// Waits until memtables have room for a group that takes so many bytes, so that what is logged
    /// has a place. Refuses it where flushes fail that would make room; nothing of it is logged
    /// yet.
    pub(super) fn wait_for_memtables(&self, writer: &mut Writer, bytes: u64) -> Result<()> {
        let memtables = &self.memtables;
        let room = || memtables.taken().saturating_add(bytes) <= memtables.share();
        while !room() {
            // Nobody may fill what is frozen: the group before this one is applied first.
            drop(memtables.applying().lock());
            if memtables.frozen().is_empty()
                && !room()
                && !memtables.freeze_for(writer, bytes)?
                && !self.wait_for_others(room)
            {
                return Ok(());
            }
            let flushed = || room() || memtables.frozen().is_empty();
            self.background
                .wait_for_room(|| flushed() || memtables.stuck_flush().is_some())?;
            if let Some(cause) = memtables.stuck_flush().filter(|_| !room()) {
                return Err(Error::Stalled { cause });
            }
        }
        Ok(())
    }

    /// Waits until other databases, or readers, who have the memory that this one needs give some
    /// back; false where they do not, for to wait for them might be for ever. Where several
    /// databases share the budget, the threads of each look once a second whether memtables take
    /// too much.
    fn wait_for_others(&self, room: impl Fn() -> bool) -> bool {
        if self.shared.budget().databases() < 2 {
            return false;
        }
        let patience = self.patience.load(Ordering::Relaxed);
        for _ in 0..patience {
            std::thread::sleep(PAUSE);
            if room() {
                self.patience.store(MOST_PAUSES, Ordering::Relaxed);
                return true;
            }
        }
        // Half as long after each time that it was in vain.
        self.patience.store(patience / 2, Ordering::Relaxed);
        false
    }

    /// Gives `keyspace` an active memtable with room for an entry of `size` bytes, which is
    /// charged, waiting for flushes while memtables have their share.
    pub(super) fn make_room(
        &self,
        writer: &mut Writer,
        keyspace: &Arc<KeyspaceInner>,
        size: usize,
    ) -> Result<()> {
        let memtables = &self.memtables;
        let entry = Entries {
            count: 1,
            bytes: size,
        };
        let active = || keyspace.state().active.clone();
        let charged = || memtables.charge(&active(), entry);
        if !active().fits(1, size) || memtables.exceeds_capacity(keyspace, &active(), size) {
            self.background.freeze(writer, keyspace, size)?;
        } else if memtables.crowded(writer) {
            memtables.freeze_largest(writer, size)?;
        }
        while !charged() {
            let frozen = memtables.frozen();
            // What is flushed by now is looked at anew, for nothing else would wake us.
            if frozen.is_empty()
                && !charged()
                && !memtables.freeze_largest(writer, size)?
                && !self.wait_for_others(charged)
            {
                active().charge_anyway(1, size);
                continue;
            }
            let room = || charged() || frozen.is_empty();
            self.background
                .wait_for_room(|| room() || memtables.stuck_flush().is_some())?;
            if memtables.stuck_flush().is_some() && !charged() {
                // The write is logged; those after it are refused.
                active().charge_anyway(1, size);
            }
        }
        Ok(())
    }
}
