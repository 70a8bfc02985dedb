//! One tree of [`super`] and its two copies, where it lies and how it is made. Of one thread.
use crate::device::Device;
use crate::workload::mix;
use crate::{Error, Result};
use shamba::fs::{DeviceModel, Fs};
use shamba::{
    Db, Durability, FilterFamily, FilterOptions, KeyspaceOptions, MemoryBudget, MergePolicy,
    Options,
};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The smallest write buffer the engine takes.
const LEAST_BUFFER: u64 = 4 << 10;

/// Bytes of a table file in the paper: the most here.
const FILE: u64 = 2 << 20;

/// Write buffers that make a file, where that is less: levels of several files stay filled, those
/// of one are emptied at once.
const BUFFERS: u64 = 4;

/// The smallest levels are emptied at once when they are full; the most write buffers added to find
/// them filled together.
const PATIENCE: u64 = 64;

/// Memory for loading.
pub(super) const LOAD_MEMORY: u64 = 1 << 30;

/// Where the data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Everything in the engine's cache: no device at all.
    Resident,
    /// On a device, filters and indexes cached. But for the disk the files are in memory.
    On(Device),
}

impl Place {
    /// The disk of --dir.
    pub(crate) const DISK: Place = Place::On(Device::Disk);

    pub(crate) fn model(self) -> Option<DeviceModel> {
        match self {
            Place::Resident => None,
            Place::On(device) => device.model(),
        }
    }

    /// What it charges for a page; nothing where that isn't known.
    pub(crate) fn read_ns(self) -> f64 {
        match self {
            Place::Resident => 0.0,
            Place::On(device) => device.read_ns() as f64,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Resident => f.pad("resident"),
            Place::On(device) => device.fmt(f),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name {
            "resident" => Ok(Place::Resident),
            _ => match <Device as clap::ValueEnum>::from_str(name, false) {
                Ok(device) => Ok(Place::On(device)),
                Err(_) => Err(format!("`{name}` is neither `resident` nor a device")),
            },
        }
    }
}

/// Filter families and their names in requests and in options.
const FAMILIES: [(&str, FilterFamily); 4] = [
    ("auto", FilterFamily::Auto),
    ("bloom", FilterFamily::Bloom),
    ("blocked", FilterFamily::BlockedBloom),
    ("ribbon", FilterFamily::Ribbon),
];

/// The filter family of that name.
pub(super) fn family(name: &str) -> Option<FilterFamily> {
    let named = FAMILIES.iter().find(|(known, _)| *known == name);
    named.map(|(_, family)| *family)
}

/// One tree and the points to be measured with it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cell {
    pub(crate) key: usize,
    pub(crate) levels: u32,
    pub(crate) size_ratio: u32,
    /// Merged by tiering: about half of the size ratio's runs in each level, instead of one.
    pub(crate) tiered: bool,
    /// Bytes of a value.
    pub(crate) value: usize,
    /// Bytes of data, about.
    pub(crate) data: u64,
    pub(crate) family: String,
    pub(crate) bits_per_key: f64,
    /// Zipf (0.99) instead of uniform lookups.
    pub(crate) zipf: bool,
    pub(crate) devices: Vec<Place>,
    pub(crate) empty: Vec<f64>,
    pub(crate) batch: usize,
    pub(crate) pairs: usize,
    /// Times that the tree is opened anew.
    pub(crate) repeat: usize,
    pub(crate) seconds: f64,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) seed: u64,
}

pub(super) fn failed(source: shamba::Error) -> Error {
    Error::engine("shamba", source)
}

/// A tree on some storage: two copies of it, and how many entries and levels they have.
pub(super) struct Tree {
    pub(super) fs: Arc<dyn Fs>,
    pub(super) copies: [PathBuf; 2],
    pub(super) entries: u64,
    pub(super) levels: u32,
    pub(super) files: u64,
}

/// Writes a key: eight bytes that differ for every number, and more that follow from them.
pub(super) fn write_key(number: u64, size: usize, key: &mut Vec<u8>) {
    key.clear();
    let mut word = mix(number);
    while key.len() < size {
        key.extend_from_slice(&word.to_be_bytes());
        word = word.rotate_left(23) ^ number;
    }
    key.truncate(size);
}

impl Cell {
    /// Write buffers that the last level holds.
    fn buffers(&self) -> u64 {
        u64::from(self.size_ratio).pow(self.levels)
    }

    /// Bytes of a write buffer. The last level is filled in part, so that the data of all is about
    /// what was wished for.
    fn buffer(&self) -> u64 {
        self.data * 2 / 3 / self.buffers()
    }

    pub(super) fn options(&self, fs: &Arc<dyn Fs>, memory: MemoryBudget, sharing: bool) -> Options {
        let filter = FilterOptions {
            family: family(&self.family).unwrap_or(FilterFamily::Auto),
            bits_per_key: self.bits_per_key,
            ..FilterOptions::default()
        };
        let buffer = self.buffer();
        let merge_policy = if self.tiered {
            MergePolicy::Tiering
        } else {
            MergePolicy::default()
        };
        Options::new()
            .fs(Arc::clone(fs))
            .memory(memory)
            .background_threads(0)
            .max_open_files(1 << 16)
            .durability(Durability::None)
            .hash_sharing(sharing)
            .keyspace(KeyspaceOptions {
                merge_policy,
                size_ratio: self.size_ratio,
                level0_runs: 1,
                write_buffer: buffer.max(LEAST_BUFFER),
                target_file: (buffer * BUFFERS).clamp(LEAST_BUFFER, FILE),
                filter,
                ..KeyspaceOptions::default()
            })
    }

    /// Even numbers are keys of entries, odd ones of none.
    fn put(&self, db: &Db, number: u64, key: &mut Vec<u8>, value: &mut [u8]) -> Result<()> {
        write_key(number * 2, self.key, key);
        if let Some(head) = value.first_chunk_mut() {
            *head = number.to_le_bytes();
        }
        db.put(&*key, &*value).map_err(failed)
    }

    /// Writes until there are as many levels as there should be, and half as much again.
    pub(super) fn load(&self, fs: Arc<dyn Fs>, home: &Path) -> Result<Tree> {
        let copies = [home.join("shared"), home.join("each")];
        let db = self.options(&fs, MemoryBudget::bytes(LOAD_MEMORY), true);
        let db = db.open(&copies[0]).map_err(failed)?;
        let (mut key, mut value) = (Vec::new(), vec![0; self.value]);
        let entry = (self.key + self.value) as u64;
        let buffer = self.buffer().max(LEAST_BUFFER);
        let step = (buffer / entry).max(1);
        let most = self.data.max(buffer * self.buffers()) * 2 / entry;
        let mut entries = 0;
        while shape(&db).1 < self.levels && entries < most {
            // To ask for the shape takes a look at every file.
            for _ in 0..step.max(entries / 64) {
                self.put(&db, entries, &mut key, &mut value)?;
                entries += 1;
            }
        }
        for _ in 0..entries / 2 {
            self.put(&db, entries, &mut key, &mut value)?;
            entries += 1;
        }
        // So few that the tree hardly grows.
        let runs = if self.tiered {
            self.levels * self.size_ratio / 2
        } else {
            self.levels
        };
        for _ in 0..PATIENCE.min(self.buffers() / 8) {
            db.flush().map_err(failed)?;
            db.wait_for_compaction().map_err(failed)?;
            if shape(&db).0 >= runs {
                break;
            }
            for _ in 0..step {
                self.put(&db, entries, &mut key, &mut value)?;
                entries += 1;
            }
        }
        db.flush().map_err(failed)?;
        db.wait_for_compaction().map_err(failed)?;
        let levels = shape(&db).0;
        let stats = db.stats();
        let all = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        let files = all.map(|level| level.files as u64).sum();
        db.checkpoint(&copies[1]).map_err(failed)?;
        db.close().map_err(failed)?;
        Ok(Tree {
            fs,
            copies,
            entries,
            levels,
            files,
        })
    }
}

/// Runs, and the number of the deepest level that has one.
fn shape(db: &Db) -> (u32, u32) {
    let stats = db.stats();
    let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    levels.fold((0, 0), |(runs, deepest), level| match level.runs as u32 {
        0 => (runs, deepest),
        here => (runs + here, deepest.max(level.level as u32)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_have_their_size() {
        let mut keys = std::collections::BTreeSet::new();
        for size in [8, 13, 64] {
            for number in 0..1000 {
                let mut key = Vec::new();
                write_key(number, size, &mut key);
                assert_eq!(key.len(), size);
                assert!(keys.insert(key));
            }
        }
    }

    #[test]
    fn places_have_names() {
        for name in [
            "resident", "ram", "nvm", "pcie-ssd", "sata-ssd", "hdd", "disk",
        ] {
            assert_eq!(name.parse::<Place>().unwrap().to_string(), name);
        }
        assert!("tape".parse::<Place>().is_err());
    }
}
