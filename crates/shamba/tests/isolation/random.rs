//! Random histories of transactions that are open at a time, on one thread: the same seed does the
//! same, and no step is made while another is under way.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shamba::fs::MemFs;
use shamba::{Db, Isolation, Keyspace};

use crate::checker::{History, Record};
use crate::clients::{Client, Round, with_append};
use crate::common::{
    Replay, Rng, env_number, full_run, on_every_core, random_keyspace_options, random_options,
};

/// Transactions of a round, whose graph is looked at, and rounds of a case, which opens a database.
const OF_A_ROUND: usize = 250;
const ROUNDS: u64 = 8;

/// What there was of each, so that the histories are known to be worth checking.
#[derive(Default)]
pub struct Tally {
    pub transactions: AtomicU64,
    pub conflicts: AtomicU64,
    pub skewed: AtomicU64,
}

impl Tally {
    /// Checks a round, and counts it.
    pub fn add(&self, history: &History, isolation: Isolation, conflicts: u64) {
        if let Err(breach) = history.check(isolation) {
            panic!("{isolation:?}: {breach:?}");
        }
        let skewed = history.check(Isolation::Serializable).is_err();
        let transactions = history.records.len() as u64;
        self.transactions.fetch_add(transactions, Ordering::Relaxed);
        self.conflicts.fetch_add(conflicts, Ordering::Relaxed);
        self.skewed.fetch_add(skewed.into(), Ordering::Relaxed);
    }
}

fn conflicts(db: &Db) -> u64 {
    db.stats().counters.transaction_conflicts
}

fn round(
    rng: &mut Rng,
    (db, other): (&Db, &Keyspace),
    number: u64,
    isolation: Isolation,
) -> History {
    let keys = *rng.pick(&[4, 8, 16, 40]);
    let round = Round::new(db, other, number, keys);
    let most = rng.between(2, 6) as usize;
    let mut open: Vec<Client> = Vec::new();
    let mut records: BTreeMap<u32, Record> = BTreeMap::new();
    while records.len() + open.len() < OF_A_ROUND {
        if open.len() < most && rng.one_in(3) {
            open.push(Client::begin(&round, isolation));
        } else if !open.is_empty() {
            let client = open.swap_remove(rng.below(open.len() as u64) as usize);
            match client.step(rng) {
                ControlFlow::Continue(client) => open.push(client),
                ControlFlow::Break(ended) => records.extend([ended]),
            }
        }
        match rng.below(400) {
            0..10 => records.extend([round.append_plainly(rng)]),
            10..13 => records.extend([round.append_at_once(rng)]),
            13..17 => db.flush().unwrap(),
            19..24 => records.extend([round.append_unread(rng)]),
            17 => db.compact_range_in(other, None, None).unwrap(),
            18 => db.compact_range(None, None).unwrap(),
            _ => {}
        }
    }
    records.extend(open.into_iter().map(Client::commit));
    round.history(records)
}

fn run_case(seed: u64, tallies: &[Tally; 2]) {
    let _replay = Replay(format!(
        "SHAMBA_SEED={seed} cargo test -p shamba --test isolation"
    ));
    let mut rng = Rng::new(seed);
    let db = with_append(random_options(&mut rng, Arc::new(MemFs::new())));
    let db = db.open("/db").unwrap();
    let options = random_keyspace_options(&mut rng);
    let other = db.create_keyspace("other", options).unwrap();
    let (isolation, tally) = match seed % 3 {
        0 => (Isolation::Snapshot, &tallies[1]),
        _ => (Isolation::Serializable, &tallies[0]),
    };
    for number in 0..ROUNDS {
        let before = conflicts(&db);
        let history = round(&mut rng, (&db, &other), number, isolation);
        tally.add(&history, isolation, conflicts(&db) - before);
    }
}

#[test]
fn histories_of_one_thread_are_as_isolated_as_they_are_meant_to_be() {
    let tallies = [Tally::default(), Tally::default()];
    if let Some(seed) = env_number("SHAMBA_SEED") {
        run_case(seed, &tallies);
        return;
    }
    let default = if full_run() { 1_000_000 } else { 100_000 };
    let wanted = env_number("SHAMBA_TRANSACTIONS").unwrap_or(default);
    let from = env_number("SHAMBA_FROM").unwrap_or(0);
    let cases = wanted.div_ceil(ROUNDS * OF_A_ROUND as u64);
    on_every_core(cases, |case| run_case(from + case, &tallies));
    for (tally, isolation) in tallies.iter().zip(["serializable", "snapshot"]) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (all, refused) = (of(&tally.transactions), of(&tally.conflicts));
        println!("{isolation}: {all} transactions, {refused} conflicts");
        println!(
            "    rounds that are not serializable: {}",
            of(&tally.skewed)
        );
        // Else the histories could show nothing.
        assert!(refused > all / 50, "{isolation}: {refused} of {all}");
        assert_eq!(of(&tally.skewed) > 0, isolation == "snapshot");
    }
}
