//! Facebook's mixed graph: lookups, updates and scans with sizes and key ranges as in production.
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::shamba::pressure::short;
use crate::reproduce::trial::Trial;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::store::Base;
use crate::workload::{Distribution, KeyKind, Mix, Sizes};
use shamba::MIN_MEMORY;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ours-mixed-graph",
    title: "Facebook's mixed graph",
    claim: "With the value sizes, hot key ranges, updates and scans of Facebook's graph store, the default \
            policy reads fewer pages per operation than the papers' systems at the same memory.",
    seconds: 15.0,
    run,
};

const ENGINES: [&str; 5] = [
    "shamba",
    "shamba:partitioned",
    "shamba:shamba-eq-f",
    "shamba:elastic",
    STATE_OF_THE_ART,
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (warm_up, measured) = lab.scale.lookups();
    let budgets: &[f64] = lab.scale.pick(
        &[400.0],
        &[10.0, 40.0],
        &[10.0, 40.0, 100.0],
        &[10.0, 40.0, 100.0],
    );
    let mut table = Report::new(
        "The mixed graph",
        &[
            "budget %",
            "engine",
            "pages/op",
            "lookup and scan us",
            "write us",
            "tables written, bytes per byte",
        ],
    );
    let mut series = ENGINES.map(|engine| Series::new(short(engine)));
    let mut claims = Vec::new();
    for &percent in budgets {
        let mut pages = Vec::new();
        for (engine, series) in ENGINES.iter().zip(&mut series) {
            let base = Base {
                keys: KeyKind::Sized(48),
                value: Sizes::GRAPH_VALUES,
                ..lab.base(engine)
            };
            let memory = lab.metadata(&base)? as f64 * percent / 100.0;
            let trial = Trial {
                warm_up,
                measured,
                mix: Mix::graph(),
                ..Trial::lookups(
                    base,
                    (memory as u64).max(MIN_MEMORY),
                    1.0,
                    Distribution::Graph,
                )
            };
            let found = lab.measure(&trial)?;
            let given = found.count("user_bytes_written").max(1) as f64;
            pages.push(found.pages());
            series.points.push((percent, found.pages()));
            table.push(vec![
                percent.into(),
                short(engine).into(),
                found.pages().into(),
                found.read_us.into(),
                found.write_us.into(),
                (found.table_bytes() as f64 / given).into(),
            ]);
        }
        let best = pages[1..].iter().fold(f64::INFINITY, |a, b| a.min(*b));
        claims.push(Claim::goal_to(
            format!("pages beside the best of the papers' systems at {percent} %"),
            1.0,
            pages[0] / best,
        ));
    }
    Ok(Findings {
        setting: format!(
            "{} entries with keys of 48 B and values of a generalised Pareto distribution (mean 35 B), 85 % \
             lookups, 14 % updates, 1 % scans, {warm_up} + {measured} operations, RAM disk; pages are those \
             of lookups, per operation that is no write. Parameters of the FAST 2020 study (RocksDB's \
             mixgraph).",
            lab.scale.entries()
        ),
        panels: vec![Panel {
            title: "Facebook's mixed graph".into(),
            x: "memory, % of filters and indexes".into(),
            y: "pages read per lookup or scan".into(),
            log_y: true,
            series: series.into(),
        }],
        tables: vec![table],
        claims,
        ..Findings::default()
    })
}
