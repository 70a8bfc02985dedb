//! A batch of writes that is applied whole or not at all.
//!
//! Its bytes are those of a write-ahead log record (docs/format.md, "Records of the write-ahead
//! log"): operations one after another, each `kind u8, keyspace varint, key length varint, key`
//! and, for a put, `value length varint, value`; one with a time to live has the moment before its
//! value. So logging a batch copies nothing.

mod ops;

use std::sync::Arc;
use std::time::SystemTime;

use crate::base::clock::{Moment, moment_of};
use crate::base::coding;
use crate::base::expiring::{self, EXPIRY_BYTES};
use crate::base::fragment::{is_before, last_before};
use crate::base::key::EntryKind;
use crate::base::pointer::ValuePointer;
use crate::error::Result;
use crate::memtable::Memtable;

use super::keyspaces::KeyspaceInner;
pub(crate) use ops::{BatchOp, BatchOps, OpKind};

/// The number of the default keyspace.
pub(crate) const DEFAULT_KEYSPACE: u32 = 0;

/// The most bytes of an operation beside its key and its value.
const MOST_BESIDE: usize = 16;

/// Writes applied together, in order, across any keyspaces of one database.
///
/// ```
/// use shamba::WriteBatch;
/// let mut batch = WriteBatch::new();
/// batch.put(b"a", b"1");
/// batch.delete(b"b");
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    rep: Vec<u8>,
    count: u64,
    /// Identity of the database whose keyspace handles were used; zero for none.
    database: u64,
    mixed: bool,
    /// The keyspaces written to besides the default one.
    keyspaces: Vec<Arc<KeyspaceInner>>,
    /// The keyspace of the first operation, and whether another has a different one.
    first_keyspace: u32,
    several_keyspaces: bool,
    /// Whether something is merged.
    merges: bool,
    max_key: usize,
    max_value: usize,
    /// Whether an operation has a time to live.
    expires: bool,
    /// How many operations delete a range, and the longest key that one begins or ends with.
    ranges: usize,
    max_range_end: usize,
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        WriteBatch::default()
    }

    /// One for a single operation, of a key and a value of so many bytes, which may expire.
    pub(super) fn for_one(bytes: usize) -> Self {
        WriteBatch {
            rep: Vec::with_capacity(bytes + EXPIRY_BYTES + MOST_BESIDE),
            ..WriteBatch::default()
        }
    }

    /// Sets a key of the default keyspace.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(DEFAULT_KEYSPACE, key.as_ref(), Some(value.as_ref()));
    }

    /// Sets a key of the default keyspace, until a time: from then on it has no value. (What
    /// [`WriteOptions::ttl`](crate::WriteOptions::ttl) does for all that is put.)
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) {
        let expires = moment_of(expires);
        self.push_until(DEFAULT_KEYSPACE, key.as_ref(), value.as_ref(), expires);
    }

    /// Merges an operand into the value of a key of the default keyspace: see
    /// [`Db::merge`](crate::Db::merge).
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.push_operand(DEFAULT_KEYSPACE, key.as_ref(), operand.as_ref());
    }

    /// Removes a key of the default keyspace; one that does not exist is no error.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.push(DEFAULT_KEYSPACE, key.as_ref(), None);
    }

    /// How many operations the batch holds.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// Whether the batch holds no operation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes the batch takes in the log, without the record's header, unless values of it go
    /// into files of their own ([`Db::write`](crate::Db::write)). In memory it is more
    /// ([`memory`](Self::memory)).
    #[must_use]
    pub fn size(&self) -> usize {
        self.rep.len()
    }

    /// The bytes the batch takes in memory until it is in tables, some of them for each operation:
    /// what [`Error::BatchTooLarge`](crate::Error::BatchTooLarge) compares, in which values that go
    /// into files of their own do not count.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory_at(self.size())
    }

    /// The same if its operations took so many bytes.
    pub(super) fn memory_at(&self, size: usize) -> usize {
        Memtable::room_for(self.len(), size) + self.room_for_ranges()
    }

    /// What deletions of ranges take beside their keys.
    fn room_for_ranges(&self) -> usize {
        match self.ranges {
            0 => 0,
            ranges => ranges
                .saturating_mul(Memtable::room_for_range(0, 0))
                .saturating_add(Memtable::RANGES_BYTES),
        }
    }

    /// Removes all operations, keeping the memory.
    pub fn clear(&mut self) {
        self.rep.clear();
        self.count = 0;
        self.database = 0;
        self.mixed = false;
        self.keyspaces.clear();
        self.several_keyspaces = false;
        self.merges = false;
        self.max_key = 0;
        self.max_value = 0;
        self.expires = false;
        self.ranges = 0;
        self.max_range_end = 0;
    }

    /// [`WriteBatch::memory`] once there is an operation more, with a key and a value of so many
    /// bytes together.
    pub(super) fn memory_with(&self, bytes: usize) -> usize {
        let room = Memtable::room_for(self.len() + 1, self.size() + bytes + MOST_BESIDE);
        room + self.room_for_ranges()
    }

    /// The bytes of memory that its operations take once there is one more, with a key and a value
    /// of so many bytes together.
    pub(super) fn capacity_with(&self, bytes: usize) -> usize {
        let (capacity, needed) = (self.rep.capacity(), self.rep.len() + bytes + MOST_BESIDE);
        if needed <= capacity {
            capacity
        } else {
            // Not twice as much, which a budget would have to hold.
            needed.max(capacity + capacity / 4)
        }
    }

    /// Makes room for such an operation, in as much memory as was said.
    pub(super) fn reserve(&mut self, bytes: usize) {
        let more = self.capacity_with(bytes).saturating_sub(self.rep.len());
        self.rep.reserve_exact(more);
    }

    /// The keyspaces written to besides the default one, and perhaps that.
    pub(super) fn keyspaces(&self) -> &[Arc<KeyspaceInner>] {
        &self.keyspaces
    }

    /// A keyspace written to besides the default one, by its number.
    pub(super) fn keyspace(&self, number: u32) -> Option<&Arc<KeyspaceInner>> {
        let mut keyspaces = self.keyspaces.iter();
        keyspaces.find(|keyspace| keyspace.id() == number)
    }

    /// A place to [`WriteBatch::truncate`] to.
    pub(super) fn end(&self) -> BatchEnd {
        BatchEnd {
            bytes: self.rep.len(),
            count: self.count,
            keyspaces: self.keyspaces.len(),
            several_keyspaces: self.several_keyspaces,
            merges: self.merges,
            max_key: self.max_key,
            max_value: self.max_value,
            expires: self.expires,
            ranges: self.ranges,
            max_range_end: self.max_range_end,
        }
    }

    /// Removes the operations after a place, as if they had never been there.
    pub(super) fn truncate(&mut self, end: BatchEnd) {
        self.rep.truncate(end.bytes);
        self.count = end.count;
        self.keyspaces.truncate(end.keyspaces);
        self.several_keyspaces = end.several_keyspaces;
        self.merges = end.merges;
        self.max_key = end.max_key;
        self.max_value = end.max_value;
        self.expires = end.expires;
        self.ranges = end.ranges;
        self.max_range_end = end.max_range_end;
    }

    /// The next operation is of this keyspace of a database.
    pub(super) fn bind(&mut self, keyspace: &Arc<KeyspaceInner>, database: u64) {
        self.mixed |= self.database != 0 && self.database != database;
        self.database = database;
        let mut known = self.keyspaces.iter();
        if known.all(|known| known.id() != keyspace.id()) {
            self.keyspaces.push(keyspace.clone());
        }
    }

    /// Sets a key, or removes it.
    pub(crate) fn push(&mut self, keyspace: u32, key: &[u8], value: Option<&[u8]>) {
        let kind = match value {
            Some(_) => EntryKind::Put,
            None => EntryKind::Delete,
        };
        self.push_kind(keyspace, key, kind, &[], value.unwrap_or_default());
    }

    /// Sets a key until a moment.
    pub(crate) fn push_until(&mut self, keyspace: u32, key: &[u8], value: &[u8], until: Moment) {
        let before = &until.to_le_bytes();
        self.push_kind(keyspace, key, EntryKind::Expiring, before, value);
    }

    /// Has a key point to a value, until a moment if there is one.
    pub(crate) fn push_pointer(
        &mut self,
        keyspace: u32,
        key: &[u8],
        pointer: ValuePointer,
        until: Option<Moment>,
    ) {
        let mut stored = Vec::new();
        pointer.put(&mut stored);
        match until {
            None => self.push_kind(keyspace, key, EntryKind::Pointer, &[], &stored),
            Some(until) => {
                let before = &until.to_le_bytes();
                self.push_kind(keyspace, key, EntryKind::ExpiringPointer, before, &stored);
            }
        }
    }

    /// Merges an operand into the value of a key.
    pub(crate) fn push_operand(&mut self, keyspace: u32, key: &[u8], operand: &[u8]) {
        self.merges = true;
        self.push_kind(keyspace, key, EntryKind::Operand, &[], operand);
    }

    /// The same operations, of which those expire that put a value into a keyspace for which
    /// `until` gives a moment.
    pub(super) fn expiring(&self, until: impl Fn(u32) -> Option<Moment>) -> WriteBatch {
        let mut batch = self.without_operations(self.rep.len() + EXPIRY_BYTES * self.len());
        for op in BatchOps(&self.rep).flatten() {
            match (op.kind, until(op.keyspace)) {
                (OpKind::Entry(EntryKind::Put), Some(until)) => {
                    batch.push_until(op.keyspace, op.key, op.value, until);
                }
                (OpKind::Entry(EntryKind::Pointer), Some(until)) => {
                    let (kind, before) = (EntryKind::ExpiringPointer, until.to_le_bytes());
                    batch.push_kind(op.keyspace, op.key, kind, &before, op.value);
                }
                _ => batch.push_op(&op),
            }
        }
        batch
    }

    /// One for operations on the same keyspaces, of about so many bytes.
    pub(super) fn without_operations(&self, bytes: usize) -> WriteBatch {
        WriteBatch {
            rep: Vec::with_capacity(bytes),
            count: 0,
            keyspaces: self.keyspaces.clone(),
            max_key: 0,
            max_value: 0,
            ranges: 0,
            ..*self
        }
    }

    /// Adds an operation of another batch.
    pub(super) fn push_op(&mut self, op: &BatchOp<'_>) {
        match op.kind {
            OpKind::Entry(EntryKind::Put) => self.push(op.keyspace, op.key, Some(op.value)),
            OpKind::Entry(EntryKind::Delete) => self.push(op.keyspace, op.key, None),
            OpKind::Entry(EntryKind::Operand) => {
                self.push_operand(op.keyspace, op.key, op.value);
            }
            OpKind::Entry(EntryKind::Expiring) => {
                if let Some((until, value)) = expiring::split(op.value) {
                    self.push_until(op.keyspace, op.key, value, until);
                }
            }
            OpKind::Entry(kind @ (EntryKind::Pointer | EntryKind::ExpiringPointer)) => {
                self.push_kind(op.keyspace, op.key, kind, &[], op.value);
            }
            OpKind::DeleteRange => self.push_range(op.keyspace, op.key, op.value),
        }
    }

    /// Deletes every key from one to another, which is not deleted; an empty one is no end.
    pub(crate) fn push_range(&mut self, keyspace: u32, start: &[u8], end: &[u8]) {
        // An end may lie right behind a key.
        let longer = start.len().max(last_before(end).len());
        self.max_range_end = self.max_range_end.max(longer);
        self.ranges += 1;
        debug_assert!(is_before(start, end), "nothing is in the range");
        self.push_parts(keyspace, start, OpKind::DeleteRange, &[], end);
    }

    /// An operation with a value in two parts.
    fn push_kind(
        &mut self,
        keyspace: u32,
        key: &[u8],
        kind: EntryKind,
        before: &[u8],
        value: &[u8],
    ) {
        self.max_value = self.max_value.max(value.len());
        self.expires |= kind.expires();
        self.push_parts(keyspace, key, OpKind::Entry(kind), before, value);
    }

    fn push_parts(&mut self, keyspace: u32, key: &[u8], kind: OpKind, before: &[u8], value: &[u8]) {
        self.max_key = self.max_key.max(key.len());
        let bytes = key.len() + before.len() + value.len();
        self.rep.reserve(bytes + MOST_BESIDE);
        self.rep.push(kind.to_byte());
        coding::put_varint(&mut self.rep, u64::from(keyspace));
        coding::put_bytes(&mut self.rep, key);
        if kind != OpKind::Entry(EntryKind::Delete) {
            coding::put_varint(&mut self.rep, (before.len() + value.len()) as u64);
            self.rep.extend_from_slice(before);
            self.rep.extend_from_slice(value);
        }
        if self.count == 0 {
            self.first_keyspace = keyspace;
        }
        self.several_keyspaces |= keyspace != self.first_keyspace;
        self.count += 1;
    }

    /// The keyspace that all operations are of, if there is one.
    pub(crate) fn only_keyspace(&self) -> Option<u32> {
        (self.count > 0 && !self.several_keyspaces).then_some(self.first_keyspace)
    }

    /// The keyspaces written to, those of several perhaps more than once.
    pub(crate) fn keyspaces_written(&self) -> impl Iterator<Item = u32> {
        let only = self.only_keyspace();
        let ops = BatchOps(if only.is_some() { &[] } else { &self.rep });
        only.into_iter().chain(ops.flatten().map(|op| op.keyspace))
    }

    /// Whether the batch may be written to the database of this identity.
    pub(crate) fn belongs_to(&self, database: u64) -> bool {
        !self.mixed && (self.database == 0 || self.database == database)
    }

    /// Whether every keyspace that something is merged into has an operator.
    pub(crate) fn check_operators(&self, default: &Arc<KeyspaceInner>) -> Result<()> {
        if !self.merges {
            return Ok(());
        }
        let merged = BatchOps(&self.rep).flatten();
        for op in merged.filter(|op| op.kind == OpKind::Entry(EntryKind::Operand)) {
            let keyspace = self.keyspace(op.keyspace).unwrap_or(default);
            keyspace.operator()?;
        }
        Ok(())
    }

    /// Whether every keyspace written to still exists.
    pub(crate) fn check_keyspaces(&self) -> Result<()> {
        self.keyspaces
            .iter()
            .try_for_each(|keyspace| keyspace.check_alive())
    }

    pub(crate) fn rep(&self) -> &[u8] {
        &self.rep
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max_key(&self) -> usize {
        self.max_key
    }

    pub(crate) fn max_range_end(&self) -> usize {
        self.max_range_end
    }

    pub(crate) fn max_value(&self) -> usize {
        self.max_value
    }

    /// Whether an operation deletes a range.
    pub(super) fn has_ranges(&self) -> bool {
        self.ranges > 0
    }

    /// Whether an operation has a time to live.
    pub(super) fn expires(&self) -> bool {
        self.expires
    }
}

/// Where a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchEnd {
    bytes: usize,
    count: u64,
    keyspaces: usize,
    several_keyspaces: bool,
    merges: bool,
    max_key: usize,
    max_value: usize,
    expires: bool,
    ranges: usize,
    max_range_end: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;
    use crate::{Error, Options, RecoveryMode};
    use proptest::prelude::*;

    /// What has a time to live without room for the moment is damage, in a log too.
    #[test]
    fn an_operation_too_short_to_say_when_it_expires_is_malformed() {
        for len in 0..=EXPIRY_BYTES {
            let mut batch = WriteBatch::new();
            batch.push(0, b"whole", Some(b"v"));
            batch.push_kind(0, b"short", EntryKind::Expiring, &[], &[1; 8][..len]);
            let ops: Vec<_> = BatchOps(batch.rep()).collect();
            let is_whole = len == EXPIRY_BYTES;
            assert!(ops.len() == 2 && ops[0].is_some() && ops[1].is_some() == is_whole);

            let fs = MemFs::new();
            let options = Options::new().background_threads(0);
            let db = options
                .clone()
                .fs(Arc::new(fs.clone()))
                .open("/db")
                .unwrap();
            db.put("before", "v").unwrap();
            db.write(batch).unwrap();
            let again = options.fs(Arc::new(fs.kill_clone()));
            for mode in [RecoveryMode::TolerateTornTail, RecoveryMode::PointInTime] {
                let opened = again.clone().recovery(mode).open("/db");
                match opened {
                    Ok(db) if is_whole => assert!(db.contains_key("whole").unwrap()),
                    Ok(db) => assert!(
                        mode == RecoveryMode::PointInTime
                            && db.contains_key("before").unwrap()
                            && db.len().unwrap() == 1
                    ),
                    Err(error) => assert!(!is_whole && error.is_corruption(), "{error}"),
                }
            }
        }
    }

    /// An operand where the keyspace has no operator, which only damage leaves: in memory, in a log
    /// and in tables it is told of, never taken for a value, and kept.
    #[test]
    fn operands_without_an_operator_are_an_error_wherever_they_lie() {
        let fs = MemFs::new();
        let open = |fs: &MemFs| {
            let options = Options::new().background_threads(0);
            options.fs(Arc::new(fs.clone())).open("/db").unwrap()
        };
        let refused = |result: Result<()>| {
            let error = result.unwrap_err();
            assert!(
                matches!(error, Error::MergeOperator { wanted: None, .. }),
                "{error}"
            );
        };
        let check = |db: &crate::Db| {
            refused(db.get("key").map(drop));
            refused(db.multi_get(&["before", "key"]).map(drop));
            refused(db.transaction().get("key").map(drop));
            refused(db.fetch_update("key", |_| None::<Vec<u8>>).map(drop));
            refused(db.iter().try_for_each(|entry| entry.map(drop)));
            refused(db.iter().rev().try_for_each(|entry| entry.map(drop)));
            let transaction = db.transaction();
            refused(transaction.iter().try_for_each(|entry| entry.map(drop)));
            assert!(db.contains_key("key").unwrap());
            assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"v"[..]));
            assert_eq!(db.get("later").unwrap().as_deref(), Some(&b"v"[..]));
        };
        let db = open(&fs);
        db.put("before", "v").unwrap();
        db.put("key", "base").unwrap();
        db.put("later", "v").unwrap();
        let mut batch = WriteBatch::new();
        // As `push_operand` does, but for what has writes refuse it.
        batch.push_kind(DEFAULT_KEYSPACE, b"key", EntryKind::Operand, &[], b"1");
        db.write(batch).unwrap();
        check(&db);
        let db = open(&fs.kill_clone());
        check(&db);
        db.flush().unwrap();
        check(&db);
        db.compact_range(None, None).unwrap();
        check(&db);
        db.verify().unwrap().check().unwrap();
        db.put("key", "new").unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"new"[..]));
        db.compact_range(None, None).unwrap();
        assert_eq!(db.len().unwrap(), 3);
    }

    proptest! {
        #[test]
        fn operations_come_back_as_they_went_in(
            ops in prop::collection::vec(
                (any::<u32>(), any::<Vec<u8>>(), any::<Option<(Vec<u8>, Option<Moment>)>>()),
                0..20,
            )
        ) {
            let mut batch = WriteBatch::new();
            for (keyspace, key, value) in &ops {
                match value {
                    Some((value, Some(until))) => {
                        batch.push_until(*keyspace, key, value, *until);
                    }
                    Some((value, None)) => batch.push(*keyspace, key, Some(value)),
                    None => batch.push(*keyspace, key, None),
                }
            }
            let back: Vec<_> = BatchOps(batch.rep())
                .map(|op| {
                    let op = op?;
                    let value = match op.kind {
                        OpKind::Entry(EntryKind::Put) => Some((op.value.to_vec(), None)),
                        OpKind::Entry(EntryKind::Expiring) => expiring::split(op.value)
                            .map(|(until, value)| (value.to_vec(), Some(until))),
                        OpKind::Entry(_) | OpKind::DeleteRange => None,
                    };
                    Some((op.keyspace, op.key.to_vec(), value))
                })
                .collect::<Option<_>>()
                .expect("well-formed");
            prop_assert_eq!(back, ops);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in any::<Vec<u8>>()) {
            prop_assert!(BatchOps(&bytes).count() <= bytes.len());
        }
    }
}
