//! Each anomaly of the literature as a script of two or three transactions that are open at a time
//! (Adya, "Weak Consistency", 1999; the scripts after those of Kleppmann's "Hermitage"). Keys 1 and
//! 2 have the values 10 and 20 at first, and nobody else is there.

use std::sync::Arc;

use shamba::fs::MemFs;
use shamba::{Db, Isolation, Options, Transaction, TransactionOptions};

/// Where the scripts are played.
struct Stage {
    db: Db,
    isolation: Isolation,
    /// Whether each commit is in a table before the next step.
    flushes: bool,
}

impl Stage {
    fn set(isolation: Isolation, flushes: bool) -> Stage {
        let options = Options::new().fs(Arc::new(MemFs::new()));
        let db = options.background_threads(0).open("/db").unwrap();
        db.put("1", [10]).unwrap();
        db.put("2", [20]).unwrap();
        Stage {
            db,
            isolation,
            flushes,
        }
    }

    fn begin(&self) -> Transaction {
        let options = TransactionOptions::new().isolation(self.isolation);
        self.db.transaction_with(options)
    }

    /// Whether a transaction could be committed.
    fn commit(&self, transaction: Transaction) -> bool {
        let done = transaction.commit();
        if self.flushes {
            self.db.flush().unwrap();
        }
        match done {
            Ok(()) => true,
            Err(shamba::Error::Conflict { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn is(&self, key: &str) -> u8 {
        self.db.get(key).unwrap().map_or(0, |value| value[0])
    }

    fn all(&self) -> (u8, u8) {
        (self.is("1"), self.is("2"))
    }
}

fn read(transaction: &Transaction, key: &str) -> u8 {
    transaction.get(key).unwrap().map_or(0, |value| value[0])
}

fn write(transaction: &mut Transaction, key: &str, value: u8) {
    transaction.put(key, [value]).unwrap();
}

/// The keys whose values a predicate is true of: all are read for it.
fn find(transaction: &Transaction, is_wanted: impl Fn(u8) -> bool) -> Vec<Vec<u8>> {
    let entries = transaction.iter().map(Result::unwrap);
    let wanted = entries.filter(|(_, value)| is_wanted(value[0]));
    wanted.map(|(key, _)| key).collect()
}

/// G0: of two that write the same keys one wins at one key and the other at the other.
fn dirty_write(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    write(&mut a, "1", 11);
    write(&mut b, "1", 12);
    write(&mut a, "2", 21);
    stage.commit(a);
    write(&mut b, "2", 22);
    stage.commit(b);
    ![(11, 21), (12, 22)].contains(&stage.all())
}

/// G1a: what is rolled back is seen.
fn aborted_read(stage: &Stage) -> bool {
    let (mut a, b) = (stage.begin(), stage.begin());
    write(&mut a, "1", 101);
    let before = read(&b, "1");
    a.rollback();
    let after = read(&b, "1");
    let found = find(&b, |value| value == 101);
    stage.commit(b);
    [before, after, stage.is("1")].contains(&101) || !found.is_empty()
}

/// G1b: what a transaction writes over itself is seen.
fn intermediate_read(stage: &Stage) -> bool {
    let (mut a, b) = (stage.begin(), stage.begin());
    write(&mut a, "1", 101);
    let before = read(&b, "1");
    a.set_savepoint();
    write(&mut a, "1", 102);
    a.rollback_to_savepoint().unwrap();
    write(&mut a, "1", 11);
    stage.commit(a);
    let after = read(&b, "1");
    stage.commit(b);
    let late = read(&stage.begin(), "1");
    [before, after, late].iter().any(|seen| *seen > 100)
}

/// G1c: two see what the other wrote.
fn circular_flow(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    write(&mut a, "1", 11);
    write(&mut b, "2", 22);
    let flows = (read(&a, "2"), read(&b, "1")) == (22, 11);
    stage.commit(a);
    stage.commit(b);
    flows
}

/// OTV: who has seen a part of a transaction does not see the rest.
fn observed_vanishes(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    write(&mut a, "1", 11);
    write(&mut a, "2", 19);
    write(&mut b, "1", 12);
    stage.commit(a);
    let c = stage.begin();
    let first = read(&c, "1");
    write(&mut b, "2", 18);
    let second = read(&c, "2");
    stage.commit(b);
    let again = (read(&c, "1"), read(&c, "2"));
    stage.commit(c);
    (first, second) != again || ![(10, 20), (11, 19), (12, 18)].contains(&again)
}

/// PMP: a predicate that was asked twice has two answers.
fn predicate_read_twice(stage: &Stage) -> bool {
    let (a, mut b) = (stage.begin(), stage.begin());
    let before = find(&a, |value| value == 30);
    write(&mut b, "3", 30);
    stage.commit(b);
    let after = find(&a, |value| value == 30);
    let backward = a.iter().rev().count();
    stage.commit(a);
    before != after || backward != 2
}

/// PMP of writes: one deletes what its predicate no longer is true of.
fn predicate_written(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    for key in ["1", "2"] {
        let value = read(&a, key);
        write(&mut a, key, value + 10);
    }
    for key in find(&b, |value| value == 20) {
        b.delete(key).unwrap();
    }
    stage.commit(a) && stage.commit(b)
}

/// P4: two update a key, and one update is lost.
fn lost_update(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    for transaction in [&mut a, &mut b] {
        let value = read(transaction, "1");
        write(transaction, "1", value + 1);
    }
    stage.commit(a) && stage.commit(b)
}

/// P4 where the key was absent.
fn lost_insert(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    for transaction in [&mut a, &mut b] {
        let value = read(transaction, "3");
        write(transaction, "3", value + 1);
    }
    stage.commit(a) && stage.commit(b)
}

/// G-single: one key is seen as it was before a transaction, and another as it was after.
fn read_skew(stage: &Stage) -> bool {
    let (a, mut b) = (stage.begin(), stage.begin());
    let first = read(&a, "1");
    write(&mut b, "1", 12);
    write(&mut b, "2", 18);
    stage.commit(b);
    let second = read(&a, "2");
    stage.commit(a);
    (first, second) == (10, 18)
}

/// G-single with a write over what was not seen.
fn read_skew_and_write(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    read(&a, "1");
    write(&mut b, "1", 12);
    write(&mut b, "2", 18);
    stage.commit(b);
    a.delete("2").unwrap();
    stage.commit(a)
}

/// G2-item: two read two keys, and each writes one of them.
fn write_skew(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    for transaction in [&a, &b] {
        transaction.multi_get(&["1", "2"]).unwrap();
    }
    write(&mut a, "1", 11);
    write(&mut b, "2", 21);
    stage.commit(a) && stage.commit(b)
}

/// G2: two find nothing, and each writes what the other would have found.
fn predicate_write_skew(stage: &Stage) -> bool {
    let (mut a, mut b) = (stage.begin(), stage.begin());
    for transaction in [&a, &b] {
        assert!(find(transaction, |value| value % 30 == 0).is_empty());
    }
    write(&mut a, "3", 30);
    write(&mut b, "4", 60);
    stage.commit(a) && stage.commit(b)
}

/// G2 of which one only reads (Fekete, O'Neil and O'Neil, "A Read-Only Transaction Anomaly Under
/// Snapshot Isolation", SIGMOD Record 2004).
fn read_only_anomaly(stage: &Stage) -> bool {
    let mut a = stage.begin();
    find(&a, |_| true);
    let mut b = stage.begin();
    let value = read(&b, "2");
    write(&mut b, "2", value + 5);
    let done = stage.commit(b);
    let c = stage.begin();
    let seen = (read(&c, "1"), read(&c, "2"));
    let done = done && stage.commit(c);
    write(&mut a, "1", 0);
    done && seen == (10, 25) && stage.commit(a)
}

/// A name, its script, which says whether it happened, and where it may.
type Script = (&'static str, fn(&Stage) -> bool, &'static [Isolation]);

const NOWHERE: &[Isolation] = &[];
const SNAPSHOT: &[Isolation] = &[Isolation::Snapshot];

const SCRIPTS: [Script; 14] = [
    ("G0, dirty write", dirty_write, NOWHERE),
    ("G1a, aborted read", aborted_read, NOWHERE),
    ("G1b, intermediate read", intermediate_read, NOWHERE),
    ("G1c, circular information flow", circular_flow, NOWHERE),
    (
        "OTV, observed transaction vanishes",
        observed_vanishes,
        NOWHERE,
    ),
    ("PMP, predicate read twice", predicate_read_twice, NOWHERE),
    ("PMP, predicate written", predicate_written, NOWHERE),
    ("P4, lost update", lost_update, NOWHERE),
    ("P4, lost insert", lost_insert, NOWHERE),
    ("G-single, read skew", read_skew, NOWHERE),
    (
        "G-single, read skew and a write",
        read_skew_and_write,
        NOWHERE,
    ),
    ("G2-item, write skew", write_skew, SNAPSHOT),
    (
        "G2, write skew over predicates",
        predicate_write_skew,
        SNAPSHOT,
    ),
    ("G2, read-only anomaly", read_only_anomaly, SNAPSHOT),
];

#[test]
fn anomalies_happen_only_where_they_may() {
    let isolations = [Isolation::Serializable, Isolation::Snapshot];
    // The documentation has what this prints.
    let documented = include_str!("../../src/options/transaction.rs");
    let print = |row: String| {
        println!("{row}");
        assert!(documented.contains(&format!("/// {row}\n")), "{row}");
    };
    print("| anomaly | serializable | snapshot |".to_owned());
    print("|---|---|---|".to_owned());
    let mut wrong = Vec::new();
    for (name, script, may) in SCRIPTS {
        let happened = isolations.map(|isolation| {
            let happened = [false, true].map(|flushes| script(&Stage::set(isolation, flushes)));
            if happened != [may.contains(&isolation); 2] {
                wrong.push((name, isolation, happened));
            }
            happened.contains(&true)
        });
        let [serializable, snapshot] = happened.map(|it| if it { "allowed" } else { "prevented" });
        print(format!("| {name} | {serializable} | {snapshot} |"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
