//! Every setting of RocksDB that promises fewer reads, beside the default policy: that the two which
//! other experiments run are its best, or what the best one reads.
use super::{peers, pressure::nowhere_worse};
use crate::Result;
use crate::device::Device;
use crate::report::Report;
use crate::reproduce::shamba::pressure::{self, DISTRIBUTIONS, Grid, Point};
use crate::reproduce::{Claim, Lab};

/// Bloom, ribbon and both; filters of whole tables and of partitions; the caches; no filters on the last
/// level; a hash index in data blocks. One at a time, from what reads least without: all of them would be
/// 48. (Bits by level cannot be set through RocksDB's C interface.)
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
        claims: nowhere_worse(&engines, &points),
        note: best(&points),
    })
}

/// In how many points each setting is the best, and the most that the best of all reads less than the best
/// of those that other experiments run.
fn best(points: &[Point]) -> String {
    let numbers = 1..=SETTINGS.len();
    let least = |point: &Point, of: &dyn Fn(&str) -> bool| {
        let chosen = numbers.clone().filter(|&at| of(SETTINGS[at - 1]));
        chosen.min_by(|&a, &b| point.pages(a).total_cmp(&point.pages(b)))
    };
    let run = peers();
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
        "Best setting of RocksDB: {}, of {} cells. Other tables have {} only; where that matters most {}.",
        wins.join(", "),
        points.len(),
        run.join(" and "),
        most.map_or_else(|| "nothing was read".to_owned(), |(_, text)| text)
    )
}
