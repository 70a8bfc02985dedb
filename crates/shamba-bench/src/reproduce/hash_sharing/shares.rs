//! Figures 13 and 14: the gain by the share of empty lookups, on a PCIe SSD and on a RAM disk.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place};
use crate::reproduce::{Experiment, Findings, Lab};

const SSD: Place = Place::On(Device::FastPcieSsd);
const RAM: Place = Place::On(Device::Ram);

pub(super) const FIGURE_13: Experiment = Experiment {
    name: "hash-sharing-figure-13",
    title: "Gain by the share of empty lookups, a PCIe SSD",
    claim: "The benefit when using an SSD for data storage is negligible for no empty queries (alpha = 0) and increases to \
            17 % for only empty ones (alpha = 1).",
    seconds: 2.0,
    run: |lab| figure(lab, SSD, "negligible at none, increases", &[(1.0, 17.0)]),
};

pub(super) const FIGURE_14: Experiment = Experiment {
    name: "hash-sharing-figure-14",
    title: "Gain by the share of empty lookups, a RAM disk",
    claim: "In the case of a RAM disk (used to emulate NVM) the gain starts from 10 % for no empty queries (alpha = 0), and \
            grows to more than 40 % for only empty ones (alpha = 1).",
    seconds: 0.5,
    run: |lab| figure(lab, RAM, "grows", &[(0.0, 10.0), (1.0, 40.0)]),
};

/// What a figure shows of the gain on a device: how it runs, and in percent at shares of empty
/// lookups.
fn figure(
    lab: &mut Lab<'_>,
    device: Place,
    course: &str,
    paper: &[(f64, f64)],
) -> Result<Findings> {
    let shares = lab.scale.pick(
        &[1.0, 0.0][..],
        &[1.0, 0.5, 0.0],
        &[1.0, 0.75, 0.5, 0.25, 0.0],
        &[1.0, 0.8, 0.6, 0.4, 0.2, 0.0],
    );
    let cell = Cell {
        empty: shares.to_vec(),
        // The two figures share the tree.
        ..lookups::base(lab, &[SSD, RAM])
    };
    let mut points = Points::new("share of empty lookups");
    let mut seen = lookups::measure(lab, &cell)?;
    seen.retain(|seen| seen.device == device);
    seen.sort_by(|a, b| a.empty.total_cmp(&b.empty));
    for seen in seen {
        points.add(seen.empty, &cell, [seen]);
    }
    let all: Vec<&Point> = points.on(device).collect();
    let mut claims = Vec::new();
    for &(empty, gain) in paper {
        let point = all.iter().find(|p| p.x == empty).copied();
        claims.push(lookups::gain(
            &format!("gain with {empty} of lookups empty"),
            gain,
            point,
        )?);
    }
    claims.push(lookups::trend(
        "gain by the share of empty lookups",
        course,
        &all,
    ));
    let mut panels = points.gains(&[(device, paper.to_vec())])?;
    panels.extend(points.times());
    Ok(Findings {
        setting: lookups::setting(lab),
        claims,
        tables: vec![points.table("By the share of empty lookups")?],
        panels,
        ..Findings::default()
    })
}
