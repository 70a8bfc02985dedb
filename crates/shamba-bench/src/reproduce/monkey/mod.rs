//! "Optimal Bloom Filters and Adaptive Merging for LSM-Trees" (Monkey).
mod closed_forms;
mod designs;
mod figure_10;
mod figure_12;
mod figure_13_ef;
mod mixes;
mod trade_off;
pub(super) mod trees;

use super::catalogue::Run;

/// The tables and figures of the paper.
pub(super) const ALL: &[(&str, Run)] = &[
    ("monkey-table-2", closed_forms::table_2),
    ("monkey-table-4", designs::table_4),
    ("monkey-figure-7", closed_forms::figure_7),
    ("monkey-figure-8", trade_off::figure_8),
    ("monkey-figure-9", closed_forms::figure_9),
    ("monkey-figure-10", figure_10::run),
    ("monkey-figure-11", designs::figure_11),
    ("monkey-figure-12", figure_12::run),
    ("monkey-figure-13", mixes::figure_13),
    ("monkey-figure-13-ef", figure_13_ef::run),
    ("monkey-figure-14", mixes::figure_14),
];
