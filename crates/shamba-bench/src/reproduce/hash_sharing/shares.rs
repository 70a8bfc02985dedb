//! Lookups by the share of empty ones, for Figures 13 and 14, which differ in the device.
use super::lookups::{self, Point, Points};
use crate::Result;
use crate::experiments::hash_sharing::{Cell, Device};
use crate::reproduce::{Claim, Findings, Lab};

/// What a figure shows of the gain: on a device, in percent without and with empty lookups only.
pub(super) fn figure(lab: &mut Lab<'_>, device: Device, paper: [f64; 2]) -> Result<Findings> {
    let shares = lab.scale.pick(
        &[1.0, 0.0][..],
        &[1.0, 0.5, 0.0],
        &[1.0, 0.75, 0.5, 0.25, 0.0],
        &[1.0, 0.8, 0.6, 0.4, 0.2, 0.0],
    );
    let cell = Cell {
        empty: shares.to_vec(),
        // The two figures share the tree.
        ..lookups::base(lab, &[Device::FastPcieSsd, Device::Memory])
    };
    let mut points = Points::new("share of empty lookups");
    let mut seen = lookups::measure(lab, &cell)?;
    seen.retain(|seen| seen.device == device);
    seen.sort_by(|a, b| a.empty.total_cmp(&b.empty));
    for seen in seen {
        points.add(seen.empty, &cell, [seen]);
    }
    let all: Vec<&Point> = points.on(device).collect();
    let mut panels = points.gains(&[(device, vec![(0.0, paper[0]), (1.0, paper[1])])])?;
    panels.extend(points.times());
    Ok(Findings {
        setting: lookups::setting(lab),
        claims: vec![
            lookups::gain(
                "gain with empty lookups only",
                paper[1],
                all.last().copied(),
            )?,
            Claim::holds(
                "gain by the share of empty lookups, % (the last no smaller than the first)",
                format!("grows from {} to {}", paper[0], paper[1]),
                lookups::percent(&all),
                lookups::grows(&all),
            ),
            points.counted(),
        ],
        tables: vec![points.table("By the share of empty lookups")?],
        panels,
        ..Findings::default()
    })
}
