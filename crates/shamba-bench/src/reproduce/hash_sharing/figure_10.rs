//! Figure 10: skewed lookups.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-10",
    title: "Gain with skewed lookups",
    claim: "Under Zipfian lookups the gain rises steeply with the key, to more than 60 % at 1 KB, since fewer false \
            positives read data (0.08 % instead of 0.8 %).",
    seconds: 4.0,
    run,
};

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let (mut skewed, mut uniform) = (Points::new("bytes of a key"), Points::new("bytes of a key"));
    for key in lab.scale.pick(
        &[64][..],
        &[16, 128, 1024],
        &[8, 32, 128, 512, 1024],
        &[8, 16, 32, 64, 128, 256, 512, 1024],
    ) {
        for (zipf, points) in [(true, &mut skewed), (false, &mut uniform)] {
            let cell = Cell {
                key: *key,
                value: 2048 - key,
                zipf,
                ..lookups::base(
                    lab,
                    &[Place::On(Device::FastPcieSsd), Place::On(Device::Ram)],
                )
            };
            let seen = lookups::measure(lab, &cell)?;
            points.add(*key as f64, &cell, seen);
        }
    }
    let (rates, even) = choices(lab)?;
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(f64::MIN, f64::max);
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let (mean, even) = (mean(&rates), mean(&even));
    let memory: Vec<&Point> = skewed.on(Place::On(Device::Ram)).collect();
    let last = skewed.on(Place::On(Device::FastPcieSsd)).last();
    Ok(Findings {
        setting: format!(
            "{} Here entries have 2 KB, and keys are asked for by Zipf's law (0.99), popular ones scattered; which keys \
             are popular decides how many false positives there are.",
            lookups::setting(lab)
        ),
        claims: vec![
            lookups::gain("gain at keys of 1 KB, PCIe SSD of 10 us", 60.0, last)?,
            Claim::statement(
                "gain by key size in memory, % (the last no smaller than the first)",
                "rises",
                lookups::percent(&memory),
                lookups::grows(&memory),
            ),
            Claim::statement(
                "false positives with skewed lookups beside uniform ones, mean, %",
                "fewer",
                format!("{mean:.2}, {even:.2}"),
                mean < even,
            ),
            Claim::statement(
                format!(
                    "false positives with skewed lookups for {} choices of the popular keys, %",
                    rates.len()
                ),
                "0.08, with uniform lookups 0.8",
                format!("{rates:.2?}, mean {mean:.2}; with uniform lookups {even:.2}"),
                least < even / 5.0,
            )
            .because(true, format!(
                "which keys are popular decides whether they pass: {least:.2} to {most:.2} here; none of these choices has a \
                 tenth of the uniform rate, as the paper's had"
            )),
            skewed.counted(),
        ],
        tables: vec![
            skewed.table("Zipfian lookups")?,
            uniform.table("Uniform lookups, the same keys")?,
        ],
        panels: skewed.gains(&[(Place::On(Device::FastPcieSsd), vec![(1024.0, 60.0)])])?,
        ..Findings::default()
    })
}

/// False positives in percent, by which keys are popular; and with uniform lookups of the same
/// trees.
fn choices(lab: &mut Lab<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut rates = (Vec::new(), Vec::new());
    for seed in 0..lab.scale.pick(1, 6, 12, 12) {
        for zipf in [true, false] {
            let cell = Cell {
                key: 16,
                value: 100,
                data: 1 << 20,
                zipf,
                repeat: 1,
                pairs: lab.scale.pick(6, 200, 400, 400),
                seed: lab.seed + seed,
                ..lookups::base(lab, &[Place::On(Device::Ram)])
            };
            let seen = lookups::measure(lab, &cell)?;
            let of = if zipf { &mut rates.0 } else { &mut rates.1 };
            of.extend(seen.iter().map(|seen| seen.false_positives * 100.0));
        }
    }
    Ok(rates)
}
