//! The top-level index: where each partition of a table lies (docs/format.md, "Top-level index").
//! Resident while the table is open; immutable.

use std::cmp::Ordering;
use std::ops::Range;

use super::block::common_prefix;
use super::format::Damage;
use super::packed_ints::PackedInts;
use crate::base::coding::{put_bytes, put_varint, take_bytes, take_len, take_varint};
use crate::base::key::prefix;
use crate::filter::MAX_MODULES;

const BAD: Damage = Damage("the top-level index is malformed");

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
    /// Pages of the index block.
    pub(super) index_pages: u32,
}

/// The partitions of a table and the separators between them: one piece of memory, since files are
/// many and stay open. It holds, one after the other,
/// - heads: the first four bytes of what follows the shared ones in each separator. A search looks
///   at separators themselves only among those whose head equals the key's;
/// - starts: the first page of each partition;
/// - ends: where each separator ends;
/// - the row of the first partition: its pages of data, how many of these begin no block, pages of
///   the index block and of each module;
/// - of each partition those of these numbers that are not the same in all: mostly only the first;
/// - separators.
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
}

/// Bytes of a head.
const HEAD: usize = size_of::<u32>();

/// Numbers of a row before those of the modules.
const BEFORE_MODULES: usize = 3;

/// A row's columns have a bit each.
const _: () = assert!(BEFORE_MODULES + MAX_MODULES <= u32::BITS as usize);

/// The first four bytes as a number that orders as they do.
fn head_of(bytes: &[u8]) -> u32 {
    (prefix(bytes) >> 32) as u32
}

/// Collects the top-level index while a table is written.
#[derive(Debug, Default)]
pub(super) struct TopIndexBuilder {
    bytes: Vec<u8>,
    count: u64,
}

impl TopIndexBuilder {
    /// Adds a partition: its last separator, and the pages of its parts in the order in which they
    /// follow the previous partition.
    pub(super) fn push(
        &mut self,
        separator: &[u8],
        data_pages: u32,
        blocks: u32,
        module_pages: &[u32],
        index_pages: u32,
    ) {
        put_bytes(&mut self.bytes, separator);
        put_varint(&mut self.bytes, u64::from(data_pages));
        put_varint(&mut self.bytes, u64::from(blocks));
        for pages in module_pages {
            put_varint(&mut self.bytes, u64::from(*pages));
        }
        put_varint(&mut self.bytes, u64::from(index_pages));
        self.count += 1;
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.count);
        out.extend_from_slice(&self.bytes);
    }
}

impl TopIndex {
    /// Reads the index of a table with `modules` filter modules whose partitions take exactly
    /// `pages` pages.
    pub(super) fn decode(mut input: &[u8], modules: usize, pages: u32) -> Result<Self, Damage> {
        let input = &mut input;
        let columns = BEFORE_MODULES + modules;
        // Each partition takes a byte for its separator and one for each number, at least, so that
        // no count can ask for much memory.
        let count = take_len(input, input.len() / (1 + columns)).ok_or(BAD)?;
        let mut rows = Vec::with_capacity(count * columns);
        let (mut starts, mut ends) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut separators: Vec<u8> = Vec::new();
        let mut next = 0u32;
        let mut last_start = 0;
        for i in 0..count {
            let separator = take_bytes(input).ok_or(BAD)?;
            if i > 0 && separators.get(last_start..).unwrap_or_default() >= separator {
                return Err(BAD);
            }
            last_start = separators.len();
            separators.extend_from_slice(separator);
            ends.push(u32::try_from(separators.len()).map_err(|_| BAD)?);
            starts.push(next);
            let row = rows.len();
            for _ in 0..columns {
                let number = take_varint(input).and_then(|n| u32::try_from(n).ok());
                rows.push(number.filter(|n| *n > 0).ok_or(BAD)?);
            }
            let row = rows.get_mut(row..).unwrap_or_default();
            // Written behind the modules.
            row.get_mut(2..).unwrap_or_default().rotate_right(1);
            let [data_pages, blocks, rest @ ..] = row else {
                return Err(BAD);
            };
            *blocks = data_pages.checked_sub(*blocks).ok_or(BAD)?;
            for pages in std::iter::once(data_pages).chain(rest) {
                next = next.checked_add(*pages).ok_or(BAD)?;
            }
        }
        if next != pages || !input.is_empty() {
            return Err(BAD);
        }
        // They are in order, so what the first and the last have in common all have.
        let last = separators.get(last_start..).unwrap_or_default();
        let first = ends.first().and_then(|end| separators.get(..*end as usize));
        let shared = common_prefix(first.unwrap_or_default(), last);
        let (first, others) = rows.split_at(rows.len().min(columns));
        let varies = |column: &usize| {
            let mut numbers = others.iter().skip(*column).step_by(columns);
            numbers.any(|number| first.get(*column) != Some(number))
        };
        let varying: Vec<usize> = (0..columns).filter(varies).collect();
        let numbers = rows.chunks(columns);
        let numbers = numbers.flat_map(|row| varying.iter().filter_map(|&at| row.get(at).copied()));
        let rows: Vec<u32> = first.iter().copied().chain(numbers).collect();
        let mut top = TopIndex {
            bytes: Box::default(),
            partitions: count as u32,
            shared: shared as u32,
            modules: modules as u16,
            starts: PackedInts::of(&starts),
            ends: PackedInts::of(&ends),
            rows: PackedInts::of(&rows),
            varying: varying.iter().fold(0, |set, &column| set | 1 << column),
        };
        let mut bytes = Vec::with_capacity(top.places().3 + separators.len());
        let mut start = 0;
        for end in &ends {
            let separator = separators.get(start..*end as usize).unwrap_or_default();
            let rest = separator.get(shared..).unwrap_or_default();
            bytes.extend_from_slice(&head_of(rest).to_le_bytes());
            start = *end as usize;
        }
        top.starts.put(&mut bytes, &starts);
        top.ends.put(&mut bytes, &ends);
        top.rows.put(&mut bytes, &rows);
        bytes.extend_from_slice(&separators);
        top.bytes = bytes.into_boxed_slice();
        Ok(top)
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
        let ends = starts + self.starts.bytes(self.len());
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
        let (bit, varying) = (1 << column, self.varying);
        let at = match varying & bit {
            0 => column,
            _ => {
                let before = varying & (bit - 1);
                self.columns()
                    + (index * varying.count_ones() as usize)
                    + before.count_ones() as usize
            }
        };
        self.rows.get(&self.bytes, self.places().2, at)
    }

    /// A partition.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<PartitionEntry> {
        let data_pages = self.in_row(index, 0)?;
        Some(PartitionEntry {
            first_page: self.start(index)?,
            data_pages,
            blocks: data_pages.checked_sub(self.in_row(index, 1)?)?,
            index_pages: self.in_row(index, 2)?,
        })
    }

    /// No key of the partition is greater; every key of the next is.
    #[inline]
    pub(super) fn separator(&self, index: usize) -> &[u8] {
        let (_, ends, _, separators) = self.places();
        let end = |index| match index < self.len() {
            true => self.ends.get(&self.bytes, ends, index),
            false => None,
        };
        let start = index.checked_sub(1).and_then(end).unwrap_or(0);
        let end = end(index).unwrap_or(start);
        self.bytes
            .get(separators + start as usize..separators + end as usize)
            .unwrap_or_default()
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
        let equals = self.heads().get(low..).unwrap_or_default();
        let wanted = wanted.to_le_bytes();
        let mut high = low + equals.partition_point(|&head| head == wanted);
        while low < high {
            let middle = low.midpoint(high);
            if self.separator(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The pages of a module of a partition.
    #[inline]
    pub(super) fn module(&self, index: usize, module: usize) -> Option<Range<u32>> {
        let modules = self.modules as usize;
        let pages_of = |module| self.in_row(index, BEFORE_MODULES + module);
        let mut start = self.start(index)? + self.in_row(index, 0)?;
        for after in (module + 1)..modules {
            start += pages_of(after)?;
        }
        let pages = pages_of(module).filter(|_| module < modules)?;
        Some(start..start + pages)
    }

    /// The first page of a partition's index block.
    #[inline]
    pub(super) fn index_page(&self, index: usize) -> Option<u32> {
        match self.modules {
            0 => Some(self.start(index)? + self.in_row(index, 0)?),
            _ => self.module(index, 0).map(|pages| pages.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(top.index_page(0), Some(15));
        assert_eq!(top.get(1).unwrap().first_page, 16);
        assert_eq!(top.module(1, 0), Some(22..23));
        assert_eq!(top.index_page(1), Some(23));
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
                    index_pages: 1,
                };
                assert_eq!(top.get(number as usize), Some(partition));
                first_page += partition.data_pages + 4;
                assert_eq!(top.index_page(number as usize), Some(first_page - 1));
            }
            assert_eq!(top.get(200), None);
            top.memory()
        };
        // Once what they all have: six numbers.
        assert_eq!(memory(|_| 128, |pages| pages), 200 * (8 + 4) + 6);
        assert_eq!(
            memory(|number| 128 + number % 3, |pages| pages),
            200 * (9 + 4) + 6
        );
        assert_eq!(
            memory(|number| 128 + number % 3, |_| 100),
            200 * (10 + 4) + 6
        );
    }

    #[test]
    fn searches_agree_with_a_scan() {
        // Separators that share much, differ late, or are prefixes of each other.
        for shared in ["", "k", "a-long-prefix-"] {
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
                let mut builder = TopIndexBuilder::default();
                let separators = &keys[keys.len() - some..];
                for separator in separators {
                    builder.push(separator.as_bytes(), 1, 1, &[], 1);
                }
                let mut bytes = Vec::new();
                builder.encode(&mut bytes);
                let top = TopIndex::decode(&bytes, 0, 2 * some as u32).unwrap();
                let others = ["", "0", "a-long-prefix", "a-long-prefiy", "zz"].map(String::from);
                for key in keys.iter().chain(&others) {
                    let want = separators.partition_point(|separator| separator < key);
                    assert_eq!(top.find(key.as_bytes()), want, "{key:?} in {separators:?}");
                }
            }
        }
    }
}
