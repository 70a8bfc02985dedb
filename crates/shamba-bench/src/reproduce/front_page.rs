//! One page that is read in a minute: how many times fewer pages this engine reads than RocksDB,
//! where it loses, what each of its ideas gives, and how the papers' best known figures came out.
//! Made from results alone, so that no number stands in it by hand.
mod headlines;
mod tables;

use super::ours::pressure::CONTAINED;
use super::ours::rocksdb::BEST;
use super::page::{SOURCES, is_of, places};
use super::{Ended, Experiment, Findings};
use crate::plot::{self, Dots, Series};
use crate::report::Report;
use crate::{Result, row};
use std::fmt::Write as _;
use std::path::Path;
use tables::{OURS, beside, only, panels, ratios, steps, told};

pub(super) use headlines::HEADLINES;

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
    for line in places(ended) {
        page.add(format_args!("{line}.\n"))?;
    }
    page.add("Every experiment, its setting, tables and verdicts: [results](results.md).\n")?;
    Ok(std::fs::write(dir.join("summary.md"), page.text)?)
}

/// The page so far.
struct Page<'a> {
    dir: &'a Path,
    text: String,
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
            .chain([OURS, BEST, CONTAINED])
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
        let dots = ratios(table);
        let times = || dots.series.iter().flat_map(|series| &series.points);
        let all = times().count();
        if all == 0 {
            return Ok(());
        }
        let lost = times().filter(|(times, _)| *times < 1.0).count();
        self.add("## Throughput, and under pressure\n")?;
        self.add(format_args!(
            "Ours is ahead in {} of {all} lines, behind in {lost} (in orange). {}\n",
            all - lost,
            findings.setting
        ))?;
        self.picture("throughput", "Our throughput beside others'", |path| {
            dots.save(path)
        })
    }

    /// The papers' best known figures, and what came of them.
    fn headlines(&mut self, ended: &[(&Experiment, Ended)]) -> Result<()> {
        let mut table = Report::titled("Headlines");
        let mut dots = Dots {
            title: "The paper's figure or range, a tenth more and less (bar), and ours".into(),
            x: "times the paper's figure (the upper end of its range)".into(),
            series: ["measured here", "by a model"].map(Series::new).into(),
            ..Dots::default()
        };
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
                if let Some(row) = headlines::row_of(claim) {
                    let number = dots.rows.len() as f64;
                    let points = row.dots.iter().map(|dot| (*dot, number));
                    dots.series[usize::from(row.by_model)].points.extend(points);
                    dots.rows.push(format!("{paper}: {}", headline.label));
                    dots.spans.push(Some(row.span));
                }
            }
        }
        if table.rows.is_empty() {
            return Ok(());
        }
        self.add("## What the papers are known for\n")?;
        if !dots.rows.is_empty() {
            self.picture("headlines", "The papers' figures beside ours", |path| {
                dots.save(path)
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
