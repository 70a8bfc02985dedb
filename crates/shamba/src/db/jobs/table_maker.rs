//! How new tables are written for a keyspace: where to, with which options, in how much memory; and
//! what the tree is told of them. Thread-safe; writes nothing itself.

use std::sync::Arc;

use super::heirs::Heirs;
use super::table_options::{TableSite, bits_by_place};
use crate::budget::{
    Role, easily_known, keys_of_whole_filter, most_of_index, most_of_ranges, partition_keys,
    table_buffer,
};
use crate::compaction::Parents;
use crate::compaction::job::{MergeOutput, NewTable, Separation};
use crate::db::context::DbContext;
use crate::db::files::{Files, Tree};
use crate::db::keyspaces::KeyspaceInner;
use crate::error::Result;
use crate::filter::{BlockRoom, FileContext, ScanRule, choose};
use crate::fs::PAGE;
use crate::options::KeyspaceOptions;
use crate::table::{
    PAGE_PAYLOAD, ScanFilterOptions, TableBuildOptions, TableSlot, compressor_bytes,
};
use crate::version::{AddedFile, Feature, FileInfo, FileMeta};

/// About how many keys share a partition of index and filter: of those that fill whole pages of
/// filter modules the nearest number.
const PARTITION_KEYS: u32 = 7800;

/// The most, where modules have fewer columns ([`FileContext::page_columns`]).
const MOST_PARTITION_KEYS: u32 = 10_500;

/// What the digest of a key takes, and its bits in the filter while they are written.
const KEY_BYTES: u64 = 16;

/// The same of a key of a filter of ranges: what is kept of it, mostly, its integers and bits.
const RANGE_KEY_BYTES: u64 = 128;

/// Keys are long that have more bytes: of shorter ones those that a table being written gathers are
/// counted with [`OUTPUT_BYTES`].
pub(super) const LONG_KEY: usize = 256;

/// Keys that are gathered beside indexes: the first and the last of the table and of a block, the
/// separator, and, when the table ends, the first and the last again as they are encoded and as
/// pages.
pub(super) const KEYS_OF_TABLE: u64 = 10;

/// A value file is as large as so many tables: what is known of it takes as much memory as of a
/// table, and more than half of a file must be garbage before it is written anew. Not measured.
const TABLES_OF_VALUES: u64 = 8;

/// What writing tables takes beside filters over whole tables and the buffer of what is written.
const OUTPUT_BYTES: u64 = 40 << 10;

/// See the module.
pub(in crate::db) struct TableMaker {
    shared: Arc<DbContext>,
    files: Arc<Files>,
}

impl TableMaker {
    pub(in crate::db) fn new(shared: &Arc<DbContext>, files: &Arc<Files>) -> Self {
        TableMaker {
            shared: shared.clone(),
            files: files.clone(),
        }
    }

    /// Where and how tables of a level are written, of so many entries. What they have that not all
    /// builds read is stated from here on.
    pub(super) fn output<'a>(
        &'a self,
        keyspace: &KeyspaceInner,
        level: usize,
        entries: u64,
        target_file: u64,
        parents: Parents<'_>,
    ) -> Result<MergeOutput<'a>> {
        let options = self.build_options(keyspace, level, entries, parents);
        if let Some(scans) = &options.scan_filter {
            self.files.state_feature(match &*scans.rule {
                ScanRule::Prefixes(_) => Feature::PrefixFilters,
                ScanRule::Ranges { .. } => Feature::RangeFilters,
            })?;
        }
        Ok(MergeOutput {
            // A filter over a whole table is built of all its keys at once.
            target_keys: if keyspace.options().filter.partitioned {
                u64::MAX
            } else {
                keys_of_whole_filter(self.shared.limit())
            },
            fs: self.shared.fs(),
            dir: self.shared.dir(),
            budget: self.shared.budget(),
            next_file: self.files.next_file(),
            options,
            target_file,
            sync: true,
            operator: keyspace.operator().ok().cloned(),
            filtering: None,
            separation: self.separation(keyspace),
            on_the_way: Box::new(|| self.shared.check_not_stopping()),
        })
    }

    /// Which values go to value files.
    fn separation(&self, keyspace: &KeyspaceInner) -> Separation<'_> {
        let options = keyspace.options();
        Separation {
            from: options.value_files_from,
            target_file: self.target_file(&options).saturating_mul(TABLES_OF_VALUES),
            values: keyspace.version().value_files().clone(),
            tables: self.files.tables(),
        }
    }

    /// The bytes at which a merge begins a new table: as the options say, or more where what is
    /// known of tables, which is all in memory, takes much of it already.
    pub(super) fn target_file(&self, options: &KeyspaceOptions) -> u64 {
        let known = self.shared.budget().used_by(Role::Files);
        let times = known / easily_known(self.shared.limit()).max(1);
        options.target_file.saturating_mul(times.max(1))
    }

    /// About the essential memory that writing so many entries to tables of a level takes: blocks
    /// being filled and compressed, the keys and filters of a partition or of a whole table, and
    /// where keys are long some of them and indexes.
    pub(super) fn memory(
        &self,
        options: &KeyspaceOptions,
        level: usize,
        entries: u64,
        key: usize,
    ) -> u64 {
        let limit = self.shared.limit();
        let keys = if options.filter.partitioned {
            0
        } else {
            entries.min(keys_of_whole_filter(limit))
        };
        // The prefixes of a partition beside its keys, about one for each, or what a filter of
        // ranges is made of.
        let of_partition = || match keys {
            0 => entries.min(partition_keys(limit).min(MOST_PARTITION_KEYS).into()),
            keys => keys,
        };
        let scans = match (&options.prefix, options.range_filter) {
            (_, Some(_)) => of_partition() * RANGE_KEY_BYTES,
            (Some(_), None) => of_partition() * KEY_BYTES,
            (None, None) => 0,
        };
        let compressor = compressor_bytes(options.compression_at(level), limit);
        let long = if key > LONG_KEY {
            KEYS_OF_TABLE * key as u64 + 2 * most_of_index(limit)
        } else {
            0
        };
        // A value file is written beside the table.
        let files = if options.value_files_from.is_some() {
            2
        } else {
            1
        };
        files * (OUTPUT_BYTES + table_buffer(limit) + compressor) + keys * KEY_BYTES + scans + long
    }

    /// The same of range tombstones: encoded, also as what the table says of itself, and as pages.
    pub(super) fn ranges_memory(&self, key: usize) -> u64 {
        4 * most_of_ranges(self.shared.limit(), 2 * key as u64)
    }

    /// New tables as an edit adds them.
    pub(super) fn adds(
        &self,
        keyspace: &KeyspaceInner,
        tree: &Tree,
        (level, run): (usize, u64),
        tables: &[NewTable],
        (parents, heirs): (Parents<'_>, Option<&Heirs>),
    ) -> Vec<AddedFile> {
        let cache = self.shared.options().memory.cache();
        let slots = heirs.map_or_else(Vec::new, |heirs| heirs.slots(tables, cache));
        let created = tree.manifest.state().next_created;
        // Else nobody asks how hot a file is, and all parents would be looked at for nothing.
        let told = self.shared.options().inherit_statistics && keyspace.limits().sets_limits();
        let add = |(table, slot): (&NewTable, TableSlot)| {
            let info = FileInfo {
                created,
                ..table.info.clone()
            };
            let file = FileMeta::with_slot(&info, slot);
            if told && parents.are_known(&info.smallest, &info.largest) {
                file.set_known();
            }
            AddedFile {
                level: level as u32,
                run,
                file,
            }
        };
        let slots = slots
            .into_iter()
            .chain(std::iter::repeat_with(TableSlot::default));
        tables.iter().zip(slots).map(add).collect()
    }

    /// New value files as an edit adds them.
    pub(super) fn value_files<'t>(
        &self,
        tree: &Tree,
        tables: &'t [NewTable],
    ) -> impl Iterator<Item = AddedFile> + 't {
        let created = tree.manifest.state().next_created;
        tables.iter().map(move |table| table.as_value_file(created))
    }

    /// How tables of a level are built.
    fn build_options(
        &self,
        keyspace: &KeyspaceInner,
        level: usize,
        entries: u64,
        parents: Parents<'_>,
    ) -> TableBuildOptions {
        let version = keyspace.version();
        let limit = self.shared.limit();
        let room = self.filter_room(keyspace, entries);
        let context = FileContext {
            level: level as u32,
            keys: room.file_entries as u64,
            partition_keys: partition_keys(limit),
            page: PAGE_PAYLOAD,
            bits_per_key: bits_by_place(keyspace, &version, |measured| {
                TableSite::of(level, entries, parents, measured)
            }),
        };
        let mut wish = keyspace.options().filter_wish();
        let bits = context.bits_per_key.unwrap_or(wish.bits_per_key);
        wish.sizes = wish.sizes.decided(bits, wish.modules, room);
        let filters = choose(&wish, &context);
        let scan_filter = keyspace.scan_rule().map(|rule| ScanFilterOptions {
            plan: rule.plan(wish.families, wish.layout),
            rule,
        });
        TableBuildOptions {
            filter: filters.plan,
            scan_filter,
            other_filter: filters.other,
            compression: keyspace.options().compression_at(level),
            restart_interval: keyspace.options().restart_interval,
            partition_keys: partition_keys(limit).min(PARTITION_KEYS),
            write_buffer: table_buffer(limit) as usize,
            level: level as u32,
            ..TableBuildOptions::default()
        }
    }

    /// The memory for filters, and how many entries are to share it once so many are written: what
    /// the budget leaves beside indexes and write buffers.
    fn filter_room(&self, keyspace: &KeyspaceInner, entries: u64) -> BlockRoom {
        let sums = keyspace.version().sums();
        let (present, bytes) = (sums.entries, sums.size);
        let buffers = self.shared.budget().used_by(Role::Memtable);
        let index = sums.index_bytes;
        let free = self
            .shared
            .limit()
            .saturating_sub(index.saturating_add(buffers));
        // Of a merge the entries are among those present already.
        let entry_bytes = bytes as f64 / present.max(1) as f64;
        let in_file = keyspace.options().target_file as f64 / entry_bytes.max(1.0);
        BlockRoom {
            memory: free.max(PAGE as u64) as f64,
            entries: present.max(entries).max(1) as f64,
            file_entries: (entries.max(1) as f64).min(in_file),
            page: PAGE as f64,
        }
    }
}
