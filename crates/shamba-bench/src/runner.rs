//! Drives a workload against an engine, from several threads, and checks every answer.
//!
//! Only the time inside the engine counts; making keys and checking values is left out, for every
//! engine alike. [`fill`] loads, [`run`] measures a [`Mix`], [`run_while_writing`] measures it
//! beside a writer of a steady rate.
mod outcome;

pub use outcome::{Outcome, Summary};

use crate::engine::{Engine, Write};
use crate::workload::{
    Chooser, Distribution, KeySpace, MAX_KEY, Mix, Operation, Permutation, Random, ValueSpec,
    random,
};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is loaded, and the seed of everything.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// The keys.
    pub keys: KeySpace,
    /// The values; a value is a function of its entry's number.
    pub values: ValueSpec,
    /// Decides every random choice.
    pub seed: u64,
    /// The seed of the load: decides in which order entries were written.
    pub load_seed: u64,
}

impl Data {
    /// What was loaded with the seed that all else follows.
    pub fn new(keys: KeySpace, values: ValueSpec, seed: u64) -> Self {
        Self {
            keys,
            values,
            seed,
            load_seed: seed,
        }
    }

    /// Who is asked for, of these entries.
    pub fn chooser(&self, distribution: Distribution) -> Result<Chooser> {
        Chooser::new(distribution, self.keys.entries(), self.seed)
    }
}

/// The order of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By key.
    Sequential,
    /// In a random order, every entry once.
    Random,
}

/// How much of a [`Mix`] is run.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Operations, all threads together.
    pub operations: u64,
    /// Threads.
    pub threads: usize,
    /// Tells phases of one measurement apart, so that they do not repeat each other's choices.
    pub phase: u64,
}

impl Amount {
    /// So many operations of a phase.
    pub fn new(operations: u64, threads: usize, phase: u64) -> Self {
        Self {
            operations,
            threads,
            phase,
        }
    }
}

/// Writes every entry once, `batch` entries at a time: one alone by a put. `progress` counts
/// entries written.
pub fn fill(
    engine: &dyn Engine,
    data: &Data,
    order: Order,
    threads: usize,
    batch: usize,
    progress: &AtomicU64,
) -> Result<Outcome> {
    let entries = data.keys.entries();
    let permutation = &Permutation::new(entries, data.load_seed);
    on_threads(threads, |thread, outcome| {
        let mut waiting: Vec<(Vec<u8>, Vec<u8>)> = vec![Default::default(); batch];
        let part = share(entries, thread, threads);
        for from in part.clone().step_by(batch) {
            let numbers = (from..part.end).map(|at| match order {
                Order::Sequential => at,
                Order::Random => permutation.apply(at),
            });
            let mut used = 0;
            for (number, (key, value)) in numbers.zip(&mut waiting) {
                key.clear();
                key.extend_from_slice(data.keys.key(number, &mut [0; MAX_KEY]));
                data.values.write(number, value);
                used += 1;
            }
            let ((), took) = match &waiting[..used] {
                [(key, value)] => timed(engine, || engine.put(key, value))?,
                many => {
                    let writes = many.iter().map(|(key, value)| Write::Put(key, value));
                    let writes: Vec<Write<'_>> = writes.collect();
                    timed(engine, || engine.write_batch(&writes))?
                }
            };
            outcome.record(took, used as u64);
            progress.fetch_add(used as u64, Ordering::Relaxed);
        }
        Ok(())
    })
}

/// The same in a random order, and nobody is told of the progress.
pub fn load(engine: &dyn Engine, data: &Data, threads: usize, batch: usize) -> Result<Outcome> {
    let untold = AtomicU64::new(0);
    fill(engine, data, Order::Random, threads, batch, &untold)
}

/// Fails unless a scan of everything finds each entry that is not among the deleted ones, and no
/// other. Whoever asks has the engine's cache warm afterwards.
pub(crate) fn check_all(engine: &dyn Engine, data: &Data, deleted: &Range<u64>) -> Result<()> {
    let mut left = (0..data.keys.entries()).filter(|number| !deleted.contains(number));
    let (mut key, mut scratch) = ([0; MAX_KEY], Vec::new());
    engine.scan(&[], usize::MAX, &mut |found, value| {
        let number = left.next();
        let expected = number.filter(|&number| data.keys.key(number, &mut key) == found);
        let stray = || Error::WrongAnswer(format!("a scan found {found:?} for {number:?}"));
        let values = &data.values;
        values.check(expected.ok_or_else(stray)?, value, &mut scratch)
    })?;
    match left.next() {
        None => Ok(()),
        Some(number) => Err(Error::WrongAnswer(format!("entry {number} is missing"))),
    }
}

/// The part of `all` that is done by a thread.
pub(crate) fn share(all: u64, thread: usize, threads: usize) -> Range<u64> {
    let bound = |thread: usize| all * thread as u64 / threads.max(1) as u64;
    bound(thread)..bound(thread + 1)
}

/// Runs `amount` of `mix` on an engine that was filled with `data`. `progress` counts operations.
///
/// Mixes that insert add entries `data.keys.entries()` and up, the same ones in each run; after
/// them only mixes that insert may scan, since others expect exactly what was filled.
pub fn run(
    engine: &dyn Engine,
    data: &Data,
    mix: &Mix,
    amount: Amount,
    progress: &AtomicU64,
) -> Result<Outcome> {
    let inserts = &Inserts::default();
    on_threads(amount.threads, |thread, outcome| {
        let mut worker = Worker::new(engine, data, mix, amount, thread, inserts, outcome)?;
        for at in share(amount.operations, thread, amount.threads) {
            worker.step()?;
            if at % 256 == 0 {
                progress.fetch_add(256, Ordering::Relaxed);
            }
        }
        Ok(())
    })
}

/// The same, and nobody is told of the progress.
pub fn measure(engine: &dyn Engine, data: &Data, mix: &Mix, amount: Amount) -> Result<Outcome> {
    run(engine, data, mix, amount, &AtomicU64::new(0))
}

/// As [`run`], while one more thread overwrites random entries at `rate` writes per second (0:
/// as fast as it can). Returns the outcome of the mix and of the writer.
pub fn run_while_writing(
    engine: &dyn Engine,
    data: &Data,
    mix: &Mix,
    amount: Amount,
    rate: u64,
    progress: &AtomicU64,
) -> Result<(Outcome, Outcome)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<Outcome> {
            let updates = Mix::only(Operation::Update, Distribution::Uniform);
            let inserts = Inserts::default();
            let phase = Amount::new(0, 1, amount.phase ^ (1 << 32));
            on_threads(1, |thread, outcome| {
                let mut worker =
                    Worker::new(engine, data, &updates, phase, thread, &inserts, outcome)?;
                let start = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    let due = start.elapsed().as_secs_f64() * rate as f64;
                    if rate > 0 && worker.outcome.operations as f64 > due {
                        std::thread::sleep(Duration::from_millis(1));
                    } else {
                        worker.step()?;
                    }
                }
                Ok(())
            })
        });
        let read = run(engine, data, mix, amount, progress);
        stop.store(true, Ordering::Relaxed);
        let wrote = joined(writer.join())?;
        Ok((read?, wrote))
    })
}

/// What an engine answers, and how long that took: here, and what a modelled device charged. With
/// several threads, or work in the background, a call may be charged for another one.
pub(crate) fn timed<T>(
    engine: &dyn Engine,
    ask: impl FnOnce() -> Result<T>,
) -> Result<(T, Duration)> {
    let charged = engine.device_ns();
    let start = Instant::now();
    let answer = ask()?;
    let here = start.elapsed();
    let charged = engine.device_ns().saturating_sub(charged);
    Ok((answer, here + Duration::from_nanos(charged)))
}

/// Entries added during a run, beyond the loaded ones.
#[derive(Default)]
struct Inserts {
    given: AtomicU64,
    done: AtomicU64,
}

struct Worker<'a> {
    engine: &'a dyn Engine,
    data: &'a Data,
    mix: &'a Mix,
    chooser: Chooser,
    random: Random,
    inserts: &'a Inserts,
    alone: bool,
    outcome: &'a mut Outcome,
    value: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(
        engine: &'a dyn Engine,
        data: &'a Data,
        mix: &'a Mix,
        amount: Amount,
        thread: usize,
        inserts: &'a Inserts,
        outcome: &'a mut Outcome,
    ) -> Result<Self> {
        Ok(Self {
            engine,
            data,
            mix,
            chooser: data.chooser(mix.distribution)?,
            random: random(data.seed, (amount.phase << 8) + thread as u64 + 1),
            inserts,
            alone: amount.threads <= 1,
            outcome,
            value: Vec::new(),
            scratch: Vec::new(),
        })
    }

    fn step(&mut self) -> Result<()> {
        let inserted = self.inserts.done.load(Ordering::Acquire);
        match self.mix.draw(&mut self.random) {
            Operation::Read => {
                let number = self.chooser.draw_after(inserted, &mut self.random);
                self.read(number)
            }
            Operation::ReadMissing => self.read_missing(),
            Operation::Update => {
                let number = self.chooser.draw(&mut self.random);
                self.put(number)
            }
            Operation::Insert => {
                let number = self.inserts.given.fetch_add(1, Ordering::AcqRel);
                self.put(self.data.keys.entries() + number)?;
                self.inserts.done.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
            Operation::Scan => {
                let number = self.chooser.draw(&mut self.random);
                let length = self.mix.scan.draw(&mut self.random);
                self.scan(number, length)
            }
            Operation::ReadModifyWrite => {
                let number = self.chooser.draw(&mut self.random);
                self.read(number)?;
                self.put(number)
            }
        }
    }

    /// Looks a key up: whether it is there.
    fn get(&mut self, key: &[u8]) -> Result<bool> {
        let (found, took) = timed(self.engine, || self.engine.get(key, &mut self.value))?;
        self.outcome.record(took, 1);
        Ok(found)
    }

    fn read(&mut self, number: u64) -> Result<()> {
        let found = self.get(self.data.keys.key(number, &mut [0; MAX_KEY]))?;
        if found {
            let values = &self.data.values;
            return values.check(number, &self.value, &mut self.scratch);
        }
        // Another thread may have been given a lower number and not have written it yet.
        if number >= self.data.keys.entries() && !self.alone {
            return Ok(());
        }
        Err(Error::WrongAnswer(format!("entry {number} was not found")))
    }

    fn read_missing(&mut self) -> Result<()> {
        let number = self.chooser.draw(&mut self.random);
        if self.get(self.data.keys.absent(number, &mut [0; MAX_KEY]))? {
            return Err(Error::WrongAnswer(format!(
                "a key after entry {number} was found that nobody wrote"
            )));
        }
        Ok(())
    }

    fn put(&mut self, number: u64) -> Result<()> {
        let mut buf = [0; MAX_KEY];
        let key = self.data.keys.key(number, &mut buf);
        self.data.values.write(number, &mut self.value);
        let ((), took) = timed(self.engine, || self.engine.put(key, &self.value))?;
        self.outcome.record(took, 1);
        self.outcome.writes += 1;
        self.outcome.writing += took;
        Ok(())
    }

    fn scan(&mut self, number: u64, length: usize) -> Result<()> {
        let mut buf = [0; MAX_KEY];
        let from = self.data.keys.key(number, &mut buf);
        let stable = !self.mix.inserts();
        // Entries are copied out as a caller would, and checked after the clock has stopped.
        let seen = &mut self.scratch;
        seen.clear();
        let mut sizes: Vec<(usize, usize)> = Vec::with_capacity(length);
        let mut visit = |key: &[u8], value: &[u8]| {
            seen.extend_from_slice(key);
            seen.extend_from_slice(value);
            sizes.push((key.len(), value.len()));
            Ok(())
        };
        let (found, took) = timed(self.engine, || self.engine.scan(from, length, &mut visit))?;
        self.outcome.record(took, 1);
        let wrong = |what: String| Error::WrongAnswer(format!("scan from entry {number}: {what}"));
        let expected = (length as u64).min(self.data.keys.entries() - number) as usize;
        if sizes.len() != found || found > length || (stable && found != expected) {
            return Err(wrong(format!("{found} entries for {expected} of {length}")));
        }
        let mut rest = seen.as_slice();
        let mut previous: Option<&[u8]> = None;
        let mut buf = [0; MAX_KEY];
        for (at, (key_len, value_len)) in sizes.into_iter().enumerate() {
            let (key, after) = rest.split_at(key_len);
            let (value, after) = after.split_at(value_len);
            rest = after;
            if key < from || previous.is_some_and(|previous| previous >= key) {
                return Err(wrong(format!("entry {at} is out of order")));
            }
            previous = Some(key);
            let number = number + at as u64;
            if at == 0 || stable {
                if key != self.data.keys.key(number, &mut buf) {
                    return Err(wrong(format!("entry {at} is another one")));
                }
                self.data.values.check(number, value, &mut self.value)?;
            }
        }
        Ok(())
    }
}

/// Runs `body` on each of `threads` threads, which notes what it does, and adds up the outcomes;
/// one thread is the caller's, so that it can tell its own reads from those of the background.
pub(crate) fn on_threads(
    threads: usize,
    body: impl Fn(usize, &mut Outcome) -> Result<()> + Sync,
) -> Result<Outcome> {
    let start = Instant::now();
    let mut total = Outcome::new(threads)?;
    if threads <= 1 {
        body(0, &mut total)?;
    } else {
        let part = &|thread| {
            let mut outcome = Outcome::new(threads)?;
            body(thread, &mut outcome)?;
            Ok(outcome)
        };
        let parts = std::thread::scope(|scope| {
            let workers = (0..threads).map(|thread| scope.spawn(move || part(thread)));
            let workers: Vec<_> = workers.collect();
            let done = workers.into_iter().map(|worker| joined(worker.join()));
            done.collect::<Result<Vec<_>>>()
        })?;
        parts.iter().try_for_each(|part| total.add(part))?;
    }
    total.wall = start.elapsed();
    Ok(total)
}

fn joined<T>(result: std::thread::Result<Result<T>>) -> Result<T> {
    match result {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;
    use crate::workload::KeyKind;

    fn filled(kind: KeyKind) -> (Box<dyn Engine>, Data) {
        let engine = engine::map();
        let data = Data::new(KeySpace::new(kind, 2000), ValueSpec::random(20), 5);
        let outcome = load(engine.as_ref(), &data, 2, 7).unwrap();
        assert_eq!(outcome.operations, 2000);
        (engine, data)
    }

    #[test]
    fn every_mix_runs_and_its_answers_are_right() {
        for kind in [KeyKind::Plain, KeyKind::Spread, KeyKind::Sized(11)] {
            for letter in 'a'..='f' {
                let (engine, data) = filled(kind);
                let mix = Mix::ycsb(letter).unwrap();
                for threads in [1, 3] {
                    let amount = Amount::new(4000, threads, 1);
                    let outcome = measure(engine.as_ref(), &data, &mix, amount).unwrap();
                    assert!(outcome.operations >= 4000, "{letter}");
                    assert!(outcome.summary().per_second > 0.0);
                }
            }
        }
    }

    #[test]
    fn every_named_mix_runs() {
        let (engine, data) = filled(KeyKind::Plain);
        for name in Mix::NAMES {
            let mix = name.parse().unwrap();
            let outcome = measure(engine.as_ref(), &data, &mix, Amount::new(4000, 2, 1)).unwrap();
            assert!(outcome.operations >= 4000, "{name}");
        }
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let (engine, data) = filled(KeyKind::Plain);
        let enough = Amount::new(60_000, 1, 1);
        let check = |mix: &Mix| measure(engine.as_ref(), &data, mix, enough);
        let lookups = Mix::lookups(0.5, Distribution::Uniform);
        let scans = Mix::only(Operation::Scan, Distribution::Uniform);
        check(&lookups).unwrap();
        check(&scans).unwrap();
        let mut buf = [0; MAX_KEY];
        let key = data.keys.key(77, &mut buf).to_vec();
        let mut value = Vec::new();
        assert!(engine.get(&key, &mut value).unwrap());

        let all_are_wrong = || {
            let mut found = [&lookups, &scans].map(check).into_iter();
            found.all(|found| matches!(found, Err(Error::WrongAnswer(_))))
        };
        engine.delete(&key).unwrap();
        assert!(all_are_wrong());
        value[0] ^= 1;
        engine.put(&key, &value).unwrap();
        assert!(all_are_wrong());
        value[0] ^= 1;
        engine.put(&key, &value).unwrap();
        check(&lookups).unwrap();
        let stray = data.keys.absent(99, &mut buf).to_vec();
        engine.put(&stray, b"x").unwrap();
        assert!(all_are_wrong());
    }

    #[test]
    fn the_writer_keeps_its_rate() {
        let (engine, data) = filled(KeyKind::Plain);
        let mix = Mix::lookups(1.0, Distribution::Uniform);
        let (amount, untold) = (Amount::new(200_000, 1, 1), AtomicU64::new(0));
        let (read, wrote) =
            run_while_writing(engine.as_ref(), &data, &mix, amount, 1000, &untold).unwrap();
        assert_eq!(read.operations, 200_000);
        let allowed = 1000.0 * wrote.wall.as_secs_f64() + 2.0;
        let wrote = wrote.operations as f64;
        assert!(wrote <= allowed, "{wrote} > {allowed}");
    }
}
