//! The offline optimum for a real tree: what [`shamba_model::oracle`] needs, from an engine's tree
//! and the workload.
//!
//! An engine tells its tree as [`PartitionFacts`] ([`crate::engine::Engine::tree`]); since keys are
//! a function of their numbers, everything else follows here: [`Weights`] say how often each entry,
//! and the gap after it, is asked for, and [`partitions`] counts the visits that every partition
//! and data page gets from them. Counts are those the distribution makes expect
//! ([`Weights::expected`]), with or without what has to be read for the first time, or those of the
//! very lookups that were measured ([`Weights::of_trace`], which knows the future). Pure but for
//! [`Request`], which opens a database in a process of its own.
mod visits;
mod weights;

pub use visits::{PageFacts, PartitionFacts, Tree, partitions};
pub use weights::Weights;

use crate::cell::{self, Measurement};
use crate::engine::{self, EngineConfig};
use crate::pressure::Settings;
use crate::record::{FROM_EMPTY, HINDSIGHT, ORACLE, Row};
use crate::store;
use crate::workload::{Distribution, Mix};
use crate::{Error, Result};
use shamba_model::oracle::{Curve, Start};
use std::path::PathBuf;

/// What the optimum knows, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Kind {
    /// It knows what the distribution makes expect, and has read what it keeps.
    Warm,
    /// The same, from empty memory at the beginning of the warm-up.
    FromEmpty,
    /// It knows the lookups to come, and has read what it keeps.
    Hindsight,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Warm, Kind::FromEmpty, Kind::Hindsight];

    fn name(self) -> &'static str {
        match self {
            Kind::Warm => ORACLE,
            Kind::FromEmpty => FROM_EMPTY,
            Kind::Hindsight => HINDSIGHT,
        }
    }
}

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
    warm_up: u64,
    measured: u64,
    kind: Kind,
    budgets: Vec<u64>,
}

impl Measurement for Request {
    const NAME: &str = "oracle";
    type Found = Option<Vec<f64>>;

    /// Pages per lookup for each budget: the dual bound, which no fixed choice beats.
    fn measure(&self) -> Result<Option<Vec<f64>>> {
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
        let (entries, positive, measured) = (self.entries, self.positive, self.measured);
        let weights = if self.kind == Kind::Hindsight {
            let mix = Mix::lookups(positive, self.distribution);
            Weights::of_trace(entries, &mix, self.seed, 2, measured)?
        } else {
            Weights::expected(entries, positive, self.distribution, self.seed, measured)?
        };
        let start = match self.kind {
            Kind::FromEmpty => Start::empty(self.warm_up as f64 / measured as f64),
            Kind::Warm | Kind::Hindsight => Start::WARM,
        };
        let curve = Curve::after(&partitions(tree, &weights)?, start).map_err(failed)?;
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
                for kind in Kind::ALL {
                    let row = |budget_percent: f64| Row {
                        engine: format!("{} {engine}", kind.name()),
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
                    let request = Request {
                        engine: engine.clone(),
                        dir: dir.clone(),
                        entries: store.entries,
                        load_seed: store.seed,
                        seed: store.seed + 1,
                        positive,
                        distribution,
                        warm_up: settings.warm_up,
                        measured: settings.measured,
                        kind,
                        budgets: missing.iter().map(|row| row.budget_bytes).collect(),
                    };
                    let Some(bounds) = cell::measure(&request)? else {
                        note(format!(
                            "{engine} does not tell its tree: no optimum for it"
                        ));
                        return Ok(());
                    };
                    note(format!(
                        "{} {engine}, {}, {positive}: done",
                        kind.name(),
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
