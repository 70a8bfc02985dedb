//! SHaMBa beside RocksDB itself, for Figures 13 and 14: latency by this machine's clock, all on its
//! disk past the page cache.
use super::pressure::{at, short};
use crate::Result;
use crate::device::Device;
use crate::engine;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Findings, Lab};
use crate::workload::Distribution;

/// RocksDB as the paper has it, one filter a file, and at its best (of those that PEERS names).
const ROCKSDB: [&str; 2] = [
    "rocksdb:bloom-whole-unsharded",
    "rocksdb:ribbon-partitioned-unsharded",
];

/// Measures these engines of ours, whose names may hang on the budget, and RocksDB where it is
/// built in.
pub(super) fn run(lab: &mut Lab<'_>, ours: &[&str]) -> Result<Findings> {
    let built_in = engine::available().contains(&"rocksdb");
    let peers: &[&str] = if built_in { &ROCKSDB } else { &[] };
    let engines: Vec<&str> = peers.iter().chain(ours).copied().collect();
    let mut table = Report::new(
        "Lookups beside RocksDB",
        &[
            "existing",
            "budget %",
            "engine",
            "pages per lookup",
            "reads per lookup",
            "microseconds",
        ],
    );
    let plain = lab.base(STATE_OF_THE_ART);
    let budgets = lab.budgets(&plain, lab.scale.budgets())?;
    let mut panels = Vec::new();
    let mut points: Vec<Point> = Vec::new();
    for positive in [0.0, 1.0] {
        let mut series: Vec<Series> = engines.iter().map(|e| Series::new(short(e))).collect();
        for &percent in &budgets {
            let mut all = Vec::new();
            for (engine, line) in engines.iter().zip(&mut series) {
                let name = at(engine, percent);
                let trial = lab.lookups(&name, percent, positive, Distribution::Uniform)?;
                let found = lab.measure(&trial.on(Device::Disk))?;
                let time = found.times.mean_us;
                table.push(vec![
                    positive.into(),
                    percent.into(),
                    short(engine).into(),
                    found.pages().into(),
                    found.reads().into(),
                    time.into(),
                ]);
                line.points.push((percent, time));
                all.push(time);
            }
            points.push((positive, percent, all));
        }
        panels.push(Panel {
            title: format!("uniform, {positive} existing"),
            x: "memory, % of filters and indexes".into(),
            y: "microseconds per lookup".into(),
            log_y: true,
            series,
        });
        lab.note(format!("{positive} existing"));
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
        setting: super::pressure::setting(
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
