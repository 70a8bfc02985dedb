//! Lookups by the share of empty ones, for Figures 13 and 14, which differ in the device.
use super::lookups::{self, Point, Points};
use super::micro::{self, Effort, Hash};
use crate::Result;
use crate::device::Device;
use crate::experiments::hash_sharing::{Cell, Place};
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Findings, Lab};

/// Filters of a lookup where nothing else is measured.
const LEVELS: usize = 5;

/// What a figure shows of the gain: on a device, in percent without and with empty lookups only.
pub(super) fn figure(lab: &mut Lab<'_>, device: Place, paper: [f64; 2]) -> Result<Findings> {
    let shares = lab.scale.pick(
        &[1.0, 0.0][..],
        &[1.0, 0.5, 0.0],
        &[1.0, 0.75, 0.5, 0.25, 0.0],
        &[1.0, 0.8, 0.6, 0.4, 0.2, 0.0],
    );
    let cell = Cell {
        empty: shares.to_vec(),
        // The two figures share the tree.
        ..lookups::base(
            lab,
            &[Place::On(Device::FastPcieSsd), Place::On(Device::Ram)],
        )
    };
    let mut points = Points::new("share of empty lookups");
    let mut seen = lookups::measure(lab, &cell)?;
    seen.retain(|seen| seen.device == device);
    seen.sort_by(|a, b| a.empty.total_cmp(&b.empty));
    for seen in seen {
        points.add(seen.empty, &cell, [seen]);
    }
    let all: Vec<&Point> = points.on(device).collect();
    let (alone, panel, murmur, ours) = filters_alone(lab);
    let mut panels = points.gains(&[(device, vec![(0.0, paper[0]), (1.0, paper[1])])])?;
    panels.extend(points.times());
    panels.push(panel);
    Ok(Findings {
        setting: format!(
            "{} Filters alone: {LEVELS} filters of 10,000 keys, nothing else of a lookup.",
            lookups::setting(lab)
        ),
        claims: vec![
            lookups::gain(
                "gain with empty lookups only",
                paper[1],
                all.last().copied(),
            )?,
            Claim::statement(
                "gain by the share of empty lookups, % (the last no smaller than the first)",
                format!("grows from {} to {}", paper[0], paper[1]),
                lookups::percent(&all),
                lookups::grows(&all),
            ),
            Claim::statement(
                "gain in filters alone, with the paper's MurmurHash64, keys of 512 B, % (ours)",
                format!("it has whole lookups: {}", paper[1]),
                format!("{murmur:.1}"),
                murmur >= paper[1],
            ),
            Claim::statement(
                "the same with XXH3, which is quicker",
                "less to gain",
                format!("{ours:.1} %, {murmur:.1} % with MurmurHash64"),
                ours < murmur,
            ),
            points.counted(),
        ],
        tables: vec![points.table("By the share of empty lookups")?, alone],
        panels,
        ..Findings::default()
    })
}

/// What sharing gains in the filters of a lookup and nothing else, by hash function and key size:
/// the gains in percent at 512 B with MurmurHash64 and XXH3.
fn filters_alone(lab: &Lab<'_>) -> (Report, Panel, f64, f64) {
    let mut table = Report::new(
        format!("An empty lookup in {LEVELS} filters, nothing else"),
        &["hash", "key B", "shared ns", "per filter ns", "gain %"],
    );
    let effort = Effort {
        filters: 1,
        keys: 10_000,
        lookups: lab.scale.pick(500, 20_000, 100_000, 100_000),
        seed: lab.seed,
    };
    let mut series = Vec::new();
    let mut last = Vec::new();
    for hash in [Hash::Murmur64, Hash::Xxh3] {
        let mut line = Series::new(hash.name());
        for key_size in [8, 32, 128, 512] {
            let (once, each) = micro::filters_alone(hash, key_size, LEVELS, effort);
            let gain = (1.0 - once / each) * 100.0;
            line.points.push((key_size as f64, gain.max(0.0)));
            table.push(vec![
                hash.name().into(),
                (key_size as f64).into(),
                once.into(),
                each.into(),
                gain.into(),
            ]);
        }
        last.push(line.points.last().map_or(f64::NAN, |point| point.1));
        series.push(line);
    }
    let panel = Panel {
        title: format!("gain in {LEVELS} filters alone"),
        x: "bytes of a key".into(),
        y: "gain, % (less than 0 as 0)".into(),
        log_y: false,
        series,
    };
    (table, panel, last[0], last[1])
}
