//! Figure 1: the share of a lookup that is hashing, by the share of empty lookups and by device.
use super::lookups::{self, Point, Points};
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place, murmur_ns};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-1",
    title: "The share of a lookup that is hashing",
    claim: "The fraction of the time spent on hashing increases as the empty point lookup ratio (alpha) increases, and as the \
            underlying storage becomes faster: on a fast PCIe SSD of 10 us from about 15 % (alpha = 0) to more than 75 % \
            (alpha = 1), on the emulated NVM (a RAM disk) to almost 100 %.",
    seconds: 4.0,
    run,
};

/// From the slowest to the fastest.
pub(super) const DEVICES: [Place; 4] = [
    Place::On(Device::SataSsd),
    Place::On(Device::FastPcieSsd),
    Place::On(Device::Nvm),
    Place::On(Device::Ram),
];

/// Hashing's share of a lookup without sharing, in percent; with the paper's hash instead of ours.
pub(super) fn shares(point: &Point) -> (f64, f64) {
    let seen = &point.seen;
    let total = seen.each_us * 1e3;
    let ours = seen.hash_ns * seen.each_hashes;
    let murmur = murmur_ns(point.key) * seen.each_hashes;
    (
        ours / total * 100.0,
        murmur / (total - ours + murmur) * 100.0,
    )
}

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let cell = Cell {
        empty: vec![1.0, 0.5, 0.0],
        ..lookups::base(lab, &DEVICES)
    };
    let mut points = Points::new("share of empty lookups");
    let mut seen = lookups::measure(lab, &cell)?;
    seen.sort_by(|a, b| a.empty.total_cmp(&b.empty));
    for seen in seen {
        points.add(seen.empty, &cell, [seen]);
    }
    let mut table = Report::titled("Share of a lookup without sharing that is hashing, %");
    let mut panels = ["XXH3", "with the paper's hash times"].map(|title| Panel {
        title: format!("hashing, {title}"),
        x: "share of empty lookups".into(),
        y: "share of a lookup, %".into(),
        log_y: false,
        series: DEVICES.map(|device| Series::new(device.to_string())).into(),
    });
    for (at, device) in DEVICES.into_iter().enumerate() {
        for point in points.on(device) {
            let (ours, murmur) = shares(point);
            panels[0].series[at].points.push((point.x, ours));
            panels[1].series[at].points.push((point.x, murmur));
            table.add(row! {
                "share of empty lookups": point.x,
                "device": device.to_string(),
                "XXH3 %": ours,
                "with the paper's hash times %": murmur,
                "hash ns": point.seen.hash_ns,
                "hashes": point.seen.each_hashes,
                "us per lookup": point.seen.each_us,
            });
        }
    }
    let of = |device: Place, empty: f64| {
        let point = points.on(device).find(|point| point.x == empty);
        point.map_or((f64::NAN, f64::NAN), shares)
    };
    let fast = |empty| of(Place::On(Device::FastPcieSsd), empty).0;
    // Each share beside the one of fewer empty lookups, and of the next slower device.
    let steps = cell.empty.windows(2).flat_map(|two| {
        let alone = |device: &Place| of(*device, two[0]).0 - of(*device, two[1]).0;
        DEVICES.iter().map(alone).collect::<Vec<_>>()
    });
    let devices = DEVICES.windows(2).flat_map(|two| {
        let alone = |empty: &f64| of(two[1], *empty).0 - of(two[0], *empty).0;
        cell.empty.iter().map(alone).collect::<Vec<_>>()
    });
    let steps: Vec<f64> = steps.chain(devices).collect();
    Ok(Findings {
        setting: format!("{} Hashing is the counted hashes times the time of one.", lookups::setting(lab)),
        claims: vec![
            Claim::figure(
                "share of hashing, fast-pcie-ssd (a device model), no lookup empty, %",
                15.0,
                fast(0.0),
            )
            .by_model(),
            Claim::figure(
                "share of hashing, fast-pcie-ssd (a device model), all lookups empty, %",
                75.0,
                fast(1.0),
            )
            .by_model(),
            Claim::figure(
                "share of hashing, ram, all lookups empty, %",
                100.0,
                of(Place::On(Device::Ram), 1.0).0,
            ),
            Claim::everywhere_but(
                "share of hashing larger with more empty lookups, and on the next faster device (device models but ram)",
                steps.len(),
                steps.iter().filter(|step| **step <= 0.0).count(),
            )
            .by_model(),
        ],
        tables: vec![table],
        panels: panels.into(),
        ..Findings::default()
    })
}
