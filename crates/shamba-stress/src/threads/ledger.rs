//! What every thread wrote, so that any answer given to any thread can be judged exactly.
//!
//! A key has one owner, who alone writes it; of each keyspace so many keys in a row have the same
//! one, who may so delete ranges. An owner's operations are numbered, and a reader sees
//! of each owner all operations up to some number, its *cut*, and none after. A [`View`] knows
//! between which two numbers each owner's cut may lie: at least what was done before the reader
//! took its view, at most what had begun when it had it. Each answer narrows that; when nothing is
//! left, an answer was wrong.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// A key of a shared keyspace: the keyspace's number and the key's.
pub type KeyId = (usize, u32);

#[derive(Debug, Clone, Copy)]
struct Written {
    op: u64,
    /// The value's sum; `None` for a delete.
    sum: Option<u64>,
}

#[derive(Debug, Default)]
struct Owner {
    /// The last operation that began.
    started: u64,
    /// The last operation that was acknowledged.
    done: u64,
    /// What was written to each key, oldest first: all that some view may still ask for.
    keys: HashMap<KeyId, Vec<Written>>,
    /// The least cuts of the views that are held, with how many views.
    floors: BTreeMap<u64, usize>,
}

impl Owner {
    /// Adds a version of a key, and forgets those that no view can see any more.
    fn push(&mut self, key: KeyId, written: Written) {
        let floor = self.floors.keys().next().copied().unwrap_or(self.done);
        let versions = self.keys.entry(key).or_default();
        // The deletion of a range is of many keys that are not there: it changes nothing of them.
        if written.sum.is_none() && versions.last().is_none_or(|last| last.sum.is_none()) {
            return;
        }
        if versions.last().is_some_and(|last| last.op == written.op) {
            versions.pop();
        }
        versions.push(written);
        let seen = versions.partition_point(|version| version.op <= floor.min(self.done));
        versions.drain(..seen.saturating_sub(1));
    }
}

/// The sum by which a value is known.
pub fn sum(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What all owners wrote.
#[derive(Debug)]
pub struct Ledger {
    owners: Vec<Mutex<Owner>>,
    /// Of each keyspace, how many keys in a row have the same owner.
    in_a_row: Vec<u32>,
}

impl Ledger {
    pub fn new(owners: usize, in_a_row: Vec<u32>) -> Self {
        Ledger {
            owners: (0..owners).map(|_| Mutex::default()).collect(),
            in_a_row,
        }
    }

    fn owner(&self, number: usize) -> MutexGuard<'_, Owner> {
        self.owners[number].lock().unwrap()
    }

    /// Who owns a key.
    pub fn owner_of(&self, (keyspace, number): KeyId) -> usize {
        (number / self.in_a_row[keyspace]) as usize % self.owners.len()
    }

    /// The keys about one that have its owner.
    pub fn row_of(&self, (keyspace, number): KeyId) -> Range<u32> {
        let row = self.in_a_row[keyspace];
        let start = number - number % row;
        start..start + row
    }

    /// An owner is about to write these keys at once.
    pub fn begin(&self, number: usize, writes: &[(KeyId, Option<u64>)]) {
        let mut owner = self.owner(number);
        owner.started += 1;
        let op = owner.started;
        for (key, sum) in writes {
            owner.push(*key, Written { op, sum: *sum });
        }
    }

    /// What an owner began last was acknowledged.
    pub fn finish(&self, number: usize) {
        let mut owner = self.owner(number);
        owner.done = owner.started;
    }

    /// What an owner began last has not happened, and will not.
    pub fn abandon(&self, number: usize) {
        let mut owner = self.owner(number);
        let op = owner.started;
        for versions in owner.keys.values_mut() {
            if versions.last().is_some_and(|last| last.op == op) {
                versions.pop();
            }
        }
        owner.done = op;
    }

    /// Opens a view: call before the engine takes its own.
    pub fn view(&self) -> View<'_> {
        let floors: Vec<u64> = (0..self.owners.len())
            .map(|number| {
                let mut owner = self.owner(number);
                let floor = owner.done;
                *owner.floors.entry(floor).or_default() += 1;
                floor
            })
            .collect();
        View {
            ledger: self,
            cuts: floors
                .iter()
                .map(|floor| vec![(*floor, u64::MAX)])
                .collect(),
            floors,
        }
    }
}

/// What is known of the moment at which a reader reads.
#[derive(Debug)]
pub struct View<'a> {
    ledger: &'a Ledger,
    /// For each owner where its cut may lie: ranges of operations, both ends included.
    cuts: Vec<Vec<(u64, u64)>>,
    floors: Vec<u64>,
}

impl View<'_> {
    /// The engine has taken its view: nothing that begins from now on is in it.
    pub fn taken(&mut self) {
        for number in 0..self.cuts.len() {
            let started = self.ledger.owner(number).started;
            for cut in &mut self.cuts[number] {
                cut.1 = cut.1.min(started);
            }
        }
    }

    /// Judges an answer: what a key's value is at the reader's moment.
    ///
    /// # Panics
    /// If no moment that is left explains it.
    pub fn judge(&mut self, key: KeyId, answer: Option<&[u8]>, how: &str) {
        let answer = answer.map(sum);
        let shown = format!("{answer:?}");
        self.narrow(key, |sum| sum == answer, &shown, how);
    }

    /// Judges an answer: whether a key is there at the reader's moment.
    ///
    /// # Panics
    /// If no moment that is left explains it.
    pub fn judge_presence(&mut self, key: KeyId, there: bool, how: &str) {
        self.narrow(key, |sum| sum.is_some() == there, &there.to_string(), how);
    }

    /// Keeps the moments at which a key is as `fits` asks.
    fn narrow(&mut self, key: KeyId, fits: impl Fn(Option<u64>) -> bool, answer: &str, how: &str) {
        let number = self.ledger.owner_of(key);
        let owner = self.ledger.owner(number);
        let versions = owner.keys.get(&key).map_or(&[][..], Vec::as_slice);
        let cuts = &self.cuts[number];
        let mut left = Vec::new();
        for at in 0..=versions.len() {
            // A version is what a key is from its operation up to the next; before the first it is
            // absent.
            let (from, sum) = match at.checked_sub(1) {
                Some(before) => (versions[before].op, versions[before].sum),
                None => (0, None),
            };
            let next = versions.get(at).map_or(u64::MAX, |next| next.op - 1);
            if !fits(sum) {
                continue;
            }
            let both = cuts.iter().map(|cut| (cut.0.max(from), cut.1.min(next)));
            left.extend(both.filter(|cut| cut.0 <= cut.1));
        }
        if left.is_empty() {
            let versions = versions.to_vec();
            // The other threads go on until they see that this one failed.
            drop(owner);
            panic!(
                "{how}: a wrong answer for {key:?} of owner {number}: {answer} within {cuts:?}, of {versions:?}"
            );
        }
        drop(owner);
        self.cuts[number] = left;
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        for (number, floor) in self.floors.iter().enumerate() {
            // A thread that panicked has said what is wrong.
            let Ok(mut owner) = self.ledger.owners[number].lock() else {
                continue;
            };
            if let Some(count) = owner.floors.get_mut(floor) {
                *count -= 1;
                if *count == 0 {
                    owner.floors.remove(floor);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyId = (0, 0);
    const OTHER: KeyId = (0, 2);

    fn refuses(answer: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(answer).is_err()
    }

    #[test]
    fn a_view_allows_what_was_done_or_had_begun_and_nothing_else() {
        for (answer, right) in [(b"0", false), (b"1", true), (b"2", true), (b"3", false)] {
            let ledger = Ledger::new(2, vec![1]);
            for value in [b"0", b"1"] {
                ledger.begin(0, &[(KEY, Some(sum(value)))]);
                ledger.finish(0);
            }
            let mut view = ledger.view();
            ledger.begin(0, &[(KEY, Some(sum(b"2")))]);
            view.taken();
            ledger.finish(0);
            ledger.begin(0, &[(KEY, Some(sum(b"3")))]);
            let judged = refuses(std::panic::AssertUnwindSafe(|| {
                view.judge(KEY, Some(answer), "test");
            }));
            assert_eq!(judged, !right, "{answer:?}");
        }
    }

    #[test]
    fn a_range_that_is_deleted_is_gone_for_those_who_read_later() {
        let ledger = Ledger::new(2, vec![4]);
        let row = ledger.row_of((0, 6));
        assert_eq!((row.clone(), ledger.owner_of((0, 6))), (4..8, 1));
        ledger.begin(1, &[((0, 5), Some(sum(b"1")))]);
        ledger.finish(1);
        let mut before = ledger.view();
        before.taken();
        let deleted: Vec<_> = row.map(|number| ((0, number), None)).collect();
        ledger.begin(1, &deleted);
        ledger.finish(1);
        before.judge((0, 5), Some(b"1"), "before");
        let mut after = ledger.view();
        after.taken();
        after.judge((0, 6), None, "after");
        assert!(refuses(std::panic::AssertUnwindSafe(|| {
            after.judge((0, 5), Some(b"1"), "after");
        })));
    }

    #[test]
    fn what_was_abandoned_is_seen_by_nobody() {
        let ledger = Ledger::new(1, vec![1]);
        ledger.begin(0, &[(KEY, Some(sum(b"1")))]);
        ledger.finish(0);
        ledger.begin(0, &[(KEY, Some(sum(b"2"))), (OTHER, Some(sum(b"2")))]);
        ledger.abandon(0);
        let mut view = ledger.view();
        view.taken();
        assert!(refuses(std::panic::AssertUnwindSafe(|| {
            view.judge(KEY, Some(b"2"), "after");
        })));
        view.judge(KEY, Some(b"1"), "after");
        view.judge(OTHER, None, "after");
    }

    #[test]
    fn answers_of_one_view_must_fit_together() {
        let ledger = Ledger::new(2, vec![1]);
        let mut view = ledger.view();
        ledger.begin(0, &[(KEY, Some(sum(b"1"))), (OTHER, Some(sum(b"1")))]);
        view.taken();
        view.judge(KEY, Some(b"1"), "test");
        assert!(refuses(std::panic::AssertUnwindSafe(|| {
            view.judge(OTHER, None, "half of a batch");
        })));
    }
}
