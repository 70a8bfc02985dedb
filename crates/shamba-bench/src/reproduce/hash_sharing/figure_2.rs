//! Figure 2: the share of a lookup that is hashing under tiering, beside leveling.
use super::figure_1::{DEVICES, shares};
use super::lookups::{self, Point, Points};
use crate::experiments::hash_sharing::Cell;
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, plot, row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-2",
    title: "The share of a lookup that is hashing, tiering beside leveling",
    claim: "The amount of time spent on hashing for tiered LSM-trees (5 levels, 10 runs per level) is higher than that of \
            leveled ones (Figure 1): a lookup in tiering needs to search more runs, hence, the hashing cost amounts to a \
            higher fraction.",
    seconds: 10.0,
    run,
};

/// The paper has 10; with that, five levels would be as many buffers as take hours to write.
const RATIO: u32 = 4;

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let axis = "share of empty lookups";
    let mut both = [Points::new(axis), Points::new(axis)];
    for (points, tiered) in both.iter_mut().zip([false, true]) {
        let cell = Cell {
            size_ratio: RATIO,
            tiered,
            empty: vec![0.0, 0.5, 1.0],
            ..lookups::base(lab, &DEVICES)
        };
        for seen in lookups::measure(lab, &cell)? {
            points.add(seen.empty, &cell, [seen]);
        }
    }
    let [leveled, tiered] = &both;
    let mut table = Report::titled("Share of a lookup without sharing that is hashing, %");
    for (policy, points) in [("leveling", leveled), ("tiering", tiered)] {
        for point in &points.all {
            let (ours, murmur) = shares(point);
            table.add(row! {
                "merge policy": policy,
                axis: point.x,
                "device": point.seen.device.to_string(),
                "runs": point.seen.levels,
                "XXH3 %": ours,
                "with the paper's hash times %": murmur,
                "hash ns": point.seen.hash_ns,
                "hashes": point.seen.each_hashes,
                "reads": point.seen.reads,
                "us per lookup": point.seen.each_us,
            });
        }
    }
    // The same device and share of empty lookups under both.
    let pairs: Vec<(&Point, &Point)> = leveled.all.iter().zip(&tiered.all).collect();
    let place = |point: &Point| format!("{}, {} empty", point.seen.device, point.x);
    let hashes = pairs
        .iter()
        .filter(|(leveled, tiered)| tiered.seen.each_hashes <= leveled.seen.each_hashes);
    let hashes: Vec<String> = hashes.map(|(leveled, _)| place(leveled)).collect();
    // By the clock alone, and by models of devices.
    let share = |modelled: bool| {
        let of = pairs
            .iter()
            .filter(|(point, _)| point.seen.device.model().is_some() == modelled);
        let lost = of.clone().filter(|(a, b)| shares(b).0 <= shares(a).0);
        let lost: Vec<String> = lost.map(|(leveled, _)| place(leveled)).collect();
        let on = if modelled { "device models" } else { "ram" };
        let what = format!("a larger share of a lookup is hashing under tiering, {on}");
        Claim::everywhere(what, of.count(), &lost)
    };
    Ok(Findings {
        setting: format!(
            "{} Here T = {RATIO}, under both merge policies; tiering leaves about half as many runs in a level. Hashing \
             is the counted hashes times the time of one.",
            lookups::setting(lab)
        ),
        claims: vec![
            Claim::everywhere(
                "more hashes of a lookup without sharing under tiering",
                pairs.len(),
                &hashes,
            ),
            share(false),
            share(true).by_model(),
        ],
        panels: plot::of_report(&table, "merge policy", "device", axis, "XXH3 %"),
        tables: vec![table],
        ..Findings::default()
    })
}
