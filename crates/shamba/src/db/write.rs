//! The write path of a group's leader: give sequence numbers, append to the log, sync if one of the
//! batches asks for it, apply to the memtables, publish the last number; and making room.
//!
//! [`super::group`] decides who leads. One thread at a time, under the `writer` lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::DbInner;
use super::batch::{Ops, WriteBatch};
use super::keyspace::{KeyspaceInner, ReadState};
use crate::base::key::{MAX_KEY_LEN, MAX_VALUE_LEN, SeqNo, Tag};
use crate::budget::{Reservation, Role};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Counter;
use crate::options::{Durability, KeyspaceOptions, WriteOptions};
use crate::wal::LogWriter;

/// The largest batch, in bytes of its log record.
const MAX_BATCH: usize = 256 << 20;

/// How long a slowed-down write sleeps, in microseconds.
const SLOWDOWN_MICROS: u64 = 1000;

/// What the leader works on.
pub(crate) struct Writer {
    pub(crate) log: Option<LogWriter>,
    /// The last sequence number given.
    pub(crate) last_seq: SeqNo,
    pub(crate) keyspaces: BTreeMap<u32, Arc<KeyspaceInner>>,
    /// Where the next log begins, as a position in the database's history of logs.
    pub(crate) position: u64,
    /// Up to where the logs are durable.
    pub(crate) synced: u64,
    /// The memory of `log`.
    pub(crate) memory: Reservation,
}

/// Where operations go: a keyspace and its active memtable.
struct Target {
    keyspace: Arc<KeyspaceInner>,
    memtable: Arc<Memtable>,
}

impl Target {
    fn of(keyspace: &Arc<KeyspaceInner>) -> Self {
        Target {
            keyspace: keyspace.clone(),
            memtable: keyspace.state.load().active.clone(),
        }
    }
}

impl KeyspaceOptions {
    /// The memtable's size under a budget: an eighth of it at most, so that the one filling and
    /// those being flushed leave more than half for everything else.
    pub(crate) fn memtable_capacity(&self, limit: u64) -> usize {
        usize::try_from(self.write_buffer.min((limit / 8).max(8 << 10))).unwrap_or(usize::MAX)
    }
}

/// The bytes that all memtables may take before writers wait for flushes: half of the budget. Of a
/// very small one a quarter: pages, an open table and a merge's buffers take what they take.
pub(super) fn memtable_share(limit: u64) -> u64 {
    const SMALL: u64 = 256 << 10;
    if limit < SMALL { limit / 4 } else { limit / 2 }
}

impl DbInner {
    /// The longest value accepted under the present budget.
    pub(super) fn max_value(&self) -> usize {
        usize::try_from(self.options.memory.limit() / 16)
            .unwrap_or(usize::MAX)
            .min(MAX_VALUE_LEN)
    }

    pub(crate) fn write_one(
        &self,
        keyspace: u32,
        key: &[u8],
        value: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.push(keyspace, key, value);
        self.write(batch, options)
    }

    pub(crate) fn write(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        if !batch.belongs_to(self.id) {
            return Err(Error::WrongDatabase { what: "keyspace" });
        }
        if batch.max_key() > MAX_KEY_LEN {
            return Err(Error::KeyTooLarge {
                len: batch.max_key(),
                max: MAX_KEY_LEN,
            });
        }
        let max = self.max_value();
        if batch.max_value() > max {
            return Err(Error::ValueTooLarge {
                len: batch.max_value(),
                max,
            });
        }
        if batch.size() > MAX_BATCH {
            return Err(Error::BatchTooLarge {
                len: batch.size(),
                max: MAX_BATCH,
            });
        }
        self.check_writable()?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.check_keyspaces()?;
        let durability = options.durability.unwrap_or(self.options.durability);
        let outcome = self.enqueue(batch, durability);
        if self.options.background_threads == 0 && outcome.is_ok() {
            self.work_inline();
        }
        outcome
    }

    /// Writes a group of batches, in order.
    pub(super) fn write_group(
        &self,
        writer: &mut Writer,
        group: &[(&WriteBatch, Durability)],
    ) -> Result<()> {
        self.check_writable()?;
        self.throttle(writer)?;
        let first = writer.last_seq + 1;
        let mut next = first;
        let mut durability = Durability::None;
        for (batch, wanted) in group {
            if *wanted != Durability::None {
                self.append(writer, next, batch.rep())?;
            }
            durability = durability.max(*wanted);
            next += batch.count();
        }
        // From here on the numbers are spent, whatever happens.
        writer.last_seq = next - 1;
        match (durability, writer.log.as_mut()) {
            (Durability::Synced, _) => self.sync_logs(writer)?,
            (Durability::Buffered, Some(log)) => {
                log.flush().inspect_err(|error| self.poison(error))?
            }
            _ => {}
        }
        let bytes = self.apply(writer, group, first)?;
        self.visible.store(writer.last_seq, Ordering::Release);
        self.metrics.add_all(&[
            (Counter::entries_written, next - first),
            (Counter::user_bytes_written, bytes),
            (Counter::batches, group.len() as u64),
            (Counter::write_groups, 1),
        ]);
        Ok(())
    }

    /// Puts a group's operations into the memtables; says how many bytes of keys and values.
    fn apply(
        &self,
        writer: &mut Writer,
        group: &[(&WriteBatch, Durability)],
        first: SeqNo,
    ) -> Result<u64> {
        let mut bytes = 0;
        let mut target: Option<Target> = None;
        // Each operation with whether a part of its record is in a memtable already.
        let ops = group.iter().flat_map(|(batch, durability)| {
            let of_record = Ops(batch.rep()).flatten().enumerate();
            of_record.map(|(i, op)| (op, i > 0 && *durability == Durability::Buffered))
        });
        for (seq, (op, within_record)) in (first..).zip(ops) {
            let size = op.key.len() + op.value.len();
            let tag = Tag::new(seq, op.kind);
            if target
                .as_ref()
                .is_none_or(|target| target.keyspace.id != op.keyspace)
            {
                target = writer.keyspaces.get(&op.keyspace).map(Target::of);
            }
            // A keyspace that was dropped after the batch was checked: nobody can read it.
            if let Some(current) = &target
                && (self.memtables_over_quota(size)
                    || self.outgrown(&current.keyspace, &current.memtable, size)
                    || !current.memtable.insert(op.key, tag, op.value))
            {
                // A batch half applied can only be completed by recovery: stop writes.
                let keyspace = current.keyspace.clone();
                if within_record {
                    // The part in the full memtable may be in a table before the rest is: only
                    // the log makes the batch whole after a crash.
                    self.sync_logs(writer)?;
                }
                self.make_room(writer, &keyspace, size)
                    .inspect_err(|error| self.poison(error))?;
                let fresh = Target::of(&keyspace);
                if !fresh.memtable.insert(op.key, tag, op.value) {
                    let error = Error::ValueTooLarge {
                        len: op.value.len(),
                        max: self.max_value(),
                    };
                    self.poison(&error);
                    return Err(error);
                }
                target = Some(fresh);
            }
            bytes += size as u64;
        }
        Ok(bytes)
    }

    /// Whether `more` bytes would take the memtables past half of the budget.
    pub(super) fn memtables_over_quota(&self, more: usize) -> bool {
        let budget = self.options.memory.budget();
        budget.used_by(Role::Memtable) + more as u64 > memtable_share(budget.limit())
    }

    /// The size of a memtable under the budget of this moment, which may have changed since one was
    /// made.
    fn capacity_now(&self, keyspace: &KeyspaceInner, memtable: &Memtable) -> usize {
        let limit = self.options.memory.limit();
        let capacity = keyspace.options.memtable_capacity(limit);
        capacity.min(memtable.capacity())
    }

    /// Whether `more` bytes would make a memtable larger than one made now would be.
    fn outgrown(&self, keyspace: &KeyspaceInner, memtable: &Memtable, more: usize) -> bool {
        let most = self.capacity_now(keyspace, memtable);
        most < memtable.capacity() && !memtable.is_empty() && memtable.bytes_used() + more > most
    }

    /// Whether flushing a memtable gives back enough to be worth a table.
    pub(super) fn worth_flushing(&self, keyspace: &KeyspaceInner, memtable: &Memtable) -> bool {
        memtable.bytes_used() * 4 >= self.capacity_now(keyspace, memtable)
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

    /// Slows a write down, or makes it wait, while level 0 has too many runs.
    fn throttle(&self, writer: &Writer) -> Result<()> {
        for keyspace in writer.keyspaces.values() {
            let runs = || keyspace.state.load().version.runs_of(0).len() as u32;
            let options = &keyspace.options;
            if runs() >= options.level0_stall {
                // More runs than that may be what the merge policy wants.
                self.wait_for_room(|| runs() < options.level0_stall || self.nothing_due(), true)?;
            } else if runs() >= options.level0_slowdown && self.options.background_threads > 0 {
                std::thread::sleep(Duration::from_micros(SLOWDOWN_MICROS));
                self.metrics.add_all(&[
                    (Counter::write_slowdowns, 1),
                    (Counter::write_slowdown_micros, SLOWDOWN_MICROS),
                ]);
            }
        }
        Ok(())
    }

    /// Gives `keyspace` an active memtable with room for an entry of `size` bytes, waiting for
    /// flushes while memtables take more than their share.
    fn make_room(
        &self,
        writer: &mut Writer,
        keyspace: &Arc<KeyspaceInner>,
        size: usize,
    ) -> Result<()> {
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
            self.wait_for_room(
                || self.frozen_count(writer) < before || !self.memtables_over_quota(size),
                false,
            )?;
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
            let budget = self.options.memory.budget();
            let capacity = keyspace
                .options
                .memtable_capacity(budget.limit())
                .max(Memtable::room_for(1, size));
            let fresh = Arc::new(Memtable::new(budget, capacity));
            keyspace.update(|state| {
                let mut frozen = Vec::with_capacity(state.frozen.len() + 1);
                if !state.active.is_empty() {
                    frozen.push(state.active.clone());
                }
                frozen.extend(state.frozen.iter().cloned());
                ReadState {
                    active: fresh.clone(),
                    frozen,
                    version: state.version.clone(),
                }
            });
        }
        self.signal.notify();
        self.freeze_holders_of_old_logs(writer);
        // Two memtables waiting is the most: a third would only hide that flushes lag.
        if keyspace.state.load().frozen.len() > 2 {
            self.wait_for_room(|| keyspace.state.load().frozen.len() <= 2, false)?;
        }
        Ok(())
    }

    /// Waits until `ready`, doing the work itself when there are no threads. Gives up with the
    /// reason when background work cannot go on.
    fn wait_for_room(&self, ready: impl Fn() -> bool, on_compaction: bool) -> Result<()> {
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
            if on_compaction && let Some(cause) = &*self.compaction_error.load() {
                break Err(Error::Poisoned {
                    cause: cause.clone(),
                });
            }
            if self.options.background_threads == 0 {
                match self.step() {
                    Ok(true) => continue,
                    // Nothing to do and still no room: what is held is held by readers.
                    Ok(false) if !self.others_at_work() => break Ok(()),
                    Ok(false) => {}
                    Err(error) => break Err(error),
                }
            }
            self.signal.wait_past(seen, Duration::from_millis(100));
        };
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.metrics.add(Counter::write_stall_micros, micros);
        result
    }
}

/// A number for each database of this process.
pub(crate) fn next_database_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
