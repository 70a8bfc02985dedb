//! Filters against their models: false positives, independence of modules, no false negatives.

use super::*;
use proptest::prelude::*;
use shamba_model::fpr;

const PAGE_PAYLOAD: usize = 4087;

pub(super) struct Filter {
    pub(super) plan: FilterPlan,
    pub(super) modules: Vec<Vec<Vec<u8>>>,
}

impl Filter {
    pub(super) fn build(plan: FilterPlan, keys: impl Iterator<Item = u64>) -> Filter {
        let digests: Vec<KeyDigest> = keys.map(digest).collect();
        let writer = FilterWriter::new(&plan, &digests, PAGE_PAYLOAD);
        let modules = (0..plan.modules.len())
            .map(|i| {
                let module = writer.module(i);
                let blocks: Vec<_> = module.blocks().map(<[u8]>::to_vec).collect();
                assert_eq!(module.len(), blocks.iter().map(Vec::len).sum::<usize>());
                let family = plan.modules[i].family;
                assert!(
                    plan.layout == Layout::Whole
                        || family == Family::Ribbon
                        || blocks[0].len() <= PAGE_PAYLOAD
                );
                blocks
            })
            .collect();
        Filter { plan, modules }
    }

    pub(super) fn probe(&self, number: usize, digest: KeyDigest) -> bool {
        let (module, blocks) = (&self.plan.modules[number], &self.modules[number]);
        let hash = hash_of(module, number, digest);
        let place = block_of(module, self.plan.layout, hash, 0..blocks.len() as u32);
        may_contain(module, &blocks[place.start as usize], hash)
    }

    /// The rate at which all of the modules in `mask` answer wrongly.
    pub(super) fn measure(&self, keys: u64, probes: u64, mask: u32) -> f64 {
        let hits = (keys..keys + probes)
            .filter(|&key| {
                (0..self.modules.len())
                    .filter(|i| mask >> i & 1 == 1)
                    .all(|i| self.probe(i, digest(key)))
            })
            .count();
        hits as f64 / probes as f64
    }
}

pub(super) fn digest(key: u64) -> KeyDigest {
    KeyDigest::of(&key.to_le_bytes())
}

const FILE: FileContext = FileContext {
    level: 1,
    keys: 1000,
    partition_keys: 8000,
    page: PAGE_PAYLOAD,
    bits_per_key: None,
};

fn same(family: Family, layout: Layout, bits: f64, modules: u8) -> PlanOptions {
    PlanOptions {
        families: Families::Same(family),
        bits_per_key: bits,
        modules,
        sizes: ModuleSizes::Equal,
        layout,
    }
}

pub(super) fn equal_modules(family: Family, layout: Layout, bits: f64, modules: u8) -> FilterPlan {
    plan(
        &same(family, layout, bits * f64::from(modules), modules),
        &FILE,
    )
}

pub(super) fn close(got: f64, want: f64, tolerance: f64, what: &str) {
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
        let filter = Filter::build(equal_modules(family, layout, bits, 1), 0..keys);
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
            _ => fpr::blocked(real, hashes, fpr::LINE_BITS),
        };
        let got = filter.measure(keys, probes, 1);
        close(
            got,
            want.unwrap(),
            0.05,
            &format!("{family:?} {layout:?} {bits}"),
        );
    }
}

/// Every set of modules answers wrongly at the product of its modules' rates, so no two modules
/// say the same; the columns inside a module are the business of the ribbon's own tests.
#[test]
fn modules_multiply() {
    for family in [Family::Bloom, Family::Blocked, Family::Ribbon] {
        for layout in [Layout::Whole, Layout::Partitioned] {
            for modules in [2, 3, 7] {
                let bits = if modules == 7 { 1.1 } else { 2.5 };
                let keys = 20_000;
                let filter = Filter::build(equal_modules(family, layout, bits, modules), 0..keys);
                assert_eq!(filter.modules.len(), usize::from(modules));
                let probes = 1_000_000;
                let one: Vec<f64> = (0..u32::from(modules))
                    .map(|i| filter.measure(keys, probes, 1 << i))
                    .collect();
                let masks = if modules == 7 {
                    vec![0b11, 0b101, 0b1101, 0x7f]
                } else {
                    (3..1 << modules).collect()
                };
                for mask in masks {
                    let want: f64 = (one.iter().enumerate())
                        .map(|(i, rate)| if mask >> i & 1 == 1 { *rate } else { 1.0 })
                        .product();
                    let got = filter.measure(keys, probes, mask);
                    // Four standard deviations of the count, where that is more.
                    let tolerance = (4.0 / (want * probes as f64).sqrt()).max(0.03);
                    close(
                        got,
                        want,
                        tolerance,
                        &format!("{family:?} {layout:?} {modules} modules, {mask:b}"),
                    );
                }
            }
        }
    }
}

/// What the product law is there to notice.
#[test]
fn modules_that_are_not_remixed_add_nothing() {
    let mut blocks = [vec![0u8; 20_000], vec![0; 20_000]];
    for key in 0..50_000 {
        for block in &mut blocks {
            bloom::add(block, digest(key).remix(0), 2);
        }
    }
    let rate = |blocks: &[Vec<u8>]| {
        let hits = (50_000..250_000).filter(|&key| {
            (blocks.iter()).all(|block| bloom::may_contain(block, digest(key).remix(0), 2))
        });
        hits.count() as f64 / 200_000.0
    };
    let (one, both) = (rate(&blocks[..1]), rate(&blocks));
    assert!(one > 0.1 && both == one, "one {one}, both {both}");
}

#[test]
fn hashes_are_those_of_the_whole_filter() {
    for (modules, want) in [
        (1, vec![7]),
        (2, vec![3, 4]),
        (3, vec![2, 2, 3]),
        (7, vec![1; 7]),
    ] {
        let plan = plan(&same(Family::Bloom, Layout::Whole, 10.0, modules), &FILE);
        let hashes: Vec<u8> = plan.modules.iter().map(|module| module.hashes).collect();
        assert_eq!(hashes, want);
        assert!((9990..=10_003).contains(&plan.millibits()), "{plan:?}");
    }
}

#[test]
fn the_first_module_may_have_its_own_size() {
    let sized = |family, first_bits_per_key, modules| {
        let sizes = ModuleSizes::Proportional { first_bits_per_key };
        let options = PlanOptions {
            sizes,
            ..same(family, Layout::Whole, 10.0, modules)
        };
        let modules = plan(&options, &FILE).modules;
        modules
            .iter()
            .map(|m| (m.millibits, m.hashes, m.columns))
            .collect::<Vec<_>>()
    };
    assert_eq!(sized(Family::Bloom, 7.0, 2), [(7000, 5, 1), (3000, 2, 1)]);
    assert_eq!(
        sized(Family::Bloom, 2.0, 3),
        [(2000, 1, 1), (4000, 3, 1), (4000, 3, 1)]
    );
    // From the whole filter's size on, there is one module.
    assert_eq!(sized(Family::Bloom, 10.0, 2), [(10_000, 7, 1)]);
    assert_eq!(sized(Family::Bloom, 12.0, 2), [(10_000, 7, 1)]);
    assert_eq!(sized(Family::Blocked, 7.0, 2).len(), 2);
    let columns = |first, modules| {
        let modules = sized(Family::Ribbon, first, modules);
        modules.iter().map(|module| module.2).collect::<Vec<_>>()
    };
    assert_eq!(columns(7.0, 2), [7, 3]);
    assert_eq!(columns(0.0, 2), [2, 8]);
    assert_eq!(columns(2.0, 3), [2, 4, 4]);
    assert_eq!(columns(64.0, 3), [8, 1, 1]);
}

#[test]
fn ribbon_modules_share_out_the_columns() {
    let columns = |bits, modules| {
        let plan = plan(&same(Family::Ribbon, Layout::Whole, bits, modules), &FILE);
        plan.modules
            .iter()
            .map(|module| module.columns)
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(8.2, 1), [8]);
    assert_eq!(columns(8.2, 2), [4, 4]);
    assert_eq!(columns(10.0, 1), [5, 5]);
    assert_eq!(columns(10.0, 3), [4, 3, 3]);
    assert_eq!(columns(3.0, 16), [1, 1, 1]);
    assert_eq!(columns(64.0, 1), [8; 4]);
    assert_eq!(columns(64.0, 16), [2; 16]);
    assert!(columns(0.3, 4).is_empty());
    let two = plan(&same(Family::Ribbon, Layout::Whole, 8.0, 2), &FILE);
    assert_eq!(two.millibits(), 8232);
}

#[test]
fn families_follow_the_level() {
    let at = |level, bits_per_key| {
        let options = PlanOptions {
            families: Families::ByLevel,
            ..same(Family::Bloom, Layout::Partitioned, bits_per_key, 1)
        };
        let file = FileContext {
            level,
            keys: 1_000_000,
            ..FILE
        };
        let modules = plan(&options, &file).modules;
        modules
            .iter()
            .map(|m| (m.family, m.columns))
            .collect::<Vec<_>>()
    };
    let quick = vec![(Family::Bloom, 1); 2];
    assert_eq!(at(0, 10.0), quick);
    for level in 1..7 {
        assert_eq!(at(level, 10.0), [(Family::Ribbon, 4); 3]);
        assert!(at(level, 0.0).is_empty());
    }
}

/// Twelve columns are cut into as many modules of a page as suits the number of keys: where the
/// usual three would leave pages nearly empty, into others.
#[test]
fn modules_fill_pages_of_the_partitions_that_a_table_has() {
    let columns = |keys, partition_keys| {
        let file = FileContext {
            keys,
            partition_keys,
            ..FILE
        };
        let options = PlanOptions {
            families: Families::ByLevel,
            ..same(Family::Bloom, Layout::Partitioned, 10.0, 1)
        };
        let modules = plan(&options, &file).modules;
        assert_eq!(modules.iter().map(|m| m.columns).sum::<u8>(), 12, "{keys}");
        assert!(modules.iter().all(|m| m.columns == modules[0].columns));
        let filling = super::keys_filling(&modules[0], 1, PAGE_PAYLOAD) as u64;
        (modules[0].columns, filling)
    };
    for (keys, expected) in [(1, 6), (5_200, 6), (7_000, 4), (8_200, 4)] {
        assert_eq!(columns(keys, 20_000).0, expected, "{keys}");
    }
    // One partition of four pages, for two of three.
    assert_eq!(columns(10_200, 20_000), (3, 10_518));
    // No partition has more keys than it may have.
    assert_eq!(columns(10_200, 10_000).0, 6);
    assert_eq!(columns(10_200, 5_000).0, 4);
    // Of many partitions one more or less is not worth it.
    for keys in [40_000, 58_600, 64_000, 1_000_000] {
        assert_eq!(columns(keys, 20_000).0, 4, "{keys}");
    }
    // Never more pages than three to a partition of four columns.
    for keys in (1..120_000).step_by(531) {
        let (columns, filling) = columns(keys, 20_000);
        let pages = |columns: u8, filling| u64::from(12 / columns) * keys.div_ceil(filling);
        let slack = u64::from(12 / columns);
        assert!(pages(columns, filling) <= pages(4, 7_880) + slack, "{keys}");
    }
}

/// Bits by the place in the tree: near to what was asked for in every family, as many modules as
/// can have a hash each, and by two plans what one cannot have.
#[test]
fn bits_by_place_make_modules_of_the_family() {
    let choose = |families, bits, level, modules| {
        let options = PlanOptions {
            families,
            ..same(Family::Bloom, Layout::Partitioned, 77.0, modules)
        };
        let file = FileContext {
            level,
            bits_per_key: Some(bits),
            ..FILE
        };
        choose(&options, &file)
    };
    let all = [
        Families::Same(Family::Bloom),
        Families::Same(Family::Blocked),
        Families::Same(Family::Ribbon),
        Families::ByLevel,
    ];
    for families in all {
        for bits in [0.0, 0.3, 1.0, 2.5, 4.13, 9.0, 17.7, 30.0] {
            for level in [0, 2] {
                for modules in [1, 3, 16] {
                    let choice = choose(families, bits, level, modules);
                    let of = |plan: &FilterPlan| f64::from(plan.millibits()) / 1000.0;
                    let other = choice.other.as_ref();
                    let mean = of(&choice.plan) * (1.0 - other.map_or(0.0, |(_, share)| *share))
                        + other.map_or(0.0, |(plan, share)| of(plan) * share);
                    let case = format!("{families:?} {bits} {level} {modules}: {choice:?}");
                    assert!((mean - bits).abs() < 0.03 + 0.01 * bits, "{case}");
                    let plans = [Some(&choice.plan), other.map(|(plan, _)| plan)];
                    for plan in plans.into_iter().flatten().filter(|plan| of(plan) > 0.0) {
                        let most = modules.max(if families == Families::ByLevel { 8 } else { 4 });
                        assert!(
                            (1..=usize::from(most)).contains(&plan.modules.len()),
                            "{case}"
                        );
                        let useful = plan.modules.iter().all(|m| m.hashes > 0 || m.columns > 0);
                        assert!(useful && plan.layout == Layout::Partitioned, "{case}");
                    }
                }
            }
        }
    }
    let modules = |bits, modules| {
        let choice = choose(Families::Same(Family::Bloom), bits, 1, modules);
        choice.plan.modules.len()
    };
    assert_eq!(
        (modules(9.0, 3), modules(2.0, 3), modules(0.5, 3)),
        (3, 1, 0)
    );
    let ribbon = choose(Families::Same(Family::Ribbon), 4.0 * 1.0395 + 0.7, 1, 1);
    assert_eq!(ribbon.clone().likeliest(), ribbon.other.unwrap().0);
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
    let ribbon = equal_modules(Family::Ribbon, Layout::Partitioned, 4.1, 2);
    assert_eq!(keys_filling(&ribbon.modules[0], 1, PAGE_PAYLOAD), 7883);
    for (keys, len) in [(7883, 4063), (8000, 4063), (8200, 4227)] {
        let filter = Filter::build(ribbon.clone(), 0..keys);
        for module in &filter.modules {
            assert_eq!((module.len(), module[0].len()), (1, len), "{keys}");
        }
    }
}

pub(super) fn any_plan() -> impl Strategy<Value = FilterPlan> {
    let module =
        (1u32..64_000, 1u8..=30, 0..3).prop_map(|(millibits, number, family)| match family {
            0 => ModulePlan::bloom(Family::Bloom, millibits, number),
            1 => ModulePlan::bloom(Family::Blocked, millibits, number),
            _ => ModulePlan::ribbon(1 + number % 8, millibits),
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
        .prop_filter("too many columns", |plan| {
            plan.columns_before(plan.modules.len()) <= 32
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn added_keys_are_always_found(plan in any_plan(), keys in 1u64..3000, salt in any::<u32>()) {
        let keys = (0..keys).map(|key| key << 32 | u64::from(salt));
        let filter = Filter::build(plan, keys.clone());
        for key in keys {
            for module in 0..filter.modules.len() {
                prop_assert!(filter.probe(module, digest(key)));
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
    fn any_bytes_decode_or_fail(
        bytes in any::<Vec<u8>>(),
        plan in any_plan(),
        block in any::<Vec<u8>>(),
        keep: u8,
        hash: u64,
    ) {
        let decoded = FilterPlan::decode(&mut bytes.as_slice());
        for plan in decoded.iter().chain([&plan]) {
            for module in &plan.modules {
                may_contain(module, &block, hash);
                let part = shrink(module, &block, keep);
                may_contain(module, &part, hash);
                prop_assert_eq!(columns(module, &part), columns(module, &block) & keep);
            }
        }
    }
}

#[test]
fn unknown_families_are_told_from_nonsense() {
    let decode = |bytes: &[u8]| FilterPlan::decode(&mut &*bytes);
    assert_eq!(decode(&[1, 1, 5, 1, 1]), Err(PlanError::Unknown));
    assert_eq!(decode(&[2, 0]), Err(PlanError::Unknown));
    assert_eq!(decode(&[1, 17]), Err(PlanError::Unknown));
    assert_eq!(decode(&[1, 1, 1, 0, 1]), Err(PlanError::Malformed));
    assert_eq!(decode(&[1, 1, 1, 9, 31]), Err(PlanError::Malformed));
    assert_eq!(decode(&[1, 1, 3, 9, 9]), Err(PlanError::Malformed));
    assert_eq!(decode(&[1, 1, 3, 9, 0]), Err(PlanError::Malformed));
    assert!(decode(&[1, 4, 3, 9, 8, 3, 9, 8, 3, 9, 8, 3, 9, 8]).is_ok());
    let many = [1, 5, 3, 9, 8, 3, 9, 8, 3, 9, 8, 3, 9, 8, 3, 9, 1];
    assert_eq!(decode(&many), Err(PlanError::Malformed));
    assert_eq!(decode(&[1]), Err(PlanError::Malformed));
}

#[test]
fn the_first_module_is_as_large_as_memory_holds() {
    let room = |memory: f64, file_entries: f64| choose::BlockRoom {
        memory: memory * 16e6 * 10.0 / 8.0,
        entries: 16e6,
        file_entries,
        page: 4096.0,
    };
    let first = |room| match ModuleSizes::FirstInMemory.decided(10.0, 2, room) {
        ModuleSizes::Proportional { first_bits_per_key } => first_bits_per_key,
        sizes => panic!("{sizes:?}"),
    };
    // The paper's example: 70 % of the memory are 7 of 10 bits.
    assert!((first(room(0.7, 1e5)) - 7.0).abs() < 1e-9);
    assert_eq!(first(room(2.0, 1e5)), 10.0);
    // A file of less than two pages of filter has one module, and no module has less than a page.
    assert_eq!(first(room(0.5, 6000.0)), 10.0);
    assert_eq!(first(room(0.01, 8000.0)), 4096.0 * 8.0 / 8000.0);
    assert_eq!(first(room(0.9, 8000.0)), 10.0);
    let equal = ModuleSizes::Equal.decided(10.0, 2, room(0.7, 1e5));
    assert_eq!(equal, ModuleSizes::Equal);
}
