//! Figure 16: what modules gain on slower and faster devices.
use crate::Result;
use crate::device::Device;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::lab::STATE_OF_THE_ART;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::workload::Distribution;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shamba-figure-16",
    title: "The gain by device",
    claim: "For empty uniform lookups SHaMBa is 1.4 to 2 times as fast as the state of the art under \
            memory pressure, on an SSD, a fast PCIe SSD and a RAM disk.",
    seconds: 6.0,
    run,
};

const DEVICES: [Device; 3] = [Device::SataSsd, Device::PcieSsd, Device::Ram];

const ENGINES: [(&str, &str); 3] = [
    ("shamba-eq", "shamba:shamba-eq"),
    ("shamba-eq-f", "shamba:shamba-eq-f"),
    ("our default", "shamba"),
];

/// The least and the most times as fast, as the paper has it.
const PAPER: [f64; 2] = [1.4, 2.0];

/// Repetitions on a real device, by seed; the fastest counts, the one least disturbed.
const REPEAT: u64 = 3;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let scale = lab.scale;
    let budgets = scale.budgets();
    let mut table = Report::new(
        "Times as fast as one filter a file",
        &[
            "device",
            "engine",
            "budget %",
            "state of the art, us",
            "us",
            "times as fast",
        ],
    );
    let mut panels = Vec::new();
    let mut claims = Vec::new();
    for device in DEVICES {
        let mut lines = Vec::new();
        for (name, engine) in ENGINES {
            let mut line = Series::new(name);
            for &percent in budgets {
                let before = micros(lab, STATE_OF_THE_ART, percent, device)?;
                let after = micros(lab, engine, percent, device)?;
                table.push(vec![
                    device.to_string().into(),
                    name.into(),
                    percent.into(),
                    before.into(),
                    after.into(),
                    (before / after).into(),
                ]);
                line.points.push((percent, before / after));
            }
            let short = line.points.iter().filter(|(percent, _)| *percent < 100.0);
            let most = short.map(|point| point.1).fold(0.0, f64::max);
            let what = format!("{name} on {device}: times as fast at best under pressure");
            claims.push(Claim::figure(what, PAPER[0], most));
            lines.push(line);
        }
        for (bound, name) in PAPER.into_iter().zip(["paper, from", "paper, to"]) {
            let ends = [budgets[0], budgets[budgets.len() - 1]];
            lines.push(Series {
                name: name.into(),
                points: ends.map(|percent| (percent, bound)).to_vec(),
            });
        }
        panels.push(Panel {
            title: format!("{device}, uniform empty lookups"),
            x: "memory, % of filters and indexes".into(),
            y: "times as fast as one filter a file".into(),
            log_y: true,
            series: lines,
        });
    }
    Ok(Findings {
        setting: super::pressure::setting(
            lab,
            "times are what modelled SSDs on SATA (98 us for a page) and PCIe (61 us) take for the reads that \
             were counted, and on a RAM disk this machine's, the least of three",
        ),
        tables: vec![table],
        panels,
        claims,
        ..Findings::default()
    })
}

/// Microseconds of a lookup: of a modelled device, what it takes for the reads counted.
fn micros(lab: &mut Lab<'_>, engine: &str, percent: f64, device: Device) -> Result<f64> {
    if device.model().is_some() {
        let trial = lab.lookups(engine, percent, 0.0, Distribution::Uniform)?;
        return Ok(lab.measure(&trial)?.device_us(device));
    }
    let mut least = f64::INFINITY;
    for seed in 0..REPEAT {
        let mut trial = lab.lookups(engine, percent, 0.0, Distribution::Uniform)?;
        trial.seed += seed;
        least = least.min(lab.measure(&trial.on(device))?.times.mean_us);
    }
    Ok(least)
}
