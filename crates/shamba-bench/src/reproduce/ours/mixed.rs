//! Lookups while the tree is written to and compacted, under little memory.
use super::{each, no_more_beside_compaction, others};
use crate::reproduce::prelude::*;
use crate::reproduce::shamba::pressure::full_memory;

/// Half updates and half lookups, uniform; and YCSB's that look up and write.
fn mixes() -> Result<[(&'static str, Mix); 4]> {
    let updates = Mix {
        shares: vec![(Operation::Read, 0.5), (Operation::Update, 0.5)],
        ..Mix::lookups(1.0, Distribution::Uniform)
    };
    Ok([
        ("updates", updates),
        ("a", Mix::ycsb('a')?),
        ("b", Mix::ycsb('b')?),
        ("d", Mix::ycsb('d')?),
    ])
}

/// The column of our writes a second over an engine's.
const WRITES: &str = "first's writes/s / these";

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let budgets: &[f64] = lab.scale.tiny_or(&[400.0], &[25.0, 100.0]);
    let (warm_up, measured) = lab.scale.pick(
        (200, 200),
        (20_000, 40_000),
        (25_000, 50_000),
        (100_000, 200_000),
    );
    let mut table = Report::titled("Reads of lookups beside compaction");
    let mut claims = Vec::new();
    for (workload, mix) in mixes()? {
        for &percent in budgets {
            // Each engine on a copy of its own database, on the disk: compaction reads too.
            let all = each(lab, |lab, engine| {
                let mut trial = lab.lookups(engine, percent, 1.0, mix.distribution)?;
                trial.mix = mix.clone();
                Ok(trial.lasting((warm_up, measured)).on(Device::Disk))
            })?;
            // A row for each engine, beside the first.
            let first = &all[0].1;
            for (engine, found) in &all {
                table.add(row! {
                    "workload": workload,
                    "budget %": percent,
                    "engine": engine,
                    "pages": found.pages(),
                    "reads": found.reads(),
                    "lookup us": found.read_us,
                    "writes/s": 1e6 / found.write_us,
                    "flushes": found.count("flushes"),
                    "compactions": found.count("compactions"),
                    "peak MiB": found.peak_memory as f64 / f64::from(1 << 20),
                    "first's pages / these": first.pages() / found.pages(),
                    WRITES: found.write_us / first.write_us,
                });
            }
            let others = others(lab);
            let what = format!("{workload}: pages beside the best of {others} at {percent} %");
            claims.push(no_more_beside_compaction(what, &all, Found::pages));
        }
        lab.note(workload);
    }
    let setting = format!(
        "{} entries of 64 B, half updates and half lookups (uniform) and YCSB's A, B and D, {warm_up} + \
         {measured} operations of one thread beside two for compaction, direct I/O on this disk; pages and \
         reads are those of lookups{}.",
        lab.scale.entries(),
        full_memory(lab, &lab.base(""))
    );
    let panels = plot::of_report(&table, "workload", "engine", "budget %", "pages");
    let note = format!(
        "No goal was set for writes: a second ours are {:.2} to {:.2} times the others' (the table). The preset \
         `partitioned` was not measured here: ours-mixed-graph has it.",
        table.least(WRITES),
        table.most(WRITES)
    );
    Ok(Findings::of(setting, [table], panels, claims).noting(vec![note]))
}
