//! Options: plain data, checked once when a database or keyspace is opened.
//!
//! [`Options`] are of the whole database, [`KeyspaceOptions`] of one keyspace. Each option says
//! what it means, its unit, its default and when to change it; those in the first group of a
//! struct affect behaviour, those in the second only performance. Options of the database are given
//! at every open. Those of a keyspace are kept with it ([`kept`]): an open that does not name them
//! takes what is kept, one that does changes them from then on, as
//! [`Db::alter_keyspace`](crate::Db::alter_keyspace) does. A [`Design`] that
//! [`Keyspace::redesign`](crate::Keyspace::redesign) set wins over the options it replaces. Every
//! file records by itself how to decode it, so any option may differ from one open to the next.

mod auto;
mod check;
mod compaction_filter;
mod design;
mod device;
mod files;
mod filter;
mod kept;
mod merge_operator;
mod prefix;
mod preset;
mod read_only;
mod setters;
mod transaction;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Clock, SystemClock};
use crate::budget::max_memtable_bytes;
use crate::cache::{Eviction, MemoryBudget, check_limit};
use crate::compaction::MergePolicy;
use crate::error::{Error, Result};
use crate::filter::{FilterAllocation, MAX_MODULES, ModuleSizes, Prefix};
use crate::fs::{Fs, OsFs};
use crate::policy::FilterPolicy;
use crate::wal::RecoveryMode;

pub use crate::table::Compression;
pub use auto::AutoDesign;
use check::range;
pub(crate) use compaction_filter::CompactionFilters;
pub use design::Design;
pub use device::DeviceCosts;
pub use filter::{FilterFamily, FilterOptions};
pub(crate) use kept::KeptOptions;
pub(crate) use merge_operator::MergeOperators;
pub(crate) use prefix::PrefixFunctions;
pub use preset::Preset;
pub use transaction::{Isolation, TransactionOptions};
pub use write::{Durability, WriteOptions};

/// The most levels whose compression is told apart.
const MOST_COMPRESSIONS: usize = 64;

/// Options of one keyspace.
///
/// ```
/// use shamba::{KeyspaceOptions, MergePolicy};
/// let options = KeyspaceOptions::new().merge_policy(MergePolicy::Tiering).size_ratio(4);
/// # assert_eq!(options.size_ratio, 4);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// How runs are merged. Default: leveling, a file at a time.
    pub merge_policy: MergePolicy,
    /// Size ratio T between adjacent levels, 2 to 1000. Default 10. Smaller: fewer bytes
    /// rewritten per level but more levels (leveling); the reverse for tiering.
    pub size_ratio: u32,
    /// Size of the write buffer (memtable), in bytes, 4 KiB to 2 GiB. Default 64 MiB. The engine
    /// uses less where the memory budget asks for it; the shape of the tree follows this number.
    pub write_buffer: u64,
    /// Flushed runs in level 0 that make a compaction due (leveling), 1 to 1000. Default 4. One
    /// gives the pure leveling of the papers.
    pub level0_runs: u32,
    /// Level-0 runs from which writes are slowed down. Default 20.
    pub level0_slowdown: u32,
    /// Level-0 runs at which writes wait for compaction. Default 36.
    pub level0_stall: u32,
    /// Where a compaction starts a new output file, in bytes, at least 4 KiB. Default 64 MiB.
    pub target_file: u64,
    /// Compression by level: entry i is for level i, the last for all deeper ones; at most 64.
    /// Default none.
    pub compression: Vec<Compression>,
    /// The filter of new tables.
    pub filter: FilterOptions,
    /// What prefixes of keys new tables have a filter of, so that scans within one prefix do not
    /// read tables that have no key of it. Default `None`: such a filter takes about two bytes for
    /// each prefix of a table, and memory only where scans gain by it. Tables of before, or of
    /// another definition, are scanned as without.
    pub prefix: Option<Prefix>,
    /// Bits per key of a filter of ranges in new tables, 4 to 32, so that scans between two bounds
    /// do not read tables that have no key there. Default `None`; 10 let about one range in a
    /// hundred pass that has no key, if it is shorter than what lies between keys mostly. For keys
    /// that are numbers spread about evenly, or that begin with such, of any length; of text little
    /// is known in so few bits, and a [`prefix`](Self::prefix) does better, beside which it cannot
    /// be. It takes memory only where scans gain by it. Tables of before are scanned as without,
    /// and so are tables of more than 65,535 keys whose filters are not partitioned.
    pub range_filter: Option<f64>,
    /// Which modules of a filter lookups read. Default: any, as each lookup weighs it.
    pub filter_policy: FilterPolicy,
    /// Lookups after which the filter policy looks at the statistics of files and decides anew, at
    /// least 1. Default 2048; four for each file where that is more. Smaller values follow a
    /// changing workload sooner, on less evidence.
    pub epoch_lookups: u64,
    /// Whether and when the keyspace changes its design on its own. Default `None`: never.
    pub auto_design: Option<AutoDesign>,
    /// Whether files of a leveled tree are merged with what lies below them once scans have read as
    /// many pages to find their place in them as that reads and writes. Default `true`: where scans
    /// go and memory does not hold what they need, the tree becomes one that they read less of.
    /// With `false` scans cause no merges. A page of a merge counts as
    /// [`Options::device`](crate::Options::device) says. Without background threads a scan now and
    /// then does such a merge.
    pub merge_for_scans: bool,
    /// How long entries live that are written without a time to live of their own. Default `None`:
    /// for ever. In whole milliseconds: with less than one, as with zero, they are gone at once;
    /// with more time than there is, they stay. Those written before it was changed live as long as
    /// they were to.
    pub ttl: Option<Duration>,
    /// Values of so many bytes and more lie in files of their own, to which the tree points, so
    /// that merges do not write them again; at least 64. Default `None`: only those do that are too
    /// long to be written whole ([`Db::put`](crate::Db::put)) or come in pieces
    /// ([`Db::put_reader`](crate::Db::put_reader)). Values move as flushes and merges come to them.
    pub value_files_from: Option<u64>,
    /// Entries between restart points in a data block, 1 to 1024. Default 8. Fewer make lookups
    /// quicker, more make blocks smaller.
    pub restart_interval: u32,
}

/// Shorter values take less where they are than what points to them.
const LEAST_SEPARATED: u64 = 64;

impl Default for KeyspaceOptions {
    fn default() -> Self {
        KeyspaceOptions {
            merge_policy: MergePolicy::default(),
            size_ratio: 10,
            write_buffer: 64 << 20,
            level0_runs: 4,
            level0_slowdown: 20,
            level0_stall: 36,
            target_file: 64 << 20,
            compression: vec![Compression::None],
            filter: FilterOptions::default(),
            prefix: None,
            range_filter: None,
            filter_policy: FilterPolicy::default(),
            epoch_lookups: 2048,
            auto_design: None,
            merge_for_scans: true,
            ttl: None,
            value_files_from: None,
            restart_interval: 8,
        }
    }
}

impl KeyspaceOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The memtable's size under a budget.
    pub(crate) fn memtable_capacity(&self, limit: u64) -> usize {
        usize::try_from(self.write_buffer.min(max_memtable_bytes(limit))).unwrap_or(usize::MAX)
    }

    /// Checks every option.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] with the option's name and the allowed values.
    pub fn validate(&self) -> Result<()> {
        // The shape of the tree.
        range("size_ratio", self.size_ratio, 2, 1000)?;
        range("write_buffer", self.write_buffer, 4 << 10, 2 << 30)?;
        range("level0_runs", self.level0_runs, 1, 1000)?;
        range(
            "level0_slowdown",
            self.level0_slowdown,
            self.level0_runs,
            u32::MAX,
        )?;
        range(
            "level0_stall",
            self.level0_stall,
            self.level0_slowdown.saturating_add(1),
            u32::MAX,
        )?;
        range("target_file", self.target_file, 4 << 10, 1 << 40)?;
        range("restart_interval", self.restart_interval, 1, 1024)?;
        let from = self.value_files_from.unwrap_or(u64::MAX);
        range("value_files_from", from, LEAST_SEPARATED, u64::MAX)?;
        // Filters, and who reads them.
        range("filter.bits_per_key", self.filter.bits_per_key, 0.0, 64.0)?;
        range("filter.modules", self.filter.modules, 1, MAX_MODULES as u8)?;
        if let FilterAllocation::MonkeyGeneral { existing_per_empty } = self.filter.allocation {
            range("filter.allocation", existing_per_empty, 0.0, f64::MAX)?;
        }
        if let ModuleSizes::Proportional { first_bits_per_key } = self.filter.module_sizes {
            range("filter.module_sizes", first_bits_per_key, 0.0, 64.0)?;
        }
        prefix::validate_scan_filter(self)?;
        range("epoch_lookups", self.epoch_lookups, 1, u64::MAX)?;
        self.filter_policy.validate()?;
        self.auto_design.iter().try_for_each(AutoDesign::validate)?;
        // The last entry is for all deeper levels, and no tree has more than so many.
        range("compression", self.compression.len(), 1, MOST_COMPRESSIONS)?;
        for compression in &self.compression {
            if let Compression::Zstd(level) = compression {
                range("compression", *level, 1, 19)?;
            }
            if let Some(feature) = compression.missing_feature() {
                let what = format!(
                    "{compression:?} needs the cargo feature `{feature}` of `shamba`, which this build lacks"
                );
                return Err(Error::option("compression", what));
            }
        }
        Ok(())
    }

    /// The compression of new tables in a level.
    pub(crate) fn compression_at(&self, level: usize) -> Compression {
        let chosen = self.compression.get(level).or(self.compression.last());
        chosen.copied().unwrap_or_default()
    }
}

/// Options of a database.
///
/// ```
/// # fn main() -> shamba::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use shamba::{MemoryBudget, Options};
/// let db = Options::new().memory(MemoryBudget::bytes(32 << 20)).open(dir.path())?;
/// db.put(b"key", b"value")?;
/// assert_eq!(db.get(b"key")?.as_deref(), Some(b"value".as_slice()));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) read_only: bool,
    pub(crate) recovery: RecoveryMode,
    pub(crate) durability: Durability,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) compaction_filters: CompactionFilters,
    pub(crate) merge_operators: MergeOperators,
    pub(crate) prefix_functions: PrefixFunctions,
    pub(crate) memory: MemoryBudget,
    pub(crate) background_threads: usize,
    pub(crate) max_open_files: usize,
    pub(crate) hash_sharing: bool,
    pub(crate) cache_entries: bool,
    pub(crate) eviction: Option<Eviction>,
    pub(crate) inherit_statistics: bool,
    pub(crate) max_wal_bytes: u64,
    pub(crate) device: Option<DeviceCosts>,
    pub(crate) default_keyspace: Option<KeyspaceOptions>,
    pub(crate) keyspace_options: BTreeMap<String, KeyspaceOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// The defaults: a quarter of the memory of the container or machine, two background threads,
    /// buffered durability, created when missing.
    #[must_use]
    pub fn new() -> Self {
        Options {
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            recovery: RecoveryMode::default(),
            durability: Durability::default(),
            fs: Arc::new(OsFs::new()),
            clock: Arc::new(SystemClock),
            compaction_filters: CompactionFilters::default(),
            merge_operators: MergeOperators::default(),
            prefix_functions: PrefixFunctions::default(),
            memory: MemoryBudget::share_of_container(0.25),
            background_threads: 2,
            max_open_files: 4096,
            hash_sharing: true,
            cache_entries: true,
            eviction: None,
            inherit_statistics: true,
            max_wal_bytes: 1 << 30,
            device: None,
            default_keyspace: None,
            keyspace_options: BTreeMap::new(),
        }
    }

    // Behaviour.

    /// Whether a missing database is created. Default true; nothing is created by an open to be
    /// read only ([`Options::read_only`]).
    #[must_use]
    pub fn create_if_missing(mut self, yes: bool) -> Self {
        self.create_if_missing = yes;
        self
    }

    /// Whether opening a database that exists is an error. Default false.
    #[must_use]
    pub fn error_if_exists(mut self, yes: bool) -> Self {
        self.error_if_exists = yes;
        self
    }

    /// What to do about damage in the write-ahead log. Default: tolerate a torn tail.
    #[must_use]
    pub fn recovery(mut self, mode: RecoveryMode) -> Self {
        self.recovery = mode;
        self
    }

    /// The durability of writes that do not choose their own. Default buffered.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The file system. Default: the operating system's, with direct I/O for tables.
    #[must_use]
    pub fn fs(mut self, fs: Arc<dyn Fs>) -> Self {
        self.fs = fs;
        self
    }

    /// Where the time comes from, by which entries with a time to live expire. Default: the
    /// system's clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    // Performance.

    /// Which blocks leave the cache of the memory budget when it is full: as if
    /// [`MemoryBudget::set_eviction`] were called when the database opens. Default: what the
    /// budget has, at first [`Eviction::ExpectedReads`].
    #[must_use]
    pub fn eviction(mut self, eviction: Eviction) -> Self {
        self.eviction = Some(eviction);
        self
    }

    /// The memory the engine may use; clones of one [`MemoryBudget`] given to several databases
    /// are one budget. At least [`MIN_MEMORY`](crate::MIN_MEMORY). Default: a quarter of the memory
    /// of the container or machine.
    #[must_use]
    pub fn memory(mut self, memory: MemoryBudget) -> Self {
        self.memory = memory;
        self
    }

    /// Threads for flushes and compactions, 0 to 64. Default 2. With zero the work is done inside
    /// the writes that make it due, and by scans what they have paid for
    /// ([`KeyspaceOptions::merge_for_scans`]): slower, but the same in every run.
    #[must_use]
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.background_threads = threads;
        self
    }

    /// How many table files may be open at a time, at least 16, but for those that are read at the
    /// moment. Tables that iterators hold are among them: their files are closed and opened again
    /// when there are more. Default 4096, and in any case no more than one for 64 KiB of the memory
    /// budget, or 256. At open it is brought down to three quarters of the files that the process
    /// may have open (`ulimit -n`, often 1024), so that some are left for logs, outputs of
    /// compactions and the rest of the program. Several databases in one process share that limit:
    /// give each its part. If files run out all the same, those of tables make room.
    #[must_use]
    pub fn max_open_files(mut self, files: usize) -> Self {
        self.max_open_files = files;
        self
    }

    /// Whether a lookup hashes its key once (true, the default) or once for each table it probes
    /// (the baseline of the hash-sharing paper). Answers are the same.
    #[must_use]
    pub fn hash_sharing(mut self, yes: bool) -> Self {
        self.hash_sharing = yes;
        self
    }

    /// Whether the cache keeps hot entries by themselves while memory is short, so that their
    /// lookups need neither filter nor index nor page (default true; under
    /// [`Eviction::ExpectedReads`] only). Answers are the same. What is counted of lookups by level
    /// and table, and what is learned of these, is of lookups that reach tables. Turn it off to
    /// measure its effect.
    #[must_use]
    pub fn cache_entries(mut self, yes: bool) -> Self {
        self.cache_entries = yes;
        self
    }

    /// Whether flushes and compactions hand on to new tables what is known of those they come from
    /// or lie above: how often each key range is looked up, and, under [`Eviction::ExpectedReads`],
    /// those of their blocks that are then worth their room in memory: while memory is plenty all
    /// of them, and the tables stay open. Also whether a database that is opened again knows how
    /// hot its tables were, and background threads bring back what memory held when it was closed
    /// ([`Counters::reloads`](crate::Counters::reloads)). Default true. Without it a table starts
    /// unknown, and its blocks are read when first needed. Turn it off only to measure its effect.
    #[must_use]
    pub fn inherit_statistics(mut self, yes: bool) -> Self {
        self.inherit_statistics = yes;
        self
    }

    /// Size of the write-ahead logs above which the memtables that hold the oldest are flushed, in
    /// bytes. Default 1 GiB. Matters with many keyspaces of which some are rarely written. Whatever
    /// it is, the same is done when there are more than 64 logs.
    #[must_use]
    pub fn max_wal_bytes(mut self, bytes: u64) -> Self {
        self.max_wal_bytes = bytes;
        self
    }

    /// What the storage's operations cost, for [`Db::advise`](crate::Db::advise) and
    /// [`KeyspaceOptions::merge_for_scans`]. Default: measured when advice is first needed; to a
    /// merge for scans a page costs two reads, one to read it and one to write it.
    #[must_use]
    pub fn device(mut self, costs: DeviceCosts) -> Self {
        self.device = Some(costs);
        self
    }

    /// The options of the default keyspace, from this open on, as by
    /// [`Db::alter_keyspace`](crate::Db::alter_keyspace); but a design that
    /// [`Keyspace::redesign`](crate::Keyspace::redesign) set last stays. Without this call it has
    /// the options that are kept, and at first the defaults.
    #[must_use]
    pub fn keyspace(mut self, options: KeyspaceOptions) -> Self {
        self.default_keyspace = Some(options);
        self
    }

    /// The same for a keyspace by name, where it exists at open.
    #[must_use]
    pub fn keyspace_options(mut self, name: &str, options: KeyspaceOptions) -> Self {
        self.keyspace_options.insert(name.to_owned(), options);
        self
    }

    /// Checks every option.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] with the option's name and the allowed values.
    pub fn validate(&self) -> Result<()> {
        if self.background_threads > 64 {
            return Err(Error::option(
                "background_threads",
                format!("{} is not between 0 and 64", self.background_threads),
            ));
        }
        if self.max_open_files < 16 {
            return Err(Error::option(
                "max_open_files",
                format!("{} is below 16", self.max_open_files),
            ));
        }
        if self.max_wal_bytes < 64 << 10 {
            return Err(Error::option(
                "max_wal_bytes",
                format!("{} is below 64 KiB", self.max_wal_bytes),
            ));
        }
        self.check_read_only()?;
        check_limit(self.memory.limit())?;
        self.device.iter().try_for_each(DeviceCosts::validate)?;
        let mut named = self.keyspace_options.values().chain(&self.default_keyspace);
        named.try_for_each(|options| self.prefix_functions.validate(options))
    }
}
