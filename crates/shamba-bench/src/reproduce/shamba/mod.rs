//! "LSM-Trees Under (Memory) Pressure" (SHaMBa).
mod figure_6;
pub(super) mod pressure;
mod table_1;

use super::Experiment;

/// The tables and figures of the paper.
pub(super) const ALL: &[&Experiment] = &[&table_1::EXPERIMENT, &figure_6::EXPERIMENT];
