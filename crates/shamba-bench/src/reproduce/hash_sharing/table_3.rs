//! Table 3: false positives of an ElasticBF of seven units, with rotation and with double hashing.
use super::micro::{self, Derive, Hash};
use super::table_2;
use crate::Result;
use crate::plot::{Panel, Series};
use crate::report::Report;
use crate::reproduce::{Claim, Experiment, Findings, Lab};
use shamba_model::fpr;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hash-sharing-table-3",
    title: "False positives of filters in units",
    claim: "ElasticBF (seven units of a single index each) normally achieves almost the same false positive rate as a normal \
            Bloom filter: 0.829 % with MurmurHash64 rotated, 0.834 to 0.897 % with double hashing.",
    seconds: 0.3,
    run,
};

/// Ways to derive a unit's position, and the paper's rate in percent.
pub(super) const WAYS: [(Derive, Option<f64>); 4] = [
    (Derive::Rotation(Hash::Murmur64), Some(0.829)),
    (Derive::Double(Hash::Murmur64, Hash::Xxh64), Some(0.897)),
    (Derive::Double(Hash::Murmur64, Hash::Crc), Some(0.841)),
    (Derive::Steps(Hash::Xxh3), None),
];

fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::new(
        "False positives of empty lookups, percent; seven units",
        &["hashes", "paper %", "measured %", "+- %", "theory %"],
    );
    let theory = fpr::bloom(10.0, 7).unwrap_or(f64::NAN) * 100.0;
    let effort = table_2::effort(lab);
    let mut lines = ["paper", "measured", "theory"].map(Series::new);
    let mut claims = Vec::new();
    for (at, (derive, paper)) in WAYS.into_iter().enumerate() {
        let seen = micro::ask(
            &micro::Setting {
                derive,
                key_size: 64,
                bits_per_key: 10.0,
                hashes: 7,
                units: 7,
            },
            effort,
        );
        let (rate, error) = (seen.rate * 100.0, seen.error * 100.0);
        claims.push(match paper {
            Some(paper) => table_2::rate(derive, paper, (rate, error), theory),
            None => table_2::engine(rate, theory),
        });
        let x = at as f64 + 1.0;
        lines[0].points.extend(paper.map(|rate| (x, rate)));
        lines[1].points.push((x, rate));
        lines[2].points.push((x, theory));
        table.push(vec![
            derive.name().into(),
            paper.into(),
            rate.into(),
            error.into(),
            theory.into(),
        ]);
    }
    claims.push(Claim::not_comparable(
        "false positives, MurmurHash64 + CityHash, %",
        "0.834",
        "the crate for CityHash has had one release, in 2022",
    ));
    Ok(Findings {
        setting: format!(
            "{} filters of {} random keys, 10 bits per key in 7 units of one position, {} absent keys each; CityHash \
             left out.",
            effort.filters, effort.keys, effort.lookups
        ),
        claims,
        tables: vec![table],
        panels: vec![Panel {
            title: "false positives of seven units".into(),
            x: "row of the table".into(),
            y: "false positives, %".into(),
            log_y: false,
            series: lines.into(),
        }],
        ..Findings::default()
    })
}
