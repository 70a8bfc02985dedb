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
use crate::plot::Series;
use crate::report::{Cell, Report};

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

/// The numbers of a column.
fn numbers(table: &Report, name: &str) -> Vec<f64> {
    let at = table.columns.iter().position(|column| column == name);
    let cells = table.rows.iter().filter_map(|row| row.get(at?));
    let number = |cell: &Cell| match cell {
        Cell::Number(number) => *number,
        _ => f64::NAN,
    };
    cells.map(number).collect()
}

/// A line for each of these columns of a table over its first; names come before columns.
fn lines(table: &Report, columns: &[(&str, &str)]) -> Vec<Series> {
    let x = table
        .columns
        .first()
        .map_or_else(Vec::new, |first| numbers(table, first));
    let line = |&(name, column): &(&str, &str)| {
        Series::of(name, x.iter().copied().zip(numbers(table, column)))
    };
    columns.iter().map(line).collect()
}
