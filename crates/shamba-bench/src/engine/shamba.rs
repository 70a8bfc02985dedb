//! The engine of this repository.
use super::{Engine, EngineConfig, FileFacts, Inspect, Resident, Visit, Write};
use crate::device::Device;
use crate::{Error, Result};
use ::shamba::fs::{Charge, MeteredFs};
use ::shamba::inspect;
use ::shamba::{
    Db, Durability, Eviction, FilterAllocation, FilterFamily, FilterOptions, FilterPolicy,
    Granularity, IterOptions, KeyspaceOptions, MemoryBudget, MergePolicy, ModuleSizes, Options,
    Preset, Thresholds, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a specification after `shamba:` chooses: a preset's name, and words that change it, joined
/// by `+`; or words alone, joined by `-` or `+`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variant {
    preset: Preset,
    /// `bloom`, `blocked`, `ribbon` or `auto`, where the preset is not followed.
    family: Option<FilterFamily>,
    /// `whole` instead of `partitioned` filters and indexes, where the preset is not followed.
    whole: Option<bool>,
    /// `rehash`: hash the key for each table instead of once for each lookup.
    rehash: bool,
    /// `paper`: the skipping thresholds as they are printed, instead of relative ones.
    paper: bool,
    /// `lru`: two-priority LRU, whatever the preset.
    lru: bool,
    /// `modules=N`, where the preset is not followed.
    modules: Option<u8>,
    /// `units=N/K`: so many ElasticBF units, of which K make up the bits per key and are enabled on
    /// the average.
    units: Option<(u8, u8)>,
    /// `still`: ElasticBF units that stay where they are.
    still: bool,
    /// `epoch=N`: lookups after which filter policies decide anew, at least.
    epoch: Option<u64>,
    /// `first=B`: bits per key of the first of several modules (SHaMBa-prop), of 10 of the filter.
    first: Option<f64>,
    /// `bits=B`: bits per key of the filter, where others have 10 and the preset is not followed.
    bits: Option<f64>,
    /// `cold`: new tables inherit nothing.
    cold: bool,
    /// `monkey`, `measured`: how filter memory is divided, if not uniformly.
    allocation: FilterAllocation,
    /// `tiering`, `lazy`, or `full` (leveling by whole levels): how runs merge.
    merge: MergePolicy,
}

impl Variant {
    pub(super) fn parse(settings: &str) -> Result<Self> {
        let mut variant = Self {
            preset: Preset::default(),
            family: None,
            whole: None,
            rehash: false,
            paper: false,
            lru: false,
            modules: None,
            units: None,
            still: false,
            epoch: None,
            first: None,
            bits: None,
            cold: false,
            allocation: FilterAllocation::Uniform,
            merge: MergePolicy::default(),
        };
        let parts = settings.split('+').filter(|part| !part.is_empty());
        for (number, part) in parts.enumerate() {
            match part.parse() {
                Ok(preset) if number == 0 => variant.preset = preset,
                _ => part
                    .split('-')
                    .filter(|word| !word.is_empty())
                    .try_for_each(|word| variant.set(word))?,
            }
        }
        Ok(variant)
    }

    fn set(&mut self, word: &str) -> Result<()> {
        match word {
            "bloom" => self.family = Some(FilterFamily::Bloom),
            "blocked" => self.family = Some(FilterFamily::BlockedBloom),
            "ribbon" => self.family = Some(FilterFamily::Ribbon),
            "auto" => self.family = Some(FilterFamily::Auto),
            "partitioned" => self.whole = Some(false),
            "whole" => self.whole = Some(true),
            "rehash" => self.rehash = true,
            "cold" => self.cold = true,
            "monkey" => self.allocation = FilterAllocation::Monkey,
            "measured" => self.allocation = FilterAllocation::Measured,
            "tiering" => self.merge = MergePolicy::Tiering,
            "lazy" => self.merge = MergePolicy::LazyLeveling,
            "full" => {
                self.merge = MergePolicy::Leveling {
                    granularity: Granularity::Level,
                }
            }
            "still" => self.still = true,
            "paper" => self.paper = true,
            "lru" => self.lru = true,
            _ => match word
                .split_once('=')
                .map(|(name, value)| self.number(name, value))
            {
                Some(Some(())) => {}
                _ => {
                    let presets = Preset::ALL.map(Preset::name).join(", ");
                    return Err(Error::InvalidSetting(format!(
                        "shamba has no setting `{word}` (one of {presets}, and then bloom, \
                         blocked, ribbon or auto, partitioned or whole, rehash, paper, lru, cold, \
                         monkey or measured, tiering, lazy or full, modules=N, units=N/K, still, epoch=N, first=B, bits=B, \
                         joined by `+`)"
                    )));
                }
            },
        }
        Ok(())
    }

    /// Sets a word that has a number; `None` if there is none of that name, or it is no number.
    fn number(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "modules" => self.modules = Some(value.parse().ok()?),
            "epoch" => self.epoch = Some(value.parse().ok()?),
            "bits" => self.bits = Some(value.parse().ok()?),
            "first" => self.first = Some(value.parse().ok()?),
            "units" => {
                let (all, enabled) = value.split_once('/')?;
                self.units = Some((all.parse().ok()?, enabled.parse().ok()?));
            }
            _ => return None,
        }
        Some(())
    }

    /// The filter at 10 bits per key.
    fn filter(self) -> FilterOptions {
        let mut filter = self.preset.filter();
        if let Some((all, enabled)) = self.units {
            let units = FilterOptions::units(all, 10.0 / f64::from(enabled.max(1)));
            (filter.modules, filter.bits_per_key) = (units.modules, units.bits_per_key);
        }
        filter.bits_per_key = self.bits.unwrap_or(filter.bits_per_key);
        filter.family = self.family.unwrap_or(filter.family);
        filter.partitioned = self.whole.map_or(filter.partitioned, |whole| !whole);
        filter.modules = self.modules.unwrap_or(filter.modules);
        if let Some(first_bits_per_key) = self.first {
            filter.module_sizes = ModuleSizes::Proportional { first_bits_per_key };
        }
        filter.allocation = self.allocation;
        filter
    }

    /// The keyspace options: every engine gets the same bits per key, which for ElasticBF are the
    /// enabled ones.
    fn keyspace(self, config: &EngineConfig) -> KeyspaceOptions {
        let mut keyspace = KeyspaceOptions {
            size_ratio: config.size_ratio,
            write_buffer: config.write_buffer,
            target_file: config.file_size,
            ..KeyspaceOptions::default()
        }
        .preset(self.preset);
        keyspace.filter = self.filter();
        let scale = config.bits_per_key / 10.0;
        keyspace.filter.bits_per_key *= scale;
        if let ModuleSizes::Proportional { first_bits_per_key } = &mut keyspace.filter.module_sizes
        {
            *first_bits_per_key *= scale;
        }
        if let FilterPolicy::Elastic {
            initial_units,
            lifetime,
        } = &mut keyspace.filter_policy
        {
            *initial_units = self.units.map_or(*initial_units, |(_, enabled)| enabled);
            if self.still {
                // A unit moves only once its file has not been asked so long.
                *lifetime = u32::MAX;
            }
        }
        keyspace.epoch_lookups = self.epoch.unwrap_or(keyspace.epoch_lookups);
        keyspace.merge_policy = self.merge;
        if let FilterPolicy::Utility { thresholds, .. } = &mut keyspace.filter_policy
            && self.paper
        {
            *thresholds = Thresholds::PAPER;
        }
        keyspace
    }

    fn eviction(self) -> Eviction {
        if self.lru {
            Eviction::TwoPriorityLru
        } else {
            self.preset.eviction()
        }
    }

    /// The settings that change what lies on disk.
    pub(super) fn layout(self) -> String {
        let filter = self.filter();
        let modules = filter.modules;
        let mut name = format!(
            "{}-{}",
            match filter.family {
                FilterFamily::Bloom => "bloom",
                FilterFamily::BlockedBloom => "blocked",
                FilterFamily::Ribbon => "ribbon",
                FilterFamily::Auto => "auto",
            },
            if filter.partitioned {
                "partitioned"
            } else {
                "whole"
            }
        );
        if modules != 1 {
            name += &format!("-{modules}x{}", filter.bits_per_key);
        }
        if let Some(bits) = self.bits {
            name += &format!("-{bits}");
        }
        match filter.module_sizes {
            ModuleSizes::Equal => {}
            ModuleSizes::FirstInMemory => name += "-prop",
            ModuleSizes::Proportional { first_bits_per_key } => {
                name += &format!("-first{first_bits_per_key}");
            }
        }
        name += match self.allocation {
            FilterAllocation::Monkey => "-monkey",
            FilterAllocation::Measured => "-measured",
            _ => "",
        };
        name += match self.merge {
            MergePolicy::Tiering => "-tiering",
            MergePolicy::LazyLeveling => "-lazy",
            merge if merge != MergePolicy::default() => "-full",
            _ => "",
        };
        name
    }
}

/// An open database as an engine under test.
pub struct Shamba {
    db: Db,
    /// What charges its reads and writes, where a device is modelled.
    meter: Option<MeteredFs>,
}

fn failed(source: ::shamba::Error) -> Error {
    Error::engine("shamba", source)
}

/// Why a walk through the tree ended.
enum Stop {
    Visit(Error),
    Engine(::shamba::Error),
}

impl From<::shamba::Error> for Stop {
    fn from(error: ::shamba::Error) -> Self {
        Self::Engine(error)
    }
}

impl Shamba {
    pub(super) fn open(settings: &str, config: &EngineConfig) -> Result<Self> {
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
        let db = options
            .create_if_missing(!config.read_only)
            .memory(MemoryBudget::bytes(config.memory))
            .background_threads(config.background)
            .durability(durability)
            .inherit_statistics(!variant.cold)
            .hash_sharing(variant.preset.hash_sharing() && !variant.rehash)
            .keyspace(variant.keyspace(config))
            .eviction(variant.eviction())
            .open(&config.dir)
            .map_err(failed)?;
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
        self.db.put(key, value).map_err(failed)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let found = self.db.get(key).map_err(failed)?;
        Ok(found.is_some_and(|value| {
            into.extend_from_slice(&value);
            true
        }))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete(key).map_err(failed)
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for write in writes {
            match *write {
                Write::Put(key, value) => batch.put(key, value),
                Write::Delete(key) => batch.delete(key),
            }
        }
        self.db
            .write(batch, WriteOptions::default())
            .map_err(failed)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let mut cursor = self.db.iter(IterOptions::default()).map_err(failed)?;
        cursor.seek(from).map_err(failed)?;
        let mut seen = 0;
        while seen < limit && cursor.valid() {
            visit(cursor.key(), cursor.value())?;
            seen += 1;
            if seen < limit {
                cursor.next().map_err(failed)?;
            }
        }
        Ok(seen)
    }

    fn multi_get(&self, keys: &[&[u8]], into: &mut Vec<Option<Vec<u8>>>) -> Result<()> {
        into.clear();
        let values = self.db.multi_get(keys).map_err(failed)?;
        into.extend(
            values
                .into_iter()
                .map(|value| value.map(|value| value.to_vec())),
        );
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.db.flush().map_err(failed)
    }

    fn wait_idle(&self) -> Result<()> {
        self.db.wait_for_compaction().map_err(failed)
    }

    fn compact(&self) -> Result<bool> {
        self.db.compact_range(None, None).map_err(failed)?;
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
                    *counters
                        .entry(format!("module_{number}_{what}"))
                        .or_default() += count;
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
        let fixed = inspect::filter_partitions(&self.db, |partition| {
            visit(&partition).map_err(Stop::Visit)
        });
        match fixed {
            Ok(fixed) => Ok(Some(fixed)),
            Err(Stop::Visit(error)) => Err(error),
            Err(Stop::Engine(error)) => Err(failed(error)),
        }
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
        assert!(variant.rehash);
        let lru = Variant::parse("default+lru").unwrap();
        assert_eq!(lru.layout(), "auto-partitioned");
        assert_eq!(lru.eviction(), Eviction::TwoPriorityLru);
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
        assert!(matches!(
            changed.filter_policy,
            FilterPolicy::Utility {
                thresholds: Thresholds::PAPER,
                ..
            }
        ));
        let layout = |settings: &str| Variant::parse(settings).unwrap().layout();
        assert_eq!(layout("shamba-eq"), layout("shamba-eq-f"));
        assert_eq!(layout("state-of-the-art"), "bloom-whole");
        assert_eq!(layout("shamba-eq"), "bloom-whole-2x10");
        assert_eq!(layout("elastic"), "bloom-whole-4x20");
        assert_eq!(layout("elastic+monkey"), "bloom-whole-4x20-monkey");
        assert_eq!(layout("elastic+units=4/2"), layout("elastic"));
        let units = keyspace("elastic+units=6/3");
        assert_eq!(
            (units.filter.modules, units.filter.bits_per_key.round()),
            (6, 20.0)
        );
        assert!(matches!(
            units.filter_policy,
            FilterPolicy::Elastic {
                initial_units: 3,
                ..
            }
        ));
        assert_eq!(
            layout("shamba-prop-f+first=2.5"),
            "bloom-whole-2x10-first2.5"
        );
        assert!(Variant::parse("elastic+units=6").is_err());
        assert_eq!(layout("elastic+still"), layout("elastic"));
        let monkey = keyspace("partitioned+monkey").filter.allocation;
        assert_eq!(monkey, FilterAllocation::Monkey);
        assert_eq!(layout("partitioned+tiering"), "bloom-partitioned-tiering");
        assert_eq!(layout("full"), "auto-partitioned-full");
        assert_eq!(keyspace("lazy").merge_policy, MergePolicy::LazyLeveling);
        assert_eq!(
            layout("partitioned+ribbon+bits=12"),
            "ribbon-partitioned-12"
        );
        assert_eq!(keyspace("partitioned+bits=12").filter.bits_per_key, 12.0);
        assert!(Variant::parse("shamba-eq-q").is_err());
    }
}
