//! What this engine claims itself, beyond the papers: fewer reads under pressure than any other,
//! close to the optimum, steady when the hot spot moves and when the data grow, quick when memory
//! is plenty, and of a design that it finds itself.
pub(in crate::reproduce) mod ablation;
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

use super::catalogue::Run;
use super::shamba::pressure::short;
use super::trial::{Found, Trial};
use super::{Claim, Lab};
use crate::Result;
use crate::report::joined;

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

/// What the engines of an experiment find in the same place, each by a trial of its own.
type Side = (&'static str, Found);

fn each(
    lab: &mut Lab<'_>,
    trial: impl Fn(&mut Lab<'_>, &str) -> Result<Trial>,
) -> Result<Vec<Side>> {
    let engines = lab.engines.clone();
    let measured = |engine: &'static str| {
        let trial = trial(lab, engine)?;
        Ok((short(engine), lab.measure(&trial)?))
    };
    engines.into_iter().map(measured).collect()
}

/// The names of all engines but the first.
fn others(lab: &Lab<'_>) -> String {
    let others = lab.engines.iter().skip(1);
    joined(others.map(|engine| short(engine).to_owned()))
}

/// A number of the first engine, over the least of the others.
fn beside_best(sides: &[Side], of: impl Fn(&Found) -> f64) -> f64 {
    let mut all = sides.iter().map(|(_, found)| of(found));
    let first = all.next().unwrap_or(f64::NAN);
    first / all.fold(f64::INFINITY, f64::min)
}

/// That a number of ours is no more than the least of the others', where every engine compacted
/// files meanwhile.
fn no_more_beside_compaction(what: String, sides: &[Side], of: impl Fn(&Found) -> f64) -> Claim {
    let compacted = |side: &Side| side.1.count("compactions") > 0;
    let claim = Claim::goal_to(what, 1.0, beside_best(sides, of));
    let idle = "not every engine compacted files meanwhile: so little was written (the table)";
    claim.unless(!sides.iter().all(compacted), idle)
}

/// What a table lacks without the competitors.
fn missing(lab: &Lab<'_>) -> Vec<String> {
    const MISSING: &str = "RocksDB is not in this build (--features rocksdb): compared with the papers' systems only.";
    let is_missing = rocksdb::settings(lab).is_empty();
    is_missing.then(|| MISSING.to_owned()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::rocksdb::tests::sides;
    use super::*;
    use crate::reproduce::Verdict::{Met, Missed, NotComparable};

    #[test]
    fn what_is_read_beside_no_compaction_has_no_verdict() {
        let judged = |ours, theirs| {
            let sides = sides("compactions", [ours, theirs]);
            no_more_beside_compaction(String::new(), &sides, Found::pages).verdict
        };
        assert_eq!(judged([2, 1], [3, 1]), Met);
        assert_eq!(judged([3, 1], [2, 1]), Missed);
        assert_eq!(judged([2, 0], [3, 1]), NotComparable);
        assert_eq!(judged([2, 1], [3, 0]), NotComparable);
    }
}
