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

/// The bytes that what is known of tables takes before new ones become larger than was asked for: as many times
/// as it takes this. With half of it they do so sooner, and merges come in larger portions; with twice of it
/// lists of all tables take as much again of a small budget.
pub(crate) fn easily_known(limit: u64) -> u64 {
    limit / 8
}

/// The most bytes that the list of tables which a merge or flush writes takes.
pub(crate) fn new_tables(limit: u64) -> u64 {
    limit / 6
}

/// What memtables, iterators and merges have shares of where what is known of files takes so many bytes. Their
/// shares leave an eighth of the limit, of which that is a part: so much of it takes nothing from them.
pub(super) fn left_by_files(limit: u64, files: u64) -> u64 {
    let more = files.saturating_sub(limit / 8);
    limit
        .saturating_sub(more)
        .max(beside_files(limit).min(limit))
}

/// Bytes of what is known of tables from which on they should become fewer: with long keys a flush is refused
/// from about half of the limit on, which would stall writes for as long as merges take.
pub(crate) fn many_of_files(limit: u64) -> u64 {
    most_of_files(limit) / 2
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

/// The most bytes that one memtable takes: the one filling and those being flushed leave more than half for
/// everything else.
pub(crate) fn max_memtable_bytes(limit: u64) -> u64 {
    limit / 8
}

/// What is left to those who read and merge entries of the largest size, where the budget is small: two of
/// the least budget's.
const LEFT_BY_MEMTABLES: u64 = 128 << 10;

/// The bytes that all memtables may take before writers wait for flushes: half of the budget, but for a
/// constant that only small budgets feel.
pub(crate) fn memtable_share(limit: u64) -> u64 {
    limit / 2 - LEFT_BY_MEMTABLES.min(limit / 8)
}

/// The longest value accepted, in bytes. With half of it users split what they need not; with twice of it
/// what a merge must hold at once, which is two of them, would not fit beside memtables.
pub(crate) fn most_of_value(limit: u64) -> u64 {
    limit / 16
}

/// The longest key accepted, in bytes. What holds several keys (an open table three, an input of a merge
/// two more) takes a small part of the budget then. With half of it users shorten what they need not; with twice
/// of it iterators over as many runs as level 0 may have do not fit their share.
pub(crate) fn most_of_key(limit: u64) -> u64 {
    limit.max(MIN_MEMORY) / 64
}

/// Bytes of a table's smallest and largest key from which on they are much of the budget: tables of such keys must be
/// few.
pub(crate) fn long_keys_of_table(limit: u64) -> u64 {
    limit / 1024
}

/// The least limit under which a key may take so many bytes.
pub(crate) fn least_limit_for_key(bytes: u64) -> u64 {
    bytes.saturating_mul(64).max(MIN_MEMORY)
}

/// Bytes of a table's top-level index, and of a partition's index, at which a table is ended: open tables are many
/// and all have theirs. With half of it tables of long keys that share little are more; twice of it, and two
/// keys, is what each input of a merge holds.
pub(crate) fn most_of_index(limit: u64) -> u64 {
    limit / 64
}

/// The most bytes that a table's properties and top-level index may take as they are read: twice what they have if
/// written under the same budget. With half of it a budget that is made smaller refuses them
/// sooner; with twice of it two that are opened at once would have half of the budget.
pub(crate) fn most_of_meta(limit: u64) -> u64 {
    limit.max(MIN_MEMORY) / 8
}

/// The least limit under which they may take so many bytes.
pub(crate) fn least_limit_for_meta(bytes: u64) -> u64 {
    bytes.saturating_mul(8).max(MIN_MEMORY)
}

/// The most bytes of keys that the inputs of a merge hold together.
pub(crate) fn merge_keys(limit: u64) -> u64 {
    limit / 8
}

/// Bytes of memtables that are flushed together, which are given back late. A table is synced in a fraction
/// of a millisecond, in which hundreds of KiB are written: of larger memtables more would gain nothing.
pub(crate) fn flushed_together(limit: u64) -> u64 {
    (limit / 256).min(1 << 20)
}

/// Bytes of a log's buffer, of as many databases as share the budget.
pub(crate) fn log_buffer(limit: u64, databases: u64) -> usize {
    let each = limit / 64 / databases.max(1);
    usize::try_from(each.clamp(4 << 10, 64 << 10)).unwrap_or(64 << 10)
}

/// Memtables that take so many bytes together are flushed at once when memory is short: a part of their
/// share, and of that each database's. All keyspaces are looked through once for each such part, and one log
/// is closed. With half of it both happen twice as often; twice of it is memory that is not written to while
/// it is flushed.
pub(crate) fn frozen_together(share: u64, databases: u64) -> u64 {
    share / 8 / databases.max(1)
}

/// Bytes of a table that are written at once: under a small budget a larger part of it, for a short write
/// takes a device nearly as long.
pub(crate) fn table_buffer(limit: u64) -> u64 {
    (limit / 128).max((32 << 10).min(limit / 32)).min(128 << 10)
}

/// The most keys of a table whose filter is over all of them: a digest and the filter's bits then take less
/// than a tenth of the budget.
pub(crate) fn keys_of_whole_filter(limit: u64) -> u64 {
    limit / 256
}

/// The most keys of a partition, as far as the budget says: less is gathered before it is written.
pub(crate) fn partition_keys(limit: u64) -> u32 {
    u32::try_from(limit / 1024).unwrap_or(u32::MAX)
}

/// The most bytes of blocks that the inputs of a merge hold together. Several merges may run. With half of
/// it merges have fewer inputs and go over the data more often.
pub(crate) fn merge_inputs(limit: u64) -> u64 {
    limit / 16
}

/// The bytes that a merge reads ahead, of all inputs together, so that what cannot do without memory finds
/// some.
pub(crate) fn merge_readahead(limit: u64) -> u64 {
    limit / 16
}

/// The least limit for so many databases that write under one budget: of each a log, a memtable of some pages,
/// tables that are open and what is flushed and merged. With half of it each database of many waits for
/// others with nearly every write.
pub(crate) fn least_limit_for_databases(databases: u64) -> u64 {
    (databases.saturating_mul(32 << 10)).max(MIN_MEMORY)
}

/// The most bytes that keyspaces take, without their memtables, tables and counters: another is refused. With
/// half of it half as many are allowed; twice of it leaves too little to read and write them with.
pub(crate) fn most_of_keyspaces(limit: u64) -> u64 {
    limit / 8 * 3
}

/// The least limit under which keyspaces may take so many bytes.
pub(crate) fn least_limit_for_keyspaces(bytes: u64) -> u64 {
    bytes.div_ceil(3).saturating_mul(8).max(MIN_MEMORY)
}

/// The most bytes that the list of snapshots takes. Of what has no place in it all entries are kept: with half
/// of it that begins with half as many snapshots.
pub(crate) fn snapshot_list(limit: u64) -> u64 {
    limit / 64
}

/// The most bytes of blocks that a flush or merge keeps to offer them to the cache.
pub(crate) fn prepopulation(limit: u64) -> u64 {
    limit / 8
}

/// The bytes of a buffer to copy a file with.
pub(crate) fn copy_buffer(limit: u64) -> u64 {
    (limit / 16).min(256 << 10)
}

/// The bytes of each of two buffers with which a device is measured.
pub(crate) fn measuring_buffer(limit: u64) -> u64 {
    (limit / 64).min(256 << 10)
}

/// How many keys, of so many bytes each, are looked up together: as many as half of the share of all such
/// batches holds, so that two go on at once.
pub(crate) fn keys_looked_up_together(limit: u64, each: u64) -> u64 {
    limit / 32 / each.max(1)
}

/// The most bytes of blocks that the values of one call hold; further values are copied. A caller of
/// single lookups can let go of some, a caller of this cannot.
pub(crate) fn pinned_by_values(limit: u64) -> u64 {
    limit / 16
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
            assert!(most_of_meta(least_limit_for_meta(bytes)) >= bytes);
            assert!(most_of_key(least_limit_for_key(bytes)) >= bytes);
            for (least, most) in [
                (
                    least_limit_for_batch(bytes),
                    most_of_batch as fn(u64) -> u64,
                ),
                (least_limit_for_block(bytes), most_of_block),
                (least_limit_for_meta(bytes), most_of_meta),
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
