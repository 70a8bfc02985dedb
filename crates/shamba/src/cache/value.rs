//! How much a cached block is worth keeping: a pure function of what is known of it.
//!
//! Hyperbolic caching: uses per unit of time since the block came in, per byte it occupies. A block
//! that was never used again after it came in counts as a small part of one use, so that a scan's
//! blocks leave before those of a working set. Time is counted in accesses to the block's shard.

/// How a block was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Priority {
    /// Data, and filter modules that are rarely needed.
    Low,
    /// Blocks that nearly every lookup in their range needs (indexes, first filter modules).
    High,
}

/// What one use of a high-priority block counts, in uses of a low-priority one.
const HIGH_WEIGHT: f32 = 4.0;

/// One use, in the units in which uses are counted: fractions, since counts are halved again and
/// again.
pub(super) const USE: u16 = 16;

/// What a block counts that was not used since it came in, in those units.
const UNUSED: f32 = 1.0;

/// The value of keeping a block; the one with the least value is evicted. `uses` are those since
/// it came in, in units of 1 / [`USE`], `age` the accesses to its shard since then, `size` its charge in bytes.
#[inline]
pub(super) fn keep_value(priority: Priority, uses: u16, age: u32, size: u32) -> f32 {
    let weight = match priority {
        Priority::Low => 1.0,
        Priority::High => HIGH_WEIGHT,
    };
    (f32::from(uses) + UNUSED) * weight / ((age as f32 + 1.0) * (size as f32 + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{High, Low};

    #[test]
    fn more_use_in_less_time_and_space_is_worth_more() {
        let base = keep_value(Low, 4 * USE, 100, 4096);
        assert!(keep_value(Low, 5 * USE, 100, 4096) > base);
        assert!(keep_value(Low, 4 * USE, 101, 4096) < base);
        assert!(keep_value(Low, 4 * USE, 100, 1024) > base);
        assert!(keep_value(High, 4 * USE, 100, 4096) > base);
    }

    #[test]
    fn priority_decides_only_between_comparable_blocks() {
        assert!(keep_value(High, 2 * USE, 100, 4096) > keep_value(Low, 4 * USE, 100, 4096));
        assert!(keep_value(High, 0, 1000, 4096) < keep_value(Low, 40, 1000, 4096));
    }

    #[test]
    fn a_working_set_outlives_a_scan() {
        let hot = keep_value(Low, 8 * USE, 20_000, 4096);
        let scanned = keep_value(Low, 0, 500, 4096);
        assert!(hot > scanned);
        assert!(keep_value(Low, 0, u32::MAX, u32::MAX) > 0.0);
    }
}
