//! Doing case after case, until time is up, the cases are done or one fails. Cases are taken by any
//! number of threads from one counter, so that a run that was stopped can go on where it was.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{Kind, Progress};

/// How many cases to do, and which.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The first seed.
    pub seed: u64,
    /// At most so many cases.
    pub cases: Option<u64>,
    /// No case begins later than this.
    pub time: Option<Duration>,
    /// Cases at a time.
    pub jobs: usize,
}

/// Counts of what cases did, by name; from any thread.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    /// Adds to a count.
    ///
    /// # Panics
    /// If another thread panicked while it added.
    pub fn add(&self, name: &'static str, count: u64) {
        *self.0.lock().unwrap().entry(name).or_default() += count;
    }

    /// The counts.
    ///
    /// # Panics
    /// If another thread panicked while it added.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap().clone()
    }
}

/// A case that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What its panic said.
    pub what: String,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Cases done.
    pub cases: u64,
    /// What they did.
    pub counts: BTreeMap<&'static str, u64>,
    /// How long it took.
    pub took: Duration,
    /// The cases that failed: the run ends at the first, beside which others may run.
    pub failures: Vec<Failure>,
}

impl Outcome {
    /// Adds what a later part of the run came to.
    pub fn add(&mut self, later: Outcome) {
        self.cases += later.cases;
        self.took += later.took;
        self.failures.extend(later.failures);
        for (name, count) in later.counts {
            *self.counts.entry(name).or_default() += count;
        }
    }
}

/// Does cases of a kind.
///
/// # Panics
/// Never by a case.
pub fn run(kind: &dyn Kind, limits: Limits, progress: &Progress) -> Outcome {
    let start = Instant::now();
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let tally = Tally::default();
    let failures = Mutex::new(Vec::new());
    let work = || {
        while failures.lock().unwrap().is_empty()
            && limits.time.is_none_or(|time| start.elapsed() < time)
        {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if limits.cases.is_some_and(|cases| number >= cases) {
                break;
            }
            let seed = limits.seed.wrapping_add(number);
            match catch_unwind(AssertUnwindSafe(|| kind.case(seed, &tally))) {
                Ok(()) => {
                    done.fetch_add(1, Ordering::Relaxed);
                    progress.done();
                }
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or(panic.downcast_ref::<&str>().copied());
                    let what = text.unwrap_or("a panic without text").to_owned();
                    failures.lock().unwrap().push(Failure { seed, what });
                }
            }
        }
    };
    let jobs = if kind.in_parallel() { limits.jobs } else { 1 };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    Outcome {
        cases: done.into_inner(),
        counts: tally.counts(),
        took: start.elapsed(),
        failures: failures.into_inner().unwrap(),
    }
}
