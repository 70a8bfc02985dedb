//! Figure 3: false positives over bits per key, by the way positions are derived.
use super::micro::{self, Derive, Hash};
use super::rates::effort;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use crate::{Result, row};
use shamba_model::fpr;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-figure-3",
    title: "False positives over bits per key",
    claim: "For any number of hash functions (1 to 9, 1 to 13 bits per key) using one hash function and bit-rotation leads to \
            an empirical false positive rate that is close to the theoretical expectation.",
    seconds: 1.0,
    run,
};

/// Bits per key, and positions.
const POINTS: [(f64, usize); 5] = [(1.0, 1), (4.0, 3), (7.0, 5), (10.0, 7), (13.0, 9)];

const WAYS: [Derive; 4] = [
    Derive::Independent,
    Derive::Rotation(Hash::Murmur64),
    Derive::Rotation(Hash::Md5),
    Derive::Steps(Hash::Xxh3),
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("False positives of empty lookups");
    let effort = effort(lab);
    let mut lines: Vec<Series> = WAYS.iter().map(|way| Series::new(way.name())).collect();
    let mut curve = Series::new("theory");
    // Of rotation, and of the engine: how many were seen, and how many are off.
    let (mut rotated, mut ours) = ([0, 0], [0, 0]);
    for (bits_per_key, hashes) in POINTS {
        let theory = fpr::bloom(bits_per_key, hashes as u32).unwrap_or(f64::NAN);
        curve.points.push((bits_per_key, theory));
        for (derive, line) in WAYS.into_iter().zip(&mut lines) {
            let seen = micro::ask(
                &micro::Setting {
                    derive,
                    key_size: 64,
                    bits_per_key,
                    hashes,
                    units: 1,
                },
                effort,
            );
            let off = (seen.rate - theory).abs() > 0.1 * theory + 3.0 * seen.error;
            let count = match derive {
                Derive::Rotation(_) => Some(&mut rotated),
                Derive::Steps(_) => Some(&mut ours),
                _ => None,
            };
            if let Some([points, lost]) = count {
                *points += 1;
                *lost += usize::from(off);
            }
            line.points.push((bits_per_key, seen.rate));
            table.add(row! {
                "bits per key": bits_per_key,
                "positions": hashes,
                "hashes": derive.name(),
                "measured": seen.rate,
                "+-": seen.error,
                "theory": theory,
            });
        }
    }
    lines.push(curve);
    Ok(Findings {
        setting: format!(
            "{} filters of {} random keys of 64 B, {} absent keys each.",
            effort.filters, effort.keys, effort.lookups
        ),
        claims: vec![
            Claim::everywhere_but(
                "one hash rotated: within a tenth of the theory, and three standard errors",
                rotated[0],
                rotated[1],
            ),
            Claim::goal(
                "the engine's positions: within a tenth of the theory, and three standard errors",
                "at every point",
                format!("off at {} of {}", ours[1], ours[0]),
                ours[1] == 0,
            ),
        ],
        tables: vec![table],
        panels: vec![
            Panel::new(
                "false positives",
                "bits per key",
                "false-positive rate",
                lines,
            )
            .logarithmic(),
        ],
        ..Findings::default()
    })
}
