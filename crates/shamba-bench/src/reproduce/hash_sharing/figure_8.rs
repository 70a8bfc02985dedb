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
    claim: "(a) On a PCIe SSD sharing gains more the larger the key is, up to 23 % at 1 KB, where hashing takes less than \
            half as long. (b) From 8 to 14 levels (T = 2) the cost of hashing stays the same with sharing and grows with \
            every level without; the gain grows a little.",
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
    let largest = in_memory
        .last()
        .map_or(f64::NAN, |p| p.seen.shared_hashes / p.seen.each_hashes);
    Ok(Findings {
        setting: format!(
            "{} Entries of 2 KB in (a); in (b) of 528 B, with a buffer of 21 KiB.",
            lookups::setting(lab)
        ),
        claims: vec![
            lookups::gain(
                "gain at keys of 1 KB, PCIe SSD of 10 us",
                23.0,
                on_ssd.last().copied(),
            )?,
            Claim::statement(
                "gain by key size in memory, % (the last no smaller than the first)",
                "grows",
                lookups::percent(&in_memory),
                lookups::grows(&in_memory),
            ),
            Claim::figure(
                "hashing with sharing over hashing without, keys of 1 KB",
                0.5,
                largest,
            ),
            Claim::statement(
                "hashes of a lookup as levels grow",
                "one with sharing; without, the more the more levels",
                format!("{shared:.2?} with, {each:.1?} without"),
                spread < 0.05 && each.is_sorted(),
            ),
            Claim::statement(
                "gain by levels in memory, % (the last no smaller than the first)",
                "grows a little",
                lookups::percent(&deep),
                lookups::grows(&deep),
            )
            .because(true, outgrown(&deep)),
            levels.counted(),
        ],
        tables: vec![
            keys.table("By key size (a)")?,
            levels.table("By levels (b)")?,
        ],
        panels,
        ..Findings::default()
    })
}

/// What the hashes saved and the rest of a lookup come to at each number of levels.
fn outgrown(points: &[&Point]) -> String {
    let saved = |p: &Point| (p.seen.each_hashes - p.seen.shared_hashes) * p.seen.hash_ns / 1e3;
    let each = points.iter().map(|p| {
        let (saved, all, gain) = (saved(p), p.seen.each_us, p.seen.uncertain * 100.0);
        format!(
            "{}: {saved:.2} us of hashes saved of {all:.2}, the gain ± {gain:.1}",
            p.x
        )
    });
    let grown = match (points.first(), points.last()) {
        (Some(first), Some(last)) => format!(
            "from the fewest levels to the most the hashes saved take {:.1} times as long and the whole lookup \
             {:.1} times",
            saved(last) / saved(first),
            last.seen.each_us / first.seen.each_us
        ),
        _ => "nothing was measured".to_owned(),
    };
    format!("{grown} ({})", each.collect::<Vec<_>>().join("; "))
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
    crate::plot::Panel {
        title: "(b) hashes counted".into(),
        x: "levels".into(),
        y: "hashes per empty lookup".into(),
        log_y: false,
        series: vec![
            line("a hash for each table", |p| p.seen.each_hashes),
            line("hash sharing", |p| p.seen.shared_hashes),
        ],
    }
}
