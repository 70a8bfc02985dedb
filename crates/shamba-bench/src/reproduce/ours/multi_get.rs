//! Batched lookups against single ones, on cold data.
use super::store;
use crate::device::Device;
use crate::experiments::Target;
use crate::experiments::multi_get::{Cell, Measured};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, cell, plot, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ours-multi-get",
    title: "Lookups in batches",
    claim: "Where a device answers several reads at once, lookups in a batch are faster than one by one.",
    seconds: 10.0,
    run,
};

const ENGINES: [&str; 2] = ["shamba", "shamba:default+lru"];

/// Where the database lies: its own disk, one that reads many pages at once, and one that cannot.
const DEVICES: [Device; 3] = [Device::Disk, Device::PcieSsd, Device::Hdd];

/// Keys in a batch.
const BATCH: usize = 64;

/// A batch is no slower than its lookups one by one if it has this part of their throughput.
const NO_SLOWER: f64 = 0.9;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let store = store(lab, &ENGINES);
    let budgets: &[f64] = lab
        .scale
        .pick(&[400.0], &[10.0, 100.0], &[10.0, 100.0], &[10.0, 100.0]);
    let batches = lab.scale.pick(4, 50, 200, 200);
    let mut table = Report::titled("Lookups in batches on cold data, beside reads of random pages");
    // Times the throughput of one by one, on the SSD and on the hard disk.
    let (mut many_at_once, mut one_at_once) = (Vec::new(), Vec::new());
    // Every engine at every budget, on one device after the other.
    for device in DEVICES {
        for &percent in budgets {
            for engine in ENGINES {
                let note = &mut |line| lab.note(line);
                let Measured { lookups, reads } = cell::measure(&Cell {
                    target: Target::loaded(&store, engine, percent, 0, note)?,
                    batch: BATCH,
                    batches,
                    positive: 1.0,
                    device,
                })?;
                match device {
                    Device::PcieSsd => many_at_once.push(lookups.gain()),
                    Device::Hdd => one_at_once.push(lookups.gain()),
                    _ => {}
                }
                table.add(row! {
                    "engine": engine,
                    "device": device.to_string(),
                    "budget %": percent,
                    "keys": BATCH,
                    "single us/key": lookups.single,
                    "multi_get us/key": lookups.batched,
                    "times the throughput": lookups.gain(),
                    "single us/page": reads.single,
                    "times the pages": reads.gain(),
                });
            }
        }
    }
    // The worst case of all engines and budgets is judged.
    let least = |gains: &[f64]| gains.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Findings {
        setting: format!(
            "{} entries of 64 B, all keys exist, uniform lookups, every key asked for once, {batches} batches \
             of {BATCH} keys alternating with as many lookups one by one (medians); random pages of the same \
             files beside them tell what the device itself gains; modelled devices charge without waiting, \
             what they charge is added to the times.",
            store.entries
        ),
        panels: plot::of_report(
            &table,
            "device",
            "engine",
            "budget %",
            "times the throughput",
        ),
        tables: vec![table],
        claims: vec![
            Claim::goal_from(
                "times the throughput of lookups one by one, at least, PCIe SSD",
                1.0,
                least(&many_at_once),
            ),
            Claim::goal_from(
                "times the throughput of lookups one by one, at least, a disk that reads one page at a time",
                NO_SLOWER,
                least(&one_at_once),
            ),
        ],
        ..Findings::default()
    })
}
