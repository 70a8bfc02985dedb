//! Figures 2, 3 and 5: which files lookups ask, and what modules are of use there.
use super::modules::passing;
use super::pressure::{HIGH_SKEW, LOW_SKEW, setting_of};
use crate::engine::FileFacts;
use crate::reproduce::claim::{TOLERANCE, WHERE};
use crate::reproduce::files::{self, below_level_0, cumulative, files_with};
use crate::reproduce::prelude::*;
use crate::workload::Chooser;
use shamba_model::utility::{FIRST_THRESHOLD, utility};

/// Workloads, and the percentage of files that gets four fifths of their accesses, from and to.
const LINES: [(&str, Distribution, (f64, f64)); 3] = [
    ("uniform", Distribution::Uniform, (44.0, 46.0)),
    ("low skew", LOW_SKEW, (14.0, 14.0)),
    ("high skew", HIGH_SKEW, (8.0, 8.0)),
];

/// Slices of the key range in the first panel.
const SLICES: usize = 100;

pub(super) fn four_fifths(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = files::base(lab, STATE_OF_THE_ART);
    let mut table = Report::titled("Files that get 80 % of the accesses");
    let mut claims = Vec::new();
    let untold = "the paper does not say how wide its normal distributions are, and the share follows from \
                  the width";
    // The trees and lookups of Figures 3 and 5.
    let halved = Base {
        size_ratio: 2,
        ..base.clone()
    };
    let modules = files::base(lab, "shamba:shamba-eq");
    let others = EMPTY.map(|empty| (modules.clone(), 1.0 - empty));
    let mut elsewhere = Vec::new();
    for (base, positive) in others.into_iter().chain([(halved, 0.0)]) {
        let found = files::measure(lab, base, positive, Distribution::Uniform)?;
        let shares = files::shares(&below_level_0(&found.files));
        elsewhere.push(files_with(&shares, 0.8));
    }
    let (mut domain, mut access) = (Vec::new(), Vec::new());
    for (name, distribution, paper) in LINES {
        let found = files::measure(lab, base.clone(), 0.0, distribution)?;
        let shares = files::shares(&below_level_0(&found.files));
        let all = files::shares(&found.files);
        let measured = files_with(&shares, 0.8);
        table.add(row! {
            "workload": name,
            "files": shares.len(),
            "paper, % of files": paper.1,
            "measured, % of files": measured,
            "with level 0, % of files": files_with(&all, 0.8),
        });
        let what = format!("{name}: % of the files that get four fifths of the accesses");
        claims.push(match distribution {
            Distribution::Uniform => of_any_tree(what, paper, measured, &elsewhere),
            _ => Claim::range(what, paper, &[measured]).without_verdict(untold),
        });
        let slices = over_keys(lab, distribution, base.entries)?;
        domain.push(Series::of(name, slices));
        access.push(Series::of(name, cumulative(&shares)));
    }
    access.push(Series::of("four fifths", [(0.0, 0.8), (100.0, 0.8)]));
    let (title, x) = ("Lookups over the key range", "key range, %");
    let domain = Panel::new(title, x, "share of lookups, %", domain);
    let (title, x) = ("Accesses over files", "files, the most asked first, %");
    let access = Panel::new(title, x, "share of accesses", access);
    let setting = setting_of(lab, &base);
    Ok(Findings::of(setting, [table], [domain, access], claims))
}

/// A range of the paper, which tells neither the tree nor how many keys exist, beside what was
/// measured, where the same follows from what was measured of other trees and lookups.
fn of_any_tree(what: String, paper: (f64, f64), measured: f64, elsewhere: &[f64]) -> Claim {
    let of = |measured: f64| Claim::range(what.as_str(), paper, &[measured]);
    let mut claim = of(measured);
    let hangs = elsewhere
        .iter()
        .any(|other| of(*other).verdict != claim.verdict);
    let [least, most] = [least_of(elsewhere), most_of(elsewhere)].map(Cell::from);
    claim.measured += &format!(
        "; {least} to {most} where none to all of the keys exist, in two modules, and with size ratio 2"
    );
    let untold = "the share follows from the tree and from how many keys exist, of which the paper says nothing here, and so \
                  does the verdict";
    claim.unless(hangs, untold)
}

/// The share of lookups, in percent, in each slice of the key range.
fn over_keys(lab: &Lab<'_>, distribution: Distribution, entries: u64) -> Result<Vec<(f64, f64)>> {
    let draws = lab.scale.pick(10_000, 100_000, 300_000, 1_000_000);
    let mut chooser = Chooser::new(distribution, entries, lab.seed)?;
    let mut random = random(lab.seed, 1);
    let mut counts = vec![0u64; SLICES];
    for _ in 0..draws {
        let number = chooser.draw(&mut random);
        counts[(number as u128 * SLICES as u128 / u128::from(entries.max(1))) as usize] += 1;
    }
    let share = |(at, count): (usize, u64)| (at as f64, count as f64 * 100.0 / draws as f64);
    Ok(counts.into_iter().enumerate().map(share).collect())
}

const PLACE: &str = "place of the file in its level, % of its files";
const SHARE: &str = "share of lookups that ask the file";

pub(super) fn by_level_and_file(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = Base {
        size_ratio: 2,
        ..files::base(lab, STATE_OF_THE_ART)
    };
    let mut table = Report::titled("Accesses by file");
    let mut panels = Vec::new();
    for (name, distribution) in [("uniform", Distribution::Uniform), ("low skew", LOW_SKEW)] {
        let found = files::measure(lab, base.clone(), 0.0, distribution)?;
        let levels = levels(&found.files);
        let lookups = lookups(&levels);
        for (level, files) in &levels {
            for (at, file) in files.iter().enumerate() {
                table.add(row! {
                    "workload": name,
                    "level": format!("level {level}"),
                    "files of the level": files.len(),
                    PLACE: (at as f64 + 0.5) * 100.0 / files.len() as f64,
                    SHARE: file.access / lookups,
                });
            }
        }
        let title = format!("Accesses of files, {name}");
        let own = table.rows_of("workload", name);
        panels.push(Panel::of_lines(title, &own, "level", PLACE, SHARE));
    }
    let setting = setting_of(lab, &base);
    Ok(Findings::of(setting, [table], panels, []))
}

type Levels = Vec<(usize, Vec<FileFacts>)>;

/// The four upper levels of at least three files.
fn levels(files: &[FileFacts]) -> Levels {
    let below = below_level_0(files);
    let levels = below.chunk_by(|a, b| a.level == b.level);
    let several = levels.filter(|files| files.len() >= 3).take(4);
    several
        .map(|files| (files[0].level, files.to_vec()))
        .collect()
}

fn sum(files: &[FileFacts]) -> f64 {
    files.iter().map(|file| file.access).sum()
}

/// The share of all lookups that come to the level that is asked most: each asks one file of it.
fn lookups(levels: &Levels) -> f64 {
    let sums = levels.iter().map(|(_, files)| sum(files));
    sums.fold(f64::MIN_POSITIVE, f64::max)
}

/// Shares of empty lookups: the paper's alpha in this figure.
const EMPTY: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Two modules at 10 bits per key.
const BITS: [f64; 2] = [5.0, 5.0];

pub(super) fn utilities(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = files::base(lab, "shamba:shamba-eq");
    let rates = passing(&BITS)?;
    let mut table =
        Report::titled("Modules by their utility (data reads per lookup that they save)");
    let mut ranges = Vec::new();
    // With no lookup empty, of those that ask the most useful module's file, the share in vain.
    let mut in_vain = f64::NAN;
    // First modules of the last share, where all lookups are empty.
    let mut above = (0, 0);
    let mut largest = vec![0.0f64; rates.len()];
    for empty in EMPTY {
        let found = files::measure(lab, base.clone(), 1.0 - empty, Distribution::Uniform)?;
        let mut utilities = vec![Vec::new(); rates.len()];
        let files = below_level_0(&found.files);
        for file in &files {
            let (access, positive) = (file.access, file.positive);
            let mut passing = 1.0;
            for (module, rate) in rates.iter().enumerate() {
                let saved = utility(access, positive, passing, *rate)?;
                utilities[module].push(saved);
                passing *= rate;
            }
        }
        let first = &utilities[0];
        ranges.push(most_of(first) - least_of(first));
        if empty == 0.0 {
            let most = first.iter().position(|saved| *saved == most_of(first));
            in_vain = most.map_or(f64::NAN, |at| 1.0 - files[at].positive);
        }
        for (module, of) in utilities.iter_mut().enumerate() {
            of.sort_by(f64::total_cmp);
            histogram(&mut table, empty, module, of);
            largest[module] = largest[module].max(of.last().copied().unwrap_or(0.0));
        }
        let first = &utilities[0];
        let at_least = |least: f64| first.len() - first.partition_point(|saved| *saved < least);
        above = (at_least(FIRST_THRESHOLD), at_least(f64::MIN_POSITIVE));
    }
    let panels = plot::of_report(&table, "module", "empty share", "utility at least", ABOVE);
    let what =
        "a utility of 0.2 separates first modules of no use from the others (all lookups empty)";
    let (kept, useful) = above;
    let seen = format!("{kept} first modules come up to 0.2 of {useful} that save reads");
    let place = format!(
        "{WHERE}the largest utility measured is {:.3} for first modules and {:.3} for second ones",
        largest[0], largest[1]
    );
    let separates = Claim::statement(what, "yes", seen, kept == useful);
    let claims = [widening(&ranges, in_vain), separates.because(true, place)];
    let setting = setting_of(lab, &base);
    Ok(Findings::of(setting, [table], panels, claims))
}

/// That a range widens by more than a tenth, and nowhere narrows by as much. It can widen by what
/// of the lookups of the most useful module's file is not in vain from the first.
fn widening(ranges: &[f64], in_vain: f64) -> Claim {
    let what = "the range of first modules' utilities widens with the share of empty lookups, by more than a tenth (our limit)";
    let seen = format!("for empty shares {EMPTY:?}: {ranges:.3?}");
    let narrows = |two: &[f64]| two[1] < (1.0 - TOLERANCE) * two[0];
    let widens = ranges[ranges.len() - 1] > (1.0 + TOLERANCE) * ranges[0];
    let claim = Claim::statement(what, "yes", seen, widens && !ranges.windows(2).any(narrows));
    let alike = format!(
        "where no lookup is empty {in_vain:.3} of those that ask the most useful module's file are in vain all the same, so \
         that the range cannot widen by a tenth"
    );
    claim.unless(in_vain * (1.0 + TOLERANCE) > 1.0, alike)
}

/// The part of modules that are at least as useful.
const ABOVE: &str = "modules of at least this utility, %";

/// Adds a line for each range of utilities that any module falls in.
fn histogram(table: &mut Report, empty: f64, module: usize, utilities: &[f64]) {
    let mut from = 0.0;
    for to in [1e-9, 0.001, 0.003, 0.01, 0.03, 0.1, FIRST_THRESHOLD, 1.1] {
        let inside = utilities.iter().filter(|u| (from..to).contains(*u)).count();
        let above = utilities.iter().filter(|u| **u >= from).count();
        if inside > 0 {
            table.add(row! {
                "empty share": empty,
                "module": module + 1,
                "utility at least": from,
                "utility below": to,
                "modules": inside,
                ABOVE: above as f64 * 100.0 / utilities.len() as f64,
            });
        }
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_judged_where_the_same_follows_from_other_trees() {
        use crate::reproduce::Verdict::{Below, NotComparable, Within};
        let judged = |measured, elsewhere: &[f64]| {
            of_any_tree(String::new(), (44.0, 46.0), measured, elsewhere).verdict
        };
        assert_eq!(judged(42.0, &[45.0, 44.0]), Within);
        assert_eq!(judged(31.0, &[38.0, 35.0]), Below);
        assert_eq!(judged(42.0, &[45.0, 38.0]), NotComparable);
        assert_eq!(judged(31.0, &[45.0]), NotComparable);
    }

    #[test]
    fn a_range_is_to_widen_where_more_lookups_can_be_in_vain() {
        use crate::reproduce::Verdict::{DoesNotHold, Holds, NotComparable};
        let judged = |ranges: &[f64], in_vain| widening(ranges, in_vain).verdict;
        assert_eq!(judged(&[1.0, 0.95, 1.2], 0.8), Holds);
        assert_eq!(judged(&[1.0, 1.05, 1.08], 0.8), DoesNotHold);
        assert_eq!(judged(&[1.0, 1.4, 1.2], 0.8), DoesNotHold);
        for last in [0.5, 1.2] {
            assert_eq!(judged(&[1.0, last], 0.95), NotComparable);
        }
    }

    #[test]
    fn levels_of_three_files_and_more_count() {
        let file = |level| FileFacts {
            level,
            access: 0.2,
            ..FileFacts::default()
        };
        let files = [0, 1, 2, 2, 2, 3, 3, 3, 3].map(file);
        let levels = levels(&files);
        assert_eq!(levels.iter().map(|l| l.0).collect::<Vec<_>>(), [2, 3]);
        assert!((lookups(&levels) - 0.8).abs() < 1e-9);
    }
}
