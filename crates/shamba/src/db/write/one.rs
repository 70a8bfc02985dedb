//! Writes of one entry: put, deleted or merged.

use std::sync::Arc;

use super::{SMALL_COPY, WritePath, map_if_large};
use crate::base::clock;
use crate::base::fragment::last_before;
use crate::base::pointer::ValuePointer;
use crate::budget::{AdmittedWork, Permit, Reservation, Role};
use crate::db::batch::WriteBatch;
use crate::db::iter::IterOptions;
use crate::db::keyspaces::KeyspaceInner;
use crate::error::Result;
use crate::options::WriteOptions;

impl WritePath {
    pub(in crate::db) fn write_one(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        value: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let value_len = value.map_or(0, <[u8]>::len);
        self.check_sizes(key.len(), value_len)?;
        map_if_large(key.len(), value_len);
        // The entry is copied, and may wait for its turn and for room in memtables.
        let _on_its_way = self.hold_copy((key.len() + value_len) as u64)?;
        let mut batch = WriteBatch::for_one(key.len() + value_len);
        let expires = options.ttl.is_some() || keyspace.gives_ttl();
        match value.filter(|_| expires) {
            Some(value) => self.push_expiring(&mut batch, keyspace, (key, value), options),
            None => batch.push(keyspace.id(), key, value),
        }
        self.write_sized(batch, options, None)
    }

    /// Merges an operand into a key, which may be of a keyspace beside the default one.
    pub(in crate::db) fn merge_one(
        &self,
        (keyspace, database): (&Arc<KeyspaceInner>, u64),
        key: &[u8],
        operand: &[u8],
        options: WriteOptions,
    ) -> Result<()> {
        self.check_sizes(key.len(), operand.len())?;
        map_if_large(key.len(), operand.len());
        let _on_its_way = self.hold_copy((key.len() + operand.len()) as u64)?;
        let mut batch = WriteBatch::for_one(key.len() + operand.len());
        batch.bind(keyspace, database);
        batch.push_operand(keyspace.id(), key, operand);
        self.write_sized(batch, options, None)
    }

    /// Has a key of a keyspace, which may be one beside the default one, point to a value.
    pub(in crate::db) fn write_pointer(
        &self,
        (keyspace, database): (&Arc<KeyspaceInner>, u64),
        key: &[u8],
        pointer: ValuePointer,
        options: WriteOptions,
    ) -> Result<()> {
        let ttl = options.ttl.or_else(|| keyspace.ttl());
        let until = ttl.map(|ttl| clock::later(self.shared.now(), ttl));
        let mut batch = WriteBatch::new();
        batch.bind(keyspace, database);
        batch.push_pointer(keyspace.id(), key, pointer, until);
        self.write_sized(batch, options, None)
    }

    /// Deletes the keys of a range of a keyspace, which may be one beside the default one.
    pub(in crate::db) fn delete_range(
        &self,
        (keyspace, database): (&Arc<KeyspaceInner>, u64),
        range: &IterOptions,
        options: WriteOptions,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        if let Some((start, end)) = range.ends()? {
            let longer = start.len().max(last_before(&end).len());
            self.check_range(longer)?;
            map_if_large(longer, 0);
            batch.bind(keyspace, database);
            batch.push_range(keyspace.id(), &start, &end);
        }
        self.write_sized(batch, options, None)
    }

    /// Puts a key for as long as the write says, or the keyspace.
    #[cold]
    fn push_expiring(
        &self,
        batch: &mut WriteBatch,
        keyspace: &KeyspaceInner,
        (key, value): (&[u8], &[u8]),
        options: WriteOptions,
    ) {
        let ttl = options.ttl.or_else(|| keyspace.ttl());
        let until = ttl.map_or(clock::NEVER, |ttl| clock::later(self.shared.now(), ttl));
        batch.push_until(keyspace.id(), key, value, until);
    }

    /// The right to copy so many bytes if they are not few, which is waited for, and their charge
    /// if something gives way for it: given back first, so that who comes next does not add to it.
    pub(in crate::db) fn hold_copy(
        &self,
        bytes: u64,
    ) -> Result<Option<(Option<Reservation>, Permit)>> {
        if bytes <= SMALL_COPY {
            return Ok(None);
        }
        let budget = self.shared.budget();
        let go_on = || self.shared.check_writable();
        let permit = budget.admit(AdmittedWork::LargeEntries, || bytes, go_on)?;
        Ok(Some((budget.try_reserve(Role::Wal, bytes), permit)))
    }
}
