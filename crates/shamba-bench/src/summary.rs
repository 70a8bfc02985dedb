//! What a measured grid shows: per cell the engine to judge against the best of its competitors'
//! configurations and the offline optimum; the memory it takes to match them; curves to plot. Pure
//! functions of [`Row`]s.
use crate::plot::{Panel, Series};
use crate::record::{self, ORACLE, Row};
use crate::report::{Cell, Report};

/// Which rows are ours, and which are the competitor's.
#[derive(Clone, Debug)]
pub struct Sides {
    /// Specification of the engine to judge.
    pub ours: String,
    /// What the specifications of the competing configurations begin with.
    pub theirs: String,
}

impl Sides {
    fn ours<'a>(&self, rows: &'a [Row], place: &Row) -> Option<&'a Row> {
        rows.iter()
            .find(|r| r.engine == self.ours && r.same_place(place))
    }

    /// The competing configuration with the fewest pages in this place.
    fn best<'a>(&self, rows: &'a [Row], place: &Row) -> Option<&'a Row> {
        rows.iter()
            .filter(|r| self.is_theirs(&r.engine) && r.same_place(place))
            .min_by(|a, b| a.pages.total_cmp(&b.pages))
    }

    fn is_theirs(&self, engine: &str) -> bool {
        engine != self.ours && engine.starts_with(&self.theirs)
    }

    fn oracle<'a>(&self, rows: &'a [Row], kind: &str, place: &Row) -> Option<&'a Row> {
        let name = format!("{kind} {}", self.ours);
        rows.iter()
            .find(|r| r.engine == name && r.same_place(place))
    }
}

/// Each distinct place of the rows, in the order of first appearance.
fn places(rows: &[Row], same: fn(&Row, &Row) -> bool) -> Vec<&Row> {
    let mut places: Vec<&Row> = Vec::new();
    for row in rows {
        if !places.iter().any(|place| same(place, row)) {
            places.push(row);
        }
    }
    places
}

fn ratio(ours: Option<f64>, theirs: Option<f64>) -> Cell {
    let ratio = ours.zip(theirs).filter(|(_, theirs)| *theirs > 0.0);
    ratio.map(|(ours, theirs)| ours / theirs).into()
}

/// Per cell: our pages, those of the best competing configuration and which it is, ratios of
/// pages, read operations and times (below 1: ours is better), and the distance to the optimum.
pub fn versus(rows: &[Row], sides: &Sides) -> Report {
    let rows = &record::medians(rows);
    let mut report = Report::new(
        format!(
            "Pages per lookup: {} beside the best {} configuration of each cell; ratios below 1 \
             are for {}",
            sides.ours, sides.theirs, sides.ours
        ),
        &[
            "distribution",
            "positive",
            "budget %",
            "pages",
            "best pages",
            "best is",
            "pages ratio",
            "reads ratio",
            "time ratio",
            "p99 ratio",
            "mean us",
            "best us",
            "p99 us",
            "best p99 us",
            "optimum",
            "from empty",
            "hindsight",
            "to optimum",
            "to from empty",
        ],
    );
    for place in places(rows, Row::same_place) {
        let ours = sides.ours(rows, place);
        let best = sides.best(rows, place);
        let oracle = |kind| sides.oracle(rows, kind, place).map(|row| row.pages);
        let compared =
            |value: fn(&Row) -> Option<f64>| ratio(ours.and_then(value), best.and_then(value));
        report.push(vec![
            place.distribution.clone().into(),
            place.positive.into(),
            place.budget_percent.into(),
            ours.map(|r| r.pages).into(),
            best.map(|r| r.pages).into(),
            best.map_or(Cell::Missing, |r| r.engine.clone().into()),
            compared(|r| Some(r.pages)),
            compared(|r| r.reads),
            compared(|r| r.mean_us),
            compared(|r| r.p99_us),
            ours.and_then(|r| r.mean_us).into(),
            best.and_then(|r| r.mean_us).into(),
            ours.and_then(|r| r.p99_us).into(),
            best.and_then(|r| r.p99_us).into(),
            oracle(ORACLE).into(),
            oracle(record::FROM_EMPTY).into(),
            oracle(record::HINDSIGHT).into(),
            ratio(ours.map(|r| r.pages), oracle(ORACLE)),
            ratio(ours.map(|r| r.pages), oracle(record::FROM_EMPTY)),
        ]);
    }
    report
}

/// The first of the (budget, pages), by budget, that needs no more than `target` pages, and the
/// budget between it and the one before at which the pages equal the target.
pub(crate) fn smallest(curve: &[(f64, f64)], target: f64) -> Option<(f64, f64)> {
    let at = curve.iter().position(|(_, pages)| *pages <= target)?;
    let (budget, pages) = *curve.get(at)?;
    let Some(&(before, more)) = at.checked_sub(1).and_then(|at| curve.get(at)) else {
        return Some((budget, budget));
    };
    // Pages fall by factors; a budget that reads nothing at all counts as nearly nothing.
    let log = |pages: f64| pages.max(1e-6).ln();
    let share = (log(more) - log(target)) / (log(more) - log(pages)).max(1e-12);
    Some((budget, before + share.clamp(0.0, 1.0) * (budget - before)))
}

/// One panel for each workload, pages over budget, a line for each engine.
pub fn panels(rows: &[Row]) -> Vec<Panel> {
    let rows = &record::medians(rows);
    let workloads = places(rows, Row::same_workload);
    let panel = |workload: &&Row| {
        let mut series: Vec<Series> = Vec::new();
        for row in rows.iter().filter(|r| r.same_workload(workload)) {
            let at = match series.iter().position(|s| s.name == row.engine) {
                Some(at) => at,
                None => {
                    series.push(Series::new(row.engine.clone()));
                    series.len() - 1
                }
            };
            series[at].points.push((row.budget_percent, row.pages));
        }
        for one in &mut series {
            one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        Panel {
            title: format!(
                "{}, positive share {}",
                workload.distribution, workload.positive
            ),
            x: "budget, % of RocksDB's filters and indexes".into(),
            y: "pages of 4 KiB per lookup".into(),
            log_y: true,
            series,
        }
    };
    workloads.iter().map(panel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, budget_percent: f64, pages: f64, us: f64) -> Row {
        Row {
            engine: engine.into(),
            distribution: "uniform".into(),
            budget_percent,
            pages,
            mean_us: Some(us),
            reads: Some(pages),
            ..Row::default()
        }
    }

    fn sides() -> Sides {
        Sides {
            ours: "shamba".into(),
            theirs: "rocksdb".into(),
        }
    }

    fn rows() -> Vec<Row> {
        vec![
            row("shamba", 10.0, 1.0, 20.0),
            row("rocksdb:bloom-whole", 10.0, 30.0, 100.0),
            row("rocksdb:ribbon-partitioned", 10.0, 2.0, 10.0),
            row("oracle shamba", 10.0, 0.8, 0.0),
            row("shamba", 40.0, 0.1, 5.0),
            row("shamba", 70.0, 0.01, 5.0),
            row("rocksdb:bloom-whole", 100.0, 0.1, 5.0),
            row("rocksdb:ribbon-partitioned", 100.0, 0.02, 5.0),
        ]
    }

    #[test]
    fn the_best_configuration_of_each_cell_is_the_measure() {
        let report = versus(&rows(), &sides());
        assert_eq!(report.rows.len(), 4);
        let cell = |name: &str| {
            let at = report.columns.iter().position(|c| c == name).unwrap();
            report.rows[0][at].clone()
        };
        assert_eq!(cell("best is"), "rocksdb:ribbon-partitioned".into());
        assert_eq!(cell("pages ratio"), 0.5.into());
        assert_eq!(cell("time ratio"), 2.0.into());
        assert_eq!(cell("to optimum"), 1.25.into());
    }

    #[test]
    fn the_memory_to_match_is_found_and_interpolated() {
        let ours = [(10.0, 1.0), (40.0, 0.1), (70.0, 0.01)];
        let (budget, crossing) = smallest(&ours, 0.02).unwrap();
        assert_eq!(budget, 70.0);
        assert!(crossing > 40.0 && crossing < 70.0, "{crossing}");
        assert_eq!(smallest(&ours, 0.1).map(|found| found.0), Some(40.0));
        assert_eq!(smallest(&[(10.0, 2.0)], 1.0), None);
        assert_eq!(smallest(&[(10.0, 2.0)], 3.0), Some((10.0, 10.0)));
    }

    #[test]
    fn a_line_for_each_engine() {
        let panels = panels(&rows());
        assert_eq!(panels.len(), 1);
        assert_eq!(panels[0].series.len(), 4);
        assert_eq!(
            panels[0].series[0].points,
            [(10.0, 1.0), (40.0, 0.1), (70.0, 0.01)]
        );
    }
}
