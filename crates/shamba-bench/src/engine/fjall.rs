//! fjall, with everything it offers for this: no compression, 10-bit filters, one cache size.
mod data_model;

pub(super) use data_model::Transactional;

use super::{Engine, EngineConfig, Visit, Write, copied};
use crate::{Error, Result};
use ::fjall::config::{
    BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use ::fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions,
};
use std::sync::Arc;
use std::time::Duration;

/// What a specification after `fjall:` may choose.
#[derive(Clone, Copy)]
struct Variant {
    /// Whether values of a kilobyte and more lie in files of their own.
    blobs: bool,
}

impl Variant {
    fn parse(settings: &str) -> Result<Self> {
        match settings {
            "" => Ok(Self { blobs: false }),
            "blobs" => Ok(Self { blobs: true }),
            _ => Err(Error::InvalidSetting(format!(
                "fjall has no setting `{settings}` (of blobs)"
            ))),
        }
    }

    fn options(self, config: &EngineConfig) -> KeyspaceCreateOptions {
        let blobs = KvSeparationOptions::default().compression(CompressionType::None);
        KeyspaceCreateOptions::default()
            .max_memtable_size(config.write_buffer)
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
                BloomConstructionPolicy::BitsPerKey(config.bits_per_key as f32),
            )))
            .compaction_strategy(Arc::new(
                ::fjall::compaction::Leveled::default()
                    .with_table_target_size(config.file_size)
                    .with_level_ratio_policy(vec![config.size_ratio as f32]),
            ))
            .with_kv_separation(self.blobs.then_some(blobs))
    }
}

pub(super) struct Fjall {
    database: Database,
    entries: Keyspace,
}

fn failed(source: ::fjall::Error) -> Error {
    Error::engine("fjall", source)
}

impl Fjall {
    pub(super) fn open(settings: &str, config: &EngineConfig) -> Result<Self> {
        let variant = Variant::parse(settings)?;
        let database = Database::builder(&config.dir)
            .cache_size(config.memory)
            .worker_threads(config.background)
            .open()
            .map_err(failed)?;
        let entries = database.keyspace("entries", || variant.options(config));
        let entries = entries.map_err(failed)?;
        Ok(Self { database, entries })
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.entries.insert(key, value).map_err(failed)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let found = self.entries.get(key).map_err(failed)?;
        Ok(copied(found, into))
    }

    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()> {
        let mut batch = self.database.batch();
        for write in writes {
            match *write {
                Write::Put(key, value) => batch.insert(&self.entries, key, value),
                Write::Delete(key) => batch.remove(&self.entries, key),
            }
        }
        batch.commit().map_err(failed)
    }

    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize> {
        let mut seen = 0;
        for entry in self.entries.range(from..).take(limit) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            visit(&key, &value)?;
            seen += 1;
        }
        Ok(seen)
    }

    fn flush(&self) -> Result<()> {
        self.entries.rotate_memtable_and_wait().map_err(failed)
    }

    fn wait_idle(&self) -> Result<()> {
        // There is no call to wait for compactions: idle is what stays idle for a second.
        let mut quiet = 0;
        let mut done = self.database.compactions_completed();
        while quiet < 10 {
            std::thread::sleep(Duration::from_millis(100));
            let now = self.database.compactions_completed();
            let busy = self.database.outstanding_flushes() > 0
                || self.database.active_compactions() > 0
                || now != done;
            quiet = if busy { 0 } else { quiet + 1 };
            done = now;
        }
        Ok(())
    }

    fn compact(&self) -> Result<bool> {
        self.entries.major_compact().map_err(failed)?;
        Ok(true)
    }

    fn runs(&self) -> Option<u64> {
        let version = self.entries.tree.current_version();
        let runs = version.iter_levels().map(|level| level.run_count() as u64);
        Some(runs.sum())
    }

    fn memory(&self) -> Option<u64> {
        Some(self.database.cache_size() + self.database.write_buffer_size())
    }
}
