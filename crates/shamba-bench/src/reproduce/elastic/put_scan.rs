//! What ElasticBF costs writes.
use super::common::{self, MEMORY};
use crate::reproduce::prelude::*;
use std::collections::BTreeMap;

/// With over without, at most, where bytes written count as the same: a limit of ours. ElasticBF's
/// filters have ten bits a key more on storage, a fiftieth of entries of 64 B: of larger ones it is
/// less than what merges differ by.
const NEGLIGIBLE: f64 = 1.05;

/// Without: one filter a file. And with.
const ENGINES: [(&str, &str); 2] = [
    ("one filter a file", STATE_OF_THE_ART),
    ("ElasticBF", common::WITH),
];

/// Value sizes (the slides' is 1 KB).
const VALUES: [usize; 2] = [32, 992];

const LOAD: &str = "bytes written per byte put, load";
const OVERWRITES: &str = "bytes written per byte put, overwrites";
const PUT: &str = "us of a put, device model and processor";

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let mut table = Report::titled("Writes without and with ElasticBF");
    let mut claims = Vec::new();
    // As many as fill the write buffer several times.
    let puts = lab.scale.pick(500, 50_000, 400_000, 1_000_000);
    // The larger entries are written over and over: too slow for a test.
    for value in VALUES.into_iter().take(lab.scale.tiny_or(1, 2)) {
        let entry = value + 32;
        for (name, engine) in ENGINES {
            let base = Base {
                value: value.into(),
                entries: lab.scale.entries() * 64 / entry as u64,
                ..common::base(lab, engine)
            };
            let loaded = lab.facts(&base)?.counts;
            let put = Mix::only(Operation::Update, Distribution::Uniform);
            let mut trial = common::trial(lab, &base, engine, MEMORY, put)?;
            trial.measured = puts * 64 / entry as u64;
            let found = lab.measure(&trial)?;
            table.add(row! {
                "entry bytes": entry,
                "engine": name,
                LOAD: amplification(&loaded),
                OVERWRITES: amplification(&found.counts),
                PUT: found.write_us,
            });
        }
        let own = table.rows_of("entry bytes", entry);
        let [load, written, time] = [LOAD, OVERWRITES, PUT].map(|column| {
            let numbers = own.numbers(column);
            numbers[1] / numbers[0]
        });
        let what = format!(
            "entries of {entry} B: time of a PUT, device model and processor, with over without ElasticBF"
        );
        let reason = "which merges fall into the puts that are measured decides it: from seed to seed it differs by more than \
                      the filters can take (the table)";
        let paper = "negligible impact";
        claims.push(Claim::told(what, paper, format!("{time:.3}"), reason));
        let bytes = |of: &str| {
            format!("entries of {entry} B: bytes written by {of}, with over without ElasticBF")
        };
        if value == VALUES[0] {
            claims.push(Claim::goal_to(bytes("a load"), NEGLIGIBLE, load));
        }
        let seen = format!("{written:.3}");
        let reason = "where merges fall decides it, in trees of files of other sizes";
        claims.push(Claim::told(bytes("overwrites"), paper, seen, reason));
    }
    let setting = common::setting(lab, &common::base(lab, STATE_OF_THE_ART));
    let setting = format!(
        "{setting}; {puts} puts of entries of 64 B are measured, of larger ones as many bytes, not as many operations as elsewhere"
    );
    let title = "Bytes written by a load";
    let panel = Panel::of_lines(title, &table, "engine", "entry bytes", LOAD);
    Ok(Findings::of(setting, [table], [panel], claims))
}

/// Bytes of tables written for each byte put.
fn amplification(counts: &BTreeMap<String, u64>) -> f64 {
    let count = |name: &str| counts.get(name).copied().unwrap_or(0) as f64;
    (count("flush_bytes") + count("compaction_bytes_written"))
        / count("user_bytes_written").max(1.0)
}
