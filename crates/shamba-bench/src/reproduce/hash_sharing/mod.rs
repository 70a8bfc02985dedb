//! "Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern Storage Devices" (hash sharing).
mod filters;
mod gains;
mod hashing;
mod lookups;
mod micro;
mod pairs;
mod table_1;
mod tree;

pub(crate) use tree::Cell;

use super::catalogue::Run;

/// The tables and figures of the paper.
pub(super) const ALL: &[(&str, Run)] = &[
    ("hash-sharing-table-1", table_1::run),
    ("hash-sharing-table-2", filters::table_2),
    ("hash-sharing-table-3", filters::table_3),
    ("hash-sharing-figure-1", hashing::figure_1),
    ("hash-sharing-figure-2", hashing::figure_2),
    ("hash-sharing-figure-3", filters::figure_3),
    ("hash-sharing-figure-4", filters::figure_4),
    ("hash-sharing-figure-5", filters::figure_5),
    ("hash-sharing-figure-6", hashing::figure_6),
    ("hash-sharing-figure-8", gains::figure_8),
    ("hash-sharing-figure-9", gains::figure_9),
    ("hash-sharing-figure-10", gains::figure_10),
    ("hash-sharing-figure-11", gains::figure_11),
    ("hash-sharing-figure-12", gains::figure_12),
    ("hash-sharing-figure-13", gains::figure_13),
    ("hash-sharing-figure-14", gains::figure_14),
];
