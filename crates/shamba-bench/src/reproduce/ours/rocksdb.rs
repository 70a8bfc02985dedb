//! The settings of RocksDB that promise fewer reads, beside the default policy: which is its best
//! where, and how far from it those are that stand in the other tables.
use super::{peers, pressure::nowhere_worse};
use crate::Result;
use crate::device::Device;
use crate::report::Report;
use crate::reproduce::shamba::pressure::{self, DISTRIBUTIONS, Grid, Point};
use crate::reproduce::{Claim, Lab};

/// Bloom, ribbon and both; filters of whole tables and of partitions; the caches; no filters on the
/// last level; a hash index in data blocks. One at a time, from what reads least without: all
/// combinations would be 72. (Bits by level cannot be set through RocksDB's C interface.)
const SETTINGS: [&str; 9] = [
    "rocksdb:ribbon-partitioned",
    "rocksdb:bloom-partitioned",
    "rocksdb:hybrid-partitioned",
    "rocksdb:ribbon-whole",
    "rocksdb:bloom-whole",
    "rocksdb:ribbon-partitioned-hyper",
    "rocksdb:ribbon-partitioned-unsharded",
    "rocksdb:ribbon-partitioned-hits",
    "rocksdb:ribbon-partitioned-hash",
];

/// What the settings read.
pub(super) struct Settings {
    /// Pages per lookup of each.
    pub(super) table: Report,
    /// That ours reads no more than any.
    pub(super) claims: Vec<Claim>,
    /// Which is best, and by how much.
    pub(super) note: String,
}

/// Measures them all; RocksDB must be in the build.
pub(super) fn settings(lab: &mut Lab<'_>) -> Result<Settings> {
    let mut measure = |engines: &[&str], device| {
        let scale = lab.scale;
        let grid = Grid {
            engines,
            distributions: match scale.pick(1, 1, 2, 3) {
                1 => &DISTRIBUTIONS[..1],
                2 => &[DISTRIBUTIONS[0], DISTRIBUTIONS[2]],
                _ => &DISTRIBUTIONS,
            },
            positives: &[0.0, 0.5, 1.0],
            budgets: scale.pick(
                &[100.0],
                &[10.0, 100.0],
                &[10.0, 100.0],
                &[10.0, 40.0, 100.0],
            ),
            device,
            base: pressure::standard,
        };
        pressure::measure(lab, &grid)
    };
    let mut points = measure(&["shamba"], Device::Ram)?;
    for (point, other) in points.iter_mut().zip(measure(&SETTINGS, Device::Disk)?) {
        point.found.extend(other.found);
    }
    let engines = [&["shamba"], &SETTINGS[..]].concat();
    Ok(Settings {
        table: pressure::table(
            "Pages read per lookup, by setting of RocksDB",
            &engines,
            &points,
        ),
        // The first table has those of `peers`, at more points.
        claims: nowhere_worse(&engines, &points)
            .into_iter()
            .zip(SETTINGS)
            .filter(|(_, setting)| !peers().contains(setting))
            .map(|(claim, _)| claim)
            .collect(),
        note: best(&points, &peers()),
    })
}

/// In how many points each setting is the best, and the most that the best of all reads less than
/// the best of those that other experiments run.
fn best(points: &[Point], run: &[&str]) -> String {
    let numbers = 1..=SETTINGS.len();
    let least = |point: &Point, of: &dyn Fn(&str) -> bool| {
        let chosen = numbers.clone().filter(|&at| of(SETTINGS[at - 1]));
        chosen.min_by(|&a, &b| point.pages(a).total_cmp(&point.pages(b)))
    };
    let mut wins = [0; SETTINGS.len()];
    let mut most: Option<(f64, String)> = None;
    for point in points {
        let (Some(all), Some(usual)) = (
            least(point, &|_| true),
            least(point, &|name| run.contains(&name)),
        ) else {
            continue;
        };
        wins[all - 1] += 1;
        let part = point.pages(all) / point.pages(usual);
        if !part.is_finite() {
            continue;
        }
        if most.as_ref().is_none_or(|(least, _)| part < *least) {
            most = Some((
                part,
                format!(
                    "{} reads {:.3} pages, {} {:.3}, ours {:.3} ({})",
                    SETTINGS[all - 1],
                    point.pages(all),
                    SETTINGS[usual - 1],
                    point.pages(usual),
                    point.pages(0),
                    point.place()
                ),
            ));
        }
    }
    let wins: Vec<String> = SETTINGS
        .iter()
        .zip(wins)
        .filter(|(_, wins)| *wins > 0)
        .map(|(name, wins)| format!("{name} in {wins}"))
        .collect();
    format!(
        "Best setting of RocksDB: {}, of {} cells. The first table, and that of ours-equal-reads, have {} only; \
         where that matters most {}.",
        wins.join(", "),
        points.len(),
        run.join(" and "),
        most.map_or_else(|| "nothing was read".to_owned(), |(_, text)| text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::trial::Found;

    /// Where ours and each setting read so many pages in a lookup.
    fn point(pages: [u64; SETTINGS.len() + 1]) -> Point {
        let found = pages.map(|pages| {
            let mut found = Found::default();
            found.times.operations = 1;
            let kinds = [
                ("data_pages", pages),
                ("index_pages", 0),
                ("filter_pages", 0),
            ];
            found.counts = kinds.map(|(name, count)| (name.to_owned(), count)).into();
            found
        });
        Point {
            distribution: DISTRIBUTIONS[0],
            positive: 1.0,
            percent: 10.0,
            found: found.into(),
        }
    }

    #[test]
    fn the_best_setting_is_told_wherever_there_is_anything_to_read() {
        let points = [
            point([0; SETTINGS.len() + 1]),
            point([1, 4, 5, 6, 6, 6, 6, 6, 3, 6]),
            point([1, 2, 5, 6, 6, 6, 6, 6, 3, 6]),
        ];
        let run = [SETTINGS[0], SETTINGS[1]];
        let text = best(&points, &run);
        assert!(!text.contains("NaN"), "{text}");
        assert!(text.contains("ribbon-partitioned-hits in 1"), "{text}");
        assert!(
            text.contains("ribbon-partitioned-hits reads 3.000 pages"),
            "{text}"
        );
        assert!(best(&[], &run).contains("of 0 cells"));
    }
}
