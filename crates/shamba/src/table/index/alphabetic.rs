//! How long the words of a code are that keeps the order of its symbols. Pure functions.

/// The lengths of the words of such a code that is shortest over all, where symbols are as
/// frequent as these (Garsia and Wachs, *A new algorithm for minimum cost binary trees*, 1977).
pub(super) fn lengths(weights: &[u64]) -> Vec<u8> {
    // Pairs are joined from the left; a pair goes back to before what is lighter than it.
    let mut pairs: Vec<[usize; 2]> = Vec::with_capacity(weights.len());
    let mut row: Vec<(u64, usize)> = weights.iter().copied().zip(0..).collect();
    loop {
        let joined = row.iter().zip(row.iter().skip(1)).enumerate();
        let mut joined = joined.filter(|(at, (left, _))| {
            let after = row.get(at + 2);
            after.is_none_or(|after| left.0 <= after.0)
        });
        let Some((at, (left, right))) = joined.next() else {
            break;
        };
        let (weight, pair) = (left.0.saturating_add(right.0), [left.1, right.1]);
        row.drain(at..at + 2);
        let before = row.iter().take(at).rposition(|other| other.0 >= weight);
        let to = before.map_or(0, |before| before + 1);
        row.insert(to, (weight, weights.len() + pairs.len()));
        pairs.push(pair);
    }
    // As deep in the tree as a symbol is, so long is its word.
    let mut depths = vec![0u8; weights.len() + pairs.len()];
    for (node, pair) in pairs.iter().enumerate().rev() {
        let own = depths.get(weights.len() + node).copied().unwrap_or(0);
        for &child in pair {
            if let Some(depth) = depths.get_mut(child) {
                *depth = own.saturating_add(1);
            }
        }
    }
    depths.truncate(weights.len());
    depths
}

/// The same where the words differ by so many bits at the most, and none has more than that:
/// rare symbols count as if they were not so rare.
pub(super) fn limited_lengths(weights: &[u64], differ: u8, most: u8) -> Vec<u8> {
    let total: u64 = weights.iter().sum();
    let mut least = 1;
    loop {
        let raised: Vec<u64> = weights.iter().map(|weight| *weight.max(&least)).collect();
        let lengths = lengths(&raised);
        let shortest = lengths.iter().min().copied().unwrap_or(0);
        let longest = lengths.iter().max().copied().unwrap_or(0);
        if longest <= most.min(shortest.saturating_add(differ)) || least > total {
            return lengths;
        }
        // A symbol of this part of the whole has not many more bits than its logarithm.
        least = (2 * least).max(total >> most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The least weighted length, by trying every root.
    fn least(weights: &[u64]) -> u64 {
        let count = weights.len();
        let sum = |from: usize, to: usize| weights[from..=to].iter().sum::<u64>();
        let mut costs = vec![vec![0; count]; count];
        for len in 1..count {
            for from in 0..count - len {
                let to = from + len;
                let split = (from..to).map(|at| costs[from][at] + costs[at + 1][to]);
                costs[from][to] = split.min().unwrap_or(0) + sum(from, to);
            }
        }
        costs[0][count - 1]
    }

    /// Words of these lengths, each the next after the one before, fill the code.
    fn is_code(lengths: &[u8]) -> bool {
        let mut next = 0u64;
        for &len in lengths {
            let size = 1u64 << (60 - len);
            if !next.is_multiple_of(size) {
                return false;
            }
            next += size;
        }
        next == 1 << 60
    }

    proptest! {
        #[test]
        fn codes_are_shortest(
            weights in proptest::collection::vec(prop_oneof![1u64..4, 1u64..10_000], 1..40),
        ) {
            let lengths = lengths(&weights);
            prop_assert!(is_code(&lengths));
            let cost = |(weight, len): (&u64, &u8)| weight * u64::from(*len);
            let cost: u64 = weights.iter().zip(&lengths).map(cost).sum();
            prop_assert_eq!(cost, least(&weights));
        }

        #[test]
        fn words_are_as_long_as_allowed(
            shifts in proptest::collection::vec(0u32..40, 1..=257),
        ) {
            let weights: Vec<u64> = shifts.iter().map(|shift| 1 << shift).collect();
            let lengths = limited_lengths(&weights, 7, 12);
            prop_assert!(is_code(&lengths));
            let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
            prop_assert!(most - least <= 7 && *most <= 12);
        }
    }
}
