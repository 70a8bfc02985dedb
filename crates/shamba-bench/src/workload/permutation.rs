//! A seeded random order of the numbers below `n`, in constant memory.
//!
//! Loads "in random order" and scrambled Zipf both need a bijection on `0..n`: shuffling a list
//! would take 128 MB for 16 million entries, inside the process whose memory is measured.
use super::mix;

/// A bijection on `0..n`: a four-round Feistel network over the next even power of two, walked
/// until it lands inside.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// The permutation of `0..n` that belongs to `seed`.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Self {
            n,
            half_bits: bits.div_ceil(2).max(1),
            keys: [1, 2, 3, 4].map(|round| mix(seed ^ mix(round))),
        }
    }

    /// Where number `index` goes. `index` must be below `n`.
    pub fn apply(&self, index: u64) -> u64 {
        debug_assert!(index < self.n);
        let mut at = index;
        loop {
            at = self.round_trip(at);
            if at < self.n {
                return at;
            }
        }
    }

    fn round_trip(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_exactly_once() {
        for n in [1, 2, 3, 5, 64, 1000, 4097] {
            let order = Permutation::new(n, 7);
            let mut seen: Vec<u64> = (0..n).map(|i| order.apply(i)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..n).collect::<Vec<_>>(), "n = {n}");
        }
    }

    #[test]
    fn the_order_depends_on_the_seed_and_is_not_the_identity() {
        let [one, two] = [1, 2].map(|seed| {
            let order = Permutation::new(1000, seed);
            (0..1000).map(|i| order.apply(i)).collect::<Vec<u64>>()
        });
        assert_ne!(one, two);
        let fixed = (0..).zip(&one).filter(|(i, v)| i == *v).count();
        assert!(fixed < 20, "{fixed} fixed points");
    }
}
