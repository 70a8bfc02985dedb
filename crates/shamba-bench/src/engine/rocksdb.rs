//! RocksDB at its best: the settings of PEERS as named, combinable variants.
use super::{Engine, EngineConfig, ReadCounters, Visit, Write};
use crate::{Error, Result};
use ::rocksdb::statistics::{StatsLevel, Ticker};
use ::rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType,
    LruCacheOptions, Options, ReadOptions, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;

/// What a specification after `rocksdb:` chooses, its words joined by `-` or `+`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variant {
    /// `ribbon` instead of `bloom`.
    ribbon: bool,
    /// `hybrid`: Bloom for flushes and level 0 and 1, ribbon below.
    hybrid: bool,
    /// `partitioned` instead of `whole` filters and indexes.
    partitioned: bool,
    /// `hyper`: HyperClockCache instead of `lru`.
    hyper: bool,
    /// `unsharded`: the LRU cache in one piece, so that small budgets are not cut up.
    unsharded: bool,
    /// `hits`: no filters on the last level.
    hits: bool,
    /// `hash`: hash index inside data blocks.
    hash: bool,
}

impl Variant {
    pub(super) fn parse(settings: &str) -> Result<Self> {
        let mut variant = Self::default();
        for word in settings.split(['-', '+']).filter(|word| !word.is_empty()) {
            match word {
                "bloom" => (variant.ribbon, variant.hybrid) = (false, false),
                "ribbon" => (variant.ribbon, variant.hybrid) = (true, false),
                "hybrid" => (variant.ribbon, variant.hybrid) = (false, true),
                "whole" => variant.partitioned = false,
                "partitioned" => variant.partitioned = true,
                "lru" => variant.hyper = false,
                "hyper" => variant.hyper = true,
                "unsharded" => variant.unsharded = true,
                "hits" => variant.hits = true,
                "hash" => variant.hash = true,
                _ => {
                    return Err(Error::InvalidSetting(format!(
                        "rocksdb has no setting `{word}` (bloom, ribbon or hybrid, whole or \
                         partitioned, lru or hyper, unsharded, hits, hash)"
                    )));
                }
            }
        }
        Ok(variant)
    }

    /// The settings that change what lies on disk.
    pub(super) fn layout(self) -> String {
        let mut name = format!(
            "{}-{}",
            match (self.ribbon, self.hybrid) {
                (true, _) => "ribbon",
                (_, true) => "hybrid",
                _ => "bloom",
            },
            if self.partitioned {
                "partitioned"
            } else {
                "whole"
            }
        );
        if self.hits {
            name.push_str("-hits");
        }
        if self.hash {
            name.push_str("-hash");
        }
        name
    }

    fn table_options(self, config: &EngineConfig, cache: &Cache) -> BlockBasedOptions {
        let mut table = BlockBasedOptions::default();
        table.set_block_size(4096);
        table.set_block_cache(cache);
        table.set_cache_index_and_filter_blocks(!config.metadata_resident);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        if self.ribbon {
            table.set_ribbon_filter(config.bits_per_key);
        } else if self.hybrid {
            table.set_hybrid_ribbon_filter(config.bits_per_key, 2);
        } else {
            table.set_bloom_filter(config.bits_per_key, false);
        }
        if self.partitioned {
            table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            table.set_partition_filters(true);
            table.set_metadata_block_size(4096);
            table.set_pin_top_level_index_and_filter(true);
        }
        if self.hash {
            table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        }
        table
    }
}

pub(super) struct Rocks {
    db: DB,
    cache: Cache,
    options: Options,
    write: WriteOptions,
}

fn failed(source: ::rocksdb::Error) -> Error {
    Error::engine("rocksdb", source)
}

impl Rocks {
    pub(super) fn open(settings: &str, config: &EngineConfig) -> Result<Self> {
        let variant = Variant::parse(settings)?;
        let bytes = config.memory as usize;
        let cache = if variant.hyper {
            Cache::new_hyper_clock_cache(bytes, 0)
        } else {
            let mut lru = LruCacheOptions::default();
            lru.set_capacity(bytes);
            if variant.unsharded {
                lru.set_num_shard_bits(0);
            }
            Cache::new_lru_cache_opts(&lru)
        };
        let mut options = Options::default();
        options.create_if_missing(!config.read_only);
        options.set_block_based_table_factory(&variant.table_options(config, &cache));
        options.set_optimize_filters_for_hits(variant.hits);
        options.set_compression_type(DBCompressionType::None);
        options.set_write_buffer_size(config.write_buffer as usize);
        options.set_max_write_buffer_number(3);
        options.set_target_file_size_base(config.file_size);
        options.set_max_bytes_for_level_base(config.write_buffer * 4);
        options.set_max_bytes_for_level_multiplier(f64::from(config.size_ratio));
        options.set_level_compaction_dynamic_level_bytes(false);
        options.set_use_direct_reads(config.direct_reads);
        options.set_max_background_jobs(config.background as i32);
        options.set_max_open_files(-1);
        options.set_keep_log_file_num(1);
        if config.counters {
            options.enable_statistics();
            options.set_statistics_level(StatsLevel::ExceptTimers);
        }
        let db = if config.read_only {
            DB::open_for_read_only(&options, &config.dir, false)
        } else {
            DB::open(&options, &config.dir)
        }
        .map_err(failed)?;
        let mut write = WriteOptions::default();
        write.disable_wal(!config.wal);
        Ok(Self {
            db,
            cache,
            options,
            write,
        })
    }
}

impl Engine for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(key, value, &self.write).map_err(failed)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let found = self.db.get_pinned(key).map_err(failed)?;
        Ok(found.is_some_and(|value| {
            into.extend_from_slice(&value);
            true
        }))
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

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete_opt(key, &self.write).map_err(failed)
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

    fn flush(&self) -> Result<()> {
        self.db.flush().map_err(failed)
    }

    fn wait_idle(&self) -> Result<()> {
        self.db
            .wait_for_compact(&WaitForCompactOptions::default())
            .map_err(failed)
    }

    fn read_counters(&self) -> Option<ReadCounters> {
        let ticker = |ticker| self.options.get_ticker_count(ticker);
        Some(ReadCounters {
            data: ticker(Ticker::BlockCacheDataMiss),
            index: ticker(Ticker::BlockCacheIndexMiss),
            filter: ticker(Ticker::BlockCacheFilterMiss),
        })
        .filter(|counters| counters.total() > 0)
    }

    /// Files that lookups asked, by our engine's name for it. A file whose filter is not consulted
    /// is not counted.
    fn counts(&self) -> BTreeMap<String, u64> {
        let asked = [Ticker::BloomFilterUseful, Ticker::BloomFilterFullPositive]
            .map(|ticker| self.options.get_ticker_count(ticker));
        BTreeMap::from([("tables_probed".to_owned(), asked.iter().sum())])
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

    fn memory(&self) -> Option<u64> {
        let property = |name: &str| self.db.property_int_value(name).ok().flatten().unwrap_or(0);
        Some(
            self.cache.get_usage() as u64
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
        assert!(variant.ribbon && variant.partitioned && variant.hyper && variant.hits);
        assert_eq!(variant.layout(), "ribbon-partitioned-hits");
        assert_eq!(Variant::parse("").unwrap().layout(), "bloom-whole");
        let variant = Variant::parse("hybrid-whole+unsharded").unwrap();
        assert!(variant.hybrid && variant.unsharded && !variant.ribbon);
        assert_eq!(variant.layout(), "hybrid-whole");
        assert!(Variant::parse("fast").is_err());
    }
}
