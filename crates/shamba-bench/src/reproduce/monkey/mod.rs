//! "Optimal Bloom Filters and Adaptive Merging for LSM-Trees" (Monkey).
mod figure_10;
mod figure_11;
mod figure_12;
mod figure_13;
mod figure_13_ef;
mod figure_14;
mod figure_7;
mod figure_8;
mod figure_9;
mod table_2;
mod table_4;
mod trade_off;
mod trees;

use super::Experiment;

/// The tables and figures of the paper.
pub(super) const ALL: &[&Experiment] = &[
    &table_2::EXPERIMENT,
    &table_4::EXPERIMENT,
    &figure_7::EXPERIMENT,
    &figure_8::EXPERIMENT,
    &figure_9::EXPERIMENT,
    &figure_10::EXPERIMENT,
    &figure_11::EXPERIMENT,
    &figure_12::EXPERIMENT,
    &figure_13::EXPERIMENT,
    &figure_13_ef::EXPERIMENT,
    &figure_14::EXPERIMENT,
];
