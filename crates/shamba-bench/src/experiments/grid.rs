//! The grid of lookups under small budgets: by distribution, share of existing keys, budget and
//! engine.
use super::Target;
use crate::device::Device;
use crate::report::Cell;
use crate::reproduce::trial::Trial;
use crate::store::Store;
use crate::workload::Distribution;
use crate::{Result, row};

/// What lookups there are, and of what engines.
#[derive(Clone, Debug, clap::Args)]
pub struct Grid {
    /// Engines and their databases.
    #[command(flatten)]
    pub store: Store,
    /// Budgets in percent of RocksDB's filters and indexes.
    #[arg(long, value_delimiter = ',', default_value = "10,40,100")]
    pub budgets: Vec<f64>,
    /// Shares of lookups for existing keys.
    #[arg(long, value_delimiter = ',', default_value = "0,0.5,1")]
    pub positives: Vec<f64>,
    /// Of `uniform`, `zipf[THETA]`, `normal[SHARE]`, `normal-keys[KEYS]`, `hot-set[SHARE]` and
    /// `latest`.
    #[arg(long, value_delimiter = ',', default_value = "uniform,zipf0.99")]
    pub distributions: Vec<Distribution>,
    /// Lookups before measuring.
    #[arg(long, default_value_t = 400_000)]
    pub warm_up: u64,
}

/// A place of a grid, for all engines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) distribution: Distribution,
    /// Share of lookups for existing keys.
    pub(crate) positive: f64,
    /// Budget in percent of RocksDB's filters and indexes.
    pub(crate) percent: f64,
}

impl Grid {
    /// Every place; those of a distribution and share of existing keys come together.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for &distribution in &self.distributions {
            for &positive in &self.positives {
                places.extend(self.budgets.iter().map(|&percent| Place {
                    distribution,
                    positive,
                    percent,
                }));
            }
        }
        places
    }

    /// So many lookups of an engine in a place, on the disk.
    pub(crate) fn trial(&self, engine: &str, place: Place, measured: u64) -> Trial {
        let (base, memory) = (self.store.base(engine), self.store.budget(place.percent));
        Trial::lookups(base, memory, place.positive, place.distribution)
            .lasting((self.warm_up, measured))
            .on(Device::Disk)
    }

    /// The same with the database, loaded if it was not.
    pub(crate) fn target(
        &self,
        engine: &str,
        place: Place,
        measured: u64,
        note: &mut dyn FnMut(String),
    ) -> Result<Target> {
        Ok(Target {
            dir: self.store.loaded(engine, note)?,
            trial: self.trial(engine, place, measured),
        })
    }
}

impl Place {
    /// The columns of an engine's place, and what was found there.
    pub(crate) fn row(&self, engine: &str, found: Vec<(String, Cell)>) -> Vec<(String, Cell)> {
        let mut row = row! {
            "distribution": self.distribution.name(),
            "positive": self.positive,
            "budget %": self.percent,
            "engine": engine,
        };
        row.extend(found);
        row
    }

    /// The distribution and the share of existing keys, in words.
    pub(crate) fn workload(&self) -> String {
        format!("{}, {} existing", self.distribution.name(), self.positive)
    }
}
