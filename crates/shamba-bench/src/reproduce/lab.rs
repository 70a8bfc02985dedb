//! What an experiment works with: the scale, loaded databases, and trials that are measured once
//! and kept. One thread owns it.
use super::scale::Scale;
use super::trial::{Cell, Found, Trial};
use crate::container::{self, Container};
use crate::device::Device;
use crate::provenance::Build;
use crate::store::{self, Base, Loaded};
use crate::workload::Distribution;
use crate::{Error, Result, cell};
use shamba::MIN_MEMORY;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The layout whose filters and indexes are 100 % of a budget: one Bloom filter a table.
pub const STATE_OF_THE_ART: &str = "shamba:state-of-the-art";

/// What an experiment works with.
pub struct Lab<'a> {
    /// How large everything is.
    pub scale: Scale,
    /// Decides every random choice of an experiment but those of [`base`](Self::base).
    pub seed: u64,
    /// Decides the order in which databases are loaded: the first of several seeds, so that they
    /// are loaded once.
    load_seed: u64,
    /// The engines of the experiment that is measured.
    pub(super) engines: Vec<&'static str>,
    home: PathBuf,
    kept: HashMap<String, Found>,
    /// Of [`once`](Self::once), for this run only.
    others: HashMap<String, serde_json::Value>,
    file: PathBuf,
    note: &'a mut dyn FnMut(String),
}

/// A line of the file of trials.
#[derive(serde::Serialize, serde::Deserialize)]
struct Kept {
    build: Build,
    trial: Trial,
    found: Found,
}

impl<'a> Lab<'a> {
    /// A laboratory with databases below `home`, and measured trials in `file`; with `resume` those
    /// of an earlier run of this program are kept.
    pub fn new(
        scale: Scale,
        seed: u64,
        home: &Path,
        file: PathBuf,
        resume: bool,
        note: &'a mut dyn FnMut(String),
    ) -> Result<Self> {
        std::fs::create_dir_all(home)?;
        let mut kept = HashMap::new();
        match std::fs::read_to_string(&file) {
            Ok(text) if resume => {
                // The last line may have been cut off.
                let lines = text
                    .lines()
                    .filter_map(|line| serde_json::from_str(line).ok());
                let (own, others): (Vec<Kept>, Vec<Kept>) =
                    lines.partition(|kept: &Kept| kept.build == *Build::running());
                if !others.is_empty() {
                    note(format!(
                        "{} measurements of other builds are made again",
                        others.len()
                    ));
                }
                for Kept { trial, found, .. } in own {
                    kept.insert(serde_json::to_string(&trial)?, found);
                }
            }
            Ok(_) => std::fs::remove_file(&file)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self {
            scale,
            seed,
            load_seed: seed,
            engines: Vec::new(),
            home: home.to_owned(),
            kept,
            others: HashMap::new(),
            file,
            note,
        })
    }

    /// Tells the person who waits what an experiment does.
    pub fn note(&mut self, line: impl Into<String>) {
        (self.note)(format!("    {}", line.into()));
    }

    /// Tells the person who waits how far all is.
    pub(super) fn heading(&mut self, line: String) {
        (self.note)(line);
    }

    /// The SHaMBa paper's standard setting at this scale.
    pub fn base(&self, engine: &str) -> Base {
        let file = self.scale.file();
        Base {
            write_buffer: file,
            file_size: file,
            ..Base::standard(engine, self.scale.entries(), self.load_seed)
        }
    }

    /// The setting of an experiment in a sentence.
    pub fn setting(&self, base: &Base) -> String {
        let (warm_up, measured) = self.scale.lookups();
        let key = base.data().keys.key_len();
        format!(
            "{} entries of {} B (keys {key} B), 4 KiB blocks, write buffer and files of {} KiB, size \
             ratio {}, {} bits per key, {warm_up} + {measured} operations, one thread",
            base.entries,
            key as f64 + base.value.mean(),
            base.file_size >> 10,
            base.size_ratio,
            base.bits_per_key,
        )
    }

    /// The database, loaded if it was not.
    pub fn loaded(&mut self, base: &Base) -> Result<Loaded> {
        let note = &mut *self.note;
        base.loaded(&self.home, Device::Ram, &mut |line| {
            note(format!("    {line}"));
        })
    }

    /// 100 % of a budget: the bytes of filters and indexes when the entries of `base` lie in tables
    /// with one Bloom filter each.
    pub fn metadata(&mut self, base: &Base) -> Result<u64> {
        let plain = Base {
            engine: STATE_OF_THE_ART.to_owned(),
            ..base.clone()
        };
        let facts = self.loaded(&plain)?.facts;
        let untold = || Error::InvalidSetting(format!("{} does not tell its tree", base.engine));
        facts.metadata.ok_or_else(untold)
    }

    /// The budgets in percent that an engine has which is to have these: where they are less than
    /// its least, that one, once.
    pub fn budgets(&mut self, base: &Base, wanted: &[f64]) -> Result<Vec<f64>> {
        let least = MIN_MEMORY as f64 * 100.0 / self.metadata(base)? as f64;
        // Upwards, so that a budget of it is not less than the least.
        let least = (least * 10.0).ceil() / 10.0;
        let mut budgets: Vec<f64> = wanted.iter().map(|percent| percent.max(least)).collect();
        budgets.dedup();
        Ok(budgets)
    }

    /// Lookups in the standard setting, under a budget in percent of filters and indexes (at least
    /// the engine's least), as many as the scale has.
    pub fn lookups(
        &mut self,
        engine: &str,
        percent: f64,
        positive: f64,
        distribution: Distribution,
    ) -> Result<Trial> {
        self.lookups_in(self.base(engine), percent, positive, distribution)
    }

    /// The same in any database.
    pub fn lookups_in(
        &mut self,
        base: Base,
        percent: f64,
        positive: f64,
        distribution: Distribution,
    ) -> Result<Trial> {
        let memory = (self.metadata(&base)? as f64 * percent / 100.0) as u64;
        let trial = Trial::lookups(base, memory.max(MIN_MEMORY), positive, distribution);
        Ok(Trial {
            seed: self.lookup_seed(),
            ..trial.lasting(self.scale.lookups())
        })
    }

    /// The seed of lookups in a database whose load had another.
    pub fn lookup_seed(&self) -> u64 {
        self.seed + 1
    }

    /// Measures the trial, unless it was measured before.
    pub fn measure(&mut self, trial: &Trial) -> Result<Found> {
        let key = serde_json::to_string(trial)?;
        if let Some(found) = self.kept.get(&key) {
            return Ok(found.clone());
        }
        let loaded = self.loaded(&trial.base)?;
        let copy = if trial.mix.writes() {
            Some(store::copy(&loaded.dir)?)
        } else {
            None
        };
        let dir = copy
            .as_ref()
            .map_or(loaded.dir, |copy| copy.path().to_owned());
        let group = if let Some(limit) = trial.contained {
            container::forget_files(&dir)?;
            let group = Container::new(limit);
            let none = || Error::InvalidSetting("no memory control group can be made here".into());
            Some(group.ok_or_else(none)?)
        } else {
            None
        };
        let found: Found = cell::measure(&Cell {
            trial: trial.clone(),
            dir,
            group: group.as_ref().map(|group| group.dir().to_owned()),
        })?;
        let mut line = serde_json::to_vec(&Kept {
            build: Build::running().clone(),
            trial: trial.clone(),
            found: found.clone(),
        })?;
        line.push(b'\n');
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.file)?;
        file.write_all(&line)?;
        self.kept.insert(key, found.clone());
        Ok(found)
    }

    /// The folder of the databases.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// What `make` gives, made once in a run for all experiments that ask with the same `key`: for
    /// measurements that are no trials.
    pub fn once<K, T>(&mut self, key: &K, make: impl FnOnce() -> Result<T>) -> Result<T>
    where
        K: serde::Serialize,
        T: serde::Serialize + serde::de::DeserializeOwned,
    {
        let key = format!(
            "{} {}",
            std::any::type_name::<K>(),
            serde_json::to_string(key)?
        );
        if let Some(made) = self.others.get(&key) {
            return Ok(serde_json::from_value(made.clone())?);
        }
        let made = make()?;
        self.others.insert(key, serde_json::to_value(&made)?);
        Ok(made)
    }

    /// An empty folder for an experiment that keeps its own databases; removed when dropped.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::TempDir::with_prefix_in("scratch-", &self.home)?)
    }
}
