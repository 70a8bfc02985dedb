//! Figure 9: small keys in small entries gain little.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-9",
    title: "Gain with small keys",
    claim: "With an entry size of 512 B and smaller keys the benefit diminishes since hashing small keys only constitutes a \
            negligible portion of the whole query.",
    seconds: 1.5,
    run,
};

/// A part that is negligible, in percent: the paper gives no number.
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
    let in_memory: Vec<&Point> = points.on(Place::On(Device::Ram)).collect();
    let hashing = in_memory.first().map_or(f64::NAN, |p| {
        p.seen.hash_ns * p.seen.each_hashes / 1e3 / p.seen.each_us * 100.0
    });
    let mut panels = points.gains(&[])?;
    panels.push(points.times().remove(0));
    Ok(Findings {
        setting: format!("{} Here entries have 512 B.", lookups::setting(lab)),
        claims: vec![
            lookups::trend(
                "gain by key size, entries of 512 B",
                "diminishes for smaller keys",
                &in_memory,
            ),
            Claim::statement(
                format!(
                    "share of a lookup without sharing that is hashing, keys of 8 B, ram, % (under {LITTLE})"
                ),
                "negligible",
                format!("{hashing:.1}"),
                hashing < LITTLE,
            ),
        ],
        tables: vec![points.table("Small keys")?],
        panels,
        ..Findings::default()
    })
}
