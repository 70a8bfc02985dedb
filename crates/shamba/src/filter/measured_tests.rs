//! Measurements of filters that are committed beside the theory (`shamba-model/measured`), and the
//! time filters take. Ignored: run them with `cargo test --release -p shamba --lib measured --
//! --ignored --nocapture` to measure again.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use super::tests::{Filter, digest, equal_modules};
use super::*;
use shamba_model::{fpr, ribbon as model};

fn commit(name: &str, table: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shamba-model/measured");
    std::fs::write(folder.join(name), table).unwrap();
    println!("{table}");
}

#[test]
#[ignore = "measures for a minute, and writes a committed table"]
fn banding_success_table() {
    let mut table =
        String::from("| keys | slots | success | tight slots | success |\n|---|---|---|---|---|\n");
    for keys in [
        100u64, 250, 500, 1000, 2000, 4000, 7883, 16_000, 32_000, 64_000, 256_000, 1_000_000,
    ] {
        let tries = (20_000_000 / (keys + 1000)).clamp(60, 4000);
        let success = |slots: u64| {
            let solved = (0..tries).filter(|n| {
                let hashes = (0..keys).map(|key| digest(key << 24 | n).remix(RIBBON_REMIX));
                banding::solvable(hashes, (n % 32) as u8, slots as usize / 8)
            });
            solved.count() as f64 * 100.0 / tries as f64
        };
        let slots = model::slots(keys).next_multiple_of(8);
        // The least room that slots_within accepts.
        let tight = (keys..).find(|&room| model::slots_within(keys, room) <= room);
        let tight = tight.unwrap().next_multiple_of(8).min(slots);
        let (chosen, least) = (success(slots), success(tight));
        writeln!(
            table,
            "| {keys} | {slots} | {chosen:.1} % | {tight} | {least:.1} % |"
        )
        .unwrap();
    }
    commit("ribbon.md", &table);
}

#[test]
#[ignore = "measures for minutes, and writes a committed table"]
fn false_positives_table() {
    let mut table = String::from(
        "| family | hashes or columns of each module | bits per key | theory | measured |\n\
         |---|---|---|---|---|\n",
    );
    let bloom = [2.0, 5.0, 10.0].map(|bits| [1, 2, 3, 7].map(|modules| (bits, modules)));
    let blocked = [(5.0, 1), (10.0, 1), (10.0, 2), (16.0, 2)];
    let ribbon = [(1.0, 1), (2.0, 1), (4.0, 1), (8.0, 1), (8.0, 2), (12.0, 3)];
    let bloom = bloom.as_flattened().iter().map(|c| (Family::Bloom, *c));
    let blocked = blocked.iter().map(|c| (Family::Blocked, *c));
    let ribbon = ribbon.iter().map(|c| (Family::Ribbon, *c));
    for (family, (bits, modules)) in bloom.chain(blocked).chain(ribbon) {
        let each = bits / f64::from(modules);
        let plan = equal_modules(family, Layout::Whole, each, modules);
        let numbers: Vec<u32> = (plan.modules.iter())
            .map(|module| u32::from(module.hashes.max(module.columns)))
            .collect();
        let theory: f64 = (numbers.iter())
            .map(|&number| match family {
                Family::Bloom => fpr::bloom(each, number).unwrap(),
                Family::Blocked => fpr::blocked(each, number, fpr::LINE_BITS).unwrap(),
                Family::Ribbon | Family::Range => fpr::ribbon(number).unwrap(),
            })
            .product();
        let (mut hits, mut probes) = (0.0, 0u64);
        // Several filters, since a filter's own rate strays from the mean of all.
        for n in 0..4u64 {
            let keys = (n << 40)..(n << 40) + 200_000;
            let filter = Filter::build(plan.clone(), keys.clone());
            let count = (8000.0 / theory) as u64;
            hits += filter.measure(keys.end, count, u32::MAX) * count as f64;
            probes += count;
        }
        let measured = hits / probes as f64 * 100.0;
        let name = match family {
            Family::Bloom => "Bloom",
            Family::Blocked => "blocked",
            Family::Ribbon | Family::Range => "ribbon",
        };
        let numbers = numbers
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        writeln!(
            table,
            "| {name} | {{{numbers}}} | {bits} | {} % | {} % |",
            digits(theory * 100.0),
            digits(measured)
        )
        .unwrap();
    }
    commit("false_positives.md", &table);
}

/// Four significant digits.
fn digits(number: f64) -> String {
    let places = (3.0 - number.log10().floor()).max(0.0) as usize;
    format!("{number:.places$}")
}

fn quickest(times: u32, mut run: impl FnMut() -> Duration) -> f64 {
    (0..times).map(|_| run()).min().unwrap().as_nanos() as f64
}

#[test]
#[ignore = "a benchmark: prints times and asserts none"]
fn time_of_building_and_probing() {
    for keys in [7883u64, 1_000_000] {
        let sets: u64 = if keys > 10_000 { 2 } else { 16 };
        for (name, family, bits, modules) in [
            ("Bloom, 10 bits", Family::Bloom, 10.0, 1),
            ("Bloom, 2 x 8 bits", Family::Bloom, 16.0, 2),
            ("blocked, 10 bits", Family::Blocked, 10.0, 1),
            ("ribbon, 4 columns", Family::Ribbon, 4.1, 1),
            ("ribbon, 4 + 4 columns", Family::Ribbon, 8.2, 2),
            ("ribbon, 4 + 4 + 4 columns", Family::Ribbon, 12.3, 3),
        ] {
            let each = bits / f64::from(modules);
            let plan = equal_modules(family, Layout::Partitioned, each, modules);
            // Over several sets of keys, since some need a second seed.
            let mut build = 0.0;
            for set in 0..sets {
                let digests: Vec<KeyDigest> =
                    (0..keys).map(|key| digest(key | set << 40)).collect();
                build += quickest(if keys > 10_000 { 2 } else { 40 }, || {
                    let start = Instant::now();
                    let writer = FilterWriter::new(&plan, &digests, 4087);
                    for number in 0..plan.modules.len() {
                        black_box(writer.module(number));
                    }
                    start.elapsed()
                });
            }
            let filter = Filter::build(plan, 0..keys);
            let probes: Vec<KeyDigest> = (0..4096).map(|key| digest(key + (1 << 50))).collect();
            let probe = quickest(300, || {
                let start = Instant::now();
                for digest in &probes {
                    black_box(filter.probe(0, *digest));
                }
                start.elapsed()
            });
            println!(
                "{keys} keys, {name}: built in {:.1} ns/key, module 0 of {} bytes probed in {:.1} ns",
                build / (keys * sets) as f64,
                filter.modules[0].iter().map(Vec::len).sum::<usize>(),
                probe / 4096.0
            );
        }
    }
}
