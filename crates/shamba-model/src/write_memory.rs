//! How long a memtable had best gather entries where its memory would save lookups reads.
//!
//! Memory that a memtable takes saves merges: one that is `e` times as large is flushed `e` times
//! as seldom, and each of its entries comes to rest by `k` fewer merges ([`merges_saved`]). The
//! same memory would save lookups `r` reads a byte with each access to the cache. After Luo, Carey,
//! "Breaking Down Memory Walls: Adaptive Memory Management in LSM-based Storage Systems" (PVLDB 14,
//! 2020), who give memory to whichever saves more by the byte, measured as both go on. Here both
//! are known when a memtable could be flushed: of `w` bytes written with each access, one of `M`
//! bytes costs, with each access,
//!
//! `r M / 2 + w / P (c - k ln M)`
//!
//! reads: half of `M` is held on average, and a page of `P` bytes that is merged, which is read and
//! written in long sequences, counts as the read of one by a lookup. That is least at `M = 2 k w /
//! (P r)`, which is there after `M / w = 2 k / (P r)` accesses ([`accesses_to_gather`]): however
//! many are written.

use crate::tree::MergePolicy;

/// By how many merges fewer each entry comes to rest if memtables are `e` times as large: what a
/// level takes ([`merging::engine`](crate::merging::engine)), of which there are `1 / ln T` fewer.
#[must_use]
pub fn merges_saved(policy: MergePolicy, size_ratio: u32) -> f64 {
    let t = f64::from(size_ratio.max(2));
    let of_level = match policy {
        MergePolicy::Leveling => (t - 1.0) / 2.0,
        // Of levels above the last, of which there are fewer.
        MergePolicy::Tiering | MergePolicy::LazyLeveling => 1.0,
    };
    of_level / t.ln()
}

/// The accesses to the cache in which a memtable had best gather, where a byte of its memory would
/// save `reads` page reads with each and pages have `page` bytes; infinite where it would save
/// none.
#[must_use]
pub fn accesses_to_gather(merges_saved: f64, reads: f64, page: f64) -> f64 {
    if reads > 0.0 {
        2.0 * merges_saved / (page * reads)
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merging;
    use crate::tree::Tree;

    #[test]
    fn a_memtable_of_that_age_costs_least() {
        let (page, merges) = (4096.0, 1.08);
        for reads in [1e-9, 4e-8, 1e-6] {
            for written in [3.0, 64.0, 500.0] {
                let cost = |bytes: f64| reads * bytes / 2.0 - written / page * merges * bytes.ln();
                let best = written * accesses_to_gather(merges, reads, page);
                for other in [0.5, 0.9, 1.1, 2.0] {
                    assert!(cost(best) < cost(best * other), "{reads} {written} {other}");
                }
            }
        }
        assert_eq!(accesses_to_gather(merges, 0.0, page), f64::INFINITY);
    }

    /// A tree of one level more, whose buffer is `T` times smaller, merges so much more.
    #[test]
    fn merges_saved_are_those_of_trees_with_fewer_levels() {
        for policy in MergePolicy::ALL {
            for ratio in [3, 4, 10] {
                let merges = |levels| {
                    let tree = Tree::new(policy, ratio, levels, 1e6).unwrap();
                    merging::engine(&tree).merges
                };
                let more = merges(9) - merges(8);
                let saved = merges_saved(policy, ratio) * f64::from(ratio).ln();
                assert!((more - saved).abs() < 0.01, "{policy:?} {ratio}: {more}");
            }
        }
    }
}
