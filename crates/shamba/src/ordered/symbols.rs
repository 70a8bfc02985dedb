//! Keys as integers that order as they do (docs/format.md, "Keys as integers").
//!
//! A byte is a symbol of an alphabet, which has those that separators have, and each place of a key
//! has so many bits for its symbol as the separators have different ones there. So a hexadecimal
//! digit takes 4 bits, and a byte that is the same in all takes none. A separator's integer is
//! exact; that of another key is the largest that a separator at or before it could have.

use super::bits::ones;
use crate::base::coding::take;

/// An alphabet of more pieces is all bytes.
const MOST_RUNS: usize = 8;

/// Places differ in their bits.
const PLACES: u8 = 0x80;

/// Keys have no more places.
const MOST_PLACES: usize = PLACES as usize - 1;

/// The numbers of symbols begin with 1: 0 is that there is none.
fn number_of(runs: &[[u8; 2]], byte: u8) -> (u32, bool) {
    if runs.is_empty() {
        return (u32::from(byte) + 1, true);
    }
    let mut before = 0;
    for &[first, last] in runs {
        if byte < first {
            return (before, false);
        }
        if byte <= last {
            return (before + u32::from(byte - first) + 1, true);
        }
        before += u32::from(last.saturating_sub(first)) + 1;
    }
    (before, false)
}

/// The symbol of a number.
fn symbol_of(runs: &[[u8; 2]], number: u32) -> Option<u8> {
    let mut left = number.checked_sub(1)?;
    if runs.is_empty() {
        return u8::try_from(left).ok();
    }
    for &[first, last] in runs {
        let len = u32::from(last.saturating_sub(first)) + 1;
        if left < len {
            return u8::try_from(u32::from(first) + left).ok();
        }
        left -= len;
    }
    None
}

/// The least bits for numbers up to that.
const fn width(most: u32) -> u32 {
    u32::BITS - most.leading_zeros()
}

/// The number that is 0 in a place, and the bits of the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    least: u8,
    bits: u8,
}

impl Place {
    fn of((least, most): (u32, u32)) -> Place {
        let least = least.min(u8::MAX.into());
        Place {
            least: least as u8,
            bits: width(most - least) as u8,
        }
    }
}

/// A separator: what it is after what all have in common, up to the byte that differs from the key
/// before it, which is greater there than that key's byte, if that has one.
pub(crate) struct Boundary<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) low: Option<u8>,
}

impl Boundary<'_> {
    /// The last byte's symbol may be any above this and up to its own.
    fn above(&self, runs: &[[u8; 2]]) -> u32 {
        self.low.map_or(0, |low| number_of(runs, low).0)
    }
}

/// What makes keys integers, for the builder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SymbolsBuilder {
    runs: Vec<[u8; 2]>,
    places: Vec<Place>,
    /// All places have the same bits.
    alike: bool,
}

impl SymbolsBuilder {
    /// What fits these boundaries: with the same bits in all places, and with each place's own.
    /// None where integers of 64 bits do not tell them apart.
    pub(crate) fn of<'a>(boundaries: impl Iterator<Item = Boundary<'a>> + Clone) -> Vec<Self> {
        let mut seen = [false; 256];
        for byte in boundaries.clone().flat_map(|boundary| boundary.bytes) {
            if let Some(seen) = seen.get_mut(usize::from(*byte)) {
                *seen = true;
            }
        }
        let runs = runs(&seen);
        let symbols = if runs.is_empty() { 256 } else { count(&runs) };
        let Some(ranges) = ranges(boundaries, &runs) else {
            return Vec::new();
        };
        let least = ranges.iter().map(|range| range.0).min();
        let least = least.unwrap_or(0).min(1);
        let alike = vec![Place::of((least, symbols)); ranges.len()];
        let each = ranges.into_iter().map(Place::of).collect();
        let fits = |(places, _): &(Vec<Place>, bool)| {
            let bits = places.iter().map(|place| u32::from(place.bits));
            bits.sum::<u32>() <= 64
        };
        let both = [(alike, true), (each, false)].into_iter().filter(fits);
        both.map(|(places, alike)| SymbolsBuilder {
            runs: runs.clone(),
            places,
            alike,
        })
        .collect()
    }

    /// The integers of a separator that end with as many zeros as one between it and the key before
    /// it has.
    pub(crate) fn integer(&self, boundary: &Boundary<'_>) -> u64 {
        let (mut code, mut at) = (0u64, 0);
        for place in &self.places {
            let least = u32::from(place.least);
            let digit = boundary.bytes.get(at).map_or(0, |&byte| {
                let own = number_of(&self.runs, byte).0.saturating_sub(least);
                let above = boundary.above(&self.runs).saturating_sub(least);
                if at + 1 < boundary.bytes.len() || own <= above {
                    return own;
                }
                let differ = u32::BITS - 1 - (own ^ above).leading_zeros();
                own >> differ << differ
            });
            code = code.unbounded_shl(place.bits.into()) | u64::from(digit);
            at += 1;
        }
        code
    }

    /// Appends it to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let places = if self.alike { 0 } else { PLACES };
        out.extend([self.runs.len() as u8, self.places.len() as u8 | places]);
        out.extend(self.runs.iter().flatten());
        let stored = if self.alike { 1 } else { self.places.len() };
        let stored = self.places.iter().take(stored);
        out.extend(stored.flat_map(|place| [place.least, place.bits]));
    }

    /// The bytes that it takes.
    pub(crate) fn encoded_len(&self) -> usize {
        let stored = if self.alike { 1 } else { self.places.len() };
        2 + 2 * self.runs.len() + 2 * stored.min(self.places.len())
    }
}

/// Gathers what makes integers of keys, of which each is looked at twice: first for the alphabet,
/// then for the places.
#[derive(Debug)]
pub(crate) struct SymbolsOfKeys {
    seen: [bool; 256],
    runs: Vec<[u8; 2]>,
    /// Of each place the least and the largest number.
    ranges: Vec<(u32, u32)>,
}

impl Default for SymbolsOfKeys {
    fn default() -> Self {
        SymbolsOfKeys {
            seen: [false; 256],
            runs: Vec::new(),
            ranges: Vec::new(),
        }
    }
}

impl SymbolsOfKeys {
    /// Looks at a key for the first time.
    pub(crate) fn see(&mut self, key: &[u8]) {
        for byte in key.iter().take(MOST_PLACES) {
            if let Some(seen) = self.seen.get_mut(usize::from(*byte)) {
                *seen = true;
            }
        }
    }

    /// All keys were looked at once.
    pub(crate) fn end_alphabet(&mut self) {
        self.runs = runs(&self.seen);
    }

    /// Looks at a key for the second time.
    pub(crate) fn place(&mut self, key: &[u8]) {
        for (at, &byte) in key.iter().take(MOST_PLACES).enumerate() {
            let (own, _) = number_of(&self.runs, byte);
            match self.ranges.get_mut(at) {
                Some(range) => *range = (range.0.min(own), range.1.max(own)),
                None => self.ranges.push((own, own)),
            }
        }
    }

    /// As many of the first places as 64 bits have room for.
    pub(crate) fn end(self) -> SymbolsBuilder {
        let places = self.ranges.into_iter().map(Place::of);
        let places = places.scan(0, |bits, place| {
            *bits += u32::from(place.bits);
            (*bits <= u64::BITS).then_some(place)
        });
        let places: Vec<Place> = places.collect();
        SymbolsBuilder {
            runs: self.runs,
            alike: places.windows(2).all(|pair| pair.first() == pair.last()),
            places,
        }
    }
}

/// Of each place of separators the least and the largest number. The last one of a separator is
/// not the least, so that it differs from one that ends before. `None` if there are too many
/// places.
fn ranges<'a>(
    boundaries: impl Iterator<Item = Boundary<'a>>,
    runs: &[[u8; 2]],
) -> Option<Vec<(u32, u32)>> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for boundary in boundaries {
        let above = boundary.above(runs);
        for (at, &byte) in boundary.bytes.iter().enumerate() {
            let (own, _) = number_of(runs, byte);
            let last = at + 1 == boundary.bytes.len();
            let least = if last { above } else { own };
            match ranges.get_mut(at) {
                Some(range) => *range = (range.0.min(least), range.1.max(own)),
                None if at >= MOST_PLACES => return None,
                None => ranges.push((least, own)),
            }
        }
    }
    Some(ranges)
}

/// How many bytes pieces have.
fn count(runs: &[[u8; 2]]) -> u32 {
    let each = runs.iter().map(|[first, last]| u32::from(last - first) + 1);
    each.sum()
}

/// The bytes that are seen in as few pieces as give symbols no more bits than they need; none where
/// all bytes do as well.
fn runs(seen: &[bool; 256]) -> Vec<[u8; 2]> {
    let mut runs: Vec<[u8; 2]> = Vec::new();
    for (byte, _) in (0..=u8::MAX).zip(seen).filter(|(_, seen)| **seen) {
        match runs.last_mut() {
            Some(last) if last[1] + 1 == byte => last[1] = byte,
            _ => runs.push([byte, byte]),
        }
    }
    let bits = width(count(&runs).saturating_sub(1));
    // Gaps are closed from the smallest on.
    while runs.len() > 1 {
        let gaps = runs
            .windows(2)
            .enumerate()
            .filter_map(|(at, pair)| match pair {
                [before, after] => Some((after[0] - before[1], at)),
                _ => None,
            });
        let Some((gap, at)) = gaps.min() else { break };
        if width(count(&runs) + u32::from(gap) - 2) > bits && runs.len() <= MOST_RUNS {
            break;
        }
        let after = runs.remove(at + 1);
        if let Some(before) = runs.get_mut(at) {
            before[1] = after[1];
        }
    }
    if width(count(&runs).saturating_sub(1)) >= 8 {
        runs.clear();
    }
    runs
}

/// What makes keys integers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbols<'a> {
    runs: &'a [[u8; 2]],
    count: usize,
    places: &'a [[u8; 2]],
    /// Bits of all places.
    bits: u32,
}

impl<'a> Symbols<'a> {
    /// What `input` begins with.
    #[inline]
    pub(crate) fn parse(input: &mut &'a [u8]) -> Option<Self> {
        let ([runs, count], rest) = input.split_first_chunk::<2>()?;
        *input = rest;
        let runs = take(input, 2 * usize::from(*runs))?.as_chunks().0;
        let (own, count) = (count & PLACES != 0, usize::from(count & !PLACES));
        let stored = if own { count } else { count.min(1) };
        let places: &[[u8; 2]] = take(input, 2 * stored)?.as_chunks().0;
        let bits = match places {
            [[_, bits]] => u32::from(*bits) * count as u32,
            places => places.iter().map(|[_, bits]| u32::from(*bits)).sum(),
        };
        (bits <= 64).then_some(Symbols {
            runs,
            count,
            places,
            bits,
        })
    }

    /// How many places a key has: a separator is no longer.
    pub(crate) fn places(&self) -> usize {
        self.count
    }

    #[inline]
    fn place(&self, at: usize) -> (u32, u32) {
        let place = match self.places {
            [place] => Some(place),
            places => places.get(at),
        };
        place.map_or((0, 0), |[least, bits]| {
            (u32::from(*least), u32::from(*bits))
        })
    }

    /// The bits from bit `from` on of the largest integer that a separator could have that is at or
    /// before the key.
    #[inline]
    pub(crate) fn integer(&self, key: &[u8], from: u32) -> u64 {
        if let ([], [[1, 8]]) = (self.runs, self.places) {
            let head = crate::base::key::prefix(key);
            return head.unbounded_shr(64 - self.bits.min(64) + from);
        }
        match self.runs {
            [] => self.integer_by(key, from, |byte| (u32::from(byte) + 1, true)),
            // Of hexadecimal digits.
            &[[a, b], [c, d]] if b < c => self.integer_by(key, from, |byte| {
                let first = u32::from(b.saturating_sub(a)) + 1;
                match byte {
                    _ if byte < a => (0, false),
                    _ if byte <= b => (u32::from(byte - a) + 1, true),
                    _ if byte < c => (first, false),
                    _ if byte <= d => (first + u32::from(byte - c) + 1, true),
                    _ => (first + u32::from(d.saturating_sub(c)) + 1, false),
                }
            }),
            runs => self.integer_by(key, from, |byte| number_of(runs, byte)),
        }
    }

    /// The same, where a function gives the number of a byte.
    #[inline]
    fn integer_by(&self, key: &[u8], from: u32, number: impl Fn(u8) -> (u32, bool)) -> u64 {
        if let [[least, bits]] = *self.places {
            let place = (u32::from(least), u32::from(bits));
            return self.integer_of(key, from, |_| place, number);
        }
        self.integer_of(key, from, |at| self.place(at), number)
    }

    /// The same, where one gives what a place has.
    #[inline]
    fn integer_of(
        &self,
        key: &[u8],
        from: u32,
        place: impl Fn(usize) -> (u32, u32),
        number: impl Fn(u8) -> (u32, bool),
    ) -> u64 {
        // Bits are filled from the top: what is not reached is 0.
        let (mut code, mut left) = (0u64, self.bits);
        for (at, &byte) in key.iter().take(self.count).enumerate() {
            if left <= from {
                break;
            }
            let (least, bits) = place(at);
            let (number, exact) = number(byte);
            // Separators that begin so and end here are before it; others go on.
            let Some(digit) = number.checked_sub(least) else {
                break;
            };
            let digit = u64::from(digit);
            let above = digit > ones(bits);
            if !above {
                left -= bits;
                // By 64 only where no place has bits yet: nothing is shifted then.
                code |= digit.wrapping_shl(left);
            }
            if above || !exact {
                code |= ones(left);
                break;
            }
        }
        code.unbounded_shr(from)
    }

    /// Appends the separator of an integer to `out`.
    pub(crate) fn separator(&self, integer: u64, out: &mut Vec<u8>) {
        let (mut left, mut end) = (self.bits, out.len());
        for at in 0..self.count {
            let (least, bits) = self.place(at);
            left -= bits;
            let digit = (integer.unbounded_shr(left) & ones(bits)) as u32;
            let Some(symbol) = symbol_of(self.runs, digit + least) else {
                break;
            };
            out.push(symbol);
            if digit > 0 {
                end = out.len();
            }
        }
        out.truncate(end);
    }
}
