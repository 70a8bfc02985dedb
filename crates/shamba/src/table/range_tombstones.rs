//! The range tombstones of a table: its fragments, with the numbers of the tombstones over each
//! (docs/format.md, "Range tombstones"). Resident while the table is open; immutable.

use crate::base::coding::{put_bytes, put_varint, take_bytes, take_varint};
use crate::base::fragment::{Fragment, is_before, last_before, newest_seen};
use crate::base::key::{MAX_KEY_LEN, MAX_SEQNO, SeqNo};

use super::format::Damage;
use super::properties::Properties;

/// Fragments, ascending. They do not meet, and each ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeTombstones {
    /// The newest entry of the table: an older tombstone hides something of it.
    newest_entry: SeqNo,
    bytes: Box<[u8]>,
    /// Where each fragment begins in the bytes.
    starts: Box<[u32]>,
}

const BAD: Damage = Damage("the range tombstones are malformed");

/// A fragment where it lies.
struct EncodedFragment<'a> {
    start: &'a [u8],
    end: &'a [u8],
    /// How many numbers there are, and their bytes.
    count: u64,
    seqs: &'a [u8],
}

impl<'a> EncodedFragment<'a> {
    /// Takes the next fragment, whose numbers are still to be taken.
    fn take(input: &mut &'a [u8]) -> Option<EncodedFragment<'a>> {
        let start = take_bytes(input)?;
        let end = take_bytes(input)?;
        let count = take_varint(input)?;
        Some(EncodedFragment {
            start,
            end,
            count,
            seqs: input,
        })
    }

    /// The numbers, newest first.
    fn seqs(&self) -> impl Iterator<Item = SeqNo> {
        let (mut input, mut last) = (self.seqs, None);
        (0..self.count).map_while(move |_| {
            let number = take_varint(&mut input)?;
            let seq = match last {
                None => number,
                Some(last) => SeqNo::checked_sub(last, number)?,
            };
            last = Some(seq);
            last
        })
    }
}

impl RangeTombstones {
    /// The bytes that decoding takes beside the encoded ones: a fragment has six at least.
    pub(super) fn memory_for(encoded: usize) -> usize {
        if encoded == 0 {
            return 0;
        }
        size_of::<RangeTombstones>() + encoded + encoded / 6 * size_of::<u32>()
    }

    /// Reads the range tombstones of a table between two keys.
    pub(super) fn decode(
        encoded: &[u8],
        (smallest, largest): (&[u8], &[u8]),
    ) -> Result<RangeTombstones, Damage> {
        let mut input = encoded;
        let newest_entry = take_varint(&mut input).ok_or(BAD)?;
        let bytes = input;
        let mut starts = Vec::new();
        let mut last_end: &[u8] = smallest;
        while !input.is_empty() {
            let at = u32::try_from(bytes.len() - input.len()).map_err(|_| BAD)?;
            starts.push(at);
            // First its keys, which come in order.
            let fragment = EncodedFragment::take(&mut input).ok_or(BAD)?;
            let keys = [fragment.start, fragment.end];
            let in_order = last_end <= fragment.start && fragment.start < fragment.end;
            // An end may lie right behind the longest key.
            if !in_order || keys[0].len() > MAX_KEY_LEN || keys[1].len() > MAX_KEY_LEN + 1 {
                return Err(BAD);
            }
            last_end = fragment.end;
            // Then the numbers, each less than the one before, and as many as it says.
            let mut last = MAX_SEQNO + 1;
            for seq in fragment.seqs() {
                if seq >= last || seq == 0 {
                    return Err(BAD);
                }
                last = seq;
            }
            let mut taken = 0;
            while taken < fragment.count {
                take_varint(&mut input).ok_or(BAD)?;
                taken += 1;
            }
            if fragment.count == 0 || fragment.seqs().count() as u64 != fragment.count {
                return Err(BAD);
            }
        }
        if starts.is_empty() || last_before(last_end) > largest {
            return Err(BAD);
        }
        Ok(RangeTombstones {
            newest_entry,
            bytes: bytes.into(),
            starts: starts.into(),
        })
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + size_of_val(&*self.starts)
    }

    /// How many fragments there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    fn encoded(&self, at: usize) -> Option<EncodedFragment<'_>> {
        let start = *self.starts.get(at)? as usize;
        EncodedFragment::take(&mut self.bytes.get(start..)?)
    }

    /// The number of the fragment that a key is in, or else of the first behind it.
    fn find(&self, key: &[u8]) -> usize {
        let behind = self.starts.partition_point(|&start| {
            let bytes = self.bytes.get(start as usize..);
            let start = bytes.and_then(|mut bytes| take_bytes(&mut bytes));
            start.is_some_and(|start| start <= key)
        });
        let Some(last) = behind.checked_sub(1) else {
            return 0;
        };
        let covers = |fragment: &EncodedFragment<'_>| is_before(key, fragment.end);
        if self.encoded(last).as_ref().is_some_and(covers) {
            last
        } else {
            behind
        }
    }

    /// The newest tombstone over a key that readers of a number see; 0 for none.
    pub(crate) fn newest_over(&self, key: &[u8], snapshot: SeqNo) -> SeqNo {
        let found = self.encoded(self.find(key));
        let over = found.filter(|fragment| fragment.start <= key);
        over.map_or(0, |over| newest_seen(over.seqs(), snapshot))
    }

    /// Whether a tombstone hides every entry of the table that it is over.
    pub(super) fn hides_all(&self, tombstone: SeqNo) -> bool {
        // One of the same number is the deletion of the first key, for a table without others.
        tombstone >= self.newest_entry
    }

    /// A fragment by its number.
    pub(crate) fn get(&self, at: usize) -> Option<Fragment> {
        let found = self.encoded(at)?;
        Some(Fragment {
            start: found.start.to_vec(),
            end: found.end.to_vec(),
            seqs: found.seqs().collect(),
        })
    }

    /// Adds to what entries come to what the range tombstones do.
    pub(super) fn add_to(&self, entries: &mut Properties) {
        let mut builder = RangeTombstonesBuilder::default();
        self.all_from(&[])
            .for_each(|fragment| builder.add(&fragment));
        builder.add_to(entries);
    }

    /// The fragments from the one that a key is in, or the first behind it, on.
    pub(crate) fn all_from(&self, key: &[u8]) -> impl Iterator<Item = Fragment> {
        (self.find(key)..).map_while(|at| self.get(at))
    }

    /// The fragment that a key is in, or else the first behind it.
    pub(crate) fn at_or_after(&self, key: &[u8]) -> Option<Fragment> {
        self.get(self.find(key))
    }

    /// The fragment that a key is in, or else the last before it.
    pub(crate) fn at_or_before(&self, key: &[u8]) -> Option<Fragment> {
        let at = self.find(key);
        let found = self.encoded(at);
        if found.is_some_and(|found| found.start <= key) {
            return self.get(at);
        }
        self.get(at.checked_sub(1)?)
    }
}

/// Encodes the range tombstones of a table that is written.
#[derive(Debug, Default)]
pub(super) struct RangeTombstonesBuilder {
    bytes: Vec<u8>,
    count: u64,
    /// Where the first begins and where the last ends.
    first: Vec<u8>,
    end: Vec<u8>,
    longest_key: usize,
    /// The oldest and the newest tombstone.
    seqs: Option<(SeqNo, SeqNo)>,
}

impl RangeTombstonesBuilder {
    /// Adds a fragment that ends, behind those before.
    pub(super) fn add(&mut self, fragment: &Fragment) {
        debug_assert!(fragment.start < fragment.end, "{fragment:?}");
        debug_assert!(
            self.end <= fragment.start,
            "{fragment:?} after {:?}",
            self.end
        );
        if self.count == 0 {
            self.first.clone_from(&fragment.start);
        }
        self.end.clone_from(&fragment.end);
        // An end may be a byte longer than any key.
        let longer = fragment.start.len().max(last_before(&fragment.end).len());
        self.longest_key = self.longest_key.max(longer);
        self.count += 1;
        put_bytes(&mut self.bytes, &fragment.start);
        put_bytes(&mut self.bytes, &fragment.end);
        put_varint(&mut self.bytes, fragment.seqs.len() as u64);
        let mut last = None;
        for &seq in &fragment.seqs {
            put_varint(&mut self.bytes, last.map_or(seq, |last: SeqNo| last - seq));
            last = Some(seq);
            let (oldest, newest) = self.seqs.unwrap_or((seq, seq));
            self.seqs = Some((oldest.min(seq), newest.max(seq)));
        }
    }

    /// Adds them to what the entries of a table, of which there is one at least, come to.
    pub(super) fn add_to(&self, entries: &mut Properties) {
        let Some((oldest, newest)) = self.seqs else {
            return;
        };
        entries.ranges = self.encode(entries.max_seq);
        if self.first < entries.smallest {
            entries.smallest.clone_from(&self.first);
        }
        let last = last_before(&self.end);
        if last > entries.largest.as_slice() {
            entries.largest = last.to_vec();
        }
        entries.min_seq = entries.min_seq.min(oldest);
        entries.max_seq = entries.max_seq.max(newest);
        entries.longest_key = entries.longest_key.max(self.longest_key as u32);
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of those there are.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.first.capacity() + self.end.capacity()
    }

    /// Where the first begins; empty without any.
    pub(super) fn first(&self) -> &[u8] {
        &self.first
    }

    /// Where the last ends; empty without any.
    pub(super) fn end(&self) -> &[u8] {
        &self.end
    }

    /// The oldest and the newest tombstone.
    pub(super) fn seqs(&self) -> Option<(SeqNo, SeqNo)> {
        self.seqs
    }

    /// As a table has them, whose newest entry this is; nothing where there are none.
    fn encode(&self, newest_entry: SeqNo) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 10);
        if self.count > 0 {
            put_varint(&mut out, newest_entry);
            out.extend_from_slice(&self.bytes);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fragments that do not meet, of keys of a byte or two.
    fn fragments() -> impl Strategy<Value = Vec<Fragment>> {
        let keys = prop::collection::btree_set(prop::collection::vec(0u8..6, 1..3), 0..12);
        let seqs = prop::collection::vec(prop::collection::btree_set(1u64..40, 1..4), 12);
        (keys, seqs, any::<u16>()).prop_map(|(keys, seqs, gaps)| {
            let keys: Vec<_> = keys.into_iter().collect();
            let pairs = keys.windows(2).zip(seqs).enumerate();
            let kept = pairs.filter(|(at, _)| gaps >> at & 1 == 0);
            kept.map(|(_, (pair, seqs))| Fragment {
                start: pair[0].clone(),
                end: pair[1].clone(),
                seqs: seqs.into_iter().rev().collect(),
            })
            .collect()
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_found(
            all in fragments(),
            key in prop::collection::vec(0u8..7, 0..3),
        ) {
            let mut builder = RangeTombstonesBuilder::default();
            all.iter().for_each(|fragment| builder.add(fragment));
            let encoded = builder.encode(7);
            if all.is_empty() {
                prop_assert!(encoded.is_empty());
                return Ok(());
            }
            let bounds = (builder.first(), last_before(builder.end()));
            let found = RangeTombstones::decode(&encoded, bounds).unwrap();
            prop_assert!(found.memory() <= RangeTombstones::memory_for(encoded.len()));
            prop_assert_eq!(found.len(), all.len());
            prop_assert_eq!(found.len() as u64, builder.count());
            let over = all.iter().find(|one| one.start <= key && key < one.end);
            for snapshot in 0..42 {
                let seqs = over.map(|one| one.seqs.clone()).unwrap_or_default();
                let expected = newest_seen(seqs, snapshot);
                prop_assert_eq!(found.newest_over(&key, snapshot), expected);
            }
            let after = all.iter().find(|one| key < one.end).cloned();
            prop_assert_eq!(found.at_or_after(&key), after);
            let before = all.iter().rev().find(|one| one.start <= key).cloned();
            prop_assert_eq!(found.at_or_before(&key), before);
            // Cut off anywhere, or with a byte more, it is damaged or something else.
            for len in 0..encoded.len() {
                let cut = RangeTombstones::decode(&encoded[..len], bounds);
                prop_assert!(cut.as_ref().ok() != Some(&found));
            }
            let outside = (builder.end(), builder.end());
            prop_assert_eq!(RangeTombstones::decode(&encoded, outside), Err(BAD));
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in any::<Vec<u8>>()) {
            let _ = RangeTombstones::decode(&bytes, (b"", &[0xff; 9]));
        }
    }

    #[test]
    fn numbers_that_are_not_in_order_are_damage() {
        let encode = |seqs: &[SeqNo]| {
            let mut bytes = vec![0, 1, b'a', 1, b'b', seqs.len() as u8];
            seqs.iter().for_each(|seq| put_varint(&mut bytes, *seq));
            bytes
        };
        let decode = |seqs: &[SeqNo]| RangeTombstones::decode(&encode(seqs), (b"a", b"b"));
        assert!(decode(&[9, 4]).is_ok());
        // The second is said by how much less it is.
        for bad in [&[9, 9][..], &[9, 0], &[0], &[], &[9, 10], &[MAX_SEQNO + 1]] {
            assert_eq!(decode(bad), Err(BAD), "{bad:?}");
        }
    }
}
