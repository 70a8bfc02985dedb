//! Figure 9: after how many modules an empty lookup ends.
use super::modules::{self, MODULES, failed};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-9",
    title: "Modules asked by empty lookups",
    claim: "Of two modules 91 % of empty lookups ask only one; of seven 50 % ask one, about 74 % at \
            most two, and more than 94 % at most four.",
    seconds: 3.0,
    run,
};

/// Modules there are, modules asked at most, and the percentage of lookups, as the paper has them.
const PAPER: [(usize, usize, f64); 4] = [(2, 1, 91.0), (7, 1, 50.0), (7, 2, 74.0), (7, 4, 94.0)];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Empty lookups by the modules they ask (%)");
    let mut series = Vec::new();
    let mut claims = Vec::new();
    for modules in MODULES {
        let base = modules::base(lab, &modules::equal(modules));
        let mut trial = lab.lookups_in(base, 150.0, 0.0, Distribution::Uniform)?;
        // Of which one in eight is counted.
        trial.measured = lab.scale.pick(2_000, 40_000, 40_000, 100_000);
        let asked = modules::asked(&lab.measure(&trial)?, modules);
        let mut line = Series::new(format!("{modules} modules"));
        for most in 1..=modules {
            // Those that did not go on to the next module.
            let share = 100.0 * (1.0 - asked.get(most).copied().unwrap_or(0.0));
            let paper = PAPER.iter().find(|p| (p.0, p.1) == (modules, most));
            let theory = 100.0 * (1.0 - passing(modules, most)?);
            table.add(row! {
                "modules": modules,
                "asked at most": most,
                "paper %": paper.map(|paper| paper.2),
                "measured %": share,
                "theory %": if most < modules { theory } else { 100.0 },
            });
            line.points.push((most as f64, share));
            if let Some((.., paper)) = paper {
                let what =
                    format!("% of empty lookups that ask at most {most} of {modules} modules");
                claims.push(Claim::figure(what, *paper, share));
            }
        }
        series.push(line);
    }
    let seven = PAPER.iter().filter(|(modules, ..)| *modules == 7);
    let points = seven.map(|(_, most, share)| (*most as f64, *share));
    series.push(Series::of("paper, 7 modules", points));
    let base = modules::base(lab, "");
    Ok(Findings {
        setting: super::pressure::setting_of(
            lab,
            &base,
            "uniform empty lookups, 150 % of memory; asked modules counted for one lookup in eight",
        ),
        tables: vec![table],
        panels: vec![Panel::new(
            "Empty lookups that ask no more modules",
            "modules asked",
            "empty lookups, %",
            series,
        )],
        claims,
        ..Findings::default()
    })
}

/// The share of absent keys that pass the first so many of the equal modules of 10 bits per key.
fn passing(modules: usize, first: usize) -> Result<f64> {
    let bits = 10.0 / modules as f64;
    let hashes = shamba_model::modular::divide_hashes(7, &vec![bits; modules]).map_err(failed)?;
    let mut passing = 1.0;
    for hashes in hashes.into_iter().take(first) {
        passing *= shamba_model::fpr::bloom(bits, hashes).map_err(failed)?;
    }
    Ok(passing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_modules_together_let_pass_what_the_filter_does() {
        for modules in MODULES {
            let rate = passing(modules, modules).unwrap();
            assert!((0.007..0.009).contains(&rate), "{modules}: {rate}");
        }
        assert!((passing(7, 1).unwrap() - 0.5).abs() < 0.02);
    }
}
