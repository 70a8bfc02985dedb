//! Line plots as SVG, several panels to a file, and dot plots. Drawn by `plotters` without fonts or
//! bitmaps.
mod dots;

use crate::report::{self, Cell, Report};
use crate::{Error, Result};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::{Shift, ranged1d::Ranged};
use plotters::element::{DynElement, IntoDynElement};
use plotters::prelude::*;
use std::path::Path;

pub use dots::Dots;

/// What a logarithmic axis shows for zero: less than one page in 30,000 lookups.
const LEAST: f64 = 1e-5;

/// Colours of lines, told apart by the colour-blind as well (Okabe and Ito's, without the yellow
/// that white paper swallows).
const COLOURS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 60),
];

/// Lines beyond the colours are drawn in them again, thinner.
const WIDTHS: [u32; 2] = [2, 1];

/// Pixels across and down of a diagram, and down of a line of its legend, which stands below it,
/// where it hides nothing.
const SIZE: (u32, u32, u32) = (560, 420, 15);

/// A logarithmic axis is for values that differ by more than this factor; on it there is sure to
/// be a power of ten to put a number at.
const WIDE: f64 = 10.0;

/// A line.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, ascending.
    pub points: Vec<(f64, f64)>,
    /// From where to where values go, by place: bars through the points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<(f64, [f64; 2])>,
}

impl Series {
    /// A line without points.
    pub fn new(name: impl Into<String>) -> Self {
        Self::of(name, [])
    }

    /// A line through these points.
    pub fn of(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
            spread: Vec::new(),
        }
    }

    /// A line of a column over the numbers of the rows, the first being 1.
    pub fn by_row(name: impl Into<String>, table: &Report, column: &str) -> Self {
        let rows = (1u32..).map(f64::from).zip(&table.rows);
        Self::of(
            name,
            rows.filter_map(|(row, cells)| Some((row, table.number(cells, column)?))),
        )
    }
}

/// One diagram.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// The lines.
    pub series: Vec<Series>,
}

impl Panel {
    /// A diagram of these lines over linear axes.
    pub fn new(title: impl Into<String>, x: &str, y: &str, series: impl Into<Vec<Series>>) -> Self {
        Self {
            title: title.into(),
            x: x.to_owned(),
            y: y.to_owned(),
            log_y: false,
            series: series.into(),
        }
    }

    /// A diagram of a table: a line for each value of the column `line`, over the columns `x` and
    /// `y`. Rows without a number there are left out. A line for a number is called by its column.
    pub fn of_lines(
        title: impl Into<String>,
        table: &Report,
        line: &str,
        x: &str,
        y: &str,
    ) -> Self {
        let lines = table.distinct(line).into_iter().map(|name| {
            let own = table.rows_of(line, name.clone());
            let name = match name {
                Cell::Number(_) => format!("{line} {}", named(&name)),
                _ => named(&name),
            };
            Series::of(name, own.points(x, y))
        });
        let mut lines: Vec<Series> = lines.collect();
        lines.retain(|line| !line.points.is_empty());
        Self::new(title, x, y, lines)
    }

    /// A diagram of a table: a line for each of these columns, over the column `x`.
    pub fn of_columns(
        title: impl Into<String>,
        table: &Report,
        x: &str,
        y: &str,
        columns: &[&str],
    ) -> Self {
        let line = |name: &&str| Series::of(*name, table.points(x, name));
        let lines: Vec<Series> = columns.iter().map(line).collect();
        Self::new(title, x, y, lines)
    }

    /// The same with a logarithmic vertical axis.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self {
            log_y: true,
            ..self
        }
    }

    /// The same with another name of the horizontal axis.
    #[must_use]
    pub fn over(self, x: &str) -> Self {
        let x = x.to_owned();
        Self { x, ..self }
    }

    /// The same with a range of the paper's, two lines over all of it.
    #[must_use]
    pub fn beside(mut self, (from, to): (f64, f64)) -> Self {
        let points = self.series.iter().flat_map(|line| &line.points);
        let (left, right) = ends(points.map(|point| point.0));
        for (name, bound) in [("paper, from", from), ("paper, to", to)] {
            let line = Series::of(name, [(left, bound), (right, bound)]);
            self.series.push(line);
        }
        self
    }

    /// Without the points that no axis has: a ratio to nothing, for example.
    pub fn retain_finite(&mut self) {
        for series in &mut self.series {
            let finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
            series.points.retain(finite);
            let finite = |(x, ends): &(f64, [f64; 2])| {
                x.is_finite() && ends.iter().all(|end| end.is_finite())
            };
            series.spread.retain(finite);
        }
    }
}

/// A point of a line, by name.
pub fn add(series: &mut Vec<Series>, name: &str, point: (f64, f64)) {
    match series.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.push(point),
        None => series.push(Series::of(name, [point])),
    }
}

/// Panels of a table: one for each value of the column `panel`, as [`Panel::of_lines`] draws them.
pub fn of_report(report: &Report, panel: &str, line: &str, x: &str, y: &str) -> Vec<Panel> {
    let panels = report.distinct(panel).into_iter().map(|value| {
        let title = format!("{panel} {}", named(&value));
        let own = report.rows_of(panel, value);
        Panel::of_lines(title.trim(), &own, line, x, y)
    });
    panels.filter(|panel| !panel.series.is_empty()).collect()
}

/// What a line or panel is called for which this stands.
fn named(value: &Cell) -> String {
    match value {
        Cell::Number(number) => label(*number),
        Cell::Text(text) => text.clone(),
        Cell::Missing => String::new(),
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Io(std::io::Error::other(format!("drawing: {error}")))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws `panels` into the file `path`, `columns` side by side.
pub fn save(path: &Path, panels: &[Panel], columns: usize) -> Result<()> {
    let mut panels = panels.to_vec();
    panels.iter_mut().for_each(Panel::retain_finite);
    let columns = columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns).max(1);
    let lines = panels.iter().map(|panel| panel.series.len()).max();
    let height = SIZE.1 + SIZE.2 * lines.unwrap_or(0) as u32;
    let names = names(&panels);
    svg(
        path,
        (SIZE.0 * columns as u32, height * rows as u32),
        |root| {
            let areas = root.split_evenly((rows, columns));
            let mut each = panels.iter().zip(areas);
            each.try_for_each(|(panel, area)| draw(panel, &names, &area))
        },
    )
}

/// Writes what `draw` draws on white paper into the file `path`.
fn svg(path: &Path, size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<()> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        draw(&root)?;
        root.present().map_err(failed)?;
    }
    report::write(path, &text)
}

/// Names the lines, each beside its mark.
fn legend<'a>(
    area: &Area<'a>,
    lines: &[Series],
    mark: impl Fn(usize, (i32, i32)) -> DynElement<'static, SVGBackend<'a>, (i32, i32)>,
) -> Result<()> {
    for (number, line) in lines.iter().enumerate() {
        let y = SIZE.2 as i32 * number as i32 + 6;
        let name = Text::new(line.name.clone(), (90, y - 5), ("sans-serif", 11));
        area.draw(&mark(number, (70, y))).map_err(failed)?;
        area.draw(&name).map_err(failed)?;
    }
    Ok(())
}

/// The names of all lines, in the order of first appearance: a line has the same colour in every
/// panel.
fn names(panels: &[Panel]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    names
}

fn style(names: &[&str], name: &str) -> ShapeStyle {
    let at = names.iter().position(|known| *known == name).unwrap_or(0);
    let width = WIDTHS[(at / COLOURS.len()).min(WIDTHS.len() - 1)];
    COLOURS[at % COLOURS.len()].stroke_width(width)
}

/// A number on an axis, without the noise of its last digits.
fn label(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size => (2 - size.log10().floor() as i32).clamp(0, 8) as usize,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// The least and the most.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values.fold(ends, |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

fn draw(panel: &Panel, names: &[&str], area: &Area<'_>) -> Result<()> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    if points().next().is_none() {
        return Ok(());
    }
    let (left, right) = ends(points().map(|point| point.0));
    let right = if right > left { right } else { left + 1.0 };
    let spread = panel.series.iter().flat_map(|series| &series.spread);
    let values = points().map(|point| point.1);
    let values = values.chain(spread.flat_map(|(_, ends)| *ends));
    let (bottom, top) = ends(values.map(|value| value.max(LEAST)));
    let (area, below) = area.split_vertically(SIZE.1);
    let mut chart = ChartBuilder::on(&area);
    chart
        .caption(&panel.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60);
    if panel.log_y && top > bottom * WIDE {
        let y = (bottom * 0.8..top * 1.3).log_scale();
        let chart = chart.build_cartesian_2d(left..right, y).map_err(failed)?;
        lines(panel, names, chart, LEAST)?;
    } else {
        let y = 0.0..top * 1.1;
        let chart = chart.build_cartesian_2d(left..right, y).map_err(failed)?;
        lines(panel, names, chart, f64::NEG_INFINITY)?;
    }
    legend(&below, &panel.series, |number, (x, y)| {
        let ends = [(x - 8, y), (x + 8, y)];
        PathElement::new(ends, style(names, &panel.series[number].name)).into_dyn()
    })
}

fn lines<'a, Y>(
    panel: &Panel,
    names: &[&str],
    mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, Y>>,
    floor: f64,
) -> Result<()>
where
    Y: Ranged<ValueType = f64> + plotters::coord::ranged1d::ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .light_line_style(WHITE)
        .x_label_formatter(&|x| label(*x))
        .y_label_formatter(&|y| label(*y))
        .draw()
        .map_err(failed)?;
    for series in &panel.series {
        let style = style(names, &series.name);
        let points = || series.points.iter().map(|&(x, y)| (x, y.max(floor)));
        let line = LineSeries::new(points(), style);
        chart.draw_series(line).map_err(failed)?;
        let dots = points().map(|point| Circle::new(point, 2, style.filled()));
        chart.draw_series(dots).map_err(failed)?;
        let bars = series.spread.iter().map(|&(x, ends)| {
            let ends = ends.map(|end| (x, end.max(floor)));
            PathElement::new(ends, style.stroke_width(1))
        });
        chart.draw_series(bars).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    #[test]
    fn a_table_becomes_panels() {
        let rows = [
            ("a", 10.0, "x", Some(1.0)),
            ("a", 10.0, "y", Some(2.0)),
            ("a", 40.0, "x", Some(0.5)),
            ("b", 10.0, "x", None),
            ("b", 40.0, "x", Some(3.0)),
        ];
        let report = Report::of("", rows, |(workload, budget, engine, pages)| {
            row! { "workload": workload, "budget %": budget, "engine": engine, "pages": pages }
        });
        let panels = of_report(&report, "workload", "engine", "budget %", "pages");
        assert_eq!(panels.len(), 2);
        assert_eq!(panels[0].title, "workload a");
        assert_eq!(panels[0].series.len(), 2);
        assert_eq!(panels[0].series[0].points, [(10.0, 1.0), (40.0, 0.5)]);
        assert_eq!(panels[1].series[0].points, [(40.0, 3.0)]);
    }

    #[test]
    fn numbers_on_axes_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.7000000000000001, "0.7"),
            (0.00030000000000000003, "0.0003"),
            (20.0, "20"),
            (2.5, "2.5"),
            (140000.0, "140000"),
        ] {
            assert_eq!(label(value), text);
        }
    }

    #[test]
    fn a_line_keeps_its_colour_in_every_panel() {
        let panel = |names: [&str; 2]| Panel::new("", "", "", names.map(Series::new));
        let panels = [panel(["a", "b"]), panel(["b", "c"])];
        let names = names(&panels);
        assert_eq!(names, ["a", "b", "c"]);
        let many: Vec<String> = (0..14).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let kinds: std::collections::BTreeSet<String> = many
            .iter()
            .map(|name| format!("{:?}", style(&many, name)))
            .collect();
        assert_eq!(kinds.len(), many.len());
    }

    #[test]
    fn every_line_and_axis_is_in_the_file_even_with_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plots/one.svg");
        let lines = [
            Series::of("first engine", [(10.0, 1.5), (40.0, 0.2), (100.0, 0.0)]),
            Series::new("without points"),
        ];
        let linear = Panel::new("uniform", "budget, %", "pages per lookup", lines);
        let panels = [linear.clone().logarithmic(), linear, Panel::default()];
        save(&path, &panels, 2).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("<svg"));
        for words in ["first engine", "budget, %", "pages per lookup", "uniform"] {
            assert_eq!(text.matches(words).count(), 2, "{words}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn a_spread_is_a_bar_more() {
        let dir = tempfile::tempdir().unwrap();
        let lines = |spread: &[(f64, [f64; 2])]| {
            let path = dir.path().join("plot.svg");
            let mut line = Series::of("engine", [(10.0, 2.0), (40.0, 1.0)]);
            line.spread = spread.into();
            save(&path, &[Panel::new("", "", "", [line])], 1).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            text.matches("<polyline").count() + text.matches("<line").count()
        };
        // Within what the line spans, so that axes are the same.
        let bars = [(10.0, [1.5, 2.0]), (40.0, [0.5, f64::NAN])];
        assert_eq!(lines(&bars), lines(&[]) + 1);
    }
}
