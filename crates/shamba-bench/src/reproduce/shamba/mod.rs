//! "LSM-Trees Under (Memory) Pressure" (SHaMBa).
mod accesses;
mod beside_rocksdb;
mod causes;
mod clock;
pub(super) mod curves;
mod first_modules;
mod indexes;
mod modules;
mod over_budget;
pub(super) mod pressure;
mod skipped;
mod table_1;
mod thresholds;

use super::catalogue::Run;

/// The tables and figures of the paper.
pub(super) const ALL: &[(&str, Run)] = &[
    ("shamba-table-1", table_1::run),
    ("shamba-table-2", indexes::beside_filters),
    ("shamba-table-3", modules::accuracy),
    ("shamba-figure-2", accesses::four_fifths),
    ("shamba-figure-3", accesses::by_level_and_file),
    ("shamba-figure-5", accesses::utilities),
    ("shamba-figure-6", |lab| over_budget::EQUAL.run(lab)),
    ("shamba-figure-7", |lab| over_budget::PROPORTIONAL.run(lab)),
    ("shamba-figure-8", |lab| over_budget::ALL_MODULES.run(lab)),
    ("shamba-figure-9", modules::asked_at_most),
    ("shamba-figure-10", |lab| {
        over_budget::SKIPPED_MODULES.run(lab)
    }),
    ("shamba-figure-11", |lab| over_budget::PARTITIONED.run(lab)),
    ("shamba-figure-12", |lab| over_budget::OVER_MONKEY.run(lab)),
    ("shamba-figure-13", beside_rocksdb::over_budget),
    ("shamba-figure-14", beside_rocksdb::over_budget),
    ("shamba-figure-15", indexes::gain_by_key_size),
    ("shamba-figure-16", beside_rocksdb::by_device),
];
