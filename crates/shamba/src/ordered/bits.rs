//! Numbers of any width one after the other, from the least significant bit of each byte on. Plain
//! data; what lies behind the end reads as 0.

/// Writes numbers behind each other.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits so far.
    len: usize,
}

impl BitWriter {
    /// Appends the `width` (at most 64) low bits of a number whose others are 0.
    pub(crate) fn push(&mut self, mut value: u64, mut width: u32) {
        while width > 0 {
            let used = (self.len % 8) as u32;
            if used == 0 {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= (value << used) as u8;
            }
            let taken = width.min(8 - used);
            value = value.unbounded_shr(taken);
            width -= taken;
            self.len += taken as usize;
        }
    }

    /// The bytes, the last of them filled with zeros.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The 64 bits from bit `at` on.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let (byte, shift) = (at / 8, (at % 8) as u32);
    let rest = bytes.get(byte..).unwrap_or_default();
    match rest.first_chunk::<9>() {
        // Two shifts, since one by 64 is none.
        Some([head @ .., last]) => {
            u64::from_le_bytes(*head) >> shift | u64::from(*last) << 1 << (63 - shift)
        }
        None => short_word(rest, shift),
    }
}

/// The same, of the last bytes.
#[cold]
fn short_word(rest: &[u8], shift: u32) -> u64 {
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    (u128::from_le_bytes(padded) >> shift) as u64
}

/// The number of `width` bits (at most 64) from bit `at` on.
#[inline]
pub(crate) fn get(bytes: &[u8], at: usize, width: u32) -> u64 {
    word(bytes, at) & ones(width)
}

/// So many (at most 64) low bits.
#[inline]
pub(crate) const fn ones(width: u32) -> u64 {
    !u64::MAX.unbounded_shl(width)
}

/// How many of the `count` bits from bit `from` on are 1.
pub(crate) fn count_ones(bytes: &[u8], from: usize, count: usize) -> usize {
    let mut sum = 0;
    for at in (0..count).step_by(64) {
        let word = word(bytes, from + at) & ones((count - at).min(64) as u32);
        sum += word.count_ones() as usize;
    }
    sum
}

/// The ones in each byte of a word and those below it: the uppermost has the sum.
#[inline]
fn ones_up_to(word: u64) -> u64 {
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let bytes = (fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    bytes.wrapping_mul(0x0101_0101_0101_0101)
}

/// Which of the bits that are 1 in a word is the `rank`-th, counted from 0; else how many there
/// are.
#[inline]
pub(crate) fn select(word: u64, rank: usize) -> Result<usize, usize> {
    let sums = ones_up_to(word);
    let count = (sums >> 56) as usize;
    if rank >= count {
        return Err(count);
    }
    // A bit for each byte with which there are no more ones than wanted.
    let each = 0x8080_8080_8080_8080;
    let before = ((each | (rank as u64 * 0x0101_0101_0101_0101)) - sums) & each;
    let byte = before.count_ones() as usize * 8;
    let mut rest = word >> byte;
    let below = (sums << 8 >> byte & 0xff) as usize;
    for _ in below..rank {
        rest &= rest - 1;
    }
    Ok(byte + rest.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            numbers in proptest::collection::vec((any::<u64>(), 0u32..=64), 0..60),
        ) {
            let mut writer = BitWriter::default();
            for &(number, width) in &numbers {
                writer.push(number & ones(width), width);
            }
            let mut at = 0;
            for &(number, width) in &numbers {
                prop_assert_eq!(get(writer.bytes(), at, width), number & ones(width));
                at += width as usize;
            }
            prop_assert_eq!(writer.bytes().len(), at.div_ceil(8));
            prop_assert_eq!(word(writer.bytes(), at), 0);
            let bits = numbers.iter().map(|&(n, w)| (n & ones(w)).count_ones() as usize);
            prop_assert_eq!(count_ones(writer.bytes(), 0, at), bits.sum::<usize>());
        }

        #[test]
        fn select_finds_the_bit(word: u64, sparse: u64, rank in 0usize..70) {
            for word in [word, word & sparse, word | sparse, 0, u64::MAX] {
                let places: Vec<usize> = (0..64).filter(|at| word >> at & 1 == 1).collect();
                let found = places.get(rank).copied().ok_or(places.len());
                prop_assert_eq!(select(word, rank), found);
            }
        }
    }
}
