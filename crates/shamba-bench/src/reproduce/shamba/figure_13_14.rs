//! Figures 13 and 14: SHaMBa-eq and SHaMBa-prop beside RocksDB itself; latency by this machine's
//! clock, all on its disk past the page cache.
use super::pressure::{MEMORY, at, setting, short, short_budgets};
use crate::device::Device;
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;
use crate::{Result, engine, plot, row};

pub(super) const FIGURE_13: Experiment = Experiment {
    name: "shamba-figure-13",
    title: "Equal-sized modules beside RocksDB",
    claim: "SHaMBa-eq has a lower latency than RocksDB when memory is short, for empty lookups and for \
            existing keys, most with skipping.",
    seconds: 30.0,
    run: |lab| run(lab, &EQUAL),
};

pub(super) const FIGURE_14: Experiment = Experiment {
    name: "shamba-figure-14",
    title: "Modules proportional to memory beside RocksDB",
    claim: "SHaMBa-prop significantly reduces the latency of RocksDB under memory pressure, most with \
            full skipping.",
    seconds: 5.0,
    run: |lab| run(lab, &PROPORTIONAL),
};

const EQUAL: [&str; 5] = [
    STATE_OF_THE_ART,
    "shamba:shamba-eq",
    "shamba:shamba-eq-p+paper",
    "shamba:shamba-eq-f+paper",
    "shamba",
];

const PROPORTIONAL: [&str; 5] = [
    STATE_OF_THE_ART,
    "shamba:shamba-prop+first={first}",
    "shamba:shamba-prop-p+paper+first={first}",
    "shamba:shamba-prop-f+paper+first={first}",
    "shamba",
];

/// RocksDB as the paper has it, one filter a file, and at its best (of those that PEERS names).
const ROCKSDB: [&str; 2] = [
    "rocksdb:bloom-whole-unsharded",
    "rocksdb:ribbon-partitioned-unsharded",
];

/// Measures these engines of ours, whose names may hang on the budget, and RocksDB where it is
/// built in.
fn run(lab: &mut Lab<'_>, ours: &[&str]) -> Result<Findings> {
    let built_in = engine::available().contains(&"rocksdb");
    let peers: &[&str] = if built_in { &ROCKSDB } else { &[] };
    let engines: Vec<&str> = peers.iter().chain(ours).copied().collect();
    let mut table = Report::titled("Lookups beside RocksDB");
    let plain = lab.base(STATE_OF_THE_ART);
    let budgets = lab.budgets(&plain, short_budgets(lab.scale))?;
    let mut points: Vec<Point> = Vec::new();
    for positive in [0.0, 1.0] {
        for &percent in &budgets {
            let mut times = Vec::new();
            for engine in &engines {
                let name = at(engine, percent);
                let trial = lab.lookups(&name, percent, positive, Distribution::Uniform)?;
                let found = lab.measure(&trial.on(Device::Disk))?;
                table.add(row! {
                    "existing": positive,
                    "budget %": percent,
                    "engine": short(engine),
                    "pages per lookup": found.pages(),
                    "reads per lookup": found.reads(),
                    "microseconds": found.times.mean_us,
                });
                times.push(found.times.mean_us);
            }
            points.push((positive, percent, times));
        }
        lab.note(format!("{positive} existing"));
    }
    let mut panels = plot::of_report(&table, "existing", "engine", "budget %", "microseconds");
    for panel in &mut panels {
        panel.title = format!("uniform, {}", panel.title);
        panel.x = MEMORY.to_owned();
        panel.y = "microseconds per lookup".to_owned();
        panel.log_y = true;
    }
    let mut claims = Vec::new();
    let mut notes = Vec::new();
    // The first of ours is the baseline of the other figures, the last is not the paper's.
    let (first, last) = (peers.len() + 1, engines.len() - 1);
    for (engine, name) in engines.iter().enumerate().take(last).skip(first) {
        let name = short(name);
        let what =
            format!("{name}: lower latency than RocksDB with one filter a file under pressure");
        claims.push(if built_in {
            let (of, lost) = lost(&points, engine, 0);
            Claim::everywhere(what, of, &lost)
        } else {
            Claim::not_comparable(what, "at every budget", NOT_BUILT_IN)
        });
    }
    if built_in {
        let (of, lost) = lost(&points, last, 1);
        let what =
            "our default: lower latency than RocksDB's partitioned ribbon filters under pressure";
        claims.push(Claim::goal_everywhere(what, of, &lost));
    } else {
        notes.push(NOT_BUILT_IN.to_owned());
    }
    Ok(Findings {
        setting: setting(
            lab,
            "all on this machine's disk by direct I/O, reads of RocksDB counted by the kernel, ours by the \
             engine; RocksDB's budget is its block cache alone, ours is for everything",
        ),
        tables: vec![table],
        panels,
        claims,
        notes,
        ..Findings::default()
    })
}

const NOT_BUILT_IN: &str = "RocksDB is not in this build (cargo feature `rocksdb`)";

/// A share of existing keys, a budget in percent, and the microseconds of each engine.
type Point = (f64, f64, Vec<f64>);

/// How many points are under pressure, and at which of them an engine is no faster than a peer.
fn lost(points: &[Point], engine: usize, peer: usize) -> (usize, Vec<String>) {
    let short = || points.iter().filter(|(_, percent, _)| *percent < 100.0);
    let lost = short().filter(|(.., us)| us[engine] >= us[peer]);
    let place = |(positive, percent, us): &Point| {
        let (own, theirs) = (us[engine], us[peer]);
        format!("{positive} existing, {percent} % ({own:.0} us, {theirs:.0})")
    };
    (short().count(), lost.map(place).collect())
}
