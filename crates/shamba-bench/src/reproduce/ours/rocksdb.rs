//! RocksDB at its best: no single setting is, so that of each cell the one counts that reads least.
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::{Point, short};

/// The name under which the best of each cell stands among engines.
pub(in crate::reproduce) const BEST: &str = "RocksDB, best setting of each cell";

/// The settings among the engines of an experiment: none without the feature.
///
/// Blocks that keep to pages, and a cache of which filters and indexes may have 95 %, are better in
/// every cell. The rest is not: bits (few under small budgets, many under large ones), whole keys
/// of the index, no filters on the last level, a cache of entries under skew.
pub(super) fn settings(lab: &Lab<'_>) -> Vec<&'static str> {
    let all = lab.engines.iter().copied();
    all.filter(|engine| engine.starts_with("rocksdb")).collect()
}

/// Of what the settings found in a cell, in their order, that which read least.
pub(super) fn best<'a>(settings: &[&'a str], found: &'a [Found]) -> Option<(&'a str, &'a Found)> {
    let all = settings.iter().copied().zip(found);
    all.min_by(|(_, a), (_, b)| a.pages().total_cmp(&b.pages()))
}

/// So many settings of a cell are measured with other seeds than the first.
pub(super) const FEW: usize = 3;

/// The [`FEW`] settings that read least in a cell.
pub(super) fn best_few<'a>(settings: &[&'a str], found: &[Found]) -> Vec<&'a str> {
    let mut all: Vec<_> = settings.iter().copied().zip(found).collect();
    all.sort_by(|(_, a), (_, b)| a.pages().total_cmp(&b.pages()));
    let few = all.into_iter().take(FEW);
    few.map(|(name, _)| name).collect()
}

/// Lookups in the standard setting: how keys are chosen, the share that exists, and the budget in
/// percent.
pub(super) type Place = (Distribution, f64, f64);

/// What RocksDB reads in a place with the best of these settings: all are measured with the first
/// seed, the [`FEW`] best of them with the others.
pub(super) fn at_its_best(
    lab: &mut Lab<'_>,
    settings: &[&str],
    place: Place,
) -> Result<Option<Found>> {
    let own = lab.seed;
    lab.seed = lab.first_seed();
    let all = each(lab, settings, place);
    lab.seed = own;
    let all = all?;
    if own == lab.first_seed() {
        return Ok(best(settings, &all).map(|(_, found)| found.clone()));
    }
    let few = best_few(settings, &all);
    let again = each(lab, &few, place)?;
    Ok(best(&few, &again).map(|(_, found)| found.clone()))
}

/// What each setting finds in a place. Only the kernel counts what RocksDB reads, and only what it
/// reads from a disk.
fn each(lab: &mut Lab<'_>, settings: &[&str], place: Place) -> Result<Vec<Found>> {
    let (distribution, positive, percent) = place;
    let trial = |setting: &&str| {
        let trial = lab.lookups(setting, percent, positive, distribution)?;
        Ok(trial.on(Device::Disk))
    };
    let trials: Vec<Trial> = settings.iter().map(trial).collect::<Result<_>>()?;
    lab.measure_all(&trials)
}

/// Pages per lookup of every setting, and the best one, of cells that have what the settings found.
pub(super) fn table(settings: &[&str], cells: &[Point]) -> Report {
    let title = "Pages read per lookup, by setting of RocksDB";
    Report::of(title, cells, |cell| {
        let best = best(settings, &cell.found);
        let mut row = cell.row();
        row.extend(row! { "best": best.map_or("-", |(name, _)| short(name)) });
        let each = settings.iter().zip(&cell.found);
        row.extend(each.map(|(name, found)| (short(name).to_owned(), found.pages().into())));
        row
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::reproduce::shamba::pressure::DISTRIBUTIONS;

    /// What reads so many pages in a lookup.
    pub(in crate::reproduce::ours) fn found(pages: u64) -> Found {
        let mut found = Found::default();
        found.times.operations = 1;
        found.counts.insert("data_pages".to_owned(), pages);
        found
    }

    /// Two engines that read so many pages in a lookup, and counted so much of something.
    pub(in crate::reproduce::ours) fn sides(
        name: &str,
        both: [[u64; 2]; 2],
    ) -> [(&'static str, Found); 2] {
        both.map(|[pages, count]| {
            let mut found = found(pages);
            found.counts.insert(name.to_owned(), count);
            ("", found)
        })
    }

    #[test]
    fn the_setting_that_reads_least_is_the_best_of_a_cell() {
        let settings = ["rocksdb:a", "rocksdb:b", "rocksdb:c"];
        let mut all = vec![found(9); settings.len()];
        all[1] = found(2);
        let (name, least) = best(&settings, &all).unwrap();
        assert_eq!((name, least.pages()), (settings[1], 2.0));
        assert!(best(&settings, &[]).is_none());
        let four = ["rocksdb:d", "rocksdb:a", "rocksdb:b", "rocksdb:c"];
        let few = best_few(&four, &[found(9), found(3), found(2), found(4)]);
        assert_eq!(few, ["rocksdb:b", "rocksdb:a", "rocksdb:c"]);
        let cell = Point {
            distribution: DISTRIBUTIONS[0],
            positive: 1.0,
            percent: 10.0,
            found: all,
        };
        let table = table(&settings, &[cell]).to_string();
        assert!(table.contains("rocksdb:b |"), "{table}");
    }
}
