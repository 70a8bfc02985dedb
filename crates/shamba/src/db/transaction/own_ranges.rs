//! Ranges that a transaction deleted, of one keyspace: plain data. They do not meet, and are in
//! order.

use crate::base::fragment::is_before;

/// What a range takes beside its keys, twice: in a list that grows by doubling, and among what the
/// transaction depends on.
const RANGE_BYTES: usize = 512;

/// Ranges of keys.
#[derive(Debug, Default)]
pub(super) struct OwnRanges {
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl OwnRanges {
    /// The most bytes that a range takes.
    pub(super) fn bytes_of(start: &[u8], end: &[u8]) -> usize {
        RANGE_BYTES + start.len() + end.len()
    }

    /// Adds the keys from one to another, which is not among them; an empty one is no end.
    pub(super) fn add(&mut self, start: &[u8], end: &[u8]) {
        let (mut start, mut end) = (start.to_vec(), end.to_vec());
        // One range is made of those that meet it.
        let first = self
            .ranges
            .partition_point(|(_, to)| !to.is_empty() && *to < start);
        let meeting = self.ranges.get(first..).unwrap_or_default();
        let count = meeting.partition_point(|(from, _)| end.is_empty() || *from <= end);
        for (from, to) in self.ranges.drain(first..first + count) {
            start = start.min(from);
            end = if end.is_empty() || to.is_empty() {
                Vec::new()
            } else {
                end.max(to)
            };
        }
        self.ranges.insert(first, (start, end));
    }

    /// Whether a key is in one of them.
    pub(super) fn cover(&self, key: &[u8]) -> bool {
        let begun = self
            .ranges
            .partition_point(|(start, _)| start.as_slice() <= key);
        let last = begun.checked_sub(1).and_then(|last| self.ranges.get(last));
        last.is_some_and(|(_, end)| is_before(key, end))
    }

    /// Each range.
    pub(super) fn all(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_that_was_added_is_covered(
            added in prop::collection::vec((0u8..20, 0u8..21), 0..12),
            from_first in 0usize..12,
        ) {
            let mut ranges = OwnRanges::default();
            let mut covered = [false; 20];
            for (number, (from, to)) in added.into_iter().enumerate() {
                // Past the last key there is no end.
                let end = if to == 20 { Vec::new() } else { vec![to] };
                // The empty key is before all others.
                let from = if number == from_first { 0 } else { from };
                let start = if number == from_first { Vec::new() } else { vec![from] };
                if from < to {
                    ranges.add(&start, &end);
                    covered[usize::from(from)..usize::from(to)].fill(true);
                }
            }
            for (key, expected) in covered.iter().enumerate() {
                prop_assert_eq!(ranges.cover(&[key as u8]), *expected, "{}", key);
            }
            for pair in ranges.all().windows(2) {
                prop_assert!(!pair[0].1.is_empty() && pair[0].1 < pair[1].0);
            }
        }
    }
}
