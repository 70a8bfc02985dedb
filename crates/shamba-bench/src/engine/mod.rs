//! What every engine under test looks like, and the adapters.
//!
//! An engine is named by a specification: its name, and for some a colon and settings, as in
//! `rocksdb:ribbon-partitioned+hyper`. [`open`] opens one; [`layout`] names the part of the
//! specification that decides what lies on disk, so that databases are loaded once and reopened
//! with other memory settings.
pub mod data_model;
#[cfg(feature = "fjall")]
mod fjall;
mod memory;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod shamba;

pub use shamba::Shamba;

use crate::device::Device;
use crate::{Error, Result};
use ::shamba::inspect::FilterPartition;
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Engines that cannot read past the system's page cache.
pub const CACHED: [&str; 2] = ["fjall", "redb"];

/// Bytes from which on `blobs` keeps a value in a file of its own: fjall's default.
const LEAST_BLOB: u64 = 1 << 10;

/// How an engine is opened. Every engine gets the same numbers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EngineConfig {
    /// Directory of the database.
    pub dir: PathBuf,
    /// Bytes of memory: the whole budget where the engine has one, the block cache elsewhere.
    pub memory: u64,
    /// Bytes of one memtable.
    pub write_buffer: u64,
    /// Bytes of one table file.
    pub file_size: u64,
    /// Size ratio between levels.
    pub size_ratio: u32,
    /// Filter bits per key.
    pub bits_per_key: f64,
    /// Bypass the page cache on reads.
    pub direct_reads: bool,
    /// Hold indexes and filters of open tables outside the cache, where the engine can.
    pub metadata_resident: bool,
    /// Log writes ahead (never synced per write).
    pub wal: bool,
    /// Open without background work and without writing.
    pub read_only: bool,
    /// Keep the engine's own read counters, which may cost it time.
    pub counters: bool,
    /// Background threads.
    pub background: usize,
    /// Where the database lies.
    pub device: Device,
}

impl EngineConfig {
    /// Everything in memory: large buffers and cache, buffered reads, a log.
    pub fn in_memory(dir: PathBuf) -> Self {
        Self {
            dir,
            memory: 4 << 30,
            write_buffer: 64 << 20,
            file_size: 64 << 20,
            size_ratio: 10,
            bits_per_key: 10.0,
            direct_reads: false,
            metadata_resident: true,
            wal: true,
            read_only: false,
            counters: false,
            background: 2,
            device: Device::Disk,
        }
    }

    /// The SHaMBa paper's standard setting: 4 MB buffer and files, size ratio 4, 10 bits per key,
    /// direct reads. `memory` is the budget in bytes.
    pub fn standard(dir: PathBuf, memory: u64) -> Self {
        Self {
            memory,
            write_buffer: 4 << 20,
            file_size: 4 << 20,
            size_ratio: 4,
            direct_reads: true,
            metadata_resident: false,
            wal: false,
            ..Self::in_memory(dir)
        }
    }
}

/// One write of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Set a key to a value.
    Put(&'a [u8], &'a [u8]),
    /// Remove a key.
    Delete(&'a [u8]),
}

/// A file of the tree and what lookups did with it of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FileFacts {
    /// Its level; 0 holds flushed memtables.
    pub level: usize,
    /// Its entries.
    pub entries: u64,
    /// The share of the lookups that ask it, 0 to 1.
    pub access: f64,
    /// The share of those that find their key in it, 0 to 1.
    pub positive: f64,
}

/// Bytes of memory by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Resident {
    /// Data blocks.
    pub data: u64,
    /// Index blocks.
    pub index: u64,
    /// Filter blocks.
    pub filter: u64,
}

/// The indexes of an engine's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Indexes {
    /// Data blocks.
    pub blocks: u64,
    /// Bytes of index blocks as they are stored, without what fills pages.
    pub bytes: u64,
    /// Bytes of memory they take when all are in the cache, from engines that tell.
    pub resident: Option<u64>,
    /// Bytes of memory that all open tables take beside them, from engines that tell.
    pub tables: Option<u64>,
}

/// What is shown a key and its value; an error ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// What is shown a filter partition of a tree.
pub type Inspect<'a> = dyn FnMut(&FilterPartition) -> Result<()> + 'a;

/// An engine under test. Shared between threads; every call may come from any of them.
pub trait Engine: Send + Sync {
    /// Writes one entry, logged as the configuration says, not synced.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write_batch(&[Write::Put(key, value)])
    }

    /// The same of an entry that lives for so long; whether the engine can.
    fn put_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<bool> {
        let _unwritten = (key, value, ttl);
        Ok(false)
    }

    /// A serializable transaction that read a key, open until it is dropped, if the engine can.
    fn transaction(&self, read: &[u8]) -> Result<Option<Box<dyn Any>>> {
        let _unread = read;
        Ok(None)
    }

    /// Looks a key up: whether it is there, its value then being in `into`, which is overwritten.
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool>;

    /// Removes a key.
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write_batch(&[Write::Delete(key)])
    }

    /// Applies all writes atomically.
    fn write_batch(&self, writes: &[Write<'_>]) -> Result<()>;

    /// Visits up to `limit` entries from the first key at or above `from` on; how many there were.
    fn scan(&self, from: &[u8], limit: usize, visit: &mut Visit<'_>) -> Result<usize>;

    /// Looks several keys up at once, as fast as the engine can; `into` gets one answer for each.
    fn multi_get(&self, keys: &[&[u8]], into: &mut Vec<Option<Vec<u8>>>) -> Result<()> {
        into.clear();
        for key in keys {
            let mut value = Vec::new();
            into.push(self.get(key, &mut value)?.then_some(value));
        }
        Ok(())
    }

    /// Writes the memtable out, where there is one.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Waits until no flush or compaction is left to do, where there are any.
    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    /// Merges all sorted runs on storage into one; whether the engine can.
    fn compact(&self) -> Result<bool> {
        Ok(false)
    }

    /// Everything the engine counts, by name, since it was opened.
    fn counts(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Nanoseconds that the modelled device charged so far, all threads together.
    fn device_ns(&self) -> u64 {
        0
    }

    /// Sorted runs on storage that a lookup may have to visit, if the engine tells: what filters
    /// and indexes cost grows with them.
    fn runs(&self) -> Option<u64> {
        None
    }

    /// Shows every filter partition of the tree to `visit`, in any order, nothing being written
    /// meanwhile, and returns the bytes of memory that are taken whatever is cached (handles of
    /// open tables, top-level indexes). `None` from engines that do not tell.
    fn tree(&self, visit: &mut Inspect<'_>) -> Result<Option<u64>> {
        let _untold = visit;
        Ok(None)
    }

    /// The indexes of all tables, from engines that tell.
    fn indexes(&self) -> Result<Option<Indexes>> {
        Ok(None)
    }

    /// The files of the tree: newer runs first, those of a run by their keys. None from engines
    /// that do not tell.
    fn files(&self) -> Vec<FileFacts> {
        Vec::new()
    }

    /// What of the blocks is in memory now, if the engine tells.
    fn resident(&self) -> Option<Resident> {
        None
    }

    /// Bytes of memory the engine says it uses, if it says.
    fn memory(&self) -> Option<u64> {
        None
    }
}

/// The names of the engines in this build.
pub fn available() -> Vec<&'static str> {
    vec![
        "shamba",
        "memory",
        #[cfg(feature = "rocksdb")]
        "rocksdb",
        #[cfg(feature = "fjall")]
        "fjall",
        #[cfg(feature = "redb")]
        "redb",
    ]
}

/// A map in memory, to compare with.
pub(crate) fn map() -> Box<dyn Engine> {
    Box::new(memory::Memory::default())
}

/// Opens the engine that `specification` names, creating its database unless read-only.
pub fn open(specification: &str, config: &EngineConfig) -> Result<Box<dyn Engine>> {
    let (name, settings) = split(specification);
    if config.device.model().is_some() && name != "shamba" {
        return Err(Error::InvalidSetting(format!(
            "{name} on the device {}: only shamba runs on modelled devices",
            config.device
        )));
    }
    let config = &EngineConfig {
        direct_reads: config.direct_reads && config.device == Device::Disk,
        ..config.clone()
    };
    match name {
        "shamba" => Ok(Box::new(Shamba::open(settings, config)?)),
        "memory" if settings.is_empty() => Ok(Box::new(memory::Memory::default())),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Ok(Box::new(rocksdb::Rocks::open(settings, config)?)),
        #[cfg(feature = "fjall")]
        "fjall" => Ok(Box::new(fjall::Fjall::open(settings, config)?)),
        #[cfg(feature = "redb")]
        "redb" if settings.is_empty() => Ok(Box::new(redb::Redb::open(config)?)),
        _ => Err(Error::UnknownEngine(specification.to_owned())),
    }
}

/// Removes what an engine keeps in its folder of past use; it learns anew. Only this repository's
/// engine keeps anything.
pub fn forget(dir: &Path) -> Result<()> {
    for name in ["HINTS", "WARM"] {
        match std::fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// A directory name for what the engine `specification` puts on disk: specifications that differ
/// only in how they use memory share it.
pub fn layout(specification: &str) -> Result<String> {
    let (name, settings) = split(specification);
    match name {
        "shamba" => Ok(format!(
            "shamba-{}",
            shamba::Variant::parse(settings)?.layout()
        )),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Ok(format!(
            "rocksdb-{}",
            rocksdb::Variant::parse(settings)?.layout()
        )),
        _ if available().contains(&name) => Ok(specification.replace([':', '+', '/'], "-")),
        _ => Err(Error::UnknownEngine(specification.to_owned())),
    }
}

/// Copies a value that was found; whether it was.
fn copied(found: Option<impl AsRef<[u8]>>, into: &mut Vec<u8>) -> bool {
    into.clear();
    if let Some(value) = &found {
        into.extend_from_slice(value.as_ref());
    }
    found.is_some()
}

/// The name of the engine of a specification.
pub fn family(specification: &str) -> &str {
    split(specification).0
}

fn split(specification: &str) -> (&str, &str) {
    specification.split_once(':').unwrap_or((specification, ""))
}
