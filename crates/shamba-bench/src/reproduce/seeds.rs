//! What several runs of an experiment, each with a seed of its own, come to: medians, and the range
//! beside them; and of a verdict that hangs on the seed, that it does. Pure functions.
use super::Findings;
use super::claim::{Claim, Verdict, least_of, most_of, number, numbers_and_rest};
use crate::plot::{Panel, Series};
use crate::report::{Cell, Report, median};

/// What the title of a table of ranges ends with.
const SPREAD: &str = ": lowest to highest of the seeds";

/// Between the ends of a range.
const TO: &str = " to ";

/// Whether a table has the ranges of another.
pub(super) fn is_spread(table: &Report) -> bool {
    table.title.ends_with(SPREAD)
}

/// The lowest and the highest of the seeds in a table of ranges.
pub(super) fn ends(spread: &Report, row: usize, column: &str) -> Option<(f64, f64)> {
    match spread.rows.get(row)?.get(spread.column(column)?)? {
        Cell::Number(number) => Some((*number, *number)),
        Cell::Text(text) => {
            let (least, most) = text.split_once(TO)?;
            Some((least.parse().ok()?, most.parse().ok()?))
        }
        _ => None,
    }
}

/// One of all. The first says what was measured; what has not the same shape in every run is taken
/// from it alone.
pub(super) fn merge(mut all: Vec<Findings>, first_seed: u64) -> Findings {
    if all.len() < 2 {
        return all.pop().unwrap_or_default();
    }
    let told = |one: &Findings| format!("{one:?}");
    if all.iter().all(|one| told(one) == told(&all[0])) {
        let same = format!(
            " {} seeds with the same numbers: nothing hangs on the seed, or it was measured once for all.",
            all.len()
        );
        let mut first = all.swap_remove(0);
        first.setting += &same;
        return first;
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
        let same: Vec<&Claim> = same.collect();
        let mut merged = claim(&same, first_seed);
        if same.len() < all.len() {
            merged.measured += &format!(" ({} of {} seeds have it)", same.len(), all.len());
        }
        merged
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
        notes: notes(&all, first_seed),
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

/// The notes of the first seed, and of those that are not the same with each that they are its.
fn notes(all: &[Findings], first_seed: u64) -> Vec<String> {
    let notes = all[0].notes.iter().map(|note| {
        let same = all.iter().all(|one| one.notes.contains(note));
        let seed = format!(" (Seed {first_seed}.)");
        format!("{note}{}", if same { "" } else { &seed })
    });
    notes.collect()
}

/// The medians of tables with the same rows, and a table of ranges.
fn medians(first: &Report, all: &[&Report]) -> (Report, Report) {
    let (mut medians, mut ranges) = (first.clone(), first.clone());
    ranges.title = format!("{}{SPREAD}", first.title);
    for row in 0..first.rows.len() {
        for column in 0..first.columns.len() {
            let cells = all.iter().map(|table| &table.rows[row][column]);
            let numbers = cells.filter_map(|cell| match cell {
                Cell::Number(number) if !number.is_nan() => Some(*number),
                _ => None,
            });
            let numbers: Vec<f64> = numbers.collect();
            let (least, most) = (least_of(&numbers), most_of(&numbers));
            medians.rows[row][column] = match median(&numbers) {
                Some(middle) if numbers.len() == all.len() => middle.into(),
                // With the others it came to nothing.
                Some(middle) => {
                    let seeds = format!("{} of {} seeds", numbers.len(), all.len());
                    format!("{} ({seeds})", Cell::from(middle)).into()
                }
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

/// A claim by all seeds: of numbers that of the median, of ranges that of the median of each end;
/// of others it holds, or is met, if it does with each, and what was seen is told of the first with
/// which it does not, or else of the first with which it cannot be compared. A cause is one if it
/// was with each seed that needs one.
fn claim(all: &[&Claim], first_seed: u64) -> Claim {
    let numbers = all.iter().map(|claim| Some(claim.numbers()?.1));
    let ranges = all.iter().map(|claim| Some(claim.ranges?[1]));
    let numbers: Option<Vec<f64>> = numbers.collect();
    let ranges: Option<Vec<(f64, f64)>> = ranges.collect();
    let mut chosen = if let Some(numbers) = numbers {
        let mut ordered: Vec<(f64, &Claim)> =
            numbers.into_iter().zip(all.iter().copied()).collect();
        ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, most) = (ordered[0].0, ordered[ordered.len() - 1].0);
        let mut median = ordered[ordered.len() / 2].1.clone();
        if number(least) != number(most) {
            median.say_of_numbers(&range(least, most));
        }
        median
    } else if let Some(ranges) = ranges {
        let (lower, upper): (Vec<f64>, Vec<f64>) = ranges.into_iter().unzip();
        let ends = median(&lower).zip(median(&upper)).unwrap_or_default();
        let mut merged = all[0].clone().with_range(ends);
        let beside = |claim: &Claim| numbers_and_rest(&claim.measured).1.to_owned();
        if all.iter().any(|claim| beside(claim) != beside(all[0])) {
            merged.measured += &format!(" (seed {first_seed})");
        }
        let (least, most) = (least_of(&lower), most_of(&upper));
        if [least, most].map(number) != [ends.0, ends.1].map(number) {
            merged.say_of_numbers(&format!("with some seed {}", range(least, most)));
        }
        merged
    } else {
        let first = |verdicts: &[Verdict]| {
            all.iter()
                .position(|claim| verdicts.contains(&claim.follows()))
        };
        let at = first(&[Verdict::DoesNotHold, Verdict::Missed])
            .or_else(|| first(&[Verdict::NotComparable]))
            .unwrap_or(0);
        let mut seen = all[at].clone();
        if all.iter().any(|claim| claim.measured != seen.measured) {
            seen.measured += &format!(" (seed {})", first_seed + at as u64);
        }
        seen
    };
    let explained = all
        .iter()
        .filter(|claim| claim.follows().differs())
        .all(|claim| claim.cause.is_some());
    let why = all.iter().find(|claim| claim.cause.is_some());
    chosen.cause = if chosen.verdict == Verdict::NotComparable {
        chosen.cause
    } else {
        // Of several the one that is told of what is told.
        let own = chosen
            .cause
            .or_else(|| why.and_then(|claim| claim.cause.clone()));
        own.filter(|_| explained && chosen.by_model.unwrap_or(chosen.verdict).differs())
    };
    if all.iter().any(|claim| claim.follows() != all[0].follows()) {
        chosen.by_seed = all.iter().map(|claim| claim.follows()).collect();
    }
    chosen
}

fn range(least: f64, most: f64) -> String {
    number(least) + TO + &number(most)
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
        merge(all.into(), 1).claims.remove(0)
    }

    #[test]
    fn tables_and_lines_have_medians_and_the_range() {
        let all = [1.0, 4.0, 2.0].map(|pages| findings(pages, Vec::new()));
        let merged = merge(all.into(), 1);
        assert_eq!(merged.tables[0].rows[0][1], Cell::Number(2.0));
        assert_eq!(
            merged.tables[1].rows[0][1],
            Cell::Text("1.00 to 4.00".into())
        );
        let line = &merged.panels[0].series[0];
        assert_eq!(line.points, [(10.0, 2.0)]);
        assert_eq!(line.spread, [(10.0, [1.0, 4.0])]);
        assert!(merged.setting.contains("3 seeds: medians"));
    }

    #[test]
    fn seeds_with_the_same_numbers_have_no_range() {
        let all = [f64::NAN; 2].map(|pages| findings(pages, Vec::new()));
        let merged = merge(all.into(), 1);
        assert!(merged.setting.contains("2 seeds with the same numbers"));
        assert_eq!(merged.tables.len(), 1);
    }

    #[test]
    fn a_table_with_other_rows_is_that_of_the_first_seed() {
        let mut other = findings(2.0, Vec::new());
        other.tables[0].push(vec!["theirs".into(), 3.0.into()]);
        let merged = merge(vec![findings(1.0, Vec::new()), other], 1);
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
    fn ranges_have_the_median_of_each_end() {
        let of = |ends: [(f64, f64); 3]| {
            let all = ends.map(|(least, most)| {
                let range = Claim::range("gain", (1.0, 2.0), &[least, most]);
                findings(least, vec![range])
            });
            merge(all.into(), 1).claims.remove(0)
        };
        let claim = of([(0.5, 2.0), (1.0, 2.5), (1.2, 2.1)]);
        assert_eq!(
            (claim.verdict, &*claim.measured),
            (
                Verdict::Within,
                "1.00 to 2.10 (with some seed 0.500 to 2.50)"
            )
        );
        assert_eq!(
            claim.by_seed,
            [Verdict::Below, Verdict::Above, Verdict::Within]
        );
        // Nor is a range told that is shown as the ends are.
        for apart in [0.0, 0.001] {
            let claim = of([(1.0, 2.0), (1.0, 2.0), (1.0, 2.0 + apart)]);
            assert_eq!(&*claim.measured, "1.00 to 2.00");
        }
        // What is told beside the numbers stays there.
        let beside = |claim: Claim| Claim {
            measured: claim.measured + "; 3 MB",
            ..claim
        };
        let claim = merged(
            |most| beside(Claim::range("gain", (1.0, 2.0), &[1.0, most])),
            [2.0, 2.1, 2.2],
        );
        assert_eq!(
            &*claim.measured,
            "1.00 to 2.10 (with some seed 1.00 to 2.20); 3 MB"
        );
        let of_its_own = |most: f64| Claim {
            measured: format!("1.00 to {most}; {most} MB"),
            ..Claim::range("gain", (1.0, 2.0), &[1.0, most])
        };
        let claim = merged(of_its_own, [2.0, 2.1, 2.2]);
        assert!(
            claim.measured.ends_with("; 2 MB (seed 1)"),
            "{}",
            claim.measured
        );
        let claim = merged(
            |gain| beside(Claim::figure("gain", 1.0, gain)),
            [1.0, 1.1, 1.2],
        );
        assert_eq!(&*claim.measured, "1.10 (1.00 to 1.20); 3 MB");
    }

    #[test]
    fn what_was_seen_is_told_of_its_seed_and_a_cause_is_one_with_all() {
        let seen = |measured: f64| {
            let seen = format!("{measured} of 3");
            Claim::statement("order", "yes", seen, measured > 2.0).because(measured < 1.5, "cold")
        };
        assert_eq!(merged(seen, [3.0, 3.0, 3.0]).measured, "3 of 3");
        let claim = merged(seen, [3.0, 1.0, 1.0]);
        assert_eq!(
            (&*claim.measured, claim.cause.as_deref()),
            ("1 of 3 (seed 2)", Some("cold"))
        );
        let claim = merged(seen, [1.0, 2.0, 3.0]);
        assert_eq!((&*claim.measured, claim.cause), ("1 of 3 (seed 1)", None));
        // What cannot be compared with one seed holds with none, in whatever order.
        let apart = |measured: f64| seen(measured).unless(measured == 3.0, "too near");
        let claim = merged(apart, [2.5, 3.0, 2.5]);
        assert_eq!(
            (claim.verdict, claim.by_seed.len(), &*claim.measured),
            (Verdict::NotComparable, 3, "3 of 3 (seed 2)")
        );
        let claim = merged(apart, [3.0, 2.0, 2.5]);
        assert_eq!(claim.verdict, Verdict::DoesNotHold);
        let named = |measured: f64| Claim::figure(format!("at {measured}"), 1.0, 1.0);
        let claim = merged(named, [1.0, 2.0, 3.0]);
        assert_eq!(claim.measured, "1.00 (1 of 3 seeds have it)");
    }

    #[test]
    fn a_cell_that_some_seeds_have_no_number_for_says_so() {
        let all = [1.0, f64::NAN, 3.0].map(|pages| findings(pages, Vec::new()));
        let tables = merge(all.into(), 1).tables;
        assert_eq!(tables[0].rows[0][1].to_string(), "2.00 (2 of 3 seeds)");
        assert_eq!(tables[1].rows[0][1].to_string(), "1.00 to 3.00");
        let all = [f64::NAN; 2].map(|pages| findings(pages, Vec::new()));
        let tables = merge(all.into(), 1).tables;
        assert!(matches!(tables[0].rows[0][1], Cell::Number(number) if number.is_nan()));
    }

    #[test]
    fn a_note_that_is_not_the_same_with_each_seed_says_of_which_it_is() {
        let of = |pages: f64| {
            let notes = vec!["Pages are counted.".to_owned(), format!("{pages} pages.")];
            findings(pages, Vec::new()).noting(notes)
        };
        let notes = merge(vec![of(1.0), of(2.0)], 7).notes;
        assert_eq!(notes, ["Pages are counted.", "1 pages. (Seed 7.)"]);
    }

    #[test]
    fn one_run_stays_as_it_is() {
        let one = findings(1.0, Vec::new());
        assert_eq!(merge(vec![one.clone()], 1).setting, one.setting);
    }
}
