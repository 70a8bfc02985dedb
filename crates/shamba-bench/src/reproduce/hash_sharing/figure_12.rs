//! Figure 12: the gain by bits per key, on several devices.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-12",
    title: "Gain by bits per key",
    claim: "More bits per key (8 to 14) mean fewer false positives, fewer reads of data, and a larger gain: at 10 bits \
            more than 10 % on a PCIe SSD and more than 40 % on an emulated NVM.",
    seconds: 2.0,
    run,
};

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let devices = [
        Place::On(Device::SataSsd),
        Place::On(Device::FastPcieSsd),
        Place::On(Device::Ram),
    ];
    let mut points = Points::new("bits per key");
    for &bits_per_key in lab.scale.pick(
        &[8.0, 14.0][..],
        &[8.0, 10.0, 14.0],
        &[8.0, 10.0, 12.0, 14.0],
        &[8.0, 10.0, 12.0, 14.0],
    ) {
        let cell = Cell {
            bits_per_key,
            ..lookups::base(lab, &devices)
        };
        let seen = lookups::measure(lab, &cell)?;
        points.add(bits_per_key, &cell, seen);
    }
    let at_10 = |device| {
        points
            .on(device)
            .find(|p| p.x == 10.0)
            .or_else(|| points.on(device).last())
    };
    let reads: Vec<f64> = points
        .on(Place::On(Device::FastPcieSsd))
        .map(|p| p.seen.reads)
        .collect();
    let ssd: Vec<&Point> = points.on(Place::On(Device::FastPcieSsd)).collect();
    Ok(Findings {
        setting: lookups::setting(lab),
        claims: vec![
            lookups::gain(
                "gain at 10 bits, PCIe SSD of 10 us",
                10.0,
                at_10(Place::On(Device::FastPcieSsd)),
            )?,
            lookups::gain(
                "gain at 10 bits, RAM disk",
                40.0,
                at_10(Place::On(Device::Ram)),
            )?,
            Claim::statement(
                "reads of an empty lookup by bits per key",
                "fewer with more bits",
                format!("{reads:.4?}"),
                reads.is_sorted_by(|a, b| a > b),
            ),
            Claim::statement(
                "gain by bits per key on a PCIe SSD of 10 us, % (the last no smaller than the first)",
                "grows",
                lookups::percent(&ssd),
                lookups::grows(&ssd),
            ),
        ],
        tables: vec![points.table("By bits per key")?],
        panels: points.gains(&[
            (Place::On(Device::FastPcieSsd), vec![(10.0, 10.0)]),
            (Place::On(Device::Ram), vec![(10.0, 40.0)]),
        ])?,
        ..Findings::default()
    })
}
