//! Dot plots: a row for each line of a table, in it a dot for each of those compared, and a bar for
//! what was expected of them.
use super::{COLOURS, Series, ends, failed, label, legend};
use crate::report::{Cell, Report};
use crate::{Error, Result};
use plotters::element::{DynElement, IntoDynElement};
use plotters::prelude::*;
use std::path::Path;

/// Pixels across, of a row, and of everything above and below the rows.
const SIZE: (u32, u32, u32) = (900, 20, 110);

/// Pixels for the names of rows: at least, at most, and for a letter.
const NAMES: (u32, u32, u32) = (230, 520, 6);

/// Colours of dots that are at least, and of those that are below, what was aimed at.
const REACHED: RGBColor = RGBColor(0, 114, 178);
const MISSED: RGBColor = RGBColor(213, 94, 0);

/// Of bars, on light and on dark paper.
const BAR: RGBColor = RGBColor(140, 140, 140);

/// A name that fits into so many pixels.
fn shortened(name: &str, pixels: u32) -> String {
    let letters = (pixels / NAMES.2) as usize;
    if name.chars().count() <= letters {
        name.to_owned()
    } else {
        name.chars().take(letters - 1).chain(['…']).collect()
    }
}

/// Values of named rows over one logarithmic axis.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Dots {
    /// What it shows.
    pub title: String,
    /// What the values are, with their unit.
    pub x: String,
    /// The names of the rows, from the top.
    pub rows: Vec<String>,
    /// Who is compared; points are a value above 0 and the number of its row.
    pub series: Vec<Series>,
    /// For each row the bar of what was expected, if there is any.
    #[serde(default)]
    pub spans: Vec<Option<(f64, f64)>>,
    /// With an aim the colour of a dot tells whether it is reached, and its shape whose it is.
    #[serde(default)]
    pub aimed: Option<f64>,
}

impl Dots {
    /// The dots of a table: a row for each of those that `name` names, a series for each column
    /// whose name ends with `unit`, called by what comes before. Cells without a number above 0 are
    /// left out.
    pub fn of_report(
        report: &Report,
        unit: &str,
        name: impl Fn(&[Cell]) -> Option<String>,
    ) -> Self {
        let rows = report.rows.iter().filter_map(|row| Some((name(row)?, row)));
        let rows: Vec<(String, &Vec<Cell>)> = rows.collect();
        let columns = report.columns.iter().enumerate();
        let series = columns.filter_map(|(at, column)| {
            let name = column.strip_suffix(unit)?.trim();
            let points = rows.iter().enumerate();
            let points = points.filter_map(|(number, (_, row))| match row.get(at) {
                Some(Cell::Number(value)) if *value > 0.0 => Some((*value, number as f64)),
                _ => None,
            });
            Some(Series::of(name, points))
        });
        Self {
            title: report.title.clone(),
            x: unit.trim().to_owned(),
            series: series.collect(),
            rows: rows.into_iter().map(|(name, _)| name).collect(),
            ..Self::default()
        }
    }

    /// Draws into the file `path`.
    pub fn save(&self, path: &Path) -> Result<()> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let bars = self
            .spans
            .iter()
            .flatten()
            .flat_map(|&(from, to)| [from, to]);
        let values = points.map(|(value, _)| *value).chain(bars);
        let (low, high) = ends(values);
        if high < low {
            let nothing = "there is nothing to draw".to_owned();
            return Err(Error::InvalidSetting(nothing));
        }
        let (width, row, around) = SIZE;
        let width = width + self.names() - NAMES.0;
        let upper = row * self.rows.len() as u32 + around;
        let lower = super::SIZE.2 * self.series.len() as u32;
        super::svg(path, (width, upper + lower), |root| {
            let (area, below) = root.split_vertically(upper);
            self.draw(&area, low, high)?;
            legend(&below, &self.series, |number, at| {
                shape(at, self.mark(number, self.aimed.map(|_| BLACK)))
            })
        })
    }

    /// The shape and colour of a series' dots: with an aim the shape tells whose they are.
    fn mark(&self, number: usize, aimed: Option<RGBColor>) -> (usize, ShapeStyle) {
        match aimed {
            Some(colour) => (number, colour.filled()),
            None => (0, COLOURS[number % COLOURS.len()].filled()),
        }
    }

    /// Pixels for the names of the rows.
    fn names(&self) -> u32 {
        let letters = self.rows.iter().map(|name| name.chars().count());
        (letters.max().unwrap_or(0) as u32 * NAMES.2).clamp(NAMES.0, NAMES.1)
    }

    fn draw(&self, area: &super::Area<'_>, low: f64, high: f64) -> Result<()> {
        let rows = self.rows.len() as i32;
        // The first row is the uppermost; the axis has two at least.
        let height = |row: f64| SegmentValue::CenterOf(rows - 1 - row as i32);
        let name = |at: &SegmentValue<i32>| match at {
            SegmentValue::CenterOf(at) => {
                let row = usize::try_from(rows - 1 - at).ok();
                let name = row.and_then(|row| self.rows.get(row));
                name.map_or(String::new(), |name| shortened(name, self.names()))
            }
            _ => String::new(),
        };
        // From a power of ten on: numbers are put at the axis from the first one.
        let low = 10f64.powf(low.log10().floor()) * 0.999;
        let high = (high * 1.3).max(low * super::WIDE);
        let across = (low..high).log_scale();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 14))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(self.names())
            .build_cartesian_2d(across, (0..rows.max(2) - 1).into_segmented())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .light_line_style(WHITE)
            .label_style(("sans-serif", 11))
            .axis_desc_style(("sans-serif", 12))
            .x_label_formatter(&|x| label(*x))
            .y_labels(self.rows.len().max(2))
            .y_label_formatter(&name)
            .draw()
            .map_err(failed)?;
        let bars = self.spans.iter().enumerate().filter_map(|(row, bar)| {
            let (from, to) = (*bar)?;
            let bar = vec![(from, height(row as f64)), (to, height(row as f64))];
            Some(PathElement::new(bar, BAR.stroke_width(9)))
        });
        chart.draw_series(bars).map_err(failed)?;
        for (number, series) in self.series.iter().enumerate() {
            let colour = |value: f64| {
                let reached = value >= self.aimed?;
                Some(if reached { REACHED } else { MISSED })
            };
            let dots = series.points.iter().map(|&(value, row)| {
                let mark = self.mark(number, colour(value));
                shape((value, height(row)), mark)
            });
            chart.draw_series(dots).map_err(failed)?;
        }
        Ok(())
    }
}

/// A dot: a circle, a triangle or a cross by its number.
fn shape<'a, C: Clone + 'static>(
    at: C,
    (number, style): (usize, ShapeStyle),
) -> DynElement<'static, SVGBackend<'a>, C> {
    match number {
        0 => Circle::new(at, 4, style).into_dyn(),
        1 => TriangleMarker::new(at, 6, style).into_dyn(),
        _ => Cross::new(at, 5, style.stroke_width(2)).into_dyn(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    /// The file of a plot.
    fn drawn(dots: &Dots) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dots.svg");
        dots.save(&path).unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn every_row_and_series_is_in_the_file() {
        let rows = [
            ("write", Some(10.0), Some(1.0), Some(200.0)),
            ("read", Some(3000.0), Some(1.0), None),
            ("size", Some(7.0), None, Some(8.0)),
        ];
        let report = Report::of("Compared", rows, |(phase, a, p99, b)| {
            row! { "phase": phase, "a op/s": a, "a p99 us": p99, "b op/s": b }
        });
        let dots = Dots::of_report(&report, "op/s", |row| match row.first()? {
            Cell::Text(name) if name != "size" => Some(name.clone()),
            _ => None,
        });
        assert_eq!(dots.rows, ["write", "read"]);
        assert_eq!(dots.series[0].points, [(10.0, 0.0), (3000.0, 1.0)]);
        assert_eq!(dots.series[1].points, [(200.0, 0.0)]);
        let text = drawn(&dots);
        for words in ["Compared", "op/s", "write", "read"] {
            assert_eq!(text.matches(words).count(), 1, "{words}");
        }
        // A dot for each point and for each line of the legend.
        assert_eq!(text.matches("<circle").count(), 5);
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn dots_below_the_aim_have_another_colour() {
        let dots = Dots {
            rows: vec!["writes".into(), "reads".into()],
            series: vec![
                Series::of("one", [(2.0, 0.0), (0.5, 1.0)]),
                Series::of("another", [(3.0, 0.0)]),
            ],
            spans: vec![Some((0.9, 1.1)), None],
            aimed: Some(1.0),
            ..Dots::default()
        };
        let text = drawn(&dots);
        let of = |colour: RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
        for (colour, count) in [(REACHED, 2), (MISSED, 1), (BAR, 1)] {
            assert_eq!(text.matches(&of(colour)).count(), count, "{text}");
        }
    }

    #[test]
    fn one_row_of_a_long_name_has_a_number_on_its_axis() {
        let dots = Dots {
            rows: vec!["a name of a claim ".repeat(20)],
            series: vec![Series::of("here", [(3.0, 0.0)])],
            ..Dots::default()
        };
        let text = drawn(&dots);
        assert!(text.contains("a name of a claim a name") && text.contains('…'));
        let tick = |line: &str| line.trim() == "1" || line.trim() == "10";
        assert!(text.lines().any(tick), "{text}");
    }

    #[test]
    fn nothing_is_not_drawn() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Dots::default().save(&dir.path().join("dots.svg")).is_err());
    }
}
