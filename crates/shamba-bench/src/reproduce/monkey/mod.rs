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
pub(super) mod trees;

use super::catalogue::Run;

/// The tables and figures of the paper.
pub(super) const ALL: &[(&str, Run)] = &[
    ("monkey-table-2", table_2::run),
    ("monkey-table-4", table_4::run),
    ("monkey-figure-7", figure_7::run),
    ("monkey-figure-8", figure_8::run),
    ("monkey-figure-9", figure_9::run),
    ("monkey-figure-10", figure_10::run),
    ("monkey-figure-11", figure_11::run),
    ("monkey-figure-12", figure_12::run),
    ("monkey-figure-13", figure_13::run),
    ("monkey-figure-13-ef", figure_13_ef::run),
    ("monkey-figure-14", figure_14::run),
];
