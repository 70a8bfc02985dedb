//! Table 3 and Figure 9: what lookups do with the modules of filters in 1, 2, 3 or 7 parts; what
//! Figures 8 and 10 claim of these.
use super::pressure::{self, Point, short_of_memory};
use crate::reproduce::claim::TOLERANCE;
use crate::reproduce::prelude::*;
use shamba_model::{fpr, modular};
use std::ops::Range;

/// Numbers of modules.
const MODULES: [usize; ALL_READ] = [1, 2, 3, 7];

/// The engines of Figures 8 and 10 that read all modules, before those that skip some.
pub(super) const ALL_READ: usize = 4;

/// False positives in percent and modules asked, as Table 3 has them.
const ACCURACY: [(f64, f64); 4] = [(0.825, 1.0), (0.847, 1.093), (0.887, 1.251), (0.830, 1.997)];

/// Modules there are, modules asked at most, and the percentage of lookups, as Figure 9 has them.
const ASKED: [(usize, usize, f64); 4] = [(2, 1, 91.0), (7, 1, 50.0), (7, 2, 74.0), (7, 4, 94.0)];

/// The one of which the paper has "more than" so many ask no more modules.
const MORE_THAN: (usize, usize) = (7, 4);

/// Of Table 3: one table of all entries.
const MEMORY: u64 = 256 << 20;

pub(super) fn accuracy(lab: &mut Lab<'_>) -> Result<Findings> {
    let entries = lab.scale.tiny_or(20_000, 500_000);
    let lookups = lab.scale.pick(20_000, 500_000, 2_000_000, 2_000_000);
    let theory = passing(&[10.0])?[0] * 100.0;
    let mut table = Report::titled("False positives and modules asked by empty lookups");
    let mut claims = Vec::new();
    let mut rates = Vec::new();
    for (count, (paper_rate, paper_asked)) in MODULES.into_iter().zip(ACCURACY) {
        let base = Base {
            write_buffer: 64 << 20,
            file_size: 64 << 20,
            ..Base::standard(&equal(count), entries, lab.seed)
        };
        let trial = Trial {
            measured: lookups,
            device: Device::Ram,
            ..Trial::lookups(base, MEMORY, 0.0, Distribution::Uniform)
        };
        let found = lab.measure(&trial)?;
        let passed = found.count("false_positives") as f64;
        let asked_filters = passed + found.count("filter_negatives") as f64;
        let rate = passed * 100.0 / asked_filters.max(1.0);
        let asked = asked(&found, count).iter().sum::<f64>();
        let whole = passing(&vec![10.0 / count as f64; count])?;
        rates.push(rate);
        table.add(row! {
            "modules": count,
            "theory of one filter %": theory,
            "theory with whole positions %": 100.0 * whole.iter().product::<f64>(),
            "paper %": paper_rate,
            "measured %": rate,
            "paper, modules asked": paper_asked,
            "measured, modules asked": asked,
            "module size, % of the filter": 100.0 / count as f64,
        });
        let what = format!("false positives in {count} modules, %");
        claims.push(Claim::figure(what, paper_rate, rate));
        // Of one module one is asked in any case; of two it is what Figure 9 has.
        if count > 2 {
            let what = format!("modules asked of {count} by an empty lookup");
            claims.push(Claim::figure(what, paper_asked, asked));
        }
    }
    let what = "false positives in 1, 2, 3 and 7 modules, %, beside one filter by theory (the difference is \"negligible\")";
    claims.push(Claim::range(what, (theory, theory), &rates));
    let (title, y) = ("Absent keys that pass", "false positives, %");
    let columns = ["theory of one filter %", "paper %", "measured %"];
    let pass = Panel::of_columns(title, &table, "modules", y, &columns);
    let (title, y) = ("Modules asked", "modules asked by an empty lookup");
    let columns = ["paper, modules asked", "measured, modules asked"];
    let asked = Panel::of_columns(title, &table, "modules", y, &columns);
    let setting = format!(
        "{entries} keys of 32 B, 10 bits each, filters in memory, {lookups} lookups of absent keys; \
         modules asked are counted for one lookup in eight."
    );
    Ok(Findings::of(setting, [table], [pass, asked], claims))
}

pub(super) fn asked_at_most(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Empty lookups by the modules they ask (%)");
    let mut claims = Vec::new();
    for modules in MODULES {
        let base = base(lab, &equal(modules));
        let mut trial = lab.lookups_in(base, 150.0, 0.0, Distribution::Uniform)?;
        // Of which one in eight is counted.
        trial.measured = lab.scale.pick(2_000, 40_000, 40_000, 100_000);
        let asked = asked(&lab.measure(&trial)?, modules);
        let rates = passing(&vec![10.0 / modules as f64; modules])?;
        for most in 1..=modules {
            // Those that did not go on to the next module.
            let share = 100.0 * (1.0 - asked.get(most).copied().unwrap_or(0.0));
            let paper = ASKED.iter().find(|p| (p.0, p.1) == (modules, most));
            let theory = 100.0 * (1.0 - rates[..most].iter().product::<f64>());
            table.add(row! {
                "modules": modules,
                "asked at most": most,
                "paper %": paper.map(|paper| paper.2),
                "measured %": share,
                "theory %": if most < modules { theory } else { 100.0 },
            });
            if let Some((.., paper)) = paper {
                // A tenth of the 9 % that go on says more than one of the 91 % that do not.
                let what =
                    format!("% of empty lookups that ask more than {most} of {modules} modules");
                let (claimed, measured) = (100.0 - *paper, 100.0 - share);
                claims.push(if (modules, most) == MORE_THAN {
                    Claim::range(what, (0.0, claimed), &[measured])
                } else {
                    Claim::figure(what, claimed, measured)
                });
            }
        }
    }
    let title = "Empty lookups that ask no more modules";
    let mut panel = Panel::of_lines(title, &table, "modules", "asked at most", "measured %");
    let seven = ASKED.iter().filter(|(modules, ..)| *modules == 7);
    let points = seven.map(|(_, most, share)| (*most as f64, *share));
    panel.series.push(Series::of("paper, 7 modules", points));
    let setting = pressure::setting_of(lab, &base(lab, ""));
    Ok(Findings::of(setting, [table], [panel], claims))
}

/// That pages fall with the number of modules, and are fewest with the most (the caption): of no
/// two numbers more modules read more, by more than a tenth, and seven read less than one.
pub(super) fn falling(points: &[&Point], what: &str) -> Claim {
    let pages = |point: &Point| -> [f64; ALL_READ] { std::array::from_fn(|at| point.pages(at)) };
    let falls = |pages: [f64; ALL_READ]| {
        let more = |at: usize| pages[at] > (1.0 + TOLERANCE) * least_of(&pages[..at]);
        pages[ALL_READ - 1] < pages[0] && !(1..ALL_READ).any(more)
    };
    let rises = points.iter().filter(|point| !falls(pages(point)));
    let rises = rises.map(|point| format!("{} {:.3?}", point.place(), pages(point)));
    let rises: Vec<String> = rises.collect();
    let what = format!("{what} (1, 2, 3, 7 modules; of two that differ by more than a tenth)");
    Claim::everywhere(what, points.len(), &rises)
}

/// How much the number of modules matters: for each point, the most over the least pages; the
/// geometric mean over points where memory is short.
pub(super) fn spread(points: &[Point], engines: Range<usize>) -> f64 {
    let ratio = |point: &Point| {
        let pages = || engines.clone().map(|engine| point.pages(engine));
        pages().fold(0.0, f64::max) / pages().fold(f64::INFINITY, f64::min)
    };
    pressure::mean_of(&short_of_memory(points), ratio)
}

/// The database of an engine, in files large enough for seven modules.
pub(super) fn base(lab: &Lab<'_>, engine: &str) -> Base {
    // As large as the paper's, whatever the scale: 2 MiB are the least with a page for each of
    // seven modules (Eq. 11), and in 4 MiB less is lost to whole pages.
    let file = lab.scale.tiny_or(64 << 10, 4 << 20);
    Base {
        file_size: file,
        write_buffer: file,
        ..lab.base(engine)
    }
}

/// The engine that reads all of so many equal modules.
fn equal(modules: usize) -> String {
    match modules {
        1 => STATE_OF_THE_ART.to_owned(),
        _ => format!("shamba:shamba-eq+modules={modules}"),
    }
}

/// The share of absent keys that pass each module of a filter that has so many bits per key there.
pub(super) fn passing(bits: &[f64]) -> Result<Vec<f64>> {
    let hashes = modular::divide_hashes(7, bits)?;
    let each = bits.iter().zip(hashes);
    each.map(|(bits, hashes)| Ok(fpr::bloom(*bits, hashes)?))
        .collect()
}

/// How often lookups asked each module, of those that asked the first: sampled.
fn asked(found: &Found, modules: usize) -> Vec<f64> {
    let count = |module: usize| found.count(&format!("module_{module}_probed")) as f64;
    // The engine tells six modules apart; the sixth stands for the seventh as well. Half of those
    // that pass one bit pass the next.
    let split = |module: usize| match (modules, module) {
        (7, 5) => count(5) * 2.0 / 3.0,
        (7, 6) => count(5) / 3.0,
        _ => count(module),
    };
    let first = split(0).max(1.0);
    (0..modules).map(|module| split(module) / first).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pressure::tests::{found, point};
    use super::*;

    #[test]
    fn the_seventh_module_is_counted_with_the_sixth() {
        let mut found = Found::default();
        for (at, count) in [64, 32, 16, 8, 4, 3].into_iter().enumerate() {
            found.counts.insert(format!("module_{at}_probed"), count);
        }
        let asked = asked(&found, 7);
        assert_eq!(asked.iter().sum::<f64>() * 64.0, 127.0);
        assert_eq!((asked[5] * 64.0, asked[6] * 64.0), (2.0, 1.0));
    }

    #[test]
    fn all_modules_together_let_pass_what_the_filter_does() {
        let rates = |modules: usize| passing(&vec![10.0 / modules as f64; modules]).unwrap();
        for modules in MODULES {
            let rate = rates(modules).iter().product::<f64>();
            assert!((0.007..0.009).contains(&rate), "{modules}: {rate}");
        }
        assert!((rates(7)[0] - 0.5).abs() < 0.02);
    }

    #[test]
    fn more_modules_are_to_read_less_where_they_are_told_apart() {
        use crate::reproduce::Verdict::{DoesNotHold, Holds};
        let judged = |pages: [u64; ALL_READ]| {
            let point = point(pages.map(|pages| found("data_pages", pages)));
            falling(&[&point], "").verdict
        };
        assert_eq!(judged([100, 50, 51, 40]), Holds);
        for rises in [[100, 50, 56, 40], [100, 50, 54, 58], [100, 100, 100, 100]] {
            assert_eq!(judged(rises), DoesNotHold);
        }
    }
}
