//! Figure 12: SHaMBa over Monkey's allocation of filter memory.
use super::pressure::{self, Grid, Point};
use crate::Result;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::trial::Found;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-12",
    title: "Modules over Monkey's filter memory",
    claim: "Monkey's large filters of small levels make it worse than the state of the art when memory \
            is very short. In two modules the reads of its empty lookups halve; for existing keys \
            skipping saves further ones.",
    seconds: 15.0,
    run,
};

const ENGINES: [&str; 5] = [
    STATE_OF_THE_ART,
    "shamba:state-of-the-art+monkey",
    "shamba:shamba-eq+monkey",
    "shamba:shamba-eq-p+monkey+paper",
    "shamba:shamba-eq-f+monkey+paper",
];

/// Monkey, without modules, among them.
const MONKEY: usize = 1;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let grid = Grid::uniform(&ENGINES, pressure::short_budgets(lab.scale));
    let points = pressure::measure(lab, &grid)?;
    let micros = |found: &Found| found.times.mean_us;
    let panels = pressure::panels_of(
        &ENGINES,
        &points,
        "microseconds per lookup on a RAM disk",
        micros,
    );
    let setting = pressure::setting(
        lab,
        "latency is this machine's with the database on a RAM disk",
    );
    let mut findings = pressure::findings(setting, &ENGINES, &points, claims(&points));
    let times = pressure::table_of("Microseconds per lookup", &ENGINES, &points, micros);
    findings.tables.insert(0, times);
    findings.panels.splice(..0, panels);
    Ok(findings)
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let short = pressure::short_of_memory(points);
    let existing: Vec<&Point> = short.iter().copied().filter(|p| p.positive > 0.0).collect();
    let mut claims = Vec::new();
    let least = points.first().map_or(0.0, |point| point.percent);
    let mut empty = points
        .iter()
        .filter(|p| p.percent == least && p.positive == 0.0);
    if let Some(point) = empty.next() {
        claims.push(Claim::statement(
            format!(
                "Monkey reads more than the state of the art ({})",
                point.place()
            ),
            "yes",
            format!("{:.2} and {:.2} pages", point.pages(MONKEY), point.pages(0)),
            point.pages(MONKEY) > point.pages(0),
        ));
        let what = format!(
            "part of Monkey's reads that two modules leave ({})",
            point.place()
        );
        claims.push(Claim::figure(
            what,
            0.5,
            point.pages(2) / point.pages(MONKEY),
        ));
    }
    let slower = pressure::slower(&short, (2, MONKEY));
    let what = "two modules make Monkey's lookups faster with less than 100 % of memory";
    claims.push(Claim::everywhere(what, short.len(), &slower));
    for engine in [3, 4] {
        let more = pressure::not_less(&existing, (engine, 2), "pages", |found| {
            found.per_lookup("filter_pages")
        });
        let what = format!(
            "{}: fewer filter pages than without skipping where keys exist and memory is short",
            pressure::short(ENGINES[engine])
        );
        claims.push(Claim::everywhere(what, existing.len(), &more));
    }
    claims
}
