//! "LSM-Trees Under (Memory) Pressure" (SHaMBa).
mod accesses;
mod beside_rocksdb;
mod causes;
mod figure_15;
mod modules;
mod over_budget;
pub(super) mod pressure;
mod table_1;
mod table_2;

use super::Experiment;

/// The tables and figures of the paper.
pub(super) const ALL: &[&Experiment] = &[
    &table_1::EXPERIMENT,
    &table_2::EXPERIMENT,
    &modules::TABLE_3,
    &accesses::FIGURE_2,
    &accesses::FIGURE_3,
    &accesses::FIGURE_5,
    &over_budget::FIGURE_6,
    &over_budget::FIGURE_7,
    &over_budget::FIGURE_8,
    &modules::FIGURE_9,
    &over_budget::FIGURE_10,
    &over_budget::FIGURE_11,
    &over_budget::FIGURE_12,
    &beside_rocksdb::FIGURE_13,
    &beside_rocksdb::FIGURE_14,
    &figure_15::EXPERIMENT,
    &beside_rocksdb::FIGURE_16,
];
