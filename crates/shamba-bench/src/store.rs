//! Loaded databases, kept from run to run: one folder for each [`Base`], which is the standard
//! setting of the SHaMBa paper if nothing else is said. Loading takes a process of its own. Two
//! programs must not load the same folder at the same time.
use crate::cell::{self, Measurement};
use crate::device::Device;
use crate::engine::{self, EngineConfig};
use crate::runner::{self, Data, Summary};
use crate::workload::{KeyKind, KeySpace, Sizes, ValueSpec};
use crate::{Error, Result};
use shamba::MIN_MEMORY;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Entries of the standard setting.
pub const STANDARD_ENTRIES: u64 = 16_000_000;

/// 100 % of the budget at [`STANDARD_ENTRIES`]: RocksDB's full filters and indexes at 10 bits per
/// key, in bytes.
pub const STANDARD_METADATA: u64 = 24_886_719;

/// Bytes of a value: with the 32-byte key an entry has 64.
pub(crate) const VALUE_SIZE: usize = 32;

/// Memory for loading: enough for any engine's buffers, little beside the data.
const LOAD_MEMORY: u64 = 64 << 20;

/// Everything that decides what lies in a database's folder, but the engine's own code.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Base {
    /// The engine's specification.
    pub engine: String,
    /// Entries, loaded in random order.
    pub entries: u64,
    /// Their keys.
    pub keys: KeyKind,
    /// Bytes of a value.
    pub value: Sizes,
    /// Bytes of a memtable.
    pub write_buffer: u64,
    /// Bytes of a table file.
    pub file_size: u64,
    /// Size ratio between levels.
    pub size_ratio: u32,
    /// Filter bits per key.
    pub bits_per_key: f64,
    /// Decides the order of the load.
    pub seed: u64,
}

/// A loaded database.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its folder.
    pub dir: PathBuf,
    /// What loading took, and what came out.
    pub facts: Facts,
}

/// What loading took, and what came out.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Facts {
    /// The times of the writes.
    #[serde(flatten)]
    pub summary: Summary,
    /// Bytes of all filters and indexes, from engines that tell their tree.
    #[serde(default)]
    pub metadata: Option<u64>,
    /// What the engine counted.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
}

impl Base {
    /// The standard setting of the SHaMBa paper.
    pub fn standard(engine: &str, entries: u64, seed: u64) -> Self {
        let config = EngineConfig::standard(PathBuf::new(), 0);
        Self {
            engine: engine.to_owned(),
            entries,
            keys: KeyKind::Spread,
            value: Sizes::Fixed(VALUE_SIZE),
            write_buffer: config.write_buffer,
            file_size: config.file_size,
            size_ratio: config.size_ratio,
            bits_per_key: config.bits_per_key,
            seed,
        }
    }

    /// How the database in `dir` is opened.
    pub fn config(&self, dir: PathBuf, memory: u64) -> EngineConfig {
        EngineConfig {
            write_buffer: self.write_buffer,
            file_size: self.file_size,
            size_ratio: self.size_ratio,
            bits_per_key: self.bits_per_key,
            ..EngineConfig::standard(dir, memory)
        }
    }

    /// The entries. Loads and lookups use different seeds.
    pub fn data(&self) -> Data {
        Data::new(
            KeySpace::new(self.keys, self.entries),
            ValueSpec::random(self.value),
            self.seed,
        )
    }

    /// The name of the folder: databases that are the same on disk share it. What is not standard
    /// is told by a hash.
    pub(crate) fn name(&self) -> Result<String> {
        let engine = engine::layout(&self.engine)?;
        let mut name = format!("{engine}-{}-{}", self.entries, self.seed);
        let standard = Self::standard(&engine, self.entries, self.seed);
        let own = Self {
            engine,
            ..self.clone()
        };
        if own != standard {
            let hash = xxhash_rust::xxh3::xxh3_64(&serde_json::to_vec(&own)?);
            name += &format!("-{hash:016x}");
        }
        Ok(name)
    }

    /// The database below `home`, loaded if it was not.
    pub fn loaded(
        &self,
        home: &Path,
        device: Device,
        note: &mut dyn FnMut(String),
    ) -> Result<Loaded> {
        let dir = home.join(self.name()?);
        // The mark lies beside the database: an engine may refuse a folder with a stranger in it.
        let mark = home.join(self.name()? + ".loaded");
        if let Ok(text) = std::fs::read(&mark) {
            let facts = serde_json::from_slice(&text)?;
            return Ok(Loaded { dir, facts });
        }
        note(format!("loading {}", dir.display()));
        remove(&dir)?;
        let facts: Facts = cell::measure(&Load {
            device,
            ..Load::into(&dir, self)
        })?;
        let (loaded, entries) = (facts.summary.operations, self.entries);
        if loaded != entries {
            let what = format!("{loaded} of {entries} entries loaded");
            return Err(Error::Child(what));
        }
        std::fs::write(&mark, serde_json::to_vec(&facts)?)?;
        note(format!("loaded in {:.0} s", facts.summary.seconds));
        Ok(Loaded { dir, facts })
    }
}

/// A copy of the database in `from` that may be written to, removed when dropped.
pub fn copy(from: &Path) -> Result<tempfile::TempDir> {
    let to = tempfile::TempDir::with_prefix_in("copy-", from.parent().unwrap_or(from))?;
    copy_folder(from, to.path())?;
    Ok(to)
}

/// Engines, and where their databases are kept and of what size.
#[derive(Clone, Debug, clap::Args)]
pub struct Store {
    /// Engines, such as `shamba`, `shamba:shamba-eq-p` and `rocksdb:ribbon-partitioned`.
    #[arg(long, value_delimiter = ',', required = true)]
    pub engines: Vec<String>,
    /// Folder where loaded databases are kept for the next run.
    #[arg(long)]
    pub dir: PathBuf,
    /// Entries.
    #[arg(long, default_value_t = STANDARD_ENTRIES)]
    pub entries: u64,
    /// Bytes of a value; keys have 32.
    #[arg(long, default_value_t = VALUE_SIZE)]
    pub value_size: usize,
    /// Bytes that are 100 % of a budget [default: RocksDB's full filters and indexes for so many
    /// entries of 64 B].
    #[arg(long)]
    pub full_budget: Option<u64>,
    /// Seed of every random choice; databases are kept by seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Store {
    /// The bytes of `percent` of the metadata size at this number of entries, and at least what a
    /// database can be opened with.
    pub fn budget(&self, percent: f64) -> u64 {
        let full = self.full_budget.unwrap_or(metadata_of(self.entries));
        ((full as f64 * percent / 100.0) as u64).max(MIN_MEMORY)
    }

    /// The database of an engine.
    pub fn base(&self, engine: &str) -> Base {
        Base {
            value: Sizes::Fixed(self.value_size),
            ..Base::standard(engine, self.entries, self.seed)
        }
    }

    /// The folder of the engine's database, loaded if it was not.
    pub fn loaded(&self, engine: &str, note: &mut dyn FnMut(String)) -> Result<PathBuf> {
        Ok(self.base(engine).loaded(&self.dir, Device::Disk, note)?.dir)
    }
}

/// The bytes of RocksDB's filters and indexes for so many entries of 64 B.
fn metadata_of(entries: u64) -> u64 {
    (STANDARD_METADATA as f64 * entries as f64 / STANDARD_ENTRIES as f64) as u64
}

/// The bytes of RocksDB's filters and indexes for the entries of a database, if they are those of
/// the standard setting.
pub fn rocksdb_metadata(base: &Base) -> Option<u64> {
    let standard = Base::standard("", base.entries, base.seed);
    let is_standard = (base.keys, base.value) == (standard.keys, standard.value);
    is_standard.then(|| metadata_of(base.entries))
}

/// Loads a database, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Load {
    base: Base,
    dir: PathBuf,
    device: Device,
}

impl Load {
    /// Loads the database into a folder on a RAM disk.
    pub(crate) fn into(dir: &Path, base: &Base) -> Self {
        Self {
            base: base.clone(),
            dir: dir.to_owned(),
            device: Device::Ram,
        }
    }
}

impl Measurement for Load {
    type Found = Facts;

    fn measure(&self) -> Result<Facts> {
        std::fs::create_dir_all(&self.dir)?;
        let ours = self.base.engine.starts_with("shamba");
        let config = EngineConfig {
            device: self.device,
            // Without threads the tree follows from the entries alone: with them it has a run more
            // or less by chance, and engines that are compared would have different ones.
            background: if ours { 0 } else { 2 },
            ..self.base.config(self.dir.clone(), LOAD_MEMORY)
        };
        let engine = engine::open(&self.base.engine, &config)?;
        let outcome = runner::load(engine.as_ref(), &self.base.data(), 1, 100)?;
        engine.flush()?;
        engine.wait_idle()?;
        let mut bytes = 0;
        let told = engine.tree(&mut |partition| {
            let modules = partition.modules.iter();
            let columns = modules.map(|module| u64::from(module.columns) * module.column_bytes);
            bytes += columns.sum::<u64>() + partition.index_bytes;
            Ok(())
        })?;
        Ok(Facts {
            summary: outcome.summary(),
            metadata: told.map(|_| bytes),
            counts: engine.counts(),
        })
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
