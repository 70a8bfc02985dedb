//! One line for every measured cell, kept as CSV, so that a run that was cut short goes on where it
//! stopped and tables and plots can be made again without measuring. Plain data; one process
//! appends to a file.
use crate::Result;
use crate::provenance::Build;
use crate::report::median;
use std::fs::OpenOptions;
use std::path::Path;

/// The name under which the offline optimum, with the counts a distribution makes expect, is kept.
pub const ORACLE: &str = "oracle";

/// The same for memory that is empty when the warm-up begins: what was never met is not in it.
pub const FROM_EMPTY: &str = "oracle-from-empty";

/// The first with the counts of the measured lookups themselves: it has seen the future.
pub const HINDSIGHT: &str = "oracle-hindsight";

/// One engine, one cell of the grid, one repetition.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Row {
    /// The engine's specification, or [`ORACLE`], [`FROM_EMPTY`] or [`HINDSIGHT`] and the engine it
    /// belongs to.
    pub engine: String,
    /// How lookups spread.
    pub distribution: String,
    /// Share of lookups that ask for existing keys.
    pub positive: f64,
    /// Budget in percent of RocksDB's filters and indexes.
    pub budget_percent: f64,
    /// Budget in bytes.
    pub budget_bytes: u64,
    /// Entries in the database.
    pub entries: u64,
    /// Lookups before measuring.
    pub warm_up: u64,
    /// Lookups measured.
    pub measured: u64,
    /// Decides the lookups.
    pub seed: u64,
    /// Pages of 4096 bytes per lookup, from the kernel (oracle: the dual bound).
    pub pages: f64,
    /// Read operations per lookup, from the kernel.
    pub reads: Option<f64>,
    /// Data blocks read per lookup, from the engine.
    pub data: Option<f64>,
    /// Index blocks read per lookup, from the engine.
    pub index: Option<f64>,
    /// Filter blocks read per lookup, from the engine.
    pub filter: Option<f64>,
    /// Sorted runs a lookup may visit.
    pub runs: Option<u64>,
    /// Mean microseconds.
    pub mean_us: Option<f64>,
    /// Median microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile, microseconds.
    pub p99_us: Option<f64>,
    /// Bytes the engine says it uses.
    pub engine_bytes: Option<u64>,
    /// Peak resident bytes of the process.
    pub peak_bytes: Option<u64>,
    /// The commit of the program that measured.
    #[serde(default)]
    pub commit: String,
    /// The digest of the program that measured.
    #[serde(default)]
    pub binary: String,
}

impl Row {
    /// The row as measured by a build.
    #[must_use]
    pub fn of(self, build: &Build) -> Self {
        Row {
            commit: build.commit.clone(),
            binary: build.binary.clone(),
            ..self
        }
    }

    /// Whether it was measured by this build.
    pub fn is_of(&self, build: &Build) -> bool {
        self.commit == build.commit && self.binary == build.binary
    }

    /// Whether `other` is the same engine in the same cell and repetition.
    pub fn same_cell(&self, other: &Self) -> bool {
        let numbers = |row: &Self| (row.entries, row.warm_up, row.measured, row.seed);
        self.engine == other.engine && self.same_place(other) && numbers(self) == numbers(other)
    }

    /// Whether `other` is in the same place of the grid: distribution, share, budget.
    pub fn same_place(&self, other: &Self) -> bool {
        self.same_workload(other) && self.budget_percent == other.budget_percent
    }

    /// Whether `other` has the same distribution and share of existing keys.
    pub fn same_workload(&self, other: &Self) -> bool {
        self.distribution == other.distribution && self.positive == other.positive
    }
}

/// The rows of `path`; none if there is no such file.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
        Ok(file) => {
            let mut reader = csv::Reader::from_reader(file);
            Ok(reader.deserialize().collect::<csv::Result<_>>()?)
        }
    }
}

/// Adds a row to `path`, with a header line if the file is new.
pub fn append(path: &Path, row: &Row) -> Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let new = file.metadata()?.len() == 0;
    let mut writer = csv::WriterBuilder::new().has_headers(new).from_writer(file);
    writer.serialize(row)?;
    Ok(writer.flush()?)
}

/// Repetitions of a cell made one row of medians, in the order of first appearance.
pub fn medians(rows: &[Row]) -> Vec<Row> {
    let mut merged: Vec<Row> = Vec::new();
    for row in rows {
        if merged
            .iter()
            .any(|m| m.engine == row.engine && m.same_place(row))
        {
            continue;
        }
        let same: Vec<&Row> = rows
            .iter()
            .filter(|r| r.engine == row.engine && r.same_place(row))
            .collect();
        let of = |value: &dyn Fn(&Row) -> Option<f64>| {
            median(&same.iter().filter_map(|r| value(r)).collect::<Vec<_>>())
        };
        merged.push(Row {
            pages: of(&|r| Some(r.pages)).unwrap_or(row.pages),
            reads: of(&|r| r.reads),
            mean_us: of(&|r| r.mean_us),
            p50_us: of(&|r| r.p50_us),
            p99_us: of(&|r| r.p99_us),
            ..row.clone()
        });
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, budget_percent: f64, seed: u64, pages: f64) -> Row {
        Row {
            engine: engine.into(),
            distribution: "uniform".into(),
            positive: 0.5,
            budget_percent,
            seed,
            pages,
            mean_us: Some(1.5),
            ..Row::default()
        }
    }

    #[test]
    fn rows_survive_a_file_and_the_header_comes_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder/rows.csv");
        assert!(read(&path).unwrap().is_empty());
        let rows = [row("a,b", 10.0, 1, 0.1), row("c", 33.3, 2, 1e-9)];
        for row in &rows {
            append(&path, row).unwrap();
        }
        assert_eq!(read(&path).unwrap(), rows);
        assert_eq!(
            std::fs::read_to_string(&path)
                .unwrap()
                .matches("mean_us")
                .count(),
            1
        );
    }

    #[test]
    fn a_cell_is_known_again_and_repetitions_are_others() {
        let one = row("a", 10.0, 1, 0.1);
        assert!(one.same_cell(&row("a", 10.0, 1, 7.0)));
        for other in [
            row("b", 10.0, 1, 0.1),
            row("a", 11.0, 1, 0.1),
            row("a", 10.0, 2, 0.1),
        ] {
            assert!(!one.same_cell(&other), "{other:?}");
        }
    }

    #[test]
    fn repetitions_become_medians() {
        let rows = [
            row("a", 10.0, 1, 3.0),
            row("b", 10.0, 1, 9.0),
            row("a", 10.0, 2, 1.0),
            row("a", 10.0, 3, 100.0),
        ];
        let merged = medians(&rows);
        assert_eq!(merged.len(), 2);
        assert_eq!((merged[0].pages, merged[1].pages), (3.0, 9.0));
    }
}
