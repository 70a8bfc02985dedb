//! Reads per lookup over the budget, for the figures that compare engines so: one panel for each
//! distribution and share of existing keys, one line for each engine.
use crate::Result;
use crate::device::Device;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::Lab;
use crate::workload::Distribution;

/// Uniform, normal, Zipf: those of Figures 6 and 7.
pub(in crate::reproduce) const DISTRIBUTIONS: [Distribution; 3] = [
    Distribution::Uniform,
    Distribution::Normal(0.05),
    Distribution::Zipf(0.99),
];

/// A measured point.
pub(in crate::reproduce) struct Point {
    pub(in crate::reproduce) distribution: Distribution,
    pub(in crate::reproduce) positive: f64,
    pub(in crate::reproduce) percent: f64,
    /// One for each engine, in their order.
    pub(in crate::reproduce) pages: Vec<f64>,
}

/// The setting in a sentence.
pub(in crate::reproduce) fn setting(lab: &Lab<'_>, device: &str) -> String {
    let (warm_up, measured) = lab.scale.lookups();
    format!(
        "{} entries of 64 B (keys 32 B), 4 KiB blocks, write buffer and files of {} KiB, size ratio 4, \
         10 bits per key, {warm_up} + {measured} lookups, one thread; {device}.",
        lab.scale.entries(),
        lab.scale.file() >> 10,
    )
}

/// Measures every combination, on a RAM disk.
pub(in crate::reproduce) fn measure(
    lab: &mut Lab<'_>,
    engines: &[&str],
    distributions: &[Distribution],
    positives: &[f64],
    budgets: &[f64],
) -> Result<Vec<Point>> {
    measure_on(lab, Device::Ram, engines, distributions, positives, budgets)
}

/// Measures every combination.
pub(in crate::reproduce) fn measure_on(
    lab: &mut Lab<'_>,
    device: Device,
    engines: &[&str],
    distributions: &[Distribution],
    positives: &[f64],
    budgets: &[f64],
) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for &distribution in distributions {
        for &positive in positives {
            for &percent in budgets {
                let mut pages = Vec::new();
                for engine in engines {
                    let trial = lab.lookups(engine, percent, positive, distribution)?;
                    let trial = trial.on(device);
                    pages.push(lab.measure(&trial)?.pages());
                }
                points.push(Point {
                    distribution,
                    positive,
                    percent,
                    pages,
                });
            }
            lab.note(format!("{}, {positive} existing", distribution.name()));
        }
    }
    Ok(points)
}

/// The points as a table.
pub(in crate::reproduce) fn table(title: &str, engines: &[&str], points: &[Point]) -> Report {
    let mut columns = vec!["distribution", "existing", "budget %"];
    columns.extend(engines.iter().map(|engine| short(engine)));
    let mut table = Report::new(title, &columns);
    for point in points {
        let mut row = vec![
            point.distribution.name().into(),
            point.positive.into(),
            point.percent.into(),
        ];
        row.extend(point.pages.iter().map(|pages| (*pages).into()));
        table.push(row);
    }
    table
}

/// The points as panels, one for each distribution and share.
pub(in crate::reproduce) fn panels(engines: &[&str], points: &[Point]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for point in points {
        let title = format!("{}, {} existing", point.distribution.name(), point.positive);
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel {
                title,
                x: "memory, % of filters and indexes".into(),
                y: "pages read per lookup".into(),
                log_y: true,
                series: engines.iter().map(|e| Series::new(short(e))).collect(),
            });
        }
        if let Some(panel) = panels.last_mut() {
            for (series, pages) in panel.series.iter_mut().zip(&point.pages) {
                series.points.push((point.percent, *pages));
            }
        }
    }
    panels
}

/// An engine's name without the part all have.
pub(in crate::reproduce) fn short(engine: &str) -> &str {
    match engine {
        "shamba" => "our default",
        _ => engine.strip_prefix("shamba:").unwrap_or(engine),
    }
}
