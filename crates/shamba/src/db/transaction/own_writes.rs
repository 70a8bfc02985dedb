//! What a transaction wrote: a batch, as it will be logged, and where in it the newest value of
//! each key is. Single-threaded.

use std::collections::{BTreeMap, btree_map};
use std::ops::{Bound, Range};
use std::sync::Arc;

use super::long_values::LongValues;
use super::own_ranges::OwnRanges;
use crate::base::expiring::EXPIRY_BYTES;
use crate::base::key::EntryKind;
use crate::base::pointer::ValuePointer;
use crate::db::DbShared;
use crate::db::batch::{BatchEnd, BatchOps, OpKind, WriteBatch};
use crate::db::in_pieces::UnpointedFile;
use crate::db::iter::IterOptions;
use crate::db::keyspaces::KeyspaceInner;
#[cfg(doc)]
use crate::db::write::KeySet;
use crate::memtable::Memtable;

/// What a key takes beside its bytes: its place in a node that is half full, as where keys come in
/// order, and the least that is allocated.
const KEY_BYTES: usize = 116;

/// What a keyspace takes beside its keys: its places in the map and in the batch, and a node for
/// the first key.
const KEYSPACE_BYTES: usize = 464;

/// What an operand takes beside its bytes: its place in a list that is half full.
const OPERAND_BYTES: usize = 2 * size_of::<Range<usize>>();

/// What a key takes that something is merged into, beside operands: the least that its list of them
/// allocates, too.
const MERGED_BYTES: usize = size_of::<MergedPlace>() + 5 * size_of::<Range<usize>>();

/// Where in the batch's bytes what was written of a key lies.
#[derive(Debug, Clone)]
enum WrittenPlace {
    Base(WrittenBase),
    Merged(Box<MergedPlace>),
}

/// What there is of a key without operands, or where in the batch's bytes it lies.
#[derive(Debug, Clone)]
enum WrittenBase {
    Value(Range<usize>),
    /// A pointer to a value in pieces.
    Pointer(Range<usize>),
    Deleted,
}

/// Where operands lie, and what they are merged into.
#[derive(Debug, Clone)]
struct MergedPlace {
    /// None where that is what others have written.
    base: Option<WrittenBase>,
    /// The oldest first.
    operands: Vec<Range<usize>>,
}

impl WrittenPlace {
    /// What it takes beside its place in the map.
    fn bytes(&self) -> usize {
        match self {
            WrittenPlace::Merged(merged) => MERGED_BYTES + OPERAND_BYTES * merged.operands.len(),
            WrittenPlace::Base(_) => 0,
        }
    }
}

/// What a transaction wrote of a key.
#[derive(Debug)]
pub(super) enum OwnEntry<'a> {
    Base(OwnBase<'a>),
    Merged(OwnOperands<'a>),
}

/// The same without operands.
#[derive(Debug, Clone, Copy)]
pub(super) enum OwnBase<'a> {
    Value(&'a [u8]),
    /// It lies in a file of its own.
    InPieces(ValuePointer),
    Deleted,
}

impl OwnEntry<'_> {
    /// Whether it is that the key was deleted.
    pub(super) fn is_deleted(&self) -> bool {
        matches!(self, OwnEntry::Base(OwnBase::Deleted))
    }
}

/// What a transaction merged into a key.
#[derive(Debug)]
pub(super) struct OwnOperands<'a> {
    /// What it is merged into, if that is its own.
    pub(super) base: Option<OwnBase<'a>>,
    /// The oldest first.
    pub(super) operands: Vec<&'a [u8]>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    batch: WriteBatch,
    /// What it points to.
    files: LongValues,
    places: BTreeMap<u32, BTreeMap<Box<[u8]>, WrittenPlace>>,
    /// Ranges deleted, by keyspace; what was written in them since is in `places`.
    ranges: BTreeMap<u32, OwnRanges>,
    /// Of the keys in `places`, and of ranges.
    key_bytes: usize,
    /// The places to go back to, in their order, each with how often it was noted.
    savepoints: Vec<(BatchEnd, usize)>,
}

impl OwnWrites {
    /// What the batch takes until it is in tables, with an operation more ([`WriteBatch::memory`]).
    pub(super) fn memory_with(&self, key: usize, value: usize) -> usize {
        self.batch.memory_with(key + value)
    }

    /// The same with a range deleted.
    pub(super) fn memory_with_range(&self, start: &[u8], end: &[u8]) -> usize {
        let room = Memtable::room_for_range(start.len(), end.len());
        self.batch.memory_with(0) + room + Memtable::RANGES_BYTES
    }

    /// What it takes with an operation more, in bytes.
    pub(super) fn bytes_with(&self, key: usize, value: usize) -> usize {
        self.batch.capacity_with(key + value)
            + self.index_bytes_with(key)
            + self.savepoints.capacity() * size_of::<(BatchEnd, usize)>()
            + self.files.bytes()
    }

    /// What its keys take without the batch, with one more of a keyspace more. In a [`KeySet`] they
    /// take less.
    pub(super) fn index_bytes_with(&self, key: usize) -> usize {
        self.key_bytes
            + MERGED_BYTES
            + OPERAND_BYTES
            + KEY_BYTES
            + key
            + (self.places.len() + 1) * KEYSPACE_BYTES
    }

    /// Sets a key of a keyspace of a database, or removes it.
    pub(super) fn push(
        &mut self,
        (keyspace, database): (&Arc<KeyspaceInner>, u64),
        key: &[u8],
        value: Option<&[u8]>,
    ) {
        self.batch.bind(keyspace, database);
        self.batch.reserve(key.len() + value.map_or(0, <[u8]>::len));
        self.batch.push(keyspace.id(), key, value);
        let end = self.batch.size();
        let place = match value {
            Some(value) => WrittenBase::Value(end - value.len()..end),
            None => WrittenBase::Deleted,
        };
        self.note(keyspace.id(), key, WrittenPlace::Base(place));
    }

    /// Sets a key of a keyspace of a database to the value that is in a file.
    pub(super) fn push_file(
        &mut self,
        (keyspace, database): (&Arc<KeyspaceInner>, u64),
        key: &[u8],
        (db, file): (&Arc<DbShared>, UnpointedFile),
    ) {
        self.batch.bind(keyspace, database);
        let mut pointer = Vec::new();
        file.pointer.put(&mut pointer);
        self.batch.reserve(key.len() + pointer.len());
        self.batch
            .push_pointer(keyspace.id(), key, file.pointer, None);
        self.files.push(db, file);
        let end = self.batch.size();
        let place = WrittenBase::Pointer(end - pointer.len()..end);
        self.note(keyspace.id(), key, WrittenPlace::Base(place));
    }

    /// Merges an operand into a key of a keyspace of a database.
    pub(super) fn push_operand(
        &mut self,
        (keyspace, database): (&Arc<KeyspaceInner>, u64),
        key: &[u8],
        operand: &[u8],
    ) {
        self.batch.bind(keyspace, database);
        self.batch.reserve(key.len() + operand.len());
        self.batch.push_operand(keyspace.id(), key, operand);
        let end = self.batch.size();
        self.note_operand(keyspace.id(), key, end - operand.len()..end);
    }

    fn note(&mut self, keyspace: u32, key: &[u8], place: WrittenPlace) {
        let places = self.places.entry(keyspace).or_default();
        match places.get_mut(key) {
            Some(known) => {
                self.key_bytes = self.key_bytes + place.bytes() - known.bytes();
                *known = place;
            }
            None => {
                self.key_bytes += KEY_BYTES + key.len() + place.bytes();
                places.insert(key.into(), place);
            }
        }
    }

    /// Deletes a range of keys of a keyspace of a database; an empty end is none.
    pub(super) fn push_range(
        &mut self,
        (keyspace, database): (&Arc<KeyspaceInner>, u64),
        start: &[u8],
        end: &[u8],
    ) {
        self.batch.bind(keyspace, database);
        self.batch.reserve(start.len() + end.len());
        self.batch.push_range(keyspace.id(), start, end);
        self.note_range(keyspace.id(), start, end);
    }

    fn note_range(&mut self, keyspace: u32, start: &[u8], end: &[u8]) {
        self.key_bytes += OwnRanges::bytes_of(start, end);
        self.ranges.entry(keyspace).or_default().add(start, end);
        let Some(places) = self.places.get_mut(&keyspace) else {
            return;
        };
        let to = if end.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(end)
        };
        for (_, place) in places.range_mut::<[u8], _>((Bound::Included(start), to)) {
            self.key_bytes -= place.bytes();
            *place = WrittenPlace::Base(WrittenBase::Deleted);
        }
    }

    /// Whether a range deleted a key.
    pub(super) fn deletes(&self, keyspace: u32, key: &[u8]) -> bool {
        let ranges = self.ranges.get(&keyspace);
        ranges.is_some_and(|ranges| ranges.cover(key))
    }

    fn note_operand(&mut self, keyspace: u32, key: &[u8], operand: Range<usize>) {
        let places = self.places.entry(keyspace).or_default();
        let is_deleted = self
            .ranges
            .get(&keyspace)
            .is_some_and(|ranges| ranges.cover(key));
        let base = match places.get_mut(key) {
            Some(WrittenPlace::Merged(merged)) => {
                self.key_bytes += OPERAND_BYTES;
                return merged.operands.push(operand);
            }
            Some(WrittenPlace::Base(base)) => Some(base.clone()),
            None => is_deleted.then_some(WrittenBase::Deleted),
        };
        let operands = vec![operand];
        let merged = Box::new(MergedPlace { base, operands });
        self.note(keyspace, key, WrittenPlace::Merged(merged));
    }

    fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.batch.rep().get(range.clone()).unwrap_or_default()
    }

    fn base(&self, base: &WrittenBase) -> OwnBase<'_> {
        match base {
            WrittenBase::Value(value) => OwnBase::Value(self.bytes(value)),
            WrittenBase::Pointer(at) => OwnBase::InPieces(ValuePointer::read(self.bytes(at))),
            WrittenBase::Deleted => OwnBase::Deleted,
        }
    }

    fn entry(&self, place: &WrittenPlace) -> OwnEntry<'_> {
        match place {
            WrittenPlace::Base(base) => OwnEntry::Base(self.base(base)),
            WrittenPlace::Merged(merged) => {
                let MergedPlace { base, operands } = &**merged;
                OwnEntry::Merged(OwnOperands {
                    base: base.as_ref().map(|base| self.base(base)),
                    operands: operands.iter().map(|operand| self.bytes(operand)).collect(),
                })
            }
        }
    }

    /// What it says of a key, if it says anything.
    pub(super) fn get(&self, keyspace: u32, key: &[u8]) -> Option<OwnEntry<'_>> {
        let place = self
            .places
            .get(&keyspace)
            .and_then(|places| places.get(key));
        match place {
            Some(place) => Some(self.entry(place)),
            None => {
                let is_deleted = self.deletes(keyspace, key);
                is_deleted.then_some(OwnEntry::Base(OwnBase::Deleted))
            }
        }
    }

    /// What it says of each key of a range, from both ends.
    pub(super) fn range(&self, keyspace: u32, range: &IterOptions) -> OwnRange<'_> {
        let bounds = (
            range.lower.as_ref().map(Vec::as_slice),
            range.upper.as_ref().map(Vec::as_slice),
        );
        let places = self.places.get(&keyspace).filter(|_| is_range(bounds));
        OwnRange {
            own: self,
            places: places.map(|places| places.range::<[u8], _>(bounds)),
        }
    }

    /// The keys written, by keyspace.
    pub(super) fn keys(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.places
            .iter()
            .flat_map(|(&keyspace, places)| places.keys().map(move |key| (keyspace, &**key)))
    }

    /// The ranges deleted, by keyspace.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u32, &[u8], &[u8])> {
        self.ranges.iter().flat_map(|(&keyspace, ranges)| {
            let all = ranges.all().iter();
            all.map(move |(start, end)| (keyspace, &**start, &**end))
        })
    }

    /// The keyspaces written to, all but the default one.
    pub(super) fn keyspaces(&self) -> &[Arc<KeyspaceInner>] {
        self.batch.keyspaces()
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// The batch to be written, and the files that it points to.
    pub(super) fn into_batch(self) -> (WriteBatch, LongValues) {
        (self.batch, self.files)
    }

    /// Notes the present place. One that was noted already takes nothing more: memory is charged
    /// when something is written.
    pub(super) fn set_savepoint(&mut self) {
        let end = self.batch.end();
        match self.savepoints.last_mut() {
            Some((last, times)) if *last == end => *times += 1,
            _ => self.savepoints.push((end, 1)),
        }
    }

    fn take_savepoint(&mut self) -> Option<BatchEnd> {
        let (end, times) = self.savepoints.last_mut()?;
        let end = *end;
        *times -= 1;
        if *times == 0 {
            self.savepoints.pop();
        }
        Some(end)
    }

    /// Forgets the place noted last; false if there is none.
    pub(super) fn pop_savepoint(&mut self) -> bool {
        self.take_savepoint().is_some()
    }

    /// Goes back to the place noted last, and forgets it; false if there is none.
    pub(super) fn rollback_to_savepoint(&mut self) -> bool {
        let Some(end) = self.take_savepoint() else {
            return false;
        };
        self.batch.truncate(end);
        self.places.clear();
        self.ranges.clear();
        self.key_bytes = 0;
        // Taken out, so that what it says can be noted.
        let batch = std::mem::take(&mut self.batch);
        let mut ops = BatchOps(batch.rep());
        // Of the files those stay to which the batch still points.
        let mut files = 0;
        while let Some(Some(op)) = ops.next() {
            let end = batch.size() - ops.0.len();
            let value = end - op.value.len()..end;
            let place = match op.kind {
                OpKind::Entry(EntryKind::Put) => WrittenBase::Value(value),
                OpKind::Entry(EntryKind::Expiring) => {
                    WrittenBase::Value(value.start + EXPIRY_BYTES..end)
                }
                OpKind::Entry(EntryKind::Pointer) => {
                    files += 1;
                    WrittenBase::Pointer(value)
                }
                OpKind::Entry(EntryKind::ExpiringPointer) => {
                    files += 1;
                    WrittenBase::Pointer(value.start + EXPIRY_BYTES..end)
                }
                OpKind::Entry(EntryKind::Delete) => WrittenBase::Deleted,
                // These are noted in their own way.
                OpKind::Entry(EntryKind::Operand) => {
                    self.note_operand(op.keyspace, op.key, value);
                    continue;
                }
                OpKind::DeleteRange => {
                    self.note_range(op.keyspace, op.key, op.value);
                    continue;
                }
            };
            self.note(op.keyspace, op.key, WrittenPlace::Base(place));
        }
        self.batch = batch;
        self.files.truncate(files);
        true
    }
}

/// Whether there may be keys between two bounds; a map refuses those that are not in order.
fn is_range((lower, upper): (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(lower), Bound::Included(upper)) => lower <= upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower < upper,
    }
}

/// What a transaction wrote of each key of a range.
pub(super) struct OwnRange<'a> {
    own: &'a OwnWrites,
    places: Option<btree_map::Range<'a, Box<[u8]>, WrittenPlace>>,
}

impl<'a> Iterator for OwnRange<'a> {
    type Item = (&'a [u8], OwnEntry<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, place) = self.places.as_mut()?.next()?;
        Some((key, self.own.entry(place)))
    }
}

impl DoubleEndedIterator for OwnRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (key, place) = self.places.as_mut()?.next_back()?;
        Some((key, self.own.entry(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savepoints_at_one_place_take_as_much_as_one() {
        let mut own = OwnWrites::default();
        own.set_savepoint();
        let one = own.bytes_with(0, 0);
        (1..100_000).for_each(|_| own.set_savepoint());
        assert_eq!(own.bytes_with(0, 0), one);
        assert!((0..100_000).all(|_| own.pop_savepoint()));
        assert!(!own.pop_savepoint());
    }
}
