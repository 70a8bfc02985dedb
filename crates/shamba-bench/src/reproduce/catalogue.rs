//! What `experiments.toml` says: the experiments in words, the claims by which the papers are
//! known, and what of the papers no experiment measures.
use super::claim::Claim;
use super::{Findings, elastic, hash_sharing, monkey, ours, shamba};
use crate::Result;
use crate::engine;
use crate::report::Report;
use crate::reproduce::{Lab, Scale};
use crate::row;
use std::sync::LazyLock;

/// Measures an experiment.
pub(super) type Run = fn(&mut Lab<'_>) -> Result<Findings>;

/// The measurements by the names of their experiments.
const RUNS: [&[(&str, Run)]; 5] = [
    shamba::ALL,
    hash_sharing::ALL,
    elastic::ALL,
    monkey::ALL,
    ours::ALL,
];

/// A table or figure to be measured again.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The paper and the item: also the name of its files.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// What the paper says, in a sentence or two.
    pub claim: String,
    /// About the seconds it takes at the scale `quick` on two cores: for the time left.
    pub seconds: f64,
    /// What is measured, in the order that its claims know; the first is judged by the others, or
    /// is the baseline.
    #[serde(default)]
    engines: Vec<String>,
    /// Whether 100 % of memory is what RocksDB's filters and indexes take, and not those of one
    /// Bloom filter a file in this engine.
    #[serde(default)]
    pub(super) of_rocksdb: bool,
    /// How its trials are made.
    #[serde(default)]
    pub(super) pace: Pace,
    /// The setting in words, around what the experiment itself says of it.
    #[serde(default)]
    setting: String,
    /// What else should be known.
    #[serde(default)]
    notes: Vec<String>,
    /// What the paper claims that cannot be compared here: what, the claim, and why not.
    #[serde(default)]
    not_comparable: Vec<[String; 3]>,
}

impl Experiment {
    /// How it is measured.
    pub(super) fn run(&self) -> Option<Run> {
        let mut runs = RUNS.iter().copied().flatten();
        runs.find(|(name, _)| *name == self.name)
            .map(|(_, run)| *run)
    }

    /// The engines that are measured: those of a family that is there.
    pub(super) fn engines(&self, is_there: impl Fn(&str) -> bool) -> Vec<&str> {
        let built = |spec: &&str| is_there(engine::family(spec));
        self.engines
            .iter()
            .map(String::as_str)
            .filter(built)
            .collect()
    }

    /// What it found, and what is known of it without measuring.
    pub(super) fn complete(&self, scale: Scale, mut found: Findings) -> Findings {
        if !self.setting.is_empty() {
            let (warm_up, measured) = scale.lookups();
            let told = self.setting.replace("{}", &found.setting);
            let told = told.replace("{entries}", &scale.entries().to_string());
            found.setting = told.replace("{lookups}", &format!("{warm_up} + {measured}"));
        }
        let claims = self.not_comparable.iter().cloned();
        let claims = claims.map(|[what, paper, why]| Claim::told(what, paper, "-", why));
        found.claims.extend(claims);
        found.notes.extend(self.notes.iter().cloned());
        found
    }
}

/// How an experiment's trials are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pace {
    /// One after the other.
    #[default]
    InTurn,
    /// Several at once, as many as are asked for: only what is counted of them is told.
    SideBySide,
    /// One after the other, with fewer lookups: times are told.
    ByTheClock,
}

/// Of an item of a paper that no experiment measures: the paper, and why.
#[derive(serde::Deserialize)]
struct LeftOut {
    of: String,
    item: String,
    why: String,
}

/// The whole file.
#[derive(serde::Deserialize)]
pub(super) struct Catalogue {
    /// Settings of RocksDB, of which the best counts in each cell: what [`ROCKSDB`] stands for
    /// among engines.
    rocksdb: Vec<String>,
    /// Names of experiments, and how claims of theirs begin by which the papers are known.
    pub(super) headlines: Vec<[String; 2]>,
    #[serde(rename = "experiment")]
    pub(super) experiments: Vec<Experiment>,
    left_out: Vec<LeftOut>,
}

pub(super) static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    let read = toml::from_str(include_str!("experiments.toml"));
    let mut read: Catalogue = read.unwrap_or_else(|error| panic!("experiments.toml: {error}"));
    for experiment in &mut read.experiments {
        if let Some(at) = experiment.engines.iter().position(|name| name == ROCKSDB) {
            let settings = read.rocksdb.iter().cloned();
            experiment.engines.splice(at..=at, settings);
        }
    }
    read
});

/// Stands among an experiment's engines for the settings of RocksDB.
const ROCKSDB: &str = "{rocksdb}";

impl Catalogue {
    /// What of these papers is left out.
    pub(super) fn left_out(&self, papers: &[&str]) -> Report {
        let own = self.left_out.iter();
        let own = own.filter(|left_out| papers.contains(&left_out.of.as_str()));
        Report::of("Left out, and why", own, |LeftOut { of, item, why }| {
            row! { "of": of, "not measured": item, "why": why }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_described_once_in_the_order_of_its_paper() {
        let described = CATALOGUE.experiments.iter().map(|known| &known.name[..]);
        let measured = RUNS.iter().copied().flatten().map(|(name, _)| *name);
        assert!(described.eq(measured));
        assert!(CATALOGUE.experiments.iter().all(|known| {
            !known.title.is_empty() && !known.claim.is_empty() && known.seconds > 0.0
        }));
    }
}
