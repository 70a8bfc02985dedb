//! One page that is read in a minute: how many times fewer pages this engine reads than RocksDB,
//! where it loses, what each of its ideas gives, and how the papers' best known figures came out.
//! Made from results alone, so that no number stands in it by hand.
use super::claim::{Claim, TOLERANCE, Verdict};
use super::ours::rocksdb::BEST;
use super::page::{SOURCES, is_of};
use super::{Ended, Experiment, Findings};
use crate::plot::spans::{Row, Spans};
use crate::plot::{self, Panel, Series};
use crate::report::{Cell, Report, median};
use crate::{Result, compare, row};
use std::fmt::Write as _;
use std::path::Path;

/// The column of this engine, and of fjall, in the tables of pages per lookup.
const OURS: &str = "our default";
const FJALL: &str = "fjall";

/// A claim by which a paper is known.
pub(super) struct Headline {
    pub(super) experiment: &'static str,
    /// How the claim begins.
    pub(super) claim: &'static str,
    /// What it is called in the picture.
    label: &'static str,
}

/// A headline from its parts, so that the list reads as a table.
const fn headline(experiment: &'static str, claim: &'static str, label: &'static str) -> Headline {
    Headline {
        experiment,
        claim,
        label,
    }
}

pub(super) const HEADLINES: [Headline; 12] = [
    headline(
        "shamba-figure-6",
        "shamba-eq-f+paper: part of the memory needed",
        "memory for as many reads, part of",
    ),
    headline(
        "shamba-table-1",
        "times as much is read with 10 % of memory",
        "reads with 10 % of memory, times",
    ),
    headline(
        "shamba-figure-16",
        "shamba-eq-f+paper on disk: times as fast",
        "speed under pressure on a disk, times",
    ),
    headline(
        "hash-sharing-figure-11",
        "gain, sata-ssd",
        "gain on a SATA SSD, %",
    ),
    headline(
        "hash-sharing-figure-11",
        "gain, ram",
        "gain on a RAM disk, %",
    ),
    headline(
        "elasticbf-micro-benchmark",
        "uniform: I/Os saved",
        "I/Os saved, uniform, %",
    ),
    headline(
        "elasticbf-micro-benchmark",
        "times the read throughput",
        "read throughput, times",
    ),
    headline(
        "elasticbf-against-monkey",
        "times Monkey's throughput, 0 existing",
        "beside Monkey, absent keys, times",
    ),
    headline(
        "monkey-figure-10",
        "cost that general saves beside uniform",
        "lookup cost saved for a mix, %",
    ),
    headline(
        "monkey-figure-12",
        "searches that Monkey saves with more entries",
        "searches saved, more entries, %",
    ),
    headline(
        "monkey-figure-12",
        "searches that Monkey saves with more bytes",
        "searches saved, larger entries, %",
    ),
    headline(
        "monkey-figure-13",
        "share of lookup cost that Monkey saves",
        "lookup cost saved at one update cost, %",
    ),
];

/// Engines whose throughput is compared: the beginnings of their names, in this order.
const PEERS: [(&str, &str); 3] = [("rocksdb", "RocksDB"), ("fjall", "fjall"), ("redb", "redb")];

/// Writes `summary.md` and its pictures, each for light and for dark pages, into `dir`.
pub(super) fn write(dir: &Path, ended: &[(&Experiment, Ended)]) -> Result<()> {
    let found = |name: &str| {
        let one = ended.iter().find(|(known, _)| known.name == name);
        one.and_then(|(_, ended)| ended.outcome.as_ref().ok())
    };
    let mut page = Page {
        dir,
        text: String::from("# SHaMBa in a minute\n\n"),
    };
    if let Some(findings) = found("ours-pressure") {
        page.pressure(findings)?;
    }
    if let Some(findings) = found("ours-ablation") {
        page.ablation(findings)?;
    }
    if let Some(findings) = found("ours-compare") {
        page.throughput(findings)?;
    }
    page.headlines(ended)?;
    page.add("Every experiment, its setting, tables and verdicts: [results](results.md).\n")?;
    Ok(std::fs::write(dir.join("summary.md"), page.text)?)
}

/// The page so far.
struct Page<'a> {
    dir: &'a Path,
    text: String,
}

/// A cell of the comparison with RocksDB: where, and the pages of both.
struct Beside {
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

impl Page<'_> {
    fn add(&mut self, text: impl std::fmt::Display) -> Result<()> {
        // Writing to a string cannot fail.
        writeln!(self.text, "{text}")
            .map_err(|_| crate::Error::Io(std::io::Error::other("formatting")))
    }

    /// A picture, drawn by `save` on white paper, also in the colours of a dark page.
    fn picture(
        &mut self,
        name: &str,
        what: &str,
        save: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let light = format!("summary-{name}.svg");
        let dark = format!("summary-{name}-dark.svg");
        save(&self.dir.join(&light))?;
        let text = std::fs::read_to_string(self.dir.join(&light))?;
        std::fs::write(self.dir.join(&dark), darkened(&text))?;
        self.add(format_args!(
            "<picture><source media=\"(prefers-color-scheme: dark)\" srcset=\"{dark}\">\
             <img alt=\"{what}\" src=\"{light}\"></picture>\n"
        ))
    }

    /// How many times fewer pages than RocksDB at its best, where it loses, and the picture.
    fn pressure(&mut self, findings: &Findings) -> Result<()> {
        let Some(table) = findings.tables.first() else {
            return Ok(());
        };
        let cells = beside(table);
        if cells.is_empty() {
            self.add("RocksDB is not among these results.\n")?;
        } else {
            self.add(told(&cells))?;
        }
        self.add("## Pages read per lookup, by memory\n")?;
        let panels = panels(table);
        self.picture("pages", "Pages read per lookup by memory", |path| {
            plot::save(path, &panels, 3)
        })?;
        self.add(format_args!("{}\n", findings.setting))?;
        let shown: Vec<&str> = ["distribution", "existing", "budget %"]
            .into_iter()
            .chain([OURS, BEST, FJALL])
            .collect();
        for table in &findings.tables {
            let ours = table.columns.iter().any(|column| column == OURS);
            if ours && table.columns.iter().any(|column| column == "existing") {
                self.table(&only(table, &shown))?;
            }
        }
        Ok(())
    }

    /// What each idea gives, at the least budget.
    fn ablation(&mut self, findings: &Findings) -> Result<()> {
        let Some(table) = findings.tables.first() else {
            return Ok(());
        };
        self.add("## What each idea gives\n")?;
        let steps = steps(table);
        self.picture(
            "ablation",
            "Pages read per lookup after each idea",
            |path| plot::save(path, &steps, 3),
        )?;
        let names = table.columns.iter().skip(4);
        let names: Vec<&String> = names.take(table.columns.len().saturating_sub(5)).collect();
        self.add("1. the papers' baseline with partitioned filters: Bloom, 10 bits, LRU")?;
        for (at, name) in names.iter().enumerate() {
            self.add(format_args!("{}. {name}", at + 2))?;
        }
        self.add("")?;
        self.table(table)
    }

    /// Throughput with memory plenty, beside each peer in the build.
    fn throughput(&mut self, findings: &Findings) -> Result<()> {
        let Some(table) = findings.tables.first() else {
            return Ok(());
        };
        let rows = ratios(table);
        if rows.iter().all(|row| row.marks.is_empty()) {
            return Ok(());
        }
        let lost = |row: &Row| row.marks.iter().filter(|mark| mark.1 < 1.0).count();
        let (all, lost) = (
            rows.iter().map(|row| row.marks.len()).sum::<usize>(),
            rows.iter().map(lost).sum::<usize>(),
        );
        self.add("## Throughput, and under pressure\n")?;
        self.add(format_args!(
            "Ours is ahead in {} of {all} lines, behind in {lost} (in orange). {}\n",
            all - lost,
            findings.setting
        ))?;
        let spans = Spans {
            title: "Our throughput, times that of each peer's best setting".into(),
            x: "times as fast".into(),
            kinds: PEERS.map(|(_, name)| name.to_owned()).into(),
            aimed: Some(1.0),
            rows,
        };
        self.picture("throughput", "Our throughput beside others'", |path| {
            spans.save(path)
        })
    }

    /// The papers' best known figures, and what came of them.
    fn headlines(&mut self, ended: &[(&Experiment, Ended)]) -> Result<()> {
        let mut table = Report::titled("Headlines");
        let mut rows = Vec::new();
        for headline in HEADLINES {
            let own = |(known, _): &&(&Experiment, Ended)| known.name == headline.experiment;
            let Some((experiment, ended)) = ended.iter().find(own) else {
                continue;
            };
            let claims = ended.outcome.iter().flat_map(|findings| &findings.claims);
            let source = SOURCES.iter().find(|of| is_of(experiment, **of));
            let paper = source.map_or("", |of| of.0);
            for claim in claims.filter(|claim| claim.what.starts_with(headline.claim)) {
                table.add(row! {
                    "of": paper,
                    "claim": claim.what.clone(),
                    "claimed": claim.claimed.clone(),
                    "measured": claim.measured.clone(),
                    "verdict": claim.verdict.to_string(),
                });
                rows.extend(drawn(&format!("{paper}: {}", headline.label), claim));
            }
        }
        if table.rows.is_empty() {
            return Ok(());
        }
        self.add("## What the papers are known for\n")?;
        if !rows.is_empty() {
            let spans = Spans {
                title: "The paper's figure or range, a tenth more and less (bar), and ours".into(),
                x: "times the paper's figure (the upper end of its range)".into(),
                kinds: vec!["measured here".into(), "by a model".into()],
                aimed: None,
                rows,
            };
            self.picture("headlines", "The papers' figures beside ours", |path| {
                spans.save(path)
            })?;
        }
        self.table(&table)
    }

    fn table(&mut self, table: &Report) -> Result<()> {
        self.add(format_args!(
            "<details><summary>{}</summary>\n\n{}\n</details>\n",
            table.title,
            table.to_markdown()
        ))
    }
}

/// An SVG of black on white in the colours of a dark page.
fn darkened(svg: &str) -> String {
    svg.replace("#FFFFFF", "#0D1117")
        .replace("#000000", "#E6EDF3")
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
fn beside(table: &Report) -> Vec<Beside> {
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
fn told(cells: &[Beside]) -> String {
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
fn panels(table: &Report) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for row in &table.rows {
        let title = kind(table, row);
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel {
                title,
                x: "memory, % of filters and indexes".into(),
                y: "pages read per lookup".into(),
                log_y: true,
                series: Vec::new(),
            });
        }
        let Some(panel) = panels.last_mut() else {
            continue;
        };
        for name in [OURS, BEST, FJALL] {
            let (Some(x), Some(y)) = (number(table, row, "budget %"), number(table, row, name))
            else {
                continue;
            };
            match panel.series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push((x, y)),
                None => panel.series.push(Series {
                    points: vec![(x, y)],
                    ..Series::new(name)
                }),
            }
        }
    }
    panels
}

/// Panels of pages after each step, at the least budget: one for each distribution.
fn steps(table: &Report) -> Vec<Panel> {
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
fn ratios(table: &Report) -> Vec<Row> {
    let rates = |row: &[Cell], family: &str| {
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
    let rows = table.rows.iter().filter(|row| compare::is_throughput(row));
    let row = |row: &Vec<Cell>| {
        let ours = rates(row, "shamba")?;
        let marks = PEERS.iter().enumerate().filter_map(|(kind, (family, _))| {
            let theirs = rates(row, family)?;
            (theirs > 0.0).then(|| (kind, ours / theirs))
        });
        Some(Row {
            name: match &row[..] {
                [phase, threads, ..] if threads.to_string() == "1" => format!("{phase}, 1 thread"),
                [phase, threads, ..] => format!("{phase}, {threads} threads"),
                _ => String::new(),
            },
            span: Some((1.0, 1.0)),
            marks: marks.collect(),
        })
    };
    rows.filter_map(row).collect()
}

/// A claim beside its paper's figure, which is 1: the upper end of a range.
fn drawn(name: &str, claim: &Claim) -> Option<Row> {
    let [(from, to), (least, most)] = claim.ranges?;
    let kind = usize::from(claim.verdict == Verdict::ModelOnly);
    let mut marks = vec![(kind, least / to), (kind, most / to)];
    marks.dedup();
    let above_0 = to > 0.0 && from > 0.0 && least > 0.0;
    above_0.then(|| Row {
        name: name.to_owned(),
        span: Some(((1.0 - TOLERANCE) * from / to, 1.0 + TOLERANCE)),
        marks,
    })
}

/// A table's columns of these names.
fn only(table: &Report, names: &[&str]) -> Report {
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
        let rows = ratios(&table);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].name, "fillrandom, 1 thread");
        assert_eq!(rows[0].marks, [(0, 2.0), (2, 0.5)]);
    }

    #[test]
    fn a_headline_is_drawn_beside_its_paper_s_range() {
        let claim = Claim::range("reads saved, %", (50.0, 80.0), &[40.0, 60.0]);
        let row = drawn("Monkey", &claim).unwrap();
        assert_eq!(row.span, Some((0.9 * 0.625, 1.1)));
        assert_eq!(row.marks, [(0, 0.5), (0, 0.75)]);
        assert_eq!(drawn("", &Claim::statement("", "", "", true)), None);
    }
}
