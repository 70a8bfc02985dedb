//! What the front page shows of tables of results: sentences, and what its pictures draw. Pure
//! functions.
use crate::compare;
use crate::plot::{self, Dots, Panel, Series};
use crate::report::{Cell, Report, median};
use crate::reproduce::ours::pressure::CONTAINED;
use crate::reproduce::ours::rocksdb::BEST;
use crate::row;

/// The column of this engine in the tables of pages per lookup.
pub(super) const OURS: &str = "our default";

/// Engines whose throughput is compared: the beginnings of their names, in this order.
const PEERS: [(&str, &str); 3] = [("rocksdb", "RocksDB"), ("fjall", "fjall"), ("redb", "redb")];

/// A cell of the comparison with RocksDB: where, and the pages of both.
pub(super) struct Beside {
    place: String,
    percent: f64,
    ours: f64,
    theirs: f64,
}

impl Beside {
    /// How many times as much RocksDB reads. Two that read nothing read as much.
    fn times(&self) -> f64 {
        if self.theirs == self.ours {
            1.0
        } else {
            self.theirs / self.ours
        }
    }
}

/// The number in a column of a row.
fn number(table: &Report, row: &[Cell], column: &str) -> Option<f64> {
    let at = table.columns.iter().position(|name| name == column)?;
    match row.get(at)? {
        Cell::Number(number) => Some(*number),
        _ => None,
    }
}

/// What kind of lookups a row is about: their distribution, and how many find their key.
fn kind(table: &Report, row: &[Cell]) -> String {
    let distribution = row.first().map(ToString::to_string).unwrap_or_default();
    match number(table, row, "existing") {
        Some(0.0) => format!("{distribution}, absent keys"),
        Some(1.0) => format!("{distribution}, existing keys"),
        Some(share) => format!("{distribution}, {:.0} % existing", share * 100.0),
        None => distribution,
    }
}

/// The cells of a table of pages in which both this engine and RocksDB stand.
pub(super) fn beside(table: &Report) -> Vec<Beside> {
    let cell = |row: &Vec<Cell>| {
        Some(Beside {
            place: kind(table, row),
            percent: number(table, row, "budget %")?,
            ours: number(table, row, OURS)?,
            theirs: number(table, row, BEST)?,
        })
    };
    table.rows.iter().filter_map(cell).collect()
}

/// The two sentences: how many times fewer pages, and where more.
pub(super) fn told(cells: &[Beside]) -> String {
    let least = cells
        .iter()
        .map(|cell| cell.percent)
        .fold(f64::INFINITY, f64::min);
    let (short, more): (Vec<&Beside>, Vec<&Beside>) =
        cells.iter().partition(|cell| cell.percent == least);
    let range = |cells: &[&Beside]| {
        let times: Vec<f64> = cells.iter().map(|cell| cell.times()).collect();
        let end = |of: fn(f64, f64) -> f64| times.iter().copied().reduce(of).unwrap_or(f64::NAN);
        format!(
            "{:.2} to {:.2} times (median {:.2})",
            end(f64::min),
            end(f64::max),
            median(&times).unwrap_or(f64::NAN)
        )
    };
    let mut text = format!(
        "With memory for {} of the filters and indexes RocksDB, with the best of its settings for \
         each kind of lookup, reads **{}** the pages of this engine with its one default setting",
        percent(least),
        range(&short)
    );
    if more.is_empty() {
        text += ".";
    } else {
        text += &format!(", with more memory {}.", range(&more));
    }
    let mut lost: Vec<&Beside> = cells.iter().filter(|cell| cell.times() < 1.0).collect();
    lost.sort_by(|a, b| a.times().total_cmp(&b.times()));
    if lost.is_empty() {
        text += &format!(" In none of the {} cells is RocksDB's less.\n", cells.len());
    } else {
        let named = lost.iter().map(|cell| {
            format!(
                "{} at {} ({} against {})",
                cell.place,
                percent(cell.percent),
                Cell::from(cell.ours),
                Cell::from(cell.theirs)
            )
        });
        text += &format!(
            " **It loses in {} of {} cells**: {}.\n",
            lost.len(),
            cells.len(),
            named.collect::<Vec<_>>().join("; ")
        );
    }
    text
}

fn percent(percent: f64) -> String {
    format!("{percent} %")
}

/// Panels of pages by memory, one for each kind of lookups: this engine, RocksDB and fjall.
pub(super) fn panels(table: &Report) -> Vec<Panel> {
    const MEMORY: &str = "memory, % of filters and indexes";
    const PAGES: &str = "pages read per lookup";
    let mut points = Report::titled(PAGES);
    for row in &table.rows {
        for name in [OURS, BEST, CONTAINED] {
            points.add(row! {
                "": kind(table, row),
                "engine": name,
                MEMORY: number(table, row, "budget %"),
                PAGES: number(table, row, name),
            });
        }
    }
    let panels = plot::of_report(&points, "", "engine", MEMORY, PAGES);
    panels.into_iter().map(Panel::logarithmic).collect()
}

/// Panels of pages after each step, at the least budget: one for each distribution.
pub(super) fn steps(table: &Report) -> Vec<Panel> {
    let budget = |row: &[Cell]| number(table, row, "budget %").unwrap_or(f64::INFINITY);
    let least = table
        .rows
        .iter()
        .map(|row| budget(row))
        .fold(f64::INFINITY, f64::min);
    let mut panels: Vec<Panel> = Vec::new();
    for row in table.rows.iter().filter(|row| budget(row) == least) {
        let title = row.first().map(ToString::to_string).unwrap_or_default();
        let title = format!("{title}, {} of memory", percent(least));
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel {
                title,
                x: "step".into(),
                y: "pages read per lookup".into(),
                ..Panel::default()
            });
        }
        let mut pages = number(table, row, "pages of the first").unwrap_or(f64::NAN);
        let mut series = Series::new(kind(table, row));
        series.points.push((1.0, pages));
        // Factors stand between the first step's pages and the last's.
        let factors = row.get(4..row.len().saturating_sub(1)).unwrap_or_default();
        for (at, factor) in factors.iter().enumerate() {
            if let Cell::Number(factor) = factor {
                pages /= factor;
            }
            series.points.push(((at + 2) as f64, pages));
        }
        if let Some(panel) = panels.last_mut() {
            panel.series.push(series);
        }
    }
    panels
}

/// For each workload and number of threads our throughput over that of each peer: of several
/// settings of a peer its best.
pub(super) fn ratios(table: &Report) -> Dots {
    let best = |row: &[Cell], family: &str| {
        let columns = table.columns.iter().enumerate();
        let rates = columns.filter_map(|(at, column)| {
            let engine = column.strip_suffix(" op/s")?;
            let own = engine.split(':').next() == Some(family);
            match row.get(at) {
                Some(Cell::Number(rate)) if own => Some(*rate),
                _ => None,
            }
        });
        rates.reduce(f64::max)
    };
    let mut dots = compare::dots(table);
    let lines = table.rows.iter().filter(|row| compare::is_throughput(row));
    let lines: Vec<&Vec<Cell>> = lines.collect();
    let series = PEERS.map(|(family, name)| {
        let numbered = lines.iter().enumerate();
        let times = numbered.filter_map(|(number, row)| {
            let (ours, theirs) = (best(row, "shamba")?, best(row, family)?);
            (theirs > 0.0).then(|| (ours / theirs, number as f64))
        });
        Series::of(name, times)
    });
    dots.series = series.into();
    dots.title = "Our throughput, times that of each peer's best setting".to_owned();
    dots.x = "times as fast".to_owned();
    dots.aimed = Some(1.0);
    dots
}

/// A table's columns of these names.
pub(super) fn only(table: &Report, names: &[&str]) -> Report {
    let columns = table.columns.iter().enumerate();
    let kept: Vec<usize> = columns
        .filter(|(_, name)| names.contains(&name.as_str()))
        .map(|(at, _)| at)
        .collect();
    let of = |row: &Vec<Cell>| kept.iter().filter_map(|at| row.get(*at).cloned()).collect();
    Report {
        title: table.title.clone(),
        columns: kept
            .iter()
            .filter_map(|at| table.columns.get(*at).cloned())
            .collect(),
        rows: table.rows.iter().map(of).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Report {
        let cells = [
            (0.0, 10.0, 1.0, 1.5),
            (0.0, 40.0, 0.1, 0.3),
            (1.0, 10.0, 2.0, 2.2),
            (1.0, 40.0, 0.6, 0.5),
        ];
        Report::of("Pages", cells, |(existing, budget, ours, theirs)| {
            row! { "distribution": "uniform", "existing": existing, "budget %": budget,
            OURS: ours, "other": 7.0, BEST: theirs }
        })
    }

    #[test]
    fn the_sentences_say_how_much_less_is_read_and_where_more() {
        let text = told(&beside(&pages()));
        assert!(text.contains("1.10 to 1.50 times (median 1.30)"), "{text}");
        assert!(
            text.contains("with more memory 0.83 to 3.00 times"),
            "{text}"
        );
        assert!(
            text.contains(
                "loses in 1 of 4 cells**: uniform, existing keys at 40 % (0.600 against 0.500)"
            ),
            "{text}"
        );
        let mut table = pages();
        table.rows.pop();
        assert!(told(&beside(&table)).contains("In none of the 3 cells"));
    }

    #[test]
    fn pages_are_drawn_by_memory_for_those_compared() {
        let panels = panels(&pages());
        let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["uniform, absent keys", "uniform, existing keys"]);
        assert_eq!(panels[1].series[1].points, [(10.0, 2.2), (40.0, 0.5)]);
        assert_eq!(panels[0].series.len(), 2);
    }

    #[test]
    fn steps_are_pages_again() {
        let table = Report::of("Times", [10.0, 40.0], |budget| {
            row! { "distribution": "uniform", "existing": 0.0, "budget %": budget,
            "pages of the first": 6.0, "b": 2.0, "c": 1.5, "pages of the last": 2.0 }
        });
        let panels = steps(&table);
        assert_eq!(panels.len(), 1);
        assert_eq!(
            panels[0].series[0].points,
            [(1.0, 6.0), (2.0, 3.0), (3.0, 2.0)]
        );
    }

    #[test]
    fn the_best_setting_of_each_peer_counts() {
        let table = Report::of(
            "",
            [("fillrandom", 4.0), ("size on disk, MiB", 1.0)],
            |(phase, rate)| {
                row! { "phase": phase, "threads": "1", "shamba op/s": rate, "shamba p99 us": 1.0,
                "rocksdb op/s": 1.0, "rocksdb:hash op/s": 2.0, "redb op/s": 8.0 }
            },
        );
        let dots = ratios(&table);
        assert_eq!(dots.rows, ["fillrandom, 1 thread"]);
        let points = dots.series.iter().map(|series| &series.points[..]);
        assert_eq!(
            points.collect::<Vec<_>>(),
            [&[(2.0, 0.0)][..], &[], &[(0.5, 0.0)]]
        );
    }
}
