//! Figure 5: the utility of modules for uniform lookups, by the share of empty ones.
use super::modules::{failed, passing};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::files;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;
use crate::{Result, row};
use shamba_model::utility::{FIRST_THRESHOLD, utility};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-5",
    title: "The utility of modules",
    claim: "For uniform lookups the range of the modules' utilities widens as more lookups are empty; \
            even for empty ones modules differ, since files are asked more or less often. A utility of \
            0.2 separates the modules of no use from the others.",
    seconds: 10.0,
    run,
};

/// Shares of empty lookups: the paper's alpha in this figure.
const EMPTY: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// Two modules at 10 bits per key.
const BITS: [f64; 2] = [5.0, 5.0];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = files::base(lab, "shamba:shamba-eq");
    let rates = passing(&BITS)?;
    let mut table =
        Report::titled("Modules by their utility (data reads per lookup that they save)");
    let mut lines = vec![Vec::new(); rates.len()];
    let mut widest: Vec<f64> = Vec::new();
    // Of the last share, where all lookups are empty.
    let mut above = (0, 0);
    let mut largest = vec![0.0f64; rates.len()];
    for empty in EMPTY {
        let found = files::measure(lab, base.clone(), 1.0 - empty, Distribution::Uniform)?;
        let mut utilities = vec![Vec::new(); rates.len()];
        for file in files::below_level_0(&found.files) {
            let (access, positive) = (file.access, file.positive);
            let mut passing = 1.0;
            for (module, rate) in rates.iter().enumerate() {
                let saved = utility(access, positive, passing, *rate).map_err(failed)?;
                utilities[module].push(saved);
                passing *= rate;
            }
        }
        for (module, of) in utilities.iter_mut().enumerate() {
            of.sort_by(f64::total_cmp);
            histogram(&mut table, empty, module, of);
            lines[module].push(Series::of(format!("{empty} empty"), survivors(of)));
            largest[module] = largest[module].max(of.last().copied().unwrap_or(0.0));
        }
        let first = &utilities[0];
        widest.push(first.last().unwrap_or(&0.0) - first.first().unwrap_or(&0.0));
        let of = utilities.iter().flatten();
        let useful = of.clone().filter(|saved| **saved > 0.0).count();
        let kept = of.filter(|saved| **saved >= FIRST_THRESHOLD).count();
        above = (kept, useful);
    }
    let panels = lines.into_iter().enumerate().map(|(module, lines)| {
        Panel::new(
            format!("Module {} of {}", module + 1, rates.len()),
            "utility, data reads saved per lookup",
            "modules of at least this utility, %",
            lines,
        )
    });
    let panels = panels.collect();
    let second = 1.0f64.min(rates[0]) * (1.0 - rates[1]);
    let (kept, useful) = above;
    let claims = vec![
        Claim::statement(
            "the range of utilities widens with the share of empty lookups",
            "yes",
            format!("{widest:.3?} for empty shares {EMPTY:?}"),
            widest.last() > widest.first(),
        ),
        Claim::statement(
            "a utility of 0.2 separates modules of no use from the others (all lookups empty)",
            "yes",
            format!("{kept} modules come up to 0.2 of {useful} that save reads"),
            kept == useful,
        )
        .because(largest[0] < FIRST_THRESHOLD, format!(
            "utility is at most the share of lookups that ask the file: a file of the last level gets \
             one in its number of files (the largest utility measured is {:.3} for first modules); and \
             behind a first module of rate {:.3} the second saves at most {second:.3} in any file \
             (measured {:.3})",
            largest[0], rates[0], largest[1]
        )),
    ];
    Ok(Findings {
        setting: super::pressure::setting_of(
            lab,
            &base,
            "uniform lookups, 150 % of memory; access and positive shares of each file counted by the \
             engine for one lookup in eight, level 0 left out, whose files all lookups ask; utility by Eq. 8 with its sign corrected",
        ),
        tables: vec![table],
        panels,
        claims,
        notes: vec![
            "The engine's default thresholds are the paper's numbers over the number of files \
             (`Thresholds::RELATIVE`), which do separate; the word `paper` chooses the printed ones."
                .into(),
        ],
        ..Findings::default()
    })
}

/// Adds a line for each range of utilities that any module falls in.
fn histogram(table: &mut Report, empty: f64, module: usize, utilities: &[f64]) {
    let mut from = 0.0;
    for to in [1e-9, 0.001, 0.003, 0.01, 0.03, 0.1, FIRST_THRESHOLD, 1.1] {
        let inside = utilities.iter().filter(|u| (from..to).contains(*u)).count();
        if inside > 0 {
            table.add(row! {
                "empty share": empty,
                "module": module + 1,
                "utility at least": from,
                "utility below": to,
                "modules": inside,
            });
        }
        from = to;
    }
}

/// For each utility, the percentage of modules that have at least it; `utilities` ascending.
fn survivors(utilities: &[f64]) -> Vec<(f64, f64)> {
    let total = utilities.len().max(1) as f64;
    let points = utilities.iter().enumerate();
    points
        .map(|(at, utility)| (*utility, (total - at as f64) * 100.0 / total))
        .collect()
}
