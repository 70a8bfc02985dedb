//! The tree that lookups are measured in: in memory, in two copies, one for each way to hash. Of
//! one thread.
use crate::reproduce::prelude::*;
use crate::workload::mix;
use shamba::fs::{Fs, MemFs};
use shamba::{
    Db, Durability, FilterFamily, FilterOptions, KeyspaceOptions, MemoryBudget, MergePolicy,
    Options,
};
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

/// The folders of the two copies: with hash sharing, and with a hash for each table.
pub(super) const COPIES: [&str; 2] = ["/shared", "/each"];

/// The device on which the data lies, its files being in memory, and filters and indexes cached;
/// none where everything is in the engine's cache.
pub(super) type Place = Option<Device>;

pub(super) const SATA_SSD: Place = Some(Device::SataSsd);
pub(super) const PCIE_SSD: Place = Some(Device::PcieSsd);
pub(super) const FAST_SSD: Place = Some(Device::FastPcieSsd);
pub(super) const NVM: Place = Some(Device::Nvm);
pub(super) const RAM: Place = Some(Device::Ram);
pub(super) const RESIDENT: Place = None;

pub(super) fn name(place: Place) -> String {
    place.map_or("resident".to_owned(), |device| device.to_string())
}

/// One tree and the points to be measured with it: on each device, at each share of empty lookups.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cell {
    /// Bytes of a key, and of a value: at least 8.
    pub(super) key: usize,
    pub(super) value: usize,
    /// Levels wanted, each `size_ratio` times as large as the one above it.
    pub(super) levels: u32,
    pub(super) size_ratio: u32,
    /// Merged by tiering: about half of the size ratio's runs in each level, instead of one.
    pub(super) tiered: bool,
    /// Bytes of data, about.
    pub(super) data: u64,
    /// Of the Bloom filters.
    pub(super) bits_per_key: f64,
    /// Who is asked for.
    pub(super) distribution: Distribution,
    pub(super) devices: Vec<Place>,
    pub(super) empty: Vec<f64>,
    /// Lookups in a batch.
    pub(super) batch: usize,
    /// Pairs of batches, of each point.
    pub(super) pairs: usize,
    /// Times that the tree is opened anew: where things come to lie in memory changes times by some
    /// per cent.
    pub(super) repeat: usize,
    /// Seconds after which a point ends with the pairs it has.
    pub(super) seconds: f64,
    pub(super) seed: u64,
}

/// A loaded tree.
pub(super) struct Tree {
    pub(super) fs: Arc<dyn Fs>,
    pub(super) entries: u64,
    pub(super) shape: Shape,
}

/// What there is of a tree: sorted runs, the number of the deepest level that has one, and files.
#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    pub(super) runs: u32,
    pub(super) deepest: u32,
    pub(super) files: u64,
}

/// A key of so many bytes: eight that differ for every number, and more that follow from them. Even
/// numbers are those of entries, odd ones of none.
pub(super) fn key(number: u64, size: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(size + 8);
    let mut word = mix(number);
    while key.len() < size {
        key.extend_from_slice(&word.to_be_bytes());
        word = word.rotate_left(23) ^ number;
    }
    key.truncate(size);
    key
}

impl Cell {
    /// Write buffers that the last level holds.
    fn buffers(&self) -> u64 {
        u64::from(self.size_ratio).pow(self.levels)
    }

    /// Bytes of a write buffer. The last level is filled in part, so that the data of all is about
    /// what was wished for.
    fn buffer(&self) -> u64 {
        (self.data * 2 / 3 / self.buffers()).max(LEAST_BUFFER)
    }

    pub(super) fn options(&self, fs: &Arc<dyn Fs>, memory: MemoryBudget, sharing: bool) -> Options {
        let policy = if self.tiered {
            MergePolicy::Tiering
        } else {
            MergePolicy::default()
        };
        let filter = FilterOptions::new().family(FilterFamily::Bloom);
        let keyspace = KeyspaceOptions::new()
            .merge_policy(policy)
            .size_ratio(self.size_ratio)
            .level0_runs(1)
            .write_buffer(self.buffer())
            .target_file((self.buffer() * BUFFERS).min(FILE))
            .filter(filter.bits_per_key(self.bits_per_key));
        Options::new()
            .fs(Arc::clone(fs))
            .memory(memory)
            .background_threads(0)
            .max_open_files(1 << 16)
            .durability(Durability::None)
            .hash_sharing(sharing)
            .cache_entries(false)
            .keyspace(keyspace)
    }

    /// Writes until there are as many levels as there should be, and half as much again.
    pub(super) fn load(&self) -> Result<Tree> {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let db = self.options(&fs, MemoryBudget::bytes(LOAD_MEMORY), true);
        let db = db.open(COPIES[0])?;
        let (mut entries, mut value) = (0, vec![0; self.value]);
        let mut write = |count: u64| {
            for number in entries..entries + count {
                value[..8].copy_from_slice(&number.to_le_bytes());
                db.put(key(number * 2, self.key), &*value)?;
            }
            entries += count;
            Ok::<u64, Error>(entries)
        };
        let entry = (self.key + self.value) as u64;
        let step = (self.buffer() / entry).max(1);
        let most = self.data.max(self.buffer() * self.buffers()) * 2 / entry;
        let mut written = 0;
        while shape(&db).deepest < self.levels && written < most {
            // To ask for the shape takes a look at every file.
            written = write(step.max(written / 64))?;
        }
        written = write(written / 2)?;
        // So few that the tree hardly grows.
        let runs = if self.tiered {
            self.levels * self.size_ratio / 2
        } else {
            self.levels
        };
        for _ in 0..PATIENCE.min(self.buffers() / 8) {
            settle(&db)?;
            if shape(&db).runs >= runs {
                break;
            }
            written = write(step)?;
        }
        settle(&db)?;
        let tree = Tree {
            fs,
            entries: written,
            shape: shape(&db),
        };
        db.checkpoint(COPIES[1])?;
        db.close()?;
        Ok(tree)
    }
}

/// Leaves nothing to flush or to merge.
fn settle(db: &Db) -> Result<()> {
    db.flush()?;
    Ok(db.wait_for_compaction()?)
}

fn shape(db: &Db) -> Shape {
    let stats = db.stats();
    let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let filled = levels.filter(|level| level.runs > 0);
    filled.fold(Shape::default(), |all, level| Shape {
        runs: all.runs + level.runs as u32,
        deepest: all.deepest.max(level.level as u32),
        files: all.files + level.files as u64,
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
                let key = key(number, size);
                assert_eq!(key.len(), size);
                assert!(keys.insert(key));
            }
        }
    }
}
