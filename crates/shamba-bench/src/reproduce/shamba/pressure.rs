//! Lookups over the budget, for the figures that compare engines so: one panel for each
//! distribution and share of existing keys, one line for each engine.
use crate::engine::Resident;
use crate::reproduce::claim::{TOLERANCE, WHERE};
use crate::reproduce::prelude::*;
use crate::store;

/// Uniform, normal, Zipf: those of Figures 6 and 7.
pub const DISTRIBUTIONS: [Distribution; 3] =
    [Distribution::Uniform, HIGH_SKEW, Distribution::Zipf(0.99)];

/// The paper's two skewed workloads (Figure 2). It does not say how wide they are: four fifths of
/// what is normal lie within 1.28 standard deviations of the middle, so that these give about its
/// shares of files, 14 and 8 %.
pub const LOW_SKEW: Distribution = Distribution::Normal(0.08);

/// The narrower one, that of the other figures.
pub const HIGH_SKEW: Distribution = Distribution::Normal(0.05);

/// The horizontal axis of what is measured over the budget.
pub const MEMORY: &str = "memory, % of filters and indexes";

/// Stands in an engine's name for the bits of the first module that memory holds: at 70 % of memory
/// 7 of 10 (section 5.1.1).
const FIRST: &str = "+first={first}";

/// What is measured: every combination.
pub struct Grid<'a> {
    /// The first is the baseline.
    pub engines: &'a [&'a str],
    pub distributions: &'a [Distribution],
    /// Shares of existing keys.
    pub positives: &'a [f64],
    /// In percent of filters and indexes.
    pub budgets: &'a [f64],
    pub device: Device,
    /// The database of an engine.
    pub base: fn(&Lab<'_>, &str) -> Base,
}

impl<'a> Grid<'a> {
    /// Uniform lookups of standard databases on a RAM disk.
    pub fn uniform(engines: &'a [&'a str], budgets: &'a [f64]) -> Self {
        Self {
            engines,
            distributions: &[Distribution::Uniform],
            positives: &[0.0, 0.5, 1.0],
            budgets,
            device: Device::Ram,
            base: standard,
        }
    }
}

/// Budgets for what is claimed only where memory is short. At the scale `standard` none of them is
/// over 100 %, where all filters and indexes fit anyhow: that time goes to
/// the other figures.
pub(super) fn short_budgets(scale: Scale) -> &'static [f64] {
    let all = scale.budgets();
    match scale {
        Scale::Standard => &all[..all.partition_point(|percent| *percent <= 100.0)],
        _ => all,
    }
}

/// Of another engine's number: all of it, and what is less by more than a tenth.
pub(super) const ALL: f64 = 1.0;
pub(super) const SIGNIFICANTLY_LESS: f64 = 1.0 - TOLERANCE;

/// A number of what was found.
pub type Measure = fn(&Found) -> f64;

/// Microseconds of an operation by this machine's clock.
pub(super) fn micros(found: &Found) -> f64 {
    found.times.mean_us
}

/// Pages of filters read per lookup.
pub(super) fn filter_pages(found: &Found) -> f64 {
    found.per_lookup("filter_pages")
}

/// A measured point.
pub struct Point {
    pub distribution: Distribution,
    pub positive: f64,
    pub percent: f64,
    /// One for each engine, in their order.
    pub found: Vec<Found>,
}

impl Point {
    /// Pages that an engine read per lookup.
    pub fn pages(&self, engine: usize) -> f64 {
        self.value(engine, Found::pages)
    }

    /// The columns of its place.
    pub fn row(&self) -> Vec<(String, Cell)> {
        row! {
            "distribution": self.distribution.name(),
            "existing": self.positive,
            "budget %": self.percent,
        }
    }

    /// The distribution and the share of existing keys, in words.
    fn panel(&self) -> String {
        format!("{}, {} existing", self.distribution.name(), self.positive)
    }

    /// Where it lies, in words.
    pub fn place(&self) -> String {
        format!("{}, {} % of memory", self.panel(), self.percent)
    }

    /// A number of an engine.
    pub(super) fn value(&self, engine: usize, of: Measure) -> f64 {
        self.found.get(engine).map_or(f64::NAN, of)
    }

    /// Where it lies, with a number of these engines.
    pub(super) fn with(&self, engines: &[usize], of: Measure) -> String {
        let values = engines.iter().map(|at| self.value(*at, of));
        format!(
            "{} ({})",
            self.place(),
            joined(values.map(|value| format!("{value:.3}")))
        )
    }
}

/// The standard database of an engine.
pub fn standard(lab: &Lab<'_>, engine: &str) -> Base {
    lab.base(engine)
}

/// The setting in a sentence.
pub fn setting(lab: &Lab<'_>) -> String {
    setting_of(lab, &lab.base(""))
}

/// What 100 % of memory is where that is what RocksDB needs, to be said after a setting.
pub fn full_memory(lab: &Lab<'_>, base: &Base) -> String {
    let told = store::rocksdb_metadata(base).filter(|_| lab.of_rocksdb);
    told.map_or_else(String::new, |bytes| {
        format!(
            "; 100 % of memory is {bytes} bytes, RocksDB's filters of 10 bits a key and indexes"
        )
    })
}

/// What 100 % of memory is for both, beside RocksDB itself, to be said after a setting.
pub(super) fn memory_of_both(lab: &mut Lab<'_>) -> Result<String> {
    let base = lab.base(STATE_OF_THE_ART);
    let own = lab.metadata(&base)?;
    let theirs = store::rocksdb_metadata(&base).map(|bytes| {
        let share = own as f64 * 100.0 / bytes as f64;
        format!(" ({share:.0} % of the {bytes} that RocksDB's take)")
    });
    Ok(format!(
        "; 100 % of memory is {own} bytes for both, which filters of 10 bits a key, one for each file, and indexes take in this \
         engine{}",
        theirs.unwrap_or_default()
    ))
}

/// The same of any database.
pub fn setting_of(lab: &Lab<'_>, base: &Base) -> String {
    let full = full_memory(lab, base);
    format!(
        "{}; bits per key are those of the papers' layouts (our default chooses its own, 12.5 where memory \
         allows: what is held equal is the memory){full}",
        lab.setting(base)
    )
}

/// An engine's name at a budget: SHaMBa-prop's hangs on it.
pub fn at(engine: &str, percent: f64) -> String {
    let bits = (percent / 10.0).min(10.0);
    engine.replace(FIRST, &format!("+first={bits}"))
}

/// Measures every combination.
pub fn measure(lab: &mut Lab<'_>, grid: &Grid<'_>) -> Result<Vec<Point>> {
    let plain = (grid.base)(lab, STATE_OF_THE_ART);
    let budgets = lab.budgets(&plain, grid.budgets)?;
    let mut points = Vec::new();
    for &distribution in grid.distributions {
        for &positive in grid.positives {
            for &percent in &budgets {
                let trial = |engine: &&str| {
                    let base = (grid.base)(lab, &at(engine, percent));
                    let trial = lab.lookups_in(base, percent, positive, distribution)?;
                    Ok(trial.on(grid.device))
                };
                let trials: Vec<Trial> = grid.engines.iter().map(trial).collect::<Result<_>>()?;
                points.push(Point {
                    distribution,
                    positive,
                    percent,
                    found: lab.measure_all(&trials)?,
                });
            }
            lab.note(format!("{}, {positive} existing", distribution.name()));
        }
    }
    Ok(points)
}

/// The points as a table: pages per lookup.
pub fn table(title: &str, engines: &[&str], points: &[Point]) -> Report {
    table_of(title, engines, points, Found::pages)
}

/// The points as a table of any number.
pub fn table_of(title: &str, engines: &[&str], points: &[Point], value: Measure) -> Report {
    Report::of(title, points, |point| {
        let mut row = point.row();
        let each = engines.iter().zip(&point.found);
        row.extend(each.map(|(engine, found)| (short(engine).to_owned(), value(found).into())));
        row
    })
}

/// Of what was in memory at the end, in KB.
pub fn kib(found: &Found, of: fn(&Resident) -> u64) -> f64 {
    let bytes = found.resident.as_ref().map(of);
    bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1000.0)
}

/// What each engine found at each point, with the engine's short name.
fn each<'a>(
    engines: &'a [&str],
    points: &'a [Point],
) -> impl Iterator<Item = (&'a Point, &'a str, &'a Found)> {
    points.iter().flat_map(|point| {
        let found = engines.iter().zip(&point.found);
        found.map(move |(engine, found)| (point, short(engine), found))
    })
}

/// What was read, by kind where the engine tells, and what was in memory at the end.
pub fn kinds(engines: &[&str], points: &[Point]) -> Report {
    let title = "Pages read per lookup, by kind";
    Report::of(title, each(engines, points), |(point, engine, found)| {
        let told = |name: &str| {
            let known = found.counts.contains_key(name);
            known.then(|| found.per_lookup(name))
        };
        let kinds = row! {
            "engine": engine,
            "data pages": told("data_pages"),
            "index pages": told("index_pages"),
            "filter pages": told("filter_pages"),
            "pages": found.pages(),
            "read operations": found.reads(),
            "microseconds": micros(found),
            "false positives per lookup": told("false_positives"),
            "data KB in memory": kib(found, |resident| resident.data),
            "index KB in memory": kib(found, |resident| resident.index),
            "filter KB in memory": kib(found, |resident| resident.filter),
        };
        [point.row(), kinds].concat()
    })
}

/// The points as panels, one for each distribution and share: pages per lookup.
pub fn panels(engines: &[&str], points: &[Point]) -> Vec<Panel> {
    panels_of(engines, points, "pages read per lookup", Found::pages)
}

/// The points as panels of any number.
pub fn panels_of(engines: &[&str], points: &[Point], y: &str, value: Measure) -> Vec<Panel> {
    let table = Report::of(y, each(engines, points), |(point, engine, found)| {
        row! { "": point.panel(), "engine": engine, MEMORY: point.percent, y: value(found) }
    });
    let panels = plot::of_report(&table, "", "engine", MEMORY, y);
    panels.into_iter().map(Panel::logarithmic).collect()
}

/// What was measured, with what is claimed of it.
pub fn findings(
    setting: String,
    engines: &[&str],
    points: &[Point],
    claims: Vec<Claim>,
) -> Findings {
    let pages = table("Pages read per lookup", engines, points);
    let tables = [pages, kinds(engines, points)];
    Findings::of(setting, tables, panels(engines, points), claims)
}

/// An engine's name without the part all have.
pub fn short(engine: &str) -> &str {
    let name = engine.strip_prefix("shamba:").unwrap_or(engine);
    let name = name.strip_suffix(FIRST).unwrap_or(name);
    match name {
        "shamba" => "our default",
        name => name,
    }
}

/// The points that are so.
pub(super) fn those(points: &[Point], so: impl Fn(&Point) -> bool) -> Vec<&Point> {
    points.iter().filter(|point| so(point)).collect()
}

/// The points at which memory is short.
pub fn short_of_memory(points: &[Point]) -> Vec<&Point> {
    those(points, |point| point.percent < 100.0)
}

/// The points at which a number of an engine is not less than this part of that of another.
pub(super) fn not_less<'a>(
    points: &[&'a Point],
    (engine, other): (usize, usize),
    of: Measure,
    part: f64,
) -> Vec<&'a Point> {
    let less = |point: &&Point| point.value(engine, of) < part * point.value(other, of);
    let lost = points.iter().filter(|point| !less(point));
    lost.copied().collect()
}

/// The places of points, with a number of an engine and of another.
pub fn places(points: &[&Point], pair: (usize, usize), of: Measure) -> Vec<String> {
    let place = |point: &&Point| point.with(&[pair.0, pair.1], of);
    points.iter().map(place).collect()
}

/// Why no verdict follows from the times of two engines.
const READ_ALIKE: &str =
    "at every point both read the same within a tenth, where times say nothing of filters";
const TIMED_ELSEWHERE: &str = "the baseline was timed in another session";

/// The points at which a number of two engines differs by more than a tenth.
fn apart<'a>(points: &[&'a Point], (a, b): (usize, usize), of: &[Measure]) -> Vec<&'a Point> {
    let differs = |point: &Point, of: Measure| {
        let (a, b) = (point.value(a, of), point.value(b, of));
        a.max(b) > (1.0 + TOLERANCE) * a.min(b)
    };
    let points = points.iter().copied();
    let apart = points.filter(|point| of.iter().any(|of| differs(point, *of)));
    apart.collect()
}

/// The points at which two engines do not read the same: where they do, times say nothing of
/// filters.
fn read_apart<'a>(points: &[&'a Point], pair: (usize, usize)) -> Vec<&'a Point> {
    apart(points, pair, &[Found::pages, Found::reads])
}

/// Those of them at which the times are told apart.
pub(super) fn told_apart<'a>(points: &[&'a Point], pair: (usize, usize)) -> Vec<&'a Point> {
    apart(&read_apart(points, pair), pair, &[micros])
}

/// A claim of the times of two engines, of the points at which they do not read the same; how many
/// are left out is told. No verdict follows where none is left, or of times of two sessions.
pub(super) fn by_the_clock(
    points: &[&Point],
    pair: (usize, usize),
    claim: impl FnOnce(&[&Point]) -> Claim,
) -> Claim {
    let judged = read_apart(points, pair);
    let mut claim = claim(&judged);
    let out = points.len() - judged.len();
    if out > 0 {
        claim.measured +=
            &format!("; {out} more are left out, where both read the same within a tenth");
    }
    let elsewhere = |engine: usize, point: &Point| point.found[engine].timed_elsewhere;
    let mut sessions = points
        .iter()
        .map(|point| [pair.0, pair.1].map(|at| elsewhere(at, point)));
    let claim = claim.unless(out > 0 && judged.is_empty(), READ_ALIKE);
    claim.unless(sessions.any(|[own, other]| own != other), TIMED_ELSEWHERE)
}

/// That an engine is quicker by the clock than another, wherever their times are told apart; and if
/// it is slower only where it reads more, that it does.
pub fn quicker(what: &str, points: &[&Point], pair: (usize, usize)) -> Claim {
    by_the_clock(points, pair, |points| {
        quicker_where_told(what, points, pair)
    })
}

fn quicker_where_told(what: &str, points: &[&Point], pair: (usize, usize)) -> Claim {
    let told = told_apart(points, pair);
    let mut claim = less(what, &told, pair, micros);
    let alike = points.len() - told.len();
    if alike > 0 {
        claim.measured += &format!("; at {alike} more they differ by less than a tenth");
    }
    let alike = "at every point the times differ by less than a tenth";
    let slower = not_less(&told, pair, micros, ALL);
    let fewer = not_less(&slower, (pair.1, pair.0), Found::pages, ALL).is_empty();
    let place = format!(
        "{WHERE}it reads more pages too at each of these points: {}",
        places(&slower, pair, Found::pages).join("; ")
    );
    let claim = claim.because(fewer, place);
    claim.unless(told.is_empty(), alike)
}

/// That a number of an engine is less than that of another in all of these points.
pub fn less(
    what: impl Into<String>,
    points: &[&Point],
    pair: (usize, usize),
    of: Measure,
) -> Claim {
    less_than_part(what, points, pair, of, ALL)
}

/// That it is less by more than a tenth.
pub(super) fn significantly_less(
    what: impl Into<String>,
    points: &[&Point],
    pair: (usize, usize),
    of: Measure,
) -> Claim {
    less_than_part(what, points, pair, of, SIGNIFICANTLY_LESS)
}

fn less_than_part(
    what: impl Into<String>,
    points: &[&Point],
    pair: (usize, usize),
    of: Measure,
    part: f64,
) -> Claim {
    let lost = not_less(points, pair, of, part);
    Claim::everywhere(what, points.len(), &places(&lost, pair, of))
}

/// That an engine reads less than this part of the baseline's pages in all of these points; if it
/// reads more in some, which pages there.
pub(super) fn fewer(what: impl Into<String>, points: &[&Point], engine: usize, part: f64) -> Claim {
    let pair = (engine, 0);
    let lost = not_less(points, pair, Found::pages, part);
    let more = not_less(&lost, pair, Found::pages, ALL);
    let (told, cause) = super::causes::more(&more, engine);
    let lost = places(&lost, pair, Found::pages);
    Claim::everywhere(what, points.len(), &lost).because(told, cause)
}

/// The geometric mean of a number of each point; no number of none.
pub(super) fn mean_of(points: &[&Point], of: impl Fn(&Point) -> f64) -> f64 {
    let logs = points.iter().map(|point| of(point).ln());
    (logs.sum::<f64>() / points.len() as f64).exp()
}

/// The budgets of points, the least first.
pub(super) fn budgets(points: &[Point]) -> Vec<f64> {
    let mut budgets: Vec<f64> = points.iter().map(|point| point.percent).collect();
    budgets.sort_by(f64::total_cmp);
    budgets.dedup();
    budgets
}

/// The largest budget at which memory is short.
pub(super) fn largest_short(points: &[Point]) -> Option<f64> {
    let mut budgets = budgets(points).into_iter();
    budgets.rfind(|percent| *percent < 100.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A point at which engines found this.
    pub(in crate::reproduce::shamba) fn point(found: impl Into<Vec<Found>>) -> Point {
        Point {
            distribution: Distribution::Uniform,
            positive: 0.0,
            percent: 10.0,
            found: found.into(),
        }
    }

    /// One lookup that counted so much.
    pub(in crate::reproduce::shamba) fn found(name: &str, count: u64) -> Found {
        let counts = [("lookups", 1), (name, count)];
        let mut found = Found {
            counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
            ..Found::default()
        };
        found.times.operations = 1;
        found
    }

    /// A point at which engines took so many microseconds and read so many pages.
    pub(in crate::reproduce::shamba) fn timed(engines: [(f64, u64); 2]) -> Point {
        point(engines.map(|(micros, pages)| {
            let mut found = found("data_pages", pages);
            found.times.mean_us = micros;
            found
        }))
    }

    #[test]
    fn times_within_a_tenth_are_no_points() {
        // The words and the verdict of the times of both, of which the first reads less.
        let verdict = |times: &[[f64; 2]]| {
            let points = times
                .iter()
                .map(|[own, other]| timed([(*own, 1), (*other, 2)]));
            let points: Vec<Point> = points.collect();
            let claim = quicker("", &those(&points, |_| true), (0, 1));
            (claim.verdict, claim.measured)
        };
        use crate::reproduce::Verdict::{DoesNotHold, Holds, NotComparable};
        let (holds, seen) = verdict(&[[8.0, 10.0], [10.5, 10.0]]);
        assert_eq!(holds, Holds);
        assert_eq!(
            seen,
            "at 1 of 1 points; at 1 more they differ by less than a tenth"
        );
        assert_eq!(verdict(&[[8.0, 10.0], [11.5, 10.0]]).0, DoesNotHold);
        assert_eq!(verdict(&[[9.5, 10.0], [10.5, 10.0]]).0, NotComparable);
        // Slower where it reads more, or less.
        let placed = |own| {
            let points = [timed([(9.0, own), (1.0, 2)])];
            quicker("", &those(&points, |_| true), (0, 1))
                .cause
                .is_some()
        };
        assert!(placed(3) && !placed(1));
    }

    #[test]
    fn where_both_read_the_same_or_were_timed_apart_the_clock_says_nothing() {
        use crate::reproduce::Verdict::{DoesNotHold, Holds, NotComparable};
        let judged = |points: &[Point]| quicker("", &those(points, |_| true), (0, 1));
        let (quick, slow) = ([(5.0, 10), (9.0, 20)], [(9.0, 10), (5.0, 20)]);
        // It is quicker, or slower, where it reads half; and where it reads a tenth more.
        let alike = |micros| timed([(micros, 22), (7.0, 20)]);
        let claim = judged(&[timed(quick), alike(9.0)]);
        let seen = "at 1 of 1 points; 1 more are left out, where both read the same within a tenth";
        assert_eq!((claim.verdict, &*claim.measured), (Holds, seen));
        assert_eq!(judged(&[timed(slow), alike(5.0)]).verdict, DoesNotHold);
        for micros in [5.0, 9.0] {
            assert_eq!(judged(&[alike(micros)]).verdict, NotComparable);
            let more = timed([(micros, 23), (7.0, 20)]);
            let verdict = if micros < 7.0 { Holds } else { DoesNotHold };
            assert_eq!(judged(&[more]).verdict, verdict);
        }
        // As many pages in more operations are not the same.
        let mut operations = timed([(9.0, 20), (7.0, 20)]);
        operations.found[0]
            .counts
            .insert("data_reads".to_owned(), 2);
        operations.found[1]
            .counts
            .insert("data_reads".to_owned(), 1);
        assert_eq!(judged(&[operations]).verdict, DoesNotHold);
        for both in [[true, false], [false, true], [true, true]] {
            let mut point = timed(quick);
            for (found, elsewhere) in point.found.iter_mut().zip(both) {
                found.timed_elsewhere = elsewhere;
            }
            let claim = judged(&[point, timed(quick)]);
            let verdict = if both[0] == both[1] {
                Holds
            } else {
                NotComparable
            };
            assert_eq!(claim.verdict, verdict);
        }
    }

    #[test]
    fn the_first_module_is_as_large_as_memory() {
        let engine = "shamba:shamba-prop-p+first={first}";
        assert_eq!(at(engine, 70.0), "shamba:shamba-prop-p+first=7");
        assert_eq!(at(engine, 150.0), "shamba:shamba-prop-p+first=10");
        assert_eq!(short(engine), "shamba-prop-p");
        assert_eq!(short("shamba"), "our default");
    }
}
