//! "ElasticBF: Elastic Bloom filter management with locality awareness" (by its slides).
mod access_frequency;
mod against_monkey;
mod common;
mod micro_benchmark;
mod mixed;
mod put_scan;
mod sensitivity;
mod ycsb;

use super::Experiment;

/// The figures of the slides.
pub(super) const ALL: &[&Experiment] = &[
    &access_frequency::EXPERIMENT,
    &micro_benchmark::EXPERIMENT,
    &mixed::EXPERIMENT,
    &put_scan::EXPERIMENT,
    &ycsb::EXPERIMENT,
    &against_monkey::EXPERIMENT,
    &sensitivity::EXPERIMENT,
];
