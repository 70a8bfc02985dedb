//! How the one limit is divided: every share of it, in one place.
//!
//! What is *held* does not give way when others need memory: it ends when its user is done. So all
//! that can be held at once must find room beside each other, which a test checks at three limits.
//! Each row is the most that all of its kind have together; who needs more is refused, waits, or
//! holds copies of less.
//!
//! | held | 1 MiB | 32 MiB | 1 GiB | who wants more | share |
//! |---|---|---|---|---|---|
//! | memtables | 384 KiB | 15.75 MiB | 512 MiB | waits for a flush | [`memtable_share`] |
//! | iterators | 256 KiB | 8 MiB | 256 MiB | is refused | [`most_of_iterators`] |
//! | pinned blocks | 171 KiB | 1.8 MiB | 51 MiB | copies | [`most_of_pins`] |
//! | merges | 64 KiB | 2 MiB | 64 MiB | waits for other merges | [`merges`] |
//! | flushes | 32 KiB | 1 MiB | 32 MiB | waits for other flushes | [`flushes`] |
//! | batches of lookups | 32 KiB | 1 MiB | 32 MiB | waits for other batches | [`lookups`] |
//! | the log's buffer | 16 KiB | 64 KiB | 64 KiB | writes sooner | [`log_buffer`] |
//! | files and keyspaces | the rest | | | makes all the shares smaller | [`working_limit`] |
//!
//! A single merge, flush or batch that needs more than its kind may have is let in alone, since it
//! can never need less: with the largest entries that is one of about a third of the least limit,
//! and then it waits for what others hold ([`Budget::reserve`](super::Budget::reserve)).
//!
//! All else is *kept*: cached blocks, open tables that nobody uses, buffers. It has whatever is not
//! held, and gives way. The shares of kept things say who goes first; they need not add up.
//!
//! Pure functions of the limit, in bytes.

use super::MIN_MEMORY;

// What is held: the rows of the table.

/// The bytes that all memtables may take before writers wait for flushes: half of the budget, but
/// for a constant that only small budgets feel.
pub(crate) fn memtable_share(limit: u64) -> u64 {
    limit / 2 - LEFT_BY_MEMTABLES.min(limit / 8)
}

/// What is left to those who read and merge entries of the largest size, where the budget is small:
/// four of the least budget's, as far as there is room for them.
const LEFT_BY_MEMTABLES: u64 = 256 << 10;

/// The most bytes that all iterators hold, without blocks that are pinned for them. What they
/// cannot have is refused. With half of it fewer of them are held under the least limit, or of
/// larger values; twice of it would be taken from what writes and merges cannot do without.
pub(super) fn most_of_iterators(limit: u64) -> u64 {
    limit / 4
}

/// The most bytes of cached blocks that are pinned, for iterators and for values: of the least
/// limit 42 pages, so that a scan holds the blocks it is in of as many runs as level 0 may have.
/// Past it blocks are copied. With half of it they are read again for each entry; twice of it does
/// not fit.
pub(super) fn most_of_pins(limit: u64) -> u64 {
    (limit / 6).min(limit / 20 + (192 << 10))
}

/// What all merges may take that run at once, but for one that needs more alone: under the least
/// limit each does. With half of it fewer run at once under larger ones; twice of it does not fit.
pub(super) fn merges(limit: u64) -> u64 {
    limit / 16
}

/// The same for flushes, on the way of merges too: they wait for no merge.
pub(super) fn flushes(limit: u64) -> u64 {
    limit / 32
}

/// The same for batches of lookups. With half of it more of them wait for others; twice of it,
/// beside all else that is held, is more than the least budget has.
pub(super) fn lookups(limit: u64) -> u64 {
    limit / 32
}

/// The bytes of large entries that threads copy at a time on their way to the log. They are charged
/// where something gives way for it, so that they are no row of the table: a share of the cache's.
/// With half of it one of the largest waits until no other is on its way; with double of it, where
/// nothing gives way, twice as much is uncharged.
pub(super) fn large_entries(limit: u64) -> u64 {
    limit / 16
}

/// About the bytes of a piece of a value that is written and read in pieces. With half of it a
/// value is read with twice as many reads; of twice as much not four would be written at a time.
pub(crate) fn piece_of_value(limit: u64) -> u64 {
    (limit / 256).clamp(4 << 10, 256 << 10)
}

/// Bytes of a log's buffer, of as many databases as share the budget.
pub(crate) fn log_buffer(limit: u64, databases: u64) -> usize {
    let each = limit / 64 / databases.max(1);
    usize::try_from(each.clamp(4 << 10, 64 << 10)).unwrap_or(64 << 10)
}

/// What the shares above are of, where files, and what is remembered of them, take so many bytes.
/// The shares leave them a sixteenth of the limit: up to that they take nothing from the others.
pub(super) fn working_limit(limit: u64, files: u64) -> u64 {
    let left = limit.saturating_sub(files);
    (left / 15).saturating_mul(16).min(limit)
}

/// A limit that was made smaller is come down to once what is held takes no more of it than this:
/// half. With half of it, what was begun under the larger one is forgiven for longer; with twice of
/// it what is begun then finds no room.
pub(crate) fn come_down_to(limit: u64) -> u64 {
    limit / 2
}

// What is held of one thing.

/// What is left to everything else at least, where tables are many: an eighth of the limit, and not
/// less than half of the least limit. With half of it a large database would have no memory to
/// cache and merge with; with twice of it a seventh fewer tables could be known.
fn beside_files(limit: u64) -> u64 {
    (limit / 8).max(MIN_MEMORY / 2)
}

/// The most bytes that what the manifest says of tables may take: an open that needs more is
/// refused, and so are flushes that would.
pub(crate) fn most_of_files(limit: u64) -> u64 {
    limit.saturating_sub(beside_files(limit))
}

/// The bytes that what is known of tables takes before new ones become larger than was asked for:
/// as many times as it takes this. With half of it they do so sooner, and merges come in larger
/// portions; with twice of it lists of all tables take as much again of a small budget.
pub(crate) fn easily_known(limit: u64) -> u64 {
    limit / 8
}

/// The most bytes that the list of tables which a merge or flush writes takes.
pub(crate) fn new_tables(limit: u64) -> u64 {
    limit / 6
}

/// Bytes of what is known of tables from which on they should become fewer: with long keys a flush
/// is refused from about half of the limit on, which would stall writes for as long as merges take.
pub(crate) fn many_of_files(limit: u64) -> u64 {
    most_of_files(limit) / 2
}

/// The most bytes that what is remembered of tables which were read may take. It is not forgotten
/// while the files are there, so that a table that finds no room is opened for each lookup. With
/// half of it tables are opened so when half as many were read; twice of it would take from what
/// tables themselves leave.
pub(crate) fn most_of_seen(limit: u64) -> u64 {
    limit / 16
}

/// The most bytes that one memtable takes: the one filling and those being flushed leave more than
/// half for everything else.
pub(crate) fn max_memtable_bytes(limit: u64) -> u64 {
    limit / 8
}

/// The longest value accepted, in bytes. With half of it users split what they need not; with twice
/// of it what a merge must hold at once, which is two of them, would not fit beside memtables.
pub(crate) fn most_of_value(limit: u64) -> u64 {
    limit / 16
}

/// The longest key accepted, in bytes. What holds several keys (an open table three, an input of a
/// merge two more) takes a small part of the budget then. With half of it users shorten what they
/// need not; with twice of it iterators over as many runs as level 0 may have do not fit their
/// share.
pub(crate) fn most_of_key(limit: u64) -> u64 {
    limit.max(MIN_MEMORY) / 64
}

/// Bytes of a table's smallest and largest key from which on they are much of the budget: tables of
/// such keys must be few.
pub(crate) fn long_keys_of_table(limit: u64) -> u64 {
    limit / 1024
}

/// The least limit under which a value may take so many bytes.
pub(crate) fn least_limit_for_value(bytes: u64) -> u64 {
    bytes.saturating_mul(16).max(MIN_MEMORY)
}

/// The least limit under which a key may take so many bytes.
pub(crate) fn least_limit_for_key(bytes: u64) -> u64 {
    bytes.saturating_mul(64).max(MIN_MEMORY)
}

/// Bytes of a table's top-level index, and of a partition's index, at which a table is ended: open
/// tables are many and all have theirs. With half of it tables of long keys that share little are
/// more; twice of it, and two keys, is what each input of a merge holds.
pub(crate) fn most_of_index(limit: u64) -> u64 {
    limit / 64
}

/// The longest key accepted with which a range that is deleted begins or ends, in bytes: an open
/// table holds those of four fragments at least. With about twice of it ranges of such keys that
/// snapshots keep took more than the budget.
pub(crate) fn most_of_range_end(limit: u64) -> u64 {
    limit.max(MIN_MEMORY) / 256
}

/// The least limit under which it may take so many bytes.
pub(crate) fn least_limit_for_range_end(bytes: u64) -> u64 {
    bytes.saturating_mul(256).max(MIN_MEMORY)
}

/// Bytes of range tombstones at which a table is ended that is known by keys of so many bytes: they
/// are in memory while it is open. With half of them tables that have nothing else are twice as
/// many, of which the keys are in memory for good; neither that nor twice of them was measured.
pub(crate) fn most_of_ranges(limit: u64, keys: u64) -> u64 {
    most_of_index(limit)
        .min(16 << 10)
        .max(8 * keys)
        .min(limit / 32)
}

/// The most bytes that a table's properties and top-level index may take as they are read: twice
/// what they have if written under the same budget. With half of it a budget that is made smaller
/// refuses them sooner; with twice of it two that are opened at once would have half of the budget.
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

/// Bytes of a memtable from which on it is asked whether lookups need its memory more. With half of
/// it flushes are up to twice as many, each of a table; with twice of it lookups miss up to as much
/// memory more. Neither was measured.
pub(crate) fn least_memtable_bytes(limit: u64) -> u64 {
    max_memtable_bytes(limit) / 4
}

/// Bytes of memtables that are flushed together, which are given back late. A table is synced in a
/// fraction of a millisecond, in which hundreds of KiB are written: of larger memtables more would
/// gain nothing.
pub(crate) fn flushed_together(limit: u64) -> u64 {
    (limit / 256).min(1 << 20)
}

/// Memtables that take so many bytes together are flushed at once when memory is short: a part of
/// their share, and of that each database's. All keyspaces are looked through once for each such
/// part, and one log is closed. With half of it both happen twice as often; twice of it is memory
/// that is not written to while it is flushed.
pub(crate) fn frozen_together(share: u64, databases: u64) -> u64 {
    share / 8 / databases.max(1)
}

/// Bytes of a table that are written at once: under a small budget a larger part of it, for a short
/// write takes a device nearly as long.
pub(crate) fn table_buffer(limit: u64) -> u64 {
    (limit / 128).max((32 << 10).min(limit / 32)).min(128 << 10)
}

/// The most keys of a table whose filter is over all of them: a digest and the filter's bits then
/// take less than a tenth of the budget.
pub(crate) fn keys_of_whole_filter(limit: u64) -> u64 {
    limit / 256
}

/// The most keys of a partition, as far as the budget says: each takes up to 44 bytes while their
/// filter is built. Half of the least budget is left to others. Each block of a partition begins a
/// page, so that many small ones take storage, which merges write: with a budget of 1.7 MiB
/// half as much again with partitions of 1,700 keys as with those of 3,400, of which one takes more
/// than all merges should have; this is between them.
pub(crate) fn partition_keys(limit: u64) -> u32 {
    u32::try_from(limit.saturating_sub(MIN_MEMORY / 2) / 512).unwrap_or(u32::MAX)
}

/// The most bytes of blocks that the inputs of a merge hold together. Several merges may run. With
/// half of it merges have fewer inputs and go over the data more often.
pub(crate) fn merge_inputs(limit: u64) -> u64 {
    limit / 16
}

/// The bytes that a merge reads ahead, of all inputs together, so that what cannot do without
/// memory finds some.
pub(crate) fn merge_readahead(limit: u64) -> u64 {
    limit / 16
}

/// The least limit for so many databases that write under one budget: of each a log, a memtable of
/// some pages, tables that are open and what is flushed and merged. With half of it each database
/// of many waits for others with nearly every write.
pub(crate) fn least_limit_for_databases(databases: u64) -> u64 {
    (databases.saturating_mul(32 << 10)).max(MIN_MEMORY)
}

/// The most bytes that keyspaces take, without their memtables, tables and counters: another is
/// refused. With half of it half as many are allowed; twice of it leaves too little to read and
/// write them with.
pub(crate) fn most_of_keyspaces(limit: u64) -> u64 {
    limit / 8 * 3
}

/// The least limit under which keyspaces may take so many bytes.
pub(crate) fn least_limit_for_keyspaces(bytes: u64) -> u64 {
    bytes.div_ceil(3).saturating_mul(8).max(MIN_MEMORY)
}

/// The most bytes that the list of snapshots takes. Of what has no place in it all entries are
/// kept: with half of it that begins with half as many snapshots.
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

/// How many keys, of so many bytes each, are looked up together: as many as half of the share of
/// all such batches holds, so that two go on at once.
pub(crate) fn keys_looked_up_together(limit: u64, each: u64) -> u64 {
    lookups(limit) / 2 / each.max(1)
}

/// The most bytes of blocks that the values of one call hold; further values are copied. A caller
/// of single lookups can let go of some, a caller of this cannot.
pub(crate) fn pinned_by_values(limit: u64) -> u64 {
    limit / 16
}

/// The most bytes of blocks that a verification holds to look for what entries point to, mostly
/// two pages of a value file. With half of it tables that point to many files read theirs again.
pub(crate) fn blocks_of_pointed(limit: u64) -> u64 {
    limit / 32
}

/// The most bytes that a batch may take in memtables, and its record in the log that is read at
/// recovery: what all memtables may have under the least budget. With half of it batches must be
/// smaller; twice of it is more than memtables may have, so that a batch could be logged for which
/// there is no room.
pub(crate) fn most_of_batch(limit: u64) -> u64 {
    limit / 8 * 3
}

/// The least limit under which a batch may take so many bytes.
pub(crate) fn least_limit_for_batch(bytes: u64) -> u64 {
    (bytes.div_ceil(3).saturating_mul(8)).max(MIN_MEMORY)
}

/// The most bytes that a data block may take as it is stored and decompressed. One that is larger
/// was written under a larger budget. With half of it, what was written is refused sooner where the
/// budget was made smaller; with all of the limit the least that is beside it would go over.
pub(crate) fn most_of_block(limit: u64) -> u64 {
    limit.max(MIN_MEMORY) / 8 * 7
}

/// The least limit under which a block may take so many bytes.
pub(crate) fn least_limit_for_block(bytes: u64) -> u64 {
    (bytes.div_ceil(7).saturating_mul(8)).max(MIN_MEMORY)
}

/// The least limit under which all memtables may take so many bytes, where files take so many.
pub(crate) fn least_limit_for_memtables(bytes: u64, files: u64) -> u64 {
    let small = bytes.div_ceil(3).saturating_mul(8);
    let large = bytes.saturating_add(LEFT_BY_MEMTABLES).saturating_mul(2);
    least_limit_for_shares(small.min(large), files)
}

/// The same of all iterators.
pub(super) fn least_limit_for_iterators(bytes: u64, files: u64) -> u64 {
    least_limit_for_shares(bytes.saturating_mul(4), files)
}

/// The least limit under which shares are of so many bytes ([`working_limit`]).
fn least_limit_for_shares(working: u64, files: u64) -> u64 {
    let beside_files = working.div_ceil(16).saturating_mul(15);
    working
        .max(files.saturating_add(beside_files))
        .max(MIN_MEMORY)
}

/// The least limit under which files may take so many bytes.
pub(crate) fn least_limit_for_files(bytes: u64) -> u64 {
    let by_share = bytes.div_ceil(7).saturating_mul(8);
    let least = bytes.saturating_add(MIN_MEMORY / 2);
    by_share.max(least).max(MIN_MEMORY)
}

// What is kept, and gives way.

/// Open tables may take so many bytes before those not used lately are closed for others.
pub(crate) fn open_tables(limit: u64) -> u64 {
    limit / 4
}

/// Files may be kept open so that a writer beside us cannot remove them, while they take so many
/// bytes.
pub(crate) fn held_files(limit: u64) -> u64 {
    limit / 16
}

/// How many files the budget has room for. The system keeps 2 KiB and more for each, which count as
/// the process's where its memory is limited: so a 32nd of the budget.
pub(crate) fn open_files(limit: u64) -> u64 {
    limit / (64 << 10)
}

/// Memory is short for blocks while fewer bytes are free: what comes in is then weighed against
/// what is there. A full cache has fewer, so that neither half nor double is felt in it; it is for
/// memory that others give back, of which twice as much would stay free.
pub(crate) fn short_of_memory(limit: u64) -> u64 {
    limit / 256
}

/// Memory is plenty while more bytes are free: what comes in then says that memory has no price.
/// Felt only when a budget is raised or others give back: with half of it the price falls although
/// that will soon be taken, with double it stays although there is room.
pub(crate) fn plenty_of_memory(limit: u64) -> u64 {
    limit / 32
}

/// What is written stays in memory while so much is free beside it. Jobs need about so much under
/// any limit; with none under the least ones what cannot do without memory finds none.
pub(crate) fn room_for_what_is_written(limit: u64) -> u64 {
    plenty_of_memory(limit).max(2 << 20)
}

/// Bytes of free frames that are kept: enough for what comes in while blocks are on their way out.
/// Half is not felt, with double up to .6 % less is read. Ten times as many would be missed by
/// blocks; without any, each block that takes another's place costs two calls of the system.
pub(crate) fn idle_frames(limit: u64) -> u64 {
    limit / 128
}

/// Blocks are moved together once free slots between them take so many bytes.
pub(crate) fn loose_slots(limit: u64) -> u64 {
    limit / 64
}

/// Bytes of idle buffers to read into that are kept.
pub(crate) fn idle_buffers(limit: u64) -> u64 {
    limit / 256
}

/// Bytes of buffers that are lent beyond the first of a thread, without waiting.
pub(crate) fn extra_buffers(limit: u64) -> u64 {
    limit / 4
}

/// Bytes that are read at once for one block of a filter.
pub(crate) fn read_at_once(limit: u64) -> u64 {
    limit / 64
}

/// Bytes that are held at once to bring back into memory what was there before a restart: each of
/// the list that is read, the buffers, and the lookups of keys. What gives way for them would not
/// come back.
pub(crate) fn reload_at_once(limit: u64) -> u64 {
    (limit / 128).min(1 << 20)
}

/// Bytes of a buffer for blocks that a table being written keeps for the next block.
pub(crate) fn kept_for_next_block(limit: u64) -> u64 {
    limit / 32
}

/// Bytes of entries that an iterator copies out of a memtable at once.
pub(crate) fn memtable_copy(limit: u64) -> u64 {
    limit / 256
}

/// Bytes of an index of which an input of a merge keeps a copy.
pub(crate) fn copied_index(limit: u64) -> u64 {
    limit / 128
}

/// Bytes from which on a value is large: one that a merge does not need yet is let go where memory
/// is short.
pub(crate) fn large_value(limit: u64) -> u64 {
    limit / 256
}

/// Memory is short for that while fewer bytes are free of what is held.
pub(crate) fn short_for_large_values(limit: u64) -> u64 {
    limit / 3
}

/// Bytes that all merges together may take to read further ahead than they must. Nobody can take
/// that back while a merge runs.
pub(crate) fn further_readahead(limit: u64) -> u64 {
    limit / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What does not give way fits: with the most that files take without making the shares
    /// smaller, and with more, up to all that they may take.
    #[test]
    fn what_is_held_at_once_adds_up_to_the_limit() {
        for limit in [MIN_MEMORY, 3 << 20, 7 << 20, 32 << 20, 1 << 30] {
            for part in 1..=14 {
                let files = (limit / 16 * part).min(most_of_files(limit));
                let left = working_limit(limit, files);
                let rows = [
                    memtable_share(left),
                    most_of_iterators(left),
                    most_of_pins(left),
                    merges(left),
                    flushes(left),
                    lookups(left),
                    log_buffer(left, 1) as u64,
                    files,
                ];
                let held: u64 = rows.iter().sum();
                assert!(held <= limit, "{held} of {limit}: {rows:?}");
                // And little is left to nobody, where files take no more than is theirs.
                assert!(part > 1 || held > limit / 32 * 31, "{held} of {limit}");
            }
        }
        assert!(most_of_batch(MIN_MEMORY) <= memtable_share(MIN_MEMORY));
    }

    #[test]
    fn the_least_limits_are_just_enough() {
        for bytes in [1, MIN_MEMORY / 4, MIN_MEMORY / 4 + 1, 5 << 20] {
            assert!(most_of_batch(least_limit_for_batch(bytes)) >= bytes);
            assert!(most_of_block(least_limit_for_block(bytes)) >= bytes);
            assert!(most_of_meta(least_limit_for_meta(bytes)) >= bytes);
            assert!(most_of_key(least_limit_for_key(bytes)) >= bytes);
            assert!(most_of_value(least_limit_for_value(bytes)) >= bytes);
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
    fn the_least_limits_of_shares_are_just_enough() {
        let sizes = [1, 255 << 10, 384 << 10, (384 << 10) + 1, 768 << 10];
        for bytes in sizes.into_iter().chain([(768 << 10) + 1, 5 << 20, 1 << 30]) {
            for files in [0, 60 << 10, 1 << 20, 77 << 20] {
                let memtables = least_limit_for_memtables(bytes, files);
                let share = |limit| memtable_share(working_limit(limit, files));
                assert!(share(memtables) >= bytes, "{bytes} beside {files}");
                assert!(memtables == MIN_MEMORY || share(memtables - 32) < bytes);
                let iterators = least_limit_for_iterators(bytes, files);
                let share = |limit| most_of_iterators(working_limit(limit, files));
                assert!(share(iterators) >= bytes, "{bytes} beside {files}");
                assert!(iterators == MIN_MEMORY || share(iterators - 32) < bytes);
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
