//! "Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern Storage Devices" (hash sharing).
mod figure_6;
mod filters;
mod gains;
mod hashing;
mod lookups;
mod micro;
mod pairs;
mod table_1;
mod tree;

pub(crate) use tree::Cell;

use super::Experiment;

/// The tables and figures of the paper.
pub(super) const ALL: &[&Experiment] = &[
    &table_1::EXPERIMENT,
    &filters::TABLE_2,
    &filters::TABLE_3,
    &hashing::FIGURE_1,
    &hashing::FIGURE_2,
    &filters::FIGURE_3,
    &filters::FIGURE_4,
    &filters::FIGURE_5,
    &figure_6::EXPERIMENT,
    &gains::FIGURE_8,
    &gains::FIGURE_9,
    &gains::FIGURE_10,
    &gains::FIGURE_11,
    &gains::FIGURE_12,
    &gains::FIGURE_13,
    &gains::FIGURE_14,
];
