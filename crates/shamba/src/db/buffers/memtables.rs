//! The memtables of all keyspaces: how much of the budget they take, which is frozen when, and
//! which wait to be flushed. Nothing here waits for flushes.
//!
//! What freezes memtables needs the [`Writer`], and that nobody applies a group meanwhile, so that
//! nobody fills what is frozen: [`Memtables::lock`], or [`Memtables::applying`] beside the writer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use shamba_model::write_memory::{accesses_to_gather, merges_saved};

use super::frozen::FrozenList;
use super::wal_files::{ActiveLog, WalFiles};
use crate::base::pages::PAGE;
use crate::budget::{Role, Sharer, frozen_together, least_memtable_bytes, memtable_share};
use crate::db::context::DbContext;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::{Error, Result};
use crate::memtable::Memtable;
use crate::value::PolicyState;

/// What the leader of the writers works on.
pub(in crate::db) struct Writer {
    pub(in crate::db) log: ActiveLog,
    pub(in crate::db) keyspaces: BTreeMap<u32, Arc<KeyspaceInner>>,
    /// What may still be on its way into the memtable of a keyspace.
    pub(in crate::db) on_its_way: Option<(u32, Entries)>,
    /// How long writes that are slowed down have yet to sleep.
    pub(in crate::db) slowed: Duration,
    /// What memtables took when flushing the largest of this database's would not have helped.
    not_ours: u64,
}

impl Writer {
    pub(in crate::db) fn new(
        log: ActiveLog,
        keyspaces: BTreeMap<u32, Arc<KeyspaceInner>>,
    ) -> Writer {
        Writer {
            log,
            keyspaces,
            on_its_way: None,
            slowed: Duration::ZERO,
            not_ours: 0,
        }
    }
}

/// How many entries, and at least the bytes of their keys and values.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::db) struct Entries {
    pub(in crate::db) count: usize,
    pub(in crate::db) bytes: usize,
}

impl Entries {
    pub(in crate::db) fn add(&mut self, count: usize, bytes: usize) {
        self.count = self.count.saturating_add(count);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// See the module.
pub(in crate::db) struct Memtables {
    shared: Arc<DbContext>,
    wal: Arc<WalFiles>,
    /// Who logs a group of writes, and who applies one to memtables: taken in this order.
    writer: Mutex<Writer>,
    applying: Mutex<()>,
    frozen: FrozenList,
    _sharer: Sharer,
}

impl Memtables {
    pub(in crate::db) fn new(shared: &Arc<DbContext>, wal: &Arc<WalFiles>, writer: Writer) -> Self {
        Memtables {
            shared: shared.clone(),
            wal: wal.clone(),
            writer: Mutex::new(writer),
            applying: Mutex::new(()),
            frozen: FrozenList::default(),
            _sharer: shared.budget().add_database(),
        }
    }

    /// The writer's state, while the group before is perhaps still applied.
    pub(in crate::db) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    /// Whether somebody has the writer's state.
    #[cfg(test)]
    pub(in crate::db) fn is_writer_locked(&self) -> bool {
        self.writer.is_locked()
    }

    /// The right to apply a group to memtables.
    pub(in crate::db) fn applying(&self) -> &Mutex<()> {
        &self.applying
    }

    /// The writer's state at a moment when no write is under way, not even a logged one.
    pub(in crate::db) fn lock(&self) -> MutexGuard<'_, Writer> {
        let writer = self.writer.lock();
        // Nobody enters that stage without `writer`.
        drop(self.applying.lock());
        writer
    }

    /// Keyspaces with memtables that wait to be flushed.
    pub(in crate::db) fn frozen(&self) -> &FrozenList {
        &self.frozen
    }

    /// Why flushes of some keyspace keep failing, if they do.
    pub(in crate::db) fn stuck_flush(&self) -> Option<Arc<Error>> {
        self.frozen.find(|keyspace| keyspace.flushes().stuck())
    }

    /// The bytes that all memtables may take.
    pub(in crate::db) fn share(&self) -> u64 {
        memtable_share(self.shared.working_limit())
    }

    /// What memtables take, those of other databases under this budget too.
    pub(in crate::db) fn taken(&self) -> u64 {
        self.shared.budget().used_by(Role::Memtable)
    }

    /// The bytes of memtables that are frozen together when memory is short.
    fn batch(&self) -> u64 {
        frozen_together(self.share(), self.shared.budget().databases())
    }

    /// Whether memtables take more than their share: the budget was made smaller.
    pub(in crate::db) fn over_share(&self) -> bool {
        self.taken() > self.share()
    }

    /// Whether the largest memtables are to be flushed, before all together have taken their share
    /// and writers must wait.
    pub(in crate::db) fn crowded(&self, writer: &Writer) -> bool {
        let share = self.share();
        let taken = self.taken();
        taken > share / 4 * 3
            && taken > writer.not_ours.saturating_add(self.batch())
            && self.frozen.is_empty()
    }

    /// Charges a memtable for entries that go there; false where memtables have their share.
    pub(in crate::db) fn charge(&self, memtable: &Memtable, entries: Entries) -> bool {
        memtable.charge(entries.count, entries.bytes, self.share())
    }

    /// Whether an active memtable is to be flushed before `more` bytes come: they would make it
    /// larger than one made now would be, since the budget may have changed, or what is in it has
    /// gathered for long enough. An empty one begins to gather.
    pub(in crate::db) fn exceeds_capacity(
        &self,
        keyspace: &KeyspaceInner,
        memtable: &Memtable,
        more: usize,
    ) -> bool {
        if memtable.is_empty() {
            keyspace.begin_to_gather(self.policy().accesses());
            return false;
        }
        let limit = self.shared.working_limit();
        let bytes = memtable.bytes_used();
        let most = keyspace.options().memtable_capacity(limit);
        most < memtable.capacity() && bytes + more > most
            || bytes as u64 > least_memtable_bytes(limit) && self.has_gathered(keyspace, most)
    }

    /// Whether lookups have paid for the memory of an active memtable, which may have so many
    /// bytes, what its entries save by being flushed together ([`shamba_model::write_memory`]).
    /// Only where memory does not hold the buffer that the levels are made for: else level 0 is
    /// merged by its number of runs, and smaller ones would cost more than the model says.
    fn has_gathered(&self, keyspace: &KeyspaceInner, most: usize) -> bool {
        let policy = self.policy();
        let reads = policy.reads_of_a_byte();
        let options = keyspace.options();
        if reads == 0.0 || 2 * most as u64 > options.write_buffer {
            return false;
        }
        let merges = merges_saved(options.merge_policy.modelled(), options.size_ratio);
        let since = policy.accesses().saturating_sub(keyspace.gathers_since());
        since as f64 > accesses_to_gather(merges, reads, PAGE as f64)
    }

    fn policy(&self) -> &PolicyState {
        self.shared.options().memory.cache().policy()
    }

    /// The keyspaces whose active memtables are to be flushed when memory is short: the largest, as
    /// many as take a part of the share together that is worth their tables. None when all of this
    /// database take less than that: then it is others who have the memory, and flushing ours would
    /// only make many small tables.
    pub(in crate::db) fn largest(
        &self,
        keyspaces: &BTreeMap<u32, Arc<KeyspaceInner>>,
    ) -> Vec<Arc<KeyspaceInner>> {
        let (mut sum, mut most) = (0, 0);
        for bytes in keyspaces.values().map(charged) {
            sum += bytes;
            most = bytes.max(most);
        }
        let batch = self.batch();
        let mut left = if sum < batch { 0 } else { batch };
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

    /// Replaces a keyspace's active memtable by an empty one that takes an entry of `size` bytes;
    /// the old one waits to be flushed if there is anything in it.
    pub(in crate::db) fn freeze_active(&self, keyspace: &Arc<KeyspaceInner>, size: usize) {
        keyspace.freeze_active(self.shared.budget(), size);
        keyspace.begin_to_gather(self.policy().accesses());
        self.frozen.add(keyspace);
    }

    /// The same, where the active one holds anything or has no room for such an entry.
    pub(in crate::db) fn freeze_used(&self, keyspace: &Arc<KeyspaceInner>, size: usize) {
        let active = keyspace.state().active.clone();
        if !active.is_empty() || !active.fits(1, size) {
            self.freeze_active(keyspace, size);
        }
    }

    /// Closes the log and freezes a keyspace's memtable, with those that keep old logs.
    pub(in crate::db) fn freeze(
        &self,
        writer: &mut Writer,
        keyspace: &Arc<KeyspaceInner>,
        size: usize,
    ) -> Result<()> {
        self.wal.close_log(&mut writer.log)?;
        self.freeze_used(keyspace, size);
        self.shared.signal().notify();
        self.freeze_holders_of_old_logs(writer);
        Ok(())
    }

    /// Freezes the largest memtables; false when that would not help.
    pub(in crate::db) fn freeze_largest(&self, writer: &mut Writer, size: usize) -> Result<bool> {
        let largest = self.largest(&writer.keyspaces);
        if largest.is_empty() {
            writer.not_ours = self.taken();
            return Ok(false);
        }
        writer.not_ours = 0;
        self.wal.close_log(&mut writer.log)?;
        for keyspace in &largest {
            self.freeze_active(keyspace, size);
        }
        self.shared.signal().notify();
        self.freeze_holders_of_old_logs(writer);
        Ok(true)
    }

    /// Freezes the largest memtables, or all, however small, where that makes room for a group that
    /// takes so many bytes, and these are many; false when it would not help.
    pub(in crate::db) fn freeze_for(&self, writer: &mut Writer, bytes: u64) -> Result<bool> {
        let (share, taken) = (self.share(), self.taken());
        let grown = taken > writer.not_ours.saturating_add(self.batch());
        if grown && self.freeze_largest(writer, 0)? {
            return Ok(true);
        }
        if bytes <= self.batch() {
            return Ok(false);
        }
        let keyspaces = writer.keyspaces.values();
        let full = keyspaces.filter(|keyspace| !keyspace.state().active.is_empty());
        let full: Vec<_> = full.cloned().collect();
        let ours: u64 = full.iter().map(charged).sum();
        if full.is_empty() || taken.saturating_sub(ours).saturating_add(bytes) > share {
            return Ok(false);
        }
        self.wal.close_log(&mut writer.log)?;
        for keyspace in &full {
            self.freeze_active(keyspace, 0);
        }
        self.shared.signal().notify();
        Ok(true)
    }

    /// Freezes everything there is, for a database that closes.
    pub(in crate::db) fn freeze_all(&self, writer: &mut Writer) -> Result<()> {
        self.wal.close_log(&mut writer.log)?;
        let keyspaces = writer.keyspaces.values();
        for keyspace in keyspaces.filter(|keyspace| !keyspace.state().active.is_empty()) {
            self.freeze_active(keyspace, 0);
        }
        Ok(())
    }

    /// Freezes the largest memtables if the budget was made so much smaller that memtables take
    /// more than their share, and nobody writes who would do it.
    pub(in crate::db) fn shrink_to_budget(&self) -> Result<()> {
        if !self.over_share() || !self.frozen.is_empty() {
            return Ok(());
        }
        self.unless_written(|writer| self.freeze_largest(writer, 0).map(drop))?;
        Ok(())
    }

    /// Freezes a keyspace's memtable unless somebody writes; whether it did.
    pub(in crate::db) fn freeze_idle(&self, keyspace: &Arc<KeyspaceInner>) -> Result<bool> {
        self.unless_written(|writer| self.freeze(writer, keyspace, 0))
    }

    /// Freezes by `freeze` unless somebody writes; whether it did.
    fn unless_written(&self, freeze: impl FnOnce(&mut Writer) -> Result<()>) -> Result<bool> {
        let Some(mut writer) = self.writer.try_lock() else {
            return Ok(false);
        };
        let Some(_applying) = self.applying.try_lock() else {
            return Ok(false);
        };
        freeze(&mut writer).map(|()| true)
    }

    /// When the closed logs are too long together or too many, freezes the memtables that keep the
    /// oldest one alive.
    fn freeze_holders_of_old_logs(&self, writer: &Writer) {
        let Some(max_seq) = self.wal.oldest_to_give_up() else {
            return;
        };
        for keyspace in writer.keyspaces.values() {
            let first = keyspace.state().active.first_seq();
            if first.is_some_and(|first| first <= max_seq) {
                self.freeze_active(keyspace, 0);
            }
        }
        self.shared.signal().notify();
    }
}

/// What a keyspace's active memtable is charged, in bytes.
fn charged(keyspace: &Arc<KeyspaceInner>) -> u64 {
    keyspace.state().active.charged() as u64
}
