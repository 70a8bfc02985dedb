//! How much of the limit some of what it bounds may have.

use super::MIN_MEMORY;

/// What is left to everything else at least, where tables are many: an eighth of the limit, and not less
/// than half of the least limit. With half of it a large database would have no memory to cache and merge
/// with; with twice of it a seventh fewer tables could be known.
fn beside_files(limit: u64) -> u64 {
    (limit / 8).max(MIN_MEMORY / 2)
}

/// The most bytes that what the manifest says of tables may take: an open that needs more is refused, and
/// so are flushes that would.
pub(crate) fn most_of_files(limit: u64) -> u64 {
    limit.saturating_sub(beside_files(limit))
}

/// The most bytes that what is remembered of tables which were read may take. It is not forgotten while the
/// files are there, so that a table that finds no room is opened for each lookup. With half of it tables
/// are opened so when half as many were read; twice of it would take from what tables themselves leave.
pub(crate) fn most_of_seen(limit: u64) -> u64 {
    limit / 16
}

/// The most bytes that all iterators may hold: what they cannot have is refused to them. With half of it
/// fewer of them are held under the least limit, or of larger values; twice of it would be taken from what
/// writes and merges cannot do without.
pub(crate) fn most_of_iterators(limit: u64) -> u64 {
    limit.max(MIN_MEMORY) / 4
}

/// The most bytes that a batch may take in memtables, and its record in the log that is read at recovery: what all
/// memtables may have under the least budget. With half of it batches must be smaller; twice of it is more
/// than memtables may have, so that a batch could be logged for which there is no room.
pub(crate) fn most_of_batch(limit: u64) -> u64 {
    limit / 8 * 3
}

/// The least limit under which a batch may take so many bytes.
pub(crate) fn least_limit_for_batch(bytes: u64) -> u64 {
    (bytes.div_ceil(3).saturating_mul(8)).max(MIN_MEMORY)
}

/// The most bytes that a data block may take as it is stored and decompressed. One that is larger was written
/// under a larger budget. With half of it, what was written is refused sooner where the budget was made
/// smaller; with all of the limit the least that is beside it would go over.
pub(crate) fn most_of_block(limit: u64) -> u64 {
    limit.max(MIN_MEMORY) / 8 * 7
}

/// The least limit under which a block may take so many bytes.
pub(crate) fn least_limit_for_block(bytes: u64) -> u64 {
    (bytes.div_ceil(7).saturating_mul(8)).max(MIN_MEMORY)
}

/// The most bytes of cached blocks that may be pinned: of the least limit 42 pages, so that a scan holds the
/// blocks it is in of as many runs as level 0 may have. With half of it they are read again for each entry;
/// twice of it would leave too little beside memtables and merges.
pub(super) fn most_of_pins(limit: u64) -> u64 {
    limit / 6
}

/// The least limit under which files may take so many bytes.
pub(crate) fn least_limit_for_files(bytes: u64) -> u64 {
    let by_share = bytes.div_ceil(7).saturating_mul(8);
    let least = bytes.saturating_add(MIN_MEMORY / 2);
    by_share.max(least).max(MIN_MEMORY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limits_are_just_enough() {
        for bytes in [1, MIN_MEMORY / 4, MIN_MEMORY / 4 + 1, 5 << 20] {
            assert!(most_of_batch(least_limit_for_batch(bytes)) >= bytes);
            assert!(most_of_block(least_limit_for_block(bytes)) >= bytes);
            for (least, most) in [
                (
                    least_limit_for_batch(bytes),
                    most_of_batch as fn(u64) -> u64,
                ),
                (least_limit_for_block(bytes), most_of_block),
            ] {
                assert!(least == MIN_MEMORY || most(least - 8) < bytes, "{bytes}");
            }
        }
    }

    #[test]
    fn the_least_limit_for_files_is_just_enough() {
        assert_eq!(most_of_files(64 << 20), 56 << 20);
        assert_eq!(most_of_files(MIN_MEMORY), MIN_MEMORY / 2);
        for bytes in [
            0,
            1000,
            MIN_MEMORY,
            (5 << 20) + 3,
            (56 << 20) + 1,
            u64::from(u32::MAX),
        ] {
            let least = least_limit_for_files(bytes);
            assert!(most_of_files(least) >= bytes, "{bytes}");
            // Of eight in a row one is not divided evenly.
            assert!(
                least == MIN_MEMORY || most_of_files(least - 8) < bytes,
                "{bytes}"
            );
        }
    }
}
