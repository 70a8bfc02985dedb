//! Line plots as SVG, several panels to a file, and dot plots. Drawn by `plotters` without fonts or
//! bitmaps.
mod dots;

use crate::report::{Cell, Report};
use crate::{Error, Result};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::{Shift, ranged1d::Ranged};
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
}

impl Series {
    /// A line without points.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            points: Vec::new(),
        }
    }

    /// A line through these points.
    pub fn of(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
        }
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

    /// The same with a logarithmic vertical axis.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self {
            log_y: true,
            ..self
        }
    }

    /// Without the points that no axis has: a ratio to nothing, for example.
    pub fn retain_finite(&mut self) {
        for series in &mut self.series {
            let finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
            series.points.retain(finite);
        }
    }
}

/// Panels of a table: one for each value of the column `panel`, in it a line for each value of the
/// column `line`, over the columns `x` and `y`. Rows without a number there are left out.
pub fn of_report(report: &Report, panel: &str, line: &str, x: &str, y: &str) -> Vec<Panel> {
    let column = |name: &str| report.columns.iter().position(|column| column == name);
    let mut panels: Vec<Panel> = Vec::new();
    for row in &report.rows {
        let cell = |name: &str| column(name).and_then(|at| row.get(at));
        let text = |name: &str| match cell(name) {
            Some(Cell::Number(number)) => label(*number),
            other => other.map(ToString::to_string).unwrap_or_default(),
        };
        let (Some(Cell::Number(at)), Some(Cell::Number(value))) = (cell(x), cell(y)) else {
            continue;
        };
        let title = format!("{panel} {}", text(panel)).trim().to_owned();
        let panel = match panels.iter().position(|panel| panel.title == title) {
            Some(at) => &mut panels[at],
            None => {
                panels.push(Panel::new(title, x, y, []));
                let last = panels.len() - 1;
                &mut panels[last]
            }
        };
        let name = text(line);
        match panel.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push((*at, *value)),
            None => panel.series.push(Series::of(name, [(*at, *value)])),
        }
    }
    panels
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Io(std::io::Error::other(format!("drawing: {error}")))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws `panels` into the file `path`, `columns` side by side.
pub fn save(path: &Path, panels: &[Panel], columns: usize) -> Result<()> {
    let mut panels = panels.to_vec();
    panels.iter_mut().for_each(Panel::retain_finite);
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = String::new();
    let columns = columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns).max(1);
    {
        let size = (560 * columns as u32, 420 * rows as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let names = names(&panels);
        for (panel, area) in panels.iter().zip(root.split_evenly((rows, columns))) {
            draw(panel, &names, &area)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(std::fs::write(path, text)?)
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

fn draw(panel: &Panel, names: &[&str], area: &Area<'_>) -> Result<()> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
    if points().next().is_none() {
        return Ok(());
    }
    let (left, right) = (
        least(&mut points().map(|p| p.0)),
        most(&mut points().map(|p| p.0)),
    );
    let right = if right > left { right } else { left + 1.0 };
    let top = most(&mut points().map(|p| p.1)).max(LEAST);
    let mut chart = ChartBuilder::on(area);
    chart
        .caption(&panel.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60);
    let bottom = least(&mut points().map(|p| p.1)).max(LEAST);
    let across = |x: f64| (x - left) / (right - left);
    if panel.log_y && top > bottom * WIDE {
        let (low, high) = (bottom * 0.8, top * 1.3);
        let height = |y: f64| (y.max(low) / low).ln() / (high / low).ln();
        let legend = free_corner(panel, across, height);
        let y = (low..high).log_scale();
        let chart = chart.build_cartesian_2d(left..right, y).map_err(failed)?;
        lines(panel, names, chart, LEAST, legend)
    } else {
        let legend = free_corner(panel, across, |y| y / (top * 1.1));
        let y = 0.0..top * 1.1;
        let chart = chart.build_cartesian_2d(left..right, y).map_err(failed)?;
        lines(panel, names, chart, f64::NEG_INFINITY, legend)
    }
}

/// The corner that lines cross least: where the legend hides least of them. `height` tells how far
/// up a value lies, from 0 to 1, and `across` how far right.
fn free_corner(
    panel: &Panel,
    across: impl Fn(f64) -> f64,
    height: impl Fn(f64) -> f64,
) -> SeriesLabelPosition {
    /// Steps in which lines between points are followed.
    const STEPS: u32 = 16;
    // About what the legend takes of the diagram.
    let tall = (0.07 * panel.series.len() as f64 + 0.05).min(0.5);
    let covered = |right: bool, up: bool| {
        let place = |(x, y): (f64, f64)| (across(x), height(y));
        let within = |(x, y): (f64, f64)| {
            let (x, y) = (
                if right { 1.0 - x } else { x },
                if up { 1.0 - y } else { y },
            );
            x < 0.4 && y < tall
        };
        let mut count = 0;
        for series in &panel.series {
            for pair in series.points.windows(2) {
                let [from, to] = [place(pair[0]), place(pair[1])];
                let at = |step: u32| {
                    let share = f64::from(step) / f64::from(STEPS);
                    let between = |a: f64, b: f64| a + (b - a) * share;
                    (between(from.0, to.0), between(from.1, to.1))
                };
                count += (0..=STEPS).filter(|step| within(at(*step))).count();
            }
            let alone = series.points.len() == 1 && within(place(series.points[0]));
            count += usize::from(alone);
        }
        count
    };
    let corners = [
        (covered(true, true), SeriesLabelPosition::UpperRight),
        (covered(false, true), SeriesLabelPosition::UpperLeft),
        (covered(true, false), SeriesLabelPosition::LowerRight),
        (covered(false, false), SeriesLabelPosition::LowerLeft),
    ];
    let least = corners.into_iter().min_by_key(|(count, _)| *count);
    least.map_or(SeriesLabelPosition::UpperRight, |(_, corner)| corner)
}

fn lines<'a, Y>(
    panel: &Panel,
    names: &[&str],
    mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, Y>>,
    floor: f64,
    legend: SeriesLabelPosition,
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
        chart
            .draw_series(LineSeries::new(points(), style))
            .map_err(failed)?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        chart
            .draw_series(points().map(|point| Circle::new(point, 2, style.filled())))
            .map_err(failed)?;
    }
    chart
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 11))
        .draw()
        .map_err(failed)
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
    fn the_legend_keeps_out_of_the_way() {
        let corner = |points: [(f64, f64); 2]| {
            let panel = Panel::new("", "", "", [Series::of("line", points)]);
            free_corner(&panel, |x| x, |y| y)
        };
        let upper_right = SeriesLabelPosition::UpperRight;
        assert_eq!(corner([(0.0, 1.0), (1.0, 0.0)]), upper_right);
        let rising = corner([(0.0, 0.0), (1.0, 1.0)]);
        assert_eq!(rising, SeriesLabelPosition::UpperLeft);
        let high = corner([(0.0, 1.0), (1.0, 1.0)]);
        assert_eq!(high, SeriesLabelPosition::LowerRight);
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
}
