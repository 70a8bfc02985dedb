//! False positives of range filters by bits per key: the command `range-filters`.
//!
//! The engine's filter beside those of the literature (`others`), over as many keys as a
//! partition of a table has. Half of the keys drawn are in the filter, the others begin the ranges
//! that are asked for, so that ranges lie where data is; or a key of the filter does, and the range
//! begins right behind it. Only ranges without a key count. The engine's filter is built and asked
//! as a table's is, and its bytes are counted.
mod others;

use super::indexes::KeySet;
use super::named;
use crate::report::Report;
use crate::workload::{Random, random};
use crate::{Result, row};
use others::{Bucketing, Grafite, Rosetta, Surf};
use rand::RngExt;
use rand::seq::SliceRandom;
use shamba::inspect::RangeFilter;
use std::collections::BTreeSet;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// Kinds of keys.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "random,sequence,user-time,hex,uuid-text"
    )]
    pub keys: Vec<KeySet>,
    /// Bits per key.
    #[arg(long, value_delimiter = ',', default_value = "8,10,12,16")]
    pub bits: Vec<u32>,
    /// Logarithms to the base of 2 of how many numbers a range has, where keys end with one of
    /// eight bytes; of text a range is all that begins with a key.
    #[arg(long, value_delimiter = ',', default_value = "4,16,32")]
    pub ranges: Vec<u32>,
    /// Keys of a filter.
    #[arg(long, default_value_t = 8000)]
    pub keys_each: usize,
    /// Filters of each kind.
    #[arg(long, default_value_t = 3)]
    pub filters: u64,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A filter that says of a range, both ends included, whether it may have a key.
trait Filter {
    fn may_hold(&self, start: &[u8], end: &[u8]) -> bool;
}

impl Filter for RangeFilter {
    fn may_hold(&self, start: &[u8], end: &[u8]) -> bool {
        self.may_hold(start, end)
    }
}

/// The key so many numbers on, where the last eight bytes are one.
fn plus(key: &[u8], more: u64) -> Vec<u8> {
    let (head, tail) = key.split_at(key.len() - 8);
    let tail: [u8; 8] = tail.try_into().unwrap_or_default();
    let number = u64::from_be_bytes(tail).saturating_add(more);
    [head, &number.to_be_bytes()].concat()
}

/// A kind of ranges, from their first keys.
#[derive(Clone, Copy)]
struct Asked {
    /// So many numbers, of two to the power of it; `None` of text.
    log: Option<u32>,
    is_near: bool,
}

impl Asked {
    fn all(kind: KeySet, settings: &Settings) -> Vec<Self> {
        let asked = |log, is_near| Self { log, is_near };
        if !matches!(kind, KeySet::Random | KeySet::Sequence | KeySet::UserTime) {
            return vec![asked(None, false)];
        }
        let far = settings.ranges.iter().map(|log| asked(Some(*log), false));
        let near = settings.ranges.first().map(|log| asked(Some(*log), true));
        far.chain(near).collect()
    }

    fn name(self) -> String {
        match self.log {
            None => "what begins so".to_owned(),
            Some(log) if self.is_near => format!("2^{log} right behind a key"),
            Some(log) => format!("2^{log}"),
        }
    }

    /// The ends of a range that begins at a key of those not in the filter, or at one in it.
    fn range(self, absent: &[u8], present: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let Some(log) = self.log else {
            return (absent.to_vec(), [absent, b"\xff"].concat());
        };
        let start = if self.is_near {
            plus(present, 1)
        } else {
            absent.to_vec()
        };
        let end = plus(&start, (1 << log) - 1);
        (start, end)
    }
}

/// Keys of a kind in their order, every second one beside the others.
fn drawn(kind: KeySet, settings: &Settings, random: &mut Random) -> [Vec<Vec<u8>>; 2] {
    let count = 2 * settings.keys_each as u64;
    // The numbers of a sequence have others between them.
    let key = |number: u64, random: &mut Random| match kind {
        KeySet::Sequence => kind.key(number * 1000 + random.random_range(0..1000), random),
        _ => kind.key(number, random),
    };
    let keys: BTreeSet<Vec<u8>> = (0..count).map(|number| key(number, random)).collect();
    let mut both = [Vec::new(), Vec::new()];
    for (at, key) in keys.into_iter().enumerate() {
        both[at % 2].push(key);
    }
    both
}

/// Measures every kind of keys with every filter.
pub fn run(settings: &Settings, note: &mut dyn FnMut(String)) -> Result<Report> {
    let mut report = Report::titled("False positives of ranges without a key");
    for &kind in &settings.keys {
        for asked in Asked::all(kind, settings) {
            for &bits in &settings.bits {
                measure(settings, kind, asked, f64::from(bits), &mut report);
            }
        }
        note(named(&kind));
    }
    Ok(report)
}

/// A row: the shares that each filter lets pass.
fn measure(settings: &Settings, kind: KeySet, asked: Asked, bits: f64, report: &mut Report) {
    let mut passed = [0u32; 5];
    let mut empty = 0u32;
    // Bits per key that ours and SuRF take, and whether Rosetta can be had for so many.
    let (mut ours_each, mut surf_each, mut has_rosetta) = (0.0, 0.0, true);
    for stream in 0..settings.filters {
        let mut random = random(settings.seed, stream);
        let [keys, mut others] = drawn(kind, settings, &mut random);
        // Behind the last key nothing is asked, nor before the first.
        others.pop();
        others.shuffle(&mut random);
        let rosetta = asked.log.and_then(|log| Rosetta::new(&keys, bits, log));
        has_rosetta &= rosetta.is_some();
        let (ours, surf) = (RangeFilter::of(&keys, bits), Surf::new(&keys, bits));
        let all = keys.len() as f64 * settings.filters as f64;
        ours_each += ours.bytes() as f64 * 8.0 / all;
        surf_each += surf.bits / all;
        let filters: [Option<Box<dyn Filter>>; 5] = [
            Some(Box::new(ours)),
            Some(Box::new(Bucketing::new(&keys, bits))),
            Some(Box::new(Grafite::new(&keys, bits, stream))),
            rosetta.map(|rosetta| Box::new(rosetta) as Box<dyn Filter>),
            Some(Box::new(surf)),
        ];
        for (at, other) in others.iter().enumerate() {
            let (start, end) = asked.range(other, &keys[at % keys.len()]);
            let next = keys.partition_point(|key| *key < start);
            if next == 0 || keys.get(next).is_none_or(|key| *key <= end) {
                continue;
            }
            empty += 1;
            for (filter, passed) in filters.iter().zip(&mut passed) {
                let may_hold = (filter.as_ref()).is_none_or(|of| of.may_hold(&start, &end));
                *passed += u32::from(may_hold);
            }
        }
    }
    // Of few ranges without a key no rate is known.
    if empty < 1000 {
        return;
    }
    let share = |at: usize| f64::from(passed[at]) / f64::from(empty);
    report.add(row! {
        "keys": named(&kind),
        "range": asked.name(),
        "bits": bits,
        "ranges": empty,
        "ours": share(0),
        "ours, bits": ours_each,
        "bucketing": share(1),
        "Grafite": share(2),
        "Rosetta": has_rosetta.then(|| share(3)),
        "SuRF": share(4),
        "SuRF, bits": surf_each,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::settings;

    #[test]
    fn no_filter_misses_a_key_and_each_is_as_good_as_it_is_said_to_be() {
        let settings: Settings = settings(
            "--keys random,user-time,hex --bits 10 --ranges 4 --keys-each 3000 --filters 1",
        );
        for kind in [KeySet::Random, KeySet::UserTime, KeySet::Hex] {
            let [keys, _] = drawn(kind, &settings, &mut random(1, 1));
            let filters: [Box<dyn Filter>; 5] = [
                Box::new(RangeFilter::of(&keys, 10.0)),
                Box::new(Bucketing::new(&keys, 10.0)),
                Box::new(Grafite::new(&keys, 10.0, 1)),
                Box::new(Rosetta::new(&keys, 10.0, 4).unwrap()),
                Box::new(Surf::new(&keys, 10.0)),
            ];
            for key in &keys {
                let end = [&key[..], b"\0"].concat();
                let asked = filters.iter().map(|filter| filter.may_hold(key, &end));
                assert_eq!(asked.filter(|may_hold| *may_hold).count(), 5);
            }
        }
        let report = run(&settings, &mut |_| {}).unwrap();
        assert_eq!(report.rows.len(), 5, "{report}");
        for row in &report.rows {
            let share = |of: &str| report.number(row, of).unwrap();
            let others = ["bucketing", "Grafite", "SuRF"].map(share);
            let [bucketing, grafite, surf] = others;
            let ours = share("ours");
            let of = |what: &str| row.iter().any(|cell| cell.to_string().contains(what));
            if of("behind") {
                assert!(grafite < 0.1 && ours > 0.9, "{report}");
            } else if of("begins so") {
                assert!(grafite < ours && ours < 0.02, "{report}");
            } else {
                assert!(ours < 0.03 && ours < grafite / 2.0, "{report}");
            }
            assert!(ours <= 1.3 * bucketing && ours <= surf, "{report}");
        }
    }
}
