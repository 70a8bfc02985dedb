//! RocksDB at its best: no single setting is, so that of each cell the one counts that reads least.
use crate::engine;
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::{Point, short};

/// Blocks that keep to pages, and a cache of which filters and indexes may have 95 %, are better in
/// every cell. The rest is not: bits (few under small budgets, many under large ones), whole keys
/// of the index, no filters on the last level, a cache of entries under skew.
const SETTINGS: [&str; 13] = [
    "rocksdb:ribbon-partitioned-6-ri16-aligned-pool95",
    "rocksdb:ribbon-partitioned-10-ri16-aligned-pool95",
    "rocksdb:ribbon-partitioned-15-ri16-aligned-pool95",
    "rocksdb:ribbon-partitioned-20-ri16-aligned-pool95",
    "rocksdb:ribbon-partitioned-10-aligned-pool95",
    "rocksdb:ribbon-partitioned-10-hits-ri16-aligned-pool95",
    "rocksdb:ribbon-partitioned-15-hits-ri16-aligned-pool95",
    "rocksdb:ribbon-partitioned-6-ri16-aligned-pool95-row15",
    "rocksdb:ribbon-partitioned-15-ri16-aligned-pool95-row15",
    "rocksdb:ribbon-partitioned-10-hits-ri16-aligned-pool95-row25",
    "rocksdb:bloom-partitioned-6-ri16-aligned-pool95",
    "rocksdb:bloom-partitioned-10-ri16-aligned-pool95",
    "rocksdb:ribbon-whole-10-ri16-aligned-pool95",
];

/// The name under which the best of each cell stands among engines.
pub(in crate::reproduce) const BEST: &str = "RocksDB, best setting of each cell";

/// Those in this build: none without the feature.
pub(super) fn settings() -> &'static [&'static str] {
    if engine::available().contains(&"rocksdb") {
        &SETTINGS
    } else {
        &[]
    }
}

/// Of what the settings found in a cell, in their order, that which read least.
pub(super) fn best(found: &[Found]) -> Option<(&'static str, &Found)> {
    let all = SETTINGS.into_iter().zip(found);
    all.min_by(|(_, a), (_, b)| a.pages().total_cmp(&b.pages()))
}

/// Pages per lookup of every setting, and the best one, of cells that have what the settings found.
pub(super) fn table(cells: &[Point]) -> Report {
    let mut columns = vec!["distribution", "existing", "budget %", "best"];
    columns.extend(SETTINGS.map(short));
    let mut table = Report::new("Pages read per lookup, by setting of RocksDB", &columns);
    for cell in cells {
        let name = best(&cell.found).map_or("-", |(name, _)| short(name));
        let mut row = vec![
            cell.distribution.name().into(),
            cell.positive.into(),
            cell.percent.into(),
            name.into(),
        ];
        row.extend(cell.found.iter().map(|found| found.pages().into()));
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::shamba::pressure::DISTRIBUTIONS;

    /// What reads so many pages in a lookup.
    fn found(pages: u64) -> Found {
        let mut found = Found::default();
        found.times.operations = 1;
        for (kind, count) in [
            ("data_pages", pages),
            ("index_pages", 0),
            ("filter_pages", 0),
        ] {
            found.counts.insert(kind.to_owned(), count);
        }
        found
    }

    #[test]
    fn the_setting_that_reads_least_is_the_best_of_a_cell() {
        let mut all = vec![found(9); SETTINGS.len()];
        all[3] = found(2);
        let (name, least) = best(&all).unwrap();
        assert_eq!((name, least.pages()), (SETTINGS[3], 2.0));
        assert!(best(&[]).is_none());
        let cell = Point {
            distribution: DISTRIBUTIONS[0],
            positive: 1.0,
            percent: 10.0,
            found: all,
        };
        let table = table(&[cell]).to_string();
        assert!(
            table.contains("ribbon-partitioned-20-ri16-aligned-pool95"),
            "{table}"
        );
    }
}
