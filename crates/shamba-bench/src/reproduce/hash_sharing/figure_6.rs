//! Figure 6: what hash sharing gains in theory, by device, for leveling and tiering; and Figure 2,
//! the share of a lookup that is hashing under both.
use super::lookups::murmur_ns;
use crate::reproduce::prelude::*;
use shamba_model::hash_sharing::{Times, Work, leveling, tiering};

/// Names and nanoseconds of a page (Table 1).
const DEVICES: [(&str, f64); 6] = [
    ("HDD", 4.6e6),
    ("SSD", 113e3),
    ("PCIe SSD", 10e3),
    ("PCIe SSD by SPDK", 7e3),
    ("NVM", 250.0),
    ("memory", 160.0),
];

/// A probe in memory, a guess: the paper gives no `T_P`, but that it is small.
const PROBE: f64 = 100.0;

/// Shares of empty lookups.
const EMPTY: [f64; 3] = [0.0, 0.5, 1.0];

const RATIO: u32 = 10;
const LEVELS: u32 = 5;
const RATE: f64 = 0.0082;

pub(super) fn run(_: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled(
        "Gain of hash sharing by Eq. 8, %; keys of 1 KB, T = 10, 5 levels, 10 bits per key",
    );
    // Points at which tiering gains no more.
    let mut no_more_gain = 0;
    let mut panels = Vec::new();
    for empty in EMPTY {
        let leveled = leveling(RATIO, LEVELS, 1.0 - empty, RATE)?;
        let tiered = tiering(RATIO, LEVELS, 1.0 - empty, RATE)?;
        let mut lines = ["leveling", "tiering"].map(Series::new);
        for (x, (name, read)) in (1..).map(f64::from).zip(DEVICES) {
            let times = Times {
                hash: murmur_ns(1024),
                probe: PROBE,
                read,
            };
            let gain = |work: Work| work.gain(&times);
            let gains = [gain(leveled)? * 100.0, gain(tiered)? * 100.0];
            no_more_gain += usize::from(gains[1] <= gains[0]);
            for (line, gain) in lines.iter_mut().zip(gains) {
                line.points.push((x, gain));
            }
            table.add(row! {
                "device": name,
                "page ns": read,
                "share of empty lookups": empty,
                "leveling %": gains[0],
                "tiering %": gains[1],
            });
        }
        let (title, y) = (format!("{empty} of lookups empty"), "gain, %");
        panels.push(Panel::new(
            title,
            "device: HDD, SSD, PCIe, SPDK, NVM, memory",
            y,
            lines,
        ));
    }
    // Of the last share, all lookups empty, under leveling.
    let gains = panels[EMPTY.len() - 1].series[0].points.iter();
    let gains: Vec<f64> = gains.map(|(_, gain)| *gain).collect();
    let points = table.rows.len();
    let setting = format!(
        "By the model with the paper's Table 1 (MurmurHash64 of 1 KB: 235 ns), T = {RATIO}, {LEVELS} levels, and a \
         guess for a probe, which the paper does not give: {PROBE} ns."
    );
    let mut claims = Vec::new();
    let what = "gain on an HDD and an SSD, all lookups empty, leveling, % (our limits: 2 and 20)";
    let seen = format!("{:.1}, {:.1}", gains[0], gains[1]);
    let holds = gains[0] < 2.0 && gains[1] < 20.0;
    claims.push(Claim::statement(what, "negligible, modest", seen, holds));
    let what = "gain on NVM, all lookups empty, leveling, %";
    claims.push(Claim::from_on(what, 40.0, &[gains[4]]));
    let what = "tiering gains more than leveling";
    claims.push(Claim::everywhere_but(what, points, no_more_gain));
    Ok(Findings::of(
        setting,
        [table],
        panels,
        claims.into_iter().map(by_model),
    ))
}
