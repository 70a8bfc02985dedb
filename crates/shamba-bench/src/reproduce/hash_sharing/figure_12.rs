//! Figure 12: the gain by bits per key, on several devices.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-12",
    title: "Gain by bits per key",
    claim: "The benefit of hash sharing increases for more bits per key (8 to 14), since a lower false positive rate \
            reduces the number of data accesses; at 10 bits the performance is improved by more than 10 % on PCIe SSD and \
            by more than 40 % on an emulated NVM.",
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
        &[8.0, 10.0][..],
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
    let [ssd, ram]: [Vec<&Point>; 2] =
        [Device::FastPcieSsd, Device::Ram].map(|device| points.on(Place::On(device)).collect());
    let at_10 = |device| points.on(Place::On(device)).find(|p| p.x == 10.0);
    let reads: Vec<f64> = ram.iter().map(|p| p.seen.reads).collect();
    Ok(Findings {
        setting: lookups::setting(lab),
        claims: vec![
            lookups::gain("gain at 10 bits", 10.0, at_10(Device::FastPcieSsd))?,
            lookups::gain("gain at 10 bits", 40.0, at_10(Device::Ram))?,
            Claim::statement(
                "reads of an empty lookup by bits per key",
                "fewer with more bits",
                format!("{reads:.4?}"),
                reads.is_sorted_by(|a, b| a > b),
            ),
            lookups::trend("gain by bits per key", "increases", &ssd),
            lookups::trend("gain by bits per key", "increases", &ram),
        ],
        tables: vec![points.table("By bits per key")?],
        panels: points.gains(&[
            (Place::On(Device::FastPcieSsd), vec![(10.0, 10.0)]),
            (Place::On(Device::Ram), vec![(10.0, 40.0)]),
        ])?,
        ..Findings::default()
    })
}
