//! Data blocks: sorted entries with shared key prefixes and restart points (docs/format.md, "Data
//! blocks").
//!
//! [`BlockBuilder`] is used as `(add+ finish)*`. [`DataBlock`] views a payload: `search` answers a
//! point lookup without allocating, a [`Cursor`] walks entries and keeps only its place, so that
//! the bytes may go away and come back between its steps.

mod cursor;

use std::cmp::Ordering;
use std::ops::Range;

use super::format::Damage;
use crate::base::coding::{put_varint, take_varint, varint_in, varint_len};
use crate::base::key::{self, Tag, common_prefix};
use crate::fs::PAGE;
pub(super) use cursor::Cursor;

/// An entry that no build up to this one writes.
pub(super) const BAD_KIND: Damage =
    Damage("an entry is of a kind this build does not know; a newer build may");

const MALFORMED: Damage = Damage("a data block is malformed");

/// Several entries share a block only below this length, so that restart offsets fit 16 bits.
pub(super) const MAX_SHARED_BLOCK: usize = 60 << 10;

/// The most bytes an entry takes besides its key and value: three lengths and a tag.
const MAX_ENTRY_HEADER: usize = 3 * 5 + 10;

/// Builds payloads of data blocks.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    data: Vec<u8>,
    restarts: Vec<u16>,
    last_key: Vec<u8>,
    count: usize,
    interval: usize,
}

impl BlockBuilder {
    /// Every `interval`th entry stores its key whole.
    pub(super) fn new(interval: usize) -> Self {
        BlockBuilder {
            data: Vec::new(),
            restarts: Vec::new(),
            last_key: Vec::new(),
            count: 0,
            interval: interval.max(1),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    fn starts_interval(&self) -> bool {
        self.count.is_multiple_of(self.interval)
    }

    /// The payload's length if it were finished now.
    pub(super) fn len(&self) -> usize {
        self.data.len() + 2 * self.restarts.len() + 2
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.data.capacity() + 2 * self.restarts.capacity() + self.last_key.capacity()
    }

    /// Whether an entry fits a payload of `limit` bytes. The first entry always does.
    pub(super) fn fits(&self, key: &[u8], tag: Tag, value: &[u8], limit: usize) -> bool {
        if self.count == 0 {
            return true;
        }
        let restart = self.starts_interval();
        let shared = if restart {
            0
        } else {
            common_prefix(&self.last_key, key)
        };
        let entry = varint_len(shared as u64)
            + varint_len((key.len() - shared) as u64)
            + varint_len(value.len() as u64)
            + varint_len(tag.to_raw())
            + key.len()
            - shared
            + value.len();
        self.len() + entry + 2 * usize::from(restart) <= limit.min(MAX_SHARED_BLOCK)
    }

    /// Adds an entry after the last one.
    pub(super) fn add(&mut self, key: &[u8], tag: Tag, value: &[u8]) {
        let shared = if self.starts_interval() {
            self.restarts.push(self.data.len() as u16);
            0
        } else {
            common_prefix(&self.last_key, key)
        };
        let suffix = key.get(shared..).unwrap_or_default();
        // With the restarts, so that finishing the block does not double what a large entry takes.
        let len = self.len() + MAX_ENTRY_HEADER + suffix.len() + value.len();
        if len > self.data.capacity() && (len <= 4 * PAGE || self.count == 0) {
            // A block is mostly a page: doubling would double what a table being written takes.
            self.data
                .reserve_exact(len.next_multiple_of(PAGE) - self.data.len());
        }
        put_varint(&mut self.data, shared as u64);
        put_varint(&mut self.data, suffix.len() as u64);
        put_varint(&mut self.data, value.len() as u64);
        put_varint(&mut self.data, tag.to_raw());
        self.data.extend_from_slice(suffix);
        self.data.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.count += 1;
    }

    /// Writes the payload as it would be now to `payload`.
    pub(super) fn peek(&self, payload: &mut Vec<u8>) {
        payload.clear();
        payload.extend_from_slice(&self.data);
        for restart in &self.restarts {
            payload.extend_from_slice(&restart.to_le_bytes());
        }
        payload.extend_from_slice(&(self.restarts.len() as u16).to_le_bytes());
    }

    /// Completes the payload and leaves the builder empty; `last_key` stays.
    pub(super) fn finish(&mut self, payload: &mut Vec<u8>) {
        payload.clear();
        std::mem::swap(payload, &mut self.data);
        for restart in &self.restarts {
            payload.extend_from_slice(&restart.to_le_bytes());
        }
        payload.extend_from_slice(&(self.restarts.len() as u16).to_le_bytes());
        self.restarts.clear();
        self.count = 0;
    }
}

/// An entry as it lies in a block.
#[derive(Debug, Clone)]
struct BlockEntry {
    shared: usize,
    suffix: Range<usize>,
    value: Range<usize>,
    tag: Tag,
}

/// What a point lookup in one block says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Search {
    /// The newest entry of the key at or before the tag, and where in the payload its value lies.
    Found { tag: Tag, value: Range<usize> },
    /// There is none, here or later.
    Absent,
    /// All entries at the end of the block are newer ones of the key: older ones may follow.
    Continues,
}

/// The first entry of a block at or after a place.
enum Landing {
    /// It is of the key itself.
    Key { at: usize, entry: BlockEntry },
    /// It is of a later key.
    Later { at: usize, entry: BlockEntry },
    /// There is none; whether the block's last entries are newer ones of the key.
    End { same_key: bool },
}

/// A data block's payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct DataBlock<'a> {
    entries: &'a [u8],
    restarts: &'a [[u8; 2]],
}

impl<'a> DataBlock<'a> {
    #[inline]
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Damage> {
        let (body, count) = payload.split_last_chunk::<2>().ok_or(MALFORMED)?;
        let count = usize::from(u16::from_le_bytes(*count));
        let at = body.len().checked_sub(2 * count).ok_or(MALFORMED)?;
        let (entries, restarts) = body.split_at_checked(at).ok_or(MALFORMED)?;
        if count == 0 {
            return Err(MALFORMED);
        }
        let (restarts, _) = restarts.as_chunks::<2>();
        Ok(DataBlock { entries, restarts })
    }

    #[inline]
    fn restart(&self, index: usize) -> Result<usize, Damage> {
        let bytes = self.restarts.get(index).ok_or(MALFORMED)?;
        Ok(usize::from(u16::from_le_bytes(*bytes)))
    }

    #[inline]
    fn entry(&self, at: usize) -> Result<BlockEntry, Damage> {
        let head = self.entries.get(at..).and_then(<[u8]>::first_chunk::<11>);
        let Some([shared, unshared, value, tag @ ..]) = head else {
            return self.long_entry(at);
        };
        // Mostly a length takes a byte, and a tag a few.
        let (false, Some((tag, tag_len))) = (
            shared | unshared | value >= 0x80,
            varint_in(u64::from_le_bytes(*tag)),
        ) else {
            return self.long_entry(at);
        };
        let start = at + 3 + tag_len;
        let middle = start + usize::from(*unshared);
        let end = middle + usize::from(*value);
        if end > self.entries.len() {
            return Err(MALFORMED);
        }
        Ok(BlockEntry {
            shared: usize::from(*shared),
            suffix: start..middle,
            value: middle..end,
            tag: Tag::from_raw(tag),
        })
    }

    /// Any entry.
    #[inline(never)]
    fn long_entry(&self, at: usize) -> Result<BlockEntry, Damage> {
        let mut input = self.entries.get(at..).ok_or(MALFORMED)?;
        let mut varint = || take_varint(&mut input).ok_or(MALFORMED);
        let shared = varint()?;
        let unshared = varint()?;
        let value = varint()?;
        let tag = varint()?;
        let left = input.len() as u64;
        let total = unshared.checked_add(value).ok_or(MALFORMED)?;
        if total > left || shared > key::MAX_KEY_LEN as u64 {
            return Err(MALFORMED);
        }
        let start = self.entries.len() - left as usize;
        let middle = start + unshared as usize;
        Ok(BlockEntry {
            shared: shared as usize,
            suffix: start..middle,
            value: middle..middle + value as usize,
            tag: Tag::from_raw(tag),
        })
    }

    #[inline]
    fn bytes(&self, range: &Range<usize>) -> &'a [u8] {
        self.entries.get(range.clone()).unwrap_or_default()
    }

    /// The last restart whose entry is before (`key`, `tag`), or the first one.
    #[inline]
    fn restart_before(&self, key: &[u8], tag: Tag) -> Result<usize, Damage> {
        let wanted = key::prefix(key);
        let (mut low, mut high) = (0, self.restarts.len());
        // Invariant: the entry at `low` is before the target or `low` is 0; that at `high` is not.
        while high - low > 1 {
            let middle = low.midpoint(high);
            let entry = self.entry(self.restart(middle)?)?;
            if entry.shared != 0 {
                return Err(MALFORMED);
            }
            let restart = self.bytes(&entry.suffix);
            let order = match key::prefix(restart).cmp(&wanted) {
                Ordering::Equal => key::compare(restart, entry.tag, key, tag),
                order => order,
            };
            match order {
                Ordering::Less => low = middle,
                Ordering::Equal | Ordering::Greater => high = middle,
            }
        }
        self.restart(low)
    }

    /// The newest entry of `key` whose tag is at most `tag`.
    #[inline]
    pub(super) fn search(&self, key: &[u8], tag: Tag) -> Result<Search, Damage> {
        Ok(match self.land(key, tag)? {
            Landing::Key { entry, .. } => Search::Found {
                tag: entry.tag,
                value: entry.value,
            },
            Landing::Later { .. } | Landing::End { same_key: false } => Search::Absent,
            Landing::End { same_key: true } => Search::Continues,
        })
    }

    /// The first entry at or after (`key`, `tag`). It shares with the one before it no more than
    /// that one does with `key`.
    ///
    /// Keys are not put together: `matched`, the length of the prefix that the target has in
    /// common with the entry before, decides most comparisons by the entry's `shared` alone, since
    /// an entry shares all it can with the one before (except at a restart).
    #[inline]
    fn land(&self, key: &[u8], tag: Tag) -> Result<Landing, Damage> {
        let mut next = self.restart_before(key, tag)?;
        let mut matched = 0;
        let mut same_key = false;
        while next < self.entries.len() {
            let entry = self.entry(next)?;
            let at = std::mem::replace(&mut next, entry.value.end);
            if entry.shared > matched {
                continue;
            }
            if entry.shared < matched && entry.shared != 0 {
                return Ok(Landing::Later { at, entry });
            }
            let suffix = self.bytes(&entry.suffix);
            let wanted = key.get(entry.shared..).unwrap_or_default();
            let common = common_prefix(suffix, wanted);
            matched = entry.shared + common;
            match (suffix.get(common), wanted.get(common)) {
                (None, None) => {
                    if entry.tag <= tag {
                        return Ok(Landing::Key { at, entry });
                    }
                    same_key = true;
                }
                (Some(_), None) => return Ok(Landing::Later { at, entry }),
                (Some(have), Some(want)) if have > want => {
                    return Ok(Landing::Later { at, entry });
                }
                _ => {}
            }
        }
        Ok(Landing::End { same_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{EntryKind, compare};
    use proptest::prelude::*;

    type Model = Vec<(Vec<u8>, Tag, Vec<u8>)>;

    fn entries() -> impl Strategy<Value = Model> {
        let key = proptest::collection::vec(0u8..3, 0..12);
        let entry = (key, 1u64..5, any::<bool>(), any::<Vec<u8>>());
        proptest::collection::vec(entry, 1..60).prop_map(|raw| {
            let mut model: Model = raw
                .into_iter()
                .map(|(key, seq, put, value)| {
                    let kind = if put {
                        EntryKind::Put
                    } else {
                        EntryKind::Delete
                    };
                    (key, Tag::new(seq, kind), value)
                })
                .collect();
            model.sort_by(|a, b| compare(&a.0, a.1, &b.0, b.1));
            model.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
            model
        })
    }

    #[test]
    fn a_large_entry_takes_little_more_memory_than_its_bytes() {
        for len in [5 * PAGE, 100_000, 1 << 20] {
            let (mut builder, mut payload) = (BlockBuilder::new(16), Vec::new());
            builder.add(b"key", Tag::new(1, EntryKind::Put), &vec![7; len]);
            builder.finish(&mut payload);
            assert!(payload.capacity() <= len + 2 * PAGE, "{len}");
        }
    }

    fn build(model: &Model, interval: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::new(interval);
        for (key, tag, value) in model {
            let before = builder.len();
            let fits = |limit| builder.fits(key, *tag, value, limit);
            let needed = (before..).find(|&limit| fits(limit)).unwrap();
            let first = builder.count() == 0;
            builder.add(key, *tag, value);
            assert!(first || builder.len() == needed, "`fits` is exact");
        }
        let mut payload = Vec::new();
        let len = builder.len();
        builder.finish(&mut payload);
        assert_eq!(payload.len(), len);
        payload
    }

    proptest! {
        #[test]
        fn lookups_and_walks_agree_with_a_sorted_list(
            model in entries(),
            interval in 1usize..20,
            probes in proptest::collection::vec(
                (proptest::collection::vec(0u8..3, 0..12), 0u64..6),
                20,
            ),
        ) {
            let payload = build(&model, interval);
            let block = DataBlock::parse(&payload).unwrap();
            let mut cursor = Cursor::default();
            let known = model.iter().map(|(key, tag, _)| (key.clone(), tag.seq()));
            for (key, seq) in known.chain(probes) {
                let tag = Tag::seek(seq);
                let at = model.partition_point(|e| compare(&e.0, e.1, &key, tag) == Ordering::Less);
                let want = match model.get(at) {
                    Some(e) if e.0 == key => Search::Found { tag: e.1, value: 0..0 },
                    None if model.last().unwrap().0 == key => Search::Continues,
                    _ => Search::Absent,
                };
                match (block.search(&key, tag).unwrap(), want) {
                    (Search::Found { tag, value }, Search::Found { tag: want, .. }) => {
                        prop_assert_eq!(tag, want);
                        prop_assert_eq!(&payload[value], model[at].2.as_slice());
                    }
                    (got, want) => prop_assert_eq!(got, want),
                }
                prop_assert_eq!(cursor.seek(&block, &key, tag).unwrap(), at < model.len());
                if let Some(e) = model.get(at) {
                    prop_assert_eq!((cursor.key(), cursor.tag()), (e.0.as_slice(), e.1));
                    prop_assert_eq!(cursor.prev(&block).unwrap(), at > 0);
                    if at > 0 {
                        prop_assert_eq!(cursor.key(), model[at - 1].0.as_slice());
                        prop_assert!(cursor.next(&block).unwrap());
                        prop_assert_eq!((cursor.key(), cursor.tag()), (e.0.as_slice(), e.1));
                    }
                }
            }
            let mut seen = Vec::new();
            let mut valid = cursor.first(&block).unwrap();
            while valid {
                seen.push((cursor.key().to_vec(), cursor.tag(), payload[cursor.value()].to_vec()));
                valid = cursor.next(&block).unwrap();
            }
            prop_assert_eq!(&seen, &model);
            let mut valid = cursor.last(&block).unwrap();
            while valid {
                let e = seen.pop().unwrap();
                prop_assert_eq!((cursor.key(), cursor.tag()), (e.0.as_slice(), e.1));
                valid = cursor.prev(&block).unwrap();
            }
            prop_assert!(seen.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in any::<Vec<u8>>(), key in any::<Vec<u8>>()) {
            if let Ok(block) = DataBlock::parse(&bytes) {
                let _ = block.search(&key, Tag::NEWEST);
                let mut cursor = Cursor::default();
                let _ = cursor.seek(&block, &key, Tag::NEWEST);
                let _ = cursor.last(&block);
                let mut steps = 0;
                let mut valid = cursor.first(&block);
                while valid == Ok(true) && steps < 1000 {
                    valid = cursor.next(&block);
                    steps += 1;
                }
            }
        }

        #[test]
        fn common_prefixes_are_longest(
            a in proptest::collection::vec(0u8..2, 0..40),
            b in proptest::collection::vec(0u8..2, 0..40),
        ) {
            let len = common_prefix(&a, &b);
            prop_assert_eq!(&a[..len], &b[..len]);
            prop_assert!(len == a.len().min(b.len()) || a[len] != b[len]);
        }
    }
}
