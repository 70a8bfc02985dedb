//! Loaded databases of the standard setting, kept from run to run: one folder for each layout on
//! disk, number of entries and seed. Loading takes a process of its own. Two programs must not
//! load the same folder at the same time.
use crate::engine::{self, EngineConfig};
use crate::runner::{self, Data, Order, Summary};
use crate::workload::{KeyKind, KeySpace, ValueSpec};
use crate::{Error, Result, cell};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Entries of the standard setting.
pub const STANDARD_ENTRIES: u64 = 16_000_000;

/// 100 % of the budget at [`STANDARD_ENTRIES`]: RocksDB's full filters and indexes at 10 bits per
/// key, in bytes.
pub const STANDARD_METADATA: u64 = 24_886_719;

/// Bytes of a value: with the 32-byte key an entry has 64.
const VALUE_SIZE: usize = 32;

/// Memory for loading: enough for any engine's buffers, little beside the data.
const LOAD_MEMORY: u64 = 64 << 20;

/// Engines, and where their databases are kept and of what size.
#[derive(Clone, Debug, clap::Args)]
pub struct Store {
    /// Engines, such as `shamba`, `shamba:shamba-eq-p` and `rocksdb:ribbon-partitioned`.
    #[arg(long, value_delimiter = ',', required = true)]
    pub engines: Vec<String>,
    /// Folder where loaded databases are kept for the next run.
    #[arg(long)]
    pub dir: PathBuf,
    /// Entries of 64 B.
    #[arg(long, default_value_t = STANDARD_ENTRIES)]
    pub entries: u64,
    /// Seed of every random choice; databases are kept by seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Store {
    /// The bytes of `percent` of the metadata size at this number of entries.
    pub fn budget(&self, percent: f64) -> u64 {
        let full = STANDARD_METADATA as f64 * self.entries as f64 / STANDARD_ENTRIES as f64;
        (full * percent / 100.0) as u64
    }

    /// The folder of the engine's database, loaded if it was not.
    pub fn loaded(&self, engine: &str, note: &mut dyn FnMut(String)) -> Result<PathBuf> {
        let name = format!("{}-{}-{}", engine::layout(engine)?, self.entries, self.seed);
        let dir = self.dir.join(name);
        // The mark lies beside the database: an engine may refuse a folder with a stranger in it.
        let mark = dir.with_extension("loaded");
        if mark.exists() {
            return Ok(dir);
        }
        note(format!("loading {}", dir.display()));
        remove(&dir)?;
        let summary: Summary = cell::measure(&cell::Request::Load(Load {
            engine: engine.to_owned(),
            entries: self.entries,
            dir: dir.clone(),
            seed: self.seed,
        }))?;
        if summary.operations != self.entries {
            return Err(Error::Child(format!(
                "{} of {} entries loaded",
                summary.operations, self.entries
            )));
        }
        std::fs::write(&mark, serde_json::to_vec(&summary)?)?;
        note(format!("loaded in {:.0} s", summary.seconds));
        Ok(dir)
    }

    /// A copy of the engine's database that may be written to, removed when dropped.
    pub fn copy(&self, engine: &str, note: &mut dyn FnMut(String)) -> Result<tempfile::TempDir> {
        let from = self.loaded(engine, note)?;
        let to = tempfile::Builder::new()
            .prefix("copy-")
            .tempdir_in(&self.dir)?;
        copy_folder(&from, to.path())?;
        Ok(to)
    }
}

/// The entries of a database of this size. Loads and lookups use different seeds.
pub fn data(entries: u64, seed: u64) -> Data {
    Data {
        keys: KeySpace::new(KeyKind::Spread, entries),
        values: ValueSpec::random(VALUE_SIZE),
        seed,
    }
}

/// Loads a database, in a process of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Load {
    engine: String,
    entries: u64,
    dir: PathBuf,
    seed: u64,
}

impl Load {
    pub(crate) fn run(&self) -> Result<Summary> {
        std::fs::create_dir_all(&self.dir)?;
        let config = EngineConfig::standard(self.dir.clone(), LOAD_MEMORY);
        let engine = engine::open(&self.engine, &config)?;
        let data = data(self.entries, self.seed);
        let progress = AtomicU64::new(0);
        let finished = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut waited = 0;
                while finished.load(Ordering::Relaxed) == 0 {
                    std::thread::sleep(Duration::from_millis(100));
                    waited += 1;
                    if waited % 100 == 0 {
                        let done = progress.load(Ordering::Relaxed).min(self.entries);
                        eprintln!("  {}: {done} of {} loaded", self.engine, self.entries);
                    }
                }
            });
            let outcome = runner::fill(engine.as_ref(), &data, Order::Random, 1, 100, &progress)
                .and_then(|outcome| {
                    engine.flush()?;
                    engine.wait_idle()?;
                    Ok(outcome)
                });
            finished.store(1, Ordering::Relaxed);
            outcome
        })
        .map(|outcome| outcome.summary())
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
