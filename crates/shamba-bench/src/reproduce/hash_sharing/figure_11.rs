//! Figure 11: the gain by device.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::Place;
use crate::plot::{Panel, Series};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-11",
    title: "Gain by device",
    claim: "As the storage latency reduces, hashing dominates query time, and the benefit of hash sharing increases from \
            10 % for the off-the-shelf SSD to more than 40 % for an emulated NVM (a RAM disk).",
    seconds: 2.0,
    run,
};

/// From the slowest to the fastest, as the axis numbers them.
pub(super) const DEVICES: [Place; 6] = [
    Place::On(Device::SataSsd),
    Place::On(Device::PcieSsd),
    Place::On(Device::FastPcieSsd),
    Place::On(Device::Nvm),
    Place::On(Device::Ram),
    Place::Resident,
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let cell = lookups::base(lab, &DEVICES);
    let mut points = Points::new("device");
    for seen in lookups::measure(lab, &cell)? {
        let at = DEVICES.iter().position(|device| *device == seen.device);
        points.add(at.map_or(0.0, |at| at as f64 + 1.0), &cell, [seen]);
    }
    let order: Vec<&Point> = DEVICES
        .iter()
        .flat_map(|device| points.on(*device))
        .collect();
    let mut lines = [
        "measured",
        "model",
        "model with the paper's hash times",
        "paper",
    ]
    .map(Series::new);
    for panel in points.gains(&[])? {
        for (line, series) in lines.iter_mut().zip(panel.series) {
            line.points.extend(series.points);
        }
    }
    lines[3].points = vec![(1.0, 10.0), (5.0, 40.0)];
    let of = |device| points.on(device).next();
    Ok(Findings {
        setting: format!(
            "{} Devices from 1 to {}: {}; memory is a RAM disk, resident has all data in the engine's cache.",
            lookups::setting(lab),
            DEVICES.len(),
            DEVICES.map(|place| place.to_string()).join(", ")
        ),
        claims: vec![
            lookups::gain("gain", 10.0, of(Place::On(Device::SataSsd)))?,
            lookups::gain("gain", 40.0, of(Place::On(Device::Ram)))?,
            lookups::trend(
                "gain from the slowest device to the fastest",
                "increases as the storage latency reduces",
                &order,
            ),
            Claim::not_comparable(
                "gain on the SSD and on the PCIe SSD with direct I/O enabled and disabled",
                "a pair of bars for each",
                "the devices here are models that charge for every read of data, as with direct I/O: below them there \
                 is no page cache whose hits a buffered bar could show, and with all data in it a buffered read is \
                 what `ram` has",
            ),
        ],
        tables: vec![points.table("By device")?],
        panels: vec![Panel::new(
            "gain by device",
            "device, from slow to fast",
            "gain, % (less than 0 as 0)",
            lines,
        )],
        ..Findings::default()
    })
}
