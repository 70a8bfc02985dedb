//! One page that is read in a minute: how many times fewer pages this engine reads than RocksDB,
//! where it loses, what each of its ideas gives, and how the papers' best known figures came out.
//! Made from results alone, so that no number stands in it by hand.
use super::catalogue::CATALOGUE;
use super::claim::{Claim, TOLERANCE, UNBOUNDED, Verdict};
use super::ours::pressure::{CONTAINED, MORE};
use super::ours::rocksdb::BEST;
use super::page::{folded, places, source};
use super::{Ended, Experiment, Findings, seeds};
use crate::plot::{self, Dots, Panel, Series};
use crate::report::{Cell, Report, median};
use crate::{Result, compare, engine, row};
use std::path::Path;

/// The column of this engine in the tables of pages per lookup.
const OURS: &str = "our default";

/// The columns that are shown.
const LINES: [&str; 3] = [OURS, BEST, CONTAINED];

/// Engines whose throughput is compared: the beginnings of their names, in this order.
const PEERS: [(&str, &str); 3] = [("rocksdb", "RocksDB"), ("fjall", "fjall"), ("redb", "redb")];

/// What is told of an experiment's findings, with pictures in a folder.
type Section = fn(&Path, &Findings) -> Result<String>;

/// Writes `summary.md` and its pictures, each for light and for dark pages, into `dir`; `paper` are
/// results at a larger scale.
pub(super) fn write(
    dir: &Path,
    ended: &[(&Experiment, Ended)],
    paper: &[(&Experiment, Ended)],
) -> Result<()> {
    let sections: [(&str, Section); 3] = [
        ("ours-pressure", pressure),
        ("ours-ablation", ablation),
        ("ours-compare", throughput),
    ];
    let mut text = String::from("# SHaMBa in a minute\n\n");
    for (name, section) in sections {
        let own = ended.iter().find(|(known, _)| known.name == name);
        if let Some(Ok(findings)) = own.map(|(_, ended)| &ended.outcome) {
            text += &section(dir, findings)?;
        }
    }
    text += &headlines(dir, ended, paper)?;
    text += &places(ended);
    if !paper.is_empty() {
        text += &format!("At a larger scale: {}", places(paper));
    }
    text += "Every experiment, its setting, tables and verdicts: [results](results.md).\n\n";
    Ok(std::fs::write(dir.join("summary.md"), text)?)
}

/// A picture, drawn by `save` on white paper, also in the colours of a dark page.
fn picture(
    dir: &Path,
    name: &str,
    what: &str,
    save: impl FnOnce(&Path) -> Result<()>,
) -> Result<String> {
    let light = format!("summary-{name}.svg");
    let dark = format!("summary-{name}-dark.svg");
    save(&dir.join(&light))?;
    let drawing = std::fs::read_to_string(dir.join(&light))?;
    let darkened = drawing.replace("#FFFFFF", "#0D1117");
    std::fs::write(dir.join(&dark), darkened.replace("#000000", "#E6EDF3"))?;
    Ok(format!(
        "<picture><source media=\"(prefers-color-scheme: dark)\" srcset=\"{dark}\">\
         <img alt=\"{what}\" src=\"{light}\"></picture>\n\n"
    ))
}

/// How many times fewer pages than RocksDB at its best, where it loses, and the picture.
fn pressure(dir: &Path, findings: &Findings) -> Result<String> {
    let spread = findings
        .tables
        .get(1)
        .filter(|table| seeds::is_spread(table));
    let cells = findings.tables.first();
    let cells = cells.map_or_else(Vec::new, |table| beside(table, spread));
    let mut text = match cells[..] {
        [] => "RocksDB is not among these results.\n\n".to_owned(),
        _ => told(&cells),
    };
    text += "## Pages read per lookup, by memory\n\n";
    let mut panels = findings.panels.clone();
    for panel in &mut panels {
        let shown = |line: &Series| LINES.contains(&line.name.as_str());
        panel.series.retain(shown);
    }
    let what = "Pages read per lookup by memory";
    text += &picture(dir, "pages", what, |path| plot::save(path, &panels, 3))?;
    text += &format!("{}\n\n", findings.setting);
    let place = ["distribution", "existing", "budget %"];
    let shown = [place, LINES].concat();
    for table in &findings.tables {
        if table.column(OURS).is_some() && table.column("existing").is_some() {
            text += &folded(&table.title, &table.columns_of(&shown));
        }
    }
    Ok(text)
}

/// A cell of the comparison with RocksDB: where, and the pages of both.
struct Beside {
    place: String,
    percent: f64,
    ours: f64,
    theirs: f64,
    /// Whether one of both is ahead with every seed.
    is_certain: bool,
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

    fn told(&self) -> String {
        let alike = (self.ours / self.theirs - 1.0).abs() < 0.01;
        let exact = |pages: f64| {
            if pages < 0.01 || alike {
                format!("{pages:.4}")
            } else {
                Cell::from(pages).to_string()
            }
        };
        let [ours, theirs] = [self.ours, self.theirs].map(exact);
        format!(
            "{} at {} % ({ours} against {theirs})",
            self.place, self.percent
        )
    }
}

/// The cells of a table of pages in which both this engine and RocksDB stand; `spread` has the
/// lowest and highest difference of the seeds.
fn beside(table: &Report, spread: Option<&Report>) -> Vec<Beside> {
    let cell = |(at, row): (usize, &Vec<Cell>)| {
        let kind = match table.number(row, "existing")? {
            0.0 => "absent keys".to_owned(),
            1.0 => "existing keys".to_owned(),
            share => format!("{:.0} % existing", share * 100.0),
        };
        let [ours, theirs] = [OURS, BEST].map(|engine| table.number(row, engine));
        let (ours, theirs) = (ours?, theirs?);
        let more = spread.and_then(|spread| seeds::ends(spread, at, MORE));
        let (least, most) = more.unwrap_or((theirs - ours, theirs - ours));
        Some(Beside {
            place: format!("{}, {kind}", row.first()?),
            percent: table.number(row, "budget %")?,
            ours,
            theirs,
            is_certain: least > 0.0 || most < 0.0,
        })
    };
    table.rows.iter().enumerate().filter_map(cell).collect()
}

/// The two sentences: how many times fewer pages, and where more.
fn told(cells: &[Beside]) -> String {
    let percents = cells.iter().map(|cell| cell.percent);
    let least = percents.fold(f64::INFINITY, f64::min);
    let (short, more): (Vec<&Beside>, Vec<&Beside>) =
        cells.iter().partition(|cell| cell.percent == least);
    let range = |cells: &[&Beside]| {
        let mut times: Vec<f64> = cells.iter().map(|cell| cell.times()).collect();
        times.sort_by(f64::total_cmp);
        let ends = (times.first().zip(times.last())).zip(median(&times));
        ends.map_or(String::new(), |((least, most), median)| {
            format!("{least:.2} to {most:.2} times (median {median:.2})")
        })
    };
    let more = match more[..] {
        [] => ".".to_owned(),
        _ => format!(", with more memory {}.", range(&more)),
    };
    let less = cells.iter().filter(|cell| cell.times() < 1.0);
    let mut lost: Vec<&Beside> = less.filter(|cell| cell.is_certain).collect();
    lost.sort_by(|a, b| a.times().total_cmp(&b.times()));
    let level = cells.iter().filter(|cell| !cell.is_certain).count();
    let level = match level {
        0 => String::new(),
        _ => format!(" In {level} neither reads less with every seed."),
    };
    let (count, all) = (lost.len(), cells.len());
    let lost: Vec<String> = lost.into_iter().map(Beside::told).collect();
    let lost = match count {
        0 => format!("In none of the {all} cells is RocksDB's less.{level}"),
        _ => format!(
            "**SHaMBa loses to it in {count} of {all} cells**: {}.{level}",
            lost.join("; ")
        ),
    };
    format!(
        "With memory for {least} % of its filters and indexes RocksDB, with the best of the settings that were tried \
         for each cell (Bloom and ribbon filters of several bits a key, with and without filters in the last level, row \
         caches: [named there](results/ours.md#ours-pressure)), reads **{}** the pages of this engine with its one default setting{more} \
         {lost}\n\n",
        range(&short)
    )
}

/// What each idea gives.
fn ablation(dir: &Path, findings: &Findings) -> Result<String> {
    let panels: &[Panel] = &findings.panels;
    let what = "Pages read per lookup with each idea";
    let picture = picture(dir, "ablation", what, |path| plot::save(path, panels, 3))?;
    let tables = findings.tables.iter().take(1);
    let table: String = tables.map(|table| folded(&table.title, table)).collect();
    Ok(format!("## What each idea gives\n\n{picture}{table}"))
}

/// Throughput with memory plenty, beside each peer in the build.
fn throughput(dir: &Path, findings: &Findings) -> Result<String> {
    let Some(table) = findings.tables.first() else {
        return Ok(String::new());
    };
    let dots = ratios(table);
    let all = dots
        .series
        .iter()
        .map(|series| series.points.len())
        .sum::<usize>();
    if all == 0 {
        return Ok(String::new());
    }
    let [ahead, lost, level] = counts(table, findings.tables.get(1));
    let setting = &findings.setting;
    let what = "Our throughput beside others'";
    let picture = picture(dir, "throughput", what, |path| dots.save(path))?;
    Ok(format!(
        "## Throughput, and under pressure\n\nOurs is ahead in {ahead} of {all} lines and behind in {lost}; in {level} \
         the repetitions of both overlap (medians below 1 are in orange), beside the best of each peer's settings that [were \
         tried](results/ours.md#ours-compare). {setting}\n\n{picture}"
    ))
}

/// In how many lines all our repetitions are quicker than all of a peer's best setting, in how many
/// slower, and in how many neither.
fn counts(table: &Report, repetitions: Option<&Report>) -> [usize; 3] {
    let rates = |row: &[Cell], engine: &str| -> Vec<f64> {
        let rows = repetitions.iter().flat_map(|table| &table.rows);
        let same = rows.filter(|of| match &of[..] {
            [phase, threads, of, _] => {
                row.get(..2) == Some(&[phase.clone(), threads.clone()][..])
                    && of.to_string() == engine
            }
            _ => false,
        });
        let rate = |of: &Vec<Cell>| match of.last() {
            Some(Cell::Number(rate)) => Some(*rate),
            _ => None,
        };
        same.filter_map(rate).collect()
    };
    let mut counts = [0; 3];
    for row in table.rows.iter().filter(|row| compare::is_throughput(row)) {
        for (family, _) in PEERS {
            let specs = table
                .columns
                .iter()
                .filter_map(|column| column.strip_suffix(" op/s"));
            let own = specs.filter(|spec| engine::family(spec) == family);
            let medians = own.filter_map(|spec| {
                let rate = table.number(row, &format!("{spec} op/s"))?;
                Some((spec, rate))
            });
            let Some((spec, theirs)) = medians.max_by(|a, b| a.1.total_cmp(&b.1)) else {
                continue;
            };
            let Some(ours) = table.number(row, "shamba op/s") else {
                continue;
            };
            let [own, peers] = [("shamba", ours), (spec, theirs)].map(|(engine, median)| {
                let rates = rates(row, engine);
                let rates = if rates.is_empty() {
                    vec![median]
                } else {
                    rates
                };
                let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
                (least, rates.into_iter().fold(0.0, f64::max))
            });
            let [ahead, behind, level] = &mut counts;
            *if own.0 > peers.1 {
                ahead
            } else if own.1 < peers.0 {
                behind
            } else {
                level
            } += 1;
        }
    }
    counts
}

/// For each workload and number of threads our throughput over that of each peer: of several
/// settings of a peer its best.
fn ratios(table: &Report) -> Dots {
    let best = |row: &[Cell], family: &str| {
        let of = |column: &&String| {
            let spec = column.strip_suffix(" op/s");
            spec.map(engine::family) == Some(family)
        };
        let columns = table.columns.iter().filter(of);
        let rates = columns.filter_map(|column| table.number(row, column));
        rates.reduce(f64::max)
    };
    let rows = table.rows.iter();
    let lines = || {
        rows.clone()
            .filter(|row| compare::is_throughput(row))
            .enumerate()
    };
    let series = PEERS.map(|(family, name)| {
        let times = lines().filter_map(|(number, row)| {
            let (ours, theirs) = (best(row, "shamba")?, best(row, family)?);
            (theirs > 0.0).then(|| (ours / theirs, number as f64))
        });
        Series::of(name, times)
    });
    Dots {
        title: "Our throughput, times that of each peer's best of the settings tried".to_owned(),
        x: "times as fast".to_owned(),
        series: series.into(),
        aimed: Some(1.0),
        ..compare::dots(table)
    }
}

/// The claims among results that are a paper's best known figures.
fn best_known<'a>(ended: &'a [(&Experiment, Ended)]) -> Vec<(&'static str, &'a Claim)> {
    let mut claims: Vec<(&str, &Claim)> = Vec::new();
    for [name, beginning] in &CATALOGUE.headlines {
        let own = ended.iter().filter(|(known, _)| known.name == *name);
        for (known, ended) in own {
            let found = ended.outcome.iter().flat_map(|findings| &findings.claims);
            let headlines = found.filter(|claim| claim.what.starts_with(beginning.as_str()));
            claims.extend(headlines.map(|claim| (source(known).0, claim)));
        }
    }
    claims
}

/// The papers' best known figures, and what came of them.
fn headlines(
    dir: &Path,
    ended: &[(&Experiment, Ended)],
    paper: &[(&Experiment, Ended)],
) -> Result<String> {
    let (claims, larger) = (best_known(ended), best_known(paper));
    let table = Report::of("Headlines", &claims, |(paper, claim)| {
        let mut row = row! {
            "of": paper,
            "claim": claim.what.clone(),
            "claimed": claim.claimed.clone(),
            "measured": claim.measured.clone(),
            "verdict": claim.in_words(),
        };
        if !larger.is_empty() {
            let same = larger.iter().find(|(_, of)| of.what == claim.what);
            let told = same.map(|(_, of)| (of.measured.clone(), of.in_words()));
            let (measured, verdict) = told.unwrap_or(("-".to_owned(), "-".to_owned()));
            row.extend(row! {
                "at a larger scale": measured,
                "verdict there": verdict,
            });
        }
        // Where two scales are shown, of the first.
        let why = match larger[..] {
            [] => "why",
            _ => "why, at the scale measured first",
        };
        row.extend(row! { why: claim.explanation().unwrap_or_default() });
        row
    });
    let dots = beside_the_papers(&claims);
    let what = "The papers' figures beside ours";
    let picture = match dots.rows[..] {
        [] => String::new(),
        _ => picture(dir, "headlines", what, |path| dots.save(path))?,
    };
    Ok(match claims[..] {
        [] => String::new(),
        _ => format!(
            "## What the papers are known for\n\n{picture}{}",
            folded(&table.title, &table)
        ),
    })
}

/// Each claim that has ranges above 0 as a row: the paper's figure, or the upper end of its range,
/// is 1. What is not comparable is there in a colour of its own.
fn beside_the_papers(claims: &[(&str, &Claim)]) -> Dots {
    let mut dots = Dots {
        title: "The paper's figure or range, a tenth more and less (bar), and ours".into(),
        x: "times the paper's figure (the upper end of its range)".into(),
        series: [
            "measured here",
            "by a model",
            "not comparable (the table says why)",
        ]
        .map(Series::new)
        .into(),
        ..Dots::default()
    };
    for (paper, claim) in claims {
        let Some([(from, to), (least, most)]) = claim.ranges else {
            continue;
        };
        if from > 0.0 && to > 0.0 && most > 0.0 {
            let row = dots.rows.len() as f64;
            // Of "at least" the paper's figure is 1, and the bar goes on to what was measured.
            let one = if to < UNBOUNDED { to } else { from };
            let to = if to < UNBOUNDED { to } else { from.max(most) };
            // The scale is logarithmic: of a range from nothing on the upper end is shown.
            let mut ends = vec![(least / one, row), (most / one, row)];
            ends.retain(|(times, _)| *times > 0.0);
            ends.dedup();
            let series = match claim.verdict {
                Verdict::ModelOnly => 1,
                Verdict::NotComparable => 2,
                _ => 0,
            };
            dots.series[series].points.extend(ends);
            dots.rows.push(format!("{paper}: {}", claim.what));
            let bar = ((1.0 - TOLERANCE) * from / one, (1.0 + TOLERANCE) * to / one);
            dots.spans.push(Some(bar));
        }
    }
    dots
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
        let text = told(&beside(&pages(), None));
        assert!(text.contains("1.10 to 1.50 times (median 1.30)"), "{text}");
        assert!(
            text.contains("with more memory 0.83 to 3.00 times"),
            "{text}"
        );
        assert!(
            text.contains(
                "loses to it in 1 of 4 cells**: uniform, existing keys at 40 % (0.600 against 0.500)"
            ),
            "{text}"
        );
        let mut table = pages();
        table.rows.pop();
        assert!(told(&beside(&table, None)).contains("In none of the 3 cells"));
        // With one seed ours, with another RocksDB's.
        let with = |more: &str| {
            let mut spread = pages();
            spread.columns.push(MORE.to_owned());
            for row in &mut spread.rows {
                row.push(1.0.into());
            }
            spread.rows[3].pop();
            spread.rows[3].push(more.into());
            told(&beside(&pages(), Some(&spread)))
        };
        let text = with("-200 to 50.0");
        let level = "In none of the 4 cells is RocksDB's less. In 1 neither reads less with every";
        assert!(text.contains(level), "{text}");
        let text = with("-200 to -0.100");
        assert!(
            text.contains("loses to it in 1 of 4 cells") && !text.contains("neither"),
            "{text}"
        );
    }

    #[test]
    fn what_repetitions_do_not_tell_apart_is_no_lead() {
        let phases = [
            ("fillrandom", 5.0, 4.0),
            ("overwrite", 2.0, 3.0),
            ("ycsb-a", 4.0, 3.5),
        ];
        let table = Report::of("", phases, |(phase, ours, theirs)| {
            row! { "phase": phase, "threads": "1", "shamba op/s": ours, "redb op/s": theirs }
        });
        assert_eq!(counts(&table, None), [2, 1, 0]);
        // The last line's from 3 to 5, and from 2 to 4.
        let all = phases.iter().flat_map(|&(phase, ours, theirs)| {
            let apart = if phase == "ycsb-a" { 1.0 } else { 0.1 };
            let of = move |engine, rate: f64| {
                [(phase, engine, rate - apart), (phase, engine, rate + apart)]
            };
            of("shamba", ours).into_iter().chain(of("redb", theirs))
        });
        let all = Report::of("", all, |(phase, engine, rate)| {
            row! { "phase": phase, "threads": "1", "engine": engine, "op/s": rate }
        });
        assert_eq!(counts(&table, Some(&all)), [1, 1, 1]);
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

    #[test]
    fn headlines_are_drawn_beside_their_papers_ranges_and_are_of_known_experiments() {
        let range = Claim::range("reads saved, %", (50.0, 80.0), &[40.0, 60.0]);
        let model = range.clone().by_model();
        let none = Claim::statement("", "", "", true);
        let dots = beside_the_papers(&[("one", &range), ("two", &model), ("three", &none)]);
        assert_eq!(dots.rows, ["one: reads saved, %", "two: reads saved, %"]);
        assert_eq!(dots.spans[0], Some((0.9 * 0.625, 1.1)));
        assert_eq!(dots.series[0].points, [(0.5, 0.0), (0.75, 0.0)]);
        assert_eq!(dots.series[1].points, [(0.5, 1.0), (0.75, 1.0)]);
        // What cannot be compared is told apart, and "at least" goes on to what was measured.
        let apart = range.without_verdict("other keys");
        let least = Claim::from_on("times", 2.0, &[3.0]);
        let dots = beside_the_papers(&[("four", &apart), ("five", &least)]);
        assert_eq!(dots.rows, ["four: reads saved, %", "five: times"]);
        assert_eq!(
            dots.spans[1].map(|(from, to)| (from, (to * 100.0).round())),
            Some((0.9, 165.0))
        );
        assert_eq!(dots.series[0].points, [(1.5, 1.0)]);
        assert_eq!(dots.series[2].points, [(0.5, 0.0), (0.75, 0.0)]);
        let known = crate::reproduce::all();
        for [name, _] in &CATALOGUE.headlines {
            assert!(known.iter().any(|known| known.name == *name), "{name}");
        }
    }
}
