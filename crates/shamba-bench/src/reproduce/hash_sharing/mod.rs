//! "Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern Storage Devices" (hash sharing).
mod figure_1;
mod figure_10;
mod figure_11;
mod figure_12;
mod figure_2;
mod figure_3;
mod figure_6;
mod figure_8;
mod figure_9;
mod filter_times;
mod lookups;
mod micro;
mod rates;
mod shares;
mod table_1;

use super::Experiment;

/// The tables and figures of the paper.
pub(super) const ALL: &[&Experiment] = &[
    &table_1::EXPERIMENT,
    &rates::TABLE_2,
    &rates::TABLE_3,
    &figure_1::EXPERIMENT,
    &figure_2::EXPERIMENT,
    &figure_3::EXPERIMENT,
    &filter_times::FIGURE_4,
    &filter_times::FIGURE_5,
    &figure_6::EXPERIMENT,
    &figure_8::EXPERIMENT,
    &figure_9::EXPERIMENT,
    &figure_10::EXPERIMENT,
    &figure_11::EXPERIMENT,
    &figure_12::EXPERIMENT,
    &shares::FIGURE_13,
    &shares::FIGURE_14,
];
