//! The engine of this repository.
mod data_model;

use super::data_model::{Purpose, TIME_TO_LIVE};
use super::{
    Engine, EngineConfig, FileFacts, Indexes, Inspect, LEAST_BLOB, Resident, Visit, Write, copied,
};
use crate::device::Device;
use crate::{Error, Result};
use ::shamba::fs::{Charge, MeteredFs};
use ::shamba::inspect;
use ::shamba::{
    Db, Durability, Eviction, FilterAllocation, FilterFamily, FilterOptions, FilterPolicy,
    Granularity, Increment, IterOptions, KeyspaceOptions, MemoryBudget, MergePolicy, ModuleSizes,
    Options, Prefix, Preset, Thresholds, WriteBatch, WriteOptions,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a specification after `shamba:` chooses: a preset's name, and words that change it, joined
/// by `+`; or words alone, joined by `-` or `+`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    /// With filters for 10 bits per key.
    keyspace: KeyspaceOptions,
    eviction: Eviction,
    /// Whether the key is hashed once for each lookup, not for each table.
    hash_sharing: bool,
    /// Whether the cache keeps hot entries by themselves.
    entries: bool,
    /// Whether new tables inherit statistics.
    inherit: bool,
}

impl Variant {
    pub(super) fn parse(settings: &str) -> Result<Self> {
        let mut words: Vec<&str> = settings
            .split('+')
            .filter(|part| !part.is_empty())
            .collect();
        let preset = words.first().and_then(|first| first.parse().ok());
        if preset.is_some() {
            words.remove(0);
        }
        let preset: Preset = preset.unwrap_or_default();
        let mut variant = Self {
            keyspace: KeyspaceOptions::default().preset(preset),
            eviction: preset.eviction(),
            hash_sharing: preset.hash_sharing(),
            entries: true,
            inherit: true,
        };
        let words = words.iter().flat_map(|part| part.split('-'));
        for word in words.filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            variant.set(name, value).ok_or_else(|| {
                let presets = Preset::ALL.map(Preset::name).join(", ");
                Error::InvalidSetting(format!(
                    "shamba has no setting `{word}` (one of {presets}, and then bloom, blocked, \
                     ribbon or auto, partitioned or whole, rehash, pages, paper, lru, cold, monkey \
                     or measured, tiering, lazy or full, modules=N, units=N/K, still, epoch=N, \
                     first=B, bits=B, prefix8, ranges=B, blobs, joined by `+`)"
                ))
            })?;
        }
        Ok(variant)
    }

    /// Sets what a word, and its number if it has one, says; `None` if it says nothing.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let KeyspaceOptions {
            filter,
            filter_policy,
            merge_policy,
            epoch_lookups,
            ..
        } = &mut self.keyspace;
        match (name, value) {
            ("bloom", "") => filter.family = FilterFamily::Bloom,
            ("blocked", "") => filter.family = FilterFamily::BlockedBloom,
            ("ribbon", "") => filter.family = FilterFamily::Ribbon,
            ("auto", "") => filter.family = FilterFamily::Auto,
            ("partitioned", "") => filter.partitioned = true,
            ("whole", "") => filter.partitioned = false,
            ("monkey", "") => filter.allocation = FilterAllocation::Monkey,
            ("measured", "") => filter.allocation = FilterAllocation::Measured,
            ("modules", _) => filter.modules = value.parse().ok()?,
            ("bits", _) => filter.bits_per_key = value.parse().ok()?,
            // Bits per key of the first of several modules (SHaMBa-prop), of 10 of the filter.
            ("first", _) => {
                filter.module_sizes = ModuleSizes::Proportional {
                    first_bits_per_key: value.parse().ok()?,
                };
            }
            // So many ElasticBF units, of which K make up the bits per key and are enabled on the
            // average.
            ("units", _) => {
                let (all, enabled) = value.split_once('/')?;
                let (all, enabled): (u8, u8) = (all.parse().ok()?, enabled.parse().ok()?);
                let units = FilterOptions::units(all, 10.0 / f64::from(enabled.max(1)));
                (filter.modules, filter.bits_per_key) = (units.modules, units.bits_per_key);
                if let FilterPolicy::Elastic { initial_units, .. } = filter_policy {
                    *initial_units = enabled;
                }
            }
            // Units stay where they are: one moves only once its file has not been asked so long.
            ("still", "") => {
                if let FilterPolicy::Elastic { lifetime, .. } = filter_policy {
                    *lifetime = u32::MAX;
                }
            }
            // The skipping thresholds as they are printed, instead of relative ones.
            ("paper", "") => {
                if let FilterPolicy::Utility { thresholds, .. } = filter_policy {
                    *thresholds = Thresholds::PAPER;
                }
            }
            // Lookups after which filter policies decide anew, at least.
            ("epoch", _) => *epoch_lookups = value.parse().ok()?,
            ("tiering", "") => *merge_policy = MergePolicy::Tiering,
            ("lazy", "") => *merge_policy = MergePolicy::LazyLeveling,
            // Leveling by whole levels.
            ("full", "") => {
                *merge_policy = MergePolicy::Leveling {
                    granularity: Granularity::Level,
                };
            }
            ("prefix8", "") => self.keyspace.prefix = Some(Prefix::Fixed(8)),
            // So many bits per key.
            ("ranges", _) => self.keyspace.range_filter = Some(value.parse().ok()?),
            ("blobs", "") => self.keyspace.value_files_from = Some(LEAST_BLOB),
            ("lru", "") => self.eviction = Eviction::TwoPriorityLru,
            ("rehash", "") => self.hash_sharing = false,
            ("pages", "") => self.entries = false,
            ("cold", "") => self.inherit = false,
            _ => return None,
        }
        Some(())
    }

    /// The keyspace options: every engine gets the same bits per key, which for ElasticBF are the
    /// enabled ones.
    fn keyspace(&self, config: &EngineConfig) -> KeyspaceOptions {
        let mut keyspace = self
            .keyspace
            .clone()
            .size_ratio(config.size_ratio)
            .write_buffer(config.write_buffer)
            .target_file(config.file_size);
        let scale = config.bits_per_key / 10.0;
        keyspace.filter.bits_per_key *= scale;
        if let ModuleSizes::Proportional { first_bits_per_key } = &mut keyspace.filter.module_sizes
        {
            *first_bits_per_key *= scale;
        }
        keyspace
    }

    /// The settings that change what lies on disk.
    pub(super) fn layout(&self) -> String {
        let filter = &self.keyspace.filter;
        let family = match filter.family {
            FilterFamily::Bloom => "bloom",
            FilterFamily::BlockedBloom => "blocked",
            FilterFamily::Ribbon => "ribbon",
            _ => "auto",
        };
        let pieces = if filter.partitioned {
            "partitioned"
        } else {
            "whole"
        };
        let mut name = format!("{family}-{pieces}");
        let bits = filter.bits_per_key;
        match filter.modules {
            1 if bits == 10.0 => {}
            1 => name += &format!("-{bits}"),
            modules => name += &format!("-{modules}x{bits}"),
        }
        match filter.module_sizes {
            ModuleSizes::FirstInMemory => name += "-prop",
            ModuleSizes::Proportional { first_bits_per_key } => {
                name += &format!("-first{first_bits_per_key}");
            }
            _ => {}
        }
        name += match filter.allocation {
            FilterAllocation::Monkey => "-monkey",
            FilterAllocation::Measured => "-measured",
            _ => "",
        };
        name += match self.keyspace.merge_policy {
            MergePolicy::Tiering => "-tiering",
            MergePolicy::LazyLeveling => "-lazy",
            merge if merge != MergePolicy::default() => "-full",
            _ => "",
        };
        if self.keyspace.value_files_from.is_some() {
            name += "-blobs";
        }
        match (&self.keyspace.prefix, self.keyspace.range_filter) {
            (_, Some(bits)) => name += &format!("-ranges{bits}"),
            (Some(_), None) => name += "-prefix8",
            (None, None) => {}
        }
        name
    }
}

/// An open database as an engine under test.
pub struct Shamba {
    db: Db,
    /// What charges its reads and writes, where a device is modelled.
    meter: Option<MeteredFs>,
}

impl Shamba {
    pub(super) fn open(settings: &str, config: &EngineConfig) -> Result<Self> {
        Self::open_for(settings, config, Purpose::Entries)
    }

    /// Opens a database, with a merge operator that adds where counters are wanted, and a time to
    /// live where entries expire.
    pub(super) fn open_for(
        settings: &str,
        config: &EngineConfig,
        purpose: Purpose,
    ) -> Result<Self> {
        let variant = Variant::parse(settings)?;
        let durability = if config.wal {
            Durability::Buffered
        } else {
            Durability::None
        };
        let meter = (config.device != Device::Disk).then(|| config.device.fs(Charge::Virtual));
        let mut options = Options::new();
        if let Some(meter) = &meter {
            options = options.fs(Arc::new(meter.clone()));
        }
        if purpose == Purpose::Counters {
            options = options.merge_operator("default", Increment);
        }
        let mut keyspace = variant.keyspace(config);
        if purpose == Purpose::Expiring {
            keyspace = keyspace.ttl(Some(TIME_TO_LIVE));
        }
        let db = options
            .create_if_missing(!config.read_only)
            .memory(MemoryBudget::bytes(config.memory))
            .background_threads(config.background)
            .durability(durability)
            .inherit_statistics(variant.inherit)
            .hash_sharing(variant.hash_sharing)
            .cache_entries(variant.entries)
            .keyspace(keyspace)
            .eviction(variant.eviction)
            .open(&config.dir)?;
        Ok(Self { db, meter })
    }
}

impl From<Db> for Shamba {
    /// Measures a database that was opened elsewhere, with any options.
    fn from(db: Db) -> Self {
        Self { db, meter: None }
    }
}

impl Engine for Shamba {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(key, value)?)
    }

    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<bool> {
        self.db.put_with(key, value, WriteOptions::new().ttl(ttl))?;
        Ok(true)
    }

    fn transaction(&self, read: &[u8]) -> Result<Option<Box<dyn Any>>> {
        let transaction = self.db.transaction();
        transaction.get(read)?;
        Ok(Some(Box::new(transaction)))
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let found = self.db.get(key)?;
        Ok(copied(found, into))
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for write in writes {
            match *write {
                Write::Put(key, value) => batch.put(key, value),
                Write::Delete(key) => batch.delete(key),
            }
        }
        Ok(self.db.write(batch)?)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let mut cursor = self.db.cursor(IterOptions::default())?;
        cursor.seek(from)?;
        let mut seen = 0;
        while seen < limit && cursor.valid() {
            visit(cursor.key(), cursor.value())?;
            seen += 1;
            if seen < limit {
                cursor.next()?;
            }
        }
        Ok(seen)
    }

    fn multi_get(&self, keys: &[&[u8]], into: &mut Vec<Option<Vec<u8>>>) -> Result<()> {
        into.clear();
        let values = self.db.multi_get(keys)?;
        into.extend(values.into_iter().map(|value| Some(value?.to_vec())));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(self.db.wait_for_compaction()?)
    }

    fn compact(&self) -> Result<bool> {
        self.db.compact_range(None, None)?;
        Ok(true)
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let stats = self.db.stats();
        let counters = serde_json::to_value(stats.counters);
        let counters = counters.and_then(serde_json::from_value);
        let mut counters: BTreeMap<String, u64> = counters.unwrap_or_default();
        // Sampled, one lookup in eight.
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        for modules in levels.map(|level| &level.lookups.modules) {
            for (number, module) in modules.iter().enumerate() {
                let mut add = |what, count| {
                    let name = format!("module_{number}_{what}");
                    *counters.entry(name).or_default() += count;
                };
                add("probed", module.probed);
                add("fetched", module.fetched);
                add("skipped", module.skipped);
            }
        }
        counters
    }

    fn files(&self) -> Vec<FileFacts> {
        let files = inspect::file_lookups(&self.db).into_iter();
        let facts = files.map(|file| FileFacts {
            level: file.level,
            entries: file.entries,
            access: file.access,
            positive: file.positive,
        });
        facts.collect()
    }

    fn resident(&self) -> Option<Resident> {
        let stats = self.db.stats();
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        Some(levels.fold(Resident::default(), |sum, level| Resident {
            data: sum.data + level.resident.data,
            index: sum.index + level.resident.index,
            filter: sum.filter + level.resident.filter,
        }))
    }

    fn device_ns(&self) -> u64 {
        let meter = self.meter.as_ref();
        meter.map_or(0, |meter| meter.counts().device_ns)
    }

    fn runs(&self) -> Option<u64> {
        let stats = self.db.stats();
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        Some(levels.map(|level| level.runs as u64).sum())
    }

    fn tree(&self, visit: &mut Inspect<'_>) -> Result<Option<u64>> {
        let fixed = inspect::filter_partitions(&self.db, |partition| visit(&partition))?;
        Ok(Some(fixed))
    }

    fn indexes(&self) -> Result<Option<Indexes>> {
        let stats = self.db.stats();
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        let (mut blocks, mut resident) = (0, 0);
        let tables = inspect::filter_partitions(&self.db, |partition| {
            blocks += partition.data.len() as u64;
            resident += partition.index_bytes;
            Ok::<(), Error>(())
        })?;
        Ok(Some(Indexes {
            blocks,
            bytes: levels.map(|level| level.index_bytes).sum(),
            resident: Some(resident),
            tables: Some(tables),
        }))
    }

    fn memory(&self) -> Option<u64> {
        Some(self.db.stats().memory.budget.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_named_and_nonsense_is_refused() {
        let variant = Variant::parse("blocked-whole+rehash").unwrap();
        assert_eq!(variant.layout(), "blocked-whole");
        assert!(!variant.hash_sharing);
        let lru = Variant::parse("default+lru").unwrap();
        assert_eq!(lru.layout(), "auto-partitioned");
        assert_eq!(lru.eviction, Eviction::TwoPriorityLru);
        assert_eq!(Variant::parse("").unwrap().layout(), "auto-partitioned");
        assert!(Variant::parse("granite").is_err());
    }

    #[test]
    fn presets_are_named_and_changed() {
        let config = EngineConfig::standard("db".into(), 1 << 20);
        let keyspace = |settings: &str| Variant::parse(settings).unwrap().keyspace(&config);
        for preset in Preset::ALL {
            let made = keyspace(preset.name());
            assert_eq!(made.filter, preset.filter());
            assert_eq!(made.filter_policy, preset.filter_policy());
            assert_eq!((made.size_ratio, made.write_buffer), (4, 4 << 20));
        }
        let changed = keyspace("shamba-eq-f+partitioned+paper+modules=3");
        assert!(changed.filter.partitioned && changed.filter.modules == 3);
        let FilterPolicy::Utility { thresholds, .. } = changed.filter_policy else {
            panic!("{:?}", changed.filter_policy);
        };
        assert_eq!(thresholds, Thresholds::PAPER);
        for (settings, layout) in [
            ("shamba-eq", "bloom-whole-2x10"),
            ("shamba-eq-f", "bloom-whole-2x10"),
            ("shamba-prop-f+first=2.5", "bloom-whole-2x10-first2.5"),
            ("state-of-the-art", "bloom-whole"),
            ("elastic", "bloom-whole-4x20"),
            ("elastic+monkey", "bloom-whole-4x20-monkey"),
            ("elastic+units=4/2", "bloom-whole-4x20"),
            ("elastic+still", "bloom-whole-4x20"),
            ("partitioned+tiering", "bloom-partitioned-tiering"),
            ("partitioned+ribbon+bits=12", "ribbon-partitioned-12"),
            ("full", "auto-partitioned-full"),
        ] {
            assert_eq!(Variant::parse(settings).unwrap().layout(), layout);
        }
        let units = keyspace("elastic+units=6/3");
        let bits = units.filter.bits_per_key.round();
        assert_eq!((units.filter.modules, bits), (6, 20.0));
        let FilterPolicy::Elastic { initial_units, .. } = units.filter_policy else {
            panic!("{:?}", units.filter_policy);
        };
        assert_eq!(initial_units, 3);
        let monkey = keyspace("partitioned+monkey").filter.allocation;
        assert_eq!(monkey, FilterAllocation::Monkey);
        assert_eq!(keyspace("lazy").merge_policy, MergePolicy::LazyLeveling);
        assert_eq!(keyspace("partitioned+bits=12").filter.bits_per_key, 12.0);
        for wrong in ["elastic+units=6", "shamba-eq-q"] {
            assert!(Variant::parse(wrong).is_err(), "{wrong}");
        }
    }
}
