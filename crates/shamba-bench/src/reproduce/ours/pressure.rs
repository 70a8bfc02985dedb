//! Reads per lookup under pressure: the default policy beside the papers' systems and RocksDB.
use super::{missing, rocksdb};
use crate::reproduce::Verdict;
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::{self, DISTRIBUTIONS, Grid, Point};

/// Budgets of uniform lookups at the standard scale, and of all at the paper's, in percent.
const UNIFORM: [f64; 4] = [10.0, 40.0, 70.0, 100.0];
const BUDGETS: [f64; 6] = [10.0, 25.0, 40.0, 70.0, 100.0, 150.0];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let settings = rocksdb::settings(lab);
    let mut engines = lab.engines.clone();
    engines.retain(|engine| !settings.contains(engine));
    let mut notes = missing(lab);
    let mut points = measure(lab, &engines, Device::Ram)?;
    let mut tables = Vec::new();
    if !settings.is_empty() {
        for point in &mut points {
            let place = (point.distribution, point.positive, point.percent);
            let found = rocksdb::at_its_best(lab, &settings, place)?;
            point.found.extend(found);
        }
        if lab.seed == lab.first_seed() {
            let cells = measure(lab, &settings, Device::Disk)?;
            tables.push(rocksdb::table(&settings, &cells));
        }
        engines.push(rocksdb::BEST);
        notes.push(format!(
            "RocksDB has the best of {} settings in each cell: all are measured with the first \
             seed, the {} best of the cell with the others. One beyond or between those that were \
             tried (bits, row cache) might read less still. HyperClockCache and the hash index of data \
             blocks are for time: ours-compare has them. No memory control group is set for it: what each \
             process took is in a table.",
            settings.len(),
            rocksdb::FEW
        ));
    }
    if lab.has(FJALL) {
        for point in &mut points {
            point.found.push(fjall(lab, point)?);
        }
        notes.extend(killed(CONTAINED, engines.len(), &points));
        engines.push(CONTAINED);
    }
    tables.push(resident(&engines, &points));
    let shown = &engines[..];
    let mut pages = pressure::table("Pages read per lookup", shown, &points);
    if let Some(best) = shown.iter().position(|engine| *engine == rocksdb::BEST) {
        let more = points.iter().map(|point| {
            let more = point.pages(best) - point.pages(0);
            Cell::Number(more * MORE_OF)
        });
        pages.columns.push(MORE.to_owned());
        for (row, more) in pages.rows.iter_mut().zip(more) {
            row.push(more);
        }
    }
    tables.insert(0, pages);
    let claims = nowhere_worse(shown, &points);
    let panels = pressure::panels(shown, &points);
    Ok(Findings::of(pressure::setting(lab), tables, panels, claims).noting(notes))
}

/// Every point of these engines on the device.
fn measure(lab: &mut Lab<'_>, engines: &[&str], device: Device) -> Result<Vec<Point>> {
    let few: &[f64] = &[10.0, 40.0, 100.0];
    let (uniform, skewed): (&[f64], &[f64]) = lab.scale.pick(
        (&[100.0], &[100.0]),
        (few, few),
        (&UNIFORM, few),
        (&BUDGETS, &BUDGETS),
    );
    let mut points = Vec::new();
    for distribution in DISTRIBUTIONS {
        let grid = Grid {
            engines,
            distributions: &[distribution],
            positives: &[0.0, 0.5, 1.0],
            budgets: if distribution == Distribution::Uniform {
                uniform
            } else {
                skewed
            },
            device,
            base: pressure::standard,
        };
        points.extend(pressure::measure(lab, &grid)?);
    }
    Ok(points)
}

/// The pages that RocksDB reads more: with each seed the same lookups, so that of several seeds the
/// range says who is ahead with all.
pub(in crate::reproduce) const MORE: &str = "RocksDB's pages more than ours, of 1000 lookups";
const MORE_OF: f64 = 1000.0;

const MIB: u64 = 1 << 20;

/// The peer that leaves caching to the system: measured where that counts.
const FJALL: &str = "fjall";

/// What it is called among engines.
pub(in crate::reproduce) const CONTAINED: &str = "fjall, in as much memory";

/// What fjall reads in a point: its process and its cached files together have the memory that our
/// process took at most, a MiB more for the system's own tables of them; a group does not count the
/// program itself, which is cached already. Nothing where it is killed for taking more.
fn fjall(lab: &mut Lab<'_>, point: &Point) -> Result<Found> {
    let base = lab.base(FJALL);
    let trial = lab.lookups_in(base, point.percent, point.positive, point.distribution)?;
    let contained = Trial {
        contained: point.found.first().map(|ours| ours.peak_own_memory + MIB),
        ..trial.on(Device::Disk)
    };
    match lab.measure(&contained) {
        Err(Error::Killed(_)) => Ok(Found::default()),
        found => found,
    }
}

/// Where an engine was killed, so that nothing is known of it.
fn killed(name: &str, engine: usize, points: &[Point]) -> Option<String> {
    let killed = points.iter().filter(|point| point.pages(engine).is_nan());
    let places: Vec<String> = killed.map(Point::place).collect();
    (!places.is_empty()).then(|| {
        format!(
            "{name} was killed for want of memory at {} of {} points: {}.",
            places.len(),
            points.len(),
            places.join("; ")
        )
    })
}

/// The most memory that each engine's process had: the budget, and what comes on top of it.
fn resident(engines: &[&str], points: &[Point]) -> Report {
    let mib = |found: &Found| match found.times.operations {
        // It was killed.
        0 => f64::NAN,
        _ => found.peak_own_memory as f64 / MIB as f64,
    };
    let title = "Resident memory of the process at most, without the program itself, MiB";
    pressure::table_of(title, engines, points, mib)
}

/// An engine that was killed at more points than one in so many is not beaten by what is left.
const KILLED_OF: usize = 4;

/// That the first engine reads no more than each of the others in any point at which both were
/// measured.
fn nowhere_worse(engines: &[&str], points: &[Point]) -> Vec<Claim> {
    let others = engines.iter().enumerate().skip(1);
    let claims = others.map(|(at, engine)| {
        let measured = |point: &&Point| [0, at].iter().all(|at| !point.pages(*at).is_nan());
        let measured: Vec<&Point> = points.iter().filter(measured).collect();
        let worse = measured.iter().filter(|p| p.pages(0) > p.pages(at));
        let worse: Vec<&Point> = worse.copied().collect();
        let dead = points.len() - measured.len();
        let killed = match dead {
            0 => String::new(),
            dead => format!("; it was killed at {dead} others"),
        };
        let what = format!("no more pages than {}", pressure::short(engine));
        let places = pressure::places(&worse, (0, at), Found::pages);
        let mut claim = Claim::everywhere(what, measured.len(), &places).as_goal();
        claim.measured += &killed;
        let met = claim.verdict == Verdict::Met;
        claim.unless(
            met && dead * KILLED_OF > points.len(),
            "it was killed for want of memory at more than a quarter of the points",
        )
    });
    claims.collect()
}

#[cfg(test)]
mod tests {
    use super::super::rocksdb::tests::found;
    use super::*;

    #[test]
    fn who_was_killed_is_not_beaten() {
        let point = |(ours, theirs): (u64, Option<u64>)| Point {
            distribution: Distribution::Uniform,
            positive: 0.0,
            percent: 10.0,
            found: vec![found(ours), theirs.map_or_else(Found::default, found)],
        };
        let points = [(2, None), (3, Some(3)), (1, Some(4))].map(point);
        let of = |points: &[Point]| nowhere_worse(&["shamba", "fjall"], points).remove(0);
        let claim = of(&points);
        assert_eq!(
            (&*claim.what, &*claim.measured, claim.verdict),
            (
                "no more pages than fjall",
                "at 2 of 2 points; it was killed at 1 others",
                Verdict::NotComparable
            )
        );
        assert_eq!(of(&points[..1]).verdict, Verdict::Missed);
        assert_eq!(of(&points[2..]).verdict, Verdict::Met);
        // Nor does it hide where it reads less.
        let lost = [(2, None), (4, Some(3))].map(point);
        assert_eq!(of(&lost).verdict, Verdict::Missed);
        let table = resident(&["shamba", "fjall"], &points);
        let shown = table.to_string();
        assert_eq!(shown.matches("NaN").count(), 1, "{shown}");
    }
}
