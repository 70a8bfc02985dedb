//! Bits from the most significant of each byte on, so that words of them order as they do. Plain
//! data; what lies behind the end reads as 0.

/// The 64 bits from bit `at` on, the first of them uppermost.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let shift = (at % 8) as u32;
    let rest = bytes.get(at / 8..).unwrap_or_default();
    match rest.first_chunk::<9>() {
        // Two shifts, since one by 8 would lose a byte where it is by none.
        Some([head @ .., last]) => {
            u64::from_be_bytes(*head) << shift | u64::from(*last) >> 1 >> (7 - shift)
        }
        None => short_word(rest, shift),
    }
}

/// As many bits from any place on are in one load.
#[cfg(test)]
pub(super) const HEAD: u32 = u64::BITS - 7;

/// The [`HEAD`] bits from bit `at` on, the first of them uppermost, and zeros or more of them.
#[inline]
pub(super) fn head(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at / 8..).unwrap_or_default();
    match rest.first_chunk() {
        Some(head) => u64::from_be_bytes(*head) << (at % 8),
        None => short_word(rest, (at % 8) as u32),
    }
}

/// The same, of the last bytes.
#[cold]
fn short_word(rest: &[u8], shift: u32) -> u64 {
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    (u128::from_be_bytes(padded) << shift >> 64) as u64
}

/// So many (at most 64) high bits.
#[inline]
pub(super) const fn high_ones(width: u32) -> u64 {
    !u64::MAX.unbounded_shr(width)
}

/// Writes bits behind each other, at the end of some bytes.
pub(super) struct BitString<'a> {
    bytes: &'a mut Vec<u8>,
    /// Where the bits begin.
    from: usize,
    /// Bits so far.
    len: usize,
}

impl<'a> BitString<'a> {
    /// No bits yet, after what the bytes have.
    pub(super) fn after(bytes: &'a mut Vec<u8>) -> Self {
        let from = bytes.len();
        BitString {
            bytes,
            from,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends the `width` (at most 64) high bits of a word.
    pub(super) fn push(&mut self, word: u64, width: u32) {
        let mut word = word & high_ones(width);
        let mut left = width;
        // First what the last byte has room for.
        let used = (self.len % 8) as u32;
        if used > 0
            && let Some(last) = self.bytes.last_mut()
        {
            *last |= (word >> 56 >> used) as u8;
            word <<= 8 - used;
            left = left.saturating_sub(8 - used);
        }
        let bytes = word.to_be_bytes();
        let bytes = bytes.get(..left.div_ceil(8) as usize);
        self.bytes.extend_from_slice(bytes.unwrap_or_default());
        self.len += width as usize;
    }

    /// Appends a number in so many bits.
    pub(super) fn push_number(&mut self, number: usize, width: u32) {
        self.push((number as u64).unbounded_shl(u64::BITS - width), width);
    }

    /// Appends bits of others.
    pub(super) fn copy(&mut self, bytes: &[u8], from: usize, len: usize) {
        for at in (0..len).step_by(64) {
            let width = (len - at).min(64) as u32;
            self.push(word(bytes, from + at), width);
        }
    }

    /// Leaves so many bits, or fills up to them with zeros.
    pub(super) fn resize(&mut self, len: usize) {
        self.bytes.resize(self.from + len.div_ceil(8), 0);
        if len < self.len
            && let Some(last) = self.bytes.get_mut(self.from..).and_then(<[u8]>::last_mut)
        {
            *last &= u8::MAX << (len.wrapping_neg() % 8);
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            numbers in proptest::collection::vec((any::<u64>(), 0u32..=64), 0..60),
            before in any::<Vec<u8>>(),
            kept in 0usize..4000,
        ) {
            let mut bytes = before.clone();
            let mut bits = BitString::after(&mut bytes);
            let mut at = 0;
            for &(number, width) in &numbers {
                bits.push(number, width);
                prop_assert_eq!(word(&bits.bytes[bits.from..], at), number & high_ones(width));
                let own = &bits.bytes[bits.from..];
                prop_assert_eq!(head(own, at) & high_ones(HEAD), word(own, at) & high_ones(HEAD));
                at += width as usize;
            }
            prop_assert_eq!(bits.len(), at);
            let mut again = Vec::new();
            let mut copy = BitString::after(&mut again);
            let mut at = 0;
            for &(_, width) in &numbers {
                copy.copy(&bits.bytes[bits.from..], at, width as usize);
                at += width as usize;
            }
            prop_assert_eq!(&copy.bytes[..], &bits.bytes[bits.from..]);
            copy.resize(kept);
            for place in (0..at.max(kept)).step_by(13) {
                let left = kept.saturating_sub(place).min(64) as u32;
                let own = word(&bits.bytes[bits.from..], place);
                prop_assert_eq!(word(&copy.bytes[..], place), own & high_ones(left));
            }
            prop_assert!(bytes.starts_with(&before));
        }
    }
}
