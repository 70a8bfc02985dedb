//! "ElasticBF: Elastic Bloom filter management with locality awareness" (by its slides).
mod access_frequency;
mod against_monkey;
mod common;
mod pairs;
mod put_scan;
mod sensitivity;

use super::Experiment;

/// The figures of the slides.
pub(super) const ALL: &[&Experiment] = &[
    &access_frequency::EXPERIMENT,
    &pairs::MICRO_BENCHMARK,
    &pairs::MIXED,
    &put_scan::EXPERIMENT,
    &pairs::YCSB,
    &against_monkey::EXPERIMENT,
    &sensitivity::EXPERIMENT,
];
