//! Results as a table to read, CSV to plot and JSON for programs.
use crate::Result;
use crate::reproduce::claim;
use comfy_table::{CellAlignment, ContentArrangement, presets};
use std::fmt;
use std::path::Path;

/// One value of a report.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A measured number; tables show three significant digits.
    Number(f64),
    /// Not measured.
    Missing,
}

macro_rules! from_texts {
    ($($text:ty),*) => {$(
        impl From<$text> for Cell {
            fn from(text: $text) -> Self {
                Self::Text(text.to_string())
            }
        }
    )*};
}
from_texts!(&str, &&str, String, &String);

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Cell {
    fn from(so: bool) -> Self {
        Self::Text(if so { "yes" } else { "no" }.to_owned())
    }
}

/// Counts: exact up to 2^53, far above anything counted here.
macro_rules! from_counts {
    ($($count:ty),*) => {$(
        impl From<$count> for Cell {
            fn from(count: $count) -> Self {
                Self::Number(count as f64)
            }
        }
    )*};
}
from_counts!(u64, usize, u32, i32);

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Missing, Self::Number)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Missing => f.write_str("-"),
            Self::Number(number) => {
                let size = number.abs();
                let decimals = match size {
                    _ if size >= 100.0 || size == 0.0 => 0,
                    _ if size >= 10.0 => 1,
                    _ if size >= 1.0 => 2,
                    _ => 3,
                };
                write!(f, "{number:.decimals$}")
            }
        }
    }
}

/// A row for [`Report::add`]: the name of each column, with its unit, and what stands in it.
///
/// ```
/// # use shamba_bench::{report::Report, row};
/// let mut table = Report::titled("Lookups");
/// table.add(row! { "engine": "shamba", "pages per lookup": 0.09 });
/// assert_eq!(table.to_csv().unwrap(), "engine,pages per lookup\nshamba,0.09\n");
/// ```
#[macro_export]
macro_rules! row {
    ($($name:tt: $value:expr),* $(,)?) => {
        vec![$((::std::string::String::from($name), $crate::report::Cell::from($value))),*]
    };
}

/// A titled table of results.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// What was measured.
    pub title: String,
    /// Column names, with units.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl Report {
    /// An empty report.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// A report that has the columns of its first row.
    pub fn titled(title: impl Into<String>) -> Self {
        Self::new(title, &[])
    }

    /// Adds a row made by [`row!`](crate::row); all have the columns of the first.
    pub fn add(&mut self, row: Vec<(String, Cell)>) {
        let (names, cells): (Vec<_>, Vec<_>) = row.into_iter().unzip();
        if self.rows.is_empty() {
            self.columns = names;
        } else {
            debug_assert_eq!(names, self.columns);
        }
        self.push(cells);
    }

    /// A report with a row of each of these.
    pub fn of<T>(
        title: impl Into<String>,
        all: impl IntoIterator<Item = T>,
        row: impl Fn(T) -> Vec<(String, Cell)>,
    ) -> Self {
        let mut report = Self::titled(title);
        all.into_iter().for_each(|one| report.add(row(one)));
        report
    }

    /// Where a column of this name stands.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The number in a column of a row.
    pub fn number(&self, row: &[Cell], column: &str) -> Option<f64> {
        match self.cell(row, column) {
            Cell::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The numbers of a column, from the rows that have one there.
    pub fn numbers(&self, column: &str) -> Vec<f64> {
        let rows = self.rows.iter();
        rows.filter_map(|row| self.number(row, column)).collect()
    }

    /// The most of a column, as of [`claim::most_of`].
    pub fn most(&self, column: &str) -> f64 {
        claim::most_of(&self.numbers(column))
    }

    /// The least of a column, as of [`claim::least_of`].
    pub fn least(&self, column: &str) -> f64 {
        claim::least_of(&self.numbers(column))
    }

    /// The numbers of two columns, from the rows that have both.
    pub fn points(&self, x: &str, y: &str) -> Vec<(f64, f64)> {
        let both = |row: &Vec<Cell>| Some((self.number(row, x)?, self.number(row, y)?));
        self.rows.iter().filter_map(both).collect()
    }

    /// What stands in a column, each once; nothing where there is no such column.
    pub fn distinct(&self, column: &str) -> Vec<Cell> {
        let mut distinct = Vec::new();
        for row in &self.rows {
            let cell = self.cell(row, column);
            if !distinct.contains(cell) {
                distinct.push(cell.clone());
            }
        }
        distinct
    }

    fn cell<'a>(&self, row: &'a [Cell], column: &str) -> &'a Cell {
        let cell = self.column(column).and_then(|at| row.get(at));
        cell.unwrap_or(&Cell::Missing)
    }

    /// The table of the rows in whose `column` this stands.
    #[must_use]
    pub fn rows_of(&self, column: &str, value: impl Into<Cell>) -> Self {
        let value = value.into();
        let mut only = self.clone();
        only.rows.retain(|row| *self.cell(row, column) == value);
        only
    }

    /// The table of the columns of these names.
    #[must_use]
    pub fn columns_of(&self, names: &[&str]) -> Self {
        let mut only = self.clone();
        let kept = |at: &usize| names.contains(&self.columns[*at].as_str());
        let kept: Vec<usize> = (0..self.columns.len()).filter(kept).collect();
        only.columns = kept.iter().map(|at| self.columns[*at].clone()).collect();
        for row in &mut only.rows {
            *row = kept.iter().filter_map(|at| row.get(*at).cloned()).collect();
        }
        only
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// The rows as CSV with a header line, full precision.
    pub fn to_csv(&self) -> Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&self.columns)?;
        for row in &self.rows {
            writer.write_record(row.iter().map(|cell| match cell {
                Cell::Text(text) => text.clone(),
                Cell::Number(number) => number.to_string(),
                Cell::Missing => String::new(),
            }))?;
        }
        let bytes = writer.into_inner().map_err(|e| e.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The whole report as one JSON object: `title`, `columns` and `rows`.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// The rows as a Markdown table without the title; bars in texts are escaped.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let plain = |text: &String| text.replace('|', "\\|").replace('\n', " ");
        let mut text = line(self.columns.iter().map(plain).collect());
        text += &format!("|{}\n", "---|".repeat(self.columns.len()));
        for row in &self.rows {
            text += &line(row.iter().map(|cell| plain(&cell.to_string())).collect());
        }
        text
    }

    /// Writes `path`, as JSON if it ends in `.json`, as CSV otherwise, with its folders.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = match path.extension() {
            Some(end) if end == "json" => self.to_json()?,
            _ => self.to_csv()?,
        };
        write(path, &text)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(&self.columns);
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| {
                let align = match cell {
                    Cell::Text(_) => CellAlignment::Left,
                    _ => CellAlignment::Right,
                };
                comfy_table::Cell::new(cell).set_alignment(align)
            }));
        }
        write!(f, "{}\n{table}", self.title)
    }
}

/// Writes a file, with its folders.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent();
    if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(path, text)?)
}

/// What these are, one after another, with commas.
pub(crate) fn joined(all: impl IntoIterator<Item = String>) -> String {
    all.into_iter().collect::<Vec<_>>().join(", ")
}

/// The middle of `values` (the mean of the two middle ones if their number is even).
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => sorted.get(middle).copied(),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("two engines", &["engine", "pages"]);
        report.push(vec!["a, b".into(), 0.035.into()]);
        report.push(vec!["c".into(), Cell::Missing]);
        report
    }

    #[test]
    fn one_report_three_forms() {
        assert_eq!(
            report().to_csv().unwrap(),
            "engine,pages\n\"a, b\",0.035\nc,\n"
        );
        let json: serde_json::Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
        assert_eq!(json["columns"][1], "pages");
        assert_eq!(json["rows"][0][1], 0.035);
        assert!(json["rows"][1][1].is_null());
        assert_eq!(
            report().to_markdown(),
            "| engine | pages |\n|---|---|\n| a, b | 0.035 |\n| c | - |\n"
        );
        let text = report().to_string();
        assert!(text.contains("0.035") && text.contains("a, b"), "{text}");
    }

    #[test]
    fn a_report_has_the_columns_of_its_rows() {
        let report = Report::of("both", [("a", 1u64), ("b", 2)], |(name, count)| {
            row! { "name": name, "count": count, "even": count % 2 == 0 }
        });
        assert_eq!(
            report.to_csv().unwrap(),
            "name,count,even\na,1,no\nb,2,yes\n"
        );
    }

    #[test]
    fn the_median_ignores_order_and_one_outlier() {
        assert_eq!(median(&[3.0, 1.0, 100.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }
}
