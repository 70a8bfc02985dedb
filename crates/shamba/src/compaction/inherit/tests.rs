//! Sharing out of visits, without files.

use super::*;
use crate::budget::Budget;
use crate::cache::{BlockCache, Store};
use crate::value::FilterGeometry;

fn visits(empty: f32, positive: f32) -> Visits {
    Visits {
        empty,
        positive,
        scans: 0.0,
    }
}

/// A file of partitions that end at these keys, the first of which starts at `smallest`.
fn file(cache: &BlockCache, smallest: &str, partitions: &[(&str, Visits)]) -> Parent {
    let (clock, budget) = (Arc::clone(cache.policy()), cache.budget());
    let shapes = FilterGeometry::new([].into(), |_| 0, |block, _| block.into());
    let partition_stats = PartitionStats::new(clock, budget, partitions.len(), Arc::new(shapes), 1);
    for (number, (_, visits)) in (0..).zip(partitions) {
        partition_stats.inherit(number, *visits);
    }
    let mut ends: Vec<Box<[u8]>> = partitions
        .iter()
        .map(|(end, _)| end.as_bytes().into())
        .collect();
    Parent {
        smallest: smallest.as_bytes().into(),
        largest: ends.pop().unwrap(),
        entries: 100 * partitions.len() as u64,
        partition_stats: Some(Arc::new(partition_stats)),
        separators: ends,
    }
}

fn spans<'a>(smallest: &'a str, ends: &[&'a str]) -> Vec<KeySpan<'a>> {
    let mut spans = Vec::new();
    let mut first = smallest.as_bytes();
    for (number, end) in ends.iter().enumerate() {
        spans.push(KeySpan {
            first,
            open: number > 0,
            last: end.as_bytes(),
        });
        first = end.as_bytes();
    }
    spans
}

fn cache() -> Arc<BlockCache> {
    BlockCache::new(Store::new(Budget::new(1 << 20)), 1)
}

#[test]
fn partitions_of_the_same_ranges_inherit_each_its_own() {
    let cache = cache();
    let parts = [
        ("f", visits(8.0, 1.0)),
        ("m", visits(0.0, 0.0)),
        ("z", visits(4.0, 16.0)),
    ];
    let inheritance = Inheritance::new(
        vec![ParentRun {
            files: vec![file(&cache, "a", &parts)],
        }],
        Rule::Merge,
    );
    let new = spans("a", &["f", "m", "z"]);
    let want = parts.map(|(_, visits)| visits);
    assert_eq!(inheritance.inherited(&new), want);
    for (span, want) in new.iter().zip(want) {
        assert_eq!(inheritance.visits(*span), want, "{span:?}");
    }
}

#[test]
fn visits_are_shared_out_and_none_is_lost() {
    let cache = cache();
    let newer = [file(&cache, "c", &[("p", visits(90.0, 10.0))])];
    let older = [
        file(
            &cache,
            "a",
            &[("f", visits(30.0, 4.0)), ("m", visits(20.0, 8.0))],
        ),
        file(&cache, "n", &[("z", visits(12.0, 6.0))]),
    ];
    let inheritance = Inheritance::new(
        [newer.into(), older.into()]
            .map(|files: Vec<_>| ParentRun { files })
            .into(),
        Rule::Merge,
    );
    // The newer run's partition meets all four, a-f the first two, f-m the second and third, n-z
    // the third and fourth.
    let new = spans("a", &["d", "k", "s", "z"]);
    let found = inheritance.inherited(&new);
    let want = [
        visits(15.0, 2.0 + 2.5),
        visits(15.0 + 10.0, 2.0 + 4.0 + 2.5),
        visits(10.0 + 6.0, 4.0 + 3.0 + 2.5),
        visits(6.0, 3.0),
    ];
    // The newer one ends before the last begins.
    let share = 10.0 / 3.0 - 2.5;
    for (number, (found, want)) in found.iter().zip(want).enumerate() {
        let positive = want.positive + if number < 3 { share } else { 0.0 };
        assert!(
            (found.empty - want.empty).abs() < 1e-3,
            "{number}: {found:?}"
        );
        assert!(
            (found.positive - positive).abs() < 1e-3,
            "{number}: {found:?}"
        );
    }
    let sum = found.iter().fold(Visits::default(), |mut sum, part| {
        sum += *part;
        sum
    });
    assert!(
        (sum.empty - 62.0).abs() < 1e-2 && (sum.positive - 28.0).abs() < 1e-2,
        "{sum:?}"
    );
}

#[test]
fn a_flushed_partition_expects_those_who_come_to_the_run_below() {
    let cache = cache();
    let run = |files| ParentRun { files };
    let inheritance = Inheritance::new(
        vec![
            run(vec![file(&cache, "a", &[("h", visits(40.0, 20.0))])]),
            run(vec![file(
                &cache,
                "a",
                &[("h", visits(7.0, 7.0)), ("z", visits(0.0, 64.0))],
            )]),
        ],
        Rule::Above(50),
    );
    // 50 new entries above 100, and above 200 where the newer run has none.
    let found = inheritance.inherited(&spans("b", &["h", "y"]));
    assert_eq!(found, [visits(50.0, 10.0), visits(48.0, 16.0)]);
}

#[test]
fn nobody_is_expected_where_nobody_came() {
    let cache = cache();
    let cold = Parent {
        partition_stats: None,
        ..file(&cache, "a", &[("z", visits(1.0, 1.0))])
    };
    let inheritance = Inheritance::new(vec![ParentRun { files: vec![cold] }], Rule::Merge);
    assert!(inheritance.is_cold());
    assert_eq!(
        inheritance.inherited(&spans("a", &["z"])),
        [Visits::default()]
    );
}

#[test]
fn pages_are_read_by_those_who_read_what_is_in_them() {
    let cache = cache();
    let run = |visits| ParentRun {
        files: vec![file(
            &cache,
            "a",
            &[("m", visits), ("z", Visits::default())],
        )],
    };
    let visits = Visits {
        empty: 99.0,
        positive: 25.0,
        scans: 50.0,
    };
    // Merged: half of the entries of a new page are of either run, and the scans are the same.
    let merge = Inheritance::new(vec![run(visits), run(visits)], Rule::Merge);
    assert_eq!(merge.page_reads(b"f", 10), 10.0 * (0.25 + 0.25));
    assert_eq!(merge.page_reads(b"x", 10), 0.0);
    // Above 200 entries a tenth as many: their pages lie over ten times as many keys each, and
    // hold a tenth of what lookups find.
    let above = Inheritance::new(vec![run(visits)], Rule::Above(20));
    assert!((above.page_reads(b"f", 10) - 10.0 * (0.25 + 5.0)).abs() < 1e-3);
}
