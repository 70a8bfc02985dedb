//! Experiments beyond the grid of [`crate::pressure`]: each measures in processes of its own,
//! checks every answer, and gives a table; what has a course over time gives a plot too.
pub mod cpu;
pub(crate) mod full_tree;
pub mod grid;
pub mod indexes;
pub mod mixes;
pub mod range_filters;
pub mod reopen;
pub mod writes;

use crate::engine::{self, Engine, EngineConfig};
use crate::reproduce::Lab;
use crate::reproduce::trial::Trial;
use crate::runner::{Data, timed};
use crate::workload::{Chooser, MAX_KEY, Mix, Operation, Random, random};
use crate::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// The name by which a command is asked for a value.
pub(crate) fn named(value: &impl clap::ValueEnum) -> String {
    let name = value.to_possible_value();
    name.map_or_else(String::new, |name| name.get_name().to_owned())
}

/// The settings that a command has with these options.
#[cfg(test)]
pub(crate) fn settings<S: clap::Args>(options: &str) -> S {
    let given = std::iter::once("command").chain(options.split_whitespace());
    let command = S::augment_args(clap::Command::new("command"));
    S::from_arg_matches(&command.get_matches_from(given)).unwrap()
}

/// A trial and the folder with its database, for experiments that look at its lookups more closely
/// than the trial does.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Target {
    pub(crate) trial: Trial,
    pub(crate) dir: PathBuf,
}

impl Target {
    /// Loads the database if it was not.
    pub(crate) fn of(lab: &mut Lab<'_>, trial: Trial) -> Result<Self> {
        let dir = lab.loaded(&trial.base)?.dir;
        Ok(Self { trial, dir })
    }

    /// Opens it for reading; nothing is known of past lookups.
    pub(crate) fn open(&self) -> Result<Box<dyn Engine>> {
        engine::forget(&self.dir)?;
        let config = EngineConfig {
            read_only: true,
            device: self.trial.device,
            ..self.trial.base.config(self.dir.clone(), self.trial.memory)
        };
        engine::open(&self.trial.engine, &config)
    }

    /// The entries, with the seed of the lookups.
    pub(crate) fn data(&self) -> Data {
        Data {
            seed: self.trial.seed,
            ..self.trial.base.data()
        }
    }

    /// The lookups of a phase.
    pub(crate) fn lookups(&self, phase: u64) -> Result<Lookups> {
        Lookups::new(self.data(), self.trial.mix.clone(), phase)
    }
}

/// Checked lookups one by one, for experiments that look at time or keys more closely than
/// [`crate::runner::run`].
pub(crate) struct Lookups {
    data: Data,
    mix: Mix,
    chooser: Chooser,
    random: Random,
    /// Added to every number, wrapping around: moves a hot spot.
    pub(crate) shift: u64,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

impl Lookups {
    fn new(data: Data, mix: Mix, phase: u64) -> Result<Self> {
        Ok(Self {
            chooser: data.chooser(mix.distribution)?,
            random: random(data.seed, phase << 8),
            mix,
            data,
            shift: 0,
            value: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// The next key to look up: the number of its entry if it exists, and the key.
    pub(crate) fn draw(&mut self) -> (Option<u64>, Vec<u8>) {
        let entries = self.data.keys.entries();
        let number = (self.chooser.draw(&mut self.random) + self.shift) % entries;
        let mut buf = [0; MAX_KEY];
        match self.mix.draw(&mut self.random) {
            Operation::ReadMissing => (None, self.data.keys.absent(number, &mut buf).to_vec()),
            _ => (Some(number), self.data.keys.key(number, &mut buf).to_vec()),
        }
    }

    /// Fails unless `found` is what the key's entry holds.
    pub(crate) fn check(&mut self, number: Option<u64>, found: Option<&[u8]>) -> Result<()> {
        match (number, found) {
            (None, None) => Ok(()),
            (Some(number), Some(found)) => self.data.values.check(number, found, &mut self.scratch),
            (number, found) => Err(Error::WrongAnswer(format!(
                "entry {number:?}: {} bytes found",
                found.map_or(0, <[u8]>::len)
            ))),
        }
    }

    /// One lookup; how long the engine took.
    pub(crate) fn step(&mut self, engine: &dyn Engine) -> Result<Duration> {
        let (number, key) = self.draw();
        let mut value = std::mem::take(&mut self.value);
        let (found, took) = timed(engine, || engine.get(&key, &mut value))?;
        self.check(number, found.then_some(value.as_slice()))?;
        self.value = value;
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Base;
    use crate::workload::Distribution;

    /// Lookups of existing keys in this share, and their entries.
    fn lookups(entries: u64, positive: f64, distribution: Distribution) -> (Lookups, Data) {
        let data = Base::standard("", entries, 1).data();
        let mix = Mix::lookups(positive, distribution);
        (Lookups::new(data, mix, 1).unwrap(), data)
    }

    #[test]
    fn lookups_are_checked_both_ways() {
        let (mut lookups, data) = lookups(100, 0.5, Distribution::Uniform);
        let mut value = Vec::new();
        data.values.write(7, &mut value);
        assert!(lookups.check(Some(7), Some(&value)).is_ok());
        assert!(lookups.check(None, None).is_ok());
        assert!(lookups.check(Some(8), Some(&value)).is_err());
        assert!(lookups.check(Some(7), None).is_err());
        assert!(lookups.check(None, Some(&value)).is_err());
    }

    #[test]
    fn a_shift_moves_the_hot_spot() {
        let (mut lookups, _) = lookups(1000, 1.0, Distribution::Normal(0.01));
        lookups.shift = 300;
        for _ in 0..1000 {
            let number = lookups.draw().0.unwrap();
            assert!((740..860).contains(&number), "{number}");
        }
    }
}
