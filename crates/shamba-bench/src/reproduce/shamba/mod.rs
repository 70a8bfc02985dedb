//! "LSM-Trees Under (Memory) Pressure" (SHaMBa).
mod causes;
mod figure_11;
mod figure_12;
mod figure_13_14;
mod figure_15;
mod figure_16;
mod figure_2;
mod figure_3;
mod figure_5;
mod figure_6;
mod figure_7;
mod figure_8_10;
mod figure_9;
mod modules;
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
    &figure_6::EXPERIMENT,
    &figure_7::EXPERIMENT,
    &figure_8_10::FIGURE_8,
    &figure_9::EXPERIMENT,
    &figure_8_10::FIGURE_10,
    &figure_11::EXPERIMENT,
    &figure_12::EXPERIMENT,
    &figure_13_14::FIGURE_13,
    &figure_13_14::FIGURE_14,
    &figure_15::EXPERIMENT,
    &figure_16::EXPERIMENT,
];
