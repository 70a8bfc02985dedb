//! Random operations on a database and on a map, under random options: the same answers, always,
//! and never more memory accounted than the budget.
//!
//! `SHAMBA_OPS` sets how many operations a run makes in all (default 1,000,000), `SHAMBA_FROM` the
//! first seed, `SHAMBA_SEED` runs the one case that failed, and `SHAMBA_TRACE` prints its steps.
//! With `-- --nocapture` a run that passes says which seeds it ran.

#[path = "../common/mod.rs"]
mod common;
mod reference;
mod run;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Replay, Rng, env_number, on_every_core};
use run::{Run, Storage};

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1000),
    }
}

/// Operations of one case: enough for many reopens, few enough to replay.
const CASE_OPS: u64 = 12_000;

fn run_case(seed: u64) -> (u64, Option<String>) {
    let _replay = Replay(format!(
        "SHAMBA_SEED={seed} cargo test -p shamba --test model"
    ));
    let mut rng = Rng::new(seed);
    // Most cases are alone with their seed; some have threads, some a real disk.
    let threads = if rng.one_in(5) {
        rng.between(1, 2) as usize
    } else {
        0
    };
    let (storage, ops) = if seed % 16 == 15 {
        (Storage::folder(), CASE_OPS / 4)
    } else {
        (Storage::memory(), CASE_OPS)
    };
    let mut run = Run::start(rng, storage, threads);
    while run.ops < ops {
        run.step();
    }
    run.finish()
}

#[test]
fn a_database_answers_as_a_map_does() {
    if let Some(seed) = env_number("SHAMBA_SEED") {
        let (_, over_budget) = run_case(seed);
        assert_eq!(over_budget, None);
        return;
    }
    let wanted = env_number("SHAMBA_OPS").unwrap_or(1_000_000);
    let from = env_number("SHAMBA_FROM").unwrap_or(0);
    let (done, last) = (AtomicU64::new(0), AtomicU64::new(from));
    let over_budget = Mutex::new(Vec::new());
    // No case runs once enough is done; the count only bounds them.
    on_every_core(wanted, |case| {
        if done.load(Ordering::Relaxed) < wanted {
            last.fetch_max(from + case, Ordering::Relaxed);
            let (ops, over) = run_case(from + case);
            done.fetch_add(ops, Ordering::Relaxed);
            over_budget
                .lock()
                .unwrap()
                .extend(over.map(|over| format!("SHAMBA_SEED={} {over}", from + case)));
        }
    });
    let (done, last) = (done.into_inner(), last.into_inner());
    assert!(done >= wanted);
    let over_budget = over_budget.into_inner().unwrap();
    let some = &over_budget[..over_budget.len().min(10)];
    assert!(
        over_budget.is_empty(),
        "over the budget in {} cases, such as {some:#?}",
        over_budget.len()
    );
    println!("seeds {from} to {last}: {} operations", grouped(done));
}
