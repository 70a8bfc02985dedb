//! What memory is used for: the accounts of a budget. Plain values.

/// What memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Role {
    /// Entries written and not yet flushed to tables.
    Memtable,
    /// Cached data blocks.
    Data,
    /// Cached entries.
    Entries,
    /// Cached index blocks.
    Index,
    /// Cached blocks of filter module 0.
    FilterFirst,
    /// Cached blocks of filter modules 1 and up.
    FilterRest,
    /// Open tables: handles, properties, top-level indexes.
    Tables,
    /// What the manifest says of each table, and keyspaces.
    Files,
    /// What is remembered of tables that were read: their names in the block cache, and how often
    /// they were probed.
    Seen,
    /// Iterators and the blocks they hold.
    Iterators,
    /// Compaction and flush: input and output buffers, digests.
    Compaction,
    /// Buffers of the write-ahead log, and what reading the manifest takes.
    Wal,
    /// Scratch buffers that pages are read into.
    IoBuffers,
    /// Resident pages of the block cache and its buffers, or parts of them, that hold nothing now.
    Spare,
}

impl Role {
    /// Every role, in the order of declaration.
    pub const ALL: [Role; 14] = [
        Role::Memtable,
        Role::Data,
        Role::Entries,
        Role::Index,
        Role::FilterFirst,
        Role::FilterRest,
        Role::Tables,
        Role::Files,
        Role::Seen,
        Role::Iterators,
        Role::Compaction,
        Role::Wal,
        Role::IoBuffers,
        Role::Spare,
    ];

    /// Whether it gives way when others need memory: what is cached, and what holds nothing.
    pub(super) const fn gives_way(self) -> bool {
        matches!(
            self,
            Role::Data
                | Role::Entries
                | Role::Index
                | Role::FilterFirst
                | Role::FilterRest
                | Role::Spare
        )
    }

    /// The role's name in statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Memtable => "memtable",
            Role::Data => "data",
            Role::Entries => "entries",
            Role::Index => "index",
            Role::FilterFirst => "filter_first",
            Role::FilterRest => "filter_rest",
            Role::Tables => "tables",
            Role::Files => "files",
            Role::Seen => "seen",
            Role::Iterators => "iterators",
            Role::Compaction => "compaction",
            Role::Wal => "wal",
            Role::IoBuffers => "io_buffers",
            Role::Spare => "spare",
        }
    }
}
