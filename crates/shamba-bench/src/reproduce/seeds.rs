//! What several runs of an experiment, each with a seed of its own, come to: medians, and the range
//! beside them; and of a verdict that hangs on the seed, that it does. Pure functions.
use super::Findings;
use super::claim::{Claim, Verdict, least_of, most_of};
use crate::plot::{Panel, Series};
use crate::report::{Cell, Report, median};

/// One of all. The first says what was measured; what has not the same shape in every run is taken
/// from it alone.
pub(super) fn merge(mut all: Vec<Findings>) -> Findings {
    if all.len() < 2 {
        return all.pop().unwrap_or_default();
    }
    let mut tables = Vec::new();
    for (at, first) in all[0].tables.iter().enumerate() {
        let others: Vec<&Report> = all.iter().filter_map(|one| one.tables.get(at)).collect();
        if others.len() == all.len() && same_rows(&others) {
            tables.extend(<[Report; 2]>::from(medians(first, &others)));
        } else {
            tables.push(Report {
                title: format!("{} (the first seed)", first.title),
                ..first.clone()
            });
        }
    }
    let panels = all[0].panels.iter().enumerate().map(|(at, first)| {
        let others: Vec<&Panel> = all.iter().filter_map(|one| one.panels.get(at)).collect();
        panel(first, &others)
    });
    let claims = all[0].claims.iter().map(|first| {
        let same = |one: &&Claim| one.what == first.what;
        let same = all.iter().flat_map(|one| one.claims.iter().find(same));
        claim(&same.collect::<Vec<_>>())
    });
    Findings {
        setting: format!(
            "{} {} seeds: medians, and in the tables that follow each the range. Seeds decide the \
             operations; databases of the standard setting are loaded once.",
            all[0].setting,
            all.len()
        ),
        panels: panels.collect(),
        claims: claims.collect(),
        tables,
        dots: all[0].dots.clone(),
        notes: all[0].notes.clone(),
    }
}

/// Whether tables have the same rows, but for numbers.
fn same_rows(tables: &[&Report]) -> bool {
    let shape = |table: &Report| {
        let cells = table.rows.concat().into_iter();
        let texts = cells.map(|cell| match cell {
            Cell::Number(_) => None,
            other => Some(other),
        });
        (table.columns.clone(), texts.collect::<Vec<_>>())
    };
    tables
        .windows(2)
        .all(|pair| shape(pair[0]) == shape(pair[1]))
}

/// The medians of tables with the same rows, and a table of ranges.
fn medians(first: &Report, all: &[&Report]) -> (Report, Report) {
    let (mut medians, mut ranges) = (first.clone(), first.clone());
    ranges.title = format!("{}: lowest to highest of the seeds", first.title);
    for row in 0..first.rows.len() {
        for column in 0..first.columns.len() {
            let cells = all.iter().map(|table| &table.rows[row][column]);
            let numbers = cells.filter_map(|cell| match cell {
                Cell::Number(number) => Some(*number),
                _ => None,
            });
            let numbers: Vec<f64> = numbers.collect();
            let (least, most) = (least_of(&numbers), most_of(&numbers));
            medians.rows[row][column] = match median(&numbers) {
                Some(middle) => middle.into(),
                None => continue,
            };
            if least < most {
                ranges.rows[row][column] = range(least, most).into();
            }
        }
    }
    (medians, ranges)
}

/// Lines of medians, point by point, where all have the points, with bars of the spread.
fn panel(first: &Panel, all: &[&Panel]) -> Panel {
    let mut merged = first.clone();
    for (at, line) in merged.series.iter_mut().enumerate() {
        let lines = all.iter().filter_map(|panel| panel.series.get(at));
        let lines: Vec<&Series> = lines.filter(|other| other.name == line.name).collect();
        for (at, point) in line.points.iter_mut().enumerate() {
            let there = lines.iter().filter_map(|line| line.points.get(at));
            let values: Vec<f64> = there
                .filter(|other| other.0 == point.0)
                .map(|p| p.1)
                .collect();
            if values.len() == all.len() {
                point.1 = median(&values).unwrap_or(point.1);
                let ends = [least_of(&values), most_of(&values)];
                line.spread.push((point.0, ends));
            }
        }
    }
    merged
}

/// A claim by all seeds: of numbers that of the median; of others it holds, or is met, if it does
/// with each.
fn claim(all: &[&Claim]) -> Claim {
    let numbers = all.iter().map(|claim| Some((claim.numbers()?.1, *claim)));
    let mut chosen = match numbers.collect::<Option<Vec<(f64, &Claim)>>>() {
        Some(mut ordered) => {
            ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (least, most) = (ordered[0].0, ordered[ordered.len() - 1].0);
            let mut median = ordered[ordered.len() / 2].1.clone();
            if least < most {
                median.measured += &format!(" ({})", range(least, most));
            }
            median
        }
        None => {
            let lost = [Verdict::DoesNotHold, Verdict::Missed];
            let worst = all.iter().find(|claim| lost.contains(&claim.verdict));
            (*worst.unwrap_or(&all[0])).clone()
        }
    };
    if all.iter().any(|claim| claim.verdict != all[0].verdict) {
        chosen.by_seed = all.iter().map(|claim| claim.verdict).collect();
    }
    chosen
}

fn range(least: f64, most: f64) -> String {
    format!("{} to {}", Cell::from(least), Cell::from(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(pages: f64, claims: Vec<Claim>) -> Findings {
        let mut table = Report::new("Pages", &["engine", "pages"]);
        table.push(vec!["ours".into(), pages.into()]);
        let line = Series {
            points: vec![(10.0, pages)],
            ..Series::new("ours")
        };
        Findings {
            setting: "One thread.".into(),
            tables: vec![table],
            panels: vec![Panel {
                series: vec![line],
                ..Panel::default()
            }],
            claims,
            ..Findings::default()
        }
    }

    fn merged(claims: impl Fn(f64) -> Claim, measured: [f64; 3]) -> Claim {
        let all = measured.map(|number| findings(number, vec![claims(number)]));
        merge(all.into()).claims.remove(0)
    }

    #[test]
    fn tables_and_lines_have_medians_and_the_range() {
        let all = [1.0, 4.0, 2.0].map(|pages| findings(pages, Vec::new()));
        let merged = merge(all.into());
        assert_eq!(merged.tables[0].rows[0][1], Cell::Number(2.0));
        assert_eq!(
            merged.tables[1].rows[0][1],
            Cell::Text("1.00 to 4.00".into())
        );
        let line = &merged.panels[0].series[0];
        assert_eq!(line.points, [(10.0, 2.0)]);
        assert_eq!(line.spread, [(10.0, [1.0, 4.0])]);
        assert!(merged.setting.contains("3 seeds"));
    }

    #[test]
    fn a_table_with_other_rows_is_that_of_the_first_seed() {
        let mut other = findings(2.0, Vec::new());
        other.tables[0].push(vec!["theirs".into(), 3.0.into()]);
        let merged = merge(vec![findings(1.0, Vec::new()), other]);
        assert_eq!(merged.tables.len(), 1);
        assert!(merged.tables[0].title.contains("first seed"));
        assert_eq!(merged.tables[0].rows[0][1], Cell::Number(1.0));
    }

    #[test]
    fn a_verdict_that_changes_with_the_seed_says_so() {
        let figure = |measured| Claim::figure("pages", 2.0, measured);
        let claim = merged(figure, [2.0, 1.0, 2.1]);
        assert_eq!(
            (claim.verdict, &*claim.measured),
            (Verdict::Within, "2.00 (1.00 to 2.10)")
        );
        assert_eq!(
            claim.by_seed,
            [Verdict::Within, Verdict::Below, Verdict::Within]
        );
        assert!(
            claim
                .explanation()
                .unwrap()
                .contains("within, below, within")
        );
        assert!(merged(figure, [2.0, 1.9, 2.1]).by_seed.is_empty());
        let states = |measured| Claim::statement("order", "yes", "", measured > 1.0);
        let claim = merged(states, [2.0, 1.0, 2.0]);
        assert_eq!(
            (claim.verdict, claim.by_seed.len()),
            (Verdict::DoesNotHold, 3)
        );
        let claim = merged(states, [2.0, 3.0, 2.0]);
        assert_eq!((claim.verdict, claim.by_seed.len()), (Verdict::Holds, 0));
    }

    #[test]
    fn one_run_stays_as_it_is() {
        let one = findings(1.0, Vec::new());
        assert_eq!(merge(vec![one.clone()]).setting, one.setting);
    }
}
