//! Figure 9: small keys in small entries gain little.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-9",
    title: "Gain with small keys",
    claim: "With entries of 512 B and small keys (8 to 64 B) the benefit diminishes: hashing is a negligible part of a \
            lookup.",
    seconds: 1.5,
    run,
};

/// A gain that is negligible, in percent.
const LITTLE: f64 = 10.0;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut points = Points::new("bytes of a key");
    for key in lab.scale.pick(
        &[8, 32][..],
        &[8, 32, 256],
        &[8, 16, 32, 64, 128, 256],
        &[8, 16, 32, 64, 128, 256],
    ) {
        let cell = Cell {
            key: *key,
            value: 512 - key,
            ..lookups::base(
                lab,
                &[Place::On(Device::FastPcieSsd), Place::On(Device::Ram)],
            )
        };
        let seen = lookups::measure(lab, &cell)?;
        points.add(*key as f64, &cell, seen);
    }
    let ssd: Vec<&Point> = points.on(Place::On(Device::FastPcieSsd)).collect();
    let most = |key: usize| {
        let small = ssd.iter().filter(|p| p.key <= key);
        small.map(|p| p.seen.gain * 100.0).fold(f64::MIN, f64::max)
    };
    let hashing = ssd.first().map_or(f64::NAN, |p| {
        p.seen.hash_ns * p.seen.each_hashes / 1e3 / p.seen.each_us
    });
    let mut panels = points.gains(&[])?;
    panels.push(points.times().remove(0));
    Ok(Findings {
        setting: format!("{} Here entries have 512 B.", lookups::setting(lab)),
        claims: vec![
            Claim::statement(
                "gain with keys up to 64 B on a PCIe SSD of 10 us, at most",
                "the benefit diminishes",
                format!("{:.1} %", most(64)),
                most(64) < LITTLE,
            ),
            Claim::statement(
                "share of the time that hashing takes without sharing, keys of 8 B",
                "negligible",
                format!("{:.1} %", hashing * 100.0),
                hashing * 100.0 < LITTLE,
            ),
            points.counted(),
        ],
        tables: vec![points.table("Small keys")?],
        panels,
        ..Findings::default()
    })
}
