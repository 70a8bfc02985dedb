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
        let text = report().to_string();
        assert!(text.contains("0.035") && text.contains("a, b"), "{text}");
    }

    #[test]
    fn the_median_ignores_order_and_one_outlier() {
        assert_eq!(median(&[3.0, 1.0, 100.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }
}
