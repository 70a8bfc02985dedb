//! The offline optimum for a real tree: what [`shamba_model::oracle`] needs, from an engine's tree
//! and the workload.
//!
//! An engine tells its tree as [`PartitionFacts`] ([`crate::engine::Engine::tree`]); since keys are
//! a function of their numbers, everything else follows here: [`Weights`] say how often each entry,
//! and the gap after it, is asked for, and [`partitions`] counts the visits that every partition
//! and data page gets from them. Counts are those the distribution makes expect
//! ([`Weights::expected`]), or those of the very lookups that were measured
//! ([`Weights::of_trace`], which knows the future). Pure but for [`Request`], which opens a database
//! in a process of its own.
mod visits;
mod weights;

pub use visits::{PageFacts, PartitionFacts, Tree, partitions};
pub use weights::Weights;

use crate::engine::{self, EngineConfig};
use crate::pressure::Settings;
use crate::record::{HINDSIGHT, ORACLE, Row};
use crate::store;
use crate::workload::{Distribution, Mix};
use crate::{Error, Result, cell};
use shamba_model::oracle::Curve;
use std::path::PathBuf;

/// The optimum of one tree and workload under several budgets.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Request {
    engine: String,
    dir: PathBuf,
    entries: u64,
    load_seed: u64,
    seed: u64,
    positive: f64,
    distribution: Distribution,
    measured: u64,
    hindsight: bool,
    budgets: Vec<u64>,
}

impl Request {
    /// Pages per lookup for each budget: the dual bound, which no fixed choice beats.
    pub(crate) fn solve(&self) -> Result<Option<Vec<f64>>> {
        let config = EngineConfig {
            read_only: true,
            // Telling the tree may need more than the budgets under test.
            ..EngineConfig::standard(self.dir.clone(), 256 << 20)
        };
        let engine = engine::open(&self.engine, &config)?;
        let keys = store::data(self.entries, self.load_seed).keys;
        let mut tree = Tree::new(keys);
        let Some(fixed) = engine.tree(&mut |facts| tree.add(facts))? else {
            return Ok(None);
        };
        drop(engine);
        let weights = if self.hindsight {
            let mix = Mix::lookups(self.positive, self.distribution);
            Weights::of_trace(self.entries, &mix, self.seed, 2, self.measured)?
        } else {
            Weights::expected(self.entries, self.positive, self.distribution, self.seed)?
        };
        let curve = Curve::new(&partitions(tree, &weights)?).map_err(failed)?;
        let bounds = self.budgets.iter().map(|budget| {
            let optimum = curve.at(budget.saturating_sub(fixed));
            optimum.bound / weights.total()
        });
        Ok(Some(bounds.collect()))
    }
}

fn failed(error: shamba_model::ModelError) -> Error {
    Error::InvalidSetting(format!("oracle: {error}"))
}

/// Adds the optimum's rows of a grid, for every engine of it that tells its tree, to `rows`, unless
/// they are among them.
pub(crate) fn grid(
    settings: &Settings,
    rows: &mut Vec<Row>,
    note: &mut dyn FnMut(String),
) -> Result<()> {
    let store = &settings.store;
    for engine in store
        .engines
        .iter()
        .filter(|engine| engine.starts_with("shamba"))
    {
        let dir = store.loaded(engine, note)?;
        for &distribution in &settings.distributions {
            for &positive in &settings.positives {
                for kind in [ORACLE, HINDSIGHT] {
                    let row = |budget_percent: f64| Row {
                        engine: format!("{kind} {engine}"),
                        distribution: distribution.name(),
                        positive,
                        budget_percent,
                        budget_bytes: store.budget(budget_percent),
                        entries: store.entries,
                        warm_up: settings.warm_up,
                        measured: settings.measured,
                        seed: store.seed + 1,
                        ..Row::default()
                    };
                    let mut missing: Vec<Row> = settings.budgets.iter().map(|b| row(*b)).collect();
                    missing.retain(|place| !rows.iter().any(|row| row.same_cell(place)));
                    if missing.is_empty() {
                        continue;
                    }
                    let request = cell::Request::Oracle(Request {
                        engine: engine.clone(),
                        dir: dir.clone(),
                        entries: store.entries,
                        load_seed: store.seed,
                        seed: store.seed + 1,
                        positive,
                        distribution,
                        measured: settings.measured,
                        hindsight: kind == HINDSIGHT,
                        budgets: missing.iter().map(|row| row.budget_bytes).collect(),
                    });
                    let Some(bounds) = cell::measure::<Option<Vec<f64>>>(&request)? else {
                        note(format!(
                            "{engine} does not tell its tree: no optimum for it"
                        ));
                        return Ok(());
                    };
                    note(format!(
                        "{kind} {engine}, {}, {positive}: done",
                        distribution.name()
                    ));
                    for (row, pages) in missing.into_iter().zip(bounds) {
                        settings.keep(rows, Row { pages, ..row })?;
                    }
                }
            }
        }
    }
    Ok(())
}
