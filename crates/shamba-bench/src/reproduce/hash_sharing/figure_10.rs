//! Figure 10: skewed lookups.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::experiments::hash_sharing::{Cell, Device};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-10",
    title: "Gain with skewed lookups",
    claim: "Under Zipfian lookups the gain rises steeply with the key, to more than 60 % at 1 KB, since fewer false \
            positives read data (0.08 % instead of 0.8 %).",
    seconds: 10.0,
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
                ..lookups::base(lab, &[Device::FastPcieSsd, Device::Memory])
            };
            let seen = lookups::measure(lab, &cell)?;
            points.add(*key as f64, &cell, seen);
        }
    }
    let of = |points: &Points| {
        points
            .on(Device::FastPcieSsd)
            .map(|p| p.seen.false_positives * 100.0)
            .sum::<f64>()
    };
    let count = skewed.on(Device::FastPcieSsd).count().max(1) as f64;
    let (zipf_rate, even_rate) = (of(&skewed) / count, of(&uniform) / count);
    let memory: Vec<&Point> = skewed.on(Device::Memory).collect();
    let last = skewed.on(Device::FastPcieSsd).last();
    Ok(Findings {
        setting: format!(
            "{} Here entries have 2 KB, and keys are asked for by Zipf's law (0.99), popular ones scattered; which keys \
             are popular decides how many false positives there are.",
            lookups::setting(lab)
        ),
        claims: vec![
            lookups::gain("gain at keys of 1 KB, PCIe SSD of 10 us", 60.0, last)?,
            Claim::holds(
                "gain by key size in memory, % (the last no smaller than the first)",
                "rises",
                lookups::percent(&memory),
                lookups::grows(&memory),
            ),
            Claim::holds(
                "false positives with skewed and with uniform lookups, %",
                "0.08 and 0.8: which keys are popular decides",
                format!("{zipf_rate:.2} and {even_rate:.2}"),
                zipf_rate < even_rate,
            ),
            skewed.counted(),
        ],
        tables: vec![
            skewed.table("Zipfian lookups")?,
            uniform.table("Uniform lookups, the same keys")?,
        ],
        panels: skewed.gains(&[(Device::FastPcieSsd, vec![(1024.0, 60.0)])])?,
        ..Findings::default()
    })
}
