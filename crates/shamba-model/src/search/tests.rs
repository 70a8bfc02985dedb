//! The search against trying everything, and against Algorithm 5 as printed.

use super::*;
use crate::cost::Device;
use crate::curve::Family;
use MergePolicy::{LazyLeveling, Leveling, Tiering};

fn environment(entries: f64, entry_bytes: f64, write_cost: f64) -> Environment {
    Environment {
        entries,
        entry_bytes,
        device: Device {
            page_bytes: 4096.0,
            read_seconds: 1e-4,
            write_cost,
            merge_read_cost: 1.0,
        },
    }
}

fn workload(empty: f64, existing: f64, range: f64, updates: f64) -> Workload {
    Workload {
        empty_lookups: empty,
        existing_lookups: existing,
        range_lookups: range,
        updates,
        selectivity: 1e-8,
    }
}

fn request(environment: Environment, workload: Workload, bits_per_key: f64) -> Request {
    Request {
        environment,
        workload,
        memory_bytes: (bits_per_key / 8.0 * environment.entries).max(4096.0),
        knobs: Knobs::default(),
        bounds: Bounds::default(),
    }
}

const WORKLOADS: [(f64, f64, f64, f64); 7] = [
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 1.0),
    (0.1, 0.1, 0.0, 0.8),
    (0.5, 0.0, 0.0, 0.5),
    (0.0, 0.9, 0.05, 0.05),
    (0.0, 0.0, 0.5, 0.5),
    (0.25, 0.25, 0.25, 0.25),
];

/// The best of a dense grid of designs: every size ratio to 40 and then in small steps, every
/// policy, 90 buffers. Knows nothing of full trees.
fn brute_force(request: &Request, curve: &Curve) -> Option<f64> {
    let environment = &request.environment;
    let (page, memory) = (4096.0, request.memory_bytes);
    let data = environment.data_bytes();
    let mut least: Option<f64> = None;
    let mut size_ratio = 2;
    while f64::from(size_ratio) <= data / page {
        for step in 0..=90 {
            let buffer_bytes = page * (memory / page).powf(f64::from(step) / 90.0);
            if f64::from(size_ratio) > data / buffer_bytes {
                break;
            }
            for &policy in &request.knobs.policies {
                let design = Design {
                    policy,
                    size_ratio,
                    buffer_bytes,
                    filter_bytes: memory - buffer_bytes,
                    allocation: request.knobs.allocation,
                };
                let costs = costs(&design, environment, &request.workload, curve).unwrap();
                if request.bounds.excess(&costs) == (0.0, 0.0) {
                    least = Some(least.map_or(costs.average, |l| l.min(costs.average)));
                }
            }
        }
        size_ratio += 1 + size_ratio / 40;
    }
    least
}

/// No design of a dense grid is better than the one found, and the one found is one of them or
/// between them. For little memory and much, cheap writes and dear, small entries and large.
#[test]
fn the_search_finds_the_optimum() {
    let ideal = Curve::ideal();
    for (entry_bytes, write_cost, bits_per_key) in [
        (64.0, 1.0, 12.0),
        (1000.0, 4.0, 3.0),
        (30.0, 0.0, 0.5),
        (300.0, 1.0, 40.0),
    ] {
        for (empty, existing, range, updates) in WORKLOADS {
            let environment = environment(3e6 / entry_bytes * 8.0, entry_bytes, write_cost);
            let request = request(
                environment,
                workload(empty, existing, range, updates),
                bits_per_key,
            );
            let found = search(&request, &ideal).unwrap();
            let again = costs(&found.design, &environment, &request.workload, &ideal).unwrap();
            assert_eq!(again, found.costs);
            let used = found.design.buffer_bytes + found.design.filter_bytes;
            assert!((used / request.memory_bytes - 1.0).abs() < 1e-12);
            let forced = brute_force(&request, &ideal).unwrap();
            assert!(
                found.costs.average <= forced * (1.0 + 1e-9),
                "{request:?}: {found:?}, but {forced} can be had"
            );
            assert!(
                found.costs.average >= forced * 0.97,
                "{request:?}: {found:?} against {forced}"
            );
        }
    }
}

/// Every whole size ratio, where they are few enough: the steps that close in miss none that is
/// better.
#[test]
fn closing_in_misses_no_size_ratio() {
    let ideal = Curve::ideal();
    let environment = environment(2e5, 60.0, 2.0);
    let data = environment.data_bytes();
    for (empty, existing, range, updates) in WORKLOADS {
        let mut request = request(environment, workload(empty, existing, range, updates), 9.0);
        for policy in MergePolicy::ALL {
            request.knobs.policies = vec![policy];
            let found = search(&request, &ideal).unwrap();
            let mut least = f64::INFINITY;
            for size_ratio in 2..=(data / 4096.0) as u32 {
                request.knobs.size_ratio = Some(size_ratio);
                least = least.min(search(&request, &ideal).unwrap().costs.average);
            }
            request.knobs.size_ratio = None;
            let off = found.costs.average / least - 1.0;
            assert!(off <= 1e-9, "{policy:?}, {request:?}: {off}");
        }
    }
}

/// Bounds are kept at the least cost that keeps them, and one that cannot be kept is named with
/// what can.
#[test]
fn bounds_are_kept() {
    let ideal = Curve::ideal();
    let environment = environment(4e5, 64.0, 1.0);
    let mut request = request(environment, workload(0.05, 0.05, 0.0, 0.9), 5.0);
    let free = search(&request, &ideal).unwrap();
    for share in [0.9, 0.6, 0.3] {
        request.bounds.point_lookup = Some(free.costs.point_lookup * share + 0.5 * (1.0 - share));
        let bound = search(&request, &ideal).unwrap();
        assert!(bound.costs.point_lookup <= request.bounds.point_lookup.unwrap());
        assert!(bound.costs.average >= free.costs.average);
        let forced = brute_force(&request, &ideal).unwrap();
        assert!(bound.costs.average <= forced * (1.0 + 1e-9));
    }
    request.bounds.update = Some(search(&request, &ideal).unwrap().costs.update * 0.999);
    if let Ok(both) = search(&request, &ideal) {
        assert!(both.costs.update <= request.bounds.update.unwrap());
    }
    request.bounds = Bounds {
        point_lookup: Some(0.4),
        update: None,
    };
    let error = search(&request, &ideal).unwrap_err();
    let ModelError::OutOfReach { bound, best, .. } = error else {
        panic!("{error}");
    };
    assert!(bound == 0.4 && best > 0.5, "half of all lookups find a key");
    request.bounds = Bounds {
        point_lookup: None,
        update: Some(1e-6),
    };
    let text = search(&request, &ideal).unwrap_err().to_string();
    assert!(text.starts_with("no design keeps the update cost at or below 0.000001"));
    request.bounds = Bounds {
        point_lookup: Some(0.501),
        update: Some(0.04),
    };
    let text = search(&request, &ideal).unwrap_err().to_string();
    assert!(text.contains("with updates within their bound"), "{text}");
}

/// Monkey's Algorithm 5 as printed: bytes for filters, by Newton's method on Eq. 48.
fn algorithm_5(request: &Request, policy: MergePolicy, t: f64) -> f64 {
    let (environment, workload) = (&request.environment, &request.workload);
    let (z, x) = (workload.point_lookups(), workload.positive());
    let (q, w) = (workload.range_lookups, workload.updates);
    let b = environment.entries_per_page();
    let merge = (t - 1.0) * (1.0 + environment.device.write_cost) / b;
    let series = t.powf(t / (t - 1.0));
    let (alpha, gamma) = match policy {
        Leveling => (
            z * series / (t - 1.0) * (1.0 - x).powf((t - 1.0) / t),
            (q + w * merge / 2.0) / t.ln(),
        ),
        _ => (
            z * series * (1.0 - x * t / (t - 1.0) / 2.0).powf((t - 1.0) / t),
            (q * (t - 1.0) + w * merge / t) / t.ln(),
        ),
    };
    let beta = crate::curve::LN2_SQUARED / environment.entries;
    let memory = request.memory_bytes * 8.0;
    if memory <= gamma / (alpha * beta) {
        return 0.0;
    }
    let h = |x: f64| x - (alpha * beta / gamma * (memory - x)).ln() / beta;
    let mut x = memory - 4096.0 * 8.0;
    if h(x) <= 0.0 {
        return x / 8.0;
    }
    for _ in 0..100 {
        x -= h(x) / (1.0 + 1.0 / (beta * (memory - x)));
    }
    x / 8.0
}

fn split(request: &Request, policy: MergePolicy, size_ratio: u32) -> (Found, Costs) {
    let ideal = Curve::ideal();
    let fixed = Request {
        knobs: Knobs {
            policies: vec![policy],
            size_ratio: Some(size_ratio),
            ..Knobs::default()
        },
        ..request.clone()
    };
    let filter_bytes = algorithm_5(request, policy, f64::from(size_ratio));
    let printed = Design {
        policy,
        size_ratio,
        buffer_bytes: request.memory_bytes - filter_bytes,
        filter_bytes,
        allocation: Allocation::Monkey,
    };
    let printed = costs(&printed, &request.environment, &request.workload, &ideal);
    (search(&fixed, &ideal).unwrap(), printed.unwrap())
}

/// Correction: Eqs. 25 and 41, and with them Algorithm 5, hold only with filters on all levels.
/// With half a bit per key for all memory, T = 2 and three updates to a lookup, they put the cost
/// of no filters at 4 reads, where it is one read for each of 13 levels, and give filters nothing.
/// With plenty of memory their split is as good as the one found, but for levels being whole.
#[test]
fn algorithm_5_is_wrong_below_the_threshold() {
    let environment = environment(1e9, 1024.0, 1.0);
    let little = request(environment, workload(0.25, 0.0, 0.0, 0.75), 0.5);
    assert_eq!(algorithm_5(&little, Leveling, 2.0), 0.0);
    let (found, printed) = split(&little, Leveling, 2);
    assert!(printed.empty_lookup > 12.0, "{}", printed.empty_lookup);
    assert!(found.costs.empty_lookup < 7.0, "{:?}", found.costs);
    assert!(printed.average > 1.2 * found.costs.average);
    for policy in [Leveling, Tiering] {
        for size_ratio in [2, 4] {
            let plenty = request(environment, workload(0.25, 0.25, 0.0, 0.5), 10.0);
            let (found, printed) = split(&plenty, policy, size_ratio);
            let off = printed.average / found.costs.average;
            assert!((1.0..1.1).contains(&off), "{off}");
        }
    }
}

/// Figure 11: each knob contributes, none makes it worse, and all at once are at least as good as
/// any alone. From the state of the art there: leveling, T = 10, 95 % of the memory for uniform
/// filters.
#[test]
fn every_knob_contributes() {
    let environment = environment(1e8, 128.0, 1.0);
    for (empty, existing, range, updates) in WORKLOADS {
        for bits_per_key in [0.5, 5.0, 20.0] {
            let memory = bits_per_key / 8.0 * 1e8;
            let start = Design {
                policy: Leveling,
                size_ratio: 10,
                buffer_bytes: memory * 0.05,
                filter_bytes: memory * 0.95,
                allocation: Allocation::Uniform,
            };
            let workload = workload(empty, existing, range, updates);
            let ideal = Curve::ideal();
            let steps =
                contributions(&start, &MergePolicy::ALL, &environment, &workload, &ideal).unwrap();
            let cost = |knob| {
                let step = steps.iter().find(|step| step.knob == knob).unwrap();
                step.costs.average
            };
            assert_eq!(steps.len(), 7);
            let filters = cost(Knob::Filters);
            assert!(filters <= cost(Knob::None) * (1.0 + 1e-12));
            for knob in [
                Knob::MemorySplit,
                Knob::MergePolicy,
                Knob::SizeRatio,
                Knob::Merging,
            ] {
                assert!(cost(knob) <= filters * (1.0 + 1e-9), "{knob:?}");
                assert!(cost(Knob::All) <= cost(knob) * (1.0 + 1e-9), "{knob:?}");
            }
            if updates == 0.5 && range == 0.0 && bits_per_key == 5.0 {
                // Section 5: "improves throughput by at least 50 % in all cases".
                assert!(cost(Knob::None) > 1.5 * cost(Knob::All));
            }
        }
    }
}

/// What the search prefers is what the paper finds: the more updates the lazier the merging;
/// without point lookups no memory for filters that the buffer could use; ranges want few runs.
#[test]
fn designs_follow_the_workload() {
    let environment = environment(1e8, 128.0, 1.0);
    let best = |workload| {
        let mut request = request(environment, workload, 8.0);
        request.knobs.policies = vec![Leveling, Tiering];
        search(&request, &Curve::ideal()).unwrap()
    };
    let mut last = f64::INFINITY;
    for updates in [0.1, 0.5, 0.9, 0.99] {
        let update = best(workload(1.0 - updates, 0.0, 0.0, updates))
            .costs
            .update;
        assert!(update <= last);
        last = update;
    }
    assert_eq!(best(workload(0.01, 0.0, 0.0, 0.99)).design.policy, Tiering);
    assert_eq!(best(workload(0.9, 0.0, 0.0, 0.1)).design.policy, Leveling);
    let ranges = best(workload(0.0, 0.0, 0.9, 0.1));
    assert_eq!(ranges.design.policy, Leveling);
    let updates = best(workload(0.0, 0.0, 0.0, 1.0)).costs;
    let log = crate::tree::Tree::new(Tiering, updates.levels + 1, 1, 1e8).unwrap();
    assert_eq!(updates.levels, 1, "a log");
    assert!(updates.update <= 2.0 / 32.0 && log.levels() == 1);
}

/// A family's own curve changes the design, not the search.
#[test]
fn other_families_are_searched_too() {
    let environment = environment(1e6, 64.0, 1.0);
    let request = request(environment, workload(0.3, 0.3, 0.0, 0.4), 10.0);
    let ideal = search(&request, &Curve::ideal()).unwrap();
    for family in [Family::Bloom, Family::Blocked, Family::Ribbon] {
        let curve = family.curve().unwrap();
        let found = search(&request, &curve).unwrap();
        let here = costs(&ideal.design, &environment, &request.workload, &curve).unwrap();
        assert!(found.costs.average <= here.average * (1.0 + 1e-9));
        let ratio = found.costs.average / ideal.costs.average;
        assert!((0.8..1.2).contains(&ratio), "{family:?}: {ratio}");
    }
}

/// What bounds its time: the designs tried, from kilobytes to petabytes.
#[test]
fn few_designs_are_tried() {
    for doublings in [10, 20, 30, 40, 45] {
        for bits_per_key in [0.1, 10.0, 100.0] {
            let environment = environment(2f64.powi(doublings), 16.0, 1.0);
            let request = request(environment, workload(0.25, 0.25, 0.0, 0.5), bits_per_key);
            let found = search(&request, &Curve::ideal()).unwrap();
            assert!(found.evaluated <= 1500, "{}", found.evaluated);
        }
    }
}

/// Data that fit the memory, one entry, one page: odd, but not nonsense.
#[test]
fn small_data_have_designs_too() {
    let ideal = Curve::ideal();
    for (entries, entry_bytes, memory_bytes) in [
        (1.0, 1.0, 4096.0),
        (10.0, 100.0, 1e9),
        (1e6, 100.0, 4096.0),
        (3.0, 1e6, 1e4),
    ] {
        let mut request = request(
            environment(entries, entry_bytes, 1.0),
            workload(0.2, 0.2, 0.2, 0.4),
            1.0,
        );
        request.memory_bytes = memory_bytes;
        let found = search(&request, &ideal).unwrap();
        assert!(found.costs.average.is_finite() && found.costs.throughput.is_finite());
    }
}

#[test]
fn requests_are_read_from_json() {
    let text = r#"{
        "environment": {
            "entries": 1e8, "entry_bytes": 128,
            "device": {"page_bytes": 4096, "read_seconds": 1e-4, "write_cost": 1}
        },
        "workload": {
            "empty_lookups": 0.5, "existing_lookups": 0, "range_lookups": 0,
            "updates": 0.5, "selectivity": 0
        },
        "memory_bytes": 2e8,
        "knobs": {"policies": ["leveling", "lazy-leveling"]},
        "bounds": {"update": 0.2}
    }"#;
    let request: Request = serde_json::from_str(text).unwrap();
    assert_eq!(request.knobs.policies, [Leveling, LazyLeveling]);
    assert_eq!(request.knobs.allocation, Allocation::Monkey);
    let found = search(&request, &Curve::ideal()).unwrap();
    assert!(found.costs.update <= 0.2);
    let back = serde_json::to_string(&found).unwrap();
    let back: Found = serde_json::from_str(&back).unwrap();
    assert_eq!(back.design, found.design);
}

#[test]
fn nonsense_is_refused_by_name() {
    let refused = |change: fn(&mut Request)| {
        let mut request = request(
            environment(1e6, 64.0, 1.0),
            workload(0.25, 0.25, 0.25, 0.25),
            8.0,
        );
        change(&mut request);
        search(&request, &Curve::ideal()).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|r| r.environment.entries = 0.0),
        "entries is 0, but must be finite and above 0"
    );
    assert_eq!(
        refused(|r| r.workload.updates = 0.5),
        "the sum of the workload's shares is 1.25, but must be 1"
    );
    assert_eq!(
        refused(|r| r.memory_bytes = 4000.0),
        "memory_bytes is 4000, but must be finite and at least a page"
    );
    assert_eq!(
        refused(|r| r.knobs.policies.clear()),
        "policies is 0, but must be at least one"
    );
    assert!(refused(|r| r.knobs.buffer_bytes = Some(1e7)).starts_with("buffer_bytes"));
    assert!(refused(|r| r.knobs.buffer_bytes = Some(1.0)).starts_with("buffer_bytes"));
    assert!(refused(|r| r.knobs.size_ratio = Some(1)).starts_with("size_ratio"));
    assert!(refused(|r| r.knobs.size_ratio = Some(1 << 20)).starts_with("size_ratio"));
    assert!(refused(|r| r.bounds.update = Some(-1.0)).starts_with("the bound on updates"));
    assert!(refused(|r| r.memory_bytes = f64::NAN).starts_with("memory_bytes"));
}
