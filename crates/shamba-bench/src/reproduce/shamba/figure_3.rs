//! Figure 3: how accesses spread over the files of the upper levels of a tree of size ratio 2.
use super::pressure::LOW_SKEW;
use crate::engine::FileFacts;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::files;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::Distribution;
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-3",
    title: "Accesses of the files of each level",
    claim: "With size ratio 2 a file's access frequency depends on its level for uniform lookups. For \
            skewed ones 2 of 3 files of level 2 get over 99.9 % of the level's accesses, 2 of 7 of \
            level 3 get 94.5 %, 4 of 15 of level 4 get 99.7 %.",
    seconds: 12.0,
    run,
};

/// Files of a level in the paper, those it counts as hot, and their share of the level's accesses.
const PAPER: [(f64, f64, f64); 3] = [(3.0, 2.0, 0.999), (7.0, 2.0, 0.945), (15.0, 4.0, 0.997)];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = Base {
        size_ratio: 2,
        ..files::base(lab, STATE_OF_THE_ART)
    };
    let mut table = Report::titled("Accesses by file");
    let mut panels = Vec::new();
    let mut claims = Vec::new();
    for (name, distribution) in [("uniform", Distribution::Uniform), ("low skew", LOW_SKEW)] {
        let found = files::measure(lab, base.clone(), 0.0, distribution)?;
        let levels = levels(&found.files);
        let lookups = lookups(&levels);
        let mut lines = Vec::new();
        for (level, files) in &levels {
            let mut line = Series::new(format!("level {level}"));
            for (at, file) in files.iter().enumerate() {
                let share = file.access / lookups;
                table.add(row! {
                    "workload": name,
                    "level": *level,
                    "file by key": at,
                    "files of the level": files.len(),
                    "share of lookups": share,
                });
                let place = (at as f64 + 0.5) * 100.0 / files.len() as f64;
                line.points.push((place, share));
            }
            lines.push(line);
        }
        panels.push(Panel::new(
            format!("Accesses of files, {name}"),
            "place of the file in its level, % of its files",
            "share of lookups that ask the file",
            lines,
        ));
        match distribution {
            Distribution::Uniform => claims.push(by_level(&levels)),
            _ => claims.extend(few_hot(&levels)),
        }
    }
    Ok(Findings {
        setting: super::pressure::setting_of(
            lab,
            &base,
            "empty lookups, 150 % of memory; accesses of late, counted for one lookup in eight; the four levels \
             from the first that has at least three files",
        ),
        tables: vec![table],
        panels,
        claims,
        ..Findings::default()
    })
}

type Levels = Vec<(usize, Vec<FileFacts>)>;

/// The four upper levels of at least three files.
fn levels(files: &[FileFacts]) -> Levels {
    let mut levels: Levels = Vec::new();
    for file in files.iter().filter(|file| file.level > 0) {
        match levels.last_mut().filter(|(level, _)| *level == file.level) {
            Some((_, files)) => files.push(*file),
            None => levels.push((file.level, vec![*file])),
        }
    }
    levels.retain(|(_, files)| files.len() >= 3);
    levels.truncate(4);
    levels
}

/// The share of all lookups that come to the level that is asked most: each asks one file of it.
fn lookups(levels: &Levels) -> f64 {
    let sums = levels.iter().map(|(_, files)| sum(files));
    sums.fold(f64::MIN_POSITIVE, f64::max)
}

fn sum(files: &[FileFacts]) -> f64 {
    files.iter().map(|file| file.access).sum()
}

/// For uniform lookups a file of an upper level is asked more than one of the next.
fn by_level(levels: &Levels) -> Claim {
    let mean = |files: &[FileFacts]| sum(files) / files.len() as f64;
    let means: Vec<f64> = levels.iter().map(|(_, files)| mean(files)).collect();
    let lookups = lookups(levels);
    let text = levels.iter().zip(&means).map(|((level, files), mean)| {
        let share = mean / lookups;
        format!("level {level} ({} files) {share:.3}", files.len())
    });
    let text: Vec<String> = text.collect();
    Claim::statement(
        "uniform: a file is asked the more the higher its level (mean share of lookups)",
        "yes",
        text.join(", "),
        !means.is_empty() && means.is_sorted_by(|a, b| a > b),
    )
}

/// For skewed lookups the part of a level's accesses that the same part of its files gets.
fn few_hot(levels: &Levels) -> Vec<Claim> {
    let beside = levels.iter().zip(PAPER);
    beside
        .map(|((level, files), (of, hot, share))| {
            let hottest = (files.len() as f64 * hot / of).ceil() as usize;
            let own = files::shares(files).iter().take(hottest).sum();
            let what = format!(
                "low skew: share of a level's accesses that {hot} of {of} files get (here {hottest} of \
                 {}, level {level})",
                files.len()
            );
            Claim::figure(what, share, own)
                .without_verdict("the paper does not say how wide its lookups are")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
