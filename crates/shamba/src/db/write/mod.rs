//! The way of a write: give sequence numbers, append to the log, sync if one of the batches asks
//! for it, apply to the memtables, publish the last number.
//!
//! [`group`] decides who leads, [`stall`] waits for room. Groups go through two stages, in order,
//! one at a time in each: logging under the writer's lock, applying under the `applying` lock,
//! which is taken before the writer's is let go. So one group is logged while the one before it is
//! applied. A group that may not fit its memtable, or that goes to several keyspaces, keeps both
//! locks to its end, since making room closes the log. Thread-safe.

mod group;
mod key_set;
mod limits;
mod one;
mod queue;
#[cfg(test)]
mod queue_tests;
mod stall;
mod sync;
mod target;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::background::Background;
use super::batch::{BatchOp, BatchOps, OpKind, WriteBatch};
use super::buffers::{Entries, Memtables, WalFiles, Writer};
use super::context::DbContext;
use super::keyspaces::KeyspaceInner;
use super::visibility::Visibility;
use crate::base::clock;
use crate::base::key::SeqNo;
use crate::budget::{LARGE, LONG_KEY, map_large_allocations, map_long_keys};
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::metrics::Counter;
use crate::options::{Durability, WriteOptions};
use crate::version::Feature;
use group::{WriteJob, WriteQueue};
pub(in crate::db) use key_set::KeySet;
use stall::Stalls;
use target::{GroupTarget, WriteTarget, insert};
use watch::{WatchedKeys, Watches, Watching};

/// A copy of an entry of so many bytes is what a thread may take of its own.
const SMALL_COPY: u64 = 64 << 10;

/// How often one who wants the second stage looks before it sleeps.
const LOOKS: u32 = 100;

/// A group that is in the log.
struct LoggedGroup {
    first: SeqNo,
    last: SeqNo,
    /// Where everything goes and certainly fits, if there is such a memtable.
    target: Option<GroupTarget>,
}

/// See the module.
pub(super) struct WritePath {
    shared: Arc<DbContext>,
    visibility: Arc<Visibility>,
    wal: Arc<WalFiles>,
    memtables: Arc<Memtables>,
    background: Arc<Background>,
    stalls: Stalls,
    queue: WriteQueue,
    watches: Watches,
    default_keyspace: Arc<KeyspaceInner>,
}

impl WritePath {
    pub(super) fn new(
        (shared, visibility): (&Arc<DbContext>, &Arc<Visibility>),
        (wal, memtables): (&Arc<WalFiles>, &Arc<Memtables>),
        background: &Arc<Background>,
        default_keyspace: &Arc<KeyspaceInner>,
    ) -> Self {
        WritePath {
            shared: shared.clone(),
            visibility: visibility.clone(),
            wal: wal.clone(),
            memtables: memtables.clone(),
            background: background.clone(),
            stalls: Stalls::new(shared, memtables, background),
            queue: group::queue(),
            watches: Watches::default(),
            default_keyspace: default_keyspace.clone(),
        }
    }

    pub(in crate::db) fn write(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        let batch = self.with_ttl(batch, options.ttl)?;
        self.write_job(batch, options, None)
    }

    /// A batch with a time to live for what it puts without one, if the write has one or keyspaces
    /// have.
    fn with_ttl(&self, batch: WriteBatch, ttl: Option<Duration>) -> Result<WriteBatch> {
        let default = &self.default_keyspace;
        let keyspaces = || batch.keyspaces().iter().chain([default]);
        if ttl.is_none() && keyspaces().all(|keyspace| keyspace.ttl().is_none()) {
            return Ok(batch);
        }
        // What is refused is not copied; of what is not, the caller's batch is there meanwhile.
        self.check_batch(batch.memory())?;
        let _copied = self.hold_copy(batch.rep().len() as u64)?;
        let now = self.shared.now();
        let until = |number: u32| {
            let of_keyspace = || keyspaces().find(|keyspace| keyspace.id() == number)?.ttl();
            Some(clock::later(now, ttl.or_else(of_keyspace)?))
        };
        Ok(batch.expiring(until))
    }

    /// Writes a batch, unless one of the keys watched was written since the watch began.
    pub(in crate::db) fn write_watched(
        &self,
        batch: WriteBatch,
        options: WriteOptions,
        watching: &Watching<'_>,
    ) -> Result<()> {
        let batch = self.with_ttl(batch, options.ttl)?;
        self.write_job(batch, options, Some(watching.watch().clone()))
    }

    fn write_job(
        &self,
        batch: WriteBatch,
        options: WriteOptions,
        watch: Option<Arc<WatchedKeys>>,
    ) -> Result<()> {
        self.check_batch_of(&batch, batch.max_value())?;
        map_if_large(batch.max_key(), batch.max_value());
        self.write_sized(batch, options, watch)
    }

    /// Whether a batch is this database's, and has no key or value that is too long; `longest` is
    /// the longest value.
    pub(in crate::db) fn check_batch_of(&self, batch: &WriteBatch, longest: usize) -> Result<()> {
        if !batch.belongs_to(self.shared.id()) {
            return Err(Error::WrongDatabase { what: "keyspace" });
        }
        self.check_sizes(batch.max_key(), longest)?;
        self.check_range(batch.max_range_end())
    }

    /// Writes a batch whose keys and values are not too large. Whether anything may be written says
    /// the leader.
    fn write_sized(
        &self,
        batch: WriteBatch,
        options: WriteOptions,
        watch: Option<Arc<WatchedKeys>>,
    ) -> Result<()> {
        // What is let in under a budget has its place, though a smaller one is set meanwhile; what
        // is small has it under any.
        let large = batch.memory() as u64 > SMALL_COPY;
        let _begun = large.then(|| self.shared.budget().begin());
        if large {
            self.check_sizes(batch.max_key(), batch.max_value())?;
            self.check_batch(batch.memory())?;
        }
        if batch.is_empty() {
            return self.shared.check_writable();
        }
        let checked = batch.check_keyspaces();
        let checked = checked.and_then(|()| batch.check_operators(&self.default_keyspace));
        if let Err(refused) = checked {
            // Nor would others be written.
            self.shared.check_writable()?;
            return Err(refused);
        }
        let durability = options
            .durability
            .unwrap_or(self.shared.options().durability);
        let outcome = self.enqueue(WriteJob {
            batch,
            durability,
            watch,
        });
        if !self.shared.has_threads() && outcome.is_ok() {
            self.background.work_inline();
        }
        outcome
    }

    /// Makes every write acknowledged so far durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.shared.check_writable()?;
        self.wal.sync(&mut self.memtables.lock().log)
    }

    /// Writes a group of batches, in order. Calls `pass_on` when the next group may begin, if that
    /// is before this one is done.
    pub(super) fn write_group(
        &self,
        mut writer: MutexGuard<'_, Writer>,
        group: &[(&WriteBatch, Durability)],
        pass_on: impl FnOnce(),
    ) -> Result<()> {
        let logged = self.poisoning(|| self.log_group(&mut writer, group))?;
        let applying = lock_soon(self.memtables.applying());
        if let Some(cause) = &*self.shared.poisoned_by() {
            // The group before this one is not whole.
            return Err(Error::Poisoned {
                cause: cause.clone(),
            });
        }
        let batches = group.iter().map(|(batch, _)| *batch);
        self.watches.show(batches, None);
        let bytes = if let Some(target) = &logged.target {
            drop(writer);
            pass_on();
            self.poisoning(|| self.apply_to(target, group, logged.first))?
        } else {
            self.poisoning(|| self.apply(&mut writer, group, logged.first))?
        };
        self.visibility.publish(logged.last);
        drop(applying);
        self.shared.metrics().add_all(&[
            (Counter::entries_written, logged.last + 1 - logged.first),
            (Counter::user_bytes_written, bytes),
            (Counter::batches, group.len() as u64),
            (Counter::write_groups, 1),
        ]);
        Ok(())
    }

    /// The first stage: gives a group numbers and makes it as durable as its batches ask.
    fn log_group(
        &self,
        writer: &mut Writer,
        group: &[(&WriteBatch, Durability)],
    ) -> Result<LoggedGroup> {
        self.shared.check_writable()?;
        let bytes = group.iter().map(|(batch, _)| batch.rep().len() as u64);
        self.stalls.throttle(writer, group, bytes.sum())?;
        let room = group.iter().map(|(batch, _)| batch.memory() as u64);
        self.stalls.wait_for_memtables(writer, room.sum())?;
        // An older build is to be told of such entries before it meets one.
        if group.iter().any(|(batch, _)| batch.expires()) {
            self.wal.state_feature(Feature::Expiring)?;
        }
        if group.iter().any(|(batch, _)| batch.has_ranges()) {
            self.wal.state_feature(Feature::RangeTombstones)?;
        }
        let first = writer.log.last_seq() + 1;
        let whole = writer.log.len();
        let next = self
            .append_group(writer, group, first)
            .inspect_err(|error| self.wal.take_back(&mut writer.log, whole, error))?;
        writer.log.give(next - 1);
        Ok(LoggedGroup {
            first,
            last: next - 1,
            target: self.target_for(writer, group),
        })
    }

    /// Puts a group into the log, numbered from `next` on; gives the number after it. After an
    /// error its numbers are not spent: the caller takes out of the log what is there of it.
    fn append_group(
        &self,
        writer: &mut Writer,
        group: &[(&WriteBatch, Durability)],
        mut next: SeqNo,
    ) -> Result<SeqNo> {
        let mut durability = Durability::None;
        for (batch, wanted) in group {
            if *wanted != Durability::None {
                self.wal.append(&mut writer.log, next, batch.rep())?;
            }
            durability = durability.max(*wanted);
            next += batch.count();
        }
        match durability {
            Durability::Synced => self.wal.sync(&mut writer.log)?,
            Durability::Buffered => writer.log.flush()?,
            Durability::None => {}
        }
        Ok(next)
    }

    /// The memtable that all of a group goes to, if there is one and it certainly has room, what is
    /// on its way considered. The memory for it is charged.
    fn target_for(
        &self,
        writer: &mut Writer,
        group: &[(&WriteBatch, Durability)],
    ) -> Option<GroupTarget> {
        let before = std::mem::take(&mut writer.on_its_way);
        let (first, _) = group.first()?;
        let id = first.only_keyspace()?;
        let mut ours = Entries::default();
        for (batch, _) in group {
            // What a range tombstone takes is known only where it goes.
            if batch.only_keyspace() != Some(id) || batch.has_ranges() {
                return None;
            }
            ours.add(batch.len(), batch.size());
        }
        let mut all = ours;
        // What goes to another memtable was charged there.
        if let Some((_, before)) = before.filter(|(keyspace, _)| *keyspace == id) {
            all.add(before.count, before.bytes);
        }
        let keyspace = writer.keyspaces.get(&id)?;
        let state = keyspace.state();
        let room = Memtable::room_for(all.count, all.bytes);
        let fits = state.active.fits(all.count, all.bytes)
            && !self
                .memtables
                .exceeds_capacity(keyspace, &state.active, room)
            && !self.memtables.crowded(writer)
            && self.memtables.charge(&state.active, all);
        fits.then(|| {
            writer.on_its_way = Some((id, ours));
            GroupTarget {
                memtable: state.active.clone(),
                operator: keyspace.operator_at_writes().cloned(),
            }
        })
    }

    /// Puts a group's operations into a memtable where they fit; says how many bytes of keys and
    /// values.
    fn apply_to(
        &self,
        target: &GroupTarget,
        group: &[(&WriteBatch, Durability)],
        first: SeqNo,
    ) -> Result<u64> {
        let mut bytes = 0;
        let mut inserter = target.memtable.writer();
        let operator = target.operator.as_ref();
        let ops = group
            .iter()
            .flat_map(|(batch, _)| BatchOps(batch.rep()).flatten());
        for (seq, op) in (first..).zip(ops) {
            if !insert(&mut inserter, &op, seq, operator) {
                return Err(self.never_fits(op.value.len()));
            }
            bytes += (op.key.len() + op.value.len()) as u64;
        }
        Ok(bytes)
    }

    /// Stops writes because an entry fits no memtable.
    fn never_fits(&self, len: usize) -> Error {
        let error = Error::ValueTooLarge {
            len,
            max: self.max_value(),
            needed: None,
        };
        self.shared.poison(&error);
        error
    }

    /// Puts a group's operations into the memtables; says how many bytes of keys and values.
    fn apply(
        &self,
        writer: &mut Writer,
        group: &[(&WriteBatch, Durability)],
        first: SeqNo,
    ) -> Result<u64> {
        let mut bytes = 0;
        let mut target: Option<WriteTarget> = None;
        // Each operation with whether a part of its record is in a memtable already.
        let ops = group.iter().flat_map(|(batch, durability)| {
            let of_record = BatchOps(batch.rep()).flatten().enumerate();
            of_record.map(|(i, op)| (op, i > 0 && *durability == Durability::Buffered))
        });
        for (seq, (op, within_record)) in (first..).zip(ops) {
            let bytes_of_op = op.key.len() + op.value.len();
            if target
                .as_ref()
                .is_none_or(|target| target.keyspace.id() != op.keyspace)
            {
                target = writer.keyspaces.get(&op.keyspace).map(WriteTarget::of);
            }
            let size = match (op.kind, &target) {
                (OpKind::DeleteRange, Some(target)) => range_room(&op, Some(&target.memtable)),
                _ => bytes_of_op,
            };
            let entry = Entries {
                count: 1,
                bytes: size,
            };
            // A keyspace that was dropped after the batch was checked: nobody can read it.
            if let Some(current) = &target
                && (self.memtables.crowded(writer)
                    || self
                        .memtables
                        .exceeds_capacity(&current.keyspace, &current.memtable, size)
                    || !current.memtable.fits(1, size)
                    || !self.memtables.charge(&current.memtable, entry)
                    || !current.insert(&op, seq))
            {
                // A batch half applied can only be completed by recovery: stop writes.
                let keyspace = current.keyspace.clone();
                if within_record {
                    // The part in the full memtable may be in a table before the rest is: only
                    // the log makes the batch whole after a crash.
                    self.wal
                        .sync(&mut writer.log)
                        .inspect_err(|error| self.shared.poison(error))?;
                }
                let room = if op.kind == OpKind::DeleteRange {
                    // Of a memtable without others it takes less.
                    if !current.memtable.fits(1, size) {
                        let alone = range_room(&op, None);
                        let frozen = self.background.freeze(writer, &keyspace, alone);
                        frozen.inspect_err(|error| self.shared.poison(error))?;
                    }
                    range_room(&op, Some(&keyspace.state().active))
                } else {
                    size
                };
                self.stalls
                    .make_room(writer, &keyspace, room)
                    .inspect_err(|error| self.shared.poison(error))?;
                let fresh = WriteTarget::of(&keyspace);
                if !fresh.insert(&op, seq) {
                    return Err(self.never_fits(op.value.len()));
                }
                target = Some(fresh);
            }
            bytes += bytes_of_op as u64;
        }
        Ok(bytes)
    }
}

/// What the deletion of a range takes at most, as the key and value of one entry, in a memtable or
/// alone.
fn range_room(op: &BatchOp<'_>, memtable: Option<&Arc<Memtable>>) -> usize {
    let beside = memtable.map_or(0, |memtable| memtable.boundary_bytes());
    Memtable::room_for_range(op.key.len(), op.value.len()) + Memtable::RANGES_BYTES + beside
}

/// Has allocations of the size of such an entry mapped one by one.
fn map_if_large(key: usize, value: usize) {
    if key as u64 >= LONG_KEY {
        map_long_keys();
    }
    if value as u64 >= LARGE {
        map_large_allocations();
    }
}

/// Locks a mutex that is held for little longer than waking a thread takes.
fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
        std::hint::spin_loop();
    }
    mutex.lock()
}
