//! Ribbon columns: no false negatives, every set of columns at its rate, parts of blocks, damage.

use super::tests::{Filter, close, digest, equal_modules};
use super::*;
use proptest::prelude::*;
use shamba_model::fpr;

/// Whether the columns in `set`, counted over all modules, may contain a key. Asks parts of the
/// blocks that have no other columns.
struct Parts {
    plan: FilterPlan,
    parts: Vec<Box<[u8]>>,
}

impl Parts {
    fn of(filter: &Filter, set: u32) -> Parts {
        let mut set = set;
        let parts = (filter.plan.modules.iter().zip(&filter.modules))
            .map(|(module, blocks)| {
                let keep = set as u8 & (1u16 << module.columns).wrapping_sub(1) as u8;
                set >>= module.columns;
                let part = shrink(module, &blocks[0], keep);
                assert_eq!(columns(module, &part), keep);
                part
            })
            .collect();
        Parts {
            plan: filter.plan.clone(),
            parts,
        }
    }

    fn may_contain(&self, key: KeyDigest) -> bool {
        let mut parts = self.plan.modules.iter().zip(&self.parts).enumerate();
        parts.all(|(i, (module, part))| may_contain(module, part, hash_of(module, i, key)))
    }

    fn rate(&self, keys: u64, probes: u64) -> f64 {
        let hits = (keys..keys + probes).filter(|&key| self.may_contain(digest(key)));
        hits.count() as f64 / probes as f64
    }
}

fn ribbon(modules: &[u8]) -> FilterPlan {
    let modules = modules
        .iter()
        .map(|&columns| ModulePlan::ribbon(columns, 1));
    FilterPlan {
        layout: Layout::Partitioned,
        modules: modules.collect(),
    }
}

#[test]
fn any_set_of_columns_has_its_rate() {
    let keys = 7900;
    let filter = Filter::build(ribbon(&[4, 4, 4]), 0..keys);
    let probes = 4_000_000;
    // All pairs in each module and over modules, and larger sets.
    let pairs = (0..8).flat_map(|a| (a + 1..8).map(move |b| 1 << a | 1 << b));
    let singles = (0..12).map(|column| 1 << column);
    let larger = [
        0b1111,
        0b1111_0000,
        0b1010_0101,
        0b1000_0001_0001,
        0b111_1001,
    ];
    let mut checked = 0;
    for (i, set) in singles.chain(pairs).chain(larger).enumerate() {
        let parts = Parts::of(&filter, set);
        let columns = set.count_ones();
        let got = parts.rate(keys + i as u64 * probes, probes / 8);
        close(
            got,
            fpr::ribbon(columns).unwrap(),
            0.03,
            &format!("columns {set:012b}"),
        );
        checked += 1;
    }
    assert_eq!(checked, 12 + 28 + 5);
    for set in [0xff, 0xff0] {
        let got = Parts::of(&filter, set).rate(keys, probes);
        close(got, fpr::ribbon(8).unwrap(), 0.03, &format!("{set:x}"));
    }
    assert_eq!(Parts::of(&filter, 0).rate(keys, 1000), 1.0);
}

/// What the rates above are there to notice: columns that compare one bit of the fingerprint.
#[test]
fn columns_of_one_fingerprint_bit_add_nothing() {
    let keys = 2000;
    let filter = Filter::build(ribbon(&[1, 1]), 0..keys);
    let again = [filter.modules[0].clone(), filter.modules[0].clone()].to_vec();
    let twice = Filter {
        plan: filter.plan.clone(),
        modules: again,
    };
    let rate = Parts::of(&twice, 0b11).rate(keys, 100_000);
    close(rate, 0.5, 0.03, "the same column twice");
    let rate = Parts::of(&filter, 0b11).rate(keys, 100_000);
    close(rate, 0.25, 0.03, "two columns");
}

/// Modules of different families do not know of each other's bits.
#[test]
fn ribbon_columns_are_independent_of_bloom_modules() {
    let keys = 7000;
    let mut plan = equal_modules(Family::Bloom, Layout::Whole, 2.0, 2);
    plan.modules.extend(ribbon(&[2, 2]).modules);
    let filter = Filter::build(plan, 0..keys);
    let probes = 2_000_000;
    let (bloom, both) = (
        filter.measure(keys, probes, 0b0011),
        filter.measure(keys, probes, 0b1111),
    );
    close(
        both,
        bloom / 16.0,
        0.03,
        "two Bloom modules and four columns",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn keys_are_found_by_any_columns(
        modules in proptest::collection::vec(1u8..=8, 1..=4),
        keys in prop_oneof![0u64..300, 0u64..20_000],
        salt: u64,
        sets: [u32; 3],
        whole: bool,
    ) {
        let mut plan = ribbon(&modules);
        if whole {
            plan.layout = Layout::Whole;
        }
        let keys = (0..keys).map(|key| key.wrapping_mul(0x1_0001) ^ salt);
        let filter = Filter::build(plan, keys.clone());
        for set in sets.into_iter().chain([0, u32::MAX]) {
            let parts = Parts::of(&filter, set);
            for key in keys.clone() {
                prop_assert!(parts.may_contain(digest(key)), "columns {:b}", set);
            }
        }
    }

    #[test]
    fn a_part_of_a_part_is_a_part(
        modules in proptest::collection::vec(1u8..=8, 1..=4),
        keys in 0u64..3000,
        masks: (u8, u8),
    ) {
        let filter = Filter::build(ribbon(&modules), 0..keys);
        for (module, blocks) in filter.plan.modules.iter().zip(&filter.modules) {
            let block = &blocks[0];
            let part = |mask| shrink(module, block, mask);
            let less = shrink(module, &part(masks.0), masks.1);
            prop_assert_eq!(&less, &part(masks.0 & masks.1));
            for keep in [masks.0, masks.1, 0, u8::MAX] {
                prop_assert_eq!(&keep_columns(block, keep)[..], &part(keep)[..]);
                prop_assert_eq!(ribbon_columns(&part(keep)), columns(module, block) & keep);
            }
        }
    }

    /// Whoever turns a key away is in the block, and would do so alone.
    #[test]
    fn those_that_turn_a_key_away_do_so_alone(
        columns in 1u8..=8,
        keys in 0u64..3000,
        keep: u8,
        asked in proptest::collection::vec(0u64..10_000, 1..50),
    ) {
        let filter = Filter::build(ribbon(&[columns]), 0..keys);
        let module = &filter.plan.modules[0];
        let block = shrink(module, &filter.modules[0][0], keep);
        for key in asked {
            let hash = hash_of(module, 0, digest(key));
            let turning = rejecting_columns(module, &block, hash);
            for column in (0..8).map(|column| 1u8 << column) {
                let alone = shrink(module, &block, column);
                prop_assert_eq!(may_contain(module, &alone, hash), turning & column == 0);
            }
        }
    }

    /// A changed block answers something: checksums are what notices.
    #[test]
    fn changed_bytes_do_no_harm(at: prop::sample::Index, to: u8, cut: prop::sample::Index) {
        let filter = Filter::build(ribbon(&[4]), 0..300);
        let module = &filter.plan.modules[0];
        let mut block = filter.modules[0][0].clone();
        let at = at.index(block.len()).min(at.index(64));
        block[at] = to;
        for block in [&block[..], &block[..cut.index(block.len())]] {
            for key in 0..50 {
                may_contain(module, block, hash_of(module, 0, digest(key)));
            }
            let part = shrink(module, block, 0b101);
            may_contain(module, &part, 7);
        }
    }
}

/// Equations of one digest agree however often they come.
#[test]
fn the_same_digest_many_times_is_one_key() {
    let module = ModulePlan::ribbon(4, 1);
    let plan = FilterPlan {
        layout: Layout::Partitioned,
        modules: vec![module; 2],
    };
    for distinct in [1, 2, 100, 900] {
        let digests: Vec<KeyDigest> = (0..8000).map(|i| digest(i % distinct)).collect();
        let writer = FilterWriter::new(&plan, &digests, PAGE);
        for number in 0..2 {
            let blocks = writer.module(number);
            let block = blocks.blocks().next().unwrap();
            assert_eq!(columns(&module, block), 0b1111);
            for digest in &digests {
                assert!(may_contain(
                    &module,
                    block,
                    hash_of(&module, number, *digest)
                ));
            }
        }
    }
}

const PAGE: usize = 4087;

/// Far too few slots: seeds fail, slots are added, and it ends with columns.
#[test]
fn a_system_without_room_is_given_more() {
    for keys in [300usize, 3000] {
        let hashes = (0..keys as u64).map(|key| digest(key).remix(RIBBON_REMIX));
        let solution = banding::solve(hashes.clone(), keys / 8 - 10, 4);
        assert!(solution.column_len * 8 >= keys);
        assert_eq!(solution.columns.len(), solution.column_len * 4);
        let block = ribbon::block(&solution, 0, 4);
        for hash in hashes {
            assert!(ribbon::rejecting_columns(&block, hash) == 0);
        }
    }
}

/// Nothing helps here, and it ends nevertheless: with a block that says nothing.
#[test]
fn a_system_without_solution_is_given_up() {
    // Slots double at most: from a window to two, of which 100,000 keys fill every one.
    let hashes = (0..20_000).map(|key| digest(key).remix(RIBBON_REMIX));
    let solution = banding::solve(hashes.clone(), 17, 4);
    let block = ribbon::block(&solution, 0, 4);
    assert_eq!(ribbon::columns(&block), 0);
    assert!(
        hashes
            .clone()
            .all(|hash| ribbon::rejecting_columns(&block, hash) == 0)
    );
}

#[test]
fn memory_is_what_building_takes() {
    let plan = ribbon(&[4, 4]);
    for keys in [0, 100, 8000, 100_000] {
        let memory = FilterWriter::memory(&plan, keys, PAGE);
        let least = keys * 20 + keys * 8 + keys;
        assert!(
            memory >= least && memory < least + least / 4 + 20_000,
            "{keys}: {memory}"
        );
    }
}
