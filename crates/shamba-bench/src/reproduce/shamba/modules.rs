//! What lookups do with the modules of filters in 1, 2, 3 or 7 parts: for Table 3 and Figures 8
//! to 10.
use super::pressure::{self, Grid, Point};
use crate::Result;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Findings, Lab};
use crate::store::Base;

/// Numbers of modules.
pub(super) const MODULES: [usize; 4] = [1, 2, 3, 7];

/// The database of an engine, in files large enough for seven modules.
pub(super) fn base(lab: &Lab<'_>, engine: &str) -> Base {
    // As large as the paper's, whatever the scale: 2 MiB are the least with a page for each of
    // seven modules (Eq. 11), and in 4 MiB less is lost to whole pages.
    let file = lab.scale.pick(64 << 10, 4 << 20, 4 << 20, 4 << 20);
    Base {
        file_size: file,
        write_buffer: file,
        ..lab.base(engine)
    }
}

/// The engine that reads all of so many equal modules.
pub(super) fn equal(modules: usize) -> String {
    match modules {
        1 => "shamba:state-of-the-art".to_owned(),
        _ => format!("shamba:shamba-eq+modules={modules}"),
    }
}

/// How often lookups asked each module, of those that asked the first: sampled.
pub(super) fn asked(found: &Found, modules: usize) -> Vec<f64> {
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

/// Uniform lookups over the budget, for each number of modules (Figures 8 and 10).
pub(super) fn figure(
    lab: &mut Lab<'_>,
    engines: &[&str],
    claims: fn(&[Point]) -> Vec<Claim>,
) -> Result<Findings> {
    let grid = Grid {
        base,
        ..Grid::uniform(engines, lab.scale.budgets())
    };
    let points = pressure::measure(lab, &grid)?;
    let setting = pressure::setting_of(
        lab,
        &base(lab, engines[0]),
        "RAM disk, pages counted by the engine",
    );
    let claims = claims(&points);
    Ok(pressure::findings(setting, engines, &points, claims))
}

/// How much the number of modules matters: for each point, the most over the least pages; the
/// geometric mean over points where memory is short.
pub(super) fn spread(points: &[Point], engines: std::ops::Range<usize>) -> f64 {
    let short = points.iter().filter(|point| point.percent < 100.0);
    let logs: Vec<f64> = short
        .map(|point| {
            let pages = || engines.clone().map(|engine| point.pages(engine));
            (pages().fold(0.0, f64::max) / pages().fold(f64::INFINITY, f64::min)).ln()
        })
        .collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seventh_module_is_counted_with_the_sixth() {
        let mut found = Found::default();
        for (module, count) in [(0, 64), (1, 32), (2, 16), (3, 8), (4, 4), (5, 3)] {
            found
                .counts
                .insert(format!("module_{module}_probed"), count);
        }
        let asked = asked(&found, 7);
        assert_eq!(asked.iter().sum::<f64>() * 64.0, 127.0);
        assert_eq!((asked[5] * 64.0, asked[6] * 64.0), (2.0, 1.0));
    }
}
