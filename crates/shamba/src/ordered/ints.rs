//! Ascending integers, succinctly (docs/format.md, "Integers in order"): Elias-Fano for their
//! upper bits, and what follows only of those that need it.
//!
//! A separator may be any of the keys between two blocks, so that most are chosen with many zeros
//! at the end. The bits that few have other than 0 are dropped and kept apart: a bit for each
//! integer says whether there is more of it, then there are some more bits of each of these, and
//! again a bit for whether that was all. How many bits in each step is what makes the whole
//! smallest ([`Shape`]).

use super::bits::{self, BitWriter, count_ones, ones, select};
use super::shape::{SAMPLE, SAMPLED, Shape, unary};
use crate::base::coding::{put_varint, take, take_short_varint, take_varint, varint_len};

/// More integers are not encoded: samples count them.
pub(crate) const MOST: usize = u16::MAX as usize;

/// Steps at most: each has a bit at least.
const MOST_STEPS: usize = 64;

/// The bytes that ascending integers take in this shape.
pub(crate) fn encoded_len(values: &[u64], shape: &Shape) -> usize {
    let (first, most) = shape.ends(values);
    let head = 3 + shape.steps.len() + varint_len(first) + varint_len(most);
    head + shape.bits.div_ceil(8)
}

/// Appends ascending integers to `out` in this shape: [`MOST`] at most, and one at least.
pub(crate) fn encode(values: &[u64], shape: &Shape, out: &mut Vec<u8>) {
    let (first, most) = shape.ends(values);
    let head = [shape.dropped, shape.low, shape.steps.len() as u32];
    out.extend(head.map(|number| number as u8));
    out.extend_from_slice(&shape.steps);
    put_varint(out, first);
    put_varint(out, most);
    let upper: Vec<u64> = (values.iter())
        .map(|value| value.unbounded_shr(shape.dropped) - first)
        .collect();
    let numbers = upper.iter().map(|upper| upper.unbounded_shr(shape.low));
    let mut writer = BitWriter::default();
    put_unary(numbers, &mut writer, out);
    for upper in &upper {
        writer.push(upper & ones(shape.low), shape.low);
    }
    if !shape.steps.is_empty() {
        put_steps(values.to_vec(), shape, &mut writer);
    }
    out.extend_from_slice(writer.bytes());
}

/// As many zeros as each number is more than the one before, and a one; and samples of the ones.
fn put_unary(numbers: impl Iterator<Item = u64>, writer: &mut BitWriter, samples: &mut Vec<u8>) {
    let (mut count, mut bits) = (0u16, 0usize);
    let mut put = |bit: bool| {
        writer.push(bit.into(), 1);
        count += u16::from(bit);
        bits += 1;
        if bits.is_multiple_of(SAMPLED) {
            samples.extend_from_slice(&count.to_le_bytes());
        }
    };
    let mut before = 0;
    for number in numbers {
        (before..number).for_each(|_| put(false));
        before = number;
        put(true);
    }
    put(false);
}

/// What is dropped of the integers, step by step.
fn put_steps(mut left: Vec<u64>, shape: &Shape, writer: &mut BitWriter) {
    let mut at = shape.dropped;
    for &step in &shape.steps {
        for value in &left {
            writer.push((value & ones(at) != 0).into(), 1);
        }
        left.retain(|value| value & ones(at) != 0);
        at -= u32::from(step);
        for value in &left {
            writer.push(value >> at & ones(step.into()), step.into());
        }
    }
}

/// Ascending integers, encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ints<'a> {
    count: usize,
    dropped: u32,
    low: u32,
    steps: &'a [u8],
    /// The upper part of the first.
    first: u64,
    /// The largest number of the unary part.
    most: u64,
    /// Bits of the unary part.
    unary: usize,
    samples: &'a [[u8; SAMPLE]],
    /// The unary part, the stored part, and the steps.
    bits: &'a [u8],
}

impl<'a> Ints<'a> {
    /// Integers, so many (one at least), that `input` begins with and ends with.
    #[inline]
    pub(crate) fn parse(mut input: &'a [u8], count: usize) -> Option<Self> {
        let ([dropped, low, steps], rest) = input.split_first_chunk::<3>()?;
        input = rest;
        let steps = take(&mut input, (*steps).into())?;
        let first = take_varint(&mut input)?;
        let most = take_short_varint(&mut input)?;
        let all = u64::from(*dropped) + u64::from(*low);
        let unary = unary(count, most);
        // A unary part of few bytes cannot be long.
        if all > 64 || steps.len() > MOST_STEPS || unary / 8 > input.len() || count > MOST {
            return None;
        }
        let samples = take(&mut input, unary / SAMPLED * SAMPLE)?;
        Some(Ints {
            count,
            dropped: (*dropped).into(),
            low: (*low).into(),
            steps,
            first,
            most,
            unary,
            samples: samples.as_chunks().0,
            bits: input,
        })
    }

    /// How many of the lowest bits of all integers the first two parts leave out.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped
    }

    /// The stored bits of an integer.
    #[inline]
    fn stored(&self, at: usize) -> u64 {
        let from = self.unary + at * self.low as usize;
        bits::get(self.bits, from, self.low)
    }

    /// The dropped bits of an integer.
    #[cold]
    fn dropped_bits(&self, mut at: usize) -> u64 {
        let (mut value, mut left) = (0, self.dropped);
        let mut from = self.unary + self.count * self.low as usize;
        let mut count = self.count;
        for &step in self.steps {
            let step = u32::from(step).min(left);
            if bits::get(self.bits, from + at, 1) == 0 {
                break;
            }
            at = count_ones(self.bits, from, at);
            let more = count_ones(self.bits, from, count);
            from += count;
            left -= step;
            value |= bits::get(self.bits, from + at * step as usize, step) << left;
            from += more * step as usize;
            count = more;
        }
        value
    }

    /// How many of the integers are at most one of which `wanted` gives the bits from one on, which
    /// is mostly not the lowest.
    #[inline]
    pub(crate) fn at_most(&self, wanted: impl Fn(u32) -> u64) -> usize {
        let Some(upper) = wanted(self.dropped).checked_sub(self.first) else {
            return 0;
        };
        let high = upper.unbounded_shr(self.low);
        if high > self.most {
            return self.count;
        }
        // As many zeros are before the first integer of this high part.
        let at = match (high as usize).checked_sub(1) {
            Some(zero) => self.zero(zero) + 1,
            None => 0,
        };
        let stored = upper & ones(self.low);
        let mut number = at - high as usize;
        let mut place = at;
        loop {
            // As many ones in a row are the integers of this high part.
            let same = bits::word(self.bits, place).trailing_ones() as usize;
            let end = number + same;
            while number < end {
                let own = self.stored(number);
                let after = own > stored
                    || own == stored && self.dropped_bits(number) > wanted(0) & ones(self.dropped);
                if after {
                    return number.min(self.count);
                }
                number += 1;
            }
            place += 64;
            if same < 64 || place >= self.unary {
                return number.min(self.count);
            }
        }
    }

    /// Where the zero of that number is in the unary part.
    #[inline]
    fn zero(&self, mut number: usize) -> usize {
        let zeros = |sample: usize| {
            let ones = self
                .samples
                .get(sample)
                .map(|ones| u16::from_le_bytes(*ones));
            ((sample + 1) * SAMPLED).saturating_sub(ones.map_or(usize::MAX, usize::from))
        };
        let (mut block, mut above) = (0, self.samples.len());
        while block < above {
            let middle = block.midpoint(above);
            if zeros(middle) <= number {
                block = middle + 1;
            } else {
                above = middle;
            }
        }
        let mut at = block * SAMPLED;
        if let Some(before) = block.checked_sub(1) {
            number -= zeros(before);
        }
        while at < self.unary {
            match select(!bits::word(self.bits, at), number) {
                Ok(found) => return at + found,
                Err(zeros) => number -= zeros,
            }
            at += 64;
        }
        self.unary
    }

    /// Where the one of that number is in the unary part.
    fn one(&self, mut number: usize) -> usize {
        let ones = |sample: &[u8; SAMPLE]| usize::from(u16::from_le_bytes(*sample));
        let block = self
            .samples
            .partition_point(|sample| ones(sample) <= number);
        if let Some(before) = block.checked_sub(1) {
            let before = self.samples.get(before).map_or(0, ones);
            number = number.saturating_sub(before);
        }
        let mut at = block * SAMPLED;
        while at < self.unary {
            match select(bits::word(self.bits, at), number) {
                Ok(found) => return at + found,
                Err(ones) => number -= ones,
            }
            at += 64;
        }
        self.unary
    }

    /// The integer of that number, which is below `count`.
    pub(crate) fn get(&self, number: usize) -> u64 {
        let high = self.one(number).saturating_sub(number) as u64;
        let upper = high.unbounded_shl(self.low) | self.stored(number);
        let upper = upper.wrapping_add(self.first);
        upper.unbounded_shl(self.dropped) | self.dropped_bits(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(values: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(values, &Shape::of(values), &mut bytes);
        bytes
    }

    #[test]
    fn random_integers_take_what_their_places_need() {
        // Of 128 integers below 2^14, 2 bits and the logarithm of 2^14 / 128 each, and a header.
        let values: Vec<u64> = (0..128u64).map(|n| n * 128 + n * n % 128).collect();
        let len = encoded(&values).len();
        assert!(len <= 128 * 9 / 8 + 8, "{len}");
        // Zeros at the end cost nothing.
        let shifted: Vec<u64> = values.iter().map(|value| value << 40).collect();
        assert_eq!(encoded(&shifted).len(), len);
        // And what one alone has, that one.
        let mut odd = shifted;
        odd[77] |= 1 << 20;
        let more = encoded(&odd).len() - len;
        assert!((1..=20).contains(&more), "{more}");
    }

    proptest! {
        #[test]
        fn found_as_in_a_sorted_list(
            seed: u64,
            count in 1usize..1500,
            width in 1u32..=64,
            zeros in 0u32..64,
            probes in proptest::collection::vec(any::<u64>(), 30),
        ) {
            let mut random = seed;
            let mut next = || {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1 << 33 | 1);
                random ^ random >> 32
            };
            let mut values = Vec::new();
            for _ in 0..count {
                let [right, left] = [next(), next()].map(|shift| shift as u32 % (zeros + 1));
                values.push((next() & ones(width)) >> right << left);
            }
            values.sort_unstable();
            let bytes = encoded(&values);
            prop_assert_eq!(encoded_len(&values, &Shape::of(&values)), bytes.len());
            let ints = Ints::parse(&bytes, count).unwrap();
            for (number, &value) in values.iter().enumerate() {
                prop_assert_eq!(ints.get(number), value);
            }
            let near = values.iter().flat_map(|v| [v.wrapping_sub(1), *v, v.wrapping_add(1)]);
            for probe in probes.into_iter().chain(near) {
                for probe in [probe, probe & ones(width)] {
                    let wanted = values.partition_point(|value| *value <= probe);
                    let found = ints.at_most(|from| probe.unbounded_shr(from));
                    prop_assert_eq!(found, wanted, "{}", probe);
                }
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in any::<Vec<u8>>(),
            count in 1usize..2000,
            probe: u64,
        ) {
            if let Some(ints) = Ints::parse(&bytes, count) {
                let found = ints.at_most(|from| probe.unbounded_shr(from));
                prop_assert!(found <= count);
                ints.get(count / 2);
            }
        }
    }
}
