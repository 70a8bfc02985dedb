//! Lookups over the budget, for the figures that compare engines so: one panel for each
//! distribution and share of existing keys, one line for each engine.
use crate::device::Device;
use crate::engine::Resident;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Lab};
use crate::store::Base;
use crate::workload::Distribution;
use crate::{Result, row};

/// Uniform, normal, Zipf: those of Figures 6 and 7.
pub(in crate::reproduce) const DISTRIBUTIONS: [Distribution; 3] =
    [Distribution::Uniform, HIGH_SKEW, Distribution::Zipf(0.99)];

/// The paper's two skewed workloads (Figure 2). It does not say how wide they are: four fifths of
/// what is normal lie within 1.28 standard deviations of the middle, so that these give about its
/// shares of files, 14 and 8 %.
pub(in crate::reproduce) const LOW_SKEW: Distribution = Distribution::Normal(0.08);

/// The narrower one, that of the other figures.
pub(in crate::reproduce) const HIGH_SKEW: Distribution = Distribution::Normal(0.05);

/// Stands in an engine's name for the bits of the first module that memory holds: at 70 % of memory
/// 7 of 10 (section 5.1.1).
const FIRST: &str = "+first={first}";

/// What is measured: every combination.
pub(in crate::reproduce) struct Grid<'a> {
    /// The first is the baseline.
    pub(in crate::reproduce) engines: &'a [&'a str],
    pub(in crate::reproduce) distributions: &'a [Distribution],
    /// Shares of existing keys.
    pub(in crate::reproduce) positives: &'a [f64],
    /// In percent of filters and indexes.
    pub(in crate::reproduce) budgets: &'a [f64],
    pub(in crate::reproduce) device: Device,
    /// The database of an engine.
    pub(in crate::reproduce) base: fn(&Lab<'_>, &str) -> Base,
}

/// A measured point.
pub(in crate::reproduce) struct Point {
    pub(in crate::reproduce) distribution: Distribution,
    pub(in crate::reproduce) positive: f64,
    pub(in crate::reproduce) percent: f64,
    /// One for each engine, in their order.
    pub(in crate::reproduce) found: Vec<Found>,
}

impl Point {
    /// Pages that an engine read per lookup.
    pub(in crate::reproduce) fn pages(&self, engine: usize) -> f64 {
        self.found.get(engine).map_or(f64::NAN, Found::pages)
    }

    /// Where it lies, in words.
    pub(in crate::reproduce) fn place(&self) -> String {
        format!(
            "{}, {} existing, {} % of memory",
            self.distribution.name(),
            self.positive,
            self.percent
        )
    }
}

/// The standard database of an engine.
pub(in crate::reproduce) fn standard(lab: &Lab<'_>, engine: &str) -> Base {
    lab.base(engine)
}

/// The setting in a sentence.
pub(in crate::reproduce) fn setting(lab: &Lab<'_>, device: &str) -> String {
    setting_of(lab, &lab.base(""), device)
}

/// The same of any database.
pub(in crate::reproduce) fn setting_of(lab: &Lab<'_>, base: &Base, device: &str) -> String {
    let (warm_up, measured) = lab.scale.lookups();
    let key = base.data().keys.key_len();
    format!(
        "{} entries of {} B (keys {key} B), 4 KiB blocks, write buffer and files of {} KiB, size ratio \
         {}, 10 bits per key, {warm_up} + {measured} lookups, one thread; {device}.",
        base.entries,
        key as f64 + base.value.mean(),
        base.file_size >> 10,
        base.size_ratio,
    )
}

/// An engine's name at a budget: SHaMBa-prop's hangs on it.
pub(in crate::reproduce) fn at(engine: &str, percent: f64) -> String {
    let bits = (percent / 10.0).min(10.0);
    engine.replace(FIRST, &format!("+first={bits}"))
}

/// Measures every combination.
pub(in crate::reproduce) fn measure(lab: &mut Lab<'_>, grid: &Grid<'_>) -> Result<Vec<Point>> {
    let plain = (grid.base)(lab, STATE_OF_THE_ART);
    let budgets = lab.budgets(&plain, grid.budgets)?;
    let mut points = Vec::new();
    for &distribution in grid.distributions {
        for &positive in grid.positives {
            for &percent in &budgets {
                let mut found = Vec::new();
                for engine in grid.engines {
                    let base = (grid.base)(lab, &at(engine, percent));
                    let trial = lab.lookups_in(base, percent, positive, distribution)?;
                    found.push(lab.measure(&trial.on(grid.device))?);
                }
                points.push(Point {
                    distribution,
                    positive,
                    percent,
                    found,
                });
            }
            lab.note(format!("{}, {positive} existing", distribution.name()));
        }
    }
    Ok(points)
}

/// The points as a table: pages per lookup.
pub(in crate::reproduce) fn table(title: &str, engines: &[&str], points: &[Point]) -> Report {
    table_of(title, engines, points, Found::pages)
}

/// The points as a table of any number.
pub(in crate::reproduce) fn table_of(
    title: &str,
    engines: &[&str],
    points: &[Point],
    value: fn(&Found) -> f64,
) -> Report {
    let mut columns = vec!["distribution", "existing", "budget %"];
    columns.extend(engines.iter().map(|engine| short(engine)));
    let mut table = Report::new(title, &columns);
    for point in points {
        let mut row = vec![
            point.distribution.name().into(),
            point.positive.into(),
            point.percent.into(),
        ];
        row.extend(point.found.iter().map(|found| value(found).into()));
        table.push(row);
    }
    table
}

/// Of what was in memory at the end, in KB.
fn kib(found: &Found, of: fn(&Resident) -> u64) -> f64 {
    let bytes = found.resident.as_ref().map(of);
    bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1000.0)
}

/// What was read, by kind, and what was in memory at the end.
pub(in crate::reproduce) fn kinds(engines: &[&str], points: &[Point]) -> Report {
    let mut table = Report::titled("Pages read per lookup, by kind");
    for point in points {
        for (engine, found) in engines.iter().zip(&point.found) {
            table.add(row! {
                "distribution": point.distribution.name(),
                "existing": point.positive,
                "budget %": point.percent,
                "engine": short(engine),
                "data pages": found.per_lookup("data_pages"),
                "index pages": found.per_lookup("index_pages"),
                "filter pages": found.per_lookup("filter_pages"),
                "read operations": found.reads(),
                "false positives per lookup": found.per_lookup("false_positives"),
                "data KB in memory": kib(found, |resident| resident.data),
                "index KB in memory": kib(found, |resident| resident.index),
                "filter KB in memory": kib(found, |resident| resident.filter),
            });
        }
    }
    table
}

/// The points as panels, one for each distribution and share: pages per lookup.
pub(in crate::reproduce) fn panels(engines: &[&str], points: &[Point]) -> Vec<Panel> {
    panels_of(engines, points, "pages read per lookup", Found::pages)
}

/// The points as panels of any number.
pub(in crate::reproduce) fn panels_of(
    engines: &[&str],
    points: &[Point],
    y: &str,
    value: fn(&Found) -> f64,
) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for point in points {
        let title = format!("{}, {} existing", point.distribution.name(), point.positive);
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel {
                title,
                x: "memory, % of filters and indexes".into(),
                y: y.into(),
                log_y: true,
                series: engines.iter().map(|e| Series::new(short(e))).collect(),
            });
        }
        if let Some(panel) = panels.last_mut() {
            for (series, found) in panel.series.iter_mut().zip(&point.found) {
                series.points.push((point.percent, value(found)));
            }
        }
    }
    panels
}

/// An engine's name without the part all have.
pub(in crate::reproduce) fn short(engine: &str) -> &str {
    let name = engine.strip_prefix("shamba:").unwrap_or(engine);
    let name = name.strip_suffix(FIRST).unwrap_or(name);
    match name {
        "shamba" => "our default",
        name => name,
    }
}

/// Where an engine does not read fewer pages than another of the same point.
pub(in crate::reproduce) fn not_fewer<'a>(
    points: &[&'a Point],
    (engine, other): (usize, usize),
) -> Vec<&'a Point> {
    let lost = |point: &&Point| point.pages(engine) >= point.pages(other);
    points.iter().copied().filter(lost).collect()
}

/// The places of points, with the pages of an engine and of another.
pub(in crate::reproduce) fn places(
    points: &[&Point],
    (engine, other): (usize, usize),
) -> Vec<String> {
    let place = |point: &&Point| {
        format!(
            "{} ({:.3}, {:.3})",
            point.place(),
            point.pages(engine),
            point.pages(other)
        )
    };
    points.iter().map(place).collect()
}

/// That an engine reads fewer pages than the baseline in all of these points; if not, which pages
/// it reads more of.
pub(in crate::reproduce) fn fewer(what: &str, points: &[&Point], engine: usize) -> Claim {
    let lost = not_fewer(points, (engine, 0));
    let claim = Claim::everywhere(what, points.len(), &places(&lost, (engine, 0)));
    let (told, cause) = more(&lost, engine);
    claim.because(told, cause)
}

/// What the filter pages read by a lookup are the product of.
const FACTORS: [&str; 2] = [
    "filter pages that a lookup asks for",
    "share of these that memory does not have",
];

/// The numbers of [`FACTORS`]. Probes of modules in memory are counted in one lookup of eight;
/// these are taken to have as many pages as those that are read.
fn factors(found: &Found) -> [f64; FACTORS.len()] {
    let modules = found
        .counts
        .keys()
        .filter(|name| name.starts_with("module_") && name.ends_with("_probed"));
    let in_memory = modules.map(|name| found.per_lookup(name)).sum::<f64>();
    let (reads, pages) = (
        found.per_lookup("filter_reads"),
        found.per_lookup("filter_pages"),
    );
    let asked = in_memory + reads;
    [asked * pages / reads, reads / asked]
}

/// Which of the factors is the cause that more filter pages are read than others do: the one that
/// rose most of their geometric means; `None` where none of them rose. `pairs` are of one point
/// each, the one that reads more last.
pub(in crate::reproduce) fn factor_to_blame<'a>(
    pairs: impl Iterator<Item = (&'a Found, &'a Found)>,
) -> Option<String> {
    let (mut sums, mut points, mut all) = ([[0.0; FACTORS.len()]; 2], 0, 0);
    for (less, more) in pairs {
        let of = [factors(less), factors(more)];
        all += 1;
        // Where all is in memory there is nothing to divide.
        let told = |factor: &f64| factor.is_finite() && *factor > 0.0;
        if of.iter().flatten().all(told) {
            for (sums, of) in sums.iter_mut().zip(of) {
                for (sum, factor) in sums.iter_mut().zip(of) {
                    *sum += factor.ln();
                }
            }
            points += 1;
        }
    }
    let [less, more] = sums.map(|sums| sums.map(|sum: f64| (sum / f64::from(points)).exp()));
    let rise = |at: usize| more[at] / less[at];
    let blamed = (0..FACTORS.len()).max_by(|&a, &b| rise(a).total_cmp(&rise(b)))?;
    // Of no point it is no number, and no more than 1.
    if points == 0 || rise(blamed) <= 1.0 {
        return None;
    }
    let named: Vec<String> = FACTORS
        .iter()
        .enumerate()
        .map(|(at, name)| format!("{name} {:.3} against {:.3}", more[at], less[at]))
        .collect();
    Some(format!(
        "filter pages are a product (geometric means over {points} of {all} points: {}); what tells is the {}, \
         {:.2} times as large",
        named.join(", "),
        FACTORS[blamed],
        rise(blamed)
    ))
}

/// By kind of page, what an engine reads beside the baseline on the average of points it loses,
/// what filter pages come from, and what each had in memory; and whether pages of one kind make up
/// four fifths of the difference.
fn more(lost: &[&Point], engine: usize) -> (bool, String) {
    let mean = |of: usize, value: &dyn Fn(&Found) -> f64| {
        let each = lost.iter().filter_map(|point| point.found.get(of));
        each.map(value).sum::<f64>() / lost.len().max(1) as f64
    };
    let kinds = ["filter", "index", "data"].map(|kind| {
        let pages = |found: &Found| found.per_lookup(&format!("{kind}_pages"));
        let (own, baseline) = (mean(engine, &pages), mean(0, &pages));
        (
            kind,
            own - baseline,
            format!("{kind} {own:.2} against {baseline:.2}"),
        )
    });
    let difference = mean(engine, &Found::pages) - mean(0, &Found::pages);
    let most = kinds.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (most, excess) = most.map_or(("", 0.0), |(kind, excess, _)| (*kind, *excess));
    let told = difference > 0.0 && excess >= 0.8 * difference;
    let pages = kinds.map(|(.., text)| text).join(", ");
    let pairs = lost
        .iter()
        .filter_map(|point| Some((point.found.first()?, point.found.get(engine)?)));
    let product = if most == "filter" {
        factor_to_blame(pairs).map_or_else(String::new, |text| format!("; {text}"))
    } else {
        String::new()
    };
    let held = |of: usize, kind: fn(&Resident) -> u64| mean(of, &|found| kib(found, kind));
    let text = format!(
        "where it loses it reads more {most} pages: {pages} per lookup{product}; in memory at the end it \
         has {:.0} KB of filters against {:.0}, {:.0} KB of indexes against {:.0}, {:.0} KB of data against {:.0}",
        held(engine, |resident| resident.filter),
        held(0, |resident| resident.filter),
        held(engine, |resident| resident.index),
        held(0, |resident| resident.index),
        held(engine, |resident| resident.data),
        held(0, |resident| resident.data),
    );
    (told, text)
}

/// Pages per lookup over all panels, by budget.
fn means<'a>(points: impl Iterator<Item = &'a Point>, engine: usize) -> Vec<(f64, f64)> {
    let mut means: Vec<(f64, f64, f64)> = Vec::new();
    for point in points {
        match means.iter_mut().find(|mean| mean.0 == point.percent) {
            Some(mean) => (mean.1, mean.2) = (mean.1 + point.pages(engine), mean.2 + 1.0),
            None => means.push((point.percent, point.pages(engine), 1.0)),
        }
    }
    means.iter().map(|(at, sum, of)| (*at, sum / of)).collect()
}

/// The part of its memory with which an engine reads what the baseline reads, on the average over
/// all panels, at the largest budget below 100 %; between the measured budgets by a straight line
/// over the logarithm. The least budget measured, where that is enough.
pub(in crate::reproduce) fn memory_for_equal_reads<'a>(
    points: impl Iterator<Item = &'a Point> + Clone,
    engine: usize,
) -> Option<(f64, f64)> {
    let (own, baseline) = (means(points.clone(), engine), means(points, 0));
    let short = baseline.iter().filter(|(percent, _)| *percent < 100.0);
    let &(budget, wanted) = short.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((budget, crossing(&own, wanted)? / budget))
}

/// Where a falling curve comes down to a value.
fn crossing(curve: &[(f64, f64)], value: f64) -> Option<f64> {
    let first = curve.first()?;
    if first.1 <= value {
        return Some(first.0);
    }
    let below = curve.windows(2).find(|pair| pair[1].1 <= value)?;
    let ((x0, y0), (x1, y1)) = (below[0], below[1]);
    let part = (y0.ln() - value.ln()) / (y0.ln() - y1.max(1e-9).ln());
    Some(x0 + (x1 - x0) * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100 lookups, each asking for so many modules of two pages, this share of them read.
    fn found(asked: u64, read: u64) -> Found {
        let mut found = Found::default();
        found.times.operations = 100;
        let counts = [
            ("module_0_probed", asked * 100 - read),
            ("filter_reads", read),
            ("filter_pages", 2 * read),
        ];
        found.counts = counts.map(|(name, count)| (name.to_owned(), count)).into();
        found
    }

    #[test]
    fn the_factor_that_rose_is_blamed_and_none_where_none_did() {
        assert_eq!(factors(&found(4, 100)), [8.0, 0.25]);
        let blame = |less: Found, more: Found| factor_to_blame([(&less, &more)].into_iter());
        let text = blame(found(4, 40), found(2, 80)).unwrap();
        assert!(text.contains("tells is the share of these that memory does not have, 4.00"));
        let text = blame(found(2, 80), found(4, 160)).unwrap();
        assert!(text.contains("tells is the filter pages that a lookup asks for, 2.00"));
        assert_eq!(blame(found(4, 160), found(2, 20)), None);
        assert_eq!(blame(found(2, 0), found(2, 20)), None, "nothing to divide");
        assert_eq!(factor_to_blame(std::iter::empty()), None);
    }

    #[test]
    fn a_curve_is_crossed_between_its_points() {
        let curve = [(10.0, 8.0), (40.0, 2.0), (100.0, 1.0)];
        assert_eq!(crossing(&curve, 9.0), Some(10.0));
        assert_eq!(crossing(&curve, 4.0).map(f64::round), Some(25.0));
        assert_eq!(crossing(&curve, 0.5), None);
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
