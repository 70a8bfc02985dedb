//! Numbers side by side, each in as few bytes as the largest needs. Open tables have some for each
//! of their partitions, and stay in memory. Plain data.

/// How wide each of some numbers is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum PackedInts {
    #[default]
    Bytes,
    Shorts,
    Words,
}

impl PackedInts {
    /// The least width that suffices.
    pub(super) fn of(numbers: &[u32]) -> PackedInts {
        match numbers.iter().max() {
            Some(most) if *most > u32::from(u16::MAX) => PackedInts::Words,
            Some(most) if *most > u32::from(u8::MAX) => PackedInts::Shorts,
            _ => PackedInts::Bytes,
        }
    }

    /// Bytes that so many numbers take.
    #[inline]
    pub(super) const fn bytes(self, count: usize) -> usize {
        match self {
            PackedInts::Bytes => count,
            PackedInts::Shorts => 2 * count,
            PackedInts::Words => 4 * count,
        }
    }

    /// Appends numbers that are no larger than those it was chosen for.
    pub(super) fn put(self, out: &mut Vec<u8>, numbers: &[u32]) {
        for number in numbers {
            let bytes = number.to_le_bytes();
            out.extend_from_slice(bytes.get(..self.bytes(1)).unwrap_or_default());
        }
    }

    /// The number at a place of those that begin at `from` in `bytes`; `None` behind the end of
    /// these.
    #[inline]
    pub(super) fn get(self, bytes: &[u8], from: usize, at: usize) -> Option<u32> {
        let bytes = bytes.get(from + self.bytes(at)..)?;
        match self {
            PackedInts::Bytes => bytes.first().copied().map(u32::from),
            PackedInts::Shorts => bytes
                .first_chunk()
                .map(|short| u16::from_le_bytes(*short).into()),
            PackedInts::Words => bytes.first_chunk().map(|word| u32::from_le_bytes(*word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_what_the_largest_needs() {
        let width = |most| PackedInts::of(&[0, most]).bytes(1);
        assert_eq!([0, 255].map(width), [1, 1]);
        assert_eq!([256, 65_535].map(width), [2, 2]);
        assert_eq!([65_536, u32::MAX].map(width), [4, 4]);
        for most in [0, 255, 256, 65_535, 65_536, u32::MAX] {
            let numbers = [1, most, 0];
            let narrow = PackedInts::of(&numbers);
            let mut bytes = vec![7; 3];
            narrow.put(&mut bytes, &numbers);
            assert_eq!(bytes.len(), 3 + narrow.bytes(3));
            for (at, number) in numbers.into_iter().enumerate() {
                assert_eq!(narrow.get(&bytes, 3, at), Some(number));
            }
            assert_eq!(narrow.get(&bytes, 3, 3), None);
            assert_eq!(narrow.get(&bytes, 3, 100), None);
        }
    }
}
