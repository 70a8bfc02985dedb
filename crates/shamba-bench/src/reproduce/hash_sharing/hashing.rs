//! Figures 1 and 2: the share of a lookup that is hashing, by the share of empty lookups and by
//! device, under leveling and under tiering.
use super::lookups::{self, Point, Points, Sweep};
use super::tree::{Cell, FAST_SSD, NVM, Place, RAM, SATA_SSD, name};
use crate::reproduce::prelude::*;

/// From the slowest to the fastest.
const DEVICES: [Place; 4] = [SATA_SSD, FAST_SSD, NVM, RAM];

/// Shares of empty lookups.
const EMPTY: [f64; 3] = [0.0, 0.5, 1.0];

/// The size ratio of Figure 2. The paper has 10; with that, five levels would be as many buffers as
/// take hours to write.
const RATIO: u32 = 4;

const AXIS: &str = "share of empty lookups";

/// The common tree at each share of empty lookups.
const LEVELED: Sweep = Sweep {
    axis: AXIS,
    title: "Share of a lookup without sharing that is hashing, %",
    part: "",
    devices: &DEVICES,
    trees: |_, base| {
        let empty = vec![1.0, 0.5, 0.0];
        vec![Cell { empty, ..base }]
    },
    at: |_, seen| seen.empty,
    paper: &[],
    trend: "",
    course: "",
    rising: &[],
};

fn table(all: &[(&str, &Points)]) -> Report {
    let points = all.iter();
    let points = points.flat_map(|(policy, of)| of.all.iter().map(move |point| (*policy, point)));
    Report::of(LEVELED.title, points, |(policy, point)| {
        let (seen, [ours, murmur]) = (&point.seen, point.seen.hashing());
        row! {
            "merge policy": policy,
            AXIS: point.x,
            "device": name(seen.device),
            "runs": seen.levels,
            "XXH3 %": ours,
            "with the paper's hash times %": murmur,
            "hash ns": seen.hash_ns,
            "hashes": seen.each_hashes,
            "reads": seen.reads,
            "us per lookup": seen.each_us,
        }
    })
}

pub(super) fn figure_1(lab: &mut Lab<'_>) -> Result<Findings> {
    let points = LEVELED.measure(lab)?;
    let share = |device: Place, empty: f64| {
        let point = points.at(device, empty);
        point.map_or(f64::NAN, |point| point.seen.hashing()[0])
    };
    // Each share beside the one of fewer empty lookups, and of the next slower device.
    let more_empty = EMPTY
        .windows(2)
        .flat_map(|two| DEVICES.map(|device| share(device, two[1]) - share(device, two[0])));
    let faster = DEVICES
        .windows(2)
        .flat_map(|two| EMPTY.map(|empty| share(two[1], empty) - share(two[0], empty)));
    let steps: Vec<f64> = more_empty.chain(faster).collect();
    let table = table(&[("leveling", &points)]);
    let panels = ["XXH3", "with the paper's hash times"].map(|hash| {
        let panels = plot::of_report(&table, "", "device", AXIS, &format!("{hash} %"));
        panels.into_iter().map(move |panel| Panel {
            title: format!("hashing, {hash}"),
            y: "share of a lookup, %".to_owned(),
            ..panel
        })
    });
    let fast = |what: &str| format!("share of hashing, fast-pcie-ssd (a device model), {what}, %");
    let hashing = "Hashing is the counted hashes times the time of one.";
    let setting = lookups::setting(lab, hashing);
    let mut claims = Vec::new();
    let claim = Claim::figure(fast("no lookup empty"), 15.0, share(FAST_SSD, 0.0));
    claims.push(claim.by_model());
    let claim = Claim::from_on(fast("all lookups empty"), 75.0, &[share(FAST_SSD, 1.0)]);
    claims.push(claim.by_model());
    let what = "share of hashing, ram, all lookups empty, %";
    claims.push(Claim::figure(what, 100.0, share(RAM, 1.0)));
    let what = "share of hashing larger with more empty lookups, and on the next faster device (device models but ram)";
    claims.push(by_model(Claim::everywhere_but(
        what,
        steps.len(),
        steps.iter().filter(|step| **step <= 0.0).count(),
    )));
    Ok(Findings::of(
        setting,
        [table],
        panels.into_iter().flatten(),
        claims,
    ))
}

/// The trees of Figure 2.
fn wide(base: Cell, tiered: bool) -> Vec<Cell> {
    vec![Cell {
        size_ratio: RATIO,
        tiered,
        empty: EMPTY.to_vec(),
        ..base
    }]
}

pub(super) fn figure_2(lab: &mut Lab<'_>) -> Result<Findings> {
    let leveled = Sweep {
        trees: |_, base| wide(base, false),
        ..LEVELED
    };
    let tiered = Sweep {
        trees: |_, base| wide(base, true),
        ..LEVELED
    };
    let (leveled, tiered) = (leveled.measure(lab)?, tiered.measure(lab)?);
    // The same device and share of empty lookups under both; those that are not less under tiering.
    let share = |point: &Point| point.seen.hashing()[0];
    let everywhere = |what: &str, on: &[Place]| {
        let pairs = leveled.on(on).zip(tiered.on(on));
        let lost = pairs.filter(|(leveled, tiered)| share(tiered) <= share(leveled));
        let lost: Vec<String> = lost
            .map(|(point, _)| format!("{}, {} empty", name(point.seen.device), point.x))
            .collect();
        Claim::everywhere(what, on.len() * EMPTY.len(), &lost)
    };
    let table = table(&[("leveling", &leveled), ("tiering", &tiered)]);
    let here = format!(
        "Here T = {RATIO}, under both merge policies; tiering leaves about half as many runs in a level. Hashing is the \
         counted hashes times the time of one."
    );
    let setting = lookups::setting(lab, &here);
    // By the clock alone, and by models of devices.
    let what = "a larger share of a lookup is hashing under tiering, ram";
    let measured = everywhere(what, &[RAM]);
    let what = "a larger share of a lookup is hashing under tiering, device models";
    let modelled = everywhere(what, &[SATA_SSD, FAST_SSD, NVM]).by_model();
    let claims = [measured, modelled];
    let panels = plot::of_report(&table, "merge policy", "device", AXIS, "XXH3 %");
    Ok(Findings::of(setting, [table], panels, claims))
}
