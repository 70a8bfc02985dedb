//! What this engine claims itself, beyond the papers: fewer reads under pressure than any other,
//! close to the optimum, steady when the hot spot moves and when the data grow, and quick when
//! memory is plenty.
mod ablation;
mod equal_reads;
mod graph;
mod hot_spot;
mod mixed;
mod multi_get;
mod oracle_gap;
pub(super) mod pressure;
pub(super) mod rocksdb;
mod scaling;
mod without_pressure;

use super::{Experiment, Lab};
use crate::store::Store;

/// What this engine claims.
pub(super) const ALL: &[&Experiment] = &[
    &pressure::EXPERIMENT,
    &ablation::EXPERIMENT,
    &oracle_gap::EXPERIMENT,
    &equal_reads::EXPERIMENT,
    &hot_spot::EXPERIMENT,
    &multi_get::EXPERIMENT,
    &scaling::EXPERIMENT,
    &graph::EXPERIMENT,
    &mixed::EXPERIMENT,
    &without_pressure::EXPERIMENT,
];

/// The standard databases of these engines, at the lab's scale.
fn store(lab: &Lab<'_>, engines: &[&str]) -> Store {
    Store {
        engines: engines.iter().map(|&engine| engine.to_owned()).collect(),
        dir: lab.home().to_owned(),
        entries: lab.scale.entries(),
        seed: lab.seed,
    }
}

/// What a table lacks without the competitors.
fn missing() -> Vec<String> {
    if rocksdb::settings().is_empty() {
        vec![
        "RocksDB is not in this build (--features rocksdb): compared with the papers' systems only."
            .to_owned(),
    ]
    } else {
        Vec::new()
    }
}
