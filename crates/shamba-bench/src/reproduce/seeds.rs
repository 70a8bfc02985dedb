//! What several runs of an experiment, each with a seed of its own, come to: medians, and the range
//! beside them; and of a verdict that hangs on the seed, that it does. Pure functions.
use super::Findings;
use super::claim::{Claim, Verdict};
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
        match same_rows(&others).then(|| medians(first, &others)) {
            Some((medians, ranges)) if others.len() == all.len() => {
                tables.extend([medians, ranges])
            }
            _ => tables.push(Report {
                title: format!("{} (the first seed)", first.title),
                ..first.clone()
            }),
        }
    }
    let panels = all[0].panels.iter().enumerate().map(|(at, first)| {
        let others: Vec<&Panel> = all.iter().filter_map(|one| one.panels.get(at)).collect();
        panel(first, &others)
    });
    let claims = all[0].claims.iter().map(|first| {
        let same = all
            .iter()
            .map(|one| one.claims.iter().find(|claim| claim.what == first.what));
        match same.collect::<Option<Vec<&Claim>>>() {
            Some(same) => claim(&same),
            None => first.clone(),
        }
    });
    Findings {
        setting: format!(
            "{} {} seeds: medians, and in the tables that follow each the range.",
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
    let same = |a: &Cell, b: &Cell| match (a, b) {
        (Cell::Number(_), Cell::Number(_)) => true,
        (a, b) => a == b,
    };
    let like = |a: &Report, b: &Report| {
        let cells = |table: &Report| table.rows.concat();
        let (a_cells, b_cells) = (cells(a), cells(b));
        a.columns == b.columns
            && a_cells.len() == b_cells.len()
            && a_cells.iter().zip(&b_cells).all(|(a, b)| same(a, b))
    };
    tables.windows(2).all(|pair| like(pair[0], pair[1]))
}

/// The medians of tables with the same rows, and a table of ranges.
fn medians(first: &Report, all: &[&Report]) -> (Report, Report) {
    let (mut medians, mut ranges) = (first.clone(), first.clone());
    ranges.title = format!("{}: lowest to highest of the seeds", first.title);
    for (row, cells) in first.rows.iter().enumerate() {
        for column in 0..cells.len() {
            let numbers: Vec<f64> = all
                .iter()
                .filter_map(|table| match table.rows.get(row)?.get(column)? {
                    Cell::Number(number) => Some(*number),
                    _ => None,
                })
                .collect();
            let Some(middle) = median(&numbers) else {
                continue;
            };
            medians.rows[row][column] = middle.into();
            let (least, most) = ends(&numbers);
            if least < most {
                ranges.rows[row][column] =
                    format!("{} to {}", Cell::from(least), Cell::from(most)).into();
            }
        }
    }
    (medians, ranges)
}

fn ends(numbers: &[f64]) -> (f64, f64) {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

/// Lines of medians, point by point, where all have the points.
fn panel(first: &Panel, all: &[&Panel]) -> Panel {
    let mut merged = first.clone();
    for (at, line) in merged.series.iter_mut().enumerate() {
        let lines: Vec<&Series> = all
            .iter()
            .filter_map(|panel| panel.series.get(at))
            .collect();
        let same = |other: &&Series| {
            other.name == line.name
                && other.points.len() == line.points.len()
                && other
                    .points
                    .iter()
                    .zip(&line.points)
                    .all(|(a, b)| a.0 == b.0)
        };
        if lines.len() < all.len() || !lines.iter().all(same) {
            continue;
        }
        for (at, point) in line.points.iter_mut().enumerate() {
            let values: Vec<f64> = lines.iter().map(|line| line.points[at].1).collect();
            point.1 = median(&values).unwrap_or(point.1);
        }
    }
    merged
}

/// A claim by all seeds: of numbers that of the median; of others it holds, or is met, if it does
/// with each.
fn claim(all: &[&Claim]) -> Claim {
    let mut ordered = all.to_vec();
    let number = |claim: &Claim| claim.numbers.map_or(f64::NAN, |(_, measured)| measured);
    let shortfall = |claim: &Claim| matches!(claim.verdict, Verdict::DoesNotHold | Verdict::Missed);
    let numeric = all.iter().all(|claim| claim.numbers.is_some());
    let mut chosen = if numeric {
        ordered.sort_by(|a, b| number(a).total_cmp(&number(b)));
        ordered[ordered.len() / 2].clone()
    } else {
        let worst = all.iter().find(|claim| shortfall(claim));
        (*worst.unwrap_or(&all[0])).clone()
    };
    if numeric {
        let (least, most) = ends(&all.iter().map(|claim| number(claim)).collect::<Vec<_>>());
        if least < most {
            let range = format!(" ({} to {})", Cell::from(least), Cell::from(most));
            chosen.measured += &range;
        }
    }
    let verdicts: Vec<Verdict> = all.iter().map(|claim| claim.verdict).collect();
    if verdicts.windows(2).any(|pair| pair[0] != pair[1]) {
        chosen.by_seed = verdicts;
    }
    chosen
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
        assert_eq!(merged.panels[0].series[0].points, [(10.0, 2.0)]);
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
