//! Histories of transactions of several threads: commits are under way together, wait for each
//! other in the queue of the writers, and are logged in groups.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shamba::fs::{FaultFs, Faults, MemFs, Op};
use shamba::{Durability, Isolation, KeyspaceOptions, Options};

use crate::checker::Record;
use crate::clients::{Client, Ended, Round, with_append};
use crate::common::{Replay, Rng, full_run};
use crate::random::Tally;

/// Transactions of each thread in a round.
const EACH: usize = 60;

fn run(isolation: Isolation, threads: u64, rounds: u64, tally: &Tally) {
    let faults = Faults::new();
    // Who syncs the log takes so long that others come to wait.
    faults.set_hook(Some(Arc::new(|op, _| {
        if op == Op::Sync {
            std::thread::sleep(Duration::from_micros(50));
        }
    })));
    let keyspace = KeyspaceOptions::new().write_buffer(16 << 10);
    let options = Options::new()
        .fs(Arc::new(FaultFs::new(Arc::new(MemFs::new()), faults)))
        .background_threads(1)
        .durability(Durability::Synced)
        .keyspace(keyspace.clone());
    let db = with_append(options).open("/db").unwrap();
    let other = db.create_keyspace("other", keyspace).unwrap();
    for number in 0..rounds {
        let _replay = Replay(format!("round {number} of {threads} threads, by chance"));
        let before = db.stats().counters.transaction_conflicts;
        let round = Round::new(&db, &other, number, 6);
        let records: Mutex<BTreeMap<u32, Record>> = Mutex::default();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (round, records) = (&round, &records);
                scope.spawn(move || {
                    let mut rng = Rng::new(number * threads + thread);
                    let mut own = Vec::new();
                    while own.len() < EACH {
                        own.push(match rng.below(16) {
                            0..2 => round.append_at_once(&mut rng),
                            2 => round.append_unread(&mut rng),
                            _ => run_one(Client::begin(round, isolation), &mut rng),
                        });
                    }
                    records.lock().unwrap().extend(own);
                });
            }
        });
        let history = round.history(records.into_inner().unwrap());
        let conflicts = db.stats().counters.transaction_conflicts - before;
        tally.add(&history, isolation, conflicts);
    }
}

fn run_one(mut client: Client, rng: &mut Rng) -> Ended {
    loop {
        match client.step(rng) {
            ControlFlow::Continue(goes) => client = goes,
            ControlFlow::Break(ended) => return ended,
        }
    }
}

#[test]
fn histories_of_threads_are_as_isolated_as_they_are_meant_to_be() {
    let rounds = if full_run() { 200 } else { 20 };
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let tally = Tally::default();
        for threads in [2, 4] {
            run(isolation, threads, rounds, &tally);
        }
        let (all, conflicts) = (
            tally.transactions.into_inner(),
            tally.conflicts.into_inner(),
        );
        let skewed = tally.skewed.into_inner();
        println!("{isolation:?}: {all} transactions, {conflicts} conflicts, {skewed} skewed");
        assert!(conflicts > all / 100, "{conflicts} of {all}");
    }
}
