//! What the least budgets cost in reads and writes: no block is read twice in a row, merges have no
//! more inputs than they hold blocks of, and level 0 stays small.

use std::sync::Arc;

use crate::common::Rng;
use shamba::fs::{BlockKind, MemFs, MeteredFs, Purpose};
use shamba::{Db, IterOptions, KeyspaceOptions, MIN_MEMORY, MemoryBudget, Options};

const DIR: &str = "/db";

fn options(fs: &MeteredFs, memory: u64) -> Options {
    Options::new()
        .fs(Arc::new(fs.clone()))
        .memory(MemoryBudget::bytes(memory))
        .background_threads(0)
}

fn metered() -> MeteredFs {
    MeteredFs::new(Arc::new(MemFs::new()))
}

fn data_pages(fs: &MeteredFs, purpose: Purpose) -> u64 {
    fs.counts().reads(BlockKind::Data, purpose).pages
}

fn runs(db: &Db) -> usize {
    let levels = &db.stats().keyspaces[0].levels;
    levels.iter().map(|level| level.runs).sum()
}

/// Writes entries with the default design, whose write buffer is 64 times the least budget, and
/// checks that merges read no more than there is.
fn write_under(memory: u64, entries: u64) {
    const ENTRY: usize = 110;
    let fs = metered();
    let db = options(&fs, memory).open(DIR).unwrap();
    let mut rng = Rng::new(20);
    let mut most_runs = 0;
    for number in 0..entries {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(key, rng.bytes(ENTRY - 8)).unwrap();
        if number % 500 == 0 {
            most_runs = most_runs.max(runs(&db));
        }
    }
    db.flush().unwrap();
    db.wait_for_compaction().unwrap();
    let usage = db.stats().memory.budget;
    assert_eq!(usage.overdraft, 0, "{usage:?}");
    let counters = db.stats().counters;
    let (read, written) = (
        counters.compaction_bytes_read as f64,
        counters.compaction_bytes_written as f64,
    );
    let counts = fs.counts();
    let pages = data_pages(&fs, Purpose::Background) as f64;
    let device = counts.reads_for(Purpose::Background).pages as f64 * 4096.0;
    let flushed = counters.flush_bytes as f64;
    println!(
        "{memory}: {} flushes, {} merges, {:.2} read for each byte written, {:.2} pages read for \
         each of the inputs, {:.2} read of the device for each written, {:.2} merged for each flushed, \
         {most_runs} runs",
        counters.flushes,
        counters.compactions,
        read / written,
        pages * 4096.0 / read,
        device / written,
        written / flushed,
    );
    assert!(counters.compactions >= 4);
    assert!(read <= 1.2 * written);
    assert!(device <= 1.2 * written, "of all kinds of blocks");
    assert!(pages * 4096.0 <= 1.02 * read);
    assert!(written <= 6.0 * flushed);
    assert!(most_runs <= 17, "{most_runs} runs");
}

/// Fails where an input of a merge reads a block again for each of its entries.
#[test]
fn writing_under_little_memory_reads_each_block_once_a_merge() {
    // Write buffers grow with the budget, and with them what there is before anything is merged.
    for (memory, entries) in [
        (MIN_MEMORY, 60_000),
        (2 << 20, 60_000),
        (4 << 20, 120_000),
        (8 << 20, 200_000),
    ] {
        write_under(memory, entries);
    }
}

/// Blocks of several pages need an index, and large values leave a merge memory for its entries
/// only.
#[test]
fn merges_of_large_values_read_each_page_once() {
    for len in [6_000, 30_000, 65_000] {
        let fs = metered();
        let db = options(&fs, MIN_MEMORY).open(DIR).unwrap();
        let mut rng = Rng::new(len);
        for number in 0..(12 << 20) / len {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            db.put(key, rng.bytes(len as usize)).unwrap();
        }
        db.flush().unwrap();
        db.wait_for_compaction().unwrap();
        let counters = db.stats().counters;
        assert!(counters.compactions > 2);
        let counts = fs.counts();
        let pages = [BlockKind::Data, BlockKind::Index]
            .map(|kind| counts.reads(kind, Purpose::Background).pages)
            .iter()
            .sum::<u64>();
        let most = counters.compaction_bytes_read / 4096;
        assert!(
            pages <= most + most / 50,
            "{pages} of {most} pages of {len}"
        );
        let usage = db.stats().memory.budget;
        assert_eq!(usage.overdraft, 0, "{usage:?}");
    }
}

#[test]
fn a_scan_over_forty_runs_reads_each_block_once() {
    const RUNS: u64 = 40;
    const ENTRIES: u64 = 40_000;
    let fs = metered();
    let keyspace = KeyspaceOptions::new()
        .level0_runs(100)
        .level0_slowdown(200)
        .level0_stall(300);
    let open = |memory| {
        let options = options(&fs, memory).keyspace(keyspace.clone());
        options.open(DIR).unwrap()
    };
    let db = open(64 << 20);
    let mut rng = Rng::new(21);
    for run in 0..RUNS {
        for number in (run..ENTRIES).step_by(RUNS as usize) {
            db.put(number.to_be_bytes(), rng.bytes(100)).unwrap();
        }
        db.flush().unwrap();
    }
    assert_eq!(runs(&db), 40);
    let levels = &db.stats().keyspaces[0].levels;
    let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
    db.close().unwrap();
    let db = open(MIN_MEMORY);
    for forward in [true, false] {
        let before = data_pages(&fs, Purpose::Scan);
        let mut iter = db.cursor(IterOptions::default()).unwrap();
        let mut seen = 0;
        if forward {
            iter.seek_to_first().unwrap()
        } else {
            iter.seek_to_last().unwrap()
        }
        while iter.valid() {
            seen += 1;
            if forward {
                iter.next().unwrap()
            } else {
                iter.prev().unwrap()
            }
        }
        assert_eq!(seen, ENTRIES);
        let pages = data_pages(&fs, Purpose::Scan) - before;
        assert!(pages * 4096 <= bytes, "{pages} pages of {}", bytes / 4096);
    }
    let usage = db.stats().memory.budget;
    assert_eq!(usage.overdraft, 0, "{usage:?}");
}
