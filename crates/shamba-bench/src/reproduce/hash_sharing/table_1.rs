//! Table 1: what storage takes for a page beside what hash functions take for a key of 1 KB.
use super::micro::{self, Hash};
use crate::reproduce::prelude::*;
use rand::RngExt as _;
use std::hint::black_box;
use std::time::Instant;

const KEY: usize = 1024;

/// Nanoseconds of the paper: MurmurHash64, a page in memory, and one of NVM.
const MURMUR: f64 = 235.0;
const MEMORY: f64 = 160.0;
const NVM: f64 = 250.0;

/// The dearest of the paper's quick functions, and its dear ones.
const PAPERS_XXH64: f64 = 874.0;
const PAPERS_MD5: f64 = 2850.0;
const PAPERS_SHA256: f64 = 5170.0;

/// Hash functions, and what the paper has of them.
const FUNCTIONS: [(Hash, Option<f64>); 6] = [
    (Hash::Xxh3, None),
    (Hash::Xxh64, Some(PAPERS_XXH64)),
    (Hash::Crc, Some(323.0)),
    (Hash::Murmur64, Some(MURMUR)),
    (Hash::Md5, Some(PAPERS_MD5)),
    (Hash::Sha256, Some(PAPERS_SHA256)),
];

pub(super) fn run(lab: &mut Lab<'_>) -> Result<Findings> {
    let copied = (lab.scale.pick(4, 64, 256, 256), lab.seed);
    let memory = lab.measured("copied page", &copied, |_| {
        Ok(memory_ns(copied.0, copied.1))
    })?;
    let mut rows: Vec<(String, Option<f64>, f64)> = vec![
        modelled("an HDD", 4.6e6, Device::Hdd),
        modelled("a SATA SSD", 113e3, Device::SataSsd),
        modelled("a PCIe SSD", 10e3, Device::PcieSsd),
        modelled("NVM", NVM, Device::Nvm),
        ("page in memory, copied".into(), Some(MEMORY), memory),
    ];
    let batches = lab.scale.pick(3, 101, 301, 301);
    let hashes = FUNCTIONS.map(|(hash, _)| hash);
    let times = micro::hashes_ns(lab, hashes, KEY, batches)?;
    let [xxh3, .., murmur, _, _] = times;
    let what = "MurmurHash64 of 1 KB over copying a page in memory";
    let beside_memory = Claim::figure(what, MURMUR / MEMORY, murmur / memory);
    let untold = format!(
        "the paper has {MEMORY} ns for an access to a page of 4 KB, and does not tell whether it is copied or where it lies; here \
         it is copied from a place at random in {} MiB, {memory:.0} ns beside {murmur:.0} for the hash",
        copied.0
    );
    let what = "MurmurHash64 of 1 KB, measured, over the paper's page of NVM of 250 ns";
    let seen = format!("{:.2}", murmur / NVM);
    let holds = (murmur / NVM).log10().abs() <= 1.0;
    let beside_nvm = Claim::statement(what, "within one order of magnitude", seen, holds);
    let what = "XXH3 of 1 KB, the engine's hash, over MurmurHash64";
    let own = Claim::goal_to(what, 1.0, xxh3 / murmur);
    let mut claims = vec![
        beside_memory.without_verdict(untold),
        beside_nvm.by_model(),
        own,
    ];
    for ((hash, paper), ns) in FUNCTIONS.into_iter().zip(times) {
        let name = format!("{} of 1 KB", hash.name());
        if let Some(paper) = paper.filter(|_| hash != Hash::Murmur64) {
            let papers = if hash == Hash::Xxh64 { "XXHash, " } else { "" };
            let what =
                format!("{name} over MurmurHash64 (the paper: {papers}{paper} ns over {MURMUR})");
            claims.push(Claim::figure(what, paper / MURMUR, ns / murmur));
        }
        rows.push((name, paper, ns));
    }
    let [_, xxh64, crc, murmur, md5, sha256] = times;
    let dearest = most_of(&[xxh64, crc, murmur]);
    for (name, dear, paper) in [("MD5", md5, PAPERS_MD5), ("SHA-256", sha256, PAPERS_SHA256)] {
        let what = format!("{name} of 1 KB over the dearest of the paper's other functions");
        let seen = format!("{:.2}", dear / dearest);
        let paper = format!(
            "more than one order of magnitude (its own table has {:.2})",
            paper / PAPERS_XXH64
        );
        let claim = Claim::statement(what, paper, seen, dear > 10.0 * dearest);
        let same = "MurmurHash64 is the dearest of them here: the ratio is that of a row above";
        claims.push(claim.unless(dearest == murmur, same));
    }
    let title = "Latencies in nanoseconds, and normalised to a page in memory";
    let table = Report::of(title, &rows, |(name, paper, ns)| {
        row! {
            "operation": name.as_str(),
            "paper ns": *paper,
            "measured ns": *ns,
            "paper normalised": paper.map(|paper| paper / MEMORY),
            "measured normalised": ns / memory,
        }
    });
    let lines = [("paper", "paper ns"), ("here", "measured ns")];
    let lines = lines.map(|(name, column)| Series::by_row(name, &table, column));
    let title = "latencies in the order of the table";
    let panel = Panel::new(title, "row of the table", "nanoseconds", lines);
    Ok(Findings::of("", [table], [panel.logarithmic()], claims))
}

fn modelled(of: &str, paper: f64, device: Device) -> (String, Option<f64>, f64) {
    let name = format!("page of {of} (modelled)");
    (name, Some(paper), device.read_ns() as f64)
}

/// Nanoseconds to copy a page from a random place of so many MiB.
fn memory_ns(mib: usize, seed: u64) -> f64 {
    const PAGE: usize = 4096;
    let block = vec![1u8; mib << 20];
    let pages = block.len() / PAGE;
    let mut random = random(seed, 9);
    let mut page = vec![0u8; PAGE];
    let mut times = Vec::new();
    for _ in 0..50 {
        let mut place = || random.random_range(0..pages) * PAGE;
        let places: Vec<usize> = (0..100).map(|_| place()).collect();
        let start = Instant::now();
        for &at in &places {
            page.copy_from_slice(black_box(&block[at..at + PAGE]));
            black_box(&page);
        }
        times.push(start.elapsed().as_secs_f64() * 1e9 / places.len() as f64);
    }
    median(&times).unwrap_or(f64::NAN)
}
