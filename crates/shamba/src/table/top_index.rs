//! The top-level index: where each partition of a table lies (docs/format.md, "Top-level index").
//! Resident while the table is open; immutable.

mod encoding;

use std::cmp::Ordering;
use std::ops::Range;

#[cfg(test)]
use super::format::Damage;
use super::packed_ints::PackedInts;
use super::stated_scan_filter::MOST_MODULES;
use crate::base::key::common_prefix;
use crate::base::key::prefix;
use crate::filter::MAX_MODULES;
pub(super) use encoding::{ParsedTop, TopIndexBuilder};

/// A partition's place. Its pages are: data blocks, filter modules from the last to the first,
/// index block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionEntry {
    /// The first page of its data.
    pub(super) first_page: u32,
    /// Pages of data blocks.
    pub(super) data_pages: u32,
    /// Data blocks.
    pub(super) blocks: u32,
    /// The first page of the index block, and how many it has.
    pub(super) index_page: u32,
    pub(super) index_pages: u32,
}

impl PartitionEntry {
    /// The pages of the index block.
    #[inline]
    pub(super) fn index(&self) -> Range<u32> {
        self.index_page..self.index_page + self.index_pages
    }
}

/// The partitions of a table and the separators between them: one piece of memory, since files are
/// many and stay open. It holds, one after the other,
/// - heads: the first four bytes of what follows the shared ones in each separator. A search looks
///   at separators themselves only among those whose head equals the key's;
/// - starts: the first page of each partition, and where the last ends;
/// - ends: where each separator ends;
/// - the row of the first partition: its pages of data, how many of these begin no block, pages of
///   the index block and of each module;
/// - of each partition those of these numbers that are not the same in all: mostly only the first;
/// - separators;
/// - where separators are long and begin alike: how much of the one before each begins with. Of
///   each only what follows is among the separators then ([`TopIndex::front_coded`]), so that keys
///   of 64 KiB that share all but a few bytes take as much as keys of a few bytes, and one of 64
///   KiB.
#[derive(Debug, Default)]
pub(super) struct TopIndex {
    bytes: Box<[u8]>,
    partitions: u32,
    /// So many bytes all separators have in common.
    shared: u32,
    modules: u16,
    starts: PackedInts,
    ends: PackedInts,
    rows: PackedInts,
    /// The columns of rows that are not the same in all, a bit each.
    varying: u32,
    front_coded: bool,
}

/// Separators are front-coded where they are longer on average and that makes half of them or less:
/// shorter ones are searched and handed out as they lie. With half of it memory is saved that a
/// partition of thousands of keys does not miss; with twice of it each partition of longer keys
/// takes half a KiB.
const LONG: usize = 256;

/// Whether separators are front-coded: so many, of so many bytes, or so many front-coded.
const fn is_front_coded(count: usize, whole: usize, front: usize) -> bool {
    whole > LONG * count && whole > 2 * front
}

/// How wide the lengths of shared beginnings are: none is longer than a key.
const FRONTS: PackedInts = PackedInts::Shorts;

/// Bytes of a head.
const HEAD: usize = size_of::<u32>();

/// Numbers of a row before those of the modules.
const BEFORE_MODULES: usize = 3;

/// A row's columns have a bit each.
const _: () = assert!(BEFORE_MODULES + MAX_MODULES + MOST_MODULES <= u32::BITS as usize);

/// The first four bytes as a number that orders as they do.
fn head_of(bytes: &[u8]) -> u32 {
    (prefix(bytes) >> 32) as u32
}

impl TopIndex {
    /// Reads the index of a table; see [`ParsedTop::of`].
    #[cfg(test)]
    pub(super) fn decode(encoded: &[u8], modules: usize, pages: u32) -> Result<Self, Damage> {
        ParsedTop::of(encoded, modules, pages).map(ParsedTop::build)
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len()
    }

    /// The number of partitions.
    pub(super) fn len(&self) -> usize {
        self.partitions as usize
    }

    /// Numbers of a row.
    fn columns(&self) -> usize {
        BEFORE_MODULES + self.modules as usize
    }

    /// Where starts, ends, rows and separators begin.
    #[inline]
    fn places(&self) -> (usize, usize, usize, usize) {
        let starts = self.len() * HEAD;
        let ends = starts + self.starts.bytes(self.len() + 1);
        let rows = ends + self.ends.bytes(self.len());
        let first = self.columns().min(self.len() * self.columns());
        let varying = self.varying.count_ones() as usize;
        let separators = rows + self.rows.bytes(first + self.len() * varying);
        (starts, ends, rows, separators)
    }

    #[inline]
    fn heads(&self) -> &[[u8; HEAD]] {
        let heads = self.bytes.get(..self.len() * HEAD).unwrap_or_default();
        heads.as_chunks().0
    }

    /// The first page of a partition.
    #[inline]
    fn start(&self, index: usize) -> Option<u32> {
        let starts = self.places().0;
        (index < self.len()).then(|| self.starts.get(&self.bytes, starts, index))?
    }

    /// A number of a partition's row.
    #[inline]
    fn in_row(&self, index: usize, column: usize) -> Option<u32> {
        if index >= self.len() || column >= self.columns() {
            return None;
        }
        let at = self.place_in_rows(index, column);
        self.rows.get(&self.bytes, self.places().2, at)
    }

    /// The place of a number among those of all rows.
    #[inline]
    fn place_in_rows(&self, index: usize, column: usize) -> usize {
        let (bit, varying) = (1 << column, self.varying);
        if varying & bit == 0 {
            return column;
        }
        let before = (varying & (bit - 1)).count_ones();
        self.columns() + index * varying.count_ones() as usize + before as usize
    }

    /// The pages of a partition's data.
    #[inline]
    pub(super) fn data(&self, index: usize) -> Option<Range<u32>> {
        let start = self.start(index)?;
        Some(start..start.checked_add(self.in_row(index, 0)?)?)
    }

    /// A partition.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<PartitionEntry> {
        if index >= self.len() {
            return None;
        }
        let (starts, _, rows, _) = self.places();
        let start = |index| self.starts.get(&self.bytes, starts, index);
        let in_row = |column| {
            let at = self.place_in_rows(index, column);
            self.rows.get(&self.bytes, rows, at)
        };
        let (data_pages, index_pages) = (in_row(0)?, in_row(2)?);
        Some(PartitionEntry {
            first_page: start(index)?,
            data_pages,
            blocks: data_pages.checked_sub(in_row(1)?)?,
            index_page: start(index + 1)?.checked_sub(index_pages)?,
            index_pages,
        })
    }

    /// What is kept of a separator: all of it, if they are not front-coded.
    #[inline]
    fn rest(&self, index: usize) -> &[u8] {
        let (_, ends, _, separators) = self.places();
        let end = |index| {
            if index < self.len() {
                self.ends.get(&self.bytes, ends, index)
            } else {
                None
            }
        };
        let start = index.checked_sub(1).and_then(end).unwrap_or(0);
        let end = end(index).unwrap_or(start);
        self.bytes
            .get(separators + start as usize..separators + end as usize)
            .unwrap_or_default()
    }

    /// How many bytes of the separator before it a front-coded separator begins with.
    fn front(&self, index: usize) -> usize {
        let fronts = self.bytes.len() - FRONTS.bytes(self.len());
        let front = FRONTS.get(&self.bytes, fronts, index);
        front.map_or(0, |front| front as usize)
    }

    /// A separator where it lies, unless they are front-coded: no key of the partition is greater,
    /// and every key of the next is.
    #[inline]
    pub(super) fn whole_separator(&self, index: usize) -> Option<&[u8]> {
        (!self.front_coded).then(|| self.rest(index))
    }

    /// Appends a separator to `out`.
    pub(super) fn separator(&self, index: usize, out: &mut Vec<u8>) {
        let rest = self.rest(index);
        if !self.front_coded {
            return out.extend_from_slice(rest);
        }
        let (from, mut missing) = (out.len(), self.front(index));
        out.resize(from + missing, 0);
        out.extend_from_slice(rest);
        // From those before it, of which each has the bytes behind what it shares itself.
        for before in (0..index).rev() {
            let front = self.front(before);
            let Some(bytes) = missing.checked_sub(front).filter(|bytes| *bytes > 0) else {
                continue;
            };
            let to = out.get_mut(from + front..from + missing);
            if let Some((to, rest)) = to.zip(self.rest(before).get(..bytes)) {
                to.copy_from_slice(rest);
            }
            missing = front;
        }
    }

    /// The partition that would hold `key`; `len()` when the key is past the last.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let shared = self.shared as usize;
        let (head, rest) = key.split_at(key.len().min(shared));
        if shared > 0 {
            let separators = self.bytes.get(self.places().3..).unwrap_or_default();
            let shared = separators.get(..shared).unwrap_or_default();
            match head.cmp(shared) {
                Ordering::Less => return 0,
                Ordering::Greater => return self.len(),
                Ordering::Equal => {}
            }
        }
        let wanted = head_of(rest);
        let heads = self.heads();
        let low = heads.partition_point(|&head| u32::from_le_bytes(head) < wanted);
        if heads.get(low) == Some(&wanted.to_le_bytes()) {
            return self.find_among_equals(low, wanted, key);
        }
        low
    }

    /// The same, of the partitions from `low` on.
    #[cold]
    fn find_among_equals(&self, mut low: usize, wanted: u32, key: &[u8]) -> usize {
        if self.front_coded {
            return self.find_front_coded(key);
        }
        let equals = self.heads().get(low..).unwrap_or_default();
        let wanted = wanted.to_le_bytes();
        let mut high = low + equals.partition_point(|&head| head == wanted);
        while low < high {
            let middle = low.midpoint(high);
            if self.rest(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The same, of all partitions, where separators are front-coded: of none more bytes are looked
    /// at than it has in common with the key.
    fn find_front_coded(&self, key: &[u8]) -> usize {
        // What the separator before has in common with the key, which is greater.
        let mut common = 0;
        for index in 0..self.len() {
            match self.front(index).cmp(&common) {
                // Greater than the one before where that is equal to the key.
                Ordering::Less => return index,
                // Equal to it where that is less than the key.
                Ordering::Greater => {}
                Ordering::Equal => {
                    let (rest, key) = (self.rest(index), key.get(common..).unwrap_or_default());
                    if rest >= key {
                        return index;
                    }
                    common += common_prefix(rest, key);
                }
            }
        }
        self.len()
    }

    /// The pages of a module of a partition.
    #[inline]
    pub(super) fn module(&self, index: usize, module: usize) -> Option<Range<u32>> {
        let modules = self.modules as usize;
        if index >= self.len() || module >= modules {
            return None;
        }
        let (starts, _, rows, _) = self.places();
        let in_row = |column| {
            let at = self.place_in_rows(index, column);
            self.rows.get(&self.bytes, rows, at)
        };
        let mut start = self.starts.get(&self.bytes, starts, index)? + in_row(0)?;
        for after in (module + 1)..modules {
            start += in_row(BEFORE_MODULES + after)?;
        }
        let pages = in_row(BEFORE_MODULES + module)?;
        Some(start..start + pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::coding::{put_bytes, put_varint};
    use crate::base::key::MAX_KEY_LEN;

    #[test]
    fn places_follow_from_page_counts() {
        let mut builder = TopIndexBuilder::default();
        builder.push(b"f", 10, 9, &[2, 3], 1);
        builder.push(b"m", 5, 5, &[1, 1], 2);
        let mut bytes = Vec::new();
        builder.encode(&mut bytes);
        let top = TopIndex::decode(&bytes, 2, 25).unwrap();
        assert_eq!(top.len(), 2);
        assert_eq!(top.module(0, 1), Some(10..13));
        assert_eq!(top.module(0, 0), Some(13..15));
        assert_eq!(top.get(0).unwrap().index(), 15..16);
        assert_eq!(top.get(1).unwrap().first_page, 16);
        assert_eq!(top.module(1, 0), Some(22..23));
        assert_eq!(top.get(1).unwrap().index(), 23..25);
        assert_eq!(top.module(1, 2), None);
        assert_eq!(top.module(2, 0), None);
        for (key, want) in [("", 0), ("f", 0), ("g", 1), ("m", 1), ("n", 2)] {
            assert_eq!(top.find(key.as_bytes()), want, "{key}");
        }
        assert!(TopIndex::decode(&bytes, 2, 24).is_err());
        assert!(TopIndex::decode(&bytes, 1, 25).is_err());
        assert!(TopIndex::decode(&bytes[..bytes.len() - 1], 2, 25).is_err());
    }

    #[test]
    fn a_partition_takes_eight_bytes_its_separator_and_what_others_have_not() {
        let memory = |data_pages: fn(u32) -> u32, blocks: fn(u32) -> u32| {
            let mut builder = TopIndexBuilder::default();
            let mut pages = 0;
            for number in 0..200u32 {
                let data_pages = data_pages(number);
                builder.push(
                    &number.to_be_bytes(),
                    data_pages,
                    blocks(data_pages),
                    &[1, 1, 1],
                    1,
                );
                pages += data_pages + 4;
            }
            let mut bytes = Vec::new();
            builder.encode(&mut bytes);
            let top = TopIndex::decode(&bytes, 3, pages).unwrap();
            let mut first_page = 0;
            for number in 0..200u32 {
                let partition = PartitionEntry {
                    first_page,
                    data_pages: data_pages(number),
                    blocks: blocks(data_pages(number)),
                    index_page: first_page + data_pages(number) + 3,
                    index_pages: 1,
                };
                assert_eq!(top.get(number as usize), Some(partition));
                first_page += partition.data_pages + 4;
            }
            assert_eq!(top.get(200), None);
            top.memory()
        };
        // Once what they all have, six numbers, and where the last ends.
        assert_eq!(memory(|_| 128, |pages| pages), 200 * (8 + 4) + 8);
        assert_eq!(
            memory(|number| 128 + number % 3, |pages| pages),
            200 * (9 + 4) + 8
        );
        assert_eq!(
            memory(|number| 128 + number % 3, |_| 100),
            200 * (10 + 4) + 8
        );
    }

    /// The index of a table whose partitions have a page of data and one of index and end at these
    /// keys.
    fn top_of(separators: &[impl AsRef<[u8]>]) -> TopIndex {
        let mut builder = TopIndexBuilder::default();
        for separator in separators {
            builder.push(separator.as_ref(), 1, 1, &[], 1);
        }
        let mut bytes = Vec::new();
        builder.encode(&mut bytes);
        let parsed = ParsedTop::of(&bytes, 0, 2 * separators.len() as u32).unwrap();
        let said = parsed.memory();
        let top = parsed.build();
        assert_eq!((top.memory(), top.bytes.len()), (said, said));
        let about = builder.len();
        assert!(
            said <= about + 16 + 4 * separators.len(),
            "{said} of {about}"
        );
        for (number, separator) in separators.iter().enumerate() {
            let mut found = b"before".to_vec();
            top.separator(number, &mut found);
            assert_eq!(found.strip_prefix(b"before"), Some(separator.as_ref()));
        }
        top
    }

    #[test]
    fn searches_agree_with_a_scan() {
        // Separators that share much, differ late, or are prefixes of each other.
        for shared in ["", "k", "a-long-prefix-", &"l".repeat(2000)] {
            let mut tails = vec![
                "",
                "\0",
                "a",
                "aaaaaaaa",
                "aaaaaaaab",
                "aaaaaaaac",
                "ab",
                "b",
            ];
            tails.extend(["b\0", "bbbbbbbbbbbb", "bbbbbbbbbbbbb", "c"]);
            let keys: Vec<String> = tails.iter().map(|tail| format!("{shared}{tail}")).collect();
            for some in 1..=keys.len() {
                let separators = &keys[keys.len() - some..];
                let top = top_of(separators);
                assert_eq!(top.front_coded, shared.len() == 2000 && some > 2);
                let others =
                    ["", "0", "a-long-prefix", "a-long-prefiy", "l", "zz"].map(String::from);
                for key in keys.iter().chain(&others) {
                    let want = separators.partition_point(|separator| separator < key);
                    assert_eq!(top.find(key.as_bytes()), want, "{key:?} in {separators:?}");
                }
            }
        }
    }

    #[test]
    fn long_separators_that_begin_alike_take_little_more_than_one() {
        let families = ["a", "b"].map(|family| family.repeat(65_000));
        let key = |number: usize| format!("{}{number:08}", families[number / 100]);
        let separators: Vec<String> = (0..200).map(key).collect();
        let top = top_of(&separators);
        assert!(top.memory() < 2 * 65_008 + 200 * 32, "{}", top.memory());
    }

    #[test]
    fn front_coded_searches_agree_with_a_scan() {
        // Three letters, so that much begins alike, after long beginnings of several lengths.
        let mut seed = 7u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for round in 0..300 {
            let mut key = || {
                let long = 500 + 300 * next(3) as usize;
                let tail: String = (0..next(9))
                    .map(|_| ['a', 'l', 'z'][next(3) as usize])
                    .collect();
                "l".repeat(long) + &tail
            };
            let mut keys: Vec<String> = (0..3 + round % 30).map(|_| key()).collect();
            let probes: Vec<String> = (0..50).map(|_| key()).collect();
            keys.sort();
            keys.dedup();
            let top = top_of(&keys);
            assert!(top.front_coded || keys.len() < 5);
            for probe in probes.iter().chain(&keys) {
                let want = keys.partition_point(|separator| separator < probe);
                assert_eq!(top.find(probe.as_bytes()), want);
            }
        }
    }

    #[test]
    fn what_is_not_in_order_or_longer_than_a_key_is_damage() {
        let encode = |separators: &[(u64, &[u8])]| {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, separators.len() as u64);
            for (shared, rest) in separators {
                put_varint(&mut bytes, *shared);
                put_bytes(&mut bytes, rest);
                bytes.extend_from_slice(&[1, 1, 1]);
            }
            bytes
        };
        let is_sound = |separators: &[(u64, &[u8])]| {
            let pages = 2 * separators.len() as u32;
            TopIndex::decode(&encode(separators), 0, pages).is_ok()
        };
        assert!(is_sound(&[(0, b"ab"), (1, b"c"), (2, b"d")]));
        assert!(is_sound(&[(0, b"")]));
        let long = vec![b'a'; MAX_KEY_LEN];
        assert!(is_sound(&[(0, &long)]));
        for bad in [
            [(1, b"a".as_slice()), (0, b"b")],
            [(0, b"b"), (0, b"a")],
            [(0, b"b"), (0, b"b")],
            [(0, b"b"), (1, b"")],
            [(0, b"b"), (2, b"b")],
            [(0, b"bb"), (1, b"bc")],
            [(0, &long), (MAX_KEY_LEN as u64, b"a")],
        ] {
            assert!(!is_sound(&bad), "{bad:?}");
        }
    }
}
