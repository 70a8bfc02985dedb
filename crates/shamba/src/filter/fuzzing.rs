//! Filter blocks of any bytes ([`crate::fuzzing`]): probed whole, cut down and made ready.

use super::*;
use crate::fuzzing::{Input, chunked};

/// A module's family, its number and its hashes or columns as bytes, what columns to keep, a key
/// and a block.
pub(crate) fn filter_block(data: &[u8]) {
    let mut input = Input(data);
    let (family, number, count, keep) = (input.byte(), input.byte(), input.byte(), input.byte());
    let count = 1 + count % 8;
    if family % 4 == 3 {
        let (start, end) = (input.chunk(), input.chunk());
        return range_block_of(input.chunk(), (start, end), keep);
    }
    let module = match family % 4 {
        0 => ModulePlan::bloom(Family::Bloom, 10_000, count),
        1 => ModulePlan::bloom(Family::Blocked, 10_000, count),
        _ => ModulePlan::ribbon(count, 1),
    };
    let number = usize::from(number) % MAX_MODULES;
    let digest = KeyDigest::of(input.chunk());
    let block = input.chunk();
    let hash = hash_of(&module, number, digest);
    let present = columns(&module, block);
    let away = rejecting_columns(&module, block, hash);
    assert_eq!(may_contain(&module, block, hash), away == 0);
    if module.family == Family::Ribbon {
        assert_eq!(away & !present, 0, "columns that are there turn away");
        let less = keep_columns(block, keep);
        assert_eq!(columns(&module, &less), present & keep);
        assert_eq!(
            rejecting_columns(&module, &less, hash),
            away & keep,
            "columns answer alone"
        );
        assert_eq!(keep_columns(&less, keep), less);
    }
    let whole = block_of(&module, Layout::Partitioned, hash, 0..3);
    assert!(whole.start < whole.end && whole.end <= 3);
    if let Some(parsed) = Parsed::new(&module, number, vec![block]) {
        for _ in 0..2 {
            let mut memo = Memo::default();
            assert_eq!(parsed.may_contain(&module, digest, &mut memo), away == 0);
            assert_eq!(parsed.may_contain(&module, digest, &mut memo), away == 0);
        }
    }
    // The rest as a filter of several modules, decoded and written again.
    let mut rest = input.0;
    if let Ok(plan) = FilterPlan::decode(&mut rest) {
        let mut bytes = Vec::new();
        plan.encode(&mut bytes);
        assert_eq!(FilterPlan::decode(&mut bytes.as_slice()), Ok(plan.clone()));
        let keys: Vec<KeyDigest> = rest.chunks(4).take(64).map(KeyDigest::of).collect();
        let bits = plan
            .modules
            .iter()
            .map(|module| u64::from(module.millibits))
            .sum::<u64>();
        // What a writer would ask for: more bits are those of few keys.
        if bits < 1 << 20 {
            let writer = FilterWriter::new(&plan, &keys, 4087);
            for (number, module) in plan.modules.iter().enumerate() {
                let written = writer.module(number);
                let blocks: Vec<&[u8]> = written.blocks().collect();
                for key in &keys {
                    let hash = hash_of(module, number, *key);
                    let at = block_of(module, plan.layout, hash, 0..blocks.len() as u32);
                    let block = blocks[at.start as usize];
                    assert!(may_contain(module, block, hash), "a filter knows its keys");
                }
            }
        }
    }
}

/// A block of a filter of ranges, whole and in part.
fn range_block_of(block: &[u8], (start, end): (&[u8], &[u8]), keep: u8) {
    let present = range::columns(block);
    let away = range::rejecting_columns(block, start, end);
    assert_eq!(away & !present, 0, "columns that are there turn away");
    let less = range::shrink(block, keep);
    let there = range::columns(&less);
    assert_eq!(range::shrink(&less, u8::MAX), less);
    // One that is not sound becomes one that says nothing.
    if there != 0 {
        assert_eq!(there.count_ones(), (keep & present).count_ones());
        let now = range::rejecting_columns(&less, start, end);
        assert_eq!(now, away & there, "a part says no more");
    }
}

pub(crate) fn filter_block_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut kept = RangeKeys::default();
    for key in 0..30u8 {
        kept.add(2, &[7, 7, key, 1, key]);
    }
    let block = range_block(&kept, 10_000);
    for (start, end) in [([7, 7, 3, 1, 3], [7, 7, 3, 1, 4]), ([7; 5], [8; 5])] {
        seeds.push(chunked(&[3, 0, 0, 1], [&start[..], &end, &block]));
    }
    let keys: Vec<KeyDigest> = (0..30u8).map(|key| KeyDigest::of(&[key])).collect();
    let plans = [
        (0, ModulePlan::bloom(Family::Bloom, 10_000, 7), 6),
        (1, ModulePlan::bloom(Family::Blocked, 20_000, 3), 2),
        (2, ModulePlan::ribbon(4, 1), 3),
        (2, ModulePlan::ribbon(8, 1), 7),
    ];
    for (family, module, count) in plans {
        let plan = FilterPlan {
            layout: Layout::Partitioned,
            modules: vec![module, module],
        };
        let writer = FilterWriter::new(&plan, &keys, 4087);
        let mut stored = Vec::new();
        plan.encode(&mut stored);
        stored.extend_from_slice(b"some keys of this filter");
        for number in 0..2 {
            let blocks = writer.module(number);
            let block: Vec<u8> = blocks.blocks().flatten().copied().collect();
            for key in [5u8, 200] {
                let mut seed = chunked(&[family, number as u8, count, 5], [&[key][..], &block]);
                seed.extend_from_slice(&stored);
                seeds.push(seed);
            }
        }
    }
    seeds
}
