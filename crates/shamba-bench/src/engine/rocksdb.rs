//! RocksDB at its best: the settings of PEERS as named, combinable variants.
mod data_model;

pub(super) use data_model::Transactional;

use super::{Engine, EngineConfig, Indexes, LEAST_BLOB, Visit, Write, copied};
use crate::{Error, Result};
use ::rocksdb::statistics::{StatsLevel, Ticker};
use ::rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, DBAccess, DBCompressionType,
    DBRawIteratorWithThreadMode, DataBlockIndexType, LruCacheOptions, Options, ReadOptions,
    SliceTransform, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;

/// What a specification after `rocksdb:` may choose, its words joined by `-` or `+`. Of a line one
/// word counts, the last one said; the first of all that change what lies on disk.
const WORDS: [&[&str]; 16] = [
    // Hybrid filters are Bloom filters for flushes and level 0 and 1, ribbon below.
    &["bloom", "ribbon", "hybrid"],
    // Filters and indexes.
    &["whole", "partitioned"],
    // Bits per key of its filters, instead of those that all engines get.
    &["3", "4", "5", "6", "7", "8", "10", "12", "13", "15", "20"],
    // No filters on the last level.
    &["hits"],
    // A hash index inside data blocks.
    &["hash"],
    // No data block crosses a page.
    &["aligned"],
    // One whole key in sixteen of the index, not each.
    &["ri16"],
    // Values of a kilobyte and more lie in files of their own (BlobDB), collected by compactions.
    &["blobs"],
    // Filters of the first eight bytes of keys, and not of keys.
    &["prefix8"],
    // The cache, or HyperClockCache instead.
    &["lru", "hyper"],
    // The LRU cache in one piece, so that small budgets are not cut up.
    &["unsharded"],
    // Filters and indexes may have 95 % of the LRU cache before data has any of theirs.
    &["pool95"],
    // Percent of the budget for a cache of entries.
    &["row15", "row25", "row35", "row50"],
    &["pipelined"],
    // Snapshots are not repeatable.
    &["unordered"],
    // Files are mapped to be read, instead of direct I/O.
    &["mmap"],
];

/// The lines of the words that change what lies on disk, and of the bits among them.
const ON_DISK: usize = 9;
const BITS: usize = 2;

/// The word chosen of each line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Variant([Option<&'static str>; WORDS.len()]);

impl Variant {
    pub(super) fn parse(settings: &str) -> Result<Self> {
        let mut variant = Self::default();
        (variant.0[0], variant.0[1]) = (Some("bloom"), Some("whole"));
        for word in settings.split(['-', '+']).filter(|word| !word.is_empty()) {
            let all = || WORDS.into_iter().flatten();
            let known = all().find(|known| **known == word).ok_or_else(|| {
                let words: Vec<&str> = all().copied().collect();
                let words = words.join(", ");
                Error::InvalidSetting(format!("rocksdb has no setting `{word}` (of {words})"))
            })?;
            for (line, chosen) in WORDS.iter().zip(&mut variant.0) {
                if line.contains(known) {
                    *chosen = Some(known);
                }
            }
        }
        Ok(variant)
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&Some(word))
    }

    /// The settings that change what lies on disk.
    pub(super) fn layout(self) -> String {
        let words = self.0.into_iter().take(ON_DISK).flatten();
        words.collect::<Vec<_>>().join("-")
    }

    /// The percentage of the budget for a cache of entries.
    fn row_percent(&self) -> u64 {
        let mut words = self.0.into_iter().flatten();
        let percent = words.find_map(|word| word.strip_prefix("row")?.parse().ok());
        percent.unwrap_or(0)
    }

    fn table_options(self, config: &EngineConfig, cache: &Cache) -> BlockBasedOptions {
        let mut table = BlockBasedOptions::default();
        table.set_block_size(4096);
        table.set_block_cache(cache);
        table.set_cache_index_and_filter_blocks(!config.metadata_resident);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        let bits = self.0[BITS].and_then(|bits| bits.parse().ok());
        let bits = bits.unwrap_or(config.bits_per_key);
        if self.has("ribbon") {
            table.set_ribbon_filter(bits);
        } else if self.has("hybrid") {
            table.set_hybrid_ribbon_filter(bits, 2);
        } else {
            table.set_bloom_filter(bits, false);
        }
        if self.has("prefix8") {
            table.set_whole_key_filtering(false);
        }
        if self.has("ri16") {
            // Of the index: the interval of data blocks has another name.
            table.set_index_block_restart_interval(16);
        }
        if self.has("partitioned") {
            table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            table.set_partition_filters(true);
            table.set_metadata_block_size(4096);
            table.set_pin_top_level_index_and_filter(true);
        }
        if self.has("hash") {
            table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        }
        table
    }

    /// What the interface for C cannot set, in RocksDB's own words; `bytes` are the block cache's.
    fn in_words(self, bytes: usize) -> Option<String> {
        let mut words = Vec::new();
        if self.has("aligned") {
            words.push("block_align=true".to_owned());
        }
        if self.has("pool95") {
            // -1: as many shards as RocksDB takes for the size.
            let shards = if self.has("unsharded") { 0 } else { -1 };
            words.push(format!(
                "block_cache={{capacity={bytes};num_shard_bits={shards};high_pri_pool_ratio=0.95}}"
            ));
        }
        (!words.is_empty()).then(|| format!("block_based_table_factory={{{}}}", words.join(";")))
    }

    /// The options of a database, and its cache of entries, if there is one.
    fn options(self, config: &EngineConfig) -> Result<(Options, Option<Cache>)> {
        let row_bytes = (config.memory * self.row_percent() / 100) as usize;
        let bytes = config.memory as usize - row_bytes;
        let cache = if self.has("hyper") {
            Cache::new_hyper_clock_cache(bytes, 0)
        } else {
            let mut lru = LruCacheOptions::default();
            lru.set_capacity(bytes);
            if self.has("unsharded") {
                lru.set_num_shard_bits(0);
            }
            Cache::new_lru_cache_opts(&lru)
        };
        let mut options = Options::default();
        options.set_block_based_table_factory(&self.table_options(config, &cache));
        if let Some(words) = self.in_words(bytes) {
            options = options.get_options_from_string(words).map_err(failed)?;
        }
        let rows = (row_bytes > 0).then(|| Cache::new_lru_cache(row_bytes));
        if let Some(rows) = &rows {
            options.set_row_cache(rows);
        }
        options.create_if_missing(!config.read_only);
        options.set_enable_pipelined_write(self.has("pipelined"));
        options.set_unordered_write(self.has("unordered"));
        options.set_allow_mmap_reads(self.has("mmap"));
        options.set_optimize_filters_for_hits(self.has("hits"));
        options.set_compression_type(DBCompressionType::None);
        options.set_write_buffer_size(config.write_buffer as usize);
        options.set_max_write_buffer_number(3);
        options.set_target_file_size_base(config.file_size);
        options.set_max_bytes_for_level_base(config.write_buffer * 4);
        options.set_max_bytes_for_level_multiplier(f64::from(config.size_ratio));
        options.set_level_compaction_dynamic_level_bytes(false);
        options.set_use_direct_reads(config.direct_reads && !self.has("mmap"));
        options.set_max_background_jobs(config.background as i32);
        options.set_max_open_files(-1);
        options.set_keep_log_file_num(1);
        if self.has("prefix8") {
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(8));
        }
        if self.has("blobs") {
            options.set_enable_blob_files(true);
            options.set_min_blob_size(LEAST_BLOB);
            options.set_enable_blob_gc(true);
            options.set_blob_cache(&cache);
        }
        if config.counters {
            options.enable_statistics();
            options.set_statistics_level(StatsLevel::ExceptTimers);
        }
        Ok((options, rows))
    }
}

pub(super) struct Rocks {
    db: DB,
    /// The cache of entries, if there is one.
    rows: Option<Cache>,
    options: Options,
    write: WriteOptions,
    /// Whether it knows what prefixes keys have.
    has_prefixes: bool,
}

fn failed(source: ::rocksdb::Error) -> Error {
    Error::engine("rocksdb", source)
}

impl Rocks {
    pub(super) fn open(settings: &str, config: &EngineConfig) -> Result<Self> {
        let (options, rows) = Variant::parse(settings)?.options(config)?;
        let db = if config.read_only {
            DB::open_for_read_only(&options, &config.dir, false)
        } else {
            DB::open(&options, &config.dir)
        };
        Ok(Self::of(db.map_err(failed)?, rows, options, config))
    }

    fn of(db: DB, rows: Option<Cache>, options: Options, config: &EngineConfig) -> Self {
        let mut write = WriteOptions::default();
        write.disable_wal(!config.wal);
        Self {
            db,
            rows,
            options,
            write,
            has_prefixes: false,
        }
    }
}

/// Visits up to `limit` entries from where a cursor stands; how many there were.
fn visit_from<D: DBAccess>(
    cursor: &mut DBRawIteratorWithThreadMode<'_, D>,
    limit: usize,
    visit: &mut Visit<'_>,
) -> Result<usize> {
    let mut seen = 0;
    while seen < limit {
        let Some((key, value)) = cursor.item() else {
            break;
        };
        visit(key, value)?;
        seen += 1;
        if seen < limit {
            cursor.next();
        }
    }
    cursor.status().map_err(failed)?;
    Ok(seen)
}

impl Engine for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(key, value, &self.write).map_err(failed)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let found = self.db.get_pinned(key).map_err(failed)?;
        Ok(copied(found, into))
    }

    fn multi_get(&self, keys: &[&[u8]], into: &mut Vec<Option<Vec<u8>>>) -> Result<()> {
        into.clear();
        let Some(family) = self.db.cf_handle("default") else {
            return Err(Error::engine("rocksdb", "no default column family"));
        };
        let mut read = ReadOptions::default();
        // Reads of one table at a time, overlapped where RocksDB was built to.
        read.set_async_io(true);
        for found in self
            .db
            .batched_multi_get_cf_opt(&family, keys, false, &read)
        {
            into.push(found.map_err(failed)?.map(|value| value.to_vec()));
        }
        Ok(())
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for write in writes {
            match *write {
                Write::Put(key, value) => batch.put(key, value),
                Write::Delete(key) => batch.delete(key),
            }
        }
        self.db.write_opt(batch, &self.write).map_err(failed)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let mut cursor = self.db.raw_iterator_opt(ReadOptions::default());
        cursor.seek(from);
        visit_from(&mut cursor, limit, visit)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush().map_err(failed)
    }

    fn wait_idle(&self) -> Result<()> {
        self.db
            .wait_for_compact(&WaitForCompactOptions::default())
            .map_err(failed)
    }

    /// Blocks that were not in the cache, and files that lookups asked, by our engine's name for
    /// it: a file whose filter is not consulted is not counted.
    fn counts(&self) -> BTreeMap<String, u64> {
        let ticker = |ticker| self.options.get_ticker_count(ticker);
        let asked = ticker(Ticker::BloomFilterUseful) + ticker(Ticker::BloomFilterFullPositive);
        let counts = [
            ("data_misses", ticker(Ticker::BlockCacheDataMiss)),
            ("index_misses", ticker(Ticker::BlockCacheIndexMiss)),
            ("filter_misses", ticker(Ticker::BlockCacheFilterMiss)),
            ("tables_probed", asked),
        ];
        BTreeMap::from(counts.map(|(name, count)| (name.to_owned(), count)))
    }

    fn compact(&self) -> Result<bool> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(true)
    }

    fn runs(&self) -> Option<u64> {
        let files = |level: u64| {
            let name = format!("rocksdb.num-files-at-level{level}");
            let value = self.db.property_value(&name).ok().flatten()?;
            value.parse::<u64>().ok()
        };
        // Every file of level 0 is a run; deeper levels are one each.
        let deeper = (1..7).filter_map(files).filter(|files| *files > 0).count();
        Some(files(0)? + deeper as u64)
    }

    fn indexes(&self) -> Result<Option<Indexes>> {
        let told = self
            .db
            .property_value("rocksdb.aggregated-table-properties");
        let all = told.map_err(failed)?;
        // "# data blocks=7; ... index block size (user-key? 1, delta-value? 1)=90; ..."
        let all = all.unwrap_or_default();
        let number = |name: &str| {
            let mut fields = all.split(';').map(str::trim);
            let field = fields.find(|field| field.starts_with(name))?;
            field.rsplit('=').next()?.parse::<f64>().ok()
        };
        let found = number("# data blocks=").zip(number("index block size"));
        Ok(found.map(|(blocks, bytes)| Indexes {
            blocks: blocks as u64,
            bytes: bytes as u64,
            ..Indexes::default()
        }))
    }

    fn memory(&self) -> Option<u64> {
        let property = |name: &str| self.db.property_int_value(name).ok().flatten().unwrap_or(0);
        Some(
            property("rocksdb.block-cache-usage")
                + self.rows.as_ref().map_or(0, |rows| rows.get_usage() as u64)
                + property("rocksdb.cur-size-all-mem-tables")
                + property("rocksdb.estimate-table-readers-mem"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_named_and_nonsense_is_refused() {
        let variant = Variant::parse("ribbon-partitioned+hyper+hits").unwrap();
        assert!(
            variant.has("ribbon")
                && variant.has("partitioned")
                && variant.has("hyper")
                && variant.has("hits")
        );
        assert_eq!(variant.layout(), "ribbon-partitioned-hits");
        assert_eq!(Variant::parse("").unwrap().layout(), "bloom-whole");
        let variant = Variant::parse("hybrid-whole+unsharded").unwrap();
        assert!(variant.has("hybrid") && variant.has("unsharded") && !variant.has("ribbon"));
        assert_eq!(variant.layout(), "hybrid-whole");
        assert!(Variant::parse("fast").is_err());
        let best = Variant::parse("ribbon-partitioned-6-ri16-aligned-pool95-row15").unwrap();
        assert_eq!(best.layout(), "ribbon-partitioned-6-aligned-ri16");
        assert_eq!((best.0[BITS], best.row_percent()), (Some("6"), 15));
        let rows = |settings| Variant::parse(settings).unwrap().row_percent();
        assert_eq!((rows("row25"), rows("row50"), rows("hits")), (25, 50, 0));
    }

    /// Each setting is taken, and what is written is found with it.
    #[test]
    fn a_database_of_every_setting_is_read() {
        for settings in [
            "ribbon-partitioned-6-ri16-aligned-pool95-row15-unsharded",
            "bloom-whole-20-pool95-mmap-pipelined",
            "bloom-whole-15-hash-unordered-row25-hyper",
            "bloom-whole-blobs",
        ] {
            let dir = tempfile::tempdir().unwrap();
            let config = EngineConfig::standard(dir.path().to_owned(), 4 << 20);
            let rocks = Rocks::open(settings, &config).unwrap();
            for number in 0..2_000u32 {
                rocks.put(&number.to_be_bytes(), &[7; 60]).unwrap();
            }
            rocks.flush().unwrap();
            let mut value = Vec::new();
            for number in 0..2_000u32 {
                assert!(rocks.get(&number.to_be_bytes(), &mut value).unwrap());
                assert_eq!(value, [7; 60], "{settings}");
            }
            assert!(rocks.memory().unwrap() > 0, "{settings}");
        }
    }
}
