//! Lookups over the budget, for the figures that compare engines so: one panel for each
//! distribution and share of existing keys, one line for each engine.
use crate::engine::Resident;
use crate::reproduce::claim::TOLERANCE;
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
    fn the_first_module_is_as_large_as_memory() {
        let engine = "shamba:shamba-prop-p+first={first}";
        assert_eq!(at(engine, 70.0), "shamba:shamba-prop-p+first=7");
        assert_eq!(at(engine, 150.0), "shamba:shamba-prop-p+first=10");
        assert_eq!(short(engine), "shamba-prop-p");
        assert_eq!(short("shamba"), "our default");
    }
}
