//! The engine of this repository.
use super::{Engine, EngineConfig, ReadCounters, Visit, Write};
use crate::{Error, Result};
use ::shamba::{
    Db, Durability, FilterFamily, FilterOptions, IterOptions, KeyspaceOptions, MemoryBudget,
    Options, WriteBatch, WriteOptions,
};

/// What a specification after `shamba:` chooses, its words joined by `-` or `+`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variant {
    /// `blocked` instead of `bloom`.
    blocked: bool,
    /// `whole` instead of `partitioned` filters and indexes.
    whole: bool,
    /// `rehash`: hash the key for each table instead of once for each lookup.
    rehash: bool,
}

impl Variant {
    pub(super) fn parse(settings: &str) -> Result<Self> {
        let mut variant = Self::default();
        for word in settings.split(['-', '+']).filter(|word| !word.is_empty()) {
            match word {
                "bloom" => variant.blocked = false,
                "blocked" => variant.blocked = true,
                "partitioned" => variant.whole = false,
                "whole" => variant.whole = true,
                "rehash" => variant.rehash = true,
                _ => {
                    return Err(Error::InvalidSetting(format!(
                        "shamba has no setting `{word}` (bloom or blocked, partitioned or whole, \
                         rehash)"
                    )));
                }
            }
        }
        Ok(variant)
    }

    /// The settings that change what lies on disk.
    pub(super) fn layout(self) -> String {
        format!(
            "{}-{}",
            if self.blocked { "blocked" } else { "bloom" },
            if self.whole { "whole" } else { "partitioned" }
        )
    }
}

/// An open database as an engine under test.
pub struct Shamba {
    db: Db,
}

fn failed(source: ::shamba::Error) -> Error {
    Error::engine("shamba", source)
}

impl Shamba {
    pub(super) fn open(settings: &str, config: &EngineConfig) -> Result<Self> {
        let variant = Variant::parse(settings)?;
        let keyspace = KeyspaceOptions {
            size_ratio: config.size_ratio,
            write_buffer: config.write_buffer,
            target_file: config.file_size,
            filter: FilterOptions {
                family: if variant.blocked {
                    FilterFamily::BlockedBloom
                } else {
                    FilterFamily::Bloom
                },
                bits_per_key: config.bits_per_key,
                partitioned: !variant.whole,
                ..FilterOptions::default()
            },
            ..KeyspaceOptions::default()
        };
        let durability = if config.wal {
            Durability::Buffered
        } else {
            Durability::None
        };
        let db = Options::new()
            .create_if_missing(!config.read_only)
            .memory(MemoryBudget::bytes(config.memory))
            .background_threads(config.background)
            .durability(durability)
            .hash_sharing(!variant.rehash)
            .keyspace(keyspace)
            .open(&config.dir)
            .map_err(failed)?;
        Ok(Self { db })
    }
}

impl From<Db> for Shamba {
    /// Measures a database that was opened elsewhere, with any options.
    fn from(db: Db) -> Self {
        Self { db }
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

    fn flush(&self) -> Result<()> {
        self.db.flush().map_err(failed)
    }

    fn wait_idle(&self) -> Result<()> {
        self.db.wait_for_compaction().map_err(failed)
    }

    fn read_counters(&self) -> Option<ReadCounters> {
        let counters = self.db.stats().counters;
        Some(ReadCounters {
            data: counters.data_reads,
            index: counters.index_reads,
            filter: counters.filter_reads,
        })
    }

    fn runs(&self) -> Option<u64> {
        let stats = self.db.stats();
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        Some(levels.map(|level| level.runs as u64).sum())
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
        assert_eq!(Variant::parse("").unwrap().layout(), "bloom-partitioned");
        assert!(Variant::parse("ribbon").is_err());
    }
}
