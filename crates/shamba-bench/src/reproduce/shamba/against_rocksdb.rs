//! SHaMBa beside RocksDB itself, for Figures 13 and 14. Modelled devices are ours alone, so latency
//! is what a SATA SSD would take for the reads that were counted: of RocksDB by the kernel, on the
//! disk.
use super::pressure::{at, short};
use crate::Result;
use crate::device::Device;
use crate::engine;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Findings, Lab};
use crate::workload::Distribution;

/// RocksDB as the paper has it, one filter a file, and at its best (of those that PEERS names).
const ROCKSDB: [&str; 2] = [
    "rocksdb:bloom-whole-unsharded",
    "rocksdb:ribbon-partitioned-unsharded",
];

/// The device whose latencies are taken.
const DEVICE: Device = Device::SataSsd;

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
    let budgets = lab.scale.budgets();
    let mut panels = Vec::new();
    let mut points: Vec<Point> = Vec::new();
    for positive in [0.0, 1.0] {
        let mut series: Vec<Series> = engines.iter().map(|e| Series::new(short(e))).collect();
        for &percent in budgets {
            let mut all = Vec::new();
            for (engine, line) in engines.iter().zip(&mut series) {
                let peer = peers.contains(engine);
                let device = if peer { Device::Disk } else { Device::Ram };
                let name = at(engine, percent);
                let trial = lab.lookups(&name, percent, positive, Distribution::Uniform)?;
                let found = lab.measure(&trial.on(device))?;
                let time = found.device_us(DEVICE);
                table.push(vec![
                    positive.into(),
                    percent.into(),
                    short(engine).into(),
                    found.pages().into(),
                    found.reads().into(),
                    time.into(),
                ]);
                line.points.push((percent, time));
                all.push(Measured {
                    us: time,
                    reads: found.reads(),
                    pages: found.pages(),
                });
            }
            points.push((positive, percent, all));
        }
        panels.push(Panel {
            title: format!("uniform, {positive} existing"),
            x: "memory, % of filters and indexes".into(),
            y: "microseconds of device per lookup".into(),
            log_y: true,
            series,
        });
        lab.note(format!("{positive} existing"));
    }
    let mut claims = Vec::new();
    let mut notes = vec![
        "Latency is the modelled SATA SSD's alone: reads and pages counted, times what each takes \
         there. The processor's time is left out."
            .to_owned(),
    ];
    if built_in {
        // The first of ours is the baseline of the other figures, for comparison.
        for engine in peers.len() + 1..engines.len() {
            let claim = beats(&points, &engines, engine, 0, "with one filter a file");
            claims.push(with_cause(lab, claim, engines[engine], &points, engine)?);
        }
        let ours = engines.len() - 1;
        claims.push(beats(&points, &engines, ours, 1, "at its best"));
    } else {
        notes.push(
            "This build has no RocksDB (cargo feature `rocksdb`): only ours were measured.".into(),
        );
    }
    Ok(Findings {
        setting: super::pressure::setting(
            lab,
            "RocksDB by direct I/O on the disk, its reads counted by the kernel, ours from a RAM \
             disk, counted by the engine",
        ),
        tables: vec![table],
        panels,
        claims,
        notes,
        ..Findings::default()
    })
}

/// Measures the points that are lost to RocksDB again, with as many bytes more as the budget has of
/// other things than blocks: RocksDB's budget is its block cache alone. What is then still lost is
/// put down to the two things that the device charges for: read operations, of which a filter in
/// modules takes one for each, and pages.
fn with_cause(
    lab: &mut Lab<'_>,
    claim: Claim,
    engine: &str,
    points: &[Point],
    at_engine: usize,
) -> Result<Claim> {
    let operation_us = DEVICE
        .model()
        .map_or(0.0, |model| model.read as f64 / 1000.0);
    let lost = points
        .iter()
        .filter(|(_, percent, all)| *percent < 100.0 && all[at_engine].us >= all[0].us);
    let mut causes = Vec::new();
    for (positive, percent, all) in lost {
        let peer = all[0];
        let name = at(engine, *percent);
        let mut trial = lab.lookups(&name, *percent, *positive, Distribution::Uniform)?;
        let resident = lab.measure(&trial)?.resident.unwrap_or_default();
        let blocks = resident.data + resident.index + resident.filter;
        let budget = trial.memory;
        trial.memory += budget.saturating_sub(blocks);
        let again = lab.measure(&trial)?;
        let us = again.device_us(DEVICE);
        let mut cause = format!(
            "{positive} existing, {percent} %: {:.0} KB of the {:.0} KB are blocks, the rest tables and \
             buffers; with so much more it is {us:.0} us against {:.0}",
            blocks as f64 / 1000.0,
            budget as f64 / 1000.0,
            peer.us
        );
        if us >= peer.us {
            let without = us - (again.reads() - peer.reads).max(0.0) * operation_us;
            cause += &format!(
                ", of them {:.0} for reading module by module in {:.2} operations against {:.2}",
                us - without,
                again.reads(),
                peer.reads
            );
            if without >= peer.us {
                cause += &format!(
                    " and the rest for {:.2} pages against {:.2}, {:.2} of ours of filters",
                    again.pages(),
                    peer.pages,
                    again.per_lookup("filter_pages")
                );
            }
        }
        causes.push(cause);
    }
    Ok(claim.because(
        true,
        format!(
            "{}: our budget is for everything, RocksDB's for its block cache alone. {}",
            short(engine),
            causes.join("; ")
        ),
    ))
}

/// What an engine's lookup took.
#[derive(Clone, Copy)]
struct Measured {
    /// Microseconds of the device.
    us: f64,
    /// Read operations.
    reads: f64,
    /// Pages read.
    pages: f64,
}

/// A share of existing keys, a budget in percent, and each engine.
type Point = (f64, f64, Vec<Measured>);

fn beats(points: &[Point], engines: &[&str], engine: usize, peer: usize, which: &str) -> Claim {
    let short_memory = || points.iter().filter(|point| point.1 < 100.0);
    let lost: Vec<String> = short_memory()
        .filter(|(.., all)| all[engine].us >= all[peer].us)
        .map(|(positive, percent, all)| {
            format!(
                "{:.0} against {:.0} us ({positive} existing, {percent} %)",
                all[engine].us, all[peer].us
            )
        })
        .collect();
    let of = short_memory().count();
    Claim::statement(
        format!(
            "{}: lower latency than RocksDB {which} under pressure",
            short(engines[engine])
        ),
        "at every budget",
        if lost.is_empty() {
            format!("in {of} of {of} points")
        } else {
            format!("in {} of {of} points; {}", of - lost.len(), lost.join("; "))
        },
        lost.is_empty(),
    )
}
