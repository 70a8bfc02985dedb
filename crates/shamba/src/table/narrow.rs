//! Numbers side by side, each in as few bytes as the largest needs: tables stay open, and have some for
//! each of their partitions. Immutable.

/// Numbers of one, two or four bytes each.
#[derive(Debug)]
pub(super) enum Narrow {
    Bytes(Box<[u8]>),
    Shorts(Box<[u16]>),
    Words(Box<[u32]>),
}

impl Narrow {
    pub(super) fn new(numbers: &[u32]) -> Narrow {
        match numbers.iter().max() {
            Some(most) if *most > u32::from(u16::MAX) => Narrow::Words(numbers.into()),
            Some(most) if *most > u32::from(u8::MAX) => {
                Narrow::Shorts(numbers.iter().map(|&number| number as u16).collect())
            }
            _ => Narrow::Bytes(numbers.iter().map(|&number| number as u8).collect()),
        }
    }

    /// The number at a place.
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<u32> {
        match self {
            Narrow::Bytes(numbers) => numbers.get(at).copied().map(u32::from),
            Narrow::Shorts(numbers) => numbers.get(at).copied().map(u32::from),
            Narrow::Words(numbers) => numbers.get(at).copied(),
        }
    }

    /// Memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Narrow::Bytes(numbers) => size_of_val(&**numbers),
            Narrow::Shorts(numbers) => size_of_val(&**numbers),
            Narrow::Words(numbers) => size_of_val(&**numbers),
        }
    }
}

impl Default for Narrow {
    fn default() -> Self {
        Narrow::new(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_what_the_largest_needs() {
        let width = |most| Narrow::new(&[0, most]).memory() / 2;
        assert_eq!([0, 255].map(width), [1, 1]);
        assert_eq!([256, 65_535].map(width), [2, 2]);
        assert_eq!([65_536, u32::MAX].map(width), [4, 4]);
        for most in [0, 255, 256, 65_535, 65_536, u32::MAX] {
            let numbers = [1, most, 0];
            let narrow = Narrow::new(&numbers);
            for (at, number) in numbers.into_iter().enumerate() {
                assert_eq!(narrow.get(at), Some(number));
            }
            assert_eq!(narrow.get(3), None);
        }
    }
}
