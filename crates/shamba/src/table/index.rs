//! Index blocks: where each data block of a partition ends in the key space (docs/format.md,
//! "Index blocks").
//!
//! An index block of `n` data blocks holds `n - 1` separators, of user keys only: the last key of
//! block `i` is at most separator `i`, which is at most the first key of block `i + 1`, and equal
//! to it only when versions of one key lie in both. [`IndexBuilder`] is used as
//! `(push (separate push)* finish)*`; [`IndexBlock`] is a view that costs nothing to make.

use std::cmp::Ordering;
use std::ops::Range;

use super::block::common_prefix;
use super::format::Damage;
use crate::base::coding::{take, take_u32};
use crate::base::key::prefix;

const MALFORMED: Damage = Damage("an index block is malformed");
const WIDE: u8 = 1;
const PAGES: u8 = 2;
/// Flags, number of data blocks, length of the common prefix.
const HEADER: usize = 1 + 4 + 2;

/// Writes the shortest key `s` with `a <= s < b` to `out`; for `a == b`, that key.
pub(super) fn separator(a: &[u8], b: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let common = common_prefix(a, b);
    if let (Some(_), Some(&after)) = (a.get(common), b.get(common)) {
        if b.len() > common + 1 {
            out.extend_from_slice(b.get(..=common).unwrap_or(a));
            return;
        }
        // `b` ends at the byte that differs: stay below it by raising a byte of `a`.
        for (at, &byte) in a.iter().enumerate().skip(common) {
            let room = if at == common {
                byte + 1 < after
            } else {
                byte < u8::MAX
            };
            if room {
                out.extend_from_slice(a.get(..at).unwrap_or_default());
                out.push(byte + 1);
                return;
            }
        }
    }
    out.extend_from_slice(a);
}

/// Builds index blocks. What all separators have in common is kept once.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    /// What all separators begin with.
    prefix: Vec<u8>,
    /// What follows in each.
    suffixes: Vec<u8>,
    /// Where each suffix ends.
    ends: Vec<u32>,
    /// Where each data block ends, in pages from the first.
    page_ends: Vec<u32>,
}

impl IndexBuilder {
    /// Adds a data block.
    pub(super) fn push(&mut self, pages: u32) {
        let start = self.page_ends.last().copied().unwrap_or(0);
        self.page_ends.push(start + pages);
    }

    /// Adds the separator between the last data block and the next.
    pub(super) fn separate(&mut self, separator: &[u8]) {
        if self.ends.is_empty() {
            self.prefix.extend_from_slice(separator);
        }
        let shared = common_prefix(&self.prefix, separator);
        if shared < self.prefix.len() {
            self.shorten_prefix(shared);
        }
        let suffix = separator.get(shared..).unwrap_or_default();
        self.suffixes.extend_from_slice(suffix);
        self.ends.push(self.suffixes.len() as u32);
    }

    /// Leaves so many bytes of the prefix; the others go to each suffix.
    fn shorten_prefix(&mut self, len: usize) {
        let moved = self.prefix.split_off(len);
        let all = self.suffixes.len() + self.ends.len() * moved.len();
        let mut suffixes = Vec::with_capacity(all);
        let (mut start, mut added) = (0, 0);
        for end in &mut self.ends {
            let suffix = self.suffixes.get(start..*end as usize);
            suffixes.extend_from_slice(&moved);
            suffixes.extend_from_slice(suffix.unwrap_or_default());
            start = *end as usize;
            added += moved.len() as u32;
            *end += added;
        }
        self.suffixes = suffixes;
    }

    /// Whether separators would take more than that, apart from what they have in common, with one
    /// more that begins as `key` does up to where it differs from them.
    pub(super) fn would_pass(&self, most: usize, key: &[u8]) -> bool {
        let with = |lost: usize| self.suffixes.len() + lost * self.ends.len();
        with(self.prefix.len()) > most
            && with(self.prefix.len() - common_prefix(&self.prefix, key)) > most
    }

    /// Data blocks so far.
    pub(super) fn blocks(&self) -> u32 {
        self.page_ends.len() as u32
    }

    /// Pages of the data blocks so far.
    pub(super) fn pages(&self) -> u32 {
        self.page_ends.last().copied().unwrap_or(0)
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        let bytes = self.prefix.capacity() + self.suffixes.capacity();
        bytes + 4 * (self.ends.capacity() + self.page_ends.capacity())
    }

    fn has_pages(&self) -> bool {
        self.pages() != self.blocks()
    }

    /// Whether ends of suffixes take four bytes.
    fn is_wide(&self) -> bool {
        self.suffixes.len() > usize::from(u16::MAX)
    }

    /// The payload's length if it were finished now.
    pub(super) fn len(&self) -> usize {
        let width = if self.is_wide() { 4 } else { 2 };
        let pages = if self.has_pages() {
            4 * self.page_ends.len()
        } else {
            0
        };
        HEADER + self.prefix.len() + self.suffixes.len() + self.ends.len() * width + pages
    }

    /// Whether the payload would be longer than that; at least half of it that separators do not
    /// share, where what they share is long: otherwise each index would have that and few
    /// separators.
    pub(super) fn is_longer_than(&self, most: usize) -> bool {
        self.len() > most.max(self.prefix.len() + most / 2)
    }

    /// Completes the payload and leaves the builder empty.
    pub(super) fn finish(&mut self, payload: &mut Vec<u8>) {
        payload.clear();
        payload.reserve_exact(self.len());
        let (wide, has_pages) = (self.is_wide(), self.has_pages());
        payload.push((u8::from(wide) * WIDE) | (u8::from(has_pages) * PAGES));
        payload.extend_from_slice(&self.blocks().to_le_bytes());
        payload.extend_from_slice(&(self.prefix.len() as u16).to_le_bytes());
        if has_pages {
            for end in &self.page_ends {
                payload.extend_from_slice(&end.to_le_bytes());
            }
        }
        payload.extend_from_slice(&self.prefix);
        for end in &self.ends {
            if wide {
                payload.extend_from_slice(&end.to_le_bytes());
            } else {
                payload.extend_from_slice(&(*end as u16).to_le_bytes());
            }
        }
        payload.extend_from_slice(&self.suffixes);
        self.prefix.clear();
        self.suffixes.clear();
        self.ends.clear();
        self.page_ends.clear();
    }
}

/// An index block's payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexBlock<'a> {
    blocks: u32,
    prefix: &'a [u8],
    page_ends: Option<&'a [[u8; 4]]>,
    ends: Ends<'a>,
    suffixes: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
enum Ends<'a> {
    Narrow(&'a [[u8; 2]]),
    Wide(&'a [[u8; 4]]),
}

impl Ends<'_> {
    #[inline]
    fn get(&self, index: usize) -> usize {
        match self {
            Ends::Narrow(ends) => ends
                .get(index)
                .map_or(0, |end| usize::from(u16::from_le_bytes(*end))),
            Ends::Wide(ends) => ends
                .get(index)
                .map_or(0, |end| u32::from_le_bytes(*end) as usize),
        }
    }
}

impl<'a> IndexBlock<'a> {
    #[inline]
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Damage> {
        Self::parse_opt(payload).ok_or(MALFORMED)
    }

    #[inline]
    fn parse_opt(payload: &'a [u8]) -> Option<Self> {
        let (&flags, mut input) = payload.split_first()?;
        let blocks = take_u32(&mut input)?;
        let count = (blocks as usize).checked_sub(1)?;
        let (prefix_len, rest) = input.split_first_chunk::<2>()?;
        input = rest;
        let page_ends = if flags & PAGES != 0 {
            Some(
                take(&mut input, (blocks as usize).checked_mul(4)?)?
                    .as_chunks::<4>()
                    .0,
            )
        } else {
            None
        };
        let prefix = take(&mut input, usize::from(u16::from_le_bytes(*prefix_len)))?;
        let ends = if flags & WIDE != 0 {
            Ends::Wide(take(&mut input, count.checked_mul(4)?)?.as_chunks::<4>().0)
        } else {
            Ends::Narrow(take(&mut input, count.checked_mul(2)?)?.as_chunks::<2>().0)
        };
        Some(IndexBlock {
            blocks,
            prefix,
            page_ends,
            ends,
            suffixes: input,
        })
    }

    /// The number of data blocks; at least 1.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    #[inline]
    fn suffix(&self, index: usize) -> &'a [u8] {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before),
            None => 0,
        };
        self.suffixes
            .get(start..self.ends.get(index))
            .unwrap_or_default()
    }

    /// Appends separator `index` (below `blocks() - 1`) to `out`.
    pub(super) fn separator(&self, index: u32, out: &mut Vec<u8>) {
        let suffix = self.suffix(index as usize);
        out.reserve(self.prefix.len() + suffix.len());
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(suffix);
    }

    /// The first data block whose separator is at or after `key`; the last block if none is.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> u32 {
        let last = self.blocks - 1;
        let (head, rest) = key.split_at(key.len().min(self.prefix.len()));
        match head.cmp(self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return last,
            Ordering::Equal => {}
        }
        let wanted = prefix(rest);
        let (mut low, mut high) = (0, last as usize);
        while low < high {
            let middle = low.midpoint(high);
            if self.is_before(middle, rest, wanted) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low as u32
    }

    /// Whether a suffix is before another byte string, whose prefix is `wanted`.
    #[inline]
    fn is_before(&self, index: usize, other: &[u8], wanted: u64) -> bool {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before),
            None => 0,
        };
        let bits = 8 * self.ends.get(index).saturating_sub(start).min(8) as u32;
        // Suffixes are short, and lie one after another: eight bytes from where one starts have its
        // own and others', which go.
        let own = self.suffixes.get(start..).and_then(<[u8]>::first_chunk);
        let own = own.map(|bytes| u64::from_be_bytes(*bytes) & !u64::MAX.unbounded_shr(bits));
        match own {
            Some(own) if own != wanted => own < wanted,
            _ => self.suffix(index) < other,
        }
    }

    /// The pages of a data block, counted from the partition's first.
    #[inline]
    pub(super) fn pages(&self, block: u32) -> Result<Range<u32>, Damage> {
        if block >= self.blocks {
            return Err(MALFORMED);
        }
        let Some(ends) = self.page_ends else {
            return Ok(block..block + 1);
        };
        let end = |i: usize| ends.get(i).map(|end| u32::from_le_bytes(*end));
        let start = match (block as usize).checked_sub(1) {
            Some(before) => end(before),
            None => Some(0),
        };
        match (start, end(block as usize)) {
            (Some(start), Some(end)) if start < end => Ok(start..end),
            _ => Err(MALFORMED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn separator_of(a: &[u8], b: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        separator(a, b, &mut out);
        out
    }

    #[test]
    fn separators_are_short() {
        for (a, b, want) in [
            ("apple", "banana", "b"),
            ("apple", "applf", "apple"),
            ("apple1", "applf", "apple2"),
            ("abc", "abcde", "abc"),
            ("abc", "abd", "abc"),
            ("abc5", "abd", "abc6"),
            ("a", "c", "b"),
            ("k", "k", "k"),
            ("", "a", ""),
            ("", "ab", ""),
        ] {
            let got = separator_of(a.as_bytes(), b.as_bytes());
            assert_eq!(got, want.as_bytes(), "{a} {b}");
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(2), Just(254), Just(255)];
        proptest::collection::vec(byte, 0..6)
    }

    proptest! {
        #[test]
        fn separators_separate(a in bytes(), b in bytes()) {
            let (a, b) = if a <= b { (a, b) } else { (b, a) };
            let s = separator_of(&a, &b);
            prop_assert!(a <= s);
            prop_assert!(s < b || a == b);
            prop_assert!(s.len() <= a.len().max(1));
        }

        #[test]
        fn finds_as_a_sorted_list_does(
            prefix in bytes(),
            keys in proptest::collection::btree_set(bytes(), 0..40),
            multi: bool,
            probes in proptest::collection::vec(bytes(), 20),
        ) {
            let keys = keys.into_iter().map(|k| [prefix.as_slice(), &k].concat());
            let keys: Vec<Vec<u8>> = keys.collect();
            let mut builder = IndexBuilder::default();
            let mut page_ends = Vec::new();
            for i in 0..=keys.len() {
                let pages = if multi { 1 + i as u32 % 3 } else { 1 };
                builder.push(pages);
                page_ends.push(page_ends.last().unwrap_or(&0) + pages);
                if let Some(key) = keys.get(i) {
                    builder.separate(key);
                }
            }
            let len = builder.len();
            let mut payload = Vec::new();
            builder.finish(&mut payload);
            prop_assert_eq!(payload.len(), len);
            prop_assert_eq!(builder.blocks(), 0);
            let index = IndexBlock::parse(&payload).unwrap();
            prop_assert_eq!(index.blocks() as usize, keys.len() + 1);
            for (i, key) in keys.iter().enumerate() {
                let mut got = Vec::new();
                index.separator(i as u32, &mut got);
                prop_assert_eq!(&got, key);
            }
            let mut start = 0;
            for (i, end) in page_ends.into_iter().enumerate() {
                prop_assert_eq!(index.pages(i as u32), Ok(start..end));
                start = end;
            }
            prop_assert!(index.pages(keys.len() as u32 + 1).is_err());
            let inside = probes.iter().map(|p| [prefix.as_slice(), p].concat());
            for probe in inside.chain(probes.iter().cloned()).chain(keys.iter().cloned()) {
                let want = keys.partition_point(|key| *key < probe);
                prop_assert_eq!(index.find(&probe) as usize, want);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in any::<Vec<u8>>(), key in any::<Vec<u8>>()) {
            if let Ok(index) = IndexBlock::parse(&bytes) {
                let at = index.find(&key);
                let _ = index.pages(at);
            }
        }
    }
}
