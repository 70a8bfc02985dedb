//! One page that is read in a minute: how many times fewer pages this engine reads than RocksDB,
//! where it loses, what each of its ideas gives, and how the papers' best known figures came out.
//! Made from results alone, so that no number stands in it by hand.
mod throughput;

use super::catalogue::CATALOGUE;
use super::claim::{Claim, TOLERANCE, UNBOUNDED, Verdict, least_of, most_of};
use super::ours::ablation::ALL_STEPS;
use super::ours::pressure::{CONTAINED, MORE};
use super::ours::rocksdb::BEST;
use super::page::{folded, places, source};
use super::{Ended, Experiment, Findings, seeds};
use crate::plot::{self, Dots, Panel, Series};
use crate::report::{Cell, Report, median};
use crate::{Result, row};
use std::path::Path;

/// The column of this engine in the tables of pages per lookup.
const OURS: &str = "our default";

/// The columns that are shown.
const LINES: [&str; 3] = [OURS, BEST, CONTAINED];

/// What is told of an experiment's findings, with pictures in a folder.
type Section = fn(&Path, &Findings) -> Result<String>;

/// Writes `summary.md` and its pictures, each for light and for dark pages, into `dir`; `paper` are
/// results at a larger scale.
pub(super) fn write(
    dir: &Path,
    ended: &[(&Experiment, Ended)],
    paper: &[(&Experiment, Ended)],
) -> Result<()> {
    let sections: [(&str, Section); 5] = [
        ("ours-pressure", pressure),
        ("ours-ablation", ablation),
        ("ours-compare", throughput::section),
        ("shamba-figure-16", by_the_clock),
        ("shamba-figure-13", by_the_clock_beside_partitions),
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
    let cells = findings.tables.first();
    let cells = cells.map_or_else(Vec::new, |table| beside(table, spread_of(findings)));
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
    text += &paragraphs(&findings.notes);
    for table in &findings.tables {
        if table.column(OURS).is_some() && table.column("existing").is_some() {
            text += &folded(&table.title, &table.columns_of(&shown));
        }
    }
    Ok(text)
}

/// The ranges of the first table, where there are several seeds.
fn spread_of(findings: &Findings) -> Option<&Report> {
    let second = findings.tables.get(1);
    second.filter(|table| seeds::is_spread(table))
}

/// A paragraph for each.
fn paragraphs(notes: &[String]) -> String {
    notes.iter().map(|note| format!("{note}\n\n")).collect()
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
    let times = |cells: &[&Beside]| cells.iter().map(|cell| cell.times()).collect::<Vec<f64>>();
    let more = match more[..] {
        [] => ".".to_owned(),
        _ => format!(", with more memory {}.", range_of_times(&times(&more))),
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
            "**SHaMBa loses to it in {count} of {all} cells, in pages read**: {}.{level}",
            lost.join("; ")
        ),
    };
    format!(
        "With memory for {least} % of its filters and indexes RocksDB, with the best of the settings that were tried \
         for each cell (Bloom and ribbon filters of several bits a key, with and without filters in the last level, row \
         caches: [named there](results/ours.md#ours-pressure)), reads **{}** the pages of this engine with its one default setting{more} \
         {lost}\n\n",
        range_of_times(&times(&short))
    )
}

/// The least, the most and the median of how many times.
fn range(times: &[f64]) -> String {
    let ends = median(times).map(|median| (least_of(times), most_of(times), median));
    ends.map_or(String::new(), |(least, most, median)| {
        // What is less than one is not to be read as one.
        let decimals = if (0.995..1.0).contains(&least) { 3 } else { 2 };
        format!("{least:.decimals$} to {most:.2} (median {median:.2})")
    })
}

/// The same, as it is told beside another's.
fn range_of_times(times: &[f64]) -> String {
    range(times).replacen(" (", " times (", 1)
}

/// Of what percentages of memory are, as a setting says it.
fn of_memory(findings: &Findings) -> String {
    let mut parts = findings.setting.split("; ");
    let full = parts.find(|part| part.starts_with("100 % of memory"));
    full.map_or_else(String::new, |full| {
        format!(" Here {full}; above it is what RocksDB's take.")
    })
}

/// How many times as fast our default is as RocksDB with one Bloom filter a file, by the clock.
fn by_the_clock(_: &Path, findings: &Findings) -> Result<String> {
    let Some(table) = findings.tables.first() else {
        return Ok(String::new());
    };
    let spread = spread_of(findings);
    let mut devices: Vec<String> = Vec::new();
    for (at, row) in table.rows.iter().enumerate() {
        if let [device, engine, percent, _, _, Cell::Number(times)] = &row[..]
            && engine.to_string() == OURS
        {
            let ends = spread.and_then(|spread| seeds::ends(spread, at, table.columns.last()?));
            let ends = ends.map_or(String::new(), |(from, to)| {
                format!(" ({from:.2} to {to:.2})")
            });
            let told = format!("{times:.2}{ends} with {percent} %");
            match devices
                .iter_mut()
                .find(|known| known.starts_with(&format!("{device}: ")))
            {
                Some(known) => *known += &format!(", {told}"),
                None => devices.push(format!("{device}: {told}")),
            }
        }
    }
    Ok(match devices[..] {
        [] => String::new(),
        _ => format!(
            "By the clock, of absent keys, our default is so many times as fast as RocksDB with one Bloom filter a file \
             ([Figure 16](results/shamba.md#shamba-figure-16){}), with so much memory: {}.{}\n\n",
            spread.map_or("", |_| "; medians of the seeds, and ranges"),
            devices.join("; "),
            of_memory(findings)
        ),
    })
}

/// The setting of RocksDB with partitioned ribbon filters.
const PARTITIONED: &str = "rocksdb:ribbon-partitioned-unsharded";

/// The same beside its partitioned ribbon filters, with what came of the goal to be quicker.
fn by_the_clock_beside_partitions(_: &Path, findings: &Findings) -> Result<String> {
    let (of, on) = ("microseconds", ["existing", "budget %"]);
    let timed = |table: &&Report| table.column(of).is_some() && table.column("engine").is_some();
    let Some(table) = findings.tables.iter().find(timed) else {
        return Ok(String::new());
    };
    let (theirs, ours) = (
        table.rows_of("engine", PARTITIONED),
        table.rows_of("engine", OURS),
    );
    let times = theirs
        .rows
        .iter()
        .zip(&ours.rows)
        .filter_map(|(peer, own)| {
            let [existing, percent] = on.map(|column| theirs.number(peer, column));
            let same = on.map(|column| ours.number(own, column)) == [existing, percent];
            let times = theirs.number(peer, of)? / ours.number(own, of)?;
            same.then(|| Some((existing?, percent?, times)))?
        });
    let times: Vec<(f64, f64, f64)> = times.collect();
    if times.is_empty() {
        return Ok(String::new());
    }
    let told = [(0.0, "absent keys"), (1.0, "existing ones")].map(|(share, keys)| {
        let own = times.iter().filter(|(existing, ..)| *existing == share);
        let own = own.map(|(_, percent, times)| format!("{times:.2} with {percent} %"));
        format!("of {keys} {}", own.collect::<Vec<_>>().join(", "))
    });
    let goals = findings.claims.iter().filter(|claim| claim.is_goal());
    let goals = goals.map(|claim| format!("\"{}\" is {}", claim.what, claim.in_words_by_seed()));
    Ok(format!(
        "Beside its partitioned ribbon filters of 10 bits, one run a seed, medians \
         ([Figure 13](results/shamba.md#shamba-figure-13)): {}.{} Of our goals there {}.\n\n",
        told.join("; "),
        of_memory(findings),
        goals.collect::<Vec<_>>().join("; ")
    ))
}

/// What each idea gives.
fn ablation(dir: &Path, findings: &Findings) -> Result<String> {
    let panels: &[Panel] = &findings.panels;
    let what = "Pages read per lookup with each idea";
    let picture = picture(dir, "ablation", what, |path| plot::save(path, panels, 3))?;
    let tables = findings.tables.iter().take(1);
    let table: String = tables.map(|table| folded(&table.title, table)).collect();
    let steps: Vec<String> = findings.claims.iter().map(step).collect();
    let steps = steps.join("; ");
    let factors = |is_short: bool| {
        let rows = findings.tables.iter().take(1).flat_map(|table| {
            let of = |row: &Vec<Cell>, column| table.number(row, column);
            let own = move |row| Some((of(row, "budget %")?, of(row, ALL_STEPS)?));
            table.rows.iter().filter_map(own)
        });
        let own = rows.filter(|(percent, _)| (*percent < 100.0) == is_short);
        own.map(|(_, times)| times).collect::<Vec<_>>()
    };
    let [short, plenty] = [true, false].map(|is_short| range(&factors(is_short)));
    let notes = paragraphs(&findings.notes);
    Ok(format!(
        "## What each idea gives\n\n{picture}Each step beside the one before it, where memory is short: {steps}. All \
         together read {short} times fewer there, with 100 % and more {plenty}.\n\n{notes}{table}"
    ))
}

/// A goal that is to be reached at every point, at how many it was, and the verdict.
fn step(claim: &Claim) -> String {
    let (points, _) = claim
        .measured
        .split_once(';')
        .unwrap_or((&claim.measured, ""));
    format!("{} {points} ({})", claim.what, claim.in_words_by_seed())
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
            "## What the papers are known for\n\n{picture}{}{}",
            unjudged(&claims),
            folded(&table.title, &table)
        ),
    })
}

/// How many of each paper's could not be judged.
fn unjudged(claims: &[(&str, &Claim)]) -> String {
    let mut papers: Vec<&str> = claims.iter().map(|(paper, _)| *paper).collect();
    papers.dedup();
    let each = papers.iter().map(|paper| {
        let own = claims.iter().filter(|(of, _)| of == paper);
        let none = own
            .clone()
            .filter(|(_, claim)| claim.verdict == Verdict::NotComparable);
        format!("{} of {} of {paper}", none.count(), own.count())
    });
    let each: Vec<String> = each.collect();
    format!(
        "What cannot be compared has no verdict (the table says why): {}.\n\n",
        each.join(", ")
    )
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
                "loses to it in 1 of 4 cells, in pages read**: uniform, existing keys at 40 % (0.600 against 0.500)"
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
    fn what_full_memory_is_stands_where_a_setting_has_it() {
        let told = |setting: &str| {
            of_memory(&Findings {
                setting: setting.to_owned(),
                ..Findings::default()
            })
        };
        let full = " Here 100 % of memory is 8 bytes (80 % of the 10 that RocksDB's take); above it is what RocksDB's take.";
        let setting =
            "One thread; 100 % of memory is 8 bytes (80 % of the 10 that RocksDB's take); a disk.";
        assert_eq!((&*told(setting), &*told("One thread.")), (full, ""));
    }

    #[test]
    fn each_step_has_its_points_and_verdict() {
        let lost = ["uniform".to_owned(), "zipf".to_owned()];
        let claim = Claim::everywhere("ribbon: fewer", 3, &lost).as_goal();
        assert_eq!(step(&claim), "ribbon: fewer at 1 of 3 points (missed)");
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
