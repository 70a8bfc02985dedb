//! Index blocks: where each data block of a partition begins in the key space (docs/format.md,
//! "Index blocks").
//!
//! An index block of `n` data blocks holds `n - 1` separators, of user keys only: the last key of
//! block `i` is before separator `i`, which is at or before the first key of block `i + 1`. Where
//! versions of one key lie in both, it is that key with a byte 0 more. [`IndexBuilder`] is used as
//! `(push (separate push)* finish)*`; [`IndexBlock`] is a view that costs nothing to make.
//!
//! A separator is any key between two blocks. Of the encodings the builder takes the smaller: as
//! [`ints`] that order as the keys do ([`symbols`]), or [`front`]-coded. Integers take less where
//! keys are numbers, of which one is as likely as the other, and are searched quicker; of text they
//! take more, and of long keys they are none.

mod alphabetic;
mod bit_string;
mod builder;
mod code;
mod front;
mod front_builder;
mod groups;
mod key_bits;
mod pages;

use std::cmp::Ordering;
use std::ops::Range;

use super::format::Damage;
use crate::base::coding::{take, take_len, take_short_varint};
use crate::base::key::MAX_KEY_LEN;
use crate::base::key::common_prefix;
use crate::ordered::{Ints, Symbols};
pub(super) use builder::{Boundary, IndexBuilder};
use front::FrontCoded;
use pages::{BlockPages, Form};

const MALFORMED: Damage = Damage("an index block is malformed");

/// The flags: separators are integers; where blocks end is stored of all, or of those that are
/// longer than a page.
const INTEGERS: u8 = 1;
const ENDS: u8 = 2;
const LONGER: u8 = 4;

/// The bytes of the longest separator: a key, and a byte 0.
const LONGEST: usize = MAX_KEY_LEN + 1;

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

/// An index block's payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexBlock<'a> {
    blocks: u32,
    pages: BlockPages<'a>,
    prefix: &'a [u8],
    separators: Separators<'a>,
}

/// Separators, without what they have in common.
#[derive(Debug, Clone, Copy)]
enum Separators<'a> {
    Front(FrontCoded<'a>),
    Integers(Symbols<'a>, Ints<'a>),
}

impl<'a> IndexBlock<'a> {
    #[inline]
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Damage> {
        Self::parse_opt(payload).ok_or(MALFORMED)
    }

    /// Always inline: the compiler leaves the call standing otherwise, 1 % of a lookup.
    #[inline(always)]
    fn parse_opt(payload: &'a [u8]) -> Option<Self> {
        let (&flags, mut input) = payload.split_first()?;
        let blocks = u32::try_from(take_short_varint(&mut input)?).ok()?;
        let count = (blocks as usize).checked_sub(1)?;
        let form = match flags & (ENDS | LONGER) {
            0 => Form::One,
            ENDS => Form::Ends,
            LONGER => Form::Longer,
            _ => return None,
        };
        let pages = BlockPages::parse(&mut input, form, blocks as usize)?;
        let prefix = take_len(&mut input, LONGEST)?;
        let prefix = take(&mut input, prefix)?;
        let separators = if flags & INTEGERS != 0 && count > 0 {
            let symbols = Symbols::parse(&mut input)?;
            Separators::Integers(symbols, Ints::parse(input, count)?)
        } else {
            Separators::Front(FrontCoded::parse(input, count)?)
        };
        Some(IndexBlock {
            blocks,
            pages,
            prefix,
            separators,
        })
    }

    /// The number of data blocks; at least 1.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Appends separator `index` (below `blocks() - 1`) to `out`.
    pub(super) fn separator(&self, index: u32, out: &mut Vec<u8>) {
        let index = index as usize;
        match &self.separators {
            Separators::Front(front) => {
                out.extend_from_slice(self.prefix);
                front.separator(index, out);
            }
            Separators::Integers(symbols, ints) => {
                out.reserve(self.prefix.len() + symbols.places());
                out.extend_from_slice(self.prefix);
                symbols.separator(ints.get(index), out);
            }
        }
    }

    /// The block that would have `key`: as many separators are at or before it.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> u32 {
        let last = self.blocks - 1;
        let (head, rest) = key.split_at(key.len().min(self.prefix.len()));
        match head.cmp(self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return last,
            Ordering::Equal => {}
        }
        let found = match &self.separators {
            Separators::Front(front) => front.at_most(rest),
            Separators::Integers(symbols, ints) => ints.at_most(|from| symbols.integer(rest, from)),
        };
        last.min(found as u32)
    }

    /// The pages of a data block, counted from the partition's first.
    #[inline]
    pub(super) fn pages(&self, block: u32) -> Result<Range<u32>, Damage> {
        let known = (block < self.blocks)
            .then(|| self.pages.get(block))
            .flatten();
        known.ok_or(MALFORMED)
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

    /// Keys of few bytes, of some alphabet, so that they often begin alike.
    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let of = |symbols: &'static [u8], most: usize| {
            let byte = proptest::sample::select(symbols);
            let key = proptest::collection::vec(byte, 0..most);
            proptest::collection::vec(key, 1..300)
        };
        let bytes = proptest::collection::vec(any::<Vec<u8>>(), 1..60);
        let numbers = proptest::collection::vec(any::<u64>(), 1..300);
        let numbers =
            numbers.prop_map(|all| all.iter().map(|n| n.to_be_bytes().to_vec()).collect());
        let sequence = (any::<u32>(), 1u64..300).prop_map(|(from, count)| {
            let all = (0..count).map(|n| format!("user{:012}", u64::from(from) + n).into_bytes());
            all.collect()
        });
        let pair =
            |(user, at): (u8, u32)| [&[0, 0, user][..], &u64::from(at).to_be_bytes()].concat();
        let pairs = proptest::collection::vec((0u8..9, any::<u32>()), 1..300);
        let pairs = pairs.prop_map(move |all| all.into_iter().map(pair).collect());
        // Long ones that begin as another does.
        let step = (0usize..40, proptest::collection::vec(b'a'..b'e', 0..12));
        let paths = proptest::collection::vec(step, 1..200).prop_map(|all| {
            let mut path = b"usr/share/doc".to_vec();
            let all = all.into_iter().map(|(kept, name)| {
                path.truncate(kept.min(60));
                path.push(b'/');
                path.extend(name);
                path.clone()
            });
            all.collect()
        });
        prop_oneof![
            of(b"0123456789abcdef", 12),
            of(b"\0\x01\xfe\xff", 6),
            of(b"\0a", 20),
            bytes,
            numbers,
            sequence,
            pairs,
            paths,
        ]
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
        fn keys_are_found_in_their_blocks(
            prefix in bytes(),
            mut keys in keys(),
            cuts in proptest::collection::vec(0u32..4, 300),
            long in 0u32..20,
            probes in proptest::collection::vec(bytes(), 20),
        ) {
            keys.sort();
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| [&prefix[..], key].concat()).collect();
            let mut builder = IndexBuilder::default();
            let (mut page_ends, mut blocks) = (Vec::new(), vec![0u32]);
            let push = |builder: &mut IndexBuilder, ends: &mut Vec<u32>| {
                let pages = if ends.len() as u32 % 20 < long { 2 } else { 1 };
                builder.push(pages);
                ends.push(ends.last().unwrap_or(&0) + pages);
            };
            push(&mut builder, &mut page_ends);
            for (pair, cut) in keys.windows(2).zip(&cuts) {
                if *cut == 0 {
                    let mut boundary = Boundary::default();
                    boundary.set(&pair[0], &pair[1]);
                    builder.separate(&boundary);
                    push(&mut builder, &mut page_ends);
                }
                blocks.push(page_ends.len() as u32 - 1);
            }
            builder.is_longer_than(0);
            let mut payload = Vec::new();
            builder.finish(&mut payload);
            prop_assert_eq!(payload.capacity(), payload.len());
            prop_assert_eq!(builder.blocks(), 0);
            let index = IndexBlock::parse(&payload).unwrap();
            prop_assert_eq!(index.blocks() as usize, page_ends.len());
            let separators: Vec<Vec<u8>> = (1..page_ends.len() as u32).map(|number| {
                let mut out = Vec::new();
                index.separator(number - 1, &mut out);
                out
            }).collect();
            prop_assert!(separators.is_sorted());
            for (number, (key, &block)) in keys.iter().zip(&blocks).enumerate() {
                // The first block of several that have a key; entries go on in those after.
                let same = keys[..number].iter().position(|before| before == key);
                let block = same.map_or(block, |same| blocks[same]);
                prop_assert_eq!(index.find(key), block, "{:?}", key);
            }
            let mut start = 0;
            for (i, end) in page_ends.iter().enumerate() {
                prop_assert_eq!(index.pages(i as u32), Ok(start..*end));
                start = *end;
            }
            prop_assert!(index.pages(page_ends.len() as u32).is_err());
            let near = keys.iter().flat_map(|key| {
                let (mut more, mut less) = (key.clone(), key.clone());
                more.push(0);
                less.pop();
                [more, less]
            });
            let inside = probes.iter().map(|p| [prefix.as_slice(), p].concat());
            let all = inside.chain(probes.iter().cloned()).chain(near).chain(separators.clone());
            for probe in all {
                let want = separators.partition_point(|separator| *separator <= probe);
                prop_assert_eq!(index.find(&probe) as usize, want, "{:?}", probe);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in any::<Vec<u8>>(),
            encoding in proptest::sample::select(vec![0, INTEGERS, ENDS, LONGER]),
            key in any::<Vec<u8>>(),
        ) {
            let flags = [encoding, 40, 0];
            for bytes in [bytes.clone(), [&flags[..], &bytes].concat()] {
                if let Ok(index) = IndexBlock::parse(&bytes) {
                    let at = index.find(&key);
                    prop_assert!(at < index.blocks());
                    let _ = index.pages(at);
                    index.separator(at.saturating_sub(1), &mut Vec::new());
                }
            }
        }
    }

    /// The bytes of index for each block, of blocks of so many of these keys.
    fn bytes_a_block(keys: &[Vec<u8>], each: usize) -> f64 {
        let mut builder = IndexBuilder::default();
        let mut boundary = Boundary::default();
        let blocks: Vec<&[Vec<u8>]> = keys.chunks(each).collect();
        builder.push(1);
        for pair in blocks.windows(2) {
            boundary.set(&pair[0][each - 1], &pair[1][0]);
            builder.separate(&boundary);
            builder.push(1);
        }
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        payload.len() as f64 / blocks.len() as f64
    }

    #[test]
    fn versions_of_the_longest_keys_lie_in_several_blocks() {
        let longest = |last| [&[b'k'; MAX_KEY_LEN - 1][..], &[last]].concat();
        for keys in [
            vec![longest(b'a'); 3],
            vec![b"a".to_vec(), longest(b'a'), longest(b'a'), longest(b'b')],
            vec![longest(0xff), longest(0xff)],
        ] {
            let mut builder = IndexBuilder::default();
            let mut boundary = Boundary::default();
            builder.push(17);
            for pair in keys.windows(2) {
                boundary.set(&pair[0], &pair[1]);
                builder.separate(&boundary);
                builder.push(17);
            }
            let mut payload = Vec::new();
            builder.finish(&mut payload);
            let index = IndexBlock::parse(&payload).unwrap();
            for key in &keys {
                let first = keys.iter().position(|other| other == key);
                assert_eq!(Some(index.find(key) as usize), first);
            }
            let mut after = Vec::new();
            index.separator(index.blocks() - 2, &mut after);
            assert!(after > keys[keys.len() - 2]);
        }
    }

    #[test]
    fn indexes_are_small() {
        let mut random = 7u64;
        let mut next = || {
            random = random
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            random ^ random >> 29
        };
        let numbers: Vec<[u64; 2]> = (0..8000).map(|_| [next(), next()]).collect();
        let numbers = || numbers.iter().copied();
        // A partition of the middle of many keys: they begin alike.
        let hex = numbers().map(|[a, _]| format!("7a{a:030x}").into_bytes());
        let spread = numbers().map(|[a, b]| format!("7a{a:016x}{b:014x}").into_bytes());
        let random = numbers().map(|[a, _]| (a >> 8 | 7 << 56).to_be_bytes().to_vec());
        let sequence = (0..8000u64).map(|n| (1_000_000 + n).to_be_bytes().to_vec());
        let pairs = numbers().map(|[a, b]| {
            let (user, time) = (a % 700, 1_700_000_000 + b % 30_000_000);
            [(90_000 + user).to_be_bytes(), time.to_be_bytes()].concat()
        });
        // As long as in a file system, and alike for long.
        let word = |number: u64| {
            let digits = number.to_string().into_bytes().into_iter();
            let names = [
                "zero", "one", "two", "three", "four", "five", "six", "seven", "eight",
            ];
            let names = digits.map(|digit| names.get(usize::from(digit - b'0')).unwrap_or(&"nine"));
            names.copied().collect::<String>()
        };
        let paths = numbers().map(|[a, b]| {
            let (package, folder, file) = (word(a % 300), word(a % 7), word(b % 5000));
            format!("usr/share/{package}/{folder}/{file}").into_bytes()
        });
        let words = numbers().map(|[a, b]| {
            let letter =
                |at: u32| b"etaoinshrdlucmfw"[(a >> (4 * at) & b >> (4 * at) & 15) as usize];
            (0..9).map(letter).collect::<Vec<u8>>()
        });
        for (name, keys, most) in [
            ("hexadecimal", spread.collect::<Vec<Vec<u8>>>(), 1.7),
            ("hexadecimal with zeros", hex.collect(), 1.7),
            ("integers", random.collect(), 1.6),
            ("a sequence", sequence.collect(), 1.2),
            ("users and times", pairs.collect(), 2.2),
            ("words", words.collect(), 2.5),
            ("paths", paths.collect(), 8.0),
        ] {
            let mut keys = keys;
            keys.sort();
            let bytes = bytes_a_block(&keys, 62);
            assert!(bytes <= most, "{name}: {bytes}");
        }
    }
}
