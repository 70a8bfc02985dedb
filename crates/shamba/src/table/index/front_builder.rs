//! Encodes separators as [`super::front`] reads them.
//!
//! Of the bit strings between two keys the shortest is taken: it ends at the first bit in which
//! they differ, mostly within a word of the code.

use super::bit_string::{BitString, high_ones, word};
use super::code::{CodeBuilder, CodeWords};
use super::front::START_WIDTH;
use super::groups::{GROUP, WIDTH, others, top_step};
use crate::base::key::common_prefix;
use crate::ordered::symbols::Boundary;

/// The most bytes of a code, and what is before it.
const HEAD: usize = 128;

/// The most bytes of so many separators with so many bytes, about: of each byte 9 bits, of each
/// separator two numbers.
pub(super) fn most(count: usize, bytes: usize) -> usize {
    HEAD + 6 * count + bytes.div_ceil(8) * 9
}

/// Of a byte that is stored; one that is the last of a separator counts half, since few of its
/// word's bits are.
const STORED: u64 = 2;

/// How often words of bytes will be stored, of those that separators have.
fn weights<'a>(boundaries: impl Iterator<Item = Boundary<'a>>) -> [u64; 256] {
    let mut weights = [0; 256];
    let mut before: &[u8] = &[];
    for Boundary { bytes, .. } in boundaries {
        let shared = common_prefix(before, bytes);
        for (at, &byte) in bytes.iter().enumerate().skip(shared) {
            let last = at + 1 == bytes.len();
            if let Some(weight) = weights.get_mut(usize::from(byte)) {
                *weight += if last { STORED / 2 } else { STORED };
            }
        }
        before = bytes;
    }
    weights
}

/// The least bits between the key before a separator and the separator: they end with a one.
fn push(boundary: &Boundary<'_>, words: &CodeWords, bits: &mut BitString<'_>) {
    let Some((&last, others)) = boundary.bytes.split_last() else {
        return;
    };
    let of = |byte: u8| words.of(byte).unwrap_or(words.end());
    for &byte in others {
        let word = of(byte);
        bits.push(word.bits(), word.len());
    }
    let own = of(last).bits();
    let low = boundary
        .low
        .map_or(words.end(), |low| words.at_or_before(low));
    let differ = (own ^ low.bits()).leading_zeros();
    bits.push(own, differ + 1);
}

/// Separators as bit strings, one after the other.
struct Strings {
    bits: Vec<u8>,
    ends: Vec<usize>,
}

/// What is stored of a separator.
#[derive(Clone, Copy, Default)]
struct Item {
    index: usize,
    /// The bits that it shares with the one before.
    shared: usize,
    /// 0 for one that is as the one before; else 1 more than the bits that follow the first one
    /// that it does not share.
    len: usize,
}

impl Strings {
    fn range(&self, index: usize) -> (usize, usize) {
        let from = index.checked_sub(1).and_then(|at| self.ends.get(at));
        let end = self.ends.get(index).copied().unwrap_or(0);
        (from.copied().unwrap_or(0), end)
    }

    fn len(&self, index: usize) -> usize {
        let (from, end) = self.range(index);
        end.saturating_sub(from)
    }

    /// Bits of one from bit `at` on, and zeros.
    fn word(&self, index: usize, at: usize) -> u64 {
        let (from, end) = self.range(index);
        let left = end.saturating_sub(from + at);
        word(&self.bits, from + at) & high_ones(left.min(64) as u32)
    }

    /// The first bit that one has and one that is before it has not; `None` if they are the same.
    fn differ(&self, before: Option<usize>, index: usize) -> Option<usize> {
        let len = self.len(index);
        (0..len).step_by(64).find_map(|at| {
            let before = before.map_or(0, |before| self.word(before, at));
            let differ = before ^ self.word(index, at);
            (differ != 0).then(|| at + differ.leading_zeros() as usize)
        })
    }

    /// What is stored of one after another.
    fn item(&self, before: Option<usize>, index: usize) -> Item {
        match self.differ(before, index) {
            None => Item {
                index,
                ..Item::default()
            },
            Some(shared) => Item {
                index,
                shared,
                len: self.len(index) - shared,
            },
        }
    }

    /// Appends a group of so many that follow one, or nothing, by so many each.
    fn put_group(&self, first: Option<usize>, count: usize, step: usize, out: &mut BitString<'_>) {
        let mut before = first;
        let from = first.map_or(0, |first| first + step);
        let mut items = Vec::with_capacity(count);
        for index in (from..).step_by(step).take(count) {
            items.push(self.item(before, index));
            before = Some(index);
        }
        let numbers = [|item: &Item| item.shared, |item: &Item| item.len];
        let widths = numbers.map(|number| {
            let most = items.iter().map(number).max().unwrap_or(0);
            usize::BITS - most.leading_zeros()
        });
        for width in widths {
            out.push_number(width as usize, WIDTH);
        }
        for (number, width) in numbers.into_iter().zip(widths) {
            for item in &items {
                out.push_number(number(item), width);
            }
        }
        for item in &items {
            // Its last bit is known to be a one.
            let stored = item.len.saturating_sub(2);
            let end = self.range(item.index).1;
            out.copy(&self.bits, end.saturating_sub(stored + 1), stored);
        }
    }

    /// Appends the groups from the uppermost one on: where those after it begin, and the bits.
    fn put_groups(&self, out: &mut Vec<u8>) -> (Vec<usize>, usize) {
        let (mut bits, mut starts) = (BitString::after(out), Vec::new());
        let count = self.ends.len();
        let mut step = top_step(count);
        self.put_group(None, count.div_ceil(step), step, &mut bits);
        while step > 1 {
            let above = step;
            step /= GROUP;
            for (group, first) in (0..count).step_by(above).enumerate() {
                starts.push(bits.len());
                let after = others(group, count.div_ceil(step));
                self.put_group(Some(first), after, step, &mut bits);
            }
        }
        (starts, bits.len())
    }
}

/// So many separators, encoded.
pub(super) fn encode<'a>(boundaries: impl Iterator<Item = Boundary<'a>> + Clone) -> Vec<u8> {
    let code = CodeBuilder::of(&weights(boundaries.clone()));
    let Some((stored, code)) = code.as_ref().and_then(|code| Some((code, code.code()?))) else {
        return Vec::new();
    };
    let words = code.words();
    let mut strings = Strings {
        bits: Vec::new(),
        ends: Vec::new(),
    };
    let mut bits = BitString::after(&mut strings.bits);
    for boundary in boundaries {
        push(&boundary, &words, &mut bits);
        strings.ends.push(bits.len());
    }
    let mut groups = Vec::new();
    let (starts, len) = strings.put_groups(&mut groups);
    let last = starts.last().copied().unwrap_or(0);
    let width = usize::BITS - last.leading_zeros();
    let mut out = Vec::new();
    out.extend(stored.bounds);
    out.push(stored.form as u8 | (width as u8) << START_WIDTH);
    out.extend_from_slice(&stored.stored);
    let mut bits = BitString::after(&mut out);
    for start in starts {
        bits.push_number(start, width);
    }
    bits.copy(&groups, 0, len);
    out
}
