//! Rows that each have a span, what was expected, and marks on it, what was seen.
use super::{Area, failed, label};
use crate::{Error, Result};
use plotters::element::{DynElement, IntoDynElement};
use plotters::prelude::*;
use std::path::Path;

/// Pixels across, of a row, of everything above and below the rows, and of a letter of a name.
const SIZE: (u32, u32, u32, u32) = (900, 22, 110, 7);

/// Colours of marks by kind; then those of marks that are at least, and that are below, what is
/// [`Spans::aimed`] at (told apart by the colour-blind as well).
const KINDS: [RGBColor; 3] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
];
const REACHED: RGBColor = RGBColor(0, 114, 178);
const MISSED: RGBColor = RGBColor(213, 94, 0);

/// The span's grey, on light and on dark paper.
const SPAN: RGBColor = RGBColor(140, 140, 140);

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// From where to where was expected.
    pub span: Option<(f64, f64)>,
    /// The kind of each mark, and where it lies: above 0.
    pub marks: Vec<(usize, f64)>,
}

/// Rows over one logarithmic axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spans {
    /// What it shows.
    pub title: String,
    /// What the values are, with their unit.
    pub x: String,
    /// The names of the kinds of marks, at most three: circle, triangle, cross.
    pub kinds: Vec<String>,
    /// Below this a mark has another colour.
    pub aimed: Option<f64>,
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

impl Spans {
    /// Draws into the file `path`.
    ///
    /// # Errors
    /// There is no value above 0 to draw, or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let marks = self
            .rows
            .iter()
            .flat_map(|row| &row.marks)
            .map(|mark| mark.1);
        let spans = self.rows.iter().filter_map(|row| row.span);
        let values = marks.chain(spans.flat_map(|(from, to)| [from, to]));
        let values: Vec<f64> = values.filter(|v| *v > 0.0 && v.is_finite()).collect();
        let (Some(low), Some(high)) = (
            values.iter().copied().reduce(f64::min),
            values.iter().copied().reduce(f64::max),
        ) else {
            return Err(Error::InvalidSetting("there is nothing to draw".into()));
        };
        let mut text = String::new();
        {
            let (width, row, around, _) = SIZE;
            let height = row * (self.rows.len() as u32 + self.legend()) + around;
            let root = SVGBackend::with_string(&mut text, (width + self.names(), height))
                .into_drawing_area();
            root.fill(&WHITE).map_err(failed)?;
            self.draw(&root, low * 0.85, high * 1.2)?;
            root.present().map_err(failed)?;
        }
        Ok(std::fs::write(path, text)?)
    }

    /// Pixels for the names of the rows.
    fn names(&self) -> u32 {
        let letters = self.rows.iter().map(|row| row.name.chars().count());
        letters.max().unwrap_or(0) as u32 * SIZE.3
    }

    /// Rows above the others that the legend takes.
    fn legend(&self) -> u32 {
        1 + self.kinds.len() as u32
    }

    fn colour(&self, kind: usize, value: f64) -> RGBColor {
        match self.aimed {
            Some(aim) if value >= aim => REACHED,
            Some(_) => MISSED,
            None => KINDS[kind % KINDS.len()],
        }
    }

    fn draw(&self, area: &Area<'_>, low: f64, high: f64) -> Result<()> {
        // The first row is the uppermost; the legend stands above it.
        let rows = self.rows.len() as i32;
        let height = |row: usize| SegmentValue::CenterOf(rows - 1 - row as i32);
        let name = |at: &SegmentValue<i32>| match at {
            SegmentValue::CenterOf(at) => {
                let row = usize::try_from(rows - 1 - at).ok();
                let row = row.and_then(|row| self.rows.get(row));
                row.map_or(String::new(), |row| row.name.clone())
            }
            _ => String::new(),
        };
        let most = (rows - 1 + self.legend() as i32).max(0);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 15))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(self.names() + 10)
            .build_cartesian_2d((low..high).log_scale(), (0..most).into_segmented())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .light_line_style(WHITE)
            .label_style(("sans-serif", 12))
            .x_label_formatter(&|x| label(*x))
            .y_labels(most as usize + 1)
            .y_label_formatter(&name)
            .draw()
            .map_err(failed)?;
        // What was expected lies below what was seen.
        let spans = self.rows.iter().enumerate().filter_map(|(at, row)| {
            let (from, to) = row.span?;
            // A single number is a bar too.
            let to = to.max(from * 1.01);
            let ends = vec![(from, height(at)), (to, height(at))];
            Some(PathElement::new(ends, SPAN.stroke_width(9)))
        });
        chart.draw_series(spans).map_err(failed)?;
        for (kind, name) in self.kinds.iter().enumerate() {
            let marks = self.rows.iter().enumerate().flat_map(|(at, row)| {
                let own = row.marks.iter().filter(move |mark| mark.0 == kind);
                own.map(move |mark| mark_at((mark.1, height(at)), kind, self.colour(kind, mark.1)))
            });
            let shown = match self.aimed {
                Some(_) => BLACK,
                None => KINDS[kind % KINDS.len()],
            };
            chart
                .draw_series(marks)
                .map_err(failed)?
                .label(name)
                .legend(move |(x, y)| mark_at((x + 8, y), kind, shown));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 12))
            .draw()
            .map_err(failed)
    }
}

/// The mark of a kind.
fn mark_at<'a, C: Clone + 'static>(
    at: C,
    kind: usize,
    colour: RGBColor,
) -> DynElement<'static, SVGBackend<'a>, C> {
    match kind {
        0 => Circle::new(at, 5, colour.filled()).into_dyn(),
        1 => TriangleMarker::new(at, 6, colour.filled()).into_dyn(),
        _ => Cross::new(at, 5, colour.stroke_width(2)).into_dyn(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_below_the_aim_have_another_colour() {
        let row = |name: &str, marks: &[(usize, f64)]| Row {
            name: name.into(),
            span: Some((1.0, 1.0)),
            marks: marks.to_vec(),
        };
        let spans = Spans {
            title: "Throughput".into(),
            x: "times".into(),
            kinds: vec!["one".into(), "another".into()],
            aimed: Some(1.0),
            rows: vec![
                row("writes", &[(0, 2.0), (1, 3.0)]),
                row("reads", &[(0, 0.5)]),
            ],
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spans.svg");
        spans.save(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let of = |colour: RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
        assert_eq!(text.matches(&of(REACHED)).count(), 2, "{text}");
        assert_eq!(text.matches(&of(MISSED)).count(), 1, "{text}");
        for words in ["Throughput", "times", "writes", "reads", "another"] {
            assert!(text.contains(words), "{words}");
        }
        assert!(Spans::default().save(&path).is_err());
    }
}
