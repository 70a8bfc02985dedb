//! The checker itself: histories made by hand, with what is wrong in each, and some where nothing
//! is.

use std::collections::BTreeMap;

use shamba::Isolation;

use crate::checker::{Breach, Element, History, Record};

/// A transaction: what it read, and to which keys it appended once.
struct One {
    reads: &'static [(usize, &'static [u32])],
    appends: &'static [usize],
    committed: bool,
}

fn one(reads: &'static [(usize, &'static [u32])], appends: &'static [usize]) -> One {
    One {
        reads,
        appends,
        committed: true,
    }
}

/// One of which nothing may be seen.
fn aborted(appends: &'static [usize]) -> One {
    One {
        reads: &[],
        appends,
        committed: false,
    }
}

/// A history of transactions 1, 2, ... which all ran at a time, and the writers of each list.
fn history(all: &[One], lists: &[&[u32]]) -> History {
    let list = |ids: &[u32], key: usize| -> Vec<Element> {
        let place = |id: &u32| {
            let appends = all[*id as usize - 1].appends;
            appends.iter().position(|to| *to == key).unwrap() as u32
        };
        ids.iter().map(|id| (*id, place(id))).collect()
    };
    let record = |(id, one): (u32, &One)| {
        let reads = one.reads.iter().map(|(key, ids)| (*key, list(ids, *key)));
        let appends = one.appends.iter();
        let appends = appends.map(|key| (*key, list(&[id], *key)));
        let record = Record {
            began: 0,
            ended: 1,
            committed: one.committed,
            reads: reads.collect(),
            appends: appends.collect(),
        };
        (id, record)
    };
    let lists = lists.iter().enumerate();
    History {
        records: (1..).zip(all).map(record).collect(),
        lists: lists.map(|(key, ids)| list(ids, key)).collect(),
    }
}

/// What is found under either isolation.
fn found(history: &History) -> [String; 2] {
    [Isolation::Serializable, Isolation::Snapshot].map(|isolation| {
        let found = history.check(isolation);
        let name = |breach: Breach| format!("{breach:?}");
        let name = found.map_or_else(name, |()| "nothing".to_owned());
        name.split(['(', ' ']).next().unwrap().to_owned()
    })
}

#[test]
fn what_is_planted_is_found_and_nothing_else() {
    let both = |found: &'static str| [found, found];
    let cases: [(&str, History, [&str; 2]); 16] = [
        ("nobody", history(&[], &[&[]]), both("nothing")),
        (
            "one after the other",
            history(
                &[one(&[(0, &[])], &[0]), one(&[(0, &[1]), (1, &[])], &[0, 1])],
                &[&[1, 2], &[2]],
            ),
            both("nothing"),
        ),
        (
            "readers of each moment",
            history(
                &[
                    one(&[], &[0, 1]),
                    one(&[(0, &[]), (1, &[])], &[]),
                    one(&[(0, &[1]), (1, &[1])], &[]),
                ],
                &[&[1], &[1]],
            ),
            both("nothing"),
        ),
        (
            "an aborted one of which nothing is there",
            history(&[aborted(&[0]), one(&[(0, &[])], &[0])], &[&[2]]),
            both("nothing"),
        ),
        (
            "G0: overwritten in two orders",
            history(&[one(&[], &[0, 1]), one(&[], &[0, 1])], &[&[1, 2], &[2, 1]]),
            both("G0"),
        ),
        (
            "G1a: read",
            history(&[aborted(&[0]), one(&[(0, &[1])], &[])], &[&[]]),
            both("Aborted"),
        ),
        (
            "G1a: there",
            history(&[aborted(&[0])], &[&[1]]),
            both("Aborted"),
        ),
        (
            "G1c: each read the other's",
            history(
                &[one(&[(1, &[2])], &[0]), one(&[(0, &[1])], &[1])],
                &[&[1], &[2]],
            ),
            both("G1c"),
        ),
        (
            "OTV: a transaction of which a part is seen no longer",
            history(
                &[
                    one(&[], &[0, 1]),
                    one(&[], &[0, 1]),
                    one(&[(0, &[1, 2]), (1, &[1])], &[]),
                ],
                &[&[1, 2], &[1, 2]],
            ),
            both("GSingle"),
        ),
        (
            "P4: an update is lost",
            history(&[one(&[(0, &[])], &[0]), one(&[(0, &[])], &[0])], &[&[2]]),
            both("Lost"),
        ),
        (
            "P4: an update of what was not read",
            history(
                &[one(&[(0, &[])], &[0]), one(&[(0, &[])], &[0])],
                &[&[1, 2]],
            ),
            both("GSingle"),
        ),
        (
            "two orders of versions",
            history(
                &[one(&[], &[0]), one(&[], &[0]), one(&[(0, &[2])], &[])],
                &[&[1, 2]],
            ),
            both("NeverThere"),
        ),
        (
            "G-single: read skew",
            history(
                &[one(&[], &[0, 1]), one(&[(0, &[]), (1, &[1])], &[])],
                &[&[1], &[1]],
            ),
            both("GSingle"),
        ),
        (
            "G2-item: write skew",
            history(
                &[
                    one(&[(0, &[]), (1, &[])], &[0]),
                    one(&[(0, &[]), (1, &[])], &[1]),
                ],
                &[&[1], &[2]],
            ),
            ["G2", "nothing"],
        ),
        (
            "a reader makes it a cycle",
            history(
                &[
                    one(&[(0, &[]), (1, &[])], &[0]),
                    one(&[], &[1]),
                    one(&[(0, &[]), (1, &[2])], &[]),
                ],
                &[&[1], &[2]],
            ),
            ["G2", "nothing"],
        ),
        (
            "two readers that saw two orders",
            history(
                &[
                    one(&[], &[0]),
                    one(&[], &[1]),
                    one(&[(0, &[1]), (1, &[])], &[]),
                    one(&[(0, &[]), (1, &[2])], &[]),
                ],
                &[&[1], &[2]],
            ),
            both("GSingle"),
        ),
    ];
    for (what, history, wanted) in &cases {
        assert_eq!(found(history), *wanted, "{what}");
    }
}

#[test]
fn a_part_of_a_transaction_is_found() {
    // The first one appends twice to a list; a reader saw the first of them alone.
    let twice = Record {
        committed: true,
        appends: BTreeMap::from([(0, vec![(1, 0), (1, 1)])]),
        ..Record::default()
    };
    let reader = |list: Vec<Element>| Record {
        committed: true,
        reads: vec![(0, list)],
        ..Record::default()
    };
    let history = |read, lists| History {
        records: BTreeMap::from([(1, twice.clone()), (2, reader(read))]),
        lists: vec![lists],
    };
    let whole = vec![(1, 0), (1, 1)];
    assert_eq!(
        found(&history(whole.clone(), whole.clone())),
        ["nothing"; 2]
    );
    assert_eq!(found(&history(vec![], whole.clone())), ["nothing"; 2]);
    assert_eq!(found(&history(vec![(1, 0)], whole)), ["Intermediate"; 2]);
    assert_eq!(found(&history(vec![], vec![(1, 1)])), ["Intermediate"; 2]);
}

#[test]
fn a_read_of_the_past_is_found() {
    let mut all = history(&[one(&[], &[0]), one(&[(0, &[])], &[])], &[&[1]]);
    assert_eq!(found(&all), ["nothing"; 2]);
    // Both at a time, or the reader first, it may have come before; but not so.
    let times = |all: &mut History, of, began, ended| {
        let record = all.records.get_mut(&of).unwrap();
        (record.began, record.ended) = (began, ended);
    };
    times(&mut all, 1, 5, 7);
    times(&mut all, 2, 1, 2);
    assert_eq!(found(&all), ["nothing"; 2]);
    times(&mut all, 2, 8, 9);
    assert_eq!(found(&all), ["RealTime"; 2]);
}
