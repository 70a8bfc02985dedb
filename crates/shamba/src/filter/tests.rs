//! Filters against their models: false positives, independence of modules, no false negatives.

use super::*;
use crate::base::digest::KeyDigest;
use proptest::prelude::*;
use shamba_model::fpr;

const PAGE_PAYLOAD: usize = 4087;

struct Filter {
    plan: FilterPlan,
    modules: Vec<Vec<Vec<u8>>>,
}

impl Filter {
    fn build(plan: FilterPlan, keys: impl Iterator<Item = u64> + Clone, remix: bool) -> Filter {
        let modules = (plan.modules.iter().enumerate())
            .map(|(i, module)| {
                let shape =
                    ModuleShape::of(module, plan.layout, keys.clone().count(), PAGE_PAYLOAD);
                let mut writer = ModuleWriter::new(*module, shape);
                for key in keys.clone() {
                    writer.add(digest(key).remix(if remix { i as u32 } else { 0 }));
                }
                let blocks: Vec<_> = writer.blocks().map(<[u8]>::to_vec).collect();
                assert_eq!(blocks.len(), shape.blocks as usize);
                assert!(plan.layout == Layout::Whole || shape.block_len <= PAGE_PAYLOAD);
                blocks
            })
            .collect();
        Filter { plan, modules }
    }

    fn probe(&self, module: usize, hash: u64) -> bool {
        let blocks = &self.modules[module];
        let block = &blocks[locate(hash, blocks.len() as u32) as usize];
        may_contain(&self.plan.modules[module], block, hash)
    }
}

fn digest(key: u64) -> KeyDigest {
    KeyDigest::of(&key.to_le_bytes())
}

fn equal_modules(family: Family, layout: Layout, bits: f64, modules: u8) -> FilterPlan {
    plan(
        &FilterOptions {
            family,
            bits_per_key: bits * f64::from(modules),
            modules,
            layout,
        },
        &FileContext {
            level: 1,
            levels: 3,
            expected_entries: 1000,
        },
    )
}

/// The rate at which all of the modules in `mask` answer wrongly.
fn measure(filter: &Filter, keys: u64, probes: u64, mask: u32, remix: bool) -> f64 {
    let hits = (keys..keys + probes)
        .filter(|&key| {
            (0..filter.modules.len())
                .filter(|i| mask >> i & 1 == 1)
                .all(|i| filter.probe(i, digest(key).remix(if remix { i as u32 } else { 0 })))
        })
        .count();
    hits as f64 / probes as f64
}

fn close(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!(
        (got / want - 1.0).abs() <= tolerance,
        "{what}: measured {got}, expected {want}"
    );
}

#[test]
fn measured_rates_match_the_model() {
    for (family, layout, bits, keys, probes) in [
        (Family::Bloom, Layout::Whole, 4.0, 50_000, 1_000_000),
        (Family::Bloom, Layout::Whole, 10.0, 100_000, 2_000_000),
        (Family::Bloom, Layout::Partitioned, 5.0, 52_000, 1_000_000),
        (Family::Bloom, Layout::Partitioned, 10.0, 32_696, 2_000_000),
        (Family::Blocked, Layout::Whole, 5.0, 50_000, 1_000_000),
        (
            Family::Blocked,
            Layout::Partitioned,
            10.0,
            100_000,
            2_000_000,
        ),
        (Family::Blocked, Layout::Whole, 20.0, 200_000, 8_000_000),
    ] {
        let filter = Filter::build(equal_modules(family, layout, bits, 1), 0..keys, true);
        let module = filter.plan.modules[0];
        // What rounding lengths up gives away is the model's business too.
        let len: usize = filter.modules[0].iter().map(Vec::len).sum();
        let real = len as f64 * 8.0 / keys as f64;
        assert!((bits..bits * 1.02).contains(&real), "{real} bits");
        let hashes = u32::from(module.hashes);
        let want = match (family, layout) {
            (Family::Bloom, Layout::Whole) => fpr::bloom(real, hashes),
            (Family::Bloom, Layout::Partitioned) => {
                fpr::blocked(real, hashes, filter.modules[0][0].len() as u32 * 8)
            }
            (Family::Blocked, _) => fpr::blocked(real, hashes, fpr::LINE_BITS),
        };
        let got = measure(&filter, keys, probes, 1, true);
        close(
            got,
            want.unwrap(),
            0.05,
            &format!("{family:?} {layout:?} {bits}"),
        );
    }
}

#[test]
fn equal_modules_multiply() {
    for family in [Family::Bloom, Family::Blocked] {
        for layout in [Layout::Whole, Layout::Partitioned] {
            let keys = 60_000;
            let filter = Filter::build(equal_modules(family, layout, 2.5, 3), 0..keys, true);
            let one = measure(&filter, keys, 1_000_000, 1, true);
            for mask in 2u32..8 {
                let got = measure(&filter, keys, 1_000_000, mask, true);
                let want = one.powi(mask.count_ones() as i32);
                close(
                    got,
                    want,
                    0.03,
                    &format!("{family:?} {layout:?} modules {mask:b}"),
                );
            }
        }
    }
}

#[test]
fn modules_that_are_not_remixed_add_nothing() {
    let keys = 50_000;
    let plan = equal_modules(Family::Bloom, Layout::Partitioned, 3.0, 2);
    let filter = Filter::build(plan, 0..keys, false);
    let one = measure(&filter, keys, 200_000, 0b01, false);
    let both = measure(&filter, keys, 200_000, 0b11, false);
    assert!(one > 0.1 && both == one, "one {one}, both {both}");
}

#[test]
fn no_bits_mean_no_module() {
    for bits in [0.0, -3.0, f64::NAN, 0.000_1] {
        assert_eq!(
            equal_modules(Family::Bloom, Layout::Partitioned, bits, 1),
            FilterPlan::none(Layout::Partitioned)
        );
    }
    let huge = equal_modules(Family::Blocked, Layout::Whole, 5000.0, 1);
    assert_eq!(huge.millibits(), 64_000);
}

#[test]
fn whole_pages_are_filled() {
    let module = equal_modules(Family::Bloom, Layout::Partitioned, 10.0, 1).modules[0];
    for pages in 1..5 {
        let keys = keys_filling(&module, pages, PAGE_PAYLOAD);
        let full = ModuleShape::of(&module, Layout::Partitioned, keys, PAGE_PAYLOAD);
        assert_eq!((full.blocks, full.block_len), (pages, PAGE_PAYLOAD));
        let more = ModuleShape::of(&module, Layout::Partitioned, keys + 2, PAGE_PAYLOAD);
        assert_eq!(more.blocks, pages + 1);
    }
}

fn any_plan() -> impl Strategy<Value = FilterPlan> {
    let module =
        (1u32..64_000, 1u8..=30, any::<bool>()).prop_map(|(millibits, hashes, blocked)| {
            ModulePlan {
                family: if blocked {
                    Family::Blocked
                } else {
                    Family::Bloom
                },
                millibits,
                hashes,
            }
        });
    (
        any::<bool>(),
        proptest::collection::vec(module, 0..=MAX_MODULES),
    )
        .prop_map(|(whole, modules)| FilterPlan {
            layout: if whole {
                Layout::Whole
            } else {
                Layout::Partitioned
            },
            modules,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn added_keys_are_always_found(plan in any_plan(), keys in 1u64..3000, salt in any::<u32>()) {
        let keys = (0..keys).map(|key| key << 32 | u64::from(salt));
        let filter = Filter::build(plan, keys.clone(), true);
        for key in keys {
            for module in 0..filter.modules.len() {
                prop_assert!(filter.probe(module, digest(key).remix(module as u32)));
            }
        }
    }

    #[test]
    fn plans_round_trip(plan in any_plan(), tail in any::<Vec<u8>>()) {
        let mut bytes = Vec::new();
        plan.encode(&mut bytes);
        bytes.extend_from_slice(&tail);
        let mut input = bytes.as_slice();
        prop_assert_eq!(FilterPlan::decode(&mut input), Ok(plan));
        prop_assert_eq!(input, tail.as_slice());
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in any::<Vec<u8>>(), block in any::<Vec<u8>>(), hash: u64) {
        if let Ok(plan) = FilterPlan::decode(&mut bytes.as_slice()) {
            for module in &plan.modules {
                may_contain(module, &block, hash);
            }
        }
    }
}

#[test]
fn unknown_families_are_told_from_nonsense() {
    assert_eq!(
        FilterPlan::decode(&mut [1, 1, 3, 1, 1].as_slice()),
        Err(PlanError::Unknown)
    );
    assert_eq!(
        FilterPlan::decode(&mut [2, 0].as_slice()),
        Err(PlanError::Unknown)
    );
    assert_eq!(
        FilterPlan::decode(&mut [1, 1, 1, 0, 1].as_slice()),
        Err(PlanError::Malformed)
    );
    assert_eq!(
        FilterPlan::decode(&mut [1, 1, 1, 9, 31].as_slice()),
        Err(PlanError::Malformed)
    );
    assert_eq!(
        FilterPlan::decode(&mut [1].as_slice()),
        Err(PlanError::Malformed)
    );
}
