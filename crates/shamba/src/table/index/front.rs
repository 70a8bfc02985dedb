//! Separators front-coded: of each only what it does not share with the one before, but for the
//! first of each group. For those that are no integers of 64 bits, such as paths, or are few.

use std::cmp::Ordering;

use super::LONGEST;
use crate::base::coding::{put_varint, take, take_bytes, take_len, take_varint, varint_len};
use crate::table::block::common_prefix;

/// Separators of a group. With half of it twice as many are stored whole; twice of it are looked
/// at in turn.
const GROUP: usize = 16;

/// Where a group begins, in bytes.
const START: usize = size_of::<u32>();

/// Of each separator how many bytes it shares with the one before, and the others.
fn parts<'a>(
    separators: impl Iterator<Item = &'a [u8]>,
) -> impl Iterator<Item = (usize, &'a [u8])> {
    let mut before: &[u8] = &[];
    separators.enumerate().map(move |(at, own)| {
        let shared = match at % GROUP {
            0 => 0,
            _ => common_prefix(before, own),
        };
        before = own;
        (shared, own.get(shared..).unwrap_or_default())
    })
}

/// The most bytes of so many separators with so many bytes: lengths take three at most.
pub(super) fn most(count: usize, bytes: usize) -> usize {
    START * count.div_ceil(GROUP) + 6 * count + bytes
}

/// The bytes of so many separators.
pub(super) fn encoded_len<'a>(count: usize, separators: impl Iterator<Item = &'a [u8]>) -> usize {
    let each = parts(separators).enumerate().map(|(at, (shared, rest))| {
        let shared = match at % GROUP {
            0 => 0,
            _ => varint_len(shared as u64),
        };
        shared + varint_len(rest.len() as u64) + rest.len()
    });
    START * count.div_ceil(GROUP).saturating_sub(1) + each.sum::<usize>()
}

/// Appends separators to `out`.
pub(super) fn encode<'a>(separators: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let mut groups: Vec<u8> = Vec::new();
    for (at, (shared, rest)) in parts(separators).enumerate() {
        if at % GROUP != 0 {
            put_varint(&mut groups, shared as u64);
        } else if at > 0 {
            out.extend_from_slice(&(groups.len() as u32).to_le_bytes());
        }
        put_varint(&mut groups, rest.len() as u64);
        groups.extend_from_slice(rest);
    }
    out.extend_from_slice(&groups);
}

/// Separators, without what all have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrontCoded<'a> {
    count: usize,
    /// Where the groups after the first begin.
    starts: &'a [[u8; START]],
    groups: &'a [u8],
}

impl<'a> FrontCoded<'a> {
    /// So many separators.
    #[inline]
    pub(super) fn parse(mut input: &'a [u8], count: usize) -> Option<Self> {
        let groups = count.div_ceil(GROUP).saturating_sub(1);
        let starts = take(&mut input, groups.checked_mul(START)?)?;
        Some(FrontCoded {
            count,
            starts: starts.as_chunks().0,
            groups: input,
        })
    }

    /// What a group begins with, and what comes after.
    #[inline]
    fn group(&self, number: usize) -> (&'a [u8], &'a [u8]) {
        let start = match number.checked_sub(1) {
            Some(before) => self
                .starts
                .get(before)
                .map_or(0, |start| u32::from_le_bytes(*start)),
            None => 0,
        };
        let mut input = self.groups.get(start as usize..).unwrap_or_default();
        (take_bytes(&mut input).unwrap_or_default(), input)
    }

    /// The separators of a group after its first: what each shares with the one before, and the
    /// rest.
    #[inline]
    fn others(&self, group: usize, mut input: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
        let count = self.count.saturating_sub(group * GROUP + 1).min(GROUP - 1);
        (0..count).map_while(move |_| {
            let shared = usize::try_from(take_varint(&mut input)?).ok()?;
            let len = take_len(&mut input, LONGEST)?;
            Some((shared, take(&mut input, len)?))
        })
    }

    /// How many of the separators are at or before a key without what they have in common.
    #[inline]
    pub(super) fn at_most(&self, rest: &[u8]) -> usize {
        if self.count == 0 || self.group(0).0 > rest {
            return 0;
        }
        // The last group whose first is at or before the key.
        let (mut low, mut high) = (0, self.starts.len());
        while low < high {
            let middle = high - (high - low) / 2;
            if self.group(middle).0 <= rest {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let (first, others) = self.group(low);
        // What the separator before has in common with the key, which is not less.
        let mut common = common_prefix(first, rest);
        let mut found = low * GROUP + 1;
        for (shared, own) in self.others(low, others) {
            match shared.cmp(&common) {
                // It is greater than the one before where that is equal to the key.
                Ordering::Less => break,
                // It is equal to it where that is less than the key.
                Ordering::Greater => {}
                Ordering::Equal => {
                    let key = rest.get(common..).unwrap_or_default();
                    if own > key {
                        break;
                    }
                    common += common_prefix(own, key);
                }
            }
            found += 1;
        }
        found.min(self.count)
    }

    /// Appends a separator to `out`.
    pub(super) fn separator(&self, index: usize, out: &mut Vec<u8>) {
        let (group, from) = (index / GROUP, out.len());
        let (first, others) = self.group(group);
        out.extend_from_slice(first);
        for (shared, own) in self.others(group, others).take(index % GROUP) {
            out.truncate(from.saturating_add(shared));
            out.extend_from_slice(own);
        }
    }
}
