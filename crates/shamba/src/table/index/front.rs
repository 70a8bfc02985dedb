//! Separators as bit strings that order as they do ([`super::code`]), front-coded: of each only
//! what it does not share with the one before. For those that are no integers of 64 bits, such as
//! paths, or take less so (docs/format.md, "Front-coded separators").
//!
//! They are a tree of groups. The first separator of each group is in the group above, where it
//! stands after that of the group before; so none is stored whole.

use std::cmp::Ordering;

use super::LONGEST;
use super::bit_string::{BitString, head, high_ones, word};
use super::code::{Code, CodeBytes, CodeForm, MOST_LEN};
use super::groups::{GROUP, GROUP_BITS, NextSeparator, SeparatorGroup, SeparatorGroups};
use super::key_bits::{KeyBits, SEEN};
use crate::ordered::bits;

/// A byte has the form of the code in the lowest bits, and from this one on how wide numbers are
/// of where groups begin.
pub(super) const START_WIDTH: u32 = 2;

/// The bits of the longest separator.
const MOST_BITS: usize = LONGEST * MOST_LEN as usize;

/// Separators, without what all have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrontCoded<'a> {
    count: usize,
    /// None where all are what they have in common.
    code: Option<Code<'a>>,
    /// The bits of where a group begins.
    start_width: u32,
    /// Where groups begin, and all groups.
    bits: &'a [u8],
}

impl<'a> FrontCoded<'a> {
    /// So many separators.
    #[inline]
    pub(super) fn parse(mut input: &'a [u8], count: usize) -> Option<Self> {
        let Some((&[first, last, flags], rest)) = input.split_first_chunk::<3>() else {
            let none = FrontCoded {
                count,
                code: None,
                start_width: 0,
                bits: &[],
            };
            return input.is_empty().then_some(none);
        };
        input = rest;
        let form = CodeForm::of(flags & bits::ones(START_WIDTH) as u8)?;
        let code = Code::parse(&mut input, [first, last], form)?;
        Some(FrontCoded {
            count,
            code: Some(code),
            start_width: (flags >> START_WIDTH).into(),
            bits: input,
        })
    }

    #[inline]
    fn groups(&self) -> SeparatorGroups<'a> {
        SeparatorGroups::new(self.bits, self.count, self.start_width)
    }

    /// How many of the separators are at or before a key without what they have in common.
    #[inline]
    pub(super) fn at_most(&self, rest: &[u8]) -> usize {
        let Some(code) = &self.code else {
            return self.count;
        };
        let words = code.words();
        let mut search = BitSearch::new(self.bits, KeyBits::new(rest, &words));
        let mut groups = self.groups();
        let Some(mut index) = search.pass(groups.top()).checked_sub(1) else {
            return 0;
        };
        while let Some(group) = groups.below(index) {
            index = (index << GROUP_BITS) + search.pass(group);
        }
        index + 1
    }

    /// Appends a separator to `out`.
    pub(super) fn separator(&self, index: usize, out: &mut Vec<u8>) {
        let Some(code) = &self.code else { return };
        let from = out.len();
        let mut bits = BitString::after(out);
        let mut groups = self.groups();
        let mut group = groups.top();
        let mut wanted = index / groups.step() + 1;
        loop {
            // What it shares with those before it follows from them, from the first on.
            for _ in 0..wanted {
                if let NextSeparator::Differs { shared, len } = group.next()
                    && shared <= MOST_BITS
                {
                    bits.resize(shared);
                    bits.push(u64::MAX, 1);
                    if let Some(stored) = len.checked_sub(1) {
                        bits.copy(self.bits, group.rest, stored.min(group.left()));
                        bits.push(u64::MAX, 1);
                    }
                    group.skip(len);
                }
            }
            let Some(below) = groups.below(index / groups.step()) else {
                break;
            };
            group = below;
            wanted = index / groups.step() % GROUP;
        }
        // The least key that has these bits or greater ones; then the bits are taken out.
        let (len, words) = (bits.len(), code.words());
        let bytes = CodeBytes::of(&words);
        let end = from + len.div_ceil(8);
        let mut at = 0;
        while at < len && out.len() - end <= LONGEST {
            let bits = word(out.get(from..end).unwrap_or_default(), at);
            let Some((byte, word)) = bytes.byte(bits) else {
                break;
            };
            out.push(byte);
            at += word.len().max(1) as usize;
        }
        out.drain(from..end);
    }
}

/// A search for a key.
struct BitSearch<'a, 'k> {
    bits: &'a [u8],
    /// How many bits the key has in common with the last separator that is not after it; all, if
    /// they are the same.
    common: usize,
    /// The key after these.
    key: KeyBits<'k>,
}

impl<'a, 'k> BitSearch<'a, 'k> {
    /// Before any separator stands one of zeros.
    #[inline]
    fn new(bits: &'a [u8], key: KeyBits<'k>) -> Self {
        let common = 0;
        let mut search = BitSearch { bits, common, key };
        search.reach(0, 0, 0);
        search
    }

    /// Passes the separators of a group that are not after the key: how many these are.
    #[inline]
    fn pass(&mut self, mut group: SeparatorGroup<'a>) -> usize {
        for number in 0..group.count {
            let NextSeparator::Differs { shared, len } = group.next() else {
                continue;
            };
            match shared.cmp(&self.common) {
                // It has a one where the one before and the key have a zero.
                Ordering::Less => return number,
                // The key has a one where both have a zero.
                Ordering::Greater => {}
                // Both have a one where the one before has a zero.
                Ordering::Equal => {
                    let len = len.min(group.left().saturating_add(1));
                    if !self.reach(1, group.rest, len) {
                        return number;
                    }
                }
            }
            group.skip(len);
        }
        group.count
    }

    /// What a separator has of so many bits, of which the last is a one and the others are stored,
    /// and zeros: the first [`SEEN`].
    #[inline]
    fn own(&self, at: usize, len: usize) -> u64 {
        match u32::try_from(len) {
            Ok(0) => 0,
            Ok(len) if len <= SEEN => {
                head(self.bits, at) & high_ones(len - 1) | 1 << (u64::BITS - len)
            }
            _ => head(self.bits, at),
        }
    }

    /// Compares what the key has after so many bits more, one at most, with so many of a separator.
    /// Goes up to where they differ unless the separator is after the key.
    #[inline]
    fn reach(&mut self, more: u32, at: usize, len: usize) -> bool {
        let own = self.own(at, len);
        let differ = (own ^ self.key.next() << more).leading_zeros();
        if differ >= SEEN - more {
            return self.reach_far(more, at, len);
        }
        let after = own << differ >> (u64::BITS - 1) == 1;
        if !after {
            self.key.advance(more + differ);
            self.common += (more + differ) as usize;
        }
        !after
    }

    /// The same, where what is seen of both at once is alike.
    #[inline(never)]
    fn reach_far(&mut self, more: u32, mut at: usize, mut len: usize) -> bool {
        let (mut key, mut common) = (self.key.clone(), self.common + more as usize);
        key.advance(more);
        loop {
            let own = self.own(at, len);
            let differ = (own ^ key.next()).leading_zeros();
            if differ < SEEN {
                if own << differ >> (u64::BITS - 1) == 1 {
                    return false;
                }
                key.advance(differ);
                (self.key, self.common) = (key, common + differ as usize);
                return true;
            }
            key.advance(SEEN);
            common += SEEN as usize;
            at += SEEN as usize;
            len = len.saturating_sub(SEEN as usize);
            if len == 0 && key.has_ended() {
                (self.key, self.common) = (key, usize::MAX);
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::front_builder::{encode, most};
    use super::*;
    use crate::base::key::common_prefix;
    use crate::ordered::symbols::Boundary;
    use proptest::prelude::*;

    /// Of each two keys that follow each other what the second has up to where they differ, and
    /// what the first has there.
    fn boundaries(keys: &[Vec<u8>]) -> Vec<(Vec<u8>, Option<u8>)> {
        let boundary = |pair: &[Vec<u8>]| {
            let common = common_prefix(&pair[0], &pair[1]);
            let bytes = match pair[1].get(..=common) {
                Some(bytes) => bytes.to_vec(),
                None => [&pair[1][..], &[0]].concat(),
            };
            (bytes, pair[0].get(common).copied())
        };
        keys.windows(2).map(boundary).collect()
    }

    fn encoded(boundaries: &[(Vec<u8>, Option<u8>)]) -> Vec<u8> {
        encode(
            boundaries
                .iter()
                .map(|(bytes, low)| Boundary { bytes, low: *low }),
        )
    }

    /// Keys of some bytes, of which each may begin as the one before.
    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let of = |symbols: Vec<u8>| {
            let key = (
                0usize..60,
                proptest::collection::vec(proptest::sample::select(symbols), 0..9),
            );
            proptest::collection::vec(key, 1..700)
        };
        let few = proptest::collection::vec(any::<u8>(), 1..6);
        let symbols = prop_oneof![
            few,
            proptest::collection::vec(any::<u8>(), 1..200),
            Just((0..=255).collect()),
            Just(b"etaoinshrdlu/".to_vec()),
            Just(vec![0, 1, 254, 255]),
        ];
        let keys = symbols.prop_flat_map(of).prop_map(|steps| {
            let mut key = Vec::new();
            let keys = steps.into_iter().map(|(kept, more)| {
                key.truncate(kept);
                key.extend(more);
                key.clone()
            });
            keys.collect::<Vec<Vec<u8>>>()
        });
        keys.prop_map(|mut keys| {
            keys.sort();
            keys
        })
    }

    proptest! {
        #[test]
        fn found_as_in_a_sorted_list(
            keys in keys(),
            probes in proptest::collection::vec(any::<Vec<u8>>(), 20),
        ) {
            let boundaries = boundaries(&keys);
            let bytes = encoded(&boundaries);
            let own = boundaries.iter().map(|(bytes, _)| bytes.len()).sum();
            prop_assert!(bytes.len() <= most(boundaries.len(), own));
            let front = FrontCoded::parse(&bytes, boundaries.len()).unwrap();
            let separator = |index| {
                let mut out = b"before".to_vec();
                front.separator(index, &mut out);
                out.split_off(6)
            };
            let separators: Vec<Vec<u8>> = (0..boundaries.len()).map(separator).collect();
            prop_assert!(separators.is_sorted());
            for (pair, separator) in keys.windows(2).zip(&separators) {
                prop_assert!(pair[0] < *separator);
                prop_assert!(*separator <= pair[1] || pair[0] == pair[1]);
            }
            let near = keys.iter().flat_map(|key| {
                let (mut more, mut less, mut other) = (key.clone(), key.clone(), key.clone());
                more.push(0);
                less.pop();
                if let Some(last) = other.last_mut() {
                    *last ^= 1;
                }
                [more, less, other, key.clone()]
            });
            for probe in probes.into_iter().chain(near).chain(separators.clone()) {
                let wanted = separators.partition_point(|separator| *separator <= probe);
                prop_assert_eq!(front.at_most(&probe), wanted, "{:?}", probe);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in any::<Vec<u8>>(),
            keys in keys(),
            changed in any::<(prop::sample::Index, u8)>(),
            count in 1usize..5000,
            probe: Vec<u8>,
        ) {
            let mut sound = encoded(&boundaries(&keys));
            if !sound.is_empty() {
                let at = changed.0.index(sound.len());
                sound[at] = changed.1;
            }
            for (bytes, count) in [(&bytes, count), (&sound, count), (&sound, keys.len())] {
                let Some(front) = FrontCoded::parse(bytes, count) else {
                    continue;
                };
                for key in keys.iter().take(20).chain([&probe]) {
                    prop_assert!(front.at_most(key) <= count);
                }
                let mut out = Vec::new();
                front.separator(count / 2, &mut out);
                prop_assert!(out.len() <= LONGEST + 1);
            }
        }
    }
}
