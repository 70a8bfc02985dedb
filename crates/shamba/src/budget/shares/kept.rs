//! The shares of what is kept, and gives way: they say who goes first.
//!
//! Pure functions of the limit, in bytes.

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
