//! Figure 8: SHaMBa-eq by number of modules, all of which are read.
use super::modules::{self, MODULES, spread};
use super::pressure::{self, Point};
use crate::Result;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-8",
    title: "Reads by number of modules",
    claim: "The smaller the modules the fewer the reads: seven are best, since memory is managed in \
            smaller parts.",
    seconds: 18.0,
    run,
};

pub(super) const ENGINES: [&str; 4] = [
    "shamba:state-of-the-art",
    "shamba:shamba-eq+modules=2",
    "shamba:shamba-eq+modules=3",
    "shamba:shamba-eq+modules=7",
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    modules::figure(lab, &ENGINES, |points| {
        let short: Vec<&Point> = points.iter().filter(|p| p.percent < 100.0).collect();
        let (empty, existing): (Vec<&Point>, Vec<&Point>) =
            short.iter().partition(|point| point.positive == 0.0);
        let mut claims = vec![
            falling(&empty, "empty lookups: the more modules the fewer reads"),
            falling(
                &existing,
                "lookups of which half or all find a key: the same",
            ),
        ];
        claims.push(pressure::fewer(
            "seven modules read less than one",
            &short,
            3,
        ));
        claims.push(Claim::statement(
            "the number of modules matters (most over least pages, mean where memory is short)",
            "yes",
            format!("{:.2} times", spread(points, 0..4)),
            spread(points, 0..4) > 1.1,
        ));
        claims
    })
}

/// That pages fall from number to number of modules.
fn falling(points: &[&Point], what: &str) -> Claim {
    let rises: Vec<Rise> = points
        .iter()
        .filter_map(|point| Rise::most(point))
        .collect();
    Claim::statement(
        what,
        "1 > 2 > 3 > 7 modules",
        format!(
            "in {} of {} points",
            points.len() - rises.len(),
            points.len()
        ),
        rises.is_empty(),
    )
    .because(true, causes(&rises))
}

/// Where more modules read more pages.
struct Rise<'a> {
    point: &'a Point,
    /// The two numbers of modules, by their places in [`MODULES`].
    pair: [usize; 2],
}

impl<'a> Rise<'a> {
    /// The largest rise of a point from one number of modules to the next; `None` if pages fall
    /// throughout.
    fn most(point: &'a Point) -> Option<Self> {
        let share = |at: &usize| point.pages(at + 1) / point.pages(*at);
        let rises = (0..ENGINES.len() - 1).filter(|at| share(at) > 1.0);
        let at = rises.max_by(|a, b| share(a).total_cmp(&share(b)))?;
        let pair = [at, at + 1];
        Some(Self { point, pair })
    }
}

/// Where pages rise, and what by.
fn causes(rises: &[Rise<'_>]) -> String {
    let founds = rises.iter().map(|rise| {
        let [fewer, more] = rise.pair.map(|at| &rise.point.found[at]);
        (fewer, more)
    });
    let index = |found: &Found| {
        let resident = found.resident.as_ref();
        resident.map_or(f64::NAN, |resident| resident.index as f64 / 1000.0)
    };
    let mean = |of: fn((&Found, &Found)) -> [f64; 2], at: usize| {
        founds.clone().map(|pair| of(pair)[at]).sum::<f64>() / rises.len().max(1) as f64
    };
    let held = founds
        .clone()
        .map(|(fewer, more)| [index(fewer), index(more)]);
    let held = held.fold([0.0; 2], |sum, [fewer, more]| {
        [sum[0] + fewer, sum[1] + more]
    });
    let [fewer, more] = held.map(|sum| sum / rises.len().max(1) as f64);
    let pages = |(fewer, more): (&Found, &Found)| {
        [fewer, more].map(|found| found.per_lookup("filter_pages"))
    };
    let places: Vec<String> = rises
        .iter()
        .map(|rise| {
            let [fewer, more] = rise.pair;
            format!(
                "{} {:.2} with {}, {:.2} with {}",
                rise.point.place(),
                rise.point.pages(fewer),
                MODULES[fewer],
                rise.point.pages(more),
                MODULES[more]
            )
        })
        .collect();
    let why = pressure::factor_to_blame(founds.clone());
    format!(
        "where pages rise with modules {:.3} of them are filter pages, against {:.3} with fewer modules; {}indexes \
         take {more:.0} KB of memory against {fewer:.0} ({})",
        mean(pages, 1),
        mean(pages, 0),
        why.map_or_else(String::new, |why| format!("{why}; ")),
        places.join("; ")
    )
}
