//! Figure 8: lookups with and without hash sharing, by key size (a) and by the number of levels
//! (b).
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place};
use crate::reproduce::{Claim, Experiment, Findings, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-8",
    title: "Gain by key size and number of levels",
    claim: "Hash sharing has a performance gain of up to 23 %, and is more beneficial for larger key sizes; for 1 KB keys \
            the total hashing cost is reduced to less than half (a). With 8 to 14 levels (T = 2) the hashing cost \
            accumulates with the number of levels without sharing, every query performs only one hash calculation with \
            it, and the gain improves a little (b).",
    seconds: 18.0,
    run,
};

/// Bytes of data over 2^levels in (b): a write buffer has two thirds of it.
const BUFFER: u64 = 32 << 10;

const DEVICES: [Place; 2] = [Place::On(Device::FastPcieSsd), Place::On(Device::Ram)];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut keys = Points::new("bytes of a key").part("(a) ");
    for key in lab.scale.pick(
        &[8, 256][..],
        &[16, 128, 512, 1024],
        &[8, 16, 32, 64, 128, 256, 512, 1024],
        &[8, 16, 32, 64, 128, 256, 512, 1024],
    ) {
        let cell = Cell {
            key: *key,
            // Entries of 2 KB, as in the paper.
            value: 2048 - key,
            ..lookups::base(lab, &DEVICES)
        };
        let seen = lookups::measure(lab, &cell)?;
        keys.add(*key as f64, &cell, seen);
    }
    let mut levels = Points::new("levels").part("(b) ");
    for &wanted in lab.scale.pick(
        &[2, 4][..],
        &[4, 6, 8, 10],
        &[4, 6, 8, 10, 12],
        &[8, 9, 10, 11, 12, 13, 14],
    ) {
        let cell = Cell {
            levels: wanted,
            // One write buffer, ever more data; smaller entries than elsewhere, to be written in
            // time.
            value: 16,
            data: BUFFER << wanted,
            ..lookups::base(lab, &DEVICES)
        };
        let seen = lookups::measure(lab, &cell)?;
        let real = seen.first().map_or(wanted, |seen| seen.levels);
        levels.add(f64::from(real), &cell, seen);
    }
    let mut panels = keys.gains(&[(Place::On(Device::FastPcieSsd), vec![(1024.0, 23.0)])])?;
    panels.push(hashes(&levels));
    panels.extend(levels.gains(&[])?);
    panels.push(keys.times().remove(0));
    let on_ssd: Vec<&Point> = keys.on(Place::On(Device::FastPcieSsd)).collect();
    let in_memory: Vec<&Point> = keys.on(Place::On(Device::Ram)).collect();
    let deep: Vec<&Point> = levels.on(Place::On(Device::Ram)).collect();
    let shared: Vec<f64> = deep.iter().map(|p| p.seen.shared_hashes).collect();
    let each: Vec<f64> = deep.iter().map(|p| p.seen.each_hashes).collect();
    let spread = shared.iter().fold(0.0f64, |a, b| a.max(*b))
        - shared.iter().fold(f64::INFINITY, |a, b| a.min(*b));
    let levels_seen: Vec<u32> = deep.iter().map(|p| p.seen.levels).collect();
    let largest = in_memory
        .last()
        .map_or(f64::NAN, |p| p.seen.shared_hashes / p.seen.each_hashes);
    Ok(Findings {
        setting: format!(
            "{} Entries of 2 KB in (a); in (b) of 528 B, with a buffer of 21 KiB.",
            lookups::setting(lab)
        ),
        claims: vec![
            Claim::up_to(
                "gain by key size, fast-pcie-ssd (a device model), %",
                23.0,
                &(on_ssd.iter().map(|p| p.seen.gain * 100.0)).collect::<Vec<_>>(),
            )
            .by_model(),
            lookups::trend(
                "gain by key size",
                "more beneficial for larger keys",
                &in_memory,
            ),
            Claim::statement(
                "hashes of a lookup with sharing over those without, keys of 1 KB",
                "less than half",
                format!("{largest:.2}"),
                largest < 0.5,
            ),
            Claim::statement(
                format!("hashes of a lookup with {levels_seen:?} levels"),
                "accumulate without sharing, one with it",
                format!("{each:.1?} without, {shared:.2?} with"),
                spread < 0.05 && each.is_sorted_by(|a, b| a < b),
            ),
            lookups::trend("gain by the number of levels", "a small improvement", &deep),
        ],
        tables: vec![
            keys.table("By key size (a)")?,
            levels.table("By levels (b)")?,
        ],
        panels,
        ..Findings::default()
    })
}

/// The hashes of a lookup over the levels.
fn hashes(points: &Points) -> crate::plot::Panel {
    let line = |name: &str, of: fn(&Point) -> f64| crate::plot::Series {
        name: name.into(),
        points: points
            .on(Place::On(Device::Ram))
            .map(|p| (p.x, of(p)))
            .collect(),
    };
    crate::plot::Panel::new(
        "(b) hashes counted",
        "levels",
        "hashes per empty lookup",
        vec![
            line("a hash for each table", |p| p.seen.each_hashes),
            line("hash sharing", |p| p.seen.shared_hashes),
        ],
    )
}
