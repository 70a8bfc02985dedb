//! What this engine claims itself, beyond the papers: fewer reads under pressure than any other,
//! close to the optimum, steady when the hot spot moves and when the data grow, quick when memory
//! is plenty, and of a design that it finds itself.
mod ablation;
mod equal_reads;
mod graph;
pub(crate) mod hot_spot;
pub(crate) mod keyspaces;
mod mixed;
pub(crate) mod multi_get;
mod oracle_gap;
pub(super) mod pressure;
pub(super) mod rocksdb;
mod scaling;
mod self_design;
pub(crate) mod small_budgets;
mod without_pressure;

use super::Lab;
use super::catalogue::Run;
use super::trial::{Found, Trial};
use crate::Result;

/// What this engine claims.
pub(super) const ALL: &[(&str, Run)] = &[
    ("ours-pressure", pressure::run),
    ("ours-ablation", ablation::run),
    ("ours-oracle-gap", oracle_gap::run),
    ("ours-equal-reads", equal_reads::run),
    ("ours-moving-hot-spot", hot_spot::run),
    ("ours-multi-get", multi_get::run),
    ("ours-scaling", scaling::run),
    ("ours-mixed-graph", graph::run),
    ("ours-mixed", mixed::run),
    ("ours-self-design", self_design::run),
    ("ours-compare", without_pressure::run),
    ("ours-keyspaces", keyspaces::run),
    ("ours-small-budgets", small_budgets::run),
];

/// What engines find in the same place, each by a trial of its own.
fn each(
    lab: &mut Lab<'_>,
    engines: &[&str],
    trial: impl Fn(&mut Lab<'_>, &str) -> Result<Trial>,
) -> Result<Vec<Found>> {
    let measured = |engine: &&str| {
        let trial = trial(lab, engine)?;
        lab.measure(&trial)
    };
    engines.iter().map(measured).collect()
}

/// Pages of the first engine beside the fewest of the others.
fn beside_best(found: &[Found]) -> f64 {
    let others = found.iter().skip(1).map(Found::pages);
    found.first().map_or(f64::NAN, Found::pages) / others.fold(f64::INFINITY, f64::min)
}

/// What a table lacks without the competitors.
fn missing(lab: &Lab<'_>) -> Vec<String> {
    if rocksdb::settings(lab).is_empty() {
        vec![
        "RocksDB is not in this build (--features rocksdb): compared with the papers' systems only."
            .to_owned(),
    ]
    } else {
        Vec::new()
    }
}
