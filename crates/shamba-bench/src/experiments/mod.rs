//! Experiments beyond the grid of [`crate::pressure`]: each measures in processes of its own,
//! checks every answer, and gives a table; what has a course over time gives a plot too.
pub mod cpu;
pub(crate) mod full_lookups;
mod full_tree;
pub(crate) mod hot_spot;
pub mod keyspaces;
pub mod memory_scaling;
pub mod model;
pub(crate) mod multi_get;
pub mod self_design;
pub mod small_budgets;

use crate::device::Device;
use crate::engine::{Engine, EngineConfig};
use crate::runner::Data;
use crate::store::{self, Store};
use crate::workload::{Chooser, Distribution, MAX_KEY, Mix, Operation, Random, random};
use crate::{Error, Result};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The engine a cell opens, and the database.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Target {
    engine: String,
    dir: PathBuf,
    memory: u64,
    entries: u64,
    load_seed: u64,
    seed: u64,
}

impl Target {
    /// The engine over its loaded database, under a budget in percent; repetitions ask differently.
    pub(crate) fn loaded(
        store: &Store,
        engine: &str,
        percent: f64,
        repetition: u64,
        note: &mut dyn FnMut(String),
    ) -> Result<Self> {
        Ok(Self {
            engine: engine.to_owned(),
            dir: store.loaded(engine, note)?,
            memory: store.budget(percent),
            entries: store.entries,
            load_seed: store.seed,
            seed: store.seed + 1 + repetition,
        })
    }

    /// Opens it, with background work only if it is to be written to.
    fn open(&self, read_only: bool) -> Result<Box<dyn Engine>> {
        crate::engine::open(&self.engine, &self.config(read_only))
    }

    /// Opens it for reading on a device.
    fn open_on(&self, device: Device) -> Result<Box<dyn Engine>> {
        let config = EngineConfig {
            device,
            ..self.config(true)
        };
        crate::engine::open(&self.engine, &config)
    }

    fn config(&self, read_only: bool) -> EngineConfig {
        EngineConfig {
            read_only,
            ..EngineConfig::standard(self.dir.clone(), self.memory)
        }
    }

    /// The entries, with the seed of this repetition's lookups.
    fn data(&self) -> Data {
        let mut data = store::data(self.entries, self.load_seed);
        data.seed = self.seed;
        data
    }
}

/// Checked lookups one by one, for experiments that look at time or keys more closely than
/// [`crate::runner::run`].
struct Lookups {
    data: Data,
    mix: Mix,
    chooser: Chooser,
    random: Random,
    /// Added to every number, wrapping around: moves a hot spot.
    shift: u64,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

impl Lookups {
    fn new(data: Data, positive: f64, distribution: Distribution, phase: u64) -> Result<Self> {
        Ok(Self {
            chooser: data.chooser(distribution)?,
            random: random(data.seed, phase << 8),
            mix: Mix::lookups(positive, distribution),
            data,
            shift: 0,
            value: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// The next key to look up: the number of its entry if it exists, and the key.
    fn draw(&mut self) -> (Option<u64>, Vec<u8>) {
        let entries = self.data.keys.entries();
        let number = (self.chooser.draw(&mut self.random) + self.shift) % entries;
        let mut buf = [0; MAX_KEY];
        match self.mix.draw(&mut self.random) {
            Operation::ReadMissing => (None, self.data.keys.absent(number, &mut buf).to_vec()),
            _ => (Some(number), self.data.keys.key(number, &mut buf).to_vec()),
        }
    }

    /// Fails unless `found` is what the key's entry holds.
    fn check(&mut self, number: Option<u64>, found: Option<&[u8]>) -> Result<()> {
        match (number, found) {
            (None, None) => Ok(()),
            (Some(number), Some(found)) => {
                self.data.values.check(number, 0, found, &mut self.scratch)
            }
            (number, found) => Err(Error::WrongAnswer(format!(
                "entry {number:?}: {} bytes found",
                found.map_or(0, <[u8]>::len)
            ))),
        }
    }

    /// One lookup; how long the engine took.
    fn step(&mut self, engine: &dyn Engine) -> Result<Duration> {
        let (number, key) = self.draw();
        let mut value = std::mem::take(&mut self.value);
        let start = Instant::now();
        let found = engine.get(&key, &mut value)?;
        let took = start.elapsed();
        self.check(number, found.then_some(value.as_slice()))?;
        self.value = value;
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_are_checked_both_ways() {
        let data = store::data(100, 1);
        let mut lookups = Lookups::new(data, 0.5, Distribution::Uniform, 1).unwrap();
        let mut value = Vec::new();
        data.values.write(7, 0, &mut value);
        assert!(lookups.check(Some(7), Some(&value)).is_ok());
        assert!(lookups.check(None, None).is_ok());
        assert!(lookups.check(Some(8), Some(&value)).is_err());
        assert!(lookups.check(Some(7), None).is_err());
        assert!(lookups.check(None, Some(&value)).is_err());
    }

    #[test]
    fn a_shift_moves_the_hot_spot() {
        let data = store::data(1000, 1);
        let mut lookups = Lookups::new(data, 1.0, Distribution::Normal(0.01), 1).unwrap();
        lookups.shift = 300;
        for _ in 0..1000 {
            let number = lookups.draw().0.unwrap();
            assert!((740..860).contains(&number), "{number}");
        }
    }
}
