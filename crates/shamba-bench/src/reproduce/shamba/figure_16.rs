//! Figure 16: what modules gain on slower and faster devices.
use super::pressure::{MEMORY, short, short_budgets};
use crate::device::Device;
use crate::plot::{self, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;
use crate::{Result, engine, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-16",
    title: "The gain by device",
    claim: "For empty uniform lookups SHaMBa is 1.4 to 2 times as fast as RocksDB under memory \
            pressure, on an SSD, a fast PCIe SSD and a RAM disk.",
    seconds: 6.0,
    run,
};

/// The disk that this machine has, and a RAM disk.
const DEVICES: [Device; 2] = [Device::Disk, Device::Ram];

/// The paper's baseline, where it is built in.
const ROCKSDB: &str = "rocksdb:bloom-whole-unsharded";

const ENGINES: [&str; 3] = ["shamba:shamba-eq", "shamba:shamba-eq-f+paper", "shamba"];

/// The least and the most times as fast, as the paper has it.
const PAPER: (f64, f64) = (1.4, 2.0);

/// The column of what is claimed.
const TIMES: &str = "times as fast";

/// Repetitions, by seed; the fastest counts, the one least disturbed.
const REPEAT: u64 = 3;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let base = lab.base(STATE_OF_THE_ART);
    let budgets = lab.budgets(&base, short_budgets(lab.scale))?;
    let built_in = engine::available().contains(&"rocksdb");
    let baseline = if built_in { ROCKSDB } else { STATE_OF_THE_ART };
    let mut table = Report::titled("Times as fast as the baseline");
    let mut claims = Vec::new();
    for device in DEVICES {
        for engine in ENGINES {
            let name = short(engine);
            let mut times = Vec::new();
            for &percent in &budgets {
                let before = micros(lab, baseline, percent, device)?;
                let after = micros(lab, engine, percent, device)?;
                table.add(row! {
                    "device": device.to_string(),
                    "engine": name,
                    "budget %": percent,
                    "baseline, us": before,
                    "us": after,
                    TIMES: before / after,
                });
                if percent < 100.0 {
                    times.push(before / after);
                }
            }
            let what = format!("{name} on {device}: times as fast under pressure");
            let claim = Claim::range(&what, PAPER, &times);
            claims.push(if engine == "shamba" {
                let least = times.iter().copied().fold(f64::INFINITY, f64::min);
                Claim::goal_from(format!("{what}, at least"), PAPER.0, least)
            } else if built_in {
                claim
            } else {
                claim.without_verdict(
                    "the paper's baseline is RocksDB, which is not in this build (cargo feature `rocksdb`)",
                )
            });
        }
    }
    let mut panels = plot::of_report(&table, "device", "engine", "budget %", TIMES);
    for panel in &mut panels {
        for (bound, name) in [(PAPER.0, "paper, from"), (PAPER.1, "paper, to")] {
            let ends = [budgets[0], budgets[budgets.len() - 1]];
            let line = Series::of(name, ends.map(|percent| (percent, bound)));
            panel.series.push(line);
        }
        panel.title += ", uniform empty lookups";
        panel.x = MEMORY.to_owned();
        panel.y = format!("{TIMES} as the baseline");
        panel.log_y = true;
    }
    Ok(Findings {
        setting: super::pressure::setting(
            lab,
            &format!(
                "baseline {}; times are this machine's, the least of three, on its disk past the page cache and \
                 on a RAM disk",
                short(baseline)
            ),
        ),
        tables: vec![table],
        panels,
        claims,
        ..Findings::default()
    })
}

/// Microseconds of a lookup.
fn micros(lab: &mut Lab<'_>, engine: &str, percent: f64, device: Device) -> Result<f64> {
    let mut least = f64::INFINITY;
    for seed in 0..REPEAT {
        let mut trial = lab.lookups(engine, percent, 0.0, Distribution::Uniform)?;
        trial.seed += seed;
        least = least.min(lab.measure(&trial.on(device))?.times.mean_us);
    }
    Ok(least)
}
