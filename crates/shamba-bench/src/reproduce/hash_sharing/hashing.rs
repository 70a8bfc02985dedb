//! Figures 1 and 2: the share of a lookup that is hashing, by the share of empty lookups and by
//! device, under leveling and under tiering. Figure 6: what hash sharing gains there in theory.
use super::lookups::{self, Point, Points, Sweep, murmur_ns};
use super::tree::{Cell, FAST_SSD, NVM, Place, RAM, SATA_SSD, name};
use crate::reproduce::prelude::*;
use shamba_model::hash_sharing::{Times, leveling, tiering};

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
    let both = |device: Place, empty: f64| {
        let point = points.at(device, empty);
        point.map_or([f64::NAN; 2], |point| point.seen.hashing())
    };
    let share = |device: Place, empty: f64| both(device, empty)[0];
    // Each share beside the one of fewer empty lookups, and of the next slower device.
    let more_empty = EMPTY
        .windows(2)
        .flat_map(|two| DEVICES.map(|device| share(device, two[1]) > share(device, two[0])));
    let faster = DEVICES
        .windows(2)
        .flat_map(|two| EMPTY.map(|empty| share(two[1], empty) > share(two[0], empty)));
    let table = table(&[("leveling", &points)]);
    let panels = ["XXH3", "with the paper's hash times"].map(|hash| {
        let panels = plot::of_report(&table, "", "device", AXIS, &format!("{hash} %"));
        panels.into_iter().map(move |panel| Panel {
            title: format!("hashing, {hash}"),
            y: "share of a lookup, %".to_owned(),
            ..panel
        })
    });
    let fast = |what: &str| {
        format!("share of hashing with XXH3, fast-pcie-ssd (a device model), {what}, %")
    };
    let none = Claim::figure(fast("no lookup empty"), 15.0, share(FAST_SSD, 0.0));
    let all = Claim::from_on(fast("all lookups empty"), 75.0, &[share(FAST_SSD, 1.0)]);
    let what = "share of hashing with XXH3, ram, all lookups empty, %";
    let in_ram = Claim::figure(what, 100.0, share(RAM, 1.0));
    let as_in_the_paper = |mut claim: Claim, device, empty| {
        let hashing = crate::report::Cell::Number(both(device, empty)[1]);
        claim.measured += &format!("; with the paper's hash times {hashing}");
        claim
    };
    let none = as_in_the_paper(none, FAST_SSD, 0.0);
    let all = as_in_the_paper(all, FAST_SSD, 1.0);
    let in_ram = as_in_the_paper(in_ram, RAM, 1.0);
    let what = "share of hashing larger with more empty lookups, and on the next faster device (device models but ram)";
    let larger = Claim::at_each(what, more_empty.chain(faster));
    let claims = [none.by_model(), all.by_model(), in_ram, larger.by_model()];
    let panels = panels.into_iter().flatten();
    Ok(Findings::of(lookups::setting(lab), [table], panels, claims))
}

/// The trees of Figure 2.
fn wide(base: Cell, tiered: bool) -> Vec<Cell> {
    let empty = EMPTY.to_vec();
    vec![Cell {
        size_ratio: RATIO,
        tiered,
        empty,
        ..base
    }]
}

pub(super) fn figure_2(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut sweep = LEVELED;
    sweep.trees = |_, base| wide(base, false);
    let leveled = sweep.measure(lab)?;
    sweep.trees = |_, base| wide(base, true);
    let tiered = sweep.measure(lab)?;
    // The same device and share of empty lookups under both; those that are not less under tiering.
    let share = |point: &Point| point.seen.hashing()[0];
    let everywhere = |what: &str, on: &[Place]| {
        let pairs = leveled.on(on).zip(tiered.on(on));
        let lost = pairs.filter(|(leveled, tiered)| share(tiered) <= share(leveled));
        let lost = lost.map(|(point, _)| format!("{}, {} empty", name(point.seen.device), point.x));
        let lost: Vec<String> = lost.collect();
        Claim::everywhere(what, on.len() * EMPTY.len(), &lost)
    };
    let table = table(&[("leveling", &leveled), ("tiering", &tiered)]);
    // By the clock alone, and by models of devices.
    let what = "a larger share of a lookup is hashing under tiering, ram";
    let measured = everywhere(what, &[RAM]);
    let what = "a larger share of a lookup is hashing under tiering, device models";
    let modelled = everywhere(what, &[SATA_SSD, FAST_SSD, NVM]).by_model();
    let claims = [measured, modelled];
    let panels = plot::of_report(&table, "merge policy", "device", AXIS, "XXH3 %");
    Ok(Findings::of(lookups::setting(lab), [table], panels, claims))
}

/// Names and nanoseconds of a page (Table 1).
const PAGES: [(&str, f64); 6] = [
    ("HDD", 4.6e6),
    ("SSD", 113e3),
    ("PCIe SSD", 10e3),
    ("PCIe SSD by SPDK", 7e3),
    ("NVM", 250.0),
    ("memory", 160.0),
];

/// A probe in memory, a guess: the paper gives no `T_P`, but that it is small.
const PROBE: f64 = 100.0;

/// The paper's trees, under both merge policies.
const PAPER_RATIO: u32 = 10;
const PAPER_LEVELS: u32 = 5;
const PAPER_RATE: f64 = 0.0082;

pub(super) fn figure_6(_: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled(
        "Gain of hash sharing by Eq. 8, %; keys of 1 KB, T = 10, 5 levels, 10 bits per key",
    );
    let mut panels = Vec::new();
    for empty in EMPTY {
        let policies = [leveling, tiering];
        let [leveled, tiered] =
            policies.map(|policy| policy(PAPER_RATIO, PAPER_LEVELS, 1.0 - empty, PAPER_RATE));
        let (leveled, tiered) = (leveled?, tiered?);
        for (name, read) in PAGES {
            let times = Times {
                hash: murmur_ns(1024),
                probe: PROBE,
                read,
            };
            table.add(row! {
                "device": name,
                "page ns": read,
                "share of empty lookups": empty,
                "leveling %": leveled.gain(&times)? * 100.0,
                "tiering %": tiered.gain(&times)? * 100.0,
            });
        }
        let own = table.rows_of("share of empty lookups", empty);
        let line = |policy| Series::by_row(policy, &own, &format!("{policy} %"));
        let lines = ["leveling", "tiering"].map(line);
        let title = format!("{empty} of lookups empty");
        let x = "device: HDD, SSD, PCIe, SPDK, NVM, memory";
        panels.push(Panel::new(title, x, "gain, %", lines));
    }
    let all_empty = table.rows_of("share of empty lookups", 1.0);
    let gains = all_empty.numbers("leveling %");
    let what = "gain on an HDD and an SSD, all lookups empty, leveling, % (our limits: 2 and 20)";
    let seen = format!("{:.1}, {:.1}", gains[0], gains[1]);
    let holds = gains[0] < 2.0 && gains[1] < 20.0;
    let slow = Claim::statement(what, "negligible, modest", seen, holds);
    let what = "gain on NVM, all lookups empty, leveling, %";
    let nvm = Claim::from_on(what, 40.0, &[gains[4]]);
    let more = table.points("leveling %", "tiering %").into_iter();
    let more = more.map(|(leveled, tiered)| tiered > leveled);
    let more = Claim::at_each("tiering gains more than leveling", more);
    let setting = format!(
        "By the model with the paper's Table 1 (MurmurHash64 of 1 KB: 235 ns), T = {PAPER_RATIO}, {PAPER_LEVELS} levels, and a \
         guess for a probe, which the paper does not give: {PROBE} ns."
    );
    let claims = [slow, nvm, more].map(by_model);
    Ok(Findings::of(setting, [table], panels, claims))
}
