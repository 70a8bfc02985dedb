//! Results as a table to read, CSV to plot and JSON for programs.
use crate::Result;
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

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&&str> for Cell {
    fn from(text: &&str) -> Self {
        Self::Text((*text).to_owned())
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

    /// The whole report as one JSON object: `title`, and `rows` as objects by column name.
    pub fn to_json(&self) -> Result<String> {
        let rows: Vec<serde_json::Map<_, _>> = self
            .rows
            .iter()
            .map(|row| {
                let values = row.iter().map(serde_json::to_value);
                self.columns
                    .iter()
                    .cloned()
                    .zip(values)
                    .map(|(name, value)| value.map(|value| (name, value)))
                    .collect::<std::result::Result<_, _>>()
            })
            .collect::<std::result::Result<_, _>>()?;
        let object = serde_json::json!({ "title": self.title, "rows": rows });
        Ok(serde_json::to_string_pretty(&object)?)
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
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder)?;
        }
        let text = match path.extension() {
            Some(end) if end == "json" => self.to_json()?,
            _ => self.to_csv()?,
        };
        Ok(std::fs::write(path, text)?)
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
        assert_eq!(json["rows"][0]["pages"], 0.035);
        assert!(json["rows"][1]["pages"].is_null());
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
