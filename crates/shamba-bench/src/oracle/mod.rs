//! The offline optimum for a real tree: what [`shamba_model::oracle`] needs, from an engine's tree
//! and the workload.
//!
//! An engine tells its tree by [partitions](shamba::inspect::FilterPartition)
//! ([`crate::engine::Engine::tree`]); since keys are a function of their numbers, everything else
//! follows here: [`Weights`] say how often each entry, and the gap after it, is asked for, and
//! [`partitions`] counts the visits that every partition and data page gets from them. Counts are
//! those the distribution makes expect ([`Weights::expected`]), with or without what has to be read
//! for the first time, or those of the very lookups that were measured ([`Weights::of_trace`],
//! which knows the future). Pure but for [`Request`], which opens a database in a process of its
//! own.
mod visits;
mod weights;

pub use visits::{Tree, first_reads, partitions};
pub use weights::Weights;

use crate::cell::Measurement;
use crate::engine::{self, EngineConfig};
use crate::reproduce::trial::Trial;
use crate::{Error, Result};
use shamba_model::oracle::{Curve, Start};
use std::path::PathBuf;

/// Phases of the lookups of [`Trial`]s: those before measuring, and those measured.
const WARM_UP: u64 = 1;
const MEASURED: u64 = 2;

/// Pages per lookup of the best that could be done with a tree, a workload and a budget: dual
/// bounds, which no fixed choice of what memory holds beats.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Optimum {
    /// Of what knows what the distribution makes expect, and has read what it keeps.
    pub warm: f64,
    /// The same, from empty memory at the beginning of the warm-up: what was never met is not in
    /// it.
    pub from_empty: f64,
    /// Of what knows the lookups to come, and has read what it keeps.
    pub hindsight: f64,
    /// Data pages of entries that were looked up, and no entry of theirs before, since memory was
    /// empty: nobody had a reason to read them before, however much memory there is.
    #[serde(default)]
    pub first_of_page: f64,
    /// Those of entries that were not looked up before: what is left to read where there is memory
    /// for every entry met, and none for the others on its page.
    #[serde(default)]
    pub first_of_entry: f64,
}

/// The optimum of a trial's tree and lookups under several budgets.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Request {
    /// Its own budget does not count.
    pub trial: Trial,
    /// The folder of its database.
    pub dir: PathBuf,
    /// In bytes.
    pub budgets: Vec<u64>,
}

impl Measurement for Request {
    /// One for each budget; nothing of an engine that does not tell its tree.
    type Found = Option<Vec<Optimum>>;

    fn measure(&self) -> Result<Option<Vec<Optimum>>> {
        let trial = &self.trial;
        let config = EngineConfig {
            read_only: true,
            // Telling the tree may need more than the budgets under test.
            ..trial.base.config(self.dir.clone(), 256 << 20)
        };
        let engine = engine::open(&trial.engine, &config)?;
        let mut tree = Tree::new(trial.base.data().keys);
        let Some(fixed) = engine.tree(&mut |told| tree.add(told))? else {
            return Ok(None);
        };
        drop(engine);
        let (entries, mix, seed) = (trial.base.entries, &trial.mix, trial.seed);
        let expected = Weights::expected(entries, mix, seed, trial.measured)?;
        let traced = Weights::of_trace(entries, mix, seed, MEASURED, trial.measured)?;
        let from_empty = Start::empty(trial.warm_up as f64 / trial.measured as f64);
        let curve = |weights: &Weights, start| {
            let curve = Curve::after(&partitions(&tree, weights), start);
            let curve = curve.map_err(|e| Error::InvalidSetting(format!("oracle: {e}")))?;
            let total = weights.total();
            let bound = move |budget: u64| curve.at(budget.saturating_sub(fixed)).bound / total;
            Ok::<_, Error>(bound)
        };
        let warm = curve(&expected, Start::WARM)?;
        let from_empty = curve(&expected, from_empty)?;
        let hindsight = curve(&traced, Start::WARM)?;
        let before = Weights::of_trace(entries, mix, seed, WARM_UP, trial.warm_up)?;
        let [first_of_page, first_of_entry] =
            first_reads(&tree, &before, &traced).map(|reads| reads / traced.total());
        let optima = self.budgets.iter().map(|&budget| Optimum {
            warm: warm(budget),
            from_empty: from_empty(budget),
            hindsight: hindsight(budget),
            first_of_page,
            first_of_entry,
        });
        Ok(Some(optima.collect()))
    }
}
