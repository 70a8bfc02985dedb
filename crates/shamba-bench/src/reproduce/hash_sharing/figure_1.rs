//! Figure 1: the share of a lookup that is hashing, by the share of empty lookups and by device.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place, murmur_ns};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-1",
    title: "The share of a lookup that is hashing",
    claim: "Without sharing, the share of time spent on hashing grows with the share of empty lookups and with the speed \
            of the device: on a PCIe SSD of 10 us from 15 % to more than 75 %, on emulated NVM to nearly all.",
    seconds: 4.0,
    run,
};

/// From the slowest to the fastest.
const DEVICES: [Place; 4] = [
    Place::On(Device::SataSsd),
    Place::On(Device::FastPcieSsd),
    Place::On(Device::Nvm),
    Place::On(Device::Ram),
];

/// Hashing's share of a lookup without sharing, in percent; with the paper's hash instead of ours.
fn shares(point: &Point) -> (f64, f64) {
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
    let mut table = Report::new(
        "Share of a lookup without sharing that is hashing, %",
        &[
            "share of empty lookups",
            "device",
            "XXH3 %",
            "with the paper's hash times %",
            "hash ns",
            "hashes",
            "us per lookup",
        ],
    );
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
            table.push(vec![
                point.x.into(),
                device.to_string().into(),
                ours.into(),
                murmur.into(),
                point.seen.hash_ns.into(),
                point.seen.each_hashes.into(),
                point.seen.each_us.into(),
            ]);
        }
    }
    let of = |device: Place, empty: f64| {
        let point = points.on(device).find(|point| point.x == empty);
        point.map_or((f64::NAN, f64::NAN), shares)
    };
    let by_device: Vec<f64> = DEVICES.iter().map(|device| of(*device, 1.0).0).collect();
    let (some, all) = (
        of(Place::On(Device::FastPcieSsd), 0.0),
        of(Place::On(Device::FastPcieSsd), 1.0),
    );
    Ok(Findings {
        setting: format!("{} Hashing is the counted hashes times the time of one.", lookups::setting(lab)),
        claims: vec![
            Claim::statement(
                "share of hashing on a PCIe SSD of 10 us grows from no to only empty lookups, %",
                "grows (it has 15 and 75)",
                format!("{:.1}, {:.1}; with the paper's hash times {:.1}, {:.1}", some.0, all.0, some.1, all.1),
                all.0 > some.0,
            ),
            Claim::statement(
                "share of hashing from the slowest to the fastest device, empty lookups, %",
                "grows",
                format!("{by_device:.1?}"),
                by_device.first() < by_device.last(),
            ),
            Claim::figure("share of hashing in memory, empty lookups, %", 75.0, of(Place::On(Device::Ram), 1.0).0).because(true, 
                format!(
                    "with the time of the paper's MurmurHash64 on the paper's machine it would be {:.0} %; ours is \
                     quicker, and of the {:.2} us of a lookup {:.0} % are not hashing",
                    of(Place::On(Device::Ram), 1.0).1,
                    points.on(Place::On(Device::Ram)).last().map_or(f64::NAN, |p| p.seen.each_us),
                    100.0 - of(Place::On(Device::Ram), 1.0).0
                ),
            ),
        ],
        tables: vec![table],
        panels: panels.into(),
        ..Findings::default()
    })
}
