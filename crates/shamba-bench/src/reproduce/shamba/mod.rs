//! "LSM-Trees Under (Memory) Pressure" (SHaMBa).
mod beside_rocksdb;
mod causes;
mod figure_15;
mod figure_2;
mod figure_3;
mod figure_5;
mod figure_9;
mod modules;
mod over_budget;
pub(super) mod pressure;
mod table_1;
mod table_3;

use super::Experiment;

/// The tables and figures of the paper.
pub(super) const ALL: &[&Experiment] = &[
    &table_1::EXPERIMENT,
    &table_3::EXPERIMENT,
    &figure_2::EXPERIMENT,
    &figure_3::EXPERIMENT,
    &figure_5::EXPERIMENT,
    &over_budget::ALL[0],
    &over_budget::ALL[1],
    &over_budget::ALL[2],
    &figure_9::EXPERIMENT,
    &over_budget::ALL[3],
    &over_budget::ALL[4],
    &over_budget::ALL[5],
    &beside_rocksdb::FIGURE_13,
    &beside_rocksdb::FIGURE_14,
    &figure_15::EXPERIMENT,
    &beside_rocksdb::FIGURE_16,
];
